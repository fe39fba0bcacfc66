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

// Errors of threads. What ends a run is in the errors of package bridge
// (bridge.ErrDeadlock and the others); they come through unchanged.
var (
	ErrThreadBusy      = errors.New("thread is used from two goroutines at once")
	ErrThreadDetached  = errors.New("thread is detached")
	ErrBarrierDisagree = errors.New("barrier's parties disagree about their number")
	ErrNoReceiver      = errors.New("no thread has the receiver's rank")
)

// ThreadID names a thread: its node, and its rank among the node's threads.
// What threads do at the same instant takes effect in the order of their ids.
type ThreadID struct {
	Node int
	Rank int
}

func (id ThreadID) String() string { return fmt.Sprintf("%d/%d", id.Node, id.Rank) }

// Thread is one thread of a simulated host: everything that a program does to
// its card, its clock and its fellow threads goes through one. It is not a
// goroutine, but it serves one goroutine at a time; a call that finds another
// one under way returns ErrThreadBusy and changes nothing.
//
// In timed mode a thread has a virtual clock. Code between two calls takes no
// simulated time; what it should cost is charged with Charge. A node has one
// processor: what its threads charge passes one after the other, and a polling
// loop cannot look while another thread computes (see Charge and Poll). While any
// thread runs, all cards stand still, so host memory is stable between calls,
// and a thread must wait for nothing outside this package: a Go channel, a
// lock held across calls or a file stops time for everyone, and after 10
// seconds the run is ended and the thread named. Threads meet through Poll
// and Publish, Barrier, Send and Receive. Threads of one node never run at the
// same moment: of those that go on at one instant each begins when the one before
// it, in the order of their ranks, waits again.
//
// In free mode the same calls work in wall time: Charge costs nothing, Sleep
// and timeouts are wall time, and nothing repeats.
//
// The context given to Attach, or later to SetContext, ends a call that waits;
// in timed mode that marks the run as not reproducible.
type Thread struct {
	slot *bridge.Slot // nil with a port
	port Port
	conn *bridge.Conn
	id   ThreadID
	name string
	// group names the barriers that the thread enters; without a name they are those
	// of its process in a fabric of many processes, else of all.
	group string
	ctx   context.Context
	busy  atomic.Bool
	gone  atomic.Bool
	read  uint64

	spent    [Layers]atomic.Int64 // in ps; others may read it
	spending func(Spending)       // told of each entry, or nil
}

// Attach makes a thread of the fabric. A timed run begins when all threads
// that were declared at its start have attached; so the first call that needs
// time waits for that, and Attach does not. The name must be the declared one.
func Attach(ctx context.Context, conn *bridge.Conn, id ThreadID, name string) (*Thread, error) {
	slot, err := conn.Attach(ctx, id.Node, id.Rank, name)
	if err != nil {
		return nil, fmt.Errorf("host: attach thread %v '%s': %w", id, name, err)
	}
	return &Thread{slot: slot, conn: conn, id: id, name: name, ctx: ctx}, nil
}

// enter claims the thread for one call and sees that its time has begun.
func (t *Thread) enter(what string) error {
	if !t.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("host: %s on thread %v '%s': %w: give each goroutine a thread of its own", what, t.id, t.name, ErrThreadBusy)
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

// Conn returns the connection, for what belongs to the process and not to the
// thread: host memory, the state of the run. It is nil with a port.
func (t *Thread) Conn() *bridge.Conn { return t.conn }

// Context returns the context that ends the thread's waits.
func (t *Thread) Context() context.Context { return t.ctx }

// SetContext replaces that context and returns the old one.
func (t *Thread) SetContext(ctx context.Context) context.Context {
	old := t.ctx
	t.ctx = ctx
	return old
}

// Forked returns bridge.ErrForked in a process that was forked from the one that
// attached the thread, and nil elsewhere. Every call of a thread returns it there. It makes no system call.
func (t *Thread) Forked() error {
	if t.conn == nil {
		return nil
	}
	return t.conn.Forked()
}

// Begin waits until the thread's time begins. Every other call does so too;
// a call of its own is for programs that want to know when.
func (t *Thread) Begin() error {
	if err := t.enter("begin"); err != nil {
		return err
	}
	t.leave()
	return nil
}

// Now is the thread's clock in timed mode, and the time that the fabric has
// reached in free mode.
func (t *Thread) Now() Time { return t.clock() }

// Charge lets a span of processor time pass: the call returns when the fabric
// has reached the thread's new clock. The span begins when the processor of the
// thread's node is free. Threads of a node get it in the order in which they
// asked, those that asked at the same instant in the order of their ranks, and
// keep it to the end: there are no time slices. Only an interrupt service comes
// in between (ChargeInterrupt). A span of 0 needs no processor. In free mode
// Charge does nothing.
func (t *Thread) Charge(span Time) error {
	return t.charge("charge", span, bridge.ProcessorCharge)
}

// ChargeInterrupt is Charge for an interrupt service: the span begins at once, or
// when the services end that came before. A charge that it interrupts, and those
// that wait for the processor, end later by the span.
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

// Sleep lets a span pass in which the thread does nothing and needs no processor:
// simulated time in timed mode, wall time in free mode.
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
	// write can make the condition true: by the card, or by a Publish of a
	// thread of the same node.
	Ranges []bridge.Range
	// Interrupt makes the node's interrupt a reason to look as well.
	Interrupt bool
	// Period is the time from one look to the next. The thread looks when Poll
	// is called and every Period after it, and once more at the deadline.
	Period Time
	// Timeout ends the loop: simulated time in timed mode, wall time in free
	// mode. Never means none, 0 is a single look.
	Timeout Time
	// Simulated makes it simulated time in free mode too, for a wait that only the
	// card can end. A process that joined waits in wall time all the same.
	Simulated bool
	// Blocked says that the thread sleeps until something happens instead of looking
	// in a loop: it needs no processor, Period means nothing, and the time is not
	// in the thread's account. What waking it takes is the caller's to spend.
	Blocked bool
}

