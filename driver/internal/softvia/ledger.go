// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"slices"

	"hvia/layout"
	"hvia/params"
)

// Clock is an environment with time. Without one, connections of reliable VIs
// never time out: the network must lose nothing.
type Clock interface {
	// Now returns the time in clocks of the card, from 1 on.
	Now() uint64
	// Alarm requests a call of Expire for a VI at a time.
	Alarm(index int, at uint64)
}

// entry is a request of this side, or a response to an RDMA read of the peer,
// in the ledger of a reliable VI.
type entry struct {
	length  uint32
	started bool
	first   uint32 // number of its first frame, once started
	// status error bits; with any set, no further frame of the entry is sent
	bits uint32

	// Of a request.
	body        descriptor
	unreachable bool // the descriptor could not be read
	stale       bool // the descriptor's memory was deregistered
	answered    bool // an RDMA read: all its data are in memory
	walk        gather
	walked      uint32 // bytes of the message before the walk's position

	// Of a response.
	request uint32 // number of the request's frame
	va      uint64
	handle  uint32
}

func (m *entry) read() bool {
	return m.body.control != nil && m.body.operation() == layout.DescriptorOperationRDMARead
}

func (m *entry) frames() uint32 {
	if m.read() || m.length == 0 {
		return 1
	}
	return (m.length-1)/layout.MaxPayload + 1
}

func (m *entry) end() uint32 { return m.first + m.frames() }

// failed reports whether the entry completes in error in its turn and breaks
// the connection.
func (m *entry) failed() bool { return m.bits != 0 || m.unreachable }

// behind reports whether a number comes after another one, modulo 2^32.
func behind(a, b uint32) bool { return int32(a-b) > 0 }

const (
	ledgerMessages   = params.LedgerMessages
	ledgerResponses  = params.LedgerResponses
	acknowledgeEvery = params.AcknowledgeEvery
	retryAliveFactor = params.RetryAliveFactor
)

// ledger has the transmit state of a reliable VI since it was connected.
type ledger struct {
	una  uint32 // the oldest unacknowledged number
	next uint32 // the next number to send
	end  uint32 // behind the last frame of the last started message
	top  uint32 // behind the last frame ever sent

	window, credit uint32 // the agreed limit, and the congestion window
	counted        uint32 // frames acknowledged towards the growth of credit
	gone           bool   // rewound to una for a gap, no progress since
	timeouts       int    // consecutive, without a frame from the peer
	tries          int    // consecutive timeouts without progress
	deadline       uint64

	reads   int      // limit of outstanding RDMA reads
	own     []*entry // incomplete requests, in queue order
	answers []*entry // unacknowledged responses, in the order of the requests
	sending []*entry // both kinds, started and unacknowledged, by number
	broken  bool     // all work has stopped
	stopped bool     // NAKed by the peer: nothing more is sent
	stuck   bool     // a partly sent message failed: no number can follow its frames
}

func (v *viState) reliable() bool {
	level := layout.Reliability(v.ctx().Attributes() & layout.VIContextAttributesReliabilityMask >> layout.VIContextAttributesReliabilityLsb)
	return level == layout.ReliabilityDelivery || level == layout.ReliabilityReception
}

// opens reports whether another descriptor may start.
func (v *viState) opens() bool {
	l := &v.ledger
	return len(l.own) < ledgerMessages && !l.broken && !l.stopped && v.nak == nil && !slices.ContainsFunc(l.own, (*entry).failed)
}

// underWay reports whether the VI waits for an acknowledgement or a read
// response, and so needs a timeout.
func (v *viState) underWay() bool {
	l := &v.ledger
	return v.state == layout.VIStateConnected && !l.broken &&
		(l.una != l.top || slices.ContainsFunc(l.own, func(m *entry) bool { return m.started && m.read() && !m.answered }))
}

func (v *viState) connect() {
	c := v.ctx()
	window := max(1, uint32(c.Window()))
	first := c.SendSequence()
	v.ledger = ledger{una: first, next: first, end: first, top: first, window: window, credit: window, reads: max(1, int(c.ReadLimit()))}
	v.nak, v.gap, v.unsaid = nil, false, 0
}

func (e *Engine[T]) open(who T, index int, d descriptor, reachable bool) {
	v := &e.vis[index]
	m := &entry{unreachable: !reachable}
	if reachable {
		m.body, m.length, m.bits = d, d.control.Length(), v.unfit(&d)
		m.restart()
	}
	v.ledger.own = append(v.ledger.own, m)
	e.turn(who, index)
}

