// SPDX-License-Identifier: Apache-2.0

// Package nics runs tests on a fabric of plain NICs. Each node has a thread
// that serves its NIC and one that sends frames at a pace.
package nics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/card"
	"hvia/host"
	"hvia/host/mem"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// LAN is a running fabric.
type LAN struct {
	unit.Records
	NIC    []*card.Ethernet
	config sim.Config
	fabric *sim.Fabric
	memory []*mem.Memory
	ctx    context.Context
	cancel context.CancelFunc
}

// Start starts a fabric. The configuration has neither nodes nor threads yet.
// With third, the last node has a third thread.
func Start(t *testing.T, c sim.Config, nodes int, third bool) *LAN {
	t.Helper()
	l := &LAN{Records: unit.NewRecords(t), NIC: make([]*card.Ethernet, nodes)}
	l.ctx, l.cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	if c.Program == "" {
		c.Program = unit.Simulator(t)
	}
	if c.Seed == 0 {
		c.Seed = unit.Seed(t)
	}
	c.Arguments = l.Arguments(c.Arguments...)
	for n := range nodes {
		c.Nodes = append(c.Nodes, sim.Node{Kind: "nic", Name: fmt.Sprint("n", n)})
		for rank := range 2 {
			c.Threads = append(c.Threads, sim.Thread{Node: n, Rank: rank, Name: fmt.Sprint(n, ".", rank)})
		}
	}
	if third {
		c.Threads = append(c.Threads, sim.Thread{Node: nodes - 1, Rank: 2, Name: "during"})
	}
	l.config = c
	var err error
	l.fabric, err = sim.Start(l.ctx, c)
	require.NoError(t, err)
	for n := range nodes {
		raw, err := l.fabric.Conn().Memory(n)
		require.NoError(t, err)
		m, err := mem.New(mem.Config{Fd: raw.FD, Frames: raw.Frames, Use: raw, Seed: 1})
		require.NoError(t, err)
		l.memory = append(l.memory, m)
	}
	return l
}

// Run runs a body on the threads of each rank and ends the fabric.
func (l *LAN) Run(t *testing.T, bodies ...func(t *host.Thread) error) (d bridge.Digest, err error) {
	t.Helper()
	defer l.cancel()
	errs := make([]error, len(l.config.Threads))
	var wg sync.WaitGroup
	for i, id := range l.config.Threads {
		thread, err := host.Attach(l.ctx, l.fabric.Conn(), host.ThreadID{Node: id.Node, Rank: id.Rank}, id.Name)
		require.NoError(t, err)
		wg.Go(func() { errs[i] = errors.Join(bodies[id.Rank](thread), thread.Detach()) })
	}
	wg.Wait()
	if err = errors.Join(errs...); err == nil {
		d, err = l.fabric.Digest(l.ctx)
	}
	err = errors.Join(err, l.fabric.Close())
	for _, m := range l.memory {
		m.Close()
	}
	return d, err
}

// Begin waits until all NICs are open. Every thread calls it, or Open or Send.
func (l *LAN) Begin(t *host.Thread) error { return t.Barrier(1, len(l.config.Threads)) }

// Open opens the NIC of a thread's node.
func (l *LAN) Open(t *host.Thread) (*card.Ethernet, error) {
	node := t.ID().Node
	e, err := card.OpenEthernet(t, l.memory[node], host.CostModel{})
	if err != nil {
		return nil, err
	}
	l.NIC[node] = e
	return e, errors.Join(e.Start(t, driver.NodeMAC(node)), l.Begin(t))
}

// Send sends frames at a pace, and skips those that are nil.
func (l *LAN) Send(t *host.Thread, count int, pace host.Time, frame func(i int) []byte) error {
	if err := l.Begin(t); err != nil {
		return err
	}
	e := l.NIC[t.ID().Node]
	for i := range count {
		if f := frame(i); f != nil {
			if err := e.Transmit(t, f, nil, nil); err != nil {
				return err
			}
		}
		if err := errors.Join(t.Sleep(pace), e.Reap(t)); err != nil {
			return err
		}
	}
	return nil
}
