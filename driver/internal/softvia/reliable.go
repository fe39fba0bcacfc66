// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"bytes"
	"slices"

	"hvia/layout"
)

// The NAK of a connection, which the VI repeats for every later frame.
type nak struct {
	number uint32
	code   layout.AcknowledgeCode
}

// acknowledge sends an acknowledgement.
func (e *Engine[T]) acknowledge(who T, index int, number uint32, code layout.AcknowledgeCode) {
	e.vis[index].unsaid = 0
	e.env.Count(layout.CounterTransmitAcknowledge)
	_ = e.env.Emit(who, e.headers(index, frameHead{operation: layout.FrameOperationAcknowledge, sequence: number, immediate: uint32(code)}), nil, func(T) {})
}

// NAKs a frame of the peer and breaks the connection.
func (e *Engine[T]) reject(who T, index int, number uint32, code layout.AcknowledgeCode) {
	e.env.Count(layout.CounterNAKSent)
	e.vis[index].nak = &nak{number, code}
	e.acknowledge(who, index, number, code)
}

// arriveReliably takes a frame for a reliable VI. Acknowledgements have no
// sequence number; of other frames it accepts only the expected one.
func (e *Engine[T]) arriveReliably(who T, index int, operation layout.FrameOperation, frame []byte) {
	v := &e.vis[index]
	ethernet, h := layout.EthernetHeader(frame), layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	connected, acknowledgement := v.state == layout.VIStateConnected, operation == layout.FrameOperationAcknowledge
	if v.state == layout.VIStateFree || v.number(index) != h.DestinationVI() || v.ctx().PeerVI() != h.SourceVI() ||
		!bytes.Equal(v.ctx().PeerMac(), ethernet.Source()) || !connected && (v.nak == nil || acknowledgement) {
		e.env.Count(layout.CounterReceiveBadVI)
		return
	}
	switch {
	case acknowledgement && h.Immediate() > uint32(layout.AcknowledgeCodeTransport):
		e.env.Count(layout.CounterReceiveMalformed)
	case acknowledgement:
		e.env.Count(layout.CounterReceiveAcknowledge)
		e.acknowledged(who, index, h.Sequence(), layout.AcknowledgeCode(h.Immediate()))
	case v.nak != nil:
		e.env.Count(layout.CounterReceiveNAKed)
		e.acknowledge(who, index, v.nak.number, v.nak.code)
	case behind(v.expected, h.Sequence()):
		e.env.Count(layout.CounterReceiveOldSequence)
		v.alive()
		e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeOk)
	case behind(h.Sequence(), v.expected):
		e.env.Count(layout.CounterReceiveOutOfOrder)
		if !v.gap {
			v.gap = true
			v.alive()
			e.env.Count(layout.CounterReceiveGap)
			e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeGap)
		}
	case v.ledger.broken:
		e.env.Count(layout.CounterReceiveDropped)
	case operation == layout.FrameOperationRDMAReadRequest:
		e.readRequest(who, index, h)
	case operation == layout.FrameOperationRDMAReadResponse:
		e.readResponse(who, index, h, frame[layout.HeaderBytes:][:h.PayloadLength()])
	default:
		e.next(who, index, operation, h, frame[layout.HeaderBytes:][:h.PayloadLength()])
	}
}

// accept counts a frame as received and acknowledges it when an acknowledgement
// is due.
func (e *Engine[T]) accept(who T, index int, last bool) {
	v := &e.vis[index]
	v.expected++
	v.gap = false
	v.alive()
	if v.unsaid++; last || v.unsaid == acknowledgeEvery {
		e.acknowledge(who, index, v.expected, layout.AcknowledgeCodeOk)
	}
}

// contradict breaks the connection at a frame that has the expected number but
// does not continue its message.
func (e *Engine[T]) contradict(who T, index int, h layout.ViaHeader) {
	v := &e.vis[index]
	m := v.message
	v.message = message{}
	e.env.Count(layout.CounterReceiveNAKed)
	if m.open {
		e.env.Count(layout.CounterReceiveAborted)
		if m.usesDescriptor() {
			e.giveBack(who, index, completion{length: m.written, bits: layout.DescriptorStatusPartialErrorMask, echo: m.echo()})
		}
	}
	e.env.Async(who, layout.AsyncErrorConnectionLost, index)
	e.reject(who, index, h.Sequence(), layout.AcknowledgeCodeTransport)
}

