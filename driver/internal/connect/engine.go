// SPDX-License-Identifier: Apache-2.0

// Package connect is the agents' connection protocol: client and server find
// each other by a discriminator, two peers by a pair of them; they compare
// attributes and exchange VI numbers. It holds no thread and no clock: its
// owner passes in frames and times, and executes what the protocol decides. So
// a test can run two engines back to back over any wire.
package connect

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"hvia/layout"
)

// Errors of the protocol.
var (
	ErrTimeout      = errors.New("no answer within the time allowed")
	ErrNoMatch      = errors.New("no program waits at that address")
	ErrRejected     = errors.New("the remote program rejected the connection")
	ErrReliability  = errors.New("the reliability levels differ")
	ErrTransferSize = errors.New("the largest transfer sizes differ")
	ErrUnknown      = errors.New("no such connection request")
	ErrCancelled    = errors.New("the wait was given up")
)

// Never is a deadline that never passes.
const Never int64 = math.MaxInt64

// Attributes are a VI's attributes in the handshake.
type Attributes struct {
	Reliability     uint8    // one VIA reliability bit
	Rights          uint8    // ConnectionFrameRights bits
	MaxTransferSize uint32   // bytes
	Regions         []Region // advertised to the peer, at most MaxOfferedRegions
}

// Region is registered memory that a program advertises to the peer of a
// connection, as registered at that time: later changes are not reported.
type Region struct {
	Address, Length uint64
	Handle          uint32
	Rights          uint8 // OfferedRegionRights bits
}

// Compatible returns an error if two VIs cannot be connected.
func (a Attributes) Compatible(b Attributes) error {
	switch {
	case a.Reliability != b.Reliability:
		return fmt.Errorf("reliability %#x here, %#x there: %w", a.Reliability, b.Reliability, ErrReliability)
	case a.MaxTransferSize != b.MaxTransferSize:
		return fmt.Errorf("%d bytes here, %d there: %w", a.MaxTransferSize, b.MaxTransferSize, ErrTransferSize)
	}
	return nil
}

// Endpoint is a local VI as the protocol sees it.
type Endpoint struct {
	Index      int    // index in the card
	Number     uint16 // number on the wire
	Sequence   uint32 // of the first frame it sends
	Attributes Attributes
	Offer      Offer // at the reliable levels
}

// Offer has a card's limits for its peer at the reliable levels. Two cards
// agree on the smaller of both.
type Offer struct {
	Window    uint8 // unacknowledged frames that it accepts, 1 or more
	ReadLimit uint8 // RDMA reads that it serves at a time, 1 or more
}

func (o Offer) agreed(p Offer) Offer {
	return Offer{Window: min(o.Window, p.Window), ReadLimit: min(o.ReadLimit, p.ReadLimit)}
}

// Link has what the card needs to connect a VI.
type Link struct {
	Peer            layout.MAC
	PeerNumber      uint16
	SendSequence    uint32
	ReceiveSequence uint32
	Agreed          Offer // at the reliable levels
}

// Incoming is a connection request that a waiting program received.
type Incoming struct {
	ID            uint32
	Peer          layout.MAC
	Discriminator string // the requester's own
	Attributes    Attributes
}

// Owner executes the protocol's decisions.
type Owner interface {
	// Send puts an Ethernet frame on the wire. It may be lost.
	Send(frame []byte)
	// Connect connects a VI; Disconnect makes it idle and flushes its queues.
	Connect(vi Endpoint, link Link) error
	Disconnect(index int)
	// Lost reports that the peer left; the VI has been disconnected.
	Lost(index int)
}

// Timing sets the protocol's repetitions, in picoseconds.
type Timing struct {
	First  int64 // before the first repetition; doubles each time
	Limit  int64 // largest interval of repetitions
	Tries  int   // repetitions of Accept and Disconnect before giving up
	Memory int   // ended connections that still get the right reply to late frames
}

// DefaultTiming suits a fabric whose round trip is well below a millisecond.
var DefaultTiming = Timing{First: 1e9, Limit: 16e9, Tries: 12, Memory: 256}

type state int

const (
	requesting state = iota // initiator: Request repeated
	undecided               // responder: the program has not decided
	accepting               // responder: connected, Accept repeated
	open                    // connected
	broken                  // the card broke it; the Disconnect is not sent yet
	closing                 // left: Disconnect repeated
	withdrawn               // responder: the initiator gave up before the program decided
)

