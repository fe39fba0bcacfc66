// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/rig"
	"hvia/layout"
	"hvia/params"
)

// The cost of 64-byte bursts. A message of 4 bytes is one short transaction
// either way. A long one is slower by the overhead of each additional burst of
// a frame on the busiest bus, the MAC's.
func TestShortBurstsCost(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the card")
	}
	sizes := []int{4, 32768, 65536}
	run := func(straps uint32) (half []int64) {
		c := fewRounds()
		c.Background, c.straps = false, straps
		m, err := Measure(t.Context(), c, rig.RDMAWrite, sizes)
		require.NoError(t, err)
		for _, row := range m.rows {
			require.True(t, row.Verified, "%d bytes: %s", row.Size, row.Fault)
			half = append(half, row.HalfRTTPs)
		}
		t.Logf("straps %#x: half round trips %v ps", straps, half)
		return half
	}
	long, short := run(0), run(1<<layout.StrapShortBursts)
	require.InDelta(t, long[0], short[0], 300_000, "4 bytes, ps")
	bursts := func(size int64) int64 { return (layout.MaxFrame + size - 1) / size }
	frames := float64(sizes[2]-sizes[1]) / layout.MaxPayload
	added := frames * float64(bursts(params.ShortBurstBytes)-bursts(params.DmaBurstBytes))
	clocks := float64(short[2]-short[1]-(long[2]-long[1])) / added / 30_000
	t.Logf("%.1f clocks for each added burst", clocks)
	// Address, target's and initiator's latency, turnaround; a burst of 512
	// bytes has 18 clocks without data.
	require.True(t, 6 <= clocks && clocks <= 18, "%.1f clocks for each added burst, want 6 to 18", clocks)
}
