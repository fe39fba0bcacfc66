// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// completionScenarios are those of completion queues, notifications and waits that
// sleep.
var completionScenarios = []scenario{
	{"completion queue", queuedClient, queuedServer},
	{"life of completion queues", cqLifeClient, nil},
	{"completion queue resized under traffic", resizeClient, resizeServer},
	{"completion queue overrun", overrunClient, overrunServer},
	{"flushed into completion queues", flushedClient, flushedServer},
	{"notifications", notifyClient, notifyServer},
	{"waits that sleep", sleepClient, sleepServer},
}

func init() {
	scenarios = append(scenarios, completionScenarios...)
	for _, s := range completionScenarios {
		features[s.name] = func(a vipl.NICAttributes) bool { return a.MaxCQ > 0 }
	}
}

// another makes one more VI that shares the peer's memory, and connects it: the
// client dials, the server accepts.
func (p *peer) another(a vipl.VIAttributes, first int) (*peer, error) {
	q := &peer{env: p.env, mem: p.mem, descriptors: p.descriptors, posted: first}
	var err error
	if q.vi, err = p.nic.CreateVI(p.t, a); err != nil {
		return nil, err
	}
	if p.h.Node() == 0 {
		return q, q.redial(1)
	}
	return q, q.again()
}

// entry waits for an entry and checks what it names.
func (e *env) entry(what string, c *vipl.CQ, vi *vipl.VI, receive bool) {
	got, err := c.Wait(e.t, host.Second)
	e.is(what, err, nil)
	e.that(fmt.Sprintf("%s: the entry names the right queue", what), err != nil || got == vipl.Completion{VI: vi, Receive: receive})
}

// nothing checks that a completion queue is empty.
func (e *env) nothing(what string, c *vipl.CQ) {
	got, err := c.Done(e.t)
	e.is(what, err, vipl.ErrNotDone)
	e.that(what+": no VI with it", got.VI == nil)
}

// taken takes the head of a queue whose entry has come: it must be done.
func (p *peer) taken(what string, receive bool, want *vipl.Descriptor, o outcome) {
	take := p.vi.SendDone
	if receive {
		take = p.vi.RecvDone
	}
	d, err := take(p.t)
	p.completed(what, d, want, err, o)
}

const queuedMessages = 48

// queuedClient sends over two VIs in turn, and gets an answer to each message.
func queuedClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	other, err := p.another(writable, 1024)
	if err != nil {
		return err
	}
	for i := range queuedMessages {
		q := []*peer{p, other}[i%2]
		n := 1 + i*97%3000
		answer, err := q.receive(40000, 16)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := p.meet(1); err != nil {
				return err
			}
		}
		copy(p.mem.Bytes(), pattern(n, i))
		d, err := q.send(0, n)
		if err != nil {
			return err
		}
		q.sent(fmt.Sprintf("message %d", i), d, outcome{operation: layout.StatusOperationSend, length: n})
		q.take(fmt.Sprintf("answer %d", i), answer, received(8))
	}
	return p.settled(1)
}

