// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"fmt"
	"slices"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/layout"
)

// pipelineSize is the length of the message in the pipeline.
const pipelineSize = 65536

// carried is a transaction on a bus, or a frame in a hop.
type carried struct{ start, end int64 }

// transactions are those of a bus of a node that began within a span of time
// and whose sequence `of` accepts. The last may end after the span.
func transactions(events []rig.TraceEvent, node int, b bus, from, to int64, of func(sequence uint32) bool) []carried {
	var list []carried
	open := false
	for _, e := range events {
		if e.Node != node || (e.Event != b.start && e.Event != b.end) {
			continue
		}
		if open {
			// The end, or the next start if there was no idle clock.
			list[len(list)-1].end = e.TimePs
			open = false
		}
		if e.TimePs > to {
			return list
		}
		if e.Event == b.start && e.TimePs >= from && of(e.Sequence) {
			list = append(list, carried{e.TimePs, to})
			open = true
		}
	}
	return list
}

// times returns the times of a node's events of one kind in [from, to]. If that
// kind carries a VI, only events of vi count.
func times(events []rig.TraceEvent, node, vi int, kind layout.TraceEvent, from, to int64) []int64 {
	var list []int64
	for _, e := range events {
		if e.Node == node && e.Event == kind && e.TimePs >= from && e.TimePs <= to && (!rig.HasVI(kind) || e.VI == vi) {
			list = append(list, e.TimePs)
		}
	}
	return list
}

// between pairs the starts of frames with their ends.
func between(what string, starts, ends []int64, frames int) ([]carried, error) {
	if len(starts) != frames || len(ends) != frames {
		return nil, fmt.Errorf("%w: %s: %d starts and %d ends of %d frames", rig.ErrTrace, what, len(starts), len(ends), frames)
	}
	list := make([]carried, frames)
	for k := range list {
		list[k] = carried{starts[k], ends[k]}
	}
	return list, nil
}

// framesIn returns the span of each frame's bursts: those that end after the
// previous frame's last byte was recorded and before its own was. The record is
// some clocks before or after the bus is idle, far fewer than a burst takes.
func framesIn(what string, bursts []carried, known []int64, frames int, slack int64) ([]carried, error) {
	if len(known) != frames {
		return nil, fmt.Errorf("%w: %s: %d of %d frames", rig.ErrTrace, what, len(known), frames)
	}
	list := make([]carried, frames)
	for _, t := range bursts {
		k, _ := slices.BinarySearch(known, t.end-slack)
		if k == frames {
			continue // the status behind the last frame
		}
		if list[k] == (carried{}) {
			list[k].start = t.start
		}
		list[k].end = t.end
	}
	if k := slices.Index(list, carried{}); k >= 0 {
		return nil, fmt.Errorf("%w: %s: no burst of frame %d of %d", rig.ErrTrace, what, k+1, frames)
	}
	return list, nil
}

// pipelineOf follows the frames of a message of n bytes from node 0 through the
// five hops, from the doorbell's store at start until its last byte is in
// memory at end.
func (p *pingPong) pipelineOf(events []rig.TraceEvent, n int, start, end int64) (*report.Pipeline, error) {
	frames := rig.FramesOf(n)
	all := func(uint32) bool { return true }
	// A clock or two lie between a bus's last data and its idle state, and a
	// few more until an engine's event.
	slack := pauseClocks * p.board.Value("SystemClockPeriod")
	fetched := times(events, 0, p.pingVI, layout.TraceEventDescriptorFetched, start, end)
	if len(fetched) != 1 {
		return nil, fmt.Errorf("%w: %d descriptors were fetched for one message", rig.ErrTrace, len(fetched))
	}
	event := func(node int, kind layout.TraceEvent) []int64 {
		return times(events, node, map[int]int{0: p.pingVI, 1: p.pongVI}[node], kind, start, end)
	}
	busy := func(list []carried) int64 {
		var sum int64
		for _, t := range list {
			sum += min(t.end, end) - t.start
		}
		return sum
	}
	// A frame's time in the PHYs and the cable occupies no wire.
	delay := p.board.Value("PhyTransmitDelay") + p.board.Value("PhyReceiveDelay") + p.board.Value("CableDelay")

	type hop struct {
		name  string
		busy  int64
		spans func() ([]carried, error)
	}
	hops := []hop{
		{"system PCI read, sender", busy(transactions(events, 0, systemBus, start, end, systemBus.payload)), func() ([]carried, error) {
			return framesIn("system PCI read", transactions(events, 0, systemBus, fetched[0], end, systemBus.payload), event(0, layout.TraceEventPayloadRead), frames, slack)
		}},
		{"MAC PCI read, sender", busy(transactions(events, 0, macBus, start, end, all)), func() ([]carried, error) {
			return between("MAC PCI read", event(0, layout.TraceEventMacTransmitStart), event(0, layout.TraceEventMacTransmitEnd), frames)
		}},
		{"wire", 0, func() ([]carried, error) {
			return between("wire", event(0, layout.TraceEventWireStart), event(1, layout.TraceEventWireEnd), frames)
		}},
		{"MAC PCI write, receiver", busy(transactions(events, 1, macBus, start, end, all)), func() ([]carried, error) {
			return between("MAC PCI write", event(1, layout.TraceEventMacReceiveStart), event(1, layout.TraceEventMacReceiveEnd), frames)
		}},
		{"system PCI write, receiver", busy(transactions(events, 1, systemBus, start, end, systemBus.payload)), func() ([]carried, error) {
			return framesIn("system PCI write", transactions(events, 1, systemBus, start, end, systemBus.payload), event(1, layout.TraceEventReceiveWritten), frames, slack)
		}},
	}
	pipe := &report.Pipeline{Size: n, EndPs: end - start}
	for _, h := range hops {
		list, err := h.spans()
		if err != nil {
			return nil, err
		}
		if h.name == "wire" {
			for _, t := range list {
				h.busy += t.end - t.start - delay
			}
		}
		row := report.Hop{Name: h.name, BusyPpm: h.busy * 1_000_000 / (end - start)}
		for k, t := range list {
			row.Spans = append(row.Spans, report.Span{Frame: k + 1, StartPs: t.start - start, EndPs: t.end - start})
		}
		pipe.Hops = append(pipe.Hops, row)
	}
	return pipe, nil
}
