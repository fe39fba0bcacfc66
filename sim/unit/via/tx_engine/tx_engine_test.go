// SPDX-License-Identifier: Apache-2.0

package txengine_test

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

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const tx = "rtl/via/hvia_tx_engine.sv"

var sizes = unit.Sizes{Short: 6, Normal: 200, Long: 10_000}

// Clocks from the start of a descriptor to the last beat of its frame in the
// packet buffer, with the fastest neighbours and one segment at the start of a
// page: a message of 4 bytes, and one of a full frame. At 32 bits they are
// those of the engine before it supported gather.
var latency = map[int][2]int{32: {15, 388}, 64: {14, 204}}

func spec(width int) verilate.Spec {
	w := strconv.Itoa(width)
	return verilate.Spec{
		Name: "transmit_bench_" + w,
		Top:  "hvia_tx_engine",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv",
			"rtl/prim/hvia_byte_packer.sv", "rtl/host/hvia_dma_splitter.sv", "rtl/host/hvia_dma_read.sv", tx,
			"rtl/prim/checkers/hvia_byte_packer_checker.sv", "rtl/host/checkers/hvia_dma_read_checker.sv", "rtl/via/checkers/hvia_tx_engine_checker.sv",
		},
		Cpp:    []string{"sim/unit/via/tx_engine/cc/tx_engine_tb.cc"},
		Params: map[string]string{"W": w},
		Defines: []string{
			"BENCH_W=" + w,
			"BENCH_LATENCY_4=" + strconv.Itoa(latency[width][0]), "BENCH_LATENCY_FULL=" + strconv.Itoa(latency[width][1]),
		},
	}
}

func TestTransmit(t *testing.T) {
	for _, width := range []int{32, 64} {
		t.Run(strconv.Itoa(width), func(t *testing.T) { unit.MustPass(t, spec(width), sizes) })
	}
}

