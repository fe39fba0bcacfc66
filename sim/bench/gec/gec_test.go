// SPDX-License-Identifier: Apache-2.0

package gec_test

import (
	"testing"

	"hvia/sim/bench/internal/unit"
	"hvia/sim/verilate"
)

const gec = "rtl/gec.sv"

var sizes = unit.Sizes{Short: 6, Normal: 200, Long: 5_000}

func spec() verilate.Spec {
	return verilate.Spec{
		Name: "gec_bench",
		Top:  "gec",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv",
			"rtl/cdc_sync.sv", "rtl/cdc_reset_sync.sv", "rtl/cdc_fifo.sv", "rtl/cdc_pulse.sv", gec,
			"rtl/checkers/cdc_fifo_checker.sv", "rtl/checkers/gec_checker.sv",
		},
		Cpp:     []string{"sim/bench/gec/cc/gec_bench.cc"},
		Headers: []string{"sim/bench/internal/unit/*.h", "sim/gen/*.h"},
	}
}

func TestGec(t *testing.T) { unit.MustPass(t, spec(), sizes) }

// The bench fails on each of these faults.
func TestGecMutants(t *testing.T) {
	small := unit.Sizes{Short: 6, Normal: 6, Long: 6}
	for name, m := range map[string]verilate.Mutant{
		"pad":        {File: gec, Old: "32'hffff_ffff << {tx_data_left[1:0], 3'b000}", New: "32'hffff_ffff << {tx_data_left[1:0] + 2'd1, 3'b000}"},
		"long":       {File: gec, Old: "else if (rx_size > MaxFrame)", New: "else if (rx_size > MaxFrame + 1)"},
		"enable":     {File: gec, Old: "rx_inside_q ? rx_on_q : rx_enable", New: "1'b1"},
		"slot_count": {File: gec, Old: "(rx_used_q < (single_rx_slot_i ? 2'd1 : 2'd2))", New: "(rx_used_q < 2'd2)"},
		"abort":      {File: gec, Old: "if (tx_wabort_i | tx_commit) tx_waddr_q", New: "if (tx_commit) tx_waddr_q"},
	} {
		t.Run(name, func(t *testing.T) { unit.MustCatch(t, spec(), name, m, small) })
	}
}
