// SPDX-License-Identifier: Apache-2.0

package pci_test

import (
	"fmt"
	"strconv"
	"testing"

	"hvia/params"
	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"

	"github.com/stretchr/testify/require"
)

func burstsSpec(t *testing.T, profile string) verilate.Spec {
	t.Helper()
	bits, err := params.Lookup(profile, "SystemBusBits")
	require.NoError(t, err)
	spec, err := unit.Testbench(t, "bursts", "W="+strconv.FormatInt(bits, 10)).ForProfile(profile)
	require.NoError(t, err)
	return spec
}

// shortOverhead is the overhead of a short transaction besides its data, in
// clocks from the request to the answer, in the model of
// docs/explanation/reproduction.md.
var shortOverhead = map[string]uint64{"read": 14, "write": 7}

// Target T10 of the paper: 512-byte bursts run at 120 MB/s in each direction
// alone. Only the host bridge's wait states are calibrated to it. Short
// transactions are not fitted; they are checked against the figures behind the
// predictions.
func TestBursts(t *testing.T) {
	sizes := unit.Sizes{Short: 20, Normal: 200, Long: 5_000}
	f := unit.MustPass(t, burstsSpec(t, params.Base), sizes)
	for _, way := range []string{"read", "write"} {
		require.Equal(t, 2*sizes.Pick(), f[way+"_gaps"], "two times from burst to burst in each frame")
		rate := float64(f[way+"_kb_per_s"]) / 1000
		t.Logf("%s: 512 bytes in %.1f clocks, %.1f MB/s; frames of 1,514 bytes in a row %.1f MB/s", way,
			float64(f[way+"_milliclocks"])/1000, rate, float64(f[way+"_frames_kb_per_s"])/1000)
		require.InDelta(t, 120, rate, 1, "T10, %s", way)
		for _, bytes := range []uint64{4, 8, 64} {
			got := f[fmt.Sprintf("%s_%d_clocks", way, bytes)]
			want := shortOverhead[way] + bytes/4
			t.Logf("%s of %d bytes on an idle bus: %d clocks, of them %d on the bus; the model has %d", way, bytes, got, f[fmt.Sprintf("%s_%d_bus_clocks", way, bytes)], want)
			require.InDelta(t, want, got, 2, "%s of %d bytes", way, bytes)
		}
	}
	t.Logf("reads and writes at once: %.1f MB/s together", float64(f["both_frames_kb_per_s"])/1000)
	// Each direction uses the bus while the other's answer returns to its
	// engine.
	require.Greater(t, f["both_frames_kb_per_s"], max(f["read_frames_kb_per_s"], f["write_frames_kb_per_s"]))
}

// The board with wide and fast buses, with the same wait states in clocks: half
// the data phases and half the period. The paper has no such board.
func TestBurstsWide(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a separate build")
	}
	sizes := unit.Sizes{Short: 20, Normal: 200, Long: 5_000}
	f := unit.MustPass(t, burstsSpec(t, "hvia-ge-66"), sizes)
	for _, way := range []string{"read", "write"} {
		t.Logf("%s: 512 bytes in %.1f clocks, %.1f MB/s; frames of 1,514 bytes in a row %.1f MB/s", way, float64(f[way+"_milliclocks"])/1000,
			float64(f[way+"_kb_per_s"])/1000, float64(f[way+"_frames_kb_per_s"])/1000)
		require.EqualValues(t, (142-64)*1000, f[way+"_milliclocks"], "64 clocks less than with 32 bits")
		// A request of one beat is a 32-bit transaction, so the last bytes are
		// not faster.
		require.EqualValues(t, shortOverhead[way]+2, f[way+"_8_clocks"])
	}
}
