// SPDX-License-Identifier: Apache-2.0

package rig

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
	// The simulator records a frame's end when the frame is sent, so sort by
	// time.
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

// stageEnd is the event that ends a stage, on the sender's or the receiver's
// side.
type stageEnd struct {
	Name     string
	Event    layout.TraceEvent
	Receiver bool
}

// The stages of a one-frame RDMA write from the doorbell store to the data in
// the peer's memory. Names follow the latency budget.
var RDMAWriteStages = []stageEnd{
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
// first buffer instead of the target, and then the status that the receiver
// waits for.
var SendReceiveStages = append(slices.Clone(RDMAWriteStages),
	stageEnd{"system PCI write, status", layout.TraceEventReceiveCompletionWritten, true})

// ErrTrace is wrapped by errors about a trace that does not show a message.
var ErrTrace = errors.New("trace does not show the message")

// NotSeen is the time of an event that has not happened.
const NotSeen = math.MinInt64

// MessageTimes follows one message through a trace: from the doorbell store at
// `start` of `node`, whose VI is `vi`, until the last of `frames` frames is
// written at the other node and the last stage has finished. It returns the
// time of each stage's end, of the last frame for stages that happen once a
// frame, and the index of the event that ended the message.
func MessageTimes(events []TraceEvent, stages []stageEnd, from, node, vi, peerVI, frames int) (start int64, ends []int64, next int, err error) {
	i, err := FindDoorbell(events, from, node, vi)
	if err != nil {
		return 0, nil, i, err
	}
	start = events[i].TimePs
	ends = slices.Repeat([]int64{NotSeen}, len(stages))
	seen := make([]int, len(stages))
	written := 0
	last := stages[len(stages)-1].Event
	for ; i < len(events); i++ {
		e := events[i]
		for k, s := range stages {
			if e.Event != s.Event || (e.Node == node) == s.Receiver {
				continue
			}
			if HasVI(e.Event) && e.VI != map[bool]int{false: vi, true: peerVI}[s.Receiver] {
				continue
			}
			// Other frames may follow the message's, for example those of the
			// agents.
			if seen[k]++; !HasVI(e.Event) && seen[k] > frames {
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
		if k := slices.Index(ends, NotSeen); k >= 0 {
			return 0, nil, i, fmt.Errorf("%w of node %d, VI %d: nothing ends the stage %q", ErrTrace, node, vi, stages[k].Name)
		}
		return start, ends, i + 1, nil
	}
	if written >= frames {
		return 0, nil, i, fmt.Errorf("%w of node %d, VI %d: nothing ends the stage %q", ErrTrace, node, vi, stages[len(stages)-1].Name)
	}
	return 0, nil, i, fmt.Errorf("%w: %d of %d frames were written at the peer of node %d, VI %d", ErrTrace, written, frames, node, vi)
}

// FindDoorbell returns the index of the next store to the doorbell of a send
// queue. The sequence of the event is the doorbell's offset in its page.
func FindDoorbell(events []TraceEvent, from, node, vi int) (int, error) {
	for i := from; i < len(events); i++ {
		if events[i].Event == layout.TraceEventHostDoorbell && events[i].Node == node && events[i].VI == vi && events[i].Sequence == layout.DoorbellSend {
			return i, nil
		}
	}
	return len(events), fmt.Errorf("%w: no doorbell of node %d, VI %d after event %d", ErrTrace, node, vi, from)
}

// FramesOf is the number of frames of a message of n bytes.
func FramesOf(n int) int { return max(1, (n+layout.MaxPayload-1)/layout.MaxPayload) }

// HasVI says whether events of that kind carry the VI; the MAC and the wire
// know frames only.
func HasVI(e layout.TraceEvent) bool {
	switch e {
	case layout.TraceEventMacTransmitStart, layout.TraceEventMacTransmitEnd, layout.TraceEventMacReceiveStart,
		layout.TraceEventMacReceiveEnd, layout.TraceEventWireStart, layout.TraceEventWireEnd:
		return false
	}
	return true
}

// A Deed is what an event of the trace means.
type Deed struct {
	Event    layout.TraceEvent
	Receiver bool // it happens at the receiver
	Frame    bool // it happens once for each frame, not once for the message
	Where    string
	What     string
}

// Deeds are the events of a message in order. An engine learns of the end of
// its write some clocks after the bus has had the last byte, so a program may
// see the data first.
var Deeds = []Deed{
	{layout.TraceEventHostDoorbell, false, false, "processor", "stores the descriptor's address and handle to the doorbell: one burst of three dwords"},
	{layout.TraceEventDoorbellCommitted, false, false, "doorbell", "takes the third dword: one more descriptor on the VI's send queue"},
	{layout.TraceEventDescriptorStart, false, false, "descriptor_fetch", "takes the VI from the ready list"},
	{layout.TraceEventDescriptorTranslated, false, false, "att_manager", "knows the physical address of the descriptor"},
	{layout.TraceEventDescriptorFetched, false, false, "descriptor_fetch", "has read the descriptor over PCI"},
	{layout.TraceEventDescriptorParsed, false, false, "descriptor_fetch", "has checked its format and hands it to tx_engine"},
	{layout.TraceEventSendTranslated, false, true, "att_manager", "has checked the send buffer and knows its physical address"},
	{layout.TraceEventPayloadRead, false, true, "dma_read", "has read the last payload byte over PCI"},
	{layout.TraceEventFrameBuilt, false, true, "tx_engine", "has the frame complete in a packet buffer"},
	{layout.TraceEventMacTransmitStart, false, true, "gec", "gives the first word to the MAC"},
	{layout.TraceEventMacTransmitEnd, false, true, "gec", "gives the last word to the MAC"},
	{layout.TraceEventWireStart, false, true, "wire", "carries the first bit"},
	{layout.TraceEventCompletionWritten, false, false, "completion", "knows that Status is in the descriptor"},
	{layout.TraceEventWireEnd, true, true, "wire", "has brought the last bit to the other MAC"},
	{layout.TraceEventMacReceiveStart, true, true, "gec", "takes the first word from the MAC"},
	{layout.TraceEventMacReceiveEnd, true, true, "gec", "has the frame complete in a packet buffer"},
	{layout.TraceEventReceiveParsed, true, true, "rx_engine", "has parsed the header; VI, sender and sequence number are right"},
	{layout.TraceEventReceiveTranslated, true, true, "att_manager", "has checked handle, bounds, tag and rights and knows the physical address"},
	{layout.TraceEventReceiveWritten, true, true, "dma_write", "knows that the last payload byte is in host memory"},
}

// Busy is the fraction of the span from one time to another in which a bus of a
// node carried a transaction.
func Busy(events []TraceEvent, node int, start, end layout.TraceEvent, from, to int64) float64 {
	var sum, begin int64
	open := false
	for _, e := range events {
		switch {
		case e.Node != node:
		case e.Event == start:
			begin, open = e.TimePs, true
		case e.Event == end && open:
			open = false
			sum += max(0, min(e.TimePs, to)-max(begin, from))
		}
	}
	return float64(sum) / float64(to-from)
}
