// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// A scenario is a program for each of two nodes. The same ones run on fake
// cards and on the simulated card.
type Scenario struct {
	Name           string
	client, server Main
	needs          []*Need
	only           driver.Device // the only one that it is about; "" = all
}

// Scenarios are all of them.
var Scenarios = []Scenario{
	{Name: "every alignment, both ways", client: pingClient, server: pongServer},
	{Name: "queues", client: queueClient, server: sinkServer},
	{Name: "not connected", client: idleClient},
	{Name: "disconnect with work posted", client: leaveClient, server: leaveServer},
	{Name: "local errors", client: localErrorClient, server: sinkServer},
	{Name: "remote errors", client: remoteErrorClient, server: remoteErrorServer},
	{Name: "unreachable descriptor", client: unreachableClient, server: reconnectServer},
	{Name: "memory", client: memoryClient},
	{Name: "VIs and tags", client: viClient},
	{Name: "connections", client: connectClient, server: connectServer},
	{Name: "other VIs go on", client: isolationClient, server: isolationServer},
	{Name: "left behind", client: abandonClient, server: abandonServer},
	{Name: "three VIs fail in one burst", client: burstClient, server: burstServer},
	{Name: "more errors than the card keeps", client: floodClient, server: sinkServer, only: driver.DeviceHvia}, // the kernel keeps every error
	{Name: "errors of what has ended", client: staleClient},
}

// Edges of pages and words.
var (
	edgeOffsets = []int{0, 1, 2, 3, 4092, 4093, 4094, 4095}
	edgeLengths = []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
)

// Each round the client writes to the server and the server writes back, from
// and to every offset; both check every byte of their buffers.
type round struct{ from, to, n int }

func rounds() (all []round) {
	for i, at := range edgeOffsets {
		for _, n := range edgeLengths {
			all = append(all, round{edgeOffsets[(i*3+n)%len(edgeOffsets)], at, n})
		}
	}
	for _, n := range []int{1471, 1472, 1473, 2944, 4096, 9001, 65536} {
		all = append(all, round{n % 4097, 4096 - n%7, n})
	}
	return all
}

const (
	sourceArea = bufferBytes / 2 // messages are read from here on, up to twice the area
	roundEnd   = 0xa5
)

func Pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + (i*31+seed*7)%251)
	}
	return b
}

// play does one direction of a round: the sender's half.
func (p *Peer) play(r round, seed int, source *vipl.Region, to Remote) error {
	payload := Pattern(r.n, seed)
	payload[r.n-1] = roundEnd
	copy(source.Bytes()[r.from:], payload)
	d := p.Next()
	d.SetRDMAWrite(to.Address+uint64(r.to), to.Handle, source.Segment(r.from, r.n))
	check(p.VI.PostSend(p.T, d))
	_, err := p.VI.SendWait(p.T, host.Second)
	return err
}

// expect is the receiver's half.
func (p *Peer) expect(r round, seed int) error {
	b := p.Mem.Bytes()
	end := r.to + r.n - 1
	check(p.Mem.Poll(p.T, end, 1, host.Second, func() bool { return b[end] == roundEnd }))
	want := make([]byte, len(b))
	copy(want[r.to:], Pattern(r.n, seed))
	want[end] = roundEnd
	if !bytes.Equal(b, want) {
		for i := range b {
			if b[i] != want[i] {
				return fmt.Errorf("round %+v: byte %d is %#x, want %#x", r, i, b[i], want[i])
			}
		}
	}
	clear(b)
	return nil
}

func (p *Peer) Source() (*vipl.Region, error) {
	b := must(p.NIC.Alloc(p.T, bufferBytes))
	return p.NIC.RegisterBuffer(p.T, b, vipl.MemAttributes{})
}

func pingClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.exchange(1))
	source := must(p.Source())
	for i, r := range rounds() {
		step(p.play(r, i, source, to), "round %d %+v", i, r)
		step(p.expect(r, i+1000), "round %d", i)
	}
	return p.Settled(1)
}

func pongServer(e *Env) error {
	p := must(e.Serve(Writable))
	to := must(p.exchange(0))
	source := must(p.Source())
	for i, r := range rounds() {
		step(p.expect(r, i), "round %d", i)
		step(p.play(r, i+1000, source, to), "round %d %+v", i, r)
	}
	return p.Settled(0)
}

func (p *Peer) exchange(node int) (Remote, error) {
	check(p.Tell(node))
	return p.Hear()
}

// sinkServer lets its memory be written until the client ends.
func sinkServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	return p.Settled(0)
}

func queueClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	// Nothing has been posted.
	d, err := p.VI.SendDone(p.T)
	e.Is("done on an empty queue", err, vipl.ErrDescriptor)
	e.That("no descriptor with it", d == nil)
	_, err = p.VI.SendWait(p.T, host.Millisecond)
	e.Is("wait on an empty queue", err, vipl.ErrDescriptor)

	first := must(p.Write(0, 4, to, 0))
	_, err = p.VI.SendDone(p.T)
	e.Is("done right after the post", err, vipl.ErrNotDone)
	_, err = p.VI.SendWait(p.T, 1)
	e.Is("wait for less than a bus clock", err, vipl.ErrTimeout)
	d, err = p.VI.SendWait(p.T, host.Second)
	e.Is("wait", err, nil)
	e.That("the first descriptor", d == first)
	status := first.Status()
	e.That(fmt.Sprintf("status %v", status), status == vipl.DescriptorStatus(layout.DescriptorStatusDoneMask|uint32(layout.StatusOperationRDMAWrite)<<layout.DescriptorStatusOperationLsb))

	// A full queue. The card works meanwhile, but what is not taken stays.
	posted := make([]*vipl.Descriptor, 0, vipl.MaxDescriptorsPerQueue)
	for i := range vipl.MaxDescriptorsPerQueue {
		d, err := p.Write(i%3, 1+i%5, to, 8*i)
		step(err, "post %d", i)
		posted = append(posted, d)
	}
	over := p.Next()
	over.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 4))
	copyOfOver := append([]byte(nil), over.Bytes()...)
	err = p.VI.PostSend(p.T, over)
	e.Is("one too many", err, vipl.ErrResource)
	e.Is("one too many", err, vipl.ErrOverrun)
	e.That("it is untouched", bytes.Equal(copyOfOver, over.Bytes()))
	info, err := p.VI.Query(p.T)
	e.Is("query", err, nil)
	e.That("the send queue is not empty, the receive queue is", !info.SendQueueEmpty && info.ReceiveQueueEmpty)
	for i, want := range posted {
		d, err := p.VI.SendWait(p.T, host.Second)
		step(err, "descriptor %d", i)
		e.That(fmt.Sprintf("descriptor %d in order", i), d == want)
		// Its memory is the program's at once: nothing may be written there any more.
		clear(d.Bytes())
	}
	_, err = p.VI.SendDone(p.T)
	e.Is("drained", err, vipl.ErrDescriptor)
	check(p.T.Sleep(host.Millisecond))
	for i, d := range posted {
		e.That(fmt.Sprintf("descriptor %d stays untouched", i), bytes.Equal(d.Bytes(), make([]byte, len(d.Bytes()))))
	}

	// Bursts of every length across the moment at which the queue runs empty.
	for burst := range 12 {
		for range burst {
			must(p.Write(0, 4, to, 0))
			check(p.T.Charge(host.Time(burst) * 300 * host.Nanosecond))
		}
		for range burst {
			step(errOf(p.VI.SendWait(p.T, host.Second)), "burst of %d", burst)
		}
	}
	return p.Settled(1)
}

