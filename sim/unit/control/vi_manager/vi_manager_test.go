// SPDX-License-Identifier: Apache-2.0

package vimanager_test

import (
	"fmt"
	"strconv"
	"testing"

	"hvia/layout"
	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	manager  = "rtl/control/hvia_vi_manager.sv"
	contexts = "rtl/control/hvia_vi_context.sv"
)

// Commands.
var sizes = unit.Sizes{Short: 1_500, Normal: 30_000, Long: 600_000}

func spec(width int) verilate.Spec {
	w := strconv.Itoa(width)
	return verilate.Spec{
		Name: "manager_bench_" + w,
		Top:  "vi_manager_tb",
		RTL: []string{
			"rtl/gen/hvia_params_pkg.sv", "rtl/gen/hvia_pkg.sv", contexts, manager,
			"rtl/control/checkers/hvia_vi_context_checker.sv", "rtl/control/checkers/hvia_vi_manager_checker.sv",
			"sim/unit/control/vi_manager/vi_manager_tb.sv",
		},
		Cpp:     []string{"sim/unit/control/vi_manager/cc/vi_manager_tb.cc"},
		Params:  map[string]string{"W": w},
		Defines: []string{"BENCH_W=" + w},
	}
}

// TestManager runs random commands against a model of the VIs and the table.
func TestManager(t *testing.T) {
	for _, width := range []int{32, 64} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			figures := unit.MustPass(t, spec(width), sizes)
			if testing.Short() {
				return // too few commands for every outcome
			}
			for _, name := range []string{"holds", "resets", "misaligned", "failed_writes", "quiet_clocks"} {
				if figures[name] == 0 {
					t.Errorf("%s never happened: the run proves nothing about it", name)
				}
			}
			for _, want := range outcomes() {
				if figures[want] == 0 {
					t.Errorf("%s never happened: the run proves nothing about it", want)
				}
			}
		})
	}
}

func outcomes() []string {
	vi := []layout.CommandStatus{layout.CommandStatusBadArgument, layout.CommandStatusBadState}
	argument := vi[:1]
	table := map[layout.CommandOpcode][]layout.CommandStatus{
		layout.CommandOpcodeNop:              nil,
		layout.CommandOpcodeInitialiseAtt:    argument,
		layout.CommandOpcodeWriteLevel2:      argument,
		layout.CommandOpcodeRegisterMemory:   argument,
		layout.CommandOpcodeDeregisterMemory: argument,
		layout.CommandOpcodeCreateVI:         vi,
		layout.CommandOpcodeDestroyVI:        vi,
		layout.CommandOpcodeConnectVI:        vi,
		layout.CommandOpcodeDisconnectVI:     vi,
		layout.CommandOpcodeModifyVI:         vi,
		layout.CommandOpcodeQueryVI:          argument,
		layout.CommandOpcodeResetVI:          argument,

		layout.CommandOpcodeCreateCompletionQueue:  vi,
		layout.CommandOpcodeDestroyCompletionQueue: vi,
		layout.CommandOpcodeResizeCompletionQueue:  vi,
	}
	var names []string
	for op, statuses := range table {
		for _, s := range append([]layout.CommandStatus{layout.CommandStatusDone, layout.CommandStatusBusError}, statuses...) {
			names = append(names, fmt.Sprintf("op%d_status%d", op, s))
		}
	}
	return append(names, fmt.Sprintf("op%d_status%d", layout.CommandOpcodeResizeCompletionQueue+1, layout.CommandStatusBadOpcode))
}

