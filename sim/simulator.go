// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"hvia/layout"
	"hvia/params"
	"hvia/sim/verilate"
)

// Simulator builds the fabric simulator with the Verilated card of the base
// profile from the checkout around the working directory. It returns the
// program's path. A build is cached by the content of all its inputs. Mutants
// are bugs injected into it, for tests of tests.
func Simulator(ctx context.Context, mutants ...verilate.Mutant) (string, error) {
	return ProfileSimulator(ctx, params.Base, mutants...)
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

// ProfileSimulator builds the simulator of a profile's board, which supports no
// other profile. An empty name means the base profile. It returns ErrStale if
// this program could not use the simulator.
func ProfileSimulator(ctx context.Context, profile string, mutants ...verilate.Mutant) (string, error) {
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
	spec, err := simulatorSpec(profile)
	if err != nil {
		return "", err
	}
	spec.Mutants = mutants
	return verilate.Build(ctx, spec)
}

// SimulatorBuilt returns the path of the base profile's simulator, and whether
// it is built.
func SimulatorBuilt() (string, bool, error) {
	spec, err := simulatorSpec(params.Base)
	if err != nil {
		return "", false, err
	}
	return verilate.Cached(spec)
}

func simulatorSpec(profile string) (verilate.Spec, error) {
	set, err := params.ForProfile(profile)
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
	return verilate.Spec{
		Name: "hvia-sim", Top: "card_socket", RTL: rtl, Cpp: cpp,
		Headers: []string{"sim/fabric/*.h", "sim/card/*.h", "sim/model/*.h", "sim/gen/*.h"},
		Params:  map[string]string{"W": strconv.FormatInt(width, 10)},
		Trace:   true, Objects: true, Libs: []string{"-pthread", "-lz"},
	}.ForProfile(set.Name)
}
