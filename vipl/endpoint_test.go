// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"errors"
	"fmt"
	"testing"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// An endpoint that could not be made leaves nothing: more of them than the card has
// completion queues, with more memory than the node has.
func TestFailedEndpointsLeaveNothing(t *testing.T) {
	errRefused := errors.New("the program wants another NIC")
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for _, c := range []struct {
			name       string
			bytes      int
			attributes func(e *conformance.Env, n *vipl.NIC) (vipl.VIAttributes, error)
			want       error
		}{
			{"no attributes", 1 << 20, func(e *conformance.Env, n *vipl.NIC) (vipl.VIAttributes, error) {
				_, err := n.CreateCQ(e.T, 16)
				return vipl.VIAttributes{}, errors.Join(err, errRefused)
			}, errRefused},
			{"no VI", 1 << 20, func(e *conformance.Env, n *vipl.NIC) (a vipl.VIAttributes, err error) {
				a.RecvCQ, err = n.CreateCQ(e.T, 16)
				a.MaxTransferSize = 1 << 30
				return a, err
			}, vipl.ErrInvalidMTU},
			{"no region", 0, nil, vipl.ErrInvalidParameter},
		} {
			t.Run(c.name, func(t *testing.T) {
				runFake(t, d, nil, func(e *conformance.Env) error {
					for range e.NIC.Query().MaxCQ + 1 {
						p, err := vipl.OpenEndpointWith(e.T, e.H, c.bytes, func(n *vipl.NIC) (vipl.VIAttributes, error) { return c.attributes(e, n) })
						e.Is("an endpoint", err, c.want)
						e.That("no endpoint", p == nil)
						if errors.Is(err, vipl.ErrResource) {
							return err // something was left
						}
					}
					p, err := vipl.OpenEndpoint(e.T, e.H, 4096)
					if err != nil {
						return err
					}
					return p.Close(e.T)
				})
			})
		}
	})
}

// A write of no bytes is a write, wherever it goes; less than none, or a byte beyond
// either buffer, is not.
func TestEndpointWrites(t *testing.T) {
	const own, theirs = 4096, 8192
	runFake(t, driver.DeviceHvia, nil, func(e *conformance.Env) error {
		p, err := vipl.OpenEndpoint(e.T, e.H, own)
		if err != nil {
			return err
		}
		if err := p.Dial(e.T, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: "writes"}, host.Second); err != nil {
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
			e.Is(fmt.Sprintf("%+v", c), p.Write(e.T, c.from, c.n, c.to, host.Second), c.want)
		}
		return p.Close(e.T)
	}, func(e *conformance.Env) error {
		p, err := vipl.OpenEndpoint(e.T, e.H, theirs)
		if err != nil {
			return err
		}
		if err := p.Accept(e.T, "writes", host.Second); err != nil {
			return err
		}
		if _, err := e.NIC.ErrorWait(e.T, 100*host.Millisecond); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("a write arrived that should not: %w", err)
		}
		return p.Close(e.T)
	})
}
