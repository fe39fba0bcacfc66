// SPDX-License-Identifier: Apache-2.0

// Package stray_test injects bugs into the card that make it access host memory
// outside the frames in use, and checks that the simulator stops the run.
package stray_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/verilate"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	bytes = 4096
	limit = 100 * host.Millisecond
)

// write makes one RDMA write from node 0 to node 1, on cards with these straps.
func write(ctx context.Context, program string, straps uint32) error {
	c := fabric.RunConfig{Fabric: sim.Config{Program: program}}
	if straps != 0 {
		c.Fabric.Arguments = []string{"--strap", fmt.Sprint(straps)}
	}
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
	require.NoError(t, write(ctx, "", 0))
}

// Both bugs are in one simulator, because a build takes a minute. A strap that
// the card does not use enables each.
func TestStrayAccessStopsTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a separate simulator")
	}
	tests := []struct {
		name     string
		strap    int
		file     string
		old, new string // FAULT stands for the switch
	}{
		{"read", 30, "rtl/via/hvia_descriptor_fetch.sv", "assign req_addr_o  = pa_q;", "assign req_addr_o  = pa_q ^ {4'd0, FAULT, 27'd0};"},
		{"write", 31, "rtl/via/hvia_completion.sv", "assign status_at   = pa_q + start;", "assign status_at   = (pa_q ^ {4'd0, FAULT, 27'd0}) + start;"},
	}
	var mutants []verilate.Mutant
	for _, tt := range tests {
		on := fmt.Sprintf("hvia_board.strap_i[%d]", tt.strap)
		mutants = append(mutants, verilate.Mutant{File: tt.file, Old: tt.old, New: strings.ReplaceAll(tt.new, "FAULT", on)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	program, err := sim.Build{Mutants: mutants}.Program(ctx)
	require.NoError(t, err)
	require.NoError(t, write(ctx, program, 0), "both faults are switched off")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			err := write(ctx, program, 1<<tt.strap)
			require.ErrorIs(t, err, bridge.ErrMemoryFault)
			for _, s := range []string{tt.name, "node"} {
				require.ErrorContains(t, err, s)
			}
			require.Less(t, time.Since(begin), time.Minute, "the run must stop, not time out")
			t.Log(err)
		})
	}
}