// queuedServer has one completion queue for both queues of two VIs.
func queuedServer(e *env) error {
	c, err := e.nic.CreateCQ(e.t, 100)
	if err != nil {
		return err
	}
	e.that(fmt.Sprintf("room for 100, rounded up, not %d", c.Entries()), c.Entries() == 128)
	tied := vipl.VIAttributes{EnableRDMAWrite: true, SendCQ: c, RecvCQ: c}
	p, err := e.serve(tied)
	if err != nil {
		return err
	}
	other, err := p.another(tied, 1024)
	if err != nil {
		return err
	}
	e.nothing("nothing was posted", c)
	_, err = c.Wait(e.t, 10*host.Microsecond)
	e.is("a wait in vain", err, vipl.ErrTimeout)
	receives := map[*peer]*vipl.Descriptor{}
	for i, q := range []*peer{p, other} {
		if receives[q], err = q.receive(4096*i, 4096); err != nil {
			return err
		}
	}
	e.nothing("nothing has come", c)
	_, err = p.vi.RecvWait(e.t, host.Second)
	e.is("wait on a tied receive queue", err, vipl.ErrResource)
	_, err = p.vi.SendWait(e.t, host.Second)
	e.is("wait on a tied send queue", err, vipl.ErrResource)
	e.is("notify on a tied queue", p.vi.RecvNotify(e.t, func(*host.Thread, *vipl.VI, *vipl.Descriptor) {}), vipl.ErrResource)
	if err := p.meet(0); err != nil {
		return err
	}
	for i := range queuedMessages {
		what := fmt.Sprintf("message %d", i)
		q := []*peer{p, other}[i%2]
		n := 1 + i*97%3000
		e.entry(what, c, q.vi, true)
		q.taken(what, true, receives[q], received(n))
		e.that(what+": its bytes", bytes.Equal(p.mem.Bytes()[4096*(i%2):][:n], pattern(n, i)))
		// The client sends again when it has the answer, not before.
		e.nothing(what+": one entry for each completion", c)
		if receives[q], err = q.receive(4096*(i%2), 4096); err != nil {
			return err
		}
		answer, err := q.send(32768, 8)
		if err != nil {
			return err
		}
		e.entry(what+": its answer", c, q.vi, false)
		q.taken(what+": its answer", false, answer, outcome{operation: layout.StatusOperationSend, length: 8})
	}
	e.nothing("one entry for each answer", c)
	e.is("destroy while VIs are tied to it", c.Destroy(e.t), vipl.ErrResource)
	return p.settled(0)
}

// cqLifeClient makes and destroys completion queues.
func cqLifeClient(e *env) error {
	create := func(n int) error { return second(e.nic.CreateCQ(e.t, n)) }
	q := e.nic.Query()
	e.is("no entries", create(0), vipl.ErrInvalidParameter)
	e.is("fewer", create(-1), vipl.ErrInvalidParameter)
	e.is("too many", create(q.MaxCQEntries+1), vipl.ErrResource)
	largest, err := e.nic.CreateCQ(e.t, q.MaxCQEntries)
	if err != nil {
		return err
	}
	e.that("as many as there may be", largest.Entries() == q.MaxCQEntries)
	e.is("destroy", largest.Destroy(e.t), nil)
	e.is("again", largest.Destroy(e.t), vipl.ErrInvalidParameter)
	_, err = largest.Done(e.t)
	e.is("done on what was destroyed", err, vipl.ErrInvalidParameter)
	_, err = largest.Wait(e.t, host.Second)
	e.is("wait on it", err, vipl.ErrInvalidParameter)
	e.is("resize it", largest.Resize(e.t, 4), vipl.ErrInvalidParameter)
	e.is("notify on it", largest.Notify(e.t, func(*host.Thread, vipl.Completion) {}), vipl.ErrInvalidParameter)
	e.is("a VI on it", second(e.nic.CreateVI(e.t, vipl.VIAttributes{RecvCQ: largest})), vipl.ErrInvalidParameter)

	c, err := e.nic.CreateCQ(e.t, 1)
	if err != nil {
		return err
	}
	e.that("at least 1", c.Entries() >= 1)
	e.is("no handler", c.Notify(e.t, nil), vipl.ErrInvalidParameter)
	for _, bad := range []int{0, -1} {
		e.is("resize to nothing", c.Resize(e.t, bad), vipl.ErrInvalidParameter)
	}
	e.is("resize to too many", c.Resize(e.t, q.MaxCQEntries+1), vipl.ErrResource)
	e.is("resize", c.Resize(e.t, 33), nil)
	e.that("as resized", c.Entries() == 64)
	stranger, err := vipl.OpenNIC(e.t, e.h)
	if err != nil {
		return err
	}
	e.is("a completion queue of another handle", second(stranger.CreateVI(e.t, vipl.VIAttributes{SendCQ: c})), vipl.ErrInvalidParameter)
	foreign, err := stranger.CreateCQ(e.t, 4)
	if err != nil {
		return err
	}
	v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{SendCQ: c, Blocking: true})
	if err != nil {
		return err
	}
	info, err := v.Query(e.t)
	e.is("query", err, nil)
	e.that("tied as asked", info.Attributes.SendCQ == c && info.Attributes.RecvCQ == nil && info.Attributes.Blocking)
	e.is("another one for a VI that has one", v.SetAttributes(e.t, vipl.VIAttributes{SendCQ: foreign}), vipl.ErrInvalidParameter)
	e.is("one for a queue that has none", v.SetAttributes(e.t, vipl.VIAttributes{RecvCQ: c}), vipl.ErrInvalidParameter)
	e.is("other attributes", v.SetAttributes(e.t, vipl.VIAttributes{EnableRDMAWrite: true}), nil)
	info, err = v.Query(e.t)
	e.is("query", err, nil)
	e.that("still tied", info.Attributes.SendCQ == c && info.Attributes.EnableRDMAWrite && !info.Attributes.Blocking)
	e.is("destroy while tied", c.Destroy(e.t), vipl.ErrResource)
	e.is("destroy the VI", v.Destroy(e.t), nil)
	e.is("destroy", c.Destroy(e.t), nil)
	e.is("close the other handle", stranger.Close(e.t), nil)
	_, err = foreign.Done(e.t)
	e.is("done after the handle was closed", err, vipl.ErrInvalidParameter)

	// All of the card, then one more.
	var made []*vipl.CQ
	for range q.MaxCQ {
		c, err := e.nic.CreateCQ(e.t, 2)
		if err != nil {
			return fmt.Errorf("completion queue %d: %w", len(made), err)
		}
		made = append(made, c)
	}
	e.is("one more than there are", create(2), vipl.ErrResource)
	e.is("destroy one", made[q.MaxCQ/2].Destroy(e.t), nil)
	e.is("room again", create(2), nil)
	return nil // the rest goes with the handle
}

