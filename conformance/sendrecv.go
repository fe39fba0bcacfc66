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

// sendReceiveScenarios cover send and receive, gather and scatter, and
// immediate data. Together they provoke each status bit and each row of VIA's
// state and error tables for unreliable delivery, except those that require a
// faulty bus or link.
var sendReceiveScenarios = []Scenario{
	{Name: "segments of every kind", client: segmentsClient, server: segmentsServer},
	{Name: "receive queue", client: floodedClient, server: receiveQueueServer},
	{Name: "receive errors", client: receiveErrorClient, server: receiveErrorServer},
	{Name: "gather errors", client: gatherErrorClient, server: gatherErrorServer},
	{Name: "no receive posted", client: emptyQueueClient, server: emptyQueueServer},
	{Name: "RDMA write with immediate data", client: immediateClient, server: immediateServer},
	{Name: "disconnect with receives posted", client: leavingClient, server: leftServer},
	{Name: "unreachable receive descriptor", client: unreachableReceiveClient, server: reconnectServer},
	{Name: "deregistration under posted receives", client: deregisterClient, server: deregisterServer},
	{Name: "error handlers", client: handlerClient, server: handlerServer},
	{Name: "left behind with receives", client: abandonClient, server: abandonReceiveServer},
	{Name: "descriptor and buffer side by side", client: compactClient, server: compactServer},
}

func init() { Scenarios = append(Scenarios, sendReceiveScenarios...) }

// Statuses.
const (
	formatError     = layout.DescriptorStatusFormatErrorMask
	ProtectionError = layout.DescriptorStatusProtectionErrorMask
	lengthError     = layout.DescriptorStatusLengthErrorMask
	partialError    = layout.DescriptorStatusPartialErrorMask
	FlushedError    = layout.DescriptorStatusFlushedMask
	rdmaError       = layout.DescriptorStatusRDMAProtectionErrorMask
)

// outcome is the required status of a completed descriptor.
type outcome struct {
	bits      uint32
	operation layout.StatusOperation
	length    int
	immediate uint32 // if hasImmediate
	has       bool
}

func Received(n int) outcome { return outcome{operation: layout.StatusOperationReceive, length: n} }

func (o outcome) failed(bits uint32) outcome {
	o.bits = bits
	return o
}

func (o outcome) with(immediate uint32) outcome {
	o.immediate, o.has = immediate, true
	return o
}

// Completed checks every bit of a completed descriptor.
func (p *Peer) Completed(what string, got, want *vipl.Descriptor, err error, o outcome) {
	if o.bits == 0 {
		p.Is(what, err, nil)
	} else {
		p.Is(what, err, vipl.ErrDescriptor)
	}
	if got != want || got == nil {
		p.That(what+": another descriptor than the one whose turn it is", false)
		return
	}
	status := layout.DescriptorStatusDoneMask | o.bits | uint32(o.operation)<<layout.DescriptorStatusOperationLsb
	if o.has {
		status |= layout.DescriptorStatusImmediateMask
	}
	p.That(fmt.Sprintf("%s: status %v (%#x), want %#x", what, got.Status(), uint32(got.Status()), status), uint32(got.Status()) == status)
	p.That(fmt.Sprintf("%s: operation %v, want %v", what, operationOf(got), o.operation), operationOf(got) == o.operation)
	p.That(fmt.Sprintf("%s: length %d, want %d", what, got.Length(), o.length), got.Length() == o.length)
	data, has := got.Immediate()
	p.That(fmt.Sprintf("%s: immediate data %#x %v, want %#x %v", what, data, has, o.immediate, o.has), has == o.has && (!has || data == o.immediate))
}

// Take waits for a receive and checks it.
func (p *Peer) Take(what string, want *vipl.Descriptor, o outcome) {
	d, err := p.VI.RecvWait(p.T, host.Second)
	p.Completed(what, d, want, err, o)
}

// Sent waits for a send and checks it.
func (p *Peer) Sent(what string, want *vipl.Descriptor, o outcome) {
	d, err := p.VI.SendWait(p.T, host.Second)
	p.Completed(what, d, want, err, o)
}

// Meet waits until the other program arrives here, too.
func (p *Peer) Meet(node int) error {
	check(p.T.Send(host.ThreadID{Node: node, Rank: 1}, []byte("meet")))
	m, ok, err := p.T.Receive(host.Second)
	if err == nil && (!ok || string(m.Data) != "meet") {
		return fmt.Errorf("the peer did not come to the meeting: %q", m.Data)
	}
	return err
}

