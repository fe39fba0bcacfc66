// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// completionScenarios cover completion queues, notifications and sleeping
// waits.
var completionScenarios = []Scenario{
	{Name: "completion queue", client: queuedClient, server: queuedServer},
	{Name: "life of completion queues", client: cqLifeClient},
	{Name: "completion queue resized under traffic", client: resizeClient, server: resizeServer},
	{Name: "completion queue overrun", client: overrunClient, server: overrunServer},
	{Name: "flushed into completion queues", client: flushedClient, server: flushedServer},
	{Name: "notifications", client: notifyClient, server: notifyServer},
	{Name: "waits that sleep", client: sleepClient, server: sleepServer},
}

func init() {
	for _, s := range completionScenarios {
		s.needs = []*Need{needCQ}
		Scenarios = append(Scenarios, s)
	}
}

// Another connects one more VI that shares the peer's memory: the client dials,
// the server accepts.
func (p *Peer) Another(a vipl.VIAttributes, first int) (*Peer, error) {
	q := &Peer{Env: p.Env, Mem: p.Mem, descriptors: p.descriptors, posted: first}
	q.VI = must(p.NIC.CreateVI(p.T, a))
	if p.H.Node() == 0 {
		return q, q.Redial(1)
	}
	return q, q.Again()
}

// Entry waits for an entry and checks it.
func (e *Env) Entry(what string, c *vipl.CQ, vi *vipl.VI, receive bool) {
	got, err := c.Wait(e.T, host.Second)
	e.Is(what, err, nil)
	e.That(fmt.Sprintf("%s: the entry names the right queue", what), err != nil || got == vipl.Completion{VI: vi, Receive: receive})
}

// nothing checks that a completion queue is empty.
func (e *Env) nothing(what string, c *vipl.CQ) {
	got, err := c.Done(e.T)
	e.Is(what, err, vipl.ErrNotDone)
	e.That(what+": no VI with it", got.VI == nil)
}

// taken reaps the descriptor whose entry arrived and checks it.
func (p *Peer) taken(what string, receive bool, want *vipl.Descriptor, o outcome) {
	take := p.VI.SendDone
	if receive {
		take = p.VI.RecvDone
	}
	d, err := take(p.T)
	p.Completed(what, d, want, err, o)
}

const queuedMessages = 48

// queuedClient sends over two VIs in turn and receives a reply to each message.
func queuedClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	other := must(p.Another(Writable, 1024))
	for i := range queuedMessages {
		q := []*Peer{p, other}[i%2]
		n := 1 + i*97%3000
		answer := must(q.Receive(40000, 16))
		if i == 0 {
			check(p.Meet(1))
		}
		copy(p.Mem.Bytes(), Pattern(n, i))
		d := must(q.Send(0, n))
		q.Sent(fmt.Sprintf("message %d", i), d, outcome{operation: layout.StatusOperationSend, length: n})
		q.Take(fmt.Sprintf("answer %d", i), answer, Received(8))
	}
	return p.Settled(1)
}

