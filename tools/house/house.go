// SPDX-License-Identifier: Apache-2.0

// Package house checks the project's rules that no standard tool checks: which
// folder may import which, where unsafe is allowed, what libraries and
// synthesizable RTL must not contain, and the language of texts. Its test walks
// the whole tree.
package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Room lists what a folder's Go code may import besides its own packages and
// the standard library. A folder inside a room may be a separate room. Tests
// may import anything.
type Room struct {
	Uses     []string // other packages of this module, with all below them; an exact path ends in "$"
	External []string // modules
	Library  bool     // prints nothing, never exits
}

const (
	moduleName = "hvia"
	sys        = "golang.org/x/sys"
)

// Rooms is the twin of the table in docs/explanation/rooms.md.
var Rooms = map[string]Room{
	"layout":   {Library: true},
	"params":   {Uses: []string{"layout"}, Library: true},
	"att":      {Uses: []string{"layout"}, Library: true},
	"sim":      {Uses: []string{"layout", "params"}, External: []string{sys}, Library: true},
	"host":     {Uses: []string{"layout$", "sim/bridge"}, External: []string{sys}, Library: true},
	"driver":   {Uses: []string{"layout", "params$", "att", "sim/bridge", "host"}, External: []string{sys}, Library: true},
	"fabric":   {Uses: []string{"layout", "sim$", "sim/bridge", "host", "driver$"}, External: []string{sys}, Library: true},
	"vipl":     {Uses: []string{"layout", "host", "driver"}, External: []string{sys}, Library: true},
	"costs":    {Uses: []string{"params$", "host", "driver$", "sim$"}, Library: true},
	"tools":    {Uses: []string{"layout", "params", "sim", "att", "host", "driver", "fabric", "vipl", "conformance", "costs", "bench"}, External: []string{sys, "golang.org/x/term", "github.com/spf13/cobra", "github.com/spf13/pflag"}},
	"examples": {Uses: []string{".$", "sim$", "host", "driver", "fabric", "vipl", "costs$"}},

	// The suite, what runs programs in tests, and the reference model.
	"conformance":             {Uses: []string{"layout", "params$", "host", "fabric", "driver", "vipl", "sim$", "sim/bridge"}, Library: true},
	"conformance/conformtest": {Uses: []string{"layout", "host", "fabric", "driver", "sim$", "sim/bridge"}, External: []string{"github.com/stretchr/testify"}, Library: true},
	"conformance/model":       {Uses: []string{"layout$"}, Library: true},

	// Uses the library as a program does.
	"vipl/endpoint": {Uses: []string{"layout$", "host", "driver$", "vipl$"}, Library: true},

	// The package that simple programs import.
	".": {Uses: []string{"host$", "fabric$", "driver$", "vipl$", "vipl/endpoint"}, Library: true},

	// Separate from driver, so that driver needs no TCP/IP stack.
	"driver/card":  {Uses: []string{"layout", "att", "host", "sim/bridge"}, Library: true},
	"driver/tcpip": {Uses: []string{"layout$", "host", "driver$"}, External: []string{"gvisor.dev/gvisor"}, Library: true},

	// Reports do not depend on how their numbers were measured.
	"bench/report": {Uses: []string{"params$", "host$"}, Library: true},

	// An experiment imports no other; the digests run them all.
	"bench/rig":       {Uses: []string{"layout", "params$", "sim", "host", "driver", "fabric", "vipl$", "costs", "bench/report"}, External: []string{sys, "github.com/google/gopacket", "golang.org/x/sync"}, Library: true},
	"bench/reproduce": {Uses: []string{"layout", "params$", "sim", "host", "driver", "fabric", "vipl$", "costs", "bench/report", "bench/rig"}, Library: true},
	"bench/compare":   {Uses: []string{"layout", "params$", "sim", "host", "driver", "fabric", "vipl$", "costs", "bench/report", "bench/rig"}, Library: true},
	"bench/faults":    {Uses: []string{"layout", "params$", "sim", "host", "driver", "fabric", "vipl$", "costs", "bench/report", "bench/rig"}, Library: true},
	"bench/demo":      {Uses: []string{"layout", "params$", "sim", "host", "driver", "fabric", "vipl$", "costs", "bench/report", "bench/rig"}, Library: true},
	"bench/digests":   {Uses: []string{"params$", "sim", "bench/report", "bench/rig", "bench/reproduce", "bench/compare", "bench/faults", "costs"}, Library: true},
	"bench/simspeed":  {Uses: []string{"layout$", "params$", "sim", "host", "driver", "fabric", "costs", "bench/report", "bench/rig"}, External: []string{sys}, Library: true},
	"bench/internal":  {Uses: []string{"layout", "sim", "host", "driver", "bench/rig"}}, // helpers of tests

	// Separate from bench, so that bench needs no plotting library.
	"bench/figures": {Uses: []string{"params$", "bench/report"}, External: []string{"gonum.org/v1/plot", "golang.org/x/image"}, Library: true},
}