func (e *Engine[T]) next(who T, index int, operation layout.FrameOperation, h layout.ViaHeader, data []byte) {
	v := &e.vis[index]
	m := &v.message
	first, last := h.Flags()&layout.ViaHeaderFlagsFirstMask != 0, h.Flags()&layout.ViaHeaderFlagsLastMask != 0
	immediate := h.Flags()&layout.ViaHeaderFlagsImmediateMask != 0
	if first == m.open || m.open && (m.operation != operation || m.immediate != immediate ||
		operation == layout.FrameOperationSend && (uint32(h.Address()>>32) != m.length || uint32(h.Address()) != m.received)) {
		e.contradict(who, index, h)
		return
	}
	if first {
		e.beginMessage(who, index, message{open: true, operation: operation, immediate: immediate, length: uint32(h.Address() >> 32)})
	}
	if m.empty {
		e.env.Count(layout.CounterReceiveQueueEmpty)
		v.message = message{}
		e.reject(who, index, h.Sequence(), layout.AcknowledgeCodeRemoteDescriptor)
		return
	}
	e.deliver(who, index, h, data)
	if m.bits == 0 && !m.dropped {
		if last {
			e.lastFrame(who, index, h.Immediate())
		}
		e.accept(who, index, last)
		return
	}
	code := layout.AcknowledgeCodeRemoteDescriptor
	if m.dropped || m.bits == layout.DescriptorStatusRDMAProtectionErrorMask {
		code = layout.AcknowledgeCodeRDMAProtection
	}
	if !m.dropped {
		e.lastFrame(who, index, h.Immediate())
		e.env.Async(who, layout.AsyncErrorConnectionLost, index)
	}
	v.message = message{}
	e.reject(who, index, h.Sequence(), code)
}

// readRequest takes the peer's read request, in order. The region is checked
// when the response is sent.
func (e *Engine[T]) readRequest(who T, index int, h layout.ViaHeader) {
	v := &e.vis[index]
	switch {
	case v.message.open || h.Flags() != layout.ViaHeaderFlagsFirstMask|layout.ViaHeaderFlagsLastMask || h.PayloadLength() > 0:
		e.contradict(who, index, h)
		return
	case v.ctx().Attributes()&layout.VIContextAttributesEnableRDMAReadMask == 0:
		e.env.Count(layout.CounterReceiveProtection)
		e.env.Async(who, layout.AsyncErrorRDMAReadProtection, index)
		e.reject(who, index, h.Sequence(), layout.AcknowledgeCodeRDMAProtection)
		return
	case len(v.ledger.answers) == ledgerResponses:
		e.env.Count(layout.CounterReceiveReadLimit)
		return
	}
	v.ledger.answers = append(v.ledger.answers, &entry{request: h.Sequence(), va: h.Address(), handle: h.Handle(), length: h.Immediate()})
	e.env.Count(layout.CounterReceiveFrame)
	e.accept(who, index, true)
	e.turn(who, index)
}

// readResponse takes a frame of the response to this side's oldest read, in
// order.
func (e *Engine[T]) readResponse(who T, index int, h layout.ViaHeader, data []byte) {
	v := &e.vis[index]
	m := &v.message
	first, last := h.Flags()&layout.ViaHeaderFlagsFirstMask != 0, h.Flags()&layout.ViaHeaderFlagsLastMask != 0
	i := slices.IndexFunc(v.ledger.own, func(r *entry) bool { return r.started && r.read() && !r.answered })
	if i < 0 || first == m.open || m.open && m.operation != layout.FrameOperationRDMAReadResponse {
		e.contradict(who, index, h)
		return
	}
	r := v.ledger.own[i]
	if first {
		*m = message{open: true, operation: layout.FrameOperationRDMAReadResponse, segment: r.body.firstData()}
	}
	received := uint64(m.received) + uint64(len(data))
	if h.Address() != uint64(r.length)<<32|uint64(m.received) || received > uint64(r.length) || last != (received == uint64(r.length)) {
		e.contradict(who, index, h)
		return
	}
	m.received = uint32(received)
	if r.stale {
		m.bits = layout.DescriptorStatusProtectionErrorMask
	} else {
		e.fill(who, m, &r.body, data)
	}
	if m.bits != 0 {
		e.env.Count(layout.CounterReceiveDescriptorError)
		r.bits = m.bits
		v.message = message{}
		e.reject(who, index, h.Sequence(), layout.AcknowledgeCodeTransport)
		e.turn(who, index)
		return
	}
	e.env.Count(layout.CounterReceiveFrame)
	if last {
		v.message = message{}
		r.answered = true
	}
	e.accept(who, index, last)
	e.progress(v)
	e.turn(who, index)
}
