// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/tracetest"
	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/layout"
	"hvia/params"
)

// aMessage is the trace of a message of two frames, at made-up times: node 0 is
// VI 3, node 1 VI 5. It begins at 1,000,000 ps and ends at 3,000,000.
func aMessage() []rig.TraceEvent {
	var list []rig.TraceEvent
	add := func(ps int64, node, vi int, e layout.TraceEvent, sequence uint32) {
		list = append(list, rig.TraceEvent{TimePs: ps, Node: node, VI: vi, Event: e, Sequence: sequence})
	}
	on := func(b bus, node int, use uint32, start, end int64) {
		add(start, node, 0, b.start, use)
		add(end, node, 0, b.end, use)
	}
	add(1_000_000, 0, 3, layout.TraceEventHostDoorbell, layout.DoorbellSend)
	on(systemBus, 0, 0, 1_000_000, 1_060_000) // the doorbell: of the host
	on(systemBus, 0, 1, 1_100_000, 1_200_000) // the descriptor
	add(1_210_000, 0, 3, layout.TraceEventDescriptorFetched, 0)
	on(systemBus, 0, 1, 1_300_000, 1_400_000)
	on(systemBus, 0, 1, 1_400_000, 1_500_000) // two bursts, and the engine's event before the bus is idle
	add(1_490_000, 0, 3, layout.TraceEventPayloadRead, 0)
	on(systemBus, 0, 1, 1_520_000, 1_700_000)
	add(1_720_000, 0, 3, layout.TraceEventPayloadRead, 0)
	on(systemBus, 0, 1, 1_750_000, 1_990_000) // the status
	for k := range int64(2) {
		at := k * 400_000
		on(macBus, 0, uint32(layout.MacBusUseDescriptorRead), 1_500_000+at, 1_550_000+at)
		on(macBus, 0, frameRead, 1_560_000+at, 1_900_000+at)
		add(1_570_000+at, 0, 0, layout.TraceEventMacTransmitStart, 0)
		add(1_890_000+at, 0, 0, layout.TraceEventMacTransmitEnd, 0)
		add(1_900_000+at, 0, 0, layout.TraceEventWireStart, 0)
		add(2_661_000-200_000+at, 1, 0, layout.TraceEventWireEnd, 0) // 561,000 without the delays are 0
		on(macBus, 1, frameWrite, 2_100_000+at, 2_480_000+at)
		add(2_110_000+at, 1, 0, layout.TraceEventMacReceiveStart, 0)
		add(2_470_000+at, 1, 0, layout.TraceEventMacReceiveEnd, 0)
		on(systemBus, 1, 1, 2_500_000+at, 2_610_000+at)
		add(2_600_000+at, 1, 5, layout.TraceEventReceiveWritten, 0)
	}
	slices.SortStableFunc(list, func(a, b rig.TraceEvent) int { return int(a.TimePs - b.TimePs) })
	return list
}

func pipelineOfTwo(t *testing.T, events []rig.TraceEvent) (*report.Pipeline, error) {
	t.Helper()
	p, err := newPingPong(DefaultConfig(), rig.RDMAWrite, []int{4})
	require.NoError(t, err)
	p.pingVI, p.pongVI = 3, 5
	return p.pipelineOf(events, layout.MaxPayload+1, 1_000_000, 3_000_000)
}

func TestPipeline(t *testing.T) {
	p, err := pipelineOfTwo(t, aMessage())
	require.NoError(t, err)
	require.EqualValues(t, 2_000_000, p.EndPs)
	const delays = params.PhyTransmitDelay + params.PhyReceiveDelay + params.CableDelay
	require.Equal(t, []report.Hop{
		// Descriptor 100 ns, payload 100, 100 and 180 ns, status 240 ns.
		{Name: "system PCI read, sender", BusyPpm: 720_000 / 2, Spans: []report.Span{{Frame: 1, StartPs: 300_000, EndPs: 500_000}, {Frame: 2, StartPs: 520_000, EndPs: 700_000}}},
		{Name: "MAC PCI read, sender", BusyPpm: 2 * 390_000 / 2, Spans: []report.Span{{Frame: 1, StartPs: 570_000, EndPs: 890_000}, {Frame: 2, StartPs: 970_000, EndPs: 1_290_000}}},
		{Name: "wire", BusyPpm: 2 * (561_000 - delays) / 2, Spans: []report.Span{{Frame: 1, StartPs: 900_000, EndPs: 1_461_000}, {Frame: 2, StartPs: 1_300_000, EndPs: 1_861_000}}},
		{Name: "MAC PCI write, receiver", BusyPpm: 2 * 380_000 / 2, Spans: []report.Span{{Frame: 1, StartPs: 1_110_000, EndPs: 1_470_000}, {Frame: 2, StartPs: 1_510_000, EndPs: 1_870_000}}},
		// The last burst counts until the end only.
		{Name: "system PCI write, receiver", BusyPpm: (110_000 + 100_000) / 2, Spans: []report.Span{{Frame: 1, StartPs: 1_500_000, EndPs: 1_610_000}, {Frame: 2, StartPs: 1_900_000, EndPs: 2_010_000}}},
	}, p.Hops)

	// Events before and after the message do not count.
	more := tracetest.Merged(tracetest.Moved(aMessage(), -5_000_000, func(*rig.TraceEvent) {}), aMessage(), tracetest.Moved(aMessage(), 5_000_000, func(*rig.TraceEvent) {}))
	again, err := pipelineOfTwo(t, more)
	require.NoError(t, err)
	require.Equal(t, p, again)
}

// A trace that lacks any of the events of a frame is rejected.
func TestPipelineMissesEveryEvent(t *testing.T) {
	for _, e := range []layout.TraceEvent{
		layout.TraceEventDescriptorFetched, layout.TraceEventPayloadRead, layout.TraceEventMacTransmitStart, layout.TraceEventMacTransmitEnd, layout.TraceEventWireStart,
		layout.TraceEventWireEnd, layout.TraceEventMacReceiveStart, layout.TraceEventMacReceiveEnd, layout.TraceEventReceiveWritten, layout.TraceEventHostBusStart,
	} {
		_, err := pipelineOfTwo(t, tracetest.Without(aMessage(), e))
		require.ErrorIs(t, err, rig.ErrTrace, "%s", e)
	}
	_, err := pipelineOfTwo(t, nil)
	require.ErrorIs(t, err, rig.ErrTrace)
}
