// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	"hvia/driver/internal/call"
	"hvia/host"
)

// AttachProtocol attaches a protocol of the kernel, besides M-VIA: it gets the
// frames of its EtherTypes, and its timers run. ErrUnsupported if the host has
// no plain NIC, ErrInUse if an EtherType is taken.
func (h *Host) AttachProtocol(t *host.Thread, p Protocol) (Link, error) {
	m := h.kernel()
	if m == nil {
		return nil, fmt.Errorf("driver: attach a protocol to node %d: its device is '%s', and only a plain NIC (device '%s') has frames for protocols: %w",
			h.node, h.device, DeviceMvia, call.ErrUnsupported)
	}
	h.Agent.OfferProtocol(t.ID().Rank, p)
	// Not here: the agent may not have brought the NIC up yet.
	if _, err := h.call(t, &call.Request{Op: call.OpAttach}); err != nil {
		return nil, err
	}
	return m.Link(), nil
}
