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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"hvia/host"
)

// Several threads of two hosts have connections to each other in both
// directions.
func TestManyConnections(t *testing.T) {
	const pairs, rounds, n = 4, 10, 10_000
	var all []program
	for i := range pairs {
		on := uint16(100 + i)
		data := pattern(uint64(i), n)
		server, client := i%2, 1-i%2
		all = append(all,
			program{server, func(th *host.Thread, s *Stack) error {
				c, err := acceptOn(th, s, on)
				if err != nil {
					return err
				}
				b := make([]byte, n)
				for range rounds {
					if _, err := io.ReadFull(c, b); err != nil {
						return err
					}
					if _, err := c.Write(b); err != nil {
						return err
					}
				}
				return c.Close()
			}},
			program{client, func(th *host.Thread, s *Stack) error {
				if err := th.Sleep(host.Microsecond); err != nil { // they all listen by then
					return err
				}
				c, err := s.Dial(th, netip.AddrPortFrom(Address(server), on), host.Never)
				if err != nil {
					return err
				}
				got := make([]byte, n)
				for range rounds {
					if _, err := c.Write(data); err != nil {
						return err
					}
					if _, err := io.ReadFull(c, got); err != nil {
						return err
					}
					assert.True(t, bytes.Equal(data, got))
				}
				return c.Close()
			}})
	}
	f, err := play(t, gigabit(), all...)
	require.NoError(t, err)
	c := f.read(t)
	assert.Zero(t, c.again)
	assert.Equal(t, 2*pairs, c.connects)
	assert.Equal(t, [2]int{pairs * rounds * n, pairs * rounds * n}, c.bytes)
}

// One thread writes and another reads, on one connection, on both hosts.
func TestTwoThreadsOnOneConnection(t *testing.T) {
	const n = 300_000
	conns, written := [2]*Conn{}, [2]bool{}
	var all []program
	for node := range 2 {
		out, in := pattern(uint64(node), n), pattern(uint64(1-node), n)
		all = append(all,
			program{node, func(th *host.Thread, s *Stack) (err error) {
				if node == 0 {
					conns[0], err = s.Dial(th, there(1), host.Never)
				} else {
					conns[1], err = accept(th, s)
				}
				if err != nil {
					return err
				}
				if _, err := conns[node].Write(out); err != nil {
					return err
				}
				written[node] = true
				return conns[node].CloseWrite()
			}},
			program{node, func(th *host.Thread, _ *Stack) error {
				if err := th.Sleep(2 * host.Millisecond); err != nil {
					return err
				}
				c := conns[node].On(th)
				got, err := io.ReadAll(c)
				assert.True(t, bytes.Equal(in, got), "%d bytes", len(got))
				for !written[node] && err == nil {
					err = th.Sleep(100 * host.Microsecond)
				}
				return errors.Join(err, c.Close())
			}})
	}
	_, err := play(t, gigabit(), all...)
	require.NoError(t, err)
}

func TestListen(t *testing.T) {
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) error {
			l, err := s.Listen(th, port)
			require.NoError(t, err)
			assert.Equal(t, "10.0.0.1:7", l.Addr().String())
			_, err = s.Listen(th, port)
			assert.ErrorIs(t, err, syscall.EADDRINUSE)
			began, costs := th.Now(), testCosts()
			_, err = l.Accept(th, host.Millisecond)
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, began+costs.Trap+host.Millisecond+costs.Tcp.Wake+costs.Switch, th.Now())
			require.NoError(t, l.Close(th))
			_, err = l.Accept(th, host.Never)
			assert.ErrorIs(t, err, net.ErrClosed)
			assert.ErrorIs(t, l.Close(th), net.ErrClosed)
			free, err := s.Listen(th, 0)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, free.Addr().(*net.TCPAddr).Port, 1024)
			return nil
		}})
	require.NoError(t, err)
}

