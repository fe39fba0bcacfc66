// SPDX-License-Identifier: Apache-2.0

// Package pci_test tests the PCI side of the card (master, target,
// configuration space, arbiter) with models of the bus and of its users.
package pci_test

import (
	"fmt"
	"strconv"
	"testing"

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

func spec(t *testing.T, bits int) verilate.Spec {
	t.Helper()
	return unit.Testbench(t, "pci", "N="+strconv.Itoa(requesters), "W="+strconv.Itoa(bits))
}

// clocks scales a scenario's normal length.
func clocks(normal uint64) uint64 {
	return unit.Sizes{Short: normal / 10, Normal: normal * 2 / 5, Long: normal * 20}.Pick()
}

func run(t *testing.T, program, scenario string, bus int, clocks uint64, more ...string) (map[string]uint64, error) {
	t.Helper()
	return unit.Run(t.Context(), program, unit.Seed(t), clocks, append(more, "+scenario="+scenario, fmt.Sprintf("+bits=%d", bus))...)
}

func mustRun(t *testing.T, m machine, scenario string, clocks uint64, events ...string) map[string]uint64 {
	t.Helper()
	figures, err := run(t, unit.Build(t, spec(t, m.card)), scenario, m.bus, clocks)
	require.NoError(t, err)
	t.Logf("%s: %v", scenario, figures)
	for _, event := range events {
		require.NotZero(t, figures[event], "the run never met: %s", event)
	}
	return figures
}

// each runs a test on every machine. A short run uses only those whose bus has
// the card's width.
func each(t *testing.T, f func(*testing.T, machine)) {
	for _, m := range machines {
		if testing.Short() && m.card != m.bus {
			continue
		}
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

// requireWidths: a 64-bit card transfers 64 bits on a 64-bit bus, and 32 where
// the bridge does not grant them. No other card transfers 64 bits.
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
		f := mustRun(t, m, "random", clocks(500_000), "reads", "writes", "retries", "disconnects", "splits", "core_writes", "core_reads", "quiesced")
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
		mustRun(t, m, "reset", clocks(60_000), "resets_on_bus")
	})
}

// A soft reset ends with BusMaster off, and no earlier request is executed.
func TestBusMasterOff(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		mustRun(t, m, "busmaster", clocks(60_000), "dropped")
	})
}

func TestAborts(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "aborts", clocks(200_000), "read_errors", "write_errors", "master_aborts", "target_aborts", "reads", "writes")
		require.Equal(t, f["master_aborts"]+f["target_aborts"], f["read_errors"]+f["write_errors"])
	})
}

func TestParity(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		mustRun(t, m, "parity", clocks(100_000), "bad_parity", "spoiled_reads", "spoiled_writes")
	})
}

func TestDirected(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "directed", 0)
		require.EqualValues(t, 5, f["doorbell_clocks"], "address phase, decode, three dwords")
	})
}

// burstClocks is the limit in card.md, section 2, between two transactions of a
// card that always has the next one ready, including a transaction of the host.
var burstClocks = map[string]uint64{"32": 176, "64": 112, "64_on_32": 176}

