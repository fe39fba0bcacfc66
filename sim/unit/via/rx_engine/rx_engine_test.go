// SPDX-License-Identifier: Apache-2.0

package rxengine_test

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const rx = "rtl/via/hvia_rx_engine.sv"

// One unit is five runs of traffic, about 40,000 clocks.
var sizes = unit.Sizes{Short: 4, Normal: 60, Long: 3_000}

func spec(width int) verilate.Spec {
	w := strconv.Itoa(width)
	return verilate.Spec{
		Name: "receive_bench_" + w,
		Top:  "hvia_rx_engine",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv", "rtl/prim/hvia_byte_packer.sv", "rtl/host/hvia_dma_splitter.sv", "rtl/host/hvia_dma_write.sv", rx,
			"rtl/prim/checkers/hvia_byte_packer_checker.sv", "rtl/host/checkers/hvia_dma_write_checker.sv", "rtl/via/checkers/hvia_rx_engine_checker.sv",
		},
		Cpp:     []string{"sim/unit/via/rx_engine/cc/rx_engine_tb.cc"},
		Params:  map[string]string{"W": w},
		Defines: []string{"BENCH_W=" + w},
	}
}

func TestReceive(t *testing.T) {
	for _, width := range []int{32, 64} {
		t.Run(strconv.Itoa(width), func(t *testing.T) { unit.MustPass(t, spec(width), sizes) })
	}
}

