// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// reliableScenarios are those of the reliable levels; each is run at both.
var reliableScenarios = []struct {
	name           string
	client, server func(e *env, a vipl.VIAttributes) error
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
			full := scenario{name: l.name + ": " + s.name}
			bind := func(run func(e *env, a vipl.VIAttributes) error) main {
				return func(e *env) error {
					return run(e, vipl.VIAttributes{ReliabilityLevel: l.level, EnableRDMAWrite: true, EnableRDMARead: e.nic.Query().RDMAReadSupport != 0})
				}
			}
			full.client, full.server = bind(s.client), bind(s.server)
			scenarios = append(scenarios, full)
			cardOnly[full.name] = "M-VIA is unreliable"
			features[full.name] = func(a vipl.NICAttributes) bool {
				return a.ReliabilityLevelSupport&l.level != 0 && (!s.reads || a.RDMAReadSupport&l.level != 0 && a.MaxCQ > 0)
			}
		}
	}
}

const (
	transportError  = layout.DescriptorStatusTransportErrorMask
	descriptorError = layout.DescriptorStatusRemoteDescriptorErrorMask
)

func didSend(n int) outcome { return outcome{operation: layout.StatusOperationSend, length: n} }
func didWrite(n int) outcome {
	return outcome{operation: layout.StatusOperationRDMAWrite, length: n}
}
func didRead(n int) outcome {
	return outcome{operation: layout.StatusOperationRDMARead, length: n}
}

const steadyMessages = 60

// steadyClient has more under way than the window, of every kind that there is
// without a read, and finds each complete, once and in order.
func steadyClient(e *env, a vipl.VIAttributes) error {
	p, err := e.dial(1, a)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	copy(p.mem.Bytes(), pattern(65536, 1))
	var posted []*vipl.Descriptor
	var want []outcome
	for i := range steadyMessages {
		n := steadyBytes(i)
		d := p.next()
		switch i % 3 {
		case 0:
			if err := d.SetSend(p.mem.Segment(i, n)); err != nil {
				return err
			}
			want = append(want, didSend(n))
		case 1:
			d.SetRDMAWrite(p.mem.Segment(i, n), to.address+steadyTarget, to.handle)
			want = append(want, didWrite(n))
		default:
			d.SetRDMAWrite(p.mem.Segment(i, n), to.address+steadyTarget, to.handle)
			d.AttachImmediate(uint32(i))
			want = append(want, didWrite(n))
		}
		if err := p.vi.PostSend(p.t, d); err != nil {
			return err
		}
		posted = append(posted, d)
	}
	for i, d := range posted {
		p.sent(fmt.Sprintf("message %d", i), d, want[i])
	}
	p.ended("all")
	return p.settled(1)
}

func steadyBytes(i int) int { return []int{0, 4, 1472, 1473, 40000, 1}[i%6] }

const steadyTarget = 41000

func steadyServer(e *env, a vipl.VIAttributes) error {
	p, err := e.serve(a)
	if err != nil {
		return err
	}
	posted := map[int]*vipl.Descriptor{}
	for i := range steadyMessages {
		if i%3 == 1 {
			continue
		}
		if posted[i], err = p.receive(0, 40960); err != nil {
			return err
		}
	}
	if err := p.tell(0); err != nil {
		return err
	}
	source := pattern(65536, 1)
	for i := range steadyMessages {
		n, what := steadyBytes(i), fmt.Sprintf("message %d", i)
		switch i % 3 {
		case 0:
			p.take(what, posted[i], received(n))
			if i+3 >= steadyMessages { // later ones would have come over it
				e.that(what+": its bytes", bytes.Equal(p.mem.Bytes()[:n], source[i:][:n]))
			}
		case 2:
			p.take(what, posted[i], outcome{operation: layout.StatusOperationRemoteRDMAWrite, length: n}.with(uint32(i)))
		}
	}
	last := steadyMessages - 1 // an RDMA write; what came before it is there
	e.that("the last write", bytes.Equal(p.mem.Bytes()[steadyTarget:][:steadyBytes(last)], source[last:][:steadyBytes(last)]))
	p.ended("all")
	return p.settled(0)
}

