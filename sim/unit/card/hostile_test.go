// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"hvia/layout"
	"hvia/params"
	"hvia/sim/unit/internal/unit"
)

// attack is a node that sends any frame, and a node that must write only what
// its VIs and regions permit.
type attack struct {
	*rig
	victims []*vi // of node 1, connected with node 0's address
	regions []*region
	gone    *region // deregistered

	// An honest pair, which must not be disturbed.
	from, to       *vi
	source, target *region
	inbox          *region
}

func (r *rig) attack() *attack {
	x := &attack{rig: r}
	x.from, x.to = r.pair([2]uint8{1, 1}, [2]uint16{100, 100}, [2]bool{true, true})
	x.source = r.node[0].register(77, 20_000, 100, false)
	x.source.scramble()
	r.b(func(m *machine) {
		x.target = m.register(1234, 20_000, 100, true)
		x.inbox = m.register(3321, 5000, 100, false)
		for i := range 6 {
			tag, writable := uint16(100+i%2), i != 5
			x.victims = append(x.victims, m.createVI(uint8(40+i*7), tag, writable))
			x.regions = append(x.regions, m.register(m.random.IntN(pageBytes), 1+m.random.IntN(5*pageBytes), tag, i%3 != 2))
		}
		x.gone = m.register(0, pageBytes, 100, true)
		m.withdraw(x.gone)
		m.release(x.gone)
		for _, v := range x.victims[:5] {
			x.arm(v)
		}
		x.arm(x.victims[5])
		for range 4 {
			x.postReceives(m)
		}
	})
	return x
}

// arm connects a victim with a VI of node 0 that does not exist.
func (x *attack) arm(v *vi) {
	m := v.m
	v.peer, v.peerMac, v.peerVI = x.node[0], x.node[0].mac, uint16(m.random.Uint32())
	v.expected = m.random.Uint32()
	if m.random.IntN(2) == 0 {
		v.expected = -m.random.Uint32N(30)
	}
	v.connect()
}

// postReceives posts receive descriptors for the victims, some of them bad.
func (x *attack) postReceives(m *machine) {
	for _, v := range x.victims {
		for range m.random.IntN(5) {
			g := x.regions[m.random.IntN(len(x.regions))]
			n := m.random.IntN(g.length + 1)
			if m.random.IntN(2) == 0 {
				n = min(n, lengths[m.random.IntN(len(lengths))])
			}
			d := buffers(m.pieces(g, n, 1+m.random.IntN(8))...)
			if m.random.IntN(8) == 0 {
				m.spoil(&d, true)
			}
			if _, _, ok := v.receive.room(d); ok && len(v.receive.posted) < 12 {
				v.postReceive(d)
			}
		}
	}
}

// frame is a frame that the victim would accept.
func (x *attack) frame(v *vi) viaFrame {
	if open := v.message.open; open && !v.message.rdma || !open && x.random.IntN(2) == 0 {
		return x.sendFrame(v)
	}
	g := x.regions[x.random.IntN(len(x.regions))]
	n := x.random.IntN(min(g.length, layout.MaxPayload) + 1)
	if x.random.IntN(6) != 0 { // with more frames
		n = x.random.IntN(min(g.length, 40) + 1)
	}
	h := viaFrame{
		destination: v.m.mac, source: v.peerMac, etherType: layout.EtherTypeVia, operation: layout.FrameOperationRDMAWrite, version: layout.ViaVersion,
		length: n, to: v.number(), from: v.peerVI, sequence: v.expected, handle: g.handle, immediate: x.random.Uint32(),
		address: g.address + uint64(x.random.IntN(g.length-n+1)), payload: make([]byte, n),
	}
	for i := range h.payload {
		h.payload[i] = byte(x.random.Uint32())
	}
	x.flag(v, &h, x.random.IntN(2) == 0)
	return h
}

