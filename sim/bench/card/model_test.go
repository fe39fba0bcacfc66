// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"encoding/binary"
	"slices"

	"hvia/layout"
)

// The model: what a card must do with a descriptor and with a frame, from the
// words of the layouts and of VIA, without any of the RTL's structure.

// vi is a VI of a machine.
type vi struct {
	m          *machine
	index      uint8
	generation uint8
	tag        uint16
	writable   bool
	max        int
	connected  bool
	peer       *machine
	peerMac    [6]byte
	peerVi     uint16
	next       uint32 // sequence number of the next frame out
	expected   uint32 // of the next frame in
	message    messageState

	queue  *region // descriptors
	posted []*posted
	count  int // posted ever
}

type messageState int

const (
	messageNone    messageState = iota // between messages
	messageOpen                        // a first frame came, the last one not yet
	messageDropped                     // the rest of a message that failed
)

func (v *vi) number() uint16 { return uint16(v.generation)<<8 | uint16(v.index) }

// posted is a descriptor that the card was told of.
type posted struct {
	descriptor
	slot   int // in the queue's region
	status uint32
}

// descriptor is what a descriptor says.
type descriptor struct {
	control         uint16
	segments        uint16
	reserved        uint32
	length          uint32
	remote          uint64
	remoteHandle    uint32
	addressReserved uint32
	data            uint64
	dataHandle      uint32
	dataLength      uint32
}

// rdmaWrite is a well-formed descriptor.
func rdmaWrite(from *region, offset, n int, to *region, at int) descriptor {
	return descriptor{
		control: uint16(layout.DescriptorOperationRdmaWrite) << layout.DescriptorControlOperationLsb, segments: 2, length: uint32(n),
		remote: to.address + uint64(at), remoteHandle: to.handle,
		data: from.address + uint64(offset), dataHandle: from.handle, dataLength: uint32(n),
	}
}

func (v *vi) context(state layout.ViState) func(c layout.ViContext) {
	return func(c layout.ViContext) {
		a := uint32(state)<<layout.ViContextAttributesStateLsb | uint32(layout.ReliabilityUnreliable)<<layout.ViContextAttributesReliabilityLsb |
			uint32(v.generation)<<layout.ViContextAttributesGenerationLsb | uint32(v.tag)<<layout.ViContextAttributesTagLsb
		if v.writable {
			a |= layout.ViContextAttributesEnableRdmaWriteMask
		}
		c.SetAttributes(a)
		c.SetMaxTransferSize(uint32(v.max))
		copy(c.PeerMac(), v.peerMac[:])
		c.SetPeerVi(v.peerVi)
		c.SetSendSequence(v.next)
		c.SetReceiveSequence(v.expected)
	}
}

func (m *machine) viCommand(op layout.CommandOpcode, v *vi, end layout.CommandStatus, state layout.ViState) uint32 {
	return m.do(op, end, func(c layout.Command) {
		c.SetIndex(uint32(v.index))
		v.context(state)(layout.ViContext(c.Payload()))
	})
}

// createVi makes a VI with a queue of its own.
func (m *machine) createVi(index uint8, tag uint16, writable bool) *vi {
	v := &vi{m: m, index: index, generation: uint8(m.random.Uint32()), tag: tag, writable: writable, max: 1 << 16}
	v.queue = m.register(0, pageBytes, tag, false)
	m.viCommand(layout.CommandOpcodeCreateVi, v, layout.CommandStatusDone, layout.ViStateIdle)
	m.vis[index] = v
	return v
}

// connect connects two VIs, each on its own machine's thread.
func (r *rig) connect(a, b *vi) {
	for _, v := range []*vi{a, b} {
		v.next = r.random.Uint32()
		if r.random.IntN(4) == 0 {
			v.next = -r.random.Uint32N(20) // wraps soon
		}
	}
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

// aim names the peer.
func (v *vi) aim(p *vi) { v.peer, v.peerMac, v.peerVi = p.m, p.m.mac, p.number() }

func (v *vi) connect() {
	v.m.viCommand(layout.CommandOpcodeConnectVi, v, layout.CommandStatusDone, layout.ViStateConnected)
	v.connected, v.message = true, messageNone
}

// pair makes a VI on each machine and connects them.
func (r *rig) pair(index [2]uint8, tag [2]uint16, writable [2]bool) (a, b *vi) {
	var made [2]*vi
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		made[n] = m.createVi(index[n], tag[n], writable[n])
	})
	r.connect(made[0], made[1])
	return made[0], made[1]
}

