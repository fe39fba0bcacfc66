// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/driver/internal/call"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// house is a fabric of two nodes with resident agents: processes 0 and 1 on
// node 0, process 2 on node 1.
type house struct {
	fabric  *drivertest.Fabric
	agents  [2]*driver.Host
	members [3]*drivertest.Member
}

const rootNode, peerNode = 0, 1

// runHouse runs a thread for each process, and one of the service for each
// node. Nil mains have no thread.
func runHouse(t *testing.T, service func(h *house, t *host.Thread) error, mains ...func(h *house, t *host.Thread) error) {
	t.Helper()
	runHouseOf(t, driver.HostConfig{}, service, mains...)
}

// runHouseOf is runHouse with other agents.
func runHouseOf(t *testing.T, c driver.HostConfig, service func(h *house, t *host.Thread) error, mains ...func(h *house, t *host.Thread) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	f, err := drivertest.New(2, 3+len(mains))
	require.NoError(t, err)
	defer f.Close()
	h := &house{fabric: f}
	agentsCtx, end := context.WithCancel(ctx)
	for n := range h.agents {
		h.agents[n], err = f.Resident(agentsCtx, n, c)
		require.NoError(t, err)
		defer h.agents[n].Memory().Close()
	}
	for i, node := range []int{rootNode, rootNode, peerNode} {
		h.members[i], err = f.Enter(h.agents[node], i)
		require.NoError(t, err)
		defer h.members[i].Close()
	}
	// Before the banks are freed, into which the agents write.
	defer func() {
		end()
		for _, a := range h.agents {
			_ = a.Wait() // it reports that the fabric ended
		}
	}()
	type thread struct {
		id   host.ThreadID
		main func(h *house, t *host.Thread) error
	}
	threads := []thread{{host.ThreadID{Node: rootNode, Rank: driver.ServiceRank}, service}}
	for i, m := range mains {
		threads = append(threads, thread{host.ThreadID{Node: h.members[i].Host.Node(), Rank: h.members[i].First}, m})
	}
	results := make(chan error, len(threads))
	for _, th := range threads {
		d, err := f.Attach(ctx, th.id, "thread")
		require.NoError(t, err)
		go func() {
			var err error
			failed := attempt(func() { err = th.main(h, d) })
			results <- errors.Join(failed, err, d.Detach())
		}()
	}
	for range threads {
		require.NoError(t, <-results)
	}
}

// failure is a panic value: the error of a failed step.
type failure struct{ error }

// attempt returns the error of the failed step that ended a program's part.
func attempt(part func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.error
		}
	}()
	part()
	return nil
}

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// made is must for objects that come with a second value.
func made[T, U any](v T, _ U, err error) T {
	check(err)
	return v
}

func wants(what string, got, want error) error {
	if !errors.Is(got, want) {
		return fmt.Errorf("%s: got '%v', want '%w'", what, got, want)
	}
	return nil
}

// meet reports that this thread is ready and waits until the other one has done
// its part, or waits until the other one is ready.
func meet(t *host.Thread, with *drivertest.Member, first bool) error {
	if first {
		if err := t.Send(host.ThreadID{Node: with.Host.Node(), Rank: with.First}, nil); err != nil {
			return err
		}
	}
	_, _, err := t.Receive(host.Never)
	return err
}

// objects are what a process has.
type objects struct {
	nic     driver.NIC
	tag     uint16
	region  driver.RegionInfo
	vi      driver.VI
	cq      *driver.CQ
	request *driver.Request
}

// A process cannot use another one's objects by their numbers, and the other
// one keeps everything.
func TestProcessesCannotNameEachOthersObjects(t *testing.T) {
	var o objects
	runHouse(t, func(*house, *host.Thread) error { return nil }, o.own, o.name, requestHere)
}

