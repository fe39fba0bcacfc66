// SPDX-License-Identifier: Apache-2.0

package reset_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

const resets = 40 // of the bus

func resetBus(n *node) {
	for range resets {
		n.sleep(n.below(30 * host.Microsecond))
		// Some come during the one before, or while the card is configured.
		for range 1 + n.random.IntN(2) {
			n.check(n.thread.ResetBus(1 + n.below(4*host.Microsecond)))
			n.sleep(n.below(6 * host.Microsecond))
		}
	}
}

// Another thread of the host continues its reads and writes during repeated bus
// resets. Each read completes soon, with or without a card that answers. Writes
// without a card are lost.
func TestHostAccessesInBusReset(t *testing.T) {
	const answerLimit = 20 * host.Microsecond
	seed := unit.Seed(t)
	f, err := sim.Start(t.Context(), sim.Config{
		Nodes:       []sim.Node{{Kind: "card", Name: "a"}},
		Threads:     []sim.Thread{{Name: "user"}, {Rank: 1, Name: "resetter"}},
		MemoryBytes: memoryBytes, Seed: seed,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var threads [2]*host.Thread
	for rank, name := range []string{"user", "resetter"} {
		threads[rank], err = host.Attach(t.Context(), f.Conn(), host.ThreadID{Rank: rank}, name)
		require.NoError(t, err)
	}
	user := func(n *node) {
		answered, refused, forgotten, stored := 0, 0, 0, uint32(0)
		for answered < resets*20 {
			begin := n.thread.Now()
			id := n.read(layout.RegisterIDOffset)
			if n.thread.Now()-begin > answerLimit {
				fail("a read was answered after %v", n.thread.Now()-begin)
			}
			switch id {
			case layout.CardID:
				answered++
			case nobody:
				refused++
			default:
				fail("ID reads %#x", id)
			}
			v := n.read(layout.RegisterMacLowOffset)
			if v != stored && v != nobody {
				if v != 0 {
					fail("MacLow reads %#x, and was %#x or forgotten", v, stored)
				}
				forgotten++
			}
			if v != nobody {
				stored = v
			}
			if n.random.IntN(2) == 0 {
				next := 1 + n.random.Uint32N(1<<31)
				n.check(n.thread.Write(layout.PciBar0Base+layout.RegisterMacLowOffset, next))
				switch v := n.read(layout.RegisterMacLowOffset); v {
				case next, 0:
					stored = v
				case nobody, stored:
				default:
					fail("MacLow reads %#x, %#x was written and %#x there before", v, next, stored)
				}
			}
		}
		t.Logf("%d reads answered by the card, %d by nobody; the register was forgotten %d times", answered, refused, forgotten)
		if refused < resets/2 || forgotten < resets/4 {
			fail("the resets did not show: %d reads answered by nobody, the register forgotten %d times", refused, forgotten)
		}
	}
	var wg sync.WaitGroup
	var errs [2]error
	for i, run := range []func(n *node){user, resetBus} {
		wg.Go(func() {
			n := &node{thread: threads[i], random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
			errs[i] = try(func() { run(n) })
			_ = threads[i].Detach() // after a failure the run may be over
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs[:]...), "replay with HVIA_SEED=%d", seed)
	d, err := f.Digest(t.Context())
	require.NoError(t, err)
	require.True(t, d.Reproducible)
}

// An invalid reset is rejected: a span out of range, or a node whose kind has
// no RST#.
func TestBusResetRefused(t *testing.T) {
	program, err := sim.EchoSimulator(t.Context())
	require.NoError(t, err)
	f, err := sim.Start(t.Context(), sim.Config{
		Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Threads: []sim.Thread{{Name: "a"}}, MemoryBytes: memoryBytes, Program: program,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	x, err := host.Attach(t.Context(), f.Conn(), host.ThreadID{}, "a")
	require.NoError(t, err)
	for _, span := range []host.Time{-1, 0, layout.BridgeMaxBusReset + 1} {
		require.ErrorIs(t, x.ResetBus(span), host.ErrInvalidParameter, "%v", span)
	}
	require.NoError(t, x.Sleep(host.Microsecond), "a rejected span changes nothing")
	require.NoError(t, x.ResetBus(host.Nanosecond))
	require.ErrorIs(t, x.Sleep(host.Microsecond), bridge.ErrProtocol)
}
