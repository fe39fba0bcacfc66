// SPDX-License-Identifier: Apache-2.0

package att

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

func TestHandle(t *testing.T) {
	h := MakeHandle(0x12345, 0xabc)
	require.Equal(t, Handle(0xabc12345), h)
	require.Equal(t, uint32(0x12345), h.Index())
	require.Equal(t, uint16(0xabc), h.Generation())
	require.Equal(t, MakeHandle(1, 2), MakeHandle(1|1<<20, 2|1<<12), "bits beyond the fields are dropped")
	require.Equal(t, "0xabc12345 (entry 74565, generation 2748)", h.String())
}

// The bytes of one entry, derived by hand from the layout page.
func TestEncodeIsTheLayout(t *testing.T) {
	e := Entry{
		Start: 0x1122334455667788, Level2Address: 0x02000010, Pages: 3, FirstBytes: 0x0ff0, LastBytes: 0x1000,
		Valid: true, RDMAWrite: true, Generation: 0xabc, Tag: 0xbeef,
	}
	want := []byte{
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		0x10, 0x00, 0x00, 0x02,
		0x03, 0x00, 0x00, 0x00,
		0xf0, 0x0f, 0x00, 0x10,
		0xc3, 0xab, 0xef, 0xbe,
	}
	require.Equal(t, want, []byte(e.Encode()))
	got, err := DecodeEntry(want)
	require.NoError(t, err)
	require.Equal(t, e, got)
	_, err = DecodeEntry(want[:23])
	require.ErrorContains(t, err, "got 23 bytes, need 24")
}

func TestCheck(t *testing.T) {
	good := Entry{Level2Address: layout.AttLevel2Base, Pages: 2, FirstBytes: 1, LastBytes: 4096}
	require.NoError(t, good.Check())
	tests := []struct {
		name   string
		change func(*Entry)
		ok     bool
	}{
		{"level 2 in the level-1 half", func(e *Entry) { e.Level2Address = layout.AttLevel2Base - 4 }, false},
		{"level 2 misaligned", func(e *Entry) { e.Level2Address += 2 }, false},
		{"level 2 behind the memory", func(e *Entry) { e.Level2Address = layout.AttSdramBytes }, false},
		{"level 2 ends with the memory", func(e *Entry) { e.Level2Address = layout.AttSdramBytes - 8 }, true},
		{"level 2 ends behind the memory", func(e *Entry) { e.Level2Address = layout.AttSdramBytes - 4 }, false},
		{"all of level 2", func(e *Entry) { e.Pages = layout.AttLevel2Count }, true},
		{"more than level 2", func(e *Entry) { e.Pages = layout.AttLevel2Count + 1 }, false},
		{"page count that wraps", func(e *Entry) { e.Pages = 1<<30 + 1 }, false},
		{"no pages", func(e *Entry) { e.Pages = 0 }, false},
		{"nothing in the first page", func(e *Entry) { e.FirstBytes = 0 }, false},
		{"too much in the first page", func(e *Entry) { e.FirstBytes = 4097 }, false},
		{"full first page", func(e *Entry) { e.FirstBytes = 4096 }, true},
		{"nothing in the last page", func(e *Entry) { e.LastBytes = 0 }, false},
		{"too much in the last page", func(e *Entry) { e.LastBytes = 4097 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := good
			tt.change(&e)
			if tt.ok {
				require.NoError(t, e.Check())
			} else {
				require.ErrorIs(t, e.Check(), ErrCorrupt)
			}
		})
	}
}

// A region of three pages: 0x10 bytes at the end of the first, a full one, 0x20
// bytes of the last.
func threePages(t *testing.T) (*Table, Registration) {
	t.Helper()
	table, err := NewTable(8)
	require.NoError(t, err)
	reg, err := table.Register(Region{
		Start: 0x7fff_0000_0ff0, Length: 0x10 + 0x1000 + 0x20, Pages: []uint32{0x0abc_d000, 0x0000_3000, 0xffff_f000}, Tag: 7, RDMAWrite: true,
	})
	require.NoError(t, err)
	return table, reg
}

