// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/costs"
)

// Reads are compared where one message at a time goes there and back.
func TestCompareRead(t *testing.T) {
	c := DefaultConfig(PatternStream)
	c.Protocols = []string{"read"}
	require.ErrorIs(t, c.Validate(), costs.ErrConfig)
	require.ErrorContains(t, c.Validate(), "protocol read for stream")
	benchtest.TakesSeconds(t)
	c = DefaultConfig(PatternPingPong)
	c.Protocols, c.Sizes, c.Messages, c.Warmup = []string{"rdma-rd", "read"}, []int{4, 4096}, 3, 1
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, r.Faults())
	require.Len(t, r.Rows, 4)
	for i, n := range c.Sizes {
		write, read := r.Rows[i], r.Rows[len(c.Sizes)+i]
		require.Equal(t, n, read.Size)
		require.Equal(t, c.Messages, read.Messages, "a read is one message")
		require.Greater(t, read.Latency.MeanPs, write.Latency.MeanPs+3_000_000, "%d bytes", n)
		require.Positive(t, read.Hosts[0].WorkPs)
		require.Zero(t, read.Hosts[1].WorkPs, "whose memory is read does nothing")
		require.Greater(t, read.Wire[1].Bytes, int64(n))
		require.Less(t, read.Wire[0].Bytes, int64(1000), "a request and acknowledgements")
	}
	require.NotEmpty(t, r.Digests[1].Frames)
}
