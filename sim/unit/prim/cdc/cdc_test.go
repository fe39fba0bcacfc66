// SPDX-License-Identifier: Apache-2.0

package cdc_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	ideal      = "rtl/prim/hvia_cdc_sync.sv"
	metastable = "sim/unit/prim/cdc/metastable.sv"
	handshake  = "rtl/prim/hvia_cdc_handshake.sv"
	fifo       = "rtl/prim/hvia_cdc_fifo.sv"
)

var sizes = unit.Sizes{Short: 2_000, Normal: 80_000, Long: 5_000_000}

func spec(t *testing.T, name, synchroniser string) verilate.Spec {
	s := unit.Testbench(t, "cdc")
	s.Name += "_" + name
	s.RTL[slices.Index(s.RTL, ideal)] = synchroniser
	return s
}

// Random clocks, pauses, back-pressure and resets, with ideal flops and with
// first flops that resolve each changing bit at random.
func TestCrossings(t *testing.T) {
	for name, synchroniser := range map[string]string{"ideal": ideal, "metastable": metastable} {
		t.Run(name, func(t *testing.T) {
			f := unit.MustPass(t, spec(t, name, synchroniser), sizes)
			require.EqualValues(t, 16, f["fifo16_most"], "words inside at most")
			require.NotZero(t, f["fifo2_full"])
			require.NotZero(t, f["fifo16_full"])
			require.NotZero(t, f["rests"])
			if !testing.Short() {
				require.NotZero(t, f["resets"])
			}
		})
	}
}

// A binary pointer passes with ideal flops. Only metastable flops reveal it.
func TestMutants(t *testing.T) {
	unit.MustCatchEach(t, spec(t, "metastable", metastable), 20_000, []unit.Bug{
		{"binary_pointer", fifo, "wgray_q <= wbin_d ^ (wbin_d >> 1);", "wgray_q <= wbin_d ^ (wbin_d >> (FAULT ? 8 : 1));"},
		{"one_word_too_many", fifo, "assign src_ready_o = src_live && !full;", "assign src_ready_o = src_live && (!full || FAULT);"},
		{"fifo_quiet_early", fifo, "assign dst_quiet_o = dst_live && wgray_settled && !pop;", "assign dst_quiet_o = dst_live && (wgray_settled || FAULT) && !pop;"},
		{"no_acknowledge", handshake, "assign src_ready_o = src_live && (req_q == ack_sync);", "assign src_ready_o = src_live && (req_q == ack_sync || FAULT);"},
		{"lone_reset", handshake, "assign both_rst_n = src_rst_ni & dst_rst_ni;", "assign both_rst_n = src_rst_ni & (dst_rst_ni | FAULT);"},
		{"quiet_in_flight", handshake, "assign dst_quiet_o = dst_live && req_settled && !dst_take;", "assign dst_quiet_o = dst_live && (req_settled || FAULT) && !dst_take;"},
	})
}