type connection struct {
	state     state
	initiator bool
	peers     bool   // peer-to-peer: both sides request
	local     uint32 // local identifier
	remote    uint32 // the other side's, 0 = unknown
	cookie    uint64
	peer      layout.MAC
	waiter    uint32 // owner of the program, for undecided ones
	endpoint  Endpoint
	attached  bool // endpoint belongs to this connection
	theirs    Attributes
	offered   Offer // by the initiator
	link      Link
	discr     string // discriminator of the remote end
	own       string // the initiator's
	deadline  int64
	next      int64
	interval  int64
	tries     int
	reason    layout.ConnectionReason
	requested func(Attributes, error)
	accepted  func(error)
}

type waiting struct {
	owner    uint32
	discr    string
	deadline int64
	done     func(Incoming, error)
}

// latecomer identifies a request at its responder.
type latecomer struct {
	peer      layout.MAC
	cookie    uint64
	initiator uint32
}

// Engine is the protocol at one node. One goroutine uses it.
type Engine struct {
	mac    layout.MAC
	cookie uint64
	timing Timing
	owner  Owner

	nextID   uint32
	list     []*connection // by age
	byID     map[uint32]*connection
	requests map[latecomer]*connection // at the responder
	ended    map[latecomer]layout.ConnectionReason
	endedAge []latecomer
	waits    []*waiting
	counters Counters
}

// Counters count events, for diagnosis and for tests.
type Counters struct {
	Sent, Received, Malformed, Foreign, Repeated, Unmatched uint64
}

// New returns the engine of the node with this MAC address. The cookie
// distinguishes this run of the node from earlier ones; identifiers count from
// 1.
func New(mac layout.MAC, cookie uint64, timing Timing, owner Owner) *Engine {
	return &Engine{
		mac: mac, cookie: cookie, timing: timing, owner: owner, nextID: 1,
		byID: map[uint32]*connection{}, requests: map[latecomer]*connection{}, ended: map[latecomer]layout.ConnectionReason{},
	}
}

// Counters returns the counts so far.
func (e *Engine) Counters() Counters { return e.counters }

func (e *Engine) add(c *connection) {
	c.local = e.nextID
	e.nextID++
	if e.nextID == 0 { // 0 means unknown
		e.nextID = 1
	}
	e.list, e.byID[c.local] = append(e.list, c), c
	if !c.initiator {
		e.requests[c.key()] = c
	}
}

func (c *connection) key() latecomer { return latecomer{c.peer, c.cookie, c.remote} }

// drop forgets a connection. A responder records the reason, because the
// initiator may still repeat its request.
func (e *Engine) drop(c *connection, reason layout.ConnectionReason) {
	delete(e.byID, c.local)
	e.list = slices.DeleteFunc(e.list, func(o *connection) bool { return o == c })
	if c.initiator {
		return
	}
	k := c.key()
	delete(e.requests, k)
	if _, known := e.ended[k]; !known {
		e.endedAge = append(e.endedAge, k)
		if len(e.endedAge) > e.timing.Memory {
			delete(e.ended, e.endedAge[0])
			e.endedAge = e.endedAge[1:]
		}
	}
	e.ended[k] = reason
}

// Wait passes the next request for discriminator to done, or ErrTimeout at the
// deadline.
func (e *Engine) Wait(owner uint32, discriminator string, deadline int64, done func(Incoming, error)) {
	e.waits = append(e.waits, &waiting{owner, discriminator, deadline, done})
}

// Request requests a connection of vi with the program that waits at (peer,
// discriminator). The VI belongs to the protocol until done is called.
func (e *Engine) Request(now int64, vi Endpoint, peer layout.MAC, discriminator, own string, deadline int64, done func(Attributes, error)) {
	c := &connection{
		state: requesting, initiator: true, cookie: e.cookie, peer: peer, endpoint: vi, attached: true,
		discr: discriminator, own: own, deadline: deadline, requested: done,
	}
	e.add(c)
	e.repeat(now, c)
}

// RequestPeer requests a connection with the peer's VI that requests one in the
// same way, with the discriminators exchanged. Until then, or until the
// deadline, the VI belongs to the protocol. The side with the smaller MAC
// address is the initiator.
func (e *Engine) RequestPeer(now int64, vi Endpoint, peer layout.MAC, discriminator, own string, deadline int64, done func(Attributes, error)) {
	c := &connection{
		state: requesting, initiator: true, peers: true, cookie: e.cookie, peer: peer, endpoint: vi, attached: true,
		discr: discriminator, own: own, deadline: deadline, requested: done,
	}
	e.add(c)
	e.repeat(now, c)
}

