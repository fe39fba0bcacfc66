// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"slices"

	"hvia/layout"
)

// viaFrame is the fields of a frame.
type viaFrame struct {
	destination, source [6]byte
	etherType           uint16
	operation           layout.FrameOperation
	version             uint8
	flags               uint8
	length              int // in the header
	to, from            uint16
	sequence            uint32
	address             uint64
	handle, immediate   uint32
	payload             []byte
}

func (h viaFrame) encode() []byte {
	b := make([]byte, layout.HeaderBytes+len(h.payload))
	e := layout.EthernetHeader(b)
	copy(e.Destination(), h.destination[:])
	copy(e.Source(), h.source[:])
	e.SetEtherType(h.etherType)
	v := layout.ViaHeader(b[layout.EthernetHeaderSize:])
	v.SetOperationVersion(uint8(h.operation)<<layout.ViaHeaderOperationVersionOperationLsb | h.version<<layout.ViaHeaderOperationVersionVersionLsb)
	v.SetFlags(h.flags)
	v.SetPayloadLength(uint16(h.length))
	v.SetDestinationVI(h.to)
	v.SetSourceVI(h.from)
	v.SetSequence(h.sequence)
	v.SetAddress(h.address)
	v.SetHandle(h.handle)
	v.SetImmediate(h.immediate)
	copy(b[layout.HeaderBytes:], h.payload)
	return b
}

// hear is the arrival of a frame.
func (m *machine) hear(frame []byte) {
	if len(frame) < layout.MinFrame {
		frame = append(slices.Clone(frame), make([]byte, layout.MinFrame-len(frame))...)
	}
	e := layout.EthernetHeader(frame)
	own, group := [6]byte(e.Destination()) == m.mac, e.Destination()[0]&1 != 0
	if !own && !group {
		return // the MAC ignores it
	}
	m.counts[layout.CounterMacReceiveFrame]++
	switch via := e.EtherType() == layout.EtherTypeVia; {
	case !own && via:
		m.counts[layout.CounterReceiveNotForUs]++
	case via:
		m.hearVia(frame)
	default:
		m.hearRaw(frame)
	}
}

func (m *machine) hearVia(frame []byte) {
	e, h := layout.EthernetHeader(frame), layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	operation := layout.FrameOperation(h.OperationVersion() & layout.ViaHeaderOperationVersionOperationMask)
	n := int(h.PayloadLength())
	if h.OperationVersion()>>layout.ViaHeaderOperationVersionVersionLsb != layout.ViaVersion || operation > layout.FrameOperationAcknowledge ||
		h.Flags()&layout.ViaHeaderFlagsReservedMask != 0 || n > layout.MaxPayload || n > len(frame)-layout.HeaderBytes {
		m.counts[layout.CounterReceiveMalformed]++
		return
	}
	v := m.vis[uint8(h.DestinationVI())]
	stranger := v == nil || h.DestinationVI() != v.number() || [6]byte(e.Source()) != v.peerMac || h.SourceVI() != v.peerVI
	if !stranger && v.reliable != nil {
		m.counts[v.hearReliable(operation, h, frame[layout.HeaderBytes:layout.HeaderBytes+n])]++
		return
	}
	if stranger || !v.connected {
		m.counts[layout.CounterReceiveBadVI]++
		return
	}
	ahead := int32(h.Sequence() - v.expected)
	if !v.believed(h.Sequence()) {
		if ahead < 0 {
			m.counts[layout.CounterReceiveOldSequence]++
		} else {
			m.counts[layout.CounterReceiveOutOfOrder]++
		}
		return
	}
	v.expected = h.Sequence() + 1
	if ahead != 0 {
		m.counts[layout.CounterReceiveGap]++
	}
	first, last, data := flagsOf(h)
	immediate := data != nil
	rdma := operation == layout.FrameOperationRDMAWrite
	supported := rdma || operation == layout.FrameOperationSend
	total, offset := uint32(h.Address()>>32), uint32(h.Address())
	begins := supported && first && (rdma || offset == 0)
	x := &v.message
	continues := supported && !first && x.open && ahead == 0 && rdma == x.rdma && immediate == x.immediate &&
		(rdma || offset == x.came && total == x.total)
	switch {
	case x.open && !continues:
		v.cutOff(0)
		*x = message{}
	case !x.open && !x.dropped && supported && !begins:
		// The first frame of a message is missing.
		m.counts[layout.CounterReceiveAborted]++
		if rdma && !immediate {
			m.errors = append(m.errors, asyncError{layout.AsyncErrorRDMAWriteAbort, v.index})
		}
	}
	reason := layout.CounterReceiveDropped
	switch {
	case !supported:
		reason = layout.CounterReceiveUnsupported
	case begins:
		*x = message{open: true, rdma: rdma, immediate: immediate, total: total}
		reason = v.begin(h, frame[layout.HeaderBytes:layout.HeaderBytes+n])
	case continues && x.errors == 0:
		reason = v.place(h, frame[layout.HeaderBytes:layout.HeaderBytes+n])
	}
	m.counts[reason]++
	x.came += uint32(n)
	if x.open && last && x.held != nil {
		status := x.ended()
		if immediate {
			status |= layout.DescriptorStatusImmediateMask
		}
		m.counts[layout.CounterReceiveMessage]++
		v.used(x.held, status, x.written, data)
	}
	// The rest of a failed message is dropped, with or without a descriptor
	// that waits for its end.
	if last || !x.open {
		*x = message{dropped: !last}
	}
}

