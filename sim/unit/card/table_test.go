// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"hvia/layout"
	"hvia/params"
	"hvia/sim/unit/internal/unit"
)

// slowSdram is the clock that strap SlowSdram requires.
var slowSdram = map[string]int64{"SdramClockPeriod": params.SdramSlowClockPeriod}

// The straps of the translation table change only times.
func TestTableStraps(t *testing.T) {
	takesSeconds(t)
	for _, c := range []struct {
		name string
		config
	}{
		{"no overlap", config{straps: 1 << layout.StrapNoAttOverlap}},
		{"slow SDRAM", config{straps: 1 << layout.StrapSlowSdram, params: slowSdram}},
		{"host memory", config{straps: 1 << layout.StrapAttInHostMemory}},
		{"all three", config{straps: 1<<layout.StrapNoAttOverlap | 1<<layout.StrapSlowSdram | 1<<layout.StrapAttInHostMemory, params: slowSdram}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustPlay(t, c.config, func(r *rig) {
				r.both(func(m *machine) {
					if got := m.read(layout.RegisterStrapOffset); got != c.straps {
						m.fail("the straps read %#x, want %#x", got, c.straps)
					}
				})
				conversation(unit.Sizes{Short: 1, Normal: 6, Long: 1000}.Pick())(r)
			})
		})
	}
}
