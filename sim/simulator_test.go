// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"hvia/sim/verilate"
)

// A socket's path that is too long is reported before a build or start.
func TestLongTemporaryDirectory(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(long, 0o755))
	t.Setenv("TMPDIR", long)
	_, err := Start(t.Context(), Config{Program: "/nowhere"})
	require.ErrorIs(t, err, unix.ENAMETOOLONG)
	require.ErrorContains(t, err, "at most 107 are possible: set TMPDIR to a directory with a shorter path")
	left, err := os.ReadDir(long)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A program older than its checkout fails before a build of minutes, not after
// it.
func TestStaleProgram(t *testing.T) {
	root, err := verilate.Root()
	require.NoError(t, err)
	require.NoError(t, checkLayout(root), "this test is of the present sources")

	other := t.TempDir()
	header := filepath.Join(other, "sim", "gen", "hvia_layout.h")
	require.ErrorIs(t, checkLayout(other), os.ErrNotExist)
	require.NoError(t, os.MkdirAll(filepath.Dir(header), 0o755))
	require.NoError(t, os.WriteFile(header, []byte("constexpr uint64_t kLayoutHash = 0x0123456789abcdefull;\n"), 0o644))
	err = checkLayout(other)
	require.ErrorIs(t, err, ErrStale)
	require.ErrorContains(t, err, "layout hash 0123456789abcdef, of this program ")
	// The hash is written without leading zeros.
	require.NoError(t, os.WriteFile(header, []byte("constexpr uint64_t kLayoutHash = 0xabcull;\n"), 0o644))
	require.ErrorIs(t, checkLayout(other), ErrStale)
	require.NoError(t, os.WriteFile(header, []byte("#pragma once\n"), 0o644))
	require.ErrorContains(t, checkLayout(other), "make generate")
}

// Quick stages do not fill a log.
func TestStagesOfABuild(t *testing.T) {
	var out strings.Builder
	stage := printStages(&out)
	for _, what := range []string{"first", "second", "third"} {
		stage(what)
	}
	require.Equal(t, "build: the simulator, once for these sources\nbuild:   0 s: first\n", out.String())
}

// A build in another folder is the same build, and the checkout's cache does
// not matter to it.
func TestCacheOfABuild(t *testing.T) {
	usual, _, err := Build{}.Built()
	require.NoError(t, err)
	dir := t.TempDir()
	path, built, err := Build{Cache: dir}.Built()
	require.NoError(t, err)
	require.False(t, built)
	require.Equal(t, dir, filepath.Dir(filepath.Dir(path)))
	require.Equal(t, filepath.Base(filepath.Dir(usual)), filepath.Base(filepath.Dir(path)))
}
