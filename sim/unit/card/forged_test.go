// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"slices"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim/unit/internal/unit"
)

// reliableAttack is an attack on victims at the reliable levels.
type reliableAttack struct {
	*attack
	source, sink *region // of the victims' requests
	armed        map[*vi]host.Time
	honest       []*talk
	breaks       int // broken connections
}

const (
	victimTag  = 100
	honestTag  = 200
	forgedTo   = 100 // VIs of the attacker's node that its frames claim as sender; none exists
	forgedLife = 100 * host.Millisecond
	// A number this far ahead belongs to no frame, whatever a victim has sent
	// meanwhile.
	farAhead = 1000
)

var reliableLevels = []layout.Reliability{layout.ReliabilityDelivery, layout.ReliabilityReception}

// Limits with which no timeout ends a connection.
func patient(level layout.Reliability) *reliable {
	return &reliable{level: level, readable: true, window: 255, retryLimit: 255, readLimit: params.LedgerResponses, timeoutLog2: 31}
}

func (r *rig) reliableAttack() *reliableAttack {
	x := &reliableAttack{attack: &attack{rig: r}, armed: map[*vi]host.Time{}}
	r.both(func(m *machine) {
		m.inexact = ofTransport
		if m.thread.ID().Node == 0 { // it receives and answers the victims' frames too
			m.inexact = append(slices.Clone(ofTransport), layout.CounterReceiveBadVI, layout.CounterReceiveFrame)
		}
	})
	for k, level := range reliableLevels {
		// Limits honest frames in flight: the MAC must also store forged ones.
		both := r.talkers([2]uint8{uint8(1 + k), uint8(1 + k)}, honestTag+uint16(k), level, limits{params.AcknowledgeEvery, 255, 20}, [2]uint8{})
		r.connect(both[0].from, both[0].to)
		x.honest = append(x.honest, both[0])
	}
	x.target = x.honest[0].target
	r.b(func(m *machine) {
		x.source, x.sink = m.register(11, 5000, victimTag, false), m.register(600, 20_000, victimTag, false)
		for i := range 12 {
			// Short timeouts retransmit all unacknowledged frames repeatedly.
			v := &vi{m: m, index: uint8(40 + i*7), tag: victimTag, writable: i%6 != 5, reliable: patient(reliableLevels[i%2])}
			v.reliable.readable = i%6 != 4
			if i%4 >= 2 {
				v.reliable.timeoutLog2 = 14
			}
			v.create(pageBytes)
			x.victims = append(x.victims, v)
		}
		for i := range 12 { // two with another tag
			g := m.layOut(m.random.IntN(pageBytes), 1+m.random.IntN(5*pageBytes), victimTag+uint16(i/10), i%6 != 5)
			g.readable = i%6 != 4
			m.enter(g)
			g.scramble()
			x.regions = append(x.regions, g)
		}
		x.gone = m.layOut(0, pageBytes, victimTag, true)
		x.gone.readable = true
		m.enter(x.gone)
		m.withdraw(x.gone)
		m.release(x.gone)
		for _, v := range x.victims {
			x.rearm(v)
		}
		for range 4 {
			x.postReceives(m)
		}
		m.awaitQuiet()
	})
	return x
}

// rearm connects a victim, and posts messages for it.
func (x *reliableAttack) rearm(v *vi) {
	m := v.m
	// The attacker's card has no VI of that number.
	v.peer, v.peerMac, v.peerVI = x.node[0], x.node[0].mac, uint16(m.random.Uint32())&0xff00|forgedTo+uint16(m.random.IntN(100))
	v.next, v.expected = m.random.Uint32(), m.random.Uint32()
	if m.random.IntN(2) == 0 {
		v.next, v.expected = -m.random.Uint32N(5), -m.random.Uint32N(30)
	}
	v.connect()
	x.armed[v] = m.thread.Now()
	f := &v.reliable.flow
	f.vague = v.reliable.timeoutLog2 < 31
	for range m.random.IntN(3) { // at most two frames, so that a read response fits into the smallest window
		n := m.random.IntN(4000)
		d := buffers(m.pieces(x.sink, n, 1+m.random.IntN(8))...).to(x.gone, 0)
		d.control = d.control&^layout.DescriptorControlOperationMask | uint16(layout.DescriptorOperationRDMARead)<<layout.DescriptorControlOperationLsb
		if m.random.IntN(2) == 0 {
			d = buffers(m.pieces(x.source, min(n, layout.MaxPayload), 1+m.random.IntN(4))...)
		}
		v.submit(d)
	}
}

