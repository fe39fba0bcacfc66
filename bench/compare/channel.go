// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
	"hvia/vipl"
)

// protocol is a way in which the programs of Compare exchange messages.
type protocol struct {
	name   string // as Config has it
	device driver.Device
	write  bool // RDMA writes, not sends and receives
	tcp    bool // over a kernel's TCP/IP, not VIA
	paces  bool // has flow control
	loses  bool // a missing message is counted, not an error of the run
	level  vipl.ReliabilityLevel
	read   bool // RDMA reads: one program fetches, the other is idle
	queue  bool // a completion queue reports received messages
	asked  bool // compared only on request
}

var protocols = []protocol{
	// Lost writes are errors, not counted: a later write to the same slot could
	// not be distinguished from the lost one.
	{name: "rdma", device: driver.DeviceHvia, write: true},
	{name: "send", device: driver.DeviceHvia, loses: true},
	{name: "mvia", device: driver.DeviceMvia, loses: true},
	{name: "tcp", device: driver.DeviceMvia, tcp: true, paces: true},
	// Not in the paper: the other reliability levels, and a completion queue.
	{name: "rdma-rd", device: driver.DeviceHvia, write: true, level: vipl.ReliableDelivery, asked: true},
	{name: "rdma-rr", device: driver.DeviceHvia, write: true, level: vipl.ReliableReception, asked: true},
	{name: "send-rd", device: driver.DeviceHvia, level: vipl.ReliableDelivery, asked: true},
	{name: "send-rr", device: driver.DeviceHvia, level: vipl.ReliableReception, asked: true},
	{name: "read", device: driver.DeviceHvia, read: true, level: vipl.ReliableDelivery, asked: true},
	{name: "send-cq", device: driver.DeviceHvia, queue: true, loses: true, asked: true},
}

func (p protocol) inKernel() bool { return p.device == driver.DeviceMvia }

func (p protocol) costs(b costs.Board) host.CostModel {
	if p.inKernel() {
		return b.KernelCosts()
	}
	return b.Costs()
}

// awaited is the next expected message of a channel.
type awaited struct {
	channel channel
	pattern rig.Pattern
	size    int
}

// any waits for the first of several messages and returns its index, or -1
// after the timeout.
func (p protocol) any(t *host.Thread, h *driver.Host, w []awaited, timeout host.Time) (int, error) {
	if p.tcp {
		return anyTCP(t, w, timeout)
	}
	return anyVia(t, h, w, timeout)
}

func Protocols() []string {
	names := make([]string, len(protocols))
	for i, p := range protocols {
		names[i] = p.name
	}
	return names
}

// DefaultProtocols returns the protocols to compare if none is named. On two
// nodes these are the paper's. More nodes need a switch, which drops excess
// frames. A lost RDMA write is an error, so reliable delivery replaces the
// unreliable level.
func DefaultProtocols(nodes int) []string {
	if nodes > 2 {
		return []string{"send", "mvia", "tcp", "rdma-rd", "send-rd"}
	}
	return paperProtocols()
}

func paperProtocols() (names []string) {
	for _, p := range protocols {
		if !p.asked {
			names = append(names, p.name)
		}
	}
	return names
}

func protocolOf(name string) (protocol, error) {
	for _, p := range protocols {
		if p.name == name {
			return p, nil
		}
	}
	return protocol{}, fmt.Errorf("%w: no protocol %q: there is %q", costs.ErrConfig, name, Protocols())
}

// channelConfig is the configuration of a channel before it connects.
type channelConfig struct {
	size     int // of the longest message, either way
	slots    int // capacity in messages, each way
	receives int // slots with a posted receive at the start
}

// channel carries messages between two programs, both ways and in order; an
// unreliable one may lose some. Both programs know the length of each message,
// so that no protocol adds bytes for it.
type channel interface {
	// dial and accept connect; each pair of channels has its own name.
	dial(t *host.Thread, name int) error
	accept(t *host.Thread, name int) error

	// begin restarts the count of messages and drops late ones. Nothing may be
	// in flight.
	begin(t *host.Thread) error
	// send passes on a message; its slot is in use until the send is settled.
	send(t *host.Thread, p rig.Pattern, n int) error
	// settle reaps sends until at most `left` are in flight.
	settle(t *host.Thread, left int) error
	// receive waits for the next message, expected to have n bytes with this
	// content. It returns the received bytes, valid until replenish, or nil if
	// none came.
	receive(t *host.Thread, p rig.Pattern, n int, timeout host.Time) ([]byte, error)
	// replenish releases the slot of one message, or adds an unused slot.
	replenish(t *host.Thread) error
	close(t *host.Thread) error
}

// viaChannel is a VI with a pair of buffers for each slot. RDMA writes go to
// the peer's slots in turn, and the peer polls their last byte.
type viaChannel struct {
	write       bool
	queue       *vipl.CQ // of the receives, if any
	slots       int
	receives    int // posted at the start
	size        int
	stride      int // from slot to slot
	endpoint    *rig.Endpoint
	descriptors []*vipl.Descriptor // of sends, then of receives

	sends   int // so far
	settled int // of them
	posted  int // posted receives, or cleared slots
	came    int // messages
}

