// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"hvia/layout"
	"hvia/sim/bridge"
)

// Time is an instant or a span of simulated time in picoseconds.
type Time = bridge.Time

// Units of simulated time.
const (
	Picosecond  = bridge.Picosecond
	Nanosecond  = bridge.Nanosecond
	Microsecond = bridge.Microsecond
	Millisecond = bridge.Millisecond
	Second      = bridge.Second
	Never       = bridge.Never
)

// Errors of threads. Errors that end a run come from package bridge
// (bridge.ErrDeadlock and the others), unchanged.
var (
	ErrThreadBusy      = errors.New("thread is used from two goroutines at once")
	ErrThreadDetached  = errors.New("thread is detached")
	ErrBarrierDisagree = errors.New("barrier's parties disagree about their number")
	ErrNoReceiver      = errors.New("no thread has the receiver's rank")
)

// ThreadID names a thread: its node, and its rank among the node's threads.
// Simultaneous actions of threads take effect in the order of their ids.
type ThreadID struct {
	Node int
	Rank int
}

func (id ThreadID) String() string { return fmt.Sprintf("%d/%d", id.Node, id.Rank) }

// Thread is one thread of a simulated host: a program's access to its card, its
// clock and other threads. It is not a goroutine, but serves one at a time; a
// call during another call returns ErrThreadBusy and changes nothing.
//
// In timed mode a thread has a virtual clock. Code between two calls takes no
// simulated time; Charge adds its cost. A node has one processor: charges of
// its threads run one after the other, and a polling loop cannot poll while
// another thread computes (see Charge and Poll). While any thread runs, no card
// advances, so host memory is stable between calls. A thread must not wait for
// anything outside this package: a Go channel, a lock held across calls or a
// file stops time for all threads, and after 10 seconds the run fails with an
// error that names the thread. Threads synchronize through Poll and Publish,
// Barrier, Send and Receive. Threads of one node never run concurrently: those
// that resume at the same instant run in rank order, each when the one before
// it waits again.
//
// In free mode Charge costs nothing, Sleep and timeouts are wall time, and runs
// are not reproducible.
//
// The context of Attach or SetContext cancels a call that waits; in timed mode
// that marks the run as not reproducible.
type Thread struct {
	slot *bridge.Slot // nil with a port
	port Port
	conn *bridge.Conn
	id   ThreadID
	name string
	// group names the group of the thread's barriers. Without a name the
	// barriers belong to its process in a fabric of many processes, else to all
	// threads.
	group string
	ctx   context.Context
	busy  atomic.Bool
	gone  atomic.Bool
	read  uint64

	spent    [Layers]atomic.Int64 // in ps; other goroutines may read it
	spending func(Spending)       // called for each entry; may be nil
}

// Attach creates a thread of the fabric. A timed run starts when all threads
// declared at its start have attached: the first call that needs time waits for
// that, Attach does not. The name must be the declared one.
func Attach(ctx context.Context, conn *bridge.Conn, id ThreadID, name string) (*Thread, error) {
	slot, err := conn.Attach(ctx, id.Node, id.Rank, name)
	if err != nil {
		return nil, fmt.Errorf("host: attach thread %v '%s': %w", id, name, err)
	}
	return &Thread{slot: slot, conn: conn, id: id, name: name, ctx: ctx}, nil
}

// enter claims the thread for one call and waits until its time has started.
func (t *Thread) enter(what string) error {
	if !t.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("host: %s on thread %v '%s': %w: give each goroutine a separate thread", what, t.id, t.name, ErrThreadBusy)
	}
	if t.gone.Load() {
		t.busy.Store(false)
		return t.fail(what, ErrThreadDetached)
	}
	if err := t.begin(); err != nil {
		t.busy.Store(false)
		return t.fail(what, err)
	}
	return nil
}

func (t *Thread) leave() { t.busy.Store(false) }

func (t *Thread) fail(what string, err error) error {
	return fmt.Errorf("host: %s on thread %v '%s': %w", what, t.id, t.name, err)
}

// ID returns the thread's node and rank.
func (t *Thread) ID() ThreadID { return t.id }

// Name returns the thread's name.
func (t *Thread) Name() string { return t.name }

// Timed says whether the fabric runs in timed mode.
func (t *Thread) Timed() bool { return t.timed() }

// Conn returns the connection, for state of the process: host memory, the state
// of the run. It is nil with a port.
func (t *Thread) Conn() *bridge.Conn { return t.conn }

// Context returns the context that ends the thread's waits.
func (t *Thread) Context() context.Context { return t.ctx }