// renewReliable destroys a victim and makes one of the same index.
func (x *reliableAttack) renewReliable(v *vi) {
	m := v.m
	if v.reliable.refused || v.reliable.broken {
		x.breaks++
	}
	m.viCommand(layout.CommandOpcodeDisconnectVI, v, layout.CommandStatusDone, layout.VIStateIdle)
	m.viCommand(layout.CommandOpcodeDestroyVI, v, layout.CommandStatusDone, layout.VIStateIdle)
	v.flushed()
	v.flushedOwn()
	v.generation++
	m.viCommand(layout.CommandOpcodeCreateVI, v, layout.CommandStatusDone, layout.VIStateIdle)
	if m.random.IntN(8) != 0 {
		x.rearm(v)
	}
}

// header is an empty frame of the victim's peer.
func (x *reliableAttack) header(v *vi, operation layout.FrameOperation) viaFrame {
	return viaFrame{
		destination: v.m.mac, source: v.peerMac, etherType: layout.EtherTypeVia, operation: operation, version: layout.ViaVersion,
		to: v.number(), from: v.peerVI, sequence: v.expected,
	}
}

func (x *reliableAttack) acknowledgement(v *vi) viaFrame {
	h, f := x.header(v, layout.FrameOperationAcknowledge), &v.reliable.flow
	h.sequence = f.una + x.random.Uint32N(f.top-f.una+1)
	switch x.random.IntN(8) {
	case 0:
		h.sequence = f.una - 1 - x.random.Uint32N(2*refusedBehind)
	case 1:
		h.sequence = f.top + farAhead + x.random.Uint32N(5)
	case 2:
		h.sequence = f.una + 1<<31 - 2 + x.random.Uint32N(4)
	case 3:
		h.sequence = x.random.Uint32()
	}
	h.immediate = uint32(x.random.IntN(2))
	switch x.random.IntN(32) {
	case 0:
		h.immediate = uint32(layout.AcknowledgeCodeRemoteDescriptor) + uint32(x.random.IntN(3))
	case 1:
		h.immediate = uint32(layout.AcknowledgeCodeTransport) + 1 + uint32(x.random.IntN(5))
	case 2:
		h.immediate = x.random.Uint32()
	case 3:
		h.flags = 1 << x.random.IntN(3)
	case 4:
		h.payload = make([]byte, 1+x.random.IntN(40))
		h.length = len(h.payload)
	}
	return h
}

func (x *reliableAttack) request(v *vi) viaFrame {
	h := x.header(v, layout.FrameOperationRDMAReadRequest)
	h.flags = layout.ViaHeaderFlagsFirstMask | layout.ViaHeaderFlagsLastMask
	var good, closed []*region
	for _, g := range x.regions {
		switch {
		case g.tag != v.tag:
		case g.readable:
			good = append(good, g)
		default:
			closed = append(closed, g)
		}
	}
	g := good[x.random.IntN(len(good))]
	n := x.random.IntN(g.length + 1)
	if x.random.IntN(2) == 0 {
		n = x.random.IntN(min(n, 100) + 1)
	}
	at := x.random.IntN(g.length - n + 1)
	switch x.random.IntN(40) {
	case 0: // any region
		g = x.regions[x.random.IntN(len(x.regions))]
		n = min(n, g.length)
		at = x.random.IntN(g.length - n + 1)
	case 1:
		at = g.length - n + 1
	case 2:
		at = -1
	case 5, 6:
		g = closed[x.random.IntN(len(closed))]
		n, at = min(1+x.random.IntN(100), g.length), 0
	case 3:
		g, n, at = x.gone, 1+x.random.IntN(100), 0
	case 4:
		g, n, at = x.honest[0].library, 1+x.random.IntN(100), 0
	}
	h.address, h.handle, h.immediate = g.address+uint64(at), g.handle, uint32(n)
	return h
}