// Quiet waits longer than any message takes.
func (p *Peer) Quiet() error { return p.T.Sleep(2 * host.Millisecond) }

// Wide returns a descriptor for the given number of segments, in separate
// memory.
func (p *Peer) Wide(segments int) (*vipl.Descriptor, error) {
	b := must(p.NIC.Alloc(p.T, vipl.DescriptorSize(segments)))
	r := must(p.NIC.RegisterBuffer(p.T, b, vipl.MemAttributes{}))
	return r.Descriptor(0, segments)
}

// Send posts a send from the own buffer.
func (p *Peer) Send(offset, n int) (*vipl.Descriptor, error) {
	d := p.Next()
	check(d.SetSend(p.Mem.Segment(offset, n)))
	return d, p.VI.PostSend(p.T, d)
}

// Receive posts a receive into the own buffer.
func (p *Peer) Receive(offset, n int) (*vipl.Descriptor, error) {
	d := p.Next()
	check(d.SetReceive(p.Mem.Segment(offset, n)))
	return d, p.VI.PostRecv(p.T, d)
}

// ended checks that both queues are empty and no asynchronous error is left.
func (p *Peer) ended(what string) {
	d, err := p.VI.RecvDone(p.T)
	p.Is(what+": receive queue", err, vipl.ErrDescriptor)
	p.That(what+": receive queue is empty", d == nil)
	d, err = p.VI.SendDone(p.T)
	p.Is(what+": send queue", err, vipl.ErrDescriptor)
	p.That(what+": send queue is empty", d == nil)
	p.Is(what+": nothing asynchronous", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
}

// Asynchronous waits for an asynchronous error and checks it.
func (p *Peer) Asynchronous(what string, code layout.AsyncError, vi *vipl.VI) {
	a, err := p.NIC.ErrorWait(p.T, host.Second)
	p.Is(what+": an asynchronous error", err, nil)
	p.That(fmt.Sprintf("%s: %v on VI %d, not %+v", what, code, vi.Index(), a), a.Code == code && a.VI == vi.Index())
}

// InState checks a VI's state.
func (p *Peer) InState(what string, want layout.VIState) {
	i, err := p.VI.Query(p.T)
	p.Is(what, err, nil)
	p.That(fmt.Sprintf("%s: %v, want %v", what, i.State, want), i.State == want)
}

func (p *Peer) memory(what string, want []byte) error {
	for i, v := range p.Mem.Bytes() {
		if v != want[i] {
			return fmt.Errorf("%s: byte %d is %#x, want %#x", what, i, v, want[i])
		}
	}
	return nil
}

// A dispatch is one message: its length and its number of pieces at each side.
type dispatch struct {
	n        int
	from, to int // data segments
	slack    int // bytes of the receive buffers beyond the message
}

func dispatches() (all []dispatch) {
	for i, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1471, 1472, 1473, 2943, 2944, 2945, 4095, 4096, 4097, 9001} {
		all = append(all, dispatch{n, i % 4, (i + 1) % 3, i % 5 * 3}, dispatch{n, 1 + (i+2)%7, 1 + i%9, 0})
	}
	return append(all, dispatch{65536, 1, 1, 0}, dispatch{65536, 2, 3, 0}, dispatch{65000, 3, 2, 17}, dispatch{65536, 252, 252, 0}, dispatch{3000, 252, 1, 5}, dispatch{3000, 1, 252, 0}, dispatch{0, 252, 252, 0})
}

// pieces cuts n bytes into separate segments at unaligned addresses. Every
// fifth has no bytes, if others can hold them; the card then checks neither its
// address nor its handle.
func (p *Peer) pieces(n, count, seed int) (all []vipl.Segment, offsets []int) {
	at := seed * 3 % 61
	for i := range count {
		rest := count - i
		length := n / rest
		if rest > 1 && length > 1 {
			length -= (seed + i) % 2
		}
		if rest > 1 && (i+seed)%5 == 0 {
			length = 0
		}
		if rest == 1 {
			length = n
		}
		n -= length
		s := p.Mem.Segment(at, length)
		if length == 0 {
			s.Address, s.Handle = 0xdead0000dead0000, 0x12345
		}
		all, offsets = append(all, s), append(offsets, at)
		at += length + 1 + (i*7+seed)%13
	}
	return all, offsets
}

