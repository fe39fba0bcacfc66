// SPDX-License-Identifier: Apache-2.0

// Package unit runs the Verilated testbenches of single RTL blocks from Go
// tests: the seed, the size, the time limit, and the figures that a testbench
// prints.
package unit

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hvia/params"
	"hvia/sim/verilate"
	"hvia/tools/mutants"
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
		t.Fatalf("HVIA_SEED=%q: must be an unsigned number", text)
	}
	return seed
}

// Build builds a testbench, or ends the test. Every testbench depends on the
// headers of the unit tests and of the models, and on the generated ones.
func Build(t *testing.T, spec verilate.Spec) string {
	t.Helper()
	spec.Headers = append(slices.Clone(spec.Headers), "sim/unit/internal/unit/*.h", "sim/model/*.h", "sim/gen/*.h")
	program, err := verilate.Build(context.Background(), spec)
	check(t, err)
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

// MustPass builds and runs a testbench and logs its figures. A run above short
// size must include every named event.
func MustPass(t *testing.T, spec verilate.Spec, sizes Sizes, events ...string) map[string]uint64 {
	t.Helper()
	figures, err := Run(t.Context(), Build(t, spec), Seed(t), sizes.Pick())
	check(t, err)
	if figures["passed"] != 1 {
		t.Fatalf("%s ended without its verdict: figures %v", spec.Name, figures)
	}
	t.Logf("%s: %v", spec.Name, figures)
	for _, event := range events {
		if figures[event] == 0 && !testing.Short() {
			t.Errorf("%s: the run never met %s", spec.Name, event)
		}
	}
	return figures
}

// BothWidths is MustPass with data paths of 32 and of 64 bits.
func BothWidths(t *testing.T, name string, sizes Sizes, events ...string) {
	t.Helper()
	for _, width := range []string{"32", "64"} {
		t.Run(width, func(t *testing.T) { MustPass(t, Testbench(t, name, "W="+width), sizes, events...) })
	}
}

// Netlist returns the same testbench with the Yosys netlist of its RTL.
func Netlist(spec verilate.Spec) verilate.Spec {
	spec.Name += "_netlist"
	spec.Netlist = true
	return spec
}

// FewerVIs runs a testbench on RTL built for 16 and for 64 VIs in long runs,
// and for the given numbers in all runs.
func FewerVIs(t *testing.T, spec verilate.Spec, sizes Sizes, always ...int) {
	t.Helper()
	WithFewerVIs(t, spec, func(t *testing.T, s verilate.Spec) {
		MustPass(t, s, Sizes{sizes.Short, sizes.Short, 3 * sizes.Normal})
	}, always...)
}

// WithFewerVIs is FewerVIs with another run than MustPass.
func WithFewerVIs(t *testing.T, spec verilate.Spec, run func(*testing.T, verilate.Spec), always ...int) {
	t.Helper()
	const pkg = "rtl/gen/hvia_params_pkg.sv"
	base := fmt.Sprintf("VICountLog2 = %d;", params.VICountLog2)
	for _, log2 := range []int{4, 6} {
		t.Run(fmt.Sprint(1<<log2), func(t *testing.T) {
			if !slices.Contains(always, 1<<log2) && os.Getenv("HVIA_LONG") != "1" {
				t.Skip("HVIA_LONG=1 only")
			}
			s := spec
			s.Name += fmt.Sprintf("_vis%d", 1<<log2)
			s.Mutants = []verilate.Mutant{{File: pkg, Old: base, New: fmt.Sprintf("VICountLog2 = %d;", log2)}}
			s.Defines = append(slices.Clone(s.Defines), fmt.Sprintf("VI_COUNT_LOG2=%d", log2))
			run(t, s)
		})
	}
}

// FaultySimulator starts a test that builds the complete simulator with
// injected bugs. The build takes minutes, so the test is skipped unless all
// bugs are requested. The tests of the blocks try their bugs in every run.
func FaultySimulator(t *testing.T) {
	t.Helper()
	if !mutants.All() {
		t.Skip("builds a simulator with injected bugs: make mutants")
	}
}

// MustCatch builds a testbench with each injected bug separately, and requires
// that its run of the given size fails. It is for bugs that cannot be switched
// at run time. HVIA_MUTANTS=1 and HVIA_LONG=1 run all of them, a plain run
// about one in four, always the same ones.
func MustCatch(t *testing.T, spec verilate.Spec, size uint64, bugs map[string]verilate.Mutant) {
	t.Helper()
	for name, m := range bugs {
		t.Run(name, func(t *testing.T) {
			h := fnv.New32a()
			h.Write([]byte(t.Name()))
			if !mutants.All() && h.Sum32()%4 != 0 {
				t.Skip("a plain run tries one injected bug in four, make mutants tries all")
			}
			s := spec
			s.Name += "_" + strings.ReplaceAll(name, " ", "_") // make splits at spaces
			s.Mutants = []verilate.Mutant{m}
			_, err := Run(t.Context(), Build(t, s), Seed(t), size)
			Caught(t, err, m.Old, m.New)
		})
	}
}

// Caught requires that a run with an injected bug failed, and logs how.
func Caught(t *testing.T, err error, right, wrong string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no test caught the injected bug %q -> %q", right, wrong)
	}
	message := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for _, line := range message {
		if strings.Contains(line, "FAIL") || strings.Contains(line, "Error") {
			t.Logf("caught: %s", line)
			return
		}
	}
	t.Logf("caught: %s", message[len(message)-1])
}

