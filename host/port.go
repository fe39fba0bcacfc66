// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"slices"

	"hvia/layout"
	"hvia/sim/bridge"
)

// Port is the fabric as a thread needs it: a clock, posted commands and waits.
// The fabric simulator implements it through package bridge; a test may bring
// another fabric (package drivertest).
type Port interface {
	Clock() Time
	Begin(ctx context.Context) error
	Post(ctx context.Context, commands ...bridge.Command) error
	Park(ctx context.Context, w bridge.Wait) (bridge.Wake, error)
	Detach() error
	Timed() bool
	Nodes() int
}

// NewThread creates a thread of a port other than the fabric simulator's.
func NewThread(ctx context.Context, p Port, id ThreadID, name string) *Thread {
	return &Thread{port: p, id: id, name: name, ctx: ctx}
}

// The calls below choose between the simulator's slot and another port. The
// slot is not called through the interface, because then every command of the
// fast path would escape to the heap.

func (t *Thread) clock() Time {
	if t.port != nil {
		return t.port.Clock()
	}
	return t.slot.Clock()
}

func (t *Thread) begin() error {
	if t.port != nil {
		return t.port.Begin(t.ctx)
	}
	return t.slot.Begin(t.ctx)
}

func (t *Thread) post(commands ...bridge.Command) error {
	if t.port != nil {
		return t.port.Post(t.ctx, slices.Clone(commands)...)
	}
	return t.slot.Post(t.ctx, commands...)
}

func (t *Thread) parkSlot(w bridge.Wait) (bridge.Wake, error) {
	if t.port != nil {
		return t.port.Park(t.ctx, w)
	}
	return t.slot.Park(t.ctx, w)
}

// processorBusy reports whether another thread holds the node's processor. Only
// the simulator's ports have a processor.
func (t *Thread) processorBusy() bool { return t.port == nil && t.slot.ProcessorBusy() }

func (t *Thread) detachSlot() error {
	if t.port != nil {
		return t.port.Detach()
	}
	return t.slot.Detach()
}

func (t *Thread) timed() bool {
	if t.port != nil {
		return t.port.Timed()
	}
	return t.conn.Timed()
}

func (t *Thread) Nodes() int {
	if t.port != nil {
		return t.port.Nodes()
	}
	return t.conn.Nodes()
}

// WaitEvent waits for a message, the interrupt or the timeout. The kernel agent
// uses it.
func (t *Thread) WaitEvent(timeout Time) (bridge.Wake, error) {
	if err := t.enter("wait for work"); err != nil {
		return bridge.Wake{}, err
	}
	defer t.leave()
	for {
		wake, err := t.parkSlot(bridge.Wait{Timeout: timeout, Interrupt: true, Message: true})
		if err != nil {
			return wake, t.fail("wait for work", err)
		}
		switch wake.Reason {
		case layout.BridgeReasonMessage, layout.BridgeReasonInterrupt, layout.BridgeReasonDeadline:
			return wake, nil
		}
		// In free mode a wakeup for an earlier wait may come late.
	}
}
