// SPDX-License-Identifier: Apache-2.0

package simspeed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
)

// workload is what each pair of cards does: operations of one kind, one after
// another.
type workload struct {
	name, title string
	size        int       // of a message in bytes
	messages    int       // of an operation: 1 there, 2 there and back
	sleep       host.Time // of both programs, in each operation
	warmup      int       // operations before the counted ones
	count       int
}

// stream is the workload whose clocks are counted.
const stream = "stream"

var workloads = []workload{
	{name: stream, title: "64 KiB RDMA write", size: rig.MaxSize, messages: 1, warmup: 2, count: 10},
	{name: "ping_pong", title: "4 B round trip", size: 4, messages: 2, warmup: 20, count: 300},
	{name: "idle", title: "idle second", size: 4, sleep: host.Second, count: 1},
}

const seed = 1

// Sample is the time of one operation, in seconds.
type Sample struct {
	Wall float64
	CPU  float64 // of the simulator or the compilers, user and system
}

// job is a workload in one simulator.
type job struct {
	workload
	began     time.Time
	simulator int       // its process
	at        [2]Sample // before and after the counted operations
}

// run runs the workload on a new fabric.
func (w workload) run(ctx context.Context, c Config, program string, arguments ...string) (s Sample, err error) {
	b, err := costs.New(c.Profile, nil)
	if err != nil {
		return s, err
	}
	j := &job{workload: w, began: time.Now()}
	var programs []fabric.Program
	for node := range c.Cards {
		programs = append(programs, fabric.Program{Node: node, Main: j.main})
	}
	cfg := rig.Cards(b, seed, c.Cards)
	cfg.Program, cfg.Arguments, cfg.Threads = program, arguments, fabric.Participants(programs)
	running, err := sim.Start(ctx, cfg)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, running.Close()) }()
	j.simulator = running.Pid()
	err = fabric.RunOn(ctx, fabric.Machines(running.Conn()), fabric.RunConfig{Fabric: cfg, Costs: b.Costs(), Seed: seed}, programs...)
	n := float64(max(w.count, 1))
	return Sample{(j.at[1].Wall - j.at[0].Wall) / n, (j.at[1].CPU - j.at[0].CPU) / n}, err
}

// main is the program of a node. That of node 1 takes the times.
func (j *job) main(t *host.Thread, h *driver.Host) error {
	node := t.ID().Node
	s, err := rig.OpenSide(t, h, rig.RDMAWrite, j.size)
	if err != nil {
		return err
	}
	if err := s.Connect(t); err != nil {
		return err
	}
	for round := range j.warmup + j.count {
		if round == j.warmup {
			if err := j.stamp(node, 0); err != nil {
				return err
			}
		}
		if err := j.operation(t, s, round); err != nil {
			return fmt.Errorf("operation %d: %w", round, err)
		}
	}
	if err := j.stamp(node, 1); err != nil {
		return err
	}
	// The sender's connection stays until the receiver has checked the data.
	if node%2 == 0 {
		if _, ok, err := t.Receive(rig.WaitLimit); err != nil {
			return err
		} else if !ok {
			return fmt.Errorf("no word of the receiver within %v", rig.WaitLimit)
		}
		return s.Close(t)
	}
	if last := j.warmup + j.count - 1; j.messages > 0 {
		if err := s.Arena.Check(rig.Pattern{Seed: seed, Sender: node - 1, Round: last}, j.size); err != nil {
			return err
		}
	}
	if err := t.Send(host.ThreadID{Node: node - 1, Rank: rig.RankPing}, nil); err != nil {
		return err
	}
	return s.Close(t)
}

// operation sends or receives each message, and sleeps.
func (j *job) operation(t *host.Thread, s *rig.Side, round int) error {
	node := t.ID().Node
	for k := range j.messages {
		sender := node&^1 + k
		p := rig.Pattern{Seed: seed, Sender: sender, Round: round}
		if sender != node {
			if err := s.Receive(t, p, j.size); err != nil {
				return err
			}
			continue
		}
		if err := s.Send(t, p, j.size); err != nil {
			return err
		}
		if err := s.Sent(t); err != nil {
			return err
		}
	}
	if j.sleep == 0 {
		return nil
	}
	return t.Sleep(j.sleep)
}

// stamp notes the times so far, if it is called on node 1.
func (j *job) stamp(node, i int) error {
	if node != 1 {
		return nil
	}
	const scheduled = 2 // the clock of a process that clock_getcpuclockid(3) gives
	var cpu unix.Timespec
	if err := unix.ClockGettime(int32(^j.simulator<<3|scheduled), &cpu); err != nil {
		return fmt.Errorf("processor time of the simulator (process %d): %w", j.simulator, err)
	}
	j.at[i] = Sample{time.Since(j.began).Seconds(), time.Duration(cpu.Nano()).Seconds()}
	return nil
}

// clocks returns the core clocks that a program simulates for one operation on
// each card, 0 if it does not count them.
func (w workload) clocks(ctx context.Context, c Config, program string) (float64, error) {
	dir, err := os.MkdirTemp("", "hvia-bench-sim-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file, sum := filepath.Join(dir, "clocks"), [2]int{}
	for i, count := range []int{0, w.count} {
		shorter := w
		shorter.count = count
		if _, err := shorter.run(ctx, c, program, "--clocks", file); errors.Is(err, sim.ErrRejected) {
			return 0, nil // a simulator of before that option
		} else if err != nil {
			return 0, err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		for _, word := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(word)
			if err != nil {
				return 0, fmt.Errorf("clocks of the simulator: %w", err)
			}
			sum[i] += n
		}
	}
	return float64(sum[1]-sum[0]) / float64(w.count*c.Cards), nil
}
