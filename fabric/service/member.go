// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"hvia/driver"
	"hvia/fabric"
	"hvia/fabric/internal/hub"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

type member struct {
	id     bridge.GuestID
	name   string
	pid    int
	since  time.Time
	node   *node
	bank   bank
	memory *mem.Memory
	conn   *net.UnixConn
	why    string // the simulator's reason for ending it; guarded by the service's mu
}

// acceptPause and longestPause bound the back-off of accept.
const (
	acceptPause   = 5 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	fewestPending = 4
	mostPending   = 64
)

// pendingLimit returns the limit of connections of processes that have not
// joined. It leaves most of the service's descriptors to those that have.
func pendingLimit() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fewestPending
	}
	return int(min(max(files.Cur/8, fewestPending), mostPending))
}

// passes reports whether an error of accept is temporary: it concerns one
// connection, or resources that may become free.
func passes(err error) bool {
	for _, e := range []error{
		unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EPROTO, unix.EPERM, unix.EINTR, unix.EAGAIN,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *Service) accept() {
	var pause time.Duration
	for {
		c, err := s.listener.AcceptUnix()
		switch {
		case err == nil:
			pause = 0
			s.admit(c)
			continue
		case s.ctx.Err() != nil:
			return
		case !passes(err):
			s.end(fmt.Errorf("accept on %s: %w", s.place.socket, err))
			return
		}
		if pause == 0 {
			s.log.Warn("a connection cannot be accepted yet, trying again", "error", err)
		}
		pause = min(max(2*pause, acceptPause), longestPause)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// admit serves a connection. If s.mostPending connections already wait, it
// replies with an error; if twice as many wait, it closes the connection.
func (s *Service) admit(c *net.UnixConn) {
	s.mu.Lock()
	full := s.pending >= s.mostPending
	if s.ended || s.pending >= 2*s.mostPending {
		s.mu.Unlock()
		_ = c.Close()
		return
	}
	s.pending++
	s.conns[c] = struct{}{}
	s.sessions.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.sessions.Done()
		arrived := sync.OnceFunc(func() { s.mu.Lock(); s.pending--; s.mu.Unlock() })
		s.serve(c, full, arrived)
		arrived()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
}

func refusal(err error) hub.Reply { return hub.Reply{Error: err.Error(), Refusal: fabric.Refusal(err)} }

// serve serves one connection, from its request to its end, and calls joined
// when its process has joined.
func (s *Service) serve(c *net.UnixConn, full bool, joined func()) {
	pid, uid, err := hub.Peer(c)
	if err != nil {
		s.log.Warn("a connection whose process is not known", "error", err)
		return
	}
	log := s.log.With("process", pid)
	_ = c.SetWriteDeadline(time.Now().Add(requestLimit))
	silence := s.silence
	if full {
		silence /= 10
	}
	_ = c.SetReadDeadline(time.Now().Add(silence))
	var q hub.Request
	files, err := hub.Receive(c, &q)
	for _, f := range files {
		_ = f.Close()
	}
	if err != nil {
		log.Debug("no request came", "error", err)
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	refuse := func(err error) {
		log.Info("rejected", "operation", q.Op, "name", q.Name, "error", err)
		_ = hub.Send(c, refusal(err))
	}
	switch {
	case full:
		refuse(fmt.Errorf("%d connections of processes that have not joined: try again: %w", s.mostPending, host.ErrResource))
	case uid != os.Getuid() && uid != 0:
		refuse(fmt.Errorf("user %d asks, the fabric is user %d's: %w", uid, os.Getuid(), driver.ErrUnsupported))
	case q.Op == hub.OpDown:
		log.Info("asked to end")
		_ = hub.Send(c, hub.Reply{})
		s.end(ErrDown)
	case q.Op == hub.OpStatus:
		s.answerStatus(c)
	case q.Op == hub.OpJoin:
		m, err := s.join(c, pid, q)
		if err != nil {
			refuse(err)
			return
		}
		_ = c.SetDeadline(time.Time{})
		joined()
		log.Info("joined", "name", m.name, "node", m.node.number)
		var word hub.Request
		// Wait for the connection's end; close any descriptors received.
		for err = nil; err == nil; {
			var files []*os.File
			files, err = hub.Receive(c, &word)
			for _, f := range files {
				_ = f.Close()
			}
		}
		s.takeBack(m)
	default:
		refuse(fmt.Errorf("operation '%s': %w", q.Op, host.ErrInvalidParameter))
	}
}

// check rejects a request to join that this service cannot meet.
func (s *Service) check(q hub.Request) error {
	if want := fmt.Sprintf("%016x", layout.Hash); q.Layout != want {
		return fmt.Errorf("layout hash %.16s of the program, %s of the service: rebuild both from one checkout: %w", q.Layout, want, driver.ErrIdentity)
	}
	switch {
	case q.Node < 0 || q.Node >= len(s.nodes):
		return fmt.Errorf("node %d, the fabric has %d, counted from 0: %w", q.Node, len(s.nodes), host.ErrInvalidParameter)
	case q.Name == "" || len(q.Name) > 100:
		return fmt.Errorf("a name of %d bytes, want 1 to 100: %w", len(q.Name), host.ErrInvalidParameter)
	case !utf8.ValidString(q.Name) || strings.ContainsFunc(q.Name, unicode.IsControl):
		return fmt.Errorf("name %q: want UTF-8 without control characters: %w", q.Name, host.ErrInvalidParameter)
	case q.MemoryBytes <= 0 || q.MemoryBytes > s.config.Fabric.MemoryBytes:
		return fmt.Errorf("%d bytes of memory, the node has %d: %w", q.MemoryBytes, s.config.Fabric.MemoryBytes, host.ErrInvalidParameter)
	}
	return nil
}

// seat is a process's share of its node.
type seat struct {
	bank        bank
	rank, ranks int
	thread      string // the name of a declared participant
	seed        uint64
}

func (s *Service) takeSeat(q hub.Request) (p seat, err error) {
	frames := int((q.MemoryBytes + mem.PageBytes - 1) / mem.PageBytes)
	frames = (frames + blockFrames - 1) / blockFrames * blockFrames
	declared := Participant{q.Node, q.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.bank, err = s.nodes[q.Node].takeBank(frames); err != nil {
		return p, err
	}
	s.processes++
	i := slices.Index(s.config.Participants, declared)
	if i < 0 || s.joined[declared] {
		p.rank, p.ranks, p.seed = s.nextRank[q.Node], threadsOfOne, s.config.Seed+uint64(s.processes)<<16
		// Ranks are not reused: messages of a dead process may come late.
		s.nextRank[q.Node] += threadsOfOne
		return p, nil
	}
	// Its rank is its position among the participants of its node.
	p.rank, p.ranks, p.thread = 1, 1, q.Name
	for _, o := range s.config.Participants[:i] {
		if o.Node == q.Node {
			p.rank++
		}
	}
	// The order of joins does not depend on simulated time.
	s.joined[declared] = true
	p.seed = s.config.Seed + uint64(q.Node)<<32 + uint64(p.rank)<<16
	return p, nil
}

func (s *Service) giveSeat(q hub.Request, p seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[q.Node].giveBank(p.bank)
	if p.thread != "" {
		delete(s.joined, Participant{q.Node, q.Name})
	}
}

func (s *Service) join(c *net.UnixConn, pid int, q hub.Request) (_ *member, err error) {
	if err := s.check(q); err != nil {
		return nil, err
	}
	p, err := s.takeSeat(q)
	if err != nil {
		return nil, err
	}
	n := s.nodes[q.Node]
	m := &member{name: q.Name, pid: pid, since: time.Now(), node: n, conn: c, bank: p.bank}
	undo := []func(){func() { s.giveSeat(q, p) }}
	defer func() {
		if err != nil {
			for _, f := range slices.Backward(undo) {
				f()
			}
		}
	}()
	conn := s.fabric.Conn()
	g, err := conn.NewGuest(s.ctx, bridge.GuestConfig{
		Name: q.Name, Pid: pid, Node: q.Node, FirstRank: p.rank, Ranks: p.ranks, FirstFrame: m.bank.first, Frames: m.bank.frames,
	})
	if err != nil {
		return nil, err
	}
	defer g.Socket.Close()
	m.id = g.ID
	undo = append(undo, func() { _ = conn.EndGuest(s.ctx, g.ID) })
	m.memory, err = mem.NewBank(mem.Config{
		First: m.bank.first, Frames: m.bank.frames, Use: n.raw, Seed: p.seed,
		View: n.raw.Linear()[m.bank.first*mem.PageBytes : (m.bank.first+m.bank.frames)*mem.PageBytes],
	})
	if err != nil {
		return nil, err
	}
	undo = append(undo, m.memory.Close)
	entry, err := n.host.Agent.Enter(driver.ProcessConfig{
		ID: int(g.ID), Name: q.Name, Pid: pid, FirstRank: p.rank, Ranks: p.ranks, Memory: m.memory,
		Grant: func(page int, on bool) error { return conn.Grant(s.ctx, g.ID, page, on) },
	})
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { n.host.Agent.Drop(int(g.ID)) })
	s.mu.Lock()
	s.members[m.id] = m
	s.mu.Unlock()
	undo = append(undo, func() { s.mu.Lock(); delete(s.members, m.id); s.mu.Unlock() })
	err = hub.Send(c, hub.Reply{
		Device: string(s.config.Device), Profile: s.config.Fabric.Profile, Thread: p.thread, Replies: entry.Replies, Statuses: entry.Statuses,
	}, int(g.Socket.Fd()))
	if err != nil {
		return nil, fmt.Errorf("answer process %d: %w", pid, err)
	}
	return m, nil
}

// takeBank finds frames for a bank. The caller holds the service's lock.
func (n *node) takeBank(frames int) (bank, error) {
	at := agentBytes / mem.PageBytes
	for i, b := range n.banks {
		if b.first-at >= frames {
			n.banks = slices.Insert(n.banks, i, bank{at, frames})
			return bank{at, frames}, nil
		}
		at = b.first + b.frames
	}
	if n.raw.Frames-at < frames {
		used := agentBytes / mem.PageBytes
		for _, b := range n.banks {
			used += b.frames
		}
		return bank{}, fmt.Errorf("%d bytes of memory in one piece: of the %d bytes of node %d %d are in use: %w",
			int64(frames)*mem.PageBytes, int64(n.raw.Frames)*mem.PageBytes, n.number, int64(used)*mem.PageBytes, host.ErrResource)
	}
	n.banks = append(n.banks, bank{at, frames})
	return bank{at, frames}, nil
}

func (n *node) giveBank(b bank) {
	n.banks = slices.DeleteFunc(n.banks, func(o bank) bool { return o == b })
}

func (s *Service) guestEnded(e bridge.GuestEnd) {
	s.mu.Lock()
	m := s.members[e.ID]
	if m != nil {
		m.why = e.Text
	}
	s.mu.Unlock()
	if m == nil {
		return
	}
	if e.Violation {
		s.log.Error("a process did what it may not do, and was stopped", "name", m.name, "process", m.pid, "node", m.node.number, "what", e.Text)
	}
	// Its session detects the end and reclaims everything.
	_ = m.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = hub.Send(m.conn, hub.Reply{Error: e.Text})
	_ = m.conn.CloseRead()
}

// takeBack reclaims the card's objects, memory and ranks of a process that is
// gone.
func (s *Service) takeBack(m *member) {
	if s.ctx.Err() != nil {
		return // the fabric ends
	}
	began := time.Now()
	err := s.reclaim(m)
	if err == nil {
		m.memory.Close()
		err = s.fabric.Conn().EndGuest(s.ctx, m.id)
	}
	s.mu.Lock()
	delete(s.members, m.id)
	if err == nil {
		m.node.giveBank(m.bank)
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		s.log.Info("left", "name", m.name, "process", m.pid, "node", m.node.number, "reclaimed_in", time.Since(began).String())
	case s.ctx.Err() == nil:
		s.end(fmt.Errorf("take back what process %d ('%s') had on node %d: %w", m.pid, m.name, m.node.number, err))
	}
}

func (s *Service) reclaim(m *member) error {
	if m.node.host.Agent.Forget(int(m.id)) {
		return nil // the process left in simulated time
	}
	return s.order(m.node, func(t *host.Thread) error { return m.node.host.Agent.Reclaim(t, int(m.id)) })
}

// order calls `do` on the service's thread of a node. In timed mode the run is
// then no longer reproducible.
func (s *Service) order(n *node, do func(t *host.Thread) error) error {
	n.orders.Lock()
	defer n.orders.Unlock()
	// The thread lives as long as the agent, whose waits end in simulated time.
	t, err := host.Attach(s.ctx, s.fabric.Conn(), host.ThreadID{Node: n.number, Rank: driver.ServiceRank}, fmt.Sprintf("service %d", n.number))
	if err != nil {
		return err
	}
	return errors.Join(do(t), t.Detach())
}

func (s *Service) timed() bool { return s.config.Fabric.Mode == sim.Timed }
