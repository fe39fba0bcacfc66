// SPDX-License-Identifier: Apache-2.0

package att

import (
	"errors"
	"fmt"

	"hvia/layout"
)

// Errors of registration.
var (
	ErrBadRegion = errors.New("the region cannot be registered")
	ErrNoSlot    = errors.New("every level-1 entry is in use")
	ErrNoLevel2  = errors.New("no space for the region's level-2 entries")
)

// maxGeneration is the largest generation. 0 is unused, so that no handle is 0.
const maxGeneration = layout.AttHandleValueGenerationMask >> layout.AttHandleValueGenerationLsb

// Region describes a region for Register.
type Region struct {
	Start     uint64   // virtual address of the first byte
	Length    uint64   // bytes, at least 1
	Pages     []uint32 // physical addresses of the region's pages, in order, page aligned
	Tag       uint16   // protection tag
	RDMAWrite bool     // remote writes are allowed
	RDMARead  bool     // remote reads are allowed
}

// Registration is what the caller writes to the card: first Level2 from
// Entry.Level2Address on, then Entry at the handle's index.
type Registration struct {
	Handle Handle
	Entry  Entry
	Level2 []uint32
}

// slot is the state of a level-1 entry.
type slot struct {
	generation uint16
	state      slotState
	level2     uint32 // first level-2 entry, counted from the area's start
	pages      uint32
}

type slotState uint8

const (
	slotFree slotState = iota
	slotValid
	slotRetired // no longer translates; not yet reusable
)

// Table allocates level-1 entries and level-2 space and holds an image of the
// table's memory. It is not safe for concurrent use.
//
// A region's life is Register, Invalidate, Release. Between the last two the
// card may still be dropping its copies. Release makes the entry, under a new
// generation, and the level-2 space available again.
type Table struct {
	image  Image
	limit  uint32
	slots  []slot   // entries used so far
	free   []uint32 // released entries, oldest first
	level2 extents
	valid  int
}

// NewTable returns an empty table of limit level-1 entries (1 to
// layout.AttLevel1Count).
func NewTable(limit uint32) (*Table, error) { return NewSmallTable(limit, layout.AttLevel2Count) }

// NewSmallTable returns an empty table with memory for the given number of
// level-2 entries (1 to layout.AttLevel2Count).
func NewSmallTable(limit, level2 uint32) (*Table, error) {
	if limit == 0 || limit > layout.AttLevel1Count {
		return nil, fmt.Errorf("att: new table of %d entries: want 1 to %d", limit, layout.AttLevel1Count)
	}
	if level2 == 0 || level2 > layout.AttLevel2Count {
		return nil, fmt.Errorf("att: new table with %d level-2 entries: want 1 to %d", level2, layout.AttLevel2Count)
	}
	return &Table{limit: limit, level2: newExtents(level2)}, nil
}

// Limit returns the number of level-1 entries.
func (t *Table) Limit() uint32 { return t.limit }

// Len returns the number of regions that translate.
func (t *Table) Len() int { return t.valid }

// Memory returns the image of the table's memory. It changes with the table.
func (t *Table) Memory() *Image { return &t.image }

// PagesOf returns the number of pages touched by length bytes from start on.
func PagesOf(start, length uint64) uint64 {
	if length == 0 {
		return 0
	}
	return (start%PageSize+length-1)/PageSize + 1
}

func (r Region) check() error {
	switch {
	case r.Length == 0:
		return fmt.Errorf("length 0: %w", ErrBadRegion)
	case r.Start+(r.Length-1) < r.Start:
		return fmt.Errorf("%#x bytes from %#x leave the address space: %w", r.Length, r.Start, ErrBadRegion)
	case r.Length > layout.AttLevel2Count*PageSize:
		return fmt.Errorf("%#x bytes are more than the level-2 area can map: %w", r.Length, ErrBadRegion)
	case uint64(len(r.Pages)) != PagesOf(r.Start, r.Length):
		return fmt.Errorf("%#x bytes from %#x touch %d pages, %d given: %w", r.Length, r.Start, PagesOf(r.Start, r.Length), len(r.Pages), ErrBadRegion)
	}
	for i, p := range r.Pages {
		if p%PageSize != 0 {
			return fmt.Errorf("page %d at %#x is not page aligned: %w", i, p, ErrBadRegion)
		}
	}
	return nil
}

