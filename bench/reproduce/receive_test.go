// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/internal/tracetest"
	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/host"
	"hvia/layout"
)

// heldMessage is the trace of a message of two frames that waits on the wire
// until 1000 ps.
func heldMessage(by int64) []rig.TraceEvent {
	at := func(ps int64, node int, e layout.TraceEvent) rig.TraceEvent {
		return rig.TraceEvent{TimePs: by + ps, Node: node, Event: e}
	}
	return []rig.TraceEvent{
		at(100, 0, layout.TraceEventWireStart), at(200, 0, layout.TraceEventWireStart),
		at(1100, 1, layout.TraceEventWireEnd), at(1150, 1, layout.TraceEventMacReceiveStart), at(1200, 1, layout.TraceEventWireEnd),
		at(1250, 1, layout.TraceEventMacReceiveStart),
	}
}

func TestReceiveFold(t *testing.T) {
	c := DefaultConfig()
	c.Iterations = 2
	const n = layout.MaxPayload + 1
	x := &receiving{config: c, rounds: []receiveRound{
		{n, 6000, 1000, 1500}, {n, 6200, 5000 + 1000, 5000 + 1710},
	}, faults: map[int]string{n: "byte 1"}}
	posts, waits, err := x.fold(tracetest.Merged(heldMessage(0), heldMessage(5000)))
	require.NoError(t, err)
	require.Equal(t, []report.PostReceiveResult{{Size: n, MeanPs: 6100, MinPs: 6000, MaxPs: 6200}}, posts)
	require.Equal(t, []report.ReceiveWaitResult{{Size: n, MeanPs: (350 + 560) / 2, Fault: "byte 1"}}, waits)
}

// The time is invalid if the receiving side had to wait for the sender, or had
// the message before.
func TestReceiveFoldRefuses(t *testing.T) {
	round := receiveRound{layout.MaxPayload + 1, 6000, 1000, 1500}
	first := func(events []rig.TraceEvent) error {
		next := 0
		_, err := firstWrite(events, &next, 2, round)
		return err
	}
	require.NoError(t, first(heldMessage(0)))
	for _, tt := range []struct {
		name   string
		change func([]rig.TraceEvent) []rig.TraceEvent
		want   string
	}{
		{"a frame is still in the sender", func(e []rig.TraceEvent) []rig.TraceEvent { e[1].TimePs = 1050; return tracetest.Merged(e) }, "1 of 2 frames were on the wire"},
		{"a third frame is sent later", func(e []rig.TraceEvent) []rig.TraceEvent {
			return tracetest.Merged(e, []rig.TraceEvent{{TimePs: 1020, Node: 0, Event: layout.TraceEventWireStart}})
		}, "the sender still sends at 1020 ps"},
		{"the wire was not held", func(e []rig.TraceEvent) []rig.TraceEvent { e[3].TimePs = 900; return tracetest.Merged(e) }, "a frame came at 900 ps"},
		{"no frame came", func(e []rig.TraceEvent) []rig.TraceEvent { return e[:3] }, "no frame between"},
		{"it came after RecvWait", func(e []rig.TraceEvent) []rig.TraceEvent {
			e[3].TimePs, e[5].TimePs = 1501, 1600
			return tracetest.Merged(e)
		}, "no frame between"},
		{"nothing", func([]rig.TraceEvent) []rig.TraceEvent { return nil }, "0 of 2 frames"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := first(tt.change(heldMessage(0)))
			require.ErrorIs(t, err, rig.ErrTrace)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// The cost of RecvWait is in Figure 12, and those of a post and a reading of
// the clock in Figure 11.
func TestReceiveSideIsCharged(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := DefaultConfig()
	c.Sizes, c.Iterations, c.Warmup, c.Background = []int{4}, 1, 1, false
	posts, waits, _, err := receiveSide(t.Context(), c)
	require.NoError(t, err)
	c.Params = map[string]int64{"HostReceiveWaitTime": 1_000_000, "HostPostTime": 2_000_000, "HostTimeOfDayTime": 300_000}
	otherPosts, otherWaits, _, err := receiveSide(t.Context(), c)
	require.NoError(t, err)
	b, err := costs.New(c.Profile, nil)
	require.NoError(t, err)
	require.EqualValues(t, 2_300_000, otherPosts[0].MeanPs)
	require.EqualValues(t, b.Costs().Post+b.Costs().TimeOfDay, posts[0].MeanPs)
	// The polls may fall elsewhere.
	require.InDelta(t, int64(b.Costs().ReceiveDone-host.Microsecond), waits[0].MeanPs-otherWaits[0].MeanPs, 250_000)
}
