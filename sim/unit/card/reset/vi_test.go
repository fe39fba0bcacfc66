// SPDX-License-Identifier: Apache-2.0

package reset_test

import (
	"bytes"

	"hvia/driver"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
	"hvia/vipl"
)

// Each VI has one registered buffer: a page of descriptors, then slots for the
// messages that it sends, the bytes that it writes, its receives, and the
// peer's writes.
const (
	places     = 8 // posted receives, and slots of each kind
	placeBytes = mem.PageBytes
	ringSlots  = mem.PageBytes / vipl.DescriptorBytes / 2 // of each queue

	outAt    = mem.PageBytes
	writeAt  = outAt + places*placeBytes
	inAt     = writeAt + places*placeBytes
	windowAt = inAt + places*placeBytes
	viBytes  = windowAt + places*placeBytes
)

// queue is a send or a receive queue since its VI was connected.
type queue struct {
	base   int // of its descriptors in the buffer
	bell   uint32
	posted int
	last   *vipl.Descriptor
}

type vi struct {
	n      *node
	k      int // the VI's number in the node
	index  uint32
	tag    uint16
	buffer *mem.Buffer
	handle uint32

	generation    uint8
	send, receive queue
	sent, wrote   int // messages and RDMA writes since it was connected
	judged        struct{ sent, wrote int }
	peer          end
}

func (n *node) newVI(k int) *vi {
	v := &vi{n: n, k: k, index: viIndex[k], tag: uint16(5 + k)}
	var pages []uint32
	v.buffer, pages = n.allocate(viBytes, bridge.UseRegion)
	v.handle = n.register(v.buffer, pages, v.tag)
	return v
}

func (v *vi) command(op layout.CommandOpcode, state layout.VIState, own end) {
	_, err := v.n.card.Command(op, func(c layout.Command) {
		c.SetIndex(v.index)
		x := layout.VIContext(c.Payload())
		x.SetAttributes(uint32(state)<<layout.VIContextAttributesStateLsb | uint32(layout.ReliabilityUnreliable)<<layout.VIContextAttributesReliabilityLsb |
			uint32(v.generation)<<layout.VIContextAttributesGenerationLsb | uint32(v.tag)<<layout.VIContextAttributesTagLsb | layout.VIContextAttributesEnableRDMAWriteMask)
		x.SetMaxTransferSize(placeBytes)
		mac := driver.NodeMAC(1 - v.n.index)
		copy(x.PeerMac(), mac[:])
		x.SetPeerVI(v.peer.number)
		x.SetSendSequence(own.sequence)
		x.SetReceiveSequence(v.peer.sequence)
	})
	v.n.check(err)
}

func (v *vi) create() { v.command(layout.CommandOpcodeCreateVI, layout.VIStateIdle, end{}) }

// disconnect makes the card flush posted descriptors, and checks the flush.
func (v *vi) disconnect() {
	v.command(layout.CommandOpcodeDisconnectVI, layout.VIStateIdle, end{})
	for _, q := range []*queue{&v.send, &v.receive} {
		for i := max(0, q.posted-ringSlots); i < q.posted; i++ {
			if s := v.descriptor(q, i).Status(); s&vipl.DescriptorDone == 0 {
				v.n.fail("VI %d is disconnected, and descriptor %d of %d at offset %#x has status %v", v.index, i, q.posted, q.base, s)
			}
		}
	}
}

// offer publishes the connection data for the peer.
func (v *vi) offer() end {
	n := v.n
	n.generation++
	v.generation = n.generation
	e := end{number: uint16(v.generation)<<8 | uint16(v.index), sequence: n.random.Uint32(), window: v.buffer.Address() + windowAt, handle: v.handle}
	n.shared.mu.Lock()
	defer n.shared.mu.Unlock()
	n.shared.ends[n.index][v.k] = e
	return e
}

// connect connects to the peer's published VI, with receives posted.
func (v *vi) connect(own end) {
	v.n.shared.mu.Lock()
	v.peer = v.n.shared.ends[1-v.n.index][v.k]
	v.n.shared.mu.Unlock()
	v.send = queue{bell: layout.DoorbellSend}
	v.receive = queue{base: ringSlots * vipl.DescriptorBytes, bell: layout.DoorbellReceive}
	v.sent, v.wrote = 0, 0
	v.judged.sent, v.judged.wrote = 0, 0
	v.command(layout.CommandOpcodeConnectVI, layout.VIStateConnected, own)
	for range places {
		v.listen()
	}
}

func (v *vi) descriptor(q *queue, i int) *vipl.Descriptor {
	at := q.base + i%ringSlots*vipl.DescriptorBytes
	return vipl.NewDescriptor(v.buffer.Bytes()[at:at+vipl.DescriptorBytes], v.buffer.Address()+uint64(at), vipl.MemHandle(v.handle))
}

func (v *vi) segment(at, bytes int) vipl.Segment {
	return vipl.Segment{Address: v.buffer.Address() + uint64(at), Handle: vipl.MemHandle(v.handle), Length: uint32(bytes)}
}

