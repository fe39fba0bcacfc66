// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/params"
)

// Advertising saves a send and a receive of the target.
func TestFirstWrite(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := DefaultConfig()
	c.Iterations, c.Warmup = 2, 1
	var progress []rig.Progress
	c.Progress = func(p rig.Progress) { progress = append(progress, p) }
	rows, _, err := firstWrites(t.Context(), c)
	require.NoError(t, err)
	again, _, err := firstWrites(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, rows, again)
	require.Len(t, rows, len(firstWriteSizes))
	for i, r := range rows {
		t.Logf("%+v", r)
		require.Equal(t, firstWriteSizes[i], r.Size)
		require.Empty(t, r.Fault)
		require.Greater(t, r.ConnectPs, int64(4*params.HostInterruptTime), "both agents are interrupted on the way")
		require.Greater(t, r.OffersPs, r.ConnectPs+int64(params.HostPostTime+8*params.WireBitTime*r.Size))
		// The post, RecvWait and the transfer of a short send add to it.
		require.Greater(t, r.MessagePs, r.OffersPs+int64(params.HostPostTime+params.HostReceiveWaitTime))
	}
	require.Equal(t, "first write, 4 bytes", progress[0].What)
}

func TestFirstWriteFold(t *testing.T) {
	x := &firstWriting{config: Config{Iterations: 2}, faults: map[int]string{4: "byte 7"}, rounds: []firstRound{
		{4, true, false, 0, 900}, {4, true, true, 1000, 1010}, {4, true, true, 2000, 2030},
		{4, false, false, 3000, 3001}, {4, false, true, 4000, 4001}, {4, false, true, 5000, 5001},
		{4096, true, true, 6000, 6100}, {4096, true, true, 7000, 7100}, {4096, false, true, 8000, 8100}, {4096, false, true, 9000, 9100},
	}}
	for i, r := range x.rounds {
		x.visible = append(x.visible, r.asked+50)
		if !r.offered {
			x.visible[i] += 20 + 10*r.asked/1000%20 // 4 bytes: 70, 80
		}
	}
	rows := x.fold()
	require.Equal(t, report.FirstWriteResult{Size: 4, ConnectPs: 20, OffersPs: 50, MessagePs: (70 + 80) / 2, Fault: "byte 7"}, rows[0])
	require.Equal(t, report.FirstWriteResult{Size: 4096, ConnectPs: 100, OffersPs: 50, MessagePs: (70 + 80) / 2}, rows[1])
	r := &report.Report{Results: report.Results{FirstWrite: rows}}
	require.Equal(t, []string{"4 bytes, first write: byte 7"}, r.Faults())
}
