// SPDX-License-Identifier: Apache-2.0

// Package drivertest is a fabric for tests of programs above the driver: cards
// that conform to the layouts, but without RTL, bus or process, and with fault
// injection. Its virtual time follows the rules of the simulator, except that
// hosts have no processor to share: charges of a node's threads pass at once.
// Its delays are arbitrary.
package drivertest

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// Delays of the fake hardware, not 0, so that causes precede effects.
const (
	registerDelay = 500 * host.Nanosecond
	deviceDelay   = 1 * host.Microsecond
	wireDelay     = 2 * host.Microsecond
)

// Fabric is a set of nodes with fake cards on one wire.
type Fabric struct {
	// Lose, when set before the start, is called for every frame and drops
	// those for which it returns true. The calls are in the order of simulated
	// time.
	Lose func(from int, frame []byte) bool
	// Copies, when set before the start, is called for every frame that Lose
	// does not drop. It returns the extra delay of each copy; none loses the
	// frame. See Faults.
	Copies func(from int, frame []byte) []host.Time

	mu      sync.Mutex
	now     host.Time
	nodes   []*Node
	ports   []*port
	wanted  int // threads that must attach before time starts
	running int
	events  eventQueue
	turn    []*port // their waits end now, after another thread of their node
	serial  int
	stopped error
}

// Node is one host with its card and memory.
type Node struct {
	Card   *Card // nil on a fabric of plain NICs
	NIC    *NIC  // nil on a fabric of cards
	memory *hostMemory
	index  int
}

type device interface {
	interrupt() bool
	read(address uint32) uint32
	write(address uint32, data []uint32)
	arrive(frame []byte)
}

func (n *Node) device() device {
	if n.NIC != nil {
		return n.NIC
	}
	return n.Card
}

// New returns a fabric of nodes with cards. Its time starts when the given
// number of threads have attached.
func New(nodes, threads int) (*Fabric, error) { return NewOf(driver.DeviceHvia, nodes, threads) }

// NewOf is New with the hardware of a device: cards, or plain NICs.
func NewOf(d driver.Device, nodes, threads int) (*Fabric, error) {
	return NewSized(d, nodes, threads, memoryFrames)
}

// NewSized is NewOf with the number of memory frames of each node.
func NewSized(d driver.Device, nodes, threads, frames int) (*Fabric, error) {
	f := &Fabric{wanted: threads}
	for i := range nodes {
		m, err := newHostMemory(i, frames)
		if err != nil {
			f.Close()
			return nil, err
		}
		n := &Node{memory: m, index: i}
		if d == driver.DeviceMvia {
			n.NIC = newNIC(f, n)
		} else {
			n.Card = newCard(f, n)
		}
		f.nodes = append(f.nodes, n)
	}
	return f, nil
}

// Close frees the nodes' memory.
func (f *Fabric) Close() {
	for _, n := range f.nodes {
		n.memory.close()
	}
}

// Node returns node i.
func (f *Fabric) Node(i int) *Node { return f.nodes[i] }

// Memory creates the allocator of a node's memory.
func (f *Fabric) Memory(node int, seed uint64) (*mem.Memory, error) {
	n := f.nodes[node]
	return mem.New(mem.Config{Fd: n.memory.fd, Frames: len(n.memory.use), Use: n.memory, Seed: seed})
}

var _ fabric.Fabric = (*Fabric)(nil)

// Now returns the fabric's time.
func (f *Fabric) Now() host.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// InUse returns the number of counted frame uses: 0 when nothing is pinned.
func (n *Node) InUse() int { return n.memory.total() }

// Attach creates a thread.
func (f *Fabric) Attach(ctx context.Context, id host.ThreadID, name string) (*host.Thread, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &port{fabric: f, id: id, wake: make(chan bridge.Wake, 1)}
	f.ports = append(f.ports, p)
	f.running++
	return host.NewThread(ctx, p, id, name), nil
}

// event happens at a time. Simultaneous events happen in the order of class
// (host before device), then of creation.
type event struct {
	at     host.Time
	class  int
	serial int
	do     func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.class != b.class:
		return a.class < b.class
	}
	return a.serial < b.serial
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func (f *Fabric) at(t host.Time, class int, do func()) {
	f.serial++
	heap.Push(&f.events, event{t, class, f.serial, do})
}

