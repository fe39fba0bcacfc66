// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// completionQueueHost has completion queue 4 with 4 entries, a VI that uses it
// for sends, and a VI that uses it for both queues.
func completionQueueHost(t *testing.T) (f *Fabric, one, two *VI) {
	f = New(1, 100)
	h := f.Hosts[0]
	require.NoError(t, h.Allocate(queueAddress, areaBytes))
	require.NoError(t, h.Register(queueHandle, Region{queueAddress, areaBytes, tag, false, false}))
	require.NoError(t, h.CreateCompletionQueue(4, 4))
	require.ErrorIs(t, h.CreateCompletionQueue(4, 4), ErrIndex)
	a := attributes()
	a.SendCompletionQueue = 9
	_, err := h.CreateVI(1, a)
	require.ErrorIs(t, err, ErrIndex)
	a.SendCompletionQueue = 5
	one, err = h.CreateVI(1, a)
	require.NoError(t, err)
	a.ReceiveCompletionQueue = 5
	two, err = h.CreateVI(2, a)
	require.NoError(t, err)
	return f, one, two
}

// Every completion has one entry, for both queues of several VIs, unless the
// queue was full.
func TestCompletionQueues(t *testing.T) {
	f, one, two := completionQueueHost(t)
	h := f.Hosts[0]
	require.NoError(t, two.SetAttributes(attributes())) // the completion queues stay
	require.ErrorIs(t, h.DestroyCompletionQueue(4), ErrInUse)
	require.ErrorIs(t, h.DestroyCompletionQueue(3), ErrIndex)

	q := h.CompletionQueue(4)
	s1, s2, r2 := Source{1, false}, Source{2, false}, Source{2, true}
	flush := func(v *VI, sends, receives int) {
		for range sends {
			require.NoError(t, v.PostSend(queueAddress, queueHandle))
		}
		for range receives {
			require.NoError(t, v.PostReceive(queueAddress, queueHandle))
		}
		v.Disconnect()
	}
	settle := func(overruns map[int]int, entries ...Source) error {
		copied := f.Clone().Hosts[0].CompletionQueue(4)
		return copied.Settle(entries, overruns)
	}
	require.NoError(t, settle(nil))
	flush(one, 2, 1) // the receives of the first have no completion queue
	flush(two, 1, 1)
	require.Equal(t, 4, q.Owed())
	require.NoError(t, settle(nil, s1, r2, s1, s2))
	require.ErrorContains(t, settle(nil, s1, r2, s1), "no overrun was reported")
	require.ErrorContains(t, settle(nil, s1, r2, s1, s2, s2), "more entries than completions")
	require.ErrorContains(t, settle(nil, s1, r2, s1, Source{1, true}), "more entries than completions")
	require.ErrorContains(t, settle(map[int]int{2: 1}, s1, r2, s1, s2), "too many were reported")
	require.ErrorContains(t, settle(map[int]int{2: 1}, s1, r2, s1), "1 entries are lost")

	flush(one, 3, 0)
	require.NoError(t, settle(map[int]int{1: 3}, s1, r2, s1, s2))
	require.NoError(t, settle(map[int]int{1: 2, 2: 1}, s1, s1, s1, s2), "any of them may have found it full")
	require.ErrorContains(t, settle(map[int]int{1: 2}, s1, r2, s1, s2, s1), "it should be 3")
	require.ErrorContains(t, settle(map[int]int{1: 4}, s1, r2, s2), "could be")
	q.Polled()
	require.NoError(t, settle(map[int]int{1: 2}, s1, r2, s1, s2, s1))
	require.NoError(t, q.Settle([]Source{s1, r2, s1, s2}, map[int]int{1: 3}))
	require.Zero(t, q.Owed())

	// The smallest capacity since the last Settle counts.
	q.Resize(16)
	flush(one, 5, 0)
	require.NoError(t, settle(nil, s1, s1, s1, s1, s1))
	require.NoError(t, settle(map[int]int{1: 1}, s1, s1, s1, s1), "the overrun may have been before the resize")
	require.NoError(t, q.Settle([]Source{s1, s1, s1, s1, s1}, nil))
	flush(one, 5, 0)
	require.ErrorContains(t, settle(map[int]int{1: 1}, s1, s1, s1, s1), "could be")

	for _, v := range []*VI{one, two} {
		for _, done := range []func() (Completion, Taken){v.SendDone, v.ReceiveDone} {
			for taken := Done; taken == Done; {
				_, taken = done()
			}
		}
		require.NoError(t, v.Destroy())
	}
	require.NoError(t, h.DestroyCompletionQueue(4))
	require.Nil(t, h.CompletionQueue(4))
}
