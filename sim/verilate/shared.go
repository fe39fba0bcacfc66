// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var include = regexp.MustCompile(`(?m)^\s*#\s*include\s*"([^"]+)"`)

// sharedObjects returns the cache's paths for the object files of sources. A
// path has a hash of all that the compiler reads, so builds of any program can
// use the object. folder has the headers of the model.
func (s Spec) sharedObjects(root, folder string, verilator Tool) map[string]string {
	objects := map[string]string{}
	for _, source := range s.Cpp {
		var text strings.Builder
		fmt.Fprintf(&text, "%s\n%s\n%s\n", verilator.Version, commonFlags, s.makeFlags())
		if slices.ContainsFunc(s.Mutants, func(m Mutant) bool { return m.File == source }) || !s.inputs(root, folder, source, &text, map[string]bool{}) {
			continue
		}
		for _, d := range s.Defines {
			if name, _, _ := strings.Cut(d, "="); strings.Contains(text.String(), name) {
				fmt.Fprintln(&text, d)
			}
		}
		// Definitions of Verilator.
		if strings.Contains(text.String(), "VM_TRACE") || strings.Contains(text.String(), "verilated") {
			fmt.Fprintln(&text, s.Trace, s.Signals)
		}
		sum := sha256.Sum256([]byte(text.String()))
		objects[source] = filepath.Join(s.cache(root), "objects-shared", hex.EncodeToString(sum[:8])+".o")
	}
	return objects
}

// inputs appends the text of a file and of those that it includes, except the
// headers of Verilator. It returns false if one is neither in the checkout nor
// of the model.
func (s Spec) inputs(root, folder, file string, text *strings.Builder, done map[string]bool) bool {
	if done[file] || strings.HasPrefix(file, "verilated") {
		return true
	}
	done[file] = true
	var b []byte
	err := fs.ErrNotExist
	for _, path := range slices.Concat(prefixed(root, s.Quoted), []string{root, folder}) {
		if b, err = os.ReadFile(filepath.Join(path, file)); err == nil {
			break
		}
	}
	if err != nil {
		return false
	}
	fmt.Fprintf(text, "%s\n%s", file, b)
	for _, m := range include.FindAllStringSubmatch(string(b), -1) {
		if !s.inputs(root, folder, m[1], text, done) {
			return false
		}
	}
	return true
}

func prefixed(root string, folders []string) (paths []string) {
	for _, f := range folders {
		paths = append(paths, filepath.Join(root, f))
	}
	return paths
}

// compileMissing makes the program with the object files that the cache has,
// and keeps the others there.
func (s Spec) compileMissing(ctx context.Context, root, folder string, verilator Tool) error {
	kept, shared := s.runtime(root, verilator), s.sharedObjects(root, folder, verilator)
	if err := errors.Join(copyObjects(kept, folder), copyShared(shared, folder)); err != nil {
		return err
	}
	if err := s.compile(ctx, folder, verilator); err != nil {
		return err
	}
	return errors.Join(keepObjects(folder, kept), keepShared(shared, s.sharedObjects(root, folder, verilator), folder))
}

// copyShared copies the shared object files that exist into a build's folder,
// where make sees them as newer than their sources.
func copyShared(shared map[string]string, to string) error {
	for source, object := range shared {
		b, err := os.ReadFile(object)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, objectOf(source)), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// keepShared keeps a build's object files in the cache. now has the sources
// that did not change during the build.
func keepShared(shared, now map[string]string, from string) error {
	for source, object := range shared {
		if _, err := os.Stat(object); err == nil || now[source] != object {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, objectOf(source)))
		if err != nil {
			return err
		}
		if err := writeOnce(object, b); err != nil {
			return err
		}
	}
	return nil
}