// own is the process with the objects.
func (o *objects) own(h *house, t *host.Thread) error {
	own := h.members[0].Host
	o.nic = must(own.OpenNIC(t))
	o.tag = must(own.CreateTag(t, o.nic.ID))
	buffer := must(own.Allocate(t, 3*mem.PageBytes, mem.Single))
	o.region = must(own.Register(t, o.nic.ID, buffer.Address(), uint64(buffer.Len()), o.tag, driver.Rights{}))
	o.cq = made(own.CreateCQ(t, o.nic.ID, 10))
	o.vi = made(own.CreateVI(t, o.nic.ID, driver.VIAttributes{Tag: o.tag}))
	if !h.members[0].Pages[o.vi.Index] {
		return errors.New("the VI's doorbells were not granted")
	}
	o.request = must(own.ConnectWait(t, o.nic.ID, "here", host.Never))
	check(meet(t, h.members[1], true))
	if got, err := own.QueryRegion(t, o.nic.ID, o.region.Address, o.region.Handle); err != nil || got != o.region {
		return fmt.Errorf("the region is %+v: %w", got, err)
	}
	if s, _, err := o.vi.Query(t); err != nil || s != layout.VIStateIdle {
		return fmt.Errorf("the VI is %v: %w", s, err)
	}
	if err := o.request.Accept(t, o.vi); err != nil {
		return fmt.Errorf("the request that another process could not touch: %w", err)
	}
	check(own.LeaveFabric(t))
	if h.members[0].Pages[o.vi.Index] {
		return errors.New("the VI's doorbells were not withdrawn")
	}
	agent := h.agents[rootNode].Agent
	if s := agent.Status(); len(s.VIs) != 1 || s.VIs[0].Process != h.members[1].ID {
		return fmt.Errorf("after it left the VIs are %+v", s.VIs)
	}
	if !agent.Forget(h.members[0].ID) || agent.Forget(h.members[1].ID) {
		return errors.New("who has left can be forgotten, and nobody else")
	}
	return nil
}

// name is the process that names them.
func (o *objects) name(h *house, t *host.Thread) error {
	machine := h.members[1].Host
	own := must(machine.OpenNIC(t))
	vi := made(machine.CreateVI(t, own.ID, driver.VIAttributes{}))
	check(meet(t, h.members[0], false))
	var errs []error
	for name, nic := range map[string]uint32{"by the other's handle": o.nic.ID, "by its own": own.ID} {
		_, query := machine.QueryRegion(t, nic, o.region.Address, o.region.Handle)
		state, arm := o.vi.Of(machine, nic).Disconnect(t), o.cq.Of(machine, nic).Notifier().Arm(t)
		_, _, resize := o.cq.Of(machine, nic).Resize(t, 20)
		errs = append(errs,
			wants("query a region "+name, query, host.ErrInvalidParameter),
			wants("deregister "+name, machine.Deregister(t, nic, o.region.Address, o.region.Handle), host.ErrInvalidParameter),
			wants("destroy a VI "+name, o.vi.Of(machine, nic).Destroy(t), host.ErrInvalidParameter),
			wants("disconnect "+name, state, host.ErrInvalidParameter),
			wants("destroy a completion queue "+name, o.cq.Of(machine, nic).Destroy(t), host.ErrInvalidParameter),
			wants("resize "+name, resize, host.ErrInvalidParameter),
			wants("arm "+name, arm, host.ErrInvalidParameter),
			wants("arm a VI's "+name, o.vi.Of(machine, nic).Notifier(true).Arm(t), host.ErrInvalidParameter),
		)
	}
	_, wait := machine.ConnectWait(t, o.nic.ID, "x", host.Never)
	_, _, create := machine.CreateVI(t, own.ID, driver.VIAttributes{SendQueue: o.cq})
	_, _, tagged := machine.CreateVI(t, own.ID, driver.VIAttributes{Tag: o.tag})
	return errors.Join(append(errs,
		wants("close", machine.CloseNIC(t, o.nic.ID), host.ErrInvalidParameter),
		wants("wait at another's NIC handle", wait, host.ErrInvalidParameter),
		wants("tie to another's completion queue", create, host.ErrInvalidParameter),
		wants("another's tag", tagged, call.ErrTag),
		wants("destroy another's tag", machine.DestroyTag(t, own.ID, o.tag), call.ErrTag),
		wants("accept another's request", o.request.Of(machine, own.ID).Accept(t, vi), driver.ErrNoRequest),
		wants("reject another's request", o.request.Of(machine, own.ID).Reject(t), driver.ErrNoRequest),
		wants("free the replies", machine.FreeReplies(t), host.ErrInUse),
		wants("free the status page", machine.FreeStatuses(t), host.ErrInUse),
		t.Send(host.ThreadID{Node: rootNode, Rank: h.members[0].First}, nil),
	)...)
}

