// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// After any frames with forged numbers, at most N arriving frames of the peer
// are dropped for their numbers, also on a wire that loses and duplicates
// frames.
func TestForgedNumbers(t *testing.T) {
	const most = layout.SequenceAgreement - 1
	rounds := 200
	if os.Getenv("HVIA_LONG") == "1" {
		rounds = 20_000
	}
	random := rand.New(rand.NewPCG(28, 28))
	worst := 0
	for round := range rounds {
		v := &viState{expected: random.Uint32()}
		own, fixed := v.expected, random.Uint32()
		take := func(number uint32) bool {
			if v.astray(number) {
				return false
			}
			v.expected = number + 1
			return true
		}
		for i := range 10_000 {
			switch round % 7 {
			case 0:
				take(random.Uint32())
			case 1:
				take(fixed)
			case 2:
				take(v.expected + random.Uint32N(layout.SequenceWindow))
			case 3:
				take(v.expected)
			case 4:
				take(fixed + uint32(i))
			case 5:
				take(v.expected + random.Uint32N(2*layout.SequenceWindow) - layout.SequenceWindow/2)
			default:
				take([]uint32{random.Uint32(), fixed, own, v.expected, v.expected + layout.SequenceWindow - 1, v.stray.candidate, v.expected - 1}[random.IntN(7)])
			}
		}
		lost := 0
		for arrived := 0; arrived <= most; own++ {
			if random.IntN(3) == 0 {
				continue // by the wire
			}
			arrived++
			if take(own) {
				break
			}
			lost++
			for range random.IntN(3) {
				require.False(t, take(own), "a copy counts as another frame")
			}
		}
		require.LessOrEqual(t, lost, most, "round %d", round)
		worst = max(worst, lost)
	}
	require.Equal(t, most, worst, "the bound is not reached: the test shows nothing")
}

// A wire that loses frames, duplicates them back to back and delays some
// delivers none twice, whatever it delays and for how long.
func TestNeverTwice(t *testing.T) {
	random := rand.New(rand.NewPCG(29, 29))
	backward := 0
	for range 300 {
		v := &viState{}
		var wire []uint32 // in the order of arrival
		var held []uint32
		flush := func() {
			wire = append(wire, held...)
			held = nil
		}
		hold, lose, twice := random.IntN(80), random.IntN(50), random.IntN(100)
		for n := range uint32(2000) {
			switch {
			case random.IntN(100) < lose:
			case random.IntN(100) < hold:
				held = append(held, n)
			default:
				wire = append(wire, n)
			}
			if random.IntN(150) == 0 {
				flush()
			}
		}
		flush()
		came := map[uint32]bool{}
		last := uint32(0)
		for _, n := range wire {
			for range 1 + random.IntN(100)/(100-twice+1) {
				if v.astray(n) {
					continue
				}
				v.expected = n + 1
				require.False(t, came[n], "frame %d is delivered twice", n)
				if n < last {
					backward++
				}
				came[n], last = true, n
			}
		}
	}
	require.Positive(t, backward, "no run of late frames is long enough: the test shows nothing")
}
