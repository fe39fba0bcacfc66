// SPDX-License-Identifier: Apache-2.0

// Package stray_test injects bugs into the card that make it access host memory
// outside the frames in use, and checks that the simulator stops the run.
package stray_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/faulty"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	bytes = 4096
	limit = 100 * host.Millisecond
)

// write makes one RDMA write from node 0 to node 1.
func write(ctx context.Context, program string) error {
	c := fabric.RunConfig{Fabric: sim.Config{Program: program}}
	return fabric.Run(ctx, c,
		fabric.Program{Node: 0, Name: "writer", Main: func(t *host.Thread, h *driver.Host) error {
			e, err := endpoint.Open(t, h, endpoint.Config{Bytes: bytes})
			if err != nil {
				return err
			}
			if err := e.Dial(t, vipl.At(1, "stray"), limit); err != nil {
				return err
			}
			e.Bytes()[9] = 1
			return e.Write(t, 0, 10, 0, limit)
		}},
		fabric.Program{Node: 1, Name: "reader", Main: func(t *host.Thread, h *driver.Host) error {
			e, err := endpoint.Open(t, h, endpoint.Config{Bytes: bytes})
			if err != nil {
				return err
			}
			if err := e.Accept(t, "stray", limit); err != nil {
				return err
			}
			return e.Poll(t, 9, 1, limit)
		}})
}

// The card without bugs completes the transfer, so the bugs below stop it.
func TestNoFault(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, write(ctx, ""))
}

func TestStrayAccessStopsTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a separate simulator")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	program := faulty.Simulator(t)
	require.NoError(t, write(ctx, program), "without a bug")
	for _, name := range []string{"read", "write"} {
		t.Run(name, func(t *testing.T) {
			faulty.Enable(t, "a stray "+name)
			begin := time.Now()
			err := write(ctx, program)
			require.ErrorIs(t, err, bridge.ErrMemoryFault)
			for _, s := range []string{name, "node"} {
				require.ErrorContains(t, err, s)
			}
			require.Less(t, time.Since(begin), time.Minute, "the run must stop, not time out")
			t.Log(err)
		})
	}
}
