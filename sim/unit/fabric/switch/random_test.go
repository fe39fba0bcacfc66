// SPDX-License-Identifier: Apache-2.0

package switch_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

// Random boards.
var boards = unit.Sizes{Short: 20, Normal: 150, Long: 5000}

// random makes a board with idle, overloaded or synchronous inputs.
func random(r *rand.Rand) board {
	pick := func(values ...int) int { return values[r.IntN(len(values))] }
	b := board{
		nodes:   pick(2, 3, 4, 5, 8, layout.BridgeMaxNodes),
		latency: pick(0, 1, 1_000, 2_000_000),
		room:    pick(0, layout.MaxFrame+fcs, 4000, 10_000),
		entries: pick(0, 0, 0, -1, 2, 5),
	}
	pace := pick(1, 1000, 100_000, 10_000_000) // between the frames of the fabric
	if pick(0, 1) == 1 {
		b.ageing = host.Time(pace * pick(1, 5, 30))
	}
	step := pick(1, 1, 8000, 1_000_000) // granularity of times
	favourite := pick(0, 0, 1)          // all to node 0
	moving := pick(0, 0, 20)            // one in N has the source address of another
	damaged := pick(0, 0, 10)
	size := func() int {
		return pick(layout.MinFrame, layout.MinFrame, layout.MinFrame+r.IntN(layout.MaxFrame-layout.MinFrame+1), layout.MaxFrame)
	}
	one := func(n int) bool { return n != 0 && r.IntN(n) == 0 }
	var now host.Time
	for range 40 + r.IntN(260) {
		now += host.Time(r.IntN(pace) / step * step)
		a := action{time: now, node: r.IntN(b.nodes), bytes: size(), damaged: one(damaged)}
		a.source, a.destination = station(a.node), station(r.IntN(b.nodes))
		if favourite != 0 {
			a.destination = station(0)
		}
		if one(moving) {
			a.source = station(r.IntN(b.nodes))
		}
		switch r.IntN(30) {
		case 0:
			a.destination = broadcast
		case 1:
			a.destination = multicast
		case 2:
			a.destination = pause
		case 3:
			a.destination = station(100)
		case 4:
			a.source = multicast
		case 5:
			a.source = station(50 + r.IntN(10))
		}
		b.actions = append(b.actions, a)
	}
	return b
}

// Every departure, arrival and count on random boards is the model's.
func TestRandomBoards(t *testing.T) {
	program, seed := player(t), unit.Seed(t)
	var met struct{ flooded, filtered, noRoom, moved, unlearned, aged, wrongFcs, together uint64 }
	for i := range boards.Pick() {
		b := random(rand.New(rand.NewPCG(seed, i)))
		got, err := play(program, b)
		require.NoError(t, err)
		require.NoError(t, differ(got, model(b)), "board %d; replay with HVIA_SEED=%d", i, seed)
		for _, p := range got.ports {
			met.flooded += p.Flooded
			met.filtered += p.Filtered
			met.noRoom += p.NoRoom
			met.moved += p.Moved
			met.unlearned += p.Unlearned
			met.aged += p.Aged
			met.wrongFcs += p.WrongFcs
		}
		for k := 1; k < len(b.actions); k++ {
			if b.actions[k].time == b.actions[k-1].time {
				met.together++
			}
		}
	}
	t.Logf("%+v", met)
	for _, n := range []uint64{met.flooded, met.filtered, met.noRoom, met.moved, met.unlearned, met.aged, met.wrongFcs, met.together} {
		require.NotZero(t, n, "the boards never met something: %+v", met)
	}
}
