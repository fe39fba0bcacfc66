// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

const (
	memoryBytes = 16 << 20
	pageBytes   = layout.AttPageBytes
	ringLog2    = 4
	ringEntries = 1 << ringLog2
	queueSlots  = pageBytes / layout.DescriptorFetchBytes
	regionLimit = 1024 // level-1 entries that the card is configured for
	level2Pages = 64   // of level 2 in host memory

	lookEvery = 100 * host.Nanosecond
	// The card has AsyncErrorSlots error slots, and takes about 2.5 us for a
	// frame.
	errorsEvery = 5 * host.Microsecond
	patience    = 60 * host.Millisecond // simulated; twice the longest wait of a passing test
)

// machine is a node without an operating system: its thread, its physical
// memory, its card, and the model's view of them.
type machine struct {
	thread *host.Thread
	memory *bridge.Memory
	random *rand.Rand
	mac    [6]byte

	memo    []byte   // real host memory in physical order
	want    []byte   // expected content
	free    []uint32 // frames, in random order
	using   map[uint32]bridge.UseKind
	counts  map[layout.Counter]uint32
	inexact []layout.Counter
	errors  []asyncError // not read yet
	noted   uint32       // asynchronous errors since reset

	command, list    uint32
	level1, level2At uint32             // of a table in host memory
	regions          map[uint32]*region // by index
	generations      [regionLimit]uint16
	level2           uint32 // next free entry
	transmitLog2     uint32 // entries of the transmit ring
	vis              map[uint8]*vi

	transmit, receive rawRing
}

type asyncError struct {
	code layout.AsyncError
	vi   uint8
}

// rawRing is a ring of the raw port: its base, the next entry for software to
// fill, and the filled ones that the card has not returned.
type rawRing struct {
	base    uint32
	tail    int
	filled  []rawBuffer
	buffers []uint32 // a frame of memory for each entry
}

type rawBuffer struct {
	entry    int
	address  uint32
	capacity int
}

// region is registered memory: consecutive virtual addresses over frames
// anywhere in memory.
type region struct {
	m         *machine
	index     uint32
	handle    uint32
	address   uint64 // of the first byte
	length    int
	offset    int // of the first byte in its page
	frames    []uint32
	tag       uint16
	writable  bool
	readable  bool // by RDMA read
	withdrawn bool
}

func newMachine(thread *host.Thread, memory *bridge.Memory, random *rand.Rand, transmitLog2 uint32, keep ...uint32) *machine {
	m := &machine{
		thread: thread, memory: memory, random: random, mac: [6]byte{2, 0x48, 0x56, 0x49, 0x41, byte(thread.ID().Node)},
		memo: memory.Linear(), using: map[uint32]bridge.UseKind{}, transmitLog2: transmitLog2,
	}
	// Random bytes make every wrong store visible.
	for i := 0; i < len(m.memo); i += 8 {
		binary.LittleEndian.PutUint64(m.memo[i:], random.Uint64())
	}
	m.want = bytes.Clone(m.memo)
	for f := 1; f < memory.Frames; f++ { // not at address 0, which a forgotten field would contain
		if !slices.Contains(keep, uint32(f)) {
			m.free = append(m.free, uint32(f))
		}
	}
	random.Shuffle(len(m.free), func(i, j int) { m.free[i], m.free[j] = m.free[j], m.free[i] })
	m.forget()
	return m
}

// forget resets the model of a card.
func (m *machine) forget() {
	m.counts, m.errors, m.noted = map[layout.Counter]uint32{}, nil, 0
	m.regions, m.vis = map[uint32]*region{}, map[uint8]*vi{}
	m.transmit, m.receive = rawRing{}, rawRing{}
	m.level2, m.level1, m.level2At = 0, 0, 0
}

func (m *machine) check(err error) {
	if err != nil {
		fail("node %d: %w", m.thread.ID().Node, err)
	}
}

func (m *machine) fail(format string, values ...any) {
	fail("node %d at %v: "+format, append([]any{m.thread.ID().Node, m.thread.Now()}, values...)...)
}

func (m *machine) read(offset uint32) uint32 {
	v, err := m.thread.Read(layout.PciBar0Base + offset)
	m.check(err)
	return v
}

