// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// habits are what programs for other providers rely on, beyond the text of the
// specification.
var habits = []Scenario{
	{Name: "habit 1: descriptors of 64 bytes lie back to back, a buffer directly behind", client: compactHabit, server: sinkHabit},
	{Name: "habit 2: receives posted while idle serve the connection", client: earlyHabit, server: sinkHabit},
	{Name: "habit 3: no match comes fast and leaves the VI usable", client: noMatchHabit, server: sinkHabit},
	{Name: "habit 4: the requester's discriminator comes with its request", client: discriminatorHabit, server: sinkHabit},
	{Name: "habit 5: done on an empty queue is a descriptor error without a descriptor", client: emptyHabit},
	{Name: "habit 6: each completion of a tied queue has its entry, and the entry its descriptor", client: entryHabit, server: sinkHabit},
	{Name: "habit 7: memory of a descriptor is the program's as soon as it is taken", client: reuseHabit, server: sinkHabit},
	{Name: "habit 8: handles are not 0 and a range is registered twice", client: handleHabit},
	{Name: "habit 9: no memory attributes and tag 0 fit together", client: zeroHabit, server: sinkHabit},
	{Name: "habit 10: disconnect twice does no harm", client: twiceHabit, server: sinkHabit},
	{Name: "habit 11: links of descriptors that are not posted stay as they are", client: linkHabit, server: sinkHabit},
	{Name: "habit 12: levels are compared with >=", client: levelHabit},
}

const habitMessages = 8

// sinkHabit accepts a connection in each round, exchanges a few messages, and
// ends with the client.
func sinkHabit(e *Env) error {
	p := must(e.Prepare(Writable))
	for {
		for i := range habitMessages {
			must(p.Receive(64*i, 64))
		}
		r, err := e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, 200*host.Millisecond)
		if errors.Is(err, vipl.ErrTimeout) {
			return nil
		}
		if err != nil {
			return err
		}
		e.That("the requester is "+r.RemoteAddress.String(), r.RemoteAddress == vipl.At(0, "client"))
		check(r.Accept(e.T, p.VI))
		for i := range habitMessages {
			copy(p.Mem.Bytes()[4096:], Pattern(64, i))
			d := must(p.Send(4096, 64))
			got, err := p.VI.SendWait(e.T, host.Second)
			e.That("in order", got == d)
			if err != nil { // the client is done and has left
				break
			}
		}
		for range Attempts {
			if i, err := p.VI.Query(e.T); err != nil || i.State == vipl.ErrorState {
				break
			}
			check(e.T.Sleep(200 * host.Microsecond))
		}
		p.InState("the client has left", vipl.ErrorState)
		check(p.drained())
	}
}

// drained disconnects and reaps every descriptor, as all clients do.
func (p *Peer) drained() error {
	check(p.VI.Disconnect(p.T))
	for _, take := range []func(*host.Thread) (*vipl.Descriptor, error){p.VI.RecvDone, p.VI.SendDone} {
		for {
			d, err := take(p.T)
			if d == nil {
				p.Is("drained", err, vipl.ErrDescriptor)
				break
			}
		}
	}
	return nil
}

// met posts receives and connects.
func (e *Env) met(a vipl.VIAttributes) (*Peer, []*vipl.Descriptor, error) {
	p := must(e.Prepare(a))
	var list []*vipl.Descriptor
	for i := range habitMessages {
		list = append(list, must(p.Receive(64*i, 64)))
	}
	return p, list, p.Redial(1)
}

// heard reaps the server's messages.
func (p *Peer) heard(list []*vipl.Descriptor) {
	for i, d := range list {
		p.Take(fmt.Sprintf("message %d", i), d, Received(64))
		p.That(fmt.Sprintf("bytes of message %d", i), bytes.Equal(p.Mem.Bytes()[64*i:64*i+64], Pattern(64, i)))
	}
}

