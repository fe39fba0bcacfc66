// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"hvia/bench/rig"
	"hvia/driver"
	"hvia/driver/tcpip"
	"hvia/host"
)

// comparePort is where the receiving program listens for the first channel; the
// others have the ports above it.
const comparePort = 5001

// tcpStack is a node's TCP/IP stack with its listeners, which exist before any
// dial.
type tcpStack struct {
	stack     *tcpip.Stack
	listeners []*tcpip.Listener
}

func openTCPNode(t *host.Thread, h *driver.Host, seed uint64, channels int) (*tcpStack, error) {
	s, err := tcpip.Open(t, h, tcpip.Config{Seed: seed})
	if err != nil {
		return nil, err
	}
	n := &tcpStack{stack: s}
	for i := range channels {
		l, err := s.Listen(t, uint16(comparePort+i))
		if err != nil {
			return nil, err
		}
		n.listeners = append(n.listeners, l)
	}
	return n, nil
}

func (n *tcpStack) close(t *host.Thread) (err error) {
	for _, l := range n.listeners {
		err = errors.Join(err, l.Close(t))
	}
	return errors.Join(err, n.stack.Close(t))
}

// tcpChannel is a connection. The reader knows the length of each message and
// reads that many bytes.
type tcpChannel struct {
	node    *tcpStack
	conn    *tcpip.Conn
	out, in []byte
}

func newTCPChannel(n *tcpStack, s channelConfig) channel {
	return &tcpChannel{node: n, out: make([]byte, s.size), in: make([]byte, s.size)}
}

func (c *tcpChannel) dial(t *host.Thread, name int) (err error) {
	c.conn, err = c.node.stack.Dial(t, netip.AddrPortFrom(tcpip.Address(serverNode), uint16(comparePort+name)), rig.WaitLimit)
	return err
}

func (c *tcpChannel) accept(t *host.Thread, name int) (err error) {
	c.conn, err = c.node.listeners[name].Accept(t, rig.WaitLimit)
	return err
}

func (*tcpChannel) begin(*host.Thread) error { return nil }

func (c *tcpChannel) send(_ *host.Thread, p rig.Pattern, n int) error {
	p.Fill(c.out[:n])
	_, err := c.conn.Write(c.out[:n])
	return err
}

func (*tcpChannel) settle(*host.Thread, int) error { return nil }

func (c *tcpChannel) receive(t *host.Thread, _ rig.Pattern, n int, timeout host.Time) ([]byte, error) {
	if err := c.conn.SetReadDeadline(tcpip.At(t.Now() + timeout)); err != nil {
		return nil, err
	}
	for got := 0; got < n; {
		k, err := c.conn.Read(c.in[got:n])
		got += k
		if errors.Is(err, os.ErrDeadlineExceeded) && got == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%d of %d bytes: %w", got, n, err)
		}
	}
	return c.in[:n], nil
}

func (*tcpChannel) replenish(*host.Thread) error { return nil }

func (c *tcpChannel) close(*host.Thread) error { return c.conn.Close() }

// anyTCP is poll(2).
func anyTCP(t *host.Thread, w []awaited, timeout host.Time) (int, error) {
	conns := make([]*tcpip.Conn, len(w))
	var node *tcpStack
	for i, a := range w {
		c, ok := a.channel.(*tcpChannel)
		if !ok {
			return -1, fmt.Errorf("wait for one of %d messages: channel %d is a %T: %w", len(w), i, a.channel, host.ErrInvalidParameter)
		}
		conns[i], node = c.conn, c.node
	}
	return node.stack.Poll(t, conns, timeout)
}
