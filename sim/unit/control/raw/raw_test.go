// SPDX-License-Identifier: Apache-2.0

package raw_test

import (
	"fmt"
	"testing"

	"hvia/sim/unit/internal/unit"
)

const (
	port = "rtl/control/hvia_raw_port.sv"
	ring = "rtl/control/hvia_raw_ring.sv"
)

// Ring entries.
var sizes = unit.Sizes{Short: 10_000, Normal: 40_000, Long: 3_000_000}

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
	unit.MustCatchEach(t, unit.Testbench(t, "raw_port", "W=32"), 60_000, []unit.Bug{
		{"tail_mask", ring, "(fetch_q != (tail_i & mask))", "(fetch_q != (FAULT ? tail_i : tail_i & mask))"},
		{"wrap", ring, "fetch_take ? ((fetch_q + 8'd1) & mask) : fetch_q;", "fetch_take ? (FAULT ? fetch_q + 8'd1 : (fetch_q + 8'd1) & mask) : fetch_q;"},
		{"longest", ring, "fetch_len_i > MaxTransmit", "(FAULT ? fetch_len_i >= MaxTransmit : fetch_len_i > MaxTransmit)"},
		{"page", ring, "fetch_pa_i[11:0]} + fetch_len_i > PageBytes", "fetch_pa_i[11:0]} + fetch_len_i > PageBytes + 32'(FAULT)"},
		{"stale_status", ring, "assign drop = finish && (use_stale_q || restart_i);", "assign drop = finish && (use_stale_q && !FAULT || restart_i);"},
		{"stale_entry", ring, "assign fetch_put    = fetch_done_i && !fetch_stale_q &&", "assign fetch_put    = fetch_done_i && (!fetch_stale_q || FAULT) &&"},
		{"early_irq", port, "{writing_q && wdone_i && write_rx_q, writing_q && wdone_i && !write_rx_q}",
			"{2{FAULT ? wvalid_q && wready_i : writing_q && wdone_i}} & {write_rx_q, !write_rx_q}"},
		{"one_read_ahead", ring, "((ready_q + done_q) < CountBits'(Depth))", "((ready_q + done_q) < CountBits'(FAULT ? 2 : Depth))"},
		{"lost_trace", port, "sent_q <= sent || (sent_q && irq_raw_receive_o);", "sent_q <= sent || (sent_q && irq_raw_receive_o && !FAULT);"},
	})
}
