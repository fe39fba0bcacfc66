// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"hvia/layout"
)

// world is two engines and a lossy link.
type world struct {
	now    int64
	nodes  [2]*node
	wire   []flight
	fate   func(frame []byte) (copies int, delay [2]int64)
	order  int
	frames int
}

type flight struct {
	at, order int64
	to        int
	frame     []byte
}

type node struct {
	w         *world
	index     int
	e         *Engine
	connected map[int]Link // by VI index: the link of the card's connection
	lost      map[int]bool
	refuse    error // the card fails to connect
}

func (n *node) Send(frame []byte) {
	w := n.w
	w.frames++
	copies, delay := w.fate(frame)
	for i := range copies {
		w.order++
		w.wire = append(w.wire, flight{w.now + delay[i], int64(w.order), 1 - n.index, slices.Clone(frame)})
	}
}

func (n *node) Connect(vi Endpoint, link Link) error {
	if n.refuse != nil {
		return n.refuse
	}
	if _, ok := n.connected[vi.Index]; ok {
		panic(fmt.Sprintf("node %d: VI %d connected twice", n.index, vi.Index))
	}
	n.connected[vi.Index] = link
	return nil
}

func (n *node) Disconnect(index int) {
	if _, ok := n.connected[index]; !ok {
		panic(fmt.Sprintf("node %d: VI %d disconnected while idle", n.index, index))
	}
	delete(n.connected, index)
}

func (n *node) Lost(index int) { n.lost[index] = true }

func newWorld(fate func([]byte) (int, [2]int64)) *world {
	w := &world{fate: fate}
	for i := range w.nodes {
		n := &node{w: w, index: i, connected: map[int]Link{}, lost: map[int]bool{}}
		n.e = New(mac(i), uint64(100+i), DefaultTiming, n)
		w.nodes[i] = n
	}
	return w
}

func perfect([]byte) (int, [2]int64) { return 1, [2]int64{20e6} }

func mac(i int) layout.MAC { return layout.MAC{2, 0, 0, 0, 0, byte(i)} }

func (w *world) step(limit int64) bool {
	next, which := limit, -1
	for i, f := range w.wire {
		if f.at < next || which >= 0 && f.at == next && f.order < w.wire[which].order {
			next, which = f.at, i
		}
	}
	tick := min(w.nodes[0].e.Next(), w.nodes[1].e.Next())
	if which < 0 && tick >= limit {
		w.now = max(w.now, limit)
		return false
	}
	if which >= 0 && w.wire[which].at <= tick {
		f := w.wire[which]
		w.wire = slices.Delete(w.wire, which, which+1)
		w.now = max(w.now, f.at)
		w.nodes[f.to].e.Frame(w.now, f.frame)
		return true
	}
	w.now = max(w.now, tick)
	for _, n := range w.nodes {
		n.e.Tick(w.now)
	}
	return true
}

func (w *world) run(d int64) {
	limit := w.now + d
	for w.step(limit) {
	}
}

var plain = Attributes{Reliability: uint8(layout.ReliabilityUnreliable), Rights: 1, MaxTransferSize: 65536}

func endpoint(node, index int) Endpoint {
	return Endpoint{Index: index, Number: uint16(node<<8 | index), Sequence: uint32(1000*node + index), Attributes: plain}
}

// connect makes node 1 wait and accept with VI index, and node 0 request with
// the same index.
func (w *world) connect(index int) (request, accept *error) {
	request, accept = new(error), new(error)
	*request, *accept = errPending, errPending
	w.nodes[1].e.Wait(1, "port", Never, func(in Incoming, err error) {
		if err != nil {
			*accept = err
			return
		}
		w.nodes[1].e.Accept(w.now, in.ID, endpoint(1, index), func(err error) { *accept = err })
	})
	w.nodes[0].e.Request(w.now, endpoint(0, index), false, mac(1), "port", "me", w.now+1e12, func(_ Attributes, err error) { *request = err })
	return request, accept
}

