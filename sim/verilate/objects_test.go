// SPDX-License-Identifier: Apache-2.0

package verilate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Object files are used again only after a build during which no source changed.
func TestKeptObjects(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "objects")
	object := filepath.Join(folder, "main.o")
	clean, err := keptObjects(folder)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(object, []byte("of a clean build"), 0o644))
	clean()
	_, err = keptObjects(folder)
	require.NoError(t, err)
	require.FileExists(t, object)
	// That build never said that it was clean: killed, or a source changed.
	_, err = keptObjects(folder)
	require.NoError(t, err)
	require.NoFileExists(t, object)
}
