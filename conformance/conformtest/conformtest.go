// SPDX-License-Identifier: Apache-2.0

// Package conformtest runs programs in tests: on fake cards, on M-VIA over fake
// NICs, and in the simulator.
package conformtest

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// Limit bounds a run in the simulator, in wall time.
const Limit = 5 * time.Minute

// Seed is the seed of simulated runs: HVIA_SEED, or 1.
func Seed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("HVIA_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 0, 64)
		require.NoError(t, err, "HVIA_SEED")
		return n
	}
	return 1
}

// Long returns the size of a normal run or, with HVIA_LONG, of a long one.
func Long(normal, long int) int {
	if os.Getenv("HVIA_LONG") == "1" {
		return long
	}
	return normal
}

// WithLimit bounds a test by [Limit].
func WithLimit(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), Limit)
}

// NeedsSimulator skips a test with -short.
func NeedsSimulator(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the simulator, whose build takes minutes")
	}
}

// OnDevices runs a test for each device.
func OnDevices(t *testing.T, test func(t *testing.T, d driver.Device)) {
	for _, d := range []driver.Device{driver.DeviceHvia, driver.DeviceMvia} {
		t.Run(string(d), func(t *testing.T) { test(t, d) })
	}
}

// RunFake runs programs on fake cards, or on M-VIA over fake NICs. It checks
// that the agents release all resources of the programs.
func RunFake(t *testing.T, d driver.Device, prepare func(f *drivertest.Fabric), list ...fabric.Program) *drivertest.Fabric {
	t.Helper()
	nodes := map[int]bool{}
	for _, p := range list {
		nodes[p.Node] = true
	}
	f, err := drivertest.NewOf(d, len(nodes), len(fabric.Participants(list)))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	if prepare != nil {
		prepare(f)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Device: d, Seed: 1}, list...))
	for i := range nodes {
		require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
	}
	return f
}

// RunSimulated runs programs in the simulator and returns the run's digest.
func RunSimulated(t *testing.T, d driver.Device, seed uint64, list ...fabric.Program) bridge.Digest {
	t.Helper()
	ctx, cancel := WithLimit(t)
	defer cancel()
	var digest bridge.Digest
	err := fabric.Run(ctx, fabric.RunConfig{Device: d, Seed: seed, Finished: func(f *sim.Fabric) (err error) {
		digest, err = f.Digest(ctx)
		return err
	}}, list...)
	require.NoError(t, err, "replay with HVIA_SEED=%d", seed)
	return digest
}

// IsVIA reports whether a frame belongs to a connection.
func IsVIA(frame []byte) bool {
	return layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia
}