// Injected bugs, all in one program; the argument +fault_<name> activates each,
// which replaces right by wrong inside the text at.
var faults = map[string]struct{ at, right, wrong string }{
	"bound": {
		at: ".job_bound_i(seg_left_q)", right: "seg_left_q", wrong: "{16'd0, job_len}",
	},
	"half_a_frame": {
		at: "assign tx_wabort_o = (framed & job_bad) | walk_fail;", right: "(framed & job_bad) | walk_fail",
		wrong: "(framed & job_bad & (job_err == hvia_pkg::AttErrorBackend)) | walk_fail",
	},
	"not_held_back": {
		at: "~last_q | ((seg_left_q == 32'd0) & (segs_q == 8'd0));", right: "((seg_left_q == 32'd0) & (segs_q == 8'd0))",
		wrong: "seg_left_q == 32'd0",
	},
	"held_beat": {
		at: "assign tx_wdata_o  = hold_valid_q ? hold_data_q : out_data;", right: "hold_valid_q ? hold_data_q : out_data", wrong: "out_data",
	},
	"drain_too_soon": {
		at: "(use_busy & (use_handle_q == drain_handle_i))", right: "use_busy & (use_handle_q == drain_handle_i)", wrong: "1'b0",
	},
	"drain_next_segment": {
		at: "assign use_busy      = open_q & ~raw;", right: "open_q & ~raw", wrong: "message & (use_handle_q == seg_handle_q)",
	},
	"fetched_ahead": {
		at: "& chunk_err_q &\n                     ((need_q != 16'd0) | last_q);", right: "((need_q != 16'd0) | last_q)", wrong: "1'b1",
	},
	"chunk_forgotten": {
		at: "assign over     = (state_q == Finish) & ~take_ack & ~ask_q & ~wait_q;", right: "~ask_q & ~wait_q", wrong: "1'b1",
	},
	"chunk_quiet": {
		at: "~step & ~fetch &", right: "~fetch", wrong: "1'b1",
	},
	"no_segments": {
		at: "assign in_empty     = in_read | (in_count == 16'd0);", right: "(in_count == 16'd0)", wrong: "1'b0",
	},
	"state_once": {
		at: "    if ((ctx_state != hvia_pkg::VIStateConnected) | broken_q[vi_q]) begin", right: "(ctx_state != hvia_pkg::VIStateConnected)",
		wrong: "(ctx_state != hvia_pkg::VIStateConnected) & first_q",
	},
	"broken_goes_on": {
		at: "broken_q[vi_q] <= 1'b1;", right: "1'b1", wrong: "1'b0",
	},
	"broken_for_ever": {
		at: "broken_q[seq_init_vi_i] <= 1'b0;", right: "1'b0", wrong: "broken_q[seq_init_vi_i]",
	},
	"unreachable_of_nobody": {
		at: "assign async_valid_o = breaks & (ctx_state != hvia_pkg::VIStateFree);", right: "(ctx_state != hvia_pkg::VIStateFree)", wrong: "1'b1",
	},
	"unreachable_holds_memory": {
		at: "assign handle_busy_o = (message & ~unreachable_q", right: "~unreachable_q", wrong: "1'b1",
	},
	"unreachable_at_rest": {
		at: "assign waits   = ~take_ack & (((state_q == Check) & ~unreachable_q &", right: "~unreachable_q", wrong: "1'b1",
	},
	"unreachable_overruns": {
		at: "assign breaks    = looks & mine & unreachable_q & async_ready_i;", right: "async_ready_i", wrong: "1'b1",
	},
	"unreachable_completes": {
		at: "if (breaks) state_d = Idle;", right: "Idle", wrong: "Finish",
	},
	"offset": {
		at: "remote_q <= remote_q + {32'd0, payload_q};", right: "{32'd0, payload_q}", wrong: "{48'd0, need_q}",
	},
	"error_order": {
		at: "(state_q == Frame) & ~open_q & (missing", right: "~open_q", wrong: "~job_bad",
	},

	// Messages of reliable VIs.
	"passes_over_too_little": {
		at: "skip_q        <= (job_number_i - job_first_i) * MaxPayload;", right: "(job_number_i - job_first_i) * MaxPayload",
		wrong: "(job_number_i == job_first_i) ? 32'd0 : (job_number_i - job_first_i - 32'd1) * MaxPayload",
	},
	"passed_over_twice": {
		at: "assign seg_use   = skip_take ? skip_len :", right: "skip_len", wrong: "seg_left_q",
	},
	"length_of_the_descriptor": {
		at: "assign in_length    = head_q ? total_q :", right: "head_q", wrong: "1'b0",
	},
	"changed_operation_sent": {
		at: "(head_q & (in_operation != operation_q));", right: "(in_operation != operation_q)", wrong: "1'b0",
	},
	"frame_not_told": {
		at: "else if (frame_end) state_d = kept_q ? Tell :", right: "kept_q", wrong: "(kept_q & last_q)",
	},
	"asked_and_not_obeyed": {
		at: "((led_op_q != LedFail) & led_go_i) ? Check", right: "led_go_i", wrong: "(led_go_i | (led_op_q == LedAsk))",
	},
	"number_of_its_own": {
		at: "assign number = (first_q & ~kept_q) ? seq_rd_q", right: "~kept_q", wrong: "1'b1",
	},
	"sent_without_asking": {
		at: "assign start     = looks & (kept_q | (mine & ~unreachable_q))", right: "(mine & ~unreachable_q)", wrong: "~unreachable_q",
	},
	"completes_what_the_ledger_has": {
		at: "assign cpl_load = over & ~kept_q &", right: "~kept_q", wrong: "1'b1",
	},
	"goes_on_disconnected": {
		at: "assign refuses   = kept_q ? ctx_state != hvia_pkg::VIStateConnected :", right: "ctx_state != hvia_pkg::VIStateConnected", wrong: "1'b0",
	},
	"read_with_payload": {
		at: "assign payload = read ? 32'd0 :", right: "read", wrong: "1'b0",
	},
	"read_of_the_segments": {
		at: "assign in_empty     = in_read |", right: "in_read", wrong: "1'b0",
	},
	"read_unreliable": {
		at: "(read & ~ctx_reliable)) begin", right: "~ctx_reliable", wrong: "1'b0",
	},
	"answer_of_any_memory": {
		at: ".job_access_i(answer_q & ~raw ?", right: "answer_q & ~raw", wrong: "1'b0",
	},
	"answer_holds_its_handle": {
		at: "& ~answer_q & (handle_q ==", right: "~answer_q", wrong: "1'b1",
	},
	"unreachable_is_any": {
		at: "if (unreachable_q) led_operation_o =", right: "unreachable_q", wrong: "1'b0",
	},
	"unreachable_forgotten": {
		at: "if (breaks | (opens & unreachable_q)) broken_q", right: "(opens & unreachable_q)", wrong: "1'b0",
	},
	"fails_as_nothing": {
		at: "if (frame_fail) state_d = kept_q ? Tell : Finish;", right: "kept_q", wrong: "1'b0",
	},
	"chunk_of_a_dropped_message": {
		at: "if (cpl_load | (over & kept_q)) state_d = Idle;", right: "over", wrong: "~take_ack",
	},

	// Acknowledgements, and turns.
	"context_of_the_message": {
		at: "assign rd_vi_o       = take_ack ? ack_vi_i :", right: "ack_vi_i", wrong: "(state_q == Idle ? ack_vi_i : vi_q)",
	},
	"context_of_the_acknowledgement": {
		at: "((state_q == AckCheck) & ~ack_gone) ? ack_vi_q", right: "~ack_gone", wrong: "1'b1",
	},
	"acknowledged_by_nobody": {
		at: "assign ack_gone  = (state_q == AckCheck) &", right: "(state_q == AckCheck)", wrong: "1'b0",
	},
	"acknowledged_when_connected_only": {
		at: "& (ctx_state == hvia_pkg::VIStateFree);", right: "(ctx_state == hvia_pkg::VIStateFree)",
		wrong: "(ctx_state != hvia_pkg::VIStateConnected)",
	},
	"acknowledgements_starve_messages": {
		at: "if (take_ack) acked_q <= 1'b1;", right: "1'b1", wrong: "1'b0",
	},
	"messages_starve_acknowledgements": {
		at: "assign between      = (state_q == Check) |", right: "(state_q == Check)", wrong: "((state_q == Check) & first_q)",
	},
	"chunks_starve_acknowledgements": {
		at: "| (state_q == Head) | (state_q == Skip) |", right: "(state_q == Skip)", wrong: "1'b0",
	},
	"raw_frames_starve": {
		at: "else if (take_job) turn_q <= TurnRaw;", right: "TurnRaw", wrong: "TurnDesc",
	},
	"jobs_starve": {
		at: "if (take_desc) turn_q <= TurnJob;", right: "TurnJob", wrong: "TurnRaw",
	},
	"acknowledgement_at_rest": {
		at: "((state_q == AckCheck) & ~start_ack & ~ack_gone) |", right: "~start_ack", wrong: "1'b1",
	},
	"job_at_rest": {
		at: "~desc_valid_i & ~job_valid_i & ~rawtx_valid_i & ~ack_valid_i) | waits)", right: "~job_valid_i", wrong: "1'b1",
	},
}