// sendFrame is a frame of a send that the victim would accept.
func (x *attack) sendFrame(v *vi) viaFrame {
	offset, total := v.message.came, v.message.total
	if !v.message.open {
		offset, total = 0, uint32(lengths[x.random.IntN(len(lengths))])
	}
	n := int(min(total-offset, layout.MaxPayload)) // 0 if more bytes than announced have come
	if n > 0 && x.random.IntN(6) != 0 {
		n = x.random.IntN(min(n, 40) + 1) // no card would send this
	}
	h := viaFrame{
		destination: v.m.mac, source: v.peerMac, etherType: layout.EtherTypeVia, operation: layout.FrameOperationSend, version: layout.ViaVersion,
		length: n, to: v.number(), from: v.peerVI, sequence: v.expected, immediate: x.random.Uint32(),
		address: uint64(total)<<32 | uint64(offset), payload: make([]byte, n),
	}
	for i := range h.payload {
		h.payload[i] = byte(x.random.Uint32())
	}
	x.flag(v, &h, offset+uint32(n) == total || x.random.IntN(8) == 0)
	return h
}

// flag sets the flags that a message requires in this frame.
func (x *attack) flag(v *vi, h *viaFrame, last bool) {
	immediate := v.message.immediate
	if !v.message.open {
		h.flags = layout.ViaHeaderFlagsFirstMask
		immediate = x.random.IntN(3) == 0
	}
	if immediate {
		h.flags |= layout.ViaHeaderFlagsImmediateMask
	}
	if last {
		h.flags |= layout.ViaHeaderFlagsLastMask
	}
}

// forgeries each falsify one field of a frame.
var forgeries = []func(x *attack, h *viaFrame){
	func(x *attack, h *viaFrame) { h.destination[x.random.IntN(6)] ^= 1 << x.random.IntN(8) },
	func(x *attack, h *viaFrame) { h.destination = [6]byte{255, 255, 255, 255, 255, 255} },
	func(x *attack, h *viaFrame) { h.source[x.random.IntN(6)] ^= 1 << x.random.IntN(8) },
	func(x *attack, h *viaFrame) { h.operation = layout.FrameOperation(x.random.IntN(16)) },
	func(x *attack, h *viaFrame) { h.operation = layout.FrameOperation(x.random.IntN(2)) },
	func(x *attack, h *viaFrame) { h.address += 1 + x.random.Uint64N(3000) }, // of a send: its offset
	func(x *attack, h *viaFrame) { h.address = x.random.Uint64() },
	func(x *attack, h *viaFrame) { h.address += (1 + x.random.Uint64N(3000)) << 32 }, // of a send: its length
	func(x *attack, h *viaFrame) { h.flags |= layout.ViaHeaderFlagsFirstMask },
	func(x *attack, h *viaFrame) { h.version = uint8(x.random.IntN(16)) },
	func(x *attack, h *viaFrame) { h.flags ^= 1 << x.random.IntN(8) },
	func(x *attack, h *viaFrame) { h.flags ^= 1 << x.random.IntN(3) },
	func(x *attack, h *viaFrame) { h.length = x.random.IntN(1 << 16) },
	func(x *attack, h *viaFrame) { h.length = len(h.payload) + x.random.IntN(3) }, // may lie in the padding
	func(x *attack, h *viaFrame) { h.length = layout.MaxPayload + 1 },
	func(x *attack, h *viaFrame) { h.length = x.random.IntN(len(h.payload) + 1) }, // spare bytes after the payload
	func(x *attack, h *viaFrame) { h.to ^= 1 << x.random.IntN(16) },
	func(x *attack, h *viaFrame) { h.from ^= 1 << x.random.IntN(16) },
	func(x *attack, h *viaFrame) { h.sequence -= 1 + x.random.Uint32N(100) },
	func(x *attack, h *viaFrame) { h.sequence += 1<<31 - 2 + x.random.Uint32N(4) },
	func(x *attack, h *viaFrame) { h.sequence += 1 + x.random.Uint32N(5) },
	func(x *attack, h *viaFrame) { h.sequence = x.random.Uint32() },
	func(x *attack, h *viaFrame) { h.address ^= 1 << x.random.IntN(64) },
	func(x *attack, h *viaFrame) { h.address = -uint64(x.random.IntN(2000)) },
	func(x *attack, h *viaFrame) { h.handle ^= 1 << x.random.IntN(32) },
	func(x *attack, h *viaFrame) { h.handle = 0 },
	func(x *attack, h *viaFrame) { h.handle, h.address = x.gone.handle, x.gone.address },
	func(x *attack, h *viaFrame) { // a byte before or after the region
		for _, g := range x.regions {
			if g.handle == h.handle {
				h.address = g.address - 1
				if x.random.IntN(2) == 0 {
					h.address = g.address + uint64(g.length-len(h.payload)+1)
				}
			}
		}
	},
	func(x *attack, h *viaFrame) { h.handle, h.address = x.target.handle, x.target.address }, // the honest pair's memory
}

