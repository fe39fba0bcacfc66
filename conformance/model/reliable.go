// SPDX-License-Identifier: Apache-2.0

package model

import "hvia/layout"

// The reliable levels: every message arrives exactly once and in order, and its
// descriptor completes when the peer has it, or the connection is broken at both
// ends [VIA]. The wire does not matter to a program unless it is cut for good.
// Both levels look alike from here: they differ in what the host bus may still
// refuse behind an acknowledgement, and the model has no bus.

// transmitReliably carries out what can be of the send queue.
func (v *VI) transmitReliably() {
	reads := false // one is under way
	for _, p := range v.send.posted {
		switch {
		case p.completion != nil:
			continue
		case p.begun:
			reads = reads || p.read && p.outcome == nil
			continue
		}
		d, ok := v.host.read(p.address, p.handle, v.attributes.Tag)
		switch {
		case v.state != layout.VIStateConnected && !ok:
			v.unreachable(&v.send)
			v.flush()
			return
		case v.state != layout.VIStateConnected:
			c := Completion{Status: done(flushed, d.echo())}
			if v.state == layout.VIStateError {
				c.Or = v.ownError(d)
			}
			v.complete(p, c)
			continue
		case reads && ok && d.fenced():
			return // held, with all behind it [VIA]
		case !ok && !v.turn(p):
			return
		case !ok:
			v.unreachable(&v.send)
			return
		}
		if !v.carryOut(p, d) {
			return
		}
		reads = reads || p.read && p.outcome == nil && p.completion == nil
	}
}

func (d *descriptor) fenced() bool {
	return d.Control()&layout.DescriptorControlQueueFenceMask != 0
}

// turn says whether all before a descriptor of the send queue are complete.
func (v *VI) turn(p *posted) bool { return v.send.next() == p }

// carryOut carries a descriptor of a connected VI out; false if nothing behind it
// can be.
func (v *VI) carryOut(p *posted, d *descriptor) bool {
	bits := d.refusedForSend(v.attributes)
	switch {
	case bits != 0 && !v.turn(p):
		return false // an error is told in its turn, and nothing is begun behind it [transport]
	case bits != 0:
		v.fail(p, Completion{Status: done(bits, d.echo())})
		return false
	}
	peer := v.peer
	v.sending, v.losing = true, false
	defer func() { v.sending = false }()
	p.begun = true
	if d.operation() == layout.DescriptorOperationRDMARead {
		p.read = true
		return v.readRemotely(p, d)
	}
	frames, bits, _ := v.cut(d)
	for _, f := range frames {
		heard, refusal := peer.accept(f)
		switch {
		case !heard:
			return false
		case refusal != 0:
			c := v.refused(d, refusal)
			if bits != 0 { // and the sender may have found something of its own first
				c.MaySet, c.Or = bits, done(bits, d.echo())
			}
			v.fail(p, c)
			return false
		}
	}
	if bits != 0 {
		// Found on the way: the peer is left with a message that does not end.
		if v.turn(p) {
			v.fail(p, Completion{Status: done(bits, d.echo())})
		}
		return false
	}
	if v.work.step() { // the acknowledgement comes
		c := Completion{Status: done(0, d.echo()), Length: d.Length()}
		if v.losing && v.host.fabric.Faulty {
			c.Or = done(flushed, d.echo())
		}
		v.ended(p, c)
	}
	if v.losing {
		v.lost()
		return false
	}
	return true
}

// ended is the end of a descriptor that was carried out; it completes with those
// before it [VIA].
func (v *VI) ended(p *posted, c Completion) {
	p.outcome = &c
	for q := v.send.next(); q != nil && q.outcome != nil; q = v.send.next() {
		v.complete(q, *q.outcome)
	}
}

// fail ends a descriptor in error, and breaks the connection behind it: nothing
// that was posted later is carried out [VIA]. It says that it moved nothing
// [transport].
func (v *VI) fail(p *posted, c Completion) {
	if v.work.step() {
		v.ended(p, c)
	}
	peer := v.abandon()
	if peer != nil && peer.state == layout.VIStateConnected {
		peer.lost()
	}
}

