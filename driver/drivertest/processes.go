// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
)

// Frames of a node's resident agent, and of each of the banks that follow.
const (
	agentFrames = 1024
	bankFrames  = 1024
)

// Resident starts the agent of a node for processes that enter later. It counts
// as one of the threads that time waits for.
func (f *Fabric) Resident(ctx context.Context, node int, c driver.HostConfig) (*driver.Host, error) {
	n := f.nodes[node]
	var err error
	if c.Memory, err = mem.New(mem.Config{Fd: n.memory.fd, Frames: agentFrames, Use: n.memory, Seed: 1}); err != nil {
		return nil, err
	}
	t, err := f.Attach(ctx, host.ThreadID{Node: node, Rank: driver.AgentRank}, "agent")
	if err != nil {
		return nil, err
	}
	c.Resident, c.Frames = true, memoryFrames
	return driver.StartHost(t, c)
}

// Member is a process of an agent, with both sides of its bank.
type Member struct {
	ID     int
	First  int // rank of its first thread
	Host   *driver.Host
	Memory *mem.Memory  // the agent's side of the bank
	Pages  map[int]bool // granted pages of doorbells
}

// Enter adds a process to a resident agent. Its number, from 0 to 2, selects
// its bank, and its threads have ranks from 1+10*number on.
func (f *Fabric) Enter(agent *driver.Host, number int) (*Member, error) {
	n := f.nodes[agent.Node()]
	c := mem.Config{Fd: n.memory.fd, Frames: bankFrames, First: agentFrames + number*bankFrames, Use: n.memory, Seed: uint64(number) + 2}
	c.Skip = c.First
	m := &Member{ID: number + 1, First: 1 + 10*number, Pages: map[int]bool{}}
	var err error
	if m.Memory, err = mem.NewBank(c); err != nil {
		return nil, err
	}
	entry, err := agent.Agent.Enter(driver.ProcessConfig{
		ID: m.ID, Name: fmt.Sprintf("process %d", number), Pid: 1000 + number, FirstRank: m.First, Ranks: 10, Memory: m.Memory,
		Grant: func(page int, on bool) error {
			m.Pages[page] = on
			return nil
		},
	})
	if err != nil {
		m.Memory.Close()
		return nil, err
	}
	c.Use = nil
	m.Host, err = driver.NewGuest(driver.GuestConfig{
		Node: agent.Node(), Device: driver.DeviceHvia, Memory: c, FirstRank: m.First, Ranks: 10, Entry: entry,
	})
	if err != nil {
		m.Memory.Close()
		return nil, err
	}
	return m, nil
}

// Close frees both sides of the bank.
func (m *Member) Close() {
	m.Host.Memory().Close()
	m.Memory.Close()
}

// UsesIn returns the number of counted uses of a bank's frames.
func (n *Node) UsesIn(bank *mem.Memory) (uses int) {
	n.memory.mu.Lock()
	defer n.memory.mu.Unlock()
	for f := bank.First(); f < bank.First()+bank.Frames(); f++ {
		u := n.memory.use[f]
		uses += u[0] + u[1] + u[2]
	}
	return uses
}
