// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

// A scenario is a program for each of two nodes. The same ones run on fake
// cards and on the simulated card.
type scenario struct {
	name           string
	client, server main
}

// features are what a NIC need not have, by the scenarios about them.
var features = map[string]func(vipl.NICAttributes) bool{}

var scenarios = []scenario{
	{"every alignment, both ways", pingClient, pongServer},
	{"queues", queueClient, sinkServer},
	{"not connected", idleClient, nil},
	{"disconnect with work posted", leaveClient, leaveServer},
	{"local errors", localErrorClient, sinkServer},
	{"remote errors", remoteErrorClient, remoteErrorServer},
	{"unreachable descriptor", unreachableClient, reconnectServer},
	{"memory", memoryClient, nil},
	{"VIs and tags", viClient, nil},
	{"connections", connectClient, connectServer},
	{"other VIs go on", isolationClient, isolationServer},
	{"left behind", abandonClient, abandonServer},
	{"three VIs fail in one burst", burstClient, burstServer},
	{"more errors than the card keeps", floodClient, sinkServer},
	{"errors of what has ended", staleClient, nil},
}

// cardOnly are scenarios about what only the card has, and why.
var cardOnly = map[string]string{
	"more errors than the card keeps": "the kernel keeps every asynchronous error until the agent looks",
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

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + (i*31+seed*7)%251)
	}
	return b
}

// play does one direction of a round: the sender's half.
func (p *peer) play(r round, seed int, source *vipl.Region, to target) error {
	payload := pattern(r.n, seed)
	payload[r.n-1] = roundEnd
	copy(source.Bytes()[r.from:], payload)
	d := p.next()
	d.SetRDMAWrite(source.Segment(r.from, r.n), to.address+uint64(r.to), to.handle)
	if err := p.vi.PostSend(p.t, d); err != nil {
		return err
	}
	_, err := p.vi.SendWait(p.t, host.Second)
	return err
}

// expect is the receiver's half.
func (p *peer) expect(r round, seed int) error {
	b := p.mem.Bytes()
	end := r.to + r.n - 1
	if err := p.mem.Poll(p.t, end, 1, host.Second, func() bool { return b[end] == roundEnd }); err != nil {
		return err
	}
	want := make([]byte, len(b))
	copy(want[r.to:], pattern(r.n, seed))
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

func (p *peer) source() (*vipl.Region, error) {
	b, err := p.nic.Alloc(p.t, bufferBytes)
	if err != nil {
		return nil, err
	}
	return p.nic.RegisterBuffer(p.t, b, vipl.MemAttributes{})
}

func pingClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.exchange(1)
	if err != nil {
		return err
	}
	source, err := p.source()
	if err != nil {
		return err
	}
	for i, r := range rounds() {
		if err := p.play(r, i, source, to); err != nil {
			return fmt.Errorf("round %d %+v: %w", i, r, err)
		}
		if err := p.expect(r, i+1000); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return p.settled(1)
}

func pongServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	to, err := p.exchange(0)
	if err != nil {
		return err
	}
	source, err := p.source()
	if err != nil {
		return err
	}
	for i, r := range rounds() {
		if err := p.expect(r, i); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if err := p.play(r, i+1000, source, to); err != nil {
			return fmt.Errorf("round %d %+v: %w", i, r, err)
		}
	}
	return p.settled(0)
}

func (p *peer) exchange(node int) (target, error) {
	if err := p.tell(node); err != nil {
		return target{}, err
	}
	return p.hear()
}

// sinkServer lets its memory be written until the client ends.
func sinkServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	if err := p.tell(0); err != nil {
		return err
	}
	return p.settled(0)
}

func queueClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	// Nothing has been posted.
	d, err := p.vi.SendDone(p.t)
	e.is("done on an empty queue", err, vipl.ErrDescriptor)
	e.that("no descriptor with it", d == nil)
	_, err = p.vi.SendWait(p.t, host.Millisecond)
	e.is("wait on an empty queue", err, vipl.ErrDescriptor)

	first, err := p.write(0, 4, to, 0)
	if err != nil {
		return err
	}
	_, err = p.vi.SendDone(p.t)
	e.is("done right after the post", err, vipl.ErrNotDone)
	_, err = p.vi.SendWait(p.t, 1)
	e.is("wait for less than a bus clock", err, vipl.ErrTimeout)
	d, err = p.vi.SendWait(p.t, host.Second)
	e.is("wait", err, nil)
	e.that("the first descriptor", d == first)
	status := first.Status()
	e.that(fmt.Sprintf("status %v", status), status == vipl.DescriptorStatus(layout.DescriptorStatusDoneMask|uint32(layout.StatusOperationRDMAWrite)<<layout.DescriptorStatusOperationLsb))

	// A full queue. The card works meanwhile, but what is not taken stays.
	posted := make([]*vipl.Descriptor, 0, vipl.MaxDescriptorsPerQueue)
	for i := range vipl.MaxDescriptorsPerQueue {
		d, err := p.write(i%3, 1+i%5, to, 8*i)
		if err != nil {
			return fmt.Errorf("post %d: %w", i, err)
		}
		posted = append(posted, d)
	}
	over := p.next()
	over.SetRDMAWrite(p.mem.Segment(0, 4), to.address, to.handle)
	copyOfOver := append([]byte(nil), over.Bytes()...)
	err = p.vi.PostSend(p.t, over)
	e.is("one too many", err, vipl.ErrResource)
	e.is("one too many", err, vipl.ErrOverrun)
	e.that("it is untouched", bytes.Equal(copyOfOver, over.Bytes()))
	info, err := p.vi.Query(p.t)
	e.is("query", err, nil)
	e.that("the send queue is not empty, the receive queue is", !info.SendQueueEmpty && info.ReceiveQueueEmpty)
	for i, want := range posted {
		d, err := p.vi.SendWait(p.t, host.Second)
		if err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
		e.that(fmt.Sprintf("descriptor %d in order", i), d == want)
		// Its memory is the program's at once: nothing may be written there any more.
		clear(d.Bytes())
	}
	_, err = p.vi.SendDone(p.t)
	e.is("drained", err, vipl.ErrDescriptor)
	if err := p.t.Sleep(host.Millisecond); err != nil {
		return err
	}
	for i, d := range posted {
		e.that(fmt.Sprintf("descriptor %d stays untouched", i), bytes.Equal(d.Bytes(), make([]byte, len(d.Bytes()))))
	}

	// Bursts of every length across the moment at which the queue runs empty.
	for burst := range 12 {
		for range burst {
			if _, err := p.write(0, 4, to, 0); err != nil {
				return err
			}
			if err := p.t.Charge(host.Time(burst) * 300 * host.Nanosecond); err != nil {
				return err
			}
		}
		for range burst {
			if _, err := p.vi.SendWait(p.t, host.Second); err != nil {
				return fmt.Errorf("burst of %d: %w", burst, err)
			}
		}
	}
	return p.settled(1)
}

