// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"strings"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// reliableScenarios cover the reliable levels; each runs at both.
var reliableScenarios = []struct {
	name           string
	client, server func(e *Env, a vipl.VIAttributes) error
	reads          bool
}{
	{"messages", steadyClient, steadyServer, false},
	{"broken connections", brokenClient, brokenServer, false},
	{"broken by RDMA reads", brokenReadsClient, brokenReadsServer, true},
	{"levels that differ", differClient, differServer, false},
	{"RDMA read", readClient, readServer, true},
	{"fence", fenceClient, fenceServer, true},
	{"completion queues and reads", queuedReadClient, readServer, true},
}

var reliableLevels = []struct {
	name  string
	level vipl.ReliabilityLevel
}{{"reliable delivery", vipl.ReliableDelivery}, {"reliable reception", vipl.ReliableReception}}

func init() {
	for _, l := range reliableLevels {
		for _, s := range reliableScenarios {
			full := Scenario{Name: l.name + ": " + s.name, needs: []*Need{needLevel(l.level)}}
			if s.reads {
				full.needs = append(full.needs, needReadAt(l.level), needCQ)
			}
			bind := func(run func(e *Env, a vipl.VIAttributes) error) Main {
				return func(e *Env) error {
					return run(e, vipl.VIAttributes{ReliabilityLevel: l.level, EnableRDMAWrite: true, EnableRDMARead: e.NIC.Query().RDMAReadSupport != 0})
				}
			}
			full.client, full.server = bind(s.client), bind(s.server)
			Scenarios = append(Scenarios, full)
		}
	}
}

const (
	transportError  = layout.DescriptorStatusTransportErrorMask
	descriptorError = layout.DescriptorStatusRemoteDescriptorErrorMask
)

func DidSend(n int) outcome { return outcome{operation: layout.StatusOperationSend, length: n} }

func didWrite(n int) outcome {
	return outcome{operation: layout.StatusOperationRDMAWrite, length: n}
}

func didRead(n int) outcome {
	return outcome{operation: layout.StatusOperationRDMARead, length: n}
}

const steadyMessages = 60

// steadyClient keeps more messages in flight than the window, of every
// operation except reads. It checks that each completes once and in order.
func steadyClient(e *Env, a vipl.VIAttributes) error {
	p := must(e.Dial(1, a))
	to := must(p.Hear())
	copy(p.Mem.Bytes(), Pattern(65536, 1))
	var posted []*vipl.Descriptor
	var want []outcome
	for i := range steadyMessages {
		n := steadyBytes(i)
		d := p.Next()
		switch i % 3 {
		case 0:
			check(d.SetSend(p.Mem.Segment(i, n)))
			want = append(want, DidSend(n))
		case 1:
			d.SetRDMAWrite(to.Address+steadyTarget, to.Handle, p.Mem.Segment(i, n))
			want = append(want, didWrite(n))
		default:
			d.SetRDMAWrite(to.Address+steadyTarget, to.Handle, p.Mem.Segment(i, n))
			d.AttachImmediate(uint32(i))
			want = append(want, didWrite(n))
		}
		check(p.VI.PostSend(p.T, d))
		posted = append(posted, d)
	}
	for i, d := range posted {
		p.Sent(fmt.Sprintf("message %d", i), d, want[i])
	}
	p.ended("all")
	return p.Settled(1)
}

func steadyBytes(i int) int { return []int{0, 4, 1472, 1473, 40000, 1}[i%6] }

const steadyTarget = 41000

func steadyServer(e *Env, a vipl.VIAttributes) error {
	p := must(e.Serve(a))
	posted := map[int]*vipl.Descriptor{}
	for i := range steadyMessages {
		if i%3 == 1 {
			continue
		}
		posted[i] = must(p.Receive(0, 40960))
	}
	check(p.Tell(0))
	source := Pattern(65536, 1)
	for i := range steadyMessages {
		n, what := steadyBytes(i), fmt.Sprintf("message %d", i)
		switch i % 3 {
		case 0:
			p.Take(what, posted[i], Received(n))
			if i+3 >= steadyMessages { // later writes would overwrite it
				e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[:n], source[i:][:n]))
			}
		case 2:
			p.Take(what, posted[i], outcome{operation: layout.StatusOperationRemoteRDMAWrite, length: n}.with(uint32(i)))
		}
	}
	last := steadyMessages - 1 // an RDMA write: all earlier messages have arrived
	e.That("the last write", bytes.Equal(p.Mem.Bytes()[steadyTarget:][:steadyBytes(last)], source[last:][:steadyBytes(last)]))
	p.ended("all")
	return p.Settled(0)
}