var errPending = errors.New("pending")

func TestConnectAndDisconnect(t *testing.T) {
	w := newWorld(perfect)
	request, accept := w.connect(3)
	w.run(1e9)
	require.NoError(t, *request)
	require.NoError(t, *accept)
	a, b := w.nodes[0].connected[3], w.nodes[1].connected[3]
	require.Equal(t, Link{Peer: mac(1), PeerNumber: 1<<8 | 3, SendSequence: 3, ReceiveSequence: 1003}, a)
	require.Equal(t, Link{Peer: mac(0), PeerNumber: 3, SendSequence: 1003, ReceiveSequence: 3}, b)
	require.Equal(t, 4, w.frames, "request, pending, accept, confirm; nothing is repeated on a good wire")
	require.True(t, w.nodes[0].e.Quiet() && w.nodes[1].e.Quiet())

	require.True(t, w.nodes[0].e.Disconnect(w.now, 3))
	require.Empty(t, w.nodes[0].connected, "the VI is idle at once")
	w.run(1e9)
	require.Empty(t, w.nodes[1].connected)
	require.True(t, w.nodes[1].lost[3], "the peer learns of it")
	require.False(t, w.nodes[0].lost[3])
	require.Equal(t, 6, w.frames)
	require.False(t, w.nodes[0].e.Disconnect(w.now, 3), "twice is harmless")
	require.False(t, w.nodes[1].e.Disconnect(w.now, 3))
	require.Zero(t, len(w.nodes[0].e.list)+len(w.nodes[1].e.list))
}

// breakOff is an agent's reaction when its card has broken a connection.
func (n *node) breakOff(index int, late int64) bool {
	broken := n.e.Break(n.w.now, index, late)
	if broken {
		n.Disconnect(index)
	}
	return broken
}

// The peer of a broken connection is notified late, and the VI is free for
// another connection before that.
func TestBreak(t *testing.T) {
	const late = 10e9
	for who := range 2 {
		w := newWorld(perfect)
		require.False(t, w.nodes[who].e.Break(w.now, 3, late), "no connection")
		request, accept := w.connect(3)
		w.run(1e9)
		require.NoError(t, *request)
		require.NoError(t, *accept)
		frames := w.frames
		require.True(t, w.nodes[who].breakOff(3, late))
		require.False(t, w.nodes[who].breakOff(3, late), "once")
		require.False(t, w.nodes[who].e.Disconnect(w.now, 3), "the VI has no connection any more")
		require.False(t, w.nodes[who].e.Quiet(), "something is left to be said")
		w.run(late - 1)
		require.Equal(t, frames, w.frames, "nothing is said before the time")
		require.NotEmpty(t, w.nodes[1-who].connected)
		w.run(1e9)
		require.Equal(t, frames+2, w.frames, "a disconnect and its acknowledgement")
		require.Empty(t, w.nodes[1-who].connected)
		require.True(t, w.nodes[1-who].lost[3] && !w.nodes[who].lost[3])
		require.Zero(t, len(w.nodes[0].e.list)+len(w.nodes[1].e.list))
	}
}

// The side whose peer disconnects or breaks first sends nothing.
func TestBreakIsAnsweredByTheOther(t *testing.T) {
	for _, leave := range []func(n *node){func(n *node) { n.e.Disconnect(n.w.now, 3) }, func(n *node) { n.breakOff(3, 5e9) }} {
		w := newWorld(perfect)
		_, _ = w.connect(3)
		w.run(1e9)
		frames := w.frames
		require.True(t, w.nodes[0].breakOff(3, 10e9))
		leave(w.nodes[1])
		w.run(100e9)
		require.Equal(t, frames+2, w.frames, "one disconnect, one acknowledgement")
		require.Empty(t, w.nodes[0].lost, "it knows")
		require.Zero(t, len(w.nodes[0].e.list)+len(w.nodes[1].e.list))
	}
}

