// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

// edges are the offsets in a page at which bursts, dwords and pages start and
// end.
var edges = []int{0, 1, 2, 3, 4092, 4093, 4094, 4095}

// shortMessages sends every length from 1 to 9 bytes from every edge to every
// edge, in both directions at once. It compares all of both memories, so all
// other bytes guard the message.
func shortMessages(r *rig) {
	a, b := r.pair([2]uint8{3, 200}, [2]uint16{7, 9}, [2]bool{true, true})
	// Two pages for each message of a round, so that no two overlap.
	const places = 48
	var source, target [2]*region
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		v := [2]*vi{a, b}[n]
		source[n], target[n] = m.register(0, 2*places*pageBytes, v.tag, false), m.register(0, 2*places*pageBytes, v.tag, true)
		source[n].scramble()
	})
	type message struct{ from, to, n int }
	var messages []message
	for _, from := range edges {
		for _, to := range edges {
			for n := 1; n <= 9; n++ {
				at := len(messages) % places * 2 * pageBytes
				messages = append(messages, message{at + from, at + to, n})
			}
		}
	}
	for len(messages) > 0 {
		n := min(len(messages), places)
		r.both(func(m *machine) {
			i := m.thread.ID().Node
			v := [2]*vi{a, b}[i]
			for _, x := range messages[:n] {
				v.post(rdmaWrite(source[i], x.from, x.n, target[1-i], x.to))
			}
			v.finish()
		})
		messages = messages[n:]
		r.settle()
		r.carry()
		r.both((*machine).verifyMemory)
	}
}

// longMessages sends messages of any length between regions with random starts
// and ends. Some messages end at the last byte of both regions.
func longMessages(count uint64) func(r *rig) {
	return func(r *rig) {
		a, b := r.pair([2]uint8{255, 0}, [2]uint16{1, 65535}, [2]bool{true, true})
		for range count {
			lengths := [2]int{1 + r.random.IntN(1<<16), 1 + r.random.IntN(1<<16)}
			if r.random.IntN(4) == 0 {
				n := layout.MaxPayload * (1 + r.random.IntN(44))
				lengths = [2]int{n - 1, n + 1}
			}
			var source, target [2]*region
			var from, to [2]int
			r.both(func(m *machine) {
				i := m.thread.ID().Node
				tag := [2]*vi{a, b}[i].tag
				slack := [4]int{}
				for k := range slack {
					slack[k] = m.random.IntN(3) * m.random.IntN(5000)
				}
				from[i], to[1-i] = slack[0], slack[1]
				source[i] = m.register(m.random.IntN(pageBytes), slack[0]+lengths[i]+slack[2], tag, false)
				target[i] = m.register(m.random.IntN(pageBytes), slack[1]+lengths[1-i]+slack[3], tag, true)
				source[i].scramble()
			})
			r.both(func(m *machine) {
				i := m.thread.ID().Node
				v := [2]*vi{a, b}[i]
				v.post(rdmaWrite(source[i], from[i], lengths[i], target[1-i], to[i]))
				v.finish()
			})
			r.settle()
			r.carry()
			r.both((*machine).verifyMemory)
			r.both(func(m *machine) {
				i := m.thread.ID().Node
				for _, g := range []*region{source[i], target[i]} {
					m.withdraw(g)
					m.release(g)
				}
			})
		}
	}
}

func TestShortMessages(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, shortMessages)
}

func TestLongMessages(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, longMessages(unit.Sizes{Short: 3, Normal: 10, Long: 2_000}.Pick()))
}

func TestStrayByteIsFound(t *testing.T) {
	err := mustCatch(t, config{}, func(r *rig) {
		r.pair([2]uint8{0, 0}, [2]uint16{1, 1}, [2]bool{true, true})
		m := r.node[1]
		m.memo[m.random.IntN(len(m.memo))] ^= 1 << m.random.IntN(8)
	})
	require.ErrorContains(t, err, "1 bytes of memory are wrong")
}
