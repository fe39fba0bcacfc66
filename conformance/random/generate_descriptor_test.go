// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"hvia/layout"
)

// take returns the next slot for a descriptor, -1 if the queue has enough. It
// uses the slots in turn.
func (g *generator) take(side, pair int, receive bool) int {
	send, recv := g.vi(side, pair).Outstanding()
	if receive {
		send = recv
	}
	if send >= queueLimit {
		return -1
	}
	return (g.slot[side][pair][queueArea(receive)-areaSend] + 1) % slots
}

// postReceive posts a receive.
func (g *generator) postReceive(side, pair int) bool {
	slot := g.take(side, pair, true)
	if slot < 0 {
		return false
	}
	d := g.receive(side, pair)
	d.slot = slot
	g.cut(&d, pair, true)
	g.emit(operation{kind: opPost, side: side, pair: pair, receive: true, d: d})
	return true
}

// cut changes a descriptor that lies in the last slot. It sets the handle of a
// region that ends inside that slot, so the provider cannot read all segments.
func (g *generator) cut(d *randomDescriptor, pair int, receive bool) {
	if d.slot == cutSlot {
		d.handle = handleRef{how: handleOf, pair: pair, area: queueArea(receive), kind: regionPart}
		d.plan += " region ends in the descriptor"
	}
}

func queueHandle(pair int, receive bool) handleRef {
	return handleRef{how: handleOf, pair: pair, area: queueArea(receive), kind: regionFull}
}

// size returns a message size.
func (g *generator) size(limit int) int {
	n := 0
	switch r := g.random.IntN(100); {
	case r < 50:
		n = g.between(0, 17)
	case r < 75:
		n = g.between(0, 300)
	case r < 85:
		n = g.pick(31, 32, 33, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1023, 1024)
	case r < 93:
		n = g.between(1, 4) + g.pick(1, 1, 1, 2)*layout.MaxPayload - 3
	case r < 98:
		n = g.between(300, 3000)
	default:
		n = g.pick(4095, 4096, 4097, 2*layout.MaxPayload, 5*layout.MaxPayload, g.between(3000, 16000))
	}
	return min(n, limit)
}

// pieces splits n bytes of an area into segments.
func (g *generator) pieces(pair, area, n int) []dataPiece {
	count := 1
	switch r := g.random.IntN(100); {
	case r < 8 && n == 0:
		count = 0
	case r < 50:
	case r < 70:
		count = 2
	case r < 85:
		count = 3
	case r < 95:
		count = g.between(4, 12)
	case r < 98:
		count = g.between(13, 40)
	default:
		count = g.pick(layout.MaxDataSegments, layout.MaxDataSegments, layout.MaxDataSegments-1, g.between(41, 251))
	}
	var out []dataPiece
	for i := range count {
		l := n
		if left := count - 1 - i; left > 0 {
			switch r := g.random.IntN(10); {
			case r == 0:
				l = 0
			case r == 1:
				l = min(n, g.pick(1, 2, 3, 4, 8, 64, layout.MaxPayload))
			default:
				l = min(n, g.random.IntN(2*n/(left+1)+2))
			}
		}
		n -= l
		out = append(out, g.piece(pair, area, l))
	}
	return out
}

// piece returns a valid segment.
func (g *generator) piece(pair, area, n int) dataPiece {
	p := dataPiece{place{handle: handleRef{pair: pair, area: area, kind: g.pick(regionFull, regionPlain)}, pair: pair, area: area}, uint32(n)}
	switch r := g.random.IntN(10); {
	case n == 0 && r < 5:
		// The provider ignores the handle and address of an empty segment.
		p.handle.how = handleHow(g.between(int(handleOf), int(handleNoRegion)))
		p.absolute, p.offset = true, int64(g.random.Uint64())
	case r < 3 && n <= oddLength:
		p.handle.kind = regionPart
		p.offset = oddOffset + int64(g.pick(0, oddLength-n, g.between(0, oddLength-n)))
	case r < 5:
		p.offset = int64(g.pick(0, dataBytes-n))
	case r < 7 && n < dataBytes-2*layout.AttPageBytes: // near the end of a page
		p.offset = int64(layout.AttPageBytes*g.between(1, (dataBytes-n)/layout.AttPageBytes-1) - g.between(0, 9))
	default:
		p.offset = int64(g.between(0, dataBytes-n))
	}
	return p
}

func lengthOf(pieces []dataPiece) (n uint32) {
	for _, p := range pieces {
		n += p.length
	}
	return n
}

