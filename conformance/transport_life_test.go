// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/vipl"
)

// After defaultGivenUp, which is defaultRetries timeouts and one more, a VI
// gives up on a silent peer.
const (
	defaultRetries = 7
	defaultGivenUp = (defaultRetries + 1) << 16 * busClock
)

var lifeCounters = []layout.Counter{layout.CounterRetryTimeout, layout.CounterRetransmitFrame, layout.CounterRetryExhausted}

// manyReads are one read on each of many VIs, posted together.
type manyReads struct {
	level    vipl.ReliabilityLevel
	vis, n   int
	failed   int
	took     host.Time
	counters map[layout.Counter]uint32
}

func (x *manyReads) client(e *Env) error {
	p := must(e.Dial(1, reliableRights(x.level)))
	to := must(p.Hear())
	b := must(e.NIC.Alloc(e.T, x.vis*x.n))
	memory := must(e.NIC.RegisterBuffer(e.T, b, vipl.MemAttributes{}))
	list := []*Peer{p}
	for i := 1; i < x.vis; i++ {
		v := must(e.NIC.CreateVI(e.T, reliableRights(x.level)))
		q := &Peer{Env: e, VI: v, Mem: p.Mem, descriptors: p.descriptors}
		Step(q.Redial(1), "connection %d", i)
		list = append(list, q)
	}
	begin := e.T.Now()
	for i, q := range list {
		d := p.Next()
		d.SetRDMARead(to.Address, to.Handle, memory.Segment(i*x.n, x.n))
		Step(q.VI.PostSend(e.T, d), "VI %d", i)
	}
	for i, q := range list {
		if _, err := q.VI.SendWait(e.T, 2*host.Second); err != nil {
			x.failed++
			continue
		}
		e.That(fmt.Sprintf("bytes of the read of VI %d", i), bytes.Equal(memory.Bytes()[i*x.n:][:x.n], Pattern(x.n, 3)))
		q.InState("all the time", vipl.Connected)
	}
	x.took = e.T.Now() - begin
	x.counters = must(e.counters(lifeCounters...))
	return p.Settled(1)
}

func (x *manyReads) server(e *Env) error {
	p := must(e.Serve(reliableRights(x.level)))
	source := must(p.openMemory())
	copy(source.Bytes(), Pattern(x.n, 3))
	check(p.tellRegion(0, source))
	for i := 1; i < x.vis; i++ {
		v := must(e.NIC.CreateVI(e.T, reliableRights(x.level)))
		r, err := e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, 5*host.Second)
		Step(err, "connection %d", i)
		Step(r.Accept(e.T, v), "connection %d", i)
	}
	return p.Settled(0)
}

// Reads wait at the responder longer than RetryLimit timeouts. None fails,
// because the link loses nothing and the peer is alive.
func TestReadsThatWait(t *testing.T) {
	conformtest.NeedsSimulator(t)
	cases := []struct {
		vis, n    int
		transport driver.Transport
	}{{24, 16384, driver.Transport{RetryTimeout: 1 << 13 * busClock}}}
	if os.Getenv("HVIA_LONG") == "1" {
		cases = append(cases, struct {
			vis, n    int
			transport driver.Transport
		}{256, 16384, driver.Transport{}}, struct {
			vis, n    int
			transport driver.Transport
		}{64, 65536, driver.Transport{}})
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d VIs, %d bytes", c.vis, c.n), func(t *testing.T) {
			x := &manyReads{level: vipl.ReliableDelivery, vis: c.vis, n: c.n}
			start := time.Now()
			cardRun{transport: c.transport, limit: 30 * time.Minute}.must(t, x.client, x.server)
			t.Logf("%d of %d failed, %v; %v; wall %v", x.failed, c.vis, x.took, x.counters, time.Since(start).Round(time.Millisecond))
			require.Zero(t, x.failed)
			require.NotZero(t, x.counters[layout.CounterRetryTimeout], "no read waited: the run proves nothing")
		})
	}
}

// lossyMix is a random mix of all operations in both directions of one VI.
type lossyMix struct {
	level vipl.ReliabilityLevel
	sides [2][]mixOperation
	took  host.Time
	lost  [2]uint32
	times [2]uint32
}

type mixOperation struct {
	kind transferKind
	n    int
}

func newLossyMix(level vipl.ReliabilityLevel, seed uint64, operations int) *lossyMix {
	x := &lossyMix{level: level}
	random := rand.New(rand.NewPCG(seed, 2))
	for range operations {
		side := random.IntN(2)
		x.sides[side] = append(x.sides[side], mixOperation{transferKinds[random.IntN(len(transferKinds))], 1 + random.IntN([]int{4, 64, 4096, transferLongest}[random.IntN(4)])})
	}
	return x
}

func (x *lossyMix) side(side int) Main {
	return func(e *Env) error {
		var p *Peer
		var err error
		if side == 0 {
			p, err = e.Dial(1, reliableRights(x.level))
		} else {
			p, err = e.Serve(reliableRights(x.level))
		}
		if err != nil {
			return err
		}
		open := must(p.openMemory())
		check(p.tellRegion(1-side, open))
		to := must(p.Hear())
		var receives, posted []*vipl.Descriptor
		for _, o := range x.sides[1-side] {
			if !o.kind.receives() {
				continue
			}
			receives = append(receives, must(p.Receive(0, transferLongest)))
		}
		check(p.Meet(1 - side))
		begin := e.T.Now()
		for _, o := range x.sides[side] {
			posted = append(posted, must(p.transferOf(o.kind, 0, o.n, to, 0)))
		}
		for i, o := range x.sides[side] {
			d, err := p.VI.SendWait(e.T, 20*host.Second)
			if err != nil || d != posted[i] {
				return fmt.Errorf("operation %d of side %d (%s of %d bytes): %w", i, side, o.kind.name, o.n, err)
			}
		}
		for range receives {
			must(p.VI.RecvWait(e.T, 20*host.Second))
		}
		x.took = max(x.took, e.T.Now()-begin)
		list := must(e.counters(lifeCounters...))
		x.lost[side], x.times[side] = list[layout.CounterRetryExhausted], list[layout.CounterRetryTimeout]
		return p.Meet(1 - side)
	}
}

