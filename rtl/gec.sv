// SPDX-License-Identifier: Apache-2.0

// Gigabit Ethernet controller: the packet buffers between the engines (core clock) and the MAC
// (`mac_clk_i`), two slots of `PacketSlotBytes` in each direction, store-and-forward. A frame is
// offered to the MAC when its last beat is in, padded to the Ethernet minimum; a received frame is
// offered to the receive engine when all of it was good.
//
// Received frames are dropped and counted, each once, by the first reason that holds: bad (the MAC
// says so, or shorter than the minimum), long (more than `MaxFrame` bytes), overrun (no slot was
// free at its first beat). A MAC with a buffer of its own looks at `mac_rx_room_o` before it begins a
// frame and reports with `mac_rx_overrun_i` what it had to drop itself; one without ignores both. Frames that begin while `enable_i` is 0 are ignored and not counted.
//
// Slots are used in turn, so a slot's number never crosses; what crosses are frame lengths and events
// through `cdc_fifo`, whose words order all accesses to a slot's memory and length. Events reach the
// core two to three core clocks after the MAC clock they belong to, so the trace events of both
// directions are late by that much. Both resets must be given together; either may end first.
//
// With `single_tx_slot_i` or `single_rx_slot_i` (reset straps) one slot is in use at a time.
module gec (
    input  logic        clk_i,
    input  logic        rst_ni,
    input  logic        enable_i,
    input  logic        single_tx_slot_i,
    input  logic        single_rx_slot_i,

    // From the transmit engine: packed beats, first wire byte in bits 7:0.
    output logic        tx_slot_ready_o,
    input  logic        tx_wvalid_i,
    output logic        tx_wready_o,
    input  logic [31:0] tx_wdata_i,
    input  logic [2:0]  tx_wbytes_i,
    input  logic        tx_wlast_i,
    input  logic        tx_wabort_i,
    input  logic [7:0]  tx_wvi_i,   // for the trace only, taken with the last beat
    input  logic [15:0] tx_wseq_i,

    // To the receive engine.
    output logic        rx_valid_o,
    output logic [10:0] rx_len_o,
    input  logic [8:0]  rx_raddr_i,
    output logic [31:0] rx_rdata_o,
    input  logic        rx_done_i,

    output logic        stat_mac_transmit_frame_o,
    output logic        stat_mac_receive_frame_o,
    output logic        stat_mac_receive_bad_o,
    output logic        stat_mac_receive_long_o,
    output logic        stat_mac_receive_overrun_o,
    output logic        trace_tx_valid_o,
    output logic [7:0]  trace_tx_event_o,
    output logic [7:0]  trace_tx_vi_o,
    output logic [15:0] trace_tx_seq_o,
    output logic        trace_rx_valid_o,
    output logic [7:0]  trace_rx_event_o,
    output logic [7:0]  trace_rx_vi_o,
    output logic [15:0] trace_rx_seq_o,
    output logic        quiet_o,

    // MAC side.
    input  logic        mac_clk_i,
    input  logic        mac_rst_ni,
    output logic        mac_tx_valid_o,
    input  logic        mac_tx_ready_i,
    output logic [31:0] mac_tx_data_o,
    output logic [2:0]  mac_tx_bytes_o,
    output logic        mac_tx_last_o,
    input  logic        mac_rx_valid_i,
    output logic        mac_rx_ready_o,
    input  logic [31:0] mac_rx_data_i,
    input  logic [2:0]  mac_rx_bytes_i,
    input  logic        mac_rx_last_i,
    input  logic        mac_rx_err_i,
    output logic        mac_rx_room_o,     // a frame that begins now finds a slot
    input  logic        mac_rx_overrun_i,  // one clock for each frame that the MAC dropped
    output logic        mac_quiet_o
);

  localparam int unsigned SlotWords = hvia_params_pkg::PacketSlotBytes / 4;
  localparam int unsigned AddrW     = $clog2(SlotWords);
  localparam logic [10:0] MinFrame  = hvia_pkg::MinFrame[10:0];
  localparam logic [AddrW+2:0] MaxFrame = hvia_pkg::MaxFrame[AddrW+2:0];

  localparam logic [1:0] EndGood    = 2'd0;
  localparam logic [1:0] EndBad     = 2'd1;
  localparam logic [1:0] EndLong    = 2'd2;
  localparam logic [1:0] EndOverrun = 2'd3;

  // What counts slots must not outlive what carries frames across.
  logic both_rst_n, core_rst_n, mac_rst_n, core_live, mac_live;
  assign both_rst_n = rst_ni & mac_rst_ni;
  cdc_reset_sync u_core_reset (
      .clk_i  (clk_i),
      .arst_ni(both_rst_n),
      .rst_no (core_rst_n),
      .live_o (core_live)
  );
  cdc_reset_sync u_mac_reset (
      .clk_i  (mac_clk_i),
      .arst_ni(both_rst_n),
      .rst_no (mac_rst_n),
      .live_o (mac_live)
  );

  // Transmit, core side.

  logic [31:0] tx_mem[0:2*SlotWords-1];
  logic             tx_wslot_q;
  logic [AddrW-1:0] tx_waddr_q;
  logic [1:0]       tx_used_q;  // slots with the MAC side
  logic             tx_write, tx_commit, tx_cmd_ready, tx_free;
  logic [10:0]      tx_commit_len;

  assign tx_slot_ready_o = (tx_used_q < (single_tx_slot_i ? 2'd1 : 2'd2)) & tx_cmd_ready;
  assign tx_wready_o     = tx_slot_ready_o;
  assign tx_write        = tx_wvalid_i & tx_wready_o;
  assign tx_commit       = tx_write & tx_wlast_i & ~tx_wabort_i;
  assign tx_commit_len   = {tx_waddr_q, 2'b00} + {8'd0, tx_wbytes_i};

  always_ff @(posedge clk_i) begin
    if (tx_write) tx_mem[{tx_wslot_q, tx_waddr_q}] <= tx_wdata_i;
  end

  always_ff @(posedge clk_i or negedge core_rst_n) begin
    if (!core_rst_n) begin
      tx_wslot_q <= 1'b0;
      tx_waddr_q <= '0;
      tx_used_q  <= 2'd0;
    end else begin
      tx_used_q <= tx_used_q + {1'b0, tx_commit} - {1'b0, tx_free};
      if (tx_wabort_i | tx_commit) tx_waddr_q <= '0;
      else if (tx_write) tx_waddr_q <= tx_waddr_q + 1'b1;
      if (tx_commit) tx_wslot_q <= ~tx_wslot_q;
    end
  end

  // Whose frame lies in a slot, for the trace.
  logic [47:0] tx_owner_q;
  logic        tx_eslot_q;
  always_ff @(posedge clk_i) begin
    if (tx_commit & ~tx_wslot_q) tx_owner_q[23:0] <= {tx_wvi_i, tx_wseq_i};
    if (tx_commit & tx_wslot_q) tx_owner_q[47:24] <= {tx_wvi_i, tx_wseq_i};
  end

  // Transmit, MAC side.

  logic             tx_cmd_valid, tx_run_q, tx_rslot_q, tx_beat, tx_pop, tx_event_ready, tx_event_push;
  logic [10:0]      tx_len, tx_total, tx_base, tx_left, tx_data_left;
  logic [AddrW-1:0] tx_raddr_q, tx_raddr_next;
  logic [31:0]      tx_rdata_q;
  logic             tx_last;

  assign tx_total       = (tx_len < MinFrame) ? MinFrame : tx_len;
  assign tx_base        = {tx_raddr_q, 2'b00};
  assign tx_left        = tx_total - tx_base;
  assign tx_last        = tx_left <= 11'd4;
  assign tx_data_left   = (tx_base < tx_len) ? tx_len - tx_base : 11'd0;
  assign mac_tx_valid_o = tx_run_q & tx_event_ready;
  assign mac_tx_last_o  = tx_last;
  assign mac_tx_bytes_o = tx_last ? tx_left[2:0] : 3'd4;
  assign mac_tx_data_o  = (tx_data_left >= 11'd4) ? tx_rdata_q :
                          tx_rdata_q & ~(32'hffff_ffff << {tx_data_left[1:0], 3'b000});
  assign tx_beat        = mac_tx_valid_o & mac_tx_ready_i;
  assign tx_pop         = tx_beat & tx_last;
  assign tx_event_push  = tx_beat & (tx_last | (tx_raddr_q == '0));
  assign tx_raddr_next  = tx_run_q ? tx_raddr_q + 1'b1 : '0;

  always_ff @(posedge mac_clk_i) begin
    if (tx_run_q ? tx_beat : tx_cmd_valid) tx_rdata_q <= tx_mem[{tx_rslot_q, tx_raddr_next}];
  end

  always_ff @(posedge mac_clk_i or negedge mac_rst_n) begin
    if (!mac_rst_n) begin
      tx_run_q   <= 1'b0;
      tx_rslot_q <= 1'b0;
      tx_raddr_q <= '0;
    end else begin
      if (tx_pop) begin
        tx_run_q   <= 1'b0;
        tx_rslot_q <= ~tx_rslot_q;
      end else if (~tx_run_q & tx_cmd_valid) begin
        tx_run_q <= 1'b1;
      end
      if (tx_run_q ? tx_beat : tx_cmd_valid) tx_raddr_q <= tx_raddr_next;
    end
  end

  logic tx_cmd_src_quiet, tx_cmd_dst_quiet;
  cdc_fifo #(
      .Width(11),
      .Depth(4)
  ) u_tx_command (
      .src_clk_i  (clk_i),
      .src_rst_ni (rst_ni),
      .src_valid_i(tx_commit),
      .src_ready_o(tx_cmd_ready),
      .src_data_i (tx_commit_len),
      .src_quiet_o(tx_cmd_src_quiet),
      .dst_clk_i  (mac_clk_i),
      .dst_rst_ni (mac_rst_ni),
      .dst_valid_o(tx_cmd_valid),
      .dst_ready_i(tx_pop),
      .dst_data_o (tx_len),
      .dst_quiet_o(tx_cmd_dst_quiet)
  );

  logic tx_event_src_quiet, tx_event_dst_quiet, tx_event_valid, tx_event_end;
  cdc_fifo #(
      .Width(1),
      .Depth(4)
  ) u_tx_event (
      .src_clk_i  (mac_clk_i),
      .src_rst_ni (mac_rst_ni),
      .src_valid_i(tx_event_push),
      .src_ready_o(tx_event_ready),
      .src_data_i (tx_last),
      .src_quiet_o(tx_event_src_quiet),
      .dst_clk_i  (clk_i),
      .dst_rst_ni (rst_ni),
      .dst_valid_o(tx_event_valid),
      .dst_ready_i(1'b1),
      .dst_data_o (tx_event_end),
      .dst_quiet_o(tx_event_dst_quiet)
  );

  assign tx_free = tx_event_valid & tx_event_end;

  always_ff @(posedge clk_i or negedge core_rst_n) begin
    if (!core_rst_n) tx_eslot_q <= 1'b0;
    else if (tx_free) tx_eslot_q <= ~tx_eslot_q;
  end

  assign stat_mac_transmit_frame_o = tx_free;
  assign trace_tx_valid_o = tx_event_valid;
  assign trace_tx_event_o = tx_event_end ? hvia_pkg::TraceEventMacTransmitEnd
                                         : hvia_pkg::TraceEventMacTransmitStart;
  assign {trace_tx_vi_o, trace_tx_seq_o} = tx_eslot_q ? tx_owner_q[47:24] : tx_owner_q[23:0];

  // Receive, MAC side.

  logic [31:0] rx_mem[0:2*SlotWords-1];
  logic             rx_wslot_q, rx_inside_q, rx_store_q, rx_on_q;
  logic [AddrW:0]   rx_waddr_q;  // stops at the end of the slot
  logic [1:0]       rx_used_q;   // slots with the core side
  logic             rx_enable, rx_enable_settled, rx_beat, rx_store, rx_on, rx_free, rx_good;
  logic             rx_event_ready, rx_event_push;
  logic [AddrW+2:0] rx_size;
  logic [1:0]       rx_end;

  cdc_sync #(
      .Width(1)
  ) u_enable (
      .clk_i    (mac_clk_i),
      .rst_ni   (mac_rst_n),
      .d_i      (enable_i),
      .q_o      (rx_enable),
      .settled_o(rx_enable_settled)
  );

  assign mac_rx_ready_o = rx_event_ready;
  assign rx_beat        = mac_rx_valid_i & mac_rx_ready_o;
  assign rx_on          = rx_inside_q ? rx_on_q : rx_enable;
  assign mac_rx_room_o  = ~rx_enable | (rx_used_q < (single_rx_slot_i ? 2'd1 : 2'd2));
  assign rx_store       = rx_inside_q ? rx_store_q : rx_enable & mac_rx_room_o;
  assign rx_size        = {rx_waddr_q, 2'b00} + {{(AddrW){1'b0}}, mac_rx_bytes_i};

  always_comb begin
    rx_end = EndGood;
    if (mac_rx_err_i | (rx_size < {{(AddrW-8){1'b0}}, MinFrame})) rx_end = EndBad;
    else if (rx_size > MaxFrame) rx_end = EndLong;
    else if (~rx_store) rx_end = EndOverrun;
  end
  assign rx_good       = rx_beat & mac_rx_last_i & rx_on & (rx_end == EndGood);
  assign rx_event_push = rx_beat & rx_on & (~rx_inside_q | mac_rx_last_i);

  always_ff @(posedge mac_clk_i) begin
    if (rx_beat & rx_store & ~rx_waddr_q[AddrW]) begin
      rx_mem[{rx_wslot_q, rx_waddr_q[AddrW-1:0]}] <= mac_rx_data_i;
    end
  end

  always_ff @(posedge mac_clk_i or negedge mac_rst_n) begin
    if (!mac_rst_n) begin
      rx_wslot_q  <= 1'b0;
      rx_inside_q <= 1'b0;
      rx_store_q  <= 1'b0;
      rx_on_q     <= 1'b0;
      rx_waddr_q  <= '0;
      rx_used_q   <= 2'd0;
    end else begin
      rx_used_q <= rx_used_q + {1'b0, rx_good} - {1'b0, rx_free};
      if (rx_good) rx_wslot_q <= ~rx_wslot_q;
      if (rx_beat) begin
        rx_inside_q <= ~mac_rx_last_i;
        rx_store_q  <= rx_store;
        rx_on_q     <= rx_on;
        if (mac_rx_last_i) rx_waddr_q <= '0;
        else if (~rx_waddr_q[AddrW]) rx_waddr_q <= rx_waddr_q + 1'b1;
      end
    end
  end

  // Receive, core side.

  logic        rx_event_src_quiet, rx_event_dst_quiet, rx_event_valid;
  logic        rx_event_start, rx_event_end;
  logic [1:0]  rx_event_kind;
  logic [10:0] rx_event_len;
  cdc_fifo #(
      .Width(15),
      .Depth(8)
  ) u_rx_event (
      .src_clk_i  (mac_clk_i),
      .src_rst_ni (mac_rst_ni),
      .src_valid_i(rx_event_push),
      .src_ready_o(rx_event_ready),
      .src_data_i ({~rx_inside_q, mac_rx_last_i, rx_end, rx_size[10:0]}),
      .src_quiet_o(rx_event_src_quiet),
      .dst_clk_i  (clk_i),
      .dst_rst_ni (rst_ni),
      .dst_valid_o(rx_event_valid),
      .dst_ready_i(1'b1),
      .dst_data_o ({rx_event_start, rx_event_end, rx_event_kind, rx_event_len}),
      .dst_quiet_o(rx_event_dst_quiet)
  );

  logic rx_free_src_quiet, rx_free_dst_quiet, unused_free_ready, unused_free_data;
  cdc_fifo #(
      .Width(1),
      .Depth(4)
  ) u_rx_free (
      .src_clk_i  (clk_i),
      .src_rst_ni (rst_ni),
      .src_valid_i(rx_done_i),
      .src_ready_o(unused_free_ready),
      .src_data_i (1'b1),
      .src_quiet_o(rx_free_src_quiet),
      .dst_clk_i  (mac_clk_i),
      .dst_rst_ni (mac_rst_ni),
      .dst_valid_o(rx_free),
      .dst_ready_i(1'b1),
      .dst_data_o (unused_free_data),
      .dst_quiet_o(rx_free_dst_quiet)
  );

  logic        rx_arrive, rx_aslot_q, rx_rslot_q;
  logic [1:0]  rx_count_q;
  logic [21:0] rx_len_q;
  logic [31:0] rx_rdata_q;
  logic [15:0] rx_number_q;  // of the frame, for the trace
  logic        rx_ended;

  assign rx_ended  = rx_event_valid & rx_event_end;
  assign rx_arrive = rx_ended & (rx_event_kind == EndGood);

  always_ff @(posedge clk_i or negedge core_rst_n) begin
    if (!core_rst_n) begin
      rx_aslot_q  <= 1'b0;
      rx_rslot_q  <= 1'b0;
      rx_count_q  <= 2'd0;
      rx_number_q <= 16'd0;
    end else begin
      rx_count_q <= rx_count_q + {1'b0, rx_arrive} - {1'b0, rx_done_i};
      if (rx_arrive) rx_aslot_q <= ~rx_aslot_q;
      if (rx_done_i) rx_rslot_q <= ~rx_rslot_q;
      if (rx_ended) rx_number_q <= rx_number_q + 16'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (rx_arrive & ~rx_aslot_q) rx_len_q[10:0] <= rx_event_len;
    if (rx_arrive & rx_aslot_q) rx_len_q[21:11] <= rx_event_len;
    if (rx_valid_o) rx_rdata_q <= rx_mem[{rx_rslot_q, rx_raddr_i}];
  end

  assign rx_valid_o = rx_count_q != 2'd0;
  assign rx_len_o   = rx_rslot_q ? rx_len_q[21:11] : rx_len_q[10:0];
  assign rx_rdata_o = rx_rdata_q;

  assign stat_mac_receive_frame_o   = rx_arrive;
  assign stat_mac_receive_bad_o     = rx_ended & (rx_event_kind == EndBad);
  assign stat_mac_receive_long_o    = rx_ended & (rx_event_kind == EndLong);
  logic mac_overrun, mac_overrun_src_quiet, mac_overrun_dst_quiet;
  cdc_pulse u_mac_overrun (
      .src_clk_i  (mac_clk_i),
      .src_rst_ni (mac_rst_n),
      .src_pulse_i(mac_rx_overrun_i),
      .src_quiet_o(mac_overrun_src_quiet),
      .dst_clk_i  (clk_i),
      .dst_rst_ni (core_rst_n),
      .dst_pulse_o(mac_overrun),
      .dst_quiet_o(mac_overrun_dst_quiet)
  );

  // Only one of the two can come: a MAC with a buffer never begins a frame without room.
  assign stat_mac_receive_overrun_o = (rx_ended & (rx_event_kind == EndOverrun)) | mac_overrun;

  // A good frame has more than one beat, so its start and its end are two events.
  assign trace_rx_valid_o = rx_event_valid & (rx_event_start | rx_arrive);
  assign trace_rx_event_o = rx_event_start ? hvia_pkg::TraceEventMacReceiveStart
                                           : hvia_pkg::TraceEventMacReceiveEnd;
  assign trace_rx_vi_o    = 8'd0;
  assign trace_rx_seq_o   = rx_number_q;

  // The receive engine's reads change a register here, but they are its own: it is not quiet then.
  assign quiet_o = tx_cmd_src_quiet & tx_event_dst_quiet & rx_event_dst_quiet & rx_free_src_quiet &
                   mac_overrun_dst_quiet & ~tx_write & ~tx_wabort_i & ~rx_done_i & core_live;
  assign mac_quiet_o = tx_cmd_dst_quiet & tx_event_src_quiet & rx_event_src_quiet & rx_free_dst_quiet &
                       mac_overrun_src_quiet & rx_enable_settled & ~tx_beat & ~(~tx_run_q & tx_cmd_valid) & ~rx_beat & mac_live;

endmodule
