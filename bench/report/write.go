// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Repeatable is the report as JSON without what depends on the machine: two
// runs of one configuration must give the same bytes.
func (r *Report) Repeatable() ([]byte, error) {
	c := *r
	c.Wall = Wall{}
	var b strings.Builder
	if err := WriteJSON(&b, c); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// Save writes report.json, and all its tables as report.txt, into a directory,
// which it makes if needed, and returns the path of the first. A reader sees
// the old file or the new one, never a part.
func (r *Report) Save(dir string) (string, error) {
	if _, err := Save(dir, "report.txt", r.WriteText); err != nil {
		return "", err
	}
	return Save(dir, "report.json", func(w io.Writer) error { return WriteJSON(w, r) })
}

// Save writes a file of a directory, completely or not at all.
func Save(dir, name string, write func(io.Writer) error) (string, error) {
	path := filepath.Join(dir, name)
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = Replace(path, write)
	}
	if err != nil {
		return "", fmt.Errorf("write the report %s: %w", path, err)
	}
	return path, nil
}

// Replace writes a file atomically: a reader sees the old or the new one.
func Replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// WriteJSON writes a report as one indented object. Equal reports give equal
// bytes.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