// answer is a frame of the response to a read that the victim waits for, if
// any.
func (x *reliableAttack) answer(v *vi) viaFrame {
	h := x.header(v, layout.FrameOperationRDMAReadResponse)
	total, offset := uint32(x.random.IntN(5000)), uint32(0)
	for _, o := range v.reliable.own {
		if o.read && !o.answered {
			total = o.p.length
			break
		}
	}
	if v.message.open {
		total, offset = v.message.total, v.message.came
	} else {
		h.flags = layout.ViaHeaderFlagsFirstMask
	}
	n := int(min(total-offset, layout.MaxPayload))
	if n > 0 && x.random.IntN(2) != 0 {
		n = 1 + x.random.IntN(min(n, 400))
	}
	switch x.random.IntN(20) {
	case 0:
		total += 1 + x.random.Uint32N(9)
	case 1:
		offset += 1 + x.random.Uint32N(9)
	}
	if offset+uint32(n) == total {
		h.flags |= layout.ViaHeaderFlagsLastMask
	}
	h.address, h.length, h.payload = uint64(total)<<32|uint64(offset), n, make([]byte, n)
	for i := range h.payload {
		h.payload[i] = byte(x.random.Uint32())
	}
	return h
}

// reliableFrame is a frame that the victim would accept, or an acknowledgement.
func (x *reliableAttack) reliableFrame(v *vi) viaFrame {
	waits := slices.ContainsFunc(v.reliable.own, func(o *ownMessage) bool { return o.read && !o.answered })
	k := x.random.IntN(100)
	switch open := v.message.open; {
	case k < 15:
		return x.acknowledgement(v)
	case open && v.message.answer && k < 98:
		return x.answer(v)
	case open && k < 98, k < 55:
		return x.frame(v)
	case k < 80:
		return x.request(v)
	case waits || k == 99:
		return x.answer(v)
	default:
		return x.frame(v)
	}
}

// forgeReliable makes a frame for a victim whose state the model knows, with an
// error in every sixth, and some noise.
func (x *reliableAttack) forgeReliable() []byte {
	for range 10_000 {
		v := x.victims[x.random.IntN(len(x.victims))]
		if v.reliable.refused && x.random.IntN(20) != 0 {
			continue
		}
		h := x.reliableFrame(v)
		if x.random.IntN(6) == 0 {
			forgeries[x.random.IntN(len(forgeries))](x.attack, &h)
		}
		b := h.encode()
		switch x.random.IntN(40) {
		case 0: // truncated
			b = b[:layout.EthernetHeaderSize+x.random.IntN(len(b)-layout.EthernetHeaderSize+1)]
		case 1: // longer than its header says
			b = append(b, make([]byte, x.random.IntN(min(layout.MaxFrame-len(b), 80)+1))...)
		case 2: // noise after a part of the header
			n := layout.EthernetHeaderSize + x.random.IntN(layout.HeaderBytes-layout.EthernetHeaderSize)
			for i := n; i < len(b); i++ {
				b[i] = byte(x.random.Uint32())
			}
		}
		if !x.unsure(b) {
			return b
		}
	}
	// all victims are racing: a frame for no VI
	return x.acknowledgement(x.victims[0]).encode()[:layout.EthernetHeaderSize]
}

// unsure reports whether the fate of a frame depends on the engines' state,
// which the model does not know.
func (x *reliableAttack) unsure(b []byte) bool {
	if len(b) < layout.HeaderBytes {
		b = append(slices.Clone(b), make([]byte, layout.HeaderBytes-len(b))...)
	}
	h := layout.ViaHeader(b[layout.EthernetHeaderSize:])
	v := x.node[1].vis[uint8(h.DestinationVI())]
	if v == nil || v.reliable == nil {
		return false
	}
	f := &v.reliable.flow
	if f.racing {
		return true
	}
	if layout.FrameOperation(h.OperationVersion()&layout.ViaHeaderOperationVersionOperationMask) != layout.FrameOperationAcknowledge {
		return false
	}
	at, span := h.Sequence()-f.una, f.top-f.una
	refusal := h.Immediate() > uint32(layout.AcknowledgeCodeGap)
	return at > span && at < span+farAhead || refusal && (at == span || slices.ContainsFunc(f.answers, func(a *readAnswer) bool { return a.bad }))
}

