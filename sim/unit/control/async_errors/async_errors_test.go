// SPDX-License-Identifier: Apache-2.0

// Package asyncerrors_test compares the collector of asynchronous errors with a
// model.
package asyncerrors_test

import (
	"strconv"
	"testing"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	collector = "rtl/control/hvia_async_errors.sv"
	// As in the card.
	sources = 7
)

// Thousands of clocks.
var sizes = unit.Sizes{Short: 100, Normal: 2_000, Long: 40_000}

func spec(t *testing.T) verilate.Spec {
	t.Helper()
	return unit.Testbench(t, "async_errors", "Sources="+strconv.Itoa(sources))
}

func TestAsyncErrors(t *testing.T) {
	events := []string{"reports", "cover_reports_again", "cover_all_at_once", "cover_all_wait"}
	for s := range sources {
		events = append(events, "cover_source_"+strconv.Itoa(s))
	}
	unit.MustPass(t, spec(t), sizes, events...)
}

func TestAsyncErrorsMutants(t *testing.T) {
	unit.MustCatch(t, spec(t), 50, map[string]verilate.Mutant{
		"last_first":   {File: collector, Old: "assign first   = waiting_q & (~waiting_q + 1'b1);", New: "assign first   = waiting_q[6] ? 7'b1000000 : waiting_q & (~waiting_q + 1'b1);"},
		"again_lost":   {File: collector, Old: "waiting_q <= (waiting_q & ~first) | valid_i;", New: "waiting_q <= (waiting_q | valid_i) & ~first;"},
		"quiet_early":  {File: collector, Old: "assign quiet_o = waiting_q == '0 && valid_i == '0;", New: "assign quiet_o = waiting_q == '0;"},
		"code_changes": {File: collector, Old: "if (valid_i[s]) begin", New: "if (valid_i[s] || (s == 2 && valid_i[1])) begin"},
	})
}
