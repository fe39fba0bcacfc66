// SPDX-License-Identifier: Apache-2.0

// Completion writer. Writes Length and Status of a finished descriptor, preceded by the immediate
// data if there is any, in one burst, so Status reaches host memory last. After that the card never
// accesses the descriptor, and its memory may be reused at once. Four sources take turns; the next
// completion waits at its source. If the bus rejects the write, or the descriptor's memory was
// deregistered, the waiter would never be notified: the completion is counted and reported as an
// asynchronous error.
//
// If the work queue is tied to a completion queue, one entry follows the Status into its ring
// before the next completion, so entries are in the order of the completions. The tie is looked up
// during the write of the Status: a completion without an entry takes no extra clock. Consumed is
// read from the ring's header only when the ring looks full. If it is full, the entry is lost,
// counted and reported; so is an entry that the bus rejects, whose slot is used by the next one,
// and one for a ring that does not exist. The ring is contiguous and an entry is aligned to its
// size, so no burst crosses a page.
//
// Ties and rings are in RAM without reset; one bit each records that it was written since reset.
// The tie of an earlier owner of a VI's index is never used: CreateVI writes a new one before
// anything can complete. A command for a ring executes between two completions.
module hvia_completion #(
    parameter int unsigned W = 32
) (
    input  logic            clk_i,
    input  logic            rst_ni,
    // Sources, source n in slice n: 0 rx_engine, 1 descriptor_fetch, 2 tx_engine, 3 send_ledger.
    input  logic [3:0]      cpl_valid_i,
    output logic [3:0]      cpl_ready_o,
    input  logic [4*hvia_params_pkg::VICountLog2-1:0] cpl_vi_i,
    input  logic [4*16-1:0] cpl_seq_i,
    input  logic [4*32-1:0] cpl_pa_i,
    input  logic [4*32-1:0] cpl_handle_i,
    input  logic [4*32-1:0] cpl_length_i,
    input  logic [4*32-1:0] cpl_status_i,
    input  logic [4*32-1:0] cpl_immediate_i,
    input  logic [3:0]      cpl_has_immediate_i,
    input  logic [3:0]      cpl_receive_i,
    input  logic [3:0]      cpl_write_i,
    // Ties of a VI's work queues, one clock: number of the completion queue plus one; 0, or a value
    // that is no queue's, means none.
    input  logic            cq_tie_valid_i,
    input  hvia_params_pkg::vi_t cq_tie_vi_i,
    input  logic [7:0]      cq_tie_send_i,
    input  logic [7:0]      cq_tie_receive_i,
    // Commands for completion queues: stable until ready, which pulses when the command is done,
    // with whether the state allowed it and the number of entries written to the ring.
    input  logic            cqc_valid_i,
    output logic            cqc_ready_o,
    input  logic [1:0]      cqc_op_i,  // 0 create, 1 destroy, 2 resize
    input  logic [7:0]      cqc_index_i,
    input  logic [31:0]     cqc_address_i,
    input  logic [7:0]      cqc_log2_i,
    output logic            cqc_ok_o,
    output logic [15:0]     cqc_tail_o,
    // Host bus.
    output logic            req_valid_o,
    input  logic            req_ready_i,
    output logic            req_write_o,
    output logic [31:0]     req_addr_o,
    output logic [9:0]      req_len_o,
    output logic [W-1:0]    wdata_o,
    output logic [W/8-1:0]  wstrb_o,
    output logic            wvalid_o,
    input  logic            wready_i,
    input  logic            wdone_i,
    input  logic            werr_i,
    input  logic [W-1:0]    rdata_i,
    input  logic            rvalid_i,
    output logic            rready_o,
    input  logic            rlast_i,
    input  logic            rerr_i,
    input  logic [31:0]     drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    output logic            handle_busy_o,
    output logic            vi_busy_o,
    // One-clock pulses when a write has reached memory: first the completion, then its completion
    // queue entry, if any.
    output logic            done_valid_o,
    output logic [1:0]      done_kind_o,
    output logic [7:0]      done_index_o,
    // Asynchronous error.
    output logic            async_valid_o,
    input  logic            async_ready_i,
    output logic [7:0]      async_code_o,
    output logic [7:0]      async_vi_o,
    output logic            stat_completion_written_o,
    output logic            stat_completion_receive_o,
    output logic            stat_completion_error_o,
    output logic            stat_descriptor_flushed_o,
    output logic            stat_descriptor_error_o,
    output logic            stat_completion_queue_entry_o,
    output logic            stat_completion_queue_overrun_o,
    output logic            trace_valid_o,
    output logic [7:0]      trace_event_o,
    output logic [7:0]      trace_vi_o,
    output logic [15:0]     trace_seq_o,
    output logic            quiet_o
);

  localparam int unsigned VIW = hvia_params_pkg::VICountLog2;

  // Writable: the last 16 bytes of the control segment: a word that is not written, ImmediateData,
  // Length, Status.
  localparam int unsigned Base  = hvia_pkg::DescriptorSize - 16;
  localparam int unsigned Beats = 128 / W;
  // Bytes before the first written one, and its beat.
  localparam int unsigned SkipImmediate = hvia_pkg::DescriptorImmediateDataOffset - Base;
  localparam int unsigned SkipLength    = hvia_pkg::DescriptorLengthOffset - Base;
  localparam int unsigned BeatImmediate = SkipImmediate * 8 / W;
  localparam int unsigned BeatLength    = SkipLength * 8 / W;

  localparam logic [31:0] ErrorMask = hvia_pkg::DescriptorErrorMask;

  localparam int unsigned EntryBeats = hvia_pkg::CompletionEntrySize * 8 / W;
  localparam int unsigned QueueBits  = hvia_params_pkg::CompletionQueuesLog2;
  localparam int unsigned Queues     = 1 << QueueBits;
  // A tie is a number plus one, so it has one bit more than a number.
  localparam int unsigned TieBits    = QueueBits + 1;

  localparam logic [1:0] OpCreate  = 2'd0;
  localparam logic [1:0] OpDestroy = 2'd1;

  typedef enum logic [3:0] {
    Idle,
    Request,      // Status: request the bus
    Wait,         // write in progress
    Unwritten,    // no memory to write to
    Ask,          // the ring looks full: read Consumed
    Answer,
    Compare,    // compare with Consumed
    Entry,      // entry: request the bus
    EntryWait,  // write in progress
    Overrun,    // the entry is lost
    Command     // of a completion queue
  } state_e;
  state_e state_q;

  // The source after the one last served has priority.
  logic [3:0] grant;
  logic [1:0] last_q, chosen;
  always_comb begin
    chosen = last_q;
    for (int unsigned n = 3; n > 0; n--) begin
      if (cpl_valid_i[last_q + 2'(n)]) chosen = last_q + 2'(n);
    end
    grant = 4'b0001 << chosen;
  end

  logic accept;
  assign cpl_ready_o = grant & cpl_valid_i & {4{state_q == Idle && !cqc_valid_i}};
  assign accept      = cpl_ready_o != 4'b0000;

  logic [31:0] status;
  logic        write, has_immediate;
  assign status        = cpl_status_i[32*chosen +: 32];
  assign write         = cpl_write_i[chosen];
  assign has_immediate = cpl_has_immediate_i[chosen];

  hvia_params_pkg::vi_t vi_q;
  logic [15:0] seq_q;
  logic [31:0] pa_q, handle_q, length_q, status_q, immediate_q;
  logic        has_immediate_q, receive_q;
  logic [2:0]  beat_q;

  // Ties, send queue in the lower half. Read with the completion, valid one clock later.
  function automatic logic [TieBits-1:0] tie_of(input logic [7:0] number);
    tie_of = (32'(number) <= Queues) ? number[TieBits-1:0] : '0;
  endfunction

  logic [2*TieBits-1:0] tie_mem [hvia_params_pkg::VICount];
  logic [2*TieBits-1:0] tie_q;
  hvia_params_pkg::vis_t has_tie_q;
  logic                 tied_q;
  logic [TieBits-1:0]   tie;
  logic [QueueBits-1:0] queue;  // number of the completion queue

  always_ff @(posedge clk_i) begin
    if (cq_tie_valid_i) tie_mem[cq_tie_vi_i] <= {tie_of(cq_tie_receive_i), tie_of(cq_tie_send_i)};
    if (accept) tie_q <= tie_mem[cpl_vi_i[VIW*chosen +: VIW]];
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      has_tie_q <= '0;
      tied_q    <= 1'b0;
    end else begin
      if (cq_tie_valid_i) has_tie_q[cq_tie_vi_i] <= 1'b1;
      if (accept) tied_q <= has_tie_q[cpl_vi_i[VIW*chosen +: VIW]];
    end
  end

  assign tie   = receive_q ? tie_q[TieBits +: TieBits] : tie_q[0 +: TieBits];
  assign queue = QueueBits'(tie - 1'b1);

  // Rings: page of the header, log2 of the entries, entries written, entries consumed when last
  // read. Read in the clock after the completion, so valid before its write can be done.
  localparam int unsigned PageBits = hvia_params_pkg::PageBytesLog2;
  localparam int unsigned RingBits = 32 - PageBits + 4 + 16 + 16;

  logic [RingBits-1:0]    ring_mem [Queues];
  logic [RingBits-1:0]    ring_q, ring_d;
  logic [Queues-1:0]      created_q;
  logic [31:PageBits]     page;
  logic [3:0]             log2;
  logic [15:0]            tail, consumed, seen, consumed_q, entries, place;
  logic                   lookup_q, fresh_q, tied, created, full, lap, command, ring_write;
  logic [QueueBits-1:0]   ring_at;

  assign {page, log2, tail, consumed} = ring_q;

  assign command    = state_q == Idle && cqc_valid_i;
  assign ring_at    = (state_q == Idle || state_q == Command) ? cqc_index_i[QueueBits-1:0] : queue;
  assign ring_write = (entry_done && !werr_i) ||
                      (state_q == Command && cqc_ok_o && cqc_op_i != OpDestroy);
  assign ring_d     = (state_q == Command) ?
                      {cqc_address_i[31:PageBits], cqc_log2_i[3:0], 16'd0, 16'd0} :
                      {page, log2, tail + 16'd1, seen};

  always_ff @(posedge clk_i) begin
    if (ring_write) ring_mem[ring_at] <= ring_d;
    if (lookup_q || command) ring_q <= ring_mem[ring_at];
  end

  // The manager checked the command: the number exists, the ring is page aligned.
  logic unused_bits;
  assign unused_bits = ^{cqc_index_i[7:QueueBits], cqc_address_i[PageBits-1:0], cqc_log2_i[7:4],
                         rdata_i[W-1:16]};

  assign cqc_ready_o = state_q == Command;
  assign cqc_ok_o    = created_q[cqc_index_i[QueueBits-1:0]] != (cqc_op_i == OpCreate);
  assign cqc_tail_o  = tail;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) created_q <= '0;
    else if (state_q == Command && cqc_ok_o) begin
      created_q[cqc_index_i[QueueBits-1:0]] <= cqc_op_i != OpDestroy;
    end
  end

  // Consumed beyond the entries in use is a host error and counts as a full queue.
  assign tied    = tied_q && tie != '0;
  assign created = created_q[queue];
  assign seen    = fresh_q ? consumed_q : consumed;
  assign entries = 16'd1 << log2;
  assign full    = tail - seen >= entries;
  assign place   = tail & (entries - 16'd1);
  assign lap     = (tail & entries) == 16'd0;

  logic answered;
  assign answered = state_q == Answer && rvalid_i && rlast_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      lookup_q <= 1'b0;
      fresh_q  <= 1'b0;
    end else begin
      lookup_q <= accept;
      if (accept) fresh_q <= 1'b0;
      else if (answered) fresh_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (answered) begin
      consumed_q <= rdata_i[hvia_pkg::CompletionQueueHeaderConsumedOffset*8 +: 16];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q <= Idle;
    end else begin
      unique case (state_q)
        Idle: begin
          if (command) state_q <= Command;
          else if (accept) state_q <= write ? Request : Unwritten;
        end
        Request:   if (req_ready_i) state_q <= Wait;
        Wait: begin
          if (wdone_i && werr_i) state_q <= async_ready_i ? Idle : Unwritten;
          else if (wdone_i) state_q <= !tied ? Idle : !created ? Overrun : full ? Ask : Entry;
        end
        Ask:       if (req_ready_i) state_q <= Answer;
        Answer:    if (answered) state_q <= rerr_i ? Overrun : Compare;
        Compare:     state_q <= full ? Overrun : Entry;
        Entry:     if (req_ready_i) state_q <= EntryWait;
        EntryWait: if (wdone_i) state_q <= werr_i ? Overrun : Idle;
        // One report at a time: the last one may still wait behind those of other engines.
        Unwritten, Overrun: if (async_ready_i) state_q <= Idle;
        default:   state_q <= Idle;
      endcase
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) last_q <= 2'd3;
    else if (accept) last_q <= chosen;
  end

  always_ff @(posedge clk_i) begin
    if (accept) begin
      vi_q            <= cpl_vi_i[VIW*chosen +: VIW];
      seq_q           <= cpl_seq_i[16*chosen +: 16];
      pa_q            <= cpl_pa_i[32*chosen +: 32];
      handle_q        <= cpl_handle_i[32*chosen +: 32];
      length_q        <= cpl_length_i[32*chosen +: 32];
      status_q        <= status;
      immediate_q     <= cpl_immediate_i[32*chosen +: 32];
      has_immediate_q <= has_immediate;
      receive_q       <= cpl_receive_i[chosen];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) beat_q <= 3'd0;
    else if (accept) beat_q <= has_immediate ? BeatImmediate[2:0] : BeatLength[2:0];
    else if (done) beat_q <= 3'd0;
    else if (wvalid_o && wready_i) beat_q <= beat_q + 3'd1;
  end

  logic [127:0] words;
  logic [15:0]  strobes;
  logic [31:0]  skip, start, status_at, header_at, entry_at;
  assign words       = {status_q, length_q, immediate_q, 32'd0};
  assign skip        = has_immediate_q ? SkipImmediate : SkipLength;
  assign start       = Base + skip;
  assign strobes     = 16'hffff << skip;
  assign status_at   = pa_q + start;
  assign header_at   = {page, {PageBits{1'b0}}};
  assign entry_at    = header_at + hvia_pkg::CompletionQueueHeaderSize +
                       32'(place) * hvia_pkg::CompletionEntrySize;

  logic [63:0] entry;
  logic        of_status, of_entry;
  assign of_status = state_q == Request || state_q == Wait;
  assign of_entry  = state_q == Entry || state_q == EntryWait;

  always_comb begin
    entry = '0;
    entry[hvia_pkg::CompletionEntrySequenceOffset*8 +: 16] = seq_q;
    entry[hvia_pkg::CompletionEntryWordOffset*8 + hvia_pkg::CompletionEntryWordVILsb +:
          hvia_pkg::CompletionEntryWordVIWidth] = 8'(vi_q);
    entry[hvia_pkg::CompletionEntryWordOffset*8 + hvia_pkg::CompletionEntryWordReceiveBit] =
        receive_q;
    entry[hvia_pkg::CompletionEntryWordOffset*8 + hvia_pkg::CompletionEntryWordValidBit] = 1'b1;
    entry[hvia_pkg::CompletionEntryWordOffset*8 + hvia_pkg::CompletionEntryWordLapBit] = lap;
  end

  assign req_valid_o = state_q == Request || state_q == Ask || state_q == Entry;
  assign req_write_o = state_q != Ask;
  always_comb begin
    req_addr_o = status_at;
    req_len_o  = 10'd16 - skip[9:0];
    if (state_q == Ask) begin
      req_addr_o = header_at + hvia_pkg::CompletionQueueHeaderConsumedOffset;
      req_len_o  = 10'd4;
    end else if (of_entry) begin
      req_addr_o = entry_at;
      req_len_o  = 10'(hvia_pkg::CompletionEntrySize);
    end
  end
  assign wdata_o     = of_entry ? entry[32'(beat_q) * W % 64 +: W] :
      words[32'(beat_q) * W % 128 +: W];
  assign wstrb_o     = of_entry ? '1 : strobes[32'(beat_q) * W / 8 % 16 +: W/8];
  assign wvalid_o    = (of_status && 32'(beat_q) < Beats) || (of_entry && 32'(beat_q) < EntryBeats);
  assign rready_o    = state_q == Answer;

  logic done, entry_done, unwritten, overrun;
  assign done       = state_q == Wait && wdone_i;
  assign entry_done = state_q == EntryWait && wdone_i;
  assign unwritten  = (state_q == Unwritten || (done && werr_i)) && async_ready_i;
  assign overrun    = state_q == Overrun && async_ready_i;

  // A completion that is not written accesses nothing, and a ring is no registered memory.
  assign handle_busy_o = of_status && handle_q == drain_handle_i;
  assign vi_busy_o     = state_q != Idle && state_q != Command && vi_q == drain_vi_i;

  assign done_valid_o = (done || entry_done) && !werr_i;
  always_comb begin
    done_kind_o  = receive_q ? hvia_pkg::NotifyKindReceive : hvia_pkg::NotifyKindSend;
    done_index_o = 8'(vi_q);
    if (entry_done) begin
      done_kind_o  = hvia_pkg::NotifyKindCompletionQueue;
      done_index_o = 8'(queue);
    end
  end

  assign stat_completion_written_o = done && !werr_i;
  assign stat_completion_receive_o = done && !werr_i && receive_q;
  assign stat_completion_error_o   = unwritten;
  assign stat_descriptor_flushed_o = accept && status[hvia_pkg::DescriptorStatusFlushedBit];
  assign stat_descriptor_error_o   = accept && (status & ErrorMask) != 32'd0 &&
                                     !status[hvia_pkg::DescriptorStatusFlushedBit];
  assign stat_completion_queue_entry_o   = entry_done && !werr_i;
  assign stat_completion_queue_overrun_o = overrun;

  assign async_valid_o = unwritten || overrun;
  assign async_code_o  = overrun ? hvia_pkg::AsyncErrorCompletionQueueOverrun :
                                   hvia_pkg::AsyncErrorCompletionProtection;
  assign async_vi_o    = 8'(vi_q);

  always_comb begin
    trace_valid_o = done;
    trace_event_o = receive_q ? hvia_pkg::TraceEventReceiveCompletionWritten :
                                hvia_pkg::TraceEventCompletionWritten;
    trace_seq_o   = seq_q;
    if (entry_done) begin
      trace_valid_o = !werr_i;
      trace_event_o = hvia_pkg::TraceEventCompletionQueueWritten;
      trace_seq_o   = 16'(queue);
    end
  end
  assign trace_vi_o = 8'(vi_q);

  assign quiet_o = state_q == Idle && cpl_valid_i == 4'b0000 && !cqc_valid_i && !cq_tie_valid_i;

endmodule