// spoil makes a place of a side invalid and returns how. If remote is set, the
// peer accesses the place.
func (g *generator) spoil(side int, p *place, n int, remote bool) string {
	switch g.random.IntN(9) {
	case 0:
		p.handle.how = handleZero
		return "handle 0"
	case 1:
		p.handle.how = handleFlipped
		return "wrong generation"
	case 2:
		p.handle.how = handleNoRegion
		return "no such entry"
	case 3:
		p.handle.how = handleBefore
		return "previous handle"
	case 4:
		p.handle.kind = regionForeign
		return "other tag"
	case 5:
		pairs, on := g.w.on.neighbours(side, p.handle.pair)
		i := g.random.IntN(len(pairs))
		p.handle.pair, p.handle.other = pairs[i], on[i] != side
		return "handle of another VI's memory"
	case 6:
		if remote {
			p.handle.kind = regionPlain
			return "no right"
		}
		p.handle.kind = regionPart
		p.offset = oddOffset - 1
		return "one byte before the region"
	case 7:
		if g.chance(50) && n <= oddLength {
			p.handle.kind = regionPart
			p.offset = oddOffset + oddLength - int64(n) + 1
		} else {
			p.handle.kind = regionFull
			p.offset = dataBytes - int64(n) + 1
		}
		return "one byte behind the region"
	}
	p.handle.kind = regionFull
	p.offset = -1
	return "one byte before the region"
}

// format makes a descriptor malformed.
func (g *generator) format(d *randomDescriptor, receive, reliable bool) {
	switch g.random.IntN(8) {
	case 0:
		d.control |= 1 << g.between(layout.DescriptorControlReservedLsb, 15)
		d.plan += " reserved control bit"
	case 1:
		d.reserved = 1 << g.random.IntN(32)
		d.plan += " reserved field"
	case 2:
		d.control |= uint16(layout.DescriptorOperationReserved)
		d.plan += " reserved operation"
	case 3:
		d.segments = g.pick(layout.MaxDataSegments+1, 1<<15, 1<<16-1)
		if d.hasRemote {
			d.segments = g.pick(layout.MaxDataSegments+2, 1<<16-1)
		}
		d.plan += " too many segments"
	case 4:
		if !receive && reliable {
			// An RDMA read is valid here, and other descriptors would become
			// reads of an undefined place.
			d.control |= uint16(layout.DescriptorOperationReserved)
			d.plan += " reserved operation"
			break
		}
		d.control = d.control&^layout.DescriptorControlOperationMask | uint16(layout.DescriptorOperationRDMARead)
		d.plan += " RDMA read"
	case 5:
		if d.hasRemote {
			d.remoteReserved = 1 << g.random.IntN(32)
			d.plan += " reserved field of the address segment"
		} else {
			d.control |= uint16(layout.DescriptorOperationReserved)
			d.plan += " reserved operation"
		}
	case 6:
		if d.hasRemote {
			d.hasRemote, d.pieces, d.segments = false, nil, 0
			d.plan += " no address segment"
		} else {
			d.reserved = 1 << 31
			d.plan += " reserved field"
		}
	default:
		if receive {
			d.control |= uint16(layout.DescriptorOperationRDMAWrite)
			d.plan += " RDMA write on the receive queue"
		} else {
			d.control |= 1 << 15
			d.plan += " reserved control bit"
		}
	}
}

