// SPDX-License-Identifier: Apache-2.0

package rig_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/tracetest"
	"hvia/bench/rig"
	"hvia/layout"
)

func TestMessageTimes(t *testing.T) {
	start, ends, next, err := rig.MessageTimes(tracetest.Message(1000, 1), rig.RDMAWriteStages, 0, 0, 3, 5, 1)
	require.NoError(t, err)
	require.Equal(t, int64(1000), start)
	require.Equal(t, len(rig.Deeds), next)
	require.Len(t, ends, len(rig.RDMAWriteStages))
	require.True(t, slices.IsSorted(ends))
	require.Equal(t, int64(1000+10*(len(rig.Deeds)-1)), ends[len(ends)-1])
	for k, s := range rig.RDMAWriteStages {
		i := slices.IndexFunc(rig.Deeds, func(d rig.Deed) bool { return d.Event == s.Event })
		require.Equal(t, rig.Deeds[i].Receiver, s.Receiver, "%s", s.Name)
		require.Equal(t, int64(1000+10*i), ends[k], "%s", s.Name)
	}
}

// Each message is found after the one before, in both directions.
func TestMessageTimesFollowsTheRounds(t *testing.T) {
	first := tracetest.Message(0, 1)
	// The reply goes from VI 5 of node 1 to VI 3 of node 0.
	answer := tracetest.Moved(first, 1000, func(e *rig.TraceEvent) {
		tracetest.OtherNode(e)
		if rig.HasVI(e.Event) {
			e.VI = 8 - e.VI
		}
	})
	second := tracetest.Message(2000, 1)
	events := tracetest.Merged(first, answer, second)
	start, _, next, err := rig.MessageTimes(events, rig.RDMAWriteStages, 0, 0, 3, 5, 1)
	require.NoError(t, err)
	require.Equal(t, int64(0), start)
	start, _, next, err = rig.MessageTimes(events, rig.RDMAWriteStages, next, 1, 5, 3, 1)
	require.NoError(t, err)
	require.Equal(t, int64(1000), start)
	start, _, next, err = rig.MessageTimes(events, rig.RDMAWriteStages, next, 0, 3, 5, 1)
	require.NoError(t, err)
	require.Equal(t, int64(2000), start)
	_, _, _, err = rig.MessageTimes(events, rig.RDMAWriteStages, next, 0, 3, 5, 1)
	require.ErrorIs(t, err, rig.ErrTrace)
	require.ErrorContains(t, err, "no doorbell of node 0, VI 3")
}

