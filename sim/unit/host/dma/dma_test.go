// SPDX-License-Identifier: Apache-2.0

package dma_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	splitter = "rtl/host/hvia_dma_splitter.sv"
	reader   = "rtl/host/hvia_dma_read.sv"
	writer   = "rtl/host/hvia_dma_write.sv"
)

var sizes = unit.Sizes{Short: 1_000, Normal: 10_000, Long: 300_000}

func TestDma(t *testing.T) {
	for _, width := range []string{"32", "64"} {
		for _, outstanding := range []string{"1", "2"} {
			t.Run(width+"_"+outstanding, func(t *testing.T) {
				unit.MustPass(t, unit.Testbench(t, "dma", "W="+width, "MaxOutstanding="+outstanding), sizes)
			})
		}
	}
}

func TestDmaMutants(t *testing.T) {
	unit.MustCatch(t, unit.Testbench(t, "dma", "W=32", "MaxOutstanding=1"), 2_000, map[string]verilate.Mutant{
		"page_split":    {File: splitter, Old: "(13'd1 << PageW) - {1'b0, va_q[PageW-1:0]} : att_rsp_bytes_i", New: "(13'd1 << PageW) - {1'b0, va_q[PageW-1:0]} : att_rsp_bytes_i + 13'd1"},
		"burst_end":     {File: splitter, Old: "(short_bursts_i ? ShortBytes : LongBytes) - {{(10-LaneW){1'b0}}, cur_pa_q[LaneW-1:0]}", New: "(short_bursts_i ? ShortBytes : LongBytes)"},
		"always_long":   {File: splitter, Old: "(short_bursts_i ? ShortBytes : LongBytes)", New: "LongBytes"},
		"too_short":     {File: splitter, Old: "(short_bursts_i ? ShortBytes : LongBytes)", New: "(short_bursts_i ? ShortBytes / 10'd2 : LongBytes)"},
		"bound_ignored": {File: splitter, Old: "att_req_len_o    = bound_q", New: "att_req_len_o    = {16'd0, left_q}"},
		"read_lane":     {File: reader, Old: "head_lane_q <= '0;", New: "head_lane_q <= head_lane_q;"},
		"withdrawn":     {File: reader, Old: "assign req_valid_o = burst_valid & (lock_q | (", New: "assign req_valid_o = burst_valid & (("},
		"read_overlap":  {File: reader, Old: "no_overlap_i & (burst_valid | head_valid_q)", New: "no_overlap_i & burst_valid"},
		"write_overlap": {File: writer, Old: "no_overlap_i & (burst_valid | (open_q != 2'd0))", New: "no_overlap_i & burst_valid"},
		"beat_reuse":    {File: writer, Old: "(count == avail) ? '0 : used_q + count", New: "'0"},
		"bus_error":     {File: writer, Old: "if (wdone_i & werr_i) err_q", New: "if (wdone_i & werr_i & all_q) err_q"},
	})
}
