// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
)

// PageBytes is the size of a page of virtual memory and of a frame.
const PageBytes = layout.BridgeFrameBytes

// MaxAddress bounds physical addresses, which have 32 bits.
const MaxAddress = 1 << 32

const (
	blockFrames     = 16         // frames of a contiguous run
	openBlocks      = 64         // blocks over which single frames are scattered
	firstAddress    = 0x10000000 // first simulated virtual address of a node
	guardPages      = 1          // unmapped pages behind every buffer
	defaultMappings = 32000      // a Go process aborts at the kernel's limit of 65,530
	reservedFrames  = 1          // frame 0 is never allocated: a null address of a card must fault
	minMemoryFrames = 2 * blockFrames
)

// Budget counts the mappings that this process spends on scattered frames. The
// default is one per process because the kernel's limit is.
type Budget struct {
	used  atomic.Int64
	limit int64
}

// NewBudget returns a budget of limit mappings.
func NewBudget(limit int) *Budget { return &Budget{limit: int64(limit)} }

// Used returns the number of mappings in use.
func (b *Budget) Used() int { return int(b.used.Load()) }

func (b *Budget) take(n int) error {
	if used := b.used.Add(int64(n)); used > b.limit {
		b.used.Add(int64(-n))
		return fmt.Errorf("%d mappings needed, %d of %d are free (use runs or fewer buffers): %w",
			n, b.limit-(used-int64(n)), b.limit, host.ErrResource)
	}
	return nil
}

func (b *Budget) give(n int) { b.used.Add(int64(-n)) }

var processMappings = NewBudget(defaultMappings)

// FrameUse counts the uses of frames. *bridge.Memory implements it.
type FrameUse interface {
	Acquire(frame int, kind bridge.UseKind) error
	Release(frame int, kind bridge.UseKind) error
}

// Config describes the host memory of one node.
type Config struct {
	Fd     int      // sealed memory file
	Frames int      // frames of the memory
	First  int      // physical number of its first frame: 0 unless it is a part of the node's memory
	Skip   int      // frames in the file before the first
	View   []byte   // of a bank: the frames if already mapped; valid while the memory is in use
	Use    FrameUse // table shared with the simulator, by physical numbers
	Seed   uint64   // of the scatter order
	Budget *Budget  // nil: the process's common budget
}

// Memory allocates the host memory of one node. Consecutive pages of a buffer
// lie in scattered frames, so that the translation table has real work.
// Addresses and frames depend only on the seed and the order of calls. All
// methods are safe for concurrent use.
type Memory struct {
	fd     int
	frames int
	first  uint32 // physical number of frame 0 of this memory
	skip   uint32 // frames of the file before frame 0
	use    FrameUse
	budget *Budget
	bank   *bank // set if the memory is a bank

	mu      sync.Mutex
	random  host.SplitMix
	blocks  []uint16 // free frames of each block
	whole   []uint32 // stack of blocks with all frames free
	partly  []uint32 // blocks with some frames free
	place   []int32  // index of a block in partly; -1 if absent
	next    uint64   // next virtual address
	limit   uint64   // end of the virtual addresses
	buffers []*Buffer
	windows map[int][]pointer // revoked ranges by their pages
	closed  bool
	direct  []byte // all frames in order, as a kernel sees them; mapped on demand
}

// New takes over frames of a node. No frame may be in two Memories: both would
// allocate it.
func New(c Config) (*Memory, error) { return newFrames(c, reservedFrames) }

func newFrames(c Config, reserved int) (*Memory, error) {
	switch {
	case c.Frames < minMemoryFrames:
		return nil, fmt.Errorf("host: host memory of %d frames: at least %d are needed: %w", c.Frames, minMemoryFrames, host.ErrInvalidParameter)
	case c.First < 0 || c.Skip < 0 || uint64(c.First+c.Frames)*PageBytes > MaxAddress:
		return nil, fmt.Errorf("host: host memory of %d frames from frame %d on: does not fit 32-bit physical addresses: %w", c.Frames, c.First, host.ErrInvalidParameter)
	}
	m := &Memory{
		fd: c.Fd, frames: c.Frames / blockFrames * blockFrames, first: uint32(c.First), skip: uint32(c.Skip),
		use: c.Use, budget: c.Budget, random: host.SplitMix(c.Seed), next: firstAddress, limit: math.MaxUint64,
		windows: map[int][]pointer{},
	}
	if m.budget == nil {
		m.budget = processMappings
	}
	n := c.Frames / blockFrames
	m.blocks, m.place, m.whole = make([]uint16, n), make([]int32, n), make([]uint32, n)
	for i := range m.blocks {
		m.blocks[i], m.place[i], m.whole[i] = 1<<blockFrames-1, -1, uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := m.random.Below(i + 1)
		m.whole[i], m.whole[j] = m.whole[j], m.whole[i]
	}
	// Blocks with reserved frames are not in m.whole; the last may be partly
	// free.
	m.whole = slices.DeleteFunc(m.whole, func(b uint32) bool { return int(b)*blockFrames < reserved })
	for f := range reserved {
		m.blocks[f/blockFrames] &^= 1 << (f % blockFrames)
	}
	if reserved%blockFrames != 0 {
		m.addPartly(uint32(reserved / blockFrames))
	}
	return m, nil
}