// idleClient posts on a VI that was never connected.
func idleClient(e *Env) error {
	p := must(e.Prepare(Writable))
	for range 3 {
		must(p.Write(0, 4, Remote{p.Mem.Address(), p.Mem.Handle()}, 8))
	}
	e.Is("destroy with descriptors posted", p.VI.Destroy(p.T), vipl.ErrResource)
	for range 3 {
		d, err := p.VI.SendWait(p.T, host.Second)
		e.Flushed("posted while idle", d, err)
	}
	e.Is("destroy", p.VI.Destroy(p.T), nil)
	e.Is("destroy again", p.VI.Destroy(p.T), vipl.ErrInvalidParameter)
	return nil
}

func (e *Env) Flushed(what string, d *vipl.Descriptor, err error) {
	e.Is(what, err, vipl.ErrDescriptor)
	e.That(what+": a descriptor with it", d != nil)
	if d != nil {
		e.That(fmt.Sprintf("%s: flushed, not %v", what, d.Status()), d.Status()&vipl.Flushed != 0 && d.Status().Done())
	}
	var full *vipl.Error
	if errors.As(err, &full) {
		e.That(what+": the error has the bits", full.Bits&vipl.Flushed != 0 && full.Status == vipl.ErrDescriptor)
	}
}

// leaveClient disconnects with a long queue posted.
func leaveClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	const n = 64
	for range n {
		must(p.Write(0, 8192, to, 0))
	}
	check(p.VI.Disconnect(p.T))
	done, flushed := 0, 0
	for range n {
		d, err := p.VI.SendDone(p.T)
		switch {
		case err == nil && flushed == 0:
			done++
		case errors.Is(err, vipl.ErrDescriptor) && d != nil:
			e.Flushed("after the disconnect", d, err)
			flushed++
		default:
			return fmt.Errorf("descriptor %d: %w", done+flushed, err)
		}
	}
	// M-VIA hands a message to the NIC within the post.
	e.That(fmt.Sprintf("%d done, %d flushed: some of each", done, flushed), flushed > 0 || e.onMvia())
	_, err := p.VI.SendDone(p.T)
	e.Is("drained", err, vipl.ErrDescriptor)
	e.Is("disconnect again", p.VI.Disconnect(p.T), nil)
	state, empty, err := look(p.VI, p.T)
	e.Is("query", err, nil)
	e.That("idle and empty", state == vipl.Idle && empty)
	_, err = p.NIC.NextError(p.T)
	e.Is("who leaves is told nothing", err, vipl.ErrNotDone)

	// The same VI connects again.
	check(p.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("again")))
	check(p.Redial(1))
	must(p.Write(0, 4, to, 0))
	_, err = p.VI.SendWait(p.T, host.Second)
	e.Is("after connecting again", err, nil)
	return p.Settled(1)
}

func (p *Peer) Redial(node int) (err error) {
	for range Attempts {
		_, err = p.VI.ConnectRequest(p.T, vipl.NetAddress{Discriminator: "client"}, vipl.At(node, "test"), host.Second)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		check(p.T.Sleep(200 * host.Microsecond))
	}
	return err
}

// leaveServer is left, and finds its VI in the error state.
func leaveServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	m, ok, err := p.T.Receive(host.Second)
	if err != nil || !ok || string(m.Data) != "again" {
		return fmt.Errorf("waiting for the client to leave: %q %v: %w", m.Data, ok, err)
	}
	check(p.lost())
	check(p.Again())
	return p.Settled(0)
}

// look returns a VI's state and whether both of its queues are empty.
func look(v *vipl.VI, t *host.Thread) (layout.VIState, bool, error) {
	i, err := v.Query(t)
	return i.State, i.SendQueueEmpty && i.ReceiveQueueEmpty, err
}

// lost checks what a program sees of a connection that its peer has left.
func (p *Peer) lost() error {
	for range Attempts {
		s, _ := must2(look(p.VI, p.T))
		if s == vipl.ErrorState {
			break
		}
		check(p.T.Sleep(200 * host.Microsecond))
	}
	a, err := p.NIC.NextError(p.T)
	p.Is("the loss is reported", err, nil)
	p.That(fmt.Sprintf("the loss of this VI, not %+v", a), a.Code == layout.AsyncErrorConnectionLost && a.VI == p.VI.Index())
	_, err = p.NIC.NextError(p.T)
	p.Is("once", err, vipl.ErrNotDone)
	must(p.Write(0, 4, Remote{p.Mem.Address(), p.Mem.Handle()}, 0))
	d, err := p.VI.SendWait(p.T, host.Second)
	p.Flushed("posted in the error state", d, err)
	_, err = p.VI.ConnectRequest(p.T, vipl.NetAddress{}, vipl.At(0, ""), host.Millisecond)
	p.Is("connect in the error state", err, vipl.ErrInvalidState)
	p.Is("destroy in the error state", p.VI.Destroy(p.T), vipl.ErrInvalidState)
	p.Is("disconnect leaves the error state", p.VI.Disconnect(p.T), nil)
	s, _, err := look(p.VI, p.T)
	p.Is("query", err, nil)
	p.That("idle", s == vipl.Idle)
	return nil
}

// again accepts one more connection on the same VI.
func (p *Peer) Again() error {
	r := must(p.NIC.ConnectWait(p.T, vipl.NetAddress{Discriminator: "test"}, host.Second))
	return r.Accept(p.T, p.VI)
}

// goodWrite shows that a VI works.
func (p *Peer) GoodWrite(to Remote) error {
	must(p.Write(0, 4, to, bufferBytes-4))
	_, err := p.VI.SendWait(p.T, host.Second)
	return err
}

