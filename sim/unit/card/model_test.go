// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"encoding/binary"

	"hvia/host/mem"
	"hvia/layout"
)

// The model of a card's work on a descriptor and on a frame. It follows the
// definitions of the layouts and of VIA, and not the structure of the RTL.

type vi struct {
	m          *machine
	index      uint8
	generation uint8
	tag        uint16
	writable   bool
	max        int
	connected  bool
	reliable   *reliable // nil at the unreliable level
	queues     [2]uint8  // completion queues of send and receive queue: number plus one, 0 = none
	peer       *machine
	peerMac    [6]byte
	peerVI     uint16
	next       uint32   // sequence number of the next frame out
	expected   uint32   // of the next frame in
	strays     []uint32 // consecutive numbers of frames outside of the window
	message    message

	send, receive workQueue
	head          *posted // the receive descriptor on the card, the first of the queue
}

type message struct {
	open      bool // the first frame came, and the last one did not
	dropped   bool // the rest of a failed message
	rdma      bool
	answer    bool // a response to an RDMA read of this VI
	immediate bool
	held      *posted // the receive descriptor that it consumes
	errors    uint32  // bits of its status
	written   int     // bytes in memory
	came      uint32  // bytes in frames
	total     uint32  // of a send, from its first frame
	place     scatter
}

func (v *vi) number() uint16 { return uint16(v.generation)<<8 | uint16(v.index) }

// workQueue is one of a VI's queues: its memory, and the posted descriptors
// that the model considers incomplete.
type workQueue struct {
	v       *vi
	receive bool
	region  *region
	posted  []*posted // oldest first
	at      int       // offset of the next one in the region
}

type posted struct {
	descriptor
	queue  *region
	at     int // in the queue's region
	size   int // bytes there, chunks of 64
	stale  bool
	status uint32
}

type segment struct {
	address uint64
	handle  uint32
	length  uint32 // of an address segment: must be 0
}

type descriptor struct {
	control   uint16
	segments  uint16 // the field, not the actual number
	reserved  uint32
	immediate uint32
	length    uint32
	overhangs bool // if possible, all but its first 64 bytes is outside of its region
	addressed bool // an address segment comes first
	remote    segment
	data      []segment
}

const (
	operationSend  = uint16(layout.DescriptorOperationSend) << layout.DescriptorControlOperationLsb
	operationWrite = uint16(layout.DescriptorOperationRDMAWrite) << layout.DescriptorControlOperationLsb
)

// part is a data segment of n bytes of a region.
func (g *region) part(offset, n int) segment {
	return segment{address: g.address + uint64(offset), handle: g.handle, length: uint32(n)}
}

// buffers returns a well-formed descriptor of these buffers, for a send or a
// receive.
func buffers(parts ...segment) descriptor {
	d := descriptor{control: operationSend, segments: uint16(len(parts)), data: parts}
	for _, s := range parts {
		d.length += s.length
	}
	return d
}

// to makes it an RDMA write.
func (d descriptor) to(g *region, at int) descriptor {
	d.control = d.control&^layout.DescriptorControlOperationMask | operationWrite
	d.addressed, d.remote = true, segment{address: g.address + uint64(at), handle: g.handle}
	d.segments++
	return d
}

// with adds immediate data.
func (d descriptor) with(immediate uint32) descriptor {
	d.control |= layout.DescriptorControlImmediateMask
	d.immediate = immediate
	return d
}

// rdmaWrite is a well-formed descriptor of one segment.
func rdmaWrite(from *region, offset, n int, to *region, at int) descriptor {
	return buffers(from.part(offset, n)).to(to, at)
}

func (d descriptor) operation() layout.DescriptorOperation {
	return layout.DescriptorOperation(d.control & layout.DescriptorControlOperationMask >> layout.DescriptorControlOperationLsb)
}

// all returns the segments in memory, as counted in the descriptor.
func (d descriptor) all() []segment {
	var all []segment
	if d.addressed {
		all = append(all, d.remote)
	}
	all = append(all, d.data...)
	if n := int(d.segments); n <= len(all) {
		return all[:n]
	}
	return append(all, make([]segment, int(d.segments)-len(all))...)
}

