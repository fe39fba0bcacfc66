// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hvia/params"
	"hvia/params/profile"
)

// ForProfile returns the spec of the same program for a profile's board. An
// empty name means the base profile, which the committed sources implement. For
// another profile it renders the board's generated sources beside the builds.
// The SystemVerilog package replaces the committed one in RTL; the C++ header
// is found before the committed one through -iquote. Name gets the profile's
// name, so that no object files are shared.
func (s Spec) ForProfile(name string) (Spec, error) {
	set, err := params.ForProfile(name)
	if err != nil {
		return Spec{}, fmt.Errorf("verilate: %s: %w", s.Name, err)
	}
	if set.Name == params.Base {
		return s, nil
	}
	root, err := Root()
	if err != nil {
		return Spec{}, err
	}
	files, err := profile.Files(set.Name)
	if err != nil {
		return Spec{}, fmt.Errorf("verilate: %s: %w", s.Name, err)
	}
	// The hash in the path separates builds with different parameters.
	dir := filepath.Join("build", "cache", fmt.Sprintf("profile-%s-%016x", set.Name, set.Hash))
	for _, file := range []string{profile.SVFile, profile.CppFile} {
		if err := writeOnce(filepath.Join(root, dir, file), files[file]); err != nil {
			return Spec{}, fmt.Errorf("verilate: %s: render %s of profile %s: %w", s.Name, file, set.Name, err)
		}
	}
	s.Name += "-" + set.Name
	s.RTL = slices.Clone(s.RTL)
	if i := slices.Index(s.RTL, profile.SVFile); i >= 0 {
		s.RTL[i] = filepath.Join(dir, profile.SVFile)
	}
	s.Headers = append(slices.Clone(s.Headers), filepath.Join(dir, profile.CppFile))
	s.Quoted = append(slices.Clone(s.Quoted), dir)
	return s, nil
}

// writeOnce writes a file unless it exists with this content: a new time stamp
// would cause a full compilation.
func writeOnce(path string, body []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, body) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(body)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
