// SPDX-License-Identifier: Apache-2.0

package card

import (
	"fmt"

	"hvia/att"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

const (
	ringLog2     = 4 // entries of each raw ring
	ringEntries  = 1 << ringLog2
	ringBuffer   = mem.PageBytes / 2 // a frame buffer; a page has two, none crosses a page
	listEntries  = mem.PageBytes / 4 // page addresses in one command
	tableUses    = 4                 // capacity of a table in host memory: registrations per frame of the node
	statusOffset = layout.CommandStatusOffset
)

// Identity is a card's description of itself.
type Identity struct {
	Version     uint32 // major in bits 15:8, minor in 7:0
	LayoutHash  uint64
	VICount     int
	DataBytes   int
	Ports       int
	Reliability uint8 // mask of VIA reliability levels
	RDMARead    bool
	// CompletionQueues is their number; 0 if the card has none.
	CompletionQueues int
	// HostTable reports that the card has no memory for its translation table,
	// which lies in host memory that the driver allocates (strap
	// AttInHostMemory).
	HostTable bool
}

// Card is a card as its kernel agent drives it: registers, commands, and the
// raw port. One thread uses it.
type Card struct {
	thread *host.Thread
	memory *mem.Memory
	frames int // of the node
	costs  host.CostModel

	identity Identity
	command  *mem.Buffer // command block
	list     *mem.Buffer // page addresses of a command
	level1   *mem.Buffer // translation table in host memory
	level2   *mem.Buffer
	transmit ring
	receive  ring
	dropped  uint64
}

type ring struct {
	entries *mem.Buffer
	frames  *mem.Buffer
	tail    int // next entry to pass to the card
	next    int // next entry that the card completes
}

func (r *ring) entry(i int) layout.RawEntry {
	return layout.RawEntry(r.entries.Bytes()[i*layout.RawEntrySize : (i+1)*layout.RawEntrySize])
}

func (r *ring) frame(i int) []byte {
	return r.frames.Bytes()[i*ringBuffer : (i+1)*ringBuffer]
}

func (r *ring) done(i int) uint32 {
	return mem.LoadUint32(r.entry(i)[layout.RawEntryStatusOffset:])
}

// Open checks that this driver supports the node's card. frames is the size of
// the node's memory, of which m may be a part.
func Open(t *host.Thread, m *mem.Memory, costs host.CostModel, frames int) (*Card, error) {
	c := &Card{thread: t, memory: m, costs: costs, frames: frames}
	if err := c.identify(); err != nil {
		return nil, fmt.Errorf("driver: open the card of node %d: %w", t.ID().Node, err)
	}
	return c, nil
}

func (c *Card) identify() error {
	version, err := identify(c.thread, layout.CardID)
	if err != nil {
		return err
	}
	capability, err := c.Read(layout.RegisterCapabilityOffset)
	if err != nil {
		return err
	}
	queues := 0
	if log2 := capability & layout.RegisterCapabilityCompletionQueuesLog2Mask >> layout.RegisterCapabilityCompletionQueuesLog2Lsb; log2 > 0 {
		queues = 1 << log2
	}
	c.identity = Identity{
		Version: version, LayoutHash: layout.Hash,
		VICount:          1 << (capability & layout.RegisterCapabilityVICountLog2Mask >> layout.RegisterCapabilityVICountLog2Lsb),
		DataBytes:        int(capability & layout.RegisterCapabilityDataBytesMask >> layout.RegisterCapabilityDataBytesLsb),
		Ports:            int(capability & layout.RegisterCapabilityPortsMask >> layout.RegisterCapabilityPortsLsb),
		Reliability:      uint8(capability & layout.RegisterCapabilityReliabilityMask >> layout.RegisterCapabilityReliabilityLsb),
		RDMARead:         capability&layout.RegisterCapabilityRDMAReadMask != 0,
		CompletionQueues: queues,
		HostTable:        capability&layout.RegisterCapabilityTableInHostMemoryMask != 0,
	}
	return nil
}

// Identity returns the card's description of itself.
func (c *Card) Identity() Identity { return c.identity }

// Read reads a register.
func (c *Card) Read(offset uint32) (uint32, error) {
	return c.thread.Read(layout.PciBar0Base + offset)
}

// Write posts a write to a register.
func (c *Card) Write(offset uint32, values ...uint32) error {
	return c.thread.Write(layout.PciBar0Base+offset, values...)
}

// Counter reads one statistics counter.
func (c *Card) Counter(n layout.Counter) (uint32, error) {
	return c.Read(layout.CounterBase + 4*uint32(n))
}

// Start waits for the card, sets its address and its rings, and enables it.
func (c *Card) Start(mac layout.MAC, regions int) error {
	if err := c.start(mac, regions); err != nil {
		return fmt.Errorf("driver: start the card of node %d: %w", c.thread.ID().Node, err)
	}
	return nil
}

func (c *Card) start(mac layout.MAC, regions int) error {
	if err := await(c.thread, layout.RegisterStateOffset, layout.RegisterStateReadyMask, layout.RegisterStateReadyMask); err != nil {
		return err
	}
	for _, p := range []struct {
		to    **mem.Buffer
		bytes int
	}{
		{&c.command, mem.PageBytes}, {&c.list, mem.PageBytes}, {&c.transmit.entries, mem.PageBytes}, {&c.receive.entries, mem.PageBytes},
		{&c.transmit.frames, ringEntries * ringBuffer}, {&c.receive.frames, ringEntries * ringBuffer},
	} {
		if err := allocate(c.memory, p.to, p.bytes, mem.Single); err != nil {
			return err
		}
	}
	if c.identity.HostTable {
		if err := c.placeTable(regions); err != nil {
			return err
		}
	}
	if err := c.Write(layout.RegisterMacLowOffset, words(mac)...); err != nil {
		return err
	}
	if _, err := c.Command(layout.CommandOpcodeInitialiseAtt, func(b layout.Command) { b.SetIndex(uint32(regions)) }); err != nil {
		return err
	}
	if err := c.startRings(); err != nil {
		return err
	}
	if err := c.Write(layout.RegisterInterruptEnableOffset,
		layout.RegisterInterruptStatusRawReceiveMask|layout.RegisterInterruptStatusAsyncErrorMask|
			layout.RegisterInterruptStatusBusErrorMask|layout.RegisterInterruptStatusNotifyMask); err != nil {
		return err
	}
	return c.Write(layout.RegisterControlOffset, layout.RegisterControlEnableMask)
}

// Level2Entries returns the capacity of the card's table in level-2 entries:
// the card's SDRAM sets it, or the memory that the driver allocates.
func (c *Card) Level2Entries() uint32 {
	if !c.identity.HostTable {
		return layout.AttLevel2Count
	}
	return uint32(min(int64(c.frames)*tableUses, layout.AttLevel2Count))
}

// placeTable allocates host memory for the card's table. It stays in use until
// the card's reset: every translation reads it.
func (c *Card) placeTable(regions int) error {
	for _, p := range []struct {
		to       **mem.Buffer
		bytes    int
		register uint32
	}{
		{&c.level1, regions * layout.AttLevel1Stride, layout.RegisterAttHostLevel1Offset},
		{&c.level2, int(c.Level2Entries()) * layout.AttLevel2Size, layout.RegisterAttHostLevel2Offset},
	} {
		if err := allocate(c.memory, p.to, p.bytes, mem.Contiguous); err != nil {
			return fmt.Errorf("memory for the translation table: %w", err)
		}
		if err := c.Write(p.register, (*p.to).Physical(nil, 0, 1)[0].Address); err != nil {
			return err
		}
	}
	return nil
}

func (c *Card) startRings() error {
	for _, r := range []struct {
		ring *ring
		base uint32
	}{{&c.transmit, layout.RegisterRawTransmitBaseOffset}, {&c.receive, layout.RegisterRawReceiveBaseOffset}} {
		for i := range ringEntries {
			r.ring.entry(i).SetAddress(r.ring.frames.Physical(nil, i*ringBuffer, 1)[0].Address)
			r.ring.entry(i).SetLength(ringBuffer)
		}
		base := r.ring.entries.Physical(nil, 0, 1)[0].Address
		if err := c.Write(r.base, base, ringLog2); err != nil {
			return err
		}
	}
	c.receive.tail = ringEntries - 1 // a full ring would look empty
	return c.Write(layout.RegisterRawReceiveTailOffset, uint32(c.receive.tail))
}

// Stop ends the card's accesses to host memory and frees its rings.
func (c *Card) Stop() error {
	if err := c.stop(); err != nil {
		return fmt.Errorf("driver: stop the card of node %d: %w", c.thread.ID().Node, err)
	}
	return nil
}

func (c *Card) stop() error {
	if err := c.Write(layout.RegisterControlOffset, layout.RegisterControlSoftResetMask); err != nil {
		return err
	}
	// The bit reads 1 until the host bus is idle and the card is reset.
	if err := await(c.thread, layout.RegisterControlOffset, layout.RegisterControlSoftResetMask, 0); err != nil {
		return err
	}
	return c.release()
}

// Release frees the rings of a card after Thread.ResetBus. It may be called at
// once.
func (c *Card) Release() error {
	if err := c.release(); err != nil {
		return fmt.Errorf("driver: release the memory of the card of node %d: %w", c.thread.ID().Node, err)
	}
	return nil
}

func (c *Card) release() error {
	return release(c.memory, &c.level1, &c.level2, &c.command, &c.list, &c.transmit.entries, &c.receive.entries, &c.transmit.frames, &c.receive.frames)
}

// CommandError is a command that the card rejected.
type CommandError struct {
	Opcode layout.CommandOpcode
	Index  uint32
	Handle uint32
	Status layout.CommandStatus
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("command %v (index %d, handle %#x): the card reports %v", e.Opcode, e.Index, e.Handle, e.Status)
}

// Unwrap returns ErrCommand.
func (e *CommandError) Unwrap() error { return ErrCommand }

// Command has the card execute one command block, which fill completes, and
// returns its Detail.
func (c *Card) Command(op layout.CommandOpcode, fill func(layout.Command)) (uint32, error) {
	b := layout.Command(c.command.Bytes()[:layout.CommandSize])
	clear(b)
	b.SetOpcode(uint32(op))
	if fill != nil {
		fill(b)
	}
	pa := c.command.Physical(nil, 0, layout.CommandSize)[0]
	if err := c.Write(layout.RegisterCommandAddressOffset, pa.Address); err != nil {
		return 0, err
	}
	status := b[statusOffset:layout.CommandSize]
	ok, err := c.thread.Poll(host.Poll{
		Ranges: []mem.Range{{Address: pa.Address + statusOffset, Length: 4}}, Period: c.costs.PollPeriod(), Timeout: CommandLimit, Simulated: true,
	}, func() bool { return mem.LoadUint32(status) != uint32(layout.CommandStatusPending) })
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("command %v: no status after %v: %w", op, CommandLimit, ErrDeadline)
	}
	if s := layout.CommandStatus(mem.LoadUint32(status)); s != layout.CommandStatusDone {
		return 0, &CommandError{Opcode: op, Index: b.Index(), Handle: b.Handle(), Status: s}
	}
	return b.Detail(), nil
}

