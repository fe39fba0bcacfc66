// SPDX-License-Identifier: Apache-2.0

// Package att is the two-level address translation table of the card in plain
// Go: encoding and decoding of entries, translation, and the allocation of
// level-1 slots and level-2 space. The kernel agent allocates with it; the
// tests of the RTL use it as reference model.
//
// A region is a run of virtual addresses over pages anywhere in physical
// memory. Its level-1 entry holds the start address, the lengths in the first
// and last page, the rights, a protection tag and a generation; its level-2
// entries hold one physical page address each. A memory handle is the index of
// the level-1 entry and the generation expected there.
//
// A translation checks for errors in this order, and the card must report the
// same one:
//
//  1. ErrHandle: the index is at or above the limit, or the entry is not valid,
//     or has another generation
//  2. ErrCorrupt: the entry contradicts itself (see Entry.Check)
//  3. ErrTag: the region has another protection tag
//  4. ErrAccess: a remote write without the RDMA write right, or a remote read
//     without the RDMA read right
//  5. ErrBounds: a byte of the access lies outside the region
//
// An access of length 0 has no bounds and yields no address.
//
// Addresses and lengths are in bytes unless a name says otherwise.
package att

import (
	"errors"
	"fmt"

	"hvia/layout"
)

// PageSize is the size of a page in bytes.
const PageSize = layout.AttPageBytes

// Errors of translations. Errors of this package wrap one of them.
var (
	ErrHandle  = errors.New("no region has this handle")
	ErrCorrupt = errors.New("the table entry contradicts itself")
	ErrTag     = errors.New("the region has another protection tag")
	ErrAccess  = errors.New("the region lacks the right")
	ErrBounds  = errors.New("the access leaves the region")
)

// Code returns the card's code for an error of Translate.
func Code(err error) layout.AttError {
	switch {
	case err == nil:
		return layout.AttErrorNone
	case errors.Is(err, ErrHandle):
		return layout.AttErrorHandle
	case errors.Is(err, ErrTag):
		return layout.AttErrorTag
	case errors.Is(err, ErrAccess):
		return layout.AttErrorAccess
	case errors.Is(err, ErrBounds):
		return layout.AttErrorBounds
	}
	return layout.AttErrorBackend
}

// Handle names a registered region. No region has the zero Handle.
type Handle uint32

// MakeHandle joins a level-1 index (20 bits) and a generation (12 bits); bits
// beyond these are dropped.
func MakeHandle(index uint32, generation uint16) Handle {
	return Handle(index<<layout.AttHandleValueIndexLsb&layout.AttHandleValueIndexMask |
		uint32(generation)<<layout.AttHandleValueGenerationLsb&layout.AttHandleValueGenerationMask)
}

// Index returns the index of the level-1 entry.
func (h Handle) Index() uint32 {
	return uint32(h) & layout.AttHandleValueIndexMask >> layout.AttHandleValueIndexLsb
}

// Generation returns the generation that the entry must have.
func (h Handle) Generation() uint16 {
	return uint16(uint32(h) & layout.AttHandleValueGenerationMask >> layout.AttHandleValueGenerationLsb)
}

// String returns the handle in hexadecimal with its two parts.
func (h Handle) String() string {
	return fmt.Sprintf("%#08x (entry %d, generation %d)", uint32(h), h.Index(), h.Generation())
}

// Entry is a level-1 entry.
type Entry struct {
	Start         uint64 // virtual address of the first byte
	Level2Address uint32 // SDRAM byte address of the first level-2 entry
	Pages         uint32 // level-2 entries
	FirstBytes    uint16 // bytes of the region in its first page
	LastBytes     uint16 // bytes of the region in its last page
	Valid         bool
	RDMAWrite     bool // remote writes are allowed
	RDMARead      bool // remote reads are allowed
	Generation    uint16
	Tag           uint16 // protection tag
}

// Encode returns the entry as stored in SDRAM. Generation bits beyond 12 are
// dropped.
func (e Entry) Encode() layout.AttLevel1 {
	b := layout.AttLevel1(make([]byte, layout.AttLevel1Size))
	b.SetStartAddress(e.Start)
	b.SetLevel2Address(e.Level2Address)
	b.SetPageCount(e.Pages)
	b.SetFirstBytes(e.FirstBytes)
	b.SetLastBytes(e.LastBytes)
	attributes := uint32(e.Generation)<<layout.AttLevel1AttributesGenerationLsb&layout.AttLevel1AttributesGenerationMask |
		uint32(e.Tag)<<layout.AttLevel1AttributesTagLsb
	if e.Valid {
		attributes |= layout.AttLevel1AttributesValidMask
	}
	if e.RDMAWrite {
		attributes |= layout.AttLevel1AttributesRDMAWriteMask
	}
	if e.RDMARead {
		attributes |= layout.AttLevel1AttributesRDMAReadMask
	}
	b.SetAttributes(attributes)
	return b
}

