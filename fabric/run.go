// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/sim"
	"hvia/sim/bridge"
)

// Program is what one thread of a host does. Several programs may share a node.
type Program struct {
	Node int
	Name string // of the thread; "program <n>" if empty
	Main func(t *host.Thread, h *driver.Host) error
}

// RunConfig says on what Run runs. The zero value of a field takes the default.
type RunConfig struct {
	// Fabric is how the simulator is started. Its Threads are filled in; if it
	// names no nodes, every node that a program names gets a card of kind CardKind.
	// For RunOn it describes the fabric that is there: Profile and Params must be those
	// that its simulator has.
	Fabric    sim.Config
	Device    driver.Device    // what the nodes' VIs are on: DeviceHvia
	CardKind  string           // the simulator's kind of node that Device runs on
	Costs     host.CostModel   // NoCosts
	Logger    *slog.Logger     // nil = silent
	Seed      uint64           // of scatter order, sequence numbers and, unless Fabric says otherwise, of the models: 1
	Transport driver.Transport // of the reliable levels
	Regions   int              // largest number of registered regions of a node: 1,024

	// Spending, when set, is told each entry of the accounts of all threads of this
	// process, the agents' included, on the thread that spends: several call it at
	// once, each in the order of its time. It must not call into the driver.
	Spending func(host.Spending)

	// Finished, when set, is called after all programs have ended and before
	// the fabric is closed, for digests and the like.
	Finished func(f *sim.Fabric) error
}

// Run starts a fabric, runs each program on a thread of its own with a kernel
// agent for each node, waits for all of them and closes everything. It returns
// the programs' errors joined; when one fails, the others are ended.
func Run(ctx context.Context, c RunConfig, programs ...Program) (err error) {
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Device == "" {
		c.Device = driver.DeviceHvia
	}
	if err := c.Device.Check(); err != nil {
		return err
	}
	if c.CardKind == "" {
		c.CardKind = nodeKind(c.Device)
	}
	programs = named(programs)
	if c.Fabric.Nodes == nil {
		nodes := 0
		for _, p := range programs {
			nodes = max(nodes, p.Node+1)
		}
		for i := range nodes {
			c.Fabric.Nodes = append(c.Fabric.Nodes, sim.Node{Kind: c.CardKind, Name: fmt.Sprintf("node%d", i)})
		}
	}
	if c.Fabric.Seed == 0 {
		c.Fabric.Seed = c.Seed
	}
	c.Fabric.Threads = Participants(programs)
	fabric, err := sim.Start(ctx, c.Fabric)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fabric.Close()) }()
	if err := RunOn(ctx, Machines(fabric.Conn()), c, programs...); err != nil {
		return err
	}
	if c.Finished != nil {
		return c.Finished(fabric)
	}
	return nil
}

// nodeKind is the simulator's kind of node that a device runs on.
func nodeKind(d driver.Device) string {
	if d == driver.DeviceMvia {
		return "nic"
	}
	return "card"
}

func named(programs []Program) []Program {
	out := append([]Program(nil), programs...)
	for i := range out {
		if out[i].Name == "" {
			out[i].Name = fmt.Sprintf("program %d", i)
		}
	}
	return out
}

// Participants returns the threads that programs need, those of the agents
// included, for the declaration at a fabric's start. Ranks follow the order of
// the programs, so every process of a fabric must declare the same list.
func Participants(programs []Program) []sim.Thread {
	var threads []sim.Thread
	ranks := map[int]int{}
	for _, p := range named(programs) {
		if ranks[p.Node] == 0 {
			threads = append(threads, sim.Thread{Node: p.Node, Rank: driver.AgentRank, Name: AgentName(p.Node)})
		}
		ranks[p.Node]++
		threads = append(threads, sim.Thread{Node: p.Node, Rank: ranks[p.Node], Name: p.Name})
	}
	return threads
}

// AgentName is the name of the thread of a node's agent.
func AgentName(node int) string { return fmt.Sprintf("agent %d", node) }

// Fabric is where programs run: it gives threads and host memory.
type Fabric interface {
	Attach(ctx context.Context, id host.ThreadID, name string) (*host.Thread, error)
	// Memory makes the allocator of a node's memory; it is called once for a node.
	Memory(node int, seed uint64) (*mem.Memory, error)
}

