// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"fmt"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/layout"
	"hvia/params"
)

// burstBytes is the length of the bursts whose rate the paper prints.
const burstBytes = params.DmaBurstBytes

// A bus describes one of the card's two buses in a trace.
type bus struct {
	name         string
	start, end   layout.TraceEvent
	clock, width string                     // parameters: the clock's period in ps, the width in bits
	payload      func(sequence uint32) bool // whether a transaction may be a burst of payload
}

// pauseClocks is the most idle clocks between bursts that follow each other: a
// change of owner, which arbitration hides, takes one or two.
const pauseClocks = 4

var systemBus = bus{
	name: "system", start: layout.TraceEventHostBusStart, end: layout.TraceEventHostBusEnd,
	clock: "SystemClockPeriod", width: "SystemBusBits",
	payload: func(sequence uint32) bool { return sequence == 1 }, // 1: the card is the bus master
}

var macBus = bus{
	name: "MAC", start: layout.TraceEventMacBusStart, end: layout.TraceEventMacBusEnd,
	clock: "MacClockPeriod", width: "MacBusBits",
	payload: func(sequence uint32) bool {
		use := layout.MacBusUse(sequence)
		return use == layout.MacBusUseFrameRead || use == layout.MacBusUseFrameWrite
	},
}

// period returns the mean time from the start of a 512-byte burst to the start
// of the transaction behind it, over all that follow without a pause on any
// node, and their number. A trace has no lengths. A burst counts as one of 512
// bytes if it takes at least the clocks of their data and at most half more,
// and carries payload. Payload in the same direction must follow it, so that it
// is not the end of a frame.
func (b bus) period(events []rig.TraceEvent, clockPs, bits int64) (ps int64, count int) {
	type transaction struct {
		start, end int64
		use        uint32
		open, seen bool
	}
	needs := burstBytes * 8 / bits * clockPs
	var sum int64
	before := map[int]transaction{} // by node
	for _, e := range events {
		t := before[e.Node]
		switch e.Event {
		case b.end:
			if t.open {
				t.end, t.open = e.TimePs, false
				before[e.Node] = t
			}
		case b.start:
			if t.open {
				t.end = e.TimePs // fast back-to-back: there was no idle clock
			}
			took, pause := t.end-t.start, e.TimePs-t.end
			if t.seen && t.use == e.Sequence && b.payload(t.use) && took >= needs && 2*took <= 3*needs && pause <= pauseClocks*clockPs {
				sum += e.TimePs - t.start
				count++
			}
			before[e.Node] = transaction{start: e.TimePs, use: e.Sequence, open: true, seen: true}
		}
	}
	if count == 0 {
		return 0, 0
	}
	return sum / int64(count), count
}

// burstsOf measures the rates in a trace of cards of a profile. The events are
// in order of time. It returns ErrTrace if a bus shows no bursts that follow
// each other.
func burstsOf(events []rig.TraceEvent, profile string) (*report.Bursts, error) {
	set, err := params.ForProfile(profile)
	if err != nil {
		return nil, err
	}
	var rates [2]int64
	for i, b := range []bus{systemBus, macBus} {
		clock, err := set.Lookup(b.clock)
		if err != nil {
			return nil, err
		}
		bits, err := set.Lookup(b.width)
		if err != nil {
			return nil, err
		}
		ps, count := b.period(events, clock, bits)
		if count == 0 {
			return nil, fmt.Errorf("%w: no %d-byte bursts that follow each other on the %s bus", rig.ErrTrace, burstBytes, b.name)
		}
		rates[i] = report.BytesPerSecond(burstBytes, ps)
	}
	return &report.Bursts{SystemBytesPerSec: rates[0], MACBytesPerSec: rates[1]}, nil
}