// DecodeEntry reads an entry. Any bytes decode; Check verifies them. Fewer
// bytes than an entry are an error.
func DecodeEntry(b []byte) (Entry, error) {
	if len(b) < layout.AttLevel1Size {
		return Entry{}, fmt.Errorf("att: decode level-1 entry: got %d bytes, need %d", len(b), layout.AttLevel1Size)
	}
	v := layout.AttLevel1(b)
	a := v.Attributes()
	return Entry{
		Start:         v.StartAddress(),
		Level2Address: v.Level2Address(),
		Pages:         v.PageCount(),
		FirstBytes:    v.FirstBytes(),
		LastBytes:     v.LastBytes(),
		Valid:         a&layout.AttLevel1AttributesValidMask != 0,
		RDMAWrite:     a&layout.AttLevel1AttributesRDMAWriteMask != 0,
		RDMARead:      a&layout.AttLevel1AttributesRDMAReadMask != 0,
		Generation:    uint16(a & layout.AttLevel1AttributesGenerationMask >> layout.AttLevel1AttributesGenerationLsb),
		Tag:           uint16(a & layout.AttLevel1AttributesTagMask >> layout.AttLevel1AttributesTagLsb),
	}, nil
}

// Check returns an error that wraps ErrCorrupt if the entry cannot describe a
// region: its level-2 entries exceed the level-2 area, or the bytes in its
// first or last page are not 1 to 4096. It ignores the valid bit.
func (e Entry) Check() error {
	const area = uint64(layout.AttLevel2Base)
	switch {
	case uint64(e.Level2Address) < area || uint64(e.Level2Address) >= layout.AttSdramBytes || e.Level2Address%layout.AttLevel2Size != 0:
		return fmt.Errorf("level-2 address %#x: not a dword in [%#x, %#x): %w", e.Level2Address, area, layout.AttSdramBytes, ErrCorrupt)
	case e.Pages == 0 || uint64(e.Level2Address)+uint64(e.Pages)*layout.AttLevel2Size > layout.AttSdramBytes:
		return fmt.Errorf("%d pages from level-2 address %#x: want 1 or more that end by %#x: %w", e.Pages, e.Level2Address, layout.AttSdramBytes, ErrCorrupt)
	case e.FirstBytes == 0 || e.FirstBytes > PageSize:
		return fmt.Errorf("%d bytes in the first page: want 1 to %d: %w", e.FirstBytes, PageSize, ErrCorrupt)
	case e.LastBytes == 0 || e.LastBytes > PageSize:
		return fmt.Errorf("%d bytes in the last page: want 1 to %d: %w", e.LastBytes, PageSize, ErrCorrupt)
	}
	return nil
}

// Length returns the bytes of the region. The entry must pass Check.
func (e Entry) Length() uint64 {
	if e.Pages == 1 {
		return uint64(e.FirstBytes)
	}
	return uint64(e.FirstBytes) + uint64(e.Pages-2)*PageSize + uint64(e.LastBytes)
}

// Memory is the table's memory, read by dwords at SDRAM byte addresses that
// are multiples of 4 and below layout.AttSdramBytes.
type Memory interface {
	ReadDword(address uint32) uint32
}

// Level1Address returns the SDRAM byte address of a level-1 entry.
func Level1Address(index uint32) uint32 {
	return layout.AttLevel1Base + index*layout.AttLevel1Stride
}

// ReadEntry reads a level-1 entry.
func ReadEntry(m Memory, index uint32) Entry {
	var b [layout.AttLevel1Size]byte
	for i := 0; i < len(b); i += layout.AttLevel2Size {
		layout.AttLevel2(b[i:]).SetPage(m.ReadDword(Level1Address(index) + uint32(i)))
	}
	e, err := DecodeEntry(b[:])
	if err != nil {
		panic(err) // the array has the entry's size
	}
	return e
}

// Translation is the physical address of an access's first byte.
type Translation struct {
	Address uint32 // physical address
	Bytes   uint32 // bytes of the region from there to the end of the page, 1 to 4096
}

// Translate translates the access [va, va+length) through the table in m, which
// has limit entries. It checks all bytes of the access, and returns the address
// of the first. With length 0 it checks handle, tag and right, and the
// Translation is zero.
func Translate(m Memory, limit uint32, h Handle, va uint64, length uint32, tag uint16, access layout.AttAccess) (Translation, error) {
	fail := func(err error) (Translation, error) {
		return Translation{}, fmt.Errorf("att: translate %d bytes at %#x by handle %v: %w", length, va, h, err)
	}
	if h.Index() >= limit {
		return fail(ErrHandle)
	}
	e := ReadEntry(m, h.Index())
	if !e.Valid || e.Generation != h.Generation() {
		return fail(ErrHandle)
	}
	if err := e.Check(); err != nil {
		return fail(err)
	}
	if e.Tag != tag {
		return fail(ErrTag)
	}
	switch access {
	case layout.AttAccessLocal:
	case layout.AttAccessRemoteWrite:
		if !e.RDMAWrite {
			return fail(ErrAccess)
		}
	case layout.AttAccessRemoteRead:
		if !e.RDMARead {
			return fail(ErrAccess)
		}
	default:
		return fail(ErrAccess)
	}
	if length == 0 {
		return Translation{}, nil
	}
	if va < e.Start {
		return fail(ErrBounds)
	}
	off := va - e.Start
	if size := e.Length(); off >= size || uint64(length) > size-off {
		return fail(ErrBounds)
	}
	page, inPage, end := uint32(0), uint32(off), uint32(e.FirstBytes)
	if off >= uint64(e.FirstBytes) {
		behind := off - uint64(e.FirstBytes)
		page = uint32(behind/PageSize) + 1
		inPage = uint32(behind % PageSize)
		end = PageSize
		if page == e.Pages-1 {
			end = uint32(e.LastBytes)
		}
	}
	base := m.ReadDword(e.Level2Address + page*layout.AttLevel2Size)
	return Translation{Address: base + inPage, Bytes: end - inPage}, nil
}