// A connection that breaks before its Confirm has come was connected; its VI
// can connect again at once.
func TestBreakBeforeTheConfirm(t *testing.T) {
	confirms := 0
	w := newWorld(func(b []byte) (int, [2]int64) {
		if layout.ConnectionFrame(b[headerBytes:]).Type() == uint8(layout.ConnectionTypeConfirm) {
			if confirms++; confirms == 1 {
				return 0, [2]int64{}
			}
		}
		return 1, [2]int64{20e6}
	})
	request, accept := w.connect(3)
	w.run(5e8)
	require.NoError(t, *request)
	require.ErrorIs(t, *accept, errPending)
	require.True(t, w.nodes[1].breakOff(3, 10e9))
	require.NoError(t, *accept)
	require.True(t, w.nodes[0].breakOff(3, 20e9))
	again, accepted := w.connect(3)
	w.run(1e9)
	require.NoError(t, *again)
	require.NoError(t, *accepted)
	w.run(100e9)
	require.Len(t, w.nodes[0].connected, 1, "the second connection goes on")
	require.Len(t, w.nodes[1].connected, 1)
	require.Empty(t, w.nodes[0].lost)
	require.Empty(t, w.nodes[1].lost)

	// The side that has confirmed breaks the connection: the other was
	// connected.
	confirms = 0
	request, accept = w.connect(4)
	w.run(5e8)
	require.NoError(t, *request)
	require.True(t, w.nodes[0].breakOff(4, 10e9))
	w.run(5e9)
	require.NoError(t, *accept, "the Accept was repeated, and answered")
	w.run(100e9)
	require.True(t, w.nodes[1].lost[4])
}

// Two cards agree on the smaller of their limits.
func TestOffersAreAgreed(t *testing.T) {
	for _, level := range []layout.Reliability{layout.ReliabilityDelivery, layout.ReliabilityReception} {
		w := newWorld(perfect)
		ends := [2]Endpoint{endpoint(0, 1), endpoint(1, 1)}
		ends[0].Offer, ends[1].Offer = Offer{Window: 7, ReadLimit: 4}, Offer{Window: 200, ReadLimit: 2}
		for i := range ends {
			ends[i].Attributes.Reliability = uint8(level)
		}
		w.nodes[1].e.Wait(1, "port", Never, func(in Incoming, err error) {
			require.NoError(t, err)
			w.nodes[1].e.Accept(w.now, in.ID, ends[1], func(err error) { require.NoError(t, err) })
		})
		w.nodes[0].e.Request(w.now, ends[0], false, mac(1), "port", "", w.now+1e12, func(_ Attributes, err error) { require.NoError(t, err) })
		w.run(1e9)
		for _, n := range w.nodes {
			require.Equal(t, Offer{Window: 7, ReadLimit: 2}, n.connected[1].Agreed, "node %d", n.index)
		}
	}
}

// A reliable VI that accepts no frame, or serves no read, is malformed.
func TestOffersOfNothingAreMalformed(t *testing.T) {
	for _, offer := range []Offer{{}, {Window: 1}, {ReadLimit: 1}} {
		w := newWorld(perfect)
		w.nodes[1].e.Wait(1, "port", Never, func(Incoming, error) { t.Error("a request without an offer was handed out") })
		e := endpoint(0, 1)
		e.Attributes.Reliability, e.Offer = uint8(layout.ReliabilityDelivery), offer
		failed := errPending
		w.nodes[0].e.Request(w.now, e, false, mac(1), "port", "", w.now+10e9, func(_ Attributes, err error) { failed = err })
		w.run(100e9)
		require.ErrorIs(t, failed, ErrTimeout)
		require.NotZero(t, w.nodes[1].e.Counters().Malformed)
	}
}

func TestNoMatchIsPrompt(t *testing.T) {
	w := newWorld(perfect)
	w.nodes[1].e.Wait(1, "other", Never, func(Incoming, error) { t.Error("matched another discriminator") })
	w.nodes[1].e.Wait(1, "port\x00", Never, func(Incoming, error) { t.Error("the length is part of the discriminator") })
	var err error
	w.nodes[0].e.Request(0, endpoint(0, 1), false, mac(1), "port", "", 1e12, func(_ Attributes, e error) { err = e })
	w.run(50e6)
	require.ErrorIs(t, err, ErrNoMatch)
	require.Equal(t, 2, w.frames)
}

