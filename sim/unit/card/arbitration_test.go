// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim/unit/internal/unit"
)

// flight is the limit of frame bytes in flight in one direction. The MAC can
// store them, so none is lost while the card is slow.
const flight = params.MacReceiveFifoBytes - 4*layout.MaxFrame

// wireBytes is a message's part of flight.
func wireBytes(d descriptor) int {
	frames := max(1, (int(d.length)+layout.MaxPayload-1)/layout.MaxPayload)
	return int(d.length) + frames*(layout.HeaderBytes+params.WireFcsBytes+layout.MinFrame)
}

const (
	busyPairs    = 4
	busyEach     = 6 // messages of a pair in a round
	busyReceives = 8 // of an end
)

// busyRound is the work of one round, by node.
type busyRound struct {
	ends           [busyPairs][2]*end
	frames         [2][][]byte
	count, ordered [2]int // messages, commands
	took           [2]host.Time
}

func (e *end) busyBuffer() descriptor {
	m := e.vi.m
	return buffers(m.pieces(e.inbox, m.length(), 1+m.random.IntN(20))...)
}

// offer posts as many receives as messages can arrive, so that none lacks a
// buffer, whatever the timing.
func (b *busyRound) offer(m *machine) {
	for k := range b.ends {
		e := b.ends[k][m.thread.ID().Node]
		for len(e.vi.receive.posted) < busyReceives {
			e.vi.postReceive(e.busyBuffer())
		}
	}
	for len(m.receive.filled) < ringEntries/2 {
		m.offer(layout.MaxFrame)
	}
}

// rawFrames makes raw frames for a peer.
func (m *machine) rawFrames(count int, peer *machine) (frames [][]byte) {
	for range count {
		f := make([]byte, layout.MinFrame+m.random.IntN(layout.MaxFrame-layout.MinFrame))
		for i := range f {
			f[i] = byte(m.random.Uint32())
		}
		copy(f, peer.mac[:])
		layout.EthernetHeader(f).SetEtherType(layout.EtherTypeConnection)
		frames = append(frames, f)
	}
	return frames
}

// busyText is a message of many segments for a peer's receives or its memory,
// with no more frame bytes in flight than are left.
func (e *end) busyText(peer *end, left int) descriptor {
	m := e.vi.m
	size := min(m.length(), max(0, left/2-layout.MinFrame))
	d := buffers(m.pieces(e.source, size, 1+m.random.IntN(12))...)
	if m.random.IntN(3) == 0 {
		d = d.to(peer.target, m.random.IntN(endBytes-size+1))
	}
	if m.random.IntN(2) == 0 {
		d = d.with(m.random.Uint32())
	}
	return d
}

// work posts messages with commands, register reads and raw frames among them.
func (b *busyRound) work(m, peer *machine) {
	n, begin := m.thread.ID().Node, m.thread.Now()
	left, last := flight, uint32(0)
	b.frames[n] = m.rawFrames(3, peer)
	for _, f := range b.frames[n] {
		left -= len(f) + params.WireFcsBytes
	}
	for i := range busyEach * busyPairs {
		ends := b.ends[i%busyPairs]
		e := ends[n]
		d := e.busyText(ends[1-n], left)
		if left -= wireBytes(d); left < 0 {
			break
		}
		e.vi.post(d)
		b.count[n]++
		switch i {
		case 1:
			last = m.place(b.frames[n]...)
		case 2, 9:
			g := m.register(m.random.IntN(pageBytes), 3*pageBytes, 9, false)
			m.withdraw(g)
			m.release(g)
			b.ordered[n] += 2
		case 4, 12:
			m.do(layout.CommandOpcodeNop, layout.CommandStatusDone, nil)
			b.ordered[n]++
		}
		for range m.random.IntN(6) {
			m.counter(exact[m.random.IntN(len(exact))])
		}
		if m.random.IntN(3) == 0 {
			e.vi.postReceive(e.busyBuffer())
		}
	}
	m.finish()
	m.sentRaw(last)
	b.took[n] = m.thread.Now() - begin
}

