// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
)

// Values and names of VIP_RETURN are those of vipl.h. Every status has a
// different text.
func TestStatuses(t *testing.T) {
	want := []string{
		"VIP_SUCCESS", "VIP_NOT_DONE", "VIP_INVALID_PARAMETER", "VIP_ERROR_RESOURCE", "VIP_TIMEOUT", "VIP_REJECT",
		"VIP_INVALID_RELIABILITY_LEVEL", "VIP_INVALID_MTU", "VIP_INVALID_QOS", "VIP_INVALID_PTAG", "VIP_INVALID_RDMAREAD",
		"VIP_DESCRIPTOR_ERROR", "VIP_INVALID_STATE", "VIP_ERROR_NAMESERVICE", "VIP_NO_MATCH", "VIP_NOT_REACHABLE", "VIP_ERROR_NOT_SUPPORTED",
	}
	seen := map[string]bool{}
	for i, name := range want {
		s := Status(i)
		require.Equal(t, name, s.String())
		require.False(t, seen[s.Error()], name)
		seen[s.Error()] = true
		err := fmt.Errorf("outer: %w", &Error{Op: "test", Status: s})
		require.ErrorIs(t, err, s)
		var got Status
		require.ErrorAs(t, err, &got)
		require.Equal(t, s, got)
	}
	require.Equal(t, "VIP_RETURN(17)", Status(17).String())
	require.Equal(t, "VIP_RETURN(-1)", Status(-1).String())
	require.False(t, errors.As(errors.New("other"), new(Status)))
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{&Error{Op: "post send", VI: &VI{vi: driver.VI{Index: 3}}, Descriptor: &Descriptor{}, Number: 17, Status: ErrDescriptor, Detail: errors.New("length 70000 > max transfer size 65536")},
			"vipl: post send: VI 3, descriptor 17: length 70000 > max transfer size 65536: descriptor error"},
		{&Error{Op: "send done", VI: &VI{}, Status: ErrNotDone}, "vipl: send done: VI 0: not done"},
		{&Error{Op: "close NIC", Status: ErrInvalidParameter, Detail: errors.New("driver: already closed")},
			"vipl: close NIC: already closed: invalid parameter"},
	} {
		require.EqualError(t, c.err, c.want)
	}
}

func TestDescriptorStatus(t *testing.T) {
	// VIP_STATUS_ERROR_MASK of vipl.h.
	require.EqualValues(t, 0x1fe, DescriptorErrorMask)
	for bit := range 9 {
		s := DescriptorStatus(1 << bit)
		require.Equal(t, bit == 0, s&DescriptorDone != 0)
		require.Equal(t, bit != 0, s&DescriptorErrorMask != 0, "bit %d", bit)
		require.Equal(t, bit == 5, s == Flushed)
		require.NotEqual(t, "not done", s.String())
	}
	require.Equal(t, "not done", DescriptorStatus(0).String())
	require.Equal(t, "done", DescriptorStatus(0x20001).String(), "the operation is not an error")
	require.Equal(t, "malformed descriptor, flushed", DescriptorStatus(0x23).String())
}

// Errors of the driver become statuses; errors that end a run pass unchanged.
func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{host.ErrResource, ErrResource}, {host.ErrInUse, ErrResource}, {driver.ErrTag, ErrInvalidPtag}, {driver.ErrState, ErrInvalidState},
		{driver.ErrUnsupported, ErrInvalidRDMARead}, {driver.ErrTimeout, ErrTimeout}, {driver.ErrNoMatch, ErrNoMatch}, {driver.ErrNotReachable, ErrNotReachable}, {driver.ErrRejected, ErrReject},
		{driver.ErrReliability, ErrInvalidReliabilityLevel}, {driver.ErrTransferSize, ErrInvalidMTU}, {driver.ErrCommand, ErrResource},
		{host.ErrInvalidParameter, ErrInvalidParameter}, {driver.ErrNoRequest, ErrInvalidParameter},
	} {
		err := translate("op", nil, fmt.Errorf("below: %w", c.err))
		require.ErrorIs(t, err, c.want)
		require.ErrorIs(t, err, c.err)
	}
	require.NoError(t, translate("op", nil, nil))
	for _, over := range []error{&bridge.StopError{Kind: bridge.ErrDeadlock}, host.ErrThreadBusy, host.ErrClosed, driver.ErrDeadline} {
		err := translate("op", nil, over)
		require.ErrorIs(t, err, over)
		require.False(t, errors.As(err, new(Status)), "%v", over)
	}
}

