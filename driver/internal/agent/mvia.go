// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"

	"hvia/att"
	"hvia/driver/card"
	"hvia/driver/internal/call"
	"hvia/driver/internal/softvia"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

const (
	// mviaQueueDepth bounds the descriptors on a work queue in the kernel; the
	// library allows fewer.
	mviaQueueDepth = 1 << 16
	// gatherLimit is the number of pieces of user memory that the NIC gathers
	// for one frame. A payload in more pieces is copied.
	gatherLimit = 32
	mviaVersion = layout.CardVersionMajor<<8 | layout.CardVersionMinor
	// drainLook is the period at which the agent polls for frames that the NIC
	// must read.
	drainLook = 5 * host.Microsecond
)

// MVIA is M-VIA: the device of an agent with a plain NIC. The agent's table
// translates. softvia implements VIA, on the thread of the program that rings a
// doorbell, and on the agent's in the interrupt service.
//
// It has no lock: in timed mode threads of a node take turns, so between two
// waits no other thread changes this state. Code comments name what may change
// during a wait.
type MVIA struct {
	agent    *Agent
	memory   *mem.Memory
	direct   []byte // all of the memory, by physical address
	costs    host.CostModel
	Ethernet *card.Ethernet
	engine   *softvia.Engine[*host.Thread]
	counts   [layout.CounterSlots]uint32
	errors   []call.AsyncError // queued for the agent
	notified []notification    // notifications queued for the agent
	called   bool              // a call of the agent is pending
	failed   error             // error of a store, after which the run is over

	protocols []Protocol // besides M-VIA
}

type notification struct {
	kind  layout.NotifyKind
	index int // of the VI, or the completion queue
}

var (
	_ device                            = (*MVIA)(nil)
	_ softvia.Environment[*host.Thread] = (*MVIA)(nil)
)

func newMvia(a *Agent) *MVIA {
	m := &MVIA{agent: a, memory: a.memory, costs: a.costs}
	m.engine = softvia.New[*host.Thread](m, softvia.Config{QueueDepth: mviaQueueDepth, CompletionQueues: call.StatusCQs})
	return m
}

func (m *MVIA) open() (err error) {
	t := m.agent.thread
	if !t.Timed() {
		return fmt.Errorf("driver: start device '%s' of node %d in free mode: code of its kernel counts on threads that take turns, which they do in timed mode only: %w",
			DeviceMvia, t.ID().Node, host.ErrInvalidParameter)
	}
	if m.direct, err = m.memory.MapDirect(); err != nil {
		return err
	}
	m.Ethernet, err = card.OpenEthernet(t, m.memory, m.costs)
	return err
}

func (m *MVIA) start() error {
	m.engine.SetMAC(m.agent.mac)
	return m.Ethernet.Start(m.agent.thread, m.agent.mac)
}

func (m *MVIA) stop() error {
	if err := m.await("the last sends", func() bool { return m.engine.Finished(m.engine.Started()) }); err != nil {
		return err
	}
	return m.Ethernet.Stop(m.agent.thread)
}

func (m *MVIA) identity() card.Identity {
	return card.Identity{
		Version: mviaVersion, LayoutHash: layout.Hash, VICount: softvia.VICount, Reliability: uint8(layout.ReliabilityUnreliable),
		CompletionQueues: call.StatusCQs,
	}
}

func (m *MVIA) level2Entries() uint32 { return layout.AttLevel2Count }

// enter does nothing: the agent's own table translates.
func (m *MVIA) enter(att.Registration) error { return nil }

func (m *MVIA) remove(h att.Handle) error {
	if err := m.agent.table.Invalidate(h); err != nil {
		return fmt.Errorf("%w: %w", err, host.ErrInvalidParameter)
	}
	m.engine.Deregistered(uint32(h))
	// New senders no longer find the region. Earlier senders may still gather
	// from it, and the NIC may still read it.
	started := m.engine.Started()
	if err := m.await("sends before a deregistration", func() bool { return m.engine.Finished(started) }); err != nil {
		return err
	}
	if err := m.agent.table.Release(h); err != nil {
		return fmt.Errorf("%w: %w", err, host.ErrInvalidParameter)
	}
	return nil
}

// change modifies only the table: nothing else caches tags and rights, and no
// other thread is in an access.
func (m *MVIA) change(h att.Handle, tag uint16, rights uint8) (bool, error) {
	if _, err := m.agent.table.Modify(h, tag, allowsWrite(rights), allowsRead(rights)); err != nil {
		return false, fmt.Errorf("%w: %w", err, host.ErrInvalidParameter)
	}
	return false, nil
}

