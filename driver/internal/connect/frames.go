// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"errors"
	"slices"

	"hvia/layout"
)

const headerBytes = layout.EthernetHeaderSize

func (e *Engine) frame(to layout.MAC, kind layout.ConnectionType, reason layout.ConnectionReason) ([]byte, layout.ConnectionFrame) {
	b := make([]byte, headerBytes+layout.ConnectionFrameSize, headerBytes+layout.ConnectionFrameSize+regionsRoom)
	h := layout.EthernetHeader(b)
	copy(h.Destination(), to[:])
	copy(h.Source(), e.mac[:])
	h.SetEtherType(layout.EtherTypeConnection)
	f := layout.ConnectionFrame(b[headerBytes:])
	f.SetVersion(layout.ConnectionVersion)
	f.SetType(uint8(kind))
	f.SetReason(uint8(reason))
	return b, f
}

func (e *Engine) send(c *connection, kind layout.ConnectionType, reason layout.ConnectionReason) {
	b, f := e.frame(c.peer, kind, reason)
	f.SetCookie(c.cookie)
	if c.initiator {
		f.SetInitiator(c.local)
		f.SetResponder(c.remote)
	} else {
		f.SetInitiator(c.remote)
		f.SetResponder(c.local)
		f.SetToInitiator(1)
	}
	if introduces(kind) {
		a := c.endpoint.Attributes
		f.SetVI(c.endpoint.Number)
		f.SetSequence(c.endpoint.Sequence)
		f.SetReliability(a.Reliability)
		f.SetRights(a.Rights)
		f.SetMaxTransferSize(a.MaxTransferSize)
		if reliable(a.Reliability) {
			f.SetWindow(c.endpoint.Offer.Window)
			f.SetReadLimit(c.endpoint.Offer.ReadLimit)
		}
		b = appendRegions(b, a.Regions)
		f.SetRegions(uint8(len(a.Regions)))
	}
	if kind == layout.ConnectionTypeRequest || kind == layout.ConnectionTypePeerRequest {
		f.SetDiscriminatorLength(uint16(copy(f.Discriminator(), c.discr)))
		f.SetLocalLength(uint16(copy(f.LocalDiscriminator(), c.own)))
	}
	e.counters.Sent++
	e.owner.Send(b)
}

func introduces(kind layout.ConnectionType) bool {
	return kind == layout.ConnectionTypeRequest || kind == layout.ConnectionTypePeerRequest || kind == layout.ConnectionTypeAccept
}

// answer replies to a frame of an unknown connection.
func (e *Engine) answer(to layout.MAC, q layout.ConnectionFrame, kind layout.ConnectionType, reason layout.ConnectionReason) {
	b, f := e.frame(to, kind, reason)
	f.SetCookie(q.Cookie())
	f.SetInitiator(q.Initiator())
	f.SetResponder(q.Responder())
	f.SetToInitiator(1 - q.ToInitiator())
	e.counters.Sent++
	e.owner.Send(b)
}

// Frame takes an Ethernet frame from the wire. It counts and drops frames of
// other protocols and malformed ones.
func (e *Engine) Frame(now int64, b []byte) {
	if len(b) < headerBytes+layout.ConnectionFrameSize {
		e.counters.Malformed++
		return
	}
	h, f := layout.EthernetHeader(b), layout.ConnectionFrame(b[headerBytes:])
	if h.EtherType() != layout.EtherTypeConnection || !bytes.Equal(h.Destination(), e.mac[:]) {
		e.counters.Foreign++
		return
	}
	from := layout.MAC(h.Source())
	kind := layout.ConnectionType(f.Type())
	wellFormed := f.Version() == layout.ConnectionVersion && f.ToInitiator() <= 1 && f.Initiator() != 0 &&
		f.DiscriminatorLength() <= layout.MaxDiscriminator && f.LocalLength() <= layout.MaxDiscriminator &&
		kind >= layout.ConnectionTypeRequest && kind <= layout.ConnectionTypePeerRequest
	switch kind { // direction
	case layout.ConnectionTypeRequest, layout.ConnectionTypePeerRequest, layout.ConnectionTypeConfirm:
		wellFormed = wellFormed && f.ToInitiator() == 0
	case layout.ConnectionTypePending, layout.ConnectionTypeAccept, layout.ConnectionTypeReject:
		wellFormed = wellFormed && f.ToInitiator() == 1
	}
	proposes := introduces(kind)
	if proposes && reliable(f.Reliability()) {
		wellFormed = wellFormed && f.Window() > 0 && f.ReadLimit() > 0
	}
	regions, ok := parseRegions(b[headerBytes+layout.ConnectionFrameSize:], int(f.Regions()))
	if !wellFormed || !ok || !proposes && len(regions) > 0 {
		e.counters.Malformed++
		return
	}
	e.counters.Received++
	if kind == layout.ConnectionTypeRequest {
		e.request(now, from, f, regions)
		return
	}
	if kind == layout.ConnectionTypePeerRequest {
		e.peerRequest(now, from, f, regions)
		return
	}
	c := e.match(from, f)
	if kind == layout.ConnectionTypeDisconnect {
		e.answer(from, f, layout.ConnectionTypeDisconnectAck, 0)
		if c != nil {
			e.left(now, c, layout.ConnectionReason(f.Reason()))
		}
		return
	}
	if c == nil {
		e.counters.Unmatched++
		if kind == layout.ConnectionTypeAccept || kind == layout.ConnectionTypeConfirm {
			e.answer(from, f, layout.ConnectionTypeDisconnect, layout.ConnectionReasonUnknown)
		}
		return
	}
	switch kind {
	case layout.ConnectionTypePending:
		if c.state == requesting {
			c.remote = f.Responder()
		}
	case layout.ConnectionTypeAccept:
		e.accept(now, c, f, regions)
	case layout.ConnectionTypeConfirm:
		if c.state == accepting {
			c.state, c.next, c.deadline = open, Never, Never
			e.finish(c, nil)
		}
	case layout.ConnectionTypeReject:
		if c.state == requesting {
			e.drop(c, 0)
			c.attached = false
			e.finish(c, rejection(layout.ConnectionReason(f.Reason())))
		}
	case layout.ConnectionTypeDisconnectAck:
		if c.state == closing {
			e.drop(c, c.reason)
		}
	}
}

