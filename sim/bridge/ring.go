// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"

	"hvia/layout"
)

// Command is one entry of a slot's command ring.
type Command struct {
	Time    Time
	Opcode  layout.BridgeOpcode
	Count   uint32
	Address uint64
	Tag     uint64
	Data    [layout.BridgeMaxWriteDwords * 4]byte
}

// ring is a queue from one writer to one reader in shared memory. The writer
// commits an entry by storing the tail. So a process that dies during a write
// leaves no partial entry.
type ring struct {
	tail, head *atomic.Uint32 // entries written and taken, modulo 2^32
	entries    []byte
}

const ringEntries = layout.BridgeRingEntries

func newRing(tail, head *atomic.Uint32, entries []byte) ring {
	return ring{tail: tail, head: head, entries: entries[:ringEntries*layout.BridgeCommandSize]}
}

func (r ring) entry(n uint32) layout.BridgeCommand {
	at := int(n%ringEntries) * layout.BridgeCommandSize
	return layout.BridgeCommand(r.entries[at : at+layout.BridgeCommandSize])
}

// push appends a command. It returns false when the ring is full.
func (r ring) push(c *Command) bool {
	tail := r.tail.Load()
	if tail-r.head.Load() == ringEntries {
		return false
	}
	e := r.entry(tail)
	e.SetTime(uint64(c.Time))
	e.SetOpcode(uint32(c.Opcode))
	e.SetCount(c.Count)
	e.SetAddress(c.Address)
	e.SetTag(c.Tag)
	copy(e.Data(), c.Data[:])
	r.tail.Store(tail + 1)
	return true
}

// pop takes the oldest command. It mirrors the simulator's C++ code.
func (r ring) pop(c *Command) bool {
	head := r.head.Load()
	if head == r.tail.Load() {
		return false
	}
	e := r.entry(head)
	c.Time = Time(e.Time())
	c.Opcode = layout.BridgeOpcode(e.Opcode())
	c.Count = e.Count()
	c.Address = e.Address()
	c.Tag = e.Tag()
	copy(c.Data[:], e.Data())
	r.head.Store(head + 1)
	return true
}
