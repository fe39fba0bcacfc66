// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hvia/layout"
)

// abortLimit bounds the wall time in which the simulator must end an aborted
// wait.
const abortLimit = 2 * time.Second

// noWait in Abort ends no wait: a slot's first wait, which the simulator makes,
// has number 1.
const noWait = 0

// Range is a range of physical host memory.
type Range struct {
	Address uint32
	Length  uint32
}

// MaxWatches is the number of ranges that one wait can watch.
const MaxWatches = layout.BridgeMaxWatches

// Processor says how a wait uses its node's processor, which all threads of the
// node share. Only timed mode models it.
type Processor uint8

// Uses of the processor.
const (
	// ProcessorFree: no use; a sleep, or a wait that blocks.
	ProcessorFree Processor = iota
	// ProcessorPolls: each poll uses it. A poll that falls into another
	// thread's processor time happens at the end of that time, even the last
	// one at the deadline. The next polls follow from there at the period.
	ProcessorPolls
	// ProcessorCharge: the timeout is a span of processor time, and the wait
	// has no event. It starts when the processor is free, in order of the
	// instants, then of the threads' ranks.
	ProcessorCharge
	// ProcessorService: like ProcessorCharge, for an interrupt service. It
	// starts at once, or after other services. An interrupted charge ends later
	// by its span.
	ProcessorService
)

// Wait describes the end of a thread's wait. With only a timeout the thread
// sleeps.
type Wait struct {
	Timeout   Time    // simulated time in timed mode, wall time in free mode; Never for none
	Simulated bool    // Timeout is simulated time in free mode too; ignored in a guest
	Period    Time    // the thread polls at the start and every Period after it
	Watches   []Range // a write by the card, or a Publish on the same node
	Interrupt bool
	Message   bool
	Reply     bool
	Barrier   bool
	Processor Processor

	// Poll, if set, is called in free mode after the wait was published. It
	// finds data that the card wrote before it saw the wait.
	Poll func() bool
}

// event reports whether the wait is for an event that only the simulator sees.
func (w *Wait) event() bool { return w.Interrupt || w.Message || w.Reply || w.Barrier }

// Wake describes the end of a wait.
type Wake struct {
	Reason  layout.BridgeReason
	Time    Time
	Value   uint32 // reason Reply: the dword read
	Node    int    // reason Message: its sender
	Rank    int
	Sent    Time
	Message []byte
}

// Slot is one thread's end of the bridge. It serves one goroutine at a time.
type Slot struct {
	conn  *Conn
	pages []byte
	page  layout.BridgeSlot
	ring  ring
	clock Time
	busy  bool

	state        *atomic.Uint32
	waitSequence *atomic.Uint32
	wakeSequence *atomic.Uint32
	hostSleeping *atomic.Uint32
	ringSleeping *atomic.Uint32
	abort        *atomic.Uint32
	refusals     *atomic.Uint32
	refused      uint32        // last counter value that the caller has seen
	aborted      chan struct{} // receives when a context's request to end the wait was sent
	detached     bool
	retiring     sync.Mutex // against late kicks of contexts
	retired      bool       // the pages are unmapped; guarded by retiring
	begun        bool
	lost         error // a wait did not end: the slot is unusable
}

// Attach claims the slot of (node, rank). A guest may claim only its ranks on
// its node. The thread's time starts with Begin.
func (c *Conn) Attach(ctx context.Context, node, rank int, name string) (*Slot, error) {
	if node < 0 || rank < 0 {
		return nil, fmt.Errorf("bridge: attach '%s' as node %d rank %d: both count from 0", name, node, rank)
	}
	r := newRequest(layout.BridgeControlAttach)
	r.SetNode(uint32(node))
	r.SetRank(uint32(rank))
	if len(name) >= len(r.Name()) {
		return nil, fmt.Errorf("bridge: attach '%s': a name has at most %d bytes", name, len(r.Name())-1)
	}
	copy(r.Name(), name)
	reply, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	defer reply.close()
	c.gate.RLock()
	defer c.gate.RUnlock()
	if c.gone {
		return nil, c.check()
	}
	if len(reply.fds) != 1 {
		return nil, fmt.Errorf("bridge: attach '%s': %d descriptors came, want 1: the process has too many open files", name, len(reply.fds))
	}
	pages, err := mapShared(reply.fds[0], layout.BridgeSlotStride)
	if err != nil {
		return nil, fmt.Errorf("bridge: attach '%s': map %d bytes of its slot: %w", name, layout.BridgeSlotStride, err)
	}
	s := newSlot(pages)
	s.conn, s.pages = c, pages
	c.mu.Lock()
	c.slots[s] = struct{}{}
	c.mu.Unlock()
	return s, nil
}

