// SPDX-License-Identifier: Apache-2.0

package simspeed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/verilate"
)

// Config says what is measured.
type Config struct {
	Profile  string
	Runs     int      // of each workload with each simulator
	Cards    int      // an even number
	Build    bool     // cold builds too
	Checkers bool     // also the simulator with the assertions of the RTL
	Programs []string // also these simulators

	// Progress, if not nil, receives what has been done. It must not block.
	Progress func(rig.Progress)

	workloads []workload
}

// DefaultConfig is five runs on two cards.
func DefaultConfig() Config {
	return Config{Profile: params.Profiles[0].Name, Runs: 5, Cards: 2, workloads: workloads}
}

const maxRuns = 1000

// Validate rejects what cannot be measured.
func (c Config) Validate() error {
	if err := rig.CheckProfile(c.Profile); err != nil {
		return err
	}
	if c.Runs < 1 || c.Runs > maxRuns {
		return fmt.Errorf("%w: %d runs: 1 to %d are possible", costs.ErrConfig, c.Runs, maxRuns)
	}
	if c.Cards < 2 || c.Cards > layout.BridgeMaxNodes || c.Cards%2 != 0 {
		return fmt.Errorf("%w: %d cards: an even number from 2 to %d is possible", costs.ErrConfig, c.Cards, layout.BridgeMaxNodes)
	}
	for _, p := range c.Programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%w: program %s is no executable file: give the path of a simulator, as 'hvia build' prints it", costs.ErrConfig, p)
		}
	}
	return nil
}

// simulator is one of those that are measured by turns.
type simulator struct {
	name, path string
	build      *sim.Build // nil if it is not built here
}

// simulators builds those of the checkout that are not built yet.
func (c Config) simulators(ctx context.Context) ([]simulator, error) {
	builds := []*sim.Build{{Profile: c.Profile}}
	if c.Checkers {
		builds = append(builds, &sim.Build{Profile: c.Profile, Full: true})
	}
	var list []simulator
	for i, b := range builds {
		path, err := b.Program(ctx)
		if err != nil {
			return nil, fmt.Errorf("bench-sim: %w", err)
		}
		list = append(list, simulator{[]string{"default", "checkers"}[i], path, b})
	}
	for i, p := range c.Programs {
		list = append(list, simulator{programName(i), p, nil})
	}
	return list, nil
}

// programName names one of Config.Programs.
func programName(i int) string { return fmt.Sprintf("program %d", i+1) }

// measure takes the times of one kind of operation. It skips simulators for
// which usable is false.
type measure struct {
	name, title string
	usable      func(simulator) bool
	take        func(context.Context, simulator) (Sample, error)
}

func (c Config) measures() (list []measure) {
	for _, w := range c.workloads {
		list = append(list, measure{w.name, w.title, func(simulator) bool { return true }, func(ctx context.Context, s simulator) (Sample, error) {
			return w.run(ctx, c, s.path)
		}})
	}
	if c.Build {
		list = append(list, measure{"build", "cold build", func(s simulator) bool { return s.build != nil }, func(ctx context.Context, s simulator) (Sample, error) {
			return coldBuild(ctx, *s.build)
		}})
	}
	return list
}

// Run measures. The simulators take turns, because the machine's load changes
// meanwhile. With an error it returns what it has measured until then.
func Run(ctx context.Context, c Config) (r *Report, err error) {
	defer func() { err = rig.Stopped(ctx, "bench-sim", err) }()
	hashes, err := rig.Environment(c, c.Profile)
	if err != nil {
		return nil, err
	}
	r = NewReport(c, hashes)
	simulators, err := c.simulators(ctx)
	if err != nil {
		return r, err
	}
	defer r.summarize()
	measures := c.measures()
	tally := rig.Tally{Show: c.Progress}
	for _, m := range measures {
		for _, s := range simulators {
			if m.usable(s) {
				r.Rows = append(r.Rows, &Row{Measure: m.name, Title: m.title, Simulator: s.name})
				tally.Total += c.Runs
			}
		}
	}
	if err := r.countClocks(ctx, c, simulators); err != nil {
		return r, err
	}
	for range c.Runs {
		row := 0
		for _, m := range measures {
			for _, s := range simulators {
				if !m.usable(s) {
					continue
				}
				sample, err := m.take(ctx, s)
				if err != nil {
					return r, fmt.Errorf("bench-sim: %s, simulator %s: %w", m.title, s.name, err)
				}
				r.Rows[row].add(sample)
				row++
				tally.Count(rig.Progress{What: m.title + ", " + s.name})
			}
		}
	}
	return r, nil
}

// coldBuild builds a simulator in an empty cache.
func coldBuild(ctx context.Context, b sim.Build) (s Sample, err error) {
	root, err := verilate.Root()
	if err != nil {
		return s, err
	}
	// make can use a path in the checkout, and git ignores this one.
	if b.Cache, err = os.MkdirTemp(filepath.Join(root, "build"), "bench-sim-"); err != nil {
		return s, err
	}
	defer os.RemoveAll(b.Cache)
	before, err := childrenTime()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	if _, err := b.Program(ctx); err != nil {
		return s, err
	}
	s.Wall = time.Since(begin).Seconds()
	after, err := childrenTime()
	s.CPU = after - before
	return s, err
}

// childrenTime is the processor time of all child processes that have ended.
func childrenTime() (float64, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), err
}
