// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hvia/host"
)

// Poll reports the first readable connection in the given order, the end of
// one, and a timeout; it costs a system call and, if it waits, a wake.
func TestPoll(t *testing.T) {
	costs := testCosts()
	var other *Conn
	_, err := play(t, gigabit(), program{0, func(th *host.Thread, s *Stack) error {
		var conns []*Conn
		for i := range 2 {
			l, err := s.Listen(th, uint16(100+i))
			if err != nil {
				return err
			}
			c, err := l.Accept(th, host.Never)
			if err != nil {
				return err
			}
			conns = append(conns, c)
		}
		began, before := th.Now(), th.Spent()
		i, err := s.Poll(th, conns, host.Millisecond)
		if err != nil {
			return err
		}
		assert.Equal(t, -1, i, "nothing came")
		assert.GreaterOrEqual(t, th.Now(), began+host.Millisecond)
		spent := th.Spent().Less(before)
		assert.Equal(t, costs.Trap, spent[host.LayerTrap])
		assert.Equal(t, costs.Switch, spent[host.LayerSwitch])
		assert.Zero(t, spent[host.LayerCopy]+spent[host.LayerPoll])

		b := make([]byte, 10)
		for _, want := range []struct {
			place, bytes int
			end          error
		}{{1, 5, nil}, {0, 3, nil}, {0, 0, io.EOF}} {
			i, err := s.Poll(th, conns, host.Second)
			if err != nil {
				return err
			}
			if !assert.Equal(t, want.place, i) {
				return nil
			}
			// A poll of a readable connection does not wait.
			before := th.Spent()
			if i, err = s.Poll(th, []*Conn{conns[1-i], conns[i]}, 0); err != nil {
				return err
			}
			assert.Equal(t, 1, i)
			assert.Zero(t, th.Spent().Less(before)[host.LayerSwitch])
			n, err := conns[want.place].Read(b)
			assert.Equal(t, want.bytes, n)
			if want.end == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, want.end)
			}
		}
		_, err = s.Poll(th, []*Conn{conns[0], other}, 0)
		assert.ErrorIs(t, err, host.ErrInvalidParameter)
		assert.ErrorContains(t, err, "connection 1 is one of another stack")
		for _, c := range conns {
			if err := c.Close(); err != nil {
				return err
			}
		}
		return nil
	}}, program{1, func(th *host.Thread, s *Stack) error {
		var conns []*Conn
		for i := range 2 {
			if err := th.Sleep(100 * host.Microsecond); err != nil { // it listens by then
				return err
			}
			c, err := s.Dial(th, netip.AddrPortFrom(Address(0), uint16(100+i)), host.Never)
			if err != nil {
				return err
			}
			conns = append(conns, c)
		}
		other = conns[0]
		for _, do := range []func() error{
			func() error { _, err := conns[1].Write(make([]byte, 5)); return err },
			func() error { _, err := conns[0].Write(make([]byte, 3)); return err },
			conns[0].Close,
		} {
			if err := th.Sleep(2 * host.Millisecond); err != nil {
				return err
			}
			if err := do(); err != nil {
				return err
			}
		}
		if err := th.Sleep(2 * host.Millisecond); err != nil {
			return err
		}
		return conns[1].Close()
	}})
	require.NoError(t, err)
}
