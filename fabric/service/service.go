// SPDX-License-Identifier: Apache-2.0

// Package service runs a fabric for programs of many processes: it owns the
// simulator and the kernel agent of every node, lets processes join through a
// socket (fabric.Join), and reclaims what they leave behind. The command hvia
// up runs one.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hvia/driver"
	"hvia/fabric"
	"hvia/fabric/internal/hub"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// Sizes and limits of a service.
const (
	DefaultNodes  = 2
	DefaultMemory = 1 << 30 // bytes of each node's memory, allocated when used

	agentBytes     = 32 << 20 // the agent's part of it
	threadsOfOne   = 16       // threads of an undeclared process
	spareSlots     = 256      // concurrent threads of such processes
	startLimit     = 24 * time.Hour
	requestLimit   = 10 * time.Second // until a connected process has received its reply
	silenceLimit   = 2 * time.Second  // until it has sent its request
	blockFrames    = 16               // banks start at a multiple of this
	participantMax = 60
)

// DefaultQuota allows one process a quarter of a card's VIs, completion queues
// and regions.
var DefaultQuota = driver.Quota{VIs: 64, CQs: 16, Tags: 4096, Regions: 256}

// Participant declares a process of a timed fabric. Time starts when all have
// joined.
type Participant struct {
	Node int
	Name string
}

// Config describes a fabric and its service. The zero value of a field takes
// the default.
type Config struct {
	Name         string        // of the fabric: "default"
	Nodes        int           // DefaultNodes
	Participants []Participant // of a timed fabric: at least one
	// Fabric configures the simulator. The service sets Nodes, Threads and
	// Guests; MemoryBytes defaults to DefaultMemory, and Mode is sim.Free
	// unless it is sim.Timed.
	Fabric    sim.Config
	Device    driver.Device    // driver.DeviceHvia, the only device that several processes can share
	Costs     host.CostModel   // of the agents' work
	Transport driver.Transport // of the reliable levels
	Regions   int              // largest number of registered regions of a node: 1,024
	Quota     driver.Quota     // of each process: DefaultQuota
	Seed      uint64           // as in fabric.RunConfig: 1
	Logger    *slog.Logger     // nil = silent
}

// Errors of this package.
var (
	// ErrRunning: another service serves a fabric of that name.
	ErrRunning = errors.New("a fabric of that name runs already")
	// ErrDown: Close or Down ended the service.
	ErrDown = errors.New("the fabric was stopped")
)

// Service is a running fabric.
type Service struct {
	config   Config
	log      *slog.Logger
	place    *place
	fabric   *sim.Fabric
	nodes    []*node
	listener listener
	started  time.Time
	ctx      context.Context // ends when the service must end
	end      context.CancelCauseFunc
	sessions sync.WaitGroup
	agents   sync.WaitGroup
	stopped  chan struct{}

	silence     time.Duration // silenceLimit
	mostPending int           // connections of processes that have not joined

	err error // reason of an unrequested end; valid when stopped is closed

	mu        sync.Mutex
	members   map[bridge.GuestID]*member
	conns     map[*net.UnixConn]struct{}
	joined    map[Participant]bool
	nextRank  []int // by node, for processes that were not declared
	ended     bool
	processes int // number that have joined so far
	pending   int // connections of processes that have not joined
}

type listener interface {
	AcceptUnix() (*net.UnixConn, error)
	Close() error
}

type node struct {
	number int
	host   *driver.Host
	memory *mem.Memory
	raw    *bridge.Memory

	// held while the service's thread (rank ServiceRank) is attached to the
	// node: there is only one
	orders sync.Mutex
	banks  []bank // in use, by first frame; guarded by the service's mu
}

type bank struct{ first, frames int }

// Start starts a fabric. It runs until Close, until a program calls Down, or
// until its simulator or an agent ends; the context bounds the start only.
func Start(ctx context.Context, c Config) (*Service, error) {
	if c.Name == "" {
		c.Name = hub.Default
	}
	s, err := start(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("service: start fabric '%s': %w", c.Name, err)
	}
	return s, nil
}

// Check returns what is wrong with a configuration, or nil.
func (c Config) Check() error { return c.settle() }