// targets is the server's memory in several registrations.
type targets struct{ open, closed, stale Remote }

func (p *Peer) tellTargets() (*caseMemory, error) {
	m := &caseMemory{}
	q := p.NIC.Query()
	open := must(p.NIC.RegisterBuffer(p.T, p.buf, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: q.RDMAReadSupport != 0}))
	closed := must(p.NIC.RegisterBuffer(p.T, p.buf, vipl.MemAttributes{}))
	m.stale = must(p.NIC.RegisterBuffer(p.T, p.buf, vipl.MemAttributes{EnableRDMAWrite: true}))
	check(m.stale.Deregister(p.T))
	tag := must(p.NIC.CreatePtag(p.T))
	m.foreign = must(p.NIC.RegisterBuffer(p.T, p.buf, vipl.MemAttributes{Ptag: tag}))
	for _, r := range []*vipl.Region{open, closed, m.stale} {
		check((&Peer{Env: p.Env, Mem: r}).Tell(0))
	}
	return m, nil
}

func (p *Peer) hearTargets() (t targets, err error) {
	all := must(p.hearAll(3))
	return targets{all[0], all[1], all[2]}, nil
}

// A breach is one way to break a connection.
type breach struct {
	name string
	// receive makes the server's faulty receive descriptor; nil means none is
	// posted.
	receive func(d *vipl.Descriptor, p *Peer, m *caseMemory) error
	// send makes the client's descriptor.
	send func(d *vipl.Descriptor, p *Peer, to targets) error
	// The outcome of the two descriptors.
	sent, received outcome
	// The errors of each side before ConnectionLost.
	client, server []layout.AsyncError
	noRight        bool // the server's VI allows no RDMA
}

const breachBytes = 3000

func sendBytes(n int) func(d *vipl.Descriptor, p *Peer, _ targets) error {
	return func(d *vipl.Descriptor, p *Peer, _ targets) error { return d.SetSend(p.Mem.Segment(0, n)) }
}

// badSend is a send that its own card rejects.
func badSend(change func(d *vipl.Descriptor)) func(d *vipl.Descriptor, p *Peer, _ targets) error {
	return func(d *vipl.Descriptor, p *Peer, _ targets) error {
		err := d.SetSend(p.Mem.Segment(0, breachBytes))
		change(d)
		return err
	}
}

func segmentOf(d *vipl.Descriptor) layout.DataSegment {
	return layout.DataSegment(d.Bytes()[layout.DescriptorSize:])
}

func writeTo(pick func(to targets) Remote, immediate bool) func(d *vipl.Descriptor, p *Peer, to targets) error {
	return func(d *vipl.Descriptor, p *Peer, to targets) error {
		g := pick(to)
		d.SetRDMAWrite(g.Address, g.Handle, p.Mem.Segment(0, breachBytes))
		if immediate {
			d.AttachImmediate(77)
		}
		return nil
	}
}

func goodReceive(d *vipl.Descriptor, p *Peer, _ *caseMemory) error {
	return d.SetReceive(p.Mem.Segment(0, breachBytes))
}

func badReceive(change func(d *vipl.Descriptor, m *caseMemory)) func(d *vipl.Descriptor, p *Peer, m *caseMemory) error {
	return func(d *vipl.Descriptor, p *Peer, m *caseMemory) error {
		err := goodReceive(d, p, m)
		change(d, m)
		return err
	}
}

var beyond = func(to targets) Remote {
	return Remote{to.open.Address + bufferBytes - breachBytes + 1, to.open.Handle}
}

