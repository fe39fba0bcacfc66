// SPDX-License-Identifier: Apache-2.0

package att_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim/bench/internal/unit"
	"hvia/sim/verilate"
)

const (
	walker  = "rtl/att_walker.sv"
	manager = "rtl/att_manager.sv"
)

// Operations of one run.
var sizes = unit.Sizes{Short: 5_000, Normal: 100_000, Long: 1_000_000}

func spec() verilate.Spec {
	return verilate.Spec{
		Name: "att_bench",
		Top:  "att_bench_top",
		RTL: []string{
			"rtl/gen/hvia_pkg.sv", "rtl/gen/hvia_params_pkg.sv",
			"rtl/cdc_sync.sv", "rtl/cdc_reset_sync.sv", "rtl/cdc_handshake.sv", "rtl/cdc_fifo.sv", "rtl/cdc_pulse.sv",
			walker, manager, "rtl/sdram_controller.sv",
			"rtl/checkers/cdc_handshake_checker.sv", "rtl/checkers/cdc_fifo_checker.sv",
			"rtl/checkers/att_walker_checker.sv", "rtl/checkers/att_manager_checker.sv", "rtl/checkers/sdram_controller_checker.sv",
			"sim/bench/att/cc/att_bench_top.sv",
		},
		Cpp:     []string{"sim/bench/att/cc/att_bench.cc", "sim/model/sdram_chip.cc"},
		Headers: []string{"sim/bench/internal/unit/*.h", "sim/model/*.h", "sim/gen/*.h"},
	}
}

// The card and the model get the same random life of the table: regions
// come and go, three clients translate at the same time, entries contradict themselves,
// the card is reset. Every answer must be the model's.
func TestDifferential(t *testing.T) {
	program := unit.Build(t, spec())
	r := run(t, program, options{seed: unit.Seed(t), operations: sizes.Pick(), corePeriod: 30_000})
	require.NoError(t, r.err)
	t.Logf("%s", r)
	for code, n := range r.codes {
		if !testing.Short() {
			require.NotZero(t, n, "no translation ended with %v: the run proves nothing about it", code)
		}
	}
	require.NotZero(t, r.raced, "no translation met an update")
}

// The same with the straps that take the table apart.
func TestStraps(t *testing.T) {
	program := unit.Build(t, spec())
	for name, straps := range map[string]uint32{
		"NoAttOverlap": 1 << layout.StrapNoAttOverlap,
		"SlowSdram":    1 << layout.StrapSlowSdram,
		"both":         1<<layout.StrapNoAttOverlap | 1<<layout.StrapSlowSdram,
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, program, options{seed: unit.Seed(t), operations: sizes.Pick() / 4, corePeriod: 30_000, straps: straps})
			require.NoError(t, r.err)
			t.Logf("%s", r)
			require.NotZero(t, r.raced, "no translation met an update")
		})
	}
}

// The same with other ratios of the clocks, and with the SDRAM slower than the core.
func TestClockRatios(t *testing.T) {
	program := unit.Build(t, spec())
	for _, period := range []int64{8_000, 10_000, 15_000, 40_000} {
		r := run(t, program, options{seed: unit.Seed(t) + uint64(period), operations: sizes.Pick() / 20, corePeriod: period})
		require.NoError(t, r.err, "core clock period %d ps", period)
		t.Logf("core clock period %d ps: %s", period, r)
	}
}

// The same with first flops of the synchronisers that resolve each change at
// random: every crossing's latency varies, no answer does.
func TestMetastable(t *testing.T) {
	s := spec()
	s.Name += "_metastable"
	s.RTL = slices.Clone(s.RTL)
	s.RTL[slices.Index(s.RTL, "rtl/cdc_sync.sv")] = "sim/bench/cdc/cc/cdc_sync_metastable.sv"
	program := unit.Build(t, s)
	r := run(t, program, options{seed: unit.Seed(t), operations: sizes.Pick() / 4, corePeriod: 30_000})
	require.NoError(t, r.err)
	t.Logf("%s", r)
}

