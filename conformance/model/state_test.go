// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// What posts and calls do in each state.
func TestStates(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		r := idleRig(t)
		r.send(opSend, data(9), length(8)) // not checked
		require.Equal(t, end{bits: flushed}, r.reap(r.a, false))
		r.receive(data(9), nil)
		_, taken := r.b.ReceiveDone()
		require.Equal(t, NotDone, taken)
		require.NoError(t, Connect(r.a, r.b))
		r.send(opSend, data(9), nil)
		require.Equal(t, end{length: 9, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
	})
	t.Run("idle, disconnect", func(t *testing.T) {
		r := idleRig(t)
		r.receive(data(9), nil)
		r.b.Disconnect()
		require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		require.Equal(t, layout.VIStateIdle, r.b.State())
		r.errors(r.b)
	})
	t.Run("the peer leaves", func(t *testing.T) {
		r := newRig(t)
		r.receive(data(9), nil)
		r.receive(data(9), control(1<<15)) // a flushed descriptor is not checked
		r.a.Disconnect()
		require.Equal(t, layout.VIStateIdle, r.a.State())
		require.Equal(t, layout.VIStateError, r.b.State())
		for range 2 {
			require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		}
		r.errors(r.a)
		r.errors(r.b, layout.AsyncErrorConnectionLost)
		// In the error state every post completes at once.
		r.receive(data(9), nil)
		require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		require.NoError(t, r.b.PostSend(r.put(r.b, opSend, data(9), nil), queueHandle))
		require.Equal(t, end{bits: flushed}, r.reap(r.b, false))
		require.ErrorIs(t, Connect(r.a, r.b), ErrState)
		require.ErrorIs(t, r.b.Destroy(), ErrState)
		require.ErrorIs(t, r.b.SetAttributes(attributes()), ErrState)
		r.b.Disconnect()
		require.NoError(t, Connect(r.a, r.b))
		r.errors(r.b)
	})
	t.Run("twice", func(t *testing.T) {
		r := newRig(t)
		r.a.Disconnect()
		r.a.Disconnect()
		require.Equal(t, layout.VIStateIdle, r.a.State())
		r.errors(r.b, layout.AsyncErrorConnectionLost)
	})
}

// Calls that a program may make only in some states.
func TestVICalls(t *testing.T) {
	t.Run("destroy", func(t *testing.T) {
		r := idleRig(t)
		r.receive(data(9), nil)
		require.ErrorIs(t, r.b.Destroy(), ErrInUse)
		r.b.Disconnect()
		require.ErrorIs(t, r.b.Destroy(), ErrInUse)
		r.reap(r.b, true)
		require.NoError(t, r.b.Destroy())
		_, err := r.b.host.CreateVI(5, attributes())
		require.NoError(t, err)
		_, err = r.b.host.CreateVI(5, attributes())
		require.ErrorIs(t, err, ErrIndex)
	})
	t.Run("attributes must match", func(t *testing.T) {
		r := idleRig(t)
		a := attributes()
		a.MaxTransferSize--
		require.NoError(t, r.b.SetAttributes(a))
		require.ErrorIs(t, Connect(r.a, r.b), ErrMatch)
		a = attributes()
		a.Reliability = layout.ReliabilityDelivery
		require.NoError(t, r.b.SetAttributes(a))
		require.ErrorIs(t, Connect(r.a, r.b), ErrMatch)
		a = attributes()
		a.Tag, a.RDMAWrite = foreignTag, false
		require.NoError(t, r.b.SetAttributes(a))
		require.NoError(t, Connect(r.a, r.b))
	})
	t.Run("overrun", func(t *testing.T) {
		r := idleRig(t)
		at := r.put(r.b, opSend, nil, nil)
		for range 16 {
			require.NoError(t, r.b.PostReceive(at, queueHandle))
			require.NoError(t, r.b.PostSend(at, queueHandle))
		}
		require.ErrorIs(t, r.b.PostReceive(at, queueHandle), ErrOverrun)
		require.ErrorIs(t, r.b.PostSend(at, queueHandle), ErrOverrun)
	})
}

