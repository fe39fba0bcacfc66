// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/params"
)

// The budget has a row for each stage and the host's two, and no other.
func TestBudgetCoversTheWaterfall(t *testing.T) {
	require.Len(t, latencyBudget, len(rig.RDMAWriteStages)+2)
	for _, s := range rig.RDMAWriteStages {
		require.Positive(t, latencyBudget[s.Name], "%s", s.Name)
	}
}

// An added wait in a model or in the host shows in its own row of the
// waterfall, and in no other. The waits are multiples of every domain's clock,
// and so is the period of the polls, so that no phase moves.
func TestPlantedWaitMovesItsOwnRow(t *testing.T) {
	benchtest.TakesSeconds(t)
	const wait = 10 * params.SystemClockPeriod
	still := map[string]int64{"HostPollPeriod": params.SystemClockPeriod}
	waterfall := func(name string, by int64) []report.WaterfallRow {
		c := DefaultConfig()
		c.Background = false
		c.Params = maps.Clone(still)
		if name != "" {
			c.Params[name] += by
		}
		m, err := Measure(t.Context(), c, rig.RDMAWrite, []int{report.WaterfallSize})
		require.NoError(t, err, "%s", name)
		return m.waterfall
	}
	base := waterfall("", 0)
	plants := []struct {
		name  string
		value int64 // of the base profile
		clock int64 // in ps, of what the parameter counts
		row   string
	}{
		{"HostPostTime", params.HostPostTime, 1, rowPost},
		{"BridgePostedWriteClocks", params.BridgePostedWriteClocks, params.SystemClockPeriod, "doorbell posted write"},
		{"MacRegisterInitialClocks", params.MacRegisterInitialClocks, params.MacClockPeriod, "MAC PCI: kick, descriptor"},
		{"MacReactClocks", params.MacReactClocks, params.MacClockPeriod, "MAC PCI: kick, descriptor"},
		{"MacTransmitDelay", params.MacTransmitDelay, 1, "DP83820 transmit"},
		{"PhyReceiveDelay", params.PhyReceiveDelay, 1, "wire and PHYs"},
		{"CableDelay", params.CableDelay, 1, "wire and PHYs"},
		{"MacReceiveDelay", params.MacReceiveDelay, 1, "DP83820 receive, MAC PCI write"},
	}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			got := waterfall(p.name, p.value+wait/p.clock)
			require.Len(t, got, len(base))
			for i, row := range got {
				moved := int64(0)
				if row.Name == p.row {
					moved = wait
				}
				// A refresh of the SDRAM may fall elsewhere.
				require.InDelta(t, base[i].MeanPs+moved, row.MeanPs, params.SystemClockPeriod, "%s", row.Name)
			}
		})
	}
}