// Threads blocked when another thread closes their connection get an error, and
// so do later calls.
func TestCloseWakesTheBlocked(t *testing.T) {
	var conn *Conn
	var listener *Listener
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) (err error) {
			if conn, err = s.Dial(th, there(1), host.Never); err != nil {
				return err
			}
			_, err = conn.Read(make([]byte, 1))
			assert.ErrorIs(t, err, net.ErrClosed)
			_, err = conn.Read(make([]byte, 1))
			assert.ErrorIs(t, err, net.ErrClosed)
			_, err = conn.Write(make([]byte, 1))
			assert.ErrorIs(t, err, net.ErrClosed)
			assert.ErrorIs(t, conn.Close(), net.ErrClosed)
			assert.ErrorIs(t, conn.SetDeadline(time.Time{}), net.ErrClosed)
			return nil
		}},
		program{0, func(th *host.Thread, s *Stack) (err error) {
			if listener, err = s.Listen(th, 99); err != nil {
				return err
			}
			_, err = listener.Accept(th, host.Never)
			assert.ErrorIs(t, err, net.ErrClosed)
			return nil
		}},
		program{0, func(th *host.Thread, _ *Stack) error {
			if err := th.Sleep(host.Millisecond); err != nil {
				return err
			}
			return errors.Join(conn.On(th).Close(), listener.Close(th))
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
}

// A connection whose handshake the listener's end interrupted is reset at its
// peer's next segment, one that was not accepted at once.
func TestListenerClosedUnderConnections(t *testing.T) {
	for _, handshake := range []bool{false, true} {
		r := gigabit()
		r.lose = func(from, _ int, frame []byte) bool { // the end of the handshake
			return handshake && from == 0 && len(frame) == 14+20+32 && frame[14+20+13] == 0x10
		}
		_, err := play(t, r,
			program{1, func(th *host.Thread, s *Stack) error {
				l, err := s.Listen(th, port)
				if err != nil {
					return err
				}
				return errors.Join(th.Sleep(5*host.Millisecond), l.Close(th), th.Sleep(20*host.Millisecond))
			}},
			program{0, func(th *host.Thread, s *Stack) error {
				c, err := s.Dial(th, there(1), host.Never)
				if err != nil {
					return err
				}
				if handshake {
					if err := th.Sleep(10 * host.Millisecond); err != nil {
						return err
					}
					if _, err := c.Write([]byte("anybody?")); err != nil {
						return err
					}
				}
				_, err = c.Read(make([]byte, 1))
				assert.ErrorIs(t, err, syscall.ECONNRESET)
				assert.Less(t, th.Now(), 11*host.Millisecond)
				return c.Close()
			}})
		require.NoError(t, err)
	}
}

// Closing the stack resets open connections, wakes blocked threads, and lets
// closed connections finish.
func TestCloseOfTheStack(t *testing.T) {
	const n = 200_000
	var open *Conn
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) (err error) {
			done, err := s.Dial(th, there(1), host.Never)
			if err != nil {
				return err
			}
			if open, err = s.Dial(th, there(1), host.Never); err != nil {
				return err
			}
			if _, err := done.Write(make([]byte, n)); err != nil {
				return err
			}
			if err := done.Close(); err != nil {
				return err
			}
			if err := s.Close(th); err != nil {
				return err
			}
			_, err = s.Dial(th, there(1), host.Never)
			assert.ErrorIs(t, err, net.ErrClosed)
			_, err = s.Listen(th, port)
			assert.ErrorIs(t, err, net.ErrClosed)
			return s.Close(th)
		}},
		program{0, func(th *host.Thread, s *Stack) error {
			if err := th.Sleep(host.Millisecond); err != nil {
				return err
			}
			_, err := open.On(th).Read(make([]byte, 1))
			assert.ErrorIs(t, err, net.ErrClosed)
			return nil
		}},
		program{1, func(th *host.Thread, s *Stack) error {
			l, err := s.Listen(th, port)
			if err != nil {
				return err
			}
			a, err := l.Accept(th, host.Never)
			if err != nil {
				return err
			}
			b, err := l.Accept(th, host.Never)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(a)
			assert.Len(t, got, n)
			assert.NoError(t, err)
			_, err = b.Read(make([]byte, 1))
			assert.ErrorIs(t, err, syscall.ECONNRESET)
			return nil
		}})
	require.NoError(t, err)
}

