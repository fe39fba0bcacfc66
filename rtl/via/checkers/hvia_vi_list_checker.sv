// SPDX-License-Identifier: Apache-2.0

// Properties of `vi_list`: its length equals the number of set bits; nothing is taken from an empty
// list; no state changes while `quiet_o` is 1.
module hvia_vi_list_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic         pop_i,
    input logic         any_o,
    input logic         enter,
    input hvia_params_pkg::vis_t listed_q,
    input logic [hvia_params_pkg::VICountLog2:0] head_q,
    input logic [hvia_params_pkg::VICountLog2:0] tail_q,
    input logic         quiet_o
);

  logic        quiet_q, moved_q;
  logic [2*hvia_params_pkg::VICountLog2+1:0] was_q;
  logic [hvia_params_pkg::VICountLog2:0] places;
  assign places = tail_q - head_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
      moved_q <= 1'b0;
      was_q   <= '0;
    end else begin
      quiet_q <= quiet_o;
      moved_q <= enter || pop_i;
      was_q   <= {head_q, tail_q};
      assert (!quiet_q || {head_q, tail_q} == was_q)
      else $error("vi_list: a pointer moved after it said quiet");
      assert (!pop_i || any_o)
      else $error("vi_list: taken from an empty list");
      if (moved_q) begin
        assert (32'($countones(listed_q)) == 32'(places))
        else $error("vi_list: %0d places, %0d VIs listed", places, $countones(listed_q));
      end
    end
  end

endmodule

bind hvia_vi_list hvia_vi_list_checker u_checker (.*);
