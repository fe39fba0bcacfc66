// SPDX-License-Identifier: Apache-2.0

// Transmit engine. Gets descriptors from descriptor_fetch, jobs from send_ledger and raw frames
// from raw_port, in turn when several wait, and builds frames in the packet buffer. A Send, an RDMA
// write or a read response is cut into frames of at most `MaxPayload` bytes, each with a header
// (address or offset, sequence number, First and Last). The header goes first, while the DMA for
// the payload is in flight. One frame at a time, one message after the other, so completions keep
// the order of the descriptors.
//
// Gather: the payload is the bytes of the data segments in order. The first chunk of the descriptor
// comes with it; the next chunk is requested as soon as the last segment of the present one is in
// use, so its read overlaps that of the payload. Each run of bytes that a segment gives to a frame
// is one job of dma_read; the packer joins them. Segments of 0 bytes are skipped without a
// translation.
//
// The first translation of a segment checks all of its bytes, so a message of one segment fails as
// a whole before its first frame leaves. A later failure (a segment, a chunk, the bus, segments
// whose sum is not Length) drops the frame under construction, and the message stays unfinished at
// the receiver. A failed prefetch counts only when the data is needed. The last frame requires all
// segments: its last beat is held until no byte is left in them. It is held behind the packer, not
// in the DMA: the chunk that it waits for comes over the same bus.
//
// The VI's state is checked before every frame, so a disconnect waits for at most one frame.
//
// An unreachable descriptor comes as a marker, in its turn: it has no status, so it is reported as
// an asynchronous error, and breaks the VI's send queue. Later descriptors of that queue are
// flushed until the VI is reconnected; the host takes down the rest of the VI.
//
// The ledger owns messages of reliable VIs: their numbers, retransmissions and completions. The
// engine reports each descriptor before any frame of it (Open), each frame (Sent) and failures
// (Fail); when the ledger does not reply go, the engine drops the rest of the message. The ledger
// returns later work as a job: a request, whose descriptor is read anew, or the response to an RDMA
// read, which is one segment of memory. Bytes sent before are skipped unread, and the engine asks
// the ledger before the first frame (Ask). A read request is one frame without payload; its
// segments are for the response.
//
// Acknowledgements go out between messages and between the frames of one, also while the engine
// waits for a chunk; one at a time, so neither they nor the frames wait for more than one of the
// other.
module hvia_tx_engine #(
    parameter int unsigned W = 32,             // host bus and packet buffer
    parameter int unsigned MaxOutstanding = 1  // of dma_read
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [47:0]  mac_i,  // wire byte 0 in bits 7:0
    input  logic         no_overlap_i,  // strap NoAttOverlap
    input  logic         short_bursts_i,  // strap ShortBursts

    // Descriptors.
    input  logic         desc_valid_i,
    output logic         desc_ready_o,
    input  hvia_params_pkg::vi_t desc_vi_i,
    input  logic [15:0]  desc_seq_i,
    input  logic [63:0]  desc_va_i,
    input  logic [31:0]  desc_pa_i,
    input  logic [31:0]  desc_handle_i,
    input  logic [511:0] desc_chunk_i,
    input  logic [31:0]  desc_status_i,
    input  logic         desc_unreachable_i,  // only VI and handle are valid

    // Chunks of a descriptor: those after the first one, and the first one of a job's.
    output logic         txc_valid_o,
    input  logic         txc_ready_i,
    output hvia_params_pkg::vi_t txc_vi_o,
    output logic [63:0]  txc_va_o,
    output logic [31:0]  txc_handle_o,
    input  logic         txc_done_i,
    input  logic         txc_err_i,
    input  logic [511:0] chunk_data_i,

    // Raw frames, sent as they are.
    input  logic         rawtx_valid_i,
    output logic         rawtx_ready_o,
    input  logic [31:0]  rawtx_pa_i,
    input  logic [10:0]  rawtx_len_i,
    output logic         rawtx_done_o,
    output logic         rawtx_err_o,

    // The ledger, which owns the messages of reliable VIs.
    output logic         led_valid_o,
    input  logic         led_ready_i,
    output logic [1:0]   led_op_o,
    output hvia_params_pkg::vi_t led_vi_o,
    output logic [4:0]   led_slot_o,
    output logic [31:0]  led_number_o,
    output logic         led_last_o,
    output logic [8:0]   led_status_o,
    output logic [63:0]  led_va_o,
    output logic [31:0]  led_pa_o,
    output logic [31:0]  led_handle_o,
    output logic [15:0]  led_seq_o,
    output logic [31:0]  led_length_o,
    output logic [1:0]   led_operation_o,
    output logic         led_fence_o,
    input  logic         led_go_i,
    input  logic [31:0]  led_number_i,
    input  logic [4:0]   led_slot_i,

    // Jobs of the ledger; an offer may be withdrawn.
    input  logic         job_valid_i,
    output logic         job_ready_o,
    input  hvia_params_pkg::vi_t job_vi_i,
    input  logic [4:0]   job_slot_i,
    input  logic         job_response_i,
    input  logic [31:0]  job_first_i,
    input  logic [31:0]  job_number_i,
    input  logic [63:0]  job_va_i,
    input  logic [31:0]  job_pa_i,
    input  logic [31:0]  job_handle_i,
    input  logic [15:0]  job_seq_i,
    input  logic [31:0]  job_length_i,
    input  logic [1:0]   job_operation_i,

    // Acknowledgements.
    input  logic         ack_valid_i,
    output logic         ack_ready_o,
    input  hvia_params_pkg::vi_t ack_vi_i,
    input  logic [31:0]  ack_number_i,
    input  logic [2:0]   ack_code_i,

    // VI context.
    output hvia_params_pkg::vi_t rd_vi_o,
    input  logic [127:0] rd_ctx_i,

    // Completions.
    output logic         cpl_valid_o,
    input  logic         cpl_ready_i,
    output hvia_params_pkg::vi_t cpl_vi_o,
    output logic [15:0]  cpl_seq_o,
    output logic [31:0]  cpl_pa_o,
    output logic [31:0]  cpl_handle_o,
    output logic [31:0]  cpl_length_o,
    output logic [31:0]  cpl_status_o,
    output logic         cpl_write_o,

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
    input  logic [12:0]  att_rsp_bytes_i,

    // Host bus, reads only.
    output logic         req_valid_o,
    input  logic         req_ready_i,
    output logic [31:0]  req_addr_o,
    output logic [9:0]   req_len_o,
    input  logic [W-1:0] rdata_i,
    input  logic         rvalid_i,
    output logic         rready_o,
    input  logic         rlast_i,
    input  logic         rerr_i,
    output logic         req_more_o,

    // Packet buffer.
    input  logic         tx_slot_ready_i,
    output logic         tx_wvalid_o,
    input  logic         tx_wready_i,
    output logic [W-1:0] tx_wdata_o,
    output logic [$clog2(W/8):0] tx_wbytes_o,
    output logic         tx_wlast_o,
    output logic         tx_wabort_o,
    output logic [7:0]   tx_wvi_o,
    output logic [15:0]  tx_wseq_o,
    output logic [10:0]  tx_wlen_o,  // bytes of the whole frame, with each of its beats

    // Sequence numbers, set when a VI is connected.
    input  logic         seq_init_valid_i,
    output logic         seq_init_ready_o,
    input  hvia_params_pkg::vi_t seq_init_vi_i,
    input  logic [31:0]  seq_init_value_i,

    // Draining.
    input  logic [31:0]  drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    output logic         handle_busy_o,
    output logic         vi_busy_o,

    // Asynchronous error.
    output logic         async_valid_o,
    input  logic         async_ready_i,
    output logic [7:0]   async_code_o,
    output logic [7:0]   async_vi_o,

    output logic         stat_transmit_message_o,
    output logic         stat_transmit_frame_o,
    output logic         stat_transmit_aborted_o,
    output logic         stat_transmit_acknowledge_o,
    output logic         trace_valid_o,
    output logic [7:0]   trace_event_o,
    output logic [7:0]   trace_vi_o,
    output logic [15:0]  trace_seq_o,
    output logic         quiet_o
);

  localparam int unsigned EthBytes    = hvia_pkg::EthernetHeaderSize;
  localparam int unsigned HeaderBytes = hvia_pkg::EthernetHeaderSize + hvia_pkg::ViaHeaderSize;
  localparam int unsigned Lanes       = W / 8;
  localparam int unsigned LaneW       = $clog2(Lanes);
  localparam int unsigned HeaderWords = (HeaderBytes + Lanes - 1) / Lanes;
  localparam int unsigned HeaderTail  = HeaderBytes - Lanes * (HeaderWords - 1);
  localparam int unsigned HeaderBits  = HeaderWords * W;
  localparam int unsigned ChunkBytes  = hvia_pkg::DescriptorFetchBytes;
  localparam int unsigned SegBits     = 8 * hvia_pkg::DataSegmentSize;
  localparam int unsigned ChunkSegs   = ChunkBytes / hvia_pkg::DataSegmentSize;
  // The two segments of the first chunk.
  localparam int unsigned SegmentA    = 8 * hvia_pkg::DescriptorSize;
  localparam int unsigned SegmentB    = SegmentA + SegBits;
  localparam logic [31:0] MaxPayload  = {16'd0, hvia_pkg::MaxPayload};
  // The bits of a descriptor that must not be executed.
  localparam logic [31:0] ErrorMask = hvia_pkg::DescriptorErrorMask;

  // Check, Frame, Finish: a message, before each frame, in a frame, at its end. Report: a report or
  // question to the ledger. Head, Skip: the first chunk of a job's descriptor is read, sent bytes
  // are skipped.
  typedef enum logic [3:0] {
    Idle, Check, Frame, Finish, Report, Head, Skip, RawCheck, RawFrame, AckCheck, AckFrame
  } state_e;
  state_e state_q, state_d;
  state_e back_q;  // state to resume after an acknowledgement

  localparam logic [1:0] LedOpen = 2'd0, LedSent = 2'd1, LedAsk = 2'd2, LedFail = 2'd3;
  logic [1:0] led_op_q;

  // The message. `remote_q` is the header's address: of an RDMA write the target of this frame's
  // payload, of a Send the message's length and the payload's offset in it, which advances alike.
  hvia_params_pkg::vi_t vi_q;
  logic [15:0] seq_q;
  logic [1:0]  operation_q;
  logic        immediate_flag_q, fence_q, malformed_q, unreachable_q;
  logic        owned_q;         // the ledger owns it
  logic        response_q;      // response to a read of the peer
  logic [4:0]  slot_q;
  logic [31:0] pa_q, handle_q, immediate_q, remote_handle_q;
  logic [31:0] total_q, left_q, status_q, sequence_q;
  logic [63:0] remote_q;
  logic        first_q;
  logic [31:0] skip_q;        // bytes still to skip
  // The present segment, from its first byte not yet requested.
  logic [63:0] seg_va_q;
  logic [31:0] seg_handle_q, seg_left_q;
  logic [7:0]  segs_q;        // segments after it
  // The next `places_q` segments have been fetched; they start at bit 0 of `chunk_q`.
  logic [8*ChunkBytes-1:0] chunk_q;
  logic [2:0]  places_q;
  logic [63:0] chunk_va_q;    // last chunk fetched or requested
  logic        ask_q, wait_q, chunk_err_q;
  logic        head_q;        // waits for the first chunk
  // The frame.
  logic [HeaderBits-1:0] header_q;
  logic [3:0]  word_q;        // header words in the packer
  logic [31:0] payload_q;
  logic [15:0] need_q;        // payload bytes without a job
  logic        last_q, built_q;
  // The running job, and the last beat of a frame that may not be committed yet.
  logic        open_q, lead_q, final_q;
  logic [31:0] use_handle_q;
  logic             hold_valid_q;
  logic [W-1:0]     hold_data_q;
  logic [LaneW:0]   hold_bytes_q;
  // The acknowledgement.
  hvia_params_pkg::vi_t ack_vi_q;
  logic [31:0] ack_number_q;
  logic [2:0]  ack_code_q;

  logic        take_desc, take_job, take_raw, take_ack, raw, framed, between;
  logic        breaks, rejected, start, start_raw, frame_end, frame_fail, raw_end;
  logic        opens, drops, head_end, head_fail, skip_end, skip_fail, reported, finishes;
  logic        start_ack, ack_gone, ack_end;
  logic [31:0] reason;

  // Arbitration. Which of the three has priority if several wait; and whether an acknowledgement
  // went last, so that something else has its turn: a frame, or the read of a chunk, which overlaps
  // the next acknowledgement.
  typedef enum logic [1:0] {TurnDesc, TurnJob, TurnRaw} turn_e;
  turn_e turn_q;
  logic  acked_q;
  logic  pick_desc, pick_job, pick_raw;
  always_comb begin
    unique case (turn_q)
      TurnJob: begin
        pick_job  = job_valid_i;
        pick_raw  = rawtx_valid_i & ~job_valid_i;
        pick_desc = desc_valid_i & ~job_valid_i & ~rawtx_valid_i;
      end
      TurnRaw: begin
        pick_raw  = rawtx_valid_i;
        pick_desc = desc_valid_i & ~rawtx_valid_i;
        pick_job  = job_valid_i & ~rawtx_valid_i & ~desc_valid_i;
      end
      default: begin
        pick_desc = desc_valid_i;
        pick_job  = job_valid_i & ~desc_valid_i;
        pick_raw  = rawtx_valid_i & ~desc_valid_i & ~job_valid_i;
      end
    endcase
  end
  assign between      = (state_q == Check) | (state_q == Head) | (state_q == Skip) |
      (state_q == Finish);
  assign take_ack      = ack_valid_i & ((between & ~acked_q) | ((state_q == Idle) &
                         ~(acked_q & (desc_valid_i | job_valid_i | rawtx_valid_i))));
  assign take_desc     = (state_q == Idle) & ~take_ack & pick_desc;
  assign take_job      = (state_q == Idle) & ~take_ack & pick_job;
  assign take_raw      = (state_q == Idle) & ~take_ack & pick_raw;
  assign desc_ready_o  = take_desc;
  assign job_ready_o   = take_job;
  assign rawtx_ready_o = take_raw;
  assign ack_ready_o   = take_ack;
  assign raw           = (state_q == RawCheck) | (state_q == RawFrame);
  assign framed        = (state_q == Frame) | (state_q == RawFrame);
  assign rd_vi_o       = take_ack ? ack_vi_i : ((state_q == AckCheck) & ~ack_gone) ? ack_vi_q :
                         (state_q != Idle) ? vi_q : pick_job ? job_vi_i : desc_vi_i;

  // Fields of a descriptor, new or of a job.
  logic [511:0]       in_chunk;
  logic               load;
  logic [1:0]         in_operation;
  logic               in_rdma, in_read, in_empty, in_malformed;
  logic [15:0]        in_count;
  logic [31:0]        in_length;
  logic [SegBits-1:0] in_segment;  // the first data segment
  logic               unused_chunk;
  assign in_chunk     = head_q ? chunk_data_i : desc_chunk_i;
  assign in_operation = in_chunk[8*hvia_pkg::DescriptorControlOffset +
      hvia_pkg::DescriptorControlOperationLsb +: 2];
  assign in_read      = in_operation == hvia_pkg::DescriptorOperationRDMARead;
  assign in_rdma      = in_read | (in_operation == hvia_pkg::DescriptorOperationRDMAWrite);
  // Data segments; an RDMA operation without an address segment gets a count above any legal one.
  assign in_count     = in_chunk[8*hvia_pkg::DescriptorSegmentCountOffset +: 16] - {15'd0, in_rdma};
  // The ledger knows the length of a job.
  assign in_length    = head_q ? total_q : in_chunk[8*hvia_pkg::DescriptorLengthOffset +: 32];
  assign in_segment   = in_rdma ? in_chunk[SegmentB +: SegBits] : in_chunk[SegmentA +: SegBits];
  assign in_empty     = in_read | (in_count == 16'd0);
  assign in_malformed = (in_operation == hvia_pkg::DescriptorOperationReserved) |
                        (in_count > hvia_pkg::MaxDataSegments[15:0]) |
                        (head_q & (in_operation != operation_q));
  assign unused_chunk = ^in_chunk[8*hvia_pkg::DescriptorSize-1:0];

  // Sequence numbers.
  logic [31:0] seq_mem[hvia_params_pkg::VICount];
  logic [31:0] seq_rd_q, number;
  logic        seq_write;
  assign seq_write        = frame_end & ~owned_q;
  assign seq_init_ready_o = ~seq_write;
  always_ff @(posedge clk_i) begin
    if (seq_write) seq_mem[vi_q] <= sequence_q + 32'd1;
    else if (seq_init_valid_i) seq_mem[seq_init_vi_i] <= seq_init_value_i;
  end
  always_ff @(posedge clk_i) begin
    if (take_desc) seq_rd_q <= seq_mem[desc_vi_i];
  end
  assign number = (first_q & ~owned_q) ? seq_rd_q : sequence_q;

  // Context.
  logic        ctx_reliable;
  logic [2:0]  ctx_state, ctx_reliability;
  logic [7:0]  ctx_generation;
  logic [15:0] ctx_tag, ctx_peer_vi;
  logic [31:0] ctx_max;
  logic [47:0] ctx_peer_mac;
  logic        unused_ctx;
  assign ctx_state      = rd_ctx_i[hvia_pkg::VIContextAttributesStateLsb +: 3];
  assign ctx_generation = rd_ctx_i[hvia_pkg::VIContextAttributesGenerationLsb +: 8];
  assign ctx_tag        = rd_ctx_i[hvia_pkg::VIContextAttributesTagLsb +: 16];
  assign ctx_max        = rd_ctx_i[8*hvia_pkg::VIContextMaxTransferSizeOffset +: 32];
  assign ctx_peer_mac   = rd_ctx_i[8*hvia_pkg::VIContextPeerMacOffset +: 48];
  assign ctx_peer_vi    = rd_ctx_i[8*hvia_pkg::VIContextPeerVIOffset +: 16];
  assign ctx_reliability = rd_ctx_i[hvia_pkg::VIContextAttributesReliabilityLsb +: 3];
  assign ctx_reliable   = (ctx_reliability == hvia_pkg::ReliabilityDelivery) |
                          (ctx_reliability == hvia_pkg::ReliabilityReception);
  assign unused_ctx     = ^rd_ctx_i[4:3];

  // Send queues broken by an unreachable descriptor.
  hvia_params_pkg::vis_t broken_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      broken_q <= '0;
    end else begin
      if (breaks | (opens & unreachable_q)) broken_q[vi_q] <= 1'b1;
      if (seq_init_valid_i & seq_init_ready_o) broken_q[seq_init_vi_i] <= 1'b0;
    end
  end

  // Reasons not to send the message, or to stop it. Length and offset of a Send cannot wrap.
  logic [64:0] remote_end;
  logic        wraps, read;
  assign read       = ~response_q & (operation_q == hvia_pkg::DescriptorOperationRDMARead);
  assign remote_end = {1'b0, remote_q} + {33'd0, left_q};
  assign wraps      = remote_end[64] & (remote_end[63:0] != 64'd0);
  always_comb begin
    reason = 32'd0;
    // The state first: after a flushed descriptor all are flushed, whenever they were fetched.
    if ((ctx_state != hvia_pkg::VIStateConnected) | broken_q[vi_q]) begin
      reason[hvia_pkg::DescriptorStatusFlushedBit] = 1'b1;
    end else if ((status_q & ErrorMask) != 32'd0) begin
      reason = status_q & ErrorMask;
    end else if (malformed_q | wraps | (read & ~ctx_reliable)) begin
      reason[hvia_pkg::DescriptorStatusFormatErrorBit] = 1'b1;
    end else if (left_q > ctx_max) begin
      reason[hvia_pkg::DescriptorStatusLengthErrorBit] = 1'b1;
    end
  end
  // Between frames. A descriptor of a reliable VI goes to the ledger even with an error. What the
  // ledger owns and has not sent is dropped when the VI is no longer connected.
  logic checking, mine, rejects;
  assign checking  = (state_q == Check) & ~take_ack;
  assign mine      = ~owned_q & ~ctx_reliable;
  assign rejects   = owned_q ? ctx_state != hvia_pkg::VIStateConnected : reason != 32'd0;
  assign opens     = checking & ~owned_q & ctx_reliable;
  assign breaks    = checking & mine & unreachable_q & async_ready_i;
  assign rejected  = checking & mine & ~unreachable_q & rejects;
  assign drops     = checking & owned_q & rejects;
  assign start     = checking & (owned_q | (mine & ~unreachable_q)) & ~rejects & tx_slot_ready_i;
  assign start_raw = (state_q == RawCheck) & tx_slot_ready_i;
  // A Free VI has no peer.
  assign ack_gone  = (state_q == AckCheck) & (ctx_state == hvia_pkg::VIStateFree);
  assign start_ack = (state_q == AckCheck) & ~ack_gone & tx_slot_ready_i;

  // A job, until its first frame.
  logic connected, skips;
  assign connected = ctx_state == hvia_pkg::VIStateConnected;
  assign head_end  = (state_q == Head) & ~take_ack & ~head_q;
  assign head_fail = head_end & connected & (chunk_err_q | malformed_q | wraps);
  assign skips     = (state_q == Skip) & ~take_ack & (skip_q != 32'd0);
  assign skip_end  = (state_q == Skip) & ~take_ack & (skip_q == 32'd0);
  assign skip_fail = skips & (seg_left_q == 32'd0) & ((segs_q == 8'd0) |
      ((places_q == 3'd0) & chunk_err_q));
  assign reported  = (state_q == Report) & led_ready_i;

  // Header. Fields are big-endian; byte 0 of the frame lies in the lowest bits.
  logic [31:0] payload;
  logic        last;
  assign last    = read | (left_q <= MaxPayload);
  assign payload = read ? 32'd0 : last ? left_q : MaxPayload;

  logic [HeaderBits-1:0] header;
  logic [8*hvia_pkg::ViaHeaderSize-1:0] via;
  logic [7:0] flags;
  logic [3:0] frame_operation;
  logic       ack;
  assign ack = state_q == AckCheck;
  always_comb begin
    unique case (operation_q)
      hvia_pkg::DescriptorOperationRDMAWrite: frame_operation = hvia_pkg::FrameOperationRDMAWrite;
      hvia_pkg::DescriptorOperationRDMARead:  frame_operation =
          hvia_pkg::FrameOperationRDMAReadRequest;
      default:                                frame_operation = hvia_pkg::FrameOperationSend;
    endcase
    if (response_q) frame_operation = hvia_pkg::FrameOperationRDMAReadResponse;
    if (ack) frame_operation = hvia_pkg::FrameOperationAcknowledge;
    flags = 8'd0;
    if (~ack) begin
      flags[hvia_pkg::ViaHeaderFlagsFirstBit]     = first_q;
      flags[hvia_pkg::ViaHeaderFlagsLastBit]      = last;
      flags[hvia_pkg::ViaHeaderFlagsImmediateBit] = immediate_flag_q;
    end
    via = '0;
    via[8*hvia_pkg::ViaHeaderOperationVersionOffset +
        hvia_pkg::ViaHeaderOperationVersionOperationLsb +: 4] = frame_operation;
    via[8*hvia_pkg::ViaHeaderOperationVersionOffset +
        hvia_pkg::ViaHeaderOperationVersionVersionLsb +: 4] = hvia_pkg::ViaVersion;
    via[8*hvia_pkg::ViaHeaderFlagsOffset +: 8] = flags;
    via[8*hvia_pkg::ViaHeaderDestinationVIOffset +: 16] = hvia_types_pkg::be16(ctx_peer_vi);
    via[8*hvia_pkg::ViaHeaderSourceVIOffset +: 16] =
        hvia_types_pkg::be16({ctx_generation, 8'({ack ? ack_vi_q : vi_q})});
    via[8*hvia_pkg::ViaHeaderSequenceOffset +: 32] =
        hvia_types_pkg::be32(ack ? ack_number_q : number);
    if (ack) begin
      via[8*hvia_pkg::ViaHeaderImmediateOffset +: 32] = hvia_types_pkg::be32({29'd0, ack_code_q});
    end else begin
      via[8*hvia_pkg::ViaHeaderPayloadLengthOffset +: 16] = hvia_types_pkg::be16(payload[15:0]);
      via[8*hvia_pkg::ViaHeaderAddressOffset +: 32]       = hvia_types_pkg::be32(remote_q[63:32]);
      via[8*hvia_pkg::ViaHeaderAddressOffset+32 +: 32]    = hvia_types_pkg::be32(remote_q[31:0]);
      via[8*hvia_pkg::ViaHeaderHandleOffset +: 32]        = hvia_types_pkg::be32(remote_handle_q);
      if (read | immediate_flag_q) via[8*hvia_pkg::ViaHeaderImmediateOffset +: 32] =
          hvia_types_pkg::be32(read ? total_q : immediate_q);
    end
    header = '0;
    header[8*hvia_pkg::EthernetHeaderDestinationOffset +: 48] = ctx_peer_mac;
    header[8*hvia_pkg::EthernetHeaderSourceOffset +: 48]      = mac_i;
    header[8*hvia_pkg::EthernetHeaderEtherTypeOffset +: 16]   =
        hvia_types_pkg::be16(hvia_pkg::EtherTypeVia);
    header[8*EthBytes +: 8*hvia_pkg::ViaHeaderSize]           = via;
  end

  // Segments. A step advances to the next fetched segment; the next chunk is prefetched.
  logic step, fetch, chunk_here;
  logic missing, excess, cut_off, walk_fail;
  assign step  = ((state_q == Check) | (state_q == Frame) | (state_q == Skip)) &
      (seg_left_q == 32'd0) &
                 (segs_q != 8'd0) & (places_q != 3'd0);
  assign fetch = ((state_q == Frame) | (state_q == Skip) | ((state_q == Check) & ~first_q)) &
      (segs_q != 8'd0) &
                 (places_q == 3'd0) & ~ask_q & ~wait_q & ~chunk_err_q & ~frame_fail & ~rejected &
                     ~drops;
  assign chunk_here   = wait_q & txc_done_i;
  assign load         = take_desc | (chunk_here & head_q);
  assign txc_valid_o  = ask_q;
  assign txc_vi_o     = vi_q;
  assign txc_va_o     = chunk_va_q;
  assign txc_handle_o = handle_q;

  // The segments end before the payload, or continue after the message, or a needed one is
  // unreachable. Wait for a running job: its error would come first.
  assign missing   = (seg_left_q == 32'd0) & (segs_q == 8'd0) & (need_q != 16'd0);
  assign excess    = (seg_left_q != 32'd0) & (need_q == 16'd0) & last_q;
  assign cut_off   = (seg_left_q == 32'd0) & (segs_q != 8'd0) & (places_q == 3'd0) & chunk_err_q &
                     ((need_q != 16'd0) | last_q);
  assign walk_fail = (state_q == Frame) & ~open_q & (missing | excess | cut_off);

  // Bytes of the present segment to skip.
  logic        skip_take;
  logic [31:0] skip_len, seg_use;
  assign skip_take = skips & (seg_left_q != 32'd0);
  assign skip_len  = (seg_left_q < skip_q) ? seg_left_q : skip_q;
  assign seg_use   = skip_take ? skip_len : {16'd0, job_len};

  // Payload.
  logic             job_valid, job_ready, job_take, job_translated, job_done, job_bad, dma_quiet;
  logic [2:0]       job_err;
  logic [15:0]      need, job_len;
  logic             beat_valid, beat_ready, beat_last;
  logic [W-1:0]     beat_data;
  logic [LaneW-1:0] beat_offset;
  logic [LaneW:0]   beat_bytes;
  assign need      = framed ? need_q : raw ? left_q[15:0] : payload[15:0];
  assign job_len   = (seg_left_q < {16'd0, need}) ? seg_left_q[15:0] : need;
  assign job_valid = (start | start_raw | framed) & (need != 16'd0) & (seg_left_q != 32'd0) &
      ~job_bad;
  assign job_take  = job_valid & job_ready;
  assign job_bad   = open_q & job_done & (job_err != hvia_pkg::AttErrorNone);

  hvia_dma_read #(.W(W), .MaxOutstanding(MaxOutstanding)) u_dma (
      .clk_i, .rst_ni, .no_overlap_i, .short_bursts_i,
      .job_valid_i(job_valid), .job_ready_o(job_ready), .job_physical_i(raw),
      .job_handle_i(seg_handle_q), .job_va_i(seg_va_q), .job_len_i(job_len),
      .job_bound_i(seg_left_q), .job_tag_i(ctx_tag),
      .job_access_i(response_q & ~raw ? hvia_pkg::AttAccessRemoteRead : hvia_pkg::AttAccessLocal),
      .job_translated_o(job_translated), .job_done_o(job_done), .job_err_o(job_err),
      .beat_valid_o(beat_valid), .beat_ready_i(beat_ready), .beat_data_o(beat_data),
      .beat_offset_o(beat_offset), .beat_bytes_o(beat_bytes), .beat_last_o(beat_last),
      .att_req_valid_o, .att_req_ready_i, .att_req_handle_o, .att_req_va_o, .att_req_len_o,
      .att_req_tag_o, .att_req_access_o, .att_rsp_valid_i, .att_rsp_err_i, .att_rsp_pa_i,
      .att_rsp_bytes_i,
      .req_valid_o, .req_ready_i, .req_addr_o, .req_len_o,
      .rdata_i, .rvalid_i, .rready_o, .rlast_i, .rerr_i, .req_more_o, .quiet_o(dma_quiet)
  );
  assign att_req_vi_o = vi_q;

  // Header and payload become one stream.
  logic             in_header, header_last, pack_valid, pack_ready, pack_last, pack_quiet;
  logic [W-1:0]     pack_data;
  logic [LaneW-1:0] pack_offset;
  logic [LaneW:0]   pack_bytes;
  logic             out_valid, out_ready, out_last;
  logic [W-1:0]     out_data;
  logic [LaneW:0]   out_bytes;
  logic [Lanes-1:0] unused_strb;
  assign in_header   = ((state_q == Frame) | (state_q == AckFrame)) & (word_q != HeaderWords[3:0]);
  assign header_last = word_q == HeaderWords[3:0] - 4'd1;
  assign pack_valid  = in_header | (framed & beat_valid);
  assign pack_data   = in_header ? header_q[W-1:0] : beat_data;
  assign pack_offset = in_header ? '0 : beat_offset;
  assign pack_bytes  = ~in_header ? beat_bytes : header_last ? HeaderTail[LaneW:0] : Lanes[LaneW:0];
  assign pack_last   = in_header ? header_last & (payload_q == 32'd0) : beat_last & final_q;
  assign beat_ready  = pack_ready & ~in_header & framed;

  hvia_byte_packer #(.W(W)) u_packer (
      .clk_i, .rst_ni, .clear_i(tx_wabort_o), .start_lane_i('0),
      .in_valid_i(pack_valid), .in_ready_o(pack_ready), .in_data_i(pack_data),
      .in_offset_i(pack_offset), .in_bytes_i(pack_bytes), .in_last_i(pack_last),
      .out_valid_o(out_valid), .out_ready_i(out_ready), .out_data_o(out_data),
      .out_strb_o(unused_strb), .out_bytes_o(out_bytes), .out_last_o(out_last),
      .quiet_o(pack_quiet)
  );

  // The last beat commits the frame.
  logic cleared, pass;
  assign cleared     = ~(state_q == Frame) | ~last_q | ((seg_left_q == 32'd0) & (segs_q == 8'd0));
  assign pass        = ~out_last | cleared;
  assign out_ready   = ~pass | tx_wready_i;
  assign tx_wvalid_o = hold_valid_q ? cleared : out_valid & pass;
  assign tx_wdata_o  = hold_valid_q ? hold_data_q : out_data;
  assign tx_wbytes_o = hold_valid_q ? hold_bytes_q : out_bytes;
  assign tx_wlast_o  = hold_valid_q | out_last;
  assign tx_wvi_o    = raw ? 8'd0 : 8'({(state_q == AckFrame) ? ack_vi_q : vi_q});
  assign tx_wseq_o   = raw ? 16'd0 : (state_q == AckFrame) ? ack_number_q[15:0] : seq_q;
  assign tx_wlen_o   = raw ? left_q[10:0] : HeaderBytes[10:0] + payload_q[10:0];

  // A frame succeeds when its last beat is in the buffer and the DMA reports no error.
  logic built, job_good, ended;
  assign built       = built_q | (tx_wvalid_o & tx_wready_i & tx_wlast_o);
  assign job_good    = ~open_q | (job_done & (job_err == hvia_pkg::AttErrorNone));
  assign ended       = framed & built & job_good;
  assign tx_wabort_o = (framed & job_bad) | walk_fail;
  assign frame_end   = (state_q == Frame) & ended;
  assign frame_fail  = (state_q == Frame) & (job_bad | walk_fail);
  assign raw_end     = (state_q == RawFrame) & (ended | job_bad);
  assign ack_end     = (state_q == AckFrame) & built;

  // One completion waits here while the next message starts. A chunk in flight belongs to this
  // message, so it is awaited. The ledger completes the messages it owns.
  logic        cpl_valid_q, cpl_load;
  hvia_params_pkg::vi_t cpl_vi_q;
  logic [15:0] cpl_seq_q;
  logic [31:0] cpl_pa_q, cpl_handle_q, cpl_length_q, cpl_status_q;
  logic        over;
  assign over     = (state_q == Finish) & ~take_ack & ~ask_q & ~wait_q;
  assign cpl_load = over & ~owned_q & (~cpl_valid_q | cpl_ready_i);

  logic [2:0] echo;
  always_comb begin
    unique case (operation_q)
      hvia_pkg::DescriptorOperationRDMAWrite: echo = hvia_pkg::StatusOperationRDMAWrite;
      hvia_pkg::DescriptorOperationRDMARead:  echo = hvia_pkg::StatusOperationRDMARead;
      default:                                echo = hvia_pkg::StatusOperationSend;
    endcase
  end

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle: begin
        if (take_desc) state_d = Check;
        else if (take_job) state_d = Head;
        else if (take_raw) state_d = RawCheck;
      end
      Check: begin
        if (opens) state_d = Report;
        else if (breaks) state_d = Idle;
        else if (rejected | drops) state_d = Finish;
        else if (start) state_d = Frame;
      end
      Frame: begin
        if (frame_fail) state_d = owned_q ? Report : Finish;
        else if (frame_end) state_d = owned_q ? Report : last_q ? Finish : Check;
      end
      Report: if (reported) state_d = ((led_op_q != LedFail) & led_go_i) ? Check : Finish;
      Head: begin
        if (head_fail) state_d = Report;
        else if (head_end) state_d = connected ? Skip : Finish;
      end
      Skip: begin
        if (skip_fail) state_d = connected ? Report : Finish;
        else if (skip_end) state_d = Report;
      end
      Finish:   if (cpl_load | (over & owned_q)) state_d = Idle;
      RawCheck: if (start_raw) state_d = RawFrame;
      RawFrame: if (raw_end) state_d = Idle;
      AckCheck: begin
        if (ack_gone) state_d = back_q;
        else if (start_ack) state_d = AckFrame;
      end
      AckFrame: if (ack_end) state_d = back_q;
      default:  state_d = Idle;
    endcase
    if (take_ack) state_d = AckCheck;
  end
  assign finishes = (state_d == Finish) & (state_q != Finish) & ~acking;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q      <= Idle;
      turn_q       <= TurnDesc;
      acked_q      <= 1'b0;
      head_q       <= 1'b0;
      built_q      <= 1'b0;
      open_q       <= 1'b0;
      hold_valid_q <= 1'b0;
      ask_q        <= 1'b0;
      wait_q       <= 1'b0;
      cpl_valid_q  <= 1'b0;
      rawtx_done_o <= 1'b0;
      rawtx_err_o  <= 1'b0;
    end else begin
      state_q      <= state_d;
      rawtx_done_o <= raw_end;
      rawtx_err_o  <= raw_end & job_bad;
      if (take_desc) turn_q <= TurnJob;
      else if (take_job) turn_q <= TurnRaw;
      else if (take_raw) turn_q <= TurnDesc;
      if (take_ack) acked_q <= 1'b1;
      else if (start | start_raw | fetch | breaks | finishes) acked_q <= 1'b0;
      if (start | start_raw | start_ack) built_q <= 1'b0;
      else if (framed | (state_q == AckFrame)) built_q <= built;
      if (job_take) open_q <= 1'b1;
      else if (job_done) open_q <= 1'b0;
      if (tx_wabort_o) hold_valid_q <= 1'b0;
      else if (out_valid & ~pass) hold_valid_q <= 1'b1;
      else if (tx_wvalid_o & tx_wready_i) hold_valid_q <= 1'b0;
      if (take_job) head_q <= ~job_response_i;
      else if (chunk_here) head_q <= 1'b0;
      if (fetch | (take_job & ~job_response_i)) ask_q <= 1'b1;
      else if (txc_ready_i) ask_q <= 1'b0;
      if (ask_q & txc_ready_i) wait_q <= 1'b1;
      else if (txc_done_i) wait_q <= 1'b0;
      if (cpl_load) cpl_valid_q <= 1'b1;
      else if (cpl_ready_i) cpl_valid_q <= 1'b0;
    end
  end

  always_ff @(posedge clk_i) begin
    if (take_desc | take_job) begin
      vi_q          <= take_job ? job_vi_i : desc_vi_i;
      seq_q         <= take_job ? job_seq_i : desc_seq_i;
      pa_q          <= take_job ? job_pa_i : desc_pa_i;
      handle_q      <= take_job ? job_handle_i : desc_handle_i;
      operation_q   <= take_job ? job_operation_i : in_operation;
      unreachable_q <= take_desc & desc_unreachable_i;
      total_q       <= take_job ? job_length_i : in_length;
      left_q        <= take_job ? job_length_i : in_length;
      status_q      <= take_job ? 32'd0 : desc_status_i;
      first_q       <= take_desc | (job_number_i == job_first_i);
      owned_q       <= take_job;
      response_q    <= take_job & job_response_i;
      slot_q        <= job_slot_i;
      sequence_q    <= job_number_i;
      skip_q        <= (job_number_i - job_first_i) * MaxPayload;
    end else if (take_raw) begin
      left_q <= {21'd0, rawtx_len_i};
    end else if (opens) begin
      owned_q  <= 1'b1;
      status_q <= unreachable_q ? 32'd0 : reason;
    end else if (rejected) begin
      status_q <= reason;
    end else if (frame_fail | skip_fail | head_fail) begin
      if (job_bad & (job_err == hvia_pkg::AttErrorBackend)) begin
        status_q[hvia_pkg::DescriptorStatusTransportErrorBit] <= 1'b1;
      end else if (job_bad | cut_off | ((state_q != Frame) & chunk_err_q)) begin
        status_q[hvia_pkg::DescriptorStatusProtectionErrorBit] <= 1'b1;
      end else if (head_fail) begin
        status_q[hvia_pkg::DescriptorStatusFormatErrorBit] <= 1'b1;
      end else begin
        status_q[hvia_pkg::DescriptorStatusLengthErrorBit] <= 1'b1;
      end
    end else if (frame_end) begin
      remote_q <= remote_q + {32'd0, payload_q};
      left_q   <= left_q - payload_q;
      first_q  <= 1'b0;
      // A message of the ledger keeps its number until the report.
      if (~owned_q) sequence_q <= sequence_q + 32'd1;
    end else if (head_end) begin
      remote_q <= remote_q + {32'd0, skip_q};
      left_q   <= left_q - skip_q;
    end else if (skip_take) begin
      skip_q <= skip_q - skip_len;
    end else if (reported & (led_op_q == LedOpen)) begin
      sequence_q <= led_number_i;
      slot_q     <= led_slot_i;
    end else if (reported & (led_op_q == LedSent)) begin
      sequence_q <= sequence_q + 32'd1;
    end
    if (start) sequence_q <= number;

    // Of the header fields a read response has only length and offset.
    if (load) begin
      immediate_flag_q <= in_chunk[8*hvia_pkg::DescriptorControlOffset +
          hvia_pkg::DescriptorControlImmediateBit] & ~in_read;
      immediate_q      <= in_chunk[8*hvia_pkg::DescriptorImmediateDataOffset +: 32];
      fence_q          <= in_chunk[8*hvia_pkg::DescriptorControlOffset +
          hvia_pkg::DescriptorControlQueueFenceBit];
      malformed_q      <= in_malformed;
      remote_q         <= in_rdma ?
          in_chunk[SegmentA + 8*hvia_pkg::AddressSegmentAddressOffset +: 64] :
                                    {in_length, 32'd0};
      remote_handle_q  <= in_rdma ?
          in_chunk[SegmentA + 8*hvia_pkg::AddressSegmentHandleOffset +: 32] : 32'd0;
    end else if (take_job) begin
      immediate_flag_q <= 1'b0;
      malformed_q      <= 1'b0;
      remote_q         <= {job_length_i, 32'd0};
      remote_handle_q  <= 32'd0;
    end

    if (opens) led_op_q <= LedOpen;
    else if (frame_end) led_op_q <= LedSent;
    else if (skip_end) led_op_q <= LedAsk;
    else if (frame_fail | skip_fail | head_fail) led_op_q <= LedFail;

    if (take_ack) begin
      ack_vi_q     <= ack_vi_i;
      ack_number_q <= ack_number_i;
      ack_code_q   <= ack_code_i;
      back_q       <= state_q;
    end

    if (load) begin
      seg_va_q     <= in_segment[8*hvia_pkg::DataSegmentAddressOffset +: 64];
      seg_handle_q <= in_segment[8*hvia_pkg::DataSegmentHandleOffset +: 32];
      seg_left_q   <= in_empty ? 32'd0 : in_segment[8*hvia_pkg::DataSegmentLengthOffset +: 32];
      segs_q       <= in_empty ? 8'd0 : in_count[7:0] - 8'd1;
    end else if (take_job) begin
      seg_va_q     <= job_va_i;
      seg_handle_q <= job_handle_i;
      seg_left_q   <= job_length_i;
      segs_q       <= 8'd0;
    end else if (take_raw) begin
      seg_va_q   <= {32'd0, rawtx_pa_i};
      seg_left_q <= {21'd0, rawtx_len_i};
    end else if (job_take | skip_take) begin
      seg_va_q   <= seg_va_q + {32'd0, seg_use};
      seg_left_q <= seg_left_q - seg_use;
    end else if (step) begin
      seg_va_q     <= chunk_q[8*hvia_pkg::DataSegmentAddressOffset +: 64];
      seg_handle_q <= chunk_q[8*hvia_pkg::DataSegmentHandleOffset +: 32];
      seg_left_q   <= chunk_q[8*hvia_pkg::DataSegmentLengthOffset +: 32];
      segs_q       <= segs_q - 8'd1;
    end

    // A Send has a second segment in its first chunk.
    if (load) begin
      chunk_q     <= in_chunk >> SegmentB;
      places_q    <= {2'd0, ~in_rdma};
      chunk_err_q <= head_q & txc_err_i;
    end else if (take_job) begin
      places_q    <= 3'd0;
      chunk_err_q <= 1'b0;
    end else if (chunk_here) begin
      chunk_q     <= chunk_data_i;
      places_q    <= txc_err_i ? 3'd0 : ChunkSegs[2:0];
      chunk_err_q <= txc_err_i;
    end else if (step) begin
      chunk_q  <= chunk_q >> SegBits;
      places_q <= places_q - 3'd1;
    end
    if (take_desc) chunk_va_q <= desc_va_i;
    else if (take_job) chunk_va_q <= job_va_i;
    else if (fetch) chunk_va_q <= chunk_va_q + 64'(ChunkBytes);

    if (job_take) begin
      use_handle_q <= seg_handle_q;
      need_q       <= need - job_len;
      lead_q       <= ~framed | (need_q == payload_q[15:0]);
      final_q      <= need == job_len;
    end else if (start | start_raw) begin
      need_q <= need;
    end

    if (out_valid & ~pass) begin
      hold_data_q  <= out_data;
      hold_bytes_q <= out_bytes;
    end

    if (start | start_ack) begin
      header_q  <= header;
      payload_q <= start_ack ? 32'd0 : payload;
      word_q    <= 4'd0;
    end else if (in_header & pack_ready) begin
      header_q <= header_q >> W;
      word_q   <= word_q + 4'd1;
    end

    if (start) last_q <= last;

    if (cpl_load) begin
      cpl_vi_q     <= vi_q;
      cpl_seq_q    <= seq_q;
      cpl_pa_q     <= pa_q;
      cpl_handle_q <= handle_q;
      cpl_length_q <= total_q - left_q;
      cpl_status_q <= (status_q & ErrorMask) |
                      (32'd1 << hvia_pkg::DescriptorStatusDoneBit) |
                      ({29'd0, echo} << hvia_pkg::DescriptorStatusOperationLsb);
    end
  end

  assign cpl_valid_o  = cpl_valid_q;
  assign cpl_vi_o     = cpl_vi_q;
  assign cpl_seq_o    = cpl_seq_q;
  assign cpl_pa_o     = cpl_pa_q;
  assign cpl_handle_o = cpl_handle_q;
  assign cpl_length_o = cpl_length_q;
  assign cpl_status_o = cpl_status_q;
  assign cpl_write_o  = 1'b1;

  assign led_valid_o  = state_q == Report;
  assign led_op_o     = led_op_q;
  assign led_vi_o     = vi_q;
  assign led_slot_o   = slot_q;
  assign led_number_o = sequence_q;
  assign led_last_o   = last_q;
  assign led_status_o = status_q[8:0];
  assign led_va_o     = chunk_va_q;
  assign led_pa_o     = pa_q;
  assign led_handle_o = handle_q;
  assign led_seq_o    = seq_q;
  assign led_length_o = total_q;
  // The reserved operation marks an unreachable descriptor. A descriptor that has it is malformed,
  // and reported as a send, as its status says.
  always_comb begin
    led_operation_o = operation_q;
    if (unreachable_q) led_operation_o = hvia_pkg::DescriptorOperationReserved;
    else if (operation_q == hvia_pkg::DescriptorOperationReserved) led_operation_o =
        hvia_pkg::DescriptorOperationSend;
  end
  assign led_fence_o     = fence_q;

  // A VI that was reset has no one to notify.
  assign async_valid_o = breaks & (ctx_state != hvia_pkg::VIStateFree);
  assign async_code_o  = hvia_pkg::AsyncErrorPostDescriptor;
  assign async_vi_o    = 8'(vi_q);

  // Draining. A descriptor counts from the clock it is offered until its completion was taken, an
  // unreachable one until it was reported, and by its VI only. The handle of a segment (a read
  // response has one) counts only while a job with it runs, which is when a translation by it is in
  // use. An acknowledgement is no work of its VI.
  logic message, acking, use_busy;
  state_e work;
  assign use_busy      = open_q & ~raw;
  assign acking        = (state_q == AckCheck) | (state_q == AckFrame);
  assign work          = acking ? back_q : state_q;
  assign message       = (work != Idle) & ~raw;
  assign handle_busy_o = (message & ~unreachable_q & ~response_q & (handle_q == drain_handle_i)) |
                         (use_busy & (use_handle_q == drain_handle_i)) |
                         (cpl_valid_q & (cpl_handle_q == drain_handle_i)) |
                         (desc_valid_i & ~desc_unreachable_i & (desc_handle_i == drain_handle_i));
  assign vi_busy_o     = (message & (vi_q == drain_vi_i)) |
      (cpl_valid_q & (cpl_vi_q == drain_vi_i)) |
              (desc_valid_i & (desc_vi_i == drain_vi_i)) | (job_valid_i & (job_vi_i == drain_vi_i));

  assign stat_transmit_message_o = frame_end & last_q;
  assign stat_transmit_frame_o   = frame_end;
  assign stat_transmit_aborted_o = (frame_fail | rejected | head_fail | (skip_fail & connected)) &
      ~first_q;
  assign stat_transmit_acknowledge_o = ack_end;

  // The last payload beat is taken at least one clock before the frame ends.
  logic translated, payload_read;
  assign translated    = (state_q == Frame) & job_translated & lead_q;
  assign payload_read  = (state_q == Frame) & beat_valid & beat_ready & beat_last & final_q;
  assign trace_valid_o = translated | payload_read | frame_end | ack_end;
  assign trace_event_o = ack_end ? hvia_pkg::TraceEventAcknowledgeBuilt :
                         frame_end ? hvia_pkg::TraceEventFrameBuilt :
                payload_read ? hvia_pkg::TraceEventPayloadRead : hvia_pkg::TraceEventSendTranslated;
  assign trace_vi_o    = 8'({ack_end ? ack_vi_q : vi_q});
  assign trace_seq_o   = ack_end ? ack_number_q[15:0] : seq_q;

  // An engine that waits for a slot, a chunk or the ledger is quiescent, unless a prefetched chunk
  // moves.
  logic waits;
  assign waits   = ~take_ack & (((state_q == Check) & ~unreachable_q & ~rejected & ~start & ~opens &
      ~drops) |
                                ((state_q == RawCheck) & ~start_raw) |
                                ((state_q == AckCheck) & ~start_ack & ~ack_gone) |
                                ((state_q == Report) & ~led_ready_i) |
                                ((state_q == Head) & head_q) |
                                (skips & ~skip_take & ~skip_fail));
  assign quiet_o = (((state_q == Idle) &
      ~desc_valid_i & ~job_valid_i & ~rawtx_valid_i & ~ack_valid_i) | waits) &
                   ~rawtx_done_o &
                   ~step & ~fetch & ~(ask_q & txc_ready_i) & ~chunk_here &
                   (~cpl_valid_q | ~cpl_ready_i) & ~seq_init_valid_i & dma_quiet & pack_quiet;

endmodule
