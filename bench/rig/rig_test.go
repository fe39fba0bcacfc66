// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

func TestRTLHash(t *testing.T) {
	_, err := RTLHash("")
	require.ErrorContains(t, err, "no checkout given")
	root := t.TempDir()
	_, err = RTLHash(root)
	require.ErrorContains(t, err, "hash the RTL")
	write := func(name, body string) {
		path := filepath.Join(root, "rtl", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(body), 0o644))
	}
	seen := map[string]string{}
	step := func(what string) {
		h, err := RTLHash(root)
		require.NoError(t, err)
		require.Len(t, h, 16)
		require.NotContains(t, seen, h, "%s gives the hash of %s", what, seen[h])
		seen[h] = what
	}
	write("readme.txt", "no RTL")
	_, err = RTLHash(root)
	require.ErrorContains(t, err, "no .sv files")
	write("a.sv", "one")
	step("one file")
	write("gen/b.sv", "")
	step("an empty file more")
	write("a.sv", "two")
	step("other contents")
	write("a.sv", "tw")
	write("gen/b.sv", "o")
	step("a byte moved")
	h, err := CollectHashes(root, params.Base)
	require.NoError(t, err)
	require.Len(t, h.Layout, 16)
	require.Len(t, h.Params, 16)
	other, err := CollectHashes(root, "hvia-ge-66")
	require.NoError(t, err)
	require.Equal(t, h.Layout, other.Layout)
	require.NotEqual(t, h.Params, other.Params)
	_, err = CollectHashes(root, "none")
	require.ErrorContains(t, err, `no profile "none"`)
}

func TestStopped(t *testing.T) {
	fault := errors.New("fault")
	ctx := t.Context()
	require.Equal(t, fault, Stopped(ctx, "x", fault))
	require.NoError(t, Stopped(ctx, "x", nil))
}
