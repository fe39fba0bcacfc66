// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

const withdrawnMessages = 5

// loss is what a round withdraws.
type loss int

const (
	lostTarget loss = iota
	lostSource
	lostDescriptors
)

// withdrawing is a pair of VIs that loses memory and one that must not be
// affected.
type withdrawing struct {
	*rig
	v, other [2]*vi
	partial  [3]int // withdrawals in the middle of messages, by loss
}

// withdrawnRound is the memory of a round: that of the pair, and that of the
// other pair in both directions.
type withdrawnRound struct {
	*withdrawing
	what                                                             loss
	lengths                                                          [withdrawnMessages]int
	total                                                            int
	source, target, quietSource, quietTarget, backSource, backTarget *region
	victim                                                           *region
}

func (x *withdrawing) round() *withdrawnRound {
	y := &withdrawnRound{withdrawing: x, what: loss(x.random.IntN(3))}
	for i := range y.lengths {
		y.lengths[i] = 64 + x.random.IntN(9000)
		y.total += y.lengths[i]
	}
	x.both(func(m *machine) {
		if m == x.node[0] {
			y.source, y.quietSource = m.register(m.random.IntN(pageBytes), y.total, 3, false), m.register(5, 9000, 2, false)
			y.source.scramble()
			y.quietSource.scramble()
			y.backTarget = m.register(7, 18_000, 2, true)
		} else {
			y.backSource = m.register(8, 18_000, 2, false)
			y.backSource.scramble()
			y.target, y.quietTarget = m.register(m.random.IntN(pageBytes), y.total, 4, true), m.register(6, 9000, 2, true)
		}
	})
	y.victim = []*region{y.target, y.source, x.v[0].send.region}[y.what]
	return y
}

// play posts the messages on both pairs, and the withdrawal among them.
func (y *withdrawnRound) play() {
	v, other := y.v[0], y.other
	after := host.Time(y.random.Int64N(int64(350 * host.Microsecond)))
	y.begin(func(m *machine) {
		// Incoming traffic has priority on the bus, which delays the outgoing.
		for i := range 3 {
			other[1].post(rdmaWrite(y.backSource, 6000*i, 6000, y.backTarget, 6000*i))
		}
		if y.what == lostTarget {
			m.sleep(after)
			m.withdraw(y.target)
			m.suspend(y.target)
		}
		other[1].finish()
	})
	at := 0
	for i, n := range y.lengths {
		v.post(rdmaWrite(y.source, at, n, y.target, at))
		if i < 3 {
			other[0].post(rdmaWrite(y.quietSource, 3000*i, 3000, y.quietTarget, 3000*i))
		}
		at += n
	}
	if y.what != lostTarget {
		y.sleep(after)
		y.victim.m.withdraw(y.victim)
		y.victim.m.suspend(y.victim)
	}
	other[0].finish()
	if y.what != lostDescriptors {
		v.finish()
	}
	y.end()
	y.settle()
}

// account updates the model for the messages that lost their memory.
func (y *withdrawnRound) account() {
	switch v := y.v[0]; y.what {
	case lostTarget:
		y.accountTarget(v)
	case lostSource:
		y.accountSource(v)
	case lostDescriptors:
		y.accountDescriptors(v)
	}
	y.v[0].send.posted = nil
	y.other[0].carry()
	y.other[1].carry()
}

func (y *withdrawnRound) accountTarget(v *vi) {
	peer, accepted, late := y.node[1], 0, false
	for i, p := range v.send.posted {
		for _, f := range v.framesOf(p, y.source) {
			switch {
			case late:
			case !y.target.holds(f):
				late = true
				y.target.cut(f)
				delete(peer.regions, y.target.index)
			default:
				peer.regions[y.target.index] = y.target
				accepted++
			}
			v.sentFrame(f)
		}
		v.completed(p, p.ended(0), y.lengths[i])
	}
	delete(peer.regions, y.target.index)
	if late && accepted > 0 {
		y.partial[lostTarget]++
	}
}

func (y *withdrawnRound) accountSource(v *vi) {
	for i, p := range v.send.posted {
		frames := v.framesOf(p, y.source)
		if p.statusWord()&layout.DescriptorStatusProtectionErrorMask == 0 {
			v.sent(p, frames, p.ended(0), y.lengths[i])
			continue
		}
		// The length shows how many of the message's frames have left.
		moved := int(p.lengthWord())
		if moved%layout.MaxPayload != 0 || moved >= y.lengths[i] {
			fail("a message of %d bytes was given up after %d", y.lengths[i], moved)
		}
		if moved > 0 {
			y.partial[lostSource]++
		}
		v.sent(p, frames[:moved/layout.MaxPayload], p.ended(layout.DescriptorStatusProtectionErrorMask), moved)
	}
}

