// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"hvia/conformance/model"
	"hvia/layout"
	"hvia/vipl"
)

// Operations of random runs. They name memory, regions and VIs by their place
// and not by their addresses, so that a list of operations can be made before
// the run and carried out twice: on cards and by the model.

const (
	randomPairs = 8 // connections
	sides       = 2 // of each, which may be on any two nodes

	// Memory of each VI.
	areaSource  = 0 // sends read here; the cards write nothing
	areaTarget  = 1 // receives and the peer's RDMA writes go here
	areaSend    = 2 // descriptors of the send queue
	areaReceive = 3 // descriptors of the receive queue
	areaRead    = 4 // own RDMA reads go here
	randomAreas = 5

	randomQueues = 2    // completion queues of a node
	queueEntries = 1024 // of each, more than can wait for a program

	dataBytes  = 80 * 1024
	slotBytes  = 4096 // one descriptor of any size
	slots      = 32
	queueBytes = slots * slotBytes
	cutSlot    = slots - 1 // a region ends inside it
	cutBytes   = 192       // of it belong to the region

	// A part of the data areas with odd bounds.
	oddOffset = 4099
	oddLength = 20001
)

func areaBytes(area int) int {
	if area == areaSend || area == areaReceive {
		return queueBytes
	}
	return dataBytes
}

// topology says on which nodes the sides of the pairs are.
type topology [randomPairs][sides]int

var (
	twoNodes  = topology{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}
	fourNodes = topology{{0, 1}, {2, 3}, {1, 2}, {3, 0}, {0, 2}, {3, 1}, {2, 1}, {0, 3}}
)

func (t *topology) nodes() (n int) {
	for _, p := range t {
		n = max(n, p[0]+1, p[1]+1)
	}
	return n
}

// side is the side of a pair that is on a node, -1 if none is.
func (t *topology) side(node, pair int) int { return slices.Index(t[pair][:], node) }

// neighbours are the pairs with a side on the same node, and which side that is.
func (t *topology) neighbours(side, pair int) (pairs, on []int) {
	for p := range t {
		if s := t.side(t[pair][side], p); s >= 0 && p != pair {
			pairs, on = append(pairs, p), append(on, s)
		}
	}
	return pairs, on
}

// Kinds of regions of an area.
const (
	regionFull    = iota // all of it, with the VI's tag, peers may write, and read if the VI is reliable
	regionPlain          // peers may not write or read
	regionForeign        // with another tag
	regionPart           // data: odd bounds; queues: up to the middle of the last slot
	regionKinds
)

// handleRef names a memory handle of a node: of the side that is meant, or of what else is on its node.
type handleRef struct {
	how              handleHow
	other            bool // the pair's other side
	pair, area, kind int
}

type handleHow int

const (
	handleOf       handleHow = iota // a region's, also if it is gone by now
	handleBefore                    // the one before the region was registered again
	handleZero                      // 0
	handleFlipped                   // a region's with another generation
	handleNoRegion                  // with an index that the card has no entry for
)

func (h handleRef) String() string {
	return fmt.Sprintf("%s %d/%s/%s", [...]string{"handle of", "former handle of", "handle 0 for", "handle with flipped generation of", "handle without entry for"}[h.how],
		h.pair, [...]string{"source", "target", "send queue", "receive queue", "read"}[h.area], [...]string{"full", "plain", "foreign", "part"}[h.kind])
}

// place is a virtual address with a handle. absolute places are not relative
// to an area.
type place struct {
	handle   handleRef
	absolute bool
	pair     int
	area     int
	offset   int64
}

func (p place) String() string {
	if p.absolute {
		return fmt.Sprintf("%#x by %v", uint64(p.offset), p.handle)
	}
	return fmt.Sprintf("%d/%d%+d by %v", p.pair, p.area, p.offset, p.handle)
}

// dataPiece is a data segment.
type dataPiece struct {
	place
	length uint32
}

// randomDescriptor is what a descriptor says.
type randomDescriptor struct {
	control                  uint16
	reserved, remoteReserved uint32
	immediate, length        uint32
	segments                 int // SegCount if it is not what there is, else -1
	hasRemote                bool
	remote                   place
	pieces                   []dataPiece
	slot                     int
	handle                   handleRef // that the post tells
	plan                     string    // what is wrong with it, for people
}

