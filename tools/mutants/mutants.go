// SPDX-License-Identifier: Apache-2.0

// Package mutants injects bugs into Go code and requires that tests catch them.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hvia/sim/verilate"
)

// Bug is an injected bug: its name, the file, the text that it replaces, and
// the new text.
type Bug [4]string

// All reports whether HVIA_MUTANTS=1 or HVIA_LONG=1 requests all bugs.
func All() bool {
	return os.Getenv("HVIA_MUTANTS") == "1" || os.Getenv("HVIA_LONG") == "1"
}

// Check requires that the text of each bug occurs once in its file, so that a
// change of the code cannot leave a bug behind unnoticed.
func Check(t *testing.T, folder string, bugs []Bug) {
	t.Helper()
	for _, b := range bugs {
		source, err := os.ReadFile(filepath.Join(folder, b[1]))
		check(t, err)
		if n := strings.Count(string(source), b[2]); n != 1 {
			t.Errorf("%s: %s has the text %d times: inject the bug elsewhere", b[0], b[1], n)
		}
	}
}

// MustCatch injects each bug, or only the first one unless [All], into its file
// below a folder and requires that the tests of some package, with these flags,
// fail. One build has all bugs that can be switched at run time.
func MustCatch(t *testing.T, folder string, bugs []Bug, packages []string, flags ...string) {
	t.Helper()
	Check(t, folder, bugs)
	if testing.Short() {
		t.Skip("compiles the code once more")
	}
	if !All() {
		bugs = bugs[:1]
	}
	texts := map[string]string{}
	for _, b := range bugs {
		source, err := os.ReadFile(filepath.Join(folder, b[1]))
		check(t, err)
		texts[b[1]] = string(source)
	}
	files, apart, err := switched(texts, bugs)
	check(t, err)
	together := build(t, folder, files, packages)
	if output, failed := together.fail(t, 0, flags); failed {
		t.Fatalf("without a bug the tests fail: %s", output)
	}
	for i, b := range bugs {
		t.Run(b[0], func(t *testing.T) {
			tests := together
			if slices.Contains(apart, i) {
				tests = build(t, folder, map[string]string{b[1]: strings.Replace(texts[b[1]], b[2], b[3], 1)}, packages)
			}
			output, failed := tests.fail(t, i+1, flags)
			if !failed {
				t.Fatalf("no test caught it: %s", output)
			}
			t.Logf("%s", output)
		})
	}
}

// tests are programs by the folder in which they run.
type tests []struct{ folder, program string }

// build compiles the tests of packages with other files below a folder.
func build(t *testing.T, folder string, files map[string]string, packages []string) (all tests) {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for name, text := range files {
		path, err := filepath.Abs(filepath.Join(folder, name))
		check(t, err)
		replace[path] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		check(t, os.WriteFile(replace[path], []byte(text), 0o600))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	check(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	check(t, os.WriteFile(overlay, text, 0o600))
	for i, p := range packages {
		program := filepath.Join(dir, fmt.Sprint(i, ".test"))
		output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-vet=off", "-o", program, p).CombinedOutput()
		if err != nil {
			t.Fatalf("it does not compile: %v\n%s", err, output)
		}
		folder, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", p).Output()
		check(t, err)
		all = append(all, struct{ folder, program string }{strings.TrimSpace(string(folder)), program})
	}
	return all
}

// fail runs programs, with a bug enabled, until one fails.
func (all tests) fail(t *testing.T, bug int, flags []string) (output string, failed bool) {
	t.Helper()
	for _, p := range all {
		run := exec.CommandContext(t.Context(), p.program)
		for _, f := range flags {
			run.Args = append(run.Args, "-test."+strings.TrimPrefix(f, "-"))
		}
		run.Dir = p.folder
		run.Env = append(os.Environ(), fmt.Sprintf("%s=%d", verilate.FaultVariable, bug))
		text, err := run.CombinedOutput()
		output += string(text)
		if err != nil {
			return output, strings.Contains(output, "--- FAIL")
		}
	}
	return output, false
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
