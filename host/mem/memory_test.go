// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"hvia/host"
	"hvia/sim/bridge"
)

// memoryFile creates a sealed memory file like the simulator's, and a linear
// view of it as the card sees it.
func memoryFile(t testing.TB, frames int) (fd int, linear []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("hvia-test-memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Ftruncate(fd, int64(frames)*PageBytes))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	require.NoError(t, err)
	linear, err = unix.Mmap(fd, 0, frames*PageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(linear) })
	return fd, linear
}

// useTable is a frame-use table in plain memory: counts by frame and kind.
type useTable map[int]*[3]int

func (u useTable) Acquire(frame int, kind bridge.UseKind) error {
	if u[frame] == nil {
		u[frame] = new([3]int)
	}
	if u[frame][kind] == 255 {
		return bridge.ErrUseOverflow
	}
	u[frame][kind]++
	return nil
}

func (u useTable) Release(frame int, kind bridge.UseKind) error {
	if u[frame] == nil || u[frame][kind] == 0 {
		return bridge.ErrUseUnderflow
	}
	u[frame][kind]--
	return nil
}

func (u useTable) total() (n int) {
	for _, c := range u {
		n += c[0] + c[1] + c[2]
	}
	return n
}

func newMemory(t testing.TB, frames int, seed uint64, budget int) (*Memory, []byte, useTable) {
	t.Helper()
	fd, linear := memoryFile(t, frames)
	use := useTable{}
	m, err := New(Config{Fd: fd, Frames: frames, Use: use, Seed: seed, Budget: NewBudget(budget)})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m, linear, use
}

func TestMemoryScatters(t *testing.T) {
	m, linear, _ := newMemory(t, 4096, 1, defaultMappings)
	b, err := m.Allocate(1000*PageBytes+17, Single)
	require.NoError(t, err)
	require.Equal(t, 1000*PageBytes+17, b.Len())
	require.EqualValues(t, firstAddress, b.Address())
	for i := range b.bytes {
		b.bytes[i] = byte(i ^ i>>8 ^ i>>16)
	}
	consecutive := 0
	seen := map[uint32]bool{}
	for i, f := range b.frames {
		require.False(t, seen[f], "frame %d was given out twice", f)
		require.NotZero(t, f, "frame 0 is reserved")
		seen[f] = true
		if i > 0 && f == b.frames[i-1]+1 {
			consecutive++
		}
	}
	require.Zero(t, consecutive, "consecutive pages lie in consecutive frames")
	// The gathered frames match the window, and Physical returns their
	// addresses.
	ranges, err := m.Physical(nil, b.Address(), uint64(b.Len()))
	require.NoError(t, err)
	var gathered []byte
	for _, r := range ranges {
		gathered = append(gathered, linear[r.Address:r.Address+r.Length]...)
	}
	require.Equal(t, b.Bytes(), gathered)
	// An unaligned word across a page edge lies in two distant frames.
	binary.LittleEndian.PutUint64(b.bytes[PageBytes-3:], 0x1122334455667788)
	ranges, err = m.Physical(nil, b.Address()+PageBytes-3, 8)
	require.NoError(t, err)
	require.Len(t, ranges, 2)
	require.Equal(t, []byte{0x88, 0x77, 0x66}, linear[ranges[0].Address:][:3])
	require.Equal(t, []byte{0x55, 0x44, 0x33, 0x22, 0x11}, linear[ranges[1].Address:][:5])
}

func TestMemoryRepeatsBySeed(t *testing.T) {
	run := func(seed uint64) (frames []uint32, addresses []uint64) {
		m, _, _ := newMemory(t, 2048, seed, defaultMappings)
		var held []*Buffer
		for i := range 40 {
			b, err := m.Allocate((i*7919)%60000+1, Scatter(i%2))
			require.NoError(t, err)
			frames, addresses = append(frames, b.frames...), append(addresses, b.Address())
			held = append(held, b)
			if i%3 == 2 {
				require.NoError(t, held[0].Free())
				held = held[1:]
			}
		}
		return frames, addresses
	}
	f1, a1 := run(7)
	f2, a2 := run(7)
	f3, a3 := run(8)
	require.Equal(t, f1, f2)
	require.Equal(t, a1, a2)
	require.Equal(t, a1, a3, "virtual addresses must not depend on the seed")
	require.NotEqual(t, f1, f3, "the scatter order must depend on the seed")
}

func TestMemoryRuns(t *testing.T) {
	m, linear, _ := newMemory(t, 1024, 3, defaultMappings)
	b, err := m.Allocate(100*PageBytes, Runs)
	require.NoError(t, err)
	for i, f := range b.frames {
		if i%blockFrames != 0 {
			require.Equal(t, b.frames[i-1]+1, f, "page %d", i)
		}
		b.bytes[i*PageBytes] = byte(i + 1)
		require.Equal(t, byte(i+1), linear[int(f)*PageBytes])
	}
	require.Equal(t, 7, m.budget.Used(), "one mapping per run of 16 frames")
}