// localErrorClient posts descriptors that its own card must refuse, each
// followed by a good one.
func localErrorClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	stale := must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 4096, vipl.MemAttributes{}))
	check(stale.Deregister(p.T))
	tag := must(p.NIC.CreatePtag(p.T))
	foreign := must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 4096, vipl.MemAttributes{Ptag: tag}))
	good := p.Mem.Segment(100, 8)
	segment := func(change func(s *vipl.Segment)) func(d *vipl.Descriptor) {
		return func(d *vipl.Descriptor) {
			s := good
			change(&s)
			d.SetRDMAWrite(to.Address, to.Handle, s)
		}
	}
	data := func(d *vipl.Descriptor) layout.DataSegment {
		return layout.DataSegment(d.Bytes()[layout.DescriptorSize+layout.AddressSegmentSize:])
	}
	end := p.Mem.Address() + bufferBytes
	const (
		protection = layout.DescriptorStatusProtectionErrorMask
		format     = layout.DescriptorStatusFormatErrorMask
		length     = layout.DescriptorStatusLengthErrorMask
	)
	for _, c := range []struct {
		name string
		bit  uint32
		set  func(d *vipl.Descriptor)
	}{
		{"unregistered address", protection, segment(func(s *vipl.Segment) { s.Address = end + 4096 })},
		{"address 0", protection, segment(func(s *vipl.Segment) { s.Address = 0 })},
		{"address at the end of all", protection, segment(func(s *vipl.Segment) { s.Address = ^uint64(0) - 3 })},
		{"one byte before the region", protection, segment(func(s *vipl.Segment) { s.Address = p.Mem.Address() - 1 })},
		{"one byte behind the region", protection, segment(func(s *vipl.Segment) { s.Address = end - 7 })},
		{"handle 0", protection, segment(func(s *vipl.Segment) { s.Handle = 0 })},
		{"handle of nothing", protection, segment(func(s *vipl.Segment) { s.Handle ^= 0x80 })},
		{"handle of another generation", protection, segment(func(s *vipl.Segment) { s.Handle += 1 << layout.AttHandleValueGenerationLsb })},
		{"stale handle", protection, segment(func(s *vipl.Segment) { s.Handle = stale.Handle() })},
		{"tag of another VI", protection, segment(func(s *vipl.Segment) { s.Handle = foreign.Handle() })},
		{"operation RDMA read", format, func(d *vipl.Descriptor) { Raw(d).SetControl(uint16(layout.DescriptorOperationRDMARead)) }},
		{"reserved operation", format, func(d *vipl.Descriptor) { Raw(d).SetControl(3) }},
		{"reserved control bits", format, func(d *vipl.Descriptor) { Raw(d).SetControl(Raw(d).Control() | 0x8000) }},
		{"reserved word", format, func(d *vipl.Descriptor) { d.Bytes()[layout.DescriptorReservedOffset] = 1 }},
		{"reserved word of the address segment", format, func(d *vipl.Descriptor) {
			d.Bytes()[layout.DescriptorSize+layout.AddressSegmentReservedOffset] = 1
		}},
		{"no segments", format, func(d *vipl.Descriptor) { Raw(d).SetSegmentCount(0) }},
		{"too many segments", format, func(d *vipl.Descriptor) { Raw(d).SetSegmentCount(vipl.MaxSegments + 2) }},
		{"remote range beyond all addresses", format, func(d *vipl.Descriptor) {
			layout.AddressSegment(d.Bytes()[layout.DescriptorSize:]).SetAddress(^uint64(0) - 3)
		}},
		{"length and segment differ", length, func(d *vipl.Descriptor) { Raw(d).SetLength(9) }},
		{"length without a segment", length, func(d *vipl.Descriptor) { Raw(d).SetSegmentCount(1) }},
		{"longer than the max transfer size", length, func(d *vipl.Descriptor) {
			Raw(d).SetLength(70000)
			data(d).SetLength(70000)
		}},
	} {
		d := p.Next()
		d.SetRDMAWrite(to.Address, to.Handle, good)
		c.set(d)
		step(p.VI.PostSend(p.T, d), "%s", c.name)
		// A good one right behind it, linked by the bad one.
		must(p.Write(0, 4, to, bufferBytes-4))
		got, err := p.VI.SendWait(p.T, host.Second)
		e.Is(c.name, err, vipl.ErrDescriptor)
		e.That(c.name+": the descriptor comes back", got == d)
		want := vipl.DescriptorStatus(c.bit)
		e.That(fmt.Sprintf("%s: %v (%#x), want %v", c.name, d.Status(), uint32(d.Status()), want), d.Status()&vipl.DescriptorErrorMask == want)
		if c.name == "longer than the max transfer size" {
			e.That("its text has the numbers: "+Text(err), bytes.Contains([]byte(Text(err)), []byte("length 70000 > max transfer size 65536")))
		}
		_, err = p.VI.SendWait(p.T, host.Second)
		e.Is(c.name+", then a good one", err, nil)
	}
	// A message of no bytes is legal, with or without a segment.
	for _, segments := range []uint16{2, 1} {
		d := p.Next()
		d.SetRDMAWrite(to.Address, to.Handle, vipl.Segment{Address: good.Address, Handle: good.Handle})
		Raw(d).SetSegmentCount(segments)
		check(p.VI.PostSend(p.T, d))
		_, err := p.VI.SendWait(p.T, host.Second)
		e.Is(fmt.Sprintf("no bytes, %d segments", segments), err, nil)
	}

	e.Is("no descriptor", p.VI.PostSend(p.T, nil), vipl.ErrInvalidParameter)
	d := p.Next()
	d.Address += 8
	e.Is("misaligned descriptor", p.VI.PostSend(p.T, d), vipl.ErrInvalidParameter)
	_, err := p.descriptors.Descriptor(8, 1)
	e.Is("misaligned view", err, vipl.ErrInvalidParameter)
	_, err = p.descriptors.Descriptor(len(p.descriptors.Bytes()), 1)
	e.Is("view outside", err, vipl.ErrInvalidParameter)
	check(p.GoodWrite(to))
	_, err = p.NIC.NextError(p.T)
	e.Is("nothing asynchronous", err, vipl.ErrNotDone)
	return p.Settled(1)
}