// post puts a descriptor into a VI's queue and rings its doorbell.
func (v *vi) post(d descriptor) *posted {
	if len(v.posted) == queueSlots-1 {
		v.m.fail("VI %d has %d descriptors outstanding", v.index, len(v.posted))
	}
	p := &posted{descriptor: d, slot: v.count % queueSlots}
	v.count++
	b := layout.Descriptor(make([]byte, layout.DescriptorFetchBytes))
	b.SetSegmentCount(d.segments)
	b.SetControl(d.control)
	b.SetLength(d.length)
	binary.LittleEndian.PutUint32(b[layout.DescriptorReservedOffset:], d.reserved)
	s := layout.AddressSegment(b[layout.DescriptorSize:])
	s.SetAddress(d.remote)
	s.SetHandle(d.remoteHandle)
	binary.LittleEndian.PutUint32(s[layout.AddressSegmentReservedOffset:], d.addressReserved)
	g := layout.DataSegment(b[layout.DescriptorSize+layout.AddressSegmentSize:])
	g.SetAddress(d.data)
	g.SetHandle(d.dataHandle)
	g.SetLength(d.dataLength)
	v.queue.fill(p.slot*layout.DescriptorFetchBytes, b)
	at := v.queue.address + uint64(p.slot*layout.DescriptorFetchBytes)
	if n := len(v.posted); n > 0 {
		// Only these bytes: the card may have written the others meanwhile.
		link := layout.Descriptor(make([]byte, layout.DescriptorSize))
		link.SetNext(at)
		link.SetNextHandle(v.queue.handle)
		v.queue.fill(v.posted[n-1].slot*layout.DescriptorFetchBytes, link[:layout.DescriptorSegmentCountOffset])
	}
	v.m.check(v.m.thread.Write(v.doorbell(), uint32(at), uint32(at>>32), v.queue.handle))
	v.m.counts[layout.CounterDoorbellSend]++
	v.posted = append(v.posted, p)
	return p
}

func (v *vi) doorbell() uint32 {
	return layout.PciBar1Base + uint32(v.index)*layout.DoorbellPageBytes + layout.DoorbellSend
}

func (v *vi) statusAddress(p *posted) (address uint32) {
	v.queue.pieces(p.slot*layout.DescriptorFetchBytes+layout.DescriptorStatusOffset, 4, func(a uint32, _, _ int) { address = a })
	return address
}

// finish waits until the card has completed all descriptors of a VI.
func (v *vi) finish() {
	for _, p := range v.posted {
		p.status = v.m.await("descriptor", v.statusAddress(p), func(s uint32) bool { return s&layout.DescriptorStatusDoneMask != 0 })
	}
}

// finish waits for all VIs of a machine.
func (m *machine) finish() {
	for i := range 256 {
		if v := m.vis[uint8(i)]; v != nil {
			v.finish()
		}
	}
}

// carry tells the model that all posted descriptors were carried out and all
// frames arrived.
func (r *rig) carry() {
	for _, m := range r.node {
		for i := range 256 {
			if v := m.vis[uint8(i)]; v != nil {
				v.carry()
			}
		}
	}
}

func (v *vi) carry() {
	for _, p := range v.posted {
		frames, status, moved := v.transmit(p.descriptor)
		v.sent(p, frames, status, moved)
	}
	v.posted = nil
}

// sent foretells what a descriptor does: its completion, and its frames on the
// wire and at the peer.
func (v *vi) sent(p *posted, frames [][]byte, status uint32, moved int) {
	v.completed(p, status, moved)
	v.next += uint32(len(frames))
	v.m.counts[layout.CounterTransmitFrame] += uint32(len(frames))
	v.m.counts[layout.CounterMacTransmitFrame] += uint32(len(frames))
	for _, f := range frames {
		v.peer.hear(f)
	}
}

