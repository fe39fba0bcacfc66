// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a fabric for tests of the stack alone: each node has a NIC that is
// only a queue, and a kernel's thread that serves it. One thread runs at a
// time, in the order of (time, node, rank).
type world struct {
	t     *testing.T
	rules rules

	mu      sync.Mutex
	now     host.Time
	nodes   []*worldNode
	ports   []*worldPort // by (node, rank)
	absent  int          // ports that have not started
	running *worldPort
	stopped error
	failed  []error // of programs and agents
	trace   []tracedFrame
}

type rules struct {
	costs  host.KernelCosts
	delay  host.Time // of the wire
	rate   host.Time // for each byte on the wire
	lose   func(from, n int, frame []byte) bool
	config func(node int) Config
}

type tracedFrame struct {
	at    host.Time
	from  int
	frame []byte
	lost  bool
}

type worldNode struct {
	index    int
	free     host.Time // end of the charged time
	wire     host.Time // when its outgoing wire is free
	arriving []tracedFrame
	sent     int
	kick     bool
	done     int // ended programs
	programs int
	memory   *mem.Memory
	protocol driver.Protocol
	agent    *host.Thread
	services int
}

type worldPort struct {
	w       *world
	id      host.ThreadID
	node    *worldNode
	clock   host.Time
	begun   bool
	gone    bool
	waiting bool
	wait    bridge.Wait
	due     host.Time
	reason  layout.BridgeReason
	wake    chan bridge.Wake
}

func (p *worldPort) Clock() host.Time { return p.clock }
func (p *worldPort) Timed() bool      { return true }
func (p *worldPort) Nodes() int       { return len(p.w.nodes) }

func (p *worldPort) Begin(ctx context.Context) error {
	if p.begun {
		return nil
	}
	_, err := p.Park(ctx, bridge.Wait{})
	return err
}

func (p *worldPort) Post(_ context.Context, commands ...bridge.Command) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, c := range commands {
		if c.Opcode != layout.BridgeOpcodePublish {
			return fmt.Errorf("this fabric has no %v", c.Opcode)
		}
		for _, o := range p.w.ports {
			for _, r := range o.wait.Watches {
				if o.waiting && o.node == p.node && uint32(c.Address) < r.Address+r.Length && r.Address < uint32(c.Address)+uint32(c.Tag) {
					o.due, o.reason = min(o.due, p.clock), layout.BridgeReasonWritten
				}
			}
		}
	}
	return p.w.stopped
}

func (p *worldPort) Park(_ context.Context, w bridge.Wait) (bridge.Wake, error) {
	f := p.w
	f.mu.Lock()
	if !p.begun { // time starts when all wait for it
		p.begun = true
		f.absent--
	}
	p.wait, p.waiting, p.due, p.reason = w, true, host.Never, layout.BridgeReasonDeadline
	if w.Timeout < host.Never-p.clock {
		p.due = p.clock + w.Timeout
	}
	switch w.Processor {
	case bridge.ProcessorCharge:
		p.due = max(p.clock, p.node.free) + w.Timeout
		p.node.free = p.due
	case bridge.ProcessorService:
		if p.node.free > p.clock {
			p.node.free += w.Timeout
		}
		for _, o := range f.ports {
			if o.waiting && o.node == p.node && o.wait.Processor == bridge.ProcessorCharge {
				o.due += w.Timeout
			}
		}
	}
	if f.running == p {
		f.running = nil
	}
	f.next()
	f.mu.Unlock()
	wake := <-p.wake
	f.mu.Lock()
	defer f.mu.Unlock()
	return wake, f.stopped
}

func (p *worldPort) Detach() error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.gone = true
	if p.w.running == p {
		p.w.running = nil
	}
	p.w.next()
	return nil
}

