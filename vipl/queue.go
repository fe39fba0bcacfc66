// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// queue is the library's side of a work queue: a ring of the descriptors that
// were posted and not yet reaped, in order. The card follows the links in
// memory. Send and receive queue differ only in their doorbells and names.
type queue struct {
	vi       *VI
	receive  bool
	work     driver.WorkQueue
	put      driver.Put // enqueue, made once: a post allocates nothing
	names    *queueNames
	cq       *CQ             // that it is tied to, or nil
	arm      driver.Notifier // for blocking waits
	notifier *notifier       // of handlers
	notDone  error           // made once: polling loops return it often

	// guarded by the VI's mutex
	posted  [MaxDescriptorsPerQueue]*Descriptor
	lengths [MaxDescriptorsPerQueue]uint32 // Length at the post: completion overwrites it
	head    uint64                         // descriptors reaped so far
	tail    uint64                         // descriptors posted so far
}

type queueNames struct{ queue, post, done, wait, take string }

var (
	sendNames    = queueNames{"send queue", "post send", "send done", "send wait", "SendDone"}
	receiveNames = queueNames{"receive queue", "post receive", "receive done", "receive wait", "RecvDone"}
)

func (q *queue) slot(n uint64) **Descriptor { return &q.posted[n%MaxDescriptorsPerQueue] }

// outstanding returns the number of posted and not reaped descriptors.
func (q *queue) outstanding() uint64 { return q.tail - q.head }

func (q *queue) post(t *host.Thread, d *Descriptor) error {
	v := q.vi
	if d == nil || len(d.memory) < DescriptorBytes {
		return v.fail(q.names.post, ErrInvalidParameter, fmt.Errorf("no descriptor of %d bytes", DescriptorBytes))
	}
	if d.Address%layout.DescriptorAlignment != 0 {
		// The card would drop its doorbell, and the link to it would mislead
		// the card.
		return v.fail(q.names.post, ErrInvalidParameter, fmt.Errorf("descriptor at %#x: give a multiple of %d", d.Address, layout.DescriptorAlignment))
	}
	if v.stale() {
		return v.fail(q.names.post, ErrInvalidParameter, errDestroyed)
	}
	if err := v.nic.deliver(t); err != nil {
		return err
	}
	if err := t.Spend(host.LayerLibrary, v.nic.costs.Post); err != nil {
		return translate(q.names.post, v, err)
	}
	if err := q.work.Post(t, d, q.put); err != nil {
		return translate(q.names.post, v, err)
	}
	if q.cq == nil {
		return nil
	}
	// A waiter at the completion queue does not see the state of each VI.
	return v.settle(t)
}

// enqueue links a *Descriptor and rings under one lock, so that doorbells have
// the order of the queue, whichever thread posts.
func (q *queue) enqueue(t *host.Thread, posted any, ring driver.Ring) error {
	v, d := q.vi, posted.(*Descriptor)
	v.mu.Lock()
	defer v.mu.Unlock()
	if q.outstanding() == MaxDescriptorsPerQueue {
		return &Error{Op: q.names.post, VI: v, Descriptor: d, Number: q.tail, Status: ErrResource,
			Detail: fmt.Errorf("%d descriptors are outstanding (take some with %s): %w", MaxDescriptorsPerQueue, q.names.take, ErrOverrun)}
	}
	if q.outstanding() > 0 {
		// The card reads the link when it fetches the predecessor. If the queue
		// has run empty by then, the doorbell names this descriptor.
		previous := *q.slot(q.tail - 1)
		previous.memory.SetNext(d.Address)
		previous.memory.SetNextHandle(uint32(d.Handle))
	}
	length := d.memory.Length()
	if err := ring(t, d.Address, uint32(d.Handle)); err != nil {
		return err
	}
	*q.slot(q.tail), q.lengths[q.tail%MaxDescriptorsPerQueue] = d, length
	q.tail++
	return nil
}

