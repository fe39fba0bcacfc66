// SPDX-License-Identifier: Apache-2.0

package model

import "hvia/layout"

// receiveDescriptor is the head of the receive queue, which the provider reads
// when it becomes the head, in Idle too, or when a message needs it, and keeps
// until it is used up [card].
type receiveDescriptor struct {
	descriptor
	posted *posted
	status uint32 // error bits found in it
	maySet uint32
	stale  bool // its memory was deregistered: it can not be completed
}

// PostReceive puts a descriptor on the receive queue. It stays there while the
// VI is idle [VIA]; in the error state it completes at once as flushed [VIA].
func (v *VI) PostReceive(address uint64, handle uint32) error {
	p, err := v.post(&v.receive, address, handle)
	if err != nil {
		return err
	}
	if v.state == layout.VIStateError {
		v.flushReceive(p)
		return nil
	}
	v.fetch(false)
	return nil
}

// fetch reads the head of the receive queue.
func (v *VI) fetch(needed bool) {
	p := v.receive.next()
	if p == nil || v.head != nil || v.state == layout.VIStateError || v.host.fabric.FetchOnArrival && !needed {
		return
	}
	d, ok := v.host.read(p.address, p.handle, v.attributes.Tag)
	if !ok {
		v.unreachable(&v.receive)
		return
	}
	v.head = &receiveDescriptor{descriptor: *d, posted: p}
	v.head.status, v.head.maySet = d.refusedForReceive(v.attributes.MaxTransferSize)
}

// refusedForReceive is what is wrong with a descriptor of the receive queue as
// such. The immediate and fence bits mean nothing there [card].
func (d *descriptor) refusedForReceive(maxTransferSize uint32) (bits, maySet uint32) {
	tooLong := uint32(0)
	if d.Length() > maxTransferSize {
		tooLong = lengthError
	}
	if d.operation() != layout.DescriptorOperationSend || d.malformed() {
		return formatError, tooLong
	}
	return tooLong, 0
}

// message is a message that has begun to arrive.
type message struct {
	operation    layout.FrameOperation
	hasImmediate bool
	reliable     bool
	dropped      bool               // nothing of it is wanted any more
	descriptor   *receiveDescriptor // that it uses up; nil for an RDMA write without immediate data
	segments     cursor
	written      uint32
	status       uint32 // error bits; they stick until the message ends
	maySet       uint32
}

// arrive is the arrival of a frame. A VI that is not connected hears nothing
// [VIA].
func (v *VI) arrive(f frame) {
	if v.state != layout.VIStateConnected || !v.hearing.step() {
		return
	}
	if v.gap {
		// What is missing may have been the end of a message, or its middle [VIA].
		v.gap = false
		v.closeMessage(0)
	}
	if f.first {
		// A message whose Last never came ends here [card].
		v.closeMessage(0)
		v.begin(f)
	}
	m := v.message
	if m == nil {
		return
	}
	if !m.dropped {
		v.store(m, f)
	}
	if f.last {
		v.message = nil
		v.end(m, f)
	}
}

// begin is the first frame of a message. A send uses up the head of the receive
// queue, and so does an RDMA write with immediate data [VIA]. Without one it is
// dropped, and the program is told once [VIA].
func (v *VI) begin(f frame) {
	m := &message{operation: f.operation, hasImmediate: f.hasImmediate, reliable: v.attributes.reliable()}
	needs := f.operation != layout.FrameOperationRDMAWrite || f.hasImmediate
	if needs {
		v.fetch(true) // before there is a message: it may break the VI
	}
	v.message = m
	if !needs {
		return
	}
	if v.head == nil {
		m.dropped = true
		v.host.report(layout.AsyncErrorReceiveQueueEmpty, v)
		return
	}
	m.descriptor = v.head
	m.segments = cursor{descriptor: &m.descriptor.descriptor}
	m.status, m.maySet = v.head.status, v.head.maySet
	if !m.reliable && f.operation == layout.FrameOperationSend && m.status == 0 && uint64(f.length) > m.descriptor.capacity() {
		// The error may be told for what the message says of its length, or for the
		// bytes that do not fit, when they come.
		m.maySet |= lengthError
	}
}

// capacity is how many bytes a receive descriptor has room for.
func (d *descriptor) capacity() uint64 {
	sum := uint64(0)
	for k := range d.dataSegments() {
		s, ok := d.segment(k)
		if !ok {
			break
		}
		sum += uint64(s.Length())
	}
	return min(sum, uint64(d.Length()))
}

