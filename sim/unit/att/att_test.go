// SPDX-License-Identifier: Apache-2.0

package att_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/att"
	"hvia/layout"
	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

const (
	walker  = "rtl/att/hvia_att_walker.sv"
	manager = "rtl/att/hvia_att_manager.sv"
	memory  = "rtl/att/hvia_att_memory.sv"
)

// Operations of one run.
var sizes = unit.Sizes{Short: 5_000, Normal: 50_000, Long: 1_000_000}

func spec(t *testing.T) verilate.Spec {
	t.Helper()
	return unit.Testbench(t, "att", "W=32")
}

// The card and the model get the same random operations: regions come and go,
// three clients translate at the same time, entries are contradictory, the card
// is reset. Every answer must be the model's.
func TestDifferential(t *testing.T) {
	program := unit.Build(t, spec(t))
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

func TestFewerVIs(t *testing.T) {
	unit.WithFewerVIs(t, spec(t), func(t *testing.T, s verilate.Spec) {
		r := run(t, unit.Build(t, s), options{seed: unit.Seed(t), operations: sizes.Normal, corePeriod: 30_000})
		require.NoError(t, r.err)
	})
}

// The same with each strap of the table.
func TestStraps(t *testing.T) {
	program := unit.Build(t, spec(t))
	for name, straps := range map[string]uint32{
		"NoAttOverlap":    1 << layout.StrapNoAttOverlap,
		"SlowSdram":       1 << layout.StrapSlowSdram,
		"both":            1<<layout.StrapNoAttOverlap | 1<<layout.StrapSlowSdram,
		"AttInHostMemory": 1 << layout.StrapAttInHostMemory,
		"all":             1<<layout.StrapNoAttOverlap | 1<<layout.StrapSlowSdram | 1<<layout.StrapAttInHostMemory,
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, program, options{seed: unit.Seed(t), operations: sizes.Pick() / 4, corePeriod: 30_000, straps: straps})
			require.NoError(t, r.err)
			t.Logf("%s", r)
			require.NotZero(t, r.raced, "no translation met an update")
		})
	}
}

// A table in host memory behind a 64-bit bus, with other clock ratios, and with
// pauses in which time is skipped.
func TestHostMemory(t *testing.T) {
	program := unit.Build(t, unit.Testbench(t, "att", "W=64"))
	for _, period := range []int64{8_000, 15_000, 40_000} {
		o := options{seed: unit.Seed(t) + uint64(period), operations: sizes.Pick() / 20, corePeriod: period, straps: 1 << layout.StrapAttInHostMemory}
		r := run(t, program, o)
		require.NoError(t, r.err, "core clock period %d ps", period)
		t.Logf("core clock period %d ps: %s", period, r)
	}
	o := options{seed: unit.Seed(t), operations: sizes.Pick() / 100, corePeriod: 15_000, pauses: true, straps: 1 << layout.StrapAttInHostMemory}
	with := run(t, program, o)
	require.NoError(t, with.err)
	o.noSkip = true
	without := run(t, program, o)
	require.NoError(t, without.err)
	require.NotZero(t, with.jumps, "nothing was skipped")
}

// A bus error makes an operation an error, never a wrong answer. The card does
// not use data that it could not read.
func TestHostMemoryFails(t *testing.T) {
	require.NoError(t, hostMemoryFails(t, unit.Build(t, spec(t)), 0))
}

