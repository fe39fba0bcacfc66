// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bytes"

	"hvia/layout"
)

// message is a message that is being received.
type message struct {
	open      bool // its Last frame has not come
	empty     bool // there is no descriptor for it, which its first frame tells
	dropped   bool // nothing of it is wanted any more
	operation layout.FrameOperation
	immediate bool
	length    uint32 // of a send, as its first frame says
	received  uint32 // bytes in its frames so far
	written   uint32 // bytes in memory
	bits      uint32 // errors so far
	segment   int    // that the next byte goes to
	offset    uint32 // in it
}

// usesDescriptor says whether the message takes a receive descriptor.
func (m *message) usesDescriptor() bool {
	return m.operation == layout.FrameOperationSend || m.immediate
}

func (m *message) echo() layout.StatusOperation {
	if m.operation == layout.FrameOperationSend {
		return layout.StatusOperationReceive
	}
	return layout.StatusOperationRemoteRdmaWrite
}

// arrive takes a frame from the wire.
func (c *Card) arrive(frame []byte) {
	e := layout.EthernetHeader(frame)
	if c.regs[layout.RegisterControlOffset]&layout.RegisterControlEnableMask == 0 || !bytes.Equal(e.Destination(), c.mac()) {
		return
	}
	if e.EtherType() != layout.EtherTypeVia {
		c.stored = append(c.stored, frame)
		c.rawReceive()
		return
	}
	h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	index := int(h.DestinationVi() & 0xff)
	v := &c.vis[index]
	switch {
	case v.state != layout.ViStateConnected, v.number(index) != h.DestinationVi(), v.ctx().PeerVi() != h.SourceVi(), !bytes.Equal(v.ctx().PeerMac(), e.Source()):
		c.count(layout.CounterReceiveBadVi)
		return
	case int32(h.Sequence()-v.expected) < 0:
		c.count(layout.CounterReceiveOldSequence)
		return
	}
	operation := layout.FrameOperation(h.OperationVersion() & layout.ViaHeaderOperationVersionOperationMask >> layout.ViaHeaderOperationVersionOperationLsb)
	if operation != layout.FrameOperationSend && operation != layout.FrameOperationRdmaWrite {
		c.count(layout.CounterReceiveUnsupported)
		return
	}
	if h.Sequence() != v.expected {
		c.count(layout.CounterReceiveGap)
		c.endMessage(index, layout.DescriptorStatusPartialErrorMask)
	}
	v.expected = h.Sequence() + 1
	immediate := h.Flags()&layout.ViaHeaderFlagsImmediateMask != 0
	if h.Flags()&layout.ViaHeaderFlagsFirstMask != 0 {
		c.endMessage(index, layout.DescriptorStatusPartialErrorMask)
		c.beginMessage(index, message{open: true, operation: operation, immediate: immediate, length: uint32(h.Address() >> 32)})
	}
	m := &v.message
	// The rest of a message that does not fit what came of it is taken for another one's.
	if m.open && (m.operation != operation || m.immediate != immediate ||
		operation == layout.FrameOperationSend && (uint32(h.Address()>>32) != m.length || uint32(h.Address()) != m.received)) {
		c.endMessage(index, layout.DescriptorStatusPartialErrorMask)
	}
	switch {
	case m.empty:
		c.count(layout.CounterReceiveQueueEmpty)
		m.empty, m.dropped = false, true
	case !m.open || m.dropped:
		c.count(layout.CounterReceiveDropped)
	default:
		c.deliver(index, h, frame[layout.HeaderBytes:][:h.PayloadLength()])
	}
	if m.open && h.Flags()&layout.ViaHeaderFlagsLastMask != 0 {
		c.lastFrame(index, h.Immediate())
	}
}

// beginMessage finds the receive descriptor of a message that needs one. One
// that was posted and is not on the chip yet is waited for, which takes no time here.
func (c *Card) beginMessage(index int, m message) {
	v := &c.vis[index]
	if m.usesDescriptor() {
		if !v.head.valid && v.queues[receiveQueue].count > 0 {
			c.fetchReceive(index)
		}
		if v.head.valid {
			c.count(layout.CounterReceiveMessage)
			m.bits = v.head.bits
		} else {
			c.async(layout.AsyncErrorReceiveQueueEmpty, index)
			m.empty = true
		}
	}
	v.message = m
}

