// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// CQ is a completion queue: VIP_CQ_HANDLE. Each descriptor that completes on a
// tied work queue makes one entry, which names the VI and the queue; reap the
// descriptor itself with SendDone or RecvDone. The card writes the entry after
// the descriptor's status, so SendDone and RecvDone find it complete.
//
// Taking an entry costs the host one PollPeriod; reaping the descriptor costs
// extra.
type CQ struct {
	nic      *NIC
	cq       *driver.CQ
	work     driver.WorkQueue
	arm      driver.Notifier
	notifier *notifier
	Blocking atomic.Bool // Wait sleeps until the card interrupts, as with VIAttributes.Blocking
	notDone  error       // made once: polling loops return it often

	mu        sync.Mutex
	ring      ring
	pending   []Completion // older than the entries in the ring: pulled from it, or added by the library
	ties      []*VI        // VIs with queues tied to it, in order of creation
	resizing  bool
	destroyed bool
	changes   uint32 // changes of ring, pending and destroyed, after which a waiter polls again
}

// Completion is an entry of a completion queue: it names the work queue on
// which a descriptor completed.
type Completion struct {
	VI      *VI
	Receive bool // of the receive queue
}

// Done reaps the descriptor: VI.SendDone or VI.RecvDone.
func (c Completion) Done(t *host.Thread) (*Descriptor, error) {
	if c.Receive {
		return c.VI.RecvDone(t)
	}
	return c.VI.SendDone(t)
}

type ring struct {
	bytes   []byte
	base    uint32 // physical address
	entries uint32
	taken   uint32 // so far, modulo 2^32
}

func newRing(b *mem.Buffer) ring {
	return ring{bytes: b.Bytes(), base: b.Physical(nil, 0, 1)[0].Address, entries: uint32((b.Len() - layout.CompletionQueueHeaderSize) / layout.CompletionEntrySize)}
}

func (r *ring) offset() int {
	return layout.CompletionQueueHeaderSize + int(r.taken%r.entries)*layout.CompletionEntrySize + layout.CompletionEntryWordOffset
}

// word returns the word of the oldest entry, if the card has written it.
func (r *ring) word() (w uint32, ok bool) {
	w = mem.LoadUint32(r.bytes[r.offset():])
	lap := w&layout.CompletionEntryWordLapMask != 0
	return w, w&layout.CompletionEntryWordValidMask != 0 && lap == (r.taken/r.entries%2 == 0)
}

// watch returns the physical range of that word.
func (r *ring) watch() mem.Range {
	return mem.Range{Address: r.base + uint32(r.offset()), Length: 4}
}

// advance returns the entry to the card.
func (r *ring) advance() {
	r.taken++
	mem.StoreUint32(r.bytes[layout.CompletionQueueHeaderConsumedOffset:], r.taken)
}

func (c *CQ) driver() *driver.CQ {
	if c == nil {
		return nil
	}
	return c.cq
}

func (c *CQ) fail(op string, s Status, detail error) error {
	return fail(fmt.Sprintf("%s %d", op, c.cq.Number), s, detail)
}

var (
	errCQDestroyed = errors.New("it was destroyed")
	errBusyCQ      = errors.New("it was destroyed, or another thread is resizing it")
)

// CreateCQ makes a completion queue of at least the given number of entries, at
// most NICAttributes.MaxCQEntries. An entry that finds the queue full is lost:
// provide capacity for every descriptor that may be posted on the tied queues.
func (n *NIC) CreateCQ(t *host.Thread, entries int) (*CQ, error) {
	if n == nil {
		return nil, missing("create completion queue", "NIC handle")
	}
	cq, b, err := n.host.CreateCQ(t, n.info.ID, entries)
	if err != nil {
		return nil, translate(fmt.Sprintf("create completion queue of %d entries", entries), nil, err)
	}
	c := &CQ{nic: n, cq: cq, work: cq.WorkQueue(), arm: cq.Notifier(), ring: newRing(b)}
	c.notifier = newNotifier(n, c.arm)
	c.notDone = c.fail(opCQDone, ErrNotDone, nil)
	n.mu.Lock()
	n.cqs = append(n.cqs, c)
	n.mu.Unlock()
	return c, nil
}

// Entries returns the capacity.
func (c *CQ) Entries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.ring.entries)
}

// Destroy removes the completion queue and cancels the registrations of Notify;
// ErrResource while a VI is tied to it. A Wait of another thread ends.
func (c *CQ) Destroy(t *host.Thread) error {
	const op = "destroy completion queue"
	if c == nil {
		return missing(op, "completion queue")
	}
	c.mu.Lock()
	ties, gone := len(c.ties), c.destroyed || c.resizing
	if ties == 0 && !gone {
		c.close()
	}
	c.mu.Unlock()
	switch {
	case gone:
		return c.fail(op, ErrInvalidParameter, errBusyCQ)
	case ties > 0:
		return c.fail(op, ErrResource, fmt.Errorf("%d VIs are tied to it: destroy them first", ties))
	}
	c.notifier.cancel()
	c.nic.mu.Lock()
	c.nic.cqs = slices.DeleteFunc(c.nic.cqs, func(o *CQ) bool { return o == c })
	c.nic.mu.Unlock()
	if err := t.Publish(c.arm.Range()); err != nil {
		return translate(op, nil, err)
	}
	return translate(fmt.Sprintf("%s %d", op, c.cq.Number), nil, c.cq.Destroy(t))
}

