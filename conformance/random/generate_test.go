// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/conformance/model"
	"hvia/layout"
	"hvia/vipl"
)

// A generator makes a list of operations from a seed. It runs them on a
// separate model to know which operations are allowed next. VIA leaves some
// orders open, so between two barriers the generator keeps these rules:
//
//   - A message and the post of the receive that it may use up have no order.
//     So a message finds a receive posted before the last barrier, or an empty
//     queue, and then no receive is posted before the next barrier.
//   - Messages of different VIs have no order, nor have a VI's sends and the
//     messages that it receives. So at most one of them writes a byte of
//     memory, and no other reads it: only the program writes the sources,
//     between barriers, and each VI has a separate target.
//   - The progress of sends at a disconnect is open: opRace.
//   - An unreachable descriptor breaks the VI after all sends before it, or,
//     on the receive queue, some time after the provider reads it. So until
//     the next barrier its pair only sends before it, and behind it on the
//     same send queue.
//
// At the reliable levels an error breaks the connection, and the messages that
// the other side sends at that moment may arrive or not. So in a round a
// reliable pair has messages of both sides without errors, or messages of one
// side, also with errors. The sends of a VI arrive in the order of the posts,
// so its RDMA reads may read what it has written; later sends then need a
// fence. In a round with errors, everything behind a read is fenced, because
// messages may overtake a read response that breaks the connection.
//
// The buffers of the MACs and the card's slots for asynchronous errors do not
// overflow, because VIA does not say what is lost then. Lists of the same seed
// are prefixes of each other.
type generator struct {
	t      *testing.T
	random *rand.Rand
	w      *world
	ops    []operation
	want   int

	handles uint32 // last handle allocated
	slot    [sides][randomPairs][2]int
	under   conditions
	// Since the last barrier:
	inbound    [maxNodes]int            // bytes on the wire to a node
	errors     [maxNodes]int            // asynchronous errors
	safe       [sides][randomPairs]int  // receives posted before the barrier
	ahead      [sides][randomPairs]bool // a receive was posted
	starved    [sides][randomPairs]bool // a message found an empty queue
	taken      [randomPairs]bool        // an event uses the pair
	sender     [randomPairs]int         // side of a reliable pair that may send
	readTarget [sides][randomPairs]bool // the side has read the target
	reads      [sides][randomPairs]bool // the side has posted an RDMA read
}

const (
	bothSides = -1 // without errors
	anySide   = -2 // no reliable connection at the start of the round
	maxNodes  = 4
)

const (
	wireOverhead = 70    // at least the bytes of a frame besides the payload
	inboundLimit = 28000 // capacity of a MAC's receive FIFO
	errorLimit   = 6     // of layout.AsyncErrorSlots; earlier incomplete messages may add some
	queueLimit   = slots - 6
)

// conditions are the conditions of a run.
type conditions struct {
	onArrival bool                       // the cards fetch receive descriptors on arrival
	lose      func(node, frame int) bool // frames of unreliable VIs that the wire loses
	on        topology                   // twoNodes if unset
	queues    bool                       // VIs use completion queues
	reliable  bool                       // VIs of all levels with RDMA reads
	faulty    bool                       // the wire has faults, so VIs retransmit
	cuts      bool                       // the link of a pair may go down
	noneLost  bool                       // no VI is unreliable
}

func (c conditions) topology() topology {
	if c.on == (topology{}) {
		return twoNodes
	}
	return c.on
}

