// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one injected bug, for tests of tests: in one build, New replaces
// Old in File. Old must occur exactly once, so that an outdated mutant fails.
type Mutant struct {
	File string // relative to the module's root, one of the build's sources
	Old  string
	New  string
}

// Mutate returns the absolute paths of a build's sources. It copies each file
// that a mutant names to folder, injects the bugs there, and returns the path
// of the copy.
func Mutate(root, folder string, files []string, mutants []Mutant) ([]string, error) {
	text := map[string]string{}
	for _, m := range mutants {
		if !slices.Contains(files, m.File) {
			return nil, fmt.Errorf("mutant names %s, which is not among the sources", m.File)
		}
		body, ok := text[m.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, m.File))
			if err != nil {
				return nil, err
			}
			body = string(b)
		}
		if n := strings.Count(body, m.Old); n != 1 {
			return nil, fmt.Errorf("mutant of %s: %q occurs %d times, want exactly once", m.File, m.Old, n)
		}
		text[m.File] = strings.Replace(body, m.Old, m.New, 1)
	}
	var paths []string
	copies := map[string]string{}
	for _, file := range files {
		path := filepath.Join(root, file)
		if body, ok := text[file]; ok {
			path = filepath.Join(folder, filepath.Base(file))
			if other, ok := copies[path]; ok {
				return nil, fmt.Errorf("mutants of %s and %s: both copies would be %s", other, file, path)
			}
			copies[path] = file
			if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
				return nil, err
			}
		}
		paths = append(paths, path)
	}
	return paths, nil
}
