// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"testing"

	"hvia/layout"
	"hvia/sim/bridge"
)

// The example of the paper's Figure 6 on the card: a buffer of 9 KB at virtual
// address 1C00h over pages at 2C00h (only its last 1 KB), 5000h and 8000h, on
// both nodes. It is read and written completely, and byte by byte at its edges.
func TestPaperFigure6(t *testing.T) {
	const address, length = 0x1c00, 9 << 10
	pages := []uint32{0x2000 / pageBytes, 0x5000 / pageBytes, 0x8000 / pageBytes}
	physical := func(memory []byte) []byte {
		return bytes.Join([][]byte{memory[0x2c00:0x3000], memory[0x5000:0x6000], memory[0x8000:0x9000]}, nil)
	}
	mustPlay(t, config{keep: pages}, func(r *rig) {
		a, _ := r.pair([2]uint8{1, 2}, [2]uint16{11, 12}, [2]bool{true, true})
		var figure [2]*region
		r.both(func(m *machine) {
			n := m.thread.ID().Node
			g := &region{m: m, length: length, offset: address % pageBytes, tag: uint16(11 + n), writable: true, frames: pages, address: address}
			for _, f := range pages {
				m.check(m.memory.Acquire(int(f), bridge.UseRegion))
				m.using[f] = bridge.UseRegion
			}
			m.enter(g)
			g.scramble()
			figure[n] = g
		})
		// Virtual 1C00h is physical 2C00h, 2000h is 5000h, 3000h is 8000h;
		// 3FFFh is the last byte, 8FFFh.
		a.post(rdmaWrite(figure[0], 0, length, figure[1], 0))
		a.finish()
		r.settle()
		r.carry()
		if !bytes.Equal(physical(r.node[0].memo), physical(r.node[1].memo)) {
			fail("the 9 KB did not come from 2C00h, 5000h and 8000h to there")
		}
		r.verify()
		figure[0].scramble()
		for virtual, at := range map[int]uint32{0x1c00: 0x2c00, 0x1fff: 0x2fff, 0x2000: 0x5000, 0x2fff: 0x5fff, 0x3000: 0x8000, 0x3fff: 0x8fff} {
			r.node[0].put(at, []byte{^r.node[1].memo[at]})
			a.post(rdmaWrite(figure[0], virtual-address, 1, figure[1], virtual-address))
			a.finish()
			r.settle()
			r.carry()
			if r.node[1].memo[at] != r.node[0].memo[at] {
				fail("the byte at virtual %#x did not come to physical %#x", virtual, at)
			}
		}
		// The byte before the buffer and the byte after it.
		for _, n := range []int{-1, length} {
			a.post(rdmaWrite(figure[0], 0, 1, figure[1], n))
			a.finish()
			r.settle()
			r.carry()
			r.b(func(m *machine) { m.takeErrors(0) })
		}
		r.verify()
		if n := r.node[1].counts[layout.CounterReceiveProtection]; n != 2 {
			fail("%d writes were rejected, want those before and behind the buffer", n)
		}
	})
}
