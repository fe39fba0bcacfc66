// SPDX-License-Identifier: Apache-2.0

package simspeed

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/rig"
	"hvia/host"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/verilate"
)

// short has the same workloads with few operations.
func short() Config {
	c := DefaultConfig()
	c.Runs, c.workloads = 1, slices.Clone(workloads)
	for i := range c.workloads {
		w := &c.workloads[i]
		w.warmup, w.count, w.sleep = min(w.warmup, 1), 1, w.sleep/1000
	}
	return c
}

func TestRun(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := short()
	c.Cards, c.Checkers = 4, true
	var steps []string
	c.Progress = func(p rig.Progress) {
		require.Equal(t, 6, p.Total)
		steps = append(steps, p.What)
	}
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{
		"64 KiB RDMA write, default", "64 KiB RDMA write, checkers", "4 B round trip, default", "4 B round trip, checkers", "idle second, default", "idle second, checkers",
	}, steps, "the simulators take turns")
	require.Len(t, r.Rows, 6)
	require.Len(t, r.Environment.RTL, 16)
	for i, row := range r.Rows {
		require.Len(t, row.Wall.Runs, 1)
		require.Positive(t, row.Wall.Least)
		require.Positive(t, row.CPU.Least)
		require.Equal(t, i < 2, row.Rate != nil, "clocks are counted in the stream")
	}
	// 64 KiB take 0.71 ms, in which a card rests for few clocks.
	require.InDelta(t, 20_000, r.Rows[0].Clocks, 1_500)
	// Some clocks pass between the end of the programs and that of the fabric.
	require.InDelta(t, r.Rows[0].Clocks, r.Rows[1].Clocks, 20, "tests have one build")
}

// Without skipping, the simulator counts every clock.
func TestClocks(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := short()
	w := c.workloads[2]
	w.sleep = host.Millisecond
	program, err := sim.Build{Profile: c.Profile}.Program(t.Context())
	require.NoError(t, err)
	set, err := params.ForProfile(c.Profile)
	require.NoError(t, err)
	period, err := set.Lookup("SystemClockPeriod")
	require.NoError(t, err)
	all := float64(host.Millisecond) / float64(period)

	skipped, err := w.clocks(t.Context(), c, program)
	require.NoError(t, err)
	require.Less(t, skipped, all/10)
	// A program that adds an option, as a simulator of another build.
	unskipped := filepath.Join(t.TempDir(), "unskipped")
	require.NoError(t, os.WriteFile(unskipped, []byte("#!/bin/sh\nexec "+program+" \"$@\" --no-skip 1\n"), 0o755))
	every, err := w.clocks(t.Context(), c, unskipped)
	require.NoError(t, err)
	require.InDelta(t, all, every, 20)
	// One that lacks the option measures times only.
	lacks := filepath.Join(t.TempDir(), "lacks")
	require.NoError(t, os.WriteFile(lacks, []byte("#!/bin/sh\ncase \"$*\" in *--clocks*) echo 'hvia-sim: --clocks: unknown option'; exit 2;; esac\nexec "+program+" \"$@\"\n"), 0o755))
	none, err := w.clocks(t.Context(), c, lacks)
	require.NoError(t, err)
	require.Zero(t, none)
}

// A program that is no simulator, and an interruption.
func TestRunFails(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := short()
	c.Programs = []string{"/bin/true"}
	r, err := Run(t.Context(), c)
	require.ErrorIs(t, err, sim.ErrStart)
	require.ErrorContains(t, err, "bench-sim: 64 KiB RDMA write, simulator program 1: ")
	require.False(t, r.Measured())

	c = short()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Progress = func(rig.Progress) { cancel() }
	r, err = Run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.Rows, 1, "the first measure is complete")
}

// A cold build leaves the cache of the checkout alone.
func TestColdBuild(t *testing.T) {
	if !benchtest.Long() {
		t.Skip("builds a simulator: make test-long")
	}
	root, err := verilate.Root()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "build"), 0o755))
	s, err := coldBuild(t.Context(), sim.Build{})
	require.NoError(t, err)
	require.Greater(t, s.CPU, 5.0)
	left, err := filepath.Glob(filepath.Join(root, "build", "bench-sim-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
