// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"hvia/sim/verilate"
)

// ErrNoCompiler is returned when there is no C++ compiler on PATH.
var ErrNoCompiler = errors.New("g++ not found on PATH: install it (Debian, Ubuntu: apt-get install g++) or run 'make setup'")

// Program is a C++ program without RTL: the simulator without the card, or a
// unit test of the simulator's models. Paths and patterns are relative to the
// module's root.
type Program struct {
	Folder  string   // of the cache
	Name    string   // of the program's file
	Sources []string // patterns, one file with main
	Headers []string // patterns of further inputs
	Flags   []string // further compiler flags
}

var programFlags = []string{"-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"}

var echoSimulator = Program{
	Folder: "hvia-echo", Name: "hvia-sim",
	Sources: []string{"sim/fabric/*.cc"},
	Headers: []string{"sim/fabric/*.h", "sim/gen/*.h", "sim/model/*.h"},
	Flags:   []string{"-pthread", "-DHVIA_WITHOUT_CARD"},
}

// EchoSimulator builds the fabric simulator without the card. Its nodes can be
// plain NICs ("nic") and of the test kind "echo". It requires no Verilator and
// builds in seconds, for tests of the bridge that inject bugs into the
// simulator.
func EchoSimulator(ctx context.Context, mutants ...verilate.Mutant) (string, error) {
	return echoSimulator.Build(ctx, mutants...)
}

// Build makes the program, or finds it in the cache, and returns its path.
func (p Program) Build(ctx context.Context, mutants ...verilate.Mutant) (string, error) {
	root, err := verilate.Root()
	if err != nil {
		return "", err
	}
	compiler, err := exec.LookPath("g++")
	if err != nil {
		return "", ErrNoCompiler
	}
	sources, err := glob(root, p.Sources)
	if err != nil {
		return "", err
	}
	headers, err := glob(root, p.Headers)
	if err != nil {
		return "", err
	}
	flags := slices.Concat(programFlags, p.Flags)
	sum, err := contentHash(root, compiler, flags, slices.Concat(sources, headers), mutants)
	if err != nil {
		return "", err
	}
	cache := filepath.Join(root, "build", "cache")
	dir := filepath.Join(cache, p.Folder+"-"+sum[:16])
	program := filepath.Join(dir, p.Name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("sim: build %s: %w", p.Folder, err)
	}
	unlock, err := lockFile(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("sim: build %s: %w", p.Folder, err)
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	paths, err := verilate.Mutate(root, dir, sources, mutants)
	if err != nil {
		return "", fmt.Errorf("sim: build %s: %w", p.Folder, err)
	}
	link := slices.Concat(flags, []string{"-o", program + ".tmp"})
	for i, path := range paths {
		object, err := p.compile(ctx, root, compiler, flags, headers, sources[i], path, mutants)
		if err != nil {
			return "", err
		}
		link = append(link, object)
	}
	link = append(link, "-lz") // the FCS of Ethernet
	if err := p.run(ctx, root, compiler, link); err != nil {
		return "", err
	}
	now, err := contentHash(root, compiler, flags, slices.Concat(sources, headers), mutants)
	if err := p.same(sum, now, err); err != nil {
		return "", err
	}
	// The rename validates the cache entry.
	if err := os.Rename(program+".tmp", program); err != nil {
		return "", fmt.Errorf("sim: build %s: %w", p.Folder, err)
	}
	return program, nil
}

// compile makes the object file of one source unless it is in the cache. So
// after a change of one source it compiles only that one.
func (p Program) compile(ctx context.Context, root, compiler string, flags, headers []string, name, path string, mutants []verilate.Mutant) (string, error) {
	mutants = slices.DeleteFunc(slices.Clone(mutants), func(m verilate.Mutant) bool { return m.File != name })
	files := append([]string{name}, headers...)
	sum, err := contentHash(root, compiler, flags, files, mutants)
	if err != nil {
		return "", err
	}
	object := filepath.Join(root, "build", "cache", "objects-"+p.Folder, sum[:16]+".o")
	if _, err := os.Stat(object); err == nil {
		return object, nil
	}
	if err := os.MkdirAll(filepath.Dir(object), 0o755); err != nil {
		return "", fmt.Errorf("sim: build %s: %w", p.Folder, err)
	}
	unlock, err := lockFile(object + ".lock")
	if err != nil {
		return "", fmt.Errorf("sim: build %s: %w", p.Folder, err)
	}
	defer unlock()
	if _, err := os.Stat(object); err == nil {
		return object, nil
	}
	if err := p.run(ctx, root, compiler, slices.Concat(flags, []string{"-I" + root, "-c", "-o", object + ".tmp", path})); err != nil {
		return "", err
	}
	now, err := contentHash(root, compiler, flags, files, mutants)
	if err := p.same(sum, now, err); err != nil {
		return "", err
	}
	if err := os.Rename(object+".tmp", object); err != nil {
		return "", fmt.Errorf("sim: build %s: %w", p.Folder, err)
	}
	return object, nil
}

// same rejects a result whose sources changed during the build, because the
// cache would hold it under the hash of their old content.
func (p Program) same(before, now string, err error) error {
	if err != nil || now != before {
		return fmt.Errorf("sim: build %s: %w", p.Folder, errors.Join(verilate.ErrSourcesChanged, err))
	}
	return nil
}

func (p Program) run(ctx context.Context, root, compiler string, args []string) error {
	cmd := exec.CommandContext(ctx, compiler, args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sim: build %s: %s %v: %w\n%s", p.Folder, compiler, args, err, out[max(0, len(out)-8000):])
	}
	return nil
}

func glob(root string, patterns []string) ([]string, error) {
	var files []string
	for _, p := range patterns {
		m, err := filepath.Glob(filepath.Join(root, p))
		if err != nil {
			return nil, fmt.Errorf("sim: build a program: %w", err)
		}
		if len(m) == 0 {
			return nil, fmt.Errorf("sim: build a program: no file matches %s in %s: run inside a complete checkout", p, root)
		}
		for _, f := range m {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				return nil, fmt.Errorf("sim: build a program: %w", err)
			}
			files = append(files, rel)
		}
	}
	slices.Sort(files)
	return files, nil
}

func contentHash(root, compiler string, flags, files []string, mutants []verilate.Mutant) (string, error) {
	version, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("sim: %s --version: %w", compiler, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%v\n%q\n", version, flags, mutants)
	for _, name := range files {
		f, err := os.Open(filepath.Join(root, name))
		if err != nil {
			return "", fmt.Errorf("sim: build a program: %w", err)
		}
		fmt.Fprintf(h, "%s\n", name)
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", fmt.Errorf("sim: build a program: read %s: %w", name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// lockFile takes an exclusive advisory lock, which ends with the process.
func lockFile(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