// Skipping quiet time changes no answer and no time.
func TestSkippingIsExact(t *testing.T) {
	program := unit.Build(t, spec())
	for i := range uint64(4) {
		o := options{seed: unit.Seed(t) + 1 + i, operations: sizes.Pick() / 100, corePeriod: 30_000, pauses: true}
		with := run(t, program, o)
		require.NoError(t, with.err)
		o.noSkip = true
		without := run(t, program, o)
		require.NoError(t, without.err)
		require.NotZero(t, with.jumps, "nothing was skipped")
		require.Zero(t, without.jumps)
		require.Equal(t, without.digest, with.digest, "seed %d: events and times differ", o.seed)
	}
}

// A translation alone: from the request's first clock to the answer.
func TestLatency(t *testing.T) {
	program := unit.Build(t, spec())
	l := latency(t, program, unit.Seed(t), 0)
	t.Logf("core clocks from request to answer at 33.33 and 100 MHz, uncontended: cold (level 1 and 2) %v, warm (level 2 only) %v", l.cold, l.warm)
	require.LessOrEqual(t, l.cold.median(), 10, "cold")
	require.LessOrEqual(t, l.cold.quantile(0.98), 10, "cold, all but those that met a refresh")
	require.Less(t, l.warm.median(), l.cold.median(), "warm")
	// Without the kept entry every translation costs what a cold one does.
	k := latency(t, program, unit.Seed(t), 1<<layout.StrapNoAttOverlap)
	t.Logf("with NoAttOverlap: %v", k.cold)
	require.Empty(t, k.warm, "a level-1 entry was kept")
	require.Equal(t, l.cold.median(), k.cold.median())
	// An SDRAM of a third of the speed is no faster in any case.
	s := latency(t, program, unit.Seed(t), 1<<layout.StrapSlowSdram)
	t.Logf("with SlowSdram: cold %v, warm %v", s.cold, s.warm)
	require.Greater(t, s.cold.quantile(0), l.cold.quantile(0))
	require.Greater(t, s.warm.quantile(0), l.warm.quantile(0))
}

// The differential run finds each of these faults.
func TestMutants(t *testing.T) {
	straps := map[string]uint32{"entry_kept": 1 << layout.StrapNoAttOverlap}
	for name, m := range map[string]verilate.Mutant{
		"bound_off_by_one":   {File: walker, Old: "({4'd0, len_q} > room_q)", New: "({4'd0, len_q} > room_q + 36'd1)"},
		"tag_removed":        {File: walker, Old: "attr_q[AttrTagLsb+:16] != tag_q", New: "1'b0"},
		"tag_swapped":        {File: walker, Old: "attr_q[AttrTagLsb+:16] != tag_q", New: "{attr_q[AttrTagLsb+:8], attr_q[AttrTagLsb+8+:8]} != tag_q"},
		"missing_invalidate": {File: walker, Old: "else if (mem_req_ready_i) scan_q <= 1'b1;", New: "else if (mem_req_ready_i) update_done_q <= 1'b1;"},
		"scan_misses_last":   {File: walker, Old: "scan_last_q <= scan_ptr_q == LastLine;", New: "scan_last_q <= scan_ptr_q == LastLine - 1'b1;"},
		"entry_kept":         {File: walker, Old: "&& !corrupt_q && !forgetful_i;", New: "&& !corrupt_q && !(forgetful_i && client_q[0]);"},
		"limit_ignored":      {File: walker, Old: "assign index_ok = {1'b0, index} < limit_q;", New: "assign index_ok = {1'b0, index} <= limit_q;"},
		"no_bound":           {File: manager, Old: "assign pool    = (urgent != 4'd0) ? urgent : request;", New: "assign pool    = request | (urgent & 4'd0);"},
	} {
		t.Run(name, func(t *testing.T) {
			unit.Fault(t)
			s := spec()
			s.Name += "_" + name
			s.Mutants = []verilate.Mutant{m}
			program := unit.Build(t, s)
			r := run(t, program, options{seed: unit.Seed(t), operations: 20_000, corePeriod: 30_000, straps: straps[name]})
			require.Error(t, r.err, "the run did not catch the planted fault %q -> %q: %s", m.Old, m.New, r)
			t.Logf("caught: %v", r.err)
		})
	}
}
