// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
)

// A window is divided among claims, the earlier ones first, and the rest is
// returned.
func TestAttribute(t *testing.T) {
	shares, rest := attribute(interval{100, 200}, []claim{
		{"a", interval{50, 110}},  // 10 inside
		{"b", interval{105, 130}}, // 20 that are free
		{"c", interval{120, 125}}, // none
		{"a", interval{150, 160}},
		{"d", interval{140, 170}}, // 20 around it
		{"e", interval{195, 300}},
		{"f", interval{300, 400}},
		{"g", interval{180, 180}},
	})
	require.Equal(t, map[string]int64{"a": 20, "b": 20, "d": 20, "e": 5}, shares)
	require.EqualValues(t, 35, rest)
	shares, rest = attribute(interval{0, 10}, nil)
	require.Empty(t, shares)
	require.EqualValues(t, 10, rest)
}

func TestWithin(t *testing.T) {
	list := []interval{{50, 60}, {10, 30}, {20, 40}, {25, 28}, {90, 120}, {70, 70}}
	require.EqualValues(t, 30+10+10, within(list, interval{0, 100}))
	require.EqualValues(t, 10, within(list, interval{30, 45}))
	require.Zero(t, within(list, interval{60, 90}))
}

func TestLedger(t *testing.T) {
	var l ledger
	one, other := host.ThreadID{Node: 1, Rank: 1}, host.ThreadID{Node: 0, Rank: 2}
	for _, s := range []host.Spending{
		{Thread: one, Layer: host.LayerTrap, End: 10, Span: 5}, {Thread: one, Layer: host.LayerPoll, End: 20, Span: 10},
		{Thread: one, Layer: host.LayerCopy, End: 20, Span: 1}, {Thread: other, Layer: host.LayerSwitch, End: 15, Span: 2},
		{Thread: one, Layer: host.LayerLibrary, End: 30, Span: 5},
	} {
		l.enter(s)
	}
	require.Equal(t, []host.ThreadID{other, one}, l.threads())
	layers := func(from, to int64) (list []host.Layer) {
		for _, s := range l.of(one, from, to) {
			list = append(list, s.Layer)
		}
		return list
	}
	require.Equal(t, []host.Layer{host.LayerTrap, host.LayerCopy, host.LayerLibrary}, layers(0, 30), "polling is no work")
	require.Equal(t, []host.Layer{host.LayerCopy}, layers(10, 29), "what ends at the begin was before it")
	require.Empty(t, layers(30, 100))
	require.Empty(t, l.of(host.ThreadID{Node: 7}, 0, 100))
}

// Buses and wire in a trace: a bus that continues without a pause, frames of
// both directions at once.
func TestTraffic(t *testing.T) {
	b, err := costs.New(params.Base, nil)
	require.NoError(t, err)
	const latency = params.PhyTransmitDelay + params.PhyReceiveDelay + params.CableDelay
	const gap = 8 * params.WireBitTime * params.WireGapBytes
	event := func(ps int64, node int, e layout.TraceEvent) rig.TraceEvent {
		return rig.TraceEvent{TimePs: ps, Node: node, Event: e}
	}
	seen := trafficOf([]rig.TraceEvent{
		event(100, 0, layout.TraceEventHostBusStart), event(200, 0, layout.TraceEventHostBusStart), event(250, 0, layout.TraceEventHostBusEnd),
		event(300, 1, layout.TraceEventHostBusStart), event(310, 1, layout.TraceEventHostBusEnd), event(320, 1, layout.TraceEventHostBusEnd),
		event(1000, 0, layout.TraceEventWireStart), event(1500, 1, layout.TraceEventWireStart), event(2000, 0, layout.TraceEventWireStart),
		event(1000+latency+800, 1, layout.TraceEventWireEnd), event(1500+latency+900, 0, layout.TraceEventWireEnd), event(2000+latency+700, 1, layout.TraceEventWireEnd),
		event(9000+latency, 0, layout.TraceEventWireStart), // still in flight
	}, b)
	require.Equal(t, [2][]interval{{{100, 200}, {200, 250}}, {{300, 310}}}, seen.bus)
	require.Equal(t, []wired{
		{0, 1000, 1000 + latency + 800, interval{1000, 1800 + gap}}, {1, 1500, 1500 + latency + 900, interval{1500, 2400 + gap}},
		{0, 2000, 2000 + latency + 700, interval{2000, 2700 + gap}}, {0, 9000 + latency, rig.NotSeen, interval{}},
	}, seen.frames)
}

