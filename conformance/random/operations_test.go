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

// Operations of random runs name memory, regions and VIs by place and not by
// address. So the generator makes a list before the run, and cards and model
// execute the same list.

const (
	randomPairs = 8 // connections
	sides       = 2 // sides of each connection, on any two nodes

	// Memory of each VI.
	areaSource  = 0 // sends read here; no card writes it
	areaTarget  = 1 // receives and the peer's RDMA writes write here
	areaSend    = 2 // descriptors of the send queue
	areaReceive = 3 // descriptors of the receive queue
	areaRead    = 4 // the VI's RDMA reads write here
	randomAreas = 5

	randomQueues = 2    // completion queues of a node
	queueEntries = 1024 // of each, more than a run needs

	dataBytes  = 80 * 1024
	slotBytes  = 4096 // one descriptor of any size
	slots      = 32
	queueBytes = slots * slotBytes
	cutSlot    = slots - 1 // a region ends inside it
	cutBytes   = 192       // bytes of that slot inside the region

	// A part of the data areas, with odd bounds.
	oddOffset = 4099
	oddLength = 20001
)

func areaBytes(area int) int {
	if area == areaSend || area == areaReceive {
		return queueBytes
	}
	return dataBytes
}

// topology maps the sides of the pairs to nodes.
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

// side returns the side of a pair on a node, -1 if none.
func (t *topology) side(node, pair int) int { return slices.Index(t[pair][:], node) }

// neighbours returns the other pairs with a side on the same node, and that
// side.
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
	regionFull    = iota // all of it, with the VI's tag; peers may write, and read if the VI is reliable
	regionPlain          // peers may not write or read
	regionForeign        // with another tag
	regionPart           // data: odd bounds; queues: up to the middle of the last slot
	regionKinds
)

// handleRef names the memory handle of a pair's region. The region belongs to
// the side that uses the handle, or to another side on the same node.
type handleRef struct {
	how              handleHow
	other            bool // the pair's other side
	pair, area, kind int
}

type handleHow int

const (
	handleOf       handleHow = iota // a region's, also after its deregistration
	handleBefore                    // the handle of the previous registration
	handleZero                      // 0
	handleFlipped                   // a region's, with another generation
	handleNoRegion                  // with an index beyond the card's entries
)

func (h handleRef) String() string {
	return fmt.Sprintf("%s %d/%s/%s", [...]string{"handle of", "previous handle of", "handle 0 for", "handle with flipped generation of", "handle without entry for"}[h.how],
		h.pair, [...]string{"source", "target", "send queue", "receive queue", "read"}[h.area], [...]string{"full", "plain", "foreign", "part"}[h.kind])
}

// place is a virtual address with a handle. An absolute place is not relative
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

// randomDescriptor is the content of a descriptor.
type randomDescriptor struct {
	control                  uint16
	reserved, remoteReserved uint32
	immediate, length        uint32
	segments                 int // SegCount if wrong, else -1
	hasRemote                bool
	remote                   place
	pieces                   []dataPiece
	slot                     int
	handle                   handleRef // of the post
	plan                     string    // the injected errors as text
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
		fmt.Fprintf(&b, "; injected: %s", d.plan)
	}
	return b.String()
}

type opKind int

const (
	opStore         opKind = iota // the program stores random bytes into its source area
	opCopy                        // the program copies received data to its source area
	opPost                        // on a work queue
	opConnect                     // both sides
	opDisconnect                  // one side
	opDestroy                     // an idle VI with empty queues
	opCreate                      // a VI that was destroyed
	opSetAttributes               // of an idle VI
	opDeregister                  // a region
	opRegister                    // a region that was deregistered
	opRace                        // sends and a disconnect; the progress of the sends is open
	opPoll                        // of a node: the program polls a completion queue
	opResize                      // of a node: a completion queue gets a new capacity
	opCut                         // the link of a reliable pair goes down until the next connect
	opSync                        // all nodes have executed the operations so far
	opSettle                      // all work ends, and the run compares everything
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
	delayed int // microseconds between the sends and the disconnect
	// opPoll, opResize: a completion queue of the node of this side
	queue, entries int
}

// randomAttributes are the attributes of a VI. Tag 0 is the NIC's tag, tag 1
// the program's.
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

// modelTag returns a tag for the model: only equality matters.
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
		s += fmt.Sprintf(": side %d disconnects after %d us", o.leaver, o.delayed)
		for _, d := range o.sends {
			s += "; " + d.String()
		}
	}
	return s
}

// effect is what an operation did beyond its text.
type effect struct {
	handle  uint32   // opRegister
	index   int      // opCreate
	raw     [][]byte // opPost, opRace: the descriptors
	handles []uint32 // posted with them
}

// regionState is a region of an area.
type regionState struct {
	handle, before uint32
	live           bool
}

// sideTable has the addresses, handles and numbers of one side of each pair.
type sideTable struct {
	address [randomPairs][randomAreas]uint64
	regions [randomPairs][randomAreas][regionKinds]regionState
	index   [randomPairs]int // of the VI; -1 without a VI
	tag     [randomPairs]int
}

// span returns the part of an area that a region covers.
func span(area, kind int) (offset, length int) {
	switch {
	case kind != regionPart:
		return 0, areaBytes(area)
	case areaBytes(area) == dataBytes:
		return oddOffset, oddLength
	}
	return 0, cutSlot*slotBytes + cutBytes
}

// regionTag returns the tag of a region, for a VI with the given tag.
func regionTag(tag, kind int) int {
	if kind == regionForeign {
		return 1 - tag
	}
	return tag
}

// regionOpen reports whether peers have rights to a region.
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

// world is the model with the tables of the sides.
type world struct {
	fabric *model.Fabric
	on     topology
	reads  bool // peers may read regions
	slow   bool // completions may come after a barrier
	cut    [randomPairs]bool
	sides  [sides]sideTable
}

func (w *world) host(side, pair int) *model.Host { return w.fabric.Hosts[w.on[pair][side]] }

func (w *world) vi(side, pair int) *model.VI { return w.host(side, pair).VI(w.sides[side].index[pair]) }

// handle returns the value of a memory handle for the card of a side.
func (w *world) handle(side int, h handleRef) uint32 {
	if h.other {
		side = 1 - side
	}
	return w.sides[side].handle(h)
}

// encode returns the bytes of a descriptor, without a link.
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

// queueArea returns the area of a queue's descriptors.
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

// stops limit the progress of a race: the steps of the sender, the frames of
// its messages that arrive, and the frames of the read responses, each with its
// end.
type stops struct{ sent, arrived, returned int }

// apply applies an operation to the model. A race stops at the given point.
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
		// Posts from now on have no effect.
		w.cut[o.pair] = true
		v.Stop(0, 0)
		w.vi(1-o.side, o.pair).Stop(0, 0)
	case opSettle:
		w.settle()
	case opRace:
		peer := w.vi(1-o.side, o.pair)
		v.Stop(stop.sent, stop.returned)
		peer.Stop(0, stop.arrived)
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

// settle ends the connections without a link.
func (w *world) settle() {
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
}
