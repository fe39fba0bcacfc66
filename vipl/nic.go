// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// Infinite is the timeout that never ends, VIP_INFINITE.
const Infinite = host.Never

// Limits of this provider.
const (
	MaxDescriptorsPerQueue = driver.QueueDepth
	MaxSegments            = layout.MaxDataSegments // per descriptor
	MaxPollPages           = 8                      // pages of one Poll
	providerVersion        = 1
)

// NetAddress is VIP_NET_ADDRESS: a host and a discriminator, which acts as a
// port. Discriminators are compared byte by byte, length included.
type NetAddress struct {
	Host          layout.MAC
	Discriminator string
}

func (a NetAddress) String() string { return fmt.Sprintf("%v/%q", a.Host, a.Discriminator) }

// At returns the address of a discriminator at a node of the fabric.
func At(node int, discriminator string) NetAddress {
	return NetAddress{Host: driver.NodeMAC(node), Discriminator: discriminator}
}

// ReliabilityLevel is VIP_RELIABILITY_LEVEL: one bit for a VI, a mask for a
// NIC.
type ReliabilityLevel uint8

// Reliability levels.
const (
	Unreliable        = ReliabilityLevel(layout.ReliabilityUnreliable)
	ReliableDelivery  = ReliabilityLevel(layout.ReliabilityDelivery)
	ReliableReception = ReliabilityLevel(layout.ReliabilityReception)
)

// Ptag is a protection tag. Every access to memory needs equal tags of VI and
// region. The zero Ptag stands for the NIC handle's own tag.
type Ptag uint16

// NICAttributes is VIP_NIC_ATTRIBUTES.
type NICAttributes struct {
	Name                    string
	HardwareVersion         uint32 // major in bits 15:8, minor in 7:0
	ProviderVersion         uint32
	LocalAddress            layout.MAC
	ThreadSafe              bool
	MaxDiscriminatorLen     int
	MaxRegisterBytes        uint64
	MaxRegisterRegions      int
	MaxRegisterBlockBytes   uint64
	MaxVI                   int
	MaxDescriptorsPerQueue  int
	MaxSegmentsPerDesc      int
	MaxCQ                   int
	MaxCQEntries            int
	MaxTransferSize         int
	NativeMTU               int
	MaxPtags                int
	ReliabilityLevelSupport ReliabilityLevel // mask
	RDMAReadSupport         ReliabilityLevel // mask of the levels with RDMA read
}

// NIC is an open NIC handle. It may be used from several threads.
type NIC struct {
	host   *driver.Host
	info   driver.NIC
	costs  host.CostModel
	closed atomic.Bool
	names  atomic.Bool // the name service is in use

	errors     mem.Range // the word that says whether asynchronous errors wait
	handler    atomic.Pointer[errorHandler]
	delivering atomic.Bool // a thread calls the handler

	notifications

	mu  sync.Mutex
	vis map[int]*VI // by index
	cqs []*CQ       // not destroyed
}

var errNICClosed = errors.New("the NIC handle was closed")

// OpenNIC opens the NIC of the thread's host. Each call gives another handle.
func OpenNIC(t *host.Thread, h *driver.Host) (*NIC, error) {
	if h == nil {
		return nil, missing("open NIC", "host")
	}
	info, err := h.OpenNIC(t)
	if err != nil {
		return nil, translate("open NIC", nil, err)
	}
	return &NIC{
		host: h, info: info, costs: h.Costs(), errors: h.ErrorRange(info.ID), vis: map[int]*VI{},
		notifications: notifications{notified: h.NotificationRange(info.ID)},
	}, nil
}

// Close ends the handle and destroys its VIs, completion queues, regions and
// tags.
func (n *NIC) Close(t *host.Thread) error {
	if n == nil {
		return missing("close NIC", "NIC handle")
	}
	if n.closed.Swap(true) {
		return fail("close NIC", ErrInvalidParameter, errNICClosed)
	}
	n.mu.Lock()
	cqs := n.cqs
	n.cqs, n.notifiers = nil, nil
	n.listed.Store(0)
	n.mu.Unlock()
	for _, c := range cqs {
		c.mu.Lock()
		c.close()
		c.mu.Unlock()
		if err := t.Publish(c.arm.Range()); err != nil {
			return translate("close NIC", nil, err)
		}
	}
	return translate("close NIC", nil, n.host.CloseNIC(t, n.info.ID))
}

// Query returns the attributes of the NIC when the handle was opened; zero
// values for a nil handle.
func (n *NIC) Query() NICAttributes {
	if n == nil {
		return NICAttributes{}
	}
	blocks := uint64(layout.AttLevel2Count) * layout.AttPageBytes
	a := NICAttributes{
		Name: fmt.Sprintf("%s%d", n.host.Device(), n.host.Node()), HardwareVersion: n.info.HardwareVersion, ProviderVersion: providerVersion,
		LocalAddress: n.info.Address, ThreadSafe: true, MaxDiscriminatorLen: driver.MaxDiscriminator,
		MaxRegisterBytes: blocks, MaxRegisterRegions: n.info.MaxRegions, MaxRegisterBlockBytes: blocks,
		MaxVI: n.info.MaxVIs, MaxDescriptorsPerQueue: MaxDescriptorsPerQueue, MaxSegmentsPerDesc: MaxSegments,
		MaxTransferSize: n.info.MaxTransferSize, NativeMTU: layout.MaxPayload, MaxPtags: driver.MaxTags,
		ReliabilityLevelSupport: ReliabilityLevel(n.info.Reliability), MaxCQ: n.info.MaxCQs,
	}
	if a.MaxCQ > 0 {
		a.MaxCQEntries = driver.MaxCQEntries
	}
	if n.info.RDMARead {
		a.RDMAReadSupport = a.ReliabilityLevelSupport &^ Unreliable
	}
	return a
}

// CreatePtag makes a protection tag.
func (n *NIC) CreatePtag(t *host.Thread) (Ptag, error) {
	if n == nil {
		return 0, missing("create protection tag", "NIC handle")
	}
	tag, err := n.host.CreateTag(t, n.info.ID)
	return Ptag(tag), translate("create protection tag", nil, err)
}

// DestroyPtag removes a tag; ErrResource while a VI or region has it.
func (n *NIC) DestroyPtag(t *host.Thread, tag Ptag) error {
	if n == nil {
		return missing("destroy protection tag", "NIC handle")
	}
	return translate("destroy protection tag", nil, n.host.DestroyTag(t, n.info.ID, uint16(tag)))
}

// Counter reads one of the card's statistics counters.
func (n *NIC) Counter(t *host.Thread, c layout.Counter) (uint32, error) {
	if n == nil {
		return 0, missing("read counter "+c.String(), "NIC handle")
	}
	v, err := n.host.Counter(t, n.info.ID, c)
	return v, translate("read counter "+c.String(), nil, err)
}
