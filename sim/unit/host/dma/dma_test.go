// SPDX-License-Identifier: Apache-2.0

package dma_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

const (
	splitter = "rtl/host/hvia_dma_splitter.sv"
	reader   = "rtl/host/hvia_dma_read.sv"
	writer   = "rtl/host/hvia_dma_write.sv"
)

var sizes = unit.Sizes{Short: 1_000, Normal: 4_000, Long: 300_000}

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
	unit.MustCatchEach(t, unit.Testbench(t, "dma", "W=32", "MaxOutstanding=1"), 2_000, []unit.Bug{
		{"page_split", splitter, "{1'b0, va_q[PageW-1:0]} : att_rsp_bytes_i", "{1'b0, va_q[PageW-1:0]} : att_rsp_bytes_i + 13'(FAULT)"},
		{"burst_end", splitter, "- {{(10-LaneW){1'b0}}, cur_pa_q[LaneW-1:0]}", "- (FAULT ? 10'd0 : {{(10-LaneW){1'b0}}, cur_pa_q[LaneW-1:0]})"},
		{"always_long", splitter, "(short_bursts_i ? ShortBytes : LongBytes)", "(FAULT ? LongBytes : (short_bursts_i ? ShortBytes : LongBytes))"},
		{"too_short", splitter, "(short_bursts_i ? ShortBytes : LongBytes)", "(short_bursts_i ? (FAULT ? ShortBytes / 10'd2 : ShortBytes) : LongBytes)"},
		{"bound_ignored", splitter, "att_req_len_o    = bound_q", "att_req_len_o    = FAULT ? {16'd0, left_q} : bound_q"},
		{"read_lane", reader, "head_lane_q <= '0;", "head_lane_q <= FAULT ? head_lane_q : '0;"},
		{"withdrawn", reader, "assign req_valid_o = burst_valid & (lock_q | (", "assign req_valid_o = burst_valid & ((lock_q & !FAULT) | ("},
		{"read_overlap", reader, "no_overlap_i & (burst_valid | head_valid_q)", "no_overlap_i & (burst_valid | (head_valid_q & !FAULT))"},
		{"write_overlap", writer, "no_overlap_i & (burst_valid | (open_q != 2'd0))", "no_overlap_i & (burst_valid | ((open_q != 2'd0) & !FAULT))"},
		{"beat_reuse", writer, "(count == avail) ? '0 : used_q + count", "(FAULT || count == avail) ? '0 : used_q + count"},
		{"bus_error", writer, "if (wdone_i & werr_i) err_q", "if (wdone_i & werr_i & (all_q | !FAULT)) err_q"},
	})
}
