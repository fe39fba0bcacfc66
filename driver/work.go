// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/driver/internal/agent"
	"hvia/driver/internal/softvia"
	"hvia/host"
	"hvia/layout"
)

// WorkQueue is the interface of a device to the library for each message. The
// card takes a post as one burst write; M-VIA takes it in a system call.
type WorkQueue interface {
	// Post lets put link a descriptor into the queue and announce it with ring.
	// ring takes no time and does not wait, so put may hold a lock during it.
	Post(t *host.Thread, d any, put Put) error
	// Reap completes sends whose end only the kernel can detect. It returns
	// false if the device writes every completion itself.
	Reap(t *host.Thread) (bool, error)
	// Wait starts a wait for a completion. With sleep it does not poll.
	Wait(sleep bool) Wait
}

// Put links a descriptor and announces it with ring.
type Put func(t *host.Thread, d any, ring Ring) error

// Ring announces a descriptor.
type Ring func(t *host.Thread, address uint64, handle uint32) error

// Wait is one wait for a completion.
type Wait interface {
	// Polls must be called before each poll, so that a later change ends the
	// next Block.
	Polls()
	// Sleeps reports whether the wait needs no further poll after its timeout.
	Sleeps() bool
	// Block returns when another poll may succeed.
	Block(t *host.Thread, left func() host.Time, await Await) error
}

// Await waits until there may be a completion, and reports whether it took
// time. It polls memory unless blocked; if woken is given, it checks only that.
type Await func(timeout host.Time, blocked bool, woken func() bool) (slept bool, err error)

// WorkQueue returns the device's side of the VI's send or receive queue.
func (v VI) WorkQueue(receive bool) WorkQueue {
	if m := v.host.kernel(); m != nil {
		id := softvia.QueueID{VI: v.Index, Of: softvia.SendQueue}
		if receive {
			id.Of = softvia.ReceiveQueue
		}
		q := &kernelQueue{host: v.host, mvia: m, id: id}
		q.ring = q.announce
		return q
	}
	q := &cardQueue{host: v.host, at: v.Notifier(receive), doorbell: v.Doorbell(receive)}
	q.ring = q.announce
	return q
}

// WorkQueue returns the device's side of the completion queue, which takes no
// posts.
func (c *CQ) WorkQueue() WorkQueue {
	if m := c.host.kernel(); m != nil {
		return &kernelQueue{host: c.host, mvia: m}
	}
	return &cardQueue{host: c.host, at: c.Notifier()}
}

// Doorbell returns the physical address of the VI's send or receive doorbell.
func (v VI) Doorbell(receive bool) uint32 {
	at := layout.PciBar1Base + uint32(v.Index)*layout.DoorbellPageBytes
	if receive {
		return at + layout.DoorbellReceive
	}
	return at + layout.DoorbellSend
}

// kernel returns the host's software VIA, nil if VIA is in the card.
func (h *Host) kernel() *agent.MVIA {
	if h.Agent == nil {
		return nil
	}
	return h.Agent.MVIA()
}

type cardQueue struct {
	host     *Host
	at       Notifier
	doorbell uint32
	ring     Ring // created once: a post allocates nothing
}

func (q *cardQueue) Post(t *host.Thread, d any, put Put) error { return put(t, d, q.ring) }

func (q *cardQueue) announce(t *host.Thread, address uint64, handle uint32) error {
	return t.Write(q.doorbell, uint32(address), uint32(address>>32), handle)
}

func (q *cardQueue) Reap(*host.Thread) (bool, error) { return false, nil }

func (q *cardQueue) Wait(sleep bool) Wait {
	if sleep {
		return &sleeper{host: q.host, at: q.at}
	}
	return polling{}
}

type polling struct{}

func (polling) Polls()       {}
func (polling) Sleeps() bool { return false }

func (polling) Block(_ *host.Thread, left func() host.Time, await Await) error {
	_, err := await(max(left(), 0), false, nil)
	return err
}

type sleeper struct {
	host  *Host
	at    Notifier
	armed bool   // at the count since
	since uint32 // count of notifications at the arming
	count uint32 // before the last poll
}

func (s *sleeper) Polls()       { s.count = s.at.Count() }
func (s *sleeper) Sleeps() bool { return true }

// The first Block arms. After the caller's next poll, Block waits until the
// count changes. A notification disarms.
func (s *sleeper) Block(t *host.Thread, left func() host.Time, await Await) error {
	if !s.armed || s.since != s.count {
		s.armed, s.since = true, s.count
		return s.at.Arm(t)
	}
	slept, err := await(left(), true, func() bool { return s.at.Count() != s.since })
	if err == nil && slept {
		err = s.host.Switch(t)
	}
	return err
}

type kernelQueue struct {
	host *Host
	mvia *agent.MVIA
	id   softvia.QueueID // Of is 0 for a completion queue
	ring Ring
}

// Post enters the kernel, which then sends the descriptors on the send queue,
// unless another thread is sending.
func (q *kernelQueue) Post(t *host.Thread, d any, put Put) error {
	if err := q.trap(t); err != nil {
		return err
	}
	if err := put(t, d, q.ring); err != nil || q.id.Of == softvia.ReceiveQueue {
		return err
	}
	return q.mvia.CarryOut(t, q.id.VI)
}

func (q *kernelQueue) trap(t *host.Thread) error {
	return t.Spend(host.LayerTrap, q.host.costs.Kernel.Trap)
}

func (q *kernelQueue) announce(t *host.Thread, address uint64, handle uint32) error {
	return q.mvia.Ring(t, q.id, address, handle)
}

// Reap completes the frames that the NIC has read. Receives need no Reap.
func (q *kernelQueue) Reap(t *host.Thread) (bool, error) {
	if q.id.Of == softvia.ReceiveQueue {
		return false, nil
	}
	return true, q.reap(t)
}

func (q *kernelQueue) reap(t *host.Thread) error {
	if err := q.trap(t); err != nil {
		return err
	}
	return q.mvia.Ethernet.Reap(t)
}

// A wait always sleeps in the kernel.
func (q *kernelQueue) Wait(bool) Wait { return q }
func (q *kernelQueue) Polls()         {}
func (q *kernelQueue) Sleeps() bool   { return false }

func (q *kernelQueue) Block(t *host.Thread, left func() host.Time, await Await) error {
	if err := q.reap(t); err != nil {
		return err
	}
	slept, err := await(max(left(), 0), true, nil)
	if err != nil || !slept {
		return err
	}
	kernel := q.host.costs.Kernel
	if err := t.Sleep(kernel.Mvia.Wake); err != nil {
		return err
	}
	return t.Spend(host.LayerSwitch, kernel.Switch)
}
