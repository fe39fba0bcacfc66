// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"container/heap"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// region is registered memory of a host. Virtual and physical addresses are
// equal.
type region struct {
	from, to    uint64
	tag         uint16
	write, read bool // by the peer
}

// host is one end of a pair: a clock, and memory with regions. The other end
// receives what it sends.
type host struct {
	pair      *pair
	peer      *host
	engine    *Engine[int]
	memory    []byte
	regions   map[uint32]region
	errors    []layout.AsyncError
	counts    map[layout.Counter]int
	posted    [2]int // descriptors, by Queue
	rung      [2]int // of them
	completed [2]int // of them, in order
	done      func(of Queue, n int)
}

// pair is two hosts and the network between them. Its time is in clocks.
type pair struct {
	t      *testing.T
	hosts  [2]*host
	now    uint64
	serial int
	events pairEvents
	// wire returns the extra delays, in clocks, of the copies of a frame. nil
	// means one copy without extra delay.
	wire func(from *host, frame []byte) []uint64
	log  []wireFrame
}

// lose lets the network drop frames.
func (p *pair) lose(drop func(f wireFrame) bool) {
	p.wire = func(from *host, frame []byte) []uint64 {
		if drop(wireFrame{from, frame}) {
			return nil
		}
		return []uint64{0}
	}
}

type wireFrame struct {
	from  *host
	frame []byte
}

func (f wireFrame) header() layout.ViaHeader {
	return layout.ViaHeader(f.frame[layout.EthernetHeaderSize:])
}

type pairEvent struct {
	at     uint64
	serial int
	do     func()
}

type pairEvents []pairEvent

func (q pairEvents) Len() int { return len(q) }
func (q pairEvents) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].serial < q[j].serial
}
func (q pairEvents) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pairEvents) Push(x any)   { *q = append(*q, x.(pairEvent)) }
func (q *pairEvents) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func (p *pair) at(t uint64, do func()) {
	p.serial++
	heap.Push(&p.events, pairEvent{t, p.serial, do})
}

// run advances time until nothing is due, or until a time.
func (p *pair) run(until uint64) {
	for len(p.events) > 0 && p.events[0].at <= until {
		e := heap.Pop(&p.events).(pairEvent)
		p.now = e.at
		e.do()
	}
}

const forever = 1 << 62

var _ Clock = (*host)(nil)

func (h *host) Now() uint64                     { return h.pair.now }
func (h *host) Alarm(index int, at uint64)      { h.pair.at(at, func() { h.engine.Expire(0, index) }) }
func (h *host) Memory(address, n uint32) []byte { return h.memory[address:][:n] }

func (h *host) Translate(handle uint32, va uint64, n uint32, tag uint16, access layout.AttAccess) (out []Range, ok bool) {
	r, ok := h.regions[handle]
	if !ok || r.tag != tag || va < r.from || va+uint64(n) > r.to || access == layout.AttAccessRemoteWrite && !r.write || access == layout.AttAccessRemoteRead && !r.read {
		return nil, false
	}
	for n > 0 {
		l := min(n, layout.AttPageBytes-uint32(va)%layout.AttPageBytes)
		out = append(out, Range{Address: uint32(va), Length: l})
		va, n = va+uint64(l), n-l
	}
	return out, true
}

func (h *host) Store(_ int, address uint32, data []byte) { copy(h.memory[address:], data) }

func (h *host) StoreWord(_ int, address, v uint32) {
	binary.LittleEndian.PutUint32(h.memory[address:], v)
	for of := SendQueue; of <= ReceiveQueue; of++ {
		if n := (address - layout.DescriptorStatusOffset - h.place(of, 0)) / pairSlot; address >= h.place(of, 0) && n < pairSlots {
			require.Equal(h.pair.t, uint32(h.completed[of]%pairSlots), n, "completions out of order")
			h.completed[of]++
			if h.done != nil {
				h.done(of, h.completed[of]-1)
			}
		}
	}
}

func (h *host) Emit(_ int, head []byte, payload []Range, sent func(int)) error {
	frame := append([]byte(nil), head...)
	for _, r := range payload {
		frame = append(frame, h.Memory(r.Address, r.Length)...)
	}
	sent(0)
	h.pair.log = append(h.pair.log, wireFrame{h, frame})
	copies := []uint64{0}
	if h.pair.wire != nil {
		copies = h.pair.wire(h, frame)
	}
	for _, late := range copies {
		h.pair.at(h.pair.now+100+late, func() { h.peer.engine.Arrive(0, frame) })
	}
	return nil
}

func (h *host) Posted(_ int, id QueueID) {
	h.pair.at(h.pair.now+10, func() {
		if !h.engine.Ready(id) {
			return
		}
		if id.Of == ReceiveQueue {
			h.engine.FetchReceive(0, id.VI)
		} else {
			require.NoError(h.pair.t, h.engine.Process(0, id.VI))
		}
		h.engine.posted(0, id)
	})
}

func (h *host) Async(_ int, code layout.AsyncError, _ int) { h.errors = append(h.errors, code) }
func (h *host) Notify(int, layout.NotifyKind, int)         {}
func (h *host) Count(n layout.Counter)                     { h.counts[n]++ }

// Memory map of a host.
const (
	pairSlot  = 256 // bytes of a descriptor
	pairSlots = 1024
	pairData  = 1 << 20
	pairBytes = 1 << 22

	pairTag      = 3
	localHandle  = 0x101 // all, for this host only
	targetHandle = 0x102 // the second half of the data, for the peer too
	roomHandle   = 0x103 // the last page, which the peer may only read
	pairTarget   = pairData + (pairBytes-pairData)/2
)

func (h *host) place(of Queue, n int) uint32 {
	return uint32((int(of)*pairSlots + n%pairSlots) * pairSlot)
}

