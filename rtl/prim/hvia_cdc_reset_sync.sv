// SPDX-License-Identifier: Apache-2.0

// Reset synchroniser: asserts at once, releases on an edge of `clk_i`. `live_o` follows one clock
// later: it is 0 after the domain's registers were reset.
module hvia_cdc_reset_sync (
    input  logic clk_i,
    input  logic arst_ni,
    output logic rst_no,
    output logic live_o
);

  logic first_q;

  always_ff @(posedge clk_i or negedge arst_ni) begin
    if (!arst_ni) {rst_no, first_q} <= 2'b00;
    else {rst_no, first_q} <= {first_q, 1'b1};
  end

  always_ff @(posedge clk_i) live_o <= rst_no;

endmodule