func faulty(t *testing.T) string {
	t.Helper()
	s := spec(32)
	s.Name = "transmit_bench_faulty"
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		f := faults[name]
		if strings.Count(f.at, f.right) != 1 {
			t.Fatalf("fault %s: %q does not hold %q once", name, f.at, f.right)
		}
		choice := fmt.Sprintf("(($test$plusargs(%q)) ? (%s) : (%s))", "fault_"+name, f.wrong, f.right)
		s.Mutants = append(s.Mutants, verilate.Mutant{File: tx, Old: f.at, New: strings.Replace(f.at, f.right, choice, 1)})
	}
	return unit.Build(t, s)
}

func TestTransmitFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("a run of the bench for each: left to the normal run")
	}
	program := faulty(t)
	const size = 60
	if _, err := unit.Run(t.Context(), program, unit.Seed(t), size); err != nil {
		t.Fatalf("with no fault switched on: %v", err)
	}
	for name := range faults {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, program, fmt.Sprintf("--seed=%d", unit.Seed(t)), fmt.Sprintf("--size=%d", size),
				"+fault_"+name).CombinedOutput()
			if err == nil {
				t.Fatalf("the bench did not catch the planted fault %q -> %q in %s", faults[name].right, faults[name].wrong, tx)
			}
			t.Logf("caught: %s", firstLine(out))
		})
	}
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
