// SPDX-License-Identifier: Apache-2.0

// The sender's half of reliable delivery: what every connection has sent and the peer has not
// acknowledged. The transmit engine asks it before it sends on a reliable VI and reports every
// frame; acknowledgements, read requests and read responses come from the receive engine. The
// ledger returns messages to the transmit engine when they must be retransmitted or may continue.
// It completes send descriptors in queue order when their frames are acknowledged (reads: when the
// response is in memory), and breaks a connection that makes no progress or was NAKed.
//
// Each VI has a record (numbers, windows, timer) and two rings of entries: requests, from their
// descriptors, and responses due to reads of its peer. Both rings share one sequence space. Numbers
// are assigned in start order, so a started entry owns a contiguous range [first, last]. `last` is
// known when the engine reports it; until then the entry is open and no other starts. So a scan of
// the started entries finds the message of a number.
//
//   una    oldest unacknowledged number
//   next   the next to send; una after a rewind
//   top    one past the highest number ever sent
//
// One operation at a time: the record and an entry are read in the clock in which it is chosen, and
// written in the next, unless it scans entries, one per clock. The transmit engine, the receive
// engine and the ledger's work (completions, jobs, deadlines, the search for a withdrawn handle)
// take turns.
//
// A connection is live from ConnectVI to the flush. A VI that is not live completes all its
// entries. A broken one is live but idle: its entries wait for the flush.
module hvia_send_ledger (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [47:0]  timebase_i,

    // Connect: first sequence number and limits. Reset of a VI: every module takes it in the clock
    // with `clear_valid_i` and `clear_ready_i`.
    input  logic         led_init_valid_i,
    output logic         led_init_ready_o,
    input  hvia_params_pkg::vi_t seq_init_vi_i,
    input  logic [31:0]  tx_seq_init_value_i,
    input  logic [31:0]  seq_init_transport_i,
    input  logic         clear_valid_i,
    input  logic         clear_ready_i,
    input  hvia_params_pkg::vi_t clear_vi_i,

    // The transmit engine asks and reports.
    input  logic         led_valid_i,
    output logic         led_ready_o,
    input  logic [1:0]   led_op_i,
    input  hvia_params_pkg::vi_t led_vi_i,
    input  logic [4:0]   led_slot_i,
    input  logic [31:0]  led_number_i,
    input  logic         led_last_i,
    input  logic [8:0]   led_status_i,
    input  logic [63:0]  led_va_i,
    input  logic [31:0]  led_pa_i,
    input  logic [31:0]  led_handle_i,
    input  logic [15:0]  led_seq_i,
    input  logic [31:0]  led_length_i,
    input  logic [1:0]   led_operation_i,
    input  logic         led_fence_i,
    output logic         led_go_o,
    output logic [31:0]  led_number_o,
    output logic [4:0]   led_slot_o,

    // Messages for the transmit engine: to retransmit, to continue, or to start late.
    output logic         job_valid_o,
    input  logic         job_ready_i,
    output hvia_params_pkg::vi_t job_vi_o,
    output logic [4:0]   job_slot_o,
    output logic         job_response_o,
    output logic [31:0]  job_first_o,
    output logic [31:0]  job_number_o,
    output logic [63:0]  job_va_o,
    output logic [31:0]  job_pa_o,
    output logic [31:0]  job_handle_o,
    output logic [15:0]  job_seq_o,
    output logic [31:0]  job_length_o,
    output logic [1:0]   job_operation_o,

    // The receive engine: acknowledgements, read requests and read responses.
    input  logic         rxl_valid_i,
    output logic         rxl_ready_o,
    input  logic [2:0]   rxl_op_i,
    input  hvia_params_pkg::vi_t rxl_vi_i,
    input  logic [31:0]  rxl_number_i,
    input  logic [2:0]   rxl_code_i,
    input  logic [8:0]   rxl_status_i,
    input  logic [63:0]  rxl_va_i,
    input  logic [31:0]  rxl_handle_i,
    input  logic [31:0]  rxl_length_i,
    output logic         rxl_ok_o,
    output logic [63:0]  rxl_va_o,
    output logic [31:0]  rxl_handle_o,
    output logic [31:0]  rxl_length_o,

    // A frame of the peer was accepted, or dropped as old or ahead.
    input  logic         alive_valid_i,
    input  hvia_params_pkg::vi_t alive_vi_i,

    // NAKs of reads.
    output logic         nak_valid_o,
    input  logic         nak_ready_i,
    output hvia_params_pkg::vi_t nak_vi_o,
    output logic [31:0]  nak_number_o,
    output logic [2:0]   nak_code_o,

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

    // Asynchronous error, for one clock in which the consumer is ready.
    output logic         async_valid_o,
    input  logic         async_ready_i,
    output logic [7:0]   async_code_o,
    output logic [7:0]   async_vi_o,

    // Held send queues: they have enough entries here.
    output hvia_params_pkg::vis_t send_hold_o,
    output logic         unhold_valid_o,
    input  logic         unhold_ready_i,
    output hvia_params_pkg::vi_t unhold_vi_o,

    // Drain, and search for a withdrawn handle; drain_handle_i is stable meanwhile.
    input  logic [31:0]  drain_handle_i,
    input  hvia_params_pkg::vi_t drain_vi_i,
    input  logic         flush_i,
    input  logic         receive_busy_i,  // the receive engine works on drain_vi
    input  logic         stale_start_i,
    output logic         stale_busy_o,
    output logic         handle_busy_o,
    output logic         vi_busy_o,

    output logic         stat_retransmit_frame_o,
    output logic         stat_retry_timeout_o,
    output logic         stat_rewind_o,
    output logic         stat_retry_exhausted_o,
    output logic         stat_acknowledge_stray_o,
    output logic         stat_nak_received_o,
    output logic         stat_read_response_o,
    output logic         trace_valid_o,
    output logic [7:0]   trace_event_o,
    output logic [7:0]   trace_vi_o,
    output logic [15:0]  trace_seq_o,
    output logic [47:0]  next_deadline_o,
    output logic         quiet_o
);

  localparam int unsigned Messages     = hvia_params_pkg::LedgerMessages;
  localparam int unsigned Responses    = hvia_params_pkg::LedgerResponses;
  localparam int unsigned MessageBits  = $clog2(Messages);
  localparam int unsigned ResponseBits = $clog2(Responses);
  // Descriptors that may be in flight when their queue is held: one each in the queue's offer, the
  // fetch, the register behind it and the engine.
  localparam int unsigned InFlight = 4;
  localparam int unsigned HoldFrom = Messages - InFlight;
  localparam int unsigned Together = hvia_params_pkg::AcknowledgeEvery;
  localparam int unsigned AliveFactor = hvia_params_pkg::RetryAliveFactor;
  localparam int unsigned AliveBits   = 8 + $clog2(AliveFactor);
  localparam logic [31:0] MaxPayload = {16'd0, hvia_pkg::MaxPayload};
  // The NAK of an acknowledged frame may be this many numbers behind: more than any window.
  localparam logic [31:0] NAKBehind = 32'd256;

  // Report or question of the transmit engine: led_op.
  localparam logic [1:0] LedOpen = 2'd0, LedSent = 2'd1, LedAsk = 2'd2;  // else Fail
  // led_operation of an unreachable descriptor: none of the real ones.
  localparam logic [1:0] Unreachable = 2'd3;

  // Error bits of a status.
  localparam logic [8:0] ErrorMask = hvia_pkg::DescriptorErrorMask[8:0];

  // Why a connection ends if no entry is marked.
  localparam logic [1:0] Alive = 2'd0, Lost = 2'd1, Exhausted = 2'd2;

  // The record of a VI.
  typedef struct packed {
    logic [31:0] una;
    logic [31:0] next;
    logic [31:0] top;
    logic [47:0] deadline;
    logic [7:0]  window;       // as negotiated
    logic [7:0]  moving;       // the congestion window, floor to window
    logic [7:0]  credit;       // acknowledged since it last changed
    logic [7:0]  retries;      // timeouts in a row without a sign of life of the peer
    logic [AliveBits-1:0] tries;  // timeouts in a row without progress
    logic [31:0] seen;         // the stamp in alive_mem at the last timeout
    logic        probe;        // retransmit the request of the oldest unanswered read
    logic [7:0]  retry_limit;
    logic [7:0]  read_limit;
    logic [4:0]  retry_log2;
    logic [MessageBits:0]  req_head, req_started, req_tail;
    logic [ResponseBits:0] rsp_head, rsp_started, rsp_tail;
    logic [MessageBits:0]  reads;  // reads started and not answered
    logic        open;         // the message started last has more frames
    logic        halted;       // a message is marked: start none behind it
    logic        stopped;      // NAKed by the peer: send nothing
    logic        broken;
    logic        gapped;       // rewound for a gap at una
    logic [1:0]  fate;
  } record_t;

  // Mutable and constant part of an entry. Of a response, pa is the number of its request.
  typedef struct packed {
    logic [8:0]  status;
    logic [1:0]  operation;
    logic        fence;
    logic        ended;      // last is known
    logic        answered;   // the read response is in memory
    logic        stale;      // the descriptor's memory is gone
    logic [31:0] first;
    logic [31:0] last;
  } entry_t;
  typedef struct packed {
    logic [63:0] va;
    logic [31:0] pa;
    logic [31:0] handle;
    logic [15:0] seq;
    logic [31:0] length;
  } source_t;

  typedef enum logic [2:0] {
    OpClear, OpInit, OpTransmit, OpReceive, OpFinish, OpOffer, OpDeadline, OpSearch
  } op_e;
  // Scan: one entry per clock. Request, Response: the head of that ring. Take: the next to start.
  typedef enum logic [2:0] {Choose, Execute, Scan, Request, Response, Take} state_e;

  state_e     state_q, state_d;
  op_e        op_q, op_d;
  hvia_params_pkg::vi_t vi_q, vi_d;
  logic       begin_op;  // this clock chooses an operation
  logic       done;      // this clock ends it

  // Data read.
  record_t record_rd_q;
  entry_t  req_rd_q, rsp_rd_q;
  source_t req_source_rd_q, rsp_source_rd_q;

  // Memories without reset: a record is valid only while its VI is known. Their words are plain
  // vectors, because Yosys makes one register of a memory of structs.
  logic [$bits(record_rd_q)-1:0]     record_mem [hvia_params_pkg::VICount];
  logic [$bits(req_rd_q)-1:0]        req_mem    [hvia_params_pkg::VICount * Messages];
  logic [$bits(rsp_rd_q)-1:0]        rsp_mem    [hvia_params_pkg::VICount * Responses];
  logic [$bits(req_source_rd_q)-1:0] req_source [hvia_params_pkg::VICount * Messages];
  logic [$bits(rsp_source_rd_q)-1:0] rsp_source [hvia_params_pkg::VICount * Responses];

  // Stamp of the peer's last frame, separate from the record, because it needs no operation. A
  // stamp that changed since the last timeout is a sign of life. Before the first timeout in a row
  // the stamp does not matter, so this memory needs no reset either.
  logic [31:0] alive_mem [hvia_params_pkg::VICount];
  logic [31:0] alive_rd_q;

  hvia_params_pkg::vis_t known_q;
  hvia_params_pkg::vis_t live_q;
  hvia_params_pkg::vis_t used_q;   // the VI has requests here
  hvia_params_pkg::vis_t armed_q;  // the deadline in the record counts
  hvia_params_pkg::vis_t hold_q;

  // The engine's message. It may be gone: the engine drops one without a report when its VI is no
  // longer connected.
  logic       engine_q;
  hvia_params_pkg::vi_t engine_vi_q;
  logic [4:0] engine_slot_q;

  // A connect or a clear was taken and is pending.
  logic        init_q, clear_q;
  hvia_params_pkg::vi_t init_vi_q, clear_vi_q;
  logic [31:0] init_number_q;
  logic [28:0] init_transport_q;
  logic        unused_transport;
  assign unused_transport = ^seq_init_transport_i[31:29];  // 31:24: log2 of the timeout, below 32

  // Output registers.
  logic       job_valid_q, cpl_valid_q, async_q, nak_valid_q, unhold_q;
  hvia_params_pkg::vi_t job_vi_q, cpl_vi_q, nak_vi_q, unhold_vi_q;
  hvia_params_pkg::vi_t async_vi_q;
  logic [7:0] async_code_q;
  logic       job_take, reports_free;
  assign job_take     = job_valid_q && job_ready_i;
  assign reports_free = !cpl_valid_q && !async_q && !nak_valid_q && !unhold_q;

  // Lists of VIs: finish, those that may complete something; offer, those that may send.
  logic       finish_any, offer_any, finish_push, offer_push, finish_pop, offer_pop;
  hvia_params_pkg::vi_t finish_vi, offer_vi, finish_push_vi;
  logic       finish_quiet, offer_quiet;

  hvia_vi_list u_finish (
      .clk_i, .rst_ni, .push_i(finish_push), .push_vi_i(finish_push_vi), .any_o(finish_any),
      .vi_o(finish_vi), .pop_i(finish_pop), .quiet_o(finish_quiet)
  );

  hvia_vi_list u_offer (
      .clk_i, .rst_ni, .push_i(offer_push), .push_vi_i(vi_q), .any_o(offer_any), .vi_o(offer_vi),
      .pop_i(offer_pop), .quiet_o(offer_quiet)
  );

  // Deadlines.
  logic        visit_valid, visit_done, deadline_set, walker_quiet;
  hvia_params_pkg::vi_t visit_vi;
  logic [47:0] deadline_value;

  hvia_deadline_walker u_walker (
      .clk_i, .rst_ni, .timebase_i, .armed_i(armed_q),
      .set_valid_i(deadline_set), .set_deadline_i(deadline_value),
      .visit_valid_o(visit_valid), .visit_done_i(visit_done), .visit_vi_o(visit_vi),
      .next_deadline_o, .quiet_o(walker_quiet)
  );

  // The search for a withdrawn handle, VI by VI.
  logic       search_q, search_here, search_step;
  hvia_params_pkg::vi_t search_vi_q;
  assign search_here  = search_q && used_q[search_vi_q];
  assign search_step  = search_q && (!used_q[search_vi_q] || (done && op_q == OpSearch));
  assign stale_busy_o = search_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      search_q    <= 1'b0;
      search_vi_q <= '0;
    end else if (stale_start_i) begin
      search_q    <= 1'b1;
      search_vi_q <= '0;
    end else if (search_step) begin
      search_q    <= search_vi_q != '1;
      search_vi_q <= search_vi_q + 1'b1;
    end
  end

  // Choice. A clear precedes all others, because later operations belong to another user of the VI;
  // then a connect. The others take turns: transmit engine, receive engine, the ledger's own work,
  // of which four kinds take turns. So each engine is served after at most two other operations.
  logic [2:0] want, pick;
  logic [3:0] work_want, work_pick;
  logic [1:0] turn_q, work_turn_q;

  assign work_want = {search_here, visit_valid, offer_any && !job_valid_q, finish_any &&
      reports_free};
  assign want      = {work_want != 4'd0, rxl_valid_i, led_valid_i};

  always_comb begin
    unique case (turn_q)
      2'd0:    pick = want[0] ? 3'b001 : want[1] ? 3'b010 : want & 3'b100;
      2'd1:    pick = want[1] ? 3'b010 : want[2] ? 3'b100 : want & 3'b001;
      default: pick = want[2] ? 3'b100 : want[0] ? 3'b001 : want & 3'b010;
    endcase
    unique case (work_turn_q)
      2'd0:    work_pick = work_want[0] ? 4'b0001 : work_want[1] ? 4'b0010 :
          work_want[2] ? 4'b0100 : work_want & 4'b1000;
      2'd1:    work_pick = work_want[1] ? 4'b0010 : work_want[2] ? 4'b0100 :
          work_want[3] ? 4'b1000 : work_want & 4'b0001;
      2'd2:    work_pick = work_want[2] ? 4'b0100 : work_want[3] ? 4'b1000 :
          work_want[0] ? 4'b0001 : work_want & 4'b0010;
      default: work_pick = work_want[3] ? 4'b1000 : work_want[0] ? 4'b0001 :
          work_want[1] ? 4'b0010 : work_want & 4'b0100;
    endcase
  end

  always_comb begin
    begin_op = 1'b0;
    op_d     = op_q;
    vi_d     = vi_q;
    if (state_q == Choose) begin
      if (clear_q) begin
        begin_op = !unhold_q;
        op_d     = OpClear;
        vi_d     = clear_vi_q;
      end else if (init_q) begin
        begin_op = 1'b1;
        op_d     = OpInit;
        vi_d     = init_vi_q;
      end else begin
        begin_op = pick != 3'd0;
        if (pick[0]) begin
          op_d = OpTransmit;
          vi_d = led_vi_i;
        end else if (pick[1]) begin
          op_d = OpReceive;
          vi_d = rxl_vi_i;
        end else if (work_pick[0]) begin
          op_d = OpFinish;
          vi_d = finish_vi;
        end else if (work_pick[1]) begin
          op_d = OpOffer;
          vi_d = offer_vi;
        end else if (work_pick[2]) begin
          op_d = OpDeadline;
          vi_d = visit_vi;
        end else if (work_pick[3]) begin
          op_d = OpSearch;
          vi_d = search_vi_q;
        end
      end
    end
  end
  assign finish_pop = begin_op && op_d == OpFinish;
  assign offer_pop  = begin_op && op_d == OpOffer;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q     <= Choose;
      op_q        <= OpClear;
      vi_q        <= '0;
      turn_q      <= 2'd0;
      work_turn_q <= 2'd0;
    end else if (begin_op || state_q != Choose) begin
      state_q <= state_d;
      if (begin_op) begin
        op_q <= op_d;
        vi_q <= vi_d;
        unique case (op_d)
          OpClear, OpInit: ;
          OpTransmit: turn_q <= 2'd1;
          OpReceive:  turn_q <= 2'd2;
          default: begin
            turn_q      <= 2'd0;
            work_turn_q <= work_pick[0] ? 2'd1 : work_pick[1] ? 2'd2 : work_pick[2] ? 2'd3 : 2'd0;
          end
        endcase
      end
    end
  end

  logic                  read_entry, read_rsp_d, at_rsp_q;
  hvia_params_pkg::vi_t read_vi;
  logic [MessageBits-1:0]  req_at_d, req_at_q;
  logic [ResponseBits-1:0] rsp_at_d, rsp_at_q;

  always_ff @(posedge clk_i) begin
    if (begin_op) begin
      record_rd_q <= record_mem[vi_d];
      alive_rd_q  <= alive_mem[vi_d];
    end
    if (read_entry && !read_rsp_d) begin
      req_rd_q        <= req_mem[{read_vi, req_at_d}];
      req_source_rd_q <= req_source[{read_vi, req_at_d}];
      req_at_q        <= req_at_d;
    end
    if (read_entry && read_rsp_d) begin
      rsp_rd_q        <= rsp_mem[{read_vi, rsp_at_d}];
      rsp_source_rd_q <= rsp_source[{read_vi, rsp_at_d}];
      rsp_at_q        <= rsp_at_d;
    end
    if (read_entry) at_rsp_q <= read_rsp_d;
  end

  // r: the record as read, n: its next value. e, s: the present entry. w: its next value.
  record_t r, n;
  entry_t  e, w;
  source_t s, in;
  assign r = known_q[vi_q] ? record_rd_q : '0;
  assign e = at_rsp_q ? rsp_rd_q : req_rd_q;
  assign s = at_rsp_q ? rsp_source_rd_q : req_source_rd_q;

  // The flush of this VI takes effect at once.
  logic flushed, live, running, engine_here, req_empty;
  assign flushed     = flush_i && drain_vi_i == vi_q;
  assign live        = live_q[vi_q] && !flushed;
  assign running     = live && !r.broken && r.fate == Alive;
  assign engine_here = engine_q && engine_vi_q == vi_q;
  assign req_empty   = r.req_head == r.req_tail;

  // Numbers are compared by their distance.
  logic [31:0] ahead;  // frames from una to next
  logic        space, half;
  assign ahead = r.next - r.una;
  assign space = ahead < {24'd0, r.moving};
  // Half of the congestion window is open, or too few frames are in flight for the peer to
  // acknowledge.
  assign half  = space && ({r.moving, 1'b0} - {ahead[7:0], 1'b0} >= {1'b0,
      r.moving} || ahead < Together);

  // With a window below the number of frames that the peer acknowledges together, each frame inside
  // a message would wait for the timeout.
  logic [7:0] floor;
  assign floor = (r.window < Together[7:0]) ? r.window : Together[7:0];

  // The present entry: has an error, has all frames acknowledged, is complete, contains `sought`.
  logic [31:0] offset, extent, last_ahead;
  logic        marked, acked, complete, unanswered, contains, single, fits, probing;
  logic [31:0] sought;
  assign last_ahead   = e.last - r.una;
  assign marked     = e.status != 9'd0 || e.operation == Unreachable;
  assign acked      = e.ended && last_ahead[31];
  assign complete   = acked && (e.operation != hvia_pkg::DescriptorOperationRDMARead || e.answered);
  // A read whose response may be arriving. The flush completes it when nothing is written any more;
  // a NAK does so earlier, because it follows all responses of the peer.
  assign unanswered    = e.operation == hvia_pkg::DescriptorOperationRDMARead && e.ended &&
      !e.answered;
  assign sought   = (op_q == OpOffer) ? r.next : rxl_number_i;
  assign offset   = sought - e.first;
  assign extent   = e.last - e.first;
  assign contains = !offset[31] && (!e.ended || offset <= extent);
  // Nothing new to send now except the request of the read whose response is awaited.
  assign probing  = r.probe && r.next == r.top && !r.open;
  assign single   = s.length <= MaxPayload ||
      e.operation == hvia_pkg::DescriptorOperationRDMARead;
  // A message becomes a job if its known part fits into the window, or half the window is open.
  assign fits = half || probing || (state_q == Take ? single && space : e.ended &&
      last_ahead < {24'd0, r.moving});

  // Scan of the entries: requests from the oldest on, then responses.
  logic [MessageBits:0]  scan_q, scan_req, scan_end;
  logic [ResponseBits:0] scan_rsp_q, scan_rsp;
  logic                  scan_begin, scan_both, scan_req_more, scan_rsp_more, scan_more, scan_next,
      scan_rsp_here;
  assign scan_end      = (op_q == OpSearch) ? r.req_tail : r.req_started;
  assign scan_both     = op_q == OpOffer || (op_q == OpReceive &&
      rxl_op_i == hvia_pkg::ReceiveReportAcknowledge);
  assign scan_rsp_here = state_q == Scan && at_rsp_q;
  assign scan_req      = (state_q == Scan) ? scan_q + 1'b1 : r.req_head;
  assign scan_rsp      = scan_rsp_here ? scan_rsp_q + 1'b1 : r.rsp_head;
  assign scan_req_more = !scan_rsp_here && scan_req != scan_end;
  assign scan_rsp_more = scan_both && scan_rsp != r.rsp_started;
  assign scan_more     = scan_req_more || scan_rsp_more;

  always_ff @(posedge clk_i) begin
    if (scan_begin || scan_next) begin
      if (scan_req_more) scan_q <= scan_req;
      else scan_rsp_q <= scan_rsp;
    end
  end

  // Effects of the operations.
  logic        write_entry, write_rsp, write_source, write_record;
  logic [MessageBits-1:0]  write_req_at;
  logic [ResponseBits-1:0] write_rsp_at;
  logic        touch, acknowledge, go_back, halve, stray, by_gap, nak_here;
  logic [31:0] ack_number, ack_delta, span, behind;
  logic        in_range, late, slot_req, engine_match, fresh, hit, begins, go, ok, unstarted,
      probe_here;
  logic        pop_req, pop_rsp, report, nak, lose, report_unreachable, job_load, see_finish;
  logic [8:0]  report_status;
  logic [31:0] report_length;
  logic [8:0]  credit;
  logic        read_op;
  logic [MessageBits:0] req_slot_offset;

  assign slot_req        = !led_slot_i[4];
  assign engine_match    = engine_here && engine_slot_q == led_slot_i && live;
  assign req_slot_offset = {1'b0, led_slot_i[MessageBits-1:0] - r.req_head[MessageBits-1:0]};
  assign span            = r.top - r.una;
  // A response implies that the peer has the request.
  assign ack_number      = (rxl_op_i == hvia_pkg::ReceiveReportAnswered) ? e.last + 32'd1 :
      rxl_number_i;
  assign ack_delta       = ack_number - r.una;
  assign in_range        = ack_delta <= span;
  assign behind          = r.una - 32'd1 - rxl_number_i;
  // The NAK of an acknowledged frame. For a read that is its request: the peer NAKs it when its
  // turn comes.
  assign late            = ack_delta >= span;
  assign fresh           = engine_match && led_number_i == r.top;
  assign hit             = engine_match && led_number_i == r.next;
  assign unstarted       = slot_req ? r.req_started != r.req_tail &&
      led_slot_i[MessageBits-1:0] == r.req_started[MessageBits-1:0] :
                                      r.rsp_started != r.rsp_tail && led_slot_i[ResponseBits-1:0] ==
                                          r.rsp_started[ResponseBits-1:0];
  assign credit          = {1'b0, r.credit} + ack_delta[8:0];
  assign probe_here      = engine_match && slot_req && r.probe && unanswered &&
      led_number_i == e.first;

  // Timeouts in a row without a sign of life.
  logic [7:0] silences;
  assign silences = (alive_rd_q == r.seen) ? r.retries : 8'd0;

  // The status bit of a NAKed descriptor.
  logic [8:0] nak_status;
  always_comb begin
    nak_status = 9'd0;
    unique case (rxl_code_i)
      hvia_pkg::AcknowledgeCodeRemoteDescriptor:
          nak_status[hvia_pkg::DescriptorStatusRemoteDescriptorErrorBit] = 1'b1;
      hvia_pkg::AcknowledgeCodeRDMAProtection:
          nak_status[hvia_pkg::DescriptorStatusRDMAProtectionErrorBit]   = 1'b1;
      default:
          nak_status[hvia_pkg::DescriptorStatusTransportErrorBit] = 1'b1;
    endcase
  end

  always_comb begin
    n = r;
    w = e;
    in.va     = led_va_i;
    in.pa     = led_pa_i;
    in.handle = led_handle_i;
    in.seq    = led_seq_i;
    in.length = led_length_i;

    state_d      = Choose;
    done         = 1'b0;
    read_entry   = 1'b0;
    read_rsp_d   = 1'b0;
    read_vi      = vi_q;
    req_at_d     = r.req_head[MessageBits-1:0];
    rsp_at_d     = r.rsp_head[ResponseBits-1:0];
    scan_begin   = 1'b0;
    scan_next    = 1'b0;
    write_record = 1'b0;
    write_entry  = 1'b0;
    write_source = 1'b0;
    write_rsp    = at_rsp_q;
    write_req_at = req_at_q;
    write_rsp_at = rsp_at_q;

    touch       = 1'b0;
    acknowledge = 1'b0;
    go_back     = 1'b0;
    halve       = 1'b0;
    by_gap      = 1'b0;
    stray       = 1'b0;
    nak_here    = 1'b0;
    begins      = 1'b0;
    read_op     = 1'b0;
    go          = 1'b0;
    ok          = 1'b0;
    pop_req     = 1'b0;
    pop_rsp     = 1'b0;
    report      = 1'b0;
    nak         = 1'b0;
    lose        = 1'b0;
    report_unreachable = 1'b0;
    report_status = e.status;
    report_length = 32'd0;
    job_load    = 1'b0;
    see_finish  = 1'b0;
    stat_retry_timeout_o   = 1'b0;
    stat_retry_exhausted_o = 1'b0;
    stat_read_response_o   = 1'b0;
    stat_retransmit_frame_o = 1'b0;

    unique case (state_q)
      Choose: begin
        if (begin_op) state_d = Execute;
        // Sent, Ask and Fail name an entry.
        read_entry = begin_op && op_d == OpTransmit;
        read_rsp_d = led_slot_i[4];
        read_vi    = led_vi_i;
        req_at_d   = led_slot_i[MessageBits-1:0];
        rsp_at_d   = led_slot_i[ResponseBits-1:0];
      end

      Execute: begin
        done = 1'b1;
        unique case (op_q)
          OpInit: begin
            // What was posted before is marked as flushed, and not started.
            write_record = 1'b1;
            n            = '0;
            n.una        = init_number_q;
            n.next       = init_number_q;
            n.top        = init_number_q;
            n.window      = (init_transport_q[7:0] == 8'd0) ? 8'd1 : init_transport_q[7:0];
            n.moving      = n.window;
            n.retry_limit = init_transport_q[15:8];
            n.read_limit  = (init_transport_q[23:16] == 8'd0) ? 8'd1 : init_transport_q[23:16];
            n.retry_log2  = init_transport_q[28:24];
            n.req_head    = r.req_head;
            n.req_started = r.req_head;
            n.req_tail    = r.req_tail;
          end

          OpTransmit: begin
            write_record = 1'b1;
            write_rsp    = !slot_req;
            write_req_at = led_slot_i[MessageBits-1:0];
            write_rsp_at = led_slot_i[ResponseBits-1:0];
            if (led_op_i == LedOpen) begin
              // If nothing precedes the message, it starts at once.
              read_op = led_operation_i == hvia_pkg::DescriptorOperationRDMARead;
              go = running && !r.stopped && !r.halted && (led_status_i & ErrorMask) == 9'd0 &&
                  led_operation_i != Unreachable &&
                   r.next == r.top && !r.open &&
                       r.req_started == r.req_tail && r.rsp_started == r.rsp_tail && space &&
                   !(led_fence_i && r.reads != '0) && !(read_op && {3'd0, r.reads} >= r.read_limit);
              begins       = go;
              write_entry  = 1'b1;
              write_source = 1'b1;
              write_rsp    = 1'b0;
              write_req_at = r.req_tail[MessageBits-1:0];
              w.status     = led_status_i & ErrorMask;
              // A malformed descriptor may have the operation number that marks an unreachable one.
              w.operation  = (led_operation_i == Unreachable && w.status != 9'd0) ?
                  hvia_pkg::DescriptorOperationSend : led_operation_i;
              w.fence      = led_fence_i;
              w.ended      = 1'b0;
              w.answered   = 1'b0;
              w.stale      = 1'b0;
              w.first      = r.next;
              w.last       = r.next;
              n.req_tail   = r.req_tail + 1'b1;
              see_finish   = 1'b1;
            end else if (led_op_i == LedSent) begin
              // The frame is in flight, even if the ledger rewound meanwhile.
              if (fresh) begin
                n.top       = r.top + 32'd1;
                write_entry = led_last_i;
                w.ended     = 1'b1;
                w.last      = led_number_i;
                if (led_last_i) n.open = 1'b0;
              end
              if (hit) n.next = r.next + 32'd1;
              touch = fresh || hit;
              stat_retransmit_frame_o = engine_match && !fresh;
              go = hit && !led_last_i && running && !r.stopped && ahead + 32'd1 < {24'd0, r.moving};
            end else if (led_op_i == LedAsk) begin
              go     = (probe_here || (hit && space)) && running && !r.stopped && !marked &&
                  !(unstarted && slot_req && r.halted);
              if (probe_here) n.probe = 1'b0;
              begins = go && unstarted;
              read_op = slot_req && e.operation == hvia_pkg::DescriptorOperationRDMARead;
              write_entry = begins;
              w.first = r.next;
            end else begin
              // An acknowledged or completed message has not failed.
              if (engine_match && !marked && !acked && (!slot_req ||
                  req_slot_offset < r.req_tail - r.req_head)) begin
                write_entry = 1'b1;
                w.status    = led_status_i & ErrorMask;
                if (slot_req) n.halted = 1'b1;
                see_finish = 1'b1;
              end
            end
          end

          OpReceive: begin
            write_record = 1'b1;
            unique case (rxl_op_i)
              hvia_pkg::ReceiveReportAcknowledge: begin
                if (!live) begin
                  stray = 1'b1;
                end else if (running && !r.stopped) begin
                  if (rxl_code_i == hvia_pkg::AcknowledgeCodeOk ||
                      rxl_code_i == hvia_pkg::AcknowledgeCodeGap) begin
                    acknowledge = in_range;
                    stray       = !in_range;
                    by_gap      = in_range && rxl_code_i == hvia_pkg::AcknowledgeCodeGap &&
                        (!r.gapped || ack_delta != 32'd0);
                  end else if (rxl_code_i > hvia_pkg::AcknowledgeCodeTransport) begin
                    stray = 1'b1;
                  end else if (!late) begin
                    scan_begin = 1'b1;
                  end else if (behind < NAKBehind) begin
                    scan_begin = scan_more;
                    if (!scan_more) begin
                      nak_here  = 1'b1;
                      n.stopped = 1'b1;
                      n.fate    = Lost;
                    end
                  end else begin
                    stray = 1'b1;
                  end
                end
              end
              hvia_pkg::ReceiveReportRequest: begin
                ok = running && !r.stopped &&
                    !(r.rsp_tail[ResponseBits] != r.rsp_head[ResponseBits] &&
                                      r.rsp_tail[ResponseBits-1:0] == r.rsp_head[ResponseBits-1:0]);
                in.va     = rxl_va_i;
                in.pa     = rxl_number_i;
                in.handle = rxl_handle_i;
                in.seq    = rxl_number_i[15:0];
                in.length = rxl_length_i;
                write_entry  = ok;
                write_source = ok;
                write_rsp    = 1'b1;
                write_rsp_at = r.rsp_tail[ResponseBits-1:0];
                w            = '0;
                if (ok) n.rsp_tail = r.rsp_tail + 1'b1;
              end
              hvia_pkg::ReceiveReportFind, hvia_pkg::ReceiveReportAnswered: scan_begin = running;
              default: touch = running && r.reads != '0;  // Progress
            endcase
            if (scan_begin && scan_more) begin
              done         = 1'b0;
              write_record = 1'b0;
              state_d      = Scan;
            end
          end

          OpFinish: begin
            if (req_empty) begin
              lose       = live && !r.broken && r.fate != Alive;
              read_rsp_d = 1'b1;
              read_entry = running && r.rsp_head != r.rsp_tail;
              if (read_entry) begin
                done    = 1'b0;
                state_d = Response;
              end
            end else begin
              read_entry = 1'b1;
              done       = 1'b0;
              state_d    = Request;
            end
          end

          OpOffer: begin
            if (running && !r.stopped && space && !engine_here) begin
              if (r.next != r.top || r.open || r.probe) begin
                scan_begin = 1'b1;
                done       = 1'b0;
                state_d    = Scan;
              end else if (r.rsp_started != r.rsp_tail) begin
                read_entry = 1'b1;
                read_rsp_d = 1'b1;
                rsp_at_d   = r.rsp_started[ResponseBits-1:0];
                done       = 1'b0;
                state_d    = Take;
              end else if (r.req_started != r.req_tail && !r.halted) begin
                read_entry = 1'b1;
                req_at_d   = r.req_started[MessageBits-1:0];
                done       = 1'b0;
                state_d    = Take;
              end
            end
          end

          OpDeadline: begin
            write_record = 1'b1;
            if (running && armed_q[vi_q] && r.deadline <= timebase_i) begin
              stat_retry_timeout_o = 1'b1;
              n.seen = alive_rd_q;
              if (silences >= r.retry_limit || r.tries >= AliveBits'(r.retry_limit) *
                  AliveBits'(AliveFactor)) begin
                stat_retry_exhausted_o = 1'b1;
                n.fate     = Exhausted;
                see_finish = 1'b1;
              end else begin
                n.retries = silences + 8'd1;
                n.tries   = r.tries + 1'b1;
                n.gapped  = 1'b0;
                n.probe   = 1'b1;
                go_back   = 1'b1;
                halve     = 1'b1;
                touch     = 1'b1;
              end
            end
          end

          OpSearch: begin
            scan_begin = 1'b1;
            done       = !scan_more;
            state_d    = scan_more ? Scan : Choose;
          end

          default: ;  // OpClear
        endcase
        if (scan_begin) begin
          read_entry = scan_more;
          read_rsp_d = !scan_req_more;
          req_at_d   = scan_req[MessageBits-1:0];
          rsp_at_d   = scan_rsp[ResponseBits-1:0];
        end
      end

      Scan: begin
        state_d   = Scan;
        scan_next = 1'b1;
        done      = !scan_more;
        unique case (op_q)
          OpOffer: begin
            if (probing ? unanswered : contains) begin
              done     = 1'b1;
              job_load = running && !marked && fits;
            end
          end
          OpSearch: begin
            write_entry = s.handle == drain_handle_i;
            w.stale     = 1'b1;
          end
          default: begin
            if (rxl_op_i == hvia_pkg::ReceiveReportAcknowledge) begin
              if (contains && (!late || unanswered)) begin
                done        = 1'b1;
                write_entry = running && !at_rsp_q && !marked;
                w.status    = nak_status;
                if (at_rsp_q) n.fate = Lost;
              end else if (!scan_more) begin
                n.fate = Lost;  // no entry matches
              end
            end else if (e.operation == hvia_pkg::DescriptorOperationRDMARead && !e.answered) begin
              // The oldest read. A response to one that was never sent, or that failed here,
              // matches nothing.
              done = 1'b1;
              ok   = running && e.ended && !marked;
              if (ok && rxl_op_i == hvia_pkg::ReceiveReportAnswered) begin
                write_entry = 1'b1;
                w.answered  = 1'b1;
                w.status    = rxl_status_i & ErrorMask;
                if (w.status != 9'd0) n.halted = 1'b1;
                n.reads     = r.reads - 1'b1;
                acknowledge = in_range;
                touch       = 1'b1;
                see_finish  = 1'b1;
              end
            end
            write_record = done;
            // Everything before the NAKed number is acknowledged, and nothing more is sent.
            if (done && rxl_op_i == hvia_pkg::ReceiveReportAcknowledge && running) begin
              acknowledge = !late;
              nak_here    = 1'b1;
              n.stopped   = 1'b1;
            end
          end
        endcase
        if (done) state_d = Choose;
        else begin
          read_entry = 1'b1;
          read_rsp_d = !scan_req_more;
          req_at_d   = scan_req[MessageBits-1:0];
          rsp_at_d   = scan_rsp[ResponseBits-1:0];
        end
      end

      Take: begin
        done     = 1'b1;
        job_load = running && !marked && fits &&
                   (at_rsp_q || (!(e.fence && r.reads != '0) &&
                                 !(e.operation == hvia_pkg::DescriptorOperationRDMARead &&
                                     {3'd0, r.reads} >= r.read_limit)));
      end

      Request: begin
        done = 1'b1;
        if (flushed && receive_busy_i) begin
          // A response may arrive; the flush processes this VI later.
        end else if (!live || !r.broken) begin
          if (marked && unanswered && live && !r.stopped) begin
            lose = 1'b1;
          end else if (marked) begin
            // A flushed descriptor reached a VI that was not connected: it breaks nothing.
            pop_req = 1'b1;
            report  = e.operation != Unreachable;
            report_unreachable = !report;
            lose    = live && !e.status[hvia_pkg::DescriptorStatusFlushedBit];
          end else if (complete) begin
            pop_req = 1'b1;
            report  = 1'b1;
            report_length = s.length;
          end else if (!live) begin
            pop_req = 1'b1;
            report  = 1'b1;
            report_status[hvia_pkg::DescriptorStatusFlushedBit] = 1'b1;
          end else if (r.fate != Alive) begin
            lose = 1'b1;
            if (r.fate == Exhausted) begin
              pop_req     = !unanswered;
              report      = !unanswered;
              write_entry = unanswered;
              w.status[hvia_pkg::DescriptorStatusTransportErrorBit]      = 1'b1;
              report_status[hvia_pkg::DescriptorStatusTransportErrorBit] = 1'b1;
            end
          end else if (r.rsp_head != r.rsp_tail) begin
            done       = 1'b0;
            read_entry = 1'b1;
            read_rsp_d = 1'b1;
            state_d    = Response;
          end
        end
      end

      default: begin  // Response
        done = 1'b1;
        if (running) begin
          if (marked) begin
            nak     = 1'b1;
            lose    = 1'b1;
          end else if (r.rsp_head != r.rsp_started && acked) begin
            pop_rsp = 1'b1;
            stat_read_response_o = 1'b1;
          end
        end
      end
    endcase

    // A message starts.
    if (begins) begin
      n.open = 1'b1;
      touch  = 1'b1;
      if (slot_req || led_op_i == LedOpen) n.req_started = r.req_started + 1'b1;
      else n.rsp_started = r.rsp_started + 1'b1;
      if (read_op) n.reads = r.reads + 1'b1;
    end

    // Frames are acknowledged: the window moves, and grows after a full one.
    if (acknowledge && ack_delta != 32'd0) begin
      n.una = ack_number;
      if (ahead < ack_delta) n.next = ack_number;
      n.gapped = 1'b0;
      n.credit = credit[7:0];
      if (credit >= {1'b0, r.moving}) begin
        n.credit = 8'd0;
        if (r.moving != r.window) n.moving = r.moving + 8'd1;
      end
      touch      = 1'b1;
      see_finish = 1'b1;
    end
    // A `touch` so far means progress. An acknowledgement of nothing new is only a sign of life: a
    // restarted timer would delay the retransmission of a lost frame.
    if (touch && op_q == OpReceive) begin
      n.tries = '0;
      n.probe = 1'b0;
    end
    if ((touch || acknowledge) && op_q == OpReceive) n.retries = 8'd0;
    if (nak_here) see_finish = 1'b1;

    // Rewind.
    if (by_gap && n.next != n.una) begin
      go_back  = 1'b1;
      halve    = 1'b1;
      n.gapped = 1'b1;
      touch    = 1'b1;
    end
    if (halve) begin
      n.moving = ({1'b0, n.moving[7:1]} < floor) ? floor : {1'b0, n.moving[7:1]};
      n.credit = 8'd0;
    end
    if (go_back) n.next = n.una;

    // Completed entries leave.
    if (pop_req) begin
      write_record = 1'b1;
      n.req_head   = r.req_head + 1'b1;
      if (r.req_head == r.req_started) n.req_started = r.req_started + 1'b1;
    end
    if (pop_rsp) begin
      write_record = 1'b1;
      n.rsp_head   = r.rsp_head + 1'b1;
    end
    if (lose) begin
      write_record = 1'b1;
      n.broken     = 1'b1;
    end
    if (pop_req || pop_rsp) see_finish = 1'b1;

    // Frames in flight solicit their acknowledgement themselves.
    if (n.una != n.top || n.reads == '0) n.probe = 1'b0;

    if (touch) n.deadline = timebase_i + (48'd1 << r.retry_log2);
  end

  // Writes.
  always_ff @(posedge clk_i) begin
    if (alive_valid_i) alive_mem[alive_vi_i] <= timebase_i[31:0];
    if (write_record) record_mem[vi_q] <= n;
    if (write_entry && !write_rsp) req_mem[{vi_q, write_req_at}] <= w;
    if (write_entry && write_rsp) rsp_mem[{vi_q, write_rsp_at}] <= w;
    if (write_source && !write_rsp) req_source[{vi_q, write_req_at}] <= in;
    if (write_source && write_rsp) rsp_source[{vi_q, write_rsp_at}] <= in;
  end

  // Consequences of the written record.
  logic init_live, sends, arms, in_flight, may_send, withdraw, engine_free, engine_stays;
  assign init_live = write_record && op_q == OpInit;
  assign in_flight = n.una != n.top || n.reads != '0;
  assign arms      = live && !n.broken && n.fate == Alive && in_flight;
  assign sends     = live && !n.broken && n.fate == Alive && !n.stopped &&
      n.next - n.una < {24'd0, n.moving} &&
                     (n.next != n.top || n.open || n.probe || n.rsp_started != n.rsp_tail ||
                         (n.req_started != n.req_tail && !n.halted));

  // The engine finished its message.
  assign engine_free  = done && op_q == OpTransmit && !go;
  assign engine_stays = engine_here && !engine_free;

  // An offered job is withdrawn when other numbers are to be sent, or nothing, or a response
  // precedes it.
  assign withdraw = job_valid_q && write_record && job_vi_q == vi_q &&
      (!sends || (job_probe_q ? !n.probe : n.next != job_number_o ||
      (!job_response_o && n.next == n.top && !n.open && n.rsp_started != n.rsp_tail)));
  assign may_send = write_record && sends && !engine_stays &&
      !(job_valid_q && job_vi_q == vi_q && !withdraw);

  logic kick;
  assign kick           = flush_i && !receive_busy_i && used_q[drain_vi_i] && state_q == Choose;
  assign finish_push    = kick || (done && ((see_finish &&
      (n.req_head != n.req_tail || n.rsp_head != n.rsp_tail || n.fate != Alive))));
  assign finish_push_vi = (state_q == Choose) ? drain_vi_i : vi_q;
  assign offer_push     = done && may_send;

  assign deadline_set   = done && arms && (touch || op_q == OpDeadline);
  assign deadline_value = n.deadline;
  assign visit_done     = done && op_q == OpDeadline;

  // Replies to the engines.
  assign led_ready_o  = done && op_q == OpTransmit;
  assign led_go_o     = go;
  assign led_number_o = r.next;
  assign led_slot_o   = 5'(r.req_tail[MessageBits-1:0]);
  assign rxl_ready_o  = done && op_q == OpReceive;
  assign rxl_ok_o     = ok;
  assign rxl_va_o     = s.va;
  assign rxl_handle_o = s.handle;
  assign rxl_length_o = s.length;

  // Connects and clears.
  assign led_init_ready_o = !init_q;
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      init_q  <= 1'b0;
      clear_q <= 1'b0;
    end else begin
      if (led_init_valid_i && !init_q) init_q <= 1'b1;
      else if (done && op_q == OpInit) init_q <= 1'b0;
      if (clear_valid_i && clear_ready_i) clear_q <= 1'b1;
      else if (done && op_q == OpClear) clear_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (led_init_valid_i && !init_q) begin
      init_vi_q        <= seq_init_vi_i;
      init_number_q    <= tx_seq_init_value_i;
      init_transport_q <= seq_init_transport_i[28:0];
    end
    if (clear_valid_i && clear_ready_i) clear_vi_q <= clear_vi_i;
  end

  // Bits of all VIs.
  logic       cleared, req_full_enough, release_here;
  logic [MessageBits:0] req_count;
  assign req_count       = n.req_tail - n.req_head;
  assign cleared         = done && op_q == OpClear;
  assign req_full_enough = req_count >= HoldFrom[MessageBits:0];
  assign release_here    = hold_q[vi_q] && ((pop_req && !req_full_enough) || cleared);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      known_q <= '0;
      live_q  <= '0;
      used_q  <= '0;
      armed_q <= '0;
      hold_q  <= '0;
    end else begin
      if (write_record) begin
        known_q[vi_q] <= 1'b1;
        used_q[vi_q]  <= n.req_head != n.req_tail;
        armed_q[vi_q] <= arms;
        if (req_full_enough && op_q == OpTransmit) hold_q[vi_q] <= 1'b1;
      end
      if (release_here) hold_q[vi_q] <= 1'b0;
      if (init_live) live_q[vi_q] <= 1'b1;
      if (flush_i) begin
        live_q[drain_vi_i]  <= 1'b0;
        armed_q[drain_vi_i] <= 1'b0;
      end
      if (cleared) begin
        known_q[vi_q] <= 1'b0;
        live_q[vi_q]  <= 1'b0;
        used_q[vi_q]  <= 1'b0;
        armed_q[vi_q] <= 1'b0;
      end
    end
  end
  assign send_hold_o = hold_q;

  // The engine's message.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      engine_q <= 1'b0;
    end else begin
      if (job_take || (done && op_q == OpTransmit && go)) engine_q <= 1'b1;
      else if (engine_free || (engine_q && ((flush_i && engine_vi_q == drain_vi_i) ||
          (cleared && engine_vi_q == vi_q)))) engine_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (job_take) begin
      engine_vi_q   <= job_vi_q;
      engine_slot_q <= job_slot_o;
    end else if (done && op_q == OpTransmit && go) begin
      engine_vi_q   <= vi_q;
      engine_slot_q <= (led_op_i == LedOpen) ? led_slot_o : led_slot_i;
    end
  end

  // The job.
  logic job_flushed, job_probe_q;
  assign job_flushed = job_valid_q && ((flush_i && job_vi_q == drain_vi_i) ||
      (cleared && job_vi_q == vi_q));
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      job_valid_q <= 1'b0;
    end else begin
      if (job_load) job_valid_q <= 1'b1;
      else if (job_take || withdraw || job_flushed) job_valid_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (job_load) begin
      job_vi_q        <= vi_q;
      job_slot_o      <= at_rsp_q ? 5'(Messages) + 5'(rsp_at_q) : 5'(req_at_q);
      job_response_o  <= at_rsp_q;
      job_first_o     <= (state_q == Take) ? r.next : e.first;
      job_number_o    <= probing ? e.first : r.next;
      job_probe_q     <= probing;
      job_va_o        <= s.va;
      job_pa_o        <= s.pa;
      job_handle_o    <= s.handle;
      job_seq_o       <= s.seq;
      job_length_o    <= s.length;
      job_operation_o <= e.operation;
    end
  end
  assign job_valid_o = job_valid_q;
  assign job_vi_o    = job_vi_q;

  // Completions and errors that break the connection. The error follows the completion.
  logic [2:0] echo;
  logic       async_take, report_async;
  always_comb begin
    unique case (e.operation)
      hvia_pkg::DescriptorOperationRDMAWrite: echo = hvia_pkg::StatusOperationRDMAWrite;
      hvia_pkg::DescriptorOperationRDMARead:  echo = hvia_pkg::StatusOperationRDMARead;
      default:                                echo = hvia_pkg::StatusOperationSend;
    endcase
  end
  assign report_async = done && (lose || report_unreachable);
  assign async_take   = async_q && !cpl_valid_q && async_ready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      cpl_valid_q <= 1'b0;
      async_q     <= 1'b0;
      nak_valid_q <= 1'b0;
      unhold_q    <= 1'b0;
    end else begin
      if (report) cpl_valid_q <= 1'b1;
      else if (cpl_ready_i) cpl_valid_q <= 1'b0;
      // A VI that was reset has no one to notify.
      if (report_async) async_q <= 1'b1;
      else if (async_take || (cleared && async_vi_q == vi_q)) async_q <= 1'b0;
      if (nak) nak_valid_q <= 1'b1;
      else if (nak_ready_i) nak_valid_q <= 1'b0;
      if (release_here) unhold_q <= 1'b1;
      else if (unhold_ready_i) unhold_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (report) begin
      cpl_vi_q     <= vi_q;
      cpl_seq_o    <= s.seq;
      cpl_pa_o     <= s.pa;
      cpl_handle_o <= s.handle;
      cpl_length_o <= report_length;
      cpl_status_o <= {23'd0, report_status} | (32'd1 << hvia_pkg::DescriptorStatusDoneBit) |
                      ({29'd0, echo} << hvia_pkg::DescriptorStatusOperationLsb);
      cpl_write_o  <= !e.stale;
    end
    if (report_async) begin
      async_vi_q   <= vi_q;
      async_code_q <= report_unreachable ? hvia_pkg::AsyncErrorPostDescriptor :
                      !nak ? hvia_pkg::AsyncErrorConnectionLost :
                      e.status[hvia_pkg::DescriptorStatusTransportErrorBit] ?
                          hvia_pkg::AsyncErrorRDMATransport :
                                                             hvia_pkg::AsyncErrorRDMAReadProtection;
    end
    if (nak) begin
      nak_vi_q     <= vi_q;
      nak_number_o <= s.pa;
      nak_code_o   <= e.status[hvia_pkg::DescriptorStatusTransportErrorBit] ?
          hvia_pkg::AcknowledgeCodeTransport :
                                                            hvia_pkg::AcknowledgeCodeRDMAProtection;
    end
    if (release_here) unhold_vi_q <= vi_q;
  end
  assign cpl_valid_o    = cpl_valid_q;
  assign cpl_vi_o       = cpl_vi_q;
  assign async_valid_o  = async_take;
  assign async_code_o   = async_code_q;
  assign async_vi_o     = 8'(async_vi_q);
  assign nak_valid_o    = nak_valid_q;
  assign nak_vi_o       = nak_vi_q;
  assign unhold_valid_o = unhold_q;
  assign unhold_vi_o    = unhold_vi_q;

  // Draining. Work counts from its offer here until its completion was taken.
  assign handle_busy_o = cpl_valid_q && cpl_handle_o == drain_handle_i;
  assign vi_busy_o     = (used_q[drain_vi_i] && (flush_i || !live_q[drain_vi_i])) ||
                         (state_q != Choose && vi_q == drain_vi_i) ||
                     (clear_q && clear_vi_q == drain_vi_i) || (init_q && init_vi_q == drain_vi_i) ||
               (led_valid_i && led_vi_i == drain_vi_i) || (rxl_valid_i && rxl_vi_i == drain_vi_i) ||
                 (cpl_valid_q && cpl_vi_q == drain_vi_i) || (async_q && async_vi_q == drain_vi_i) ||
                 (nak_valid_q && nak_vi_q == drain_vi_i) || (unhold_q && unhold_vi_q == drain_vi_i);

  assign stat_rewind_o            = go_back && by_gap;
  assign stat_acknowledge_stray_o = stray;
  assign stat_nak_received_o      = nak_here;

  // Trace. The effect of an operation is reported one clock after it.
  logic        trace_ack, rewound_q, resumed_q;
  hvia_params_pkg::vi_t rewound_vi_q, resumed_vi_q;
  logic [15:0] rewound_number_q, resumed_number_q;
  assign trace_ack = done && op_q == OpReceive && rxl_op_i == hvia_pkg::ReceiveReportAcknowledge;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      rewound_q <= 1'b0;
      resumed_q <= 1'b0;
    end else begin
      if (go_back && r.next != n.una) rewound_q <= 1'b1;
      else if (!trace_ack) rewound_q <= 1'b0;
      if (job_take) resumed_q <= 1'b1;
      else if (!trace_ack && !rewound_q) resumed_q <= 1'b0;
    end
  end
  always_ff @(posedge clk_i) begin
    if (go_back) begin
      rewound_vi_q     <= vi_q;
      rewound_number_q <= n.una[15:0];
    end
    if (job_take) begin
      resumed_vi_q     <= job_vi_q;
      resumed_number_q <= job_number_o[15:0];
    end
  end
  assign trace_valid_o = trace_ack || rewound_q || resumed_q;
  assign trace_event_o = trace_ack ? hvia_pkg::TraceEventAcknowledgeReceived :
                         rewound_q ? hvia_pkg::TraceEventRewound : hvia_pkg::TraceEventResumed;
  assign trace_vi_o    = 8'({trace_ack ? vi_q : rewound_q ? rewound_vi_q : resumed_vi_q});
  assign trace_seq_o   = trace_ack ? rxl_number_i[15:0] : rewound_q ? rewound_number_q :
      resumed_number_q;

  logic flush_changes;
  assign flush_changes = flush_i && (live_q[drain_vi_i] || armed_q[drain_vi_i] ||
      (engine_q && engine_vi_q == drain_vi_i));
  assign quiet_o = state_q == Choose && !begin_op && !stale_start_i && !search_q && walker_quiet &&
      finish_quiet && offer_quiet &&
                   !flush_changes && !job_flushed && !job_take && !(led_init_valid_i && !init_q) &&
                   !(clear_valid_i && clear_ready_i) && !(cpl_valid_q && cpl_ready_i) &&
                       !async_take &&
                   !(nak_valid_q && nak_ready_i) && !(unhold_q && unhold_ready_i) && !rewound_q &&
                       !resumed_q && !alive_valid_i;

endmodule