// queuedServer gives both queues of two VIs one completion queue.
func queuedServer(e *Env) error {
	c := must(e.NIC.CreateCQ(e.T, 100))
	e.That(fmt.Sprintf("capacity 100, rounded up, not %d", c.Entries()), c.Entries() == 128)
	tied := vipl.VIAttributes{EnableRDMAWrite: true, SendCQ: c, RecvCQ: c}
	p := must(e.Serve(tied))
	other := must(p.Another(tied, 1024))
	e.nothing("nothing was posted", c)
	e.Is("a wait without a completion", errOf(c.Wait(e.T, 10*host.Microsecond)), vipl.ErrTimeout)
	receives := map[*Peer]*vipl.Descriptor{}
	for i, q := range []*Peer{p, other} {
		receives[q] = must(q.Receive(4096*i, 4096))
	}
	e.nothing("nothing has come", c)
	e.Is("wait on a tied receive queue", errOf(p.VI.RecvWait(e.T, host.Second)), vipl.ErrResource)
	e.Is("wait on a tied send queue", errOf(p.VI.SendWait(e.T, host.Second)), vipl.ErrResource)
	e.Is("notify on a tied queue", p.VI.RecvNotify(e.T, func(*host.Thread, *vipl.VI, *vipl.Descriptor) {}), vipl.ErrResource)
	check(p.Meet(0))
	for i := range queuedMessages {
		what := fmt.Sprintf("message %d", i)
		q := []*Peer{p, other}[i%2]
		n := 1 + i*97%3000
		e.Entry(what, c, q.VI, true)
		q.taken(what, true, receives[q], Received(n))
		e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[4096*(i%2):][:n], Pattern(n, i)))
		// The client sends the next message only after the reply.
		e.nothing(what+": one entry for each completion", c)
		receives[q] = must(q.Receive(4096*(i%2), 4096))
		answer := must(q.Send(32768, 8))
		e.Entry(what+": its answer", c, q.VI, false)
		q.taken(what+": its answer", false, answer, outcome{operation: layout.StatusOperationSend, length: 8})
	}
	e.nothing("one entry for each answer", c)
	e.Is("destroy while VIs are tied to it", c.Destroy(e.T), vipl.ErrResource)
	return p.Settled(0)
}

// cqLifeClient makes and destroys completion queues.
func cqLifeClient(e *Env) error {
	create := func(n int) error { return errOf(e.NIC.CreateCQ(e.T, n)) }
	q := e.NIC.Query()
	e.Is("no entries", create(0), vipl.ErrInvalidParameter)
	e.Is("fewer", create(-1), vipl.ErrInvalidParameter)
	e.Is("too many", create(q.MaxCQEntries+1), vipl.ErrResource)
	largest := must(e.NIC.CreateCQ(e.T, q.MaxCQEntries))
	e.That("as many as there may be", largest.Entries() == q.MaxCQEntries)
	e.Is("destroy", largest.Destroy(e.T), nil)
	e.Is("again", largest.Destroy(e.T), vipl.ErrInvalidParameter)
	e.Is("done on what was destroyed", errOf(largest.Done(e.T)), vipl.ErrInvalidParameter)
	e.Is("wait on it", errOf(largest.Wait(e.T, host.Second)), vipl.ErrInvalidParameter)
	e.Is("resize it", largest.Resize(e.T, 4), vipl.ErrInvalidParameter)
	e.Is("notify on it", largest.Notify(e.T, func(*host.Thread, vipl.Completion) {}), vipl.ErrInvalidParameter)
	e.Is("a VI on it", errOf(e.NIC.CreateVI(e.T, vipl.VIAttributes{RecvCQ: largest})), vipl.ErrInvalidParameter)

	c := must(e.NIC.CreateCQ(e.T, 1))
	e.That("at least 1", c.Entries() >= 1)
	e.Is("no handler", c.Notify(e.T, nil), vipl.ErrInvalidParameter)
	for _, bad := range []int{0, -1} {
		e.Is("resize to nothing", c.Resize(e.T, bad), vipl.ErrInvalidParameter)
	}
	e.Is("resize to too many", c.Resize(e.T, q.MaxCQEntries+1), vipl.ErrResource)
	e.Is("resize", c.Resize(e.T, 33), nil)
	e.That("as resized", c.Entries() == 64)
	stranger := must(vipl.OpenNIC(e.T, e.H))
	e.Is("a completion queue of another handle", errOf(stranger.CreateVI(e.T, vipl.VIAttributes{SendCQ: c})), vipl.ErrInvalidParameter)
	foreign := must(stranger.CreateCQ(e.T, 4))
	v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{SendCQ: c, Blocking: true}))
	info, err := v.Query(e.T)
	e.Is("query", err, nil)
	e.That("tied as asked", info.Attributes.SendCQ == c && info.Attributes.RecvCQ == nil && info.Attributes.Blocking)
	e.Is("another one for a VI that has one", v.SetAttributes(e.T, vipl.VIAttributes{SendCQ: foreign}), vipl.ErrInvalidParameter)
	e.Is("one for a queue that has none", v.SetAttributes(e.T, vipl.VIAttributes{RecvCQ: c}), vipl.ErrInvalidParameter)
	e.Is("other attributes", v.SetAttributes(e.T, vipl.VIAttributes{EnableRDMAWrite: true}), nil)
	info, err = v.Query(e.T)
	e.Is("query", err, nil)
	e.That("still tied", info.Attributes.SendCQ == c && info.Attributes.EnableRDMAWrite && !info.Attributes.Blocking)
	e.Is("destroy while tied", c.Destroy(e.T), vipl.ErrResource)
	e.Is("destroy the VI", v.Destroy(e.T), nil)
	e.Is("destroy", c.Destroy(e.T), nil)
	e.Is("close the other handle", stranger.Close(e.T), nil)
	e.Is("done after the handle was closed", errOf(foreign.Done(e.T)), vipl.ErrInvalidParameter)

	// Create all CQs of the card, then one more.
	var made []*vipl.CQ
	for range q.MaxCQ {
		c, err := e.NIC.CreateCQ(e.T, 2)
		Step(err, "completion queue %d", len(made))
		made = append(made, c)
	}
	e.Is("one more than there are", create(2), vipl.ErrResource)
	e.Is("destroy one", made[q.MaxCQ/2].Destroy(e.T), nil)
	e.Is("capacity again", create(2), nil)
	return nil // closing the handle destroys the rest
}

