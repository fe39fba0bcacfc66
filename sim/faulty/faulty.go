// SPDX-License-Identifier: Apache-2.0

// Package faulty builds the simulator with injected bugs of the card. All bugs
// of all tests are in one simulator, because each build takes a minute.
package faulty

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"hvia/sim"
	"hvia/sim/verilate"
)

// bug is an injected bug. FAULT stands for the condition that it is enabled.
type bug struct {
	name  string
	edits []verilate.Mutant
}

// survives makes a register that only power-up clears.
func survives(name, file, before, register, after string) bug {
	const clocked = "  always_ff @(posedge clk_i) begin\n    "
	return bug{name, []verilate.Mutant{{
		File: file, Old: clocked + before + register + after,
		New: "  initial " + register + " = '0;\n" + clocked + before + register + strings.Replace(after, "<= ", "<= FAULT ? "+register+" : ", 1),
	}}}
}

const laneWidth = "  localparam int unsigned LaneW = $clog2(W / 8);"

var bugs = []bug{
	{"writes go one page further", []verilate.Mutant{
		{File: "rtl/host/hvia_dma_write.sv", Old: laneWidth, New: laneWidth + "\n  logic [31:0] right;\n  assign req_addr_o = FAULT ? right + 32'd4096 : right;"},
		{File: "rtl/host/hvia_dma_write.sv", Old: ".burst_addr_o(req_addr_o),", New: ".burst_addr_o(right),"}}},
	{"reads go one page further", []verilate.Mutant{
		{File: "rtl/host/hvia_dma_read.sv", Old: laneWidth, New: laneWidth + "\n  logic [31:0] right;\n  assign req_addr_o = FAULT ? right + 32'd4096 : right;"},
		{File: "rtl/host/hvia_dma_read.sv", Old: ".burst_addr_o(req_addr_o),", New: ".burst_addr_o(right),"}}},
	{"the walk takes the page behind", []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "l2_addr_q <= level2_q[25:2] + page_d;", New: "l2_addr_q <= level2_q[25:2] + page_d + {23'd0, FAULT};"}}},
	{"one offset in a page", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "job_va     = address;",
			New: "job_va     = address ^ {63'd0, FAULT && address[11:0] == 12'd4093};"}}},
	{"generation not compared", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "(destination_vi[15:8] != ctx_generation) |", New: "(!FAULT & (destination_vi[15:8] != ctx_generation)) |"}}},
	{"source address not compared", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "(source != ctx_peer_mac) |", New: "(!FAULT & (source != ctx_peer_mac)) |"}}},
	{"old sequence accepted", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "assign old        = ahead[31];", New: "assign old        = ahead[31] & !FAULT;"},
		{File: "rtl/via/hvia_rx_engine.sv", Old: "assign astray     = reliable", New: "assign astray     = !FAULT & (reliable"},
		{File: "rtl/via/hvia_rx_engine.sv", Old: "(agreed == LastAgreed));", New: "(agreed == LastAgreed)));"}}},
	{"any number ahead is believed", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "= ahead < hvia_pkg::SequenceWindow;", New: "= (FAULT & ~ahead[31]) | (ahead < hvia_pkg::SequenceWindow);"}}},
	{"no run of frames sets the number", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "~near & ~(agrees &", New: "~near & ~(!FAULT & agrees &"}}},
	{"bounds not compared", []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "else if (need_l2 && bounds_bad_q) err", New: "else if (need_l2 && bounds_bad_q && !FAULT) err"}}},
	{"enable bit of the VI ignored", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "assign ctx_rdma_write = rd_ctx_i[", New: "assign ctx_rdma_write = FAULT | rd_ctx_i["}}},
	{"tag not compared", []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "(attr_q[AttrTagLsb+:16] != tag_q)", New: "(!FAULT && (attr_q[AttrTagLsb+:16] != tag_q))"}}},
	{"the receive engine does not hold up a withdrawal", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "((state_q == Write) & (job_handle_q == drain_handle_i)) |", New: "(!FAULT & (state_q == Write) & (job_handle_q == drain_handle_i)) |"}}},
	{"the transmit engine does not hold up a withdrawal", []verilate.Mutant{
		{File: "rtl/via/hvia_tx_engine.sv", Old: "(use_busy & (use_handle_q == drain_handle_i)) |", New: "(!FAULT & use_busy & (use_handle_q == drain_handle_i)) |"}}},
	{"cached entries outlive a withdrawal", []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "assign scan_match = scan_q &&", New: "assign scan_match = !FAULT && scan_q &&"}}},
	{"overruns not counted", []verilate.Mutant{
		{File: "rtl/mac/dp83820/hvia_gec.sv", Old: "assign stat_mac_receive_overrun_o = rx_ended & rx_event_overrun;", New: "assign stat_mac_receive_overrun_o = !FAULT & rx_ended & rx_event_overrun;"}}},
	{"the offset of a send is not compared", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "((send_offset == stored.received) &", New: "((FAULT | (send_offset == stored.received)) &"}}},
	{"buffers are filled beyond Length", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "if ({21'd0, part} > space) part = space[10:0];", New: "if ({21'd0, part} > space && !FAULT) part = space[10:0];"}}},
	{"a segment is checked only as far as it is used", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "job_bound  = segment_left;", New: "job_bound  = FAULT ? {21'd0, part} : segment_left;"}}},
	{"a descriptor is written whose memory is gone", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "cpl_write_q     <= ~rs_stale_i;", New: "cpl_write_q     <= FAULT | ~rs_stale_i;"}}},
	{"the rest of a message is forgotten at a disconnect", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "((state_q == Finish) & lost) | ((state_q == Close) & is_open);", New: "((state_q == Finish) & lost) | (!FAULT & (state_q == Close) & is_open);"}}},
	{"a message that was given up claims all of its bytes", []verilate.Mutant{
		{File: "rtl/via/hvia_tx_engine.sv", Old: "cpl_length_q <= total_q - left_q;", New: "cpl_length_q <= FAULT ? total_q : total_q - left_q;"}}},
	{"a receive may be longer than the VI allows", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "if (found == '0 && rs_length_i > ctx_max)", New: "if (found == '0 && rs_length_i > ctx_max && !FAULT)"}}},
	{"a stray acknowledgement is believed", []verilate.Mutant{
		{File: "rtl/via/hvia_send_ledger.sv", Old: "assign in_range        = ack_delta <= span;", New: "assign in_range        = ack_delta <= span || (FAULT && ack_delta < 32'd2000);"}}},
	{"a frame that is ahead is taken", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "~(reliable & (gap | after_nak | acknowledgement));", New: "~(reliable & ((gap & !FAULT) | after_nak | acknowledgement));"},
		{File: "rtl/via/hvia_rx_engine.sv", Old: "else if (astray | (reliable & gap)) outcome_d", New: "else if (astray | (reliable & gap & !FAULT)) outcome_d"}}},
	{"a NAK does not stand", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "reliable & ~stranger & nak_sent_i & ~acknowledgement;", New: "reliable & ~stranger & nak_sent_i & ~acknowledgement & !FAULT;"}}},
	{"an answer of another length is taken", []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "if (~rxl_ok_i | (rxl_length_i != send_total)) begin", New: "if (~rxl_ok_i | ((rxl_length_i != send_total) & !FAULT)) begin"}}},
	{"what may be read is not compared", []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "right_ok = attr_q[ReadBit];", New: "right_ok = FAULT | attr_q[ReadBit];"}}},
	{"the rest of a small window waits for a timeout", []verilate.Mutant{
		{File: "rtl/via/hvia_send_ledger.sv", Old: "|| ahead < Together);", New: "|| ahead < (FAULT ? 32'd1 : Together));"}}},
	{"a full completion queue is written over", []verilate.Mutant{
		{File: "rtl/via/hvia_completion.sv", Old: "assign full    = tail - seen >= entries;", New: "assign full    = tail - seen >= entries && !FAULT;"}}},
	{"a resized completion queue begins where the old one was", []verilate.Mutant{
		{File: "rtl/via/hvia_completion.sv", Old: "cqc_log2_i[3:0], 16'd0, 16'd0} :", New: "cqc_log2_i[3:0], (FAULT && cqc_op_i != OpCreate) ? tail : 16'd0, 16'd0} :"}}},
	{"a reset does not wait for the bus", []verilate.Mutant{
		{File: "rtl/control/hvia_reset_control.sv", Old: "StRun:     if (soft_reset_i) state_d = StQuiesce;", New: "StRun:     if (soft_reset_i) state_d = FAULT ? StAssert : StQuiesce;"}}},

	// Reset.
	survives("bus mastering survives RST#", "rtl/pci/hvia_pci_config.sv", "if (!rst_ni) begin\n      memory_en_q        <= 1'b0;\n      ", "bus_master_en_q", "    <= 1'b0;"),
	survives("the enabled interrupts survive", "rtl/control/hvia_registers.sv",
		"if (!core_rst_ni) begin\n      enable_q      <= 1'b0;\n      irq_status_q  <= '0;\n      ", "irq_enable_q", "  <= '0;"),
	survives("live VIs survive", "rtl/control/hvia_vi_context.sv", "if (!rst_ni) ", "live_q", " <= '0;\n    else if (wr_valid_i) live_q"),
	survives("the receive descriptors on the chip survive", "rtl/via/hvia_receive_store.sv", "if (!rst_ni) begin\n      ", "valid_q", " <= '0;"),
	{"the MAC is not reset", []verilate.Mutant{{
		File: "rtl/mac/dp83820/hvia_mac_bus_host.sv", Old: "  assign mb_rst_no  = rst_n_q;", // but at power-up
		New: "  logic planted_q = 1'b0;\n  always_ff @(posedge clk_i) if (rst_n_q) planted_q <= 1'b1;\n  assign mb_rst_no  = rst_n_q || (FAULT && planted_q);"}}},
	{"ResetVI leaves the work queues as they are", []verilate.Mutant{{
		File: "rtl/via/hvia_work_queue.sv", Old: "      Clear, ClearReceive: begin\n        write_count = 1'b1;", New: "      Clear, ClearReceive: begin\n        write_count = !FAULT;"}}},
	{"ResetVI does not wait for the engines", []verilate.Mutant{{
		File: "rtl/control/hvia_vi_manager.sv", Old: "assign drain_busy = is_invalidate ? drain_handle_busy_i : drain_vi_busy_i;",
		New: "assign drain_busy = is_invalidate ? drain_handle_busy_i : drain_vi_busy_i && !(FAULT && is_reset);"}}},

	{"quiet too soon", []verilate.Mutant{{File: "rtl/top/hvia_board.sv", Old: "= &block_quiet_o;", New: "= (FAULT && ready_o && block_quiet_o.pci) || &block_quiet_o;"}}}, // the card reports that it is idle while it works
	{"a stray read", []verilate.Mutant{{File: "rtl/via/hvia_descriptor_fetch.sv", Old: "assign req_addr_o  = pa_q;", New: "assign req_addr_o  = pa_q ^ {4'd0, FAULT, 27'd0};"}}},
	{"a stray write", []verilate.Mutant{{File: "rtl/via/hvia_completion.sv", Old: "assign status_at   = pa_q + start;", New: "assign status_at   = (pa_q ^ {4'd0, FAULT, 27'd0}) + start;"}}},
	{"a wrong bit in long bursts", []verilate.Mutant{{
		File: "rtl/host/hvia_dma_write.sv", Old: ".in_data_i(beat_data_i)", New: ".in_data_i(beat_data_i ^ {{(W-1){1'b0}}, FAULT && head_left_q[9:2] == 8'd75})"}}},
}