// requestHere connects from the other node.
func requestHere(h *house, t *host.Thread) error {
	own := h.members[2].Host
	nic := must(own.OpenNIC(t))
	vi := made(own.CreateVI(t, nic.ID, driver.VIAttributes{}))
	for {
		if _, err := vi.Connect(t, driver.NodeMAC(rootNode), "here", "me", host.Never); !errors.Is(err, driver.ErrNoMatch) {
			return err
		}
		check(t.Sleep(10 * host.Microsecond))
	}
}

// A process is reclaimed at any moment, its thread in the middle of a call:
// nothing of it is left, its peer is notified, and other and new processes
// continue.
func TestReclaimAtAnyMoment(t *testing.T) {
	for step := range 40 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			reclaimAt(t, host.Time(step)*50*host.Microsecond+7*host.Nanosecond*host.Time(step))
		})
	}
}

func reclaimAt(t *testing.T, moment host.Time) {
	var gone atomic.Bool
	const rounds = 12
	runHouse(t,
		func(h *house, t *host.Thread) error {
			check(t.Sleep(moment))
			check(h.agents[rootNode].Agent.Reclaim(t, h.members[0].ID))
			gone.Store(true)
			check(h.nothingIsLeft())
			return h.agents[rootNode].Agent.Reclaim(t, h.members[0].ID) // repetition is no error
		},
		func(h *house, t *host.Thread) error {
			// The call is never answered: its thread is the one that waits at
			// the end.
			err := attempt(func() {
				for {
					workRound(t, h.members[0].Host, "here")
				}
			})
			if !errors.Is(err, bridge.ErrDeadlock) && !errors.Is(err, host.ErrInvalidParameter) {
				return fmt.Errorf("the reclaimed process: %w", err)
			}
			return nil
		},
		func(h *house, t *host.Thread) error {
			for round := 0; round < rounds || !gone.Load(); round++ {
				workRound(t, h.members[1].Host, "")
			}
			return nil
		},
		func(h *house, t *host.Thread) error { return requestUntil(h, t, &gone) })
}

// workRound creates objects and closes the NIC. With a discriminator it accepts
// a connection.
func workRound(t *host.Thread, own *driver.Host, discriminator string) {
	nic := must(own.OpenNIC(t))
	b := must(own.Allocate(t, 2*mem.PageBytes, mem.Single))
	must(own.Register(t, nic.ID, b.Address(), uint64(b.Len()), 0, driver.Rights{}))
	cq := made(own.CreateCQ(t, nic.ID, 16))
	made(cq.Resize(t, 32))
	vi := made(own.CreateVI(t, nic.ID, driver.VIAttributes{SendQueue: cq, ReceiveQueue: cq}))
	if discriminator != "" {
		check(must(own.ConnectWait(t, nic.ID, discriminator, host.Never)).Accept(t, vi))
		check(t.Sleep(100 * host.Microsecond))
	}
	check(own.CloseNIC(t, nic.ID))
	check(own.Free(t, b))
}

