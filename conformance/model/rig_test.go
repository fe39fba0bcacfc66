// SPDX-License-Identifier: Apache-2.0

package model

import (
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
