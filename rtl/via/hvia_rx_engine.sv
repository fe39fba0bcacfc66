// SPDX-License-Identifier: Apache-2.0

// Receive engine. Takes frames from the packet buffer one at a time: parses the header, checks that
// the frame comes from the peer of a connected VI, checks its sequence number, follows messages,
// and writes the payload into host memory: to the address that an RDMA write names, or into the
// buffers of the VI's receive descriptor in receive_store. Frames of other EtherTypes go to the raw
// port's buffer.
//
// Order of checks, each drop counted by its reason: destination address; EtherType; version, flags,
// length, known operation (malformed); VI connected, generation, peer (bad VI); sequence behind
// (old) or far ahead (out of order); from here on the sequence number is consumed; operation
// supported by this card (unsupported); message of the frame given up or never started (dropped); a
// receive descriptor for a message that requires one (queue empty); valid descriptor with reachable
// segments (descriptor error) and enough capacity (length); right of the VI, then of the region
// (protection); the host bus. The first failed frame of a message is counted by the reason, the
// rest of the message as dropped.
//
// Messages: a frame with First opens one, a frame with Last closes it. A Send, and an RDMA write
// with immediate data, takes the VI's descriptor with First and completes it with Last, with the
// errors in between. A message is cut off if a frame is missing inside it, if the next First
// precedes its Last, if a frame contradicts its First, if its First is missing, or if the VI is
// flushed: its descriptor is completed at once; without a descriptor an asynchronous error is
// raised. The state of each VI's message is in RAM, so messages of different VIs interleave freely.
//
// Sequence numbers of unreliable VIs: a frame inside SequenceWindow is accepted, even if frames
// before it are missing. Others are dropped, unless SequenceAgreement of them come in a row, each
// less than SequenceWindow ahead of the number after the previous one (the candidate): then the
// last is accepted and sets the number. A copy of the last frame does not count; any other frame
// restarts the count. So a forged or damaged number silences a VI for a few frames only.
//
// Cut-through: a frame may be offered while it still arrives. Words are used as they arrive, and
// whatever depends on the whole frame (its count, the end of its message) waits for `rx_end_i`. A
// frame that turns out bad or short counts as lost: its number is not consumed, but bytes already
// written stay written, so its message is cut off.
//
// Reliable VIs: frames are taken in order only, and each except a plain acknowledgement is reported
// to `acknowledge` as accepted, old, ahead, NAKed, or as one after a NAK. A frame that fails breaks
// the connection: its message ends at once, with the status of the unreliable level, one
// asynchronous error and a NAK. Acknowledgements and read requests go to the ledger. The response
// to an RDMA read is a message whose buffers are those of the read's descriptor: the ledger names
// it, and each frame of the response fetches the chunk that it requires. Nothing is reported or
// completed before the frame is complete and good, so a bad one leaves the state unchanged and is
// retransmitted. With reliable delivery a complete frame is reported as accepted when its last byte
// is translated, else when that byte is in memory.
//
// Every wait ends. The engine waits only for: a translation, a host write, the fetch of a
// descriptor or of a chunk, the rest of a started frame, the completion's turn on the bus, the
// ledger's reply.
module hvia_rx_engine #(
    parameter int unsigned W = 32,
    parameter int unsigned MaxOutstanding = 1  // of dma_write
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic [47:0]      mac_i,  // wire byte 0 in bits 7:0
    input  logic             no_overlap_i,  // strap NoAttOverlap
    input  logic             short_bursts_i,  // strap ShortBursts

    // Packet buffer.
    input  logic             rx_valid_i,
    input  logic [10:0]      rx_len_i,    // bytes, with rx_end_i
    input  logic [10:0]      rx_avail_i,  // bytes that arrived
    input  logic             rx_end_i,    // all bytes arrived
    input  logic             rx_bad_i,    // with rx_end_i: the frame is bad
    output logic [$clog2(hvia_params_pkg::PacketSlotBytes*8/W)-1:0] rx_raddr_o,
    input  logic [W-1:0]     rx_rdata_i,
    output logic             rx_done_o,

    // VI context.
    output hvia_params_pkg::vi_t rd_vi_o,
    input  logic [127:0]     rd_ctx_i,

    // Receive descriptors on the chip; the data belongs to the index one clock earlier.
    output hvia_params_pkg::vi_t rs_vi_o,
    input  logic             rs_valid_i,
    input  logic             rs_stale_i,
    input  logic [511:0]     rs_chunk_i,
    input  logic [63:0]      rs_va_i,
    input  logic [31:0]      rs_pa_i,
    input  logic [31:0]      rs_handle_i,
    input  logic [15:0]      rs_seq_i,
    input  logic [15:0]      rs_control_i,
    input  logic [15:0]      rs_segments_i,
    input  logic [31:0]      rs_length_i,
    input  logic [31:0]      rs_status_i,
    output logic             drop_valid_o,
    output hvia_params_pkg::vi_t drop_vi_o,
    output logic             release_valid_o,
    input  logic             release_ready_i,
    output hvia_params_pkg::vi_t release_vi_o,
    output hvia_params_pkg::vi_t coming_vi_o,
    input  logic             coming_i,
    output logic             wanted_o,      // a message waits for the descriptor of coming_vi_o

    // Further segments.
    output logic             rxc_valid_o,
    input  logic             rxc_ready_i,
    output hvia_params_pkg::vi_t rxc_vi_o,
    output logic [63:0]      rxc_va_o,
    output logic [31:0]      rxc_handle_o,
    output logic             rxc_store_o,  // of the receive descriptor on the chip
    input  logic             rxc_done_i,
    input  logic             rxc_err_i,
    input  logic [511:0]     chunk_data_i,

    // Completion.
    output logic             cpl_valid_o,
    input  logic             cpl_ready_i,
    output hvia_params_pkg::vi_t cpl_vi_o,
    output logic [15:0]      cpl_seq_o,
    output logic [31:0]      cpl_pa_o,
    output logic [31:0]      cpl_handle_o,
    output logic [31:0]      cpl_length_o,
    output logic [31:0]      cpl_status_o,
    output logic [31:0]      cpl_immediate_o,
    output logic             cpl_has_immediate_o,
    output logic             cpl_write_o,

    // Acknowledgements of reliable VIs.
    output logic             rxa_valid_o,
    input  logic             rxa_ready_i,
    output logic [2:0]       rxa_op_o,
    output hvia_params_pkg::vi_t rxa_vi_o,
    output logic [31:0]      rxa_number_o,
    output logic [2:0]       rxa_code_o,
    output hvia_params_pkg::vi_t nak_sent_vi_o,
    input  logic             nak_sent_i,  // the VI one clock earlier was NAKed

    // The ledger of reliable VIs; its reply comes with ready.
    output logic             rxl_valid_o,
    input  logic             rxl_ready_i,
    output logic [2:0]       rxl_op_o,
    output hvia_params_pkg::vi_t rxl_vi_o,
    output logic [31:0]      rxl_number_o,
    output logic [2:0]       rxl_code_o,
    output logic [8:0]       rxl_status_o,
    output logic [63:0]      rxl_va_o,
    output logic [31:0]      rxl_handle_o,
    output logic [31:0]      rxl_length_o,
    input  logic             rxl_ok_i,
    input  logic [63:0]      rxl_va_i,
    input  logic [31:0]      rxl_handle_i,
    input  logic [31:0]      rxl_length_i,

    // Translation.
    output logic             att_req_valid_o,
    input  logic             att_req_ready_i,
    output logic [31:0]      att_req_handle_o,
    output logic [63:0]      att_req_va_o,
    output logic [31:0]      att_req_len_o,
    output logic [15:0]      att_req_tag_o,
    output logic [1:0]       att_req_access_o,
    output hvia_params_pkg::vi_t att_req_vi_o,
    input  logic             att_rsp_valid_i,
    input  logic [2:0]       att_rsp_err_i,
    input  logic [31:0]      att_rsp_pa_i,
    input  logic [12:0]      att_rsp_bytes_i,

    // Host bus, writes only.
    output logic             req_valid_o,
    input  logic             req_ready_i,
    output logic [31:0]      req_addr_o,
    output logic [9:0]       req_len_o,
    output logic [W-1:0]     wdata_o,
    output logic [W/8-1:0]   wstrb_o,
    output logic             wvalid_o,
    input  logic             wready_i,
    input  logic             wdone_i,
    input  logic             werr_i,

    // Raw frames.
    input  logic             rawrx_valid_i,
    // the buffer is taken, also for a frame that does not fit
    output logic             rawrx_ready_o,
    input  logic [31:0]      rawrx_pa_i,
    input  logic [15:0]      rawrx_capacity_i,
    output logic             rawrx_done_o,
    output logic [15:0]      rawrx_len_o,
    output logic             rawrx_err_o,

    // Sequence numbers, set when a VI is connected.
    input  logic             seq_init_valid_i,
    output logic             seq_init_ready_o,
    input  hvia_params_pkg::vi_t seq_init_vi_i,
    input  logic [31:0]      seq_init_value_i,

    // Asynchronous errors, one clock each.
    output logic             async_valid_o,
    output logic [7:0]       async_code_o,
    output logic [7:0]       async_vi_o,

    // Draining.
    input  logic [31:0]      drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    input  logic             flush_i,        // complete what drain_vi_i has here
    output logic             handle_busy_o,
    output logic             vi_busy_o,
    input  logic             clear_valid_i,  // drop what the VI has here
    input  hvia_params_pkg::vi_t clear_vi_i,

    output logic             stat_receive_frame_o,
    output logic             stat_receive_not_for_us_o,
    output logic             stat_receive_malformed_o,
    output logic             stat_receive_bad_vi_o,
    output logic             stat_receive_old_sequence_o,
    output logic             stat_receive_gap_o,
    output logic             stat_receive_protection_o,
    output logic             stat_receive_bus_error_o,
    output logic             stat_receive_aborted_o,
    output logic             stat_receive_unsupported_o,
    output logic             stat_receive_dropped_o,
    output logic             stat_receive_queue_empty_o,
    output logic             stat_receive_length_o,
    output logic             stat_receive_descriptor_error_o,
    output logic             stat_receive_message_o,
    output logic             stat_receive_read_limit_o,
    output logic             stat_receive_out_of_order_o,
    output logic             stat_receive_acknowledge_o,
    output logic             stat_receive_naked_o,
    output logic             stat_raw_receive_dropped_o,
    output logic             trace_valid_o,
    output logic [7:0]       trace_event_o,
    output logic [7:0]       trace_vi_o,
    output logic [15:0]      trace_seq_o,
    output logic             quiet_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;
  localparam int unsigned Bytes       = W / 8;
  localparam int unsigned WordW       = $clog2(hvia_params_pkg::PacketSlotBytes / Bytes);
  localparam int unsigned LaneW       = $clog2(Bytes);
  localparam int unsigned EthBytes    = hvia_pkg::EthernetHeaderSize;
  localparam int unsigned HeaderBytes = hvia_pkg::EthernetHeaderSize + hvia_pkg::ViaHeaderSize;
  // Complete header words. The next word has the end of the immediate data and the first payload.
  localparam int unsigned HeaderWords = HeaderBytes / Bytes;
  localparam int unsigned HeaderBits  = HeaderWords * W;
  localparam int unsigned TailBits    = 8 * HeaderBytes - HeaderBits;
  localparam logic [LaneW-1:0] PayloadLane = HeaderBytes[LaneW-1:0];
  localparam int unsigned ViByte      = EthBytes + hvia_pkg::ViaHeaderDestinationVIOffset + 1;
  // A read's descriptor starts with an address segment: number and position of its first data
  // segment.
  localparam logic [7:0] FirstData    = 8'd1;
  localparam int unsigned FirstPlace  = hvia_pkg::DescriptorSize / hvia_pkg::DataSegmentSize;

  // Error bits of a descriptor's status, stored without Done.
  localparam int unsigned ErrorBits = hvia_pkg::DescriptorStatusRemoteDescriptorErrorBit;
  localparam logic [ErrorBits-1:0] ProtectionError     =
      ErrorBits'(1) << (hvia_pkg::DescriptorStatusProtectionErrorBit - 1);
  localparam logic [ErrorBits-1:0] LengthError         =
      ErrorBits'(1) << (hvia_pkg::DescriptorStatusLengthErrorBit - 1);
  localparam logic [ErrorBits-1:0] TransportError      =
      ErrorBits'(1) << (hvia_pkg::DescriptorStatusTransportErrorBit - 1);
  localparam logic [ErrorBits-1:0] RDMAProtectionError =
      ErrorBits'(1) << (hvia_pkg::DescriptorStatusRDMAProtectionErrorBit - 1);

  typedef enum logic [4:0] {
    Idle,
    Head,
    Check,
    Begin,      // a First waits for its descriptor
    Locate,     // find the buffer of the next byte
    Fetch,      // request the chunk that has the next segment
    Chunk,      // receive it
    Write,
    Finish,    // wait for the end of the frame, release its slot
    Complete,  // pass a descriptor to completion
    Release,
    RawCheck,
    RawWrite,
    RawSmall,
    Flush,     // read the state of the drained VI
    Close,
    Tail,      // wait for the end of a frame for the ledger
    Ask,       // pass it to the ledger
    Find,      // the ledger names the read of a response
    Report     // report the response to the ledger
  } state_e;
  state_e state_q, state_d;
  state_e after_q, after_d;  // after Release

  // Counter of a frame.
  typedef enum logic [4:0] {
    FrameNone,
    FrameNotForUs,
    FrameMalformed,
    FrameBadVi,
    FrameOld,
    FrameUnsupported,
    FrameDropped,
    FrameQueueEmpty,
    FrameDescriptor,
    FrameLength,
    FrameProtection,
    FrameBusError,
    FrameGood,
    FrameReadLimit,
    FrameOutOfOrder,
    FrameAcknowledge,
    FrameNAKed
  } outcome_e;
  outcome_e outcome_q, outcome_d;

  logic [HeaderBits-1:0] header_q;
  logic [31:0]      immediate_q;
  logic [WordW-1:0] word_q;     // slot word on `rx_rdata_i`
  logic             word_ok_q;  // had arrived when read
  logic             word_in_q;  // inside the frame
  hvia_params_pkg::vi_t vi_q;

  // Reading the slot: using a word requests the next. A word that has not arrived is requested
  // anew. Where a frame ends early, a write in progress gets zeros.
  logic             next_word, beat_valid, beat_ready;
  logic [11:0]      word_begin, word_end;
  logic [W-1:0]     beat_data;
  assign next_word = ((state_q == Head) & word_ok_q) | (beat_valid & beat_ready);
  always_comb begin
    if ((state_q == Idle) | (state_q == RawCheck)) rx_raddr_o = '0;
    else rx_raddr_o = next_word ? word_q + 1'b1 : word_q;
  end
  assign word_begin = {1'b0, rx_raddr_o, {LaneW{1'b0}}};
  assign word_end   = word_begin + 12'(Bytes);
  assign beat_data  = word_in_q ? rx_rdata_i : '0;
  logic head_end;
  assign head_end = word_ok_q & (word_q == WordW'(HeaderWords - 1));

  always_ff @(posedge clk_i) begin
    if (state_q != Idle || rx_valid_i) begin
      word_q    <= rx_raddr_o;
      word_ok_q <= rx_end_i | (word_end <= {1'b0, rx_avail_i});
      word_in_q <= word_begin < {1'b0, rx_avail_i};
    end
    if (state_q == Head && word_ok_q) begin
      header_q <= {rx_rdata_i, header_q[HeaderBits-1:W]};
      // Read the VI's context, state and descriptor while the rest of the header arrives.
      if (word_q == WordW'(ViByte / Bytes)) vi_q <= rx_rdata_i[8*(ViByte%Bytes) +: VIW];
    end
    if (state_q == Idle && state_d == Flush) vi_q <= drain_vi_i;
    if (state_q == Check) immediate_q <= immediate_now;
  end

  // Header fields. They are big-endian; byte 0 of the frame lies in the lowest bits.
  logic [HeaderBits-8*EthBytes-1:0] via;
  logic [47:0] destination, source;
  logic [15:0] ether_type, payload_len, destination_vi, source_vi;
  logic [7:0]  flags;
  logic [3:0]  operation, version;
  logic [31:0] number, handle, send_offset, send_total;
  logic [63:0] address;
  logic [31:0] immediate_now;  // in `Check`
  logic        first, last, immediate;
  assign destination    = header_q[8*hvia_pkg::EthernetHeaderDestinationOffset +: 48];
  assign source         = header_q[8*hvia_pkg::EthernetHeaderSourceOffset +: 48];
  assign ether_type     = hvia_types_pkg::be16(
      header_q[8*hvia_pkg::EthernetHeaderEtherTypeOffset +: 16]);
  assign via            = header_q[HeaderBits-1:8*EthBytes];
  assign operation      = via[8*hvia_pkg::ViaHeaderOperationVersionOffset +
      hvia_pkg::ViaHeaderOperationVersionOperationLsb +: 4];
  assign version        = via[8*hvia_pkg::ViaHeaderOperationVersionOffset +
      hvia_pkg::ViaHeaderOperationVersionVersionLsb +: 4];
  assign flags          = via[8*hvia_pkg::ViaHeaderFlagsOffset +: 8];
  assign payload_len    = hvia_types_pkg::be16(via[8*hvia_pkg::ViaHeaderPayloadLengthOffset +: 16]);
  assign destination_vi = hvia_types_pkg::be16(via[8*hvia_pkg::ViaHeaderDestinationVIOffset +: 16]);
  assign source_vi      = hvia_types_pkg::be16(via[8*hvia_pkg::ViaHeaderSourceVIOffset +: 16]);
  assign number         = hvia_types_pkg::be32(via[8*hvia_pkg::ViaHeaderSequenceOffset +: 32]);
  assign address        = {hvia_types_pkg::be32(via[8*hvia_pkg::ViaHeaderAddressOffset +: 32]),
                           hvia_types_pkg::be32(via[8*hvia_pkg::ViaHeaderAddressOffset+32 +: 32])};
  assign {send_total, send_offset} = address;
  assign handle         = hvia_types_pkg::be32(via[8*hvia_pkg::ViaHeaderHandleOffset +: 32]);
  assign first          = flags[hvia_pkg::ViaHeaderFlagsFirstBit];
  assign last           = flags[hvia_pkg::ViaHeaderFlagsLastBit];
  assign immediate      = flags[hvia_pkg::ViaHeaderFlagsImmediateBit];
  assign immediate_now  = hvia_types_pkg::be32({rx_rdata_i[TailBits-1:0],
                           via[$bits(via)-1:8*hvia_pkg::ViaHeaderImmediateOffset]});

  // Context.
  logic [2:0]  ctx_state;
  logic        ctx_rdma_write, ctx_rdma_read, reliable, delivery;
  logic [2:0]  ctx_reliability;
  logic [7:0]  ctx_generation;
  logic [15:0] ctx_tag, ctx_peer_vi;
  logic [31:0] ctx_max;
  logic [47:0] ctx_peer_mac;
  assign rd_vi_o        = vi_q;
  assign ctx_state      = rd_ctx_i[hvia_pkg::VIContextAttributesStateLsb +: 3];
  assign ctx_rdma_write = rd_ctx_i[hvia_pkg::VIContextAttributesEnableRDMAWriteBit];
  assign ctx_rdma_read  = rd_ctx_i[hvia_pkg::VIContextAttributesEnableRDMAReadBit];
  assign ctx_reliability = rd_ctx_i[hvia_pkg::VIContextAttributesReliabilityLsb +: 3];
  assign ctx_generation = rd_ctx_i[hvia_pkg::VIContextAttributesGenerationLsb +: 8];
  assign ctx_tag        = rd_ctx_i[hvia_pkg::VIContextAttributesTagLsb +: 16];
  assign ctx_max        = rd_ctx_i[8*hvia_pkg::VIContextMaxTransferSizeOffset +: 32];
  assign ctx_peer_mac   = rd_ctx_i[8*hvia_pkg::VIContextPeerMacOffset +: 48];
  assign ctx_peer_vi    = rd_ctx_i[8*hvia_pkg::VIContextPeerVIOffset +: 16];
  assign delivery       = ctx_reliability == hvia_pkg::ReliabilityDelivery;
  assign reliable       = delivery | (ctx_reliability == hvia_pkg::ReliabilityReception);

  // State of each VI's message, and the next expected sequence number. The open flag is separate:
  // it must be valid for a VI that was never connected, and clearable at any time.
  typedef struct packed {
    logic                 dropped;   // drop until the next First
    logic                 immediate; // as the First set it
    logic                 rdma;
    logic                 read;      // a read response
    logic                 strange;   // the chunk on the chip is not that of `segment`
    logic [ErrorBits-1:0] errors;    // so far; nothing is written after one
    logic [7:0]           segment;   // of the last byte placed, or 0
    logic [31:0]          offset;    // in that segment, of the next byte
    logic [31:0]          written;   // bytes in memory
    logic [31:0]          received;  // bytes in frames
    logic [31:0]          total;     // length of a Send or read response, from its First
    logic [7:0]           segments;  // of the descriptor of a read
  } message_t;
  localparam int unsigned MessageBits = 5 + ErrorBits + 2 * 8 + 4 * 32;
  localparam int unsigned AgreedBits  = $clog2(hvia_pkg::SequenceAgreement);
  localparam logic [AgreedBits-1:0] LastAgreed =
      AgreedBits'(32'(hvia_pkg::SequenceAgreement) - 32'd1);
  localparam int unsigned MemoryBits  = AgreedBits + 32 + MessageBits + 32;
  logic [MemoryBits-1:0] mem[hvia_params_pkg::VICount];
  logic [MemoryBits-1:0] mem_rd_q, mem_wdata;
  hvia_params_pkg::vis_t open_q;
  logic         mem_write, open_set, open_clear, forget_q, forget;
  message_t     stored, message_q, message_d;
  logic [31:0]  expected, ahead, candidate, beyond;
  // stray frames in a row; see the header
  logic [AgreedBits-1:0] agreed, agreed_d;
  assign {agreed, candidate, stored, expected} = mem_rd_q;
  assign ahead  = number - expected;
  assign beyond = number - candidate;
  always_ff @(posedge clk_i) begin
    if (mem_write) mem[vi_q] <= mem_wdata;
    else if (seq_init_valid_i) mem[seq_init_vi_i] <= {{AgreedBits{1'b0}}, seq_init_value_i,
        {MessageBits{1'b0}}, seq_init_value_i};
  end
  always_ff @(posedge clk_i) begin
    if ((state_q == Head) | (state_q == Flush)) mem_rd_q <= mem[vi_q];
  end
  assign seq_init_ready_o = ~mem_write;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      open_q <= '0;
    end else begin
      if (seq_init_valid_i & seq_init_ready_o) open_q[seq_init_vi_i] <= 1'b0;
      if (open_set) open_q[vi_q] <= 1'b1;
      if (open_clear) open_q[vi_q] <= 1'b0;
      if (clear_valid_i) open_q[clear_vi_i] <= 1'b0;
    end
  end
  // A VI that is cleared while its frame is processed: the frame leaves no message state.
  assign forget = forget_q | (clear_valid_i & (clear_vi_i == vi_q));

  // Verdict on the frame in `Check`.
  logic to_us, group, is_via, malformed, too_long, bad_vi, old, gap, supported, rdma, needs;
  logic stranger, after_nak, send, request, response, acknowledgement, bad_acknowledgement;
  logic plain_rsp, fits, contradicts;
  logic [32:0] rsp_end;
  logic not_for_us, checked, gone, in_order, is_open, begins, continues, accept;
  logic near, agrees, astray, stray, stray_q;
  logic cut_open, lost_first, close, stored_needs;
  assign checked    = (state_q == Check) & word_ok_q;
  assign gone       = rx_end_i & rx_bad_i;
  assign to_us      = destination == mac_i;
  assign group      = destination[0];
  assign is_via     = ether_type == hvia_pkg::EtherTypeVia;
  assign not_for_us = ~to_us & (~group | is_via);
  assign too_long   = rx_end_i & ({1'b0, payload_len} + HeaderBytes[16:0] > {6'd0, rx_len_i});
  assign malformed  = (version != hvia_pkg::ViaVersion) |
                      (operation > hvia_pkg::FrameOperationAcknowledge) |
                      (flags[7:hvia_pkg::ViaHeaderFlagsReservedLsb] != 0) |
                      (payload_len > hvia_pkg::MaxPayload) | too_long;
  assign stranger   = (32'(destination_vi[7:0]) >= hvia_params_pkg::VICount) |
      (destination_vi[15:8] != ctx_generation) |
                      (source != ctx_peer_mac) | (source_vi != ctx_peer_vi);
  assign bad_vi     = (ctx_state != hvia_pkg::VIStateConnected) | stranger;
  assign old        = ahead[31];
  assign gap        = ahead != 32'd0;
  assign near       = ahead < hvia_pkg::SequenceWindow;
  assign agrees     = beyond < hvia_pkg::SequenceWindow;
  assign astray     = reliable ? old : ~near & ~(agrees & (agreed == LastAgreed));
  assign rdma       = operation == hvia_pkg::FrameOperationRDMAWrite;
  assign send       = operation == hvia_pkg::FrameOperationSend;
  assign request    = reliable & (operation == hvia_pkg::FrameOperationRDMAReadRequest);
  assign response   = reliable & (operation == hvia_pkg::FrameOperationRDMAReadResponse);
  assign supported  = rdma | send | request | response;
  assign needs      = send | (rdma & immediate);

  // Reliable VIs only. A frame after a NAK gets the NAK repeated. An acknowledgement never gets a
  // response: two cards that NAKed each other would go on forever.
  assign acknowledgement     = reliable & (operation == hvia_pkg::FrameOperationAcknowledge);
  assign bad_acknowledgement = (flags != 8'd0) | (payload_len != 16'd0) |
                               (immediate_now > {29'd0, hvia_pkg::AcknowledgeCodeTransport});
  assign after_nak = reliable & ~stranger & nak_sent_i & ~acknowledgement;
  // The last frame of a read response ends where the read does, the others before that.
  assign rsp_end   = {1'b0, send_offset} + {17'd0, payload_len};
  assign fits      = last ? rsp_end == {1'b0, send_total} : rsp_end < {1'b0, send_total};
  assign plain_rsp = response & ~immediate & fits;

  // `in_order`: the sequence number may be consumed. `stray`: only the number is wrong.
  assign in_order     = checked & ~gone & ~not_for_us & is_via & ~malformed & ~bad_vi & ~astray &
                        ~(reliable & (gap | after_nak | acknowledgement));
  assign stray        = checked & ~gone & ~not_for_us & is_via & ~malformed & ~bad_vi & astray &
      ~reliable;
  assign is_open      = open_q[vi_q];
  assign begins       = first & ~(reliable & is_open) &
                 (rdma | (send & (send_offset == 32'd0)) | (plain_rsp & (send_offset == 32'd0)) |
                         (request & last & ~immediate & (payload_len == 16'd0)));
  assign continues    = (rdma | send | plain_rsp) & ~first & is_open & ~gap &
      (rdma == stored.rdma) &
                        (response == stored.read) & (immediate == stored.immediate) &
                        (rdma | ((send_offset == stored.received) & (send_total == stored.total)));
  assign accept       = in_order & (begins | continues);
  assign contradicts  = in_order & reliable & ~accept;
  assign cut_open     = in_order & ~reliable & is_open & ~continues;
  assign lost_first   = in_order & ~reliable & ~is_open & ~stored.dropped & supported & ~begins;
  assign stored_needs = (~stored.rdma | stored.immediate) & ~stored.read;
  assign close        = cut_open & stored_needs;

  // `start`: a message starts. If it needs a receive descriptor, it takes the one on the chip
  // (`take`), or waits for one in flight (`wait_for`). `empty`: none on the chip, and none in
  // flight in this clock or the previous one.
  logic start, go_on, take, wait_for, empty, coming_q, no_right;
  logic [ErrorBits-1:0] found;
  assign start    = (accept & begins & ~close & ~request & ~response) |
      ((state_q == Begin) & ~bad_vi);
  assign go_on    = accept & continues & ~response;
  assign take     = start & needs & rs_valid_i;
  assign empty    = (state_q == Begin) & needs & ~rs_valid_i & ~coming_i & ~coming_q;
  assign wait_for = start & needs & ~rs_valid_i & ~empty;
  always_comb begin
    found = rs_status_i[ErrorBits:1];
    if (found == '0 && rs_length_i > ctx_max) found = LengthError;
  end
  // Right of the VI.
  assign no_right = (rdma & ~ctx_rdma_write) | (request & ~ctx_rdma_read);

  // The buffer of the next byte: the rest of the present segment, or the next one.
  logic [511:0] chunk_q;
  logic [1:0]   place;
  logic [127:0] segment;
  logic [63:0]  segment_va;
  logic [31:0]  segment_handle, segment_len, segment_left, space;
  logic [10:0]  left_q, part, part_q;
  logic         no_space, exhausted, place_last;
  logic [7:0]   segment_next, chunk_next, segments;
  logic [31:0]  limit, read_handle_q;
  logic [63:0]  read_va_q;
  assign place          = message_q.segment[1:0] + 2'(FirstPlace);
  assign segment        = chunk_q[{place, 7'd0} +: 128];
  assign segment_va     = segment[8*hvia_pkg::DataSegmentAddressOffset +: 64];
  assign segment_handle = segment[8*hvia_pkg::DataSegmentHandleOffset +: 32];
  assign segment_len    = segment[8*hvia_pkg::DataSegmentLengthOffset +: 32];
  assign segment_left   = segment_len - message_q.offset;
  assign segment_next   = message_q.segment + 8'd1;
  // The first chunk of a read's descriptor has its number of segments; the process may have changed
  // it since the read started, so it need not be the checked one.
  assign limit          = message_q.read ? message_q.total : rs_length_i;
  assign segments       = message_q.read ? message_q.segments : rs_segments_i[7:0];
  assign space          = limit - message_q.written;
  assign no_space       = (space == 32'd0) | (message_q.segment == segments) |
                          (message_q.read & (message_q.segment > segments));
  assign exhausted      = segment_left == 32'd0;
  assign place_last     = place == 2'd3;
  always_comb begin
    part = left_q;
    if ({21'd0, part} > segment_left) part = segment_left[10:0];
    if ({21'd0, part} > space) part = space[10:0];
  end
  assign chunk_next = message_q.segment + 8'(FirstPlace);

  assign rxc_valid_o  = state_q == Fetch;
  assign rxc_vi_o     = vi_q;
  assign rxc_va_o     = (message_q.read ? read_va_q : rs_va_i) + {52'd0, chunk_next[7:2], 6'd0};
  assign rxc_handle_o = message_q.read ? read_handle_q : rs_handle_i;
  assign rxc_store_o  = ~message_q.read;

  // Writing.
  logic        job_valid, job_ready, job_translated, job_done, dma_quiet, raw, raw_fits;
  logic        job_rdma, job_send, sending_q;
  logic [2:0]  job_err;
  logic        job_ok, job_bus, write_done, raw_done, raw_drop;
  logic        delivery_q;
  logic [15:0] tag_q, job_len;
  logic [31:0] job_handle_q, job_handle, job_bound;
  logic [63:0] job_va;
  logic        first_beat_q;
  logic [LaneW-1:0] lane_q, beat_offset;
  assign raw       = (state_q == RawCheck) & rx_end_i & ~rx_bad_i;
  assign raw_fits  = rawrx_valid_i & ({5'd0, rx_len_i} <= rawrx_capacity_i);
  assign raw_drop  = raw & ~rawrx_valid_i;
  assign rawrx_ready_o = raw;
  assign job_rdma = rdma & ~no_right & ((start & ~needs) | (take & (found == '0)) |
                                       (go_on & (stored.errors == '0)));
  assign job_send = (state_q == Locate) & (left_q != 11'd0) & ~no_space & ~exhausted;
  assign job_valid = job_rdma | job_send | (raw & raw_fits);
  assign beat_valid = ((state_q == Write) | (state_q == RawWrite)) & word_ok_q;
  assign beat_offset = (first_beat_q & (state_q == Write)) ? lane_q : '0;

  always_comb begin
    if (raw) begin
      job_handle = 32'd0;
      job_va     = {32'd0, rawrx_pa_i};
      job_len    = {5'd0, rx_len_i};
      job_bound  = {21'd0, rx_len_i};
    end else if (state_q == Locate) begin
      // The whole rest of the segment must be reachable, so that it is used or rejected as a whole.
      job_handle = segment_handle;
      job_va     = segment_va + {32'd0, message_q.offset};
      job_len    = {5'd0, part};
      job_bound  = segment_left;
    end else begin
      job_handle = handle;
      job_va     = address;
      job_len    = payload_len;
      job_bound  = {16'd0, payload_len};
    end
  end

  // A write is requested when all of its words are in the slot. One that waits for the MAC would
  // hold the system bus, and the MAC may wait for a frame whose bytes must come over that bus.
  logic        write_valid, write_in;
  logic [10:0] write_begin_q;  // in the frame, of the bytes not requested yet
  logic [11:0] write_end;
  assign write_end   = {1'b0, write_begin_q} + {2'b00, req_len_o};
  assign write_in    = rx_end_i | (write_end <= {1'b0, rx_avail_i[10:LaneW], {LaneW{1'b0}}});
  assign req_valid_o = write_valid & write_in;
  always_ff @(posedge clk_i) begin
    if (checked) write_begin_q <= HeaderBytes[10:0];
    else if (req_valid_o & req_ready_i) write_begin_q <= write_end[10:0];
  end

  hvia_dma_write #(.W(W), .MaxOutstanding(MaxOutstanding)) u_dma (
      .clk_i, .rst_ni, .no_overlap_i, .short_bursts_i,
      .job_valid_i(job_valid), .job_ready_o(job_ready), .job_physical_i(raw),
      .job_handle_i(job_handle), .job_va_i(job_va), .job_len_i(job_len), .job_bound_i(job_bound),
      .job_tag_i((state_q == Locate) ? tag_q : ctx_tag), .job_access_i(
          (state_q == Locate) ? hvia_pkg::AttAccessLocal : hvia_pkg::AttAccessRemoteWrite),
      .job_translated_o(job_translated), .job_done_o(job_done), .job_err_o(job_err),
      .beat_valid_i(beat_valid), .beat_ready_o(beat_ready), .beat_data_i(beat_data),
      .beat_offset_i(beat_offset), .beat_bytes_i((LaneW + 1)'(Bytes) - {1'b0, beat_offset}),
      .att_req_valid_o, .att_req_ready_i, .att_req_handle_o, .att_req_va_o, .att_req_len_o,
      .att_req_tag_o, .att_req_access_o, .att_rsp_valid_i, .att_rsp_err_i, .att_rsp_pa_i,
      .att_rsp_bytes_i,
      .req_valid_o(write_valid), .req_ready_i(req_ready_i & write_in), .req_addr_o, .req_len_o,
      .wdata_o, .wstrb_o, .wvalid_o, .wready_i, .wdone_i, .werr_i, .quiet_o(dma_quiet)
  );
  assign att_req_vi_o = vi_q;

  assign job_ok     = job_err == hvia_pkg::AttErrorNone;
  assign job_bus    = job_err == hvia_pkg::AttErrorBackend;
  assign write_done = (state_q == Write) & job_done;
  assign raw_done   = (state_q == RawWrite) & job_done;

  // The end of a frame.
  logic mine_q;   // it consumed its number
  logic held_q;   // its message has a descriptor
  logic plain_q;  // it belongs to an RDMA write without immediate data
  logic gap_q, leave, lost, open_next, fin_async, fin_abort, short_frame, resting;
  logic reliable_q;  // the VI is reliable
  logic response_q;  // and the frame is part of a read response
  logic early, reported_q, report_due, fetched_q, broken, cut_q;
  logic [2:0] rest_q;
  // A frame shorter than its header claims, unknown until it was complete.
  assign short_frame = too_long & is_via & (outcome_q != FrameNotForUs) & (outcome_q != FrameNone);
  assign lost        = rx_bad_i | ((mine_q | stray_q) & short_frame);
  assign open_next   = ~last & ~lost & ((held_q & ~reliable_q) |
      ((held_q | plain_q) & (outcome_q == FrameGood)));
  // The frame breaks its connection.
  assign broken      = reliable_q & mine_q & ~lost & (outcome_q != FrameGood) &
      (outcome_q != FrameBadVi);
  always_comb begin
    fin_abort = 1'b0;
    fin_async = 1'b0;
    if (reliable_q) begin
      // The ledger reports errors in the buffers of a read.
      fin_async = broken & ~(response_q & (outcome_q != FrameNAKed));
    end else if (lost) begin
      fin_abort = plain_q;
      fin_async = plain_q;
    end else begin
      fin_abort = plain_q & (outcome_q == FrameBusError);
      fin_async = (plain_q & ((outcome_q == FrameBusError) | (outcome_q == FrameProtection))) |
                  (outcome_q == FrameQueueEmpty);
    end
  end
  // The collector of asynchronous errors has one slot for this engine and serves others first, so
  // the next error waits for a few clocks. Only two errors of one frame come that close together.
  assign resting = rest_q != 3'd0;
  assign leave   = (state_q == Finish) & rx_end_i & ~(fin_async & resting) &
      ~(report_due & rxa_valid_o);

  assign mem_write = leave & (mine_q | stray_q);
  always_comb begin
    message_d = message_q;
    message_d.dropped   = lost | (~last & ~open_next);
    message_d.received  = message_q.received + {16'd0, payload_len};
    // A lost frame of a reliable VI is retransmitted and must find the same state. A stray frame
    // belongs to no message.
    if ((reliable_q & lost) | stray_q) begin
      message_d         = stored;
      message_d.strange = stored.strange | fetched_q;
    end
    agreed_d = agreed;
    if (stray_q & ~lost & agrees) agreed_d = agreed + 1'b1;
    else if (stray_q & ~lost & ~(&beyond)) agreed_d = AgreedBits'(1);
    mem_wdata = {agreed_d, lost ? candidate : number + 32'd1, message_d,
        (lost | stray_q) ? expected : number + 32'd1};
  end
  assign open_set   = leave & mine_q & open_next & ~forget;
  assign open_clear = (leave & mine_q & ~open_next & ~(reliable_q & lost)) | cut_open |
                      ((state_q == Close) & ~close_wait);

  // A frame of a reliable VI is reported to `acknowledge` when it is complete, at its end at the
  // latest.
  logic        rxa_valid_q;
  logic [2:0]  rxa_op_q, rxa_code_q, report_op, report_code;
  hvia_params_pkg::vi_t rxa_vi_q;
  logic [31:0] rxa_number_q, report_number;
  assign early    = (state_q == Write) & reliable_q & delivery_q & job_translated & ~reported_q &
      (~sending_q | (left_q == part_q)) & rx_end_i & ~rx_bad_i & ~too_long & ~rxa_valid_q &
      ~forget;
  always_comb begin
    report_due    = 1'b0;
    report_op     = last ? hvia_pkg::AcknowledgeOperationAcceptLast :
        hvia_pkg::AcknowledgeOperationAccept;
    report_number = number + 32'd1;
    report_code   = hvia_pkg::AcknowledgeCodeOk;
    if (~mine_q) begin
      // Other outcomes cause no acknowledgement.
      report_due    = (outcome_q == FrameOld) | (outcome_q == FrameOutOfOrder) |
          (outcome_q == FrameNAKed);
      report_number = expected;
      report_op     = (outcome_q == FrameOld) ? hvia_pkg::AcknowledgeOperationOld :
                   (outcome_q == FrameOutOfOrder) ? hvia_pkg::AcknowledgeOperationGap :
                   hvia_pkg::AcknowledgeOperationAgain;
    end else if (early | (outcome_q == FrameGood)) begin
      report_due    = ~reported_q;
    end else begin
      report_due    = broken;
      report_number = number;
      report_op     = hvia_pkg::AcknowledgeOperationNAK;
      unique case (outcome_q)
        FrameQueueEmpty, FrameDescriptor, FrameLength: begin
          report_code = response_q ? hvia_pkg::AcknowledgeCodeTransport :
              hvia_pkg::AcknowledgeCodeRemoteDescriptor;
        end
        FrameProtection: report_code = hvia_pkg::AcknowledgeCodeRDMAProtection;
        default:         report_code = hvia_pkg::AcknowledgeCodeTransport;
      endcase
    end
    report_due = report_due & reliable_q & ~rx_bad_i & ~short_frame & ~forget;
  end
  always_ff @(posedge clk_i) begin
    if (!rst_ni) rxa_valid_q <= 1'b0;
    else if (early | (leave & report_due)) rxa_valid_q <= 1'b1;
    else if (rxa_ready_i | (clear_valid_i & (clear_vi_i == rxa_vi_q))) rxa_valid_q <= 1'b0;
  end
  always_ff @(posedge clk_i) begin
    if (early | (leave & report_due)) begin
      rxa_vi_q     <= vi_q;
      rxa_op_q     <= report_op;
      rxa_number_q <= report_number;
      rxa_code_q   <= report_code;
    end
    if (state_q == Check) reported_q <= 1'b0;
    else if (early) reported_q <= 1'b1;
  end
  assign rxa_valid_o   = rxa_valid_q;
  assign rxa_op_o      = rxa_op_q;
  assign rxa_vi_o      = rxa_vi_q;
  assign rxa_number_o  = rxa_number_q;
  assign rxa_code_o    = rxa_code_q;
  assign nak_sent_vi_o = vi_q;

  // The ledger.
  logic lost_now;
  assign lost_now     = rx_bad_i | too_long;
  assign rxl_valid_o  = (state_q == Ask) | (state_q == Find) |
      ((state_q == Report) & rx_end_i & ~lost_now);
  assign rxl_vi_o     = vi_q;
  assign rxl_number_o = number;
  assign rxl_code_o   = immediate_q[2:0];
  assign rxl_status_o = {message_q.errors, 1'b0};
  assign rxl_va_o     = address;
  assign rxl_handle_o = handle;
  assign rxl_length_o = immediate_q;
  always_comb begin
    unique case (state_q)
      Ask:     rxl_op_o = mine_q ? hvia_pkg::ReceiveReportRequest :
          hvia_pkg::ReceiveReportAcknowledge;
      Find:    rxl_op_o = hvia_pkg::ReceiveReportFind;
      default: rxl_op_o = ((outcome_q == FrameGood) & ~last) ? hvia_pkg::ReceiveReportProgress :
                                                               hvia_pkg::ReceiveReportAnswered;
    endcase
  end

  // A flushed VI: its open message, then every descriptor that is on the chip or arrives.
  logic flushed_q, asked_q, flush_want, close_wait, close_end;
  assign flush_want = flush_i & (~flushed_q | (asked_q & rs_valid_i));
  assign close_wait = is_open & ~stored_needs & ~stored.read & resting;
  assign close_end  = (state_q == Close) & ~is_open & ~rs_valid_i;
  assign rs_vi_o    = ((state_q == Idle) & flush_i) ? drain_vi_i : vi_q;

  // The end of the payload.
  state_e ended, locate_or_fetch;
  assign ended = response_q ? Report : Finish;

  always_comb begin
    state_d   = state_q;
    after_d   = after_q;
    outcome_d = outcome_q;
    unique case (state_q)
      Idle: begin
        if (flush_want) state_d = Flush;
        else if (rx_valid_i) state_d = Head;
      end
      Head: if (head_end) state_d = Check;
      Check: begin
        if (checked) begin
          state_d = Finish;
          after_d = Finish;
          if (gone) outcome_d = FrameNone;
          else if (not_for_us) outcome_d = FrameNotForUs;
          else if (~is_via) state_d = RawCheck;
          else if (malformed) outcome_d = FrameMalformed;
          else if (after_nak) outcome_d = FrameNAKed;
          else if (bad_vi) outcome_d = FrameBadVi;
          else if (acknowledgement) begin
            outcome_d = bad_acknowledgement ? FrameMalformed : FrameAcknowledge;
            if (~bad_acknowledgement) state_d = rx_end_i ? Ask : Tail;
          end else if (astray & old) outcome_d = FrameOld;
          else if (astray | (reliable & gap)) outcome_d = FrameOutOfOrder;
          else if (contradicts) outcome_d = FrameNAKed;
          else if (~supported) outcome_d = FrameUnsupported;
          else if (~accept) outcome_d = FrameDropped;
          else if (request) begin
            outcome_d = no_right ? FrameProtection : FrameGood;
            if (~no_right) state_d = rx_end_i ? Ask : Tail;
          end else if (response) state_d = Find;
          else if (go_on) begin
            if (stored.errors != '0) outcome_d = FrameDropped;
            else if (no_right) outcome_d = FrameProtection;
            else state_d = rdma ? Write : locate_or_fetch;
          end
          if (close) begin
            state_d = Complete;
            if (accept) after_d = Begin;
          end
        end
      end
      Begin: if (bad_vi) begin
        state_d   = Finish;
        outcome_d = FrameBadVi;
      end
      Locate: begin
        if (left_q == 11'd0) begin
          state_d   = ended;
          outcome_d = FrameGood;
        end else if (no_space) begin
          state_d   = ended;
          outcome_d = FrameLength;
        end else if (exhausted) begin
          if (place_last && segment_next != segments) state_d = Fetch;
        end else begin
          state_d = Write;
        end
      end
      Fetch: if (rxc_ready_i) state_d = Chunk;
      Chunk: if (rxc_done_i) begin
        state_d   = rxc_err_i ? ended : Locate;
        outcome_d = FrameDescriptor;
      end
      Write: if (job_done) begin
        state_d = ended;
        if (job_bus) outcome_d = FrameBusError;
        else if (~job_ok) outcome_d = rdma ? FrameProtection : FrameDescriptor;
        else if (sending_q && left_q != part_q) state_d = Locate;
        else outcome_d = FrameGood;
      end
      Finish: if (leave) begin
        state_d = (held_q & (reliable_q ? ~lost & ((outcome_q == FrameGood) ? last : broken) :
            last | lost) &
                   ~forget) ? Complete : Idle;
        after_d = Idle;
      end
      Complete: if (cpl_ready_i) state_d = forget ? after_q : Release;
      Release:  if (release_ready_i) state_d = after_q;
      RawCheck: begin
        // Request the slot's first word anew.
        if (gone) state_d = Idle;
        else if (rx_end_i) state_d = raw_fits ? RawWrite : rawrx_valid_i ? RawSmall : Idle;
      end
      // The buffer is returned with an error one clock after it was taken.
      RawSmall: state_d = Idle;
      RawWrite: if (job_done) state_d = Idle;
      Flush:    state_d = Close;
      Close: begin
        after_d = Idle;
        if (is_open ? stored_needs : rs_valid_i) state_d = Complete;
        else if (~is_open) state_d = Idle;
      end
      Tail: if (rx_end_i) begin
        state_d = (lost_now | bad_vi) ? Finish : Ask;
        if (bad_vi) outcome_d = FrameBadVi;
      end
      Ask: if (rxl_ready_i) begin
        state_d = Finish;
        if (mine_q & ~rxl_ok_i) outcome_d = FrameReadLimit;
      end
      Find: if (rxl_ready_i) begin
        if (~rxl_ok_i | (rxl_length_i != send_total)) begin
          state_d   = Finish;
          outcome_d = FrameNAKed;
        end else begin
          state_d = (payload_len == 16'd0) ? Locate : Fetch;
        end
      end
      Report: if (rx_end_i & (lost_now | rxl_ready_i)) state_d = Finish;
      default: state_d = Idle;
    endcase
    if (start) begin
      if (empty) begin
        state_d   = Finish;
        outcome_d = FrameQueueEmpty;
      end else if (wait_for) begin
        state_d = Begin;
      end else if (needs && found != '0) begin
        state_d   = Finish;
        outcome_d = FrameDescriptor;
      end else if (no_right) begin
        state_d   = Finish;
        outcome_d = FrameProtection;
      end else begin
        state_d = rdma ? Write : locate_or_fetch;
      end
    end
  end
  // A lost frame may have left another chunk on the chip.
  assign locate_or_fetch = (stored.strange & (payload_len != 16'd0)) ? Fetch : Locate;
  assign rx_done_o = leave | (((state_q == RawCheck) | (state_q == RawSmall) |
      (state_q == RawWrite)) & (state_d == Idle));

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q      <= Idle;
      flushed_q    <= 1'b0;
      asked_q      <= 1'b0;
      rest_q       <= 3'd0;
      forget_q     <= 1'b0;
    end else begin
      state_q   <= state_d;
      flushed_q <= flush_i & (flushed_q | close_end);
      asked_q   <= flush_i & (state_q == Idle) & ~flush_want;
      if (async_valid_o) rest_q <= 3'd6;
      else if (resting) rest_q <= rest_q - 3'd1;
      forget_q  <= forget & (state_q != Idle) & (state_q != Head);
    end
  end

  always_ff @(posedge clk_i) begin
    if (state_q != Idle) begin
      after_q   <= after_d;
      outcome_q <= outcome_d;
      coming_q  <= coming_i;
    end
    if (checked) begin
      mine_q  <= in_order;
      stray_q <= stray;
      gap_q   <= gap;
      held_q  <= take | (go_on & needs) | (contradicts & is_open & stored_needs);
      plain_q <= accept & ~needs;
      reliable_q <= reliable;
      delivery_q <= delivery;
      response_q <= response & accept;
      cut_q      <= contradicts & is_open & ~stored.read;
      fetched_q  <= 1'b0;
      left_q  <= payload_len[10:0];
      lane_q  <= PayloadLane;
      message_q <= stored;
    end
    if ((state_q == Check) | (state_q == Begin)) begin
      tag_q   <= ctx_tag;
      chunk_q <= rs_chunk_i;
    end
    if ((state_q == Chunk) & rxc_done_i) begin
      chunk_q   <= chunk_data_i;
      fetched_q <= fetched_q | (~rxc_err_i & ~message_q.read);
    end
    if (take) held_q <= 1'b1;
    if ((state_q == Begin) & bad_vi) plain_q <= 1'b0;
    if ((state_q == Ask) & rxl_ready_i & ~rxl_ok_i) mine_q <= 1'b0;
    if ((state_q == Tail) & bad_vi) mine_q <= 1'b0;
    if (state_q == Find) begin
      read_va_q     <= rxl_va_i;
      read_handle_q <= rxl_handle_i;
    end

    if (start) begin
      message_q           <= '0;
      message_q.immediate <= immediate;
      message_q.rdma      <= rdma;
      message_q.total     <= send_total;
      message_q.strange   <= stored.strange;
      if (take) message_q.errors <= (found != '0) ? found : no_right ? RDMAProtectionError : '0;
    end else if (go_on & no_right & (stored.errors == '0)) begin
      message_q.errors <= RDMAProtectionError;
    end
    if (accept & response & begins) begin
      message_q         <= '0;
      message_q.read    <= 1'b1;
      message_q.strange <= stored.strange;
      message_q.segment <= FirstData;
      message_q.total   <= send_total;
    end
    if (state_q == Close) begin
      message_q <= is_open ? stored : '0;
    end
    if ((state_q == Chunk) & rxc_done_i & ~rxc_err_i) begin
      if (~message_q.read) message_q.strange <= 1'b0;
      // The first chunk has the number of segments.
      else if (message_q.segment ==
          FirstData) message_q.segments <= chunk_data_i[8*hvia_pkg::DescriptorSegmentCountOffset +:
          8];
    end

    if ((state_q == Locate) & (left_q != 11'd0)) begin
      if (no_space) begin
        message_q.errors <= message_q.errors | LengthError;
      end else if (exhausted) begin
        message_q.segment <= segment_next;
        message_q.offset  <= 32'd0;
      end
    end
    if ((state_q == Chunk) & rxc_done_i & rxc_err_i) message_q.errors <= message_q.errors |
        ProtectionError;

    if (job_valid) begin
      part_q       <= job_len[10:0];
      job_handle_q <= job_handle;
      sending_q    <= job_send;
      first_beat_q <= 1'b1;
    end else if (beat_valid & beat_ready) begin
      first_beat_q <= 1'b0;
    end
    if (write_done) begin
      if (job_ok) begin
        message_q.written <= message_q.written + {21'd0, part_q};
        message_q.offset  <= message_q.offset + {21'd0, part_q};
        left_q            <= left_q - part_q;
        lane_q            <= lane_q + part_q[LaneW-1:0];
      end else if (job_bus) begin
        message_q.errors <= message_q.errors | TransportError;
      end else begin
        message_q.errors <= message_q.errors | (rdma ? RDMAProtectionError : ProtectionError);
      end
    end
  end

  // Completion. The descriptor is named by registers from the clock of the decision on: its slot on
  // the chip may be cleared or marked while completion is busy.
  logic        cpl_partial_q, cpl_flushed_q, cpl_immediate_q, cpl_message_q, cpl_write_q;
  logic [15:0] cpl_seq_q;
  logic [31:0] cpl_pa_q, cpl_handle_q;
  always_ff @(posedge clk_i) begin
    if (state_q != Complete && state_d == Complete) begin
      cpl_partial_q   <= (state_q == Check) | ((state_q == Finish) & cut_q) |
          ((state_q == Finish) & lost) | ((state_q == Close) & is_open);
      cpl_flushed_q   <= state_q == Close;
      cpl_immediate_q <= (state_q == Finish) & ~lost & immediate & ~cut_q;
      cpl_message_q   <= (state_q != Close) | is_open;
      cpl_write_q     <= ~rs_stale_i;
      cpl_seq_q       <= rs_seq_i;
      cpl_pa_q        <= rs_pa_i;
      cpl_handle_q    <= rs_handle_i;
    end
  end
  assign cpl_valid_o         = state_q == Complete;
  assign cpl_vi_o            = vi_q;
  assign cpl_seq_o           = cpl_seq_q;
  assign cpl_pa_o            = cpl_pa_q;
  assign cpl_handle_o        = cpl_handle_q;
  assign cpl_length_o        = message_q.written;
  assign cpl_immediate_o     = immediate_q;
  assign cpl_has_immediate_o = cpl_immediate_q;
  assign cpl_write_o         = cpl_write_q;
  always_comb begin
    cpl_status_o = 32'd0;
    cpl_status_o[ErrorBits:1] = message_q.errors;
    cpl_status_o[hvia_pkg::DescriptorStatusDoneBit] = 1'b1;
    if (cpl_partial_q) cpl_status_o[hvia_pkg::DescriptorStatusPartialErrorBit] = 1'b1;
    if (cpl_flushed_q) cpl_status_o[hvia_pkg::DescriptorStatusFlushedBit] = 1'b1;
    cpl_status_o[hvia_pkg::DescriptorStatusOperationLsb +: hvia_pkg::StatusOperationBits] =
        message_q.rdma ? hvia_pkg::StatusOperationRemoteRDMAWrite :
            hvia_pkg::StatusOperationReceive;
    cpl_status_o[hvia_pkg::DescriptorStatusImmediateBit] = cpl_immediate_q;
  end

  assign drop_valid_o    = (state_q == Complete) & cpl_ready_i & ~forget;
  assign drop_vi_o       = vi_q;
  assign release_valid_o = state_q == Release;
  assign release_vi_o    = vi_q;
  assign coming_vi_o     = vi_q;
  assign wanted_o        = wait_for;

  assign rawrx_done_o = raw_done | (state_q == RawSmall);
  assign rawrx_len_o  = {5'd0, rx_len_i};
  assign rawrx_err_o  = (state_q == RawSmall) | ~job_ok;

  // Asynchronous errors: a message without a descriptor was cut off, or an error of `Finish`.
  logic cut_plain, close_plain;
  assign cut_plain   = (cut_open & ~stored_needs) | (lost_first & ~needs);
  assign close_plain = (state_q == Close) & is_open & ~stored_needs & ~stored.read & ~close_wait;
  assign async_valid_o = cut_plain | close_plain | (leave & fin_async);
  always_comb begin
    async_code_o = hvia_pkg::AsyncErrorRDMAWriteProtection;
    if (cut_plain | close_plain | fin_abort) async_code_o = hvia_pkg::AsyncErrorRDMAWriteAbort;
    else if (outcome_q == FrameQueueEmpty) async_code_o = hvia_pkg::AsyncErrorReceiveQueueEmpty;
    else if (reliable_q) begin
      async_code_o = hvia_pkg::AsyncErrorConnectionLost;
      if (outcome_q == FrameBusError & plain_q) async_code_o = hvia_pkg::AsyncErrorRDMATransport;
      if (outcome_q == FrameProtection & plain_q) begin
        async_code_o = rdma ? hvia_pkg::AsyncErrorRDMAWriteProtection :
            hvia_pkg::AsyncErrorRDMAReadProtection;
      end
    end
  end
  assign async_vi_o = 8'(vi_q);

  // Only good frames are counted by outcome, so that the sum matches the MAC's count of good
  // frames. The MAC counts bad ones separately.
  outcome_e counted;
  always_comb begin
    counted = FrameNone;
    if (leave & ~rx_bad_i) counted = short_frame ? FrameMalformed : outcome_q;
  end
  assign stat_receive_frame_o            = counted == FrameGood;
  assign stat_receive_not_for_us_o       = counted == FrameNotForUs;
  assign stat_receive_malformed_o        = counted == FrameMalformed;
  assign stat_receive_bad_vi_o           = counted == FrameBadVi;
  assign stat_receive_old_sequence_o     = counted == FrameOld;
  assign stat_receive_protection_o       = counted == FrameProtection;
  assign stat_receive_bus_error_o        = counted == FrameBusError;
  assign stat_receive_unsupported_o      = counted == FrameUnsupported;
  assign stat_receive_dropped_o          = counted == FrameDropped;
  assign stat_receive_queue_empty_o      = counted == FrameQueueEmpty;
  assign stat_receive_length_o           = counted == FrameLength;
  assign stat_receive_descriptor_error_o = counted == FrameDescriptor;
  assign stat_receive_gap_o              = leave & mine_q & gap_q & ~lost;
  assign stat_receive_aborted_o          = cut_open | lost_first |
      (leave & (cut_q ? ~lost : mine_q & lost & (held_q | plain_q) & ~reliable_q)) |
                                      ((state_q == Close) & is_open & ~stored.read & ~close_wait);
  assign stat_receive_message_o          = cpl_valid_o & cpl_ready_i & cpl_message_q;
  assign stat_receive_read_limit_o       = counted == FrameReadLimit;
  assign stat_receive_out_of_order_o     = counted == FrameOutOfOrder;
  assign stat_receive_acknowledge_o      = counted == FrameAcknowledge;
  assign stat_receive_naked_o            = counted == FrameNAKed;
  assign stat_raw_receive_dropped_o      = raw_drop;

  // The frame's last byte is written, or it has none.
  logic written, translated, translated_q;
  assign translated = (state_q == Write) & job_translated & ~translated_q;
  assign written    = (write_done & job_ok & (~sending_q | (left_q == part_q))) |
                      ((state_q == Locate) & (left_q == 11'd0));
  always_ff @(posedge clk_i) begin
    if (state_q == Check) translated_q <= 1'b0;
    else if (translated) translated_q <= 1'b1;
  end
  assign trace_valid_o = accept | translated | written;
  assign trace_event_o = accept ? hvia_pkg::TraceEventReceiveParsed :
               written ? hvia_pkg::TraceEventReceiveWritten : hvia_pkg::TraceEventReceiveTranslated;
  assign trace_vi_o    = 8'(vi_q);
  assign trace_seq_o   = number[15:0];

  // Draining. Until the verdict a frame holds nothing: the check uses the context of that time.
  logic works, unused;
  always_comb begin
    unique case (state_q)
      Begin, Locate, Fetch, Chunk, Write, Complete, Release, Flush, Close, Tail, Ask, Find,
          Report: works = 1'b1;
      Finish:  works = mine_q | stray_q | report_due;
      default: works = in_order | stray;
    endcase
  end
  assign handle_busy_o = ((state_q == Write) & (job_handle_q == drain_handle_i)) |
                         ((state_q == Complete) & (cpl_handle_q == drain_handle_i));
  assign vi_busy_o     =
      (works & (vi_q == drain_vi_i)) | flush_want | (rxa_valid_q & (rxa_vi_q == drain_vi_i));

  assign unused = job_ready ^ (^rs_control_i) ^ (^rs_segments_i[15:8]) ^
                  (^rs_status_i[31:ErrorBits+1]) ^ rs_status_i[0] ^ (^chunk_next[1:0]);

  assign quiet_o = (state_q == Idle) & ~rx_valid_i & ~seq_init_valid_i & ~clear_valid_i & ~resting &
                   ~flush_want & (asked_q == flush_i) & (flushed_q == flush_i) & dma_quiet &
                       ~rxa_valid_q;

endmodule