const (
	resizeRounds = 12
	resizeBurst  = 24
)

// resizeClient sends a burst whenever the server has posted its receives.
func resizeClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	for round := range resizeRounds {
		check(p.Meet(1))
		for i := range resizeBurst {
			copy(p.Mem.Bytes()[64*i:], []byte{byte(round), byte(i)})
			d := must(p.Send(64*i, 2))
			p.Sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 2})
		}
	}
	return p.Settled(1)
}

// resizeServer resizes its completion queue while messages arrive, and misses
// none.
func resizeServer(e *Env) error {
	c := must(e.NIC.CreateCQ(e.T, resizeBurst))
	p := must(e.Serve(vipl.VIAttributes{RecvCQ: c}))
	sizes := []int{64, 32, 4096, 33, 1024}
	for round := range resizeRounds {
		var posted []*vipl.Descriptor
		for i := range resizeBurst {
			posted = append(posted, must(p.Receive(64*i, 2)))
		}
		check(p.Meet(0))
		for i, want := range posted {
			if i%(2+round) == round%3 {
				e.Is("resize", c.Resize(e.T, sizes[(round+i)%len(sizes)]), nil)
			}
			what := fmt.Sprintf("round %d, message %d", round, i)
			e.Entry(what, c, p.VI, true)
			p.taken(what, true, want, Received(2))
			e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[64*i:][:2], []byte{byte(round), byte(i)}))
		}
		e.nothing("no entry twice", c)
	}
	e.Is("nothing asynchronous", errOf(e.NIC.ErrorWait(e.T, 0)), vipl.ErrTimeout)
	return p.Settled(0)
}

const overrunMessages = 5

func overrunClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	for range 2 {
		check(p.Meet(1))
		for range overrunMessages {
			d := must(p.Send(0, 4))
			p.Sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
		}
	}
	return p.Settled(1)
}

