// SPDX-License-Identifier: Apache-2.0

package softvia

import "hvia/layout"

type send struct {
	number  uint64 // counts all sends of the engine
	body    descriptor
	frames  int  // emitted, with memory still needed
	settled bool // all frames are emitted, and the outcome is known
	outcome completion
}

// Send processes the send queue of a VI until it is empty. If another thread
// does so already, it returns at once: that thread does the rest.
func (e *Engine[T]) Send(who T, index int) error {
	v := &e.vis[index]
	if v.busy {
		return nil
	}
	v.busy = true
	defer func() { v.busy = false }()
	for e.Ready(QueueID{index, SendQueue}) {
		if err := e.Process(who, index); err != nil {
			return err
		}
	}
	return nil
}

// Process processes one descriptor of a Ready send queue. It completes when
// those before it are complete and the memory of its frames is not needed any
// more; for a connected reliable VI, when the peer has the message.
func (e *Engine[T]) Process(who T, index int) error {
	v := &e.vis[index]
	d, ok := e.fetch(who, QueueID{index, SendQueue})
	if v.reliable() && v.state == layout.VIStateConnected {
		e.open(who, index, d, ok)
		return nil
	}
	if !ok {
		e.env.Async(who, layout.AsyncErrorPostDescriptor, index)
		v.broken = true
		return nil
	}
	e.started++
	s := &send{number: e.started, body: d}
	v.sends = append(v.sends, s)
	moved, bits, err := e.send(who, index, s)
	if bits != 0 && bits != layout.DescriptorStatusFlushedMask {
		e.env.Count(layout.CounterDescriptorError)
	}
	s.settled, s.outcome = true, completion{length: moved, bits: bits, echo: d.echo()}
	e.completeSends(who, index)
	return err
}

// echo returns the operation that a completion reports for a descriptor of the
// send queue.
func (d *descriptor) echo() layout.StatusOperation {
	return [...]layout.StatusOperation{
		layout.DescriptorOperationSend: layout.StatusOperationSend, layout.DescriptorOperationRDMAWrite: layout.StatusOperationRDMAWrite,
		layout.DescriptorOperationRDMARead: layout.StatusOperationRDMARead, layout.DescriptorOperationReserved: layout.StatusOperationSend,
	}[d.operation()]
}

func (e *Engine[T]) completeSends(who T, index int) {
	v := &e.vis[index]
	for len(v.sends) > 0 && v.sends[0].settled && v.sends[0].frames == 0 {
		s := v.sends[0]
		v.sends = v.sends[1:]
		e.complete(who, QueueID{index, SendQueue}, &s.body, s.outcome)
	}
}

// gather finds the bytes of a message in its segments, in order.
type gather struct {
	body    *descriptor
	next    int // segment
	segment layout.DataSegment
	offset  uint32 // in segment
}

// advance moves to the next segment with bytes; more is false behind the last.
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

// take finds the next n bytes. It checks a segment to its end, so that a
// segment is read completely or not at all.
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

// skip skips n bytes that were sent before, without an access check.
func (g *gather) skip(n uint32) (bits uint32) {
	for n > 0 {
		more, bits := g.advance()
		switch {
		case bits != 0:
			return bits
		case !more:
			return layout.DescriptorStatusLengthErrorMask
		}
		l := min(n, g.segment.Length()-g.offset)
		g.offset, n = g.offset+l, n-l
	}
	return 0
}

// frame finds the n bytes of the next frame. For the last frame it checks that
// the segments end with the message.
func (g *gather) frame(n uint32, last bool) (payload []Range, bits uint32) {
	payload, bits = g.take(n)
	if bits == 0 && last {
		more, rejected := g.advance()
		if bits = rejected; more {
			bits = layout.DescriptorStatusLengthErrorMask
		}
	}
	return payload, bits
}

// unfit returns the errors that the first chunk of a send queue's descriptor
// shows.
func (v *viState) unfit(d *descriptor) (bits uint32) {
	length := d.control.Length()
	switch {
	case d.malformed(SendQueue, v.reliable()):
		return layout.DescriptorStatusFormatErrorMask
	case d.misfits():
		return layout.DescriptorStatusLengthErrorMask
	case d.operation() != layout.DescriptorOperationSend && length > 0 && d.address().Address()+uint64(length)-1 < d.address().Address():
		return layout.DescriptorStatusFormatErrorMask
	case length > v.ctx().MaxTransferSize():
		return layout.DescriptorStatusLengthErrorMask
	}
	return 0
}

