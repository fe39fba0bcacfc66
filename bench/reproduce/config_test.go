// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/rig"
	"hvia/costs"
)

func TestConfigs(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Profile = "hvia-xx" }, `no profile "hvia-xx"`},
		{func(c *Config) { c.Sizes = nil }, "no sizes"},
		{func(c *Config) { c.Sizes = []int{4, 0} }, "size 0: 1 to 65536"},
		{func(c *Config) { c.Sizes = []int{rig.MaxSize + 1} }, "size 65537"},
		{func(c *Config) { c.Sizes = []int{4, 8, 4} }, "size 4 is listed twice"},
		{func(c *Config) { c.Iterations = 0 }, "0 iterations"},
		{func(c *Config) { c.Warmup = -1 }, "-1 warm-up"},
		{func(c *Config) { c.Processes = 3 }, "3 processes"},
	}
	for _, tt := range tests {
		c := DefaultConfig()
		tt.change(&c)
		err := c.Validate()
		require.ErrorIs(t, err, costs.ErrConfig)
		require.ErrorContains(t, err, tt.want)
	}
}
