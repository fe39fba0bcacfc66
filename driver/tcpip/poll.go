// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"fmt"

	"gvisor.dev/gvisor/pkg/waiter"

	"hvia/host"
)

// Poll waits until a Read of one of several connections would not wait, as
// poll(2) does, and returns the index of the first such connection, or -1 on
// timeout. It is one system call, and costs as much as a Read that waits,
// without the copy.
func (s *Stack) Poll(t *host.Thread, conns []*Conn, timeout host.Time) (int, error) {
	for i, c := range conns {
		if c.c.stack != s {
			return -1, fmt.Errorf("tcpip: poll on node %d: connection %d is one of another stack: %w", s.node, i, host.ErrInvalidParameter)
		}
	}
	fail := func(err error) (int, error) {
		return -1, fmt.Errorf("tcpip: poll %d connections on node %d: %w", len(conns), s.node, err)
	}
	if err := s.enter(t); err != nil {
		return fail(err)
	}
	end := after(t, timeout)
	first := -1
	ready := func() bool {
		for i, c := range conns {
			if c.c.open(host.Never, 0) != nil || c.c.ep.Readiness(waiter.ReadableEvents|waiter.EventErr|waiter.EventHUp) != 0 {
				first = i
				return true
			}
		}
		return s.closed
	}
	ok, err := s.block(t, nil, func() host.Time { return end }, ready)
	if err != nil {
		return fail(err)
	}
	if !ok {
		return -1, nil
	}
	return first, nil
}
