// SPDX-License-Identifier: Apache-2.0

package txengine_test

import (
	"testing"

	"hvia/sim/unit/internal/unit"
)

const tx = "rtl/via/hvia_tx_engine.sv"

var sizes = unit.Sizes{Short: 6, Normal: 80, Long: 10_000}

func TestTransmit(t *testing.T) { unit.BothWidths(t, "tx_engine", sizes) }

func TestTransmitOfFewerVIs(t *testing.T) {
	unit.FewerVIs(t, unit.Testbench(t, "tx_engine", "W=32"), sizes)
}

var bugs = []unit.Bug{
	{"bound", tx, ".job_bound_i(seg_left_q)", ".job_bound_i((FAULT ? ({16'd0, job_len}) : (seg_left_q)))"},
	{"half_a_frame", tx, "assign tx_wabort_o = (framed & job_bad) | walk_fail;", "assign tx_wabort_o = (FAULT ? ((framed & job_bad & (job_err == hvia_pkg::AttErrorBackend)) | walk_fail) : ((framed & job_bad) | walk_fail));"},
	{"not_held_back", tx, "~last_q | ((seg_left_q == 32'd0) & (segs_q == 8'd0));", "~last_q | (FAULT ? (seg_left_q == 32'd0) : (((seg_left_q == 32'd0) & (segs_q == 8'd0))));"},
	{"held_beat", tx, "assign tx_wdata_o  = hold_valid_q ? hold_data_q : out_data;", "assign tx_wdata_o  = (FAULT ? (out_data) : (hold_valid_q ? hold_data_q : out_data));"},
	{"drain_too_soon", tx, "(use_busy & (use_handle_q == drain_handle_i))", "((FAULT ? (1'b0) : (use_busy & (use_handle_q == drain_handle_i))))"},
	{"drain_next_segment", tx, "assign use_busy      = open_q & ~raw;", "assign use_busy      = (FAULT ? (message & (use_handle_q == seg_handle_q)) : (open_q & ~raw));"},
	{"fetched_ahead", tx, "& chunk_err_q &\n                     ((need_q != 16'd0) | last_q);", "& chunk_err_q &\n                     (FAULT ? (1'b1) : (((need_q != 16'd0) | last_q)));"},
	{"chunk_forgotten", tx, "assign over     = (state_q == Finish) & ~take_ack & ~ask_q & ~wait_q;", "assign over     = (state_q == Finish) & ~take_ack & (FAULT ? (1'b1) : (~ask_q & ~wait_q));"},
	{"chunk_quiet", tx, "~step & ~fetch &", "~step & (FAULT ? (1'b1) : (~fetch)) &"},
	{"no_segments", tx, "assign in_empty     = in_read | (in_count == 16'd0);", "assign in_empty     = in_read | (FAULT ? (1'b0) : ((in_count == 16'd0)));"},
	{"state_once", tx, "    if ((ctx_state != hvia_pkg::VIStateConnected) | broken_q[vi_q]) begin", "    if ((FAULT ? ((ctx_state != hvia_pkg::VIStateConnected) & first_q) : ((ctx_state != hvia_pkg::VIStateConnected))) | broken_q[vi_q]) begin"},
	{"broken_goes_on", tx, "broken_q[vi_q] <= 1'b1;", "broken_q[vi_q] <= (FAULT ? (1'b0) : (1'b1));"},
	{"broken_for_ever", tx, "broken_q[seq_init_vi_i] <= 1'b0;", "broken_q[seq_init_vi_i] <= (FAULT ? (broken_q[seq_init_vi_i]) : (1'b0));"},
	{"unreachable_of_nobody", tx, "assign async_valid_o = breaks & (ctx_state != hvia_pkg::VIStateFree);", "assign async_valid_o = breaks & (FAULT ? (1'b1) : ((ctx_state != hvia_pkg::VIStateFree)));"},
	{"unreachable_holds_memory", tx, "assign handle_busy_o = (message & ~unreachable_q", "assign handle_busy_o = (message & (FAULT ? (1'b1) : (~unreachable_q))"},
	{"unreachable_at_rest", tx, "assign waits   = ~take_ack & (((state_q == Check) & ~unreachable_q &", "assign waits   = ~take_ack & (((state_q == Check) & (FAULT ? (1'b1) : (~unreachable_q)) &"},
	{"unreachable_overruns", tx, "assign breaks    = checking & mine & unreachable_q & async_ready_i;", "assign breaks    = checking & mine & unreachable_q & (FAULT ? (1'b1) : (async_ready_i));"},
	{"unreachable_completes", tx, "if (breaks) state_d = Idle;", "if (breaks) state_d = (FAULT ? (Finish) : (Idle));"},
	{"offset", tx, "remote_q <= remote_q + {32'd0, payload_q};", "remote_q <= remote_q + (FAULT ? ({48'd0, need_q}) : ({32'd0, payload_q}));"},
	{"error_order", tx, "(state_q == Frame) & ~open_q & (missing", "(state_q == Frame) & (FAULT ? (~job_bad) : (~open_q)) & (missing"},

	// Messages of reliable VIs.
	{"passes_over_too_little", tx, "skip_q        <= (job_number_i - job_first_i) * MaxPayload;", "skip_q        <= (FAULT ? ((job_number_i == job_first_i) ? 32'd0 : (job_number_i - job_first_i - 32'd1) * MaxPayload) : ((job_number_i - job_first_i) * MaxPayload));"},
	{"passed_over_twice", tx, "assign seg_use   = skip_take ? skip_len :", "assign seg_use   = skip_take ? (FAULT ? (seg_left_q) : (skip_len)) :"},
	{"length_of_the_descriptor", tx, "assign in_length    = head_q ? total_q :", "assign in_length    = (FAULT ? (1'b0) : (head_q)) ? total_q :"},
	{"changed_operation_sent", tx, "(head_q & (in_operation != operation_q));", "(head_q & (FAULT ? (1'b0) : ((in_operation != operation_q))));"},
	{"frame_not_told", tx, "else if (frame_end) state_d = owned_q ? Report :", "else if (frame_end) state_d = (FAULT ? ((owned_q & last_q)) : (owned_q)) ? Report :"},
	{"asked_and_not_obeyed", tx, "((led_op_q != LedFail) & led_go_i) ? Check", "((led_op_q != LedFail) & (FAULT ? ((led_go_i | (led_op_q == LedAsk))) : (led_go_i))) ? Check"},
	{"number_of_its_own", tx, "assign number = (first_q & ~owned_q) ? seq_rd_q", "assign number = (first_q & (FAULT ? (1'b1) : (~owned_q))) ? seq_rd_q"},
	{"sent_without_asking", tx, "assign start     = checking & (owned_q | (mine & ~unreachable_q))", "assign start     = checking & (owned_q | (FAULT ? (~unreachable_q) : ((mine & ~unreachable_q))))"},
	{"completes_what_the_ledger_has", tx, "assign cpl_load = over & ~owned_q &", "assign cpl_load = over & (FAULT ? (1'b1) : (~owned_q)) &"},
	{"goes_on_disconnected", tx, "assign rejects   = owned_q ? ctx_state != hvia_pkg::VIStateConnected :", "assign rejects   = owned_q ? (FAULT ? (1'b0) : (ctx_state != hvia_pkg::VIStateConnected)) :"},
	{"read_with_payload", tx, "assign payload = read ? 32'd0 :", "assign payload = (FAULT ? (1'b0) : (read)) ? 32'd0 :"},
	{"read_of_the_segments", tx, "assign in_empty     = in_read |", "assign in_empty     = (FAULT ? (1'b0) : (in_read)) |"},
	{"read_unreliable", tx, "(read & ~ctx_reliable)) begin", "(read & (FAULT ? (1'b0) : (~ctx_reliable)))) begin"},
	{"answer_of_any_memory", tx, ".job_access_i(response_q & ~raw ?", ".job_access_i((FAULT ? (1'b0) : (response_q & ~raw)) ?"},
	{"answer_holds_its_handle", tx, "& ~response_q & (handle_q ==", "& (FAULT ? (1'b1) : (~response_q)) & (handle_q =="},
	{"unreachable_is_any", tx, "if (unreachable_q) led_operation_o =", "if ((FAULT ? (1'b0) : (unreachable_q))) led_operation_o ="},
	{"unreachable_forgotten", tx, "if (breaks | (opens & unreachable_q)) broken_q", "if (breaks | (FAULT ? (1'b0) : ((opens & unreachable_q)))) broken_q"},
	{"fails_as_nothing", tx, "if (frame_fail) state_d = owned_q ? Report : Finish;", "if (frame_fail) state_d = (FAULT ? (1'b0) : (owned_q)) ? Report : Finish;"},
	{"chunk_of_a_dropped_message", tx, "if (cpl_load | (over & owned_q)) state_d = Idle;", "if (cpl_load | ((FAULT ? (~take_ack) : (over)) & owned_q)) state_d = Idle;"},

	// Acknowledgements, and turns.
	{"context_of_the_message", tx, "assign rd_vi_o       = take_ack ? ack_vi_i :", "assign rd_vi_o       = take_ack ? (FAULT ? ((state_q == Idle ? ack_vi_i : vi_q)) : (ack_vi_i)) :"},
	{"context_of_the_acknowledgement", tx, "((state_q == AckCheck) & ~ack_gone) ? ack_vi_q", "((state_q == AckCheck) & (FAULT ? (1'b1) : (~ack_gone))) ? ack_vi_q"},
	{"acknowledged_by_nobody", tx, "assign ack_gone  = (state_q == AckCheck) &", "assign ack_gone  = (FAULT ? (1'b0) : ((state_q == AckCheck))) &"},
	{"acknowledged_when_connected_only", tx, "& (ctx_state == hvia_pkg::VIStateFree);", "& (FAULT ? ((ctx_state != hvia_pkg::VIStateConnected)) : ((ctx_state == hvia_pkg::VIStateFree)));"},
	{"acknowledgements_starve_messages", tx, "if (take_ack) acked_q <= 1'b1;", "if (take_ack) acked_q <= (FAULT ? (1'b0) : (1'b1));"},
	{"messages_starve_acknowledgements", tx, "assign between      = (state_q == Check) |", "assign between      = (FAULT ? (((state_q == Check) & first_q)) : ((state_q == Check))) |"},
	{"chunks_starve_acknowledgements", tx, "| (state_q == Head) | (state_q == Skip) |", "| (state_q == Head) | (FAULT ? (1'b0) : ((state_q == Skip))) |"},
	{"raw_frames_starve", tx, "else if (take_job) turn_q <= TurnRaw;", "else if (take_job) turn_q <= (FAULT ? (TurnDesc) : (TurnRaw));"},
	{"jobs_starve", tx, "if (take_desc) turn_q <= TurnJob;", "if (take_desc) turn_q <= (FAULT ? (TurnRaw) : (TurnJob));"},
	{"acknowledgement_at_rest", tx, "((state_q == AckCheck) & ~start_ack & ~ack_gone) |", "((state_q == AckCheck) & (FAULT ? (1'b1) : (~start_ack)) & ~ack_gone) |"},
	{"job_at_rest", tx, "~desc_valid_i & ~job_valid_i & ~rawtx_valid_i & ~ack_valid_i) | waits)", "~desc_valid_i & (FAULT ? (1'b1) : (~job_valid_i)) & ~rawtx_valid_i & ~ack_valid_i) | waits)"},
}

func TestTransmitFaults(t *testing.T) {
	unit.MustCatchEach(t, unit.Testbench(t, "tx_engine", "W=32"), 60, bugs)
}