func TestRejectTimeoutAndMismatch(t *testing.T) {
	s := &requests{t: t, world: newWorld(perfect)}
	s.server, s.client = s.nodes[1].e, s.nodes[0].e
	s.mismatch()
	s.timeout()
	s.cardFails()
	s.cancel()
	require.Zero(t, len(s.client.list)+len(s.server.list)+len(s.server.waits))
}

// requests is a world with one request at a time that does not succeed.
type requests struct {
	t *testing.T
	*world
	server, client *Engine
	in             Incoming
	got            error // of the request
}

func (s *requests) wait() {
	s.server.Wait(1, "port", s.now+10e9, func(i Incoming, err error) { s.in = i; require.NoError(s.t, err) })
}

func (s *requests) request(deadline int64) {
	s.got = errPending
	s.client.Request(s.now, endpoint(0, 1), false, mac(1), "port", "mine", deadline, func(_ Attributes, e error) { s.got = e })
}

func (s *requests) accept(e Endpoint, want error) {
	s.t.Helper()
	var got error
	s.server.Accept(s.now, s.in.ID, e, func(e error) { got = e })
	require.ErrorIs(s.t, got, want)
}

// Mismatches send nothing and leave the request to the program.
func (s *requests) mismatch() {
	s.wait()
	s.request(s.now + 1e12)
	s.run(1e9)
	require.Equal(s.t, Incoming{ID: s.in.ID, Peer: mac(0), Discriminator: "mine", Attributes: plain}, s.in)
	require.ErrorIs(s.t, s.got, errPending)

	before := s.frames
	other := endpoint(1, 1)
	other.Attributes.MaxTransferSize--
	s.accept(other, ErrTransferSize)
	other = endpoint(1, 1)
	other.Attributes.Reliability = uint8(layout.ReliabilityDelivery)
	s.accept(other, ErrReliability)
	s.nodes[1].refuse = errors.New("card says no")
	s.accept(endpoint(1, 1), s.nodes[1].refuse)
	s.nodes[1].refuse = nil
	require.Equal(s.t, before, s.frames)
	require.NoError(s.t, s.server.Reject(s.in.ID))
	s.run(1e9)
	require.ErrorIs(s.t, s.got, ErrRejected)
	require.ErrorIs(s.t, s.server.Reject(s.in.ID), ErrUnknown)
	s.accept(endpoint(1, 1), ErrUnknown)
}

// The requester times out before the program decides, and a wait to which no
// request comes.
func (s *requests) timeout() {
	s.wait()
	start := s.now
	s.request(s.now + 3e9)
	s.run(3e9 - 1)
	require.ErrorIs(s.t, s.got, errPending)
	s.run(1)
	require.Equal(s.t, start+3e9, s.now)
	s.run(1e9)
	require.ErrorIs(s.t, s.got, ErrTimeout)
	s.accept(endpoint(1, 1), ErrTimeout)
	require.Empty(s.t, s.nodes[1].connected)

	var waited error
	s.server.Wait(1, "nobody", s.now+5e9, func(_ Incoming, e error) { waited = e })
	s.run(6e9)
	require.ErrorIs(s.t, waited, ErrTimeout)
}

// The client's card fails: the server does not stay connected.
func (s *requests) cardFails() {
	s.nodes[0].refuse = errors.New("card says no")
	request, accept := s.connect(2)
	s.run(1e12)
	require.ErrorIs(s.t, *request, s.nodes[0].refuse)
	require.ErrorIs(s.t, *accept, ErrTimeout)
	require.Empty(s.t, s.nodes[1].connected)
	s.nodes[0].refuse = nil
}

