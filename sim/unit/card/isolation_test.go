// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

// trouble is a fault on one pair of VIs while another one works.
type trouble struct {
	name string
	// prepare runs before a round's messages, post among them on both machines
	// at once, after when all is settled.
	prepare func(r *rig, y [2]*end)
	post    func(r *rig, y [2]*end, m *machine)
	after   func(r *rig, y [2]*end)
}

func spoiled(wrong ...func(m *machine, e, peer *end, d *descriptor)) func(r *rig, y [2]*end, m *machine) {
	return func(_ *rig, y [2]*end, m *machine) {
		n := m.thread.ID().Node
		for range 3 {
			d := buffers(m.pieces(y[n].source, 1+m.random.IntN(longestText), 1+m.random.IntN(7))...)
			wrong[m.random.IntN(len(wrong))](m, y[n], y[1-n], &d)
			y[n].vi.post(d)
		}
	}
}

// withReceives posts buffers on the pair with the fault.
func withReceives(_ *rig, y [2]*end) func(m *machine) {
	return func(m *machine) {
		e := y[m.thread.ID().Node]
		for len(e.vi.receive.posted) < 4 {
			e.vi.postReceive(e.buffer())
		}
	}
}

var troubles = []trouble{
	{name: "local errors", post: spoiled(
		func(m *machine, _, _ *end, d *descriptor) { m.spoil(d, false) },
		func(_ *machine, _, _ *end, d *descriptor) {
			d.control = uint16(layout.DescriptorOperationRDMARead) << layout.DescriptorControlOperationLsb
		},
		func(_ *machine, _, _ *end, d *descriptor) { d.segments = layout.MaxDataSegments + 1 },
		func(_ *machine, _, _ *end, d *descriptor) {
			d.data[len(d.data)-1].handle ^= 1 << layout.AttHandleValueGenerationLsb
		},
	)},
	{name: "remote protection", post: spoiled(
		func(_ *machine, _, peer *end, d *descriptor) { *d = d.to(peer.source, 0) },                       // no right
		func(_ *machine, _, peer *end, d *descriptor) { *d = d.to(peer.target, endBytes-1) },              // bounds
		func(_ *machine, _, peer *end, d *descriptor) { *d = d.to(peer.target, 0); d.remote.handle ^= 1 }, // another region's place
	)},
	{
		name: "receive buffers rejected",
		prepare: func(r *rig, y [2]*end) {
			r.both(func(m *machine) {
				e := y[m.thread.ID().Node]
				for len(e.vi.receive.posted) < 4 {
					d := buffers(m.pieces(e.inbox, longestText, 6)...)
					d.data[m.random.IntN(6)].handle ^= 1 << layout.AttHandleValueGenerationLsb
					if m.random.IntN(3) == 0 {
						d.reserved = 1
					}
					e.vi.postReceive(d)
				}
			})
		},
		post: spoiled(func(m *machine, _, _ *end, d *descriptor) {
			if m.random.IntN(2) == 0 {
				*d = d.with(3)
			}
		}),
	},
	{name: "receive queue empty", post: spoiled(func(*machine, *end, *end, *descriptor) {})},
	{
		name:    "messages without an end",
		prepare: func(r *rig, y [2]*end) { r.both(withReceives(r, y)) },
		post: spoiled(func(m *machine, _, peer *end, d *descriptor) {
			*d = buffers(append(d.data, m.pieces(peer.source, 0, 3)...)...)
			d.data[len(d.data)-1] = d.data[0]
			if m.random.IntN(3) == 0 {
				*d = d.to(peer.target, 0)
			}
			d.length += 2 * layout.MaxPayload
		}),
	},
	{name: "descriptors that are not there", post: func(_ *rig, y [2]*end, m *machine) {
		v := y[m.thread.ID().Node].vi
		for _, q := range []*workQueue{&v.send, &v.receive} {
			handle, address := q.region.handle, q.region.address
			switch m.random.IntN(3) {
			case 0:
				handle ^= 1 << layout.AttHandleValueGenerationLsb
			case 1:
				address -= layout.DescriptorAlignment
			case 2:
				address += uint64(q.region.length)
			}
			m.check(m.thread.Write(q.doorbell(), uint32(address), uint32(address>>32), handle))
			if q.receive {
				m.counts[layout.CounterDoorbellReceive]++
			} else {
				m.counts[layout.CounterDoorbellSend]++
			}
			m.counts[layout.CounterDescriptorBad]++
			m.errors = append(m.errors, asyncError{layout.AsyncErrorPostDescriptor, v.index})
		}
	}},
	{name: "forged frames", post: func(r *rig, _ [2]*end, m *machine) {
		if m == r.node[0] {
			m.inject(r.forged...)
		}
	}, prepare: func(r *rig, y [2]*end) {
		v := y[1].vi
		r.b(withReceives(r, y))
		r.forged = nil
		for i := range 8 {
			h := viaFrame{
				destination: v.m.mac, source: v.peerMac, etherType: layout.EtherTypeVia, operation: layout.FrameOperation(r.random.IntN(3)), version: layout.ViaVersion,
				length: 40, to: v.number(), from: v.peerVI, sequence: v.expected + r.random.Uint32N(2), address: r.random.Uint64(), handle: r.random.Uint32(),
				flags: uint8(r.random.IntN(8)), payload: make([]byte, 40),
			}
			switch i {
			case 0: // as if for the other pair, from a stranger
				h.to, h.from = r.node[1].vis[streamIndex].number(), h.from^1
			case 1:
				h.version++
			case 2:
				h.to ^= 1 << 8
			case 3:
				h.length = 4000
			case 4:
				h.sequence -= 100
			}
			b := h.encode()
			r.forged = append(r.forged, b)
			r.node[1].hear(b)
		}
	}},
	{
		name:    "disconnects",
		prepare: func(r *rig, y [2]*end) { r.both(withReceives(r, y)) },
		post: func(r *rig, y [2]*end, m *machine) {
			if m != r.node[0] {
				return
			}
			for range 4 {
				y[0].vi.post(y[0].text(y[1]))
			}
			m.sleep(host.Time(m.random.Int64N(int64(60 * host.Microsecond))))
			y[0].vi.disconnect()
		},
		after: func(r *rig, y [2]*end) {
			y[0].vi.cut()
			y[0].vi.flushed()
			r.reconnect(y, nil, y[0].vi)
		},
	},
	{
		name: "memory withdrawn",
		prepare: func(r *rig, y [2]*end) {
			r.both(withReceives(r, y))
			r.both(func(m *machine) {
				e := y[m.thread.ID().Node]
				m.withdraw(e.inbox)
				m.release(e.inbox)
				e.inbox = m.register(7, endBytes, e.vi.tag, false)
			})
		},
		post: spoiled(func(*machine, *end, *end, *descriptor) {}),
	},
	{name: "doorbells that are none", post: func(r *rig, y [2]*end, m *machine) {
		v := y[m.thread.ID().Node].vi
		m.check(m.thread.Write(v.send.doorbell(), 64, 0))
		m.check(m.thread.Write(v.receive.doorbell()+8, 64))
	}, after: func(r *rig, _ [2]*end) {
		r.both(func(m *machine) {
			n := m.counter(layout.CounterDoorbellMalformed)
			if before := m.counts[layout.CounterDoorbellMalformed]; n == before || n > before+3 {
				m.fail("two bad doorbells are counted as %d", n-before)
			}
			m.counts[layout.CounterDoorbellMalformed] = n
		})
	}},
}

