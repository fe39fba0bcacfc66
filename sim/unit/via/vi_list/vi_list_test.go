// SPDX-License-Identifier: Apache-2.0

package vilist_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const list = "rtl/via/hvia_vi_list.sv"

var sizes = unit.Sizes{Short: 20_000, Normal: 300_000, Long: 10_000_000}

func spec() verilate.Spec {
	return verilate.Spec{
		Name: "vi_list_tb",
		Top:  "hvia_vi_list",
		RTL:  []string{"rtl/gen/hvia_params_pkg.sv", list, "rtl/via/checkers/hvia_vi_list_checker.sv"},
		Cpp:  []string{"sim/unit/via/vi_list/cc/vi_list_tb.cc"},
	}
}

// The list of VIs compared with a plain queue, with every VI entering at any
// time, also in the clock in which it leaves.
func TestList(t *testing.T) { unit.MustPass(t, spec(), sizes) }

func TestListOfFewerVIs(t *testing.T) { unit.FewerVIs(t, spec(), sizes) }

func TestListFaults(t *testing.T) {
	unit.MustCatchEach(t, spec(), map[string]string{list: "  hvia_params_pkg::vi_t vi_mem [hvia_params_pkg::VICount];"}, []unit.Switched{
		{Name: "a push in the clock of the pop is lost", File: list, Old: "|| (pop_i &&", New: "|| (pop_i && !FAULT &&"},
		{Name: "the pop takes the mark of the push", File: list, Old: "      if (enter) begin", New: "      if (FAULT && pop_i && enter && push_vi_i == vi_o) tail_q <= tail_q + 1'b1;\n      else if (enter) begin"},
		{Name: "a VI enters twice", File: list, Old: "(!listed_q[push_vi_i] ||", New: "(!listed_q[push_vi_i] || FAULT ||"},
		{Name: "a VI never enters again", File: list, Old: "listed_q[vi_o] <= 1'b0;", New: "listed_q[vi_o] <= FAULT;"},
	}, sizes)
}