// chunkOf returns the chunk of a descriptor that contains segment k.
func chunkOf(k int) int {
	return (layout.DescriptorSize + k*layout.DataSegmentSize) / layout.DescriptorFetchBytes
}

// size returns the bytes of a descriptor that the card may read.
func (d descriptor) size() int {
	n := len(d.data)
	if d.addressed {
		n++
	}
	if d.segments <= layout.MaxDataSegments+1 {
		n = max(n, int(d.segments))
	}
	return (chunkOf(max(n, 1)-1) + 1) * layout.DescriptorFetchBytes
}

func (d descriptor) encode() []byte {
	b := layout.Descriptor(make([]byte, d.size()))
	b.SetSegmentCount(d.segments)
	b.SetControl(d.control)
	b.SetImmediateData(d.immediate)
	b.SetLength(d.length)
	binary.LittleEndian.PutUint32(b[layout.DescriptorReservedOffset:], d.reserved)
	at := layout.DescriptorSize
	if d.addressed {
		s := layout.AddressSegment(b[at:])
		s.SetAddress(d.remote.address)
		s.SetHandle(d.remote.handle)
		binary.LittleEndian.PutUint32(s[layout.AddressSegmentReservedOffset:], d.remote.length)
		at += layout.AddressSegmentSize
	}
	for _, p := range d.data {
		s := layout.DataSegment(b[at:])
		s.SetAddress(p.address)
		s.SetHandle(p.handle)
		s.SetLength(p.length)
		at += layout.DataSegmentSize
	}
	return b
}

func (v *vi) context(state layout.VIState) func(c layout.VIContext) {
	return func(c layout.VIContext) {
		level := layout.ReliabilityUnreliable
		if x := v.reliable; x != nil {
			level = x.level
			c.SetWindow(x.window)
			c.SetRetryLimit(x.retryLimit)
			c.SetReadLimit(x.readLimit)
			c.SetRetryTimeoutLog2(x.timeoutLog2)
		}
		c.SetSendCompletionQueue(v.queues[0])
		c.SetReceiveCompletionQueue(v.queues[1])
		a := uint32(state)<<layout.VIContextAttributesStateLsb | uint32(level)<<layout.VIContextAttributesReliabilityLsb |
			uint32(v.generation)<<layout.VIContextAttributesGenerationLsb | uint32(v.tag)<<layout.VIContextAttributesTagLsb
		if v.writable {
			a |= layout.VIContextAttributesEnableRDMAWriteMask
		}
		if v.reliable != nil && v.reliable.readable {
			a |= layout.VIContextAttributesEnableRDMAReadMask
		}
		c.SetAttributes(a)
		c.SetMaxTransferSize(uint32(v.max))
		copy(c.PeerMac(), v.peerMac[:])
		c.SetPeerVI(v.peerVI)
		c.SetSendSequence(v.next)
		c.SetReceiveSequence(v.expected)
	}
}

func (m *machine) viCommand(op layout.CommandOpcode, v *vi, end layout.CommandStatus, state layout.VIState) uint32 {
	return m.do(op, end, func(c layout.Command) {
		c.SetIndex(uint32(v.index))
		v.context(state)(layout.VIContext(c.Payload()))
	})
}

// createVI makes a VI with separate queues.
func (m *machine) createVI(index uint8, tag uint16, writable bool) *vi {
	return m.createVIWith(index, tag, writable, pageBytes)
}

// createVIWith makes a VI with queues of the given size.
func (m *machine) createVIWith(index uint8, tag uint16, writable bool, queueBytes int) *vi {
	v := &vi{m: m, index: index, tag: tag, writable: writable}
	v.create(queueBytes)
	return v
}