// busy keeps all engines of both cards busy at once. The checkers hold each
// requester of the bus to its bound; here everything must complete and be
// right.
func busy(rounds uint64) func(r *rig) {
	return func(r *rig) {
		var ends [busyPairs][2]*end
		for i := range ends {
			ends[i] = r.converse([2]uint8{uint8(60 + i), uint8(160 + i)}, [2]uint16{uint16(61 + i), uint16(71 + i)})
		}
		messages, raws, commands, longest := 0, 0, 0, host.Time(0)
		for range rounds {
			b := &busyRound{ends: ends}
			r.both(b.offer)
			r.both(func(m *machine) { b.work(m, r.node[1-m.thread.ID().Node]) })
			r.settle()
			for n, m := range r.node {
				messages, commands = messages+b.count[n], commands+b.ordered[n]
				longest = max(longest, b.took[n])
				for _, f := range b.frames[1-n] {
					if m.seeRaw(f) {
						raws++
					}
				}
			}
			r.carry()
			r.verify()
		}
		if raws == 0 {
			fail("no raw frame was stored")
		}
		r.t.Logf("%d messages, %d raw frames stored, %d commands; the longest round took %v", messages, raws, commands, longest)
	}
}

func TestArbitration(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, busy(unit.Sizes{Short: 2, Normal: 6, Long: 2_000}.Pick()))
}

// Received frames are still written while the card's transmit side is
// overloaded: its bus, its packet buffers and the MAC are always full of frames
// for a foreign address.
func TestReceiveWhileTransmitIsHeldUp(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, func(r *rig) {
		const bytes = 18 * layout.MaxPayload
		a, b := r.pair([2]uint8{1, 2}, [2]uint16{1, 2}, [2]bool{true, true})
		source := r.node[0].register(9, bytes, 1, false)
		source.scramble()
		var target, load *region
		var away *vi
		r.b(func(m *machine) {
			target, load = m.register(5, bytes, 2, true), m.register(0, 1<<16, 3, false)
			away = m.createVI(200, 3, true)
			away.aim(a)
			away.peer = r.node[0]
			away.peerMac[5] ^= 0x80
			away.connect()
		})
		var times [2]host.Time
		for held := range 2 {
			source.scramble()
			before := r.node[1].counts[layout.CounterReceiveFrame]
			r.begin(func(m *machine) {
				if held == 1 {
					for range 4 {
						away.post(rdmaWrite(load, 0, 1<<16, load, 0))
					}
				}
			})
			r.end()
			r.sleep(100 * host.Microsecond)
			begin := r.node[0].thread.Now()
			r.begin(func(m *machine) {
				last, at := before, m.thread.Now()
				for last != before+bytes/layout.MaxPayload {
					n := m.counter(layout.CounterReceiveFrame)
					if n != last {
						last, at = n, m.thread.Now()
					}
					if m.thread.Now() > at+300*host.Microsecond {
						m.fail("no frame was written for 300 us: %d of %d", last-before, bytes/layout.MaxPayload)
					}
					m.sleep(host.Microsecond)
				}
				times[held] = m.thread.Now() - begin
				if held == 1 && away.send.posted[len(away.send.posted)-1].done() {
					m.fail("the transmit side had nothing to do before all frames were written")
				}
			})
			a.post(rdmaWrite(source, 0, bytes, target, 0))
			a.finish()
			r.end()
			r.b(func(m *machine) { m.finish() })
			r.settle()
			r.carry()
			r.verify()
		}
		if b.message.open || times[1] > 3*times[0] {
			fail("a message of %d bytes takes %v, and %v with the transmit side full", bytes, times[0], times[1])
		}
		t.Logf("a message of %d bytes takes %v, and %v with the transmit side full", bytes, times[0], times[1])
	})
}
