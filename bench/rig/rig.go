// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"

	"hvia/costs"
	"hvia/driver"
	"hvia/host"
	"hvia/params"
	"hvia/sim"
)

// MaxSize is the longest message that an experiment may be asked for.
const MaxSize = driver.MaxTransferSize

// Progress is what an experiment tells while it runs.
type Progress struct {
	What   string // for example "64 bytes"
	Done   int
	Total  int
	TimePs int64 // simulated time
	Cycles int64 // core clocks since the start, skipped ones included
}

func CheckSize(s int) error {
	if s < 1 || s > MaxSize {
		return fmt.Errorf("%w: size %d: 1 to %d bytes are possible", costs.ErrConfig, s, MaxSize)
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

// The rounds of a protocol in the kernel. They repeat to the bit, but not one round like the
// other: a transmit interrupt comes every 400 us or 40 frames, whatever is under way then.
// Before them TCP's window must have grown to the longest message.
const (
	KernelWarmup = 8
	KernelRounds = 16
)

// WaitLimit bounds every wait of the experiments, in simulated time: far more
// than any of them takes, so that a lost message is an error and no hang.
const WaitLimit = host.Second

const pingPort = "ping-pong"

const RankPing = 1

// Stopped gives an error of a run that was told to end the context's error, so
// that nobody takes what followed from that for a fault.
func Stopped(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%s: stopped before its end: %w", what, ctx.Err())
}

// TwoCards is two hosts with a card each and a wire between them.
func TwoCards(b costs.Board, seed uint64) sim.Config {
	cfg := sim.Config{Profile: b.Profile, Params: b.Models(), Seed: seed, Process: "hvia"}
	for n := range 2 {
		cfg.Nodes = append(cfg.Nodes, sim.Node{Kind: "card", Name: nodeName(n)})
	}
	return cfg
}

func nodeName(node int) string { return fmt.Sprintf("node%d", node) }