func TestMemoryContiguous(t *testing.T) {
	m, linear, _ := newMemory(t, 1024, 3, defaultMappings)
	var single []*Buffer
	for range 3 { // some blocks are partly used, most are untouched
		b, err := m.Allocate(5*PageBytes, Single)
		require.NoError(t, err)
		single = append(single, b)
	}
	used := m.budget.Used()
	b, err := m.Allocate(100*PageBytes, Contiguous)
	require.NoError(t, err)
	for i, f := range b.frames {
		require.Equal(t, b.frames[0]+uint32(i), f, "page %d", i)
		b.bytes[i*PageBytes] = byte(i + 1)
		require.Equal(t, byte(i+1), linear[int(f)*PageBytes])
		for _, s := range single {
			require.NotContains(t, s.frames, f)
		}
	}
	require.Equal(t, used+1, m.budget.Used(), "one mapping")
	_, err = m.Allocate(1000*PageBytes, Contiguous)
	require.ErrorIs(t, err, host.ErrResource)
	require.ErrorContains(t, err, "no run of 1000 frames")
	require.NoError(t, b.Free())
	for _, s := range single {
		require.NoError(t, s.Free())
	}
	b, err = m.Allocate(1008*PageBytes, Contiguous)
	require.NoError(t, err, "all but the block of frame 0")
	require.NoError(t, b.Free())
}

func TestMemoryCapAndExhaustion(t *testing.T) {
	m, _, _ := newMemory(t, 256, 3, 10)
	_, err := m.Allocate(11*PageBytes, Single)
	require.ErrorIs(t, err, host.ErrResource)
	require.ErrorContains(t, err, "10 of 10 are free")
	b, err := m.Allocate(10*PageBytes, Single)
	require.NoError(t, err)
	_, err = m.Allocate(1, Single)
	require.ErrorIs(t, err, host.ErrResource)
	require.NoError(t, b.Free())
	require.Zero(t, m.budget.Used())

	m, _, _ = newMemory(t, 64, 3, defaultMappings)
	b, err = m.Allocate(63*PageBytes, Single)
	require.NoError(t, err, "every frame but the reserved one")
	_, err = m.Allocate(1, Single)
	require.ErrorIs(t, err, host.ErrResource)
	_, err = m.Allocate(1, Runs)
	require.ErrorIs(t, err, host.ErrResource)
	require.NoError(t, b.Free())
	for range 3 { // a failed allocation must not leak
		_, err = m.Allocate(64*PageBytes, Single)
		require.ErrorIs(t, err, host.ErrResource)
		_, err = m.Allocate(64*PageBytes, Runs)
		require.ErrorIs(t, err, host.ErrResource)
	}
	_, err = m.Allocate(63*PageBytes, Single)
	require.NoError(t, err)
}

func TestMemoryRecyclesWindows(t *testing.T) {
	m, _, _ := newMemory(t, 256, 3, defaultMappings)
	b, err := m.Allocate(5*PageBytes, Single)
	require.NoError(t, err)
	base, address := b.base, b.Address()
	stale := b.Bytes()
	require.NoError(t, b.Free())
	require.Nil(t, b.Bytes())
	require.ErrorIs(t, b.Free(), host.ErrInvalidParameter)
	require.True(t, faults(stale), "a freed window must not be readable")
	_, err = m.Window(address, 1)
	require.ErrorIs(t, err, host.ErrInvalidParameter)
	c, err := m.Allocate(5*PageBytes, Single)
	require.NoError(t, err)
	require.Equal(t, base, c.base, "the range is used again")
	require.NotEqual(t, address, c.Address(), "the virtual address is not")
	require.Equal(t, make([]byte, 5*PageBytes), c.Bytes())
	runtime.KeepAlive(stale)
}

func TestMemoryGuards(t *testing.T) {
	m, _, _ := newMemory(t, 256, 3, defaultMappings)
	b, err := m.Allocate(PageBytes, Single)
	require.NoError(t, err)
	_, err = m.Allocate(PageBytes, Single)
	require.NoError(t, err)
	require.True(t, faults(bytesAt(b.base, 2*PageBytes)[PageBytes:]), "the page behind a buffer must not be readable")
	for _, c := range []struct{ address, n uint64 }{
		{b.Address() - 1, 1}, {b.Address() - 1, 2}, {b.Address() + PageBytes, 1}, {b.Address() + PageBytes - 1, 2},
		{b.Address(), PageBytes + 1}, {b.Address(), 1 << 63}, {^uint64(0), 1}, {^uint64(0), 2}, {0, 1}, {b.Address() + 1, ^uint64(0)},
	} {
		_, err = m.Physical(nil, c.address, c.n)
		require.ErrorIs(t, err, host.ErrInvalidParameter, "[%#x +%#x)", c.address, c.n)
		_, err = m.Pin(bridge.UseRegion, c.address, c.n)
		require.ErrorIs(t, err, host.ErrInvalidParameter, "[%#x +%#x)", c.address, c.n)
	}
	w, err := m.Window(b.Address()+PageBytes-1, 1)
	require.NoError(t, err)
	require.Len(t, w, 1)
}

