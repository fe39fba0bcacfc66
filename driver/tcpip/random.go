// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
)

// random is the stack's source of initial sequence numbers, ports and secrets:
// a stream determined by the seed and the node.
type random struct {
	mu     sync.Mutex
	stream *rand.ChaCha8
}

func newRandom(seed uint64, node, use int) *random {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(node))
	binary.LittleEndian.PutUint64(key[16:], uint64(use))
	return &random{stream: rand.NewChaCha8(key)}
}

func (r *random) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stream.Read(p)
}

// Int63 is for rand.Source of math/rand.
func (r *random) Int63() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.stream.Uint64() >> 1)
}

// Seed is required by rand.Source; the stream already has its seed.
func (*random) Seed(int64) {}