func (m *Memory) addPartly(block uint32) {
	m.place[block] = int32(len(m.partly))
	m.partly = append(m.partly, block)
}

func (m *Memory) dropPartly(block uint32) {
	i, last := m.place[block], m.partly[len(m.partly)-1]
	m.partly[i], m.place[last] = last, i
	m.partly, m.place[block] = m.partly[:len(m.partly)-1], -1
}

func (m *Memory) popWhole() uint32 {
	b := m.whole[len(m.whole)-1]
	m.whole = m.whole[:len(m.whole)-1]
	return b
}

// takeBlock picks a block with all frames free, including one that was opened
// for single frames and is still untouched.
func (m *Memory) takeBlock() (uint32, bool) {
	if len(m.whole) > 0 {
		return m.popWhole(), true
	}
	for _, b := range m.partly {
		if m.blocks[b] == 1<<blockFrames-1 {
			m.dropPartly(b)
			return b, true
		}
	}
	return 0, false
}

// takeBlocks picks n consecutive blocks with all frames free.
func (m *Memory) takeBlocks(n int) (first uint32, ok bool) {
	run := 0
	for b := range m.blocks {
		if m.blocks[b] != 1<<blockFrames-1 {
			run = 0
			continue
		}
		if run++; run < n {
			continue
		}
		first = uint32(b - n + 1)
		for k := first; k <= uint32(b); k++ {
			if m.place[k] >= 0 {
				m.dropPartly(k)
			}
		}
		m.whole = slices.DeleteFunc(m.whole, func(k uint32) bool { return k >= first && k <= uint32(b) })
		return first, true
	}
	return 0, false
}

// useBlock gives a buffer at most the given number of frames of a taken block.
func (m *Memory) useBlock(b *Buffer, block uint32, frames int) {
	for i := range uint32(min(frames, blockFrames)) {
		b.frames = append(b.frames, block*blockFrames+i)
		m.blocks[block] &^= 1 << i
	}
	if m.blocks[block] != 0 {
		m.addPartly(block)
	}
}

// Frames returns the number of frames of the memory.
func (m *Memory) Frames() int { return m.frames }

// First returns the physical number of the first frame.
func (m *Memory) First() int { return int(m.first) }

// takeFrame picks a free frame, not the one behind previous if there is
// another.
func (m *Memory) takeFrame(previous int64) (uint32, bool) {
	if len(m.partly) < openBlocks && len(m.whole) > 0 {
		m.addPartly(m.popWhole())
	}
	if len(m.partly) == 0 {
		return 0, false
	}
	var frame uint32
	for range 8 { // avoid the next frame; a full memory may have no other
		block := m.partly[m.random.Below(len(m.partly))]
		mask := m.blocks[block]
		for range m.random.Below(bits.OnesCount16(mask)) {
			mask &= mask - 1
		}
		frame = block*blockFrames + uint32(bits.TrailingZeros16(mask))
		if int64(frame) != previous+1 {
			break
		}
	}
	block := frame / blockFrames
	m.blocks[block] &^= 1 << (frame % blockFrames)
	if m.blocks[block] == 0 {
		m.dropPartly(block)
	}
	return frame, true
}

func (m *Memory) giveFrame(frame uint32) {
	block := frame / blockFrames
	m.blocks[block] |= 1 << (frame % blockFrames)
	switch {
	case m.blocks[block] == 1<<blockFrames-1:
		if m.place[block] >= 0 {
			m.dropPartly(block)
		}
		m.whole = append(m.whole, block)
	case m.place[block] < 0:
		m.addPartly(block)
	}
}

