// SPDX-License-Identifier: Apache-2.0

// From the packet buffer to the completion: the engine that receives, the store of receive
// descriptors, acknowledgements, completions of both directions and their notification.
module hvia_via_receive #(
    parameter int unsigned W = 32
) (
    input  hvia_types_pkg::receive_blocks_t block_clk_i,
    input  logic rst_ni,
    input  logic [47:0] mac_i,
    input  logic no_overlap_i,  // straps
    input  logic short_bursts_i,

    // Packet buffer
    input  hvia_types_pkg::rx_frame_t rx_frame_i,
    output logic [$clog2(hvia_params_pkg::PacketSlotBytes*8/W)-1:0] rx_raddr_o,
    input  logic [W-1:0] rx_rdata_i,
    output logic rx_done_o,

    // Registers: notifications
    input  hvia_types_pkg::arm_t arm_i,
    input  logic info_read_i,
    output logic [31:0] info_data_o,
    output logic irq_notify_o,

    // VI manager
    input  logic cleared_i,
    input  hvia_params_pkg::vi_t cleared_vi_i,
    input  hvia_types_pkg::seq_init_t init_i,
    output logic init_ready_o,
    input  hvia_params_pkg::vi_t init_vi_i,
    input  hvia_types_pkg::cq_tie_t cq_tie_i,
    input  hvia_params_pkg::vi_t cq_tie_vi_i,
    input  hvia_types_pkg::cq_req_t cq_req_i,
    output hvia_types_pkg::cq_rsp_t cq_rsp_o,
    input  hvia_types_pkg::drain_t drain_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    output logic receive_busy_o,
    output logic handle_busy_o,
    output logic vi_busy_o,

    // VI contexts
    output hvia_params_pkg::vi_t receive_ctx_vi_o,
    input  logic [127:0] receive_ctx_i,

    // Translation
    output hvia_types_pkg::att_req_t receive_att_o,
    output hvia_params_pkg::vi_t receive_att_vi_o,
    input  logic receive_att_ready_i,
    input  logic receive_att_valid_i,
    input  hvia_types_pkg::att_rsp_t att_rsp_i,

    // Host bus port
    output hvia_types_pkg::write_req_t write_req_o,
    input  hvia_types_pkg::write_rsp_t write_rsp_i,
    output logic [W-1:0] write_wdata_o,
    output logic [W/8-1:0] write_wstrb_o,
    output hvia_types_pkg::host_req_t completion_req_o,
    input  hvia_types_pkg::host_rsp_t completion_rsp_i,
    output logic [W-1:0] completion_wdata_o,
    output logic [W/8-1:0] completion_wstrb_o,
    input  logic [W-1:0] rdata_i,

    // Sending side: descriptors, chunks of them, acknowledgements
    output logic released_o,
    output hvia_params_pkg::vi_t released_vi_o,
    input  logic release_ready_i,
    output hvia_params_pkg::vi_t coming_vi_o,
    input  logic coming_i,
    output logic wanted_o,
    input  hvia_types_pkg::descriptor_t store_i,
    input  hvia_params_pkg::vi_t store_vi_i,
    output hvia_types_pkg::chunk_req_t chunk_req_o,
    output hvia_params_pkg::vi_t chunk_req_vi_o,
    input  hvia_types_pkg::chunk_rsp_t chunk_rsp_i,
    input  logic [511:0] chunk_data_i,
    output hvia_types_pkg::ledger_req_t ledger_req_o,
    output hvia_params_pkg::vi_t ledger_req_vi_o,
    input  hvia_types_pkg::ledger_rsp_t ledger_rsp_i,
    output logic alive_o,
    output hvia_params_pkg::vi_t alive_vi_o,
    input  hvia_types_pkg::acknowledge_t nak_i,
    input  hvia_params_pkg::vi_t nak_vi_i,
    output logic nak_ready_o,
    output hvia_types_pkg::acknowledge_t acknowledge_o,
    output hvia_params_pkg::vi_t acknowledge_vi_o,
    input  logic acknowledge_ready_i,

    // Completions
    input  hvia_types_pkg::completion_t fetch_cpl_i,
    input  hvia_params_pkg::vi_t fetch_cpl_vi_i,
    output logic fetch_cpl_ready_o,
    input  hvia_types_pkg::completion_t transmit_cpl_i,
    input  hvia_params_pkg::vi_t transmit_cpl_vi_i,
    output logic transmit_cpl_ready_o,
    input  hvia_types_pkg::completion_t ledger_cpl_i,
    input  hvia_params_pkg::vi_t ledger_cpl_vi_i,
    output logic ledger_cpl_ready_o,

    // Buffers for raw frames
    input  hvia_types_pkg::raw_rx_req_t raw_rx_req_i,
    output hvia_types_pkg::raw_rx_rsp_t raw_rx_rsp_o,

    output hvia_types_pkg::async_t receive_error_o,
    output hvia_types_pkg::async_t completion_error_o,
    input  logic completion_error_ready_i,
    output hvia_types_pkg::counts_t counts_o,
    output hvia_types_pkg::trace_t receive_trace_o,
    output hvia_types_pkg::trace_t completion_trace_o,
    output hvia_types_pkg::receive_blocks_t quiet_o
);

  logic                 rs_valid, rs_stale, drop_valid;
  hvia_params_pkg::vi_t rs_vi, drop_vi;
  logic [511:0]         rs_chunk;
  logic [63:0]          rs_va;
  logic [31:0]          rs_pa, rs_handle, rs_length, rs_status;
  logic [15:0]          rs_seq, rs_control, rs_segments;
  logic                 rxa_valid, rxa_ready, nak_sent;
  logic [2:0]           rxa_op, rxa_code;
  hvia_params_pkg::vi_t rxa_vi, nak_sent_vi;
  logic [31:0]          rxa_number;
  hvia_types_pkg::completion_t cpl;
  hvia_params_pkg::vi_t cpl_vi;
  logic                 cpl_ready, cpl_has_immediate;
  logic [31:0]          cpl_immediate;
  logic [2:0]           handle_busy;
  logic [1:0]           vi_busy;
  assign handle_busy_o = handle_busy != '0;
  assign vi_busy_o     = receive_busy_o || vi_busy != '0;

  // A sign of life of the peer.
  assign alive_o = rxa_valid && rxa_ready && rxa_op <= hvia_pkg::AcknowledgeOperationGap;
  assign alive_vi_o    = rxa_vi;

  hvia_rx_engine #(.W(W)) u_rx_engine (
      .clk_i(block_clk_i.rx_engine), .rst_ni, .mac_i, .no_overlap_i, .short_bursts_i,
      .rx_valid_i(rx_frame_i.valid),
      .rx_len_i(rx_frame_i.len), .rx_avail_i(rx_frame_i.avail), .rx_end_i(rx_frame_i.complete),
      .rx_bad_i(rx_frame_i.bad), .rx_raddr_o, .rx_rdata_i, .rx_done_o, .rs_vi_o(rs_vi),
      .rs_valid_i(rs_valid), .rs_stale_i(rs_stale), .rs_chunk_i(rs_chunk), .rs_va_i(rs_va),
      .rs_pa_i(rs_pa), .rs_handle_i(rs_handle), .rs_seq_i(rs_seq), .rs_control_i(rs_control),
      .rs_segments_i(rs_segments), .rs_length_i(rs_length), .rs_status_i(rs_status),
      .drop_valid_o(drop_valid), .drop_vi_o(drop_vi), .release_valid_o(released_o),
      .release_ready_i, .release_vi_o(released_vi_o), .coming_vi_o, .coming_i, .wanted_o,
      .rxc_valid_o(chunk_req_o.valid), .rxc_ready_i(chunk_rsp_i.ready), .rxc_vi_o(chunk_req_vi_o),
      .rxc_va_o(chunk_req_o.va), .rxc_handle_o(chunk_req_o.handle), .rxc_store_o(chunk_req_o.store),
      .rxc_done_i(chunk_rsp_i.done), .rxc_err_i(chunk_rsp_i.err), .chunk_data_i,
      .cpl_valid_o(cpl.valid), .cpl_ready_i(cpl_ready), .cpl_vi_o(cpl_vi), .cpl_seq_o(cpl.seq),
      .cpl_pa_o(cpl.pa), .cpl_handle_o(cpl.handle), .cpl_length_o(cpl.length),
      .cpl_status_o(cpl.status), .cpl_immediate_o(cpl_immediate),
      .cpl_has_immediate_o(cpl_has_immediate), .cpl_write_o(cpl.write), .flush_i(drain_i.flush),
      .clear_valid_i(cleared_i), .clear_vi_i(cleared_vi_i), .rd_vi_o(receive_ctx_vi_o),
      .rd_ctx_i(receive_ctx_i), .rxa_valid_o(rxa_valid), .rxa_ready_i(rxa_ready), .rxa_op_o(rxa_op),
      .rxa_vi_o(rxa_vi), .rxa_number_o(rxa_number), .rxa_code_o(rxa_code),
      .nak_sent_vi_o(nak_sent_vi), .nak_sent_i(nak_sent), .rxl_valid_o(ledger_req_o.valid),
      .rxl_ready_i(ledger_rsp_i.ready), .rxl_op_o(ledger_req_o.op), .rxl_vi_o(ledger_req_vi_o),
      .rxl_number_o(ledger_req_o.number), .rxl_code_o(ledger_req_o.code),
      .rxl_status_o(ledger_req_o.status), .rxl_va_o(ledger_req_o.va),
      .rxl_handle_o(ledger_req_o.handle), .rxl_length_o(ledger_req_o.length),
      .rxl_ok_i(ledger_rsp_i.ok), .rxl_va_i(ledger_rsp_i.va), .rxl_handle_i(ledger_rsp_i.handle),
      .rxl_length_i(ledger_rsp_i.length), .att_req_valid_o(receive_att_o.valid),
      .att_req_ready_i(receive_att_ready_i), .att_req_handle_o(receive_att_o.handle),
      .att_req_va_o(receive_att_o.va), .att_req_len_o(receive_att_o.len),
      .att_req_tag_o(receive_att_o.tag), .att_req_access_o(receive_att_o.access),
      .att_req_vi_o(receive_att_vi_o), .att_rsp_valid_i(receive_att_valid_i),
      .att_rsp_err_i(att_rsp_i.err), .att_rsp_pa_i(att_rsp_i.pa), .att_rsp_bytes_i(att_rsp_i.bytes),
      .req_valid_o(write_req_o.valid), .req_ready_i(write_rsp_i.ready),
      .req_addr_o(write_req_o.addr), .req_len_o(write_req_o.len), .wdata_o(write_wdata_o),
      .wstrb_o(write_wstrb_o), .wvalid_o(write_req_o.wvalid), .wready_i(write_rsp_i.wready),
      .wdone_i(write_rsp_i.wdone), .werr_i(write_rsp_i.werr), .rawrx_valid_i(raw_rx_req_i.valid),
      .rawrx_ready_o(raw_rx_rsp_o.ready), .rawrx_pa_i(raw_rx_req_i.pa),
      .rawrx_capacity_i(raw_rx_req_i.capacity), .rawrx_done_o(raw_rx_rsp_o.done),
      .rawrx_len_o(raw_rx_rsp_o.len), .rawrx_err_o(raw_rx_rsp_o.err),
      .seq_init_valid_i(init_i.valid), .seq_init_ready_o(init_ready_o), .seq_init_vi_i(init_vi_i),
      .seq_init_value_i(init_i.value), .async_valid_o(receive_error_o.valid),
      .async_code_o(receive_error_o.code), .async_vi_o(receive_error_o.vi),
      .drain_handle_i(drain_i.handle), .drain_vi_i, .handle_busy_o(handle_busy[1]),
      .vi_busy_o(receive_busy_o), .stat_receive_frame_o(counts_o[hvia_pkg::CounterReceiveFrame]),
      .stat_receive_not_for_us_o(counts_o[hvia_pkg::CounterReceiveNotForUs]),
      .stat_receive_malformed_o(counts_o[hvia_pkg::CounterReceiveMalformed]),
      .stat_receive_bad_vi_o(counts_o[hvia_pkg::CounterReceiveBadVI]),
      .stat_receive_old_sequence_o(counts_o[hvia_pkg::CounterReceiveOldSequence]),
      .stat_receive_gap_o(counts_o[hvia_pkg::CounterReceiveGap]),
      .stat_receive_protection_o(counts_o[hvia_pkg::CounterReceiveProtection]),
      .stat_receive_bus_error_o(counts_o[hvia_pkg::CounterReceiveBusError]),
      .stat_receive_aborted_o(counts_o[hvia_pkg::CounterReceiveAborted]),
      .stat_receive_unsupported_o(counts_o[hvia_pkg::CounterReceiveUnsupported]),
      .stat_receive_dropped_o(counts_o[hvia_pkg::CounterReceiveDropped]),
      .stat_receive_queue_empty_o(counts_o[hvia_pkg::CounterReceiveQueueEmpty]),
      .stat_receive_length_o(counts_o[hvia_pkg::CounterReceiveLength]),
      .stat_receive_descriptor_error_o(counts_o[hvia_pkg::CounterReceiveDescriptorError]),
      .stat_receive_message_o(counts_o[hvia_pkg::CounterReceiveMessage]),
      .stat_receive_read_limit_o(counts_o[hvia_pkg::CounterReceiveReadLimit]),
      .stat_receive_out_of_order_o(counts_o[hvia_pkg::CounterReceiveOutOfOrder]),
      .stat_receive_acknowledge_o(counts_o[hvia_pkg::CounterReceiveAcknowledge]),
      .stat_receive_naked_o(counts_o[hvia_pkg::CounterReceiveNAKed]),
      .stat_raw_receive_dropped_o(counts_o[hvia_pkg::CounterRawReceiveDropped]),
      .trace_valid_o(receive_trace_o.valid), .trace_event_o(receive_trace_o.code),
      .trace_vi_o(receive_trace_o.vi), .trace_seq_o(receive_trace_o.seq),
      .quiet_o(quiet_o.rx_engine)
  );

  hvia_receive_store u_receive_store (
      .clk_i(block_clk_i.receive_store), .rst_ni,
      .wr_valid_i(store_i.valid), .wr_head_i(store_i.head), .wr_vi_i(store_vi_i),
      .wr_chunk_i(store_i.chunk), .wr_va_i(store_i.va), .wr_pa_i(store_i.pa),
      .wr_handle_i(store_i.handle), .wr_seq_i(store_i.seq), .wr_status_i(store_i.status),
      .rs_vi_i(rs_vi), .rs_valid_o(rs_valid), .rs_stale_o(rs_stale), .rs_chunk_o(rs_chunk),
      .rs_va_o(rs_va), .rs_pa_o(rs_pa), .rs_handle_o(rs_handle), .rs_seq_o(rs_seq),
      .rs_control_o(rs_control), .rs_segments_o(rs_segments), .rs_length_o(rs_length),
      .rs_status_o(rs_status),
      .drop_valid_i(drop_valid), .drop_vi_i(drop_vi),
      .clear_valid_i(cleared_i), .clear_vi_i(cleared_vi_i),
      .stale_start_i(drain_i.stale_start), .stale_busy_o(handle_busy[2]),
      .drain_handle_i(drain_i.handle), .drain_vi_i, .drain_receive_i(drain_i.flush),
      .vi_busy_o(vi_busy[1]), .quiet_o(quiet_o.receive_store)
  );

  hvia_acknowledge u_acknowledge (
      .clk_i(block_clk_i.acknowledge), .rst_ni, .rxa_valid_i(rxa_valid), .rxa_ready_o(rxa_ready),
      .rxa_op_i(rxa_op),
      .rxa_vi_i(rxa_vi), .rxa_number_i(rxa_number), .rxa_code_i(rxa_code),
      .nak_sent_vi_i(nak_sent_vi), .nak_sent_o(nak_sent), .nak_valid_i(nak_i.valid),
      .nak_ready_o(nak_ready_o), .nak_vi_i(nak_vi_i), .nak_number_i(nak_i.number),
      .nak_code_i(nak_i.code), .ack_valid_o(acknowledge_o.valid), .ack_ready_i(acknowledge_ready_i),
      .ack_vi_o(acknowledge_vi_o), .ack_number_o(acknowledge_o.number),
      .ack_code_o(acknowledge_o.code), .init_valid_i(init_i.valid && init_ready_o), .init_vi_i,
      .clear_valid_i(cleared_i), .clear_vi_i(cleared_vi_i),
      .stat_nak_sent_o(counts_o[hvia_pkg::CounterNAKSent]), .quiet_o(quiet_o.acknowledge)
  );

  logic       done_valid;
  logic [1:0] done_kind;
  logic [7:0] done_index;

  hvia_completion #(.W(W)) u_completion (
      .clk_i(block_clk_i.completion), .rst_ni,
      .cpl_valid_i({ledger_cpl_i.valid, transmit_cpl_i.valid, fetch_cpl_i.valid, cpl.valid}),
      .cpl_ready_o({ledger_cpl_ready_o, transmit_cpl_ready_o, fetch_cpl_ready_o, cpl_ready}),
      .cpl_vi_i({ledger_cpl_vi_i, transmit_cpl_vi_i, fetch_cpl_vi_i, cpl_vi}),
      .cpl_seq_i({ledger_cpl_i.seq, transmit_cpl_i.seq, fetch_cpl_i.seq, cpl.seq}),
      .cpl_pa_i({ledger_cpl_i.pa, transmit_cpl_i.pa, fetch_cpl_i.pa, cpl.pa}),
      .cpl_handle_i({ledger_cpl_i.handle, transmit_cpl_i.handle, fetch_cpl_i.handle, cpl.handle}),
      .cpl_length_i({ledger_cpl_i.length, transmit_cpl_i.length, fetch_cpl_i.length, cpl.length}),
      .cpl_status_i({ledger_cpl_i.status, transmit_cpl_i.status, fetch_cpl_i.status, cpl.status}),
      .cpl_immediate_i({96'd0, cpl_immediate}), .cpl_has_immediate_i({3'd0, cpl_has_immediate}),
      .cpl_receive_i(4'b0011),
      .cpl_write_i({ledger_cpl_i.write, transmit_cpl_i.write, fetch_cpl_i.write, cpl.write}),
      .cq_tie_valid_i(cq_tie_i.valid), .cq_tie_vi_i, .cq_tie_send_i(cq_tie_i.send),
      .cq_tie_receive_i(cq_tie_i.receive),
      .cqc_valid_i(cq_req_i.valid), .cqc_ready_o(cq_rsp_o.ready), .cqc_op_i(cq_req_i.op),
      .cqc_index_i(cq_req_i.index), .cqc_address_i(cq_req_i.address), .cqc_log2_i(cq_req_i.log2),
      .cqc_ok_o(cq_rsp_o.ok), .cqc_tail_o(cq_rsp_o.tail),
      .req_valid_o(completion_req_o.valid), .req_ready_i(completion_rsp_i.ready),
      .req_write_o(completion_req_o.write), .req_addr_o(completion_req_o.addr),
      .req_len_o(completion_req_o.len),
      .wdata_o(completion_wdata_o), .wstrb_o(completion_wstrb_o),
      .wvalid_o(completion_req_o.wvalid), .wready_i(completion_rsp_i.wready),
      .wdone_i(completion_rsp_i.wdone), .werr_i(completion_rsp_i.werr), .rdata_i,
      .rvalid_i(completion_rsp_i.rvalid), .rready_o(completion_req_o.rready),
      .rlast_i(completion_rsp_i.rlast), .rerr_i(completion_rsp_i.rerr),
      .drain_handle_i(drain_i.handle), .drain_vi_i, .handle_busy_o(handle_busy[0]),
      .vi_busy_o(vi_busy[0]),
      .done_valid_o(done_valid), .done_kind_o(done_kind), .done_index_o(done_index),
      .async_valid_o(completion_error_o.valid), .async_ready_i(completion_error_ready_i),
      .async_code_o(completion_error_o.code), .async_vi_o(completion_error_o.vi),
      .stat_completion_written_o(counts_o[hvia_pkg::CounterCompletionWritten]),
      .stat_completion_error_o(counts_o[hvia_pkg::CounterCompletionError]),
      .stat_completion_receive_o(counts_o[hvia_pkg::CounterCompletionReceive]),
      .stat_descriptor_flushed_o(counts_o[hvia_pkg::CounterDescriptorFlushed]),
      .stat_descriptor_error_o(counts_o[hvia_pkg::CounterDescriptorError]),
      .stat_completion_queue_entry_o(counts_o[hvia_pkg::CounterCompletionQueueEntry]),
      .stat_completion_queue_overrun_o(counts_o[hvia_pkg::CounterCompletionQueueOverrun]),
      .trace_valid_o(completion_trace_o.valid), .trace_event_o(completion_trace_o.code),
      .trace_vi_o(completion_trace_o.vi), .trace_seq_o(completion_trace_o.seq),
      .quiet_o(quiet_o.completion)
  );

  hvia_notify u_notify (
      .clk_i(block_clk_i.notify), .rst_ni,
      .done_valid_i(done_valid), .done_kind_i(done_kind), .done_index_i(done_index),
      .arm_valid_i(arm_i.valid), .arm_kind_i(arm_i.kind), .arm_index_i(arm_i.index),
      .info_read_i, .info_data_o, .irq_notify_o, .stat_notify_o(counts_o[hvia_pkg::CounterNotify]),
      .quiet_o(quiet_o.notify)
  );

  // Counters of other blocks
  assign {counts_o[127:63], counts_o[61:56], counts_o[52:51], counts_o[49:48], counts_o[31:23],
      counts_o[19:16], counts_o[12], counts_o[9:0]} = '0;


endmodule
