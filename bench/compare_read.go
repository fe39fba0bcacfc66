// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// readClient reads messages out of the server's memory, one after another. Its
// buffer is cleared before each, so that no byte is an earlier message's.
func (x *comparison) readClient(t *host.Thread, h *driver.Host) error {
	s, err := openSide(t, h, rdmaRead, x.config.largest())
	if err != nil {
		return err
	}
	if err := s.endpoint.Dial(t, vipl.At(serverNode, channelName(0)), waitLimit); err != nil {
		return err
	}
	for i := range x.stages {
		stage := &x.stages[i]
		n := &stage.notes[0]
		if err := x.barrier(t, i, false); err != nil {
			return err
		}
		for k := range stage.total {
			if k == stage.warmup {
				n.start(t, h)
			}
			s.arena.restore(stage.size)
			began := t.Now()
			if err := s.read(t, stage.size); err != nil {
				return fmt.Errorf("read %d: %w", k, err)
			}
			n.rounds = append(n.rounds, t.Now()-began)
			if err := s.arena.check(x.content(i, serverNode, 0), stage.size); err != nil && n.refused == "" {
				n.refused = err.Error()
			}
		}
		s.arena.restore(stage.size)
		n.stop(t, h)
		if err := x.barrier(t, i, true); err != nil {
			return err
		}
		x.tell(t, i)
	}
	return s.endpoint.Close(t)
}

// readServer has the memory that is read, and does nothing meanwhile.
func (x *comparison) readServer(t *host.Thread, h *driver.Host) error {
	s, err := openSide(t, h, rdmaRead, x.config.largest())
	if err != nil {
		return err
	}
	if err := s.endpoint.Accept(t, channelName(0), waitLimit); err != nil {
		return err
	}
	for i := range x.stages {
		stage := &x.stages[i]
		n := &stage.notes[1]
		x.content(i, serverNode, 0).fill(s.arena.sending(stage.size))
		if err := x.barrier(t, i, false); err != nil {
			return err
		}
		n.start(t, h)
		if err := x.barrier(t, i, true); err != nil {
			return err
		}
		n.stop(t, h)
	}
	return s.endpoint.Close(t)
}
