// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/costs"
	"hvia/params"
)

// A value outside the range of its parameter is rejected before anything
// starts.
func TestParametersHaveRanges(t *testing.T) {
	for _, profile := range params.Profiles {
		for _, p := range params.Table() {
			try := func(v int64) error {
				c := DefaultConfig()
				c.Profile, c.Params = profile.Name, map[string]int64{p.Name: v}
				return c.Validate()
			}
			if !p.Replaceable() {
				require.ErrorIs(t, try(p.Value), costs.ErrConfig)
				continue
			}
			require.NoError(t, try(p.Least), p.Name)
			require.NoError(t, try(p.Most), p.Name)
			for _, v := range []int64{p.Least - 1, p.Most + 1, math.MinInt64, 4611686018427387904, math.MaxInt64} {
				err := try(v)
				require.ErrorIs(t, err, costs.ErrConfig, "%s=%d", p.Name, v)
				require.ErrorContains(t, err, fmt.Sprintf("parameter %s cannot be %d: %d to %d is possible", p.Name, v, p.Least, p.Most))
			}
		}
	}
}
