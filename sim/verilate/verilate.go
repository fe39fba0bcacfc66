// SPDX-License-Identifier: Apache-2.0

// Package verilate builds Verilated C++ programs: the fabric simulator and the
// unit tests of the RTL blocks. A build is cached by the content of
// everything that goes into it, so a second call with unchanged files costs a
// hash and no compiler run.
package verilate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrPath is returned for a checkout at a path that make cannot work with.
var ErrPath = errors.New("make cannot build at this path")

// unusable are characters that make or its shell misinterpret, even quoted.
const unusable = " \t\n\r\v\f\"'`$#%:;&|<>()[]{}*?!=\\"

// CheckPath reports why a checkout at a path cannot be built.
func CheckPath(root string) error {
	if i := strings.IndexAny(root, unusable); i >= 0 {
		return fmt.Errorf("%w: %q has the character %q: move the checkout to a path without it", ErrPath, root, root[i:i+1])
	}
	return nil
}

// ErrSourcesChanged is returned when a source was edited while it was compiled.
var ErrSourcesChanged = errors.New("a source changed during the build: run it again")

// Spec says what to build. Paths are relative to the module's root.
type Spec struct {
	Name    string            // name of the program
	Top     string            // top module
	RTL     []string          // SystemVerilog files in order, packages first
	Cpp     []string          // C++ files, one of them with main
	Headers []string          // C++ headers among the build's inputs (globs allowed)
	Params  map[string]string // top-level parameters (-G)
	Defines []string          // C++ preprocessor definitions, without -D
	Mutants []Mutant
	Trace   bool         // compile with FST tracing (--trace-fst), free while off at run time
	Signals bool         // the model can dump its signals (--trace)
	NoCheck bool         // leave assertions out (--no-assert)
	Quoted  []string     // folders in which C++ looks first for quoted includes
	Libs    []string     // further linker arguments
	Netlist bool         // build the netlist that Yosys makes of the RTL, without the checkers, which use names that it lacks
	Objects bool         // keep the object files, so that a change of one C++ file compiles one file
	Stage   func(string) // receives what a build does at the moment
	Cache   string       // folder of the builds; if empty, that of the checkout
}

func (s Spec) cache(root string) string {
	return cmp.Or(s.Cache, filepath.Join(root, "build", "cache"))
}

// Root finds the module's root by walking up from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("verilate: find module root: %w", err)
	}
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(b, []byte("module hvia\n")) {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("verilate: find module root: no go.mod of module hvia above the working directory: run inside a checkout")
		}
		dir = up
	}
}

// Cached returns the program's path, and whether it is built.
func Cached(spec Spec) (string, bool, error) {
	root, err := Root()
	if err != nil {
		return "", false, err
	}
	verilator, err := Find(root)
	if err != nil {
		return "", false, fmt.Errorf("verilate: %w", err)
	}
	return spec.program(root, verilator)
}

// program is [Cached] in a checkout, with its Verilator.
func (s Spec) program(root string, verilator Tool) (string, bool, error) {
	sum, err := s.hash(root, verilator)
	if err != nil {
		return "", false, err
	}
	program := filepath.Join(s.cache(root), s.Name+"-"+sum[:16], s.Name)
	_, err = os.Stat(program)
	return program, err == nil, nil
}

// secondsFile lies beside a program and holds the duration of its build.
const secondsFile = "build-seconds"

// BuildSeconds returns the wall time of a program's build, 0 if unknown.
func BuildSeconds(program string) float64 {
	b, err := os.ReadFile(filepath.Join(filepath.Dir(program), secondsFile))
	if err != nil {
		return 0
	}
	s, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return 0
	}
	return s
}

// Build makes the program and returns its path. Concurrent calls, in this
// process or another, for one result wait for each other.
func Build(ctx context.Context, spec Spec) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	verilator, err := Find(root)
	if err != nil {
		return "", fmt.Errorf("verilate: %w", err)
	}
	if err := CheckPath(root); err != nil {
		return "", err
	}
	program, built, err := spec.program(root, verilator)
	if err != nil || built {
		return program, err
	}
	dir := filepath.Dir(program)
	cache := filepath.Dir(dir)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("verilate: %s: %w", spec.Name, err)
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("verilate: %s: %w", spec.Name, err)
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	begin := time.Now()
	if err := build(ctx, root, verilator, dir, spec); err != nil {
		return "", fmt.Errorf("verilate: build %s: %w", spec.Name, err)
	}
	note := strconv.FormatFloat(time.Since(begin).Seconds(), 'f', 1, 64)
	if err := os.WriteFile(filepath.Join(dir, secondsFile), []byte(note), 0o644); err != nil {
		return "", fmt.Errorf("verilate: %s: %w", spec.Name, err)
	}
	// After a change of a source or of Verilator the program's hash would be
	// wrong.
	if now, _, err := Cached(spec); err != nil || now != program {
		_ = os.RemoveAll(dir)
		return "", errors.Join(fmt.Errorf("verilate: %s: %w", spec.Name, ErrSourcesChanged), err)
	}
	return program, nil
}