const (
	resizeRounds = 12
	resizeBurst  = 24
)

// resizeClient sends bursts; each may be sent when the server has room.
func resizeClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	for round := range resizeRounds {
		if err := p.meet(1); err != nil {
			return err
		}
		for i := range resizeBurst {
			copy(p.mem.Bytes()[64*i:], []byte{byte(round), byte(i)})
			d, err := p.send(64*i, 2)
			if err != nil {
				return err
			}
			p.sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 2})
		}
	}
	return p.settled(1)
}

// resizeServer gives its completion queue another size while messages come, and
// misses none.
func resizeServer(e *env) error {
	c, err := e.nic.CreateCQ(e.t, resizeBurst)
	if err != nil {
		return err
	}
	p, err := e.serve(vipl.VIAttributes{RecvCQ: c})
	if err != nil {
		return err
	}
	sizes := []int{64, 32, 4096, 33, 1024}
	for round := range resizeRounds {
		var posted []*vipl.Descriptor
		for i := range resizeBurst {
			d, err := p.receive(64*i, 2)
			if err != nil {
				return err
			}
			posted = append(posted, d)
		}
		if err := p.meet(0); err != nil {
			return err
		}
		for i, want := range posted {
			if i%(2+round) == round%3 {
				e.is("resize", c.Resize(e.t, sizes[(round+i)%len(sizes)]), nil)
			}
			what := fmt.Sprintf("round %d, message %d", round, i)
			e.entry(what, c, p.vi, true)
			p.taken(what, true, want, received(2))
			e.that(what+": its bytes", bytes.Equal(p.mem.Bytes()[64*i:][:2], []byte{byte(round), byte(i)}))
		}
		e.nothing("no entry twice", c)
	}
	_, err = e.nic.NextError(e.t)
	e.is("nothing asynchronous", err, vipl.ErrNotDone)
	return p.settled(0)
}

const overrunMessages = 5

func overrunClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	for range 2 {
		if err := p.meet(1); err != nil {
			return err
		}
		for range overrunMessages {
			d, err := p.send(0, 4)
			if err != nil {
				return err
			}
			p.sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
		}
	}
	return p.settled(1)
}

