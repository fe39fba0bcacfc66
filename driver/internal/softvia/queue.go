// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"bytes"

	"hvia/layout"
)

// Queue is one of a VI's two work queues.
type Queue int

// Queues.
const (
	SendQueue Queue = iota
	ReceiveQueue
)

// QueueID names a work queue.
type QueueID struct {
	VI int
	Of Queue
}

// workQueue has the number of descriptors that are not fetched, and the address
// of the first of them.
type workQueue struct {
	count    int
	next     uint64
	handle   uint32
	sequence uint16 // of the next descriptor to fetch, modulo 2^16
}

// receiveHead is the receive descriptor for the next message.
type receiveHead struct {
	valid bool
	stale bool // the descriptor's memory was deregistered
	body  descriptor
	bits  uint32 // errors found so far
}

type memory interface {
	Translate(handle uint32, va uint64, bytes uint32, tag uint16, access layout.AttAccess) ([]Range, bool)
	Memory(address, bytes uint32) []byte
	Count(n layout.Counter)
}

// descriptor is a descriptor as the card reads it: 64 bytes at a time.
type descriptor struct {
	memory  memory
	va      uint64
	handle  uint32
	tag     uint16
	control layout.Descriptor
	number  int // of the present chunk
	chunk   []byte

	pa       uint32
	sequence uint16 // its number in its queue
}

// chunkSegments is the number of segments in a chunk; in chunk 0 the control
// segment replaces two of them.
const chunkSegments = layout.DescriptorFetchBytes / layout.DataSegmentSize

// segment returns segment k, counting the address segment; false if its chunk
// cannot be read.
func (d *descriptor) segment(k int) (layout.DataSegment, bool) {
	place := k + layout.DescriptorSize/layout.DataSegmentSize
	if n := place / chunkSegments; n != d.number {
		va := d.va + uint64(n)*layout.DescriptorFetchBytes
		at, ok := d.memory.Translate(d.handle, va, layout.DescriptorFetchBytes, d.tag, layout.AttAccessLocal)
		if !ok {
			return nil, false
		}
		d.memory.Count(layout.CounterDescriptorSegments)
		d.number, d.chunk = n, bytes.Clone(d.memory.Memory(at[0].Address, layout.DescriptorFetchBytes))
	}
	return layout.DataSegment(d.chunk[place%chunkSegments*layout.DataSegmentSize:]), true
}

func (d *descriptor) operation() layout.DescriptorOperation {
	return layout.DescriptorOperation(d.control.Control() & layout.DescriptorControlOperationMask >> layout.DescriptorControlOperationLsb)
}

func (d *descriptor) immediate() bool {
	return d.control.Control()&layout.DescriptorControlImmediateMask != 0
}

func (d *descriptor) address() layout.AddressSegment {
	return layout.AddressSegment(d.control[layout.DescriptorSize:])
}

