// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/layout"
)

// checkReads checks the order of reads: a request crosses first, and the data
// after it.
func checkReads(t *testing.T, c Config, r *report.Report) {
	t.Helper()
	require.Len(t, r.Results.RDMARead, len(c.Sizes))
	require.Len(t, r.Results.ReliableWrite, len(c.Sizes))
	for i, read := range r.Results.RDMARead {
		write, plain := r.Results.ReliableWrite[i], r.Results.RDMAWrite[i]
		for _, row := range []report.PingPongResult{read, write} {
			require.Equal(t, c.Sizes[i], row.Size)
			require.True(t, row.Verified, row.Fault)
			require.Equal(t, row.HalfRTTPs, row.HardwarePs+row.HostPs)
			require.Equal(t, report.BytesPerSecond(row.Size, row.HalfRTTPs), row.BytesPerSec)
		}
		require.GreaterOrEqual(t, write.HalfRTTPs, plain.HalfRTTPs, "%d bytes: reliable delivery is not faster", read.Size)
		// The request is a separate frame: two MACs, two buses and the wire,
		// but no second post.
		require.Greater(t, read.HalfRTTPs, write.HalfRTTPs+3_000_000, "%d bytes", read.Size)
		require.Less(t, read.HalfRTTPs, 2*write.HalfRTTPs+10_000_000, "%d bytes", read.Size)
	}
}

// A read that brings nothing from the peer is detected: the reader's buffer
// holds no byte of an earlier read.
func TestReads(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := DefaultConfig()
	c.Sizes, c.Iterations, c.Warmup, c.Seed = []int{4, 1473}, 2, 1, benchtest.Seed(t)
	m, err := measureReads(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, m.rows, 2)
	for _, row := range m.rows {
		require.True(t, row.Verified, row.Fault)
	}
	again, err := measureReads(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, m.rows, again.rows)
	require.Equal(t, m.Digest, again.Digest)
}

func TestReadTimes(t *testing.T) {
	at := func(ps int64, e layout.TraceEvent, node, vi int) rig.TraceEvent {
		return rig.TraceEvent{TimePs: ps, Node: node, VI: vi, Event: e, Sequence: layout.DoorbellSend}
	}
	events := []rig.TraceEvent{
		at(1, layout.TraceEventCompletionWritten, 0, 3), at(2, layout.TraceEventHostDoorbell, 1, 3), at(3, layout.TraceEventHostDoorbell, 0, 3),
		at(4, layout.TraceEventCompletionWritten, 1, 3), at(5, layout.TraceEventCompletionWritten, 0, 4), at(6, layout.TraceEventCompletionWritten, 0, 3),
		at(7, layout.TraceEventHostDoorbell, 0, 3),
	}
	start, end, next, err := readTimes(events, 0, 0, 3)
	require.NoError(t, err)
	require.Equal(t, []int64{3, 6, 6}, []int64{start, end, int64(next)})
	_, _, _, err = readTimes(events, next, 0, 3)
	require.ErrorIs(t, err, rig.ErrTrace)
	require.ErrorContains(t, err, "no status of the read that node 0, VI 3, posted at 7 ps")
	_, _, _, err = readTimes(events, 0, 0, 9)
	require.ErrorContains(t, err, "no doorbell")
}

func TestReadSentence(t *testing.T) {
	rows := func(short, long int64) []report.PingPongResult {
		return []report.PingPongResult{{Size: 4, HalfRTTPs: short}, {Size: 65536, HalfRTTPs: long}}
	}
	require.Equal(t, "A read of 4 bytes takes 20.000 us, a write 10.000 us: 2.00 times, 10.000 us more. At 64 KiB a read takes 600.000 us, a write 500.000 us: 1.20 times, 100.000 us more.",
		report.ReadSentence(rows(20_000_000, 600_000_000), rows(10_000_000, 500_000_000)))
	require.Empty(t, report.ReadSentence(rows(1, 2), nil))
	require.Empty(t, report.ReadSentence(rows(1, 2)[:1], rows(1, 2)))
}