// remoteCases are RDMA writes that the server's card must refuse. The writer
// cannot see it: on an unreliable VI they complete well.
var remoteCases = []struct {
	name string
	to   func(good, stale, locked, foreign Remote) (Remote, int)
}{
	{"unregistered address", func(g, _, _, _ Remote) (Remote, int) { return Remote{g.Address + 1<<30, g.Handle}, 0 }},
	{"one byte before the region", func(g, _, _, _ Remote) (Remote, int) { return Remote{g.Address - 1, g.Handle}, 0 }},
	{"one byte behind the region", func(g, _, _, _ Remote) (Remote, int) { return g, bufferBytes - 7 }},
	{"wrong handle", func(g, _, _, _ Remote) (Remote, int) { return Remote{g.Address, g.Handle ^ 0x40}, 0 }},
	{"handle 0", func(g, _, _, _ Remote) (Remote, int) { return Remote{g.Address, 0}, 0 }},
	{"stale handle", func(_, s, _, _ Remote) (Remote, int) { return s, 0 }},
	{"region without the right", func(_, _, l, _ Remote) (Remote, int) { return l, 0 }},
	{"region of another tag", func(_, _, _, f Remote) (Remote, int) { return f, 0 }},
}

const marker = bufferBytes - 16 // where the writer says how far it is

func (p *Peer) hearAll(n int) ([]Remote, error) {
	var all []Remote
	for range n {
		t := must(p.Hear())
		all = append(all, t)
	}
	return all, nil
}

func remoteErrorClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	targets := must(p.hearAll(4))
	for i, c := range remoteCases {
		to, at := c.to(targets[0], targets[1], targets[2], targets[3])
		copy(p.Mem.Bytes(), "poisonous")
		must(p.Write(0, 8, to, at))
		_, err := p.VI.SendWait(p.T, host.Second)
		e.Is(c.name+": the writer does not see it", err, nil)
		p.Mem.Bytes()[64] = byte(i + 1)
		must(p.Write(64, 1, targets[0], marker))
		must(p.VI.SendWait(p.T, host.Second))
		if m, ok, err := p.T.Receive(host.Second); err != nil || !ok || string(m.Data) != "next" {
			return fmt.Errorf("%s: the server does not go on: %w", c.name, err)
		}
	}

	// The same through a VI whose peer does not let it write.
	q := &Peer{Env: e, Mem: p.Mem, descriptors: p.descriptors, posted: p.posted}
	q.VI = must(e.NIC.CreateVI(e.T, Writable))
	check(q.Redial(1))
	must(q.Write(0, 8, targets[0], 0))
	_, err := q.VI.SendWait(q.T, host.Second)
	e.Is("locked VI: the writer does not see it", err, nil)
	p.posted = q.posted
	check(p.GoodWrite(targets[0]))
	return p.Settled(1)
}

func remoteErrorServer(e *Env) error {
	p := must(e.Serve(Writable))
	tag := must(p.NIC.CreatePtag(p.T))
	regions := []*vipl.Region{p.Mem}
	for _, a := range []vipl.MemAttributes{{EnableRDMAWrite: true}, {}, {EnableRDMAWrite: true, Ptag: tag}} {
		r := must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 4096, a))
		regions = append(regions, r)
	}
	check(regions[1].Deregister(p.T))
	for _, r := range regions {
		check((&Peer{Env: e, Mem: r}).Tell(0))
	}
	b := p.Mem.Bytes()
	refused := must(p.NIC.Counter(p.T, layout.CounterReceiveProtection))
	e.That("nothing refused yet", refused == 0)
	clean := func(name string) { e.That(name+": nothing was written", bytes.Equal(b[:marker], make([]byte, marker))) }
	protection := func(name string, vi int) error {
		a, err := p.asyncError()
		step(err, "%s", name)
		e.That(fmt.Sprintf("%s: a protection error on VI %d, not %+v", name, vi, a), a.Code == layout.AsyncErrorRDMAWriteProtection && a.VI == vi)
		return nil
	}
	for i, c := range remoteCases {
		step(p.Mem.Poll(p.T, marker, 1, host.Second, func() bool { return b[marker] == byte(i+1) }), "%s, then a good one", c.name)
		clean(c.name)
		check(protection(c.name, p.VI.Index()))
		check(p.T.Send(host.ThreadID{Node: 0, Rank: 1}, []byte("next")))
	}
	locked := must(p.NIC.CreateVI(p.T, vipl.VIAttributes{}))
	r := must(p.NIC.ConnectWait(p.T, vipl.NetAddress{Discriminator: "test"}, host.Second))
	e.That("the requester's attributes", r.RemoteAttributes.EnableRDMAWrite && r.RemoteAttributes.ReliabilityLevel == vipl.Unreliable && r.RemoteAddress.Discriminator == "client")
	check(r.Accept(p.T, locked))
	check(protection("locked VI", locked.Index()))
	clean("locked VI")
	refused, err := p.NIC.Counter(p.T, layout.CounterReceiveProtection)
	e.Is("counter", err, nil)
	e.That(fmt.Sprintf("%d refusals counted, want %d", refused, len(remoteCases)+1), int(refused) == len(remoteCases)+1)
	return p.Settled(0)
}

// asyncError waits for the next asynchronous error.
func (p *Peer) asyncError() (driver.AsyncError, error) {
	for range Attempts {
		a, err := p.NIC.NextError(p.T)
		if !errors.Is(err, vipl.ErrNotDone) {
			return a, err
		}
		check(p.T.Sleep(10 * host.Microsecond))
	}
	return driver.AsyncError{}, errors.New("no asynchronous error came")
}

// unreachableClient posts a descriptor whose handle is wrong. The card cannot
// answer in it, nor find what is posted behind it. What is posted before it and
// is on its way for a long time yet is carried out.
func unreachableClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	first := must(p.Write(0, driver.MaxTransferSize, to, 0))
	second := must(p.Write(0, 4, to, 0))
	bad := p.Next()
	bad.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 4))
	bad.Handle ^= 0x20
	check(p.VI.PostSend(p.T, bad))
	behind := must(p.Write(0, 4, to, 0))
	for _, want := range []*vipl.Descriptor{first, second} {
		d, err := p.VI.SendWait(p.T, host.Second)
		e.Is("before the bad one", err, nil)
		e.That("in order", d == want)
	}
	d, err := p.VI.SendWait(p.T, host.Second)
	e.Flushed("the bad one", d, err)
	e.That("in order", d == bad)
	// The one behind it is lost with it, or, if the card had met the bad one before
	// this was posted, is flushed by the card.
	d, err = p.VI.SendWait(p.T, host.Second)
	e.Flushed("behind the bad one", d, err)
	e.That("in order", d == behind)
	a, err := p.asyncError()
	e.Is("reported", err, nil)
	e.That(fmt.Sprintf("a bad post on this VI, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor && a.VI == p.VI.Index())
	s, empty, err := look(p.VI, p.T)
	e.Is("query", err, nil)
	e.That("broken and drained", s == vipl.ErrorState && empty)
	check(p.VI.Disconnect(p.T))
	check(p.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("again")))
	check(p.Redial(1))
	check(p.GoodWrite(to))

	// The same, and the program disconnects at once: what the card cannot
	// answer, the library completes.
	posts := []*vipl.Descriptor{p.Next(), p.Next()}
	for i, d := range posts {
		d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 4))
		if i == 0 {
			d.Handle ^= 0x20
		}
		check(p.VI.PostSend(p.T, d))
	}
	check(p.VI.Disconnect(p.T))
	for i, want := range posts {
		d, err := p.VI.SendDone(p.T)
		e.Flushed(fmt.Sprintf("after the disconnect, %d", i), d, err)
		e.That("in order", d == want)
	}
	_, err = p.VI.SendDone(p.T)
	e.Is("drained", err, vipl.ErrDescriptor)
	return p.Settled(1)
}