func rejection(r layout.ConnectionReason) error {
	switch r {
	case layout.ConnectionReasonNoMatch:
		return ErrNoMatch
	case layout.ConnectionReasonTimedOut, layout.ConnectionReasonUnknown:
		return ErrTimeout
	case layout.ConnectionReasonReliability:
		return ErrReliability
	case layout.ConnectionReasonTransferSize:
		return ErrTransferSize
	}
	return ErrRejected
}

// match returns the connection that a frame names, if the frame comes from its
// other end.
func (e *Engine) match(from layout.MAC, f layout.ConnectionFrame) *connection {
	var c *connection
	if f.ToInitiator() == 1 {
		c = e.byID[f.Initiator()]
		if c == nil || !c.initiator || c.remote != 0 && f.Responder() != 0 && c.remote != f.Responder() {
			return nil
		}
	} else {
		c = e.requests[latecomer{from, f.Cookie(), f.Initiator()}]
		if c == nil || f.Responder() != 0 && f.Responder() != c.local {
			return nil
		}
	}
	if c.peer != from || c.cookie != f.Cookie() {
		return nil
	}
	return c
}

func (e *Engine) request(now int64, from layout.MAC, f layout.ConnectionFrame, regions []Region) {
	k := latecomer{from, f.Cookie(), f.Initiator()}
	if c := e.requests[k]; c != nil {
		switch c.state {
		case undecided:
			e.send(c, layout.ConnectionTypePending, 0)
		case accepting:
			e.send(c, layout.ConnectionTypeAccept, 0)
		}
		return
	}
	if reason, ok := e.ended[k]; ok {
		e.answer(from, f, layout.ConnectionTypeReject, reason)
		return
	}
	asked := string(f.Discriminator()[:f.DiscriminatorLength()])
	i := slices.IndexFunc(e.waits, func(w *waiting) bool { return w.discr == asked && w.deadline > now })
	if i < 0 {
		e.answer(from, f, layout.ConnectionTypeReject, layout.ConnectionReasonNoMatch)
		return
	}
	w := e.waits[i]
	e.waits = slices.Delete(e.waits, i, i+1)
	c := &connection{
		state: undecided, remote: f.Initiator(), cookie: f.Cookie(), peer: from, waiter: w.owner,
		theirs: attributes(f, regions), offered: offer(f), deadline: Never, next: Never,
		link: Link{Peer: from, PeerNumber: f.VI(), ReceiveSequence: f.Sequence()},
		own:  string(f.LocalDiscriminator()[:f.LocalLength()]),
	}
	e.add(c)
	e.send(c, layout.ConnectionTypePending, 0)
	w.done(Incoming{ID: c.local, Peer: from, Discriminator: c.own, Attributes: c.theirs}, nil)
}

