// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"hvia/layout"
	"hvia/params"
)

// The model of a reliable VI, from the definitions of the transport: which of
// its frames are accepted, what breaks its connection, and when its requests
// complete. It ignores time: requests and read responses count as sent when
// everything has settled (settled). Until then it marks results of a race
// between the card's engines (racing), so that a test can avoid that VI.

// reliable is the additional state of a VI at a reliable level.
type reliable struct {
	level       layout.Reliability
	readable    bool // the peer may RDMA read
	window      uint8
	retryLimit  uint8
	readLimit   uint8
	timeoutLog2 uint8
	flow
}

type flow struct {
	una, top uint32 // the oldest unacknowledged frame, and the one after the last that was certainly sent
	own      []*ownMessage
	answers  []*readAnswer // accepted requests whose response is not acknowledged, oldest first

	refused bool // a NAK was sent: no more frames are accepted
	stopped bool // the peer sent a NAK: nothing more is sent
	lost    bool // like stopped, and the NAKed frame was acknowledged before
	broken  bool // the ledger has reported the lost connection
	vague   bool // some pending frames may wait for the window
	racing  bool // the outcome of the next frame depends on the card's engines
}

// ownMessage is a request of the VI.
type ownMessage struct {
	p        *posted
	last     uint32 // number of its last frame
	read     bool
	answered bool
	errors   uint32 // status bits of its completion
}

// readAnswer is the response to an RDMA read of the peer.
type readAnswer struct {
	frames uint32
	last   uint32 // number of its last frame
	begun  bool
	bad    bool // the peer has no read right
}

func (x *reliable) begin(next uint32) { x.flow = flow{una: next, top: next} }

// alive reports whether the ledger does anything for the connection.
func (f *flow) alive() bool { return !f.broken && !f.lost }

func (v *vi) lose() {
	v.reliable.broken = true
	v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorConnectionLost, v.index})
}

// hearReliable processes a well-formed VIA frame of the VI's peer. It returns
// the frame's fate.
func (v *vi) hearReliable(operation layout.FrameOperation, h layout.ViaHeader, payload []byte) layout.Counter {
	x, f := &v.message, &v.reliable.flow
	acknowledge := operation == layout.FrameOperationAcknowledge
	ahead := int32(h.Sequence() - v.expected)
	switch {
	case f.refused && !acknowledge:
		return layout.CounterReceiveNAKed
	case !v.connected:
		return layout.CounterReceiveBadVI
	case acknowledge:
		if h.Flags() != 0 || len(payload) != 0 || h.Immediate() > uint32(layout.AcknowledgeCodeTransport) {
			return layout.CounterReceiveMalformed
		}
		v.acknowledged(h.Sequence(), layout.AcknowledgeCode(h.Immediate()))
		return layout.CounterReceiveAcknowledge
	case ahead < 0:
		return layout.CounterReceiveOldSequence
	case ahead > 0:
		return layout.CounterReceiveOutOfOrder
	}
	first, last, data := flagsOf(h)
	immediate := data != nil
	total, offset := uint32(h.Address()>>32), uint32(h.Address())
	rdma, answer := operation == layout.FrameOperationRDMAWrite, operation == layout.FrameOperationRDMAReadResponse
	end := uint64(offset) + uint64(len(payload))
	ask := operation == layout.FrameOperationRDMAReadRequest
	fits := (!ask || first && last && !immediate && len(payload) == 0) && // consistent by itself
		(!answer || !immediate && (last && end == uint64(total) || !last && end < uint64(total)))
	if first {
		fits = fits && !x.open && (rdma || ask || offset == 0)
	} else {
		fits = fits && x.open && rdma == x.rdma && answer == x.answer && immediate == x.immediate &&
			(rdma || offset == x.came && total == x.total)
	}
	if !fits {
		if x.open && !x.answer {
			v.m.counts[layout.CounterReceiveAborted]++
			if x.held != nil {
				x.errors |= layout.DescriptorStatusPartialErrorMask
			}
		}
		v.nak(nil, true)
		return layout.CounterReceiveNAKed
	}

	reason := layout.CounterReceiveFrame
	switch {
	case ask:
		switch {
		case !v.reliable.readable:
			v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorRDMAReadProtection, v.index})
			v.nak(nil, false)
			return layout.CounterReceiveProtection
		case !f.alive() || f.stopped || len(f.answers) == params.LedgerResponses:
			return layout.CounterReceiveReadLimit
		}
		v.request(h)
	case answer:
		if reason = v.answered(h, payload, first, last); reason != layout.CounterReceiveFrame {
			return reason
		}
	case first:
		*x = message{open: true, rdma: rdma, immediate: immediate, total: total}
		reason = v.begin(h, payload)
	default:
		reason = v.place(h, payload)
	}
	v.expected++
	x.came += uint32(len(payload))
	switch {
	case reason != layout.CounterReceiveFrame:
		// Without a descriptor the error is already reported.
		v.nak(data, x.held != nil)
	case last && x.held != nil:
		v.ended(data)
	case last:
		*x = message{}
	}
	return reason
}