// send processes a send or an RDMA write; it returns the bytes moved and the
// error bits.
func (e *Engine[T]) send(who T, index int, s *send) (moved, bits uint32, err error) {
	v, d := &e.vis[index], &s.body
	length := d.control.Length()
	if v.state != layout.VIStateConnected || v.broken {
		e.env.Count(layout.CounterDescriptorFlushed)
		return 0, layout.DescriptorStatusFlushedMask, nil
	}
	if bits := v.unfit(d); bits != 0 {
		return 0, bits, nil
	}
	g := gather{body: d, next: d.firstData()}
	for first := true; first || moved < length; first = false {
		if v.state != layout.VIStateConnected { // stopped while a frame was emitted
			e.env.Count(layout.CounterTransmitAborted)
			e.env.Count(layout.CounterDescriptorFlushed)
			return moved, layout.DescriptorStatusFlushedMask, nil
		}
		n := min(length-moved, layout.MaxPayload)
		last := moved+n == length
		payload, bits := g.frame(n, last)
		if bits != 0 {
			if !first {
				e.env.Count(layout.CounterTransmitAborted)
			}
			return moved, bits, nil
		}
		s.frames++
		f := d.frame(moved, n, last)
		f.sequence = v.sequence
		v.sequence++
		e.env.Count(layout.CounterTransmitFrame)
		if err := e.env.Emit(who, e.headers(index, f), payload, func(who T) {
			s.frames--
			e.completeSends(who, index)
		}); err != nil {
			return moved, layout.DescriptorStatusFlushedMask, err
		}
		moved += n
	}
	e.env.Count(layout.CounterTransmitMessage)
	return moved, 0, nil
}

// frameHead has the fields of a frame's headers that its VI does not set.
type frameHead struct {
	operation layout.FrameOperation
	flags     uint8
	bytes     uint32 // of payload
	sequence  uint32
	address   uint64
	handle    uint32
	immediate uint32
}

// messageFlags returns the flags of a message's frame at an offset.
func messageFlags(offset uint32, last bool) (flags uint8) {
	if offset == 0 {
		flags |= layout.ViaHeaderFlagsFirstMask
	}
	if last {
		flags |= layout.ViaHeaderFlagsLastMask
	}
	return flags
}

// frame returns the head of a message's frame with n bytes from offset on.
func (d *descriptor) frame(offset, n uint32, last bool) frameHead {
	f := frameHead{operation: layout.FrameOperationSend, flags: messageFlags(offset, last), bytes: n}
	switch d.operation() {
	case layout.DescriptorOperationRDMAWrite:
		f.operation, f.address, f.handle = layout.FrameOperationRDMAWrite, d.address().Address()+uint64(offset), d.address().Handle()
	case layout.DescriptorOperationRDMARead:
		f.operation, f.address, f.handle, f.immediate = layout.FrameOperationRDMAReadRequest, d.address().Address(), d.address().Handle(), d.control.Length()
	default:
		f.address = uint64(d.control.Length())<<32 | uint64(offset)
	}
	if d.immediate() {
		f.flags |= layout.ViaHeaderFlagsImmediateMask
		f.immediate = d.control.ImmediateData()
	}
	return f
}

func (e *Engine[T]) headers(index int, f frameHead) []byte {
	v := &e.vis[index]
	b := make([]byte, layout.HeaderBytes)
	ethernet, h := layout.EthernetHeader(b), layout.ViaHeader(b[layout.EthernetHeaderSize:])
	copy(ethernet.Destination(), v.ctx().PeerMac())
	copy(ethernet.Source(), e.mac[:])
	ethernet.SetEtherType(layout.EtherTypeVia)
	h.SetOperationVersion(layout.ViaVersion<<layout.ViaHeaderOperationVersionVersionLsb | uint8(f.operation))
	h.SetFlags(f.flags)
	h.SetPayloadLength(uint16(f.bytes))
	h.SetDestinationVI(v.ctx().PeerVI())
	h.SetSourceVI(v.number(index))
	h.SetSequence(f.sequence)
	h.SetAddress(f.address)
	h.SetHandle(f.handle)
	h.SetImmediate(f.immediate)
	return b
}
