// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"fmt"
	"math/rand/v2"

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
	safe       [sides][randomPairs]int  // receives posted before it
	ahead      [sides][randomPairs]bool // a receive was posted
	starved    [sides][randomPairs]bool // a message found an empty queue
	taken      [randomPairs]bool        // an event uses the pair
	sender     [randomPairs]int         // side of a reliable pair that may send
	readTarget [sides][randomPairs]bool // it has read the target
	reads      [sides][randomPairs]bool // it has posted an RDMA read
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

// generate returns the first n operations of a seed, for cards that fetch
// receive descriptors at the post, and a wire without losses.
func generate(seed uint64, n int) ([]operation, error) { return generateFor(seed, n, conditions{}) }

// generateFor is generate for other conditions.
func generateFor(seed uint64, n int, c conditions) ([]operation, error) {
	g := &generator{random: rand.New(rand.NewPCG(seed, 1)), want: n, under: c}
	for pair := range g.sender {
		g.sender[pair] = anySide
	}
	var t [sides]sideTable
	for side := range t {
		at := uint64(1+side) << 28
		for pair := range randomPairs {
			for area := range randomAreas {
				t[side].address[pair][area] = at
				at += 1 << 20
				for kind := range regionKinds {
					t[side].regions[pair][area][kind] = regionState{handle: g.newHandle(), live: true}
				}
			}
			t[side].index[pair], t[side].tag[pair] = pair, firstAttributes(pair, side, c).tag
		}
	}
	var err error
	if g.w, err = randomWorld(&t, c); err != nil {
		return nil, err
	}
	for len(g.ops) < n {
		if err := g.round(); err != nil {
			return g.ops, err
		}
	}
	return g.ops[:n], nil
}

func (g *generator) chance(percent int) bool { return g.random.IntN(100) < percent }

func (g *generator) pick(from ...int) int { return from[g.random.IntN(len(from))] }

func (g *generator) between(low, high int) int { return low + g.random.IntN(high-low+1) }

func (g *generator) vi(side, pair int) *model.VI {
	return g.w.vi(side, pair)
}

// emit appends an operation and applies it to the model.
func (g *generator) emit(o operation) error {
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
	if err := g.w.apply(o, e, stops{}); err != nil {
		return err
	}
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
	return nil
}

// barrier ends all concurrency of the operations before it.
func (g *generator) barrier(kind opKind) error {
	if err := g.emit(operation{kind: kind}); err != nil {
		return err
	}
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
		return nil
	}
	g.taken = [randomPairs]bool{}
	for _, h := range g.w.fabric.Hosts {
		for q := range randomQueues {
			if c := h.CompletionQueue(q); c != nil {
				c.Taken()
			}
		}
	}
	return nil
}

// round changes things and posts receives, generates traffic, then compares.
func (g *generator) round() error {
	for pair := range randomPairs {
		if err := g.manage(pair); err != nil {
			return err
		}
	}
	if err := g.barrier(opSync); err != nil {
		return err
	}
	if g.chance(4) {
		if err := g.large(); err != nil {
			return err
		}
		return g.barrier(opSettle)
	}
	if g.under.queues && g.chance(6) {
		return g.overrun()
	}
	if err := g.events(); err != nil {
		return err
	}
	for range g.between(20, 90) {
		if err := g.traffic(); err != nil {
			return err
		}
	}
	return g.barrier(opSettle)
}

// manage brings a pair closer to a connection and prepares its next round.
func (g *generator) manage(pair int) error {
	a, b := g.vi(0, pair), g.vi(1, pair)
	idle := func(v *model.VI) bool { return v != nil && v.State() == layout.VIStateIdle }
	for side, v := range []*model.VI{a, b} {
		switch {
		case v == nil:
			if err := g.recreate(side, pair); err != nil {
				return err
			}
		case v.State() == layout.VIStateError && g.chance(80):
			if err := g.emit(operation{kind: opDisconnect, side: side, pair: pair}); err != nil {
				return err
			}
		case v.State() == layout.VIStateIdle && g.chance(20):
			if send, receive := v.Outstanding(); send+receive == 0 && g.chance(50) {
				if err := g.emit(operation{kind: opDestroy, side: side, pair: pair}); err != nil {
					return err
				}
				if g.chance(70) {
					if err := g.recreate(side, pair); err != nil {
						return err
					}
				}
			} else if receive == 0 {
				// The provider checked the queued descriptors with the old
				// size, so the size changes only with an empty queue.
				if err := g.emit(operation{kind: opSetAttributes, side: side, pair: pair, attributes: g.attributes(side, pair)}); err != nil {
					return err
				}
			}
		}
	}
	a, b = g.vi(0, pair), g.vi(1, pair)
	if idle(a) && idle(b) && g.chance(75) {
		if err := g.connect(pair); err != nil {
			return err
		}
	}
	for side := range sides {
		if err := g.regions(side, pair); err != nil {
			return err
		}
		if err := g.prepare(side, pair); err != nil {
			return err
		}
	}
	return nil
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
func (g *generator) recreate(side, pair int) error {
	a := g.attributes(side, pair)
	if change := g.chance(30); change {
		a.tag = 1 - a.tag
	}
	if g.under.queues {
		a.queues = [2]int{g.between(0, randomQueues), g.between(0, randomQueues)}
	}
	same := a.tag == g.w.sides[side].tag[pair]
	if err := g.emit(operation{kind: opCreate, side: side, pair: pair, attributes: a}); err != nil || same {
		return err
	}
	for area := range randomAreas {
		for kind := range regionKinds {
			if g.w.sides[side].regions[pair][area][kind].live {
				if err := g.emit(operation{kind: opDeregister, side: side, pair: pair, area: area, region: kind}); err != nil {
					return err
				}
			}
			if err := g.emit(operation{kind: opRegister, side: side, pair: pair, area: area, region: kind}); err != nil {
				return err
			}
		}
	}
	return nil
}

// connect connects a pair. The largest transfers and the levels must agree.
func (g *generator) connect(pair int) error {
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
			return nil // neither can change: try another time
		}
		to := randomAttributes{tag: g.w.sides[side].tag[pair], max: a.max, level: a.level, rdmaWrite: v.Attributes().RDMAWrite}
		to.rdmaRead = a.level != layout.ReliabilityUnreliable && g.chance(75)
		if err := g.emit(operation{kind: opSetAttributes, side: side, pair: pair, attributes: to}); err != nil {
			return err
		}
	}
	return g.emit(operation{kind: opConnect, side: g.between(0, 1), pair: pair})
}

