// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"hvia/layout"
)

// ask makes a node request a connection from its peer; the addresses are "a" at
// node 0 and "b" at node 1.
func (w *world) ask(node, index int, timeout int64) *error {
	return w.askWith(node, endpoint(node, index), timeout)
}

func (w *world) askWith(node int, vi Endpoint, timeout int64) *error {
	result := new(error)
	*result = errPending
	names := [2]string{"a", "b"}
	w.nodes[node].e.Request(w.now, vi, true, mac(1-node), names[1-node], names[node], w.now+timeout, func(theirs Attributes, err error) {
		if err == nil && !reflect.DeepEqual(theirs, plain) {
			err = fmt.Errorf("the peer's attributes are %+v", theirs)
		}
		*result = err
	})
	return result
}

// quiet checks that nothing is left to repeat or remember.
func (w *world) quiet(t require.TestingT) {
	for _, n := range w.nodes {
		require.Empty(t, n.e.list, "node %d", n.index)
		require.Equal(t, Never, n.e.Next(), "node %d", n.index)
	}
}

// Either side asks first, or both at once: one connection results.
func TestPeers(t *testing.T) {
	for _, c := range []struct {
		name   string
		pauses [2]int64
		frames int
	}{
		{"at once", [2]int64{0, 0}, 7}, // two requests, node 0's repeated; accept and confirm, both repeated
		{"node 0 first", [2]int64{0, 500e6}, 5},
		{"node 1 first", [2]int64{500e6, 0}, 4},
		{"node 0 long before", [2]int64{0, 4e9}, 7}, // its request is repeated twice
		{"while it is in flight", [2]int64{0, 10e6}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(perfect)
			var result [2]*error
			for step := range 2 {
				for node, at := range c.pauses {
					if (at == 0) == (step == 0) {
						w.run(at)
						result[node] = w.ask(node, 3+node, 1e12)
					}
				}
			}
			w.run(5e9)
			require.NoError(t, *result[0])
			require.NoError(t, *result[1])
			require.Equal(t, Link{Peer: mac(1), PeerNumber: 1<<8 | 4, SendSequence: 3, ReceiveSequence: 1004}, w.nodes[0].connected[3])
			require.Equal(t, Link{Peer: mac(0), PeerNumber: 3, SendSequence: 1004, ReceiveSequence: 3}, w.nodes[1].connected[4])
			require.Equal(t, c.frames, w.frames)
			require.True(t, w.nodes[0].e.Quiet() && w.nodes[1].e.Quiet(), "nothing is repeated")
			w.run(2e12)
			require.Len(t, w.nodes[0].connected, 1, "the time of the attempt does not end the connection")
			require.True(t, w.nodes[1].e.Disconnect(w.now, 4))
			w.run(1e9)
			require.True(t, w.nodes[0].lost[3])
			w.quiet(t)
		})
	}
}

// Two attempts with the same addresses make two connections.
func TestPeersWithTheSameAddresses(t *testing.T) {
	w := newWorld(perfect)
	var results []*error
	for index := range 2 {
		for node := range 2 {
			results = append(results, w.ask(node, index, 1e12))
		}
	}
	w.run(10e9)
	for _, r := range results {
		require.NoError(t, *r)
	}
	require.Len(t, w.nodes[0].connected, 2)
	require.Len(t, w.nodes[1].connected, 2)
	require.NotEqual(t, w.nodes[0].connected[0].PeerNumber, w.nodes[0].connected[1].PeerNumber)
}