// Buffer is a piece of host memory: contiguous in the node's virtual addresses
// and in its window in the Go process, scattered in frames.
type Buffer struct {
	memory  *Memory
	address uint64
	size    int
	bytes   []byte   // nil in another process's memory, unless the frames are consecutive
	frames  []uint32 // counted from the memory's first
	base    pointer
	span    int // number of its mappings
	pins    int // pinned uses of any of its frames
	freed   bool
}

// Address returns the simulated virtual address of the first byte, for
// descriptors and peers. It is page aligned and never reused; in a bank it is
// reused as late as possible.
func (b *Buffer) Address() uint64 { return b.address }

// Bytes returns the window, which is invalid after Free.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Freed reports whether Free has returned the frames.
func (b *Buffer) Freed() bool { return b.freed }

// Len returns the size in bytes.
func (b *Buffer) Len() int { return b.size }

// Scatter is the placement of a buffer in physical memory.
type Scatter int

// Placements of a buffer.
const (
	Single     Scatter = iota // every page in a separate frame
	Runs                      // runs of 16 consecutive frames: cheap to map, for large buffers
	Contiguous                // one run of consecutive frames, for data that a card reads at one physical address
)

// Allocate returns a zeroed buffer of n bytes, page aligned.
func (m *Memory) Allocate(n int, how Scatter) (*Buffer, error) {
	if n <= 0 {
		return nil, fmt.Errorf("host: allocate %d bytes: %w", n, host.ErrInvalidParameter)
	}
	pages := (n + PageBytes - 1) / PageBytes
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, fmt.Errorf("host: allocate %d bytes: host memory %w", n, host.ErrClosed)
	case m.blocks == nil:
		return nil, fmt.Errorf("host: allocate %d bytes: the kernel agent gives out this memory: %w", n, host.ErrInvalidParameter)
	}
	address, place, err := m.space(pages)
	if err != nil {
		return nil, fmt.Errorf("host: allocate %d bytes: %w", n, err)
	}
	b := &Buffer{memory: m, address: address, size: n, frames: make([]uint32, 0, pages)}
	switch {
	case m.bank != nil: // this process does not map it
	case how == Runs:
		b.span = (pages + blockFrames - 1) / blockFrames
	case how == Contiguous:
		b.span = 1
	default:
		b.span = pages
	}
	if err := m.budget.take(b.span); err != nil {
		return nil, fmt.Errorf("host: allocate %d bytes: %w", n, err)
	}
	if err := m.populate(b, pages, how); err != nil {
		for _, f := range b.frames {
			m.giveFrame(f)
		}
		m.budget.give(b.span)
		return nil, fmt.Errorf("host: allocate %d bytes: %w", n, err)
	}
	m.next = address + uint64(pages+guardPages)*PageBytes
	m.buffers = slices.Insert(m.buffers, place, b)
	return b, nil
}

// space finds virtual addresses for pages and the guard behind them, and the
// buffer's index among the others. Freed addresses are reused only after the
// end of the address space was reached.
func (m *Memory) space(pages int) (address uint64, place int, err error) {
	need := uint64(pages+guardPages) * PageBytes
	address = m.next
	place, _ = slices.BinarySearchFunc(m.buffers, address, func(b *Buffer, a uint64) int { return cmp.Compare(b.address, a) })
	for wrapped := false; ; {
		switch fits := need <= m.limit && address <= m.limit-need; {
		case fits && (place == len(m.buffers) || address+need <= m.buffers[place].address):
			return address, place, nil
		case fits:
			address = m.buffers[place].end()
			place++
		case wrapped:
			return 0, 0, fmt.Errorf("no %d pages of address space are free in one piece: %w", pages, host.ErrResource)
		default:
			wrapped, address, place = true, firstAddress, 0
		}
	}
}

func (b *Buffer) end() uint64 { return b.address + uint64(len(b.frames)+guardPages)*PageBytes }

func (m *Memory) populate(b *Buffer, pages int, how Scatter) error {
	switch how {
	case Runs:
		for need := pages; need > 0; need -= blockFrames {
			block, ok := m.takeBlock()
			if !ok {
				return fmt.Errorf("no run of %d frames is free: %w", blockFrames, host.ErrResource)
			}
			m.useBlock(b, block, need)
		}
	case Contiguous:
		first, ok := m.takeBlocks((pages + blockFrames - 1) / blockFrames)
		if !ok {
			return fmt.Errorf("no run of %d frames is free: %w", pages, host.ErrResource)
		}
		for need := pages; need > 0; need -= blockFrames {
			m.useBlock(b, first, need)
			first++
		}
	default:
		previous := int64(-2)
		for range pages {
			f, ok := m.takeFrame(previous)
			if !ok {
				return fmt.Errorf("all %d frames of the node are in use: %w", len(m.blocks)*blockFrames-reservedFrames, host.ErrResource)
			}
			b.frames = append(b.frames, f)
			previous = int64(f)
		}
	}
	if m.bank != nil {
		m.bank.show(b)
		return nil
	}
	if err := m.mapBuffer(b, how == Single); err != nil {
		return err
	}
	clear(bytesAt(b.base, pages*PageBytes))
	return nil
}

