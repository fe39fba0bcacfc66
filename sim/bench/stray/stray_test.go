// SPDX-License-Identifier: Apache-2.0

// Package stray_test plants faults in the card that make it touch host memory
// outside the frames in use, and sees the simulator stop the run.
package stray_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/driver"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/verilate"
	"hvia/vipl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	bytes = 4096
	limit = 100 * driver.Millisecond
)

// write makes one RDMA write from node 0 to node 1.
func write(ctx context.Context, program string) error {
	return driver.Run(ctx, driver.RunConfig{Fabric: sim.Config{Program: program}},
		driver.Program{Node: 0, Name: "writer", Main: func(t *driver.Thread, h *driver.Host) error {
			e, err := vipl.OpenEndpoint(t, h, bytes)
			if err != nil {
				return err
			}
			if err := e.Dial(t, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: "stray"}, limit); err != nil {
				return err
			}
			e.Bytes()[9] = 1
			return e.Write(t, 0, 10, 0, limit)
		}},
		driver.Program{Node: 1, Name: "reader", Main: func(t *driver.Thread, h *driver.Host) error {
			e, err := vipl.OpenEndpoint(t, h, bytes)
			if err != nil {
				return err
			}
			if err := e.Accept(t, "stray", limit); err != nil {
				return err
			}
			return e.Poll(t, 9, 1, limit)
		}})
}

// The unharmed card does the transfer, so the faults below are what stops it.
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
		t.Skip("needs two simulators of their own")
	}
	tests := []struct {
		name   string
		mutant verilate.Mutant
		says   []string
	}{
		{"read", verilate.Mutant{File: "rtl/descriptor_fetch.sv", Old: "assign req_addr_o  = pa_q;", New: "assign req_addr_o  = pa_q ^ 32'h0800_0000;"},
			[]string{"read", "node"}},
		{"write", verilate.Mutant{File: "rtl/completion.sv", Old: "assign status_at   = pa_q + start;", New: "assign status_at   = (pa_q ^ 32'h0800_0000) + start;"},
			[]string{"write", "node"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			program, err := sim.Simulator(ctx, tt.mutant)
			require.NoError(t, err)
			begin := time.Now()
			err = write(ctx, program)
			require.ErrorIs(t, err, bridge.ErrMemoryFault)
			for _, s := range tt.says {
				require.ErrorContains(t, err, s)
			}
			require.Less(t, time.Since(begin), time.Minute, "the run must stop, not time out")
			t.Log(err)
		})
	}
}