// The descriptor builder fills the fields of VIA and no others.
func TestSetRDMAWrite(t *testing.T) {
	b := make([]byte, DescriptorBytes)
	for i := range b {
		b[i] = 0xee
	}
	d := &Descriptor{memory: b}
	d.SetRDMAWrite(0x0102030405060708, 0x0a0b0c0d, Segment{Address: 0x1122334455667788, Handle: 0x99aabbcc, Length: 5})
	want := []byte{
		0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 2, 0, 1, 0, // the links are the provider's
		0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
		8, 7, 6, 5, 4, 3, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xcc, 0xbb, 0xaa, 0x99, 5, 0, 0, 0,
	}
	require.Equal(t, want, b)
	require.Equal(t, 64, layout.DescriptorAlignment)
}

// Sends and receives begin with data segments, gathered RDMA writes with an
// address segment; earlier contents are gone.
func TestDescriptorsOfSeveralSegments(t *testing.T) {
	list := []Segment{{Address: 0x1000, Handle: 7, Length: 5}, {}, {Address: 0x2000, Handle: 8, Length: 0xfffffff0}}
	b := make([]byte, DescriptorSize(3))
	d := &Descriptor{memory: b}
	reset := func() {
		for i := range b {
			b[i] = 0xee
		}
	}
	for _, c := range []struct {
		name    string
		set     func() error
		control layout.DescriptorOperation
		count   uint16
		first   int
	}{
		{"send", func() error { return d.SetSend(list...) }, layout.DescriptorOperationSend, 3, 0},
		{"receive", func() error { return d.SetReceive(list...) }, layout.DescriptorOperationSend, 3, 0},
		{"RDMA write", func() error { return d.SetRDMAWrite(9, 10, list...) }, layout.DescriptorOperationRDMAWrite, 4, 1},
	} {
		reset()
		require.NoError(t, c.set(), c.name)
		require.EqualValues(t, c.control, d.memory.Control(), c.name)
		require.Equal(t, c.count, d.memory.SegmentCount(), c.name)
		require.EqualValues(t, 0xfffffff5, d.memory.Length(), c.name)
		require.Zero(t, d.Status(), c.name)
		require.Zero(t, d.memory.ImmediateData(), c.name)
		require.Equal(t, make([]byte, 4), b[layout.DescriptorReservedOffset:layout.DescriptorImmediateDataOffset], c.name)
		for k, s := range list {
			got := layout.DataSegment(b[layout.DescriptorSize+(c.first+k)*layout.DataSegmentSize:])
			require.Equal(t, s, Segment{got.Address(), MemHandle(got.Handle()), got.Length()}, "%s, segment %d", c.name, k)
		}
		require.EqualValues(t, 0xfffffff5, d.dataBytes(), c.name)
		d.AttachImmediate(0x12345678)
		require.EqualValues(t, uint16(c.control)|layout.DescriptorControlImmediateMask, d.memory.Control(), c.name)
		require.EqualValues(t, 0x12345678, d.memory.ImmediateData(), c.name)
	}
	require.Equal(t, []byte{9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0}, b[layout.DescriptorSize:][:layout.AddressSegmentSize])

	// Data that exceed the capacity change nothing.
	reset()
	for _, err := range []error{
		d.SetSend(make([]Segment, 7)...), d.SetRDMAWrite(0, 0, make([]Segment, 6)...), d.SetReceive(list[2], Segment{Length: 16}),
	} {
		require.ErrorIs(t, err, ErrInvalidParameter)
	}
	require.Equal(t, bytes.Repeat([]byte{0xee}, len(b)), b)
	require.NoError(t, (&Descriptor{memory: make([]byte, 64)}).SetSend(list[:2]...))
	require.ErrorIs(t, (&Descriptor{memory: make([]byte, 64)}).SetRDMAWrite(0, 0, list[:2]...), ErrInvalidParameter)
	require.NoError(t, d.SetSend(), "a message of no bytes")
	require.Zero(t, d.memory.SegmentCount())
}