// verifyAttack compares the memory and, on request, all counters.
func (x *reliableAttack) verifyAttack(counters bool) {
	x.both((*machine).verifyMemory)
	x.both((*machine).verifyErrors)
	if counters {
		x.both((*machine).verifyCounters)
	}
	m := x.node[0]
	for _, c := range []layout.Counter{layout.CounterRetryTimeout, layout.CounterRewind, layout.CounterRetransmitFrame} {
		if n := m.counter(c); n != 0 {
			m.fail("the attack disturbed the honest pairs: counter %v is %d", c, n)
		}
	}
}

func reliableHostility(frames uint64) func(r *rig) {
	return func(r *rig) {
		x := r.reliableAttack()
		begin := r.node[0].thread.Now()
		for i, sent := 0, uint64(0); sent < frames; i++ {
			r.b(func(m *machine) {
				for _, v := range x.victims {
					f := &v.reliable.flow
					if m.random.IntN(20) == 0 || (f.refused || !f.alive() || !v.connected) && m.random.IntN(3) != 0 || m.thread.Now() > x.armed[v]+forgedLife {
						x.renewReliable(v)
					}
				}
				x.postReceives(m)
				m.sleep(100 * host.Microsecond) // lets posted messages leave
				m.awaitQuiet()
			})
			var batch [][]byte
			room, bytes := len(r.node[0].transmit.buffers)-3, 0
			for range min(1+r.random.IntN(room), int(frames-sent)) {
				if bytes > params.MacReceiveFifoBytes-(2+params.AcknowledgeEvery*len(x.honest))*layout.MaxFrame {
					break
				}
				b := x.forgeReliable()
				batch = append(batch, b)
				bytes += max(len(b), layout.MinFrame) + params.WireFcsBytes
				r.node[1].hear(b)
			}
			for _, v := range x.victims {
				v.settled()
			}
			sent += uint64(len(batch))
			p := x.honest[i%len(x.honest)]
			r.b(func(*machine) { p.ready(1) })
			for _, k := range r.random.Perm(len(everyOperation)) {
				p.say(everyOperation[k])
			}
			r.begin(func(m *machine) { m.takeErrors(patience) })
			r.node[0].inject(batch...)
			r.end()
			p.await()
			p.heard()
			r.settle()
			x.verifyAttack(i%8 == 7)
		}
		for _, c := range []layout.Counter{
			layout.CounterReceiveFrame, layout.CounterReceiveMalformed, layout.CounterReceiveBadVI, layout.CounterReceiveOldSequence,
			layout.CounterReceiveProtection, layout.CounterReceiveAborted, layout.CounterReceiveQueueEmpty, layout.CounterReceiveLength,
			layout.CounterReceiveDescriptorError, layout.CounterReceiveMessage, layout.CounterReceiveReadLimit, layout.CounterReceiveOutOfOrder,
			layout.CounterReceiveAcknowledge, layout.CounterReceiveNAKed,
		} {
			if frames >= 10_000 && r.node[1].counts[c] < 3 {
				fail("the frames did not cover %v: it came %d times", c, r.node[1].counts[c])
			}
			r.t.Logf("%v: %d", c, r.node[1].counts[c])
		}
		for _, c := range []layout.Counter{
			layout.CounterAcknowledgeStray, layout.CounterNAKReceived, layout.CounterNAKSent, layout.CounterReadResponse, layout.CounterRetryTimeout, layout.CounterRewind,
		} {
			n := uint32(0)
			r.b(func(m *machine) { n = m.counter(c) })
			if frames >= 10_000 && n < 3 {
				fail("the frames did not cover %v: it came %d times", c, n)
			}
			r.t.Logf("%v: %d", c, n)
		}
		r.t.Logf("%d frames in %v of simulated time, %d connections broken", frames, r.node[0].thread.Now()-begin, x.breaks)
	}
}

// Forged frames against live VIs of both reliable levels with messages and
// reads in flight. Nothing is written without permission, each frame has one
// fate, and honest pairs are not disturbed.
func TestHostileReliableFrames(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{rawLog2: 8}, reliableHostility(unit.Sizes{Short: 40, Normal: 3_000, Long: 100_000}.Pick()))
}
