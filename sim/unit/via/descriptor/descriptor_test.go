// SPDX-License-Identifier: Apache-2.0

// Package descriptor_test compares the descriptor path, from the doorbell page
// to the status word, with a model of the queues as plain lists.
package descriptor_test

import (
	"fmt"
	"testing"

	"hvia/sim/unit/internal/unit"
)

const (
	doorbell   = "rtl/via/hvia_doorbell.sv"
	queue      = "rtl/via/hvia_work_queue.sv"
	fetch      = "rtl/via/hvia_descriptor_fetch.sv"
	store      = "rtl/via/hvia_receive_store.sv"
	completion = "rtl/via/hvia_completion.sv"
)

// Epochs of some thousand clocks with one mix of speeds each. The first four
// include every special kind.
var sizes = unit.Sizes{Short: 8, Normal: 110, Long: 3_000}

// Events that a run of normal size must include: every kind of descriptor, of
// broken doorbell and of failure, resets and disconnects in every phase, and
// doorbells at every distance from the fetch of the descriptor before theirs.
func covered() []string {
	names := []string{
		"idle_ends", "resets_in_traffic", "completions", "cover_overrun_send", "cover_overrun_receive",
		"cover_overrun_on_chip", "cover_full_ready_list", "cover_long_burst", "cover_misaligned_doorbell_send", "cover_interleaved", "cover_started_over", "cover_partial_forgotten", "cover_loaded",
		"cover_misaligned_doorbell_receive", "cover_misaligned_link", "cover_link_written_during_read",
		"cover_queue_forgotten_send", "cover_queue_forgotten_receive", "cover_bad_send", "cover_bad_receive",
		"cover_bad_free_send", "cover_bad_free_receive", "cover_read_error", "cover_vi_reset", "cover_disconnected",
		"cover_handle_drained", "cover_completion_error", "cover_completion_without_write_send",
		"cover_completion_without_write_receive", "cover_completion_flushed", "cover_completion_with_error",
		"cover_three_completions", "cover_immediate_written", "cover_flushed_Idle", "cover_flushed_ConnectPending",
		"cover_flushed_Error", "cover_stored_Idle", "cover_stored_ConnectPending", "cover_stored_Connected",
		"cover_receive_flushed", "cover_flushed_on_chip", "cover_reset_while_fetched", "cover_marked_stale",
		"cover_stale_read", "cover_stale_completion", "cover_both_offered", "cover_receive_passes_send", "cover_patient", "cover_impatient",
		"cover_out_of_the_register", "cover_store_waits_for_trace", "cover_posted_behind_the_last",
		"cover_released_before_link", "cover_receives_are_no_work", "cover_quiet_with_receives",
		"cover_quiet_with_receives_behind", "cover_receive_chunk", "cover_receive_chunk_error", "cover_receive_chunk_not_stored",
		"cover_transmit_chunk", "cover_transmit_chunk_error", "cover_receive_chunk_first", "cover_chunk_before_head",
		"cover_head_between_chunks", "cover_unreachable_waits", "cover_unreachable_behind", "cover_unreachable_needs_no_memory",
		"cover_wanted", "cover_wanted_in_vain", "cover_wanted_by_a_reset_vi", "cover_woken_by_a_message", "cover_woken_by_a_flush",
		"cover_reset_enters_by_itself", "cover_parked", "cover_parked_in_a_flush", "cover_unheld", "cover_held_again",
		"cover_unheld_for_nothing", "cover_posted_while_parked", "cover_clear_parked",
		"cover_reliable_read_short", "cover_reliable_read_many", "cover_reliable_read_long_length", "cover_reliable_read_immediate",
		"cover_reliable_read_no_address", "cover_reliable_read_address_reserved", "cover_reliable_read_too_many",
	}
	kinds := []string{
		"rdma_one", "rdma_none", "rdma_empty_data", "rdma_long_length", "send_none", "send_one", "send_two",
		"some_segments", "most_segments", "fence", "immediate", "long_length", "short_length", "length_top_bit",
		"send_sum_wraps", "read_short", "read_many", "read_long_length", "read_immediate", "read_no_address",
		"read_address_reserved", "read_too_many", "op_reserved", "too_many_segments", "reserved_word", "rdma_no_address",
		"rdma_address_reserved",
	}
	for bit := 4; bit <= 15; bit++ {
		kinds = append(kinds, fmt.Sprintf("control_%d", bit))
	}
	for _, s := range kinds {
		names = append(names, "cover_kind_"+s, "cover_receive_kind_"+s)
	}
	for _, s := range []string{
		"one_dword", "two_dwords", "from_second", "from_third", "swapped", "enables", "misaligned",
		"disabled", "free_vi", "offset", "foreign_page", "mixed",
	} {
		names = append(names, "cover_hostile_"+s)
	}
	for _, s := range []string{
		"idle", "listed", "offered", "translate", "read", "waits", "stored", "in_job",
	} {
		names = append(names, "cover_clear_"+s, "cover_disconnect_"+s)
	}
	for err := 1; err <= 5; err++ {
		names = append(names, fmt.Sprintf("cover_att_error_%d", err))
	}
	// The queue does one action in two clocks, so a take and a commit are at
	// least two apart.
	for clocks := 2; clocks <= 8; clocks++ {
		names = append(names, fmt.Sprintf("cover_commit_before_take_%d", clocks),
			fmt.Sprintf("cover_commit_after_take_%d", clocks))
	}
	return names
}