func hostMemoryFails(t *testing.T, program string, fault int) error {
	// the limit operation (opLimit) makes this many host writes
	const limit = 16
	table, err := att.NewTable(limit)
	require.NoError(t, err)
	region := att.Region{Start: 1 << 40, Length: 4096, Pages: []uint32{7 << 12}, Tag: 3}
	reg, err := table.Register(region)
	require.NoError(t, err)
	entry := reg.Entry.Dwords()
	const never = -1
	for _, c := range []struct {
		reads, writes int // successful transfers
		want          [9]uint8
	}{
		// limit, level 2, level 1, translation, invalidation, translation;
		// level 1, limit, translation
		{never, never, [9]uint8{0, 0, 0, none, 0, noHandle, 0, 0, noHandle}},
		{never, 0, [9]uint8{1, 1, 1, noHandle, 1, noHandle, 1, 1, noHandle}},
		{never, 5, [9]uint8{1, 1, 1, noHandle, 1, noHandle, 1, 1, noHandle}},
		{never, limit, [9]uint8{0, 1, 1, noHandle, 1, noHandle, 1, 1, noHandle}},
		{never, limit + 1, [9]uint8{0, 0, 1, noHandle, 1, noHandle, 1, 1, noHandle}},
		{never, limit + 2, [9]uint8{0, 0, 0, none, 1, none, 1, 1, noHandle}},
		{never, limit + 4, [9]uint8{0, 0, 0, none, 0, noHandle, 0, 1, noHandle}},
		{0, never, [9]uint8{0, 0, 0, backend, 1, backend, 0, 0, backend}},
		{1, never, [9]uint8{0, 0, 0, backend, 1, backend, 0, 0, backend}},
		{2, never, [9]uint8{0, 0, 0, none, 1, backend, 0, 0, backend}},
	} {
		limits := []string{fmt.Sprintf("+fault=%d", fault)}
		if c.reads != never {
			limits = append(limits, fmt.Sprintf("+failreads=%d", c.reads))
		}
		if c.writes != never {
			limits = append(limits, fmt.Sprintf("+failwrites=%d", c.writes))
		}
		b := startBench(t, program, unit.Seed(t), 30_000, false, 1<<layout.StrapAttInHostMemory, limits...)
		translation := operation{Kind: opTranslate, Lane: uint8(layout.AttClientReceive), Argument: uint32(reg.Handle), Va: region.Start, Length: 4, Tag: region.Tag}
		var got [9]uint8
		for i, step := range []struct {
			op    operation
			words []uint32
		}{
			{operation{Kind: opLimit, Argument: limit}, nil},
			{operation{Kind: opWrite, Argument: reg.Entry.Level2Address, Length: 1}, reg.Level2},
			{operation{Kind: opWrite, Argument: att.Level1Address(reg.Handle.Index()), Length: uint32(len(entry))}, entry},
			{translation, nil},
			{operation{Kind: opInvalidate, Argument: uint32(reg.Handle)}, nil},
			{translation, nil},
			{operation{Kind: opWrite, Argument: att.Level1Address(reg.Handle.Index()), Length: uint32(len(entry))}, entry},
			{operation{Kind: opLimit, Argument: limit}, nil},
			{translation, nil},
		} {
			if step.op.Kind != opTranslate {
				step.op.Lane = updateLane
			}
			step.op.ID = uint32(i + 1)
			if err := errors.Join(b.send(step.op, step.words), b.send(operation{Kind: opRun}, nil), b.flush()); err != nil {
				return err
			}
			for {
				e, err := b.next()
				if err != nil {
					return err
				}
				if e.Type == evDone || e.Type == evResponse {
					got[i] = e.Error
				}
				if e.Type == evRan {
					break
				}
			}
		}
		if got != c.want {
			return fmt.Errorf("%d reads and %d writes go well: the operations ended with %d, want %d", c.reads, c.writes, got, c.want)
		}
	}
	return nil
}

const (
	none     = uint8(layout.AttErrorNone)
	noHandle = uint8(layout.AttErrorHandle)
	backend  = uint8(layout.AttErrorBackend)
)

// The same with other ratios of the clocks, and with the SDRAM slower than the
// core.
func TestClockRatios(t *testing.T) {
	program := unit.Build(t, spec(t))
	for _, period := range []int64{8_000, 10_000, 15_000, 40_000} {
		r := run(t, program, options{seed: unit.Seed(t) + uint64(period), operations: sizes.Pick() / 20, corePeriod: period})
		require.NoError(t, r.err, "core clock period %d ps", period)
		t.Logf("core clock period %d ps: %s", period, r)
	}
}

// The same with synchronizers whose first flops resolve each change at random.
// The latency of every crossing varies, but no answer changes.
func TestMetastable(t *testing.T) {
	s := spec(t)
	s.Name += "_metastable"
	s.RTL[slices.Index(s.RTL, "rtl/prim/hvia_cdc_sync.sv")] = "sim/unit/prim/cdc/metastable.sv"
	program := unit.Build(t, s)
	r := run(t, program, options{seed: unit.Seed(t), operations: sizes.Pick() / 4, corePeriod: 30_000})
	require.NoError(t, r.err)
	t.Logf("%s", r)
}

