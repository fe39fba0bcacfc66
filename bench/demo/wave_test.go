// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"hvia/bench/rig"
	"hvia/sim"
)

// Waves that do not fit on the disk are an error of this machine, and not a
// success.
func TestWavesOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")
	if errors.Is(err, unix.EPERM) {
		t.Skip("only root can mount a small file system")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	c := DefaultConfig()
	c.Size, c.WaveFile = 4, filepath.Join(dir, "y.fst")
	for _, fill := range []int{64 << 10, 40 << 10} { // the rest fits no wave, or a part
		require.NoError(t, os.WriteFile(filepath.Join(dir, "fill"), make([]byte, fill), 0o644))
		r, err := Run(t.Context(), c)
		require.ErrorIs(t, err, sim.ErrOutput)
		require.ErrorContains(t, err, "wave file "+filepath.Join(dir, "y.node"))
		require.ErrorContains(t, err, "cannot be written completely (is the disk full?)")
		require.False(t, r.Verified)
		for n := range 2 {
			require.NoError(t, os.Remove(rig.WaveOf(c.WaveFile, n)))
		}
	}
	c.WaveFile = filepath.Join(t.TempDir(), "y.fst")
	_, err = Run(t.Context(), c)
	require.NoError(t, err)
}
