// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
)

// MemHandle names a registered region to the NIC. It is never 0.
type MemHandle uint32

// MemAttributes is VIP_MEM_ATTRIBUTES.
type MemAttributes struct {
	Ptag            Ptag
	EnableRDMAWrite bool
	EnableRDMARead  bool
}

// Alloc returns zeroed, page-aligned memory of the thread's host. Its pages are
// scattered over physical memory. Only such memory can be registered.
func (n *NIC) Alloc(t *host.Thread, bytes int) (*mem.Buffer, error) {
	if n == nil {
		return nil, missing("allocate memory", "NIC handle")
	}
	b, err := n.host.Allocate(t, bytes, mem.Single)
	return b, translate(fmt.Sprintf("allocate %d bytes", bytes), nil, err)
}

// Free frees memory; ErrResource while it is registered.
func (n *NIC) Free(t *host.Thread, b *mem.Buffer) error {
	if n == nil || b == nil {
		return missing("free memory", "NIC handle or buffer")
	}
	return translate("free memory", nil, n.host.Free(t, b))
}

// Region is a registered range of memory.
type Region struct {
	nic     *NIC
	address uint64
	bytes   []byte
	handle  MemHandle
}

// RegisterMem registers a range of virtual addresses, which may begin and end
// anywhere in allocated memory and may be registered several times. Zero
// attributes mean the NIC handle's tag and no remote access.
func (n *NIC) RegisterMem(t *host.Thread, address, length uint64, a MemAttributes) (*Region, error) {
	if n == nil {
		return nil, missing("register memory", "NIC handle")
	}
	op := fmt.Sprintf("register %d bytes at %#x", length, address)
	r, err := n.host.Register(t, n.info.ID, address, length, uint16(a.Ptag), driver.Rights{RDMAWrite: a.EnableRDMAWrite, RDMARead: a.EnableRDMARead})
	if err != nil {
		return nil, translate(op, nil, err)
	}
	bytes, err := n.host.Memory().Window(address, length)
	if err != nil {
		return nil, translate(op, nil, err)
	}
	return &Region{nic: n, address: address, bytes: bytes, handle: MemHandle(r.Handle)}, nil
}

// RegisterBuffer registers all of a buffer.
func (n *NIC) RegisterBuffer(t *host.Thread, b *mem.Buffer, a MemAttributes) (*Region, error) {
	if b == nil {
		return nil, missing("register memory", "buffer")
	}
	return n.RegisterMem(t, b.Address(), uint64(b.Len()), a)
}

// DeregisterMem ends the registration that address and handle both name. When
// it returns, the NIC no longer accesses the memory.
func (n *NIC) DeregisterMem(t *host.Thread, address uint64, h MemHandle) error {
	if n == nil {
		return missing("deregister memory", "NIC handle")
	}
	return translate(fmt.Sprintf("deregister %#x at %#x", h, address), nil, n.host.Deregister(t, n.info.ID, address, uint32(h)))
}

// QueryMem returns the attributes of a registration.
func (n *NIC) QueryMem(t *host.Thread, address uint64, h MemHandle) (MemAttributes, error) {
	if n == nil {
		return MemAttributes{}, missing("query memory", "NIC handle")
	}
	r, err := n.host.QueryRegion(t, n.info.ID, address, uint32(h))
	return MemAttributes{Ptag: Ptag(r.Tag), EnableRDMAWrite: r.Rights.RDMAWrite, EnableRDMARead: r.Rights.RDMARead},
		translate(fmt.Sprintf("query %#x at %#x", h, address), nil, err)
}

// SetMemAttributes changes tag and rights of the registration that address and
// handle both name; zero attributes are those of RegisterMem. When it returns,
// every access is checked against the new ones. Two things fail as after
// DeregisterMem: an access of the card during the change, and the completion of
// a receive descriptor in this memory that the card fetched before it.
func (n *NIC) SetMemAttributes(t *host.Thread, address uint64, h MemHandle, a MemAttributes) error {
	if n == nil {
		return missing("set memory attributes", "NIC handle")
	}
	return translate(fmt.Sprintf("set attributes of %#x at %#x", h, address), nil,
		n.host.ModifyRegion(t, n.info.ID, address, uint32(h), uint16(a.Ptag), driver.Rights{RDMAWrite: a.EnableRDMAWrite, RDMARead: a.EnableRDMARead}))
}

// Deregister is NIC.DeregisterMem for a region.
func (r *Region) Deregister(t *host.Thread) error {
	if r == nil {
		return missing("deregister memory", "region")
	}
	return r.nic.DeregisterMem(t, r.address, r.handle)
}

// Handle returns the memory handle.
func (r *Region) Handle() MemHandle { return r.handle }

// Address returns the virtual address of the first byte.
func (r *Region) Address() uint64 { return r.address }

// Bytes returns the region's memory.
func (r *Region) Bytes() []byte { return r.bytes }

// Poll polls n bytes from offset on until cond returns true; ErrTimeout when
// the timeout comes first. A write at the instant of the timeout still counts.
// The condition may depend only on these bytes, which span at most MaxPollPages
// pages.
func (r *Region) Poll(t *host.Thread, offset, n int, timeout host.Time, cond func() bool) error {
	if r == nil {
		return missing("poll memory", "region")
	}
	op := fmt.Sprintf("poll %d bytes at %#x", n, r.address+uint64(offset))
	if err := r.nic.deliver(t); err != nil {
		return err
	}
	var room [MaxPollPages]mem.Range
	ranges, err := room[:0], error(nil)
	if offset < 0 || n <= 0 || offset > len(r.bytes)-n {
		err = fmt.Errorf("bytes %d to %d of a region of %d: %w", offset, offset+n, len(r.bytes), host.ErrInvalidParameter)
	} else if ranges, err = r.nic.host.Memory().Physical(ranges, r.address+uint64(offset), uint64(n)); err == nil && len(ranges) > MaxPollPages {
		err = fmt.Errorf("%d pages, at most %d can be watched: %w", len(ranges), MaxPollPages, host.ErrInvalidParameter)
	}
	if err != nil {
		return translate(op, nil, err)
	}
	ok, err := t.Poll(host.Poll{Ranges: ranges, Period: r.nic.costs.PollPeriod(), Timeout: timeout}, cond)
	if err != nil {
		return translate(op, nil, err)
	}
	if !ok {
		return fail(op, ErrTimeout, fmt.Errorf("condition not met within %v", timeout))
	}
	return nil
}
