// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
)

func TestDemoText(t *testing.T) {
	r := NewReport(DefaultConfig(), report.Hashes{})
	r.Verified, r.Steps = true, []Step{
		{TimePs: 0, Node: 0, Where: "program", What: "rings the doorbell"},
		{TimePs: 390_000, Node: 0, Where: "doorbell", What: "commits VI 1"},
	}
	var b strings.Builder
	require.NoError(t, r.WriteText(&b))
	require.Equal(t, `One RDMA write of 64 bytes, simulated time (profile hvia-ge, seed 1)

          us        +us  node  where              what
       0.000      0.000  0     program            rings the doorbell
       0.390      0.390  0     doorbell           commits VI 1

verified: all 64 bytes are in place and none beside them changed
`, b.String())
	r.Verified, r.Fault = false, "byte 3"
	b.Reset()
	require.NoError(t, r.WriteText(&b))
	require.Contains(t, b.String(), "FAIL: the receiver's memory is not what was sent: byte 3")
}