func (c *Config) settle() error {
	if c.Nodes == 0 {
		c.Nodes = DefaultNodes
	}
	if c.Device == "" {
		c.Device = driver.DeviceHvia
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	for _, q := range []struct {
		name      string
		value     *int
		byDefault int
	}{
		{"VIs", &c.Quota.VIs, DefaultQuota.VIs}, {"completion queues", &c.Quota.CQs, DefaultQuota.CQs},
		{"protection tags", &c.Quota.Tags, DefaultQuota.Tags}, {"memory regions", &c.Quota.Regions, DefaultQuota.Regions},
	} {
		if *q.value < 0 {
			return fmt.Errorf("%d %s for each process, want 1 or more: %w", *q.value, q.name, host.ErrInvalidParameter)
		}
		if *q.value == 0 {
			*q.value = q.byDefault
		}
	}
	f := &c.Fabric
	if f.Mode == "" {
		f.Mode = sim.Free
	}
	if f.MemoryBytes == 0 {
		f.MemoryBytes = DefaultMemory
	}
	if f.Seed == 0 {
		f.Seed = c.Seed
	}
	if f.StartLimit == 0 {
		f.StartLimit = startLimit // people start the participants
	}
	if f.SpareSlots == 0 {
		f.SpareSlots = spareSlots
	}
	f.Guests, f.Nodes, f.Threads = true, nil, nil
	switch {
	case c.Device != driver.DeviceHvia:
		return fmt.Errorf("device '%s': its VIA is in the kernel, on the thread of who posts, so one process only can use it: want '%s': %w", c.Device, driver.DeviceHvia, driver.ErrUnsupported)
	case c.Nodes < 1 || c.Nodes > layout.BridgeMaxNodes:
		return fmt.Errorf("%d nodes, want 1 to %d: %w", c.Nodes, layout.BridgeMaxNodes, host.ErrInvalidParameter)
	case f.MemoryBytes < 2*agentBytes || f.MemoryBytes > layout.PciMemorySize:
		return fmt.Errorf("%d bytes of memory of a node, want %d to %d: %w", f.MemoryBytes, int64(2*agentBytes), int64(layout.PciMemorySize), host.ErrInvalidParameter)
	case f.Mode == sim.Timed && len(c.Participants) == 0:
		return fmt.Errorf("a timed fabric without participants: its time would never begin: %w", host.ErrInvalidParameter)
	case f.Mode != sim.Timed && len(c.Participants) > 0:
		return fmt.Errorf("%d participants of a fabric in %s mode, only a timed one has any: %w", len(c.Participants), f.Mode, host.ErrInvalidParameter)
	case len(c.Participants) > participantMax:
		return fmt.Errorf("%d participants, at most %d: %w", len(c.Participants), participantMax, host.ErrInvalidParameter)
	}
	for i, p := range c.Participants {
		if p.Node < 0 || p.Node >= c.Nodes || p.Name == "" || slices.Contains(c.Participants[:i], p) {
			return fmt.Errorf("participant '%s' of node %d: a name must be unique on its node, and a node from 0 to %d: %w", p.Name, p.Node, c.Nodes-1, host.ErrInvalidParameter)
		}
	}
	var programs []fabric.Program
	for _, p := range c.Participants {
		programs = append(programs, fabric.Program{Node: p.Node, Name: p.Name})
	}
	f.Threads = fabric.Participants(programs)
	for i := range c.Nodes {
		f.Nodes = append(f.Nodes, sim.Node{Kind: "card", Name: fmt.Sprintf("node%d", i)})
		agent := sim.Thread{Node: i, Rank: driver.AgentRank, Name: fabric.AgentName(i)}
		if f.Mode == sim.Timed && !slices.Contains(f.Threads, agent) {
			f.Threads = append(f.Threads, agent)
		}
	}
	return nil
}

func start(ctx context.Context, c Config) (_ *Service, err error) {
	if err := c.settle(); err != nil {
		return nil, err
	}
	s := &Service{
		config: c, log: c.Logger, started: time.Now(), stopped: make(chan struct{}), members: map[bridge.GuestID]*member{}, conns: map[*net.UnixConn]struct{}{},
		joined: map[Participant]bool{}, nextRank: make([]int, c.Nodes), silence: silenceLimit, mostPending: pendingLimit(),
	}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			s.end(err)
			s.clear()
		}
	}()
	if s.place, err = takePlace(c.Name); err != nil {
		return nil, err
	}
	// The fabric ends when it is closed, not with this context. The simulator
	// outlives a service that is killed, and cleans up its directory.
	s.config.Fabric.Arguments = append(slices.Clone(s.config.Fabric.Arguments), "--abandoned", s.place.dir+":"+filepath.Base(s.place.socket))
	if s.fabric, err = startFabric(ctx, s.config.Fabric); err != nil {
		return nil, err
	}
	for i := range c.Nodes {
		if err := s.addNode(i); err != nil {
			return nil, err
		}
	}
	for _, p := range c.Participants {
		s.nextRank[p.Node]++
	}
	for i := range s.nextRank {
		s.nextRank[i]++
	}
	l, err := s.place.listen()
	if err != nil {
		return nil, err
	}
	s.listener = l
	go s.accept()
	go s.watch()
	return s, nil
}

