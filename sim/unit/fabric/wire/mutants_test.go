// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
)

// equal is a check of a program: two values of a setup's outcome are equal.
func equal(t *testing.T, s setup, what string, values func(o outcome) (got, want any)) func(program string) error {
	return func(program string) error {
		s.program = program
		o, err := play(t, s)
		if err != nil {
			return err
		}
		if got, want := values(o); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%s: %v", what, got)
		}
		return nil
	}
}

// These tests detect a wire that misreports its faults.
func TestMutantWireIsCaught(t *testing.T) {
	const (
		faults = "sim/fabric/wire_faults.cc"
		link   = "sim/fabric/link.cc"
		count  = 300
	)
	straight := func(faults string) func(program string) error {
		return equal(t, setup{faults: faults, count: count}, "not consistent", func(o outcome) (got, want any) { return o.check(), nil })
	}
	// dropped requires the drops that a simulator without bugs reports.
	dropped := func(faults string) func(program string) error {
		s := setup{faults: faults, count: count, frame: via}
		return equal(t, s, "other frames are dropped", func(o outcome) (got, want any) {
			return with(o.log[0], layout.WireFaultDrop), with(run(t, s).log[0], layout.WireFaultDrop)
		})
	}
	ordered := func(faults string, behind int) func(program string) error {
		return equal(t, setup{faults: faults, count: count}, "another order", func(o outcome) (got, want any) { return numbers(o.received[1]), model(o.log[0], behind) })
	}
	late := func(faults string, from func(i int, l logged) host.Time) func(program string) error {
		return equal(t, setup{faults: faults, count: count}, "other times", func(o outcome) (got, want any) { return o.ends[1], arrivals(o.log[0], from) })
	}
	soon := equal(t, setup{faults: "0>1:reorder=frame 300 within 20ms", count: count}, "the last frame is not there at its time", func(o outcome) (got, want any) {
		last := append([]host.Time{0}, o.ends[1]...)[len(o.ends[1])]
		return []any{len(o.ends[1]), last}, []any{count, o.log[0][count-1].start + 20*host.Millisecond + onTheWay(len(o.sent[0][count-1]))}
	})
	// Changes to earlier frames do not move the ninth.
	ninth := run(t, setup{count: count, frame: via}).log[0][8].start
	cases := []struct {
		file, old, new string
		check          func(program string) error
	}{
		{faults, "case kWireFaultDrop: fate.lost = true;", "case kWireFaultDrop: if (!FAULT) fate.lost = true;", straight("drop=10%")},
		{faults, "++fate.copies;", "", straight("duplicate=10%")},
		{faults, "!fate.flips.empty() ||", "(!fate.flips.empty() && !FAULT) ||", straight("corrupt=10%")},
		{faults, "|| fate.kept < whole", "|| (fate.kept < whole && !FAULT)", straight("truncate=10%")},
		{faults, "fate.faults = cut != 0 ? cut : 1u << kWireFaultDrop;", "(void)cut;", straight("drop=50%,duplicate=50%")},
		{link, "++d.counts.damaged;", "++d.counts.arrived;", straight("corrupt=10%")},
		{link, "d.sink->DeliverDamaged(std::move(frame));", "d.sink->Deliver(std::move(frame));", straight("corrupt=10%")},
		{link, "if (fate.lost) return;", "", straight("drop=10%")},
		{"sim/fabric/network.cc", "LinkOf(node).Counts(EndOf(node))", "LinkOf(node).Counts(1 - EndOf(node))", straight("0>1:drop=10%")},
		{"sim/fabric/recorder.cc", "Put(record, kFrameRecordFaultsOffset, static_cast<uint16_t>(faults));", "(void)faults;", straight("drop=10%")},
		{faults, "r->frame == 0 || place == r->frame", "r->frame == 0 || place == r->frame + 1", dropped("0>1:drop=frame 17")},
		{faults, "place % r->every == 0", "place % r->every == 1", dropped("0>1:drop=every 10")},
		{faults, "r->message != 0 ? talk.frame : ++r->matched", "++r->matched", dropped("0>1:drop=message 2 frame 2")},
		{faults, "      t.frame = 0;\n", "", dropped("0>1:drop=message 2 frame 2 vi 2")},
		{faults, "(Via(bytes, kViaHeaderSourceVIOffset, 2) & UINT8_MAX)", "Via(bytes, kViaHeaderSourceVIOffset, 2)", dropped("0>1:drop=vi 2")},
		{faults, "return type == kEtherTypeVia &&", "return (type == kEtherTypeVia || FAULT) &&", dropped("0>1:drop=vi 2,drop=operation send")},
		{faults, "lot < *r->share", "lot <= *r->share + 30000000", dropped("0>1:drop=10%")},
		{faults, "start < r.from", "start <= r.from", dropped("0>1:drop=" + text(ninth) + "..")},
		{faults, "start >= r.to) return false;", "(FAULT ? start > r.to : start >= r.to)) return false;", dropped("0>1:drop=" + text(ninth-1) + ".." + text(ninth))},
		// The choices of a kind in one direction must be independent.
		{faults, "{static_cast<uint64_t>(direction), static_cast<uint64_t>(r.kind), alike}",
			"FAULT ? std::vector<uint64_t>{static_cast<uint64_t>(direction), alike} : std::vector<uint64_t>{static_cast<uint64_t>(direction), static_cast<uint64_t>(r.kind), alike}", dropped("0>1:drop=10%")},
		{link, "Pass(end, fate.start, b->copies", "Pass(end, fate.start, FAULT ? 1 : b->copies", ordered("0>1:reorder=30% behind 2,duplicate=30%", 2)},
		{link, "--b->left != 0", "b->left-- != 0", ordered("0>1:reorder=20% behind 2", 2)},
		{link, "first->until > t", "first->until > t + 1000000000", ordered("0>1:reorder=20% behind 2 within 500us", 2)},
		{"sim/fabric/scheduler.cc", "network < next.at", "false", soon},
		{link, "fate.start + fate.patience", "fate.start + fate.patience / 2", soon},
		{faults, "fate.start += r.least", "fate.start += (FAULT ? 0 : r.least)", late("0>1:delay=every 7 by 70us", func(i int, l logged) host.Time {
			if i%7 == 6 {
				return l.start + 70*host.Microsecond
			}
			return l.start
		})},
		{faults, "std::max(fate.start, r.most != 0 ? start + r.most : r.to)", "fate.start", late("0>1:pause=1ms..1.2ms", func(_ int, l logged) host.Time {
			if l.start >= host.Millisecond && l.start < 1200*host.Microsecond {
				return 1200 * host.Microsecond
			}
			return l.start
		})},
	}
	var bugs []unit.Bug
	for i, c := range cases {
		bugs = append(bugs, unit.Bug{fmt.Sprint(i), c.file, c.old, c.new})
	}
	unit.MustNotice(t, bugs, func(i int, program string) error { return cases[i].check(program) })
}

