// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"hvia/sim/verilate"
)

// module is a design file. It holds exactly one module, with the file's name.
type module struct {
	name    string
	file    string // relative to the root
	checker string // its bound assertions, "" for none
	width   string // its data-width parameter, "" for none
	root    bool   // no other module has an instance of it
}

// wide has the value of each data-width parameter for 64 bits.
var wide = map[string]string{"W": "64", "DataW": "64", "Width": "64", "DataBytes": "8"}

// finding is one failed check.
type finding struct {
	module string
	check  string
	text   string
}

type linter struct {
	root      string
	verilator verilate.Tool
	yosys     string
	packages  []string // the generated ones first
	dirs      []string // folders of instances
	allowed   allowances
	memories  map[string]int // memories that Yosys must find in a module, 0 if not listed
}

// newLinter takes the Verilator on PATH, or the one that simulators are built
// with.
func newLinter(root string, builder bool) (*linter, error) {
	l := &linter{root: root, allowed: allowed, memories: memories}
	find := verilate.OnPath
	if builder {
		find = func() (verilate.Tool, error) { return verilate.Find(root) }
	}
	var err error
	if l.verilator, err = find(); err != nil {
		return nil, err
	}
	if l.yosys, err = exec.LookPath("yosys"); err != nil {
		return nil, errors.New("yosys not found on PATH: run 'make setup'")
	}
	return l, nil
}

// modules lists the design files: every *.sv under rtl/ except the packages
// (*_pkg.sv) and the checkers, which belong to their modules.
func (l *linter) modules() ([]module, error) {
	var found []module
	var packages []string
	checkers := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(l.root, "rtl"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(l.root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != filepath.Join("rtl", "gen") && d.Name() != "checkers" {
				l.dirs = append(l.dirs, rel)
			}
			return nil
		}
		if filepath.Ext(rel) != ".sv" {
			return nil
		}
		if !strings.HasPrefix(d.Name(), "hvia_") {
			return fmt.Errorf("%s: files and modules of rtl/ carry the prefix hvia_", rel)
		}
		switch filepath.Base(filepath.Dir(rel)) {
		case "gen":
			l.packages = append(l.packages, rel)
			return nil
		case "checkers":
			checkers[rel] = false
			return nil
		}
		if strings.HasSuffix(rel, "_pkg.sv") {
			packages = append(packages, rel)
			return nil
		}
		m, err := l.module(rel)
		if err != nil {
			return err
		}
		found = append(found, m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list modules under %s: %w", filepath.Join(l.root, "rtl"), err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("list modules under %s: none found: is this the checkout's root?", filepath.Join(l.root, "rtl"))
	}
	l.packages = append(l.packages, packages...)
	if err := l.roots(found); err != nil {
		return nil, err
	}
	for i, m := range found {
		c := filepath.Join(filepath.Dir(m.file), "checkers", m.name+"_checker.sv")
		if _, ok := checkers[c]; ok {
			found[i].checker = c
			checkers[c] = true
		}
	}
	for _, c := range sorted(checkers) {
		if !checkers[c] {
			return nil, fmt.Errorf("%s belongs to no module: name it <module>_checker.sv, in checkers/ beside the module", c)
		}
	}
	return found, nil
}

// roots marks the modules without an instance in another module.
func (l *linter) roots(modules []module) error {
	texts := make([]string, len(modules))
	for i, m := range modules {
		text, err := l.read(m.file)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	for i, m := range modules {
		instance := regexp.MustCompile(`\b` + m.name + `\s*(?:#\s*\(|[A-Za-z_]\w*\s*\()`)
		modules[i].root = true
		for k, text := range texts {
			if k != i && instance.MatchString(text) {
				modules[i].root = false
			}
		}
	}
	return nil
}

var (
	parameter = regexp.MustCompile(`\bparameter\b[^,;=()]*?\b([A-Za-z_]\w*)\s*=`)
	widthName = regexp.MustCompile(`(?:W|[Ww]idth|Bits|Bytes)$`)
)

// dataWidth returns a module's data-width parameter. A name that looks like a
// width must be in the table, so that the check at 64 bits sets it.
func dataWidth(rel, text string) (string, error) {
	name := ""
	for _, p := range parameter.FindAllStringSubmatch(text, -1) {
		if !widthName.MatchString(p[1]) {
			continue
		}
		if wide[p[1]] == "" {
			return "", fmt.Errorf("%s: parameter %s looks like a data width: call it W, or say in the table of rtllint what it is for 64 bits", rel, p[1])
		}
		if name != "" {
			return "", fmt.Errorf("%s: parameters %s and %s look like data widths: a module has one", rel, name, p[1])
		}
		name = p[1]
	}
	return name, nil
}

var moduleLine = regexp.MustCompile(`(?m)^\s*(?:module|macromodule)\s+(?:automatic\s+|static\s+)?([A-Za-z_]\w*)`)

// module enforces one module per file, with the name of the file, so that both
// tools find an instance by its name.
func (l *linter) module(rel string) (module, error) {
	b, err := os.ReadFile(filepath.Join(l.root, rel))
	if err != nil {
		return module{}, err
	}
	name := strings.TrimSuffix(filepath.Base(rel), ".sv")
	var names []string
	for _, m := range moduleLine.FindAllStringSubmatch(string(b), -1) {
		names = append(names, m[1])
	}
	if len(names) != 1 || names[0] != name {
		return module{}, fmt.Errorf("%s holds modules %q: a design file holds exactly one, named %s", rel, names, name)
	}
	width, err := dataWidth(rel, code(string(b)))
	if err != nil {
		return module{}, err
	}
	return module{name: name, file: rel, width: width}, nil
}

// job is one run of a tool over a module as a top.
type job struct {
	module  string
	check   string
	command func(context.Context) *exec.Cmd
	counts  bool // the output lists the module's memories
}

// jobs lists the checks of modules: each at its default width and, if it has a
// data-width parameter, at 64 bits.
func (l *linter) jobs(modules []module) []job {
	var jobs []job
	for _, m := range modules {
		parameters := []string{""}
		if m.width != "" {
			parameters = append(parameters, m.width)
		}
		for _, p := range parameters {
			at := ""
			if p != "" {
				at = " at " + p + " = " + wide[p]
			}
			jobs = append(jobs,
				job{module: m.name, check: "verilator -Wall" + at, command: func(ctx context.Context) *exec.Cmd {
					return l.verilator.Command(ctx, l.verilatorArgs(m, p)...)
				}},
				job{module: m.name, check: "yosys" + at, counts: true, command: func(ctx context.Context) *exec.Cmd {
					return exec.CommandContext(ctx, l.yosys, "-q", "-p", l.yosysScript(m, p))
				}})
		}
	}
	return jobs
}

// run runs all checks, one per processor at a time, and returns the failures in
// the order of the modules.
func (l *linter) run(ctx context.Context, modules []module) []finding {
	jobs := l.jobs(modules)
	results := make([]*finding, len(jobs))
	// Roots take longest: started last, one would run alone.
	order := make(chan int, len(jobs))
	for _, root := range []bool{true, false} {
		for i, j := range jobs {
			if slices.ContainsFunc(modules, func(m module) bool { return m.name == j.module && m.root }) == root {
				order <- i
			}
		}
	}
	close(order)
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for i := range order {
				results[i] = l.do(ctx, jobs[i])
			}
		})
	}
	wg.Wait()
	var findings []finding
	for _, f := range results {
		if f != nil {
			findings = append(findings, *f)
		}
	}
	return findings
}

