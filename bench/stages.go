// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"hvia/layout"
)

// TraceEvent is one event of a card or of a model around it, in simulated
// time (picoseconds).
type TraceEvent struct {
	TimePs   int64
	Node     int
	VI       int
	Event    layout.TraceEvent
	Sequence uint32
}

// ReadTrace reads a trace file of the simulator to its end.
func ReadTrace(path string) ([]TraceEvent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer f.Close()
	events, err := decodeTrace(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("read the trace %s: %w", path, err)
	}
	// A frame's end is noted when it is sent; the order is that of the times.
	slices.SortStableFunc(events, func(a, b TraceEvent) int { return cmp.Compare(a.TimePs, b.TimePs) })
	return events, nil
}

func decodeTrace(r io.Reader) ([]TraceEvent, error) {
	var events []TraceEvent
	b := make(layout.TraceRecord, layout.TraceRecordSize)
	for {
		if _, err := io.ReadFull(r, b); errors.Is(err, io.EOF) {
			return events, nil
		} else if err != nil {
			return events, fmt.Errorf("record %d: %w: the simulator did not finish writing it", len(events), err)
		}
		events = append(events, TraceEvent{
			TimePs: int64(b.Time()), Node: int(b.Node()), VI: int(b.VI()),
			Event: layout.TraceEvent(b.Event()), Sequence: b.Sequence(),
		})
	}
}

// stageEnd is the event that ends a stage, on the sender's or the receiver's side.
type stageEnd struct {
	name     string
	event    layout.TraceEvent
	receiver bool
}

// The stages of a one-frame RDMA write from the doorbell store to the data in
// the peer's memory. Names follow the latency budget.
var rdmaWriteStages = []stageEnd{
	{"doorbell posted write", layout.TraceEventDoorbellCommitted, false},
	{"doorbell decode", layout.TraceEventDescriptorStart, false},
	{"ATT: descriptor VA to PA", layout.TraceEventDescriptorTranslated, false},
	{"system PCI read, descriptor", layout.TraceEventDescriptorFetched, false},
	{"parse", layout.TraceEventDescriptorParsed, false},
	{"ATT: send buffer", layout.TraceEventSendTranslated, false},
	{"system PCI read, payload", layout.TraceEventPayloadRead, false},
	{"header insert", layout.TraceEventFrameBuilt, false},
	{"MAC PCI: kick, descriptor", layout.TraceEventMacTransmitStart, false},
	{"MAC PCI read, frame", layout.TraceEventMacTransmitEnd, false},
	{"DP83820 transmit", layout.TraceEventWireStart, false},
	{"wire and PHYs", layout.TraceEventWireEnd, true},
	{"DP83820 receive, MAC PCI write", layout.TraceEventMacReceiveEnd, true},
	{"header parse, VI check", layout.TraceEventReceiveParsed, true},
	{"ATT: target buffer", layout.TraceEventReceiveTranslated, true},
	{"system PCI write, payload", layout.TraceEventReceiveWritten, true},
}

// The stages of a send: those of an RDMA write, with the receive descriptor's
// first buffer in the place of the target, and then the status that the
// receiver waits for.
var sendReceiveStages = append(slices.Clone(rdmaWriteStages),
	stageEnd{"system PCI write, status", layout.TraceEventReceiveCompletionWritten, true})

// ErrTrace is what a trace that does not show a message wraps.
var ErrTrace = errors.New("trace does not show the message")

// notSeen is the time of an event that has not come yet.
const notSeen = math.MinInt64

// messageTimes follows one message through a trace: from the doorbell store
// at `start` of `node`, whose VI there is `vi`, until the last of `frames` frames
// is written at the other node and the last stage has ended. It returns the time of each stage's end, of the
// last frame for stages that happen once a frame, and the index of the event
// that ended the message.
func messageTimes(events []TraceEvent, stages []stageEnd, from, node, vi, peerVI, frames int) (start int64, ends []int64, next int, err error) {
	i, err := findDoorbell(events, from, node, vi)
	if err != nil {
		return 0, nil, i, err
	}
	start = events[i].TimePs
	ends = slices.Repeat([]int64{notSeen}, len(stages))
	seen := make([]int, len(stages))
	written := 0
	last := stages[len(stages)-1].event
	for ; i < len(events); i++ {
		e := events[i]
		for k, s := range stages {
			if e.Event != s.event || (e.Node == node) == s.receiver {
				continue
			}
			if hasVI(e.Event) && e.VI != map[bool]int{false: vi, true: peerVI}[s.receiver] {
				continue
			}
			// Behind the message's frames there may be others, of the agents for example.
			if seen[k]++; !hasVI(e.Event) && seen[k] > frames {
				continue
			}
			ends[k] = e.TimePs
		}
		if e.Node == node || e.VI != peerVI {
			continue
		}
		if e.Event == layout.TraceEventReceiveWritten {
			written++
		}
		if e.Event != last || written < frames {
			continue
		}
		if k := slices.Index(ends, notSeen); k >= 0 {
			return 0, nil, i, fmt.Errorf("%w of node %d, VI %d: nothing ends the stage %q", ErrTrace, node, vi, stages[k].name)
		}
		return start, ends, i + 1, nil
	}
	if written >= frames {
		return 0, nil, i, fmt.Errorf("%w of node %d, VI %d: nothing ends the stage %q", ErrTrace, node, vi, stages[len(stages)-1].name)
	}
	return 0, nil, i, fmt.Errorf("%w: %d of %d frames were written at the peer of node %d, VI %d", ErrTrace, written, frames, node, vi)
}

// findDoorbell returns the index of the next store to the doorbell of a send
// queue. The sequence of the event is the doorbell's offset in its page.
func findDoorbell(events []TraceEvent, from, node, vi int) (int, error) {
	for i := from; i < len(events); i++ {
		if events[i].Event == layout.TraceEventHostDoorbell && events[i].Node == node && events[i].VI == vi && events[i].Sequence == layout.DoorbellSend {
			return i, nil
		}
	}
	return len(events), fmt.Errorf("%w: no doorbell of node %d, VI %d after event %d", ErrTrace, node, vi, from)
}

// framesOf is how many frames a message of n bytes takes.
func framesOf(n int) int { return max(1, (n+layout.MaxPayload-1)/layout.MaxPayload) }

// hasVI says whether events of that kind carry the VI; the MAC and the wire
// know frames only.
func hasVI(e layout.TraceEvent) bool {
	switch e {
	case layout.TraceEventMacTransmitStart, layout.TraceEventMacTransmitEnd, layout.TraceEventMacReceiveStart,
		layout.TraceEventMacReceiveEnd, layout.TraceEventWireStart, layout.TraceEventWireEnd:
		return false
	}
	return true
}
