// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

// traffic is the load during a reset: messages both ways on two VIs, raw frames
// both ways, and commands.
type traffic struct {
	vis            [2][2]*vi // by node
	source, target [2]*region
	sent, old      [2][]byte // content of the sources, and old content of the targets
}

const (
	trafficMessages = 6
	trafficPlace    = 3 * pageBytes
)

func (r *rig) traffic() *traffic {
	x := &traffic{}
	for k := range 2 {
		x.vis[0][k], x.vis[1][k] = r.pair([2]uint8{uint8(10 + k), uint8(20 + k)}, [2]uint16{5, 6}, [2]bool{true, true})
	}
	r.both(func(m *machine) {
		i := m.thread.ID().Node
		tag := x.vis[i][0].tag
		x.source[i] = m.register(m.random.IntN(pageBytes), trafficMessages*trafficPlace, tag, false)
		x.target[i] = m.register(m.random.IntN(pageBytes), trafficMessages*trafficPlace, tag, true)
		x.source[i].scramble()
		x.sent[i], x.old[i] = x.source[i].bytes(0, x.source[i].length), x.target[i].bytes(0, x.target[i].length)
		m.offer(layout.MaxFrame, layout.MaxFrame, layout.MaxFrame, layout.MaxFrame)
	})
	return x
}

// post starts all traffic of a machine without waiting for it.
func (x *traffic) post(m *machine) {
	i := m.thread.ID().Node
	peer := x.vis[1-i][0].m
	for k := range trafficMessages {
		v := x.vis[i][k%2]
		n := 1 + m.random.IntN(trafficPlace)
		v.post(rdmaWrite(x.source[i], k*trafficPlace, n, x.target[1-i], k*trafficPlace))
	}
	for range 4 {
		f := make([]byte, layout.MinFrame+m.random.IntN(layout.MaxFrame-layout.MinFrame))
		copy(f, peer.mac[:])
		copy(f[6:], m.mac[:])
		layout.EthernetHeader(f).SetEtherType(layout.EtherTypeConnection)
		b := rawBuffer{entry: m.transmit.tail, address: m.transmit.buffers[m.transmit.tail]}
		m.put(b.address, f)
		m.fillEntry(&m.transmit, b, len(f))
	}
	m.write(layout.RegisterRawTransmitTailOffset, uint32(m.transmit.tail))
}

// verify checks a target after a reset of its card or of the peer: every byte
// is the old one or that of the message.
func (x *traffic) verify(node int) {
	g, sent := x.target[node], x.sent[1-node]
	got := g.bytes(0, g.length)
	for k := range got {
		if got[k] != x.old[node][k] && got[k] != sent[k] {
			g.m.fail("byte %d of the target is %#x: neither what was there (%#x) nor what was sent (%#x)", k, got[k], x.old[node][k], sent[k])
		}
	}
	g.adopt(0, g.length)
}

// adoptCard accepts the card's writes to descriptors, rings, raw buffers and
// the command block before its reset.
func (m *machine) adoptCard() {
	frames := []uint32{m.command / pageBytes, m.transmit.base / pageBytes, m.receive.base / pageBytes}
	for _, b := range m.receive.buffers {
		frames = append(frames, b/pageBytes)
	}
	for i := range 256 {
		if v := m.vis[uint8(i)]; v != nil {
			frames = append(frames, v.send.region.frames...)
			frames = append(frames, v.receive.region.frames...)
		}
	}
	for _, f := range frames {
		copy(m.want[f*pageBytes:(f+1)*pageBytes], m.memo[f*pageBytes:])
	}
}

// Soft resets at random moments of heavy traffic, of one card, the other, or
// both. When a card reports the end of its reset, its memory is withdrawn and
// overwritten at once, so a late access would end the run. Then the card is
// started again, and everything must work.
func TestSoftReset(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, softResetRounds(unit.Sizes{Short: 3, Normal: 10, Long: 2_000}.Pick()))
}

func softResetRounds(rounds uint64) func(r *rig) {
	return func(r *rig) { softResets(r, rounds) }
}

func softResets(r *rig, rounds uint64) {
	var cut [2]int
	for i := range rounds {
		x := r.traffic()
		which := r.random.IntN(3) // node 0, node 1, both
		if i < 3 {
			which = int(i)
		}
		at := host.Time(r.random.Int64N(int64(400 * host.Microsecond)))
		if r.random.IntN(3) == 0 {
			at = host.Time(r.random.Int64N(int64(10 * host.Microsecond)))
		}
		// The moment must not be a multiple of the polls.
		at -= at % host.Nanosecond
		command := r.random.IntN(2) == 0
		r.both(func(m *machine) {
			n := m.thread.ID().Node
			x.post(m)
			m.sleep(at + host.Time(m.random.Int64N(int64(host.Microsecond))))
			if which != 2 && which != n {
				return
			}
			cut[n]++
			if command { // one is in progress as well
				m.put(m.command, make([]byte, layout.CommandSize))
				c := layout.Command(make([]byte, layout.CommandSize))
				c.SetOpcode(uint32(layout.CommandOpcodeInitialiseAtt))
				c.SetIndex(regionLimit)
				m.put(m.command, c)
				m.write(layout.RegisterCommandAddressOffset, m.command)
			}
			m.resetWith(func() {
				m.adoptCard()
				x.verify(n)
			})
			m.start()
		})
		r.sleep(host.Millisecond) // the survivor's frames reach a card without their VIs
		r.both(func(m *machine) { m.awaitQuiet() })
		r.both(func(m *machine) {
			n := m.thread.ID().Node
			if which != 2 && which != n {
				m.adoptCard()
				x.verify(n)
				// Its counts depend on the moment of the peer's reset.
				m.reset()
				m.start()
				return
			}
			// Late frames of the peer met no VI.
			m.counts[layout.CounterMacReceiveFrame] = 0
			for _, c := range []layout.Counter{layout.CounterReceiveNotForUs, layout.CounterReceiveBadVI, layout.CounterRawReceiveDropped} {
				m.counts[c] = m.counter(c)
				m.counts[layout.CounterMacReceiveFrame] += m.counts[c]
			}
		})
		r.settle()
		r.verify()
		y := r.traffic()
		r.both(func(m *machine) {
			y.post(m)
			m.finish()
		})
		r.settle()
		r.carry()
		for k := range 4 {
			for n, m := range r.node {
				f := m.transmit.buffers[k]
				e := layout.RawEntry(m.memo[m.transmit.base+uint32(k)*layout.RawEntrySize:])
				m.expectWord(m.transmit.base+uint32(k)*layout.RawEntrySize+layout.RawEntryStatusOffset, layout.RawEntryStatusDoneMask)
				m.counts[layout.CounterRawTransmit]++
				m.counts[layout.CounterMacTransmitFrame]++
				r.node[1-n].hear(m.memo[f : f+e.Length()])
			}
		}
		r.verify()
		r.both(func(m *machine) { m.reset(); m.start() })
	}
	r.t.Logf("resets in traffic: %d of node 0, %d of node 1", cut[0], cut[1])
}
