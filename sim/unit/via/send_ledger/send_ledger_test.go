// SPDX-License-Identifier: Apache-2.0

// Package sendledger_test tests the send ledger against its rules and against
// peers that check it.
package sendledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	ledger = "rtl/via/hvia_send_ledger.sv"
	list   = "rtl/via/hvia_vi_list.sv"
	walker = "rtl/via/hvia_deadline_walker.sv"
)

// Runs of about 12,000 clocks, after the named cases.
var sizes = unit.Sizes{Short: 40, Normal: 160, Long: 20_000}

// Clocks from an Open, in an idle ledger, to its answer. The ledger reads it in
// the first clock and answers in the next.
const openLatency = 1

func TestLedger(t *testing.T) {
	figures := unit.MustPass(t, unit.Testbench(t, "send_ledger"), sizes,
		"cover_ConnectionLost", "cover_alive", "cover_probe", "cover_PostDescriptor", "cover_RDMAReadProtection", "cover_RDMATransport",
		"cover_answer_acknowledges", "cover_answer_before_fence", "cover_answer_failed", "cover_answer_refused",
		"cover_both_full", "cover_disconnect", "cover_failed", "cover_flush_begun", "cover_flush_marked",
		"cover_flush_read", "cover_flush_well", "cover_flushed", "cover_forged", "cover_gap_again",
		"cover_job_out_of_date", "cover_job_withdrawn", "cover_lost_acknowledgement", "cover_message_failed",
		"cover_open_goes", "cover_open_stays", "cover_parked", "cover_read_left_to_flush", "cover_read_limit", "cover_read_refused",
		"cover_refusal_behind_read", "cover_refused", "cover_refused_late", "cover_reset", "cover_retry_limit",
		"cover_retry_limit_of_answers", "cover_ring_full", "cover_sent_behind_going_back", "cover_silent",
		"cover_stale", "cover_unhold", "cover_well", "cover_window_closed", "cover_withdrawn", "cover_wrap",
		"answered", "jumps", "opens_measured", "quiet_clocks", "refusals_sent", "responses", "retransmitted",
		"rewinds", "strays", "timeouts", "walks")
	require.EqualValues(t, openLatency, figures["open_latency"], "clocks of an Open")
	require.EqualValues(t, openLatency, figures["open_clocks"], "clocks of an Open whenever the ledger was quiescent")
	require.LessOrEqual(t, figures["led_clocks"], uint64(64), "the contract's bound")
}

// The testbench also passes with the Yosys netlist of the ledger.
func TestLedgerNetlist(t *testing.T) {
	figures := unit.MustPass(t, unit.Netlist(unit.Testbench(t, "send_ledger")), unit.Sizes{Short: 5, Normal: 5, Long: 2000},
		"messages", "responses", "retransmitted", "rewinds", "timeouts")
	require.EqualValues(t, openLatency, figures["open_latency"], "clocks of an Open")
}

// Memories of structs, which Yosys turns into registers. The RTL with them
// passes.
func TestLedgerNetlistFaults(t *testing.T) {
	unit.MustCatch(t, unit.Netlist(unit.Testbench(t, "send_ledger")), 5, map[string]verilate.Mutant{
		"records": {File: ledger, Old: "logic [$bits(record_rd_q)-1:0]     record_mem", New: "record_t record_mem"},
		"entries": {File: ledger, Old: "logic [$bits(req_rd_q)-1:0]        req_mem", New: "entry_t req_mem"},
		"sources": {File: ledger, Old: "logic [$bits(req_source_rd_q)-1:0] req_source", New: "source_t req_source"},
	})
}

func TestLedgerOfFewerVIs(t *testing.T) {
	unit.FewerVIs(t, unit.Testbench(t, "send_ledger"), sizes)
}

