// SPDX-License-Identifier: Apache-2.0

// Replaces cdc_sync in the test of the crossings. A change of the input since the last clock is
// seen now or a clock later, at random for each bit, as a first flop with a violated set-up time
// resolves. Older changes have settled. A crossing that changes more than one bit at a time fails
// here and passes with ideal flops.
module hvia_cdc_sync #(
    parameter int unsigned Width = 1
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic [Width-1:0] d_i,
    output logic [Width-1:0] q_o,
    output logic             settled_o
);

  logic [Width-1:0] now, earlier, meta_q, stable_q, choice;
  logic [7:0] changes, changes_q;
  logic armed_q;  // changes during reset have settled at the first clock

  // verilator lint_off BLKSEQ
  initial begin
    now     = '0;
    earlier  = '0;
    changes = 8'd0;
  end
  always @(d_i) begin
    earlier  = now;
    now     = d_i;
    changes = changes + 8'd1;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      changes_q <= 8'd0;
      armed_q   <= 1'b0;
      meta_q    <= '0;
      stable_q  <= '0;
    end else begin
      choice = Width'($urandom);
      changes_q <= changes;
      armed_q   <= 1'b1;
      meta_q    <= (!armed_q || (changes == changes_q)) ? d_i
                                                        : (d_i & choice) | (earlier & ~choice);
      stable_q  <= meta_q;
    end
  end
  // verilator lint_on BLKSEQ

  assign q_o       = stable_q;
  assign settled_o = armed_q && (changes == changes_q) && (d_i == meta_q) && (meta_q == stable_q);

endmodule
