// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"errors"
	"fmt"
	"testing"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// An endpoint that could not be made leaves nothing: more of them than the card has
// completion queues, with more memory than the node has.
func TestFailedEndpointsLeaveNothing(t *testing.T) {
	errRefused := errors.New("the program wants another NIC")
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, c := range []struct {
			name       string
			bytes      int
			attributes func(e *env, n *vipl.NIC) (vipl.VIAttributes, error)
			want       error
		}{
			{"no attributes", 1 << 20, func(e *env, n *vipl.NIC) (vipl.VIAttributes, error) {
				_, err := n.CreateCQ(e.t, 16)
				return vipl.VIAttributes{}, errors.Join(err, errRefused)
			}, errRefused},
			{"no VI", 1 << 20, func(e *env, n *vipl.NIC) (a vipl.VIAttributes, err error) {
				a.RecvCQ, err = n.CreateCQ(e.t, 16)
				a.MaxTransferSize = 1 << 30
				return a, err
			}, vipl.ErrInvalidMTU},
			{"no region", 0, nil, vipl.ErrInvalidParameter},
		} {
			t.Run(c.name, func(t *testing.T) {
				runFake(t, d, nil, func(e *env) error {
					for range e.nic.Query().MaxCQ + 1 {
						p, err := vipl.OpenEndpointWith(e.t, e.h, c.bytes, func(n *vipl.NIC) (vipl.VIAttributes, error) { return c.attributes(e, n) })
						e.is("an endpoint", err, c.want)
						e.that("no endpoint", p == nil)
						if errors.Is(err, vipl.ErrResource) {
							return err // something was left
						}
					}
					p, err := vipl.OpenEndpoint(e.t, e.h, 4096)
					if err != nil {
						return err
					}
					return p.Close(e.t)
				})
			})
		}
	})
}

// A write of no bytes is a write, wherever it goes; less than none, or a byte beyond
// either buffer, is not.
func TestEndpointWrites(t *testing.T) {
	const own, theirs = 4096, 8192
	runFake(t, driver.DeviceHvia, nil, func(e *env) error {
		p, err := vipl.OpenEndpoint(e.t, e.h, own)
		if err != nil {
			return err
		}
		if err := p.Dial(e.t, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: "writes"}, host.Second); err != nil {
			return err
		}
		for _, c := range []struct {
			from, n, to int
			want        error
		}{
			{0, 0, 0, nil}, {own, 0, theirs, nil}, {0, own, 0, nil}, {0, own, theirs - own, nil}, {own - 1, 1, theirs - 1, nil},
			{0, -1, 1, vipl.ErrInvalidParameter}, {1, -1, 1, vipl.ErrInvalidParameter}, {-1, 1, 0, vipl.ErrInvalidParameter}, {0, 1, -1, vipl.ErrInvalidParameter},
			{own, 1, 0, vipl.ErrInvalidParameter}, {own + 1, 0, 0, vipl.ErrInvalidParameter}, {0, 0, theirs + 1, vipl.ErrInvalidParameter}, {0, 1, theirs, vipl.ErrInvalidParameter},
		} {
			e.is(fmt.Sprintf("%+v", c), p.Write(e.t, c.from, c.n, c.to, host.Second), c.want)
		}
		return p.Close(e.t)
	}, func(e *env) error {
		p, err := vipl.OpenEndpoint(e.t, e.h, theirs)
		if err != nil {
			return err
		}
		if err := p.Accept(e.t, "writes", host.Second); err != nil {
			return err
		}
		if _, err := e.nic.ErrorWait(e.t, 100*host.Millisecond); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("a write arrived that should not: %w", err)
		}
		return p.Close(e.t)
	})
}
