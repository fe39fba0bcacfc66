// SPDX-License-Identifier: Apache-2.0

// Timers for all VIs with one comparator. Deadlines live in the owner's memory; this module keeps a
// lower bound on the earliest. When the timebase reaches it, the module visits all armed VIs in
// turn, and the owner returns the deadline that each VI has then. So a postponed deadline is found,
// and the next walk starts at the earliest one left.
module hvia_deadline_walker (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [47:0]  timebase_i,
    input  hvia_params_pkg::vis_t armed_i,  // VIs that have a deadline
    // A deadline was set, or the visited VI keeps this one.
    input  logic         set_valid_i,
    input  logic [47:0]  set_deadline_i,
    // Check this VI's deadline.
    output logic         visit_valid_o,
    input  logic         visit_done_i,
    output hvia_params_pkg::vi_t visit_vi_o,
    output logic [47:0]  next_deadline_o,
    output logic         quiet_o
);

  logic        walk_q, start, forget, step;
  hvia_params_pkg::vi_t vi_q;
  logic [47:0] next_q, base, next;

  // All ones mean no deadline.
  assign start  = !walk_q && armed_i != '0 && timebase_i >= next_q;
  assign forget = armed_i == '0 && next_q != '1;
  assign base   = (start || forget) ? '1 : next_q;
  assign next   = (set_valid_i && set_deadline_i < base) ? set_deadline_i : base;

  assign visit_valid_o   = walk_q && armed_i[vi_q];
  assign visit_vi_o      = vi_q;
  assign next_deadline_o = next_q;
  assign step            = walk_q && (visit_done_i || !armed_i[vi_q]);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      walk_q <= 1'b0;
      vi_q   <= '0;
      next_q <= '1;
    end else begin
      if (start) begin
        walk_q <= 1'b1;
        vi_q   <= '0;
      end else if (step) begin
        walk_q <= vi_q != '1;
        vi_q   <= vi_q + 1'b1;
      end
      next_q <= next;
    end
  end

  assign quiet_o = !start && !walk_q && next == next_q;

endmodule
