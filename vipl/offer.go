// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"fmt"
	"slices"

	"hvia/driver"
	"hvia/host"
)

// MaxOfferedRegions is the number of regions that a VI can offer its peer.
const MaxOfferedRegions = driver.MaxOfferedRegions

// RemoteRegion is memory that the other end of a connection offers: what must be known
// to write it, or to read it, from here.
type RemoteRegion struct {
	Address uint64 // at the peer, of the first byte
	Length  uint64 // bytes
	Handle  MemHandle
	// What the region was registered for. The peer's VI must allow it, too, and
	// have the region's protection tag.
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

// Offer has the VI's peer told of registered regions when they connect, so that it
// needs no message to write or read them: they travel in the frames of the connection, the
// requester's with its request, the other's with the acceptance. VIA has nothing like it.
// It is for an idle VI (ErrInvalidState), before ConnectRequest, Accept or ConnectPeerRequest, and
// for every connection of the VI until the next Offer, which replaces it; without regions nothing
// is offered any more. At most MaxOfferedRegions, each registered through the
// VI's NIC handle and not deregistered (ErrInvalidParameter; what was offered before stays).
//
// An offer is what was registered when it was made. It gives no rights: an
// access of the peer is checked when it comes, as any other, and refused if the
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
			return v.fail("offer", ErrInvalidParameter, fmt.Errorf("region %d of %d is nil", i+1, len(regions)))
		case r.nic != v.nic:
			return v.fail("offer", ErrInvalidParameter, fmt.Errorf("region %d of %d, handle %#x, belongs to another NIC handle: register it through this one", i+1, len(regions), r.handle))
		}
		handles = append(handles, uint32(r.handle))
	}
	return translate("offer", v, v.vi.Offer(t, handles...))
}

// RemoteRegions returns what the peer of the VI's connection offered, in its order; of a VI
// that is not connected any more, that of its last connection; none if it never was.
func (v *VI) RemoteRegions() []RemoteRegion {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.theirs)
}

// met notes what the peer of a connection that has just been made offered.
func (v *VI) met(regions []RemoteRegion) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.theirs = regions
}
