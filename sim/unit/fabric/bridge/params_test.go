// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// replaced runs one transfer with replaced parameters and returns the arrival
// time of its last word, and the digest.
func replaced(t *testing.T, values map[string]int64) (host.Time, bridge.Digest) {
	t.Helper()
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), Params: values})
	x := newTransfer(t, ctx, f)
	require.NoError(t, x.send(64, 7))
	at, err := x.await(7, host.Picosecond)
	require.NoError(t, err)
	require.NoError(t, errors.Join(x.left.Detach(), x.right.Detach()))
	d, err := f.Digest(ctx)
	require.NoError(t, err)
	return at, d
}

func TestReplacedParameters(t *testing.T) {
	value := func(name string) int64 {
		v, err := params.Lookup(params.Base, name)
		require.NoError(t, err)
		return v
	}
	plain, plainDigest := replaced(t, nil)
	same, sameDigest := replaced(t, map[string]int64{"CableDelay": value("CableDelay")})
	require.Equal(t, plain, same)
	require.Equal(t, plainDigest, sameDigest, "the profile's own value is the same configuration")
	later, laterDigest := replaced(t, map[string]int64{"CableDelay": value("CableDelay") + 60000})
	require.Equal(t, plain+60000, later, "two clocks of the bus that stores")
	require.Equal(t, plainDigest.FramesHash, laterDigest.FramesHash, "the frames began when they did")
	require.NotEqual(t, plainDigest.WakesHash, laterDigest.WakesHash)
	slower, _ := replaced(t, map[string]int64{"CableDelay": value("CableDelay") + 60000, "WireBitTime": 10 * value("WireBitTime")})
	frame := value("WirePreambleBytes") + 14 + 16 + 64 + value("WireFcsBytes")
	require.InDelta(t, 8*9*frame*value("WireBitTime"), int64(slower-later), float64(value("SystemClockPeriod")), "the bus takes what came at its next clock")

	// This device has no host bridge, so nothing else differs.
	seen := map[uint64]string{plainDigest.Hash: "plain"}
	for _, c := range []map[string]int64{
		{"BridgeReadInitialClocks": value("BridgeReadInitialClocks") + 1},
		{"BridgeReadInitialClocks": value("BridgeReadInitialClocks") + 2},
		{"BridgePostedWriteClocks": value("BridgeReadInitialClocks") + 1},
	} {
		at, d := replaced(t, c)
		require.Equal(t, plain, at)
		require.Empty(t, seen[d.Hash], "the digest of %v", c)
		require.Equal(t, plainDigest.FramesHash, d.FramesHash, "%v: the same frames", c)
		require.Equal(t, plainDigest.WakesHash, d.WakesHash, "%v: the same wakes", c)
		seen[d.Hash] = fmt.Sprint(c)
	}
}

