// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"hvia/layout"
)

// The card does not use data with bad parity from the system bus: a doorbell
// does not commit, a payload does not leave the card, a descriptor is not
// executed. The card reports each, and continues.
func TestBadParity(t *testing.T) {
	mustPlay(t, config{}, func(r *rig) {
		x := r.workingPair([2]uint8{33, 34})
		v, m := x.vi[0], r.node[0]
		const (
			command  = layout.PciConfigBase + layout.PciConfigCommandOffset
			detected = layout.PciConfigCommandDetectedParityErrorMask
			master   = layout.PciConfigCommandMasterParityErrorMask
			system   = layout.PciConfigCommandSignaledSystemErrorMask
		)
		read := func() uint32 {
			v, err := m.thread.Read(command)
			m.check(err)
			return v
		}
		m.check(m.thread.Write(command, read()|layout.PciConfigCommandSerrEnableMask))
		// reports checks the status bits, and clears them.
		reports := func(what string, want uint32) {
			got := read()
			if got&(detected|master|system) != want {
				fail("%s: the status register says %#x, want %#x", what, got&(detected|master|system), want)
			}
			m.check(m.thread.Write(command, got))
			m.counts[layout.CounterPciParityError]++
		}
		goesOn := func() {
			x.send(r)
			m.finish()
			r.settle()
			r.carry()
			r.verify()
		}
		reports("before", 0)
		m.counts[layout.CounterPciParityError] = 0
		goesOn()

		at, high, handle := uint32(v.send.region.address), uint32(v.send.region.address>>32), v.send.region.handle
		const page = layout.PciBar1Base + 33*layout.DoorbellPageBytes + layout.DoorbellSend
		for k, dropped := range []uint32{0, 3, 2, 1} { // address phase, dwords: those after a bad one are out of order
			before := m.counter(layout.CounterDoorbellMalformed)
			m.check(m.thread.Write(layout.PciSpoilWrite, 1<<k))
			m.check(m.thread.Write(page, at, high, handle))
			reports("doorbell", [4]uint32{detected | system, detected, detected, detected}[k])
			m.counts[layout.CounterDoorbellMalformed] = m.counter(layout.CounterDoorbellMalformed)
			if n := m.counts[layout.CounterDoorbellMalformed] - before; n != dropped {
				fail("doorbell with bad parity in phase %d: counted %d times, want %d", k, n, dropped)
			}
			goesOn()
		}

		spoil := func(g *region, offset int) {
			g.pieces(offset, 1, func(address uint32, _, _ int) {
				m.check(m.thread.Write(layout.PciSpoilRead, address&^3))
			})
		}
		const bytes = 1000 // one frame
		for _, offset := range []int{0, 500, bytes - 1} {
			spoil(x.memory[0], 100+offset)
			p := v.post(rdmaWrite(x.memory[0], 100, bytes, x.memory[1], 7))
			m.finish()
			r.settle()
			reports("payload", detected|master)
			v.sent(p, nil, p.ended(layout.DescriptorStatusTransportErrorMask), 0)
			v.send.posted = nil
			r.verify()
			goesOn()
		}

		p, bell := v.send.prepare(rdmaWrite(x.memory[0], 100, bytes, x.memory[1], 7))
		spoil(p.queue, p.at+layout.DescriptorControlOffset)
		m.check(m.thread.Write(v.send.doorbell(), bell...))
		m.counts[layout.CounterDoorbellSend]++
		m.counts[layout.CounterDescriptorBad]++
		m.errors = append(m.errors, asyncError{layout.AsyncErrorPostDescriptor, v.index})
		v.send.posted = nil
		r.settle()
		reports("descriptor", detected|master)
		r.verify()
	})
}