var bugs = []unit.Bug{
	{"the window is one frame larger", ledger, "assign space = ahead < {24'd0, r.moving};", "assign space  = ahead < {24'd0, r.moving} + 32'(FAULT);"},
	{"a message runs on over the end of the window", ledger, "ahead + 32'd1 < {24'd0, r.moving};", "ahead + 32'd1 < {24'd0, r.moving} + 32'(FAULT);"},
	{"a gap goes back twice", ledger, "(!r.gapped || ack_delta != 32'd0);", "(!r.gapped || FAULT || ack_delta != 32'd0);"},
	{"a timeout does not let a gap be reported anew", ledger, "n.gapped  = 1'b0;\n                n.probe", "if (!FAULT) n.gapped  = 1'b0;\n                n.probe"},
	{"progress does not begin the timeouts anew", ledger, "n.tries = '0;", "if (!FAULT) n.tries = '0;"},
	{"an acknowledgement of nothing new is no sign of life", ledger, "if ((touch || acknowledge) && op_q", "if ((touch || (acknowledge && !FAULT)) && op_q"},
	{"a frame of the peer is no sign of life", ledger, "(alive_rd_q == r.seen) ?", "(alive_rd_q == r.seen || FAULT) ?"},
	{"a sign of life counts for every timeout", ledger, "n.seen = alive_rd_q;", "if (!FAULT) n.seen = alive_rd_q;"},
	{"a sign of life restarts the timer", ledger, "acknowledge = in_range;\n                    stray", "acknowledge = in_range;\n                    touch       = in_range && FAULT;\n                    stray"},
	{"a peer that lives may take for ever", ledger, "|| r.tries >= AliveBits'(r.retry_limit)", "|| !FAULT && r.tries >= AliveBits'(r.retry_limit)"},
	{"a read that waits is not asked for", ledger, "= 1'b1;\n                go_back", "= !FAULT;\n                go_back"},
	{"a request goes again for ever", ledger, "if (probe_here) n.probe = 1'b0;", "if (probe_here && !FAULT) n.probe = 1'b0;"},
	{"a request goes again beside new frames", ledger, "(job_probe_q ? !n.probe :", "(job_probe_q ? !n.probe && !FAULT :"},
	{"one timeout too many", ledger, "if (silences >= r.retry_limit ||", "if (silences >= r.retry_limit + 8'(FAULT) ||"},
	{"complete before it is acknowledged", ledger, "assign acked      = e.ended && last_ahead[31];", "assign acked      = e.ended && (last_ahead[31] || FAULT);"},
	{"a read is complete before its answer", ledger, "DescriptorOperationRDMARead || e.answered);", "DescriptorOperationRDMARead || e.answered || FAULT);"},
	{"numbers are compared as they are", ledger, "= e.last - r.una;", "= FAULT ? {32{e.last < r.una}} : e.last - r.una;"},
	{"the entry of a number behind the wrap is not found", ledger, "assign contains = !offset[31] &&", "assign contains   = !(FAULT ? sought < e.first : offset[31]) &&"},
	{"a fence is ignored at once", ledger, "!(led_fence_i && r.reads != '0) &&", "!(led_fence_i && !FAULT && r.reads != '0) &&"},
	{"a fence is ignored later", ledger, "(at_rsp_q || (!(e.fence && r.reads != '0) &&", "(at_rsp_q || (!(e.fence && !FAULT && r.reads != '0) &&"},
	{"one read too many", ledger, "!(read_op && {3'd0, r.reads} >= r.read_limit);", "!(read_op && {3'd0, r.reads} >= r.read_limit + 8'(FAULT));"},
	{"a message goes before an answer", ledger, "r.req_started == r.req_tail && r.rsp_started == r.rsp_tail && space", "r.req_started == r.req_tail && (FAULT || r.rsp_started == r.rsp_tail) && space"},
	{"the moving window never shrinks", ledger, "    if (halve) begin", "    if (halve && !FAULT) begin"},
	{"the moving window has no floor", ledger, "< floor) ? floor :", "< floor) && !(FAULT && n.moving > 8'd1) ? floor :"},
	{"the moving window never grows", ledger, "if (r.moving != r.window) n.moving", "if (r.moving != r.window && !FAULT) n.moving"},
	{"a stale entry is not marked", ledger, "w.stale     = 1'b1;", "w.stale     = !FAULT;"},
	{"the queue is held too late", ledger, "req_count >= HoldFrom[MessageBits:0];", "req_count >= HoldFrom[MessageBits:0] + 5'(FAULT);"},
	{"a queue is never released", ledger, "if (release_here) unhold_q <=", "if (release_here && !FAULT) unhold_q <="},
	{"a timer that was put off is forgotten", ledger, "(touch || op_q == OpDeadline);", "(touch || (op_q == OpDeadline && !FAULT));"},
	{"the earliest deadline is not kept", walker, "set_deadline_i < base)", "(set_deadline_i < base || FAULT))"},
	{"a deadline of nobody stays", walker, "assign forget = armed_i == '0 &&", "assign forget = armed_i == '0 && !FAULT &&"},
	{"an answer goes to a read that has one", ledger, "DescriptorOperationRDMARead && !e.answered) begin", "DescriptorOperationRDMARead && (FAULT || !e.answered)) begin"},
	{"an answer does not acknowledge its request", ledger, "(rxl_op_i == hvia_pkg::ReceiveReportAnswered) ? e.last", "(rxl_op_i == hvia_pkg::ReceiveReportAnswered && !FAULT) ? e.last"},
	{"a NAK of an acknowledged number marks the oldest", ledger, "n.fate    = Lost;", "n.fate    = FAULT ? Exhausted : Lost;"},
	{"a read whose request was acknowledged is not marked", ledger, "(!late || unanswered)", "(!late || (unanswered && !FAULT))"},
	{"a late NAK acknowledges", ledger, "acknowledge = !late;", "acknowledge = !late || FAULT;"},
	{"a malformed descriptor is taken for one that was not reached", ledger, "(led_operation_i == Unreachable && w.status != 9'd0)", "(led_operation_i == Unreachable && w.status != 9'd0 && !FAULT)"},
	{"a NAK marks nobody", ledger, "write_entry = running && !at_rsp_q && !marked;", "write_entry = running && !at_rsp_q && !marked && !FAULT;"},
	{"a stray acknowledgement is believed", ledger, "assign in_range        = ack_delta <= span;", "assign in_range        = ack_delta <= span || (FAULT && ack_delta < 32'd128);"},
	{"messages go behind a marked one", ledger, "if (slot_req) n.halted = 1'b1;", "if (slot_req && !FAULT) n.halted = 1'b1;"},
	{"a message that was acknowledged fails", ledger, "if (engine_match && !marked && !acked &&", "if (engine_match && !marked && (!acked || FAULT) &&"},
	{"a broken connection sends", ledger, "assign running     = live && !r.broken &&", "assign running     = live && (!r.broken || FAULT) &&"},
	{"a job that is out of date stands", ledger, ": n.next != job_number_o ||", ": (n.next != job_number_o && !FAULT) ||"},
	{"Ask is not checked", ledger, "go     = (probe_here || (hit && space)) && running", "go     = (probe_here || (hit && space) || (FAULT && engine_match)) && running"},
	{"a frame in flight is forgotten by a rewind", ledger, "              if (fresh) begin", "              if (fresh && (hit || !FAULT)) begin"},
	{"the flush does not ask the receive engine", ledger, "if (flushed && receive_busy_i) begin", "if (flushed && receive_busy_i && !FAULT) begin"},
	{"a read that failed is returned under its answer", ledger, "if (marked && unanswered && live && !r.stopped) begin", "if (marked && unanswered && live && !r.stopped && !FAULT) begin"},
	{"a flush that is not busy", ledger, "(used_q[drain_vi_i] && (flush_i ||", "(used_q[drain_vi_i] && !FAULT && (flush_i ||"},
	{"a VI stands in a list twice", list, "(!listed_q[push_vi_i] ||", "(FAULT || !listed_q[push_vi_i] ||"},
	{"quiet while an operation begins", ledger, "state_q == Choose && !begin_op &&", "state_q == Choose && (!begin_op || FAULT) &&"},
	{"what is left of a small window waits for a timeout", ledger, "|| ahead < Together);", "|| ahead < (FAULT ? 32'd1 : Together));"},
	{"every open window is worth a job", ledger, "assign fits = half ||", "assign fits = half || FAULT ||"},
	{"the search for a handle leaves out the last VI", ledger, "search_q    <= search_vi_q != '1;", "search_q    <= search_vi_q != (FAULT ? ~hvia_params_pkg::vi_t'(1) : '1);"},
}

func TestLedgerFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "send_ledger"), 200, bugs)
}
