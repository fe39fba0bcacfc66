// SPDX-License-Identifier: Apache-2.0

// The card without its board: everything that does not know which bus and which MAC it hangs on.
// Outside it sees one host bus port, one target port, packet buffers in each direction, the SDRAM's
// pins and the trace port.
module hvia_core #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           bus_rst_ni,   // lives as long as the bus side
    input  logic           rst_ni,
    input  logic           sd_clk_i,
    input  logic           sd_rst_ni,
    input  logic [47:0]    timebase_i,
    input  logic [47:0]    sd_timebase_i,
    input  logic [31:0]    strap_i,

    // Soft reset
    output logic           soft_reset_o,
    input  logic           soft_reset_busy_i,
    input  logic           quiesce_i,
    output logic           host_idle_o,

    // Host bus
    output logic           bus_req_valid_o,
    input  logic           bus_req_ready_i,
    output logic           bus_req_write_o,
    output logic [31:0]    bus_req_addr_o,
    output logic [9:0]     bus_req_len_o,
    output logic [W-1:0]   bus_wdata_o,
    output logic [W/8-1:0] bus_wstrb_o,
    output logic           bus_wvalid_o,
    input  logic           bus_wready_i,
    input  logic           bus_wdone_i,
    input  logic           bus_werr_i,
    input  logic [W-1:0]   bus_rdata_i,
    input  logic           bus_rvalid_i,
    output logic           bus_rready_o,
    input  logic           bus_rlast_i,
    input  logic           bus_rerr_i,

    // Target port
    input  logic           tgt_wvalid_i,
    output logic           tgt_wready_o,
    input  logic           tgt_wbar_i,
    input  logic [19:0]    tgt_waddr_i,
    input  logic [31:0]    tgt_wdata_i,
    input  logic [3:0]     tgt_wbe_i,
    input  logic           tgt_rvalid_i,
    input  logic           tgt_rbar_i,
    input  logic [19:0]    tgt_raddr_i,
    output logic           tgt_rready_o,
    output logic [31:0]    tgt_rdata_o,
    output logic           irq_o,

    // Counter events of the board's bus interface: master read, write, retry, abort, parity, target
    // write, target read
    input  logic [6:0]     stat_bus_i,

    // Packet buffers, and the MAC behind them
    output logic           mac_enable_o,
    output logic [47:0]    mac_address_o,  // wire byte 0 in bits 7:0
    input  logic           mac_ready_i,
    input  logic           tx_slot_ready_i,
    output logic           tx_wvalid_o,
    input  logic           tx_wready_i,
    output logic [W-1:0]   tx_wdata_o,
    output logic [$clog2(W/8):0] tx_wbytes_o,
    output logic           tx_wlast_o,
    output logic           tx_wabort_o,
    output logic [7:0]     tx_wvi_o,
    output logic [15:0]    tx_wseq_o,
    output logic [10:0]    tx_wlen_o,
    input  logic           rx_valid_i,
    input  logic [10:0]    rx_len_i,
    input  logic [10:0]    rx_avail_i,
    input  logic           rx_end_i,
    input  logic           rx_bad_i,
    output logic [$clog2(hvia_params_pkg::PacketSlotBytes*8/W)-1:0] rx_raddr_o,
    input  logic [W-1:0]   rx_rdata_i,
    output logic           rx_done_o,
    // Counter events of the packet buffers: frame sent, good frame, bad, long, overrun, bus error
    input  logic [6:0]     stat_mac_i,
    input  logic           link_down_i,
    input  logic [47:0]    slot_deadline_i,

    // Trace lanes of the board: MacTransmit, MacReceive, MacBus, HostBus
    input  logic [3:0]     board_trace_valid_i,
    input  logic [31:0]    board_trace_event_i,
    input  logic [31:0]    board_trace_vi_i,
    input  logic [63:0]    board_trace_seq_i,
    input  logic           board_quiet_i,
    input  logic           monitor_quiet_i,  // of the system bus

    // SDRAM, SDRAM domain
    output logic           sd_cke_o,
    output logic           sd_cs_n_o,
    output logic           sd_ras_n_o,
    output logic           sd_cas_n_o,
    output logic           sd_we_n_o,
    output logic [1:0]     sd_ba_o,
    output logic [11:0]    sd_a_o,
    output logic [3:0]     sd_dqm_o,
    output logic [31:0]    sd_dq_o,
    output logic           sd_dq_oe_o,
    input  logic [31:0]    sd_dq_i,

    // Trace
    output logic [11:0]    trace_valid_o,
    output logic [95:0]    trace_event_o,
    output logic [95:0]    trace_vi_o,
    output logic [191:0]   trace_seq_o,
    output logic [47:0]    trace_time_o,

    // Nothing changes in the domain before an input does or its timebase reaches the deadline.
    output logic           quiet_o,
    output logic           sd_quiet_o,
    output logic [47:0]    next_deadline_o,
    output logic [47:0]    sd_next_deadline_o,
    output logic           ready_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;

  // --------------------------------------------------------------------------------------------
  // Host bus requesters (order of priority: see docs/reference/card.md, section 7)
  // --------------------------------------------------------------------------------------------
  localparam int unsigned N        = 7;
  localparam int unsigned ReqTable = 0;  // asks with strap AttInHostMemory only
  localparam int unsigned ReqWrite = 1;
  localparam int unsigned ReqCpl   = 2;
  localparam int unsigned ReqFetch = 3;
  localparam int unsigned ReqRaw   = 4;
  localparam int unsigned ReqMgr   = 5;
  localparam int unsigned ReqRead  = 6;

  logic               fetch_patient;
  logic               read_more;
  logic [N-1:0]       req_patient, req_more;
  logic [N-1:0]       req_valid, req_ready, req_write, wvalid, wready, wdone, werr, rvalid, rready;
  logic [N*32-1:0]    req_addr;
  logic [N*10-1:0]    req_len;
  logic [N*W-1:0]     wdata;
  logic [N*W/8-1:0]   wstrb;
  logic [W-1:0]       rdata;
  logic               rlast, rerr;
  logic               arbiter_quiet;

  hvia_host_arbiter #(
      .N    (N),
      .DataW(W),
      // Twice the number of those that always ask.
      .Bound(2 * (N - 1))
  ) u_host_arbiter (
      .clk_i,
      .rst_ni,
      .quiesce_i,
      .idle_o         (host_idle_o),
      .quiet_o        (arbiter_quiet),
      .req_valid_i    (req_valid),
      .req_ready_o    (req_ready),
      .req_patient_i  (req_patient),
      .req_more_i     (req_more),
      .req_write_i    (req_write),
      .req_addr_i     (req_addr),
      .req_len_i      (req_len),
      .wdata_i        (wdata),
      .wstrb_i        (wstrb),
      .wvalid_i       (wvalid),
      .wready_o       (wready),
      .wdone_o        (wdone),
      .werr_o         (werr),
      .rdata_o        (rdata),
      .rvalid_o       (rvalid),
      .rready_i       (rready),
      .rlast_o        (rlast),
      .rerr_o         (rerr),
      .bus_req_valid_o,
      .bus_req_ready_i,
      .bus_req_write_o,
      .bus_req_addr_o,
      .bus_req_len_o,
      .bus_wdata_o,
      .bus_wstrb_o,
      .bus_wvalid_o,
      .bus_wready_i,
      .bus_wdone_i,
      .bus_werr_i,
      .bus_rdata_i,
      .bus_rvalid_i,
      .bus_rready_o,
      .bus_rlast_i,
      .bus_rerr_i
  );

  always_comb begin
    req_patient           = '0;
    req_patient[ReqFetch] = fetch_patient;
    req_more              = '0;
    req_more[ReqRead]     = read_more;
  end

  // Requesters that only read.
  assign req_write[ReqFetch] = 1'b0;
  assign req_write[ReqRead]  = 1'b0;
  assign wvalid[ReqFetch]    = 1'b0;
  assign wvalid[ReqRead]     = 1'b0;
  assign wdata[ReqFetch*W +: W]     = '0;
  assign wdata[ReqRead*W +: W]      = '0;
  assign wstrb[ReqFetch*W/8 +: W/8] = '0;
  assign wstrb[ReqRead*W/8 +: W/8]  = '0;
  // Requesters that only write.
  assign req_write[ReqWrite] = 1'b1;
  assign rready[ReqWrite]    = 1'b0;

  // --------------------------------------------------------------------------------------------
  // Shared wires
  // --------------------------------------------------------------------------------------------
  logic [127:0] strobe;
  logic [31:0]  drain_handle;
  hvia_params_pkg::vi_t drain_vi;
  logic [6:0]   handle_busy;
  logic [6:0]   vi_busy;
  logic         flush, stale_start;
  hvia_params_pkg::vis_t live;
  logic [4*VIW-1:0] rd_vi;
  logic [511:0] rd_ctx;
  logic [47:0]  mac;
  logic         enable;

  localparam int unsigned Lanes = 12;
  logic [Lanes-1:0]    trace_valid;
  logic [Lanes*8-1:0]  trace_event, trace_vi;
  logic [Lanes*16-1:0] trace_seq;

  localparam int unsigned Sources = 8;
  logic [Sources-1:0]   async_valid, async_ready;
  logic [Sources*8-1:0] async_code, async_vi;
  logic                 error_valid, unused_ready;
  logic [7:0] error_code, error_vi;

  // Translation clients.
  logic [2:0]  att_req_valid, att_req_ready, att_rsp_valid;
  logic [95:0] att_req_handle, att_req_len;
  logic [191:0] att_req_va;
  logic [47:0] att_req_tag;
  logic [5:0]  att_req_access;
  logic [3*VIW-1:0] att_req_vi;
  logic [2:0]  att_rsp_err;
  logic [31:0] att_rsp_pa;
  logic [12:0] att_rsp_bytes;

  // --------------------------------------------------------------------------------------------
  // Registers and counters
  // --------------------------------------------------------------------------------------------
  logic        db_wvalid, db_wready;
  logic [19:0] db_waddr;
  logic [31:0] db_wdata;
  logic [3:0]  db_wbe;
  logic [6:0]  counter_index;
  logic [31:0] counter_data;
  logic        cmd_valid, cmd_busy;
  logic [31:0] cmd_addr;
  logic [31:0] att_level1, att_level2;
  logic [31:0] rawtx_base, rawrx_base;
  logic [3:0]  rawtx_size, rawrx_size;
  logic [7:0]  rawtx_tail, rawrx_tail, rawtx_head, rawrx_head;
  logic        rawtx_restart, rawrx_restart, rawtx_busy, rawrx_busy;
  logic        irq_command_done, irq_raw_receive, irq_raw_transmit, irq_notify;
  logic        arm_valid, info_read;
  logic [1:0]  arm_kind;
  logic [7:0]  arm_index;
  logic [31:0] info_data;
  logic        registers_quiet, counters_quiet, async_quiet, context_quiet, idle;
  logic        att_ready, ready;
  assign ready         = att_ready && mac_ready_i;
  assign mac_enable_o  = enable;
  assign mac_address_o = mac;

  hvia_registers #(
      .DataBytes(W / 8)
  ) u_registers (
      .clk_i,
      .rst_ni                (bus_rst_ni),
      .core_rst_ni           (rst_ni),
      .tgt_wvalid_i,
      .tgt_wready_o,
      .tgt_wbar_i,
      .tgt_waddr_i,
      .tgt_wdata_i,
      .tgt_wbe_i,
      .tgt_rvalid_i,
      .tgt_rbar_i,
      .tgt_raddr_i,
      .tgt_rready_o,
      .tgt_rdata_o,
      .db_wvalid_o           (db_wvalid),
      .db_wready_i           (db_wready),
      .db_waddr_o            (db_waddr),
      .db_wdata_o            (db_wdata),
      .db_wbe_o              (db_wbe),
      .counter_index_o       (counter_index),
      .counter_data_i        (counter_data),
      .strap_i,
      .soft_reset_o,
      .soft_reset_busy_i,
      .enable_o              (enable),
      .mac_o                 (mac),
      .ready_i               (ready),
      .card_quiet_i          (idle),
      .cmd_valid_o           (cmd_valid),
      .cmd_addr_o            (cmd_addr),
      .cmd_busy_i            (cmd_busy),
      .stat_command_ignored_o(strobe[hvia_pkg::CounterCommandIgnored]),
      .att_level1_o          (att_level1),
      .att_level2_o          (att_level2),
      .rawtx_base_o          (rawtx_base),
      .rawtx_size_o          (rawtx_size),
      .rawtx_tail_o          (rawtx_tail),
      .rawtx_restart_o       (rawtx_restart),
      .rawtx_head_i          (rawtx_head),
      .rawtx_busy_i          (rawtx_busy),
      .rawrx_base_o          (rawrx_base),
      .rawrx_size_o          (rawrx_size),
      .rawrx_tail_o          (rawrx_tail),
      .rawrx_restart_o       (rawrx_restart),
      .rawrx_head_i          (rawrx_head),
      .rawrx_busy_i          (rawrx_busy),
      .irq_command_done_i    (irq_command_done),
      .irq_raw_receive_i     (irq_raw_receive),
      .irq_raw_transmit_i    (irq_raw_transmit),
      .irq_bus_error_i       (stat_bus_i[3]),
      .async_valid_i         (error_valid),
      .async_code_i          (error_code),
      .async_vi_i            (error_vi),
      .link_down_i,
      .irq_notify_i          (irq_notify),
      .inta_o                (irq_o),
      .arm_valid_o           (arm_valid),
      .arm_kind_o            (arm_kind),
      .arm_index_o           (arm_index),
      .info_read_o           (info_read),
      .info_data_i           (info_data),
      .quiet_o               (registers_quiet)
  );

  hvia_counters u_counters (
      .clk_i,
      .rst_ni,
      .strobe_i  (strobe),
      .rd_index_i(counter_index),
      .rd_data_o (counter_data),
      .quiet_o   (counters_quiet)
  );

  hvia_async_errors #(
      .Sources(Sources)
  ) u_async_errors (
      .clk_i,
      .rst_ni,
      .valid_i      (async_valid),
      .code_i       (async_code),
      .vi_i         (async_vi),
      .ready_o      (async_ready),
      .async_valid_o(error_valid),
      .async_code_o (error_code),
      .async_vi_o   (error_vi),
      .quiet_o      (async_quiet)
  );
  assign unused_ready = ^{async_ready[6], async_ready[3:0]};

  // The link as it was reported last. A change waits until the one before it has gone on.
  logic link_told_q;
  assign async_valid[7]       = (link_down_i != link_told_q) & async_ready[7];
  assign async_code[7*8 +: 8] = link_down_i ? hvia_pkg::AsyncErrorLinkDown :
      hvia_pkg::AsyncErrorLinkUp;
  assign async_vi[7*8 +: 8]   = 8'd0;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) link_told_q <= 1'b0;
    else if (async_valid[7]) link_told_q <= link_down_i;
  end

  // --------------------------------------------------------------------------------------------
  // VI manager and contexts
  // --------------------------------------------------------------------------------------------
  logic        ctx_wr_valid, hold_valid;
  hvia_params_pkg::vi_t ctx_wr_vi, hold_vi;
  logic [127:0] ctx_wr_ctx;
  logic        tx_seq_init_valid, tx_seq_init_ready, rx_seq_init_valid, rx_seq_init_ready;
  hvia_params_pkg::vi_t seq_init_vi;
  logic [31:0] tx_seq_init_value, rx_seq_init_value;
  logic        upd_valid, upd_ready, upd_wvalid, upd_wready, upd_done, upd_error;
  logic [1:0]  upd_op;
  logic [31:0] upd_arg, upd_wdata;
  logic [15:0] upd_count;
  logic        cq_tie_valid, cqc_valid, cqc_ready, cqc_ok;
  hvia_params_pkg::vi_t cq_tie_vi;
  logic [7:0] cq_tie_send, cq_tie_receive, cqc_index, cqc_log2;
  logic [1:0]  cqc_op;
  logic [31:0] cqc_address, seq_init_transport;
  logic [15:0] cqc_tail;
  logic        led_init_valid, led_init_ready;
  logic        manager_quiet;
  logic [47:0] manager_deadline, ledger_deadline;
  logic [47:0] core_deadline;
  assign core_deadline   = (ledger_deadline < manager_deadline) ? ledger_deadline :
      manager_deadline;
  assign next_deadline_o = (slot_deadline_i < core_deadline) ? slot_deadline_i : core_deadline;

  hvia_vi_manager #(
      .W(W)
  ) u_vi_manager (
      .clk_i,
      .rst_ni,
      .timebase_i,
      .next_deadline_o     (manager_deadline),
      .cmd_valid_i         (cmd_valid),
      .cmd_addr_i          (cmd_addr),
      .cmd_busy_o          (cmd_busy),
      .req_valid_o         (req_valid[ReqMgr]),
      .req_ready_i         (req_ready[ReqMgr]),
      .req_write_o         (req_write[ReqMgr]),
      .req_addr_o          (req_addr[ReqMgr*32 +: 32]),
      .req_len_o           (req_len[ReqMgr*10 +: 10]),
      .wdata_o             (wdata[ReqMgr*W +: W]),
      .wstrb_o             (wstrb[ReqMgr*W/8 +: W/8]),
      .wvalid_o            (wvalid[ReqMgr]),
      .wready_i            (wready[ReqMgr]),
      .wdone_i             (wdone[ReqMgr]),
      .werr_i              (werr[ReqMgr]),
      .rdata_i             (rdata),
      .rvalid_i            (rvalid[ReqMgr]),
      .rready_o            (rready[ReqMgr]),
      .rlast_i             (rlast),
      .rerr_i              (rerr),
      .ctx_wr_valid_o      (ctx_wr_valid),
      .ctx_wr_vi_o         (ctx_wr_vi),
      .ctx_wr_ctx_o        (ctx_wr_ctx),
      .ctx_rd_vi_o         (rd_vi[3*VIW +: VIW]),
      .ctx_rd_ctx_i        (rd_ctx[3*128 +: 128]),
      .hold_valid_o        (hold_valid),
      .hold_vi_o           (hold_vi),
      .seq_init_vi_o       (seq_init_vi),
      .tx_seq_init_valid_o (tx_seq_init_valid),
      .tx_seq_init_ready_i (tx_seq_init_ready),
      .tx_seq_init_value_o (tx_seq_init_value),
      .rx_seq_init_valid_o (rx_seq_init_valid),
      .rx_seq_init_ready_i (rx_seq_init_ready),
      .rx_seq_init_value_o (rx_seq_init_value),
      .led_init_valid_o    (led_init_valid),
      .led_init_ready_i    (led_init_ready),
      .seq_init_transport_o(seq_init_transport),
      .cq_tie_valid_o      (cq_tie_valid),
      .cq_tie_vi_o         (cq_tie_vi),
      .cq_tie_send_o       (cq_tie_send),
      .cq_tie_receive_o    (cq_tie_receive),
      .cqc_valid_o         (cqc_valid),
      .cqc_ready_i         (cqc_ready),
      .cqc_op_o            (cqc_op),
      .cqc_index_o         (cqc_index),
      .cqc_address_o       (cqc_address),
      .cqc_log2_o          (cqc_log2),
      .cqc_ok_i            (cqc_ok),
      .cqc_tail_i          (cqc_tail),
      .clear_valid_o       (clear_valid),
      .clear_ready_i       (clear_ready),
      .clear_vi_o          (clear_vi),
      .drain_handle_o      (drain_handle),
      .drain_vi_o          (drain_vi),
      .drain_handle_busy_i (handle_busy != '0),
      .drain_vi_busy_i     (vi_busy != '0),
      .flush_o             (flush),
      .stale_start_o       (stale_start),
      .upd_valid_o         (upd_valid),
      .upd_ready_i         (upd_ready),
      .upd_op_o            (upd_op),
      .upd_arg_o           (upd_arg),
      .upd_count_o         (upd_count),
      .upd_wvalid_o        (upd_wvalid),
      .upd_wready_i        (upd_wready),
      .upd_wdata_o         (upd_wdata),
      .upd_done_i          (upd_done),
      .upd_error_i         (upd_error),
      .irq_command_done_o  (irq_command_done),
      .stat_command_o      (strobe[hvia_pkg::CounterCommand]),
      .stat_command_error_o(strobe[hvia_pkg::CounterCommandError]),
      .trace_valid_o       (trace_valid[hvia_pkg::TraceSourceCommand]),
      .trace_event_o       (trace_event[hvia_pkg::TraceSourceCommand*8 +: 8]),
      .trace_vi_o          (trace_vi[hvia_pkg::TraceSourceCommand*8 +: 8]),
      .trace_seq_o         (trace_seq[hvia_pkg::TraceSourceCommand*16 +: 16]),
      .quiet_o             (manager_quiet)
  );

  hvia_vi_context u_vi_context (
      .clk_i,
      .rst_ni,
      .wr_valid_i  (ctx_wr_valid),
      .wr_vi_i     (ctx_wr_vi),
      .wr_ctx_i    (ctx_wr_ctx),
      .rd_vi_i     (rd_vi),
      .rd_ctx_o    (rd_ctx),
      .hold_valid_i(hold_valid),
      .hold_vi_i   (hold_vi),
      .live_o      (live),
      .quiet_o     (context_quiet)
  );

  // --------------------------------------------------------------------------------------------
  // Raw-frame port
  // --------------------------------------------------------------------------------------------
  logic        rawtx_valid, rawtx_ready, rawtx_done, rawtx_err;
  logic [31:0] rawtx_pa, rawrx_pa;
  logic [10:0] rawtx_len;
  logic        rawrx_valid, rawrx_ready, rawrx_done, rawrx_err;
  logic [15:0] rawrx_capacity, rawrx_len;
  logic        raw_quiet;

  hvia_raw_port #(
      .W(W)
  ) u_raw_port (
      .clk_i,
      .rst_ni,
      .tx_base_i                (rawtx_base),
      .tx_size_i                (rawtx_size),
      .tx_tail_i                (rawtx_tail),
      .tx_restart_i             (rawtx_restart),
      .tx_head_o                (rawtx_head),
      .tx_busy_o                (rawtx_busy),
      .rx_base_i                (rawrx_base),
      .rx_size_i                (rawrx_size),
      .rx_tail_i                (rawrx_tail),
      .rx_restart_i             (rawrx_restart),
      .rx_head_o                (rawrx_head),
      .rx_busy_o                (rawrx_busy),
      .req_valid_o              (req_valid[ReqRaw]),
      .req_ready_i              (req_ready[ReqRaw]),
      .req_write_o              (req_write[ReqRaw]),
      .req_addr_o               (req_addr[ReqRaw*32 +: 32]),
      .req_len_o                (req_len[ReqRaw*10 +: 10]),
      .wdata_o                  (wdata[ReqRaw*W +: W]),
      .wstrb_o                  (wstrb[ReqRaw*W/8 +: W/8]),
      .wvalid_o                 (wvalid[ReqRaw]),
      .wready_i                 (wready[ReqRaw]),
      .wdone_i                  (wdone[ReqRaw]),
      .werr_i                   (werr[ReqRaw]),
      .rdata_i                  (rdata),
      .rvalid_i                 (rvalid[ReqRaw]),
      .rready_o                 (rready[ReqRaw]),
      .rlast_i                  (rlast),
      .rerr_i                   (rerr),
      .rawtx_valid_o            (rawtx_valid),
      .rawtx_ready_i            (rawtx_ready),
      .rawtx_pa_o               (rawtx_pa),
      .rawtx_len_o              (rawtx_len),
      .rawtx_done_i             (rawtx_done),
      .rawtx_err_i              (rawtx_err),
      .rawrx_valid_o            (rawrx_valid),
      .rawrx_ready_i            (rawrx_ready),
      .rawrx_pa_o               (rawrx_pa),
      .rawrx_capacity_o         (rawrx_capacity),
      .rawrx_done_i             (rawrx_done),
      .rawrx_len_i              (rawrx_len),
      .rawrx_err_i              (rawrx_err),
      .irq_raw_transmit_o       (irq_raw_transmit),
      .irq_raw_receive_o        (irq_raw_receive),
      .stat_raw_transmit_o      (strobe[hvia_pkg::CounterRawTransmit]),
      .stat_raw_transmit_error_o(strobe[hvia_pkg::CounterRawTransmitError]),
      .stat_raw_receive_o       (strobe[hvia_pkg::CounterRawReceive]),
      .stat_raw_receive_error_o (strobe[hvia_pkg::CounterRawReceiveError]),
      .trace_valid_o            (trace_valid[hvia_pkg::TraceSourceRaw]),
      .trace_event_o            (trace_event[hvia_pkg::TraceSourceRaw*8 +: 8]),
      .trace_vi_o               (trace_vi[hvia_pkg::TraceSourceRaw*8 +: 8]),
      .trace_seq_o              (trace_seq[hvia_pkg::TraceSourceRaw*16 +: 16]),
      .quiet_o                  (raw_quiet)
  );

  // --------------------------------------------------------------------------------------------
  // Doorbells and descriptors
  // --------------------------------------------------------------------------------------------
  logic        db_valid, db_ready, db_receive;
  hvia_params_pkg::vi_t db_vi;
  logic [63:0] db_va;
  logic [31:0] db_handle;
  logic        doorbell_quiet, queue_quiet, fetch_quiet, store_quiet, completion_quiet;

  // A VI is taken into use or given up.
  logic vi_turns;
  assign vi_turns = ctx_wr_valid && (!live[ctx_wr_vi] ||
      ctx_wr_ctx[hvia_pkg::VIContextAttributesStateLsb +:
          hvia_pkg::VIContextAttributesStateWidth] ==
          hvia_pkg::VIStateFree);

  hvia_doorbell u_doorbell (
      .clk_i,
      .rst_ni,
      .enable_i                 (enable),
      .live_i                   (live),
      .forget_valid_i           (vi_turns),
      .forget_vi_i              (ctx_wr_vi),
      .db_wvalid_i              (db_wvalid),
      .db_wready_o              (db_wready),
      .db_waddr_i               (db_waddr),
      .db_wdata_i               (db_wdata),
      .db_wbe_i                 (db_wbe),
      .db_valid_o               (db_valid),
      .db_ready_i               (db_ready),
      .db_receive_o             (db_receive),
      .db_vi_o                  (db_vi),
      .db_va_o                  (db_va),
      .db_handle_o              (db_handle),
      .async_valid_o            (async_valid[0]),
      .async_code_o             (async_code[0*8 +: 8]),
      .async_vi_o               (async_vi[0*8 +: 8]),
      .stat_doorbell_send_o     (strobe[hvia_pkg::CounterDoorbellSend]),
      .stat_doorbell_receive_o  (strobe[hvia_pkg::CounterDoorbellReceive]),
      .stat_doorbell_malformed_o(strobe[hvia_pkg::CounterDoorbellMalformed]),
      .trace_valid_o            (trace_valid[hvia_pkg::TraceSourceDoorbell]),
      .trace_event_o            (trace_event[hvia_pkg::TraceSourceDoorbell*8 +: 8]),
      .trace_vi_o               (trace_vi[hvia_pkg::TraceSourceDoorbell*8 +: 8]),
      .trace_seq_o              (trace_seq[hvia_pkg::TraceSourceDoorbell*16 +: 16]),
      .quiet_o                  (doorbell_quiet)
  );

  logic        take_valid, take_ready, take_receive, take_more, send_room;
  logic        link_valid, link_ready, link_bad, link_receive;
  hvia_params_pkg::vi_t take_vi, link_vi;
  logic [63:0] take_va, link_va;
  logic [31:0] take_handle, link_handle;
  logic [15:0] take_seq;
  logic        clear_valid, clear_ready;
  hvia_params_pkg::vi_t clear_vi;
  // Receive descriptors that have left the chip (0 rx_engine, 1 descriptor_fetch), and whether one
  // of a VI is on its way to it.
  logic [1:0]  release_valid, release_ready;
  logic [2*VIW-1:0] release_vi;
  hvia_params_pkg::vi_t coming_vi;
  logic        queue_coming, fetch_coming, receive_wanted;

  assign async_code[1*8 +: 8] = hvia_pkg::AsyncErrorVIOverrun;

  // Messages of reliable VIs, between tx_engine and send_ledger, and acknowledgements.
  hvia_params_pkg::vis_t send_hold;
  logic         unhold_valid, unhold_ready;
  hvia_params_pkg::vi_t unhold_vi;
  logic         led_valid, led_ready, led_last, led_fence, led_go;
  logic [1:0]   led_op, led_operation;
  hvia_params_pkg::vi_t led_vi;
  logic [4:0]   led_slot, led_slot_back;
  logic [31:0]  led_number, led_number_back, led_pa, led_handle, led_length;
  logic [8:0]   led_status;
  logic [63:0]  led_va;
  logic [15:0]  led_seq;
  logic         job_valid, job_ready, job_response;
  hvia_params_pkg::vi_t job_vi;
  logic [4:0]   job_slot;
  logic [31:0]  job_first, job_number, job_pa, job_handle, job_length;
  logic [63:0]  job_va;
  logic [15:0]  job_seq;
  logic [1:0]   job_operation;
  logic         ack_valid, ack_ready;
  hvia_params_pkg::vi_t ack_vi;
  logic [31:0]  ack_number;
  logic [2:0]   ack_code;

  hvia_work_queue #(
      .DepthLog2(hvia_params_pkg::QueueDepthLog2)
  ) u_work_queue (
      .clk_i,
      .rst_ni,
      .on_arrival_i           (strap_i[hvia_pkg::StrapReceiveFetchOnArrival]),
      .live_i                 (live),
      .db_valid_i             (db_valid),
      .db_ready_o             (db_ready),
      .db_receive_i           (db_receive),
      .db_vi_i                (db_vi),
      .db_va_i                (db_va),
      .db_handle_i            (db_handle),
      .send_hold_i            (send_hold),
      .unhold_valid_i         (unhold_valid),
      .unhold_ready_o         (unhold_ready),
      .unhold_vi_i            (unhold_vi),
      .send_room_i            (send_room),
      .take_valid_o           (take_valid),
      .take_ready_i           (take_ready),
      .take_receive_o         (take_receive),
      .take_vi_o              (take_vi),
      .take_va_o              (take_va),
      .take_handle_o          (take_handle),
      .take_more_o            (take_more),
      .take_seq_o             (take_seq),
      .link_valid_i           (link_valid),
      .link_ready_o           (link_ready),
      .link_bad_i             (link_bad),
      .link_receive_i         (link_receive),
      .link_vi_i              (link_vi),
      .link_va_i              (link_va),
      .link_handle_i          (link_handle),
      .release_valid_i        (release_valid),
      .release_ready_o        (release_ready),
      .release_vi_i           (release_vi),
      .coming_vi_i            (coming_vi),
      .coming_o               (queue_coming),
      .wanted_i               (receive_wanted),
      .clear_valid_i          (clear_valid),
      .clear_ready_o          (clear_ready),
      .clear_vi_i             (clear_vi),
      .drain_vi_i             (drain_vi),
      .drain_receive_i        (flush),
      .vi_busy_o              (vi_busy[0]),
      .overrun_valid_o        (async_valid[1]),
      .overrun_vi_o           (async_vi[1*8 +: 8]),
      .stat_doorbell_overrun_o(strobe[hvia_pkg::CounterDoorbellOverrun]),
      .quiet_o                (queue_quiet)
  );

  // Completions: 0 rx_engine, 1 descriptor_fetch, 2 tx_engine, 3 send_ledger.
  logic [3:0]   cpl_valid, cpl_ready, cpl_has_immediate, cpl_receive, cpl_write;
  logic [4*VIW-1:0] cpl_vi;
  logic [63:0]  cpl_seq;
  logic [127:0] cpl_pa, cpl_handle, cpl_length, cpl_status, cpl_immediate;
  assign cpl_receive                  = 4'b0011;
  assign cpl_has_immediate[3:1]       = 3'b000;
  assign cpl_immediate[127:32]        = '0;
  assign cpl_length[1*32 +: 32]       = 32'd0;
  assign cpl_write[1]                 = 1'b1;

  logic         desc_valid, desc_ready, desc_unreachable;
  hvia_params_pkg::vi_t desc_vi;
  logic [15:0]  desc_seq;
  logic [31:0]  desc_pa, desc_handle, desc_status;
  logic [63:0]  desc_va;
  logic [511:0] desc_chunk, chunk_data;
  logic         rxc_valid, rxc_ready, rxc_done, rxc_err, txc_valid, txc_ready, txc_done, txc_err;
  hvia_params_pkg::vi_t rxc_vi, txc_vi;
  logic [63:0]  rxc_va, txc_va;
  logic [31:0]  rxc_handle, txc_handle;
  logic         rxc_store;
  logic         st_valid, st_head;
  hvia_params_pkg::vi_t st_vi;
  logic [511:0] st_chunk;
  logic [63:0]  st_va;
  logic [31:0]  st_pa, st_handle, st_status;
  logic [15:0]  st_seq;

  hvia_descriptor_fetch #(
      .W(W)
  ) u_descriptor_fetch (
      .clk_i,
      .rst_ni,
      .take_valid_i              (take_valid),
      .take_ready_o              (take_ready),
      .take_receive_i            (take_receive),
      .take_vi_i                 (take_vi),
      .take_va_i                 (take_va),
      .take_handle_i             (take_handle),
      .take_more_i               (take_more),
      .take_seq_i                (take_seq),
      .send_room_o               (send_room),
      .link_valid_o              (link_valid),
      .link_ready_i              (link_ready),
      .link_bad_o                (link_bad),
      .link_receive_o            (link_receive),
      .link_vi_o                 (link_vi),
      .link_va_o                 (link_va),
      .link_handle_o             (link_handle),
      .release_valid_o           (release_valid[1]),
      .release_ready_i           (release_ready[1]),
      .release_vi_o              (release_vi[1*VIW +: VIW]),
      .coming_vi_i               (coming_vi),
      .coming_o                  (fetch_coming),
      .wanted_i                  (receive_wanted),
      .rd_vi_o                   (rd_vi[0*VIW +: VIW]),
      .rd_ctx_i                  (rd_ctx[0*128 +: 128]),
      .att_req_valid_o           (att_req_valid[0]),
      .att_req_ready_i           (att_req_ready[0]),
      .att_req_handle_o          (att_req_handle[0*32 +: 32]),
      .att_req_va_o              (att_req_va[0*64 +: 64]),
      .att_req_len_o             (att_req_len[0*32 +: 32]),
      .att_req_tag_o             (att_req_tag[0*16 +: 16]),
      .att_req_access_o          (att_req_access[0*2 +: 2]),
      .att_req_vi_o              (att_req_vi[0*VIW +: VIW]),
      .att_rsp_valid_i           (att_rsp_valid[0]),
      .att_rsp_err_i             (att_rsp_err),
      .att_rsp_pa_i              (att_rsp_pa),
      .req_valid_o               (req_valid[ReqFetch]),
      .req_ready_i               (req_ready[ReqFetch]),
      .req_patient_o             (fetch_patient),
      .req_addr_o                (req_addr[ReqFetch*32 +: 32]),
      .req_len_o                 (req_len[ReqFetch*10 +: 10]),
      .rdata_i                   (rdata),
      .rvalid_i                  (rvalid[ReqFetch]),
      .rready_o                  (rready[ReqFetch]),
      .rlast_i                   (rlast),
      .rerr_i                    (rerr),
      .rxc_valid_i               (rxc_valid),
      .rxc_ready_o               (rxc_ready),
      .rxc_vi_i                  (rxc_vi),
      .rxc_va_i                  (rxc_va),
      .rxc_handle_i              (rxc_handle),
      .rxc_store_i               (rxc_store),
      .rxc_done_o                (rxc_done),
      .rxc_err_o                 (rxc_err),
      .txc_valid_i               (txc_valid),
      .txc_ready_o               (txc_ready),
      .txc_vi_i                  (txc_vi),
      .txc_va_i                  (txc_va),
      .txc_handle_i              (txc_handle),
      .txc_done_o                (txc_done),
      .txc_err_o                 (txc_err),
      .chunk_data_o              (chunk_data),
      .desc_valid_o              (desc_valid),
      .desc_ready_i              (desc_ready),
      .desc_vi_o                 (desc_vi),
      .desc_seq_o                (desc_seq),
      .desc_va_o                 (desc_va),
      .desc_pa_o                 (desc_pa),
      .desc_handle_o             (desc_handle),
      .desc_chunk_o              (desc_chunk),
      .desc_status_o             (desc_status),
      .desc_unreachable_o        (desc_unreachable),
      .wr_valid_o                (st_valid),
      .wr_head_o                 (st_head),
      .wr_vi_o                   (st_vi),
      .wr_chunk_o                (st_chunk),
      .wr_va_o                   (st_va),
      .wr_pa_o                   (st_pa),
      .wr_handle_o               (st_handle),
      .wr_seq_o                  (st_seq),
      .wr_status_o               (st_status),
      .cpl_valid_o               (cpl_valid[1]),
      .cpl_ready_i               (cpl_ready[1]),
      .cpl_vi_o                  (cpl_vi[1*VIW +: VIW]),
      .cpl_seq_o                 (cpl_seq[1*16 +: 16]),
      .cpl_pa_o                  (cpl_pa[1*32 +: 32]),
      .cpl_handle_o              (cpl_handle[1*32 +: 32]),
      .cpl_status_o              (cpl_status[1*32 +: 32]),
      .drain_handle_i            (drain_handle),
      .drain_vi_i                (drain_vi),
      .handle_busy_o             (handle_busy[0]),
      .vi_busy_o                 (vi_busy[1]),
      .async_valid_o             (async_valid[2]),
      .async_code_o              (async_code[2*8 +: 8]),
      .async_vi_o                (async_vi[2*8 +: 8]),
      .stat_descriptor_fetched_o (strobe[hvia_pkg::CounterDescriptorFetched]),
      .stat_descriptor_bad_o     (strobe[hvia_pkg::CounterDescriptorBad]),
      .stat_descriptor_segments_o(strobe[hvia_pkg::CounterDescriptorSegments]),
      .trace_valid_o             (trace_valid[hvia_pkg::TraceSourceDescriptorFetch]),
      .trace_event_o             (trace_event[hvia_pkg::TraceSourceDescriptorFetch*8 +: 8]),
      .trace_vi_o                (trace_vi[hvia_pkg::TraceSourceDescriptorFetch*8 +: 8]),
      .trace_seq_o               (trace_seq[hvia_pkg::TraceSourceDescriptorFetch*16 +: 16]),
      .quiet_o                   (fetch_quiet)
  );

  logic         rs_valid, rs_stale, drop_valid;
  hvia_params_pkg::vi_t rs_vi, drop_vi;
  logic [511:0] rs_chunk;
  logic [63:0]  rs_va;
  logic [31:0]  rs_pa, rs_handle, rs_length, rs_status;
  logic [15:0]  rs_seq, rs_control, rs_segments;

  hvia_receive_store u_receive_store (
      .clk_i,
      .rst_ni,
      .wr_valid_i     (st_valid),
      .wr_head_i      (st_head),
      .wr_vi_i        (st_vi),
      .wr_chunk_i     (st_chunk),
      .wr_va_i        (st_va),
      .wr_pa_i        (st_pa),
      .wr_handle_i    (st_handle),
      .wr_seq_i       (st_seq),
      .wr_status_i    (st_status),
      .rs_vi_i        (rs_vi),
      .rs_valid_o     (rs_valid),
      .rs_stale_o     (rs_stale),
      .rs_chunk_o     (rs_chunk),
      .rs_va_o        (rs_va),
      .rs_pa_o        (rs_pa),
      .rs_handle_o    (rs_handle),
      .rs_seq_o       (rs_seq),
      .rs_control_o   (rs_control),
      .rs_segments_o  (rs_segments),
      .rs_length_o    (rs_length),
      .rs_status_o    (rs_status),
      .drop_valid_i   (drop_valid),
      .drop_vi_i      (drop_vi),
      .clear_valid_i  (clear_valid && clear_ready),
      .clear_vi_i     (clear_vi),
      .stale_start_i  (stale_start),
      .stale_busy_o   (handle_busy[4]),
      .drain_handle_i (drain_handle),
      .drain_vi_i     (drain_vi),
      .drain_receive_i(flush),
      .vi_busy_o      (vi_busy[5]),
      .quiet_o        (store_quiet)
  );

  logic       done_valid, notify_quiet;
  logic [1:0] done_kind;
  logic [7:0] done_index;

  hvia_completion #(
      .W(W)
  ) u_completion (
      .clk_i,
      .rst_ni,
      .cpl_valid_i              (cpl_valid),
      .cpl_ready_o              (cpl_ready),
      .cpl_vi_i                 (cpl_vi),
      .cpl_seq_i                (cpl_seq),
      .cpl_pa_i                 (cpl_pa),
      .cpl_handle_i             (cpl_handle),
      .cpl_length_i             (cpl_length),
      .cpl_status_i             (cpl_status),
      .cpl_immediate_i          (cpl_immediate),
      .cpl_has_immediate_i      (cpl_has_immediate),
      .cpl_receive_i            (cpl_receive),
      .cpl_write_i              (cpl_write),
      .cq_tie_valid_i           (cq_tie_valid),
      .cq_tie_vi_i              (cq_tie_vi),
      .cq_tie_send_i            (cq_tie_send),
      .cq_tie_receive_i         (cq_tie_receive),
      .cqc_valid_i              (cqc_valid),
      .cqc_ready_o              (cqc_ready),
      .cqc_op_i                 (cqc_op),
      .cqc_index_i              (cqc_index),
      .cqc_address_i            (cqc_address),
      .cqc_log2_i               (cqc_log2),
      .cqc_ok_o                 (cqc_ok),
      .cqc_tail_o               (cqc_tail),
      .req_valid_o              (req_valid[ReqCpl]),
      .req_ready_i              (req_ready[ReqCpl]),
      .req_write_o              (req_write[ReqCpl]),
      .req_addr_o               (req_addr[ReqCpl*32 +: 32]),
      .req_len_o                (req_len[ReqCpl*10 +: 10]),
      .wdata_o                  (wdata[ReqCpl*W +: W]),
      .wstrb_o                  (wstrb[ReqCpl*W/8 +: W/8]),
      .wvalid_o                 (wvalid[ReqCpl]),
      .wready_i                 (wready[ReqCpl]),
      .wdone_i                  (wdone[ReqCpl]),
      .werr_i                   (werr[ReqCpl]),
      .rdata_i                  (rdata),
      .rvalid_i                 (rvalid[ReqCpl]),
      .rready_o                 (rready[ReqCpl]),
      .rlast_i                  (rlast),
      .rerr_i                   (rerr),
      .drain_handle_i           (drain_handle),
      .drain_vi_i               (drain_vi),
      .handle_busy_o            (handle_busy[1]),
      .vi_busy_o                (vi_busy[2]),
      .done_valid_o             (done_valid),
      .done_kind_o              (done_kind),
      .done_index_o             (done_index),
      .async_valid_o            (async_valid[4]),
      .async_ready_i            (async_ready[4]),
      .async_code_o             (async_code[4*8 +: 8]),
      .async_vi_o               (async_vi[4*8 +: 8]),
      .stat_completion_written_o(strobe[hvia_pkg::CounterCompletionWritten]),
      .stat_completion_error_o  (strobe[hvia_pkg::CounterCompletionError]),
      .stat_completion_receive_o(strobe[hvia_pkg::CounterCompletionReceive]),
      .stat_descriptor_flushed_o(strobe[hvia_pkg::CounterDescriptorFlushed]),
      .stat_descriptor_error_o  (strobe[hvia_pkg::CounterDescriptorError]),
      .stat_completion_queue_entry_o  (strobe[hvia_pkg::CounterCompletionQueueEntry]),
      .stat_completion_queue_overrun_o(strobe[hvia_pkg::CounterCompletionQueueOverrun]),
      .trace_valid_o            (trace_valid[hvia_pkg::TraceSourceCompletion]),
      .trace_event_o            (trace_event[hvia_pkg::TraceSourceCompletion*8 +: 8]),
      .trace_vi_o               (trace_vi[hvia_pkg::TraceSourceCompletion*8 +: 8]),
      .trace_seq_o              (trace_seq[hvia_pkg::TraceSourceCompletion*16 +: 16]),
      .quiet_o                  (completion_quiet)
  );

  hvia_notify u_notify (
      .clk_i,
      .rst_ni,
      .done_valid_i (done_valid),
      .done_kind_i  (done_kind),
      .done_index_i (done_index),
      .arm_valid_i  (arm_valid),
      .arm_kind_i   (arm_kind),
      .arm_index_i  (arm_index),
      .info_read_i  (info_read),
      .info_data_o  (info_data),
      .irq_notify_o (irq_notify),
      .stat_notify_o(strobe[hvia_pkg::CounterNotify]),
      .quiet_o      (notify_quiet)
  );

  // --------------------------------------------------------------------------------------------
  // Engines
  // --------------------------------------------------------------------------------------------
  logic        transmit_quiet, receive_quiet;

  hvia_tx_engine #(
      .W(W)
  ) u_tx_engine (
      .clk_i,
      .rst_ni,
      .mac_i                  (mac),
      .no_overlap_i           (strap_i[hvia_pkg::StrapNoAttOverlap]),
      .short_bursts_i         (strap_i[hvia_pkg::StrapShortBursts]),
      .desc_valid_i           (desc_valid),
      .desc_ready_o           (desc_ready),
      .desc_vi_i              (desc_vi),
      .desc_seq_i             (desc_seq),
      .desc_va_i              (desc_va),
      .desc_pa_i              (desc_pa),
      .desc_handle_i          (desc_handle),
      .desc_chunk_i           (desc_chunk),
      .desc_status_i          (desc_status),
      .desc_unreachable_i     (desc_unreachable),
      .txc_valid_o            (txc_valid),
      .txc_ready_i            (txc_ready),
      .txc_vi_o               (txc_vi),
      .txc_va_o               (txc_va),
      .txc_handle_o           (txc_handle),
      .txc_done_i             (txc_done),
      .txc_err_i              (txc_err),
      .chunk_data_i           (chunk_data),
      .rawtx_valid_i          (rawtx_valid),
      .rawtx_ready_o          (rawtx_ready),
      .rawtx_pa_i             (rawtx_pa),
      .rawtx_len_i            (rawtx_len),
      .rawtx_done_o           (rawtx_done),
      .rawtx_err_o            (rawtx_err),
      .led_valid_o            (led_valid),
      .led_ready_i            (led_ready),
      .led_op_o               (led_op),
      .led_vi_o               (led_vi),
      .led_slot_o             (led_slot),
      .led_number_o           (led_number),
      .led_last_o             (led_last),
      .led_status_o           (led_status),
      .led_va_o               (led_va),
      .led_pa_o               (led_pa),
      .led_handle_o           (led_handle),
      .led_seq_o              (led_seq),
      .led_length_o           (led_length),
      .led_operation_o        (led_operation),
      .led_fence_o            (led_fence),
      .led_go_i               (led_go),
      .led_number_i           (led_number_back),
      .led_slot_i             (led_slot_back),
      .job_valid_i            (job_valid),
      .job_ready_o            (job_ready),
      .job_vi_i               (job_vi),
      .job_slot_i             (job_slot),
      .job_response_i         (job_response),
      .job_first_i            (job_first),
      .job_number_i           (job_number),
      .job_va_i               (job_va),
      .job_pa_i               (job_pa),
      .job_handle_i           (job_handle),
      .job_seq_i              (job_seq),
      .job_length_i           (job_length),
      .job_operation_i        (job_operation),
      .ack_valid_i            (ack_valid),
      .ack_ready_o            (ack_ready),
      .ack_vi_i               (ack_vi),
      .ack_number_i           (ack_number),
      .ack_code_i             (ack_code),
      .rd_vi_o                (rd_vi[1*VIW +: VIW]),
      .rd_ctx_i               (rd_ctx[1*128 +: 128]),
      .cpl_valid_o            (cpl_valid[2]),
      .cpl_ready_i            (cpl_ready[2]),
      .cpl_vi_o               (cpl_vi[2*VIW +: VIW]),
      .cpl_seq_o              (cpl_seq[2*16 +: 16]),
      .cpl_pa_o               (cpl_pa[2*32 +: 32]),
      .cpl_handle_o           (cpl_handle[2*32 +: 32]),
      .cpl_length_o           (cpl_length[2*32 +: 32]),
      .cpl_status_o           (cpl_status[2*32 +: 32]),
      .cpl_write_o            (cpl_write[2]),
      .att_req_valid_o        (att_req_valid[1]),
      .att_req_ready_i        (att_req_ready[1]),
      .att_req_handle_o       (att_req_handle[1*32 +: 32]),
      .att_req_va_o           (att_req_va[1*64 +: 64]),
      .att_req_len_o          (att_req_len[1*32 +: 32]),
      .att_req_tag_o          (att_req_tag[1*16 +: 16]),
      .att_req_access_o       (att_req_access[1*2 +: 2]),
      .att_req_vi_o           (att_req_vi[1*VIW +: VIW]),
      .att_rsp_valid_i        (att_rsp_valid[1]),
      .att_rsp_err_i          (att_rsp_err),
      .att_rsp_pa_i           (att_rsp_pa),
      .att_rsp_bytes_i        (att_rsp_bytes),
      .req_valid_o            (req_valid[ReqRead]),
      .req_ready_i            (req_ready[ReqRead]),
      .req_more_o             (read_more),
      .req_addr_o             (req_addr[ReqRead*32 +: 32]),
      .req_len_o              (req_len[ReqRead*10 +: 10]),
      .rdata_i                (rdata),
      .rvalid_i               (rvalid[ReqRead]),
      .rready_o               (rready[ReqRead]),
      .rlast_i                (rlast),
      .rerr_i                 (rerr),
      .tx_slot_ready_i        (tx_slot_ready_i),
      .tx_wvalid_o            (tx_wvalid_o),
      .tx_wready_i            (tx_wready_i),
      .tx_wdata_o             (tx_wdata_o),
      .tx_wbytes_o            (tx_wbytes_o),
      .tx_wlast_o             (tx_wlast_o),
      .tx_wabort_o            (tx_wabort_o),
      .tx_wvi_o               (tx_wvi_o),
      .tx_wseq_o              (tx_wseq_o),
      .tx_wlen_o              (tx_wlen_o),
      .seq_init_valid_i       (tx_seq_init_valid),
      .seq_init_ready_o       (tx_seq_init_ready),
      .seq_init_vi_i          (seq_init_vi),
      .seq_init_value_i       (tx_seq_init_value),
      .drain_handle_i         (drain_handle),
      .drain_vi_i             (drain_vi),
      .handle_busy_o          (handle_busy[2]),
      .vi_busy_o              (vi_busy[3]),
      .async_valid_o          (async_valid[5]),
      .async_ready_i          (async_ready[5]),
      .async_code_o           (async_code[5*8 +: 8]),
      .async_vi_o             (async_vi[5*8 +: 8]),
      .stat_transmit_message_o(strobe[hvia_pkg::CounterTransmitMessage]),
      .stat_transmit_frame_o  (strobe[hvia_pkg::CounterTransmitFrame]),
      .stat_transmit_aborted_o(strobe[hvia_pkg::CounterTransmitAborted]),
      .stat_transmit_acknowledge_o(strobe[hvia_pkg::CounterTransmitAcknowledge]),
      .trace_valid_o          (trace_valid[hvia_pkg::TraceSourceTransmit]),
      .trace_event_o          (trace_event[hvia_pkg::TraceSourceTransmit*8 +: 8]),
      .trace_vi_o             (trace_vi[hvia_pkg::TraceSourceTransmit*8 +: 8]),
      .trace_seq_o            (trace_seq[hvia_pkg::TraceSourceTransmit*16 +: 16]),
      .quiet_o                (transmit_quiet)
  );

  // Reliable VIs: what is owed to the peers, and what is not acknowledged by them.
  logic        rxa_valid, rxa_ready, refused;
  logic [2:0]  rxa_op, rxa_code;
  hvia_params_pkg::vi_t rxa_vi, refused_vi;
  logic [31:0] rxa_number;
  logic        rxl_valid, rxl_ready, rxl_ok;
  logic [2:0]  rxl_op, rxl_code;
  hvia_params_pkg::vi_t rxl_vi;
  logic [8:0]  rxl_status;
  logic [31:0] rxl_number, rxl_handle, rxl_length, rxl_handle_back, rxl_length_back;
  logic [63:0] rxl_va, rxl_va_back;
  logic        ref_valid, ref_ready;
  hvia_params_pkg::vi_t ref_vi;
  logic [31:0] ref_number;
  logic [2:0]  ref_code;
  logic        acknowledge_quiet, ledger_quiet;

  hvia_acknowledge u_acknowledge (
      .clk_i,
      .rst_ni,
      .rxa_valid_i        (rxa_valid),
      .rxa_ready_o        (rxa_ready),
      .rxa_op_i           (rxa_op),
      .rxa_vi_i           (rxa_vi),
      .rxa_number_i       (rxa_number),
      .rxa_code_i         (rxa_code),
      .refused_vi_i       (refused_vi),
      .refused_o          (refused),
      .ref_valid_i        (ref_valid),
      .ref_ready_o        (ref_ready),
      .ref_vi_i           (ref_vi),
      .ref_number_i       (ref_number),
      .ref_code_i         (ref_code),
      .ack_valid_o        (ack_valid),
      .ack_ready_i        (ack_ready),
      .ack_vi_o           (ack_vi),
      .ack_number_o       (ack_number),
      .ack_code_o         (ack_code),
      .init_valid_i       (rx_seq_init_valid && rx_seq_init_ready),
      .init_vi_i          (seq_init_vi),
      .clear_valid_i      (clear_valid && clear_ready),
      .clear_vi_i         (clear_vi),
      .stat_refusal_sent_o(strobe[hvia_pkg::CounterNAKSent]),
      .quiet_o            (acknowledge_quiet)
  );

  hvia_send_ledger u_send_ledger (
      .clk_i,
      .rst_ni,
      .timebase_i,
      .led_init_valid_i        (led_init_valid),
      .led_init_ready_o        (led_init_ready),
      .seq_init_vi_i           (seq_init_vi),
      .tx_seq_init_value_i     (tx_seq_init_value),
      .seq_init_transport_i    (seq_init_transport),
      .clear_valid_i           (clear_valid),
      .clear_ready_i           (clear_ready),
      .clear_vi_i              (clear_vi),
      .led_valid_i             (led_valid),
      .led_ready_o             (led_ready),
      .led_op_i                (led_op),
      .led_vi_i                (led_vi),
      .led_slot_i              (led_slot),
      .led_number_i            (led_number),
      .led_last_i              (led_last),
      .led_status_i            (led_status),
      .led_va_i                (led_va),
      .led_pa_i                (led_pa),
      .led_handle_i            (led_handle),
      .led_seq_i               (led_seq),
      .led_length_i            (led_length),
      .led_operation_i         (led_operation),
      .led_fence_i             (led_fence),
      .led_go_o                (led_go),
      .led_number_o            (led_number_back),
      .led_slot_o              (led_slot_back),
      .job_valid_o             (job_valid),
      .job_ready_i             (job_ready),
      .job_vi_o                (job_vi),
      .job_slot_o              (job_slot),
      .job_response_o          (job_response),
      .job_first_o             (job_first),
      .job_number_o            (job_number),
      .job_va_o                (job_va),
      .job_pa_o                (job_pa),
      .job_handle_o            (job_handle),
      .job_seq_o               (job_seq),
      .job_length_o            (job_length),
      .job_operation_o         (job_operation),
      .rxl_valid_i             (rxl_valid),
      .rxl_ready_o             (rxl_ready),
      .rxl_op_i                (rxl_op),
      .rxl_vi_i                (rxl_vi),
      .rxl_number_i            (rxl_number),
      .rxl_code_i              (rxl_code),
      .rxl_status_i            (rxl_status),
      .rxl_va_i                (rxl_va),
      .rxl_handle_i            (rxl_handle),
      .rxl_length_i            (rxl_length),
      .rxl_ok_o                (rxl_ok),
      .rxl_va_o                (rxl_va_back),
      .rxl_handle_o            (rxl_handle_back),
      .rxl_length_o            (rxl_length_back),
      .alive_valid_i           (rxa_valid && rxa_ready &&
          rxa_op <= hvia_pkg::AcknowledgeOperationGap),
      .alive_vi_i              (rxa_vi),
      .ref_valid_o             (ref_valid),
      .ref_ready_i             (ref_ready),
      .ref_vi_o                (ref_vi),
      .ref_number_o            (ref_number),
      .ref_code_o              (ref_code),
      .cpl_valid_o             (cpl_valid[3]),
      .cpl_ready_i             (cpl_ready[3]),
      .cpl_vi_o                (cpl_vi[3*VIW +: VIW]),
      .cpl_seq_o               (cpl_seq[3*16 +: 16]),
      .cpl_pa_o                (cpl_pa[3*32 +: 32]),
      .cpl_handle_o            (cpl_handle[3*32 +: 32]),
      .cpl_length_o            (cpl_length[3*32 +: 32]),
      .cpl_status_o            (cpl_status[3*32 +: 32]),
      .cpl_write_o             (cpl_write[3]),
      .async_valid_o           (async_valid[6]),
      .async_ready_i           (async_ready[6]),
      .async_code_o            (async_code[6*8 +: 8]),
      .async_vi_o              (async_vi[6*8 +: 8]),
      .send_hold_o             (send_hold),
      .unhold_valid_o          (unhold_valid),
      .unhold_ready_i          (unhold_ready),
      .unhold_vi_o             (unhold_vi),
      .drain_handle_i          (drain_handle),
      .drain_vi_i              (drain_vi),
      .flush_i                 (flush),
      .receive_busy_i          (vi_busy[4]),
      .stale_start_i           (stale_start),
      .stale_busy_o            (handle_busy[6]),
      .handle_busy_o           (handle_busy[5]),
      .vi_busy_o               (vi_busy[6]),
      .stat_retransmit_frame_o (strobe[hvia_pkg::CounterRetransmitFrame]),
      .stat_retry_timeout_o    (strobe[hvia_pkg::CounterRetryTimeout]),
      .stat_rewind_o           (strobe[hvia_pkg::CounterRewind]),
      .stat_retry_exhausted_o  (strobe[hvia_pkg::CounterRetryExhausted]),
      .stat_acknowledge_stray_o(strobe[hvia_pkg::CounterAcknowledgeStray]),
      .stat_refusal_received_o (strobe[hvia_pkg::CounterNAKReceived]),
      .stat_read_response_o    (strobe[hvia_pkg::CounterReadResponse]),
      .trace_valid_o           (trace_valid[hvia_pkg::TraceSourceLedger]),
      .trace_event_o           (trace_event[hvia_pkg::TraceSourceLedger*8 +: 8]),
      .trace_vi_o              (trace_vi[hvia_pkg::TraceSourceLedger*8 +: 8]),
      .trace_seq_o             (trace_seq[hvia_pkg::TraceSourceLedger*16 +: 16]),
      .next_deadline_o         (ledger_deadline),
      .quiet_o                 (ledger_quiet)
  );

  hvia_rx_engine #(
      .W(W)
  ) u_rx_engine (
      .clk_i,
      .rst_ni,
      .mac_i                      (mac),
      .no_overlap_i               (strap_i[hvia_pkg::StrapNoAttOverlap]),
      .short_bursts_i             (strap_i[hvia_pkg::StrapShortBursts]),
      .rx_valid_i,
      .rx_len_i,
      .rx_avail_i,
      .rx_end_i,
      .rx_bad_i,
      .rx_raddr_o,
      .rx_rdata_i,
      .rx_done_o,
      .rs_vi_o                    (rs_vi),
      .rs_valid_i                 (rs_valid),
      .rs_stale_i                 (rs_stale),
      .rs_chunk_i                 (rs_chunk),
      .rs_va_i                    (rs_va),
      .rs_pa_i                    (rs_pa),
      .rs_handle_i                (rs_handle),
      .rs_seq_i                   (rs_seq),
      .rs_control_i               (rs_control),
      .rs_segments_i              (rs_segments),
      .rs_length_i                (rs_length),
      .rs_status_i                (rs_status),
      .drop_valid_o               (drop_valid),
      .drop_vi_o                  (drop_vi),
      .release_valid_o            (release_valid[0]),
      .release_ready_i            (release_ready[0]),
      .release_vi_o               (release_vi[0*VIW +: VIW]),
      .coming_vi_o                (coming_vi),
      .coming_i                   (queue_coming || fetch_coming),
      .wanted_o                   (receive_wanted),
      .rxc_valid_o                (rxc_valid),
      .rxc_ready_i                (rxc_ready),
      .rxc_vi_o                   (rxc_vi),
      .rxc_va_o                   (rxc_va),
      .rxc_handle_o               (rxc_handle),
      .rxc_store_o                (rxc_store),
      .rxc_done_i                 (rxc_done),
      .rxc_err_i                  (rxc_err),
      .chunk_data_i               (chunk_data),
      .cpl_valid_o                (cpl_valid[0]),
      .cpl_ready_i                (cpl_ready[0]),
      .cpl_vi_o                   (cpl_vi[0*VIW +: VIW]),
      .cpl_seq_o                  (cpl_seq[0*16 +: 16]),
      .cpl_pa_o                   (cpl_pa[0*32 +: 32]),
      .cpl_handle_o               (cpl_handle[0*32 +: 32]),
      .cpl_length_o               (cpl_length[0*32 +: 32]),
      .cpl_status_o               (cpl_status[0*32 +: 32]),
      .cpl_immediate_o            (cpl_immediate[0*32 +: 32]),
      .cpl_has_immediate_o        (cpl_has_immediate[0]),
      .cpl_write_o                (cpl_write[0]),
      .flush_i                    (flush),
      .clear_valid_i              (clear_valid && clear_ready),
      .clear_vi_i                 (clear_vi),
      .rd_vi_o                    (rd_vi[2*VIW +: VIW]),
      .rd_ctx_i                   (rd_ctx[2*128 +: 128]),
      .rxa_valid_o                (rxa_valid),
      .rxa_ready_i                (rxa_ready),
      .rxa_op_o                   (rxa_op),
      .rxa_vi_o                   (rxa_vi),
      .rxa_number_o               (rxa_number),
      .rxa_code_o                 (rxa_code),
      .refused_vi_o               (refused_vi),
      .refused_i                  (refused),
      .rxl_valid_o                (rxl_valid),
      .rxl_ready_i                (rxl_ready),
      .rxl_op_o                   (rxl_op),
      .rxl_vi_o                   (rxl_vi),
      .rxl_number_o               (rxl_number),
      .rxl_code_o                 (rxl_code),
      .rxl_status_o               (rxl_status),
      .rxl_va_o                   (rxl_va),
      .rxl_handle_o               (rxl_handle),
      .rxl_length_o               (rxl_length),
      .rxl_ok_i                   (rxl_ok),
      .rxl_va_i                   (rxl_va_back),
      .rxl_handle_i               (rxl_handle_back),
      .rxl_length_i               (rxl_length_back),
      .att_req_valid_o            (att_req_valid[2]),
      .att_req_ready_i            (att_req_ready[2]),
      .att_req_handle_o           (att_req_handle[2*32 +: 32]),
      .att_req_va_o               (att_req_va[2*64 +: 64]),
      .att_req_len_o              (att_req_len[2*32 +: 32]),
      .att_req_tag_o              (att_req_tag[2*16 +: 16]),
      .att_req_access_o           (att_req_access[2*2 +: 2]),
      .att_req_vi_o               (att_req_vi[2*VIW +: VIW]),
      .att_rsp_valid_i            (att_rsp_valid[2]),
      .att_rsp_err_i              (att_rsp_err),
      .att_rsp_pa_i               (att_rsp_pa),
      .att_rsp_bytes_i            (att_rsp_bytes),
      .req_valid_o                (req_valid[ReqWrite]),
      .req_ready_i                (req_ready[ReqWrite]),
      .req_addr_o                 (req_addr[ReqWrite*32 +: 32]),
      .req_len_o                  (req_len[ReqWrite*10 +: 10]),
      .wdata_o                    (wdata[ReqWrite*W +: W]),
      .wstrb_o                    (wstrb[ReqWrite*W/8 +: W/8]),
      .wvalid_o                   (wvalid[ReqWrite]),
      .wready_i                   (wready[ReqWrite]),
      .wdone_i                    (wdone[ReqWrite]),
      .werr_i                     (werr[ReqWrite]),
      .rawrx_valid_i              (rawrx_valid),
      .rawrx_ready_o              (rawrx_ready),
      .rawrx_pa_i                 (rawrx_pa),
      .rawrx_capacity_i           (rawrx_capacity),
      .rawrx_done_o               (rawrx_done),
      .rawrx_len_o                (rawrx_len),
      .rawrx_err_o                (rawrx_err),
      .seq_init_valid_i           (rx_seq_init_valid),
      .seq_init_ready_o           (rx_seq_init_ready),
      .seq_init_vi_i              (seq_init_vi),
      .seq_init_value_i           (rx_seq_init_value),
      .async_valid_o              (async_valid[3]),
      .async_code_o               (async_code[3*8 +: 8]),
      .async_vi_o                 (async_vi[3*8 +: 8]),
      .drain_handle_i             (drain_handle),
      .drain_vi_i                 (drain_vi),
      .handle_busy_o              (handle_busy[3]),
      .vi_busy_o                  (vi_busy[4]),
      .stat_receive_frame_o       (strobe[hvia_pkg::CounterReceiveFrame]),
      .stat_receive_not_for_us_o  (strobe[hvia_pkg::CounterReceiveNotForUs]),
      .stat_receive_malformed_o   (strobe[hvia_pkg::CounterReceiveMalformed]),
      .stat_receive_bad_vi_o      (strobe[hvia_pkg::CounterReceiveBadVI]),
      .stat_receive_old_sequence_o(strobe[hvia_pkg::CounterReceiveOldSequence]),
      .stat_receive_gap_o         (strobe[hvia_pkg::CounterReceiveGap]),
      .stat_receive_protection_o  (strobe[hvia_pkg::CounterReceiveProtection]),
      .stat_receive_bus_error_o   (strobe[hvia_pkg::CounterReceiveBusError]),
      .stat_receive_aborted_o     (strobe[hvia_pkg::CounterReceiveAborted]),
      .stat_receive_unsupported_o (strobe[hvia_pkg::CounterReceiveUnsupported]),
      .stat_receive_dropped_o     (strobe[hvia_pkg::CounterReceiveDropped]),
      .stat_receive_queue_empty_o (strobe[hvia_pkg::CounterReceiveQueueEmpty]),
      .stat_receive_length_o      (strobe[hvia_pkg::CounterReceiveLength]),
      .stat_receive_descriptor_error_o(strobe[hvia_pkg::CounterReceiveDescriptorError]),
      .stat_receive_message_o     (strobe[hvia_pkg::CounterReceiveMessage]),
      .stat_receive_read_limit_o  (strobe[hvia_pkg::CounterReceiveReadLimit]),
      .stat_receive_out_of_order_o(strobe[hvia_pkg::CounterReceiveOutOfOrder]),
      .stat_receive_acknowledge_o (strobe[hvia_pkg::CounterReceiveAcknowledge]),
      .stat_receive_refused_o     (strobe[hvia_pkg::CounterReceiveNAKed]),
      .stat_raw_receive_dropped_o (strobe[hvia_pkg::CounterRawReceiveDropped]),
      .trace_valid_o              (trace_valid[hvia_pkg::TraceSourceReceive]),
      .trace_event_o              (trace_event[hvia_pkg::TraceSourceReceive*8 +: 8]),
      .trace_vi_o                 (trace_vi[hvia_pkg::TraceSourceReceive*8 +: 8]),
      .trace_seq_o                (trace_seq[hvia_pkg::TraceSourceReceive*16 +: 16]),
      .quiet_o                    (receive_quiet)
  );

  // --------------------------------------------------------------------------------------------
  // Translation
  // --------------------------------------------------------------------------------------------
  logic        mem_req_valid, mem_req_ready, mem_req_write, mem_wvalid, mem_wready, mem_rvalid,
      mem_rlast;
  logic        mem_werr, mem_rerr, mem_hint_valid, mem_init_done, mem_refresh;
  logic        att_quiet, walker_quiet, sdram_quiet, table_quiet, table_sd_quiet;
  logic        sdram_req_valid, sdram_req_ready, sdram_wvalid, sdram_wready, sdram_rvalid,
      sdram_rlast;
  logic        sdram_hint_valid;
  logic [31:0] sdram_rdata;
  logic [23:0] mem_req_addr, mem_hint_addr;
  logic [3:0]  mem_req_len;
  logic [31:0] mem_wdata, mem_rdata;

  hvia_att_manager u_att_manager (
      .clk_i,
      .rst_ni,
      .quiet_o           (att_quiet),
      .ready_o           (att_ready),
      .req_valid_i       (att_req_valid),
      .req_ready_o       (att_req_ready),
      .req_handle_i      (att_req_handle),
      .req_va_i          (att_req_va),
      .req_len_i         (att_req_len),
      .req_tag_i         (att_req_tag),
      .req_access_i      (att_req_access),
      .req_vi_i          (att_req_vi),
      .rsp_valid_o       (att_rsp_valid),
      .rsp_err_o         (att_rsp_err),
      .rsp_pa_o          (att_rsp_pa),
      .rsp_bytes_o       (att_rsp_bytes),
      .upd_valid_i       (upd_valid),
      .upd_ready_o       (upd_ready),
      .upd_op_i          (upd_op),
      .upd_arg_i         (upd_arg),
      .upd_count_i       (upd_count),
      .upd_wvalid_i      (upd_wvalid),
      .upd_wready_o      (upd_wready),
      .upd_wdata_i       (upd_wdata),
      .upd_done_o        (upd_done),
      .upd_error_o       (upd_error),
      .stat_translate_o  (strobe[hvia_pkg::CounterAttTranslate]),
      .stat_level1_read_o(strobe[hvia_pkg::CounterAttLevel1Read]),
      .stat_level2_read_o(strobe[hvia_pkg::CounterAttLevel2Read]),
      .stat_error_o      (strobe[hvia_pkg::CounterAttError]),
      .stat_invalidate_o (strobe[hvia_pkg::CounterAttInvalidate]),
      .stat_refresh_o    (strobe[hvia_pkg::CounterSdramRefresh]),
      .sd_clk_i,
      .sd_rst_ni,
      .sd_quiet_o        (walker_quiet),
      .no_overlap_i      (strap_i[hvia_pkg::StrapNoAttOverlap]),
      .host_i            (strap_i[hvia_pkg::StrapAttInHostMemory]),
      .mem_init_done_i   (mem_init_done),
      .mem_refresh_i     (mem_refresh),
      .mem_req_valid_o   (mem_req_valid),
      .mem_req_ready_i   (mem_req_ready),
      .mem_req_write_o   (mem_req_write),
      .mem_req_addr_o    (mem_req_addr),
      .mem_req_len_o     (mem_req_len),
      .mem_wvalid_o      (mem_wvalid),
      .mem_wready_i      (mem_wready),
      .mem_wdata_o       (mem_wdata),
      .mem_werr_i        (mem_werr),
      .mem_rvalid_i      (mem_rvalid),
      .mem_rdata_i       (mem_rdata),
      .mem_rlast_i       (mem_rlast),
      .mem_rerr_i        (mem_rerr),
      .mem_hint_valid_o  (mem_hint_valid),
      .mem_hint_addr_o   (mem_hint_addr)
  );

  hvia_att_memory #(
      .W(W)
  ) u_att_memory (
      .clk_i,
      .rst_ni,
      .quiet_o           (table_quiet),
      .level1_i          (att_level1),
      .level2_i          (att_level2),
      .req_valid_o       (req_valid[ReqTable]),
      .req_ready_i       (req_ready[ReqTable]),
      .req_write_o       (req_write[ReqTable]),
      .req_addr_o        (req_addr[ReqTable*32 +: 32]),
      .req_len_o         (req_len[ReqTable*10 +: 10]),
      .wdata_o           (wdata[ReqTable*W +: W]),
      .wstrb_o           (wstrb[ReqTable*W/8 +: W/8]),
      .wvalid_o          (wvalid[ReqTable]),
      .wready_i          (wready[ReqTable]),
      .wdone_i           (wdone[ReqTable]),
      .werr_i            (werr[ReqTable]),
      .rdata_i           (rdata),
      .rvalid_i          (rvalid[ReqTable]),
      .rready_o          (rready[ReqTable]),
      .rlast_i           (rlast),
      .rerr_i            (rerr),
      .sd_clk_i,
      .sd_rst_ni,
      .sd_quiet_o        (table_sd_quiet),
      .host_i            (strap_i[hvia_pkg::StrapAttInHostMemory]),
      .mem_req_valid_i   (mem_req_valid),
      .mem_req_ready_o   (mem_req_ready),
      .mem_req_write_i   (mem_req_write),
      .mem_req_addr_i    (mem_req_addr),
      .mem_req_len_i     (mem_req_len),
      .mem_wvalid_i      (mem_wvalid),
      .mem_wready_o      (mem_wready),
      .mem_wdata_i       (mem_wdata),
      .mem_werr_o        (mem_werr),
      .mem_rvalid_o      (mem_rvalid),
      .mem_rdata_o       (mem_rdata),
      .mem_rlast_o       (mem_rlast),
      .mem_rerr_o        (mem_rerr),
      .mem_hint_valid_i  (mem_hint_valid),
      .sdram_req_valid_o (sdram_req_valid),
      .sdram_req_ready_i (sdram_req_ready),
      .sdram_wvalid_o    (sdram_wvalid),
      .sdram_wready_i    (sdram_wready),
      .sdram_rvalid_i    (sdram_rvalid),
      .sdram_rdata_i     (sdram_rdata),
      .sdram_rlast_i     (sdram_rlast),
      .sdram_hint_valid_o(sdram_hint_valid)
  );

  logic unused_activate;

  hvia_sdram_controller u_sdram_controller (
      .clk_i          (sd_clk_i),
      .rst_ni         (sd_rst_ni),
      .slow_i         (strap_i[hvia_pkg::StrapSlowSdram]),
      .timebase_i     (sd_timebase_i),
      .next_deadline_o(sd_next_deadline_o),
      .quiet_o        (sdram_quiet),
      .init_done_o    (mem_init_done),
      .req_valid_i    (sdram_req_valid),
      .req_ready_o    (sdram_req_ready),
      .req_write_i    (mem_req_write),
      .req_addr_i     (mem_req_addr),
      .req_len_i      (mem_req_len),
      .wvalid_i       (sdram_wvalid),
      .wready_o       (sdram_wready),
      .wdata_i        (mem_wdata),
      .rvalid_o       (sdram_rvalid),
      .rdata_o        (sdram_rdata),
      .rlast_o        (sdram_rlast),
      .hint_valid_i   (sdram_hint_valid),
      .hint_addr_i    (mem_hint_addr),
      .sd_cke_o,
      .sd_cs_n_o,
      .sd_ras_n_o,
      .sd_cas_n_o,
      .sd_we_n_o,
      .sd_ba_o,
      .sd_a_o,
      .sd_dqm_o,
      .sd_dq_o,
      .sd_dq_oe_o,
      .sd_dq_i,
      .stat_refresh_o (mem_refresh),
      .stat_activate_o(unused_activate)
  );

  // --------------------------------------------------------------------------------------------
  // Trace, counters without a block of their own, quiet
  // --------------------------------------------------------------------------------------------
  logic trace_quiet;

  hvia_trace #(
      .Lanes(Lanes)
  ) u_trace (
      .clk_i,
      .rst_ni,
      .timebase_i,
      .valid_i      (trace_valid),
      .event_i      (trace_event),
      .vi_i         (trace_vi),
      .seq_i        (trace_seq),
      .trace_valid_o,
      .trace_event_o,
      .trace_vi_o,
      .trace_seq_o,
      .trace_time_o,
      .quiet_o      (trace_quiet)
  );

  assign strobe[hvia_pkg::CounterMacTransmitFrame]  = stat_mac_i[0];
  assign strobe[hvia_pkg::CounterMacReceiveFrame]   = stat_mac_i[1];
  assign strobe[hvia_pkg::CounterMacReceiveBad]     = stat_mac_i[2];
  assign strobe[hvia_pkg::CounterMacReceiveLong]    = stat_mac_i[3];
  assign strobe[hvia_pkg::CounterMacReceiveOverrun] = stat_mac_i[4];
  assign strobe[hvia_pkg::CounterMacBusError]       = stat_mac_i[5];
  assign strobe[hvia_pkg::CounterMacTransmitDropped] = stat_mac_i[6];

  assign trace_valid[hvia_pkg::TraceSourceMacTransmit]         = board_trace_valid_i[0];
  assign trace_event[hvia_pkg::TraceSourceMacTransmit*8 +: 8]  = board_trace_event_i[0*8 +: 8];
  assign trace_vi[hvia_pkg::TraceSourceMacTransmit*8 +: 8]     = board_trace_vi_i[0*8 +: 8];
  assign trace_seq[hvia_pkg::TraceSourceMacTransmit*16 +: 16]  = board_trace_seq_i[0*16 +: 16];
  assign trace_valid[hvia_pkg::TraceSourceMacReceive]          = board_trace_valid_i[1];
  assign trace_event[hvia_pkg::TraceSourceMacReceive*8 +: 8]   = board_trace_event_i[1*8 +: 8];
  assign trace_vi[hvia_pkg::TraceSourceMacReceive*8 +: 8]      = board_trace_vi_i[1*8 +: 8];
  assign trace_seq[hvia_pkg::TraceSourceMacReceive*16 +: 16]   = board_trace_seq_i[1*16 +: 16];
  assign trace_valid[hvia_pkg::TraceSourceMacBus]              = board_trace_valid_i[2];
  assign trace_event[hvia_pkg::TraceSourceMacBus*8 +: 8]       = board_trace_event_i[2*8 +: 8];
  assign trace_vi[hvia_pkg::TraceSourceMacBus*8 +: 8]          = board_trace_vi_i[2*8 +: 8];
  assign trace_seq[hvia_pkg::TraceSourceMacBus*16 +: 16]       = board_trace_seq_i[2*16 +: 16];
  assign trace_valid[hvia_pkg::TraceSourceHostBus]             = board_trace_valid_i[3];
  assign trace_event[hvia_pkg::TraceSourceHostBus*8 +: 8]      = board_trace_event_i[3*8 +: 8];
  assign trace_vi[hvia_pkg::TraceSourceHostBus*8 +: 8]         = board_trace_vi_i[3*8 +: 8];
  assign trace_seq[hvia_pkg::TraceSourceHostBus*16 +: 16]      = board_trace_seq_i[3*16 +: 16];

  assign strobe[hvia_pkg::CounterPciMasterRead]  = stat_bus_i[0];
  assign strobe[hvia_pkg::CounterPciMasterWrite] = stat_bus_i[1];
  assign strobe[hvia_pkg::CounterPciMasterRetry] = stat_bus_i[2];
  assign strobe[hvia_pkg::CounterPciMasterAbort] = stat_bus_i[3];
  assign strobe[hvia_pkg::CounterPciParityError] = stat_bus_i[4];
  assign strobe[hvia_pkg::CounterPciTargetWrite] = stat_bus_i[5];
  assign strobe[hvia_pkg::CounterPciTargetRead]  = stat_bus_i[6];

  // Numbers without an event in this card.
  assign strobe[7:4] = '0;
  assign strobe[71] = '0;
  assign strobe[127:79] = '0;

  // What a read of State tells: the read itself, its counting and its trace are no work of the
  // card.
  assign idle    = arbiter_quiet && async_quiet && manager_quiet && context_quiet && raw_quiet &&
                   doorbell_quiet && queue_quiet && fetch_quiet && store_quiet &&
                       completion_quiet &&
                   notify_quiet && acknowledge_quiet && ledger_quiet &&
                   transmit_quiet && receive_quiet && board_quiet_i && att_quiet && table_quiet;
  assign quiet_o = idle && trace_quiet && monitor_quiet_i && registers_quiet && counters_quiet;
  assign sd_quiet_o = walker_quiet && table_sd_quiet && sdram_quiet;
  assign ready_o    = ready;

endmodule