func (m *machine) write(offset uint32, values ...uint32) {
	m.check(m.thread.Write(layout.PciBar0Base+offset, values...))
}

func (m *machine) sleep(span host.Time) { m.check(m.thread.Sleep(span)) }

// take allocates a frame of memory for the card's use.
func (m *machine) take(kind bridge.UseKind) uint32 {
	if len(m.free) == 0 {
		m.fail("out of memory")
	}
	f := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	m.check(m.memory.Acquire(int(f), kind))
	m.using[f] = kind
	return f
}

// takeRun allocates consecutive frames and returns their address.
func (m *machine) takeRun(pages uint32, kind bridge.UseKind) uint32 {
	free := slices.Sorted(slices.Values(m.free))
	for i := 0; i+int(pages) <= len(free); i++ {
		if free[i+int(pages)-1]-free[i] != pages-1 {
			continue
		}
		for f := free[i]; f < free[i]+pages; f++ {
			m.check(m.memory.Acquire(int(f), kind))
			m.using[f] = kind
		}
		m.free = slices.DeleteFunc(m.free, func(f uint32) bool { return f-free[i] < pages })
		return free[i] * pageBytes
	}
	m.fail("no %d frames that follow each other are free", pages)
	return 0
}

// tabulate expects the writes of a command to a table in host memory.
func (m *machine) tabulate(c layout.Command) {
	if m.level1 == 0 {
		return
	}
	attributes := func(index uint32) uint32 {
		return m.level1 + index*layout.AttLevel1Stride + layout.AttLevel1AttributesOffset
	}
	switch op := layout.CommandOpcode(c.Opcode()); op {
	case layout.CommandOpcodeInitialiseAtt:
		for i := range c.Index() {
			m.expectWord(attributes(i), 0)
		}
	case layout.CommandOpcodeWriteLevel2, layout.CommandOpcodeRegisterMemory:
		at := m.level2At + c.Level2Address() - layout.AttLevel2Base
		n := c.ListCount() * layout.AttLevel2Size
		if at+n > m.level2At+level2Pages*pageBytes {
			m.fail("the test's table has no space for %d level-2 entries at %#x", c.ListCount(), c.Level2Address())
		}
		m.expect(at, m.want[c.ListAddress():c.ListAddress()+n])
		if op == layout.CommandOpcodeRegisterMemory {
			m.expect(m.level1+c.Index()*layout.AttLevel1Stride, c.Payload()[:layout.AttLevel1Size])
		}
	case layout.CommandOpcodeDeregisterMemory:
		at := attributes(c.Handle() & layout.AttHandleValueIndexMask)
		m.expectWord(at, binary.LittleEndian.Uint32(m.want[at:])&^layout.AttLevel1AttributesValidMask)
	}
}

// give frees a frame. From then on any access of the card ends the run. The
// frame's next user finds other bytes in it.
func (m *machine) give(f uint32) {
	m.check(m.memory.Release(int(f), m.using[f]))
	delete(m.using, f)
	junk := make([]byte, pageBytes)
	for i := range junk {
		junk[i] = byte(m.random.Uint32())
	}
	m.put(f*pageBytes, junk)
	m.free = slices.Insert(m.free, m.random.IntN(len(m.free)+1), f)
}

func (m *machine) put(address uint32, b []byte) {
	copy(m.memo[address:], b)
	copy(m.want[address:], b)
}

func (m *machine) putWord(address, v uint32) {
	mem.StoreUint32(m.memo[address:], v)
	binary.LittleEndian.PutUint32(m.want[address:], v)
}

// expect predicts a store by the card.
func (m *machine) expect(address uint32, b []byte) { copy(m.want[address:], b) }

// expect predicts a store by the card into a region.
func (g *region) expect(offset int, b []byte) {
	g.pieces(offset, len(b), func(address uint32, at, n int) { g.m.expect(address, b[at:at+n]) })
}

func (m *machine) expectWord(address, v uint32) { binary.LittleEndian.PutUint32(m.want[address:], v) }