func (d randomDescriptor) operation() layout.DescriptorOperation {
	return layout.DescriptorOperation(d.control & layout.DescriptorControlOperationMask)
}

func (d randomDescriptor) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v, control %#x, length %d, slot %d", d.operation(), d.control, d.length, d.slot)
	if d.control&layout.DescriptorControlImmediateMask != 0 {
		fmt.Fprintf(&b, ", immediate %#x", d.immediate)
	}
	if d.hasRemote {
		fmt.Fprintf(&b, ", to %v", d.remote)
	}
	if d.segments >= 0 {
		fmt.Fprintf(&b, ", SegCount %d", d.segments)
	}
	fmt.Fprintf(&b, ", %d pieces:", len(d.pieces))
	for i, p := range d.pieces {
		if i == 6 {
			b.WriteString(" ...")
			break
		}
		fmt.Fprintf(&b, " [%d bytes, %v]", p.length, p.place)
	}
	if d.plan != "" {
		fmt.Fprintf(&b, "; planted: %s", d.plan)
	}
	return b.String()
}

type opKind int

const (
	opStore         opKind = iota // the program stores random bytes into its source area
	opCopy                        // the program copies what it got, to send it on
	opPost                        // on a work queue
	opConnect                     // both sides
	opDisconnect                  // one side
	opDestroy                     // an idle VI with empty queues
	opCreate                      // again
	opSetAttributes               // of an idle VI
	opDeregister                  // a region
	opRegister                    // again
	opRace                        // sends, and a disconnect behind them: how far they come is open
	opPoll                        // of a node: entries are taken from a completion queue
	opResize                      // of a node: a completion queue
	opCut                         // from now on no frame of a reliable pair gets through; until it is connected again
	opSync                        // all nodes have come so far
	opSettle                      // all work ends, and everything is compared
)

var opNames = [...]string{"store", "copy", "post", "connect", "disconnect", "destroy", "create", "set attributes", "deregister", "register", "race", "poll", "resize", "cut", "sync", "settle"}

// operation is one entry of a list.
type operation struct {
	kind       opKind
	side, pair int

	// opStore, opCopy
	from, offset, bytes int
	seed                uint64
	// opPost
	receive bool
	d       randomDescriptor
	// opCreate, opSetAttributes
	attributes randomAttributes
	// opDeregister, opRegister
	area, region int
	// opRace
	sends   []randomDescriptor
	leaver  int // side that disconnects
	delayed int // of the sends' time, in microseconds, before it does
	// opPoll, opResize: a completion queue of the node of this side
	queue, entries int
}

// randomAttributes are a VI's; the tag is 0 or 1 for the NIC's own or the
// program's.
type randomAttributes struct {
	tag       int
	max       int
	rdmaWrite bool
	rdmaRead  bool
	level     layout.Reliability
	queues    [2]int // completion queues of the send and the receive queue, plus one; 0 = none
}

func (a randomAttributes) vipl(tags [2]vipl.Ptag, queues []*vipl.CQ) vipl.VIAttributes {
	out := vipl.VIAttributes{
		ReliabilityLevel: vipl.ReliabilityLevel(a.level), MaxTransferSize: a.max, Ptag: tags[a.tag], EnableRDMAWrite: a.rdmaWrite, EnableRDMARead: a.rdmaRead,
	}
	for i, q := range []**vipl.CQ{&out.SendCQ, &out.RecvCQ} {
		if a.queues[i] > 0 {
			*q = queues[a.queues[i]-1]
		}
	}
	return out
}

func (a randomAttributes) model() model.Attributes {
	return model.Attributes{
		Reliability: a.level, MaxTransferSize: uint32(a.max), Tag: modelTag(a.tag), RDMAWrite: a.rdmaWrite, RDMARead: a.rdmaRead,
		SendCompletionQueue: a.queues[0], ReceiveCompletionQueue: a.queues[1],
	}
}

// modelTag is a tag as the model has it: only their equality matters.
func modelTag(tag int) uint16 { return uint16(100 + tag) }

