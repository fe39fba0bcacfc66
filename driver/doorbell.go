// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/driver/internal/softvia"
	"hvia/host"
	"hvia/layout"
)

// DoorbellSend is the physical address of its send doorbell.
func (v VI) DoorbellSend() uint32 {
	return layout.PciBar1Base + uint32(v.Index)*layout.DoorbellPageBytes + layout.DoorbellSend
}

// DoorbellReceive is the physical address of its receive doorbell.
func (v VI) DoorbellReceive() uint32 {
	return layout.PciBar1Base + uint32(v.Index)*layout.DoorbellPageBytes + layout.DoorbellReceive
}

// InKernel says that the VI's doorbells are calls of the kernel (device mvia):
// Trap, then Ring, then Carry. Else they are the registers DoorbellSend and
// DoorbellReceive of the card.
func (v VI) InKernel() bool { return v.host.mvia != nil }

// Trap is the way into the kernel and out of it, for a VI that is InKernel.
func (v VI) Trap(t *host.Thread) error { return v.host.Trap(t) }

// Ring tells the kernel of one descriptor more. It takes no time and does not
// wait, so that the order of posts is the one in which they were put into the queue.
func (v VI) Ring(t *host.Thread, receive bool, address uint64, handle uint32) error {
	id := softvia.QueueID{VI: v.Index, Of: softvia.SendQueue}
	if receive {
		id.Of = softvia.ReceiveQueue
	}
	return v.host.mvia.ring(t, id, address, handle)
}

// Carry has the kernel send what waits on the VI's send queue, on the calling
// thread, unless another one is at it.
func (v VI) Carry(t *host.Thread) error { return v.host.mvia.carryOut(t, v.Index) }

// Reap has the kernel look which frames the NIC has read, and complete the sends
// that were waiting for that.
func (v VI) Reap(t *host.Thread) error { return v.host.Reap(t) }

// Resume is what a thread goes through that was blocked in the kernel, from the
// instant at which what it waited for was there.
func (v VI) Resume(t *host.Thread) error { return v.host.Resume(t) }

// InKernel is VI.InKernel for a completion queue.
func (c *CQ) InKernel() bool { return c.host.mvia != nil }

// Trap, Reap and Resume are those of VI, which none of them depends on.

// Trap is the way into the kernel and out of it.
func (h *Host) Trap(t *host.Thread) error { return t.Spend(host.LayerTrap, h.costs.Kernel().Trap) }

// Reap has the kernel look which frames the NIC has read.
func (h *Host) Reap(t *host.Thread) error { return h.mvia.ethernet.Reap(t) }

// Resume is what a thread goes through that was blocked in the kernel.
func (h *Host) Resume(t *host.Thread) error {
	kernel := h.costs.Kernel()
	if err := t.Sleep(kernel.Mvia.Wake); err != nil {
		return err
	}
	return t.Spend(host.LayerSwitch, kernel.Switch)
}