var reconnectServer = leaveServer

// memoryClient tries what memory calls must refuse.
func memoryClient(e *Env) error {
	b := must(e.NIC.Alloc(e.T, 3*4096))
	register := func(address, n uint64, a vipl.MemAttributes) error {
		_, err := e.NIC.RegisterMem(e.T, address, n, a)
		return err
	}
	e.Is("alloc nothing", errOf(e.NIC.Alloc(e.T, 0)), vipl.ErrInvalidParameter)
	e.Is("alloc less than nothing", errOf(e.NIC.Alloc(e.T, -1)), vipl.ErrInvalidParameter)
	e.Is("alloc too much", errOf(e.NIC.Alloc(e.T, 1<<31)), vipl.ErrResource)
	e.Is("register nothing", register(b.Address(), 0, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.Is("register address 0", register(0, 4, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.Is("register foreign memory", register(b.Address()+1<<32, 4, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.Is("register before", register(b.Address()-1, 4, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.Is("register beyond", register(b.Address(), 3*4096+1, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.Is("register around all", register(b.Address(), ^uint64(0), vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.Is("register with no tag of ours", register(b.Address(), 4, vipl.MemAttributes{Ptag: 0x7777}), vipl.ErrInvalidPtag)
	if e.NIC.Query().RDMAReadSupport == 0 {
		e.Is("register for RDMA read", register(b.Address(), 4, vipl.MemAttributes{EnableRDMARead: true}), vipl.ErrInvalidRDMARead)
	}

	// The same range several times, with different attributes and handles.
	handles := map[vipl.MemHandle]bool{0: true}
	var regions []*vipl.Region
	for i := range 4 {
		r := must(e.NIC.RegisterMem(e.T, b.Address()+uint64(i), 4097, vipl.MemAttributes{EnableRDMAWrite: i%2 == 1}))
		e.That("a handle of its own, not 0", !handles[r.Handle()])
		handles[r.Handle()] = true
		a, err := e.NIC.QueryMem(e.T, r.Address(), r.Handle())
		e.Is("query", err, nil)
		e.That("attributes as registered", a.EnableRDMAWrite == (i%2 == 1) && !a.EnableRDMARead && a.Ptag != 0)
		regions = append(regions, r)
	}
	r := regions[0]
	e.Is("free while registered", e.NIC.Free(e.T, b), vipl.ErrResource)
	e.Is("deregister at another address", e.NIC.DeregisterMem(e.T, r.Address()+1, r.Handle()), vipl.ErrInvalidParameter)
	e.Is("deregister by another handle", e.NIC.DeregisterMem(e.T, r.Address(), regions[1].Handle()), vipl.ErrInvalidParameter)
	e.Is("query by another handle", errOf(e.NIC.QueryMem(e.T, r.Address(), 0x123)), vipl.ErrInvalidParameter)
	other := must(vipl.OpenNIC(e.T, e.H))
	e.Is("deregister through another NIC handle", other.DeregisterMem(e.T, r.Address(), r.Handle()), vipl.ErrInvalidParameter)
	e.Is("close it", other.Close(e.T), nil)
	e.Is("close it again", other.Close(e.T), vipl.ErrInvalidParameter)
	_, err := other.Alloc(e.T, 1)
	e.Is("memory belongs to the host, not to the handle", err, nil)
	e.Is("register through it", errOf(other.RegisterMem(e.T, b.Address(), 1, vipl.MemAttributes{})), vipl.ErrInvalidParameter)
	for _, r := range regions {
		e.Is("deregister", r.Deregister(e.T), nil)
		e.Is("deregister again", r.Deregister(e.T), vipl.ErrInvalidParameter)
	}
	e.Is("free", e.NIC.Free(e.T, b), nil)

	// A region of more pages than one list of a command holds.
	big := must(e.H.Allocate(e.T, 1100*4096, mem.Runs))
	all := must(e.NIC.RegisterBuffer(e.T, big, vipl.MemAttributes{}))
	return all.Deregister(e.T)
}

// viClient tries what VI and tag calls must refuse.
func viClient(e *Env) error {
	create := func(a vipl.VIAttributes) error { return errOf(e.NIC.CreateVI(e.T, a)) }
	q := e.NIC.Query()
	for _, level := range []vipl.ReliabilityLevel{vipl.ReliableDelivery, vipl.ReliableReception} {
		want := error(nil)
		if q.ReliabilityLevelSupport&level == 0 {
			want = vipl.ErrInvalidReliabilityLevel
		}
		v, err := e.NIC.CreateVI(e.T, vipl.VIAttributes{ReliabilityLevel: level})
		e.Is(fmt.Sprintf("reliability level %d", level), err, want)
		if err == nil {
			e.Is("destroy", v.Destroy(e.T), nil)
		}
	}
	e.Is("two levels", create(vipl.VIAttributes{ReliabilityLevel: 3}), vipl.ErrInvalidReliabilityLevel)
	e.Is("too large a transfer", create(vipl.VIAttributes{MaxTransferSize: 65537}), vipl.ErrInvalidMTU)
	e.Is("a negative one", create(vipl.VIAttributes{MaxTransferSize: -1}), vipl.ErrInvalidMTU)
	e.Is("RDMA read at the unreliable level", create(vipl.VIAttributes{EnableRDMARead: true}), vipl.ErrInvalidRDMARead)
	e.Is("foreign tag", create(vipl.VIAttributes{Ptag: 0x7777}), vipl.ErrInvalidPtag)

	tag, err := e.NIC.CreatePtag(e.T)
	e.Is("create tag", err, nil)
	e.That("not tag 0", tag != 0)
	v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{Ptag: tag, MaxTransferSize: 32768}))
	info, err := v.Query(e.T)
	e.Is("query", err, nil)
	e.That(fmt.Sprintf("as created, not %+v", info), info == vipl.VIInfo{
		State: vipl.Idle, Attributes: vipl.VIAttributes{ReliabilityLevel: vipl.Unreliable, MaxTransferSize: 32768, Ptag: tag},
		SendQueueEmpty: true, ReceiveQueueEmpty: true,
	})
	e.Is("destroy a tag in use", e.NIC.DestroyPtag(e.T, tag), vipl.ErrResource)
	e.Is("set attributes", v.SetAttributes(e.T, vipl.VIAttributes{EnableRDMAWrite: true}), nil)
	info, err = v.Query(e.T)
	a := info.Attributes
	e.Is("query", err, nil)
	e.That("as set", a.EnableRDMAWrite && a.MaxTransferSize == 65536 && a.Ptag != tag && a.Ptag != 0)
	e.Is("destroy a tag", e.NIC.DestroyPtag(e.T, tag), nil)
	e.Is("destroy it again", e.NIC.DestroyPtag(e.T, tag), vipl.ErrInvalidPtag)
	e.Is("destroy the handle's own", e.NIC.DestroyPtag(e.T, a.Ptag), vipl.ErrInvalidParameter)
	e.Is("set a tag that is gone", v.SetAttributes(e.T, vipl.VIAttributes{Ptag: tag}), vipl.ErrInvalidPtag)
	e.Is("disconnect an idle VI", v.Disconnect(e.T), nil)
	e.Is("twice", v.Disconnect(e.T), nil)

	e.That(fmt.Sprintf("attributes %+v", q), q.MaxVI == 256 && q.ReliabilityLevelSupport&vipl.Unreliable != 0 &&
		q.RDMAReadSupport&vipl.Unreliable == 0 && q.RDMAReadSupport&^q.ReliabilityLevelSupport == 0 && (q.MaxCQ > 0) == (q.MaxCQEntries > 0) &&
		q.MaxTransferSize >= 32768 && q.MaxDescriptorsPerQueue == 1024 && q.MaxSegmentsPerDesc == 252 && q.LocalAddress == vipl.At(0, "").Host && q.NativeMTU == layout.MaxPayload)
	// All VIs of the card, then one more.
	made := []*vipl.VI{v}
	for len(made) < q.MaxVI {
		v, err := e.NIC.CreateVI(e.T, vipl.VIAttributes{})
		step(err, "VI %d", len(made))
		made = append(made, v)
	}
	e.Is("one too many", create(vipl.VIAttributes{}), vipl.ErrResource)
	for _, v := range made {
		e.Is("destroy", v.Destroy(e.T), nil)
	}
	e.Is("a destroyed VI", errOf(v.ConnectRequest(e.T, vipl.NetAddress{}, vipl.NetAddress{}, 1)), vipl.ErrInvalidParameter)
	e.Is("room again", create(vipl.VIAttributes{}), nil)
	return nil
}

// connectClient tries every way in which a connection does not come about.
func connectClient(e *Env) error {
	v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{}))
	server := func(d string) vipl.NetAddress { return vipl.At(1, d) }
	request := func(d string, timeout host.Time) error {
		_, err := v.ConnectRequest(e.T, vipl.NetAddress{Discriminator: "me"}, server(d), timeout)
		return err
	}
	begin := e.T.Now()
	e.Is("nobody there", request("nobody", host.Second), vipl.ErrNoMatch)
	e.That("told promptly", e.T.Now()-begin < host.Millisecond)
	e.Is("timeout 0", request("test", 0), vipl.ErrInvalidParameter)
	e.Is("a discriminator too long", request(string(make([]byte, 33)), host.Second), vipl.ErrInvalidParameter)
	begin = e.T.Now()
	_, err := v.ConnectRequest(e.T, vipl.NetAddress{}, vipl.At(9, "test"), 5*host.Millisecond)
	e.Is("no such host", err, vipl.ErrTimeout)
	e.That("after the timeout", e.T.Now()-begin >= 5*host.Millisecond)
	_, err = e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "x"}, host.Millisecond)
	e.Is("wait for nobody", err, vipl.ErrTimeout)
	_, err = e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "x"}, 0)
	e.Is("look for nobody", err, vipl.ErrTimeout)

	again := func(timeout host.Time) (err error) {
		for range Attempts {
			if err = request("test", timeout); !errors.Is(err, vipl.ErrNoMatch) {
				return err
			}
			if err := e.T.Sleep(200 * host.Microsecond); err != nil {
				return err
			}
		}
		return err
	}
	e.Is("rejected", again(host.Second), vipl.ErrReject)
	e.Is("not decided in time", again(2*host.Millisecond), vipl.ErrTimeout)
	// The server's first VI has another transfer size; it takes a second one.
	e.Is("accepted in the end", again(host.Second), nil)
	s, _, err := look(v, e.T)
	e.Is("query", err, nil)
	e.That("connected", s == vipl.Connected)
	e.Is("connect a connected VI", request("test", host.Second), vipl.ErrInvalidState)
	e.Is("destroy a connected VI", v.Destroy(e.T), vipl.ErrInvalidState)
	e.Is("set attributes of a connected VI", v.SetAttributes(e.T, vipl.VIAttributes{}), vipl.ErrInvalidState)
	e.Is("disconnect", v.Disconnect(e.T), nil)
	e.Is("disconnect again", v.Disconnect(e.T), nil)
	e.Is("destroy", v.Destroy(e.T), nil)
	return (&Peer{Env: e}).Settled(1)
}

func connectServer(e *Env) error {
	small := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{MaxTransferSize: 4096}))
	large := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{}))
	wait := func() (*vipl.ConnectionRequest, error) {
		return e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, host.Second)
	}
	r := must(wait())
	e.That("who asks: "+r.RemoteAddress.String(), r.RemoteAddress == vipl.At(0, "me"))
	e.Is("reject", r.Reject(e.T), nil)
	e.Is("reject again", r.Reject(e.T), vipl.ErrInvalidParameter)
	e.Is("accept what was rejected", r.Accept(e.T, large), vipl.ErrInvalidParameter)

	r = must(wait())
	check(e.T.Sleep(5 * host.Millisecond))
	e.Is("accept too late", r.Accept(e.T, large), vipl.ErrTimeout)

	r = must(wait())
	e.Is("accept with another transfer size", r.Accept(e.T, small), vipl.ErrInvalidMTU)
	e.Is("accept with the same", r.Accept(e.T, large), nil)
	e.Is("accept on a connected VI", r.Accept(e.T, large), vipl.ErrInvalidState)
	return (&Peer{Env: e}).Settled(0)
}

