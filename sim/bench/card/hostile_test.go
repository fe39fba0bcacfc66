// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"hvia/layout"
	"hvia/sim/bench/internal/unit"
)

// attack is a node that puts any frame on the wire, and another that must
// write nothing but what its VIs and regions permit.
type attack struct {
	*rig
	victims []*vi // of node 1, connected with node 0's address
	regions []*region
	gone    *region // deregistered

	// An honest pair, which must not be disturbed.
	from, to       *vi
	source, target *region
}

func (r *rig) attack() *attack {
	x := &attack{rig: r}
	x.from, x.to = r.pair([2]uint8{1, 1}, [2]uint16{100, 100}, [2]bool{true, true})
	x.source = r.node[0].register(77, 20_000, 100, false)
	x.source.scramble()
	r.b(func(m *machine) {
		x.target = m.register(1234, 20_000, 100, true)
		for i := range 6 {
			tag, writable := uint16(100+i%2), i != 5
			x.victims = append(x.victims, m.createVi(uint8(40+i*7), tag, writable))
			x.regions = append(x.regions, m.register(m.random.IntN(pageBytes), 1+m.random.IntN(5*pageBytes), tag, i%3 != 2))
		}
		x.gone = m.register(0, pageBytes, 100, true)
		m.withdraw(x.gone)
		m.release(x.gone)
		for _, v := range x.victims[:5] {
			x.arm(v)
		}
		x.arm(x.victims[5])
	})
	return x
}

// arm connects a victim with nobody in particular at node 0.
func (x *attack) arm(v *vi) {
	m := v.m
	v.peer, v.peerMac, v.peerVi = x.node[0], x.node[0].mac, uint16(m.random.Uint32())
	v.expected = m.random.Uint32()
	if m.random.IntN(2) == 0 {
		v.expected = -m.random.Uint32N(30)
	}
	v.connect()
}

// frame is one that the victim would take.
func (x *attack) frame(v *vi) viaFrame {
	g := x.regions[x.random.IntN(len(x.regions))]
	n := x.random.IntN(min(g.length, layout.MaxPayload) + 1)
	if x.random.IntN(3) == 0 {
		n = x.random.IntN(min(g.length, 20) + 1)
	}
	h := viaFrame{
		destination: v.m.mac, source: v.peerMac, etherType: layout.EtherTypeVia, operation: layout.FrameOperationRdmaWrite, version: layout.ViaVersion,
		length: n, to: v.number(), from: v.peerVi, sequence: v.expected, handle: g.handle, immediate: x.random.Uint32(),
		address: g.address + uint64(x.random.IntN(g.length-n+1)), payload: make([]byte, n),
	}
	for i := range h.payload {
		h.payload[i] = byte(x.random.Uint32())
	}
	if !v.message.open {
		h.flags = layout.ViaHeaderFlagsFirstMask
	}
	if x.random.IntN(2) == 0 {
		h.flags |= layout.ViaHeaderFlagsLastMask
	}
	return h
}

