// SPDX-License-Identifier: Apache-2.0

package bytepacker_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

const packer = "rtl/prim/hvia_byte_packer.sv"

var sizes = unit.Sizes{Short: 2_000, Normal: 25_000, Long: 2_000_000}

func TestPacker(t *testing.T) { unit.BothWidths(t, "byte_packer", sizes) }

func TestPackerMutants(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "byte_packer", "W=32"), 500, []unit.Bug{
		{"rotate", packer, "aligned} << {fill, 3'b000}", "aligned} << {fill + LaneW'(FAULT), 3'b000}"},
		{"lane_mask", packer, "~({Bytes{1'b1}} << out_end)", "~({Bytes{1'b1}} << (FAULT ? out_end + 1'b1 : out_end))"},
		{"flush", packer, "assign over    = sum > Full;", "assign over    = FAULT ? sum >= Full : sum > Full;"},
		{"stall", packer, "assign in_ready_o  = ~tail_q & (out_ready_i | ~emit);", "assign in_ready_o  = ~tail_q & (out_ready_i | ~emit | FAULT);"},
		{"first_lane", packer, "skip_q  <= full ? '0 : skip;", "skip_q  <= full || FAULT ? '0 : skip;"},
	})
}
