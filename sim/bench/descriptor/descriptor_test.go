// SPDX-License-Identifier: Apache-2.0

// Package descriptor_test holds the descriptor path, from the doorbell page to the status word,
// against a model that follows the queues as plain lists.
package descriptor_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/bench/internal/unit"
	"hvia/sim/verilate"
)

const (
	doorbell   = "rtl/doorbell.sv"
	queue      = "rtl/work_queue.sv"
	fetch      = "rtl/descriptor_fetch.sv"
	store      = "rtl/receive_store.sv"
	completion = "rtl/completion.sv"
)

// In epochs. An epoch is some thousand clocks of one mixture of speeds; the first four hold every
// special one.
var sizes = unit.Sizes{Short: 8, Normal: 150, Long: 3_000}

func spec(width string) verilate.Spec {
	return verilate.Spec{
		Name: "descriptor_bench_" + width,
		Top:  "descriptor_bench_top",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv", doorbell, queue, fetch, store, completion,
			"rtl/checkers/doorbell_checker.sv", "rtl/checkers/work_queue_checker.sv",
			"rtl/checkers/descriptor_fetch_checker.sv", "rtl/checkers/receive_store_checker.sv",
			"rtl/checkers/completion_checker.sv",
			"sim/bench/descriptor/valve.sv", "sim/bench/descriptor/descriptor_bench_top.sv",
		},
		Cpp: []string{"sim/bench/descriptor/cc/descriptor_bench.cc"},
		Headers: []string{
			"sim/bench/internal/unit/*.h", "sim/bench/descriptor/cc/*.h", "sim/gen/*.h",
		},
		Params:  map[string]string{"W": width},
		Defines: []string{"HVIA_W=" + width},
	}
}

// What a run of normal size must have met at least once: every kind of descriptor, of broken
// doorbell and of failure, a clear in every phase, and doorbells at every distance from the take of
// the descriptor before theirs.
func covered() []string {
	names := []string{
		"idle_ends", "resets_in_traffic", "completions", "cover_overrun", "cover_full_ready_list",
		"cover_long_burst", "cover_misaligned_doorbell", "cover_misaligned_link",
		"cover_link_written_during_read", "cover_queue_forgotten", "cover_bad", "cover_bad_free",
		"cover_read_error", "cover_vi_reset", "cover_handle_drained",
		"cover_completion_error", "cover_completion_without_write", "cover_completion_flushed",
		"cover_completion_with_error", "cover_flushed_Idle", "cover_flushed_ConnectPending",
		"cover_flushed_Error",
	}
	for _, s := range []string{
		"two_segments", "one_segment", "empty_data", "fence", "op_send", "op_read", "op_reserved",
		"no_segment", "three_segments", "many_segments", "immediate", "reserved_word",
		"address_reserved", "long_length", "short_length", "length_top_bit", "length_without_data",
	} {
		names = append(names, "cover_kind_"+s)
	}
	for bit := 4; bit <= 15; bit++ {
		names = append(names, fmt.Sprintf("cover_kind_control_%d", bit))
	}
	for _, s := range []string{
		"one_dword", "two_dwords", "from_second", "from_third", "swapped", "enables", "misaligned",
		"disabled", "free_vi", "offset", "foreign_page",
	} {
		names = append(names, "cover_hostile_"+s)
	}
	for _, s := range []string{"idle", "listed", "offered", "translate", "read", "parsed", "link_owed"} {
		names = append(names, "cover_clear_"+s)
	}
	for err := 1; err <= 5; err++ {
		names = append(names, fmt.Sprintf("cover_att_error_%d", err))
	}
	// The queue does one thing in two clocks: a take and a commit are at least two apart.
	for clocks := 2; clocks <= 8; clocks++ {
		names = append(names, fmt.Sprintf("cover_commit_before_take_%d", clocks),
			fmt.Sprintf("cover_commit_after_take_%d", clocks))
	}
	return names
}

// Both data widths of the host bus.
func TestDescriptorPath(t *testing.T) {
	for _, width := range []string{"32", "64"} {
		t.Run(width, func(t *testing.T) {
			figures := unit.MustPass(t, spec(width), sizes)
			if testing.Short() {
				return
			}
			for _, name := range covered() {
				require.NotZero(t, figures[name], "the run never met %s", name)
			}
		})
	}
}