// completed foretells what the card writes into a descriptor.
func (v *vi) completed(p *posted, status uint32, moved int) {
	v.m.expectWord(v.statusAddress(p)-4, uint32(moved))
	v.m.expectWord(v.statusAddress(p), status)
	v.m.counts[layout.CounterDescriptorFetched]++
	v.m.counts[layout.CounterCompletionWritten]++
	switch {
	case status&layout.DescriptorStatusFlushedMask != 0:
		v.m.counts[layout.CounterDescriptorFlushed]++
	case status&errorBits != 0:
		v.m.counts[layout.CounterDescriptorError]++
	default:
		v.m.counts[layout.CounterTransmitMessage]++
	}
}

const errorBits = layout.DescriptorStatusFormatErrorMask | layout.DescriptorStatusProtectionErrorMask | layout.DescriptorStatusLengthErrorMask |
	layout.DescriptorStatusPartialErrorMask | layout.DescriptorStatusTransportErrorMask

// ended is the status of a descriptor that completes with these errors.
func (d descriptor) ended(errors uint32) uint32 {
	echo := layout.StatusOperationSend
	switch layout.DescriptorOperation(d.control & layout.DescriptorControlOperationMask >> layout.DescriptorControlOperationLsb) {
	case layout.DescriptorOperationRdmaWrite:
		echo = layout.StatusOperationRdmaWrite
	case layout.DescriptorOperationRdmaRead:
		echo = layout.StatusOperationRdmaRead
	}
	return layout.DescriptorStatusDoneMask | errors | uint32(echo)<<layout.DescriptorStatusOperationLsb
}

// transmit makes the frames of a message and says how its descriptor completes.
func (v *vi) transmit(d descriptor) (frames [][]byte, status uint32, moved int) {
	n := 0
	if d.segments == 2 {
		n = int(d.dataLength)
	}
	end := d.remote + uint64(n)
	switch {
	case !v.connected:
		return nil, d.ended(layout.DescriptorStatusFlushedMask), 0
	// This card sends RDMA writes of at most one segment, and nothing else. It
	// reads nothing from its peer, so no fence ever holds.
	case d.control&^layout.DescriptorControlQueueFenceMask != uint16(layout.DescriptorOperationRdmaWrite)<<layout.DescriptorControlOperationLsb,
		d.segments != 1 && d.segments != 2, d.reserved != 0, d.addressReserved != 0:
		return nil, d.ended(layout.DescriptorStatusFormatErrorMask), 0
	case int(d.length) != n:
		return nil, d.ended(layout.DescriptorStatusLengthErrorMask), 0
	case end < d.remote && end != 0: // beyond the last address there is
		return nil, d.ended(layout.DescriptorStatusFormatErrorMask), 0
	case n > v.max:
		return nil, d.ended(layout.DescriptorStatusLengthErrorMask), 0
	}
	var payload []byte
	if n > 0 {
		g, code := v.m.translate(d.dataHandle, v.tag, layout.AttAccessLocal, d.data, n)
		if code != layout.AttErrorNone {
			return nil, d.ended(layout.DescriptorStatusProtectionErrorMask), 0
		}
		payload = g.bytes(int(d.data-g.address), n)
	}
	for at, next := 0, v.next; at == 0 || at < n; at, next = at+layout.MaxPayload, next+1 {
		piece := payload[at:min(n, at+layout.MaxPayload)]
		h := viaFrame{
			destination: v.peerMac, source: v.m.mac, etherType: layout.EtherTypeVia, operation: layout.FrameOperationRdmaWrite, version: layout.ViaVersion,
			payload: piece, length: len(piece), to: v.peerVi, from: v.number(), sequence: next, address: d.remote + uint64(at), handle: d.remoteHandle,
		}
		if at == 0 {
			h.flags |= layout.ViaHeaderFlagsFirstMask
		}
		if at+layout.MaxPayload >= n {
			h.flags |= layout.ViaHeaderFlagsLastMask
		}
		frames = append(frames, h.encode())
	}
	return frames, d.ended(0), n
}

// translate finds the region that an access names, or why there is none.
func (m *machine) translate(handle uint32, tag uint16, access layout.AttAccess, address uint64, n int) (*region, layout.AttError) {
	g := m.regions[handle&layout.AttHandleValueIndexMask]
	switch {
	case g == nil || g.handle != handle:
		return nil, layout.AttErrorHandle
	case g.tag != tag:
		return nil, layout.AttErrorTag
	case access == layout.AttAccessRemoteWrite && !g.writable:
		return nil, layout.AttErrorAccess
	case n > 0 && (address < g.address || address-g.address > uint64(g.length) || uint64(n) > uint64(g.length)-(address-g.address)):
		return nil, layout.AttErrorBounds
	}
	return g, layout.AttErrorNone
}

