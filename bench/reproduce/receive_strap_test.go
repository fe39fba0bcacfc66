// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/rig"
	"hvia/layout"
)

// The cost of fetching receive descriptors on arrival: all of it for a message
// of one packet, and for one of several only what the MAC's bus does not hide.
// An RDMA write needs no descriptor.
func TestReceiveStrapCost(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the card")
	}
	sizes := []int{4, 1024, 16384}
	run := func(x rig.Exchange, straps uint32) (half []int64) {
		c := fewRounds()
		c.Background, c.straps = false, straps
		m, err := Measure(t.Context(), c, x, sizes)
		require.NoError(t, err)
		for _, row := range m.rows {
			require.True(t, row.Verified, "%d bytes: %s", row.Size, row.Fault)
			half = append(half, row.HalfRTTPs)
		}
		t.Logf("%v, straps %#x: half round trips %v ps", x, straps, half)
		return half
	}
	const strap = 1 << layout.StrapReceiveFetchOnArrival
	require.Equal(t, run(rig.RDMAWrite, 0), run(rig.RDMAWrite, strap), "RDMA writes")
	posted, arrival := run(rig.SendReceive, 0), run(rig.SendReceive, strap)
	for i, size := range sizes {
		// docs/explanation/reproduction.md, Variants, expects 0.89 us up to one
		// packet.
		low, high := int64(600_000), int64(1_600_000)
		if size > layout.MaxPayload {
			low, high = -600_000, 200_000
		}
		more := arrival[i] - posted[i]
		require.True(t, low <= more && more <= high, "%d bytes take %d ps more, want %d to %d", size, more, low, high)
	}
}
