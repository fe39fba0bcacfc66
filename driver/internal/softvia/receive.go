// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"bytes"

	"hvia/layout"
)

type message struct {
	open      bool // its Last frame has not come
	empty     bool // its first frame found no descriptor
	dropped   bool // the rest of it is dropped
	operation layout.FrameOperation
	immediate bool
	length    uint32 // of a send, from its first frame
	received  uint32 // bytes in its frames so far
	written   uint32 // bytes in memory
	bits      uint32 // errors so far
	segment   int    // of the next byte
	offset    uint32 // in it
}

func (m *message) usesDescriptor() bool {
	return m.operation == layout.FrameOperationSend || m.immediate
}

func (m *message) echo() layout.StatusOperation {
	if m.operation == layout.FrameOperationSend {
		return layout.StatusOperationReceive
	}
	return layout.StatusOperationRemoteRDMAWrite
}

// stray is an unreliable VI's record of frames outside of the window.
type stray struct {
	agreed    int    // in a row
	candidate uint32 // number expected behind the last one
}

// astray reports whether a frame of an unreliable VI must be dropped for its
// number. A run of consistent frames resets the number, so that one forged
// frame does not make the VI drop all others.
func (v *viState) astray(number uint32) bool {
	beyond := number - v.stray.candidate
	agrees := v.stray.agreed > 0 && beyond < layout.SequenceWindow
	switch {
	case number-v.expected < layout.SequenceWindow, agrees && v.stray.agreed == layout.SequenceAgreement-1:
		v.stray.agreed = 0
		return false
	case agrees:
		v.stray.agreed++
	case v.stray.agreed > 0 && number == v.stray.candidate-1: // a copy of the last one
	default:
		v.stray.agreed = 1
	}
	v.stray.candidate = number + 1
	return true
}

// Arrive takes a frame of EtherTypeVia from the network. It does not keep it.
func (e *Engine[T]) Arrive(who T, frame []byte) {
	if len(frame) < layout.HeaderBytes {
		e.env.Count(layout.CounterReceiveMalformed)
		return
	}
	ethernet := layout.EthernetHeader(frame)
	h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	operation := layout.FrameOperation(h.OperationVersion() & layout.ViaHeaderOperationVersionOperationMask >> layout.ViaHeaderOperationVersionOperationLsb)
	index := int(h.DestinationVI() & 0xff)
	v := &e.vis[index]
	switch {
	case h.OperationVersion()>>layout.ViaHeaderOperationVersionVersionLsb != layout.ViaVersion, operation > layout.FrameOperationAcknowledge,
		h.Flags()>>layout.ViaHeaderFlagsReservedLsb != 0, h.PayloadLength() > layout.MaxPayload, int(h.PayloadLength()) > len(frame)-layout.HeaderBytes:
		e.env.Count(layout.CounterReceiveMalformed)
		return
	case v.reliable():
		e.arriveReliably(who, index, operation, frame)
		return
	case v.state != layout.VIStateConnected, v.number(index) != h.DestinationVI(), v.ctx().PeerVI() != h.SourceVI(), !bytes.Equal(v.ctx().PeerMac(), ethernet.Source()):
		e.env.Count(layout.CounterReceiveBadVI)
		return
	case v.astray(h.Sequence()):
		if behind(v.expected, h.Sequence()) {
			e.env.Count(layout.CounterReceiveOldSequence)
		} else {
			e.env.Count(layout.CounterReceiveOutOfOrder)
		}
		return
	}
	if operation != layout.FrameOperationSend && operation != layout.FrameOperationRDMAWrite {
		e.env.Count(layout.CounterReceiveUnsupported)
		return
	}
	if h.Sequence() != v.expected {
		e.env.Count(layout.CounterReceiveGap)
		e.endMessage(who, index, layout.DescriptorStatusPartialErrorMask)
	}
	v.expected = h.Sequence() + 1
	immediate := h.Flags()&layout.ViaHeaderFlagsImmediateMask != 0
	if h.Flags()&layout.ViaHeaderFlagsFirstMask != 0 {
		e.endMessage(who, index, layout.DescriptorStatusPartialErrorMask)
		e.beginMessage(who, index, message{open: true, operation: operation, immediate: immediate, length: uint32(h.Address() >> 32)})
	}
	m := &v.message
	// A frame that does not continue the open message belongs to another one.
	if m.open && (m.operation != operation || m.immediate != immediate ||
		operation == layout.FrameOperationSend && (uint32(h.Address()>>32) != m.length || uint32(h.Address()) != m.received)) {
		e.endMessage(who, index, layout.DescriptorStatusPartialErrorMask)
	}
	switch {
	case m.empty:
		e.env.Count(layout.CounterReceiveQueueEmpty)
		m.empty, m.dropped = false, true
	case !m.open || m.dropped:
		e.env.Count(layout.CounterReceiveDropped)
	default:
		e.deliver(who, index, h, frame[layout.HeaderBytes:][:h.PayloadLength()])
	}
	if m.open && h.Flags()&layout.ViaHeaderFlagsLastMask != 0 {
		e.lastFrame(who, index, h.Immediate())
	}
}

