// SPDX-License-Identifier: Apache-2.0

// What the kernel agent controls: registers, VIs, raw frames; and what all other blocks report to:
// counters, asynchronous errors, trace.
module hvia_control #(
    parameter int unsigned W = 32
) (
    input  hvia_types_pkg::control_blocks_t block_clk_i,
    input  logic bus_rst_ni,  // lives as long as the bus side
    input  logic rst_ni,
    input  logic [47:0] timebase_i,
    input  logic [31:0] strap_i,

    // Registers
    output logic soft_reset_o,
    input  logic soft_reset_busy_i,
    input  hvia_types_pkg::target_req_t tgt_req_i,
    output hvia_types_pkg::target_rsp_t tgt_rsp_o,
    output logic irq_o,
    input  logic ready_i,
    input  logic card_quiet_i,
    input  logic link_down_i,
    output logic enable_o,
    output logic [47:0] mac_o,
    output hvia_types_pkg::doorbell_t doorbell_o,
    input  logic doorbell_ready_i,
    output hvia_types_pkg::arm_t arm_o,
    output logic info_read_o,
    input  logic [31:0] info_data_i,
    input  logic irq_notify_i,
    input  hvia_types_pkg::counts_t counts_i,  // of all other blocks

    // Host bus port
    output hvia_types_pkg::host_req_t command_req_o,
    input  hvia_types_pkg::host_rsp_t command_rsp_i,
    output logic [W-1:0] command_wdata_o,
    output logic [W/8-1:0] command_wstrb_o,
    output hvia_types_pkg::host_req_t raw_req_o,
    input  hvia_types_pkg::host_rsp_t raw_rsp_i,
    output logic [W-1:0] raw_wdata_o,
    output logic [W/8-1:0] raw_wstrb_o,
    input  logic [W-1:0] rdata_i,

    // Translation
    output logic [31:0] att_level1_o,
    output logic [31:0] att_level2_o,
    output hvia_types_pkg::att_update_req_t att_update_req_o,
    input  hvia_types_pkg::att_update_rsp_t att_update_rsp_i,

    // VI contexts
    input  hvia_params_pkg::vi_t fetch_ctx_vi_i,
    output logic [127:0] fetch_ctx_o,
    input  hvia_params_pkg::vi_t transmit_ctx_vi_i,
    output logic [127:0] transmit_ctx_o,
    input  hvia_params_pkg::vi_t receive_ctx_vi_i,
    output logic [127:0] receive_ctx_o,
    output hvia_params_pkg::vis_t live_o,

    // Engines
    output logic forget_o,
    output hvia_params_pkg::vi_t forget_vi_o,
    output logic clear_o,
    output hvia_params_pkg::vi_t clear_vi_o,
    input  logic clear_ready_i,
    output hvia_types_pkg::seq_init_t tx_init_o,
    input  logic tx_init_ready_i,
    output hvia_types_pkg::seq_init_t rx_init_o,
    input  logic rx_init_ready_i,
    output hvia_params_pkg::vi_t init_vi_o,
    output logic ledger_init_valid_o,
    input  logic ledger_init_ready_i,
    output logic [31:0] transport_o,
    output hvia_types_pkg::cq_tie_t cq_tie_o,
    output hvia_params_pkg::vi_t cq_tie_vi_o,
    output hvia_types_pkg::cq_req_t cq_req_o,
    input  hvia_types_pkg::cq_rsp_t cq_rsp_i,
    output hvia_types_pkg::drain_t drain_o,
    output hvia_params_pkg::vi_t drain_vi_o,
    input  logic handle_busy_i,
    input  logic vi_busy_i,
    output hvia_types_pkg::raw_tx_req_t raw_tx_req_o,
    input  hvia_types_pkg::raw_tx_rsp_t raw_tx_rsp_i,
    output hvia_types_pkg::raw_rx_req_t raw_rx_req_o,
    input  hvia_types_pkg::raw_rx_rsp_t raw_rx_rsp_i,

    // Asynchronous errors
    input  hvia_types_pkg::async_t doorbell_error_i,
    input  hvia_types_pkg::async_t queue_error_i,
    input  hvia_types_pkg::async_t fetch_error_i,
    input  hvia_types_pkg::async_t receive_error_i,
    input  hvia_types_pkg::async_t completion_error_i,
    output logic completion_error_ready_o,
    input  hvia_types_pkg::async_t transmit_error_i,
    output logic transmit_error_ready_o,
    input  hvia_types_pkg::async_t ledger_error_i,
    output logic ledger_error_ready_o,

    // Trace
    input  hvia_types_pkg::trace_t doorbell_trace_i,
    input  hvia_types_pkg::trace_t fetch_trace_i,
    input  hvia_types_pkg::trace_t transmit_trace_i,
    input  hvia_types_pkg::trace_t completion_trace_i,
    input  hvia_types_pkg::trace_t mac_tx_trace_i,
    input  hvia_types_pkg::trace_t mac_rx_trace_i,
    input  hvia_types_pkg::trace_t receive_trace_i,
    input  hvia_types_pkg::trace_t mac_bus_trace_i,
    input  hvia_types_pkg::trace_t host_bus_trace_i,
    input  hvia_types_pkg::trace_t ledger_trace_i,
    output logic [11:0] trace_valid_o,
    output logic [95:0] trace_event_o,
    output logic [95:0] trace_vi_o,
    output logic [191:0] trace_seq_o,
    output logic [47:0] trace_time_o,

    output logic [47:0] next_deadline_o,
    output logic idle_o,  // but for what follows a read of a register
    output hvia_types_pkg::control_blocks_t quiet_o
);

  logic        cmd_valid, cmd_busy;
  logic [31:0] cmd_addr;
  logic [31:0] rawtx_base, rawrx_base;
  logic [3:0]  rawtx_size, rawrx_size;
  logic [7:0]  rawtx_tail, rawrx_tail, rawtx_head, rawrx_head;
  logic        rawtx_restart, rawrx_restart, rawtx_busy, rawrx_busy;
  logic        irq_command_done, irq_raw_receive, irq_raw_transmit;
  logic        error_valid;
  logic [7:0]  error_code, error_vi;
  logic [6:0]  counter_index;
  logic [31:0] counter_data;
  hvia_types_pkg::counts_t own_counts;
  hvia_types_pkg::trace_t command_trace, raw_trace;
  logic        registers_quiet, counters_quiet, async_quiet, manager_quiet, context_quiet;
  logic        raw_quiet, trace_quiet;

  hvia_registers #(.DataBytes(W / 8)) u_registers (
      .clk_i(block_clk_i.registers), .rst_ni(bus_rst_ni), .core_rst_ni(rst_ni),
      .tgt_wvalid_i(tgt_req_i.wvalid), .tgt_wready_o(tgt_rsp_o.wready), .tgt_wbar_i(tgt_req_i.wbar),
      .tgt_waddr_i(tgt_req_i.waddr), .tgt_wdata_i(tgt_req_i.wdata), .tgt_wbe_i(tgt_req_i.wbe),
      .tgt_rvalid_i(tgt_req_i.rvalid), .tgt_rbar_i(tgt_req_i.rbar), .tgt_raddr_i(tgt_req_i.raddr),
      .tgt_rready_o(tgt_rsp_o.rready), .tgt_rdata_o(tgt_rsp_o.rdata),
      .db_wvalid_o(doorbell_o.valid), .db_wready_i(doorbell_ready_i), .db_waddr_o(doorbell_o.addr),
      .db_wdata_o(doorbell_o.data), .db_wbe_o(doorbell_o.be),
      .counter_index_o(counter_index), .counter_data_i(counter_data), .strap_i,
      .soft_reset_o, .soft_reset_busy_i, .enable_o, .mac_o, .ready_i, .card_quiet_i,
      .cmd_valid_o(cmd_valid), .cmd_addr_o(cmd_addr), .cmd_busy_i(cmd_busy),
      .stat_command_ignored_o(own_counts[hvia_pkg::CounterCommandIgnored]),
      .att_level1_o, .att_level2_o,
      .rawtx_base_o(rawtx_base), .rawtx_size_o(rawtx_size), .rawtx_tail_o(rawtx_tail),
      .rawtx_restart_o(rawtx_restart), .rawtx_head_i(rawtx_head), .rawtx_busy_i(rawtx_busy),
      .rawrx_base_o(rawrx_base), .rawrx_size_o(rawrx_size), .rawrx_tail_o(rawrx_tail),
      .rawrx_restart_o(rawrx_restart), .rawrx_head_i(rawrx_head), .rawrx_busy_i(rawrx_busy),
      .irq_command_done_i(irq_command_done), .irq_raw_receive_i(irq_raw_receive),
      .irq_raw_transmit_i(irq_raw_transmit),
      .irq_bus_error_i(counts_i[hvia_pkg::CounterPciMasterAbort]),
      .async_valid_i(error_valid), .async_code_i(error_code), .async_vi_i(error_vi),
      .link_down_i, .irq_notify_i, .inta_o(irq_o),
      .arm_valid_o(arm_o.valid), .arm_kind_o(arm_o.kind), .arm_index_o(arm_o.index),
      .info_read_o, .info_data_i, .quiet_o(registers_quiet)
  );

  // Counters of other blocks
  assign {own_counts[127:59], own_counts[55:53], own_counts[50], own_counts[47:0]} = '0;

  hvia_counters u_counters (
      .clk_i(block_clk_i.counters), .rst_ni, .strobe_i(counts_i | own_counts),
      .rd_index_i(counter_index), .rd_data_o(counter_data), .quiet_o(counters_quiet)
  );

  // The link state that async_errors took last
  logic       link_reported_q, link_ready;
  logic [3:0] unused_ready;
  hvia_types_pkg::async_t link_error;
  assign link_error.valid = (link_down_i != link_reported_q) & link_ready;
  assign link_error.code  = link_down_i ? hvia_pkg::AsyncErrorLinkDown : hvia_pkg::AsyncErrorLinkUp;
  assign link_error.vi    = 8'd0;
  always_ff @(posedge block_clk_i.async_errors) begin
    if (!rst_ni) link_reported_q <= 1'b0;
    else if (link_error.valid) link_reported_q <= link_down_i;
  end

  hvia_async_errors #(.Sources(8)) u_async_errors (
      .clk_i(block_clk_i.async_errors), .rst_ni,
      .valid_i({link_error.valid, ledger_error_i.valid, transmit_error_i.valid,
          completion_error_i.valid, receive_error_i.valid, fetch_error_i.valid,
          queue_error_i.valid, doorbell_error_i.valid}),
      .code_i({link_error.code, ledger_error_i.code, transmit_error_i.code,
          completion_error_i.code, receive_error_i.code, fetch_error_i.code, queue_error_i.code,
          doorbell_error_i.code}),
      .vi_i({link_error.vi, ledger_error_i.vi, transmit_error_i.vi, completion_error_i.vi,
          receive_error_i.vi, fetch_error_i.vi, queue_error_i.vi, doorbell_error_i.vi}),
      .ready_o({link_ready, ledger_error_ready_o, transmit_error_ready_o,
          completion_error_ready_o, unused_ready}),
      .async_valid_o(error_valid), .async_code_o(error_code), .async_vi_o(error_vi),
      .quiet_o(async_quiet)
  );

  logic ctx_wr_valid, hold_valid;
  hvia_params_pkg::vi_t ctx_wr_vi, hold_vi, command_ctx_vi;
  logic [127:0] ctx_wr_ctx, command_ctx;

  // A VI is taken into use or given up.
  assign forget_o = ctx_wr_valid && (!live_o[ctx_wr_vi] ||
      ctx_wr_ctx[hvia_pkg::VIContextAttributesStateLsb +:
          hvia_pkg::VIContextAttributesStateWidth] == hvia_pkg::VIStateFree);
  assign forget_vi_o = ctx_wr_vi;

  hvia_vi_manager #(.W(W)) u_vi_manager (
      .clk_i(block_clk_i.vi_manager), .rst_ni, .timebase_i, .next_deadline_o,
      .cmd_valid_i(cmd_valid), .cmd_addr_i(cmd_addr), .cmd_busy_o(cmd_busy),
      .req_valid_o(command_req_o.valid), .req_ready_i(command_rsp_i.ready),
      .req_write_o(command_req_o.write), .req_addr_o(command_req_o.addr),
      .req_len_o(command_req_o.len),
      .wdata_o(command_wdata_o), .wstrb_o(command_wstrb_o), .wvalid_o(command_req_o.wvalid),
      .wready_i(command_rsp_i.wready), .wdone_i(command_rsp_i.wdone), .werr_i(command_rsp_i.werr),
      .rdata_i, .rvalid_i(command_rsp_i.rvalid), .rready_o(command_req_o.rready),
      .rlast_i(command_rsp_i.rlast), .rerr_i(command_rsp_i.rerr),
      .ctx_wr_valid_o(ctx_wr_valid), .ctx_wr_vi_o(ctx_wr_vi), .ctx_wr_ctx_o(ctx_wr_ctx),
      .ctx_rd_vi_o(command_ctx_vi), .ctx_rd_ctx_i(command_ctx),
      .hold_valid_o(hold_valid), .hold_vi_o(hold_vi), .seq_init_vi_o(init_vi_o),
      .tx_seq_init_valid_o(tx_init_o.valid), .tx_seq_init_ready_i(tx_init_ready_i),
      .tx_seq_init_value_o(tx_init_o.value),
      .rx_seq_init_valid_o(rx_init_o.valid), .rx_seq_init_ready_i(rx_init_ready_i),
      .rx_seq_init_value_o(rx_init_o.value),
      .led_init_valid_o(ledger_init_valid_o), .led_init_ready_i(ledger_init_ready_i),
      .seq_init_transport_o(transport_o),
      .cq_tie_valid_o(cq_tie_o.valid), .cq_tie_vi_o, .cq_tie_send_o(cq_tie_o.send),
      .cq_tie_receive_o(cq_tie_o.receive),
      .cqc_valid_o(cq_req_o.valid), .cqc_ready_i(cq_rsp_i.ready), .cqc_op_o(cq_req_o.op),
      .cqc_index_o(cq_req_o.index), .cqc_address_o(cq_req_o.address), .cqc_log2_o(cq_req_o.log2),
      .cqc_ok_i(cq_rsp_i.ok), .cqc_tail_i(cq_rsp_i.tail),
      .clear_valid_o(clear_o), .clear_ready_i, .clear_vi_o,
      .drain_handle_o(drain_o.handle), .drain_vi_o, .drain_handle_busy_i(handle_busy_i),
      .drain_vi_busy_i(vi_busy_i),
      .flush_o(drain_o.flush), .stale_start_o(drain_o.stale_start),
      .upd_valid_o(att_update_req_o.valid), .upd_ready_i(att_update_rsp_i.ready),
      .upd_op_o(att_update_req_o.op), .upd_arg_o(att_update_req_o.arg),
      .upd_count_o(att_update_req_o.count), .upd_wvalid_o(att_update_req_o.wvalid),
      .upd_wready_i(att_update_rsp_i.wready), .upd_wdata_o(att_update_req_o.wdata),
      .upd_done_i(att_update_rsp_i.done), .upd_error_i(att_update_rsp_i.error),
      .irq_command_done_o(irq_command_done),
      .stat_command_o(own_counts[hvia_pkg::CounterCommand]),
      .stat_command_error_o(own_counts[hvia_pkg::CounterCommandError]),
      .trace_valid_o(command_trace.valid), .trace_event_o(command_trace.code),
      .trace_vi_o(command_trace.vi), .trace_seq_o(command_trace.seq),
      .quiet_o(manager_quiet)
  );

  hvia_vi_context u_vi_context (
      .clk_i(block_clk_i.vi_context), .rst_ni,
      .wr_valid_i(ctx_wr_valid), .wr_vi_i(ctx_wr_vi), .wr_ctx_i(ctx_wr_ctx),
      .rd_vi_i({command_ctx_vi, receive_ctx_vi_i, transmit_ctx_vi_i, fetch_ctx_vi_i}),
      .rd_ctx_o({command_ctx, receive_ctx_o, transmit_ctx_o, fetch_ctx_o}),
      .hold_valid_i(hold_valid), .hold_vi_i(hold_vi), .live_o, .quiet_o(context_quiet)
  );

  hvia_raw_port #(.W(W)) u_raw_port (
      .clk_i(block_clk_i.raw_port), .rst_ni,
      .tx_base_i(rawtx_base), .tx_size_i(rawtx_size), .tx_tail_i(rawtx_tail),
      .tx_restart_i(rawtx_restart), .tx_head_o(rawtx_head), .tx_busy_o(rawtx_busy),
      .rx_base_i(rawrx_base), .rx_size_i(rawrx_size), .rx_tail_i(rawrx_tail),
      .rx_restart_i(rawrx_restart), .rx_head_o(rawrx_head), .rx_busy_o(rawrx_busy),
      .req_valid_o(raw_req_o.valid), .req_ready_i(raw_rsp_i.ready), .req_write_o(raw_req_o.write),
      .req_addr_o(raw_req_o.addr), .req_len_o(raw_req_o.len),
      .wdata_o(raw_wdata_o), .wstrb_o(raw_wstrb_o), .wvalid_o(raw_req_o.wvalid),
      .wready_i(raw_rsp_i.wready), .wdone_i(raw_rsp_i.wdone), .werr_i(raw_rsp_i.werr), .rdata_i,
      .rvalid_i(raw_rsp_i.rvalid), .rready_o(raw_req_o.rready), .rlast_i(raw_rsp_i.rlast),
      .rerr_i(raw_rsp_i.rerr),
      .rawtx_valid_o(raw_tx_req_o.valid), .rawtx_ready_i(raw_tx_rsp_i.ready),
      .rawtx_pa_o(raw_tx_req_o.pa), .rawtx_len_o(raw_tx_req_o.len),
      .rawtx_done_i(raw_tx_rsp_i.done), .rawtx_err_i(raw_tx_rsp_i.err),
      .rawrx_valid_o(raw_rx_req_o.valid), .rawrx_ready_i(raw_rx_rsp_i.ready),
      .rawrx_pa_o(raw_rx_req_o.pa), .rawrx_capacity_o(raw_rx_req_o.capacity),
      .rawrx_done_i(raw_rx_rsp_i.done), .rawrx_len_i(raw_rx_rsp_i.len),
      .rawrx_err_i(raw_rx_rsp_i.err),
      .irq_raw_transmit_o(irq_raw_transmit), .irq_raw_receive_o(irq_raw_receive),
      .stat_raw_transmit_o(own_counts[hvia_pkg::CounterRawTransmit]),
      .stat_raw_transmit_error_o(own_counts[hvia_pkg::CounterRawTransmitError]),
      .stat_raw_receive_o(own_counts[hvia_pkg::CounterRawReceive]),
      .stat_raw_receive_error_o(own_counts[hvia_pkg::CounterRawReceiveError]),
      .trace_valid_o(raw_trace.valid), .trace_event_o(raw_trace.code), .trace_vi_o(raw_trace.vi),
      .trace_seq_o(raw_trace.seq),
      .quiet_o(raw_quiet)
  );

  localparam int unsigned Lanes    = 12;
  localparam int unsigned LaneBits = $bits(command_trace);
  logic [Lanes*LaneBits-1:0] lanes;
  logic [Lanes-1:0]          trace_valid;
  logic [Lanes*8-1:0]        trace_event, trace_vi;
  logic [Lanes*16-1:0]       trace_seq;
  assign lanes[hvia_pkg::TraceSourceDoorbell*LaneBits +: LaneBits]        = doorbell_trace_i;
  assign lanes[hvia_pkg::TraceSourceDescriptorFetch*LaneBits +: LaneBits] = fetch_trace_i;
  assign lanes[hvia_pkg::TraceSourceTransmit*LaneBits +: LaneBits]        = transmit_trace_i;
  assign lanes[hvia_pkg::TraceSourceCompletion*LaneBits +: LaneBits]      = completion_trace_i;
  assign lanes[hvia_pkg::TraceSourceMacTransmit*LaneBits +: LaneBits]     = mac_tx_trace_i;
  assign lanes[hvia_pkg::TraceSourceMacReceive*LaneBits +: LaneBits]      = mac_rx_trace_i;
  assign lanes[hvia_pkg::TraceSourceReceive*LaneBits +: LaneBits]         = receive_trace_i;
  assign lanes[hvia_pkg::TraceSourceCommand*LaneBits +: LaneBits]         = command_trace;
  assign lanes[hvia_pkg::TraceSourceRaw*LaneBits +: LaneBits]             = raw_trace;
  assign lanes[hvia_pkg::TraceSourceMacBus*LaneBits +: LaneBits]          = mac_bus_trace_i;
  assign lanes[hvia_pkg::TraceSourceHostBus*LaneBits +: LaneBits]         = host_bus_trace_i;
  assign lanes[hvia_pkg::TraceSourceLedger*LaneBits +: LaneBits]          = ledger_trace_i;
  for (genvar i = 0; i < Lanes; i++) begin : g_lane
    assign {trace_valid[i], trace_event[i*8 +: 8], trace_vi[i*8 +: 8], trace_seq[i*16 +: 16]} =
        lanes[i*LaneBits +: LaneBits];
  end

  hvia_trace #(.Lanes(Lanes)) u_trace (
      .clk_i(block_clk_i.trace), .rst_ni, .timebase_i, .valid_i(trace_valid),
      .event_i(trace_event), .vi_i(trace_vi),
      .seq_i(trace_seq),
      .trace_valid_o, .trace_event_o, .trace_vi_o, .trace_seq_o, .trace_time_o,
      .quiet_o(trace_quiet)
  );

  // Not from quiet_o, which depends on it by the read of a register.
  assign idle_o  = async_quiet && manager_quiet && context_quiet && raw_quiet;
  assign quiet_o = {registers_quiet, counters_quiet, async_quiet, manager_quiet, context_quiet,
      raw_quiet, trace_quiet};

endmodule
