// SPDX-License-Identifier: Apache-2.0

// Carries one word at a time from the source clock to the destination clock by a two-phase
// handshake: a request toggle forward, an acknowledge toggle back. A source register holds the word
// until it is taken, so only the toggles pass synchronisers. Latency: one source clock, then two
// destination clocks. The source accepts the next word two source clocks after the destination took
// this one.
//
// Reset: the reset of either side clears both sides, each at its next clock, and drops a word in
// flight. It lasts until both clocks have had an edge. Neither side is quiescent during reset.
//
// A side is quiescent when none of its flops changes at its next clock. A settled word that waits
// for `dst_ready_i` is quiescent; the neighbour that withholds ready must report that it is busy.
module hvia_cdc_handshake #(
    parameter int unsigned Width = 32,
    // The given resets are already joined: asserted together, each released with its clock.
    parameter bit Joined = 1'b0
) (
    input  logic             src_clk_i,
    input  logic             src_rst_ni,
    input  logic             src_valid_i,
    output logic             src_ready_o,
    input  logic [Width-1:0] src_data_i,
    output logic             src_quiet_o,

    input  logic             dst_clk_i,
    input  logic             dst_rst_ni,
    output logic             dst_valid_o,
    input  logic             dst_ready_i,
    output logic [Width-1:0] dst_data_o,
    output logic             dst_quiet_o
);

  logic src_rst_n, src_out_q, src_live, dst_rst_n, dst_out_q, dst_live;  // out of reset
  if (Joined) begin : g_joined
    assign src_rst_n = src_rst_ni;
    assign dst_rst_n = dst_rst_ni;
    always_ff @(posedge src_clk_i) src_out_q <= src_rst_ni;
    always_ff @(posedge dst_clk_i) dst_out_q <= dst_rst_ni;
  end else begin : g_join
    logic both_rst_n;
    assign both_rst_n = src_rst_ni & dst_rst_ni;
    hvia_cdc_reset_sync u_src_reset (
        .clk_i(src_clk_i), .arst_ni(both_rst_n), .rst_no(src_rst_n), .live_o(src_out_q)
    );
    hvia_cdc_reset_sync u_dst_reset (
        .clk_i(dst_clk_i), .arst_ni(both_rst_n), .rst_no(dst_rst_n), .live_o(dst_out_q)
    );
  end
  assign src_live = src_rst_n & src_out_q;
  assign dst_live = dst_rst_n & dst_out_q;

  // Source side.
  logic req_q, ack_sync, ack_settled;
  logic [Width-1:0] data_q;
  logic ack_q, req_sync, req_settled;
  logic src_take;

  hvia_cdc_sync #(.Width(1)) u_ack_sync (
      .clk_i(src_clk_i), .rst_ni(src_rst_n), .d_i(ack_q), .q_o(ack_sync), .settled_o(ack_settled)
  );

  assign src_ready_o = src_live && (req_q == ack_sync);
  assign src_take    = src_valid_i && src_ready_o;
  assign src_quiet_o = src_live && ack_settled && !src_take;

  always_ff @(posedge src_clk_i) begin
    if (!src_rst_n) req_q <= 1'b0;
    else if (src_take) req_q <= !req_q;
  end

  always_ff @(posedge src_clk_i) begin
    if (src_take) data_q <= src_data_i;
  end

  // Destination side.
  logic dst_take;

  hvia_cdc_sync #(.Width(1)) u_req_sync (
      .clk_i(dst_clk_i), .rst_ni(dst_rst_n), .d_i(req_q), .q_o(req_sync), .settled_o(req_settled)
  );

  assign dst_valid_o = dst_live && (req_sync != ack_q);
  assign dst_data_o  = data_q;
  assign dst_take    = dst_valid_o && dst_ready_i;
  assign dst_quiet_o = dst_live && req_settled && !dst_take;

  always_ff @(posedge dst_clk_i) begin
    if (!dst_rst_n) ack_q <= 1'b0;
    else if (dst_take) ack_q <= req_sync;
  end

endmodule
