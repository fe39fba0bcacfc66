// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"hvia/layout"
)

// Attributes of a VI.
type Attributes struct {
	Reliability     layout.Reliability
	MaxTransferSize uint32 // bytes of the largest message
	Tag             uint16 // protection tag
	RDMAWrite       bool   // the peer may write through this VI
	RDMARead        bool   // the peer may read through this VI
	// Numbers of the completion queues of the two work queues, plus one; 0 for none.
	SendCompletionQueue, ReceiveCompletionQueue int
}

// reliable says whether what is sent arrives, exactly once and in order, or the
// connection ends [VIA].
func (a Attributes) reliable() bool { return a.Reliability != layout.ReliabilityUnreliable }

// VI is a virtual interface.
type VI struct {
	host       *Host
	index      int
	attributes Attributes
	state      layout.VIState
	peer       *VI // of a connected one

	send, receive queue
	head          *receiveDescriptor // of the receive queue, which the provider has read
	message       *message           // that has begun to arrive and has not ended
	frames        int                // sent since it was connected
	gap           bool               // frames were lost on the way here, since the last one that arrived
	sending       bool               // a message of a reliable VI is under way
	losing        bool               // and its receiver ends the connection behind it

	work, hearing limit
}

// queue is a work queue: what was posted and not yet taken back, in order.
type queue struct{ posted []*posted }

type posted struct {
	address    uint64
	handle     uint32
	receive    bool   // on which queue
	lost       bool   // the provider could not reach it, or forgot it behind one that it could not reach
	moved      uint32 // bytes that were sent of it when the provider was stopped
	completion *Completion
	// Of a reliable VI's send queue:
	begun   bool        // something of it was sent
	read    bool        // it is an RDMA read
	outcome *Completion // when those before it are complete
}

// next returns the oldest descriptor that is not complete.
func (q *queue) next() *posted {
	for _, p := range q.posted {
		if p.completion == nil {
			return p
		}
	}
	return nil
}

// limit is how far the provider gets; see Stop.
type limit struct {
	set  bool
	left int
}

func (l *limit) step() bool {
	if l.set && l.left == 0 {
		return false
	}
	l.left--
	return true
}

// CreateVI makes a VI in state Idle.
func (h *Host) CreateVI(index int, a Attributes) (*VI, error) {
	if h.vis[index] != nil {
		return nil, fmt.Errorf("model: create VI %d: %w", index, ErrIndex)
	}
	if err := h.tie(a); err != nil {
		return nil, fmt.Errorf("model: create VI %d: %w", index, err)
	}
	v := &VI{host: h, index: index, attributes: a, state: layout.VIStateIdle}
	h.vis[index] = v
	return v, nil
}

// VI returns a VI, nil if there is none of that number.
func (h *Host) VI(index int) *VI { return h.vis[index] }

// Attributes returns the attributes.
func (v *VI) Attributes() Attributes { return v.attributes }

// Index returns the VI's number.
func (v *VI) Index() int { return v.index }

// State returns the VI's state.
func (v *VI) State() layout.VIState { return v.state }

// Outstanding returns how many descriptors were posted and not taken back.
func (v *VI) Outstanding() (send, receive int) { return len(v.send.posted), len(v.receive.posted) }

// Pending returns how many descriptors of the two queues, send and receive, are
// not complete.
func (v *VI) Pending() (n [2]int) {
	for i, q := range []*queue{&v.send, &v.receive} {
		for _, p := range q.posted {
			if p.completion == nil {
				n[i]++
			}
		}
	}
	return n
}

// Available returns how many receive descriptors are left for messages that
// have not begun.
func (v *VI) Available() int {
	n := v.Pending()[1]
	if v.Receiving() {
		n--
	}
	return n
}

// Takes says whether a message of so many bytes finds a receive descriptor and no
// error in it; of a message whose payload goes elsewhere, 0.
func (v *VI) Takes(bytes int) bool {
	p := v.receive.next()
	if p == nil || v.Receiving() || v.head != nil && v.head.stale {
		return false
	}
	d, ok := v.host.read(p.address, p.handle, v.attributes.Tag)
	return ok && v.takes(d, bytes)
}