// await waits until a word of memory satisfies a condition.
func (m *machine) await(what string, address uint32, cond func(v uint32) bool) uint32 {
	word := m.memo[address : address+4]
	ok, err := m.thread.Poll(host.Poll{Ranges: []mem.Range{{Address: address, Length: 4}}, Period: lookEvery, Timeout: patience},
		func() bool { return cond(mem.LoadUint32(word)) })
	m.check(err)
	if !ok {
		m.fail("%s: the word at %#x is %#x after %v", what, address, mem.LoadUint32(word), patience)
	}
	return mem.LoadUint32(word)
}

// start brings up a card after a reset.
func (m *machine) start() {
	m.awaitReady()
	m.command, m.list = m.take(bridge.UseRing)*pageBytes, m.take(bridge.UseRing)*pageBytes
	m.write(layout.RegisterMacLowOffset, binary.LittleEndian.Uint32(m.mac[:]), uint32(binary.LittleEndian.Uint16(m.mac[4:])))
	if m.read(layout.RegisterCapabilityOffset)&layout.RegisterCapabilityTableInHostMemoryMask != 0 {
		m.level1 = m.takeRun(regionLimit*layout.AttLevel1Stride/pageBytes, bridge.UseRing)
		m.level2At = m.takeRun(level2Pages, bridge.UseRing)
		m.write(layout.RegisterAttHostLevel1Offset, m.level1, m.level2At)
	}
	m.do(layout.CommandOpcodeInitialiseAtt, layout.CommandStatusDone, func(c layout.Command) { c.SetIndex(regionLimit) })
	for _, r := range []struct {
		ring *rawRing
		base uint32
		log2 uint32
	}{{&m.transmit, layout.RegisterRawTransmitBaseOffset, m.transmitLog2}, {&m.receive, layout.RegisterRawReceiveBaseOffset, ringLog2}} {
		r.ring.base = m.take(bridge.UseRing) * pageBytes
		for range 1 << r.log2 {
			r.ring.buffers = append(r.ring.buffers, m.take(bridge.UseRing)*pageBytes)
		}
		m.write(r.base, r.ring.base, r.log2)
	}
	m.write(layout.RegisterControlOffset, layout.RegisterControlEnableMask)
}

func (m *machine) awaitReady() {
	for begin := m.thread.Now(); m.read(layout.RegisterStateOffset)&layout.RegisterStateReadyMask == 0; m.sleep(host.Microsecond) {
		if m.thread.Now() > begin+patience {
			m.fail("the card is not ready after %v: State is %#x", patience, m.read(layout.RegisterStateOffset))
		}
	}
}

// reset resets the card, and takes all memory from it when it reports the end
// of the reset.
func (m *machine) reset() { m.resetWith(func() {}) }

// resetWith calls look before it takes the memory.
func (m *machine) resetWith(look func()) {
	m.quench()
	look()
	m.strip()
}

func (m *machine) quench() {
	m.write(layout.RegisterControlOffset, layout.RegisterControlSoftResetMask)
	for begin := m.thread.Now(); m.read(layout.RegisterControlOffset)&layout.RegisterControlSoftResetMask != 0; m.sleep(host.Microsecond / 4) {
		if m.thread.Now() > begin+patience {
			m.fail("the card is still in reset after %v", patience)
		}
	}
	if v := m.read(layout.RegisterControlOffset); v != 0 {
		m.fail("Control is %#x after a reset", v)
	}
}

// resetBus resets the card by RST#, and calls look in the same instant. From
// then on the card accesses no memory. It returns when the card is configured
// again.
func (m *machine) resetBus(span host.Time, look func()) {
	m.check(m.thread.ResetBus(span))
	look()
	m.strip()
	for begin := m.thread.Now(); m.read(layout.RegisterIDOffset) != layout.CardID; m.sleep(host.Microsecond) {
		if m.thread.Now() > begin+patience {
			m.fail("the card is not back on the bus after %v", patience)
		}
	}
}

// strip takes all memory from a card after a reset.
func (m *machine) strip() {
	for _, f := range slices.Sorted(maps.Keys(m.using)) {
		m.give(f)
	}
	m.forget()
}

