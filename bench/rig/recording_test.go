// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// holdVariable names a directory in which this test program records until it is
// killed.
const holdVariable = "HVIA_TEST_HOLD_RECORDING"

func TestHoldRecording(t *testing.T) {
	if os.Getenv(holdVariable) == "" {
		t.Skip("a helper of TestKilledRecordingsAreRemoved")
	}
	t.Setenv("TMPDIR", os.Getenv(holdVariable))
	r, err := Record("", "")
	require.NoError(t, err)
	_, err = os.Stdout.WriteString(r.Dir + "\n")
	require.NoError(t, err)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// The next recording removes the directory of a killed process and leaves that
// of a running one.
func TestKilledRecordingsAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	foreign := filepath.Join(os.TempDir(), "hvia-other")
	require.NoError(t, os.Mkdir(foreign, 0o755))
	hold := func() (dir string, kill func()) {
		c := exec.Command("/proc/self/exe", "-test.run", "^TestHoldRecording$")
		c.Env = append(os.Environ(), holdVariable+"="+os.TempDir())
		in, err := c.StdinPipe()
		require.NoError(t, err)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		var b [4096]byte
		n, err := out.Read(b[:])
		require.NoError(t, err)
		return strings.TrimSpace(string(b[:n])), func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			_ = in.Close()
		}
	}
	killed, kill := hold()
	require.DirExists(t, killed)
	require.NoError(t, os.WriteFile(filepath.Join(killed, "trace"), []byte("x"), 0o644))
	kill()
	require.DirExists(t, killed)
	alive, end := hold()
	defer end()
	require.NoDirExists(t, killed)
	require.NoFileExists(t, killed+lockSuffix)

	r, err := Record("", "")
	require.NoError(t, err)
	require.DirExists(t, alive)
	require.DirExists(t, foreign)
	require.DirExists(t, r.Dir)
	r.Remove()
	require.NoDirExists(t, r.Dir)
	require.NoFileExists(t, r.Dir+lockSuffix)
}