func (v *vi) create(queueBytes int) {
	m := v.m
	v.generation, v.max = uint8(m.random.Uint32()), 1<<16
	v.send = workQueue{v: v, region: m.register(0, queueBytes, v.tag, false)}
	v.receive = workQueue{v: v, receive: true, region: m.register(0, queueBytes, v.tag, false)}
	m.viCommand(layout.CommandOpcodeCreateVI, v, layout.CommandStatusDone, layout.VIStateIdle)
	m.vis[v.index] = v
}

// connect connects two VIs, each on the thread of its machine.
func (r *rig) connect(a, b *vi) {
	var next [2]uint32
	for i := range next {
		next[i] = r.random.Uint32()
		if r.random.IntN(4) == 0 {
			next[i] = -r.random.Uint32N(20) // wraps soon
		}
	}
	r.connectAt(a, b, next)
}

// connectAt connects two VIs with the given numbers of their first frames.
func (r *rig) connectAt(a, b *vi, next [2]uint32) {
	a.next, b.next = next[0], next[1]
	a.aim(b)
	b.aim(a)
	a.expected, b.expected = b.next, a.next
	r.both(func(m *machine) {
		v := a
		if m == b.m {
			v = b
		}
		v.connect()
	})
}

func (v *vi) aim(p *vi) { v.peer, v.peerMac, v.peerVI = p.m, p.m.mac, p.number() }

func (v *vi) connect() {
	v.m.viCommand(layout.CommandOpcodeConnectVI, v, layout.CommandStatusDone, layout.VIStateConnected)
	v.connected, v.message, v.strays = true, message{}, nil
	if v.reliable != nil {
		v.reliable.begin(v.next)
	}
}

// pair makes a VI on each machine and connects them.
func (r *rig) pair(index [2]uint8, tag [2]uint16, writable [2]bool) (a, b *vi) {
	var made [2]*vi
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		made[n] = m.createVI(index[n], tag[n], writable[n])
	})
	r.connect(made[0], made[1])
	return made[0], made[1]
}

// post puts a descriptor into a VI's send queue and rings its doorbell.
func (v *vi) post(d descriptor) *posted {
	v.m.counts[layout.CounterDoorbellSend]++
	return v.send.post(d)
}

func (v *vi) postReceive(d descriptor) *posted {
	v.m.counts[layout.CounterDoorbellReceive]++
	p := v.receive.post(d)
	v.fetch()
	return p
}

// free reports whether an area contains no outstanding descriptor.
func (q *workQueue) free(at, size int) bool {
	for _, p := range q.posted {
		if p.queue == q.region && at < p.at+p.size && p.at < at+size {
			return false
		}
	}
	return true
}

// room finds a free area for the next descriptor.
func (q *workQueue) room(d descriptor) (at, size int, ok bool) {
	if size = layout.DescriptorFetchBytes; d.overhangs {
		if at = q.region.length - size; q.free(at, size) {
			return at, size, true
		}
	}
	size = d.size()
	places := []int{q.at, 0}
	for _, p := range q.posted {
		places = append(places, p.at+p.size)
	}
	for _, at := range places {
		if at+size <= q.region.length && q.free(at, size) {
			return at, size, true
		}
	}
	return 0, size, false
}

func (q *workQueue) post(d descriptor) *posted {
	p, bell := q.prepare(d)
	q.v.m.check(q.v.m.thread.Write(q.doorbell(), bell...))
	return p
}

// prepare is post without the doorbell. It returns the doorbell's dwords.
func (q *workQueue) prepare(d descriptor) (*posted, []uint32) {
	m := q.v.m
	at, size, ok := q.room(d)
	if !ok {
		m.fail("a queue of VI %d has %d descriptors outstanding and no space for another of %d bytes", q.v.index, len(q.posted), size)
	}
	p := &posted{descriptor: d, queue: q.region, at: at, size: size}
	q.at = at + size
	q.region.fill(p.at, d.encode()[:size])
	address := p.address()
	if n := len(q.posted); n > 0 {
		// Only these bytes: the card may have written the others meanwhile.
		link := layout.Descriptor(make([]byte, layout.DescriptorSize))
		link.SetNext(address)
		link.SetNextHandle(q.region.handle)
		q.posted[n-1].queue.fill(q.posted[n-1].at, link[:layout.DescriptorSegmentCountOffset])
	}
	q.posted = append(q.posted, p)
	return p, []uint32{uint32(address), uint32(address >> 32), q.region.handle}
}