// do makes the card execute a command, which must end with the given status,
// and returns the command's detail.
func (m *machine) do(op layout.CommandOpcode, end layout.CommandStatus, fill func(layout.Command)) uint32 {
	c := layout.Command(make([]byte, layout.CommandSize))
	c.SetOpcode(uint32(op))
	if fill != nil {
		fill(c)
	}
	m.put(m.command, c)
	m.write(layout.RegisterCommandAddressOffset, m.command)
	status := m.await("command "+op.String(), m.command+layout.CommandStatusOffset, func(v uint32) bool { return v != uint32(layout.CommandStatusPending) })
	detail := binary.LittleEndian.Uint32(m.memo[m.command+layout.CommandDetailOffset:])
	if layout.CommandStatus(status) != end {
		m.fail("command %v ended with %v, want %v", op, layout.CommandStatus(status), end)
	}
	m.expectWord(m.command+layout.CommandDetailOffset, detail) // checked by the caller
	m.expectWord(m.command+layout.CommandStatusOffset, status)
	if end == layout.CommandStatusDone {
		m.tabulate(c)
		m.counts[layout.CounterCommand]++
	} else {
		m.counts[layout.CounterCommandError]++
	}
	return detail
}

// layOut allocates the memory of a region of the given length that starts at an
// offset in its first page. The virtual address is random, including the high
// bits.
func (m *machine) layOut(offset, length int, tag uint16, writable bool) *region {
	g := &region{m: m, length: length, offset: offset, tag: tag, writable: writable}
	for n := 0; n < offset+length; n += pageBytes {
		g.frames = append(g.frames, m.take(bridge.UseRegion))
	}
	g.address = m.random.Uint64()&^(pageBytes-1)&^(1<<63) + uint64(offset)
	return g
}

func (m *machine) register(offset, length int, tag uint16, writable bool) *region {
	g := m.layOut(offset, length, tag, writable)
	m.enter(g)
	return g
}

func (m *machine) enter(g *region) {
	for g.index = m.random.Uint32N(regionLimit); m.regions[g.index] != nil; {
		g.index = (g.index + 1) % regionLimit
	}
	m.generations[g.index] += uint16(1 + m.random.IntN(3))
	generation := m.generations[g.index] & 0xfff
	if g.index == 0 && generation == 0 {
		generation, m.generations[0] = 1, 1
	}
	g.handle = uint32(generation)<<layout.AttHandleValueGenerationLsb | g.index
	first, last := min(pageBytes-g.offset, g.length), (g.offset+g.length-1)%pageBytes+1
	if len(g.frames) == 1 {
		last = first
	}
	for i, f := range g.frames {
		page := f * pageBytes
		if i == 0 {
			page += uint32(g.offset)
		}
		m.putWord(m.list+4*uint32(i), page)
	}
	m.do(layout.CommandOpcodeRegisterMemory, layout.CommandStatusDone, func(c layout.Command) {
		c.SetIndex(g.index)
		c.SetHandle(g.handle)
		c.SetListAddress(m.list)
		c.SetListCount(uint32(len(g.frames)))
		c.SetLevel2Address(layout.AttLevel2Base + 4*m.level2)
		e := layout.AttLevel1(c.Payload())
		e.SetStartAddress(g.address)
		e.SetLevel2Address(layout.AttLevel2Base + 4*m.level2)
		e.SetPageCount(uint32(len(g.frames)))
		e.SetFirstBytes(uint16(first))
		e.SetLastBytes(uint16(last))
		attributes := uint32(layout.AttLevel1AttributesValidMask) | uint32(generation)<<layout.AttLevel1AttributesGenerationLsb |
			uint32(g.tag)<<layout.AttLevel1AttributesTagLsb
		if g.writable {
			attributes |= layout.AttLevel1AttributesRDMAWriteMask
		}
		if g.readable {
			attributes |= layout.AttLevel1AttributesRDMAReadMask
		}
		e.SetAttributes(attributes)
	})
	m.level2 += uint32(len(g.frames) + m.random.IntN(3))
	m.regions[g.index] = g
}

// withdraw deregisters a region, and frees its frames in the instant in which
// the card reports that it no longer uses them.
func (m *machine) withdraw(g *region) {
	m.do(layout.CommandOpcodeDeregisterMemory, layout.CommandStatusDone, func(c layout.Command) {
		c.SetIndex(g.index)
		c.SetHandle(g.handle)
	})
	delete(m.regions, g.index)
	g.withdrawn = true
	for _, v := range m.vis {
		if v.head != nil && v.head.queue == g {
			v.head.stale = true
		}
	}
}

