// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"hvia/host/mem"
	"hvia/sim/bridge"
)

const memoryFrames = 4096 // of a node, unless set by NewSized

// hostMemory is a node's memory as its card sees it, with the table of frames
// in use.
type hostMemory struct {
	fd   int
	view []byte

	mu  sync.Mutex
	use [][3]int
}

func newHostMemory(node, frames int) (*hostMemory, error) {
	fd, err := unix.MemfdCreate(fmt.Sprintf("hvia-drivertest-%d", node), unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("drivertest: create memory of node %d: %w", node, err)
	}
	m := &hostMemory{fd: fd, use: make([][3]int, frames)}
	if err := unix.Ftruncate(fd, int64(frames)*mem.PageBytes); err != nil {
		m.close()
		return nil, fmt.Errorf("drivertest: size memory of node %d: %w", node, err)
	}
	if m.view, err = unix.Mmap(fd, 0, frames*mem.PageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		m.close()
		return nil, fmt.Errorf("drivertest: map memory of node %d: %w", node, err)
	}
	return m, nil
}

func (m *hostMemory) close() {
	if m.view != nil {
		_ = unix.Munmap(m.view)
	}
	_ = unix.Close(m.fd)
}

func (m *hostMemory) Acquire(frame int, kind bridge.UseKind) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.use[frame][kind]++
	return nil
}

func (m *hostMemory) Release(frame int, kind bridge.UseKind) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.use[frame][kind] == 0 {
		return fmt.Errorf("drivertest: frame %d as %v: %w", frame, kind, bridge.ErrUseUnderflow)
	}
	m.use[frame][kind]--
	return nil
}

func (m *hostMemory) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.use {
		n += u[0] + u[1] + u[2]
	}
	return n
}

func (m *hostMemory) inUse(address, n uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f := address / mem.PageBytes; f <= (address+n-1)/mem.PageBytes; f++ {
		if int(f) >= len(m.use) || m.use[f] == [3]int{} {
			return false
		}
	}
	return true
}
