// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
)

// burstOf sends the given number of frames of a size back to back.
func burstOf(frames, size int) func(n *nic) {
	return func(n *nic) {
		n.start(8, 4)
		n.barrier(1)
		for i := range frames {
			p := n.page()
			copy(n.mem[p:], frameOf(0, i, size))
			n.fill(&n.tx, p, uint32(size))
		}
		n.post(&n.tx)
		for range frames {
			n.equal(uint32(done), n.await(&n.tx), "status")
		}
		n.barrier(2)
	}
}

// content checks that the next received frame is the sender's frame `number`.
func (n *nic) content(at uint32, number, size int) {
	n.equal(uint32(done|size<<layout.RawEntryStatusLengthLsb), n.await(&n.rx), "status of frame %d", number)
	if !bytes.Equal(frameOf(1-n.t.ID().Node, number, size), n.mem[at:at+uint32(size)]) {
		n.fail("frame %d differs", number)
	}
}

// starved: three of ten frames fit into the ring.
func starved(n *nic) {
	n.start(4, 2)
	at := n.buffers(3)
	n.barrier(1)
	n.barrier(2)
	n.sleep(host.Millisecond)
	for i, a := range at {
		n.content(a, i, 300)
	}
	n.counters(counts{
		layout.NICCounterReceive: 3, layout.NICCounterReceiveBytes: 900, layout.NICCounterReceiveDropped: 7, layout.NICCounterInterrupt: 1,
	})
}

func TestStarvedRing(t *testing.T) { mustPlay(t, config{}, burstOf(10, 300), starved) }

// A FIFO of three frames, and slow firmware.
var smallFifo = map[string]int64{"NICReceiveFifoBytes": 3 * 1500, "NICReceiveTime": 60_000_000}

// overrun: the FIFO stores a frame until it is in memory, and drops frames that
// do not fit, as a plain model of arrivals and departures predicts.
func overrun(n *nic) {
	const frames, size = 24, 1500
	n.start(4, 6)
	at := n.buffers(frames)
	n.barrier(1)
	n.barrier(2)
	n.sleep(host.Millisecond)
	// The sender's bus is slower than the wire, so frames arrive at its rate.
	gap := bursts(false, 0, size) + burst(true, 12, 4)
	entries := func(i int) host.Time { // every four frames an entry fetch comes between
		return host.Time(i/params.NICFetchEntries) * burst(false, 0, params.NICFetchEntries*layout.RawEntrySize)
	}
	var leaves []host.Time
	kept, lost := 0, 0
	for i := range frames {
		arrives := host.Time(i)*gap + entries(i)
		held := 0
		for _, l := range leaves {
			if l > arrives {
				held++
			}
		}
		if held == 3 {
			lost++
			continue
		}
		starts := arrives + host.Time(smallFifo["NICReceiveTime"])
		if len(leaves) > 0 {
			starts = max(starts, leaves[len(leaves)-1])
		}
		leaves = append(leaves, starts+bursts(true, 0, size))
		n.content(at[kept], i, size)
		kept++
	}
	if kept < 6 || lost < 6 {
		n.fail("%d kept, %d lost: the test shows nothing", kept, lost)
	}
	n.counters(counts{
		layout.NICCounterReceive: kept, layout.NICCounterReceiveBytes: kept * size, layout.NICCounterReceiveOverrun: lost, layout.NICCounterInterrupt: 1,
	})
}

func TestFullFifo(t *testing.T) { mustPlay(t, config{params: smallFifo}, burstOf(24, 1500), overrun) }

// addresses tests which frames a NIC accepts.
func addresses() (a, b func(n *nic)) {
	frame := func(i int, to [6]byte) []byte {
		f := frameOf(0, i, 100)
		copy(f, to[:])
		return f
	}
	own, all := macOf(1), [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	near, group := own, own
	near[5] ^= 0x80
	group[0] |= 1
	a = func(n *nic) {
		n.start(4, 4)
		n.barrier(1)
		for i, to := range [][6]byte{own, near, all, group, {}, own} {
			n.send(frame(i, to))
		}
		n.barrier(2)
		n.barrier(3)
		n.send(frame(6, own))
		n.barrier(4)
	}
	b = func(n *nic) {
		n.start(4, 4)
		at := n.buffers(6)
		n.barrier(1)
		n.barrier(2)
		n.sleep(host.Millisecond)
		for i, want := range [][]byte{frame(0, own), frame(2, all), frame(5, own)} {
			n.equal(uint32(done|100<<layout.RawEntryStatusLengthLsb), n.await(&n.rx), "status")
			if !bytes.Equal(want, n.mem[at[i]:at[i]+100]) {
				n.fail("frame %d that is for us differs", i)
			}
		}
		n.counters(counts{
			layout.NICCounterReceive: 3, layout.NICCounterReceiveBytes: 300, layout.NICCounterReceiveNotForUs: 3, layout.NICCounterInterrupt: 1,
		})
		// Disabled, it receives and reports nothing.
		n.write(layout.RegisterControlOffset, 0)
		n.equal(uint32(0), n.read(layout.RegisterControlOffset), "Control")
		n.barrier(3)
		n.barrier(4)
		n.sleep(host.Millisecond)
		n.equal(uint32(0), n.status(&n.rx, n.rx.next), "status of a ring that is off")
		n.equal(uint32(3), n.counter(layout.NICCounterReceive), "frames received")
	}
	return a, b
}

func TestAddresses(t *testing.T) {
	a, b := addresses()
	mustPlay(t, config{}, a, b)
}
