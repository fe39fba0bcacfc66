// SPDX-License-Identifier: Apache-2.0

// The descriptor path under test: doorbell, work_queue, descriptor_fetch and receive_store, then
// completion. Valves join them, so that the inner ports get back-pressure too. The C++ side models
// everything else, from target port to host memory and both engines.
module descriptor_tb #(
    parameter int unsigned W = 32
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    input  logic           enable_i,
    input  hvia_params_pkg::vis_t live_i,
    // Doorbell BAR.
    input  logic           db_wvalid_i,
    output logic           db_wready_o,
    input  logic [19:0]    db_waddr_i,
    input  logic [31:0]    db_wdata_i,
    input  logic [3:0]     db_wbe_i,
    input  logic           forget_valid_i,
    input  hvia_params_pkg::vi_t forget_vi_i,
    // Gates and data of the inner ports.
    input  logic           commit_gate_i,
    output logic           commit_valid_o,
    output logic           commit_shown_o,
    output logic           commit_fire_o,
    output logic           commit_receive_o,
    output hvia_params_pkg::vi_t commit_vi_o,
    output logic [63:0]    commit_va_o,
    output logic [31:0]    commit_handle_o,
    // Held send queues, and one whose hold has ended.
    input  hvia_params_pkg::vis_t send_hold_i,
    input  logic           unhold_valid_i,
    output logic           unhold_ready_o,
    input  hvia_params_pkg::vi_t unhold_vi_i,
    output logic           park_o,
    output hvia_params_pkg::vi_t park_vi_o,
    // The offers at the take port, 0 send, 1 receive.
    output logic [1:0]     offer_valid_o,
    output logic [2*hvia_params_pkg::VICountLog2-1:0] offer_vi_o,
    output logic [1:0]     offer_more_o,
    input  logic           take_gate_i,
    output logic           take_valid_o,
    output logic           take_shown_o,
    output logic           take_fire_o,
    output logic           take_receive_o,
    output hvia_params_pkg::vi_t take_vi_o,
    output logic [63:0]    take_va_o,
    output logic [31:0]    take_handle_o,
    output logic           take_more_o,
    output logic [15:0]    take_seq_o,
    output logic           send_space_o,
    input  logic           link_gate_i,
    output logic           link_valid_o,
    output logic           link_fire_o,
    output logic           link_bad_o,
    output logic           link_receive_o,
    output hvia_params_pkg::vi_t link_vi_o,
    output logic [63:0]    link_va_o,
    output logic [31:0]    link_handle_o,
    input  logic           release_gate_i,
    output logic           release_valid_o,
    output logic           release_fire_o,
    output hvia_params_pkg::vi_t release_vi_o,
    // Release by the receive engine.
    input  logic           rx_release_valid_i,
    output logic           rx_release_ready_o,
    input  hvia_params_pkg::vi_t rx_release_vi_i,
    // Clear.
    input  logic           clear_valid_i,
    output logic           clear_ready_o,
    input  hvia_params_pkg::vi_t clear_vi_i,
    // Further segments.
    input  logic           rxc_valid_i,
    output logic           rxc_ready_o,
    input  hvia_params_pkg::vi_t rxc_vi_i,
    input  logic [63:0]    rxc_va_i,
    input  logic [31:0]    rxc_handle_i,
    input  logic           rxc_store_i,
    output logic           rxc_done_o,
    output logic           rxc_err_o,
    input  logic           txc_valid_i,
    output logic           txc_ready_o,
    input  hvia_params_pkg::vi_t txc_vi_i,
    input  logic [63:0]    txc_va_i,
    input  logic [31:0]    txc_handle_i,
    output logic           txc_done_o,
    output logic           txc_err_o,
    output logic [511:0]   chunk_data_o,
    // VI context.
    output hvia_params_pkg::vi_t rd_vi_o,
    input  logic [127:0]   rd_ctx_i,
    // Translation.
    output logic           att_req_valid_o,
    input  logic           att_req_ready_i,
    output logic [31:0]    att_req_handle_o,
    output logic [63:0]    att_req_va_o,
    output logic [31:0]    att_req_len_o,
    output logic [15:0]    att_req_tag_o,
    output logic [1:0]     att_req_access_o,
    output hvia_params_pkg::vi_t att_req_vi_o,
    input  logic           att_rsp_valid_i,
    input  logic [2:0]     att_rsp_err_i,
    input  logic [31:0]    att_rsp_pa_i,
    // Host bus of the fetch.
    output logic           rd_req_valid_o,
    input  logic           rd_req_ready_i,
    output logic [31:0]    rd_req_addr_o,
    output logic [9:0]     rd_req_len_o,
    input  logic [W-1:0]   rdata_i,
    input  logic           rvalid_i,
    output logic           rready_o,
    input  logic           rlast_i,
    input  logic           rerr_i,
    // Transmit engine.
    output logic           desc_valid_o,
    input  logic           desc_ready_i,
    output hvia_params_pkg::vi_t desc_vi_o,
    output logic [15:0]    desc_seq_o,
    output logic [63:0]    desc_va_o,
    output logic [31:0]    desc_pa_o,
    output logic [31:0]    desc_handle_o,
    output logic [511:0]   desc_chunk_o,
    output logic [31:0]    desc_status_o,
    output logic           desc_unreachable_o,
    // Receive store: its writes, and the receive engine's side.
    output logic           wr_valid_o,
    output logic           wr_head_o,
    output hvia_params_pkg::vi_t wr_vi_o,
    input  hvia_params_pkg::vi_t rs_vi_i,
    output logic           rs_valid_o,
    output logic           rs_stale_o,
    output logic [511:0]   rs_chunk_o,
    output logic [63:0]    rs_va_o,
    output logic [31:0]    rs_pa_o,
    output logic [31:0]    rs_handle_o,
    output logic [15:0]    rs_seq_o,
    output logic [15:0]    rs_control_o,
    output logic [15:0]    rs_segments_o,
    output logic [31:0]    rs_length_o,
    output logic [31:0]    rs_status_o,
    input  logic           drop_valid_i,
    input  hvia_params_pkg::vi_t drop_vi_i,
    input  logic           stale_start_i,
    output logic           stale_busy_o,
    input  logic           on_arrival_i,
    input  hvia_params_pkg::vi_t coming_vi_i,
    input  logic           wanted_i,
    // A receive queue enters its ready list because it is wanted or flushed.
    output logic           wake_o,
    output hvia_params_pkg::vi_t wake_vi_o,
    output logic           queue_coming_o,
    output logic           fetch_coming_o,
    output logic           rd_req_patient_o,
    // Completion: 0 receive engine, 1 transmit engine. The fetch's completions pass a valve.
    input  logic [1:0]     cpl_valid_i,
    output logic [1:0]     cpl_ready_o,
    input  logic [2*hvia_params_pkg::VICountLog2-1:0] cpl_vi_i,
    input  logic [31:0]    cpl_seq_i,
    input  logic [63:0]    cpl_pa_i,
    input  logic [63:0]    cpl_handle_i,
    input  logic [63:0]    cpl_length_i,
    input  logic [63:0]    cpl_status_i,
    input  logic [63:0]    cpl_immediate_i,
    input  logic [1:0]     cpl_has_immediate_i,
    input  logic [1:0]     cpl_receive_i,
    input  logic [1:0]     cpl_write_i,
    input  logic           flushed_gate_i,
    output logic           flushed_valid_o,
    output logic           flushed_shown_o,
    output logic           flushed_fire_o,
    output hvia_params_pkg::vi_t flushed_vi_o,
    output logic [15:0]    flushed_seq_o,
    output logic [31:0]    flushed_pa_o,
    output logic [31:0]    flushed_handle_o,
    output logic [31:0]    flushed_status_o,
    output logic           wr_req_valid_o,
    input  logic           wr_req_ready_i,
    output logic [31:0]    wr_req_addr_o,
    output logic [9:0]     wr_req_len_o,
    output logic [W-1:0]   wdata_o,
    output logic [W/8-1:0] wstrb_o,
    output logic           wvalid_o,
    input  logic           wready_i,
    input  logic           wdone_i,
    input  logic           werr_i,
    // Draining: queue, fetch, store, completion.
    input  logic [31:0]    drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    input  logic           drain_receive_i,
    output logic           queue_vi_busy_o,
    output logic           fetch_vi_busy_o,
    output logic           fetch_handle_busy_o,
    output logic           store_vi_busy_o,
    output logic           completion_vi_busy_o,
    output logic           completion_handle_busy_o,
    // Reports: asynchronous errors of doorbell, fetch and completion, overrun of the queue.
    output logic           doorbell_async_valid_o,
    output logic [7:0]     doorbell_async_code_o,
    output logic [7:0]     doorbell_async_vi_o,
    output logic           fetch_async_valid_o,
    output logic [7:0]     fetch_async_code_o,
    output logic [7:0]     fetch_async_vi_o,
    output logic           completion_async_valid_o,
    output logic [7:0]     completion_async_code_o,
    output logic [7:0]     completion_async_vi_o,
    output logic           overrun_valid_o,
    output logic [7:0]     overrun_vi_o,
    output logic           stat_doorbell_send_o,
    output logic           stat_doorbell_receive_o,
    output logic           stat_doorbell_malformed_o,
    output logic           stat_doorbell_overrun_o,
    output logic           stat_descriptor_fetched_o,
    output logic           stat_descriptor_bad_o,
    output logic           stat_descriptor_segments_o,
    output logic           stat_completion_written_o,
    output logic           stat_completion_receive_o,
    output logic           stat_completion_error_o,
    output logic           stat_descriptor_flushed_o,
    output logic           stat_descriptor_error_o,
    // Trace lanes: 0 doorbell, 1 fetch, 2 completion.
    output logic [2:0]     trace_valid_o,
    output logic [23:0]    trace_event_o,
    output logic [23:0]    trace_vi_o,
    output logic [47:0]    trace_seq_o,
    // doorbell, work_queue, descriptor_fetch, completion, receive_store.
    output logic [4:0]     quiet_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;

  logic commit_ready, queue_commit_ready;
  logic take_ready, fetch_take_ready;
  logic link_ready, link_shown, queue_link_ready;
  logic release_ready, release_shown;
  logic flushed_ready;
  logic [1:0] queue_release_ready;
  logic [3:0] cpl_ready;

  assign commit_fire_o      = commit_valid_o && commit_ready;
  assign take_fire_o        = take_shown_o && fetch_take_ready;
  assign link_fire_o        = link_valid_o && link_ready;
  assign release_fire_o     = release_valid_o && release_ready;
  assign flushed_fire_o     = flushed_valid_o && flushed_ready;
  assign rx_release_ready_o = queue_release_ready[0];
  assign cpl_ready_o        = {cpl_ready[2], cpl_ready[0]};

  hvia_doorbell u_doorbell (
      .clk_i, .rst_ni, .enable_i, .live_i, .db_wvalid_i, .db_wready_o, .db_waddr_i, .db_wdata_i,
      .db_wbe_i, .forget_valid_i, .forget_vi_i, .db_valid_o(commit_valid_o),
      .db_ready_i(commit_ready), .db_receive_o(commit_receive_o), .db_vi_o(commit_vi_o),
      .db_va_o(commit_va_o), .db_handle_o(commit_handle_o), .async_valid_o(doorbell_async_valid_o),
      .async_code_o(doorbell_async_code_o), .async_vi_o(doorbell_async_vi_o), .stat_doorbell_send_o,
      .stat_doorbell_receive_o, .stat_doorbell_malformed_o, .trace_valid_o(trace_valid_o[0]),
      .trace_event_o(trace_event_o[7:0]), .trace_vi_o(trace_vi_o[7:0]),
      .trace_seq_o(trace_seq_o[15:0]), .quiet_o(quiet_o[0])
  );

  valve u_commit_valve (
      .clk_i,
      .rst_ni,
      .gate_i (commit_gate_i),
      .valid_i(commit_valid_o),
      .ready_o(commit_ready),
      .valid_o(commit_shown_o),
      .ready_i(queue_commit_ready)
  );

  hvia_work_queue #(.DepthLog2(hvia_params_pkg::QueueDepthLog2)) u_work_queue (
      .clk_i, .rst_ni, .on_arrival_i, .live_i, .db_valid_i(commit_shown_o),
      .db_ready_o(queue_commit_ready), .db_receive_i(commit_receive_o), .db_vi_i(commit_vi_o),
      .db_va_i(commit_va_o), .db_handle_i(commit_handle_o), .take_valid_o,
      .take_ready_i(take_ready), .take_receive_o, .take_vi_o, .take_va_o, .take_handle_o,
      .take_more_o, .take_seq_o, .send_hold_i, .unhold_valid_i, .unhold_ready_o, .unhold_vi_i,
      .send_space_i(send_space_o), .link_valid_i(link_shown), .link_ready_o(queue_link_ready),
      .link_bad_i(link_bad_o), .link_receive_i(link_receive_o), .link_vi_i(link_vi_o),
      .link_va_i(link_va_o), .link_handle_i(link_handle_o),
      .release_valid_i({release_shown, rx_release_valid_i}), .release_ready_o(queue_release_ready),
      .release_vi_i({release_vi_o, rx_release_vi_i}), .clear_valid_i, .clear_ready_o, .clear_vi_i,
      .coming_vi_i, .coming_o(queue_coming_o), .wanted_i, .drain_vi_i, .drain_receive_i,
      .vi_busy_o(queue_vi_busy_o), .overrun_valid_o, .overrun_vi_o, .stat_doorbell_overrun_o,
      .quiet_o(quiet_o[1])
  );

  assign wake_o        = u_work_queue.woken;
  assign wake_vi_o     = u_work_queue.op_vi;
  assign park_o        = u_work_queue.parks;
  assign park_vi_o     = u_work_queue.op_vi;
  assign offer_valid_o = u_work_queue.offer_valid_q;
  assign offer_vi_o    = {u_work_queue.offer_receive_vi, u_work_queue.offer_send_vi};
  assign offer_more_o  = {u_work_queue.offer_q[u_work_queue.OfferWidth + 16],
                          u_work_queue.offer_q[16]};

  valve u_take_valve (
      .clk_i,
      .rst_ni,
      .gate_i (take_gate_i),
      .valid_i(take_valid_o),
      .ready_o(take_ready),
      .valid_o(take_shown_o),
      .ready_i(fetch_take_ready)
  );

  valve u_link_valve (
      .clk_i,
      .rst_ni,
      .gate_i (link_gate_i),
      .valid_i(link_valid_o),
      .ready_o(link_ready),
      .valid_o(link_shown),
      .ready_i(queue_link_ready)
  );

  valve u_release_valve (
      .clk_i,
      .rst_ni,
      .gate_i (release_gate_i),
      .valid_i(release_valid_o),
      .ready_o(release_ready),
      .valid_o(release_shown),
      .ready_i(queue_release_ready[1])
  );

  logic [511:0] wr_chunk;
  logic [63:0]  wr_va;
  logic [31:0]  wr_pa, wr_handle, wr_status;
  logic [15:0]  wr_seq;

  hvia_descriptor_fetch #(.W(W)) u_descriptor_fetch (
      .clk_i, .rst_ni, .take_valid_i(take_shown_o), .take_ready_o(fetch_take_ready),
      .take_receive_i(take_receive_o), .take_vi_i(take_vi_o), .take_va_i(take_va_o),
      .take_handle_i(take_handle_o), .take_more_i(take_more_o), .take_seq_i(take_seq_o),
      .send_space_o, .link_valid_o, .link_ready_i(link_ready), .link_bad_o, .link_receive_o,
      .link_vi_o, .link_va_o, .link_handle_o, .release_valid_o, .release_ready_i(release_ready),
      .release_vi_o, .rxc_valid_i, .rxc_ready_o, .rxc_vi_i, .rxc_va_i, .rxc_handle_i, .rxc_store_i,
      .rxc_done_o, .rxc_err_o, .txc_valid_i, .txc_ready_o, .txc_vi_i, .txc_va_i, .txc_handle_i,
      .txc_done_o, .txc_err_o, .chunk_data_o, .rd_vi_o, .rd_ctx_i, .att_req_valid_o,
      .att_req_ready_i, .att_req_handle_o, .att_req_va_o, .att_req_len_o, .att_req_tag_o,
      .att_req_access_o, .att_req_vi_o, .att_rsp_valid_i, .att_rsp_err_i, .att_rsp_pa_i,
      .req_valid_o(rd_req_valid_o), .req_ready_i(rd_req_ready_i),
      .req_low_priority_o(rd_req_patient_o), .req_addr_o(rd_req_addr_o), .req_len_o(rd_req_len_o),
      .rdata_i, .rvalid_i, .rready_o, .rlast_i, .rerr_i, .desc_valid_o, .desc_ready_i, .desc_vi_o,
      .desc_seq_o, .desc_va_o, .desc_pa_o, .desc_handle_o, .desc_chunk_o, .desc_status_o,
      .desc_unreachable_o, .wr_valid_o, .wr_head_o, .wr_vi_o, .wr_chunk_o(wr_chunk),
      .wr_va_o(wr_va), .wr_pa_o(wr_pa), .wr_handle_o(wr_handle), .wr_seq_o(wr_seq),
      .wr_status_o(wr_status), .cpl_valid_o(flushed_valid_o), .cpl_ready_i(flushed_ready),
      .cpl_vi_o(flushed_vi_o), .cpl_seq_o(flushed_seq_o), .cpl_pa_o(flushed_pa_o),
      .cpl_handle_o(flushed_handle_o), .cpl_status_o(flushed_status_o), .coming_vi_i,
      .coming_o(fetch_coming_o), .wanted_i, .drain_handle_i, .drain_vi_i,
      .handle_busy_o(fetch_handle_busy_o), .vi_busy_o(fetch_vi_busy_o),
      .async_valid_o(fetch_async_valid_o), .async_code_o(fetch_async_code_o),
      .async_vi_o(fetch_async_vi_o), .stat_descriptor_fetched_o, .stat_descriptor_bad_o,
      .stat_descriptor_segments_o, .trace_valid_o(trace_valid_o[1]),
      .trace_event_o(trace_event_o[15:8]), .trace_vi_o(trace_vi_o[15:8]),
      .trace_seq_o(trace_seq_o[31:16]), .quiet_o(quiet_o[2])
  );

  hvia_receive_store u_receive_store (
      .clk_i, .rst_ni, .wr_valid_i(wr_valid_o), .wr_head_i(wr_head_o), .wr_vi_i(wr_vi_o),
      .wr_chunk_i(wr_chunk), .wr_va_i(wr_va), .wr_pa_i(wr_pa), .wr_handle_i(wr_handle),
      .wr_seq_i(wr_seq), .wr_status_i(wr_status), .rs_vi_i, .rs_valid_o, .rs_stale_o, .rs_chunk_o,
      .rs_va_o, .rs_pa_o, .rs_handle_o, .rs_seq_o, .rs_control_o, .rs_segments_o, .rs_length_o,
      .rs_status_o, .drop_valid_i, .drop_vi_i, .clear_valid_i(clear_valid_i && clear_ready_o),
      .clear_vi_i, .stale_start_i, .stale_busy_o, .drain_handle_i, .drain_vi_i, .drain_receive_i,
      .vi_busy_o(store_vi_busy_o), .quiet_o(quiet_o[4])
  );

  valve u_flushed_valve (
      .clk_i,
      .rst_ni,
      .gate_i (flushed_gate_i),
      .valid_i(flushed_valid_o),
      .ready_o(flushed_ready),
      .valid_o(flushed_shown_o),
      .ready_i(cpl_ready[1])
  );

  logic [32:0] unused;

  hvia_completion #(.W(W)) u_completion (
      .clk_i, .rst_ni, .cpl_valid_i({1'b0, cpl_valid_i[1], flushed_shown_o, cpl_valid_i[0]}),
      .cpl_ready_o(cpl_ready),
      // Here no queue belongs to a completion queue, and the ledger offers nothing.
      .cq_tie_valid_i(1'b0), .cq_tie_vi_i('0), .cq_tie_send_i(8'd0), .cq_tie_receive_i(8'd0),
      .cqc_valid_i(1'b0), .cqc_ready_o(unused[0]), .cqc_op_i(2'd0), .cqc_index_i(8'd0),
      .cqc_address_i(32'd0), .cqc_log2_i(8'd0), .cqc_ok_o(unused[1]), .cqc_tail_o(unused[17:2]),
      .cpl_vi_i({{VIW{1'b0}}, cpl_vi_i[VIW+:VIW], flushed_vi_o, cpl_vi_i[0+:VIW]}),
      .cpl_seq_i({16'd0, cpl_seq_i[31:16], flushed_seq_o, cpl_seq_i[15:0]}),
      .cpl_pa_i({32'd0, cpl_pa_i[63:32], flushed_pa_o, cpl_pa_i[31:0]}),
      .cpl_handle_i({32'd0, cpl_handle_i[63:32], flushed_handle_o, cpl_handle_i[31:0]}),
      .cpl_length_i({32'd0, cpl_length_i[63:32], 32'd0, cpl_length_i[31:0]}),
      .cpl_status_i({32'd0, cpl_status_i[63:32], flushed_status_o, cpl_status_i[31:0]}),
      .cpl_immediate_i({32'd0, cpl_immediate_i[63:32], 32'd0, cpl_immediate_i[31:0]}),
      .cpl_has_immediate_i({1'b0, cpl_has_immediate_i[1], 1'b0, cpl_has_immediate_i[0]}),
      .cpl_receive_i({1'b0, cpl_receive_i[1], 1'b1, cpl_receive_i[0]}),
      .cpl_write_i({1'b0, cpl_write_i[1], 1'b1, cpl_write_i[0]}), .req_valid_o(wr_req_valid_o),
      .req_ready_i(wr_req_ready_i), .req_write_o(unused[18]), .req_addr_o(wr_req_addr_o),
      .req_len_o(wr_req_len_o), .wdata_o, .wstrb_o, .wvalid_o, .wready_i, .wdone_i, .werr_i,
      .rdata_i('0), .rvalid_i(1'b0), .rready_o(unused[19]), .rlast_i(1'b0), .rerr_i(1'b0),
      .drain_handle_i, .drain_vi_i, .handle_busy_o(completion_handle_busy_o),
      .vi_busy_o(completion_vi_busy_o), .done_valid_o(unused[20]), .done_kind_o(unused[22:21]),
      .done_index_o(unused[30:23]), .async_valid_o(completion_async_valid_o), .async_ready_i(1'b1),
      .async_code_o(completion_async_code_o), .async_vi_o(completion_async_vi_o),
      .stat_completion_written_o, .stat_completion_receive_o, .stat_completion_error_o,
      .stat_descriptor_flushed_o, .stat_descriptor_error_o,
      .stat_completion_queue_entry_o(unused[31]), .stat_completion_queue_overrun_o(unused[32]),
      .trace_valid_o(trace_valid_o[2]), .trace_event_o(trace_event_o[23:16]),
      .trace_vi_o(trace_vi_o[23:16]), .trace_seq_o(trace_seq_o[47:32]), .quiet_o(quiet_o[3])
  );

endmodule