// Skipping idle time changes no answer and no time.
func TestSkippingIsExact(t *testing.T) {
	program := unit.Build(t, spec(t))
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

// TestLatency measures single translations, from the request's first clock to
// the response.
func TestLatency(t *testing.T) {
	program := unit.Build(t, spec(t))
	l := latency(t, program, unit.Seed(t), 0)
	t.Logf("core clocks from request to answer at 33.33 and 100 MHz, uncontended: cold (level 1 and 2) %v, warm (level 2 only) %v", l.cold, l.warm)
	require.LessOrEqual(t, l.cold.median(), 10, "cold")
	require.LessOrEqual(t, l.cold.quantile(0.98), 10, "cold, all but those that met a refresh")
	require.Less(t, l.warm.median(), l.cold.median(), "warm")
	// Without the cached entry every translation takes as long as a cold one.
	k := latency(t, program, unit.Seed(t), 1<<layout.StrapNoAttOverlap)
	t.Logf("with NoAttOverlap: %v", k.cold)
	require.Empty(t, k.warm, "a level-1 entry was kept")
	require.Equal(t, l.cold.median(), k.cold.median())
	// A slow SDRAM makes even the fastest translation slower.
	s := latency(t, program, unit.Seed(t), 1<<layout.StrapSlowSdram)
	t.Logf("with SlowSdram: cold %v, warm %v", s.cold, s.warm)
	require.Greater(t, s.cold.quantile(0), l.cold.quantile(0))
	require.Greater(t, s.warm.quantile(0), l.warm.quantile(0))
}

// Bugs that the differential run finds, with these straps.
var differentialBugs = []unit.Bug{
	{"bound_off_by_one", walker, "({4'd0, len_q} > space_q)", "({4'd0, len_q} > space_q + 36'(FAULT))"},
	{"tag_removed", walker, "attr_q[AttrTagLsb+:16] != tag_q", "!FAULT && (attr_q[AttrTagLsb+:16] != tag_q)"},
	{"tag_swapped", walker, "(attr_q[AttrTagLsb+:16] != tag_q)",
		"((FAULT ? {attr_q[AttrTagLsb+:8], attr_q[AttrTagLsb+8+:8]} : attr_q[AttrTagLsb+:16]) != tag_q)"},
	{"missing_invalidate", walker, "else if (mem_req_ready_i) scan_q <= 1'b1;", "else if (mem_req_ready_i && FAULT) update_done_q <= 1'b1;\n          else if (mem_req_ready_i) scan_q <= 1'b1;"},
	{"scan_misses_last", walker, "scan_last_q <= scan_ptr_q == LastLine;", "scan_last_q <= scan_ptr_q == (FAULT ? LastLine - 1'b1 : LastLine);"},
	{"entry_kept", walker, "&& !corrupt_q && !forgetful_i;", "&& !corrupt_q && !(forgetful_i && (client_q[0] || !FAULT));"},
	{"unchecked_address", walker, "(host_i ? step_q[3] && sound : entry_ok)", "(host_i && !FAULT ? step_q[3] && sound : entry_ok)"},
	{"words_awaited", memory, "assign words_in    = count_q == mem_req_len_i;", "assign words_in    = FAULT ? count_q + 4'd1 >= mem_req_len_i : count_q == mem_req_len_i;"},
	{"wrong_level", memory, "(ask_addr[23] ? level2_i : level1_i)", "((FAULT ? ask_addr[22] : ask_addr[23]) ? level2_i : level1_i)"},
	{"limit_ignored", walker, "assign index_ok = {1'b0, index} < limit_q;", "assign index_ok = FAULT ? {1'b0, index} <= limit_q : {1'b0, index} < limit_q;"},
	{"no_bound", manager, "assign pool    = (urgent != 4'd0) ? urgent : request;", "assign pool    = (urgent != 4'd0) && !FAULT ? urgent : request;"},
}

// Bugs that the run with bus errors finds.
var failureBugs = []unit.Bug{
	{"write_error_lost", memory, "assign mem_werr_o      = host_i & answer_err;", "assign mem_werr_o      = host_i & answer_err & !FAULT;"},
	{"limit_believed", walker, "if (!werr_q) limit_q <= limit_new;", "if (!werr_q || FAULT) limit_q <= limit_new;"},
	{"invalidation_lost", walker, "update_err_q <= rerr_q || !entry_ok || mem_werr_i;", "update_err_q <= rerr_q || !entry_ok || (mem_werr_i && !FAULT);"},
	{"read_error_ignored", memory, "assign mem_rerr_o      = host_i & beat_last & beat_err;", "assign mem_rerr_o      = host_i & beat_last & beat_err & (left_q != 4'd1 | !FAULT);"},
}

// faulty builds a program with all bugs.
func faulty(t *testing.T) string {
	t.Helper()
	return unit.Build(t, unit.Inject(t, spec(t), slices.Concat(differentialBugs, failureBugs)))
}

// The differential run finds each of these bugs.
func TestMutants(t *testing.T) {
	const host = 1 << layout.StrapAttInHostMemory
	straps := map[string]uint32{"entry_kept": 1 << layout.StrapNoAttOverlap, "unchecked_address": host, "words_awaited": host, "wrong_level": host}
	program := faulty(t)
	o := options{seed: unit.Seed(t), operations: 20_000, corePeriod: 30_000}
	require.NoError(t, run(t, program, o).err, "without a bug")
	for i, b := range differentialBugs {
		t.Run(b[0], func(t *testing.T) {
			o.straps, o.fault = straps[b[0]], i+1
			unit.Caught(t, run(t, program, o).err, b[2], b[3])
		})
	}
}

// The run with bus errors finds each of these bugs.
func TestFailureMutants(t *testing.T) {
	program := faulty(t)
	require.NoError(t, hostMemoryFails(t, program, 0), "without a bug")
	for i, b := range failureBugs {
		t.Run(b[0], func(t *testing.T) {
			unit.Caught(t, hostMemoryFails(t, program, len(differentialBugs)+i+1), b[2], b[3])
		})
	}
}