// All masters issue requests continuously. The bounds must be met, and the load
// must be heavy enough to reach them.
func TestFairness(t *testing.T) {
	each(t, func(t *testing.T, m machine) {
		f := mustRun(t, m, "fairness", clocks(200_000))
		require.GreaterOrEqual(t, f["max_lost_last"], uint64(2*requesters))
		require.GreaterOrEqual(t, f["max_lost_patient"], uint64(2*requesters), "a low-priority requester waits until it is starved")
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

// 512-byte bursts back to back with memory without wait states: address phase,
// one clock of decode (AD turnaround for reads), the data, one idle clock. A
// single requester has one outstanding request of a kind, so the return path
// and arbitration (2 clocks here) are added.
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

// A late answer of the core breaks its contract, which the checker reports. A
// build without assertions shows that the bus survives it.
func TestLateCore(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a second build")
	}
	s := spec(t, 32)
	_, err := run(t, unit.Build(t, s), "latecore", 32, 20_000)
	require.ErrorContains(t, err, "the core has not answered")
	s.NoCheck = true
	f, err := run(t, unit.Build(t, s), "latecore", 32, clocks(100_000))
	require.NoError(t, err)
	require.NotZero(t, f["core_reads"])
}

// One of the scenarios must find each injected bug.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("needs separate builds")
	}
	const master, arbiter, target, pins = "rtl/pci/hvia_pci_master.sv", "rtl/host/hvia_host_arbiter.sv", "rtl/pci/hvia_pci_target.sv", "rtl/pci/hvia_pci_interface.sv"
	faults := []struct {
		scenario string
		bits     int
		bug      unit.Bug
	}{
		{"random", 32, unit.Bug{"byte enables shifted", master, "cbe_d = ~wshow[W+StrbW-1:W];\n          end",
			"cbe_d = FAULT ? ~{wshow[W+StrbW-2:W], wshow[W+StrbW-1]} : ~wshow[W+StrbW-1:W];\n          end"}},
		{"sweep", 64, unit.Bug{"ACK64# not looked at", master, "(devsel_n_i | ~ack64_n_i));", "(FAULT | devsel_n_i | ~ack64_n_i));"}},
		{"sweep", 64, unit.Bug{"lower dword of a beat forgotten", master, "odd ? low_q : ad_i[31:0]};", "(odd & !FAULT) ? low_q : ad_i[31:0]};"}},
		{"random", 32, unit.Bug{"address not advanced", master, "cur_addr_d = cur_addr_q + {22'd0, unit};", "cur_addr_d = FAULT ? cur_addr_q : cur_addr_q + {22'd0, unit};"}},
		{"fairness", 32, unit.Bug{"priority bound removed", arbiter, "if (|(req_valid_i & starved)) ", "if (!FAULT && |(req_valid_i & starved)) "}},
		{"fairness", 32, unit.Bug{"low priority without bound", arbiter, "|(req_valid_i & starved)) ", "|(req_valid_i & starved & (FAULT ? ~req_low_priority_i : '1))) "}},
		{"random", 32, unit.Bug{"low priority ignored", arbiter, "low_priority = req_low_priority_i & ~starved;", "low_priority = FAULT ? '0 : req_low_priority_i & ~starved;"}},
		{"random", 32, unit.Bug{"low priority ignored while others ask again", arbiter, "asked        = |req_more_i ?", "asked   = (!FAULT && |req_more_i) ?"}},
		{"random", 32, unit.Bug{"a shown request withdrawn for low priority", arbiter, "(lock_q | (|asked))", "((lock_q & !FAULT) | (|asked))"}},
		{"random", 32, unit.Bug{"target parity of C/BE# forgotten", target, "assign par_d     = ad_oe_q ? ^{ad_q, cbe_n_i} : par_q;",
			"assign par_d     = ad_oe_q ? (FAULT ? ^ad_q : ^{ad_q, cbe_n_i}) : par_q;"}},
		{"random", 32, unit.Bug{"REQ# stays after STOP#", master, "if (~stop & (backoff_q == 2'd0)) req_n_d", "if (FAULT | (~stop & (backoff_q == 2'd0))) req_n_d"}},
		{"random", 32, unit.Bug{"beat not awaited", master, "assign more       = cur_write_q ?", "assign more       = FAULT ? 1'b1 : cur_write_q ?"}},
		{"random", 64, unit.Bug{"PAR64 of C/BE# forgotten", master, "assign par64     = ^{ad_q[63:32], cbe_q[7:4]};",
			"assign par64     = FAULT ? ^ad_q[63:32] : ^{ad_q[63:32], cbe_q[7:4]};"}},
		{"random", 64, unit.Bug{"beat behind the upper half of the present one not awaited", master, "(Wide & ~wide & ~next_odd & (wcnt_d == 3'd1))",
			"(Wide & ~wide & (FAULT | ~next_odd) & (wcnt_d == 3'd1))"}},
		{"random", 32, unit.Bug{"latency timer ignored", master, "((latency_q == 8'd0) & gnt_n_i & (state_q == StData));", "((latency_q == 8'd0) & gnt_n_i & (state_q == StData) & !FAULT);"}},
		{"random", 32, unit.Bug{"IRDY# released while asserted", master, "          frame_oe_d = 1'b0;", "          frame_oe_d = 1'b0; if (FAULT) irdy_oe_d = 1'b0;"}},
		{"random", 32, unit.Bug{"quiet while a request is taken", master, "assign quiet_o = idle_o & ~req_take &", "assign quiet_o = idle_o & (FAULT | ~req_take) &"}},
		{"random", 32, unit.Bug{"STOP# taken back early", target, "if (irdy & frame_n_i) state_d = StTurn;", "if (irdy & (FAULT | frame_n_i)) state_d = StTurn;"}},
		{"directed", 32, unit.Bug{"window end ignored", target, "assign window_end = bar_now ? (&next_dword) : (&next_dword[13:0]);",
			"assign window_end = FAULT ? 1'b0 : bar_now ? (&next_dword) : (&next_dword[13:0]);"}},
		{"aborts", 32, unit.Bug{"write error answered as success", master, "werr_d  = complete & cur_write_q & (state_q == StDrain);", "werr_d  = !FAULT & complete & cur_write_q & (state_q == StDrain);"}},
		{"parity", 32, unit.Bug{"dword with bad parity written", target, "{4{~fhead_bad}};", "{4{~fhead_bad | FAULT}};"}},
		{"parity", 32, unit.Bug{"dword with bad parity forgotten in the buffer", target, "if (perr_o & posted_q) fbad_q", "if (perr_o & posted_q & !FAULT) fbad_q"}},
		{"parity", 32, unit.Bug{"configuration written with bad parity", target, "assign cfg_we_o      = cfg_we_q & ~perr_o;", "assign cfg_we_o      = cfg_we_q & (~perr_o | FAULT);"}},
		{"parity", 32, unit.Bug{"read with a bad last phase is good", master, "(perr_o & plast_q & (rrd_q == rnewest));", "(perr_o & plast_q & (rrd_q == rnewest) & !FAULT);"}},
		{"parity", 64, unit.Bug{"read with a bad phase in the middle is good", master, "(pbad_q | (perr_o & ~plast_q));", "(pbad_q | (perr_o & ~plast_q & !FAULT));"}},
		{"parity", 64, unit.Bug{"bad beat forgotten in the buffer", master, "if (perr_o & plast_q) rerr_q", "if (perr_o & plast_q & !FAULT) rerr_q"}},
		{"parity", 32, unit.Bug{"error goes on to the next read", master, "pbad_q       <= ~complete & (pbad_q", "pbad_q       <= (~complete | FAULT) & (pbad_q"}},
		{"parity", 32, unit.Bug{"PERR# without ParityResponse", target, "= set_data_parity_o & parity_en_i;", "= set_data_parity_o & (parity_en_i | FAULT);"}},
		{"parity", 32, unit.Bug{"PERR# of a write a clock late", master, "assign set_perr_seen_o    = wrote_q[1] & ~perr_n_i;", "assign set_perr_seen_o    = wrote_q[FAULT ? 0 : 1] & ~perr_n_i;"}},
		{"parity", 32, unit.Bug{"PERR# released low", pins, "perr_oe_q <= m_perr | t_perr | ~perr_n_q;", "perr_oe_q <= m_perr | t_perr | (~perr_n_q & !FAULT);"}},
		{"parity", 64, unit.Bug{"no PERR# for reads", pins, "perr_n_q  <= ~(m_perr | t_perr);", "perr_n_q  <= ~((m_perr & !FAULT) | t_perr);"}},
		{"parity", 32, unit.Bug{"SERR# without SerrEnable", pins, "address_parity & parity_en & serr_en;", "address_parity & parity_en & (serr_en | FAULT);"}},
		{"busmaster", 32, unit.Bug{"a soft reset waits for BusMaster", master, "assign drop = quiesce_i &", "assign drop = !FAULT & quiesce_i &"}},
		{"busmaster", 32, unit.Bug{"BusMaster revives what a soft reset has dropped", master, "(drop_q | ~bus_master_en_i);", "((drop_q & !FAULT) | ~bus_master_en_i);"}},
		{"busmaster", 32, unit.Bug{"a transaction begins in the clock after BusMaster was cleared", master, "bus_master_en_i & ~cfg_pending_i & ~drop;",
			"(FAULT | bus_master_en_i) & ~cfg_pending_i & (FAULT | ~drop);"}},
		{"busmaster", 32, unit.Bug{"a transaction begins while BusMaster is being cleared", master, "& ~cfg_pending_i &", "& (FAULT | ~cfg_pending_i) &"}},
	}
	var bugs []unit.Bug
	for _, f := range faults {
		bugs = append(bugs, f.bug)
	}
	program := map[int]string{}
	for _, m := range machines[:2] {
		program[m.bus] = unit.Build(t, unit.Inject(t, spec(t, m.card), bugs))
		_, err := run(t, program[m.bus], "random", m.bus, 150_000)
		require.NoError(t, err, "all bugs are switched off, and the testbench fails")
	}
	for i, f := range faults {
		t.Run(f.bug[0], func(t *testing.T) {
			size := uint64(150_000)
			if f.scenario == "sweep" {
				size = 1
			}
			_, err := run(t, program[f.bits], f.scenario, f.bits, size, fmt.Sprintf("+fault=%d", i+1))
			unit.Caught(t, err, f.bug[2], f.bug[3])
		})
	}
}
