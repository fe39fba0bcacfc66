// SPDX-License-Identifier: Apache-2.0

package rig

import "fmt"

// GuardBytes lie before and behind every message in the receiver's buffer;
// nothing may write to them.
const GuardBytes = 64

const guardValue = 0xa5

// A Pattern is the content of one message: noise that depends on the seed, the
// sender and the round, and a last byte that differs from the previous one, so
// that a poll detects every message.
type Pattern struct {
	Seed   uint64
	Sender int
	Round  int
}

// Fill writes the pattern. The noise lacks the last step of SplitMix64, which
// would change the frames and so every recorded digest.
func (p Pattern) Fill(b []byte) {
	state := p.Seed ^ uint64(p.Sender)<<56 ^ uint64(p.Round)<<24
	for i := range b {
		if i%8 == 0 {
			state += 0x9e3779b97f4a7c15
		}
		z := state
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb
		b[i] = byte(z >> (8 * (i % 8)))
	}
	b[len(b)-1] = p.Last()
}

// Last is never 0, which is what a cleared buffer holds.
func (p Pattern) Last() byte { return byte(p.Round%255) + 1 }

// arena is memory for a message to send and one to receive, each between
// guards.
type arena struct {
	memory  []byte
	size    int
	scratch []byte
}

func arenaBytes(size int) int { return 3*GuardBytes + 2*size }

// newArena takes memory of at least arenaBytes(size) and fills the remainder
// with guards.
func newArena(memory []byte, size int) *arena {
	a := &arena{memory: memory, size: size, scratch: make([]byte, size)}
	for i := range memory {
		memory[i] = guardValue
	}
	return a
}

func (a *arena) SendOffset() int    { return GuardBytes }
func (a *arena) ReceiveOffset() int { return 2*GuardBytes + a.size }

func (a *arena) Sending(n int) []byte { return a.memory[a.SendOffset() : a.SendOffset()+n] }
func (a *arena) receiving(n int) []byte {
	return a.memory[a.ReceiveOffset() : a.ReceiveOffset()+n]
}

// Check compares a received message byte by byte, and everything around it.
func (a *arena) Check(p Pattern, n int) error {
	want := a.scratch[:n]
	p.Fill(want)
	got := a.receiving(n)
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("round %d from node %d: byte %d of %d is %#02x, want %#02x", p.Round, p.Sender, i, n, got[i], want[i])
		}
	}
	if err := a.Guards(n); err != nil {
		return fmt.Errorf("round %d from node %d: %w", p.Round, p.Sender, err)
	}
	return nil
}

// Guards compares every byte outside the received message of n bytes and the
// send buffer.
func (a *arena) Guards(n int) error {
	for i, v := range a.memory {
		inSend := i >= a.SendOffset() && i < a.SendOffset()+a.size
		inReceive := i >= a.ReceiveOffset() && i < a.ReceiveOffset()+n
		if !inSend && !inReceive && v != guardValue {
			return fmt.Errorf("the byte at offset %d of the buffer, outside the message of %d, became %#02x", i, n, v)
		}
	}
	return nil
}

// Expect clears the byte that a poll for a message of n bytes watches: a guard
// may be equal to the last byte of the message.
func (a *arena) Expect(n int) { a.receiving(n)[n-1] = 0 }

// Restore writes the guards over a message, before the next size.
func (a *arena) Restore(n int) {
	b := a.receiving(n)
	for i := range b {
		b[i] = guardValue
	}
}
