// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
)

// Source names a work queue in the entries of completion queues.
type Source struct {
	VI      int // index
	Receive bool
}

func (s Source) String() string {
	return fmt.Sprintf("%s queue of VI %d", map[bool]string{false: "send", true: "receive"}[s.Receive], s.VI)
}

// CompletionQueue gets one entry per completion of the work queues tied to it
// [VIA]. Completions of different work queues have no order, so the model
// counts the entries per work queue.
type CompletionQueue struct {
	owed  map[Source]int
	sum   int  // of owed
	least int  // smallest capacity since the last Settle
	now   int  // capacity
	taken bool // entries were taken or the capacity changed since the last Settle
}

// CreateCompletionQueue creates a completion queue with a capacity of the given
// number of entries.
func (h *Host) CreateCompletionQueue(number, entries int) error {
	if h.queues[number] != nil {
		return fmt.Errorf("model: create completion queue %d: %w", number, ErrIndex)
	}
	h.queues[number] = &CompletionQueue{owed: map[Source]int{}, least: entries, now: entries}
	return nil
}

// CompletionQueue returns a completion queue, nil if the number is unused.
func (h *Host) CompletionQueue(number int) *CompletionQueue { return h.queues[number] }

// DestroyCompletionQueue destroys a completion queue. No VI may be tied to it
// [VIA].
func (h *Host) DestroyCompletionQueue(number int) error {
	if h.queues[number] == nil {
		return fmt.Errorf("model: destroy completion queue %d: %w", number, ErrIndex)
	}
	for _, v := range h.vis {
		if a := v.attributes; a.SendCompletionQueue == number+1 || a.ReceiveCompletionQueue == number+1 {
			return fmt.Errorf("model: destroy completion queue %d: VI %d is tied to it: %w", number, v.index, ErrInUse)
		}
	}
	delete(h.queues, number)
	return nil
}

// tie checks that the completion queues of a new VI exist.
func (h *Host) tie(a Attributes) error {
	for _, n := range []int{a.SendCompletionQueue, a.ReceiveCompletionQueue} {
		if n != 0 && h.queues[n-1] == nil {
			return fmt.Errorf("completion queue %d: %w", n-1, ErrIndex)
		}
	}
	return nil
}

// enter adds the entry of a completion to its completion queue.
func (v *VI) enter(p *posted) {
	n := v.attributes.SendCompletionQueue
	if p.receive {
		n = v.attributes.ReceiveCompletionQueue
	}
	if n == 0 {
		return
	}
	q := v.host.queues[n-1]
	q.owed[Source{v.index, p.receive}]++
	q.sum++
}

// Resize changes the capacity. The entries and their order stay [VIA].
func (q *CompletionQueue) Resize(entries int) {
	q.now, q.taken = entries, true
	q.least = min(q.least, entries)
}

// Polled records that the program took entries at a time that the model does
// not know. Later entries then had more space.
func (q *CompletionQueue) Polled() { q.taken = true }

// Owed returns how many entries the queue should have without overruns.
func (q *CompletionQueue) Owed() int { return q.sum }

// Missing returns the VI of each completion without an entry among these.
func (q *CompletionQueue) Missing(entries []Source) (vis []int) {
	left := maps.Clone(q.owed)
	for _, s := range entries {
		left[s]--
	}
	for _, s := range slices.SortedFunc(maps.Keys(left), compareSources) {
		for range left[s] {
			vis = append(vis, s.VI)
		}
	}
	return vis
}

// Settle verifies the entries that the program took since the last Settle, and
// the overruns reported for each VI. It may be called when no completion is in
// flight and the program has taken all entries. Every completion has exactly
// one entry. A completion that found the queue full has none, and the provider
// reports an overrun [VIA], [transport].
func (q *CompletionQueue) Settle(entries []Source, overruns map[int]int) error {
	left, lost, reported := maps.Clone(q.owed), 0, map[int]int{}
	maps.Copy(reported, overruns)
	for _, s := range entries {
		if left[s] == 0 {
			return fmt.Errorf("the %v has more entries than completions: %d", s, q.owed[s]+1)
		}
		left[s]--
	}
	for _, s := range slices.SortedFunc(maps.Keys(left), compareSources) {
		lost += left[s]
		if reported[s.VI] -= left[s]; reported[s.VI] < 0 {
			return fmt.Errorf("the %v has %d entries for %d completions, and no overrun was reported", s, q.owed[s]-left[s], q.owed[s])
		}
	}
	for _, vi := range slices.Sorted(maps.Keys(reported)) {
		if reported[vi] > 0 {
			return fmt.Errorf("%d overruns too many were reported for VI %d", reported[vi], vi)
		}
	}
	most := max(0, q.sum-q.least)
	switch {
	case lost > most:
		return fmt.Errorf("%d entries are lost; with %d slots and %d completions %d could be", lost, q.least, q.sum, most)
	case lost < most && !q.taken:
		return fmt.Errorf("%d entries are lost; with %d slots and %d completions it should be %d", lost, q.least, q.sum, most)
	}
	q.Taken()
	return nil
}

// Taken records that the program took all entries, without verifying them.
func (q *CompletionQueue) Taken() {
	q.owed, q.sum, q.least, q.taken = map[Source]int{}, 0, q.now, false
}

func compareSources(a, b Source) int {
	if a.VI != b.VI {
		return a.VI - b.VI
	}
	rank := map[bool]int{true: 1}
	return rank[a.Receive] - rank[b.Receive]
}

func (q *CompletionQueue) clone() *CompletionQueue {
	out := *q
	out.owed = maps.Clone(q.owed)
	return &out
}