// beginMessage finds the receive descriptor of a message that needs one. It
// fetches a posted one now if necessary.
func (e *Engine[T]) beginMessage(who T, index int, m message) {
	v := &e.vis[index]
	if m.usesDescriptor() {
		if !v.head.valid && v.queues[ReceiveQueue].count > 0 {
			e.FetchReceive(who, index)
		}
		if v.head.valid {
			e.env.Count(layout.CounterReceiveMessage)
			m.bits = v.head.bits
		} else {
			e.env.Async(who, layout.AsyncErrorReceiveQueueEmpty, index)
			m.empty = true
		}
	}
	v.message = m
}

func (e *Engine[T]) deliver(who T, index int, h layout.ViaHeader, data []byte) {
	m := &e.vis[index].message
	m.received += uint32(len(data))
	switch {
	case m.bits != 0:
		e.env.Count(layout.CounterReceiveDescriptorError)
	case m.operation == layout.FrameOperationSend:
		e.scatter(who, index, data)
	default:
		e.remoteWrite(who, index, h, data)
	}
}

func (e *Engine[T]) scatter(who T, index int, data []byte) {
	v := &e.vis[index]
	m := &v.message
	e.fill(who, m, &v.head.body, data)
	switch m.bits {
	case 0:
		e.env.Count(layout.CounterReceiveFrame)
	case layout.DescriptorStatusLengthErrorMask:
		e.env.Count(layout.CounterReceiveLength)
	default:
		e.env.Count(layout.CounterReceiveDescriptorError)
	}
}

// fill stores bytes of a message in the segments of a descriptor, behind
// earlier ones. On failure it sets the message's bits.
func (e *Engine[T]) fill(who T, m *message, d *descriptor, data []byte) {
	for len(data) > 0 {
		if m.segment == int(d.control.SegmentCount()) || m.written == d.control.Length() {
			m.bits = layout.DescriptorStatusLengthErrorMask
			return
		}
		s, ok := d.segment(m.segment)
		if !ok {
			m.bits = layout.DescriptorStatusProtectionErrorMask
			return
		}
		if m.offset == s.Length() {
			m.segment, m.offset = m.segment+1, 0
			continue
		}
		pa, ok := e.env.Translate(s.Handle(), s.Address()+uint64(m.offset), s.Length()-m.offset, d.tag, layout.AttAccessLocal)
		if !ok {
			m.bits = layout.DescriptorStatusProtectionErrorMask
			return
		}
		for _, r := range pa {
			n := min(r.Length, uint32(len(data)), d.control.Length()-m.written)
			e.env.Store(who, r.Address, data[:n])
			data, m.offset, m.written = data[n:], m.offset+n, m.written+n
		}
	}
}

func (e *Engine[T]) remoteWrite(who T, index int, h layout.ViaHeader, data []byte) {
	v := &e.vis[index]
	m := &v.message
	pa, ok := e.env.Translate(h.Handle(), h.Address(), uint32(len(data)), v.tag(), layout.AttAccessRemoteWrite)
	if !ok || v.ctx().Attributes()&layout.VIContextAttributesEnableRDMAWriteMask == 0 {
		e.env.Count(layout.CounterReceiveProtection)
		if m.immediate {
			m.bits = layout.DescriptorStatusRDMAProtectionErrorMask
		} else {
			m.dropped = true
			e.env.Async(who, layout.AsyncErrorRDMAWriteProtection, index)
		}
		return
	}
	for _, r := range pa {
		e.env.Store(who, r.Address, data[:r.Length])
		data = data[r.Length:]
		m.written += r.Length
	}
	e.env.Count(layout.CounterReceiveFrame)
}

func (e *Engine[T]) lastFrame(who T, index int, immediate uint32) {
	v := &e.vis[index]
	m := v.message
	v.message = message{}
	if m.usesDescriptor() && !m.dropped {
		e.giveBack(who, index, completion{length: m.written, bits: m.bits, echo: m.echo(), immediate: immediate, hasImmediate: m.immediate})
	}
}

// endMessage ends an open message whose Last frame will not come. A read
// response ends with the read's descriptor, which the ledger has.
func (e *Engine[T]) endMessage(who T, index int, bits uint32) {
	v := &e.vis[index]
	m := v.message
	v.message = message{}
	if !m.open || m.dropped || m.empty || m.operation == layout.FrameOperationRDMAReadResponse {
		return
	}
	e.env.Count(layout.CounterReceiveAborted)
	if m.usesDescriptor() {
		e.giveBack(who, index, completion{length: m.written, bits: m.bits | bits, echo: m.echo()})
	} else {
		e.env.Async(who, layout.AsyncErrorRDMAWriteAbort, index)
	}
}