// A link that loses one frame in five breaks no connection to a live peer.
func TestLossyLinkBreaksNoConnection(t *testing.T) {
	conformtest.NeedsSimulator(t)
	for n := 1; n <= conformtest.Long(1, 20); n++ {
		t.Run(fmt.Sprintf("seed %d", n), func(t *testing.T) {
			x := newLossyMix(vipl.ReliableReception, uint64(n), conformtest.Long(60, 150))
			start := time.Now()
			cardRun{faults: fmt.Sprintf("drop=20%% type 0x88b5; seed=%d", n), limit: 30 * time.Minute}.must(t, x.side(0), x.side(1))
			t.Logf("%d and %d operations, %v; timeouts %v; wall %v", len(x.sides[0]), len(x.sides[1]), x.took, x.times, time.Since(start).Round(time.Millisecond))
			require.Equal(t, [2]uint32{}, x.lost)
		})
	}
}

// A VI gives up on a silent peer within 20 ms, both for a new operation and for
// a read whose request is acknowledged.
func TestDeadPeer(t *testing.T) {
	const dies = 60 * host.Millisecond
	for _, c := range []struct{ name, faults string }{
		{"nothing was acknowledged", "cut=60ms.."},
		{"a read waits", "1>0:drop=operation rdmareadresponse; cut=60ms.."},
	} {
		t.Run(c.name, func(t *testing.T) {
			conformtest.NeedsSimulator(t)
			var noticed host.Time
			reads := c.name == "a read waits"
			client := func(e *Env) error {
				p := must(e.Dial(1, reliableRights(vipl.ReliableDelivery)))
				to := must(p.Hear())
				at := dies
				if reads {
					at -= 30 * host.Millisecond // longer than the limit of a silent peer
				}
				check(p.until(at))
				d := p.Next()
				if reads {
					d.SetRDMARead(to.Address, to.Handle, p.Mem.Segment(0, 4))
				} else {
					d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, 4))
				}
				check(p.VI.PostSend(e.T, d))
				_, err := p.VI.SendWait(e.T, host.Second)
				noticed = e.T.Now()
				e.Is("the operation", err, vipl.ErrDescriptor)
				return nil
			}
			server := func(e *Env) error {
				p := must(e.Serve(reliableRights(vipl.ReliableDelivery)))
				r := must(p.openMemory())
				return errors.Join(p.tellRegion(0, r), p.until(dies+50*host.Millisecond))
			}
			cardRun{faults: c.faults}.must(t, client, server)
			t.Logf("noticed after %v", noticed-dies)
			require.Greater(t, noticed, dies)
			require.Less(t, noticed-dies, 20*host.Millisecond)
		})
	}
}

// If a peer acknowledges a read but never responds, the reader gives up after
// RetryAliveFactor times the limit.
func TestReadWithoutResponse(t *testing.T) {
	conformtest.NeedsSimulator(t)
	transport, timeout, limit := driver.Transport{RetryTimeout: 1 << 13 * busClock, RetryLimit: 2}, host.Time(1<<13*busClock), 2
	if os.Getenv("HVIA_LONG") == "1" {
		transport, timeout, limit = driver.Transport{}, 1<<16*busClock, defaultRetries
	}
	want := host.Time(limit*params.RetryAliveFactor+1) * timeout
	var took host.Time
	var counters map[layout.Counter]uint32
	client := func(e *Env) error {
		p := must(e.Dial(1, reliableRights(vipl.ReliableDelivery)))
		to := must(p.Hear())
		begin := e.T.Now()
		d := p.Next()
		d.SetRDMARead(to.Address, to.Handle, p.Mem.Segment(0, 4))
		check(p.VI.PostSend(e.T, d))
		got, err := p.VI.SendWait(e.T, 2*want)
		took = e.T.Now() - begin
		p.Completed("the read", got, d, err, didRead(0).failed(transportError))
		p.broken("the read", nil)
		counters = must(e.counters(lifeCounters...))
		return p.Settled(1)
	}
	server := func(e *Env) error {
		p := must(e.Serve(reliableRights(vipl.ReliableDelivery)))
		r := must(p.openMemory())
		check(p.tellRegion(0, r))
		check(e.T.Sleep(want))
		return p.Settled(0)
	}
	cardRun{faults: "1>0:drop=operation rdmareadresponse", transport: transport}.must(t, client, server)
	t.Logf("%v, %d timeouts of %v are %v; %v", took, limit*params.RetryAliveFactor+1, timeout, want, counters)
	require.InDelta(t, float64(want), float64(took), float64(timeout))
	require.EqualValues(t, limit*params.RetryAliveFactor+1, counters[layout.CounterRetryTimeout])
	require.EqualValues(t, limit*params.RetryAliveFactor, counters[layout.CounterRetransmitFrame])
}
