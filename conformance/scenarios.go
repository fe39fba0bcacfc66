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

// A Scenario is a program for each of two nodes. The same scenarios run on fake
// cards and on the simulated card.
type Scenario struct {
	Name           string
	client, server Main
	needs          []*Need
	only           driver.Device // the only one that it is about; "" = all
}

// Scenarios are those that tests also run over lossy links and between
// processes. [Run] adds the habits and the lost connections.
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
	{Name: "more errors than the card queues", client: floodClient, server: sinkServer, only: driver.DeviceHvia}, // the kernel keeps every error
	{Name: "errors of what has ended", client: staleClient},
}

// Edges of pages and words.
var (
	edgeOffsets = []int{0, 1, 2, 3, 4092, 4093, 4094, 4095}
	edgeLengths = []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
)

// In each round the client writes to the server and the server writes back,
// from and to every offset. Both check every byte of their buffers.
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
	sourceArea = bufferBytes / 2 // the source of messages, at most twice the area
	roundEnd   = 0xa5
)

func Pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + (i*31+seed*7)%251)
	}
	return b
}

// play is the sender's half of one direction of a round.
func (p *Peer) play(r round, seed int, source *vipl.Region, to Remote) error {
	payload := Pattern(r.n, seed)
	payload[r.n-1] = roundEnd
	copy(source.Bytes()[r.from:], payload)
	d := p.Next()
	d.SetRDMAWrite(to.Address+uint64(r.to), to.Handle, source.Segment(r.from, r.n))
	check(p.VI.PostSend(p.T, d))
	return errOf(p.VI.SendWait(p.T, host.Second))
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
		Step(p.play(r, i, source, to), "round %d %+v", i, r)
		Step(p.expect(r, i+1000), "round %d", i)
	}
	return p.Settled(1)
}

func pongServer(e *Env) error {
	p := must(e.Serve(Writable))
	to := must(p.exchange(0))
	source := must(p.Source())
	for i, r := range rounds() {
		Step(p.expect(r, i), "round %d", i)
		Step(p.play(r, i+1000, source, to), "round %d %+v", i, r)
	}
	return p.Settled(0)
}

func (p *Peer) exchange(node int) (Remote, error) {
	check(p.Tell(node))
	return p.Hear()
}

// sinkServer lets the client write to its memory until the client ends.
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
	e.Is("wait on an empty queue", errOf(p.VI.SendWait(p.T, host.Millisecond)), vipl.ErrDescriptor)

	first := must(p.Write(0, 4, to, 0))
	e.Is("done right after the post", errOf(p.VI.SendDone(p.T)), vipl.ErrNotDone)
	e.Is("wait for less than a bus clock", errOf(p.VI.SendWait(p.T, 1)), vipl.ErrTimeout)
	d, err = p.VI.SendWait(p.T, host.Second)
	e.Is("wait", err, nil)
	e.That("the first descriptor", d == first)
	status := first.Status()
	e.That(fmt.Sprintf("status %v", status), status == vipl.DescriptorStatus(layout.DescriptorStatusDoneMask|uint32(layout.StatusOperationRDMAWrite)<<layout.DescriptorStatusOperationLsb))

	// Fill the queue. The card processes it, but descriptors stay until they
	// are reaped.
	posted := make([]*vipl.Descriptor, 0, vipl.MaxDescriptorsPerQueue)
	for i := range vipl.MaxDescriptorsPerQueue {
		d, err := p.Write(i%3, 1+i%5, to, 8*i)
		Step(err, "post %d", i)
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
		Step(err, "descriptor %d", i)
		e.That(fmt.Sprintf("descriptor %d in order", i), d == want)
		// The memory belongs to the program again: the card must not write it
		// any more.
		clear(d.Bytes())
	}
	e.Is("drained", errOf(p.VI.SendDone(p.T)), vipl.ErrDescriptor)
	check(p.T.Sleep(host.Millisecond))
	for i, d := range posted {
		e.That(fmt.Sprintf("descriptor %d stays untouched", i), bytes.Equal(d.Bytes(), make([]byte, len(d.Bytes()))))
	}

	// Send bursts of every length around the moment at which the queue runs
	// empty.
	for burst := range 12 {
		for range burst {
			must(p.Write(0, 4, to, 0))
			check(p.T.Charge(host.Time(burst) * 300 * host.Nanosecond))
		}
		for range burst {
			Step(errOf(p.VI.SendWait(p.T, host.Second)), "burst of %d", burst)
		}
	}
	return p.Settled(1)
}

