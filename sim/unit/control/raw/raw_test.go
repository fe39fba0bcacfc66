// SPDX-License-Identifier: Apache-2.0

package raw_test

import (
	"fmt"
	"testing"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	port = "rtl/control/hvia_raw_port.sv"
	ring = "rtl/control/hvia_raw_ring.sv"
)

// Ring entries.
var sizes = unit.Sizes{Short: 10_000, Normal: 80_000, Long: 3_000_000}

// TestRaw runs both rings at all sizes, with restarts, bus errors and bad
// entries, against a model.
func TestRaw(t *testing.T) {
	events := []string{
		"fulls", "sent", "received", "refused_transmit", "refused_receive", "irqs", "offs", "stale_uses",
		"failed_reads", "failed_writes", "bursts", "resets", "quiet_clocks",
	}
	for log2 := 1; log2 <= 8; log2++ {
		events = append(events, fmt.Sprintf("wraps_log2_%d", log2), fmt.Sprintf("returns_log2_%d", log2))
	}
	unit.BothWidths(t, "raw_port", sizes, events...)
}

func TestRawMutants(t *testing.T) {
	unit.MustCatch(t, unit.Testbench(t, "raw_port", "W=32"), 60_000, map[string]verilate.Mutant{
		"tail_mask":      {File: ring, Old: "(fetch_q != (tail_i & mask))", New: "(fetch_q != tail_i)"},
		"wrap":           {File: ring, Old: "fetch_d       = fetch_take ? ((fetch_q + 8'd1) & mask) : fetch_q;", New: "fetch_d       = fetch_take ? (fetch_q + 8'd1) : fetch_q;"},
		"longest":        {File: ring, Old: "fetch_len_i > MaxTransmit", New: "fetch_len_i >= MaxTransmit"},
		"page":           {File: ring, Old: "fetch_pa_i[11:0]} + fetch_len_i > PageBytes", New: "fetch_pa_i[11:0]} + fetch_len_i > PageBytes + 32'd1"},
		"stale_status":   {File: ring, Old: "assign drop = finish && (use_stale_q || restart_i);", New: "assign drop = finish && restart_i;"},
		"stale_entry":    {File: ring, Old: "assign fetch_put    = fetch_done_i && !fetch_stale_q && !restart_i;", New: "assign fetch_put    = fetch_done_i && !restart_i;"},
		"early_irq":      {File: port, Old: "writing_q && wdone_i && write_rx_q, writing_q && wdone_i && !write_rx_q}", New: "wvalid_q && wready_i && write_rx_q, wvalid_q && wready_i && !write_rx_q}"},
		"one_read_ahead": {File: ring, Old: "((ready_q + done_q) < CountBits'(Depth))", New: "((ready_q + done_q) < CountBits'(2))"},
		"lost_trace":     {File: port, Old: "sent_q <= sent || (sent_q && irq_raw_receive_o);", New: "sent_q <= sent;"},
	})
}
