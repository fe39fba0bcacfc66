// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hvia/sim/verilate"
)

var (
	svComment = regexp.MustCompile(`//.*`)
	svName    = regexp.MustCompile(`\w+`)
	cInclude  = regexp.MustCompile(`#include "(sim/(?:model|unit)/[^"]*)\.h"`)
)

// Testbench returns the testbench cc/NAME_tb.cc of the test's folder. Its top
// is NAME_tb, or hvia_NAME if the folder has no such module. A parameter "W=32"
// of the top is also the definition TB_W=32 in C++. The RTL consists of the
// modules that the top instantiates, with their checkers. The C++ is the
// testbench and the models that it includes.
func Testbench(t *testing.T, name string, parameters ...string) verilate.Spec {
	t.Helper()
	root, err := verilate.Root()
	check(t, err)
	folder, err := os.Getwd()
	check(t, err)
	f := finder{t: t, root: root, files: map[string]string{}}
	f.index(root + "/rtl/*/*.sv")
	f.index(root + "/rtl/mac/*/*.sv")
	f.index(folder + "/*.sv")

	s := verilate.Spec{Name: name + "_tb", Top: name + "_tb", Params: map[string]string{}}
	if f.files[s.Top] == "" {
		s.Top = "hvia_" + name
	}
	for _, p := range parameters {
		key, value, _ := strings.Cut(p, "=")
		s.Name += "_" + value
		s.Params[key] = value
		s.Defines = append(s.Defines, "TB_"+p)
	}
	f.module(s.Top)
	f.cpp(f.relative(folder + "/cc/" + name + "_tb"))
	control, err := filepath.Glob(folder + "/*.vlt")
	check(t, err)
	for _, c := range control {
		s.RTL = append(s.RTL, f.relative(c))
	}
	s.RTL = slices.Concat(s.RTL, f.packages, f.modules, f.checkers)
	s.Cpp = f.sources
	s.Headers = []string{f.relative(folder) + "/cc/*.h"}
	if slices.Contains(s.Cpp, "sim/model/dp83820.cc") {
		s.Libs = []string{"-lz"}
	}
	return s
}

type finder struct {
	t                                    *testing.T
	root                                 string
	files                                map[string]string // by module or package
	packages, modules, checkers, sources []string
	read                                 []string
}

func (f *finder) index(pattern string) {
	found, err := filepath.Glob(pattern)
	check(f.t, err)
	for _, file := range found {
		f.files[strings.TrimSuffix(filepath.Base(file), ".sv")] = f.relative(file)
	}
}

func (f *finder) relative(file string) string {
	name, err := filepath.Rel(f.root, file)
	check(f.t, err)
	return name
}

// text returns a file, or "" if it does not exist or was read before.
func (f *finder) text(file string) string {
	if slices.Contains(f.read, file) {
		return ""
	}
	f.read = append(f.read, file)
	b, err := os.ReadFile(filepath.Join(f.root, file))
	if err != nil {
		return ""
	}
	return string(b)
}

// module adds a module or package, its checker and the modules in both.
func (f *finder) module(name string) {
	file := f.files[name]
	text := f.text(file)
	if text == "" {
		return
	}
	if strings.HasSuffix(name, "_pkg") {
		f.packages = append(f.packages, file)
		return
	}
	f.modules = append(f.modules, file)
	checker := filepath.Join(filepath.Dir(file), "checkers", name+"_checker.sv")
	if c := f.text(checker); c != "" {
		f.checkers = append(f.checkers, checker)
		text += c
	}
	for _, n := range svName.FindAllString(svComment.ReplaceAllString(text, ""), -1) {
		if f.files[n] != "" {
			f.module(n)
		}
	}
}

// cpp adds NAME.cc, if it exists, and the models that it and NAME.h include.
func (f *finder) cpp(name string) {
	source := f.text(name + ".cc")
	if source != "" {
		f.sources = append(f.sources, name+".cc")
	}
	for _, m := range cInclude.FindAllStringSubmatch(source+f.text(name+".h"), -1) {
		f.cpp(m[1])
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