const streamIndex = 3 // of the VI that must not be affected

const streamMessages = 3 // of a node in a round

// calmStream is messages both ways between two VIs and their outcome: every
// status, every length, immediate data and all bytes of their memory.
type calmStream struct {
	*rig
	ends  [2]*end
	own   *rand.Rand // separate random numbers: the stream is the same in each run
	lines []string
}

// scramble fills the memory of the stream.
func (x *calmStream) scramble(m *machine) {
	e := x.ends[m.thread.ID().Node]
	random := rand.New(rand.NewPCG(7, uint64(m.thread.ID().Node)))
	for _, g := range []*region{e.source, e.inbox, e.target} {
		b := make([]byte, g.length)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		g.fill(0, b)
	}
}

// messages draws the messages of a round and the buffers for them, by node.
func (x *calmStream) messages() (say, hear [2][streamMessages]descriptor) {
	own, ends := x.own, x.ends
	for n := range 2 {
		at := 0
		for i := range streamMessages {
			size := []int{0, 1, 64, 1472, 1473, 2900}[own.IntN(6)]
			room := size
			switch own.IntN(5) {
			case 0:
				room = size / 2 // this one is too long, and reports it
			case 1:
				room = size + 9
			}
			cut, from := own.IntN(size+1), own.IntN(3000)
			say[n][i] = buffers(ends[n].source.part(from, cut), ends[n].source.part(from+3000, size-cut), ends[n].source.part(0, 0))
			if own.IntN(3) == 0 {
				say[n][i] = say[n][i].to(ends[1-n].target, 3000*i+own.IntN(50))
			}
			if own.IntN(2) == 0 {
				say[n][i] = say[n][i].with(own.Uint32())
			}
			hear[1-n][i] = buffers(ends[1-n].inbox.part(at, room/3), ends[1-n].inbox.part(at+room/3, room-room/3))
			at += room
		}
	}
	return say, hear
}

