// SPDX-License-Identifier: Apache-2.0

// Package completion_test compares the completion writer, its completion queues
// and the notifications with a model in every clock.
package completion_test

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	completion = "rtl/via/hvia_completion.sv"
	notify     = "rtl/via/hvia_notify.sv"
)

// In epochs of some thousand clocks.
var sizes = unit.Sizes{Short: 40, Normal: 600, Long: 20_000}

func spec(width int) verilate.Spec {
	w := strconv.Itoa(width)
	return verilate.Spec{
		Name: "completion_bench_" + w,
		Top:  "completion_tb",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv", completion, notify,
			"rtl/via/checkers/hvia_completion_checker.sv", "rtl/via/checkers/hvia_notify_checker.sv",
			"sim/unit/via/completion/completion_tb.sv",
		},
		Cpp:     []string{"sim/unit/via/completion/cc/completion_tb.cc"},
		Params:  map[string]string{"W": w},
		Defines: []string{"BENCH_W=" + w},
	}
}

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
func TestCompletion(t *testing.T) {
	for _, width := range []int{32, 64} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			figures := unit.MustPass(t, spec(width), sizes)
			if testing.Short() {
				return
			}
			for _, name := range covered {
				require.NotZero(t, figures[name], "the run never met %s", name)
			}
		})
	}
}

// Injected bugs, all in one program; the argument +fault_<name> activates each,
// which replaces right by wrong inside the text at.
var faults = map[string]struct{ file, at, right, wrong string }{
	"entry_first": {
		file: completion, at: "else if (accept) state_q <= write ? Request : Refused;", right: "write ? Request : Refused",
		wrong: "write ? ((last_q[0]) ? Entry : Request) : Refused",
	},
	"lap_not_flipped": {
		file: completion, at: "assign lap     = (tail & entries) == 16'd0;", right: "(tail & entries) == 16'd0", wrong: "1'b1",
	},
	"full_too_late": {
		file: completion, at: "assign full    = tail - seen >=", right: "tail - seen", wrong: "tail - seen - 16'd1",
	},
	"full_too_early": {
		file: completion, at: ">= entries;", right: "entries", wrong: "entries - 16'd1",
	},
	"consumed_never_read": {
		file: completion, at: "!created ? Overrun : full ? Ask : Entry;", right: "full ? Ask : Entry", wrong: "full ? Overrun : Entry",
	},
	"consumed_forgotten": {
		file: completion, at: "assign seen    = fresh_q ? consumed_q : consumed;", right: "fresh_q ? consumed_q : consumed",
		wrong: "(fresh_q && state_q == Judge) ? consumed_q : consumed",
	},
	"consumed_of_the_last_one": {
		file: completion, at: "if (accept) fresh_q <= 1'b0;", right: "1'b0", wrong: "fresh_q",
	},
	"resize_keeps_the_tail": {
		file: completion, at: "cqc_log2_i[3:0], 16'd0,", right: "16'd0", wrong: "(cqc_op_i == 2'd2) ? tail : 16'd0",
	},
	"resize_keeps_the_place": {
		file: completion, at: "{cqc_address_i[31:PageBits],", right: "cqc_address_i[31:PageBits]", wrong: "(cqc_op_i == 2'd2) ? page : cqc_address_i[31:PageBits]",
	},
	"tie_of_the_other_queue": {
		file: completion, at: "assign tie   = receive_q ?", right: "receive_q", wrong: "!receive_q",
	},
	"tie_out_of_range": {
		file: completion, at: "tie_of = (32'(number) <= Queues) ?", right: "32'(number) <= Queues", wrong: "1'b1",
	},
	"tie_survives_reset": {
		file: completion, at: "assign tied    = tied_q && tie != '0;", right: "tied_q", wrong: "1'b1",
	},
	"ring_survives_destroy": {
		file: completion, at: "created_q[cqc_index_i[QueueBits-1:0]] <= cqc_op_i != OpDestroy;", right: "cqc_op_i != OpDestroy", wrong: "1'b1",
	},
	"created_twice": {
		file: completion, at: "!= (cqc_op_i == OpCreate);", right: "(cqc_op_i == OpCreate)", wrong: "1'b0",
	},
	"entry_of_no_status": {
		file: completion, at: "if (wdone_i && werr_i) state_q", right: "wdone_i && werr_i", wrong: "wdone_i && werr_i && !tied",
	},
	"refused_entry_takes_its_place": {
		file: completion, at: "assign ring_write = (entry_done && !werr_i) ||", right: "!werr_i", wrong: "1'b1",
	},
	"ring_error_ignored": {
		file: completion, at: "state_q <= rerr_i ? Overrun : Judge;", right: "rerr_i", wrong: "1'b0",
	},
	"loses_a_report": {
		file: completion, at: "Refused, Overrun: if (async_ready_i)", right: "async_ready_i", wrong: "1'b1",
	},
	"command_in_between": {
		file: completion, at: "assign cqc_ready_o = state_q == Command;", right: "state_q == Command", wrong: "state_q == Command || (state_q == EntryWait && cqc_valid_i)",
	},
	"entry_is_no_work": {
		file: completion, at: "assign vi_busy_o     = state_q != Idle &&", right: "state_q != Idle", wrong: "of_status",
	},
	"quiet_with_a_tie": {
		file: completion, at: "&& !cqc_valid_i && !cq_tie_valid_i;", right: "!cq_tie_valid_i", wrong: "1'b1",
	},
	"told_before_the_entry": {
		file: completion, at: "assign done_valid_o = (done || entry_done) && !werr_i;", right: "(done || entry_done)",
		wrong: "(done || (state_q == Entry && req_ready_i))",
	},
	"one_source_too_few": {
		file: completion, at: "for (int unsigned n = 3; n > 0; n--) begin", right: "n > 0", wrong: "n > 1",
	},
	"wrong_round": {
		file: completion, at: "assign place   = tail & (entries - 16'd1);", right: "(entries - 16'd1)", wrong: "(entries | (entries - 16'd1))",
	},

	"armed_for_ever": {
		file: notify, at: "if (hit) armed_q[done_name] <= 1'b0;", right: "1'b0", wrong: "1'b1",
	},
	"armed_again_in_vain": {
		file: notify, at: "if (arm) armed_q[arm_name] <= 1'b1;", right: "1'b1", wrong: "!queued_q[arm_name]",
	},
	"told_twice": {
		file: notify, at: "(!queued_q[done_name] ||", right: "!queued_q[done_name]", wrong: "1'b1",
	},
	"lost_with_a_read": {
		file: notify, at: "(taken && name_q == done_name));", right: "(taken && name_q == done_name)", wrong: "1'b0",
	},
	"arming_lost_with_what_comes": {
		file: notify, at: "assign arm   = arm_valid_i &&", right: "arm_valid_i", wrong: "arm_valid_i && !done_valid_i",
	},
	"arms_what_is_not": {
		file: notify, at: "32'(arm_name) < Names;", right: "32'(arm_name) < Names", wrong: "1'b1",
	},
	"newest_first": {
		file: notify, at: "name_q <= queue_mem[take_q];", right: "queue_mem[take_q]", wrong: "queue_mem[put_q - 1'b1]",
	},
	"notify_quiet_hole": {
		file: notify, at: "&& !taken && !load;", right: "!load", wrong: "1'b1",
	},
}

