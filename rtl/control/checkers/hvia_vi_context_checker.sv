// SPDX-License-Identifier: Apache-2.0

// Properties of `vi_context`: a settled port shows the word of its index; a VI that is not live
// reads as Free; no state changes while `quiet_o` is 1.

module hvia_vi_context_checker (
    input logic          clk_i,
    input logic          rst_ni,
    input logic [4*hvia_params_pkg::VICountLog2-1:0] rd_vi_i,
    input logic [4*128-1:0] rd_ctx_o,
    input logic          hold_valid_i,
    input hvia_params_pkg::vis_t live_q,
    input hvia_params_pkg::vis_t live_o,
    input logic          quiet_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;

  logic quiet_q;
  logic [511:0] ctx_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
    end else begin
      quiet_q <= quiet_o;
      if (quiet_q) begin
        assert (rd_ctx_o == ctx_q)
        else $error("vi_context: a read port changed after quiet");
      end
      for (int p = 0; p < 4; p++) begin
        if (quiet_o && !live_q[rd_vi_i[VIW*p+:VIW]]) begin
          assert (rd_ctx_o[128*p+:128] == 128'(hvia_pkg::VIStateFree))
          else $error("vi_context: port %0d shows a word of a VI that is not in use", p);
        end
      end
      assert ((live_o & ~live_q) == '0)
      else $error("vi_context: a VI that is Free counts as live");
      assert (hold_valid_i || live_o == live_q)
      else $error("vi_context: a VI in use does not count as live");
      // State at the start of a quiescent span.
      if (quiet_o && !quiet_q) ctx_q <= rd_ctx_o;
    end
  end

endmodule

bind hvia_vi_context hvia_vi_context_checker u_checker (.*);
