// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"

	"hvia/bench/rig"
	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// readClient reads messages out of the server's memory, one after another. It
// clears its buffer before each, so that no byte is an earlier message's.
func (x *comparison) readClient(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenSide(t, h, rig.RDMARead, x.config.largest())
	if err != nil {
		return err
	}
	if err := s.Endpoint.Dial(t, vipl.At(serverNode, channelName(0)), rig.WaitLimit); err != nil {
		return err
	}
	err = x.eachStage(t, h, 0, false, nil, func(i int, stage *stage, n *note) error {
		for k := range stage.total {
			if k == stage.warmup {
				n.start(t, h)
			}
			s.Arena.Restore(stage.size)
			began := t.Now()
			if err := s.Read(t, stage.size); err != nil {
				return fmt.Errorf("read %d: %w", k, err)
			}
			n.rounds = append(n.rounds, t.Now()-began)
			if err := s.Arena.Check(x.content(i, serverNode, 0), stage.size); err != nil && n.fault == "" {
				n.fault = err.Error()
			}
		}
		s.Arena.Restore(stage.size)
		return nil
	})
	if err != nil {
		return err
	}
	return s.Endpoint.Close(t)
}

// readServer owns the memory that is read, and is idle meanwhile.
func (x *comparison) readServer(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenSide(t, h, rig.RDMARead, x.config.largest())
	if err != nil {
		return err
	}
	if err := s.Endpoint.Accept(t, channelName(0), rig.WaitLimit); err != nil {
		return err
	}
	for i := range x.stages {
		stage := &x.stages[i]
		n := &stage.notes[1]
		x.content(i, serverNode, 0).Fill(s.Arena.Sending(stage.size))
		if err := x.barrier(t, i, false); err != nil {
			return err
		}
		n.start(t, h)
		if err := x.barrier(t, i, true); err != nil {
			return err
		}
		n.stop(t, h)
	}
	return s.Endpoint.Close(t)
}
