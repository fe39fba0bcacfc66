// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

const opRead = layout.DescriptorOperationRDMARead

var reliableLevels = []layout.Reliability{layout.ReliabilityDelivery, layout.ReliabilityReception}

// reliableRig has two hosts with a connected reliable VI each. change edits the
// attributes of the second.
func reliableRig(t *testing.T, level layout.Reliability, change func(*Attributes)) *rig {
	r := idleRig(t)
	for _, v := range []*VI{r.a, r.b} {
		a := attributes()
		a.Reliability, a.RDMARead = level, true
		if v == r.b && change != nil {
			change(&a)
		}
		require.NoError(t, v.SetAttributes(a))
	}
	require.NoError(t, Connect(r.a, r.b))
	return r
}

// onLevels runs a test at each reliable level.
func onLevels(t *testing.T, name string, test func(t *testing.T, level layout.Reliability)) {
	for _, level := range reliableLevels {
		t.Run(fmt.Sprintf("%s, %v", name, level), func(t *testing.T) { test(t, level) })
	}
}

var lost = layout.AsyncErrorConnectionLost

type receiveCase struct {
	pieces []piece
	change func(layout.Descriptor)
}

// reliableError is an error at the reliable levels and its results.
type reliableError struct {
	name     string
	b        func(*Attributes)
	receive  *receiveCase
	op       layout.DescriptorOperation
	pieces   []piece
	change   func(layout.Descriptor)
	sender   uint32 // bits
	own      uint32 // bits that the sender may have found first
	receiver *end   // of the first receive descriptor; nil if it is flushed
	async    []layout.AsyncError
	written  int // bytes of the target
}

