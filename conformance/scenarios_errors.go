// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// localError is a fault of a send descriptor, and its error bit.
type localError struct {
	name string
	bit  uint32
	set  func(d *vipl.Descriptor)
}

func (p *Peer) localErrors(to Remote, good vipl.Segment) []localError {
	stale := must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 4096, vipl.MemAttributes{}))
	check(stale.Deregister(p.T))
	tag := must(p.NIC.CreatePtag(p.T))
	foreign := must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 4096, vipl.MemAttributes{Ptag: tag}))
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
	return []localError{
		{"unregistered address", ProtectionError, segment(func(s *vipl.Segment) { s.Address = end + 4096 })},
		{"address 0", ProtectionError, segment(func(s *vipl.Segment) { s.Address = 0 })},
		{"address at the end of all", ProtectionError, segment(func(s *vipl.Segment) { s.Address = ^uint64(0) - 3 })},
		{"one byte before the region", ProtectionError, segment(func(s *vipl.Segment) { s.Address = p.Mem.Address() - 1 })},
		{"one byte behind the region", ProtectionError, segment(func(s *vipl.Segment) { s.Address = end - 7 })},
		{"handle 0", ProtectionError, segment(func(s *vipl.Segment) { s.Handle = 0 })},
		{"handle of nothing", ProtectionError, segment(func(s *vipl.Segment) { s.Handle ^= 0x80 })},
		{"handle of another generation", ProtectionError, segment(func(s *vipl.Segment) { s.Handle += 1 << layout.AttHandleValueGenerationLsb })},
		{"stale handle", ProtectionError, segment(func(s *vipl.Segment) { s.Handle = stale.Handle() })},
		{"tag of another VI", ProtectionError, segment(func(s *vipl.Segment) { s.Handle = foreign.Handle() })},
		{"operation RDMA read", formatError, func(d *vipl.Descriptor) { Raw(d).SetControl(uint16(layout.DescriptorOperationRDMARead)) }},
		{"reserved operation", formatError, func(d *vipl.Descriptor) { Raw(d).SetControl(3) }},
		{"reserved control bits", formatError, func(d *vipl.Descriptor) { Raw(d).SetControl(Raw(d).Control() | 0x8000) }},
		{"reserved word", formatError, func(d *vipl.Descriptor) { d.Bytes()[layout.DescriptorReservedOffset] = 1 }},
		{"reserved word of the address segment", formatError, func(d *vipl.Descriptor) {
			d.Bytes()[layout.DescriptorSize+layout.AddressSegmentReservedOffset] = 1
		}},
		{"no segments", formatError, func(d *vipl.Descriptor) { Raw(d).SetSegmentCount(0) }},
		{"too many segments", formatError, func(d *vipl.Descriptor) { Raw(d).SetSegmentCount(vipl.MaxSegments + 2) }},
		{"remote range beyond all addresses", formatError, func(d *vipl.Descriptor) {
			layout.AddressSegment(d.Bytes()[layout.DescriptorSize:]).SetAddress(^uint64(0) - 3)
		}},
		{"length and segment differ", lengthError, func(d *vipl.Descriptor) { Raw(d).SetLength(9) }},
		{"length without a segment", lengthError, func(d *vipl.Descriptor) { Raw(d).SetSegmentCount(1) }},
		{"longer than the max transfer size", lengthError, func(d *vipl.Descriptor) {
			Raw(d).SetLength(70000)
			data(d).SetLength(70000)
		}},
	}
}