func (f *Fabric) after(d host.Time, do func()) { f.at(f.now+d, 1<<20, do) }

type port struct {
	fabric   *Fabric
	id       host.ThreadID
	clock    host.Time
	wake     chan bridge.Wake
	waiting  bool
	gone     bool
	began    bool
	w        bridge.Wait
	deadline host.Time
	due      host.Time // time of the decided wake
	decided  *bridge.Wake
	mailbox  []bridge.Wake
	part     []byte // of an incomplete message
	reply    *uint32
}

var _ host.Port = (*port)(nil)

func (p *port) Clock() host.Time { return p.clock }
func (p *port) Timed() bool      { return true }
func (p *port) Nodes() int       { return len(p.fabric.nodes) }

func (p *port) Begin(ctx context.Context) error {
	if p.began {
		return nil
	}
	p.began = true
	_, err := p.Park(ctx, bridge.Wait{})
	return err
}

func (p *port) Post(_ context.Context, commands ...bridge.Command) error {
	f := p.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commands {
		c.Time = p.clock
		f.at(p.clock, p.id.Node<<8|p.id.Rank, func() { f.carryOut(p, c) })
	}
	return f.stopped
}

func (p *port) Park(ctx context.Context, w bridge.Wait) (bridge.Wake, error) {
	f := p.fabric
	f.mu.Lock()
	if f.stopped != nil {
		defer f.mu.Unlock()
		return bridge.Wake{}, f.stopped
	}
	if len(w.Watches) > bridge.MaxWatches {
		defer f.mu.Unlock()
		return bridge.Wake{}, fmt.Errorf("drivertest: wait on %d ranges: at most %d can be watched", len(w.Watches), bridge.MaxWatches)
	}
	p.w, p.waiting, p.decided, p.deadline = w, true, nil, host.Never
	if w.Timeout < host.Never-p.clock {
		p.deadline = p.clock + w.Timeout
	}
	p.poll()
	f.running--
	f.advance()
	f.mu.Unlock()
	select {
	case wake := <-p.wake:
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.stopped != nil {
			return bridge.Wake{}, f.stopped
		}
		return wake, nil
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		if p.waiting { // otherwise the wake came first and is lost with the call
			p.waiting = false
			f.running++
		} else {
			<-p.wake
		}
		return bridge.Wake{}, fmt.Errorf("drivertest: wait at %v: %w: %w", p.clock, bridge.ErrAborted, context.Cause(ctx))
	}
}

func (p *port) Detach() error {
	f := p.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.gone {
		p.gone = true
		f.running--
		f.advance()
	}
	return nil
}

func (p *port) decide(at host.Time, w bridge.Wake) {
	if p.waiting && (p.decided == nil || at < p.due) {
		p.due, p.decided = at, &w
	}
}

func (p *port) poll() {
	f := p.fabric
	if !p.waiting || p.decided != nil {
		return
	}
	at := max(p.clock, f.now)
	switch {
	case p.w.Reply && p.reply != nil:
		v := *p.reply
		p.reply = nil
		p.decide(at, bridge.Wake{Reason: layout.BridgeReasonReply, Value: v})
	case p.w.Message && len(p.mailbox) > 0:
		m := p.mailbox[0]
		p.mailbox = p.mailbox[1:]
		p.decide(at, m)
	case p.w.Interrupt && f.nodes[p.id.Node].device().interrupt():
		p.decide(at, bridge.Wake{Reason: layout.BridgeReasonInterrupt})
	}
}

// written triggers the watches of a node at the present time.
func (f *Fabric) written(node int, address, n uint32) {
	for _, p := range f.ports {
		if !p.waiting || p.id.Node != node {
			continue
		}
		for _, r := range p.w.Watches {
			if address < r.Address+r.Length && r.Address < address+n {
				period := max(p.w.Period, 1)
				looks := max(f.now-p.clock, -1)/period + 1
				if f.now < p.clock {
					looks = 0
				}
				if at := p.clock + looks*period; at <= p.deadline {
					p.decide(at, bridge.Wake{Reason: layout.BridgeReasonWritten})
				} else {
					p.decide(p.deadline, bridge.Wake{Reason: layout.BridgeReasonWritten})
				}
			}
		}
	}
}

