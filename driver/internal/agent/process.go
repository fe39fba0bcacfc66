// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// ServiceRank is the rank of the thread on which the owner of a resident agent
// sends it orders. No process has it.
const ServiceRank = 1 << 20

// reclaimPeriod is the period at which a thread in timed mode polls whether a
// process was reclaimed.
const reclaimPeriod = 10 * host.Microsecond

// MaxThreads bounds the threads of a process that may call the agent.
const MaxThreads = call.ReplySlots

// process is the agent's record of one program that shares its card. An agent
// that is not resident has one, with all of the node's memory.
//
// An object belongs to a NIC handle, and so to a process; the names in a
// request are resolved among the process's own handles only.
type process struct {
	id     int
	name   string
	pid    int
	since  time.Time
	memory *mem.Memory
	call.Client
	grant func(page int, on bool) error // of doorbell pages; nil = all are granted
	uses  uses
	ended bool // it gets no more replies or status
	left  bool // it has left, and everything is reclaimed; guarded by the agent's mu
}

func (p *process) prepare() (err error) {
	if p.Replies, err = p.memory.Allocate(p.Ranks*call.ReplySlot, mem.Runs); err != nil {
		return err
	}
	if p.Statuses, err = p.memory.Allocate(mem.PageBytes, mem.Single); err != nil {
		return err
	}
	// The agent writes to this memory during the life of the process.
	p.Replies.Keep()
	p.Statuses.Keep()
	return nil
}