func (m *Memory) mapBuffer(b *Buffer, single bool) error {
	pages := len(b.frames)
	base, err := m.window(pages)
	if err != nil {
		return err
	}
	for i := 0; i < pages; {
		n := 1
		for !single && i+n < pages && b.frames[i+n] == b.frames[i]+uint32(n) {
			n++
		}
		if err := mapFrames(base, i, m.fd, m.skip+b.frames[i], n); err != nil {
			m.recycle(base, pages)
			return fmt.Errorf("%w: %w", err, host.ErrResource)
		}
		i += n
	}
	b.base = base
	b.bytes = bytesAt(base, pages*PageBytes)[:b.size:b.size]
	return nil
}

// window returns a reserved range with a guard page behind it.
func (m *Memory) window(pages int) (pointer, error) {
	if free := m.windows[pages]; len(free) > 0 {
		m.windows[pages] = free[:len(free)-1]
		return free[len(free)-1], nil
	}
	base, err := mapReserve(pages + guardPages)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, host.ErrResource)
	}
	return base, nil
}

// recycle revokes a range. If that fails, the range stays unused: it still
// shows frames, which is harmless.
func (m *Memory) recycle(base pointer, pages int) {
	if mapRevoke(base, pages) == nil {
		m.windows[pages] = append(m.windows[pages], base)
	}
}

// Free returns the frames. It fails with host.ErrInUse while a region or a ring
// uses one of them, because a card may still write there.
func (b *Buffer) Free() error {
	m := b.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case b.freed:
		return fmt.Errorf("host: free buffer at %#x: already freed: %w", b.address, host.ErrInvalidParameter)
	case b.pins > 0:
		return fmt.Errorf("host: free buffer at %#x: pinned %d times (deregister it first): %w", b.address, b.pins, host.ErrInUse)
	case m.blocks == nil:
		return fmt.Errorf("host: free buffer at %#x: the kernel agent gives out this memory: %w", b.address, host.ErrInvalidParameter)
	}
	m.drop(b)
	if m.bank != nil {
		m.bank.hide(b)
	}
	for _, f := range b.frames {
		m.giveFrame(f)
	}
	return nil
}

// drop removes a buffer and its window. The caller holds the lock.
func (m *Memory) drop(b *Buffer) {
	i, _ := m.find(b.address)
	m.buffers = slices.Delete(m.buffers, i, i+1)
	b.freed, b.bytes = true, nil
	if b.base != nil {
		m.recycle(b.base, len(b.frames))
	}
	m.budget.give(b.span)
}

// Close revokes all windows. Buffers and their bytes are invalid afterwards.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	for _, b := range m.buffers {
		if b.base != nil {
			// A failure is harmless: the range continues to show frames of a
			// file that nobody else reads.
			_ = mapRevoke(b.base, len(b.frames))
		}
		m.budget.give(b.span)
		b.freed, b.bytes = true, nil
	}
	m.buffers = nil
	m.unmapDirect()
	if m.bank != nil {
		m.bank.close()
	}
}

func (m *Memory) find(address uint64) (int, bool) {
	i, exact := slices.BinarySearchFunc(m.buffers, address, func(b *Buffer, a uint64) int {
		switch {
		case b.address < a:
			return -1
		case b.address > a:
			return 1
		}
		return 0
	})
	if exact {
		return i, true
	}
	if i == 0 {
		return 0, false
	}
	b := m.buffers[i-1]
	return i - 1, address-b.address < uint64(len(b.frames))*PageBytes
}

func (m *Memory) locate(address, n uint64) (*Buffer, error) {
	i, ok := m.find(address)
	if !ok || n > uint64(m.buffers[i].size) || address-m.buffers[i].address > uint64(m.buffers[i].size)-n {
		return nil, fmt.Errorf("[%#x, %#x) is not inside a buffer of this node: %w", address, address+n, host.ErrInvalidParameter)
	}
	return m.buffers[i], nil
}

