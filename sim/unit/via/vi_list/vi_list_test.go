// SPDX-License-Identifier: Apache-2.0

package vilist_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

const list = "rtl/via/hvia_vi_list.sv"

var sizes = unit.Sizes{Short: 20_000, Normal: 300_000, Long: 10_000_000}

// The list of VIs compared with a plain queue. Every VI enters at any time,
// also in the clock in which it leaves.
func TestList(t *testing.T) { unit.MustPass(t, unit.Testbench(t, "vi_list"), sizes) }

func TestListOfFewerVIs(t *testing.T) { unit.FewerVIs(t, unit.Testbench(t, "vi_list"), sizes, 16) }

func TestListFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "vi_list"), 20_000, []unit.Bug{
		{"a push in the clock of the pop is lost", list, "|| (pop_i &&", "|| (pop_i && !FAULT &&"},
		{"the pop takes the mark of the push", list, "      if (enter) begin", "      if (FAULT && pop_i && enter && push_vi_i == vi_o) tail_q <= tail_q + 1'b1;\n      else if (enter) begin"},
		{"a VI enters twice", list, "(!listed_q[push_vi_i] ||", "(!listed_q[push_vi_i] || FAULT ||"},
		{"a VI never enters again", list, "listed_q[vi_o] <= 1'b0;", "listed_q[vi_o] <= FAULT;"},
	})
}