// Both data widths of the host bus.
func TestDescriptorPath(t *testing.T) {
	unit.BothWidths(t, "descriptor", sizes, covered()...)
}

func TestDescriptorPathOfFewerVIs(t *testing.T) {
	unit.FewerVIs(t, unit.Testbench(t, "descriptor", "W=32"), sizes)
}

var bugs = []unit.Bug{
	{"dword out of order goes on", doorbell, "(index == 2'd0 || phase_q == index);", "(index == 2'd0 || phase_q == index || (FAULT && phase_q != 2'd0));"},
	{"torn doorbell kept", doorbell, "assign next_phase  = (in_order && !third) ? index + 2'd1 : 2'd0;", "assign next_phase  = (in_order && !third) ? index + 2'd1 : (FAULT && !third) ? phase_q : 2'd0;"},
	{"committed dwords kept", doorbell, "(accept && known && !receive);", "(accept && known && !receive && !(FAULT && third));"},
	{"byte enables ignored", doorbell, "assign in_order = known && complete && ", "assign in_order = known && (complete || FAULT) && "},
	{"page of another VI", doorbell, "assign cached   = vi_q == page && ", "assign cached  = (vi_q == page || (FAULT && vi_q[6:0] == page[6:0])) && "},
	{"one doorbell over two queues", doorbell, "receive_q == receive;", "(receive_q == receive || FAULT);"},
	{"dwords of a send and a receive queue in one place", doorbell, "low_mem[{receive, page}] <=", "low_mem[{receive && !FAULT, page}] <="},
	{"registers read before the RAM", doorbell, "load_q <= load && !load_q && !forget_valid_i;", "load_q <= load && (!load_q || FAULT) && !forget_valid_i;"},
	{"send queue of a reset VI keeps its dwords", doorbell, "assign send_write    = walking_q || forget_valid_i ||", "assign send_write    = walking_q || (forget_valid_i && !FAULT) ||"},
	{"receive queue of a reset VI keeps its dwords", doorbell, "assign receive_write = walking_q || forget_valid_i ||", "assign receive_write = walking_q || (forget_valid_i && !FAULT) ||"},
	{"registers keep the dwords of a reset VI", doorbell, "if (forget_vi_i == vi_q) phase_q", "if (forget_vi_i == vi_q && !FAULT) phase_q"},
	{"dwords survive a reset", doorbell, "assign phase_page    = walking_q ? walk_q :", "assign phase_page    = walking_q ? walk_q & ~{4{FAULT, 1'b0}} :"},
	{"started over uncounted", doorbell, "|| started_over || owed_q;", "|| (started_over && !FAULT) || owed_q;"},
	{"owed count forgotten", doorbell, "<= dropped && (owed_q || started_over);", "<= dropped && !FAULT && (owed_q || started_over);"},
	{"half the alignment", doorbell, "low_q[5:0] == 6'd0", "(FAULT ? low_q[4:0] == 5'd0 : low_q[5:0] == 6'd0)"},
	{"doorbell of a free VI", doorbell, "assign good        = third && aligned && enable_i && live_i[vi_q];", "assign good        = third && aligned && enable_i && (live_i[vi_q] || FAULT);"},
	{"commit overwritten", doorbell, "assign db_wready_o = ", "assign db_wready_o = FAULT || "},
	{"doorbell quiet with a commit", doorbell, "assign quiet_o = !commit_q && ", "assign quiet_o = (!commit_q || FAULT) && "},
	{"receive doorbell for the send queue", doorbell, "commit_receive_q <= receive_q;", "commit_receive_q <= receive_q && !FAULT;"},

	{"counted at the link, not at the take", queue, "count_new   = count - 1'b1;", "count_new   = FAULT ? count : count - 1'b1;"},
	{"listed twice", queue, "(by_itself || woken) && !listed_q[op_queue_q] &&", "(by_itself || woken) && (!listed_q[op_queue_q] || FAULT) &&"},
	{"one descriptor too many", queue, "if (count_all == Full) begin", "if (FAULT ? count_all > Full : count_all == Full) begin"},
	{"descriptor on the chip not counted", queue, "{{CountWidth - 1{1'b0}}, held};", "{{CountWidth - 1{1'b0}}, held && !FAULT};"},
	{"every doorbell's address kept", queue, "          if (count == '0) begin\n            write_next = 1'b1;", "          write_next = FAULT;\n          if (count == '0) begin\n            write_next = 1'b1;"},
	{"queue goes on behind a bad descriptor", queue, "            count_new   = '0;\n          end else begin", "            count_new   = FAULT ? count : '0;\n          end else begin"},
	{"second receive descriptor by a link", queue, "            enter      = !held;\n          end\n        end\n      end\n      Release", "            enter      = !held || FAULT;\n          end\n        end\n      end\n      Release"},
	{"second receive descriptor by a doorbell", queue, "            enter      = !held;\n          end\n        end\n      end\n      Link", "            enter      = !held || FAULT;\n          end\n        end\n      end\n      Link"},
	{"released before its link is known", queue, "Release: enter = count != '0 && !owed;", "Release: enter = count != '0 && (!owed || FAULT);"},
	{"offer changes", queue, "assign show_receive = offered_q ?", "assign show_receive = (offered_q && !FAULT) ?"},
	{"receive queues always first", queue, "!(show_send && offered_receive_q);", "!(show_send && offered_receive_q && !FAULT);"},
	{"send descriptor without space", queue, "assign show_send    = offer_valid_q[0] && send_space_i;", "assign show_send    = offer_valid_q[0] && (send_space_i || FAULT);"},
	{"offered descriptor is not coming", queue, "(offer_valid_q[1] && offer_receive_vi == coming_vi_i)", "(offer_valid_q[1] && !FAULT && offer_receive_vi == coming_vi_i)"},
	{"last come, first served", queue, "head_q[VIW+1 +: VIW] : head_q[0 +: VIW]", "head_q[VIW+1 +: VIW] : FAULT ? tail_q[0 +: VIW] - 1'b1 : head_q[0 +: VIW]"},
	{"empty queue taken", queue, "assign taken  = op_q == Take && count != '0 &&", "assign taken  = op_q == Take && (count != '0 || FAULT) &&"},
	{"send queue is no work", queue, "assign vi_busy_o = pending_q[{1'b0, drain_vi_i}] ||", "assign vi_busy_o = (pending_q[{1'b0, drain_vi_i}] && !FAULT) ||"},
	{"receive queue is no work in a flush", queue, "(drain_receive_i && pending_q[{1'b1, drain_vi_i}])", "(drain_receive_i && pending_q[{1'b1, drain_vi_i}] && !FAULT)"},
	{"receive queue is no work in the list", queue, "|| listed_q[{1'b1, drain_vi_i}] ||", "|| (listed_q[{1'b1, drain_vi_i}] && !FAULT) ||"},
	{"clear forgets one queue", queue, "Clear, ClearReceive: begin\n        write_count = 1'b1;", "Clear, ClearReceive: begin\n        write_count = op_q == Clear || !FAULT;"},
	{"clear forgets no descriptor on the chip", queue, "if (op_q == Release || op_q == ClearReceive) held_q", "if (op_q == Release || (op_q == ClearReceive && !FAULT)) held_q"},

	{"hold ignored", queue, "assign parks  = ", "assign parks  = !FAULT && "},
	{"receive queue held", queue, "!op_receive && send_hold_i[op_vi];", "(!op_receive || FAULT) && send_hold_i[op_vi];"},
	{"parked queue stays in the list", queue, "        pop = 1'b1;\n        if (taken)", "        pop = !(FAULT && parks);\n        if (taken)"},
	{"listed whether parked or not", queue, "Unhold:  enter = parked_q[op_vi];", "Unhold:  enter = parked_q[op_vi] || (FAULT && count != '0);"},
	{"parked for ever", queue, "if (op_q == Unhold || op_q == Clear) parked_q", "if ((op_q == Unhold && !FAULT) || op_q == Clear) parked_q"},
	{"unheld and not listed", queue, "parked_q[op_vi] && op_q != Unhold;", "parked_q[op_vi] && (op_q != Unhold || FAULT);"},
	{"queue quiet with the end of a hold", queue, "&& !clear_valid_i && !unhold_valid_i;", "&& !clear_valid_i && (!unhold_valid_i || FAULT);"},
	{"parked queue loses a descriptor", queue, "&& !parks;", "&& (!parks || FAULT);"},

	{"fetched when posted", queue, "assign woken     = op_q == Wake;", "assign woken     = op_q == Wake || FAULT;"},
	{"woken with one on the chip", queue, "!held_q[coming_vi_i] &&", "(!held_q[coming_vi_i] || FAULT) &&"},
	{"woken with the link owed", queue, "!owed_q[coming_vi_i];", "(!owed_q[coming_vi_i] || FAULT);"},
	{"not woken by a flush", queue, "assign wake_can[1] = on_arrival_i &&", "assign wake_can[1] = on_arrival_i && !FAULT &&"},
	{"doorbell of a reset VI stays", queue, "!on_arrival_i || !live_i[op_vi];", "!on_arrival_i || (!live_i[op_vi] && !FAULT);"},
	{"queue quiet with one to wake", queue, "&& wake_can == 2'b00 &&", "&& (wake_can == 2'b00 || FAULT) &&"},

	{"length not looked at", fetch, "assign length_error = !format_error && ", "assign length_error = !format_error && !FAULT && "},
	{"sum of lengths wraps", fetch, "{1'b0, length} != here_len;", "{1'b0, length} != {here_len[32] && !FAULT, here_len[31:0]};"},
	{"misaligned link followed", fetch, "is_free || (va_q & AlignMask) != 64'd0", "is_free || ((va_q & AlignMask) != 64'd0 && !FAULT)"},
	{"read error ignored", fetch, "state_d = rerr_i ? Bad : Check", "state_d = rerr_i && !FAULT ? Bad : Check"},
	{"one reserved bit not looked at", fetch, "control[hvia_pkg::DescriptorControlReservedLsb +:\n              hvia_pkg::DescriptorControlReservedWidth] != 0", "(control[hvia_pkg::DescriptorControlReservedLsb +: hvia_pkg::DescriptorControlReservedWidth] & ~{FAULT, 11'd0}) != 0"},
	{"flushed descriptor looked at", fetch, "!missed && !flushed && format_error", "!missed && (!flushed || FAULT) && format_error"},
	{"link without a successor", fetch, "assign link_due    = more_q && ", "assign link_due    = (more_q || FAULT) && "},
	{"error of a free VI reported", fetch, "assign async_valid_o = bad && work_q == Receive && !is_free;", "assign async_valid_o = bad && work_q == Receive && (!is_free || FAULT);"},
	{"unreachable send reported before its turn", fetch, "assign async_valid_o = bad && work_q == Receive &&", "assign async_valid_o = bad && (work_q == Receive || FAULT) &&"},
	{"unreachable send forgotten", fetch, "assign missed  = state_q == Bad && ", "assign missed  = state_q == Bad && !FAULT && "},
	{"unreachable send looks like another in the register", fetch, "wait_missed_q <= missed;", "wait_missed_q <= missed && !FAULT;"},
	{"unreachable send of a free VI", fetch, "work_q == Send && !is_free;", "work_q == Send && (!is_free || FAULT);"},
	{"unreachable send holds memory", fetch, "(wait_valid_q && !wait_missed_q &&", "(wait_valid_q && (!wait_missed_q || FAULT) &&"},
	{"unreachable send traced", fetch, "if (handed && !desc_unreachable_o) begin", "if (handed && (!desc_unreachable_o || FAULT)) begin"},
	{"fetch quiet with a descriptor", fetch, "                   !wait_valid_q;", "                   (!wait_valid_q || FAULT);"},
	{"stored after a reset", fetch, "assign gone     = received && ", "assign gone     = received && !FAULT && "},
	{"flushed by an old state", fetch, "assign flush    = received && vi_state_now ==", "assign flush    = received && (FAULT ? vi_state_q : vi_state_now) =="},
	{"waiting descriptor needs no memory", fetch, "&& wait_handle_q == drain_handle_i);", "&& wait_handle_q == drain_handle_i && !FAULT);"},
	{"bad receive descriptor not released", fetch, "(bad || gone || (state_q == Flush", "((bad && !FAULT) || gone || (state_q == Flush"},
	{"two events in one clock", fetch, "&& !(wait_valid_q && desc_ready_i);", "&& !(wait_valid_q && desc_ready_i && !FAULT);"},
	{"chunks starve the heads", fetch, "!(head_turn_q && head_can);", "!(head_turn_q && head_can && !FAULT);"},
	{"read rejected at the reliable levels", fetch, "(rdma_read && (!reliable || immediate))", "(rdma_read && (!reliable || immediate || FAULT))"},
	{"read at the unreliable level", fetch, "assign reliable   = vi_reliability_q", "assign reliable   = FAULT || vi_reliability_q"},
	{"reliable reception forgotten", fetch, "vi_reliability_q == hvia_pkg::ReliabilityReception;", "(vi_reliability_q == hvia_pkg::ReliabilityReception && !FAULT);"},
	{"read with immediate data", fetch, "assign immediate  = control[", "assign immediate  = !FAULT && control["},
	{"read without address segment", fetch, "(rdma && segments == 16'd0) ||", "(rdma && !(FAULT && rdma_read) && segments == 16'd0) ||"},
	{"reserved word of a read's address segment", fetch, "(rdma && words_q[", "(rdma && !(FAULT && rdma_read) && words_q["},
	{"one segment too many", fetch, "(rdma ? 32'd1 : 32'd0)", "(rdma || FAULT ? 32'd1 : 32'd0)"},
	{"waiting descriptor overrun", fetch, "assign send_space_o = !wait_valid_q && ", "assign send_space_o = (!wait_valid_q || FAULT) && "},
	{"chunk of the other engine stored", fetch, "(state_q == Check && work_q == ReceiveChunk &&", "(state_q == Check && (work_q == ReceiveChunk || (FAULT && work_q == TransmitChunk)) &&"},
	{"chunk of an answer stored", fetch, "rxc_store_q <= rxc_store_i;", "rxc_store_q <= rxc_store_i || FAULT;"},

	{"stale for ever", store, "stale_q[wr_vi_i] <= 1'b0;", "stale_q[wr_vi_i] <= FAULT && stale_q[wr_vi_i];"},
	{"search leaves the last place out", store, "search_vi_q != '1;", "search_vi_q != (FAULT ? ~hvia_params_pkg::vi_t'(1) : '1);"},
	{"search finds every handle", store, "compare_handle_q == drain_handle_i;", "(compare_handle_q == drain_handle_i || FAULT);"},
	{"clear leaves the store alone", store, "if (clear_valid_i) valid_q", "if (clear_valid_i && !FAULT) valid_q"},
	{"chunk taken for a descriptor", store, "assign write_head = wr_valid_i && wr_head_i;", "assign write_head = wr_valid_i && (wr_head_i || FAULT);"},

	{"Status first", completion, "assign words       = {status_q, length_q, immediate_q, 32'd0};", "assign words       = FAULT ? {length_q, status_q, immediate_q, 32'd0} : {status_q, length_q, immediate_q, 32'd0};"},
	{"reported early", completion, "(done && werr_i))", "((FAULT ? state_q == Wait : done) && werr_i))"},
	{"immediate data left out", completion, "beat_q <= has_immediate ? ", "beat_q <= has_immediate && !FAULT ? "},
	{"word before the immediate data written", completion, "assign strobes     = 16'hffff << skip;", "assign strobes     = 16'hffff << (FAULT ? 32'd0 : skip);"},
	{"one source always first", completion, "else if (accept) last_q <= chosen;", "else if (accept && !FAULT) last_q <= chosen;"},
	{"free before the bus is done", completion, "        Wait: begin\n", "        Wait: begin\n          if (FAULT && 32'(beat_q) == Beats) state_q <= Idle;\n"},
	{"error counted as success", completion, "assign stat_completion_written_o = done && !werr_i;", "assign stat_completion_written_o = done && (!werr_i || FAULT);"},
	{"deregistered memory written", completion, "state_q <= write ? Request : Unwritten;", "state_q <= write || FAULT ? Request : Unwritten;"},
	{"receive completion traced as a send's", completion, "trace_event_o = receive_q ?", "trace_event_o = receive_q && !FAULT ?"},
}

func TestDescriptorPathFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "descriptor", "W=64"), 60, bugs)
}