func TestTranslate(t *testing.T) {
	table, reg := threePages(t)
	require.Equal(t, []uint32{0x0abc_dff0, 0x0000_3000, 0xffff_f000}, reg.Level2)
	require.Equal(t, uint64(0x1030), reg.Entry.Length())
	const start = 0x7fff_0000_0ff0
	h := reg.Handle
	local, write, read := layout.AttAccessLocal, layout.AttAccessRemoteWrite, layout.AttAccessRemoteRead
	tests := []struct {
		name   string
		h      Handle
		va     uint64
		length uint32
		tag    uint16
		access layout.AttAccess
		want   Translation
		err    error
	}{
		{"first byte", h, start, 1, 7, local, Translation{0x0abc_dff0, 0x10}, nil},
		{"last byte of the first page", h, start + 0xf, 1, 7, write, Translation{0x0abc_dfff, 1}, nil},
		{"first byte of the second page", h, start + 0x10, 1, 7, local, Translation{0x3000, 0x1000}, nil},
		{"last byte of the second page", h, start + 0x100f, 1, 7, local, Translation{0x3fff, 1}, nil},
		{"first byte of the last page", h, start + 0x1010, 0x20, 7, local, Translation{0xffff_f000, 0x20}, nil},
		{"last byte", h, start + 0x102f, 1, 7, local, Translation{0xffff_f01f, 1}, nil},
		{"the whole region", h, start, 0x1030, 7, local, Translation{0x0abc_dff0, 0x10}, nil},
		{"one byte more", h, start, 0x1031, 7, local, Translation{}, ErrBounds},
		{"one byte before", h, start - 1, 1, 7, local, Translation{}, ErrBounds},
		{"one byte behind", h, start + 0x1030, 1, 7, local, Translation{}, ErrBounds},
		{"the end wraps", h, start + 0x102f, 0xffff_ffff, 7, local, Translation{}, ErrBounds},
		{"address 0", h, 0, 1, 7, local, Translation{}, ErrBounds},
		{"the last address", h, ^uint64(0), 1, 7, local, Translation{}, ErrBounds},
		{"length 0 far away", h, 0, 0, 7, local, Translation{}, nil},
		{"length 0 with a wrong tag", h, start, 0, 8, local, Translation{}, ErrTag},
		{"length 0 without the right", h, start, 0, 7, read, Translation{}, ErrAccess},
		{"no read right", h, start, 1, 7, read, Translation{}, ErrAccess},
		{"unknown access", h, start, 1, 7, 3, Translation{}, ErrAccess},
		{"wrong tag before wrong right and bounds", h, 0, 1, 8, read, Translation{}, ErrTag},
		{"wrong right before wrong bounds", h, 0, 1, 7, read, Translation{}, ErrAccess},
		{"wrong handle before all", MakeHandle(h.Index(), h.Generation()+1), 0, 1, 8, read, Translation{}, ErrHandle},
		{"empty entry", MakeHandle(1, 0), start, 1, 7, local, Translation{}, ErrHandle},
		{"handle 0", 0, start, 1, 7, local, Translation{}, ErrHandle},
		{"index at the limit", MakeHandle(8, 1), start, 1, 7, local, Translation{}, ErrHandle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := table.Translate(tt.h, tt.va, tt.length, tt.tag, tt.access)
			require.Equal(t, tt.want, got)
			if tt.err == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.err)
			require.NotEqual(t, layout.AttErrorNone, Code(err))
		})
	}
}

func TestCode(t *testing.T) {
	for err, want := range map[error]layout.AttError{
		ErrHandle: layout.AttErrorHandle, ErrTag: layout.AttErrorTag, ErrAccess: layout.AttErrorAccess,
		ErrBounds: layout.AttErrorBounds, ErrCorrupt: layout.AttErrorBackend, errors.New("memory is gone"): layout.AttErrorBackend,
	} {
		require.Equal(t, want, Code(err))
	}
	require.Equal(t, layout.AttErrorNone, Code(nil))
}

// A self-contradictory entry fails after the handle check and before the tag
// check.
func TestTranslateCorrupt(t *testing.T) {
	var m Image
	m.WriteEntry(3, Entry{Valid: true, Generation: 5, Tag: 1, Level2Address: layout.AttLevel2Base, Pages: 0, FirstBytes: 1, LastBytes: 1})
	_, err := Translate(&m, 4, MakeHandle(3, 5), 0, 1, 2, layout.AttAccessLocal)
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = Translate(&m, 4, MakeHandle(3, 6), 0, 1, 2, layout.AttAccessLocal)
	require.ErrorIs(t, err, ErrHandle)
	_, err = Translate(&m, 3, MakeHandle(3, 5), 0, 1, 2, layout.AttAccessLocal)
	require.ErrorIs(t, err, ErrHandle)
}