// forgeries are what is wrong with a frame, one field each.
var forgeries = []func(x *attack, h *viaFrame){
	func(x *attack, h *viaFrame) { h.destination[x.random.IntN(6)] ^= 1 << x.random.IntN(8) },
	func(x *attack, h *viaFrame) { h.destination = [6]byte{255, 255, 255, 255, 255, 255} },
	func(x *attack, h *viaFrame) { h.source[x.random.IntN(6)] ^= 1 << x.random.IntN(8) },
	func(x *attack, h *viaFrame) { h.operation = layout.FrameOperation(x.random.IntN(16)) },
	func(x *attack, h *viaFrame) { h.version = uint8(x.random.IntN(16)) },
	func(x *attack, h *viaFrame) { h.flags ^= 1 << x.random.IntN(8) },
	func(x *attack, h *viaFrame) { h.flags ^= 1 << x.random.IntN(3) },
	func(x *attack, h *viaFrame) { h.length = x.random.IntN(1 << 16) },
	func(x *attack, h *viaFrame) { h.length = len(h.payload) + x.random.IntN(3) }, // may lie in the padding
	func(x *attack, h *viaFrame) { h.length = layout.MaxPayload + 1 },
	func(x *attack, h *viaFrame) { h.length = x.random.IntN(len(h.payload) + 1) }, // bytes to spare behind
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
	func(x *attack, h *viaFrame) { // a byte before or behind the region
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

// forge makes a frame in which some things are wrong.
func (x *attack) forge() []byte {
	h := x.frame(x.victims[x.random.IntN(len(x.victims))])
	switch x.random.IntN(20) {
	case 0, 1, 2, 3: // as it should be
	case 4, 5: // two things
		forgeries[x.random.IntN(len(forgeries))](x, &h)
		fallthrough
	default:
		forgeries[x.random.IntN(len(forgeries))](x, &h)
	}
	b := h.encode()
	switch x.random.IntN(12) {
	case 0: // cut off; the wire pads short ones
		b = b[:layout.EthernetHeaderSize+x.random.IntN(len(b)-layout.EthernetHeaderSize+1)]
	case 1: // longer than it says
		b = append(b, make([]byte, x.random.IntN(layout.MaxFrame-len(b)+1))...)
		for i := len(b) - 1; i > layout.HeaderBytes+len(h.payload); i-- {
			b[i] = byte(x.random.Uint32())
		}
	}
	return b
}

// plain makes a frame of another protocol, for the raw port.
func (x *attack) plain() []byte {
	b := make([]byte, layout.EthernetHeaderSize+x.random.IntN(layout.MaxFrame-layout.EthernetHeaderSize+1))
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

// honest sends a message on the pair that the attacker leaves alone.
func (x *attack) honest() {
	n := 1 + x.random.IntN(x.source.length)
	x.from.post(rdmaWrite(x.source, x.random.IntN(x.source.length-n+1), n, x.target, x.random.IntN(x.target.length-n+1)))
	x.from.finish()
}

// renew destroys a victim and makes one of the same index, so that frames for
// the old one are about.
func (x *attack) renew(v *vi) {
	m := v.m
	m.viCommand(layout.CommandOpcodeDisconnectVi, v, layout.CommandStatusDone, layout.ViStateIdle)
	m.viCommand(layout.CommandOpcodeDestroyVi, v, layout.CommandStatusDone, layout.ViStateIdle)
	v.flushed()
	v.generation++
	m.viCommand(layout.CommandOpcodeCreateVi, v, layout.CommandStatusDone, layout.ViStateIdle)
	if m.random.IntN(4) != 0 {
		x.arm(v)
	}
}

// hostility sends batches of bad frames back to back and after each compares
// everything: memory, reasons of drops, asynchronous errors, the honest pair.
func hostility(batches uint64) func(r *rig) {
	return func(r *rig) {
		x := r.attack()
		for i := range batches {
			r.b(func(m *machine) {
				if room := ringEntries - 2 - len(m.receive.filled); room > 0 && m.random.IntN(3) == 0 {
					m.offer([]int{layout.MaxFrame, 60, 200, 1, pageBytes}[m.random.IntN(5)])
				}
				if m.random.IntN(10) == 0 {
					x.renew(x.victims[m.random.IntN(len(x.victims))])
				}
			})
			r.settle()
			var frames [][]byte
			for range 1 + r.random.IntN(8) { // each may be two asynchronous errors
				f := x.forge()
				frames = append(frames, f)
				r.node[1].hear(f)
			}
			if r.random.IntN(3) == 0 {
				// At most one, the last: how far the card has read ahead in its ring is its own affair.
				f := x.plain()
				frames = append(frames, f)
				r.node[1].hear(f)
			}
			if r.random.IntN(8) == 0 { // not for the wire at all
				frames = append(frames, make([]byte, []int{0, 1, 13, 1515, 4000}[r.random.IntN(5)]))
			}
			r.node[0].inject(frames...)
			if i%4 == 0 {
				x.honest()
			}
			r.settle()
			r.carry()
			r.both((*machine).verifyMemory)
			r.both((*machine).verifyErrors)
			if i%8 == 7 {
				r.both((*machine).verifyCounters)
			}
		}
		for _, c := range []layout.Counter{
			layout.CounterReceiveFrame, layout.CounterReceiveNotForUs, layout.CounterReceiveMalformed, layout.CounterReceiveBadVi,
			layout.CounterReceiveOldSequence, layout.CounterReceiveGap, layout.CounterReceiveProtection, layout.CounterReceiveAborted,
			layout.CounterReceiveUnsupported, layout.CounterRawReceive, layout.CounterRawReceiveDropped, layout.CounterRawReceiveError,
		} {
			if batches >= 100 && r.node[1].counts[c] < 5 {
				fail("the frames did not cover %v: it came %d times", c, r.node[1].counts[c])
			}
			r.t.Logf("%v: %d", c, r.node[1].counts[c])
		}
	}
}

func TestHostileFrames(t *testing.T) {
	mustPlay(t, config{}, hostility(unit.Sizes{Short: 15, Normal: 300, Long: 20_000}.Pick()))
}