// overrunServer has too small a completion queue: the card drops entries,
// reports each, and does no other harm.
func overrunServer(e *Env) error {
	c := must(e.NIC.CreateCQ(e.T, 2))
	p := must(e.Serve(vipl.VIAttributes{RecvCQ: c}))
	var reported []vipl.ErrorDescriptor
	for round := range 2 {
		if round == 1 {
			e.Is("handler", e.NIC.ErrorCallback(func(_ *host.Thread, d vipl.ErrorDescriptor) { reported = append(reported, d) }), nil)
		}
		var posted []*vipl.Descriptor
		for range overrunMessages {
			posted = append(posted, must(p.Receive(0, 4)))
		}
		check(p.Meet(0))
		check(p.Quiet())
		for range c.Entries() {
			e.Entry("an entry that fits", c, p.VI, true)
		}
		e.nothing("the rest was lost", c)
		for _, d := range posted {
			p.taken("lost or not, the descriptor is complete", true, d, Received(4))
		}
		for range overrunMessages - c.Entries() {
			if round == 0 {
				p.Asynchronous("an entry was lost", layout.AsyncErrorCompletionQueueOverrun, p.VI)
			}
		}
	}
	e.That(fmt.Sprintf("an error for each: %v", reported), len(reported) == overrunMessages-c.Entries())
	for _, d := range reported {
		e.That(fmt.Sprintf("as what it is: %+v", d),
			d.Resource == vipl.ResourceCQ && d.Code == layout.AsyncErrorCatastrophic && d.CQ == c && d.VI == p.VI)
	}
	p.InState("the VI goes on", vipl.Connected)
	return p.Settled(0)
}

// flushing is a client whose descriptors are flushed.
type flushing struct {
	*Peer
	sends, receives *vipl.CQ
}

// flushedClient flushes descriptors in every way and checks that each enters
// its completion queue, including those the card has not fetched.
func flushedClient(e *Env) error {
	sends := must(e.NIC.CreateCQ(e.T, 64))
	receives := must(e.NIC.CreateCQ(e.T, 64))
	f := &flushing{must(e.Dial(1, vipl.VIAttributes{SendCQ: sends, RecvCQ: receives})), sends, receives}
	f.post(5)
	f.disconnect()
	f.flushed("a disconnect", 5, true)
	for range 3 {
		must(f.Send(0, 4))
	}
	f.flushed("posted while idle", 3, false)
	check(f.Redial(1))
	f.behindUnreadable()
	f.disconnect()
	check(f.Redial(1))
	// The peer leaves while a thread waits.
	f.post(3)
	check(f.Meet(1))
	f.flushed("the peer left", 3, true)
	f.Asynchronous("reported", layout.AsyncErrorConnectionLost, f.VI)
	f.disconnect()
	f.libraryBehindCard()
	f.destroyed()
	return f.Settled(1)
}

func (f *flushing) flushed(what string, n int, receive bool) {
	c := f.sends
	take := f.VI.SendDone
	if receive {
		c, take = f.receives, f.VI.RecvDone
	}
	for i := range n {
		f.Entry(fmt.Sprintf("%s, entry %d", what, i), c, f.VI, receive)
		d, err := take(f.T)
		f.Flushed(what, d, err)
	}
	f.nothing(what+": no more entries", c)
}

func (f *flushing) post(n int) {
	for range n {
		must(f.Receive(0, 4))
	}
}

func (f *flushing) disconnect() { f.Is("disconnect", f.VI.Disconnect(f.T), nil) }

// unreadable posts a receive that the card cannot read.
func (p *Peer) unreadable(segments ...vipl.Segment) {
	d := p.Next()
	check(d.SetReceive(segments...))
	d.Handle ^= 0x20
	check(p.VI.PostRecv(p.T, d))
}

// A receive that the card cannot read hides those behind it.
func (f *flushing) behindUnreadable() {
	f.post(2)
	f.unreadable(f.Mem.Segment(0, 4))
	f.post(2)
	check(f.Meet(1)) // the server sends two messages
	for range 2 {
		f.Entry("what came before", f.receives, f.VI, true)
		f.Is("what came before", errOf(f.VI.RecvDone(f.T)), nil)
	}
	f.flushed("behind a descriptor that cannot be reached", 3, true)
	f.Asynchronous("reported", layout.AsyncErrorPostDescriptor, f.VI)
	f.InState("broken", vipl.ErrorState)
	f.post(2)
	f.flushed("posted in the error state", 2, true)
	must(f.Send(0, 4))
	f.flushed("sent in the error state", 1, false)
}

