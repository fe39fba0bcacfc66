// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"slices"

	"hvia/layout"
)

// frame is a piece of a message on the wire, with at most layout.MaxPayload
// bytes.
type frame struct {
	operation    layout.FrameOperation
	first, last  bool
	hasImmediate bool
	immediate    uint32
	length       uint32 // of the message, for a send
	address      uint64 // of the payload, for an RDMA write
	handle       uint32
	payload      []byte
}

// PostSend posts a descriptor on the send queue; it executes after those before
// it [VIA]. On a VI that is not connected it completes as flushed [vipl].
func (v *VI) PostSend(address uint64, handle uint32) error {
	if _, err := v.post(&v.send, address, handle); err != nil {
		return err
	}
	if v.attributes.reliable() {
		v.transmitReliably()
		return nil
	}
	for p := v.send.next(); p != nil && v.transmit(p); p = v.send.next() {
	}
	return nil
}

// transmit executes a descriptor of the send queue. It returns false if the
// provider stopped before its end.
func (v *VI) transmit(p *posted) bool {
	d, ok := v.host.read(p.address, p.handle, v.attributes.Tag)
	if !ok {
		v.unreachable(&v.send)
		v.flush() // the VI was already in the error state
		return true
	}
	if v.state != layout.VIStateConnected {
		// A flushed descriptor is not checked [card].
		v.complete(p, Completion{Status: done(flushed, d.echo())})
		return true
	}
	if bits := d.checkSend(v.attributes); bits != 0 {
		if !v.work.step() {
			return false
		}
		v.complete(p, Completion{Status: done(bits, d.echo())})
		return true
	}
	frames, bits, stopped := v.cut(d)
	for _, f := range frames {
		p.moved += uint32(len(f.payload))
	}
	peer := v.peer
	if !stopped {
		// With unreliable delivery a descriptor completes when the network has
		// its data [VIA]. Length counts the bytes of the frames sent [card].
		v.complete(p, Completion{Status: done(bits, d.echo()), Length: p.moved})
	}
	for _, f := range frames {
		if v.loses(v.frames) {
			peer.gap = true
		} else {
			peer.arrive(f)
		}
		v.frames++
	}
	return !stopped
}

// loses reports whether the wire loses a frame of the VI.
func (v *VI) loses(frame int) bool {
	f := v.host.fabric
	return f.Lose != nil && f.Lose(slices.Index(f.Hosts, v.host), frame)
}

// checkSend finds the errors that the provider detects before it sends
// anything: a malformed descriptor or a wrong length.
func (d *descriptor) checkSend(a Attributes) uint32 {
	remote := d.addressSegments() > 0
	switch op := d.operation(); {
	case d.malformed():
		return formatError
	case op == layout.DescriptorOperationReserved:
		return formatError // [VIA]
	case op == layout.DescriptorOperationRDMARead && (!a.reliable() || d.hasImmediate()):
		return formatError // [VIA], [transport]
	case remote && d.SegmentCount() == 0:
		return formatError // no address segment [VIA]
	case remote && binary.LittleEndian.Uint32(d.addressSegment()[layout.AddressSegmentReservedOffset:]) != 0:
		return formatError
	case !d.sumFits():
		return lengthError
	case remote && wraps(d.addressSegment().Address(), d.Length()):
		return formatError // the address space ends before
	case d.Length() > a.MaxTransferSize:
		return lengthError // [VIA]
	}
	return 0
}

// sumFits reports whether the segments add up to Length [VIA]. The provider
// checks this in advance only if the first chunk holds the complete descriptor
// [card].
func (d *descriptor) sumFits() bool {
	if int(d.SegmentCount()) > headSegments {
		return true
	}
	sum := uint64(0)
	for k := range d.dataSegments() {
		s, _ := d.segment(k) // in the first chunk, so it cannot fail
		sum += uint64(s.Length())
	}
	return sum == uint64(d.Length())
}

func wraps(address uint64, length uint32) bool {
	end := address + uint64(length)
	return end < address && end != 0
}

// cut splits a message into frames of the largest payload; the last may be
// shorter. A message of 0 bytes has one frame. An error ends the message after
// the complete frames, without a frame marked Last [card]. The limit of Stop
// ends it in the same way.
func (v *VI) cut(d *descriptor) (frames []frame, bits uint32, stopped bool) {
	segments := cursor{descriptor: d}
	for sent := uint32(0); ; {
		if !v.attributes.reliable() && !v.work.step() {
			return frames, 0, true
		}
		n := min(d.Length()-sent, layout.MaxPayload)
		payload, bits := segments.gather(int(n))
		last := sent+n == d.Length()
		if bits == 0 && last {
			var left bool
			if left, bits = segments.rest(); left {
				bits = lengthError
			}
		}
		if bits != 0 {
			return frames, bits, false
		}
		f := frame{
			operation: layout.FrameOperationSend, first: sent == 0, last: last, length: d.Length(), payload: payload,
			hasImmediate: d.hasImmediate(), immediate: d.ImmediateData(),
		}
		if d.operation() == layout.DescriptorOperationRDMAWrite {
			a := d.addressSegment()
			f.operation, f.address, f.handle = layout.FrameOperationRDMAWrite, a.Address()+uint64(sent), a.Handle()
		}
		frames = append(frames, f)
		if last {
			return frames, 0, false
		}
		sent += n
	}
}

// gather copies the next n bytes of the segments.
func (c *cursor) gather(n int) (payload []byte, bits uint32) {
	payload = make([]byte, 0, n)
	for len(payload) < n {
		piece, end, bits := c.next(uint64(n - len(payload)))
		switch {
		case bits != 0:
			return nil, bits
		case end:
			return nil, lengthError
		}
		payload = append(payload, piece...)
	}
	return payload, 0
}

// ownError returns the status of a descriptor with a local error behind one
// that broke a reliable connection, 0 if it has no error. The provider may have
// checked it before the flush [transport].
func (v *VI) ownError(d *descriptor) uint32 {
	bits := d.checkSend(v.attributes)
	if bits == 0 && d.operation() != layout.DescriptorOperationRDMARead {
		_, bits, _ = v.cut(d)
	}
	if bits == 0 {
		return 0
	}
	return done(bits, d.echo())
}

// flushSend flushes a descriptor of the send queue.
func (v *VI) flushSend(p *posted) {
	if _, ok := v.host.read(p.address, p.handle, v.attributes.Tag); !ok && !p.lost {
		v.unreachable(&v.send)
	}
	if p.outcome != nil {
		v.complete(p, *p.outcome) // it had finished, and waited for those before it [transport]
		return
	}
	c := Completion{Status: done(flushed, layout.StatusOperationSend), Length: p.moved}
	if b := v.host.Memory(p.address, chunkBytes); b != nil {
		// The provider or the library reads the operation from memory.
		d := &descriptor{Descriptor: b}
		c.Status = done(flushed, d.echo())
		if v.attributes.reliable() && !p.lost {
			c.Or = v.ownError(&descriptor{append(layout.Descriptor(nil), b...), p.address, p.handle, v.host, v.attributes.Tag})
		}
	}
	v.complete(p, c)
}
