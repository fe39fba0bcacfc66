// SPDX-License-Identifier: Apache-2.0

package bytepacker_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const packer = "rtl/prim/hvia_byte_packer.sv"

var sizes = unit.Sizes{Short: 2_000, Normal: 60_000, Long: 2_000_000}

func TestPacker(t *testing.T) { unit.BothWidths(t, "byte_packer", sizes) }

func TestPackerMutants(t *testing.T) {
	unit.MustCatch(t, unit.Testbench(t, "byte_packer", "W=32"), 500, map[string]verilate.Mutant{
		"rotate":     {File: packer, Old: "aligned} << {fill, 3'b000}", New: "aligned} << {fill + 1'b1, 3'b000}"},
		"lane_mask":  {File: packer, Old: "~({Bytes{1'b1}} << out_end)", New: "~({Bytes{1'b1}} << (out_end + 1'b1))"},
		"flush":      {File: packer, Old: "assign over    = sum > Full;", New: "assign over    = sum >= Full;"},
		"stall":      {File: packer, Old: "assign in_ready_o  = ~tail_q & (out_ready_i | ~emit);", New: "assign in_ready_o  = ~tail_q;"},
		"first_lane": {File: packer, Old: "skip_q  <= full ? '0 : skip;", New: "skip_q  <= '0;"},
	})
}