// Entries of the library follow earlier entries of the card.
func (f *flushing) libraryBehindCard() {
	f.post(1)
	other := &Peer{Env: f.Env, Mem: f.Mem, descriptors: f.descriptors, posted: 1024}
	other.VI = must(f.NIC.CreateVI(f.T, vipl.VIAttributes{RecvCQ: f.receives}))
	f.disconnect() // the card flushes the receive
	other.unreadable()
	other.Asynchronous("it cannot be read", layout.AsyncErrorPostDescriptor, other.VI)
	d, err := other.VI.RecvDone(f.T)
	f.Flushed("it cannot be read", d, err)
	f.Entry("flushed by the card", f.receives, f.VI, true)
	f.Entry("flushed by the library", f.receives, other.VI, true)
	f.nothing("no more entries", f.receives)
	d, err = f.VI.RecvDone(f.T)
	f.Flushed("flushed by the card", d, err)
	f.Is("disconnect", other.VI.Disconnect(f.T), nil)
	f.Is("destroy", other.VI.Destroy(f.T), nil)
}

// Destroying a VI removes its entries.
func (f *flushing) destroyed() {
	f.post(3)
	f.disconnect()
	for range 3 {
		d, err := f.VI.RecvDone(f.T)
		f.Flushed("taken without its entry", d, err)
	}
	f.Is("destroy the VI", f.VI.Destroy(f.T), nil)
	f.nothing("its entries are gone", f.receives)
	for _, c := range []*vipl.CQ{f.sends, f.receives} {
		f.Is("destroy", c.Destroy(f.T), nil)
	}
}

func flushedServer(e *Env) error {
	p := must(e.Serve(vipl.VIAttributes{}))
	check(p.lost())
	check(p.Again())
	check(p.Meet(0))
	for range 2 {
		d := must(p.Send(0, 4))
		p.Sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
	}
	check(p.lost())
	check(p.Again())
	check(p.Meet(0))
	check(p.T.Sleep(50 * host.Microsecond))
	e.Is("disconnect", p.VI.Disconnect(e.T), nil)
	return p.Settled(0)
}

const notified = 6

// notifyClient sends on request, so far apart that each message raises a
// separate interrupt.
func notifyClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	other := must(p.Another(Writable, 1024))
	for _, q := range []*Peer{p, other, p} {
		check(p.Meet(1))
		for range notified {
			d := must(q.Send(0, 4))
			q.Sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4})
			check(e.T.Sleep(100 * host.Microsecond))
		}
	}
	return p.Settled(1)
}