// Accept connects vi with the requester. On a mismatch of attributes it sends
// nothing, and the request stays: the caller may try another VI, or Reject.
func (e *Engine) Accept(now int64, id uint32, vi Endpoint, done func(error)) {
	c := e.byID[id]
	if c != nil && c.state == withdrawn {
		e.drop(c, layout.ConnectionReasonClosed)
		done(fmt.Errorf("request %d was given up by its sender: %w", id, ErrTimeout))
		return
	}
	if c == nil || c.initiator || c.state != undecided {
		done(fmt.Errorf("request %d: %w", id, ErrUnknown))
		return
	}
	if err := vi.Attributes.Compatible(c.theirs); err != nil {
		done(err)
		return
	}
	c.link.SendSequence, c.link.Agreed = vi.Sequence, vi.Offer.agreed(c.offered)
	if err := e.owner.Connect(vi, c.link); err != nil {
		done(err)
		return
	}
	c.state, c.endpoint, c.attached, c.accepted = accepting, vi, true, done
	c.interval, c.tries, c.deadline = 0, 0, Never
	e.repeat(now, c)
}

// Reject rejects a request.
func (e *Engine) Reject(id uint32) error {
	c := e.byID[id]
	if c != nil && c.state == withdrawn {
		e.drop(c, layout.ConnectionReasonClosed)
		return nil
	}
	if c == nil || c.initiator || c.state != undecided {
		return fmt.Errorf("request %d: %w", id, ErrUnknown)
	}
	e.reject(c, layout.ConnectionReasonRejected)
	return nil
}

func (e *Engine) reject(c *connection, reason layout.ConnectionReason) {
	e.drop(c, reason)
	e.send(c, layout.ConnectionTypeReject, reason)
}

// Disconnect ends the connection of a VI, if it has one, and notifies the peer.
// It reports whether there was one. The VI is free at once; the Disconnect
// frame is repeated in the background.
func (e *Engine) Disconnect(now int64, index int) bool {
	c := e.of(index)
	if c == nil {
		return false
	}
	reason := layout.ConnectionReasonClosed
	if c.peers && c.state == requesting {
		reason = layout.ConnectionReasonRejected // a peer that has accepted already is not connected
	}
	e.leave(now, c, reason, ErrCancelled)
	return true
}

// Break ends the connection of a VI, if it has one, after the card has broken
// it. The VI is free at once, and the caller has to disconnect it in the card.
// The Disconnect to the peer waits for the delay: by then the peer's card has
// reported the error. If the peer leaves by itself, nothing is sent.
func (e *Engine) Break(now int64, index int, delay int64) bool {
	c := e.of(index)
	if c == nil || c.state != open && c.state != accepting {
		return false
	}
	c.attached = false
	c.state, c.next, c.deadline = broken, now+delay, Never
	// The side that broke it was connected, even if the Confirm was lost.
	e.finish(c, nil)
	return true
}

func (e *Engine) of(index int) *connection {
	for _, c := range e.list {
		if c.attached && c.endpoint.Index == index {
			return c
		}
	}
	return nil
}

// Peer returns the address of a VI's peer.
func (e *Engine) Peer(index int) (layout.MAC, bool) {
	c := e.of(index)
	if c == nil || c.state != open && c.state != accepting {
		return layout.MAC{}, false
	}
	return c.peer, true
}

// Waiter returns the owner of the wait that received an undecided request.
func (e *Engine) Waiter(id uint32) (owner uint32, ok bool) {
	c := e.byID[id]
	if c == nil || c.state != undecided && c.state != withdrawn {
		return 0, false
	}
	return c.waiter, true
}

// leave disconnects the VI of c and starts to notify the peer; the waiter for c
// gets err.
func (e *Engine) leave(now int64, c *connection, reason layout.ConnectionReason, err error) {
	if c.attached && c.state != requesting {
		e.owner.Disconnect(c.endpoint.Index)
	}
	c.attached = false
	c.state, c.reason, c.interval, c.tries, c.deadline = closing, reason, 0, 0, Never
	e.repeat(now, c)
	e.finish(c, err)
}

