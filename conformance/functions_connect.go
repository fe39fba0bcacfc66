// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strings"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// tooLong has a discriminator of 33 bytes.
var tooLong = vipl.At(1, strings.Repeat("x", driver.MaxDiscriminator+1))

// waitCases are the cases of ConnectWait.
func waitCases(l *caseList) {
	l.onNIC("ConnectWait", func(f *fixture, n *vipl.NIC) error { _, err := n.ConnectWait(f.T, f.here(), 0); return err })
	l.add("ConnectWait", "a request comes", success, func(f *fixture) error {
		f.partner("request", f.name)
		c, err := f.nic.ConnectWait(f.T, f.here(), 20*host.Millisecond)
		if err == nil && c.RemoteAddress != f.there() {
			err = fmt.Errorf("the requester is %v", c.RemoteAddress)
		}
		return err
	})
	l.add("ConnectWait", "timeout 0, no request", vipl.ErrTimeout, func(f *fixture) error { _, err := f.nic.ConnectWait(f.T, f.here(), 0); return err })
	l.add("ConnectWait", "no request in time", vipl.ErrTimeout, func(f *fixture) error {
		return errOf(f.nic.ConnectWait(f.T, f.here(), host.Millisecond))
	})
	l.add("ConnectWait", "discriminator of 33 bytes", invalid, func(f *fixture) error { _, err := f.nic.ConnectWait(f.T, tooLong, 0); return err })
	l.add("ConnectWait", "another thread closes the NIC handle", noResource, func(f *fixture) error {
		n := must(vipl.OpenNIC(f.T, f.H))
		f.soon(func(t *host.Thread) { _ = n.Close(t) })
		return errOf(n.ConnectWait(f.T, f.here(), vipl.Infinite))
	})
}

// asked returns a request from the partner.
func (f *fixture) asked(how string) *vipl.ConnectionRequest {
	f.partner(how, f.name)
	return must(f.nic.ConnectWait(f.T, f.here(), 20*host.Millisecond))
}

// acceptCases are the cases of ConnectAccept.
func acceptCases(l *caseList) {
	l.add("ConnectAccept", "VI: Idle", success, func(f *fixture) error { return f.asked("request").Accept(f.T, f.create(vipl.VIAttributes{})) })
	for _, s := range []string{statePending, stateConnected, stateError} {
		l.add("ConnectAccept", "VI: "+s, wrongState, func(f *fixture) error {
			v := f.in(s, vipl.VIAttributes{})
			f.name += "'"
			return f.asked("request").Accept(f.T, v)
		})
	}
	l.add("ConnectAccept", "no request", invalid, func(f *fixture) error {
		return (*vipl.ConnectionRequest)(nil).Accept(f.T, f.create(vipl.VIAttributes{}))
	})
	l.add("ConnectAccept", "no VI", invalid, func(f *fixture) error { return f.asked("request").Accept(f.T, nil) })
	l.add("ConnectAccept", "VI: destroyed", invalid, func(f *fixture) error {
		return f.asked("request").Accept(f.T, f.in(stateDestroyed, vipl.VIAttributes{}))
	})
	l.add("ConnectAccept", "VI of another NIC handle", invalid, func(f *fixture) error {
		c := f.asked("request")
		return f.foreign(func(n *vipl.NIC) error { return c.Accept(f.T, must(n.CreateVI(f.T, vipl.VIAttributes{}))) })
	})
	l.add("ConnectAccept", "the request was rejected before", invalid, func(f *fixture) error {
		c := f.asked("request")
		check(c.Reject(f.T))
		return c.Accept(f.T, f.create(vipl.VIAttributes{}))
	})
	l.add("ConnectAccept", "ReliabilityLevel differs", vipl.ErrInvalidReliabilityLevel, func(f *fixture) error {
		return f.asked("request-level").Accept(f.T, f.create(vipl.VIAttributes{}))
	}).Needs = needLevel(vipl.ReliableDelivery)
	l.add("ConnectAccept", "MaxTransferSize differs", vipl.ErrInvalidMTU, func(f *fixture) error {
		return f.asked("request-mtu").Accept(f.T, f.create(vipl.VIAttributes{}))
	})
	l.add("ConnectAccept", "the attributes differed, and were changed", success, func(f *fixture) error {
		c, v := f.asked("request-mtu"), f.create(vipl.VIAttributes{})
		if err := c.Accept(f.T, v); !errors.Is(err, vipl.ErrInvalidMTU) {
			return fmt.Errorf("first: %w", err)
		}
		check(v.SetAttributes(f.T, vipl.VIAttributes{MaxTransferSize: 4096}))
		return c.Accept(f.T, v)
	})
	l.add("ConnectAccept", "the requester has given up", vipl.ErrTimeout, func(f *fixture) error {
		c := f.asked("hasty")
		check(f.T.Sleep(5 * host.Millisecond))
		return c.Accept(f.T, f.create(vipl.VIAttributes{}))
	})
}