// Register allocates an entry and level-2 space for a region and writes both to
// the image. An error changes nothing.
func (t *Table) Register(r Region) (Registration, error) {
	fail := func(err error) (Registration, error) {
		return Registration{}, fmt.Errorf("att: register %#x bytes at %#x: %w", r.Length, r.Start, err)
	}
	if err := r.check(); err != nil {
		return fail(err)
	}
	if len(t.free) == 0 && uint32(len(t.slots)) == t.limit {
		return fail(fmt.Errorf("%d in use: %w", t.limit, ErrNoSlot))
	}
	pages := uint32(len(r.Pages))
	first, ok := t.level2.allocate(pages)
	if !ok {
		return fail(fmt.Errorf("%d entries wanted: %w", pages, ErrNoLevel2))
	}
	var index uint32
	if uint32(len(t.slots)) < t.limit {
		// Fresh entries first: an entry is reused as late as possible.
		index = uint32(len(t.slots))
		t.slots = append(t.slots, slot{})
	} else {
		index = t.free[0]
		t.free = t.free[1:]
	}
	s := &t.slots[index]
	if s.generation++; s.generation > maxGeneration {
		s.generation = 1
	}
	s.state, s.level2, s.pages = slotValid, first, pages

	head := r.Start % PageSize
	reg := Registration{
		Handle: MakeHandle(index, s.generation),
		Entry: Entry{
			Start:         r.Start,
			Level2Address: layout.AttLevel2Base + first*layout.AttLevel2Size,
			Pages:         pages,
			FirstBytes:    uint16(min(PageSize-head, r.Length)),
			Valid:         true,
			RDMAWrite:     r.RDMAWrite,
			RDMARead:      r.RDMARead,
			Generation:    s.generation,
			Tag:           r.Tag,
		},
		Level2: append([]uint32(nil), r.Pages...),
	}
	reg.Entry.LastBytes = reg.Entry.FirstBytes
	if pages > 1 {
		reg.Entry.LastBytes = uint16((head+r.Length-1)%PageSize + 1)
	}
	reg.Level2[0] += uint32(head)
	t.image.WriteDwords(reg.Entry.Level2Address, reg.Level2)
	t.image.WriteEntry(index, reg.Entry)
	t.valid++
	return reg, nil
}

// Modify changes a region's tag and rights under the same handle and returns
// the new entry. The level-2 entries stay. Before the call, the caller must
// have the card drop its cached copies of the entry.
func (t *Table) Modify(h Handle, tag uint16, write, read bool) (Registration, error) {
	if _, err := t.slot(h, slotValid); err != nil {
		return Registration{}, fmt.Errorf("att: modify handle %v: %w", h, err)
	}
	e := ReadEntry(&t.image, h.Index())
	e.Tag, e.RDMAWrite, e.RDMARead = tag, write, read
	t.image.WriteEntry(h.Index(), e)
	return Registration{Handle: h, Entry: e}, nil
}

// Invalidate ends the region's translations. Its entry and level-2 space stay
// allocated until Release.
func (t *Table) Invalidate(h Handle) error {
	s, err := t.slot(h, slotValid)
	if err != nil {
		return fmt.Errorf("att: invalidate handle %v: %w", h, err)
	}
	s.state = slotRetired
	e := ReadEntry(&t.image, h.Index())
	e.Valid = false
	t.image.WriteEntry(h.Index(), e)
	t.valid--
	return nil
}

// Release frees an invalidated region's entry and level-2 space. The card must
// have finished its invalidation.
func (t *Table) Release(h Handle) error {
	s, err := t.slot(h, slotRetired)
	if err != nil {
		return fmt.Errorf("att: release handle %v: %w", h, err)
	}
	s.state = slotFree
	t.level2.release(s.level2, s.pages)
	t.free = append(t.free, h.Index())
	return nil
}

// Deregister is Invalidate and Release, for callers without a card.
func (t *Table) Deregister(h Handle) error {
	if err := t.Invalidate(h); err != nil {
		return err
	}
	return t.Release(h)
}

func (t *Table) slot(h Handle, want slotState) (*slot, error) {
	if h.Index() >= uint32(len(t.slots)) {
		return nil, ErrHandle
	}
	s := &t.slots[h.Index()]
	if s.generation != h.Generation() || s.state != want {
		return nil, ErrHandle
	}
	return s, nil
}

// Translate is the function Translate on the image.
func (t *Table) Translate(h Handle, va uint64, length uint32, tag uint16, access layout.AttAccess) (Translation, error) {
	return Translate(&t.image, t.limit, h, va, length, tag, access)
}

// Image is a sparse copy of the table's memory; unwritten dwords read 0. The
// zero Image is ready to use.
type Image struct {
	blocks map[uint32]*[imageBlock]uint32
}

const imageBlock = 1024 // dwords

// ReadDword returns the dword at an SDRAM byte address.
func (m *Image) ReadDword(address uint32) uint32 {
	b := m.blocks[address/(4*imageBlock)]
	if b == nil {
		return 0
	}
	return b[address/4%imageBlock]
}

// WriteDwords stores dwords from an SDRAM byte address on.
func (m *Image) WriteDwords(address uint32, values []uint32) {
	if m.blocks == nil {
		m.blocks = map[uint32]*[imageBlock]uint32{}
	}
	for i, v := range values {
		a := address + uint32(i)*4
		b := m.blocks[a/(4*imageBlock)]
		if b == nil {
			b = new([imageBlock]uint32)
			m.blocks[a/(4*imageBlock)] = b
		}
		b[a/4%imageBlock] = v
	}
}

// WriteEntry stores a level-1 entry.
func (m *Image) WriteEntry(index uint32, e Entry) {
	m.WriteDwords(Level1Address(index), e.Dwords())
}

// Dwords returns the encoded entry as dwords in SDRAM.
func (e Entry) Dwords() []uint32 {
	b := e.Encode()
	d := make([]uint32, len(b)/layout.AttLevel2Size)
	for i := range d {
		d[i] = layout.AttLevel2(b[i*layout.AttLevel2Size:]).Page()
	}
	return d
}