// SetContext replaces that context and returns the old one.
func (t *Thread) SetContext(ctx context.Context) context.Context {
	old := t.ctx
	t.ctx = ctx
	return old
}

// Forked returns bridge.ErrForked in a process that was forked from the one
// that attached the thread, else nil, without a system call. Every call of a
// thread returns this error there.
func (t *Thread) Forked() error {
	if t.conn == nil {
		return nil
	}
	return t.conn.Forked()
}

// Begin waits until the thread's time starts. Every other call waits too; Begin
// is for programs that need to know when.
func (t *Thread) Begin() error {
	if err := t.enter("begin"); err != nil {
		return err
	}
	t.leave()
	return nil
}

// Now returns the thread's clock in timed mode, and the fabric's time in free
// mode.
func (t *Thread) Now() Time { return t.clock() }

// Charge spends processor time: the call returns when the fabric has reached
// the thread's new clock. The span starts when the node's processor is free.
// Threads of a node get the processor in the order of their requests,
// simultaneous requests in rank order, and keep it to the end of the span:
// there are no time slices. Only an interrupt service preempts
// (ChargeInterrupt). A span of 0 needs no processor. In free mode Charge does
// nothing.
func (t *Thread) Charge(span Time) error {
	return t.charge("charge", span, bridge.ProcessorCharge)
}

// ChargeInterrupt is Charge for an interrupt service: the span starts at once,
// or when earlier services end. The charge that it interrupts, and charges that
// wait for the processor, end later by the span.
func (t *Thread) ChargeInterrupt(span Time) error {
	return t.charge("charge an interrupt service", span, bridge.ProcessorService)
}

func (t *Thread) charge(what string, span Time, p bridge.Processor) error {
	if err := t.enter(what); err != nil {
		return err
	}
	defer t.leave()
	if span < 0 {
		return t.fail(what, fmt.Errorf("%v: %w: time does not go back", span, ErrInvalidParameter))
	}
	if span == 0 || !t.timed() {
		return nil
	}
	if _, err := t.parkSlot(bridge.Wait{Timeout: span, Processor: p}); err != nil {
		return t.fail(what, err)
	}
	return nil
}

// Sleep lets a span pass without the processor: simulated time in timed mode,
// wall time in free mode.
func (t *Thread) Sleep(span Time) error {
	if err := t.enter("sleep"); err != nil {
		return err
	}
	defer t.leave()
	if span < 0 {
		return t.fail("sleep", fmt.Errorf("%v: %w: time does not go back", span, ErrInvalidParameter))
	}
	if _, err := t.park(layout.BridgeReasonDeadline, bridge.Wait{Timeout: span}); err != nil {
		return t.fail("sleep", err)
	}
	return nil
}

// Poll describes a polling loop.
type Poll struct {
	// Ranges are the physical ranges, at most bridge.MaxWatches, in which a
	// write of the card, or a Publish of a thread of the same node, can make
	// the condition true.
	Ranges []bridge.Range
	// Interrupt makes the node's interrupt cause a poll too.
	Interrupt bool
	// Period is the time between polls. The thread polls when Poll is called,
	// every Period after that, and once more at the deadline.
	Period Time
	// Timeout ends the loop: simulated time in timed mode, wall time in free
	// mode. Never means none, 0 is a single poll.
	Timeout Time
	// Simulated makes Timeout simulated time in free mode too, for a wait that
	// only the card can end. A process that joined still waits in wall time.
	Simulated bool
	// Blocked makes the thread sleep until something happens instead of
	// polling: it needs no processor, ignores Period, and enters no time in its
	// account. The caller spends the cost of the wakeup.
	Blocked bool
}