// Violation is one broken rule.
type Violation struct {
	File string // relative to the root, with slashes
	Line int    // 0 if it is the file as a whole
	Text string
}

func (v Violation) String() string {
	if v.Line == 0 {
		return v.File + ": " + v.Text
	}
	return fmt.Sprintf("%s:%d: %s", v.File, v.Line, v.Text)
}

// Check reads every file of a checkout and returns what breaks the rules.
func Check(root string) ([]Violation, error) {
	var all []Violation
	err := walk(root, func(name string, body []byte) error {
		all = append(all, CheckFile(name, body)...)
		if path.Ext(name) == ".md" {
			all = append(all, checkLinks(root, name, string(body))...)
		}
		all = append(all, CheckText(name, body)...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("check the house rules under %s: %w", root, err)
	}
	return all, nil
}

// CheckFile applies every rule that needs one file only.
func CheckFile(name string, body []byte) []Violation {
	var v []Violation
	if isSource(name) {
		v = append(v, checkHeader(name, string(body))...)
	}
	v = append(v, checkWords(name, string(body))...)
	switch path.Ext(name) {
	case ".go":
		v = append(v, checkGo(name, body)...)
	case ".sv":
		if strings.HasPrefix(name, "rtl/") && !strings.HasPrefix(name, "rtl/gen/") {
			v = append(v, checkRTL(name, string(body))...)
		}
	}
	return v
}

func isSource(name string) bool {
	if strings.Contains(name, "/testdata/") {
		return false
	}
	switch path.Ext(name) {
	case ".go", ".sv", ".svh", ".v", ".c", ".cc", ".cpp", ".h", ".hpp", ".sh", ".py", ".lua", ".ys":
		return true
	}
	return path.Base(name) == "Makefile" || name == ".ci/run"
}

func isGenerated(name string) bool {
	return strings.HasSuffix(name, "_gen.go") || strings.HasPrefix(name, "rtl/gen/") || strings.HasPrefix(name, "sim/gen/")
}

const spdx = "SPDX-License-Identifier: Apache-2.0"

var generatedLine = regexp.MustCompile(`^(//|#|/\*) Code generated .* DO NOT EDIT\.( \*/)?$`)

// checkHeader requires the licence in the first three lines: a generated file
// or a script has another line before it.
func checkHeader(name, body string) []Violation {
	var v []Violation
	lines := strings.SplitN(body, "\n", 4)
	if len(lines) > 3 {
		lines = lines[:3]
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, " "+spdx) }) {
		v = append(v, Violation{name, 0, "no line '" + spdx + "' at the top"})
	}
	if isGenerated(name) && !generatedLine.MatchString(lines[0]) {
		v = append(v, Violation{name, 1, "a generated file starts with the standard 'Code generated ... DO NOT EDIT.' line"})
	}
	return v
}

