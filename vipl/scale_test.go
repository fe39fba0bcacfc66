// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/sim"
	"hvia/vipl"
)

const (
	scaleFrames  = 1 << 15 // 128 MiB for each node
	scaleRegions = 4096
	largeRegion  = 64 << 20
)

// scales are programs that go to a limit, and one beyond it.
var scales = []scenario{
	{"256 VIs connected at once", manyClient, manyServer},
	{"1,024 receives on one VI", deepClient, deepServer},
	{"4,096 regions", regionsClient, sinkServer},
	{"a region of 64 MiB", largeClient, largeServer},
}

func TestScaleOnFakes(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range scales {
			t.Run(s.name, func(t *testing.T) {
				list := programs(mainsOf(s)...)
				f, err := drivertest.NewSized(d, 2, len(driver.Participants(list)), scaleFrames)
				require.NoError(t, err)
				t.Cleanup(f.Close)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Device: d, Seed: 1, Regions: scaleRegions}, list...))
				for i := range 2 {
					require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
				}
			})
		}
	})
}

func TestScaleOnTheCard(t *testing.T) {
	needsCards(t)
	for _, s := range scales {
		t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			start := time.Now()
			require.NoError(t, driver.Run(ctx, driver.RunConfig{Seed: seed(t), Regions: scaleRegions}, programs(mainsOf(s)...)...), "replay with HVIA_SEED=%d", seed(t))
			t.Logf("wall %v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// all makes every VI that the card has.
func (p *peer) all() ([]*vipl.VI, error) {
	list := []*vipl.VI{p.vi}
	for range p.nic.Query().MaxVI - 1 {
		v, err := p.nic.CreateVi(p.t, vipl.ViAttributes{})
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := p.nic.CreateVi(p.t, vipl.ViAttributes{})
	p.is("one VI more", err, vipl.ErrResource)
	p.that(fmt.Sprintf("%d VIs", len(list)), len(list) == 256)
	return list, nil
}

func manyClient(e *env) error {
	p, err := e.prepare(vipl.ViAttributes{})
	if err != nil {
		return err
	}
	list, err := p.all()
	if err != nil {
		return err
	}
	var receives []*vipl.Descriptor
	for i, v := range list {
		q := &peer{env: e, vi: v, mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		d, err := q.receive(64*i, 64)
		if err != nil {
			return err
		}
		p.posted = q.posted
		receives = append(receives, d)
		if err := q.redial(1); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	if err := p.step(1, "connected"); err != nil {
		return err
	}
	// All are connected now. The last answers first.
	for i := len(list) - 1; i >= 0; i-- {
		q := &peer{env: e, vi: list[i], mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		copy(p.mem.Bytes()[64*256:], pattern(60, i))
		d, err := q.send(64*256, 60)
		if err != nil {
			return err
		}
		p.posted = q.posted
		q.sent(fmt.Sprintf("VI %d", i), d, sentBytes(60))
		q.take(fmt.Sprintf("answer to VI %d", i), receives[i], received(60))
		e.that(fmt.Sprintf("bytes of the answer to VI %d", i), bytes.Equal(p.mem.Bytes()[64*i:64*i+60], pattern(60, i)))
		q.inState("all the time", vipl.Connected)
	}
	return p.settled(1)
}

// manyServer sends back what comes.
func manyServer(e *env) error {
	p, err := e.prepare(vipl.ViAttributes{})
	if err != nil {
		return err
	}
	list, err := p.all()
	if err != nil {
		return err
	}
	var receives []*vipl.Descriptor
	for i, v := range list {
		q := &peer{env: e, vi: v, mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		d, err := q.receive(64*i, 64)
		if err != nil {
			return err
		}
		p.posted = q.posted
		receives = append(receives, d)
		r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, 5*driver.Second)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if err := r.Accept(e.t, v); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	if err := p.awaits("connected"); err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0; i-- {
		q := &peer{env: e, vi: list[i], mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		q.take(fmt.Sprintf("question of VI %d", i), receives[i], received(60))
		d, err := q.send(64*i, 60)
		if err != nil {
			return err
		}
		p.posted = q.posted
		q.sent(fmt.Sprintf("VI %d", i), d, sentBytes(60))
	}
	return p.settled(0)
}

func sentBytes(n int) outcome { return outcome{length: n} }

func deepServer(e *env) error {
	p, err := e.prepare(vipl.ViAttributes{})
	if err != nil {
		return err
	}
	var list []*vipl.Descriptor
	for i := range vipl.MaxDescriptorsPerQueue {
		d, err := p.receive(16*i, 16)
		if err != nil {
			return fmt.Errorf("receive %d: %w", i, err)
		}
		list = append(list, d)
	}
	_, err = p.receive(0, 16)
	e.is("one receive more", err, vipl.ErrResource)
	e.is("one receive more", err, vipl.ErrOverrun)
	r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, driver.Second)
	if err != nil {
		return err
	}
	if err := r.Accept(e.t, p.vi); err != nil {
		return err
	}
	if err := p.awaits("sent"); err != nil {
		return err
	}
	for i, d := range list {
		p.take(fmt.Sprintf("message %d", i), d, received(8+i%8))
		if !bytes.Equal(p.mem.Bytes()[16*i:16*i+8+i%8], pattern(8+i%8, i)) {
			return fmt.Errorf("message %d has other bytes", i)
		}
	}
	return p.settled(0)
}

func deepClient(e *env) error {
	p, err := e.prepare(vipl.ViAttributes{})
	if err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	for i := range vipl.MaxDescriptorsPerQueue {
		copy(p.mem.Bytes()[16*i:], pattern(8+i%8, i))
		if _, err := p.send(16*i, 8+i%8); err != nil {
			return err
		}
	}
	for i := range vipl.MaxDescriptorsPerQueue {
		if _, err := p.vi.SendWait(e.t, driver.Second); err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
	}
	return errors.Join(p.step(1, "sent"), p.settled(1))
}

// regionsClient registers pages until the table is full, and writes from the first, one in the middle and the last.
func regionsClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	e.that("the limit", e.nic.Query().MaxRegisterRegions == scaleRegions)
	var list []*vipl.Region
	for i := range scaleRegions - 2 { // the peer has two
		r, err := e.nic.RegisterMem(e.t, p.buf.Address()+uint64(i%19)*4096+uint64(i%7), 4090, nil)
		if err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
		list = append(list, r)
	}
	_, err = e.nic.RegisterMem(e.t, p.buf.Address(), 1, nil)
	e.is("one region more", err, vipl.ErrResource)
	for _, i := range []int{0, scaleRegions / 2, len(list) - 1} {
		d := p.next()
		d.SetRdmaWrite(list[i].Segment(0, 4090), to.address, to.handle)
		if err := p.vi.PostSend(e.t, d); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(e.t, driver.Second); err != nil {
			return fmt.Errorf("write from region %d: %w", i, err)
		}
	}
	for i, r := range list {
		if err := r.Deregister(e.t); err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
	}
	_, err = e.nic.RegisterMem(e.t, p.buf.Address(), 1, nil)
	e.is("now there is room", err, nil)
	return p.settled(1)
}

// offsets of the large region that are written: its edges, and where pages and commands end.
var largeOffsets = []int{0, 65536 + 4090, 4096*1024 - 3, largeRegion / 2, largeRegion - 65536}

func largeServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	b, err := e.nic.Alloc(e.t, largeRegion)
	if err != nil {
		return err
	}
	r, err := e.nic.RegisterBuffer(e.t, b, &vipl.MemAttributes{EnableRdmaWrite: true})
	if err != nil {
		return err
	}
	_, err = e.nic.RegisterMem(e.t, b.Address(), largeRegion+1, nil)
	e.is("one byte more than there is", err, vipl.ErrInvalidParameter)
	_, err = e.nic.Alloc(e.t, 1<<30)
	e.is("more than the node has", err, vipl.ErrResource)
	if err := errors.Join(p.tellRegion(0, r), p.awaits("written")); err != nil {
		return err
	}
	for i, at := range largeOffsets {
		if n := min(65536, largeRegion-at); !bytes.Equal(r.Bytes()[at:at+n], pattern(n, i)) {
			return fmt.Errorf("%d bytes at %d are others", n, at)
		}
	}
	e.that("nothing is behind the second", bytes.Equal(r.Bytes()[2*65536+4090:2*65536+4090+4096], make([]byte, 4096)))
	got, err := e.nic.NextError(e.t)
	e.is("the write beyond the end is refused", err, nil)
	e.that(fmt.Sprintf("error %v", got.Code), got.Vi == p.vi.Index())
	e.is("deregister", r.Deregister(e.t), nil)
	return errors.Join(p.settled(0), e.nic.Free(e.t, b))
}

func largeClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	for i, at := range largeOffsets {
		n := min(65536, largeRegion-at)
		copy(p.mem.Bytes(), pattern(n, i))
		if _, err := p.write(0, n, to, at); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(e.t, driver.Second); err != nil {
			return err
		}
	}
	if _, err := p.write(0, 8, to, largeRegion-7); err != nil {
		return err
	}
	if _, err := p.vi.SendWait(e.t, driver.Second); err != nil {
		return err
	}
	return errors.Join(e.t.Sleep(5*driver.Millisecond), p.step(1, "written"), p.settled(1))
}

// Sixteen threads of a host use one NIC handle at once, in free mode, where nobody
// takes turns: each asks on its own VI, and takes whatever the two shared completion
// queues have, for whosever VI it is. Nothing is lost, doubled or out of order.
const (
	crowd       = 16
	crowdWindow = 8
)

func TestManyThreadsOfOneNic(t *testing.T) {
	needsCards(t)
	questions := 40 // of each thread; a question is four posts and four descriptors taken
	if os.Getenv("HVIA_LONG") == "1" {
		questions = 100_000 / 8 / crowd
	}
	sides := [2]*crowdSide{{node: 0, questions: questions, ready: make(chan struct{})}, {node: 1, questions: questions, ready: make(chan struct{})}}
	var list []driver.Program
	for node, s := range sides {
		for i := range crowd {
			list = append(list, driver.Program{Node: node, Main: func(t *driver.Thread, h *driver.Host) error { return s.run(t, h, i) }})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	start := time.Now()
	require.NoError(t, driver.Run(ctx, driver.RunConfig{Seed: seed(t), Fabric: sim.Config{Mode: sim.Free}}, list...))
	t.Logf("%d operations in %v", 8*questions*crowd, time.Since(start).Round(time.Millisecond))
}

// crowdSide is one host.
type crowdSide struct {
	node, questions int
	ready           chan struct{} // closed when nic and queues are there, or failed
	nic             *vipl.Nic
	send, receive   *vipl.CQ
	failed          error
	members         sync.Map // *vipl.VI to *member
	over            atomic.Int32
}

// member is a VI and what has come of it.
type member struct {
	mu             sync.Mutex
	v              *vipl.VI
	mem            *vipl.Region
	sent, answered int // questions or answers
	taken          int // descriptors of sends
	free           []*vipl.Descriptor
}

func (s *crowdSide) open(t *driver.Thread, h *driver.Host) (err error) {
	if s.nic, err = vipl.OpenNic(t, h); err != nil {
		return err
	}
	if s.send, err = s.nic.CreateCQ(t, 4*crowd*crowdWindow); err != nil {
		return err
	}
	s.receive, err = s.nic.CreateCQ(t, 4*crowd*crowdWindow)
	return err
}

const crowdSlot = 256 // of a message: descriptors of its receive and send, their bytes behind them

func (s *crowdSide) run(t *driver.Thread, h *driver.Host, i int) error {
	if i == 0 {
		s.failed = s.open(t, h)
		close(s.ready)
	}
	<-s.ready
	if s.failed != nil {
		return s.failed
	}
	v, err := s.nic.CreateVi(t, vipl.ViAttributes{ReliabilityLevel: vipl.ReliableReception, SendCQ: s.send, RecvCQ: s.receive})
	if err != nil {
		return err
	}
	b, err := s.nic.Alloc(t, 4*crowdWindow*crowdSlot)
	if err != nil {
		return err
	}
	m := &member{v: v}
	if m.mem, err = s.nic.RegisterBuffer(t, b, nil); err != nil {
		return err
	}
	s.members.Store(v, m)
	for k := range 2 * crowdWindow {
		if err := m.prepare(t, k); err != nil {
			return err
		}
		d, err := m.mem.Descriptor((2*crowdWindow + k) * crowdSlot)
		if err != nil {
			return err
		}
		m.free = append(m.free, d)
	}
	name := fmt.Sprintf("pair %d", i)
	if s.node == 1 {
		r, err := s.nic.ConnectWait(t, vipl.NetAddress{Discriminator: name}, vipl.Infinite)
		if err != nil {
			return err
		}
		if err := r.Accept(t, v); err != nil {
			return err
		}
	} else {
		for {
			_, err := v.ConnectRequest(t, vipl.NetAddress{}, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: name}, vipl.Infinite)
			if err == nil {
				break
			}
			if !errors.Is(err, vipl.ErrNoMatch) {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	counted := false
	for int(s.over.Load()) < crowd {
		if s.node == 0 {
			if err := m.ask(t, s.questions); err != nil {
				return err
			}
		}
		if err := s.serve(t); err != nil {
			return err
		}
		m.mu.Lock()
		if !counted && m.answered == s.questions && m.sent == s.questions && m.taken == s.questions {
			counted = true
			s.over.Add(1)
		}
		m.mu.Unlock()
	}
	_, err = v.SendDone(t)
	if !errors.Is(err, vipl.ErrDescriptor) {
		return fmt.Errorf("%s: something is left on the send queue: %w", name, err)
	}
	return nil
}

// prepare posts the receive of a slot.
func (m *member) prepare(t *driver.Thread, k int) error {
	d, err := m.mem.Descriptor(k * crowdSlot)
	if err != nil {
		return err
	}
	return errors.Join(d.SetReceive(m.mem.Segment(k*crowdSlot+128, 64)), m.v.PostRecv(t, d))
}

// ask posts a question if the window is open.
func (m *member) ask(t *driver.Thread, limit int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sent == limit || m.sent-m.answered == crowdWindow {
		return nil
	}
	return m.say(t)
}

// say posts message number m.sent. The mutex is held.
func (m *member) say(t *driver.Thread) error {
	if len(m.free) == 0 {
		return errors.New("more sends are under way than the window allows")
	}
	d := m.free[0]
	m.free = m.free[1:]
	at := int(d.Address-m.mem.Address()) + 128
	copy(m.mem.Bytes()[at:], pattern(64, m.sent))
	m.sent++
	return errors.Join(d.SetSend(m.mem.Segment(at, 64)), m.v.PostSend(t, d))
}

// serve takes what one look at each queue finds.
func (s *crowdSide) serve(t *driver.Thread) error {
	for _, c := range []*vipl.CQ{s.receive, s.send} {
		v, receive, err := c.Done(t)
		if errors.Is(err, vipl.ErrNotDone) {
			time.Sleep(20 * time.Microsecond) // the simulator needs the processor, too
			continue
		}
		if err != nil {
			return err
		}
		x, _ := s.members.Load(v)
		m, ok := x.(*member)
		if !ok || receive != (c == s.receive) {
			return fmt.Errorf("an entry of VI %d, of the receive queue: %v", v.Index(), receive)
		}
		if err := s.take(t, m, receive); err != nil {
			return fmt.Errorf("VI %d: %w", v.Index(), err)
		}
	}
	return nil
}

func (s *crowdSide) take(t *driver.Thread, m *member, receive bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !receive {
		d, err := m.v.SendDone(t)
		if err != nil {
			return err
		}
		m.taken++
		m.free = append(m.free, d)
		return nil
	}
	d, err := m.v.RecvDone(t)
	if err != nil {
		return err
	}
	at := int(d.Address - m.mem.Address())
	if got := m.mem.Bytes()[at+128 : at+192]; d.CompletedLength() != 64 || !bytes.Equal(got, pattern(64, m.answered)) {
		return fmt.Errorf("message %d is %x", m.answered, got)
	}
	m.answered++
	if err := m.prepare(t, at/crowdSlot); err != nil {
		return err
	}
	if s.node == 1 {
		return m.say(t)
	}
	return nil
}