// next advances time to the next event, if no thread runs. The caller holds the
// lock.
func (f *world) next() {
	if f.running != nil || f.absent > 0 {
		return
	}
	var first *worldPort
	at := host.Never
	for _, p := range f.ports {
		if !p.waiting {
			continue
		}
		due := p.due
		if p.wait.Interrupt {
			if p.node.kick {
				due = min(due, max(f.now, p.clock))
			} else if len(p.node.arriving) > 0 {
				due = min(due, max(p.node.arriving[0].at, p.clock))
			}
		}
		if due < at {
			first, at = p, due
		}
	}
	if first == nil {
		for _, p := range f.ports {
			if p.waiting { // nothing can wake it
				f.stopped = cmp.Or(f.stopped, bridge.ErrDeadlock)
				p.waiting = false
				p.wake <- bridge.Wake{}
			}
		}
		return
	}
	f.now = max(f.now, at)
	reason := first.reason
	if first.wait.Interrupt && (first.node.kick || len(first.node.arriving) > 0 && first.node.arriving[0].at <= f.now) {
		reason, first.node.kick = layout.BridgeReasonInterrupt, false
	}
	first.clock, first.waiting, f.running = f.now, false, first
	first.wake <- bridge.Wake{Reason: reason, Time: f.now}
}

// worldLink is the NIC of a node: a wire with a rate and a delay.
type worldLink struct {
	f *world
	n *worldNode
}

func (l worldLink) Address() layout.MAC { return driver.NodeMAC(l.n.index) }

func (l worldLink) Transmit(t *host.Thread, head []byte, body []mem.Range, _ func(*host.Thread)) error {
	if len(body) != 0 {
		return fmt.Errorf("this NIC gathers nothing")
	}
	frame := bytes.Clone(head)
	if err := t.Spend(host.LayerProtocol, l.f.rules.costs.SendPacket); err != nil {
		return err
	}
	f := l.f
	f.mu.Lock()
	defer f.mu.Unlock()
	n := l.n
	lost := f.rules.lose != nil && f.rules.lose(n.index, n.sent, frame)
	n.sent++
	f.trace = append(f.trace, tracedFrame{t.Now(), n.index, frame, lost})
	n.wire = max(n.wire, t.Now()) + f.rules.rate*host.Time(max(len(frame), 60)+24)
	if lost {
		return nil
	}
	for _, o := range f.nodes {
		to := driver.NodeMAC(o.index)
		if o != n && (bytes.Equal(frame[:6], to[:]) || frame[0]&1 != 0) {
			o.arriving = append(o.arriving, tracedFrame{at: n.wire + f.rules.delay, from: n.index, frame: frame})
			slices.SortStableFunc(o.arriving, func(a, b tracedFrame) int { return cmp.Compare(a.at, b.at) })
		}
	}
	return nil
}

func (l worldLink) Reschedule(*host.Thread) error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.n.kick = true
	return nil
}

func (f *world) attach(n *worldNode) func(*host.Thread, driver.Protocol) (driver.Link, error) {
	return func(_ *host.Thread, p driver.Protocol) (driver.Link, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if n.protocol != nil {
			return nil, fmt.Errorf("there is a protocol already: %w", host.ErrInvalidParameter)
		}
		n.protocol, n.kick = p, true
		return worldLink{f, n}, nil
	}
}

func (f *world) serve(n *worldNode) error {
	for {
		f.mu.Lock()
		p, over := n.protocol, n.done == n.programs
		f.mu.Unlock()
		if over {
			return nil
		}
		timeout := host.Never
		if p != nil {
			if d := p.Deadline(); d != host.Never {
				timeout = max(d-n.agent.Now(), 0)
			}
		}
		if _, err := n.agent.WaitInterrupt(timeout); err != nil {
			return err
		}
		if p == nil {
			continue
		}
		for first := true; ; first = false {
			f.mu.Lock()
			var frame []byte
			if len(n.arriving) > 0 && n.arriving[0].at <= n.agent.Now() {
				frame = n.arriving[0].frame
				n.arriving = n.arriving[1:]
			}
			f.mu.Unlock()
			if frame == nil {
				break
			}
			if first {
				n.services++
			}
			lent := bytes.Clone(frame)
			if err := p.Frame(n.agent, lent); err != nil {
				return err
			}
			for i := range lent { // the bytes belong to the ring again
				lent[i] = 0xee
			}
		}
		if p.Deadline() <= n.agent.Now() {
			if err := p.Timer(n.agent); err != nil {
				return err
			}
		}
	}
}

