// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"hvia/driver"
	"hvia/layout"
	"hvia/vipl"
)

// An exchange is a way in which the sides of an experiment send messages.
type exchange string

const (
	rdmaWrite   exchange = "RDMA write"
	sendReceive exchange = "send/receive"
)

func (x exchange) stages() []stageEnd {
	if x == sendReceive {
		return sendReceiveStages
	}
	return rdmaWriteStages
}

// side is one end of an experiment: a connection, a buffer with room for a message each way,
// and descriptors.
type side struct {
	exchange   exchange
	endpoint   *vipl.Endpoint
	arena      *arena
	descriptor *vipl.Descriptor

	// Of send and receive: one waits for a message while the next one is posted.
	receives [2]*vipl.Descriptor
	posted   int // receives so far
	taken    int // of them
}

// openSide opens a NIC and makes a side. With send and receive, the receive of
// the first message is posted before there is a connection.
func openSide(t *driver.Thread, h *driver.Host, x exchange, size int) (*side, error) {
	e, err := vipl.OpenEndpoint(t, h, arenaBytes(size))
	if err != nil {
		return nil, err
	}
	b, err := e.Nic.Alloc(t, layout.AttPageBytes)
	if err != nil {
		return nil, err
	}
	control, err := e.Nic.RegisterBuffer(t, b, nil)
	if err != nil {
		return nil, err
	}
	s := &side{exchange: x, endpoint: e, arena: newArena(e.Bytes(), size)}
	for i, d := range []**vipl.Descriptor{&s.descriptor, &s.receives[0], &s.receives[1]} {
		if *d, err = control.Descriptor(i * vipl.DescriptorBytes); err != nil {
			return nil, err
		}
	}
	return s, s.postReceive(t)
}

// postReceive posts the receive of the message after the last one for which
// there is a receive; an RDMA write needs none. Room for the longest is there
// at every size.
func (s *side) postReceive(t *driver.Thread) error {
	if s.exchange != sendReceive {
		return nil
	}
	d := s.receives[s.posted%len(s.receives)]
	s.posted++
	if err := d.SetReceive(s.endpoint.Buffer.Segment(s.arena.receiveOffset(), s.arena.size)); err != nil {
		return err
	}
	return s.endpoint.VI.PostRecv(t, d)
}

// send posts the round's message of n bytes and, while it is under way, the
// receive of the one after the next to come.
func (s *side) send(t *driver.Thread, w pattern, n int) error {
	w.fill(s.arena.sending(n))
	local := s.endpoint.Buffer.Segment(s.arena.sendOffset(), n)
	if s.exchange == rdmaWrite {
		s.descriptor.SetRdmaWrite(local, s.endpoint.Peer.Address+uint64(s.arena.receiveOffset()), s.endpoint.Peer.Handle)
	} else if err := s.descriptor.SetSend(local); err != nil {
		return err
	}
	if err := s.endpoint.VI.PostSend(t, s.descriptor); err != nil {
		return err
	}
	return s.postReceive(t)
}

// receive waits for the round's message: it polls its last byte, or takes its
// receive descriptor.
func (s *side) receive(t *driver.Thread, w pattern, n int) error {
	if s.exchange == rdmaWrite {
		return s.endpoint.Poll(t, s.arena.receiveOffset()+n-1, w.last(), waitLimit)
	}
	d, err := s.endpoint.VI.RecvWait(t, waitLimit)
	if err != nil {
		return err
	}
	want := s.receives[s.taken%len(s.receives)]
	s.taken++
	if d != want || d.CompletedLength() != n {
		return fmt.Errorf("receive %d: descriptor %#x with %d bytes, want %#x with %d", s.taken, d.Address, d.CompletedLength(), want.Address, n)
	}
	return nil
}

// sent takes the completed descriptor back.
func (s *side) sent(t *driver.Thread) error {
	_, err := s.endpoint.VI.SendWait(t, waitLimit)
	return err
}