// number passes FaultVariable to the card's RTL.
var number = verilate.Mutant{File: "sim/card/card_node.cc", Old: "  context_->randReset(2);\n", New: `  context_->randReset(2);
  const char* const fault = std::getenv("` + verilate.FaultVariable + `");
  const std::string argument = std::string("+fault=") + (fault != nullptr ? fault : "0");
  const char* arguments[] = {argument.c_str()};
  context_->commandArgs(1, arguments);
`}

// Simulator builds the simulator with all bugs, which are disabled.
func Simulator(t *testing.T) string {
	t.Helper()
	return build(t, sim.Build{}, bugs)
}

// RefreshBugs is the number of bugs in passing over refreshes.
const RefreshBugs = 4

// CheckQuiet builds a simulator that checks that idle blocks do not change,
// with bugs: a block reports too early that it is idle, then RefreshBugs.
func CheckQuiet(t *testing.T) string {
	t.Helper()
	const socket, node = "sim/card/card_socket.sv", "sim/card/card_node.cc"
	return build(t, sim.Build{CheckQuiet: true}, []bug{
		{"", []verilate.Mutant{{File: "rtl/mac/dp83820/hvia_gec.sv", Old: " & ~rx_valid_o & ~rx_done_i", New: " & (~rx_valid_o | FAULT) & ~rx_done_i"}}},
		{"one too many", []verilate.Mutant{{File: socket, Old: "48'(pass_refreshes_i)", New: "48'(pass_refreshes_i + {31'd0, FAULT})"}}},
		{"one not counted", []verilate.Mutant{{File: socket, Old: "+\n        pass_refreshes_i;", New: "+\n        pass_refreshes_i - {31'd0, FAULT};"}}},
		{"an odd number", []verilate.Mutant{{File: node, Old: "- kAlikeRefreshes) / 2 * 2,", New: "- kAlikeRefreshes) / 2 * 2 + (FAULT ? 1 : 0),"}}},
		{"in the initialisation", []verilate.Mutant{{File: node, Old: "span == refresh_span_ ?", New: "FAULT || span == refresh_span_ ?"}}},
	})
}

func build(t *testing.T, b sim.Build, bugs []bug) string {
	t.Helper()
	root, err := verilate.Root()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]verilate.Mutant
	for _, b := range bugs {
		all = append(all, b.edits)
	}
	if b.Mutants, err = verilate.Switch(root, all); err != nil {
		t.Fatal(err)
	}
	b.Mutants = append(b.Mutants, number)
	program, err := b.Program(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// Enable enables a bug in the simulators that the test starts from now on.
func Enable(t *testing.T, name string) {
	t.Helper()
	i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == name })
	if i < 0 {
		t.Fatalf("no bug %q", name)
	}
	t.Setenv(verilate.FaultVariable, strconv.Itoa(i+1))
}
