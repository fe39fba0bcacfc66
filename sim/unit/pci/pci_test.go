// SPDX-License-Identifier: Apache-2.0

// Package pci_test tests the PCI side of the card (master, target,
// configuration space, arbiter) with models of the bus and of its users.
package pci_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"

	"github.com/stretchr/testify/require"
)

const requesters = 6

// machine is a width of the card's master and one of its bus.
type machine struct {
	name      string
	card, bus int // bits
}

var machines = []machine{{"32", 32, 32}, {"64", 64, 64}, {"64_on_32", 64, 32}}

func spec(bits int) verilate.Spec {
	w := strconv.Itoa(bits)
	return verilate.Spec{
		Name: "pci_bench_" + w,
		Top:  "pci_tb",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv",
			"rtl/pci/hvia_pci_master.sv", "rtl/pci/hvia_pci_target.sv", "rtl/pci/hvia_pci_config.sv", "rtl/pci/hvia_pci_interface.sv", "rtl/host/hvia_host_arbiter.sv",
			"rtl/pci/checkers/hvia_pci_master_checker.sv", "rtl/pci/checkers/hvia_pci_target_checker.sv", "rtl/host/checkers/hvia_host_arbiter_checker.sv",
			"sim/unit/pci/pci_tb.sv",
		},
		Cpp:     []string{"sim/unit/pci/cc/pci_tb.cc", "sim/model/pci_bus.cc", "sim/model/host_bridge.cc", "sim/model/pci_enumerator.cc"},
		Headers: []string{"sim/model/*.h", "sim/gen/*.h"},
		Params:  map[string]string{"N": strconv.Itoa(requesters), "W": w},
		Defines: []string{"BENCH_N=" + strconv.Itoa(requesters), "BENCH_W=" + w},
	}
}

func seed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("HVIA_SEED")
	if s == "" {
		return 1
	}
	v, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err, "HVIA_SEED")
	return v
}

// clocks scales a scenario's normal length.
func clocks(normal uint64) uint64 {
	switch {
	case testing.Short():
		return normal / 10
	case os.Getenv("HVIA_LONG") != "":
		return normal * 20
	}
	return normal
}

func build(t *testing.T, s verilate.Spec) string {
	t.Helper()
	program, err := verilate.Build(t.Context(), s)
	require.NoError(t, err)
	return program
}

// run returns the testbench's figures, or its error text. Further arguments are
// for Verilator.
func run(t *testing.T, program, scenario string, bus int, seed, clocks uint64, more ...string) (map[string]uint64, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	arguments := append([]string{"--scenario", scenario, "--seed", strconv.FormatUint(seed, 10), "--clocks", strconv.FormatUint(clocks, 10), "--bits", strconv.Itoa(bus)}, more...)
	cmd := exec.CommandContext(ctx, program, arguments...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, err.Error() + "\n" + stdout.String() + stderr.String()
	}
	figures := map[string]uint64{}
	require.NoError(t, json.Unmarshal([]byte(stdout.String()), &figures), "%s", stdout.String())
	if stderr.Len() != 0 {
		t.Log(strings.TrimSpace(stderr.String()))
	}
	return figures, ""
}

func mustRun(t *testing.T, m machine, scenario string, clocks uint64) map[string]uint64 {
	t.Helper()
	figures, complaint := run(t, build(t, spec(m.card)), scenario, m.bus, seed(t), clocks)
	require.Empty(t, complaint, "replay with HVIA_SEED=%d", seed(t))
	t.Logf("%s: %v", scenario, figures)
	return figures
}

// each runs a test on every machine, the short run on those whose bus has the
// card's width.
func each(t *testing.T, f func(*testing.T, machine)) {
	for _, m := range machines {
		if testing.Short() && m.card != m.bus {
			continue
		}
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

// requireWidths: a card of 64 bits transfers 64 bits on a bus that has them,
// and 32 where the bridge does not grant them; no other does either.
func requireWidths(t *testing.T, m machine, f map[string]uint64) {
	t.Helper()
	if m.card == 64 && m.bus == 64 {
		require.NotZero(t, f["wide"])
		require.NotZero(t, f["narrow"], "the bridge never answered with 32 bits")
		return
	}
	require.Zero(t, f["wide"])
	require.Zero(t, f["narrow"])
}

func TestRandom(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "random", clocks(500_000))
		for _, key := range []string{"reads", "writes", "retries", "disconnects", "splits", "core_writes", "core_reads", "quiesced"} {
			require.NotZero(t, f[key], "the run never met: %s", key)
		}
		requireWidths(t, m, f)
	})
}

