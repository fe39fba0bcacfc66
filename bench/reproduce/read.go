// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"fmt"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
)

const (
	readName  = "reader"
	readPort  = "read"
	ownerName = "owner"
)

// Barriers of the experiment: before the reads of a size, and after them.
const barrierRead = 1

func measureRDMARead(ctx context.Context, c Config) (add func(*report.Report), err error) {
	m, err := measureReads(ctx, c)
	return func(r *report.Report) {
		r.Results.RDMARead = m.rows
		addDigest(r, rig.RDMARead.Key(), m.Digest)
	}, err
}

// measureReads reads messages of each size from the other host, one after
// another. Both programs run in this process, whatever the configuration says
// of processes.
func measureReads(ctx context.Context, c Config) (m measurement, err error) {
	rec, err := rig.Record("", "")
	if err != nil {
		return m, fmt.Errorf("RDMA read: %w", err)
	}
	defer rec.Remove()
	b, err := costs.New(c.Profile, c.Params)
	if err != nil {
		return m, err
	}
	x := &reads{config: c, clockPs: b.Value("SystemClockPeriod")}
	cfg := c.fabric(b)
	rec.Into(&cfg)
	failed := fabric.Run(ctx, fabric.RunConfig{
		Fabric: cfg, Costs: b.Costs(), Seed: c.Seed,
		Finished: func(f *sim.Fabric) (err error) { m.Digest, err = rig.DigestOf(ctx, f); return err },
	}, fabric.Program{Node: 0, Name: readName, Main: x.read}, fabric.Program{Node: 1, Name: ownerName, Main: x.own})
	events, err := rec.Events()
	if failed != nil {
		err = failed
	}
	if err != nil {
		return m, fmt.Errorf("RDMA read: %w", err)
	}
	m.rows, err = x.fold(events)
	return m, err
}

// reads is the experiment: its programs, and what the reader noted.
type reads struct {
	config  Config
	clockPs int64
	vi      int         // of the reader
	took    []host.Time // by read: from the call of PostSend to the return of SendWait
	faults  []string    // by size: the first wrong byte
}

func (x *reads) rounds() int { return x.config.Warmup + x.config.Iterations }

// content is the owner's memory during the reads of the k-th size.
func (x *reads) content(k int) rig.Pattern {
	return rig.Pattern{Seed: x.config.Seed, Sender: 1, Round: k + 1}
}

func (x *reads) meet(t *host.Thread, k int, after bool) error {
	id := barrierRead + 2*uint64(k)
	if after {
		id++
	}
	return t.Barrier(id, 2)
}

// read is the program on node 0. It clears its buffer before each read, so that
// no byte of an earlier one is taken for this one's.
func (x *reads) read(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenSide(t, h, rig.RDMARead, largest(x.config.Sizes))
	if err != nil {
		return err
	}
	if err := s.Endpoint.Dial(t, vipl.At(1, readPort), rig.WaitLimit); err != nil {
		return err
	}
	x.vi = s.Index()
	for k, n := range x.config.Sizes {
		if err := x.meet(t, k, false); err != nil {
			return err
		}
		fault := ""
		for i := range x.rounds() {
			s.Arena.Restore(n)
			began := t.Now()
			if err := s.Read(t, n); err != nil {
				return fmt.Errorf("%d bytes, read %d: %w", n, i, err)
			}
			x.took = append(x.took, t.Now()-began)
			if err := s.Arena.Check(x.content(k), n); err != nil && fault == "" {
				fault = err.Error()
			}
		}
		s.Arena.Restore(n)
		x.faults = append(x.faults, fault)
		if err := x.meet(t, k, true); err != nil {
			return err
		}
		if x.config.Progress != nil {
			x.config.Progress(rig.Progress{What: fmt.Sprintf("%s%s, %d bytes", x.config.task, rig.RDMARead, n), Done: k + 1, Total: len(x.config.Sizes), TimePs: int64(t.Now()), Cycles: int64(t.Now()) / x.clockPs})
		}
	}
	return s.Endpoint.Close(t)
}

// own is the program on node 1. It does nothing while its memory is read.
func (x *reads) own(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenSide(t, h, rig.RDMARead, largest(x.config.Sizes))
	if err != nil {
		return err
	}
	if err := s.Endpoint.Accept(t, readPort, rig.WaitLimit); err != nil {
		return err
	}
	for k, n := range x.config.Sizes {
		x.content(k).Fill(s.Arena.Sending(n))
		for _, after := range []bool{false, true} {
			if err := x.meet(t, k, after); err != nil {
				return err
			}
		}
	}
	return s.Endpoint.Close(t)
}

func (x *reads) fold(events []rig.TraceEvent) ([]report.PingPongResult, error) {
	var rows []report.PingPongResult
	next := 0
	for k, n := range x.config.Sizes {
		var whole, hardware int64
		for i := range x.rounds() {
			start, end, after, err := readTimes(events, next, 0, x.vi)
			if err != nil {
				return rows, fmt.Errorf("RDMA read: %d bytes, read %d: %w", n, i, err)
			}
			next = after
			if i >= x.config.Warmup {
				whole += int64(x.took[k*x.rounds()+i])
				hardware += end - start
			}
		}
		whole /= int64(x.config.Iterations)
		hardware /= int64(x.config.Iterations)
		rows = append(rows, report.PingPongResult{
			Size: n, HalfRTTPs: whole, HardwarePs: hardware, HostPs: whole - hardware, BytesPerSec: report.BytesPerSecond(n, whole),
			Verified: x.faults[k] == "", Fault: x.faults[k],
		})
	}
	return rows, nil
}

// readTimes finds the next read of a node in the trace: the store to the
// doorbell, and the time at which the card has stored its status.
func readTimes(events []rig.TraceEvent, from, node, vi int) (start, end int64, next int, err error) {
	i, err := rig.FindDoorbell(events, from, node, vi)
	if err != nil {
		return 0, 0, i, err
	}
	start = events[i].TimePs
	for ; i < len(events); i++ {
		if e := events[i]; e.Event == layout.TraceEventCompletionWritten && e.Node == node && e.VI == vi {
			return start, e.TimePs, i + 1, nil
		}
	}
	return 0, 0, i, fmt.Errorf("%w: no status of the read that node %d, VI %d, posted at %d ps", rig.ErrTrace, node, vi, start)
}
