// SPDX-License-Identifier: Apache-2.0

package gec_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	gec    = "rtl/mac/dp83820/hvia_gec.sv"
	host   = "rtl/mac/dp83820/hvia_mac_bus_host.sv"
	target = "rtl/mac/dp83820/hvia_mac_bus_target.sv"
)

var sizes = unit.Sizes{Short: 2, Normal: 32, Long: 800}

// The testbench at both widths. It prints the bus clocks of a full frame.
func TestGec(t *testing.T) {
	for _, bits := range []string{"32", "64"} {
		t.Run(bits, func(t *testing.T) {
			f := unit.MustPass(t, unit.Testbench(t, "gec", "W="+bits), sizes)
			// In hundredths of a bus clock of 30 ns. The budget of a 1514-byte
			// frame on the 32-bit bus is 14.3 us for sending and 13.7 us for
			// receiving. The 64-bit bus waits only for the wire.
			for name, most := range map[string]uint64{"tx_clocks_x100": 47_700, "rx_clocks_x100": 45_700} {
				if f[name] > most {
					t.Errorf("%s is %d, want at most %d", name, f[name], most)
				}
			}
		})
	}
}

func TestGecMutants(t *testing.T) {
	unit.MustCatch(t, unit.Testbench(t, "gec", "W=32"), 16, map[string]verilate.Mutant{
		"pad":        {File: gec, Old: "< rd_len);", New: "<= rd_len);"},
		"overread":   {File: gec, Old: "(rd_end <= tx_avail_q)", New: "(rd_end <= tx_avail_q + Lanes[10:0])"},
		"wake":       {File: gec, Old: "if (rx_wake_done | bus_error) rx_wait_d", New: "if (rx_wake_done | bus_error | rx_free_valid) rx_wait_d"},
		"parity":     {File: gec, Old: "address_error | wr_bad |", New: "address_error |"},
		"resume":     {File: host, Old: "hvia_pkg::MacTransmitRing + (tx_slot_i ? hvia_pkg::MacDescriptorStride : 16'd0)", New: "hvia_pkg::MacTransmitRing"},
		"long":       {File: host, Old: "short_bursts_i ? hvia_pkg::MacMaxDmaBytes64 :", New: "1'b0 ? hvia_pkg::MacMaxDmaBytes64 :"},
		"endless":    {File: gec, Old: "assign tx_late         = (tx_busy_q != 2'd0) &", New: "assign tx_late         = 1'b0 &"},
		"keeps":      {File: gec, Old: "tx_own_d   = tx_own_q & ~tx_complete;", New: "tx_own_d   = tx_own_q;"},
		"one slot":   {File: gec, Old: "tx_drop_d  = tx_drop_d | tx_complete;", New: "tx_drop_d  = tx_complete & {~tx_complete[0], 1'b1};"},
		"behind":     {File: gec, Old: "      tx_next_d  = tx_fill_q;\n", New: ""},
		"no link":    {File: gec, Old: ".d_i(phy_link_n_i),", New: ".d_i      (1'b0 & phy_link_n_i),"},
		"turnaround": {File: host, Old: "gnt_n_d & gnt_n_q & gnt_prev_q & bus_idle", New: "gnt_n_q & gnt_prev_q & bus_idle"},
	})
}

// Four FIFOs between the clocks are pushed without a check of their ready,
// because they cannot fill (docs/reference/card.md). Here the test fills each
// by stopping the reader's clock and pushing extra words. The checker of gec
// must report it.
func TestGecCrossingsThatFill(t *testing.T) {
	text, err := os.ReadFile("../../../../rtl/mac/dp83820/hvia_gec.sv")
	require.NoError(t, err)
	crossings := []struct{ valid, clock, when, message string }{
		{"tx_event_push", "clk_i", "tx_own_q != 2'd0", "an event of a slot was lost"},
		{"rx_event_push", "clk_i", "rx_started_q", "an event of a slot was lost"},
		{"rx_done_i", "mac_clk_i", "rx_valid_o", "a receive slot that was released was lost"},
		{"use_valid", "clk_i", "configured", "a trace event of the MAC bus was lost"},
	}
	var faults []unit.Bug
	for _, c := range crossings {
		from := strings.Index(string(text), ".src_valid_i("+c.valid+")")
		require.Positive(t, from, c.valid)
		clock := ".dst_clk_i(" + c.clock + ")"
		old := string(text)[from:][:strings.Index(string(text)[from:], clock)+len(clock)]
		on := "(FAULT && (" + c.when + "))"
		faulty := strings.Replace(old, "("+c.valid+")", "("+c.valid+" | "+on+")", 1)
		faulty = strings.Replace(faulty, clock, ".dst_clk_i("+c.clock+" & ~"+on+")", 1)
		faults = append(faults, unit.Bug{c.valid, gec, old, faulty})
	}
	program := unit.Build(t, unit.Inject(t, unit.Testbench(t, "gec", "W=32"), faults))
	_, err = unit.Run(t.Context(), program, unit.Seed(t), 1)
	require.NoError(t, err, "without a fault")
	for i, c := range crossings {
		_, err := unit.Run(t.Context(), program, unit.Seed(t), 1, fmt.Sprintf("+fault=%d", i+1))
		require.ErrorContains(t, err, c.message, c.valid)
	}
}
