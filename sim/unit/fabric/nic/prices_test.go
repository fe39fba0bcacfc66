// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
)

// busClocks are the busy bus clocks since the last call, except those of
// reading the counter.
func (n *nic) busClocks(last *uint32) host.Time {
	now := n.counter(layout.NICCounterBusClocks)
	d := now - *last
	*last = now
	return host.Time(d) * clock
}

// Bus clocks of one posted dword and of one register read.
const (
	writeClocks = 4
	readClocks  = 5
)

// busPrices: transactions take the time that the parameters of the host bridge
// define, at every length and alignment. 512 bytes take as long as the card's
// bursts.
func busPrices(seed uint64) (a, b func(n *nic)) {
	random := rand.New(rand.NewPCG(seed, 1))
	type shape struct{ from, to, size uint32 }
	shapes := []shape{{0, 0, 512}, {0, 0, 1024}, {0, 0, 60}, {3, 1, 60}, {0, 0, 1514}}
	for range 40 {
		shapes = append(shapes, shape{uint32(random.IntN(64)), uint32(random.IntN(64)), uint32(60 + random.IntN(1455))})
	}
	status := burst(true, layout.RawEntryStatusOffset, 4)
	entry := burst(false, 0, layout.RawEntrySize)
	a = func(n *nic) {
		n.start(4, 4)
		var last uint32
		n.barrier(1)
		whole := map[uint32]host.Time{}
		for _, s := range shapes {
			p := n.page()
			copy(n.mem[p+s.from:], frameOf(0, 0, int(s.size)))
			n.busClocks(&last)
			n.fill(&n.tx, p+s.from, s.size)
			n.post(&n.tx)
			n.equal(uint32(done), n.await(&n.tx), "status")
			whole[s.size] = n.busClocks(&last) - (writeClocks+readClocks)*clock - entry - status
			n.equal(bursts(false, s.from, s.size), whole[s.size], "reading %d bytes at %d", s.size, s.from)
			n.barrier(2)
		}
		n.equal(142*clock, whole[1024]-whole[512], "a burst of 512 bytes")
		n.equal(142*clock, whole[512], "a burst of 512 bytes")
	}
	b = func(n *nic) {
		n.start(4, 4)
		var last uint32
		n.barrier(1)
		whole := map[uint32]host.Time{}
		for _, s := range shapes {
			n.busClocks(&last)
			n.fill(&n.rx, n.page()+s.to, layout.MaxFrame)
			n.post(&n.rx)
			n.equal(uint32(done|s.size<<layout.RawEntryStatusLengthLsb), n.await(&n.rx), "status")
			whole[s.size] = n.busClocks(&last) - (writeClocks+readClocks)*clock - entry - status
			n.equal(bursts(true, s.to, s.size), whole[s.size], "writing %d bytes at %d", s.size, s.to)
			n.barrier(2)
		}
		n.equal(142*clock, whole[1024]-whole[512], "a burst of 512 bytes")
	}
	return a, b
}

func TestBusPrices(t *testing.T) {
	a, b := busPrices(unit.Seed(t))
	mustPlay(t, config{}, a, b)
}

// latency: the time from the tail's write to the receiver's interrupt is
// exactly the sum of the parts.
func latency(value func(name string) host.Time) (a, b func(n *nic)) {
	var began [3]host.Time
	sizes := []int{60, 600, 1514}
	a = func(n *nic) {
		n.start(4, 4)
		n.barrier(1)
		for i, size := range sizes {
			n.sleep(12345*host.Nanosecond + 777)
			p := n.page()
			copy(n.mem[p:], frameOf(0, i, size))
			// In two pieces, as a kernel sends it.
			n.fill(&n.tx, p, 42|more)
			n.fill(&n.tx, p+42, uint32(size-42))
			began[i] = n.t.Now()
			n.post(&n.tx)
			for range 2 {
				n.equal(uint32(done), n.await(&n.tx), "status")
			}
			n.barrier(uint64(10 + i))
		}
	}
	b = func(n *nic) {
		n.start(4, 4)
		n.buffers(8)
		n.barrier(1)
		for i, size := range sizes {
			stored := n.interrupt()
			n.equal(stored, n.t.Now(), "the clock")
			n.equal(uint32(done|size<<layout.RawEntryStatusLengthLsb), n.await(&n.rx), "status")
			n.equal(stored, n.t.Now(), "the status and the interrupt")
			n.clear(receiveCause)
			n.barrier(uint64(10 + i))

			told := edge(began[i]+params.BridgePostedWriteClocks*clock) + writeClocks*clock
			read := edge(told+value("NICTransmitTime")) + burst(false, n.tx.index(), 2*layout.RawEntrySize) +
				bursts(false, 0, 42) + bursts(false, 42, uint32(size-42))
			arrived := read + wire(size)
			want := edge(arrived+value("NICReceiveTime")) + bursts(true, 0, uint32(size)) + burst(true, layout.RawEntryStatusOffset, 4)
			want += host.Picosecond // a poll does not see an event at its own instant
			n.equal(want-began[i], stored-began[i], "latency of %d bytes", size)
		}
	}
	return a, b
}

func paramsWith(replaced map[string]int64) func(name string) host.Time {
	return func(name string) host.Time {
		if v, ok := replaced[name]; ok {
			return host.Time(v)
		}
		v, err := params.Lookup(params.Base, name)
		if err != nil {
			fail("%w", err)
		}
		return host.Time(v)
	}
}

func TestLatency(t *testing.T) {
	for _, replaced := range []map[string]int64{nil, {"NICTransmitTime": 0, "NICReceiveTime": 0}, {"NICTransmitTime": 1_234_567, "NICReceiveTime": 7_654_321}} {
		a, b := latency(paramsWith(replaced))
		mustPlay(t, config{params: replaced}, a, b)
	}
}

// accesses measures register accesses: reads, and reads after writes.
func accesses(n *nic) (spans []host.Time) {
	for _, writes := range []int{0, 1, 2, 3, 5} {
		for i := range 3 {
			n.sleep(host.Microsecond + host.Time(i)*7001)
			began := n.t.Now()
			for range writes {
				n.write(layout.RegisterMacLowOffset, 1)
			}
			n.read(layout.RegisterIDOffset)
			spans = append(spans, n.t.Now()-edge(began))
		}
	}
	return spans
}

// Register accesses take as long as on the card's bus.
func TestRegisterPrices(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card")
	}
	program, err := sim.Build{}.Program(t.Context())
	require.NoError(t, err)
	spans := map[string][]host.Time{}
	for _, kind := range []string{"card", "nic"} {
		mustPlay(t, config{kind: kind, program: program}, func(n *nic) { spans[kind] = accesses(n) }, func(n *nic) {})
	}
	require.Equal(t, spans["card"], spans["nic"])
}