// close must precede the free of the ring. The mutex is held.
func (c *CQ) close() {
	c.destroyed, c.pending, c.ring = true, nil, ring{}
	c.changes++
}

// Resize gives the completion queue capacity for at least the given number of
// entries. It loses none, also while entries arrive.
func (c *CQ) Resize(t *host.Thread, entries int) error {
	if c == nil {
		return missing("resize completion queue", "completion queue")
	}
	op := fmt.Sprintf("resize completion queue %d to %d entries", c.cq.Number, entries)
	c.mu.Lock()
	refuse := c.destroyed || c.resizing
	c.resizing = c.resizing || !refuse
	c.mu.Unlock()
	if refuse {
		return fail(op, ErrInvalidParameter, errBusyCQ)
	}
	b, written, err := c.cq.Resize(t, entries)
	c.mu.Lock()
	c.resizing = false
	if err != nil || c.destroyed {
		c.mu.Unlock()
		return translate(op, nil, err)
	}
	// Entries that the card wrote to the old ring come first.
	for uint16(c.ring.taken) != written && c.pull() {
	}
	lost := written - uint16(c.ring.taken)
	c.ring = newRing(b)
	c.changes++
	c.mu.Unlock()
	if lost != 0 {
		return fmt.Errorf("vipl: %s: the card says that it wrote %d entries more than are in memory: %w", op, lost, driver.ErrCommand)
	}
	return translate(op, nil, t.Publish(c.arm.Range()))
}

// pull moves an entry from the ring behind the pending ones; false if there is
// none. The mutex is held.
func (c *CQ) pull() bool {
	if c.destroyed {
		return false
	}
	w, ok := c.ring.word()
	if !ok {
		return false
	}
	c.ring.advance()
	index := int(w & layout.CompletionEntryWordVIMask >> layout.CompletionEntryWordVILsb)
	for _, v := range c.ties {
		if v.vi.Index == index {
			c.pending = append(c.pending, Completion{v, w&layout.CompletionEntryWordReceiveMask != 0})
			break
		}
	}
	return true
}

// take removes and returns the oldest entry. The mutex is held.
func (c *CQ) take() (e Completion, ok bool) {
	for len(c.pending) == 0 {
		if !c.pull() {
			return e, false
		}
	}
	e = c.pending[0]
	c.pending = c.pending[1:]
	return e, true
}

// add appends completions that the library made to those of the card, and
// returns the range to publish. The mutex of the VI is held.
func (c *CQ) add(v *VI, receive bool, n int) mem.Range {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pull() {
	}
	for range n {
		c.pending = append(c.pending, Completion{v, receive})
	}
	c.changes++
	return c.arm.Range()
}

func (v *VI) tie() {
	for _, c := range v.tied() {
		c.mu.Lock()
		// A VI that had its index before is gone, but its destroyer may not
		// have untied it yet.
		for _, old := range slices.Clone(c.ties) {
			if old.vi.Index == v.vi.Index {
				c.remove(old)
			}
		}
		c.ties = append(c.ties, v)
		c.mu.Unlock()
	}
}

// untie removes a destroyed VI and its entries from its completion queues.
func (v *VI) untie() {
	for _, c := range v.tied() {
		c.mu.Lock()
		c.remove(v)
		c.mu.Unlock()
	}
}

func (v *VI) tied() []*CQ {
	switch s, r := v.send.cq, v.receive.cq; {
	case s == r || r == nil:
		return slices.DeleteFunc([]*CQ{s}, func(c *CQ) bool { return c == nil })
	case s == nil:
		return []*CQ{r}
	default:
		return []*CQ{s, r}
	}
}

// remove drops a VI and its entries; the card makes no more. The mutex is held.
func (c *CQ) remove(v *VI) {
	if !slices.Contains(c.ties, v) {
		return
	}
	for c.pull() {
	}
	c.ties = slices.DeleteFunc(c.ties, func(o *VI) bool { return o == v })
	c.pending = slices.DeleteFunc(c.pending, func(e Completion) bool { return e.VI == v })
}

// look returns the oldest entry. If there is none, it first completes the
// descriptors of broken VIs that the card never will, and then looks again.
func (c *CQ) look(t *host.Thread, op string) (e Completion, ok bool, err error) {
	if e, ok, err = c.tryTake(op); ok || err != nil {
		return e, ok, err
	}
	c.mu.Lock()
	ties := slices.Clone(c.ties)
	c.mu.Unlock()
	settled := false
	for _, v := range ties {
		if v.unsettled() {
			if err := v.settle(t); err != nil {
				return e, false, err
			}
			settled = true
		}
	}
	if !settled {
		return e, false, nil
	}
	return c.tryTake(op)
}

