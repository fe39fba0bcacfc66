// SPDX-License-Identifier: Apache-2.0

package bytepacker_test

import (
	"strconv"
	"testing"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const packer = "rtl/prim/hvia_byte_packer.sv"

var sizes = unit.Sizes{Short: 2_000, Normal: 60_000, Long: 2_000_000}

func spec(width int) verilate.Spec {
	w := strconv.Itoa(width)
	return verilate.Spec{
		Name:    "packer_bench_" + w,
		Top:     "hvia_byte_packer",
		RTL:     []string{packer, "rtl/prim/checkers/hvia_byte_packer_checker.sv"},
		Cpp:     []string{"sim/unit/prim/byte_packer/cc/byte_packer_tb.cc"},
		Params:  map[string]string{"W": w},
		Defines: []string{"BENCH_W=" + w},
	}
}

func TestPacker(t *testing.T) {
	for _, width := range []int{32, 64} {
		t.Run(strconv.Itoa(width), func(t *testing.T) { unit.MustPass(t, spec(width), sizes) })
	}
}

func TestPackerMutants(t *testing.T) {
	for name, m := range map[string]verilate.Mutant{
		"rotate":     {File: packer, Old: "aligned} << {fill, 3'b000}", New: "aligned} << {fill + 1'b1, 3'b000}"},
		"lane_mask":  {File: packer, Old: "~({Bytes{1'b1}} << out_end)", New: "~({Bytes{1'b1}} << (out_end + 1'b1))"},
		"flush":      {File: packer, Old: "assign over    = sum > Full;", New: "assign over    = sum >= Full;"},
		"stall":      {File: packer, Old: "assign in_ready_o  = ~tail_q & (out_ready_i | ~emit);", New: "assign in_ready_o  = ~tail_q;"},
		"first_lane": {File: packer, Old: "skip_q  <= full ? '0 : skip;", New: "skip_q  <= '0;"},
	} {
		t.Run(name, func(t *testing.T) {
			unit.MustCatch(t, spec(32), name, m, unit.Sizes{Short: 500, Normal: 500, Long: 500})
		})
	}
}