// A program that ends cancels its waits and rejects its requests.
func (s *requests) cancel() {
	s.server.Wait(7, "port", Never, func(Incoming, error) {})
	var cancelled error
	s.server.Wait(7, "port", Never, func(_ Incoming, e error) { cancelled = e })
	s.request(s.now + 1e12)
	s.run(1e9)
	s.server.Cancel(7)
	require.ErrorIs(s.t, cancelled, ErrCancelled)
	s.run(1e9)
	require.ErrorIs(s.t, s.got, ErrRejected)
}

// A lost Reject is repeated with each repetition of the request.
func TestLostRejectIsRepeated(t *testing.T) {
	lose := 2
	w := newWorld(func(b []byte) (int, [2]int64) {
		if layout.ConnectionType(layout.ConnectionFrame(b[headerBytes:]).Type()) == layout.ConnectionTypeReject && lose > 0 {
			lose--
			return 0, [2]int64{}
		}
		return 1, [2]int64{20e6}
	})
	w.nodes[1].e.Wait(1, "port", Never, func(in Incoming, err error) {
		require.NoError(t, err)
		require.NoError(t, w.nodes[1].e.Reject(in.ID))
	})
	var got error
	w.nodes[0].e.Request(0, endpoint(0, 1), false, mac(1), "port", "", 1e12, func(_ Attributes, e error) { got = e })
	w.run(1e11)
	require.ErrorIs(t, got, ErrRejected)
	require.Zero(t, lose)
}

func TestDeadServerTimesOut(t *testing.T) {
	w := newWorld(func([]byte) (int, [2]int64) { return 0, [2]int64{} })
	var err error
	w.nodes[0].e.Request(0, endpoint(0, 1), false, mac(1), "port", "", 100e9, func(_ Attributes, e error) { err = e })
	w.run(100e9 - 1)
	require.NoError(t, err)
	w.run(1)
	w.run(1e12)
	require.ErrorIs(t, err, ErrTimeout)
	require.Zero(t, len(w.nodes[0].e.list), "the farewell is given up in the end")
	require.Equal(t, Never, w.nodes[0].e.Next())
}

// On a wire that loses, duplicates, delays and reorders, but not the same frame
// more than eight times in a row: every call ends, both sides agree about the
// end, and nothing stays behind. (If a wire loses everything for longer than
// the protocol repeats, no protocol can make both sides agree.)
func TestConnectionsOverALossyLink(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		loss := rapid.IntRange(0, 60).Draw(r, "loss")
		double := rapid.IntRange(0, 40).Draw(r, "double")
		good := false
		percent := rapid.IntRange(0, 99)
		type flow struct {
			kind, to          uint8
			initiator, cookie uint64
		}
		lost := map[flow]int{}
		w := newWorld(func(b []byte) (int, [2]int64) {
			if good {
				return 1, [2]int64{20e6}
			}
			copies := 1
			f := layout.ConnectionFrame(b[headerBytes:])
			key := flow{f.Type(), f.ToInitiator(), uint64(f.Initiator()), f.Cookie()}
			lost[key]++
			if lost[key] <= 8 && percent.Draw(r, "lost") < loss {
				copies = 0
			} else if percent.Draw(r, "doubled") < double {
				copies = 2
			}
			if copies > 0 {
				lost[key] = 0
			}
			d := rapid.Int64Range(1e6, 5e9)
			return copies, [2]int64{d.Draw(r, "delay"), d.Draw(r, "delay")}
		})
		const pairs = 3
		var request, accept [pairs]*error
		for i := range pairs {
			w.connect(i)
			request[i], accept[i] = nil, nil
		}
		w = restart(w)
		for i := range pairs {
			request[i], accept[i] = w.connect(i)
			w.run(rapid.Int64Range(0, 10e9).Draw(r, "pause"))
		}
		if rapid.Bool().Draw(r, "leave early") {
			w.nodes[rapid.IntRange(0, 1).Draw(r, "who")].e.Disconnect(w.now, rapid.IntRange(0, pairs-1).Draw(r, "which"))
		}
		if rapid.Bool().Draw(r, "break off") {
			w.nodes[rapid.IntRange(0, 1).Draw(r, "who")].breakOff(rapid.IntRange(0, pairs-1).Draw(r, "which"), rapid.Int64Range(0, 50e9).Draw(r, "late"))
		}
		w.run(rapid.Int64Range(0, 400e9).Draw(r, "bad time"))
		good = true
		w.run(3e12)
		// Requests and waits pair up in any order, so compare connections, not
		// indices.
		for i := range pairs {
			require.NotErrorIs(r, *request[i], errPending, "request %d never ended", i)
			link, connected := w.nodes[0].connected[i]
			if connected {
				require.NoError(r, *request[i])
				other := int(link.PeerNumber & 0xff)
				back, both := w.nodes[1].connected[other]
				require.True(r, both, "VI %d is connected to a VI that is not", i)
				require.NoError(r, *accept[other])
				require.Equal(r, Link{Peer: mac(0), PeerNumber: uint16(i), SendSequence: link.ReceiveSequence, ReceiveSequence: link.SendSequence}, back)
			}
		}
		require.Equal(r, len(w.nodes[0].connected), len(w.nodes[1].connected))
		for i := range pairs {
			w.nodes[0].e.Disconnect(w.now, i)
			w.nodes[1].e.Disconnect(w.now, i)
		}
		w.nodes[1].e.Cancel(1)
		w.run(1e12)
		for _, n := range w.nodes {
			require.Empty(r, n.connected)
			require.Empty(r, n.e.list)
			require.Empty(r, n.e.waits)
			require.Equal(r, Never, n.e.Next())
			require.LessOrEqual(r, len(n.e.ended), DefaultTiming.Memory)
		}
	})
}

