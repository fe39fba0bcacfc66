// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"slices"

	"hvia/layout"
)

// Clock is an environment that has a time. In one that has none, connections of
// reliable VIs never time out: its network must lose nothing.
type Clock interface {
	// Now is the time in clocks of the card, from 1 on.
	Now() uint64
	// Alarm asks for a call of Expire for a VI at a time.
	Alarm(index int, at uint64)
}

// entry is what the ledger of a reliable VI keeps of an own message, or of an
// answer to an RDMA read of the peer.
type entry struct {
	length uint32
	begun  bool
	first  uint32 // number of its first frame, once it has begun
	bits   uint32 // what is wrong with it; it is carried out no further

	// Of an own message.
	body        descriptor
	unreachable bool // there is no descriptor
	stale       bool // the memory that it lies in was deregistered
	answered    bool // an RDMA read: all of it is in memory
	walk        gather
	walked      uint32 // bytes of the message that the walk is behind

	// Of an answer.
	request uint32 // number of the frame that asked for it
	va      uint64
	handle  uint32
}

// read says whether it is an own RDMA read.
func (m *entry) read() bool {
	return m.body.control != nil && m.body.operation() == layout.DescriptorOperationRDMARead
}

// frames is the number of its frames.
func (m *entry) frames() uint32 {
	if m.read() || m.length == 0 {
		return 1
	}
	return (m.length-1)/layout.MaxPayload + 1
}

// end is the number behind its last frame.
func (m *entry) end() uint32 { return m.first + m.frames() }

// failed says that it ends in error in its turn, and the connection with it.
func (m *entry) failed() bool { return m.bits != 0 || m.unreachable }

// behind says whether a number comes after another one, modulo 2^32.
func behind(a, b uint32) bool { return int32(a-b) > 0 }

// Parameters of the card, which this package may not import. A test holds them to it.
const (
	ledgerMessages   = 16
	ledgerResponses  = 4
	acknowledgeEvery = 4
	retryAliveFactor = 64
)

// ledger is what a reliable VI keeps of what it sends, since it was connected.
type ledger struct {
	una  uint32 // the oldest number that is not acknowledged
	next uint32 // the number that is sent next
	end  uint32 // behind the last frame of the last message that has begun
	top  uint32 // behind the last frame that was ever sent

	window, credit uint32 // the agreed limit, and the moving one
	counted        uint32 // frames acknowledged towards the growth of the moving one
	gone           bool   // back to una, because of a gap, without progress since
	timeouts       int    // in a row without a sign of life of the peer
	tries          int    // timeouts in a row without progress
	deadline       uint64

	reads   int      // own RDMA reads that may be without answer at a time
	own     []*entry // messages that are not complete, in the order of the queue
	answers []*entry // that are not acknowledged, in the order of the requests
	sending []*entry // both, that have begun and are not acknowledged, in the order of their numbers
	broken  bool     // nothing is carried out any more
	refused bool     // by the peer: nothing is sent any more
	stuck   bool     // a message failed of which frames went out: no number can follow theirs
}

// reliable says whether the VI's level is a reliable one.
func (v *viState) reliable() bool {
	level := layout.Reliability(v.ctx().Attributes() & layout.VIContextAttributesReliabilityMask >> layout.VIContextAttributesReliabilityLsb)
	return level == layout.ReliabilityDelivery || level == layout.ReliabilityReception
}

// opens says whether a descriptor more may be under way.
func (v *viState) opens() bool {
	l := &v.ledger
	return len(l.own) < ledgerMessages && !l.broken && !l.refused && v.refusal == nil && !slices.ContainsFunc(l.own, (*entry).failed)
}

// underWay says whether something is waited for that a timeout is for.
func (v *viState) underWay() bool {
	l := &v.ledger
	return v.state == layout.VIStateConnected && !l.broken &&
		(l.una != l.top || slices.ContainsFunc(l.own, func(m *entry) bool { return m.begun && m.read() && !m.answered }))
}