func compactHabit(e *Env) error {
	e.That("the size of a descriptor", vipl.DescriptorBytes == 64 && layout.DescriptorAlignment == 64)
	p := must(e.Prepare(Writable))
	// Descriptors and buffers alternate without a gap; the last slots hold
	// descriptors only.
	var list []*vipl.Descriptor
	for i := range habitMessages {
		d := must(p.Mem.Descriptor(128*i, 1))
		check(errors.Join(d.SetReceive(p.Mem.Segment(128*i+64, 64)), p.VI.PostRecv(e.T, d)))
		list = append(list, d)
	}
	check(p.Redial(1))
	for i, d := range list {
		p.Take("packed", d, Received(64))
		e.That("bytes behind the descriptor", bytes.Equal(p.Mem.Bytes()[128*i+64:128*i+128], Pattern(64, i)))
	}
	for i := range habitMessages {
		d := must(p.Mem.Descriptor(4096+64*i, 1))
		check(errors.Join(d.SetSend(p.Mem.Segment(4096+64*habitMessages, 32)), p.VI.PostSend(e.T, d)))
	}
	for range habitMessages {
		must(p.VI.SendWait(e.T, host.Second))
	}
	return p.drained()
}

func earlyHabit(e *Env) error {
	p, list := must2(e.met(Writable))
	p.heard(list)
	return p.drained()
}

func noMatchHabit(e *Env) error {
	p := must(e.Prepare(Writable))
	for range 20 {
		before := e.T.Now()
		e.Is("nobody waits", errOf(p.VI.ConnectRequest(e.T, vipl.NetAddress{}, vipl.At(1, "nobody"), host.Second)), vipl.ErrNoMatch)
		e.That(fmt.Sprintf("after %v", e.T.Now()-before), e.T.Now()-before < host.Millisecond)
		p.InState("afterwards", vipl.Idle)
	}
	d := must(p.Receive(0, 64))
	check(p.Redial(1))
	p.Take("on the same VI", d, Received(64))
	return p.drained()
}

// discriminatorHabit makes the server check the client's discriminator.
func discriminatorHabit(e *Env) error {
	p, list := must2(e.met(Writable))
	p.heard(list)
	return p.drained()
}

func emptyHabit(e *Env) error {
	p := must(e.Prepare(Writable))
	for _, take := range []func(*host.Thread) (*vipl.Descriptor, error){p.VI.RecvDone, p.VI.SendDone} {
		d, err := take(e.T)
		e.Is("empty", err, vipl.ErrDescriptor)
		e.That("no descriptor", d == nil)
	}
	d := must(p.Receive(0, 64))
	got, err := p.VI.RecvDone(e.T)
	e.Is("not empty", err, vipl.ErrNotDone)
	e.That("no descriptor", got == nil)
	e.Is("disconnect", p.VI.Disconnect(e.T), nil)
	got, err = p.VI.RecvDone(e.T)
	e.Flushed("it comes back", got, err)
	e.That("it is that one", got == d)
	return nil
}

func entryHabit(e *Env) error {
	c := must(e.NIC.CreateCQ(e.T, 4*habitMessages))
	p, list := must2(e.met(vipl.VIAttributes{SendCQ: c, RecvCQ: c}))
	for range habitMessages {
		must(p.Send(4096, 32))
	}
	// Both kinds of entries arrive, and each allows exactly one reap.
	var sends, receives int
	for sends+receives < 2*habitMessages {
		got, err := c.Wait(e.T, host.Second)
		Step(err, "after %d sends and %d receives", sends, receives)
		e.That("the VI of the entry", got.VI == p.VI)
		d, err := got.Done(e.T)
		e.Is("descriptor of the entry", err, nil)
		if !got.Receive {
			sends++
			continue
		}
		e.That("in order", d == list[receives])
		receives++
	}
	e.Is("no entry is left", errOf(c.Done(e.T)), vipl.ErrNotDone)
	e.That("as many of each", sends == habitMessages && receives == habitMessages)
	return p.drained()
}

func reuseHabit(e *Env) error {
	p := must(e.Prepare(Writable))
	d := must(p.Receive(0, 64))
	again := must(p.Receive(64, 64))
	check(p.Redial(1))
	p.Take("first", d, Received(64))
	for i := range d.Bytes() {
		d.Bytes()[i] = 0xee
	}
	p.Take("second", again, Received(64))
	check(e.T.Sleep(host.Millisecond))
	e.That("nobody has written to it", bytes.Equal(d.Bytes(), bytes.Repeat([]byte{0xee}, len(d.Bytes()))))
	// The program can post the descriptor again, unchanged.
	for range 4 {
		check(errors.Join(d.SetSend(p.Mem.Segment(4096, 32)), p.VI.PostSend(e.T, d)))
		p.Sent("the same descriptor", d, outcome{operation: layout.StatusOperationSend, length: 32})
	}
	return p.drained()
}

