// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"fmt"

	"hvia/driver"
	"hvia/host"
)

// ConnectPeerRequest starts a peer-to-peer connection with the VI of the remote
// host that requests one with the same two addresses, exchanged. Both sides
// call it, in any order or at once, and get one connection. It does not wait:
// the VI is ConnectPending until ConnectPeerDone or ConnectPeerWait returns the
// result, and then Connected or Idle. The timeout is for the whole attempt and
// must not be 0. Of the local address only the discriminator counts.
// ErrInvalidState if the VI is not idle.
//
// Disconnect ends the attempt; a peer whose request was in flight gets
// ErrReject. ConnectWait does not find such requests, and a ConnectRequest does
// not match one.
func (v *VI) ConnectPeerRequest(t *host.Thread, local, remote NetAddress, timeout host.Time) error {
	if v == nil {
		return missing("connect peer request", "VI")
	}
	return translate(fmt.Sprintf("connect peer request to %v", remote), v,
		v.vi.PeerRequest(t, remote.Host, remote.Discriminator, local.Discriminator, timeout))
}

// ConnectPeerDone returns the attributes of the peer's VI once the VI is
// connected; RemoteRegions then has the regions that the peer advertises.
// Before the result it returns ErrNotDone. With any other error the VI is idle:
// ErrTimeout when the peer made no request in time, ErrInvalidReliabilityLevel
// or ErrInvalidMTU on both sides when the attributes differ, ErrReject when the
// peer gave up, ErrNotReachable at once for an address of the own host.
//
// It may be called again until the VI's next attempt or Disconnect;
// ErrInvalidState without a ConnectPeerRequest.
func (v *VI) ConnectPeerDone(t *host.Thread) (VIAttributes, error) {
	if v == nil {
		return VIAttributes{}, missing("connect peer done", "VI")
	}
	r, err := v.vi.PeerDone(t)
	return v.peerResult("connect peer done", r, err)
}

// ConnectPeerWait is ConnectPeerDone that waits for the result, at most until
// the timeout of the request. ErrResource if Disconnect of another thread ends
// the attempt.
func (v *VI) ConnectPeerWait(t *host.Thread) (VIAttributes, error) {
	if v == nil {
		return VIAttributes{}, missing("connect peer wait", "VI")
	}
	r, err := v.vi.PeerWait(t)
	return v.peerResult("connect peer wait", r, err)
}

func (v *VI) peerResult(op string, r driver.Remote, err error) (VIAttributes, error) {
	if err != nil {
		return VIAttributes{}, translate(op, v, err)
	}
	v.met(remoteRegions(r.Regions))
	return attributesOf(r.Attributes), nil
}
