// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"hvia/host"
)

// Listener accepts connections at a port.
type Listener struct {
	stack  *Stack
	socket *socket
	addr   *net.TCPAddr
}

// Listen accepts connections at a port from now on; with 0 the stack chooses
// the port.
func (s *Stack) Listen(t *host.Thread, port uint16) (*Listener, error) {
	refuse := func(err error) (*Listener, error) {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.Address(), port)), Err: err}
	}
	if err := s.enter(t); err != nil {
		return refuse(err)
	}
	var l *Listener
	var failed error
	err := s.call(t, func() {
		ep, e := s.net.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, new(waiter.Queue))
		if e != nil {
			failed = asError("socket", e)
			return
		}
		if e := ep.Bind(tcpip.FullAddress{Addr: tcpip.AddrFrom4(s.Address().As4()), Port: port}); e != nil {
			ep.Close()
			failed = asError("bind", e)
			return
		}
		if e := ep.Listen(backlog); e != nil {
			ep.Close()
			failed = asError("listen", e)
			return
		}
		l = &Listener{stack: s, socket: &socket{ep: ep}, addr: address(ep.GetLocalAddress())}
		s.keep(l.socket)
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return refuse(err)
	}
	return l, nil
}

func address(a tcpip.FullAddress, err tcpip.Error) *net.TCPAddr {
	if err != nil {
		return &net.TCPAddr{}
	}
	return &net.TCPAddr{IP: net.IP(a.Addr.AsSlice()), Port: int(a.Port)}
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.addr }

func (l *Listener) fail(err error) error {
	return &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: err}
}

// Accept returns the oldest waiting connection, and waits for one if there is
// none.
func (l *Listener) Accept(t *host.Thread, timeout host.Time) (*Conn, error) {
	s := l.stack
	if err := s.enter(t); err != nil {
		return nil, l.fail(err)
	}
	end := after(t, timeout)
	for {
		var c *Conn
		var failed error
		err := s.call(t, func() {
			if l.socket.closed {
				failed = net.ErrClosed
				return
			}
			switch ep, queue, e := l.socket.ep.Accept(nil); e.(type) {
			case nil:
				c = s.connection(t, ep, queue)
			case *tcpip.ErrWouldBlock:
			default:
				failed = asError("accept", e)
			}
		})
		switch {
		case err == nil && c != nil:
			return c, nil
		case failed != nil:
			return nil, l.fail(failed)
		case err != nil:
			return nil, l.fail(err)
		}
		ok, err := s.block(t, nil, func() host.Time { return end }, func() bool {
			return l.socket.closed || l.socket.is(waiter.ReadableEvents)
		})
		if err == nil && !ok {
			err = os.ErrDeadlineExceeded
		}
		if err != nil {
			return nil, l.fail(err)
		}
	}
}

func after(t *host.Thread, timeout host.Time) host.Time {
	if now := t.Now(); timeout < host.Never-now {
		return now + max(timeout, 0)
	}
	return host.Never
}

// Close ends the listener. Connections that were not accepted are reset; one in
// its handshake is forgotten, and reset at the next segment of its peer.
func (l *Listener) Close(t *host.Thread) error {
	s := l.stack
	err := s.enter(t)
	if err == nil {
		var failed error
		err = s.call(t, func() {
			if l.socket.closed {
				failed = net.ErrClosed
				return
			}
			l.socket.closed = true
			l.socket.ep.Close()
		})
		if failed != nil {
			err = failed
		}
	}
	if err != nil {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: err}
	}
	return nil
}

// connection is the shared state of the Conns of one connection.
type connection struct {
	socket
	stack         *Stack
	local, remote *net.TCPAddr
	// Deadlines, Never for none; guarded by the stack's lock.
	readEnd, writeEnd host.Time
	// space reports that half of the send buffer became free after it was full.
	space atomic.Bool
	entry waiter.Entry
}

// connection returns a Conn for an endpoint of the stack. The caller holds the
// lock.
func (s *Stack) connection(t *host.Thread, ep tcpip.Endpoint, queue *waiter.Queue) *Conn {
	c := &connection{
		socket: socket{ep: ep}, stack: s, local: address(ep.GetLocalAddress()), remote: address(ep.GetRemoteAddress()),
		readEnd: host.Never, writeEnd: host.Never,
	}
	c.entry = waiter.NewFunctionEntry(waiter.WritableEvents, func(waiter.EventMask) { c.space.Store(true) })
	queue.EventRegister(&c.entry)
	s.keep(&c.socket)
	return &Conn{c, t}
}