func (o operation) String() string {
	s := fmt.Sprintf("%s, side %d, pair %d", opNames[o.kind], o.side, o.pair)
	switch o.kind {
	case opStore:
		s += fmt.Sprintf(": %d bytes at %d", o.bytes, o.offset)
	case opCopy:
		s += fmt.Sprintf(": %d bytes from %d to %d", o.bytes, o.from, o.offset)
	case opPost:
		s += map[bool]string{false: ": send: ", true: ": receive: "}[o.receive] + o.d.String()
	case opCreate, opSetAttributes:
		s += fmt.Sprintf(": %+v", o.attributes)
	case opDeregister, opRegister:
		s += fmt.Sprintf(": area %d, region %d", o.area, o.region)
	case opPoll:
		s += fmt.Sprintf(": completion queue %d", o.queue)
	case opResize:
		s += fmt.Sprintf(": completion queue %d to %d entries", o.queue, o.entries)
	case opRace:
		s += fmt.Sprintf(": side %d leaves after %d us", o.leaver, o.delayed)
		for _, d := range o.sends {
			s += "; " + d.String()
		}
	}
	return s
}

// effect is what an operation did that its text does not tell.
type effect struct {
	handle  uint32   // opRegister
	index   int      // opCreate
	raw     [][]byte // opPost, opRace: the descriptors
	handles []uint32 // that were told with them
}

// regionState is a region of an area.
type regionState struct {
	handle, before uint32
	live           bool
}

// sideTable says where things of one side of each pair are.
type sideTable struct {
	address [randomPairs][randomAreas]uint64
	regions [randomPairs][randomAreas][regionKinds]regionState
	index   [randomPairs]int // of the VI; -1 while there is none
	tag     [randomPairs]int
}

// span is the part of an area that a region covers.
func span(area, kind int) (offset, length int) {
	switch {
	case kind != regionPart:
		return 0, areaBytes(area)
	case areaBytes(area) == dataBytes:
		return oddOffset, oddLength
	}
	return 0, cutSlot*slotBytes + cutBytes
}

// regionTag is the tag of a region of a VI with a tag.
func regionTag(tag, kind int) int {
	if kind == regionForeign {
		return 1 - tag
	}
	return tag
}

// regionOpen says whether peers have rights to a region.
func regionOpen(kind int) bool { return kind != regionPlain }

func (t *sideTable) handle(h handleRef) uint32 {
	r := t.regions[h.pair][h.area][h.kind]
	switch h.how {
	case handleBefore:
		return r.before
	case handleZero:
		return 0
	case handleFlipped:
		return r.handle ^ 1<<layout.AttHandleValueGenerationLsb
	case handleNoRegion:
		return r.handle | layout.AttHandleValueIndexMask
	}
	return r.handle
}

func (t *sideTable) at(p place) uint64 {
	if p.absolute {
		return uint64(p.offset)
	}
	return t.address[p.pair][p.area] + uint64(p.offset)
}

// world is a model with the tables of the sides.
type world struct {
	fabric *model.Fabric
	on     topology
	reads  bool // regions may be read by peers
	slow   bool // completions may come after a barrier
	cut    [randomPairs]bool
	sides  [sides]sideTable
}

func (w *world) host(side, pair int) *model.Host { return w.fabric.Hosts[w.on[pair][side]] }

func (w *world) vi(side, pair int) *model.VI { return w.host(side, pair).VI(w.sides[side].index[pair]) }

// handle is the value of a memory handle that is told to the card of a side.
func (w *world) handle(side int, h handleRef) uint32 {
	if h.other {
		side = 1 - side
	}
	return w.sides[side].handle(h)
}

// encode writes a descriptor as it stands in memory, without a link.
func (w *world) encode(side int, d randomDescriptor) []byte {
	n := layout.DescriptorSize + layout.AddressSegmentSize + len(d.pieces)*layout.DataSegmentSize
	b := make([]byte, (n+layout.DescriptorAlignment-1)/layout.DescriptorAlignment*layout.DescriptorAlignment)
	h := layout.Descriptor(b)
	count := len(d.pieces)
	if d.hasRemote {
		count++
	}
	if d.segments >= 0 {
		count = d.segments
	}
	h.SetSegmentCount(uint16(count))
	h.SetControl(d.control)
	binary.LittleEndian.PutUint32(b[layout.DescriptorReservedOffset:], d.reserved)
	h.SetImmediateData(d.immediate)
	h.SetLength(d.length)
	rest := b[layout.DescriptorSize:]
	if d.hasRemote {
		peer := &w.sides[1-side]
		a := layout.AddressSegment(rest)
		a.SetAddress(peer.at(d.remote))
		a.SetHandle(w.handle(1-side, d.remote.handle))
		binary.LittleEndian.PutUint32(a[layout.AddressSegmentReservedOffset:], d.remoteReserved)
		rest = rest[layout.AddressSegmentSize:]
	}
	for i, p := range d.pieces {
		s := layout.DataSegment(rest[i*layout.DataSegmentSize:])
		s.SetAddress(w.sides[side].at(p.place))
		s.SetHandle(w.handle(side, p.handle))
		s.SetLength(p.length)
	}
	return b
}

