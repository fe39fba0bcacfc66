// SPDX-License-Identifier: Apache-2.0

package reset_test

import (
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

// Another thread of the host continues its reads and writes while the bus is
// reset repeatedly: each read completes soon, with or without a card that
// answers, and writes without a card are lost.
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
	const resets = 40
	user := func(x *host.Thread) error {
		random := rand.New(rand.NewPCG(seed, 1))
		answered, refused, forgotten, stored := 0, 0, 0, uint32(0)
		for answered < resets*20 {
			begin := x.Now()
			id, err := x.Read(layout.PciBar0Base)
			if err != nil {
				return err
			}
			if x.Now()-begin > answerLimit {
				fail("a read was answered after %v", x.Now()-begin)
			}
			switch id {
			case layout.CardID:
				answered++
			case nobody:
				refused++
			default:
				fail("ID reads %#x", id)
			}
			v, err := x.Read(layout.PciBar0Base + layout.RegisterMacLowOffset)
			if err != nil {
				return err
			}
			if v != stored && v != nobody {
				if v != 0 {
					fail("MacLow reads %#x, and was %#x or forgotten", v, stored)
				}
				forgotten++
			}
			if v != nobody {
				stored = v
			}
			if random.IntN(2) == 0 {
				next := 1 + random.Uint32N(1<<31)
				if err := x.Write(layout.PciBar0Base+layout.RegisterMacLowOffset, next); err != nil {
					return err
				}
				v, err := x.Read(layout.PciBar0Base + layout.RegisterMacLowOffset)
				if err != nil {
					return err
				}
				switch v {
				case next, 0:
					stored = v
				case nobody:
				default:
					if v != stored {
						fail("MacLow reads %#x, %#x was written and %#x there before", v, next, stored)
					}
				}
			}
		}
		t.Logf("%d reads answered by the card, %d by nobody; the register was forgotten %d times", answered, refused, forgotten)
		if refused < resets/2 || forgotten < resets/4 {
			fail("the resets did not show: %d reads answered by nobody, the register forgotten %d times", refused, forgotten)
		}
		return nil
	}
	resetter := func(x *host.Thread) error {
		random := rand.New(rand.NewPCG(seed, 2))
		for range resets {
			if err := x.Sleep(host.Time(random.Int64N(int64(30 * host.Microsecond)))); err != nil {
				return err
			}
			// Some strike during the one before, or while the card is
			// configured.
			for range 1 + random.IntN(2) {
				if err := x.ResetBus(1 + host.Time(random.Int64N(int64(4*host.Microsecond)))); err != nil {
					return err
				}
				if err := x.Sleep(host.Time(random.Int64N(int64(6 * host.Microsecond)))); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	var errs [2]error
	for i, run := range []func(x *host.Thread) error{user, resetter} {
		wg.Go(func() {
			if failed := try(func() { errs[i] = run(threads[i]) }); failed != nil {
				errs[i] = failed
			}
			_ = threads[i].Detach() // after a failure the run may be over
		})
	}
	wg.Wait()
	require.NoError(t, errs[0], "replay with HVIA_SEED=%d", seed)
	require.NoError(t, errs[1], "replay with HVIA_SEED=%d", seed)
	d, err := f.Digest(t.Context())
	require.NoError(t, err)
	require.True(t, d.Reproducible)
}

// An invalid reset is rejected: a span out of range, a node whose kind has no
// such line.
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
