// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"unsafe"
)

// mapDirect maps all frames at once, for code of the kernel, which works with
// physical addresses.
func (m *Memory) mapDirect() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("driver: map all of host memory: %w", ErrClosed)
	case m.direct != nil:
		return nil
	}
	frames := m.Frames()
	base, err := mapReserve(frames)
	if err == nil {
		err = mapFrames(base, 0, m.fd, m.skip, frames)
	}
	if err != nil {
		return fmt.Errorf("driver: map all of host memory: %w: %w", err, ErrResource)
	}
	m.direct = bytesAt(base, frames*PageBytes)
	return nil
}

// unmapDirect revokes the mapping. The lock is held.
func (m *Memory) unmapDirect() {
	if m.direct != nil {
		// As with windows, there is nothing to do about a failure.
		_ = mapRevoke(unsafe.Pointer(&m.direct[0]), len(m.direct)/PageBytes)
		m.direct = nil
	}
}
