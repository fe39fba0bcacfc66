// SPDX-License-Identifier: Apache-2.0

package reset_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim"
	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

// Bugs injected into the reset logic. All are in one simulator, because its
// build takes a minute. A strap that the card does not use enables each of
// them.
const firstFault = 16

type plantedFault struct {
	name  string
	edits []verilate.Mutant // FAULT stands for the switch
}

// survives makes a register that only power-up clears.
func survives(name, file, before, register, after string) plantedFault {
	const edge = "  always_ff @(posedge clk_i or negedge "
	clocked := edge + "rst_ni) begin\n    "
	if strings.Contains(before, "core_rst_ni") {
		clocked = edge + "core_rst_ni) begin\n    "
	}
	return plantedFault{name, []verilate.Mutant{{
		File: file, Old: clocked + before + register + after,
		New: "  initial " + register + " = '0;\n" + clocked + before + register + strings.Replace(after, "<= ", "<= FAULT ? "+register+" : ", 1),
	}}}
}

var plantedFaults = []plantedFault{
	survives("bus mastering survives RST#", "rtl/pci/hvia_pci_config.sv", "if (!rst_ni) begin\n      memory_en_q        <= 1'b0;\n      ", "bus_master_en_q", "    <= 1'b0;"),
	survives("the enabled interrupts survive", "rtl/control/hvia_registers.sv",
		"if (!core_rst_ni) begin\n      enable_q      <= 1'b0;\n      irq_status_q  <= '0;\n      ", "irq_enable_q", "  <= '0;"),
	survives("live VIs survive", "rtl/control/hvia_vi_context.sv", "if (!rst_ni) ", "live_q", " <= '0;\n    else if (wr_valid_i) live_q"),
	survives("the receive descriptors on the chip survive", "rtl/via/hvia_receive_store.sv", "if (!rst_ni) begin\n      ", "valid_q", " <= '0;"),
	{"the MAC is not reset", []verilate.Mutant{{
		File: "rtl/mac/dp83820/hvia_mac_bus_host.sv", Old: "  assign mb_rst_no  = rst_n_q;", // but at power-up
		New: "  logic planted_q = 1'b0;\n  always_ff @(posedge clk_i) if (rst_n_q) planted_q <= 1'b1;\n  assign mb_rst_no  = rst_n_q || (FAULT && planted_q);"}}},
	{"ResetVI leaves the work queues as they are", []verilate.Mutant{{
		File: "rtl/via/hvia_work_queue.sv", Old: "      Clear, ClearReceive: begin\n        write_count = 1'b1;", New: "      Clear, ClearReceive: begin\n        write_count = !FAULT;"}}},
	{"ResetVI does not wait for the engines", []verilate.Mutant{{
		File: "rtl/control/hvia_vi_manager.sv", Old: "assign drain_busy = is_invalidate ? drain_handle_busy_i : drain_vi_busy_i;",
		New: "assign drain_busy = is_invalidate ? drain_handle_busy_i : drain_vi_busy_i && !(FAULT && is_reset);"}}},
}

func TestPlantedFaults(t *testing.T) {
	unit.FaultySimulator(t)
	var mutants []verilate.Mutant
	for i, f := range plantedFaults {
		for _, e := range f.edits {
			e.New = strings.ReplaceAll(e.New, "FAULT", fmt.Sprintf("hvia_board.strap_i[%d]", firstFault+i))
			mutants = append(mutants, e)
		}
	}
	program, err := sim.Build{Mutants: mutants}.Program(context.Background())
	require.NoError(t, err)
	const strikes = 60
	// Without a bug it passes.
	t.Run("none", func(t *testing.T) { mustPlay(t, config{program: program}, blows(t, strikes)) })
	for i, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			err := play(t, config{program: program, straps: 1 << (firstFault + i)}, unit.Seed(t), blows(t, strikes))
			require.Error(t, err, "the injected bug was not noticed")
			t.Logf("noticed: %v", err)
		})
	}
}
