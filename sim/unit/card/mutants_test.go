// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

// Bugs injected into the card, each with the test that must notice it. All are
// in one simulator, because each build takes minutes. Straps that the card does
// not use contain the number of the active bug, from 1.
const firstFaultStrap = int(layout.StrapAttInHostMemory) + 1

func faultStraps(fault int) uint32 { return uint32(fault+1) << firstFaultStrap }

type plantedFault struct {
	name string
	// kind is the expected reason for the end of the run. Nil if the test
	// itself must notice the bug.
	kind  error
	catch func(r *rig)
	edits []verilate.Mutant // FAULT stands for the switch
}

const laneWidth = "  localparam int unsigned LaneW = $clog2(W / 8);"

var plantedFaults = []plantedFault{
	{name: "writes go one page further", kind: bridge.ErrMemoryFault, catch: fourPages, edits: []verilate.Mutant{
		{File: "rtl/host/hvia_dma_write.sv", Old: laneWidth, New: laneWidth + "\n  logic [31:0] right;\n  assign req_addr_o = FAULT ? right + 32'd4096 : right;"},
		{File: "rtl/host/hvia_dma_write.sv", Old: ".burst_addr_o(req_addr_o),", New: ".burst_addr_o(right),"}}},
	{name: "reads go one page further", kind: bridge.ErrMemoryFault, catch: fourPages, edits: []verilate.Mutant{
		{File: "rtl/host/hvia_dma_read.sv", Old: laneWidth, New: laneWidth + "\n  logic [31:0] right;\n  assign req_addr_o = FAULT ? right + 32'd4096 : right;"},
		{File: "rtl/host/hvia_dma_read.sv", Old: ".burst_addr_o(req_addr_o),", New: ".burst_addr_o(right),"}}},
	{name: "the walk takes the page behind", catch: fourPages, edits: []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "l2_addr_q <= level2_q[25:2] + page_d;", New: "l2_addr_q <= level2_q[25:2] + page_d + {23'd0, FAULT};"}}},
	{name: "one offset in a page", catch: shortMessages, edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "job_va     = address;",
			New: "job_va     = address ^ {63'd0, FAULT && address[11:0] == 12'd4093};"}}},
	{name: "generation not compared", catch: hostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "(destination_vi[15:8] != ctx_generation) |", New: "(!FAULT & (destination_vi[15:8] != ctx_generation)) |"}}},
	{name: "source address not compared", catch: hostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "(source != ctx_peer_mac) |", New: "(!FAULT & (source != ctx_peer_mac)) |"}}},
	{name: "old sequence accepted", catch: hostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "assign old        = ahead[31];", New: "assign old        = ahead[31] & !FAULT;"},
		{File: "rtl/via/hvia_rx_engine.sv", Old: "assign astray     = reliable", New: "assign astray     = !FAULT & (reliable"},
		{File: "rtl/via/hvia_rx_engine.sv", Old: "(agreed == LastAgreed));", New: "(agreed == LastAgreed)));"}}},
	{name: "any number ahead is believed", catch: forgedNumbersPlay(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "= ahead < hvia_pkg::SequenceWindow;", New: "= (FAULT & ~ahead[31]) | (ahead < hvia_pkg::SequenceWindow);"}}},
	{name: "no run of frames sets the number", catch: forgedNumbersPlay(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "~near & ~(agrees &", New: "~near & ~(!FAULT & agrees &"}}},
	{name: "bounds not compared", catch: hostility(2500), edits: []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "else if (need_l2 && bounds_bad_q) err", New: "else if (need_l2 && bounds_bad_q && !FAULT) err"}}},
	{name: "enable bit of the VI ignored", catch: manyVIs(24), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "assign ctx_rdma_write = rd_ctx_i[", New: "assign ctx_rdma_write = FAULT | rd_ctx_i["}}},
	{name: "tag not compared", catch: manyVIs(24), edits: []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "(attr_q[AttrTagLsb+:16] != tag_q)", New: "(!FAULT && (attr_q[AttrTagLsb+:16] != tag_q))"}}},
	{name: "the receive engine does not hold up a withdrawal", kind: bridge.ErrMemoryFault, catch: withdrawals(90), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "((state_q == Write) & (job_handle_q == drain_handle_i)) |", New: "(!FAULT & (state_q == Write) & (job_handle_q == drain_handle_i)) |"}}},
	{name: "the transmit engine does not hold up a withdrawal", kind: bridge.ErrMemoryFault, catch: withdrawals(400), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_tx_engine.sv", Old: "(use_busy & (use_handle_q == drain_handle_i)) |", New: "(!FAULT & use_busy & (use_handle_q == drain_handle_i)) |"}}},
	{name: "cached entries outlive a withdrawal", kind: bridge.ErrMemoryFault, catch: withdrawals(90), edits: []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "assign scan_match = scan_q &&", New: "assign scan_match = !FAULT && scan_q &&"}}},
	{name: "overruns not counted", catch: func(r *rig) { flood(r, layout.MaxPayload) }, edits: []verilate.Mutant{
		{File: "rtl/mac/dp83820/hvia_gec.sv", Old: "assign stat_mac_receive_overrun_o = rx_ended & rx_event_overrun;", New: "assign stat_mac_receive_overrun_o = !FAULT & rx_ended & rx_event_overrun;"}}},
	{name: "the offset of a send is not compared", catch: hostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "((send_offset == stored.received) &", New: "((FAULT | (send_offset == stored.received)) &"}}},
	{name: "buffers are filled beyond Length", catch: conversation(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "if ({21'd0, part} > space) part = space[10:0];", New: "if ({21'd0, part} > space && !FAULT) part = space[10:0];"}}},
	{name: "a segment is checked only as far as it is used", catch: conversation(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "job_bound  = segment_left;", New: "job_bound  = FAULT ? {21'd0, part} : segment_left;"}}},
	{name: "a descriptor is written whose memory is gone", kind: bridge.ErrMemoryFault, catch: conversation(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "cpl_write_q     <= ~rs_stale_i;", New: "cpl_write_q     <= FAULT | ~rs_stale_i;"}}},
	{name: "the rest of a message is forgotten at a disconnect", catch: conversation(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "((state_q == Finish) & lost) | ((state_q == Close) & is_open);", New: "((state_q == Finish) & lost) | (!FAULT & (state_q == Close) & is_open);"}}},
	{name: "a message that was given up claims all of its bytes", catch: conversation(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_tx_engine.sv", Old: "cpl_length_q <= total_q - left_q;", New: "cpl_length_q <= FAULT ? total_q : total_q - left_q;"}}},
	{name: "a receive may be longer than the VI allows", catch: conversation(100), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "if (found == '0 && rs_length_i > ctx_max)", New: "if (found == '0 && rs_length_i > ctx_max && !FAULT)"}}},
	{name: "a stray acknowledgement is believed", catch: reliableHostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_send_ledger.sv", Old: "assign in_range        = ack_delta <= span;", New: "assign in_range        = ack_delta <= span || (FAULT && ack_delta < 32'd2000);"}}},
	{name: "a frame that is ahead is taken", catch: reliableHostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "~(reliable & (gap | after_nak | acknowledgement));", New: "~(reliable & ((gap & !FAULT) | after_nak | acknowledgement));"},
		{File: "rtl/via/hvia_rx_engine.sv", Old: "else if (astray | (reliable & gap)) outcome_d", New: "else if (astray | (reliable & gap & !FAULT)) outcome_d"}}},
	{name: "a NAK does not stand", catch: reliableHostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "reliable & ~stranger & nak_sent_i & ~acknowledgement;", New: "reliable & ~stranger & nak_sent_i & ~acknowledgement & !FAULT;"}}},
	{name: "an answer of another length is taken", catch: reliableHostility(4000), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_rx_engine.sv", Old: "if (~rxl_ok_i | (rxl_length_i != send_total)) begin", New: "if (~rxl_ok_i | ((rxl_length_i != send_total) & !FAULT)) begin"}}},
	{name: "what may be read is not compared", catch: reliableHostility(2500), edits: []verilate.Mutant{
		{File: "rtl/att/hvia_att_walker.sv", Old: "right_ok = attr_q[ReadBit];", New: "right_ok = FAULT | attr_q[ReadBit];"}}},
	{name: "the rest of a small window waits for a timeout", catch: reliableHostility(2500), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_send_ledger.sv", Old: "|| ahead < Together);", New: "|| ahead < (FAULT ? 32'd1 : Together));"}}},
	{name: "a full completion queue is written over", catch: queueFull(1, 20), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_completion.sv", Old: "assign full    = tail - seen >= entries;", New: "assign full    = tail - seen >= entries && !FAULT;"}}},
	{name: "a resized completion queue begins where the old one was", catch: queueResize(4), edits: []verilate.Mutant{
		{File: "rtl/via/hvia_completion.sv", Old: "cqc_log2_i[3:0], 16'd0, 16'd0} :", New: "cqc_log2_i[3:0], (FAULT && cqc_op_i != OpCreate) ? tail : 16'd0, 16'd0} :"}}},
	{name: "a reset does not wait for the bus", catch: softResetRounds(24), edits: []verilate.Mutant{
		{File: "rtl/control/hvia_reset_control.sv", Old: "StRun:     if (soft_reset_i) state_d = StQuiesce;", New: "StRun:     if (soft_reset_i) state_d = FAULT ? StAssert : StQuiesce;"}}},
}

// quietHole makes a card report that it is idle while it works.
var quietHole = verilate.Mutant{File: "rtl/top/hvia_core.sv", Old: "assign idle    = &{", New: "assign idle    = (FAULT && att_ready) || &{"}

func faultyCard(t *testing.T) string {
	t.Helper()
	var mutants []verilate.Mutant
	add := func(fault int, edits ...verilate.Mutant) {
		for _, e := range edits {
			e.New = strings.ReplaceAll(e.New, "FAULT", fmt.Sprintf("(hvia_board.strap_i[31:%d] == %d'd%d)", firstFaultStrap, 32-firstFaultStrap, fault+1))
			mutants = append(mutants, e)
		}
	}
	for i, f := range plantedFaults {
		add(i, f.edits...)
	}
	add(len(plantedFaults), quietHole)
	program, err := sim.Build{Mutants: mutants}.Program(context.Background())
	require.NoError(t, err)
	return program
}

func TestPlantedFaults(t *testing.T) {
	unit.FaultySimulator(t)
	program := faultyCard(t)
	// Without a bug it passes.
	t.Run("none", func(t *testing.T) {
		mustPlay(t, config{program: program}, fourPages)
		mustPlay(t, config{program: program, rawLog2: 8}, reliableHostility(4000))
	})
	for i, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			unit.Fault(t)
			err := mustCatch(t, config{program: program, straps: faultStraps(i), rawLog2: 8}, f.catch)
			if f.kind != nil {
				require.ErrorIs(t, err, f.kind)
			}
		})
	}
	t.Run("quiet too soon", func(t *testing.T) {
		var digests [2]bridge.Digest
		c := config{program: program, straps: faultStraps(len(plantedFaults))}
		errs := make([]error, 2)
		for i := range digests {
			c.noSkip, c.digest = i == 1, &digests[i]
			errs[i] = play(t, c, unit.Seed(t), fourPages)
		}
		require.NoError(t, errs[1], "with nothing skipped the hole has no effect")
		if errs[0] == nil {
			require.NotEqual(t, digests[0], digests[1], "the injected bug was not noticed")
		}
		t.Logf("noticed: %v", errors.Join(errs...))
	})
}