func TestRegisterRefuses(t *testing.T) {
	table, err := NewTable(2)
	require.NoError(t, err)
	tests := []struct {
		name string
		r    Region
		want string
	}{
		{"empty", Region{Start: 1}, "length 0"},
		{"over the end of the address space", Region{Start: ^uint64(0), Length: 2, Pages: []uint32{0, 0}}, "leave the address space"},
		{"too few pages", Region{Start: 0xfff, Length: 2, Pages: []uint32{0}}, "touch 2 pages, 1 given"},
		{"too many pages", Region{Start: 0, Length: 4096, Pages: []uint32{0, 0}}, "touch 1 pages, 2 given"},
		{"misaligned page", Region{Start: 0, Length: 1, Pages: []uint32{8}}, "not page aligned"},
		{"more than level 2 can hold", Region{Length: layout.AttLevel2Count*PageSize + 1}, "more than the level-2 area"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := table.Register(tt.r)
			require.ErrorIs(t, err, ErrBadRegion)
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err = NewTable(0)
	require.ErrorContains(t, err, "want 1 to 1048576")
	_, err = NewTable(layout.AttLevel1Count + 1)
	require.Error(t, err)
}

func one() Region { return Region{Start: 64, Length: 1, Pages: []uint32{0x1000}} }

func TestSlots(t *testing.T) {
	table, err := NewTable(2)
	require.NoError(t, err)
	a, err := table.Register(one())
	require.NoError(t, err)
	b, err := table.Register(one())
	require.NoError(t, err)
	_, err = table.Register(one())
	require.ErrorIs(t, err, ErrNoSlot)
	require.Equal(t, 2, table.Len())

	require.NoError(t, table.Invalidate(a.Handle))
	_, err = table.Translate(a.Handle, 64, 1, 0, layout.AttAccessLocal)
	require.ErrorIs(t, err, ErrHandle)
	_, err = table.Register(one())
	require.ErrorIs(t, err, ErrNoSlot, "an invalidated entry is not free before its release")
	require.ErrorIs(t, table.Invalidate(a.Handle), ErrHandle)
	require.NoError(t, table.Release(a.Handle))
	require.ErrorIs(t, table.Release(a.Handle), ErrHandle)
	require.ErrorIs(t, table.Release(b.Handle), ErrHandle, "a valid region cannot be released")

	c, err := table.Register(one())
	require.NoError(t, err)
	require.Equal(t, a.Handle.Index(), c.Handle.Index())
	require.NotEqual(t, a.Handle, c.Handle)
	require.ErrorIs(t, table.Deregister(a.Handle), ErrHandle, "a stale handle")
}

// 5000 uses of one entry: the generation wraps past 0, and no handle is 0.
func TestGenerationWraps(t *testing.T) {
	table, err := NewTable(1)
	require.NoError(t, err)
	last := Handle(0)
	wrapped := false
	for range 5000 {
		reg, err := table.Register(one())
		require.NoError(t, err)
		require.NotZero(t, reg.Handle)
		require.NotZero(t, reg.Handle.Generation())
		require.NotEqual(t, last, reg.Handle)
		wrapped = wrapped || reg.Handle < last
		last = reg.Handle
		require.NoError(t, table.Deregister(reg.Handle))
	}
	require.True(t, wrapped)
}

func TestLevel2Runs(t *testing.T) {
	table, err := NewTable(64)
	require.NoError(t, err)
	half := Region{Start: 0, Length: layout.AttLevel2Count / 2 * PageSize, Pages: make([]uint32, layout.AttLevel2Count/2)}
	a, err := table.Register(half)
	require.NoError(t, err)
	b, err := table.Register(half)
	require.NoError(t, err)
	_, err = table.Register(one())
	require.ErrorIs(t, err, ErrNoLevel2)
	require.Equal(t, 2, table.Len(), "a failed registration changes nothing")
	require.NoError(t, table.Deregister(a.Handle))
	require.NoError(t, table.Deregister(b.Handle))
	require.Equal(t, []extent{{0, layout.AttLevel2Count}}, table.level2.free, "the space is complete again")
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, layout.AttLevel1Size))
	f.Add([]byte(Entry{Start: 4096, Level2Address: layout.AttLevel2Base, Pages: 1, FirstBytes: 1, LastBytes: 1, Valid: true, Generation: 1}.Encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		if len(b) < layout.AttLevel1Size {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		again := append([]byte(nil), b[:layout.AttLevel1Size]...)
		again[layout.AttLevel1AttributesOffset] &^= 8 // the reserved bit is dropped
		require.Equal(t, again, []byte(e.Encode()))
		if e.Check() == nil {
			require.Positive(t, e.Length())
			require.LessOrEqual(t, e.Length(), uint64(e.Pages)*PageSize)
		}
	})
}

// Any table content gives an address inside its page, or an error.
func FuzzTranslate(f *testing.F) {
	f.Add([]byte(Entry{Start: 100, Level2Address: layout.AttLevel2Base, Pages: 2, FirstBytes: 10, LastBytes: 10, Valid: true, Generation: 1}.Encode()), uint32(1<<20), uint64(100), uint32(20), uint16(0), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, h uint32, va uint64, length uint32, tag uint16, access uint8) {
		e, err := DecodeEntry(b)
		if err != nil {
			return
		}
		var m Image
		index := Handle(h).Index()
		m.WriteEntry(index, e)
		got, err := Translate(&m, index+1, Handle(h), va, length, tag, layout.AttAccess(access))
		if err != nil || length == 0 {
			require.Zero(t, got)
			return
		}
		require.Equal(t, e.Tag, tag)
		require.True(t, got.Bytes >= 1 && got.Bytes <= PageSize)
		require.GreaterOrEqual(t, va, e.Start)
		require.LessOrEqual(t, va-e.Start+uint64(length), e.Length())
		require.LessOrEqual(t, va-e.Start+uint64(got.Bytes), e.Length())
	})
}

