// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hvia/host"
)

const polledPort = 100 // and the next one

// Poll reports the first readable connection in the given order, the end of
// one, and a timeout; it costs a system call and, if it waits, a wake.
func TestPoll(t *testing.T) {
	var other *Conn
	_, err := play(t, gigabit(), program{0, func(th *host.Thread, s *Stack) error {
		var conns [2]*Conn
		for i := range conns {
			var err error
			if conns[i], err = acceptOn(th, s, polledPort+uint16(i)); err != nil {
				return err
			}
		}
		if err := errors.Join(pollTimesOut(t, th, s, conns[:]), pollReports(t, th, s, conns)); err != nil {
			return err
		}
		_, err := s.Poll(th, []*Conn{conns[0], other}, 0)
		assert.ErrorIs(t, err, host.ErrInvalidParameter)
		assert.ErrorContains(t, err, "connection 1 is one of another stack")
		return errors.Join(conns[0].Close(), conns[1].Close())
	}}, program{1, func(th *host.Thread, s *Stack) error {
		var conns [2]*Conn
		for i := range conns {
			if err := th.Sleep(100 * host.Microsecond); err != nil { // it listens by then
				return err
			}
			var err error
			if conns[i], err = s.Dial(th, netip.AddrPortFrom(Address(0), polledPort+uint16(i)), host.Never); err != nil {
				return err
			}
		}
		other = conns[0]
		for _, do := range []func() error{
			func() error { _, err := conns[1].Write(make([]byte, 5)); return err },
			func() error { _, err := conns[0].Write(make([]byte, 3)); return err },
			conns[0].Close, conns[1].Close,
		} {
			if err := th.Sleep(2 * host.Millisecond); err != nil {
				return err
			}
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}})
	require.NoError(t, err)
}

func pollTimesOut(t *testing.T, th *host.Thread, s *Stack, conns []*Conn) error {
	costs := testCosts()
	began, before := th.Now(), th.Spent()
	i, err := s.Poll(th, conns, host.Millisecond)
	assert.Equal(t, -1, i, "nothing came")
	assert.GreaterOrEqual(t, th.Now(), began+host.Millisecond)
	spent := th.Spent().Less(before)
	assert.Equal(t, costs.Trap, spent[host.LayerTrap])
	assert.Equal(t, costs.Switch, spent[host.LayerSwitch])
	assert.Zero(t, spent[host.LayerCopy]+spent[host.LayerPoll])
	return err
}

// pollReports polls for what the peer writes, and for its end.
func pollReports(t *testing.T, th *host.Thread, s *Stack, conns [2]*Conn) error {
	b := make([]byte, 10)
	for _, want := range []struct {
		place, bytes int
		end          error
	}{{1, 5, nil}, {0, 3, nil}, {0, 0, io.EOF}} {
		i, err := s.Poll(th, conns[:], host.Second)
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
		assert.ErrorIs(t, err, want.end)
	}
	return nil
}
