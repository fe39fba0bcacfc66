// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"fmt"
	"strings"

	"hvia/layout"
)

// Error bits of a descriptor's status.
const (
	formatError         = layout.DescriptorStatusFormatErrorMask
	protectionError     = layout.DescriptorStatusProtectionErrorMask
	lengthError         = layout.DescriptorStatusLengthErrorMask
	partialError        = layout.DescriptorStatusPartialErrorMask
	flushed             = layout.DescriptorStatusFlushedMask
	rdmaProtectionError = layout.DescriptorStatusRDMAProtectionErrorMask
	transportError      = layout.DescriptorStatusTransportErrorMask
	remoteError         = layout.DescriptorStatusRemoteDescriptorErrorMask
)

// Completion is the result of a descriptor.
type Completion struct {
	Address   uint64 // of the descriptor
	Status    uint32 // the status word
	MaySet    uint32 // error bits that may be set besides Status
	Or        uint32 // another allowed status word, with Length 0; 0 = none
	Length    uint32 // bytes moved
	Immediate uint32 // valid if Status has the bit
}

// Allows reports whether a provider may complete the descriptor like this.
func (c Completion) Allows(status, length, immediate uint32) bool {
	if c.Or != 0 && status == c.Or && length == 0 {
		return true
	}
	return status|c.MaySet == c.Status|c.MaySet && status&c.Status == c.Status && length == c.Length &&
		(status&layout.DescriptorStatusImmediateMask == 0 || immediate == c.Immediate)
}

func (c Completion) String() string {
	s := fmt.Sprintf("descriptor at %#x: status %#x (%s), length %d", c.Address, c.Status, StatusText(c.Status), c.Length)
	if c.Status&layout.DescriptorStatusImmediateMask != 0 {
		s += fmt.Sprintf(", immediate %#x", c.Immediate)
	}
	if c.MaySet != 0 {
		s += fmt.Sprintf("; %#x (%s) may also be set", c.MaySet, StatusText(c.MaySet))
	}
	if c.Or != 0 {
		s += fmt.Sprintf("; or status %#x (%s)", c.Or, StatusText(c.Or))
	}
	return s
}

// StatusText returns the names of a status word's bits.
func StatusText(status uint32) string {
	var words []string
	for _, b := range []struct {
		mask uint32
		name string
	}{
		{layout.DescriptorStatusDoneMask, "Done"}, {formatError, "FormatError"}, {protectionError, "ProtectionError"}, {lengthError, "LengthError"},
		{partialError, "PartialError"}, {flushed, "Flushed"}, {transportError, "TransportError"},
		{rdmaProtectionError, "RDMAProtectionError"}, {remoteError, "RemoteDescriptorError"},
		{layout.DescriptorStatusImmediateMask, "Immediate"},
	} {
		if status&b.mask != 0 {
			words = append(words, b.name)
		}
	}
	echo := layout.StatusOperation(status & layout.DescriptorStatusOperationMask >> layout.DescriptorStatusOperationLsb)
	return strings.Join(append(words, echo.String()), " ")
}

// done returns the status word of a complete descriptor with these bits.
func done(bits uint32, echo layout.StatusOperation) uint32 {
	return layout.DescriptorStatusDoneMask | bits | uint32(echo)<<layout.DescriptorStatusOperationLsb
}

// A provider reads a descriptor in chunks of 64 bytes: the control segment with
// two segments, then four segments per chunk. Each chunk must lie in the region
// completely, even if it has unused segments [card].
const (
	chunkBytes         = layout.DescriptorFetchBytes
	headSegments       = (chunkBytes - layout.DescriptorSize) / layout.DataSegmentSize
	segmentsBeforeHead = chunkBytes/layout.DataSegmentSize - headSegments
	segmentsOfChunk    = chunkBytes / layout.DataSegmentSize
)

// descriptor is a descriptor that the provider has read.
type descriptor struct {
	layout.Descriptor // the first chunk, as the provider read it
	address           uint64
	handle            uint32
	host              *Host
	tag               uint16
}