// flagsOf returns the position of a frame in its message, and its immediate
// data.
func flagsOf(h layout.ViaHeader) (first, last bool, immediate *uint32) {
	flags := h.Flags()
	if flags&layout.ViaHeaderFlagsImmediateMask != 0 {
		immediate = new(uint32)
		*immediate = h.Immediate()
	}
	return flags&layout.ViaHeaderFlagsFirstMask != 0, flags&layout.ViaHeaderFlagsLastMask != 0, immediate
}

// believed reports whether an unreliable VI accepts a frame of this number: one
// in the window, or the last of SequenceAgreement in a row outside of it, each
// ahead of the one before by less than a window.
func (v *vi) believed(number uint32) bool {
	inWindow := func(from uint32) bool { return number-from < layout.SequenceWindow }
	if inWindow(v.expected) {
		v.strays = nil
		return true
	}
	switch n := len(v.strays); {
	case n > 0 && v.strays[n-1] == number: // a copy
	case n > 0 && inWindow(v.strays[n-1]+1):
		v.strays = append(v.strays, number)
	default:
		v.strays = []uint32{number}
	}
	if len(v.strays) < layout.SequenceAgreement {
		return false
	}
	v.strays = nil
	return true
}

// begin processes the first frame of a message.
func (v *vi) begin(h layout.ViaHeader, payload []byte) layout.Counter {
	x := &v.message
	if !x.rdma || x.immediate {
		if v.head == nil {
			x.open = false
			v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorReceiveQueueEmpty, v.index})
			return layout.CounterReceiveQueueEmpty
		}
		d := v.head.descriptor
		x.held, x.place.data = v.head, nil
		switch {
		case d.operation() != layout.DescriptorOperationSend, d.control&layout.DescriptorControlReservedMask != 0, d.reserved != 0, d.segments > layout.MaxDataSegments:
			x.errors = layout.DescriptorStatusFormatErrorMask
			return layout.CounterReceiveDescriptorError
		case int(d.length) > v.max:
			x.errors = layout.DescriptorStatusLengthErrorMask
			return layout.CounterReceiveDescriptorError
		}
		x.place.data = d.all()
	}
	return v.place(h, payload)
}