// idleClient posts on a VI that was never connected.
func idleClient(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	for range 3 {
		if _, err := p.write(0, 4, target{p.mem.Address(), p.mem.Handle()}, 8); err != nil {
			return err
		}
	}
	e.is("destroy with descriptors posted", p.vi.Destroy(p.t), vipl.ErrResource)
	for range 3 {
		d, err := p.vi.SendWait(p.t, host.Second)
		e.flushed("posted while idle", d, err)
	}
	e.is("destroy", p.vi.Destroy(p.t), nil)
	e.is("destroy again", p.vi.Destroy(p.t), vipl.ErrInvalidParameter)
	return nil
}

func (e *env) flushed(what string, d *vipl.Descriptor, err error) {
	e.is(what, err, vipl.ErrDescriptor)
	e.that(what+": a descriptor with it", d != nil)
	if d != nil {
		e.that(fmt.Sprintf("%s: flushed, not %v", what, d.Status()), d.Status()&vipl.Flushed != 0 && d.Status().Done())
	}
	var full *vipl.Error
	if errors.As(err, &full) {
		e.that(what+": the error has the bits", full.Bits&vipl.Flushed != 0 && full.Status == vipl.ErrDescriptor)
	}
}

// leaveClient disconnects with a long queue posted.
func leaveClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	const n = 64
	for range n {
		if _, err := p.write(0, 8192, to, 0); err != nil {
			return err
		}
	}
	if err := p.vi.Disconnect(p.t); err != nil {
		return err
	}
	done, flushed := 0, 0
	for range n {
		d, err := p.vi.SendDone(p.t)
		switch {
		case err == nil && flushed == 0:
			done++
		case errors.Is(err, vipl.ErrDescriptor) && d != nil:
			e.flushed("after the disconnect", d, err)
			flushed++
		default:
			return fmt.Errorf("descriptor %d: %w", done+flushed, err)
		}
	}
	// M-VIA hands a message to the NIC within the post.
	e.that(fmt.Sprintf("%d done, %d flushed: some of each", done, flushed), flushed > 0 || e.onMvia())
	_, err = p.vi.SendDone(p.t)
	e.is("drained", err, vipl.ErrDescriptor)
	e.is("disconnect again", p.vi.Disconnect(p.t), nil)
	state, empty, err := look(p.vi, p.t)
	e.is("query", err, nil)
	e.that("idle and empty", state == vipl.Idle && empty)
	_, err = p.nic.NextError(p.t)
	e.is("who leaves is told nothing", err, vipl.ErrNotDone)

	// The same VI connects again.
	if err := p.t.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("again")); err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	if _, err := p.write(0, 4, to, 0); err != nil {
		return err
	}
	_, err = p.vi.SendWait(p.t, host.Second)
	e.is("after connecting again", err, nil)
	return p.settled(1)
}

func (p *peer) redial(node int) (err error) {
	for range attempts {
		_, err = p.vi.ConnectRequest(p.t, vipl.NetAddress{Discriminator: "client"}, vipl.NetAddress{Host: vipl.HostAddress(node), Discriminator: "test"}, host.Second)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		if err := p.t.Sleep(200 * host.Microsecond); err != nil {
			return err
		}
	}
	return err
}

// leaveServer is left, and finds its VI in the error state.
func leaveServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	if err := p.tell(0); err != nil {
		return err
	}
	m, ok, err := p.t.Receive(host.Second)
	if err != nil || !ok || string(m.Data) != "again" {
		return fmt.Errorf("waiting for the client to leave: %q %v: %w", m.Data, ok, err)
	}
	if err := p.lost(); err != nil {
		return err
	}
	if err := p.again(); err != nil {
		return err
	}
	return p.settled(0)
}

// look returns a VI's state and whether both of its queues are empty.
func look(v *vipl.VI, t *host.Thread) (vipl.VIState, bool, error) {
	i, err := v.Query(t)
	return i.State, i.SendQueueEmpty && i.ReceiveQueueEmpty, err
}

// lost checks what a program sees of a connection that its peer has left.
func (p *peer) lost() error {
	for range attempts {
		s, _, err := look(p.vi, p.t)
		if err != nil {
			return err
		}
		if s == vipl.ErrorState {
			break
		}
		if err := p.t.Sleep(200 * host.Microsecond); err != nil {
			return err
		}
	}
	a, err := p.nic.NextError(p.t)
	p.is("the loss is reported", err, nil)
	p.that(fmt.Sprintf("the loss of this VI, not %+v", a), a.Code == layout.AsyncErrorConnectionLost && a.VI == p.vi.Index())
	_, err = p.nic.NextError(p.t)
	p.is("once", err, vipl.ErrNotDone)
	if _, err := p.write(0, 4, target{p.mem.Address(), p.mem.Handle()}, 0); err != nil {
		return err
	}
	d, err := p.vi.SendWait(p.t, host.Second)
	p.flushed("posted in the error state", d, err)
	_, err = p.vi.ConnectRequest(p.t, vipl.NetAddress{}, vipl.NetAddress{Host: vipl.HostAddress(0)}, host.Millisecond)
	p.is("connect in the error state", err, vipl.ErrInvalidState)
	p.is("destroy in the error state", p.vi.Destroy(p.t), vipl.ErrInvalidState)
	p.is("disconnect leaves the error state", p.vi.Disconnect(p.t), nil)
	s, _, err := look(p.vi, p.t)
	p.is("query", err, nil)
	p.that("idle", s == vipl.Idle)
	return nil
}

// again accepts one more connection on the same VI.
func (p *peer) again() error {
	r, err := p.nic.ConnectWait(p.t, vipl.NetAddress{Discriminator: "test"}, host.Second)
	if err != nil {
		return err
	}
	return r.Accept(p.t, p.vi)
}

// goodWrite shows that a VI works.
func (p *peer) goodWrite(to target) error {
	if _, err := p.write(0, 4, to, bufferBytes-4); err != nil {
		return err
	}
	_, err := p.vi.SendWait(p.t, host.Second)
	return err
}