func (e *Engine) peerRequest(now int64, from layout.MAC, f layout.ConnectionFrame, regions []Region) {
	k := latecomer{from, f.Cookie(), f.Initiator()}
	if c := e.requests[k]; c != nil {
		if c.state == accepting {
			e.send(c, layout.ConnectionTypeAccept, 0)
		}
		return
	}
	if reason, ok := e.ended[k]; ok {
		e.answer(from, f, layout.ConnectionTypeReject, reason)
		return
	}
	asked, theirs := string(f.Discriminator()[:f.DiscriminatorLength()]), string(f.LocalDiscriminator()[:f.LocalLength()])
	mirrors := func(s state) *connection {
		for _, c := range e.list {
			if c.peers && c.initiator && c.state == s && c.peer == from && c.own == asked && c.discr == theirs {
				return c
			}
		}
		return nil
	}
	c := mirrors(requesting)
	side := bytes.Compare(e.mac[:], from[:])
	switch {
	case side == 0: // a frame from this node
		e.counters.Foreign++
		return
	case c == nil || c.deadline <= now:
		// The other side may ask first. But if this side has already given up
		// and its peer is not notified yet, the request is rejected.
		if left := mirrors(closing); left != nil && left.reason == layout.ConnectionReasonRejected {
			e.answer(from, f, layout.ConnectionTypeReject, left.reason)
			return
		}
		e.counters.Unmatched++
		return
	case side < 0: // the peer missed this side's question
		e.send(c, layout.ConnectionTypePeerRequest, 0)
		return
	}
	c.initiator, c.remote, c.cookie = false, f.Initiator(), f.Cookie()
	c.theirs, c.offered = attributes(f, regions), offer(f)
	e.requests[k] = c
	c.link = Link{
		Peer: from, PeerNumber: f.VI(), ReceiveSequence: f.Sequence(), SendSequence: c.endpoint.Sequence, Agreed: c.endpoint.Offer.agreed(c.offered),
	}
	err := c.endpoint.Attributes.Compatible(c.theirs)
	if err == nil {
		err = e.owner.Connect(c.endpoint, c.link)
	}
	if err != nil {
		reason := layout.ConnectionReasonFailed
		switch {
		case errors.Is(err, ErrReliability):
			reason = layout.ConnectionReasonReliability
		case errors.Is(err, ErrTransferSize):
			reason = layout.ConnectionReasonTransferSize
		}
		c.attached = false
		e.reject(c, reason)
		e.finish(c, err)
		return
	}
	c.state, c.interval, c.tries = accepting, 0, 0
	e.repeat(now, c)
}

func reliable(level uint8) bool { return level != uint8(layout.ReliabilityUnreliable) }

func offer(f layout.ConnectionFrame) Offer {
	return Offer{Window: f.Window(), ReadLimit: f.ReadLimit()}
}

func attributes(f layout.ConnectionFrame, regions []Region) Attributes {
	return Attributes{Reliability: f.Reliability(), Rights: f.Rights(), MaxTransferSize: f.MaxTransferSize(), Regions: regions}
}

// accept handles an Accept at the initiator.
func (e *Engine) accept(now int64, c *connection, f layout.ConnectionFrame, regions []Region) {
	switch c.state {
	case open, broken:
		e.send(c, layout.ConnectionTypeConfirm, 0)
		return
	case requesting:
	default: // closing: the timer notifies the peer
		c.remote = f.Responder()
		return
	}
	c.remote, c.theirs = f.Responder(), attributes(f, regions)
	err := c.endpoint.Attributes.Compatible(c.theirs)
	if err == nil {
		err = e.owner.Connect(c.endpoint, Link{
			Peer: c.peer, PeerNumber: f.VI(), SendSequence: c.endpoint.Sequence, ReceiveSequence: f.Sequence(),
			Agreed: c.endpoint.Offer.agreed(offer(f)),
		})
	}
	if err != nil {
		e.leave(now, c, layout.ConnectionReasonFailed, err)
		return
	}
	c.state, c.next, c.deadline = open, Never, Never
	e.send(c, layout.ConnectionTypeConfirm, 0)
	e.finish(c, nil)
}

// left handles a Disconnect, which has been acknowledged.
func (e *Engine) left(now int64, c *connection, reason layout.ConnectionReason) {
	was := c.state
	connected := was == open || was == accepting
	// An initiator that closed was connected, even if its Confirm was lost.
	opened := was == open || was == accepting && reason == layout.ConnectionReasonClosed
	index := c.endpoint.Index
	attached := c.attached
	c.attached = false
	e.drop(c, layout.ConnectionReasonClosed)
	switch {
	case was == undecided: // the program gets the error when it decides
		c.state = withdrawn
		e.list, e.byID[c.local] = append(e.list, c), c
	case was == closing || was == broken:
	case connected && attached:
		e.owner.Disconnect(index)
		if opened {
			e.finish(c, nil)
			e.owner.Lost(index)
			return
		}
		if c.peers {
			e.finish(c, rejection(reason))
			return
		}
		e.finish(c, ErrTimeout)
	default:
		e.finish(c, rejection(reason))
	}
}
