// SPDX-License-Identifier: Apache-2.0

package call

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"hvia/driver/card"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

func TestRequestRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		q := Request{
			ID: rapid.Uint32().Draw(r, "id"), Op: Operation(rapid.Uint16().Draw(r, "op")), Address: rapid.Uint64().Draw(r, "address"),
			Length: rapid.Uint64().Draw(r, "length"), Timeout: rapid.Int64().Draw(r, "timeout"), Object: rapid.Uint32().Draw(r, "object"),
			Tag: rapid.Uint16().Draw(r, "tag"), Rights: rapid.Byte().Draw(r, "rights"),
		}
		asked := rapid.StringN(-1, -1, layout.MaxDiscriminator).Draw(r, "asked")
		n, err := PutDiscriminator(&q.Asked, asked)
		require.NoError(r, err)
		q.AskedLength = n
		got, err := Decode(Encode(&q))
		require.NoError(r, err)
		require.Empty(r, cmp.Diff(q, got))
		require.Equal(r, asked, got.AskedText())
	})
}

func TestReplyRoundTrip(t *testing.T) {
	slot := make([]byte, ReplySlot)
	for i, sentinel := range sentinels {
		var err error
		if sentinel != nil {
			err = fmt.Errorf("call %d: %w", i, sentinel)
		}
		PutReply(slot, uint32(i+1), &Reply{Object: 7, Address: 1 << 40}, err)
		require.Equal(t, uint32(i+1), mem.LoadUint32(slot))
		r, got := GetReply(slot)
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
	PutReply(slot, 1, &Reply{}, errors.New(strings.Repeat("x", 2*ReplySlot)))
	_, err := GetReply(slot)
	require.ErrorIs(t, err, card.ErrCommand)
	require.Len(t, err.Error(), ReplySlot-replyBody-replyBytes)
}

// A request or reply with more regions than fit is rejected.
func TestRegionsOfMessages(t *testing.T) {
	q := Request{Op: OpOffer, Offers: layout.MaxOfferedRegions}
	for i := range q.Handles {
		q.Handles[i] = uint32(i + 1)
	}
	got, err := Decode(Encode(&q))
	require.NoError(t, err)
	require.Equal(t, q, got)
	q.Offers++
	_, err = Decode(Encode(&q))
	require.ErrorIs(t, err, host.ErrInvalidParameter)

	slot := make([]byte, ReplySlot)
	r := Reply{Offers: layout.MaxOfferedRegions}
	for i := range r.Regions {
		r.Regions[i] = offered{Address: uint64(i) << 40, Length: 1 << 33, Handle: uint32(i + 1), Rights: uint8(i % 4)}
	}
	PutReply(slot, 1, &r, nil)
	back, err := GetReply(slot)
	require.NoError(t, err)
	require.Equal(t, r.Regions, back.Regions)
	r.Offers++
	PutReply(slot, 2, &r, nil)
	_, err = GetReply(slot)
	require.ErrorIs(t, err, host.ErrInvalidParameter)
}

func TestOperationsHaveNames(t *testing.T) {
	for op := OpAllocate; op <= OpBye; op++ {
		require.NotContains(t, op.String(), "operation(", "%d", op)
	}
	require.Equal(t, "operation(0)", Operation(0).String())
	require.Equal(t, "operation(99)", Operation(99).String())
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add(Encode(&Request{Op: OpRegister, Address: 1, Length: 2}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := Decode(b)
		if err != nil {
			require.ErrorIs(t, err, host.ErrInvalidParameter)
			return
		}
		_, _ = q.AskedText(), q.OwnText() // must not exceed their arrays
		require.Equal(t, b, Encode(&q))
	})
}

func FuzzGetReply(f *testing.F) {
	slot := make([]byte, ReplySlot)
	PutReply(slot, 1, &Reply{Object: 3}, ErrTag)
	f.Add(slot)
	f.Fuzz(func(t *testing.T, b []byte) {
		slot := make([]byte, ReplySlot)
		copy(slot, b)
		r, err := GetReply(slot)
		if err == nil {
			require.LessOrEqual(t, int(r.OwnLength), layout.MaxDiscriminator)
		}
	})
}
