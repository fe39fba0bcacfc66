// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A log and its predecessor are at most limit bytes each, and have the last
// lines.
func TestLogIsRotated(t *testing.T) {
	const limit = 1000
	path := filepath.Join(t.TempDir(), "lab.log")
	require.NoError(t, os.WriteFile(path, []byte("of an earlier fabric\n"), 0o600))
	l, err := openLog(path, limit)
	require.NoError(t, err)
	for i := range 1000 {
		_, err := fmt.Fprintf(l, "line %d\n", i)
		require.NoError(t, err)
	}
	_, err = l.Write([]byte(strings.Repeat("x", 2*limit) + "\n")) // not split, however long
	require.NoError(t, err)
	_, err = fmt.Fprintln(l, "last")
	require.NoError(t, err)
	l.close()
	log, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "last\n", string(log))
	old, err := os.ReadFile(path + oldLog)
	require.NoError(t, err)
	require.Len(t, old, 2*limit+1)

	// It continues an existing log.
	l, err = openLog(path, limit)
	require.NoError(t, err)
	for i := range 1000 {
		_, err := fmt.Fprintf(l, "line %d\n", i)
		require.NoError(t, err)
	}
	l.close()
	var both string
	for _, name := range []string{path + oldLog, path} {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), limit)
		both += string(b)
	}
	require.True(t, strings.HasSuffix(both, "line 997\nline 998\nline 999\n"))
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 2)
}
