// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"github.com/stretchr/testify/require"

	"hvia/conformance/model"
	"hvia/layout"
)

// traffic generates one operation while all VIs work at once.
func (g *generator) traffic() {
	side, pair := g.between(0, 1), g.between(0, randomPairs-1)
	v := g.vi(side, pair)
	if v == nil || g.taken[pair] {
		return
	}
	if g.under.queues && g.chance(3) {
		o := operation{kind: opPoll, side: side, pair: pair, queue: g.random.IntN(randomQueues)}
		if g.chance(20) {
			o.kind, o.entries = opResize, g.pick(queueEntries, 2*queueEntries, 4*queueEntries)
		}
		g.emit(o)
		return
	}
	if g.chance(20) {
		// This receive is for later messages. No message may require it before
		// the next barrier.
		if g.starved[side][pair] || v.State() == layout.VIStateConnected && g.safe[side][pair] == 0 {
			return
		}
		g.ahead[side][pair] = true
		g.postReceive(side, pair)
		return
	}
	g.message(side, pair)
}

// node returns the node of a side.
func (g *generator) node(side, pair int) int { return g.w.on[pair][side] }

// message posts a send, an RDMA write or an RDMA read, if the rules allow one.
func (g *generator) message(side, pair int) {
	if s := g.sender[pair]; s != anySide {
		if s == bothSides || s == side {
			g.reliableMessage(side, pair, s != bothSides)
			return
		}
		return
	}
	v := g.vi(side, pair)
	slot := g.take(side, pair, false)
	if slot < 0 {
		return
	}
	to := 1 - side
	space := inboundLimit - g.inbound[g.node(to, pair)]
	calm := g.errors[g.node(to, pair)] < errorLimit
	op, immediate := layout.DescriptorOperationSend, g.chance(30)
	if g.chance(50) {
		op = layout.DescriptorOperationRDMAWrite
	}
	if g.safe[to][pair] <= 0 && (g.ahead[to][pair] || !calm || !g.chance(30)) {
		// The queue is empty, and this message may not find it so.
		op, immediate = layout.DescriptorOperationRDMAWrite, false
	}
	n := g.size(65536)
	for n > 0 && n+wireOverhead*(n/layout.MaxPayload+1) > space {
		n /= 4
	}
	if space < wireOverhead {
		return
	}
	// An incomplete message causes a second error when the next one arrives.
	inject := calm && g.chance(14)
	d := g.send(side, pair, n, op, immediate, inject, op == layout.DescriptorOperationRDMAWrite && calm && g.chance(12))
	d.slot = slot
	if calm {
		g.cut(&d, pair, false)
	} else if slot == cutSlot {
		return
	}
	if v.State() == layout.VIStateConnected {
		if !g.vi(to, pair).Attributes().RDMAWrite && op == layout.DescriptorOperationRDMAWrite && !immediate && !calm {
			return // it would be rejected
		}
		bytes := onTheWire(int(min(d.length, 65536)))
		if g.inbound[g.node(to, pair)]+bytes > inboundLimit+4000 {
			return
		}
		g.inbound[g.node(to, pair)] += bytes
	}
	g.emit(operation{kind: opPost, side: side, pair: pair, d: d})
}

// onTheWire returns the bytes of the frames of a message.
func onTheWire(bytes int) int { return bytes + wireOverhead*(bytes/layout.MaxPayload+1) }

// accepts reports whether a peer accepts a message. If safe is set, the peer
// has a receive posted.
func accepts(peer *model.VI, op layout.DescriptorOperation, immediate, safe bool, n int) bool {
	switch {
	case op == layout.DescriptorOperationRDMARead:
		return peer.Attributes().RDMARead
	case op == layout.DescriptorOperationSend:
		return safe && peer.Takes(n)
	case immediate:
		return safe && peer.Attributes().RDMAWrite && peer.Takes(0)
	}
	return peer.Attributes().RDMAWrite
}

// reliableMessage posts a message of a reliable VI. With errors it may break
// the connection.
func (g *generator) reliableMessage(side, pair int, errors bool) {
	v, peer := g.vi(side, pair), g.vi(1-side, pair)
	slot := g.take(side, pair, false)
	if slot < 0 || slot == cutSlot && !errors {
		g.slot[side][pair][0] = slot // skip it
		return
	}
	here, there := g.node(side, pair), g.node(1-side, pair)
	errors = errors && g.errors[here] < errorLimit && g.errors[there] < errorLimit
	// The peer has a receive, or it has none until the next barrier.
	safe, none := g.safe[1-side][pair] > 0, g.safe[1-side][pair] <= 0 && !g.ahead[1-side][pair]
	op, immediate := layout.DescriptorOperation(g.pick(0, 0, 0, 0, 1, 1, 1, 2, 2, 2)), g.chance(30)
	n := g.size(65536)
	for n > 0 && onTheWire(n) > inboundLimit-max(g.inbound[here], g.inbound[there]) {
		n /= 4
	}
	if onTheWire(n) > inboundLimit-max(g.inbound[here], g.inbound[there]) {
		return
	}
	n = min(n, int(v.Attributes().MaxTransferSize))
	fits := func() bool { return accepts(peer, op, immediate, safe, n) }
	if !fits() && !(errors && (safe || none) && g.chance(40)) {
		for n > 0 && op == layout.DescriptorOperationSend && !fits() {
			n /= 2
		}
		for _, op = range []layout.DescriptorOperation{op, layout.DescriptorOperationRDMAWrite, layout.DescriptorOperationRDMARead} {
			if op != layout.DescriptorOperationSend {
				immediate = false
			}
			if fits() {
				break
			}
		}
		if !fits() {
			return
		}
	}
	read := op == layout.DescriptorOperationRDMARead
	immediate = immediate && !read
	d := g.send(side, pair, n, op, immediate, errors && g.chance(12), op != layout.DescriptorOperationSend && errors && g.chance(10))
	if g.under.faulty && max(d.length, lengthOf(d.pieces)) > layout.MaxPayload {
		// The last frame before a local error may be lost, and the sender never
		// retransmits it.
		d = g.send(side, pair, n, op, immediate, false, false)
	}
	d.slot = slot
	g.cut(&d, pair, false)
	if !errors && !g.sound(side, d) {
		return
	}
	g.fence(side, pair, &d, read, errors)
	if read {
		g.reads[side][pair] = true
		g.readTarget[side][pair] = g.readTarget[side][pair] || d.remote.area == areaTarget
		g.inbound[here] += onTheWire(n)
		g.inbound[there] += wireOverhead
	} else {
		g.inbound[there] += onTheWire(int(min(d.length, 65536)))
	}
	o := operation{kind: opPost, side: side, pair: pair, d: d}
	g.emit(o)
	connected := v.State() == layout.VIStateConnected
	require.True(g.t, errors || g.sender[pair] != bothSides || connected, "the generator: %v breaks a connection on which both sides send", o)
	if read && !connected {
		// Descriptors posted behind the read may execute before the provider
		// rejects its response.
		g.barrier(opSettle)
	}
}