func (x *attack) forge() []byte {
	h := x.frame(x.victims[x.random.IntN(len(x.victims))])
	switch x.random.IntN(20) {
	case 0, 1, 2, 3: // correct
	case 4, 5: // two errors
		forgeries[x.random.IntN(len(forgeries))](x, &h)
		fallthrough
	default:
		forgeries[x.random.IntN(len(forgeries))](x, &h)
	}
	b := h.encode()
	switch x.random.IntN(12) {
	case 0: // truncated; the wire pads short ones
		b = b[:layout.EthernetHeaderSize+x.random.IntN(len(b)-layout.EthernetHeaderSize+1)]
	case 1: // longer than it says
		most := layout.MaxFrame - len(b)
		if x.random.IntN(6) != 0 {
			most = min(most, 80)
		}
		b = append(b, make([]byte, x.random.IntN(most+1))...)
		for i := len(b) - 1; i > layout.HeaderBytes+len(h.payload); i-- {
			b[i] = byte(x.random.Uint32())
		}
	}
	return b
}

// noise makes a frame of random bytes after a prefix of a valid header, to
// reach a certain check.
func (x *attack) noise() []byte {
	v := x.victims[x.random.IntN(len(x.victims))]
	h := x.frame(v)
	h.payload = nil
	header := h.encode()
	b := make([]byte, layout.MinFrame+x.random.IntN(80))
	if x.random.IntN(16) == 0 {
		b = make([]byte, layout.MinFrame+x.random.IntN(layout.MaxFrame-layout.MinFrame+1))
	}
	for i := range b {
		b[i] = byte(x.random.Uint32())
	}
	// Valid prefix: nothing; the destination; VIA; also the operation; also
	// flags; also the VI; all but the target.
	const via = layout.EthernetHeaderSize
	n := []int{0, 6, via, via + layout.ViaHeaderFlagsOffset, via + layout.ViaHeaderPayloadLengthOffset,
		via + layout.ViaHeaderSequenceOffset, via + layout.ViaHeaderAddressOffset}[x.random.IntN(7)]
	copy(b[:n], header)
	if n > via+layout.ViaHeaderPayloadLengthOffset {
		layout.ViaHeader(b[via:]).SetPayloadLength(uint16(x.random.IntN(len(b) - layout.HeaderBytes + 1)))
	}
	return b
}

// plain makes a frame of another protocol, for the raw port.
func (x *attack) plain() []byte {
	b := make([]byte, layout.EthernetHeaderSize+x.random.IntN([]int{100, layout.MaxFrame - layout.EthernetHeaderSize + 1}[x.random.IntN(2)]))
	for i := range b {
		b[i] = byte(x.random.Uint32())
	}
	copy(b, x.node[1].mac[:])
	switch x.random.IntN(4) {
	case 0:
		copy(b, "\xff\xff\xff\xff\xff\xff")
	case 1:
		b[5] ^= 1
	}
	if layout.EthernetHeader(b).EtherType() == layout.EtherTypeVia {
		b[12] ^= 1
	}
	return b
}

// honest sends two messages on the pair that the attacker does not touch.
func (x *attack) honest() {
	n := 1 + x.random.IntN(x.source.length)
	x.b(func(*machine) { x.to.postReceive(buffers(x.inbox.part(0, x.inbox.length))) })
	x.from.post(rdmaWrite(x.source, x.random.IntN(x.source.length-n+1), n, x.target, x.random.IntN(x.target.length-n+1)))
	n = x.random.IntN(x.inbox.length + 1)
	x.from.post(buffers(x.source.part(x.random.IntN(x.source.length-n+1), n)).with(x.random.Uint32()))
	x.from.finish()
}

