// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"math/bits"
	"slices"

	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

type queuedError struct {
	call.AsyncError
	since host.Time
}

func (a *Agent) nextError(n *nic, r *call.Reply) error {
	if len(n.errors) == 0 {
		return nil
	}
	e := n.errors[0]
	n.errors = n.errors[1:]
	a.showErrors(n)
	// The generation of a VI is never 0, and an error without a VI has index
	// -1. Both 0 means that no error is queued.
	r.State, r.Object, r.Generation, r.Length = uint8(e.Code), uint32(e.VI), e.Generation, uint64(e.Lost)
	return nil
}

// showErrors publishes the time since which an error is queued for a NIC
// handle. It is a time and not a flag so that the result of a poll at the
// instant of the change does not depend on which of the two ran first.
func (a *Agent) showErrors(of *nic) {
	p, at := of.process, call.ErrorsWord(of.id)
	if p.ended {
		return
	}
	oldest := host.Never
	for _, n := range a.nics {
		if n.process == p && call.ErrorsWord(n.id) == at && len(n.errors) > 0 {
			oldest = min(oldest, n.errors[0].since)
		}
	}
	mem.StoreUint64(p.Statuses.Bytes()[at:], uint64(oldest))
	a.broken(a.thread.Publish(p.Statuses.Physical(nil, at, 8)...))
}

// report queues an asynchronous error for the program that owns the VI. The
// first error of each kind of a VI is never dropped; the number of VIs bounds
// these. A repeated error is dropped when maxErrors are queued.
func (a *Agent) report(n *nic, e call.AsyncError) {
	a.log.Warn("asynchronous error", "code", e.Code.String(), "vi", e.VI)
	if n == nil {
		return
	}
	if len(n.errors) >= maxErrors && slices.ContainsFunc(n.errors, func(q queuedError) bool { return q.AsyncError == e }) {
		a.overflow(n, 1)
		return
	}
	a.queueError(n, e)
}

func (a *Agent) queueError(n *nic, e call.AsyncError) {
	n.errors = append(n.errors, queuedError{e, a.thread.Now()})
	if len(n.errors) == 1 {
		a.showErrors(n)
	}
}

// overflow reports dropped errors at the queue position of the first of them.
func (a *Agent) overflow(n *nic, dropped int) {
	for i := range n.errors {
		if q := &n.errors[i]; q.Code == layout.AsyncErrorOverflow {
			q.Lost += dropped
			return
		}
	}
	a.queueError(n, call.AsyncError{Code: layout.AsyncErrorOverflow, VI: -1, Lost: dropped})
}

// forgetErrors limits the queued errors of destroyed VIs: a program can create
// and destroy any number.
func (a *Agent) forgetErrors(n *nic, v *vi, index int) {
	if n == nil || len(n.errors) <= maxErrors {
		return
	}
	kept := slices.DeleteFunc(n.errors, func(q queuedError) bool { return q.VI == index && q.Generation == v.created })
	dropped := len(n.errors) - len(kept)
	n.errors = kept
	if dropped > 0 {
		a.overflow(n, dropped)
	}
	a.showErrors(n)
}

func (a *Agent) asyncErrors() error {
	waiting, dropped, err := a.device.asyncErrors()
	if err != nil {
		return err
	}
	for _, e := range waiting {
		a.asyncError(e)
	}
	// Only the VI of a dropped error is known. The card may have lost the VI's
	// queue, so every marked VI breaks unless it is already in the error state.
	// Unmarked VIs continue.
	for i, word := range dropped {
		for ; word != 0; word &= word - 1 {
			index := 32*i + bits.TrailingZeros32(word)
			if index < len(a.vis) && a.vis[index].state == layout.VIStateError {
				continue
			}
			a.asyncError(call.AsyncError{Code: layout.AsyncErrorCatastrophic, VI: index})
		}
	}
	return a.fatal
}

func (a *Agent) asyncError(e call.AsyncError) {
	if e.VI >= len(a.vis) {
		a.log.Error("asynchronous error of a VI that the card does not have", "code", e.Code.String(), "vi", e.VI)
		return
	}
	if e.VI < 0 {
		for _, id := range slices.Sorted(maps.Keys(a.nics)) {
			a.report(a.nics[id], e)
		}
		return
	}
	v := &a.vis[e.VI]
	if v.state == layout.VIStateFree {
		return
	}
	if e.Code == layout.AsyncErrorConnectionLost {
		if v.state != layout.VIStateIdle {
			a.fail(e.VI)
			a.lose(e.VI)
		}
		return
	}
	e.Generation = v.created
	a.report(a.nics[v.nic], e)
	switch e.Code {
	case layout.AsyncErrorVIOverrun, layout.AsyncErrorCompletionQueueOverrun:
		// A post or an entry was lost, and the queue continues.
	case layout.AsyncErrorPostDescriptor, layout.AsyncErrorCompletionProtection, layout.AsyncErrorCatastrophic:
		// A descriptor never gets a status: the card could not read it and has
		// lost the queue behind it, or could not write to it. So the VI breaks,
		// also an unreliable one.
		a.fail(e.VI)
	default:
		if v.reliable() && v.state != layout.VIStateIdle {
			a.fail(e.VI)
		}
	}
}