// rejectCases are the cases of ConnectReject.
func rejectCases(l *caseList) {
	l.add("ConnectReject", "a request", success, func(f *fixture) error { return f.asked("request").Reject(f.T) })
	l.add("ConnectReject", "no request", invalid, func(f *fixture) error { return (*vipl.ConnectionRequest)(nil).Reject(f.T) })
	l.add("ConnectReject", "it was rejected before", invalid, func(f *fixture) error {
		c := f.asked("request")
		check(c.Reject(f.T))
		return c.Reject(f.T)
	})
	l.add("ConnectReject", "it was accepted before", invalid, func(f *fixture) error {
		c := f.asked("request")
		check(c.Accept(f.T, f.create(vipl.VIAttributes{})))
		return c.Reject(f.T)
	})
}

// requestCases are the cases of ConnectRequest and Disconnect.
func requestCases(l *caseList) {
	l.onVI("ConnectRequest", onlyIdle, func(f *fixture, v *vipl.VI) error {
		if v == nil {
			return errOf(v.ConnectRequest(f.T, f.here(), f.there(), host.Millisecond))
		}
		f.name += "'"
		f.partner("accept", f.name)
		err := f.request(v)
		if err != nil { // the partner waits for a request
			check(f.request(f.create(vipl.VIAttributes{})))
		}
		return err
	})
	requests := func(when string, want vipl.Status, call func(f *fixture, v *vipl.VI) error) {
		l.add("ConnectRequest", when, want, func(f *fixture) error { return call(f, f.create(vipl.VIAttributes{})) })
	}
	requests("nobody waits", vipl.ErrNoMatch, func(f *fixture, v *vipl.VI) error {
		return errOf(v.ConnectRequest(f.T, f.here(), f.there(), vipl.Infinite))
	})
	requests("the server rejects", vipl.ErrReject, func(f *fixture, v *vipl.VI) error {
		f.partner("reject", f.name)
		return f.request(v)
	})
	requests("the server does not decide in time", vipl.ErrTimeout, func(f *fixture, v *vipl.VI) error {
		f.partner("ignore", f.name)
		return f.request(v)
	})
	requests("no node has the address", vipl.ErrTimeout, func(f *fixture, v *vipl.VI) error {
		return errOf(v.ConnectRequest(f.T, f.here(), vipl.At(500, ""), host.Millisecond))
	})
	requests("the remote host is the own one", vipl.ErrNotReachable, func(f *fixture, v *vipl.VI) error {
		began := f.T.Now()
		_, err := v.ConnectRequest(f.T, f.here(), f.here(), 5*host.Second)
		if took := f.T.Now() - began; took > host.Millisecond {
			return fmt.Errorf("after %v: %w", took, err)
		}
		f.partner("accept", f.name)
		check(f.request(v)) // it is idle
		return err
	})
	requests("timeout 0", invalid, func(f *fixture, v *vipl.VI) error {
		return errOf(v.ConnectRequest(f.T, f.here(), f.there(), 0))
	})
	requests("remote discriminator of 33 bytes", invalid, func(f *fixture, v *vipl.VI) error {
		return errOf(v.ConnectRequest(f.T, f.here(), tooLong, host.Millisecond))
	})
	requests("local discriminator of 33 bytes", invalid, func(f *fixture, v *vipl.VI) error {
		return errOf(v.ConnectRequest(f.T, tooLong, f.there(), host.Millisecond))
	})
	requests("another thread disconnects the VI", noResource, func(f *fixture, v *vipl.VI) error {
		f.soon(func(t *host.Thread) { _ = v.Disconnect(t) })
		return errOf(v.ConnectRequest(f.T, f.here(), vipl.At(500, ""), 50*host.Millisecond))
	})
	l.onVI("Disconnect", inAnyState(success), func(f *fixture, v *vipl.VI) error { return errors.Join(v.Disconnect(f.T), v.Disconnect(f.T)) })
}
