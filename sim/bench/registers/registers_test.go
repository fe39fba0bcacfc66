// SPDX-License-Identifier: Apache-2.0

package registers_test

import (
	"testing"

	"hvia/sim/bench/internal/unit"
	"hvia/sim/verilate"
)

const (
	registers = "rtl/registers.sv"
	counters  = "rtl/counters.sv"
	resets    = "rtl/reset_control.sv"
)

// Host accesses.
var sizes = unit.Sizes{Short: 4_000, Normal: 300_000, Long: 5_000_000}

func spec() verilate.Spec {
	return verilate.Spec{
		Name: "registers_bench",
		Top:  "registers_bench_top",
		RTL: []string{
			"rtl/gen/hvia_params_pkg.sv", "rtl/gen/hvia_pkg.sv", "rtl/cdc_sync.sv", "rtl/cdc_reset_sync.sv",
			registers, counters, resets,
			"rtl/checkers/registers_checker.sv", "rtl/checkers/counters_checker.sv", "rtl/checkers/reset_control_checker.sv",
			"sim/bench/registers/registers_bench_top.sv",
		},
		Cpp:     []string{"sim/bench/registers/cc/registers_bench.cc"},
		Headers: []string{"sim/bench/internal/unit/*.h", "sim/gen/*.h"},
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

// TestRegistersMutants: the bench fails on each of these faults.
func TestRegistersMutants(t *testing.T) {
	for name, m := range map[string]verilate.Mutant{
		"lost_cause":    {File: registers, Old: "irq_status_d = irq_status_d | irq_set;", New: "if (!reg_write) irq_status_d = irq_status_d | irq_set;"},
		"byte_enables":  {File: registers, Old: "{{8{be[3]}}, {8{be[2]}}, {8{be[1]}}, {8{be[0]}}}", New: "{{8{be[2]}}, {8{be[3]}}, {8{be[1]}}, {8{be[0]}}}"},
		"stale_tail":    {File: registers, Old: "    if (rawrx_restart_o) rawrx_tail_d = 8'd0;\n", New: ""},
		"doorbell_leak": {File: registers, Old: "assign db_wvalid_o = tgt_wvalid_i && tgt_wbar_i && !hold_off;", New: "assign db_wvalid_o = tgt_wvalid_i && tgt_wbar_i;"},
		"async_newest":  {File: registers, Old: "assign async_oldest = async_mem[async_head_q[AsyncLog2-1:0]];", New: "assign async_oldest = async_mem[async_tail_q[AsyncLog2-1:0] - 1'b1];"},
		"async_no_room": {File: registers, Old: "(!async_full || async_take)", New: "!async_full"},
		"async_mark":    {File: registers, Old: "      if (async_drop) begin", New: "      if (async_drop && !rd_dropped) begin"},
		"async_sticky":  {File: registers, Old: "      if (rd_async) async_overflow_q <= 1'b0;\n", New: ""},
		"table_place":   {File: registers, Old: "RegisterAttHostLevel1Offset: rd_word = att_level1_q;", New: "RegisterAttHostLevel1Offset: rd_word = att_level2_q;"},
		"half_armed":    {File: registers, Old: "arm_valid_o = tgt_wbe_i == 4'hf;", New: "arm_valid_o = tgt_wbe_i[0];"},
		"taken_late":    {File: registers, Old: "assign info_read_o = rd_start &&", New: "assign info_read_o = rd_state_q == RdWord &&"},
		"cause_lost":    {File: registers, Old: "hvia_pkg::RegisterInterruptStatusNotifyBit]          = irq_notify_i;", New: "hvia_pkg::RegisterInterruptStatusNotifyBit]          = irq_notify_i && !reg_write;"},
		"two_for_one":   {File: counters, Old: "plane1_d    = plane1_q & ~pick;", New: "plane1_d    = plane1_q;"},
		"no_forward":    {File: counters, Old: "(add_valid_q && (add_index_q == pick_index)) ? add_sum : mem[pick_index]", New: "mem[pick_index]"},
		"no_urgency":    {File: counters, Old: "urgent = (|full) ? full : (|plane1_q) ? plane1_q : plane0_q;", New: "urgent = waiting;"},
		"cut_off":       {File: resets, Old: "StQuiesce: if (bus_idle_i) state_d = StAssert;", New: "StQuiesce: state_d = StAssert;"},
		"early_ready":   {File: resets, Old: "assign all_live  = core_live && (&live_sync);", New: "assign all_live  = core_live;"},
	} {
		t.Run(name, func(t *testing.T) {
			unit.MustCatch(t, spec(), name, m, unit.Sizes{Short: 4_000, Normal: 4_000, Long: 4_000})
		})
	}
}
