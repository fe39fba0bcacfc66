// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// VIP_RESOURCE_CODE of vipl.h: the subject of an asynchronous error.
const (
	ResourceNIC        = 0
	ResourceVI         = 1
	ResourceCQ         = 2
	ResourceDescriptor = 3
)

// ErrorDescriptor is VIP_ERROR_DESCRIPTOR. It does not name the descriptor,
// which the card could not read or write.
type ErrorDescriptor struct {
	NIC       *NIC
	VI        *VI                    // nil if the error is about none, or the VI was destroyed meanwhile
	CQ        *CQ                    // of ResourceCQ; nil if the VI's queues have different ones
	Resource  int                    // ResourceNIC and so on
	Code      layout.AsyncError      // VIP_ERROR_CODE
	Operation layout.StatusOperation // of the failed message, if the error has it, else Send
	Lost      int                    // of code Overflow: number of dropped errors
}

const errorsAtOnce = 64

type errorHandler = func(t *host.Thread, e ErrorDescriptor)

// ErrorCallback registers a handler of the NIC handle's asynchronous errors,
// including those that wait already. It runs on the thread whose call delivers
// the error, and may call the library on that thread. Nil restores the default:
// the agent logs the error, and ErrorWait returns it.
//
// VIPL runs the handler in a separate context. Here, like a Unix signal
// handler, it runs in calls of the library on the same NIC handle: in Post,
// Done, Wait and Poll before they do their work, in SendWait, RecvWait and
// ErrorWait also while they wait, and in Disconnect and VI.Destroy before they
// return. So a run with handlers is reproducible. For a separate context, let a
// thread call ErrorWait.
func (n *NIC) ErrorCallback(h func(t *host.Thread, e ErrorDescriptor)) error {
	if n == nil {
		return missing("error callback", "NIC handle")
	}
	if n.closed.Load() {
		return fail("error callback", ErrInvalidParameter, errNICClosed)
	}
	if h == nil {
		n.handler.Store(nil)
	} else {
		n.handler.Store(&h)
	}
	return nil
}

func (n *NIC) handled() bool { return n.handler.Load() != nil }

func (n *NIC) errorWaits(t *host.Thread) bool {
	return n.handled() && !n.delivering.Load() && n.host.ErrorWaits(t, n.info.ID)
}

// deliver calls the handlers of asynchronous errors and notifications. It does
// not nest: events during a handler's call of the library are delivered when
// the handler returns.
func (n *NIC) deliver(t *host.Thread) error {
	// All calls that reap begin here, and a forked child must reap nothing.
	if err := t.Forked(); err != nil {
		return translate("call of a forked process", nil, err)
	}
	if err := n.deliverErrors(t); err != nil || n.listed.Load() == 0 {
		return err
	}
	return n.serve(t)
}

func (n *NIC) deliverErrors(t *host.Thread) error {
	if !n.errorWaits(t) || !n.delivering.CompareAndSwap(false, true) {
		return nil
	}
	defer n.delivering.Store(false)
	// A stream of errors must not hold the caller forever.
	for range errorsAtOnce {
		if !n.host.ErrorWaits(t, n.info.ID) {
			return nil
		}
		e, ok, err := n.host.NextError(t, n.info.ID)
		if err != nil {
			return translate("deliver asynchronous errors", nil, err)
		}
		h := n.handler.Load()
		if !ok || h == nil {
			return nil
		}
		(*h)(t, n.describe(e))
		n.served.Add(1)
	}
	return nil
}

func (n *NIC) describe(e driver.AsyncError) ErrorDescriptor {
	d := ErrorDescriptor{NIC: n, Resource: ResourceVI, Code: e.Code, Lost: e.Lost}
	switch e.Code {
	case layout.AsyncErrorPostDescriptor, layout.AsyncErrorCompletionProtection:
		d.Resource = ResourceDescriptor
	case layout.AsyncErrorReceiveQueueEmpty:
		d.Operation = layout.StatusOperationReceive
	case layout.AsyncErrorRDMAWriteProtection, layout.AsyncErrorRDMAWriteData, layout.AsyncErrorRDMAWriteAbort:
		d.Operation = layout.StatusOperationRemoteRDMAWrite
	case layout.AsyncErrorRDMAReadProtection:
		d.Operation = layout.StatusOperationRDMARead
	}
	if e.Code == layout.AsyncErrorCompletionQueueOverrun {
		d.Resource, d.Code = ResourceCQ, layout.AsyncErrorCatastrophic
	}
	if e.VI < 0 {
		d.Resource = ResourceNIC
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if v := n.vis[e.VI]; v != nil && v.vi.Reported(e) {
		d.VI = v
		if tied := v.tied(); d.Resource == ResourceCQ && len(tied) == 1 {
			d.CQ = tied[0]
		}
	}
	return d
}

// ErrorWait returns the oldest asynchronous error of this handle that no
// handler received. It waits for one; ErrTimeout when the timeout comes first,
// and timeout 0 only polls. Code Overflow, of no VI (-1), has the number of
// dropped errors in Lost. LinkDown and LinkUp are of no VI either: they report
// the link of the NIC. A handler receives the errors instead, and ErrorWait
// lasts until the timeout.
func (n *NIC) ErrorWait(t *host.Thread, timeout host.Time) (driver.AsyncError, error) {
	const op = "wait for an asynchronous error"
	if n == nil {
		return driver.AsyncError{}, missing(op, "NIC handle")
	}
	left := t.Countdown(timeout)
	for {
		handled := n.handled()
		if handled {
			if err := n.deliver(t); err != nil {
				return driver.AsyncError{}, err
			}
		} else if e, ok, err := n.host.NextError(t, n.info.ID); ok || err != nil {
			return e, translate(op, nil, err)
		}
		span := left()
		if span > 0 {
			ok, err := t.Poll(host.Poll{Ranges: []mem.Range{n.errors}, Period: n.costs.PollPeriod(), Timeout: span}, func() bool {
				return n.host.ErrorWaits(t, n.info.ID)
			})
			if err != nil {
				return driver.AsyncError{}, translate(op, nil, err)
			}
			if ok {
				continue
			}
		}
		return driver.AsyncError{}, fail(op, ErrTimeout, fmt.Errorf("none came within %v", timeout))
	}
}