// nothingIsLeft returns an error if something of process 0 is left.
func (h *house) nothingIsLeft() error {
	s := h.agents[rootNode].Agent.Status()
	for _, v := range s.VIs {
		if v.Process == h.members[0].ID {
			return fmt.Errorf("VI %d is left, %v", v.Index, v.State)
		}
	}
	for _, p := range s.Processes {
		if p.ID == h.members[0].ID {
			return fmt.Errorf("the process is left: %+v", p)
		}
	}
	if n := h.fabric.Node(rootNode).UsesIn(h.members[0].Memory); n != 0 {
		return fmt.Errorf("%d uses of frames of its bank are left", n)
	}
	for page, on := range h.members[0].Pages {
		if on {
			return fmt.Errorf("it still has the doorbells of VI %d", page)
		}
	}
	return nil
}

// requestUntil connects to process 0 until it is gone. Either side may end the
// connection.
func requestUntil(h *house, t *host.Thread, gone *atomic.Bool) error {
	own := h.members[2].Host
	nic := must(own.OpenNIC(t))
	vi := made(own.CreateVI(t, nic.ID, driver.VIAttributes{}))
	for {
		_, err := vi.Connect(t, driver.NodeMAC(rootNode), "here", "me", 10*host.Millisecond)
		switch {
		case errors.Is(err, driver.ErrTimeout), errors.Is(err, driver.ErrNoMatch), errors.Is(err, driver.ErrRejected):
			if gone.Load() {
				return nil
			}
		case err != nil:
			return err
		default:
			if ok, err := t.Poll(host.Poll{Ranges: []mem.Range{vi.StateRange()}, Period: host.Microsecond, Timeout: host.Second}, func() bool {
				s, _ := vi.State()
				return s == layout.VIStateError
			}); err != nil || !ok {
				return fmt.Errorf("the peer was not notified (%v): %w", ok, err)
			}
			e, ok, err := own.NextError(t, nic.ID)
			if err != nil || !ok || e.Code != layout.AsyncErrorConnectionLost {
				return fmt.Errorf("the peer received %+v: %w", e, err)
			}
			check(vi.Disconnect(t))
		}
		check(t.Sleep(host.Microsecond))
	}
}

// A process gets at most its quota, any number of times, and another one gets
// its own share.
func TestQuotas(t *testing.T) {
	quota := driver.Quota{VIs: 3, CQs: 2, Tags: 4, Regions: 5}
	hog := func(h *driver.Host, t *host.Thread) error {
		for range 3 {
			nic := must(h.OpenNIC(t))
			buffer := must(h.Allocate(t, mem.PageBytes, mem.Single))
			for _, c := range []struct {
				most       int
				name, flag string
				make       func() (func() error, error)
			}{
				{quota.VIs, "VIs", "--max-vis", func() (func() error, error) {
					v, _, err := h.CreateVI(t, nic.ID, driver.VIAttributes{})
					return func() error { return v.Destroy(t) }, err
				}},
				{quota.CQs, "completion queues", "--max-cqs", func() (func() error, error) {
					q, _, err := h.CreateCQ(t, nic.ID, 4)
					return func() error { return q.Destroy(t) }, err
				}},
				{quota.Tags - 1, "protection tags", "--max-tags", func() (func() error, error) {
					tag, err := h.CreateTag(t, nic.ID)
					return func() error { return h.DestroyTag(t, nic.ID, tag) }, err
				}},
				{quota.Regions, "memory regions", "--max-regions", func() (func() error, error) {
					g, err := h.Register(t, nic.ID, buffer.Address(), 64, 0, driver.Rights{})
					return func() error { return h.Deregister(t, nic.ID, g.Address, g.Handle) }, err
				}},
			} {
				var last func() error
				var err error
				for i := range c.most {
					if last, err = c.make(); err != nil {
						return fmt.Errorf("%s: %d of %d: %w", c.name, i, c.most, err)
					}
				}
				_, err = c.make()
				if !errors.Is(err, host.ErrResource) || !strings.Contains(err.Error(), "the most that one process may have (hvia up "+c.flag+")") {
					return fmt.Errorf("%s: one more than %d: %w", c.name, c.most, err)
				}
				check(last())
				if _, err := c.make(); err != nil {
					return fmt.Errorf("%s: after one was given back: %w", c.name, err)
				}
			}
			// Closing the handle destroys all its objects.
			check(errors.Join(h.CloseNIC(t, nic.ID), h.Free(t, buffer)))
		}
		return nil
	}
	runHouseOf(t, driver.HostConfig{Quota: quota},
		func(*house, *host.Thread) error { return nil },
		func(h *house, t *host.Thread) error { return hog(h.members[0].Host, t) },
		func(h *house, t *host.Thread) error { return hog(h.members[1].Host, t) },
	)
}

