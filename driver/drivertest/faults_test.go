// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
)

// Faults occur at the requested rates, are the same for the same seed, and
// affect only VIA frames.
func TestFaults(t *testing.T) {
	const frames = 20_000
	via, other := make([]byte, layout.HeaderBytes), make([]byte, layout.HeaderBytes)
	layout.EthernetHeader(via).SetEtherType(layout.EtherTypeVia)
	layout.EthernetHeader(other).SetEtherType(layout.EtherTypeConnection)
	f := Faults{Seed: 5, Lose: 100, Duplicate: 50, Delay: 20, Late: 3 * host.Microsecond}
	one, same, harmless := f.Copies(), f.Copies(), f.Copies()
	lost, double, late := 0, 0, 0
	for range frames {
		copies := one(0, via)
		require.Equal(t, copies, same(1, via))
		switch len(copies) {
		case 0:
			lost++
		case 2:
			double++
		}
		for _, at := range copies {
			require.Less(t, at, f.Late)
			if at > 0 {
				late++
			}
		}
		require.Equal(t, []host.Time{0}, harmless(0, other))
	}
	// A lost frame may be duplicated: then one copy arrives.
	require.InDelta(t, frames*0.1*0.95, lost, 150)
	require.InDelta(t, frames*0.05*0.9, double, 100)
	require.InDelta(t, frames*0.02*0.95, late, 80)
	require.Equal(t, []host.Time{0}, Faults{}.Copies()(0, via))
}