func newSlot(b []byte) *Slot {
	page := layout.BridgeSlot(b[:layout.BridgeSlotSize])
	return &Slot{
		page:         page,
		ring:         newRing(word(page, layout.BridgeSlotCommandTailOffset), word(page, layout.BridgeSlotCommandHeadOffset), b[layout.BridgeSlotSize:]),
		state:        word(page, layout.BridgeSlotStateOffset),
		waitSequence: word(page, layout.BridgeSlotWaitSequenceOffset),
		wakeSequence: word(page, layout.BridgeSlotWakeSequenceOffset),
		hostSleeping: word(page, layout.BridgeSlotHostSleepingOffset),
		ringSleeping: word(page, layout.BridgeSlotRingSleepingOffset),
		abort:        word(page, layout.BridgeSlotAbortOffset),
		refusals:     word(page, layout.BridgeSlotRejectionsOffset),
		aborted:      make(chan struct{}, 1),
	}
}

// Clock is the thread's time: in timed mode the time of its last wake, in free
// mode the fabric's time.
func (s *Slot) Clock() Time {
	if s.conn.timed || s.conn.mark.forked() {
		return s.clock
	}
	s.conn.gate.RLock()
	defer s.conn.gate.RUnlock()
	if s.conn.gone {
		return s.clock
	}
	return Time(s.conn.header.Now())
}

// ProcessorBusy reports whether another thread holds the node's processor at
// the thread's present time. Then a poll of memory would have to wait.
func (s *Slot) ProcessorBusy() bool { return s.busy }

// Undelivered returns the receiver of a message of this thread that the
// simulator dropped because no thread has its rank. Each is returned once; of
// several only the last.
func (s *Slot) Undelivered() (node, rank int, found bool) {
	if s.conn.mark.forked() {
		return 0, 0, false
	}
	s.conn.gate.RLock()
	defer s.conn.gate.RUnlock()
	if s.usable() != nil {
		return 0, 0, false
	}
	n := s.refusals.Load()
	if n == s.refused {
		return 0, 0, false
	}
	s.refused = n
	return int(s.page.RejectedNode()), int(s.page.RejectedRank()), true
}

func (s *Slot) usable() error {
	if err := s.conn.check(); err != nil {
		return err
	}
	if s.detached {
		return &StopError{Kind: ErrClosed, Time: s.clock, Text: "this thread has detached from " + s.conn.path}
	}
	return s.lost
}

// retire unmaps the slot's pages.
func (s *Slot) retire() {
	s.retiring.Lock()
	defer s.retiring.Unlock()
	if !s.retired {
		s.retired = true
		retire(s.pages)
	}
}

// Begin waits until the thread's time starts: at 0 when all declared threads
// have attached, or at once for a later thread.
func (s *Slot) Begin(ctx context.Context) error {
	if err := s.conn.Forked(); err != nil {
		return err
	}
	if s.begun {
		return nil
	}
	s.conn.gate.RLock()
	defer s.conn.gate.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	// The simulator parked the slot when it was claimed, with wake count 0.
	_, err := s.sleep(ctx, 0, Wait{Timeout: Never})
	// An aborted Begin leaves the thread running at the time of its wake.
	s.begun = err == nil || errors.Is(err, ErrAborted)
	return err
}

// Post appends commands at the thread's clock. In timed mode they reach the
// card when the thread waits; in free mode at once.
func (s *Slot) Post(ctx context.Context, commands ...Command) error {
	if err := s.conn.Forked(); err != nil {
		return err
	}
	s.conn.gate.RLock()
	defer s.conn.gate.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	for i := range commands {
		commands[i].Time = s.clock
		for !s.ring.push(&commands[i]) {
			if err := s.waitForRing(ctx); err != nil {
				// The ring may contain a part of a message.
				s.lost = err
				return err
			}
		}
	}
	if !s.conn.timed {
		s.conn.wakeSimulator()
	}
	return nil
}

