// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Object files are reused only if no source changed during their build, and
// only for the same content.
func TestKeptObjects(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "objects")
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	write("main.cc", "a")
	write("other.cc", "b")
	write("both.h", "c")
	spec := Spec{Cpp: []string{"main.cc", "other.cc"}, Headers: []string{"*.h"}}
	objects := []string{filepath.Join(folder, "main.o"), filepath.Join(folder, "other.o")}
	// build requests the kept objects, reports which existed, and makes the
	// rest.
	build := func() (main, other bool, clean func()) {
		t.Helper()
		clean, err := keptObjects(root, folder, spec)
		require.NoError(t, err)
		var there [2]bool
		for i, o := range objects {
			_, err := os.Stat(o)
			there[i] = err == nil
			require.NoError(t, os.WriteFile(o, nil, 0o644))
		}
		return there[0], there[1], clean
	}
	expect := func(wantMain, wantOther bool, what string) func() {
		t.Helper()
		main, other, clean := build()
		require.Equal(t, [2]bool{wantMain, wantOther}, [2]bool{main, other}, what)
		return clean
	}
	expect(false, false, "nothing was built")()
	expect(true, true, "nothing has changed")()
	write("other.cc", "B")
	expect(true, false, "one source has changed, whatever its time says")()
	write("both.h", "C")
	expect(false, false, "a header has changed")()
	spec.Defines = []string{"X"}
	expect(false, false, "a definition has changed")()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "contents.json"), []byte("{"), 0o644))
	expect(false, false, "of no known content")()
	expect(true, true, "nothing has changed")
	// The build never called clean: it was killed, or a source changed.
	expect(false, false, "a build that was not clean")()
}
