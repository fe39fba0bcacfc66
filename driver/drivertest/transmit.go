// SPDX-License-Identifier: Apache-2.0

package drivertest

import "hvia/layout"

// process carries out one descriptor of a send queue.
func (c *Card) process(index int) {
	d, pa, ok := c.fetch(queueID{index, sendQueue})
	if !ok {
		c.vis[index].broken = true
		return
	}
	moved, bits := c.send(index, &d)
	echo := [...]layout.StatusOperation{
		layout.DescriptorOperationSend: layout.StatusOperationSend, layout.DescriptorOperationRdmaWrite: layout.StatusOperationRdmaWrite,
		layout.DescriptorOperationRdmaRead: layout.StatusOperationRdmaRead, layout.DescriptorOperationReserved: layout.StatusOperationSend,
	}[d.operation()]
	if bits != 0 && bits != layout.DescriptorStatusFlushedMask {
		c.count(layout.CounterDescriptorError)
	}
	c.complete(pa, completion{length: moved, bits: bits, echo: echo})
}

// gather reads the bytes of a message out of its segments, in order.
type gather struct {
	card    *Card
	body    *descriptor
	next    int // segment
	segment layout.DataSegment
	offset  uint32 // in segment
}

// advance goes to the next segment that has bytes; false behind the last one.
func (g *gather) advance() (more bool, bits uint32) {
	for g.segment == nil || g.offset == g.segment.Length() {
		if g.next == int(g.body.control.SegmentCount()) {
			return false, 0
		}
		s, ok := g.body.segment(g.next)
		if !ok {
			return false, layout.DescriptorStatusProtectionErrorMask
		}
		g.segment, g.offset = s, 0
		g.next++
	}
	return true, 0
}

// take appends n bytes to to. A segment is checked to its end, so that one
// segment is read wholly or not at all.
func (g *gather) take(to []byte, n int) ([]byte, uint32) {
	for n > 0 {
		more, bits := g.advance()
		switch {
		case bits != 0:
			return to, bits
		case !more:
			return to, layout.DescriptorStatusLengthErrorMask
		}
		pa, ok := g.card.translate(g.segment.Handle(), g.segment.Address()+uint64(g.offset), g.segment.Length()-g.offset, g.body.tag, layout.AttAccessLocal)
		if !ok {
			return to, layout.DescriptorStatusProtectionErrorMask
		}
		for _, r := range pa {
			l := min(uint32(n), r.Length)
			to = append(to, g.card.dma(r.Address, l)...)
			g.offset += l
			if n -= int(l); n == 0 {
				break
			}
		}
	}
	return to, 0
}

// send carries out a send or an RDMA write; it returns the bytes moved and the
// error bits.
func (c *Card) send(index int, d *descriptor) (moved, bits uint32) {
	v := &c.vis[index]
	length := d.control.Length()
	switch {
	case v.state != layout.ViStateConnected || v.broken:
		c.count(layout.CounterDescriptorFlushed)
		return 0, layout.DescriptorStatusFlushedMask
	case d.malformed(sendQueue):
		return 0, layout.DescriptorStatusFormatErrorMask
	case d.misfits():
		return 0, layout.DescriptorStatusLengthErrorMask
	case d.operation() == layout.DescriptorOperationRdmaWrite && length > 0 && d.address().Address()+uint64(length)-1 < d.address().Address():
		return 0, layout.DescriptorStatusFormatErrorMask
	case length > v.ctx().MaxTransferSize():
		return 0, layout.DescriptorStatusLengthErrorMask
	}
	g := gather{card: c, body: d, next: d.firstData()}
	for first := true; first || moved < length; first = false {
		payload, bits := g.take(nil, int(min(length-moved, layout.MaxPayload)))
		last := moved+uint32(len(payload)) == length
		if bits == 0 && last {
			// What is left in the segments is found before the last frame leaves.
			more, refused := g.advance()
			if bits = refused; more {
				bits = layout.DescriptorStatusLengthErrorMask
			}
		}
		if bits != 0 {
			if !first {
				c.count(layout.CounterTransmitAborted)
			}
			return moved, bits
		}
		c.emit(c.frame(index, d, moved, payload, first, last))
		moved += uint32(len(payload))
	}
	c.count(layout.CounterTransmitMessage)
	return moved, 0
}

func (c *Card) frame(index int, d *descriptor, offset uint32, part []byte, first, last bool) []byte {
	v := &c.vis[index]
	b := make([]byte, layout.HeaderBytes, layout.HeaderBytes+len(part))
	e, h := layout.EthernetHeader(b), layout.ViaHeader(b[layout.EthernetHeaderSize:])
	copy(e.Destination(), v.ctx().PeerMac())
	copy(e.Source(), c.mac())
	e.SetEtherType(layout.EtherTypeVia)
	operation := layout.FrameOperationSend
	if d.operation() == layout.DescriptorOperationRdmaWrite {
		operation = layout.FrameOperationRdmaWrite
		h.SetAddress(d.address().Address() + uint64(offset))
		h.SetHandle(d.address().Handle())
	} else {
		h.SetAddress(uint64(d.control.Length())<<32 | uint64(offset))
	}
	h.SetOperationVersion(layout.ViaVersion<<layout.ViaHeaderOperationVersionVersionLsb | uint8(operation))
	var flags uint8
	if first {
		flags |= layout.ViaHeaderFlagsFirstMask
	}
	if last {
		flags |= layout.ViaHeaderFlagsLastMask
	}
	if d.immediate() {
		flags |= layout.ViaHeaderFlagsImmediateMask
		h.SetImmediate(d.control.ImmediateData())
	}
	h.SetFlags(flags)
	h.SetPayloadLength(uint16(len(part)))
	h.SetDestinationVi(v.ctx().PeerVi())
	h.SetSourceVi(v.number(index))
	h.SetSequence(v.sequence)
	v.sequence++
	c.count(layout.CounterTransmitFrame)
	return append(b, part...)
}

func (c *Card) mac() []byte {
	low, high := c.regs[layout.RegisterMacLowOffset], c.regs[layout.RegisterMacHighOffset]
	return []byte{byte(low), byte(low >> 8), byte(low >> 16), byte(low >> 24), byte(high), byte(high >> 8)}
}

// emit puts a frame on the wire.
func (c *Card) emit(frame []byte) {
	if c.f.Lose != nil && c.f.Lose(c.node.index, frame) {
		return
	}
	for _, n := range c.f.nodes {
		if n != c.node {
			c.f.after(wireDelay, func() { n.Card.arrive(frame) })
		}
	}
}
