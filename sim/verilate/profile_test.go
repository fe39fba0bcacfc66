// SPDX-License-Identifier: Apache-2.0

package verilate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
	"hvia/params/profile"
	"hvia/sim/verilate"
)

func TestForProfile(t *testing.T) {
	spec := verilate.Spec{
		Name: "program", Top: "top", RTL: []string{"rtl/gen/hvia_pkg.sv", profile.SVFile, "rtl/host/hvia_host_arbiter.sv"},
		Cpp: []string{"sim/model/pci_bus.cc"}, Headers: []string{"sim/gen/*.h"}, Quoted: []string{"x"},
	}
	for _, name := range []string{"", params.Base} {
		same, err := spec.ForProfile(name)
		require.NoError(t, err)
		require.Equal(t, spec, same)
	}

	other, err := spec.ForProfile("hvia-ge-66")
	require.NoError(t, err)
	require.Equal(t, "program-hvia-ge-66", other.Name)
	require.Equal(t, "rtl/gen/hvia_pkg.sv", other.RTL[0])
	require.Equal(t, "rtl/host/hvia_host_arbiter.sv", other.RTL[2])
	root, err := verilate.Root()
	require.NoError(t, err)
	files, err := profile.Files("hvia-ge-66")
	require.NoError(t, err)
	for _, path := range []string{other.RTL[1], other.Headers[1]} {
		got, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		require.Contains(t, []string{string(files[profile.SVFile]), string(files[profile.CppFile])}, string(got))
		before, err := os.Stat(filepath.Join(root, path))
		require.NoError(t, err)
		again, err := spec.ForProfile("hvia-ge-66")
		require.NoError(t, err)
		require.Equal(t, other, again)
		after, err := os.Stat(filepath.Join(root, path))
		require.NoError(t, err)
		require.Equal(t, before.ModTime(), after.ModTime(), "%s was written again", path)
	}
	// ForProfile does not change its input, and the two are different builds.
	require.Equal(t, profile.SVFile, spec.RTL[1])
	require.Len(t, spec.Quoted, 1)
	base, _, err := verilate.Cached(spec)
	require.NoError(t, err)
	fast, _, err := verilate.Cached(other)
	require.NoError(t, err)
	require.NotEqual(t, filepath.Dir(base), filepath.Dir(fast))

	_, err = spec.ForProfile("hvia-xl")
	require.ErrorContains(t, err, `verilate: program: params: no profile "hvia-xl"`)
}