// overrunServer has too small a completion queue: entries are lost and told, and
// nothing else.
func overrunServer(e *env) error {
	c, err := e.nic.CreateCQ(e.t, 2)
	if err != nil {
		return err
	}
	p, err := e.serve(vipl.VIAttributes{RecvCQ: c})
	if err != nil {
		return err
	}
	var told []vipl.ErrorDescriptor
	for round := range 2 {
		if round == 1 {
			e.is("handler", e.nic.ErrorCallback(func(_ *host.Thread, d vipl.ErrorDescriptor) { told = append(told, d) }), nil)
		}
		var posted []*vipl.Descriptor
		for range overrunMessages {
			d, err := p.receive(0, 4)
			if err != nil {
				return err
			}
			posted = append(posted, d)
		}
		if err := p.meet(0); err != nil {
			return err
		}
		if err := p.quiet(); err != nil {
			return err
		}
		for range c.Entries() {
			e.entry("what had room", c, p.vi, true)
		}
		e.nothing("the rest was lost", c)
		for _, d := range posted {
			p.taken("lost or not, the descriptor is complete", true, d, received(4))
		}
		for range overrunMessages - c.Entries() {
			if round == 0 {
				p.asynchronous("an entry was lost", layout.AsyncErrorCompletionQueueOverrun, p.vi)
			}
		}
	}
	e.that(fmt.Sprintf("told of each: %v", told), len(told) == overrunMessages-c.Entries())
	for _, d := range told {
		e.that(fmt.Sprintf("as what it is: %+v", d),
			d.Resource == vipl.ResourceCQ && d.Code == layout.AsyncErrorCatastrophic && d.CQ == c && d.VI == p.vi)
	}
	p.inState("the VI goes on", vipl.Connected)
	return p.settled(0)
}

// flushedClient has every way of flushing enter its descriptors into completion
// queues, those that the card has never seen included.
func flushedClient(e *env) error {
	sends, err := e.nic.CreateCQ(e.t, 64)
	if err != nil {
		return err
	}
	receives, err := e.nic.CreateCQ(e.t, 64)
	if err != nil {
		return err
	}
	p, err := e.dial(1, vipl.VIAttributes{SendCQ: sends, RecvCQ: receives})
	if err != nil {
		return err
	}
	flushed := func(what string, n int, receive bool) {
		c := sends
		take := p.vi.SendDone
		if receive {
			c, take = receives, p.vi.RecvDone
		}
		for i := range n {
			e.entry(fmt.Sprintf("%s, entry %d", what, i), c, p.vi, receive)
			d, err := take(e.t)
			e.flushed(what, d, err)
		}
		e.nothing(what+": no more entries", c)
	}
	post := func(n int) error {
		for range n {
			if _, err := p.receive(0, 4); err != nil {
				return err
			}
		}
		return nil
	}

	// A disconnect.
	if err := post(5); err != nil {
		return err
	}
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	flushed("a disconnect", 5, true)
	// Sends on an idle VI.
	for range 3 {
		if _, err := p.send(0, 4); err != nil {
			return err
		}
	}
	flushed("posted while idle", 3, false)

	// A receive that the card cannot reach hides those behind it.
	if err := p.redial(1); err != nil {
		return err
	}
	if err := post(2); err != nil {
		return err
	}
	hidden := p.next()
	if err := hidden.SetReceive(p.mem.Segment(0, 4)); err != nil {
		return err
	}
	hidden.Handle ^= 0x20
	if err := p.vi.PostRecv(e.t, hidden); err != nil {
		return err
	}
	if err := post(2); err != nil {
		return err
	}
	if err := p.meet(1); err != nil { // the server sends two messages
		return err
	}
	for range 2 {
		e.entry("what came before", receives, p.vi, true)
		_, err := p.vi.RecvDone(e.t)
		e.is("what came before", err, nil)
	}
	flushed("behind a descriptor that cannot be reached", 3, true)
	p.asynchronous("it is told", layout.AsyncErrorPostDescriptor, p.vi)
	p.inState("broken", vipl.ErrorState)
	if err := post(2); err != nil {
		return err
	}
	flushed("posted in the error state", 2, true)
	if _, err := p.send(0, 4); err != nil {
		return err
	}
	flushed("sent in the error state", 1, false)

	// The peer leaves while a thread waits.
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	if err := p.redial(1); err != nil {
		return err
	}
	if err := post(3); err != nil {
		return err
	}
	if err := p.meet(1); err != nil {
		return err
	}
	flushed("the peer left", 3, true)
	p.asynchronous("it is told", layout.AsyncErrorConnectionLost, p.vi)

	// What the library completes comes behind what the card has completed before.
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	if err := post(1); err != nil {
		return err
	}
	other := &peer{env: e, mem: p.mem, descriptors: p.descriptors, posted: 1024}
	if other.vi, err = e.nic.CreateVI(e.t, vipl.VIAttributes{RecvCQ: receives}); err != nil {
		return err
	}
	e.is("disconnect", p.vi.Disconnect(e.t), nil) // flushes
	unread := other.next()
	if err := unread.SetReceive(); err != nil {
		return err
	}
	unread.Handle ^= 0x20
	if err := other.vi.PostRecv(e.t, unread); err != nil {
		return err
	}
	other.asynchronous("it cannot be read", layout.AsyncErrorPostDescriptor, other.vi)
	d, err := other.vi.RecvDone(e.t)
	e.flushed("it cannot be read", d, err)
	e.entry("flushed by the card", receives, p.vi, true)
	e.entry("flushed by the library", receives, other.vi, true)
	e.nothing("no more entries", receives)
	d, err = p.vi.RecvDone(e.t)
	e.flushed("flushed by the card", d, err)
	e.is("disconnect", other.vi.Disconnect(e.t), nil)
	e.is("destroy", other.vi.Destroy(e.t), nil)

	// Entries of a VI that is gone are gone.
	if err := post(3); err != nil {
		return err
	}
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	for range 3 {
		d, err := p.vi.RecvDone(e.t)
		e.flushed("taken without its entry", d, err)
	}
	e.is("destroy the VI", p.vi.Destroy(e.t), nil)
	e.nothing("its entries are gone", receives)
	for _, c := range []*vipl.CQ{sends, receives} {
		e.is("destroy", c.Destroy(e.t), nil)
	}
	return p.settled(1)
}

