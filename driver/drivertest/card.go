// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bytes"
	"slices"

	"hvia/att"
	"hvia/driver"
	"hvia/driver/internal/softvia"
	"hvia/layout"
	"hvia/params"
)

// Card is a fake card. Its exported fields may be changed before the run.
type Card struct {
	ID           uint32 // value of register ID
	LayoutHash   uint64
	Capability   uint32
	Dead         bool // accepts commands and never completes them
	FailOpcode   layout.CommandOpcode
	FailStatus   layout.CommandStatus // if not 0, status of commands of FailOpcode
	FailAfter    int                  // such commands that succeed first
	CommandCount map[layout.CommandOpcode]int

	f      *Fabric
	node   *Node
	regs   map[uint32]uint32
	table  att.Image
	limit  uint32
	engine *softvia.Engine[nobody]
	raw    rawPort
	busy   bool              // the descriptor fetch is active
	ready  []softvia.QueueID // queues with descriptors to fetch, in turn
	listed map[softvia.QueueID]bool

	asyncErrors   []uint32 // queued, as read from AsyncErrorInfo
	asyncOverflow bool
	asyncCount    uint32
	notified      []uint32 // queued notifications, as read from NotifyInfo; each at most once
}

// nobody is the thread type of a card's engine: a card has no threads.
type nobody struct{}

func newCard(f *Fabric, n *Node) *Card {
	c := &Card{
		ID: layout.CardID, LayoutHash: layout.Hash, f: f, node: n, regs: map[uint32]uint32{}, CommandCount: map[layout.CommandOpcode]int{},
		Capability: params.VICountLog2<<layout.RegisterCapabilityVICountLog2Lsb | params.SystemBusBits/8<<layout.RegisterCapabilityDataBytesLsb | 1<<layout.RegisterCapabilityPortsLsb |
			uint32(layout.ReliabilityUnreliable|layout.ReliabilityDelivery|layout.ReliabilityReception)<<layout.RegisterCapabilityReliabilityLsb | layout.RegisterCapabilityRDMAReadMask | params.CompletionQueuesLog2<<layout.RegisterCapabilityCompletionQueuesLog2Lsb,
	}
	c.engine = softvia.New(engineCard{c}, softvia.Config{QueueDepth: driver.QueueDepth, CompletionQueues: 1 << params.CompletionQueuesLog2, Reliable: true})
	c.raw = rawPort{node: n, f: f, regs: c.regs, dma: c.dma, raise: c.raise}
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
		uint32(code)<<layout.RegisterAsyncErrorInfoCodeLsb|uint32(vi)<<layout.RegisterAsyncErrorInfoVILsb)
}

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

// notify queues an armed notification unless it is already queued.
func (c *Card) notify(kind layout.NotifyKind, index int) {
	word := uint32(index)<<layout.RegisterNotifyInfoIndexLsb | uint32(kind)<<layout.RegisterNotifyInfoKindLsb | layout.RegisterNotifyInfoValidMask
	if !slices.Contains(c.notified, word) {
		c.notified = append(c.notified, word)
	}
	c.raise(layout.RegisterInterruptStatusNotifyMask)
}

func (c *Card) nextNotified() (word uint32) {
	if len(c.notified) > 0 {
		word, c.notified = c.notified[0], c.notified[1:]
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
	case layout.RegisterNotifyInfoOffset:
		return c.nextNotified()
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
		case layout.RegisterNotifyArmOffset:
			c.engine.Arm(layout.NotifyKind(v&layout.RegisterNotifyArmKindMask>>layout.RegisterNotifyArmKindLsb), int(v&layout.RegisterNotifyArmIndexMask))
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
			c.f.after(deviceDelay, c.raw.transmit)
		case layout.RegisterRawReceiveTailOffset:
			c.regs[o] = v
			c.f.after(deviceDelay, c.raw.receive)
		default:
			c.regs[o] = v
		}
	}
}

func (c *Card) reset() {
	clear(c.regs)
	c.raw.reset()
	c.limit, c.ready, c.listed = 0, nil, nil
	c.asyncErrors, c.asyncOverflow, c.asyncCount, c.notified = nil, false, 0, nil
	c.engine.Reset()
}

func (c *Card) dma(address, n uint32) []byte { return c.f.dma(c.node, address, n) }

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
	c.f.storeWord(c.node, address+layout.CommandStatusOffset, uint32(status))
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
	// The card accesses a table in host memory like any other memory.
	if c.Capability&layout.RegisterCapabilityTableInHostMemoryMask != 0 {
		c.dma(c.regs[layout.RegisterAttHostLevel1Offset], max(index, c.limit)*layout.AttLevel1Stride)
		if op == layout.CommandOpcodeWriteLevel2 || op == layout.CommandOpcodeRegisterMemory {
			c.dma(c.regs[layout.RegisterAttHostLevel2Offset]+b.Level2Address()-layout.AttLevel2Base, 4*b.ListCount())
		}
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
		c.engine.Deregistered(b.Handle())
	case layout.CommandOpcodeCreateCompletionQueue, layout.CommandOpcodeDestroyCompletionQueue, layout.CommandOpcodeResizeCompletionQueue:
		return c.engine.CompletionQueueCommand(op, index, b.ListAddress(), b.ListCount())
	default:
		c.engine.SetMAC(macOf(c.regs))
		return c.engine.Command(nobody{}, op, index, b.Payload())
	}
	return 0, layout.CommandStatusDone
}

func (c *Card) arrive(frame []byte) {
	e := layout.EthernetHeader(frame)
	if mac := macOf(c.regs); c.regs[layout.RegisterControlOffset]&layout.RegisterControlEnableMask == 0 || !bytes.Equal(e.Destination(), mac[:]) {
		return
	}
	if e.EtherType() != layout.EtherTypeVia {
		c.raw.arrive(frame)
		return
	}
	c.engine.Arrive(nobody{}, frame)
}