// randomWorld gives the model the memory, regions and VIs of the real nodes, or
// of invented ones.
func randomWorld(t *[sides]sideTable, c conditions) (*world, error) {
	on := c.topology()
	w := &world{fabric: model.New(on.nodes(), vipl.MaxDescriptorsPerQueue), on: on, reads: c.reliable, slow: c.faulty, sides: *t}
	w.fabric.FetchOnArrival, w.fabric.Lose, w.fabric.Faulty = c.onArrival, c.lose, c.faulty
	if c.queues {
		for _, h := range w.fabric.Hosts {
			for q := range randomQueues {
				if err := h.CreateCompletionQueue(q, queueEntries); err != nil {
					return nil, err
				}
			}
		}
	}
	for side := range sides {
		n := &w.sides[side]
		for pair := range randomPairs {
			h := w.host(side, pair)
			for area := range randomAreas {
				if err := h.Allocate(n.address[pair][area], areaBytes(area)); err != nil {
					return nil, err
				}
				for kind := range regionKinds {
					o := operation{kind: opRegister, side: side, pair: pair, area: area, region: kind}
					handle := n.regions[pair][area][kind].handle
					n.regions[pair][area][kind] = regionState{}
					if err := w.apply(o, effect{handle: handle}, stops{}); err != nil {
						return nil, err
					}
				}
			}
			if err := w.apply(operation{kind: opCreate, side: side, pair: pair, attributes: firstAttributes(pair, side, c)}, effect{index: n.index[pair]}, stops{}); err != nil {
				return nil, err
			}
			copy(h.Memory(n.address[pair][areaSource], dataBytes), randomBytes(sourceSeed(side, pair), dataBytes))
		}
	}
	return w, nil
}

func sourceSeed(side, pair int) uint64 { return uint64(side*randomPairs + pair) }

// firstAttributes returns the initial attributes of a VI.
func firstAttributes(pair, side int, c conditions) randomAttributes {
	a := randomAttributes{
		tag: (pair + side) / 2 % 2, // equal for some pairs only
		max: []int{65536, 65536, 32768, 65536, 4096, 65536, 1473, 65536}[pair], rdmaWrite: pair%4 != 3,
		level: layout.ReliabilityUnreliable,
	}
	if c.reliable {
		a.level = []layout.Reliability{
			layout.ReliabilityDelivery, layout.ReliabilityReception, layout.ReliabilityUnreliable, layout.ReliabilityReception,
			layout.ReliabilityDelivery, layout.ReliabilityReception, layout.ReliabilityDelivery, layout.ReliabilityUnreliable,
		}[pair]
		if c.noneLost && a.level == layout.ReliabilityUnreliable {
			a.level = layout.ReliabilityReception
		}
		a.rdmaRead = a.level != layout.ReliabilityUnreliable && pair != 5
	}
	if c.queues {
		a.queues = [2]int{(pair + side) % (randomQueues + 1), (pair + side) / 2 % (randomQueues + 1)}
	}
	return a
}

func (g *generator) newHandle() uint32 {
	g.handles++
	return g.handles
}

// generate returns the first n operations of a seed.
func generate(t *testing.T, seed uint64, n int, c conditions) []operation {
	t.Helper()
	g := &generator{t: t, random: rand.New(rand.NewPCG(seed, 1)), want: n, under: c}
	for pair := range g.sender {
		g.sender[pair] = anySide
	}
	var table [sides]sideTable
	for side := range table {
		at := uint64(1+side) << 28
		for pair := range randomPairs {
			for area := range randomAreas {
				table[side].address[pair][area] = at
				at += 1 << 20
				for kind := range regionKinds {
					table[side].regions[pair][area][kind] = regionState{handle: g.newHandle(), live: true}
				}
			}
			table[side].index[pair], table[side].tag[pair] = pair, firstAttributes(pair, side, c).tag
		}
	}
	var err error
	g.w, err = randomWorld(&table, c)
	require.NoError(t, err)
	for len(g.ops) < n {
		g.round()
	}
	return g.ops[:n]
}

func (g *generator) chance(percent int) bool { return g.random.IntN(100) < percent }

func (g *generator) pick(from ...int) int { return from[g.random.IntN(len(from))] }

func (g *generator) between(low, high int) int { return low + g.random.IntN(high-low+1) }

func (g *generator) vi(side, pair int) *model.VI {
	return g.w.vi(side, pair)
}

