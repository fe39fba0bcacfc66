// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Builds share the object of a source if all that it reads is the same.
func TestSharedObjects(t *testing.T) {
	root, folder := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("main.cc", "#include \"top.h\"\n")
	write("model.cc", "#include \"other.h\"\n")
	write("wide.cc", "WIDE\n")
	write("wave.cc", "#if VM_TRACE_FST\n")
	write("top.h", "#include \"Vtop.h\"\n#include \"verilated.h\"\n")
	write("other.h", "#include \"params.h\"\n#include <vector>\n")
	write("params.h", "1")
	write("profile/params.h", "2")
	plain := Spec{Cpp: []string{"main.cc", "model.cc", "wide.cc", "wave.cc"}}
	want := plain.sharedObjects(root, folder, Tool{})
	require.Len(t, want, 3)
	require.NotContains(t, want, "main.cc", "its header is missing")
	header := filepath.Join(folder, "Vtop.h")
	require.NoError(t, os.WriteFile(header, []byte("1"), 0o644))
	want = plain.sharedObjects(root, folder, Tool{})
	require.NoError(t, os.WriteFile(header, []byte("2"), 0o644))
	got := plain.sharedObjects(root, folder, Tool{})
	require.NotEqual(t, want["main.cc"], got["main.cc"])
	require.Equal(t, want["model.cc"], got["model.cc"])
	want = got

	for source, other := range map[string]Spec{
		"none":     {Defines: []string{"OTHER=1"}, Params: map[string]string{"W": "64"}},
		"model.cc": {Quoted: []string{"profile"}},
		"wide.cc":  {Defines: []string{"WIDE=1"}},
		"wave.cc":  {Trace: true},
	} {
		other.Cpp = plain.Cpp
		got := other.sharedObjects(root, folder, Tool{})
		for s := range want {
			if s == "main.cc" {
				continue // Verilator's headers have definitions for waves
			}
			require.Equal(t, s == source, want[s] != got[s], "%s with what changes %s", s, source)
		}
	}
	other := plain
	other.Mutants = []Mutant{{File: "wide.cc"}}
	require.NotContains(t, other.sharedObjects(root, folder, Tool{}), "wide.cc", "it has an injected bug")

	// An object whose source changed during the build is not kept.
	from, cache := t.TempDir(), filepath.Join(root, "build", "cache", "objects-shared")
	for _, s := range plain.Cpp {
		require.NoError(t, os.WriteFile(filepath.Join(from, objectOf(s)), []byte(s), 0o644))
	}
	write("other.h", "")
	require.NoError(t, keepShared(want, plain.sharedObjects(root, folder, Tool{}), from))
	require.NoFileExists(t, want["model.cc"])
	require.FileExists(t, want["wide.cc"])
	kept, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Len(t, kept, 3)
	to := t.TempDir()
	require.NoError(t, copyShared(want, to))
	b, err := os.ReadFile(filepath.Join(to, "wide.o"))
	require.NoError(t, err)
	require.Equal(t, "wide.cc", string(b))
	require.NoFileExists(t, filepath.Join(to, "model.o"))
}
