// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/params"
)

const (
	opSend  = layout.DescriptorOperationSend
	opWrite = layout.DescriptorOperationRDMAWrite
	opRead  = layout.DescriptorOperationRDMARead
)

var levels = []layout.Reliability{layout.ReliabilityDelivery, layout.ReliabilityReception}

func onLevels(t *testing.T, name string, test func(t *testing.T, level layout.Reliability)) {
	for _, level := range levels {
		t.Run(fmt.Sprintf("%s/%v", name, level), func(t *testing.T) { test(t, level) })
	}
}

// traffic is what one host sends in TestLossyWire, and its expected results.
type traffic struct {
	from, to *host
	random   *rand.Rand
	slots    [trafficSlots][]byte // of the peer's memory, as the operations so far leave them
	read     [trafficSlots]bool   // since the last fence, and maybe not complete
	sends    []func()             // checks at the completion of each descriptor of the send queue
	receives []func()             // the same for the peer's receive queue
}

const (
	trafficSlots  = 16
	trafficBytes  = 6 * layout.MaxPayload // of a slot, and of a buffer
	trafficRing   = 128                   // buffers of either side
	trafficSource = pairData
	trafficBuffer = trafficSource + trafficRing*trafficBytes/2
)

func (f *traffic) slot(i int) uint32 { return pairTarget + uint32(i)*trafficBytes }

func (f *traffic) next() {
	r := f.random
	sizes := []int{0, 1, 4, layout.MaxPayload, layout.MaxPayload + 1, r.IntN(300), r.IntN(trafficBytes)}
	n := uint32(sizes[r.IntN(len(sizes))])
	at := uint32(trafficSource + f.from.posted[SendQueue]%(trafficRing/2)*trafficBytes)
	source := f.from.memory[at:][:n]
	pieces := []piece{{at, localHandle, n}}
	if n > 2 && r.IntN(2) == 0 {
		cut := 1 + r.Uint32N(n-1)
		pieces = []piece{{at, localHandle, cut}, {at + cut, localHandle, 0}, {at + cut, localHandle, n - cut}}
	}
	kind, slot := r.IntN(5), r.IntN(trafficSlots)
	fence := r.IntN(8) == 0
	if kind < 4 {
		for i := range source {
			source[i] = byte(r.Uint32())
		}
	}
	operation, echo := opSend, layout.StatusOperationSend
	immediate := uint32(0)
	if kind == 1 || kind == 3 {
		immediate = r.Uint32() | 1
	}
	content := append([]byte{}, source...)
	switch kind {
	case 0, 1:
		buffer := f.receive(n)
		want := ended{length: n, echo: layout.StatusOperationReceive, immediate: immediate}
		f.expect(want, func() {
			require.Equal(f.to.pair.t, content, f.to.memory[buffer:][:n])
		})
	case 2, 3:
		operation, echo = opWrite, layout.StatusOperationRDMAWrite
		fence = fence || f.read[slot] && n > 0 // memory in a read must not change
		f.slots[slot] = append(content, f.slots[slot][n:]...)
		if immediate != 0 {
			f.receive(0)
			f.expect(ended{length: n, echo: layout.StatusOperationRemoteRDMAWrite, immediate: immediate}, func() {})
		}
	case 4:
		operation, echo = opRead, layout.StatusOperationRDMARead
		content = f.slots[slot][:n]
	}
	if fence {
		f.read = [trafficSlots]bool{}
	}
	f.read[slot] = f.read[slot] || kind == 4
	number := f.from.prepare(SendQueue, operation, pieces, func(d layout.Descriptor) {
		if fence {
			d.SetControl(d.Control() | layout.DescriptorControlQueueFenceMask)
		}
		if immediate != 0 {
			d.SetControl(d.Control() | layout.DescriptorControlImmediateMask)
			d.SetImmediateData(immediate)
		}
		if operation != opSend {
			a := layout.AddressSegment(d[layout.DescriptorSize:])
			a.SetAddress(uint64(f.slot(slot)))
		}
	})
	arrived := len(f.receives)
	f.sends = append(f.sends, func() {
		t := f.from.pair.t
		want := ended{length: n, echo: echo}
		if operation == opSend || immediate != 0 {
			require.GreaterOrEqual(t, f.to.completed[ReceiveQueue], arrived, "complete before the peer has it")
		}
		require.Equal(t, want, f.from.ended(SendQueue, number))
		if operation == opRead {
			require.Equal(t, content, f.from.memory[at:][:n])
		}
	})
	f.from.ring(SendQueue)
}

func (f *traffic) receive(n uint32) (buffer uint32) {
	buffer = uint32(trafficBuffer + f.to.posted[ReceiveQueue]%(trafficRing/2)*trafficBytes)
	f.to.post(ReceiveQueue, opSend, []piece{{buffer, localHandle, n}}, nil)
	return buffer
}

// expect sets the result of the peer's next receive. All earlier operations are
// visible by then, and no later ones.
func (f *traffic) expect(want ended, check func()) {
	number := len(f.receives)
	slots := f.slots
	f.receives = append(f.receives, func() {
		require.Equal(f.to.pair.t, want, f.to.ended(ReceiveQueue, number))
		check()
		for i, s := range slots {
			require.Equal(f.to.pair.t, s, f.to.memory[f.slot(i):][:len(s)], "slot %d", i)
		}
	})
}

