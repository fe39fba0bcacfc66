// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"

	"hvia/att"
	"hvia/driver"
	"hvia/layout"
	"hvia/sim/bridge"
)

const viCount = 256

// Card is a fake card. Its exported fields may be changed before the run.
type Card struct {
	ID           uint32 // what register ID reads
	LayoutHash   uint64
	Capability   uint32
	Dead         bool // takes commands and never answers
	FailOpcode   layout.CommandOpcode
	FailStatus   layout.CommandStatus // if not 0, commands of FailOpcode end so
	FailAfter    int                  // of them, so many succeed first
	CommandCount map[layout.CommandOpcode]int

	f       *Fabric
	node    *Node
	regs    map[uint32]uint32
	table   att.Image
	limit   uint32
	vis     [viCount]viState
	rawHead [2]uint32 // transmit, receive
	stored  [][]byte  // frames that wait for a receive entry
	busy    bool      // descriptor fetch works
	ready   []queueID // queues with descriptors to fetch, in turn

	asyncErrors   []uint32 // that wait, as AsyncErrorInfo shows them
	asyncOverflow bool
	asyncCount    uint32
}

type viState struct {
	context  [layout.ViContextSize]byte
	state    layout.ViState
	queues   [2]workQueue // by direction
	head     receiveHead  // the receive descriptor on the chip
	message  message      // that is being received
	sequence uint32
	expected uint32
	broken   bool // a descriptor of the send queue could not be reached; since it was connected
}

func (v *viState) ctx() layout.ViContext { return v.context[:] }
func (v *viState) tag() uint16 {
	return uint16(v.ctx().Attributes() >> layout.ViContextAttributesTagLsb)
}
func (v *viState) number(index int) uint16 {
	return uint16(v.ctx().Attributes()&layout.ViContextAttributesGenerationMask>>layout.ViContextAttributesGenerationLsb<<8) | uint16(index)
}

func newCard(f *Fabric, n *Node) *Card {
	c := &Card{
		ID: layout.CardID, LayoutHash: layout.Hash, f: f, node: n, regs: map[uint32]uint32{}, CommandCount: map[layout.CommandOpcode]int{},
		Capability: 8<<layout.RegisterCapabilityViCountLog2Lsb | 4<<layout.RegisterCapabilityDataBytesLsb | 1<<layout.RegisterCapabilityPortsLsb |
			uint32(layout.ReliabilityUnreliable)<<layout.RegisterCapabilityReliabilityLsb,
	}
	for i := range c.vis {
		c.vis[i].state = layout.ViStateFree
	}
	return c
}

func (c *Card) interrupt() bool {
	return c.regs[layout.RegisterInterruptStatusOffset]&c.regs[layout.RegisterInterruptEnableOffset] != 0
}

func (c *Card) raise(mask uint32) { c.regs[layout.RegisterInterruptStatusOffset] |= mask }

func (c *Card) async(code layout.AsyncError, vi int) {
	c.asyncCount++
	c.raise(layout.RegisterInterruptStatusAsyncErrorMask)
	if len(c.asyncErrors) == layout.AsyncErrorSlots {
		c.asyncOverflow = true
		c.regs[layout.AsyncErrorDroppedBase+4*uint32(vi/32)] |= 1 << (vi % 32)
		return
	}
	c.asyncErrors = append(c.asyncErrors, layout.RegisterAsyncErrorInfoValidMask|
		uint32(code)<<layout.RegisterAsyncErrorInfoCodeLsb|uint32(vi)<<layout.RegisterAsyncErrorInfoViLsb)
}

// nextAsync is a read of AsyncErrorInfo, which takes the oldest error away.
func (c *Card) nextAsync() uint32 {
	word := c.asyncCount << layout.RegisterAsyncErrorInfoCountLsb
	if c.asyncOverflow {
		word |= layout.RegisterAsyncErrorInfoOverflowMask
	}
	c.asyncOverflow = false
	if len(c.asyncErrors) > 0 {
		word |= c.asyncErrors[0]
		c.asyncErrors = c.asyncErrors[1:]
	}
	return word
}

func (c *Card) count(n layout.Counter) { c.regs[layout.CounterBase+4*uint32(n)]++ }