func (a *Agent) processOf(from host.ThreadID) *process {
	if from.Node != a.thread.ID().Node {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.processes {
		if p.Has(from.Rank) {
			return p
		}
	}
	return nil
}

func (a *Agent) show(p *process, at int, v uint32) {
	if p == nil || p.ended {
		return
	}
	mem.StoreUint32(p.Statuses.Bytes()[at:], v)
	a.broken(a.thread.Publish(p.Statuses.Physical(nil, at, 4)...))
}

func (p *process) shown(at int) uint32 {
	if p == nil || p.ended {
		return 0
	}
	return mem.LoadUint32(p.Statuses.Bytes()[at:])
}

func (a *Agent) nic(p *process, id uint32) (*nic, error) {
	n := a.nics[id]
	if n == nil || n.process != p {
		return nil, fmt.Errorf("NIC handle %d: not open: %w", id, host.ErrInvalidParameter)
	}
	return n, nil
}

// takeBack destroys everything that a process made: its waits, its VIs'
// connections, its VIs, completion queues, regions and tags. Its memory stays.
func (a *Agent) takeBack(p *process) {
	for _, id := range slices.Sorted(maps.Keys(a.nics)) {
		if a.nics[id].process == p {
			a.closeNIC(a.nics[id])
		}
	}
}

func (a *Agent) order(q *call.Request) {
	if q.Op != call.OpReclaim {
		a.log.Warn("dropped an order that the agent does not know", "operation", q.Op.String())
		return
	}
	a.mu.Lock()
	i := slices.IndexFunc(a.processes, func(p *process) bool { return p.id == int(q.Object) })
	if i < 0 {
		a.mu.Unlock()
		return
	}
	p := a.processes[i]
	a.mu.Unlock()
	// From now on the process is not notified.
	p.ended = true
	a.takeBack(p)
	a.mu.Lock()
	a.processes = slices.DeleteFunc(a.processes, func(o *process) bool { return o == p })
	done := a.reclaimed[p.id]
	delete(a.reclaimed, p.id)
	a.mu.Unlock()
	a.snap()
	if done != nil {
		close(done)
	}
}

// ProcessConfig describes a process that a resident agent serves.
type ProcessConfig struct {
	ID        int    // the owner's name for it
	Name      string // for people
	Pid       int
	FirstRank int         // of its threads, above AgentRank
	Ranks     int         // number of threads, at most MaxThreads
	Memory    *mem.Memory // its bank, from NewBank
	// Grant is called when the process gets a page of doorbells, and when it
	// loses it, before the process is notified. It must not call the agent.
	Grant func(page int, on bool) error
}

// Entry has the addresses that the agent prepared for a process, in the
// process's address space.
type Entry struct {
	Replies, Statuses uint64
}

// Enter registers a process with a resident agent, before its first request.
func (a *Agent) Enter(c ProcessConfig) (Entry, error) {
	fail := func(err error) (Entry, error) {
		return Entry{}, fmt.Errorf("driver: enter process '%s' (%d) at node %d: %w", c.Name, c.Pid, a.client.End.Node, err)
	}
	if c.Memory == nil || c.Ranks < 1 || c.Ranks > MaxThreads || c.FirstRank <= call.AgentRank || c.FirstRank+c.Ranks > ServiceRank || a.MVIA() != nil || !a.resident {
		return fail(fmt.Errorf("%d threads from rank %d on, memory given: %v, device '%s': %w", c.Ranks, c.FirstRank, c.Memory != nil, a.config.Device, host.ErrInvalidParameter))
	}
	p := &process{
		id: c.ID, name: c.Name, pid: c.Pid, since: time.Now(), Client: call.Client{First: c.FirstRank, Ranks: c.Ranks}, memory: c.Memory, grant: c.Grant,
		uses: a.quota.uses(),
	}
	if err := p.prepare(); err != nil {
		return fail(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.processes {
		if o.id == p.id || p.First < o.First+o.Ranks && o.First < p.First+p.Ranks {
			return fail(fmt.Errorf("id %d, ranks %d to %d: process '%s' has some of these: %w", p.id, p.First, p.First+p.Ranks-1, o.name, host.ErrInUse))
		}
	}
	a.processes = append(a.processes, p)
	return Entry{Replies: p.Replies.Address(), Statuses: p.Statuses.Address()}, nil
}

// Reclaim destroys everything that a process had on the card, wherever it was
// interrupted, and removes the process; its peers lose their connections. After
// nil the card uses none of its memory. The thread is the owner's, of rank
// ServiceRank. An unknown process is no error.
func (a *Agent) Reclaim(t *host.Thread, id int) error {
	fail := func(err error) error {
		return fmt.Errorf("driver: reclaim what process %d had at node %d: %w", id, a.client.End.Node, err)
	}
	if t.ID() != (host.ThreadID{Node: a.client.End.Node, Rank: ServiceRank}) {
		return fail(fmt.Errorf("on thread %v, want rank %d: %w", t.ID(), ServiceRank, host.ErrInvalidParameter))
	}
	a.mu.Lock()
	done := a.reclaimed[id]
	if done == nil && slices.ContainsFunc(a.processes, func(p *process) bool { return p.id == id }) {
		done = make(chan struct{})
		a.reclaimed[id] = done
	}
	a.mu.Unlock()
	if done == nil {
		return nil
	}
	if err := t.Send(host.ThreadID{Node: a.client.End.Node, Rank: call.AgentRank}, call.Encode(&call.Request{Op: call.OpReclaim, Object: uint32(id)})); err != nil {
		return fail(err)
	}
	for t.Timed() { // the thread must not stop time
		select {
		case <-done:
			return nil
		case <-a.client.End.Done:
			return fail(a.client.End.Gone(call.OpReclaim))
		default:
		}
		if err := t.Sleep(reclaimPeriod); err != nil {
			return fail(err)
		}
	}
	select {
	case <-done:
		return nil
	case <-a.client.End.Done:
		return fail(a.client.End.Gone(call.OpReclaim))
	case <-t.Context().Done():
		return fail(context.Cause(t.Context()))
	}
}

// Drop removes a process that has never sent a request.
func (a *Agent) Drop(id int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.processes = slices.DeleteFunc(slices.Clone(a.processes), func(p *process) bool { return p.id == id })
}

// Forget removes a process that has left by itself. It returns false if the
// process must be reclaimed.
func (a *Agent) Forget(id int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.processes, func(p *process) bool { return p.id == id })
	if i >= 0 && !a.processes[i].left {
		return false
	}
	if i >= 0 {
		a.processes = slices.Delete(slices.Clone(a.processes), i, i+1)
	}
	return true
}

// HostStatus is the state of a resident agent at one moment.
type Status struct {
	Processes []ProcessStatus
	VIs       []VIStatus // those that exist, by index
}

// ProcessStatus is the state of a process.
type ProcessStatus struct {
	ID          int
	Name        string
	Pid         int
	Since       time.Time
	MemoryBytes int64 // of its bank
	NICs        int   // open handles
	Regions     int
	RegionBytes uint64
	CQs         int
}

// VIStatus is the state of one VI.
type VIStatus struct {
	Index       int
	Process     int // its ID
	State       layout.VIState
	Reliability uint8      // one bit
	Peer        layout.MAC // valid if Connected
	Connected   bool
}

func (p *process) status() ProcessStatus {
	return ProcessStatus{ID: p.id, Name: p.name, Pid: p.pid, Since: p.since, MemoryBytes: int64(p.memory.Frames()) * mem.PageBytes}
}

// snap stores the result of Status. The agent calls it after each of its steps,
// so that Status need not wait for the agent.
func (a *Agent) snap() {
	if !a.resident {
		return
	}
	s := &Status{}
	a.mu.Lock()
	list := slices.Clone(a.processes)
	a.mu.Unlock()
	at := map[*process]int{}
	for i, p := range list {
		at[p] = i
		s.Processes = append(s.Processes, p.status())
	}
	for _, n := range a.nics {
		i, ok := at[n.process]
		if !ok {
			continue
		}
		p := &s.Processes[i]
		p.NICs++
		p.Regions += len(n.regions)
		for _, g := range n.regions {
			p.RegionBytes += g.length
		}
	}
	for i := range a.cqs {
		if c := &a.cqs[i]; c.nic != 0 {
			if k, ok := at[c.process]; ok {
				s.Processes[k].CQs++
			}
		}
	}
	for i := range a.vis {
		v := &a.vis[i]
		if v.state == layout.VIStateFree {
			continue
		}
		peer, connected := a.engine.Peer(i)
		s.VIs = append(s.VIs, VIStatus{
			Index: i, Process: v.process.id, State: v.state, Reliability: v.attributes.Reliability, Peer: peer, Connected: connected,
		})
	}
	a.snapshot.Store(s)
}

// Status returns the agent's state after its last step, with processes that
// entered later.
func (a *Agent) Status() Status {
	var s Status
	if last := a.snapshot.Load(); last != nil {
		s.VIs = slices.Clone(last.VIs)
		s.Processes = slices.Clone(last.Processes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Processes = slices.DeleteFunc(s.Processes, func(o ProcessStatus) bool {
		return !slices.ContainsFunc(a.processes, func(p *process) bool { return p.id == o.ID })
	})
	for _, p := range a.processes {
		if !slices.ContainsFunc(s.Processes, func(o ProcessStatus) bool { return o.ID == p.id }) {
			s.Processes = append(s.Processes, p.status())
		}
	}
	return s
}