// localErrorClient posts descriptors that its own card must refuse, each
// followed by a good one.
func localErrorClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	stale, err := p.nic.RegisterMem(p.t, p.mem.Address(), 4096, vipl.MemAttributes{})
	if err != nil {
		return err
	}
	if err := stale.Deregister(p.t); err != nil {
		return err
	}
	tag, err := p.nic.CreatePtag(p.t)
	if err != nil {
		return err
	}
	foreign, err := p.nic.RegisterMem(p.t, p.mem.Address(), 4096, vipl.MemAttributes{Ptag: tag})
	if err != nil {
		return err
	}
	good := p.mem.Segment(100, 8)
	segment := func(change func(s *vipl.Segment)) func(d *vipl.Descriptor) {
		return func(d *vipl.Descriptor) {
			s := good
			change(&s)
			d.SetRDMAWrite(s, to.address, to.handle)
		}
	}
	data := func(d *vipl.Descriptor) layout.DataSegment {
		return layout.DataSegment(d.Bytes()[layout.DescriptorSize+layout.AddressSegmentSize:])
	}
	end := p.mem.Address() + bufferBytes
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
		{"one byte before the region", protection, segment(func(s *vipl.Segment) { s.Address = p.mem.Address() - 1 })},
		{"one byte behind the region", protection, segment(func(s *vipl.Segment) { s.Address = end - 7 })},
		{"handle 0", protection, segment(func(s *vipl.Segment) { s.Handle = 0 })},
		{"handle of nothing", protection, segment(func(s *vipl.Segment) { s.Handle ^= 0x80 })},
		{"handle of another generation", protection, segment(func(s *vipl.Segment) { s.Handle += 1 << layout.AttHandleValueGenerationLsb })},
		{"stale handle", protection, segment(func(s *vipl.Segment) { s.Handle = stale.Handle() })},
		{"tag of another VI", protection, segment(func(s *vipl.Segment) { s.Handle = foreign.Handle() })},
		{"operation RDMA read", format, func(d *vipl.Descriptor) { raw(d).SetControl(uint16(layout.DescriptorOperationRDMARead)) }},
		{"reserved operation", format, func(d *vipl.Descriptor) { raw(d).SetControl(3) }},
		{"reserved control bits", format, func(d *vipl.Descriptor) { raw(d).SetControl(raw(d).Control() | 0x8000) }},
		{"reserved word", format, func(d *vipl.Descriptor) { d.Bytes()[layout.DescriptorReservedOffset] = 1 }},
		{"reserved word of the address segment", format, func(d *vipl.Descriptor) {
			d.Bytes()[layout.DescriptorSize+layout.AddressSegmentReservedOffset] = 1
		}},
		{"no segments", format, func(d *vipl.Descriptor) { raw(d).SetSegmentCount(0) }},
		{"too many segments", format, func(d *vipl.Descriptor) { raw(d).SetSegmentCount(vipl.MaxSegments + 2) }},
		{"remote range beyond all addresses", format, func(d *vipl.Descriptor) {
			layout.AddressSegment(d.Bytes()[layout.DescriptorSize:]).SetAddress(^uint64(0) - 3)
		}},
		{"length and segment differ", length, func(d *vipl.Descriptor) { raw(d).SetLength(9) }},
		{"length without a segment", length, func(d *vipl.Descriptor) { raw(d).SetSegmentCount(1) }},
		{"longer than the max transfer size", length, func(d *vipl.Descriptor) {
			raw(d).SetLength(70000)
			data(d).SetLength(70000)
		}},
	} {
		d := p.next()
		d.SetRDMAWrite(good, to.address, to.handle)
		c.set(d)
		if err := p.vi.PostSend(p.t, d); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		// A good one right behind it, linked by the bad one.
		if _, err := p.write(0, 4, to, bufferBytes-4); err != nil {
			return err
		}
		got, err := p.vi.SendWait(p.t, host.Second)
		e.is(c.name, err, vipl.ErrDescriptor)
		e.that(c.name+": the descriptor comes back", got == d)
		want := vipl.DescriptorStatus(c.bit)
		e.that(fmt.Sprintf("%s: %v (%#x), want %v", c.name, d.Status(), uint32(d.Status()), want), d.Status()&vipl.DescriptorErrorMask == want)
		if c.name == "longer than the max transfer size" {
			e.that("its text has the numbers: "+text(err), bytes.Contains([]byte(text(err)), []byte("length 70000 > max transfer size 65536")))
		}
		_, err = p.vi.SendWait(p.t, host.Second)
		e.is(c.name+", then a good one", err, nil)
	}
	// A message of no bytes is legal, with or without a segment.
	for _, segments := range []uint16{2, 1} {
		d := p.next()
		d.SetRDMAWrite(vipl.Segment{Address: good.Address, Handle: good.Handle}, to.address, to.handle)
		raw(d).SetSegmentCount(segments)
		if err := p.vi.PostSend(p.t, d); err != nil {
			return err
		}
		_, err = p.vi.SendWait(p.t, host.Second)
		e.is(fmt.Sprintf("no bytes, %d segments", segments), err, nil)
	}

	e.is("no descriptor", p.vi.PostSend(p.t, nil), vipl.ErrInvalidParameter)
	d := p.next()
	d.Address += 8
	e.is("misaligned descriptor", p.vi.PostSend(p.t, d), vipl.ErrInvalidParameter)
	_, err = p.descriptors.Descriptor(8, 1)
	e.is("misaligned view", err, vipl.ErrInvalidParameter)
	_, err = p.descriptors.Descriptor(len(p.descriptors.Bytes()), 1)
	e.is("view outside", err, vipl.ErrInvalidParameter)
	if err := p.goodWrite(to); err != nil {
		return err
	}
	_, err = p.nic.NextError(p.t)
	e.is("nothing asynchronous", err, vipl.ErrNotDone)
	return p.settled(1)
}

// remoteCases are RDMA writes that the server's card must refuse. The writer
// cannot see it: on an unreliable VI they complete well.
var remoteCases = []struct {
	name string
	to   func(good, stale, locked, foreign target) (target, int)
}{
	{"unregistered address", func(g, _, _, _ target) (target, int) { return target{g.address + 1<<30, g.handle}, 0 }},
	{"one byte before the region", func(g, _, _, _ target) (target, int) { return target{g.address - 1, g.handle}, 0 }},
	{"one byte behind the region", func(g, _, _, _ target) (target, int) { return g, bufferBytes - 7 }},
	{"wrong handle", func(g, _, _, _ target) (target, int) { return target{g.address, g.handle ^ 0x40}, 0 }},
	{"handle 0", func(g, _, _, _ target) (target, int) { return target{g.address, 0}, 0 }},
	{"stale handle", func(_, s, _, _ target) (target, int) { return s, 0 }},
	{"region without the right", func(_, _, l, _ target) (target, int) { return l, 0 }},
	{"region of another tag", func(_, _, _, f target) (target, int) { return f, 0 }},
}

