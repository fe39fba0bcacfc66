// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"fmt"
	"unsafe"

	"hvia/host"
)

// MapDirect maps all frames at once and returns the bytes by physical address,
// for kernel code.
func (m *Memory) MapDirect() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, fmt.Errorf("host: map all of host memory: %w", host.ErrClosed)
	case m.direct != nil:
		return m.direct, nil
	}
	frames := m.Frames()
	base, err := mapReserve(frames)
	if err == nil {
		err = mapFrames(base, 0, m.fd, m.skip, frames)
	}
	if err != nil {
		return nil, fmt.Errorf("host: map all of host memory: %w: %w", err, host.ErrResource)
	}
	m.direct = bytesAt(base, frames*PageBytes)
	return m.direct, nil
}

// unmapDirect revokes the mapping. The caller holds the lock.
func (m *Memory) unmapDirect() {
	if m.direct != nil {
		// As with windows, a failure is harmless.
		_ = mapRevoke(unsafe.Pointer(&m.direct[0]), len(m.direct)/PageBytes)
		m.direct = nil
	}
}
