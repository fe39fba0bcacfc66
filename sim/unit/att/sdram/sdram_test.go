// SPDX-License-Identifier: Apache-2.0

package sdram_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/unit/internal/unit"
)

const controller = "rtl/att/hvia_sdram_controller.sv"

var sizes = unit.Sizes{Short: 5_000, Normal: 80_000, Long: 5_000_000}

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
	unit.MustCatchEach(t, unit.Testbench(t, "sdram_controller"), 20_000, []unit.Bug{
		{"rcd", controller, "- hvia_params_pkg::SdramRcdClocks)", "- hvia_params_pkg::SdramRcdClocks + int'(FAULT))"},
		{"ras", controller, "- hvia_params_pkg::SdramRasClocks)", "- hvia_params_pkg::SdramRasClocks + int'(FAULT))"},
		{"write_pre", controller, "localparam logic [2:0] WriteReload = 3'(hvia_params_pkg::SdramWrClocks - 1);",
			"logic [2:0] WriteReload;\n  assign WriteReload = 3'(hvia_params_pkg::SdramWrClocks - 1 - int'(FAULT));"},
		{"slow_refresh", controller, "48'(hvia_params_pkg::SdramRefreshClocks)", "48'(FAULT ? 1600 : hvia_params_pkg::SdramRefreshClocks)"},
		{"at_33_mhz_rc", controller, "localparam int unsigned SlowRc = hvia_params_pkg::SdramSlowRcClocks;",
			"int unsigned SlowRc;\n  assign SlowRc = hvia_params_pkg::SdramSlowRcClocks - 32'(FAULT);"},
		{"at_33_mhz_refresh", controller, "refresh_clocks  = slow_i ?", "refresh_clocks  = slow_i && !FAULT ?"},
		{"at_33_mhz_power", controller, "48'(hvia_params_pkg::SdramSlowPowerUpClocks)", "48'(hvia_params_pkg::SdramSlowPowerUpClocks - (FAULT ? 7 : 0))"},
		{"turn_around", controller, "wvalid_i && (rd_valid_q == '0)", "wvalid_i && (FAULT ? !rd_valid_q[0] : rd_valid_q == '0)"},
		{"wrong_row", controller, "row_hit   = bank_open && (open_row == row)", "row_hit   = bank_open && (FAULT ? open_row[10:0] == row[10:0] : open_row == row)"},
		{"early_quiet", controller, "(rd_valid_q == '0) && (rd_last_q == '0) && !rvalid_q && cke_q", "(FAULT || (rd_valid_q == '0) && !rvalid_q) && (rd_last_q == '0) && cke_q"},
		{"hole", controller, "assign quiet_o = waiting && !due &&", "assign quiet_o = waiting && (!due || FAULT) &&"},
	})
}