// targets is the server's memory in several registrations.
type targets struct{ open, closed, stale target }

func (p *peer) tellTargets() (*caseMemory, error) {
	m := &caseMemory{}
	q := p.nic.Query()
	open, err := p.nic.RegisterBuffer(p.t, p.buf, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: q.RDMAReadSupport != 0})
	if err != nil {
		return nil, err
	}
	closed, err := p.nic.RegisterBuffer(p.t, p.buf, vipl.MemAttributes{})
	if err != nil {
		return nil, err
	}
	if m.stale, err = p.nic.RegisterBuffer(p.t, p.buf, vipl.MemAttributes{EnableRDMAWrite: true}); err != nil {
		return nil, err
	}
	if err := m.stale.Deregister(p.t); err != nil {
		return nil, err
	}
	tag, err := p.nic.CreatePtag(p.t)
	if err != nil {
		return nil, err
	}
	if m.foreign, err = p.nic.RegisterBuffer(p.t, p.buf, vipl.MemAttributes{Ptag: tag}); err != nil {
		return nil, err
	}
	for _, r := range []*vipl.Region{open, closed, m.stale} {
		if err := (&peer{env: p.env, mem: r}).tell(0); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (p *peer) hearTargets() (t targets, err error) {
	all, err := p.hearAll(3)
	if err != nil {
		return t, err
	}
	return targets{all[0], all[1], all[2]}, nil
}

// A breach is one way to break a connection.
type breach struct {
	name string
	// receive makes the server's receive descriptor at fault; nil = there is none.
	receive func(d *vipl.Descriptor, p *peer, m *caseMemory) error
	// send makes the client's descriptor.
	send func(d *vipl.Descriptor, p *peer, to targets) error
	// What becomes of them.
	sent, received outcome
	// What each side is told, before ConnectionLost.
	client, server []layout.AsyncError
	noRight        bool // the server's VI allows no RDMA
}

const breachBytes = 3000

func sendBytes(n int) func(d *vipl.Descriptor, p *peer, _ targets) error {
	return func(d *vipl.Descriptor, p *peer, _ targets) error { return d.SetSend(p.mem.Segment(0, n)) }
}

// badSend is a send that its own card refuses.
func badSend(change func(d *vipl.Descriptor)) func(d *vipl.Descriptor, p *peer, _ targets) error {
	return func(d *vipl.Descriptor, p *peer, _ targets) error {
		err := d.SetSend(p.mem.Segment(0, breachBytes))
		change(d)
		return err
	}
}

func segmentOf(d *vipl.Descriptor) layout.DataSegment {
	return layout.DataSegment(d.Bytes()[layout.DescriptorSize:])
}

func writeTo(pick func(to targets) target, immediate bool) func(d *vipl.Descriptor, p *peer, to targets) error {
	return func(d *vipl.Descriptor, p *peer, to targets) error {
		g := pick(to)
		d.SetRDMAWrite(p.mem.Segment(0, breachBytes), g.address, g.handle)
		if immediate {
			d.AttachImmediate(77)
		}
		return nil
	}
}

func goodReceive(d *vipl.Descriptor, p *peer, _ *caseMemory) error {
	return d.SetReceive(p.mem.Segment(0, breachBytes))
}

func badReceive(change func(d *vipl.Descriptor, m *caseMemory)) func(d *vipl.Descriptor, p *peer, m *caseMemory) error {
	return func(d *vipl.Descriptor, p *peer, m *caseMemory) error {
		err := goodReceive(d, p, m)
		change(d, m)
		return err
	}
}

var beyond = func(to targets) target {
	return target{to.open.address + bufferBytes - breachBytes + 1, to.open.handle}
}

// breaches are the rows of what breaks a reliable connection that a program can
// bring about, without reads.
var breaches = []breach{
	{name: "malformed send", receive: goodReceive, send: badSend(func(d *vipl.Descriptor) { raw(d).SetControl(0x8000) }),
		sent: didSend(0).failed(formatError), received: received(0).failed(flushedError)},
	{name: "send of a wrong length", receive: goodReceive, send: badSend(func(d *vipl.Descriptor) { raw(d).SetLength(breachBytes + 1) }),
		sent: didSend(0).failed(lengthError), received: received(0).failed(flushedError)},
	{name: "send from memory of others", receive: goodReceive, send: badSend(func(d *vipl.Descriptor) { segmentOf(d).SetHandle(segmentOf(d).Handle() ^ 0x80) }),
		sent: didSend(0).failed(protectionError), received: received(0).failed(flushedError)},
	{name: "no receive posted", send: sendBytes(breachBytes),
		sent: didSend(0).failed(descriptorError), server: []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}},
	{name: "no receive for a write with immediate data", send: writeTo(func(to targets) target { return to.open }, true),
		sent: didWrite(0).failed(descriptorError), server: []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}},
	{name: "malformed receive", receive: badReceive(func(d *vipl.Descriptor, _ *caseMemory) { raw(d).SetControl(0x4000) }), send: sendBytes(breachBytes),
		sent: didSend(0).failed(descriptorError), received: received(0).failed(formatError)},
	{name: "receive that is too small", receive: badReceive(func(d *vipl.Descriptor, _ *caseMemory) {
		raw(d).SetLength(breachBytes - 1)
		segmentOf(d).SetLength(breachBytes - 1)
	}), send: sendBytes(breachBytes), sent: didSend(0).failed(descriptorError), received: received(breachBytes - 1).failed(lengthError)},
	{name: "receive into deregistered memory", receive: badReceive(func(d *vipl.Descriptor, m *caseMemory) { segmentOf(d).SetHandle(uint32(m.stale.Handle())) }),
		send: sendBytes(breachBytes), sent: didSend(0).failed(descriptorError), received: received(0).failed(protectionError)},
	{name: "receive into memory of another tag", receive: badReceive(func(d *vipl.Descriptor, m *caseMemory) { segmentOf(d).SetHandle(uint32(m.foreign.Handle())) }),
		send: sendBytes(breachBytes), sent: didSend(0).failed(descriptorError), received: received(0).failed(protectionError)},
	{name: "write without the region's right", receive: goodReceive, send: writeTo(func(to targets) target { return to.closed }, false),
		sent: didWrite(0).failed(rdmaError), received: received(0).failed(flushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "write to deregistered memory", receive: goodReceive, send: writeTo(func(to targets) target { return to.stale }, false),
		sent: didWrite(0).failed(rdmaError), received: received(0).failed(flushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "write without the VI's right", noRight: true, receive: goodReceive, send: writeTo(func(to targets) target { return to.open }, false),
		sent: didWrite(0).failed(rdmaError), received: received(0).failed(flushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "write with immediate data, refused", receive: goodReceive, send: writeTo(func(to targets) target { return to.closed }, true),
		sent:     didWrite(0).failed(rdmaError),
		received: outcome{operation: layout.StatusOperationRemoteRDMAWrite}.failed(rdmaError).with(77)},
	{name: "write beyond the region", receive: goodReceive, send: writeTo(beyond, false),
		sent: didWrite(0).failed(rdmaError), received: received(0).failed(flushedError), server: []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
	{name: "send that the card cannot reach", receive: goodReceive, send: func(d *vipl.Descriptor, p *peer, to targets) error {
		d.Handle ^= 0x20
		return sendBytes(4)(d, p, to)
	}, sent: didSend(0).failed(flushedError), received: received(0).failed(flushedError), client: []layout.AsyncError{layout.AsyncErrorPostDescriptor}},
}

// readFrom makes an RDMA read, whose local segment may be changed.
func readFrom(pick func(to targets) target, change func(d *vipl.Descriptor)) func(d *vipl.Descriptor, p *peer, to targets) error {
	return func(d *vipl.Descriptor, p *peer, to targets) error {
		g := pick(to)
		d.SetRDMARead(p.mem.Segment(0, breachBytes), g.address, g.handle)
		if change != nil {
			change(d)
		}
		return nil
	}
}

var (
	openTarget = func(to targets) target { return to.open }
	readRow    = []layout.AsyncError{layout.AsyncErrorRDMAReadProtection}
)

// readData is the data segment of a read.
func readData(d *vipl.Descriptor) layout.DataSegment {
	return layout.DataSegment(d.Bytes()[layout.DescriptorSize+layout.AddressSegmentSize:])
}

var readBreaches = []breach{
	{name: "read without the region's right", receive: goodReceive, send: readFrom(func(to targets) target { return to.closed }, nil),
		sent: didRead(0).failed(rdmaError), received: received(0).failed(flushedError), server: readRow},
	{name: "read of deregistered memory", receive: goodReceive, send: readFrom(func(to targets) target { return to.stale }, nil),
		sent: didRead(0).failed(rdmaError), received: received(0).failed(flushedError), server: readRow},
	{name: "read beyond the region", receive: goodReceive, send: readFrom(beyond, nil),
		sent: didRead(0).failed(rdmaError), received: received(0).failed(flushedError), server: readRow},
	{name: "read without the VI's right", noRight: true, receive: goodReceive, send: readFrom(openTarget, nil),
		sent: didRead(0).failed(rdmaError), received: received(0).failed(flushedError), server: readRow},
	{name: "read into memory of others", receive: goodReceive, send: readFrom(openTarget, func(d *vipl.Descriptor) { readData(d).SetHandle(readData(d).Handle() ^ 0x80) }),
		sent: didRead(0).failed(protectionError), received: received(0).failed(flushedError)},
	{name: "read into too little memory", receive: goodReceive, send: readFrom(openTarget, func(d *vipl.Descriptor) { readData(d).SetLength(breachBytes - 1) }),
		sent: didRead(0).failed(lengthError), received: received(0).failed(flushedError)},
	{name: "read with immediate data", receive: goodReceive, send: readFrom(openTarget, func(d *vipl.Descriptor) { d.AttachImmediate(1) }),
		sent: didRead(0).failed(formatError), received: received(0).failed(flushedError)},
}

func brokenClient(e *env, a vipl.VIAttributes) error      { return breakClient(e, a, breaches) }
func brokenServer(e *env, a vipl.VIAttributes) error      { return breakServer(e, a, breaches) }
func brokenReadsClient(e *env, a vipl.VIAttributes) error { return breakClient(e, a, readBreaches) }
func brokenReadsServer(e *env, a vipl.VIAttributes) error { return breakServer(e, a, readBreaches) }

// told checks what a side is told of a broken connection, and that its VI is in
// the error state then.
func (p *peer) told(what string, before []layout.AsyncError) {
	for _, code := range before {
		p.asynchronous(what, code, p.vi)
	}
	first := p.t.Now()
	p.asynchronous(what, layout.AsyncErrorConnectionLost, p.vi)
	if len(before) > 0 && p.t.Timed() {
		p.that(what+": who knows why knows at once that the connection is lost", p.t.Now()-first < promptly)
	}
	p.inState(what, vipl.ErrorState)
}

// retire checks that a broken VI has nothing more to say, and destroys it.
func (p *peer) retire(what string, node int) error {
	if err := p.meet(node); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	p.ended(what)
	p.is(what+": disconnect", p.vi.Disconnect(p.t), nil)
	p.inState(what+": disconnected", vipl.Idle)
	p.ended(what + ": disconnected")
	p.is(what+": destroy", p.vi.Destroy(p.t), nil)
	return nil
}

func breakClient(e *env, a vipl.VIAttributes, all []breach) error {
	first, err := e.dial(1, a)
	if err != nil {
		return err
	}
	to, err := first.hearTargets()
	if err != nil {
		return err
	}
	for _, b := range all {
		p, err := first.another(a, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if err := p.meet(1); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		waiting, err := p.receive(4096, 8)
		if err != nil {
			return err
		}
		d := p.next()
		if err := b.send(d, p, to); err != nil {
			return err
		}
		behind := p.next()
		if err := behind.SetSend(p.mem.Segment(0, 4)); err != nil {
			return err
		}
		behind.SetFence()
		for _, d := range []*vipl.Descriptor{d, behind} {
			if err := p.vi.PostSend(p.t, d); err != nil {
				return err
			}
		}
		if b.sent.bits != flushedError {
			p.sent(b.name, d, b.sent)
		}
		p.told(b.name, b.client)
		if b.client == nil { // else the card does not know all of them
			e.that(b.name+": the card has flushed the rest", behind.Status().Done() && waiting.Status().Done())
		}
		if b.sent.bits == flushedError {
			p.sent(b.name, d, b.sent)
		}
		p.sent(b.name+": what is behind it", behind, didSend(0).failed(flushedError))
		p.take(b.name+": what waits on the other queue", waiting, received(0).failed(flushedError))
		if _, err := p.send(0, 4); err != nil {
			return err
		}
		later, err := p.vi.SendWait(p.t, host.Second)
		e.flushed(b.name+": sent in the error state", later, err)
		if err := p.retire(b.name, 1); err != nil {
			return err
		}
	}
	// The first VI has been connected all the time.
	d, err := first.send(0, breachBytes)
	if err != nil {
		return err
	}
	first.sent("other VIs go on", d, didSend(breachBytes))
	return first.settled(1)
}

func breakServer(e *env, a vipl.VIAttributes, all []breach) error {
	first, err := e.serve(a)
	if err != nil {
		return err
	}
	m, err := first.tellTargets()
	if err != nil {
		return err
	}
	last, err := first.receive(0, breachBytes)
	if err != nil {
		return err
	}
	for _, b := range all {
		own := a
		if b.noRight {
			own.EnableRDMARead, own.EnableRDMAWrite = false, false
		}
		p, err := first.another(own, 16)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		var d, behind *vipl.Descriptor
		if b.receive != nil {
			d = p.next()
			if err := b.receive(d, p, m); err != nil {
				return err
			}
			if err := p.vi.PostRecv(p.t, d); err != nil {
				return err
			}
			if behind, err = p.receive(0, breachBytes); err != nil {
				return err
			}
		}
		if err := p.meet(0); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		p.told(b.name, b.server)
		if b.receive != nil {
			e.that(b.name+": the card has completed all", d.Status().Done() && behind.Status().Done())
			p.take(b.name, d, b.received)
			p.take(b.name+": what is behind it", behind, received(0).failed(flushedError))
		}
		if err := p.retire(b.name, 0); err != nil {
			return err
		}
	}
	first.take("other VIs go on", last, received(breachBytes))
	return first.settled(0)
}

func differClient(e *env, a vipl.VIAttributes) error {
	p, err := e.dial(1, a)
	if p == nil {
		return err
	}
	e.is("another level", err, vipl.ErrReject)
	p.inState("refused", vipl.Idle)
	e.is("set the other level", p.vi.SetAttributes(e.t, vipl.VIAttributes{ReliabilityLevel: vipl.Unreliable}), nil)
	if err := p.redial(1); err != nil {
		return err
	}
	return p.settled(1)
}

func differServer(e *env, _ vipl.VIAttributes) error {
	p, err := e.prepare(vipl.VIAttributes{})
	if err != nil {
		return err
	}
	here := vipl.NetAddress{Discriminator: "test"}
	r, err := e.nic.ConnectWait(e.t, here, host.Second)
	if err != nil {
		return err
	}
	e.is("accept with another level", r.Accept(e.t, p.vi), vipl.ErrInvalidReliabilityLevel)
	e.is("reject", r.Reject(e.t), nil)
	if err := p.again(); err != nil {
		return err
	}
	return p.settled(0)
}

// readServer has memory to be read, and does nothing.
func readServer(e *env, a vipl.VIAttributes) error {
	p, err := e.serve(a)
	if err != nil {
		return err
	}
	copy(p.mem.Bytes(), pattern(bufferBytes, 3))
	if _, err := p.tellTargets(); err != nil {
		return err
	}
	return p.settled(0)
}

func readClient(e *env, a vipl.VIAttributes) error {
	p, err := e.dial(1, a)
	if err != nil {
		return err
	}
	to, err := p.hearTargets()
	if err != nil {
		return err
	}
	source := pattern(bufferBytes, 3)
	for _, r := range []struct{ from, to, n int }{{0, 0, 0}, {1, 2, 1}, {4095, 3, 2}, {17, 4093, 1471}, {0, 0, 1472}, {5, 8190, 1473}, {4096, 1, 9001}, {3, 13, 65536}} {
		clear(p.mem.Bytes())
		d := p.next()
		d.SetRDMARead(p.mem.Segment(r.to, r.n), to.open.address+uint64(r.from), to.open.handle)
		if err := p.vi.PostSend(e.t, d); err != nil {
			return err
		}
		what := fmt.Sprintf("read %+v", r)
		p.sent(what, d, didRead(r.n))
		want := make([]byte, bufferBytes)
		copy(want[r.to:], source[r.from:][:r.n])
		if err := p.memory(what, want); err != nil {
			return err
		}
	}

	// Nothing is looked at when nothing is read.
	d := p.next()
	d.SetRDMARead(vipl.Segment{}, 12345, 0)
	if err := p.vi.PostSend(e.t, d); err != nil {
		return err
	}
	p.sent("a read of nothing", d, didRead(0))

	// As many segments as a descriptor can have.
	wide, err := p.wide(vipl.MaxSegments)
	if err != nil {
		return err
	}
	clear(p.mem.Bytes())
	want := make([]byte, bufferBytes)
	var pieces []vipl.Segment
	n := 0
	for i := range vipl.MaxSegments {
		at, length := 250*i+i%7, i%97
		pieces = append(pieces, p.mem.Segment(at, length))
		copy(want[at:], source[100+n:][:length])
		n += length
	}
	if err := wide.SetRDMAReadScatter(to.open.address+100, to.open.handle, pieces...); err != nil {
		return err
	}
	if err := p.vi.PostSend(e.t, wide); err != nil {
		return err
	}
	p.sent("many segments", wide, didRead(n))
	if err := p.memory("many segments", want); err != nil {
		return err
	}

	// More reads than may be unanswered, with other messages between them.
	const reads = 20
	clear(p.mem.Bytes())
	var posted []*vipl.Descriptor
	for i := range reads {
		d := p.next()
		if i%4 == 3 {
			d.SetRDMAWrite(p.mem.Segment(70000, 4), to.open.address+bufferBytes-8, to.open.handle)
		} else {
			d.SetRDMARead(p.mem.Segment(3000*i, 2900), to.open.address+uint64(1000*i), to.open.handle)
		}
		if err := p.vi.PostSend(e.t, d); err != nil {
			return err
		}
		posted = append(posted, d)
	}
	for i, d := range posted {
		what := fmt.Sprintf("one of many, %d", i)
		if i%4 == 3 {
			p.sent(what, d, didWrite(4))
			continue
		}
		p.sent(what, d, didRead(2900))
		e.that(what+": its bytes", bytes.Equal(p.mem.Bytes()[3000*i:][:2900], source[1000*i:][:2900]))
	}
	p.ended("all")
	return p.settled(1)
}

// fenceClient writes elsewhere what it has read: the write must wait for the read.
func fenceClient(e *env, a vipl.VIAttributes) error {
	p, err := e.dial(1, a)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	const n = 30000
	for round := range 3 {
		if round > 0 {
			if err := p.meet(1); err != nil {
				return err
			}
		}
		clear(p.mem.Bytes())
		read, write, plain := p.next(), p.next(), p.next()
		read.SetRDMARead(p.mem.Segment(0, n), to.address, to.handle)
		write.SetRDMAWrite(p.mem.Segment(0, n), to.address+40000, to.handle)
		write.SetFence()
		if err := plain.SetSend(p.mem.Segment(n-8, 8)); err != nil { // behind the fence, too
			return err
		}
		for _, d := range []*vipl.Descriptor{read, write, plain} {
			if err := p.vi.PostSend(e.t, d); err != nil {
				return err
			}
		}
		what := fmt.Sprintf("round %d", round)
		p.sent(what+": read", read, didRead(n))
		p.sent(what+": write", write, didWrite(n))
		p.sent(what+": send", plain, didSend(8))
	}
	return p.settled(1)
}

func fenceServer(e *env, a vipl.VIAttributes) error {
	p, err := e.serve(a)
	if err != nil {
		return err
	}
	open, err := e.nic.RegisterBuffer(e.t, p.buf, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true})
	if err != nil {
		return err
	}
	const n = 30000
	for round := range 3 {
		copy(p.mem.Bytes(), pattern(n, round))
		d, err := p.receive(75000, 8)
		if err != nil {
			return err
		}
		if round == 0 {
			if err := (&peer{env: e, mem: open}).tell(0); err != nil {
				return err
			}
		} else if err := p.meet(0); err != nil {
			return err
		}
		what := fmt.Sprintf("round %d", round)
		p.take(what, d, received(8))
		e.that(what+": what was read was written", bytes.Equal(p.mem.Bytes()[40000:][:n], pattern(n, round)))
		e.that(what+": and sent", bytes.Equal(p.mem.Bytes()[75000:][:8], pattern(n, round)[n-8:]))
	}
	return p.settled(0)
}

// queuedReadClient finds its reads through a completion queue, asleep.
func queuedReadClient(e *env, a vipl.VIAttributes) error {
	c, err := e.nic.CreateCQ(e.t, 32)
	if err != nil {
		return err
	}
	c.SetBlocking(true)
	a.SendCQ = c
	p, err := e.dial(1, a)
	if err != nil {
		return err
	}
	to, err := p.hearTargets()
	if err != nil {
		return err
	}
	source := pattern(bufferBytes, 3)
	var posted []*vipl.Descriptor
	for i := range 10 {
		d := p.next()
		d.SetRDMARead(p.mem.Segment(2000*i, 2000), to.open.address+uint64(i), to.open.handle)
		if err := p.vi.PostSend(e.t, d); err != nil {
			return err
		}
		posted = append(posted, d)
	}
	for i, d := range posted {
		what := fmt.Sprintf("read %d", i)
		e.entry(what, c, p.vi, false)
		p.taken(what, false, d, didRead(2000))
		e.that(what+": its bytes", bytes.Equal(p.mem.Bytes()[2000*i:][:2000], source[i:][:2000]))
	}
	// What breaks the connection fails one and flushes the rest: each has its entry.
	bad, behind := p.next(), p.next()
	bad.SetRDMARead(p.mem.Segment(0, 4), to.closed.address, to.closed.handle)
	behind.SetRDMARead(p.mem.Segment(0, 4), to.open.address, to.open.handle)
	behind.SetFence()
	for _, d := range []*vipl.Descriptor{bad, behind} {
		if err := p.vi.PostSend(e.t, d); err != nil {
			return err
		}
	}
	e.entry("refused", c, p.vi, false)
	p.taken("refused", false, bad, didRead(0).failed(rdmaError))
	e.entry("flushed", c, p.vi, false)
	p.taken("flushed", false, behind, didRead(0).failed(flushedError))
	e.nothing("no more", c)
	p.told("refused", nil)
	return p.settled(1)
}

// Frames that are lost change nothing that a program sees at the reliable levels.
func TestReliableOverALossyWire(t *testing.T) {
	for _, s := range scenarios {
		if !isReliable(s) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			const seed = 7
			random := rand.New(rand.NewPCG(seed, seed))
			lost := 0
			f := runFake(t, driver.DeviceHvia, func(f *drivertest.Fabric) {
				f.Lose = func(_ int, frame []byte) bool {
					lose := layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia && random.IntN(12) == 0
					if lose {
						lost++
					}
					return lose
				}
			}, mainsOf(s)...)
			t.Logf("%d frames lost, simulated %v", lost, f.Now())
		})
	}
}

func isReliable(s scenario) bool {
	for _, l := range reliableLevels {
		if strings.HasPrefix(s.name, l.name) {
			return true
		}
	}
	return false
}

// A refusal that is lost comes again, and what it says comes before the agent's
// Disconnect.
func TestRefusalThatIsLost(t *testing.T) {
	for _, l := range reliableLevels {
		t.Run(l.name, func(t *testing.T) {
			a := vipl.VIAttributes{ReliabilityLevel: l.level}
			client := func(e *env) error {
				p, err := e.dial(1, a)
				if err != nil {
					return err
				}
				d, err := p.send(0, 4)
				if err != nil {
					return err
				}
				p.sent("the peer has no receive", d, didSend(0).failed(descriptorError))
				p.told("refused", nil)
				return p.retire("refused", 1)
			}
			server := func(e *env) error {
				p, err := e.serve(a)
				if err != nil {
					return err
				}
				p.told("no receive", []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty})
				return p.retire("no receive", 0)
			}
			lost := 0
			runFake(t, driver.DeviceHvia, func(f *drivertest.Fabric) {
				f.Lose = func(_ int, frame []byte) bool {
					if layout.EthernetHeader(frame).EtherType() != layout.EtherTypeVia {
						return false
					}
					h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
					if layout.AcknowledgeCode(h.Immediate()) != layout.AcknowledgeCodeRemoteDescriptor || lost == 2 {
						return false
					}
					lost++
					return true
				}
			}, client, server)
			require.Equal(t, 2, lost)
		})
	}
}

