// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/faulty"
	"hvia/sim/unit/internal/unit"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// The clock of an idle block changes no signal in it, so the simulator may
// leave it out.
func TestQuietBlocksDoNotChange(t *testing.T) {
	program := faulty.CheckQuiet(t)
	rounds := func(short, normal, long uint64) uint64 {
		return unit.Sizes{Short: short, Normal: normal, Long: long}.Pick()
	}
	for _, tt := range []struct {
		name   string
		config config
		body   func(r *rig)
	}{
		{"conversation", config{}, conversation(rounds(2, 6, 1_000))},
		{"conversation, every clock", config{noSkip: true}, conversation(rounds(1, 2, 20))},
		{"four pages", config{}, fourPages},
		{"unaligned", config{}, longMessages(rounds(1, 2, 200))},
		{"arbitration", config{}, busy(rounds(1, 2, 200))},
		{"hostile frames", config{rawLog2: 8}, hostility(rounds(40, 200, 20_000))},
		{"hostile frames, reliable", config{rawLog2: 8}, reliableHostility(rounds(40, 200, 20_000))},
		{"resizes", config{}, queueResize(rounds(1, 2, 100))},
		{"soft resets", config{}, softResetRounds(rounds(1, 3, 100))},
		{"many VIs", config{}, manyVIs(int(rounds(8, 24, 250)))},
		{"bad descriptors", config{}, badDescriptors(rounds(5, 10, 2_000))},
		{"withdrawals", config{}, withdrawals(rounds(1, 3, 500))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.config.program = program
			mustPlay(t, tt.config, tt.body)
		})
	}
}

// A block that says too early that it is idle is found.
func TestQuietMutants(t *testing.T) {
	unit.Enable(t, 0)
	err := play(t, config{program: faulty.CheckQuiet(t)}, unit.Seed(t), conversation(2))
	require.ErrorContains(t, err, "the clock of a quiet block changed board.card_socket.hvia_board.rx_rdata")
}

// idleSpans leaves cards idle whose refreshes are at different times, and reads
// their counts after each span, at any time in a period. In the last span one
// of the SDRAMs is initialised.
func idleSpans(r *rig) {
	softResets(r, 1)
	for i := range 4 {
		if i == 3 {
			r.b((*machine).reset)
		}
		r.sleep(host.Time(1+i/3)*300*host.Microsecond + host.Time(r.random.Int64N(int64(100*host.Microsecond))))
		r.both(func(m *machine) { m.counter(layout.CounterSdramRefresh) })
	}
}

// outcome is the digest of a run with idleSpans, and in the end the level of
// each signal of the cards and the state of their SDRAMs. The time of a clock
// domain is left out: it is that of the last simulated clock.
type outcome struct {
	digest bridge.Digest
	levels []string
	err    error
}

func idle(t *testing.T, c config, seed uint64) (o outcome) {
	t.Helper()
	c.digest, c.wave = &o.digest, filepath.Join(t.TempDir(), "levels")
	o.err = play(t, c, seed, idleSpans)
	for _, node := range []string{"a", "b"} {
		text, err := os.ReadFile(c.wave + "." + node + ".fst")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "timebase") && !strings.Contains(line, " board.pass_") {
				o.levels = append(o.levels, node+line)
			}
		}
	}
	require.Greater(t, len(o.levels), 1000)
	return o
}

// An idle card's refreshes are passed over, and leave all as if they had been
// simulated. One too many, or one that is not counted, is found.
func TestRefreshesPassedOver(t *testing.T) {
	takesSeconds(t)
	program := faulty.CheckQuiet(t)
	for name, c := range map[string]config{
		"hvia-ge":    {},
		"hvia-ge-66": {profile: "hvia-ge-66"},
		"66 MHz":     {params: map[string]int64{"SystemClockPeriod": 15_000}},
		"slow SDRAM": {straps: 1 << layout.StrapSlowSdram, params: map[string]int64{"SdramClockPeriod": 30_000}},
	} {
		t.Run(name, func(t *testing.T) {
			c.program, c.noSkip = program, true
			if c.profile != "" {
				if os.Getenv("HVIA_LONG") != "1" {
					t.Skip("builds a simulator for one more board")
				}
				var err error
				c.program, err = sim.Build{Profile: c.profile, CheckQuiet: true}.Program(t.Context())
				require.NoError(t, err)
			}
			want := idle(t, c, 1)
			require.NoError(t, want.err)
			c.noSkip = false
			require.Equal(t, want, idle(t, c, 1))
			for i := 1; i <= faulty.RefreshBugs && name == "hvia-ge"; i++ {
				unit.Enable(t, i)
				require.NotEqual(t, want, idle(t, c, 1), "bug %d", i)
			}
		})
	}
}

// lateMessage sends a message with a fault, while its receiver waits for it
// for long. It returns the cards' counts of refreshes when it was acknowledged
// and when it came.
func lateMessage(t *testing.T, fault sim.WireFault, arguments ...string) (counts [2]uint32, digest bridge.Digest) {
	t.Helper()
	fault.Direction, fault.Frames = sim.FromNode0, sim.FrameSelection{Message: 1, Frame: 1}
	program := func(node int, main func(t *host.Thread, e *endpoint.Endpoint) error) fabric.Program {
		return fabric.Program{Node: node, Name: "main", Main: func(t *host.Thread, h *driver.Host) error {
			e, err := endpoint.Open(t, h, endpoint.Config{ReliabilityLevel: vipl.ReliableDelivery, Blocking: true})
			if err != nil {
				return err
			}
			if err := main(t, e); err != nil {
				return err
			}
			counts[node], err = e.NIC.Counter(t, layout.CounterSdramRefresh)
			return errors.Join(err, e.Close(t))
		}}
	}
	const limit = 100 * host.Second
	err := fabric.Run(t.Context(), fabric.RunConfig{
		Fabric:   sim.Config{Arguments: arguments, Faults: sim.WireFaults{Faults: []sim.WireFault{fault}}},
		Finished: func(f *sim.Fabric) (err error) { digest, err = f.Digest(t.Context()); return err },
	}, program(0, func(t *host.Thread, e *endpoint.Endpoint) error {
		if err := e.Dial(t, vipl.At(1, "late"), limit); err != nil {
			return err
		}
		e.Bytes()[0] = 1
		return e.Write(t, 0, 1, 0, limit)
	}), program(1, func(t *host.Thread, e *endpoint.Endpoint) error {
		return errors.Join(e.Accept(t, "late", limit), e.Poll(t, 0, 1, limit))
	}))
	require.NoError(t, err)
	return counts, digest
}

// What ends an idle span ends it at its time: the timer of a card that has lost
// a frame, and a frame that was long on the wire.
func TestWakesBetweenRefreshes(t *testing.T) {
	for name, fault := range map[string]sim.WireFault{
		"lost":    {Kind: layout.WireFaultDrop},
		"delayed": {Kind: layout.WireFaultDelay, Least: 2 * host.Millisecond, Most: 2 * host.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			counts, digest := lateMessage(t, fault)
			require.Greater(t, counts[1], uint32(100))
			full, want := lateMessage(t, fault, "--no-skip", "1")
			require.Equal(t, full, counts)
			require.Equal(t, want, digest)
		})
	}
}
