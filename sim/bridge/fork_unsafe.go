// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processWord is a word of this process that the kernel zeroes in a forked
// child. So a fork is detected without a system call.
var processWord = sync.OnceValues(func() (*atomic.Uint32, error) {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map a page: %w", err)
	}
	if err := unix.Madvise(b, unix.MADV_WIPEONFORK); err != nil {
		return nil, fmt.Errorf("have a page wiped in forked processes, which needs Linux 4.14: %w", err)
	}
	return (*atomic.Uint32)(unsafe.Pointer(&b[0])), nil
})

// processMark distinguishes a process from those forked from it.
type processMark struct {
	word  *atomic.Uint32
	value uint32
}

func markProcess() (processMark, error) {
	w, err := processWord()
	if err != nil {
		return processMark{}, err
	}
	w.CompareAndSwap(0, uint32(os.Getpid()))
	return processMark{w, w.Load()}, nil
}

// forked reports whether this process is not the marked one.
func (m processMark) forked() bool { return m.word.Load() != m.value }