// Poll polls until cond returns true or the timeout ends, and returns whether
// cond held. It models a loop that reads memory every Period, without running
// it: in timed mode the thread's clock is then at the first poll at which the
// condition held, including a write at the deadline's instant. The condition
// may depend only on memory in Ranges.
//
// A poll takes no processor time, but needs the processor: a poll during a
// charge of another thread of the node moves to the end of that charge, and the
// loop continues from there, Period after Period. The last poll moves too, so
// the call may return after the timeout. A poll runs between two consecutive
// charges, and a charge that starts at the poll's own instant does not delay
// it.
func (t *Thread) Poll(p Poll, cond func() bool) (bool, error) {
	if err := t.enter("poll"); err != nil {
		return false, err
	}
	defer t.leave()
	left := t.countdown(p.Timeout, p.Simulated)
	w := bridge.Wait{Period: p.Period, Watches: p.Ranges, Interrupt: p.Interrupt, Simulated: p.Simulated, Processor: bridge.ProcessorPolls, Poll: cond}
	if p.Blocked {
		w.Period, w.Processor = 0, bridge.ProcessorFree
	}
	if began := t.clock(); t.timed() && !p.Blocked {
		defer func() { t.enterAccount(LayerPoll, began, t.clock()-began) }()
	}
	if t.timed() && !p.Blocked && t.processorBusy() {
		// The first poll waits too.
		if _, err := t.parkSlot(bridge.Wait{Processor: bridge.ProcessorPolls}); err != nil {
			return false, t.fail("poll", err)
		}
	}
	for {
		if cond() {
			return true, nil
		}
		if w.Timeout = left(); w.Timeout <= 0 {
			return false, nil
		}
		if len(p.Ranges) == 0 && !p.Interrupt && p.Timeout == Never {
			return false, t.fail("poll", fmt.Errorf("%w: nothing to watch and no timeout: it would never end", ErrInvalidParameter))
		}
		if _, err := t.parkSlot(w); err != nil {
			return false, t.fail("poll", err)
		}
	}
}

// Countdown starts a timeout and returns a function that returns the time left:
// simulated time in timed mode, wall time in free mode.
func (t *Thread) Countdown(timeout Time) func() Time { return t.countdown(timeout, false) }

func (t *Thread) countdown(timeout Time, simulated bool) func() Time {
	switch {
	case timeout == Never:
		return func() Time { return Never }
	case t.timed(), simulated && t.conn != nil && t.conn.Guest() == nil:
		end := Never
		if start := t.clock(); timeout < Never-start {
			end = start + timeout
		}
		return func() Time { return end - t.clock() }
	}
	end := time.Now().Add(timeout.Wall())
	return func() Time { return Time(time.Until(end)) * Nanosecond }
}

// Pause lets a span of simulated time pass, in free mode too.
func (t *Thread) Pause(span Time) error {
	_, err := t.Poll(Poll{Timeout: span, Simulated: true, Blocked: true}, func() bool { return false })
	return err
}

// WaitInterrupt waits until the interrupt of the thread's node is asserted; it
// returns false on timeout. It does not acknowledge the interrupt: that takes a
// register access.
func (t *Thread) WaitInterrupt(timeout Time) (bool, error) {
	if err := t.enter("wait for an interrupt"); err != nil {
		return false, err
	}
	defer t.leave()
	wake, err := t.park(layout.BridgeReasonInterrupt, bridge.Wait{Timeout: timeout, Interrupt: true})
	if err != nil {
		return false, t.fail("wait for an interrupt", err)
	}
	return wake.Reason == layout.BridgeReasonInterrupt, nil
}

// Write posts 1 to layout.BridgeMaxWriteDwords dwords to the card at a physical
// address, as one burst, and returns at once.
func (t *Thread) Write(address uint32, data ...uint32) error {
	if err := t.enter("write to the card"); err != nil {
		return err
	}
	defer t.leave()
	if len(data) == 0 || len(data) > layout.BridgeMaxWriteDwords || address%4 != 0 {
		return t.fail("write to the card", fmt.Errorf("%d dwords at %#x: %w: a burst has 1 to %d dwords at a multiple of 4",
			len(data), address, ErrInvalidParameter, layout.BridgeMaxWriteDwords))
	}
	c := bridge.Command{Opcode: layout.BridgeOpcodeWrite, Count: uint32(len(data)), Address: uint64(address)}
	for i, d := range data {
		putLittle(c.Data[4*i:], d)
	}
	if err := t.post(c); err != nil {
		return t.fail("write to the card", err)
	}
	return nil
}

