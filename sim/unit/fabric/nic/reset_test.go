// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

var resetRounds = unit.Sizes{Short: 10, Normal: 60, Long: 2000}

// numbered is a frame whose content follows from its number.
func numbered(from, number int) []byte {
	f := frameOf(from, number, layout.MinFrame+number*37%1455)
	f[14], f[15] = byte(number>>8), byte(number)
	return f
}

// resets: during traffic both ways the rings are disabled, or the NIC is reset,
// softly or by RST#. From then on it accesses no memory, and works again after
// a start.
func resets(rounds int, seed uint64) func(n *nic) {
	return func(n *nic) {
		node := n.t.ID().Node
		random := rand.New(rand.NewPCG(seed, uint64(node)))
		numbers := map[uint32]int{} // by page of a transmit entry
		received := 0
		for round := range rounds {
			n.start(uint32(2+random.IntN(7)), uint32(2+random.IntN(7)))
			n.write(layout.NICRegisterTransmitCoalesceTimeOffset, uint32(random.IntN(100_000)))
			n.write(layout.NICRegisterReceiveCoalesceTimeOffset, uint32(random.IntN(100_000)))
			var txPages, rxPages []uint32
			for range n.tx.size() {
				txPages = append(txPages, n.page())
			}
			for range n.rx.size() {
				rxPages = append(rxPages, n.page())
			}
			for steps := random.IntN(30); steps >= 0; steps-- {
				for n.tx.next != n.tx.tail && n.status(&n.tx, n.tx.next) != 0 {
					n.equal(uint32(done), n.status(&n.tx, n.tx.next), "status of a frame sent")
					n.tx.next++
				}
				for n.tx.room() > 0 {
					p := txPages[n.tx.index()]
					numbers[p] = random.IntN(1 << 16)
					n.fill(&n.tx, p, uint32(copy(n.mem[p:], numbered(node, numbers[p]))))
				}
				n.post(&n.tx)
				for n.rx.next != n.rx.tail && n.status(&n.rx, n.rx.next) != 0 {
					p, status := rxPages[n.rx.next%n.rx.size()], n.status(&n.rx, n.rx.next)
					size := status >> layout.RawEntryStatusLengthLsb
					got := n.mem[p : p+size]
					if status&refused != done || !bytes.Equal(numbered(1-node, int(got[14])<<8|int(got[15])), got) {
						n.fail("a frame of status %#x differs", status)
					}
					received++
					n.rx.next++
				}
				for n.rx.room() > 0 {
					n.fill(&n.rx, rxPages[n.rx.index()], 2048)
				}
				n.post(&n.rx)
				n.sleep(host.Time(random.Int64N(int64(30 * host.Microsecond))))
			}
			n.end(round % 3)
			n.free()
			n.sleep(host.Time(random.Int64N(int64(50 * host.Microsecond))))
		}
		if received < rounds {
			n.fail("%d frames received in %d rounds: the test shows nothing", received, rounds)
		}
		n.write(layout.RegisterControlOffset, layout.RegisterControlSoftResetMask)
		n.barrier(50)
		n.sleep(host.Millisecond) // for frames on the wire
	}
}

// end ends the NIC's memory accesses.
func (n *nic) end(how int) {
	switch how {
	case 0: // rings off
		n.write(layout.RegisterRawTransmitSizeOffset, 0)
		n.write(layout.RegisterRawReceiveSizeOffset, 0)
		left := n.t.Countdown(100 * host.Microsecond)
		for _, offset := range []uint32{layout.RegisterRawTransmitSizeOffset, layout.RegisterRawReceiveSizeOffset} {
			for n.read(offset) != 0 {
				if left() < 0 {
					n.fail("a ring that is off stays busy")
				}
			}
		}
	case 1: // soft reset
		n.write(layout.RegisterControlOffset, layout.RegisterControlSoftResetMask)
		for left := n.t.Countdown(100 * host.Microsecond); n.read(layout.RegisterControlOffset) != 0; {
			if left() < 0 {
				n.fail("the soft reset does not end")
			}
		}
		n.counters(counts{})
		n.equal(uint32(layout.RegisterStateReadyMask|layout.RegisterStateQuietMask), n.read(layout.RegisterStateOffset), "State")
	case 2: // RST#
		n.write(layout.RegisterMacLowOffset, 1) // lost with the bus, or with the reset
		n.check(n.t.ResetBus(3 * host.Microsecond))
		n.free()
		n.equal(uint32(0xffffffff), n.read(layout.RegisterIDOffset), "ID in reset")
		for left := n.t.Countdown(host.Millisecond); n.read(layout.RegisterIDOffset) != layout.NICID; {
			if left() < 0 {
				n.fail("the NIC does not come back from RST#")
			}
		}
		n.equal(uint32(0), n.read(layout.RegisterMacLowOffset), "MacLow")
		n.counters(counts{})
	}
}

func TestResets(t *testing.T) {
	body := resets(int(resetRounds.Pick()), unit.Seed(t))
	after := traffic(40, 1)
	mustPlay(t, config{}, func(n *nic) { body(n); after(n) }, func(n *nic) { body(n); after(n) })
}
