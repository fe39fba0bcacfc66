// SPDX-License-Identifier: Apache-2.0

package switch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// Echo devices address any other node, and ignore flooded frames.
func TestEchoDevices(t *testing.T) { require.NoError(t, echoes(t, unit.Simulator(t))) }

func echoes(t *testing.T, program string) error {
	t.Helper()
	const (
		nodes     = 4
		requestAt = 0
		sourceAt  = 4096
		length    = 8000 // enough frames to interleave those of two senders
	)
	target := func(from int) uint32 { return uint32(16384 * (1 + from)) }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := sim.Config{Program: program, MemoryBytes: 1 << 20}
	for n := range nodes {
		cfg.Nodes = append(cfg.Nodes, sim.Node{Kind: "echo", Name: string(rune('a' + n))})
		cfg.Threads = append(cfg.Threads, sim.Thread{Node: n, Name: string(rune('a' + n))})
	}
	f, err := sim.Start(ctx, cfg)
	require.NoError(t, err)
	memory := make([][]byte, nodes)
	for n := range nodes {
		m, err := f.Conn().Memory(n)
		require.NoError(t, err)
		for frame := range m.Frames {
			require.NoError(t, m.Acquire(frame, bridge.UseRing))
		}
		memory[n] = m.Linear()
	}
	// Each sends to the second next node.
	to := func(n int) int { return (n + 2) % nodes }
	data := func(n int) []byte { return bytes.Repeat([]byte{byte(n + 1), byte(7 * n), 0x55, byte(n)}, length/4) }
	body := func(t *host.Thread) error {
		n := t.ID().Node
		copy(memory[n][sourceAt:], data(n))
		r := layout.EchoRequest(memory[n][requestAt:][:layout.EchoRequestSize])
		r.SetNode(uint32(to(n)))
		r.SetTargetAddress(target(n))
		r.SetSourceAddress(sourceAt)
		r.SetLength(length)
		return errors.Join(t.Write(layout.EchoDoorbell, requestAt, 0, 0), t.Sleep(5*host.Millisecond))
	}
	errs := make([]error, nodes)
	var wg sync.WaitGroup
	for n := range nodes {
		thread, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: n}, cfg.Threads[n].Name)
		require.NoError(t, err)
		wg.Go(func() { errs[n] = errors.Join(body(thread), thread.Detach()) })
	}
	wg.Wait()
	for n := range nodes {
		for from := range nodes {
			want := make([]byte, length)
			if to(from) == n {
				want = data(from)
			}
			if !bytes.Equal(want, memory[n][target(from):][:length]) {
				errs = append(errs, fmt.Errorf("node %d has not what node %d sent to node %d", n, from, to(from)))
			}
		}
	}
	return errors.Join(append(errs, f.Close())...)
}
