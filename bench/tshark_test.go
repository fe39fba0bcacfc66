// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
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

const wrongChecksum = "ip.checksum.status == 0 || tcp.checksum.status == 0"

// wellFormed demands that tshark takes every frame of a capture for what it is.
func wellFormed(t *testing.T, capture string) {
	t.Helper()
	require.NotEmpty(t, inTshark(t, capture, "eth", "frame.number"), "no frames in the capture")
	require.Empty(t, inTshark(t, capture, "_ws.malformed || _ws.short || _ws.unreassembled"), "malformed frames")
	require.Empty(t, inTshark(t, capture, wrongChecksum), "wrong checksums")
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

// A capture of each protocol is one of that protocol: the card and M-VIA send the
// same frames of VIA, TCP/IP a conversation with a beginning and an end in
// which nothing is lost or sent twice.
func TestTsharkReadsEachProtocol(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the card")
	}
	c := DefaultCompareConfig(PatternPingPong)
	c.Sizes, c.Warmup, c.Messages = []int{4, 16384}, 1, 2
	c.Capture = filepath.Join(t.TempDir(), "run.pcapng")
	_, err := Compare(t.Context(), c)
	require.NoError(t, err)
	for _, protocol := range paperProtocols() {
		capture := c.captureOf(protocol)
		wellFormed(t, capture)
		via := inTshark(t, capture, "eth.type == 0x88b5", "frame.len")
		segments := inTshark(t, capture, "tcp", "frame.len")
		if protocol != "tcp" {
			require.NotEmpty(t, via, protocol)
			require.Empty(t, segments, protocol)
			require.Contains(t, via, "1514", protocol)
			continue
		}
		require.Empty(t, via)
		require.Contains(t, segments, "1514")
		require.NotEmpty(t, inTshark(t, capture, "arp"), "who has the address")
		require.Len(t, inTshark(t, capture, "tcp.flags.syn == 1"), 2, "SYN each way")
		require.Len(t, inTshark(t, capture, "tcp.flags.fin == 1"), 2, "FIN each way")
		require.Empty(t, inTshark(t, capture, "tcp.flags.reset == 1"))
		require.Empty(t, inTshark(t, capture, "tcp.analysis.flags && !tcp.analysis.window_update"), "nothing to remark")
		require.Equal(t, []string{"1"}, unique(inTshark(t, capture, "tcp", "tcp.checksum.status")), "checksums were looked at and good")

		// And with one bit of one segment wrong it does find something.
		frames, _ := readCapture(t, capture)
		var wrong []frame
		flipped := false
		for _, f := range frames {
			b := bytes.Clone(f.bytes)
			if len(b) == layout.MaxFrame && !flipped {
				b[1000] ^= 4
				flipped = true
			}
			wrong = append(wrong, frame{f.time.UnixNano() * 1000, f.node, 1 - f.node, b})
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "frames"), encodeFrames(wrong...), 0o600))
		require.NoError(t, writePcap(filepath.Join(dir, "wrong.pcapng"), filepath.Join(dir, "frames"), ""))
		require.Len(t, inTshark(t, filepath.Join(dir, "wrong.pcapng"), wrongChecksum), 1)
	}
}