func (q *queue) done(t *host.Thread) (*Descriptor, error) {
	v := q.vi
	if v.stale() {
		return nil, v.fail(q.names.done, ErrInvalidParameter, errDestroyed)
	}
	if err := v.nic.deliver(t); err != nil {
		return nil, err
	}
	d, err := q.look(t, q.names.done)
	if d == nil && err == nil {
		again, failed := q.work.Reap(t)
		if failed != nil {
			return nil, translate(q.names.done, v, failed)
		}
		if again {
			d, err = q.look(t, q.names.done)
		}
	}
	if d == nil && err == nil {
		if err := t.Spend(host.LayerPoll, v.nic.costs.PollPeriod()); err != nil {
			return nil, translate(q.names.done, v, err)
		}
		return nil, q.notDone
	}
	return q.charge(t, q.names.done, d, err)
}

// errTied is the error of waiting on a tied queue. Only its completion queue
// reports completions; two waiters would take them from each other.
func (q *queue) errTied(op, instead string) error {
	return q.vi.fail(op, ErrResource, fmt.Errorf("the %s is tied to completion queue %d: use %s, then %s", q.names.queue, q.cq.cq.Number, instead, q.names.take))
}

// wait is done that waits. Asynchronous errors are delivered meanwhile.
func (q *queue) wait(t *host.Thread, timeout host.Time) (*Descriptor, error) {
	v := q.vi
	if v.stale() {
		return nil, v.fail(q.names.wait, ErrInvalidParameter, errDestroyed)
	}
	if q.cq != nil {
		return nil, q.errTied(q.names.wait, "CQ.Wait")
	}
	wait := q.work.Wait(v.blocks.Load())
	left := t.Countdown(timeout)
	for looked := false; ; looked = true {
		if err := v.nic.deliver(t); err != nil {
			return nil, err
		}
		wait.Polls()
		d, err := q.look(t, q.names.wait)
		if d != nil || err != nil {
			return q.charge(t, q.names.wait, d, err)
		}
		if (looked || wait.Sleeps()) && left() <= 0 {
			return nil, v.fail(q.names.wait, ErrTimeout, fmt.Errorf("nothing completed within %v", timeout))
		}
		err = wait.Block(t, left, func(timeout host.Time, blocked bool, woken func() bool) (bool, error) {
			return q.await(t, timeout, blocked, woken)
		})
		if err != nil {
			return nil, translate(q.names.wait, v, err)
		}
	}
}

func (q *queue) charge(t *host.Thread, op string, d *Descriptor, err error) (*Descriptor, error) {
	cost := q.vi.nic.costs.SendDone
	if q.receive {
		cost = q.vi.nic.costs.ReceiveDone
	}
	if charge := t.Spend(host.LayerLibrary, cost); charge != nil {
		return d, translate(op, q.vi, charge)
	}
	return d, err
}

// look reaps the head of the queue. If the head is incomplete and the VI is in
// the error state, it first flushes the unfinished descriptors.
func (q *queue) look(t *host.Thread, op string) (*Descriptor, error) {
	d, err := q.take(op)
	if d != nil || err != nil {
		return d, err
	}
	switch s, _ := q.vi.vi.State(); s {
	case ErrorState:
		if err := q.vi.settle(t); err != nil {
			return nil, err
		}
		return q.take(op)
	case layout.VIStateFree:
		return nil, q.vi.fail(op, ErrInvalidParameter, errDestroyed)
	}
	return nil, nil
}

// await waits until the head of the queue has completed, the VI is broken or
// gone, or deliver has work, and says whether that took time. If notified is
// not nil, a completion wakes the thread only through its interrupt, not
// through the descriptor's status.
func (q *queue) await(t *host.Thread, timeout host.Time, blocked bool, notified func() bool) (bool, error) {
	v := q.vi
	v.mu.Lock()
	if q.outstanding() == 0 {
		v.mu.Unlock()
		return false, nil // another thread reaped it
	}
	head := *q.slot(q.head)
	v.mu.Unlock()
	var room [4]mem.Range
	ranges := v.nic.watch(append(room[:0], v.status))
	done := notified
	if notified != nil {
		ranges = append(ranges, q.arm.Range())
	} else {
		// If the library cannot read the descriptor, only a change of state
		// ends this.
		if all, err := v.nic.host.Memory().Physical(ranges, head.Address+layout.DescriptorStatusOffset, 4); err == nil {
			ranges = all
		}
		done = func() bool { return head.Status()&DescriptorDone != 0 }
	}
	began := t.Now()
	_, err := t.Poll(host.Poll{Ranges: ranges, Period: v.nic.costs.PollPeriod(), Timeout: timeout, Blocked: blocked}, func() bool {
		s, _ := v.vi.State()
		return done() || s == ErrorState || s == layout.VIStateFree || v.nic.attention(t)
	})
	return t.Now() > began, err
}

