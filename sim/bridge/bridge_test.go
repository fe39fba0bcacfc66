// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
)

// roleVariable makes this test binary play a guest's process.
const roleVariable = "HVIA_BRIDGE_GUEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		if err := playVictim(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(forkerVariable) != "" {
		if err := playForker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestTimeText(t *testing.T) {
	for v, want := range map[bridge.Time]string{
		0: "0 ps", 999: "999 ps", 1000: "1 ns", 1001: "1.001 ns", 12500000: "12.5 us", -3750001: "-3.750001 us",
		2 * bridge.Millisecond: "2 ms", bridge.Second + 1: "1.000000000001 s", bridge.Never: "never",
	} {
		require.Equal(t, want, v.String())
	}
	require.Equal(t, time.Nanosecond, bridge.Time(1).Wall(), "a span is never rounded to nothing")
	require.Equal(t, 5*time.Millisecond, (5 * bridge.Millisecond).Wall())
}

func TestFrameUse(t *testing.T) {
	m := bridge.NewTestMemory(4)
	require.Zero(t, m.Use(2))
	require.NoError(t, m.Acquire(2, bridge.UseRegion))
	require.NoError(t, m.Acquire(2, bridge.UseRegion))
	require.NoError(t, m.Acquire(2, bridge.UseRing))
	require.NoError(t, m.Acquire(2, bridge.UseCompletionQueue))
	want := uint32(2<<layout.BridgeFrameUseCountRegionLsb | 1<<layout.BridgeFrameUseCountRingLsb | 1<<layout.BridgeFrameUseCountCompletionQueueLsb)
	require.Equal(t, want, m.Use(2))
	require.Equal(t, want, m.UseTable()[2])
	require.NoError(t, m.Release(2, bridge.UseRing))
	require.ErrorIs(t, m.Release(2, bridge.UseRing), bridge.ErrUseUnderflow)
	require.Equal(t, want&^layout.BridgeFrameUseCountRingMask, m.Use(2), "the rejected release changed nothing")
	for range 255 {
		require.NoError(t, m.Acquire(1, bridge.UseRing))
	}
	require.ErrorIs(t, m.Acquire(1, bridge.UseRing), bridge.ErrUseOverflow)
	require.Equal(t, uint32(255<<layout.BridgeFrameUseCountRingLsb), m.Use(1), "no count runs over into another")
	require.ErrorIs(t, m.Acquire(4, bridge.UseRegion), bridge.ErrFrameRange)
	require.ErrorIs(t, m.Release(-1, bridge.UseRegion), bridge.ErrFrameRange)
	require.Zero(t, m.Use(99))
}

// An old program with a new simulator, and the other way round: the error shows
// both hashes, and nothing is mapped.
func TestForeignHashesAreRefused(t *testing.T) {
	program := echoProgram(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f, err := sim.Start(ctx, sim.Config{Program: program, Mode: sim.Free, Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, MemoryBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for name, c := range map[string]struct{ layout, params, print uint64 }{
		"layout": {layout.Hash ^ 1, params.Hash, layout.Hash},
		"params": {layout.Hash, params.Hash ^ 1, params.Hash},
	} {
		t.Run(name, func(t *testing.T) {
			var o bridge.Options
			bridge.ClaimHashes(&o, c.layout, c.params)
			_, err := sim.Attach(ctx, f.Path(), o)
			require.ErrorIs(t, err, bridge.ErrVersion)
			require.ErrorContains(t, err, fmt.Sprintf("%016x", c.print))
			require.ErrorContains(t, err, fmt.Sprintf("%016x", c.print^1))
			require.ErrorContains(t, err, "rebuild both")
		})
	}
	// A program for another board.
	other, err := params.ForProfile("hvia-ge-66")
	require.NoError(t, err)
	_, err = sim.Attach(ctx, f.Path(), bridge.Options{Profile: other.Name})
	require.ErrorIs(t, err, bridge.ErrVersion)
	require.ErrorContains(t, err, fmt.Sprintf("params hash %016x and %016x", other.Hash, params.Hash))
	_, err = sim.Attach(ctx, f.Path(), bridge.Options{Profile: "hvia-xl"})
	require.ErrorContains(t, err, `no profile "hvia-xl"`)
	require.NoError(t, f.Conn().Err())
}
