// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
)

// span returns the time from the first event of a kind to the next event of
// another kind, each at its node, in the echo workload with replaced
// parameters. With this seed no other access delays the measured one.
func span(t *testing.T, values map[string]int64, from, to layout.TraceEvent, toNode uint8) host.Time {
	t.Helper()
	records := unit.NewRecords(t)
	runEcho(t, 1, 1, 10*host.Microsecond, sim.Config{Params: values, Arguments: records.Arguments()})
	var start, end host.Time
	for _, r := range records.Trace(t) {
		switch e := layout.TraceEvent(r.Event()); {
		case e == from && start == 0 && r.Node() == 0:
			start = host.Time(r.Time())
		case e == to && start != 0 && end == 0 && r.Node() == toNode:
			end = host.Time(r.Time())
		}
	}
	require.Positive(t, end, "%v, then %v", from, to)
	return end - start
}

// The models around the card use replaced parameters: one more clock before the
// first data of a read, a slower MAC, a longer cable. Other clocks do not
// change.
func TestReplacedParametersReachTheModels(t *testing.T) {
	takesSeconds(t)
	for _, c := range []struct {
		name     string
		more     int64
		from, to layout.TraceEvent
		toNode   uint8
		later    host.Time
	}{
		{"BridgeReadInitialClocks", 1, layout.TraceEventDescriptorTranslated, layout.TraceEventDescriptorFetched, 0, params.SystemClockPeriod},
		{"MacTransmitDelay", 990_000, layout.TraceEventMacTransmitEnd, layout.TraceEventWireStart, 0, 990_000},
		{"CableDelay", 990_000, layout.TraceEventWireStart, layout.TraceEventMacReceiveStart, 1, 990_000},
	} {
		v, err := params.Lookup(params.Base, c.name)
		require.NoError(t, err)
		plain := span(t, nil, c.from, c.to, c.toNode)
		require.Equal(t, plain+c.later, span(t, map[string]int64{c.name: v + c.more}, c.from, c.to, c.toNode), c.name)
	}
}
