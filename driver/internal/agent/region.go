// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"

	"hvia/att"
	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
)

type tag struct {
	nic  uint32
	uses int // VIs and regions
}

type region struct {
	handle          att.Handle
	address, length uint64
	tag             uint16
	rights          uint8
}

func (a *Agent) createTag(n *nic, r *call.Reply) error {
	if err := n.process.uses.tags.check(n.process); err != nil {
		return err
	}
	if len(a.tags) == MaxTags {
		return fmt.Errorf("all %d protection tags are in use: %w", MaxTags, host.ErrResource)
	}
	for a.nextTag == 0 || a.tags[a.nextTag] != nil {
		a.nextTag++
	}
	a.tags[a.nextTag] = &tag{nic: n.id}
	n.process.uses.tags.count++
	r.Tag = a.nextTag
	a.nextTag++
	return nil
}

func (a *Agent) destroyTag(n *nic, t uint16) error {
	k, err := a.tag(n, t)
	switch {
	case err != nil:
		return err
	case t == n.tag:
		return fmt.Errorf("tag %d is the NIC handle's own: %w", t, host.ErrInvalidParameter)
	case k.uses > 0:
		return fmt.Errorf("tag %d has %d VIs and regions: %w", t, k.uses, host.ErrInUse)
	}
	delete(a.tags, t)
	n.process.uses.tags.count--
	return nil
}

func (a *Agent) tag(n *nic, t uint16) (*tag, error) {
	k := a.tags[t]
	if k == nil || k.nic != n.id {
		return nil, fmt.Errorf("tag %d of NIC handle %d: %w", t, n.id, call.ErrTag)
	}
	return k, nil
}

func (a *Agent) rights(rights uint8) error {
	if allowsRead(rights) && !a.device.identity().RDMARead {
		return fmt.Errorf("RDMA read: %w", call.ErrUnsupported)
	}
	return nil
}

func allowsWrite(rights uint8) bool { return rights&layout.ConnectionFrameRightsRDMAWriteMask != 0 }
func allowsRead(rights uint8) bool  { return rights&layout.ConnectionFrameRightsRDMAReadMask != 0 }

// access returns the requested tag, or the NIC handle's, and checks the rights.
func (a *Agent) access(n *nic, q *call.Request) (t uint16, k *tag, err error) {
	if t = q.Tag; t == 0 {
		t = n.tag
	}
	if k, err = a.tag(n, t); err != nil {
		return t, nil, err
	}
	return t, k, a.rights(q.Rights)
}

func (a *Agent) register(n *nic, q *call.Request, r *call.Reply) error {
	t, k, err := a.access(n, q)
	if err != nil {
		return err
	}
	if err := n.process.uses.regions.check(n.process); err != nil {
		return err
	}
	memory := n.process.memory
	pages, err := memory.Pin(bridge.UseRegion, q.Address, q.Length)
	if err != nil {
		return err
	}
	unpin := func(err error) error {
		return errors.Join(err, memory.Unpin(bridge.UseRegion, q.Address, q.Length))
	}
	if err := a.thread.Spend(host.LayerAgent, a.costs.PinPage*host.Time(len(pages))); err != nil {
		return err
	}
	g, err := a.table.Register(att.Region{
		Start: q.Address, Length: q.Length, Pages: pages, Tag: t,
		RDMAWrite: allowsWrite(q.Rights), RDMARead: allowsRead(q.Rights),
	})
	if err != nil {
		if errors.Is(err, att.ErrNoSlot) || errors.Is(err, att.ErrNoLevel2) {
			err = fmt.Errorf("%w: %w", err, host.ErrResource)
		} else {
			err = fmt.Errorf("%w: %w", err, host.ErrInvalidParameter)
		}
		return unpin(err)
	}
	if err := a.device.enter(g); err != nil {
		// The level-1 entry was not written, so no engine can hold the handle.
		return unpin(errors.Join(err, a.table.Deregister(g.Handle)))
	}
	k.uses++
	n.process.uses.regions.count++
	n.regions[uint32(g.Handle)] = &region{handle: g.Handle, address: q.Address, length: q.Length, tag: t, rights: q.Rights}
	r.Object, r.Tag, r.Rights, r.Address, r.Length = uint32(g.Handle), t, q.Rights, q.Address, q.Length
	return nil
}

func (n *nic) region(handle uint32, address uint64) (*region, error) {
	if g := n.regions[handle]; g != nil && g.address == address {
		return g, nil
	}
	return nil, fmt.Errorf("no region with handle %#x at %#x: %w", handle, address, host.ErrInvalidParameter)
}

// deregister removes a region. Its frames are unpinned only when the device has
// drained every access to it.
func (a *Agent) deregister(n *nic, handle uint32, address uint64) error {
	g, err := n.region(handle, address)
	if err != nil {
		return err
	}
	if err := a.device.remove(g.handle); err != nil {
		return err
	}
	return a.forget(n, g)
}

// forget unpins the frames of a region that the device no longer knows.
func (a *Agent) forget(n *nic, g *region) error {
	delete(n.regions, uint32(g.handle))
	n.process.uses.regions.count--
	if k := a.tags[g.tag]; k != nil {
		k.uses--
	}
	if err := n.process.memory.Unpin(bridge.UseRegion, g.address, g.length); err != nil {
		return err
	}
	return a.thread.Spend(host.LayerAgent, a.costs.PinPage*host.Time(att.PagesOf(g.address, g.length)))
}

func (a *Agent) modifyRegion(n *nic, q *call.Request) error {
	g, err := n.region(q.Object, q.Address)
	if err != nil {
		return err
	}
	t, k, err := a.access(n, q)
	if err != nil {
		return err
	}
	if gone, err := a.device.change(g.handle, t, q.Rights); err != nil {
		if gone {
			err = errors.Join(fmt.Errorf("the region with handle %#x at %#x is not registered any more: %w", q.Object, q.Address, err), a.forget(n, g))
		}
		return err
	}
	if old := a.tags[g.tag]; old != nil {
		old.uses--
	}
	k.uses++
	g.tag, g.rights = t, q.Rights
	return nil
}

func (a *Agent) queryRegion(n *nic, q *call.Request, r *call.Reply) error {
	g, err := n.region(q.Object, q.Address)
	if err != nil {
		return err
	}
	r.Object, r.Tag, r.Rights, r.Address, r.Length = q.Object, g.tag, g.rights, g.address, g.length
	return nil
}