// Unreachable descriptors have no status: the VI reports an asynchronous error
// and breaks.
func TestUnreachableDescriptors(t *testing.T) {
	for _, handle := range []uint32{0, goneHandle, foreignHandle, oddHandle} {
		for _, receive := range []bool{false, true} {
			for _, connected := range []bool{false, true} {
				r := idleRig(t)
				if connected {
					require.NoError(t, Connect(r.a, r.b))
				}
				post := r.b.PostSend
				if receive {
					post = r.b.PostReceive
				}
				require.NoError(t, post(r.put(r.b, opSend, data(9), nil), handle))
				want := end{bits: flushed}
				if receive {
					want.echo = layout.StatusOperationReceive
				}
				require.Equal(t, want, r.reap(r.b, receive))
				r.errors(r.b, layout.AsyncErrorPostDescriptor)
				require.Equal(t, layout.VIStateError, r.b.State())
				if connected {
					r.errors(r.a, layout.AsyncErrorConnectionLost)
					require.Equal(t, layout.VIStateError, r.a.State())
				}
			}
		}
	}
	t.Run("not aligned", func(t *testing.T) {
		r := newRig(t)
		require.NoError(t, r.a.PostSend(queueAddress+32, queueHandle))
		r.errors(r.a, layout.AsyncErrorPostDescriptor)
	})
	t.Run("behind others", func(t *testing.T) {
		r := newRig(t)
		r.receive(data(9), nil)
		require.NoError(t, r.b.PostReceive(r.put(r.b, opSend, data(9), nil), goneHandle))
		r.receive(data(9), nil)
		r.errors(r.b)
		r.send(opSend, data(9), nil)
		require.Equal(t, end{length: 9, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		for range 2 {
			require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		}
		r.errors(r.b, layout.AsyncErrorPostDescriptor)
		r.errors(r.a, layout.AsyncErrorConnectionLost)
		require.Equal(t, end{length: 9}, r.reap(r.a, false), "its message had arrived")
	})
	t.Run("flushed without having been read", func(t *testing.T) {
		r := newRig(t)
		r.receive(data(9), nil)
		for range 2 {
			require.NoError(t, r.b.PostReceive(r.put(r.b, opSend, data(9), nil), goneHandle))
		}
		r.b.Disconnect()
		for range 3 {
			require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		}
		r.errors(r.b, layout.AsyncErrorPostDescriptor) // one error covers both
		require.Equal(t, layout.VIStateIdle, r.b.State())
	})
}

// A provider that reads receive descriptors on arrival finds an unreachable one
// when a message arrives for it.
func TestFetchOnArrival(t *testing.T) {
	bad := func(r *rig) {
		r.f.FetchOnArrival = true
		r.receive(data(9), nil)
		require.NoError(t, r.b.PostReceive(r.put(r.b, opSend, data(9), nil), goneHandle))
		r.send(opSend, data(9), nil)
		require.Equal(t, end{length: 9, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		r.errors(r.b)
		require.Equal(t, layout.VIStateConnected, r.b.State())
	}
	t.Run("message", func(t *testing.T) {
		r := newRig(t)
		bad(r)
		r.send(opSend, data(9), nil)
		r.errors(r.b, layout.AsyncErrorPostDescriptor, layout.AsyncErrorReceiveQueueEmpty)
		r.errors(r.a, layout.AsyncErrorConnectionLost)
		require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		require.Equal(t, layout.VIStateError, r.b.State())
	})
	t.Run("disconnect", func(t *testing.T) {
		r := newRig(t)
		bad(r)
		r.b.Disconnect()
		r.errors(r.b, layout.AsyncErrorPostDescriptor)
		require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
	})
	t.Run("copy", func(t *testing.T) {
		r := newRig(t)
		r.f.FetchOnArrival = true
		require.True(t, r.f.Clone().FetchOnArrival)
	})
}

// The program deregisters memory of outstanding work.
func TestDeregistration(t *testing.T) {
	t.Run("buffers", func(t *testing.T) {
		r := newRig(t)
		r.receive([]piece{{targetAddress, targetHandle, 9}}, nil)
		require.NoError(t, r.b.host.Deregister(targetHandle))
		require.ErrorIs(t, r.b.host.Deregister(targetHandle), ErrHandle)
		r.send(opSend, data(9), nil)
		require.Equal(t, end{bits: protectionError, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		r.send(opWrite, data(9), nil)
		r.errors(r.b, layout.AsyncErrorRDMAWriteProtection)
		require.NoError(t, r.a.host.Deregister(dataHandle))
		r.send(opSend, data(9), nil)
		r.reap(r.a, false)
		r.reap(r.a, false)
		require.Equal(t, end{bits: protectionError}, r.reap(r.a, false))
	})
	t.Run("the receive descriptor that the provider holds", func(t *testing.T) {
		r := newRig(t)
		r.receive(data(9), nil)
		r.receive(data(9), nil)
		require.NoError(t, r.b.host.Deregister(queueHandle))
		r.send(opSend, []piece{{dataAddress + 50, dataHandle, 9}}, nil)
		require.Equal(t, end{length: 9}, r.reap(r.a, false))
		// The buffers are still registered, the descriptor is not.
		require.Equal(t, r.a.host.Memory(dataAddress+50, 9), r.b.host.Memory(dataAddress, 9))
		for range 2 {
			require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		}
		r.errors(r.b, layout.AsyncErrorCompletionProtection, layout.AsyncErrorPostDescriptor)
		require.Equal(t, layout.VIStateError, r.b.State())
		r.errors(r.a, layout.AsyncErrorConnectionLost)
	})
	t.Run("registered anew", func(t *testing.T) {
		r := newRig(t)
		r.receive(data(9), nil)
		require.NoError(t, r.b.host.Deregister(queueHandle))
		require.NoError(t, r.b.host.Register(goneHandle, Region{queueAddress, areaBytes, tag, false, false}))
		r.b.Disconnect()
		require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		r.errors(r.b, layout.AsyncErrorCompletionProtection)
		require.Equal(t, layout.VIStateIdle, r.b.State())
	})
}

// Stop limits the work before a disconnect.
func TestStop(t *testing.T) {
	// Two frames, a rejected descriptor, one frame: four steps.
	for sends := range 6 {
		for arrivals := range min(sends, 3) + 1 {
			r := newRig(t)
			for range 3 {
				r.receive([]piece{{targetAddress, targetHandle, 3000}}, nil)
			}
			r.a.Stop(sends, 0)
			r.b.Stop(0, arrivals)
			r.send(opSend, data(2000), nil)
			r.send(opSend, data(9), length(1))
			r.send(opSend, data(9), nil)
			r.a.Disconnect()

			want := []end{{bits: flushed}, {bits: flushed}, {bits: flushed}}
			if sends >= 1 {
				want[0].length = layout.MaxPayload
			}
			if sends >= 2 {
				want[0] = end{length: 2000}
			}
			if sends >= 3 {
				want[1] = end{bits: lengthError}
			}
			if sends >= 4 {
				want[2] = end{length: 9}
			}
			for i, w := range want {
				require.Equal(t, w, r.reap(r.a, false), "%d sends, %d arrivals: send %d", sends, arrivals, i)
			}
			frames := sends
			if sends >= 3 {
				frames-- // one step had no frame
			}
			frames = min(frames, arrivals)
			echo := layout.StatusOperationReceive
			back := []end{{bits: flushed, echo: echo}, {bits: flushed, echo: echo}, {bits: flushed, echo: echo}}
			if frames >= 1 {
				back[0] = end{bits: flushed | partialError, length: layout.MaxPayload, echo: echo}
			}
			if frames >= 2 {
				back[0] = end{length: 2000, echo: echo}
			}
			if frames >= 3 {
				back[1] = end{length: 9, echo: echo}
			}
			for i, w := range back {
				require.Equal(t, w, r.reap(r.b, true), "%d sends, %d arrivals: receive %d", sends, arrivals, i)
			}
			r.errors(r.b, layout.AsyncErrorConnectionLost)
		}
	}
}

// Calls that a program may not make.
func TestMemory(t *testing.T) {
	h := New(1, 1).Hosts[0]
	require.NoError(t, h.Allocate(0x2000, 0x1000))
	require.NoError(t, h.Allocate(0x1000, 0x1000))
	require.ErrorIs(t, h.Allocate(0x2fff, 1), ErrMemory)
	require.ErrorIs(t, h.Allocate(0xfff, 2), ErrMemory)
	require.ErrorIs(t, h.Allocate(1<<64-1, 2), ErrMemory)
	require.Len(t, h.Memory(0x1000, 0x1000), 0x1000)
	require.Nil(t, h.Memory(0x1fff, 2), "buffers are separate, even if adjacent")
	require.Nil(t, h.Memory(0x3000, 1))
	require.ErrorIs(t, h.Register(0, Region{0x1000, 1, tag, false, false}), ErrHandle)
	require.ErrorIs(t, h.Register(1, Region{0x1000, 0, tag, false, false}), ErrMemory)
	require.ErrorIs(t, h.Register(1, Region{0x1001, 0x1000, tag, false, false}), ErrMemory)
	require.NoError(t, h.Register(1, Region{0x1001, 0xfff, tag, false, false}))
	require.ErrorIs(t, h.Register(1, Region{0x1000, 1, tag, false, false}), ErrHandle)
}