// Bugs injected into the engine. All of them are in one program, because a
// build takes longer than a run; an argument switches one of them on, and FAULT
// stands for that switch.
var faults = []struct {
	name     string
	old, new string
}{
	{"a queue is called empty too early", "& ~coming_i & ~coming_q;", "& ~coming_i & (~coming_q | FAULT);"},
	{"the descriptor of another VI is wanted", "assign coming_vi_o     = vi_q;", "assign coming_vi_o     = FAULT ? drain_vi_i : vi_q;"},
	{"a descriptor is not wanted", "assign wanted_o        = wait_for;", "assign wanted_o        = wait_for & ~FAULT;"},
	{"only the part of a segment that is used is checked", "job_bound  = segment_left;", "job_bound  = FAULT ? {21'd0, part} : segment_left;"},
	{"Length is no limit", "if ({21'd0, part} > room) part", "if (!FAULT && {21'd0, part} > room) part"},
	{"a forged offset is believed", "((send_offset == stored.received) &", "((FAULT | (send_offset == stored.received)) &"},
	{"a forged length is believed", "(send_total == stored.total))", "(FAULT | (send_total == stored.total)))"},
	{"an open message outlives a reset of its VI", "if (clear_valid_i) open_q[", "if (clear_valid_i && !FAULT) open_q["},
	{"a descriptor is completed after a reset of its VI", "assign forget = forget_q | (clear_valid_i & (clear_vi_i == vi_q));", "assign forget = !FAULT & (forget_q | (clear_valid_i & (clear_vi_i == vi_q)));"},
	{"a word is used before it is all in", "(word_end <= {1'b0, rx_avail_i})", "((FAULT ? word_begin + 12'd1 : word_end) <= {1'b0, rx_avail_i})"},
	{"a write is asked for before its words are in", "assign write_in    = rx_end_i |", "assign write_in    = FAULT | rx_end_i |"},
	{"a bad frame uses up its number", "(lost | stray_q) ? expected", "((lost & !FAULT) | stray_q) ? expected"},
	{"immediate data without a frame that ends well", "(state_q == Finish) & ~lost & immediate", "(FAULT | ((state_q == Finish) & ~lost)) & immediate"},
	{"a status is written into memory that went away", "cpl_write_q     <= ~rs_stale_i;", "cpl_write_q     <= FAULT | ~rs_stale_i;"},
	{"a descriptor that comes during a flush stays", "(asked_q & rs_valid_i));", "(asked_q & rs_valid_i & !FAULT));"},
	{"a flush is not busy at once", "(works & (vi_q == drain_vi_i)) | flush_want |", "(works & (vi_q == drain_vi_i)) | (flush_want & !FAULT) |"},
	{"a chunk that failed is no error", "if ((state_q == Chunk) & rxc_done_i & rxc_err_i)", "if ((state_q == Chunk) & rxc_done_i & rxc_err_i & !FAULT)"},
	{"the tag is taken too late", "(state_q == Look) ? tag_q : ctx_tag", "((state_q == Look) & !FAULT) ? tag_q : ctx_tag"},
	{"a message that is cut off has no error", "cpl_partial_q   <= (state_q == Check) |", "cpl_partial_q   <= ((state_q == Check) & !FAULT) |"},
	{"errors come too close", "~(fin_async & resting) &", "~(fin_async & resting & !FAULT) &"},
	{"a write does not hold up the withdrawal of its handle", "assign handle_busy_o = ((state_q == Write) &", "assign handle_busy_o = ((state_q == Write) & !FAULT &"},
	{"a sequence number counts twice", "assign old        = ahead[31];", "assign old        = ahead[31] & !FAULT;"},
	{"any number ahead is believed", "reliable ? old : ~near &", "(reliable | FAULT) ? old : ~near &"},
	{"the window is one too wide", "assign near       = ahead <", "assign near       = ahead - 32'(FAULT) <"},
	{"no run of frames is believed", "~(agrees & (agreed ==", "~(agrees & !FAULT & (agreed =="},
	{"a run of any numbers is believed", "assign agrees     = beyond < hvia_pkg::SequenceWindow;", "assign agrees     = beyond < (FAULT ? 32'h8000_0000 : hvia_pkg::SequenceWindow);"},
	{"one frame too few is believed", "(agreed == LastAgreed));", "(agreed == LastAgreed - AgreedBits'(FAULT)));"},
	{"an accepted frame does not break a run", "lost ? candidate : number + 32'd1,", "lost | (FAULT & ~stray_q) ? candidate : number + 32'd1,"},
	{"a copy breaks a run", "~(&beyond)) agreed_d", "(~(&beyond) | FAULT)) agreed_d"},
	{"a bad frame counts in a run", "if (stray_q & ~lost & agrees)", "if (stray_q & (~lost | FAULT) & agrees)"},
	{"a run outlives its connection", "mem[seq_init_vi_i] <= {{AgreedBits{1'b0}}, seq_init_value_i,", "mem[seq_init_vi_i] <= {FAULT ? mem[seq_init_vi_i][MemoryBits-1:MessageBits+32] : {{AgreedBits{1'b0}}, seq_init_value_i},"},
	{"a frame outside of the window does not hold up a flush", "Finish:  works = mine_q | stray_q | say;", "Finish:  works = mine_q | (stray_q & !FAULT) | say;"},
	{"a frame outside of the window touches the message", "| stray_q) begin", "| (stray_q & !FAULT)) begin"},
	{"an old generation is believed", "(destination_vi[15:8] != ctx_generation) |", "((destination_vi[15:8] != ctx_generation) & !FAULT) |"},

	{"a frame ahead is accepted", "~(reliable & (gap | again | acknowledgement));", "~(reliable & ((gap & !FAULT) | again | acknowledgement));"},
	{"an old frame is not told", "say        = (outcome_q == FrameOld) |", "say        = ((outcome_q == FrameOld) & !FAULT) |"},
	{"a gap is told for old frames", "(outcome_q == FrameOld) ? hvia_pkg::AcknowledgeOperationOld :", "((outcome_q == FrameOld) & !FAULT) ? hvia_pkg::AcknowledgeOperationOld :"},
	{"told before the write at reliable reception", "assign early = (state_q == Write) & reliable_q & delivery_q &", "assign early = (state_q == Write) & reliable_q & (delivery_q | FAULT) &"},
	{"told late at reliable delivery", "job_translated & ~told_q &", "job_translated & ~told_q & !FAULT &"},
	{"told when the first of several buffers is found", "(~sending_q | (left_q == part_q)) & rx_end_i", "(~sending_q | (left_q == part_q) | FAULT) & rx_end_i"},
	{"told before the frame is whole", "& rx_end_i & ~rx_bad_i & ~too_long & ~told_valid_q &", "& (rx_end_i | FAULT) & ~rx_bad_i & ~too_long & ~told_valid_q &"},
	{"a refusal is forgotten", "& refused_i &", "& refused_i & !FAULT &"},
	{"an acknowledgement is answered with a refusal", "& ~acknowledgement;", "& (~acknowledgement | FAULT);"},
	{"a stranger is answered with a refusal", "assign again        = reliable & ~stranger &", "assign again        = reliable & (~stranger | FAULT) &"},
	{"an acknowledgement with payload", "(payload_len != 16'd0) |\n", "((payload_len != 16'd0) & !FAULT) |\n"},
	{"an acknowledgement of an unknown code", "(immediate_now > {29'd0, hvia_pkg::AcknowledgeCodeTransport});", "((immediate_now > {29'd0, hvia_pkg::AcknowledgeCodeTransport}) & !FAULT);"},
	{"a request for which there is no room uses up its number", "& ~rxl_ok_i) mine_q <= 1'b0;", "& ~rxl_ok_i) mine_q <= FAULT;"},
	{"a request is given to the ledger before it is whole", "if (~no_right) state_d = rx_end_i ? Ask : Whole;", "if (~no_right) state_d = (rx_end_i | FAULT) ? Ask : Whole;"},
	{"reads without the right", "(request & ~ctx_rdma_read);", "(request & ~ctx_rdma_read & !FAULT);"},
	{"an answer ends anywhere", "assign fits         = last ?", "assign fits         = FAULT ? 1'b1 : last ?"},
	{"an answer of another length", "(rxl_length_i != send_total)", "((rxl_length_i != send_total) & !FAULT)"},
	{"an answer that nobody asked for", "if (~rxl_ok_i |", "if ((~rxl_ok_i & !FAULT) |"},
	{"an answer goes on as a Send", "(answer == stored.answer) &", "((answer == stored.answer) | FAULT) &"},
	{"an answer's chunk replaces the receive descriptor's", "assign rxc_store_o  = ~message_q.answer;", "assign rxc_store_o  = FAULT | ~message_q.answer;"},
	{"an answer has the segments of the receive descriptor", "assign segments       = message_q.answer ?", "assign segments       = message_q.answer & !FAULT ?"},
	{"a read is whole with every frame", "((outcome_q == FrameGood) & ~last) ?", "((outcome_q == FrameGood) & ~last & !FAULT) ?"},
	{"two errors for the buffers of a read", "broken & ~(answer_q & (outcome_q != FrameRefused));", "broken & ~(answer_q & (outcome_q != FrameRefused) & !FAULT);"},
	{"the peer is blamed for the buffers of a read", "say_code = answer_q ?", "say_code = answer_q & !FAULT ?"},
	{"a flushed answer is completed as a receive descriptor", "assign stored_needs = (~stored.rdma | stored.immediate) & ~stored.answer;", "assign stored_needs = (~stored.rdma | stored.immediate) & (~stored.answer | FAULT);"},
	{"a bad frame leaves its trace in the message", "if ((reliable_q & lost) |", "if ((reliable_q & lost & !FAULT) |"},
	{"a bad frame ends the message", "~open_next & ~(reliable_q & lost)) | cut_open |", "~open_next & ~(reliable_q & lost & !FAULT)) | cut_open |"},
	{"the chunk of a bad frame is used", "assign look_or_fetch = (stored.strange &", "assign look_or_fetch = (!FAULT & stored.strange &"},
	{"a message that is broken keeps its descriptor", "(outcome_q == FrameGood) ? last : broken) :", "(outcome_q == FrameGood) ? last : broken & (last | !FAULT)) :"},
	{"a contradiction is no error of the open message", "((state_q == Finish) & cut_q) |", "((state_q == Finish) & cut_q & !FAULT) |"},
	{"immediate data of the frame that contradicts", "& immediate & ~cut_q;", "& immediate & (~cut_q | FAULT);"},
	{"a reset VI is acknowledged", "& ~rx_bad_i & ~short_frame & ~forget;", "& ~rx_bad_i & ~short_frame & (~forget | FAULT);"},
	{"what is told holds up no flush", "| (told_valid_q & (told_vi_q == drain_vi_i));", "| (told_valid_q & !FAULT & (told_vi_q == drain_vi_i));"},
	{"the wrong number is refused", "say_number = number;", "say_number = FAULT ? expected + 32'd1 : number;"},
}

