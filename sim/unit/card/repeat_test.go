// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// The workload of these tests uses all layers, including kernel agents. Two
// pairs of programs send each other messages of any size and check every byte.
// They pause in between, so that one card or all are quiescent.
const (
	echoBytes = 40_000
	echoGuard = 0x5a
)

func echoPrograms(seed uint64, rounds int, think host.Time) []fabric.Program {
	var programs []fabric.Program
	for pair := range uint64(2) {
		name := fmt.Sprintf("pair %d", pair)
		programs = append(programs,
			fabric.Program{Node: 0, Name: name + " caller", Main: func(t *host.Thread, h *driver.Host) error {
				return echo(t, h, name, rand.New(rand.NewPCG(seed, pair)), true, rounds, think)
			}},
			fabric.Program{Node: 1, Name: name + " answerer", Main: func(t *host.Thread, h *driver.Host) error {
				return echo(t, h, name, rand.New(rand.NewPCG(seed, pair)), false, rounds, think)
			}})
	}
	return programs
}

// echo is one end of a pair. Both ends draw the same random numbers, so each
// knows what the other sends.
func echo(t *host.Thread, h *driver.Host, name string, random *rand.Rand, caller bool, rounds int, think host.Time) error {
	const limit = 100 * host.Second
	e, err := endpoint.Open(t, h, endpoint.Config{Bytes: 2 * echoBytes})
	if err != nil {
		return err
	}
	in := e.Bytes()[:echoBytes] // the upper half is sent
	for i := range in {
		in[i] = echoGuard
	}
	if caller {
		err = e.Dial(t, vipl.At(1, name), limit)
	} else {
		err = e.Accept(t, name, limit)
	}
	if err != nil {
		return err
	}
	mine := caller
	for round := range 2 * rounds {
		n := 1 + random.IntN(echoBytes/2)
		if random.IntN(2) == 0 {
			n = 1 + random.IntN(64)
		}
		to, from, salt := random.IntN(echoBytes-n+1), random.IntN(echoBytes-n+1), random.Uint64()
		pause := host.Time(random.Int64N(int64(think)))
		if random.IntN(6) == 0 {
			pause *= 8
		}
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(salt>>(i%8*8)) + byte(i)
		}
		message[n-1] = ^byte(echoGuard) // the byte that the other end waits for
		if mine {
			if err := t.Sleep(pause); err != nil {
				return err
			}
			copy(e.Bytes()[echoBytes+from:], message)
			if err := e.Write(t, echoBytes+from, n, to, limit); err != nil {
				return err
			}
		} else {
			if err := e.Poll(t, to+n-1, ^byte(echoGuard), limit); err != nil {
				return err
			}
			for i, b := range in {
				want := byte(echoGuard)
				if i >= to && i < to+n {
					want = message[i-to]
				}
				if b != want {
					return fmt.Errorf("round %d: byte %d of the buffer is %#x, want %#x (%d bytes to %d)", round, i, b, want, n, to)
				}
				in[i] = echoGuard
			}
		}
		mine = !mine
	}
	return e.Close(t)
}

func runEcho(t *testing.T, seed uint64, rounds int, think host.Time, c sim.Config) bridge.Digest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	start := time.Now()
	var digest bridge.Digest
	err := fabric.Run(ctx, fabric.RunConfig{Seed: seed, Fabric: c, Finished: func(f *sim.Fabric) (err error) {
		if c.Mode != sim.Free {
			digest, err = f.Digest(ctx)
		}
		return err
	}}, echoPrograms(seed, rounds, think)...)
	require.NoError(t, err, "replay with HVIA_SEED=%d", seed)
	t.Logf("%v: simulated %v, %d frames, wall %v", c.Arguments, digest.Time, digest.Frames, time.Since(start).Round(10*time.Millisecond))
	return digest
}

// The same workload twice, and with every quiescent clock simulated, gives the
// same frames, wakes and times. Another seed gives others, which shows that the
// comparison can fail.
func TestQuietSpansChangeNothing(t *testing.T) {
	takesSeconds(t)
	seed := unit.Seed(t)
	rounds := int(unit.Sizes{Short: 1, Normal: 8, Long: 100}.Pick())
	const think = 100 * host.Microsecond
	first := runEcho(t, seed, rounds, think, sim.Config{})
	require.True(t, first.Reproducible)
	require.Equal(t, first, runEcho(t, seed, rounds, think, sim.Config{}), "a second run")
	require.Equal(t, first, runEcho(t, seed, rounds, think, sim.Config{Arguments: []string{"--no-skip", "1"}}), "nothing skipped")
	require.NotEqual(t, first.Hash, runEcho(t, seed+1, rounds, think, sim.Config{}).Hash)
}

// The digest also covers the other tests' actions on a card: forged frames, raw
// frames, commands, resets.
func TestQuietSpansChangeNothingInTrouble(t *testing.T) {
	takesSeconds(t)
	for name, body := range map[string]func(r *rig){
		"hostile frames":          hostility(unit.Sizes{Short: 20, Normal: 30, Long: 1000}.Pick()),
		"hostile reliable frames": reliableHostility(unit.Sizes{Short: 20, Normal: 30, Long: 1000}.Pick()),
		"conversation":            conversation(unit.Sizes{Short: 1, Normal: 3, Long: 80}.Pick()),
		"soft resets":             softResetRounds(unit.Sizes{Short: 1, Normal: 1, Long: 20}.Pick()),
		"withdrawals":             withdrawals(unit.Sizes{Short: 1, Normal: 3, Long: 80}.Pick()),
		"bad descriptors":         badDescriptors(unit.Sizes{Short: 2, Normal: 5, Long: 90}.Pick()),
	} {
		t.Run(name, func(t *testing.T) {
			var digests [3]bridge.Digest
			for i := range digests {
				mustPlay(t, config{noSkip: i == 2, digest: &digests[i]}, body)
			}
			require.Equal(t, digests[0], digests[1], "a second run")
			require.Equal(t, digests[0], digests[2], "nothing skipped")
		})
	}
}

// In free mode the same programs run in wall time; only the bytes are certain.
func TestFreeMode(t *testing.T) {
	takesSeconds(t)
	runEcho(t, unit.Seed(t), int(unit.Sizes{Short: 1, Normal: 8, Long: 200}.Pick()), host.Millisecond, sim.Config{Mode: sim.Free})
}
