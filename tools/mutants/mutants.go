// SPDX-License-Identifier: Apache-2.0

// Package mutants injects bugs into Go code and requires that tests catch them.
package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
// below a folder and requires that 'go test' with the given arguments fails.
func MustCatch(t *testing.T, folder string, bugs []Bug, arguments ...string) {
	t.Helper()
	Check(t, folder, bugs)
	if testing.Short() {
		t.Skip("compiles the code once more for each bug")
	}
	if !All() {
		bugs = bugs[:1]
	}
	for _, b := range bugs {
		t.Run(b[0], func(t *testing.T) {
			run := exec.CommandContext(t.Context(), "go", append([]string{"test", "-overlay", b.overlay(t, folder), "-count=1", "-vet=off"}, arguments...)...)
			output, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(output), "--- FAIL") {
				t.Fatalf("no test caught it, or it does not compile: %v\n%s", err, output)
			}
			t.Logf("%s", output)
		})
	}
}

// overlay writes the file with the bug and returns the overlay that names it.
func (b Bug) overlay(t *testing.T, folder string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(folder, b[1]))
	check(t, err)
	source, err := os.ReadFile(path)
	check(t, err)
	mutant, overlay := filepath.Join(t.TempDir(), "mutant.go"), filepath.Join(t.TempDir(), "overlay.json")
	check(t, os.WriteFile(mutant, []byte(strings.Replace(string(source), b[2], b[3], 1)), 0o600))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutant}})
	check(t, err)
	check(t, os.WriteFile(overlay, replace, 0o600))
	return overlay
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