// localErrorClient posts descriptors that its own card must reject, each
// followed by a good one.
func localErrorClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	good := p.Mem.Segment(100, 8)
	for _, c := range p.localErrors(to, good) {
		d := p.Next()
		d.SetRDMAWrite(to.Address, to.Handle, good)
		c.set(d)
		Step(p.VI.PostSend(p.T, d), "%s", c.name)
		// Post a good descriptor right behind the bad one.
		must(p.Write(0, 4, to, bufferBytes-4))
		got, err := p.VI.SendWait(p.T, host.Second)
		e.Is(c.name, err, vipl.ErrDescriptor)
		e.That(c.name+": the descriptor comes back", got == d)
		want := vipl.DescriptorStatus(c.bit)
		e.That(fmt.Sprintf("%s: %v (%#x), want %v", c.name, d.Status(), uint32(d.Status()), want), d.Status()&vipl.DescriptorErrorMask == want)
		if c.name == "longer than the max transfer size" {
			e.That("its text has the numbers: "+Text(err), bytes.Contains([]byte(Text(err)), []byte("length 70000 > max transfer size 65536")))
		}
		e.Is(c.name+", then a good one", errOf(p.VI.SendWait(p.T, host.Second)), nil)
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
	e.Is("misaligned view", errOf(p.descriptors.Descriptor(8, 1)), vipl.ErrInvalidParameter)
	e.Is("view outside", errOf(p.descriptors.Descriptor(len(p.descriptors.Bytes()), 1)), vipl.ErrInvalidParameter)
	check(p.GoodWrite(to))
	e.Is("nothing asynchronous", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
	return p.Settled(1)
}

// remoteCases are RDMA writes that the server's card must drop. On an
// unreliable VI they complete without an error, so the writer cannot see it.
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

const marker = bufferBytes - 16 // the writer stores its progress here

func (p *Peer) hearAll(n int) ([]Remote, error) {
	var all []Remote
	for range n {
		all = append(all, must(p.Hear()))
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
		e.Is(c.name+": the writer does not see it", errOf(p.VI.SendWait(p.T, host.Second)), nil)
		p.Mem.Bytes()[64] = byte(i + 1)
		must(p.Write(64, 1, targets[0], marker))
		must(p.VI.SendWait(p.T, host.Second))
		if m, ok, err := p.T.Receive(host.Second); err != nil || !ok || string(m.Data) != "next" {
			return fmt.Errorf("%s: the server does not go on: %w", c.name, err)
		}
	}

	// Repeat the write through a VI whose peer does not enable RDMA writes.
	q := &Peer{Env: e, Mem: p.Mem, descriptors: p.descriptors, posted: p.posted}
	q.VI = must(e.NIC.CreateVI(e.T, Writable))
	check(q.Redial(1))
	must(q.Write(0, 8, targets[0], 0))
	e.Is("locked VI: the writer does not see it", errOf(q.VI.SendWait(q.T, host.Second)), nil)
	p.posted = q.posted
	check(p.GoodWrite(targets[0]))
	return p.Settled(1)
}

func remoteErrorServer(e *Env) error {
	p := must(e.Serve(Writable))
	tag := must(p.NIC.CreatePtag(p.T))
	regions := []*vipl.Region{p.Mem}
	for _, a := range []vipl.MemAttributes{{EnableRDMAWrite: true}, {}, {EnableRDMAWrite: true, Ptag: tag}} {
		regions = append(regions, must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 4096, a)))
	}
	check(regions[1].Deregister(p.T))
	for _, r := range regions {
		check((&Peer{Env: e, Mem: r}).Tell(0))
	}
	b := p.Mem.Bytes()
	rejected := must(p.NIC.Counter(p.T, layout.CounterReceiveProtection))
	e.That("nothing rejected yet", rejected == 0)
	clean := func(name string) { e.That(name+": nothing was written", bytes.Equal(b[:marker], make([]byte, marker))) }
	protection := func(name string, vi int) error {
		a, err := p.asyncError()
		Step(err, "%s", name)
		e.That(fmt.Sprintf("%s: a protection error on VI %d, not %+v", name, vi, a), a.Code == layout.AsyncErrorRDMAWriteProtection && a.VI == vi)
		return nil
	}
	for i, c := range remoteCases {
		Step(p.Mem.Poll(p.T, marker, 1, host.Second, func() bool { return b[marker] == byte(i+1) }), "%s, then a good one", c.name)
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
	rejected, err := p.NIC.Counter(p.T, layout.CounterReceiveProtection)
	e.Is("counter", err, nil)
	e.That(fmt.Sprintf("%d rejected writes counted, want %d", rejected, len(remoteCases)+1), int(rejected) == len(remoteCases)+1)
	return p.Settled(0)
}

// asyncError waits for the next asynchronous error.
func (p *Peer) asyncError() (driver.AsyncError, error) {
	for range Attempts {
		a, err := p.NIC.ErrorWait(p.T, 0)
		if !errors.Is(err, vipl.ErrTimeout) {
			return a, err
		}
		check(p.T.Sleep(10 * host.Microsecond))
	}
	return driver.AsyncError{}, errors.New("no asynchronous error came")
}

// unreachableClient posts a descriptor with a wrong handle. The card can
// neither write its status nor find later descriptors. It carries out all
// earlier ones, even those still in flight.
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
	// Depending on when the card fetches the bad descriptor, either the library
	// or the card flushes the next one.
	d, err = p.VI.SendWait(p.T, host.Second)
	e.Flushed("behind the bad one", d, err)
	e.That("in order", d == behind)
	a, err := p.asyncError()
	e.Is("reported", err, nil)
	e.That(fmt.Sprintf("a bad post on this VI, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor && a.VI == p.VI.Index())
	s, empty, err := stateOf(p.VI, p.T)
	e.Is("query", err, nil)
	e.That("broken and drained", s == vipl.ErrorState && empty)
	check(p.VI.Disconnect(p.T))
	check(p.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("again")))
	check(p.Redial(1))
	check(p.GoodWrite(to))

	// Repeat this, and disconnect at once: the library completes the
	// descriptors that the card cannot reach.
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
	e.Is("drained", errOf(p.VI.SendDone(p.T)), vipl.ErrDescriptor)
	return p.Settled(1)
}