// Machines returns the simulated machines that a connection reaches.
func Machines(conn *bridge.Conn) Fabric { return machines{conn} }

type machines struct{ conn *bridge.Conn }

func (m machines) Attach(ctx context.Context, id host.ThreadID, name string) (*host.Thread, error) {
	return host.Attach(ctx, m.conn, id, name)
}

func (m machines) Memory(node int, seed uint64) (*mem.Memory, error) {
	raw, err := m.conn.Memory(node)
	if err != nil {
		return nil, err
	}
	return mem.New(mem.Config{Fd: raw.FD, Frames: raw.Frames, Use: raw, Seed: seed})
}

// RunOn runs programs on a fabric that is there already. A process that
// hosts some nodes only passes all programs, and nil as Main of those that run
// elsewhere. Programs of one node must be in one process.
func RunOn(ctx context.Context, f Fabric, c RunConfig, programs ...Program) error {
	if c.Costs == nil {
		c.Costs = host.NoCosts{}
	}
	programs = named(programs)
	here := map[int]int{} // programs of this process by node
	for _, p := range programs {
		if p.Main != nil {
			here[p.Node]++
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	hosts := map[int]*driver.Host{}
	ranks := map[int]int{}
	var agents []*driver.Host
	var failed []error
	type job struct {
		program Program
		thread  *host.Thread
		host    *driver.Host
	}
	var jobs []job
	start := func() error {
		for _, p := range programs {
			ranks[p.Node]++
			if p.Main == nil {
				continue
			}
			h := hosts[p.Node]
			if h == nil {
				var err error
				if h, err = startNode(ctx, f, c, p.Node, here[p.Node]); err != nil {
					return err
				}
				hosts[p.Node], agents = h, append(agents, h)
			}
			t, err := f.Attach(ctx, host.ThreadID{Node: p.Node, Rank: ranks[p.Node]}, p.Name)
			if err != nil {
				return err
			}
			t.OnSpend(c.Spending)
			jobs = append(jobs, job{p, t, h})
		}
		return nil
	}
	if err := start(); err != nil {
		cancel(err)
		for _, j := range jobs {
			_ = j.thread.Detach() // the run is given up
		}
		for _, h := range agents {
			_ = h.Wait()
			h.Memory().Close()
		}
		return err
	}

	var mu sync.Mutex
	var programsDone sync.WaitGroup
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if len(failed) > 0 && errors.Is(err, bridge.ErrAborted) {
			return // ended because of the first failure
		}
		failed = append(failed, err)
	}
	for _, j := range jobs {
		programsDone.Go(func() {
			err := j.program.Main(j.thread, j.host)
			if err != nil {
				err = fmt.Errorf("%s on node %d: %w", j.program.Name, j.program.Node, err)
				fail(err)
				cancel(err)
			}
			// After a failure these only say that the run is over.
			leave := j.host.Leave(j.thread)
			detach := j.thread.Detach()
			if err == nil && (leave != nil || detach != nil) {
				fail(errors.Join(leave, detach))
			}
		})
	}
	programsDone.Wait()
	for _, h := range agents {
		if err := h.Wait(); err != nil && len(failed) == 0 {
			failed = append(failed, err)
		}
		h.Memory().Close()
	}
	return errors.Join(failed...)
}

func startNode(ctx context.Context, f Fabric, c RunConfig, node, programs int) (*driver.Host, error) {
	seed := host.SplitMix(c.Seed + uint64(node))
	m, err := f.Memory(node, seed.Next())
	if err != nil {
		return nil, err
	}
	t, err := f.Attach(ctx, host.ThreadID{Node: node, Rank: driver.AgentRank}, AgentName(node))
	if err != nil {
		m.Close()
		return nil, err
	}
	t.OnSpend(c.Spending)
	var names []string
	for _, n := range c.Fabric.Nodes {
		names = append(names, n.Name)
	}
	h, err := driver.StartHost(t, driver.HostConfig{
		Names: names, Switch: c.Fabric.Switch, Profile: c.Fabric.Profile, Params: c.Fabric.Params, Memory: m, Device: c.Device, Costs: c.Costs, Logger: c.Logger, Seed: seed.Next(), Transport: c.Transport, Regions: c.Regions, Programs: programs,
	})
	if err != nil {
		_ = t.Detach() // nothing was started
		m.Close()
		return nil, err
	}
	return h, nil
}
