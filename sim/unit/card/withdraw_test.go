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

// withdrawals deregisters memory while messages that use it are in flight: the
// target, the source, or the descriptors. In the instant in which the card
// reports that it is done, the frames are taken out of use, so any later access
// ends the run. The completed part must be a whole number of frames, in order,
// and everything else must follow from that number. A second VI between the
// same cards must not be affected.
func withdrawals(rounds uint64) func(r *rig) {
	return func(r *rig) {
		const messages = 5
		other := [2]*vi{}
		other[0], other[1] = r.pair([2]uint8{9, 9}, [2]uint16{2, 2}, [2]bool{true, true})
		v := [2]*vi{}
		v[0], v[1] = r.pair([2]uint8{60, 61}, [2]uint16{3, 4}, [2]bool{true, true})
		r.both((*machine).verifyErrors)
		partial := [3]int{}
		for range rounds {
			what := r.random.IntN(3) // target, source, descriptors
			var source, target, quietSource, quietTarget, backSource, backTarget *region
			var lengths [messages]int
			total := 0
			for i := range lengths {
				lengths[i] = 64 + r.random.IntN(9000)
				total += lengths[i]
			}
			r.both(func(m *machine) {
				if m == r.node[0] {
					source, quietSource = m.register(m.random.IntN(pageBytes), total, 3, false), m.register(5, 9000, 2, false)
					source.scramble()
					quietSource.scramble()
					backTarget = m.register(7, 18_000, 2, true)
				} else {
					backSource = m.register(8, 18_000, 2, false)
					backSource.scramble()
					target, quietTarget = m.register(m.random.IntN(pageBytes), total, 4, true), m.register(6, 9000, 2, true)
				}
			})
			// Both at one time: the descriptors, and later the withdrawal.
			after := host.Time(r.random.Int64N(int64(350 * host.Microsecond)))
			victim := []*region{target, source, v[0].send.region}[what]
			r.begin(func(m *machine) {
				// Incoming traffic has priority on the bus, which delays the
				// outgoing.
				for i := range 3 {
					other[1].post(rdmaWrite(backSource, 6000*i, 6000, backTarget, 6000*i))
				}
				if what == 0 {
					m.sleep(after)
					m.withdraw(target)
					m.suspend(target)
				}
				other[1].finish()
			})
			at := 0
			for i, n := range lengths {
				v[0].post(rdmaWrite(source, at, n, target, at))
				if i < 3 {
					other[0].post(rdmaWrite(quietSource, 3000*i, 3000, quietTarget, 3000*i))
				}
				at += n
			}
			if what != 0 {
				r.sleep(after)
				victim.m.withdraw(victim)
				victim.m.suspend(victim)
			}
			other[0].finish()
			if what != 2 {
				v[0].finish()
			}
			r.end()
			r.settle()

			accepted, late := 0, false
		messages:
			for i, p := range v[0].send.posted {
				switch {
				case what == 2 && !p.done():
					// Not reached, and with it those behind it that only its
					// link reaches. One whose doorbell found the queue empty is
					// fetched separately.
					bad := v[0].m.counter(layout.CounterDescriptorBad) - v[0].m.counts[layout.CounterDescriptorBad]
					if bad < 1 || int(bad) > messages-i {
						fail("%d descriptors could not be reached, of the last %d posted", bad, messages-i)
					}
					v[0].m.counts[layout.CounterDescriptorBad] += bad
					for range bad {
						v[0].m.errors = append(v[0].m.errors, asyncError{layout.AsyncErrorPostDescriptor, v[0].index})
					}
					if i > 0 {
						partial[what]++
					}
					break messages
				case what == 1 && p.statusWord()&layout.DescriptorStatusProtectionErrorMask != 0:
					// Some frames of it may have left; the length says how
					// many.
					moved := int(p.lengthWord())
					if moved%layout.MaxPayload != 0 || moved >= lengths[i] {
						fail("a message of %d bytes was given up after %d", lengths[i], moved)
					}
					if moved > 0 {
						partial[what]++
					}
					frames := v[0].framesOf(p, source)
					v[0].sent(p, frames[:moved/layout.MaxPayload], p.ended(layout.DescriptorStatusProtectionErrorMask), moved)
				case what == 0:
					for _, f := range v[0].framesOf(p, source) {
						switch {
						case late:
						case !target.holds(f):
							late = true
							target.cut(f)
							delete(r.node[1].regions, target.index)
						default:
							r.node[1].regions[target.index] = target
							accepted++
						}
						v[0].sentFrame(f)
					}
					v[0].completed(p, p.ended(0), lengths[i])
				default:
					v[0].sent(p, v[0].framesOf(p, source), p.ended(0), lengths[i])
				}
			}
			if what == 0 {
				delete(r.node[1].regions, target.index)
				if late && accepted > 0 {
					partial[what]++
				}
			}
			v[0].send.posted = nil
			other[0].carry()
			other[1].carry()
			r.both((*machine).verifyMemory)
			r.both((*machine).verifyErrors)
			r.both((*machine).verifyCounters)
			r.both(func(m *machine) {
				for _, g := range []*region{source, target, quietSource, quietTarget, backSource, backTarget} {
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
				if what == 2 && m == r.node[0] {
					m.resume(victim)
					m.release(victim)
					v[0].send.region, v[0].send.at = m.register(0, pageBytes, v[0].tag, false), 0
				}
			})
			// The first unreachable descriptor broke the send queue.
			if what == 2 {
				r.both(func(m *machine) { v[m.thread.ID().Node].disconnect() })
				r.connect(v[0], v[1])
			}
		}
		for what, name := range []string{"targets", "sources", "descriptors"} {
			if rounds >= 90 && partial[what] == 0 {
				fail("no withdrawal of %s came in the middle of messages", name)
			}
			r.t.Logf("withdrawals of %s in the middle: %d", name, partial[what])
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

// cut predicts the traces of a frame whose region went after its first page had
// been translated and before its second: some complete bursts.
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
	mustPlay(t, config{}, withdrawals(unit.Sizes{Short: 8, Normal: 90, Long: 5_000}.Pick()))
}