func build(ctx context.Context, root string, verilator Tool, dir string, spec Spec) error {
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	paths, err := Mutate(root, tmp, slices.Concat(spec.RTL, spec.Cpp), spec.Mutants)
	if err != nil {
		return err
	}
	rtl, cpp := paths[:len(spec.RTL)], paths[len(spec.RTL):]
	if spec.Netlist {
		if rtl, err = netlist(ctx, spec, rtl, filepath.Join(tmp, "netlist.v")); err != nil {
			return err
		}
		spec.Params = nil // they are in the netlist
	}
	objects := filepath.Join(tmp, "obj")
	if spec.Objects && len(spec.Mutants) == 0 {
		objects = filepath.Join(filepath.Dir(dir), "objects-"+spec.Name+"-"+strings.Fields(verilator.Version)[0])
		unlock, err := lock(objects + ".lock")
		if err != nil {
			return err
		}
		defer unlock()
		clean, err := keptObjects(root, objects, spec)
		if err != nil {
			return err
		}
		defer func() {
			if now, _, err := Cached(spec); err == nil && filepath.Dir(now) == dir {
				clean()
			}
		}()
	}
	cflags := commonFlags + flags(" -D", spec.Defines)
	// Relative paths: a program does not depend on the checkout's place.
	below := func(base string, files ...string) (list []string) {
		for _, f := range files {
			rel, err := filepath.Rel(base, f)
			if err != nil {
				panic(err) // all are absolute
			}
			list = append(list, rel)
		}
		return list
	}
	cflags += " -I" + below(objects, root)[0]
	for _, dir := range spec.Quoted {
		cflags += " -iquote " + below(objects, filepath.Join(root, dir))[0]
	}
	arguments := slices.Concat(spec.arguments(below(root, objects)[0], below(objects, filepath.Join(tmp, spec.Name))[0], cflags, verilator), below(root, rtl...))
	arguments = append(arguments, below(objects, cpp...)...)
	spec.stage("translating the RTL with Verilator %s", verilator.Version)
	cmd := verilator.Command(ctx, arguments...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("top %s: %w\n%s", spec.Top, err, tail(out, 8000))
	}
	if err := spec.compileMissing(ctx, root, objects, verilator); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(tmp, "obj")); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

func (s Spec) arguments(objects, program, cflags string, verilator Tool) []string {
	args := []string{
		"--cc", "--exe", "-sv", "-Wall", "-Wno-fatal",
		"--x-assign", "unique", "--x-initial", "unique", "-O3",
		"--top-module", s.Top, "--Mdir", objects, "-o", program,
		"-CFLAGS", cflags,
	}
	if s.NoCheck {
		args = append(args, "--no-assert")
	} else {
		args = append(args, "--assert")
	}
	if s.Signals {
		args = append(args, "--trace", "--trace-max-array", "256")
	}
	if s.Trace {
		args = append(args, "--trace-fst", "--trace-structs")
	}
	for _, k := range sortedKeys(s.Params) {
		args = append(args, "-G"+k+"="+s.Params[k])
	}
	if s.Objects {
		args = append(args, verilator.fast...)
	}
	for _, l := range s.Libs {
		args = append(args, "-LDFLAGS", l)
	}
	return args
}

// compile runs the make file that Verilator has written.
func (s Spec) compile(ctx context.Context, objects string, verilator Tool) error {
	args := append(strings.Fields(s.makeFlags()+" "+verilator.make), "-C", objects, "-f", "V"+s.Top+".mk", "-j", strconv.Itoa(runtime.NumCPU()))
	slow, err := s.slowTraces(objects)
	if err != nil {
		return err
	}
	args = append(args, slow...)
	run := func(w io.Writer, more ...string) error {
		cmd := exec.CommandContext(ctx, "make", append(args, more...)...)
		cmd.Env = append(os.Environ(), verilator.env...)
		cmd.Stdout, cmd.Stderr = w, w
		return cmd.Run()
	}
	var plan, out compilations
	if err := run(&plan, "-n"); err != nil {
		return fmt.Errorf("top %s: make -n: %w\n%s", s.Top, err, tail(plan.text, 8000))
	}
	out.began = func() { s.stage("compiling C++, file %d of %d", out.files, plan.files) }
	if err := run(&out); err != nil {
		return fmt.Errorf("top %s: %w\n%s", s.Top, err, tail(out.text, 8000))
	}
	return nil
}