// await polls until the NIC has read the frames that done checks. The NIC's
// interrupt may be late.
func (m *MVIA) await(what string, done func() bool) error {
	t := m.agent.thread
	for waited := host.Time(0); ; waited += drainLook {
		if err := m.Ethernet.Reap(t); err != nil {
			return err
		}
		if done() {
			return m.failed
		}
		if waited >= card.CommandLimit {
			return fmt.Errorf("driver: M-VIA of node %d waits for %s: the NIC has not read them after %v: %w", t.ID().Node, what, card.CommandLimit, card.ErrDeadline)
		}
		if err := t.Pause(drainLook); err != nil {
			return err
		}
	}
}

func (m *MVIA) viCommand(op layout.CommandOpcode, index int, fill func(layout.VIContext)) error {
	if op == layout.CommandOpcodeDisconnectVI || op == layout.CommandOpcodeDestroyVI {
		// A thread may be sending from this queue: it stops behind the current
		// frame.
		m.engine.Stop(index)
		if err := m.await(fmt.Sprintf("sends of VI %d", index), func() bool { return !m.engine.Busy(index) }); err != nil {
			return err
		}
	}
	context := make(layout.VIContext, layout.VIContextSize)
	if fill != nil {
		fill(context)
	}
	if _, s := m.engine.Command(m.agent.thread, op, uint32(index), context); s != layout.CommandStatusDone {
		return &card.CommandError{Opcode: op, Index: uint32(index), Status: s}
	}
	return m.failed
}

func (m *MVIA) queueCommand(op layout.CommandOpcode, index int, address, log2 uint32) (uint32, error) {
	detail, s := m.engine.CompletionQueueCommand(op, uint32(index), address, log2)
	if s != layout.CommandStatusDone {
		return 0, &card.CommandError{Opcode: op, Index: uint32(index), Status: s}
	}
	return detail, m.failed
}

func (m *MVIA) arm(kind layout.NotifyKind, index int) error {
	m.engine.Arm(kind, index)
	return nil
}

func (m *MVIA) send(frame []byte) error {
	return m.Ethernet.Transmit(m.agent.thread, frame, nil, nil)
}

// counter adds the counters of the NIC and of M-VIA, which count different
// events under the card's numbers.
func (m *MVIA) counter(n layout.Counter) (uint32, error) {
	v, err := m.Ethernet.Counter(m.agent.thread, layout.NICCounter(n))
	return m.counts[n] + v, err
}

func (m *MVIA) interrupt(take func(frame []byte), _ func(layout.NotifyKind, int)) (bool, error) {
	t := m.agent.thread
	if err := t.SpendInService(host.LayerInterrupt, m.costs.Interrupt); err != nil {
		return false, err
	}
	err := m.Ethernet.Service(t, func(frame []byte) error {
		if len(frame) < layout.EthernetHeaderSize {
			return nil
		}
		switch kind := layout.EthernetHeader(frame).EtherType(); kind {
		case layout.EtherTypeVia:
			return m.arrive(t, frame)
		case layout.EtherTypeConnection:
			if err := t.SpendInService(host.LayerProtocol, m.costs.Kernel.Mvia.ReceivePacket); err != nil {
				return err
			}
			take(frame)
			return m.agent.fatal
		default:
			if p := m.protocol(kind); p != nil {
				return p.Frame(t, frame)
			}
			return nil
		}
	})
	return len(m.errors) > 0, err
}

// arrive takes a VIA frame: one copy, from the ring's buffer to its
// destination.
func (m *MVIA) arrive(t *host.Thread, frame []byte) error {
	kernel := m.costs.Kernel
	if err := t.SpendInService(host.LayerProtocol, kernel.Mvia.ReceivePacket); err != nil {
		return err
	}
	if len(frame) >= layout.HeaderBytes {
		payload := int(layout.ViaHeader(frame[layout.EthernetHeaderSize:]).PayloadLength())
		if err := t.SpendInService(host.LayerCopy, kernel.Copy(min(payload, len(frame)-layout.HeaderBytes))); err != nil {
			return err
		}
	}
	m.engine.Arrive(t, frame)
	return m.failed
}

func (m *MVIA) asyncErrors() (waiting []call.AsyncError, dropped [layout.AsyncErrorDroppedWords]uint32, err error) {
	waiting, m.errors, m.called = m.errors, nil, false
	return waiting, dropped, nil
}

