// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"hvia/driver"
	"hvia/fabric/internal/hub"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// Errors of Join.
var (
	// ErrNoFabric: no service serves a fabric of that name.
	ErrNoFabric = hub.ErrNoFabric
	// ErrServiceGone: the fabric's service ended, or ended this process's part.
	ErrServiceGone = errors.New("the fabric's service has ended")
)

// DefaultBankBytes is the default memory of a process.
const DefaultBankBytes = 32 << 20

// closeLimit bounds the wall time that Close waits for the agent.
const closeLimit = 5 * time.Second

// JoinConfig names the fabric that a process joins, and describes the process.
type JoinConfig struct {
	Fabric string // its name: hvia up --name; "default" if empty
	Node   int    // the host that the process runs on
	Name   string // of the process, for messages and hvia ps; in timed mode the declared participant's. The program name if empty
	// Group names the barriers of the process's threads. Processes that meet at
	// barriers use the same group, of at most layout.BridgeMaxGroup bytes;
	// without a name the barriers are private to the process.
	Group       string
	MemoryBytes int64          // all host memory of the process: DefaultBankBytes
	Costs       host.CostModel // of work in the process
	Logger      *slog.Logger   // nil = silent
}

// Process is this process's part of a fabric that a service runs.
type Process struct {
	fabric string
	host   *driver.Host
	conn   *bridge.Conn
	sock   *net.UnixConn
	name   string
	group  string
	only   string // name of a declared process's one thread
	done   chan struct{}

	mu      sync.Mutex
	threads []*host.Thread // by rank
	closed  bool
}

// Errors of a service by their names in its replies.
var refusals = map[string]error{
	"resource": host.ErrResource, "parameter": host.ErrInvalidParameter, "in-use": host.ErrInUse, "identity": driver.ErrIdentity, "unsupported": driver.ErrUnsupported, "closed": host.ErrClosed,
}

// The name of an error in a service's reply, or "" if it has none.
func Refusal(err error) string {
	for _, name := range []string{"resource", "parameter", "in-use", "identity", "unsupported", "closed"} {
		if errors.Is(err, refusals[name]) {
			return name
		}
	}
	return ""
}

// Join joins a fabric that a service runs. ErrNoFabric if no fabric has that
// name, ErrInvalidParameter if it has no such node, ErrResource if the node
// does not have that much free memory, ErrIdentity if program and service were
// built from different sources.
func Join(ctx context.Context, c JoinConfig) (*Process, error) {
	if c.Fabric == "" {
		c.Fabric = hub.Default
	}
	if c.Name == "" {
		c.Name = os.Args[0]
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = DefaultBankBytes
	}
	p, err := join(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("fabric: join node %d of fabric '%s' as '%s': %w", c.Node, c.Fabric, c.Name, err)
	}
	return p, nil
}

func join(ctx context.Context, c JoinConfig) (_ *Process, err error) {
	if len(c.Group) > layout.BridgeMaxGroup {
		return nil, fmt.Errorf("group '%s': a name of %d bytes, want at most %d: %w", c.Group, len(c.Group), layout.BridgeMaxGroup, host.ErrInvalidParameter)
	}
	sock, err := hub.Dial(ctx, c.Fabric)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = sock.Close()
		}
	}()
	limited := hub.Deadline(ctx, sock, hub.AnswerLimit)
	defer limited()
	if err := hub.Send(sock, hub.Request{Op: hub.OpJoin, Layout: layoutHash(), Node: c.Node, Name: c.Name, MemoryBytes: c.MemoryBytes}); err != nil {
		return nil, fmt.Errorf("ask the service: %w", err)
	}
	var r hub.Reply
	files, err := hub.Receive(sock, &r)
	if err != nil {
		return nil, fmt.Errorf("the service's answer: %w", errors.Join(err, context.Cause(ctx)))
	}
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if r.Error != "" {
		kind := refusals[r.Refusal]
		if kind == nil {
			return nil, errors.New(r.Error)
		}
		return nil, &driver.RemoteError{Text: r.Error, Kind: kind}
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("%d descriptors came with the answer, want 1 (too many open files?): %w", len(files), hub.ErrPacket)
	}
	conn, err := bridge.Join(ctx, files[0], bridge.Options{Name: c.Name, Profile: r.Profile})
	files = nil // the connection owns them, also after an error
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	me := conn.Guest()
	if me == nil {
		return nil, fmt.Errorf("the simulator does not know this process as a guest: %w", hub.ErrPacket)
	}
	memory, err := conn.Memory(me.Node)
	if err != nil {
		return nil, err
	}
	h, err := driver.NewGuest(driver.GuestConfig{
		Node: me.Node, Device: driver.Device(r.Device), FirstRank: me.FirstRank, Ranks: me.Ranks, Costs: c.Costs, Logger: c.Logger,
		Memory: mem.Config{Fd: memory.FD, First: memory.First, Frames: memory.Frames},
		Entry:  driver.Entry{Replies: r.Replies, Statuses: r.Statuses},
	})
	if err != nil {
		return nil, err
	}
	p := &Process{
		fabric: c.Fabric, host: h, conn: conn, sock: sock, name: c.Name, group: c.Group, only: r.Thread, done: make(chan struct{}), threads: make([]*host.Thread, me.Ranks),
	}
	limited()
	go p.watch()
	return p, nil
}