// Offsets of the first slots in their pages. They equal those of the paper's
// experiments (arena), where a message of 64 KiB has a first page of the same
// length.
const (
	sendSlotOffset    = rig.GuardBytes
	receiveSlotOffset = 2 * rig.GuardBytes
)

func openVia(t *host.Thread, h *driver.Host, s channelConfig, p protocol) (channel, error) {
	c := &viaChannel{write: p.write, slots: s.slots, receives: s.receives, size: s.size}
	c.stride = (s.size + receiveSlotOffset + rig.GuardBytes + layout.AttPageBytes - 1) / layout.AttPageBytes * layout.AttPageBytes
	var err error
	c.endpoint, err = rig.OpenEndpoint(t, h, 2*c.slots*c.stride, func(n *vipl.NIC) (a vipl.VIAttributes, err error) {
		a.ReliabilityLevel = p.level
		if p.queue {
			c.queue, err = n.CreateCQ(t, c.slots)
			a.RecvCQ = c.queue
		}
		return a, err
	})
	if err != nil {
		return nil, err
	}
	b, err := c.endpoint.NIC.Alloc(t, 2*c.slots*vipl.DescriptorBytes)
	if err != nil {
		return nil, err
	}
	control, err := c.endpoint.NIC.RegisterBuffer(t, b, vipl.MemAttributes{})
	if err != nil {
		return nil, err
	}
	for i := range 2 * c.slots {
		d, err := control.Descriptor(i*vipl.DescriptorBytes, 1)
		if err != nil {
			return nil, err
		}
		c.descriptors = append(c.descriptors, d)
	}
	for range c.receives {
		if err := c.postReceive(t); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *viaChannel) sendOffset(k int) int { return k%c.slots*c.stride + sendSlotOffset }
func (c *viaChannel) receiveOffset(k int) int {
	return (c.slots+k%c.slots)*c.stride + receiveSlotOffset
}

// slot is the slot of the k-th incoming message, and the guard behind it.
func (c *viaChannel) slot(k int) (room, guard []byte) {
	o := c.receiveOffset(k)
	return c.endpoint.Bytes()[o : o+c.size], c.endpoint.Bytes()[o+c.size : o+c.size+rig.GuardBytes]
}

func (c *viaChannel) postReceive(t *host.Thread) error {
	if c.write {
		return nil
	}
	d := c.descriptors[c.slots+c.posted%c.slots]
	if err := d.SetReceive(c.endpoint.Buffer.Segment(c.receiveOffset(c.posted), c.size)); err != nil {
		return err
	}
	c.posted++
	return c.endpoint.VI.PostRecv(t, d)
}

func channelName(name int) string { return fmt.Sprintf("compare %d", name) }

func (c *viaChannel) dial(t *host.Thread, name int) error {
	return c.endpoint.Dial(t, vipl.At(serverNode, channelName(name)), rig.WaitLimit)
}

func (c *viaChannel) accept(t *host.Thread, name int) error {
	return c.endpoint.Accept(t, channelName(name), rig.WaitLimit)
}

func (c *viaChannel) begin(t *host.Thread) error {
	if c.write {
		c.sends, c.settled, c.came, c.posted = 0, 0, 0, 0
		for k := range c.slots {
			room, _ := c.slot(k)
			clear(room)
		}
		return nil
	}
	// Descriptors stay at their place in the queue.
	for {
		late, err := c.receive(t, rig.Pattern{}, 0, 0)
		if err != nil || late == nil {
			return err
		}
		if err := c.replenish(t); err != nil {
			return err
		}
	}
}

func (c *viaChannel) send(t *host.Thread, p rig.Pattern, n int) error {
	if err := c.settle(t, c.slots-1); err != nil {
		return err
	}
	k := c.sends
	p.Fill(c.endpoint.Bytes()[c.sendOffset(k) : c.sendOffset(k)+n])
	d, local := c.descriptors[k%c.slots], c.endpoint.Buffer.Segment(c.sendOffset(k), n)
	if c.write {
		if err := d.SetRDMAWrite(c.endpoint.Peer.Address+uint64(c.receiveOffset(k)), c.endpoint.Peer.Handle, local); err != nil {
			return err
		}
	} else if err := d.SetSend(local); err != nil {
		return err
	}
	c.sends++
	return c.endpoint.VI.PostSend(t, d)
}

func (c *viaChannel) settle(t *host.Thread, left int) error {
	for ; c.sends-c.settled > left; c.settled++ {
		if _, err := c.endpoint.VI.SendWait(t, rig.WaitLimit); err != nil {
			return err
		}
	}
	return nil
}

func (c *viaChannel) receive(t *host.Thread, p rig.Pattern, n int, timeout host.Time) ([]byte, error) {
	k := c.came
	room, guard := c.slot(k)
	if c.write {
		err := c.endpoint.Poll(t, c.receiveOffset(k)+n-1, p.Last(), timeout)
		if errors.Is(err, vipl.ErrTimeout) {
			return nil, nil
		}
		c.came++
		return room[:n], errors.Join(err, c.guarded(k, guard))
	}
	left := t.Countdown(timeout)
	for {
		d, err := c.next(t, max(left(), 0))
		switch {
		case errors.Is(err, vipl.ErrTimeout), errors.Is(err, vipl.ErrDescriptor) && d == nil: // nothing posted, nothing to come
			return nil, nil
		case err != nil && d != nil && d.Status()&layout.DescriptorStatusPartialErrorMask != 0:
			// Frames of a message were lost. The next message shows which one.
			c.came++
			if err := c.replenish(t); err != nil {
				return nil, err
			}
			k = c.came
			continue
		case err != nil:
			return nil, err
		}
		room, guard = c.slot(k)
		c.came++
		if d != c.descriptors[c.slots+k%c.slots] {
			return nil, fmt.Errorf("receive %d: descriptor %#x, want %#x", k, d.Address, c.descriptors[c.slots+k%c.slots].Address)
		}
		return room[:d.Length()], c.guarded(k, guard)
	}
}

// next waits for the next receive descriptor.
func (c *viaChannel) next(t *host.Thread, timeout host.Time) (*vipl.Descriptor, error) {
	if c.queue == nil {
		return c.endpoint.VI.RecvWait(t, timeout)
	}
	done, err := c.queue.Wait(t, timeout)
	if err != nil {
		return nil, err
	}
	return done.Done(t)
}

// guarded returns an error if the guard behind a slot was overwritten.
func (c *viaChannel) guarded(k int, guard []byte) error {
	for i, v := range guard {
		if v != 0 {
			return fmt.Errorf("message %d: byte %d behind its buffer of %d became %#02x", k, i, c.size, v)
		}
	}
	return nil
}

func (c *viaChannel) replenish(t *host.Thread) error {
	if c.write {
		for ; c.posted < c.came; c.posted++ {
			room, _ := c.slot(c.posted)
			clear(room) // so that a poll does not find the last byte too early
		}
		return nil
	}
	if c.posted-c.came >= c.slots {
		return nil
	}
	return c.postReceive(t)
}

func (c *viaChannel) close(t *host.Thread) error { return c.endpoint.Close(t) }

// watch returns the word that the next message changes, and a check whether it
// has arrived.
func (c *viaChannel) watch(p rig.Pattern, n int) (address uint64, there func() bool) {
	if c.write {
		o := c.receiveOffset(c.came) + n - 1
		return c.endpoint.Buffer.Address() + uint64(o), func() bool { return c.endpoint.Bytes()[o] == p.Last() }
	}
	d := c.descriptors[c.slots+c.came%c.slots]
	return d.Address + layout.DescriptorStatusOffset, func() bool { return d.Status()&vipl.DescriptorDone != 0 }
}

// atMost returns at most n ranges that contain the given ones: it merges those
// with the smallest gaps between them. A write into a gap only causes an empty
// poll.
func atMost(ranges []mem.Range, n int) []mem.Range {
	if len(ranges) <= n {
		return ranges
	}
	ranges = slices.SortedFunc(slices.Values(ranges), func(a, b mem.Range) int { return cmp.Compare(a.Address, b.Address) })
	end := func(i int) uint32 { return ranges[i].Address + ranges[i].Length }
	for len(ranges) > n {
		least := 1
		for i := 2; i < len(ranges); i++ {
			if int64(ranges[i].Address)-int64(end(i-1)) < int64(ranges[least].Address)-int64(end(least-1)) {
				least = i
			}
		}
		ranges[least-1].Length = max(end(least), end(least-1)) - ranges[least-1].Address
		ranges = slices.Delete(ranges, least, least+1)
	}
	return ranges
}

// anyVia polls the words of all channels: a completion queue does not report
// RDMA writes.
func anyVia(t *host.Thread, h *driver.Host, w []awaited, timeout host.Time) (int, error) {
	var ranges []mem.Range
	looks := make([]func() bool, len(w))
	for i, a := range w {
		c, ok := a.channel.(*viaChannel)
		if !ok {
			return -1, fmt.Errorf("wait for one of %d messages: channel %d is a %T: %w", len(w), i, a.channel, host.ErrInvalidParameter)
		}
		address, look := c.watch(a.pattern, a.size)
		var err error
		if ranges, err = h.Memory().Physical(ranges, address, 1); err != nil {
			return -1, err
		}
		looks[i] = look
	}
	ranges = atMost(ranges, bridge.MaxWatches)
	first := func() int { return slices.IndexFunc(looks, func(look func() bool) bool { return look() }) }
	if _, err := t.Poll(host.Poll{Ranges: ranges, Period: h.Costs().PollPeriod(), Timeout: timeout}, func() bool { return first() >= 0 }); err != nil {
		return -1, err
	}
	return first(), nil
}