// restart returns a world whose wire still has the frames of an earlier run of
// the nodes, which had other cookies.
func restart(old *world) *world {
	w := newWorld(old.fate)
	w.wire, w.now, w.order = old.wire, old.now, old.order
	for i, n := range w.nodes {
		n.e = New(mac(i), uint64(200+i), DefaultTiming, n)
	}
	return w
}

// Arbitrary frames must not connect, disconnect or end anything.
func FuzzFrame(f *testing.F) {
	w := newWorld(perfect)
	var sent [][]byte
	w.fate = func([]byte) (int, [2]int64) { return 1, [2]int64{1} }
	w.connect(1)
	w.ask(0, 2, 1e12)
	w.ask(1, 2, 1e12)
	for len(w.wire) > 0 {
		sent = append(sent, w.wire[0].frame)
		w.step(Never)
	}
	e := endpoint(0, 2)
	e.Attributes.Regions = offering(layout.MaxOfferedRegions)
	w.nodes[0].e.Request(w.now, e, false, mac(1), "nobody", "", w.now+1, func(Attributes, error) {})
	sent = append(sent, w.wire[0].frame)
	for _, b := range sent {
		f.Add(b, true)
		f.Add(b[:60], false)
	}
	f.Fuzz(func(t *testing.T, b []byte, toServer bool) {
		w := newWorld(perfect)
		request, accept := w.connect(1)
		w.run(1e9)
		require.NoError(t, *request)
		require.NoError(t, *accept)
		w.nodes[1].e.Wait(1, "other port", Never, func(Incoming, error) { t.Skip("a well-formed request") })
		to := 0
		if toServer {
			to = 1
		}
		if len(b) >= headerBytes+layout.ConnectionFrameSize {
			// An outsider does not know the cookie.
			layout.ConnectionFrame(b[headerBytes:]).SetCookie(layout.ConnectionFrame(b[headerBytes:]).Cookie() | 1<<63)
		}
		w.nodes[to].e.Frame(w.now, b)
		w.run(1e11)
		require.Len(t, w.nodes[0].connected, 1)
		require.Len(t, w.nodes[1].connected, 1)
		require.Len(t, w.nodes[0].e.list, 1)
	})
}
