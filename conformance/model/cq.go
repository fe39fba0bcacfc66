// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
)

// Source is a work queue, as the entries of completion queues name it.
type Source struct {
	VI      int // index
	Receive bool
}

func (s Source) String() string {
	return fmt.Sprintf("%s queue of VI %d", map[bool]string{false: "send", true: "receive"}[s.Receive], s.VI)
}

// CompletionQueue gets an entry for every completion of the work queues that are
// tied to it [VIA]. The completions of different work queues are in no order, so
// what is known is how many entries each of them is owed.
type CompletionQueue struct {
	owed  map[Source]int
	sum   int  // of owed
	least int  // entries that it had room for, at the least, since the last Settle
	now   int  // entries that it has room for
	taken bool // some were taken since the last Settle, or the room changed
}

// CreateCompletionQueue makes a completion queue with room for so many entries.
func (h *Host) CreateCompletionQueue(number, entries int) error {
	if h.queues[number] != nil {
		return fmt.Errorf("model: create completion queue %d: %w", number, ErrIndex)
	}
	h.queues[number] = &CompletionQueue{owed: map[Source]int{}, least: entries, now: entries}
	return nil
}

// CompletionQueue returns a completion queue, nil if there is none of that number.
func (h *Host) CompletionQueue(number int) *CompletionQueue { return h.queues[number] }

// DestroyCompletionQueue ends a completion queue that no VI is tied to [VIA].
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

// tie checks that the completion queues of a new VI are there.
func (h *Host) tie(a Attributes) error {
	for _, n := range []int{a.SendCompletionQueue, a.ReceiveCompletionQueue} {
		if n != 0 && h.queues[n-1] == nil {
			return fmt.Errorf("completion queue %d: %w", n-1, ErrIndex)
		}
	}
	return nil
}

// enter is what a completion does to the completion queue.
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

// Resize changes the room. What is in the queue stays, in its order [VIA].
func (q *CompletionQueue) Resize(entries int) {
	q.now, q.taken = entries, true
	q.least = min(q.least, entries)
}

// Polled says that the program has taken entries at a time that the model does
// not know; those that came later had more room.
func (q *CompletionQueue) Polled() { q.taken = true }

// Owed returns how many entries work queues should have, but for those that found
// the queue full.
func (q *CompletionQueue) Owed() int { return q.sum }

// Missing are the VIs whose completions have no entry among these, one for each.
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

// Settle judges all entries that were taken since the last Settle, when no
// completion is under way and the program has taken all that there were, and the
// overruns that were told for each VI. Every completion has exactly one entry, and
// only one that found the queue full has none, which is told [VIA], [transport].
func (q *CompletionQueue) Settle(entries []Source, overruns map[int]int) error {
	left, lost, told := maps.Clone(q.owed), 0, map[int]int{}
	maps.Copy(told, overruns)
	for _, s := range entries {
		if left[s] == 0 {
			return fmt.Errorf("the %v has more entries than completions: %d", s, q.owed[s]+1)
		}
		left[s]--
	}
	for _, s := range slices.SortedFunc(maps.Keys(left), compareSources) {
		lost += left[s]
		if told[s.VI] -= left[s]; told[s.VI] < 0 {
			return fmt.Errorf("the %v has %d entries for %d completions, and no overrun was told", s, q.owed[s]-left[s], q.owed[s])
		}
	}
	for _, vi := range slices.Sorted(maps.Keys(told)) {
		if told[vi] > 0 {
			return fmt.Errorf("%d overruns too many were told for VI %d", told[vi], vi)
		}
	}
	most := max(0, q.sum-q.least)
	switch {
	case lost > most:
		return fmt.Errorf("%d entries are lost; with room for %d and %d completions %d could be", lost, q.least, q.sum, most)
	case lost < most && !q.taken:
		return fmt.Errorf("%d entries are lost; with room for %d and %d completions it should be %d", lost, q.least, q.sum, most)
	}
	q.Taken()
	return nil
}

// Taken says that the program has taken all entries that there will be, and that
// nobody judges them.
func (q *CompletionQueue) Taken() {
	q.owed, q.sum, q.least, q.taken = map[Source]int{}, 0, q.now, false
}

func compareSources(a, b Source) int {
	if a.VI != b.VI {
		return a.VI - b.VI
	}
	return map[bool]int{false: 0, true: 1}[a.Receive] - map[bool]int{false: 0, true: 1}[b.Receive]
}

func (q *CompletionQueue) clone() *CompletionQueue {
	out := *q
	out.owed = maps.Clone(q.owed)
	return &out
}
