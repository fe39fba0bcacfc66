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
			"sim/bench/internal/unit/*.h", "sim/gen/*.h", "sim/model/dp83820.h", "sim/model/ethernet_fcs.h", "sim/model/mac_bus_pins.h", "sim/model/pci_bus.h",
		},
	}
}

// The bench on both widths; it prints what a full frame costs on the bus.
func TestGec(t *testing.T) {
	for _, bits := range []int{32, 64} {
		t.Run(strconv.Itoa(bits), func(t *testing.T) {
			f := unit.MustPass(t, spec(bits), sizes)
			// In hundredths of a bus clock of 30 ns. The budget of a 1514-byte frame on the 32-bit bus is 14.3 us sent and 13.7 us
			// received; the 64-bit bus has nothing to wait for but the wire.
			for name, most := range map[string]uint64{"tx_clocks_x100": 47_700, "rx_clocks_x100": 45_700} {
				if f[name] > most {
					t.Errorf("%s is %d, want at most %d", name, f[name], most)
				}
			}
		})
	}
}

// The bench fails on each of these faults.
func TestGecMutants(t *testing.T) {
	small := unit.Sizes{Short: 16, Normal: 16, Long: 16}
	for name, m := range map[string]verilate.Mutant{
		"pad":        {File: gec, Old: "< rd_len);", New: "<= rd_len);"},
		"overread":   {File: gec, Old: "(rd_end <= tx_avail_q)", New: "(rd_end <= tx_avail_q + Lanes[10:0])"},
		"wake":       {File: gec, Old: "if (rx_wake_done | bus_error) rx_wait_d", New: "if (rx_wake_done | bus_error | rx_free_valid) rx_wait_d"},
		"parity":     {File: gec, Old: "address_error | wr_bad |", New: "address_error |"},
		"resume":     {File: host, Old: "hvia_pkg::MacTransmitRing + (tx_slot_i ? hvia_pkg::MacDescriptorStride : 16'd0)", New: "hvia_pkg::MacTransmitRing"},
		"long":       {File: host, Old: "short_bursts_i ? hvia_pkg::MacMaxDmaBytes64 :", New: "1'b0 ? hvia_pkg::MacMaxDmaBytes64 :"},
		"turnaround": {File: host, Old: "gnt_n_d & gnt_n_q & gnt_prev_q & bus_idle", New: "gnt_n_q & gnt_prev_q & bus_idle"},
	} {
		t.Run(name, func(t *testing.T) { unit.MustCatch(t, spec(32), name, m, small) })
	}
}