// fence sets the fence of a descriptor behind reads. A fenced send may forward
// the data that was read.
func (g *generator) fence(side, pair int, d *randomDescriptor, read, errors bool) {
	if g.readTarget[side][pair] && !read || g.reads[side][pair] && errors || g.chance(10) {
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	if d.control&layout.DescriptorControlQueueFenceMask != 0 {
		g.readTarget[side][pair] = false
		if !read && len(d.pieces) > 0 && d.pieces[0].area == areaSource && g.chance(50) {
			i := g.random.IntN(len(d.pieces))
			if p := &d.pieces[i]; !p.absolute && p.handle.pair == pair && p.handle.area == areaSource {
				was := *p
				if p.area, p.handle.area = areaRead, areaRead; !errors && !g.sound(side, *d) {
					*p = was
				}
			}
		}
	}
}

// sound reports whether all memory of a descriptor is registered now.
func (g *generator) sound(side int, d randomDescriptor) bool {
	live := func(side int, p place) bool {
		return g.w.sides[side].regions[p.handle.pair][p.handle.area][p.handle.kind].live
	}
	for _, p := range d.pieces {
		if p.length > 0 && !live(side, p.place) {
			return false
		}
	}
	return !d.hasRemote || d.length == 0 && d.operation() == layout.DescriptorOperationRDMARead || live(1-side, d.remote)
}

// overrun causes a few completions more than the capacity of a completion
// queue.
func (g *generator) overrun() {
	var pair, side int
	var v *model.VI
	fits := func() bool {
		pair, side = g.random.IntN(randomPairs), g.between(0, 1)
		v = g.vi(side, pair)
		if v == nil || v.Attributes().SendCompletionQueue == 0 || v.State() != layout.VIStateConnected {
			return false
		}
		send, _ := v.Outstanding()
		return send == 0 && g.vi(1-side, pair).Attributes().RDMAWrite && g.w.sides[1-side].regions[pair][areaTarget][regionFull].live
	}
	for tries := 0; !fits(); tries++ {
		if tries == 20 {
			g.barrier(opSettle)
			return
		}
	}
	queue := v.Attributes().SendCompletionQueue - 1
	resize := func(entries int) {
		g.emit(operation{kind: opResize, side: side, pair: pair, queue: queue, entries: entries})
	}
	entries := g.pick(2, 4, 8)
	g.barrier(opSettle)
	resize(entries)
	g.barrier(opSettle)
	for range entries + g.between(0, 3) {
		d := g.send(side, pair, 0, layout.DescriptorOperationRDMAWrite, false, false, false)
		d.remote.handle.kind, d.slot = regionFull, g.take(side, pair, false)
		g.emit(operation{kind: opPost, side: side, pair: pair, d: d})
	}
	// The program takes no entry until all sends are complete.
	g.barrier(opSync)
	g.barrier(opSettle)
	resize(queueEntries)
}

// large sends a few large messages of one VI and nothing else: more than the
// FIFO of a MAC holds, at wire speed.
func (g *generator) large() {
	side, pair := g.between(0, 1), g.pick(0, 1, 3, 5, 7)
	v := g.vi(side, pair)
	if v == nil || v.State() != layout.VIStateConnected {
		return
	}
	for range g.between(1, 2) {
		slot := g.take(side, pair, false)
		if slot < 0 {
			return
		}
		op := layout.DescriptorOperationSend
		if g.safe[1-side][pair] == 0 || g.chance(50) {
			op = layout.DescriptorOperationRDMAWrite
			if g.reliable(side, pair) && g.chance(40) {
				op = layout.DescriptorOperationRDMARead
			}
		}
		n := g.pick(65536, 65536, 65535, 32768, 30000, g.between(20000, 65536))
		d := g.send(side, pair, n, op, op == layout.DescriptorOperationRDMAWrite && g.safe[1-side][pair] > 0 && g.chance(50), g.chance(20), g.chance(10))
		d.slot = slot
		g.cut(&d, pair, false)
		if g.reads[side][pair] {
			d.control |= layout.DescriptorControlQueueFenceMask
		}
		g.reads[side][pair] = op == layout.DescriptorOperationRDMARead
		g.emit(operation{kind: opPost, side: side, pair: pair, d: d})
	}
}