func reliableErrors() []reliableError {
	const long = 3 * layout.MaxPayload
	late := func(d layout.Descriptor) { // the last segment fails when its first byte is needed
		layout.DataSegment(d[layout.DescriptorSize+2*layout.DataSegmentSize:]).SetHandle(goneHandle)
	}
	to := func(n uint32) []piece { return []piece{{targetAddress, targetHandle, n}} }
	noWrite := func(a *Attributes) { a.RDMAWrite = false }
	noRead := func(a *Attributes) { a.RDMARead = false }
	good := &receiveCase{to(5000), nil}
	return []reliableError{
		{"malformed", nil, good, opSend, data(9), control(1 << 15), formatError, 0, nil, nil, 0},
		{"length", nil, good, opSend, data(9), length(8), lengthError, 0, nil, nil, 0},
		{"protection", nil, good, opSend, []piece{{dataAddress, goneHandle, 9}}, nil, protectionError, 0, nil, nil, 0},
		{"protection in the third frame", nil, good, opSend, cutPieces(long, 3), late, protectionError, 0,
			&end{bits: flushed | partialError, length: 2 * layout.MaxPayload, echo: layout.StatusOperationReceive}, nil, 2 * layout.MaxPayload},
		{"the same of an RDMA write", nil, good, opWrite, cutPieces(long, 3), all(late, func(d layout.Descriptor) {
			layout.DataSegment(d[layout.DescriptorSize+3*layout.DataSegmentSize:]).SetHandle(goneHandle)
		}), protectionError, 0, nil, []layout.AsyncError{layout.AsyncErrorRDMAWriteAbort}, layout.MaxPayload},
		{"no receive descriptor", nil, nil, opSend, data(9), nil, remoteError, 0, nil, []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}, 0},
		{"no receive descriptor for a write with immediate data", nil, nil, opWrite, data(9), immediate(5), remoteError, 0, nil,
			[]layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}, 0},
		{"no receive descriptor, and a later error of the sender", nil, nil, opSend, cutPieces(long, 3), late, remoteError, protectionError, nil,
			[]layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}, 0},
		{"malformed receive descriptor", nil, &receiveCase{to(5000), control(1 << 15)}, opSend, data(long), immediate(7), remoteError, 0,
			&end{bits: formatError, echo: layout.StatusOperationReceive, immediate: 7}, nil, 0},
		{"receive descriptor above the largest transfer", nil, &receiveCase{to(largest + 1), nil}, opSend, data(9), nil, remoteError, 0,
			&end{bits: lengthError, echo: layout.StatusOperationReceive}, nil, 0},
		{"too small", nil, &receiveCase{to(2000), nil}, opSend, data(long), nil, remoteError, 0,
			&end{bits: lengthError, length: 2000, echo: layout.StatusOperationReceive}, nil, 2000},
		{"too few segments", nil, &receiveCase{to(2000), length(5000)}, opSend, data(long), nil, remoteError, 0,
			&end{bits: lengthError, length: 2000, echo: layout.StatusOperationReceive}, nil, 2000},
		{"bad buffers", nil, &receiveCase{[]piece{{targetAddress, targetHandle, 100}, {targetAddress, goneHandle, 4000}}, nil}, opSend, data(long), nil, remoteError, 0,
			&end{bits: protectionError, length: 100, echo: layout.StatusOperationReceive}, nil, 100},
		{"bad buffers in a frame that would not fit", nil, &receiveCase{[]piece{{targetAddress, targetHandle, 100}, {targetAddress, goneHandle, 20}}, nil}, opSend, data(long), nil, remoteError, 0,
			&end{bits: protectionError, length: 100, echo: layout.StatusOperationReceive}, nil, 100},
		{"write without the VI's right", noWrite, good, opWrite, data(9), nil, rdmaProtectionError, 0, nil, []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}, 0},
		{"write without the region's right", nil, good, opWrite, data(9), remote(targetAddress, readOnlyHandle), rdmaProtectionError, 0, nil,
			[]layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}, 0},
		{"write beyond the region", nil, good, opWrite, data(long), remote(targetAddress+areaBytes-2000, targetHandle), rdmaProtectionError, 0, nil,
			[]layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}, -layout.MaxPayload},
		{"write with immediate data, NAKed", noWrite, good, opWrite, data(long), immediate(6), rdmaProtectionError, 0,
			&end{bits: rdmaProtectionError, echo: layout.StatusOperationRemoteRDMAWrite, immediate: 6}, nil, 0},
		{"write with immediate data, malformed receive descriptor", nil, &receiveCase{to(9), control(1 << 15)}, opWrite, data(9), immediate(6), remoteError, 0,
			&end{bits: formatError, echo: layout.StatusOperationRemoteRDMAWrite, immediate: 6}, nil, 0},
		{"read without the VI's right", noRead, good, opRead, to(9), nil, rdmaProtectionError, 0, nil, []layout.AsyncError{layout.AsyncErrorRDMAReadProtection}, 0},
		{"read of nothing without the VI's right", noRead, good, opRead, nil, nil, rdmaProtectionError, 0, nil, []layout.AsyncError{layout.AsyncErrorRDMAReadProtection}, 0},
		{"read without the region's right", nil, good, opRead, to(9), remote(targetAddress, readOnlyHandle), rdmaProtectionError, 0, nil,
			[]layout.AsyncError{layout.AsyncErrorRDMAReadProtection}, 0},
		{"read beyond the region", nil, good, opRead, to(long), remote(targetAddress+areaBytes-long+1, targetHandle), rdmaProtectionError, 0, nil,
			[]layout.AsyncError{layout.AsyncErrorRDMAReadProtection}, 0},
		{"read of another tag's region", nil, good, opRead, to(9), remote(dataAddress, foreignHandle), rdmaProtectionError, 0, nil,
			[]layout.AsyncError{layout.AsyncErrorRDMAReadProtection}, 0},
		{"read with immediate data", nil, good, opRead, to(9), immediate(1), formatError, 0, nil, nil, 0},
		{"read into a bad segment", nil, good, opRead, []piece{{targetAddress, goneHandle, 9}}, nil, protectionError, 0, nil, nil, 0},
		{"read into too few segments", nil, good, opRead, []piece{{targetAddress, targetHandle, 1}, {targetAddress, targetHandle, 1}}, all(length(3), remote(oddAddress, oddHandle)), lengthError, 0, nil, nil, 0},
		{"unreachable receive descriptor behind", nil, good, opSend, data(9), func(layout.Descriptor) {}, 0, 0,
			&end{length: 9, echo: layout.StatusOperationReceive}, []layout.AsyncError{layout.AsyncErrorPostDescriptor}, 9},
	}
}

