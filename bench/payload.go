// SPDX-License-Identifier: Apache-2.0

package bench

import "fmt"

// guardBytes lie before and behind every message in the receiver's buffer;
// nothing may ever write to them.
const guardBytes = 64

const guardValue = 0xa5

// A pattern is the content of one message: noise that depends on the seed, the
// sender and the round, and a last byte that differs from the one before, so
// that a poller sees every message.
type pattern struct {
	seed   uint64
	sender int
	round  int
}

func (p pattern) fill(b []byte) {
	state := p.seed ^ uint64(p.sender)<<56 ^ uint64(p.round)<<24
	for i := range b {
		if i%8 == 0 {
			state += 0x9e3779b97f4a7c15
		}
		z := state
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb
		b[i] = byte(z >> (8 * (i % 8)))
	}
	b[len(b)-1] = p.last()
}

// last is never 0, which is what a cleared buffer holds.
func (p pattern) last() byte { return byte(p.round%255) + 1 }

// arena is memory with room for a message to send and one to receive, each
// between guards.
type arena struct {
	memory  []byte
	size    int
	scratch []byte
}

func arenaBytes(size int) int { return 3*guardBytes + 2*size }

// newArena takes memory of at least arenaBytes(size); what is left over guards
// as well.
func newArena(memory []byte, size int) *arena {
	a := &arena{memory: memory, size: size, scratch: make([]byte, size)}
	for i := range memory {
		memory[i] = guardValue
	}
	return a
}

func (a *arena) sendOffset() int    { return guardBytes }
func (a *arena) receiveOffset() int { return 2*guardBytes + a.size }

func (a *arena) sending(n int) []byte { return a.memory[a.sendOffset() : a.sendOffset()+n] }
func (a *arena) receiving(n int) []byte {
	return a.memory[a.receiveOffset() : a.receiveOffset()+n]
}

// check compares a received message byte by byte, and everything around it.
func (a *arena) check(p pattern, n int) error {
	want := a.scratch[:n]
	p.fill(want)
	got := a.receiving(n)
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("round %d from node %d: byte %d of %d is %#02x, want %#02x", p.round, p.sender, i, n, got[i], want[i])
		}
	}
	if err := a.guards(n); err != nil {
		return fmt.Errorf("round %d from node %d: %w", p.round, p.sender, err)
	}
	return nil
}

// guards compares every byte that is neither in a received message of n bytes
// nor in the room for one to send.
func (a *arena) guards(n int) error {
	for i, v := range a.memory {
		inSend := i >= a.sendOffset() && i < a.sendOffset()+a.size
		inReceive := i >= a.receiveOffset() && i < a.receiveOffset()+n
		if !inSend && !inReceive && v != guardValue {
			return fmt.Errorf("the byte at offset %d of the buffer, outside the message of %d, became %#02x", i, n, v)
		}
	}
	return nil
}

// restore puts the guards back over a message, before the next size.
func (a *arena) restore(n int) {
	b := a.receiving(n)
	for i := range b {
		b[i] = guardValue
	}
}