// regions deregisters regions and registers them anew.
func (g *generator) regions(side, pair int) error {
	if g.vi(side, pair) == nil {
		return nil
	}
	for area := range randomAreas {
		if areaBytes(area) == queueBytes {
			continue // left to events
		}
		for kind := range regionKinds {
			live := g.w.sides[side].regions[pair][area][kind].live
			switch {
			case live && g.chance(1):
				if err := g.emit(operation{kind: opDeregister, side: side, pair: pair, area: area, region: kind}); err != nil {
					return err
				}
				live = false
			case live:
				continue
			}
			if g.chance(50) {
				if err := g.emit(operation{kind: opRegister, side: side, pair: pair, area: area, region: kind}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// prepare changes the data to send, and posts receives.
func (g *generator) prepare(side, pair int) error {
	if g.chance(15) {
		if err := g.emit(operation{kind: opStore, side: side, pair: pair, offset: g.between(0, dataBytes-4000), bytes: g.between(1, 4000), seed: g.random.Uint64()}); err != nil {
			return err
		}
	}
	if g.chance(10) {
		n := g.between(1, 6000)
		if err := g.emit(operation{kind: opCopy, side: side, pair: pair, from: g.between(0, dataBytes-n), offset: g.between(0, dataBytes-n), bytes: n}); err != nil {
			return err
		}
	}
	v := g.vi(side, pair)
	if v == nil {
		return nil
	}
	level := g.pick(0, 1, 3, 5, 8)
	for v.Available() < level {
		if posted, err := g.postReceive(side, pair); err != nil || !posted || v.State() == layout.VIStateError {
			return err
		}
	}
	return nil
}

// take returns the next slot for a descriptor, -1 if the queue has enough. It
// uses the slots in turn.
func (g *generator) take(side, pair int, receive bool) int {
	send, recv := g.vi(side, pair).Outstanding()
	if receive {
		send = recv
	}
	if send >= queueLimit {
		return -1
	}
	return (g.slot[side][pair][queueArea(receive)-areaSend] + 1) % slots
}

// postReceive posts a receive.
func (g *generator) postReceive(side, pair int) (bool, error) {
	slot := g.take(side, pair, true)
	if slot < 0 {
		return false, nil
	}
	d := g.receive(side, pair)
	d.slot = slot
	g.cut(&d, pair, true)
	return true, g.emit(operation{kind: opPost, side: side, pair: pair, receive: true, d: d})
}

// cut posts a descriptor in the last slot with the handle whose region ends in
// it, so that the provider cannot read all of its segments.
func (g *generator) cut(d *randomDescriptor, pair int, receive bool) {
	if d.slot == cutSlot {
		d.handle = handleRef{how: handleOf, pair: pair, area: queueArea(receive), kind: regionPart}
		d.plan += " region ends in the descriptor"
	}
}

func queueHandle(pair int, receive bool) handleRef {
	return handleRef{how: handleOf, pair: pair, area: queueArea(receive), kind: regionFull}
}

// size returns a message size.
func (g *generator) size(limit int) int {
	n := 0
	switch r := g.random.IntN(100); {
	case r < 50:
		n = g.between(0, 17)
	case r < 75:
		n = g.between(0, 300)
	case r < 85:
		n = g.pick(31, 32, 33, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1023, 1024)
	case r < 93:
		n = g.between(1, 4) + g.pick(1, 1, 1, 2)*layout.MaxPayload - 3
	case r < 98:
		n = g.between(300, 3000)
	default:
		n = g.pick(4095, 4096, 4097, 2*layout.MaxPayload, 5*layout.MaxPayload, g.between(3000, 16000))
	}
	return min(n, limit)
}

// pieces splits n bytes of an area into segments.
func (g *generator) pieces(pair, area, n int) []dataPiece {
	count := 1
	switch r := g.random.IntN(100); {
	case r < 8 && n == 0:
		count = 0
	case r < 50:
	case r < 70:
		count = 2
	case r < 85:
		count = 3
	case r < 95:
		count = g.between(4, 12)
	case r < 98:
		count = g.between(13, 40)
	default:
		count = g.pick(layout.MaxDataSegments, layout.MaxDataSegments, layout.MaxDataSegments-1, g.between(41, 251))
	}
	var out []dataPiece
	for i := range count {
		l := n
		if left := count - 1 - i; left > 0 {
			switch r := g.random.IntN(10); {
			case r == 0:
				l = 0
			case r == 1:
				l = min(n, g.pick(1, 2, 3, 4, 8, 64, layout.MaxPayload))
			default:
				l = min(n, g.random.IntN(2*n/(left+1)+2))
			}
		}
		n -= l
		out = append(out, g.piece(pair, area, l))
	}
	return out
}

// piece returns a valid segment.
func (g *generator) piece(pair, area, n int) dataPiece {
	p := dataPiece{place{handle: handleRef{pair: pair, area: area, kind: g.pick(regionFull, regionPlain)}, pair: pair, area: area}, uint32(n)}
	switch r := g.random.IntN(10); {
	case n == 0 && r < 5:
		// The provider ignores the handle and address of an empty segment.
		p.handle.how = handleHow(g.between(int(handleOf), int(handleNoRegion)))
		p.absolute, p.offset = true, int64(g.random.Uint64())
	case r < 3 && n <= oddLength:
		p.handle.kind = regionPart
		p.offset = oddOffset + int64(g.pick(0, oddLength-n, g.between(0, oddLength-n)))
	case r < 5:
		p.offset = int64(g.pick(0, dataBytes-n))
	case r < 7 && n < dataBytes-2*layout.AttPageBytes: // near the end of a page
		p.offset = int64(layout.AttPageBytes*g.between(1, (dataBytes-n)/layout.AttPageBytes-1) - g.between(0, 9))
	default:
		p.offset = int64(g.between(0, dataBytes-n))
	}
	return p
}

func lengthOf(pieces []dataPiece) (n uint32) {
	for _, p := range pieces {
		n += p.length
	}
	return n
}

// spoil makes a place of a side invalid and returns how. If remote is set, the
// peer accesses the place.
func (g *generator) spoil(side int, p *place, n int, remote bool) string {
	switch g.random.IntN(9) {
	case 0:
		p.handle.how = handleZero
		return "handle 0"
	case 1:
		p.handle.how = handleFlipped
		return "wrong generation"
	case 2:
		p.handle.how = handleNoRegion
		return "no such entry"
	case 3:
		p.handle.how = handleBefore
		return "previous handle"
	case 4:
		p.handle.kind = regionForeign
		return "other tag"
	case 5:
		pairs, on := g.w.on.neighbours(side, p.handle.pair)
		i := g.random.IntN(len(pairs))
		p.handle.pair, p.handle.other = pairs[i], on[i] != side
		return "handle of another VI's memory"
	case 6:
		if remote {
			p.handle.kind = regionPlain
			return "no right"
		}
		p.handle.kind = regionPart
		p.offset = oddOffset - 1
		return "one byte before the region"
	case 7:
		if g.chance(50) && n <= oddLength {
			p.handle.kind = regionPart
			p.offset = oddOffset + oddLength - int64(n) + 1
		} else {
			p.handle.kind = regionFull
			p.offset = dataBytes - int64(n) + 1
		}
		return "one byte behind the region"
	}
	p.handle.kind = regionFull
	p.offset = -1
	return "one byte before the region"
}

// format makes a descriptor malformed.
func (g *generator) format(d *randomDescriptor, receive, reliable bool) {
	switch g.random.IntN(8) {
	case 0:
		d.control |= 1 << g.between(layout.DescriptorControlReservedLsb, 15)
		d.plan += " reserved control bit"
	case 1:
		d.reserved = 1 << g.random.IntN(32)
		d.plan += " reserved field"
	case 2:
		d.control |= uint16(layout.DescriptorOperationReserved)
		d.plan += " reserved operation"
	case 3:
		d.segments = g.pick(layout.MaxDataSegments+1, 1<<15, 1<<16-1)
		if d.hasRemote {
			d.segments = g.pick(layout.MaxDataSegments+2, 1<<16-1)
		}
		d.plan += " too many segments"
	case 4:
		if !receive && reliable {
			// An RDMA read is valid here, and other descriptors would become
			// reads of an undefined place.
			d.control |= uint16(layout.DescriptorOperationReserved)
			d.plan += " reserved operation"
			break
		}
		d.control = d.control&^layout.DescriptorControlOperationMask | uint16(layout.DescriptorOperationRDMARead)
		d.plan += " RDMA read"
	case 5:
		if d.hasRemote {
			d.remoteReserved = 1 << g.random.IntN(32)
			d.plan += " reserved field of the address segment"
		} else {
			d.control |= uint16(layout.DescriptorOperationReserved)
			d.plan += " reserved operation"
		}
	case 6:
		if d.hasRemote {
			d.hasRemote, d.pieces, d.segments = false, nil, 0
			d.plan += " no address segment"
		} else {
			d.reserved = 1 << 31
			d.plan += " reserved field"
		}
	default:
		if receive {
			d.control |= uint16(layout.DescriptorOperationRDMAWrite)
			d.plan += " RDMA write on the receive queue"
		} else {
			d.control |= 1 << 15
			d.plan += " reserved control bit"
		}
	}
}

// receive returns a receive descriptor.
func (g *generator) receive(side, pair int) randomDescriptor {
	v := g.vi(side, pair)
	max := int(v.Attributes().MaxTransferSize)
	n := 0
	switch r := g.random.IntN(100); {
	case r < 45:
		n = g.between(2000, 20000)
	case r < 65:
		n = 65536
	case r < 85:
		n = g.size(65536)
	default:
		n = g.pick(0, 1, layout.MaxPayload-1, layout.MaxPayload, layout.MaxPayload+1, max)
	}
	n = min(n, max)
	d := randomDescriptor{segments: -1, handle: queueHandle(pair, true), pieces: g.pieces(pair, areaTarget, n)}
	d.length = uint32(n)
	if g.chance(5) {
		d.control |= layout.DescriptorControlImmediateMask // ignored here
	}
	if g.chance(5) {
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	if !g.chance(12) {
		return d
	}
	switch g.random.IntN(4) {
	case 0:
		g.format(&d, true, g.reliable(side, pair))
	case 1:
		switch g.random.IntN(3) {
		case 0:
			d.length = uint32(max) + uint32(g.pick(1, 1, 2, 1<<20, 1<<31-1))
			d.plan += " larger than the largest transfer"
		case 1:
			d.length += uint32(g.pick(1, 5, 100))
			d.plan += " more Length than space"
		default:
			d.length -= min(d.length, uint32(g.pick(1, 5, 100)))
			d.plan += " more space than Length"
		}
	default:
		if len(d.pieces) > 0 {
			i := g.random.IntN(len(d.pieces))
			d.plan += " piece " + g.spoil(side, &d.pieces[i].place, int(d.pieces[i].length), false)
		}
	}
	return d
}

// send returns a send descriptor for a message of at most n bytes.
func (g *generator) send(side, pair, n int, op layout.DescriptorOperation, immediate, inject, injectRemote bool) randomDescriptor {
	max := int(g.vi(side, pair).Attributes().MaxTransferSize)
	n = min(n, max)
	area, there := areaSource, areaTarget
	if op == layout.DescriptorOperationRDMARead {
		area, there = areaRead, g.pick(areaTarget, areaTarget, areaSource)
	}
	d := randomDescriptor{segments: -1, handle: queueHandle(pair, false), control: uint16(op), pieces: g.pieces(pair, area, n), length: uint32(n)}
	if immediate {
		d.control |= layout.DescriptorControlImmediateMask
		d.immediate = g.random.Uint32()
	}
	if g.chance(5) {
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	if op == layout.DescriptorOperationRDMAWrite || op == layout.DescriptorOperationRDMARead {
		d.hasRemote = true
		p := g.piece(pair, there, n)
		if n > 0 || !g.chance(30) { // an access of 0 bytes may name any address
			p.handle.how, p.absolute = handleOf, false
			if p.offset < 0 || p.offset > dataBytes {
				p.offset = 0
			}
		}
		if op != layout.DescriptorOperationRDMARead || n > 0 {
			p.handle.how = handleOf // a read of 0 bytes ignores the handle
		}
		if p.handle.kind == regionPlain {
			p.handle.kind = regionFull
		}
		d.remote = p.place
		if injectRemote {
			d.plan += " remote " + g.spoil(1-side, &d.remote, n, true)
		}
	}
	if !inject {
		return d
	}
	switch g.random.IntN(8) {
	case 0:
		if op == layout.DescriptorOperationRDMARead && g.chance(30) {
			d.control |= layout.DescriptorControlImmediateMask
			d.plan += " immediate data"
			break
		}
		g.format(&d, false, g.reliable(side, pair))
	case 1:
		switch g.random.IntN(4) {
		case 0:
			d.length++
			d.plan += " Length one too large"
		case 1:
			if d.length > 0 {
				d.length--
				d.plan += " Length one too small"
			}
		case 2:
			d.length ^= 1 << g.random.IntN(32)
			d.plan += " other Length"
		default:
			d.pieces = append(d.pieces, g.piece(pair, area, 1))
			d.plan += " one piece too many"
		}
	case 2:
		if max < dataBytes {
			d.pieces = g.pieces(pair, area, max+1)
			d.length = uint32(max + 1)
			d.plan += " larger than the largest transfer"
		}
	case 3, 4:
		g.late(&d, side, pair, area, max)
	case 5:
		if d.hasRemote && n > 0 {
			d.remote.absolute, d.remote.offset = true, int64(-g.between(1, n-1+1))
			d.plan += " remote end at or beyond the last address"
			break
		}
		fallthrough
	default:
		if len(d.pieces) > 0 {
			i := g.random.IntN(len(d.pieces))
			d.plan += " piece " + g.spoil(side, &d.pieces[i].place, int(d.pieces[i].length), false)
		}
	}
	return d
}

// late makes a message of several frames with an error after the first.
func (g *generator) late(d *randomDescriptor, side, pair, area, max int) {
	frames := g.pick(1, 1, 1, 2)
	n := frames*layout.MaxPayload + g.pick(1, 2, 3, layout.MaxPayload, g.between(1, layout.MaxPayload))
	if n > max {
		return
	}
	first := frames*layout.MaxPayload + g.between(0, n-frames*layout.MaxPayload-1)
	d.pieces = []dataPiece{g.piece(pair, area, first), g.piece(pair, area, n-first)}
	d.length, d.segments = uint32(n), -1
	if g.chance(50) {
		d.plan += " late piece " + g.spoil(side, &d.pieces[1].place, n-first, false)
		return
	}
	// With a third segment the provider cannot check the sum in advance.
	d.pieces = append(d.pieces, g.piece(pair, area, g.pick(0, 1, 2)))
	switch sum := lengthOf(d.pieces); {
	case sum == uint32(n):
		d.length++
		d.plan += " late end of the pieces"
	default:
		d.plan += " bytes behind Length"
	}
	if d.length > uint32(max) {
		d.length = uint32(n)
	}
}

// traffic generates one operation while all VIs work at once.
func (g *generator) traffic() error {
	side, pair := g.between(0, 1), g.between(0, randomPairs-1)
	v := g.vi(side, pair)
	if v == nil || g.taken[pair] {
		return nil
	}
	if g.under.queues && g.chance(3) {
		o := operation{kind: opPoll, side: side, pair: pair, queue: g.random.IntN(randomQueues)}
		if g.chance(20) {
			o.kind, o.entries = opResize, g.pick(queueEntries, 2*queueEntries, 4*queueEntries)
		}
		return g.emit(o)
	}
	if g.chance(20) {
		// This receive is for later messages. No message may require it before
		// the next barrier.
		if g.starved[side][pair] || v.State() == layout.VIStateConnected && g.safe[side][pair] == 0 {
			return nil
		}
		g.ahead[side][pair] = true
		_, err := g.postReceive(side, pair)
		return err
	}
	return g.message(side, pair)
}

// node returns the node of a side.
func (g *generator) node(side, pair int) int { return g.w.on[pair][side] }

// message posts a send, an RDMA write or an RDMA read, if the rules allow one.
func (g *generator) message(side, pair int) error {
	if s := g.sender[pair]; s != anySide {
		if s == bothSides || s == side {
			return g.reliableMessage(side, pair, s != bothSides)
		}
		return nil
	}
	v := g.vi(side, pair)
	slot := g.take(side, pair, false)
	if slot < 0 {
		return nil
	}
	to := 1 - side
	space := inboundLimit - g.inbound[g.node(to, pair)]
	calm := g.errors[g.node(to, pair)] < errorLimit
	op, immediate := layout.DescriptorOperationSend, g.chance(30)
	if g.chance(50) {
		op = layout.DescriptorOperationRDMAWrite
	}
	if g.safe[to][pair] <= 0 && (g.ahead[to][pair] || !calm || !g.chance(30)) {
		// The queue is empty, and this message may not find it so.
		op, immediate = layout.DescriptorOperationRDMAWrite, false
	}
	n := g.size(65536)
	for n > 0 && n+wireOverhead*(n/layout.MaxPayload+1) > space {
		n /= 4
	}
	if space < wireOverhead {
		return nil
	}
	// An incomplete message causes a second error when the next one arrives.
	inject := calm && g.chance(14)
	d := g.send(side, pair, n, op, immediate, inject, op == layout.DescriptorOperationRDMAWrite && calm && g.chance(12))
	d.slot = slot
	if calm {
		g.cut(&d, pair, false)
	} else if slot == cutSlot {
		return nil
	}
	if v.State() == layout.VIStateConnected {
		if !g.vi(to, pair).Attributes().RDMAWrite && op == layout.DescriptorOperationRDMAWrite && !immediate && !calm {
			return nil // it would be rejected
		}
		bytes := onTheWire(int(min(d.length, 65536)))
		if g.inbound[g.node(to, pair)]+bytes > inboundLimit+4000 {
			return nil
		}
		g.inbound[g.node(to, pair)] += bytes
	}
	return g.emit(operation{kind: opPost, side: side, pair: pair, d: d})
}

// onTheWire returns the bytes of the frames of a message.
func onTheWire(bytes int) int { return bytes + wireOverhead*(bytes/layout.MaxPayload+1) }

// reliableMessage posts a message of a reliable VI. With errors it may break
// the connection.
func (g *generator) reliableMessage(side, pair int, errors bool) error {
	v, peer := g.vi(side, pair), g.vi(1-side, pair)
	slot := g.take(side, pair, false)
	if slot < 0 || slot == cutSlot && !errors {
		g.slot[side][pair][0] = slot // skip it
		return nil
	}
	here, there := g.node(side, pair), g.node(1-side, pair)
	errors = errors && g.errors[here] < errorLimit && g.errors[there] < errorLimit
	// The peer has a receive, or it has none until the next barrier.
	safe, none := g.safe[1-side][pair] > 0, g.safe[1-side][pair] <= 0 && !g.ahead[1-side][pair]
	op, immediate := layout.DescriptorOperation(g.pick(0, 0, 0, 0, 1, 1, 1, 2, 2, 2)), g.chance(30)
	n := g.size(65536)
	for n > 0 && onTheWire(n) > inboundLimit-max(g.inbound[here], g.inbound[there]) {
		n /= 4
	}
	if onTheWire(n) > inboundLimit-max(g.inbound[here], g.inbound[there]) {
		return nil
	}
	n = min(n, int(v.Attributes().MaxTransferSize))
	// fits reports whether the peer accepts the message.
	fits := func() bool {
		switch {
		case op == layout.DescriptorOperationRDMARead:
			return peer.Attributes().RDMARead
		case op == layout.DescriptorOperationSend:
			return safe && peer.Takes(n)
		case immediate:
			return safe && peer.Attributes().RDMAWrite && peer.Takes(0)
		}
		return peer.Attributes().RDMAWrite
	}
	if !fits() && !(errors && (safe || none) && g.chance(40)) {
		for n > 0 && op == layout.DescriptorOperationSend && !fits() {
			n /= 2
		}
		for _, op = range []layout.DescriptorOperation{op, layout.DescriptorOperationRDMAWrite, layout.DescriptorOperationRDMARead} {
			if op != layout.DescriptorOperationSend {
				immediate = false
			}
			if fits() {
				break
			}
		}
		if !fits() {
			return nil
		}
	}
	read := op == layout.DescriptorOperationRDMARead
	immediate = immediate && !read
	d := g.send(side, pair, n, op, immediate, errors && g.chance(12), op != layout.DescriptorOperationSend && errors && g.chance(10))
	if g.under.faulty && max(d.length, lengthOf(d.pieces)) > layout.MaxPayload {
		// The last frame before a local error may be lost, and the sender never
		// retransmits it.
		d = g.send(side, pair, n, op, immediate, false, false)
	}
	d.slot = slot
	g.cut(&d, pair, false)
	if !errors && !g.sound(side, d) {
		return nil
	}
	if g.readTarget[side][pair] && !read || g.reads[side][pair] && errors || g.chance(10) {
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	if d.control&layout.DescriptorControlQueueFenceMask != 0 {
		g.readTarget[side][pair] = false
		if !read && len(d.pieces) > 0 && d.pieces[0].area == areaSource && g.chance(50) {
			// Forward the data that was read.
			i := g.random.IntN(len(d.pieces))
			if p := &d.pieces[i]; !p.absolute && p.handle.pair == pair && p.handle.area == areaSource {
				was := *p
				if p.area, p.handle.area = areaRead, areaRead; !errors && !g.sound(side, d) {
					*p = was
				}
			}
		}
	}
	if read {
		g.reads[side][pair] = true
		g.readTarget[side][pair] = g.readTarget[side][pair] || d.remote.area == areaTarget
		g.inbound[here] += onTheWire(n)
		g.inbound[there] += wireOverhead
	} else {
		g.inbound[there] += onTheWire(int(min(d.length, 65536)))
	}
	o := operation{kind: opPost, side: side, pair: pair, d: d}
	if err := g.emit(o); err != nil {
		return err
	}
	if !errors && g.sender[pair] == bothSides && v.State() != layout.VIStateConnected {
		return fmt.Errorf("the generator: %v breaks a connection on which both sides send", o)
	}
	if read && v.State() != layout.VIStateConnected {
		// Descriptors posted behind the read may execute before the provider
		// rejects its response.
		return g.barrier(opSettle)
	}
	return nil
}

// sound reports whether all memory of a descriptor is registered now.
func (g *generator) sound(side int, d randomDescriptor) bool {
	live := func(side int, p place) bool {
		return g.w.sides[side].regions[p.handle.pair][p.handle.area][p.handle.kind].live
	}
	for _, p := range d.pieces {
		if p.length > 0 && !live(side, p.place) {
			return false
		}
	}
	return !d.hasRemote || d.length == 0 && d.operation() == layout.DescriptorOperationRDMARead || live(1-side, d.remote)
}

// overrun causes a few completions more than the capacity of a completion
// queue.
func (g *generator) overrun() error {
	var pair, side int
	var v *model.VI
	fits := func() bool {
		pair, side = g.random.IntN(randomPairs), g.between(0, 1)
		v = g.vi(side, pair)
		if v == nil || v.Attributes().SendCompletionQueue == 0 || v.State() != layout.VIStateConnected {
			return false
		}
		send, _ := v.Outstanding()
		return send == 0 && g.vi(1-side, pair).Attributes().RDMAWrite && g.w.sides[1-side].regions[pair][areaTarget][regionFull].live
	}
	for tries := 0; !fits(); tries++ {
		if tries == 20 {
			return g.barrier(opSettle)
		}
	}
	queue := v.Attributes().SendCompletionQueue - 1
	resize := func(entries int) error {
		return g.emit(operation{kind: opResize, side: side, pair: pair, queue: queue, entries: entries})
	}
	entries := g.pick(2, 4, 8)
	if err := g.barrier(opSettle); err != nil {
		return err
	}
	if err := resize(entries); err != nil {
		return err
	}
	if err := g.barrier(opSettle); err != nil {
		return err
	}
	for range entries + g.between(0, 3) {
		d := g.send(side, pair, 0, layout.DescriptorOperationRDMAWrite, false, false, false)
		d.remote.handle.kind, d.slot = regionFull, g.take(side, pair, false)
		if err := g.emit(operation{kind: opPost, side: side, pair: pair, d: d}); err != nil {
			return err
		}
	}
	// The program takes no entry until all sends are complete.
	if err := g.barrier(opSync); err != nil {
		return err
	}
	if err := g.barrier(opSettle); err != nil {
		return err
	}
	return resize(queueEntries)
}

// large sends a few large messages of one VI and nothing else: more than the
// FIFO of a MAC holds, at wire speed.
func (g *generator) large() error {
	side, pair := g.between(0, 1), g.pick(0, 1, 3, 5, 7)
	v := g.vi(side, pair)
	if v == nil || v.State() != layout.VIStateConnected {
		return nil
	}
	for range g.between(1, 2) {
		slot := g.take(side, pair, false)
		if slot < 0 {
			return nil
		}
		op := layout.DescriptorOperationSend
		if g.safe[1-side][pair] == 0 || g.chance(50) {
			op = layout.DescriptorOperationRDMAWrite
			if g.reliable(side, pair) && g.chance(40) {
				op = layout.DescriptorOperationRDMARead
			}
		}
		n := g.pick(65536, 65536, 65535, 32768, 30000, g.between(20000, 65536))
		d := g.send(side, pair, n, op, op == layout.DescriptorOperationRDMAWrite && g.safe[1-side][pair] > 0 && g.chance(50), g.chance(20), g.chance(10))
		d.slot = slot
		g.cut(&d, pair, false)
		if g.reads[side][pair] {
			d.control |= layout.DescriptorControlQueueFenceMask
		}
		g.reads[side][pair] = op == layout.DescriptorOperationRDMARead
		if err := g.emit(operation{kind: opPost, side: side, pair: pair, d: d}); err != nil {
			return err
		}
	}
	return nil
}

// events ends connections. A pair with an event does nothing else.
func (g *generator) events() error {
	for pair := range randomPairs {
		if !g.chance(9) {
			continue
		}
		side := g.between(0, 1)
		v, peer := g.vi(side, pair), g.vi(1-side, pair)
		if v == nil {
			continue
		}
		g.taken[pair] = true
		connected := v.State() == layout.VIStateConnected
		var err error
		switch r := g.random.IntN(6); {
		case r == 0:
			err = g.emit(operation{kind: opDisconnect, side: side, pair: pair})
		case r == 1 && v.State() != layout.VIStateError:
			err = g.unreachable(side, pair, false)
		case r == 2 && v.State() != layout.VIStateError && v.Available() == 0 && !v.Receiving():
			err = g.unreachable(side, pair, true)
		case r == 3 && connected:
			err = g.withdraw(side, pair)
		case r == 4 && connected && g.under.cuts && g.reliable(side, pair):
			err = g.sever(side, pair)
		case connected && peer != nil:
			err = g.race(side, pair)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unreachable posts an unreachable descriptor. The sends before it execute, the
// sends behind it are flushed.
func (g *generator) unreachable(side, pair int, receive bool) error {
	if !receive {
		if g.sender[pair] != anySide {
			g.sender[pair] = bothSides // no errors; only this side sends, because the pair is taken
		}
		for range g.between(0, 5) {
			if err := g.message(side, pair); err != nil {
				return err
			}
		}
	}
	slot := g.take(side, pair, receive)
	if slot < 0 {
		return nil
	}
	var d randomDescriptor
	if receive {
		d = g.receive(side, pair)
	} else {
		d = g.send(side, pair, g.between(0, 100), layout.DescriptorOperationSend, true, false, false)
	}
	d.slot = slot
	d.plan += " unreachable"
	switch g.random.IntN(4) {
	case 0:
		d.handle.how = handleZero
	case 1:
		d.handle.how = handleFlipped
	case 2:
		d.handle.kind = regionForeign
	default:
		d.handle.area = areaSource
	}
	if err := g.emit(operation{kind: opPost, side: side, pair: pair, receive: receive, d: d}); err != nil {
		return err
	}
	switch {
	case receive && g.w.fabric.FetchOnArrival:
		return g.useStale(side, pair)
	case receive:
		return nil
	}
	if g.sender[pair] != anySide {
		g.sender[pair] = side
	}
	for range g.between(0, 3) {
		if err := g.message(side, pair); err != nil {
			return err
		}
	}
	return nil
}

// sever takes the link of a reliable pair down, and then sends.
func (g *generator) sever(side, pair int) error {
	if g.take(side, pair, false) < 0 {
		return nil
	}
	if err := g.emit(operation{kind: opCut, side: side, pair: pair}); err != nil {
		return err
	}
	for range g.between(1, 4) {
		slot := g.take(side, pair, false)
		if slot < 0 {
			return nil
		}
		op := layout.DescriptorOperation(g.pick(0, 0, 1, 2))
		d := g.send(side, pair, g.size(3*layout.MaxPayload), op, op == layout.DescriptorOperationSend && g.chance(30), false, false)
		d.slot = slot
		if err := g.emit(operation{kind: opPost, side: side, pair: pair, d: d}); err != nil {
			return err
		}
	}
	return nil
}

// withdraw deregisters the memory of the posted receive descriptors. Then
// either a message uses the one that the card holds, or the connection ends.
func (g *generator) withdraw(side, pair int) error {
	// The first frame of a next message would end an incomplete one, and its
	// order with the next descriptor or the end of the connection is open.
	if v := g.vi(side, pair); v.Available() == 0 || v.Receiving() {
		return nil
	}
	for _, kind := range []opKind{opDeregister, opRegister} {
		if err := g.emit(operation{kind: kind, side: side, pair: pair, area: areaReceive, region: regionFull}); err != nil {
			return err
		}
	}
	return g.useStale(side, pair)
}

// useStale makes the provider use a receive descriptor that has become
// unusable, by a message or by the end of the connection.
func (g *generator) useStale(side, pair int) error {
	// The peer may send now: the descriptor is posted, or its memory
	// deregistered.
	if err := g.barrier(opSync); err != nil {
		return err
	}
	if g.vi(side, pair).State() != layout.VIStateConnected {
		return g.emit(operation{kind: opDisconnect, side: side, pair: pair})
	}
	slot, n := g.take(1-side, pair, false), g.between(0, 1000)
	if slot < 0 || slot == cutSlot || g.chance(40) || g.reliable(side, pair) && !g.vi(side, pair).Withdrawn(n) {
		return g.emit(operation{kind: opDisconnect, side: g.between(0, 1), pair: pair})
	}
	d := g.send(1-side, pair, n, layout.DescriptorOperationSend, true, false, false)
	d.slot = slot
	if err := g.emit(operation{kind: opPost, side: 1 - side, pair: pair, d: d}); err != nil || g.vi(side, pair).State() != layout.VIStateConnected {
		return err
	}
	// The message used a descriptor posted with another handle. No later
	// operation may meet those behind it.
	if err := g.barrier(opSettle); err != nil {
		return err
	}
	g.taken[pair] = true
	return g.emit(operation{kind: opDisconnect, side: side, pair: pair})
}

// race posts sends and disconnects while they are in flight.
func (g *generator) race(side, pair int) error {
	o := operation{kind: opRace, side: side, pair: pair, leaver: g.between(0, 1), delayed: g.pick(0, 0, 1, 2, 3, 5, 10, 20)}
	slot := g.take(side, pair, false)
	if slot < 0 {
		return nil
	}
	readTarget := false
	for i := range g.between(1, 4) {
		op := layout.DescriptorOperationSend
		if g.chance(40) {
			op = layout.DescriptorOperationRDMAWrite
		}
		n := g.size(3 * layout.MaxPayload)
		immediate, inject, injectRemote, late := g.chance(40), g.chance(20), g.chance(10), g.chance(25)
		if g.reliable(side, pair) {
			// An error would end the connection, too, and race with the
			// disconnect.
			inject, injectRemote, late = false, false, false
			peer := g.vi(1-side, pair)
			if i > 0 || op != layout.DescriptorOperationSend || !peer.Takes(min(n, int(peer.Attributes().MaxTransferSize))) {
				immediate = false
				switch write, read := peer.Attributes().RDMAWrite, peer.Attributes().RDMARead; {
				case write && (!read || g.chance(60)):
					op = layout.DescriptorOperationRDMAWrite
				case read:
					op = layout.DescriptorOperationRDMARead
				default:
					continue
				}
			}
		}
		g.inbound[g.node(1-side, pair)] += n + 4*wireOverhead
		d := g.send(side, pair, n, op, immediate, inject, injectRemote)
		if late {
			g.late(&d, side, pair, areaSource, int(g.vi(side, pair).Attributes().MaxTransferSize))
			g.inbound[g.node(1-side, pair)] += 3 * layout.MaxPayload
		}
		switch {
		case g.reliable(side, pair) && !g.sound(side, d):
			continue
		case op == layout.DescriptorOperationRDMARead:
			readTarget = readTarget || d.remote.area == areaTarget
		case readTarget:
			d.control |= layout.DescriptorControlQueueFenceMask
		}
		d.slot = (slot + i) % slots
		o.sends = append(o.sends, d)
	}
	if len(o.sends) == 0 {
		return nil
	}
	return g.emit(o)
}