var reconnectServer = leaveServer

// lose posts a descriptor with a wrong handle, so the card cannot write its
// status.
func (p *Peer) lose() (*vipl.Descriptor, error) {
	d := p.Next()
	d.SetRDMAWrite(p.Mem.Address(), p.Mem.Handle(), p.Mem.Segment(0, 4))
	d.Handle ^= 0x20
	return d, p.VI.PostSend(p.T, d)
}

const (
	burst = 3
	// Promptly exceeds the agent's time for any error, but is far below the
	// timeout that must not end a wait.
	Promptly = host.Millisecond
)

// burstClient makes three of its four VIs fail before the agent polls: each
// reports a separate error, and the fourth goes on.
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
		// The card may have fetched the bad one before the next post.
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
	e.Is("no more errors", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
	for _, q := range bad {
		e.That(fmt.Sprintf("VI %d has one error, not %d", q.VI.Index(), seen[q.VI.Index()]), seen[q.VI.Index()] == 1)
		s, empty, err := stateOf(q.VI, q.T)
		e.Is("query", err, nil)
		e.That(fmt.Sprintf("VI %d is broken and drained, not %v", q.VI.Index(), s), s == vipl.ErrorState && empty)
	}
	s, _, err := stateOf(p.VI, p.T)
	e.Is("query", err, nil)
	e.That(fmt.Sprintf("the fourth VI is connected, not %v", s), s == vipl.Connected)
	must(p.Write(0, 512, to, 8192))
	e.Is("the fourth VI goes on", errOf(p.VI.SendWait(p.T, host.Second)), nil)
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

// floodClient makes N VIs fail in one burst, more than the card can queue
// errors for. The card still knows which VIs failed: each reports its
// breakdown, and the idle VI goes on.
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
		e.Is("the good VI during the flood", errOf(p.VI.SendWait(p.T, host.Second)), nil)
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
	e.Is("no more errors", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
	for _, q := range bad {
		e.That(fmt.Sprintf("VI %d has one error, not %d", q.VI.Index(), seen[q.VI.Index()]), seen[q.VI.Index()] == 1)
	}
	post, dropped := codes[layout.AsyncErrorPostDescriptor], codes[layout.AsyncErrorCatastrophic]
	e.That(fmt.Sprintf("some were dropped and as many as fit were not: %v", codes), dropped > 0 && post >= layout.AsyncErrorSlots && post+dropped == flood)
	s, _, err := stateOf(p.VI, p.T)
	e.Is("query", err, nil)
	e.That(fmt.Sprintf("the good VI is connected, not %v", s), s == vipl.Connected)
	check(p.GoodWrite(to))
	return p.Settled(1)
}

// staleClient removes a broken VI before the agent polls. The late error must
// break neither that VI nor the next one with its index.
func staleClient(e *Env) error {
	p := must(e.Prepare(Writable))
	for range 3 {
		index := p.VI.Index()
		want := must(p.lose())
		check(p.VI.Disconnect(p.T))
		d, err := p.VI.SendDone(p.T)
		e.Flushed("after the disconnect", d, err)
		e.That("in order", d == want)
		s, _, err := stateOf(p.VI, p.T)
		e.Is("query", err, nil)
		e.That(fmt.Sprintf("idle after the disconnect, not %v", s), s == vipl.Idle)
		a, err := p.NIC.ErrorWait(p.T, 0)
		e.Is("the error was reported by then", err, nil)
		e.That(fmt.Sprintf("a bad post on this VI, not %+v", a), a.Code == layout.AsyncErrorPostDescriptor && a.VI == index)

		// The library sees nothing outstanding, so it destroys the VI at once.
		if !e.onMvia() { // M-VIA has no doorbells
			check(p.T.Write(layout.PciBar1Base+uint32(index)*layout.DoorbellPageBytes+layout.DoorbellSend,
				uint32(p.Mem.Address())&^(layout.DescriptorAlignment-1), 0, 0x123))
		}
		err = p.VI.Destroy(p.T)
		if !p.T.Timed() && errors.Is(err, vipl.ErrInvalidState) {
			// In free mode the card may read the post first: the VI has failed.
			check(p.VI.Disconnect(p.T))
			must(p.NIC.ErrorWait(p.T, host.Second))
			err = p.VI.Destroy(p.T)
		}
		check(err)
		p.VI = must(e.NIC.CreateVI(p.T, Writable))
		e.That("the index is used again", p.VI.Index() == index)
		check(p.T.Sleep(host.Millisecond))
		s, _, err = stateOf(p.VI, p.T)
		e.Is("query", err, nil)
		e.That(fmt.Sprintf("the next VI is idle, not %v", s), s == vipl.Idle)
		e.Is("and has no error", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
	}
	return nil
}