func (c *Card) read(address uint32) uint32 {
	switch o := address - layout.PciBar0Base; o {
	case layout.RegisterIDOffset:
		return c.ID
	case layout.RegisterVersionOffset:
		return layout.CardVersionMajor<<8 | layout.CardVersionMinor
	case layout.RegisterLayoutHashLowOffset:
		return uint32(c.LayoutHash)
	case layout.RegisterLayoutHashHighOffset:
		return uint32(c.LayoutHash >> 32)
	case layout.RegisterCapabilityOffset:
		return c.Capability
	case layout.RegisterStateOffset:
		return layout.RegisterStateReadyMask
	case layout.RegisterAsyncErrorInfoOffset:
		return c.nextAsync()
	default:
		if o >= layout.AsyncErrorDroppedBase && o < layout.AsyncErrorDroppedBase+4*layout.AsyncErrorDroppedWords {
			marks := c.regs[o]
			c.regs[o] = 0
			return marks
		}
		return c.regs[o]
	}
}

func (c *Card) write(address uint32, data []uint32) {
	if address >= layout.PciBar1Base {
		c.doorbell(address-layout.PciBar1Base, data)
		return
	}
	for i, v := range data {
		switch o := address - layout.PciBar0Base + 4*uint32(i); o {
		case layout.RegisterInterruptStatusOffset:
			c.regs[o] &^= v
		case layout.RegisterCommandAddressOffset:
			c.f.after(deviceDelay, func() { c.command(v) })
		case layout.RegisterControlOffset:
			if v&layout.RegisterControlSoftResetMask != 0 {
				c.reset()
				continue
			}
			c.regs[o] = v
		case layout.RegisterRawTransmitTailOffset:
			c.regs[o] = v
			c.f.after(deviceDelay, c.rawTransmit)
		case layout.RegisterRawReceiveTailOffset:
			c.regs[o] = v
			c.f.after(deviceDelay, c.rawReceive)
		default:
			c.regs[o] = v
		}
	}
}

func (c *Card) reset() {
	clear(c.regs)
	c.limit, c.rawHead, c.stored, c.ready = 0, [2]uint32{}, nil, nil
	c.asyncErrors, c.asyncOverflow, c.asyncCount = nil, false, 0
	for i := range c.vis {
		c.vis[i] = viState{state: layout.ViStateFree}
	}
}

// dma returns physical memory for an access of the card, and ends the run if
// the card may not touch it.
func (c *Card) dma(address, n uint32) []byte {
	if n == 0 {
		return nil
	}
	if !c.node.memory.inUse(address, n) {
		c.f.stop(bridge.ErrMemoryFault, fmt.Sprintf("node %d: the card touched %d bytes at %#x, which are not in use", c.node.index, n, address))
		return make([]byte, n)
	}
	return c.node.memory.view[address : address+n]
}

func (c *Card) store(address uint32, data []byte) {
	copy(c.dma(address, uint32(len(data))), data)
	c.f.written(c.node.index, address, uint32(len(data)))
}

func (c *Card) storeWord(address, v uint32) {
	driver.StoreUint32(c.dma(address, 4), v)
	c.f.written(c.node.index, address, 4)
}

func (c *Card) command(address uint32) {
	b := layout.Command(c.dma(address, layout.CommandSize))
	op := layout.CommandOpcode(b.Opcode())
	c.CommandCount[op]++
	if c.Dead {
		return
	}
	detail, status := c.carryOut(op, b)
	if c.FailStatus != 0 && op == c.FailOpcode && c.CommandCount[op] > c.FailAfter {
		status = c.FailStatus
	}
	b.SetDetail(detail)
	c.storeWord(address+layout.CommandStatusOffset, uint32(status))
	c.raise(layout.RegisterInterruptStatusCommandDoneMask)
}

