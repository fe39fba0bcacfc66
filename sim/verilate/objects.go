// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keptObjects prepares the folder of object files that builds of a program
// share. make compares times, which can be wrong: an object is newer than a
// source that changed while it was compiled, and copying a folder makes all its
// objects new. So the folder lists the content of its objects' sources, and
// keptObjects removes objects of other content. clean writes the list if no
// source changed during the build. Until then the folder has a mark. A marked
// folder is removed.
func keptObjects(root, folder string, spec Spec) (clean func(), err error) {
	mark, list := filepath.Join(folder, "under-way"), filepath.Join(folder, "contents.json")
	if _, err := os.Stat(mark); err == nil {
		if err := os.RemoveAll(folder); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	now, err := spec.contents(root)
	if err != nil {
		return nil, err
	}
	kept := map[string]string{}
	if b, err := os.ReadFile(list); err == nil {
		if json.Unmarshal(b, &kept) != nil {
			kept = nil // the content is unknown
		}
	}
	for source, content := range now {
		if kept[source] == content {
			continue
		}
		if err := os.Remove(filepath.Join(folder, objectOf(source))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return nil, err
	}
	return func() {
		if os.WriteFile(list, b, 0o644) == nil {
			_ = os.Remove(mark)
		}
	}, nil
}

// contents returns, for each C++ source, a hash of its object file's inputs.
func (s Spec) contents(root string) (map[string]string, error) {
	headers, err := globs(root, s.Headers)
	if err != nil {
		return nil, err
	}
	common := sha256.New()
	fmt.Fprintf(common, "%v %v %v\n", s.Defines, s.Trace, s.Params)
	for _, h := range headers {
		if err := hashFile(common, root, h); err != nil {
			return nil, err
		}
	}
	sum := common.Sum(nil)
	m := map[string]string{}
	for _, source := range s.Cpp {
		h := sha256.New()
		h.Write(sum)
		if err := hashFile(h, root, source); err != nil {
			return nil, err
		}
		m[source] = hex.EncodeToString(h.Sum(nil))
	}
	return m, nil
}

// objectOf returns the object's name in Verilator's make file.
func objectOf(source string) string {
	base := filepath.Base(source)
	return strings.TrimSuffix(base, filepath.Ext(base)) + ".o"
}