const marker = bufferBytes - 16 // where the writer says how far it is

func (p *peer) hearAll(n int) ([]target, error) {
	var all []target
	for range n {
		t, err := p.hear()
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func remoteErrorClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	targets, err := p.hearAll(4)
	if err != nil {
		return err
	}
	for i, c := range remoteCases {
		to, at := c.to(targets[0], targets[1], targets[2], targets[3])
		copy(p.mem.Bytes(), "poisonous")
		if _, err := p.write(0, 8, to, at); err != nil {
			return err
		}
		_, err := p.vi.SendWait(p.t, host.Second)
		e.is(c.name+": the writer does not see it", err, nil)
		p.mem.Bytes()[64] = byte(i + 1)
		if _, err := p.write(64, 1, targets[0], marker); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(p.t, host.Second); err != nil {
			return err
		}
		if m, ok, err := p.t.Receive(host.Second); err != nil || !ok || string(m.Data) != "next" {
			return fmt.Errorf("%s: the server does not go on: %w", c.name, err)
		}
	}

	// The same through a VI whose peer does not let it write.
	q := &peer{env: e, mem: p.mem, descriptors: p.descriptors, posted: p.posted}
	if q.vi, err = e.nic.CreateVI(e.t, writable); err != nil {
		return err
	}
	if err := q.redial(1); err != nil {
		return err
	}
	if _, err := q.write(0, 8, targets[0], 0); err != nil {
		return err
	}
	_, err = q.vi.SendWait(q.t, host.Second)
	e.is("locked VI: the writer does not see it", err, nil)
	p.posted = q.posted
	if err := p.goodWrite(targets[0]); err != nil {
		return err
	}
	return p.settled(1)
}

func remoteErrorServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	tag, err := p.nic.CreatePtag(p.t)
	if err != nil {
		return err
	}
	regions := []*vipl.Region{p.mem}
	for _, a := range []vipl.MemAttributes{{EnableRDMAWrite: true}, {}, {EnableRDMAWrite: true, Ptag: tag}} {
		r, err := p.nic.RegisterMem(p.t, p.mem.Address(), 4096, a)
		if err != nil {
			return err
		}
		regions = append(regions, r)
	}
	if err := regions[1].Deregister(p.t); err != nil {
		return err
	}
	for _, r := range regions {
		if err := (&peer{env: e, mem: r}).tell(0); err != nil {
			return err
		}
	}
	b := p.mem.Bytes()
	refused, err := p.nic.Counter(p.t, layout.CounterReceiveProtection)
	if err != nil {
		return err
	}
	e.that("nothing refused yet", refused == 0)
	clean := func(name string) { e.that(name+": nothing was written", bytes.Equal(b[:marker], make([]byte, marker))) }
	protection := func(name string, vi int) error {
		a, err := p.asyncError()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		e.that(fmt.Sprintf("%s: a protection error on VI %d, not %+v", name, vi, a), a.Code == layout.AsyncErrorRDMAWriteProtection && a.VI == vi)
		return nil
	}
	for i, c := range remoteCases {
		if err := p.mem.Poll(p.t, marker, 1, host.Second, func() bool { return b[marker] == byte(i+1) }); err != nil {
			return fmt.Errorf("%s, then a good one: %w", c.name, err)
		}
		clean(c.name)
		if err := protection(c.name, p.vi.Index()); err != nil {
			return err
		}
		if err := p.t.Send(host.ThreadID{Node: 0, Rank: 1}, []byte("next")); err != nil {
			return err
		}
	}
	locked, err := p.nic.CreateVI(p.t, vipl.VIAttributes{})
	if err != nil {
		return err
	}
	r, err := p.nic.ConnectWait(p.t, vipl.NetAddress{Discriminator: "test"}, host.Second)
	if err != nil {
		return err
	}
	e.that("the requester's attributes", r.RemoteAttributes.EnableRDMAWrite && r.RemoteAttributes.ReliabilityLevel == vipl.Unreliable && r.RemoteAddress.Discriminator == "client")
	if err := r.Accept(p.t, locked); err != nil {
		return err
	}
	if err := protection("locked VI", locked.Index()); err != nil {
		return err
	}
	clean("locked VI")
	refused, err = p.nic.Counter(p.t, layout.CounterReceiveProtection)
	e.is("counter", err, nil)
	e.that(fmt.Sprintf("%d refusals counted, want %d", refused, len(remoteCases)+1), int(refused) == len(remoteCases)+1)
	return p.settled(0)
}

// asyncError waits for the next asynchronous error.
func (p *peer) asyncError() (vipl.AsyncError, error) {
	for range attempts {
		a, err := p.nic.NextError(p.t)
		if !errors.Is(err, vipl.ErrNotDone) {
			return a, err
		}
		if err := p.t.Sleep(10 * host.Microsecond); err != nil {
			return a, err
		}
	}
	return vipl.AsyncError{}, errors.New("no asynchronous error came")
}

// unreachableClient posts a descriptor whose handle is wrong. The card cannot
// answer in it, nor find what is posted behind it. What is posted before it and
// is on its way for a long time yet is carried out.
func unreachableClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	first, err := p.write(0, driver.MaxTransferSize, to, 0)
	if err != nil {
		return err
	}
	second, err := p.write(0, 4, to, 0)
	if err != nil {
		return err
	}
	bad := p.next()
	bad.SetRDMAWrite(p.mem.Segment(0, 4), to.address, to.handle)
	bad.Handle ^= 0x20
	if err := p.vi.PostSend(p.t, bad); err != nil {
		return err
	}
	behind, err := p.write(0, 4, to, 0)
	if err != nil {
		return err
	}
	for _, want := range []*vipl.Descriptor{first, second} {
		d, err := p.vi.SendWait(p.t, host.Second)
		e.is("before the bad one", err, nil)
		e.that("in order", d == want)
	}
	d, err := p.vi.SendWait(p.t, host.Second)
	e.flushed("the bad one", d, err)
	e.that("in order", d == bad)
	// The one behind it is lost with it, or, if the card had met the bad one before
	// this was posted, is flushed by the card.
	d, err = p.vi.SendWait(p.t, host.Second)
	e.flushed("behind the bad one", d, err)
	e.that("in order", d == behind)
	a, err := p.asyncError()
	e.is("reported", err, nil)
	e.that(fmt.Sprintf("a bad post on this VI, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor && a.VI == p.vi.Index())
	s, empty, err := look(p.vi, p.t)
	e.is("query", err, nil)
	e.that("broken and drained", s == vipl.ErrorState && empty)
	if err := p.vi.Disconnect(p.t); err != nil {
		return err
	}
	if err := p.t.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("again")); err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	if err := p.goodWrite(to); err != nil {
		return err
	}

	// The same, and the program disconnects at once: what the card cannot
	// answer, the library completes.
	posts := []*vipl.Descriptor{p.next(), p.next()}
	for i, d := range posts {
		d.SetRDMAWrite(p.mem.Segment(0, 4), to.address, to.handle)
		if i == 0 {
			d.Handle ^= 0x20
		}
		if err := p.vi.PostSend(p.t, d); err != nil {
			return err
		}
	}
	if err := p.vi.Disconnect(p.t); err != nil {
		return err
	}
	for i, want := range posts {
		d, err := p.vi.SendDone(p.t)
		e.flushed(fmt.Sprintf("after the disconnect, %d", i), d, err)
		e.that("in order", d == want)
	}
	_, err = p.vi.SendDone(p.t)
	e.is("drained", err, vipl.ErrDescriptor)
	return p.settled(1)
}