// Planted faults. Each costs a build, so the usual run takes the first list and the long run both.
var (
	mutants = map[string]verilate.Mutant{
		// The queue counts a descriptor as fetched when its link comes back, not at the take.
		"count_at_link":   {File: queue, Old: "count_new   = count - 1'b1;\n        end", New: "count_new   = count;\n        end"},
		"listed_twice":    {File: queue, Old: "            write_next = 1'b1;\n            push       = !listed_q[op_vi_q];\n          end\n        end\n      end\n      Link:", New: "            write_next = 1'b1;\n            push       = 1'b1;\n          end\n        end\n      end\n      Link:"},
		"one_too_many":    {File: queue, Old: "if (count == Full) begin", New: "if (count > Full) begin"},
		"last_address":    {File: queue, Old: "          if (count == '0) begin\n            write_next = 1'b1;", New: "          write_next = 1'b1;\n          if (count == '0) begin"},
		"bad_link_kept":   {File: queue, Old: "            count_new   = '0;\n          end else begin", New: "            count_new   = count;\n          end else begin"},
		"torn":            {File: doorbell, Old: "    end else if (db_wend_i) begin\n      phase_q <= 2'd0;", New: "    end else if (db_wend_i) begin\n      phase_q <= phase_q;"},
		"byte_enables":    {File: doorbell, Old: "assign in_order = whole && ", New: "assign in_order = "},
		"length":          {File: fetch, Old: "!format_error && length != data_len", New: "1'b0"},
		"link_alignment":  {File: fetch, Old: "is_free || (va_q & AlignMask) != 64'd0", New: "is_free"},
		"read_error":      {File: fetch, Old: "state_d = rerr_i ? Bad : Check", New: "state_d = Check"},
		"status_first":    {File: completion, Old: "assign words       = {status_q, length_q};", New: "assign words       = {length_q, status_q};"},
		"report_early":    {File: completion, Old: "assign async_valid_o = done && werr_i;", New: "assign async_valid_o = state_q == Wait && werr_i;"},
		"late_beat_reset": {File: completion, Old: "else if (accept) beat_q <= 2'd0;", New: "else if (state_q == Idle) beat_q <= 2'd0;"},
	}
	moreMutants = map[string]verilate.Mutant{
		"stack":            {File: queue, Old: "assign ready_vi  = ready_mem[head_q[7:0]];", New: "assign ready_vi  = ready_mem[tail_q[7:0] - 8'd1];"},
		"empty_take":       {File: queue, Old: "assign taken = op_q == Take && count != '0;", New: "assign taken = op_q == Take;"},
		"queue_drained":    {File: queue, Old: "assign vi_busy_o = pending_q[drain_vi_i] || ", New: "assign vi_busy_o = "},
		"foreign_page":     {File: doorbell, Old: "(phase_q == 2'd0 || page == vi_q)", New: "(phase_q == 2'd0 || page[6:0] == vi_q[6:0])"},
		"misaligned":       {File: doorbell, Old: "low_q[5:0] == 6'd0", New: "low_q[4:0] == 5'd0"},
		"free_vi":          {File: doorbell, Old: "assign good        = third && aligned && enable_i && live_i[vi_q];", New: "assign good        = third && aligned && enable_i;"},
		"overwritten":      {File: doorbell, Old: "assign db_wready_o = !(phase_q == 2'd2 && commit_q && !db_ready_i);", New: "assign db_wready_o = 1'b1;"},
		"doorbell_quiet":   {File: doorbell, Old: "assign quiet_o = !commit_q && ", New: "assign quiet_o = "},
		"reserved_bit":     {File: fetch, Old: "control[hvia_pkg::DescriptorControlReservedLsb +: hvia_pkg::DescriptorControlReservedWidth] != 0", New: "control[14:4] != 0"},
		"flush_looked_at":  {File: fetch, Old: "= !flushed && format_error", New: "= format_error"},
		"link_always":      {File: fetch, Old: "end else if (more_q && (bad", New: "end else if ((bad"},
		"free_reported":    {File: fetch, Old: "assign async_valid_o = bad && !is_free;", New: "assign async_valid_o = bad;"},
		"data_handle":      {File: fetch, Old: "(state_q == Check && desc_data_handle_o == drain_handle_i)", New: "1'b0"},
		"fetch_quiet":      {File: fetch, Old: "assign quiet_o = state_q == Idle && !take_valid_i && !link_q;", New: "assign quiet_o = state_q == Idle && !take_valid_i;"},
		"ready_early":      {File: completion, Old: "Wait:    if (wdone_i) state_q <= Idle;", New: "Wait:    if (beat_q != 2'd0) state_q <= Idle;"},
		"report_lost":      {File: completion, Old: "assign async_valid_o = done && werr_i;", New: "assign async_valid_o = done && werr_i && !cpl_valid_i;"},
		"error_as_success": {File: completion, Old: "assign stat_completion_written_o = done && !werr_i;", New: "assign stat_completion_written_o = done;"},
	}
)

// The bench fails on each of the planted faults.
func TestDescriptorPathMutants(t *testing.T) {
	all := maps.Clone(mutants)
	if os.Getenv("HVIA_LONG") == "1" {
		maps.Copy(all, moreMutants)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			unit.MustCatch(t, spec("32"), name, all[name], unit.Sizes{Short: 24, Normal: 24, Long: 24})
		})
	}
}