// Both programs see each error, and no later descriptor executes.
func TestReliableErrors(t *testing.T) {
	for _, tt := range reliableErrors() {
		onLevels(t, tt.name, func(t *testing.T, level layout.Reliability) {
			r := reliableRig(t, level, tt.b)
			if tt.receive != nil {
				r.receive(tt.receive.pieces, tt.receive.change)
				second := uint32(queueHandle)
				if tt.sender == 0 {
					second = goneHandle
				}
				require.NoError(t, r.b.PostReceive(r.put(r.b, opSend, []piece{{targetAddress, targetHandle, 5000}}, nil), second))
			}
			if tt.b == nil {
				r.send(opWrite, nil, nil) // succeeds
			}
			r.send(tt.op, tt.pieces, tt.change)
			r.send(opWrite, data(9), remote(targetAddress+0x8000, targetHandle)) // flushed
			r.send(opWrite, data(9), length(1))

			echo := map[layout.DescriptorOperation]layout.StatusOperation{opSend: layout.StatusOperationSend, opWrite: layout.StatusOperationRDMAWrite, opRead: layout.StatusOperationRDMARead}[tt.op]
			write := layout.StatusOperationRDMAWrite
			if tt.b == nil {
				require.Equal(t, end{echo: write}, r.reap(r.a, false))
			}
			c, taken := r.a.SendDone()
			require.Equal(t, Done, taken)
			want := Completion{Address: c.Address, Status: done(tt.sender, echo), MaySet: tt.own}
			if tt.own != 0 {
				want.Or = done(tt.own, echo)
			}
			if tt.sender == 0 {
				want.Length = 9
			}
			require.Equal(t, want, c)
			require.Equal(t, end{bits: flushed, echo: write}, r.reap(r.a, false))
			c, taken = r.a.SendDone()
			require.Equal(t, Done, taken)
			require.True(t, c.Allows(done(flushed, write), 0, 0))
			require.True(t, c.Allows(done(lengthError, write), 0, 0))
			require.False(t, c.Allows(done(flushed|lengthError, write), 0, 0))

			if tt.receive != nil {
				first := end{bits: flushed, echo: layout.StatusOperationReceive}
				if tt.receiver != nil {
					first = *tt.receiver
				}
				require.Equal(t, first, r.reap(r.b, true))
				require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
			}
			r.errors(r.a, lost)
			var codes []layout.AsyncError
			for _, e := range r.b.host.TakeErrors() {
				codes = append(codes, e.Code)
			}
			require.ElementsMatch(t, append([]layout.AsyncError{lost}, tt.async...), codes)
			require.Equal(t, layout.VIStateError, r.a.State())
			require.Equal(t, layout.VIStateError, r.b.State())

			memory := make([]byte, areaBytes)
			from := r.a.host.Memory(dataAddress, areaBytes)
			switch {
			case tt.op == opRead:
			case tt.written < 0:
				copy(memory[areaBytes-2000:], from[:-tt.written])
			default:
				copy(memory, from[:tt.written])
			}
			if tt.name == "the same of an RDMA write" {
				copy(memory, from[:layout.MaxPayload])
			}
			require.Equal(t, memory, r.b.host.Memory(targetAddress, areaBytes))
			if tt.name == "read into too few segments" {
				require.NotEqual(t, make([]byte, 1), r.a.host.Memory(targetAddress, 1), "what fits is written")
				r.a.host.Memory(targetAddress, 1)[0] = 0
			}
			require.Equal(t, make([]byte, areaBytes), r.a.host.Memory(targetAddress, areaBytes))
		})
	}
}