// segmentsClient sends messages of every length from segments of all kinds.
func segmentsClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	d := must(p.Wide(vipl.MaxSegments))
	for i, c := range dispatches() {
		if c.from == 0 {
			c.n = 0
		}
		segments, offsets := p.pieces(c.n, c.from, i)
		payload := Pattern(c.n, i)
		for k, s := range segments {
			payload = payload[copy(p.Mem.Bytes()[offsets[k]:][:s.Length], payload):]
		}
		check(d.SetSend(segments...))
		if i%2 == 1 {
			d.AttachImmediate(uint32(i) * 0x01010101)
		}
		check(p.Meet(1))
		check(p.VI.PostSend(p.T, d))
		p.Sent(fmt.Sprintf("message %d %+v", i, c), d, outcome{operation: layout.StatusOperationSend, length: c.n})
		clear(p.Mem.Bytes())
	}
	e.Is("more segments than fit", p.Next().SetSend(make([]vipl.Segment, 3)...), vipl.ErrInvalidParameter)
	e.Is("memory for too many", errOf(p.Mem.Descriptor(0, vipl.MaxSegments+1)), vipl.ErrInvalidParameter)
	return p.Settled(1)
}

func segmentsServer(e *Env) error {
	p := must(e.Serve(Writable))
	d := must(p.Wide(vipl.MaxSegments))
	for i, c := range dispatches() {
		if c.from == 0 {
			c.n = 0
		}
		if c.to == 0 && c.n > 0 {
			c.to = 1
		}
		capacity := c.n + c.slack
		if c.to == 0 {
			capacity = 0
		}
		segments, offsets := p.pieces(capacity, c.to, i+3)
		check(d.SetReceive(segments...))
		check(p.VI.PostRecv(p.T, d))
		check(p.Meet(0))
		name := fmt.Sprintf("message %d %+v", i, c)
		want := Received(c.n)
		if i%2 == 1 {
			want = want.with(uint32(i) * 0x01010101)
		}
		p.Take(name, d, want)
		payload, image := Pattern(c.n, i), make([]byte, bufferBytes)
		for k, s := range segments {
			payload = payload[copy(image[offsets[k]:][:s.Length], payload):]
		}
		check(p.memory(name, image))
		clear(p.Mem.Bytes())
	}
	p.ended("all messages")
	return p.Settled(0)
}

// batch is the number of messages in flight: the receiving card can buffer them
// all, however busy it is.
const batch = 64

// floodedClient sends as many messages as a receive queue can hold.
func floodedClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	copy(p.Mem.Bytes(), Pattern(64, 0))
	for i := 0; i < vipl.MaxDescriptorsPerQueue; i += batch {
		check(p.Meet(1))
		for k := i; k < i+batch; k++ {
			d := p.Next()
			check(d.SetSend(p.Mem.Segment(k%7, k%9)))
			d.AttachImmediate(uint32(k))
			check(p.VI.PostSend(p.T, d))
		}
		for k := i; k < i+batch; k++ {
			Step(errOf(p.VI.SendWait(p.T, host.Second)), "message %d", k)
		}
	}
	return p.Settled(1)
}

