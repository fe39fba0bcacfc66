// SPDX-License-Identifier: Apache-2.0

// Package unit runs the Verilated testbenches of single RTL blocks from Go
// tests: the seed, the size, the time limit, and the figures that a testbench
// prints.
package unit

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hvia/params"
	"hvia/sim/verilate"
)

// DefaultSeed is the seed unless HVIA_SEED is set.
const DefaultSeed = 20040217

// Sizes are the sizes of one unit test, in its unit of work.
type Sizes struct {
	Short, Normal, Long uint64
}

// Pick returns the size of this run.
func (s Sizes) Pick() uint64 {
	switch {
	case testing.Short():
		return s.Short
	case os.Getenv("HVIA_LONG") == "1":
		return s.Long
	default:
		return s.Normal
	}
}

// Seed returns HVIA_SEED, or DefaultSeed.
func Seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("HVIA_SEED")
	if text == "" {
		return DefaultSeed
	}
	seed, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("HVIA_SEED=%q: want an unsigned number", text)
	}
	return seed
}

// Build builds a testbench, or ends the test. Every one depends on the headers
// of the unit tests, of the models and on the generated ones.
func Build(t *testing.T, spec verilate.Spec) string {
	t.Helper()
	spec.Headers = append(slices.Clone(spec.Headers), "sim/unit/internal/unit/*.h", "sim/model/*.h", "sim/gen/*.h")
	program, err := verilate.Build(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Run runs a testbench and returns the figures that it prints as lines of "name
// value"; it ignores other lines. Further arguments are passed unchanged.
func Run(ctx context.Context, program string, seed, size uint64, more ...string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{fmt.Sprintf("--seed=%d", seed), fmt.Sprintf("--size=%d", size)}, more...)...)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s --seed=%d --size=%d: %w\n%s%s", program, seed, size, err, tail(stdout.String()), tail(stderr.String()))
	}
	figures := map[string]uint64{}
	for line := range strings.Lines(stdout.String()) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		v, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue
		}
		figures[f[0]] = v
	}
	return figures, nil
}

// MustPass builds and runs a testbench and logs its figures.
func MustPass(t *testing.T, spec verilate.Spec, sizes Sizes) map[string]uint64 {
	t.Helper()
	program := Build(t, spec)
	figures, err := Run(t.Context(), program, Seed(t), sizes.Pick())
	if err != nil {
		t.Fatal(err)
	}
	if figures["passed"] != 1 {
		t.Fatalf("%s ended without its verdict: figures %v", spec.Name, figures)
	}
	t.Logf("%s: %v", spec.Name, figures)
	return figures
}

// Netlist returns the same testbench with the Yosys netlist of its RTL.
func Netlist(spec verilate.Spec) verilate.Spec {
	spec.Name += "_netlist"
	spec.Netlist = true
	return spec
}

// FewerVIs runs a testbench on RTL built for 16 and, in long runs, 64 VIs.
func FewerVIs(t *testing.T, spec verilate.Spec, sizes Sizes) {
	t.Helper()
	const pkg = "rtl/gen/hvia_params_pkg.sv"
	base := fmt.Sprintf("VICountLog2 = %d;", params.VICountLog2)
	for _, log2 := range []int{4, 6} {
		t.Run(fmt.Sprint(1<<log2), func(t *testing.T) {
			if log2 == 6 && os.Getenv("HVIA_LONG") != "1" {
				t.Skip("HVIA_LONG=1 only")
			}
			s := spec
			s.Name += fmt.Sprintf("_vis%d", 1<<log2)
			s.Mutants = []verilate.Mutant{{File: pkg, Old: base, New: fmt.Sprintf("VICountLog2 = %d;", log2)}}
			s.Defines = append(slices.Clone(s.Defines), fmt.Sprintf("VI_COUNT_LOG2=%d", log2))
			MustPass(t, s, Sizes{sizes.Short, sizes.Short, sizes.Normal})
		})
	}
}