func (e *Engine) finish(c *connection, err error) {
	if f := c.requested; f != nil {
		c.requested = nil
		f(c.theirs, err)
	}
	if f := c.accepted; f != nil {
		c.accepted = nil
		f(err)
	}
}

// Cancel cancels a program's waits, and rejects its undecided requests.
func (e *Engine) Cancel(owner uint32) {
	var gone []*waiting
	e.waits = slices.DeleteFunc(e.waits, func(w *waiting) bool {
		if w.owner == owner {
			gone = append(gone, w)
		}
		return w.owner == owner
	})
	for _, w := range gone {
		w.done(Incoming{}, ErrCancelled)
	}
	for _, c := range slices.Clone(e.list) {
		switch {
		case c.waiter != owner:
		case c.state == undecided:
			e.reject(c, layout.ConnectionReasonClosed)
		case c.state == withdrawn:
			e.drop(c, layout.ConnectionReasonClosed)
		}
	}
}

// Quiet reports whether nothing is left that must be repeated.
func (e *Engine) Quiet() bool {
	return !slices.ContainsFunc(e.list, func(c *connection) bool { return c.next != Never })
}

// Next returns the time of the next due Tick.
func (e *Engine) Next() int64 {
	next := Never
	for _, w := range e.waits {
		next = min(next, w.deadline)
	}
	for _, c := range e.list {
		next = min(next, c.next, c.deadline)
	}
	return next
}

// Tick does the work that is due at now.
func (e *Engine) Tick(now int64) {
	var late []*waiting
	e.waits = slices.DeleteFunc(e.waits, func(w *waiting) bool {
		if w.deadline <= now {
			late = append(late, w)
		}
		return w.deadline <= now
	})
	for _, w := range late {
		w.done(Incoming{}, ErrTimeout)
	}
	for _, c := range slices.Clone(e.list) {
		switch {
		case e.byID[c.local] != c:
		case c.deadline <= now:
			e.leave(now, c, layout.ConnectionReasonTimedOut, ErrTimeout)
		case c.next > now:
		case c.state == accepting && c.tries >= e.timing.Tries:
			e.leave(now, c, layout.ConnectionReasonTimedOut, ErrTimeout)
		case c.state == broken:
			e.leave(now, c, layout.ConnectionReasonClosed, nil)
		case c.state == closing && c.tries >= e.timing.Tries:
			e.drop(c, c.reason)
		default:
			e.counters.Repeated++
			e.repeat(now, c)
		}
	}
}

// repeat sends the frame that c's state repeats and sets its timer.
func (e *Engine) repeat(now int64, c *connection) {
	c.tries++
	if c.interval == 0 {
		c.interval = e.timing.First
	} else {
		c.interval = min(2*c.interval, e.timing.Limit)
	}
	c.next = now + c.interval
	switch c.state {
	case requesting:
		e.send(c, c.question(), 0)
	case accepting:
		e.send(c, layout.ConnectionTypeAccept, 0)
	case closing:
		e.send(c, layout.ConnectionTypeDisconnect, c.reason)
	default:
		c.next = Never
	}
}

func (c *connection) question() layout.ConnectionType {
	if c.peers {
		return layout.ConnectionTypePeerRequest
	}
	return layout.ConnectionTypeRequest
}

const headerBytes = layout.EthernetHeaderSize

func (e *Engine) frame(to layout.MAC, kind layout.ConnectionType, reason layout.ConnectionReason) ([]byte, layout.ConnectionFrame) {
	b := make([]byte, headerBytes+layout.ConnectionFrameSize, headerBytes+layout.ConnectionFrameSize+regionsRoom)
	h := layout.EthernetHeader(b)
	copy(h.Destination(), to[:])
	copy(h.Source(), e.mac[:])
	h.SetEtherType(layout.EtherTypeConnection)
	f := layout.ConnectionFrame(b[headerBytes:])
	f.SetVersion(layout.ConnectionVersion)
	f.SetType(uint8(kind))
	f.SetReason(uint8(reason))
	return b, f
}

