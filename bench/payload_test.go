// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Every message differs from those that could be taken for it: of another
// round, sender or seed. The last byte alone tells the round from its
// neighbour's and from guards and cleared memory, for 254 rounds.
func TestPatternsDiffer(t *testing.T) {
	p := pattern{seed: 1, sender: 0, round: 1}
	want := make([]byte, 100)
	p.fill(want)
	again := make([]byte, 100)
	p.fill(again)
	require.Equal(t, want, again)
	for _, other := range []pattern{{1, 0, 2}, {1, 1, 1}, {2, 0, 1}} {
		got := make([]byte, 100)
		other.fill(got)
		same := 0
		for i := range got[:99] {
			if got[i] == want[i] {
				same++
			}
		}
		require.Less(t, same, 10, "%+v", other)
	}
	for round := range 1000 {
		now, next := pattern{round: round}.last(), pattern{round: round + 1}.last()
		require.NotEqual(t, now, next)
		require.NotZero(t, now)
	}
	for n := 1; n < 20; n++ {
		b := make([]byte, n)
		p.fill(b)
		require.Equal(t, p.last(), b[n-1])
	}
}

// A shorter message is not the beginning of a longer one but for its last
// byte: the noise depends on the position only.
func TestPatternFillsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pattern{rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1).Draw(t, "sender"), rapid.IntRange(1, 1000).Draw(t, "round")}
		n := rapid.IntRange(1, 3000).Draw(t, "bytes")
		a, b := make([]byte, n), bytes.Repeat([]byte{0xff}, n)
		p.fill(a)
		p.fill(b)
		if !bytes.Equal(a, b) {
			t.Fatal("what was there before shines through")
		}
	})
}

const roomFor = 40

// received returns an arena in which a message of n bytes has arrived.
func received(p pattern, n int) *arena {
	a := newArena(make([]byte, arenaBytes(roomFor)+5), roomFor)
	pattern{p.seed, 1 - p.sender, p.round}.fill(a.sending(roomFor))
	p.fill(a.receiving(n))
	return a
}

func TestArenaAcceptsTheMessage(t *testing.T) {
	p := pattern{7, 0, 3}
	for n := 1; n <= roomFor; n++ {
		a := received(p, n)
		require.NoError(t, a.check(p, n))
		a.restore(n)
		require.NoError(t, a.guards(0))
		require.Error(t, a.check(p, n), "nothing has arrived")
	}
}

// Every single byte that is wrong is found, wherever it lies; only what the
// host itself writes to send is not the receiver's business.
func TestArenaFindsEveryWrongByte(t *testing.T) {
	p := pattern{7, 0, 3}
	for _, n := range []int{1, 4, roomFor} {
		size := len(received(p, n).memory)
		for i := range size {
			a := received(p, n)
			a.memory[i] ^= 0x10
			err := a.check(p, n)
			switch {
			case i >= a.sendOffset() && i < a.sendOffset()+roomFor:
				require.NoError(t, err)
			case i >= a.receiveOffset() && i < a.receiveOffset()+n:
				require.ErrorContains(t, err, fmt.Sprintf("round 3 from node 0: byte %d of %d is", i-a.receiveOffset(), n))
			default:
				require.ErrorContains(t, err, fmt.Sprintf("offset %d of the buffer, outside the message of %d, became 0xb5", i, n))
				require.Error(t, a.guards(n))
			}
		}
	}
}

// A message of an earlier round, of the other sender or of another length is
// not the one that was to come.
func TestArenaFindsTheWrongMessage(t *testing.T) {
	p := pattern{7, 0, 3}
	require.Error(t, received(pattern{7, 0, 2}, roomFor).check(p, roomFor))
	require.Error(t, received(pattern{7, 1, 3}, roomFor).check(p, roomFor))
	require.Error(t, received(pattern{8, 0, 3}, roomFor).check(p, roomFor))
	require.Error(t, received(p, roomFor-1).check(p, roomFor))
	require.Error(t, received(p, roomFor).check(p, roomFor-1))
}
