// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/sim"
)

// An agent that ends answers the requests in its mailbox. Here the agent finds
// a device that it does not support.
func TestAgentThatEndsAnswers(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			program, err := sim.EchoSimulator(ctx)
			require.NoError(t, err)
			f, err := sim.Start(ctx, sim.Config{
				Program: program, Mode: mode, MemoryBytes: 16 << 20, Nodes: []sim.Node{{Kind: "echo", Name: "a"}},
				Threads: []sim.Thread{{Node: 0, Rank: 0, Name: "agent"}, {Node: 0, Rank: 1, Name: "program"}},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			raw, err := f.Conn().Memory(0)
			require.NoError(t, err)
			m, err := mem.New(mem.Config{Fd: raw.FD, Frames: raw.Frames, Use: raw, Seed: 1})
			require.NoError(t, err)
			defer m.Close()
			agent, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: 0, Rank: 0}, "agent")
			require.NoError(t, err)
			th, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: 0, Rank: 1}, "program")
			require.NoError(t, err)
			const asked = 50
			ask := func() {
				for i := range uint32(asked) {
					require.NoError(t, driver.Ask(th, i+1))
				}
				require.NoError(t, th.Sleep(10*host.Millisecond))
			}
			if mode == sim.Free {
				ask()
			}
			h, err := driver.StartHost(agent, driver.HostConfig{Memory: m})
			require.NoError(t, err)
			if mode == sim.Timed {
				ask() // the agent runs when this thread waits
			}
			require.ErrorIs(t, h.Wait(), driver.ErrIdentity)
			require.Equal(t, uint32(asked), h.Answered(1), "not all were answered")
			require.NoError(t, th.Detach())
		})
	}
}