func notifyServer(e *Env) error {
	c := must(e.NIC.CreateCQ(e.T, 64))
	p := must(e.Serve(Writable))
	tied := must(p.Another(vipl.VIAttributes{RecvCQ: c}, 1024))
	e.Is("no handler", p.VI.RecvNotify(e.T, nil), vipl.ErrInvalidParameter)
	e.Is("nothing registered", e.NIC.NotifyWait(e.T, 10*host.Microsecond), vipl.ErrTimeout)

	// Each registration reports one completion, in order.
	var posted, reported []*vipl.Descriptor
	var calls []int
	register := func(number int) {
		e.Is("register", p.VI.RecvNotify(e.T, func(t *host.Thread, v *vipl.VI, d *vipl.Descriptor) {
			e.That("on the thread of the call, with its VI", t == e.T && v == p.VI)
			reported, calls = append(reported, d), append(calls, number)
		}), nil)
	}
	for range notified {
		posted = append(posted, must(p.Receive(0, 4)))
	}
	for i := range notified - 2 {
		register(i)
	}
	e.That("nothing has come", len(reported) == 0)
	check(p.Meet(0))
	for len(reported) < notified-2 {
		before := len(reported)
		Step(e.NIC.NotifyWait(e.T, host.Second), "notification %d", before)
		e.That("as many as were reported", len(reported) > before)
	}
	check(p.Quiet())
	e.Is("no registration is left", e.NIC.NotifyWait(e.T, 10*host.Microsecond), vipl.ErrTimeout)
	// A registration reports at once if a completion waits already.
	register(notified - 2)
	register(notified - 1)
	e.That(fmt.Sprintf("all in order: %v", calls), slices.Equal(reported, posted) && slices.IsSorted(calls) && len(calls) == notified)
	for _, d := range reported {
		e.That("complete", d.Status()&vipl.DescriptorDone != 0 && d.Status()&vipl.DescriptorErrorMask == 0 && d.Length() == 4)
	}
	e.Is("they were taken", errOf(p.VI.RecvDone(e.T)), vipl.ErrDescriptor)

	p.notifyEntries(tied, c)

	// A wait on another queue calls handlers, too. A broken VI completes all.
	posted, reported, calls = nil, nil, nil
	for range notified + 1 {
		posted = append(posted, must(p.Receive(0, 4)))
	}
	for i := range posted {
		register(i)
	}
	check(p.Meet(0))
	err := p.Mem.Poll(e.T, 8000, 4, 2*host.Millisecond, func() bool { return len(reported) == notified })
	e.That("poll ends by its timeout", err == nil || errors.Is(err, vipl.ErrTimeout))
	for len(reported) < notified {
		Step(e.NIC.NotifyWait(e.T, host.Second), "notification %d", len(reported))
	}
	e.That("in order", slices.Equal(reported, posted[:notified]))
	e.Is("disconnect", p.VI.Disconnect(e.T), nil)
	if len(reported) == notified {
		e.Is("a flushed descriptor is reported", e.NIC.NotifyWait(e.T, host.Second), nil)
	}
	e.That("flushed", len(reported) == notified+1 && reported[notified].Status()&vipl.Flushed != 0)
	// Destroying a VI cancels its registrations.
	register(99)
	e.Is("destroy", p.VI.Destroy(e.T), nil)
	e.Is("notify on a destroyed VI", p.VI.SendNotify(e.T, func(*host.Thread, *vipl.VI, *vipl.Descriptor) {}), vipl.ErrInvalidParameter)
	e.Is("nothing is left", e.NIC.NotifyWait(e.T, 10*host.Microsecond), vipl.ErrTimeout)
	return p.Settled(0)
}

// notifyEntries takes the entries of another VI's completion queue by handlers.
func (p *Peer) notifyEntries(tied *Peer, c *vipl.CQ) {
	e := p.Env
	// The handler of a completion queue registers itself again.
	for range notified {
		must(tied.Receive(0, 4))
	}
	entries := 0
	var handler func(*host.Thread, vipl.Completion)
	handler = func(t *host.Thread, got vipl.Completion) {
		e.That("the right queue", got == vipl.Completion{VI: tied.VI, Receive: true})
		e.Is("its descriptor is complete", errOf(got.Done(t)), nil)
		entries++
		e.Is("register again", c.Notify(t, handler), nil)
	}
	e.Is("register", c.Notify(e.T, handler), nil)
	check(p.Meet(0))
	for entries < notified {
		Step(e.NIC.NotifyWait(e.T, host.Second), "entry %d", entries)
	}
	e.Is("disconnect", tied.VI.Disconnect(e.T), nil)
	e.Is("destroy the VI", tied.VI.Destroy(e.T), nil)
	e.Is("destroying the completion queue cancels", c.Destroy(e.T), nil)
	// A new queue reuses the number. The old queue's registration is gone.
	again := must(e.NIC.CreateCQ(e.T, 4))
	idle := &Peer{Env: e, Mem: p.Mem, descriptors: p.descriptors, posted: 1024}
	idle.VI = must(e.NIC.CreateVI(e.T, vipl.VIAttributes{RecvCQ: again}))
	must(idle.Receive(0, 4))
	flushes := 0
	e.Is("register", again.Notify(e.T, func(_ *host.Thread, got vipl.Completion) {
		e.That("of the new one", got == vipl.Completion{VI: idle.VI, Receive: true})
		flushes++
	}), nil)
	e.Is("disconnect", idle.VI.Disconnect(e.T), nil)
	if flushes == 0 {
		e.Is("a flushed descriptor has its entry", e.NIC.NotifyWait(e.T, host.Second), nil)
	}
	e.That("one entry", flushes == 1)
	d, err := idle.VI.RecvDone(e.T)
	e.Flushed("on an idle VI", d, err)
	e.Is("destroy", idle.VI.Destroy(e.T), nil)
	e.Is("destroy", again.Destroy(e.T), nil)
}