// queueArea is where a queue's descriptors are.
func queueArea(receive bool) int {
	if receive {
		return areaReceive
	}
	return areaSend
}

func (t *sideTable) descriptor(pair int, receive bool, slot int) uint64 {
	return t.address[pair][queueArea(receive)] + uint64(slot*slotBytes)
}

func randomBytes(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, (n+7)/8*8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], random.Uint64())
	}
	return b[:n]
}

// stops say how far a race gets: so many steps of the sender, so many frames of
// its messages heard, and of the answers to its RDMA reads, each with its end.
type stops struct{ sent, heard, answered int }

// apply carries an operation out in the model. A race is left at the point
// that stop says.
func (w *world) apply(o operation, e effect, stop stops) error {
	h, t := w.host(o.side, o.pair), &w.sides[o.side]
	v := w.vi(o.side, o.pair)
	memory := func(area, offset, n int) []byte { return h.Memory(t.address[o.pair][area]+uint64(offset), uint64(n)) }
	post := func(i int, receive bool, d randomDescriptor) error {
		at := t.descriptor(o.pair, receive, d.slot)
		copy(h.Memory(at, slotBytes), e.raw[i])
		if receive {
			return v.PostReceive(at, e.handles[i])
		}
		return v.PostSend(at, e.handles[i])
	}
	switch o.kind {
	case opStore:
		copy(memory(areaSource, o.offset, o.bytes), randomBytes(o.seed, o.bytes))
	case opCopy:
		copy(memory(areaSource, o.offset, o.bytes), memory(areaTarget, o.from, o.bytes))
	case opPost:
		return post(0, o.receive, o.d)
	case opConnect:
		w.cut[o.pair] = false
		return model.Connect(v, w.vi(1-o.side, o.pair))
	case opDisconnect:
		v.Disconnect()
	case opDestroy:
		t.index[o.pair] = -1
		return v.Destroy()
	case opCreate:
		t.index[o.pair], t.tag[o.pair] = e.index, o.attributes.tag
		_, err := h.CreateVI(e.index, o.attributes.model())
		return err
	case opSetAttributes:
		return v.SetAttributes(o.attributes.model())
	case opDeregister:
		r := &t.regions[o.pair][o.area][o.region]
		r.live = false
		return h.Deregister(r.handle)
	case opRegister:
		r := &t.regions[o.pair][o.area][o.region]
		r.before, r.handle, r.live = r.handle, e.handle, true
		offset, length := span(o.area, o.region)
		return h.Register(e.handle, model.Region{
			Address: t.address[o.pair][o.area] + uint64(offset), Length: uint64(length),
			Tag: modelTag(regionTag(t.tag[o.pair], o.region)), RDMAWrite: regionOpen(o.region), RDMARead: w.reads && regionOpen(o.region),
		})
	case opPoll:
		h.CompletionQueue(o.queue).Polled()
	case opResize:
		h.CompletionQueue(o.queue).Resize(o.entries)
	case opCut:
		// What is posted now gets nowhere.
		w.cut[o.pair] = true
		v.Stop(0, 0)
		w.vi(1-o.side, o.pair).Stop(0, 0)
	case opSettle:
		for pair, cut := range w.cut {
			for side := range sides {
				if v := w.vi(side, pair); cut && v != nil {
					v.Cut()
				}
			}
		}
		for _, h := range w.fabric.Hosts {
			for q := range randomQueues {
				if c := h.CompletionQueue(q); c != nil && w.slow {
					c.Polled()
				}
			}
		}
	case opRace:
		peer := w.vi(1-o.side, o.pair)
		v.Stop(stop.sent, stop.answered)
		peer.Stop(0, stop.heard)
		for i, d := range o.sends {
			if err := post(i, false, d); err != nil {
				return err
			}
		}
		if o.leaver == o.side {
			v.Disconnect()
		} else {
			peer.Disconnect()
		}
	}
	return nil
}
