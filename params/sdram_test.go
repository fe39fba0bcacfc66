// SPDX-License-Identifier: Apache-2.0

package params_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/params"
)

// The controller's clock counts are the shortest that cover the device's times
// (for refresh: the longest).
func TestSdramClocksCoverTimes(t *testing.T) {
	for _, profile := range params.Profiles {
		value := func(name string) int64 {
			v, err := params.Lookup(profile.Name, name)
			require.NoError(t, err)
			return v
		}
		period := value("SdramClockPeriod")
		for clocks, time := range map[string]string{
			"SdramRcdClocks": "SdramRcdTime", "SdramRpClocks": "SdramRpTime", "SdramRasClocks": "SdramRasTime",
			"SdramRcClocks": "SdramRcTime", "SdramPowerUpClocks": "SdramPowerUpTime",
		} {
			require.Equal(t, (value(time)+period-1)/period, value(clocks), "%s: %s for %s", profile.Name, clocks, time)
		}
		require.Equal(t, value("SdramRefreshTime")/period, value("SdramRefreshClocks"), profile.Name)
		// The controller's one timer for all banks covers tRRD with tRCD: between two
		// ACTIVE commands lies at least one column command, or a whole tRC.
		require.GreaterOrEqual(t, value("SdramRcdClocks")*period, value("SdramRrdTime"), profile.Name)
	}
}