func (p *posted) address() uint64 { return p.queue.address + uint64(p.at) }

func (q *workQueue) doorbell() uint32 {
	page := layout.PciBar1Base + uint32(q.v.index)*layout.DoorbellPageBytes
	if q.receive {
		return page + layout.DoorbellReceive
	}
	return page + layout.DoorbellSend
}

// field returns the physical address of a field of the control segment.
func (p *posted) field(offset int) (address uint32) {
	p.queue.pieces(p.at+offset, 4, func(a uint32, _, _ int) { address = a })
	return address
}

func (p *posted) word(offset int) uint32 { return mem.LoadUint32(p.queue.m.memo[p.field(offset):]) }
func (p *posted) statusWord() uint32     { return p.word(layout.DescriptorStatusOffset) }
func (p *posted) lengthWord() uint32     { return p.word(layout.DescriptorLengthOffset) }
func (p *posted) done() bool             { return p.statusWord()&layout.DescriptorStatusDoneMask != 0 }

// await waits until the card has completed a descriptor.
func (p *posted) await() {
	p.status = p.queue.m.await("descriptor", p.field(layout.DescriptorStatusOffset), func(s uint32) bool { return s&layout.DescriptorStatusDoneMask != 0 })
}

// finish waits until the card has completed all send descriptors of a VI.
func (v *vi) finish() {
	for _, p := range v.send.posted {
		p.await()
	}
}

func (m *machine) finish() {
	for i := range 256 {
		if v := m.vis[uint8(i)]; v != nil {
			v.finish()
		}
	}
}

// carry updates the model: all posted descriptors were executed and all frames
// arrived.
func (r *rig) carry() {
	for _, m := range r.node {
		for i := range 256 {
			if v := m.vis[uint8(i)]; v != nil && v.reliable == nil {
				v.carry()
			}
		}
	}
}

func (v *vi) carry() {
	for _, p := range v.send.posted {
		frames, status, moved := v.transmit(p)
		v.sent(p, frames, status, moved)
	}
	v.send.posted = nil
}

// sent predicts the effect of a send descriptor: its completion, and its frames
// on the wire and at the peer.
func (v *vi) sent(p *posted, frames [][]byte, status uint32, moved int) {
	v.completed(p, status, moved)
	v.next += uint32(len(frames))
	v.m.counts[layout.CounterTransmitFrame] += uint32(len(frames))
	v.m.counts[layout.CounterMacTransmitFrame] += uint32(len(frames))
	for _, f := range frames {
		v.peer.hear(f)
	}
}

// completed predicts the card's writes to a send descriptor.
func (v *vi) completed(p *posted, status uint32, moved int) {
	v.m.counts[layout.CounterDescriptorFetched]++
	v.m.written(p, status, moved)
	switch {
	case status&(errorBits|layout.DescriptorStatusFlushedMask) == 0:
		v.m.counts[layout.CounterTransmitMessage]++
	case moved > 0:
		v.m.counts[layout.CounterTransmitAborted]++
	}
}

// written predicts length and status of a descriptor.
func (m *machine) written(p *posted, status uint32, moved int) {
	m.expectWord(p.field(layout.DescriptorLengthOffset), uint32(moved))
	m.expectWord(p.field(layout.DescriptorStatusOffset), status)
	m.counts[layout.CounterCompletionWritten]++
	m.checked(status)
}

func (m *machine) checked(status uint32) {
	switch {
	case status&layout.DescriptorStatusFlushedMask != 0:
		m.counts[layout.CounterDescriptorFlushed]++
	case status&errorBits != 0:
		m.counts[layout.CounterDescriptorError]++
	}
}