// Withdrawn is Takes for a receive descriptor that can not be completed, because
// its memory was deregistered, and has no other error.
func (v *VI) Withdrawn(bytes int) bool {
	return v.head != nil && v.head.stale && !v.Receiving() && v.takes(&v.head.descriptor, bytes)
}

func (v *VI) takes(d *descriptor, bytes int) bool {
	if bits, _ := d.refusedForReceive(v.attributes.MaxTransferSize); bits != 0 || uint64(bytes) > d.capacity() {
		return false
	}
	segments := cursor{descriptor: d}
	for left := uint64(bytes); left > 0; {
		piece, end, bits := segments.next(left)
		if end || bits != 0 {
			return false
		}
		left -= uint64(len(piece))
	}
	return true
}

// Receiving says whether a message has begun to arrive, and uses up a receive
// descriptor, and has not ended.
func (v *VI) Receiving() bool { return v.message != nil && v.message.descriptor != nil }

// SetAttributes changes the attributes, which an idle VI allows only [VIA]. The
// completion queues are those that it was made with [VIA].
func (v *VI) SetAttributes(a Attributes) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("model: set attributes of VI %d in state %v: %w", v.index, v.state, ErrState)
	}
	a.SendCompletionQueue, a.ReceiveCompletionQueue = v.attributes.SendCompletionQueue, v.attributes.ReceiveCompletionQueue
	v.attributes = a
	return nil
}

// Destroy ends an idle VI from whose queues everything was taken [VIA].
func (v *VI) Destroy() error {
	switch send, receive := v.Outstanding(); {
	case v.state != layout.VIStateIdle:
		return fmt.Errorf("model: destroy VI %d in state %v: %w", v.index, v.state, ErrState)
	case send+receive > 0:
		return fmt.Errorf("model: destroy VI %d with %d sends and %d receives: %w", v.index, send, receive, ErrInUse)
	}
	v.state = layout.VIStateFree
	delete(v.host.vis, v.index)
	return nil
}

// Connect connects two idle VIs. Reliability level and largest transfer must be
// equal [VIA]. Receives that were posted before stay [VIA].
func Connect(a, b *VI) error {
	switch {
	case a.state != layout.VIStateIdle || b.state != layout.VIStateIdle || a == b:
		return fmt.Errorf("model: connect VI %d in state %v and VI %d in state %v: %w", a.index, a.state, b.index, b.state, ErrState)
	case a.attributes.Reliability != b.attributes.Reliability, a.attributes.MaxTransferSize != b.attributes.MaxTransferSize:
		return fmt.Errorf("model: connect VI %d %+v and VI %d %+v: %w", a.index, a.attributes, b.index, b.attributes, ErrMatch)
	}
	a.peer, b.peer = b, a
	for _, v := range []*VI{a, b} {
		v.state, v.message, v.work, v.hearing = layout.VIStateConnected, nil, limit{}, limit{}
		v.frames, v.gap, v.losing = 0, false, false
	}
	return nil
}

// Stop says how far the provider gets with a VI's work before the connection
// ends, which VIA leaves open: with its own sends so many steps, and with what
// arrives so many frames. A step of an unreliable VI is a frame, or a descriptor
// that is refused without one; a step of a reliable VI is a message of which it
// learns what became of it. The frames that arrive are those of the peer's
// messages and of the answers to its own RDMA reads. It holds until the next
// Connect.
func (v *VI) Stop(sends, arrivals int) {
	v.work, v.hearing = limit{true, sends}, limit{true, arrivals}
}

// Disconnect ends the connection from this side: everything outstanding on both
// queues completes in order, what was not carried out as flushed, and the VI is
// idle [VIA]. The peer learns that its connection is lost. On an idle VI it
// only flushes [vipl].
func (v *VI) Disconnect() {
	peer := v.leave()
	v.flush()
	v.state = layout.VIStateIdle
	if peer != nil {
		peer.lost()
	}
}

