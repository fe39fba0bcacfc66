// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSwitch(t *testing.T) {
	root := t.TempDir()
	write := func(name, body string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(body), 0o644))
	}
	const license = "// SPDX-License-Identifier: Apache-2.0\n"
	write("a.sv", license+"module a (\n    input b\n);\nassign c = b;\nassign d = 1;\n")
	write("b.cc", license+"int x = y + 1;\nf();\n")

	mutants, err := Switch(root, [][]Mutant{
		{{"a.sv", "c = b;", "c = b & !FAULT;"}, {"a.sv", "d = 1", "d = 2"}},
		{{"b.cc", "y + 1", "y"}},
		{{"b.cc", "y + 1", "y - 1"}},
		{{"b.cc", "f();", ""}},
	})
	require.NoError(t, err)
	paths, err := Mutate(root, t.TempDir(), []string{"a.sv", "b.cc"}, mutants)
	require.NoError(t, err)
	for i, want := range []string{
		"module a (\n    input b\n);\n  int injected;\n  initial if ($value$plusargs(\"fault=%d\", injected) == 0) injected = 0;\n" +
			"assign c = b & !(injected == 1);\nassign d = 2;\n",
		"int x = ((injected == 2) ? (y) : (((injected == 3) ? (y - 1) : (y + 1))));\nif ((injected == 4)) {} else {f();}\n",
	} {
		got, err := os.ReadFile(paths[i])
		require.NoError(t, err)
		require.Contains(t, string(got), want)
	}

	for _, tt := range []struct {
		bug  Mutant
		want string
	}{
		{Mutant{"a.sv", "d = 1", "d = 2"}, `bug of a.sv: "d = 2" has no FAULT`},
		{Mutant{"b.cc", "gone", "x"}, `bug of b.cc: "gone" occurs 0 times, want exactly once`},
		{Mutant{"c.cc", "x", "y"}, "c.cc: no such file"},
	} {
		_, err := Switch(root, [][]Mutant{{tt.bug}})
		require.ErrorContains(t, err, tt.want)
	}
}