// place writes the payload of a frame to its target.
func (v *vi) place(h layout.ViaHeader, payload []byte) layout.Counter {
	x := &v.message
	if x.rdma {
		code := layout.AttErrorAccess
		var g *region
		if v.writable {
			g, code = v.m.translate(h.Handle(), v.tag, layout.AttAccessRemoteWrite, h.Address(), len(payload))
		}
		if code != layout.AttErrorNone {
			if x.held == nil {
				x.open = false
				v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorRDMAWriteProtection, v.index})
			}
			x.errors |= layout.DescriptorStatusRDMAProtectionErrorMask
			return layout.CounterReceiveProtection
		}
		g.expect(int(h.Address()-g.address), payload)
		x.written += len(payload)
		return layout.CounterReceiveFrame
	}
	for len(payload) > 0 {
		s := &x.place
		room := int(x.held.length) - x.written
		switch {
		case room == 0, s.rest.length == 0 && s.next == len(s.data):
			x.errors |= layout.DescriptorStatusLengthErrorMask
			return layout.CounterReceiveLength
		case s.rest.length == 0:
			if chunk := chunkOf(s.next); chunk > 0 && !v.readable(x.held, chunk) {
				x.errors |= layout.DescriptorStatusProtectionErrorMask
				return layout.CounterReceiveDescriptorError
			}
			s.rest = s.data[s.next]
			s.next++
			continue
		}
		g, code := v.m.translate(s.rest.handle, v.tag, layout.AttAccessLocal, s.rest.address, int(s.rest.length))
		if code != layout.AttErrorNone {
			x.errors |= layout.DescriptorStatusProtectionErrorMask
			return layout.CounterReceiveDescriptorError
		}
		n := min(len(payload), int(s.rest.length), room)
		g.expect(int(s.rest.address-g.address), payload[:n])
		payload = payload[n:]
		x.written += n
		s.rest.address += uint64(n)
		s.rest.length -= uint32(n)
	}
	return layout.CounterReceiveFrame
}

// scatter is a position in the buffers of a receive descriptor.
type scatter struct {
	data []segment
	next int
	rest segment
}

// ended returns the status of the receive descriptor of a message.
func (x *message) ended() uint32 {
	echo := layout.StatusOperationReceive
	if x.rdma {
		echo = layout.StatusOperationRemoteRDMAWrite
	}
	return layout.DescriptorStatusDoneMask | x.errors | uint32(echo)<<layout.DescriptorStatusOperationLsb
}

// cutOff processes the loss of the rest of an open message.
func (v *vi) cutOff(more uint32) {
	x := &v.message
	v.m.counts[layout.CounterReceiveAborted]++
	if x.held == nil {
		v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorRDMAWriteAbort, v.index})
		return
	}
	v.m.counts[layout.CounterReceiveMessage]++
	v.used(x.held, x.ended()|layout.DescriptorStatusPartialErrorMask|more, x.written, nil)
}

// used predicts the completion of the head of the receive queue, and the next
// head.
func (v *vi) used(p *posted, status uint32, n int, immediate *uint32) {
	if p.stale {
		v.m.counts[layout.CounterCompletionError]++
		v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorCompletionProtection, v.index})
		v.m.checked(status)
	} else {
		v.m.written(p, status, n)
		v.m.counts[layout.CounterCompletionReceive]++
		if immediate != nil {
			v.m.expectWord(p.field(layout.DescriptorImmediateDataOffset), *immediate)
		}
	}
	v.head, v.receive.posted = nil, v.receive.posted[1:]
	v.fetch()
}

// fetch predicts that the card fetches the next receive descriptor.
func (v *vi) fetch() {
	if v.head != nil || len(v.receive.posted) == 0 {
		return
	}
	if p := v.receive.posted[0]; v.readable(p, 0) {
		v.m.counts[layout.CounterDescriptorFetched]++
		v.head = p
		return
	}
	// Descriptors that only its link reaches are lost with it.
	v.m.counts[layout.CounterDescriptorBad]++
	v.m.errors = append(v.m.errors, asyncError{layout.AsyncErrorPostDescriptor, v.index})
	v.receive.posted = nil
}
