// SPDX-License-Identifier: Apache-2.0

package tracetest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hvia/bench/rig"
	"hvia/layout"
)

// Message is the trace of a message of node 0, VI 3, to VI 5 of node 1: one
// event each 10 ps from the given time on.
func Message(from int64, frames int) []rig.TraceEvent {
	var events []rig.TraceEvent
	now := from
	for f := range frames {
		for _, d := range rig.Deeds {
			if !d.Frame && f > 0 {
				continue
			}
			e := rig.TraceEvent{TimePs: now, Node: 0, VI: 3, Event: d.Event}
			if d.Receiver {
				e.Node, e.VI = 1, 5
			}
			if !rig.HasVI(d.Event) {
				e.VI = 0
			}
			events = append(events, e)
			now += 10
		}
	}
	return events
}

// Moved returns the trace shifted in time, each event changed by a function.
func Moved(events []rig.TraceEvent, by int64, change func(*rig.TraceEvent)) []rig.TraceEvent {
	events = slices.Clone(events)
	for i := range events {
		events[i].TimePs += by
		change(&events[i])
	}
	return events
}

func OtherVI(e *rig.TraceEvent) {
	if rig.HasVI(e.Event) {
		e.VI += 100
	}
}

func OtherNode(e *rig.TraceEvent) { e.Node = 1 - e.Node }

func Merged(lists ...[]rig.TraceEvent) []rig.TraceEvent {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b rig.TraceEvent) int { return int(a.TimePs - b.TimePs) })
	return all
}

func Without(events []rig.TraceEvent, kind layout.TraceEvent) []rig.TraceEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e rig.TraceEvent) bool { return e.Event == kind })
}

// Decoded returns the events of a trace without a truncated last record.
func Decoded(t *testing.T, trace []byte) []rig.TraceEvent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(path, trace[:len(trace)/layout.TraceRecordSize*layout.TraceRecordSize], 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := rig.ReadTrace(path)
	if err != nil {
		t.Fatal(err)
	}
	return events
}
