// SPDX-License-Identifier: Apache-2.0

// The card without its board: everything that depends neither on the bus nor on the MAC. It has one
// host bus port, one target port, packet buffers in each direction, the SDRAM's pins and the trace
// port.
module hvia_core #(
    parameter int unsigned W = 32
) (
    input  hvia_types_pkg::core_blocks_t block_clk_i,
    input  logic bus_rst_ni,  // lives as long as the bus side
    input  logic rst_ni,
    input  logic sd_clk_i,
    input  logic sd_rst_ni,
    input  logic [47:0] timebase_i,
    input  logic [47:0] sd_timebase_i,
    input  logic [31:0] strap_i,

    // Soft reset
    output logic soft_reset_o,
    input  logic soft_reset_busy_i,
    input  logic quiesce_i,
    output logic host_idle_o,

    // Host bus
    output hvia_types_pkg::host_req_t bus_req_o,
    input  hvia_types_pkg::host_rsp_t bus_rsp_i,
    output logic [W-1:0] bus_wdata_o,
    output logic [W/8-1:0] bus_wstrb_o,
    input  logic [W-1:0] bus_rdata_i,

    // Target port
    input  hvia_types_pkg::target_req_t tgt_req_i,
    output hvia_types_pkg::target_rsp_t tgt_rsp_o,
    output logic irq_o,

    // Packet buffers, and the MAC behind them
    output logic mac_enable_o,
    output logic [47:0] mac_address_o,  // wire byte 0 in bits 7:0
    input  logic mac_ready_i,
    input  logic tx_slot_ready_i,
    output hvia_types_pkg::tx_frame_t tx_frame_o,
    input  logic tx_wready_i,
    output logic [W-1:0] tx_wdata_o,
    output logic [$clog2(W/8):0] tx_wbytes_o,
    input  hvia_types_pkg::rx_frame_t rx_frame_i,
    output logic [$clog2(hvia_params_pkg::PacketSlotBytes*8/W)-1:0] rx_raddr_o,
    input  logic [W-1:0] rx_rdata_i,
    output logic rx_done_o,
    input  logic link_down_i,
    input  logic [47:0] slot_deadline_i,

    // Events of the board
    input  hvia_types_pkg::counts_t counts_i,
    input  hvia_types_pkg::trace_t mac_tx_trace_i,
    input  hvia_types_pkg::trace_t mac_rx_trace_i,
    input  hvia_types_pkg::trace_t mac_bus_trace_i,
    input  hvia_types_pkg::trace_t host_bus_trace_i,
    input  logic board_quiet_i,

    // SDRAM, SDRAM domain
    output hvia_types_pkg::sdram_t sd_o,
    input  logic [31:0] sd_dq_i,

    // Trace
    output logic [11:0] trace_valid_o,
    output logic [95:0] trace_event_o,
    output logic [95:0] trace_vi_o,
    output logic [191:0] trace_seq_o,
    output logic [47:0] trace_time_o,

    // Nothing changes in the domain before an input does or its timebase reaches the deadline.
    output hvia_types_pkg::core_blocks_t block_quiet_o,
    output logic sd_quiet_o,
    output logic [47:0] next_deadline_o,
    output logic [47:0] sd_next_deadline_o,
    output logic ready_o
);

  hvia_types_pkg::write_req_t write_req;
  hvia_types_pkg::write_rsp_t write_rsp;
  logic [W-1:0] write_wdata, completion_wdata, raw_wdata, command_wdata, rdata;
  logic [W/8-1:0] write_wstrb, completion_wstrb, raw_wstrb, command_wstrb;
  hvia_types_pkg::host_req_t completion_req, raw_req, command_req;
  hvia_types_pkg::host_rsp_t completion_rsp, raw_rsp, command_rsp;
  hvia_types_pkg::read_req_t fetch_req, read_req;
  hvia_types_pkg::read_rsp_t fetch_rsp, read_rsp;
  logic fetch_low_priority, read_more, fetch_att_ready, fetch_att_valid, transmit_att_ready,
      transmit_att_valid, receive_att_ready, receive_att_valid, att_ready,
      doorbell_ready, info_read, irq_notify, forget, clear, clear_ready, tx_init_ready,
      rx_init_ready, ledger_init_valid, ledger_init_ready, completion_error_ready,
      transmit_error_ready, ledger_error_ready, receive_busy,
      send_handle_busy, send_vi_busy, released, release_ready, coming, wanted, alive, nak_ready,
      acknowledge_ready, fetch_cpl_ready, transmit_cpl_ready, ledger_cpl_ready,
      receive_handle_busy, receive_vi_busy;
  hvia_types_pkg::att_req_t fetch_att, transmit_att, receive_att;
  hvia_params_pkg::vi_t fetch_att_vi, transmit_att_vi, receive_att_vi, fetch_ctx_vi,
      transmit_ctx_vi, receive_ctx_vi, forget_vi, clear_vi, init_vi, cq_tie_vi, drain_vi,
      released_vi, coming_vi, store_vi, chunk_req_vi, ledger_req_vi, alive_vi, nak_vi,
      acknowledge_vi, fetch_cpl_vi, transmit_cpl_vi, ledger_cpl_vi;
  hvia_types_pkg::att_rsp_t att_rsp;
  logic [31:0] att_level1, att_level2, info_data, transport;
  hvia_types_pkg::att_update_req_t att_update_req;
  hvia_types_pkg::att_update_rsp_t att_update_rsp;
  hvia_types_pkg::counts_t host_counts, send_counts, receive_counts;
  hvia_types_pkg::doorbell_t doorbell;
  hvia_types_pkg::arm_t arm;
  logic [127:0] fetch_ctx, transmit_ctx, receive_ctx;
  hvia_params_pkg::vis_t live;
  hvia_types_pkg::seq_init_t tx_init, rx_init;
  hvia_types_pkg::cq_tie_t cq_tie;
  hvia_types_pkg::cq_req_t cq_req;
  hvia_types_pkg::cq_rsp_t cq_rsp;
  hvia_types_pkg::drain_t drain;
  hvia_types_pkg::raw_tx_req_t raw_tx_req;
  hvia_types_pkg::raw_tx_rsp_t raw_tx_rsp;
  hvia_types_pkg::raw_rx_req_t raw_rx_req;
  hvia_types_pkg::raw_rx_rsp_t raw_rx_rsp;
  hvia_types_pkg::async_t doorbell_error, queue_error, fetch_error, receive_error, completion_error,
      transmit_error, ledger_error;
  hvia_types_pkg::trace_t doorbell_trace, fetch_trace, transmit_trace, completion_trace,
      receive_trace, ledger_trace;
  logic [47:0] control_deadline, send_deadline;
  hvia_types_pkg::descriptor_t store;
  hvia_types_pkg::chunk_req_t chunk_req;
  hvia_types_pkg::chunk_rsp_t chunk_rsp;
  logic [511:0] chunk_data;
  hvia_types_pkg::ledger_req_t ledger_req;
  hvia_types_pkg::ledger_rsp_t ledger_rsp;
  hvia_types_pkg::acknowledge_t nak, acknowledge;
  hvia_types_pkg::completion_t fetch_cpl, transmit_cpl, ledger_cpl;

  // Work as State reports it: not the read of State itself, its count and its trace.
  logic idle, control_still;
  assign idle    = &{block_quiet_o.host, block_quiet_o.send, block_quiet_o.receive, board_quiet_i,
          control_still};
  assign ready_o = att_ready && mac_ready_i;

  logic [47:0] core_deadline;
  assign core_deadline   = (send_deadline < control_deadline) ? send_deadline : control_deadline;
  assign next_deadline_o = (slot_deadline_i < core_deadline) ? slot_deadline_i : core_deadline;


  hvia_host_port #(.W(W)) u_host_port (
      .block_clk_i(block_clk_i.host), .rst_ni, .quiesce_i, .idle_o(host_idle_o),
      .no_overlap_i(strap_i[hvia_pkg::StrapNoAttOverlap]),
      .att_in_host_i(strap_i[hvia_pkg::StrapAttInHostMemory]),
      .slow_sdram_i(strap_i[hvia_pkg::StrapSlowSdram]),
      .bus_req_o, .bus_rsp_i, .bus_wdata_o, .bus_wstrb_o, .bus_rdata_i,
      .write_req_i(write_req), .write_rsp_o(write_rsp), .write_wdata_i(write_wdata),
      .write_wstrb_i(write_wstrb),
      .completion_req_i(completion_req), .completion_rsp_o(completion_rsp),
      .completion_wdata_i(completion_wdata), .completion_wstrb_i(completion_wstrb),
      .fetch_req_i(fetch_req), .fetch_rsp_o(fetch_rsp), .fetch_low_priority_i(fetch_low_priority),
      .raw_req_i(raw_req), .raw_rsp_o(raw_rsp), .raw_wdata_i(raw_wdata), .raw_wstrb_i(raw_wstrb),
      .command_req_i(command_req), .command_rsp_o(command_rsp), .command_wdata_i(command_wdata),
      .command_wstrb_i(command_wstrb),
      .read_req_i(read_req), .read_rsp_o(read_rsp), .read_more_i(read_more),
      .rdata_o(rdata),
      .fetch_att_i(fetch_att), .fetch_att_vi_i(fetch_att_vi), .fetch_att_ready_o(fetch_att_ready),
      .fetch_att_valid_o(fetch_att_valid),
      .transmit_att_i(transmit_att), .transmit_att_vi_i(transmit_att_vi),
      .transmit_att_ready_o(transmit_att_ready), .transmit_att_valid_o(transmit_att_valid),
      .receive_att_i(receive_att), .receive_att_vi_i(receive_att_vi),
      .receive_att_ready_o(receive_att_ready), .receive_att_valid_o(receive_att_valid),
      .att_rsp_o(att_rsp), .level1_i(att_level1), .level2_i(att_level2),
      .att_update_req_i(att_update_req), .att_update_rsp_o(att_update_rsp), .ready_o(att_ready),
      .counts_o(host_counts), .quiet_o(block_quiet_o.host),
      .sd_clk_i, .sd_rst_ni, .sd_timebase_i, .sd_o, .sd_dq_i, .sd_next_deadline_o, .sd_quiet_o
  );

  hvia_control #(.W(W)) u_control (
      .block_clk_i(block_clk_i.control), .bus_rst_ni, .rst_ni, .timebase_i, .strap_i,
      .soft_reset_o, .soft_reset_busy_i,
      .tgt_req_i, .tgt_rsp_o, .irq_o, .ready_i(ready_o), .card_quiet_i(idle), .link_down_i,
      .enable_o(mac_enable_o), .mac_o(mac_address_o),
      .doorbell_o(doorbell), .doorbell_ready_i(doorbell_ready), .arm_o(arm),
      .info_read_o(info_read), .info_data_i(info_data), .irq_notify_i(irq_notify),
      .counts_i(counts_i | host_counts | send_counts | receive_counts),
      .command_req_o(command_req), .command_rsp_i(command_rsp), .command_wdata_o(command_wdata),
      .command_wstrb_o(command_wstrb),
      .raw_req_o(raw_req), .raw_rsp_i(raw_rsp), .raw_wdata_o(raw_wdata), .raw_wstrb_o(raw_wstrb),
      .rdata_i(rdata),
      .att_level1_o(att_level1), .att_level2_o(att_level2), .att_update_req_o(att_update_req),
      .att_update_rsp_i(att_update_rsp),
      .fetch_ctx_vi_i(fetch_ctx_vi), .fetch_ctx_o(fetch_ctx),
      .transmit_ctx_vi_i(transmit_ctx_vi), .transmit_ctx_o(transmit_ctx),
      .receive_ctx_vi_i(receive_ctx_vi), .receive_ctx_o(receive_ctx), .live_o(live),
      .forget_o(forget), .forget_vi_o(forget_vi),
      .clear_o(clear), .clear_vi_o(clear_vi), .clear_ready_i(clear_ready),
      .tx_init_o(tx_init), .tx_init_ready_i(tx_init_ready),
      .rx_init_o(rx_init), .rx_init_ready_i(rx_init_ready), .init_vi_o(init_vi),
      .ledger_init_valid_o(ledger_init_valid), .ledger_init_ready_i(ledger_init_ready),
      .transport_o(transport),
      .cq_tie_o(cq_tie), .cq_tie_vi_o(cq_tie_vi), .cq_req_o(cq_req), .cq_rsp_i(cq_rsp),
      .drain_o(drain), .drain_vi_o(drain_vi),
      .handle_busy_i(send_handle_busy || receive_handle_busy),
      .vi_busy_i(send_vi_busy || receive_vi_busy),
      .raw_tx_req_o(raw_tx_req), .raw_tx_rsp_i(raw_tx_rsp), .raw_rx_req_o(raw_rx_req),
      .raw_rx_rsp_i(raw_rx_rsp),
      .doorbell_error_i(doorbell_error), .queue_error_i(queue_error), .fetch_error_i(fetch_error),
      .receive_error_i(receive_error),
      .completion_error_i(completion_error), .completion_error_ready_o(completion_error_ready),
      .transmit_error_i(transmit_error), .transmit_error_ready_o(transmit_error_ready),
      .ledger_error_i(ledger_error), .ledger_error_ready_o(ledger_error_ready),
      .doorbell_trace_i(doorbell_trace), .fetch_trace_i(fetch_trace),
      .transmit_trace_i(transmit_trace), .completion_trace_i(completion_trace),
      .mac_tx_trace_i, .mac_rx_trace_i, .receive_trace_i(receive_trace), .mac_bus_trace_i,
      .host_bus_trace_i, .ledger_trace_i(ledger_trace),
      .trace_valid_o, .trace_event_o, .trace_vi_o, .trace_seq_o, .trace_time_o,
      .next_deadline_o(control_deadline), .idle_o(control_still), .quiet_o(block_quiet_o.control)
  );

  hvia_via_send #(.W(W)) u_via_send (
      .block_clk_i(block_clk_i.send), .rst_ni, .timebase_i, .mac_i(mac_address_o),
      .enable_i(mac_enable_o),
      .fetch_on_arrival_i(strap_i[hvia_pkg::StrapReceiveFetchOnArrival]),
      .no_overlap_i(strap_i[hvia_pkg::StrapNoAttOverlap]),
      .short_bursts_i(strap_i[hvia_pkg::StrapShortBursts]),
      .doorbell_i(doorbell), .doorbell_ready_o(doorbell_ready), .live_i(live),
      .forget_i(forget), .forget_vi_i(forget_vi),
      .clear_i(clear), .clear_vi_i(clear_vi), .clear_ready_o(clear_ready),
      .init_i(tx_init), .init_ready_o(tx_init_ready), .init_vi_i(init_vi),
      .ledger_init_valid_i(ledger_init_valid), .ledger_init_ready_o(ledger_init_ready),
      .transport_i(transport), .drain_i(drain), .drain_vi_i(drain_vi),
      .receive_busy_i(receive_busy), .handle_busy_o(send_handle_busy), .vi_busy_o(send_vi_busy),
      .fetch_ctx_vi_o(fetch_ctx_vi), .fetch_ctx_i(fetch_ctx),
      .transmit_ctx_vi_o(transmit_ctx_vi), .transmit_ctx_i(transmit_ctx),
      .fetch_att_o(fetch_att), .fetch_att_vi_o(fetch_att_vi), .fetch_att_ready_i(fetch_att_ready),
      .fetch_att_valid_i(fetch_att_valid),
      .transmit_att_o(transmit_att), .transmit_att_vi_o(transmit_att_vi),
      .transmit_att_ready_i(transmit_att_ready), .transmit_att_valid_i(transmit_att_valid),
      .att_rsp_i(att_rsp),
      .fetch_req_o(fetch_req), .fetch_rsp_i(fetch_rsp), .fetch_low_priority_o(fetch_low_priority),
      .read_req_o(read_req), .read_rsp_i(read_rsp), .read_more_o(read_more),
      .rdata_i(rdata), .released_i(released), .released_vi_i(released_vi),
      .release_ready_o(release_ready), .coming_vi_i(coming_vi), .coming_o(coming),
      .wanted_i(wanted), .store_o(store), .store_vi_o(store_vi),
      .chunk_req_i(chunk_req), .chunk_req_vi_i(chunk_req_vi), .chunk_rsp_o(chunk_rsp),
      .chunk_data_o(chunk_data),
      .ledger_req_i(ledger_req), .ledger_req_vi_i(ledger_req_vi), .ledger_rsp_o(ledger_rsp),
      .alive_i(alive), .alive_vi_i(alive_vi),
      .nak_o(nak), .nak_vi_o(nak_vi), .nak_ready_i(nak_ready),
      .acknowledge_i(acknowledge), .acknowledge_vi_i(acknowledge_vi),
      .acknowledge_ready_o(acknowledge_ready),
      .fetch_cpl_o(fetch_cpl), .fetch_cpl_vi_o(fetch_cpl_vi), .fetch_cpl_ready_i(fetch_cpl_ready),
      .transmit_cpl_o(transmit_cpl), .transmit_cpl_vi_o(transmit_cpl_vi),
      .transmit_cpl_ready_i(transmit_cpl_ready),
      .ledger_cpl_o(ledger_cpl), .ledger_cpl_vi_o(ledger_cpl_vi),
      .ledger_cpl_ready_i(ledger_cpl_ready),
      .raw_tx_req_i(raw_tx_req), .raw_tx_rsp_o(raw_tx_rsp),
      .tx_slot_ready_i, .tx_frame_o, .tx_wready_i, .tx_wdata_o, .tx_wbytes_o,
      .doorbell_error_o(doorbell_error), .queue_error_o(queue_error), .fetch_error_o(fetch_error),
      .transmit_error_o(transmit_error), .transmit_error_ready_i(transmit_error_ready),
      .ledger_error_o(ledger_error), .ledger_error_ready_i(ledger_error_ready),
      .counts_o(send_counts), .doorbell_trace_o(doorbell_trace), .fetch_trace_o(fetch_trace),
      .transmit_trace_o(transmit_trace), .ledger_trace_o(ledger_trace),
      .next_deadline_o(send_deadline), .quiet_o(block_quiet_o.send)
  );

  hvia_via_receive #(.W(W)) u_via_receive (
      .block_clk_i(block_clk_i.receive), .rst_ni, .mac_i(mac_address_o),
      .no_overlap_i(strap_i[hvia_pkg::StrapNoAttOverlap]),
      .short_bursts_i(strap_i[hvia_pkg::StrapShortBursts]),
      .rx_frame_i, .rx_raddr_o, .rx_rdata_i, .rx_done_o,
      .arm_i(arm), .info_read_i(info_read), .info_data_o(info_data), .irq_notify_o(irq_notify),
      .cleared_i(clear && clear_ready), .cleared_vi_i(clear_vi),
      .init_i(rx_init), .init_ready_o(rx_init_ready), .init_vi_i(init_vi),
      .cq_tie_i(cq_tie), .cq_tie_vi_i(cq_tie_vi), .cq_req_i(cq_req), .cq_rsp_o(cq_rsp),
      .drain_i(drain), .drain_vi_i(drain_vi), .receive_busy_o(receive_busy),
      .handle_busy_o(receive_handle_busy), .vi_busy_o(receive_vi_busy),
      .receive_ctx_vi_o(receive_ctx_vi), .receive_ctx_i(receive_ctx), .receive_att_o(receive_att),
      .receive_att_vi_o(receive_att_vi), .receive_att_ready_i(receive_att_ready),
      .receive_att_valid_i(receive_att_valid),
      .att_rsp_i(att_rsp),
      .write_req_o(write_req), .write_rsp_i(write_rsp), .write_wdata_o(write_wdata),
      .write_wstrb_o(write_wstrb),
      .completion_req_o(completion_req), .completion_rsp_i(completion_rsp),
      .completion_wdata_o(completion_wdata), .completion_wstrb_o(completion_wstrb),
      .rdata_i(rdata), .released_o(released), .released_vi_o(released_vi),
      .release_ready_i(release_ready), .coming_vi_o(coming_vi), .coming_i(coming),
      .wanted_o(wanted), .store_i(store), .store_vi_i(store_vi),
      .chunk_req_o(chunk_req), .chunk_req_vi_o(chunk_req_vi), .chunk_rsp_i(chunk_rsp),
      .chunk_data_i(chunk_data),
      .ledger_req_o(ledger_req), .ledger_req_vi_o(ledger_req_vi), .ledger_rsp_i(ledger_rsp),
      .alive_o(alive), .alive_vi_o(alive_vi),
      .nak_i(nak), .nak_vi_i(nak_vi), .nak_ready_o(nak_ready),
      .acknowledge_o(acknowledge), .acknowledge_vi_o(acknowledge_vi),
      .acknowledge_ready_i(acknowledge_ready),
      .fetch_cpl_i(fetch_cpl), .fetch_cpl_vi_i(fetch_cpl_vi), .fetch_cpl_ready_o(fetch_cpl_ready),
      .transmit_cpl_i(transmit_cpl), .transmit_cpl_vi_i(transmit_cpl_vi),
      .transmit_cpl_ready_o(transmit_cpl_ready),
      .ledger_cpl_i(ledger_cpl), .ledger_cpl_vi_i(ledger_cpl_vi),
      .ledger_cpl_ready_o(ledger_cpl_ready),
      .raw_rx_req_i(raw_rx_req), .raw_rx_rsp_o(raw_rx_rsp), .receive_error_o(receive_error),
      .completion_error_o(completion_error), .completion_error_ready_i(completion_error_ready),
      .counts_o(receive_counts), .receive_trace_o(receive_trace),
      .completion_trace_o(completion_trace), .quiet_o(block_quiet_o.receive)
  );

endmodule