const slept = 8

func sleepClient(e *Env) error {
	p := must(e.Dial(1, vipl.VIAttributes{Blocking: true}))
	other := must(p.Another(vipl.VIAttributes{Blocking: true}, 1024))
	for _, q := range []*Peer{p, other} {
		check(p.Meet(1))
		for i := range slept {
			check(e.T.Sleep(host.Time(i) * 37 * host.Microsecond))
			d := must(q.Send(0, 4000*i))
			q.Sent("a message", d, outcome{operation: layout.StatusOperationSend, length: 4000 * i})
		}
	}
	check(p.Meet(1))
	check(e.T.Sleep(50 * host.Microsecond))
	e.Is("disconnect", p.VI.Disconnect(e.T), nil)
	e.Is("disconnect", other.VI.Disconnect(e.T), nil)
	return p.Settled(1)
}

// sleepServer sleeps until a message arrives, the time is up or the peer
// leaves.
func sleepServer(e *Env) error {
	c := must(e.NIC.CreateCQ(e.T, 64))
	c.Blocking.Store(true)
	p := must(e.Serve(vipl.VIAttributes{Blocking: true}))
	tied := must(p.Another(vipl.VIAttributes{RecvCQ: c}, 1024))
	var posted [2][]*vipl.Descriptor
	for i, q := range []*Peer{p, tied} {
		for range slept + 2 {
			d := must(q.Receive(0, 65536))
			posted[i] = append(posted[i], d)
		}
	}
	before := e.T.Now()
	e.Is("a wait without a completion", errOf(p.VI.RecvWait(e.T, 100*host.Microsecond)), vipl.ErrTimeout)
	if e.T.Timed() {
		e.That("for as long as it says", e.T.Now()-before >= 100*host.Microsecond && e.T.Now()-before < 200*host.Microsecond)
	}
	e.Is("a wait of no time", errOf(p.VI.RecvWait(e.T, 0)), vipl.ErrTimeout)
	e.Is("an entry that does not come", errOf(c.Wait(e.T, 100*host.Microsecond)), vipl.ErrTimeout)
	check(p.Meet(0))
	for i := range slept {
		p.Take(fmt.Sprintf("message %d", i), posted[0][i], Received(4000*i))
	}
	check(p.Meet(0))
	for i := range slept {
		e.Entry(fmt.Sprintf("entry %d", i), c, tied.VI, true)
		tied.taken(fmt.Sprintf("message %d", i), true, posted[1][i], Received(4000*i))
	}
	check(p.Meet(0))
	// The peer leaves, which ends both waits.
	for range 2 {
		d, err := p.VI.RecvWait(e.T, host.Second)
		e.Flushed("the peer left", d, err)
	}
	e.Is("nothing is left", errOf(p.VI.RecvWait(e.T, host.Second)), vipl.ErrDescriptor)
	for range 2 {
		e.Entry("the peer left", c, tied.VI, true)
		d, err := tied.VI.RecvDone(e.T)
		e.Flushed("the peer left", d, err)
	}
	return p.Settled(0)
}