func TestRandomRepeats(t *testing.T) {
	one := mustRun(t, machines[1], "random", clocks(60_000))
	two := mustRun(t, machines[1], "random", clocks(60_000))
	require.Equal(t, one, two)
}

// Every alignment and every length from 1 to 512, reads and writes.
func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		stride := uint64(1)
		if testing.Short() {
			stride = 13
		}
		f := mustRun(t, m, "sweep", stride)
		require.GreaterOrEqual(t, f["reads"], uint64(m.card/8*512)/stride)
		require.GreaterOrEqual(t, f["writes"], uint64(m.card/8*512)/stride)
		requireWidths(t, m, f)
	})
}

func TestReset(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "reset", clocks(60_000))
		require.NotZero(t, f["resets_on_bus"], "no reset fell into a transaction")
	})
}

// A soft reset ends with BusMaster off, and nothing from before it is executed.
func TestBusMasterOff(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "busmaster", clocks(60_000))
		require.NotZero(t, f["dropped"], "no request was pending")
	})
}

func TestAborts(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "aborts", clocks(200_000))
		for _, key := range []string{"read_errors", "write_errors", "master_aborts", "target_aborts", "reads", "writes"} {
			require.NotZero(t, f[key], "the run never met: %s", key)
		}
		require.Equal(t, f["master_aborts"]+f["target_aborts"], f["read_errors"]+f["write_errors"])
	})
}

func TestParity(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "parity", clocks(100_000))
		require.NotZero(t, f["bad_parity"])
		require.NotZero(t, f["spoiled_reads"])
		require.NotZero(t, f["spoiled_writes"])
	})
}

func TestDirected(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "directed", 0)
		require.EqualValues(t, 5, f["doorbell_clocks"], "address phase, decode, three dwords")
	})
}

// burstClocks is what card.md, section 2, allows between two transactions of a
// card that always has the next one ready, a transaction of the host included.
var burstClocks = map[string]uint64{"32": 176, "64": 112, "64_on_32": 176}

// All masters request all the time. The bounds must be met, and the load must
// be heavy enough to need them.
func TestFairness(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "fairness", clocks(200_000))
		require.GreaterOrEqual(t, f["max_lost_last"], uint64(2*requesters))
		require.GreaterOrEqual(t, f["max_lost_patient"], uint64(2*requesters), "a patient requester gives way until it is hungry")
		b := burstClocks[m.name]
		require.LessOrEqual(t, f["max_turn"], b)
		for i := range uint64(requesters) {
			n := strconv.FormatUint(i, 10)
			grants := 2*requesters + i
			if i == 0 {
				grants = requesters - 1
			}
			require.LessOrEqual(t, f["max_lost_"+n], grants, "grants that requester %d lost in a row", i)
			require.LessOrEqual(t, f["max_wait_"+n], (grants+3)*b, "clocks that requester %d waited", i)
		}
	})
}

// 512-byte bursts back to back at memory without wait states: address phase,
// one clock of decode (AD turnaround for reads), the data, one idle clock. A
// single requester has one request of a kind outstanding, so the return path
// and arbitration (2 clocks here) come on top.
func TestSpeed(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "speed", 0)
		data := 512 * 8 / min(m.card, m.bus)
		for _, key := range []string{"read_512_clocks", "write_512_clocks"} {
			require.EqualValues(t, 1+1+data+1, f[key+"_2"], key)
			require.EqualValues(t, 1+1+data+1+4, f[key+"_1"], key)
		}
	})
}

// A core that answers late breaks its contract, which the checker reports; a
// build without assertions shows that the bus survives it.
func TestLateCore(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a second build")
	}
	_, complaint := run(t, build(t, spec(32)), "latecore", 32, seed(t), 20_000)
	require.Contains(t, complaint, "the core has not answered")
	s := spec(32)
	s.NoCheck = true
	f, complaint := run(t, build(t, s), "latecore", 32, seed(t), clocks(100_000))
	require.Empty(t, complaint)
	require.NotZero(t, f["core_reads"])
}