var (
	errEmpty     = errors.New("the queue is empty")
	errDestroyed = errors.New("the VI was destroyed")
)

// take removes and returns the head of the queue if it has completed; otherwise
// neither descriptor nor error.
func (q *queue) take(op string) (*Descriptor, error) {
	v := q.vi
	v.mu.Lock()
	defer v.mu.Unlock()
	if q.outstanding() == 0 {
		return nil, v.fail(op, ErrDescriptor, errEmpty)
	}
	d := *q.slot(q.head)
	s := d.Status()
	if s&DescriptorDone == 0 {
		return nil, nil
	}
	*q.slot(q.head) = nil
	number := q.head
	q.head++
	if s&DescriptorErrorMask != 0 {
		return d, &Error{Op: op, VI: v, Descriptor: d, Number: number, Status: ErrDescriptor, Bits: s,
			Detail: q.explain(d, s, q.lengths[number%MaxDescriptorsPerQueue])}
	}
	return d, nil
}

// explain says why a descriptor with the given Length failed, with the lengths
// if it can. The mutex is held.
func (q *queue) explain(d *Descriptor, s DescriptorStatus, length uint32) error {
	if s&layout.DescriptorStatusLengthErrorMask != 0 {
		bytes, limit := d.dataBytes(), q.vi.attributes.MaxTransferSize
		unequal := uint64(length) != bytes
		switch {
		case length > uint32(limit):
			return fmt.Errorf("length %d > max transfer size %d", length, limit)
		case unequal && q.receive:
			return fmt.Errorf("the message is longer than the descriptor takes: its length is %d, its segments have %d bytes; %d bytes of the message are in memory",
				length, bytes, d.Length())
		case unequal:
			return fmt.Errorf("length %d, but the segments have %d bytes", length, bytes)
		case q.receive:
			return fmt.Errorf("the message is longer than its buffers: %d bytes of it are in memory", d.Length())
		}
	}
	return fmt.Errorf("%v (status %#x)", s, uint32(s))
}

// incomplete says whether a descriptor is outstanding and not done. Descriptors
// complete in order. The mutex is held.
func (q *queue) incomplete() bool {
	return q.outstanding() > 0 && (*q.slot(q.tail - 1)).Status()&DescriptorDone == 0
}

// flush completes the unfinished descriptors in order. It returns the ranges it
// wrote and the number of descriptors. The mutex is held, and the card holds
// nothing of the VI.
func (q *queue) flush() (written []mem.Range, completed int) {
	for n := q.head; n < q.tail; n++ {
		d := *q.slot(n)
		if d.Status()&DescriptorDone != 0 {
			continue
		}
		echo := layout.StatusOperationReceive
		if !q.receive {
			echo = [...]layout.StatusOperation{
				layout.DescriptorOperationSend: layout.StatusOperationSend, layout.DescriptorOperationRDMAWrite: layout.StatusOperationRDMAWrite,
				layout.DescriptorOperationRDMARead: layout.StatusOperationRDMARead, layout.DescriptorOperationReserved: layout.StatusOperationSend,
			}[d.operation()]
		}
		d.memory.SetLength(0)
		mem.StoreUint32(d.memory[layout.DescriptorStatusOffset:],
			layout.DescriptorStatusDoneMask|layout.DescriptorStatusFlushedMask|uint32(echo)<<layout.DescriptorStatusOperationLsb)
		if r, err := q.vi.nic.host.Memory().Physical(nil, d.Address+layout.DescriptorStatusOffset, 4); err == nil {
			written = append(written, r...)
		}
		completed++
	}
	return written, completed
}
