// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"fmt"
	"slices"

	"hvia/driver"
	"hvia/host"
)

// MaxOfferedRegions is the number of regions that a VI can advertise.
const MaxOfferedRegions = driver.MaxOfferedRegions

// RemoteRegion is memory that the peer of a connection advertises for RDMA.
type RemoteRegion struct {
	Address uint64 // at the peer, of the first byte
	Length  uint64 // bytes
	Handle  MemHandle
	// Rights of the region. The peer's VI must allow the access, too, and have
	// the region's protection tag.
	EnableRDMAWrite, EnableRDMARead bool
}

func remoteRegions(all []driver.RegionInfo) (r []RemoteRegion) {
	for _, g := range all {
		r = append(r, RemoteRegion{
			Address: g.Address, Length: g.Length, Handle: MemHandle(g.Handle), EnableRDMAWrite: g.Rights.RDMAWrite, EnableRDMARead: g.Rights.RDMARead,
		})
	}
	return r
}

// Offer advertises registered regions to the peer in the connection handshake,
// so that the peer can RDMA to them without a message first. The requester's
// regions travel in its request, the responder's in the acceptance. VIA has
// nothing like it.
//
// The VI must be idle (ErrInvalidState), before ConnectRequest, Accept or
// ConnectPeerRequest. The regions hold for every connection of the VI until the
// next Offer, which replaces them; without arguments it advertises none. At
// most MaxOfferedRegions, each registered through the VI's NIC handle and not
// deregistered; otherwise ErrInvalidParameter, and the regions before stay.
//
// Offer advertises the registration as it is when Offer is called. It gives no
// rights: each access of the peer is checked when it arrives, and fails if the
// region has been deregistered.
func (v *VI) Offer(t *host.Thread, regions ...*Region) error {
	if v == nil {
		return missing("offer", "VI")
	}
	if len(regions) > MaxOfferedRegions {
		return v.fail("offer", ErrInvalidParameter, fmt.Errorf("%d regions, at most %d can be offered", len(regions), MaxOfferedRegions))
	}
	var handles []uint32
	for i, r := range regions {
		switch {
		case r == nil:
			return v.fail("offer", ErrInvalidParameter, fmt.Errorf("nil region, number %d of %d", i+1, len(regions)))
		case r.nic != v.nic:
			return v.fail("offer", ErrInvalidParameter, fmt.Errorf("number %d of %d, handle %#x, belongs to another NIC handle: register it through this one", i+1, len(regions), r.handle))
		}
		handles = append(handles, uint32(r.handle))
	}
	return translate("offer", v, v.vi.Offer(t, handles...))
}

// RemoteRegions returns the regions that the peer of the VI's connection
// advertised, in the peer's order. After the connection it returns those of the
// last one; none if the VI never was connected.
func (v *VI) RemoteRegions() []RemoteRegion {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.theirs)
}

// met notes the regions that the peer of a new connection advertises.
func (v *VI) met(regions []RemoteRegion) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.theirs = regions
}