func TestLimitsAreTheCards(t *testing.T) {
	require.EqualValues(t, params.LedgerMessages, ledgerMessages)
	require.EqualValues(t, params.LedgerResponses, ledgerResponses)
	require.EqualValues(t, params.AcknowledgeEvery, acknowledgeEvery)
	require.EqualValues(t, params.RetryAliveFactor, retryAliveFactor)
}

// Frames are lost, duplicated and reordered: every message arrives once,
// complete and in order, descriptors complete in order and only after the peer
// has the message, and reads return the data of their time.
func TestLossyWire(t *testing.T) {
	operations := 6000
	if testing.Short() {
		operations = 1000
	}
	for _, w := range []struct {
		name                string
		lose, double, delay int
	}{{"none", 0, 0, 0}, {"few", 10, 10, 10}, {"many", 100, 100, 200}} {
		onLevels(t, w.name, func(t *testing.T, level layout.Reliability) {
			const seed = 7
			random := rand.New(rand.NewPCG(seed, seed))
			p := newPair(t, level, func(_ *host, c layout.VIContext) { c.SetRetryLimit(60) })
			p.wire = faults(seed, w.lose, w.double, w.delay)
			var both [2]*traffic
			for i, h := range p.hosts {
				f := &traffic{from: h, to: h.peer, random: random}
				for k := range f.slots {
					f.slots[k] = make([]byte, trafficBytes)
				}
				both[i] = f
			}
			for i, h := range p.hosts {
				h.done = func(of Queue, n int) {
					if of == SendQueue {
						both[i].sends[n]()
					} else {
						both[1-i].receives[n]()
					}
				}
			}
			for posted := [2]int{}; posted[0]+posted[1] < 2*operations; {
				for i, f := range both {
					if f.from.posted[SendQueue]-f.from.completed[SendQueue] < trafficRing/4 && f.to.posted[ReceiveQueue]-f.to.completed[ReceiveQueue] < trafficRing/4 && posted[i] < operations {
						f.next()
						posted[i]++
					}
				}
				p.run(p.now + random.Uint64N(400))
				if len(p.events) > 0 {
					p.run(p.events[0].at)
				}
				p.log = nil
			}
			p.run(forever)
			for i, h := range p.hosts {
				require.Equal(t, operations, h.completed[SendQueue])
				require.Equal(t, len(both[1-i].receives), h.completed[ReceiveQueue])
				require.Empty(t, h.errors)
				for k, s := range both[1-i].slots {
					require.Equal(t, s, h.memory[both[i].slot(k):][:len(s)], "slot %d", k)
				}
			}
			counts := p.hosts[0].counts
			t.Logf("%d frames, %d again, %d acknowledgements, %d timeouts, %d gaps, by clock %d", counts[layout.CounterTransmitFrame], counts[layout.CounterRetransmitFrame],
				counts[layout.CounterTransmitAcknowledge], counts[layout.CounterRetryTimeout], counts[layout.CounterRewind], p.now)
			require.Equal(t, w.lose > 0, counts[layout.CounterRetransmitFrame] > 0)
			require.Equal(t, w.lose > 0, counts[layout.CounterRetryTimeout] > 0)
			require.Equal(t, w.lose > 0, counts[layout.CounterRewind] > 0)
		})
	}
}

// A message longer than the window waits for no timeout, for any window; nor do
// lost frames, if others come behind them.
func TestNoTimeouts(t *testing.T) {
	onLevels(t, "long", func(t *testing.T, level layout.Reliability) {
		for window := params.AcknowledgeEvery; window < 3*params.AcknowledgeEvery; window++ {
			p := newPair(t, level, func(_ *host, c layout.VIContext) { c.SetWindow(uint8(window)) })
			h := p.hosts[0]
			h.post(SendQueue, opWrite, local(40*layout.MaxPayload), nil)
			p.run(forever)
			require.Equal(t, 1, h.completed[SendQueue])
			require.Zero(t, h.counts[layout.CounterRetryTimeout])
		}
	})
	onLevels(t, "gaps", func(t *testing.T, level layout.Reliability) {
		p := newPair(t, level, nil)
		h := p.hosts[0]
		frames := 0
		p.lose(func(f wireFrame) bool {
			if f.from == h {
				frames++
			}
			return f.from == h && (frames == 2 || frames == 20)
		})
		h.post(SendQueue, opWrite, local(40*layout.MaxPayload), nil)
		p.run(forever)
		require.Equal(t, 1, h.completed[SendQueue])
		require.Equal(t, 2, h.counts[layout.CounterRewind])
		require.Zero(t, h.counts[layout.CounterRetryTimeout])
	})
}

// Exactly a window of frames is sent without an acknowledgement.
func TestWindow(t *testing.T) {
	onLevels(t, "", func(t *testing.T, level layout.Reliability) {
		for _, window := range []int{1, 5, params.LedgerMessages + 10} {
			p := newPair(t, level, func(_ *host, c layout.VIContext) { c.SetWindow(uint8(window)) })
			p.lose(func(wireFrame) bool { return true })
			h := p.hosts[0]
			for range 40 {
				h.post(SendQueue, opWrite, []piece{{pairData, localHandle, 2 * layout.MaxPayload}}, nil)
			}
			p.run(1000)
			require.Len(t, p.log, window)
			for i, f := range p.log {
				require.Equal(t, uint32(0xfffffff0+i), f.header().Sequence())
			}
			require.Zero(t, h.completed[SendQueue])
		}
	})
}