func TestReplacedParametersRefused(t *testing.T) {
	ctx := testContext(t, 5*time.Minute)
	program := unit.Simulator(t)
	start := func(arguments ...string) error {
		f, err := sim.Start(ctx, sim.Config{Program: program, Mode: sim.Free, Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, MemoryBytes: memoryBytes, Arguments: arguments})
		if err == nil {
			require.NoError(t, f.Close())
		}
		return err
	}
	for text, want := range map[string]string{
		"CableDelay":                      "want NAME=VALUE",
		"Cable=1":                         "there is no parameter Cable",
		"=1":                              "there is no parameter",
		"CableDelay=":                     "must be a whole number from 0",
		"CableDelay=5x":                   "must be a whole number",
		"CableDelay=0x10":                 "must be a whole number",
		"CableDelay=99999999999999999999": "must be a whole number",
		"SystemClockPeriod=0":             "must be a whole number from 1000",
		"MacClockPhase=30000":             "MacClockPhase = 30000 is not below MacClockPeriod = 30000",
		"MacClockPeriod=7000":             "MacClockPhase = 7000 is not below MacClockPeriod = 7000",
		"SdramClockPeriod=9999":           "SdramRcdTime = 20000 is longer than the SdramRcdClocks = 2 of this build",
		"SdramClockPeriod=10005":          "SdramRefreshTime = 15625000 is shorter than the SdramRefreshClocks = 1562",
		"SdramRrdTime=20001":              "SdramRrdTime = 20001 is longer",
		"SdramPowerUpTime=200000001":      "SdramPowerUpTime = 200000001 is longer",
		"BridgeWriteInitialClocks=1":      "BridgeWriteInitialClocks = 1 comes before BridgeDevselClocks = 2",
		"BridgeWaitClocks=8":              "from 1 to 7",
		"WireBitTime=1":                   "", // for comparison: a wire of 1 Tb/s affects no model
	} {
		err := start("--param", text)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorIs(t, err, sim.ErrStart, text)
		require.ErrorContains(t, err, "--param "+text, text)
		require.ErrorContains(t, err, want, text)
	}
	require.ErrorContains(t, start("--param", "CableDelay=1", "--param", "CableDelay=1"), "CableDelay is given twice")
	require.ErrorContains(t, start("--param", "CableDelay=0", "--param", "PhyReceiveDelay=0", "--param", "PhyTransmitDelay=0", "--param", "WirePreambleBytes=2"), "less than MacClockPeriod")
	// Each of these values alone is invalid.
	require.NoError(t, start("--param", "MacClockPeriod=7000", "--param", "MacClockPhase=6999"))

	// The strap selects the clocks of an SDRAM with a third of the speed.
	slow := []string{"--strap", fmt.Sprint(1 << layout.StrapSlowSdram)}
	err := start(slow...)
	require.ErrorIs(t, err, sim.ErrStart)
	require.ErrorContains(t, err, "strap SlowSdram: SdramRcdTime = 20000 is longer than the SdramSlowRcdClocks = 1 of this build with SdramClockPeriod = 10000: give --param SdramClockPeriod=30000")
	require.NoError(t, start(append(slow, "--param", "SdramClockPeriod=30000")...))
	require.ErrorContains(t, start(append(slow, "--param", "SdramClockPeriod=30050")...), "SdramRefreshTime = 15625000 is shorter than the SdramSlowRefreshClocks = 520")
	require.ErrorContains(t, start("--param", "SdramClockPeriod=30000"), "SdramRefreshTime = 15625000 is shorter than the SdramRefreshClocks = 1562")

	// All parameters of class model have limits. Parameters of other classes
	// are rejected.
	for _, p := range params.Table() {
		err := start("--param", p.Name+"=-1")
		require.ErrorContains(t, err, map[params.Class]string{
			params.Model: "must be a whole number from", params.Elaboration: "choose or add a profile", params.Host: "cost model", params.Driver: "class host or driver",
		}[p.Class], p.Name)
	}
}

// The simulator accepts both ends of every range, unless they contradict other
// values, and nothing beyond. It reports a rejected value in one sentence.
func TestRangesOfParameters(t *testing.T) {
	ctx := testContext(t, 5*time.Minute)
	program := unit.Simulator(t)
	start := func(name string, value int64) error {
		f, err := sim.Start(ctx, sim.Config{
			Program: program, Mode: sim.Free, Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, MemoryBytes: memoryBytes, Params: map[string]int64{name: value},
		})
		if err == nil {
			require.NoError(t, f.Close())
		}
		return err
	}
	taken := 0
	for _, p := range params.Table() {
		if p.Class != params.Model {
			continue
		}
		for _, v := range []int64{p.Least, p.Most} {
			if err := start(p.Name, v); err != nil {
				require.ErrorIs(t, err, sim.ErrRejected)
				require.ErrorContains(t, err, "the models cannot run like that", "%s=%d", p.Name, v)
				continue
			}
			taken++
		}
		for _, v := range []int64{p.Least - 1, p.Most + 1} {
			err := start(p.Name, v)
			require.ErrorIs(t, err, sim.ErrRejected)
			require.EqualError(t, err, fmt.Sprintf("--param %s=%d: must be a whole number from %d to %d", p.Name, v, p.Least, p.Most))
		}
	}
	require.Greater(t, taken, len(params.Table())/2)
}

// A simulator that omits the replaced values from the digest is detected.
func TestMutantReplacedParametersInDigest(t *testing.T) {
	program := mutant(t, parametersBug)
	ctx := testContext(t, time.Minute)
	var digests []bridge.Digest
	for _, clocks := range []int64{9, 10} {
		f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), Program: program, Params: map[string]int64{"BridgeReadInitialClocks": clocks}})
		left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
		errL, errR := both(func() error { return left.Sleep(5) }, func() error { return right.Sleep(5) })
		require.NoError(t, errors.Join(errL, errR, left.Detach(), right.Detach()))
		d, err := f.Digest(ctx)
		require.NoError(t, err)
		digests = append(digests, d)
	}
	require.Equal(t, digests[0], digests[1])
}
