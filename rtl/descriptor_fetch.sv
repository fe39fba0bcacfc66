// SPDX-License-Identifier: Apache-2.0

// Descriptor fetch. Takes the next descriptor of a ready send queue, translates its virtual address,
// reads its first 64 bytes in one burst, gives the link to the queue, checks the format and hands
// the descriptor to the transmit engine. One descriptor is fetched while the engine works on the
// one before it.
//
// A descriptor whose VI is not connected is fetched all the same, to flush it in order. One that
// cannot be reached has no status word to write to: it is counted, reported as an asynchronous
// error, and the rest of its queue is forgotten, because its link is unknown.
module descriptor_fetch #(
    parameter int unsigned W = 32
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    // Queue.
    input  logic            take_valid_i,
    output logic            take_ready_o,
    input  logic [7:0]      take_vi_i,
    input  logic [63:0]     take_va_i,
    input  logic [31:0]     take_handle_i,
    input  logic            take_more_i,
    input  logic [15:0]     take_seq_i,
    output logic            link_valid_o,
    input  logic            link_ready_i,
    output logic            link_bad_o,
    output logic [7:0]      link_vi_o,
    output logic [63:0]     link_va_o,
    output logic [31:0]     link_handle_o,
    // VI context.
    output logic [7:0]      rd_vi_o,
    input  logic [127:0]    rd_ctx_i,
    // Translation.
    output logic            att_req_valid_o,
    input  logic            att_req_ready_i,
    output logic [31:0]     att_req_handle_o,
    output logic [63:0]     att_req_va_o,
    output logic [31:0]     att_req_len_o,
    output logic [15:0]     att_req_tag_o,
    output logic [1:0]      att_req_access_o,
    output logic [7:0]      att_req_vi_o,
    input  logic            att_rsp_valid_i,
    input  logic [2:0]      att_rsp_err_i,
    input  logic [31:0]     att_rsp_pa_i,
    // Host bus, reads only.
    output logic            req_valid_o,
    input  logic            req_ready_i,
    output logic [31:0]     req_addr_o,
    output logic [9:0]      req_len_o,
    input  logic [W-1:0]    rdata_i,
    input  logic            rvalid_i,
    output logic            rready_o,
    input  logic            rlast_i,
    input  logic            rerr_i,
    // Transmit engine.
    output logic            desc_valid_o,
    input  logic            desc_ready_i,
    output logic [7:0]      desc_vi_o,
    output logic [15:0]     desc_seq_o,
    output logic [31:0]     desc_pa_o,
    output logic [31:0]     desc_handle_o,
    output logic [15:0]     desc_control_o,
    output logic [15:0]     desc_seg_count_o,
    output logic [31:0]     desc_immediate_o,
    output logic [31:0]     desc_length_o,
    output logic [63:0]     desc_remote_va_o,
    output logic [31:0]     desc_remote_handle_o,
    output logic [63:0]     desc_data_va_o,
    output logic [31:0]     desc_data_handle_o,
    output logic [31:0]     desc_data_len_o,
    output logic [31:0]     desc_status_o,
    // Draining.
    input  logic [31:0]     drain_handle_i,
    input  logic [7:0]      drain_vi_i,
    output logic            handle_busy_o,
    output logic            vi_busy_o,
    // Asynchronous error.
    output logic            async_valid_o,
    output logic [7:0]      async_code_o,
    output logic [7:0]      async_vi_o,
    output logic            stat_descriptor_fetched_o,
    output logic            stat_descriptor_bad_o,
    output logic            trace_valid_o,
    output logic [7:0]      trace_event_o,
    output logic [7:0]      trace_vi_o,
    output logic [15:0]     trace_seq_o,
    output logic            quiet_o
);

  localparam int unsigned Bytes      = hvia_pkg::DescriptorFetchBytes;
  localparam int unsigned Address    = hvia_pkg::DescriptorSize;
  localparam int unsigned Data       = hvia_pkg::DescriptorSize + hvia_pkg::AddressSegmentSize;

  localparam logic [63:0] AlignMask = 64'(hvia_pkg::DescriptorAlignment) - 64'd1;

  typedef enum logic [2:0] {Idle, Context, Translate, Walk, Request, Read, Check, Bad} state_e;
  state_e state_q, state_d;

  logic [7:0]  vi_q;
  logic [63:0] va_q;
  logic [31:0] handle_q, pa_q;
  logic        more_q;
  logic [15:0] seq_q;
  logic [2:0]  vi_state_q;
  logic [15:0] tag_q;
  // The descriptor, byte 0 in the lowest bits.
  logic [Bytes*8-1:0] words_q;
  logic        link_q;

  logic take;
  assign take = state_q == Idle && take_valid_i && !link_q;
  assign take_ready_o = take;
  assign rd_vi_o = state_q == Idle ? take_vi_i : vi_q;

  logic unused_ctx;
  assign unused_ctx = ^{rd_ctx_i[127:32], rd_ctx_i[15:3]};

  logic last_beat;
  assign last_beat = rvalid_i && rlast_i;

  // A VI that was reset while a doorbell was under way: its memory may be gone. Or a link to where
  // no descriptor can be: 64 bytes from there may reach into a page that was not translated.
  logic is_free, unreachable;
  assign is_free     = vi_state_q == hvia_pkg::ViStateFree;
  assign unreachable = is_free || (va_q & AlignMask) != 64'd0;

  logic parsed;
  assign parsed = state_q == Check && desc_ready_i && !link_q;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle:      if (take) state_d = Context;
      // The context RAM answers one clock after the address.
      Context:   state_d = Translate;
      Translate: begin
        if (unreachable) state_d = Bad;
        else if (att_req_ready_i) state_d = Walk;
      end
      Walk:      if (att_rsp_valid_i) state_d = att_rsp_err_i == hvia_pkg::AttErrorNone ? Request : Bad;
      Request:   if (req_ready_i) state_d = Read;
      Read:      if (last_beat) state_d = rerr_i ? Bad : Check;
      Check:     if (parsed) state_d = Idle;
      Bad:       state_d = Idle;
      default:   state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) state_q <= Idle;
    else state_q <= state_d;
  end

  always_ff @(posedge clk_i) begin
    if (take) begin
      vi_q     <= take_vi_i;
      va_q     <= take_va_i;
      handle_q <= take_handle_i;
      more_q   <= take_more_i;
      seq_q    <= take_seq_i;
    end
    if (state_q == Context) begin
      vi_state_q <= rd_ctx_i[hvia_pkg::ViContextAttributesStateLsb +: 3];
      tag_q      <= rd_ctx_i[hvia_pkg::ViContextAttributesTagLsb +: 16];
    end
    if (state_q == Walk && att_rsp_valid_i) pa_q <= att_rsp_pa_i;
  end

  always_ff @(posedge clk_i) begin
    if (state_q == Read && rvalid_i) words_q <= {rdata_i, words_q[Bytes*8-1:W]};
  end

  // The link goes back as soon as the descriptor is here, not after the engine has taken it.
  logic bad;
  assign bad = state_q == Bad;

  logic link_bad_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      link_q     <= 1'b0;
      link_bad_q <= 1'b0;
    end else if (link_q) begin
      if (link_ready_i) link_q <= 1'b0;
    end else if (more_q && (bad || (state_q == Read && state_d == Check))) begin
      link_q     <= 1'b1;
      link_bad_q <= bad;
    end
  end

  assign link_valid_o  = link_q;
  assign link_bad_o    = link_bad_q;
  assign link_vi_o     = vi_q;
  assign link_va_o     = words_q[hvia_pkg::DescriptorNextOffset*8 +: 64];
  assign link_handle_o = words_q[hvia_pkg::DescriptorNextHandleOffset*8 +: 32];

  assign att_req_valid_o  = state_q == Translate && !unreachable;
  assign att_req_handle_o = handle_q;
  assign att_req_va_o     = va_q;
  assign att_req_len_o    = Bytes;
  assign att_req_tag_o    = tag_q;
  assign att_req_access_o = hvia_pkg::AttAccessLocal;
  assign att_req_vi_o     = vi_q;

  assign req_valid_o = state_q == Request;
  assign req_addr_o  = pa_q;
  assign req_len_o   = Bytes[9:0];
  assign rready_o    = state_q == Read;

  // Format.
  logic [15:0] control, segments;
  logic [31:0] length, data_len;
  logic [1:0]  operation;
  logic        rdma_write, has_data, format_error, length_error, flushed;

  assign control    = words_q[hvia_pkg::DescriptorControlOffset*8 +: 16];
  assign segments   = words_q[hvia_pkg::DescriptorSegmentCountOffset*8 +: 16];
  assign length     = words_q[hvia_pkg::DescriptorLengthOffset*8 +: 32];
  assign operation  = control[hvia_pkg::DescriptorControlOperationLsb +: 2];
  assign rdma_write = operation == hvia_pkg::DescriptorOperationRdmaWrite;
  assign has_data   = segments == 16'd2;
  assign data_len   = has_data ? words_q[(Data + hvia_pkg::DataSegmentLengthOffset)*8 +: 32] : 32'd0;

  // This card sends RDMA writes of at most one data segment without immediate data; all other
  // operations are answered as malformed.
  assign format_error = !rdma_write || (segments != 16'd1 && segments != 16'd2) ||
      control[hvia_pkg::DescriptorControlImmediateBit] ||
      control[hvia_pkg::DescriptorControlReservedLsb +: hvia_pkg::DescriptorControlReservedWidth] != 0 ||
      words_q[hvia_pkg::DescriptorReservedOffset*8 +: 32] != 0 ||
      words_q[(Address + hvia_pkg::AddressSegmentReservedOffset)*8 +: 32] != 0;
  assign length_error = !format_error && length != data_len;
  assign flushed      = vi_state_q != hvia_pkg::ViStateConnected;

  always_comb begin
    desc_status_o = 32'd0;
    // A flushed descriptor was never looked at.
    desc_status_o[hvia_pkg::DescriptorStatusFlushedBit]     = flushed;
    desc_status_o[hvia_pkg::DescriptorStatusFormatErrorBit] = !flushed && format_error;
    desc_status_o[hvia_pkg::DescriptorStatusLengthErrorBit] = !flushed && length_error;
  end

  assign desc_valid_o         = state_q == Check && !link_q;
  assign desc_vi_o            = vi_q;
  assign desc_seq_o           = seq_q;
  assign desc_pa_o            = pa_q;
  assign desc_handle_o        = handle_q;
  assign desc_control_o       = control;
  assign desc_seg_count_o     = segments;
  assign desc_immediate_o     = words_q[hvia_pkg::DescriptorImmediateDataOffset*8 +: 32];
  assign desc_length_o        = length;
  assign desc_remote_va_o     = words_q[(Address + hvia_pkg::AddressSegmentAddressOffset)*8 +: 64];
  assign desc_remote_handle_o = words_q[(Address + hvia_pkg::AddressSegmentHandleOffset)*8 +: 32];
  assign desc_data_va_o       = words_q[(Data + hvia_pkg::DataSegmentAddressOffset)*8 +: 64];
  assign desc_data_handle_o   = words_q[(Data + hvia_pkg::DataSegmentHandleOffset)*8 +: 32];
  assign desc_data_len_o      = data_len;

  logic busy;
  assign busy          = state_q != Idle;
  // Only what was or may have been translated counts: what comes later is refused by the ATT, and a
  // process that rings with a withdrawn handle for ever must not hold up its deregistration.
  assign handle_busy_o = (state_q == Walk || state_q == Request || state_q == Read ||
                          state_q == Check) && handle_q == drain_handle_i;
  assign vi_busy_o     = (busy || link_q) && vi_q == drain_vi_i;

  assign async_valid_o = bad && !is_free;
  assign async_code_o  = hvia_pkg::AsyncErrorPostDescriptor;
  assign async_vi_o    = vi_q;

  assign stat_descriptor_fetched_o = state_q == Read && state_d == Check;
  assign stat_descriptor_bad_o     = bad;

  always_comb begin
    trace_valid_o = 1'b1;
    trace_event_o = hvia_pkg::TraceEventDescriptorStart;
    if (take) trace_event_o = hvia_pkg::TraceEventDescriptorStart;
    else if (state_q == Walk && att_rsp_valid_i) trace_event_o = hvia_pkg::TraceEventDescriptorTranslated;
    else if (state_q == Read && last_beat) trace_event_o = hvia_pkg::TraceEventDescriptorFetched;
    else if (parsed) trace_event_o = hvia_pkg::TraceEventDescriptorParsed;
    else trace_valid_o = 1'b0;
  end
  assign trace_vi_o  = take ? take_vi_i : vi_q;
  assign trace_seq_o = take ? take_seq_i : seq_q;

  assign quiet_o = state_q == Idle && !take_valid_i && !link_q;

endmodule
