// SPDX-License-Identifier: Apache-2.0

package benchtest

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tshark applies a display filter to a capture and returns tshark's lines: the
// requested fields, or its summary.
func Tshark(t *testing.T, capture, filter string, fields ...string) []string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not there: tools/setup.sh --tests installs it")
	}
	// By default tshark does not verify checksums.
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

const WrongChecksum = "ip.checksum.status == 0 || tcp.checksum.status == 0"

// WellFormed requires that tshark finds frames, none malformed and none with a
// wrong checksum.
func WellFormed(t *testing.T, capture string) {
	t.Helper()
	require.NotEmpty(t, Tshark(t, capture, "eth", "frame.number"), "no frames in the capture")
	require.Empty(t, Tshark(t, capture, "_ws.malformed || _ws.short || _ws.unreassembled"), "malformed frames")
	require.Empty(t, Tshark(t, capture, WrongChecksum), "wrong checksums")
}

// Unique keeps the first of equal lines.
func Unique(lines []string) (kept []string) {
	seen := map[string]bool{}
	for _, l := range lines {
		if !seen[l] {
			kept = append(kept, l)
		}
		seen[l] = true
	}
	return kept
}
