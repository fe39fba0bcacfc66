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
	// Completion queue numbers of the two work queues plus one; 0 for none.
	SendCompletionQueue, ReceiveCompletionQueue int
}

// reliable reports whether messages arrive exactly once and in order, or else
// the connection ends [VIA].
func (a Attributes) reliable() bool { return a.Reliability != layout.ReliabilityUnreliable }

// VI is a virtual interface.
type VI struct {
	host       *Host
	index      int
	attributes Attributes
	state      layout.VIState
	peer       *VI // while connected

	send, receive queue
	head          *receiveDescriptor // of the receive queue, if the provider has read it
	message       *message           // in progress of arriving
	frames        int                // sent since the connect
	gap           bool               // frames to this VI were lost since the last arrival
	sending       bool               // a message of a reliable VI is in flight
	losing        bool               // the receiver ends the connection after that message

	work, arrivals limit
}

// queue is a work queue: the descriptors posted and not yet reaped, in order.
type queue struct{ posted []*posted }

type posted struct {
	address    uint64
	handle     uint32
	receive    bool   // on which queue
	lost       bool   // it, or one before it, was unreachable for the provider
	moved      uint32 // bytes sent when the provider stopped
	completion *Completion
	// Of a reliable VI's send queue:
	started bool        // some of it was sent
	read    bool        // it is an RDMA read
	outcome *Completion // pending until those before it complete
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

// limit bounds the progress of the provider; see Stop.
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

// CreateVI creates a VI in state Idle.
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

// VI returns a VI, nil if the number is unused.
func (h *Host) VI(index int) *VI { return h.vis[index] }

// Attributes returns the attributes.
func (v *VI) Attributes() Attributes { return v.attributes }

// Index returns the VI's number.
func (v *VI) Index() int { return v.index }

// State returns the VI's state.
func (v *VI) State() layout.VIState { return v.state }

// Outstanding returns how many descriptors are posted and not reaped.
func (v *VI) Outstanding() (send, receive int) { return len(v.send.posted), len(v.receive.posted) }

// Pending returns how many descriptors of the two queues, send and receive, are
// incomplete.
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

// Available returns how many receive descriptors later messages can use.
func (v *VI) Available() int {
	n := v.Pending()[1]
	if v.Receiving() {
		n--
	}
	return n
}

// Takes reports whether a message of the given size would find a receive
// descriptor without an error. The size is 0 for a message whose payload goes
// elsewhere.
func (v *VI) Takes(bytes int) bool {
	p := v.receive.next()
	if p == nil || v.Receiving() || v.head != nil && v.head.stale {
		return false
	}
	d, ok := v.host.read(p.address, p.handle, v.attributes.Tag)
	return ok && v.takes(d, bytes)
}

// Withdrawn is Takes for a receive descriptor whose only error is that its
// memory was deregistered, so it cannot complete.
func (v *VI) Withdrawn(bytes int) bool {
	return v.head != nil && v.head.stale && !v.Receiving() && v.takes(&v.head.descriptor, bytes)
}

func (v *VI) takes(d *descriptor, bytes int) bool {
	if bits, _ := d.checkReceive(v.attributes.MaxTransferSize); bits != 0 || uint64(bytes) > d.capacity() {
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

// Receiving reports whether a partly received message holds a receive
// descriptor.
func (v *VI) Receiving() bool { return v.message != nil && v.message.descriptor != nil }

// SetAttributes changes the attributes of an idle VI. The completion queues
// stay those of CreateVI [VIA].
func (v *VI) SetAttributes(a Attributes) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("model: set attributes of VI %d in state %v: %w", v.index, v.state, ErrState)
	}
	a.SendCompletionQueue, a.ReceiveCompletionQueue = v.attributes.SendCompletionQueue, v.attributes.ReceiveCompletionQueue
	v.attributes = a
	return nil
}

// Destroy destroys an idle VI with empty queues [VIA].
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
// equal. Receives posted before the connect stay [VIA].
func Connect(a, b *VI) error {
	switch {
	case a.state != layout.VIStateIdle || b.state != layout.VIStateIdle || a == b:
		return fmt.Errorf("model: connect VI %d in state %v and VI %d in state %v: %w", a.index, a.state, b.index, b.state, ErrState)
	case a.attributes.Reliability != b.attributes.Reliability, a.attributes.MaxTransferSize != b.attributes.MaxTransferSize:
		return fmt.Errorf("model: connect VI %d %+v and VI %d %+v: %w", a.index, a.attributes, b.index, b.attributes, ErrMatch)
	}
	a.peer, b.peer = b, a
	for _, v := range []*VI{a, b} {
		v.state, v.message, v.work, v.arrivals = layout.VIStateConnected, nil, limit{}, limit{}
		v.frames, v.gap, v.losing = 0, false, false
	}
	return nil
}

// Stop limits how far the provider proceeds before the connection ends, which
// VIA leaves open: sends limits the steps of the send queue, arrivals the
// frames received. A step of an unreliable VI is a frame, or a descriptor
// rejected without a frame. A step of a reliable VI is a message whose result
// the VI learns. The received frames are those of the peer's messages and of
// read responses. The limits hold until the next Connect.
func (v *VI) Stop(sends, arrivals int) {
	v.work, v.arrivals = limit{true, sends}, limit{true, arrivals}
}

// Disconnect ends the connection from this side. The outstanding descriptors of
// both queues complete in order, those not executed as flushed, and the VI
// becomes idle [VIA]. The peer loses its connection. On an idle VI Disconnect
// only flushes [vipl].
func (v *VI) Disconnect() {
	peer := v.leave()
	v.flush()
	v.state = layout.VIStateIdle
	if peer != nil {
		peer.lost()
	}
}

// leave takes the VI out of its connection and returns its former peer.
func (v *VI) leave() *VI {
	p := v.peer
	if v.state != layout.VIStateConnected {
		p = nil
	}
	v.peer = nil
	v.state = layout.VIStateError
	return p
}

// lost handles the loss of the connection caused by the peer: at every
// reliability level the VI enters the error state, flushes its queues and
// reports the loss [vipl].
func (v *VI) lost() {
	v.host.report(layout.AsyncErrorConnectionLost, v)
	v.leave()
	v.flush()
}

// breakDown handles an error that no descriptor can report and that stops the
// queue: at every reliability level the VI enters the error state and flushes
// its queues, and its peer loses the connection [vipl].
func (v *VI) breakDown() {
	if v.state == layout.VIStateError {
		return
	}
	peer := v.abandon()
	switch {
	case peer == nil:
	case peer.sending:
		peer.losing = true // the message in flight is acknowledged first
	default:
		peer.lost()
	}
}

// abandon breaks this side of the connection and returns the former peer. A
// reliable VI always reports the loss, also if it caused it [VIA].
func (v *VI) abandon() *VI {
	if v.attributes.reliable() && v.state == layout.VIStateConnected {
		v.host.report(layout.AsyncErrorConnectionLost, v)
	}
	peer := v.leave()
	v.flush()
	return peer
}

// flush completes the outstanding descriptors of both queues [VIA].
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

// complete writes the completion into the descriptor: immediate data if any,
// length, then status [VIA].
func (v *VI) complete(p *posted, c Completion) {
	c.Address = p.address
	p.completion = &c
	v.enter(p)
	d := layout.Descriptor(v.host.Memory(p.address, layout.DescriptorSize))
	if d == nil {
		return // the program posted an address without memory
	}
	if c.Status&layout.DescriptorStatusImmediateMask != 0 {
		d.SetImmediateData(c.Immediate)
	}
	d.SetLength(c.Length)
	d.SetStatus(c.Status)
}

// unreachable handles a descriptor that the provider cannot read. It has no
// status to report the error [VIA], and the provider cannot find the
// descriptors behind it [card].
func (v *VI) unreachable(q *queue) {
	for _, p := range q.posted {
		if p.completion == nil {
			p.lost = true
		}
	}
	v.host.report(layout.AsyncErrorPostDescriptor, v)
	v.breakDown()
}

// Taken is the result of a Done call.
type Taken int

// Results of SendDone and ReceiveDone.
const (
	NotDone Taken = iota // the head is incomplete
	Done                 // the head was reaped
	Empty                // the queue is empty
)

// SendDone reaps the head of the send queue if it is complete. Completions keep
// the order of the posts [VIA].
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