func (m *entry) restart() { m.walk, m.walked = gather{body: &m.body, next: m.body.firstData()}, 0 }

// turn continues the VI after a change: it completes in queue order, NAKs reads
// and sends frames.
func (e *Engine[T]) turn(who T, index int) {
	e.settle(who, index)
	e.nakRead(who, index)
	e.transmit(who, index)
	e.watch(index)
	e.posted(who, QueueID{index, SendQueue})
}

// settle completes finished messages, in order. Work behind a failed one stops.
func (e *Engine[T]) settle(who T, index int) {
	v := &e.vis[index]
	l := &v.ledger
	for len(l.own) > 0 && !l.broken {
		m := l.own[0]
		if !m.failed() && !l.whole(m) {
			return
		}
		l.own = l.own[1:]
		e.settled(who, index, m, m.bits)
		if m.bits != 0 {
			e.env.Async(who, layout.AsyncErrorConnectionLost, index)
		}
		l.broken = m.failed()
	}
}

// whole reports whether the peer has the complete request, or, for a read, this
// side has all data.
func (l *ledger) whole(m *entry) bool {
	if !m.started || m.read() {
		return m.started && m.answered
	}
	return !behind(m.end(), l.una)
}

func (e *Engine[T]) settled(who T, index int, m *entry, bits uint32) {
	if m.unreachable {
		e.env.Async(who, layout.AsyncErrorPostDescriptor, index)
		return
	}
	n := completion{length: m.length, bits: bits, echo: m.body.echo()}
	switch {
	case bits == layout.DescriptorStatusFlushedMask:
		n.length = 0
		e.env.Count(layout.CounterDescriptorFlushed)
	case bits != 0:
		n.length = 0
		e.env.Count(layout.CounterDescriptorError)
	}
	if m.stale {
		e.env.Count(layout.CounterCompletionError)
		e.env.Async(who, layout.AsyncErrorCompletionProtection, index)
		return
	}
	e.complete(who, QueueID{index, SendQueue}, &m.body, n)
}

// flushLedger completes all messages as the VI is disconnected.
func (e *Engine[T]) flushLedger(who T, index int) {
	l := &e.vis[index].ledger
	for _, m := range l.own {
		bits := m.bits
		if bits == 0 && !l.whole(m) {
			bits = layout.DescriptorStatusFlushedMask
		}
		e.settled(who, index, m, bits)
	}
	*l = ledger{}
}

// nakRead NAKs the peer's oldest unanswered read if it has failed. NAKs are
// sent in the order of the requests.
func (e *Engine[T]) nakRead(who T, index int) {
	v := &e.vis[index]
	if len(v.ledger.answers) == 0 || v.ledger.answers[0].bits == 0 || v.nak != nil || v.ledger.broken || v.ledger.stopped {
		return
	}
	e.env.Async(who, layout.AsyncErrorRDMAReadProtection, index)
	e.reject(who, index, v.ledger.answers[0].request, layout.AcknowledgeCodeRDMAProtection)
}

func (e *Engine[T]) transmit(who T, index int) {
	v := &e.vis[index]
	l := &v.ledger
	for v.state == layout.VIStateConnected && !l.broken && !l.stopped && l.next-l.una < l.credit {
		if !v.underWay() {
			e.progress(v) // the frames sent now get the full time
		}
		if l.next == l.end && (l.stuck || !v.begin()) || behind(l.next, l.end) {
			return
		}
		i := slices.IndexFunc(l.sending, func(m *entry) bool { return behind(m.end(), l.next) })
		e.transmitFrame(who, index, l.sending[i])
	}
}

// begin numbers the next message: a response, otherwise a request whose fence
// and the limit of reads allow it. After a NAK no request starts, but responses
// of earlier reads do.
func (v *viState) begin() bool {
	l := &v.ledger
	for _, m := range l.answers {
		if m.bits != 0 {
			break // it and the entries behind it wait for its NAK
		}
		if !m.started {
			l.number(m)
			return true
		}
	}
	reads := 0
	for _, m := range l.own {
		switch {
		case m.failed() || v.nak != nil:
			return false
		case m.started:
			if m.read() && !m.answered {
				reads++
			}
			continue
		case m.body.control.Control()&layout.DescriptorControlQueueFenceMask != 0 && reads > 0,
			m.read() && reads >= l.reads:
			return false
		}
		l.number(m)
		return true
	}
	return false
}

func (l *ledger) number(m *entry) {
	m.started, m.first = true, l.end
	l.end = m.end()
	l.sending = append(l.sending, m)
}