func (c *Card) carryOut(op layout.CommandOpcode, b layout.Command) (uint32, layout.CommandStatus) {
	index := b.Index()
	list := func() {
		src := c.dma(b.ListAddress(), 4*b.ListCount())
		values := make([]uint32, b.ListCount())
		for i := range values {
			values[i] = layout.AttLevel2(src[4*i:]).Page()
		}
		c.table.WriteDwords(b.Level2Address(), values)
	}
	// A table in host memory is read and written by the card as any other memory.
	if c.Capability&layout.RegisterCapabilityTableInHostMemoryMask != 0 {
		c.dma(c.regs[layout.RegisterAttHostLevel1Offset], max(index, c.limit)*layout.AttLevel1Stride)
		if op == layout.CommandOpcodeWriteLevel2 || op == layout.CommandOpcodeRegisterMemory {
			c.dma(c.regs[layout.RegisterAttHostLevel2Offset]+b.Level2Address()-layout.AttLevel2Base, 4*b.ListCount())
		}
	}
	if op >= layout.CommandOpcodeCreateVi && index >= viCount {
		return 0, layout.CommandStatusBadArgument
	}
	switch op {
	case layout.CommandOpcodeNop:
	case layout.CommandOpcodeInitialiseAtt:
		c.limit = index
		for i := range index {
			c.table.WriteEntry(i, att.Entry{})
		}
	case layout.CommandOpcodeWriteLevel2:
		list()
	case layout.CommandOpcodeRegisterMemory:
		e, err := att.DecodeEntry(b.Payload())
		if err != nil || index >= c.limit {
			return 0, layout.CommandStatusBadArgument
		}
		list()
		c.table.WriteEntry(index, e)
	case layout.CommandOpcodeDeregisterMemory:
		i := att.Handle(b.Handle()).Index()
		e := att.ReadEntry(&c.table, i)
		e.Valid = false
		c.table.WriteEntry(i, e)
		for i := range c.vis {
			if h := &c.vis[i].head; h.handle == b.Handle() {
				h.stale = true
			}
		}
	case layout.CommandOpcodeCreateVi:
		v := &c.vis[index]
		if v.state != layout.ViStateFree {
			return 0, layout.CommandStatusBadState
		}
		*v = viState{state: layout.ViStateIdle}
		copy(v.context[:], b.Payload())
	case layout.CommandOpcodeDestroyVi:
		if c.vis[index].state != layout.ViStateIdle {
			return 0, layout.CommandStatusBadState
		}
		c.flush(int(index))
		c.vis[index].state = layout.ViStateFree
	case layout.CommandOpcodeConnectVi, layout.CommandOpcodeModifyVi:
		v := &c.vis[index]
		if v.state != layout.ViStateIdle {
			return 0, layout.CommandStatusBadState
		}
		copy(v.context[:], b.Payload())
		if op == layout.CommandOpcodeConnectVi {
			v.sequence, v.expected, v.state, v.message = v.ctx().SendSequence(), v.ctx().ReceiveSequence(), layout.ViStateConnected, message{}
			v.broken = false
		}
	case layout.CommandOpcodeDisconnectVi:
		v := &c.vis[index]
		if v.state == layout.ViStateFree {
			return 0, layout.CommandStatusBadState
		}
		c.flush(int(index))
		v.state = layout.ViStateIdle
	case layout.CommandOpcodeQueryVi:
		return uint32(c.vis[index].state), layout.CommandStatusDone
	case layout.CommandOpcodeResetVi:
		c.vis[index] = viState{state: layout.ViStateFree}
	default:
		return 0, layout.CommandStatusBadOpcode
	}
	return 0, layout.CommandStatusDone
}

// ring returns an entry of a raw ring, if there is one to take.
func (c *Card) ring(which int) (layout.RawEntry, uint32) {
	base := []uint32{layout.RegisterRawTransmitBaseOffset, layout.RegisterRawReceiveBaseOffset}[which]
	size, tail := c.regs[base+4], c.regs[base+8]
	if size == 0 || c.rawHead[which] == tail&(1<<size-1) {
		return nil, 0
	}
	pa := c.regs[base] + c.rawHead[which]*layout.RawEntrySize
	c.rawHead[which] = (c.rawHead[which] + 1) & (1<<size - 1)
	return c.dma(pa, layout.RawEntrySize), pa + layout.RawEntryStatusOffset
}

func (c *Card) rawTransmit() {
	for {
		e, status := c.ring(0)
		if e == nil {
			return
		}
		c.emit(append([]byte(nil), c.dma(e.Address(), e.Length())...))
		c.storeWord(status, layout.RawEntryStatusDoneMask)
		c.raise(layout.RegisterInterruptStatusRawTransmitMask)
	}
}

func (c *Card) rawReceive() {
	for len(c.stored) > 0 {
		e, status := c.ring(1)
		if e == nil {
			return
		}
		frame := c.stored[0]
		c.stored = c.stored[1:]
		c.store(e.Address(), frame)
		c.storeWord(status, layout.RawEntryStatusDoneMask|uint32(len(frame))<<layout.RawEntryStatusLengthLsb)
		c.raise(layout.RegisterInterruptStatusRawReceiveMask)
	}
}
