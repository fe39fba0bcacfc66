// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"

	"hvia/host"
)

func accept(th *host.Thread, s *Stack) (*Conn, error) { return acceptOn(th, s, port) }

func acceptOn(th *host.Thread, s *Stack, port uint16) (*Conn, error) {
	l, err := s.Listen(th, port)
	if err != nil {
		return nil, err
	}
	return l.Accept(th, host.Never)
}

// pair runs a client on node 0 and a server on node 1 that are connected.
func pair(t *testing.T, r rules, client, server func(th *host.Thread, c *Conn) error) *world {
	t.Helper()
	f, err := play(t, r,
		program{0, func(th *host.Thread, s *Stack) error {
			c, err := s.Dial(th, there(1), host.Never)
			if err != nil {
				return err
			}
			return client(th, c)
		}},
		program{1, func(th *host.Thread, s *Stack) error {
			c, err := accept(th, s)
			if err != nil {
				return err
			}
			return server(th, c)
		}})
	require.NoError(t, err)
	return f
}

func TestAddresses(t *testing.T) {
	pair(t, gigabit(), func(_ *host.Thread, c *Conn) error {
		assert.Equal(t, "10.0.0.2:7", c.RemoteAddr().String())
		assert.Equal(t, "tcp", c.RemoteAddr().Network())
		assert.Equal(t, "10.0.0.1", c.LocalAddr().(*net.TCPAddr).IP.String())
		assert.GreaterOrEqual(t, c.LocalAddr().(*net.TCPAddr).Port, 1024)
		return c.Close()
	}, func(_ *host.Thread, c *Conn) error {
		assert.Equal(t, "10.0.0.2:7", c.LocalAddr().String())
		assert.Equal(t, "10.0.0.1", c.RemoteAddr().(*net.TCPAddr).IP.String())
		return c.Close()
	})
}

// Small writes arrive as one stream, and Nagle's algorithm makes fewer segments
// of them.
func TestOneByteWrites(t *testing.T) {
	const n = 300
	for _, delay := range []bool{false, true} {
		r := gigabit()
		r.config = func(int) Config { return Config{Delay: delay} }
		data := pattern(3, n)
		f := pair(t, r, func(_ *host.Thread, c *Conn) error {
			for i := range data {
				if k, err := c.Write(data[i : i+1]); k != 1 || err != nil {
					return fmt.Errorf("%d bytes: %w", k, err)
				}
			}
			return c.Close()
		}, func(_ *host.Thread, c *Conn) error {
			got, err := io.ReadAll(c)
			assert.Equal(t, data, got)
			return errors.Join(err, c.Close())
		})
		talk := f.read(t)
		assert.Equal(t, n, talk.bytes[0])
		if delay {
			assert.Less(t, talk.data[0], n/3)
		} else {
			assert.Equal(t, n, talk.data[0])
		}
	}
}

// The cost of each call: each thread's account and the instants, in a ping-pong
// without other traffic.
func TestCosts(t *testing.T) {
	const n = 100
	costs := testCosts()
	r := gigabit()
	var asked, answered host.Time
	f := pair(t, r, func(th *host.Thread, c *Conn) error {
		if err := th.Sleep(host.Millisecond); err != nil {
			return err
		}
		before, began := th.Spent(), th.Now()
		if _, err := c.Write(make([]byte, n)); err != nil {
			return err
		}
		spent := th.Spent().Less(before)
		assert.Equal(t, costs.Trap, spent[host.LayerTrap])
		assert.Equal(t, costs.Copy(n), spent[host.LayerCopy])
		assert.Equal(t, costs.SendPacket, spent[host.LayerProtocol])
		assert.Zero(t, spent[host.LayerPoll])
		assert.Equal(t, began+spent.Total(), th.Now())
		asked = th.Now()
		before = th.Spent()
		if _, err := c.Read(make([]byte, n)); err != nil {
			return err
		}
		spent = th.Spent().Less(before)
		assert.Equal(t, costs.Trap, spent[host.LayerTrap])
		assert.Equal(t, costs.Switch, spent[host.LayerSwitch])
		assert.Equal(t, costs.Copy(n), spent[host.LayerCopy])
		assert.Zero(t, spent[host.LayerPoll])
		answered = th.Now()
		return c.Close()
	}, func(th *host.Thread, c *Conn) error {
		b := make([]byte, n)
		if _, err := c.Read(b); err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
		return c.Close()
	})
	// Wire, service, the wake of the other side, its work, and the same back.
	wire := r.delay + r.rate*(14+20+32+n+24)
	half := wire + costs.Tcp.ReceivePacket + costs.Tcp.Wake + costs.Switch + costs.Copy(n)
	assert.Equal(t, 2*half+costs.Trap+costs.Copy(n)+costs.SendPacket, answered-asked)
	require.NotZero(t, f.nodes[0].services)
}

