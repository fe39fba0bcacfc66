// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
	"hvia/params"
)

// The gain at 7 bytes is measured, and prints as the paper's 0.1.
func TestTenthGain(t *testing.T) {
	benchtest.TakesSeconds(t)
	r := report.New(params.Base, 1, report.Hashes{})
	c := DefaultConfig()
	c.Iterations, c.Warmup, c.Background = 2, 1, false
	require.True(t, c.measuresTenth())
	add, err := measureTenth(t.Context(), c)
	require.NoError(t, err)
	add(r)
	require.Len(t, r.Results.Gains, 1)
	require.Equal(t, report.TenthSize, r.Results.Gains[0].Size)
	require.InDelta(t, 0.1, r.Results.Gains[0].Gain, 0.005)
	c.Sizes = c.Sizes[1:]
	require.False(t, c.measuresTenth(), "T7 is not checked")
}
