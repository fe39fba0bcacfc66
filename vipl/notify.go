// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

type notifyHandler = func(t *host.Thread, v *VI, d *Descriptor)

// SendNotify registers a handler of the next completion of the send queue. It
// receives the completed descriptor, as SendDone would return it. One
// registration is one call; registrations are served in order. If a descriptor
// has completed already, the handler runs at once; otherwise the card's
// interrupt is armed.
//
// Handlers run in the same calls of the library as those of ErrorCallback, and
// in NotifyWait. Destroying the VI cancels registrations. ErrResource on a
// queue that is tied to a completion queue.
func (v *VI) SendNotify(t *host.Thread, h func(t *host.Thread, v *VI, d *Descriptor)) error {
	if v == nil {
		return missing("send notify", "VI")
	}
	return v.send.notify(t, "send notify", h)
}

// RecvNotify is SendNotify for the receive queue.
func (v *VI) RecvNotify(t *host.Thread, h func(t *host.Thread, v *VI, d *Descriptor)) error {
	if v == nil {
		return missing("receive notify", "VI")
	}
	return v.receive.notify(t, "receive notify", h)
}

func (q *queue) notify(t *host.Thread, op string, h notifyHandler) error {
	if s, _ := q.vi.vi.State(); s == layout.VIStateFree || q.vi.stale() {
		return q.vi.fail(op, ErrInvalidParameter, errDestroyed)
	}
	if h == nil {
		return q.vi.fail(op, ErrInvalidParameter, errNoHandler)
	}
	if q.cq != nil {
		return q.errTied(op, "CQ.Notify")
	}
	return translate(op, q.vi, q.notifier.register(t, func(t *host.Thread) (func(), error) {
		d, err := q.lookFor(t, op)
		if d == nil {
			return nil, err
		}
		return func() { h(t, q.vi, d) }, nil
	}))
}

// lookFor polls for a handler; an empty queue is no error.
func (q *queue) lookFor(t *host.Thread, op string) (*Descriptor, error) {
	d, err := q.look(t, op)
	if d == nil {
		if errors.Is(err, errEmpty) || errors.Is(err, errDestroyed) {
			err = nil
		}
		return nil, err
	}
	d, err = q.charge(t, op, d, nil)
	return d, err
}

var errNoHandler = errors.New("no handler")

// notifier serves the registered handlers of a work queue or completion queue.
type notifier struct {
	nic *NIC
	at  driver.Notifier

	// Guarded by the NIC's mutex. A registration polls for one completion and
	// returns the call of its handler, nil if there is none.
	waiting []func(t *host.Thread) (func(), error)
	fresh   bool   // not polled since the last registration
	count   uint32 // notifications at the last poll
}

func newNotifier(n *NIC, at driver.Notifier) *notifier { return &notifier{nic: n, at: at} }

// register adds a handler and serves completions that are already there.
func (k *notifier) register(t *host.Thread, look func(t *host.Thread) (func(), error)) error {
	n := k.nic
	n.mu.Lock()
	if len(k.waiting) == 0 {
		n.notifiers = append(n.notifiers, k)
		n.listed.Store(int32(len(n.notifiers)))
	}
	k.waiting, k.fresh = append(k.waiting, look), true
	n.mu.Unlock()
	return n.serve(t)
}

func (k *notifier) cancel() {
	k.nic.mu.Lock()
	defer k.nic.mu.Unlock()
	k.waiting = nil
	k.unlist()
}

// unlist removes a notifier without registrations. The mutex is held.
func (k *notifier) unlist() {
	k.nic.notifiers = slices.DeleteFunc(k.nic.notifiers, func(o *notifier) bool { return o == k })
	k.nic.listed.Store(int32(len(k.nic.notifiers)))
}

type notifications struct {
	listed    atomic.Int32 // length of notifiers
	serving   atomic.Bool  // a thread serves them
	served    atomic.Uint64
	notified  mem.Range   // the word that counts notifications
	notifiers []*notifier // with registrations, by the time of their first; guarded by the NIC's mutex
}

