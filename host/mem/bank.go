// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"cmp"
	"fmt"
	"slices"

	"hvia/host"
)

// A bank is the memory of one process of several: consecutive frames of its
// node. The agent allocates them and writes the process's page table, in the
// first frames of the bank; the library of the process maps what the table
// says. The agent never reads the table, so a process that writes to it harms
// only itself.
const (
	spacePages   = 4 // pages of address space for each frame of the bank
	pageEntry    = 4 // bytes of an entry of the page table
	pagePresent  = 1 // the other bits are the page's physical address
	minBankPages = 2 * blockFrames
)

func bankTable(frames int) int { return (frames*spacePages*pageEntry + PageBytes - 1) / PageBytes }

func spaceEnd(frames int) uint64 { return firstAddress + uint64(frames)*spacePages*PageBytes }

// bank is a bank as one side maps it: the agent maps all of it, the process
// only the table.
type bank struct {
	memory *Memory
	base   pointer
	pages  int
	bytes  []byte
	revoke bool // on close, revoke but keep the addresses: the program may have stale slices
}

func newBank(m *Memory, pages int, view []byte) (*bank, error) {
	if view != nil {
		if len(view) < pages*PageBytes {
			return nil, fmt.Errorf("a view of %d bytes: %w", len(view), host.ErrInvalidParameter)
		}
		return &bank{memory: m, pages: pages, bytes: view[:pages*PageBytes]}, nil
	}
	base, err := mapReserve(pages)
	if err == nil {
		err = mapFrames(base, 0, m.fd, m.skip, pages)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, host.ErrResource)
	}
	return &bank{memory: m, base: base, pages: pages, bytes: bytesAt(base, pages*PageBytes)}, nil
}

func (k *bank) close() {
	// A failure is harmless: the range still shows memory that nobody else
	// uses.
	switch {
	case k.base == nil: // the mapping belongs to the caller
	case k.revoke:
		_ = mapRevoke(k.base, k.pages)
	default:
		_ = mapRemove(k.base, k.pages)
	}
	k.bytes = nil
}

// NewBank takes over a bank for its agent: Allocate enters buffers into the
// page table. It maps the bank in one piece unless View is given. Buffers have
// Bytes only if they are Contiguous or small enough that their frames are
// consecutive.
func NewBank(c Config) (*Memory, error) {
	table := bankTable(c.Frames)
	if c.Frames < minBankPages || c.Frames <= table {
		return nil, fmt.Errorf("host: a bank of %d frames: at least %d are needed: %w", c.Frames, minBankPages, host.ErrInvalidParameter)
	}
	m, err := newFrames(c, table)
	if err != nil {
		return nil, err
	}
	m.limit = spaceEnd(c.Frames)
	if m.bank, err = newBank(m, c.Frames, c.View); err != nil {
		return nil, fmt.Errorf("host: map a bank of %d frames: %w", c.Frames, err)
	}
	return m, nil
}

func (k *bank) entry(address uint64, i int) []byte {
	page := int((address-firstAddress)/PageBytes) + i
	return k.bytes[page*pageEntry : (page+1)*pageEntry]
}

func (k *bank) show(b *Buffer) {
	follow := true
	for i, f := range b.frames {
		clear(k.bytes[int(f)*PageBytes : int(f+1)*PageBytes])
		StoreUint32(k.entry(b.address, i), (k.memory.first+f)*PageBytes|pagePresent)
		follow = follow && f == b.frames[0]+uint32(i)
	}
	if follow {
		at := int(b.frames[0]) * PageBytes
		b.bytes = k.bytes[at : at+b.size : at+b.size]
	}
}

func (k *bank) hide(b *Buffer) {
	for i := range b.frames {
		StoreUint32(k.entry(b.address, i), 0)
	}
}

// OpenBank opens the process's side of a bank: it allocates nothing, and maps
// what the page table says.
func OpenBank(c Config) (*Memory, error) {
	m := &Memory{
		fd: c.Fd, frames: c.Frames, first: uint32(c.First), skip: uint32(c.Skip), budget: c.Budget,
		windows: map[int][]pointer{}, limit: spaceEnd(c.Frames),
	}
	if m.budget == nil {
		m.budget = processMappings
	}
	var err error
	if m.bank, err = newBank(m, bankTable(c.Frames), nil); err != nil {
		return nil, fmt.Errorf("host: map the page table of a bank of %d frames: %w", c.Frames, err)
	}
	m.bank.revoke = true
	return m, nil
}

// Adopt maps a buffer that the agent has allocated.
func (m *Memory) Adopt(address uint64, n int) (*Buffer, error) {
	pages := (n + PageBytes - 1) / PageBytes
	m.mu.Lock()
	defer m.mu.Unlock()
	fail := func(err error) (*Buffer, error) {
		return nil, fmt.Errorf("host: map %d bytes at %#x: %w", n, address, err)
	}
	switch {
	case m.closed:
		return fail(fmt.Errorf("host memory %w", host.ErrClosed))
	case n <= 0 || address < firstAddress || address%PageBytes != 0 || address >= m.limit || uint64(pages)*PageBytes > m.limit-address:
		return fail(fmt.Errorf("not in the process's address space: %w", host.ErrInvalidParameter))
	}
	m.sweepLocked()
	b := &Buffer{memory: m, address: address, size: n, frames: make([]uint32, pages)}
	for i := range b.frames {
		e := LoadUint32(m.bank.entry(address, i))
		frame := int64(e/PageBytes) - int64(m.first)
		if e&pagePresent == 0 || frame < 0 || frame >= int64(m.frames) {
			return fail(fmt.Errorf("its page %d has entry %#x in the page table: %w", i, e, host.ErrInvalidParameter))
		}
		b.frames[i] = uint32(frame)
		if i == 0 || b.frames[i] != b.frames[i-1]+1 {
			b.span++
		}
	}
	if err := m.budget.take(b.span); err != nil {
		return fail(err)
	}
	if err := m.mapBuffer(b, false); err != nil {
		m.budget.give(b.span)
		return fail(err)
	}
	// The agent does not allocate an address twice, so an overlapping buffer
	// was freed.
	for i := 0; i < len(m.buffers); {
		if o := m.buffers[i]; o.address < b.end() && b.address < o.end() {
			m.drop(o)
		} else {
			i++
		}
	}
	place, _ := slices.BinarySearchFunc(m.buffers, address, func(b *Buffer, a uint64) int { return cmp.Compare(b.address, a) })
	m.buffers = slices.Insert(m.buffers, place, b)
	return b, nil
}

// Sweep drops buffers that the agent has freed.
func (m *Memory) Sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.sweepLocked()
	}
}

func (m *Memory) sweepLocked() {
	for i := 0; i < len(m.buffers); {
		b := m.buffers[i]
		if LoadUint32(m.bank.entry(b.address, 0)) == (m.first+b.frames[0])*PageBytes|pagePresent {
			i++
			continue
		}
		m.drop(b)
	}
}
