// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"math/bits"

	"hvia/att"
	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// MaxCQEntries is the largest number of entries of a completion queue.
const MaxCQEntries = 1 << layout.CompletionQueueMaxLog2

type cq struct {
	process    *process
	nic        uint32 // 0 = not in use
	generation uint32 // counts creations
	ring       *mem.Buffer
	retired    *mem.Buffer // the ring before the last resize: the library still reaps its entries
	ties       int         // work queues
}

func (a *Agent) cq(n *nic, q *call.Request) (int, error) {
	if q.Object >= uint32(len(a.cqs)) {
		return 0, fmt.Errorf("completion queue %d, the card has %d: %w", q.Object, len(a.cqs), host.ErrInvalidParameter)
	}
	if c := &a.cqs[q.Object]; c.nic != n.id || c.generation != q.Generation {
		return 0, fmt.Errorf("completion queue %d is not this handle's (destroyed?): %w", q.Object, host.ErrInvalidParameter)
	}
	return int(q.Object), nil
}

// ring allocates and pins memory for a completion queue of at least the given
// number of entries.
func (a *Agent) ring(p *process, entries uint64) (*mem.Buffer, uint32, error) {
	switch {
	case entries == 0:
		return nil, 0, fmt.Errorf("a completion queue of 0 entries: want 1 to %d: %w", MaxCQEntries, host.ErrInvalidParameter)
	case entries > MaxCQEntries:
		return nil, 0, fmt.Errorf("a completion queue of %d entries, at most %d: %w", entries, MaxCQEntries, host.ErrResource)
	}
	log2 := max(bits.Len64(entries-1), layout.CompletionQueueMinLog2)
	b, err := p.memory.Allocate(layout.CompletionQueueHeaderSize+layout.CompletionEntrySize<<log2, mem.Contiguous)
	if err != nil {
		return nil, 0, err
	}
	if _, err := p.memory.Pin(bridge.UseCompletionQueue, b.Address(), uint64(b.Len())); err != nil {
		return nil, 0, errors.Join(err, b.Free())
	}
	return b, uint32(log2), a.spendPin(b)
}

func (a *Agent) spendPin(b *mem.Buffer) error {
	return a.thread.Spend(host.LayerAgent, a.costs.PinPage*host.Time(att.PagesOf(b.Address(), uint64(b.Len()))))
}

func (a *Agent) unpin(p *process, b *mem.Buffer) error {
	if err := p.memory.Unpin(bridge.UseCompletionQueue, b.Address(), uint64(b.Len())); err != nil {
		return err
	}
	return a.spendPin(b)
}

func firstFrame(b *mem.Buffer) uint32 { return b.Physical(nil, 0, 1)[0].Address }

func (a *Agent) createCQ(n *nic, q *call.Request, r *call.Reply) error {
	if len(a.cqs) == 0 {
		return fmt.Errorf("the card has no completion queues: %w", host.ErrResource)
	}
	if err := n.process.uses.cqs.check(n.process); err != nil {
		return err
	}
	index := -1
	for i := range a.cqs {
		if a.cqs[i].nic == 0 {
			index = i
			break
		}
	}
	if index < 0 {
		return fmt.Errorf("all %d completion queues of the card are in use: %w", len(a.cqs), host.ErrResource)
	}
	b, log2, err := a.ring(n.process, q.Length)
	if err != nil {
		return err
	}
	if _, err := a.device.queueCommand(layout.CommandOpcodeCreateCompletionQueue, index, firstFrame(b), log2); err != nil {
		return a.discard(n.process, b, err)
	}
	c := &a.cqs[index]
	c.process, c.nic, c.ring, c.generation = n.process, n.id, b, c.generation+1
	n.process.uses.cqs.count++
	r.Object, r.Generation, r.Address, r.Length = uint32(index), c.generation, b.Address(), uint64(b.Len())
	return nil
}