func (e *Engine) send(c *connection, kind layout.ConnectionType, reason layout.ConnectionReason) {
	b, f := e.frame(c.peer, kind, reason)
	f.SetCookie(c.cookie)
	if c.initiator {
		f.SetInitiator(c.local)
		f.SetResponder(c.remote)
	} else {
		f.SetInitiator(c.remote)
		f.SetResponder(c.local)
		f.SetToInitiator(1)
	}
	if introduces(kind) {
		a := c.endpoint.Attributes
		f.SetVI(c.endpoint.Number)
		f.SetSequence(c.endpoint.Sequence)
		f.SetReliability(a.Reliability)
		f.SetRights(a.Rights)
		f.SetMaxTransferSize(a.MaxTransferSize)
		if reliable(a.Reliability) {
			f.SetWindow(c.endpoint.Offer.Window)
			f.SetReadLimit(c.endpoint.Offer.ReadLimit)
		}
		b = appendRegions(b, a.Regions)
		f.SetRegions(uint8(len(a.Regions)))
	}
	if kind == layout.ConnectionTypeRequest || kind == layout.ConnectionTypePeerRequest {
		f.SetDiscriminatorLength(uint16(copy(f.Discriminator(), c.discr)))
		f.SetLocalLength(uint16(copy(f.LocalDiscriminator(), c.own)))
	}
	e.counters.Sent++
	e.owner.Send(b)
}

func introduces(kind layout.ConnectionType) bool {
	return kind == layout.ConnectionTypeRequest || kind == layout.ConnectionTypePeerRequest || kind == layout.ConnectionTypeAccept
}

// answer replies to a frame of an unknown connection.
func (e *Engine) answer(to layout.MAC, q layout.ConnectionFrame, kind layout.ConnectionType, reason layout.ConnectionReason) {
	b, f := e.frame(to, kind, reason)
	f.SetCookie(q.Cookie())
	f.SetInitiator(q.Initiator())
	f.SetResponder(q.Responder())
	f.SetToInitiator(1 - q.ToInitiator())
	e.counters.Sent++
	e.owner.Send(b)
}

// Frame takes an Ethernet frame from the wire. It counts and drops frames of
// other protocols and malformed ones.
func (e *Engine) Frame(now int64, b []byte) {
	if len(b) < headerBytes+layout.ConnectionFrameSize {
		e.counters.Malformed++
		return
	}
	h, f := layout.EthernetHeader(b), layout.ConnectionFrame(b[headerBytes:])
	if h.EtherType() != layout.EtherTypeConnection || !bytes.Equal(h.Destination(), e.mac[:]) {
		e.counters.Foreign++
		return
	}
	from := layout.MAC(h.Source())
	kind := layout.ConnectionType(f.Type())
	wellFormed := f.Version() == layout.ConnectionVersion && f.ToInitiator() <= 1 && f.Initiator() != 0 &&
		f.DiscriminatorLength() <= layout.MaxDiscriminator && f.LocalLength() <= layout.MaxDiscriminator &&
		kind >= layout.ConnectionTypeRequest && kind <= layout.ConnectionTypePeerRequest
	switch kind { // direction
	case layout.ConnectionTypeRequest, layout.ConnectionTypePeerRequest, layout.ConnectionTypeConfirm:
		wellFormed = wellFormed && f.ToInitiator() == 0
	case layout.ConnectionTypePending, layout.ConnectionTypeAccept, layout.ConnectionTypeReject:
		wellFormed = wellFormed && f.ToInitiator() == 1
	}
	proposes := introduces(kind)
	if proposes && reliable(f.Reliability()) {
		wellFormed = wellFormed && f.Window() > 0 && f.ReadLimit() > 0
	}
	regions, ok := parseRegions(b[headerBytes+layout.ConnectionFrameSize:], int(f.Regions()))
	if !wellFormed || !ok || !proposes && len(regions) > 0 {
		e.counters.Malformed++
		return
	}
	e.counters.Received++
	if kind == layout.ConnectionTypeRequest {
		e.request(now, from, f, regions)
		return
	}
	if kind == layout.ConnectionTypePeerRequest {
		e.peerRequest(now, from, f, regions)
		return
	}
	c := e.match(from, f)
	if kind == layout.ConnectionTypeDisconnect {
		e.answer(from, f, layout.ConnectionTypeDisconnectAck, 0)
		if c != nil {
			e.left(now, c, layout.ConnectionReason(f.Reason()))
		}
		return
	}
	if c == nil {
		e.counters.Unmatched++
		if kind == layout.ConnectionTypeAccept || kind == layout.ConnectionTypeConfirm {
			e.answer(from, f, layout.ConnectionTypeDisconnect, layout.ConnectionReasonUnknown)
		}
		return
	}
	switch kind {
	case layout.ConnectionTypePending:
		if c.state == requesting {
			c.remote = f.Responder()
		}
	case layout.ConnectionTypeAccept:
		e.accept(now, c, f, regions)
	case layout.ConnectionTypeConfirm:
		if c.state == accepting {
			c.state, c.next, c.deadline = open, Never, Never
			e.finish(c, nil)
		}
	case layout.ConnectionTypeReject:
		if c.state == requesting {
			e.drop(c, 0)
			c.attached = false
			e.finish(c, rejection(layout.ConnectionReason(f.Reason())))
		}
	case layout.ConnectionTypeDisconnectAck:
		if c.state == closing {
			e.drop(c, c.reason)
		}
	}
}