// cut updates the model for send descriptors that were in flight at a
// disconnect. Only the card knows how many frames had left by then. They must
// be the first ones, and after the first flushed descriptor all must be flushed
// unsent.
func (v *vi) cut() (flushed, partial int) {
	for _, p := range v.send.posted {
		frames, status, moved := v.transmit(p)
		if p.statusWord()&layout.DescriptorStatusFlushedMask == 0 {
			if flushed > 0 {
				v.m.fail("a descriptor of VI %d was carried out behind one that was flushed", v.index)
			}
			v.sent(p, frames, status, moved)
			continue
		}
		n := int(p.lengthWord())
		if n%layout.MaxPayload != 0 || n/layout.MaxPayload >= max(len(frames), 1) || n > 0 && flushed > 0 {
			v.m.fail("descriptor %d that was flushed on VI %d says that %d bytes of %d were sent", flushed, v.index, n, p.length)
		}
		flushed++
		if n > 0 {
			partial++
		}
		v.sent(p, frames[:n/layout.MaxPayload], p.ended(layout.DescriptorStatusFlushedMask), n)
	}
	v.send.posted = nil
	return flushed, partial
}

// disconnect disconnects a VI. The caller updates the model of its send queue.
func (v *vi) disconnect() {
	v.m.viCommand(layout.CommandOpcodeDisconnectVI, v, layout.CommandStatusDone, layout.VIStateIdle)
}

// flushed predicts the effect of a disconnect on the receive queue.
func (v *vi) flushed() {
	const status = layout.DescriptorStatusDoneMask | layout.DescriptorStatusFlushedMask
	v.connected = false
	if v.message.open && !v.message.answer {
		v.cutOff(layout.DescriptorStatusFlushedMask)
	}
	v.message = message{}
	for v.head != nil {
		v.used(v.head, status|uint32(layout.StatusOperationReceive)<<layout.DescriptorStatusOperationLsb, 0, nil)
	}
}

const errorBits = layout.DescriptorErrorMask

// ended returns the status of a descriptor that completes with these errors.
func (d descriptor) ended(errors uint32) uint32 {
	echo := layout.StatusOperationSend
	switch d.operation() {
	case layout.DescriptorOperationRDMAWrite:
		echo = layout.StatusOperationRDMAWrite
	case layout.DescriptorOperationRDMARead:
		echo = layout.StatusOperationRDMARead
	}
	return layout.DescriptorStatusDoneMask | errors | uint32(echo)<<layout.DescriptorStatusOperationLsb
}

// readable reports whether the card can read a chunk of a descriptor.
func (v *vi) readable(p *posted, chunk int) bool {
	_, code := v.m.translate(p.queue.handle, v.tag, layout.AttAccessLocal, p.address()+uint64(chunk*layout.DescriptorFetchBytes), layout.DescriptorFetchBytes)
	return code == layout.AttErrorNone
}