// A reader takes bytes that arrive while it copies in the same call.
func TestReadTakesWhatArrives(t *testing.T) {
	const n = 40 * segment
	largest := 0
	pair(t, gigabit(), func(_ *host.Thread, c *Conn) error {
		_, err := c.Write(make([]byte, n))
		return errors.Join(err, c.Close())
	}, func(_ *host.Thread, c *Conn) error {
		b := make([]byte, n)
		for got := 0; got < n; {
			k, err := c.Read(b)
			if err != nil {
				return err
			}
			got += k
			largest = max(largest, k)
			left, e := c.c.ep.GetSockOptInt(tcpip.ReceiveQueueSizeOption)
			assert.Nil(t, e)
			assert.Zero(t, left, "a call that returned less than its capacity left them")
		}
		return c.Close()
	})
	assert.Greater(t, largest, 3*segment)
}

func TestConnectionRefused(t *testing.T) {
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) error {
			_, err := s.Dial(th, there(1), host.Never)
			var op *net.OpError
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
			if assert.ErrorAs(t, err, &op) {
				assert.Equal(t, "dial", op.Op)
				assert.False(t, op.Timeout())
			}
			return nil
		}},
		program{1, func(th *host.Thread, _ *Stack) error { return th.Sleep(host.Millisecond) }})
	require.NoError(t, err)
}

// No node has the address: resolution gives up after three requests.
func TestHostUnreachableAndTimeout(t *testing.T) {
	f, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) error {
			_, err := s.Dial(th, there(5), host.Never)
			assert.ErrorIs(t, err, syscall.EHOSTUNREACH)
			began := th.Now()
			_, err = s.Dial(th, there(5), 500*host.Millisecond)
			var op *net.OpError
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			if assert.ErrorAs(t, err, &op) {
				assert.True(t, op.Timeout())
			}
			costs := testCosts()
			assert.Equal(t, began+costs.Trap+500*host.Millisecond+costs.Tcp.Wake+costs.Switch, th.Now())
			_, err = s.Dial(th, netip.AddrPortFrom(s.Address(), port), host.Never)
			assert.ErrorIs(t, err, host.ErrInvalidParameter)
			return nil
		}})
	require.NoError(t, err)
	for _, s := range f.read(t).flags {
		assert.Equal(t, "0arp", s)
	}
}

// A peer that closes with unread bytes resets the connection.
func TestReset(t *testing.T) {
	pair(t, gigabit(), func(th *host.Thread, c *Conn) error {
		if _, err := c.Write([]byte("nobody reads this")); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = c.Write([]byte("x"))
		assert.Error(t, err)
		return c.Close()
	}, func(th *host.Thread, c *Conn) error {
		if err := th.Sleep(host.Millisecond); err != nil {
			return err
		}
		return c.Close()
	})
}

// A writer that has ended its direction may read on, and the other side may
// write on.
func TestHalfClose(t *testing.T) {
	pair(t, gigabit(), func(_ *host.Thread, c *Conn) error {
		if err := c.CloseWrite(); err != nil {
			return err
		}
		_, err := c.Write([]byte("x"))
		assert.ErrorIs(t, err, syscall.EPIPE)
		got, err := io.ReadAll(c)
		assert.Equal(t, "still there", string(got))
		return errors.Join(err, c.Close())
	}, func(_ *host.Thread, c *Conn) error {
		n, err := c.Read(make([]byte, 1))
		assert.Zero(t, n)
		assert.Equal(t, io.EOF, err)
		_, err = c.Write([]byte("still there"))
		return errors.Join(err, c.Close())
	})
}

