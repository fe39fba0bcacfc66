// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"

	"github.com/stretchr/testify/require"
)

// Frames each way.
var frameCounts = unit.Sizes{Short: 150, Normal: 1455, Long: 20_000}

// exchange is frames of both nodes, and those that this one has seen.
type exchange struct {
	*nic
	frames                                   int
	seed                                     uint64
	random                                   *rand.Rand
	txPages, rxPages                         []uint32 // one for each entry
	places                                   []uint32 // of the buffers in the receive ring
	sent, received, bytesSent, bytesReceived int
}

// frame is the i-th frame of a node.
func (x *exchange) frame(from, i int) []byte {
	order := rand.New(rand.NewPCG(x.seed, uint64(100+from+10*(i/1455)))).Perm(1455)
	return frameOf(from, i, layout.MinFrame+order[i%1455])
}

// offer fills the receive ring.
func (x *exchange) offer() {
	for x.rx.room() > 0 {
		at := x.rxPages[x.rx.index()] + uint32(x.random.IntN(pageBytes-layout.MaxFrame+1))
		x.places = append(x.places, at)
		x.fill(&x.rx, at, layout.MaxFrame)
	}
	x.post(&x.rx)
}

// send puts the next frame in pieces into the transmit ring.
func (x *exchange) send() {
	frame := x.frame(x.t.ID().Node, x.sent)
	x.bytesSent += len(frame)
	for pieces := 1 + x.random.IntN(4); pieces > 0; pieces-- {
		size := len(frame)
		if pieces > 1 {
			size = 1
			if x.random.IntN(2) == 0 {
				size += x.random.IntN(len(frame) - pieces + 1)
			}
		}
		at := x.txPages[x.tx.index()] + uint32(x.random.IntN(pageBytes-size+1))
		copy(x.mem[at:], frame[:size])
		length := uint32(size)
		if pieces > 1 {
			length |= more
		}
		x.fill(&x.tx, at, length)
		frame = frame[size:]
	}
	x.sent++
	if x.random.IntN(2) == 0 {
		x.post(&x.tx)
	}
}

// receive checks the next frame in the receive ring and every other byte of its
// page.
func (x *exchange) receive() {
	want := x.frame(1-x.t.ID().Node, x.received)
	at, page := x.places[0], x.rxPages[x.rx.next%x.rx.size()]
	x.equal(uint32(done|len(want)<<layout.RawEntryStatusLengthLsb), x.status(&x.rx, x.rx.next), "status of frame %d", x.received)
	if got := x.mem[at : int(at)+len(want)]; !bytes.Equal(want, got) {
		x.fail("frame %d of %d bytes differs", x.received, len(want))
	}
	for i := range uint32(pageBytes) {
		if a := page + i; (a < at || a >= at+uint32(len(want))) && x.mem[a] != 0xee {
			x.fail("frame %d of %d bytes at %#x: byte %#x was written as well", x.received, len(want), at, a)
		}
		x.mem[page+i] = 0xee
	}
	x.places = x.places[1:]
	x.received++
	x.bytesReceived += len(want)
	x.rx.next++
}

// completed reports whether a ring's next entry is complete.
func (n *nic) completed(r *ring) bool { return r.next != r.tail && n.status(r, r.next) != 0 }

// run sends and receives until all frames have come.
func (x *exchange) run() {
	for left := x.t.Countdown(host.Time(x.frames) * 100 * host.Microsecond); x.sent < x.frames || x.received < x.frames || x.tx.next != x.tx.tail; {
		if left() <= 0 {
			x.fail("%d frames sent, %d received of %d", x.sent, x.received, x.frames)
		}
		for x.completed(&x.tx) {
			x.equal(uint32(done), x.status(&x.tx, x.tx.next), "status of transmit entry %d", x.tx.next)
			x.tx.next++
		}
		for x.sent < x.frames && x.tx.room() >= 4 && x.random.IntN(8) != 0 {
			x.send()
		}
		x.post(&x.tx)
		for x.completed(&x.rx) {
			x.receive()
		}
		x.offer()
		x.sleep(host.Time(1+x.random.IntN(40)) * host.Microsecond)
	}
}

// traffic sends and receives frames of every size, gathered from 1 to 4 pieces
// at any alignment, into buffers at any alignment.
func traffic(frames int, seed uint64) func(n *nic) {
	return func(n *nic) {
		x := &exchange{nic: n, frames: frames, seed: seed, random: rand.New(rand.NewPCG(seed, uint64(n.t.ID().Node)))}
		n.start(uint32(3+x.random.IntN(6)), uint32(4+x.random.IntN(5)))
		n.write(layout.NICRegisterTransmitCoalesceTimeOffset, 0)
		n.write(layout.RegisterInterruptEnableOffset, receiveCause|transmitCause|busCause)
		for range n.tx.size() {
			x.txPages = append(x.txPages, n.page())
		}
		for range n.rx.size() {
			p := n.page()
			x.rxPages = append(x.rxPages, p)
			for i := range pageBytes {
				n.mem[p+uint32(i)] = 0xee
			}
		}
		n.barrier(1)
		x.offer()
		n.barrier(2)
		x.run()
		n.barrier(3)
		n.counters(counts{
			layout.NICCounterTransmit: frames, layout.NICCounterReceive: frames,
			layout.NICCounterTransmitBytes: x.bytesSent, layout.NICCounterReceiveBytes: x.bytesReceived,
			layout.NICCounterInterrupt: 1, // it is never cleared
		})
		n.equal(uint32(receiveCause|transmitCause), n.read(layout.RegisterInterruptStatusOffset), "causes")
		n.equal(n.tx.index(), n.read(layout.RegisterRawTransmitHeadOffset), "head of the transmit ring")
		n.equal(uint32(layout.RegisterStateReadyMask|layout.RegisterStateQuietMask)&^quietIf(n.rx.next != n.rx.tail),
			n.read(layout.RegisterStateOffset), "state")
	}
}

// quietIf is the Quiet bit if the NIC must be idle.
func quietIf(b bool) uint32 {
	if b {
		return layout.RegisterStateQuietMask // buffers are read ahead
	}
	return 0
}

func TestFrames(t *testing.T) {
	frames := int(frameCounts.Pick())
	for i := range uint64(2) {
		body := traffic(frames, unit.Seed(t)+i)
		mustPlay(t, config{}, body, body)
	}
	// Firmware that takes no time, small buffers, wide bursts of entries.
	body := traffic(frames, unit.Seed(t)+9)
	mustPlay(t, config{params: map[string]int64{"NICTransmitTime": 0, "NICReceiveTime": 0, "NICTransmitBufferFrames": 1, "NICFetchEntries": 32}}, body, body)
}

// A run repeats bit for bit. There are no clocks to skip.
func TestRepeat(t *testing.T) {
	seed := unit.Seed(t)
	var digests [3]bridge.Digest
	for i := range digests {
		c := config{digest: &digests[i]}
		if i == 2 {
			c.arguments = []string{"--no-skip", "1"}
		}
		body := traffic(200, seed)
		mustPlay(t, c, body, body)
	}
	require.Equal(t, digests[0], digests[1])
	require.Equal(t, digests[0], digests[2])
	other := traffic(200, seed+1)
	var d bridge.Digest
	mustPlay(t, config{digest: &d}, other, other)
	require.NotEqual(t, digests[0].Hash, d.Hash)
}
