// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"fmt"
	"strconv"
	"testing"

	"hvia/layout"
	"hvia/sim/bench/internal/unit"
	"hvia/sim/verilate"
)

const (
	manager  = "rtl/vi_manager.sv"
	contexts = "rtl/vi_context.sv"
)

// Commands.
var sizes = unit.Sizes{Short: 1_500, Normal: 30_000, Long: 600_000}

func spec(width int) verilate.Spec {
	w := strconv.Itoa(width)
	return verilate.Spec{
		Name: "manager_bench_" + w,
		Top:  "manager_bench_top",
		RTL: []string{
			"rtl/gen/hvia_params_pkg.sv", "rtl/gen/hvia_pkg.sv", contexts, manager,
			"rtl/checkers/vi_context_checker.sv", "rtl/checkers/vi_manager_checker.sv",
			"sim/bench/manager/manager_bench_top.sv",
		},
		Cpp:     []string{"sim/bench/manager/cc/manager_bench.cc"},
		Headers: []string{"sim/bench/internal/unit/*.h", "sim/gen/*.h"},
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

// outcomes lists every status that each command can end with.
func outcomes() []string {
	vi := []layout.CommandStatus{layout.CommandStatusBadArgument, layout.CommandStatusBadState}
	argument := vi[:1]
	table := map[layout.CommandOpcode][]layout.CommandStatus{
		layout.CommandOpcodeNop:              nil,
		layout.CommandOpcodeInitialiseAtt:    argument,
		layout.CommandOpcodeWriteLevel2:      argument,
		layout.CommandOpcodeRegisterMemory:   argument,
		layout.CommandOpcodeDeregisterMemory: argument,
		layout.CommandOpcodeCreateVi:         vi,
		layout.CommandOpcodeDestroyVi:        vi,
		layout.CommandOpcodeConnectVi:        vi,
		layout.CommandOpcodeDisconnectVi:     vi,
		layout.CommandOpcodeModifyVi:         vi,
		layout.CommandOpcodeQueryVi:          argument,
		layout.CommandOpcodeResetVi:          argument,

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

// TestManagerMutants: the bench fails on each of these faults.
func TestManagerMutants(t *testing.T) {
	for name, m := range map[string]verilate.Mutant{
		"drain_once":      {File: manager, Old: "if (drain_busy) state_d = StDrain;\n        else if", New: "if"},
		"no_second_wait":  {File: manager, Old: "StStale: state_d = StSettle;", New: "StStale: state_d = StResult;"},
		"flush_short":     {File: manager, Old: "(state_q == StSettle || state_q == StDrain || state_q == StDrained);\n  assign stale", New: "state_q == StSettle;\n  assign stale"},
		"no_handle_drain": {File: manager, Old: "is_invalidate ? drain_handle_busy_i : drain_vi_busy_i", New: "drain_vi_busy_i"},
		"page_end":        {File: manager, Old: "(list_end <= 13'(hvia_pkg::AttPageBytes))", New: "(list_end <= 13'(hvia_pkg::AttPageBytes + 4))"},
		"limit":           {File: manager, Old: "index_q < 32'(limit_q)", New: "index_q <= 32'(limit_q)"},
		"level1_first":    {File: manager, Old: "else if (list_more) update_d = UpList;", New: "else if (list_more && !is_register) update_d = UpList;"},
		"sequence_late":   {File: manager, Old: "(tx_seq_done_q || tx_seq_init_ready_i) && (rx_seq_done_q || rx_seq_init_ready_i)", New: "(tx_seq_done_q || tx_seq_init_ready_i)"},
		"ledger_late":     {File: manager, Old: " &&\n      (led_done_q || led_init_ready_i);", New: ";"},
		"transport_place": {File: manager, Old: "assign seq_init_transport_o = payload_q[8*hvia_pkg::ViContextWindowOffset+:32];", New: "assign seq_init_transport_o = payload_q[8*hvia_pkg::ViContextSendCompletionQueueOffset+:32];"},
		"tie_of_reset":    {File: manager, Old: "!(is_destroy || is_reset || is_disconnect);", New: "!(is_destroy || is_disconnect);"},
		"queue_number":    {File: manager, Old: "assign queue_ok  = index_q < QueueCount;", New: "assign queue_ok  = index_q[7:0] < QueueCount[7:0];"},
		"ring_log2":       {File: manager, Old: "list_count_q <= 32'(hvia_pkg::CompletionQueueMaxLog2);", New: "list_count_q[7:0] <= hvia_pkg::CompletionQueueMaxLog2;"},
		"ring_half_page":  {File: manager, Old: "list_addr_q[hvia_params_pkg::PageBytesLog2-1:0] == '0 &&", New: "list_addr_q[hvia_params_pkg::PageBytesLog2-2:0] == '0 &&"},
		"queue_detail":    {File: manager, Old: "else if (!is_create_queue) detail_d", New: "else detail_d"},
		"queue_state":     {File: manager, Old: "if (!cqc_ok_i) status_d = hvia_pkg::CommandStatusBadState;\n          else if", New: "if"},
		"no_patience":     {File: manager, Old: "hold_d   = hold_q || impatient;", New: "hold_d   = hold_q;"},
		"stale_context":   {File: contexts, Old: "assign rd_ctx_o[128*p+:128] = live_rd_q ? ctx_q : FreeWord;", New: "assign rd_ctx_o[128*p+:128] = ctx_q;"},
		"quiet_hole":      {File: manager, Old: "!word_put && !(state_q == StSequence", New: "!(state_q == StSequence"},
	} {
		t.Run(name, func(t *testing.T) {
			unit.MustCatch(t, spec(32), name, m, unit.Sizes{Short: 3_000, Normal: 3_000, Long: 3_000})
		})
	}
}
