// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"fmt"

	"hvia/host/mem"
	"hvia/layout"
)

// Segment is a piece of local memory.
type Segment struct {
	Address uint64
	Handle  MemHandle
	Length  uint32
}

// Segment returns the segment of n bytes from offset on.
func (r *Region) Segment(offset, n int) Segment {
	return Segment{Address: r.address + uint64(offset), Handle: r.handle, Length: uint32(n)}
}

// Descriptor is a view of a descriptor in registered memory: the setters write
// the memory that the NIC reads. A post gives Address and Handle to the NIC.
// While it is posted it belongs to the NIC.
type Descriptor struct {
	Address uint64
	Handle  MemHandle
	memory  layout.Descriptor
}

// DescriptorBytes is the size of a descriptor with one address and one data
// segment, or with two data segments. Every descriptor takes at least this.
const DescriptorBytes = layout.DescriptorFetchBytes

// The card reads descriptors in multiples of their alignment.
const _ = uint(-(DescriptorBytes % layout.DescriptorAlignment))

// DescriptorSize returns the bytes of memory of a descriptor with an address
// segment and the given number of data segments: a multiple of the alignment,
// at most 4,096 for MaxSegments.
func DescriptorSize(segments int) int {
	n := layout.DescriptorSize + layout.AddressSegmentSize + segments*layout.DataSegmentSize
	return (n + layout.DescriptorAlignment - 1) / layout.DescriptorAlignment * layout.DescriptorAlignment
}

// NewDescriptor returns a view of a descriptor in memory that was not
// registered through this library. For memory that was, use Region.Descriptor.
func NewDescriptor(memory []byte, address uint64, h MemHandle) *Descriptor {
	return &Descriptor{Address: address, Handle: h, memory: memory}
}

// Descriptor returns a view of a descriptor with an address segment and up to
// MaxSegments data segments. It takes DescriptorSize bytes at the offset, which
// must be a multiple of 64 bytes in virtual addresses.
func (r *Region) Descriptor(offset, segments int) (*Descriptor, error) {
	refuse := func(detail error) (*Descriptor, error) {
		return nil, fail("descriptor view", ErrInvalidParameter, detail)
	}
	if segments < 0 || segments > MaxSegments {
		return refuse(fmt.Errorf("%d data segments: give 0 to %d", segments, MaxSegments))
	}
	n, at := DescriptorSize(segments), r.address+uint64(offset)
	if offset < 0 || offset > len(r.bytes)-n || at%layout.DescriptorAlignment != 0 {
		return refuse(fmt.Errorf("%d bytes at %#x: want them inside the region of %d bytes at %#x, at a multiple of %d", n, at, len(r.bytes), r.address, layout.DescriptorAlignment))
	}
	return NewDescriptor(r.bytes[offset:offset+n:offset+n], at, r.handle), nil
}

// SetSend makes the descriptor a send of the segments' bytes, in order; without
// segments, of an empty message. If the segments exceed the descriptor's
// capacity, it returns ErrInvalidParameter and changes nothing.
func (d *Descriptor) SetSend(data ...Segment) error {
	return d.set("set send", layout.DescriptorOperationSend, 0, 0, data)
}

// SetReceive makes the descriptor a receive into the segments, in order.
// Errors are those of SetSend.
func (d *Descriptor) SetReceive(buffers ...Segment) error {
	return d.set("set receive", layout.DescriptorOperationSend, 0, 0, buffers)
}

// SetRDMAWrite makes the descriptor an RDMA write of the segments' bytes, in
// order, to a remote address. Errors are those of SetSend. The remote address
// occupies a segment; at least one remains for data.
func (d *Descriptor) SetRDMAWrite(remote uint64, handle MemHandle, data ...Segment) error {
	return d.set("set RDMA write", layout.DescriptorOperationRDMAWrite, remote, handle, data)
}

// SetRDMARead makes the descriptor an RDMA read from a remote address into the
// segments, in order. It needs a VI of a reliable level. Capacity and errors
// are those of SetRDMAWrite.
func (d *Descriptor) SetRDMARead(remote uint64, handle MemHandle, buffers ...Segment) error {
	return d.set("set RDMA read", layout.DescriptorOperationRDMARead, remote, handle, buffers)
}