func (e *Engine[T]) transmitFrame(who T, index int, m *entry) {
	v := &e.vis[index]
	l := &v.ledger
	offset := (l.next - m.first) * layout.MaxPayload
	n := min(m.length-offset, layout.MaxPayload)
	last := l.next+1 == m.end()
	var f frameHead
	var payload []Range
	switch {
	case m.body.control == nil:
		f = frameHead{
			operation: layout.FrameOperationRDMAReadResponse, flags: messageFlags(offset, last), bytes: n,
			address: uint64(m.length)<<32 | uint64(offset),
		}
		var ok bool
		if payload, ok = e.answerBytes(v, m, offset, n); !ok {
			m.bits = layout.DescriptorStatusRDMAProtectionErrorMask
		}
	case m.stale: // the descriptor is read again for each frame
		m.bits = layout.DescriptorStatusProtectionErrorMask
	case m.read():
		f = m.body.frame(0, 0, true)
	default:
		f = m.body.frame(offset, n, last)
		payload, m.bits = m.payload(offset, n, last)
	}
	if m.bits != 0 {
		e.fail(who, index, m)
		return
	}
	f.sequence = l.next
	l.next++
	e.env.Count(layout.CounterTransmitFrame)
	if behind(l.next, l.top) {
		l.top = l.next
		if last {
			e.env.Count(layout.CounterTransmitMessage)
		}
	} else {
		e.env.Count(layout.CounterRetransmitFrame)
	}
	// Of a reliable VI, Emit does not wait and has read the payload.
	_ = e.env.Emit(who, e.headers(index, f), payload, func(T) {})
}

// fail stops a started message that cannot continue. Nothing of it, nor
// anything behind it, is sent any more.
func (e *Engine[T]) fail(who T, index int, m *entry) {
	l := &e.vis[index].ledger
	l.end = m.first
	if behind(l.top, m.first) {
		l.stuck = true
		e.env.Count(layout.CounterTransmitAborted)
	} else {
		m.started = false
		l.sending = l.sending[:len(l.sending)-1]
	}
	e.settle(who, index)
	e.nakRead(who, index)
}

// payload finds the bytes of a frame of a request. If the frame does not follow
// the previous one, it walks from the start.
func (m *entry) payload(offset, n uint32, last bool) (payload []Range, bits uint32) {
	if m.walked != offset {
		m.restart()
		if bits := m.walk.skip(offset); bits != 0 {
			return nil, bits
		}
	}
	m.walked = offset + n
	return m.walk.frame(n, last)
}

// answerBytes finds the bytes of a frame of a response. It checks all following
// bytes with them.
func (e *Engine[T]) answerBytes(v *viState, m *entry, offset, n uint32) (payload []Range, ok bool) {
	if m.length == 0 {
		return nil, true // no handle is looked at
	}
	all, ok := e.env.Translate(m.handle, m.va+uint64(offset), m.length-offset, v.tag(), layout.AttAccessRemoteRead)
	for _, r := range all {
		l := min(n, r.Length)
		if l == 0 {
			break
		}
		payload = append(payload, Range{Address: r.Address, Length: l})
		n -= l
	}
	return payload, ok
}

func (e *Engine[T]) acknowledged(who T, index int, number uint32, code layout.AcknowledgeCode) {
	v := &e.vis[index]
	l := &v.ledger
	nak := code > layout.AcknowledgeCodeGap
	switch {
	case l.broken || l.stopped:
		return
	case behind(number, l.top), behind(l.una, number) && !nak:
		e.env.Count(layout.CounterAcknowledgeStray)
		return
	}
	if !nak {
		v.alive()
	}
	if behind(number, l.una) {
		e.advance(l, number)
		e.progress(v)
	}
	switch {
	case nak:
		e.env.Count(layout.CounterNAKReceived)
		e.nakByPeer(who, index, number, code)
	case code == layout.AcknowledgeCodeGap && !l.gone && behind(l.top, l.una):
		e.env.Count(layout.CounterRewind)
		l.back()
		l.gone = true
		e.restartTimer(v)
	}
	e.turn(who, index)
}

// advance treats all frames before a number as received.
func (e *Engine[T]) advance(l *ledger, number uint32) {
	for l.counted += number - l.una; l.counted >= l.credit; {
		l.counted -= l.credit
		l.credit = min(l.credit+1, l.window)
	}
	l.una, l.gone = number, false
	if behind(number, l.next) {
		l.next = number
	}
	done := func(m *entry) bool { return m.started && m.bits == 0 && !behind(m.end(), number) }
	l.sending = slices.DeleteFunc(l.sending, done)
	for len(l.answers) > 0 && done(l.answers[0]) {
		e.env.Count(layout.CounterReadResponse)
		l.answers = l.answers[1:]
	}
}

