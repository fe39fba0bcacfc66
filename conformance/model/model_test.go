// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

// Memory of each host: one area for each purpose, under separate handles.
const (
	queueAddress  = 0x10000 // descriptors
	dataAddress   = 0x20000 // buffers of sends and receives
	targetAddress = 0x40000 // target of RDMA writes
	areaBytes     = 0x10000

	queueHandle    = 1
	dataHandle     = 2
	targetHandle   = 3
	foreignHandle  = 4 // the data under another protection tag
	readOnlyHandle = 5 // the target without the RDMA write right
	oddHandle      = 6 // a part of the data with an odd address
	goneHandle     = 9

	tag        = 7
	foreignTag = 8
	largest    = 32768

	oddAddress, oddBytes = dataAddress + 0x1001, 0x555
)

// rig has two hosts with a connected VI each.
type rig struct {
	t    *testing.T
	f    *Fabric
	a, b *VI
	next map[*VI]int // descriptors written
}

func attributes() Attributes {
	return Attributes{Reliability: layout.ReliabilityUnreliable, MaxTransferSize: largest, Tag: tag, RDMAWrite: true}
}

func newRig(t *testing.T) *rig {
	r := idleRig(t)
	require.NoError(t, Connect(r.a, r.b))
	return r
}

func idleRig(t *testing.T) *rig {
	r := &rig{t: t, f: New(2, 16), next: map[*VI]int{}}
	for i, h := range r.f.Hosts {
		for _, at := range []uint64{queueAddress, dataAddress, targetAddress} {
			require.NoError(t, h.Allocate(at, areaBytes))
		}
		for k := range areaBytes {
			h.Memory(dataAddress, areaBytes)[k] = byte(k*7 + k>>8 + i)
		}
		for handle, region := range map[uint32]Region{
			queueHandle: {queueAddress, areaBytes, tag, false, false}, dataHandle: {dataAddress, areaBytes, tag, false, false},
			targetHandle: {targetAddress, areaBytes, tag, true, true}, foreignHandle: {dataAddress, areaBytes, foreignTag, false, false},
			readOnlyHandle: {targetAddress, areaBytes, tag, false, false}, oddHandle: {oddAddress, oddBytes, tag, true, true},
		} {
			require.NoError(t, h.Register(handle, region))
		}
	}
	var err error
	r.a, err = r.f.Hosts[0].CreateVI(3, attributes())
	require.NoError(t, err)
	r.b, err = r.f.Hosts[1].CreateVI(5, attributes())
	require.NoError(t, err)
	return r
}

// piece is a data segment.
type piece struct {
	address uint64
	handle  uint32
	length  uint32
}

// put writes a descriptor into a VI's queue memory and returns its address.
func (r *rig) put(v *VI, op layout.DescriptorOperation, pieces []piece, change func(layout.Descriptor)) uint64 {
	at := uint64(queueAddress + r.next[v]*0x1000)
	r.next[v]++
	b := v.host.Memory(at, 0x1000)
	clear(b)
	d := layout.Descriptor(b)
	d.SetControl(uint16(op))
	rest := b[layout.DescriptorSize:]
	count := len(pieces)
	if op == layout.DescriptorOperationRDMAWrite || op == layout.DescriptorOperationRDMARead {
		layout.AddressSegment(rest).SetAddress(targetAddress)
		layout.AddressSegment(rest).SetHandle(targetHandle)
		rest = rest[layout.AddressSegmentSize:]
		count++
	}
	d.SetSegmentCount(uint16(count))
	sum := uint32(0)
	for _, p := range pieces {
		if len(rest) < layout.DataSegmentSize {
			break
		}
		s := layout.DataSegment(rest)
		s.SetAddress(p.address)
		s.SetHandle(p.handle)
		s.SetLength(p.length)
		rest = rest[layout.DataSegmentSize:]
		sum += p.length
	}
	d.SetLength(sum)
	if change != nil {
		change(d)
	}
	return at
}

func (r *rig) send(op layout.DescriptorOperation, pieces []piece, change func(layout.Descriptor)) {
	require.NoError(r.t, r.a.PostSend(r.put(r.a, op, pieces, change), queueHandle))
}

func (r *rig) receive(pieces []piece, change func(layout.Descriptor)) {
	require.NoError(r.t, r.b.PostReceive(r.put(r.b, layout.DescriptorOperationSend, pieces, change), queueHandle))
}

// end is the result of a Done call without the address.
type end struct {
	bits, length uint32
	echo         layout.StatusOperation
	immediate    uint32 // with the bit
}

func (r *rig) reap(v *VI, receive bool) end {
	r.t.Helper()
	done := v.SendDone
	if receive {
		done = v.ReceiveDone
	}
	c, taken := done()
	require.Equal(r.t, Done, taken)
	require.NotZero(r.t, c.Status&layout.DescriptorStatusDoneMask)
	// Memory has the same.
	d := layout.Descriptor(v.host.Memory(c.Address, layout.DescriptorSize))
	require.Equal(r.t, c.Status, d.Status())
	require.Equal(r.t, c.Length, d.Length())
	e := end{
		bits: c.Status &^ (layout.DescriptorStatusDoneMask | layout.DescriptorStatusOperationMask | layout.DescriptorStatusImmediateMask), length: c.Length,
		echo: layout.StatusOperation(c.Status & layout.DescriptorStatusOperationMask >> layout.DescriptorStatusOperationLsb),
	}
	if c.Status&layout.DescriptorStatusImmediateMask != 0 {
		e.immediate = c.Immediate
		require.Equal(r.t, c.Immediate, d.ImmediateData())
	}
	return e
}

func (r *rig) errors(v *VI, want ...layout.AsyncError) {
	r.t.Helper()
	var got []layout.AsyncError
	for _, e := range v.host.TakeErrors() {
		require.Equal(r.t, v.index, e.VI)
		got = append(got, e.Code)
	}
	require.Equal(r.t, want, got)
}

const (
	opSend  = layout.DescriptorOperationSend
	opWrite = layout.DescriptorOperationRDMAWrite
)

func immediate(v uint32) func(layout.Descriptor) {
	return func(d layout.Descriptor) {
		d.SetControl(d.Control() | layout.DescriptorControlImmediateMask)
		d.SetImmediateData(v)
	}
}

func all(changes ...func(layout.Descriptor)) func(layout.Descriptor) {
	return func(d layout.Descriptor) {
		for _, c := range changes {
			c(d)
		}
	}
}

func control(mask uint16) func(layout.Descriptor) {
	return func(d layout.Descriptor) { d.SetControl(d.Control() | mask) }
}

func length(n uint32) func(layout.Descriptor) {
	return func(d layout.Descriptor) { d.SetLength(n) }
}

func remote(address uint64, handle uint32) func(layout.Descriptor) {
	return func(d layout.Descriptor) {
		a := layout.AddressSegment(d[layout.DescriptorSize:])
		a.SetAddress(address)
		a.SetHandle(handle)
	}
}

func data(n uint32) []piece { return []piece{{dataAddress, dataHandle, n}} }

// cutPieces splits n bytes of the data area into segments.
func cutPieces(n uint32, segments int) []piece {
	var p []piece
	at := uint64(dataAddress)
	for i := range segments {
		l := n / uint32(segments-i)
		p = append(p, piece{at, dataHandle, l})
		at, n = at+uint64(l), n-l
	}
	return p
}

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