// viaFrame is a frame by its fields.
type viaFrame struct {
	destination, source [6]byte
	etherType           uint16
	operation           layout.FrameOperation
	version             uint8
	flags               uint8
	length              int // as the header says
	to, from            uint16
	sequence            uint32
	address             uint64
	handle, immediate   uint32
	payload             []byte
}

func (h viaFrame) encode() []byte {
	b := make([]byte, layout.HeaderBytes+len(h.payload))
	e := layout.EthernetHeader(b)
	copy(e.Destination(), h.destination[:])
	copy(e.Source(), h.source[:])
	e.SetEtherType(h.etherType)
	v := layout.ViaHeader(b[layout.EthernetHeaderSize:])
	v.SetOperationVersion(uint8(h.operation)<<layout.ViaHeaderOperationVersionOperationLsb | h.version<<layout.ViaHeaderOperationVersionVersionLsb)
	v.SetFlags(h.flags)
	v.SetPayloadLength(uint16(h.length))
	v.SetDestinationVi(h.to)
	v.SetSourceVi(h.from)
	v.SetSequence(h.sequence)
	v.SetAddress(h.address)
	v.SetHandle(h.handle)
	v.SetImmediate(h.immediate)
	copy(b[layout.HeaderBytes:], h.payload)
	return b
}

// hear is the arrival of a frame.
func (m *machine) hear(frame []byte) {
	if len(frame) < layout.MinFrame {
		frame = append(slices.Clone(frame), make([]byte, layout.MinFrame-len(frame))...)
	}
	m.counts[layout.CounterMacReceiveFrame]++
	e := layout.EthernetHeader(frame)
	own, group := [6]byte(e.Destination()) == m.mac, e.Destination()[0]&1 != 0
	via := e.EtherType() == layout.EtherTypeVia
	switch {
	case !own && (via || !group):
		m.counts[layout.CounterReceiveNotForUs]++
	case via:
		m.hearVia(frame)
	default:
		m.hearRaw(frame)
	}
}

func (m *machine) hearVia(frame []byte) {
	e, h := layout.EthernetHeader(frame), layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	operation := layout.FrameOperation(h.OperationVersion() & layout.ViaHeaderOperationVersionOperationMask)
	n := int(h.PayloadLength())
	if h.OperationVersion()>>layout.ViaHeaderOperationVersionVersionLsb != layout.ViaVersion || operation > layout.FrameOperationAcknowledge ||
		h.Flags()&layout.ViaHeaderFlagsReservedMask != 0 || n > layout.MaxPayload || n > len(frame)-layout.HeaderBytes {
		m.counts[layout.CounterReceiveMalformed]++
		return
	}
	v := m.vis[uint8(h.DestinationVi())]
	if v == nil || !v.connected || h.DestinationVi() != v.number() || [6]byte(e.Source()) != v.peerMac || h.SourceVi() != v.peerVi {
		m.counts[layout.CounterReceiveBadVi]++
		return
	}
	ahead := int32(h.Sequence() - v.expected)
	if ahead < 0 {
		m.counts[layout.CounterReceiveOldSequence]++
		return
	}
	v.expected = h.Sequence() + 1
	if ahead > 0 {
		m.counts[layout.CounterReceiveGap]++
	}
	first, last := h.Flags()&layout.ViaHeaderFlagsFirstMask != 0, h.Flags()&layout.ViaHeaderFlagsLastMask != 0
	was := v.message
	// What follows in the message is heard only if this frame goes well.
	v.message = messageDropped
	if last {
		v.message = messageNone
	}
	if operation != layout.FrameOperationRdmaWrite || h.Flags()&layout.ViaHeaderFlagsImmediateMask != 0 {
		m.counts[layout.CounterReceiveUnsupported]++
		if was == messageOpen {
			m.aborted(v)
		}
		return
	}
	if was == messageOpen && (first || ahead > 0) || was == messageNone && !first {
		m.aborted(v)
	}
	if !first && (was != messageOpen || ahead > 0) {
		return
	}
	code := layout.AttErrorAccess
	var g *region
	if v.writable {
		g, code = m.translate(h.Handle(), v.tag, layout.AttAccessRemoteWrite, h.Address(), n)
	}
	if code != layout.AttErrorNone {
		m.counts[layout.CounterReceiveProtection]++
		m.errors = append(m.errors, asyncError{layout.AsyncErrorRdmaWriteProtection, v.index})
		return
	}
	if !last {
		v.message = messageOpen
	}
	m.counts[layout.CounterReceiveFrame]++
	if n > 0 {
		payload := frame[layout.HeaderBytes : layout.HeaderBytes+n]
		g.pieces(int(h.Address()-g.address), n, func(address uint32, at, n int) { m.expect(address, payload[at:at+n]) })
	}
}