// A thread can call only its process's agent, whether its rank is below or
// above the range.
func TestCallsOfForeignThreads(t *testing.T) {
	foreign := func(h *house, t *host.Thread, members ...int) error {
		for _, m := range members {
			if _, err := h.members[m].Host.OpenNIC(t); !errors.Is(err, host.ErrInvalidParameter) {
				return fmt.Errorf("thread %v calls as process %d: %w", t.ID(), m, err)
			}
		}
		return nil
	}
	runHouse(t,
		func(h *house, t *host.Thread) error { return foreign(h, t, 0, 1, 2) }, // the service's
		func(h *house, t *host.Thread) error { return foreign(h, t, 1, 2) },
		func(h *house, t *host.Thread) error { return foreign(h, t, 0, 2) },
		func(h *house, t *host.Thread) error { return foreign(h, t, 0, 1) },
	)
	// The same ranks on another node.
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	hosts := make(chan *driver.Host, 1)
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{},
		fabric.Program{Node: 0, Main: func(t *host.Thread, h *driver.Host) error {
			hosts <- h
			return t.Sleep(host.Millisecond)
		}},
		fabric.Program{Node: 1, Main: func(t *host.Thread, _ *driver.Host) error {
			return wants("another node's agent", second((<-hosts).OpenNIC(t)), host.ErrInvalidParameter)
		}},
	))
}

func second[T any](_ T, err error) error { return err }

// An agent that ends with its fabric is no error; one that ends before its
// programs is.
func TestEndsOfAgentsInTheLog(t *testing.T) {
	var log bytes.Buffer
	c := driver.HostConfig{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	nothing := func(*house, *host.Thread) error { return nil }
	runHouseOf(t, c, nothing, nothing, nothing, nothing)
	require.Empty(t, log.String())

	f, err := drivertest.New(1, 2)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Node(0).Card.Dead = true
	err = fabric.RunOn(t.Context(), f, fabric.RunConfig{Logger: c.Logger}, fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
		return second(h.OpenNIC(t))
	}})
	require.Error(t, err)
	require.Contains(t, log.String(), "level=ERROR msg=\"the kernel agent ended\"")
	log.Reset()

	f, err = drivertest.New(1, 2)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	gaveUp := errors.New("the program gave up")
	err = fabric.RunOn(t.Context(), f, fabric.RunConfig{Logger: c.Logger}, fabric.Program{Main: func(*host.Thread, *driver.Host) error { return gaveUp }})
	require.ErrorIs(t, err, gaveUp)
	require.Contains(t, log.String(), "level=ERROR msg=\"the kernel agent ended\"")
	log.Reset()

	// Also a resident one, unless its fabric ends.
	f, err = drivertest.New(1, 1)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Node(0).Card.Dead = true
	h, err := f.Resident(t.Context(), 0, c)
	require.NoError(t, err)
	defer h.Memory().Close()
	require.ErrorIs(t, h.Wait(), driver.ErrDeadline)
	require.Contains(t, log.String(), "level=ERROR msg=\"the kernel agent ended\"")
}
