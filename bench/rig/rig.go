// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"slices"

	"hvia/costs"
	"hvia/driver"
	"hvia/host"
	"hvia/params"
	"hvia/sim"
)

// MaxSize is the longest message of an experiment, in bytes.
const MaxSize = driver.MaxTransferSize

// Progress is what an experiment reports while it runs.
type Progress struct {
	What   string // for example "64 bytes"
	Done   int
	Total  int
	TimePs int64 // simulated time
	Cycles int64 // core clocks since the start, skipped ones included
}

// maxJobs bounds the memory and sockets of simulations at the same time.
const maxJobs = 64

// CheckJobs checks a number of simulations that run at the same time.
func CheckJobs(n int) error {
	if n < 1 || n > maxJobs {
		return fmt.Errorf("%w: %d jobs: 1 to %d are possible", costs.ErrConfig, n, maxJobs)
	}
	return nil
}

func CheckSize(s int) error {
	if s < 1 || s > MaxSize {
		return fmt.Errorf("%w: size %d: 1 to %d bytes are possible", costs.ErrConfig, s, MaxSize)
	}
	return nil
}

// CheckSizes rejects a list without sizes, or with one twice.
func CheckSizes(list []int) error {
	if len(list) == 0 {
		return fmt.Errorf("%w: no sizes: give at least one message length in bytes", costs.ErrConfig)
	}
	for i, s := range list {
		if err := CheckSize(s); err != nil {
			return err
		}
		if slices.Contains(list[:i], s) {
			return fmt.Errorf("%w: size %d is listed twice", costs.ErrConfig, s)
		}
	}
	return nil
}

func CheckProfile(name string) error {
	var names []string
	for _, p := range params.Profiles {
		if p.Name == name {
			return nil
		}
		names = append(names, p.Name)
	}
	return fmt.Errorf("%w: no profile %q: there is %q", costs.ErrConfig, name, names)
}

// Rounds of a protocol in the kernel. They repeat bit for bit, but rounds
// differ: a transmit interrupt comes every 400 us or 40 frames, whatever is in
// flight then. The warmup lets TCP's window grow to the longest message.
const (
	KernelWarmup = 8
	KernelRounds = 16
)

// WaitLimit bounds every wait of the experiments, in simulated time. It is far
// above any of them, so a lost message is an error and not a hang.
const WaitLimit = host.Second

const pingPort = "ping-pong"

const RankPing = 1

// Stopped replaces the error of an interrupted run by the context's error, so
// that its consequences are not taken for faults.
func Stopped(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%s: stopped before its end: %w", what, ctx.Err())
}

// Cards configures hosts with a card each. A wire connects two, a switch more.
func Cards(b costs.Board, seed uint64, hosts int) sim.Config {
	cfg := sim.Config{Profile: b.Profile, Params: b.Models(), Seed: seed, Process: "hvia"}
	for n := range hosts {
		cfg.Nodes = append(cfg.Nodes, sim.Node{Kind: "card", Name: nodeName(n)})
	}
	return cfg
}

func nodeName(node int) string { return fmt.Sprintf("node%d", node) }