// aborted is the loss of a message that had begun.
func (m *machine) aborted(v *vi) {
	m.counts[layout.CounterReceiveAborted]++
	m.errors = append(m.errors, asyncError{layout.AsyncErrorRdmaWriteAbort, v.index})
}

func (m *machine) hearRaw(frame []byte) {
	ring := &m.receive
	if len(ring.filled) == 0 {
		m.counts[layout.CounterRawReceiveDropped]++
		return
	}
	b := ring.filled[0]
	ring.filled = ring.filled[1:]
	status := layout.RawEntryStatusDoneMask | uint32(len(frame))<<layout.RawEntryStatusLengthLsb
	if len(frame) > b.capacity {
		status |= layout.RawEntryStatusErrorMask
		m.counts[layout.CounterRawReceiveDropped]++
		m.counts[layout.CounterRawReceiveError]++
	} else {
		m.counts[layout.CounterRawReceive]++
		m.expect(b.address, frame)
	}
	m.expectWord(ring.base+uint32(b.entry)*layout.RawEntrySize+layout.RawEntryStatusOffset, status)
}

// inject puts frames on the wire as they are. It returns when the card has
// taken them from memory.
func (m *machine) inject(frames ...[]byte) {
	if len(frames) >= ringEntries {
		m.fail("%d frames for a ring of %d entries", len(frames), ringEntries)
	}
	ring := &m.transmit
	last := uint32(0)
	for _, f := range frames {
		room := pageBytes - len(f)
		b := rawBuffer{entry: ring.tail, address: ring.buffers[ring.tail]}
		if room > 0 {
			b.address += m.random.Uint32N(uint32(room + 1))
		}
		m.put(b.address, f)
		last = m.fillEntry(ring, b, len(f))
		bad := len(f) < layout.EthernetHeaderSize || len(f) > layout.MaxFrame
		m.counts[layout.CounterRawTransmit]++
		if bad {
			m.counts[layout.CounterRawTransmit]--
			m.counts[layout.CounterRawTransmitError]++
			m.expectWord(last, layout.RawEntryStatusDoneMask|layout.RawEntryStatusErrorMask)
			continue
		}
		m.counts[layout.CounterMacTransmitFrame]++
		m.expectWord(last, layout.RawEntryStatusDoneMask)
	}
	m.write(layout.RegisterRawTransmitTailOffset, uint32(ring.tail))
	m.await("raw frame", last, func(s uint32) bool { return s != 0 })
}

// offer posts buffers for raw frames.
func (m *machine) offer(capacities ...int) {
	ring := &m.receive
	for _, n := range capacities {
		if len(ring.filled) == ringEntries-1 {
			m.fail("the receive ring is full")
		}
		b := rawBuffer{entry: ring.tail, address: ring.buffers[ring.tail], capacity: n}
		if n < pageBytes {
			b.address += m.random.Uint32N(uint32(pageBytes - n + 1))
		}
		m.fillEntry(ring, b, n)
		ring.filled = append(ring.filled, b)
	}
	m.write(layout.RegisterRawReceiveTailOffset, uint32(ring.tail))
}

func (m *machine) fillEntry(ring *rawRing, b rawBuffer, length int) (status uint32) {
	e := layout.RawEntry(make([]byte, layout.RawEntrySize))
	e.SetAddress(b.address)
	e.SetLength(uint32(length))
	at := ring.base + uint32(b.entry)*layout.RawEntrySize
	m.put(at, e)
	ring.tail = (ring.tail + 1) % ringEntries
	return at + layout.RawEntryStatusOffset
}