// ended completes the receive descriptor of the open message.
func (v *vi) ended(immediate *uint32) {
	x := &v.message
	status := x.ended()
	if immediate != nil {
		status |= layout.DescriptorStatusImmediateMask
	}
	v.m.counts[layout.CounterReceiveMessage]++
	held, written := x.held, x.written
	*x = message{}
	v.used(held, status, written, immediate)
}

// nak sends a NAK, which breaks the connection, for the frame that just
// came.
func (v *vi) nak(immediate *uint32, tell bool) {
	if v.message.held != nil {
		v.ended(immediate)
	}
	v.message = message{}
	v.reliable.refused = true
	if tell {
		v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorConnectionLost, v.index})
	}
}

func (v *vi) request(h layout.ViaHeader) {
	f := &v.reliable.flow
	n := h.Immediate()
	a := &readAnswer{frames: max((n+layout.MaxPayload-1)/layout.MaxPayload, 1)}
	if n > 0 {
		_, code := v.m.translate(h.Handle(), v.tag, layout.AttAccessRemoteRead, h.Address(), int(n))
		a.bad = code != layout.AttErrorNone
	}
	f.answers = append(f.answers, a)
	// A NAK of the read may come at any time from now on.
	f.racing = f.racing || f.answers[0].bad
}

// answered processes a frame of a read response.
func (v *vi) answered(h layout.ViaHeader, payload []byte, first, last bool) layout.Counter {
	x, f := &v.message, &v.reliable.flow
	total := uint32(h.Address() >> 32)
	var read *ownMessage
	if f.alive() {
		for _, o := range f.own {
			if o.read && !o.answered {
				read = o
				break
			}
		}
	}
	if read == nil || read.errors != 0 || read.p.length != total {
		v.nak(nil, true)
		return layout.CounterReceiveNAKed
	}
	if first {
		*x = message{open: true, answer: true, total: total}
		x.place.data = read.p.all()[1:]
	}
	for rest := payload; len(rest) > 0; {
		s := &x.place
		if s.rest.length == 0 {
			s.rest = s.data[s.next]
			s.next++
			continue
		}
		g, code := v.m.translate(s.rest.handle, v.tag, layout.AttAccessLocal, s.rest.address, int(s.rest.length))
		if code != layout.AttErrorNone {
			v.m.fail("the test's read of VI %d has a bad segment", v.index)
		}
		n := min(len(rest), int(s.rest.length))
		g.expect(int(s.rest.address-g.address), rest[:n])
		rest = rest[n:]
		s.rest.address += uint64(n)
		s.rest.length -= uint32(n)
	}
	if last {
		read.answered = true
		f.advance(read.last + 1) // a response also acknowledges its request
		v.progress()
	}
	return layout.CounterReceiveFrame
}

// advance marks frames as acknowledged.
func (f *flow) advance(number uint32) {
	if int32(number-f.una) <= 0 {
		return
	}
	f.una = number
	for len(f.answers) > 0 && f.answers[0].begun && int32(f.una-f.answers[0].last) > 0 {
		f.answers = f.answers[1:]
		f.racing = true // their slots become free later
	}
}

