// SPDX-License-Identifier: Apache-2.0

package switch_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

func faults(t *testing.T, text string) sim.WireFaults {
	t.Helper()
	f, err := sim.ParseWireFaults(text)
	require.NoError(t, err)
	return f
}

// Every node sends to every other through the complete simulator, and a run
// repeats.
func TestAllToAll(t *testing.T) {
	for _, nodes := range []int{2, 3, 5, layout.BridgeMaxNodes} {
		s := setup{nodes: nodes, count: 4 * nodes, config: sim.Config{Switch: nodes == 2}}
		r := run(t, s)
		require.NoError(t, r.check(), "%d nodes", nodes)
		require.EqualValues(t, nodes*4*nodes, r.digest.Frames)
		require.Equal(t, r.digest, run(t, s).digest, "%d nodes", nodes)
	}
}

// A switch adds its latency and once more the time of cable and frame.
func TestSwitchOrCable(t *testing.T) {
	const bytes = 500
	s := setup{nodes: 2, count: 10, bytes: bytes}
	cable := run(t, s)
	s.config.Switch = true
	through := run(t, s)
	require.Equal(t, cable.received, through.received)
	require.NotEqual(t, cable.digest.Hash, through.digest.Hash)
	require.Zero(t, cable.digest.Switch)
	for n := range 2 {
		for i := range s.count {
			before := cable.ends[n][i] - cable.between(1-n, n)[i].start
			after := through.ends[n][i] - through.between(1-n, layout.WireSwitch)[i].start
			require.Equal(t, onWire(bytes)+flight, before)
			require.Equal(t, before+params.SwitchLatency+onWire(bytes)+flight, after, "frame %d to node %d", i, n)
		}
	}
}

// Faults on either side of the switch, which drops frames damaged before it.
func TestFaultsOnEachSide(t *testing.T) {
	const nodes, count = 4, 120
	for text, faulty := range map[string]func(d bridge.Digest, n int) (up, down bool){
		"1>switch:drop=30%":            func(_ bridge.Digest, n int) (bool, bool) { return n == 1, false },
		"switch>1:drop=30%":            func(_ bridge.Digest, n int) (bool, bool) { return false, n == 1 },
		"2>switch:corrupt=30%":         func(_ bridge.Digest, n int) (bool, bool) { return n == 2, false },
		"switch>2:corrupt=30%":         func(_ bridge.Digest, n int) (bool, bool) { return false, n == 2 },
		"3<>switch:truncate=30%":       func(_ bridge.Digest, n int) (bool, bool) { return n == 3, n == 3 },
		"drop=10%":                     func(bridge.Digest, int) (bool, bool) { return true, true },
		"0<>switch:cut=1ms..2ms":       func(_ bridge.Digest, n int) (bool, bool) { return n == 0, n == 0 },
		"0<>switch:link=down 1ms..2ms": func(_ bridge.Digest, n int) (bool, bool) { return n == 0, n == 0 },
		"0>switch:drop=10%;switch>3:cut=1ms..2ms,corrupt=5%": func(_ bridge.Digest, n int) (bool, bool) { return n == 0, n == 3 },
	} {
		t.Run(text, func(t *testing.T) {
			r := run(t, setup{nodes: nodes, count: count, config: sim.Config{Faults: faults(t, text)}})
			require.NoError(t, r.check())
			for n := range nodes {
				up, down := faulty(r.digest, n)
				require.Equal(t, up, r.digest.Wire[n].Faults != bridge.WireCounts{}.Faults, "from node %d", n)
				require.Equal(t, down, r.digest.Switch.Wire[n].Faults != bridge.WireCounts{}.Faults, "to node %d", n)
			}
		})
	}
}

// Random choices in one direction of one cable are independent of the faults of
// others.
func TestCablesHaveTheirOwnChoices(t *testing.T) {
	lost := func(text string) [2][]bool {
		r := run(t, setup{nodes: 3, count: 100, config: sim.Config{Faults: faults(t, text)}})
		var all [2][]bool
		for n := range all {
			for _, h := range r.between(n, layout.WireSwitch) {
				all[n] = append(all[n], h.lost())
			}
		}
		return all
	}
	one, both := lost("0>switch:drop=20%"), lost("drop=20%")
	require.Equal(t, one[0], both[0])
	require.NotEqual(t, both[0], both[1])
}

// A cable is cut and restored: no frame passes meanwhile, all pass after.
func TestCutAndHeal(t *testing.T) {
	const from, to = host.Millisecond, 2 * host.Millisecond
	r := run(t, setup{nodes: 3, count: 100, config: sim.Config{Faults: faults(t, "2<>switch:cut=1ms..2ms")}})
	require.NoError(t, r.check())
	passed := map[bool]int{}
	for _, h := range append(r.between(2, layout.WireSwitch), r.between(layout.WireSwitch, 2)...) {
		inside := h.start >= from && h.start < to
		if inside {
			require.True(t, h.lost(), "at %v", h.start)
		} else if !h.lost() {
			passed[h.start >= to]++
		}
	}
	require.Positive(t, passed[false])
	require.Positive(t, passed[true])
}

