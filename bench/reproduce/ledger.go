// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"cmp"
	"slices"
	"sync"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/host"
	"hvia/layout"
)

// ledger records the processor time of all threads in a run whose hosts are
// both in this process.
type ledger struct {
	mu      sync.Mutex
	entries map[host.ThreadID][]host.Spending // of each thread in the order of time
}

func (l *ledger) enter(s host.Spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[host.ThreadID][]host.Spending{}
	}
	l.entries[s.Thread] = append(l.entries[s.Thread], s)
}

// of returns a thread's entries that end after `from` and not after `to`,
// without polling loops.
func (l *ledger) of(id host.ThreadID, from, to int64) []host.Spending {
	all := l.entries[id]
	first, _ := slices.BinarySearchFunc(all, from, func(s host.Spending, t int64) int { return cmp.Or(cmp.Compare(int64(s.End), t), -1) })
	var list []host.Spending
	for _, s := range all[first:] {
		if int64(s.End) > to {
			break
		}
		if s.Layer != host.LayerPoll {
			list = append(list, s)
		}
	}
	return list
}

// threads are those that have entries, in the order of nodes and ranks.
func (l *ledger) threads() []host.ThreadID {
	var ids []host.ThreadID
	for id := range l.entries {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b host.ThreadID) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Rank, b.Rank))
	})
	return ids
}

// interval is a span of simulated time in ps.
type interval struct{ begin, end int64 }

func (v interval) length() int64 { return max(v.end-v.begin, 0) }

func (v interval) clip(to interval) interval {
	return interval{max(v.begin, to.begin), min(v.end, to.end)}
}

// within returns how much of a window the intervals cover. They may overlap.
func within(list []interval, window interval) (sum int64) {
	var clipped []interval
	for _, v := range list {
		if v = v.clip(window); v.length() > 0 {
			clipped = append(clipped, v)
		}
	}
	slices.SortFunc(clipped, func(a, b interval) int { return cmp.Compare(a.begin, b.begin) })
	end := window.begin
	for _, v := range clipped {
		if v.end > end {
			sum += v.end - max(v.begin, end)
			end = v.end
		}
	}
	return sum
}

// claim is a name for the intervals of one part of a path.
type claim struct {
	name string
	interval
}

// attribute divides a window among claims, earlier ones first, and returns the
// unclaimed rest.
func attribute(window interval, claims []claim) (shares map[string]int64, rest int64) {
	shares = map[string]int64{}
	free := []interval{window}
	for _, c := range claims {
		var left []interval
		for _, f := range free {
			taken := c.clip(f)
			if taken.length() == 0 {
				left = append(left, f)
				continue
			}
			shares[c.name] += taken.length()
			for _, part := range []interval{{f.begin, taken.begin}, {taken.end, f.end}} {
				if part.length() > 0 {
					left = append(left, part)
				}
			}
		}
		free = left
	}
	for _, f := range free {
		rest += f.length()
	}
	return shares, rest
}

type wired struct {
	node       int // that sends
	start, end int64
	occupied   interval // the sender's end of the wire, with preamble, FCS and gap
}

// traffic is the use of buses and wire in a trace.
type traffic struct {
	bus    [2][]interval // system bus of each node, by any master
	frames []wired
}

// trafficOf reads a trace whose events are in order of time.
func trafficOf(events []rig.TraceEvent, b costs.Board) traffic {
	var t traffic
	latency := b.Value("PhyTransmitDelay") + b.Value("PhyReceiveDelay") + b.Value("CableDelay")
	gap := 8 * b.Value("WireBitTime") * b.Value("WireGapBytes")
	open := [2]int64{rig.NotSeen, rig.NotSeen}
	var flying [2][]int // frames by source, the oldest first
	for _, e := range events {
		if e.Node < 0 || e.Node > 1 {
			continue
		}
		switch e.Event {
		case layout.TraceEventHostBusStart, layout.TraceEventHostBusEnd:
			if open[e.Node] != rig.NotSeen {
				t.bus[e.Node] = append(t.bus[e.Node], interval{open[e.Node], e.TimePs})
			}
			open[e.Node] = rig.NotSeen
			if e.Event == layout.TraceEventHostBusStart {
				open[e.Node] = e.TimePs
			}
		case layout.TraceEventWireStart:
			flying[e.Node] = append(flying[e.Node], len(t.frames))
			t.frames = append(t.frames, wired{node: e.Node, start: e.TimePs, end: rig.NotSeen})
		case layout.TraceEventWireEnd:
			if from := flying[1-e.Node]; len(from) > 0 {
				f := &t.frames[from[0]]
				f.end = e.TimePs
				f.occupied = interval{f.start, e.TimePs - latency + gap}
				flying[1-e.Node] = from[1:]
			}
		}
	}
	return t
}
