// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/att"
	"hvia/layout"
	"hvia/sim/bridge"
)

// The card's notification registers, and its completion queue commands: an
// armed notification that has come is queued once, in order, and raises its
// cause.
func TestNotifyRegisters(t *testing.T) {
	f, err := New(1, 1)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	n := f.Node(0)
	c := n.Card
	const block, ring = 0x1000, 0x2000
	for _, frame := range []int{block / layout.AttPageBytes, ring / layout.AttPageBytes} {
		require.NoError(t, n.memory.Acquire(frame, bridge.UseCompletionQueue))
	}
	command := func(op layout.CommandOpcode, fill func(layout.Command)) layout.Command {
		b := layout.Command(n.memory.view[block:][:layout.CommandSize])
		clear(b)
		b.SetOpcode(uint32(op))
		fill(b)
		c.command(block)
		require.Equal(t, layout.CommandStatusDone, layout.CommandStatus(b.Status()))
		return b
	}
	const last = 63 // number of a completion queue
	require.Equal(t, uint32(last+1), uint32(1)<<(c.read(layout.PciBar0Base+layout.RegisterCapabilityOffset)&layout.RegisterCapabilityCompletionQueuesLog2Mask>>layout.RegisterCapabilityCompletionQueuesLog2Lsb))
	queue := func(b layout.Command) {
		b.SetIndex(last)
		b.SetListAddress(ring)
		b.SetListCount(4)
	}
	command(layout.CommandOpcodeCreateCompletionQueue, queue)
	command(layout.CommandOpcodeCreateVI, func(b layout.Command) {
		b.SetIndex(5)
		context := layout.VIContext(b.Payload())
		context.SetReceiveCompletionQueue(last + 1)
	})

	arm := func(kind layout.NotifyKind, index uint32) uint32 {
		word := index<<layout.RegisterNotifyArmIndexLsb | uint32(kind)<<layout.RegisterNotifyArmKindLsb
		c.write(layout.PciBar0Base+layout.RegisterNotifyArmOffset, []uint32{word})
		return word | layout.RegisterNotifyInfoValidMask
	}
	info := func() uint32 { return c.read(layout.PciBar0Base + layout.RegisterNotifyInfoOffset) }
	cause := func() bool {
		v := c.regs[layout.RegisterInterruptStatusOffset]&layout.RegisterInterruptStatusNotifyMask != 0
		c.write(layout.PciBar0Base+layout.RegisterInterruptStatusOffset, []uint32{layout.RegisterInterruptStatusNotifyMask})
		return v
	}
	require.Zero(t, info())
	entry, receive := arm(layout.NotifyKindCompletionQueue, last), arm(layout.NotifyKindReceive, 5)
	arm(layout.NotifyKindReceive, 5)
	require.False(t, cause(), "nothing has come")
	// Flush a receive descriptor.
	const descriptor = 0x2800
	handle := att.MakeHandle(1, 0)
	c.limit = 2
	c.table.WriteEntry(1, att.Entry{Start: ring, Level2Address: layout.AttLevel2Base, Pages: 1, FirstBytes: att.PageSize, LastBytes: att.PageSize, Valid: true})
	c.table.WriteDwords(layout.AttLevel2Base, []uint32{ring})
	completed := func() {
		c.write(layout.PciBar1Base+5*layout.DoorbellPageBytes+layout.DoorbellReceive, []uint32{descriptor, 0, uint32(handle)})
		command(layout.CommandOpcodeDisconnectVI, func(b layout.Command) { b.SetIndex(5) })
	}
	completed()
	require.True(t, cause())
	require.Equal(t, []uint32{entry, receive, 0}, []uint32{info(), info(), info()})
	completed()
	require.False(t, cause(), "an arming is for one")
	// Armed again before it was read: it is queued once.
	arm(layout.NotifyKindReceive, 5)
	completed()
	arm(layout.NotifyKindReceive, 5)
	completed()
	require.True(t, cause())
	require.Equal(t, []uint32{receive, 0}, []uint32{info(), info()})
	require.Equal(t, uint32(4), command(layout.CommandOpcodeResizeCompletionQueue, queue).Detail())
	require.Equal(t, uint32(4), c.read(layout.PciBar0Base+layout.CounterBase+4*uint32(layout.CounterCompletionQueueEntry)))

	arm(layout.NotifyKindReceive, 5)
	completed()
	c.reset()
	require.Zero(t, info())
	require.NoError(t, n.memory.Release(block/layout.AttPageBytes, bridge.UseCompletionQueue))
}