func (m *MVIA) deadline() host.Time {
	next := host.Never
	for _, p := range m.protocols {
		next = min(next, p.Deadline())
	}
	return next
}

func (m *MVIA) tick() error {
	t := m.agent.thread
	for _, p := range m.protocols {
		if p.Deadline() <= t.Now() {
			if err := p.Timer(t); err != nil {
				return err
			}
		}
	}
	came := m.notified
	m.notified = nil
	for _, n := range came {
		m.agent.raise(n.kind, n.index)
	}
	// An error that breaks a VI may make others fail in turn.
	for len(m.errors) > 0 {
		if err := m.agent.asyncErrors(); err != nil {
			return err
		}
	}
	m.called = false
	return m.failed
}

// attend has the agent run the work at the end of its step.
func (m *MVIA) attend(t *host.Thread) error {
	if t == m.agent.thread {
		return nil // the agent runs that work anyway
	}
	return t.Send(m.agent.thread.ID(), call.Encode(&call.Request{Op: call.OpAttend}))
}

// The methods below also run on threads of programs.

// Ring is a doorbell inside the kernel. It does not wait.
func (m *MVIA) Ring(t *host.Thread, id softvia.QueueID, address uint64, handle uint32) error {
	m.engine.Ring(t, id, address, handle)
	return m.failed
}

// CarryOut sends the descriptors that wait on a send queue.
func (m *MVIA) CarryOut(t *host.Thread, index int) error {
	if err := m.engine.Send(t, index); err != nil {
		return err
	}
	return m.failed
}

// The methods below implement softvia.Environment.

func (m *MVIA) Translate(handle uint32, va uint64, n uint32, tag uint16, access layout.AttAccess) (pa []mem.Range, ok bool) {
	for first := true; first || n > 0; first = false {
		t, err := m.agent.table.Translate(att.Handle(handle), va, n, tag, access)
		if err != nil {
			return nil, false
		}
		if l := min(n, t.Bytes); l > 0 {
			pa = append(pa, mem.Range{Address: t.Address, Length: l})
			va, n = va+uint64(l), n-l
		}
	}
	return pa, true
}

func (m *MVIA) Memory(address, n uint32) []byte { return m.direct[address:][:n] }

func (m *MVIA) store(err error) {
	if err != nil && m.failed == nil {
		m.failed = err
	}
}

func (m *MVIA) Store(t *host.Thread, address uint32, data []byte) {
	copy(m.direct[address:], data)
	m.store(t.Publish(mem.Range{Address: address, Length: uint32(len(data))}))
}

func (m *MVIA) StoreWord(t *host.Thread, address, v uint32) {
	mem.StoreUint32(m.direct[address:], v)
	m.store(t.Publish(mem.Range{Address: address, Length: 4}))
}

func (m *MVIA) Emit(t *host.Thread, head []byte, payload []mem.Range, sent func(*host.Thread)) error {
	if len(payload) > gatherLimit {
		n := len(head)
		for _, r := range payload {
			head = append(head, m.Memory(r.Address, r.Length)...)
		}
		if err := t.Spend(host.LayerCopy, m.costs.Kernel.Copy(len(head)-n)); err != nil {
			return err
		}
		payload = nil
	}
	return m.Ethernet.Transmit(t, head, payload, sent)
}

// Posted fetches a receive descriptor at once. The thread that rang sends from
// a send queue.
func (m *MVIA) Posted(t *host.Thread, id softvia.QueueID) {
	if id.Of == softvia.ReceiveQueue {
		m.engine.FetchReceive(t, id.VI)
	}
}

func (m *MVIA) Async(t *host.Thread, code layout.AsyncError, vi int) {
	m.errors = append(m.errors, call.AsyncError{Code: code, VI: vi})
	m.call(t)
}

func (m *MVIA) Notify(t *host.Thread, kind layout.NotifyKind, index int) {
	m.notified = append(m.notified, notification{kind, index})
	m.call(t)
}

// call calls the agent, unless it is already called.
func (m *MVIA) call(t *host.Thread) {
	if !m.called {
		m.called = true
		m.store(m.attend(t))
	}
}

func (m *MVIA) Count(n layout.Counter) { m.counts[n]++ }

func (m *MVIA) protocol(kind uint16) Protocol {
	for _, p := range m.protocols {
		if slices.Contains(p.EtherTypes(), kind) {
			return p
		}
	}
	return nil
}