// emit appends an operation and applies it to the model.
func (g *generator) emit(o operation) {
	g.ops = append(g.ops, o)
	var e effect
	switch o.kind {
	case opPost:
		g.slot[o.side][o.pair][queueArea(o.receive)-areaSend] = o.d.slot
		e.raw, e.handles = [][]byte{g.w.encode(o.side, o.d)}, []uint32{g.w.handle(o.side, o.d.handle)}
	case opRace:
		for _, d := range o.sends {
			g.slot[o.side][o.pair][0] = d.slot
			e.raw, e.handles = append(e.raw, g.w.encode(o.side, d)), append(e.handles, g.w.handle(o.side, d.handle))
		}
	case opRegister:
		e.handle = g.newHandle()
	case opCreate:
		e.index = o.pair
	}
	var before [sides]int
	for side := range before {
		if v := g.vi(side, o.pair); v != nil {
			before[side] = v.Available()
		}
	}
	require.NoError(g.t, g.w.apply(o, e, stops{}), "the generator: %v", o)
	for node, h := range g.w.fabric.Hosts {
		for _, a := range h.TakeErrors() {
			g.errors[node]++
			if a.Code == layout.AsyncErrorReceiveQueueEmpty {
				g.starved[g.w.on.side(node, a.VI)][a.VI] = true // the index is the pair's number
			}
		}
	}
	for side := range sides {
		if v := g.vi(side, o.pair); v != nil && v.Available() < before[side] {
			g.safe[side][o.pair] -= before[side] - v.Available()
		}
	}
}

// barrier ends all concurrency of the operations before it.
func (g *generator) barrier(kind opKind) {
	g.emit(operation{kind: kind})
	g.inbound, g.errors = [maxNodes]int{}, [maxNodes]int{}
	g.readTarget, g.reads = [sides][randomPairs]bool{}, [sides][randomPairs]bool{}
	for pair := range g.sender {
		g.sender[pair] = anySide
		for side := range sides {
			if g.reliable(side, pair) && g.vi(side, pair).State() == layout.VIStateConnected {
				g.sender[pair] = g.pick(bothSides, bothSides, bothSides, 0, 1)
			}
		}
	}
	g.ahead, g.starved = [sides][randomPairs]bool{}, [sides][randomPairs]bool{}
	for side := range sides {
		for pair := range randomPairs {
			v := g.vi(side, pair)
			if v == nil {
				continue
			}
			g.safe[side][pair] = v.Available()
			if kind == opSettle { // the program reaps everything
				for _, take := range []func() (model.Completion, model.Taken){v.SendDone, v.ReceiveDone} {
					for t := model.Done; t == model.Done; {
						_, t = take()
					}
				}
			}
		}
	}
	if kind != opSettle {
		return
	}
	g.taken = [randomPairs]bool{}
	for _, h := range g.w.fabric.Hosts {
		for q := range randomQueues {
			if c := h.CompletionQueue(q); c != nil {
				c.Taken()
			}
		}
	}
}

// round manages each pair, generates traffic, then compares the results.
func (g *generator) round() {
	for pair := range randomPairs {
		g.manage(pair)
	}
	g.barrier(opSync)
	if g.chance(4) {
		g.large()
		g.barrier(opSettle)
		return
	}
	if g.under.queues && g.chance(6) {
		g.overrun()
		return
	}
	g.events()
	for range g.between(20, 90) {
		g.traffic()
	}
	g.barrier(opSettle)
}

// manage brings a pair closer to a connection and prepares its next round.
func (g *generator) manage(pair int) {
	a, b := g.vi(0, pair), g.vi(1, pair)
	idle := func(v *model.VI) bool { return v != nil && v.State() == layout.VIStateIdle }
	for side, v := range []*model.VI{a, b} {
		switch {
		case v == nil:
			g.recreate(side, pair)
		case v.State() == layout.VIStateError && g.chance(80):
			g.emit(operation{kind: opDisconnect, side: side, pair: pair})
		case v.State() == layout.VIStateIdle && g.chance(20):
			if send, receive := v.Outstanding(); send+receive == 0 && g.chance(50) {
				g.emit(operation{kind: opDestroy, side: side, pair: pair})
				if g.chance(70) {
					g.recreate(side, pair)
				}
			} else if receive == 0 {
				// The provider checked the queued descriptors with the old
				// size, so the size changes only with an empty queue.
				g.emit(operation{kind: opSetAttributes, side: side, pair: pair, attributes: g.attributes(side, pair)})
			}
		}
	}
	a, b = g.vi(0, pair), g.vi(1, pair)
	if idle(a) && idle(b) && g.chance(75) {
		g.connect(pair)
	}
	for side := range sides {
		g.regions(side, pair)
		g.prepare(side, pair)
	}
}