func putLittle(b []byte, v uint32) {
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

// Read reads a dword of the card at a physical address and waits for it. All
// earlier writes of the thread reach the card first.
func (t *Thread) Read(address uint32) (uint32, error) {
	if err := t.enter("read from the card"); err != nil {
		return 0, err
	}
	defer t.leave()
	if address%4 != 0 {
		return 0, t.fail("read from the card", fmt.Errorf("address %#x: %w: expected a multiple of 4", address, ErrInvalidParameter))
	}
	t.read++
	if err := t.post(bridge.Command{Opcode: layout.BridgeOpcodeRead, Count: 1, Address: uint64(address), Tag: t.read}); err != nil {
		return 0, t.fail("read from the card", err)
	}
	wake, err := t.park(layout.BridgeReasonReply, bridge.Wait{Timeout: Never, Reply: true})
	if err != nil {
		return 0, t.fail("read from the card", err)
	}
	return wake.Value, nil
}

// ResetBus asserts RST# of the system bus of the thread's node for a span of at
// most layout.BridgeMaxBusReset ps of simulated time, and returns at once. From
// this instant the card accesses host memory no more and loses all state,
// including its bus address; after RST# the host enumerates it as at boot.
// Until then reads of the card return all ones and writes are lost, including
// those of other threads in flight. Host memory and the frame-use table do not
// change. ErrInvalidParameter if the span is out of range.
func (t *Thread) ResetBus(span Time) error {
	if err := t.enter("reset the bus"); err != nil {
		return err
	}
	defer t.leave()
	if span <= 0 || span > layout.BridgeMaxBusReset {
		return t.fail("reset the bus", fmt.Errorf("for %v: %w: want more than 0 and at most %v", span, ErrInvalidParameter, Time(layout.BridgeMaxBusReset)))
	}
	if err := t.post(bridge.Command{Opcode: layout.BridgeOpcodeBusReset, Tag: uint64(span)}); err != nil {
		return t.fail("reset the bus", err)
	}
	return nil
}

// HoldWire holds or releases the wire towards the thread's own node from the
// thread's present time on, and returns at once. While it is held, frames leave
// the port of the other node or of the switch but do not arrive: the wire
// stores up to layout.BridgeMaxHeldFrames in order; one more ends the run with
// bridge.ErrDevice. At the release they continue as if sent then: back to back
// at the wire's rate, with preamble, FCS and gap, and later frames follow. A
// hold does not delay frames that entered the wire or were released before it.
// It lets a test measure the receive side alone. Any thread of the node may
// release the wire, and repeating either call changes nothing. Captures and the
// digest have a frame at the time at which it was sent; the trace event WireEnd
// is its arrival. ErrInvalidParameter if the fabric has no second node and so
// no wire.
func (t *Thread) HoldWire(hold bool) error {
	if err := t.enter("hold the wire"); err != nil {
		return err
	}
	defer t.leave()
	if n := t.Nodes(); n < 2 {
		return t.fail("hold the wire", fmt.Errorf("a fabric of %d nodes: %w: it has no wire", n, ErrInvalidParameter))
	}
	c := bridge.Command{Opcode: layout.BridgeOpcodeHoldWire}
	if hold {
		c.Tag = 1
	}
	if err := t.post(c); err != nil {
		return t.fail("hold the wire", err)
	}
	return nil
}

// park waits for one reason only. In free mode a wakeup for an earlier wait may
// come late.
func (t *Thread) park(reason layout.BridgeReason, w bridge.Wait) (bridge.Wake, error) {
	left := t.Countdown(w.Timeout)
	for {
		w.Timeout = max(left(), 0)
		wake, err := t.parkSlot(w)
		if err != nil {
			return wake, err
		}
		switch {
		case wake.Reason == reason, wake.Reason == layout.BridgeReasonDeadline, wake.Reason == layout.BridgeReasonRejected:
			return wake, nil
		case t.timed():
			return wake, fmt.Errorf("woken by %v while waiting for %v: %w", wake.Reason, reason, bridge.ErrProtocol)
		}
	}
}

// Publish reports that the thread has stored to these ranges of its node's
// memory, so that other threads of the node that poll them poll again.
func (t *Thread) Publish(ranges ...bridge.Range) error {
	if err := t.enter("publish"); err != nil {
		return err
	}
	defer t.leave()
	for _, r := range ranges {
		if err := t.post(bridge.Command{Opcode: layout.BridgeOpcodePublish, Address: uint64(r.Address), Tag: uint64(r.Length)}); err != nil {
			return t.fail("publish", err)
		}
	}
	return nil
}

// Barrier waits until the given number of threads have arrived at barrier id.
// All leave at the same instant, just after the last arrival. The threads may
// be of any node. In a fabric of many processes a barrier belongs to a group
// (JoinConfig.Group): threads of other groups cannot enter it.
func (t *Thread) Barrier(id uint64, parties int) error {
	if err := t.enter("barrier"); err != nil {
		return err
	}
	defer t.leave()
	if parties < 1 {
		return t.fail("barrier", fmt.Errorf("%d parties: %w: want 1 or more", parties, ErrInvalidParameter))
	}
	c := bridge.Command{Opcode: layout.BridgeOpcodeBarrier, Address: id, Count: uint32(parties), Tag: uint64(len(t.group))}
	copy(c.Data[:], t.group)
	if err := t.post(c); err != nil {
		return t.fail("barrier", err)
	}
	wake, err := t.park(layout.BridgeReasonBarrier, bridge.Wait{Timeout: Never, Barrier: true})
	if err != nil {
		return t.fail("barrier", err)
	}
	if wake.Reason == layout.BridgeReasonRejected {
		return t.fail("barrier", fmt.Errorf("barrier %d with %d parties: %w", id, parties, ErrBarrierDisagree))
	}
	return nil
}

// Message is what Receive returns.
type Message struct {
	From ThreadID
	Sent Time
	Data []byte
}

// Send puts a message of at most layout.BridgeMaxMessage bytes in another
// thread's mailbox and returns at once. The receiver gets it just after the
// sender's present instant, in the order of (time, sender, sequence). Messages
// coordinate the programs of a run; they are not part of the simulated machine
// and cost no simulated time.
//
// A message to a rank without a thread is dropped. The next Send or Receive,
// or a Receive that already waits, returns ErrNoReceiver and names that rank;
// such a Send sent nothing.
func (t *Thread) Send(to ThreadID, data []byte) error {
	return t.send(to, data, true)
}

// SendUnchecked is Send, but leaves the report of an earlier dropped message to
// the next call.
func (t *Thread) SendUnchecked(to ThreadID, data []byte) error {
	return t.send(to, data, false)
}

func (t *Thread) send(to ThreadID, data []byte, report bool) error {
	if err := t.enter("send a message"); err != nil {
		return err
	}
	defer t.leave()
	if report {
		if err := t.refused(); err != nil {
			return t.fail("send a message", err)
		}
	}
	if len(data) > layout.BridgeMaxMessage || to.Node < 0 || to.Node >= t.Nodes() || to.Rank < 0 {
		return t.fail("send a message", fmt.Errorf("%d bytes to %v: %w: at most %d bytes, to a thread of one of %d nodes",
			len(data), to, ErrInvalidParameter, layout.BridgeMaxMessage, t.Nodes()))
	}
	total := uint64(len(data))
	commands := make([]bridge.Command, 0, 1+len(data)/32)
	for {
		c := bridge.Command{Opcode: layout.BridgeOpcodeMessage, Address: uint64(to.Node)<<32 | uint64(uint32(to.Rank)), Tag: total}
		n := copy(c.Data[:], data)
		c.Count = uint32(n)
		commands = append(commands, c)
		if data = data[n:]; len(data) == 0 {
			break
		}
	}
	if err := t.post(commands...); err != nil {
		return t.fail("send a message", err)
	}
	return nil
}

// The error of a dropped earlier message of the thread, or nil.
func (t *Thread) refused() error {
	if t.slot == nil {
		return nil
	}
	node, rank, refused := t.slot.Undelivered()
	if !refused {
		return nil
	}
	return fmt.Errorf("an earlier message to %v: %w: it left, or was never there", ThreadID{node, rank}, ErrNoReceiver)
}

// Receive takes the oldest message from the thread's mailbox and waits for one
// if it is empty; it returns false on timeout. Timeout 0 only checks the
// mailbox.
func (t *Thread) Receive(timeout Time) (Message, bool, error) {
	if err := t.enter("receive a message"); err != nil {
		return Message{}, false, err
	}
	defer t.leave()
	err := t.refused()
	var wake bridge.Wake
	if err == nil {
		wake, err = t.park(layout.BridgeReasonMessage, bridge.Wait{Timeout: timeout, Message: true})
	}
	if err == nil && wake.Reason == layout.BridgeReasonRejected {
		err = t.refused()
	}
	if err != nil {
		return Message{}, false, t.fail("receive a message", err)
	}
	if wake.Reason != layout.BridgeReasonMessage {
		return Message{}, false, nil
	}
	return Message{From: ThreadID{wake.Node, wake.Rank}, Sent: wake.Sent, Data: wake.Message}, true, nil
}

// Detached reports whether Detach was called.
func (t *Thread) Detached() bool { return t.gone.Load() }

// Busy reports whether the thread is in a call.
func (t *Thread) Busy() bool { return t.busy.Load() }

// SetGroup names the group whose barriers the thread enters.
func (t *Thread) SetGroup(name string) { t.group = name }

// OnSpend sets a function that the thread calls for each entry of its account.
// Set it before the first call.
func (t *Thread) OnSpend(f func(Spending)) { t.spending = f }

// Detach ends the thread. What it posted still reaches the card; the other
// threads continue without it. A second call does nothing.
func (t *Thread) Detach() error {
	if !t.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("host: detach thread %v '%s': %w", t.id, t.name, ErrThreadBusy)
	}
	defer t.busy.Store(false)
	if t.gone.Load() {
		return nil
	}
	t.gone.Store(true)
	if err := t.detachSlot(); err != nil {
		return t.fail("detach", err)
	}
	return nil
}