func (v *vi) acknowledged(number uint32, code layout.AcknowledgeCode) {
	f := &v.reliable.flow
	if !f.alive() || f.stopped {
		return
	}
	span, at := f.top-f.una, number-f.una
	switch {
	case code <= layout.AcknowledgeCodeGap:
		if at > span {
			return // of a frame never sent, or acknowledged long ago
		}
		f.vague = f.vague || code == layout.AcknowledgeCodeGap && at < span
		f.advance(number)
	case at < span, f.una-1-number < refusedBehind:
		f.stopped, f.racing = true, true
		bit := map[layout.AcknowledgeCode]uint32{
			layout.AcknowledgeCodeRemoteDescriptor: layout.DescriptorStatusRemoteDescriptorErrorMask,
			layout.AcknowledgeCodeRDMAProtection:   layout.DescriptorStatusRDMAProtectionErrorMask,
			layout.AcknowledgeCodeTransport:        layout.DescriptorStatusTransportErrorMask,
		}[code]
		f.lost = true // unless it NAKs a request: a read's NAK may come after its acknowledgement
		for _, o := range f.own {
			if at < span && int32(o.last-number) >= 0 || at >= span && o.read && !o.answered && o.last == number {
				if o.errors == 0 {
					o.errors = bit
				}
				f.lost = false
				break
			}
		}
		if at < span {
			f.advance(number)
		}
	}
	v.progress()
}

// refusedBehind is how far an accepted NAK may be behind the last acknowledged
// number.
const refusedBehind = 256

func (o *ownMessage) complete(una uint32) bool {
	return int32(una-o.last) > 0 && (!o.read || o.answered)
}

// progress completes requests, in order, and reports a lost connection.
func (v *vi) progress() {
	f := &v.reliable.flow
	for len(f.own) > 0 && !f.broken {
		o := f.own[0]
		switch {
		case o.errors != 0:
			v.m.written(o.p, o.p.ended(o.errors), 0)
			f.own = f.own[1:]
			v.lose()
		case o.complete(f.una):
			v.m.written(o.p, o.p.ended(0), int(o.p.length))
			f.own = f.own[1:]
		default:
			if f.lost {
				v.lose()
			}
			return
		}
	}
	if f.lost && !f.broken {
		v.lose()
	}
}

// settled updates the model: every permitted frame was sent.
func (v *vi) settled() {
	f := &v.reliable.flow
	f.racing = false
	if !f.alive() || f.stopped || !v.connected {
		return
	}
	for i, a := range f.answers {
		switch {
		case a.begun:
			continue
		case a.bad && i == 0:
			// The read is NAKed once all before it is acknowledged.
			f.refused, f.broken = true, true
			v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorRDMAReadProtection, v.index})
			return
		case a.bad || f.vague:
			return
		}
		a.begun, a.last = true, f.top+a.frames-1
		f.top += a.frames
	}
}

// submit posts a valid message of a reliable VI. It is sent when everything has
// settled.
func (v *vi) submit(d descriptor) {
	f := &v.reliable.flow
	o := &ownMessage{p: v.post(d), read: d.operation() == layout.DescriptorOperationRDMARead}
	frames := uint32(1)
	if !o.read {
		frames = max((d.length+layout.MaxPayload-1)/layout.MaxPayload, 1)
	}
	o.last = f.top + frames - 1
	f.top += frames
	f.own = append(f.own, o)
	v.m.counts[layout.CounterDescriptorFetched]++
	v.send.posted = v.send.posted[:0]
	for _, o := range f.own {
		v.send.posted = append(v.send.posted, o.p)
	}
}

func (v *vi) flushedOwn() {
	f := &v.reliable.flow
	for _, o := range f.own {
		switch {
		case o.errors != 0:
			v.m.written(o.p, o.p.ended(o.errors), 0)
		case o.complete(f.una):
			v.m.written(o.p, o.p.ended(0), int(o.p.length))
		default:
			v.m.written(o.p, o.p.ended(layout.DescriptorStatusFlushedMask), 0)
		}
	}
	f.own, f.answers, v.send.posted = nil, nil, nil
}