// renew destroys a victim and makes one of the same index while frames for the
// old one are in flight.
func (x *attack) renew(v *vi) {
	m := v.m
	m.viCommand(layout.CommandOpcodeDisconnectVI, v, layout.CommandStatusDone, layout.VIStateIdle)
	m.viCommand(layout.CommandOpcodeDestroyVI, v, layout.CommandStatusDone, layout.VIStateIdle)
	v.flushed()
	v.generation++
	m.viCommand(layout.CommandOpcodeCreateVI, v, layout.CommandStatusDone, layout.VIStateIdle)
	if m.random.IntN(4) != 0 {
		x.arm(v)
	}
}

// hostility sends the given number of bad frames, back to back in batches.
// After each batch it compares memory, reasons of drops, asynchronous errors
// and the honest pair.
func hostility(frames uint64) func(r *rig) {
	return func(r *rig) {
		x := r.attack()
		begin := r.node[0].thread.Now()
		for i, sent := 0, uint64(0); sent < frames; i++ {
			raw := r.random.IntN(3) == 0 // a frame for the raw port, with at most one buffer, because it is unknown how far the card has read ahead in its ring
			r.b(func(m *machine) {
				if raw && len(m.receive.filled) == 0 && m.random.IntN(2) == 0 {
					m.offer([]int{layout.MaxFrame, 60, 200, 1, pageBytes}[m.random.IntN(5)])
				}
				if m.random.IntN(10) == 0 {
					x.renew(x.victims[m.random.IntN(len(x.victims))])
				}
				x.postReceives(m)
				m.awaitQuiet()
			})
			var batch [][]byte
			room := len(r.node[0].transmit.buffers) - 3
			bytes := 0 // limited by the MAC's FIFO, so that none is lost while the card is slow
			for range min(1+r.random.IntN(room), int(frames-sent)) {
				if bytes > params.MacReceiveFifoBytes-2*layout.MaxFrame {
					break
				}
				f := x.forge
				switch r.random.IntN(8) {
				case 0:
					f = x.noise
				case 1:
					if raw {
						f = x.plain
					}
				}
				b := f()
				batch = append(batch, b)
				bytes += max(len(b), layout.MinFrame) + params.WireFcsBytes
				r.node[1].hear(b)
			}
			sent += uint64(len(batch))
			if r.random.IntN(8) == 0 { // not on the wire
				batch = append(batch, make([]byte, []int{0, 1, 13, 1515, 4000}[r.random.IntN(5)]))
			}
			r.begin(func(m *machine) { m.takeErrors(patience) })
			r.node[0].inject(batch...)
			r.end()
			r.settle()
			if i%4 == 0 {
				x.honest()
				r.settle()
				r.carry()
			}
			r.both((*machine).verifyMemory)
			r.both((*machine).verifyErrors)
			if i%8 == 7 {
				r.both((*machine).verifyCounters)
			}
		}
		for _, c := range []layout.Counter{
			layout.CounterMacReceiveFrame,
			layout.CounterReceiveFrame, layout.CounterReceiveNotForUs, layout.CounterReceiveMalformed, layout.CounterReceiveBadVI,
			layout.CounterReceiveOldSequence, layout.CounterReceiveGap, layout.CounterReceiveProtection, layout.CounterReceiveAborted,
			layout.CounterReceiveUnsupported, layout.CounterReceiveDropped, layout.CounterReceiveQueueEmpty, layout.CounterReceiveLength,
			layout.CounterReceiveDescriptorError, layout.CounterReceiveMessage,
			layout.CounterRawReceive, layout.CounterRawReceiveDropped, layout.CounterRawReceiveError,
		} {
			if frames >= 2000 && r.node[1].counts[c] < 3 {
				fail("the frames did not cover %v: it came %d times", c, r.node[1].counts[c])
			}
			r.t.Logf("%v: %d", c, r.node[1].counts[c])
		}
		r.t.Logf("%d frames in %v of simulated time", frames, r.node[0].thread.Now()-begin)
	}
}

// Forged frames and frames of random bytes against live VIs with receive
// descriptors and registered memory. Nothing is written without permission,
// each frame is counted by its fate, and the card continues.
func TestHostileFrames(t *testing.T) {
	mustPlay(t, config{rawLog2: 8}, hostility(unit.Sizes{Short: 40, Normal: 10_000, Long: 100_000}.Pick()))
}