func (m *machine) release(g *region) {
	for _, f := range g.frames {
		m.give(f)
	}
}

// pieces calls do with the physical pieces of n bytes from offset on.
func (g *region) pieces(offset, n int, do func(address uint32, at, n int)) {
	for at := 0; at < n; {
		in := g.offset + offset + at
		k := min(n-at, pageBytes-in%pageBytes)
		do(g.frames[in/pageBytes]*pageBytes+uint32(in%pageBytes), at, k)
		at += k
	}
}

func (g *region) fill(offset int, b []byte) {
	g.pieces(offset, len(b), func(address uint32, at, n int) { g.m.put(address, b[at:at+n]) })
}

// bytes reads the actual content of a region.
func (g *region) bytes(offset, n int) []byte {
	b := make([]byte, n)
	g.pieces(offset, n, func(address uint32, at, n int) { copy(b[at:at+n], g.m.memo[address:]) })
	return b
}

// adopt makes the actual content of a part of a region the expected one, after
// the test has checked it.
func (g *region) adopt(offset, n int) {
	g.pieces(offset, n, func(address uint32, _, n int) { copy(g.m.want[address:], g.m.memo[address:address+uint32(n)]) })
}

func (g *region) scramble() {
	b := make([]byte, g.length)
	for i := range b {
		b[i] = byte(g.m.random.Uint32())
	}
	g.fill(0, b)
}

// awaitQuiet waits until the card is idle. Its reads do not keep the card busy.
func (m *machine) awaitQuiet() {
	for begin := m.thread.Now(); m.read(layout.RegisterStateOffset)&layout.RegisterStateQuietMask == 0; m.sleep(host.Microsecond) {
		if m.thread.Now() > begin+patience {
			m.fail("the card is not quiet after %v", patience)
		}
	}
}

func (m *machine) verifyMemory() {
	if bytes.Equal(m.memo, m.want) {
		return
	}
	i := 0
	for m.memo[i] == m.want[i] {
		i++
	}
	n := 0
	for j := range m.memo {
		if m.memo[j] != m.want[j] {
			n++
		}
	}
	owner := "nobody's"
	for _, g := range m.regions {
		if slices.Contains(g.frames, uint32(i/pageBytes)) {
			owner = "a region's"
		}
	}
	m.fail("%d bytes of memory are wrong, the first at %#x (%s frame): %#x, want %#x", n, i, owner, m.memo[i], m.want[i])
}

func (m *machine) verifyErrors() {
	if len(m.errors) > layout.AsyncErrorSlots {
		m.fail("the test let %d asynchronous errors pile up", len(m.errors))
	}
	m.takeErrors(0)
}

// takeErrors takes exactly the asynchronous errors that the model predicts.
// They may come up to `within` later, in any order, because they come from
// several engines.
func (m *machine) takeErrors(within host.Time) {
	want, got := map[asyncError]int{}, map[asyncError]int{}
	for _, e := range m.errors {
		want[e]++
	}
	m.noted += uint32(len(m.errors))
	m.errors = nil
	for end := m.thread.Now() + within; ; {
		v := m.read(layout.RegisterAsyncErrorInfoOffset)
		if n := v >> layout.RegisterAsyncErrorInfoCountLsb; n != m.noted&0x3fff && m.thread.Now() >= end {
			m.fail("%d asynchronous errors, want %d (of the last ones %v, want %v)", n, m.noted, got, want)
		}
		if v&layout.RegisterAsyncErrorInfoOverflowMask != 0 {
			m.fail("asynchronous errors overflowed: %#x", v)
		}
		if v&layout.RegisterAsyncErrorInfoValidMask == 0 {
			if v>>layout.RegisterAsyncErrorInfoCountLsb == m.noted&0x3fff {
				break
			}
			m.sleep(errorsEvery)
			continue
		}
		got[asyncError{layout.AsyncError(v & layout.RegisterAsyncErrorInfoCodeMask), uint8(v >> layout.RegisterAsyncErrorInfoVILsb)}]++
	}
	for e, n := range want {
		if got[e] != n {
			m.fail("asynchronous error %v of VI %d came %d times, want %d", e.code, e.vi, got[e], n)
		}
	}
}