func faulty(t *testing.T) string {
	t.Helper()
	s := spec(32)
	s.Name = "completion_bench_faulty"
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		f := faults[name]
		if strings.Count(f.at, f.right) != 1 {
			t.Fatalf("fault %s: %q does not hold %q once", name, f.at, f.right)
		}
		choice := fmt.Sprintf("(($test$plusargs(%q)) ? (%s) : (%s))", "fault_"+name, f.wrong, f.right)
		s.Mutants = append(s.Mutants, verilate.Mutant{File: f.file, Old: f.at, New: strings.Replace(f.at, f.right, choice, 1)})
	}
	return unit.Build(t, s)
}

func TestCompletionFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("a run of the bench for each: left to the normal run")
	}
	program := faulty(t)
	const size = 100
	if _, err := unit.Run(t.Context(), program, unit.Seed(t), size); err != nil {
		t.Fatalf("with no fault switched on: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, program, fmt.Sprintf("--seed=%d", unit.Seed(t)), fmt.Sprintf("--size=%d", size),
				"+fault_"+name).CombinedOutput()
			if err == nil {
				t.Fatalf("the bench did not catch the planted fault %q -> %q in %s", faults[name].right, faults[name].wrong, faults[name].file)
			}
			line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			t.Logf("caught: %s", line)
		})
	}
}