// waitForRing sleeps until the simulator has taken commands. It does so at
// every scan. In timed mode the commands keep their time.
func (s *Slot) waitForRing(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.kickSafely(s.ring.head) })
	defer stop()
	for {
		head := s.ring.head.Load()
		if s.ring.tail.Load()-head < ringEntries {
			return nil
		}
		s.ringSleeping.Store(1)
		s.conn.wakeSimulator()
		if s.ring.head.Load() == head {
			futexWait(s.ring.head, head, backstop)
		}
		s.ringSleeping.Store(0)
		if err := s.usable(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("bridge: post a command: %w: %w", ErrAborted, context.Cause(ctx))
		}
	}
}

// kickSafely wakes a sleeper from a goroutine that does not hold the gate.
func (s *Slot) kickSafely(w *atomic.Uint32) {
	s.conn.gate.RLock()
	defer s.conn.gate.RUnlock()
	s.retiring.Lock()
	defer s.retiring.Unlock()
	if !s.retired {
		futexWake(w)
	}
}

// Park publishes a wait and sleeps until it ends.
func (s *Slot) Park(ctx context.Context, w Wait) (Wake, error) {
	if err := s.conn.Forked(); err != nil {
		return Wake{}, err
	}
	s.conn.gate.RLock()
	defer s.conn.gate.RUnlock()
	if err := s.usable(); err != nil {
		return Wake{}, err
	}
	if len(w.Watches) > MaxWatches {
		return Wake{}, fmt.Errorf("bridge: wait on %d ranges: at most %d can be watched", len(w.Watches), MaxWatches)
	}
	before := s.wakeSequence.Load()
	s.describe(w)
	handOver.Add(1)
	s.state.Store(uint32(layout.BridgeStateWaiting))
	s.conn.wakeSimulator()
	if !s.conn.timed && w.Poll != nil && w.Poll() && s.cancel() {
		return Wake{Reason: layout.BridgeReasonWritten, Time: s.clock}, nil
	}
	return s.sleep(ctx, before, w)
}

func (s *Slot) describe(w Wait) {
	deadline := Never
	switch {
	case s.simulated(&w):
		deadline = w.Timeout
	case s.conn.timed && w.Timeout < Never-s.clock:
		deadline = s.clock + w.Timeout
	}
	var flags uint32
	for _, f := range []struct {
		on   bool
		mask uint32
	}{
		{w.Interrupt, layout.BridgeSlotWaitFlagsInterruptMask}, {w.Message, layout.BridgeSlotWaitFlagsMessageMask},
		{w.Reply, layout.BridgeSlotWaitFlagsReplyMask}, {w.Barrier, layout.BridgeSlotWaitFlagsBarrierMask},
		{w.Processor == ProcessorPolls, layout.BridgeSlotWaitFlagsPollsMask},
		{w.Processor == ProcessorCharge || w.Processor == ProcessorService, layout.BridgeSlotWaitFlagsChargeMask},
		{w.Processor == ProcessorService, layout.BridgeSlotWaitFlagsServiceMask},
	} {
		if f.on {
			flags |= f.mask
		}
	}
	s.page.SetWaitStart(uint64(s.clock))
	s.page.SetWaitDeadline(uint64(deadline))
	s.page.SetWaitPeriod(uint64(max(w.Period, 1)))
	s.page.SetWaitFlags(flags)
	s.page.SetWaitWatches(uint32(len(w.Watches)))
	for i, r := range w.Watches {
		at := i * layout.BridgeWatchSize
		watch := layout.BridgeWatch(s.page.Watches()[at : at+layout.BridgeWatchSize])
		watch.SetAddress(uint64(r.Address))
		watch.SetLength(uint64(r.Length))
	}
	if s.waitSequence.Add(1) == noWait {
		s.waitSequence.Add(1)
	}
}

// simulated reports whether the simulator ends a wait of free mode at its
// timeout.
func (s *Slot) simulated(w *Wait) bool { return !s.conn.timed && w.Simulated && s.conn.guest == nil }

// cancel ends a wait from this side in free mode. It returns false when the
// simulator was faster.
func (s *Slot) cancel() bool {
	return s.state.CompareAndSwap(uint32(layout.BridgeStateWaiting), uint32(layout.BridgeStateRunning))
}

