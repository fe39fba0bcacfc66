// SPDX-License-Identifier: Apache-2.0

// Executes the agent's command blocks, one at a time: fetches the block, checks opcode, arguments
// and the VI's state, drives the translation table's update port, the VI contexts, the engines'
// sequence numbers and the drain signals, writes Detail and Status in one write (Status last) and
// raises the interrupt after that write.
//
// Page lists are read in bursts into a buffer with space for the whole burst, so the table never
// stalls the system bus, and a failed burst leaves nothing half written.
//
// Order of the steps:
//   RegisterMemory    level 2, then level 1: the handle works when all is there.
//   DeregisterMemory  invalidate, so that no new access starts; wait until no
//                     engine holds an earlier access; have receive_store mark the
//                     descriptors on the chip that the handle reached; wait for
//                     users of one of them that started before.
//   ConnectVI         sequence numbers of both engines and the transport parameters of the
//                     ledger, then state Connected.
//   DisconnectVI      state Error and `flush`, which together complete both queues
//                     as flushed; wait until the VI's work has left every engine and
//                     queue; then state Idle.
//   DestroyVI         the same with the VI's doorbells rejected, then Free.
//   ResetVI           state Free, both queues cleared, then wait for the engines.
//   CreateCompletionQueue, DestroyCompletionQueue, ResizeCompletionQueue
//                     `completion` executes them between two completions, and knows
//                     whether the number is in use.
//
// CreateVI, ModifyVI and ConnectVI pass the completion queues of the VI's work queues to
// `completion` in the clock in which the context is written. DestroyVI and ResetVI pass nothing: a
// Free VI completes nothing, and CreateVI precedes any other use.
//
// Every wait ends. Host bus transactions end, by abort if need be. The update port serves within a
// bounded number of walks, `completion` within one completion (at most three transactions). Engines
// hold a piece of work for a bounded number of bus transactions and walks. No new work for a
// drained handle starts, and a VI that is Free or held takes no doorbells. A VI in state Error
// still takes them, so a process could ring forever and block DisconnectVI. So after `Patience`
// clocks, more than a full queue takes to flush, the VI is held too, and only what is queued by
// then is flushed.
//
// A command address that is not 64-byte aligned is rejected and counted. A command whose result
// cannot be written counts as an error and raises no interrupt.
module hvia_vi_manager #(
    parameter int unsigned W = 32,
    parameter int unsigned Patience = hvia_params_pkg::DisconnectPatience
) (
    input logic clk_i,
    input logic rst_ni,

    input  logic [47:0] timebase_i,
    output logic [47:0] next_deadline_o,

    // Registers
    input  logic        cmd_valid_i,
    input  logic [31:0] cmd_addr_i,
    output logic        cmd_busy_o,

    // Host bus
    output logic           req_valid_o,
    input  logic           req_ready_i,
    output logic           req_write_o,
    output logic [   31:0] req_addr_o,
    output logic [    9:0] req_len_o,
    output logic [  W-1:0] wdata_o,
    output logic [W/8-1:0] wstrb_o,
    output logic           wvalid_o,
    input  logic           wready_i,
    input  logic           wdone_i,
    input  logic           werr_i,
    input  logic [  W-1:0] rdata_i,
    input  logic           rvalid_i,
    output logic           rready_o,
    input  logic           rlast_i,
    input  logic           rerr_i,

    // VI contexts
    output logic         ctx_wr_valid_o,
    output hvia_params_pkg::vi_t ctx_wr_vi_o,
    output logic [127:0] ctx_wr_ctx_o,
    output hvia_params_pkg::vi_t ctx_rd_vi_o,
    input  logic [127:0] ctx_rd_ctx_i,
    output logic         hold_valid_o,
    output hvia_params_pkg::vi_t hold_vi_o,

    // Sequence numbers of the engines
    output hvia_params_pkg::vi_t seq_init_vi_o,
    output logic        tx_seq_init_valid_o,
    input  logic        tx_seq_init_ready_i,
    output logic [31:0] tx_seq_init_value_o,
    output logic        rx_seq_init_valid_o,
    input  logic        rx_seq_init_ready_i,
    output logic [31:0] rx_seq_init_value_o,
    output logic        led_init_valid_o,
    input  logic        led_init_ready_i,
    output logic [31:0] seq_init_transport_o,  // context bytes 24 to 27

    // Completion queues
    output logic        cq_tie_valid_o,
    output hvia_params_pkg::vi_t cq_tie_vi_o,
    output logic [ 7:0] cq_tie_send_o,
    output logic [ 7:0] cq_tie_receive_o,
    output logic        cqc_valid_o,
    input  logic        cqc_ready_i,
    output logic [ 1:0] cqc_op_o,
    output logic [ 7:0] cqc_index_o,
    output logic [31:0] cqc_address_o,
    output logic [ 7:0] cqc_log2_o,
    input  logic        cqc_ok_i,
    input  logic [15:0] cqc_tail_i,

    // Queues
    output logic       clear_valid_o,
    input  logic       clear_ready_i,
    output hvia_params_pkg::vi_t clear_vi_o,

    // Draining: the inputs are the OR over all engines
    output logic [31:0] drain_handle_o,
    output hvia_params_pkg::vi_t drain_vi_o,
    input  logic        drain_handle_busy_i,
    input  logic        drain_vi_busy_i,
    output logic        flush_o,        // complete everything posted to drain_vi
    output logic        stale_start_o,  // search for descriptors that drain_handle reached

    // Translation table
    output logic        upd_valid_o,
    input  logic        upd_ready_i,
    output logic [ 1:0] upd_op_o,
    output logic [31:0] upd_arg_o,
    output logic [15:0] upd_count_o,
    output logic        upd_wvalid_o,
    input  logic        upd_wready_i,
    output logic [31:0] upd_wdata_o,
    input  logic        upd_done_i,
    input  logic        upd_error_i,

    output logic irq_command_done_o,
    output logic stat_command_o,
    output logic stat_command_error_o,

    output logic        trace_valid_o,
    output logic [ 7:0] trace_event_o,
    output logic [ 7:0] trace_vi_o,
    output logic [15:0] trace_seq_o,

    output logic quiet_o
);

  localparam int unsigned Lanes = W / 32;
  localparam int unsigned LaneBits = (Lanes > 1) ? $clog2(Lanes) : 1;
  localparam logic [LaneBits-1:0] LastLane = LaneBits'(Lanes - 1);
  localparam int unsigned ResultBeats = 64 / W;

  localparam logic [10:0] BurstWords = 11'(hvia_params_pkg::DmaBurstBytes / 4);
  localparam int unsigned BufferBits = $clog2(hvia_params_pkg::DmaBurstBytes / 4);
  localparam logic [31:0] MaxListWords = hvia_pkg::AttPageBytes / 4;
  localparam logic [31:0] ViCount = 32'd1 << hvia_params_pkg::VICountLog2;
  localparam logic [31:0] QueueCount = 32'd1 << hvia_params_pkg::CompletionQueuesLog2;
  localparam int unsigned StateLsb = hvia_pkg::VIContextAttributesStateLsb;
  localparam int unsigned IndexBits = hvia_pkg::AttHandleValueIndexWidth;
  localparam logic [10:0] EntryWords = 11'(hvia_pkg::AttLevel1Size / 4);

  // Dwords of a command block.
  localparam logic [3:0] WordOpcode = 4'(hvia_pkg::CommandOpcodeOffset / 4);
  localparam logic [3:0] WordIndex = 4'(hvia_pkg::CommandIndexOffset / 4);
  localparam logic [3:0] WordHandle = 4'(hvia_pkg::CommandHandleOffset / 4);
  localparam logic [3:0] WordListAddress = 4'(hvia_pkg::CommandListAddressOffset / 4);
  localparam logic [3:0] WordListCount = 4'(hvia_pkg::CommandListCountOffset / 4);
  localparam logic [3:0] WordLevel2 = 4'(hvia_pkg::CommandLevel2AddressOffset / 4);
  localparam logic [3:0] WordDetail = 4'(hvia_pkg::CommandDetailOffset / 4);
  localparam logic [3:0] WordLast = 4'(hvia_pkg::CommandSize / 4 - 1);

  typedef enum logic [4:0] {
    StIdle,
    StFetchRequest,
    StFetchData,
    StCheck,
    StListRequest,  // the next burst of the page list
    StListData,
    StUpdate,       // an operation waits for the update port
    StUpdateWords,
    StUpdateDone,
    StSequence,     // the engines get sequence numbers, the ledger its parameters
    StQueue,        // `completion` executes a command
    StContext,      // the context is written
    StClear,        // the queues drop the VI
    StSettle,       // the busy lines catch up with engines that read before the write
    StDrain,        // wait for the engines; not busy on two consecutive clocks
    StDrained,
    StStale,        // mark descriptors on the chip
    StResult        // Detail and Status are written
  } state_e;
  state_e state_q, state_d;

  // Use of the update port.
  typedef enum logic [1:0] {
    UpList,
    UpEntry,
    UpInvalidate,
    UpLimit
  } update_e;
  update_e update_q, update_d;

  // The block.
  logic [31:0] block_q;
  logic [31:0] opcode_q, index_q, handle_q, list_addr_q, level2_q;
  logic [31:0] list_count_q;
  logic [255:0] payload_q;
  logic [3:0] word_q;
  logic [LaneBits-1:0] lane_q;
  logic [7:0] status_q, status_d;
  logic [31:0] detail_q, detail_d;
  logic [IndexBits:0] limit_q;
  logic [15:0] number_q;  // commands since reset, for the trace
  logic hold_q, hold_d;
  logic second_q, second_d;  // the first wait is over
  logic [47:0] deadline_q;
  logic tx_seq_done_q, rx_seq_done_q, led_done_q;

  // Dwords of a read, lane by lane.
  logic rd_state, rd_take, rd_error;
  logic [31:0] rd_word;
  assign rd_state = state_q == StFetchData || state_q == StListData;
  assign rd_error = rd_state && rvalid_i && rlast_i && rerr_i;
  assign rd_take  = rd_state && rvalid_i && !rd_error;
  if (Lanes > 1) begin : g_lanes
    assign rd_word = rdata_i[32*lane_q+:32];
  end else begin : g_lane
    assign rd_word = rdata_i;
  end

  // Page list: `chunk_q` words of the buffer are in use; `fill_q` counts them in and out.
  logic [31:0] buffer[0:(1<<BufferBits)-1];
  logic [10:0] chunk, chunk_max, chunk_q, fill_q, fill_d;
  logic fill_last, word_put, list_more;
  // A burst that starts inside a beat is shortened to end on a beat boundary.
  assign chunk_max = (Lanes > 1) ? BurstWords - 11'(LaneBits'(list_addr_q[31:2])) : BurstWords;
  assign chunk     = (list_count_q > 32'(chunk_max)) ? chunk_max : list_count_q[10:0];
  assign fill_last = fill_q + 11'd1 == chunk_q;
  assign word_put  = upd_wvalid_o && upd_wready_i;
  assign list_more = list_count_q != 32'd0;

  // Last lane or last word: the beat is consumed.
  logic read_end;
  assign read_end = (state_q == StFetchData) ? (word_q == WordLast) : fill_last;
  assign rready_o = rd_error || (rd_take && ((Lanes == 1) || (lane_q == LastLane) || read_end));

  // Checks.
  logic [2:0] vi_state;
  logic vi_ok, entry_ok, handle_ok, limit_ok, list_ok, queue_ok, ring_ok;
  logic [32:0] level2_end;
  logic [12:0] list_end;
  assign vi_state  = ctx_rd_ctx_i[StateLsb+:hvia_pkg::VIStateBits];
  assign vi_ok     = index_q < ViCount;
  assign entry_ok  = index_q < 32'(limit_q);
  assign handle_ok = (handle_q != 32'd0) && ({1'b0, handle_q[IndexBits-1:0]} < limit_q);
  assign limit_ok  = index_q <= hvia_pkg::AttLevel1Count;
  assign queue_ok  = index_q < QueueCount;
  assign ring_ok   = list_addr_q[hvia_params_pkg::PageBytesLog2-1:0] == '0 &&
      list_count_q >= 32'(hvia_pkg::CompletionQueueMinLog2) &&
      list_count_q <= 32'(hvia_pkg::CompletionQueueMaxLog2);
  assign level2_end = {1'b0, level2_q} + {20'd0, list_count_q[10:0], 2'd0};
  assign list_end   = {1'b0, list_addr_q[11:0]} + {list_count_q[10:0], 2'd0};
  assign list_ok    = (list_count_q == 32'd0) ||
      ((list_count_q <= MaxListWords) && (list_addr_q[1:0] == 2'd0) &&
       (list_end <= 13'(hvia_pkg::AttPageBytes)) && (level2_q[1:0] == 2'd0) &&
       (level2_q >= hvia_pkg::AttLevel2Base) && (level2_end <= {1'b0, hvia_pkg::AttSdramBytes}));

  // Result of a check, and the next state of a command that passes.
  logic [7:0] verdict;
  state_e first;
  always_comb begin
    verdict = hvia_pkg::CommandStatusDone;
    first   = StResult;
    if (opcode_q[31:hvia_pkg::CommandOpcodeBits] != '0) begin
      verdict = hvia_pkg::CommandStatusBadOpcode;
    end else begin
      case (opcode_q[hvia_pkg::CommandOpcodeBits-1:0])
        hvia_pkg::CommandOpcodeNop: ;
        hvia_pkg::CommandOpcodeInitialiseAtt: begin
          first = StUpdate;
          if (!limit_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeWriteLevel2: begin
          if (list_more) first = StListRequest;
          if (!list_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeRegisterMemory: begin
          first = list_more ? StListRequest : StUpdate;
          if (!list_ok || !entry_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeDeregisterMemory: begin
          first = StUpdate;
          if (!handle_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeCreateVI: begin
          first = StContext;
          if (vi_state != hvia_pkg::VIStateFree) verdict = hvia_pkg::CommandStatusBadState;
          if (!vi_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeDestroyVI: begin
          first = StContext;
          if (vi_state != hvia_pkg::VIStateIdle) verdict = hvia_pkg::CommandStatusBadState;
          if (!vi_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeConnectVI: begin
          first = StSequence;
          if (vi_state != hvia_pkg::VIStateIdle) verdict = hvia_pkg::CommandStatusBadState;
          if (!vi_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeDisconnectVI: begin
          first = StContext;
          if (vi_state == hvia_pkg::VIStateFree) verdict = hvia_pkg::CommandStatusBadState;
          if (!vi_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeModifyVI: begin
          first = StContext;
          if (vi_state != hvia_pkg::VIStateIdle) verdict = hvia_pkg::CommandStatusBadState;
          if (!vi_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeQueryVI: if (!vi_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        hvia_pkg::CommandOpcodeResetVI: begin
          first = StContext;
          if (!vi_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeCreateCompletionQueue,
            hvia_pkg::CommandOpcodeResizeCompletionQueue: begin
          first = StQueue;
          if (!queue_ok || !ring_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        hvia_pkg::CommandOpcodeDestroyCompletionQueue: begin
          first = StQueue;
          if (!queue_ok) verdict = hvia_pkg::CommandStatusBadArgument;
        end
        default: verdict = hvia_pkg::CommandStatusBadOpcode;
      endcase
    end
  end

  logic is_register, is_invalidate, is_limit, is_destroy, is_disconnect, is_reset, is_query;
  assign is_register   = opcode_q[7:0] == hvia_pkg::CommandOpcodeRegisterMemory;
  assign is_invalidate = opcode_q[7:0] == hvia_pkg::CommandOpcodeDeregisterMemory;
  assign is_limit      = opcode_q[7:0] == hvia_pkg::CommandOpcodeInitialiseAtt;
  assign is_destroy    = opcode_q[7:0] == hvia_pkg::CommandOpcodeDestroyVI;
  assign is_disconnect = opcode_q[7:0] == hvia_pkg::CommandOpcodeDisconnectVI;
  assign is_reset      = opcode_q[7:0] == hvia_pkg::CommandOpcodeResetVI;
  assign is_query      = opcode_q[7:0] == hvia_pkg::CommandOpcodeQueryVI;

  logic is_create_queue, is_resize_queue;
  assign is_create_queue = opcode_q[7:0] == hvia_pkg::CommandOpcodeCreateCompletionQueue;
  assign is_resize_queue = opcode_q[7:0] == hvia_pkg::CommandOpcodeResizeCompletionQueue;

  // Draining: memory by handle, everything else by VI.
  logic drain_busy, waiting, expired;
  assign drain_busy = is_invalidate ? drain_handle_busy_i : drain_vi_busy_i;
  assign waiting    = (state_q == StSettle || state_q == StDrain || state_q == StDrained) &&
      is_disconnect && !hold_q;
  assign expired    = waiting && (timebase_i >= deadline_q);

  // Result: request and beats proceed independently.
  logic req_sent_q, req_take, beat_take;
  logic [1:0] beat_q;
  assign req_take  = req_valid_o && req_ready_i;
  assign beat_take = wvalid_o && wready_i;

  logic seq_done;
  assign seq_done =
      (tx_seq_done_q || tx_seq_init_ready_i) && (rx_seq_done_q || rx_seq_init_ready_i) &&
      (led_done_q || led_init_ready_i);

  logic start, update_end;
  assign start      = state_q == StIdle && cmd_valid_i && (cmd_addr_i[5:0] == 6'd0);
  assign update_end = upd_done_i && (state_q == StUpdateWords || state_q == StUpdateDone);

  always_comb begin
    state_d  = state_q;
    update_d = update_q;
    status_d = status_q;
    detail_d = detail_q;
    fill_d   = fill_q;
    hold_d   = hold_q || expired;
    second_d = second_q;
    case (state_q)
      StIdle: begin
        hold_d   = 1'b0;
        second_d = 1'b0;
        detail_d = 32'd0;
        if (start) state_d = StFetchRequest;
      end
      StFetchRequest: if (req_take) state_d = StFetchData;
      StFetchData: begin
        if (rd_error) begin
          state_d  = StResult;
          status_d = hvia_pkg::CommandStatusBusError;
        end else if (rd_take && word_q == WordLast) begin
          state_d = StCheck;
        end
      end
      StCheck: begin
        status_d = verdict;
        state_d  = (verdict == hvia_pkg::CommandStatusDone) ? first : StResult;
        if (verdict == hvia_pkg::CommandStatusBadState ||
            (is_query && verdict == hvia_pkg::CommandStatusDone)) begin
          detail_d = ctx_rd_ctx_i[31:0];
        end
        if (is_limit) update_d = UpLimit;
        else if (is_invalidate) update_d = UpInvalidate;
        else if (list_more) update_d = UpList;
        else update_d = UpEntry;
        if (is_destroy && verdict == hvia_pkg::CommandStatusDone) hold_d = 1'b1;
      end
      StListRequest: begin
        if (req_take) begin
          fill_d  = 11'd0;
          state_d = StListData;
        end
      end
      StListData: begin
        if (rd_error) begin
          state_d  = StResult;
          status_d = hvia_pkg::CommandStatusBusError;
        end else if (rd_take) begin
          fill_d = fill_q + 11'd1;
          if (fill_last) state_d = StUpdate;
        end
      end
      StUpdate: begin
        if (upd_ready_i) begin
          fill_d  = 11'd0;
          state_d = (update_q == UpList || update_q == UpEntry) ? StUpdateWords : StUpdateDone;
        end
      end
      StUpdateWords: begin
        if (word_put) begin
          fill_d = fill_q + 11'd1;
          if (fill_last) state_d = StUpdateDone;
        end
      end
      StUpdateDone: ;
      StSequence: if (seq_done) state_d = StContext;
      StQueue: begin
        if (cqc_ready_i) begin
          state_d = StResult;
          if (!cqc_ok_i) status_d = hvia_pkg::CommandStatusBadState;
          else if (!is_create_queue) detail_d = {16'd0, cqc_tail_i};
        end
      end
      StContext: begin
        if (second_q) state_d = StResult;
        else if (is_reset) state_d = StClear;
        else if (is_disconnect || is_destroy) state_d = StSettle;
        else state_d = StResult;
      end
      StClear: if (clear_ready_i) state_d = StSettle;
      StSettle: state_d = StDrain;
      StDrain: if (!drain_busy) state_d = StDrained;
      StDrained: begin
        if (drain_busy) state_d = StDrain;
        else if (is_invalidate && !second_q) state_d = StStale;
        else state_d = (is_destroy || is_disconnect) ? StContext : StResult;
        if (!drain_busy) second_d = 1'b1;
      end
      StStale: state_d = StSettle;
      StResult: if (wdone_i) state_d = StIdle;
      default: state_d = StIdle;
    endcase
    if (update_end) begin
      if (upd_error_i) begin
        // Nothing was done: the table has no such entry, or its memory failed.
        status_d = hvia_pkg::CommandStatusBadArgument;
        state_d  = StResult;
      end else if (update_q == UpInvalidate) begin
        state_d = StSettle;
      end else if (update_q == UpList && list_more) begin
        state_d = StListRequest;
      end else if (update_q == UpList && is_register) begin
        state_d  = StUpdate;
        update_d = UpEntry;
      end else begin
        state_d = StResult;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q       <= StIdle;
      update_q      <= UpList;
      status_q      <= hvia_pkg::CommandStatusPending;
      detail_q      <= 32'd0;
      limit_q       <= '0;
      number_q      <= 16'd0;
      hold_q        <= 1'b0;
      second_q      <= 1'b0;
      tx_seq_done_q <= 1'b0;
      rx_seq_done_q <= 1'b0;
      led_done_q    <= 1'b0;
      req_sent_q    <= 1'b0;
      beat_q        <= 2'd0;
    end else begin
      state_q       <= state_d;
      update_q      <= update_d;
      status_q      <= status_d;
      detail_q      <= detail_d;
      hold_q        <= hold_d;
      second_q      <= second_d;
      tx_seq_done_q <= state_q == StSequence && !seq_done && (tx_seq_done_q || tx_seq_init_ready_i);
      rx_seq_done_q <= state_q == StSequence && !seq_done && (rx_seq_done_q || rx_seq_init_ready_i);
      led_done_q    <= state_q == StSequence && !seq_done && (led_done_q || led_init_ready_i);
      req_sent_q    <= state_q == StResult && !wdone_i && (req_sent_q || req_take);
      beat_q        <= (state_q == StResult && !wdone_i) ? beat_q + 2'(beat_take) : 2'd0;
      if (update_end && !upd_error_i && update_q == UpLimit) limit_q <= index_q[IndexBits:0];
      if (state_q == StResult && wdone_i) number_q <= number_q + 16'd1;
    end
  end

  // No reset: these are written before use.
  always_ff @(posedge clk_i) begin
    if (start) begin
      block_q <= cmd_addr_i;
      word_q  <= 4'd0;
      // Until the block is read, the index of the trace is 0.
      index_q <= 32'd0;
    end
    if (state_q == StFetchData && rd_take) begin
      word_q <= word_q + 4'd1;
      case (word_q)
        WordOpcode:      opcode_q <= rd_word;
        WordIndex:       index_q <= rd_word;
        WordHandle:      handle_q <= rd_word;
        WordListAddress: list_addr_q <= rd_word;
        WordListCount:   list_count_q <= rd_word;
        WordLevel2:      level2_q <= rd_word;
        default:         if (word_q < WordDetail) payload_q <= {rd_word, payload_q[255:32]};
      endcase
    end
    if (state_q == StContext) deadline_q <= timebase_i + 48'(Patience);
    if (state_q == StFetchRequest && req_take) lane_q <= '0;
    else if (state_q == StListRequest && req_take) begin
      lane_q <= (Lanes > 1) ? LaneBits'(list_addr_q[31:2]) : '0;
    end else if (rd_take) lane_q <= (lane_q == LastLane) ? '0 : lane_q + 1'b1;
    fill_q <= fill_d;
    if (state_q == StListRequest && req_take) chunk_q <= chunk;
    if (state_q == StListData && rd_take) buffer[fill_q[BufferBits-1:0]] <= rd_word;
    if (state_q == StListData && rd_take && fill_last) begin
      list_addr_q  <= list_addr_q + {19'd0, chunk_q, 2'd0};
      list_count_q <= list_count_q - 32'(chunk_q);
    end
    if (state_q == StUpdate && upd_ready_i && update_q == UpEntry) chunk_q <= EntryWords;
    if (update_end && update_q == UpList) level2_q <= level2_q + {19'd0, chunk_q, 2'd0};
    // The level-1 entry is shifted out of the payload.
    if (state_q == StUpdateWords && update_q == UpEntry && word_put) begin
      payload_q <= {32'd0, payload_q[255:32]};
    end
  end

  assign cmd_busy_o = state_q != StIdle;

  // Host bus.
  always_comb begin
    req_valid_o = state_q == StFetchRequest || state_q == StListRequest ||
        (state_q == StResult && !req_sent_q);
    req_write_o = state_q == StResult;
    case (state_q)
      StListRequest: begin
        req_addr_o = list_addr_q;
        req_len_o  = 10'({chunk[7:0], 2'd0});
      end
      StResult: begin
        req_addr_o = block_q + 32'(hvia_pkg::CommandDetailOffset);
        req_len_o  = 10'd8;
      end
      default: begin
        req_addr_o = block_q;
        req_len_o  = 10'(hvia_pkg::CommandSize);
      end
    endcase
  end

  logic [63:0] result;
  assign result   = {24'd0, status_q, detail_q};
  assign wvalid_o = state_q == StResult && beat_q != 2'(ResultBeats);
  assign wstrb_o  = '1;
  if (Lanes > 1) begin : g_wide_result
    assign wdata_o = W'(result);
  end else begin : g_result
    assign wdata_o = beat_q[0] ? result[63:32] : result[31:0];
  end

  // Contexts.
  logic [2:0] new_state;
  always_comb begin
    new_state = hvia_pkg::VIStateIdle;
    if (is_destroy || is_reset) new_state = hvia_pkg::VIStateFree;
    if ((is_destroy || is_disconnect) && !second_q) new_state = hvia_pkg::VIStateError;
    if (opcode_q[7:0] == hvia_pkg::CommandOpcodeConnectVI) new_state = hvia_pkg::VIStateConnected;
    ctx_wr_ctx_o = (is_destroy || is_reset || is_disconnect) ? ctx_rd_ctx_i : payload_q[127:0];
    ctx_wr_ctx_o[StateLsb+:hvia_pkg::VIStateBits] = new_state;
  end
  assign ctx_wr_valid_o = state_q == StContext;
  assign ctx_wr_vi_o    = index_q[hvia_params_pkg::VICountLog2-1:0];
  assign ctx_rd_vi_o    = index_q[hvia_params_pkg::VICountLog2-1:0];
  assign hold_valid_o   = hold_q;
  assign hold_vi_o      = index_q[hvia_params_pkg::VICountLog2-1:0];

  assign seq_init_vi_o       = index_q[hvia_params_pkg::VICountLog2-1:0];
  assign tx_seq_init_valid_o = state_q == StSequence && !tx_seq_done_q;
  assign rx_seq_init_valid_o = state_q == StSequence && !rx_seq_done_q;
  assign tx_seq_init_value_o = payload_q[8*hvia_pkg::VIContextSendSequenceOffset+:32];
  assign rx_seq_init_value_o = payload_q[8*hvia_pkg::VIContextReceiveSequenceOffset+:32];
  assign led_init_valid_o     = state_q == StSequence && !led_done_q;
  assign seq_init_transport_o = payload_q[8*hvia_pkg::VIContextWindowOffset+:32];

  // Completion queues. A context written from the block carries its ties.
  assign cq_tie_valid_o   = state_q == StContext && !(is_destroy || is_reset || is_disconnect);
  assign cq_tie_vi_o      = index_q[hvia_params_pkg::VICountLog2-1:0];
  assign cq_tie_send_o    = payload_q[8*hvia_pkg::VIContextSendCompletionQueueOffset+:8];
  assign cq_tie_receive_o = payload_q[8*hvia_pkg::VIContextReceiveCompletionQueueOffset+:8];
  assign cqc_valid_o      = state_q == StQueue;
  assign cqc_op_o         = is_create_queue ? 2'd0 : is_resize_queue ? 2'd2 : 2'd1;
  assign cqc_index_o      = index_q[7:0];
  assign cqc_address_o    = list_addr_q;
  assign cqc_log2_o       = list_count_q[7:0];

  assign clear_valid_o = state_q == StClear;
  assign clear_vi_o    = index_q[hvia_params_pkg::VICountLog2-1:0];

  assign flush_o = (is_disconnect || is_destroy) &&
      (state_q == StSettle || state_q == StDrain || state_q == StDrained);
  assign stale_start_o = state_q == StStale;

  assign drain_handle_o = handle_q;
  assign drain_vi_o     = index_q[hvia_params_pkg::VICountLog2-1:0];

  // Translation table.
  assign upd_valid_o = state_q == StUpdate;
  always_comb begin
    upd_op_o    = hvia_pkg::AttUpdateWrite;
    upd_arg_o   = level2_q;
    upd_count_o = 16'(chunk_q);
    case (update_q)
      UpEntry: begin
        upd_arg_o   = hvia_pkg::AttLevel1Base + index_q * hvia_pkg::AttLevel1Stride;
        upd_count_o = 16'(EntryWords);
      end
      UpInvalidate: begin
        upd_op_o  = hvia_pkg::AttUpdateInvalidate;
        upd_arg_o = handle_q;
      end
      UpLimit: begin
        upd_op_o  = hvia_pkg::AttUpdateLimit;
        upd_arg_o = index_q;
      end
      default: ;
    endcase
  end
  assign upd_wvalid_o = state_q == StUpdateWords;
  assign upd_wdata_o  = (update_q == UpEntry) ? payload_q[31:0] : buffer[fill_q[BufferBits-1:0]];

  // Ends.
  logic finish;
  assign finish               = state_q == StResult && wdone_i;
  assign irq_command_done_o   = finish && !werr_i;
  assign stat_command_o       = finish && !werr_i && status_q == hvia_pkg::CommandStatusDone;
  assign stat_command_error_o = (finish && !stat_command_o) ||
      (state_q == StIdle && cmd_valid_i && !start);

  assign trace_valid_o = start || irq_command_done_o;
  assign trace_event_o = finish ? hvia_pkg::TraceEventCommandDone :
                                  hvia_pkg::TraceEventCommandStart;
  assign trace_vi_o    = finish ? index_q[7:0] : 8'd0;
  assign trace_seq_o   = number_q;

  assign next_deadline_o = waiting ? deadline_q : '1;

  assign quiet_o = state_d == state_q && hold_d == hold_q && second_d == second_q && !rd_take &&
      !req_take && !beat_take &&
      !word_put && !(state_q == StSequence && (tx_seq_init_ready_i || rx_seq_init_ready_i ||
          led_init_ready_i)) &&
      !(state_q == StIdle && (cmd_valid_i || hold_q || detail_q != 32'd0));

endmodule