// connect begins the ledger of a VI whose context is new.
func (v *viState) connect() {
	c := v.ctx()
	window := max(1, uint32(c.Window()))
	first := c.SendSequence()
	v.ledger = ledger{una: first, next: first, end: first, top: first, window: window, credit: window, reads: max(1, int(c.ReadLimit()))}
	v.refusal, v.gap, v.unsaid = nil, false, 0
}

// open takes a descriptor of the send queue of a connected reliable VI.
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

// restart puts the walk through the segments to their begin.
func (m *entry) restart() { m.walk, m.walked = gather{body: &m.body, next: m.body.firstData()}, 0 }

// turn does what a change has made possible: completions, in the order of the
// queue, refusals of reads, and frames.
func (e *Engine[T]) turn(who T, index int) {
	e.settle(who, index)
	e.refuseRead(who, index)
	e.transmit(who, index)
	e.watch(index)
	e.posted(who, QueueID{index, SendQueue})
}

// settle completes the messages that can be, in order. Behind one that failed
// nothing is carried out.
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

// whole says whether the peer has an own message, or this side what it has read.
func (l *ledger) whole(m *entry) bool {
	if !m.begun || m.read() {
		return m.begun && m.answered
	}
	return !behind(m.end(), l.una)
}

// settled completes a message with error bits, or well without.
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

// flushLedger completes what is under way, as the VI is disconnected.
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

// refuseRead tells the peer that its oldest read without an answer cannot be
// answered. Whatever is refused, it is the first thing.
func (e *Engine[T]) refuseRead(who T, index int) {
	v := &e.vis[index]
	if len(v.ledger.answers) == 0 || v.ledger.answers[0].bits == 0 || v.refusal != nil || v.ledger.broken || v.ledger.refused {
		return
	}
	e.env.Async(who, layout.AsyncErrorRDMAReadProtection, index)
	e.refuse(who, index, v.ledger.answers[0].request, layout.AcknowledgeCodeRDMAProtection)
}

// transmit sends what the window lets through.
func (e *Engine[T]) transmit(who T, index int) {
	v := &e.vis[index]
	l := &v.ledger
	for v.state == layout.VIStateConnected && !l.broken && !l.refused && l.next-l.una < l.credit {
		if !v.underWay() {
			e.progress(v) // the time of what is sent now begins now
		}
		if l.next == l.end && (l.stuck || !v.begin()) || behind(l.next, l.end) {
			return
		}
		i := slices.IndexFunc(l.sending, func(m *entry) bool { return behind(m.end(), l.next) })
		e.transmitFrame(who, index, l.sending[i])
	}
}