var reconnectServer = leaveServer

// memoryClient tries what memory calls must refuse.
func memoryClient(e *env) error {
	b, err := e.nic.Alloc(e.t, 3*4096)
	if err != nil {
		return err
	}
	register := func(address, n uint64, a vipl.MemAttributes) error {
		_, err := e.nic.RegisterMem(e.t, address, n, a)
		return err
	}
	e.is("alloc nothing", second(e.nic.Alloc(e.t, 0)), vipl.ErrInvalidParameter)
	e.is("alloc less than nothing", second(e.nic.Alloc(e.t, -1)), vipl.ErrInvalidParameter)
	e.is("alloc too much", second(e.nic.Alloc(e.t, 1<<31)), vipl.ErrResource)
	e.is("register nothing", register(b.Address(), 0, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.is("register address 0", register(0, 4, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.is("register foreign memory", register(b.Address()+1<<32, 4, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.is("register before", register(b.Address()-1, 4, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.is("register beyond", register(b.Address(), 3*4096+1, vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.is("register around all", register(b.Address(), ^uint64(0), vipl.MemAttributes{}), vipl.ErrInvalidParameter)
	e.is("register with no tag of ours", register(b.Address(), 4, vipl.MemAttributes{Ptag: 0x7777}), vipl.ErrInvalidPtag)
	if e.nic.Query().RDMAReadSupport == 0 {
		e.is("register for RDMA read", register(b.Address(), 4, vipl.MemAttributes{EnableRDMARead: true}), vipl.ErrInvalidRDMARead)
	}

	// The same range several times, with different attributes and handles.
	handles := map[vipl.MemHandle]bool{0: true}
	var regions []*vipl.Region
	for i := range 4 {
		r, err := e.nic.RegisterMem(e.t, b.Address()+uint64(i), 4097, vipl.MemAttributes{EnableRDMAWrite: i%2 == 1})
		if err != nil {
			return err
		}
		e.that("a handle of its own, not 0", !handles[r.Handle()])
		handles[r.Handle()] = true
		a, err := e.nic.QueryMem(e.t, r.Address(), r.Handle())
		e.is("query", err, nil)
		e.that("attributes as registered", a.EnableRDMAWrite == (i%2 == 1) && !a.EnableRDMARead && a.Ptag != 0)
		regions = append(regions, r)
	}
	r := regions[0]
	e.is("free while registered", e.nic.Free(e.t, b), vipl.ErrResource)
	e.is("deregister at another address", e.nic.DeregisterMem(e.t, r.Address()+1, r.Handle()), vipl.ErrInvalidParameter)
	e.is("deregister by another handle", e.nic.DeregisterMem(e.t, r.Address(), regions[1].Handle()), vipl.ErrInvalidParameter)
	e.is("query by another handle", second(e.nic.QueryMem(e.t, r.Address(), 0x123)), vipl.ErrInvalidParameter)
	other, err := vipl.OpenNIC(e.t, e.h)
	if err != nil {
		return err
	}
	e.is("deregister through another NIC handle", other.DeregisterMem(e.t, r.Address(), r.Handle()), vipl.ErrInvalidParameter)
	e.is("close it", other.Close(e.t), nil)
	e.is("close it again", other.Close(e.t), vipl.ErrInvalidParameter)
	_, err = other.Alloc(e.t, 1)
	e.is("memory belongs to the host, not to the handle", err, nil)
	e.is("register through it", second(other.RegisterMem(e.t, b.Address(), 1, vipl.MemAttributes{})), vipl.ErrInvalidParameter)
	for _, r := range regions {
		e.is("deregister", r.Deregister(e.t), nil)
		e.is("deregister again", r.Deregister(e.t), vipl.ErrInvalidParameter)
	}
	e.is("free", e.nic.Free(e.t, b), nil)

	// A region of more pages than one list of a command holds.
	big, err := e.h.Allocate(e.t, 1100*4096, mem.Runs)
	if err != nil {
		return err
	}
	all, err := e.nic.RegisterBuffer(e.t, big, vipl.MemAttributes{})
	if err != nil {
		return err
	}
	return all.Deregister(e.t)
}

func second[T any](_ T, err error) error { return err }

// viClient tries what VI and tag calls must refuse.
func viClient(e *env) error {
	create := func(a vipl.VIAttributes) error { return second(e.nic.CreateVI(e.t, a)) }
	q := e.nic.Query()
	for _, level := range []vipl.ReliabilityLevel{vipl.ReliableDelivery, vipl.ReliableReception} {
		want := error(nil)
		if q.ReliabilityLevelSupport&level == 0 {
			want = vipl.ErrInvalidReliabilityLevel
		}
		v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{ReliabilityLevel: level})
		e.is(fmt.Sprintf("reliability level %d", level), err, want)
		if err == nil {
			e.is("destroy", v.Destroy(e.t), nil)
		}
	}
	e.is("two levels", create(vipl.VIAttributes{ReliabilityLevel: 3}), vipl.ErrInvalidReliabilityLevel)
	e.is("too large a transfer", create(vipl.VIAttributes{MaxTransferSize: 65537}), vipl.ErrInvalidMTU)
	e.is("a negative one", create(vipl.VIAttributes{MaxTransferSize: -1}), vipl.ErrInvalidMTU)
	e.is("RDMA read at the unreliable level", create(vipl.VIAttributes{EnableRDMARead: true}), vipl.ErrInvalidRDMARead)
	e.is("foreign tag", create(vipl.VIAttributes{Ptag: 0x7777}), vipl.ErrInvalidPtag)

	tag, err := e.nic.CreatePtag(e.t)
	e.is("create tag", err, nil)
	e.that("not tag 0", tag != 0)
	v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{Ptag: tag, MaxTransferSize: 32768})
	if err != nil {
		return err
	}
	info, err := v.Query(e.t)
	e.is("query", err, nil)
	e.that(fmt.Sprintf("as created, not %+v", info), info == vipl.VIInfo{
		State: vipl.Idle, Attributes: vipl.VIAttributes{ReliabilityLevel: vipl.Unreliable, MaxTransferSize: 32768, Ptag: tag},
		SendQueueEmpty: true, ReceiveQueueEmpty: true,
	})
	e.is("destroy a tag in use", e.nic.DestroyPtag(e.t, tag), vipl.ErrResource)
	e.is("set attributes", v.SetAttributes(e.t, vipl.VIAttributes{EnableRDMAWrite: true}), nil)
	info, err = v.Query(e.t)
	a := info.Attributes
	e.is("query", err, nil)
	e.that("as set", a.EnableRDMAWrite && a.MaxTransferSize == 65536 && a.Ptag != tag && a.Ptag != 0)
	e.is("destroy a tag", e.nic.DestroyPtag(e.t, tag), nil)
	e.is("destroy it again", e.nic.DestroyPtag(e.t, tag), vipl.ErrInvalidPtag)
	e.is("destroy the handle's own", e.nic.DestroyPtag(e.t, a.Ptag), vipl.ErrInvalidParameter)
	e.is("set a tag that is gone", v.SetAttributes(e.t, vipl.VIAttributes{Ptag: tag}), vipl.ErrInvalidPtag)
	e.is("disconnect an idle VI", v.Disconnect(e.t), nil)
	e.is("twice", v.Disconnect(e.t), nil)

	e.that(fmt.Sprintf("attributes %+v", q), q.MaxVI == 256 && q.ReliabilityLevelSupport&vipl.Unreliable != 0 &&
		q.RDMAReadSupport&vipl.Unreliable == 0 && q.RDMAReadSupport&^q.ReliabilityLevelSupport == 0 && (q.MaxCQ > 0) == (q.MaxCQEntries > 0) &&
		q.MaxTransferSize >= 32768 && q.MaxDescriptorsPerQueue == 1024 && q.MaxSegmentsPerDesc == 252 && q.LocalAddress == vipl.HostAddress(0) && q.NativeMTU == layout.MaxPayload)
	// All VIs of the card, then one more.
	made := []*vipl.VI{v}
	for len(made) < q.MaxVI {
		v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{})
		if err != nil {
			return fmt.Errorf("VI %d: %w", len(made), err)
		}
		made = append(made, v)
	}
	e.is("one too many", create(vipl.VIAttributes{}), vipl.ErrResource)
	for _, v := range made {
		e.is("destroy", v.Destroy(e.t), nil)
	}
	e.is("a destroyed VI", second(v.ConnectRequest(e.t, vipl.NetAddress{}, vipl.NetAddress{}, 1)), vipl.ErrInvalidParameter)
	e.is("room again", create(vipl.VIAttributes{}), nil)
	return nil
}

// connectClient tries every way in which a connection does not come about.
func connectClient(e *env) error {
	v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{})
	if err != nil {
		return err
	}
	server := func(d string) vipl.NetAddress { return vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: d} }
	request := func(d string, timeout host.Time) error {
		_, err := v.ConnectRequest(e.t, vipl.NetAddress{Discriminator: "me"}, server(d), timeout)
		return err
	}
	begin := e.t.Now()
	e.is("nobody there", request("nobody", host.Second), vipl.ErrNoMatch)
	e.that("told promptly", e.t.Now()-begin < host.Millisecond)
	e.is("timeout 0", request("test", 0), vipl.ErrInvalidParameter)
	e.is("a discriminator too long", request(string(make([]byte, 33)), host.Second), vipl.ErrInvalidParameter)
	begin = e.t.Now()
	_, err = v.ConnectRequest(e.t, vipl.NetAddress{}, vipl.NetAddress{Host: vipl.HostAddress(9), Discriminator: "test"}, 5*host.Millisecond)
	e.is("no such host", err, vipl.ErrTimeout)
	e.that("after the timeout", e.t.Now()-begin >= 5*host.Millisecond)
	_, err = e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "x"}, host.Millisecond)
	e.is("wait for nobody", err, vipl.ErrTimeout)
	_, err = e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "x"}, 0)
	e.is("look for nobody", err, vipl.ErrTimeout)

	again := func(timeout host.Time) (err error) {
		for range attempts {
			if err = request("test", timeout); !errors.Is(err, vipl.ErrNoMatch) {
				return err
			}
			if err := e.t.Sleep(200 * host.Microsecond); err != nil {
				return err
			}
		}
		return err
	}
	e.is("rejected", again(host.Second), vipl.ErrReject)
	e.is("not decided in time", again(2*host.Millisecond), vipl.ErrTimeout)
	// The server's first VI has another transfer size; it takes a second one.
	e.is("accepted in the end", again(host.Second), nil)
	s, _, err := look(v, e.t)
	e.is("query", err, nil)
	e.that("connected", s == vipl.Connected)
	e.is("connect a connected VI", request("test", host.Second), vipl.ErrInvalidState)
	e.is("destroy a connected VI", v.Destroy(e.t), vipl.ErrInvalidState)
	e.is("set attributes of a connected VI", v.SetAttributes(e.t, vipl.VIAttributes{}), vipl.ErrInvalidState)
	e.is("disconnect", v.Disconnect(e.t), nil)
	e.is("disconnect again", v.Disconnect(e.t), nil)
	e.is("destroy", v.Destroy(e.t), nil)
	return (&peer{env: e}).settled(1)
}

func connectServer(e *env) error {
	small, err := e.nic.CreateVI(e.t, vipl.VIAttributes{MaxTransferSize: 4096})
	if err != nil {
		return err
	}
	large, err := e.nic.CreateVI(e.t, vipl.VIAttributes{})
	if err != nil {
		return err
	}
	wait := func() (*vipl.ConnectionRequest, error) {
		return e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, host.Second)
	}
	r, err := wait()
	if err != nil {
		return err
	}
	e.that("who asks: "+r.RemoteAddress.String(), r.RemoteAddress == vipl.NetAddress{Host: vipl.HostAddress(0), Discriminator: "me"})
	e.is("reject", r.Reject(e.t), nil)
	e.is("reject again", r.Reject(e.t), vipl.ErrInvalidParameter)
	e.is("accept what was rejected", r.Accept(e.t, large), vipl.ErrInvalidParameter)

	if r, err = wait(); err != nil {
		return err
	}
	if err := e.t.Sleep(5 * host.Millisecond); err != nil {
		return err
	}
	e.is("accept too late", r.Accept(e.t, large), vipl.ErrTimeout)

	if r, err = wait(); err != nil {
		return err
	}
	e.is("accept with another transfer size", r.Accept(e.t, small), vipl.ErrInvalidMTU)
	e.is("accept with the same", r.Accept(e.t, large), nil)
	e.is("accept on a connected VI", r.Accept(e.t, large), vipl.ErrInvalidState)
	return (&peer{env: e}).settled(0)
}

