// SPDX-License-Identifier: Apache-2.0

// Asynchronous FIFO with gray-coded pointers: `Depth` words (a power of two, at least 2), one word
// per clock on either side. `dst_data_o` shows the oldest word while `dst_valid_o` is 1.
//
// Reset: the reset of either side empties the FIFO and clears both pointers, each side at its next
// clock. It lasts until both clocks have had an edge. Neither side is quiescent during reset.
//
// A side is quiescent when none of its flops changes at its next clock: it moves no word, and the
// other side's pointer has passed the synchroniser. Settled words may wait inside.
module hvia_cdc_fifo #(
    parameter int unsigned Width = 32,
    parameter int unsigned Depth = 16,
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

  localparam int unsigned AddrW = $clog2(Depth);

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

  logic [Width-1:0] mem[0:Depth-1];

  // Pointers have one bit more than the address to distinguish full from empty.
  logic [AddrW:0] wbin_q, wbin_d, wgray_q, wgray_sync;
  logic [AddrW:0] rbin_q, rbin_d, rgray_q, rgray_sync;
  logic rgray_settled, wgray_settled;

  // Source side. Full: the write pointer is one lap ahead, which in gray code means that the two
  // upper bits are inverted and the rest is equal.
  logic full, push;

  hvia_cdc_sync #(.Width(AddrW + 1)) u_rgray_sync (
      .clk_i(src_clk_i), .rst_ni(src_rst_n), .d_i(rgray_q), .q_o(rgray_sync),
      .settled_o(rgray_settled)
  );

  logic [AddrW:0] full_gray;
  always_comb begin
    full_gray            = rgray_sync;
    full_gray[AddrW]     = !rgray_sync[AddrW];
    full_gray[AddrW-1]   = !rgray_sync[AddrW-1];
  end

  assign full        = wgray_q == full_gray;
  assign src_ready_o = src_live && !full;
  assign push        = src_valid_i && src_ready_o;
  assign src_quiet_o = src_live && rgray_settled && !push;
  assign wbin_d      = wbin_q + 1'b1;

  always_ff @(posedge src_clk_i) begin
    if (!src_rst_n) begin
      wbin_q  <= '0;
      wgray_q <= '0;
    end else if (push) begin
      wbin_q  <= wbin_d;
      wgray_q <= wbin_d ^ (wbin_d >> 1);
    end
  end

  always_ff @(posedge src_clk_i) begin
    if (push) mem[wbin_q[AddrW-1:0]] <= src_data_i;
  end

  // Destination side.
  logic pop;

  hvia_cdc_sync #(.Width(AddrW + 1)) u_wgray_sync (
      .clk_i(dst_clk_i), .rst_ni(dst_rst_n), .d_i(wgray_q), .q_o(wgray_sync),
      .settled_o(wgray_settled)
  );

  assign dst_valid_o = dst_live && (rgray_q != wgray_sync);
  assign dst_data_o  = mem[rbin_q[AddrW-1:0]];
  assign pop         = dst_valid_o && dst_ready_i;
  assign dst_quiet_o = dst_live && wgray_settled && !pop;
  assign rbin_d      = rbin_q + 1'b1;

  always_ff @(posedge dst_clk_i) begin
    if (!dst_rst_n) begin
      rbin_q  <= '0;
      rgray_q <= '0;
    end else if (pop) begin
      rbin_q  <= rbin_d;
      rgray_q <= rbin_d ^ (rbin_d >> 1);
    end
  end

endmodule