func TestManagerFaults(t *testing.T) {
	anchors := map[string]string{
		manager:  "localparam int unsigned Lanes = W / 32;",
		contexts: "logic         wr_live;",
	}
	fault := func(name, file, old, new string) unit.Switched {
		return unit.Switched{Name: name, File: file, Old: old, New: new}
	}
	unit.MustCatchEach(t, spec(32), anchors, []unit.Switched{
		fault("drain_once", manager, "if (drain_busy) state_d = StDrain;\n        else if", "if (drain_busy && !FAULT) state_d = StDrain;\n        else if"),
		fault("no_second_wait", manager, "StStale: state_d = StSettle;", "StStale: state_d = FAULT ? StResult : StSettle;"),
		fault("flush_short", manager, "(state_q == StSettle || state_q == StDrain || state_q == StDrained);\n  assign stale",
			"(state_q == StSettle || (!FAULT && (state_q == StDrain || state_q == StDrained)));\n  assign stale"),
		fault("no_handle_drain", manager, "is_invalidate ? drain_handle_busy_i : drain_vi_busy_i", "(is_invalidate && !FAULT) ? drain_handle_busy_i : drain_vi_busy_i"),
		fault("page_end", manager, "(list_end <= 13'(hvia_pkg::AttPageBytes))", "(list_end <= 13'(hvia_pkg::AttPageBytes + (FAULT ? 4 : 0)))"),
		fault("limit", manager, "index_q < 32'(limit_q)", "index_q < 32'(limit_q) + 32'(FAULT)"),
		fault("level1_first", manager, "else if (list_more) update_d = UpList;", "else if (list_more && !(FAULT && is_register)) update_d = UpList;"),
		fault("sequence_late", manager, "(tx_seq_done_q || tx_seq_init_ready_i) && (rx_seq_done_q || rx_seq_init_ready_i)",
			"(tx_seq_done_q || tx_seq_init_ready_i) && (FAULT || rx_seq_done_q || rx_seq_init_ready_i)"),
		fault("ledger_late", manager, " &&\n      (led_done_q || led_init_ready_i);", " &&\n      (FAULT || led_done_q || led_init_ready_i);"),
		fault("transport_place", manager, "assign seq_init_transport_o = payload_q[8*hvia_pkg::VIContextWindowOffset+:32];",
			"assign seq_init_transport_o = FAULT ? payload_q[8*hvia_pkg::VIContextSendCompletionQueueOffset+:32] : payload_q[8*hvia_pkg::VIContextWindowOffset+:32];"),
		fault("tie_of_reset", manager, "state_q == StContext && !(is_destroy || is_reset || is_disconnect);", "state_q == StContext && !(is_destroy || (is_reset && !FAULT) || is_disconnect);"),
		fault("queue_number", manager, "assign queue_ok  = index_q < QueueCount;", "assign queue_ok  = FAULT ? index_q[7:0] < QueueCount[7:0] : index_q < QueueCount;"),
		fault("ring_log2", manager, "list_count_q <= 32'(hvia_pkg::CompletionQueueMaxLog2);",
			"(FAULT ? list_count_q[7:0] <= hvia_pkg::CompletionQueueMaxLog2 : list_count_q <= 32'(hvia_pkg::CompletionQueueMaxLog2));"),
		fault("ring_half_page", manager, "list_addr_q[hvia_params_pkg::PageBytesLog2-1:0] == '0 &&",
			"list_addr_q[hvia_params_pkg::PageBytesLog2-2:0] == '0 && (FAULT || !list_addr_q[hvia_params_pkg::PageBytesLog2-1]) &&"),
		fault("queue_detail", manager, "else if (!is_create_queue) detail_d", "else if (FAULT || !is_create_queue) detail_d"),
		fault("queue_state", manager, "if (!cqc_ok_i) status_d = hvia_pkg::CommandStatusBadState;\n          else if",
			"if (!cqc_ok_i && !FAULT) status_d = hvia_pkg::CommandStatusBadState;\n          else if"),
		fault("no_patience", manager, "hold_d   = hold_q || impatient;", "hold_d   = hold_q || (impatient && !FAULT);"),
		fault("stale_context", contexts, "assign rd_ctx_o[128*p+:128] = live_rd_q ? ctx_q : FreeWord;", "assign rd_ctx_o[128*p+:128] = (live_rd_q || FAULT) ? ctx_q : FreeWord;"),
		fault("quiet_hole", manager, "!word_put && !(state_q == StSequence", "(FAULT || !word_put) && !(state_q == StSequence"),
	}, unit.Sizes{Short: 3_000, Normal: 3_000, Long: 3_000})
}