// A send ends with the status of its receive, not with its last byte. Doorbells
// of receives posted meanwhile do not belong to it.
func TestMessageTimesOfSends(t *testing.T) {
	const done = 400
	events := tracetest.Merged(tracetest.Message(0, 2), []rig.TraceEvent{
		{TimePs: -20, Node: 0, VI: 3, Event: layout.TraceEventHostDoorbell, Sequence: layout.DoorbellReceive},
		{TimePs: -5, Node: 1, VI: 5, Event: layout.TraceEventReceiveCompletionWritten}, // of the message before
		{TimePs: 55, Node: 0, VI: 3, Event: layout.TraceEventHostDoorbell, Sequence: layout.DoorbellReceive},
		{TimePs: 60, Node: 0, VI: 3, Event: layout.TraceEventReceiveDescriptorStored},
		{TimePs: 65, Node: 0, VI: 3, Event: layout.TraceEventReceiveCompletionWritten}, // at the sender
		{TimePs: 70, Node: 1, VI: 6, Event: layout.TraceEventReceiveCompletionWritten}, // of another VI
		{TimePs: done, Node: 1, VI: 5, Event: layout.TraceEventReceiveCompletionWritten},
	})
	start, ends, next, err := rig.MessageTimes(events, rig.SendReceiveStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Zero(t, start)
	require.Len(t, ends, len(rig.RDMAWriteStages)+1)
	require.True(t, slices.IsSorted(ends))
	require.Equal(t, int64(done), ends[len(ends)-1])
	require.Equal(t, len(events), next)

	_, want, _, err := rig.MessageTimes(events, rig.RDMAWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Equal(t, want, ends[:len(want)])

	_, _, _, err = rig.MessageTimes(events[:len(events)-1], rig.SendReceiveStages, 0, 0, 3, 5, 2)
	require.ErrorIs(t, err, rig.ErrTrace)
	require.ErrorContains(t, err, "system PCI write, status")
	for _, s := range rig.SendReceiveStages {
		_, _, _, err := rig.MessageTimes(tracetest.Without(events, s.Event), rig.SendReceiveStages, 0, 0, 3, 5, 2)
		require.ErrorIs(t, err, rig.ErrTrace, "%s", s.Name)
	}
}

func TestMessageTimesOfSeveralFrames(t *testing.T) {
	events := tracetest.Message(0, 3)
	_, ends, next, err := rig.MessageTimes(events, rig.RDMAWriteStages, 0, 0, 3, 5, 3)
	require.NoError(t, err)
	require.Equal(t, len(events), next)
	require.Equal(t, events[len(events)-1].TimePs, ends[len(ends)-1], "the last frame counts")
	_, _, _, err = rig.MessageTimes(events, rig.RDMAWriteStages, 0, 0, 3, 5, 4)
	require.ErrorIs(t, err, rig.ErrTrace)
	require.ErrorContains(t, err, "3 of 4 frames were written")
}

// Messages of other VIs in between, in both directions, change no time of an
// event that carries its VI.
func TestMessageTimesAmongOtherVIs(t *testing.T) {
	own := tracetest.Message(1000, 2)
	_, want, _, err := rig.MessageTimes(own, rig.RDMAWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	events := tracetest.Merged(tracetest.Moved(own, -7, tracetest.OtherVI), own, tracetest.Moved(own, 3, tracetest.OtherVI), tracetest.Moved(tracetest.Moved(own, 5, tracetest.OtherNode), 0, tracetest.OtherVI))
	start, ends, _, err := rig.MessageTimes(events, rig.RDMAWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Equal(t, int64(1000), start)
	for k, s := range rig.RDMAWriteStages {
		if rig.HasVI(s.Event) {
			require.Equal(t, want[k], ends[k], "%s", s.Name)
		}
	}
}

// The MAC and the wire do not say whose a frame is. A frame right behind the
// message's last, as an agent sends when a connection ends, is not taken for
// it.
func TestMessageTimesBeforeOtherFrames(t *testing.T) {
	own := tracetest.Message(0, 2)
	_, want, _, err := rig.MessageTimes(own, rig.RDMAWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	end := own[len(own)-1].TimePs
	var behind []rig.TraceEvent
	for _, s := range rig.RDMAWriteStages {
		if !rig.HasVI(s.Event) {
			node := 0
			if s.Receiver {
				node = 1
			}
			behind = append(behind, rig.TraceEvent{TimePs: end - 1, Node: node, Event: s.Event})
		}
	}
	require.NotEmpty(t, behind)
	_, got, _, err := rig.MessageTimes(tracetest.Merged(own, behind), rig.RDMAWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A trace without one of the stages is rejected, not read as a time of 0.
func TestMessageTimesMissesEveryStage(t *testing.T) {
	for _, s := range rig.RDMAWriteStages {
		_, _, _, err := rig.MessageTimes(tracetest.Without(tracetest.Message(0, 1), s.Event), rig.RDMAWriteStages, 0, 0, 3, 5, 1)
		require.ErrorIs(t, err, rig.ErrTrace, "%s", s.Name)
	}
	_, _, _, err := rig.MessageTimes(tracetest.Without(tracetest.Message(0, 1), layout.TraceEventHostDoorbell), rig.RDMAWriteStages, 0, 0, 3, 5, 1)
	require.ErrorIs(t, err, rig.ErrTrace)
	_, _, _, err = rig.MessageTimes(nil, rig.RDMAWriteStages, 0, 0, 3, 5, 1)
	require.ErrorIs(t, err, rig.ErrTrace)
}

func TestFramesOf(t *testing.T) {
	for n, want := range map[int]int{1: 1, layout.MaxPayload: 1, layout.MaxPayload + 1: 2, 65536: 45} {
		require.Equal(t, want, rig.FramesOf(n), "%d bytes", n)
	}
}