// An overloaded output drops frames that do not fit, and reports them.
func TestOverload(t *testing.T) {
	const nodes, count = 8, 30
	s := setup{nodes: nodes, count: count, bytes: layout.MaxFrame, to: func(int, int) int { return 0 }, config: sim.Config{Params: map[string]int64{"SwitchQueueBytes": 8000}}}
	r := run(t, s)
	sent := uint64((nodes - 1) * count)
	p := r.digest.Switch.Ports[0]
	require.Positive(t, p.NoRoom)
	require.Equal(t, sent, p.Forwarded+p.NoRoom)
	require.LessOrEqual(t, p.HighestFilling, uint64(8000))
	require.Greater(t, p.HighestFilling, uint64(8000-layout.MaxFrame-fcs))
	require.Equal(t, p.Forwarded, uint64(len(r.between(layout.WireSwitch, 0))))
	got := map[int]int{}
	for _, h := range r.between(layout.WireSwitch, 0) {
		got[h.from]++
	}
	for n := 1; n < nodes; n++ {
		require.InDelta(t, float64(p.Forwarded)/(nodes-1), got[n], 4, "of node %d", n)
	}
	require.Equal(t, r.digest, run(t, s).digest)
}

// Frames in a switch are pending work. A thread that waits for one without a
// limit gets it at any later time. A deadlock is reported only without such
// frames.
func TestFramesInTheSwitchAreWork(t *testing.T) {
	s := setup{
		nodes: 3, count: 1, config: sim.Config{Params: map[string]int64{"SwitchLatency": 1_000_000_000}},
		forEver: true,
	}
	r := run(t, s) // to the next node, which is flooded
	for n := range s.nodes {
		require.NotEmpty(t, r.received[n])
		require.Greater(t, r.ends[n][0], host.Millisecond)
	}
	s.to = func(node, _ int) int { return max(node, 1) } // 0 sends to 1, the others to no node
	_, err := s.run(t)
	require.ErrorIs(t, err, bridge.ErrDeadlock)
}

// A node's wire is held, and the others' are not.
func TestHeldWire(t *testing.T) {
	const span = 2 * host.Millisecond
	s := setup{nodes: 3, count: 40}
	free := run(t, s)
	s.during = func(t *host.Thread) error {
		return errors.Join(t.HoldWire(true), t.Sleep(span), t.HoldWire(false))
	}
	held := run(t, s)
	require.NoError(t, held.check())
	require.Equal(t, free.received, held.received)
	require.Less(t, held.ends[0][0], span)
	require.Less(t, held.ends[1][0], span)
	require.Greater(t, held.ends[2][0], span)

	s.count, s.forEver = 1, true
	s.during = func(t *host.Thread) error { return t.HoldWire(true) }
	s.to = func(node, _ int) int { return 2 }
	_, err := s.run(t)
	require.ErrorIs(t, err, bridge.ErrDeadlock)
	require.ErrorContains(t, err, "2 frames are held on the wire to node 2")
}

func TestFreeMode(t *testing.T) {
	r := run(t, setup{nodes: 4, count: 3, config: sim.Config{Mode: sim.Free}})
	for n := range r.sent {
		require.Len(t, r.received[n], 3, "node %d", n)
		for _, m := range r.sent[n] {
			require.Contains(t, r.received[m.to], m)
		}
	}
}

// Impossible configurations are rejected at the start, with a reason.
func TestRefused(t *testing.T) {
	program := unit.Simulator(t)
	start := func(nodes int, c sim.Config) error {
		c.Program, c.Mode, c.MemoryBytes = program, sim.Free, 1<<20
		for i := range nodes {
			c.Nodes = append(c.Nodes, sim.Node{Kind: "echo", Name: fmt.Sprint("n", i)})
		}
		f, err := sim.Start(t.Context(), c)
		if err == nil {
			require.NoError(t, f.Close())
		}
		return err
	}
	of := func(arguments ...string) sim.Config { return sim.Config{Arguments: arguments} }
	require.NoError(t, start(16, sim.Config{}))
	require.NoError(t, start(2, sim.Config{Switch: true, Faults: faults(t, "switch>1:drop=1%")}))
	for _, x := range []struct {
		nodes  int
		config sim.Config
		why    string
	}{
		{17, sim.Config{}, "17 nodes: want 1 to 16"},
		{1, sim.Config{Switch: true}, "a fabric of one node requires no switch"},
		{2, of("--switch", "on"), "--switch on: want yes or no"},
		{3, sim.Config{Faults: faults(t, "0>1:drop=1%")}, "there is a switch between the nodes: say whose cable"},
		{3, sim.Config{Faults: faults(t, "3>switch:drop=1%")}, "there are 3 nodes, counted from 0"},
		{3, of("--wire-fault", "Drop 0 share=1"), "say which direction of node 0's cable, 0>switch or switch>0"},
		{3, of("--wire-fault", "Drop 3>switch share=1"), "there are 3 nodes, counted from 0"},
		{3, of("--wire-fault", "Drop >switch share=1"), "DIRECTION=>switch: must be a whole number from 0 to 15"},
		{3, of("--wire-fault", "Drop switch>x share=1"), "DIRECTION=x: must be a whole number from 0 to 15"},
		{3, sim.Config{Params: map[string]int64{"SwitchQueueBytes": 1517}}, "must be a whole number from 1518"},
	} {
		err := start(x.nodes, x.config)
		require.ErrorContains(t, err, x.why)
	}
}
