// SPDX-License-Identifier: Apache-2.0

package gec_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
)

const (
	gec    = "rtl/mac/dp83820/hvia_gec.sv"
	host   = "rtl/mac/dp83820/hvia_mac_bus_host.sv"
	target = "rtl/mac/dp83820/hvia_mac_bus_target.sv"
)

var sizes = unit.Sizes{Short: 2, Normal: 12, Long: 800}

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

var bugs = []unit.Bug{
	{"pad", gec, "({rd_addr[SlotW-1:LaneW], i[LaneW-1:0]} < rd_len);",
		"(FAULT ? {rd_addr[SlotW-1:LaneW], i[LaneW-1:0]} <= rd_len : {rd_addr[SlotW-1:LaneW], i[LaneW-1:0]} < rd_len);"},
	{"overread", gec, "(rd_end <= tx_avail_q)", "(rd_end <= tx_avail_q + (FAULT ? Lanes[10:0] : 11'd0))"},
	{"wake", gec, "if (rx_wake_done | bus_error) rx_wait_d", "if (rx_wake_done | bus_error | (FAULT & rx_free_valid)) rx_wait_d"},
	{"parity", gec, "address_error | wr_bad |", "address_error | (wr_bad & !FAULT) |"},
	{"resume", host, "(tx_slot_i ? hvia_pkg::MacDescriptorStride : 16'd0)", "(tx_slot_i && !FAULT ? hvia_pkg::MacDescriptorStride : 16'd0)"},
	{"long", host, "short_bursts_i ? hvia_pkg::MacMaxDmaBytes64 :", "short_bursts_i && !FAULT ? hvia_pkg::MacMaxDmaBytes64 :"},
	{"endless", gec, "assign tx_late         = (tx_busy_q != 2'd0) &", "assign tx_late         = !FAULT & (tx_busy_q != 2'd0) &"},
	{"keeps", gec, "tx_own_d   = tx_own_q & ~tx_complete;", "tx_own_d   = FAULT ? tx_own_q : tx_own_q & ~tx_complete;"},
	{"one slot", gec, "tx_drop_d  = tx_drop_d | tx_complete;", "tx_drop_d  = FAULT ? tx_complete & {~tx_complete[0], 1'b1} : tx_drop_d | tx_complete;"},
	{"behind", gec, "      tx_next_d  = tx_fill_q;\n", "      if (!FAULT) tx_next_d  = tx_fill_q;\n"},
	{"no link", gec, ".d_i(phy_link_n_i),", ".d_i(phy_link_n_i & !FAULT),"},
	{"turnaround", host, "gnt_n_d & gnt_n_q & gnt_prev_q & bus_idle", "(gnt_n_d | FAULT) & gnt_n_q & gnt_prev_q & bus_idle"},
}

// crossings are the FIFOs between the clocks that are pushed without a check of
// their ready, because they cannot fill (docs/reference/card.md). Here a bug
// fills each by stopping the reader's clock and pushing extra words. The
// checker of gec must report it.
var crossings = []struct{ valid, clock, when, message string }{
	{"tx_event_push", "clk_i", "tx_own_q != 2'd0", "an event of a slot was lost"},
	{"rx_event_push", "clk_i", "rx_started_q", "an event of a slot was lost"},
	{"rx_done_i", "mac_clk_i", "rx_valid_o", "a receive slot that was released was lost"},
	{"use_valid", "clk_i", "configured", "a trace event of the MAC bus was lost"},
}

// faulty builds a program with all bugs, those of the crossings last.
func faulty(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../rtl/mac/dp83820/hvia_gec.sv")
	require.NoError(t, err)
	all := slices.Clone(bugs)
	for _, c := range crossings {
		from := strings.Index(string(text), ".src_valid_i("+c.valid+")")
		require.Positive(t, from, c.valid)
		clock := ".dst_clk_i(" + c.clock + ")"
		old := string(text)[from:][:strings.Index(string(text)[from:], clock)+len(clock)]
		on := "(FAULT && (" + c.when + "))"
		wrong := strings.Replace(old, "("+c.valid+")", "("+c.valid+" | "+on+")", 1)
		wrong = strings.Replace(wrong, clock, ".dst_clk_i("+c.clock+" & ~"+on+")", 1)
		all = append(all, unit.Bug{c.valid, gec, old, wrong})
	}
	return unit.Build(t, unit.Inject(t, unit.Testbench(t, "gec", "W=32"), all))
}

func TestGecMutants(t *testing.T) { unit.CatchEach(t, faulty(t), 16, bugs) }

func TestGecCrossingsThatFill(t *testing.T) {
	program := faulty(t)
	_, err := unit.Run(t.Context(), program, unit.Seed(t), 1)
	require.NoError(t, err, "without a fault")
	for i, c := range crossings {
		_, err := unit.Run(t.Context(), program, unit.Seed(t), 1, fmt.Sprintf("+fault=%d", len(bugs)+i+1))
		require.ErrorContains(t, err, c.message, c.valid)
	}
}
