// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hvia/host"
)

// Returns tshark's complaints about the frames of a trace.
func (f *world) judge(t *testing.T) []string {
	t.Helper()
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not there: tools/setup.sh --tests installs it")
	}
	path := filepath.Join(t.TempDir(), "trace.pcap")
	file, err := os.Create(path)
	require.NoError(t, err)
	w := pcapgo.NewWriterNanos(file)
	require.NoError(t, w.WriteFileHeader(65535, layers.LinkTypeEthernet))
	for _, r := range f.trace {
		if r.lost {
			continue
		}
		at := Epoch.Add(time.Duration(r.at / host.Nanosecond))
		require.NoError(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(r.frame), Length: len(r.frame)}, r.frame))
	}
	require.NoError(t, file.Close())
	out, err := exec.CommandContext(t.Context(), tshark, "-n", "-r", path, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
		"-Y", "tcp.analysis.flags && !tcp.analysis.window_update || _ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0").Output()
	require.NoError(t, err)
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// tshark follows a conversation without complaints, and reports what a lossy
// link does.
func TestTsharkFollows(t *testing.T) {
	for _, n := range []int{4, 256 << 10} {
		f, err := play(t, gigabit(), transfer(t, pattern(1, n), pattern(2, n))...)
		require.NoError(t, err)
		assert.Empty(t, f.judge(t), "%d bytes", n)
	}
	r := gigabit()
	r.lose = func(_, n int, _ []byte) bool { return n == 30 }
	f, err := play(t, r, transfer(t, pattern(1, 64<<10), nil)...)
	require.NoError(t, err)
	assert.Contains(t, strings.Join(f.judge(t), "\n"), "Retransmission")
}
