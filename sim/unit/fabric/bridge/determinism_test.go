// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/sim"
	"hvia/sim/unit/internal/unit"
)

func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(20041104)
	if v := os.Getenv("HVIA_SEED"); v != "" {
		var err error
		s, err = strconv.ParseUint(v, 0, 64)
		require.NoError(t, err, "HVIA_SEED")
	}
	t.Logf("seed %d (HVIA_SEED repeats it)", s)
	return s
}

type shape struct {
	processes int
	maxProcs  int
	noise     uint64
	goHogs    int // goroutines that spin in the hosts' processes
	hogs      int // further processes that spin
	arguments []string
	stuck     time.Duration
	program   string // simulator, the real one if empty
	reversed  bool   // threads are declared last first
}

func (s shape) String() string {
	return fmt.Sprintf("processes %d, GOMAXPROCS %d, noise %d, busy goroutines %d, busy processes %d, reversed %v %v", s.processes, s.maxProcs, s.noise, s.goHogs, s.hogs, s.reversed, s.arguments)
}

// outcome is everything that a run must repeat.
type outcome struct {
	Records string
	Digest  string
}

func runWorkload(t *testing.T, ctx context.Context, s shape, seed uint64, rounds int) (outcome, error) {
	t.Helper()
	if s.maxProcs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(s.maxProcs))
	}
	cfg := sim.Config{Threads: workloadThreads, Arguments: s.arguments, Nodes: []sim.Node{{Kind: "echo", Name: "a"}, {Kind: "echo", Name: "b"}}, MemoryBytes: memoryBytes, StuckLimit: s.stuck, Program: s.program}
	if cfg.Program == "" {
		cfg.Program = unit.Simulator(t)
	}
	if s.reversed {
		cfg.Threads = slices.Clone(cfg.Threads)
		slices.Reverse(cfg.Threads)
	}
	nodes := []int{0, 1}
	if s.processes == 2 {
		nodes = []int{0}
		cfg.MapNodes = nodes
	}
	for range s.hogs {
		hog := spawn(t, "hog")
		defer end(hog)
	}
	f, err := sim.Start(ctx, cfg)
	if err != nil {
		return outcome{}, err
	}
	defer f.Close()
	if s.processes == 2 {
		peer := spawn(t, "workload", "HVIA_PATH="+f.Path(), fmt.Sprintf("HVIA_SEED=%d", seed), fmt.Sprintf("HVIA_ROUNDS=%d", rounds),
			fmt.Sprintf("HVIA_NOISE=%d", s.noise), fmt.Sprintf("HVIA_HOGS=%d", s.goHogs))
		defer end(peer)
	}
	records, err := runNodes(ctx, f, nodes, seed, rounds, disturbance{seed: s.noise, sleeps: s.noise != 0, hogs: s.goHogs})
	if err != nil {
		return outcome{}, err
	}
	d, err := f.Digest(ctx)
	if err != nil {
		return outcome{}, err
	}
	if !d.Reproducible {
		return outcome{}, errors.New("the run is marked as not reproducible")
	}
	return outcome{Records: records, Digest: fmt.Sprintf("%016x at %d ps, %d frames, %d wakes", d.Hash, d.Time, d.Frames, d.Wakes)}, nil
}

func TestDeterminism(t *testing.T) {
	rounds := 150
	shapes := []shape{
		{processes: 1},
		{processes: 1, maxProcs: 1, noise: 1},
		{processes: 1, maxProcs: 4, noise: 2, goHogs: 2},
		{processes: 1, noise: 5, hogs: 2},
		{processes: 1, reversed: true},
		{processes: 2, noise: 3},
		{processes: 2, maxProcs: 2, noise: 4, hogs: 2},
	}
	if testing.Short() {
		rounds, shapes = 20, append(shapes[:1], shapes[5])
	}
	if os.Getenv("HVIA_LONG") == "1" {
		rounds = 1000
		for i := range 20 {
			shapes = append(shapes, shape{processes: 1 + i%2, maxProcs: 1 + i%4, noise: uint64(100 + i), hogs: i % 4})
		}
	}
	s := seed(t)
	var want outcome
	for i, sh := range shapes {
		ctx := testContext(t, 5*time.Minute)
		start := time.Now()
		got, err := runWorkload(t, ctx, sh, s, rounds)
		require.NoError(t, err, "%v, seed %d", sh, s)
		t.Logf("%v: %v, %s, %s", sh, time.Since(start).Round(time.Millisecond), got.Digest, got.Records)
		if i == 0 {
			want = got
			continue
		}
		require.Equal(t, want, got, "%v differs from %v, seed %d", sh, shapes[0], s)
	}
}

// A simulator that ignores the promises of running threads must be detected.
// Otherwise the test above proves nothing.
func TestDeterminismTestNotices(t *testing.T) {
	s := seed(t)
	rounds := 60
	ctx := testContext(t, time.Minute)
	want, err := runWorkload(t, ctx, shape{processes: 1}, s, rounds)
	require.NoError(t, err)
	for noise := range uint64(5) {
		ctx := testContext(t, 20*time.Second)
		got, err := runWorkload(t, ctx, shape{processes: 1, noise: noise + 1, arguments: []string{"--fault", "ignore-running"}, stuck: time.Second}, s, rounds)
		if err != nil || got != want {
			t.Logf("noticed with noise %d: %v, %v", noise+1, err, got)
			return
		}
	}
	t.Fatalf("a simulator without the time protocol gave the same results five times, seed %d", s)
}

// Without a fixed order of the slots, simultaneous commands would take effect
// in the order in which threads were declared.
func TestMutantSlotOrderIsCaught(t *testing.T) {
	program := mutant(t, slotOrderBug)
	s := seed(t)
	ctx := testContext(t, time.Minute)
	want, err := runWorkload(t, ctx, shape{processes: 1, program: program}, s, 20)
	require.NoError(t, err)
	got, err := runWorkload(t, ctx, shape{processes: 1, program: program, reversed: true}, s, 20)
	require.NoError(t, err)
	require.NotEqual(t, want, got, "the order of declaration shows nowhere")
}