// isolationClient keeps one VI working while it and its peer abuse another.
func isolationClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	bad := &peer{env: e, mem: p.mem, descriptors: p.descriptors, posted: 1024}
	if bad.vi, err = e.nic.CreateVI(e.t, writable); err != nil {
		return err
	}
	if err := bad.redial(1); err != nil {
		return err
	}
	for i := range 40 {
		copy(p.mem.Bytes(), pattern(512, i))
		if _, err := p.write(0, 512, to, 4096+512*i); err != nil {
			return err
		}
		switch i % 4 {
		case 0: // refused here
			d := bad.next()
			d.SetRDMAWrite(vipl.Segment{Address: 1, Handle: 0x55, Length: 64}, to.address, to.handle)
			err = bad.vi.PostSend(bad.t, d)
		case 1: // refused there
			_, err = bad.write(0, 64, target{to.address, to.handle ^ 0x11}, 0)
		case 2: // malformed
			d := bad.next()
			d.SetRDMAWrite(p.mem.Segment(0, 8), to.address, to.handle)
			raw(d).SetControl(0xfff3)
			err = bad.vi.PostSend(bad.t, d)
		default: // what the card cannot answer, or cannot even take
			d := bad.next()
			d.SetRDMAWrite(p.mem.Segment(0, 8), to.address, to.handle)
			d.Handle = 0x123
			if i == 39 {
				err = bad.vi.PostSend(bad.t, d)
			}
			if err == nil && !e.onMvia() {
				err = bad.t.Write(layout.PciBar1Base+uint32(bad.vi.Index())*layout.DoorbellPageBytes+layout.DoorbellSend, 0x33)
			}
		}
		if err != nil {
			return err
		}
		if _, err := p.vi.SendWait(p.t, host.Second); err != nil {
			return fmt.Errorf("the good VI, message %d: %w", i, err)
		}
		// Not faster than the receiver can store: an overrun would be no fault of the other VI.
		if err := p.t.Sleep(20 * host.Microsecond); err != nil {
			return err
		}
	}
	malformed, err := p.nic.Counter(p.t, layout.CounterDoorbellMalformed)
	e.is("counter", err, nil)
	// A first dword of a doorbell is malformed when another one starts over. The last one still waits.
	e.that(fmt.Sprintf("%d malformed doorbells counted", malformed), malformed >= 9 || e.onMvia() && malformed == 0)
	if err := p.t.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("check")); err != nil {
		return err
	}
	return p.settled(1)
}

func isolationServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	if err := p.tell(0); err != nil {
		return err
	}
	second, err := e.nic.CreateVI(e.t, writable)
	if err != nil {
		return err
	}
	r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, host.Second)
	if err != nil {
		return err
	}
	if err := r.Accept(e.t, second); err != nil {
		return err
	}
	if m, ok, err := p.t.Receive(host.Second); err != nil || !ok || string(m.Data) != "check" {
		return fmt.Errorf("waiting for the client: %w", err)
	}
	want := make([]byte, bufferBytes)
	for i := range 40 {
		copy(want[4096+512*i:], pattern(512, i))
	}
	// The mailbox is faster than the wire.
	end := 4096 + 512*40 - 1
	if err := p.mem.Poll(p.t, end, 1, host.Second, func() bool { return p.mem.Bytes()[end] == want[end] }); err != nil {
		return err
	}
	for i := range want {
		if p.mem.Bytes()[i] != want[i] {
			return fmt.Errorf("byte %d is %#x, want %#x: every message of the good VI and nothing else", i, p.mem.Bytes()[i], want[i])
		}
	}
	return p.settled(0)
}

// abandonClient and abandonServer end with everything open and posted; the
// agents must take it back.
func abandonClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	for range 20 {
		if _, err := p.write(0, 30000, to, 0); err != nil {
			return err
		}
	}
	return nil
}

func abandonServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	return p.tell(0)
}

// sibling returns a peer with a VI of its own and the memory of p; the
// numbers of its descriptors begin at first.
func (p *peer) sibling(first int) (*peer, error) {
	q := &peer{env: p.env, mem: p.mem, descriptors: p.descriptors, posted: first}
	var err error
	q.vi, err = p.nic.CreateVI(p.t, writable)
	return q, err
}

// lose posts a descriptor whose handle is wrong: the card cannot answer in it.
func (p *peer) lose() (*vipl.Descriptor, error) {
	d := p.next()
	d.SetRDMAWrite(p.mem.Segment(0, 4), p.mem.Address(), p.mem.Handle())
	d.Handle ^= 0x20
	return d, p.vi.PostSend(p.t, d)
}

const (
	burst = 3
	// promptly is far more than the agent takes for any error, and far less than
	// the timeout that must not be what ends a wait.
	promptly = host.Millisecond
)

