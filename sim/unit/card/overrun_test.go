// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
)

// flood makes node 0 send single-frame messages back to back on several VIs,
// while node 1's card is busy sending to an unknown address. It returns how
// many frames node 1's card dropped for lack of space. Exactly those must be
// missing in memory.
func flood(r *rig, bytes int) uint32 {
	const vis = 4
	var from, to [vis]*vi
	var source, target [vis]*region
	const each = queueSlots - 1
	for i := range vis {
		from[i], to[i] = r.pair([2]uint8{uint8(i), uint8(i)}, [2]uint16{1, 2}, [2]bool{true, true})
		r.both(func(m *machine) {
			if m == r.node[0] {
				source[i] = m.register(i, each*bytes, 1, false)
				source[i].scramble()
			} else {
				target[i] = m.register(2*i, each*bytes, 2, true)
			}
		})
	}
	// The load on node 1's bus goes to a foreign address.
	var away *vi
	var load *region
	r.b(func(m *machine) {
		load = m.register(0, 1<<16, 3, false)
		away = m.createVI(200, 3, true)
		away.aim(to[0])
		away.peer = r.node[0]
		away.peerMac[5] ^= 0x80
		away.connect()
	})
	r.begin(func(m *machine) {
		for range 8 {
			away.post(rdmaWrite(load, 0, 1<<16, load, 0))
		}
		away.finish()
	})
	for k := range each {
		for i := range vis {
			from[i].post(rdmaWrite(source[i], k*bytes, bytes, target[i], k*bytes))
		}
	}
	r.node[0].finish()
	r.end()
	r.settle()

	// The next stored frame reports a drop.
	last := make([]byte, layout.MinFrame)
	copy(last, r.node[1].mac[:])
	layout.EthernetHeader(last).SetEtherType(layout.EtherTypeConnection)
	r.node[0].inject(last)
	r.settle()

	lost := uint32(0)
	for i := range vis {
		for _, p := range from[i].send.posted {
			frames, status, moved := from[i].transmit(p)
			if len(frames) != 1 {
				fail("a message of %d bytes is %d frames", bytes, len(frames))
			}
			if target[i].holds(frames[0]) {
				from[i].sent(p, frames, status, moved)
				continue
			}
			lost++
			from[i].sent(p, nil, status, moved)
			from[i].next++
			r.node[0].counts[layout.CounterTransmitFrame]++
			r.node[0].counts[layout.CounterMacTransmitFrame]++
		}
		from[i].send.posted = nil
	}
	r.node[1].hear(last)
	away.carry()
	told := uint32(0)
	r.b(func(m *machine) { told = m.counter(layout.CounterMacReceiveOverrun) })
	if told > lost || (told == 0) != (lost == 0) {
		fail("%d overruns were reported, and %d frames are missing", told, lost)
	}
	r.node[1].counts[layout.CounterMacReceiveOverrun] = told
	return lost
}

func TestOverrun(t *testing.T) {
	takesSeconds(t)
	for name, straps := range map[string]uint32{"two slots": 0, "one slot": 1 << layout.StrapSingleReceiveSlot} {
		t.Run(name, func(t *testing.T) {
			mustPlay(t, config{straps: straps}, func(r *rig) {
				lost := flood(r, layout.MaxPayload)
				if lost == 0 {
					fail("nothing was dropped: the test does not reach what it is for")
				}
				t.Logf("%d frames were dropped", lost)
			})
		})
	}
}

// burst measures a long message from node 0 to node 1, from the doorbell to the
// last frame in memory.
func burst(r *rig) host.Time {
	a, b := r.pair([2]uint8{1, 2}, [2]uint16{3, 4}, [2]bool{true, true})
	// At most the MAC's capacity: a card with one receive buffer is slower than
	// the wire.
	const frames = 20
	const bytes = frames * layout.MaxPayload
	source := r.node[0].register(0, bytes, a.tag, false)
	source.scramble()
	var target *region
	r.b(func(m *machine) { target = m.register(0, bytes, b.tag, true) })
	begin := r.node[0].thread.Now()
	var end host.Time
	r.begin(func(m *machine) {
		for m.counter(layout.CounterReceiveFrame) != frames {
			if m.thread.Now() > begin+patience {
				m.fail("%d of %d frames came", m.counter(layout.CounterReceiveFrame), frames)
			}
			m.sleep(host.Microsecond)
		}
		end = m.thread.Now()
	})
	a.post(rdmaWrite(source, 0, bytes, target, 0))
	a.finish()
	r.end()
	r.settle()
	r.carry()
	return end - begin
}

// A card with one packet buffer in a direction does the same, but later.
func TestStraps(t *testing.T) {
	takesSeconds(t)
	times := map[uint32]host.Time{}
	for straps := range uint32(4) {
		mustPlay(t, config{straps: straps}, func(r *rig) {
			r.both(func(m *machine) {
				if got := m.read(layout.RegisterStrapOffset); got != straps {
					m.fail("the straps read %#x, want %#x", got, straps)
				}
			})
			times[straps] = burst(r)
			shortMessages(r)
			// A reset samples them again.
			r.both(func(m *machine) { m.reset(); m.start() })
			r.both(func(m *machine) {
				if got := m.read(layout.RegisterStrapOffset); got != straps {
					m.fail("the straps read %#x after a reset, want %#x", got, straps)
				}
			})
		})
	}
	t.Logf("time of a long message by straps: %v", times)
	const transmit, receive = 1 << layout.StrapSingleTransmitSlot, 1 << layout.StrapSingleReceiveSlot
	require.Greater(t, times[transmit], times[0], "one transmit slot is not slower than two")
	require.Greater(t, times[receive], times[0], "one receive slot is not slower than two")
	// With both, the slower direction decides.
	require.GreaterOrEqual(t, times[transmit|receive], max(times[transmit], times[receive]))
}