func layoutHash() string { return fmt.Sprintf("%016x", layout.Hash) }

func (p *Process) watch() {
	defer close(p.done)
	var r hub.Reply
	files, err := hub.Receive(p.sock, &r)
	for _, f := range files {
		_ = f.Close()
	}
	if r.Error != "" {
		err = errors.New(r.Error)
	}
	p.host.EndGuest(fmt.Errorf("fabric: process '%s' in fabric '%s': %w: %w", p.name, p.fabric, ErrServiceGone, err))
}

// Host returns the process's host: its memory, and the calls to its agent.
func (p *Process) Host() *driver.Host { return p.host }

// Conn returns the process's connection to the simulator.
func (p *Process) Conn() *bridge.Conn { return p.conn }

// Thread creates a thread of the process. In timed mode a declared process has
// one, and name is ignored. ErrResource if all are in use: Detach ends one.
func (p *Process) Thread(ctx context.Context, name string) (*host.Thread, error) {
	if err := p.conn.Err(); errors.Is(err, bridge.ErrForked) {
		return nil, fmt.Errorf("fabric: make thread '%s' in fabric '%s': %w", name, p.fabric, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("fabric: make thread '%s': the process has left fabric '%s': %w", name, p.fabric, host.ErrClosed)
	}
	for i, t := range p.threads {
		if t != nil && !t.Detached() {
			continue
		}
		if p.only != "" {
			name = p.only
		}
		t, err := host.Attach(ctx, p.conn, host.ThreadID{Node: p.host.Node(), Rank: p.host.FirstRank() + i}, name)
		if err != nil {
			return nil, err
		}
		t.SetGroup(p.group)
		p.threads[i] = t
		return t, nil
	}
	return nil, fmt.Errorf("fabric: make thread '%s' in fabric '%s': all %d threads of the process are there: %w", name, p.fabric, len(p.threads), host.ErrResource)
}

// Close leaves the fabric: it releases everything that the process has on the
// card, and the peers' connections are lost. A thread that is not in a call
// leaves at its simulated time. If there is none, the service reclaims the
// resources after the connection ends, and a timed run is not reproducible.
// Memory of the fabric is invalid afterwards. A second call does nothing.
func (p *Process) Close() error {
	if err := p.conn.Err(); errors.Is(err, bridge.ErrForked) {
		return fmt.Errorf("fabric: leave fabric '%s': %w", p.fabric, err)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	threads := slices.DeleteFunc(slices.Clone(p.threads), func(t *host.Thread) bool { return t == nil || t.Detached() })
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if len(threads) == 0 && !p.conn.Timed() && p.conn.Err() == nil {
		if t, err := host.Attach(ctx, p.conn, host.ThreadID{Node: p.host.Node(), Rank: p.host.FirstRank()}, "leave"); err == nil {
			threads = append(threads, t)
		}
	}
	var left bool
	for _, t := range threads {
		if !left && !t.Busy() {
			t.SetContext(ctx)
			left = p.host.LeaveFabric(t) == nil
		}
	}
	for _, t := range threads {
		// A thread in a call ends with the connection. If LeaveFabric failed,
		// the service sees that the process is gone.
		_ = t.Detach()
	}
	err := p.conn.Close()
	_ = p.sock.Close()
	<-p.done
	p.host.Memory().Close()
	if err != nil {
		return fmt.Errorf("fabric: leave fabric '%s': %w", p.fabric, err)
	}
	return nil
}