// A ping-pong whose ledger or trace lacks a part of a message's path has no
// path.
func TestPathNeedsItsParts(t *testing.T) {
	const us = 1_000_000
	b, err := costs.New(params.Base, nil)
	require.NoError(t, err)
	// One message each way, by hand: trap and packet, firmware, wire, firmware,
	// service, wake, switch.
	build := func() (*pingPong, traffic) {
		p := &pingPong{config: Config{Iterations: 1}, exchange: rig.TCPStream, sizes: []int{4}, board: b, elapsed: []host.Time{2 * 200 * us}}
		var seen traffic
		for node := range 2 {
			from := int64(node) * 200 * us
			program, agent := host.ThreadID{Node: node, Rank: rig.RankPing}, host.ThreadID{Node: 1 - node, Rank: driver.AgentRank}
			spend := func(id host.ThreadID, l host.Layer, end, span int64) {
				p.ledger.enter(host.Spending{Thread: id, Layer: l, Asked: host.Time(from + end - span), End: host.Time(from + end), Span: host.Time(span)})
			}
			spend(program, host.LayerTrap, 1*us, 1*us)
			spend(program, host.LayerProtocol, 4*us, 3*us)
			tx := 4*us + int64(params.NICTransmitTime)
			seen.frames = append(seen.frames,
				wired{node: node, start: from + 10*us, end: from + 11*us}, // an earlier frame: the firmware has not had time for this one
				wired{node: node, start: from + tx + us, end: from + tx + 2*us})
			there := tx + 2*us + int64(params.NICReceiveTime)
			spend(agent, host.LayerInterrupt, there+2*us, 2*us)
			spend(agent, host.LayerProtocol, there+5*us, 3*us)
			woken := there + 5*us + int64(params.TcpWakeTime)
			spend(host.ThreadID{Node: 1 - node, Rank: rig.RankPing}, host.LayerSwitch, woken+us, us)
			spend(host.ThreadID{Node: 1 - node, Rank: rig.RankPing}, host.LayerCopy, 200*us, 2*us)
		}
		p.calls = []host.Time{0}
		p.arrivals = [2][]host.Time{{400 * us}, {200 * us}}
		return p, seen
	}
	p, seen := build()
	path, err := p.kernelPath(0, seen)
	require.NoError(t, err)
	rest := 200*us - (1+6+2+1+2+1)*us - int64(params.NICTransmitTime+params.NICReceiveTime+params.TcpWakeTime)
	require.Equal(t, []report.TimeShare{
		{Name: "trap", Ps: 1 * us}, {Name: "copy", Ps: 2 * us}, {Name: "protocol", Ps: 6 * us}, {Name: "NIC", Ps: params.NICTransmitTime + params.NICReceiveTime}, {Name: "wire", Ps: us},
		{Name: "interrupt", Ps: 2 * us}, {Name: "wake", Ps: params.TcpWakeTime}, {Name: "switch", Ps: us}, {Name: report.StepRest, Ps: rest},
	}, path.Rows)
	require.EqualValues(t, 200*us, path.HalfRTTPs)

	p, seen = build()
	seen.frames = seen.frames[:3]
	_, err = p.kernelPath(0, seen)
	require.ErrorIs(t, err, rig.ErrTrace)
	require.ErrorContains(t, err, "TCP/IP, 4 bytes, message from node 1")
	p, seen = build()
	delete(p.ledger.entries, host.ThreadID{Node: 0, Rank: rig.RankPing})
	_, err = p.kernelPath(0, seen)
	require.ErrorContains(t, err, "spends nothing on a packet")
}
