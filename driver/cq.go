// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// CQ names a completion queue of the card.
type CQ struct {
	Number     int
	nic        uint32
	generation uint32
	host       *Host
}

// tied returns the number that names a completion queue in a VI's context; 0
// for none.
func (c *CQ) tied() uint8 {
	if c == nil {
		return 0
	}
	return uint8(c.Number + 1)
}

func (c *CQ) request(op call.Operation) *call.Request {
	return &call.Request{Op: op, NIC: c.nic, Object: uint32(c.Number), Generation: c.generation}
}

// CreateCQ creates a completion queue of at least the given number of entries,
// and returns its ring: a layout.CompletionQueueHeader followed by the entries.
func (h *Host) CreateCQ(t *host.Thread, nic uint32, entries int) (*CQ, *mem.Buffer, error) {
	r, err := h.call(t, &call.Request{Op: call.OpCreateCQ, NIC: nic, Length: uint64(max(entries, 0))})
	if err != nil {
		return nil, nil, err
	}
	ring, err := h.ring(r)
	return &CQ{Number: int(r.Object), nic: nic, generation: r.Generation, host: h}, ring, err
}

func (h *Host) ring(r call.Reply) (*mem.Buffer, error) {
	if h.Agent != nil {
		return h.memory.Buffer(r.Address)
	}
	return h.memory.Adopt(r.Address, int(r.Length))
}

// Resize replaces the completion queue's ring, and returns the number of
// entries written to the old one, modulo 2^16. The caller reaps them from the
// old ring, which exists until the next Resize or Destroy.
func (c *CQ) Resize(t *host.Thread, entries int) (ring *mem.Buffer, written uint16, err error) {
	q := c.request(call.OpResizeCQ)
	q.Length = uint64(max(entries, 0))
	r, err := c.host.call(t, q)
	if err != nil {
		return nil, 0, err
	}
	ring, err = c.host.ring(r)
	return ring, uint16(r.Object), err
}

// Destroy removes the completion queue; ErrInUse while a work queue is tied to
// it.
func (c *CQ) Destroy(t *host.Thread) error {
	_, err := c.host.call(t, c.request(call.OpDestroyCQ))
	c.host.swept()
	return err
}

// Notifier names a source of notifications: a work queue of a VI, or a
// completion queue.
type Notifier struct {
	kind layout.NotifyKind
	host *Host
	ask  call.Request
}

// Notifier names the VI's send or receive queue.
func (v VI) Notifier(receive bool) Notifier {
	kind := layout.NotifyKindSend
	if receive {
		kind = layout.NotifyKindReceive
	}
	return Notifier{kind, v.host, *v.request(call.OpArm)}
}

// Notifier names the completion queue.
func (c *CQ) Notifier() Notifier {
	return Notifier{layout.NotifyKindCompletionQueue, c.host, *c.request(call.OpArm)}
}

// Arm requests a notification of the next completion: a system call. Earlier
// completions are in memory when it returns and raise no notification, so the
// caller must poll again after Arm.
func (n Notifier) Arm(t *host.Thread) error {
	q := n.ask
	q.Kind = uint8(n.kind)
	_, err := n.host.callFor(t, &q, host.LayerTrap, n.host.costs.Kernel.Trap)
	return err
}

// Count returns the number of notifications, including those of a broken VI.
func (n Notifier) Count() uint32 {
	return mem.LoadUint32(n.host.client.Statuses.Bytes()[call.NotifyWord(n.kind, int(n.ask.Object)):])
}

// Range returns the physical range to watch for a change of Count.
func (n Notifier) Range() mem.Range {
	return n.host.client.Statuses.Physical(nil, call.NotifyWord(n.kind, int(n.ask.Object)), 4)[0]
}

// Notifications returns the number of notifications of all objects of a NIC
// handle.
func (h *Host) Notifications(nic uint32) uint32 {
	return mem.LoadUint32(h.client.Statuses.Bytes()[call.NICWord(nic):])
}

// NotificationRange returns the physical range to watch for a change of
// Notifications.
func (h *Host) NotificationRange(nic uint32) mem.Range {
	return h.client.Statuses.Physical(nil, call.NICWord(nic), 4)[0]
}

// Switch spends the cost of giving the processor to a blocked thread, after the
// interrupt service that woke it.
func (h *Host) Switch(t *host.Thread) error {
	return t.Spend(host.LayerSwitch, h.costs.Kernel.Switch)
}