func flushedServer(e *env) error {
	p, err := e.serve(vipl.VIAttributes{})
	if err != nil {
		return err
	}
	if err := p.lost(); err != nil {
		return err
	}
	if err := p.again(); err != nil {
		return err
	}
	if err := p.meet(0); err != nil {
		return err
	}
	for range 2 {
		d, err := p.send(0, 4)
		if err != nil {
			return err
		}
		p.sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
	}
	if err := p.lost(); err != nil {
		return err
	}
	if err := p.again(); err != nil {
		return err
	}
	if err := p.meet(0); err != nil {
		return err
	}
	if err := p.t.Sleep(50 * host.Microsecond); err != nil {
		return err
	}
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	return p.settled(0)
}

const notified = 6

// notifyClient sends when it is told to, at a distance at which each message is
// an interrupt of its own.
func notifyClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	other, err := p.another(writable, 1024)
	if err != nil {
		return err
	}
	for _, q := range []*peer{p, other, p} {
		if err := p.meet(1); err != nil {
			return err
		}
		for range notified {
			d, err := q.send(0, 4)
			if err != nil {
				return err
			}
			q.sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
			if err := e.t.Sleep(100 * host.Microsecond); err != nil {
				return err
			}
		}
	}
	return p.settled(1)
}

func notifyServer(e *env) error {
	c, err := e.nic.CreateCQ(e.t, 64)
	if err != nil {
		return err
	}
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	tied, err := p.another(vipl.VIAttributes{RecvCQ: c}, 1024)
	if err != nil {
		return err
	}
	e.is("no handler", p.vi.RecvNotify(e.t, nil), vipl.ErrInvalidParameter)
	e.is("nothing registered", e.nic.NotifyWait(e.t, 10*host.Microsecond), vipl.ErrTimeout)

	// One registration is one completion, in order.
	var posted, told []*vipl.Descriptor
	var calls []int
	register := func(number int) {
		e.is("register", p.vi.RecvNotify(e.t, func(t *host.Thread, v *vipl.VI, d *vipl.Descriptor) {
			e.that("on the thread of the call, with its VI", t == e.t && v == p.vi)
			told, calls = append(told, d), append(calls, number)
		}), nil)
	}
	for range notified {
		d, err := p.receive(0, 4)
		if err != nil {
			return err
		}
		posted = append(posted, d)
	}
	for i := range notified - 2 {
		register(i)
	}
	e.that("nothing has come", len(told) == 0)
	if err := p.meet(0); err != nil {
		return err
	}
	for len(told) < notified-2 {
		before := len(told)
		if err := e.nic.NotifyWait(e.t, host.Second); err != nil {
			return fmt.Errorf("notification %d: %w", before, err)
		}
		e.that("as many as were told of", len(told) > before)
	}
	if err := p.quiet(); err != nil {
		return err
	}
	e.is("no registration is left", e.nic.NotifyWait(e.t, 10*host.Microsecond), vipl.ErrTimeout)
	// What is there already is told at once.
	register(notified - 2)
	register(notified - 1)
	e.that(fmt.Sprintf("all in order: %v", calls), slices.Equal(told, posted) && slices.IsSorted(calls) && len(calls) == notified)
	for _, d := range told {
		e.that("complete", d.Status().Done() && !d.Status().Failed() && d.Length() == 4)
	}
	_, err = p.vi.RecvDone(e.t)
	e.is("they were taken", err, vipl.ErrDescriptor)

	// A completion queue, with a handler that registers itself again.
	for range notified {
		if _, err := tied.receive(0, 4); err != nil {
			return err
		}
	}
	entries := 0
	var handler func(*host.Thread, vipl.Completion)
	handler = func(t *host.Thread, got vipl.Completion) {
		e.that("the right queue", got == vipl.Completion{VI: tied.vi, Receive: true})
		_, err := got.Done(t)
		e.is("its descriptor is complete", err, nil)
		entries++
		e.is("register again", c.Notify(t, handler), nil)
	}
	e.is("register", c.Notify(e.t, handler), nil)
	if err := p.meet(0); err != nil {
		return err
	}
	for entries < notified {
		if err := e.nic.NotifyWait(e.t, host.Second); err != nil {
			return fmt.Errorf("entry %d: %w", entries, err)
		}
	}
	e.is("disconnect", tied.vi.Disconnect(e.t), nil)
	e.is("destroy the VI", tied.vi.Destroy(e.t), nil)
	e.is("destroying the completion queue cancels", c.Destroy(e.t), nil)
	// Its number is used again, and its registration is not served any more.
	again, err := e.nic.CreateCQ(e.t, 4)
	if err != nil {
		return err
	}
	idle := &peer{env: e, mem: p.mem, descriptors: p.descriptors, posted: 1024}
	if idle.vi, err = e.nic.CreateVI(e.t, vipl.VIAttributes{RecvCQ: again}); err != nil {
		return err
	}
	if _, err := idle.receive(0, 4); err != nil {
		return err
	}
	flushes := 0
	e.is("register", again.Notify(e.t, func(_ *host.Thread, got vipl.Completion) {
		e.that("of the new one", got == vipl.Completion{VI: idle.vi, Receive: true})
		flushes++
	}), nil)
	e.is("disconnect", idle.vi.Disconnect(e.t), nil)
	if flushes == 0 {
		e.is("a flushed descriptor has its entry", e.nic.NotifyWait(e.t, host.Second), nil)
	}
	e.that("one entry", flushes == 1)
	d, err := idle.vi.RecvDone(e.t)
	e.flushed("on an idle VI", d, err)
	e.is("destroy", idle.vi.Destroy(e.t), nil)
	e.is("destroy", again.Destroy(e.t), nil)

	// A wait on another queue calls handlers too; a broken VI ends all.
	if posted, told, calls = nil, nil, nil; true {
		for range notified + 1 {
			d, err := p.receive(0, 4)
			if err != nil {
				return err
			}
			posted = append(posted, d)
		}
	}
	for i := range notified + 1 {
		register(i)
	}
	if err := p.meet(0); err != nil {
		return err
	}
	err = p.mem.Poll(e.t, 8000, 4, 2*host.Millisecond, func() bool { return len(told) == notified })
	e.that("poll ends by its timeout", err == nil || errors.Is(err, vipl.ErrTimeout))
	for len(told) < notified {
		if err := e.nic.NotifyWait(e.t, host.Second); err != nil {
			return fmt.Errorf("notification %d: %w", len(told), err)
		}
	}
	e.that("in order", slices.Equal(told, posted[:notified]))
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	if len(told) == notified {
		e.is("a flushed descriptor is told of", e.nic.NotifyWait(e.t, host.Second), nil)
	}
	e.that("flushed", len(told) == notified+1 && told[notified].Status()&vipl.Flushed != 0)
	// Registrations of a VI that is destroyed are cancelled.
	register(99)
	e.is("destroy", p.vi.Destroy(e.t), nil)
	e.is("notify on a destroyed VI", p.vi.SendNotify(e.t, func(*host.Thread, *vipl.VI, *vipl.Descriptor) {}), vipl.ErrInvalidParameter)
	e.is("nothing is left", e.nic.NotifyWait(e.t, 10*host.Microsecond), vipl.ErrTimeout)
	return p.settled(0)
}