func faults(b []byte) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	_ = LoadUint32(b)
	return false
}

func TestMemoryPins(t *testing.T) {
	m, _, use := newMemory(t, 256, 3, defaultMappings)
	b, err := m.Allocate(4*PageBytes, Single)
	require.NoError(t, err)
	pages, err := m.Pin(bridge.UseRegion, b.Address()+PageBytes+5, PageBytes)
	require.NoError(t, err)
	require.Equal(t, []uint32{b.frames[1] * PageBytes, b.frames[2] * PageBytes}, pages)
	_, err = m.Pin(bridge.UseRing, b.Address()+2*PageBytes, 64)
	require.NoError(t, err)
	require.Nil(t, use[int(b.frames[0])])
	require.Equal(t, [3]int{1, 0, 0}, *use[int(b.frames[1])])
	require.Equal(t, [3]int{1, 1, 0}, *use[int(b.frames[2])])
	require.Nil(t, use[int(b.frames[3])])
	require.ErrorIs(t, b.Free(), host.ErrInUse)
	require.ErrorIs(t, m.Unpin(bridge.UseRing, b.Address(), 1), host.ErrInvalidParameter)
	require.NoError(t, m.Unpin(bridge.UseRing, b.Address()+2*PageBytes, 64))
	require.NoError(t, m.Unpin(bridge.UseRegion, b.Address()+PageBytes+5, PageBytes))
	require.NoError(t, b.Free())
	require.Zero(t, use.total())

	b, err = m.Allocate(1, Single)
	require.NoError(t, err)
	for range 255 {
		_, err = m.Pin(bridge.UseRing, b.Address(), 1)
		require.NoError(t, err)
	}
	_, err = m.Pin(bridge.UseRing, b.Address(), 1)
	require.ErrorIs(t, err, host.ErrResource)
	require.ErrorIs(t, err, bridge.ErrUseOverflow)
	require.Equal(t, 255, use.total())

	// A pin that fails on its second page releases the first.
	b, err = m.Allocate(2*PageBytes, Single)
	require.NoError(t, err)
	use[int(b.frames[1])] = &[3]int{255, 0, 0}
	_, err = m.Pin(bridge.UseRegion, b.Address(), 2*PageBytes)
	require.ErrorIs(t, err, host.ErrResource)
	require.Zero(t, use[int(b.frames[0])][0])
	require.NoError(t, b.Free())
}

// Random allocations and releases against a model: no frame has two owners,
// contents stay, and at the end every frame is free.
func TestMemoryProperties(t *testing.T) {
	fd, _ := memoryFile(t, 512)
	rapid.Check(t, func(r *rapid.T) {
		m, err := New(Config{Fd: fd, Frames: 512, Use: useTable{}, Seed: rapid.Uint64().Draw(r, "seed"), Budget: NewBudget(300)})
		require.NoError(r, err)
		defer m.Close()
		type owned struct {
			b    *Buffer
			fill byte
		}
		var live []owned
		fill := byte(0)
		check := func() {
			owner := map[uint32]bool{}
			for _, o := range live {
				for _, f := range o.b.frames {
					require.False(r, owner[f], "frame %d has two owners", f)
					owner[f] = true
				}
				require.Equal(r, o.fill, o.b.bytes[0])
				require.Equal(r, o.fill, o.b.bytes[len(o.b.bytes)-1])
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"allocate": func(r *rapid.T) {
				n := rapid.IntRange(1, 40*PageBytes).Draw(r, "bytes")
				b, err := m.Allocate(n, Scatter(rapid.IntRange(int(Single), int(Contiguous)).Draw(r, "how")))
				if err != nil {
					require.ErrorIs(r, err, host.ErrResource)
					return
				}
				require.Equal(r, len(b.bytes), bytes.Count(b.bytes, []byte{0}), "a new buffer is not zero")
				fill++
				for i := range b.bytes {
					b.bytes[i] = fill
				}
				live = append(live, owned{b, fill})
			},
			"free": func(r *rapid.T) {
				if len(live) == 0 {
					r.Skip("nothing to free")
				}
				i := rapid.IntRange(0, len(live)-1).Draw(r, "which")
				require.NoError(r, live[i].b.Free())
				live = slices.Delete(live, i, i+1)
			},
			"": func(*rapid.T) { check() },
		})
		for _, o := range live {
			require.NoError(r, o.b.Free())
		}
		require.Zero(r, m.budget.Used())
		free := 0
		for i, mask := range m.blocks {
			for b := range blockFrames {
				if mask&(1<<b) != 0 {
					free++
				}
			}
			require.True(r, mask == 1<<blockFrames-1 || i == 0, "block %d must be complete again", i)
		}
		require.Equal(r, 511, free)
	})
}
