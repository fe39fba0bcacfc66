// SPDX-License-Identifier: Apache-2.0

package engines_test

import (
	"testing"

	"hvia/sim/bench/internal/unit"
	"hvia/sim/verilate"
)

const (
	tx  = "rtl/tx_engine.sv"
	rx  = "rtl/rx_engine.sv"
	gec = "rtl/gec.sv"
)

var sizes = unit.Sizes{Short: 4, Normal: 40, Long: 3_000}

func spec() verilate.Spec {
	return verilate.Spec{
		Name: "engines_bench",
		Top:  "engines_bench_top",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv",
			"rtl/cdc_sync.sv", "rtl/cdc_reset_sync.sv", "rtl/cdc_fifo.sv", "rtl/cdc_pulse.sv",
			"rtl/byte_packer.sv", "rtl/dma_splitter.sv", "rtl/dma_read.sv", "rtl/dma_write.sv", gec, tx, rx,
			"rtl/checkers/cdc_fifo_checker.sv", "rtl/checkers/gec_checker.sv", "rtl/checkers/byte_packer_checker.sv",
			"rtl/checkers/dma_read_checker.sv", "rtl/checkers/dma_write_checker.sv",
			"rtl/checkers/tx_engine_checker.sv", "rtl/checkers/rx_engine_checker.sv",
			"sim/bench/engines/engines_bench_top.sv",
		},
		Cpp:     []string{"sim/bench/engines/cc/engines_bench.cc"},
		Headers: []string{"sim/bench/internal/unit/*.h", "sim/gen/*.h"},
	}
}

func TestEngines(t *testing.T) { unit.MustPass(t, spec(), sizes) }

// The bench fails on each of these faults.
func TestEnginesMutants(t *testing.T) {
	small := unit.Sizes{Short: 20, Normal: 20, Long: 20}
	for name, m := range map[string]verilate.Mutant{
		"sequence":       {File: rx, Old: "assign old         = ahead[31];", New: "assign old         = ahead[31] | (ahead == 32'd0);"},
		"enable_bit":     {File: rx, Old: "assign ctx_rdma_write = rd_ctx_i[hvia_pkg::ViContextAttributesEnableRdmaWriteBit];", New: "assign ctx_rdma_write = 1'b1;"},
		"generation":     {File: rx, Old: "(destination_vi[15:8] != ctx_generation) |", New: ""},
		"frame_length":   {File: rx, Old: "({1'b0, payload_len} + HeaderBytes[16:0] > {6'd0, rx_len_i})", New: "1'b0"},
		"bound":          {File: tx, Old: ".job_bound_i(left_q)", New: ".job_bound_i(raw ? left_q : payload)"},
		"half_a_frame":   {File: tx, Old: "assign tx_wabort_o = framed & job_bad;", New: "assign tx_wabort_o = 1'b0;"},
		"drain_too_soon": {File: tx, Old: "(handle_q == drain_handle_i) | (data_handle_q == drain_handle_i))", New: "(handle_q == drain_handle_i))"},
	} {
		t.Run(name, func(t *testing.T) { unit.MustCatch(t, spec(), name, m, small) })
	}
}
