// SPDX-License-Identifier: Apache-2.0

package model

import "hvia/layout"

// At the reliable levels every message arrives exactly once and in order. Its
// descriptor completes when the peer has the message; otherwise the connection
// breaks at both ends [VIA]. Wire faults have no visible effect, except a
// permanent loss of the link. The model treats both levels alike: they differ
// in the host bus errors that may follow an acknowledgement, and the model has
// no bus.

// transmitReliably executes the descriptors of the send queue as far as
// possible.
func (v *VI) transmitReliably() {
	reads := false // an RDMA read is in flight
	for _, p := range v.send.posted {
		switch {
		case p.completion != nil:
			continue
		case p.started:
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
			return // the fence holds it and all behind it [VIA]
		case !ok && !v.oldest(p):
			return
		case !ok:
			v.unreachable(&v.send)
			return
		}
		if !v.execute(p, d) {
			return
		}
		reads = reads || p.read && p.outcome == nil && p.completion == nil
	}
}

func (d *descriptor) fenced() bool {
	return d.Control()&layout.DescriptorControlQueueFenceMask != 0
}

// oldest reports whether all earlier descriptors of the send queue are
// complete.
func (v *VI) oldest(p *posted) bool { return v.send.next() == p }

// execute executes a descriptor of a connected VI. It returns false if no later
// descriptor can execute.
func (v *VI) execute(p *posted, d *descriptor) bool {
	bits := d.checkSend(v.attributes)
	switch {
	case bits != 0 && !v.oldest(p):
		return false // the error waits for its turn and blocks what is behind it [transport]
	case bits != 0:
		v.fail(p, Completion{Status: done(bits, d.echo())})
		return false
	}
	peer := v.peer
	v.sending, v.losing = true, false
	defer func() { v.sending = false }()
	p.started = true
	if d.operation() == layout.DescriptorOperationRDMARead {
		p.read = true
		return v.readRemotely(p, d)
	}
	frames, bits, _ := v.cut(d)
	for _, f := range frames {
		arrived, nak := peer.accept(f)
		switch {
		case !arrived:
			return false
		case nak != 0:
			c := v.nakCompletion(d, nak)
			if bits != 0 { // the sender may have found its local error first
				c.MaySet, c.Or = bits, done(bits, d.echo())
			}
			v.fail(p, c)
			return false
		}
	}
	if bits != 0 {
		// The sender found the error while it sent: the peer keeps an
		// incomplete message.
		if v.oldest(p) {
			v.fail(p, Completion{Status: done(bits, d.echo())})
		}
		return false
	}
	if v.work.step() { // the acknowledgement arrives
		c := Completion{Status: done(0, d.echo()), Length: d.Length()}
		if v.losing && v.host.fabric.Faulty {
			c.Or = done(flushed, d.echo())
		}
		v.finish(p, c)
	}
	if v.losing {
		v.lost()
		return false
	}
	return true
}

// finish records the result of a descriptor. It completes after those before it
// [VIA].
func (v *VI) finish(p *posted, c Completion) {
	p.outcome = &c
	for q := v.send.next(); q != nil && q.outcome != nil; q = v.send.next() {
		v.complete(q, *q.outcome)
	}
}

// fail ends a descriptor with an error and breaks the connection. No later
// descriptor executes [VIA]. The length of the failed one is 0 [transport].
func (v *VI) fail(p *posted, c Completion) {
	if v.work.step() {
		v.finish(p, c)
	}
	peer := v.abandon()
	if peer != nil && peer.state == layout.VIStateConnected {
		peer.lost()
	}
}

// nakCompletion returns the completion of a message that the peer NAKed.
func (v *VI) nakCompletion(d *descriptor, bits uint32) Completion {
	c := Completion{Status: done(bits, d.echo())}
	if v.host.fabric.Faulty {
		c.Or = done(flushed, d.echo())
	}
	return c
}

// accept processes a frame for a reliable VI. A VI that is not connected
// ignores it. A NAK other than 0 is the error bit for the sender; the VI is
// then in the error state and has reported why [VIA].
func (v *VI) accept(f frame) (arrived bool, nak uint32) {
	if v.state != layout.VIStateConnected || !v.arrivals.step() {
		return false, 0
	}
	if f.first {
		v.begin(f)
	}
	m := v.message // not nil: the frames of a connection are in order
	needs := m.operation != layout.FrameOperationRDMAWrite || m.hasImmediate
	if !m.dropped {
		v.store(m, f)
	}
	switch {
	case m.dropped && needs:
		nak = remoteError // no receive descriptor
	case m.dropped, m.status&rdmaProtectionError != 0:
		nak = rdmaProtectionError
	case m.status != 0:
		nak = remoteError
	case f.last:
		v.message = nil
		v.end(m, f)
		return true, 0
	default:
		return true, 0
	}
	v.message = nil
	if m.descriptor != nil {
		// The descriptor completes with the failing frame [transport].
		v.end(m, f)
	}
	if v.state == layout.VIStateConnected {
		v.abandon()
	}
	return true, nak
}

// readRemotely executes an RDMA read. The peer reads its memory when the
// request arrives, after everything sent before it. The read completes when the
// reader has all the data in memory [VIA].
func (v *VI) readRemotely(p *posted, d *descriptor) bool {
	peer, remote := v.peer, d.addressSegment()
	arrived, payload, nak := peer.serveRead(remote.Handle(), remote.Address(), d.Length())
	switch {
	case !arrived:
		return false
	case nak != 0:
		v.fail(p, v.nakCompletion(d, nak))
		return false
	}
	segments := cursor{descriptor: d}
	for {
		n := min(len(payload), layout.MaxPayload)
		if !v.arrivals.step() {
			return true // later messages may overtake the read response
		}
		if _, bits := segments.scatter(payload[:n]); bits != 0 {
			v.fail(p, Completion{Status: done(bits, d.echo())})
			return false
		}
		if payload = payload[n:]; len(payload) == 0 {
			break
		}
	}
	if !v.arrivals.step() {
		return true // all data arrived, but the connection ended before the completion
	}
	v.finish(p, Completion{Status: done(0, d.echo()), Length: d.Length()})
	return true
}

// serveRead processes a read request. The VI and the region must grant the
// right, and the region must have the VI's tag [VIA]. A read of 0 bytes ignores
// the handle [transport].
func (v *VI) serveRead(handle uint32, address uint64, length uint32) (arrived bool, payload []byte, nak uint32) {
	if v.state != layout.VIStateConnected || !v.arrivals.step() {
		return false, nil, 0
	}
	ok := v.attributes.RDMARead
	if ok && length > 0 {
		payload, ok = v.host.access(handle, address, uint64(length), v.attributes.Tag, layout.AttAccessRemoteRead)
	}
	if ok {
		// A copy, because the reader may be on the same host.
		return true, append([]byte(nil), payload...), 0
	}
	v.host.report(layout.AsyncErrorRDMAReadProtection, v)
	v.abandon()
	return true, nil, rdmaProtectionError
}

// Cut ends a connection whose link is down for longer than the provider
// retries: the oldest incomplete send descriptor of the VI gets a transport
// error, and both programs lose the connection [VIA]. A VI without sends does
// not notice.
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
