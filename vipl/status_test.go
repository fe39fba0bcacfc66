// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/layout"
	"hvia/sim/bridge"
)

// Values and names of VIP_RETURN are those of vipl.h, and every status has a
// sentinel of its own.
func TestStatuses(t *testing.T) {
	want := []string{
		"VIP_SUCCESS", "VIP_NOT_DONE", "VIP_INVALID_PARAMETER", "VIP_ERROR_RESOURCE", "VIP_TIMEOUT", "VIP_REJECT",
		"VIP_INVALID_RELIABILITY_LEVEL", "VIP_INVALID_MTU", "VIP_INVALID_QOS", "VIP_INVALID_PTAG", "VIP_INVALID_RDMAREAD",
		"VIP_DESCRIPTOR_ERROR", "VIP_INVALID_STATE", "VIP_ERROR_NAMESERVICE", "VIP_NO_MATCH", "VIP_NOT_REACHABLE", "VIP_ERROR_NOT_SUPPORTED",
	}
	seen := map[error]bool{}
	for i, name := range want {
		s := Status(i)
		require.Equal(t, name, s.String())
		if s == StatusSuccess {
			require.NoError(t, s.Err())
			continue
		}
		require.Error(t, s.Err())
		require.False(t, seen[s.Err()], name)
		seen[s.Err()] = true
		err := fmt.Errorf("outer: %w", &Error{Op: "test", VI: -1, Descriptor: -1, Status: s})
		require.ErrorIs(t, err, s.Err())
		got, ok := StatusOf(err)
		require.True(t, ok)
		require.Equal(t, s, got)
	}
	require.Equal(t, "VIP_RETURN(17)", Status(17).String())
	require.Equal(t, "VIP_RETURN(-1)", Status(-1).String())
	_, ok := StatusOf(errors.New("other"))
	require.False(t, ok)
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{&Error{Op: "post send", VI: 3, Descriptor: 17, Status: StatusDescriptorError, Detail: errors.New("length 70000 > max transfer size 65536")},
			"vipl: post send: VI 3, descriptor 17: length 70000 > max transfer size 65536: descriptor error"},
		{&Error{Op: "send done", VI: 0, Descriptor: -1, Status: StatusNotDone}, "vipl: send done: VI 0: not done"},
		{&Error{Op: "close NIC", VI: -1, Descriptor: -1, Status: StatusInvalidParameter, Detail: errors.New("driver: already closed")},
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
		require.Equal(t, bit == 0, s.Done())
		require.Equal(t, bit != 0, s.Failed(), "bit %d", bit)
		require.Equal(t, bit == 5, s.Flushed())
		require.NotEqual(t, "not done", s.String())
	}
	require.Equal(t, "not done", DescriptorStatus(0).String())
	require.Equal(t, "done", DescriptorStatus(0x20001).String(), "the operation is not an error")
	require.Equal(t, "malformed descriptor, flushed", DescriptorStatus(0x23).String())
}

// Errors of the driver become statuses; the end of a run stays what it is.
func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{driver.ErrResource, ErrResource}, {driver.ErrInUse, ErrResource}, {driver.ErrTag, ErrInvalidPtag}, {driver.ErrState, ErrInvalidState},
		{driver.ErrUnsupported, ErrInvalidRDMARead}, {driver.ErrTimeout, ErrTimeout}, {driver.ErrNoMatch, ErrNoMatch}, {driver.ErrRejected, ErrReject},
		{driver.ErrReliability, ErrInvalidReliabilityLevel}, {driver.ErrTransferSize, ErrInvalidMTU}, {driver.ErrCommand, ErrResource},
		{driver.ErrInvalidParameter, ErrInvalidParameter}, {driver.ErrNoRequest, ErrInvalidParameter},
	} {
		err := translate("op", 1, fmt.Errorf("below: %w", c.err))
		require.ErrorIs(t, err, c.want)
		require.ErrorIs(t, err, c.err)
	}
	require.NoError(t, translate("op", 1, nil))
	for _, over := range []error{&bridge.StopError{Kind: bridge.ErrDeadlock}, driver.ErrThreadBusy, driver.ErrClosed, driver.ErrDeadline} {
		err := translate("op", 1, over)
		require.ErrorIs(t, err, over)
		_, ok := StatusOf(err)
		require.False(t, ok, "%v", over)
	}
}

// The descriptor builder fills the fields that VIA asks for and no others.
func TestSetRdmaWrite(t *testing.T) {
	b := make([]byte, DescriptorBytes)
	for i := range b {
		b[i] = 0xee
	}
	d := &Descriptor{Descriptor: b}
	d.SetRdmaWrite(Segment{Address: 0x1122334455667788, Handle: 0x99aabbcc, Length: 5}, 0x0102030405060708, 0x0a0b0c0d)
	want := []byte{
		0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 2, 0, 1, 0, // the links are the provider's
		0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
		8, 7, 6, 5, 4, 3, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xcc, 0xbb, 0xaa, 0x99, 5, 0, 0, 0,
	}
	require.Equal(t, want, b)
	require.Equal(t, 64, layout.DescriptorAlignment)
}