type program struct {
	node int
	main func(t *host.Thread, s *Stack) error
}

// testCosts returns costs that all differ from 0, so that a missing one shows.
func testCosts() host.KernelCosts {
	return host.KernelCosts{
		Trap: 400 * host.Nanosecond, Switch: 1100 * host.Nanosecond, SendPacket: 3 * host.Microsecond, CopyByte: 8929,
		Tcp: host.ProtocolCosts{ReceivePacket: 7600 * host.Nanosecond, Wake: 77 * host.Microsecond},
	}
}

func gigabit() rules {
	return rules{costs: testCosts(), delay: 500 * host.Nanosecond, rate: 8 * host.Nanosecond}
}

func (f *world) attachThread(n *worldNode, rank int) *host.Thread {
	p := &worldPort{w: f, id: host.ThreadID{Node: n.index, Rank: rank}, node: n, wake: make(chan bridge.Wake, 1)}
	f.ports = append(f.ports, p)
	f.absent++
	return host.NewThread(f.t.Context(), p, p.id, fmt.Sprint(p.id))
}

// body runs main on a thread of the world and keeps its error.
func (f *world) body(what string, th *host.Thread, main func() error) func() {
	return func() {
		if err := th.Begin(); err != nil {
			f.t.Error(err)
		}
		if err := main(); err != nil {
			f.mu.Lock()
			f.failed = append(f.failed, fmt.Errorf("%s: %w", what, err))
			f.mu.Unlock()
		}
		_ = th.Detach()
	}
}

// leave ends one of a node's programs. The last one closes the stack, during
// which the node still needs its agent.
func (f *world) leave(n *worldNode, s *Stack, th *host.Thread) (err error) {
	f.mu.Lock()
	last := n.done == n.programs-1
	if !last {
		n.done++
	}
	f.mu.Unlock()
	if last {
		err = s.Close(th)
		f.mu.Lock()
		n.done++
		n.kick = true
		f.mu.Unlock()
	}
	return err
}

// play runs programs on nodes, each with a stack that is open until the node's
// last program has ended, and returns the world and their errors joined.
func play(t *testing.T, r rules, programs ...program) (*world, error) {
	t.Helper()
	nodes := 0
	for _, p := range programs {
		nodes = max(nodes, p.node+1)
	}
	memory, err := drivertest.New(nodes, 0)
	require.NoError(t, err)
	defer memory.Close()
	f := &world{t: t, rules: r}
	var start []func()
	for i := range nodes {
		n := &worldNode{index: i}
		f.nodes = append(f.nodes, n)
		n.memory, err = memory.Memory(i, 1)
		require.NoError(t, err)
		defer n.memory.Close()
		n.agent = f.attachThread(n, driver.AgentRank)
		start = append(start, f.body(fmt.Sprintf("agent %d", i), n.agent, func() error { return f.serve(n) }))
		words, err := n.memory.Allocate(mem.PageBytes, mem.Single)
		require.NoError(t, err)
		var s *Stack
		for j, p := range programs {
			if p.node != i {
				continue
			}
			n.programs++
			th, first := f.attachThread(n, n.programs), n.programs == 1
			start = append(start, f.body(fmt.Sprintf("program %d on node %d", j, i), th, func() (err error) {
				if first { // it runs before the others of its node
					c := Config{}
					if r.config != nil {
						c = r.config(i)
					}
					if s, err = open(i, f.attach(n), th, words, r.costs, c); err != nil {
						return err
					}
				}
				err = p.main(th, s)
				if e := f.leave(n, s, th); err == nil {
					err = e
				}
				return err
			}))
		}
		n.kick = false
	}
	var all sync.WaitGroup
	for _, g := range start {
		all.Go(g)
	}
	all.Wait()
	if len(f.failed) == 0 {
		return f, nil
	}
	slices.SortFunc(f.failed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return f, fmt.Errorf("%w", joined(f.failed))
}

type joined []error

func (j joined) Error() string   { return fmt.Sprint([]error(j)) }
func (j joined) Unwrap() []error { return j }
