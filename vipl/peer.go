// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"fmt"

	"hvia/driver"
	"hvia/host"
)

// ConnectPeerRequest begins to ask for a peer-to-peer connection: with the VI of the
// remote host that asks for one with this VI, the same two addresses exchanged. Both
// sides call it, in any order or at once, and one connection comes of it. It does not
// wait: the VI is ConnectPending until ConnectPeerDone or ConnectPeerWait tells the
// result, and then Connected or Idle. The timeout is the time of the whole attempt and must
// not be 0. Of the local address only the discriminator counts. ErrInvalidState if the VI is not idle.
//
// Disconnect ends the attempt; a peer whose request was under way gets ErrReject.
// Peers are not found by ConnectWait, nor those of ConnectRequest by this.
func (v *VI) ConnectPeerRequest(t *host.Thread, local, remote NetAddress, timeout host.Time) error {
	if v == nil {
		return missing("connect peer request", "VI")
	}
	return translate(fmt.Sprintf("connect peer request to %v", remote), v,
		v.vi.PeerRequest(t, remote.Host, remote.Discriminator, local.Discriminator, timeout))
}

// ConnectPeerDone returns the attributes of the peer's VI once the VI is connected;
// what the peer offers, RemoteRegions has from then on. It returns ErrNotDone before. Other errors say why it is not, and the VI is idle: ErrTimeout
// when the peer has not asked in time, ErrInvalidReliabilityLevel or ErrInvalidMTU when it
// has and the attributes differ, which both sides are told, ErrReject when it gave up,
// ErrNotReachable at once for an address of the own host.
// It may be asked again until the VI's next attempt or Disconnect; ErrInvalidState if there
// was no ConnectPeerRequest.
func (v *VI) ConnectPeerDone(t *host.Thread) (VIAttributes, error) {
	if v == nil {
		return VIAttributes{}, missing("connect peer done", "VI")
	}
	r, err := v.vi.PeerDone(t)
	return v.peerResult("connect peer done", r, err)
}

// ConnectPeerWait is ConnectPeerDone that waits for the result, which comes by the
// timeout of the request at the latest. ErrResource if another thread's Disconnect ends it.
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
