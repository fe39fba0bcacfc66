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

// Program is the work of one thread of a host. Several programs may share a
// node.
type Program struct {
	Node int
	Name string // of the thread; "program <n>" if empty
	Main func(t *host.Thread, h *driver.Host) error
}

// RunConfig configures Run. The zero value of a field takes the default.
type RunConfig struct {
	// Fabric configures the simulator. Run sets its Threads. If Nodes is nil,
	// Run makes nodes 0 to the programs' highest, of kind CardKind. For RunOn
	// it describes the running fabric: Profile and Params must be those of its
	// simulator.
	Fabric    sim.Config
	Device    driver.Device // device of the nodes' VIs: DeviceHvia
	CardKind  string        // the simulator's kind of node for Device
	Costs     host.CostModel
	Logger    *slog.Logger     // nil = silent
	Seed      uint64           // of scatter order, sequence numbers and, unless Fabric has a seed, the models: 1
	Transport driver.Transport // of the reliable levels
	Regions   int              // largest number of registered regions of a node: 1,024

	// Spending, when set, is called for each entry of the accounts of all
	// threads of this process, agents included, on the thread that spends.
	// Threads call it concurrently, each in the order of its time. It must not
	// call the driver.
	Spending func(host.Spending)

	// Finished, when set, is called after all programs have ended and before
	// the fabric closes, for example to read digests.
	Finished func(f *sim.Fabric) error
}

// Run starts a fabric with a kernel agent for each node, runs each program on a
// separate thread, waits for all of them and closes everything. It returns the
// programs' errors joined; when one fails, Run cancels the others.
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

// Participants returns the threads of programs and their agents, to declare at
// a fabric's start. Ranks follow the order of the programs, so every process of
// a fabric must declare the same list.
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

// AgentName returns the name of the thread of a node's agent.
func AgentName(node int) string { return fmt.Sprintf("agent %d", node) }

// Fabric provides threads and host memory to programs.
type Fabric interface {
	Attach(ctx context.Context, id host.ThreadID, name string) (*host.Thread, error)
	// Memory returns the allocator of a node's memory; call it once per node.
	Memory(node int, seed uint64) (*mem.Memory, error)
}

// Machines returns the simulated machines of a connection.
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

// job is a program on its thread and its node's host.
type job struct {
	program Program
	thread  *host.Thread
	host    *driver.Host
}

// start starts the nodes of the programs that run here and attaches a thread
// for each program. After an error it returns what it has started.
func start(ctx context.Context, f Fabric, c RunConfig, programs []Program) (jobs []job, nodes []*driver.Host, err error) {
	here := map[int]int{} // programs of this process by node
	for _, p := range programs {
		if p.Main != nil {
			here[p.Node]++
		}
	}
	hosts, ranks := map[int]*driver.Host{}, map[int]int{}
	for _, p := range programs {
		ranks[p.Node]++
		if p.Main == nil {
			continue
		}
		h := hosts[p.Node]
		if h == nil {
			if h, err = startNode(ctx, f, c, p.Node, here[p.Node]); err != nil {
				return jobs, nodes, err
			}
			hosts[p.Node], nodes = h, append(nodes, h)
		}
		t, err := f.Attach(ctx, host.ThreadID{Node: p.Node, Rank: ranks[p.Node]}, p.Name)
		if err != nil {
			return jobs, nodes, err
		}
		t.OnSpend(c.Spending)
		jobs = append(jobs, job{p, t, h})
	}
	return jobs, nodes, nil
}

// RunOn runs programs on a running fabric. A process that hosts only some nodes
// passes all programs, with a nil Main for those that run elsewhere. Programs
// of one node must be in one process.
func RunOn(ctx context.Context, f Fabric, c RunConfig, programs ...Program) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs, nodes, err := start(ctx, f, c, named(programs))
	if err != nil {
		cancel(err)
		for _, j := range jobs {
			_ = j.thread.Detach() // the run has failed
		}
		for _, h := range nodes {
			_ = h.Wait()
			h.Memory().Close()
		}
		return err
	}

	var failed []error
	var mu sync.Mutex
	var programsDone sync.WaitGroup
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if len(failed) > 0 && errors.Is(err, bridge.ErrAborted) {
			return // cancelled because of the first failure
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
			// After a failure these errors only repeat that the run has ended.
			leave := j.host.Leave(j.thread)
			detach := j.thread.Detach()
			if err == nil && (leave != nil || detach != nil) {
				fail(errors.Join(leave, detach))
			}
		})
	}
	programsDone.Wait()
	for _, h := range nodes {
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