func handleHabit(e *Env) error {
	b := must(e.NIC.Alloc(e.T, 8192))
	handles := map[vipl.MemHandle]bool{}
	// Register more often than the table has entries, so each entry is reused.
	for i := range 3 * e.NIC.Query().MaxRegisterRegions / 2 {
		one := must(e.NIC.RegisterBuffer(e.T, b, vipl.MemAttributes{}))
		two := must(e.NIC.RegisterBuffer(e.T, b, vipl.MemAttributes{EnableRDMAWrite: true}))
		e.That(fmt.Sprintf("round %d: handles %#x and %#x", i, one.Handle(), two.Handle()),
			one.Handle() != 0 && two.Handle() != 0 && one.Handle() != two.Handle() && !handles[one.Handle()] && !handles[two.Handle()])
		handles[one.Handle()], handles[two.Handle()] = true, true
		check(errors.Join(one.Deregister(e.T), two.Deregister(e.T)))
	}
	return e.NIC.Free(e.T, b)
}

// zeroHabit registers the buffer, like the descriptors, without attributes.
func zeroHabit(e *Env) error {
	p := must(e.Prepare(vipl.VIAttributes{Ptag: 0}))
	own := must(e.NIC.RegisterBuffer(e.T, p.buf, vipl.MemAttributes{}))
	d := p.Next()
	check(errors.Join(d.SetReceive(own.Segment(0, 64)), p.VI.PostRecv(e.T, d)))
	check(p.Redial(1))
	p.Take("into memory without attributes", d, Received(64))
	s := p.Next()
	check(errors.Join(s.SetSend(own.Segment(0, 64)), p.VI.PostSend(e.T, s)))
	p.Sent("from memory without attributes", s, outcome{operation: layout.StatusOperationSend, length: 64})
	return p.drained()
}

func twiceHabit(e *Env) error {
	p, list := must2(e.met(Writable))
	p.heard(list)
	for range 3 {
		e.Is("disconnect", p.VI.Disconnect(e.T), nil)
		p.InState("afterwards", vipl.Idle)
	}
	d := must(p.Receive(0, 64))
	check(p.Redial(1))
	p.Take("on the same VI", d, Received(64))
	return errors.Join(p.drained(), p.VI.Destroy(e.T))
}

func linkHabit(e *Env) error {
	p, list := must2(e.met(Writable))
	for i, d := range list[:len(list)-1] {
		e.That(fmt.Sprintf("descriptor %d is linked to the next", i), Raw(d).Next() == list[i+1].Address && Raw(d).NextHandle() == uint32(list[i+1].Handle))
	}
	p.heard(list)
	// The program links the reaped descriptors into a list.
	for i, d := range list {
		Raw(d).SetNext(uint64(i) * 0x1111)
		Raw(d).SetNextHandle(uint32(i) * 0x2222)
	}
	for range habitMessages {
		d := must(p.Send(4096, 32))
		p.Sent("others", d, outcome{operation: layout.StatusOperationSend, length: 32})
	}
	for i, d := range list {
		e.That(fmt.Sprintf("link of descriptor %d", i), Raw(d).Next() == uint64(i)*0x1111 && Raw(d).NextHandle() == uint32(i)*0x2222)
	}
	return p.drained()
}

func levelHabit(e *Env) error {
	q := e.NIC.Query()
	for _, level := range []vipl.ReliabilityLevel{vipl.Unreliable, vipl.ReliableDelivery, vipl.ReliableReception} {
		_, err := e.NIC.CreateVI(e.T, vipl.VIAttributes{ReliabilityLevel: level})
		// The NIC supports each level that its attributes promise.
		if q.ReliabilityLevelSupport >= level {
			e.Is(fmt.Sprintf("level %v of %v", level, q.ReliabilityLevelSupport), err, nil)
		} else {
			e.Is(fmt.Sprintf("level %v of %v", level, q.ReliabilityLevelSupport), err, vipl.ErrInvalidReliabilityLevel)
		}
	}
	return nil
}
