// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"hvia/layout"
)

// events ends connections. A pair with an event does nothing else.
func (g *generator) events() {
	for pair := range randomPairs {
		if !g.chance(9) {
			continue
		}
		side := g.between(0, 1)
		v, peer := g.vi(side, pair), g.vi(1-side, pair)
		if v == nil {
			continue
		}
		g.taken[pair] = true
		connected := v.State() == layout.VIStateConnected
		switch r := g.random.IntN(6); {
		case r == 0:
			g.emit(operation{kind: opDisconnect, side: side, pair: pair})
		case r == 1 && v.State() != layout.VIStateError:
			g.unreachable(side, pair, false)
		case r == 2 && v.State() != layout.VIStateError && v.Available() == 0 && !v.Receiving():
			g.unreachable(side, pair, true)
		case r == 3 && connected:
			g.withdraw(side, pair)
		case r == 4 && connected && g.under.cuts && g.reliable(side, pair):
			g.sever(side, pair)
		case connected && peer != nil:
			g.race(side, pair)
		}
	}
}

// unreachable posts an unreachable descriptor. The sends before it execute, the
// sends behind it are flushed.
func (g *generator) unreachable(side, pair int, receive bool) {
	if !receive {
		if g.sender[pair] != anySide {
			g.sender[pair] = bothSides // no errors; only this side sends, because the pair is taken
		}
		for range g.between(0, 5) {
			g.message(side, pair)
		}
	}
	slot := g.take(side, pair, receive)
	if slot < 0 {
		return
	}
	var d randomDescriptor
	if receive {
		d = g.receive(side, pair)
	} else {
		d = g.send(side, pair, g.between(0, 100), layout.DescriptorOperationSend, true, false, false)
	}
	d.slot = slot
	d.plan += " unreachable"
	switch g.random.IntN(4) {
	case 0:
		d.handle.how = handleZero
	case 1:
		d.handle.how = handleFlipped
	case 2:
		d.handle.kind = regionForeign
	default:
		d.handle.area = areaSource
	}
	g.emit(operation{kind: opPost, side: side, pair: pair, receive: receive, d: d})
	switch {
	case receive && g.w.fabric.FetchOnArrival:
		g.useStale(side, pair)
		return
	case receive:
		return
	}
	if g.sender[pair] != anySide {
		g.sender[pair] = side
	}
	for range g.between(0, 3) {
		g.message(side, pair)
	}
}

// sever takes the link of a reliable pair down, and then sends.
func (g *generator) sever(side, pair int) {
	if g.take(side, pair, false) < 0 {
		return
	}
	g.emit(operation{kind: opCut, side: side, pair: pair})
	for range g.between(1, 4) {
		slot := g.take(side, pair, false)
		if slot < 0 {
			return
		}
		op := layout.DescriptorOperation(g.pick(0, 0, 1, 2))
		d := g.send(side, pair, g.size(3*layout.MaxPayload), op, op == layout.DescriptorOperationSend && g.chance(30), false, false)
		d.slot = slot
		g.emit(operation{kind: opPost, side: side, pair: pair, d: d})
	}
}

// withdraw deregisters the memory of the posted receive descriptors. Then
// either a message uses the one that the card holds, or the connection ends.
func (g *generator) withdraw(side, pair int) {
	// The first frame of a next message would end an incomplete one, and its
	// order with the next descriptor or the end of the connection is open.
	if v := g.vi(side, pair); v.Available() == 0 || v.Receiving() {
		return
	}
	for _, kind := range []opKind{opDeregister, opRegister} {
		g.emit(operation{kind: kind, side: side, pair: pair, area: areaReceive, region: regionFull})
	}
	g.useStale(side, pair)
}

// useStale makes the provider use a receive descriptor that has become
// unusable, by a message or by the end of the connection.
func (g *generator) useStale(side, pair int) {
	// The peer may send now: the descriptor is posted, or its memory
	// deregistered.
	g.barrier(opSync)
	if g.vi(side, pair).State() != layout.VIStateConnected {
		g.emit(operation{kind: opDisconnect, side: side, pair: pair})
		return
	}
	slot, n := g.take(1-side, pair, false), g.between(0, 1000)
	if slot < 0 || slot == cutSlot || g.chance(40) || g.reliable(side, pair) && !g.vi(side, pair).Withdrawn(n) {
		g.emit(operation{kind: opDisconnect, side: g.between(0, 1), pair: pair})
		return
	}
	d := g.send(1-side, pair, n, layout.DescriptorOperationSend, true, false, false)
	d.slot = slot
	g.emit(operation{kind: opPost, side: 1 - side, pair: pair, d: d})
	if g.vi(side, pair).State() != layout.VIStateConnected {
		return
	}
	// The message used a descriptor posted with another handle. No later
	// operation may meet those behind it.
	g.barrier(opSettle)
	g.taken[pair] = true
	g.emit(operation{kind: opDisconnect, side: side, pair: pair})
}

// race posts sends and disconnects while they are in flight.
func (g *generator) race(side, pair int) {
	o := operation{kind: opRace, side: side, pair: pair, leaver: g.between(0, 1), delayed: g.pick(0, 0, 1, 2, 3, 5, 10, 20)}
	slot := g.take(side, pair, false)
	if slot < 0 {
		return
	}
	readTarget := false
	for i := range g.between(1, 4) {
		op := layout.DescriptorOperationSend
		if g.chance(40) {
			op = layout.DescriptorOperationRDMAWrite
		}
		n := g.size(3 * layout.MaxPayload)
		immediate, inject, injectRemote, late := g.chance(40), g.chance(20), g.chance(10), g.chance(25)
		if g.reliable(side, pair) {
			// An error would end the connection, too, and race with the
			// disconnect.
			inject, injectRemote, late = false, false, false
			peer := g.vi(1-side, pair)
			if i > 0 || op != layout.DescriptorOperationSend || !peer.Takes(min(n, int(peer.Attributes().MaxTransferSize))) {
				immediate = false
				switch write, read := peer.Attributes().RDMAWrite, peer.Attributes().RDMARead; {
				case write && (!read || g.chance(60)):
					op = layout.DescriptorOperationRDMAWrite
				case read:
					op = layout.DescriptorOperationRDMARead
				default:
					continue
				}
			}
		}
		g.inbound[g.node(1-side, pair)] += n + 4*wireOverhead
		d := g.send(side, pair, n, op, immediate, inject, injectRemote)
		if late {
			g.late(&d, side, pair, areaSource, int(g.vi(side, pair).Attributes().MaxTransferSize))
			g.inbound[g.node(1-side, pair)] += 3 * layout.MaxPayload
		}
		switch {
		case g.reliable(side, pair) && !g.sound(side, d):
			continue
		case op == layout.DescriptorOperationRDMARead:
			readTarget = readTarget || d.remote.area == areaTarget
		case readTarget:
			d.control |= layout.DescriptorControlQueueFenceMask
		}
		d.slot = (slot + i) % slots
		o.sends = append(o.sends, d)
	}
	if len(o.sends) == 0 {
		return
	}
	g.emit(o)
}