// store puts the payload of a frame where it belongs.
func (v *VI) store(m *message, f frame) {
	// A descriptor with an error of its own, or buffers that were refused before:
	// nothing is written. Only a message that is too long leaves what fits.
	if m.status&^lengthError != 0 || m.descriptor != nil && m.descriptor.status != 0 {
		return
	}
	if f.operation == layout.FrameOperationRDMAWrite {
		v.storeRDMA(m, f)
		return
	}
	// No more than Length, whatever room the segments have.
	payload := f.payload
	if room := m.descriptor.Length() - m.written; uint64(len(payload)) > uint64(room) {
		payload = payload[:room]
		m.status |= lengthError
	}
	n, bits := m.segments.scatter(payload)
	m.written += n
	m.status |= bits
}

// scatter copies bytes into the segments, as far as they go.
func (c *cursor) scatter(payload []byte) (written, bits uint32) {
	for len(payload) > 0 {
		piece, end, bits := c.next(uint64(len(payload)))
		switch {
		case bits != 0:
			return written, bits
		case end:
			return written, lengthError
		}
		n := copy(piece, payload)
		payload = payload[n:]
		written += uint32(n)
	}
	return written, 0
}

// storeRDMA is a frame of an RDMA write. It needs the right of the VI and that
// of the region, and the region needs the VI's tag [VIA]. What came before a
// refused frame is written [card].
func (v *VI) storeRDMA(m *message, f frame) {
	b, ok := v.host.access(f.handle, f.address, uint64(len(f.payload)), v.attributes.Tag, layout.AttAccessRemoteWrite)
	switch {
	case ok && v.attributes.RDMAWrite:
		m.written += uint32(copy(b, f.payload))
	case m.descriptor != nil:
		m.status |= rdmaProtectionError // told in the descriptor if one is used up [VIA]
	default:
		m.dropped = true
		v.host.report(layout.AsyncErrorRDMAWriteProtection, v)
	}
}

// end is the last frame of a message: the descriptor that it used up completes,
// with the immediate data if it has any. An RDMA write without immediate data
// tells the program nothing [VIA].
func (v *VI) end(m *message, f frame) {
	if m.dropped || m.descriptor == nil {
		return
	}
	c := m.completion(0)
	if m.hasImmediate {
		c.Status |= layout.DescriptorStatusImmediateMask
		c.Immediate = f.immediate
	}
	v.consume(m.descriptor, c)
}

// completion is how a message ends its descriptor.
func (m *message) completion(bits uint32) Completion {
	if m.status&protectionError != 0 {
		// Nothing more is written, so whether the rest would have fitted need not be
		// known, and is not where the frame that fails is the last.
		if !m.reliable {
			m.maySet |= m.status & lengthError
		}
		m.status &^= lengthError
	}
	status := m.status | bits
	return Completion{Status: done(status, m.echo()), MaySet: m.maySet &^ status, Length: m.written}
}

func (m *message) echo() layout.StatusOperation {
	if m.operation == layout.FrameOperationRDMAWrite {
		return layout.StatusOperationRemoteRDMAWrite
	}
	return layout.StatusOperationReceive
}

// closeMessage ends a message whose Last did not come and never will: told in
// the descriptor that it used up, else as an asynchronous error [VIA].
func (v *VI) closeMessage(bits uint32) {
	m := v.message
	v.message = nil
	switch {
	case m == nil || m.dropped:
	case m.descriptor == nil:
		v.host.report(layout.AsyncErrorRDMAWriteAbort, v)
	default:
		v.consume(m.descriptor, m.completion(partialError|bits))
	}
}

// consume completes the head of the receive queue, and the next descriptor
// becomes the head. A completion that can not be written is an asynchronous
// error, and breaks the VI, because its descriptor never gets a status [vipl].
func (v *VI) consume(d *receiveDescriptor, c Completion) {
	v.head = nil
	if d.stale {
		d.posted.lost = true
		v.host.report(layout.AsyncErrorCompletionProtection, v)
		v.breakDown()
		return
	}
	v.complete(d.posted, c)
	v.fetch(false)
}

// flushReceive completes a descriptor of the receive queue that no message has
// used up. The provider completes those that it can reach, the library the
// others.
func (v *VI) flushReceive(p *posted) {
	switch head := v.head; {
	case p.lost:
	case head != nil && head.posted == p:
		v.head = nil
		if head.stale {
			v.host.report(layout.AsyncErrorCompletionProtection, v)
		}
	default:
		if _, ok := v.host.read(p.address, p.handle, v.attributes.Tag); !ok {
			v.unreachable(&v.receive)
		}
	}
	v.complete(p, Completion{Status: done(flushed, layout.StatusOperationReceive)})
}
