// SPDX-License-Identifier: Apache-2.0

// From a doorbell to the packet buffer: work queues, descriptors of both directions, the sending
// engine, and the ledger of reliable VIs.
module hvia_via_send #(
    parameter int unsigned W = 32
) (
    input  hvia_types_pkg::send_blocks_t block_clk_i,
    input  logic rst_ni,
    input  logic [47:0] timebase_i,
    input  logic [47:0] mac_i,
    input  logic enable_i,
    input  logic fetch_on_arrival_i,  // straps
    input  logic no_overlap_i,
    input  logic short_bursts_i,

    // Registers: a write to a page of doorbells
    input  hvia_types_pkg::doorbell_t doorbell_i,
    output logic doorbell_ready_o,

    // VI manager
    input  hvia_params_pkg::vis_t live_i,
    input  logic forget_i,
    input  hvia_params_pkg::vi_t forget_vi_i,
    input  logic clear_i,
    input  hvia_params_pkg::vi_t clear_vi_i,
    output logic clear_ready_o,
    input  hvia_types_pkg::seq_init_t init_i,
    output logic init_ready_o,
    input  hvia_params_pkg::vi_t init_vi_i,
    input  logic ledger_init_valid_i,
    output logic ledger_init_ready_o,
    input  logic [31:0] transport_i,
    input  hvia_types_pkg::drain_t drain_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    input  logic receive_busy_i,
    output logic handle_busy_o,
    output logic vi_busy_o,

    // VI contexts
    output hvia_params_pkg::vi_t fetch_ctx_vi_o,
    input  logic [127:0] fetch_ctx_i,
    output hvia_params_pkg::vi_t transmit_ctx_vi_o,
    input  logic [127:0] transmit_ctx_i,

    // Translation
    output hvia_types_pkg::att_req_t fetch_att_o,
    output hvia_params_pkg::vi_t fetch_att_vi_o,
    input  logic fetch_att_ready_i,
    input  logic fetch_att_valid_i,
    output hvia_types_pkg::att_req_t transmit_att_o,
    output hvia_params_pkg::vi_t transmit_att_vi_o,
    input  logic transmit_att_ready_i,
    input  logic transmit_att_valid_i,
    input  hvia_types_pkg::att_rsp_t att_rsp_i,

    // Host bus port
    output hvia_types_pkg::read_req_t fetch_req_o,
    input  hvia_types_pkg::read_rsp_t fetch_rsp_i,
    output logic fetch_low_priority_o,
    output hvia_types_pkg::read_req_t read_req_o,
    input  hvia_types_pkg::read_rsp_t read_rsp_i,
    output logic read_more_o,
    input  logic [W-1:0] rdata_i,

    // Receiving side: descriptors, chunks of them, acknowledgements
    input  logic released_i,
    input  hvia_params_pkg::vi_t released_vi_i,
    output logic release_ready_o,
    input  hvia_params_pkg::vi_t coming_vi_i,
    output logic coming_o,
    input  logic wanted_i,
    output hvia_types_pkg::descriptor_t store_o,
    output hvia_params_pkg::vi_t store_vi_o,
    input  hvia_types_pkg::chunk_req_t chunk_req_i,
    input  hvia_params_pkg::vi_t chunk_req_vi_i,
    output hvia_types_pkg::chunk_rsp_t chunk_rsp_o,
    output logic [511:0] chunk_data_o,
    input  hvia_types_pkg::ledger_req_t ledger_req_i,
    input  hvia_params_pkg::vi_t ledger_req_vi_i,
    output hvia_types_pkg::ledger_rsp_t ledger_rsp_o,
    input  logic alive_i,
    input  hvia_params_pkg::vi_t alive_vi_i,
    output hvia_types_pkg::acknowledge_t nak_o,
    output hvia_params_pkg::vi_t nak_vi_o,
    input  logic nak_ready_i,
    input  hvia_types_pkg::acknowledge_t acknowledge_i,
    input  hvia_params_pkg::vi_t acknowledge_vi_i,
    output logic acknowledge_ready_o,

    // Completions
    output hvia_types_pkg::completion_t fetch_cpl_o,
    output hvia_params_pkg::vi_t fetch_cpl_vi_o,
    input  logic fetch_cpl_ready_i,
    output hvia_types_pkg::completion_t transmit_cpl_o,
    output hvia_params_pkg::vi_t transmit_cpl_vi_o,
    input  logic transmit_cpl_ready_i,
    output hvia_types_pkg::completion_t ledger_cpl_o,
    output hvia_params_pkg::vi_t ledger_cpl_vi_o,
    input  logic ledger_cpl_ready_i,

    // Raw frames to send
    input  hvia_types_pkg::raw_tx_req_t raw_tx_req_i,
    output hvia_types_pkg::raw_tx_rsp_t raw_tx_rsp_o,

    // Packet buffer
    input  logic tx_slot_ready_i,
    output hvia_types_pkg::tx_frame_t tx_frame_o,
    input  logic tx_wready_i,
    output logic [W-1:0] tx_wdata_o,
    output logic [$clog2(W/8):0] tx_wbytes_o,

    output hvia_types_pkg::async_t doorbell_error_o,
    output hvia_types_pkg::async_t queue_error_o,
    output hvia_types_pkg::async_t fetch_error_o,
    output hvia_types_pkg::async_t transmit_error_o,
    input  logic transmit_error_ready_i,
    output hvia_types_pkg::async_t ledger_error_o,
    input  logic ledger_error_ready_i,
    output hvia_types_pkg::counts_t counts_o,
    output hvia_types_pkg::trace_t doorbell_trace_o,
    output hvia_types_pkg::trace_t fetch_trace_o,
    output hvia_types_pkg::trace_t transmit_trace_o,
    output hvia_types_pkg::trace_t ledger_trace_o,
    output logic [47:0] next_deadline_o,
    output hvia_types_pkg::send_blocks_t quiet_o
);

  logic                 db_valid, db_ready, db_receive;
  hvia_params_pkg::vi_t db_vi;
  logic [63:0]          db_va;
  logic [31:0]          db_handle;
  logic [3:0]           handle_busy, vi_busy;
  assign handle_busy_o = handle_busy != '0;
  assign vi_busy_o     = vi_busy != '0;

  hvia_doorbell u_doorbell (
      .clk_i(block_clk_i.doorbell), .rst_ni, .enable_i, .live_i, .forget_valid_i(forget_i),
      .forget_vi_i,
      .db_wvalid_i(doorbell_i.valid), .db_wready_o(doorbell_ready_o), .db_waddr_i(doorbell_i.addr),
      .db_wdata_i(doorbell_i.data), .db_wbe_i(doorbell_i.be), .db_valid_o(db_valid),
      .db_ready_i(db_ready), .db_receive_o(db_receive), .db_vi_o(db_vi), .db_va_o(db_va),
      .db_handle_o(db_handle),
      .async_valid_o(doorbell_error_o.valid), .async_code_o(doorbell_error_o.code),
      .async_vi_o(doorbell_error_o.vi),
      .stat_doorbell_send_o(counts_o[hvia_pkg::CounterDoorbellSend]),
      .stat_doorbell_receive_o(counts_o[hvia_pkg::CounterDoorbellReceive]),
      .stat_doorbell_malformed_o(counts_o[hvia_pkg::CounterDoorbellMalformed]),
      .trace_valid_o(doorbell_trace_o.valid), .trace_event_o(doorbell_trace_o.code),
      .trace_vi_o(doorbell_trace_o.vi), .trace_seq_o(doorbell_trace_o.seq),
      .quiet_o(quiet_o.doorbell)
  );

  logic                 take_valid, take_ready, take_receive, take_more, send_space;
  logic                 link_valid, link_ready, link_bad, link_receive;
  hvia_params_pkg::vi_t take_vi, link_vi;
  logic [63:0]          take_va, link_va;
  logic [31:0]          take_handle, link_handle;
  logic [15:0]          take_seq;
  // Two blocks release receive descriptors: rx_engine and descriptor_fetch. Either queue or fetch
  // may have one in flight.
  hvia_params_pkg::vi_t own_release_vi;
  logic                 own_release, own_release_ready, queue_coming, fetch_coming;
  hvia_params_pkg::vis_t send_hold;
  logic                 unhold_valid, unhold_ready;
  hvia_params_pkg::vi_t unhold_vi;
  assign coming_o           = queue_coming || fetch_coming;
  assign queue_error_o.code = hvia_pkg::AsyncErrorVIOverrun;

  hvia_work_queue #(.DepthLog2(hvia_params_pkg::QueueDepthLog2)) u_work_queue (
      .clk_i(block_clk_i.work_queue), .rst_ni, .on_arrival_i(fetch_on_arrival_i), .live_i,
      .db_valid_i(db_valid), .db_ready_o(db_ready), .db_receive_i(db_receive), .db_vi_i(db_vi),
      .db_va_i(db_va), .db_handle_i(db_handle),
      .send_hold_i(send_hold),
      .unhold_valid_i(unhold_valid), .unhold_ready_o(unhold_ready), .unhold_vi_i(unhold_vi),
      .send_space_i(send_space),
      .take_valid_o(take_valid), .take_ready_i(take_ready), .take_receive_o(take_receive),
      .take_vi_o(take_vi), .take_va_o(take_va), .take_handle_o(take_handle),
      .take_more_o(take_more), .take_seq_o(take_seq),
      .link_valid_i(link_valid), .link_ready_o(link_ready), .link_bad_i(link_bad),
      .link_receive_i(link_receive), .link_vi_i(link_vi), .link_va_i(link_va),
      .link_handle_i(link_handle),
      .release_valid_i({own_release, released_i}),
      .release_ready_o({own_release_ready, release_ready_o}),
      .release_vi_i({own_release_vi, released_vi_i}),
      .coming_vi_i, .coming_o(queue_coming), .wanted_i,
      .clear_valid_i(clear_i), .clear_ready_o, .clear_vi_i,
      .drain_vi_i, .drain_receive_i(drain_i.flush), .vi_busy_o(vi_busy[0]),
      .overrun_valid_o(queue_error_o.valid), .overrun_vi_o(queue_error_o.vi),
      .stat_doorbell_overrun_o(counts_o[hvia_pkg::CounterDoorbellOverrun]),
      .quiet_o(quiet_o.work_queue)
  );

  logic                 txc_valid, txc_ready, txc_done, txc_err;
  hvia_params_pkg::vi_t txc_vi;
  logic [63:0]          txc_va;
  logic [31:0]          txc_handle;
  logic                 desc_valid, desc_ready, desc_unreachable;
  hvia_params_pkg::vi_t desc_vi;
  logic [15:0]          desc_seq;
  logic [31:0]          desc_pa, desc_handle, desc_status;
  logic [63:0]          desc_va;
  logic [511:0]         desc_chunk;
  assign fetch_cpl_o.write  = 1'b1;
  assign fetch_cpl_o.length = 32'd0;

  hvia_descriptor_fetch #(.W(W)) u_descriptor_fetch (
      .clk_i(block_clk_i.descriptor_fetch), .rst_ni, .take_valid_i(take_valid),
      .take_ready_o(take_ready),
      .take_receive_i(take_receive), .take_vi_i(take_vi), .take_va_i(take_va),
      .take_handle_i(take_handle), .take_more_i(take_more), .take_seq_i(take_seq),
      .send_space_o(send_space), .link_valid_o(link_valid), .link_ready_i(link_ready),
      .link_bad_o(link_bad), .link_receive_o(link_receive), .link_vi_o(link_vi),
      .link_va_o(link_va), .link_handle_o(link_handle), .release_valid_o(own_release),
      .release_ready_i(own_release_ready), .release_vi_o(own_release_vi), .coming_vi_i,
      .coming_o(fetch_coming), .wanted_i, .rd_vi_o(fetch_ctx_vi_o), .rd_ctx_i(fetch_ctx_i),
      .att_req_valid_o(fetch_att_o.valid), .att_req_ready_i(fetch_att_ready_i),
      .att_req_handle_o(fetch_att_o.handle), .att_req_va_o(fetch_att_o.va),
      .att_req_len_o(fetch_att_o.len), .att_req_tag_o(fetch_att_o.tag),
      .att_req_access_o(fetch_att_o.access), .att_req_vi_o(fetch_att_vi_o),
      .att_rsp_valid_i(fetch_att_valid_i), .att_rsp_err_i(att_rsp_i.err),
      .att_rsp_pa_i(att_rsp_i.pa), .req_valid_o(fetch_req_o.valid), .req_ready_i(fetch_rsp_i.ready),
      .req_low_priority_o(fetch_low_priority_o), .req_addr_o(fetch_req_o.addr),
      .req_len_o(fetch_req_o.len), .rdata_i, .rvalid_i(fetch_rsp_i.rvalid),
      .rready_o(fetch_req_o.rready), .rlast_i(fetch_rsp_i.rlast), .rerr_i(fetch_rsp_i.rerr),
      .rxc_valid_i(chunk_req_i.valid), .rxc_ready_o(chunk_rsp_o.ready), .rxc_vi_i(chunk_req_vi_i),
      .rxc_va_i(chunk_req_i.va), .rxc_handle_i(chunk_req_i.handle), .rxc_store_i(chunk_req_i.store),
      .rxc_done_o(chunk_rsp_o.done), .rxc_err_o(chunk_rsp_o.err), .txc_valid_i(txc_valid),
      .txc_ready_o(txc_ready), .txc_vi_i(txc_vi), .txc_va_i(txc_va), .txc_handle_i(txc_handle),
      .txc_done_o(txc_done), .txc_err_o(txc_err), .chunk_data_o, .desc_valid_o(desc_valid),
      .desc_ready_i(desc_ready), .desc_vi_o(desc_vi), .desc_seq_o(desc_seq), .desc_va_o(desc_va),
      .desc_pa_o(desc_pa), .desc_handle_o(desc_handle), .desc_chunk_o(desc_chunk),
      .desc_status_o(desc_status), .desc_unreachable_o(desc_unreachable),
      .wr_valid_o(store_o.valid), .wr_head_o(store_o.head), .wr_vi_o(store_vi_o),
      .wr_chunk_o(store_o.chunk), .wr_va_o(store_o.va), .wr_pa_o(store_o.pa),
      .wr_handle_o(store_o.handle), .wr_seq_o(store_o.seq), .wr_status_o(store_o.status),
      .cpl_valid_o(fetch_cpl_o.valid), .cpl_ready_i(fetch_cpl_ready_i), .cpl_vi_o(fetch_cpl_vi_o),
      .cpl_seq_o(fetch_cpl_o.seq), .cpl_pa_o(fetch_cpl_o.pa), .cpl_handle_o(fetch_cpl_o.handle),
      .cpl_status_o(fetch_cpl_o.status), .drain_handle_i(drain_i.handle), .drain_vi_i,
      .handle_busy_o(handle_busy[0]), .vi_busy_o(vi_busy[1]), .async_valid_o(fetch_error_o.valid),
      .async_code_o(fetch_error_o.code), .async_vi_o(fetch_error_o.vi),
      .stat_descriptor_fetched_o(counts_o[hvia_pkg::CounterDescriptorFetched]),
      .stat_descriptor_bad_o(counts_o[hvia_pkg::CounterDescriptorBad]),
      .stat_descriptor_segments_o(counts_o[hvia_pkg::CounterDescriptorSegments]),
      .trace_valid_o(fetch_trace_o.valid), .trace_event_o(fetch_trace_o.code),
      .trace_vi_o(fetch_trace_o.vi), .trace_seq_o(fetch_trace_o.seq),
      .quiet_o(quiet_o.descriptor_fetch)
  );

  // Messages of reliable VIs, between tx_engine and send_ledger
  logic                 led_valid, led_ready, led_last, led_fence, led_go;
  logic [1:0]           led_op, led_operation;
  hvia_params_pkg::vi_t led_vi;
  logic [4:0]           led_slot, led_slot_back;
  logic [31:0]          led_number, led_number_back, led_pa, led_handle, led_length;
  logic [8:0]           led_status;
  logic [63:0]          led_va;
  logic [15:0]          led_seq;
  logic                 job_valid, job_ready, job_response;
  hvia_params_pkg::vi_t job_vi;
  logic [4:0]           job_slot;
  logic [31:0]          job_first, job_number, job_pa, job_handle, job_length;
  logic [63:0]          job_va;
  logic [15:0]          job_seq;
  logic [1:0]           job_operation;

  hvia_tx_engine #(.W(W)) u_tx_engine (
      .clk_i(block_clk_i.tx_engine), .rst_ni, .mac_i, .no_overlap_i, .short_bursts_i,
      .desc_valid_i(desc_valid), .desc_ready_o(desc_ready), .desc_vi_i(desc_vi),
      .desc_seq_i(desc_seq), .desc_va_i(desc_va), .desc_pa_i(desc_pa), .desc_handle_i(desc_handle),
      .desc_chunk_i(desc_chunk), .desc_status_i(desc_status), .desc_unreachable_i(desc_unreachable),
      .txc_valid_o(txc_valid), .txc_ready_i(txc_ready), .txc_vi_o(txc_vi), .txc_va_o(txc_va),
      .txc_handle_o(txc_handle), .txc_done_i(txc_done), .txc_err_i(txc_err),
      .chunk_data_i(chunk_data_o),
      .rawtx_valid_i(raw_tx_req_i.valid), .rawtx_ready_o(raw_tx_rsp_o.ready),
      .rawtx_pa_i(raw_tx_req_i.pa), .rawtx_len_i(raw_tx_req_i.len),
      .rawtx_done_o(raw_tx_rsp_o.done), .rawtx_err_o(raw_tx_rsp_o.err),
      .led_valid_o(led_valid), .led_ready_i(led_ready), .led_op_o(led_op), .led_vi_o(led_vi),
      .led_slot_o(led_slot), .led_number_o(led_number), .led_last_o(led_last),
      .led_status_o(led_status), .led_va_o(led_va), .led_pa_o(led_pa), .led_handle_o(led_handle),
      .led_seq_o(led_seq), .led_length_o(led_length), .led_operation_o(led_operation),
      .led_fence_o(led_fence), .led_go_i(led_go), .led_number_i(led_number_back),
      .led_slot_i(led_slot_back),
      .job_valid_i(job_valid), .job_ready_o(job_ready), .job_vi_i(job_vi), .job_slot_i(job_slot),
      .job_response_i(job_response), .job_first_i(job_first), .job_number_i(job_number),
      .job_va_i(job_va), .job_pa_i(job_pa), .job_handle_i(job_handle), .job_seq_i(job_seq),
      .job_length_i(job_length), .job_operation_i(job_operation),
      .ack_valid_i(acknowledge_i.valid), .ack_ready_o(acknowledge_ready_o),
      .ack_vi_i(acknowledge_vi_i), .ack_number_i(acknowledge_i.number),
      .ack_code_i(acknowledge_i.code),
      .rd_vi_o(transmit_ctx_vi_o), .rd_ctx_i(transmit_ctx_i),
      .cpl_valid_o(transmit_cpl_o.valid), .cpl_ready_i(transmit_cpl_ready_i),
      .cpl_vi_o(transmit_cpl_vi_o), .cpl_seq_o(transmit_cpl_o.seq), .cpl_pa_o(transmit_cpl_o.pa),
      .cpl_handle_o(transmit_cpl_o.handle), .cpl_length_o(transmit_cpl_o.length),
      .cpl_status_o(transmit_cpl_o.status), .cpl_write_o(transmit_cpl_o.write),
      .att_req_valid_o(transmit_att_o.valid), .att_req_ready_i(transmit_att_ready_i),
      .att_req_handle_o(transmit_att_o.handle), .att_req_va_o(transmit_att_o.va),
      .att_req_len_o(transmit_att_o.len), .att_req_tag_o(transmit_att_o.tag),
      .att_req_access_o(transmit_att_o.access), .att_req_vi_o(transmit_att_vi_o),
      .att_rsp_valid_i(transmit_att_valid_i), .att_rsp_err_i(att_rsp_i.err),
      .att_rsp_pa_i(att_rsp_i.pa), .att_rsp_bytes_i(att_rsp_i.bytes),
      .req_valid_o(read_req_o.valid), .req_ready_i(read_rsp_i.ready), .req_more_o(read_more_o),
      .req_addr_o(read_req_o.addr), .req_len_o(read_req_o.len),
      .rdata_i, .rvalid_i(read_rsp_i.rvalid), .rready_o(read_req_o.rready),
      .rlast_i(read_rsp_i.rlast), .rerr_i(read_rsp_i.rerr),
      .tx_slot_ready_i, .tx_wvalid_o(tx_frame_o.valid), .tx_wready_i, .tx_wdata_o, .tx_wbytes_o,
      .tx_wlast_o(tx_frame_o.last), .tx_wabort_o(tx_frame_o.aborted), .tx_wvi_o(tx_frame_o.vi),
      .tx_wseq_o(tx_frame_o.seq), .tx_wlen_o(tx_frame_o.len),
      .seq_init_valid_i(init_i.valid), .seq_init_ready_o(init_ready_o), .seq_init_vi_i(init_vi_i),
      .seq_init_value_i(init_i.value),
      .drain_handle_i(drain_i.handle), .drain_vi_i, .handle_busy_o(handle_busy[1]),
      .vi_busy_o(vi_busy[2]),
      .async_valid_o(transmit_error_o.valid), .async_ready_i(transmit_error_ready_i),
      .async_code_o(transmit_error_o.code), .async_vi_o(transmit_error_o.vi),
      .stat_transmit_message_o(counts_o[hvia_pkg::CounterTransmitMessage]),
      .stat_transmit_frame_o(counts_o[hvia_pkg::CounterTransmitFrame]),
      .stat_transmit_aborted_o(counts_o[hvia_pkg::CounterTransmitAborted]),
      .stat_transmit_acknowledge_o(counts_o[hvia_pkg::CounterTransmitAcknowledge]),
      .trace_valid_o(transmit_trace_o.valid), .trace_event_o(transmit_trace_o.code),
      .trace_vi_o(transmit_trace_o.vi), .trace_seq_o(transmit_trace_o.seq),
      .quiet_o(quiet_o.tx_engine)
  );

  hvia_send_ledger u_send_ledger (
      .clk_i(block_clk_i.send_ledger), .rst_ni, .timebase_i,
      .led_init_valid_i(ledger_init_valid_i), .led_init_ready_o(ledger_init_ready_o),
      .seq_init_vi_i(init_vi_i), .tx_seq_init_value_i(init_i.value),
      .seq_init_transport_i(transport_i),
      .clear_valid_i(clear_i), .clear_ready_i(clear_ready_o), .clear_vi_i,
      .led_valid_i(led_valid), .led_ready_o(led_ready), .led_op_i(led_op), .led_vi_i(led_vi),
      .led_slot_i(led_slot), .led_number_i(led_number), .led_last_i(led_last),
      .led_status_i(led_status), .led_va_i(led_va), .led_pa_i(led_pa), .led_handle_i(led_handle),
      .led_seq_i(led_seq), .led_length_i(led_length), .led_operation_i(led_operation),
      .led_fence_i(led_fence), .led_go_o(led_go), .led_number_o(led_number_back),
      .led_slot_o(led_slot_back),
      .job_valid_o(job_valid), .job_ready_i(job_ready), .job_vi_o(job_vi), .job_slot_o(job_slot),
      .job_response_o(job_response), .job_first_o(job_first), .job_number_o(job_number),
      .job_va_o(job_va), .job_pa_o(job_pa), .job_handle_o(job_handle), .job_seq_o(job_seq),
      .job_length_o(job_length), .job_operation_o(job_operation),
      .rxl_valid_i(ledger_req_i.valid), .rxl_ready_o(ledger_rsp_o.ready),
      .rxl_op_i(ledger_req_i.op), .rxl_vi_i(ledger_req_vi_i), .rxl_number_i(ledger_req_i.number),
      .rxl_code_i(ledger_req_i.code), .rxl_status_i(ledger_req_i.status),
      .rxl_va_i(ledger_req_i.va), .rxl_handle_i(ledger_req_i.handle),
      .rxl_length_i(ledger_req_i.length), .rxl_ok_o(ledger_rsp_o.ok), .rxl_va_o(ledger_rsp_o.va),
      .rxl_handle_o(ledger_rsp_o.handle), .rxl_length_o(ledger_rsp_o.length),
      .alive_valid_i(alive_i), .alive_vi_i,
      .nak_valid_o(nak_o.valid), .nak_ready_i(nak_ready_i), .nak_vi_o(nak_vi_o),
      .nak_number_o(nak_o.number), .nak_code_o(nak_o.code),
      .cpl_valid_o(ledger_cpl_o.valid), .cpl_ready_i(ledger_cpl_ready_i),
      .cpl_vi_o(ledger_cpl_vi_o), .cpl_seq_o(ledger_cpl_o.seq), .cpl_pa_o(ledger_cpl_o.pa),
      .cpl_handle_o(ledger_cpl_o.handle), .cpl_length_o(ledger_cpl_o.length),
      .cpl_status_o(ledger_cpl_o.status), .cpl_write_o(ledger_cpl_o.write),
      .async_valid_o(ledger_error_o.valid), .async_ready_i(ledger_error_ready_i),
      .async_code_o(ledger_error_o.code), .async_vi_o(ledger_error_o.vi),
      .send_hold_o(send_hold),
      .unhold_valid_o(unhold_valid), .unhold_ready_i(unhold_ready), .unhold_vi_o(unhold_vi),
      .drain_handle_i(drain_i.handle), .drain_vi_i, .flush_i(drain_i.flush), .receive_busy_i,
      .stale_start_i(drain_i.stale_start), .stale_busy_o(handle_busy[3]),
      .handle_busy_o(handle_busy[2]), .vi_busy_o(vi_busy[3]),
      .stat_retransmit_frame_o(counts_o[hvia_pkg::CounterRetransmitFrame]),
      .stat_retry_timeout_o(counts_o[hvia_pkg::CounterRetryTimeout]),
      .stat_rewind_o(counts_o[hvia_pkg::CounterRewind]),
      .stat_retry_exhausted_o(counts_o[hvia_pkg::CounterRetryExhausted]),
      .stat_acknowledge_stray_o(counts_o[hvia_pkg::CounterAcknowledgeStray]),
      .stat_nak_received_o(counts_o[hvia_pkg::CounterNAKReceived]),
      .stat_read_response_o(counts_o[hvia_pkg::CounterReadResponse]),
      .trace_valid_o(ledger_trace_o.valid), .trace_event_o(ledger_trace_o.code),
      .trace_vi_o(ledger_trace_o.vi), .trace_seq_o(ledger_trace_o.seq),
      .next_deadline_o, .quiet_o(quiet_o.send_ledger)
  );

  // Counters of other blocks
  assign {counts_o[127:64], counts_o[62], counts_o[58:32], counts_o[29:24], counts_o[22:20],
      counts_o[15:13], counts_o[11:10], counts_o[7:4]} = '0;


endmodule
