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

// traffic sends and receives frames of every size, gathered from 1 to 4 pieces
// at any alignment, into buffers at any alignment.
func traffic(frames int, seed uint64) func(n *nic) {
	return func(n *nic) {
		node := n.t.ID().Node
		random := rand.New(rand.NewPCG(seed, uint64(node)))
		sizeOf := func(from, i int) int {
			order := rand.New(rand.NewPCG(seed, uint64(100+from+10*(i/1455)))).Perm(1455)
			return layout.MinFrame + order[i%1455]
		}
		n.start(uint32(3+random.IntN(6)), uint32(4+random.IntN(5)))
		n.write(layout.NICRegisterTransmitCoalesceTimeOffset, 0)
		n.write(layout.RegisterInterruptEnableOffset, receiveCause|transmitCause|busCause)

		var txPages, rxPages []uint32 // one for each entry
		for range n.tx.size() {
			txPages = append(txPages, n.page())
		}
		for range n.rx.size() {
			p := n.page()
			rxPages = append(rxPages, p)
			for i := range pageBytes {
				n.mem[p+uint32(i)] = 0xee
			}
		}
		n.barrier(1)
		var places []uint32 // of the buffers in the receive ring
		sent, received, bytesSent, bytesReceived := 0, 0, 0, 0
		offer := func() {
			for n.rx.room() > 0 {
				at := rxPages[n.rx.index()] + uint32(random.IntN(pageBytes-layout.MaxFrame+1))
				places = append(places, at)
				n.fill(&n.rx, at, layout.MaxFrame)
			}
			n.post(&n.rx)
		}
		offer()
		n.barrier(2)
		for left := n.t.Countdown(host.Time(frames) * 100 * host.Microsecond); sent < frames || received < frames || n.tx.next != n.tx.tail; {
			if left() <= 0 {
				n.fail("%d frames sent, %d received of %d", sent, received, frames)
			}
			for n.tx.next != n.tx.tail && n.status(&n.tx, n.tx.next) != 0 {
				n.equal(uint32(done), n.status(&n.tx, n.tx.next), "status of transmit entry %d", n.tx.next)
				n.tx.next++
			}
			for sent < frames && n.tx.room() >= 4 && random.IntN(8) != 0 {
				frame := frameOf(node, sent, sizeOf(node, sent))
				bytesSent += len(frame)
				pieces := 1 + random.IntN(4)
				for ; pieces > 0; pieces-- {
					size := len(frame)
					if pieces > 1 {
						size = 1
						if random.IntN(2) == 0 {
							size += random.IntN(len(frame) - pieces + 1)
						}
					}
					at := txPages[n.tx.index()] + uint32(random.IntN(pageBytes-size+1))
					copy(n.mem[at:], frame[:size])
					length := uint32(size)
					if pieces > 1 {
						length |= more
					}
					n.fill(&n.tx, at, length)
					frame = frame[size:]
				}
				sent++
				if random.IntN(2) == 0 {
					n.post(&n.tx)
				}
			}
			n.post(&n.tx)
			for n.rx.next != n.rx.tail && n.status(&n.rx, n.rx.next) != 0 {
				want := frameOf(1-node, received, sizeOf(1-node, received))
				at, page := places[0], rxPages[n.rx.next%n.rx.size()]
				n.equal(uint32(done|len(want)<<layout.RawEntryStatusLengthLsb), n.status(&n.rx, n.rx.next), "status of frame %d", received)
				if got := n.mem[at : int(at)+len(want)]; !bytes.Equal(want, got) {
					n.fail("frame %d of %d bytes differs", received, len(want))
				}
				for i := range uint32(pageBytes) {
					if a := page + i; (a < at || a >= at+uint32(len(want))) && n.mem[a] != 0xee {
						n.fail("frame %d of %d bytes at %#x: byte %#x was written as well", received, len(want), at, a)
					}
					n.mem[page+i] = 0xee
				}
				places = places[1:]
				received++
				bytesReceived += len(want)
				n.rx.next++
			}
			offer()
			n.sleep(host.Time(1+random.IntN(40)) * host.Microsecond)
		}
		n.barrier(3)
		n.counters(counts{
			layout.NICCounterTransmit: frames, layout.NICCounterReceive: frames,
			layout.NICCounterTransmitBytes: bytesSent, layout.NICCounterReceiveBytes: bytesReceived,
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

// A run repeats bit for bit, and there is nothing to skip.
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
