// SPDX-License-Identifier: Apache-2.0

// Descriptor fetch: translates a virtual address and reads 64 bytes of a descriptor in one burst,
// for three kinds of work. Further segments for the receive engine have priority, then those for
// the transmit engine, then heads of queues. After a chunk for the transmit engine a waiting head
// precedes the next chunk, because a frame may wait for it.
//
// The queue gets the link of a head, and the head's format is checked. A send head goes to the
// transmit engine, or waits in a register for space there. A receive head goes to the receive
// store; in state Error it is completed as flushed instead.
//
// A send descriptor whose VI is not connected is fetched too, to flush it in order. An unreachable
// head has no status word to write: it is counted, and the rest of its queue is dropped, because
// its link is unknown. A receive head is reported here as an asynchronous error. A send head goes
// to the transmit engine as a marker, because earlier descriptors are still in flight there and
// must finish first.
module hvia_descriptor_fetch #(
    parameter int unsigned W = 32
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    // Queues.
    input  logic         take_valid_i,
    output logic         take_ready_o,
    input  logic         take_receive_i,
    input  hvia_params_pkg::vi_t take_vi_i,
    input  logic [63:0]  take_va_i,
    input  logic [31:0]  take_handle_i,
    input  logic         take_more_i,
    input  logic [15:0]  take_seq_i,
    output logic         send_space_o,
    output logic         link_valid_o,
    input  logic         link_ready_i,
    output logic         link_bad_o,
    output logic         link_receive_o,
    output hvia_params_pkg::vi_t link_vi_o,
    output logic [63:0]  link_va_o,
    output logic [31:0]  link_handle_o,
    output logic         release_valid_o,
    input  logic         release_ready_i,
    output hvia_params_pkg::vi_t release_vi_o,
    // Further segments: for the receive engine, for the transmit engine. Those of a receive
    // descriptor are also written to the store.
    input  logic         rxc_valid_i,
    output logic         rxc_ready_o,
    input  hvia_params_pkg::vi_t rxc_vi_i,
    input  logic [63:0]  rxc_va_i,
    input  logic [31:0]  rxc_handle_i,
    input  logic         rxc_store_i,
    output logic         rxc_done_o,
    output logic         rxc_err_o,
    input  logic         txc_valid_i,
    output logic         txc_ready_o,
    input  hvia_params_pkg::vi_t txc_vi_i,
    input  logic [63:0]  txc_va_i,
    input  logic [31:0]  txc_handle_i,
    output logic         txc_done_o,
    output logic         txc_err_o,
    output logic [511:0] chunk_data_o,
    // VI context.
    output hvia_params_pkg::vi_t rd_vi_o,
    input  logic [127:0] rd_ctx_i,
    // Translation.
    output logic         att_req_valid_o,
    input  logic         att_req_ready_i,
    output logic [31:0]  att_req_handle_o,
    output logic [63:0]  att_req_va_o,
    output logic [31:0]  att_req_len_o,
    output logic [15:0]  att_req_tag_o,
    output logic [1:0]   att_req_access_o,
    output hvia_params_pkg::vi_t att_req_vi_o,
    input  logic         att_rsp_valid_i,
    input  logic [2:0]   att_rsp_err_i,
    input  logic [31:0]  att_rsp_pa_i,
    // Host bus, reads only.
    output logic         req_valid_o,
    input  logic         req_ready_i,
    output logic         req_low_priority_o,
    output logic [31:0]  req_addr_o,
    output logic [9:0]   req_len_o,
    input  logic [W-1:0] rdata_i,
    input  logic         rvalid_i,
    output logic         rready_o,
    input  logic         rlast_i,
    input  logic         rerr_i,
    // Transmit engine.
    output logic         desc_valid_o,
    input  logic         desc_ready_i,
    output hvia_params_pkg::vi_t desc_vi_o,
    output logic [15:0]  desc_seq_o,
    output logic [63:0]  desc_va_o,
    output logic [31:0]  desc_pa_o,
    output logic [31:0]  desc_handle_o,
    output logic [511:0] desc_chunk_o,
    output logic [31:0]  desc_status_o,
    output logic         desc_unreachable_o,
    // Receive store.
    output logic         wr_valid_o,
    output logic         wr_head_o,
    output hvia_params_pkg::vi_t wr_vi_o,
    output logic [511:0] wr_chunk_o,
    output logic [63:0]  wr_va_o,
    output logic [31:0]  wr_pa_o,
    output logic [31:0]  wr_handle_o,
    output logic [15:0]  wr_seq_o,
    output logic [31:0]  wr_status_o,
    // Flushed receive descriptors: nothing was received, so Length is 0.
    output logic         cpl_valid_o,
    input  logic         cpl_ready_i,
    output hvia_params_pkg::vi_t cpl_vi_o,
    output logic [15:0]  cpl_seq_o,
    output logic [31:0]  cpl_pa_o,
    output logic [31:0]  cpl_handle_o,
    output logic [31:0]  cpl_status_o,
    // A receive descriptor of this VI is in flight to the store.
    input  hvia_params_pkg::vi_t coming_vi_i,
    output logic         coming_o,
    // The receive engine waits for a descriptor.
    input  logic         wanted_i,
    // Draining.
    input  logic [31:0]  drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    output logic         handle_busy_o,
    output logic         vi_busy_o,
    // Asynchronous error.
    output logic         async_valid_o,
    output logic [7:0]   async_code_o,
    output logic [7:0]   async_vi_o,
    output logic         stat_descriptor_fetched_o,
    output logic         stat_descriptor_bad_o,
    output logic         stat_descriptor_segments_o,
    output logic         trace_valid_o,
    output logic [7:0]   trace_event_o,
    output logic [7:0]   trace_vi_o,
    output logic [15:0]  trace_seq_o,
    output logic         quiet_o
);

  localparam int unsigned Bytes   = hvia_pkg::DescriptorFetchBytes;
  localparam int unsigned First   = hvia_pkg::DescriptorSize;
  localparam int unsigned Second  = hvia_pkg::DescriptorSize + hvia_pkg::DataSegmentSize;
  // Segments inside the chunk of the control segment.
  localparam int unsigned Here    = (Bytes - hvia_pkg::DescriptorSize) / hvia_pkg::DataSegmentSize;

  localparam logic [63:0] AlignMask = 64'(hvia_pkg::DescriptorAlignment) - 64'd1;

  typedef enum logic [3:0] {
    Idle, Context, Translate, Walk, Request, Read, Check, Flush, Bad
  } state_e;
  state_e state_q, state_d;

  typedef enum logic [1:0] {Send, Receive, ReceiveChunk, TransmitChunk} work_e;
  work_e work_q, work_d;

  hvia_params_pkg::vi_t vi_q, vi_d;
  logic [63:0] va_q;
  logic [31:0] handle_q, pa_q;
  logic        more_q, rxc_store_q;
  logic [15:0] seq_q;
  logic [2:0]  vi_state_q, vi_state_now, vi_reliability_q;
  logic [15:0] tag_q;
  // The bytes read, byte 0 in the lowest bits.
  logic [Bytes*8-1:0] words_q;

  logic busy, is_head;
  assign busy    = state_q != Idle;
  assign is_head = work_q == Send || work_q == Receive;

  // The report to the queue may still wait when the unit is free again. It belongs to the last
  // head, so the next head waits for it.
  logic       link_q, link_bad_q, release_q, back_receive_q;
  hvia_params_pkg::vi_t back_vi_q;
  logic [63:0] link_va_q;
  logic [31:0] link_handle_q;

  // No head was taken since the last chunk for the transmit engine.
  logic head_turn_q;
  logic head_can, take, take_rxc, take_txc, start;

  assign head_can = take_valid_i && !link_q && !release_q;
  assign take_rxc = !busy && rxc_valid_i;
  assign take_txc = !busy && !rxc_valid_i && txc_valid_i && !(head_turn_q && head_can);
  assign take     = !busy && head_can && !take_rxc && !take_txc;
  assign start    = take_rxc || take_txc || take;

  assign rxc_ready_o  = take_rxc;
  assign txc_ready_o  = take_txc;
  assign take_ready_o = take;

  always_comb begin
    if (take_rxc) begin
      work_d = ReceiveChunk;
      vi_d   = rxc_vi_i;
    end else if (take_txc) begin
      work_d = TransmitChunk;
      vi_d   = txc_vi_i;
    end else begin
      work_d = take_receive_i ? Receive : Send;
      vi_d   = take_vi_i;
    end
  end

  // While the unit works on a VI, that VI's context is read in every clock.
  assign rd_vi_o      = busy ? vi_q : vi_d;
  assign vi_state_now = rd_ctx_i[hvia_pkg::VIContextAttributesStateLsb +: 3];

  logic unused_ctx;
  assign unused_ctx = ^{rd_ctx_i[127:32], rd_ctx_i[15:8], rd_ctx_i[4:3]};

  logic last_beat;
  assign last_beat = rvalid_i && rlast_i;

  // A VI that was reset while a doorbell was in flight: its memory may be gone. Or a link to an
  // address illegal for a descriptor: 64 bytes from there may reach into a page that was not
  // translated.
  logic is_free, unreachable;
  assign is_free     = vi_state_q == hvia_pkg::VIStateFree;
  assign unreachable = is_free || (va_q & AlignMask) != 64'd0;

  // The engine takes a descriptor out of the waiting register in the clock of `handed`.
  logic wait_valid_q, handed;
  assign handed = desc_valid_o && desc_ready_i;

  // A receive descriptor was read. The trace takes one event per clock, so the store waits while
  // the waiting register is emptied. If the VI was reset meanwhile, its slot must stay empty.
  logic received, gone, flush, store;
  assign received = state_q == Check && work_q == Receive;
  assign gone     = received && vi_state_now == hvia_pkg::VIStateFree;
  assign flush    = received && vi_state_now == hvia_pkg::VIStateError;
  assign store    = received && !gone && !flush && !(wait_valid_q && desc_ready_i);

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle:      if (start) state_d = Context;
      // The context RAM returns one clock after the index.
      Context:   state_d = Translate;
      Translate: begin
        if (unreachable) state_d = Bad;
        else if (att_req_ready_i) state_d = Walk;
      end
      Walk:      if (att_rsp_valid_i) state_d = att_rsp_err_i == hvia_pkg::AttErrorNone ? Request :
          Bad;
      Request:   if (req_ready_i) state_d = Read;
      Read:      if (last_beat) state_d = rerr_i ? Bad : Check;
      Check: begin
        if (flush) state_d = Flush;
        else if (!received || gone || store) state_d = Idle;
      end
      Flush:     if (cpl_ready_i) state_d = Idle;
      default:   state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q     <= Idle;
      head_turn_q <= 1'b0;
    end else begin
      state_q <= state_d;
      if (take || take_txc) head_turn_q <= take_txc;
    end
  end

  always_ff @(posedge clk_i) begin
    if (start) begin
      work_q   <= work_d;
      vi_q     <= vi_d;
      va_q     <= take_rxc ? rxc_va_i : take_txc ? txc_va_i : take_va_i;
      handle_q <= take_rxc ? rxc_handle_i : take_txc ? txc_handle_i : take_handle_i;
    end
    if (take_rxc) rxc_store_q <= rxc_store_i;
    if (take) begin
      more_q <= take_more_i;
      seq_q  <= take_seq_i;
    end
    if (state_q == Context) begin
      vi_state_q       <= vi_state_now;
      vi_reliability_q <= rd_ctx_i[hvia_pkg::VIContextAttributesReliabilityLsb +: 3];
      tag_q            <= rd_ctx_i[hvia_pkg::VIContextAttributesTagLsb +: 16];
    end
    if (state_q == Walk && att_rsp_valid_i) pa_q <= att_rsp_pa_i;
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Read && rvalid_i) words_q <= {rdata_i, words_q[Bytes*8-1:W]};
  end

  // The link is reported as soon as the descriptor is here.
  logic bad, fetched, link_due, release_due;
  assign bad         = state_q == Bad && is_head;
  assign fetched     = state_q == Read && state_d == Check && is_head;
  assign link_due    = more_q && (bad || fetched);
  assign release_due = work_q == Receive && (bad || gone || (state_q == Flush && cpl_ready_i));

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      link_q     <= 1'b0;
      link_bad_q <= 1'b0;
      release_q  <= 1'b0;
    end else begin
      if (link_ready_i) link_q <= 1'b0;
      if (release_ready_i) release_q <= 1'b0;
      if (link_due) begin
        link_q     <= 1'b1;
        link_bad_q <= bad;
      end
      if (release_due) release_q <= 1'b1;
    end
  end

  // The last beat is not in the descriptor's register yet.
  always_ff @(posedge clk_i) begin
    if (link_due || release_due) begin
      back_vi_q      <= vi_q;
      back_receive_q <= work_q == Receive;
    end
    if (link_due) begin
      link_va_q     <= words_q[W + hvia_pkg::DescriptorNextOffset*8 +: 64];
      link_handle_q <= words_q[W + hvia_pkg::DescriptorNextHandleOffset*8 +: 32];
    end
  end

  assign link_valid_o    = link_q;
  assign link_bad_o      = link_bad_q;
  assign link_receive_o  = back_receive_q;
  assign link_vi_o       = back_vi_q;
  assign link_va_o       = link_va_q;
  assign link_handle_o   = link_handle_q;
  assign release_valid_o = release_q;
  assign release_vi_o    = back_vi_q;

  assign att_req_valid_o  = state_q == Translate && !unreachable;
  assign att_req_handle_o = handle_q;
  assign att_req_va_o     = va_q;
  assign att_req_len_o    = Bytes;
  assign att_req_tag_o    = tag_q;
  assign att_req_access_o = hvia_pkg::AttAccessLocal;
  assign att_req_vi_o     = vi_q;

  // A receive descriptor is usually fetched long before its message. It yields to payload on the
  // bus, unless the receive engine or other work for this unit waits for it.
  assign req_valid_o        = state_q == Request;
  assign req_low_priority_o = work_q == Receive && !wanted_i && !take_valid_i && !rxc_valid_i &&
      !txc_valid_i;
  assign req_addr_o  = pa_q;
  assign req_len_o   = Bytes[9:0];
  assign rready_o    = state_q == Read;

  // Chunks.
  logic chunk_end;
  assign chunk_end    = state_q == Check || state_q == Bad;
  assign rxc_done_o   = chunk_end && work_q == ReceiveChunk;
  assign txc_done_o   = chunk_end && work_q == TransmitChunk;
  assign rxc_err_o    = state_q == Bad;
  assign txc_err_o    = state_q == Bad;
  assign chunk_data_o = words_q;

  // Format.
  logic [15:0] control, segments;
  logic        unused_control;
  logic [31:0] length, first_len, second_len;
  logic [32:0] here_len;
  logic [1:0]  operation;
  logic        reliable, immediate, send, rdma, rdma_read, wrong_operation, format_error,
      length_error, flushed;

  assign control    = words_q[hvia_pkg::DescriptorControlOffset*8 +: 16];
  // For the ledger.
  assign unused_control = control[hvia_pkg::DescriptorControlQueueFenceBit];
  assign immediate  = control[hvia_pkg::DescriptorControlImmediateBit];
  assign segments   = words_q[hvia_pkg::DescriptorSegmentCountOffset*8 +: 16];
  assign length     = words_q[hvia_pkg::DescriptorLengthOffset*8 +: 32];
  assign first_len  = words_q[(First + hvia_pkg::DataSegmentLengthOffset)*8 +: 32];
  assign second_len = words_q[(Second + hvia_pkg::DataSegmentLengthOffset)*8 +: 32];
  assign operation  = control[hvia_pkg::DescriptorControlOperationLsb +: 2];
  assign send       = operation == hvia_pkg::DescriptorOperationSend;
  assign rdma_read  = operation == hvia_pkg::DescriptorOperationRDMARead;
  assign rdma       = rdma_read || operation == hvia_pkg::DescriptorOperationRDMAWrite;
  assign reliable   = vi_reliability_q == hvia_pkg::ReliabilityDelivery ||
                      vi_reliability_q == hvia_pkg::ReliabilityReception;

  // An RDMA read requires a reliable level and cannot carry immediate data.
  assign wrong_operation = work_q == Receive ? !send : !send &&
      (!rdma || (rdma_read && (!reliable || immediate)));
  // An RDMA operation has an address segment in addition.
  assign format_error = wrong_operation ||
      (rdma && segments == 16'd0) ||
      32'(segments) > hvia_pkg::MaxDataSegments + (rdma ? 32'd1 : 32'd0) ||
      control[hvia_pkg::DescriptorControlReservedLsb +:
              hvia_pkg::DescriptorControlReservedWidth] != 0 ||
      words_q[hvia_pkg::DescriptorReservedOffset*8 +: 32] != 0 ||
      (rdma && words_q[(First + hvia_pkg::AddressSegmentReservedOffset)*8 +: 32] != 0);
  assign here_len     = ((segments != 16'd0 && send) ? {1'b0, first_len} : 33'd0) +
                        (segments == 16'd2 ? {1'b0, second_len} : 33'd0);
  assign length_error = !format_error && 32'(segments) <= Here && {1'b0, length} != here_len;
  assign flushed      = vi_state_q != hvia_pkg::VIStateConnected;

  // To the transmit engine, in the clock of the check or from the waiting register.
  hvia_params_pkg::vi_t wait_vi_q;
  logic [15:0]        wait_seq_q;
  logic [63:0]        wait_va_q;
  logic [31:0]        wait_pa_q, wait_handle_q, wait_status_q, send_status;
  logic [Bytes*8-1:0] wait_chunk_q;
  logic               checked, missed, wait_missed_q;
  assign missed  = state_q == Bad && work_q == Send && !is_free;
  assign checked = (state_q == Check && work_q == Send) || missed;

  always_comb begin
    send_status = 32'd0;
    // A flushed descriptor was never checked, and an unreachable one cannot be.
    send_status[hvia_pkg::DescriptorStatusFlushedBit]     = !missed && flushed;
    send_status[hvia_pkg::DescriptorStatusFormatErrorBit] = !missed && !flushed && format_error;
    send_status[hvia_pkg::DescriptorStatusLengthErrorBit] = !missed && !flushed && length_error;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) wait_valid_q <= 1'b0;
    else if (desc_ready_i) wait_valid_q <= 1'b0;
    else if (checked) wait_valid_q <= 1'b1;
  end

  always_ff @(posedge clk_i) begin
    if (checked) begin
      wait_vi_q     <= vi_q;
      wait_seq_q    <= seq_q;
      wait_va_q     <= va_q;
      wait_pa_q     <= pa_q;
      wait_handle_q <= handle_q;
      wait_status_q <= send_status;
      wait_missed_q <= missed;
      wait_chunk_q  <= words_q;
    end
  end

  assign desc_valid_o  = wait_valid_q || checked;
  assign desc_vi_o     = wait_valid_q ? wait_vi_q : vi_q;
  assign desc_seq_o    = wait_valid_q ? wait_seq_q : seq_q;
  assign desc_va_o     = wait_valid_q ? wait_va_q : va_q;
  assign desc_pa_o     = wait_valid_q ? wait_pa_q : pa_q;
  assign desc_handle_o = wait_valid_q ? wait_handle_q : handle_q;
  assign desc_chunk_o  = wait_valid_q ? wait_chunk_q : words_q;
  assign desc_status_o = wait_valid_q ? wait_status_q : send_status;
  assign desc_unreachable_o = wait_valid_q ? wait_missed_q : missed;

  // One send descriptor at a time is in the unit or in the waiting register.
  assign send_space_o = !wait_valid_q && !(busy && work_q == Send);

  // To the store.
  always_comb begin
    wr_status_o = 32'd0;
    wr_status_o[hvia_pkg::DescriptorStatusFormatErrorBit] = format_error;
  end
  assign wr_head_o   = work_q == Receive;
  assign wr_valid_o  = store || (state_q == Check && work_q == ReceiveChunk && rxc_store_q);
  assign wr_vi_o     = vi_q;
  assign wr_chunk_o  = words_q;
  assign wr_va_o     = va_q;
  assign wr_pa_o     = pa_q;
  assign wr_handle_o = handle_q;
  assign wr_seq_o    = seq_q;

  always_comb begin
    cpl_status_o = 32'd0;
    cpl_status_o[hvia_pkg::DescriptorStatusDoneBit]    = 1'b1;
    cpl_status_o[hvia_pkg::DescriptorStatusFlushedBit] = 1'b1;
    cpl_status_o[hvia_pkg::DescriptorStatusOperationLsb +:
        hvia_pkg::DescriptorStatusOperationWidth] =
        hvia_pkg::StatusOperationReceive;
  end
  assign cpl_valid_o  = state_q == Flush;
  assign cpl_vi_o     = vi_q;
  assign cpl_seq_o    = seq_q;
  assign cpl_pa_o     = pa_q;
  assign cpl_handle_o = handle_q;

  assign coming_o = busy && work_q == Receive && vi_q == coming_vi_i;

  // Only work that was or may have been translated counts: the ATT rejects later work, and a
  // process that rings with a withdrawn handle forever must not delay its deregistration.
  logic translated;
  assign translated    = state_q == Walk || state_q == Request || state_q == Read ||
                         state_q == Check || state_q == Flush;
  assign handle_busy_o = (translated && handle_q == drain_handle_i) ||
                         (wait_valid_q && !wait_missed_q && wait_handle_q == drain_handle_i);
  // All work here ends by itself, also a receive descriptor.
  assign vi_busy_o     = (busy && vi_q == drain_vi_i) ||
                         ((link_q || release_q) && back_vi_q == drain_vi_i) ||
                         (wait_valid_q && wait_vi_q == drain_vi_i);

  assign async_valid_o = bad && work_q == Receive && !is_free;
  assign async_code_o  = hvia_pkg::AsyncErrorPostDescriptor;
  assign async_vi_o    = 8'(vi_q);

  assign stat_descriptor_fetched_o  = fetched;
  assign stat_descriptor_bad_o      = bad;
  assign stat_descriptor_segments_o = state_q == Read && state_d == Check && !is_head;

  // One event per clock: the unit has no send descriptor while one waits.
  always_comb begin
    trace_valid_o = 1'b1;
    trace_event_o = hvia_pkg::TraceEventDescriptorStart;
    trace_vi_o    = 8'(vi_q);
    trace_seq_o   = seq_q;
    if (handed && !desc_unreachable_o) begin
      trace_event_o = hvia_pkg::TraceEventDescriptorParsed;
      trace_vi_o    = 8'(desc_vi_o);
      trace_seq_o   = desc_seq_o;
    end else if (take && !take_receive_i) begin
      trace_vi_o  = 8'(take_vi_i);
      trace_seq_o = take_seq_i;
    end else if (state_q == Walk && att_rsp_valid_i && work_q == Send) begin
      trace_event_o = hvia_pkg::TraceEventDescriptorTranslated;
    end else if (state_q == Read && last_beat && work_q == Send) begin
      trace_event_o = hvia_pkg::TraceEventDescriptorFetched;
    end else if (store) begin
      trace_event_o = hvia_pkg::TraceEventReceiveDescriptorStored;
    end else begin
      trace_valid_o = 1'b0;
    end
  end

  assign quiet_o = !busy && !take_valid_i && !rxc_valid_i && !txc_valid_i && !link_q &&
      !release_q &&
                   !wait_valid_q;

endmodule
