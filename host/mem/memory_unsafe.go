// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pointer is the start of an address range outside the Go heap.
type pointer = unsafe.Pointer

// mapReserve reserves inaccessible pages of address space.
func mapReserve(pages int) (unsafe.Pointer, error) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(pages)*PageBytes, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d pages of address space: %w", pages, err)
	}
	return p, nil
}

// mapFrames replaces count pages of a reserved range, from page on, by frames
// of the memory file.
func mapFrames(base unsafe.Pointer, page int, fd int, frame uint32, count int) error {
	_, err := unix.MmapPtr(fd, int64(frame)*PageBytes, unsafe.Add(base, page*PageBytes), uintptr(count)*PageBytes,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("map frames %d to %d of the node's memory: %w", frame, int(frame)+count-1, err)
	}
	return nil
}

// mapRevoke overlays pages of a range with inaccessible ones. The range is
// never unmapped: a stale reference must fault, and not reach memory that the
// Go runtime has mapped there since.
func mapRevoke(base unsafe.Pointer, pages int) error {
	_, err := unix.MmapPtr(-1, 0, base, uintptr(pages)*PageBytes, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("revoke %d pages of address space: %w", pages, err)
	}
	return nil
}

func mapRemove(base unsafe.Pointer, pages int) error {
	if err := unix.MunmapPtr(base, uintptr(pages)*PageBytes); err != nil {
		return fmt.Errorf("give %d pages of address space back: %w", pages, err)
	}
	return nil
}

func bytesAt(base unsafe.Pointer, n int) []byte { return unsafe.Slice((*byte)(base), n) }

// LoadUint32 reads the little-endian dword at b[0:4] atomically: earlier writes
// of the card are visible afterwards. b[0] must lie at a multiple of 4.
func LoadUint32(b []byte) uint32 {
	_ = b[3]
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0])))
}

// LoadUint64 reads the little-endian quadword at b[0:8] atomically. b[0] must
// lie at a multiple of 8.
func LoadUint64(b []byte) uint64 {
	_ = b[7]
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[0])))
}

// StoreUint64 writes the little-endian quadword at b[0:8] atomically. b[0] must
// lie at a multiple of 8.
func StoreUint64(b []byte, v uint64) {
	_ = b[7]
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[0])), v)
}

// StoreUint32 writes the little-endian dword at b[0:4] atomically: earlier
// stores are visible to its reader. b[0] must lie at a multiple of 4.
func StoreUint32(b []byte, v uint32) {
	_ = b[3]
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[0])), v)
}
