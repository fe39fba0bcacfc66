// SPDX-License-Identifier: Apache-2.0

package vimanager_test

import (
	"fmt"
	"testing"

	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

const (
	manager  = "rtl/control/hvia_vi_manager.sv"
	contexts = "rtl/control/hvia_vi_context.sv"
)

// Commands.
var sizes = unit.Sizes{Short: 1_500, Normal: 12_000, Long: 600_000}

// TestManager runs random commands against a model of the VIs and the table.
func TestManager(t *testing.T) {
	unit.BothWidths(t, "vi_manager", sizes, outcomes()...)
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
	names := []string{"holds", "resets", "misaligned", "failed_writes", "quiet_clocks"}
	for op, statuses := range table {
		for _, s := range append([]layout.CommandStatus{layout.CommandStatusDone, layout.CommandStatusBusError}, statuses...) {
			names = append(names, fmt.Sprintf("op%d_status%d", op, s))
		}
	}
	return append(names, fmt.Sprintf("op%d_status%d", layout.CommandOpcodeResizeCompletionQueue+1, layout.CommandStatusBadOpcode))
}

func TestManagerOfFewerVIs(t *testing.T) {
	unit.FewerVIs(t, unit.Testbench(t, "vi_manager", "W=32"), sizes)
}

func TestManagerFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "vi_manager", "W=32"), 3_000, []unit.Bug{
		{"drain_once", manager, "if (drain_busy) state_d = StDrain;\n        else if", "if (drain_busy && !FAULT) state_d = StDrain;\n        else if"},
		{"no_second_wait", manager, "StStale: state_d = StSettle;", "StStale: state_d = FAULT ? StResult : StSettle;"},
		{"flush_short", manager, "(state_q == StSettle || state_q == StDrain || state_q == StDrained);\n  assign stale",
			"(state_q == StSettle || (!FAULT && (state_q == StDrain || state_q == StDrained)));\n  assign stale"},
		{"no_handle_drain", manager, "is_invalidate ? drain_handle_busy_i : drain_vi_busy_i", "(is_invalidate && !FAULT) ? drain_handle_busy_i : drain_vi_busy_i"},
		{"page_end", manager, "(list_end <= 13'(hvia_pkg::AttPageBytes))", "(list_end <= 13'(hvia_pkg::AttPageBytes + (FAULT ? 4 : 0)))"},
		{"limit", manager, "index_q < 32'(limit_q)", "index_q < 32'(limit_q) + 32'(FAULT)"},
		{"level1_first", manager, "else if (list_more) update_d = UpList;", "else if (list_more && !(FAULT && is_register)) update_d = UpList;"},
		{"sequence_late", manager, "(tx_seq_done_q || tx_seq_init_ready_i) && (rx_seq_done_q || rx_seq_init_ready_i)",
			"(tx_seq_done_q || tx_seq_init_ready_i) && (FAULT || rx_seq_done_q || rx_seq_init_ready_i)"},
		{"ledger_late", manager, " &&\n      (led_done_q || led_init_ready_i);", " &&\n      (FAULT || led_done_q || led_init_ready_i);"},
		{"transport_place", manager, "assign seq_init_transport_o = payload_q[8*hvia_pkg::VIContextWindowOffset+:32];",
			"assign seq_init_transport_o = FAULT ? payload_q[8*hvia_pkg::VIContextSendCompletionQueueOffset+:32] : payload_q[8*hvia_pkg::VIContextWindowOffset+:32];"},
		{"tie_of_reset", manager, "state_q == StContext && !(is_destroy || is_reset || is_disconnect);", "state_q == StContext && !(is_destroy || (is_reset && !FAULT) || is_disconnect);"},
		{"queue_number", manager, "assign queue_ok  = index_q < QueueCount;", "assign queue_ok  = FAULT ? index_q[7:0] < QueueCount[7:0] : index_q < QueueCount;"},
		{"ring_log2", manager, "list_count_q <= 32'(hvia_pkg::CompletionQueueMaxLog2);",
			"(FAULT ? list_count_q[7:0] <= hvia_pkg::CompletionQueueMaxLog2 : list_count_q <= 32'(hvia_pkg::CompletionQueueMaxLog2));"},
		{"ring_half_page", manager, "list_addr_q[hvia_params_pkg::PageBytesLog2-1:0] == '0 &&",
			"list_addr_q[hvia_params_pkg::PageBytesLog2-2:0] == '0 && (FAULT || !list_addr_q[hvia_params_pkg::PageBytesLog2-1]) &&"},
		{"queue_detail", manager, "else if (!is_create_queue) detail_d", "else if (FAULT || !is_create_queue) detail_d"},
		{"queue_state", manager, "if (!cqc_ok_i) status_d = hvia_pkg::CommandStatusBadState;\n          else if",
			"if (!cqc_ok_i && !FAULT) status_d = hvia_pkg::CommandStatusBadState;\n          else if"},
		{"no_patience", manager, "hold_d   = hold_q || expired;", "hold_d   = hold_q || (expired && !FAULT);"},
		{"stale_context", contexts, "assign rd_ctx_o[128*p+:128] = live_rd_q ? ctx_q : FreeWord;", "assign rd_ctx_o[128*p+:128] = (live_rd_q || FAULT) ? ctx_q : FreeWord;"},
		{"quiet_hole", manager, "!word_put && !(state_q == StSequence", "(FAULT || !word_put) && !(state_q == StSequence"},
	})
}