// transmit makes the frames of a message and the completion of its descriptor.
func (v *vi) transmit(p *posted) (frames [][]byte, status uint32, moved int) {
	d := p.descriptor
	rdma := d.operation() == layout.DescriptorOperationRDMAWrite
	most := layout.MaxDataSegments
	if rdma {
		most++ // the address segment
	}
	// Errors of the descriptor itself. The card reads nothing from its peer, so
	// a fence never delays it.
	switch {
	case !v.connected:
		return nil, d.ended(layout.DescriptorStatusFlushedMask), 0
	case !rdma && d.operation() != layout.DescriptorOperationSend, d.control&layout.DescriptorControlReservedMask != 0, d.reserved != 0,
		int(d.segments) > most, rdma && d.segments == 0, rdma && d.all()[0].length != 0:
		return nil, d.ended(layout.DescriptorStatusFormatErrorMask), 0
	}
	g := gather{v: v, p: p, data: d.all()}
	var remote segment
	if rdma {
		remote = g.data[0]
		g.next = 1
	}
	sum := uint64(0)
	for _, s := range g.data[g.next:] {
		sum += uint64(s.length)
	}
	total := int(d.length)
	end := remote.address + uint64(total)
	switch {
	case chunkOf(len(g.data)-1) == 0 && sum != uint64(total):
		return nil, d.ended(layout.DescriptorStatusLengthErrorMask), 0
	case rdma && end < remote.address && end != 0: // beyond the last address
		return nil, d.ended(layout.DescriptorStatusFormatErrorMask), 0
	case total > v.max:
		return nil, d.ended(layout.DescriptorStatusLengthErrorMask), 0
	}
	for at, next := 0, v.next; at == 0 || at < total; at, next = at+layout.MaxPayload, next+1 {
		n := min(layout.MaxPayload, total-at)
		piece, wrong := g.take(n, at+n == total)
		if wrong != 0 {
			return frames, d.ended(wrong), at
		}
		h := viaFrame{
			destination: v.peerMac, source: v.m.mac, etherType: layout.EtherTypeVia, operation: layout.FrameOperationSend, version: layout.ViaVersion,
			payload: piece, length: n, to: v.peerVI, from: v.number(), sequence: next, address: uint64(total)<<32 | uint64(at),
		}
		if rdma {
			h.operation, h.address, h.handle = layout.FrameOperationRDMAWrite, remote.address+uint64(at), remote.handle
		}
		if d.control&layout.DescriptorControlImmediateMask != 0 {
			h.flags, h.immediate = layout.ViaHeaderFlagsImmediateMask, d.immediate
		}
		if at == 0 {
			h.flags |= layout.ViaHeaderFlagsFirstMask
		}
		if at+n == total {
			h.flags |= layout.ViaHeaderFlagsLastMask
		}
		frames = append(frames, h.encode())
	}
	return frames, d.ended(0), total
}

type gather struct {
	v    *vi
	p    *posted
	data []segment
	next int     // the next segment
	rest segment // of the present one
	from *region // of rest
}

// take reads n bytes. After the last ones no bytes may be left. The error is a
// status bit. A segment is checked completely when its first byte is required.
func (g *gather) take(n int, last bool) (piece []byte, wrong uint32) {
	for len(piece) < n || last {
		switch {
		case g.rest.length == 0 && g.next == len(g.data):
			if len(piece) < n {
				return nil, layout.DescriptorStatusLengthErrorMask
			}
			return piece, 0
		case g.rest.length == 0:
			if chunk := chunkOf(g.next); chunk > 0 && !g.v.readable(g.p, chunk) {
				return nil, layout.DescriptorStatusProtectionErrorMask
			}
			g.rest, g.from = g.data[g.next], nil
			g.next++
			continue
		case len(piece) == n:
			return nil, layout.DescriptorStatusLengthErrorMask
		}
		if g.from == nil {
			var code layout.AttError
			if g.from, code = g.v.m.translate(g.rest.handle, g.v.tag, layout.AttAccessLocal, g.rest.address, int(g.rest.length)); code != layout.AttErrorNone {
				return nil, layout.DescriptorStatusProtectionErrorMask
			}
		}
		k := min(n-len(piece), int(g.rest.length))
		piece = append(piece, g.from.bytes(int(g.rest.address-g.from.address), k)...)
		g.rest.address += uint64(k)
		g.rest.length -= uint32(k)
	}
	return piece, 0
}

// translate finds the region of an access, or the error.
func (m *machine) translate(handle uint32, tag uint16, access layout.AttAccess, address uint64, n int) (*region, layout.AttError) {
	g := m.regions[handle&layout.AttHandleValueIndexMask]
	switch {
	case g == nil || g.handle != handle:
		return nil, layout.AttErrorHandle
	case g.tag != tag:
		return nil, layout.AttErrorTag
	case access == layout.AttAccessRemoteWrite && !g.writable, access == layout.AttAccessRemoteRead && !g.readable:
		return nil, layout.AttErrorAccess
	case n > 0 && (address < g.address || address-g.address > uint64(g.length) || uint64(n) > uint64(g.length)-(address-g.address)):
		return nil, layout.AttErrorBounds
	}
	return g, layout.AttErrorNone
}