// The retry limit breaks a connection over which nothing comes any more, and both
// sides are told.
func TestRetryLimit(t *testing.T) {
	for _, l := range reliableLevels {
		t.Run(l.name, func(t *testing.T) { retryLimit(t, l.level) })
	}
}

func retryLimit(t *testing.T, level vipl.ReliabilityLevel) {
	a := vipl.VIAttributes{ReliabilityLevel: level, EnableRDMAWrite: true, EnableRDMARead: true}
	cut := false
	client := func(e *env) error {
		p, err := e.dial(1, a)
		if err != nil {
			return err
		}
		if err := p.meet(1); err != nil {
			return err
		}
		d, err := p.send(0, 4000)
		if err != nil {
			return err
		}
		p.sent("before", d, didSend(4000))
		if err := p.meet(1); err != nil {
			return err
		}
		cut = true
		var posted []*vipl.Descriptor
		for range 3 {
			d, err := p.send(0, 4000)
			if err != nil {
				return err
			}
			posted = append(posted, d)
		}
		p.sent("nothing comes through", posted[0], didSend(0).failed(transportError))
		p.sent("behind it", posted[1], didSend(0).failed(flushedError))
		p.sent("behind it", posted[2], didSend(0).failed(flushedError))
		p.told("nothing comes through", nil)
		return p.retire("retries", 1)
	}
	server := func(e *env) error {
		p, err := e.serve(a)
		if err != nil {
			return err
		}
		d, err := p.receive(0, 4000)
		if err != nil {
			return err
		}
		waiting, err := p.receive(0, 4000)
		if err != nil {
			return err
		}
		if err := p.meet(0); err != nil {
			return err
		}
		p.take("before", d, received(4000))
		if err := p.meet(0); err != nil {
			return err
		}
		p.take("nothing comes through", waiting, received(0).failed(flushedError))
		p.told("nothing comes through", nil)
		return p.retire("retries", 0)
	}
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Lose = func(_ int, frame []byte) bool {
		return cut && layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{
		Seed: 1, Transport: driver.Transport{RetryLimit: 3, RetryTimeout: host.Millisecond},
	}, programs(client, server)...))
	for i := range 2 {
		require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
	}
}
