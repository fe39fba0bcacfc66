// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"math/rand/v2"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// dma returns physical memory for an access of a node's card, and ends the run
// if the card may not access it.
func (f *Fabric) dma(n *Node, address, bytes uint32) []byte {
	if bytes == 0 {
		return nil
	}
	if !n.memory.inUse(address, bytes) {
		f.stop(bridge.ErrMemoryFault, fmt.Sprintf("node %d: the card touched %d bytes at %#x, which are not in use", n.index, bytes, address))
		return make([]byte, bytes)
	}
	return n.memory.view[address : address+bytes]
}

func (f *Fabric) store(n *Node, address uint32, data []byte) {
	copy(f.dma(n, address, uint32(len(data))), data)
	f.written(n.index, address, uint32(len(data)))
}

func (f *Fabric) storeWord(n *Node, address, v uint32) {
	mem.StoreUint32(f.dma(n, address, 4), v)
	f.written(n.index, address, 4)
}

func (f *Fabric) emit(from *Node, frame []byte) {
	if f.Lose != nil && f.Lose(from.index, frame) {
		return
	}
	copies := []host.Time{0}
	if f.Copies != nil {
		copies = f.Copies(from.index, frame)
	}
	for _, late := range copies {
		for _, n := range f.nodes {
			if n != from {
				f.after(wireDelay+late, func() { n.device().arrive(frame) })
			}
		}
	}
}

// Faults injects faults by seed, as a Fabric's Copies. Rates are per 1,000 VIA
// frames; other frames are unaffected.
type Faults struct {
	Seed      uint64
	Lose      int
	Duplicate int
	Delay     int       // come late, perhaps behind others
	Late      host.Time // bound of the delay; 0 = 10 wire delays
}

// Copies returns a function for a Fabric's Copies.
func (c Faults) Copies() func(from int, frame []byte) []host.Time {
	random := rand.New(rand.NewPCG(c.Seed, c.Seed))
	late := c.Late
	if late == 0 {
		late = 10 * wireDelay
	}
	one := func() host.Time {
		if random.IntN(1000) < c.Delay {
			return host.Time(random.Int64N(int64(late)))
		}
		return 0
	}
	return func(_ int, frame []byte) (copies []host.Time) {
		if len(frame) < layout.EthernetHeaderSize || layout.EthernetHeader(frame).EtherType() != layout.EtherTypeVia {
			return []host.Time{0}
		}
		if random.IntN(1000) >= c.Lose {
			copies = append(copies, one())
		}
		if random.IntN(1000) < c.Duplicate {
			copies = append(copies, one())
		}
		return copies
	}
}

func macOf(regs map[uint32]uint32) [6]byte {
	low, high := regs[layout.RegisterMacLowOffset], regs[layout.RegisterMacHighOffset]
	return [6]byte{byte(low), byte(low >> 8), byte(low >> 16), byte(low >> 24), byte(high), byte(high >> 8)}
}

type rawPort struct {
	f      *Fabric
	node   *Node
	regs   map[uint32]uint32
	dma    func(address, bytes uint32) []byte
	raise  func(mask uint32)
	head   [2]uint32 // transmit, receive
	stored [][]byte  // frames that wait for a receive entry
	part   []byte    // of a frame of several entries
	told   []uint32  // status words of its entries so far
}

func (p *rawPort) reset() { p.head, p.stored, p.part, p.told = [2]uint32{}, nil, nil, nil }

func (p *rawPort) entry(which int) (layout.RawEntry, uint32) {
	base := []uint32{layout.RegisterRawTransmitBaseOffset, layout.RegisterRawReceiveBaseOffset}[which]
	size, tail := p.regs[base+4], p.regs[base+8]
	if size == 0 || p.head[which] == tail&(1<<size-1) {
		return nil, 0
	}
	pa := p.regs[base] + p.head[which]*layout.RawEntrySize
	p.head[which] = (p.head[which] + 1) & (1<<size - 1)
	return p.dma(pa, layout.RawEntrySize), pa + layout.RawEntryStatusOffset
}

func (p *rawPort) transmit() {
	for {
		e, status := p.entry(0)
		if e == nil {
			return
		}
		p.part = append(p.part, p.dma(e.Address(), e.Length()&layout.RawEntryLengthBytesMask)...)
		p.told = append(p.told, status)
		if e.Length()&layout.RawEntryLengthMoreMask != 0 {
			continue
		}
		frame, told := p.part, p.told
		p.part, p.told = nil, nil
		p.f.emit(p.node, frame)
		for _, status := range told {
			p.f.storeWord(p.node, status, layout.RawEntryStatusDoneMask)
		}
		p.raise(layout.RegisterInterruptStatusRawTransmitMask)
	}
}

func (p *rawPort) arrive(frame []byte) {
	p.stored = append(p.stored, frame)
	p.receive()
}

func (p *rawPort) receive() {
	for len(p.stored) > 0 {
		e, status := p.entry(1)
		if e == nil {
			return
		}
		frame := p.stored[0]
		p.stored = p.stored[1:]
		p.f.store(p.node, e.Address(), frame)
		p.f.storeWord(p.node, status, layout.RawEntryStatusDoneMask|uint32(len(frame))<<layout.RawEntryStatusLengthLsb)
		p.raise(layout.RegisterInterruptStatusRawReceiveMask)
	}
}
