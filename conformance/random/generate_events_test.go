// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"hvia/layout"
)

// events ends connections. A pair with an event does nothing else.
func (g *generator) events() error {
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
		var err error
		switch r := g.random.IntN(6); {
		case r == 0:
			err = g.emit(operation{kind: opDisconnect, side: side, pair: pair})
		case r == 1 && v.State() != layout.VIStateError:
			err = g.unreachable(side, pair, false)
		case r == 2 && v.State() != layout.VIStateError && v.Available() == 0 && !v.Receiving():
			err = g.unreachable(side, pair, true)
		case r == 3 && connected:
			err = g.withdraw(side, pair)
		case r == 4 && connected && g.under.cuts && g.reliable(side, pair):
			err = g.sever(side, pair)
		case connected && peer != nil:
			err = g.race(side, pair)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unreachable posts an unreachable descriptor. The sends before it execute, the
// sends behind it are flushed.
func (g *generator) unreachable(side, pair int, receive bool) error {
	if !receive {
		if g.sender[pair] != anySide {
			g.sender[pair] = bothSides // no errors; only this side sends, because the pair is taken
		}
		for range g.between(0, 5) {
			if err := g.message(side, pair); err != nil {
				return err
			}
		}
	}
	slot := g.take(side, pair, receive)
	if slot < 0 {
		return nil
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
	if err := g.emit(operation{kind: opPost, side: side, pair: pair, receive: receive, d: d}); err != nil {
		return err
	}
	switch {
	case receive && g.w.fabric.FetchOnArrival:
		return g.useStale(side, pair)
	case receive:
		return nil
	}
	if g.sender[pair] != anySide {
		g.sender[pair] = side
	}
	for range g.between(0, 3) {
		if err := g.message(side, pair); err != nil {
			return err
		}
	}
	return nil
}

// sever takes the link of a reliable pair down, and then sends.
func (g *generator) sever(side, pair int) error {
	if g.take(side, pair, false) < 0 {
		return nil
	}
	if err := g.emit(operation{kind: opCut, side: side, pair: pair}); err != nil {
		return err
	}
	for range g.between(1, 4) {
		slot := g.take(side, pair, false)
		if slot < 0 {
			return nil
		}
		op := layout.DescriptorOperation(g.pick(0, 0, 1, 2))
		d := g.send(side, pair, g.size(3*layout.MaxPayload), op, op == layout.DescriptorOperationSend && g.chance(30), false, false)
		d.slot = slot
		if err := g.emit(operation{kind: opPost, side: side, pair: pair, d: d}); err != nil {
			return err
		}
	}
	return nil
}

// withdraw deregisters the memory of the posted receive descriptors. Then
// either a message uses the one that the card holds, or the connection ends.
func (g *generator) withdraw(side, pair int) error {
	// The first frame of a next message would end an incomplete one, and its
	// order with the next descriptor or the end of the connection is open.
	if v := g.vi(side, pair); v.Available() == 0 || v.Receiving() {
		return nil
	}
	for _, kind := range []opKind{opDeregister, opRegister} {
		if err := g.emit(operation{kind: kind, side: side, pair: pair, area: areaReceive, region: regionFull}); err != nil {
			return err
		}
	}
	return g.useStale(side, pair)
}

// useStale makes the provider use a receive descriptor that has become
// unusable, by a message or by the end of the connection.
func (g *generator) useStale(side, pair int) error {
	// The peer may send now: the descriptor is posted, or its memory
	// deregistered.
	if err := g.barrier(opSync); err != nil {
		return err
	}
	if g.vi(side, pair).State() != layout.VIStateConnected {
		return g.emit(operation{kind: opDisconnect, side: side, pair: pair})
	}
	slot, n := g.take(1-side, pair, false), g.between(0, 1000)
	if slot < 0 || slot == cutSlot || g.chance(40) || g.reliable(side, pair) && !g.vi(side, pair).Withdrawn(n) {
		return g.emit(operation{kind: opDisconnect, side: g.between(0, 1), pair: pair})
	}
	d := g.send(1-side, pair, n, layout.DescriptorOperationSend, true, false, false)
	d.slot = slot
	if err := g.emit(operation{kind: opPost, side: 1 - side, pair: pair, d: d}); err != nil || g.vi(side, pair).State() != layout.VIStateConnected {
		return err
	}
	// The message used a descriptor posted with another handle. No later
	// operation may meet those behind it.
	if err := g.barrier(opSettle); err != nil {
		return err
	}
	g.taken[pair] = true
	return g.emit(operation{kind: opDisconnect, side: side, pair: pair})
}

// race posts sends and disconnects while they are in flight.
func (g *generator) race(side, pair int) error {
	o := operation{kind: opRace, side: side, pair: pair, leaver: g.between(0, 1), delayed: g.pick(0, 0, 1, 2, 3, 5, 10, 20)}
	slot := g.take(side, pair, false)
	if slot < 0 {
		return nil
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
		return nil
	}
	return g.emit(o)
}
