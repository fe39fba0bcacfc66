// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// A repeated run gives the same frames, wakes and times. Another seed places
// memory differently and must pass, too.
func TestRunsOnTheCardRepeat(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	var digests [3]bridge.Digest
	for i, s := range []uint64{conformtest.Seed(t), conformtest.Seed(t), conformtest.Seed(t) + 1} {
		digests[i] = runCard(t, s, remoteErrorClient, remoteErrorServer)
	}
	require.Equal(t, digests[0], digests[1])
	require.NotEqual(t, digests[0].Hash, digests[2].Hash)
}

// joinPath is set in the process that hosts node 1 of a run in two processes.
const joinPath = "HVIA_TEST_JOIN"

// joinedMains are the programs of runs in two processes.
var joinedMains = []Main{remoteErrorClient, remoteErrorServer}

// only keeps the programs of one node, and just the names of the others.
func only(node int, all []fabric.Program) []fabric.Program {
	for i := range all {
		if all[i].Node != node {
			all[i].Main = nil
		}
	}
	return all
}

// A run with one process for each host equals the run in a single process.
func TestTwoProcessesOnTheCard(t *testing.T) {
	if path := os.Getenv(joinPath); path != "" {
		f, err := sim.Attach(t.Context(), path, bridge.Options{Name: "host1", Nodes: []int{1}})
		require.NoError(t, err)
		require.NoError(t, fabric.RunOn(t.Context(), fabric.Machines(f.Conn()), fabric.RunConfig{Seed: conformtest.Seed(t)}, only(1, Programs(joinedMains...))...))
		require.NoError(t, f.Close())
		return
	}
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	together := runCard(t, conformtest.Seed(t), joinedMains...)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := sim.Start(ctx, sim.Config{
		Nodes: []sim.Node{{Kind: "card", Name: "node0"}, {Kind: "card", Name: "node1"}}, Seed: conformtest.Seed(t),
		Threads: fabric.Participants(Programs(joinedMains...)), MapNodes: []int{0}, Process: "host0",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	other := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTwoProcessesOnTheCard$")
	other.Env = append(os.Environ(), joinPath+"="+f.Path())
	var output bytes.Buffer
	other.Stdout, other.Stderr = &output, &output
	require.NoError(t, other.Start())
	mine := fabric.RunOn(ctx, fabric.Machines(f.Conn()), fabric.RunConfig{Seed: conformtest.Seed(t)}, only(0, Programs(joinedMains...))...)
	require.NoError(t, other.Wait(), "the process of node 1: %s", &output)
	require.NoError(t, mine)
	apart, err := f.Digest(ctx)
	require.NoError(t, err)
	require.Equal(t, together, apart)
}

// In free mode the same programs run in wall time.
func TestFreeModeOnTheCard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, fabric.Run(ctx, fabric.RunConfig{Seed: conformtest.Seed(t), Fabric: sim.Config{Mode: sim.Free}},
		Programs(func(e *Env) error { return endpointProgram(e, 0) }, func(e *Env) error { return endpointProgram(e, 1) })...))
	require.NoError(t, fabric.Run(ctx, fabric.RunConfig{Seed: conformtest.Seed(t), Fabric: sim.Config{Mode: sim.Free}}, Programs(compactClient, compactServer)...))
}

// Flip-flops and pins hold random values before the reset. The card must come
// up from all of them.
func TestCardComesUpFromAnyNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	for s := range uint64(24) {
		runCard(t, s+1, MainsOf(Scenario{client: idleClient})...)
	}
}

// A fabric of one node has no cable: a connection request times out, and
// nothing else happens.
func TestOneNodeOnTheCard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := fabric.Run(ctx, fabric.RunConfig{Seed: conformtest.Seed(t)}, fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
		e := must(endpoint.Open(t, h, endpoint.Config{Bytes: 4096}))
		if err := e.Dial(t, vipl.At(1, "nobody"), host.Millisecond); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("dial without a cable: %w instead of a timeout", err)
		}
		return e.Close(t)
	}})
	require.NoError(t, err)
}
