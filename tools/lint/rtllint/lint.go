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
)

// module is one design file; it holds exactly one module of the file's name.
type module struct {
	name    string
	file    string // relative to the root
	checker string // its bound assertions, "" if it has none
}

// finding is one failed check.
type finding struct {
	module string
	check  string
	text   string
}

type linter struct {
	root      string
	verilator string
	yosys     string
	packages  []string // the generated ones first, read before everything
	dirs      []string // folders that instances are looked up in
}

func newLinter(root string) (*linter, error) {
	l := &linter{root: root}
	var err error
	if l.verilator, err = exec.LookPath("verilator"); err != nil {
		return nil, errors.New("verilator not found on PATH: run 'make setup'")
	}
	if l.yosys, err = exec.LookPath("yosys"); err != nil {
		return nil, errors.New("yosys not found on PATH: run 'make setup'")
	}
	return l, nil
}

// modules lists the design files: every *.sv under rtl/ but the packages
// (*_pkg.sv) and the checkers, which are read along with what they belong to.
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
			if rel != filepath.Join("rtl", "gen") && rel != filepath.Join("rtl", "checkers") {
				l.dirs = append(l.dirs, rel)
			}
			return nil
		}
		if filepath.Ext(rel) != ".sv" {
			return nil
		}
		switch filepath.Dir(rel) {
		case filepath.Join("rtl", "gen"):
			l.packages = append(l.packages, rel)
			return nil
		case filepath.Join("rtl", "checkers"):
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
	for i, m := range found {
		c := filepath.Join("rtl", "checkers", m.name+"_checker.sv")
		if _, ok := checkers[c]; ok {
			found[i].checker = c
			checkers[c] = true
		}
	}
	for _, c := range sorted(checkers) {
		if !checkers[c] {
			return nil, fmt.Errorf("%s belongs to no module: name it <module>_checker.sv", c)
		}
	}
	return found, nil
}

var moduleLine = regexp.MustCompile(`(?m)^\s*(?:module|macromodule)\s+(?:automatic\s+|static\s+)?([A-Za-z_]\w*)`)

// module holds a file to the rule of one module per file, named as the file:
// it is what lets both tools find an instance by its name.
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
	return module{name: name, file: rel}, nil
}

// run makes all checks, as many at a time as there are processors, and returns
// what failed in the order of the modules.
func (l *linter) run(ctx context.Context, modules []module) []finding {
	type job struct {
		check string
		argv  []string
	}
	results := make([]*finding, 2*len(modules))
	tokens := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, m := range modules {
		for k, j := range []job{
			{"verilator -Wall", append([]string{l.verilator}, l.verilatorArgs(m)...)},
			{"yosys", []string{l.yosys, "-q", "-p", l.yosysScript(m)}},
		} {
			wg.Go(func() {
				tokens <- struct{}{}
				defer func() { <-tokens }()
				cmd := exec.CommandContext(ctx, j.argv[0], j.argv[1:]...)
				cmd.Dir = l.root
				out, err := cmd.CombinedOutput()
				if err == nil {
					return
				}
				text := strings.TrimSpace(string(out))
				if text == "" || ctx.Err() != nil {
					text = strings.TrimSpace(text + "\n" + errors.Join(err, ctx.Err()).Error())
				}
				results[2*i+k] = &finding{module: m.name, check: j.check, text: head(text, 60)}
			})
		}
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

func (l *linter) verilatorArgs(m module) []string {
	args := []string{"--lint-only", "-Wall", "-sv", "--assert", "--top-module", m.name}
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

// yosysScript leaves the checkers out: they are not hardware.
func (l *linter) yosysScript(m module) string {
	var b strings.Builder
	fmt.Fprintf(&b, "read_verilog -sv %s; ", strings.Join(append(slices.Clone(l.packages), m.file), " "))
	b.WriteString("hierarchy -check -top " + m.name)
	for _, d := range l.dirs {
		b.WriteString(" -libdir " + d)
	}
	b.WriteString("; proc; check -assert")
	return b.String()
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