// The simulator also checks faults in its arguments.
func TestWireFaultArgumentsRefused(t *testing.T) {
	program := unit.Simulator(t)
	start := func(nodes int, arguments ...string) error {
		cfg := sim.Config{Program: program, Mode: sim.Free, MemoryBytes: 1 << 20, Arguments: arguments}
		for i := range nodes {
			cfg.Nodes = append(cfg.Nodes, sim.Node{Kind: "echo", Name: fmt.Sprint("n", i)})
		}
		f, err := sim.Start(t.Context(), cfg)
		if err == nil {
			require.NoError(t, f.Close())
		}
		return err
	}
	require.NoError(t, start(2, "--wire-fault", "Drop 0 share=1"))
	for text, want := range map[string]string{
		"":                                 "want KIND DIRECTION",
		"Lose 0":                           "there is no kind of fault Lose",
		"Drop":                             "the direction is missing",
		"Drop 2":                           "there are 2 nodes, counted from 0",
		"Drop 16":                          "DIRECTION=16: must be a whole number from 0 to 15",
		"Drop 0>switch":                    "a cable between them and no switch: say which node sends",
		"Drop switch>0":                    "a cable between them and no switch: say which node sends",
		"Drop 0 share":                     "share: want NAME=NUMBER",
		"Drop 0 share=1000000001":          "must be a whole number from 0 to 1000000000",
		"Drop 0 share=x":                   "share=x: must be a whole number",
		"Drop 0 part=1":                    "part: there is no such name",
		"Delay 0 least=2 most=1":           "most is below least",
		"Reorder 0 frame=1":                "within is missing",
		"Reorder 0 frame=1 behind=0":       "must be a whole number from 1 to 4096",
		"Truncate 0 frame=1 bytes=0":       "must be a whole number from 1",
		"Corrupt 0 frame=1 bits=65":        "must be a whole number from 1 to 64",
		"Drop 0 vi=256":                    "must be a whole number from 0 to 255",
		"Drop 0 from=99999999999999999999": "must be a whole number",
	} {
		err := start(2, "--wire-fault", text)
		require.ErrorIs(t, err, sim.ErrStart, text)
		require.ErrorContains(t, err, "--wire-fault "+text, text)
		require.ErrorContains(t, err, want, text)
	}
	require.ErrorContains(t, start(1, "--wire-fault", "Drop 0 share=1"), "a fabric of one node has no wire")
	require.ErrorContains(t, start(2, "--wire-fault-seed", "x"), "--wire-fault-seed x: must be a number")
}
