// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// peerWay is a function that returns the result of ConnectPeerRequest.
type peerWay struct {
	function string
	call     func(f *fixture, v *vipl.VI) (vipl.VIAttributes, error)
}

// peerCases are the cases of peer-to-peer connections.
func peerCases(l *caseList) {
	l.onVI("ConnectPeerRequest", onlyIdle, func(f *fixture, v *vipl.VI) error {
		return v.ConnectPeerRequest(f.T, f.here(), f.there(), host.Millisecond)
	})
	for _, c := range []struct {
		when          string
		local, remote vipl.NetAddress
		timeout       host.Time
	}{
		{"timeout 0", vipl.NetAddress{}, vipl.NetAddress{}, 0},
		{"remote discriminator of 33 bytes", vipl.NetAddress{}, tooLong, host.Second},
		{"local discriminator of 33 bytes", tooLong, vipl.NetAddress{}, host.Second},
	} {
		l.add("ConnectPeerRequest", c.when, invalid, func(f *fixture) error {
			return f.create(vipl.VIAttributes{}).ConnectPeerRequest(f.T, c.local, c.remote, c.timeout)
		})
	}
	for _, way := range []peerWay{
		{"ConnectPeerDone", func(f *fixture, v *vipl.VI) (a vipl.VIAttributes, err error) {
			for range Attempts {
				if a, err = v.ConnectPeerDone(f.T); !errors.Is(err, vipl.ErrNotDone) {
					break
				}
				check(f.T.Sleep(100 * host.Microsecond))
			}
			return a, err
		}},
		{"ConnectPeerWait", func(f *fixture, v *vipl.VI) (vipl.VIAttributes, error) { return v.ConnectPeerWait(f.T) }},
	} {
		resultCases(l, way)
	}
	l.add("ConnectPeerDone", "the peer has not asked", vipl.ErrNotDone, func(f *fixture) error {
		return errOf(f.in(statePending, vipl.VIAttributes{}).ConnectPeerDone(f.T))
	})
	l.add("ConnectPeerWait", "another thread disconnects the VI", noResource, func(f *fixture) error {
		v := f.in(statePending, vipl.VIAttributes{})
		f.soon(func(t *host.Thread) { _ = v.Disconnect(t) })
		return errOf(v.ConnectPeerWait(f.T))
	})
}

// resultCases are the cases of a function that returns the result.
func resultCases(l *caseList, way peerWay) {
	l.add(way.function, "the remote host is the own one", vipl.ErrNotReachable, func(f *fixture) error {
		v, began := f.create(vipl.VIAttributes{}), f.T.Now()
		check(v.ConnectPeerRequest(f.T, f.here(), f.here(), 5*host.Second))
		_, err := way.call(f, v)
		if i, took := must(v.Query(f.T)), f.T.Now()-began; i.State != vipl.Idle || took > host.Millisecond {
			return fmt.Errorf("the VI is %v after %v: %w", i.State, took, err)
		}
		return err
	})
	l.onVI(way.function, map[string]vipl.Status{stateIdle: wrongState, stateConnected: wrongState, stateError: wrongState}, func(f *fixture, v *vipl.VI) error {
		return errOf(way.call(f, v))
	})
	for _, c := range []struct {
		when, partner string
		want          vipl.Status
		left          layout.VIState
	}{
		{"the peer asks, too", "peer", success, vipl.Connected},
		{"the peer does not ask in time", "", vipl.ErrTimeout, vipl.Idle},
		{"the peer gives up at once", "peer-leave", vipl.ErrReject, vipl.Idle},
		{"MaxTransferSize differs", "peer-mtu", vipl.ErrInvalidMTU, vipl.Idle},
		{"ReliabilityLevel differs", "peer-level", vipl.ErrInvalidReliabilityLevel, vipl.Idle},
		{"a server waits there, no peer", "ignore", vipl.ErrTimeout, vipl.Idle},
	} {
		r := l.add(way.function, c.when, c.want, func(f *fixture) error {
			v := f.create(vipl.VIAttributes{})
			check(v.ConnectPeerRequest(f.T, f.here(), f.there(), 5*host.Millisecond))
			if c.partner != "" {
				f.partner(c.partner, f.name)
			}
			a, err := way.call(f, v)
			if i := must(v.Query(f.T)); i.State != c.left {
				return fmt.Errorf("the VI is %v afterwards", i.State)
			}
			if err == nil && a.MaxTransferSize != 65536 {
				return fmt.Errorf("the peer's attributes are %+v", a)
			}
			if c.partner == "ignore" { // the partner keeps waiting
				_, none := v.ConnectRequest(f.T, f.here(), f.there(), host.Millisecond)
				f.Is("the server", none, vipl.ErrTimeout)
			}
			_, again := way.call(f, v)
			f.That(fmt.Sprintf("%s: the result once more: %s", c.when, Text(again)), has(again, c.want))
			return err
		})
		if c.partner == "peer-level" {
			r.Needs = needLevel(vipl.ReliableDelivery)
		}
	}
	l.add(way.function, "after Disconnect", wrongState, func(f *fixture) error {
		v := f.in(statePending, vipl.VIAttributes{})
		check(v.Disconnect(f.T))
		return errOf(way.call(f, v))
	})
}
