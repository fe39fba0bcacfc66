// SPDX-License-Identifier: Apache-2.0

package model

import "hvia/layout"

// receiveDescriptor is the head of the receive queue. The provider reads it
// when it becomes the head, also in state Idle, or when a message requires it.
// The provider holds it until a message has used it up [card].
type receiveDescriptor struct {
	descriptor
	posted *posted
	status uint32 // error bits of the descriptor
	maySet uint32
	stale  bool // its memory was deregistered, so it cannot complete
}

// PostReceive posts a descriptor on the receive queue. It stays there while the
// VI is idle; in the error state it completes at once as flushed [VIA].
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
	v.head.status, v.head.maySet = d.checkReceive(v.attributes.MaxTransferSize)
}

// checkReceive checks a descriptor of the receive queue. The provider ignores
// the immediate and fence bits there [card].
func (d *descriptor) checkReceive(maxTransferSize uint32) (bits, maySet uint32) {
	tooLong := uint32(0)
	if d.Length() > maxTransferSize {
		tooLong = lengthError
	}
	if d.operation() != layout.DescriptorOperationSend || d.malformed() {
		return formatError, tooLong
	}
	return tooLong, 0
}

// message is a message of which frames have arrived.
type message struct {
	operation    layout.FrameOperation
	hasImmediate bool
	reliable     bool
	dropped      bool               // the rest of it is ignored
	descriptor   *receiveDescriptor // nil for an RDMA write without immediate data
	segments     cursor
	written      uint32
	status       uint32 // error bits so far
	maySet       uint32
}

// arrive processes a frame. A VI that is not connected ignores it [VIA].
func (v *VI) arrive(f frame) {
	if v.state != layout.VIStateConnected || !v.arrivals.step() {
		return
	}
	if v.gap {
		// The gap may cover the last frame of the message, or its middle [VIA].
		v.gap = false
		v.closeMessage(0)
	}
	if f.first {
		// The first frame of the next message ends an incomplete one [card].
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

// begin processes the first frame of a message. A send uses up the head of the
// receive queue, and so does an RDMA write with immediate data. If the queue is
// empty, the VI drops the message and reports one error [VIA].
func (v *VI) begin(f frame) {
	m := &message{operation: f.operation, hasImmediate: f.hasImmediate, reliable: v.attributes.reliable()}
	needs := f.operation != layout.FrameOperationRDMAWrite || f.hasImmediate
	if needs {
		v.fetch(true) // before v.message is set: fetch may break the VI
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
		// The provider may report the error for the length of the message, or
		// for the bytes that do not fit, when they arrive.
		m.maySet |= lengthError
	}
}

// capacity returns the capacity of a receive descriptor in bytes.
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

// store writes the payload of a frame.
func (v *VI) store(m *message, f frame) {
	// After an error of the descriptor or of its buffers, nothing is written.
	// Only a message that is too long leaves the bytes that fit.
	if m.status&^lengthError != 0 || m.descriptor != nil && m.descriptor.status != 0 {
		return
	}
	if f.operation == layout.FrameOperationRDMAWrite {
		v.storeRDMA(m, f)
		return
	}
	// Length limits the bytes, even if the segments have more space.
	payload := f.payload
	if space := m.descriptor.Length() - m.written; uint64(len(payload)) > uint64(space) {
		payload = payload[:space]
		m.status |= lengthError
	}
	n, bits := m.segments.scatter(payload)
	m.written += n
	m.status |= bits
}

// scatter copies bytes into the segments until it meets an error.
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

// storeRDMA processes a frame of an RDMA write. The VI and the region must
// grant the right, and the region must have the VI's tag [VIA]. The payload of
// earlier frames stays written [card].
func (v *VI) storeRDMA(m *message, f frame) {
	b, ok := v.host.access(f.handle, f.address, uint64(len(f.payload)), v.attributes.Tag, layout.AttAccessRemoteWrite)
	switch {
	case ok && v.attributes.RDMAWrite:
		m.written += uint32(copy(b, f.payload))
	case m.descriptor != nil:
		m.status |= rdmaProtectionError // the descriptor reports the error [VIA]
	default:
		m.dropped = true
		v.host.report(layout.AsyncErrorRDMAWriteProtection, v)
	}
}

// end processes the last frame of a message. It completes the descriptor of the
// message, with immediate data if there are any. An RDMA write without
// immediate data notifies no program [VIA].
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

// completion returns the completion of the descriptor.
func (m *message) completion(bits uint32) Completion {
	if m.status&protectionError != 0 {
		// Nothing is written after a protection error, so the provider need not
		// find out if the rest fits, and cannot if the failing frame is the
		// last.
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

// closeMessage ends a message whose last frame did not arrive. Its descriptor
// reports the error. Without a descriptor, an asynchronous error does [VIA].
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

// consume completes the head of the receive queue and fetches the next
// descriptor. If the completion cannot be written, the descriptor never gets a
// status: the VI reports an asynchronous error and breaks [vipl].
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

// flushReceive flushes a descriptor of the receive queue that no message has
// used up. The provider completes the descriptors that it can reach, the
// library completes the others.
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
