// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// habit is something that programs written for other providers count on, beyond
// the text of the specification.
type habit struct {
	name           string
	client, server main
}

var habits = []habit{
	{"1 descriptors of 64 bytes lie back to back, a buffer directly behind", compactHabit, sinkHabit},
	{"2 receives posted while idle serve the connection", earlyHabit, sinkHabit},
	{"3 no match comes fast and leaves the VI usable", noMatchHabit, sinkHabit},
	{"4 the requester's discriminator comes with its request", discriminatorHabit, sinkHabit},
	{"5 done on an empty queue is a descriptor error without a descriptor", emptyHabit, nil},
	{"6 each completion of a tied queue has its entry, and the entry its descriptor", entryHabit, sinkHabit},
	{"7 memory of a descriptor is the program's as soon as it is taken", reuseHabit, sinkHabit},
	{"8 handles are not 0 and a range is registered twice", handleHabit, nil},
	{"9 no memory attributes and tag 0 fit together", zeroHabit, sinkHabit},
	{"10 disconnect twice does no harm", twiceHabit, sinkHabit},
	{"11 links of descriptors that are not posted stay as they are", linkHabit, sinkHabit},
	{"12 levels are compared with >=", levelHabit, nil},
}

// Programs for other providers of VIPL find what they count on: on fake cards, on
// M-VIA, and on the RTL.
func TestClientHabits(t *testing.T) {
	for _, h := range habits {
		t.Run(h.name, func(t *testing.T) {
			mains := mainsOf(scenario{client: h.client, server: h.server})
			onDevices(t, func(t *testing.T, d driver.Device) { runFake(t, d, nil, mains...) })
			t.Run("card", func(t *testing.T) {
				needsCards(t)
				runCard(t, seed(t), mains...)
			})
		})
	}
}

const habitMessages = 8

// sinkHabit accepts what comes, each time anew, sends and takes some messages, and ends with the client.
func sinkHabit(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	for {
		for i := range habitMessages {
			if _, err := p.receive(64*i, 64); err != nil {
				return err
			}
		}
		r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, 200*host.Millisecond)
		if errors.Is(err, vipl.ErrTimeout) {
			return nil
		}
		if err != nil {
			return err
		}
		e.that("the requester is "+r.RemoteAddress.String(), r.RemoteAddress == vipl.NetAddress{Host: vipl.HostAddress(0), Discriminator: "client"})
		if err := r.Accept(e.t, p.vi); err != nil {
			return err
		}
		for i := range habitMessages {
			copy(p.mem.Bytes()[4096:], pattern(64, i))
			d, err := p.send(4096, 64)
			if err != nil {
				return err
			}
			got, err := p.vi.SendWait(e.t, host.Second)
			e.that("in order", got == d)
			if err != nil { // the client has what it wanted and left
				break
			}
		}
		for range attempts {
			if i, err := p.vi.Query(e.t); err != nil || i.State == vipl.ErrorState {
				break
			}
			if err := e.t.Sleep(200 * host.Microsecond); err != nil {
				return err
			}
		}
		p.inState("the client has left", vipl.ErrorState)
		if err := p.drained(); err != nil {
			return err
		}
	}
}

// drained disconnects and takes every descriptor back, as all clients do.
func (p *peer) drained() error {
	if err := p.vi.Disconnect(p.t); err != nil {
		return err
	}
	for _, take := range []func(*host.Thread) (*vipl.Descriptor, error){p.vi.RecvDone, p.vi.SendDone} {
		for {
			d, err := take(p.t)
			if d == nil {
				p.is("drained", err, vipl.ErrDescriptor)
				break
			}
		}
	}
	return nil
}

// met prepares receives and connects.
func (e *env) met(a vipl.VIAttributes) (*peer, []*vipl.Descriptor, error) {
	p, err := e.prepare(a)
	if err != nil {
		return nil, nil, err
	}
	var list []*vipl.Descriptor
	for i := range habitMessages {
		d, err := p.receive(64*i, 64)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, d)
	}
	return p, list, p.redial(1)
}

// heard takes the server's messages.
func (p *peer) heard(list []*vipl.Descriptor) {
	for i, d := range list {
		p.take(fmt.Sprintf("message %d", i), d, received(64))
		p.that(fmt.Sprintf("bytes of message %d", i), bytes.Equal(p.mem.Bytes()[64*i:64*i+64], pattern(64, i)))
	}
}