// Requests without a match time out: other addresses, clients and servers, no
// peer, the node itself.
func TestPeersThatDoNotMatch(t *testing.T) {
	w := newWorld(perfect)
	var ends []error
	end := func(_ Attributes, err error) { ends = append(ends, err) }
	zero, one := w.nodes[0].e, w.nodes[1].e
	zero.Request(0, endpoint(0, 1), true, mac(1), "b", "a", 20e9, end)
	one.Request(0, endpoint(1, 1), true, mac(0), "a", "b\x00", 20e9, end)    // has another name
	one.Request(0, endpoint(1, 2), true, mac(0), "c", "b", 20e9, end)        // asks for another name
	one.Request(0, endpoint(1, 3), true, mac(7), "a", "b", 20e9, end)        // of another host
	zero.Request(0, endpoint(0, 4), true, mac(0), "self", "self", 20e9, end) // itself, which no wire carries
	zero.Frame(0, w.wire[len(w.wire)-1].frame)                               // the same if one did
	one.Wait(1, "b", 20e9, func(_ Incoming, err error) { ends = append(ends, err) })
	w.run(20e9 - 1)
	require.Empty(t, ends)
	w.run(1e12)
	require.Len(t, ends, 6)
	for _, err := range ends {
		require.ErrorIs(t, err, ErrTimeout)
	}
	require.Empty(t, w.nodes[0].connected)
	require.Empty(t, w.nodes[1].connected)

	var got error
	zero.Request(w.now, endpoint(0, 1), true, mac(1), "b", "a", w.now+20e9, end)
	one.Request(w.now, endpoint(1, 1), false, mac(0), "a", "b", w.now+20e9, func(_ Attributes, err error) { got = err })
	w.run(1e12)
	require.ErrorIs(t, got, ErrNoMatch, "a client finds no server")
	w.quiet(t)
}

// Both sides get the error if their attributes differ, even if the reply is
// lost.
func TestPeersThatDiffer(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		for _, c := range []struct {
			want   error
			change func(*Attributes)
		}{
			{ErrTransferSize, func(a *Attributes) { a.MaxTransferSize-- }},
			{ErrReliability, func(a *Attributes) { a.Reliability = uint8(layout.ReliabilityDelivery) }},
		} {
			for odd := range 2 {
				lose := 0
				if lossy {
					lose = 2
				}
				w := newWorld(func(b []byte) (int, [2]int64) {
					if layout.ConnectionFrame(b[headerBytes:]).Type() == uint8(layout.ConnectionTypeReject) && lose > 0 {
						lose--
						return 0, [2]int64{}
					}
					return 1, [2]int64{20e6}
				})
				var result [2]*error
				for node := range 2 {
					vi := endpoint(node, 1)
					vi.Offer = Offer{1, 1}
					if node == odd {
						c.change(&vi.Attributes)
					}
					result[node] = w.askWith(node, vi, 1e12)
				}
				w.run(100e9)
				require.ErrorIs(t, *result[0], c.want)
				require.ErrorIs(t, *result[1], c.want)
				require.Zero(t, lose)
				w.quiet(t)
			}
		}
	}
}

// A card that fails to connect ends the attempt on both sides.
func TestPeersWhoseCardRefuses(t *testing.T) {
	for node := range 2 {
		w := newWorld(perfect)
		w.nodes[node].refuse = errors.New("card says no")
		result := [2]*error{w.ask(0, 1, 1e12), w.ask(1, 1, 1e12)}
		w.run(100e9)
		require.ErrorIs(t, *result[node], w.nodes[node].refuse)
		require.ErrorIs(t, *result[1-node], ErrRejected)
		require.Empty(t, w.nodes[1-node].connected)
		w.quiet(t)
	}
}

// A peer that gives up while the other's request is in flight rejects it;
// before and after that, the other continues to request.
func TestPeersThatGiveUp(t *testing.T) {
	for node := range 2 {
		// Before the other asks, and the Disconnect has arrived.
		w := newWorld(perfect)
		first := w.ask(node, 1, 1e12)
		w.run(1e9)
		require.True(t, w.nodes[node].e.Disconnect(w.now, 1))
		require.ErrorIs(t, *first, ErrCancelled)
		w.run(1e9)
		second := w.ask(1-node, 1, 10e9)
		w.run(9e9)
		require.ErrorIs(t, *second, errPending)
		w.run(1e12)
		require.ErrorIs(t, *second, ErrTimeout)
		w.quiet(t)

		// While both requests are in flight.
		w = newWorld(perfect)
		first, second = w.ask(node, 1, 1e12), w.ask(1-node, 1, 1e12)
		w.run(10e6)
		require.True(t, w.nodes[node].e.Disconnect(w.now, 1))
		require.ErrorIs(t, *first, ErrCancelled)
		w.run(1e12)
		require.ErrorIs(t, *second, ErrRejected)
		require.Empty(t, w.nodes[1-node].connected)
		w.quiet(t)

		// Between the connections of the two cards.
		w = newWorld(perfect)
		first, second = w.ask(0, 1, 1e12), w.ask(1, 1, 1e12)
		for len(w.nodes[1].connected) == 0 {
			require.True(t, w.step(Never))
		}
		require.Empty(t, w.nodes[0].connected)
		require.True(t, w.nodes[node].e.Disconnect(w.now, 1))
		w.run(1e12)
		require.ErrorIs(t, *[]*error{first, second}[node], ErrCancelled)
		if node == 0 {
			require.ErrorIs(t, *second, ErrRejected)
		} else { // its accept was in flight before the Disconnect
			require.NoError(t, *first)
			require.True(t, w.nodes[0].lost[1])
		}
		require.Empty(t, w.nodes[0].connected)
		require.Empty(t, w.nodes[1].connected)
		w.quiet(t)
	}
}

