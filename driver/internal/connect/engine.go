// SPDX-License-Identifier: Apache-2.0

// Package connect is the agents' connection protocol: client and server find
// each other by a discriminator, two peers by a pair of them; they compare
// attributes and exchange VI numbers. It has no thread and no clock: its owner
// passes in frames and times, and executes the protocol's decisions. So a test
// can run two engines back to back over any wire.
package connect

import (
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
// agree on the smaller of each.
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
	waiter    uint32 // owner of the wait that received an undecided request
	endpoint  Endpoint
	attached  bool // this connection has an endpoint
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
// discriminator), or, between peers, with the VI that requests one in the same
// way with the discriminators exchanged. The VI belongs to the protocol until
// done is called. Of two peers, the one with the smaller MAC address is the
// initiator.
func (e *Engine) Request(now int64, vi Endpoint, peers bool, peer layout.MAC, discriminator, own string, deadline int64, done func(Attributes, error)) {
	c := &connection{
		state: requesting, initiator: true, peers: peers, cookie: e.cookie, peer: peer, endpoint: vi, attached: true,
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

// Quiet reports whether no frame is left to repeat.
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