// One of the scenarios must find each injected bug.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("needs builds of its own")
	}
	const master, arbiter, target, pins = "rtl/pci/hvia_pci_master.sv", "rtl/host/hvia_host_arbiter.sv", "rtl/pci/hvia_pci_target.sv", "rtl/pci/hvia_pci_interface.sv"
	anchors := map[string]string{
		master:  "localparam bit          Wide              = W == 64;",
		arbiter: "localparam int unsigned LossW    = $clog2(Bound + 1);",
		target:  "localparam logic [3:0] FifoRoom      = 4'd6;",
		pins:    "logic         perr_seen, m_perr, t_perr;",
	}
	faults := []struct {
		name, scenario string
		bits           int
		file, old, new string
	}{
		{"byte enables shifted", "random", 32, master, "cbe_d = ~wshow[W+StrbW-1:W];\n          end",
			"cbe_d = FAULT ? ~{wshow[W+StrbW-2:W], wshow[W+StrbW-1]} : ~wshow[W+StrbW-1:W];\n          end"},
		{"ACK64# not looked at", "sweep", 64, master, "(devsel_n_i | ~ack64_n_i));", "(FAULT | devsel_n_i | ~ack64_n_i));"},
		{"lower dword of a beat forgotten", "sweep", 64, master, "odd ? low_q : ad_i[31:0]};", "(odd & !FAULT) ? low_q : ad_i[31:0]};"},
		{"address not advanced", "random", 32, master, "cur_addr_d = cur_addr_q + {22'd0, unit};", "cur_addr_d = FAULT ? cur_addr_q : cur_addr_q + {22'd0, unit};"},
		{"priority bound removed", "fairness", 32, arbiter, "if (|(req_valid_i & hungry)) ", "if (!FAULT && |(req_valid_i & hungry)) "},
		{"patience without end", "fairness", 32, arbiter, "|(req_valid_i & hungry)) ", "|(req_valid_i & hungry & (FAULT ? ~req_patient_i : '1))) "},
		{"patience ignored", "random", 32, arbiter, "patient = req_patient_i & ~hungry;", "patient = FAULT ? '0 : req_patient_i & ~hungry;"},
		{"not patient with those that ask again", "random", 32, arbiter, "asked   = |req_more_i ?", "asked   = (!FAULT && |req_more_i) ?"},
		{"a shown request withdrawn for patience", "random", 32, arbiter, "(lock_q | (|asked))", "((lock_q & !FAULT) | (|asked))"},
		{"target parity of C/BE# forgotten", "random", 32, target, "assign par_d     = ad_oe_q ? ^{ad_q, cbe_n_i} : par_q;",
			"assign par_d     = ad_oe_q ? (FAULT ? ^ad_q : ^{ad_q, cbe_n_i}) : par_q;"},
		{"REQ# stays after STOP#", "random", 32, master, "if (~stop & (backoff_q == 2'd0)) req_n_d", "if (FAULT | (~stop & (backoff_q == 2'd0))) req_n_d"},
		{"beat not awaited", "random", 32, master, "assign more       = cur_write_q ?", "assign more       = FAULT ? 1'b1 : cur_write_q ?"},
		{"PAR64 of C/BE# forgotten", "random", 64, master, "assign par64     = ^{ad_q[63:32], cbe_q[7:4]};",
			"assign par64     = FAULT ? ^ad_q[63:32] : ^{ad_q[63:32], cbe_q[7:4]};"},
		{"beat behind the upper half of the present one not awaited", "random", 64, master, "(Wide & ~wide & ~next_odd & (wcnt_d == 3'd1))",
			"(Wide & ~wide & (FAULT | ~next_odd) & (wcnt_d == 3'd1))"},
		{"latency timer ignored", "random", 32, master, "((latency_q == 8'd0) & gnt_n_i & (state_q == StData));", "((latency_q == 8'd0) & gnt_n_i & (state_q == StData) & !FAULT);"},
		{"IRDY# released while asserted", "random", 32, master, "          frame_oe_d = 1'b0;", "          frame_oe_d = 1'b0; if (FAULT) irdy_oe_d = 1'b0;"},
		{"quiet while a request is taken", "random", 32, master, "assign quiet_o = idle_o & ~req_take &", "assign quiet_o = idle_o & (FAULT | ~req_take) &"},
		{"STOP# taken back early", "random", 32, target, "if (irdy & frame_n_i) state_d = StTurn;", "if (irdy & (FAULT | frame_n_i)) state_d = StTurn;"},
		{"window end ignored", "directed", 32, target, "assign window_end = bar_now ? (&next_dword) : (&next_dword[13:0]);",
			"assign window_end = FAULT ? 1'b0 : bar_now ? (&next_dword) : (&next_dword[13:0]);"},
		{"write error answered as success", "aborts", 32, master, "werr_d  = complete & cur_write_q & (state_q == StDrain);", "werr_d  = !FAULT & complete & cur_write_q & (state_q == StDrain);"},
		{"dword with bad parity written", "parity", 32, target, "{4{~fhead_bad}};", "{4{~fhead_bad | FAULT}};"},
		{"dword with bad parity forgotten in the buffer", "parity", 32, target, "if (perr_o & posted_q) fbad_q", "if (perr_o & posted_q & !FAULT) fbad_q"},
		{"configuration written with bad parity", "parity", 32, target, "assign cfg_we_o      = cfg_we_q & ~perr_o;", "assign cfg_we_o      = cfg_we_q & (~perr_o | FAULT);"},
		{"read with a bad last phase is good", "parity", 32, master, "(perr_o & plast_q & (rrd_q == rnewest));", "(perr_o & plast_q & (rrd_q == rnewest) & !FAULT);"},
		{"read with a bad phase in the middle is good", "parity", 64, master, "(pbad_q | (perr_o & ~plast_q));", "(pbad_q | (perr_o & ~plast_q & !FAULT));"},
		{"bad beat forgotten in the buffer", "parity", 64, master, "if (perr_o & plast_q) rerr_q", "if (perr_o & plast_q & !FAULT) rerr_q"},
		{"error goes on to the next read", "parity", 32, master, "pbad_q       <= ~complete & (pbad_q", "pbad_q       <= (~complete | FAULT) & (pbad_q"},
		{"PERR# without ParityResponse", "parity", 32, target, "= set_data_parity_o & parity_en_i;", "= set_data_parity_o & (parity_en_i | FAULT);"},
		{"PERR# of a write a clock late", "parity", 32, master, "assign set_perr_seen_o    = wrote_q[1] & ~perr_n_i;", "assign set_perr_seen_o    = wrote_q[FAULT ? 0 : 1] & ~perr_n_i;"},
		{"PERR# released low", "parity", 32, pins, "perr_oe_q <= m_perr | t_perr | ~perr_n_q;", "perr_oe_q <= m_perr | t_perr | (~perr_n_q & !FAULT);"},
		{"no PERR# for reads", "parity", 64, pins, "perr_n_q  <= ~(m_perr | t_perr);", "perr_n_q  <= ~((m_perr & !FAULT) | t_perr);"},
		{"SERR# without SerrEnable", "parity", 32, pins, "address_parity & parity_en & serr_en;", "address_parity & parity_en & (serr_en | FAULT);"},
		{"a soft reset waits for BusMaster", "busmaster", 32, master, "assign drop = quiesce_i &", "assign drop = !FAULT & quiesce_i &"},
		{"BusMaster revives what a soft reset has dropped", "busmaster", 32, master, "(drop_q | ~bus_master_en_i);", "((drop_q & !FAULT) | ~bus_master_en_i);"},
		{"a transaction begins in the clock after BusMaster was cleared", "busmaster", 32, master, "bus_master_en_i & ~cfg_pending_i & ~drop;",
			"(FAULT | bus_master_en_i) & ~cfg_pending_i & (FAULT | ~drop);"},
		{"a transaction begins while BusMaster is being cleared", "busmaster", 32, master, "& ~cfg_pending_i &", "& (FAULT | ~cfg_pending_i) &"},
	}
	var planted []unit.Switched
	for _, f := range faults {
		planted = append(planted, unit.Switched{Name: f.name, File: f.file, Old: f.old, New: f.new})
	}
	program := map[int]string{}
	for _, m := range machines[:2] {
		program[m.bus] = build(t, unit.Plant(t, spec(m.card), anchors, planted))
		_, complaint := run(t, program[m.bus], "random", m.bus, seed(t), 150_000)
		require.Empty(t, complaint, "all faults are switched off, and the bench fails")
	}
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			size := uint64(150_000)
			if f.scenario == "sweep" {
				size = 1
			}
			_, complaint := run(t, program[f.bits], f.scenario, f.bits, seed(t), size, fmt.Sprintf("+fault=%d", i+1))
			require.NotEmpty(t, complaint, "the bench does not see the fault")
			t.Log(strings.SplitN(complaint, "\n", 3)[1])
		})
	}
}
