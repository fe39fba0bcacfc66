// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// word is the 32-bit atomic at an offset of a page that is shared with the
// simulator. The simulator's accesses are sequentially consistent too.
func word(page []byte, offset int) *atomic.Uint32 {
	_ = page[offset+3]
	return (*atomic.Uint32)(unsafe.Pointer(&page[offset]))
}

// futexWait sleeps while the word holds the value, at most for timeout.
func futexWait(w *atomic.Uint32, value uint32, timeout time.Duration) {
	const wait = 0
	ts := unix.NsecToTimespec(int64(timeout))
	// Syscall, not RawSyscall: the scheduler must know that this blocks.
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), wait, uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes every sleeper of the word, in this process or another.
func futexWake(w *atomic.Uint32) {
	const wake, all = 1, 1<<31 - 1
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), wake, all, 0, 0, 0)
}

// mapShared maps a complete file.
func mapShared(fd int, bytes int) ([]byte, error) {
	return mapFile(fd, bytes, unix.PROT_READ|unix.PROT_WRITE)
}

// mapReadOnly maps a complete file without write access.
func mapReadOnly(fd int, bytes int) ([]byte, error) { return mapFile(fd, bytes, unix.PROT_READ) }

// mapOver maps a part of a file over mapped memory.
func mapOver(b []byte, fd int, offset int64) error {
	_, err := unix.MmapPtr(fd, offset, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

func mapFile(fd, bytes, access int) ([]byte, error) {
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(bytes), access, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// retire replaces a mapping by inaccessible memory. It frees the file's pages
// but not the addresses: a stale slice must fault, and not read memory that the
// Go heap puts there later.
func retire(b []byte) {
	if len(b) == 0 {
		return
	}
	_, _ = unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE|unix.MAP_FIXED)
}

// words views the same memory as 32-bit words.
func words(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