// A region with another tag and other rights keeps its handle, addresses and
// bytes.
func TestModify(t *testing.T) {
	table, err := NewTable(4)
	require.NoError(t, err)
	g, err := table.Register(Region{Start: 0x1010, Length: 8000, Pages: []uint32{0x5000, 0x9000}, Tag: 7, RDMAWrite: true})
	require.NoError(t, err)
	m, err := table.Modify(g.Handle, 9, false, true)
	require.NoError(t, err)
	want := g.Entry
	want.Tag, want.RDMAWrite, want.RDMARead = 9, false, true
	require.Equal(t, Registration{Handle: g.Handle, Entry: want}, m)
	require.Equal(t, want, ReadEntry(table.Memory(), g.Handle.Index()))
	_, err = table.Translate(g.Handle, 0x1010, 8000, 7, layout.AttAccessLocal)
	require.ErrorIs(t, err, ErrTag)
	_, err = table.Translate(g.Handle, 0x1010, 8000, 9, layout.AttAccessRemoteWrite)
	require.ErrorIs(t, err, ErrAccess)
	at, err := table.Translate(g.Handle, 0x2000, 1, 9, layout.AttAccessRemoteRead)
	require.NoError(t, err)
	require.Equal(t, uint32(0x9000), at.Address)
	require.NoError(t, table.Deregister(g.Handle))
	_, err = table.Modify(g.Handle, 9, false, false)
	require.ErrorIs(t, err, ErrHandle)
	_, err = table.Modify(MakeHandle(3, 1), 9, false, false)
	require.ErrorIs(t, err, ErrHandle)
}

// The worked example of the paper's Figure 6: a buffer of 9 KB at virtual
// address 1C00h over pages at 2C00h (its last 1 KB only), 5000h and 8000h.
func TestPaperFigure6(t *testing.T) {
	const start, length = 0x1c00, 9 << 10
	table, err := NewTable(8)
	require.NoError(t, err)
	reg, err := table.Register(Region{Start: start, Length: length, Pages: []uint32{0x2000, 0x5000, 0x8000}, Tag: 1})
	require.NoError(t, err)
	require.Equal(t, []uint32{0x2c00, 0x5000, 0x8000}, reg.Level2, "physical addresses")
	require.EqualValues(t, start, reg.Entry.Start)
	require.EqualValues(t, 3, reg.Entry.Pages)
	require.EqualValues(t, 1<<10, reg.Entry.FirstBytes)
	require.EqualValues(t, length, reg.Entry.Length())
	for va := uint64(start); va < start+length; va++ {
		want := Translation{uint32(va - 0x1c00 + 0x2c00), uint32(0x2000 - va)}
		switch {
		case va >= 0x3000:
			want = Translation{uint32(va - 0x3000 + 0x8000), uint32(0x4000 - va)}
		case va >= 0x2000:
			want = Translation{uint32(va - 0x2000 + 0x5000), uint32(0x3000 - va)}
		}
		got, err := table.Translate(reg.Handle, va, uint32(start+length-va), 1, layout.AttAccessLocal)
		require.NoError(t, err)
		require.Equal(t, want, got, "virtual address %#x", va)
	}
	for _, va := range []uint64{start - 1, start + length} {
		_, err := table.Translate(reg.Handle, va, 1, 1, layout.AttAccessLocal)
		require.ErrorIs(t, err, ErrBounds, "virtual address %#x", va)
	}
}
