// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"

	"hvia/driver/internal/call"
	"hvia/host"
)

// AttachProtocol attaches a protocol to the kernel, besides M-VIA. The agent
// passes it the frames of its EtherTypes and runs its timers. ErrUnsupported if
// the host has no plain NIC, ErrInUse if an EtherType is taken.
func (h *Host) AttachProtocol(t *host.Thread, p Protocol) (Link, error) {
	m := h.kernel()
	if m == nil {
		return nil, fmt.Errorf("driver: attach a protocol to node %d: its device is '%s', and only a plain NIC (device '%s') has frames for protocols: %w",
			h.node, h.device, DeviceMvia, call.ErrUnsupported)
	}
	h.Agent.OfferProtocol(t.ID().Rank, p)
	// The agent attaches it, because the NIC may not be up yet.
	if _, err := h.call(t, &call.Request{Op: call.OpAttach}); err != nil {
		return nil, err
	}
	return m.Link(), nil
}
