// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/host"
	"hvia/host/mem"
)

// Protocol is a protocol of the kernel on a plain NIC: what comes from the
// wire, and timers. Its code runs on the agent's thread, inside the interrupt
// service or at a timer, and on the threads of programs that call it; in timed
// mode these never run at the same moment (see Thread), so what it keeps is
// stable between two waits. In free mode it needs a lock, not held over a wait.
type Protocol interface {
	// EtherTypes are those of the frames that it wants.
	EtherTypes() []uint16
	// Frame takes a received frame in the interrupt service of the agent's thread
	// and spends there what that takes (SpendInService). The bytes are the
	// ring's: they are valid until it returns.
	Frame(t *host.Thread, frame []byte) error
	// Deadline is the instant at which Timer wants to be called next, or Never.
	Deadline() host.Time
	// Timer does what is due, on the agent's thread.
	Timer(t *host.Thread) error
}

// Link is a plain NIC as its protocols see it.
type Link interface {
	// Address is the NIC's MAC address.
	Address() MAC
	// Transmit sends one frame: head, which is copied, then ranges of host memory,
	// which are read by the NIC itself and must stay as they are until done is
	// called. It spends the work for a packet on the calling thread, and waits while the ring is
	// full. done may be nil; it is called on the thread that finds the frame read,
	// inside any call into the driver. The frame begins with the
	// Ethernet header.
	Transmit(t *host.Thread, head []byte, body []mem.Range, done func(t *host.Thread)) error
	// Reschedule tells the agent that the protocol's Deadline may have come
	// nearer. Only calls outside of Frame and Timer need it.
	Reschedule(t *host.Thread) error
}