// begin gives the next message its numbers: an answer, or else an own message, if
// its fence and the limit of reads let it. Behind a refusal no own message begins,
// but the peer gets the answers that it was promised.
func (v *viState) begin() bool {
	l := &v.ledger
	for _, m := range l.answers {
		if m.bits != 0 {
			break // it waits to be refused, and those behind it for that
		}
		if !m.begun {
			l.number(m)
			return true
		}
	}
	reads := 0
	for _, m := range l.own {
		switch {
		case m.failed() || v.refusal != nil:
			return false
		case m.begun:
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
	m.begun, m.first = true, l.end
	l.end = m.end()
	l.sending = append(l.sending, m)
}

// transmitFrame sends the next frame, which is one of m.
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
	// The environment's Emit does not wait and has read the payload, see Config.
	_ = e.env.Emit(who, e.headers(index, f), payload, func(T) {})
}

// fail ends a message that has begun and cannot go on. Nothing of it is sent any
// more, and nothing behind it.
func (e *Engine[T]) fail(who T, index int, m *entry) {
	l := &e.vis[index].ledger
	l.end = m.first
	if behind(l.top, m.first) {
		l.stuck = true
		e.env.Count(layout.CounterTransmitAborted)
	} else {
		m.begun = false
		l.sending = l.sending[:len(l.sending)-1]
	}
	e.settle(who, index)
	e.refuseRead(who, index)
}

// payload finds the bytes of a frame of an own message. A frame that is not the
// one behind the last is found by walking from the begin.
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

// answerBytes finds the bytes of a frame of an answer. All that follow are checked
// with them.
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

// acknowledged is an acknowledgement of the peer's.
func (e *Engine[T]) acknowledged(who T, index int, number uint32, code layout.AcknowledgeCode) {
	v := &e.vis[index]
	l := &v.ledger
	refusal := code > layout.AcknowledgeCodeGap
	switch {
	case l.broken || l.refused:
		return
	case behind(number, l.top), behind(l.una, number) && !refusal:
		e.env.Count(layout.CounterAcknowledgeStray)
		return
	}
	if !refusal {
		v.alive()
	}
	if behind(number, l.una) {
		e.advance(l, number)
		e.progress(v)
	}
	switch {
	case refusal:
		e.env.Count(layout.CounterRefusalReceived)
		e.refusedByPeer(who, index, number, code)
	case code == layout.AcknowledgeCodeGap && !l.gone && behind(l.top, l.una):
		e.env.Count(layout.CounterRewind)
		l.back()
		l.gone = true
		e.restartTimer(v)
	}
	e.turn(who, index)
}

// advance takes all frames before a number as received.
func (e *Engine[T]) advance(l *ledger, number uint32) {
	for l.counted += number - l.una; l.counted >= l.credit; {
		l.counted -= l.credit
		l.credit = min(l.credit+1, l.window)
	}
	l.una, l.gone = number, false
	if behind(number, l.next) {
		l.next = number
	}
	done := func(m *entry) bool { return m.begun && m.bits == 0 && !behind(m.end(), number) }
	l.sending = slices.DeleteFunc(l.sending, done)
	for len(l.answers) > 0 && done(l.answers[0]) {
		e.env.Count(layout.CounterReadResponse)
		l.answers = l.answers[1:]
	}
}

// back goes back to the oldest frame that is not acknowledged. The moving limit
// does not fall below what the peer may leave unacknowledged inside a message.
func (l *ledger) back() {
	l.next = l.una
	l.credit, l.counted = max(min(l.window, acknowledgeEvery), l.credit/2), 0
}

// refusedByPeer marks the message that a refused frame belongs to. One that was
// acknowledged, and is no read, has no descriptor any more.
func (e *Engine[T]) refusedByPeer(who T, index int, number uint32, code layout.AcknowledgeCode) {
	l := &e.vis[index].ledger
	l.refused = true
	for _, m := range l.own {
		if !m.begun || m.answered || behind(m.first, number) || !behind(m.end(), number) || !m.read() && behind(l.una, number) {
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

// alive is a sign of life of the peer. It leaves the timer alone: a peer that
// sends would keep a lost frame from being retransmitted.
func (v *viState) alive() { v.ledger.timeouts = 0 }

// progress is an acknowledgement of something new, or a frame of an answer in
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

// watch has Expire called when a VI's time is over.
func (e *Engine[T]) watch(index int) {
	v := &e.vis[index]
	if at := e.alarms[index]; e.clock != nil && v.underWay() && (at == 0 || at > v.ledger.deadline) {
		e.alarms[index] = v.ledger.deadline
		e.clock.Alarm(index, v.ledger.deadline)
	}
}

// Expire is an alarm of the Clock. One that is not wanted any more does nothing.
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
// acknowledged everything: it is old there, and its acknowledgement shows that
// the peer lives.
func (e *Engine[T]) probe(who T, index int) {
	l := &e.vis[index].ledger
	i := slices.IndexFunc(l.own, func(m *entry) bool { return m.begun && m.read() && !m.answered })
	if l.una != l.top || l.refused || i < 0 || l.own[i].failed() || l.own[i].stale {
		return
	}
	f := l.own[i].body.frame(0, 0, true)
	f.sequence = l.own[i].first
	e.env.Count(layout.CounterTransmitFrame)
	e.env.Count(layout.CounterRetransmitFrame)
	_ = e.env.Emit(who, e.headers(index, f), nil, func(T) {})
}

// exhausted breaks a connection whose peer does not answer.
func (e *Engine[T]) exhausted(who T, index int) {
	l := &e.vis[index].ledger
	if len(l.own) > 0 && l.own[0].begun {
		l.own[0].bits |= layout.DescriptorStatusTransportErrorMask
		e.settle(who, index)
		return
	}
	l.broken = true
	e.env.Async(who, layout.AsyncErrorConnectionLost, index)
}