// A writer waits when the buffers of both sides are full, and continues when
// the reader does.
func TestBuffersFull(t *testing.T) {
	const pause, n = 50 * host.Millisecond, 400 << 10
	r := gigabit()
	r.config = func(int) Config { return Config{SendBuffer: 32 << 10, ReceiveBuffer: 64 << 10} }
	data := pattern(4, n)
	sizes := func(c *Conn) { // they have not grown
		assert.EqualValues(t, 32<<10, c.c.ep.SocketOptions().GetSendBufferSize())
		assert.EqualValues(t, 64<<10, c.c.ep.SocketOptions().GetReceiveBufferSize())
	}
	pair(t, r, func(th *host.Thread, c *Conn) error {
		began := th.Now()
		k, err := c.Write(data)
		assert.Equal(t, n, k)
		sizes(c)
		assert.Greater(t, th.Now()-began, pause/2)
		return errors.Join(err, c.Close())
	}, func(th *host.Thread, c *Conn) error {
		if err := th.Sleep(pause); err != nil {
			return err
		}
		got, err := io.ReadAll(c)
		sizes(c)
		assert.True(t, bytes.Equal(data, got), "%d of %d", len(got), n)
		return errors.Join(err, c.Close())
	})
}

func TestDeadlines(t *testing.T) {
	r := gigabit()
	r.config = func(int) Config { return Config{SendBuffer: 32 << 10, ReceiveBuffer: 64 << 10} }
	costs := testCosts()
	timeout := func(err error) {
		var e net.Error
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		if assert.ErrorAs(t, err, &e) {
			assert.True(t, e.Timeout())
		}
	}
	pair(t, r, func(th *host.Thread, c *Conn) error {
		end := th.Now() + 3*host.Millisecond
		require.NoError(t, c.SetReadDeadline(At(end)))
		_, err := c.Read(make([]byte, 1))
		timeout(err)
		assert.InDelta(t, float64(end+costs.Tcp.Wake+costs.Switch), float64(th.Now()), float64(host.Nanosecond))
		began := th.Now()
		_, err = c.Read(make([]byte, 1)) // it stays expired
		timeout(err)
		assert.Equal(t, began+costs.Trap, th.Now())
		end = th.Now() + 20*host.Millisecond
		require.NoError(t, c.SetWriteDeadline(At(end)))
		n, err := c.Write(make([]byte, 1<<20))
		timeout(err)
		assert.InDelta(t, float64(end+costs.Tcp.Wake+costs.Switch), float64(th.Now()), float64(20*host.Microsecond), "with the copy of a segment")
		assert.Greater(t, n, 32<<10)
		assert.Less(t, n, 1<<18)
		require.NoError(t, c.SetDeadline(At(host.Never))) // no deadline
		_, err = c.Write([]byte("x")[:0])
		assert.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		return c.Close()
	}, func(th *host.Thread, c *Conn) error {
		if err := th.Sleep(50 * host.Millisecond); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, c)
		return errors.Join(err, c.Close())
	})
}

// A deadline that another thread sets ends a blocked call; removing one does
// not.
func TestDeadlineOfBlockedRead(t *testing.T) {
	var shared *Conn
	var reader host.Time
	costs := testCosts()
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) (err error) {
			if shared, err = s.Dial(th, there(1), host.Never); err != nil {
				return err
			}
			if err := shared.SetReadDeadline(At(5 * host.Millisecond)); err != nil {
				return err
			}
			_, err = shared.Read(make([]byte, 1))
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			reader = th.Now()
			return shared.Close()
		}},
		program{0, func(th *host.Thread, _ *Stack) error {
			if err := th.Sleep(2 * host.Millisecond); err != nil {
				return err
			}
			c := shared.On(th)
			if err := c.SetDeadline(At(host.Never)); err != nil {
				return err
			}
			if err := th.Sleep(8 * host.Millisecond); err != nil {
				return err
			}
			return c.SetReadDeadline(At(th.Now() - host.Nanosecond))
		}},
		program{1, func(th *host.Thread, s *Stack) error {
			c, err := accept(th, s)
			if err != nil {
				return err
			}
			_, err = io.ReadAll(c)
			return errors.Join(err, c.Close())
		}})
	require.NoError(t, err)
	assert.Equal(t, 10*host.Millisecond+costs.Tcp.Wake+costs.Switch, reader)
}