// isolationClient keeps one VI working while it and its peer abuse another.
func isolationClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	bad := &Peer{Env: e, Mem: p.Mem, descriptors: p.descriptors, posted: 1024}
	bad.VI = must(e.NIC.CreateVI(e.T, Writable))
	check(bad.Redial(1))
	for i := range 40 {
		copy(p.Mem.Bytes(), Pattern(512, i))
		must(p.Write(0, 512, to, 4096+512*i))
		switch i % 4 {
		case 0: // refused here
			d := bad.Next()
			d.SetRDMAWrite(to.Address, to.Handle, vipl.Segment{Address: 1, Handle: 0x55, Length: 64})
			check(bad.VI.PostSend(bad.T, d))
		case 1: // refused there
			must(bad.Write(0, 64, Remote{to.Address, to.Handle ^ 0x11}, 0))
		case 2: // malformed
			d := bad.Next()
			d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 8))
			Raw(d).SetControl(0xfff3)
			check(bad.VI.PostSend(bad.T, d))
		default: // what the card cannot answer, or cannot even take
			d := bad.Next()
			d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 8))
			d.Handle = 0x123
			if i == 39 {
				check(bad.VI.PostSend(bad.T, d))
			}
			if !e.onMvia() {
				check(bad.T.Write(layout.PciBar1Base+uint32(bad.VI.Index())*layout.DoorbellPageBytes+layout.DoorbellSend, 0x33))
			}
		}
		step(errOf(p.VI.SendWait(p.T, host.Second)), "the good VI, message %d", i)
		// Not faster than the receiver can store: an overrun would be no fault of the other VI.
		check(p.T.Sleep(20 * host.Microsecond))
	}
	malformed, err := p.NIC.Counter(p.T, layout.CounterDoorbellMalformed)
	e.Is("counter", err, nil)
	// A first dword of a doorbell is malformed when another one starts over. The last one still waits.
	e.That(fmt.Sprintf("%d malformed doorbells counted", malformed), malformed >= 9 || e.onMvia() && malformed == 0)
	check(p.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("check")))
	return p.Settled(1)
}

func isolationServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	second := must(e.NIC.CreateVI(e.T, Writable))
	r := must(e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, host.Second))
	check(r.Accept(e.T, second))
	if m, ok, err := p.T.Receive(host.Second); err != nil || !ok || string(m.Data) != "check" {
		return fmt.Errorf("waiting for the client: %w", err)
	}
	want := make([]byte, bufferBytes)
	for i := range 40 {
		copy(want[4096+512*i:], Pattern(512, i))
	}
	// The mailbox is faster than the wire.
	end := 4096 + 512*40 - 1
	check(p.Mem.Poll(p.T, end, 1, host.Second, func() bool { return p.Mem.Bytes()[end] == want[end] }))
	for i := range want {
		if p.Mem.Bytes()[i] != want[i] {
			return fmt.Errorf("byte %d is %#x, want %#x: every message of the good VI and nothing else", i, p.Mem.Bytes()[i], want[i])
		}
	}
	return p.Settled(0)
}

// abandonClient and abandonServer end with everything open and posted; the
// agents must take it back.
func abandonClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	for range 20 {
		must(p.Write(0, 30000, to, 0))
	}
	return nil
}

func abandonServer(e *Env) error {
	p := must(e.Serve(Writable))
	return p.Tell(0)
}

// sibling returns a peer with a VI of its own and the memory of p; the
// numbers of its descriptors begin at first.
func (p *Peer) sibling(first int) (*Peer, error) {
	q := &Peer{Env: p.Env, Mem: p.Mem, descriptors: p.descriptors, posted: first}
	var err error
	q.VI, err = p.NIC.CreateVI(p.T, Writable)
	return q, err
}

// lose posts a descriptor whose handle is wrong: the card cannot answer in it.
func (p *Peer) lose() (*vipl.Descriptor, error) {
	d := p.Next()
	d.SetRDMAWrite(p.Mem.Address(), p.Mem.Handle(), p.Mem.Segment(0, 4))
	d.Handle ^= 0x20
	return d, p.VI.PostSend(p.T, d)
}

const (
	burst = 3
	// promptly is far more than the agent takes for any error, and far less than
	// the timeout that must not be what ends a wait.
	Promptly = host.Millisecond
)

// burstClient makes three of its four VIs fail before the agent can have
// looked: each has its own error, and the fourth goes on.
func burstClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	var bad [burst]*Peer
	for i := range bad {
		bad[i] = must(p.sibling(256 * (i + 1)))
		check(bad[i].Redial(1))
	}
	copy(p.Mem.Bytes(), Pattern(512, 1))
	start := p.T.Now()
	var lost, behind [burst]*vipl.Descriptor
	for i, q := range bad {
		lost[i] = must(q.lose())
	}
	good := must(p.Write(0, 512, to, 4096))
	for i, q := range bad {
		behind[i] = must(q.Write(0, 0, to, 0))
	}
	for i, q := range bad {
		name := fmt.Sprintf("VI %d", q.VI.Index())
		d, err := q.VI.SendWait(q.T, host.Second)
		e.Flushed(name, d, err)
		e.That(name+": in order", d == lost[i])
		// The card may have met the bad one before the next was posted.
		d, err = q.VI.SendWait(q.T, host.Second)
		if err != nil {
			e.Flushed(name+": behind", d, err)
		}
		e.That(name+": in order", d == behind[i])
	}
	d, err := p.VI.SendWait(p.T, host.Second)
	e.Is("the fourth VI", err, nil)
	e.That("the fourth VI: in order", d == good)
	took := p.T.Now() - start
	e.That(fmt.Sprintf("the waits end at once, not after %v", took), took < Promptly)

	seen := map[int]int{}
	for range bad {
		a, err := p.asyncError()
		e.Is("reported", err, nil)
		e.That(fmt.Sprintf("a bad post, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor)
		seen[a.VI]++
	}
	_, err = p.NIC.NextError(p.T)
	e.Is("no more errors", err, vipl.ErrNotDone)
	for _, q := range bad {
		e.That(fmt.Sprintf("VI %d has one error, not %d", q.VI.Index(), seen[q.VI.Index()]), seen[q.VI.Index()] == 1)
		s, empty, err := look(q.VI, q.T)
		e.Is("query", err, nil)
		e.That(fmt.Sprintf("VI %d is broken and drained, not %v", q.VI.Index(), s), s == vipl.ErrorState && empty)
	}
	s, _, err := look(p.VI, p.T)
	e.Is("query", err, nil)
	e.That(fmt.Sprintf("the fourth VI is connected, not %v", s), s == vipl.Connected)
	must(p.Write(0, 512, to, 8192))
	_, err = p.VI.SendWait(p.T, host.Second)
	e.Is("the fourth VI goes on", err, nil)
	return p.Settled(1)
}

func burstServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	others := map[int]bool{}
	for i := range burst {
		q := must(p.sibling(256 * (i + 1)))
		check(q.Again())
		others[q.VI.Index()] = true
	}
	want := make([]byte, bufferBytes)
	copy(want[4096:], Pattern(512, 1))
	copy(want[8192:], Pattern(512, 1))
	end := 8192 + 512 - 1
	check(p.Mem.Poll(p.T, end, 1, host.Second, func() bool { return p.Mem.Bytes()[end] == want[end] }))
	e.That("what the fourth VI wrote and nothing else", bytes.Equal(p.Mem.Bytes(), want))
	for range burst {
		a, err := p.asyncError()
		e.Is("reported", err, nil)
		e.That(fmt.Sprintf("a lost connection of one of the three, once, not %+v", a), a.Code == layout.AsyncErrorConnectionLost && others[a.VI])
		delete(others, a.VI)
	}
	return p.Settled(0)
}

