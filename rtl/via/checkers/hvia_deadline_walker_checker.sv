// SPDX-License-Identifier: Apache-2.0

// Properties of `deadline_walker`: no deadline is earlier than the known earliest; a walk ends; a
// VI is armed only with a deadline; no state changes while `quiet_o` is 1 before the reported
// deadline.
module hvia_deadline_walker_checker (
    input logic         clk_i,
    input logic         rst_ni,
    input logic [47:0]  timebase_i,
    input hvia_params_pkg::vis_t armed_i,
    input logic         set_valid_i,
    input logic [47:0]  set_deadline_i,
    input logic         walk_q,
    input hvia_params_pkg::vi_t vi_q,
    input logic [47:0]  next_q,
    input logic         quiet_o
);

  logic        quiet_q, set_q;
  logic [47:0] next_was_q, deadline_q;
  logic [48+hvia_params_pkg::VICountLog2:0] was_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      quiet_q <= 1'b0;
      set_q   <= 1'b0;
      was_q   <= '0;
    end else begin
      quiet_q    <= quiet_o;
      set_q      <= set_valid_i;
      deadline_q <= set_deadline_i;
      next_was_q <= next_q;
      was_q      <= {walk_q, vi_q, next_q};
      assert (!quiet_q || {walk_q, vi_q, next_q} == was_q)
      else $error("deadline_walker: a register changed after it said quiet");
      assert (!set_q || next_q <= deadline_q)
      else $error("deadline_walker: deadline %0d was set, %0d is the next", deadline_q, next_q);
      assert (!(quiet_o && armed_i != '0 && next_q == '1))
      else $error("deadline_walker: a VI has a deadline and none is known");
      assert (!(quiet_o && armed_i != '0 && timebase_i >= next_q))
      else $error("deadline_walker: deadline %0d has passed and it says quiet", next_q);
      assert (!(quiet_o && armed_i == '0 && next_q != '1))
      else $error("deadline_walker: deadline %0d of nobody (was %0d)", next_q, next_was_q);
    end
  end

endmodule

bind hvia_deadline_walker hvia_deadline_walker_checker u_checker (.*);
