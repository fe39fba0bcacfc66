// SPDX-License-Identifier: Apache-2.0

package registers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
)

const (
	registers = "rtl/control/hvia_registers.sv"
	counters  = "rtl/control/hvia_counters.sv"
	resets    = "rtl/control/hvia_reset_control.sv"
)

// Host accesses.
var sizes = unit.Sizes{Short: 4_000, Normal: 100_000, Long: 5_000_000}

// TestRegisters runs random host accesses, events and resets against a model.
func TestRegisters(t *testing.T) {
	unit.MustPass(t, unit.Testbench(t, "registers"), sizes,
		"commands", "ignored", "doorbell_writes", "dropped", "counted", "soft_resets", "pin_resets",
		"async_kept", "async_dropped", "async_taken", "async_none", "async_overflow", "async_marks",
		"async_room", "async_late", "armings", "half_armings", "info_reads")
}

// Three counters may increment in every clock. A fourth would lose events,
// which the checker reports.
func TestCountersStorm(t *testing.T) {
	program := unit.Build(t, unit.Testbench(t, "registers"))
	_, err := unit.Run(t.Context(), program, unit.Seed(t), 1, "+storm=3")
	require.NoError(t, err)
	_, err = unit.Run(t.Context(), program, unit.Seed(t), 1, "+storm=4")
	require.ErrorContains(t, err, "counters: an event is lost")
}

func TestRegistersOfFewerVIs(t *testing.T) { unit.FewerVIs(t, unit.Testbench(t, "registers"), sizes) }

func TestRegistersFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "registers"), 6_000, []unit.Bug{
		{"raw_quiet", registers, "RegisterStateQuietBit]       = card_quiet;", "RegisterStateQuietBit]       = FAULT ? card_quiet_i : card_quiet;"},
		{"quiet_too_soon", registers, "core_rst_ni && card_quiet_settled &&", "core_rst_ni && (card_quiet_settled || FAULT) &&"},
		{"lost_cause", registers, "irq_status_d = irq_status_d | irq_set;", "if (!(FAULT && reg_write)) irq_status_d = irq_status_d | irq_set;"},
		{"byte_enables", registers, "{{8{be[3]}}, {8{be[2]}}, {8{be[1]}}, {8{be[0]}}}",
			"{{8{FAULT ? be[2] : be[3]}}, {8{FAULT ? be[3] : be[2]}}, {8{be[1]}}, {8{be[0]}}}"},
		{"stale_tail", registers, "    if (rawrx_restart_o) rawrx_tail_d = 8'd0;\n", "    if (rawrx_restart_o && !FAULT) rawrx_tail_d = 8'd0;\n"},
		{"doorbell_leak", registers, "assign db_wvalid_o = tgt_wvalid_i && tgt_wbar_i && !hold_off;", "assign db_wvalid_o = tgt_wvalid_i && tgt_wbar_i && (FAULT || !hold_off);"},
		{"async_newest", registers, "assign async_oldest = async_mem[async_head_q[AsyncLog2-1:0]];",
			"assign async_oldest = async_mem[FAULT ? async_tail_q[AsyncLog2-1:0] - 1'b1 : async_head_q[AsyncLog2-1:0]];"},
		{"async_no_room", registers, "(!async_full || async_take)", "(!async_full || (async_take && !FAULT))"},
		{"async_mark", registers, "      if (async_drop) begin", "      if (async_drop && !(FAULT && rd_dropped)) begin"},
		{"async_link", registers, "(async_code_i != hvia_pkg::AsyncErrorLinkDown) &&", "(FAULT || async_code_i != hvia_pkg::AsyncErrorLinkDown) &&"},
		{"async_sticky", registers, "      if (rd_async) async_overflow_q <= 1'b0;\n", "      if (rd_async && !FAULT) async_overflow_q <= 1'b0;\n"},
		{"table_place", registers, "RegisterAttHostLevel1Offset: rd_word = att_level1_q;", "RegisterAttHostLevel1Offset: rd_word = FAULT ? att_level2_q : att_level1_q;"},
		{"half_armed", registers, "arm_valid_o = tgt_wbe_i == 4'hf;", "arm_valid_o = FAULT ? tgt_wbe_i[0] : tgt_wbe_i == 4'hf;"},
		{"taken_late", registers, "assign info_read_o = rd_start &&", "assign info_read_o = (FAULT ? rd_state_q == RdWord : rd_start) &&"},
		{"cause_lost", registers, "hvia_pkg::RegisterInterruptStatusNotifyBit]          = irq_notify_i;",
			"hvia_pkg::RegisterInterruptStatusNotifyBit]          = irq_notify_i && !(FAULT && reg_write);"},
		{"two_for_one", counters, "plane1_d    = plane1_q & ~pick;", "plane1_d    = FAULT ? plane1_q : plane1_q & ~pick;"},
		{"no_forward", counters, "(add_valid_q && (add_index_q == pick_index)) ? add_sum : mem[pick_index]", "(!FAULT && add_valid_q && (add_index_q == pick_index)) ? add_sum : mem[pick_index]"},
		{"no_urgency", counters, "urgent = (|full) ? full : (|plane1_q) ? plane1_q : plane0_q;", "urgent = FAULT ? waiting : (|full) ? full : (|plane1_q) ? plane1_q : plane0_q;"},
		{"cut_off", resets, "StQuiesce: if (bus_idle_i) state_d = StAssert;", "StQuiesce: if (bus_idle_i || FAULT) state_d = StAssert;"},
		{"early_ready", resets, "assign all_live  = core_live && (&live_sync);", "assign all_live  = core_live && (FAULT || (&live_sync));"},
	})
}