func (v *vi) post(q *queue, fill func(d *vipl.Descriptor) error) {
	d := v.descriptor(q, q.posted)
	v.n.check(fill(d))
	if q.last != nil {
		layout.Descriptor(q.last.Bytes()).SetNext(d.Address)
		layout.Descriptor(q.last.Bytes()).SetNextHandle(v.handle)
	}
	q.last = d
	q.posted++
	v.n.check(v.n.thread.Write(layout.PciBar1Base+v.index*layout.DoorbellPageBytes+q.bell, uint32(d.Address), uint32(d.Address>>32), v.handle))
}

func (v *vi) listen() {
	s := v.segment(inAt+v.receive.posted%places*placeBytes, placeBytes)
	v.post(&v.receive, func(d *vipl.Descriptor) error { return d.SetReceive(s) })
}

// messageKey identifies message i of a VI's connection at both ends.
func messageKey(node int, number uint16, write bool, i int) uint64 {
	key := uint64(node)<<63 | uint64(number)<<32 | uint64(i)
	if write {
		key |= 1 << 62
	}
	return key
}

func content(key uint64) []byte {
	b := make([]byte, 1+(key*0x9e3779b97f4a7c15>>40)%(placeBytes-1))
	pattern(b, key)
	return b
}

func (v *vi) number() uint16 { return uint16(v.generation)<<8 | uint16(v.index) }

func (v *vi) sendNext() {
	b := content(messageKey(v.n.index, v.number(), false, v.sent))
	at := outAt + v.sent%places*placeBytes
	copy(v.buffer.Bytes()[at:], b)
	half := len(b) / 2 // gathered from two pieces
	v.post(&v.send, func(d *vipl.Descriptor) error {
		if err := d.SetSend(v.segment(at, half), v.segment(at+half, len(b)-half)); err != nil {
			return err
		}
		if v.sent%2 == 1 {
			d.AttachImmediate(uint32(v.sent))
		}
		return nil
	})
	v.sent++
}

func (v *vi) writeNext() {
	b := content(messageKey(v.n.index, v.number(), true, v.wrote))
	place := v.wrote % places * placeBytes
	copy(v.buffer.Bytes()[writeAt+place:], b)
	v.post(&v.send, func(d *vipl.Descriptor) error {
		d.SetRDMAWrite(v.peer.window+uint64(place), vipl.MemHandle(v.peer.handle), v.segment(writeAt+place, len(b)))
		return nil
	})
	v.wrote++
}

// tell publishes how much was sent on a connection.
func (v *vi) tell() {
	s := v.n.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[v.n.index][v.k] = struct{ sent, wrote int }{v.sent, v.wrote}
}

// sentAll waits until all posted sends have completed without error.
func (v *vi) sentAll() {
	for i := max(0, v.send.posted-ringSlots); i < v.send.posted; i++ {
		d := v.descriptor(&v.send, i)
		v.awaitDone("send", d)
		if d.Status()&vipl.DescriptorErrorMask != 0 {
			v.n.fail("VI %d: descriptor %d of the send queue ended with %v", v.index, i, d.Status())
		}
	}
}

func (v *vi) awaitDone(what string, d *vipl.Descriptor) {
	at := int(d.Address-v.buffer.Address()) + layout.DescriptorStatusOffset
	v.n.await(what, v.buffer.Physical(nil, at, 4)[0], v.buffer.Bytes()[at:at+4], func(s uint32) bool { return vipl.DescriptorStatus(s)&vipl.DescriptorDone != 0 })
}

// verify waits for all messages of the peer and compares every byte. The peer's
// last message comes after its last write.
func (v *vi) verify() {
	n := v.n
	n.shared.mu.Lock()
	theirs := n.shared.count[1-n.index][v.k]
	n.shared.mu.Unlock()
	for ; v.judged.sent < theirs.sent; v.judged.sent++ {
		i := v.judged.sent
		want := content(messageKey(1-n.index, v.peer.number, false, i))
		d := v.descriptor(&v.receive, i)
		v.awaitDone("receive", d)
		at := inAt + i%places*placeBytes
		switch s := d.Status(); {
		case s&vipl.DescriptorErrorMask != 0:
			n.fail("VI %d: message %d came with %v", v.index, i, s)
		case d.Length() != len(want) || !bytes.Equal(v.buffer.Bytes()[at:at+len(want)], want):
			n.fail("VI %d: message %d of %d bytes, or some of them, is not what was sent (%d bytes)", v.index, i, d.Length(), len(want))
		}
		if data, ok := d.Immediate(); ok != (i%2 == 1) || ok && data != uint32(i) {
			n.fail("VI %d: message %d came with immediate data %#x (%v)", v.index, i, data, ok)
		}
		n.tally.messages++
	}
	for ; v.judged.wrote < theirs.wrote; v.judged.wrote++ {
		i := v.judged.wrote
		want := content(messageKey(1-n.index, v.peer.number, true, i))
		at := windowAt + i%places*placeBytes
		if !bytes.Equal(v.buffer.Bytes()[at:at+len(want)], want) {
			n.fail("VI %d: RDMA write %d of %d bytes is not in memory", v.index, i, len(want))
		}
		n.tally.messages++
	}
}

func (v *vi) refill() {
	for v.receive.posted < v.judged.sent+places {
		v.listen()
	}
}
