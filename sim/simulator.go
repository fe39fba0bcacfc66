// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"

	"hvia/sim/verilate"
)

// Simulator builds the fabric simulator with the Verilated card from the
// checkout around the working directory and returns the program's path. A
// build is cached by the content of everything that goes into it. Mutants are
// faults planted in the card, for tests of tests.
func Simulator(ctx context.Context, mutants ...verilate.Mutant) (string, error) {
	if _, err := exec.LookPath("g++"); err != nil {
		return "", ErrNoCompiler
	}
	spec, err := simulatorSpec()
	if err != nil {
		return "", err
	}
	spec.Mutants = mutants
	return verilate.Build(ctx, spec)
}

// SimulatorBuilt returns where the simulator lies or would lie, and whether it
// is built.
func SimulatorBuilt() (string, bool, error) {
	spec, err := simulatorSpec()
	if err != nil {
		return "", false, err
	}
	return verilate.Cached(spec)
}

func simulatorSpec() (verilate.Spec, error) {
	root, err := verilate.Root()
	if err != nil {
		return verilate.Spec{}, err
	}
	var rtl []string
	// Packages first; the order of the rest does not matter.
	for _, pattern := range []string{"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv", "rtl/*_pkg.sv", "rtl/*.sv", "rtl/checkers/*.sv"} {
		m, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return verilate.Spec{}, err
		}
		slices.Sort(m)
		for _, f := range m {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				return verilate.Spec{}, err
			}
			if !slices.Contains(rtl, rel) {
				rtl = append(rtl, rel)
			}
		}
	}
	cpp, err := glob(root, []string{"sim/fabric/*.cc", "sim/card/*.cc", "sim/model/*.cc"})
	if err != nil {
		return verilate.Spec{}, err
	}
	return verilate.Spec{
		Name: "hvia-sim", Top: "hvia_board", RTL: rtl, Cpp: cpp,
		Headers: []string{"sim/fabric/*.h", "sim/card/*.h", "sim/model/*.h", "sim/gen/*.h"},
		Trace:   true, Objects: true, Libs: []string{"-pthread"},
	}, nil
}
