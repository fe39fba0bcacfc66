// SPDX-License-Identifier: Apache-2.0

// Two-flop synchroniser for levels. Bits are independent, so a vector must change one bit at a time
// (a gray code) or carry unrelated levels. `settled_o` means that the next clock changes no flop
// here. It compares with the raw input, so use it for `quiet_o` only, never for logic.
module hvia_cdc_sync #(
    parameter int unsigned Width = 1
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic [Width-1:0] d_i,
    output logic [Width-1:0] q_o,
    output logic             settled_o
);

  logic [Width-1:0] meta_q;
  logic [Width-1:0] stable_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      meta_q   <= '0;
      stable_q <= '0;
    end else begin
      meta_q   <= d_i;
      stable_q <= meta_q;
    end
  end

  assign q_o       = stable_q;
  assign settled_o = (d_i == meta_q) && (meta_q == stable_q);

endmodule