// sleep waits for the end of the last published wait. The gate is held.
func (s *Slot) sleep(ctx context.Context, before uint32, w Wait) (Wake, error) {
	// The request has the wait's number, so that a late one does not end the
	// next wait.
	number := s.waitSequence.Load()
	end := func() {
		s.abort.Store(number)
		s.conn.wakeSimulator()
	}
	stop := context.AfterFunc(ctx, func() {
		end()
		s.aborted <- struct{}{}
	})
	defer func() {
		if !stop() {
			<-s.aborted // the caller may unmap the pages when this returns
		}
	}()
	var deadline, abortDeadline time.Time
	expired := false
	if !s.conn.timed && w.Timeout != Never && !s.simulated(&w) {
		deadline = time.Now().Add(w.Timeout.Wall())
	}
	for s.wakeSequence.Load() == before {
		nap := backstop
		if !deadline.IsZero() {
			nap = min(nap, time.Until(deadline))
		}
		if nap > 0 {
			s.hostSleeping.Store(1)
			if s.wakeSequence.Load() == before && s.conn.check() == nil {
				futexWait(s.wakeSequence, before, nap)
			}
			s.hostSleeping.Store(0)
		}
		if err := s.conn.check(); err != nil {
			return Wake{}, err
		}
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			switch {
			case w.event():
				// The event may have happened already, and only the simulator
				// knows. It checks before it ends the wait.
				end()
				deadline, expired = time.Time{}, true
			case s.cancel():
				handOver.Add(1)
				return Wake{Reason: layout.BridgeReasonDeadline, Time: s.clock}, nil
			}
		}
		if ctx.Err() == nil {
			continue
		}
		// AfterFunc may not have run yet, so send the request here too.
		end()
		if abortDeadline.IsZero() {
			abortDeadline = time.Now().Add(abortLimit)
		} else if time.Now().After(abortDeadline) {
			s.lost = fmt.Errorf("bridge: %w: %w; %w within %v of it", ErrAborted, context.Cause(ctx), ErrUnresponsive, abortLimit)
			return Wake{}, s.lost
		}
	}
	handOver.Add(1)
	return s.woken(ctx, expired)
}

// woken reads the result of the wait. expired: this side ended it at its
// deadline.
func (s *Slot) woken(ctx context.Context, expired bool) (Wake, error) {
	// The end of the run also wakes every thread.
	if err := s.conn.check(); err != nil {
		return Wake{}, err
	}
	if s.conn.timed {
		s.clock = Time(s.page.WakeTime())
		s.busy = s.page.WakeBusy() != 0
	}
	wake := Wake{Reason: layout.BridgeReason(s.page.WakeReason()), Time: Time(s.page.WakeTime())}
	switch wake.Reason {
	case layout.BridgeReasonAborted:
		if expired && ctx.Err() == nil {
			wake.Reason = layout.BridgeReasonDeadline
			return wake, nil
		}
		return wake, fmt.Errorf("bridge: wait at %v: %w: %w", s.clock, ErrAborted, context.Cause(ctx))
	case layout.BridgeReasonReply:
		wake.Value = s.page.ReplyValue()
	case layout.BridgeReasonMessage:
		wake.Node, wake.Rank, wake.Sent = int(s.page.MessageNode()), int(s.page.MessageRank()), Time(s.page.MessageTime())
		wake.Message = append([]byte(nil), s.page.Inbox()[:s.page.MessageBytes()]...)
	}
	return wake, nil
}

// Detach ends the thread. Commands that it posted still reach the card.
func (s *Slot) Detach() error {
	if err := s.conn.Forked(); err != nil {
		return err
	}
	s.conn.gate.RLock()
	defer s.conn.gate.RUnlock()
	if s.conn.gone || s.detached {
		return nil
	}
	s.detached = true
	s.conn.mu.Lock()
	delete(s.conn.slots, s)
	s.conn.mu.Unlock()
	// Check before the other threads continue: a later error of theirs does not
	// belong to this one, and wall time would decide whether it is seen here.
	err := s.conn.check()
	handOver.Add(1)
	s.state.Store(uint32(layout.BridgeStateDetached))
	s.conn.wakeSimulator()
	s.retire()
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}