// Poll looks until cond returns true or the timeout is over, and says which.
// It stands for a loop that looks at memory every Period, without running it:
// in timed mode the thread's clock is afterwards at the first look at which
// the condition held, a write at the deadline's instant included. The
// condition may depend on nothing but memory in Ranges.
//
// Looks take no time of the processor, but need it: a look that falls into what
// another thread of the node has charged comes at the end of that, and the loop
// goes on from there, Period after Period. So does the last look, after which the
// call returns later than the timeout says. Where one charge follows on another
// the look comes in between, and a charge that begins at the look's own instant
// does not hold it up.
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
		// The first look waits as well.
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

// Countdown starts a timeout and returns how much of it is left, at each call:
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

// WaitInterrupt waits until the interrupt of the thread's node is asserted;
// false when the timeout came first. It does not acknowledge anything: that is
// a register access.
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

// Write posts dwords to the card at a physical address, as one burst, and
// returns at once. At most layout.BridgeMaxWriteDwords fit.
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

// Read reads a dword of the card at a physical address. The thread waits for
// the answer; everything that it wrote before has reached the card by then.
func (t *Thread) Read(address uint32) (uint32, error) {
	if err := t.enter("read from the card"); err != nil {
		return 0, err
	}
	defer t.leave()
	if address%4 != 0 {
		return 0, t.fail("read from the card", fmt.Errorf("address %#x: %w: want a multiple of 4", address, ErrInvalidParameter))
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
// most layout.BridgeMaxBusReset ps of simulated time, and returns at once. The
// card touches host memory no more from this instant on, and forgets everything,
// its place on the bus included; when RST# is over, the host finds and places
// it as at boot. Until then reads of it give all ones and writes to it are lost,
// and so do those of other threads that are under way. Host memory and the
// frame-use table stay as they are. ErrInvalidParameter if the span is out of range.
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

// HoldWire holds the wire towards the thread's own node from the thread's present
// time on, or lets it go, and returns at once. While it is held, the frames of the
// other node, or of the switch, leave their port as always but do not arrive: they are
// kept in their order, at most layout.BridgeMaxHeldFrames; one more ends the run with
// bridge.ErrDevice. At the release they go on as if they
// were sent then: back to back at the wire's rate, with preamble, FCS and gap, and
// what is sent later follows behind them. Frames that were handed to the wire or
// released before a hold are not held up by it. It lets the receive side be measured alone.
// The hold belongs to the wire, not to the thread: any thread of the node may end it,
// and saying either twice changes nothing. Captures and the digest have a frame
// at the time at which it was sent; the trace event WireEnd is its arrival.
// ErrInvalidParameter if the fabric has no second node and so no wire.
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

// park waits for one reason and takes no other. In free mode a wake meant for
// an earlier wait may come late.
func (t *Thread) park(reason layout.BridgeReason, w bridge.Wait) (bridge.Wake, error) {
	left := t.Countdown(w.Timeout)
	for {
		w.Timeout = max(left(), 0)
		wake, err := t.parkSlot(w)
		if err != nil {
			return wake, err
		}
		switch {
		case wake.Reason == reason, wake.Reason == layout.BridgeReasonDeadline, wake.Reason == layout.BridgeReasonRefused:
			return wake, nil
		case t.timed():
			return wake, fmt.Errorf("woken by %v while waiting for %v: %w", wake.Reason, reason, bridge.ErrProtocol)
		}
	}
}

// Publish says that the thread has stored to these ranges of its node's
// memory, so that other threads of the node that poll them look.
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

// Barrier waits until the given number of threads have arrived at the barrier of
// that number. All leave at the same instant, just after the last arrival. The
// threads may be of any node. In a fabric of many processes a barrier belongs to a
// group (JoinConfig.Group): threads of other groups cannot enter it.
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
	if wake.Reason == layout.BridgeReasonRefused {
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

// Send puts a message in another thread's mailbox and returns at once. It is
// there for the receiver just after the sender's present instant, in the
// order of (time, sender, sequence). At most layout.BridgeMaxMessage bytes.
// It is a way for programs to talk about the run, not part of the simulated
// machine: it costs no simulated time.
//
// A message for a rank that no thread has is dropped. The next Send, or a Receive
// that waits or begins, returns ErrNoReceiver and names that rank; the Send has
// sent nothing then.
func (t *Thread) Send(to ThreadID, data []byte) error {
	return t.send(to, data, true)
}

// SendUnchecked is Send that leaves it to the next call to report an earlier
// message that was dropped.
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

// refused says whether a message of the thread was dropped.
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
// if there is none; false when the timeout came first. Timeout 0 only checks the
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
	if err == nil && wake.Reason == layout.BridgeReasonRefused {
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

// OnSpend has f called for each entry of the thread's account, on the thread
// itself. It must be set before the first call.
func (t *Thread) OnSpend(f func(Spending)) { t.spending = f }

// Detach ends the thread. What it posted still reaches the card; the others
// go on without it. A second call does nothing.
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
