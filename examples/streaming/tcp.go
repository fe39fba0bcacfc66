// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"hvia/driver"
	"hvia/driver/tcpip"
	"hvia/host"
)

const port = 554

// pollTime is the timeout of a read that must not block. It is longer than a
// system call, so the read returns the data that has arrived.
const pollTime = 10 * host.Microsecond

// tcpStation is a host with TCP/IP over a plain NIC. A client's ring is the
// receive buffer of its socket.
type tcpStation struct {
	*show
	stack    *tcpip.Stack
	listener *tcpip.Listener
	conns    []*tcpip.Conn
}

func openTCP(t *host.Thread, h *driver.Host, s *show) (*tcpStation, error) {
	stack, err := tcpip.Open(t, h, tcpip.Config{Seed: s.seed})
	if err != nil {
		return nil, err
	}
	return &tcpStation{show: s, stack: stack}, nil
}

func (s *tcpStation) serve(t *host.Thread) (outlets []outlet, slots [][]byte, err error) {
	if s.listener, err = s.stack.Listen(t, port); err != nil {
		return nil, nil, err
	}
	if err := t.Barrier(barrierOpen, s.parties()); err != nil {
		return nil, nil, err
	}
	slot := make([]byte, s.bytes) // the write has copied it when it returns
	for range s.clients {
		c, err := s.listener.Accept(t, connectLimit)
		if err != nil {
			return nil, nil, err
		}
		s.conns = append(s.conns, c)
		outlets = append(outlets, tcpOutlet{c, slot})
	}
	return outlets, [][]byte{slot}, nil
}

func (s *tcpStation) tune(t *host.Thread) (inlet, error) {
	if err := t.Barrier(barrierOpen, s.parties()); err != nil {
		return nil, err
	}
	c, err := s.stack.Dial(t, netip.AddrPortFrom(tcpip.Address(0), port), connectLimit)
	if err != nil {
		return nil, err
	}
	s.conns = append(s.conns, c)
	return &tcpInlet{conn: c, frame: make([]byte, s.bytes)}, nil
}

func (s *tcpStation) close(t *host.Thread) error {
	for _, c := range s.conns {
		if err := c.Close(); err != nil {
			return err
		}
	}
	if err := t.Barrier(barrierClose, s.parties()); err != nil {
		return err
	}
	if s.listener != nil {
		if err := s.listener.Close(t); err != nil {
			return err
		}
	}
	return s.stack.Close(t)
}

type tcpOutlet struct {
	conn *tcpip.Conn
	slot []byte
}

func (o tcpOutlet) send(t *host.Thread, _ int) error {
	if err := o.conn.SetWriteDeadline(tcpip.At(t.Now() + connectLimit)); err != nil {
		return err
	}
	_, err := o.conn.Write(o.slot)
	return err
}

func (tcpOutlet) settle(*host.Thread, int) error { return nil }

type tcpInlet struct {
	conn  *tcpip.Conn
	frame []byte
	got   int // bytes of the next frame
}

func (i *tcpInlet) take(t *host.Thread, _ int, timeout host.Time) ([]byte, error) {
	if err := i.conn.SetReadDeadline(tcpip.At(t.Now() + max(timeout, pollTime))); err != nil {
		return nil, err
	}
	for i.got < len(i.frame) {
		n, err := i.conn.Read(i.frame[i.got:])
		i.got += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%d of %d bytes: %w", i.got, len(i.frame), err)
		}
	}
	return i.frame, nil
}

func (i *tcpInlet) done(*host.Thread) error {
	i.got = 0
	return nil
}