// Buffer returns the buffer that starts at a virtual address.
func (m *Memory) Buffer(address uint64) (*Buffer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.find(address)
	if !ok || m.buffers[i].address != address {
		return nil, fmt.Errorf("host: no buffer begins at %#x: %w", address, host.ErrInvalidParameter)
	}
	return m.buffers[i], nil
}

// Window returns the bytes at a virtual address.
func (m *Memory) Window(address, n uint64) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.locate(address, n)
	if err != nil {
		return nil, fmt.Errorf("host: window: %w", err)
	}
	if b.bytes == nil {
		return nil, fmt.Errorf("host: window: [%#x, %#x) is memory of another process: %w", address, address+n, host.ErrInvalidParameter)
	}
	o := address - b.address
	return b.bytes[o : o+n : o+n], nil
}

// Range is a piece of physical memory inside one frame.
type Range = bridge.Range

// Physical appends the physical ranges of [address, address+n), one per page,
// to to.
func (m *Memory) Physical(to []Range, address, n uint64) ([]Range, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.locate(address, n)
	if err != nil {
		return to, fmt.Errorf("host: walk: %w", err)
	}
	return b.physical(to, address-b.address, n), nil
}

func (b *Buffer) physical(to []Range, offset, n uint64) []Range {
	for n > 0 {
		in := offset % PageBytes
		l := min(n, PageBytes-in)
		to = append(to, Range{Address: (b.memory.first+b.frames[offset/PageBytes])*PageBytes + uint32(in), Length: uint32(l)})
		offset, n = offset+l, n-l
	}
	return to
}

// Physical appends the physical ranges of n bytes from offset on to to.
func (b *Buffer) Physical(to []Range, offset, n int) []Range {
	if offset < 0 || n < 0 || offset+n > len(b.frames)*PageBytes {
		panic(fmt.Sprintf("host: physical ranges of bytes %d to %d of a buffer of %d bytes", offset, offset+n, b.size))
	}
	return b.physical(to, uint64(offset), uint64(n))
}

// Pin marks the frames of [address, address+n) as in use by a card and returns
// the page-aligned physical addresses of the pages, in order.
func (m *Memory) Pin(kind bridge.UseKind, address, n uint64) ([]uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case n == 0:
		return nil, fmt.Errorf("host: pin: length 0 at %#x: %w", address, host.ErrInvalidParameter)
	case m.use == nil:
		return nil, fmt.Errorf("host: pin [%#x, %#x): the kernel agent alone pins this memory: %w", address, address+n, host.ErrInvalidParameter)
	}
	b, err := m.locate(address, n)
	if err != nil {
		return nil, fmt.Errorf("host: pin: %w", err)
	}
	frames := b.framesOf(address, n)
	for i, f := range frames {
		if err := m.use.Acquire(int(m.first+f), kind); err != nil {
			for _, g := range frames[:i] {
				// It was just acquired, so this cannot fail.
				_ = m.use.Release(int(m.first+g), kind)
			}
			return nil, fmt.Errorf("host: pin [%#x, %#x): %w: %w", address, address+n, err, host.ErrResource)
		}
	}
	pages := make([]uint32, 0, len(frames))
	for _, f := range frames {
		pages = append(pages, (m.first+f)*PageBytes)
	}
	b.pins++
	return pages, nil
}

// Unpin reverts one Pin of the same kind and range. Call it after the card has
// released the range: the simulator faults any later access.
func (m *Memory) Unpin(kind bridge.UseKind, address, n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.locate(address, n)
	if err != nil {
		return fmt.Errorf("host: unpin: %w", err)
	}
	if n == 0 || b.pins == 0 || m.use == nil {
		return fmt.Errorf("host: unpin [%#x, %#x): not pinned: %w", address, address+n, host.ErrInvalidParameter)
	}
	frames := b.framesOf(address, n)
	for i, f := range frames {
		if err := m.use.Release(int(m.first+f), kind); err != nil {
			for _, g := range frames[:i] {
				_ = m.use.Acquire(int(m.first+g), kind)
			}
			return fmt.Errorf("host: unpin [%#x, %#x): %w: %w", address, address+n, err, host.ErrInvalidParameter)
		}
	}
	b.pins--
	return nil
}

func (b *Buffer) framesOf(address, n uint64) []uint32 {
	first, last := (address-b.address)/PageBytes, (address-b.address+n-1)/PageBytes
	return b.frames[first : last+1]
}

// Keep makes Free fail.
func (b *Buffer) Keep() { b.pins++ }