// floodClient makes so many VIs fail in one burst that the card cannot keep
// every error. It still knows whose they were: each of these VIs is told that
// it is broken, and the one that did nothing goes on.
func floodClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	const flood = 60
	var bad [flood]*Peer
	for i := range bad {
		bad[i] = must(p.sibling(2 * (i + 1)))
	}
	p.posted = 2 * (flood + 1)
	start := p.T.Now()
	for i, q := range bad {
		must(q.lose())
		if i%8 == 0 {
			must(p.Write(0, 512, to, 4096))
		}
	}
	for range (flood + 7) / 8 {
		_, err := p.VI.SendWait(p.T, host.Second)
		e.Is("the good VI during the flood", err, nil)
	}
	for _, q := range bad {
		d, err := q.VI.SendWait(q.T, host.Second)
		e.Flushed(fmt.Sprintf("VI %d", q.VI.Index()), d, err)
	}
	took := p.T.Now() - start
	e.That(fmt.Sprintf("the waits end at once, not after %v", took), took < flood*Promptly/10)

	seen := map[int]int{}
	codes := map[layout.AsyncError]int{}
	for range bad {
		a := must(p.asyncError())
		seen[a.VI]++
		codes[a.Code]++
	}
	_, err := p.NIC.NextError(p.T)
	e.Is("no more errors", err, vipl.ErrNotDone)
	for _, q := range bad {
		e.That(fmt.Sprintf("VI %d has one error, not %d", q.VI.Index(), seen[q.VI.Index()]), seen[q.VI.Index()] == 1)
	}
	post, dropped := codes[layout.AsyncErrorPostDescriptor], codes[layout.AsyncErrorCatastrophic]
	e.That(fmt.Sprintf("some were dropped and as many as fit were not: %v", codes), dropped > 0 && post >= layout.AsyncErrorSlots && post+dropped == flood)
	s, _, err := look(p.VI, p.T)
	e.Is("query", err, nil)
	e.That(fmt.Sprintf("the good VI is connected, not %v", s), s == vipl.Connected)
	check(p.GoodWrite(to))
	return p.Settled(1)
}

// staleClient ends what it has broken before the agent has looked: the error
// must break neither what is left of the VI nor the next one with its index.
func staleClient(e *Env) error {
	p := must(e.Prepare(Writable))
	for range 3 {
		index := p.VI.Index()
		want := must(p.lose())
		check(p.VI.Disconnect(p.T))
		d, err := p.VI.SendDone(p.T)
		e.Flushed("after the disconnect", d, err)
		e.That("in order", d == want)
		s, _, err := look(p.VI, p.T)
		e.Is("query", err, nil)
		e.That(fmt.Sprintf("idle after the disconnect, not %v", s), s == vipl.Idle)
		a, err := p.NIC.NextError(p.T)
		e.Is("the error was told by then", err, nil)
		e.That(fmt.Sprintf("a bad post on this VI, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor && a.VI == index)

		// Nothing is outstanding for the library, so the VI may go at once.
		if !e.onMvia() { // which has no doorbells to ring without the library
			check(p.T.Write(layout.PciBar1Base+uint32(index)*layout.DoorbellPageBytes+layout.DoorbellSend,
				uint32(p.Mem.Address())&^(layout.DescriptorAlignment-1), 0, 0x123))
		}
		check(p.VI.Destroy(p.T))
		p.VI = must(e.NIC.CreateVI(p.T, Writable))
		e.That("the index is used again", p.VI.Index() == index)
		check(p.T.Sleep(host.Millisecond))
		s, _, err = look(p.VI, p.T)
		e.Is("query", err, nil)
		e.That(fmt.Sprintf("the next VI is idle, not %v", s), s == vipl.Idle)
		_, err = p.NIC.NextError(p.T)
		e.Is("and has no error", err, vipl.ErrNotDone)
	}
	return nil
}

// MainsOf are a scenario's programs. On a NIC that lacks what it is about, they
// check that it is rejected.
func MainsOf(s Scenario) []Main {
	mains := []Main{s.client, s.server}
	for i, m := range mains {
		mains[i] = func(e *Env) error {
			switch n := missing(e.NIC.Query(), s.needs...); {
			case m == nil:
				return nil
			case n != nil:
				return n.rejected(n.use(e))
			}
			return m(e)
		}
	}
	return mains
}

// on says whether it is a device's.
func (s Scenario) on(d driver.Device) bool { return s.only == "" || s.only == d }

// endpointProgram writes many messages to and fro, one after another.
func endpointProgram(e *Env, node int) error {
	p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 10000}))
	if node == 0 {
		check(p.Dial(e.T, vipl.At(1, "here"), host.Second))
	} else {
		check(p.Accept(e.T, "here", host.Second))
	}
	for i := range 100 { // more than there are descriptors
		write := func() error {
			copy(p.Bytes(), Pattern(3000, i+node))
			p.Bytes()[2999] = byte(i + 1)
			return p.Write(e.T, 0, 3000, 5000, host.Second)
		}
		if node == 0 {
			check(write())
		}
		step(p.Poll(e.T, 7999, byte(i+1), host.Second), "message %d", i)
		want := Pattern(3000, i+1-node)
		want[2999] = byte(i + 1)
		e.That(fmt.Sprintf("message %d", i), bytes.Equal(p.Bytes()[5000:8000], want))
		if node == 1 {
			check(write())
		}
	}
	e.Is("beyond the peer's buffer", p.Write(e.T, 0, 3000, 7001, host.Second), vipl.ErrInvalidParameter)
	e.Is("beyond the own buffer", p.Write(e.T, 7001, 3000, 0, host.Second), vipl.ErrInvalidParameter)
	e.Is("poll outside", p.Poll(e.T, 10000, 0, 0), vipl.ErrInvalidParameter)
	e.Is("poll for what does not come", p.Poll(e.T, 9999, 1, host.Millisecond), vipl.ErrTimeout)
	check((&Peer{Env: e}).Settled(1 - node))
	return p.Close(e.T)
}