// Enter writes a registration into the card. Level 2 goes in pieces of one page
// list, the level-1 entry with the last piece.
func (c *Card) Enter(g att.Registration) error {
	list, at := g.Level2, g.Entry.Level2Address
	for len(list) > listEntries {
		piece := list[:listEntries]
		if _, err := c.Command(layout.CommandOpcodeWriteLevel2, func(b layout.Command) { c.setList(b, piece, at) }); err != nil {
			return err
		}
		list, at = list[listEntries:], at+listEntries*layout.AttLevel2Size
	}
	_, err := c.Command(layout.CommandOpcodeRegisterMemory, func(b layout.Command) {
		c.setList(b, list, at)
		b.SetIndex(g.Handle.Index())
		b.SetHandle(uint32(g.Handle))
		copy(b.Payload(), g.Entry.Encode())
	})
	return err
}

// Remove ends a registration. The command is done when the card has drained
// every access.
func (c *Card) Remove(h att.Handle) error {
	_, err := c.Command(layout.CommandOpcodeDeregisterMemory, func(b layout.Command) {
		b.SetIndex(h.Index())
		b.SetHandle(uint32(h))
	})
	return err
}

func (c *Card) setList(b layout.Command, list []uint32, level2 uint32) {
	bytes := c.list.Bytes()
	for i, p := range list {
		layout.AttLevel2(bytes[4*i:]).SetPage(p)
	}
	b.SetListAddress(c.list.Physical(nil, 0, 1)[0].Address)
	b.SetListCount(uint32(len(list)))
	b.SetLevel2Address(level2)
}

