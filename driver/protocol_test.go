// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"hvia/host"
	"hvia/host/mem"
)

func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		q := request{
			ID: rapid.Uint32().Draw(r, "id"), Op: operation(rapid.Uint16().Draw(r, "op")), Address: rapid.Uint64().Draw(r, "address"),
			Length: rapid.Uint64().Draw(r, "length"), Timeout: rapid.Int64().Draw(r, "timeout"), Object: rapid.Uint32().Draw(r, "object"),
			Tag: rapid.Uint16().Draw(r, "tag"), Rights: rapid.Byte().Draw(r, "rights"),
		}
		asked := rapid.StringN(-1, -1, MaxDiscriminator).Draw(r, "asked")
		n, err := putDiscriminator(&q.Asked, asked)
		require.NoError(r, err)
		q.AskedLength = n
		got, err := decodeRequest(encodeRequest(&q))
		require.NoError(r, err)
		require.Empty(r, cmp.Diff(q, got))
		require.Equal(r, asked, got.asked())
	})
}

func TestReplyRoundTrip(t *testing.T) {
	slot := make([]byte, replySlot)
	for i, sentinel := range sentinels {
		var err error
		if sentinel != nil {
			err = fmt.Errorf("call %d: %w", i, sentinel)
		}
		putReply(slot, uint32(i+1), &reply{Object: 7, Address: 1 << 40}, err)
		require.Equal(t, uint32(i+1), mem.LoadUint32(slot))
		r, got := getReply(slot)
		require.EqualValues(t, 7, r.Object)
		require.EqualValues(t, 1<<40, r.Address)
		if sentinel == nil {
			require.NoError(t, got)
			continue
		}
		require.ErrorIs(t, got, sentinel)
		require.Equal(t, err.Error(), got.Error())
	}
	// A text that does not fit is truncated; an unknown error counts as the
	// card's.
	putReply(slot, 1, &reply{}, errors.New(strings.Repeat("x", 2*replySlot)))
	_, err := getReply(slot)
	require.ErrorIs(t, err, ErrCommand)
	require.Len(t, err.Error(), replySlot-replyBody-replyBytes)
}

// A request or reply with more regions than fit is rejected.
func TestRegionsOfMessages(t *testing.T) {
	q := request{Op: opOffer, Offers: MaxOfferedRegions}
	for i := range q.Handles {
		q.Handles[i] = uint32(i + 1)
	}
	got, err := decodeRequest(encodeRequest(&q))
	require.NoError(t, err)
	require.Equal(t, q, got)
	q.Offers++
	_, err = decodeRequest(encodeRequest(&q))
	require.ErrorIs(t, err, host.ErrInvalidParameter)

	slot := make([]byte, replySlot)
	r := reply{Offers: MaxOfferedRegions}
	for i := range r.Regions {
		r.Regions[i] = offered{Address: uint64(i) << 40, Length: 1 << 33, Handle: uint32(i + 1), Rights: uint8(i % 4)}
	}
	putReply(slot, 1, &r, nil)
	back, err := getReply(slot)
	require.NoError(t, err)
	regions := back.remote().Regions
	require.Len(t, regions, MaxOfferedRegions)
	require.Equal(t, RegionInfo{Handle: 8, Address: 7 << 40, Length: 1 << 33, Rights: Rights{RDMAWrite: true, RDMARead: true}}, regions[7])
	r.Offers++
	putReply(slot, 2, &r, nil)
	_, err = getReply(slot)
	require.ErrorIs(t, err, host.ErrInvalidParameter)
}

func TestOperationsHaveNames(t *testing.T) {
	for op := opAllocate; op <= opBye; op++ {
		require.NotContains(t, op.String(), "operation(", "%d", op)
	}
	require.Equal(t, "operation(0)", operation(0).String())
	require.Equal(t, "operation(99)", operation(99).String())
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(encodeRequest(&request{Op: opRegister, Address: 1, Length: 2}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeRequest(b)
		if err != nil {
			require.ErrorIs(t, err, host.ErrInvalidParameter)
			return
		}
		_, _ = q.asked(), q.own() // must not exceed their arrays
		require.Equal(t, b, encodeRequest(&q))
	})
}

func FuzzGetReply(f *testing.F) {
	slot := make([]byte, replySlot)
	putReply(slot, 1, &reply{Object: 3}, ErrTag)
	f.Add(slot)
	f.Fuzz(func(t *testing.T, b []byte) {
		slot := make([]byte, replySlot)
		copy(slot, b)
		r, err := getReply(slot)
		if err == nil {
			require.LessOrEqual(t, int(r.OwnLength), MaxDiscriminator)
		}
	})
}
