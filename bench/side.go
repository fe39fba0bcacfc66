// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"hvia/driver"
	"hvia/layout"
	"hvia/vipl"
)

// side is one end of an experiment: a connection, a buffer with room for a message each way,
// and a descriptor.
type side struct {
	endpoint   *vipl.Endpoint
	arena      *arena
	descriptor *vipl.Descriptor
}

func openSide(t *driver.Thread, h *driver.Host, size int) (*side, error) {
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
	d, err := control.Descriptor(0)
	if err != nil {
		return nil, err
	}
	return &side{endpoint: e, arena: newArena(e.Bytes(), size), descriptor: d}, nil
}

// send posts the round's message of n bytes.
func (s *side) send(t *driver.Thread, w pattern, n int) error {
	w.fill(s.arena.sending(n))
	s.descriptor.SetRdmaWrite(s.endpoint.Buffer.Segment(s.arena.sendOffset(), n),
		s.endpoint.Peer.Address+uint64(s.arena.receiveOffset()), s.endpoint.Peer.Handle)
	return s.endpoint.VI.PostSend(t, s.descriptor)
}

// receive polls for the round's message.
func (s *side) receive(t *driver.Thread, w pattern, n int) error {
	return s.endpoint.Poll(t, s.arena.receiveOffset()+n-1, w.last(), waitLimit)
}

// sent takes the completed descriptor back.
func (s *side) sent(t *driver.Thread) error {
	_, err := s.endpoint.VI.SendWait(t, waitLimit)
	return err
}
