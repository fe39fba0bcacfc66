// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMutate(t *testing.T) {
	root, folder := t.TempDir(), t.TempDir()
	write := func(name, body string) {
		t.Helper()
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(body), 0o644))
	}
	write("a.sv", "one two three two")
	write("b.sv", "other")
	write("more/b.sv", "another")
	files := []string{"a.sv", "b.sv"}

	paths, err := Mutate(root, folder, files, nil)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(root, "a.sv"), filepath.Join(root, "b.sv")}, paths)

	// Two bugs in one file, the second in the text of the first.
	paths, err = Mutate(root, folder, files, []Mutant{{"a.sv", "one", "four"}, {"a.sv", "four two", "five"}})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(folder, "a.sv"), filepath.Join(root, "b.sv")}, paths)
	got, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	require.Equal(t, "five three two", string(got))
	got, err = os.ReadFile(filepath.Join(root, "a.sv"))
	require.NoError(t, err)
	require.Equal(t, "one two three two", string(got), "the source itself was changed")

	for _, tt := range []struct {
		files   []string
		mutants []Mutant
		want    string
	}{
		{files, []Mutant{{"c.sv", "one", "x"}}, "mutant names c.sv, which is not among the sources"},
		{files, []Mutant{{"a.sv", "six", "x"}}, `mutant of a.sv: "six" occurs 0 times, want exactly once`},
		{files, []Mutant{{"a.sv", "two", "x"}}, `mutant of a.sv: "two" occurs 2 times, want exactly once`},
		{[]string{"gone.sv"}, []Mutant{{"gone.sv", "one", "x"}}, "gone.sv: no such file"},
		{[]string{"b.sv", "more/b.sv"}, []Mutant{{"b.sv", "other", "x"}, {"more/b.sv", "another", "y"}}, "mutants of b.sv and more/b.sv: both copies would be"},
	} {
		_, err := Mutate(root, folder, tt.files, tt.mutants)
		require.ErrorContains(t, err, tt.want)
	}
}
