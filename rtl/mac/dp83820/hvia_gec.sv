// SPDX-License-Identifier: Apache-2.0

// Gigabit Ethernet controller: the packet buffers between the engines (core clock) and the MAC, two
// slots of `PacketSlotBytes` per direction. The MAC is a DP83820 on a separate PCI bus
// (`mac_clk_i`): `mac_bus_host` is the host and arbiter of that bus, `mac_bus_target` the memory
// that holds the chip's descriptors and frames.
//
// The two descriptors of a ring are not stored but derived from the slots: the chip owns a transmit
// descriptor while its slot holds a frame, a receive descriptor while its slot is empty. The chip's
// write of a status advances the slot. The chip follows the ring, so slots are used in turn. A
// status that contradicts the slot's state counts as a bus error.
//
// Bad received frames are dropped and counted once: bad (a receive error, or too short) or long
// (more than `MaxFrame` bytes). An overrun of the chip's FIFO is counted where the chip reports it,
// with the next status.
//
// Frame lengths and events cross through `cdc_fifo`, whose words order all accesses to a slot's
// memory. Events reach the core two to three core clocks after their MAC clock, so the trace events
// are late by that much. Both resets must be given together; either may end first.
//
// If the MAC side holds a slot for 2^`TransmitSlotLog2` clocks (no link, a dead PHY, no chip), the
// core takes it back, so that no engine waits for a wire: it resets the chip's transmitter, and
// drops and counts the frames in the slots. Frames in the chip's FIFO are lost with them.
//
// Straps, static after reset: with `cut_tx_i` a frame of known length is offered after its first
// `EarlyBytes`, with `cut_rx_i` a received one while the chip still writes it; with
// `single_tx_slot_i` or `single_rx_slot_i` one slot is in use at a time; with `short_bursts_i` the
// chip's bursts are short.
module hvia_gec #(
    parameter int unsigned W = 32  // of the engines' side and of the MAC bus, 32 or 64
) (
    input  logic                   clk_i,
    input  logic                   rst_ni,
    input  logic [47:0]            timebase_i,
    output logic [47:0]            next_deadline_o,
    input  logic                   enable_i,  // receive
    input  logic [47:0]            mac_i,     // station address, wire byte 0 in bits 7:0
    input  logic                   single_tx_slot_i,
    input  logic                   single_rx_slot_i,
    input  logic                   cut_tx_i,
    input  logic                   cut_rx_i,
    input  logic                   short_bursts_i,

    // From the transmit engine: packed beats, first wire byte in bits 7:0.
    output logic                   tx_slot_ready_o,
    input  logic                   tx_wvalid_i,
    output logic                   tx_wready_o,
    input  logic [W-1:0]           tx_wdata_i,
    input  logic [$clog2(W/8):0]   tx_wbytes_i,
    input  logic                   tx_wlast_i,
    input  logic                   tx_wabort_i,
    // length of the frame with each beat, 0 = unknown; for cut_tx_i only
    input  logic [10:0]            tx_wlen_i,
    input  logic [7:0]             tx_wvi_i,   // for the trace only
    input  logic [15:0]            tx_wseq_i,

    // To the receive engine.
    output logic                   rx_valid_o,
    output logic [10:0]            rx_len_o,
    output logic [10:0]            rx_avail_o,
    output logic                   rx_end_o,
    output logic                   rx_bad_o,
    input  logic [$clog2(hvia_params_pkg::PacketSlotBytes*8/W)-1:0] rx_raddr_i,
    output logic [W-1:0]           rx_rdata_o,
    input  logic                   rx_done_i,

    output logic                   mac_ready_o,
    input  logic                   phy_link_n_i,  // pin of the PHY, low with a link; asynchronous
    output logic                   link_down_o,

    output logic                   stat_mac_transmit_frame_o,
    output logic                   stat_mac_receive_frame_o,
    output logic                   stat_mac_receive_bad_o,
    output logic                   stat_mac_receive_long_o,
    output logic                   stat_mac_receive_overrun_o,
    output logic                   stat_mac_bus_error_o,
    output logic                   stat_mac_transmit_dropped_o,
    output logic                   trace_tx_valid_o,
    output logic [7:0]             trace_tx_event_o,
    output logic [7:0]             trace_tx_vi_o,
    output logic [15:0]            trace_tx_seq_o,
    output logic                   trace_rx_valid_o,
    output logic [7:0]             trace_rx_event_o,
    output logic [7:0]             trace_rx_vi_o,
    output logic [15:0]            trace_rx_seq_o,
    output logic                   trace_bus_valid_o,
    output logic [7:0]             trace_bus_event_o,
    output logic [7:0]             trace_bus_vi_o,
    output logic [15:0]            trace_bus_seq_o,
    output logic                   quiet_o,

    // MAC bus.
    input  logic                   mac_clk_i,
    input  logic                   mac_rst_ni,
    output logic                   mb_rst_no,
    output logic                   mb_idsel_o,
    input  logic                   mb_req_n_i,
    output logic                   mb_gnt_n_o,
    input  logic [W-1:0]           mb_ad_i,
    output logic [W-1:0]           mb_ad_o,
    output logic                   mb_ad_oe,
    input  logic [W/8-1:0]         mb_cbe_n_i,
    output logic [W/8-1:0]         mb_cbe_n_o,
    output logic                   mb_cbe_n_oe,
    input  logic                   mb_par_i,
    output logic                   mb_par_o,
    output logic                   mb_par_oe,
    input  logic                   mb_par64_i,
    output logic                   mb_par64_o,
    output logic                   mb_par64_oe,
    input  logic                   mb_frame_n_i,
    output logic                   mb_frame_n_o,
    output logic                   mb_frame_n_oe,
    input  logic                   mb_irdy_n_i,
    output logic                   mb_irdy_n_o,
    output logic                   mb_irdy_n_oe,
    input  logic                   mb_trdy_n_i,
    output logic                   mb_trdy_n_o,
    output logic                   mb_trdy_n_oe,
    input  logic                   mb_devsel_n_i,
    output logic                   mb_devsel_n_o,
    output logic                   mb_devsel_n_oe,
    input  logic                   mb_stop_n_i,
    output logic                   mb_stop_n_o,
    output logic                   mb_stop_n_oe,
    input  logic                   mb_req64_n_i,
    output logic                   mb_req64_n_o,
    output logic                   mb_req64_n_oe,
    input  logic                   mb_ack64_n_i,
    output logic                   mb_ack64_n_o,
    output logic                   mb_ack64_n_oe,
    output logic                   mac_quiet_o
);

  localparam int unsigned Lanes     = W / 8;
  localparam int unsigned LaneW     = $clog2(Lanes);
  localparam int unsigned SlotWords = hvia_params_pkg::PacketSlotBytes / Lanes;
  localparam int unsigned SlotW     = $clog2(hvia_params_pkg::PacketSlotBytes);
  localparam int unsigned AddrW     = SlotW - LaneW;
  localparam int unsigned EarlyW    = 6;  // 64 bytes
  localparam logic [10:0] EarlyBytes = 11'd64;
  localparam logic [10:0] FcsBytes  = 11'd4;
  // the last bytes so far may be FCS, or lie behind it in the last word
  localparam logic [10:0] TailBytes = FcsBytes + Lanes[10:0];
  localparam logic [10:0] MinFrame  = hvia_pkg::MinFrame[10:0];
  localparam logic [15:0] MinStored = hvia_pkg::MinFrame + {5'd0, FcsBytes};
  localparam logic [15:0] MaxStored = hvia_pkg::MaxFrame + {5'd0, FcsBytes};
  localparam logic [15:0] SlotBytes = hvia_params_pkg::PacketSlotBytes[15:0];
  localparam logic [15:0] Stride    = hvia_pkg::MacDescriptorStride;
  localparam logic [15:0] TxRing    = hvia_pkg::MacTransmitRing;
  localparam logic [15:0] RxRing    = hvia_pkg::MacReceiveRing;
  localparam logic [15:0] TxBuffer  = hvia_pkg::MacTransmitBuffer;
  localparam logic [15:0] RxBuffer  = hvia_pkg::MacReceiveBuffer;

  // To the MAC side.
  localparam logic [1:0] TxComplete = 2'd0;  // the frame is in its slot
  localparam logic [1:0] TxEarly    = 2'd1;  // its first bytes are in the slot
  localparam logic [1:0] TxMore     = 2'd2;  // more bytes are in the slot
  localparam logic [1:0] TxAbort    = 2'd3;  // no more bytes come

  // Events of a transmit slot.
  localparam logic [2:0] TxStart = 3'd0;
  localparam logic [2:0] TxEnd   = 3'd1;
  localparam logic [2:0] TxSent  = 3'd2;
  localparam logic [2:0] TxBack  = 3'd3;  // withdrawn
  localparam logic [2:0] TxDrop  = 3'd4;  // not sent in time

  // Events of a receive slot.
  localparam logic [2:0] RxStart = 3'd0;
  localparam logic [2:0] RxAvail = 3'd1;
  localparam logic [2:0] RxGood  = 3'd2;
  localparam logic [2:0] RxBad   = 3'd3;
  localparam logic [2:0] RxLong  = 3'd4;
  localparam logic [2:0] RxDrop  = 3'd5;  // not good, and counted elsewhere

  // State that counts slots must not outlive the FIFOs that carry frames across.
  logic both_rst_n, core_rst_n, mac_rst_n, core_live, mac_live;
  assign both_rst_n = rst_ni & mac_rst_ni;
  hvia_cdc_reset_sync u_core_reset (
      .clk_i(clk_i), .arst_ni(both_rst_n), .rst_no(core_rst_n), .live_o(core_live)
  );
  hvia_cdc_reset_sync u_mac_reset (
      .clk_i(mac_clk_i), .arst_ni(both_rst_n), .rst_no(mac_rst_n), .live_o(mac_live)
  );

  // Transmit, core side.

  logic [W-1:0] tx_mem[0:2*SlotWords-1];
  logic             tx_wslot_q;
  logic [AddrW-1:0] tx_waddr_q;
  logic [1:0]       tx_busy_q;   // slots with the MAC side
  logic             tx_early_q;  // the frame under construction was offered
  logic             tx_abort_q;  // and is being withdrawn
  logic             tx_space, tx_write, tx_commit, tx_offer, tx_more, tx_cmd_valid, tx_cmd_ready,
      tx_cmd_take;
  logic             tx_event_valid, tx_event_slot, tx_free;
  logic [1:0]       tx_cmd, tx_busy_d;
  logic [2:0]       tx_event;
  logic             tx_late;     // the MAC side holds a slot for too long
  logic [47:0]      tx_deadline_q;
  logic [10:0]      tx_commit_len, tx_after, tx_cmd_len;

  assign tx_space        = ~tx_busy_q[tx_wslot_q] & ~(single_tx_slot_i & (tx_busy_q != 2'd0));
  assign tx_slot_ready_o = tx_space & tx_cmd_ready & ~tx_abort_q;
  assign tx_wready_o     = (tx_space | tx_early_q) & tx_cmd_ready & ~tx_abort_q;
  assign tx_write        = tx_wvalid_i & tx_wready_o;
  assign tx_commit       = tx_write & tx_wlast_i & ~tx_wabort_i;
  assign tx_commit_len   = {tx_waddr_q, {LaneW{1'b0}}} + {{(10-LaneW){1'b0}}, tx_wbytes_i};
  assign tx_after        = {tx_waddr_q, {LaneW{1'b0}}} + Lanes[10:0];
  assign tx_offer        = tx_write & ~tx_wlast_i & ~tx_wabort_i & cut_tx_i & ~tx_early_q &
                           (tx_after == EarlyBytes) & (tx_wlen_i > EarlyBytes);
  assign tx_more         = tx_write & ~tx_wlast_i & ~tx_wabort_i & tx_early_q &
      (tx_after[EarlyW-1:0] == '0);

  assign tx_cmd_valid = tx_commit | tx_offer | tx_more | tx_abort_q;
  assign tx_cmd_take  = tx_cmd_valid & tx_cmd_ready;
  assign tx_cmd       = tx_abort_q ? TxAbort : tx_commit ? TxComplete : tx_offer ? TxEarly : TxMore;
  assign tx_cmd_len   = tx_commit ? tx_commit_len : tx_offer ? tx_wlen_i : tx_after;

  always_comb begin
    tx_busy_d = tx_busy_q;
    if (tx_free) tx_busy_d[tx_event_slot] = 1'b0;
    if (tx_commit | tx_offer) tx_busy_d[tx_wslot_q] = 1'b1;
  end

  // The deadline belongs to the slot that the MAC side must return next.
  localparam logic [47:0] SlotClocks = 48'd1 << hvia_params_pkg::TransmitSlotLog2;
  assign tx_late         = (tx_busy_q != 2'd0) & (timebase_i >= tx_deadline_q);
  assign next_deadline_o = (tx_busy_q != 2'd0) ? tx_deadline_q : '1;

  always_ff @(posedge clk_i) begin
    if (!core_rst_n) tx_deadline_q <= '0;
    else if (tx_free | tx_late |
        ((tx_busy_q == 2'd0) & (tx_busy_d != 2'd0))) tx_deadline_q <= timebase_i + SlotClocks;
  end

  always_ff @(posedge clk_i) begin
    if (tx_write) tx_mem[{tx_wslot_q, tx_waddr_q}] <= tx_wdata_i;
  end

  always_ff @(posedge clk_i) begin
    if (!core_rst_n) begin
      tx_wslot_q <= 1'b0;
      tx_waddr_q <= '0;
      tx_busy_q  <= 2'd0;
      tx_early_q <= 1'b0;
      tx_abort_q <= 1'b0;
    end else begin
      tx_busy_q <= tx_busy_d;
      if (tx_wabort_i | tx_commit) tx_waddr_q <= '0;
      else if (tx_write) tx_waddr_q <= tx_waddr_q + 1'b1;
      if (tx_commit) tx_wslot_q <= ~tx_wslot_q;
      if (tx_wabort_i | tx_commit) tx_early_q <= 1'b0;
      else if (tx_offer) tx_early_q <= 1'b1;
      if (tx_wabort_i & tx_early_q) tx_abort_q <= 1'b1;
      else if (tx_cmd_take) tx_abort_q <= 1'b0;
    end
  end

  // VI of the frame in a slot, for the trace.
  logic [47:0] tx_owner_q;
  always_ff @(posedge clk_i) begin
    if ((tx_commit | tx_offer) & ~tx_wslot_q) tx_owner_q[23:0] <= {tx_wvi_i, tx_wseq_i};
    if ((tx_commit | tx_offer) & tx_wslot_q) tx_owner_q[47:24] <= {tx_wvi_i, tx_wseq_i};
  end

  // Transmit, MAC side.

  logic        cmd_valid, tx_cmd_src_quiet, tx_cmd_dst_quiet;
  logic [1:0]  cmd;
  logic [10:0] cmd_len;
  hvia_cdc_fifo #(.Width(13), .Depth(8), .Joined(1'b1)) u_tx_command (
      .src_clk_i(clk_i), .src_rst_ni(core_rst_n), .src_valid_i(tx_cmd_valid),
      .src_ready_o(tx_cmd_ready), .src_data_i({tx_cmd, tx_cmd_len}), .src_quiet_o(tx_cmd_src_quiet),
      .dst_clk_i(mac_clk_i), .dst_rst_ni(mac_rst_n), .dst_valid_o(cmd_valid), .dst_ready_i(1'b1),
      .dst_data_o({cmd, cmd_len}), .dst_quiet_o(tx_cmd_dst_quiet)
  );

  // If the chip takes a frame while this crosses, that frame may be dropped instead of the late
  // one.
  logic tx_overdue, overdue_src_quiet, overdue_dst_quiet;
  hvia_cdc_pulse u_overdue (
      .src_clk_i(clk_i), .src_rst_ni(core_rst_n), .src_pulse_i(tx_late),
      .src_quiet_o(overdue_src_quiet), .dst_clk_i(mac_clk_i), .dst_rst_ni(mac_rst_n),
      .dst_pulse_o(tx_overdue), .dst_quiet_o(overdue_dst_quiet)
  );

  // Reports of the bus side.
  logic           rd_en, rd_ok, rd_done, rd_done_wide, wr_valid, wr_bad;
  logic [13:0]    rd_addr, rd_done_addr, wr_addr;
  logic [31:0]    rd_done_data;
  logic [W-1:0]   rd_data, wr_data;
  logic [Lanes-1:0] wr_be;
  logic           bus_idle, halt, bus_error;

  // The part of the chip's memory that an access addresses.
  logic rd_in_tx, rd_done_status, rd_done_in_tx, rd_done_tx_ring, rd_done_rx_ring;
  logic wr_tx_ring, wr_rx_ring, wr_in_rx, wr_status, wr_tx_status, wr_rx_status;
  assign rd_in_tx        = rd_addr[13:SlotW+1] == TxBuffer[13:SlotW+1];
  assign rd_done_in_tx   = rd_done & (rd_done_addr[13:SlotW+1] == TxBuffer[13:SlotW+1]);
  assign rd_done_tx_ring = rd_done & (rd_done_addr[13:5] == TxRing[13:5]);
  assign rd_done_rx_ring = rd_done & (rd_done_addr[13:5] == RxRing[13:5]);
  assign rd_done_status  = rd_done_addr[3:0] == hvia_pkg::MacDescriptorCommandStatusOffset[3:0];
  assign wr_tx_ring      = wr_addr[13:5] == TxRing[13:5];
  assign wr_rx_ring      = wr_addr[13:5] == RxRing[13:5];
  assign wr_in_rx        = wr_addr[13:SlotW+1] == RxBuffer[13:SlotW+1];
  assign wr_status       = (wr_addr[3:0] == hvia_pkg::MacDescriptorCommandStatusOffset[3:0]) &
      wr_be[3];
  // No event counts while the chip is about to be reset.
  assign wr_tx_status    = wr_valid & ~wr_bad & ~halt & wr_tx_ring & wr_status;
  assign wr_rx_status    = wr_valid & ~wr_bad & ~halt & wr_rx_ring & wr_status;

  logic [1:0]  tx_own_d, tx_own_q;          // descriptors that the chip owns
  logic [1:0]  tx_taken_d, tx_taken_q;      // and read while it owned them
  logic [1:0]  tx_started_d, tx_started_q;  // traced
  logic [1:0]  tx_ended_d, tx_ended_q;
  logic [21:0] tx_len_d, tx_len_q;
  logic        tx_fill_d, tx_fill_q;        // slot of the next command
  logic        tx_next_d, tx_next_q;        // oldest slot without a status
  logic        tx_part_d, tx_part_q;        // the frame in slot tx_fill_q is still being written
  logic        tx_withdraw_d, tx_withdraw_q;
  logic [10:0] tx_avail_d, tx_avail_q;
  logic        tx_put, tx_sent, tx_odd, tx_back, tx_first, tx_final, tx_reset_done;
  // reset the transmitter and drop complete frames
  logic        tx_overdue_d, tx_overdue_q;
  logic [1:0]  tx_drop_d, tx_drop_q;        // dropped slots not reported to the core
  logic [1:0]  tx_complete;
  logic        tx_stopped, tx_take, tx_drop_report;
  logic        tx_event_push, unused_tx_event_ready;
  logic [3:0]  tx_event_data;
  logic        tx_status_slot, rd_done_slot;
  logic [10:0] rd_done_len, rd_done_size;
  logic [8:0]  rd_last;  // dword

  assign tx_put         = cmd_valid & ((cmd == TxEarly) | ((cmd == TxComplete) & ~tx_part_q));
  assign tx_status_slot = wr_addr[4];
  assign tx_sent = wr_tx_status & tx_own_q[tx_status_slot] & (tx_status_slot == tx_next_q) &
                   ~(tx_part_q & (tx_status_slot == tx_fill_q)) &
                       ~wr_data[hvia_pkg::MacDescriptorCommandStatusOwnBit];
  assign tx_odd  = wr_tx_status & ~tx_sent;
  // The chip may be reading the descriptor when it is withdrawn. When the bus is idle, it is known
  // whether it did.
  assign tx_back = tx_withdraw_q & (tx_reset_done | (bus_idle & ~tx_taken_q[tx_fill_q] &
      ~wr_valid));

  // Until the transmitter is idle the chip may still write the status of a frame.
  assign tx_complete    = tx_own_q & ~({2{tx_part_q}} & {tx_fill_q, ~tx_fill_q});
  assign tx_take        = tx_overdue_q & tx_stopped;
  assign tx_drop_report = (tx_drop_q != 2'd0) & ~(tx_first | tx_final | tx_sent | tx_back);

  // The first and the last word of a frame, when first read.
  assign rd_done_slot = rd_done_addr[SlotW];
  assign rd_done_len  = rd_done_slot ? tx_len_q[21:11] : tx_len_q[10:0];
  assign rd_done_size = (rd_done_len < MinFrame) ? MinFrame : rd_done_len;
  assign rd_last      = rd_done_size[10:2] - {8'd0, rd_done_size[1:0] == 2'd0};
  assign tx_first     = rd_done_in_tx & (rd_done_addr[SlotW-1:2] == '0) & tx_own_q[rd_done_slot] &
                        ~tx_started_q[rd_done_slot];
  assign tx_final     = rd_done_in_tx & (rd_done_addr[SlotW-1:3] == rd_last[8:1]) &
                        (rd_done_wide | (rd_done_addr[2] == rd_last[0])) & tx_own_q[rd_done_slot] &
                        ~tx_ended_q[rd_done_slot];

  always_comb begin
    tx_own_d      = tx_own_q;
    tx_taken_d    = tx_taken_q;
    tx_started_d  = tx_started_q;
    tx_ended_d    = tx_ended_q;
    tx_len_d      = tx_len_q;
    tx_fill_d     = tx_fill_q;
    tx_next_d     = tx_next_q;
    tx_part_d     = tx_part_q;
    tx_withdraw_d = tx_withdraw_q;
    tx_avail_d    = tx_avail_q;
    tx_overdue_d  = ((tx_overdue & (tx_complete != 2'd0)) | tx_overdue_q) & ~tx_sent & ~tx_take;
    tx_drop_d     = tx_drop_q;
    if (tx_drop_report) tx_drop_d[~tx_drop_q[0]] = 1'b0;

    if (rd_done_tx_ring & rd_done_status &
        rd_done_data[hvia_pkg::MacDescriptorCommandStatusOwnBit]) begin
      tx_taken_d[rd_done_addr[4]] = 1'b1;
    end
    if (tx_first) tx_started_d[rd_done_slot] = 1'b1;
    if (tx_final) tx_ended_d[rd_done_slot] = 1'b1;
    if (tx_sent) begin
      tx_own_d[tx_status_slot]   = 1'b0;
      tx_taken_d[tx_status_slot] = 1'b0;
      tx_next_d                  = ~tx_status_slot;
    end
    if (bus_error) tx_taken_d = 2'd0;
    if (tx_back) begin
      tx_withdraw_d         = 1'b0;
      tx_part_d             = 1'b0;
      tx_taken_d[tx_fill_q] = 1'b0;
    end
    if (tx_take) begin
      tx_own_d   = tx_own_q & ~tx_complete;
      tx_taken_d = 2'd0;
      tx_next_d  = tx_fill_q;
      tx_drop_d  = tx_drop_d | tx_complete;
    end
    if (tx_put) begin
      tx_own_d[tx_fill_q]     = 1'b1;
      tx_taken_d[tx_fill_q]   = 1'b0;
      tx_started_d[tx_fill_q] = 1'b0;
      tx_ended_d[tx_fill_q]   = 1'b0;
      if (tx_fill_q) tx_len_d[21:11] = cmd_len;
      else           tx_len_d[10:0]  = cmd_len;
    end
    if (cmd_valid) begin
      case (cmd)
        TxComplete: begin
          tx_part_d = 1'b0;
          tx_fill_d = ~tx_fill_q;
        end
        TxEarly: begin
          tx_part_d  = 1'b1;
          tx_avail_d = EarlyBytes;
        end
        TxMore: tx_avail_d = cmd_len;
        default: begin
          tx_own_d[tx_fill_q] = 1'b0;
          tx_withdraw_d       = 1'b1;
        end
      endcase
    end
  end

  always_ff @(posedge mac_clk_i) begin
    if (!mac_rst_n) begin
      tx_own_q      <= 2'd0;
      tx_taken_q    <= 2'd0;
      tx_started_q  <= 2'd0;
      tx_ended_q    <= 2'd0;
      tx_len_q      <= 22'd0;
      tx_fill_q     <= 1'b0;
      tx_next_q     <= 1'b0;
      tx_part_q     <= 1'b0;
      tx_withdraw_q <= 1'b0;
      tx_avail_q    <= 11'd0;
      tx_overdue_q  <= 1'b0;
      tx_drop_q     <= 2'd0;
    end else begin
      tx_own_q      <= tx_own_d;
      tx_taken_q    <= tx_taken_d;
      tx_started_q  <= tx_started_d;
      tx_ended_q    <= tx_ended_d;
      tx_len_q      <= tx_len_d;
      tx_fill_q     <= tx_fill_d;
      tx_next_q     <= tx_next_d;
      tx_part_q     <= tx_part_d;
      tx_withdraw_q <= tx_withdraw_d;
      tx_avail_q    <= tx_avail_d;
      tx_overdue_q  <= tx_overdue_d;
      tx_drop_q     <= tx_drop_d;
    end
  end

  assign tx_event_push = tx_first | tx_final | tx_sent | tx_back | tx_drop_report;
  assign tx_event_data = tx_back ? {TxBack, tx_fill_q} : tx_sent ? {TxSent, tx_status_slot}
                       : tx_drop_report ? {TxDrop, ~tx_drop_q[0]} :
                           {tx_final ? TxEnd : TxStart, rd_done_slot};

  logic tx_event_src_quiet, tx_event_dst_quiet;
  hvia_cdc_fifo #(.Width(4), .Depth(8), .Joined(1'b1)) u_tx_event (
      .src_clk_i(mac_clk_i), .src_rst_ni(mac_rst_n), .src_valid_i(tx_event_push),
      .src_ready_o(unused_tx_event_ready), .src_data_i(tx_event_data),
      .src_quiet_o(tx_event_src_quiet), .dst_clk_i(clk_i), .dst_rst_ni(core_rst_n),
      .dst_valid_o(tx_event_valid), .dst_ready_i(1'b1), .dst_data_o({tx_event, tx_event_slot}),
      .dst_quiet_o(tx_event_dst_quiet)
  );

  assign tx_free = tx_event_valid & ((tx_event == TxSent) | (tx_event == TxBack) |
      (tx_event == TxDrop));

  assign stat_mac_transmit_frame_o = tx_event_valid & (tx_event == TxSent);
  assign stat_mac_transmit_dropped_o = tx_event_valid & (tx_event == TxDrop);
  assign trace_tx_valid_o = tx_event_valid & ((tx_event == TxStart) | (tx_event == TxEnd));
  assign trace_tx_event_o = (tx_event == TxEnd) ? hvia_pkg::TraceEventMacTransmitEnd
                                                : hvia_pkg::TraceEventMacTransmitStart;
  assign {trace_tx_vi_o, trace_tx_seq_o} = tx_event_slot ? tx_owner_q[47:24] : tx_owner_q[23:0];

  // Receive, MAC side.

  logic [W-1:0] rx_mem[0:2*SlotWords-1];
  logic [1:0]  rx_full_d, rx_full_q;        // slots with the core side
  logic        rx_next_d, rx_next_q;        // slot of the next status
  logic        rx_started_d, rx_started_q;  // its first word is in
  logic        rx_dirty_d, rx_dirty_q;      // it has words not reported to the core,
  logic        rx_due_d, rx_due_q;          // and the burst that brought them is over
  logic        rx_offered_d, rx_offered_q;  // the core knows some of its bytes
  // it holds a further part of a frame that exceeds one slot
  logic        rx_rest_d, rx_rest_q;
  logic [11:0] rx_fill_d, rx_fill_q;        // bytes in it
  logic        rx_wait_d, rx_wait_q;        // the chip found no free descriptor
  logic        rx_wait_slot_d, rx_wait_slot_q;  // at this slot
  logic        rx_free_valid, rx_free_slot, rx_wake, rx_wake_done;
  logic        rx_store, rx_end, rx_odd, rx_stray, rx_report, rx_first, rx_error, rx_keep;
  logic        rx_overrun, rx_event_push, unused_rx_event_ready;
  logic [1:0]  rx_owned;                    // Own as the chip reads it
  logic [2:0]  rx_kind, rx_event_kind_d;
  logic [10:0] rx_event_len_d;
  logic [15:0] rx_size;
  logic [31:0] rx_status;
  logic        wr_slot;

  assign rx_owned = rx_full_q | ({2{single_rx_slot_i}} & {rx_full_q[0], rx_full_q[1]});
  assign wr_slot  = wr_rx_ring ? wr_addr[4] : wr_addr[SlotW];
  assign rx_store = wr_valid & ~halt & wr_in_rx & (wr_slot == rx_next_q) & ~rx_full_q[wr_slot];
  assign rx_first = rx_store & (wr_addr[SlotW-1:0] == '0) & wr_be[0] & ~rx_started_q;

  assign rx_status = wr_data[31:0];
  assign rx_size   = rx_status[hvia_pkg::MacDescriptorCommandStatusSizeLsb +:
                               hvia_pkg::MacDescriptorCommandStatusSizeWidth];
  assign rx_error  = rx_status[hvia_pkg::MacDescriptorCommandStatusFcsErrorBit] |
                     rx_status[hvia_pkg::MacDescriptorCommandStatusSymbolErrorBit] |
                     rx_status[hvia_pkg::MacDescriptorCommandStatusRuntBit] |
                     rx_status[hvia_pkg::MacDescriptorCommandStatusFrameAlignmentBit] |
                         (rx_size < MinStored);
  assign rx_overrun = rx_status[hvia_pkg::MacDescriptorCommandStatusOverrunBit];
  always_comb begin
    rx_kind = RxGood;
    if (rx_rest_q) rx_kind = RxDrop;
    else if (rx_status[hvia_pkg::MacDescriptorCommandStatusMoreBit]) rx_kind = RxLong;
    else if (rx_error) rx_kind = RxBad;
    else if (rx_status[hvia_pkg::MacDescriptorCommandStatusTooLongBit] |
        (rx_size > MaxStored)) rx_kind = RxLong;
    else if (~rx_status[hvia_pkg::MacDescriptorCommandStatusOKBit]) rx_kind = rx_overrun ? RxDrop :
        RxBad;
  end
  assign rx_end    = wr_rx_status & (wr_slot == rx_next_q) & ~rx_full_q[wr_slot] &
                    rx_status[hvia_pkg::MacDescriptorCommandStatusOwnBit];
  assign rx_odd    = wr_rx_status & ~rx_end;
  // The core owns, and later frees, the slot of a good frame and of any frame it was already
  // offered. The slot of any other frame is free at once.
  assign rx_keep   = rx_offered_q | (rx_kind == RxGood);
  assign rx_report = cut_rx_i & rx_due_q & ~wr_valid & ~halt & ~rx_rest_q &
      (rx_fill_q > {1'b0, TailBytes});
  // The chip may write only frames and statuses.
  assign rx_stray  = wr_valid & ~halt & ~rx_store & ~((wr_tx_ring | wr_rx_ring) & wr_addr[3]);

  assign rx_wake  = rx_wait_q & ~rx_owned[rx_wait_slot_q];

  always_comb begin
    rx_full_d      = rx_full_q;
    rx_next_d      = rx_next_q;
    rx_started_d   = rx_started_q;
    rx_dirty_d     = rx_dirty_q;
    rx_due_d       = rx_due_q;
    rx_offered_d   = rx_offered_q;
    rx_rest_d      = rx_rest_q;
    rx_fill_d      = rx_fill_q;
    rx_wait_d      = rx_wait_q;
    rx_wait_slot_d = rx_wait_slot_q;

    if (rx_store) begin
      rx_started_d = 1'b1;
      rx_dirty_d   = 1'b1;
      rx_fill_d    = {1'b0, wr_addr[SlotW-1:0]} + (((W == 64) & ~wr_be[Lanes-1] & ~wr_be[4%Lanes]) ?
          12'd4 : Lanes[11:0]);
    end
    if (rx_dirty_d & bus_idle) rx_due_d = 1'b1;
    if (rx_report) begin
      rx_dirty_d   = 1'b0;
      rx_due_d     = 1'b0;
      rx_offered_d = 1'b1;
    end
    if (rx_end | bus_error) begin
      rx_started_d = 1'b0;
      rx_dirty_d   = 1'b0;
      rx_due_d     = 1'b0;
      rx_offered_d = 1'b0;
      rx_fill_d    = 12'd0;
    end
    if (rx_end) begin
      rx_rest_d          = rx_status[hvia_pkg::MacDescriptorCommandStatusMoreBit];
      rx_next_d          = ~wr_slot;
      rx_full_d[wr_slot] = rx_keep;
    end
    if (bus_error) begin
      rx_rest_d = 1'b0;
      // A frame offered to the core ends here and is dropped.
      if (rx_offered_q) begin
        rx_next_d            = ~rx_next_q;
        rx_full_d[rx_next_q] = 1'b1;
      end
    end
    if (rx_free_valid) rx_full_d[rx_free_slot] = 1'b0;

    if (rx_wake_done | bus_error) rx_wait_d = 1'b0;
    if (rd_done_rx_ring & rd_done_status &
        rd_done_data[hvia_pkg::MacDescriptorCommandStatusOwnBit]) begin
      rx_wait_d      = 1'b1;
      rx_wait_slot_d = rd_done_addr[4];
    end
  end

  for (genvar i = 0; i < Lanes; i++) begin : gen_lane
    always_ff @(posedge mac_clk_i) begin
      if (rx_store & wr_be[i]) rx_mem[{wr_slot,
          wr_addr[SlotW-1:LaneW]}][8*i +: 8] <= wr_data[8*i +: 8];
    end
  end

  always_ff @(posedge mac_clk_i) begin
    if (!mac_rst_n) begin
      rx_full_q      <= 2'd0;
      rx_next_q      <= 1'b0;
      rx_started_q   <= 1'b0;
      rx_dirty_q     <= 1'b0;
      rx_due_q       <= 1'b0;
      rx_offered_q   <= 1'b0;
      rx_rest_q      <= 1'b0;
      rx_fill_q      <= 12'd0;
      rx_wait_q      <= 1'b0;
      rx_wait_slot_q <= 1'b0;
    end else begin
      rx_full_q      <= rx_full_d;
      rx_next_q      <= rx_next_d;
      rx_started_q   <= rx_started_d;
      rx_dirty_q     <= rx_dirty_d;
      rx_due_q       <= rx_due_d;
      rx_offered_q   <= rx_offered_d;
      rx_rest_q      <= rx_rest_d;
      rx_fill_q      <= rx_fill_d;
      rx_wait_q      <= rx_wait_d;
      rx_wait_slot_q <= rx_wait_slot_d;
    end
  end

  assign rx_event_push = rx_first | rx_report | rx_end | (bus_error & rx_offered_q);
  always_comb begin
    rx_event_kind_d = RxStart;
    rx_event_len_d  = rx_size[10:0] - FcsBytes;
    if (bus_error) begin
      rx_event_kind_d = RxDrop;
    end else if (rx_end) begin
      rx_event_kind_d = rx_kind;
    end else if (rx_report) begin
      rx_event_kind_d = RxAvail;
      rx_event_len_d  = rx_fill_q[10:0] - TailBytes;
    end
  end

  // The chip's reads.

  logic [127:0]     descriptor;
  logic             rd_ring_slot, rd_tx_slot, rd_sel_q;
  logic [15:0]      rd_size;
  logic [10:0]      rd_len, rd_end;
  logic [W-1:0]     tx_rdata_q, rd_descriptor_q;
  logic [Lanes-1:0] rd_valid, rd_valid_q;

  assign rd_ring_slot = rd_addr[4];
  assign rd_tx_slot   = rd_in_tx ? rd_addr[SlotW] : rd_addr[4];
  assign rd_len       = rd_tx_slot ? tx_len_q[21:11] : tx_len_q[10:0];
  assign rd_size      = {5'd0, (rd_len < MinFrame) ? MinFrame : rd_len};
  always_comb begin
    descriptor = 128'd0;
    if (rd_addr[13:5] == TxRing[13:5]) begin
      descriptor[8*hvia_pkg::MacDescriptorLinkOffset +: 16] = rd_ring_slot ? TxRing : TxRing +
          Stride;
      descriptor[8*hvia_pkg::MacDescriptorBufferAddressOffset +: 16] = rd_ring_slot ? TxBuffer +
          SlotBytes : TxBuffer;
      descriptor[8*hvia_pkg::MacDescriptorCommandStatusOffset +: 16] = rd_size;
      descriptor[8*hvia_pkg::MacDescriptorCommandStatusOffset +
          hvia_pkg::MacDescriptorCommandStatusOwnBit] =
          tx_own_q[rd_ring_slot];
    end else if (rd_addr[13:5] == RxRing[13:5]) begin
      descriptor[8*hvia_pkg::MacDescriptorLinkOffset +: 16] = rd_ring_slot ? RxRing : RxRing +
          Stride;
      descriptor[8*hvia_pkg::MacDescriptorBufferAddressOffset +: 16] = rd_ring_slot ? RxBuffer +
          SlotBytes : RxBuffer;
      descriptor[8*hvia_pkg::MacDescriptorCommandStatusOffset +: 16] = SlotBytes;
      descriptor[8*hvia_pkg::MacDescriptorCommandStatusOffset +
          hvia_pkg::MacDescriptorCommandStatusOwnBit] =
          rx_owned[rd_ring_slot];
    end
  end

  // A frame that is still being written may be read up to its last written byte.
  assign rd_end = rd_addr[SlotW-1:0] + Lanes[10:0];
  assign rd_ok  = ~(rd_in_tx & tx_part_q & (rd_addr[SlotW] == tx_fill_q)) |
      ((rd_end <= tx_avail_q) & (rd_end != 11'd0));

  // A short frame is padded with zeros.
  for (genvar i = 0; i < Lanes; i++) begin : gen_pad
    assign rd_valid[i] = (rd_len >= MinFrame) | ({rd_addr[SlotW-1:LaneW], i[LaneW-1:0]} < rd_len);
    assign rd_data[8*i +: 8] = ~rd_sel_q ? rd_descriptor_q[8*i +: 8] : tx_rdata_q[8*i +: 8] &
        {8{rd_valid_q[i]}};
  end

  always_ff @(posedge mac_clk_i) begin
    if (rd_en) begin
      tx_rdata_q      <= tx_mem[{rd_addr[SlotW], rd_addr[SlotW-1:LaneW]}];
      rd_descriptor_q <= descriptor[{rd_addr[3:0], 3'b000} +: W];
      rd_sel_q        <= rd_in_tx;
      rd_valid_q      <= rd_valid;
    end
  end

  // Receive, core side.

  logic        rx_event_src_quiet, rx_event_dst_quiet, rx_event_valid, rx_event_overrun,
      rx_event_slot;
  logic [2:0]  rx_event;
  logic [10:0] rx_event_len;
  hvia_cdc_fifo #(.Width(16), .Depth(8), .Joined(1'b1)) u_rx_event (
      .src_clk_i(mac_clk_i), .src_rst_ni(mac_rst_n), .src_valid_i(rx_event_push),
      .src_ready_o(unused_rx_event_ready),
      .src_data_i({rx_event_kind_d, rx_end & rx_overrun, rx_next_q, rx_event_len_d}),
      .src_quiet_o(rx_event_src_quiet), .dst_clk_i(clk_i), .dst_rst_ni(core_rst_n),
      .dst_valid_o(rx_event_valid), .dst_ready_i(1'b1),
      .dst_data_o({rx_event, rx_event_overrun, rx_event_slot, rx_event_len}),
      .dst_quiet_o(rx_event_dst_quiet)
  );

  logic rx_free_src_quiet, rx_free_dst_quiet, unused_rx_free_ready, rx_rslot;
  hvia_cdc_fifo #(.Width(1), .Depth(4), .Joined(1'b1)) u_rx_free (
      .src_clk_i(clk_i), .src_rst_ni(core_rst_n), .src_valid_i(rx_done_i),
      .src_ready_o(unused_rx_free_ready), .src_data_i(rx_rslot), .src_quiet_o(rx_free_src_quiet),
      .dst_clk_i(mac_clk_i), .dst_rst_ni(mac_rst_n), .dst_valid_o(rx_free_valid),
      .dst_ready_i(1'b1), .dst_data_o(rx_free_slot), .dst_quiet_o(rx_free_dst_quiet)
  );

  logic [1:0]   rx_held_d, rx_held_q;    // slots with a frame for the engine
  logic [1:0]   rx_end_d, rx_end_q, rx_bad_d, rx_bad_q;
  logic [1:0]   rx_count_d, rx_count_q;
  logic [1:0]   rx_order_d, rx_order_q;  // their numbers, the oldest in bit 0
  logic [21:0]  rx_avail_q;
  logic [W-1:0] rx_rdata_q;
  logic [15:0]  rx_number_q;             // of the frame, for the trace
  logic         rx_ended, rx_arrive;

  assign rx_rslot  = rx_order_q[0];
  assign rx_ended  = rx_event_valid & (rx_event != RxStart) & (rx_event != RxAvail);
  assign rx_arrive = rx_event_valid & ((rx_event == RxAvail) | (rx_event == RxGood)) &
      ~rx_held_q[rx_event_slot];

  always_comb begin
    rx_held_d  = rx_held_q;
    rx_end_d   = rx_end_q;
    rx_bad_d   = rx_bad_q;
    rx_count_d = rx_count_q;
    rx_order_d = rx_order_q;
    if (rx_done_i) begin
      rx_held_d[rx_rslot] = 1'b0;
      rx_end_d[rx_rslot]  = 1'b0;
      rx_bad_d[rx_rslot]  = 1'b0;
      rx_count_d          = rx_count_d - 2'd1;
      rx_order_d[0]       = rx_order_q[1];
    end
    if (rx_arrive) begin
      rx_held_d[rx_event_slot] = 1'b1;
      if (rx_count_d == 2'd0) rx_order_d[0] = rx_event_slot;
      else                    rx_order_d[1] = rx_event_slot;
      rx_count_d = rx_count_d + 2'd1;
    end
    if (rx_ended & rx_held_d[rx_event_slot]) begin
      rx_end_d[rx_event_slot] = 1'b1;
      rx_bad_d[rx_event_slot] = rx_event != RxGood;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!core_rst_n) begin
      rx_held_q   <= 2'd0;
      rx_end_q    <= 2'd0;
      rx_bad_q    <= 2'd0;
      rx_count_q  <= 2'd0;
      rx_order_q  <= 2'd0;
      rx_number_q <= 16'd0;
    end else begin
      rx_held_q  <= rx_held_d;
      rx_end_q   <= rx_end_d;
      rx_bad_q   <= rx_bad_d;
      rx_count_q <= rx_count_d;
      rx_order_q <= rx_order_d;
      if (rx_ended) rx_number_q <= rx_number_q + 16'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rx_event_valid & (rx_event != RxStart) & ~rx_event_slot) rx_avail_q[10:0] <= rx_event_len;
    if (rx_event_valid & (rx_event != RxStart) & rx_event_slot) rx_avail_q[21:11] <= rx_event_len;
    if (rx_valid_o) rx_rdata_q <= rx_mem[{rx_rslot, rx_raddr_i}];
  end

  assign rx_valid_o = rx_count_q != 2'd0;
  assign rx_avail_o = rx_rslot ? rx_avail_q[21:11] : rx_avail_q[10:0];
  assign rx_len_o   = rx_avail_o;
  assign rx_end_o   = rx_valid_o & rx_end_q[rx_rslot];
  assign rx_bad_o   = rx_valid_o & rx_bad_q[rx_rslot];
  assign rx_rdata_o = rx_rdata_q;

  assign stat_mac_receive_frame_o   = rx_ended & (rx_event == RxGood);
  assign stat_mac_receive_bad_o     = rx_ended & (rx_event == RxBad);
  assign stat_mac_receive_long_o    = rx_ended & (rx_event == RxLong);
  assign stat_mac_receive_overrun_o = rx_ended & rx_event_overrun;

  // A good frame's first word and its status are two events.
  assign trace_rx_valid_o = rx_event_valid & ((rx_event == RxStart) | (rx_event == RxGood));
  assign trace_rx_event_o = (rx_event == RxStart) ? hvia_pkg::TraceEventMacReceiveStart
                                                  : hvia_pkg::TraceEventMacReceiveEnd;
  assign trace_rx_vi_o    = 8'd0;
  assign trace_rx_seq_o   = rx_number_q;

  // Receive enable and station address, in one word so that they are consistent.
  logic [48:0] wish, crossed_q, enable_word;
  logic        enable_valid, wish_ready, wish_valid, enable_src_quiet, enable_dst_quiet;
  assign wish       = {enable_i, mac_i};
  assign wish_valid = wish != crossed_q;
  always_ff @(posedge clk_i) begin
    if (!core_rst_n) crossed_q <= 49'd0;
    else if (wish_valid & wish_ready) crossed_q <= wish;
  end
  hvia_cdc_handshake #(.Width(49), .Joined(1'b1)) u_enable (
      .src_clk_i(clk_i), .src_rst_ni(core_rst_n), .src_valid_i(wish_valid),
      .src_ready_o(wish_ready), .src_data_i(wish), .src_quiet_o(enable_src_quiet),
      .dst_clk_i(mac_clk_i), .dst_rst_ni(mac_rst_n), .dst_valid_o(enable_valid), .dst_ready_i(1'b1),
      .dst_data_o(enable_word), .dst_quiet_o(enable_dst_quiet)
  );

  logic configured, ready_settled;
  hvia_cdc_sync #(.Width(1)) u_ready (
      .clk_i(clk_i), .rst_ni(core_rst_n), .d_i(configured), .q_o(mac_ready_o),
      .settled_o(ready_settled)
  );

  logic link_settled;
  hvia_cdc_sync #(.Width(1)) u_link (
      .clk_i(clk_i), .rst_ni(core_rst_n), .d_i(phy_link_n_i), .q_o(link_down_o),
      .settled_o(link_settled)
  );

  // Each error resets the chip, so two pulses never come too close.
  logic error_src_quiet, error_dst_quiet;
  hvia_cdc_pulse u_bus_error (
      .src_clk_i(mac_clk_i), .src_rst_ni(mac_rst_n), .src_pulse_i(bus_error),
      .src_quiet_o(error_src_quiet), .dst_clk_i(clk_i), .dst_rst_ni(core_rst_n),
      .dst_pulse_o(stat_mac_bus_error_o), .dst_quiet_o(error_dst_quiet)
  );

  // Use of the bus. Depth: the words that can arrive while one core clock takes them one by one.
  logic       use_valid, use_end, unused_use_ready, use_src_quiet, use_dst_quiet, use_core_valid,
      use_core_end;
  logic [2:0] use_kind, use_core_kind;
  hvia_cdc_fifo #(.Width(4), .Depth(16), .Joined(1'b1)) u_use (
      .src_clk_i(mac_clk_i), .src_rst_ni(mac_rst_n), .src_valid_i(use_valid),
      .src_ready_o(unused_use_ready), .src_data_i({use_end, use_kind}), .src_quiet_o(use_src_quiet),
      .dst_clk_i(clk_i), .dst_rst_ni(core_rst_n), .dst_valid_o(use_core_valid), .dst_ready_i(1'b1),
      .dst_data_o({use_core_end, use_core_kind}), .dst_quiet_o(use_dst_quiet)
  );
  assign trace_bus_valid_o = use_core_valid;
  assign trace_bus_event_o = use_core_end ? hvia_pkg::TraceEventMacBusEnd :
      hvia_pkg::TraceEventMacBusStart;
  assign trace_bus_vi_o    = 8'd0;
  assign trace_bus_seq_o   = {13'd0, use_core_kind};

  // The bus.

  logic [W-1:0] h_ad, t_ad;
  logic         h_ad_oe, t_ad_oe, h_par, t_par, h_par_oe, t_par_oe, address_error, clear;
  logic         host_quiet, target_quiet;

  hvia_mac_bus_host #(.W(W)) u_host (
      .clk_i(mac_clk_i), .rst_ni(mac_rst_n), .quiet_o(host_quiet), .short_bursts_i,
      .enable_valid_i(enable_valid), .enable_i(enable_word[48]), .mac_i(enable_word[47:0]),
      .tx_offered_i(tx_put), .tx_any_i(tx_own_q != 2'd0), .tx_slot_i(tx_next_q),
      .tx_reset_i((tx_withdraw_q & tx_taken_q[tx_fill_q]) | tx_overdue_q),
      .tx_stopped_o(tx_stopped), .tx_reset_done_o(tx_reset_done), .rx_slot_i(rx_next_q),
      .rx_wake_i(rx_wake), .rx_wake_done_o(rx_wake_done),
      .target_error_i(address_error | wr_bad | tx_odd | rx_odd | rx_stray), .ready_o(configured),
      .halt_o(halt), .clear_o(clear), .error_o(bus_error), .bus_idle_o(bus_idle),
      .trace_valid_o(use_valid), .trace_end_o(use_end), .trace_use_o(use_kind), .mb_rst_no,
      .idsel_o(mb_idsel_o), .req_n_i(mb_req_n_i), .gnt_n_o(mb_gnt_n_o), .ad_i(mb_ad_i[31:0]),
      .ad_o(h_ad), .ad_oe(h_ad_oe), .cbe_n_i(mb_cbe_n_i[3:0]), .cbe_n_o(mb_cbe_n_o),
      .cbe_n_oe(mb_cbe_n_oe), .par_i(mb_par_i), .par_o(h_par), .par_oe(h_par_oe),
      .frame_n_i(mb_frame_n_i), .frame_n_o(mb_frame_n_o), .frame_n_oe(mb_frame_n_oe),
      .irdy_n_i(mb_irdy_n_i), .irdy_n_o(mb_irdy_n_o), .irdy_n_oe(mb_irdy_n_oe),
      .trdy_n_i(mb_trdy_n_i), .devsel_n_i(mb_devsel_n_i), .stop_n_i(mb_stop_n_i)
  );

  hvia_mac_bus_target #(.W(W)) u_target (
      .clk_i(mac_clk_i), .rst_ni(mac_rst_n), .clear_i(clear), .quiet_o(target_quiet),
      .rd_en_o(rd_en), .rd_addr_o(rd_addr), .rd_ok_i(rd_ok), .rd_data_i(rd_data),
      .rd_done_o(rd_done), .rd_done_addr_o(rd_done_addr), .rd_done_wide_o(rd_done_wide),
      .rd_done_data_o(rd_done_data), .wr_valid_o(wr_valid), .wr_addr_o(wr_addr),
      .wr_data_o(wr_data), .wr_be_o(wr_be), .wr_bad_o(wr_bad), .address_error_o(address_error),
      .ad_i(mb_ad_i), .ad_o(t_ad), .ad_oe(t_ad_oe), .cbe_n_i(mb_cbe_n_i), .par_i(mb_par_i),
      .par_o(t_par), .par_oe(t_par_oe), .par64_i(mb_par64_i), .par64_o(mb_par64_o),
      .par64_oe(mb_par64_oe), .frame_n_i(mb_frame_n_i), .irdy_n_i(mb_irdy_n_i),
      .req64_n_i(mb_req64_n_i), .trdy_n_o(mb_trdy_n_o), .trdy_n_oe(mb_trdy_n_oe),
      .devsel_n_o(mb_devsel_n_o), .devsel_n_oe(mb_devsel_n_oe), .stop_n_o(mb_stop_n_o),
      .stop_n_oe(mb_stop_n_oe), .ack64_n_o(mb_ack64_n_o), .ack64_n_oe(mb_ack64_n_oe)
  );

  assign mb_ad_o   = t_ad_oe ? t_ad : h_ad;
  assign mb_ad_oe  = h_ad_oe | t_ad_oe;
  assign mb_par_o  = t_par_oe ? t_par : h_par;
  assign mb_par_oe = h_par_oe | t_par_oe;
  // The host's own transactions are 32 bits wide.
  assign mb_req64_n_o  = 1'b1;
  assign mb_req64_n_oe = 1'b0;
  logic unused_ack64;
  assign unused_ack64 = mb_ack64_n_i;

  // While a received frame is here, each clock reads a word of it.
  assign quiet_o = tx_cmd_src_quiet & tx_event_dst_quiet & rx_event_dst_quiet & rx_free_src_quiet &
      enable_src_quiet & ~(wish_valid & wish_ready) & ready_settled & link_settled &
      error_dst_quiet & overdue_src_quiet & use_dst_quiet & ~tx_write &
      ~(tx_wabort_i & (tx_early_q | (tx_waddr_q != '0))) & ~rx_valid_o & ~rx_done_i &
      core_rst_n & core_live;
  assign mac_quiet_o = tx_cmd_dst_quiet & tx_event_src_quiet & rx_event_src_quiet &
      rx_free_dst_quiet &
                       enable_dst_quiet & error_src_quiet & use_src_quiet & host_quiet &
                           target_quiet &
                       overdue_dst_quiet & ~tx_overdue_q & (tx_drop_q == 2'd0) & ~tx_back &
                           ~rx_report & (rx_due_d == rx_due_q) & mac_rst_n & mac_live;

endmodule