func compactHabit(e *env) error {
	e.that("the size of a descriptor", vipl.DescriptorBytes == 64 && layout.DescriptorAlignment == 64)
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	// Descriptor, buffer, descriptor, buffer and so on, without a gap, then descriptors only.
	var list []*vipl.Descriptor
	for i := range habitMessages {
		d, err := p.mem.Descriptor(128*i, 1)
		if err != nil {
			return err
		}
		if err := errors.Join(d.SetReceive(p.mem.Segment(128*i+64, 64)), p.vi.PostRecv(e.t, d)); err != nil {
			return err
		}
		list = append(list, d)
	}
	if err := p.redial(1); err != nil {
		return err
	}
	for i, d := range list {
		p.take("packed", d, received(64))
		e.that("bytes behind the descriptor", bytes.Equal(p.mem.Bytes()[128*i+64:128*i+128], pattern(64, i)))
	}
	for i := range habitMessages {
		d, err := p.mem.Descriptor(4096+64*i, 1)
		if err != nil {
			return err
		}
		if err := errors.Join(d.SetSend(p.mem.Segment(4096+64*habitMessages, 32)), p.vi.PostSend(e.t, d)); err != nil {
			return err
		}
	}
	for range habitMessages {
		if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
			return err
		}
	}
	return p.drained()
}

func earlyHabit(e *env) error {
	p, list, err := e.met(writable)
	if err != nil {
		return err
	}
	p.heard(list)
	return p.drained()
}

func noMatchHabit(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	for range 20 {
		before := e.t.Now()
		_, err := p.vi.ConnectRequest(e.t, vipl.NetAddress{}, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: "nobody"}, host.Second)
		e.is("nobody waits", err, vipl.ErrNoMatch)
		e.that(fmt.Sprintf("after %v", e.t.Now()-before), e.t.Now()-before < host.Millisecond)
		p.inState("afterwards", vipl.Idle)
	}
	d, err := p.receive(0, 64)
	if err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	p.take("on the same VI", d, received(64))
	return p.drained()
}

// discriminatorHabit: the server checks who asks.
func discriminatorHabit(e *env) error {
	p, list, err := e.met(writable)
	if err != nil {
		return err
	}
	p.heard(list)
	return p.drained()
}

func emptyHabit(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	for _, take := range []func(*host.Thread) (*vipl.Descriptor, error){p.vi.RecvDone, p.vi.SendDone} {
		d, err := take(e.t)
		e.is("empty", err, vipl.ErrDescriptor)
		e.that("no descriptor", d == nil)
	}
	d, err := p.receive(0, 64)
	if err != nil {
		return err
	}
	got, err := p.vi.RecvDone(e.t)
	e.is("not empty", err, vipl.ErrNotDone)
	e.that("no descriptor", got == nil)
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	got, err = p.vi.RecvDone(e.t)
	e.flushed("it comes back", got, err)
	e.that("it is that one", got == d)
	return nil
}

func entryHabit(e *env) error {
	c, err := e.nic.CreateCQ(e.t, 4*habitMessages)
	if err != nil {
		return err
	}
	p, list, err := e.met(vipl.VIAttributes{SendCQ: c, RecvCQ: c})
	if err != nil {
		return err
	}
	for range habitMessages {
		if _, err := p.send(4096, 32); err != nil {
			return err
		}
	}
	// Both kinds come; without an entry there is nothing to take, and each entry is for one.
	var sends, receives int
	for sends+receives < 2*habitMessages {
		got, err := c.Wait(e.t, host.Second)
		if err != nil {
			return fmt.Errorf("after %d sends and %d receives: %w", sends, receives, err)
		}
		e.that("the VI of the entry", got.VI == p.vi)
		d, err := got.Done(e.t)
		e.is("descriptor of the entry", err, nil)
		if !got.Receive {
			sends++
			continue
		}
		e.that("in order", d == list[receives])
		receives++
	}
	_, err = c.Done(e.t)
	e.is("no entry is left", err, vipl.ErrNotDone)
	e.that("as many of each", sends == habitMessages && receives == habitMessages)
	return p.drained()
}

func reuseHabit(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	d, err := p.receive(0, 64)
	if err != nil {
		return err
	}
	again, err := p.receive(64, 64)
	if err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	p.take("first", d, received(64))
	for i := range d.Bytes() {
		d.Bytes()[i] = 0xee
	}
	p.take("second", again, received(64))
	if err := e.t.Sleep(host.Millisecond); err != nil {
		return err
	}
	e.that("nobody has written to it", bytes.Equal(d.Bytes(), bytes.Repeat([]byte{0xee}, len(d.Bytes()))))
	// And it can be posted again as it lies there.
	for range 4 {
		if err := errors.Join(d.SetSend(p.mem.Segment(4096, 32)), p.vi.PostSend(e.t, d)); err != nil {
			return err
		}
		p.sent("the same descriptor", d, outcome{operation: layout.StatusOperationSend, length: 32})
	}
	return p.drained()
}