// back rewinds to the oldest unacknowledged frame. The congestion window stays
// at least the number of frames that the peer may leave unacknowledged inside a
// message.
func (l *ledger) back() {
	l.next = l.una
	l.credit, l.counted = max(min(l.window, acknowledgeEvery), l.credit/2), 0
}

// nakByPeer marks the message of a NAKed frame. An acknowledged message
// other than a read no longer has a descriptor.
func (e *Engine[T]) nakByPeer(who T, index int, number uint32, code layout.AcknowledgeCode) {
	l := &e.vis[index].ledger
	l.stopped = true
	for _, m := range l.own {
		if !m.started || m.answered || behind(m.first, number) || !behind(m.end(), number) || !m.read() && behind(l.una, number) {
			continue
		}
		m.bits |= map[layout.AcknowledgeCode]uint32{
			layout.AcknowledgeCodeRemoteDescriptor: layout.DescriptorStatusRemoteDescriptorErrorMask,
			layout.AcknowledgeCodeRDMAProtection:   layout.DescriptorStatusRDMAProtectionErrorMask,
			layout.AcknowledgeCodeTransport:        layout.DescriptorStatusTransportErrorMask,
		}[code]
		return
	}
	l.broken = true
	e.env.Async(who, layout.AsyncErrorConnectionLost, index)
}

// alive records a frame from the peer. It does not restart the timer, because
// the peer's frames would delay the retransmission of a lost one.
func (v *viState) alive() { v.ledger.timeouts = 0 }

// progress records a new acknowledgement, or a frame of a read response in
// order.
func (e *Engine[T]) progress(v *viState) {
	v.alive()
	v.ledger.tries = 0
	e.restartTimer(v)
}

func (e *Engine[T]) restartTimer(v *viState) {
	if e.clock != nil {
		v.ledger.deadline = e.clock.Now() + 1<<v.ctx().RetryTimeoutLog2()
	}
}

// watch requests a call of Expire at a VI's deadline.
func (e *Engine[T]) watch(index int) {
	v := &e.vis[index]
	if at := e.alarms[index]; e.clock != nil && v.underWay() && (at == 0 || at > v.ledger.deadline) {
		e.alarms[index] = v.ledger.deadline
		e.clock.Alarm(index, v.ledger.deadline)
	}
}

// Expire handles an alarm of the Clock. An outdated one does nothing.
func (e *Engine[T]) Expire(who T, index int) {
	v := &e.vis[index]
	l := &v.ledger
	now := e.clock.Now()
	if e.alarms[index] == 0 || now < e.alarms[index] {
		return
	}
	e.alarms[index] = 0
	if !v.underWay() || now < l.deadline {
		e.watch(index)
		return
	}
	e.env.Count(layout.CounterRetryTimeout)
	l.timeouts++
	l.tries++
	if limit := int(v.ctx().RetryLimit()); l.timeouts > limit || l.tries > limit*retryAliveFactor {
		e.env.Count(layout.CounterRetryExhausted)
		e.exhausted(who, index)
		return
	}
	l.back()
	l.gone = false
	e.restartTimer(v)
	e.probe(who, index)
	e.turn(who, index)
}

// probe retransmits the request of the oldest unanswered read, if the peer has
// acknowledged everything: its acknowledgement of this old frame shows that the
// peer lives.
func (e *Engine[T]) probe(who T, index int) {
	l := &e.vis[index].ledger
	i := slices.IndexFunc(l.own, func(m *entry) bool { return m.started && m.read() && !m.answered })
	if l.una != l.top || l.stopped || i < 0 || l.own[i].failed() || l.own[i].stale {
		return
	}
	f := l.own[i].body.frame(0, 0, true)
	f.sequence = l.own[i].first
	e.env.Count(layout.CounterTransmitFrame)
	e.env.Count(layout.CounterRetransmitFrame)
	_ = e.env.Emit(who, e.headers(index, f), nil, func(T) {})
}

// exhausted breaks a connection whose peer does not respond.
func (e *Engine[T]) exhausted(who T, index int) {
	l := &e.vis[index].ledger
	if len(l.own) > 0 && l.own[0].started {
		l.own[0].bits |= layout.DescriptorStatusTransportErrorMask
		e.settle(who, index)
		return
	}
	l.broken = true
	e.env.Async(who, layout.AsyncErrorConnectionLost, index)
}