// Dial connects to a port of another node.
func (s *Stack) Dial(t *host.Thread, to netip.AddrPort, timeout host.Time) (*Conn, error) {
	refuse := func(err error) (*Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	if !to.Addr().Is4() || to.Addr() == s.Address() {
		return refuse(fmt.Errorf("%v: %w: expected: the IPv4 address of another node, the stack has no way to itself", to, host.ErrInvalidParameter))
	}
	if err := s.enter(t); err != nil {
		return refuse(err)
	}
	end := after(t, timeout)
	var ep tcpip.Endpoint
	var k *socket
	var failed error
	queue := new(waiter.Queue)
	err := s.call(t, func() {
		var e tcpip.Error
		if ep, e = s.net.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, queue); e != nil {
			failed = asError("socket", e)
			return
		}
		switch e := ep.Connect(tcpip.FullAddress{Addr: tcpip.AddrFrom4(to.Addr().As4()), Port: to.Port()}); e.(type) {
		case nil, *tcpip.ErrConnectStarted:
			k = &socket{ep: ep}
			s.keep(k)
		default:
			ep.Close()
			failed = asError("connect", e)
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return refuse(err)
	}
	decided := func() bool {
		st := k.state()
		return st != tcp.StateConnecting && st != tcp.StateSynSent && st != tcp.StateSynRecv
	}
	ok, err := s.block(t, nil, func() host.Time { return end }, decided)
	if err != nil {
		return refuse(err)
	}
	var c *Conn
	err = s.call(t, func() {
		switch {
		case k.closed:
			failed = net.ErrClosed
		case !ok && !decided():
			failed = os.ErrDeadlineExceeded
		default:
			failed = asError("connect", ep.LastError())
		}
		if failed != nil {
			if !k.closed {
				k.closed = true
				ep.Close()
			}
			return
		}
		s.sockets = slices.DeleteFunc(s.sockets, func(o *socket) bool { return o == k })
		c = s.connection(t, ep, queue)
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return refuse(err)
	}
	return c, nil
}

// Conn is a connection as one thread uses it: a net.Conn whose calls take the
// thread's virtual time.
type Conn struct {
	c *connection
	t *host.Thread
}

var _ net.Conn = (*Conn)(nil)

// On returns the same connection for another thread of the node.
func (c *Conn) On(t *host.Thread) *Conn { return &Conn{c.c, t} }

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.c.local }

// RemoteAddr returns the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.c.remote }

func (c *Conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.c.local, Addr: c.c.remote, Err: err}
}

// open returns an error if a call may not start. The caller holds the lock.
func (c *connection) open(end, now host.Time) error {
	switch {
	case c.closed || c.stack.closed:
		return net.ErrClosed
	case now >= end:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Read reads at most len(b) bytes, and waits if there are none. It also takes
// bytes that arrive while it copies.
func (c *Conn) Read(b []byte) (int, error) {
	s, k, t := c.c.stack, c.c, c.t
	if err := s.enter(t); err != nil {
		return 0, c.fail("read", err)
	}
	got := 0
	for got < len(b) {
		n, blocked := 0, false
		var failed error
		err := s.event(t, func() {
			if failed = k.open(k.readEnd, t.Now()); failed != nil {
				return
			}
			to := tcpip.SliceWriter(b[got:])
			r, e := k.ep.Read(&to, tcpip.ReadOptions{})
			n = r.Count
			_, blocked = e.(*tcpip.ErrWouldBlock)
			if !blocked {
				failed = asError("read", e)
			}
		})
		if err == nil && n > 0 {
			got += n
			err = t.Spend(host.LayerCopy, s.costs.Copy(n))
		}
		if err == nil {
			err = s.follow(t)
		}
		switch {
		case err != nil:
			return got, c.fail("read", err)
		case n > 0:
			continue
		case got > 0:
			return got, nil
		case failed == io.EOF:
			return 0, io.EOF
		case failed != nil:
			return 0, c.fail("read", failed)
		case !blocked:
			return 0, c.fail("read", io.ErrNoProgress)
		}
		if _, err := s.block(t, k, func() host.Time { return k.readEnd }, func() bool {
			return k.open(host.Never, 0) != nil || k.is(waiter.ReadableEvents|waiter.EventErr|waiter.EventHUp)
		}); err != nil {
			return 0, c.fail("read", err)
		}
	}
	return got, nil
}

// Write passes all of b to the stack, segment by segment, and waits while the
// send buffer is full.
func (c *Conn) Write(b []byte) (int, error) {
	s, k, t := c.c.stack, c.c, c.t
	if err := s.enter(t); err != nil {
		return 0, c.fail("write", err)
	}
	done, copied := 0, 0
	for done < len(b) {
		to := min(done+s.segment, len(b))
		if copied < to {
			if err := t.Spend(host.LayerCopy, s.costs.Copy(to-copied)); err != nil {
				return done, c.fail("write", err)
			}
			copied = to
		}
		n, blocked := 0, false
		var failed error
		if err := s.call(t, func() {
			if failed = k.open(k.writeEnd, t.Now()); failed != nil {
				return
			}
			taken, e := k.ep.Write(bytes.NewReader(b[done:to]), tcpip.WriteOptions{})
			n = int(taken)
			if _, blocked = e.(*tcpip.ErrWouldBlock); blocked {
				k.space.Store(false)
			} else {
				failed = asError("write", e)
			}
		}); err != nil {
			return done + n, c.fail("write", err)
		}
		done += n
		switch {
		case failed != nil:
			return done, c.fail("write", failed)
		case n > 0:
			continue
		case !blocked:
			return done, c.fail("write", io.ErrNoProgress)
		}
		if _, err := s.block(t, k, func() host.Time { return k.writeEnd }, func() bool {
			return k.open(host.Never, 0) != nil || k.space.Load() || k.is(waiter.EventErr|waiter.EventHUp)
		}); err != nil {
			return done, c.fail("write", err)
		}
	}
	return done, nil
}

// CloseWrite ends this side's sending; reads continue.
func (c *Conn) CloseWrite() error {
	return c.end("close", func() tcpip.Error { return c.c.ep.Shutdown(tcpip.ShutdownWrite) })
}

// Close ends the connection. Written data are still sent; received unread data
// make it a reset. Threads blocked in a call get net.ErrClosed.
func (c *Conn) Close() error {
	return c.end("close", func() tcpip.Error {
		c.c.closed = true
		c.c.ep.Close()
		return nil
	})
}

func (c *Conn) end(op string, f func() tcpip.Error) error {
	s := c.c.stack
	if err := s.enter(c.t); err != nil {
		return c.fail(op, err)
	}
	var failed error
	err := s.call(c.t, func() {
		if failed = c.c.open(host.Never, 0); failed == nil {
			failed = asError(op, f())
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return c.fail(op, err)
	}
	return nil
}

// SetDeadline sets both deadlines; At converts an instant of virtual time. The
// zero time.Time means none. It applies to blocked calls as well.
func (c *Conn) SetDeadline(at time.Time) error { return c.deadline(at, true, true) }

// SetReadDeadline sets the deadline of Read.
func (c *Conn) SetReadDeadline(at time.Time) error { return c.deadline(at, true, false) }

// SetWriteDeadline sets the deadline of Write.
func (c *Conn) SetWriteDeadline(at time.Time) error { return c.deadline(at, false, true) }

func (c *Conn) deadline(at time.Time, read, write bool) error {
	s := c.c.stack
	s.mu.Lock()
	err := c.c.open(host.Never, 0)
	var ranks []int
	if err == nil {
		if read {
			c.c.readEnd = instant(at)
		}
		if write {
			c.c.writeEnd = instant(at)
		}
		for _, w := range s.waiting {
			if w.of == c.c {
				s.signal(w.rank)
				ranks = append(ranks, w.rank)
			}
		}
	}
	s.mu.Unlock()
	if err == nil {
		err = s.publish(c.t, ranks)
	}
	if err != nil {
		return c.fail("set", err)
	}
	return nil
}