// SetFence holds the descriptor, and those posted behind it, until the RDMA
// reads posted before it on the same queue are complete. The setters of
// operations clear it.
func (d *Descriptor) SetFence() {
	d.memory.SetControl(d.memory.Control() | layout.DescriptorControlQueueFenceMask)
}

// AttachImmediate adds immediate data to a send or an RDMA write, which then
// consumes a receive descriptor of the peer as a send does.
func (d *Descriptor) AttachImmediate(data uint32) {
	d.memory.SetControl(d.memory.Control() | layout.DescriptorControlImmediateMask)
	d.memory.SetImmediateData(data)
}

// leading returns the number of segments before the data.
func leading(o layout.DescriptorOperation) int {
	if o == layout.DescriptorOperationSend {
		return 0
	}
	return 1
}

func (d *Descriptor) set(op string, o layout.DescriptorOperation, remote uint64, handle MemHandle, data []Segment) error {
	room := (len(d.memory)-layout.DescriptorSize)/layout.DataSegmentSize - leading(o)
	sum := uint64(0)
	for _, s := range data {
		sum += uint64(s.Length)
	}
	if len(data) > min(room, MaxSegments) || sum > 1<<32-1 {
		return fail(op, ErrInvalidParameter, fmt.Errorf("%d data segments of %d bytes: the descriptor at %#x holds at most %d, of less than 4 GiB", len(data), sum, d.Address, min(room, MaxSegments)))
	}
	d.fill(o, remote, handle, uint32(sum), len(data))
	for i, s := range data {
		d.setData(leading(o)+i, s)
	}
	return nil
}

// fill sets all but links and data segments.
func (d *Descriptor) fill(o layout.DescriptorOperation, remote uint64, handle MemHandle, length uint32, segments int) {
	d.memory.SetSegmentCount(uint16(leading(o) + segments))
	d.memory.SetControl(uint16(o) << layout.DescriptorControlOperationLsb)
	clear(d.memory[layout.DescriptorReservedOffset:layout.DescriptorImmediateDataOffset])
	d.memory.SetImmediateData(0)
	d.memory.SetLength(length)
	d.memory.SetStatus(0)
	if leading(o) > 0 {
		a := layout.AddressSegment(d.memory[layout.DescriptorSize:])
		a.SetAddress(remote)
		a.SetHandle(uint32(handle))
		clear(a[layout.AddressSegmentReservedOffset:layout.AddressSegmentSize])
	}
}

// setData fills segment k. An address segment, if any, is segment 0.
func (d *Descriptor) setData(k int, s Segment) {
	b := layout.DataSegment(d.memory[layout.DescriptorSize+k*layout.DataSegmentSize:])
	b.SetAddress(s.Address)
	b.SetHandle(uint32(s.Handle))
	b.SetLength(s.Length)
}

// dataBytes returns the sum of the data segments in the view.
func (d *Descriptor) dataBytes() (sum uint64) {
	first := leading(d.operation())
	for k := first; k < int(d.memory.SegmentCount()); k++ {
		at := layout.DescriptorSize + k*layout.DataSegmentSize
		if at+layout.DataSegmentSize > len(d.memory) {
			break
		}
		sum += uint64(layout.DataSegment(d.memory[at:]).Length())
	}
	return sum
}

func (d *Descriptor) operation() layout.DescriptorOperation {
	return layout.DescriptorOperation(d.memory.Control() & layout.DescriptorControlOperationMask >> layout.DescriptorControlOperationLsb)
}

// Bytes returns the descriptor's memory, which layout.Descriptor decodes.
func (d *Descriptor) Bytes() []byte { return d.memory }

// Status returns the status word.
func (d *Descriptor) Status() DescriptorStatus {
	return DescriptorStatus(mem.LoadUint32(d.memory[layout.DescriptorStatusOffset:]))
}

// Length returns the bytes that a completed descriptor moved: on the send queue
// those given to the network or read from the peer, on the receive queue those
// written to memory, also by an RDMA write with immediate data.
func (d *Descriptor) Length() int { return int(d.memory.Length()) }

// Immediate returns the immediate data of a completed receive, and whether the
// message had any.
func (d *Descriptor) Immediate() (data uint32, ok bool) {
	return d.memory.ImmediateData(), d.Status()&layout.DescriptorStatusImmediateMask != 0
}
