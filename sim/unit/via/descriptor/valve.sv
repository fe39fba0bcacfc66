// SPDX-License-Identifier: Apache-2.0

// Adds back-pressure between two neighbours inside the testbench. An offer passes when the gate is
// open. Once shown, it stays.
module valve (
    input  logic clk_i,
    input  logic rst_ni,
    input  logic gate_i,
    input  logic valid_i,
    output logic ready_o,
    output logic valid_o,
    input  logic ready_i
);

  logic shown_q;
  assign valid_o = valid_i && (gate_i || shown_q);
  assign ready_o = ready_i && valid_o;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) shown_q <= 1'b0;
    else shown_q <= valid_o && !ready_i;
  end

endmodule
