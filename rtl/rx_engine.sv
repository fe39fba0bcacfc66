// SPDX-License-Identifier: Apache-2.0

// Receive engine. Takes frames from the packet buffer one at a time: parses the header, checks that
// the frame is meant for a connected VI by that VI's peer, accepts sequence numbers forward only,
// follows messages, and writes the payload to the address that the frame names. Frames of any other
// EtherType go to the raw port's buffer.
//
// Order of checks, each drop counted by its reason: destination address; EtherType; version, flags,
// length, known operation (malformed); VI connected, generation, peer (bad VI); sequence behind
// (old); from here on the sequence number is used up; operation carried out by this card
// (unsupported); message state; right of the VI, then of the region (protection).
//
// Messages: a frame with First opens one, a frame with Last closes it. A message is cut off if a
// frame is missing inside it, if the next First comes before its Last, or if its First is missing:
// counted once with an asynchronous error, and the rest of it is dropped without a count. So is the
// rest of a message that met a protection or bus error.
//
// Every wait ends: a translation and a host write always end, and nothing else is waited for.
module rx_engine #(
    parameter int unsigned MaxOutstanding = 1  // of dma_write
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [47:0]  mac_i,  // wire byte 0 in bits 7:0

    // Packet buffer.
    input  logic         rx_valid_i,
    input  logic [10:0]  rx_len_i,
    output logic [8:0]   rx_raddr_o,
    input  logic [31:0]  rx_rdata_i,
    output logic         rx_done_o,

    // VI context.
    output logic [7:0]   rd_vi_o,
    input  logic [127:0] rd_ctx_i,

    // Translation.
    output logic         att_req_valid_o,
    input  logic         att_req_ready_i,
    output logic [31:0]  att_req_handle_o,
    output logic [63:0]  att_req_va_o,
    output logic [31:0]  att_req_len_o,
    output logic [15:0]  att_req_tag_o,
    output logic [1:0]   att_req_access_o,
    output logic [7:0]   att_req_vi_o,
    input  logic         att_rsp_valid_i,
    input  logic [2:0]   att_rsp_err_i,
    input  logic [31:0]  att_rsp_pa_i,
    input  logic [12:0]  att_rsp_bytes_i,

    // Host bus, writes only.
    output logic         req_valid_o,
    input  logic         req_ready_i,
    output logic [31:0]  req_addr_o,
    output logic [9:0]   req_len_o,
    output logic [31:0]  wdata_o,
    output logic [3:0]   wstrb_o,
    output logic         wvalid_o,
    input  logic         wready_i,
    input  logic         wdone_i,
    input  logic         werr_i,

    // Raw frames.
    input  logic         rawrx_valid_i,
    output logic         rawrx_ready_o,  // the buffer is taken, also for a frame that does not fit
    input  logic [31:0]  rawrx_pa_i,
    input  logic [15:0]  rawrx_capacity_i,
    output logic         rawrx_done_o,
    output logic [15:0]  rawrx_len_o,
    output logic         rawrx_err_o,

    // Sequence numbers, set when a VI is connected.
    input  logic         seq_init_valid_i,
    output logic         seq_init_ready_o,
    input  logic [7:0]   seq_init_vi_i,
    input  logic [31:0]  seq_init_value_i,

    // Asynchronous errors, one clock each.
    output logic         async_valid_o,
    output logic [7:0]   async_code_o,
    output logic [7:0]   async_vi_o,

    // Draining.
    input  logic [31:0]  drain_handle_i,
    input  logic [7:0]   drain_vi_i,
    output logic         handle_busy_o,
    output logic         vi_busy_o,

    output logic         stat_receive_frame_o,
    output logic         stat_receive_not_for_us_o,
    output logic         stat_receive_malformed_o,
    output logic         stat_receive_bad_vi_o,
    output logic         stat_receive_old_sequence_o,
    output logic         stat_receive_gap_o,
    output logic         stat_receive_protection_o,
    output logic         stat_receive_bus_error_o,
    output logic         stat_receive_aborted_o,
    output logic         stat_receive_unsupported_o,
    output logic         stat_raw_receive_dropped_o,
    output logic         trace_valid_o,
    output logic [7:0]   trace_event_o,
    output logic [7:0]   trace_vi_o,
    output logic [15:0]  trace_seq_o,
    output logic         quiet_o
);

  localparam int unsigned EthBytes    = hvia_pkg::EthernetHeaderSize;
  localparam int unsigned HeaderBytes = hvia_pkg::EthernetHeaderSize + hvia_pkg::ViaHeaderSize;
  // Whole words of header that are kept; the word behind them begins with the end of the immediate
  // data, which no operation of this card uses, and is the payload's first.
  localparam int unsigned HeaderWords = HeaderBytes / 4;
  localparam int unsigned HeaderBits  = HeaderWords * 32;
  localparam logic [1:0]  PayloadLane = HeaderBytes[1:0];
  localparam int unsigned ViByte      = EthBytes + hvia_pkg::ViaHeaderDestinationViOffset + 1;

  localparam logic [1:0] MessageNone    = 2'd0;  // the next frame must be a First
  localparam logic [1:0] MessageOpen    = 2'd1;
  localparam logic [1:0] MessageDropped = 2'd2;  // drop until the next First

  typedef enum logic [2:0] {Idle, Head, Check, Refuse, Write, RawCheck, RawWrite, RawSmall} state_e;
  state_e state_q, state_d;

  logic [HeaderBits-1:0] header_q;
  logic [8:0]  word_q;  // of the slot, on `rx_rdata_i` now
  logic        first_beat_q;
  logic [7:0]  vi_q;

  // Reading the slot: the word after the present one is asked for when the present one is used.
  logic next_word, beat_valid, beat_ready;
  assign next_word = (state_q == Head) | (beat_valid & beat_ready);
  always_comb begin
    if ((state_q == Idle) | (state_q == RawCheck)) rx_raddr_o = 9'd0;
    else rx_raddr_o = next_word ? word_q + 9'd1 : word_q;
  end
  logic head_end;
  assign head_end = word_q == HeaderWords[8:0] - 9'd1;

  always_ff @(posedge clk_i) begin
    if (state_q != Idle || rx_valid_i) word_q <= rx_raddr_o;
    if (state_q == Head) begin
      header_q <= {rx_rdata_i, header_q[HeaderBits-1:32]};
      // The VI's context and sequence number are read while the rest of the header comes.
      if (word_q == 9'(ViByte / 4)) vi_q <= rx_rdata_i[8*(ViByte%4) +: 8];
    end
  end

  // Header fields. They are big-endian; byte 0 of the frame lies in the lowest bits.
  function automatic logic [15:0] be16(input logic [15:0] v);
    be16 = {v[7:0], v[15:8]};
  endfunction
  function automatic logic [31:0] be32(input logic [31:0] v);
    be32 = {v[7:0], v[15:8], v[23:16], v[31:24]};
  endfunction
  logic [47:0] destination, source;
  logic [15:0] ether_type, payload_len, destination_vi, source_vi;
  logic [7:0]  flags;
  logic [3:0]  operation, version;
  logic [31:0] number, handle;
  logic [63:0] address;
  logic        first, last, immediate, unused_header;
  assign destination    = header_q[8*hvia_pkg::EthernetHeaderDestinationOffset +: 48];
  assign source         = header_q[8*hvia_pkg::EthernetHeaderSourceOffset +: 48];
  assign ether_type     = be16(header_q[8*hvia_pkg::EthernetHeaderEtherTypeOffset +: 16]);
  assign operation      = header_q[8*(EthBytes+hvia_pkg::ViaHeaderOperationVersionOffset)+hvia_pkg::ViaHeaderOperationVersionOperationLsb +: 4];
  assign version        = header_q[8*(EthBytes+hvia_pkg::ViaHeaderOperationVersionOffset)+hvia_pkg::ViaHeaderOperationVersionVersionLsb +: 4];
  assign flags          = header_q[8*(EthBytes+hvia_pkg::ViaHeaderFlagsOffset) +: 8];
  assign payload_len    = be16(header_q[8*(EthBytes+hvia_pkg::ViaHeaderPayloadLengthOffset) +: 16]);
  assign destination_vi = be16(header_q[8*(EthBytes+hvia_pkg::ViaHeaderDestinationViOffset) +: 16]);
  assign source_vi      = be16(header_q[8*(EthBytes+hvia_pkg::ViaHeaderSourceViOffset) +: 16]);
  assign number         = be32(header_q[8*(EthBytes+hvia_pkg::ViaHeaderSequenceOffset) +: 32]);
  assign address        = {be32(header_q[8*(EthBytes+hvia_pkg::ViaHeaderAddressOffset) +: 32]),
                           be32(header_q[8*(EthBytes+hvia_pkg::ViaHeaderAddressOffset)+32 +: 32])};
  assign handle         = be32(header_q[8*(EthBytes+hvia_pkg::ViaHeaderHandleOffset) +: 32]);
  assign first          = flags[hvia_pkg::ViaHeaderFlagsFirstBit];
  assign last           = flags[hvia_pkg::ViaHeaderFlagsLastBit];
  assign immediate      = flags[hvia_pkg::ViaHeaderFlagsImmediateBit];
  assign unused_header  = ^{header_q[HeaderBits-1:8*(EthBytes+hvia_pkg::ViaHeaderImmediateOffset)], destination_vi[7:0]};

  // Context.
  logic [2:0]  ctx_state;
  logic        ctx_rdma_write, unused_ctx;
  logic [7:0]  ctx_generation;
  logic [15:0] ctx_tag, ctx_peer_vi;
  logic [47:0] ctx_peer_mac;
  assign rd_vi_o        = vi_q;
  assign ctx_state      = rd_ctx_i[hvia_pkg::ViContextAttributesStateLsb +: 3];
  assign ctx_rdma_write = rd_ctx_i[hvia_pkg::ViContextAttributesEnableRdmaWriteBit];
  assign ctx_generation = rd_ctx_i[hvia_pkg::ViContextAttributesGenerationLsb +: 8];
  assign ctx_tag        = rd_ctx_i[hvia_pkg::ViContextAttributesTagLsb +: 16];
  assign ctx_peer_mac   = rd_ctx_i[8*hvia_pkg::ViContextPeerMacOffset +: 48];
  assign ctx_peer_vi    = rd_ctx_i[8*hvia_pkg::ViContextPeerViOffset +: 16];
  assign unused_ctx     = ^{rd_ctx_i[63:32], rd_ctx_i[7:4]};

  // Sequence number expected next, and the state of the message, of each VI.
  logic [33:0] seq_mem[0:255];
  logic [33:0] seq_rd_q;
  logic        seq_write;
  logic [1:0]  message, message_next;
  logic [31:0] expected, ahead;
  assign {message, expected} = seq_rd_q;
  assign ahead               = number - expected;
  always_ff @(posedge clk_i) begin
    if (seq_write) seq_mem[vi_q] <= {message_next, number + 32'd1};
    else if (seq_init_valid_i) seq_mem[seq_init_vi_i] <= {MessageNone, seq_init_value_i};
  end
  always_ff @(posedge clk_i) begin
    if (state_q == Head) seq_rd_q <= seq_mem[vi_q];
  end
  assign seq_init_ready_o = ~seq_write;

  // Verdict on the frame in `Check`.
  logic own, group, is_via, malformed, known, bad_vi, old, gap, unsupported, cut, accept, in_order;
  logic not_for_us, to_raw, checked;
  assign checked    = state_q == Check;
  assign own        = destination == mac_i;
  assign group      = destination[0];
  assign is_via     = ether_type == hvia_pkg::EtherTypeVia;
  assign not_for_us = ~own & (~group | is_via);
  assign to_raw     = ~not_for_us & ~is_via;
  assign known      = operation <= hvia_pkg::FrameOperationAcknowledge;
  assign malformed  = (version != hvia_pkg::ViaVersion) | ~known |
                      (flags[7:hvia_pkg::ViaHeaderFlagsReservedLsb] != 0) |
                      (payload_len > hvia_pkg::MaxPayload) |
                      ({1'b0, payload_len} + HeaderBytes[16:0] > {6'd0, rx_len_i});
  assign bad_vi     = (ctx_state != hvia_pkg::ViStateConnected) |
                      (destination_vi[15:8] != ctx_generation) |
                      (source != ctx_peer_mac) | (source_vi != ctx_peer_vi);
  assign old         = ahead[31];
  assign gap         = ahead != 32'd0;
  assign unsupported = (operation != hvia_pkg::FrameOperationRdmaWrite) | immediate;

  // `in_order`: nothing speaks against using up the sequence number.
  assign in_order = checked & ~not_for_us & is_via & ~malformed & ~bad_vi & ~old;
  assign accept   = in_order & ~unsupported & (first | ((message == MessageOpen) & ~gap));
  assign cut      = in_order & (((message == MessageOpen) & (first | gap | unsupported)) |
                                ((message == MessageNone) & ~first & ~unsupported));

  // Writing.
  logic        job_valid, job_ready, job_translated, job_done, dma_quiet, raw, raw_fits;
  logic [2:0]  job_err;
  logic        job_ok, job_bus, job_refused, write_done, raw_done, raw_drop;
  assign raw       = state_q == RawCheck;
  assign raw_fits  = rawrx_valid_i & ({5'd0, rx_len_i} <= rawrx_capacity_i);
  assign raw_drop  = raw & ~raw_fits;
  assign rawrx_ready_o = raw;
  assign job_valid = (accept & ctx_rdma_write) | (raw & raw_fits);
  assign beat_valid = (state_q == Write) | (state_q == RawWrite);

  dma_write #(
      .W(32),
      .MaxOutstanding(MaxOutstanding)
  ) u_dma (
      .clk_i,
      .rst_ni,
      .job_valid_i(job_valid),
      .job_ready_o(job_ready),
      .job_physical_i(raw),
      .job_handle_i(handle),
      .job_va_i(raw ? {32'd0, rawrx_pa_i} : address),
      .job_len_i(raw ? {5'd0, rx_len_i} : payload_len),
      .job_bound_i(raw ? {21'd0, rx_len_i} : {16'd0, payload_len}),
      .job_tag_i(ctx_tag),
      .job_access_i(hvia_pkg::AttAccessRemoteWrite),
      .job_translated_o(job_translated),
      .job_done_o(job_done),
      .job_err_o(job_err),
      .beat_valid_i(beat_valid),
      .beat_ready_o(beat_ready),
      .beat_data_i(rx_rdata_i),
      .beat_offset_i((first_beat_q & (state_q == Write)) ? PayloadLane : 2'd0),
      .beat_bytes_i((first_beat_q & (state_q == Write)) ? 3'd4 - {1'b0, PayloadLane} : 3'd4),
      .att_req_valid_o,
      .att_req_ready_i,
      .att_req_handle_o,
      .att_req_va_o,
      .att_req_len_o,
      .att_req_tag_o,
      .att_req_access_o,
      .att_rsp_valid_i,
      .att_rsp_err_i,
      .att_rsp_pa_i,
      .att_rsp_bytes_i,
      .req_valid_o,
      .req_ready_i,
      .req_addr_o,
      .req_len_o,
      .wdata_o,
      .wstrb_o,
      .wvalid_o,
      .wready_i,
      .wdone_i,
      .werr_i,
      .quiet_o(dma_quiet)
  );
  assign att_req_vi_o = vi_q;

  assign job_ok      = job_err == hvia_pkg::AttErrorNone;
  assign job_bus     = job_err == hvia_pkg::AttErrorBackend;
  assign job_refused = ~job_ok & ~job_bus;
  assign write_done  = (state_q == Write) & job_done;
  assign raw_done    = (state_q == RawWrite) & job_done;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle:     if (rx_valid_i) state_d = Head;
      Head:     if (head_end) state_d = Check;
      Check: begin
        if (to_raw) state_d = RawCheck;
        else if (accept) state_d = ctx_rdma_write ? Write : Refuse;
        else state_d = Idle;
      end
      Refuse:   state_d = Idle;
      Write:    if (job_done) state_d = Idle;
      // Asks for the slot's first word again.
      RawCheck: state_d = raw_fits ? RawWrite : rawrx_valid_i ? RawSmall : Idle;
      // The buffer is returned with an error in the clock after it was taken.
      RawSmall: state_d = Idle;
      RawWrite: if (job_done) state_d = Idle;
      default:  state_d = Idle;
    endcase
  end
  assign rx_done_o = (state_q != Idle) & (state_d == Idle);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q      <= Idle;
      first_beat_q <= 1'b0;
    end else begin
      state_q <= state_d;
      if (state_q == Head) first_beat_q <= 1'b1;
      else if (beat_valid & beat_ready) first_beat_q <= 1'b0;
    end
  end

  // After the verdict the message is open, over, or to be dropped; an error later drops it, too.
  assign seq_write = in_order | (state_q == Refuse) | (write_done & ~job_ok);
  always_comb begin
    if (last) message_next = MessageNone;
    else if (accept) message_next = MessageOpen;
    else message_next = MessageDropped;
  end

  assign rawrx_done_o = raw_done | (state_q == RawSmall);
  assign rawrx_len_o  = {5'd0, rx_len_i};
  assign rawrx_err_o  = (state_q == RawSmall) | ~job_ok;

  // No two of these in one clock: the first belongs to Check, the others to later states.
  assign async_valid_o = cut | (state_q == Refuse) | (write_done & ~job_ok);
  assign async_code_o  = (cut | (write_done & job_bus)) ? hvia_pkg::AsyncErrorRdmaWriteAbort
                                                        : hvia_pkg::AsyncErrorRdmaWriteProtection;
  assign async_vi_o    = vi_q;

  assign stat_receive_frame_o        = write_done & job_ok;
  assign stat_receive_not_for_us_o   = checked & not_for_us;
  assign stat_receive_malformed_o    = checked & ~not_for_us & is_via & malformed;
  assign stat_receive_bad_vi_o       = checked & ~not_for_us & is_via & ~malformed & bad_vi;
  assign stat_receive_old_sequence_o = checked & ~not_for_us & is_via & ~malformed & ~bad_vi & old;
  assign stat_receive_gap_o          = in_order & gap;
  assign stat_receive_unsupported_o  = in_order & unsupported;
  assign stat_receive_aborted_o      = cut;
  assign stat_receive_protection_o   = (state_q == Refuse) | (write_done & job_refused);
  assign stat_receive_bus_error_o    = (write_done | raw_done) & job_bus;
  assign stat_raw_receive_dropped_o  = raw_drop;

  assign trace_valid_o = accept | ((state_q == Write) & (job_translated | job_done));
  assign trace_event_o = accept ? hvia_pkg::TraceEventReceiveParsed :
                         job_done ? hvia_pkg::TraceEventReceiveWritten : hvia_pkg::TraceEventReceiveTranslated;
  assign trace_vi_o    = vi_q;
  assign trace_seq_o   = number[15:0];

  // Draining. Until the verdict a frame holds nothing: it will be judged by the context of then.
  logic works, unused_ready;
  assign unused_ready  = job_ready;
  assign works         = in_order | (state_q == Refuse) | (state_q == Write);
  assign handle_busy_o = works & (handle == drain_handle_i);
  assign vi_busy_o     = works & (vi_q == drain_vi_i);

  assign quiet_o = (state_q == Idle) & ~rx_valid_i & ~seq_init_valid_i & dma_quiet;

endmodule
