// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/params"
)

// traced is the trace of a message of node 0, VI 3, to VI 5 of node 1: one
// event each 10 ps from a time on.
func traced(from int64, frames int) []TraceEvent {
	var events []TraceEvent
	now := from
	for f := range frames {
		for _, d := range deeds {
			if !d.frame && f > 0 {
				continue
			}
			e := TraceEvent{TimePs: now, Node: 0, VI: 3, Event: d.event}
			if d.receiver {
				e.Node, e.VI = 1, 5
			}
			if !hasVI(d.event) {
				e.VI = 0
			}
			events = append(events, e)
			now += 10
		}
	}
	return events
}

// moved is the same trace with other VIs or with the nodes exchanged.
func moved(events []TraceEvent, by int64, change func(*TraceEvent)) []TraceEvent {
	events = slices.Clone(events)
	for i := range events {
		events[i].TimePs += by
		change(&events[i])
	}
	return events
}

func otherVI(e *TraceEvent) {
	if hasVI(e.Event) {
		e.VI += 100
	}
}

func otherNode(e *TraceEvent) { e.Node = 1 - e.Node }

func merged(lists ...[]TraceEvent) []TraceEvent {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b TraceEvent) int { return int(a.TimePs - b.TimePs) })
	return all
}

func without(events []TraceEvent, kind layout.TraceEvent) []TraceEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e TraceEvent) bool { return e.Event == kind })
}

func TestMessageTimes(t *testing.T) {
	start, ends, next, err := messageTimes(traced(1000, 1), rdmaWriteStages, 0, 0, 3, 5, 1)
	require.NoError(t, err)
	require.Equal(t, int64(1000), start)
	require.Equal(t, len(deeds), next)
	require.Len(t, ends, len(rdmaWriteStages))
	require.True(t, slices.IsSorted(ends))
	require.Equal(t, int64(1000+10*(len(deeds)-1)), ends[len(ends)-1])
	for k, s := range rdmaWriteStages {
		i := slices.IndexFunc(deeds, func(d deed) bool { return d.event == s.event })
		require.Equal(t, deeds[i].receiver, s.receiver, "%s", s.name)
		require.Equal(t, int64(1000+10*i), ends[k], "%s", s.name)
	}
}

// Each message is found after the one before, in both directions.
func TestMessageTimesFollowsTheRounds(t *testing.T) {
	first := traced(0, 1)
	// The answer goes from VI 5 of node 1 to VI 3 of node 0.
	answer := moved(first, 1000, func(e *TraceEvent) {
		otherNode(e)
		if hasVI(e.Event) {
			e.VI = 8 - e.VI
		}
	})
	second := traced(2000, 1)
	events := merged(first, answer, second)
	start, _, next, err := messageTimes(events, rdmaWriteStages, 0, 0, 3, 5, 1)
	require.NoError(t, err)
	require.Equal(t, int64(0), start)
	start, _, next, err = messageTimes(events, rdmaWriteStages, next, 1, 5, 3, 1)
	require.NoError(t, err)
	require.Equal(t, int64(1000), start)
	start, _, next, err = messageTimes(events, rdmaWriteStages, next, 0, 3, 5, 1)
	require.NoError(t, err)
	require.Equal(t, int64(2000), start)
	_, _, _, err = messageTimes(events, rdmaWriteStages, next, 0, 3, 5, 1)
	require.ErrorIs(t, err, ErrTrace)
	require.ErrorContains(t, err, "no doorbell of node 0, VI 3")
}

