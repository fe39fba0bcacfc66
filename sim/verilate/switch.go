// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// FaultVariable is the environment variable with the number of the bug that a
// C++ program enables.
const FaultVariable = "HVIA_FAULT"

var (
	moduleHead = regexp.MustCompile(`(?ms)^module .*?^\);\n`)
	license    = regexp.MustCompile(`^// SPDX-.*\n`)
)

// Switch returns the mutants that put all bugs, each of one or more edits, into
// one build. A bug is inactive until a run enables it: FAULT in its new text
// becomes the condition that its number, from 1, is the argument +fault=N (RTL)
// or FaultVariable (C++). In C++ a complete expression or statement can do
// without FAULT. Bugs may share a text: each is injected into the text that
// those before it leave.
func Switch(root string, bugs [][]Mutant) (mutants []Mutant, err error) {
	files := map[string]string{}
	for i, edits := range bugs {
		if !slices.ContainsFunc(edits, func(e Mutant) bool { return strings.Contains(e.switched(), "FAULT") }) {
			return nil, fmt.Errorf("bug of %s: %q has no FAULT", edits[0].File, edits[0].New)
		}
		for _, e := range edits {
			if files[e.File] == "" {
				text, err := os.ReadFile(filepath.Join(root, e.File))
				if err != nil {
					return nil, err
				}
				files[e.File] = string(text)
				mutants = append(mutants, declare(e.File, string(text)))
			}
			if n := strings.Count(files[e.File], e.Old); n != 1 {
				return nil, fmt.Errorf("bug of %s: %q occurs %d times, want exactly once", e.File, e.Old, n)
			}
			on := fmt.Sprintf("(injected == %d)", i+1)
			mutants = append(mutants, Mutant{e.File, e.Old, strings.ReplaceAll(e.switched(), "FAULT", on)})
		}
	}
	return mutants, nil
}

// declare returns the mutant of a file that declares injected, the number of
// the enabled bug.
func declare(file, text string) Mutant {
	if filepath.Ext(file) == ".cc" {
		head := license.FindString(text)
		return Mutant{file, head, head + "#include <cstdlib>\nstatic const char* const fault_text = std::getenv(\"" + FaultVariable + "\");\n" +
			"static const int injected = fault_text != nullptr ? std::atoi(fault_text) : 0;\n"}
	}
	head := moduleHead.FindString(text)
	return Mutant{file, head, head + "  int injected;\n  initial if ($value$plusargs(\"fault=%d\", injected) == 0) injected = 0;\n"}
}

// switched returns the new text, in C++ with FAULT.
func (m Mutant) switched() string {
	switch {
	case strings.Contains(m.New, "FAULT") || filepath.Ext(m.File) != ".cc":
		return m.New
	case strings.HasSuffix(strings.TrimSpace(m.Old), ";"):
		return "if (FAULT) {" + m.New + "} else {" + m.Old + "}"
	default:
		return "(FAULT ? (" + m.New + ") : (" + m.Old + "))"
	}
}