// receive returns a receive descriptor.
func (g *generator) receive(side, pair int) randomDescriptor {
	v := g.vi(side, pair)
	max := int(v.Attributes().MaxTransferSize)
	n := 0
	switch r := g.random.IntN(100); {
	case r < 45:
		n = g.between(2000, 20000)
	case r < 65:
		n = 65536
	case r < 85:
		n = g.size(65536)
	default:
		n = g.pick(0, 1, layout.MaxPayload-1, layout.MaxPayload, layout.MaxPayload+1, max)
	}
	n = min(n, max)
	d := randomDescriptor{segments: -1, handle: queueHandle(pair, true), pieces: g.pieces(pair, areaTarget, n)}
	d.length = uint32(n)
	if g.chance(5) {
		d.control |= layout.DescriptorControlImmediateMask // ignored here
	}
	if g.chance(5) {
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	if !g.chance(12) {
		return d
	}
	switch g.random.IntN(4) {
	case 0:
		g.format(&d, true, g.reliable(side, pair))
	case 1:
		switch g.random.IntN(3) {
		case 0:
			d.length = uint32(max) + uint32(g.pick(1, 1, 2, 1<<20, 1<<31-1))
			d.plan += " larger than the largest transfer"
		case 1:
			d.length += uint32(g.pick(1, 5, 100))
			d.plan += " more Length than space"
		default:
			d.length -= min(d.length, uint32(g.pick(1, 5, 100)))
			d.plan += " more space than Length"
		}
	default:
		if len(d.pieces) > 0 {
			i := g.random.IntN(len(d.pieces))
			d.plan += " piece " + g.spoil(side, &d.pieces[i].place, int(d.pieces[i].length), false)
		}
	}
	return d
}

// send returns a send descriptor for a message of at most n bytes.
func (g *generator) send(side, pair, n int, op layout.DescriptorOperation, immediate, inject, injectRemote bool) randomDescriptor {
	max := int(g.vi(side, pair).Attributes().MaxTransferSize)
	n = min(n, max)
	area, there := areaSource, areaTarget
	if op == layout.DescriptorOperationRDMARead {
		area, there = areaRead, g.pick(areaTarget, areaTarget, areaSource)
	}
	d := randomDescriptor{segments: -1, handle: queueHandle(pair, false), control: uint16(op), pieces: g.pieces(pair, area, n), length: uint32(n)}
	if immediate {
		d.control |= layout.DescriptorControlImmediateMask
		d.immediate = g.random.Uint32()
	}
	if g.chance(5) {
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	if op == layout.DescriptorOperationRDMAWrite || op == layout.DescriptorOperationRDMARead {
		d.hasRemote = true
		p := g.piece(pair, there, n)
		if n > 0 || !g.chance(30) { // an access of 0 bytes may name any address
			p.handle.how, p.absolute = handleOf, false
			if p.offset < 0 || p.offset > dataBytes {
				p.offset = 0
			}
		}
		if op != layout.DescriptorOperationRDMARead || n > 0 {
			p.handle.how = handleOf // a read of 0 bytes ignores the handle
		}
		if p.handle.kind == regionPlain {
			p.handle.kind = regionFull
		}
		d.remote = p.place
		if injectRemote {
			d.plan += " remote " + g.spoil(1-side, &d.remote, n, true)
		}
	}
	if inject {
		g.injectError(&d, side, pair, area, n)
	}
	return d
}

// injectError makes a send descriptor of n bytes invalid.
func (g *generator) injectError(d *randomDescriptor, side, pair, area, n int) {
	max, op := int(g.vi(side, pair).Attributes().MaxTransferSize), d.operation()
	switch g.random.IntN(8) {
	case 0:
		if op == layout.DescriptorOperationRDMARead && g.chance(30) {
			d.control |= layout.DescriptorControlImmediateMask
			d.plan += " immediate data"
			break
		}
		g.format(d, false, g.reliable(side, pair))
	case 1:
		switch g.random.IntN(4) {
		case 0:
			d.length++
			d.plan += " Length one too large"
		case 1:
			if d.length > 0 {
				d.length--
				d.plan += " Length one too small"
			}
		case 2:
			d.length ^= 1 << g.random.IntN(32)
			d.plan += " other Length"
		default:
			d.pieces = append(d.pieces, g.piece(pair, area, 1))
			d.plan += " one piece too many"
		}
	case 2:
		if max < dataBytes {
			d.pieces = g.pieces(pair, area, max+1)
			d.length = uint32(max + 1)
			d.plan += " larger than the largest transfer"
		}
	case 3, 4:
		g.late(d, side, pair, area, max)
	case 5:
		if d.hasRemote && n > 0 {
			d.remote.absolute, d.remote.offset = true, int64(-g.between(1, n-1+1))
			d.plan += " remote end at or beyond the last address"
			break
		}
		fallthrough
	default:
		if len(d.pieces) > 0 {
			i := g.random.IntN(len(d.pieces))
			d.plan += " piece " + g.spoil(side, &d.pieces[i].place, int(d.pieces[i].length), false)
		}
	}
}

// late makes a message of several frames with an error after the first.
func (g *generator) late(d *randomDescriptor, side, pair, area, max int) {
	frames := g.pick(1, 1, 1, 2)
	n := frames*layout.MaxPayload + g.pick(1, 2, 3, layout.MaxPayload, g.between(1, layout.MaxPayload))
	if n > max {
		return
	}
	first := frames*layout.MaxPayload + g.between(0, n-frames*layout.MaxPayload-1)
	d.pieces = []dataPiece{g.piece(pair, area, first), g.piece(pair, area, n-first)}
	d.length, d.segments = uint32(n), -1
	if g.chance(50) {
		d.plan += " late piece " + g.spoil(side, &d.pieces[1].place, n-first, false)
		return
	}
	// With a third segment the provider cannot check the sum in advance.
	d.pieces = append(d.pieces, g.piece(pair, area, g.pick(0, 1, 2)))
	switch sum := lengthOf(d.pieces); {
	case sum == uint32(n):
		d.length++
		d.plan += " late end of the pieces"
	default:
		d.plan += " bytes behind Length"
	}
	if d.length > uint32(max) {
		d.length = uint32(n)
	}
}