// Fault starts a subtest for an injected bug that needs a separate build.
// HVIA_MUTANTS=1 and HVIA_LONG=1 run all of them; a plain run does about one in
// four, always the same ones, because a build takes half a minute.
func Fault(t *testing.T) {
	t.Helper()
	if allFaults() {
		return
	}
	h := fnv.New32a()
	h.Write([]byte(t.Name()))
	if h.Sum32()%4 != 0 {
		t.Skip("one planted fault in four is tried in a plain run, all by make mutants")
	}
}

// FaultySimulator starts a test that builds the complete simulator with bugs in
// it. It skips the test unless all bugs are requested: the build takes minutes,
// and the tests of the blocks try theirs in every run.
func FaultySimulator(t *testing.T) {
	t.Helper()
	if !allFaults() {
		t.Skip("builds a simulator with planted faults: make mutants")
	}
}

func allFaults() bool {
	return os.Getenv("HVIA_MUTANTS") == "1" || os.Getenv("HVIA_LONG") == "1"
}

// MustCatch builds a testbench with one injected bug and requires that it
// fails.
func MustCatch(t *testing.T, spec verilate.Spec, name string, mutant verilate.Mutant, sizes Sizes) {
	t.Helper()
	Fault(t)
	spec.Name += "_" + name
	spec.Mutants = []verilate.Mutant{mutant}
	program := Build(t, spec)
	figures, err := Run(t.Context(), program, Seed(t), sizes.Pick())
	if err == nil {
		t.Fatalf("the bench did not catch the planted fault %q -> %q in %s; figures %v", mutant.Old, mutant.New, mutant.File, figures)
	}
	t.Logf("caught: %s", firstLine(err.Error()))
}

// Switched is an injected bug that is inactive until a run switches it on, so
// that all bugs of a testbench need one build. New replaces Old, with the word
// FAULT for the condition that it is on.
type Switched struct{ Name, File, Old, New string }

// Plant puts all bugs into a spec. A run switches bug number n on with
// +fault=n, the first one is 1. Anchors are texts that occur once in a file;
// the declaration of the switch goes behind them.
func Plant(t *testing.T, spec verilate.Spec, anchors map[string]string, faults []Switched) verilate.Spec {
	t.Helper()
	spec.Name += "_faults"
	spec.Mutants = nil
	for _, file := range slices.Sorted(maps.Keys(anchors)) {
		spec.Mutants = append(spec.Mutants, verilate.Mutant{File: file, Old: anchors[file],
			New: anchors[file] + "\n  int planted;\n  initial if ($value$plusargs(\"fault=%d\", planted) == 0) planted = 0;\n"})
	}
	for i, f := range faults {
		if _, ok := anchors[f.File]; !ok || !strings.Contains(f.New, "FAULT") {
			t.Fatalf("fault %s: %s has no anchor, or %q no FAULT", f.Name, f.File, f.New)
		}
		on := fmt.Sprintf("(planted == %d)", i+1)
		spec.Mutants = append(spec.Mutants, verilate.Mutant{File: f.File, Old: f.Old, New: strings.ReplaceAll(f.New, "FAULT", on)})
	}
	return spec
}

// MustCatchEach builds a testbench with all bugs, requires that it passes with
// all of them off, and that it fails with each.
func MustCatchEach(t *testing.T, spec verilate.Spec, anchors map[string]string, faults []Switched, sizes Sizes) {
	t.Helper()
	program := Build(t, Plant(t, spec, anchors, faults))
	if _, err := Run(t.Context(), program, Seed(t), sizes.Pick()); err != nil {
		t.Fatalf("all faults are switched off, and the bench fails: %v", err)
	}
	for i, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			figures, err := Run(t.Context(), program, Seed(t), sizes.Pick(), fmt.Sprintf("+fault=%d", i+1))
			if err == nil {
				t.Fatalf("the bench did not catch the planted fault %q -> %q in %s; figures %v", f.Old, f.New, f.File, figures)
			}
			t.Logf("caught: %s", firstLine(err.Error()))
		})
	}
}

func firstLine(s string) string {
	_, after, ok := strings.Cut(s, "\n")
	if ok {
		s = after
	}
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func tail(s string) string {
	const n = 4000
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}