// startFabric starts the simulator. ctx can cancel the start, but not the
// running simulator.
func startFabric(ctx context.Context, c sim.Config) (*sim.Fabric, error) {
	life, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	f, err := sim.Start(life, c)
	if err != nil {
		stop()
		cancel(err)
		return nil, err
	}
	if !stop() {
		_ = f.Close()
		return nil, context.Cause(ctx)
	}
	return f, nil
}

func (s *Service) addNode(number int) error {
	raw, err := s.fabric.Conn().Memory(number)
	if err != nil {
		return err
	}
	n := &node{number: number, raw: raw}
	if n.memory, err = mem.New(mem.Config{Fd: raw.FD, Frames: agentBytes / mem.PageBytes, Use: raw, Seed: s.config.Seed + uint64(number)}); err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	t, err := host.Attach(s.ctx, s.fabric.Conn(), host.ThreadID{Node: number, Rank: driver.AgentRank}, fabric.AgentName(number))
	if err != nil {
		return err
	}
	n.host, err = driver.StartHost(t, driver.HostConfig{
		Memory: n.memory, Device: s.config.Device, Costs: s.config.Costs, Logger: s.log, Seed: s.config.Seed + uint64(number),
		Profile: s.config.Fabric.Profile, Params: s.config.Fabric.Params, Transport: s.config.Transport, Regions: s.config.Regions, Quota: s.config.Quota, Resident: true, Frames: raw.Frames,
	})
	if err != nil {
		_ = t.Detach()
		return err
	}
	s.agents.Go(func() {
		if err := n.host.Wait(); err != nil {
			s.end(fmt.Errorf("the agent of node %d ended: %w", number, err))
		}
	})
	return nil
}

// watch ends the service when the simulator ends, and notifies guests that the
// simulator has ended.
func (s *Service) watch() {
	for {
		select {
		case <-s.ctx.Done():
		case e, open := <-s.fabric.Conn().Ended():
			if open {
				s.guestEnded(e)
				continue
			}
			err := s.fabric.Conn().Err()
			if err == nil {
				err = bridge.ErrSimulatorDied
			}
			s.end(err)
		}
		break
	}
	why := context.Cause(s.ctx)
	if !errors.Is(why, ErrDown) {
		s.err = fmt.Errorf("service: fabric '%s': %w", s.config.Name, why)
		s.log.Error("the fabric ended", "error", why)
	}
	s.clear()
	close(s.stopped)
}

// clear ends everything, in the order of dependencies.
func (s *Service) clear() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.place != nil {
		s.place.hide()
	}
	s.mu.Lock()
	s.ended = true
	why := context.Cause(s.ctx)
	for c := range s.conns {
		// Clients that still read learn the reason.
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_ = hub.Send(c, hub.Reply{Error: why.Error(), Refusal: "closed"})
		_ = c.CloseRead()
	}
	s.mu.Unlock()
	s.agents.Wait() // they end with s.ctx; until then they write into the banks
	s.sessions.Wait()
	if s.fabric != nil {
		if err := s.fabric.Close(); err != nil && s.err == nil && !errors.Is(err, bridge.ErrClosed) {
			s.log.Warn("the simulator did not end well", "error", err)
		}
	}
	for _, n := range s.nodes {
		n.memory.Close()
	}
	if s.place != nil {
		s.place.leave()
	}
}

// Name returns the fabric's name.
func (s *Service) Name() string { return s.config.Name }

// Fabric returns the simulator, for example to read digests.
func (s *Service) Fabric() *sim.Fabric { return s.fabric }

// Wait returns when the service has ended: nil if that was requested, else the
// reason.
func (s *Service) Wait() error {
	<-s.stopped
	return s.err
}

// Close ends the fabric. Joined processes get an error that reports it.
func (s *Service) Close() error {
	s.end(ErrDown)
	return s.Wait()
}