func (y *withdrawnRound) accountDescriptors(v *vi) {
	for i, p := range v.send.posted {
		if p.done() {
			v.sent(p, v.framesOf(p, y.source), p.ended(0), y.lengths[i])
			continue
		}
		// The card could reach neither this descriptor nor those that only its
		// link reaches. A descriptor whose doorbell found the queue empty is
		// fetched separately.
		bad := v.m.counter(layout.CounterDescriptorBad) - v.m.counts[layout.CounterDescriptorBad]
		if bad < 1 || int(bad) > withdrawnMessages-i {
			fail("%d descriptors could not be reached, of the last %d posted", bad, withdrawnMessages-i)
		}
		v.m.counts[layout.CounterDescriptorBad] += bad
		for range bad {
			v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorPostDescriptor, v.index})
		}
		if i > 0 {
			y.partial[lostDescriptors]++
		}
		return
	}
}

// release frees the memory of a round.
func (y *withdrawnRound) release() {
	v := y.v
	y.both(func(m *machine) {
		for _, g := range []*region{y.source, y.target, y.quietSource, y.quietTarget, y.backSource, y.backTarget} {
			if g.m != m {
				continue
			}
			if g.withdrawn {
				m.resume(g)
			} else {
				m.withdraw(g)
			}
			m.release(g)
		}
		if y.what == lostDescriptors && m == y.node[0] {
			m.resume(y.victim)
			m.release(y.victim)
			v[0].send.region, v[0].send.at = m.register(0, pageBytes, v[0].tag, false), 0
		}
	})
	// The first unreachable descriptor broke the send queue.
	if y.what == lostDescriptors {
		y.both(func(m *machine) { v[m.thread.ID().Node].disconnect() })
		y.connect(v[0], v[1])
	}
}

// withdrawals deregisters memory while messages that use it are in flight: the
// target, the source, or the descriptors. When the card reports that it is
// done, the frames go out of use at once, so any later access ends the run. The
// completed part must be a whole number of frames, in order. A second VI
// between the same cards is not affected.
func withdrawals(rounds uint64) func(r *rig) {
	return func(r *rig) {
		x := &withdrawing{rig: r}
		x.other[0], x.other[1] = r.pair([2]uint8{9, 9}, [2]uint16{2, 2}, [2]bool{true, true})
		x.v[0], x.v[1] = r.pair([2]uint8{60, 61}, [2]uint16{3, 4}, [2]bool{true, true})
		r.both((*machine).verifyErrors)
		for range rounds {
			y := x.round()
			y.play()
			y.account()
			r.both((*machine).verifyMemory)
			r.both((*machine).verifyErrors)
			r.both((*machine).verifyCounters)
			y.release()
		}
		for what, name := range []string{"targets", "sources", "descriptors"} {
			if rounds >= 90 && x.partial[what] == 0 {
				fail("no withdrawal of %s came in the middle of messages", name)
			}
			r.t.Logf("withdrawals of %s in the middle: %d", name, x.partial[what])
		}
	}
}

// suspend takes a withdrawn region's frames out of use, but leaves their bytes.
func (m *machine) suspend(g *region) {
	for _, f := range g.frames {
		m.check(m.memory.Release(int(f), bridge.UseRegion))
	}
}

func (m *machine) resume(g *region) {
	for _, f := range g.frames {
		m.check(m.memory.Acquire(int(f), bridge.UseRegion))
	}
}

// framesOf makes the frames of a message whose source was registered when it
// was sent.
func (v *vi) framesOf(p *posted, source *region) [][]byte {
	was := v.m.regions[source.index]
	v.m.regions[source.index] = source
	frames, status, _ := v.transmit(p)
	if status != p.ended(0) {
		v.m.fail("the model rejects a good message: %#x", status)
	}
	delete(v.m.regions, source.index)
	if was != nil {
		v.m.regions[source.index] = was
	}
	return frames
}

// sentFrame is one frame of a message on the wire and at the peer.
func (v *vi) sentFrame(f []byte) {
	v.next++
	v.m.counts[layout.CounterTransmitFrame]++
	v.m.counts[layout.CounterMacTransmitFrame]++
	v.peer.hear(f)
}

// holds reports whether a frame's payload is in the region.
func (g *region) holds(frame []byte) bool {
	h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	payload := frame[layout.HeaderBytes : layout.HeaderBytes+int(h.PayloadLength())]
	return bytes.Equal(g.bytes(int(h.Address()-g.address), len(payload)), payload)
}

// cut predicts the bytes of a frame whose region was withdrawn between the
// translations of its first and its second page: some complete bursts.
func (g *region) cut(frame []byte) {
	h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	payload := frame[layout.HeaderBytes : layout.HeaderBytes+int(h.PayloadLength())]
	offset, n := int(h.Address()-g.address), 0
	for got := g.bytes(offset, len(payload)); got[n] == payload[n]; n++ {
	}
	if n <= pageBytes-(g.offset+offset)%pageBytes {
		g.pieces(offset, n, func(address uint32, at, n int) { g.m.expect(address, payload[at:at+n]) })
	}
}

func TestWithdrawals(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, withdrawals(unit.Sizes{Short: 8, Normal: 30, Long: 5_000}.Pick()))
}
