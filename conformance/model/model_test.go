// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// Sends move the right bytes, for all sizes and numbers of segments.
func TestSendMovesBytes(t *testing.T) {
	for _, n := range []uint32{0, 1, 63, layout.MaxPayload - 1, layout.MaxPayload, layout.MaxPayload + 1, 2 * layout.MaxPayload, 2*layout.MaxPayload + 1, largest} {
		for _, segments := range [][2]int{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 7}, {7, 3}, {252, 252}, {1, 252}} {
			r := newRig(t)
			from := cutPieces(n, segments[0])
			to := cutPieces(n, segments[1])
			for i := range to {
				to[i].address += targetAddress - dataAddress
				to[i].handle = targetHandle
			}
			r.receive(to, nil)
			r.send(opSend, from, nil)
			require.Equal(t, end{length: n}, r.reap(r.a, false))
			require.Equal(t, end{length: n, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
			want := make([]byte, areaBytes)
			copy(want, r.a.host.Memory(dataAddress, uint64(n)))
			require.Equal(t, want, r.b.host.Memory(targetAddress, areaBytes), "%d bytes, segments %v", n, segments)
			r.errors(r.a)
			r.errors(r.b)
		}
	}
}

// The provider rejects these descriptors before it sends anything, and accepts
// those that only look odd.
func TestSendDescriptors(t *testing.T) {
	reserved := func(d layout.Descriptor) { binary.LittleEndian.PutUint32(d[layout.DescriptorReservedOffset:], 1) }
	addressReserved := func(d layout.Descriptor) {
		binary.LittleEndian.PutUint32(d[layout.DescriptorSize+layout.AddressSegmentReservedOffset:], 1)
	}
	segments := func(n uint16) func(layout.Descriptor) {
		return func(d layout.Descriptor) { d.SetSegmentCount(n) }
	}
	many := func(n int) []piece { return cutPieces(4*uint32(n), n) }
	for _, tt := range []struct {
		name   string
		op     layout.DescriptorOperation
		pieces []piece
		change func(layout.Descriptor)
		bits   uint32
	}{
		{"one segment", opSend, data(9), nil, 0},
		{"no segment", opSend, nil, nil, 0},
		{"queue fence", opSend, data(9), control(layout.DescriptorControlQueueFenceMask), 0},
		{"reserved operation", layout.DescriptorOperationReserved, data(9), nil, formatError},
		{"RDMA read", layout.DescriptorOperationRDMARead, data(9), nil, formatError},
		{"lowest reserved control bit", opSend, data(9), control(1 << layout.DescriptorControlReservedLsb), formatError},
		{"highest reserved control bit", opSend, data(9), control(1 << 15), formatError},
		{"reserved field", opSend, data(9), reserved, formatError},
		{"252 segments", opSend, many(252), nil, 0},
		{"253 segments", opSend, many(253), nil, formatError},
		{"65535 segments", opSend, data(9), segments(65535), formatError},
		{"RDMA write without address segment", opWrite, nil, segments(0), formatError},
		{"RDMA write of nothing", opWrite, nil, nil, 0},
		{"RDMA write, 252 segments", opWrite, many(252), nil, 0},
		{"RDMA write, 253 segments", opWrite, many(253), nil, formatError},
		{"reserved field of the address segment", opWrite, data(9), addressReserved, formatError},
		{"the same bytes in a send are the segment's length", opSend, data(1), addressReserved, 0},
		{"end at the last address", opWrite, data(9), remote(1<<64-9, targetHandle), 0},
		{"end beyond the last address", opWrite, data(9), remote(1<<64-8, targetHandle), formatError},
		{"length one too small", opSend, data(9), length(8), lengthError},
		{"length one too large", opSend, data(9), length(10), lengthError},
		{"length without a segment", opSend, nil, length(1), lengthError},
		{"largest", opSend, data(largest), nil, 0},
		{"larger than that", opSend, data(largest + 1), nil, lengthError},
		{"larger, in many segments", opSend, cutPieces(largest+1, 9), nil, lengthError},
		{"sum beyond 32 bits", opSend, []piece{{dataAddress, dataHandle, 1 << 31}, {dataAddress, dataHandle, 1<<31 + 4}}, length(4), lengthError},
		{"two errors", opSend, data(9), all(length(8), reserved), formatError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.receive(data(largest), nil)
			r.send(tt.op, tt.pieces, tt.change)
			got := r.reap(r.a, false)
			require.Equal(t, tt.bits, got.bits)
			_, taken := r.b.ReceiveDone()
			switch {
			case tt.bits != 0:
				require.Zero(t, got.length)
				require.Equal(t, NotDone, taken, "something was sent")
			case tt.op == opSend:
				require.Equal(t, Done, taken)
			}
			// The next send executes.
			if taken == NotDone {
				r.send(opSend, data(3), nil)
				require.Equal(t, end{length: 3}, r.reap(r.a, false))
				require.Equal(t, end{length: 3, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
			}
		})
	}
}

// The status has the operation of the descriptor.
func TestEcho(t *testing.T) {
	for op, want := range map[layout.DescriptorOperation]layout.StatusOperation{
		opSend: layout.StatusOperationSend, opWrite: layout.StatusOperationRDMAWrite,
		layout.DescriptorOperationRDMARead: layout.StatusOperationRDMARead, layout.DescriptorOperationReserved: layout.StatusOperationSend,
	} {
		for _, r := range []*rig{newRig(t), idleRig(t)} {
			r.receive(data(9), nil)
			r.send(op, data(9), nil)
			require.Equal(t, want, r.reap(r.a, false).echo)
		}
	}
}

// Bad segments of a send end the message, after these bytes.
func TestSendSegmentErrors(t *testing.T) {
	const frames = 2 * layout.MaxPayload
	for _, tt := range []struct {
		name   string
		pieces []piece
		change func(layout.Descriptor)
		bits   uint32
		sent   uint32
	}{
		{"unknown handle", []piece{{dataAddress, goneHandle, 9}}, nil, protectionError, 0},
		{"handle 0", []piece{{dataAddress, 0, 9}}, nil, protectionError, 0},
		{"other tag", []piece{{dataAddress, foreignHandle, 9}}, nil, protectionError, 0},
		{"all of the region", []piece{{oddAddress, oddHandle, oddBytes}}, nil, 0, oddBytes},
		{"one byte before it", []piece{{oddAddress - 1, oddHandle, 9}}, nil, protectionError, 0},
		{"one byte behind it", []piece{{oddAddress + 1, oddHandle, oddBytes}}, nil, protectionError, 0},
		{"addresses wrap", []piece{{1<<64 - 4, dataHandle, 9}}, nil, protectionError, 0},
		{"empty segments are not checked", []piece{{1, goneHandle, 0}, {3, 0, 0}, {dataAddress, dataHandle, 9}, {2, 0, 0}}, nil, 0, 9},
		{"one empty segment", []piece{{1, goneHandle, 0}}, nil, 0, 0},
		{"one segment is all or nothing", []piece{{dataAddress, dataHandle, areaBytes + 1}}, nil, lengthError, 0},
		{"second segment, first frame", []piece{{dataAddress, dataHandle, 9}, {dataAddress, goneHandle, 9}}, nil, protectionError, 0},
		{"at a frame's begin", []piece{{dataAddress, dataHandle, frames}, {dataAddress, goneHandle, 9}}, nil, protectionError, frames},
		{"in the second frame", []piece{{dataAddress, dataHandle, layout.MaxPayload + 1}, {dataAddress, goneHandle, 9}}, nil, protectionError, layout.MaxPayload},
		{"checked as a whole when its first byte is needed", []piece{{dataAddress, dataHandle, layout.MaxPayload - 1}, {oddAddress, oddHandle, oddBytes + 1}}, nil, protectionError, 0},
		{"three segments, sum too small", cutPieces(frames, 3), length(frames + 1), lengthError, frames},
		{"three segments, sum too large", cutPieces(frames, 3), length(frames - 1), lengthError, layout.MaxPayload},
		{"three segments, much too large", cutPieces(frames, 3), length(9), lengthError, 0},
		{"behind Length there are only empty ones", append(cutPieces(frames, 3), piece{1, goneHandle, 0}, piece{2, 0, 0}), nil, 0, frames},
		{"behind Length there is one byte", append(cutPieces(frames, 3), piece{1, goneHandle, 1}), length(frames), lengthError, layout.MaxPayload},
		{"length 0, but there are bytes", cutPieces(9, 3), length(0), lengthError, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.receive([]piece{{targetAddress, targetHandle, largest}}, nil)
			r.send(opSend, tt.pieces, tt.change)
			require.Equal(t, end{bits: tt.bits, length: tt.sent}, r.reap(r.a, false))
			if tt.bits == 0 {
				require.Equal(t, end{length: tt.sent, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
				return
			}
			// The peer has the bytes sent. The next message ends the incomplete
			// one.
			_, taken := r.b.ReceiveDone()
			require.Equal(t, NotDone, taken)
			r.receive(data(9), nil)
			r.send(opSend, data(3), nil)
			if tt.sent > 0 {
				require.Equal(t, end{bits: partialError, length: tt.sent, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
				require.Equal(t, r.a.host.Memory(dataAddress, uint64(tt.sent)), r.b.host.Memory(targetAddress, uint64(tt.sent)))
			}
			require.Equal(t, end{length: 3, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
			require.Equal(t, end{length: 3}, r.reap(r.a, false))
			r.errors(r.b)
		})
	}
}

// A chunk of a descriptor lies outside its region, on either queue.
func TestChunksOutsideTheRegion(t *testing.T) {
	for _, tt := range []struct {
		segments int
		bytes    uint64 // of the region, from the descriptor on
		bits     uint32
	}{{2, 64, 0}, {3, 64, protectionError}, {3, 127, protectionError}, {3, 128, 0}, {6, 128, 0}, {7, 128, protectionError}, {7, 192, 0}} {
		r := newRig(t)
		at := r.put(r.a, opSend, cutPieces(9, tt.segments), nil)
		require.NoError(t, r.a.host.Register(goneHandle, Region{at, tt.bytes, tag, false, false}))
		r.receive(data(9), nil)
		require.NoError(t, r.a.PostSend(at, goneHandle))
		require.Equal(t, tt.bits, r.reap(r.a, false).bits, "%+v", tt)

		r = newRig(t)
		at = r.put(r.b, opSend, cutPieces(9, tt.segments), nil)
		require.NoError(t, r.b.host.Register(goneHandle, Region{at, tt.bytes, tag, false, false}))
		require.NoError(t, r.b.PostReceive(at, goneHandle))
		r.send(opSend, data(9), nil)
		require.Equal(t, tt.bits, r.reap(r.b, true).bits, "%+v", tt)
	}
}

// Each receive descriptor gets this status and length.
func TestReceive(t *testing.T) {
	target := func(n uint32) piece { return piece{targetAddress, targetHandle, n} }
	const more = layout.MaxPayload + 500
	for _, tt := range []struct {
		name   string
		pieces []piece
		change func(layout.Descriptor)
		send   uint32
		bits   uint32
		got    uint32
		maySet uint32
	}{
		{"larger than the message", []piece{target(100)}, nil, 9, 0, 9, 0},
		{"no segment, no bytes", nil, nil, 0, 0, 0, 0},
		{"RDMA write", []piece{target(100)}, control(uint16(opWrite)), 9, formatError, 0, 0},
		{"RDMA read", []piece{target(100)}, control(uint16(layout.DescriptorOperationRDMARead)), 9, formatError, 0, 0},
		{"reserved operation", []piece{target(100)}, control(uint16(layout.DescriptorOperationReserved)), 9, formatError, 0, 0},
		{"immediate and fence mean nothing", []piece{target(100)}, control(layout.DescriptorControlImmediateMask | layout.DescriptorControlQueueFenceMask), 9, 0, 9, 0},
		{"reserved control bit", []piece{target(100)}, control(1 << layout.DescriptorControlReservedLsb), 9, formatError, 0, 0},
		{"reserved field", []piece{target(100)}, func(d layout.Descriptor) { d[layout.DescriptorReservedOffset+3] = 1 }, 9, formatError, 0, 0},
		{"253 segments", cutPieces(253, 253), nil, 9, formatError, 0, 0},
		{"larger than the largest message", []piece{target(largest + 1)}, nil, 9, lengthError, 0, 0},
		{"malformed and too large", []piece{target(largest + 1)}, control(1 << 15), 9, formatError, 0, lengthError},
		{"message longer than Length", []piece{target(100)}, length(8), 9, lengthError, 8, 0},
		{"message longer than the segments", []piece{target(5), {targetAddress + 5, targetHandle, 3}}, length(100), 9, lengthError, 8, 0},
		{"more frames than fit", []piece{target(more - 1)}, nil, 2 * more, lengthError, more - 1, 0},
		{"unknown handle", []piece{{targetAddress, goneHandle, 9}}, nil, 9, protectionError, 0, 0},
		{"other tag", []piece{{dataAddress, foreignHandle, 9}}, nil, 9, protectionError, 0, 0},
		{"a region without RDMA", []piece{{targetAddress, readOnlyHandle, 9}}, nil, 9, 0, 9, 0},
		{"one byte behind the region", []piece{{targetAddress + areaBytes - 100, targetHandle, 101}}, nil, 9, protectionError, 0, 0},
		{"the second segment", []piece{target(5), {targetAddress, goneHandle, 9}}, nil, 9, protectionError, 5, 0},
		{"the second segment is not needed", []piece{target(9), {targetAddress, goneHandle, 9}}, nil, 9, 0, 9, 0},
		{"empty segments are not checked", []piece{{1, goneHandle, 0}, target(9)}, nil, 9, 0, 9, 0},
		{"rejected in the second frame", []piece{target(layout.MaxPayload + 4), {1, goneHandle, more}}, nil, more, protectionError, layout.MaxPayload + 4, 0},
		{"rejected, and too long", []piece{{1, goneHandle, 5}}, nil, 9, protectionError, 0, lengthError},
		{"too long, and rejected", []piece{target(5), {1, goneHandle, 9}}, length(6), 9, protectionError, 5, lengthError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.receive(tt.pieces, tt.change)
			r.send(opSend, data(tt.send), immediate(77))
			require.Equal(t, end{length: tt.send}, r.reap(r.a, false), "the sender learns nothing")
			require.Equal(t, tt.maySet, r.b.receive.posted[0].completion.MaySet)
			require.Equal(t, end{bits: tt.bits, length: tt.got, echo: layout.StatusOperationReceive, immediate: 77}, r.reap(r.b, true))
			r.errors(r.b)
			require.Equal(t, layout.VIStateConnected, r.b.State())
		})
	}
}

// A message that finds no receive descriptor is lost. The next one arrives.
func TestReceiveQueueEmpty(t *testing.T) {
	for _, op := range []layout.DescriptorOperation{opSend, opWrite} {
		r := newRig(t)
		before := bytes.Clone(r.b.host.Memory(targetAddress, areaBytes))
		r.send(op, data(3*layout.MaxPayload), immediate(1))
		require.Zero(t, r.reap(r.a, false).bits)
		r.errors(r.b, layout.AsyncErrorReceiveQueueEmpty)
		require.Equal(t, before, r.b.host.Memory(targetAddress, areaBytes))
		_, taken := r.b.ReceiveDone()
		require.Equal(t, Empty, taken)
		r.receive(data(9), nil)
		r.send(op, data(9), immediate(2))
		require.Equal(t, uint32(2), r.reap(r.b, true).immediate)
		r.errors(r.b)
	}
}

// RDMA writes: which are rejected, and which side gets the error.
func TestRDMAWrite(t *testing.T) {
	const end1 = targetAddress + areaBytes
	for _, tt := range []struct {
		name    string
		n       uint32
		address uint64
		handle  uint32
		right   bool
		ok      bool
		written uint32
	}{
		{"granted", 3000, targetAddress + 5, targetHandle, true, true, 3000},
		{"up to the last byte", 3000, end1 - 3000, targetHandle, true, true, 3000},
		{"VI without the right", 9, targetAddress, targetHandle, false, false, 0},
		{"region without the right", 9, targetAddress, readOnlyHandle, true, false, 0},
		{"other tag", 9, dataAddress, foreignHandle, true, false, 0},
		{"unknown handle", 9, targetAddress, goneHandle, true, false, 0},
		{"one byte before", 9, targetAddress - 1, targetHandle, true, false, 0},
		{"one byte behind, one frame", 9, end1 - 8, targetHandle, true, false, 0},
		{"one byte behind, in the third frame", 3000, end1 - 2999, targetHandle, true, false, 2 * layout.MaxPayload},
		{"nothing, anywhere", 0, 5, targetHandle, true, true, 0},
		{"nothing, by an unknown handle", 0, targetAddress, goneHandle, true, false, 0},
		{"nothing, without the right", 0, targetAddress, targetHandle, false, false, 0},
	} {
		for _, with := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				r := idleRig(t)
				a := attributes()
				a.RDMAWrite = tt.right
				require.NoError(t, r.b.SetAttributes(a))
				require.NoError(t, Connect(r.a, r.b))
				r.receive([]piece{{dataAddress, goneHandle, 1}}, nil) // its segments are not used
				change := remote(tt.address, tt.handle)
				if with {
					change = all(change, immediate(5))
				}
				r.send(opWrite, data(tt.n), change)
				require.Equal(t, end{length: tt.n, echo: layout.StatusOperationRDMAWrite}, r.reap(r.a, false), "the sender learns nothing")
				if tt.written > 0 {
					require.Equal(t, r.a.host.Memory(dataAddress, uint64(tt.written)), r.b.host.Memory(tt.address, uint64(tt.written)))
				}
				if !with {
					if tt.ok {
						r.errors(r.b)
					} else {
						r.errors(r.b, layout.AsyncErrorRDMAWriteProtection)
					}
					_, taken := r.b.ReceiveDone()
					require.Equal(t, NotDone, taken)
					return
				}
				want := end{length: tt.written, echo: layout.StatusOperationRemoteRDMAWrite, immediate: 5}
				if !tt.ok {
					want.bits = rdmaProtectionError
				}
				require.Equal(t, want, r.reap(r.b, true))
				r.errors(r.b)
			})
		}
	}
}

// An RDMA write with immediate data that meets a bad receive descriptor writes
// nothing.
func TestRDMAWriteFindsBadDescriptor(t *testing.T) {
	r := newRig(t)
	r.receive(data(9), control(1<<15))
	r.send(opWrite, data(9), immediate(6))
	require.Equal(t, end{bits: formatError, echo: layout.StatusOperationRemoteRDMAWrite, immediate: 6}, r.reap(r.b, true))
	require.Equal(t, make([]byte, 9), r.b.host.Memory(targetAddress, 9))
}

// broken sends a message of one frame that is not its last.
func (r *rig) broken(op layout.DescriptorOperation, change func(layout.Descriptor)) {
	r.send(op, []piece{{dataAddress, dataHandle, layout.MaxPayload}, {1, goneHandle, 1}}, change)
	require.Equal(r.t, uint32(protectionError), r.reap(r.a, false).bits)
}

// The next message or a disconnect ends an incomplete message.
func TestMessagesCutOff(t *testing.T) {
	const n = layout.MaxPayload
	receiveEcho, remoteEcho := layout.StatusOperationReceive, layout.StatusOperationRemoteRDMAWrite
	for _, tt := range []struct {
		name  string
		op    layout.DescriptorOperation
		with  bool // immediate data
		into  piece
		to    uint32 // handle of an RDMA write
		bits  uint32
		got   uint32
		echo  layout.StatusOperation
		async []layout.AsyncError
	}{
		{"send", opSend, false, piece{targetAddress, targetHandle, 2 * n}, 0, partialError, n, receiveEcho, nil},
		{"send with immediate data", opSend, true, piece{targetAddress, targetHandle, 2 * n}, 0, partialError, n, receiveEcho, nil},
		{"send into rejected memory", opSend, false, piece{1, goneHandle, 2 * n}, 0, partialError | protectionError, 0, receiveEcho, nil},
		{"send into too little", opSend, false, piece{targetAddress, targetHandle, 5}, 0, partialError | lengthError, 5, receiveEcho, nil},
		{"RDMA write", opWrite, false, piece{}, targetHandle, 0, 0, 0, []layout.AsyncError{layout.AsyncErrorRDMAWriteAbort}},
		{"RDMA write, rejected", opWrite, false, piece{}, goneHandle, 0, 0, 0, []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
		{"RDMA write with immediate data", opWrite, true, piece{}, targetHandle, partialError, n, remoteEcho, nil},
		{"RDMA write with immediate data, rejected", opWrite, true, piece{}, goneHandle, partialError | rdmaProtectionError, 0, remoteEcho, nil},
	} {
		for _, how := range []string{"next message", "disconnect here", "disconnect there"} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				r := newRig(t)
				r.receive([]piece{tt.into}, nil)
				r.receive([]piece{tt.into}, nil)
				var changes []func(layout.Descriptor)
				if tt.with {
					changes = append(changes, immediate(3))
				}
				if tt.op == opWrite {
					changes = append(changes, remote(targetAddress, tt.to))
				}
				r.broken(tt.op, all(changes...))
				_, taken := r.b.ReceiveDone()
				require.Equal(t, NotDone, taken)
				used := tt.op == opSend || tt.with
				bits, want := tt.bits, tt.async
				switch how {
				case "next message":
					r.send(opWrite, data(1), nil)
				case "disconnect here":
					r.b.Disconnect()
					bits |= flushed
				case "disconnect there":
					r.a.Disconnect()
					bits |= flushed
					want = append([]layout.AsyncError{layout.AsyncErrorConnectionLost}, want...)
					if tt.name == "RDMA write, rejected" {
						want[0], want[1] = want[1], want[0] // it came with the frame
					}
				}
				if used {
					require.Equal(t, end{bits: bits, length: tt.got, echo: tt.echo}, r.reap(r.b, true))
				}
				if how != "next message" {
					require.Equal(t, end{bits: flushed, echo: receiveEcho}, r.reap(r.b, true))
				}
				r.errors(r.b, want...)
			})
		}
	}
}

// Allows accepts exactly the allowed completions.
func TestAllows(t *testing.T) {
	const d, i = layout.DescriptorStatusDoneMask, layout.DescriptorStatusImmediateMask
	c := Completion{Status: d | protectionError | i, MaySet: lengthError, Length: 5, Immediate: 6}
	require.True(t, c.Allows(d|protectionError|i, 5, 6))
	require.True(t, c.Allows(d|protectionError|lengthError|i, 5, 6))
	require.False(t, c.Allows(d|lengthError|i, 5, 6))
	require.False(t, c.Allows(d|protectionError|formatError|i, 5, 6))
	require.False(t, c.Allows(d|protectionError, 5, 6))
	require.False(t, c.Allows(d|protectionError|i, 4, 6))
	require.False(t, c.Allows(d|protectionError|i, 5, 7))
	require.True(t, Completion{Status: d}.Allows(d, 0, 7))
	require.Contains(t, c.String(), "ProtectionError")
}

// A clone is independent.
func TestClone(t *testing.T) {
	r := newRig(t)
	r.receive([]piece{{targetAddress, targetHandle, 3000}}, nil)
	r.receive([]piece{{targetAddress, targetHandle, 3000}}, nil)
	require.Equal(t, 2, r.b.Available())
	r.broken(opSend, nil)
	require.Equal(t, 1, r.b.Available())
	other := r.f.Clone()
	require.Equal(t, r.f, other)
	r.send(opSend, data(9), nil)
	b := other.Hosts[1].VI(r.b.Index())
	_, taken := b.ReceiveDone()
	require.Equal(t, NotDone, taken)
	require.Equal(t, layout.VIStateConnected, b.State())
	other.Hosts[0].VI(r.a.Index()).Disconnect()
	c, taken := b.ReceiveDone()
	require.Equal(t, Done, taken)
	require.Equal(t, uint32(layout.MaxPayload), c.Length)
	require.NotZero(t, c.Status&flushed)
	require.Equal(t, layout.VIStateConnected, r.b.State())
	require.Equal(t, end{bits: partialError, length: layout.MaxPayload, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
	require.Equal(t, end{length: 9, echo: layout.StatusOperationReceive}, r.reap(r.b, true))
	require.Nil(t, other.Hosts[0].VI(99))
}
