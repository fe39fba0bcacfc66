// SPDX-License-Identifier: Apache-2.0

// Package dp83820_test tests the model of the MAC with a host and its memory:
// every behaviour that the card relies on, random traffic, and speed.
package dp83820_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const model = "sim/model/dp83820.cc"

// Random episodes of 60 frames each way.
var sizes = unit.Sizes{Short: 12, Normal: 100, Long: 10_000}

var bench = sim.Program{
	Folder: "dp83820-bench", Name: "dp83820_tb",
	Sources: []string{"sim/unit/mac/dp83820/cc/*.cc", model, "sim/model/pci_bus.cc", "sim/model/host_bridge.cc"},
	Flags:   []string{"-O1"}, // saves more compile time than it costs in run time
	Headers: []string{"sim/unit/mac/dp83820/cc/*.h", "sim/unit/internal/unit/*.h", "sim/model/*.h", "sim/gen/*.h"},
}

func run(t *testing.T, size uint64, mutants ...verilate.Mutant) (map[string]uint64, error) {
	t.Helper()
	program, err := bench.Build(t.Context(), mutants...)
	require.NoError(t, err)
	return unit.Run(t.Context(), program, unit.Seed(t), size)
}

func TestDp83820(t *testing.T) {
	f, err := run(t, sizes.Pick())
	require.NoError(t, err)
	require.EqualValues(t, 1, f["passed"], "the testbench ended without its verdict")
	t.Logf("%v", f)
	if testing.Short() {
		return // too few to cover every case
	}
	for _, key := range []string{
		"sent", "underruns", "received", "received_bad", "rejected", "filtered", "overruns", "cut", "parts", "retries", "disconnects",
		"parity_errors", "wide", "narrow", "skipped",
	} {
		require.NotZero(t, f[key], "the episodes never met: %s", key)
	}
}

// T10, the MAC's side: 512-byte bursts back to back at 117 +-1 MB/s on the
// card's bus. The card's target answers a read in 3 clocks and a write in 2,
// and its arbiter in 1. So does the host of this testbench.
func TestBurstRate(t *testing.T) {
	f, err := run(t, 0)
	require.NoError(t, err)
	for _, direction := range []string{"read", "write"} {
		clocks := float64(f[direction+"_burst_tenths_32"]) / 10
		require.NotZero(t, clocks)
		rate := 512 / (clocks * params.MacClockPeriod * 1e-12) / 1e6
		t.Logf("%ss: 512 bytes in %.1f clocks, %.1f MB/s", direction, clocks, rate)
		require.InDelta(t, 117, rate, 1, "%s bursts", direction)
	}
	for _, bits := range []string{"32", "64"} {
		t.Logf("%s bits, clocks per 1,514-byte frame: out %.1f, in %.1f, both ways %.1f and %.1f; descriptor read %d, status write %d", bits,
			float64(f["transmit_frame_tenths_"+bits])/10, float64(f["receive_frame_tenths_"+bits])/10,
			float64(f["both_transmit_frame_tenths_"+bits])/10, float64(f["both_receive_frame_tenths_"+bits])/10,
			f["descriptor_read_clocks_"+bits], f["status_write_clocks_"+bits])
	}
}

func TestDp83820Mutants(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a separate build")
	}
	bugs := []unit.Bug{
		{"FIFO without end", model, "tx_ == TxState::kRoom && TransmitHeld() + TransmitNeeds() <= timing_.transmit_fifo) tx_", "tx_ == TxState::kRoom && (FAULT || TransmitHeld() + TransmitNeeds() <= timing_.transmit_fifo)) tx_"},
		{"rejected what is in memory", model, "if (f.committed || (rxcfg_ & kMacRXCFGAEPMask)) return false;", "if (rxcfg_ & kMacRXCFGAEPMask) return false;"},
		{"REQ# stays after STOP#", model, "backoff_ = kRequestAway;", "backoff_ = 0;"},
		{"loss forgotten with a bad one", model, "rx_lost_ = rx_lost_ || f.overrun;", ""},
		{"threshold slept through", model, "std::min(byte, f.drained + drain - 1)", "std::min(byte, f.drained + drain)"},
		{"receiver always first", model, "(!transmit || last_ != kReceive)", "true"},
		{"latency timer ignored", model, "const bool expired = latency_ == 0 &&", "const bool expired = !FAULT && latency_ == 0 &&"},
	}
	mutants := unit.Switch(t, bugs)
	_, err := run(t, 60, mutants...)
	require.NoError(t, err, "without a fault")
	for i, b := range bugs {
		t.Run(b[0], func(t *testing.T) {
			unit.Enable(t, i)
			_, err := run(t, 60, mutants...)
			require.Error(t, err, "the testbench does not see the fault")
			text := strings.TrimSpace(err.Error())
			t.Log(text[strings.LastIndexByte(text, '\n')+1:])
		})
	}
}