// A status that cannot be written is an error after the acknowledgement.
func TestReliableCompletionProtection(t *testing.T) {
	onLevels(t, "stale", func(t *testing.T, level layout.Reliability) {
		r := reliableRig(t, level, nil)
		require.NoError(t, r.b.host.Register(goneHandle, Region{queueAddress, areaBytes, tag, false, false}))
		require.NoError(t, r.b.PostReceive(r.put(r.b, opSend, data(9), nil), goneHandle))
		require.NoError(t, r.b.host.Deregister(goneHandle))
		r.send(opSend, data(9), nil)
		require.Equal(t, end{length: 9}, r.reap(r.a, false))
		r.errors(r.a, lost)
		require.Equal(t, end{bits: flushed, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
		r.errors(r.b, layout.AsyncErrorCompletionProtection, lost)
	})
}

// The error of an unreachable send descriptor comes in its turn.
func TestReliableUnreachableSend(t *testing.T) {
	onLevels(t, "unreachable", func(t *testing.T, level layout.Reliability) {
		r := reliableRig(t, level, nil)
		r.receive(data(9), nil)
		r.send(opSend, data(9), nil)
		require.NoError(t, r.a.PostSend(r.put(r.a, opSend, data(9), nil), goneHandle))
		r.send(opSend, data(9), nil)
		require.Equal(t, end{length: 9}, r.reap(r.a, false))
		for range 2 {
			require.Equal(t, end{bits: flushed}, r.reap(r.a, false))
		}
		r.errors(r.a, layout.AsyncErrorPostDescriptor, lost)
		r.errors(r.b, lost)
	})
	t.Run("idle", func(t *testing.T) {
		r := idleRig(t)
		a := attributes()
		a.Reliability = layout.ReliabilityReception
		require.NoError(t, r.a.SetAttributes(a))
		r.send(opSend, data(9), length(8)) // not checked
		require.Equal(t, end{bits: flushed}, r.reap(r.a, false))
		require.NoError(t, r.a.PostReceive(r.put(r.a, opSend, data(9), nil), queueHandle))
		_, taken := r.a.ReceiveDone()
		require.Equal(t, NotDone, taken, "a flushed send leaves receives")
		require.NoError(t, r.a.PostSend(r.put(r.a, opSend, data(9), nil), goneHandle))
		require.Equal(t, end{bits: flushed}, r.reap(r.a, false))
		r.errors(r.a, layout.AsyncErrorPostDescriptor)
		require.Equal(t, layout.VIStateError, r.a.State())
	})
}

// RDMA reads move the right bytes, in the right order.
func TestRDMARead(t *testing.T) {
	for _, n := range []uint32{0, 1, layout.MaxPayload, layout.MaxPayload + 1, 5000, largest} {
		for _, segments := range []int{1, 2, 7, 251} {
			onLevels(t, fmt.Sprint(n, " bytes in ", segments), func(t *testing.T, level layout.Reliability) {
				r := reliableRig(t, level, nil)
				pieces := cutPieces(n, segments)
				for i := range pieces {
					pieces[i].address += targetAddress - dataAddress
					pieces[i].handle = targetHandle
				}
				source := r.b.host.Memory(targetAddress, areaBytes)
				for i := range source {
					source[i] = byte(i*5 + i>>8)
				}
				from := remote(targetAddress+3, targetHandle)
				if n == 0 {
					from = remote(1<<40, goneHandle) // a read of 0 bytes ignores the handle
				}
				r.send(opRead, pieces, from)
				require.Equal(t, end{length: n, echo: layout.StatusOperationRDMARead}, r.reap(r.a, false))
				want := make([]byte, areaBytes)
				copy(want, source[3:][:n])
				require.Equal(t, want, r.a.host.Memory(targetAddress, areaBytes))
				r.errors(r.a)
				r.errors(r.b)
			})
		}
	}
	onLevels(t, "behind a write, before a fenced one", func(t *testing.T, level layout.Reliability) {
		r := reliableRig(t, level, nil)
		r.send(opWrite, data(100), nil)
		r.send(opRead, []piece{{targetAddress, targetHandle, 100}}, nil)
		r.send(opWrite, []piece{{dataAddress + 500, dataHandle, 100}}, control(layout.DescriptorControlQueueFenceMask))
		a, b := r.a.host, r.b.host
		require.Equal(t, a.Memory(dataAddress, 100), a.Memory(targetAddress, 100))
		require.Equal(t, a.Memory(dataAddress+500, 100), b.Memory(targetAddress, 100))
	})
	onLevels(t, "more space than Length", func(t *testing.T, level layout.Reliability) {
		r := reliableRig(t, level, nil)
		r.send(opRead, []piece{{targetAddress, targetHandle, 100}, {targetAddress + 100, targetHandle, 100}}, length(150))
		require.Equal(t, end{length: 150, echo: layout.StatusOperationRDMARead}, r.reap(r.a, false))
	})
}

// Stop at the reliable levels: a connection ends while work is in flight. Sends
// complete as far as they were acknowledged, even if more arrived. A read
// completes if its response arrived completely.
func TestReliableStop(t *testing.T) {
	const read = 2 * layout.MaxPayload
	for acknowledged := range 4 {
		for arrived := range 5 {
			for returned := range 4 {
				r := reliableRig(t, layout.ReliabilityDelivery, nil)
				r.receive([]piece{{targetAddress, targetHandle, 3000}}, nil)
				r.a.Stop(acknowledged, returned)
				r.b.Stop(0, arrived)
				r.send(opSend, data(2000), nil)                                           // two frames
				r.send(opRead, []piece{{targetAddress, targetHandle, read}}, nil)         // one, and two of the response
				r.send(opWrite, data(9), nil)                                             // one
				r.send(opWrite, data(9), control(layout.DescriptorControlQueueFenceMask)) // one, if the read is complete
				r.send(opWrite, data(9), length(8))                                       // rejected in its turn
				r.b.Disconnect()

				bits := func(well bool) uint32 {
					if well {
						return 0
					}
					return flushed
				}
				well := []bool{acknowledged >= 1 && arrived >= 2, returned == 3 && arrived >= 3, acknowledged >= 2 && arrived >= 4}
				require.Equal(t, bits(well[0]), r.reap(r.a, false).bits)
				require.Equal(t, bits(well[1]), r.reap(r.a, false).bits)
				require.Equal(t, bits(well[2]), r.reap(r.a, false).bits)
				require.Equal(t, bits(false), r.reap(r.a, false).bits)
				c, _ := r.a.SendDone()
				require.True(t, c.Allows(done(flushed, layout.StatusOperationRDMAWrite), 0, 0))
				require.True(t, c.Allows(done(lengthError, layout.StatusOperationRDMAWrite), 0, 0))
				r.errors(r.a, lost)
				r.errors(r.b)
				got := r.reap(r.b, true)
				switch arrived {
				case 0:
					require.Equal(t, bits(false), got.bits)
				case 1:
					require.Equal(t, uint32(flushed|partialError), got.bits)
				default:
					require.Equal(t, uint32(2000), got.length)
				}
			}
		}
	}
}

// A permanent loss of the link: the oldest send gets the transport error, the
// rest is flushed. A VI without sends does not notice.
func TestCut(t *testing.T) {
	onLevels(t, "cut", func(t *testing.T, level layout.Reliability) {
		for arrived := range 4 {
			r := reliableRig(t, level, nil)
			r.a.Cut()
			r.errors(r.a)
			r.a.Stop(1, 0)
			r.b.Stop(0, arrived)
			for range 3 {
				r.receive(data(9), nil)
				r.send(opSend, data(9), nil)
			}
			r.a.Cut()
			if arrived > 0 { // the first was acknowledged
				require.Equal(t, end{length: 9}, r.reap(r.a, false))
			}
			require.Equal(t, end{bits: transportError}, r.reap(r.a, false))
			require.Equal(t, end{bits: flushed}, r.reap(r.a, false))
			r.errors(r.a, lost)
			r.errors(r.b, lost)
			for i := range 3 {
				got := r.reap(r.b, true)
				require.Equal(t, i < arrived, got.bits == 0)
			}
		}
	})
}

// Takes predicts whether a message finds a receive descriptor without an error.
func TestTakes(t *testing.T) {
	r := reliableRig(t, layout.ReliabilityReception, nil)
	require.False(t, r.b.Takes(0), "the queue is empty")
	r.receive([]piece{{targetAddress, targetHandle, 100}, {targetAddress, goneHandle, 50}, {targetAddress, targetHandle, 50}}, nil)
	require.True(t, r.b.Takes(0))
	require.True(t, r.b.Takes(100))
	require.False(t, r.b.Takes(101), "the second segment is bad")
	require.False(t, r.b.Takes(201))
	require.False(t, r.b.Withdrawn(0))
	r.send(opSend, data(100), nil)
	require.Equal(t, end{length: 100}, r.reap(r.a, false))
	r.receive(data(9), control(1<<15))
	require.False(t, r.b.Takes(0), "the descriptor is malformed")

	r = reliableRig(t, layout.ReliabilityReception, nil)
	require.NoError(t, r.b.host.Register(goneHandle, Region{queueAddress, areaBytes, tag, false, false}))
	require.NoError(t, r.b.PostReceive(r.put(r.b, opSend, data(9), nil), goneHandle))
	require.NoError(t, r.b.host.Deregister(goneHandle))
	require.False(t, r.b.Takes(0))
	require.True(t, r.b.Withdrawn(9))
	require.False(t, r.b.Withdrawn(10))
}

// On a wire with faults a message may be flushed if its NAK, or its
// acknowledgement before the end of the connection, comes too late.
func TestFaultyWire(t *testing.T) {
	onLevels(t, "NAKed", func(t *testing.T, level layout.Reliability) {
		r := reliableRig(t, level, nil)
		r.f.Faulty = true
		r.send(opSend, data(9), nil)
		c, _ := r.a.SendDone()
		require.True(t, c.Allows(done(remoteError, layout.StatusOperationSend), 0, 0))
		require.True(t, c.Allows(done(flushed, layout.StatusOperationSend), 0, 0))
		require.False(t, c.Allows(done(0, layout.StatusOperationSend), 9, 0))
	})
	onLevels(t, "connection ended after it", func(t *testing.T, level layout.Reliability) {
		r := reliableRig(t, level, nil)
		r.f.Faulty = true
		r.receive(data(9), nil)
		require.NoError(t, r.b.PostReceive(r.put(r.b, opSend, data(9), nil), goneHandle))
		r.send(opSend, data(9), nil)
		c, _ := r.a.SendDone()
		require.True(t, c.Allows(done(0, layout.StatusOperationSend), 9, 0))
		require.True(t, c.Allows(done(flushed, layout.StatusOperationSend), 0, 0))
		require.False(t, c.Allows(done(flushed, layout.StatusOperationSend), 9, 0))
		require.False(t, c.Allows(done(remoteError, layout.StatusOperationSend), 0, 0))
	})
}