// A descriptor with all segments fits a page.
func TestDescriptorSize(t *testing.T) {
	require.Equal(t, 64, DescriptorBytes)
	require.Equal(t, layout.MaxDataSegments, MaxSegments)
	for segments, want := range map[int]int{0: 64, 1: 64, 2: 128, 5: 128, 6: 192, MaxSegments: layout.AttPageBytes} {
		require.Equal(t, want, DescriptorSize(segments), "%d segments", segments)
	}
	whole := &Descriptor{memory: make([]byte, DescriptorSize(MaxSegments))}
	require.NoError(t, whole.SetRDMAWrite(0, 0, make([]Segment, MaxSegments)...))
	require.ErrorIs(t, whole.SetSend(make([]Segment, MaxSegments+1)...), ErrInvalidParameter, "the descriptor has space, but it is one too many")
}

func TestCompletedOperation(t *testing.T) {
	s := DescriptorStatus(0xb0001)
	d := &Descriptor{memory: make([]byte, 64)}
	d.memory.SetStatus(uint32(s))
	d.memory.SetImmediateData(0xabcdef01)
	d.memory.SetLength(77)
	data, ok := d.Immediate()
	require.True(t, ok)
	require.EqualValues(t, 0xabcdef01, data)
	require.Equal(t, 77, d.Length())
	d.memory.SetStatus(0x70001)
	_, ok = d.Immediate()
	require.False(t, ok)
}

// Every asynchronous error has a resource, and VIPL's names.
func TestErrorDescriptors(t *testing.T) {
	n := &NIC{vis: map[int]*VI{}}
	for code, want := range map[layout.AsyncError]ErrorDescriptor{
		layout.AsyncErrorPostDescriptor:       {Resource: ResourceDescriptor},
		layout.AsyncErrorConnectionLost:       {Resource: ResourceVI},
		layout.AsyncErrorReceiveQueueEmpty:    {Resource: ResourceVI, Operation: layout.StatusOperationReceive},
		layout.AsyncErrorVIOverrun:            {Resource: ResourceVI},
		layout.AsyncErrorRDMAWriteProtection:  {Resource: ResourceVI, Operation: layout.StatusOperationRemoteRDMAWrite},
		layout.AsyncErrorRDMAWriteData:        {Resource: ResourceVI, Operation: layout.StatusOperationRemoteRDMAWrite},
		layout.AsyncErrorRDMAWriteAbort:       {Resource: ResourceVI, Operation: layout.StatusOperationRemoteRDMAWrite},
		layout.AsyncErrorRDMAReadProtection:   {Resource: ResourceVI, Operation: layout.StatusOperationRDMARead},
		layout.AsyncErrorCompletionProtection: {Resource: ResourceDescriptor},
		layout.AsyncErrorRDMATransport:        {Resource: ResourceVI},
		layout.AsyncErrorCatastrophic:         {Resource: ResourceVI},
	} {
		want.NIC, want.Code = n, code
		require.Equal(t, want, n.describe(driver.AsyncError{Code: code, VI: 3}))
	}
	require.Equal(t, ResourceNIC, n.describe(driver.AsyncError{Code: layout.AsyncErrorCatastrophic, VI: -1}).Resource)
	n.closed.Store(true)
	require.ErrorIs(t, n.ErrorCallback(nil), ErrInvalidParameter)
}