// run runs the program with bug n switched on, 0 = none.
func run(t *testing.T, program string, n int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, fmt.Sprintf("--seed=%d", unit.Seed(t)), "--size=100", fmt.Sprintf("+fault=%d", n)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestReceiveFaults(t *testing.T) {
	const anchor = "  localparam int unsigned WordW       ="
	s := spec(32)
	s.Name += "_faults"
	s.Mutants = []verilate.Mutant{{File: rx, Old: anchor, New: "  int planted;\n  initial if ($value$plusargs(\"fault=%d\", planted) == 0) planted = 0;\n" + anchor}}
	for i, f := range faults {
		s.Mutants = append(s.Mutants, verilate.Mutant{File: rx, Old: f.old, New: strings.ReplaceAll(f.new, "FAULT", fmt.Sprintf("(planted == %d)", i+1))})
	}
	program := unit.Build(t, s)
	for i, f := range faults {
		if testing.Short() && i > 3 {
			break
		}
		t.Run(f.name, func(t *testing.T) {
			err := run(t, program, i+1)
			if err == nil {
				t.Fatalf("the bench did not catch the planted fault %q -> %q in %s", f.old, f.new, rx)
			}
			for line := range strings.Lines(err.Error()) {
				if strings.Contains(line, "FAIL") || strings.Contains(line, "Error") {
					t.Logf("caught: %s", strings.TrimSpace(line))
					break
				}
			}
		})
	}
}
