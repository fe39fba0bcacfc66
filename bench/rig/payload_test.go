// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A message differs from those of another round, sender or seed. Its last byte
// alone distinguishes the round from its neighbours and from guards and cleared
// memory, for 254 rounds.
func TestPatternsDiffer(t *testing.T) {
	p := Pattern{Seed: 1, Sender: 0, Round: 1}
	want := make([]byte, 100)
	p.Fill(want)
	again := make([]byte, 100)
	p.Fill(again)
	require.Equal(t, want, again)
	for _, other := range []Pattern{{1, 0, 2}, {1, 1, 1}, {2, 0, 1}} {
		got := make([]byte, 100)
		other.Fill(got)
		same := 0
		for i := range got[:99] {
			if got[i] == want[i] {
				same++
			}
		}
		require.Less(t, same, 10, "%+v", other)
	}
	for round := range 1000 {
		now, next := Pattern{Round: round}.Last(), Pattern{Round: round + 1}.Last()
		require.NotEqual(t, now, next)
		require.NotZero(t, now)
	}
	for n := 1; n < 20; n++ {
		b := make([]byte, n)
		p.Fill(b)
		require.Equal(t, p.Last(), b[n-1])
	}
}

// A shorter message is a prefix of a longer one except for its last byte: the
// noise depends on the position only.
func TestPatternFillsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pattern{rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1).Draw(t, "sender"), rapid.IntRange(1, 1000).Draw(t, "round")}
		n := rapid.IntRange(1, 3000).Draw(t, "bytes")
		a, b := make([]byte, n), bytes.Repeat([]byte{0xff}, n)
		p.Fill(a)
		p.Fill(b)
		if !bytes.Equal(a, b) {
			t.Fatal("what was there before shines through")
		}
	})
}

const roomFor = 40

// received returns an arena in which a message of n bytes has arrived.
func received(p Pattern, n int) *arena {
	a := newArena(make([]byte, arenaBytes(roomFor)+5), roomFor)
	Pattern{p.Seed, 1 - p.Sender, p.Round}.Fill(a.Sending(roomFor))
	p.Fill(a.receiving(n))
	return a
}

func TestArenaAcceptsTheMessage(t *testing.T) {
	p := Pattern{7, 0, 3}
	for n := 1; n <= roomFor; n++ {
		a := received(p, n)
		require.NoError(t, a.Check(p, n))
		a.Restore(n)
		require.NoError(t, a.Guards(0))
		require.Error(t, a.Check(p, n), "nothing has arrived")
	}
}

// Every single wrong byte is found, wherever it lies, except in the host's send
// buffer, which the receiver does not check.
func TestArenaFindsEveryWrongByte(t *testing.T) {
	p := Pattern{7, 0, 3}
	for _, n := range []int{1, 4, roomFor} {
		size := len(received(p, n).memory)
		for i := range size {
			a := received(p, n)
			a.memory[i] ^= 0x10
			err := a.Check(p, n)
			switch {
			case i >= a.SendOffset() && i < a.SendOffset()+roomFor:
				require.NoError(t, err)
			case i >= a.ReceiveOffset() && i < a.ReceiveOffset()+n:
				require.ErrorContains(t, err, fmt.Sprintf("round 3 from node 0: byte %d of %d is", i-a.ReceiveOffset(), n))
			default:
				require.ErrorContains(t, err, fmt.Sprintf("offset %d of the buffer, outside the message of %d, became 0xb5", i, n))
				require.Error(t, a.Guards(n))
			}
		}
	}
}

// A message of an earlier round, of the other sender or of another length is
// reported as wrong.
func TestArenaFindsTheWrongMessage(t *testing.T) {
	p := Pattern{7, 0, 3}
	require.Error(t, received(Pattern{7, 0, 2}, roomFor).Check(p, roomFor))
	require.Error(t, received(Pattern{7, 1, 3}, roomFor).Check(p, roomFor))
	require.Error(t, received(Pattern{8, 0, 3}, roomFor).Check(p, roomFor))
	require.Error(t, received(p, roomFor-1).Check(p, roomFor))
	require.Error(t, received(p, roomFor).Check(p, roomFor-1))
}