// A send ends with the status of its receive, not with its last byte; the
// doorbells of receives that are posted meanwhile are none of its own.
func TestMessageTimesOfSends(t *testing.T) {
	const done = 400
	events := merged(traced(0, 2), []TraceEvent{
		{TimePs: -20, Node: 0, VI: 3, Event: layout.TraceEventHostDoorbell, Sequence: layout.DoorbellReceive},
		{TimePs: -5, Node: 1, VI: 5, Event: layout.TraceEventReceiveCompletionWritten}, // of the message before
		{TimePs: 55, Node: 0, VI: 3, Event: layout.TraceEventHostDoorbell, Sequence: layout.DoorbellReceive},
		{TimePs: 60, Node: 0, VI: 3, Event: layout.TraceEventReceiveDescriptorStored},
		{TimePs: 65, Node: 0, VI: 3, Event: layout.TraceEventReceiveCompletionWritten}, // at the sender
		{TimePs: 70, Node: 1, VI: 6, Event: layout.TraceEventReceiveCompletionWritten}, // of another VI
		{TimePs: done, Node: 1, VI: 5, Event: layout.TraceEventReceiveCompletionWritten},
	})
	start, ends, next, err := messageTimes(events, sendReceiveStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Zero(t, start)
	require.Len(t, ends, len(rdmaWriteStages)+1)
	require.True(t, slices.IsSorted(ends))
	require.Equal(t, int64(done), ends[len(ends)-1])
	require.Equal(t, len(events), next)

	_, want, _, err := messageTimes(events, rdmaWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Equal(t, want, ends[:len(want)])

	_, _, _, err = messageTimes(events[:len(events)-1], sendReceiveStages, 0, 0, 3, 5, 2)
	require.ErrorIs(t, err, ErrTrace)
	require.ErrorContains(t, err, "system PCI write, status")
	for _, s := range sendReceiveStages {
		_, _, _, err := messageTimes(without(events, s.event), sendReceiveStages, 0, 0, 3, 5, 2)
		require.ErrorIs(t, err, ErrTrace, "%s", s.name)
	}
}

func TestMessageTimesOfSeveralFrames(t *testing.T) {
	events := traced(0, 3)
	_, ends, next, err := messageTimes(events, rdmaWriteStages, 0, 0, 3, 5, 3)
	require.NoError(t, err)
	require.Equal(t, len(events), next)
	require.Equal(t, events[len(events)-1].TimePs, ends[len(ends)-1], "the last frame counts")
	_, _, _, err = messageTimes(events, rdmaWriteStages, 0, 0, 3, 5, 4)
	require.ErrorIs(t, err, ErrTrace)
	require.ErrorContains(t, err, "3 of 4 frames were written")
}

// Other VIs' messages between, in both directions, change no time of an event
// that tells its VI.
func TestMessageTimesAmongOtherVIs(t *testing.T) {
	own := traced(1000, 2)
	_, want, _, err := messageTimes(own, rdmaWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	events := merged(moved(own, -7, otherVI), own, moved(own, 3, otherVI), moved(moved(own, 5, otherNode), 0, otherVI))
	start, ends, _, err := messageTimes(events, rdmaWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Equal(t, int64(1000), start)
	for k, s := range rdmaWriteStages {
		if hasVI(s.event) {
			require.Equal(t, want[k], ends[k], "%s", s.name)
		}
	}
}

// The MAC and the wire do not say whose a frame is. One right behind the
// message's last, as an agent sends when a connection ends, is not taken for it.
func TestMessageTimesBeforeOtherFrames(t *testing.T) {
	own := traced(0, 2)
	_, want, _, err := messageTimes(own, rdmaWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	end := own[len(own)-1].TimePs
	var behind []TraceEvent
	for _, s := range rdmaWriteStages {
		if !hasVI(s.event) {
			node := 0
			if s.receiver {
				node = 1
			}
			behind = append(behind, TraceEvent{TimePs: end - 1, Node: node, Event: s.event})
		}
	}
	require.NotEmpty(t, behind)
	_, got, _, err := messageTimes(merged(own, behind), rdmaWriteStages, 0, 0, 3, 5, 2)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A trace from which any stage is missing is refused, not read as a time of 0.
func TestMessageTimesMissesEveryStage(t *testing.T) {
	for _, s := range rdmaWriteStages {
		_, _, _, err := messageTimes(without(traced(0, 1), s.event), rdmaWriteStages, 0, 0, 3, 5, 1)
		require.ErrorIs(t, err, ErrTrace, "%s", s.name)
	}
	_, _, _, err := messageTimes(without(traced(0, 1), layout.TraceEventHostDoorbell), rdmaWriteStages, 0, 0, 3, 5, 1)
	require.ErrorIs(t, err, ErrTrace)
	_, _, _, err = messageTimes(nil, rdmaWriteStages, 0, 0, 3, 5, 1)
	require.ErrorIs(t, err, ErrTrace)
}

func TestCardSteps(t *testing.T) {
	steps, err := cardSteps(traced(500, 1), 3, 5, 1)
	require.NoError(t, err)
	require.Len(t, steps, len(deeds))
	for i, s := range steps {
		require.Equal(t, deeds[i].where, s.Where)
		require.Equal(t, deeds[i].what, s.What)
		require.Equal(t, int64(500+10*i), s.TimePs)
		require.Zero(t, s.Frame, "a message of one frame needs no number")
	}
	own := traced(500, 3)
	steps, err = cardSteps(own, 3, 5, 3)
	require.NoError(t, err)
	require.Len(t, steps, len(own))
	require.Equal(t, 3, steps[len(steps)-1].Frame)

	// Before and after, and in the other direction, there may be more.
	more := merged(moved(without(own, layout.TraceEventHostDoorbell), -5000, func(*TraceEvent) {}), own, moved(own, 9000, func(*TraceEvent) {}), moved(moved(own, 3, otherNode), 0, otherVI))
	again, err := cardSteps(more, 3, 5, 3)
	require.NoError(t, err)
	require.Equal(t, steps, again)
}

func TestCardStepsMissesEveryDeed(t *testing.T) {
	for _, d := range deeds {
		steps, err := cardSteps(without(traced(0, 2), d.event), 3, 5, 2)
		require.ErrorIs(t, err, ErrTrace, "%s %s", d.where, d.what)
		if d.event != layout.TraceEventHostDoorbell {
			require.ErrorContains(t, err, d.where+" "+d.what+": 0 times")
			require.NotEmpty(t, steps)
		}
	}
	// A raw frame in the middle would be taken for the message's on the wire.
	raw := []TraceEvent{{TimePs: 55, Node: 0, Event: layout.TraceEventRawTransmitted}}
	_, err := cardSteps(merged(traced(0, 1), raw), 3, 5, 1)
	require.ErrorIs(t, err, ErrTrace)
	raw[0].Node = 1
	_, err = cardSteps(merged(traced(0, 1), raw), 3, 5, 1)
	require.NoError(t, err)
}

func TestFramesOf(t *testing.T) {
	for n, want := range map[int]int{1: 1, layout.MaxPayload: 1, layout.MaxPayload + 1: 2, 65536: 45} {
		require.Equal(t, want, framesOf(n), "%d bytes", n)
	}
}

// encodeTrace is what the simulator writes.
func encodeTrace(events []TraceEvent) []byte {
	var b []byte
	for _, e := range events {
		r := make(layout.TraceRecord, layout.TraceRecordSize)
		r.SetTime(uint64(e.TimePs))
		r.SetNode(uint8(e.Node))
		r.SetVI(uint8(e.VI))
		r.SetEvent(uint8(e.Event))
		r.SetSequence(e.Sequence)
		b = append(b, r...)
	}
	return b
}

func TestReadTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	_, err := ReadTrace(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	events := []TraceEvent{
		{TimePs: 20, Node: 1, VI: 255, Event: layout.TraceEventWireEnd, Sequence: 0xffffffff},
		{TimePs: -5, Event: layout.TraceEventCommandStart},
		{TimePs: 20, Node: 0, Event: layout.TraceEventMacReceiveEnd},
	}
	require.NoError(t, os.WriteFile(path, encodeTrace(events), 0o600))
	got, err := ReadTrace(path)
	require.NoError(t, err)
	require.Equal(t, []TraceEvent{events[1], events[0], events[2]}, got, "by time, and at one time as written")

	// A simulator that was killed leaves half a record.
	whole := encodeTrace(events)
	for cut := 1; cut < layout.TraceRecordSize; cut++ {
		got, err := decodeTrace(bytes.NewReader(whole[:len(whole)-cut]))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, "record 2")
		require.Equal(t, events[:2], got)
	}
}

func FuzzDecodeTrace(f *testing.F) {
	f.Add(encodeTrace(traced(0, 2)))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := decodeTrace(bytes.NewReader(b))
		if (err == nil) != (len(b)%layout.TraceRecordSize == 0) || len(events) != len(b)/layout.TraceRecordSize {
			t.Fatalf("%d bytes: %d events, %v", len(b), len(events), err)
		}
		// Whatever a trace says, looking for messages in it must end.
		_, _, _, _ = messageTimes(events, rdmaWriteStages, 0, 0, 3, 5, 2)
		_, _, _, _ = messageTimes(events, sendReceiveStages, 0, 0, 3, 5, 2)
		_, _ = burstsOf(events, params.Base)
		_, _ = cardSteps(events, 3, 5, 2)
	})
}