// A peer that accepted and gets no Confirm gives up at its own timeout.
func TestPeersTimeOutUnconfirmed(t *testing.T) {
	w := newWorld(func(b []byte) (int, [2]int64) {
		if layout.ConnectionFrame(b[headerBytes:]).Type() == uint8(layout.ConnectionTypeConfirm) {
			return 0, [2]int64{}
		}
		return 1, [2]int64{20e6}
	})
	one, other := w.ask(0, 1, 1e12), w.ask(1, 1, 10e9)
	w.run(10e9 - 1)
	require.NoError(t, *one)
	require.ErrorIs(t, *other, errPending)
	w.run(1)
	w.run(1e9)
	require.ErrorIs(t, *other, ErrTimeout)
	require.True(t, w.nodes[0].lost[1], "the connected VI is notified")
	w.quiet(t)
}

// TestConnectionsOverALossyLink for peers.
func TestPeersOverABadWire(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		loss := rapid.IntRange(0, 60).Draw(r, "loss")
		good := false
		percent, delay := rapid.IntRange(0, 99), rapid.Int64Range(1e6, 5e9)
		type flow struct {
			kind, to  uint8
			initiator uint32
		}
		lost := map[flow]int{}
		w := newWorld(func(b []byte) (int, [2]int64) {
			if good {
				return 1, [2]int64{20e6}
			}
			copies := 1
			f := layout.ConnectionFrame(b[headerBytes:])
			key := flow{f.Type(), f.ToInitiator(), f.Initiator()}
			if lost[key]++; lost[key] <= 8 && percent.Draw(r, "lost") < loss {
				copies = 0
			} else if percent.Draw(r, "doubled") < 20 {
				copies = 2
			}
			if copies > 0 {
				lost[key] = 0
			}
			return copies, [2]int64{delay.Draw(r, "delay"), delay.Draw(r, "delay")}
		})
		const pairs = 3
		var results [2][pairs]*error
		for i := range pairs {
			w.ask(0, i, 1e12)
			w.ask(1, i, 1e12)
		}
		w = restart(w) // their frames are still on the wire
		for i := range pairs {
			first := rapid.IntRange(0, 1).Draw(r, "first")
			results[first][i] = w.ask(first, i, rapid.Int64Range(1e9, 500e9).Draw(r, "timeout"))
			w.run(rapid.Int64Range(0, 20e9).Draw(r, "pause"))
			results[1-first][i] = w.ask(1-first, i, rapid.Int64Range(1e9, 500e9).Draw(r, "timeout"))
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
		for node, n := range w.nodes {
			for i := range pairs {
				require.NotErrorIs(r, *results[node][i], errPending, "attempt %d of node %d never ended", i, node)
				link, connected := n.connected[i]
				if !connected {
					continue
				}
				require.NoError(r, *results[node][i])
				back, both := w.nodes[1-node].connected[int(link.PeerNumber&0xff)]
				require.True(r, both, "VI %d of node %d is connected to a VI that is not", i, node)
				require.Equal(r, uint16(node<<8|i), back.PeerNumber)
				require.Equal(r, [2]uint32{link.ReceiveSequence, link.SendSequence}, [2]uint32{back.SendSequence, back.ReceiveSequence})
			}
		}
		for i := range pairs {
			w.nodes[0].e.Disconnect(w.now, i)
			w.nodes[1].e.Disconnect(w.now, i)
		}
		w.run(1e12)
		for _, n := range w.nodes {
			require.Empty(r, n.connected)
		}
		w.quiet(r)
	})
}