// The words are split so that this file does not break its own rule.
var forbiddenWords = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`), "unfinished work is written down as a known gap, not as a mark in the text"},
	{regexp.MustCompile(`(^|[^\w.])/(wo` + `rk|ro` + `ot|ho` + `me)/`), "a path of one machine"},
}

func checkWords(name, body string) []Violation {
	if bytes.IndexByte([]byte(body[:min(len(body), 8000)]), 0) >= 0 {
		return nil // not text
	}
	var v []Violation
	for _, w := range forbiddenWords {
		for _, at := range w.pattern.FindAllStringIndex(body, -1) {
			v = append(v, Violation{name, lineOf(body, at[0]), fmt.Sprintf("%q: %s", strings.TrimSpace(body[at[0]:at[1]]), w.why)})
		}
	}
	return v
}

func lineOf(body string, offset int) int {
	return strings.Count(body[:offset], "\n") + 1
}

func checkGo(name string, body []byte) []Violation {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, body, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []Violation{{name, 0, "does not parse: " + err.Error()}}
	}
	var v []Violation
	if formatted, err := format.Source(body); err != nil || !bytes.Equal(formatted, body) {
		v = append(v, Violation{name, 0, "not formatted: run gofmt -w on it"})
	}
	test := strings.HasSuffix(name, "_test.go")
	imports := map[string]string{} // local name to path
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has checked it
		}
		line := fset.Position(spec.Pos()).Line
		local := path.Base(p)
		if strings.HasPrefix(local, "v") && len(local) == 2 {
			local = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imports[local] = p
		if p == "unsafe" && !test && !strings.HasSuffix(name, "_unsafe.go") {
			v = append(v, Violation{name, line, "imports unsafe: keep it in *_unsafe.go"})
		}
		if p == "math/rand" {
			v = append(v, Violation{name, line, "imports math/rand: use math/rand/v2 with a seed that is printed"})
		}
		if why := forbiddenImport(name, p); why != "" && !test {
			v = append(v, Violation{name, line, why})
		}
	}
	library := Rooms[roomOf(name)].Library && file.Name.Name != "main" && !test
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && library {
			if id, ok := call.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				v = append(v, Violation{name, fset.Position(n.Pos()).Line, "a library prints nothing: " + id.Name})
			}
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		use := imports[pkg.Name] + "." + sel.Sel.Name
		line := fset.Position(n.Pos()).Line
		switch {
		case use == "os.Stderr" && name == "sim/simulator.go": // stages of a build, which takes half a minute
		case library && (use == "os.Exit" || use == "os.Stdout" || use == "os.Stderr" || strings.HasPrefix(use, "fmt.Print")):
			v = append(v, Violation{name, line, "a library prints nothing and never exits: " + use})
		case imports[pkg.Name] == "math/rand/v2" && !seeded[sel.Sel.Name]:
			v = append(v, Violation{name, line, "rand." + sel.Sel.Name + " has no seed: use a generator made with a seed that is printed"})
		}
		return true
	})
	return v
}

// seeded lists the names of math/rand/v2 that do not use its global generator.
var seeded = map[string]bool{
	"New": true, "NewPCG": true, "NewChaCha8": true, "NewZipf": true,
	"Rand": true, "PCG": true, "ChaCha8": true, "Zipf": true, "Source": true,
}

// roomOf returns a file's room: the longest matching path of Rooms, otherwise
// the top-level folder; "" for a file in the root.
func roomOf(name string) string {
	top, _, ok := strings.Cut(name, "/")
	if !ok {
		return "."
	}
	for folder := path.Dir(name); folder != top; folder = path.Dir(folder) {
		if _, ok := Rooms[folder]; ok {
			return folder
		}
	}
	return top
}

// forbiddenImport says why a file may not import a path; "" if it may.
func forbiddenImport(name, p string) string {
	folder := roomOf(name)
	room, ok := Rooms[folder]
	if !ok {
		return fmt.Sprintf("%s/ has Go code but is not in the table of rooms: add it to Rooms and to docs/explanation/rooms.md", folder)
	}
	// Unit tests of the RTL and test helpers are tests in separate packages.
	if strings.HasPrefix(name, "sim/unit/") || strings.Contains(name, "test/") {
		return ""
	}
	if p == moduleName {
		p += "/."
	}
	if own, ok := strings.CutPrefix(p, moduleName+"/"); ok {
		if own == folder || strings.HasPrefix(own, folder+"/") {
			return ""
		}
		for _, u := range room.Uses {
			if exact, ok := strings.CutSuffix(u, "$"); ok {
				if own == exact {
					return ""
				}
			} else if own == u || strings.HasPrefix(own, u+"/") {
				return ""
			}
		}
		return fmt.Sprintf("imports %s: %s/ may use %v of this module", p, folder, room.Uses)
	}
	if first := strings.SplitN(p, "/", 2)[0]; !strings.Contains(first, ".") {
		if p == "log" {
			return "imports log: use log/slog"
		}
		return ""
	}
	for _, m := range room.External {
		if p == m || strings.HasPrefix(p, m+"/") {
			return ""
		}
	}
	return fmt.Sprintf("imports %s: %s/ may use the modules %v", p, folder, room.External)
}

var (
	// A # is a delay unless it opens a list of named or declared parameters.
	delay      = regexp.MustCompile(`#(\s*\(\s*(\.|parameter\b|localparam\b|\)))?`)
	systemCall = regexp.MustCompile(`\$[A-Za-z_]\w*`)
	directives = regexp.MustCompile("`[A-Za-z_]\\w*")
	simOnly    = regexp.MustCompile(`\b(fork|wait|wait_order|force|final|import|export|program|class|property|sequence)\b`)
)

