// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"hvia/layout"
)

// Errors of calls that a program may not make. Completions and asynchronous
// errors report the errors that a program may make.
var (
	ErrMemory  = errors.New("no such memory")
	ErrHandle  = errors.New("memory handle is in use, unknown or 0")
	ErrState   = errors.New("the VI's state does not allow it")
	ErrMatch   = errors.New("the VIs' attributes do not match")
	ErrInUse   = errors.New("the work queue has descriptors, or a VI is tied to the completion queue")
	ErrOverrun = errors.New("the work queue is full")
	ErrIndex   = errors.New("the number of the VI or completion queue is in use, or unknown")
)

// Fabric is a set of hosts on a wire.
type Fabric struct {
	Hosts []*Host
	// FetchOnArrival: the provider reads a receive descriptor when a message
	// requires it, not when it becomes the head of its queue [card].
	FetchOnArrival bool
	// Lose selects the frames of unreliable VIs that the wire loses. It numbers
	// the frames that a host sends on a VI from 0 since the VI connected. The
	// wire loses no frame of a reliable VI [VIA].
	Lose func(host, frame int) bool

	// Faulty: the wire has faults that reliable VIs repair. A NAK may then come
	// after the peer's agent timed out, an acknowledgement after the peer ended
	// the connection; the message is flushed [transport].
	Faulty bool

	depth int
}

// New returns a fabric with the given number of hosts. A work queue holds at
// most depth descriptors.
func New(hosts, depth int) *Fabric {
	f := &Fabric{depth: depth}
	for range hosts {
		f.Hosts = append(f.Hosts, &Host{fabric: f, regions: map[uint32]Region{}, vis: map[int]*VI{}, queues: map[int]*CompletionQueue{}})
	}
	return f
}

// Host is a host and its NIC.
type Host struct {
	fabric  *Fabric
	buffers []buffer // in the order of their addresses
	regions map[uint32]Region
	vis     map[int]*VI
	queues  map[int]*CompletionQueue
	errors  []AsyncError
}

// buffer is a range of virtual addresses with memory.
type buffer struct {
	address uint64
	bytes   []byte
	shared  bool // with a clone of the fabric; the first access copies it
}

// AsyncError is an error that no descriptor can report [VIA].
type AsyncError struct {
	Code layout.AsyncError
	VI   int // index
}

func (e AsyncError) String() string { return fmt.Sprintf("%v of VI %d", e.Code, e.VI) }

// TakeErrors returns the asynchronous errors since the last call.
func (h *Host) TakeErrors() []AsyncError {
	e := h.errors
	h.errors = nil
	return e
}

func (h *Host) report(code layout.AsyncError, v *VI) {
	h.errors = append(h.errors, AsyncError{code, v.index})
}

// Allocate adds zeroed memory at unused virtual addresses.
func (h *Host) Allocate(address uint64, length int) error {
	if address+uint64(length) < address {
		return fmt.Errorf("model: allocate %d bytes at %#x: beyond the last address: %w", length, address, ErrMemory)
	}
	i, _ := slices.BinarySearchFunc(h.buffers, address, func(b buffer, a uint64) int {
		if b.address < a {
			return -1
		}
		return 1
	})
	if i > 0 && h.buffers[i-1].address+uint64(len(h.buffers[i-1].bytes)) > address || i < len(h.buffers) && h.buffers[i].address < address+uint64(length) {
		return fmt.Errorf("model: allocate %d bytes at %#x: some are in use: %w", length, address, ErrMemory)
	}
	h.buffers = slices.Insert(h.buffers, i, buffer{address, make([]byte, length), false})
	return nil
}

// Memory returns the memory at a range of virtual addresses, nil if part of the
// range has none. The slice is valid until the fabric is cloned.
func (h *Host) Memory(address, length uint64) []byte {
	for i := range h.buffers {
		b := &h.buffers[i]
		if address >= b.address && address-b.address < uint64(len(b.bytes)) {
			if b.shared {
				b.bytes, b.shared = bytes.Clone(b.bytes), false
			}
			at := address - b.address
			if length > uint64(len(b.bytes))-at {
				return nil
			}
			return b.bytes[at : at+length : at+length]
		}
	}
	return nil
}

// Region is a registered range of memory. Ranges may overlap [VIA].
type Region struct {
	Address   uint64
	Length    uint64
	Tag       uint16 // protection tag
	RDMAWrite bool   // peers may write to it
	RDMARead  bool   // peers may read from it
}

// Register enters a region. The provider chose the handle, which is never 0
// [VIA].
func (h *Host) Register(handle uint32, r Region) error {
	if _, there := h.regions[handle]; there || handle == 0 {
		return fmt.Errorf("model: register %d bytes at %#x as %#x: %w", r.Length, r.Address, handle, ErrHandle)
	}
	if r.Length == 0 || h.Memory(r.Address, r.Length) == nil {
		return fmt.Errorf("model: register %d bytes at %#x: %w", r.Length, r.Address, ErrMemory)
	}
	h.regions[handle] = r
	return nil
}

// Deregister removes a region. Later accesses through its handle fail with a
// protection error. A descriptor that the provider has already read can no
// longer complete [VIA], [card].
func (h *Host) Deregister(handle uint32) error {
	if _, there := h.regions[handle]; !there {
		return fmt.Errorf("model: deregister %#x: %w", handle, ErrHandle)
	}
	delete(h.regions, handle)
	for _, v := range h.vis {
		if v.head != nil && v.head.handle == handle {
			v.head.stale = true
		}
	}
	return nil
}

// access returns the memory of an access if the access is allowed: the handle
// names a region, the region has the VI's protection tag, a remote write or
// read has the right, and every byte lies in the region [VIA]. The bounds of an
// access of 0 bytes are not checked [card].
func (h *Host) access(handle uint32, address, length uint64, tag uint16, kind layout.AttAccess) ([]byte, bool) {
	r, there := h.regions[handle]
	switch {
	case !there, r.Tag != tag:
		return nil, false
	case kind == layout.AttAccessRemoteWrite && !r.RDMAWrite, kind == layout.AttAccessRemoteRead && !r.RDMARead:
		return nil, false
	case length == 0:
		return nil, true
	case address < r.Address, address-r.Address > r.Length, length > r.Length-(address-r.Address):
		return nil, false
	}
	return h.Memory(address, length), true
}