func newPair(t *testing.T, level layout.Reliability, change func(*host, layout.VIContext)) *pair {
	p := &pair{t: t}
	for i := range p.hosts {
		h := &host{pair: p, memory: make([]byte, pairBytes), counts: map[layout.Counter]int{}, regions: map[uint32]region{
			localHandle:  {0, pairBytes, pairTag, false, false},
			targetHandle: {pairTarget, pairBytes, pairTag, true, true},
			roomHandle:   {pairBytes - layout.AttPageBytes, pairBytes, pairTag, false, true},
		}}
		h.engine = New[int](h, Config{QueueDepth: pairSlots, CompletionQueues: 1, Reliable: true})
		h.engine.SetMAC([6]byte{2, 0, 0, 0, 0, byte(i)})
		p.hosts[i] = h
	}
	for i, h := range p.hosts {
		h.peer = p.hosts[1-i]
		h.command(layout.CommandOpcodeCreateVI, h.context(level, change))
		h.command(layout.CommandOpcodeConnectVI, h.context(level, change))
	}
	return p
}

func (h *host) context(level layout.Reliability, change func(*host, layout.VIContext)) layout.VIContext {
	c := make(layout.VIContext, layout.VIContextSize)
	c.SetAttributes(pairTag<<layout.VIContextAttributesTagLsb | uint32(level)<<layout.VIContextAttributesReliabilityLsb |
		layout.VIContextAttributesEnableRDMAWriteMask | layout.VIContextAttributesEnableRDMAReadMask)
	c.SetMaxTransferSize(1 << 16)
	copy(c.PeerMac(), h.peer.engine.mac[:])
	// Both directions wrap the sequence number soon.
	c.SetSendSequence(0xfffffff0)
	c.SetReceiveSequence(0xfffffff0)
	c.SetWindow(8)
	c.SetRetryLimit(5)
	c.SetReadLimit(4)
	c.SetRetryTimeoutLog2(12)
	if change != nil {
		change(h, c)
	}
	return c
}

func (h *host) command(op layout.CommandOpcode, context layout.VIContext) {
	_, status := h.engine.Command(0, op, 0, context)
	require.Equal(h.pair.t, layout.CommandStatusDone, status)
}

type piece struct {
	at     uint32
	handle uint32
	n      uint32
}

func (h *host) post(of Queue, op layout.DescriptorOperation, pieces []piece, change func(layout.Descriptor)) int {
	n := h.prepare(of, op, pieces, change)
	h.ring(of)
	return n
}

func (h *host) prepare(of Queue, op layout.DescriptorOperation, pieces []piece, change func(layout.Descriptor)) int {
	n := h.posted[of]
	h.posted[of]++
	require.Less(h.pair.t, n-h.completed[of], pairSlots)
	at := h.place(of, n)
	d := layout.Descriptor(h.memory[at:][:pairSlot])
	clear(d)
	d.SetControl(uint16(op))
	first := layout.DescriptorSize
	if op != layout.DescriptorOperationSend {
		first += layout.AddressSegmentSize
		a := layout.AddressSegment(d[layout.DescriptorSize:])
		a.SetAddress(pairTarget)
		a.SetHandle(targetHandle)
	}
	length := uint32(0)
	for k, p := range pieces {
		s := layout.DataSegment(d[first+k*layout.DataSegmentSize:])
		s.SetAddress(uint64(p.at))
		s.SetHandle(p.handle)
		s.SetLength(p.n)
		length += p.n
	}
	d.SetLength(length)
	d.SetSegmentCount(uint16((first-layout.DescriptorSize)/layout.DataSegmentSize + len(pieces)))
	if change != nil {
		change(d)
	}
	if n > 0 {
		previous := layout.Descriptor(h.memory[h.place(of, n-1):])
		previous.SetNext(uint64(at))
		previous.SetNextHandle(localHandle)
	}
	return n
}

func (h *host) ring(of Queue) {
	n := h.rung[of]
	h.rung[of]++
	h.engine.Ring(0, QueueID{0, of}, uint64(h.place(of, n)), localHandle)
}

func (h *host) descriptor(of Queue, n int) layout.Descriptor {
	return layout.Descriptor(h.memory[h.place(of, n):][:pairSlot])
}

type ended struct {
	bits      uint32
	length    uint32
	echo      layout.StatusOperation
	immediate uint32 // 0 = none
}

func (h *host) ended(of Queue, n int) ended {
	d := h.descriptor(of, n)
	require.NotZero(h.pair.t, d.Status()&layout.DescriptorStatusDoneMask, "descriptor %d of queue %d is not complete", n, of)
	e := ended{
		bits:   d.Status() &^ (layout.DescriptorStatusDoneMask | layout.DescriptorStatusOperationMask | layout.DescriptorStatusImmediateMask),
		length: d.Length(), echo: layout.StatusOperation(d.Status() & layout.DescriptorStatusOperationMask >> layout.DescriptorStatusOperationLsb),
	}
	if d.Status()&layout.DescriptorStatusImmediateMask != 0 {
		e.immediate = d.ImmediateData()
	}
	return e
}

// faults is a wire that loses, duplicates and delays frames by seed: the given
// number of 1,000 each.
func faults(seed uint64, lose, double, delay int) func(*host, []byte) []uint64 {
	random := rand.New(rand.NewPCG(seed, seed))
	return func(*host, []byte) (copies []uint64) {
		late := func() uint64 {
			if random.IntN(1000) < delay {
				return random.Uint64N(2000)
			}
			return 0
		}
		if random.IntN(1000) >= lose {
			copies = append(copies, late())
		}
		if random.IntN(1000) < double {
			copies = append(copies, late())
		}
		return copies
	}
}
