// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/layout"
)

// The capture of each protocol shows that protocol: the card and M-VIA send the
// same frames of VIA, TCP/IP a conversation with a start and an end in which
// nothing is lost or sent twice.
func TestTsharkReadsEachProtocol(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the card")
	}
	c := DefaultConfig(PatternPingPong)
	c.Sizes, c.Warmup, c.Messages = []int{4, 16384}, 1, 2
	c.Capture = filepath.Join(t.TempDir(), "run.pcapng")
	_, err := Run(t.Context(), c)
	require.NoError(t, err)
	for _, protocol := range paperProtocols() {
		capture := c.captureOf(protocol)
		benchtest.WellFormed(t, capture)
		via := benchtest.Tshark(t, capture, "eth.type == 0x88b5", "frame.len")
		segments := benchtest.Tshark(t, capture, "tcp", "frame.len")
		if protocol != "tcp" {
			require.NotEmpty(t, via, protocol)
			require.Empty(t, segments, protocol)
			require.Contains(t, via, "1514", protocol)
			continue
		}
		require.Empty(t, via)
		require.Contains(t, segments, "1514")
		require.NotEmpty(t, benchtest.Tshark(t, capture, "arp"), "who has the address")
		require.Len(t, benchtest.Tshark(t, capture, "tcp.flags.syn == 1"), 2, "SYN each way")
		require.Len(t, benchtest.Tshark(t, capture, "tcp.flags.fin == 1"), 2, "FIN each way")
		require.Empty(t, benchtest.Tshark(t, capture, "tcp.flags.reset == 1"))
		require.Empty(t, benchtest.Tshark(t, capture, "tcp.analysis.flags && !tcp.analysis.window_update"), "nothing to remark")
		require.Equal(t, []string{"1"}, benchtest.Unique(benchtest.Tshark(t, capture, "tcp", "tcp.checksum.status")), "checksums were looked at and good")

		// The filter does find one wrong bit of one segment.
		frames, _ := benchtest.ReadCapture(t, capture)
		wrong := filepath.Join(t.TempDir(), "wrong.pcapng")
		file, err := os.Create(wrong)
		require.NoError(t, err)
		w, err := pcapgo.NewNgWriter(file, layers.LinkTypeEthernet)
		require.NoError(t, err)
		flipped := false
		for _, f := range frames {
			if len(f.Bytes) == layout.MaxFrame && !flipped {
				f.Bytes[1000] ^= 4
				flipped = true
			}
			require.NoError(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: f.Time, CaptureLength: len(f.Bytes), Length: len(f.Bytes)}, f.Bytes))
		}
		require.NoError(t, w.Flush())
		require.NoError(t, file.Close())
		require.Len(t, benchtest.Tshark(t, wrong, benchtest.WrongChecksum), 1)
	}
}
