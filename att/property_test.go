// SPDX-License-Identifier: Apache-2.0

package att

import (
	"errors"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"hvia/layout"
)

// known is the test's record of a region.
type known struct {
	r   Region
	reg Registration
}

// where computes a byte's address without the table's arithmetic.
func (k known) where(va uint64) uint32 {
	return k.r.Pages[va/PageSize-k.r.Start/PageSize] + uint32(va%PageSize)
}

// tableModel is a table and what it must contain.
type tableModel struct {
	table         *Table
	limit         int
	live, retired []known
	given         map[Handle]bool
}

// A table under random operations matches plain arithmetic on page numbers.
func TestTableProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Uint32Range(1, 12).Draw(t, "limit")
		table, err := NewTable(limit)
		if err != nil {
			t.Fatal(err)
		}
		m := &tableModel{table: table, limit: int(limit), given: map[Handle]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"register": m.register, "invalidate": m.invalidate, "release": m.release, "translate": m.translate, "": m.check,
		})
	})
}

func (m *tableModel) register(t *rapid.T) {
	start := rapid.Uint64Range(1, 1<<40).Draw(t, "start")
	length := rapid.Uint64Range(1, 5*PageSize).Draw(t, "length")
	r := Region{Start: start, Length: length, Tag: uint16(rapid.IntRange(0, 3).Draw(t, "tag")), RDMAWrite: rapid.Bool().Draw(t, "write")}
	for range PagesOf(start, length) {
		r.Pages = append(r.Pages, rapid.Uint32().Draw(t, "page")&^(PageSize-1))
	}
	reg, err := m.table.Register(r)
	if len(m.live)+len(m.retired) == m.limit {
		if !errors.Is(err, ErrNoSlot) {
			t.Fatalf("register in a full table: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.given[reg.Handle] || reg.Handle == 0 {
		t.Fatalf("handle %v was given before, or is 0", reg.Handle)
	}
	if reg.Entry.Check() != nil || reg.Entry.Length() != length {
		t.Fatalf("entry %+v: %v, length %d of %d", reg.Entry, reg.Entry.Check(), reg.Entry.Length(), length)
	}
	m.given[reg.Handle] = true
	m.live = append(m.live, known{r, reg})
}

func (m *tableModel) invalidate(t *rapid.T) {
	if len(m.live) == 0 {
		t.Skip("nothing is registered")
	}
	i := rapid.IntRange(0, len(m.live)-1).Draw(t, "which")
	if err := m.table.Invalidate(m.live[i].reg.Handle); err != nil {
		t.Fatal(err)
	}
	m.retired = append(m.retired, m.live[i])
	m.live = append(m.live[:i], m.live[i+1:]...)
}

func (m *tableModel) release(t *rapid.T) {
	if len(m.retired) == 0 {
		t.Skip("nothing is retired")
	}
	i := rapid.IntRange(0, len(m.retired)-1).Draw(t, "which")
	if err := m.table.Release(m.retired[i].reg.Handle); err != nil {
		t.Fatal(err)
	}
	m.retired = append(m.retired[:i], m.retired[i+1:]...)
}

func (m *tableModel) translate(t *rapid.T) {
	if len(m.live) == 0 {
		t.Skip("nothing is registered")
	}
	k := m.live[rapid.IntRange(0, len(m.live)-1).Draw(t, "which")]
	va := k.r.Start + rapid.Uint64Range(0, k.r.Length+1).Draw(t, "offset") - 1
	n := rapid.Uint32Range(1, 3*PageSize).Draw(t, "bytes")
	got, err := m.table.Translate(k.reg.Handle, va, n, k.r.Tag, layout.AttAccessLocal)
	inside := va >= k.r.Start && va-k.r.Start+uint64(n) <= k.r.Length
	if inside != (err == nil) {
		t.Fatalf("%d bytes at %#x in %#x+%d: %v", n, va, k.r.Start, k.r.Length, err)
	}
	if inside && got.Address != k.where(va) {
		t.Fatalf("%#x lies at %#x, got %#x", va, k.where(va), got.Address)
	}
	if inside {
		end := min(va/PageSize*PageSize+PageSize, k.r.Start+k.r.Length)
		if uint64(got.Bytes) != end-va {
			t.Fatalf("%#x: %d bytes follow in the page, got %d", va, end-va, got.Bytes)
		}
	}
}

func (m *tableModel) check(t *rapid.T) {
	if m.table.Len() != len(m.live) {
		t.Fatalf("%d regions, table says %d", len(m.live), m.table.Len())
	}
	for h := range m.given {
		alive := false
		for _, k := range m.live {
			alive = alive || k.reg.Handle == h
		}
		_, err := m.table.Translate(h, 0, 0, 0, layout.AttAccessLocal)
		if errors.Is(err, ErrHandle) == alive {
			t.Fatalf("handle %v alive %v: %v", h, alive, err)
		}
	}
	var runs []extent
	for _, k := range append(append([]known(nil), m.live...), m.retired...) {
		runs = append(runs, extent{(k.reg.Entry.Level2Address - layout.AttLevel2Base) / layout.AttLevel2Size, k.reg.Entry.Pages})
	}
	wholeSpace(t, runs, m.table.level2.free, layout.AttLevel2Count)
}

// wholeSpace checks that used and free runs tile the space and that free
// neighbours are joined.
func wholeSpace(t *rapid.T, used, free []extent, count uint32) {
	all := append(append([]extent(nil), used...), free...)
	sort.Slice(all, func(i, j int) bool { return all[i].first < all[j].first })
	at := uint32(0)
	for _, e := range all {
		if e.first != at || e.count == 0 {
			t.Fatalf("runs %v of %d: gap, overlap or empty run at %d", all, count, at)
		}
		at += e.count
	}
	if at != count {
		t.Fatalf("runs end at %d of %d", at, count)
	}
	for i := 1; i < len(free); i++ {
		if free[i-1].first+free[i-1].count >= free[i].first {
			t.Fatalf("free runs %v are not joined or not in order", free)
		}
	}
}

// A small space fragments and runs out.
func TestExtentProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const count = 64
		x := newExtents(count)
		var used []extent
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				n := rapid.Uint32Range(1, 20).Draw(t, "count")
				fits := false
				for _, e := range x.free {
					fits = fits || e.count >= n
				}
				first, ok := x.allocate(n)
				if ok != fits {
					t.Fatalf("%d entries of %v: got %v", n, x.free, ok)
				}
				if ok {
					used = append(used, extent{first, n})
				}
			},
			"release": func(t *rapid.T) {
				if len(used) == 0 {
					t.Skip("nothing is used")
				}
				i := rapid.IntRange(0, len(used)-1).Draw(t, "which")
				x.release(used[i].first, used[i].count)
				used = append(used[:i], used[i+1:]...)
			},
			"": func(t *rapid.T) { wholeSpace(t, used, x.free, count) },
		})
	})
}

func TestExtentsRefuseDoubleRelease(t *testing.T) {
	x := newExtents(10)
	if _, ok := x.allocate(0); ok {
		t.Fatal("an empty run was given out")
	}
	first, _ := x.allocate(4)
	x.release(first, 4)
	defer func() {
		if recover() == nil {
			t.Fatal("a run was released twice without a panic")
		}
	}()
	x.release(first, 4)
}
