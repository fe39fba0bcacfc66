// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inTshark returns the lines that tshark prints for a capture, with the frames
// that a display filter lets through: the fields asked for, or its summary.
func inTshark(t *testing.T, capture, filter string, fields ...string) []string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not there: tools/setup.sh --tests installs it")
	}
	// With checksums verified, which tshark leaves to the hardware by default.
	args := []string{"-n", "-r", capture, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y", filter}
	for i, f := range fields {
		if i == 0 {
			args = append(args, "-T", "fields")
		}
		args = append(args, "-e", f)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "tshark %v: %s", args, stderr.String())
	if stdout.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
}

// wellFormed demands that tshark takes every frame of a capture for what it is.
func wellFormed(t *testing.T, capture string) {
	t.Helper()
	require.NotEmpty(t, inTshark(t, capture, "eth", "frame.number"), "no frames in the capture")
	require.Empty(t, inTshark(t, capture, "_ws.malformed || _ws.short || _ws.unreassembled"), "malformed frames")
	require.Empty(t, inTshark(t, capture, "ip.checksum.status == 0 || tcp.checksum.status == 0"), "wrong checksums")
}

func TestTsharkReadsTheCardsFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the card")
	}
	c := DefaultReproduceConfig()
	c.Sizes, c.Warmup, c.Iterations = []int{4, 4096}, 1, 1
	c.PcapFile = filepath.Join(t.TempDir(), "card.pcapng")
	_, err := Reproduce(t.Context(), c)
	require.NoError(t, err)
	wellFormed(t, c.PcapFile)
	require.NotEmpty(t, inTshark(t, c.PcapFile, "eth.type == 0x88b5 && frame.len == 1514"))
	require.NotEmpty(t, inTshark(t, c.PcapFile, "eth.type == 0x88b6"), "the connection")
	require.Equal(t, []string{"via0", "via1"}, unique(inTshark(t, c.PcapFile, "eth", "frame.interface_name")))
}

// unique keeps the first of equal lines.
func unique(lines []string) (kept []string) {
	seen := map[string]bool{}
	for _, l := range lines {
		if !seen[l] {
			kept = append(kept, l)
		}
		seen[l] = true
	}
	return kept
}
