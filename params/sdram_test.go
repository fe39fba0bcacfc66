// SPDX-License-Identifier: Apache-2.0

package params_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

// The controller's clock counts are the shortest that cover the device's times
// (for refresh: the longest), at the clock of each profile and at the slow one.
func TestSdramClocksCoverTimes(t *testing.T) {
	for _, profile := range params.Profiles {
		value := func(name string) int64 {
			v, err := params.Lookup(profile.Name, name)
			require.NoError(t, err)
			return v
		}
		for prefix, period := range map[string]int64{"Sdram": value("SdramClockPeriod"), "SdramSlow": value("SdramSlowClockPeriod")} {
			for _, name := range []string{"Rcd", "Rp", "Ras", "Rc", "PowerUp"} {
				clocks, time := value(prefix+name+"Clocks"), value("Sdram"+name+"Time")
				require.GreaterOrEqual(t, clocks*period, time, "%s: %s%s", profile.Name, prefix, name)
				require.Less(t, (clocks-1)*period, time, "%s: %s%s", profile.Name, prefix, name)
			}
			refresh := value(prefix + "RefreshClocks")
			require.LessOrEqual(t, refresh*period, value("SdramRefreshTime"), "%s: %s", profile.Name, prefix)
			require.Greater(t, (refresh+1)*period, value("SdramRefreshTime"), "%s: %s", profile.Name, prefix)
			// tRRD has no parameter of clocks: the controller's one timer for
			// all banks spaces ACTIVEs by tRC. This check (tRCD clocks cover
			// tRRD) is stricter than required.
			require.GreaterOrEqual(t, value(prefix+"RcdClocks")*period, value("SdramRrdTime"), "%s: %s", profile.Name, prefix)
			require.Less(t, value("SdramClockPhase"), period, "%s: %s", profile.Name, prefix)
		}
	}
}
