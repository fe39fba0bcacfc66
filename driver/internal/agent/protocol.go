// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// Protocol is a protocol of the kernel on a plain NIC: received frames and
// timers. Its code runs on the agent's thread, in the interrupt service or at a
// timer, and on the threads of programs that call it. In timed mode these never
// run concurrently (see Thread), so its state is stable between two waits. In
// free mode it needs a lock, which it must not hold during a wait.
type Protocol interface {
	// EtherTypes returns the EtherTypes of its frames.
	EtherTypes() []uint16
	// Frame takes a received frame in the interrupt service of the agent's
	// thread and spends its cost there (SpendInService). The bytes belong to
	// the ring and are valid until Frame returns.
	Frame(t *host.Thread, frame []byte) error
	// Deadline returns the instant of the next Timer call, or Never.
	Deadline() host.Time
	// Timer does the work that is due, on the agent's thread.
	Timer(t *host.Thread) error
}

// Link is a plain NIC as its protocols see it.
type Link interface {
	// Address returns the NIC's MAC address.
	Address() layout.MAC
	// Transmit sends one frame: head, which it copies, then ranges of host
	// memory, which the NIC reads itself and which must not change until done
	// is called. The frame starts with the Ethernet header. Transmit spends the
	// work for a packet on the calling thread, and waits while the ring is
	// full. done may be nil. It is called on the thread that finds that the NIC
	// has read the frame, inside any call into the driver.
	Transmit(t *host.Thread, head []byte, body []mem.Range, done func(t *host.Thread)) error
	// Reschedule notifies the agent that the protocol's Deadline may be earlier
	// now. Only calls outside of Frame and Timer need it.
	Reschedule(t *host.Thread) error
}

// OfferProtocol keeps a protocol until the thread of that rank attaches it.
func (a *Agent) OfferProtocol(rank int, p Protocol) {
	if rank > call.AgentRank && rank < call.ReplySlots {
		a.offers[rank].Store(&p)
	}
}

// attach takes the protocol that a thread offers.
func (a *Agent) attach(from host.ThreadID) error {
	var p Protocol
	if from.Rank < call.ReplySlots {
		if offered := a.offers[from.Rank].Swap(nil); offered != nil {
			p = *offered
		}
	}
	m := a.MVIA()
	if m == nil || p == nil {
		return fmt.Errorf("no protocol given, or the host has no plain NIC: %w", host.ErrInvalidParameter)
	}
	for _, kind := range p.EtherTypes() {
		if kind == layout.EtherTypeVia || kind == layout.EtherTypeConnection || m.protocol(kind) != nil {
			return fmt.Errorf("EtherType %#04x has a protocol already: %w", kind, host.ErrInUse)
		}
	}
	m.protocols = append(m.protocols, p)
	return nil
}

type link struct{ m *MVIA }

var _ Link = link{}

// Link returns the NIC as protocols see it.
func (m *MVIA) Link() Link { return link{m} }

func (l link) Address() layout.MAC { return l.m.Ethernet.Address() }

func (l link) Transmit(t *host.Thread, head []byte, body []mem.Range, done func(t *host.Thread)) error {
	return l.m.Ethernet.Transmit(t, head, body, done)
}

func (l link) Reschedule(t *host.Thread) error { return l.m.attend(t) }