// burstClient makes three of its four VIs fail before the agent can have
// looked: each has its own error, and the fourth goes on.
func burstClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	var bad [burst]*peer
	for i := range bad {
		if bad[i], err = p.sibling(256 * (i + 1)); err != nil {
			return err
		}
		if err := bad[i].redial(1); err != nil {
			return err
		}
	}
	copy(p.mem.Bytes(), pattern(512, 1))
	start := p.t.Now()
	var lost, behind [burst]*vipl.Descriptor
	for i, q := range bad {
		if lost[i], err = q.lose(); err != nil {
			return err
		}
	}
	good, err := p.write(0, 512, to, 4096)
	if err != nil {
		return err
	}
	for i, q := range bad {
		if behind[i], err = q.write(0, 0, to, 0); err != nil {
			return err
		}
	}
	for i, q := range bad {
		name := fmt.Sprintf("VI %d", q.vi.Index())
		d, err := q.vi.SendWait(q.t, host.Second)
		e.flushed(name, d, err)
		e.that(name+": in order", d == lost[i])
		// The card may have met the bad one before the next was posted.
		d, err = q.vi.SendWait(q.t, host.Second)
		if err != nil {
			e.flushed(name+": behind", d, err)
		}
		e.that(name+": in order", d == behind[i])
	}
	d, err := p.vi.SendWait(p.t, host.Second)
	e.is("the fourth VI", err, nil)
	e.that("the fourth VI: in order", d == good)
	took := p.t.Now() - start
	e.that(fmt.Sprintf("the waits end at once, not after %v", took), took < promptly)

	seen := map[int]int{}
	for range bad {
		a, err := p.asyncError()
		e.is("reported", err, nil)
		e.that(fmt.Sprintf("a bad post, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor)
		seen[a.VI]++
	}
	_, err = p.nic.NextError(p.t)
	e.is("no more errors", err, vipl.ErrNotDone)
	for _, q := range bad {
		e.that(fmt.Sprintf("VI %d has one error, not %d", q.vi.Index(), seen[q.vi.Index()]), seen[q.vi.Index()] == 1)
		s, empty, err := look(q.vi, q.t)
		e.is("query", err, nil)
		e.that(fmt.Sprintf("VI %d is broken and drained, not %v", q.vi.Index(), s), s == vipl.ErrorState && empty)
	}
	s, _, err := look(p.vi, p.t)
	e.is("query", err, nil)
	e.that(fmt.Sprintf("the fourth VI is connected, not %v", s), s == vipl.Connected)
	if _, err := p.write(0, 512, to, 8192); err != nil {
		return err
	}
	_, err = p.vi.SendWait(p.t, host.Second)
	e.is("the fourth VI goes on", err, nil)
	return p.settled(1)
}

func burstServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	if err := p.tell(0); err != nil {
		return err
	}
	others := map[int]bool{}
	for i := range burst {
		q, err := p.sibling(256 * (i + 1))
		if err != nil {
			return err
		}
		if err := q.again(); err != nil {
			return err
		}
		others[q.vi.Index()] = true
	}
	want := make([]byte, bufferBytes)
	copy(want[4096:], pattern(512, 1))
	copy(want[8192:], pattern(512, 1))
	end := 8192 + 512 - 1
	if err := p.mem.Poll(p.t, end, 1, host.Second, func() bool { return p.mem.Bytes()[end] == want[end] }); err != nil {
		return err
	}
	e.that("what the fourth VI wrote and nothing else", bytes.Equal(p.mem.Bytes(), want))
	for range burst {
		a, err := p.asyncError()
		e.is("reported", err, nil)
		e.that(fmt.Sprintf("a lost connection of one of the three, once, not %+v", a), a.Code == layout.AsyncErrorConnectionLost && others[a.VI])
		delete(others, a.VI)
	}
	return p.settled(0)
}

// floodClient makes so many VIs fail in one burst that the card cannot keep
// every error. It still knows whose they were: each of these VIs is told that
// it is broken, and the one that did nothing goes on.
func floodClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	const flood = 60
	var bad [flood]*peer
	for i := range bad {
		if bad[i], err = p.sibling(2 * (i + 1)); err != nil {
			return err
		}
	}
	p.posted = 2 * (flood + 1)
	start := p.t.Now()
	for i, q := range bad {
		if _, err := q.lose(); err != nil {
			return err
		}
		if i%8 == 0 {
			if _, err := p.write(0, 512, to, 4096); err != nil {
				return err
			}
		}
	}
	for range (flood + 7) / 8 {
		_, err := p.vi.SendWait(p.t, host.Second)
		e.is("the good VI during the flood", err, nil)
	}
	for _, q := range bad {
		d, err := q.vi.SendWait(q.t, host.Second)
		e.flushed(fmt.Sprintf("VI %d", q.vi.Index()), d, err)
	}
	took := p.t.Now() - start
	e.that(fmt.Sprintf("the waits end at once, not after %v", took), took < flood*promptly/10)

	seen := map[int]int{}
	codes := map[layout.AsyncError]int{}
	for range bad {
		a, err := p.asyncError()
		if err != nil {
			return err
		}
		seen[a.VI]++
		codes[a.Code]++
	}
	_, err = p.nic.NextError(p.t)
	e.is("no more errors", err, vipl.ErrNotDone)
	for _, q := range bad {
		e.that(fmt.Sprintf("VI %d has one error, not %d", q.vi.Index(), seen[q.vi.Index()]), seen[q.vi.Index()] == 1)
	}
	post, dropped := codes[layout.AsyncErrorPostDescriptor], codes[layout.AsyncErrorCatastrophic]
	e.that(fmt.Sprintf("some were dropped and as many as fit were not: %v", codes), dropped > 0 && post >= layout.AsyncErrorSlots && post+dropped == flood)
	s, _, err := look(p.vi, p.t)
	e.is("query", err, nil)
	e.that(fmt.Sprintf("the good VI is connected, not %v", s), s == vipl.Connected)
	if err := p.goodWrite(to); err != nil {
		return err
	}
	return p.settled(1)
}

// staleClient ends what it has broken before the agent has looked: the error
// must break neither what is left of the VI nor the next one with its index.
func staleClient(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	for range 3 {
		index := p.vi.Index()
		want, err := p.lose()
		if err != nil {
			return err
		}
		if err := p.vi.Disconnect(p.t); err != nil {
			return err
		}
		d, err := p.vi.SendDone(p.t)
		e.flushed("after the disconnect", d, err)
		e.that("in order", d == want)
		s, _, err := look(p.vi, p.t)
		e.is("query", err, nil)
		e.that(fmt.Sprintf("idle after the disconnect, not %v", s), s == vipl.Idle)
		a, err := p.nic.NextError(p.t)
		e.is("the error was told by then", err, nil)
		e.that(fmt.Sprintf("a bad post on this VI, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor && a.VI == index)

		// Nothing is outstanding for the library, so the VI may go at once.
		if !e.onMvia() { // which has no doorbells to ring without the library
			if err := p.t.Write(layout.PciBar1Base+uint32(index)*layout.DoorbellPageBytes+layout.DoorbellSend,
				uint32(p.mem.Address())&^(layout.DescriptorAlignment-1), 0, 0x123); err != nil {
				return err
			}
		}
		if err := p.vi.Destroy(p.t); err != nil {
			return err
		}
		if p.vi, err = e.nic.CreateVI(p.t, writable); err != nil {
			return err
		}
		e.that("the index is used again", p.vi.Index() == index)
		if err := p.t.Sleep(host.Millisecond); err != nil {
			return err
		}
		s, _, err = look(p.vi, p.t)
		e.is("query", err, nil)
		e.that(fmt.Sprintf("the next VI is idle, not %v", s), s == vipl.Idle)
		_, err = p.nic.NextError(p.t)
		e.is("and has no error", err, vipl.ErrNotDone)
	}
	return nil
}