func rejection(r layout.ConnectionReason) error {
	switch r {
	case layout.ConnectionReasonNoMatch:
		return ErrNoMatch
	case layout.ConnectionReasonTimedOut, layout.ConnectionReasonUnknown:
		return ErrTimeout
	case layout.ConnectionReasonReliability:
		return ErrReliability
	case layout.ConnectionReasonTransferSize:
		return ErrTransferSize
	}
	return ErrRejected
}

// match returns the connection that a frame names, if the frame comes from its
// other end.
func (e *Engine) match(from layout.MAC, f layout.ConnectionFrame) *connection {
	var c *connection
	if f.ToInitiator() == 1 {
		c = e.byID[f.Initiator()]
		if c == nil || !c.initiator || c.remote != 0 && f.Responder() != 0 && c.remote != f.Responder() {
			return nil
		}
	} else {
		c = e.requests[latecomer{from, f.Cookie(), f.Initiator()}]
		if c == nil || f.Responder() != 0 && f.Responder() != c.local {
			return nil
		}
	}
	if c.peer != from || c.cookie != f.Cookie() {
		return nil
	}
	return c
}

func (e *Engine) request(now int64, from layout.MAC, f layout.ConnectionFrame, regions []Region) {
	k := latecomer{from, f.Cookie(), f.Initiator()}
	if c := e.requests[k]; c != nil {
		switch c.state {
		case undecided:
			e.send(c, layout.ConnectionTypePending, 0)
		case accepting:
			e.send(c, layout.ConnectionTypeAccept, 0)
		}
		return
	}
	if reason, ok := e.ended[k]; ok {
		e.answer(from, f, layout.ConnectionTypeReject, reason)
		return
	}
	asked := string(f.Discriminator()[:f.DiscriminatorLength()])
	i := slices.IndexFunc(e.waits, func(w *waiting) bool { return w.discr == asked && w.deadline > now })
	if i < 0 {
		e.answer(from, f, layout.ConnectionTypeReject, layout.ConnectionReasonNoMatch)
		return
	}
	w := e.waits[i]
	e.waits = slices.Delete(e.waits, i, i+1)
	c := &connection{
		state: undecided, remote: f.Initiator(), cookie: f.Cookie(), peer: from, waiter: w.owner,
		theirs: attributes(f, regions), offered: offer(f), deadline: Never, next: Never,
		link: Link{Peer: from, PeerNumber: f.VI(), ReceiveSequence: f.Sequence()},
		own:  string(f.LocalDiscriminator()[:f.LocalLength()]),
	}
	e.add(c)
	e.send(c, layout.ConnectionTypePending, 0)
	w.done(Incoming{ID: c.local, Peer: from, Discriminator: c.own, Attributes: c.theirs}, nil)
}

