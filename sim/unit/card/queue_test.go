// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"encoding/binary"

	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// completionQueue is a completion queue of a machine's card, from its reader's
// view.
type completionQueue struct {
	m      *machine
	number uint32
	ring   completionRing
}

type completionRing struct {
	base     uint32
	log2     uint32
	consumed uint32 // reaped entries
}

type completionEntry struct {
	vi      uint8
	receive bool
}

func (m *machine) ringPages(log2 uint32) uint32 {
	return (layout.CompletionQueueHeaderSize + layout.CompletionEntrySize<<log2 + pageBytes - 1) / pageBytes
}

// makeRing allocates and clears a ring, as the library does before it gives the
// ring to the card.
func (m *machine) makeRing(log2 uint32) completionRing {
	x := completionRing{base: m.takeRun(m.ringPages(log2), bridge.UseCompletionQueue), log2: log2}
	m.put(x.base, make([]byte, m.ringPages(log2)*pageBytes))
	return x
}

// freeRing frees a ring's memory: from then on any access of the card ends the
// run.
func (m *machine) freeRing(x completionRing) {
	for i := range m.ringPages(x.log2) {
		m.give(x.base/pageBytes + i)
	}
}

func (m *machine) queueCommand(op layout.CommandOpcode, number uint32, x completionRing) (detail uint32) {
	return m.do(op, layout.CommandStatusDone, func(c layout.Command) {
		c.SetIndex(number)
		c.SetListAddress(x.base)
		c.SetListCount(x.log2)
	})
}

func (m *machine) createQueue(number, log2 uint32) *completionQueue {
	q := &completionQueue{m: m, number: number, ring: m.makeRing(log2)}
	m.queueCommand(layout.CommandOpcodeCreateCompletionQueue, number, q.ring)
	return q
}

// destroy destroys a completion queue and frees its memory at once. It returns
// the number of entries written to the last ring, modulo 2^16.
func (q *completionQueue) destroy() uint32 {
	n := q.m.queueCommand(layout.CommandOpcodeDestroyCompletionQueue, q.number, completionRing{})
	q.m.freeRing(q.ring)
	return n
}

// resize gives a completion queue another ring. It returns the entries left in
// the old one, which the card no longer uses.
func (q *completionQueue) resize(log2 uint32) (left []completionEntry) {
	m, old := q.m, q.ring
	q.ring = m.makeRing(log2)
	written := m.queueCommand(layout.CommandOpcodeResizeCompletionQueue, q.number, q.ring)
	for uint16(written) != uint16(old.consumed) {
		e, ok := m.takeEntry(&old)
		if !ok {
			m.fail("completion queue %d: %d entries were written to the old ring, and entry %d is not there", q.number, written, old.consumed)
		}
		left = append(left, e)
	}
	if e, ok := m.takeEntry(&old); ok {
		m.fail("completion queue %d: %d entries were written to the old ring, and behind them is one of VI %d", q.number, written, e.vi)
	}
	m.freeRing(old)
	return left
}

func (q *completionQueue) take() (all []completionEntry) {
	for {
		e, ok := q.m.takeEntry(&q.ring)
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// takeEntry reaps the next entry of a ring, if any, and reports it to the card
// in the header.
func (m *machine) takeEntry(x *completionRing) (completionEntry, bool) {
	at := x.base + layout.CompletionQueueHeaderSize + x.consumed&(1<<x.log2-1)*layout.CompletionEntrySize
	word := mem.LoadUint32(m.memo[at+layout.CompletionEntryWordOffset:])
	lap := uint32(0)
	if x.consumed>>x.log2&1 == 0 { // the first round has a 1
		lap = layout.CompletionEntryWordLapMask
	}
	if word&layout.CompletionEntryWordLapMask != lap {
		return completionEntry{}, false
	}
	e := completionEntry{vi: uint8(word), receive: word&layout.CompletionEntryWordReceiveMask != 0}
	want := layout.CompletionEntryWordValidMask | lap | uint32(e.vi)<<layout.CompletionEntryWordVILsb
	if e.receive {
		want |= layout.CompletionEntryWordReceiveMask
	}
	if word != want {
		m.fail("entry %d of the ring at %#x is %#x", x.consumed, x.base, word)
	}
	m.counts[layout.CounterCompletionQueueEntry]++
	x.consumed++
	m.putWord(x.base+layout.CompletionQueueHeaderConsumedOffset, x.consumed)
	// The entry's sequence number may have any value: it serves the trace only.
	m.expectWord(at+layout.CompletionEntryWordOffset, word)
	m.expectWord(at+layout.CompletionEntrySequenceOffset, binary.LittleEndian.Uint32(m.memo[at+layout.CompletionEntrySequenceOffset:]))
	return e, true
}
