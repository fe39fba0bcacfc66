// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

func heapRing() ring {
	return newRing(new(atomic.Uint32), new(atomic.Uint32), make([]byte, layout.BridgeRingEntries*layout.BridgeCommandSize))
}

func TestRingIsFullAndEmptyExactly(t *testing.T) {
	r := heapRing()
	// Near the wrap of the counters, so that every comparison crosses it.
	r.tail.Store(^uint32(0) - 100)
	r.head.Store(^uint32(0) - 100)
	var c Command
	require.False(t, r.pop(&c))
	for i := range layout.BridgeRingEntries {
		require.True(t, r.push(&Command{Tag: uint64(i)}))
	}
	require.False(t, r.push(&Command{Tag: 999}))
	for i := range layout.BridgeRingEntries {
		require.True(t, r.pop(&c))
		require.EqualValues(t, i, c.Tag)
	}
	require.False(t, r.pop(&c))
}

// On the heap, so that the race detector sees both sides.
func TestRingHandsOverInOrder(t *testing.T) {
	r := heapRing()
	const n = 20000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(0); i < n; {
			c := Command{Time: Time(i) - 5, Opcode: layout.BridgeOpcodeWrite, Count: uint32(i % 9), Address: i << 8, Tag: ^i}
			binary.LittleEndian.PutUint64(c.Data[24:], i*i)
			if r.push(&c) {
				i++
			} else {
				runtime.Gosched()
			}
		}
	}()
	for i := uint64(0); i < n; {
		var c Command
		if !r.pop(&c) {
			runtime.Gosched()
			continue
		}
		want := Command{Time: Time(i) - 5, Opcode: layout.BridgeOpcodeWrite, Count: uint32(i % 9), Address: i << 8, Tag: ^i}
		binary.LittleEndian.PutUint64(want.Data[24:], i*i)
		require.Equal(t, want, c)
		i++
	}
	<-done
}