func handleHabit(e *env) error {
	b, err := e.nic.Alloc(e.t, 8192)
	if err != nil {
		return err
	}
	handles := map[vipl.MemHandle]bool{}
	// More than there are entries, so that each comes again.
	for i := range 3 * e.nic.Query().MaxRegisterRegions / 2 {
		one, err := e.nic.RegisterBuffer(e.t, b, vipl.MemAttributes{})
		if err != nil {
			return err
		}
		two, err := e.nic.RegisterBuffer(e.t, b, vipl.MemAttributes{EnableRDMAWrite: true})
		if err != nil {
			return err
		}
		e.that(fmt.Sprintf("round %d: handles %#x and %#x", i, one.Handle(), two.Handle()),
			one.Handle() != 0 && two.Handle() != 0 && one.Handle() != two.Handle() && !handles[one.Handle()] && !handles[two.Handle()])
		handles[one.Handle()], handles[two.Handle()] = true, true
		if err := errors.Join(one.Deregister(e.t), two.Deregister(e.t)); err != nil {
			return err
		}
	}
	return e.nic.Free(e.t, b)
}

// zeroHabit: descriptors are in a region without attributes as ever; here the buffer is, too.
func zeroHabit(e *env) error {
	p, err := e.prepare(vipl.VIAttributes{Ptag: 0})
	if err != nil {
		return err
	}
	own, err := e.nic.RegisterBuffer(e.t, p.buf, vipl.MemAttributes{})
	if err != nil {
		return err
	}
	d := p.next()
	if err := errors.Join(d.SetReceive(own.Segment(0, 64)), p.vi.PostRecv(e.t, d)); err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	p.take("into memory without attributes", d, received(64))
	s := p.next()
	if err := errors.Join(s.SetSend(own.Segment(0, 64)), p.vi.PostSend(e.t, s)); err != nil {
		return err
	}
	p.sent("from memory without attributes", s, outcome{operation: layout.StatusOperationSend, length: 64})
	return p.drained()
}

func twiceHabit(e *env) error {
	p, list, err := e.met(writable)
	if err != nil {
		return err
	}
	p.heard(list)
	for range 3 {
		e.is("disconnect", p.vi.Disconnect(e.t), nil)
		p.inState("afterwards", vipl.Idle)
	}
	d, err := p.receive(0, 64)
	if err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	p.take("on the same VI", d, received(64))
	return errors.Join(p.drained(), p.vi.Destroy(e.t))
}

func linkHabit(e *env) error {
	p, list, err := e.met(writable)
	if err != nil {
		return err
	}
	for i, d := range list[:len(list)-1] {
		e.that(fmt.Sprintf("descriptor %d is linked to the next", i), raw(d).Next() == list[i+1].Address && raw(d).NextHandle() == uint32(list[i+1].Handle))
	}
	p.heard(list)
	// They are on a list of the program's now.
	for i, d := range list {
		raw(d).SetNext(uint64(i) * 0x1111)
		raw(d).SetNextHandle(uint32(i) * 0x2222)
	}
	for range habitMessages {
		d, err := p.send(4096, 32)
		if err != nil {
			return err
		}
		p.sent("others", d, outcome{operation: layout.StatusOperationSend, length: 32})
	}
	for i, d := range list {
		e.that(fmt.Sprintf("link of descriptor %d", i), raw(d).Next() == uint64(i)*0x1111 && raw(d).NextHandle() == uint32(i)*0x2222)
	}
	return p.drained()
}

func levelHabit(e *env) error {
	q := e.nic.Query()
	for _, level := range []vipl.ReliabilityLevel{vipl.Unreliable, vipl.ReliableDelivery, vipl.ReliableReception} {
		_, err := e.nic.CreateVI(e.t, vipl.VIAttributes{ReliabilityLevel: level})
		// What a program concludes is what it gets.
		if q.ReliabilityLevelSupport >= level {
			e.is(fmt.Sprintf("level %v of %v", level, q.ReliabilityLevelSupport), err, nil)
		} else {
			e.is(fmt.Sprintf("level %v of %v", level, q.ReliabilityLevelSupport), err, vipl.ErrInvalidReliabilityLevel)
		}
	}
	return nil
}