// pureCalls are system functions of constants and bits.
var pureCalls = map[string]bool{
	"$clog2": true, "$signed": true, "$unsigned": true, "$bits": true, "$size": true,
	"$high": true, "$low": true, "$left": true, "$right": true, "$countones": true, "$onehot": true, "$onehot0": true,
}

// checkerCalls are what an assertion may say on top.
var checkerCalls = map[string]bool{"$error": true, "$fatal": true, "$isunknown": true}

// checkRTL keeps everything out that is not hardware: the RTL must not know
// that it is simulated.
func checkRTL(name, body string) []Violation {
	var v []Violation
	checker := path.Base(path.Dir(name)) == "checkers"
	code, _, _ := separate(name, body)
	add := func(offset int, text string) {
		v = append(v, Violation{name, lineOf(code, offset), text})
	}
	for _, at := range delay.FindAllStringSubmatchIndex(code, -1) {
		if at[2] < 0 {
			add(at[0], "a delay, or parameters without names: '#' may only open a list of named parameters")
		}
	}
	for _, at := range systemCall.FindAllStringIndex(code, -1) {
		if c := code[at[0]:at[1]]; !pureCalls[c] && (!checker || !checkerCalls[c]) {
			add(at[0], c+" is for simulation only")
		}
	}
	for _, at := range directives.FindAllStringIndex(code, -1) {
		if d := code[at[0]:at[1]]; d != "`default_nettype" {
			add(at[0], d+": no directives, so that every tool reads the same design")
		}
	}
	for _, at := range simOnly.FindAllStringIndex(code, -1) {
		add(at[0], code[at[0]:at[1]]+" is for simulation only, or not synthesizable")
	}
	if strings.Contains(body, "synthesis translate_off") || strings.Contains(body, "synopsys translate_off") {
		v = append(v, Violation{name, 0, "translate_off: no simulation-only branches"})
	}
	lines := strings.Split(body, "\n")
	described := false
	for _, l := range lines {
		if text, ok := strings.CutPrefix(l, "//"); ok {
			described = described || (strings.TrimSpace(text) != "" && !strings.Contains(text, "SPDX"))
		} else if strings.TrimSpace(l) != "" {
			break
		}
	}
	if !described {
		v = append(v, Violation{name, 0, "no sentence at the top that says what the module is for"})
	}
	return v
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// checkLinks requires every relative link of a page to lead to a file.
func checkLinks(root, name, body string) []Violation {
	var v []Violation
	for _, at := range link.FindAllStringSubmatchIndex(body, -1) {
		target := body[at[2]:at[3]]
		target, _, _ = strings.Cut(target, "#")
		if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Join(path.Dir(name), target)))); err != nil {
			v = append(v, Violation{name, lineOf(body, at[0]), "link to " + target + ", which is not there"})
		}
	}
	return v
}