func (l *linter) do(ctx context.Context, j job) *finding {
	cmd := j.command(ctx)
	cmd.Dir = l.root
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err == nil {
		if j.counts {
			return l.countMemories(j, out.String())
		}
		return nil
	}
	text := strings.TrimSpace(out.String() + "\n" + errs.String())
	if text == "" || ctx.Err() != nil {
		text = strings.TrimSpace(text + "\n" + errors.Join(err, ctx.Err()).Error())
	}
	return &finding{module: j.module, check: j.check, text: head(text, 60)}
}

// verilatorArgs takes the parameter to set for 64 bits, "" for none.
func (l *linter) verilatorArgs(m module, parameter string) []string {
	args := []string{"--lint-only", "-Wall", "-sv", "--assert", "--top-module", m.name}
	if parameter != "" {
		args = append(args, "-G"+parameter+"="+wide[parameter])
	}
	for _, d := range l.dirs {
		args = append(args, "-y", d)
	}
	args = append(args, l.packages...)
	args = append(args, m.file)
	if m.checker != "" {
		args = append(args, m.checker)
	}
	return args
}

// yosysScript omits the checkers, which are not hardware. A root (instantiated
// by no module) is checked with its submodules, as parametrised there. Any
// other module is checked alone.
func (l *linter) yosysScript(m module, parameter string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "read_verilog -sv %s; ", strings.Join(append(slices.Clone(l.packages), m.file), " "))
	if parameter != "" {
		fmt.Fprintf(&b, "chparam -set %s %s %s; ", parameter, wide[parameter], m.name)
	}
	b.WriteString("hierarchy -check -top " + m.name)
	for _, d := range l.dirs {
		b.WriteString(" -libdir " + d)
	}
	if m.root {
		b.WriteString("; proc; check -assert")
	} else {
		b.WriteString("; select -assert-any A:top; proc A:top; check -assert A:top")
	}
	b.WriteString("; select -write /dev/stdout A:top/m:*")
	return b.String()
}

// countMemories compares Yosys' list, one memory per line, with the table. An
// array that Yosys reads as a register is missing in the list.
func (l *linter) countMemories(j job, list string) *finding {
	found := strings.Fields(list)
	if len(found) == l.memories[j.module] {
		return nil
	}
	return &finding{module: j.module, check: checkMemories + strings.TrimPrefix(j.check, "yosys"),
		text: fmt.Sprintf("Yosys finds %d memories %q in %s, tools/lint/rtllint/memories.go expects %d: correct the declaration, or the table",
			len(found), found, j.module, l.memories[j.module])}
}

func choose(all []module, names []string) ([]module, error) {
	var chosen []module
	for _, n := range names {
		i := slices.IndexFunc(all, func(m module) bool { return m.name == n })
		if i < 0 {
			return nil, fmt.Errorf("no module %q under rtl/", n)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func sorted(m map[string]bool) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// head keeps the first lines: one loop in Yosys prints hundreds.
func head(text string, lines int) string {
	all := strings.Split(text, "\n")
	if len(all) <= lines {
		return text
	}
	return strings.Join(all[:lines], "\n") + fmt.Sprintf("\n... and %d lines more", len(all)-lines)
}
