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
	unit.MustCatchEach(t, spec(t), 50, []unit.Bug{
		{"last_first", collector, "assign first   = waiting_q &", "assign first   = FAULT && waiting_q[6] ? 7'b1000000 : waiting_q &"},
		{"again_lost", collector, "waiting_q <= (waiting_q & ~first) | valid_i;", "waiting_q <= FAULT ? (waiting_q | valid_i) & ~first : (waiting_q & ~first) | valid_i;"},
		{"quiet_early", collector, "waiting_q == '0 && valid_i == '0;", "waiting_q == '0 && (valid_i == '0 || FAULT);"},
		{"code_changes", collector, "if (valid_i[s]) begin", "if (valid_i[s] || (FAULT && s == 2 && valid_i[1])) begin"},
	})
}
