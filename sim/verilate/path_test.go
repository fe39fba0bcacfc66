// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A path with a space is rejected before make, which would fail with pages of
// text.
func TestPathWithASpace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module hvia\n"), 0o644))
	t.Chdir(dir)
	_, err := Build(t.Context(), Spec{Name: "nothing"})
	require.ErrorIs(t, err, ErrPath)
	require.ErrorContains(t, err, `a b" has the character " ": move the checkout`)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing was written")
}
