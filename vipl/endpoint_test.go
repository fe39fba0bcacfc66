// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"errors"
	"testing"

	"hvia/driver"
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
			attributes func(e *env, n *vipl.Nic) (vipl.ViAttributes, error)
			want       error
		}{
			{"no attributes", 1 << 20, func(e *env, n *vipl.Nic) (vipl.ViAttributes, error) {
				_, err := n.CreateCQ(e.t, 16)
				return vipl.ViAttributes{}, errors.Join(err, errRefused)
			}, errRefused},
			{"no VI", 1 << 20, func(e *env, n *vipl.Nic) (a vipl.ViAttributes, err error) {
				a.RecvCQ, err = n.CreateCQ(e.t, 16)
				a.MaxTransferSize = 1 << 30
				return a, err
			}, vipl.ErrInvalidMTU},
			{"no region", 0, nil, vipl.ErrInvalidParameter},
		} {
			t.Run(c.name, func(t *testing.T) {
				runFake(t, d, nil, func(e *env) error {
					for range e.nic.Query().MaxCQ + 1 {
						p, err := vipl.OpenEndpointWith(e.t, e.h, c.bytes, func(n *vipl.Nic) (vipl.ViAttributes, error) { return c.attributes(e, n) })
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