// Send puts an Ethernet frame into the transmit ring. If the ring stays full,
// it drops the frame, as on any Ethernet.
func (c *Card) Send(frame []byte) error {
	r := &c.transmit
	if (r.tail+1)%ringEntries == r.next {
		status := r.entry(r.next)[layout.RawEntryStatusOffset:]
		ok, err := c.thread.Poll(host.Poll{
			Ranges: r.entries.Physical(nil, r.next*layout.RawEntrySize, layout.RawEntrySize),
			Period: c.costs.PollPeriod(), Timeout: transmitWait, Simulated: true,
		}, func() bool { return mem.LoadUint32(status)&layout.RawEntryStatusDoneMask != 0 })
		if err != nil {
			return err
		}
		if !ok {
			c.dropped++
			return nil
		}
	}
	for r.next != r.tail && r.done(r.next)&layout.RawEntryStatusDoneMask != 0 {
		r.next = (r.next + 1) % ringEntries
	}
	e := r.entry(r.tail)
	e.SetLength(uint32(copy(r.frame(r.tail), frame)))
	e.SetStatus(0)
	r.tail = (r.tail + 1) % ringEntries
	return c.Write(layout.RegisterRawTransmitTailOffset, uint32(r.tail))
}

// Receive passes every frame in the receive ring to take and returns the
// entries to the card.
func (c *Card) Receive(take func(frame []byte)) error {
	r := &c.receive
	for {
		status := r.done(r.next)
		if status&layout.RawEntryStatusDoneMask == 0 {
			return nil
		}
		if status&layout.RawEntryStatusErrorMask == 0 {
			n := int(status & layout.RawEntryStatusLengthMask >> layout.RawEntryStatusLengthLsb)
			take(append([]byte(nil), r.frame(r.next)[:min(n, ringBuffer)]...))
		}
		r.entry(r.next).SetStatus(0)
		r.next = (r.next + 1) % ringEntries
		r.tail = (r.tail + 1) % ringEntries
		if err := c.Write(layout.RegisterRawReceiveTailOffset, uint32(r.tail)); err != nil {
			return err
		}
	}
}