// leave takes the VI out of its connection, and returns the peer that it had.
func (v *VI) leave() *VI {
	p := v.peer
	if v.state != layout.VIStateConnected {
		p = nil
	}
	v.peer = nil
	v.state = layout.VIStateError
	return p
}

// lost is the loss of the connection by what the peer did: the VI goes to the
// error state, is flushed, and its program is told, at every reliability level
// [vipl].
func (v *VI) lost() {
	v.host.report(layout.AsyncErrorConnectionLost, v)
	v.leave()
	v.flush()
}

// breakDown is what an error does that no descriptor can tell, and after which
// the provider cannot go on with the queue: the VI goes to the error state at
// every reliability level, is flushed, and its peer loses the connection [vipl].
func (v *VI) breakDown() {
	if v.state == layout.VIStateError {
		return
	}
	peer := v.abandon()
	switch {
	case peer == nil:
	case peer.sending:
		peer.losing = true // what it sends just now is acknowledged before
	default:
		peer.lost()
	}
}

// abandon is what breakDown does to this side; it returns the peer that the VI
// had. A reliable VI's program is told that its connection is lost, whoever has
// broken it [VIA].
func (v *VI) abandon() *VI {
	if v.attributes.reliable() && v.state == layout.VIStateConnected {
		v.host.report(layout.AsyncErrorConnectionLost, v)
	}
	peer := v.leave()
	v.flush()
	return peer
}

// flush completes what is outstanding on both queues [VIA].
func (v *VI) flush() {
	v.closeMessage(flushed)
	for p := v.receive.next(); p != nil; p = v.receive.next() {
		v.flushReceive(p)
	}
	v.head = nil
	for p := v.send.next(); p != nil; p = v.send.next() {
		v.flushSend(p)
	}
}

// complete writes the completion into the descriptor: immediate data if there
// is any, length, and status last [VIA].
func (v *VI) complete(p *posted, c Completion) {
	c.Address = p.address
	p.completion = &c
	v.enter(p)
	d := layout.Descriptor(v.host.Memory(p.address, layout.DescriptorSize))
	if d == nil {
		return // the program told an address where it has no memory
	}
	if c.Status&layout.DescriptorStatusImmediateMask != 0 {
		d.SetImmediateData(c.Immediate)
	}
	d.SetLength(c.Length)
	d.SetStatus(c.Status)
}

// unreachable is a descriptor that the provider cannot read: it has no status
// to tell the error [VIA], and nothing behind it can be found [card].
func (v *VI) unreachable(q *queue) {
	for _, p := range q.posted {
		if p.completion == nil {
			p.lost = true
		}
	}
	v.host.report(layout.AsyncErrorPostDescriptor, v)
	v.breakDown()
}

// Taken is what a Done call found at the head of a work queue.
type Taken int

// Results of SendDone and ReceiveDone.
const (
	NotDone Taken = iota // the head is not complete
	Done                 // the head was taken
	Empty                // there is nothing on the queue
)

// SendDone takes the head of the send queue if it is complete. Completions are
// taken in the order of the posts [VIA].
func (v *VI) SendDone() (Completion, Taken) { return v.send.take() }

// ReceiveDone is SendDone for the receive queue.
func (v *VI) ReceiveDone() (Completion, Taken) { return v.receive.take() }

func (q *queue) take() (Completion, Taken) {
	if len(q.posted) == 0 {
		return Completion{}, Empty
	}
	p := q.posted[0]
	if p.completion == nil {
		return Completion{}, NotDone
	}
	q.posted = q.posted[1:]
	return *p.completion, Done
}

func (v *VI) post(q *queue, address uint64, handle uint32) (*posted, error) {
	if len(q.posted) == v.host.fabric.depth {
		return nil, fmt.Errorf("model: VI %d: %d descriptors are outstanding: %w", v.index, len(q.posted), ErrOverrun)
	}
	p := &posted{address: address, handle: handle, receive: q == &v.receive}
	q.posted = append(q.posted, p)
	return p, nil
}