// Ended connections are forgotten, open ones are not.
func TestManyConnectionsOneAfterTheOther(t *testing.T) {
	const rounds = 300
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) error {
			open, err := s.Dial(th, there(1), host.Never)
			if err != nil {
				return err
			}
			for range rounds {
				c, err := s.Dial(th, there(1), host.Never)
				if err != nil {
					return err
				}
				if err := c.Close(); err != nil {
					return err
				}
			}
			_, err = open.Read(make([]byte, 1))
			assert.ErrorIs(t, err, syscall.ECONNRESET)
			return nil
		}},
		program{1, func(th *host.Thread, s *Stack) error {
			l, err := s.Listen(th, port)
			if err != nil {
				return err
			}
			if _, err := l.Accept(th, host.Never); err != nil {
				return err
			}
			for range rounds {
				c, err := l.Accept(th, host.Never)
				if err != nil {
					return err
				}
				if _, err := io.ReadAll(c); err != nil {
					return err
				}
				if err := c.Close(); err != nil {
					return err
				}
			}
			assert.LessOrEqual(t, len(s.sockets), 70)
			return th.Sleep(host.Millisecond)
		}})
	require.NoError(t, err)
}

// A Dial in progress when the stack closes gets an error at once.
func TestCloseEndsDial(t *testing.T) {
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) error {
			_, err := s.Dial(th, there(9), host.Never)
			assert.ErrorIs(t, err, net.ErrClosed)
			assert.Less(t, th.Now(), 200*host.Millisecond)
			return nil
		}},
		program{0, func(th *host.Thread, s *Stack) error {
			return errors.Join(th.Sleep(100*host.Millisecond), s.Close(th))
		}})
	require.NoError(t, err)
}

// A peer that is gone does not delay Close for longer than Linger.
func TestLingerEnds(t *testing.T) {
	r := gigabit()
	r.config = func(int) Config { return Config{Linger: 30 * host.Millisecond} }
	cut := false
	r.lose = func(int, int, []byte) bool { return cut }
	_, err := play(t, r,
		program{0, func(th *host.Thread, s *Stack) error {
			c, err := s.Dial(th, there(1), host.Never)
			if err != nil {
				return err
			}
			cut = true
			if _, err := c.Write([]byte("into the void")); err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
			began := th.Now()
			err = s.Close(th)
			assert.GreaterOrEqual(t, th.Now()-began, 30*host.Millisecond)
			assert.Less(t, th.Now()-began, 31*host.Millisecond)
			return err
		}},
		program{1, func(th *host.Thread, s *Stack) error {
			_, err := accept(th, s)
			return err
		}})
	require.NoError(t, err)
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []Config{{SendBuffer: 100}, {ReceiveBuffer: -1}, {Congestion: "vegas"}} {
		r := gigabit()
		r.config = func(int) Config { return c }
		_, err := play(t, r, program{0, func(*host.Thread, *Stack) error { return nil }})
		assert.ErrorIs(t, err, host.ErrInvalidParameter, "%+v", c)
	}
	// A second protocol for the same frames.
	_, err := play(t, gigabit(), program{0, func(th *host.Thread, s *Stack) error {
		link := s.nic.(worldLink)
		_, err := open(0, link.f.attach(link.n), th, s.words, s.costs, Config{})
		assert.ErrorIs(t, err, host.ErrInvalidParameter)
		_, err = open(maxNodes, link.f.attach(link.n), th, s.words, s.costs, Config{})
		assert.ErrorIs(t, err, host.ErrInvalidParameter)
		return nil
	}})
	require.NoError(t, err)
}

