// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"slices"

	"hvia/layout"
)

// frame is a piece of a message on the wire, with at most layout.MaxPayload
// bytes of it.
type frame struct {
	operation    layout.FrameOperation
	first, last  bool
	hasImmediate bool
	immediate    uint32
	length       uint32 // of a send's message
	address      uint64 // at which an RDMA write's payload goes
	handle       uint32
	payload      []byte
}

// PostSend puts a descriptor on the send queue; it is carried out after those
// before it [VIA]. On a VI that is not connected it completes as flushed [vipl].
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

// transmit carries a descriptor of the send queue out; false if the provider
// was stopped before its end.
func (v *VI) transmit(p *posted) bool {
	d, ok := v.host.read(p.address, p.handle, v.attributes.Tag)
	if !ok {
		v.unreachable(&v.send)
		v.flush() // in the error state, in which nothing breaks down
		return true
	}
	if v.state != layout.VIStateConnected {
		// What is flushed was not looked at [card].
		v.complete(p, Completion{Status: done(flushed, d.echo())})
		return true
	}
	if bits := d.refusedForSend(v.attributes); bits != 0 {
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
		// With unreliable delivery a descriptor is complete when its data is with the
		// network [VIA]; Length counts the frames that left [card].
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

// loses says whether the wire loses a frame of the VI.
func (v *VI) loses(frame int) bool {
	f := v.host.fabric
	return f.Lose != nil && f.Lose(slices.Index(f.Hosts, v.host), frame)
}

// refusedForSend is what is found before anything is sent: malformed, or of a
// wrong length.
func (d *descriptor) refusedForSend(a Attributes) uint32 {
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
		return formatError // no memory is behind the last address
	case d.Length() > a.MaxTransferSize:
		return lengthError // [VIA]
	}
	return 0
}

// sumFits says whether the segments add up to Length [VIA]. It is known before
// anything is sent only if the whole descriptor is in its first chunk [card].
func (d *descriptor) sumFits() bool {
	if int(d.SegmentCount()) > headSegments {
		return true
	}
	sum := uint64(0)
	for k := range d.dataSegments() {
		s, _ := d.segment(k) // in the first chunk, which is here
		sum += uint64(s.Length())
	}
	return sum == uint64(d.Length())
}

func wraps(address uint64, length uint32) bool {
	end := address + uint64(length)
	return end < address && end != 0
}

// cut cuts a message into frames, each full but the last; a message of 0 bytes
// is one frame. An error that is found on the way ends it after the frames that
// were complete, and no frame with Last goes out [card]. So does Stop.
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

// ownError is the status of a descriptor with an error of its own, behind one that
// broke a reliable connection: it may have been looked at before it was flushed
// [transport]. 0 if it has none.
func (v *VI) ownError(d *descriptor) uint32 {
	bits := d.refusedForSend(v.attributes)
	if bits == 0 && d.operation() != layout.DescriptorOperationRDMARead {
		_, bits, _ = v.cut(d)
	}
	if bits == 0 {
		return 0
	}
	return done(bits, d.echo())
}

// flushSend completes a descriptor of the send queue that is not carried out to
// its end.
func (v *VI) flushSend(p *posted) {
	if _, ok := v.host.read(p.address, p.handle, v.attributes.Tag); !ok && !p.lost {
		v.unreachable(&v.send)
	}
	if p.outcome != nil {
		v.complete(p, *p.outcome) // it had ended, and waited for those before it [transport]
		return
	}
	c := Completion{Status: done(flushed, layout.StatusOperationSend), Length: p.moved}
	if b := v.host.Memory(p.address, chunkBytes); b != nil {
		// Who flushes it, provider or library, reads the operation in it.
		d := &descriptor{Descriptor: b}
		c.Status = done(flushed, d.echo())
		if v.attributes.reliable() && !p.lost {
			c.Or = v.ownError(&descriptor{append(layout.Descriptor(nil), b...), p.address, p.handle, v.host, v.attributes.Tag})
		}
	}
	v.complete(p, c)
}
