// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bytes"

	"hvia/att"
	"hvia/driver"
	"hvia/layout"
	"hvia/params"
)

// direction tells a VI's two work queues apart.
type direction int

const (
	sendQueue direction = iota
	receiveQueue
)

const queueDepth = 1 << params.QueueDepthLog2

type queueID struct {
	vi int
	of direction
}

// workQueue is what the card keeps of a work queue: how many descriptors it
// has not fetched yet, and where the first of them is.
type workQueue struct {
	count  int
	next   uint64
	handle uint32
	listed bool
}

// receiveHead is the receive descriptor on the chip.
type receiveHead struct {
	valid  bool
	stale  bool // the memory that it lies in was deregistered
	pa     uint32
	handle uint32
	body   descriptor
	bits   uint32 // errors found so far
}

// descriptor is a descriptor as the card reads it: 64 bytes at a time.
type descriptor struct {
	card    *Card
	va      uint64
	handle  uint32
	tag     uint16
	control layout.Descriptor
	number  int // of the chunk at hand
	chunk   []byte
}

// chunkSegments are the segments in a chunk; chunk 0 has the control segment in
// the place of two of them.
const chunkSegments = layout.DescriptorFetchBytes / layout.DataSegmentSize

// segment returns segment k, the address segment counted; false if its chunk
// cannot be read.
func (d *descriptor) segment(k int) (layout.DataSegment, bool) {
	place := k + layout.DescriptorSize/layout.DataSegmentSize
	if n := place / chunkSegments; n != d.number {
		va := d.va + uint64(n)*layout.DescriptorFetchBytes
		at, ok := d.card.translate(d.handle, va, layout.DescriptorFetchBytes, d.tag, layout.AttAccessLocal)
		if !ok {
			return nil, false
		}
		d.card.count(layout.CounterDescriptorSegments)
		d.number, d.chunk = n, bytes.Clone(d.card.dma(at[0].Address, layout.DescriptorFetchBytes))
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

// firstData is the number of the first data segment: 1 behind an address segment.
func (d *descriptor) firstData() int {
	if d.operation() == layout.DescriptorOperationSend {
		return 0
	}
	return 1
}

func zero(b []byte) bool { return bytes.Equal(b, make([]byte, len(b))) }

// malformed says whether the format is wrong, for the queue that it is on.
func (d *descriptor) malformed(of direction) bool {
	segments := int(d.control.SegmentCount())
	if d.control.Control()&layout.DescriptorControlReservedMask != 0 || !zero(d.control[layout.DescriptorReservedOffset:layout.DescriptorImmediateDataOffset]) {
		return true
	}
	switch d.operation() {
	case layout.DescriptorOperationSend:
		return segments > layout.MaxDataSegments
	case layout.DescriptorOperationRdmaWrite:
		return of == receiveQueue || segments < 1 || segments > layout.MaxDataSegments+1 ||
			!zero(d.address()[layout.AddressSegmentReservedOffset:layout.AddressSegmentSize])
	}
	return true
}

// misfits says whether the segments do not add up to Length, as far as the
// first chunk tells.
func (d *descriptor) misfits() bool {
	segments := int(d.control.SegmentCount())
	if segments > 2 {
		return false
	}
	sum := uint64(0)
	for k := d.firstData(); k < segments; k++ {
		s, _ := d.segment(k) // chunk 0 is at hand
		sum += uint64(s.Length())
	}
	return sum != uint64(d.control.Length())
}

// doorbell is a queue's commit: the address counts only if the queue is empty.
func (c *Card) doorbell(offset uint32, data []uint32) {
	index := int(offset / layout.DoorbellPageBytes)
	v := &c.vis[index]
	of, known := map[uint32]direction{layout.DoorbellSend: sendQueue, layout.DoorbellReceive: receiveQueue}[offset%layout.DoorbellPageBytes]
	if !known || len(data) != layout.DoorbellDwords || v.state == layout.ViStateFree {
		c.count(layout.CounterDoorbellMalformed)
		return
	}
	if data[0]%layout.DescriptorAlignment != 0 {
		c.count(layout.CounterDoorbellMalformed)
		c.async(layout.AsyncErrorPostDescriptor, index)
		return
	}
	c.count([...]layout.Counter{layout.CounterDoorbellSend, layout.CounterDoorbellReceive}[of])
	q := &v.queues[of]
	held := q.count
	if of == receiveQueue && v.head.valid {
		held++
	}
	if held == queueDepth {
		c.count(layout.CounterDoorbellOverrun)
		c.async(layout.AsyncErrorViOverrun, index)
		return
	}
	if q.count == 0 {
		q.next, q.handle = uint64(data[1])<<32|uint64(data[0]), data[2]
	}
	q.count++
	c.list(queueID{index, of})
}

// list puts a queue into the ready list if there is something to fetch. A
// receive queue waits while its last descriptor is on the chip.
func (c *Card) list(id queueID) {
	v := &c.vis[id.vi]
	if q := &v.queues[id.of]; q.count > 0 && !q.listed && (id.of == sendQueue || !v.head.valid) {
		q.listed = true
		c.ready = append(c.ready, id)
	}
	c.kick()
}

func (c *Card) kick() {
	if c.busy || len(c.ready) == 0 {
		return
	}
	c.busy = true
	c.f.after(deviceDelay, func() {
		c.busy = false
		if len(c.ready) == 0 {
			return
		}
		id := c.ready[0]
		q := &c.vis[id.vi].queues[id.of]
		c.ready, q.listed = c.ready[1:], false
		switch {
		case q.count == 0:
		case id.of == receiveQueue && c.vis[id.vi].head.valid: // a message that came meanwhile had it fetched
		case id.of == sendQueue:
			c.process(id.vi)
		default:
			c.fetchReceive(id.vi)
		}
		c.list(id)
	})
}

func (c *Card) translate(handle uint32, va uint64, n uint32, tag uint16, access layout.AttAccess) (pa []driver.Range, ok bool) {
	if _, err := att.Translate(&c.table, c.limit, att.Handle(handle), va, n, tag, access); err != nil {
		return nil, false
	}
	for n > 0 {
		t, err := att.Translate(&c.table, c.limit, att.Handle(handle), va, n, tag, access)
		if err != nil {
			return nil, false
		}
		l := min(n, t.Bytes)
		pa = append(pa, driver.Range{Address: t.Address, Length: l})
		va, n = va+uint64(l), n-l
	}
	return pa, true
}

// fetch takes the next descriptor of a queue. One that cannot be reached hides
// those behind it: the queue is forgotten.
func (c *Card) fetch(id queueID) (d descriptor, pa uint32, ok bool) {
	v := &c.vis[id.vi]
	q := &v.queues[id.of]
	q.count--
	// Descriptors are aligned to 64 bytes, so that no chunk crosses a page.
	at, ok := c.translate(q.handle, q.next, layout.DescriptorFetchBytes, v.tag(), layout.AttAccessLocal)
	if !ok || q.next%layout.DescriptorAlignment != 0 {
		c.count(layout.CounterDescriptorBad)
		q.count = 0
		c.async(layout.AsyncErrorPostDescriptor, id.vi)
		return descriptor{}, 0, false
	}
	c.count(layout.CounterDescriptorFetched)
	pa = at[0].Address
	first := bytes.Clone(c.dma(pa, layout.DescriptorFetchBytes))
	d = descriptor{card: c, va: q.next, handle: q.handle, tag: v.tag(), control: first, chunk: first}
	if q.count > 0 {
		q.next, q.handle = d.control.Next(), d.control.NextHandle()
	}
	return d, pa, true
}

// fetchReceive puts the next receive descriptor on the chip.
func (c *Card) fetchReceive(index int) {
	v := &c.vis[index]
	d, pa, ok := c.fetch(queueID{index, receiveQueue})
	if !ok {
		return
	}
	v.head = receiveHead{valid: true, pa: pa, handle: d.handle, body: d}
	switch {
	case d.malformed(receiveQueue):
		v.head.bits = layout.DescriptorStatusFormatErrorMask
	case d.control.Length() > v.ctx().MaxTransferSize():
		v.head.bits = layout.DescriptorStatusLengthErrorMask
	}
}

// completion is what the card writes into a descriptor.
type completion struct {
	length, bits uint32
	echo         layout.StatusOperation
	immediate    uint32
	hasImmediate bool
}

func (c *Card) complete(pa uint32, n completion) {
	d := layout.Descriptor(c.dma(pa, layout.DescriptorSize))
	status := layout.DescriptorStatusDoneMask | n.bits | uint32(n.echo)<<layout.DescriptorStatusOperationLsb
	if n.hasImmediate {
		d.SetImmediateData(n.immediate)
		status |= layout.DescriptorStatusImmediateMask
	}
	d.SetLength(n.length)
	c.count(layout.CounterCompletionWritten)
	c.storeWord(pa+layout.DescriptorStatusOffset, status)
}

// giveBack completes the receive descriptor on the chip and has the next one fetched.
func (c *Card) giveBack(index int, n completion) {
	h := &c.vis[index].head
	if h.stale {
		c.count(layout.CounterCompletionError)
		c.async(layout.AsyncErrorCompletionProtection, index)
	} else {
		c.count(layout.CounterCompletionReceive)
		c.complete(h.pa, n)
	}
	*h = receiveHead{}
	c.list(queueID{index, receiveQueue})
}

// flush is what DisconnectVi does to both queues: all that was posted is
// completed in order.
func (c *Card) flush(index int) {
	v := &c.vis[index]
	v.state = layout.ViStateError
	c.endMessage(index, layout.DescriptorStatusPartialErrorMask|layout.DescriptorStatusFlushedMask)
	for {
		if v.head.valid {
			c.count(layout.CounterDescriptorFlushed)
			c.giveBack(index, completion{bits: layout.DescriptorStatusFlushedMask, echo: layout.StatusOperationReceive})
		}
		if v.queues[receiveQueue].count == 0 {
			break
		}
		c.fetchReceive(index)
	}
	for v.queues[sendQueue].count > 0 {
		c.process(index)
	}
}
