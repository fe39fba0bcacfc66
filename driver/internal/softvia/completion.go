// SPDX-License-Identifier: Apache-2.0

package softvia

import "hvia/layout"

type completion struct {
	length, bits uint32
	echo         layout.StatusOperation
	immediate    uint32
	hasImmediate bool
}

// complete writes a descriptor's completion, then the entry of the completion
// queue that its queue is tied to, then notifies the waiters of both.
func (e *Engine[T]) complete(who T, id QueueID, body *descriptor, n completion) {
	d := layout.Descriptor(e.env.Memory(body.pa, layout.DescriptorSize))
	status := layout.DescriptorStatusDoneMask | n.bits | uint32(n.echo)<<layout.DescriptorStatusOperationLsb
	if n.hasImmediate {
		d.SetImmediateData(n.immediate)
		status |= layout.DescriptorStatusImmediateMask
	}
	d.SetLength(n.length)
	e.env.Count(layout.CounterCompletionWritten)
	e.env.StoreWord(who, body.pa+layout.DescriptorStatusOffset, status)
	if tied := e.vis[id.VI].ties[id.Of]; tied > 0 {
		e.enter(who, tied-1, id, body.sequence)
	}
	e.came(who, [...]layout.NotifyKind{layout.NotifyKindSend, layout.NotifyKindReceive}[id.Of], id.VI)
}

type completionQueue struct {
	used     bool
	base     uint32 // of its header
	log2     uint32
	written  uint32 // entries, since this ring was set
	consumed uint32 // of these, reaped by the library when last read
}

type notification struct {
	kind  layout.NotifyKind
	index int
}

// CompletionQueueCommand executes a completion queue command, as the card does.
func (e *Engine[T]) CompletionQueueCommand(op layout.CommandOpcode, index, address, log2 uint32) (detail uint32, status layout.CommandStatus) {
	ring := op == layout.CommandOpcodeCreateCompletionQueue || op == layout.CommandOpcodeResizeCompletionQueue
	switch {
	case !ring && op != layout.CommandOpcodeDestroyCompletionQueue:
		return 0, layout.CommandStatusBadOpcode
	case index >= uint32(len(e.cqs)),
		ring && (address%layout.AttPageBytes != 0 || log2 < layout.CompletionQueueMinLog2 || log2 > layout.CompletionQueueMaxLog2):
		return 0, layout.CommandStatusBadArgument
	}
	q := &e.cqs[index]
	if q.used == (op == layout.CommandOpcodeCreateCompletionQueue) {
		return 0, layout.CommandStatusBadState
	}
	if op != layout.CommandOpcodeCreateCompletionQueue {
		detail = q.written & 0xffff
	}
	*q = completionQueue{used: ring, base: address, log2: log2}
	return detail, layout.CommandStatusDone
}

// tie sets the completion queues of a VI from its context. An invalid number
// means none.
func (e *Engine[T]) tie(v *viState) {
	v.ties = [2]int{SendQueue: int(v.ctx().SendCompletionQueue()), ReceiveQueue: int(v.ctx().ReceiveCompletionQueue())}
	for of := range v.ties {
		if v.ties[of] > len(e.cqs) {
			v.ties[of] = 0
		}
	}
}

func (e *Engine[T]) enter(who T, number int, id QueueID, sequence uint16) {
	q := &e.cqs[number]
	if q.used && e.full(q) {
		q.consumed = layout.CompletionQueueHeader(e.env.Memory(q.base, layout.CompletionQueueHeaderSize)).Consumed()
	}
	if !q.used || e.full(q) {
		e.env.Count(layout.CounterCompletionQueueOverrun)
		e.env.Async(who, layout.AsyncErrorCompletionQueueOverrun, id.VI)
		return
	}
	word := uint32(id.VI)<<layout.CompletionEntryWordVILsb | uint32(id.Of)<<layout.CompletionEntryWordReceiveLsb | layout.CompletionEntryWordValidMask
	if q.written>>q.log2&1 == 0 { // the first lap is odd
		word |= layout.CompletionEntryWordLapMask
	}
	at := q.base + layout.CompletionQueueHeaderSize + q.written&(1<<q.log2-1)*layout.CompletionEntrySize
	layout.CompletionEntry(e.env.Memory(at, layout.CompletionEntrySize)).SetSequence(uint32(sequence))
	e.env.Count(layout.CounterCompletionQueueEntry)
	q.written++
	e.env.StoreWord(who, at+layout.CompletionEntryWordOffset, word)
	e.came(who, layout.NotifyKindCompletionQueue, number)
}

func (e *Engine[T]) full(q *completionQueue) bool { return q.written-q.consumed == 1<<q.log2 }

// Arm requests one notification of the next completion of a work queue, or the
// next entry of a completion queue. An armed source stays armed.
func (e *Engine[T]) Arm(kind layout.NotifyKind, index int) {
	known := VICount
	if kind == layout.NotifyKindCompletionQueue {
		known = len(e.cqs)
	}
	if kind <= layout.NotifyKindCompletionQueue && index < known {
		e.armed[notification{kind, index}] = true
	}
}

func (e *Engine[T]) came(who T, kind layout.NotifyKind, index int) {
	n := notification{kind, index}
	if e.armed[n] {
		delete(e.armed, n)
		e.env.Count(layout.CounterNotify)
		e.env.Notify(who, kind, index)
	}
}