// advance advances time until a thread runs. The caller holds the lock.
func (f *Fabric) advance() {
	if len(f.ports) < f.wanted {
		return
	}
	for f.running == 0 && f.stopped == nil {
		if len(f.turn) > 0 {
			f.takeTurns()
			continue
		}
		next, alive := host.Never, false
		for _, p := range f.ports {
			if !p.waiting {
				continue
			}
			alive = true
			if p.deadline != host.Never {
				p.decide(p.deadline, bridge.Wake{Reason: layout.BridgeReasonDeadline})
			}
			if p.decided != nil {
				next = min(next, p.due)
			}
		}
		if !alive {
			return
		}
		// A write at the instant of a deadline wins, so events come first.
		if len(f.events) > 0 && f.events[0].at <= next {
			e := heap.Pop(&f.events).(event)
			f.now = max(f.now, e.at)
			f.undecideDeadlines()
			e.do()
			for _, p := range f.ports {
				p.poll()
			}
			continue
		}
		if next == host.Never {
			f.stop(bridge.ErrDeadlock, "every thread waits and the cards are idle")
			return
		}
		f.now = max(f.now, next)
		for _, p := range f.ports {
			if p.waiting && p.decided != nil && p.due <= f.now {
				f.turn = append(f.turn, p)
			}
		}
		slices.SortStableFunc(f.turn, func(a, b *port) int { return cmp.Compare(a.id.Rank, b.id.Rank) })
	}
}

// takeTurns ends the waits of this instant, one of each node: threads of a node
// never run concurrently.
func (f *Fabric) takeTurns() {
	awake := map[int]bool{}
	var later []*port
	for _, p := range f.turn {
		switch {
		case !p.waiting || p.decided == nil: // cancelled
		case awake[p.id.Node]:
			later = append(later, p)
		default:
			awake[p.id.Node] = true
			wake := *p.decided
			wake.Time = p.due
			p.clock, p.waiting, p.decided = p.due, false, nil
			f.running++
			p.wake <- wake
		}
	}
	f.turn = later
}

// undecideDeadlines reverts decided timeouts: an event of this instant may end
// the wait for another reason.
func (f *Fabric) undecideDeadlines() {
	for _, p := range f.ports {
		if p.decided != nil && p.decided.Reason == layout.BridgeReasonDeadline {
			p.decided = nil
		}
	}
}

func (f *Fabric) stop(kind error, text string) {
	f.stopped = &bridge.StopError{Kind: kind, Time: f.now, Text: text}
	for _, p := range f.ports {
		if p.waiting {
			p.waiting = false
			f.running++
			p.wake <- bridge.Wake{}
		}
	}
}

func (f *Fabric) carryOut(p *port, c bridge.Command) {
	card := f.nodes[p.id.Node].device()
	switch c.Opcode {
	case layout.BridgeOpcodeWrite:
		data := make([]uint32, c.Count)
		for i := range data {
			data[i] = layout.AttLevel2(c.Data[4*i:]).Page()
		}
		card.write(uint32(c.Address), data)
	case layout.BridgeOpcodeRead:
		f.after(registerDelay, func() {
			v := card.read(uint32(c.Address))
			p.reply = &v
		})
	case layout.BridgeOpcodePublish:
		f.written(p.id.Node, uint32(c.Address), uint32(c.Tag))
	case layout.BridgeOpcodeMessage:
		p.part = append(p.part, c.Data[:c.Count]...)
		if uint64(len(p.part)) < c.Tag {
			return
		}
		w := bridge.Wake{Reason: layout.BridgeReasonMessage, Message: p.part, Node: p.id.Node, Rank: p.id.Rank, Sent: c.Time}
		p.part = nil
		f.after(1, func() {
			for _, to := range f.ports {
				if to.id.Node == int(c.Address>>32) && to.id.Rank == int(uint32(c.Address)) {
					to.mailbox = append(to.mailbox, w)
				}
			}
		})
	default:
		f.stop(bridge.ErrProtocol, fmt.Sprintf("thread %v posted %v, which this fabric does not have", p.id, c.Opcode))
	}
}
