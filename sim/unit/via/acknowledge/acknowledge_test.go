// SPDX-License-Identifier: Apache-2.0

package acknowledge_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

const acknowledge = "rtl/via/hvia_acknowledge.sv"

// One unit is ten mixes of 2,000 clocks and one list of all VIs.
var sizes = unit.Sizes{Short: 4, Normal: 30, Long: 4_000}

func TestAcknowledge(t *testing.T) { unit.MustPass(t, unit.Testbench(t, "acknowledge"), sizes) }

func TestAcknowledgeOfFewerVIs(t *testing.T) {
	unit.FewerVIs(t, unit.Testbench(t, "acknowledge"), sizes, 16)
}

func TestAcknowledgeFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "acknowledge"), 40, []unit.Bug{
		{"a gap is reported for every frame", acknowledge, "if (~nak_sent & ~word_q.gap_sent) begin", "if (~nak_sent & (~word_q.gap_sent | FAULT)) begin"},
		{"a gap is reported once for ever", acknowledge, "            word_d.gap_sent = 1'b0;\n", "            word_d.gap_sent   = word_q.gap_sent & FAULT;\n"},
		{"an old frame is not acknowledged", acknowledge, "            word_d.due = 1'b1;\n          end\n        end\n        hvia_pkg::AcknowledgeOperationGap", "            word_d.due = word_q.due | !FAULT;\n          end\n        end\n        hvia_pkg::AcknowledgeOperationGap"},
		{"an old frame hides a gap", acknowledge, "if (~word_q.due) word_d.code", "if (~word_q.due | FAULT) word_d.code"},
		{"the count is not reset", acknowledge, "word_d.count = '0;", "word_d.count = (FAULT) ? word_q.count : '0;"},
		{"the count is reset by a place of before", acknowledge, "if (word_q.due) word_d.count", "if (word_q.due | FAULT) word_d.count"},
		{"one frame too many without an acknowledgement", acknowledge, "(word_d.count == CountW'(Every))", "(word_d.count == CountW'(FAULT ? Every + 1 : Every))"},
		{"the last frame waits for more", acknowledge, "if ((op_q == hvia_pkg::AcknowledgeOperationAcceptLast) |", "if (((op_q == hvia_pkg::AcknowledgeOperationAcceptLast) & !FAULT) |"},
		{"listed twice", acknowledge, "word_d.due & ~listed_q[vi_q];", "word_d.due & (~listed_q[vi_q] | FAULT);"},
		{"listed for ever", acknowledge, "listed_q[list_vi_q] <= 1'b0;", "listed_q[list_vi_q] <= FAULT;"},
		{"a NAK is overwritten by what is accepted", acknowledge, "assign nak_sent = nak_sent_q[vi_q];", "assign nak_sent = nak_sent_q[vi_q] & !(FAULT && op_q <= hvia_pkg::AcknowledgeOperationAcceptLast);"},
		{"the second NAK counts", acknowledge, "          if (~nak_sent) begin\n            word_d.number = number_q;\n            word_d.code   = code_q;", "          if (~nak_sent | FAULT) begin\n            word_d.number = number_q;\n            word_d.code   = code_q;"},
		{"a NAK outlives its connection", acknowledge, "if (renew) nak_sent_q[renew_vi] <= 1'b0;", "if (renew && !FAULT) nak_sent_q[renew_vi] <= 1'b0;"},
		{"a NAK is said once", acknowledge, "default: if (nak_sent) word_d.due = 1'b1;", "default: if (nak_sent && !FAULT) word_d.due = 1'b1;"},
		{"NAKs of reads are counted twice", acknowledge, "assign stat_nak_sent_o = nak;", "assign stat_nak_sent_o = nak | (take_nak & FAULT);"},
		{"a reset leaves what is due", acknowledge, "if (renew) word_mem[renew_vi] <= '0;", "if (renew && !(FAULT && clear_valid_i)) word_mem[renew_vi] <= '0;"},
		{"a connection leaves what is offered", acknowledge, "(renew & (renew_vi == ack_vi_o))", "(renew & !FAULT & (renew_vi == ack_vi_o))"},
		{"an event outlives the reset behind it", acknowledge, "      Event:   if (~renew | over) state_d = Idle;", "      Event:   if (~renew | (over & !FAULT)) state_d = Idle;"},
		{"the list is read across a reset", acknowledge, "state_d = over ? Idle : Show;", "state_d = over & !FAULT ? Idle : Show;"},
		{"last come, first served", acknowledge, "list_vi_q <= list_mem[head_q];", "list_vi_q <= list_mem[FAULT ? tail_q - 8'd1 : head_q];"},
		{"a list of all is empty", acknowledge, "head_q + 1'b1 != tail_q;", "(head_q + 1'b1 != tail_q) & !(FAULT && listed_q == '1);"},
		{"quiet with something to say", acknowledge, "~some_q & ~ack_valid_o & ~renew &", "(~some_q | FAULT) & (~ack_valid_o | FAULT) & ~renew &"},
		{"the ledger goes before the engine for ever", acknowledge, "assign take_rxa    = (state_q == Idle) & rxa_valid_i;", "assign take_rxa    = (state_q == Idle) & rxa_valid_i & !(FAULT && some_q);"},
	})
}