// breaches are the ways, without reads, in which a program can break a reliable
// connection.
var breaches = []breach{
	{name: "malformed send", receive: goodReceive, send: badSend(func(d *vipl.Descriptor) { Raw(d).SetControl(0x8000) }),
		sent: DidSend(0).failed(formatError), received: Received(0).failed(FlushedError)},
	{name: "send of a wrong length", receive: goodReceive, send: badSend(func(d *vipl.Descriptor) { Raw(d).SetLength(breachBytes + 1) }),
		sent: DidSend(0).failed(lengthError), received: Received(0).failed(FlushedError)},
	{name: "send from memory of others", receive: goodReceive, send: badSend(func(d *vipl.Descriptor) { segmentOf(d).SetHandle(segmentOf(d).Handle() ^ 0x80) }),
		sent: DidSend(0).failed(ProtectionError), received: Received(0).failed(FlushedError)},
	{name: "no receive posted", send: sendBytes(breachBytes),
		sent: DidSend(0).failed(descriptorError), server: []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}},
	{name: "no receive for a write with immediate data", send: writeTo(func(to targets) Remote { return to.open }, true),
		sent: didWrite(0).failed(descriptorError), server: []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}},
	{name: "malformed receive", receive: badReceive(func(d *vipl.Descriptor, _ *caseMemory) { Raw(d).SetControl(0x4000) }), send: sendBytes(breachBytes),
		sent: DidSend(0).failed(descriptorError), received: Received(0).failed(formatError)},
	{name: "receive that is too small", receive: badReceive(func(d *vipl.Descriptor, _ *caseMemory) {
		Raw(d).SetLength(breachBytes - 1)
		segmentOf(d).SetLength(breachBytes - 1)
	}), send: sendBytes(breachBytes), sent: DidSend(0).failed(descriptorError), received: Received(breachBytes - 1).failed(lengthError)},
	{name: "receive into deregistered memory", receive: badReceive(func(d *vipl.Descriptor, m *caseMemory) { segmentOf(d).SetHandle(uint32(m.stale.Handle())) }),
		send: sendBytes(breachBytes), sent: DidSend(0).failed(descriptorError), received: Received(0).failed(ProtectionError)},
	{name: "receive into memory of another tag", receive: badReceive(func(d *vipl.Descriptor, m *caseMemory) { segmentOf(d).SetHandle(uint32(m.foreign.Handle())) }),
		send: sendBytes(breachBytes), sent: DidSend(0).failed(descriptorError), received: Received(0).failed(ProtectionError)},
	{name: "write without the region's right", receive: goodReceive, send: writeTo(func(to targets) Remote { return to.closed }, false),
		sent: didWrite(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "write to deregistered memory", receive: goodReceive, send: writeTo(func(to targets) Remote { return to.stale }, false),
		sent: didWrite(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "write without the VI's right", noRight: true, receive: goodReceive, send: writeTo(func(to targets) Remote { return to.open }, false),
		sent: didWrite(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "write with immediate data, rejected", receive: goodReceive, send: writeTo(func(to targets) Remote { return to.closed }, true),
		sent:     didWrite(0).failed(rdmaError),
		received: outcome{operation: layout.StatusOperationRemoteRDMAWrite}.failed(rdmaError).with(77)},
	{name: "write beyond the region", receive: goodReceive, send: writeTo(beyond, false),
		sent: didWrite(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "send that the card cannot reach", receive: goodReceive, send: func(d *vipl.Descriptor, p *Peer, to targets) error {
		d.Handle ^= 0x20
		return sendBytes(4)(d, p, to)
	}, sent: DidSend(0).failed(FlushedError), received: Received(0).failed(FlushedError), client: []layout.AsyncError{layout.AsyncErrorPostDescriptor}},
}

// readFrom makes an RDMA read; change may modify its descriptor.
func readFrom(pick func(to targets) Remote, change func(d *vipl.Descriptor)) func(d *vipl.Descriptor, p *Peer, to targets) error {
	return func(d *vipl.Descriptor, p *Peer, to targets) error {
		g := pick(to)
		d.SetRDMARead(g.Address, g.Handle, p.Mem.Segment(0, breachBytes))
		if change != nil {
			change(d)
		}
		return nil
	}
}

var (
	openTarget = func(to targets) Remote { return to.open }
	readRow    = []layout.AsyncError{layout.AsyncErrorRDMAReadProtection}
)

// readData is the data segment of a read.
func readData(d *vipl.Descriptor) layout.DataSegment {
	return layout.DataSegment(d.Bytes()[layout.DescriptorSize+layout.AddressSegmentSize:])
}

var readBreaches = []breach{
	{name: "read without the region's right", receive: goodReceive, send: readFrom(func(to targets) Remote { return to.closed }, nil),
		sent: didRead(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: readRow},
	{name: "read of deregistered memory", receive: goodReceive, send: readFrom(func(to targets) Remote { return to.stale }, nil),
		sent: didRead(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: readRow},
	{name: "read beyond the region", receive: goodReceive, send: readFrom(beyond, nil),
		sent: didRead(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: readRow},
	{name: "read without the VI's right", noRight: true, receive: goodReceive, send: readFrom(openTarget, nil),
		sent: didRead(0).failed(rdmaError), received: Received(0).failed(FlushedError), server: readRow},
	{name: "read into memory of others", receive: goodReceive, send: readFrom(openTarget, func(d *vipl.Descriptor) { readData(d).SetHandle(readData(d).Handle() ^ 0x80) }),
		sent: didRead(0).failed(ProtectionError), received: Received(0).failed(FlushedError)},
	{name: "read into too little memory", receive: goodReceive, send: readFrom(openTarget, func(d *vipl.Descriptor) { readData(d).SetLength(breachBytes - 1) }),
		sent: didRead(0).failed(lengthError), received: Received(0).failed(FlushedError)},
	{name: "read with immediate data", receive: goodReceive, send: readFrom(openTarget, func(d *vipl.Descriptor) { d.AttachImmediate(1) }),
		sent: didRead(0).failed(formatError), received: Received(0).failed(FlushedError)},
}

func brokenClient(e *Env, a vipl.VIAttributes) error { return breakClient(e, a, breaches) }

func brokenServer(e *Env, a vipl.VIAttributes) error { return breakServer(e, a, breaches) }

func brokenReadsClient(e *Env, a vipl.VIAttributes) error { return breakClient(e, a, readBreaches) }

func brokenReadsServer(e *Env, a vipl.VIAttributes) error { return breakServer(e, a, readBreaches) }

// broken checks the errors of a broken connection and the error state of its
// VI.
func (p *Peer) broken(what string, before []layout.AsyncError) {
	for _, code := range before {
		p.Asynchronous(what, code, p.VI)
	}
	first := p.T.Now()
	p.Asynchronous(what, layout.AsyncErrorConnectionLost, p.VI)
	if len(before) > 0 && p.T.Timed() {
		p.That(what+": ConnectionLost follows the cause at once", p.T.Now()-first < Promptly)
	}
	p.InState(what, vipl.ErrorState)
}

// retire checks that a broken VI reports nothing more, and destroys it.
func (p *Peer) retire(what string, node int) error {
	Step(p.Meet(node), "%s", what)
	p.ended(what)
	p.Is(what+": disconnect", p.VI.Disconnect(p.T), nil)
	p.InState(what+": disconnected", vipl.Idle)
	p.ended(what + ": disconnected")
	p.Is(what+": destroy", p.VI.Destroy(p.T), nil)
	return nil
}

func breakClient(e *Env, a vipl.VIAttributes, all []breach) error {
	first := must(e.Dial(1, a))
	to := must(first.hearTargets())
	for _, b := range all {
		p, err := first.Another(a, 0)
		Step(err, "%s", b.name)
		Step(p.Meet(1), "%s", b.name)
		waiting := must(p.Receive(4096, 8))
		d := p.Next()
		check(b.send(d, p, to))
		behind := p.Next()
		check(behind.SetSend(p.Mem.Segment(0, 4)))
		behind.SetFence()
		for _, d := range []*vipl.Descriptor{d, behind} {
			check(p.VI.PostSend(p.T, d))
		}
		if b.sent.bits != FlushedError {
			p.Sent(b.name, d, b.sent)
		}
		p.broken(b.name, b.client)
		if b.client == nil { // otherwise the card has not fetched all of them
			e.That(b.name+": the card has flushed the rest", behind.Status()&vipl.DescriptorDone != 0 && waiting.Status()&vipl.DescriptorDone != 0)
		}
		if b.sent.bits == FlushedError {
			p.Sent(b.name, d, b.sent)
		}
		p.Sent(b.name+": what is behind it", behind, DidSend(0).failed(FlushedError))
		p.Take(b.name+": what waits on the other queue", waiting, Received(0).failed(FlushedError))
		must(p.Send(0, 4))
		later, err := p.VI.SendWait(p.T, host.Second)
		e.Flushed(b.name+": sent in the error state", later, err)
		check(p.retire(b.name, 1))
	}
	// The first VI stays connected throughout.
	d := must(first.Send(0, breachBytes))
	first.Sent("other VIs go on", d, DidSend(breachBytes))
	return first.Settled(1)
}

func breakServer(e *Env, a vipl.VIAttributes, all []breach) error {
	first := must(e.Serve(a))
	m := must(first.tellTargets())
	last := must(first.Receive(0, breachBytes))
	for _, b := range all {
		own := a
		if b.noRight {
			own.EnableRDMARead, own.EnableRDMAWrite = false, false
		}
		p, err := first.Another(own, 16)
		Step(err, "%s", b.name)
		var d, behind *vipl.Descriptor
		if b.receive != nil {
			d = p.Next()
			check(b.receive(d, p, m))
			check(p.VI.PostRecv(p.T, d))
			behind = must(p.Receive(0, breachBytes))
		}
		Step(p.Meet(0), "%s", b.name)
		p.broken(b.name, b.server)
		if b.receive != nil {
			e.That(b.name+": the card has completed all", d.Status()&vipl.DescriptorDone != 0 && behind.Status()&vipl.DescriptorDone != 0)
			p.Take(b.name, d, b.received)
			p.Take(b.name+": what is behind it", behind, Received(0).failed(FlushedError))
		}
		check(p.retire(b.name, 0))
	}
	first.Take("other VIs go on", last, Received(breachBytes))
	return first.Settled(0)
}

func differClient(e *Env, a vipl.VIAttributes) error {
	p, err := e.Dial(1, a)
	if p == nil {
		return err
	}
	e.Is("another level", err, vipl.ErrReject)
	p.InState("rejected", vipl.Idle)
	e.Is("set the other level", p.VI.SetAttributes(e.T, vipl.VIAttributes{ReliabilityLevel: vipl.Unreliable}), nil)
	check(p.Redial(1))
	return p.Settled(1)
}

func differServer(e *Env, _ vipl.VIAttributes) error {
	p := must(e.Prepare(vipl.VIAttributes{}))
	here := vipl.NetAddress{Discriminator: "test"}
	r := must(e.NIC.ConnectWait(e.T, here, host.Second))
	e.Is("accept with another level", r.Accept(e.T, p.VI), vipl.ErrInvalidReliabilityLevel)
	e.Is("reject", r.Reject(e.T), nil)
	check(p.Again())
	return p.Settled(0)
}

// readServer provides memory for reads and stays idle.
func readServer(e *Env, a vipl.VIAttributes) error {
	p := must(e.Serve(a))
	copy(p.Mem.Bytes(), Pattern(bufferBytes, 3))
	must(p.tellTargets())
	return p.Settled(0)
}

func readClient(e *Env, a vipl.VIAttributes) error {
	p := must(e.Dial(1, a))
	to := must(p.hearTargets())
	source := Pattern(bufferBytes, 3)
	for _, r := range []struct{ from, to, n int }{{0, 0, 0}, {1, 2, 1}, {4095, 3, 2}, {17, 4093, 1471}, {0, 0, 1472}, {5, 8190, 1473}, {4096, 1, 9001}, {3, 13, 65536}} {
		clear(p.Mem.Bytes())
		d := p.Next()
		d.SetRDMARead(to.open.Address+uint64(r.from), to.open.Handle, p.Mem.Segment(r.to, r.n))
		check(p.VI.PostSend(e.T, d))
		what := fmt.Sprintf("read %+v", r)
		p.Sent(what, d, didRead(r.n))
		want := make([]byte, bufferBytes)
		copy(want[r.to:], source[r.from:][:r.n])
		check(p.memory(what, want))
	}

	// A read of no bytes checks neither address nor handle.
	d := p.Next()
	d.SetRDMARead(12345, 0, vipl.Segment{})
	check(p.VI.PostSend(e.T, d))
	p.Sent("a read of nothing", d, didRead(0))

	// Use the most segments a descriptor can have.
	wide := must(p.Wide(vipl.MaxSegments))
	clear(p.Mem.Bytes())
	want := make([]byte, bufferBytes)
	var pieces []vipl.Segment
	n := 0
	for i := range vipl.MaxSegments {
		at, length := 250*i+i%7, i%97
		pieces = append(pieces, p.Mem.Segment(at, length))
		copy(want[at:], source[100+n:][:length])
		n += length
	}
	check(wide.SetRDMARead(to.open.Address+100, to.open.Handle, pieces...))
	check(p.VI.PostSend(e.T, wide))
	p.Sent("many segments", wide, didRead(n))
	check(p.memory("many segments", want))

	// Post more reads than may be outstanding, with other messages between
	// them.
	const reads = 20
	clear(p.Mem.Bytes())
	var posted []*vipl.Descriptor
	for i := range reads {
		d := p.Next()
		if i%4 == 3 {
			d.SetRDMAWrite(to.open.Address+bufferBytes-8, to.open.Handle, p.Mem.Segment(70000, 4))
		} else {
			d.SetRDMARead(to.open.Address+uint64(1000*i), to.open.Handle, p.Mem.Segment(3000*i, 2900))
		}
		check(p.VI.PostSend(e.T, d))
		posted = append(posted, d)
	}
	for i, d := range posted {
		what := fmt.Sprintf("one of many, %d", i)
		if i%4 == 3 {
			p.Sent(what, d, didWrite(4))
			continue
		}
		p.Sent(what, d, didRead(2900))
		e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[3000*i:][:2900], source[1000*i:][:2900]))
	}
	p.ended("all")
	return p.Settled(1)
}

// fenceClient writes the bytes of a read elsewhere: the fence makes the write
// wait for the read.
func fenceClient(e *Env, a vipl.VIAttributes) error {
	p := must(e.Dial(1, a))
	to := must(p.Hear())
	const n = 30000
	for round := range 3 {
		if round > 0 {
			check(p.Meet(1))
		}
		clear(p.Mem.Bytes())
		read, write, plain := p.Next(), p.Next(), p.Next()
		read.SetRDMARead(to.Address, to.Handle, p.Mem.Segment(0, n))
		write.SetRDMAWrite(to.Address+40000, to.Handle, p.Mem.Segment(0, n))
		write.SetFence()
		check(plain.SetSend(p.Mem.Segment(n-8, 8))) // the fence delays it, too
		for _, d := range []*vipl.Descriptor{read, write, plain} {
			check(p.VI.PostSend(e.T, d))
		}
		what := fmt.Sprintf("round %d", round)
		p.Sent(what+": read", read, didRead(n))
		p.Sent(what+": write", write, didWrite(n))
		p.Sent(what+": send", plain, DidSend(8))
	}
	return p.Settled(1)
}

func fenceServer(e *Env, a vipl.VIAttributes) error {
	p := must(e.Serve(a))
	open := must(e.NIC.RegisterBuffer(e.T, p.buf, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}))
	const n = 30000
	for round := range 3 {
		copy(p.Mem.Bytes(), Pattern(n, round))
		d := must(p.Receive(75000, 8))
		if round == 0 {
			check((&Peer{Env: e, Mem: open}).Tell(0))
		} else if err := p.Meet(0); err != nil {
			return err
		}
		what := fmt.Sprintf("round %d", round)
		p.Take(what, d, Received(8))
		e.That(what+": what was read was written", bytes.Equal(p.Mem.Bytes()[40000:][:n], Pattern(n, round)))
		e.That(what+": and sent", bytes.Equal(p.Mem.Bytes()[75000:][:8], Pattern(n, round)[n-8:]))
	}
	return p.Settled(0)
}

// queuedReadClient sleeps on a completion queue until its reads complete.
func queuedReadClient(e *Env, a vipl.VIAttributes) error {
	c := must(e.NIC.CreateCQ(e.T, 32))
	c.Blocking.Store(true)
	a.SendCQ = c
	p := must(e.Dial(1, a))
	to := must(p.hearTargets())
	source := Pattern(bufferBytes, 3)
	var posted []*vipl.Descriptor
	for i := range 10 {
		d := p.Next()
		d.SetRDMARead(to.open.Address+uint64(i), to.open.Handle, p.Mem.Segment(2000*i, 2000))
		check(p.VI.PostSend(e.T, d))
		posted = append(posted, d)
	}
	for i, d := range posted {
		what := fmt.Sprintf("read %d", i)
		e.Entry(what, c, p.VI, false)
		p.taken(what, false, d, didRead(2000))
		e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[2000*i:][:2000], source[i:][:2000]))
	}
	// An error fails one read and flushes the rest. Each has its entry.
	bad, behind := p.Next(), p.Next()
	bad.SetRDMARead(to.closed.Address, to.closed.Handle, p.Mem.Segment(0, 4))
	behind.SetRDMARead(to.open.Address, to.open.Handle, p.Mem.Segment(0, 4))
	behind.SetFence()
	for _, d := range []*vipl.Descriptor{bad, behind} {
		check(p.VI.PostSend(e.T, d))
	}
	e.Entry("rejected", c, p.VI, false)
	p.taken("rejected", false, bad, didRead(0).failed(rdmaError))
	e.Entry("flushed", c, p.VI, false)
	p.taken("flushed", false, behind, didRead(0).failed(FlushedError))
	e.nothing("no more", c)
	p.broken("rejected", nil)
	return p.Settled(1)
}

func isReliable(s Scenario) bool {
	for _, l := range reliableLevels {
		if strings.HasPrefix(s.Name, l.name) {
			return true
		}
	}
	return false
}
