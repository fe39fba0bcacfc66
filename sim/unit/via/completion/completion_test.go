// SPDX-License-Identifier: Apache-2.0

// Package completion_test compares the completion writer, its completion queues
// and the notifications with a model in every clock.
package completion_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

const (
	completion = "rtl/via/hvia_completion.sv"
	notify     = "rtl/via/hvia_notify.sv"
)

// Epochs of some thousand clocks.
var sizes = unit.Sizes{Short: 40, Normal: 250, Long: 20_000}

// Events that a run of normal size must include.
var covered = []string{
	"source_0", "source_1", "source_2", "source_3", "completions_without_entry", "completions_refused", "status_errors", "report_waits",
	"entries", "entries_taken", "entries_after_reading", "entries_of_full_ring", "entries_of_no_ring", "entries_at_page_begin",
	"ring_read_errors", "ring_write_errors", "ring_of_many_vis", "consumed_nonsense", "laps", "tail_wraps",
	"create", "create_refused", "destroy", "destroy_refused", "resize", "resize_refused", "left_in_old_ring", "command_waited",
	"ties_out_of_range", "tie_changed_at_take", "tie_changed_under_way", "resets_in_traffic", "quiet_clocks",
	"told_kind_0", "told_kind_1", "told_kind_2", "armed_again_and_told_once", "armed_again_as_it_comes", "armed_as_it_comes",
	"armed_nothing", "armed_while_it_waits", "names_read", "names_read_in_vain", "read_as_it_comes_again",
}

// Both data widths of the host bus.
func TestCompletion(t *testing.T) { unit.BothWidths(t, "completion", sizes, covered...) }

func TestCompletionOfFewerVIs(t *testing.T) {
	unit.FewerVIs(t, unit.Testbench(t, "completion", "W=32"), sizes)
}

func TestCompletionFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "completion", "W=32"), 100, []unit.Bug{
		{"entry_first", completion, "else if (accept) state_q <= write ? Request : Unwritten;", "else if (accept) state_q <= (FAULT ? (write ? ((last_q[0]) ? Entry : Request) : Unwritten) : (write ? Request : Unwritten));"},
		{"lap_not_flipped", completion, "assign lap     = (tail & entries) == 16'd0;", "assign lap     = (FAULT ? (1'b1) : ((tail & entries) == 16'd0));"},
		{"full_too_late", completion, "assign full    = tail - seen >=", "assign full    = (FAULT ? (tail - seen - 16'd1) : (tail - seen)) >="},
		{"full_too_early", completion, ">= entries;", ">= (FAULT ? (entries - 16'd1) : (entries));"},
		{"consumed_never_read", completion, "!created ? Overrun : full ? Ask : Entry;", "!created ? Overrun : (FAULT ? (full ? Overrun : Entry) : (full ? Ask : Entry));"},
		{"consumed_forgotten", completion, "assign seen    = fresh_q ? consumed_q : consumed;", "assign seen    = (FAULT ? ((fresh_q && state_q == Compare) ? consumed_q : consumed) : (fresh_q ? consumed_q : consumed));"},
		{"consumed_of_the_last_one", completion, "if (accept) fresh_q <= 1'b0;", "if (accept) fresh_q <= (FAULT ? (fresh_q) : (1'b0));"},
		{"resize_keeps_the_tail", completion, "cqc_log2_i[3:0], 16'd0,", "cqc_log2_i[3:0], (FAULT ? ((cqc_op_i == 2'd2) ? tail : 16'd0) : (16'd0)),"},
		{"resize_keeps_the_place", completion, "{cqc_address_i[31:PageBits],", "{(FAULT ? ((cqc_op_i == 2'd2) ? page : cqc_address_i[31:PageBits]) : (cqc_address_i[31:PageBits])),"},
		{"tie_of_the_other_queue", completion, "assign tie   = receive_q ?", "assign tie   = (FAULT ? (!receive_q) : (receive_q)) ?"},
		{"tie_out_of_range", completion, "tie_of = (32'(number) <= Queues) ?", "tie_of = ((FAULT ? (1'b1) : (32'(number) <= Queues))) ?"},
		{"tie_survives_reset", completion, "assign tied    = tied_q && tie != '0;", "assign tied    = (FAULT ? (1'b1) : (tied_q)) && tie != '0;"},
		{"ring_survives_destroy", completion, "created_q[cqc_index_i[QueueBits-1:0]] <= cqc_op_i != OpDestroy;", "created_q[cqc_index_i[QueueBits-1:0]] <= (FAULT ? (1'b1) : (cqc_op_i != OpDestroy));"},
		{"created_twice", completion, "!= (cqc_op_i == OpCreate);", "!= (FAULT ? (1'b0) : ((cqc_op_i == OpCreate)));"},
		{"entry_of_no_status", completion, "if (wdone_i && werr_i) state_q", "if ((FAULT ? (wdone_i && werr_i && !tied) : (wdone_i && werr_i))) state_q"},
		{"refused_entry_takes_its_place", completion, "assign ring_write = (entry_done && !werr_i) ||", "assign ring_write = (entry_done && (FAULT ? (1'b1) : (!werr_i))) ||"},
		{"ring_error_ignored", completion, "state_q <= rerr_i ? Overrun : Compare;", "state_q <= (FAULT ? (1'b0) : (rerr_i)) ? Overrun : Compare;"},
		{"loses_a_report", completion, "Unwritten, Overrun: if (async_ready_i)", "Unwritten, Overrun: if ((FAULT ? (1'b1) : (async_ready_i)))"},
		{"command_in_between", completion, "assign cqc_ready_o = state_q == Command;", "assign cqc_ready_o = (FAULT ? (state_q == Command || (state_q == EntryWait && cqc_valid_i)) : (state_q == Command));"},
		{"entry_is_no_work", completion, "assign vi_busy_o     = state_q != Idle &&", "assign vi_busy_o     = (FAULT ? (of_status) : (state_q != Idle)) &&"},
		{"quiet_with_a_tie", completion, "&& !cqc_valid_i && !cq_tie_valid_i;", "&& !cqc_valid_i && (FAULT ? (1'b1) : (!cq_tie_valid_i));"},
		{"told_before_the_entry", completion, "assign done_valid_o = (done || entry_done) && !werr_i;", "assign done_valid_o = (FAULT ? ((done || (state_q == Entry && req_ready_i))) : ((done || entry_done))) && !werr_i;"},
		{"one_source_too_few", completion, "for (int unsigned n = 3; n > 0; n--) begin", "for (int unsigned n = 3; (FAULT ? (n > 1) : (n > 0)); n--) begin"},
		{"wrong_round", completion, "assign place   = tail & (entries - 16'd1);", "assign place   = tail & (FAULT ? ((entries | (entries - 16'd1))) : ((entries - 16'd1)));"},

		{"armed_for_ever", notify, "if (hit) armed_q[done_name] <= 1'b0;", "if (hit) armed_q[done_name] <= (FAULT ? (1'b1) : (1'b0));"},
		{"armed_again_in_vain", notify, "if (arm) armed_q[arm_name] <= 1'b1;", "if (arm) armed_q[arm_name] <= (FAULT ? (!queued_q[arm_name]) : (1'b1));"},
		{"told_twice", notify, "(!queued_q[done_name] ||", "((FAULT ? (1'b1) : (!queued_q[done_name])) ||"},
		{"lost_with_a_read", notify, "(taken && name_q == done_name));", "(FAULT ? (1'b0) : ((taken && name_q == done_name))));"},
		{"arming_lost_with_what_comes", notify, "assign arm   = arm_valid_i &&", "assign arm   = (FAULT ? (arm_valid_i && !done_valid_i) : (arm_valid_i)) &&"},
		{"arms_what_is_not", notify, "32'(arm_name) < Names;", "(FAULT ? (1'b1) : (32'(arm_name) < Names));"},
		{"newest_first", notify, "name_q <= queue_mem[take_q];", "name_q <= (FAULT ? (queue_mem[put_q - 1'b1]) : (queue_mem[take_q]));"},
		{"notify_quiet_hole", notify, "&& !taken && !load;", "&& !taken && (FAULT ? (1'b1) : (!load));"},
	})
}
