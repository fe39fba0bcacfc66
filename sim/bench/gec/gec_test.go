// SPDX-License-Identifier: Apache-2.0

package gec_test

import (
	"strconv"
	"testing"

	"hvia/sim/bench/internal/unit"
	"hvia/sim/verilate"
)

const (
	gec    = "rtl/gec.sv"
	host   = "rtl/mac_bus_host.sv"
	target = "rtl/mac_bus_target.sv"
)

var sizes = unit.Sizes{Short: 2, Normal: 32, Long: 800}

func spec(bits int) verilate.Spec {
	return verilate.Spec{
		Name:   "gec_bench_" + strconv.Itoa(bits),
		Top:    "gec",
		Params: map[string]string{"W": strconv.Itoa(bits)},
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv",
			"rtl/cdc_sync.sv", "rtl/cdc_reset_sync.sv", "rtl/cdc_fifo.sv", "rtl/cdc_handshake.sv", "rtl/cdc_pulse.sv", target, host, gec,
			"rtl/checkers/cdc_fifo_checker.sv", "rtl/checkers/cdc_handshake_checker.sv",
			"rtl/checkers/mac_bus_target_checker.sv", "rtl/checkers/mac_bus_host_checker.sv", "rtl/checkers/gec_checker.sv",
		},
		Cpp: []string{"sim/bench/gec/cc/gec_bench.cc", "sim/model/dp83820.cc", "sim/model/pci_bus.cc"},
		Headers: []string{
			"sim/bench/internal/unit/*.h", "sim/gen/*.h", "sim/model/dp83820.h", "sim/model/mac_bus_pins.h", "sim/model/pci_bus.h",
		},
	}
}

func TestGec(t *testing.T) {
	for _, bits := range []int{32, 64} {
		t.Run(strconv.Itoa(bits), func(t *testing.T) { unit.MustPass(t, spec(bits), sizes) })
	}
}
