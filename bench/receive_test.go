// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/host"
	"hvia/layout"
)

// heldMessage is the trace of a message of two frames that waits on the wire until 1000 ps.
func heldMessage(by int64) []TraceEvent {
	at := func(ps int64, node int, e layout.TraceEvent) TraceEvent {
		return TraceEvent{TimePs: by + ps, Node: node, Event: e}
	}
	return []TraceEvent{
		at(100, 0, layout.TraceEventWireStart), at(200, 0, layout.TraceEventWireStart),
		at(1100, 1, layout.TraceEventWireEnd), at(1150, 1, layout.TraceEventMacReceiveStart), at(1200, 1, layout.TraceEventWireEnd),
		at(1250, 1, layout.TraceEventMacReceiveStart),
	}
}

func TestReceiveFold(t *testing.T) {
	c := DefaultReproduceConfig()
	c.Iterations = 2
	const n = layout.MaxPayload + 1
	x := &receiving{config: c, rounds: []receiveRound{
		{n, 6000, 1000, 1500}, {n, 6200, 5000 + 1000, 5000 + 1710},
	}, faults: map[int]string{n: "byte 1"}}
	posts, waits, err := x.fold(merged(heldMessage(0), heldMessage(5000)))
	require.NoError(t, err)
	require.Equal(t, []report.PostReceiveResult{{Size: n, MeanPs: 6100, MinPs: 6000, MaxPs: 6200}}, posts)
	require.Equal(t, []report.ReceiveWaitResult{{Size: n, MeanPs: (350 + 560) / 2, Fault: "byte 1"}}, waits)
}

// The time is worth nothing if the receiving side had to wait for the sender, or had the message before.
func TestReceiveFoldRefuses(t *testing.T) {
	round := receiveRound{layout.MaxPayload + 1, 6000, 1000, 1500}
	first := func(events []TraceEvent) error {
		next := 0
		_, err := firstWrite(events, &next, 2, round)
		return err
	}
	require.NoError(t, first(heldMessage(0)))
	for _, tt := range []struct {
		name   string
		change func([]TraceEvent) []TraceEvent
		want   string
	}{
		{"a frame is still in the sender", func(e []TraceEvent) []TraceEvent { e[1].TimePs = 1050; return merged(e) }, "1 of 2 frames were on the wire"},
		{"a third frame is sent later", func(e []TraceEvent) []TraceEvent {
			return merged(e, []TraceEvent{{TimePs: 1020, Node: 0, Event: layout.TraceEventWireStart}})
		}, "the sender still sends at 1020 ps"},
		{"the wire was not held", func(e []TraceEvent) []TraceEvent { e[3].TimePs = 900; return merged(e) }, "a frame came at 900 ps"},
		{"no frame came", func(e []TraceEvent) []TraceEvent { return e[:3] }, "no frame between"},
		{"it came after RecvWait", func(e []TraceEvent) []TraceEvent { e[3].TimePs, e[5].TimePs = 1501, 1600; return merged(e) }, "no frame between"},
		{"nothing", func([]TraceEvent) []TraceEvent { return nil }, "0 of 2 frames"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := first(tt.change(heldMessage(0)))
			require.ErrorIs(t, err, ErrTrace)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// What RecvWait's work costs is in Figure 12, and what a post and a reading of the
// clock cost in Figure 11: neither is made up elsewhere.
func TestReceiveSideIsCharged(t *testing.T) {
	takesSeconds(t)
	c := DefaultReproduceConfig()
	c.Sizes, c.Iterations, c.Warmup, c.Background = []int{4}, 1, 1, false
	posts, waits, _, err := receiveSide(t.Context(), c)
	require.NoError(t, err)
	c.Params = map[string]int64{"HostReceiveWaitTime": 1_000_000, "HostPostTime": 2_000_000, "HostTimeOfDayTime": 300_000}
	otherPosts, otherWaits, _, err := receiveSide(t.Context(), c)
	require.NoError(t, err)
	b, err := newBoard(c.Profile, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2_300_000, otherPosts[0].MeanPs)
	require.EqualValues(t, b.costs().Post()+b.costs().TimeOfDay(), posts[0].MeanPs)
	// The looks may lie elsewhere.
	require.InDelta(t, int64(b.costs().ReceiveDone()-host.Microsecond), waits[0].MeanPs-otherWaits[0].MeanPs, 250_000)
}