func (c *CQ) tryTake(op string) (Completion, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.destroyed {
		return Completion{}, false, c.fail(op, ErrInvalidParameter, errCQDestroyed)
	}
	e, ok := c.take()
	return e, ok, nil
}

func (c *CQ) charge(t *host.Thread, op string, e Completion) (Completion, error) {
	return e, translate(op, nil, t.Spend(host.LayerLibrary, c.nic.costs.PollPeriod()))
}

const opCQDone = "done on completion queue"

// Done takes the oldest entry; ErrNotDone if there is none.
func (c *CQ) Done(t *host.Thread) (Completion, error) {
	const op = opCQDone
	if c == nil {
		return Completion{}, missing(op, "completion queue")
	}
	if err := c.nic.deliver(t); err != nil {
		return Completion{}, err
	}
	e, ok, err := c.look(t, op)
	if err == nil && !ok {
		again, failed := c.work.Reap(t)
		if failed != nil {
			return Completion{}, translate(op, nil, failed)
		}
		if again {
			e, ok, err = c.look(t, op)
		}
	}
	switch {
	case err != nil:
		return Completion{}, err
	case !ok:
		if err := t.Spend(host.LayerPoll, c.nic.costs.PollPeriod()); err != nil {
			return Completion{}, translate(op, nil, err)
		}
		return Completion{}, c.notDone
	}
	return c.charge(t, op, e)
}

// Wait is Done that waits; ErrTimeout when the timeout comes first.
// Asynchronous errors are delivered meanwhile.
func (c *CQ) Wait(t *host.Thread, timeout host.Time) (Completion, error) {
	const op = "wait on completion queue"
	if c == nil {
		return Completion{}, missing(op, "completion queue")
	}
	wait := c.work.Wait(c.Blocking.Load())
	left := t.Countdown(timeout)
	for looked := false; ; looked = true {
		if err := c.nic.deliver(t); err != nil {
			return Completion{}, err
		}
		wait.Polls()
		since := c.state()
		e, ok, err := c.look(t, op)
		if err != nil {
			return Completion{}, err
		}
		if ok {
			return c.charge(t, op, e)
		}
		if (looked || wait.Sleeps()) && left() <= 0 {
			return Completion{}, c.fail(op, ErrTimeout, fmt.Errorf("no entry came within %v", timeout))
		}
		err = wait.Block(t, left, func(timeout host.Time, blocked bool, woken func() bool) (bool, error) {
			return c.await(t, timeout, since, blocked, woken)
		})
		if err != nil {
			return Completion{}, translate(op, nil, err)
		}
	}
}

// cqState identifies a version of the queue. A waiter polls the queue again
// when it changes.
type cqState struct{ changes, count uint32 }

func (c *CQ) state() cqState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cqState{c.changes, c.arm.Count()}
}

// await waits for an entry or a change of state, and says whether that took
// time. If notified is not nil, an entry wakes the thread only through its
// interrupt, not through its write to the ring.
func (c *CQ) await(t *host.Thread, timeout host.Time, since cqState, blocked bool, notified func() bool) (bool, error) {
	c.mu.Lock()
	if c.destroyed || c.changes != since.changes {
		c.mu.Unlock()
		return false, nil
	}
	ring := c.ring // a copy: other threads may take its entries
	c.mu.Unlock()
	var room [4]mem.Range
	ranges := c.nic.watch(append(room[:0], c.arm.Range()))
	if notified == nil {
		ranges = append(ranges, ring.watch())
	}
	look := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		// In this order: the memory of a replaced ring may be gone.
		if c.changes != since.changes || c.arm.Count() != since.count {
			return true
		}
		if notified != nil {
			return notified()
		}
		_, ok := ring.word()
		return ok
	}
	began := t.Now()
	_, err := t.Poll(host.Poll{Ranges: ranges, Period: c.nic.costs.PollPeriod(), Timeout: timeout, Blocked: blocked}, func() bool {
		return look() || c.nic.attention(t)
	})
	return t.Now() > began, err
}

// Notify registers a handler of the next entry, as VI.SendNotify does for a
// work queue: one registration takes one entry. Destroy cancels it.
func (c *CQ) Notify(t *host.Thread, h func(t *host.Thread, c Completion)) error {
	const op = "notify on completion queue"
	if c == nil {
		return missing(op, "completion queue")
	}
	if h == nil {
		return c.fail(op, ErrInvalidParameter, errNoHandler)
	}
	c.mu.Lock()
	gone := c.destroyed
	c.mu.Unlock()
	if gone {
		return c.fail(op, ErrInvalidParameter, errCQDestroyed)
	}
	return translate(op, nil, c.notifier.register(t, func(t *host.Thread) (func(), error) {
		e, ok, err := c.look(t, op)
		if !ok {
			return nil, err
		}
		e, err = c.charge(t, op, e)
		return func() { h(t, e) }, err
	}))
}
