// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"hvia/layout"
	"hvia/params"
	"hvia/sim/verilate"
)

// Build selects a build of the fabric simulator with the Verilated card. A
// build is cached by the content of everything that goes into it.
type Build struct {
	Profile string // of the board: it knows no other; "" means the base profile
	// Full: with FST waves and with the assertions of the RTL's checkers, which
	// stop a run. Results are the same. Tests always use it.
	Full bool
	// CheckQuiet clocks quiet blocks by turns and stops a run in which one
	// changes. Slow.
	CheckQuiet bool
	Mutants    []verilate.Mutant // injected bugs, for tests of tests
	Cache      string            // folder of the build; if empty, that of the checkout
}

// ErrStale is returned when the checkout's layouts differ from those of this
// program. The two could not communicate, and without this check the error
// would come only after minutes of building.
var ErrStale = errors.New("this program is not of the checkout's present sources: build it again ('make build' makes bin/hvia)")

var layoutHashLine = regexp.MustCompile(`kLayoutHash = 0x([0-9a-f]{1,16})ull;`)

// checkLayout checks that a simulator of these sources and this program have
// the same layouts.
func checkLayout(root string) error {
	const header = "sim/gen/hvia_layout.h"
	body, err := os.ReadFile(filepath.Join(root, header))
	if err != nil {
		return fmt.Errorf("sim: build the simulator: %w", err)
	}
	m := layoutHashLine.FindSubmatch(body)
	if m == nil {
		return fmt.Errorf("sim: build the simulator: no layout hash in %s of %s: 'make generate' writes it", header, root)
	}
	if own := fmt.Sprintf("%x", layout.Hash); string(m[1]) != own { // without leading zeros in both
		return fmt.Errorf("sim: build the simulator in %s: layout hash %s, of this program %s: %w", root, m[1], own, ErrStale)
	}
	return nil
}

// Program builds the simulator from the checkout around the working directory
// and returns its path. ErrStale if it would not understand this program.
func (b Build) Program(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("g++"); err != nil {
		return "", ErrNoCompiler
	}
	root, err := verilate.Root()
	if err != nil {
		return "", err
	}
	if err := checkLayout(root); err != nil {
		return "", err
	}
	spec, err := b.spec()
	if err != nil {
		return "", err
	}
	if !testing.Testing() && b.Cache == "" {
		spec.Stage = printStages(Stages)
	}
	return verilate.Build(ctx, spec)
}

// Stages is where builds report what they do: they take half a minute to some
// minutes.
var Stages io.Writer = os.Stderr

// printStages prints the stages of a build with the time so far, and of those
// that follow each other quickly one per second.
func printStages(w io.Writer) func(string) {
	var began, last time.Time
	return func(what string) {
		now := time.Now()
		if began.IsZero() {
			began = now
			fmt.Fprintln(w, "build: the simulator, once for these sources")
		}
		if now.Sub(last) >= time.Second {
			fmt.Fprintf(w, "build: %3.0f s: %s\n", now.Sub(began).Seconds(), what)
			last = now
		}
	}
}

// Built returns the program's path, and whether it is built.
func (b Build) Built() (string, bool, error) {
	spec, err := b.spec()
	if err != nil {
		return "", false, err
	}
	return verilate.Cached(spec)
}

func (b Build) spec() (verilate.Spec, error) {
	set, err := params.ForProfile(b.Profile)
	if err != nil {
		return verilate.Spec{}, fmt.Errorf("sim: build the simulator: %w", err)
	}
	width, err := set.Lookup("SystemBusBits")
	if err != nil {
		return verilate.Spec{}, fmt.Errorf("sim: build the simulator: %w", err)
	}
	root, err := verilate.Root()
	if err != nil {
		return verilate.Spec{}, err
	}
	// Packages first. The order of the rest does not matter.
	rtl := []string{"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv", "rtl/prim/hvia_types_pkg.sv"}
	for _, dir := range []string{"rtl", "sim/card"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(root, path)
			if err == nil && filepath.Ext(rel) == ".sv" && !slices.Contains(rtl, rel) {
				rtl = append(rtl, rel)
			}
			return err
		})
		if err != nil {
			return verilate.Spec{}, fmt.Errorf("sim: build the simulator: %w", err)
		}
	}
	cpp, err := glob(root, []string{"sim/fabric/*.cc", "sim/card/*.cc", "sim/model/*.cc"})
	if err != nil {
		return verilate.Spec{}, err
	}
	// Checkers have flip-flops that change in a quiet block.
	full := !b.CheckQuiet && (b.Full || testing.Testing())
	name, defines := "hvia-sim", []string(nil)
	parameters := map[string]string{"W": strconv.FormatInt(width, 10)}
	switch {
	case b.CheckQuiet:
		name, defines = "hvia-sim-quiet", []string{"HVIA_CHECK_QUIET"}
		parameters["EachBlock"] = "1"
	case full:
		name = "hvia-sim-full"
	}
	return verilate.Spec{
		Name: name, Defines: defines, Signals: b.CheckQuiet, Top: "card_socket", RTL: rtl, Cpp: cpp,
		Headers: []string{"sim/fabric/*.h", "sim/card/*.h", "sim/model/*.h", "sim/gen/*.h"},
		Params:  parameters,
		Mutants: b.Mutants, Cache: b.Cache, Trace: full && len(b.Mutants) == 0, NoCheck: !full, Objects: true, Libs: []string{"-pthread", "-lz"},
	}.ForProfile(set.Name)
}