// compilations counts the compiler runs in make's output.
type compilations struct {
	text  []byte
	files int
	began func()
}

func (c *compilations) Write(b []byte) (int, error) {
	before := c.files
	c.text = append(c.text, b...)
	c.files = bytes.Count(c.text, []byte(" -c "))
	if c.began != nil && c.files > before {
		c.began()
	}
	return len(b), nil
}

func (s Spec) stage(format string, arguments ...any) {
	if s.Stage != nil {
		s.Stage(fmt.Sprintf(format, arguments...))
	}
}

const (
	slowFlags   = "OPT_SLOW=-O0 OPT_GLOBAL=-O1"
	commonFlags = "-std=c++17 -MP"
)

// makeFlags returns what make builds and at which levels of optimization. The
// model is the inner loop. Construction and tracing run rarely.
func (s Spec) makeFlags() string {
	if !s.Objects {
		// Unit tests run for about as long as they compile. One file of a small
		// model compiles in half of the time of its parts, which need
		// precompiled headers.
		return "OPT_FAST=-O1 " + slowFlags + " VM_PARALLEL_BUILDS=0"
	}
	return "OPT_FAST=-O2 " + slowFlags
}

var support = regexp.MustCompile(`(?m)^VM_SUPPORT_(?:FAST|SLOW) \+= \\\n((?:.*\\\n)*)`)

// slowTraces makes slow code of the code that writes waves, which few runs do.
func (s Spec) slowTraces(objects string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(objects, "V"+s.Top+"_classes.mk"))
	var names string
	for _, m := range support.FindAllSubmatch(b, -1) {
		names += strings.ReplaceAll(string(m[1]), "\\\n", "")
	}
	return []string{"VM_SUPPORT_FAST=", "VM_SUPPORT_SLOW=" + names}, err
}

// runtime returns the folder for the object files of Verilator's runtime. They
// take most of a unit test's compile time and are the same for all: the runtime
// reads no definition of a spec.
func (s Spec) runtime(root string, verilator Tool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%v %v", verilator.Version, commonFlags, slowFlags, s.Trace, s.Signals))
	return filepath.Join(s.cache(root), "runtime-"+hex.EncodeToString(sum[:8]))
}

// copyObjects copies kept object files into a build's folder, where make sees
// them as newer than their sources and than the make file of Verilator.
func copyObjects(from, to string) error {
	names, err := filepath.Glob(filepath.Join(from, "verilated*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// keepObjects keeps a build's runtime objects for later builds, if none exist.
func keepObjects(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(to), "runtime-*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, pattern := range []string{"verilated*.o", "verilated*.d"} {
		names, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := os.Rename(name, filepath.Join(tmp, filepath.Base(name))); err != nil {
				return err
			}
		}
	}
	// Another process may have been faster. Its objects are as good.
	if err := os.Rename(tmp, to); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}

func (s Spec) hash(root string, verilator Tool) (string, error) {
	h := sha256.New()
	s.Stage, s.Cache = nil, ""
	if s.Netlist {
		yosys, err := yosysVersion()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s\n", yosys)
	}
	headers := slices.Clone(s.Headers)
	s.Headers = nil
	fmt.Fprintf(h, "%s\n%+v\n", verilator.Version, s)
	found, err := globs(root, headers)
	if err != nil {
		return "", fmt.Errorf("verilate: %s: %w", s.Name, err)
	}
	files := slices.Concat(s.RTL, s.Cpp, found)
	self := []string{"sim/verilate/verilate.go", "sim/verilate/objects.go", "sim/verilate/shared.go", "sim/verilate/mutant.go", "sim/verilate/netlist.go", "sim/verilate/tool.go"}
	for _, f := range append(files, self...) {
		if err := hashFile(h, root, f); err != nil {
			return "", fmt.Errorf("verilate: %s: %w", s.Name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// globs returns the files that match, relative to root.
func globs(root string, patterns []string) (files []string, err error) {
	for _, g := range patterns {
		m, err := filepath.Glob(filepath.Join(root, g))
		if err != nil {
			return nil, err
		}
		for _, p := range m {
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return nil, err
			}
			files = append(files, rel)
		}
	}
	return files, nil
}

func hashFile(w io.Writer, root, name string) error {
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(w, "%s\n", name)
	_, err = io.Copy(w, f)
	return err
}

// lock takes an exclusive advisory lock on a file, which ends with the process.
func lock(path string) (func(), error) {
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

func flags(prefix string, list []string) string {
	var b strings.Builder
	for _, d := range list {
		b.WriteString(prefix + d)
	}
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func tail(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	return append([]byte("...\n"), b[len(b)-n:]...)
}
