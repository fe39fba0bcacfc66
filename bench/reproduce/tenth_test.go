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
	require.NoError(t, measureTenth(t.Context(), r, c))
	require.Len(t, r.Results.Gains, 1)
	require.Equal(t, report.TenthSize, r.Results.Gains[0].Size)
	require.InDelta(t, 0.1, r.Results.Gains[0].Gain, 0.005)
	r.Results.Gains = nil
	c.Sizes = c.Sizes[1:]
	require.NoError(t, measureTenth(t.Context(), r, c))
	require.Empty(t, r.Results.Gains, "T7 is not checked")
}