const handlersAtOnce = 64

func (n *NIC) due() *notifier {
	if n.listed.Load() == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.notifiers {
		if k.fresh || k.at.Count() != k.count {
			return k
		}
	}
	return nil
}

func (n *NIC) notificationWaits() bool { return !n.serving.Load() && n.due() != nil }

// serve calls the handlers of completions. It does not nest: completions during
// a handler's call of the library are served when the handler returns.
func (n *NIC) serve(t *host.Thread) error {
	// A thread that finds another one serving leaves the work to it.
	for calls := 0; calls < handlersAtOnce && n.due() != nil; {
		if !n.serving.CompareAndSwap(false, true) {
			return nil
		}
		k := n.due()
		if k != nil {
			done, err := k.serve(t, handlersAtOnce-calls)
			calls += done
			if err != nil {
				n.serving.Store(false)
				return err
			}
		}
		n.serving.Store(false)
	}
	return nil
}

// serve arms, polls, and calls the handlers of the completions it finds.
func (k *notifier) serve(t *host.Thread, limit int) (calls int, err error) {
	n := k.nic
	n.mu.Lock()
	k.fresh, k.count = false, k.at.Count()
	n.mu.Unlock()
	armed := false
	for calls < limit {
		n.mu.Lock()
		if len(k.waiting) == 0 {
			k.unlist()
			n.mu.Unlock()
			return calls, nil
		}
		look := k.waiting[0]
		n.mu.Unlock()
		call, err := look(t)
		switch {
		case err != nil:
			return calls, err
		case call != nil:
			n.mu.Lock()
			if len(k.waiting) > 0 { // else cancelled meanwhile
				k.waiting = k.waiting[1:]
			}
			n.mu.Unlock()
			call()
			n.served.Add(1)
			calls++
		case armed:
			return calls, nil
		default:
			// A completion before the arming raises no interrupt: poll once
			// more.
			if err := k.at.Arm(t); err != nil {
				return calls, err
			}
			armed = true
		}
	}
	n.mu.Lock()
	k.fresh = true // more may be there
	n.mu.Unlock()
	return calls, nil
}

// NotifyWait sleeps until a handler of SendNotify, RecvNotify, CQ.Notify or
// ErrorCallback has been called; ErrTimeout when the timeout comes first. It is
// for a thread that only runs handlers.
func (n *NIC) NotifyWait(t *host.Thread, timeout host.Time) error {
	const op = "wait for notifications"
	if n == nil {
		return missing(op, "NIC handle")
	}
	left := t.Countdown(timeout)
	before := n.served.Load()
	for {
		count := n.host.Notifications(n.info.ID)
		if err := n.deliver(t); err != nil {
			return err
		}
		if n.served.Load() != before {
			return nil
		}
		if n.closed.Load() {
			return fail(op, ErrInvalidParameter, errNICClosed)
		}
		span := left()
		if span <= 0 {
			return fail(op, ErrTimeout, fmt.Errorf("none came within %v", timeout))
		}
		began := t.Now()
		_, err := t.Poll(host.Poll{Ranges: []mem.Range{n.notified, n.errors}, Timeout: span, Blocked: true}, func() bool {
			return n.host.Notifications(n.info.ID) != count || n.attention(t)
		})
		if err == nil && t.Now() > began {
			err = n.host.Switch(t)
		}
		if err != nil {
			return translate(op, nil, err)
		}
	}
}

func (n *NIC) attention(t *host.Thread) bool { return n.errorWaits(t) || n.notificationWaits() }

// watch adds the words that change when deliver gets work.
func (n *NIC) watch(ranges []mem.Range) []mem.Range {
	if n.handled() {
		ranges = append(ranges, n.errors)
	}
	if n.listed.Load() > 0 {
		ranges = append(ranges, n.notified)
	}
	return ranges
}