// idleClient posts on an unconnected VI.
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
		e.That(fmt.Sprintf("%s: flushed, not %v", what, d.Status()), d.Status()&vipl.Flushed != 0 && d.Status()&vipl.DescriptorDone != 0)
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
	// M-VIA passes a message to the NIC within the post.
	e.That(fmt.Sprintf("%d done, %d flushed: some of each", done, flushed), flushed > 0 || e.onMvia())
	e.Is("drained", errOf(p.VI.SendDone(p.T)), vipl.ErrDescriptor)
	e.Is("disconnect again", p.VI.Disconnect(p.T), nil)
	state, empty, err := stateOf(p.VI, p.T)
	e.Is("query", err, nil)
	e.That("idle and empty", state == vipl.Idle && empty)
	e.Is("the leaving side gets no error", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)

	// Connect the same VI again.
	check(p.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("again")))
	check(p.Redial(1))
	must(p.Write(0, 4, to, 0))
	e.Is("after connecting again", errOf(p.VI.SendWait(p.T, host.Second)), nil)
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

// leaveServer checks that its VI is in the error state after the client has
// left.
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

// stateOf returns a VI's state and whether both queues are empty.
func stateOf(v *vipl.VI, t *host.Thread) (layout.VIState, bool, error) {
	i, err := v.Query(t)
	return i.State, i.SendQueueEmpty && i.ReceiveQueueEmpty, err
}

// lost checks a connection that the peer has left.
func (p *Peer) lost() error {
	for range Attempts {
		s, _ := must2(stateOf(p.VI, p.T))
		if s == vipl.ErrorState {
			break
		}
		check(p.T.Sleep(200 * host.Microsecond))
	}
	a, err := p.NIC.ErrorWait(p.T, 0)
	p.Is("the loss is reported", err, nil)
	p.That(fmt.Sprintf("the loss of this VI, not %+v", a), a.Code == layout.AsyncErrorConnectionLost && a.VI == p.VI.Index())
	p.Is("once", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
	must(p.Write(0, 4, Remote{p.Mem.Address(), p.Mem.Handle()}, 0))
	d, err := p.VI.SendWait(p.T, host.Second)
	p.Flushed("posted in the error state", d, err)
	p.Is("connect in the error state", errOf(p.VI.ConnectRequest(p.T, vipl.NetAddress{}, vipl.At(0, ""), host.Millisecond)), vipl.ErrInvalidState)
	p.Is("destroy in the error state", p.VI.Destroy(p.T), vipl.ErrInvalidState)
	p.Is("disconnect leaves the error state", p.VI.Disconnect(p.T), nil)
	s, _, err := stateOf(p.VI, p.T)
	p.Is("query", err, nil)
	p.That("idle", s == vipl.Idle)
	return nil
}

// Again accepts one more connection on the same VI.
func (p *Peer) Again() error {
	r := must(p.NIC.ConnectWait(p.T, vipl.NetAddress{Discriminator: "test"}, host.Second))
	return r.Accept(p.T, p.VI)
}

// GoodWrite checks that a VI works.
func (p *Peer) GoodWrite(to Remote) error {
	must(p.Write(0, 4, to, bufferBytes-4))
	return errOf(p.VI.SendWait(p.T, host.Second))
}

// memoryClient makes memory calls that must be rejected.
func memoryClient(e *Env) error {
	b := must(e.NIC.Alloc(e.T, 3*4096))
	register := func(address, n uint64, a vipl.MemAttributes) error {
		return errOf(e.NIC.RegisterMem(e.T, address, n, a))
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

	// Register the same range several times, with different attributes and
	// handles.
	handles := map[vipl.MemHandle]bool{0: true}
	var regions []*vipl.Region
	for i := range 4 {
		r := must(e.NIC.RegisterMem(e.T, b.Address()+uint64(i), 4097, vipl.MemAttributes{EnableRDMAWrite: i%2 == 1}))
		e.That("a separate handle, not 0", !handles[r.Handle()])
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
	e.Is("memory belongs to the host, not to the handle", errOf(other.Alloc(e.T, 1)), nil)
	e.Is("register through it", errOf(other.RegisterMem(e.T, b.Address(), 1, vipl.MemAttributes{})), vipl.ErrInvalidParameter)
	for _, r := range regions {
		e.Is("deregister", r.Deregister(e.T), nil)
		e.Is("deregister again", r.Deregister(e.T), vipl.ErrInvalidParameter)
	}
	e.Is("free", e.NIC.Free(e.T, b), nil)

	// Register more pages than one list of a command holds.
	big := must(e.H.Allocate(e.T, 1100*4096, mem.Runs))
	all := must(e.NIC.RegisterBuffer(e.T, big, vipl.MemAttributes{}))
	return all.Deregister(e.T)
}

// viClient makes VI and tag calls that must be rejected.
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
	// Create all VIs of the card, then one more.
	made := []*vipl.VI{v}
	for len(made) < q.MaxVI {
		v, err := e.NIC.CreateVI(e.T, vipl.VIAttributes{})
		Step(err, "VI %d", len(made))
		made = append(made, v)
	}
	e.Is("one too many", create(vipl.VIAttributes{}), vipl.ErrResource)
	for _, v := range made {
		e.Is("destroy", v.Destroy(e.T), nil)
	}
	e.Is("a destroyed VI", errOf(v.ConnectRequest(e.T, vipl.NetAddress{}, vipl.NetAddress{}, 1)), vipl.ErrInvalidParameter)
	e.Is("capacity again", create(vipl.VIAttributes{}), nil)
	return nil
}

// connectClient tries every way in which a connection request fails.
func connectClient(e *Env) error {
	v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{}))
	server := func(d string) vipl.NetAddress { return vipl.At(1, d) }
	request := func(d string, timeout host.Time) error {
		return errOf(v.ConnectRequest(e.T, vipl.NetAddress{Discriminator: "me"}, server(d), timeout))
	}
	begin := e.T.Now()
	e.Is("nobody there", request("nobody", host.Second), vipl.ErrNoMatch)
	e.That("reported promptly", e.T.Now()-begin < host.Millisecond)
	e.Is("timeout 0", request("test", 0), vipl.ErrInvalidParameter)
	e.Is("a discriminator too long", request(string(make([]byte, 33)), host.Second), vipl.ErrInvalidParameter)
	begin = e.T.Now()
	e.Is("no such host", errOf(v.ConnectRequest(e.T, vipl.NetAddress{}, vipl.At(9, "test"), 5*host.Millisecond)), vipl.ErrTimeout)
	e.That("after the timeout", e.T.Now()-begin >= 5*host.Millisecond)
	e.Is("wait for nobody", errOf(e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "x"}, host.Millisecond)), vipl.ErrTimeout)
	_, err := e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "x"}, 0)
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
	// The server's first VI has another transfer size, so it accepts with a
	// second one.
	e.Is("accepted in the end", again(host.Second), nil)
	s, _, err := stateOf(v, e.T)
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
		case 0: // rejected by the local card
			d := bad.Next()
			d.SetRDMAWrite(to.Address, to.Handle, vipl.Segment{Address: 1, Handle: 0x55, Length: 64})
			check(bad.VI.PostSend(bad.T, d))
		case 1: // rejected by the peer's card
			must(bad.Write(0, 64, Remote{to.Address, to.Handle ^ 0x11}, 0))
		case 2: // malformed
			d := bad.Next()
			d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 8))
			Raw(d).SetControl(0xfff3)
			check(bad.VI.PostSend(bad.T, d))
		default: // no status can be written, or the doorbell is incomplete
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
		Step(errOf(p.VI.SendWait(p.T, host.Second)), "the good VI, message %d", i)
		// Send no faster than the receiver can store: an overrun would not be
		// the other VI's fault.
		check(p.T.Sleep(20 * host.Microsecond))
	}
	malformed, err := p.NIC.Counter(p.T, layout.CounterDoorbellMalformed)
	e.Is("counter", err, nil)
	// A repeated first dword of a doorbell counts as malformed. The last one
	// stays pending.
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
	// The mailbox is faster than the link.
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
// agents must release it.
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

