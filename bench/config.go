// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"slices"

	"hvia/bench/report"
	"hvia/driver"
	"hvia/params"
	"hvia/sim"
)

// ErrConfig is what every refusal of a configuration wraps.
var ErrConfig = errors.New("bad configuration")

// MaxSize is the longest message that an experiment may be asked for.
const MaxSize = driver.MaxTransferSize

// ReproduceConfig says what the reproduction measures and how.
type ReproduceConfig struct {
	Profile    string
	Sizes      []int  // message lengths in bytes, in the order of the table
	Iterations int    // counted round trips per size
	Warmup     int    // round trips before them
	Seed       uint64 // of frame scatter, payload and background traffic
	Processes  int    // 1: both hosts in one process; 2: one process per host
	Background bool   // cross traffic on a second VI
	QuietSkip  bool   // skip spans in which no part of the fabric has work
	PcapFile   string // frames on the wire, "" for none
	WaveFile   string // FST wave of the cards, "" for none

	// Params replaces parameters of the classes model and host for this run.
	Params map[string]int64 `json:",omitempty"`

	Faults sim.WireFaults `json:",omitzero"` // of the wire

	Baselines bool // M-VIA and TCP/IP, too

	Ablate bool // the card with parts of its design taken away, too

	// Progress, if not nil, is told what has been done. It must not block.
	Progress func(Progress) `json:"-"`

	program      string // a simulator with a planted fault, for tests
	noPrediction bool   // not again with the parameters from before the fit

	straps uint32 // of both cards, bits as layout.Strap
	task   string // what progress says first
}

// Progress is what an experiment tells while it runs.
type Progress struct {
	What   string // for example "64 bytes"
	Done   int
	Total  int
	TimePs int64 // simulated time
	Cycles int64 // core clocks since the start, skipped ones included
}

// DefaultReproduceConfig is the paper's list of sizes on the paper's card. A
// few rounds suffice, because simulated times repeat to the bit.
func DefaultReproduceConfig() ReproduceConfig {
	return ReproduceConfig{
		Profile:    params.Profiles[0].Name,
		Sizes:      slices.Clone(report.PaperSizes),
		Iterations: 4,
		Warmup:     2,
		Seed:       1,
		Processes:  1,
		Background: true,
		QuietSkip:  true,
		Baselines:  true,
	}
}

// Validate refuses what no experiment can do.
func (c ReproduceConfig) Validate() error {
	if err := validProfile(c.Profile); err != nil {
		return err
	}
	if len(c.Sizes) == 0 {
		return fmt.Errorf("%w: no sizes: give at least one message length in bytes", ErrConfig)
	}
	for i, s := range c.Sizes {
		if err := validSize(s); err != nil {
			return err
		}
		if slices.Contains(c.Sizes[:i], s) {
			return fmt.Errorf("%w: size %d is listed twice", ErrConfig, s)
		}
	}
	if c.Iterations < 1 {
		return fmt.Errorf("%w: %d iterations: at least 1 is needed", ErrConfig, c.Iterations)
	}
	if c.Warmup < 0 {
		return fmt.Errorf("%w: %d warm-up rounds: 0 or more are possible", ErrConfig, c.Warmup)
	}
	if c.Processes != 1 && c.Processes != 2 {
		return fmt.Errorf("%w: %d processes: 1 (both hosts in one) or 2 (one per host) are possible", ErrConfig, c.Processes)
	}
	_, err := newBoard(c.Profile, c.Params)
	return err
}

// DemoConfig says what one RDMA write the demonstration makes.
type DemoConfig struct {
	Profile  string
	Size     int
	Seed     uint64
	PcapFile string
	WaveFile string
	Faults   sim.WireFaults // of the wire

	program string // as in ReproduceConfig
}

// DefaultDemoConfig is one frame's worth on the paper's card.
func DefaultDemoConfig() DemoConfig {
	return DemoConfig{Profile: params.Profiles[0].Name, Size: 64, Seed: 1}
}

// Validate refuses what the demonstration cannot do.
func (c DemoConfig) Validate() error {
	if err := validProfile(c.Profile); err != nil {
		return err
	}
	return validSize(c.Size)
}

func validSize(s int) error {
	if s < 1 || s > MaxSize {
		return fmt.Errorf("%w: size %d: 1 to %d bytes are possible", ErrConfig, s, MaxSize)
	}
	return nil
}

func validProfile(name string) error {
	var names []string
	for _, p := range params.Profiles {
		if p.Name == name {
			return nil
		}
		names = append(names, p.Name)
	}
	return fmt.Errorf("%w: no profile %q: there is %q", ErrConfig, name, names)
}