// deliver stores the payload of a frame.
func (c *Card) deliver(index int, h layout.ViaHeader, data []byte) {
	m := &c.vis[index].message
	m.received += uint32(len(data))
	switch {
	case m.bits != 0:
		c.count(layout.CounterReceiveDescriptorError)
	case m.operation == layout.FrameOperationSend:
		c.scatter(index, data)
	default:
		c.remoteWrite(index, h, data)
	}
}

// scatter stores bytes of a send where the receive descriptor wants them.
func (c *Card) scatter(index int, data []byte) {
	v := &c.vis[index]
	m, d := &v.message, &v.head.body
	for len(data) > 0 && m.bits == 0 {
		if m.segment == int(d.control.SegmentCount()) || m.written == d.control.Length() {
			m.bits = layout.DescriptorStatusLengthErrorMask
			break
		}
		s, ok := d.segment(m.segment)
		if !ok {
			m.bits = layout.DescriptorStatusProtectionErrorMask
			break
		}
		if m.offset == s.Length() {
			m.segment, m.offset = m.segment+1, 0
			continue
		}
		pa, ok := c.translate(s.Handle(), s.Address()+uint64(m.offset), s.Length()-m.offset, d.tag, layout.AttAccessLocal)
		if !ok {
			m.bits = layout.DescriptorStatusProtectionErrorMask
			break
		}
		for _, r := range pa {
			n := min(r.Length, uint32(len(data)), d.control.Length()-m.written)
			c.store(r.Address, data[:n])
			data, m.offset, m.written = data[n:], m.offset+n, m.written+n
		}
	}
	switch m.bits {
	case 0:
		c.count(layout.CounterReceiveFrame)
	case layout.DescriptorStatusLengthErrorMask:
		c.count(layout.CounterReceiveLength)
	default:
		c.count(layout.CounterReceiveDescriptorError)
	}
}

// remoteWrite stores bytes of an RDMA write where the peer wants them.
func (c *Card) remoteWrite(index int, h layout.ViaHeader, data []byte) {
	v := &c.vis[index]
	m := &v.message
	pa, ok := c.translate(h.Handle(), h.Address(), uint32(len(data)), v.tag(), layout.AttAccessRemoteWrite)
	if !ok || v.ctx().Attributes()&layout.ViContextAttributesEnableRdmaWriteMask == 0 {
		c.count(layout.CounterReceiveProtection)
		if m.immediate {
			m.bits = layout.DescriptorStatusRdmaProtectionErrorMask
		} else {
			m.dropped = true
			c.async(layout.AsyncErrorRdmaWriteProtection, index)
		}
		return
	}
	for _, r := range pa {
		c.store(r.Address, data[:r.Length])
		data = data[r.Length:]
		m.written += r.Length
	}
	c.count(layout.CounterReceiveFrame)
}

// lastFrame ends a message as it should.
func (c *Card) lastFrame(index int, immediate uint32) {
	v := &c.vis[index]
	m := v.message
	v.message = message{}
	if m.usesDescriptor() && !m.dropped {
		c.giveBack(index, completion{length: m.written, bits: m.bits, echo: m.echo(), immediate: immediate, hasImmediate: m.immediate})
	}
}

// endMessage ends a message whose Last frame will not come, if there is one.
func (c *Card) endMessage(index int, bits uint32) {
	v := &c.vis[index]
	m := v.message
	v.message = message{}
	if !m.open || m.dropped || m.empty {
		return
	}
	c.count(layout.CounterReceiveAborted)
	if m.usesDescriptor() {
		c.giveBack(index, completion{length: m.written, bits: m.bits | bits, echo: m.echo()})
	} else {
		c.async(layout.AsyncErrorRdmaWriteAbort, index)
	}
}