// round is one round of the stream beside a fault on the pair y.
func (x *calmStream) round(k uint64, what trouble, y [2]*end) {
	var sends, receives [2][]*posted
	say, hear := x.messages()
	x.both(func(m *machine) {
		n := m.thread.ID().Node
		for _, d := range hear[n] {
			receives[n] = append(receives[n], x.ends[n].vi.postReceive(d))
		}
	})
	if what.prepare != nil {
		what.prepare(x.rig, y)
	}
	x.both(func(m *machine) {
		n := m.thread.ID().Node
		for i, d := range say[n] {
			sends[n] = append(sends[n], x.ends[n].vi.post(d))
			if what.post != nil && i == 1 {
				what.post(x.rig, y, m)
			}
		}
		m.finish()
	})
	x.settle()
	if what.after != nil {
		what.after(x.rig, y)
	}
	x.carry()
	x.both((*machine).verifyMemory)
	x.both((*machine).verifyErrors)
	for n := range 2 {
		for i, s := range sends[n] {
			p := receives[n][i]
			x.lines = append(x.lines, fmt.Sprintf("round %d, node %d, message %d: sent %#x, %d bytes; received %#x, %d bytes, immediate %#x",
				k, n, i, s.statusWord(), s.lengthWord(), p.statusWord(), p.lengthWord(), p.word(layout.DescriptorImmediateDataOffset)))
		}
		for _, g := range []*region{x.ends[n].inbox, x.ends[n].target} {
			x.lines = append(x.lines, fmt.Sprintf("round %d, node %d: memory %x", k, n, sha256.Sum256(g.bytes(0, g.length))))
		}
	}
	// Unused receives are flushed, so that each round starts alike.
	x.both(func(m *machine) {
		v := x.ends[m.thread.ID().Node].vi
		v.disconnect()
		v.flushed()
	})
	x.connect(x.ends[0].vi, x.ends[1].vi)
}

// isolation is a stream beside a fault on two other VIs. It sets lines to the
// stream's outcome.
func isolation(what trouble, rounds uint64, lines *[]string) func(r *rig) {
	return func(r *rig) {
		x := &calmStream{rig: r, own: rand.New(rand.NewPCG(unit.Seed(r.t), 99))}
		x.ends = r.converse([2]uint8{streamIndex, streamIndex}, [2]uint16{50, 51})
		y := r.converse([2]uint8{streamIndex + 1, streamIndex - 1}, [2]uint16{52, 53})
		r.both(x.scramble)
		for k := range rounds {
			x.round(k, what, y)
		}
		*lines = x.lines
	}
}

// mishaps is the number of errors on both cards.
func (r *rig) mishaps() (n uint32) {
	for _, m := range r.node {
		n += m.noted
		for _, c := range []layout.Counter{layout.CounterDescriptorError, layout.CounterDescriptorFlushed, layout.CounterReceiveBadVI, layout.CounterDoorbellMalformed} {
			n += m.counts[c]
		}
	}
	return n
}

// No fault on one VI changes a bit of another one's stream.
func TestIsolation(t *testing.T) {
	takesSeconds(t)
	rounds := unit.Sizes{Short: 1, Normal: 3, Long: 300}.Pick()
	var want []string
	var calm uint32
	mustPlay(t, config{}, func(r *rig) {
		isolation(trouble{}, rounds, &want)(r)
		calm = r.mishaps()
	})
	require.NotEmpty(t, want)
	for _, what := range troubles {
		t.Run(what.name, func(t *testing.T) {
			var got []string
			mustPlay(t, config{}, func(r *rig) {
				isolation(what, rounds, &got)(r)
				if n := r.mishaps(); n <= calm {
					fail("%d mishaps, and %d without the trouble: there was none", n, calm)
				}
				t.Logf("%d mishaps, %d without the trouble", r.mishaps(), calm)
			})
			require.Equal(t, want, got)
		})
	}
}
