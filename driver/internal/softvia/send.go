// SPDX-License-Identifier: Apache-2.0

package softvia

import "hvia/layout"

// send is a descriptor of a send queue that was fetched.
type send struct {
	number  uint64 // counts all sends of the engine
	pa      uint32
	frames  int  // emitted, whose memory is still needed
	settled bool // there will be no more frames, and the outcome is known
	outcome completion
}

// Send carries out the send queue of a VI until it is empty. If somebody is at it
// already it returns at once: who is at it does the rest too.
func (e *Engine[T]) Send(who T, index int) error {
	v := &e.vis[index]
	if v.busy {
		return nil
	}
	v.busy = true
	defer func() { v.busy = false }()
	for v.queues[SendQueue].count > 0 {
		if err := e.Process(who, index); err != nil {
			return err
		}
	}
	return nil
}

// Process carries out one descriptor of a Ready send queue. It completes when
// those before it are complete and the memory of its frames is not needed any more.
func (e *Engine[T]) Process(who T, index int) error {
	v := &e.vis[index]
	d, pa, ok := e.fetch(who, QueueID{index, SendQueue})
	if !ok {
		v.broken = true
		return nil
	}
	e.begun++
	s := &send{number: e.begun, pa: pa}
	v.sends = append(v.sends, s)
	moved, bits, err := e.send(who, index, &d, s)
	echo := [...]layout.StatusOperation{
		layout.DescriptorOperationSend: layout.StatusOperationSend, layout.DescriptorOperationRdmaWrite: layout.StatusOperationRdmaWrite,
		layout.DescriptorOperationRdmaRead: layout.StatusOperationRdmaRead, layout.DescriptorOperationReserved: layout.StatusOperationSend,
	}[d.operation()]
	if bits != 0 && bits != layout.DescriptorStatusFlushedMask {
		e.env.Count(layout.CounterDescriptorError)
	}
	s.settled, s.outcome = true, completion{length: moved, bits: bits, echo: echo}
	e.completeSends(who, v)
	return err
}

// completeSends completes what can be, in order.
func (e *Engine[T]) completeSends(who T, v *viState) {
	for len(v.sends) > 0 && v.sends[0].settled && v.sends[0].frames == 0 {
		s := v.sends[0]
		v.sends = v.sends[1:]
		e.complete(who, s.pa, s.outcome)
	}
}

// gather finds the bytes of a message in its segments, in order.
type gather struct {
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

// take finds the next n bytes. A segment is checked to its end, so that one
// segment is read wholly or not at all.
func (g *gather) take(n uint32) (payload []Range, bits uint32) {
	for n > 0 {
		more, bits := g.advance()
		switch {
		case bits != 0:
			return nil, bits
		case !more:
			return nil, layout.DescriptorStatusLengthErrorMask
		}
		pa, ok := g.body.memory.Translate(g.segment.Handle(), g.segment.Address()+uint64(g.offset), g.segment.Length()-g.offset, g.body.tag, layout.AttAccessLocal)
		if !ok {
			return nil, layout.DescriptorStatusProtectionErrorMask
		}
		for _, r := range pa {
			l := min(n, r.Length)
			payload = append(payload, Range{Address: r.Address, Length: l})
			g.offset += l
			if n -= l; n == 0 {
				break
			}
		}
	}
	return payload, 0
}

// send carries out a send or an RDMA write; it returns the bytes moved and the
// error bits.
func (e *Engine[T]) send(who T, index int, d *descriptor, s *send) (moved, bits uint32, err error) {
	v := &e.vis[index]
	length := d.control.Length()
	switch {
	case v.state != layout.ViStateConnected || v.broken:
		e.env.Count(layout.CounterDescriptorFlushed)
		return 0, layout.DescriptorStatusFlushedMask, nil
	case d.malformed(SendQueue):
		return 0, layout.DescriptorStatusFormatErrorMask, nil
	case d.misfits():
		return 0, layout.DescriptorStatusLengthErrorMask, nil
	case d.operation() == layout.DescriptorOperationRdmaWrite && length > 0 && d.address().Address()+uint64(length)-1 < d.address().Address():
		return 0, layout.DescriptorStatusFormatErrorMask, nil
	case length > v.ctx().MaxTransferSize():
		return 0, layout.DescriptorStatusLengthErrorMask, nil
	}
	g := gather{body: d, next: d.firstData()}
	for first := true; first || moved < length; first = false {
		if v.state != layout.ViStateConnected { // stopped while a frame was emitted
			e.env.Count(layout.CounterTransmitAborted)
			e.env.Count(layout.CounterDescriptorFlushed)
			return moved, layout.DescriptorStatusFlushedMask, nil
		}
		n := min(length-moved, layout.MaxPayload)
		payload, bits := g.take(n)
		last := moved+n == length
		if bits == 0 && last {
			// What is left in the segments is found before the last frame leaves.
			more, refused := g.advance()
			if bits = refused; more {
				bits = layout.DescriptorStatusLengthErrorMask
			}
		}
		if bits != 0 {
			if !first {
				e.env.Count(layout.CounterTransmitAborted)
			}
			return moved, bits, nil
		}
		s.frames++
		if err := e.env.Emit(who, e.headers(index, d, moved, n, first, last), payload, func(who T) {
			s.frames--
			e.completeSends(who, v)
		}); err != nil {
			return moved, layout.DescriptorStatusFlushedMask, err
		}
		moved += n
	}
	e.env.Count(layout.CounterTransmitMessage)
	return moved, 0, nil
}

// headers makes the headers of a frame with n bytes of a message, from offset on.
func (e *Engine[T]) headers(index int, d *descriptor, offset, n uint32, first, last bool) []byte {
	v := &e.vis[index]
	b := make([]byte, layout.HeaderBytes)
	ethernet, h := layout.EthernetHeader(b), layout.ViaHeader(b[layout.EthernetHeaderSize:])
	copy(ethernet.Destination(), v.ctx().PeerMac())
	copy(ethernet.Source(), e.mac[:])
	ethernet.SetEtherType(layout.EtherTypeVia)
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
	h.SetPayloadLength(uint16(n))
	h.SetDestinationVi(v.ctx().PeerVi())
	h.SetSourceVi(v.number(index))
	h.SetSequence(v.sequence)
	v.sequence++
	e.env.Count(layout.CounterTransmitFrame)
	return b
}
