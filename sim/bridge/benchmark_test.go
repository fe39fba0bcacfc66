// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// benchThread is a thread of the process that owns the fabric.
func benchThread(b *testing.B, mode sim.Mode) *bridge.Slot {
	ctx := limited(b, 10*time.Minute)
	program := echoProgram(b)
	cfg := sim.Config{Program: program, Mode: mode, Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, MemoryBytes: 1 << 20}
	if mode == sim.Timed {
		cfg.Threads = []sim.Thread{{Name: "benchmark"}}
	}
	f, err := sim.Start(ctx, cfg)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, f.Close()) })
	slot, err := f.Conn().Attach(ctx, 0, 0, "benchmark")
	require.NoError(b, err)
	require.NoError(b, slot.Begin(ctx))
	b.ReportAllocs()
	return slot
}

// BenchmarkPost is a doorbell in timed mode, with a wait after each 200.
func BenchmarkPost(b *testing.B) {
	slot := benchThread(b, sim.Timed)
	ctx := context.Background()
	n := 0
	for b.Loop() {
		if err := slot.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodePublish, Address: 64, Tag: 4}); err != nil {
			b.Fatal(err)
		}
		if n++; n%200 == 0 {
			if _, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Nanosecond}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkPark is a wait to and from the simulator.
func BenchmarkPark(b *testing.B) {
	slot := benchThread(b, sim.Timed)
	ctx := context.Background()
	for b.Loop() {
		if _, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Nanosecond}); err != nil {
			b.Fatal(err)
		}
	}
}
