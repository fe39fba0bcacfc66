// SPDX-License-Identifier: Apache-2.0

package rxengine_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

const rx = "rtl/via/hvia_rx_engine.sv"

// One unit is five runs of traffic, about 40,000 clocks.
var sizes = unit.Sizes{Short: 4, Normal: 30, Long: 3_000}

func TestReceive(t *testing.T) { unit.BothWidths(t, "rx_engine", sizes) }

func TestReceiveOfFewerVIs(t *testing.T) {
	unit.FewerVIs(t, unit.Testbench(t, "rx_engine", "W=32"), sizes)
}

var bugs = []unit.Bug{
	{"a queue is called empty too early", rx, "& ~coming_i & ~coming_q;", "& ~coming_i & (~coming_q | FAULT);"},
	{"the descriptor of another VI is wanted", rx, "assign coming_vi_o     = vi_q;", "assign coming_vi_o     = FAULT ? drain_vi_i : vi_q;"},
	{"a descriptor is not wanted", rx, "assign wanted_o        = wait_for;", "assign wanted_o        = wait_for & ~FAULT;"},
	{"only the part of a segment that is used is checked", rx, "job_bound  = segment_left;", "job_bound  = FAULT ? {21'd0, part} : segment_left;"},
	{"Length is no limit", rx, "if ({21'd0, part} > space) part", "if (!FAULT && {21'd0, part} > space) part"},
	{"a forged offset is believed", rx, "((send_offset == stored.received) &", "((FAULT | (send_offset == stored.received)) &"},
	{"a forged length is believed", rx, "(send_total == stored.total))", "(FAULT | (send_total == stored.total)))"},
	{"an open message outlives a reset of its VI", rx, "if (clear_valid_i) open_q[", "if (clear_valid_i && !FAULT) open_q["},
	{"a descriptor is completed after a reset of its VI", rx, "assign forget = forget_q | (clear_valid_i & (clear_vi_i == vi_q));", "assign forget = !FAULT & (forget_q | (clear_valid_i & (clear_vi_i == vi_q)));"},
	{"a word is used before it is all in", rx, "(word_end <= {1'b0, rx_avail_i})", "((FAULT ? word_begin + 12'd1 : word_end) <= {1'b0, rx_avail_i})"},
	{"a write is asked for before its words are in", rx, "assign write_in    = rx_end_i |", "assign write_in    = FAULT | rx_end_i |"},
	{"a bad frame uses up its number", rx, "(lost | stray_q) ? expected", "((lost & !FAULT) | stray_q) ? expected"},
	{"immediate data without a frame that ends well", rx, "(state_q == Finish) & ~lost & immediate", "(FAULT | ((state_q == Finish) & ~lost)) & immediate"},
	{"a status is written into memory that went away", rx, "cpl_write_q     <= ~rs_stale_i;", "cpl_write_q     <= FAULT | ~rs_stale_i;"},
	{"a descriptor that comes during a flush stays", rx, "(asked_q & rs_valid_i));", "(asked_q & rs_valid_i & !FAULT));"},
	{"a flush is not busy at once", rx, "(works & (vi_q == drain_vi_i)) | flush_want |", "(works & (vi_q == drain_vi_i)) | (flush_want & !FAULT) |"},
	{"a chunk that failed is no error", rx, "if ((state_q == Chunk) & rxc_done_i & rxc_err_i)", "if ((state_q == Chunk) & rxc_done_i & rxc_err_i & !FAULT)"},
	{"the tag is taken too late", rx, "(state_q == Locate) ? tag_q : ctx_tag", "((state_q == Locate) & !FAULT) ? tag_q : ctx_tag"},
	{"a message that is cut off has no error", rx, "cpl_partial_q   <= (state_q == Check) |", "cpl_partial_q   <= ((state_q == Check) & !FAULT) |"},
	{"errors come too close", rx, "~(fin_async & resting) &", "~(fin_async & resting & !FAULT) &"},
	{"a write does not hold up the withdrawal of its handle", rx, "assign handle_busy_o = ((state_q == Write) &", "assign handle_busy_o = ((state_q == Write) & !FAULT &"},
	{"a sequence number counts twice", rx, "assign old        = ahead[31];", "assign old        = ahead[31] & !FAULT;"},
	{"any number ahead is believed", rx, "reliable ? old : ~near &", "(reliable | FAULT) ? old : ~near &"},
	{"the window is one too wide", rx, "assign near       = ahead <", "assign near       = ahead - 32'(FAULT) <"},
	{"no run of frames is believed", rx, "~(agrees & (agreed ==", "~(agrees & !FAULT & (agreed =="},
	{"a run of any numbers is believed", rx, "assign agrees     = beyond < hvia_pkg::SequenceWindow;", "assign agrees     = beyond < (FAULT ? 32'h8000_0000 : hvia_pkg::SequenceWindow);"},
	{"one frame too few is believed", rx, "(agreed == LastAgreed));", "(agreed == LastAgreed - AgreedBits'(FAULT)));"},
	{"an accepted frame does not break a run", rx, "lost ? candidate : number + 32'd1,", "lost | (FAULT & ~stray_q) ? candidate : number + 32'd1,"},
	{"a copy breaks a run", rx, "~(&beyond)) agreed_d", "(~(&beyond) | FAULT)) agreed_d"},
	{"a bad frame counts in a run", rx, "if (stray_q & ~lost & agrees)", "if (stray_q & (~lost | FAULT) & agrees)"},
	{"a run outlives its connection", rx, "mem[seq_init_vi_i] <= {{AgreedBits{1'b0}}, seq_init_value_i,", "mem[seq_init_vi_i] <= {FAULT ? mem[seq_init_vi_i][MemoryBits-1:MessageBits+32] : {{AgreedBits{1'b0}}, seq_init_value_i},"},
	{"a frame outside of the window does not hold up a flush", rx, "Finish:  works = mine_q | stray_q | report_due;", "Finish:  works = mine_q | (stray_q & !FAULT) | report_due;"},
	{"a frame outside of the window touches the message", rx, "| stray_q) begin", "| (stray_q & !FAULT)) begin"},
	{"an old generation is believed", rx, "(destination_vi[15:8] != ctx_generation) |", "((destination_vi[15:8] != ctx_generation) & !FAULT) |"},

	{"a frame ahead is accepted", rx, "~(reliable & (gap | after_nak | acknowledgement));", "~(reliable & ((gap & !FAULT) | after_nak | acknowledgement));"},
	{"an old frame is not reported", rx, "report_due    = (outcome_q == FrameOld) |", "report_due        = ((outcome_q == FrameOld) & !FAULT) |"},
	{"a gap is reported for old frames", rx, "(outcome_q == FrameOld) ? hvia_pkg::AcknowledgeOperationOld :", "((outcome_q == FrameOld) & !FAULT) ? hvia_pkg::AcknowledgeOperationOld :"},
	{"reported before the write at reliable reception", rx, "assign early    = (state_q == Write) & reliable_q & delivery_q &", "assign early = (state_q == Write) & reliable_q & (delivery_q | FAULT) &"},
	{"reported late at reliable delivery", rx, "job_translated & ~reported_q &", "job_translated & ~reported_q & !FAULT &"},
	{"reported when the first of several buffers is found", rx, "(~sending_q | (left_q == part_q)) & rx_end_i", "(~sending_q | (left_q == part_q) | FAULT) & rx_end_i"},
	{"reported before the frame is complete", rx, "& rx_end_i & ~rx_bad_i & ~too_long & ~rxa_valid_q &", "& (rx_end_i | FAULT) & ~rx_bad_i & ~too_long & ~rxa_valid_q &"},
	{"a NAK is forgotten", rx, "& nak_sent_i &", "& nak_sent_i & !FAULT &"},
	{"an acknowledgement is answered with a NAK", rx, "& ~acknowledgement;", "& (~acknowledgement | FAULT);"},
	{"a stranger is answered with a NAK", rx, "assign after_nak = reliable & ~stranger &", "assign after_nak        = reliable & (~stranger | FAULT) &"},
	{"an acknowledgement with payload", rx, "(payload_len != 16'd0) |\n", "((payload_len != 16'd0) & !FAULT) |\n"},
	{"an acknowledgement of an unknown code", rx, "(immediate_now > {29'd0, hvia_pkg::AcknowledgeCodeTransport});", "((immediate_now > {29'd0, hvia_pkg::AcknowledgeCodeTransport}) & !FAULT);"},
	{"a request for which there is no space uses up its number", rx, "& ~rxl_ok_i) mine_q <= 1'b0;", "& ~rxl_ok_i) mine_q <= FAULT;"},
	{"a request is given to the ledger before it is complete", rx, "if (~no_right) state_d = rx_end_i ? Ask : Tail;", "if (~no_right) state_d = (rx_end_i | FAULT) ? Ask : Tail;"},
	{"reads without the right", rx, "(request & ~ctx_rdma_read);", "(request & ~ctx_rdma_read & !FAULT);"},
	{"an answer ends anywhere", rx, "assign fits      = last ?", "assign fits         = FAULT ? 1'b1 : last ?"},
	{"an answer of another length", rx, "(rxl_length_i != send_total)", "((rxl_length_i != send_total) & !FAULT)"},
	{"an answer that nobody asked for", rx, "if (~rxl_ok_i |", "if ((~rxl_ok_i & !FAULT) |"},
	{"an answer goes on as a Send", rx, "(response == stored.read) &", "((response == stored.read) | FAULT) &"},
	{"an answer's chunk replaces the receive descriptor's", rx, "assign rxc_store_o  = ~message_q.read;", "assign rxc_store_o  = FAULT | ~message_q.read;"},
	{"an answer has the segments of the receive descriptor", rx, "assign segments       = message_q.read ?", "assign segments       = message_q.read & !FAULT ?"},
	{"a read is complete with every frame", rx, "((outcome_q == FrameGood) & ~last) ?", "((outcome_q == FrameGood) & ~last & !FAULT) ?"},
	{"two errors for the buffers of a read", rx, "broken & ~(response_q & (outcome_q != FrameNAKed));", "broken & ~(response_q & (outcome_q != FrameNAKed) & !FAULT);"},
	{"the peer is blamed for the buffers of a read", rx, "report_code = response_q ?", "report_code = response_q & !FAULT ?"},
	{"a flushed answer is completed as a receive descriptor", rx, "assign stored_needs = (~stored.rdma | stored.immediate) & ~stored.read;", "assign stored_needs = (~stored.rdma | stored.immediate) & (~stored.read | FAULT);"},
	{"a bad frame leaves its trace in the message", rx, "if ((reliable_q & lost) |", "if ((reliable_q & lost & !FAULT) |"},
	{"a bad frame ends the message", rx, "~open_next & ~(reliable_q & lost)) | cut_open |", "~open_next & ~(reliable_q & lost & !FAULT)) | cut_open |"},
	{"the chunk of a bad frame is used", rx, "assign locate_or_fetch = (stored.strange &", "assign locate_or_fetch = (!FAULT & stored.strange &"},
	{"a message that is broken keeps its descriptor", rx, "(outcome_q == FrameGood) ? last : broken) :", "(outcome_q == FrameGood) ? last : broken & (last | !FAULT)) :"},
	{"a contradiction is no error of the open message", rx, "((state_q == Finish) & cut_q) |", "((state_q == Finish) & cut_q & !FAULT) |"},
	{"immediate data of the frame that contradicts", rx, "& immediate & ~cut_q;", "& immediate & (~cut_q | FAULT);"},
	{"a reset VI is acknowledged", rx, "& ~rx_bad_i & ~short_frame & ~forget;", "& ~rx_bad_i & ~short_frame & (~forget | FAULT);"},
	{"what is reported holds up no flush", rx, "| (rxa_valid_q & (rxa_vi_q == drain_vi_i));", "| (rxa_valid_q & !FAULT & (rxa_vi_q == drain_vi_i));"},
	{"the wrong number is NAKed", rx, "report_number = number;", "report_number = FAULT ? expected + 32'd1 : number;"},
}

func TestReceiveFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "rx_engine", "W=32"), 100, bugs)
}