const slept = 8

func sleepClient(e *env) error {
	p, err := e.dial(1, vipl.VIAttributes{Blocking: true})
	if err != nil {
		return err
	}
	other, err := p.another(vipl.VIAttributes{Blocking: true}, 1024)
	if err != nil {
		return err
	}
	for _, q := range []*peer{p, other} {
		if err := p.meet(1); err != nil {
			return err
		}
		for i := range slept {
			if err := e.t.Sleep(host.Time(i) * 37 * host.Microsecond); err != nil {
				return err
			}
			d, err := q.send(0, 4000*i)
			if err != nil {
				return err
			}
			q.sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4000 * i})
		}
	}
	if err := p.meet(1); err != nil {
		return err
	}
	if err := e.t.Sleep(50 * host.Microsecond); err != nil {
		return err
	}
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	e.is("disconnect", other.vi.Disconnect(e.t), nil)
	return p.settled(1)
}

// sleepServer waits asleep, for messages and for what ends a wait otherwise.
func sleepServer(e *env) error {
	c, err := e.nic.CreateCQ(e.t, 64)
	if err != nil {
		return err
	}
	c.SetBlocking(true)
	p, err := e.serve(vipl.VIAttributes{Blocking: true})
	if err != nil {
		return err
	}
	tied, err := p.another(vipl.VIAttributes{RecvCQ: c}, 1024)
	if err != nil {
		return err
	}
	var posted [2][]*vipl.Descriptor
	for i, q := range []*peer{p, tied} {
		for range slept + 2 {
			d, err := q.receive(0, 65536)
			if err != nil {
				return err
			}
			posted[i] = append(posted[i], d)
		}
	}
	before := e.t.Now()
	_, err = p.vi.RecvWait(e.t, 100*host.Microsecond)
	e.is("a wait in vain", err, vipl.ErrTimeout)
	if e.t.Timed() {
		e.that("for as long as it says", e.t.Now()-before >= 100*host.Microsecond && e.t.Now()-before < 200*host.Microsecond)
	}
	_, err = p.vi.RecvWait(e.t, 0)
	e.is("a wait of no time", err, vipl.ErrTimeout)
	_, err = c.Wait(e.t, 100*host.Microsecond)
	e.is("a wait in vain for an entry", err, vipl.ErrTimeout)
	if err := p.meet(0); err != nil {
		return err
	}
	for i := range slept {
		p.take(fmt.Sprintf("message %d", i), posted[0][i], received(4000*i))
	}
	if err := p.meet(0); err != nil {
		return err
	}
	for i := range slept {
		e.entry(fmt.Sprintf("entry %d", i), c, tied.vi, true)
		tied.taken(fmt.Sprintf("message %d", i), true, posted[1][i], received(4000*i))
	}
	if err := p.meet(0); err != nil {
		return err
	}
	// The peer leaves: both waits end.
	for range 2 {
		d, err := p.vi.RecvWait(e.t, host.Second)
		e.flushed("the peer left", d, err)
	}
	_, err = p.vi.RecvWait(e.t, host.Second)
	e.is("nothing is left", err, vipl.ErrDescriptor)
	for range 2 {
		e.entry("the peer left", c, tied.vi, true)
		d, err := tied.vi.RecvDone(e.t)
		e.flushed("the peer left", d, err)
	}
	return p.settled(0)
}