// Bug is an injected bug that is inactive until a run enables it, so that all
// bugs of a testbench need one build. It consists of its name, the file, the
// old text, and the new text, in which FAULT is the condition that the bug is
// enabled.
type Bug [4]string

// Inject adds bugs to a spec. A run enables bug number n, from 1, with
// +fault=n.
func Inject(t *testing.T, spec verilate.Spec, bugs []Bug) verilate.Spec {
	t.Helper()
	spec.Name += "_faults"
	spec.Mutants = Switch(t, bugs)
	return spec
}

// Switch returns the mutants of one build with all bugs ([verilate.Switch]).
func Switch(t *testing.T, bugs []Bug) []verilate.Mutant {
	t.Helper()
	root, err := verilate.Root()
	check(t, err)
	var all [][]verilate.Mutant
	for _, b := range bugs {
		all = append(all, []verilate.Mutant{{File: b[1], Old: b[2], New: b[3]}})
	}
	mutants, err := verilate.Switch(root, all)
	check(t, err)
	return mutants
}

// Enable enables bug number i of [Switch], from 0, in the C++ programs that the
// test starts from now on.
func Enable(t *testing.T, i int) {
	t.Helper()
	t.Setenv(verilate.FaultVariable, strconv.Itoa(i+1))
}

// MustNotice builds the simulator without the card with all bugs. The check of
// each must pass with all of them disabled, and fail with the bug.
func MustNotice(t *testing.T, bugs []Bug, check func(i int, program string) error) {
	t.Helper()
	program := Simulator(t, Switch(t, bugs)...)
	for i, b := range bugs {
		t.Run(b[0], func(t *testing.T) {
			if err := check(i, program); err != nil {
				t.Fatalf("all bugs are switched off, and the check fails: %v", err)
			}
			Enable(t, i)
			Caught(t, check(i, program), b[2], b[3])
		})
	}
}

// MustCatchEach builds a testbench with all bugs for [CatchEach].
func MustCatchEach(t *testing.T, spec verilate.Spec, size uint64, bugs []Bug) {
	t.Helper()
	CatchEach(t, Build(t, Inject(t, spec, bugs)), size, bugs)
}

// CatchEach requires that a testbench with these bugs passes with all of them
// disabled, and fails with each. A short run tries the first four.
func CatchEach(t *testing.T, program string, size uint64, bugs []Bug) {
	t.Helper()
	if _, err := Run(t.Context(), program, Seed(t), size); err != nil {
		t.Fatalf("all bugs are switched off, and the testbench fails: %v", err)
	}
	for i, bug := range bugs {
		if testing.Short() && i > 3 {
			break
		}
		t.Run(bug[0], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			_, err := Run(ctx, program, Seed(t), size, fmt.Sprintf("+fault=%d", i+1))
			Caught(t, err, bug[2], bug[3])
		})
	}
}

func tail(s string) string {
	const n = 4000
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}
