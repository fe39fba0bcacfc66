// SPDX-License-Identifier: Apache-2.0

// The raw-frame port: plain Ethernet frames of the agent, through a transmit and a receive ring in
// host memory (`raw_ring` describes the life of an entry). This module shares one host bus
// requester between the rings, with at most one read and one write in flight, and passes entries to
// the engines.
//
// Status writes precede fetches, and the rings take turns.
//
// The interrupt of an entry is raised when its status is in memory. If that write failed there is
// no interrupt, and the ring continues.
module hvia_raw_port #(
    parameter int unsigned W = 32
) (
    input logic clk_i,
    input logic rst_ni,

    // Registers
    input  logic [31:0] tx_base_i,
    input  logic [ 3:0] tx_size_i,
    input  logic [ 7:0] tx_tail_i,
    input  logic        tx_restart_i,
    output logic [ 7:0] tx_head_o,
    output logic        tx_busy_o,
    input  logic [31:0] rx_base_i,
    input  logic [ 3:0] rx_size_i,
    input  logic [ 7:0] rx_tail_i,
    input  logic        rx_restart_i,
    output logic [ 7:0] rx_head_o,
    output logic        rx_busy_o,

    // Host bus
    output logic           req_valid_o,
    input  logic           req_ready_i,
    output logic           req_write_o,
    output logic [   31:0] req_addr_o,
    output logic [    9:0] req_len_o,
    output logic [  W-1:0] wdata_o,
    output logic [W/8-1:0] wstrb_o,
    output logic           wvalid_o,
    input  logic           wready_i,
    input  logic           wdone_i,
    input  logic           werr_i,
    input  logic [  W-1:0] rdata_i,
    input  logic           rvalid_i,
    output logic           rready_o,
    input  logic           rlast_i,
    input  logic           rerr_i,

    // tx_engine
    output logic        rawtx_valid_o,
    input  logic        rawtx_ready_i,
    output logic [31:0] rawtx_pa_o,
    output logic [10:0] rawtx_len_o,
    input  logic        rawtx_done_i,
    input  logic        rawtx_err_i,

    // rx_engine
    output logic        rawrx_valid_o,
    input  logic        rawrx_ready_i,
    output logic [31:0] rawrx_pa_o,
    output logic [15:0] rawrx_capacity_o,
    input  logic        rawrx_done_i,
    input  logic [15:0] rawrx_len_i,
    input  logic        rawrx_err_i,

    output logic irq_raw_transmit_o,
    output logic irq_raw_receive_o,
    output logic stat_raw_transmit_o,
    output logic stat_raw_transmit_error_o,
    output logic stat_raw_receive_o,
    output logic stat_raw_receive_error_o,

    output logic        trace_valid_o,
    output logic [ 7:0] trace_event_o,
    output logic [ 7:0] trace_vi_o,
    output logic [15:0] trace_seq_o,

    output logic quiet_o
);

  localparam int unsigned Lanes = W / 32;
  localparam int unsigned StatusLane = (hvia_pkg::RawEntryStatusOffset / 4) % Lanes;

  // Rings are aligned to 16 bytes.
  logic [7:0] unused_base;
  assign unused_base = {tx_base_i[3:0], rx_base_i[3:0]};

  // Rings: 0 transmit, 1 receive.
  logic [1:0] fetch_valid, fetch_ready, fetch_done;
  logic [1:0] status_valid, status_ready, status_done, ring_quiet;
  logic [31:0] tx_fetch_addr, rx_fetch_addr, tx_status_addr, rx_status_addr;
  logic [31:0] tx_status, rx_status, fetch_pa, fetch_len;
  logic [12:0] tx_len, rx_len;
  logic [7:0] tx_index;
  logic fetch_err;

  hvia_raw_ring #(.Transmit(1'b1)) u_transmit (
      .clk_i, .rst_ni, .base_i(tx_base_i[31:4]), .size_i(tx_size_i), .tail_i(tx_tail_i),
      .restart_i(tx_restart_i), .head_o(tx_head_o), .busy_o(tx_busy_o),
      .fetch_valid_o(fetch_valid[0]), .fetch_ready_i(fetch_ready[0]), .fetch_addr_o(tx_fetch_addr),
      .fetch_done_i(fetch_done[0]), .fetch_err_i(fetch_err), .fetch_pa_i(fetch_pa),
      .fetch_len_i(fetch_len),
      .entry_valid_o(rawtx_valid_o), .entry_ready_i(rawtx_ready_i), .entry_pa_o(rawtx_pa_o),
      .entry_len_o(tx_len), .entry_index_o(tx_index), .entry_done_i(rawtx_done_i),
      .entry_err_i(rawtx_err_i), .entry_bytes_i(16'd0),
      .status_valid_o(status_valid[0]), .status_ready_i(status_ready[0]),
      .status_addr_o(tx_status_addr), .status_data_o(tx_status), .status_done_i(status_done[0]),
      .status_err_i(werr_i),
      .written_o(irq_raw_transmit_o),
      .stat_good_o(stat_raw_transmit_o), .stat_error_o(stat_raw_transmit_error_o),
      .quiet_o(ring_quiet[0])
  );
  // The ring rejects frames that need more bits.
  logic [1:0] unused_tx_len;
  assign {unused_tx_len, rawtx_len_o} = tx_len;

  logic [7:0] unused_rx_index;
  hvia_raw_ring #(.Transmit(1'b0)) u_receive (
      .clk_i, .rst_ni, .base_i(rx_base_i[31:4]), .size_i(rx_size_i), .tail_i(rx_tail_i),
      .restart_i(rx_restart_i), .head_o(rx_head_o), .busy_o(rx_busy_o),
      .fetch_valid_o(fetch_valid[1]), .fetch_ready_i(fetch_ready[1]), .fetch_addr_o(rx_fetch_addr),
      .fetch_done_i(fetch_done[1]), .fetch_err_i(fetch_err), .fetch_pa_i(fetch_pa),
      .fetch_len_i(fetch_len),
      .entry_valid_o(rawrx_valid_o), .entry_ready_i(rawrx_ready_i), .entry_pa_o(rawrx_pa_o),
      .entry_len_o(rx_len), .entry_index_o(unused_rx_index), .entry_done_i(rawrx_done_i),
      .entry_err_i(rawrx_err_i), .entry_bytes_i(rawrx_len_i),
      .status_valid_o(status_valid[1]), .status_ready_i(status_ready[1]),
      .status_addr_o(rx_status_addr), .status_data_o(rx_status), .status_done_i(status_done[1]),
      .status_err_i(werr_i),
      .written_o(irq_raw_receive_o),
      .stat_good_o(stat_raw_receive_o), .stat_error_o(stat_raw_receive_error_o),
      .quiet_o(ring_quiet[1])
  );
  assign rawrx_capacity_o = 16'(rx_len);

  // Requests: one is held in a register until the bus takes it.
  logic req_valid_q, req_write_q, wvalid_q;
  logic [31:0] req_addr_q, wdata_q;
  logic reading_q, read_rx_q, writing_q, write_rx_q;
  logic issue, issue_status, issue_fetch, choose_status, choose_fetch;

  assign issue_status  = !req_valid_q && !writing_q && (|status_valid);
  assign issue_fetch   = !req_valid_q && !reading_q && (|fetch_valid) && !issue_status;
  assign issue         = issue_status || issue_fetch;
  // Turns: the ring that was not served last is first.
  assign choose_status = status_valid[1] && !(status_valid[0] && write_rx_q);
  assign choose_fetch  = fetch_valid[1] && !(fetch_valid[0] && read_rx_q);
  assign status_ready  = {issue_status && choose_status, issue_status && !choose_status};
  assign fetch_ready   = {issue_fetch && choose_fetch, issue_fetch && !choose_fetch};

  logic read_end, read_beat;
  logic [1:0] beat_q;
  assign read_beat   = reading_q && rvalid_i;
  assign read_end    = read_beat && rlast_i;
  assign fetch_done  = {read_end && read_rx_q, read_end && !read_rx_q};
  assign fetch_err   = rerr_i;
  assign status_done = {writing_q && wdone_i && write_rx_q, writing_q && wdone_i && !write_rx_q};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      req_valid_q <= 1'b0;
      req_write_q <= 1'b0;
      wvalid_q    <= 1'b0;
      reading_q   <= 1'b0;
      read_rx_q   <= 1'b0;
      writing_q   <= 1'b0;
      write_rx_q  <= 1'b0;
      beat_q      <= 2'd0;
    end else begin
      req_valid_q <= issue || (req_valid_q && !req_ready_i);
      if (issue) req_write_q <= issue_status;
      wvalid_q  <= issue_status || (wvalid_q && !wready_i);
      reading_q <= issue_fetch || (reading_q && !read_end);
      writing_q <= issue_status || (writing_q && !wdone_i);
      if (issue_fetch) read_rx_q <= choose_fetch;
      if (issue_status) write_rx_q <= choose_status;
      if (read_end) beat_q <= 2'd0;
      else if (read_beat) beat_q <= beat_q + 2'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (issue_status) begin
      req_addr_q <= choose_status ? rx_status_addr : tx_status_addr;
      wdata_q    <= choose_status ? rx_status : tx_status;
    end
    if (issue_fetch) req_addr_q <= choose_fetch ? rx_fetch_addr : tx_fetch_addr;
  end

  assign req_valid_o = req_valid_q;
  assign req_write_o = req_write_q;
  assign req_addr_o  = req_addr_q;
  assign req_len_o   = req_write_q ? 10'd4 : 10'(hvia_pkg::RawEntrySize);
  assign wvalid_o    = wvalid_q;
  assign wdata_o     = W'(wdata_q) << (32 * StatusLane);
  assign wstrb_o     = (W / 8)'(4'hf) << (4 * StatusLane);
  assign rready_o    = reading_q;

  // The first two dwords of an entry are address and length; the rest is ignored.
  logic [63:0] first_q;
  if (Lanes > 1) begin : g_wide
    always_ff @(posedge clk_i) begin
      if (read_beat && beat_q == 2'd0) first_q <= rdata_i;
    end
  end else begin : g_narrow
    always_ff @(posedge clk_i) begin
      if (read_beat && beat_q == 2'd0) first_q[31:0] <= rdata_i;
      if (read_beat && beat_q == 2'd1) first_q[63:32] <= rdata_i;
    end
  end
  assign fetch_pa  = first_q[31:0];
  assign fetch_len = first_q[63:32];

  // Trace: a receive event goes first, a transmit event of the same clock follows.
  logic sent_q;
  logic [7:0] sent_index_q;
  logic sent;
  assign sent = stat_raw_transmit_o;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) sent_q <= 1'b0;
    else sent_q <= sent || (sent_q && irq_raw_receive_o);
  end
  always_ff @(posedge clk_i) begin
    if (sent) sent_index_q <= tx_index;
  end
  assign trace_valid_o = irq_raw_receive_o || sent_q;
  assign trace_event_o = irq_raw_receive_o ? hvia_pkg::TraceEventRawReceived :
                                             hvia_pkg::TraceEventRawTransmitted;
  assign trace_vi_o    = 8'd0;
  assign trace_seq_o   = {8'd0, irq_raw_receive_o ? rx_head_o : sent_index_q};

  assign quiet_o = (&ring_quiet) && !issue && !(req_valid_q && req_ready_i) &&
      !(wvalid_q && wready_i) && !read_beat && !(writing_q && wdone_i) && !sent_q;

endmodule
