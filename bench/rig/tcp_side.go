// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"io"
	"net/netip"

	"hvia/driver"
	"hvia/driver/tcpip"
	"hvia/host"
)

const (
	tcpPort = 7
	// tcpLimit ends an idle connection: far more than a whole run takes.
	tcpLimit = 100 * host.Second
	// tcpBarrier is where node 0 waits until node 1 listens.
	tcpBarrier = 0x746370
)

// tcpSide is one end of a ping-pong by TCP: a connection, and a buffer for a
// message each way.
type tcpSide struct {
	stack *tcpip.Stack
	conn  *tcpip.Conn
	arena *arena
}

var _ end = (*tcpSide)(nil)

func openTCP(t *host.Thread, h *driver.Host, seed uint64, size int) (*tcpSide, error) {
	s, err := tcpip.Open(t, h, tcpip.Config{Seed: seed})
	if err != nil {
		return nil, err
	}
	return &tcpSide{stack: s, arena: newArena(make([]byte, arenaBytes(size)), size)}, nil
}

func (s *tcpSide) Connect(t *host.Thread) error {
	var err error
	if t.ID().Node == 0 {
		if err := t.Barrier(tcpBarrier, 2); err != nil {
			return err
		}
		s.conn, err = s.stack.Dial(t, netip.AddrPortFrom(tcpip.Address(1), tcpPort), WaitLimit)
	} else {
		l, failed := s.stack.Listen(t, tcpPort)
		if failed != nil {
			return failed
		}
		if err := t.Barrier(tcpBarrier, 2); err != nil {
			return err
		}
		if s.conn, err = l.Accept(t, WaitLimit); err == nil {
			err = l.Close(t)
		}
	}
	if err != nil {
		return err
	}
	return s.conn.SetDeadline(tcpip.At(t.Now() + tcpLimit))
}

func (*tcpSide) Index() int              { return 0 }
func (s *tcpSide) Memory() *arena        { return s.arena }
func (*tcpSide) Sent(*host.Thread) error { return nil }

// Send writes the round's message of n bytes with one call.
func (s *tcpSide) Send(_ *host.Thread, w Pattern, n int) error {
	b := s.arena.Sending(n)
	w.Fill(b)
	_, err := s.conn.Write(b)
	return err
}

// Receive reads until the round's message is there.
func (s *tcpSide) Receive(_ *host.Thread, _ Pattern, n int) error {
	if got, err := io.ReadFull(s.conn, s.arena.receiving(n)); err != nil {
		return fmt.Errorf("read %d of %d bytes: %w", got, n, err)
	}
	return nil
}

func (s *tcpSide) Close(t *host.Thread) error {
	if err := s.conn.Close(); err != nil {
		return err
	}
	return s.stack.Close(t)
}