// read reads the first chunk of a descriptor. It returns false if handle, tag,
// bounds or alignment are wrong.
func (h *Host) read(address uint64, handle uint32, tag uint16) (*descriptor, bool) {
	b, ok := h.access(handle, address, chunkBytes, tag, layout.AttAccessLocal)
	if !ok || address%layout.DescriptorAlignment != 0 {
		return nil, false
	}
	return &descriptor{append(layout.Descriptor(nil), b...), address, handle, h, tag}, true
}

func (d *descriptor) operation() layout.DescriptorOperation {
	return layout.DescriptorOperation(d.Control() & layout.DescriptorControlOperationMask >> layout.DescriptorControlOperationLsb)
}

func (d *descriptor) hasImmediate() bool {
	return d.Control()&layout.DescriptorControlImmediateMask != 0
}

// echo returns the operation field of the status [VIA].
func (d *descriptor) echo() layout.StatusOperation {
	switch d.operation() {
	case layout.DescriptorOperationRDMAWrite:
		return layout.StatusOperationRDMAWrite
	case layout.DescriptorOperationRDMARead:
		return layout.StatusOperationRDMARead
	}
	return layout.StatusOperationSend
}

// addressSegments returns the number of segments before the data segments.
// SegCount includes them [VIA].
func (d *descriptor) addressSegments() int {
	if d.operation() == layout.DescriptorOperationRDMAWrite || d.operation() == layout.DescriptorOperationRDMARead {
		return 1
	}
	return 0
}

func (d *descriptor) dataSegments() int { return int(d.SegmentCount()) - d.addressSegments() }

func (d *descriptor) addressSegment() layout.AddressSegment {
	return layout.AddressSegment(d.Descriptor[layout.DescriptorSize:])
}

// malformed checks what is common to both queues: reserved bits and fields must
// be 0, and the number of segments is limited [VIA].
func (d *descriptor) malformed() bool {
	return d.Control()&layout.DescriptorControlReservedMask != 0 ||
		binary.LittleEndian.Uint32(d.Descriptor[layout.DescriptorReservedOffset:]) != 0 ||
		d.dataSegments() > layout.MaxDataSegments
}

// segment returns a data segment, counted from 0. It returns false if the chunk
// of the segment cannot be read. The provider reads later chunks on demand,
// with the handle of the first.
func (d *descriptor) segment(k int) (layout.DataSegment, bool) {
	k += d.addressSegments()
	if k < headSegments {
		return layout.DataSegment(d.Descriptor[layout.DescriptorSize+k*layout.DataSegmentSize:]), true
	}
	chunk, place := (k+segmentsBeforeHead)/segmentsOfChunk, (k+segmentsBeforeHead)%segmentsOfChunk
	b, ok := d.host.access(d.handle, d.address+uint64(chunk*chunkBytes), chunkBytes, d.tag, layout.AttAccessLocal)
	if !ok {
		return nil, false
	}
	return layout.DataSegment(b[place*layout.DataSegmentSize:]), true
}

// cursor walks through the data segments of a descriptor.
type cursor struct {
	*descriptor
	index int    // of the segment
	at    uint64 // bytes of it already used
}

// next returns the memory of up to n bytes of one segment and advances. At the
// end of the segments it returns none. The provider checks the rest of a
// segment completely when it needs the first byte. It ignores empty segments
// [card].
func (c *cursor) next(n uint64) (piece []byte, end bool, bits uint32) {
	for {
		if c.index == c.dataSegments() {
			return nil, true, 0
		}
		s, ok := c.segment(c.index)
		if !ok {
			return nil, false, protectionError
		}
		left := uint64(s.Length()) - c.at
		if left == 0 {
			c.index, c.at = c.index+1, 0
			continue
		}
		b, ok := c.host.access(s.Handle(), s.Address()+c.at, left, c.tag, layout.AttAccessLocal)
		if !ok {
			return nil, false, protectionError
		}
		n = min(n, left)
		c.at += n
		return b[:n], false, 0
	}
}

// rest reports whether the segments have bytes left. It does not check their
// memory.
func (c *cursor) rest() (left bool, bits uint32) {
	for ; c.index < c.dataSegments(); c.index, c.at = c.index+1, 0 {
		s, ok := c.segment(c.index)
		if !ok {
			return false, protectionError
		}
		if uint64(s.Length()) > c.at {
			return true, 0
		}
	}
	return false, 0
}