func (a *Agent) discard(p *process, b *mem.Buffer, err error) error {
	if e := a.unpin(p, b); e != nil {
		return e
	}
	if e := b.Free(); e != nil {
		return e
	}
	return err
}

func (a *Agent) destroyCQ(index int) error {
	c := &a.cqs[index]
	if c.ties > 0 {
		return fmt.Errorf("completion queue %d has %d work queues (destroy their VIs first): %w", index, c.ties, host.ErrInUse)
	}
	if _, err := a.device.queueCommand(layout.CommandOpcodeDestroyCompletionQueue, index, 0, 0); err != nil {
		return err
	}
	c.process.uses.cqs.count--
	if err := a.unpin(c.process, c.ring); err != nil {
		return err
	}
	for _, b := range []*mem.Buffer{c.ring, c.retired} {
		if b == nil || b.Freed() { // a retired ring is not pinned, so its program can free it
			continue
		}
		if err := b.Free(); err != nil {
			return err
		}
	}
	// A late notification must still go to this process.
	a.cqs[index] = cq{process: c.process, generation: c.generation}
	return nil
}

// resizeCQ gives a completion queue another ring. The library reaps the
// remaining entries of the old ring, which stays until the next resize.
func (a *Agent) resizeCQ(index int, q *call.Request, r *call.Reply) error {
	b, log2, err := a.ring(a.cqs[index].process, q.Length)
	if err != nil {
		return err
	}
	written, err := a.device.queueCommand(layout.CommandOpcodeResizeCompletionQueue, index, firstFrame(b), log2)
	if err != nil {
		return a.discard(a.cqs[index].process, b, err)
	}
	c := &a.cqs[index]
	old := c.retired
	c.retired, c.ring = c.ring, b
	r.Address, r.Length, r.Object = b.Address(), uint64(b.Len()), written
	if err := a.unpin(c.process, c.retired); err != nil || old == nil || old.Freed() {
		return err
	}
	return old.Free()
}

func (a *Agent) tie(queues [2]uint8, by int) {
	for _, k := range queues {
		if k > 0 {
			a.cqs[k-1].ties += by
		}
	}
}

// arm requests a notification of the next completion of a work queue, or of the
// next entry of a completion queue.
func (a *Agent) arm(n *nic, q *call.Request) error {
	kind := layout.NotifyKind(q.Kind)
	switch kind {
	case layout.NotifyKindCompletionQueue:
		if _, err := a.cq(n, q); err != nil {
			return err
		}
	case layout.NotifyKindSend, layout.NotifyKindReceive:
		v, err := a.vi(n, q)
		if err != nil {
			return err
		}
		v.armed[kind] = true
	default:
		return fmt.Errorf("notification of kind %d: %w", q.Kind, host.ErrInvalidParameter)
	}
	return a.device.arm(kind, int(q.Object))
}

// raise wakes the threads that wait for a notification, for the notification or
// another event that requires a poll.
func (a *Agent) raise(kind layout.NotifyKind, index int) {
	nic, p := uint32(0), (*process)(nil)
	switch {
	case kind == layout.NotifyKindCompletionQueue && index < len(a.cqs):
		nic, p = a.cqs[index].nic, a.cqs[index].process
	case kind != layout.NotifyKindCompletionQueue && index < len(a.vis):
		nic, p = a.vis[index].nic, a.vis[index].process
	default:
		a.log.Error("notification of what the card does not have", "kind", kind.String(), "index", index)
		return
	}
	for _, at := range []int{call.NotifyWord(kind, index), call.NICWord(nic)} {
		a.show(p, at, p.shown(at)+1)
	}
}

func (a *Agent) raiseAll(index int, v *vi) {
	for kind, k := range v.queues {
		switch {
		case k > 0:
			a.raise(layout.NotifyKindCompletionQueue, int(k)-1)
		case v.armed[kind]:
			a.raise(layout.NotifyKind(kind), index)
		}
	}
}