// A thread of another node, or the agent's, is rejected.
func TestThreadOfAnotherNode(t *testing.T) {
	var other *Stack
	_, err := play(t, gigabit(),
		program{0, func(th *host.Thread, s *Stack) error {
			other = s
			_, err := s.Listen(link(s).agent, port)
			assert.ErrorIs(t, err, host.ErrInvalidParameter)
			return th.Sleep(host.Millisecond)
		}},
		program{1, func(th *host.Thread, _ *Stack) error {
			if err := th.Sleep(host.Microsecond); err != nil {
				return err
			}
			_, err := other.Listen(th, port)
			assert.ErrorIs(t, err, host.ErrInvalidParameter)
			return nil
		}})
	require.NoError(t, err)
}

func link(s *Stack) *worldNode { return s.nic.(worldLink).n }

// When the run ends, the stack's goroutines end too.
func TestTheRunEnds(t *testing.T) {
	_, err := play(t, gigabit(), program{0, func(th *host.Thread, s *Stack) error {
		l, err := s.Listen(th, port)
		if err != nil {
			return err
		}
		_, err = l.Accept(th, host.Never) // no connection comes
		return errors.Join(err, s.Close(th))
	}})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "deadlock")
}

// Timers run in the order of their time, then in the order in which they were
// set.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type set struct {
			id  int
			due time.Duration
		}
		var c clock
		var want []set // in the order in which they must run
		var got []int
		var timers []interface {
			Stop() bool
			Reset(time.Duration)
		}
		place := func(s set) {
			i := len(want)
			for i > 0 && want[i-1].due > s.due {
				i--
			}
			want = append(want[:i], append([]set{s}, want[i:]...)...)
		}
		drop := func(id int) bool {
			for i, w := range want {
				if w.id == id {
					want = append(want[:i], want[i+1:]...)
					return true
				}
			}
			return false
		}
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			span := time.Duration(rapid.IntRange(0, 5).Draw(t, "span"))
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what == 0 || len(timers) == 0:
				id := len(timers)
				timers = append(timers, c.AfterFunc(span, func() { got = append(got, id) }))
				place(set{id, now + span})
			case what == 1:
				id := rapid.IntRange(0, len(timers)-1).Draw(t, "stop")
				if timers[id].Stop() != drop(id) {
					t.Fatalf("stop of %d says the contrary", id)
				}
			case what == 2:
				id := rapid.IntRange(0, len(timers)-1).Draw(t, "reset")
				drop(id)
				timers[id].Reset(span)
				place(set{id, now + span})
			default:
				now += span
				c.advance(host.Time(now) * host.Nanosecond)
				var due []int
				for len(want) > 0 && want[0].due <= now {
					due = append(due, want[0].id)
					want = want[1:]
				}
				got = nil
				for c.fire() {
				}
				if fmt.Sprint(got) != fmt.Sprint(due) {
					t.Fatalf("at %v: ran %v, want %v", now, got, due)
				}
			}
			next := host.Never
			if len(want) > 0 {
				next = host.Time(want[0].due) * host.Nanosecond
			}
			if c.next() != next {
				t.Fatalf("next is %v, want %v", c.next(), next)
			}
		}
	})
}

func TestInstants(t *testing.T) {
	assert.Equal(t, host.Never, instant(time.Time{}))
	assert.Equal(t, host.Never, instant(At(host.Never)))
	assert.Equal(t, host.Never, instant(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)))
	assert.Zero(t, instant(Epoch))
	assert.Zero(t, instant(Epoch.Add(-time.Hour)))
	assert.Equal(t, host.Second, instant(At(host.Second)))
	assert.Equal(t, host.Nanosecond, instant(At(1)), "rounded up")
	assert.Equal(t, host.Nanosecond, instant(At(host.Nanosecond)))
}