// firstData returns the number of the first data segment: 1 behind an address
// segment.
func (d *descriptor) firstData() int {
	if d.operation() == layout.DescriptorOperationSend {
		return 0
	}
	return 1
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// malformed reports whether the format is wrong for the queue. reads allows
// RDMA reads.
func (d *descriptor) malformed(of Queue, reads bool) bool {
	segments := int(d.control.SegmentCount())
	if d.control.Control()&layout.DescriptorControlReservedMask != 0 || !zero(d.control[layout.DescriptorReservedOffset:layout.DescriptorImmediateDataOffset]) {
		return true
	}
	switch operation := d.operation(); operation {
	case layout.DescriptorOperationSend:
		return segments > layout.MaxDataSegments
	case layout.DescriptorOperationRDMAWrite, layout.DescriptorOperationRDMARead:
		return operation == layout.DescriptorOperationRDMARead && (!reads || d.immediate()) ||
			of == ReceiveQueue || segments < 1 || segments > layout.MaxDataSegments+1 ||
			!zero(d.address()[layout.AddressSegmentReservedOffset:layout.AddressSegmentSize])
	}
	return true
}

// misfits reports whether the segments, if all are in the first chunk, do not
// add up to Length.
func (d *descriptor) misfits() bool {
	segments := int(d.control.SegmentCount())
	if segments > 2 {
		return false
	}
	sum := uint64(0)
	for k := d.firstData(); k < segments; k++ {
		s, _ := d.segment(k) // chunk 0 is loaded
		sum += uint64(s.Length())
	}
	return sum != uint64(d.control.Length())
}

// Ring is a queue's doorbell for one more descriptor. The address is used only
// if no other descriptor on the queue waits to be fetched.
func (e *Engine[T]) Ring(who T, id QueueID, address uint64, handle uint32) {
	v := &e.vis[id.VI]
	if v.state == layout.VIStateFree {
		e.env.Count(layout.CounterDoorbellMalformed)
		return
	}
	if address%layout.DescriptorAlignment != 0 {
		e.env.Count(layout.CounterDoorbellMalformed)
		e.env.Async(who, layout.AsyncErrorPostDescriptor, id.VI)
		return
	}
	e.env.Count([...]layout.Counter{layout.CounterDoorbellSend, layout.CounterDoorbellReceive}[id.Of])
	q := &v.queues[id.Of]
	held := q.count
	if id.Of == ReceiveQueue && v.head.valid {
		held++
	}
	if held == e.config.QueueDepth {
		e.env.Count(layout.CounterDoorbellOverrun)
		e.env.Async(who, layout.AsyncErrorVIOverrun, id.VI)
		return
	}
	if q.count == 0 {
		q.next, q.handle = address, handle
	}
	q.count++
	e.posted(who, id)
}

// Ready reports whether a descriptor of a queue can be fetched. A receive queue
// waits while the last fetched one is in use. The send queue of a connected
// reliable VI waits while the ledger is full, and after an error.
func (e *Engine[T]) Ready(id QueueID) bool {
	v := &e.vis[id.VI]
	switch {
	case v.queues[id.Of].count == 0:
		return false
	case id.Of == ReceiveQueue:
		return !v.head.valid
	}
	return !v.reliable() || v.state != layout.VIStateConnected || v.opens()
}

func (e *Engine[T]) posted(who T, id QueueID) {
	if e.Ready(id) {
		e.env.Posted(who, id)
	}
}

// fetch reads the next descriptor of a queue. If it cannot be read, the queue
// is dropped with all descriptors behind it.
func (e *Engine[T]) fetch(who T, id QueueID) (d descriptor, ok bool) {
	v := &e.vis[id.VI]
	q := &v.queues[id.Of]
	q.count--
	q.sequence++
	// Descriptors are aligned to 64 bytes, so no chunk crosses a page.
	at, ok := e.env.Translate(q.handle, q.next, layout.DescriptorFetchBytes, v.tag(), layout.AttAccessLocal)
	if !ok || q.next%layout.DescriptorAlignment != 0 {
		e.env.Count(layout.CounterDescriptorBad)
		q.count = 0
		return descriptor{}, false
	}
	e.env.Count(layout.CounterDescriptorFetched)
	first := bytes.Clone(e.env.Memory(at[0].Address, layout.DescriptorFetchBytes))
	d = descriptor{memory: e.env, va: q.next, handle: q.handle, tag: v.tag(), control: first, chunk: first, pa: at[0].Address, sequence: q.sequence - 1}
	if q.count > 0 {
		q.next, q.handle = d.control.Next(), d.control.NextHandle()
	}
	return d, true
}

// FetchReceive fetches the next receive descriptor of a Ready queue for the
// next message.
func (e *Engine[T]) FetchReceive(who T, index int) {
	v := &e.vis[index]
	d, ok := e.fetch(who, QueueID{index, ReceiveQueue})
	if !ok {
		e.env.Async(who, layout.AsyncErrorPostDescriptor, index)
		return
	}
	v.head = receiveHead{valid: true, body: d}
	switch {
	case d.malformed(ReceiveQueue, false):
		v.head.bits = layout.DescriptorStatusFormatErrorMask
	case d.control.Length() > v.ctx().MaxTransferSize():
		v.head.bits = layout.DescriptorStatusLengthErrorMask
	}
}

// giveBack completes the current receive descriptor and has the next one
// fetched.
func (e *Engine[T]) giveBack(who T, index int, n completion) {
	h := &e.vis[index].head
	if h.stale {
		e.env.Count(layout.CounterCompletionError)
		e.env.Async(who, layout.AsyncErrorCompletionProtection, index)
	} else {
		e.env.Count(layout.CounterCompletionReceive)
		e.complete(who, QueueID{index, ReceiveQueue}, &h.body, n)
	}
	*h = receiveHead{}
	e.posted(who, QueueID{index, ReceiveQueue})
}
