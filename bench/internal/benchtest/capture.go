// SPDX-License-Identifier: Apache-2.0

package benchtest

import (
	"encoding/binary"
	"io"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/layout"
)

// Captured is what a reader finds in a capture.
type Captured struct {
	Time  time.Time
	Node  int
	Bytes []byte
}

func ReadCapture(t *testing.T, path string) (list []Captured, r *pcapgo.NgReader) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	r, err = pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{ErrorOnMismatchingLinkType: true})
	require.NoError(t, err)
	for {
		b, ci, err := r.ReadPacketData()
		if err == io.EOF {
			return list, r
		}
		require.NoError(t, err)
		require.Equal(t, len(b), ci.Length)
		list = append(list, Captured{ci.Timestamp, ci.InterfaceIndex, b})
	}
}

// CheckFrames checks addresses, EtherTypes and order, and counts the VIA frames
// of each node.
func CheckFrames(t *testing.T, frames []Captured) (via [2]int) {
	t.Helper()
	connection := 0
	for i, f := range frames {
		h := layout.EthernetHeader(f.Bytes)
		require.GreaterOrEqual(t, len(f.Bytes), layout.MinFrame)
		require.LessOrEqual(t, len(f.Bytes), layout.MaxFrame)
		require.Equal(t, driver.NodeMAC(f.Node), layout.MAC(f.Bytes[layout.EthernetHeaderSourceOffset:]), "frame %d", i)
		require.Equal(t, driver.NodeMAC(1-f.Node), layout.MAC(f.Bytes[layout.EthernetHeaderDestinationOffset:]), "frame %d", i)
		switch h.EtherType() {
		case layout.EtherTypeVia:
			via[f.Node]++
		case layout.EtherTypeConnection:
			connection++
		default:
			t.Fatalf("frame %d has EtherType %#x", i, h.EtherType())
		}
		require.Equal(t, h.EtherType(), binary.BigEndian.Uint16(f.Bytes[12:]))
		require.False(t, i > 0 && f.Time.Before(frames[i-1].Time), "frame %d lies before the one before it", i)
	}
	require.Positive(t, connection)
	return via
}