// sibling returns a peer with a new VI and the memory of p; its descriptors
// start at number first.
func (p *Peer) sibling(first int) (*Peer, error) {
	q := &Peer{Env: p.Env, Mem: p.Mem, descriptors: p.descriptors, posted: first}
	var err error
	q.VI, err = p.NIC.CreateVI(p.T, Writable)
	return q, err
}

// MainsOf are a scenario's programs. On a NIC that lacks the feature, they
// check that the NIC rejects it.
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

// on reports whether the scenario applies to a device.
func (s Scenario) on(d driver.Device) bool { return s.only == "" || s.only == d }

// endpointProgram writes many messages in alternating directions.
func endpointProgram(e *Env, node int) error {
	p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 10000}))
	if node == 0 {
		check(p.Dial(e.T, vipl.At(1, "here"), host.Second))
	} else {
		check(p.Accept(e.T, "here", host.Second))
	}
	for i := range 100 { // more than the queue has descriptors
		write := func() error {
			copy(p.Bytes(), Pattern(3000, i+node))
			p.Bytes()[2999] = byte(i + 1)
			return p.Write(e.T, 0, 3000, 5000, host.Second)
		}
		if node == 0 {
			check(write())
		}
		Step(p.Poll(e.T, 7999, byte(i+1), host.Second), "message %d", i)
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