func (g *generator) attributes(side, pair int) randomAttributes {
	a := randomAttributes{
		tag: g.w.sides[side].tag[pair], rdmaWrite: g.chance(75), level: layout.ReliabilityUnreliable,
		max: g.pick(65536, 65536, 65536, 32768, 4096, 2944, 1473, 1472, 1471, 100, 65535),
	}
	if g.under.reliable {
		a.level = [...]layout.Reliability{layout.ReliabilityUnreliable, layout.ReliabilityDelivery, layout.ReliabilityReception}[g.pick(0, 1, 1, 2, 2)]
		if g.under.noneLost && a.level == layout.ReliabilityUnreliable {
			a.level = layout.ReliabilityReception
		}
		a.rdmaRead = g.chance(75) && a.level != layout.ReliabilityUnreliable
	}
	return a
}

// reliable reports whether a side has a VI of a reliable level.
func (g *generator) reliable(side, pair int) bool {
	v := g.vi(side, pair)
	return v != nil && v.Attributes().Reliability != layout.ReliabilityUnreliable
}

// recreate creates a VI anew, perhaps with the other tag. Its regions then get
// that tag.
func (g *generator) recreate(side, pair int) {
	a := g.attributes(side, pair)
	if change := g.chance(30); change {
		a.tag = 1 - a.tag
	}
	if g.under.queues {
		a.queues = [2]int{g.between(0, randomQueues), g.between(0, randomQueues)}
	}
	same := a.tag == g.w.sides[side].tag[pair]
	g.emit(operation{kind: opCreate, side: side, pair: pair, attributes: a})
	if same {
		return
	}
	for area := range randomAreas {
		for kind := range regionKinds {
			if g.w.sides[side].regions[pair][area][kind].live {
				g.emit(operation{kind: opDeregister, side: side, pair: pair, area: area, region: kind})
			}
			g.emit(operation{kind: opRegister, side: side, pair: pair, area: area, region: kind})
		}
	}
}

// connect connects a pair. The largest transfers and the levels must agree.
func (g *generator) connect(pair int) {
	a := g.attributes(0, pair)
	for side := range sides {
		v := g.vi(side, pair)
		if _, receive := v.Outstanding(); receive > 0 {
			a.max, a.level = int(v.Attributes().MaxTransferSize), v.Attributes().Reliability
		}
	}
	for side := range sides {
		v := g.vi(side, pair)
		if is := v.Attributes(); int(is.MaxTransferSize) == a.max && is.Reliability == a.level {
			continue
		}
		if _, receive := v.Outstanding(); receive > 0 {
			return // neither can change: try another time
		}
		to := randomAttributes{tag: g.w.sides[side].tag[pair], max: a.max, level: a.level, rdmaWrite: v.Attributes().RDMAWrite}
		to.rdmaRead = a.level != layout.ReliabilityUnreliable && g.chance(75)
		g.emit(operation{kind: opSetAttributes, side: side, pair: pair, attributes: to})
	}
	g.emit(operation{kind: opConnect, side: g.between(0, 1), pair: pair})
}

// regions deregisters regions and registers them anew.
func (g *generator) regions(side, pair int) {
	if g.vi(side, pair) == nil {
		return
	}
	for area := range randomAreas {
		if areaBytes(area) == queueBytes {
			continue // left to events
		}
		for kind := range regionKinds {
			live := g.w.sides[side].regions[pair][area][kind].live
			switch {
			case live && g.chance(1):
				g.emit(operation{kind: opDeregister, side: side, pair: pair, area: area, region: kind})
				live = false
			case live:
				continue
			}
			if g.chance(50) {
				g.emit(operation{kind: opRegister, side: side, pair: pair, area: area, region: kind})
			}
		}
	}
}

// prepare changes the data to send, and posts receives.
func (g *generator) prepare(side, pair int) {
	if g.chance(15) {
		g.emit(operation{kind: opStore, side: side, pair: pair, offset: g.between(0, dataBytes-4000), bytes: g.between(1, 4000), seed: g.random.Uint64()})
	}
	if g.chance(10) {
		n := g.between(1, 6000)
		g.emit(operation{kind: opCopy, side: side, pair: pair, from: g.between(0, dataBytes-n), offset: g.between(0, dataBytes-n), bytes: n})
	}
	v := g.vi(side, pair)
	if v == nil {
		return
	}
	level := g.pick(0, 1, 3, 5, 8)
	for v.Available() < level {
		if posted := g.postReceive(side, pair); !posted || v.State() == layout.VIStateError {
			return
		}
	}
}
