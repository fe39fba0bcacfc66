// SPDX-License-Identifier: Apache-2.0

package sdram_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	controller = "rtl/att/hvia_sdram_controller.sv"
	numbers    = "rtl/gen/hvia_params_pkg.sv"
)

var sizes = unit.Sizes{Short: 5_000, Normal: 200_000, Long: 5_000_000}

// Random requests with pauses, stalls, hints, a reset and jumps over idle time.
// Checks every word, every timing rule of the device, and refresh, at the
// card's SDRAM clock and at the slow one.
func TestController(t *testing.T) {
	f := unit.MustPass(t, unit.Testbench(t, "sdram_controller"), sizes)
	for _, clock := range []string{"", "slow_"} {
		require.NotZero(t, f[clock+"reads_of_open_row"], "%s: no read of an open row at full speed", clock)
		require.NotZero(t, f[clock+"reads_of_closed_bank"], "%s: no read of a closed bank at full speed", clock)
		require.NotZero(t, f[clock+"reads_behind_other_row"], "%s: no read behind another row at full speed", clock)
		require.EqualValues(t, 8, f[clock+"fastest_read_of_8"], "%s: a burst of 8 from an open row takes a command per clock", clock)
		require.NotZero(t, f[clock+"jumps"], "%s: time was never skipped", clock)
	}
}

func TestControllerMutants(t *testing.T) {
	unit.MustCatch(t, unit.Testbench(t, "sdram_controller"), 20_000, map[string]verilate.Mutant{
		"rcd":               {File: numbers, Old: "SdramRcdClocks = 2;", New: "SdramRcdClocks = 1;"},
		"ras":               {File: numbers, Old: "SdramRasClocks = 5;", New: "SdramRasClocks = 4;"},
		"write_pre":         {File: numbers, Old: "SdramWrClocks = 2;", New: "SdramWrClocks = 1;"},
		"slow_refresh":      {File: numbers, Old: "SdramRefreshClocks = 1562;", New: "SdramRefreshClocks = 1600;"},
		"at_33_mhz_rc":      {File: numbers, Old: "SdramSlowRcClocks = 3;", New: "SdramSlowRcClocks = 2;"},
		"at_33_mhz_refresh": {File: controller, Old: "refresh_clocks  = slow_i ?", New: "refresh_clocks  = 1'b0 ?"},
		"at_33_mhz_power":   {File: numbers, Old: "SdramSlowPowerUpClocks = 6667;", New: "SdramSlowPowerUpClocks = 6660;"},
		"turn_around":       {File: controller, Old: "wvalid_i && (rd_valid_q == '0)", New: "wvalid_i && !rd_valid_q[0]"},
		"wrong_row":         {File: controller, Old: "row_hit   = bank_open && (open_row == row)", New: "row_hit   = bank_open && (open_row[10:0] == row[10:0])"},
		"early_quiet":       {File: controller, Old: "(rd_valid_q == '0) && (rd_last_q == '0) && !rvalid_q && cke_q", New: "(rd_last_q == '0) && cke_q"},
		"hole":              {File: controller, Old: "assign quiet_o = waiting && !due &&", New: "assign quiet_o = waiting &&"},
	})
}
