// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"bytes"

	"hvia/layout"
)

// NIC is a fake plain NIC: the raw port without VIA. Its interrupts are not
// moderated.
type NIC struct {
	Dead bool // reads no more frames, without an error

	f    *Fabric
	node *Node
	regs map[uint32]uint32
	raw  rawPort
}

func newNIC(f *Fabric, n *Node) *NIC {
	c := &NIC{f: f, node: n, regs: map[uint32]uint32{}}
	c.raw = rawPort{f: f, node: n, regs: c.regs,
		dma:   func(address, bytes uint32) []byte { return f.dma(n, address, bytes) },
		raise: func(mask uint32) { c.regs[layout.RegisterInterruptStatusOffset] |= mask },
	}
	return c
}

func (c *NIC) interrupt() bool {
	return c.regs[layout.RegisterInterruptStatusOffset]&c.regs[layout.RegisterInterruptEnableOffset] != 0
}

func (c *NIC) read(address uint32) uint32 {
	switch o := address - layout.PciBar0Base; o {
	case layout.RegisterIDOffset:
		return layout.NICID
	case layout.RegisterVersionOffset:
		return layout.CardVersionMajor<<8 | layout.CardVersionMinor
	case layout.RegisterLayoutHashLowOffset:
		return uint32(layout.Hash & 0xffffffff)
	case layout.RegisterLayoutHashHighOffset:
		return uint32(layout.Hash >> 32)
	case layout.RegisterStateOffset:
		return layout.RegisterStateReadyMask
	default:
		return c.regs[o]
	}
}

func (c *NIC) write(address uint32, data []uint32) {
	for i, v := range data {
		switch o := address - layout.PciBar0Base + 4*uint32(i); o {
		case layout.RegisterInterruptStatusOffset:
			c.regs[o] &^= v
		case layout.RegisterControlOffset:
			if v&layout.RegisterControlSoftResetMask != 0 {
				clear(c.regs)
				c.raw.reset()
				continue
			}
			c.regs[o] = v
		case layout.RegisterRawTransmitTailOffset:
			c.regs[o] = v
			c.f.after(deviceDelay, func() {
				if !c.Dead {
					c.raw.transmit()
				}
			})
		case layout.RegisterRawReceiveTailOffset:
			c.regs[o] = v
			c.f.after(deviceDelay, c.raw.receive)
		default:
			c.regs[o] = v
		}
	}
}

func (c *NIC) arrive(frame []byte) {
	e, mac := layout.EthernetHeader(frame), macOf(c.regs)
	broadcast := bytes.Equal(e.Destination(), bytes.Repeat([]byte{0xff}, len(mac)))
	if c.regs[layout.RegisterControlOffset]&layout.RegisterControlEnableMask == 0 || !broadcast && !bytes.Equal(e.Destination(), mac[:]) {
		return
	}
	c.raw.arrive(frame)
}
