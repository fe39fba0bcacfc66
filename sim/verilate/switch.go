// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// FaultVariable is the environment variable with the number of the bug that a
// C++ program enables.
const FaultVariable = "HVIA_FAULT"

var (
	moduleHead = regexp.MustCompile(`(?ms)^module .*?^\);\n`)
	license    = regexp.MustCompile(`^// SPDX-.*\n`)
)

// Switch returns the mutants that put all bugs into one build. Each is inactive
// until a run enables it: FAULT in its new text becomes the condition that its
// number, from 1, is the argument +fault=N (RTL) or FaultVariable (C++). In C++
// a complete expression or statement can do without FAULT. Bugs may share a
// text: each is injected into the text that those before it leave.
func Switch(root string, bugs []Mutant) ([]Mutant, error) {
	var mutants []Mutant
	files := map[string]string{}
	for i, bug := range bugs {
		cpp, wrong := filepath.Ext(bug.File) == ".cc", bug.New
		switch {
		case strings.Contains(wrong, "FAULT"):
		case !cpp:
			return nil, fmt.Errorf("bug of %s: %q has no FAULT", bug.File, wrong)
		case strings.HasSuffix(strings.TrimSpace(bug.Old), ";"):
			wrong = "if (FAULT) {" + wrong + "} else {" + bug.Old + "}"
		default:
			wrong = "(FAULT ? (" + wrong + ") : (" + bug.Old + "))"
		}
		if files[bug.File] == "" {
			text, err := os.ReadFile(filepath.Join(root, bug.File))
			if err != nil {
				return nil, err
			}
			files[bug.File] = string(text)
			head := moduleHead.FindString(string(text))
			number := "  int injected;\n  initial if ($value$plusargs(\"fault=%d\", injected) == 0) injected = 0;\n"
			if cpp {
				head = license.FindString(string(text))
				number = "#include <cstdlib>\nstatic const char* const fault_text = std::getenv(\"" + FaultVariable + "\");\n" +
					"static const int injected = fault_text != nullptr ? std::atoi(fault_text) : 0;\n"
			}
			mutants = append(mutants, Mutant{bug.File, head, head + number})
		}
		if n := strings.Count(files[bug.File], bug.Old); n != 1 {
			return nil, fmt.Errorf("bug of %s: %q occurs %d times, want exactly once", bug.File, bug.Old, n)
		}
		mutants = append(mutants, Mutant{bug.File, bug.Old, strings.ReplaceAll(wrong, "FAULT", fmt.Sprintf("(injected == %d)", i+1))})
	}
	return mutants, nil
}
