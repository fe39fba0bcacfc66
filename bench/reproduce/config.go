// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"fmt"
	"runtime"
	"slices"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/params"
	"hvia/sim"
)

// Config says what the reproduction measures and how.
type Config struct {
	Profile    string
	Sizes      []int  // message lengths in bytes, in the order of the table
	Iterations int    // counted round trips per size
	Warmup     int    // round trips before them
	Seed       uint64 // of frame scatter, payload and background traffic
	Processes  int    // 1: both hosts in one process; 2: one process per host
	Background bool   // cross traffic on a second VI
	sim.Checks
	PcapFile string // frames on the wire, "" for none
	WaveFile string // FST wave of the cards, "" for none

	// Params replaces parameters of the classes model and host for this run.
	Params map[string]int64 `json:",omitempty"`

	Faults sim.WireFaults `json:",omitzero"` // of the wire

	Baselines bool // measure M-VIA and TCP/IP, too

	Ablate bool // measure ablations, too

	Jobs int // simulations that run at the same time

	// Progress, if not nil, receives what has been done. It must not block.
	Progress func(rig.Progress) `json:"-"`

	program      string // a simulator with an injected bug, for tests
	NoPrediction bool   // do not repeat with the parameters from before the fit

	straps uint32 // of both cards, bits as layout.Strap
	task   string // prefix of progress
}

// DefaultConfig is the paper's list of sizes on the paper's card. A few rounds
// suffice, because simulated times repeat bit for bit.
func DefaultConfig() Config {
	return Config{
		Profile:    params.Profiles[0].Name,
		Sizes:      slices.Clone(report.PaperSizes),
		Iterations: 4,
		Warmup:     2,
		Seed:       1,
		Processes:  1,
		Background: true,
		Baselines:  true,
		Jobs:       runtime.NumCPU(),
	}
}

// Validate rejects a configuration that no experiment supports.
func (c Config) Validate() error {
	if err := rig.CheckProfile(c.Profile); err != nil {
		return err
	}
	if err := rig.CheckSizes(c.Sizes); err != nil {
		return err
	}
	if c.Iterations < 1 {
		return fmt.Errorf("%w: %d iterations: at least 1 is needed", costs.ErrConfig, c.Iterations)
	}
	if c.Warmup < 0 {
		return fmt.Errorf("%w: %d warm-up rounds: 0 or more are possible", costs.ErrConfig, c.Warmup)
	}
	if c.Processes != 1 && c.Processes != 2 {
		return fmt.Errorf("%w: %d processes: 1 (both hosts in one) or 2 (one per host) are possible", costs.ErrConfig, c.Processes)
	}
	if err := rig.CheckJobs(c.Jobs); err != nil {
		return err
	}
	_, err := costs.New(c.Profile, c.Params)
	return err
}