func (e *Engine) peerRequest(now int64, from layout.MAC, f layout.ConnectionFrame, regions []Region) {
	k := latecomer{from, f.Cookie(), f.Initiator()}
	if c := e.requests[k]; c != nil {
		if c.state == accepting {
			e.send(c, layout.ConnectionTypeAccept, 0)
		}
		return
	}
	if reason, ok := e.ended[k]; ok {
		e.answer(from, f, layout.ConnectionTypeReject, reason)
		return
	}
	asked, theirs := string(f.Discriminator()[:f.DiscriminatorLength()]), string(f.LocalDiscriminator()[:f.LocalLength()])
	mirrors := func(s state) *connection {
		for _, c := range e.list {
			if c.peers && c.initiator && c.state == s && c.peer == from && c.own == asked && c.discr == theirs {
				return c
			}
		}
		return nil
	}
	c := mirrors(requesting)
	side := bytes.Compare(e.mac[:], from[:])
	switch {
	case side == 0: // a frame from this node
		e.counters.Foreign++
		return
	case c == nil || c.deadline <= now:
		// The other side may ask before this one does. But if this side has
		// asked, has given up and could not notify the peer yet, the request is
		// rejected.
		if left := mirrors(closing); left != nil && left.reason == layout.ConnectionReasonRejected {
			e.answer(from, f, layout.ConnectionTypeReject, left.reason)
			return
		}
		e.counters.Unmatched++
		return
	case side < 0: // the peer missed this side's question
		e.send(c, layout.ConnectionTypePeerRequest, 0)
		return
	}
	c.initiator, c.remote, c.cookie = false, f.Initiator(), f.Cookie()
	c.theirs, c.offered = attributes(f, regions), offer(f)
	e.requests[k] = c
	c.link = Link{
		Peer: from, PeerNumber: f.VI(), ReceiveSequence: f.Sequence(), SendSequence: c.endpoint.Sequence, Agreed: c.endpoint.Offer.agreed(c.offered),
	}
	err := c.endpoint.Attributes.Compatible(c.theirs)
	if err == nil {
		err = e.owner.Connect(c.endpoint, c.link)
	}
	if err != nil {
		reason := layout.ConnectionReasonFailed
		switch {
		case errors.Is(err, ErrReliability):
			reason = layout.ConnectionReasonReliability
		case errors.Is(err, ErrTransferSize):
			reason = layout.ConnectionReasonTransferSize
		}
		c.attached = false
		e.reject(c, reason)
		e.finish(c, err)
		return
	}
	c.state, c.interval, c.tries = accepting, 0, 0
	e.repeat(now, c)
}

func reliable(level uint8) bool { return level != uint8(layout.ReliabilityUnreliable) }

func offer(f layout.ConnectionFrame) Offer {
	return Offer{Window: f.Window(), ReadLimit: f.ReadLimit()}
}

func attributes(f layout.ConnectionFrame, regions []Region) Attributes {
	return Attributes{Reliability: f.Reliability(), Rights: f.Rights(), MaxTransferSize: f.MaxTransferSize(), Regions: regions}
}

// accept handles an Accept at the initiator.
func (e *Engine) accept(now int64, c *connection, f layout.ConnectionFrame, regions []Region) {
	switch c.state {
	case open, broken:
		e.send(c, layout.ConnectionTypeConfirm, 0)
		return
	case requesting:
	default: // closing: the timer notifies the peer
		c.remote = f.Responder()
		return
	}
	c.remote, c.theirs = f.Responder(), attributes(f, regions)
	err := c.endpoint.Attributes.Compatible(c.theirs)
	if err == nil {
		err = e.owner.Connect(c.endpoint, Link{
			Peer: c.peer, PeerNumber: f.VI(), SendSequence: c.endpoint.Sequence, ReceiveSequence: f.Sequence(),
			Agreed: c.endpoint.Offer.agreed(offer(f)),
		})
	}
	if err != nil {
		e.leave(now, c, layout.ConnectionReasonFailed, err)
		return
	}
	c.state, c.next, c.deadline = open, Never, Never
	e.send(c, layout.ConnectionTypeConfirm, 0)
	e.finish(c, nil)
}

// left handles a Disconnect, which has been acknowledged.
func (e *Engine) left(now int64, c *connection, reason layout.ConnectionReason) {
	was := c.state
	connected := was == open || was == accepting
	// An initiator that closed was connected, even if its Confirm was lost.
	opened := was == open || was == accepting && reason == layout.ConnectionReasonClosed
	index := c.endpoint.Index
	attached := c.attached
	c.attached = false
	e.drop(c, layout.ConnectionReasonClosed)
	switch {
	case was == undecided: // the program gets the error when it decides
		c.state = withdrawn
		e.list, e.byID[c.local] = append(e.list, c), c
	case was == closing || was == broken:
	case connected && attached:
		e.owner.Disconnect(index)
		if opened {
			e.finish(c, nil)
			e.owner.Lost(index)
			return
		}
		if c.peers {
			e.finish(c, rejection(reason))
			return
		}
		e.finish(c, ErrTimeout)
	default:
		e.finish(c, rejection(reason))
	}
}
