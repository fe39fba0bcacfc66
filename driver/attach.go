// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// AttachProtocol attaches a protocol of the kernel, besides M-VIA: it gets the
// frames of its EtherTypes, and its timers run. ErrUnsupported if the host has
// no plain NIC, ErrInUse if an EtherType is taken.
func (h *Host) AttachProtocol(t *host.Thread, p Protocol) (Link, error) {
	if h.mvia == nil {
		return nil, fmt.Errorf("driver: attach a protocol to node %d: its device is '%s', and only a plain NIC (device '%s') has frames for protocols: %w",
			h.node, h.device, DeviceMvia, ErrUnsupported)
	}
	if rank := t.ID().Rank; rank > AgentRank && rank < replySlots {
		h.offers[rank].Store(&p)
	}
	// Not here: the agent may not have brought the NIC up yet.
	if _, err := h.call(t, &request{Op: opAttach}); err != nil {
		return nil, err
	}
	return link{h.mvia}, nil
}

// attach takes the protocol that a thread passes in h.offers.
func (a *agent) attach(from host.ThreadID) error {
	var p Protocol
	if from.Rank < replySlots {
		p = a.offer(from.Rank)
	}
	m, ok := a.device.(*mvia)
	if !ok || p == nil {
		return fmt.Errorf("nothing to attach, or nothing to attach it to: %w", host.ErrInvalidParameter)
	}
	for _, kind := range p.EtherTypes() {
		if kind == layout.EtherTypeVia || kind == layout.EtherTypeConnection || m.protocol(kind) != nil {
			return fmt.Errorf("EtherType %#04x has a protocol already: %w", kind, host.ErrInUse)
		}
	}
	m.protocols = append(m.protocols, p)
	return nil
}

type link struct{ m *mvia }

var _ Link = link{}

func (l link) Address() layout.MAC { return l.m.ethernet.Address() }

func (l link) Transmit(t *host.Thread, head []byte, body []mem.Range, done func(t *host.Thread)) error {
	return l.m.ethernet.Transmit(t, head, body, done)
}

func (l link) Reschedule(t *host.Thread) error { return l.m.attend(t) }