// exact are the counters that the model predicts, except those that a test
// excludes (inexact).
var exact = []layout.Counter{
	layout.CounterDoorbellSend, layout.CounterDoorbellReceive, layout.CounterDoorbellMalformed, layout.CounterDoorbellOverrun,
	layout.CounterDescriptorFetched, layout.CounterDescriptorBad, layout.CounterDescriptorFlushed, layout.CounterDescriptorError,
	layout.CounterTransmitMessage, layout.CounterTransmitFrame, layout.CounterTransmitAborted,
	layout.CounterCompletionWritten, layout.CounterCompletionError, layout.CounterMacTransmitFrame, layout.CounterMacReceiveFrame,
	layout.CounterMacReceiveBad, layout.CounterMacReceiveLong, layout.CounterMacReceiveOverrun,
	layout.CounterReceiveFrame, layout.CounterReceiveNotForUs, layout.CounterReceiveMalformed, layout.CounterReceiveBadVI,
	layout.CounterReceiveOldSequence, layout.CounterReceiveGap, layout.CounterReceiveProtection, layout.CounterReceiveBusError,
	layout.CounterReceiveAborted, layout.CounterReceiveUnsupported, layout.CounterReceiveQueueEmpty, layout.CounterReceiveDropped,
	layout.CounterReceiveLength, layout.CounterReceiveDescriptorError, layout.CounterReceiveMessage, layout.CounterCompletionReceive,
	layout.CounterReceiveReadLimit, layout.CounterReceiveOutOfOrder, layout.CounterReceiveNAKed,
	layout.CounterMacBusError, layout.CounterRawTransmit, layout.CounterRawReceive,
	layout.CounterRawReceiveDropped, layout.CounterRawTransmitError, layout.CounterRawReceiveError,
	layout.CounterCommand, layout.CounterCommandError, layout.CounterCommandIgnored,
	layout.CounterCompletionQueueEntry, layout.CounterCompletionQueueOverrun,
	layout.CounterPciMasterAbort, layout.CounterPciParityError,
}

func (m *machine) counter(c layout.Counter) uint32 { return m.read(layout.CounterBase + 4*uint32(c)) }

func (m *machine) verifyCounters() {
	for _, c := range exact {
		if slices.Contains(m.inexact, c) {
			continue
		}
		if got := m.counter(c); got != m.counts[c] {
			m.fail("counter %v is %d, want %d", c, got, m.counts[c])
		}
	}
	m.verifySum()
}

// fates are the possible fates of a frame taken from the MAC.
var fates = []layout.Counter{
	layout.CounterReceiveNotForUs, layout.CounterRawReceive, layout.CounterRawReceiveDropped, layout.CounterRawReceiveError,
	layout.CounterReceiveMalformed, layout.CounterReceiveBadVI, layout.CounterReceiveOldSequence, layout.CounterReceiveUnsupported,
	layout.CounterReceiveDropped, layout.CounterReceiveQueueEmpty, layout.CounterReceiveLength, layout.CounterReceiveDescriptorError,
	layout.CounterReceiveProtection, layout.CounterReceiveBusError, layout.CounterReceiveReadLimit, layout.CounterReceiveOutOfOrder,
	layout.CounterReceiveAcknowledge, layout.CounterReceiveNAKed, layout.CounterReceiveFrame,
}

// verifySum checks that every frame has had exactly one of its fates. It
// repeats the count if frames come meanwhile.
func (m *machine) verifySum() {
	for before := m.counter(layout.CounterMacReceiveFrame); ; {
		sum := uint32(0)
		for _, c := range fates {
			sum += m.counter(c)
		}
		if before == sum {
			return
		}
		m.sleep(20 * host.Microsecond)
		after := m.counter(layout.CounterMacReceiveFrame)
		if before == after {
			m.fail("%d frames were taken from the MAC, and %d are counted by what became of them", before, sum)
		}
		before = after
	}
}