// receiveQueueServer posts all receives before it connects.
func receiveQueueServer(e *Env) error {
	p := must(e.Prepare(Writable))
	d, err := p.VI.RecvDone(p.T)
	e.Is("done on an empty queue", err, vipl.ErrDescriptor)
	e.That("no descriptor with it", d == nil)
	d, err = p.VI.RecvWait(p.T, host.Millisecond)
	e.Is("wait on an empty queue", err, vipl.ErrDescriptor)
	e.That("no descriptor with it", d == nil)
	e.Is("post nothing", p.VI.PostRecv(p.T, nil), vipl.ErrInvalidParameter)
	d = p.Next()
	d.Address += 8
	e.Is("misaligned descriptor", p.VI.PostRecv(p.T, d), vipl.ErrInvalidParameter)

	posted := make([]*vipl.Descriptor, 0, vipl.MaxDescriptorsPerQueue)
	for i := range vipl.MaxDescriptorsPerQueue {
		d, err := p.Receive(64*i, 16)
		Step(err, "post %d", i)
		posted = append(posted, d)
	}
	over := p.Next()
	check(over.SetReceive(p.Mem.Segment(0, 4)))
	image := bytes.Clone(over.Bytes())
	err = p.VI.PostRecv(p.T, over)
	e.Is("one too many", err, vipl.ErrResource)
	e.Is("one too many", err, vipl.ErrOverrun)
	e.That("it is untouched", bytes.Equal(image, over.Bytes()))
	// The card counts descriptors, too, including the one it holds. M-VIA has
	// no doorbell that a program could ring directly.
	if !e.onMvia() {
		check(p.T.Write(layout.PciBar1Base+uint32(p.VI.Index())*layout.DoorbellPageBytes+layout.DoorbellReceive,
			uint32(over.Address), uint32(over.Address>>32), uint32(over.Handle)))
		p.Asynchronous("one too many for the card", layout.AsyncErrorVIOverrun, p.VI)
	}
	i, err := p.VI.Query(p.T)
	e.Is("query", err, nil)
	e.That(fmt.Sprintf("idle, and only the receive queue is not empty: %+v", i), i.State == vipl.Idle && i.SendQueueEmpty && !i.ReceiveQueueEmpty)
	e.Is("destroy with receives posted", p.VI.Destroy(p.T), vipl.ErrResource)
	e.Is("nothing comes while idle", errOf(p.VI.RecvDone(p.T)), vipl.ErrNotDone)
	e.Is("nothing comes while idle", errOf(p.VI.RecvWait(p.T, host.Millisecond)), vipl.ErrTimeout)

	check(p.Again())
	e.Is("nothing was sent", errOf(p.VI.RecvDone(p.T)), vipl.ErrNotDone)
	e.Is("wait for less than a bus clock", errOf(p.VI.RecvWait(p.T, 1)), vipl.ErrTimeout)
	source, want := Pattern(64, 0), make([]byte, bufferBytes)
	for i, d := range posted {
		if i%batch == 0 {
			check(p.Meet(0))
		}
		p.Take(fmt.Sprintf("message %d", i), d, Received(i%9).with(uint32(i)))
		copy(want[64*i:], source[i%7:i%7+i%9])
		// The memory belongs to the program again: the card must not write it
		// any more.
		clear(d.Bytes())
	}
	p.ended("drained")
	check(p.Quiet())
	for i, d := range posted {
		e.That(fmt.Sprintf("descriptor %d stays untouched", i), bytes.Equal(d.Bytes(), make([]byte, len(d.Bytes()))))
	}
	check(p.memory("all messages", want))
	return p.Settled(0)
}

// immediateCases are RDMA writes with immediate data: their targets and the
// resulting receive status.
var immediateCases = []struct {
	name string
	n    int
	at   int
	hurt func(to Remote) Remote
	bits uint32
	len  int // bytes that are written
}{
	{"no bytes", 0, 0, nil, 0, 0},
	{"one byte", 1, 3, nil, 0, 1},
	{"one frame", 1472, 5, nil, 0, 1472},
	{"three frames", 4000, 4090, nil, 0, 4000},
	{"64 KiB", 65536, 1, nil, 0, 65536},
	{"wrong handle", 8, 0, func(t Remote) Remote { return Remote{t.Address, t.Handle ^ 0x40} }, rdmaError, 0},
	{"wrong handle, three frames", 4000, 0, func(t Remote) Remote { return Remote{t.Address, t.Handle ^ 0x40} }, rdmaError, 0},
	{"beyond the region in the second frame", 2000, bufferBytes - 1999, nil, rdmaError, 1472},
	{"before the region", 8, 0, func(t Remote) Remote { return Remote{t.Address - 1, t.Handle} }, rdmaError, 0},
}

func immediateClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	copy(p.Mem.Bytes(), Pattern(bufferBytes, 9))
	for i, c := range immediateCases {
		check(p.Meet(1))
		target := to
		if c.hurt != nil {
			target = c.hurt(to)
		}
		d := p.Next()
		d.SetRDMAWrite(target.Address+uint64(c.at), target.Handle, p.Mem.Segment(0, c.n))
		d.AttachImmediate(uint32(0xcafe0000 + i))
		check(p.VI.PostSend(p.T, d))
		p.Sent(c.name, d, outcome{operation: layout.StatusOperationRDMAWrite, length: c.n})
	}

	// A write without immediate data consumes no receive. A later send finds
	// the data in memory.
	check(p.Meet(1))
	d := must(p.Wide(3))
	check(d.SetRDMAWrite(to.Address+9, to.Handle, p.Mem.Segment(1, 2000), p.Mem.Segment(4097, 3), p.Mem.Segment(0, 2000)))
	check(p.VI.PostSend(p.T, d))
	last := p.Next()
	check(last.SetSend())
	last.AttachImmediate(5)
	check(p.VI.PostSend(p.T, last))
	p.Sent("write", d, outcome{operation: layout.StatusOperationRDMAWrite, length: 4003})
	p.Sent("message of no bytes", last, outcome{operation: layout.StatusOperationSend})

	// Repeat the write through a VI whose peer does not enable RDMA writes.
	q := must(p.sibling(1024))
	check(q.Redial(1))
	d = q.Next()
	d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 100))
	d.AttachImmediate(99)
	check(q.VI.PostSend(q.T, d))
	q.Sent("locked VI", d, outcome{operation: layout.StatusOperationRDMAWrite, length: 100})
	return p.Settled(1)
}

func immediateServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	source := Pattern(bufferBytes, 9)
	remote := outcome{operation: layout.StatusOperationRemoteRDMAWrite}
	for i, c := range immediateCases {
		d := p.Next()
		// The card ignores the receive's buffers, so they may be invalid.
		check(d.SetReceive(vipl.Segment{Address: 5, Handle: 5, Length: 5}))
		check(p.VI.PostRecv(p.T, d))
		check(p.Meet(0))
		o := remote.with(uint32(0xcafe0000 + i))
		o.bits, o.length = c.bits, c.len
		p.Take(c.name, d, o)
		want := make([]byte, bufferBytes)
		copy(want[c.at:], source[:c.len])
		check(p.memory(c.name, want))
		clear(p.Mem.Bytes())
	}

	d := p.Next()
	check(d.SetReceive())
	check(p.VI.PostRecv(p.T, d))
	check(p.Meet(0))
	p.Take("message of no bytes", d, Received(0).with(5))
	want := make([]byte, bufferBytes)
	copy(want[copy(want[9:], source[1:2001])+9:], source[4097:4100])
	copy(want[9+2003:], source[:2000])
	check(p.memory("the write before it", want))
	p.ended("on the first VI")

	locked := must(p.NIC.CreateVI(p.T, vipl.VIAttributes{}))
	q := &Peer{Env: e, Mem: p.Mem, descriptors: p.descriptors, posted: 1024, VI: locked}
	d = must(q.Receive(0, 100))
	check(q.Again())
	o := remote.with(99)
	o.bits = rdmaError
	q.Take("locked VI", d, o)
	check(p.memory("locked VI", want))
	q.ended("in the end")
	return p.Settled(0)
}

// handlerServer gets its asynchronous errors through a handler while it waits
// for a message.
func handlerServer(e *Env) error {
	p := must(e.Serve(Writable))
	second := must(p.sibling(512))
	check(second.Again())
	var reported []vipl.ErrorDescriptor
	nested := 0
	handler := func(t *host.Thread, d vipl.ErrorDescriptor) {
		reported = append(reported, d)
		if t != p.T || d.NIC != e.NIC {
			e.That("on the thread of the call, with its NIC", false)
		}
		// A handler may call the library. The library does not nest handlers.
		before := len(reported)
		if d.VI != nil {
			if _, err := d.VI.RecvDone(t); !errors.Is(err, vipl.ErrDescriptor) && !errors.Is(err, vipl.ErrNotDone) {
				e.Is("a call in the handler", err, vipl.ErrDescriptor)
			}
		}
		if len(reported) != before {
			nested++
		}
	}
	e.Is("register", e.NIC.ErrorCallback(handler), nil)
	awaited := must(second.Receive(0, 16))
	check(p.Meet(0))
	// The first VI has no receive, so its errors arrive while the program waits
	// for the second.
	second.Take("behind the errors", awaited, Received(4))
	e.That(fmt.Sprintf("3 errors were reported while it waited, not %d", len(reported)), len(reported) == 3)
	for _, d := range reported {
		e.That(fmt.Sprintf("the first VI's empty queue, not %+v", d), d.VI == p.VI && d.Code == layout.AsyncErrorReceiveQueueEmpty &&
			d.Resource == vipl.ResourceVI && d.Operation == layout.StatusOperationReceive)
	}
	e.Is("a reported error does not come again", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)

	// Without a handler the errors wait; a new handler gets them with the next
	// call.
	reported = nil
	e.Is("restore the default", e.NIC.ErrorCallback(nil), nil)
	awaited = must(second.Receive(0, 16))
	check(p.Meet(0))
	second.Take("behind the errors", awaited, Received(4))
	e.That("nothing was reported", len(reported) == 0)
	a, err := p.NIC.ErrorWait(p.T, 0)
	e.Is("the oldest error", err, nil)
	e.That(fmt.Sprintf("of the first VI, not %+v", a), a.VI == p.VI.Index())
	e.Is("register again", e.NIC.ErrorCallback(handler), nil)
	e.Is("any call", errOf(second.VI.RecvDone(p.T)), vipl.ErrDescriptor)
	e.That(fmt.Sprintf("2 errors were left, not %d", len(reported)), len(reported) == 2)

	// A destroyed VI reports nothing under its index any more.
	reported = nil
	must(p.lose())
	e.Is("disconnect", p.VI.Disconnect(p.T), nil)
	e.That(fmt.Sprintf("the bad post is reported before Disconnect returns: %+v", reported), len(reported) == 1 &&
		reported[0].Code == layout.AsyncErrorPostDescriptor && reported[0].Resource == vipl.ResourceDescriptor && reported[0].VI == p.VI)
	for range 2 {
		_, _ = p.VI.SendDone(p.T)
	}
	e.Is("destroy", p.VI.Destroy(p.T), nil)
	e.Is("nothing else", errOf(p.NIC.ErrorWait(p.T, host.Millisecond)), vipl.ErrTimeout)
	e.That(fmt.Sprintf("nothing else was reported, not %+v", reported), len(reported) == 1)
	e.That("the handler was never called inside itself", nested == 0)
	return p.Settled(0)
}

func handlerClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	second := must(p.sibling(512))
	check(second.Redial(1))
	for range 2 {
		check(p.Meet(1))
		for range 3 {
			must(p.Send(0, 8))
			must(p.VI.SendWait(p.T, host.Second))
			// Give the agent time, so it reports each error separately.
			check(p.Quiet())
		}
		must(second.Send(0, 4))
		must(second.VI.SendWait(second.T, host.Second))
	}
	return p.Settled(1)
}

// abandonReceiveServer ends with a full receive queue.
func abandonReceiveServer(e *Env) error {
	p := must(e.Serve(Writable))
	for i := range 100 {
		must(p.Receive(i, 16))
	}
	return p.Tell(0)
}

// compactClient and compactServer put each descriptor right before its buffer,
// without gaps, as older programs do.
const (
	compactRound  = 10
	compactStride = 2 * vipl.DescriptorBytes
)

func compactClient(e *Env) error { return compact(e, 0) }

func compactServer(e *Env) error { return compact(e, 1) }

func compact(e *Env, node int) error {
	connect := e.Serve
	if node == 0 {
		connect = func(a vipl.VIAttributes) (*Peer, error) { return e.Dial(1, a) }
	}
	p := must(connect(Writable))
	b := must(p.NIC.Alloc(p.T, 2*compactRound*compactStride))
	memory := must(p.NIC.RegisterBuffer(p.T, b, vipl.MemAttributes{}))
	var list [2 * compactRound]*vipl.Descriptor
	buffer := func(i int) []byte {
		return memory.Bytes()[i*compactStride+vipl.DescriptorBytes : (i+1)*compactStride]
	}
	for i := range list {
		list[i] = must(memory.Descriptor(i*compactStride, 1))
		s := memory.Segment(i*compactStride+vipl.DescriptorBytes, vipl.DescriptorBytes)
		if i < compactRound {
			check(list[i].SetReceive(s))
			check(p.VI.PostRecv(p.T, list[i]))
		} else {
			copy(buffer(i), Pattern(vipl.DescriptorBytes, 10*i+node))
			check(list[i].SetSend(s))
		}
	}
	check(p.Meet(1 - node))
	for i := range compactRound {
		d := list[compactRound+i]
		check(p.VI.PostSend(p.T, d))
	}
	for i := range compactRound {
		p.Take(fmt.Sprintf("message %d", i), list[i], Received(vipl.DescriptorBytes))
		e.That(fmt.Sprintf("message %d is complete", i), bytes.Equal(buffer(i), Pattern(vipl.DescriptorBytes, 10*(compactRound+i)+1-node)))
		d, err := p.VI.SendWait(p.T, host.Second)
		p.Completed("the own one", d, list[compactRound+i], err, outcome{operation: layout.StatusOperationSend, length: vipl.DescriptorBytes})
	}
	p.ended("in the end")
	return p.Settled(1 - node)
}

// operationOf returns the operation in a completed descriptor's status.
func operationOf(d *vipl.Descriptor) layout.StatusOperation {
	return layout.StatusOperation(d.Status() & layout.DescriptorStatusOperationMask >> layout.DescriptorStatusOperationLsb)
}