// refused is the completion of a message that the peer refused.
func (v *VI) refused(d *descriptor, bits uint32) Completion {
	c := Completion{Status: done(bits, d.echo())}
	if v.host.fabric.Faulty {
		c.Or = done(flushed, d.echo())
	}
	return c
}

// accept is the arrival of a frame of a reliable VI's message. It is not heard by
// a VI that is not connected. A refusal, other than 0, is the bit that the sender
// gets; this side is in the error state then, and its program knows why [VIA].
func (v *VI) accept(f frame) (heard bool, refusal uint32) {
	if v.state != layout.VIStateConnected || !v.hearing.step() {
		return false, 0
	}
	if f.first {
		v.begin(f)
	}
	m := v.message // there is one: the frames of a connection are in order
	needs := m.operation != layout.FrameOperationRDMAWrite || m.hasImmediate
	if !m.dropped {
		v.store(m, f)
	}
	switch {
	case m.dropped && needs:
		refusal = remoteError // there is no receive descriptor
	case m.dropped, m.status&rdmaProtectionError != 0:
		refusal = rdmaProtectionError
	case m.status != 0:
		refusal = remoteError
	case f.last:
		v.message = nil
		v.end(m, f)
		return true, 0
	default:
		return true, 0
	}
	v.message = nil
	if m.descriptor != nil {
		// It ends with the frame that fails [transport].
		v.end(m, f)
	}
	if v.state == layout.VIStateConnected {
		v.abandon()
	}
	return true, refusal
}

// readRemotely is an RDMA read: the peer's memory is read when the request has
// come, behind all that was sent before it, and the read is complete when all of
// it is in the memory of the reader [VIA].
func (v *VI) readRemotely(p *posted, d *descriptor) bool {
	peer, remote := v.peer, d.addressSegment()
	heard, payload, refusal := peer.answer(remote.Handle(), remote.Address(), d.Length())
	switch {
	case !heard:
		return false
	case refusal != 0:
		v.fail(p, v.refused(d, refusal))
		return false
	}
	segments := cursor{descriptor: d}
	for {
		n := min(len(payload), layout.MaxPayload)
		if !v.hearing.step() {
			return true // later messages may overtake the answer
		}
		if _, bits := segments.scatter(payload[:n]); bits != 0 {
			v.fail(p, Completion{Status: done(bits, d.echo())})
			return false
		}
		if payload = payload[n:]; len(payload) == 0 {
			break
		}
	}
	if !v.hearing.step() {
		return true // it is all in memory, and the connection ends before that is told
	}
	v.ended(p, Completion{Status: done(0, d.echo()), Length: d.Length()})
	return true
}

// answer is the arrival of a request to read. It needs the right of the VI and
// that of the region, and the region needs the VI's tag [VIA]. Of 0 bytes no
// handle is looked at [transport].
func (v *VI) answer(handle uint32, address uint64, length uint32) (heard bool, payload []byte, refusal uint32) {
	if v.state != layout.VIStateConnected || !v.hearing.step() {
		return false, nil, 0
	}
	ok := v.attributes.RDMARead
	if ok && length > 0 {
		payload, ok = v.host.access(handle, address, uint64(length), v.attributes.Tag, layout.AttAccessRemoteRead)
	}
	if ok {
		// A copy: the reader may be on the same host.
		return true, append([]byte(nil), payload...), 0
	}
	v.host.report(layout.AsyncErrorRDMAReadProtection, v)
	v.abandon()
	return true, nil, rdmaProtectionError
}

// Cut is the end of a connection whose wire is cut for longer than the provider
// tries: the VI's oldest descriptor of the send queue that is not complete has a
// transport error, and both programs lose the connection [VIA]. A VI that sends
// nothing does not notice.
func (v *VI) Cut() {
	p := v.send.next()
	if v.state != layout.VIStateConnected || p == nil {
		return
	}
	if d, ok := v.host.read(p.address, p.handle, v.attributes.Tag); ok {
		v.work = limit{}
		v.fail(p, Completion{Status: done(transportError, d.echo())})
	}
}
