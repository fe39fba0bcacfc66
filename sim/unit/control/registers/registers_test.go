// SPDX-License-Identifier: Apache-2.0

package registers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	registers = "rtl/control/hvia_registers.sv"
	counters  = "rtl/control/hvia_counters.sv"
	resets    = "rtl/control/hvia_reset_control.sv"
)

// Host accesses.
var sizes = unit.Sizes{Short: 4_000, Normal: 300_000, Long: 5_000_000}

func spec() verilate.Spec {
	return verilate.Spec{
		Name: "registers_tb",
		Top:  "registers_tb",
		RTL: []string{
			"rtl/gen/hvia_params_pkg.sv", "rtl/gen/hvia_pkg.sv", "rtl/prim/hvia_cdc_sync.sv", "rtl/prim/hvia_cdc_reset_sync.sv",
			registers, counters, resets,
			"rtl/control/checkers/hvia_registers_checker.sv", "rtl/control/checkers/hvia_counters_checker.sv", "rtl/control/checkers/hvia_reset_control_checker.sv",
			"sim/unit/control/registers/registers_tb.sv",
		},
		Cpp: []string{"sim/unit/control/registers/cc/registers_tb.cc"},
	}
}

// TestRegisters runs random host accesses, events and resets against a model.
func TestRegisters(t *testing.T) {
	figures := unit.MustPass(t, spec(), sizes)
	names := []string{
		"commands", "ignored", "doorbell_writes", "dropped", "counted", "soft_resets", "pin_resets",
		"async_kept", "async_dropped", "async_taken", "async_none", "async_overflow", "async_marks",
		"armings", "half_armings", "info_reads",
	}
	if !testing.Short() {
		// Two events in one clock.
		names = append(names, "async_room", "async_late")
	}
	for _, name := range names {
		if figures[name] == 0 {
			t.Errorf("%s never happened: the run proves nothing about it", name)
		}
	}
}

// Three counters may increment in every clock. A fourth would lose events: the
// checker reports it.
func TestCountersStorm(t *testing.T) {
	program := unit.Build(t, spec())
	_, err := unit.Run(t.Context(), program, unit.Seed(t), 1, "+storm=3")
	require.NoError(t, err)
	_, err = unit.Run(t.Context(), program, unit.Seed(t), 1, "+storm=4")
	require.ErrorContains(t, err, "counters: an event is lost")
}

func TestRegistersFaults(t *testing.T) {
	fault := func(name, file, old, new string) unit.Switched {
		return unit.Switched{Name: name, File: file, Old: old, New: new}
	}
	anchors := map[string]string{
		registers: "localparam logic       RDMARead    = 1'b1;",
		counters:  "localparam logic [127:0] Index0 = {64{2'b10}};",
		resets:    "  logic bus_live;",
	}
	unit.MustCatchEach(t, spec(), anchors, []unit.Switched{
		fault("raw_quiet", registers, "RegisterStateQuietBit]       = card_quiet;", "RegisterStateQuietBit]       = FAULT ? card_quiet_i : card_quiet;"),
		fault("quiet_too_soon", registers, "core_rst_ni && card_quiet_settled &&", "core_rst_ni && (card_quiet_settled || FAULT) &&"),
		fault("lost_cause", registers, "irq_status_d = irq_status_d | irq_set;", "if (!(FAULT && reg_write)) irq_status_d = irq_status_d | irq_set;"),
		fault("byte_enables", registers, "{{8{be[3]}}, {8{be[2]}}, {8{be[1]}}, {8{be[0]}}}",
			"{{8{FAULT ? be[2] : be[3]}}, {8{FAULT ? be[3] : be[2]}}, {8{be[1]}}, {8{be[0]}}}"),
		fault("stale_tail", registers, "    if (rawrx_restart_o) rawrx_tail_d = 8'd0;\n", "    if (rawrx_restart_o && !FAULT) rawrx_tail_d = 8'd0;\n"),
		fault("doorbell_leak", registers, "assign db_wvalid_o = tgt_wvalid_i && tgt_wbar_i && !hold_off;", "assign db_wvalid_o = tgt_wvalid_i && tgt_wbar_i && (FAULT || !hold_off);"),
		fault("async_newest", registers, "assign async_oldest = async_mem[async_head_q[AsyncLog2-1:0]];",
			"assign async_oldest = async_mem[FAULT ? async_tail_q[AsyncLog2-1:0] - 1'b1 : async_head_q[AsyncLog2-1:0]];"),
		fault("async_no_room", registers, "(!async_full || async_take)", "(!async_full || (async_take && !FAULT))"),
		fault("async_mark", registers, "      if (async_drop) begin", "      if (async_drop && !(FAULT && rd_dropped)) begin"),
		fault("async_link", registers, "(async_code_i != hvia_pkg::AsyncErrorLinkDown) &&", "(FAULT || async_code_i != hvia_pkg::AsyncErrorLinkDown) &&"),
		fault("async_sticky", registers, "      if (rd_async) async_overflow_q <= 1'b0;\n", "      if (rd_async && !FAULT) async_overflow_q <= 1'b0;\n"),
		fault("table_place", registers, "RegisterAttHostLevel1Offset: rd_word = att_level1_q;", "RegisterAttHostLevel1Offset: rd_word = FAULT ? att_level2_q : att_level1_q;"),
		fault("half_armed", registers, "arm_valid_o = tgt_wbe_i == 4'hf;", "arm_valid_o = FAULT ? tgt_wbe_i[0] : tgt_wbe_i == 4'hf;"),
		fault("taken_late", registers, "assign info_read_o = rd_start &&", "assign info_read_o = (FAULT ? rd_state_q == RdWord : rd_start) &&"),
		fault("cause_lost", registers, "hvia_pkg::RegisterInterruptStatusNotifyBit]          = irq_notify_i;",
			"hvia_pkg::RegisterInterruptStatusNotifyBit]          = irq_notify_i && !(FAULT && reg_write);"),
		fault("two_for_one", counters, "plane1_d    = plane1_q & ~pick;", "plane1_d    = FAULT ? plane1_q : plane1_q & ~pick;"),
		fault("no_forward", counters, "(add_valid_q && (add_index_q == pick_index)) ? add_sum : mem[pick_index]", "(!FAULT && add_valid_q && (add_index_q == pick_index)) ? add_sum : mem[pick_index]"),
		fault("no_urgency", counters, "urgent = (|full) ? full : (|plane1_q) ? plane1_q : plane0_q;", "urgent = FAULT ? waiting : (|full) ? full : (|plane1_q) ? plane1_q : plane0_q;"),
		fault("cut_off", resets, "StQuiesce: if (bus_idle_i) state_d = StAssert;", "StQuiesce: if (bus_idle_i || FAULT) state_d = StAssert;"),
		fault("early_ready", resets, "assign all_live  = core_live && (&live_sync);", "assign all_live  = core_live && (FAULT || (&live_sync));"),
	}, unit.Sizes{Short: 4_000, Normal: 4_000, Long: 4_000})
}
