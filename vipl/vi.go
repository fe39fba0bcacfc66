// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"errors"
	"fmt"
	"sync"

	"hvia/driver"
	"hvia/layout"
)

// ViState is VIP_VI_STATE.
type ViState = layout.ViState

// States of a VI.
const (
	Idle           = layout.ViStateIdle
	Connected      = layout.ViStateConnected
	ConnectPending = layout.ViStateConnectPending
	ErrorState     = layout.ViStateError
)

// ViAttributes is VIP_VI_ATTRIBUTES. In a request, a zero value takes the
// default: unreliable delivery, the NIC's largest transfer size, the NIC
// handle's tag.
type ViAttributes struct {
	ReliabilityLevel ReliabilityLevel
	MaxTransferSize  int
	Ptag             Ptag
	EnableRdmaWrite  bool // the peer may write through this VI
	EnableRdmaRead   bool
}

func (a ViAttributes) driver() driver.ViAttributes {
	return driver.ViAttributes{
		Reliability: uint8(a.ReliabilityLevel), MaxTransferSize: a.MaxTransferSize, Tag: uint16(a.Ptag),
		Rights: driver.Rights{RdmaWrite: a.EnableRdmaWrite, RdmaRead: a.EnableRdmaRead},
	}
}

func attributesOf(a driver.ViAttributes) ViAttributes {
	return ViAttributes{
		ReliabilityLevel: ReliabilityLevel(a.Reliability), MaxTransferSize: a.MaxTransferSize, Ptag: Ptag(a.Tag),
		EnableRdmaWrite: a.Rights.RdmaWrite, EnableRdmaRead: a.Rights.RdmaRead,
	}
}

// VI is a virtual interface.
type VI struct {
	nic      *Nic
	vi       driver.Vi
	doorbell uint32
	status   driver.Range // of its state, to be watched

	mu         sync.Mutex
	attributes ViAttributes
	send       queue
}

// queue is a work queue as the library keeps it. The card follows the links
// in memory; this ring remembers what was posted and not yet handed back, in
// order.
type queue struct {
	posted [MaxDescriptorsPerQueue]*Descriptor
	head   uint64 // descriptors handed back so far
	tail   uint64 // descriptors posted so far
}

func (q *queue) slot(n uint64) **Descriptor { return &q.posted[n%MaxDescriptorsPerQueue] }

// CreateVi makes a VI in state Idle.
func (n *Nic) CreateVi(t *driver.Thread, a ViAttributes) (*VI, error) {
	v, got, err := n.host.CreateVi(t, n.info.ID, a.driver())
	if err != nil {
		return nil, translate("create VI", -1, err)
	}
	return &VI{nic: n, vi: v, doorbell: v.DoorbellSend(), status: v.StateRange(), attributes: attributesOf(got)}, nil
}

// Index returns the VI's index in the card, for messages.
func (v *VI) Index() int { return v.vi.Index }

func (v *VI) fail(op string, s Status, detail error) error {
	return &Error{Op: op, VI: v.vi.Index, Descriptor: -1, Status: s, Detail: detail}
}

// Destroy removes the VI, which must be idle and its queues drained.
func (v *VI) Destroy(t *driver.Thread) error {
	v.mu.Lock()
	left := v.send.tail - v.send.head
	v.mu.Unlock()
	if left > 0 {
		return v.fail("destroy VI", StatusErrorResource, fmt.Errorf("%d descriptors are on its send queue: disconnect, then take them with SendDone", left))
	}
	return translate("destroy VI", v.vi.Index, v.vi.Destroy(t))
}

// Query returns state, attributes and whether the send queue is empty.
func (v *VI) Query(t *driver.Thread) (ViState, ViAttributes, bool, error) {
	s, a, err := v.vi.Query(t)
	if err != nil {
		return 0, ViAttributes{}, false, translate("query VI", v.vi.Index, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return s, attributesOf(a), v.send.head == v.send.tail, nil
}

// SetAttributes changes the attributes of an idle VI.
func (v *VI) SetAttributes(t *driver.Thread, a ViAttributes) error {
	if err := v.vi.Modify(t, a.driver()); err != nil {
		return translate("set VI attributes", v.vi.Index, err)
	}
	_, got, err := v.vi.Query(t)
	if err != nil {
		return translate("set VI attributes", v.vi.Index, err)
	}
	v.mu.Lock()
	v.attributes = attributesOf(got)
	v.mu.Unlock()
	return nil
}

// PostSend puts a descriptor on the send queue and rings the doorbell. The
// descriptor and the memory it names belong to the NIC until SendDone or
// SendWait hands it back. Errors in what the descriptor says are reported by
// its completion, not here. On a VI that is not connected it completes as
// flushed.
func (v *VI) PostSend(t *driver.Thread, d *Descriptor) error {
	if d == nil || len(d.Descriptor) < DescriptorBytes {
		return v.fail("post send", StatusInvalidParameter, fmt.Errorf("no descriptor of %d bytes", DescriptorBytes))
	}
	if d.Address%layout.DescriptorAlignment != 0 {
		// A doorbell for it would be dropped, and the link to it would mislead the card.
		return v.fail("post send", StatusInvalidParameter, fmt.Errorf("descriptor at %#x: want a multiple of %d", d.Address, layout.DescriptorAlignment))
	}
	if err := t.Charge(v.nic.costs.Post()); err != nil {
		return translate("post send", v.vi.Index, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	q := &v.send
	if q.tail-q.head == MaxDescriptorsPerQueue {
		return &Error{Op: "post send", VI: v.vi.Index, Descriptor: int64(q.tail), Status: StatusErrorResource,
			Detail: fmt.Errorf("%d descriptors are outstanding (take some with SendDone): %w", MaxDescriptorsPerQueue, ErrOverrun)}
	}
	if q.tail > q.head {
		// The card reads the link when it fetches the predecessor, unless the
		// queue has run empty by then, and then the doorbell names this one.
		previous := *q.slot(q.tail - 1)
		previous.SetNext(d.Address)
		previous.SetNextHandle(uint32(d.Handle))
	}
	if err := t.Write(v.doorbell, uint32(d.Address), uint32(d.Address>>32), uint32(d.Handle)); err != nil {
		return translate("post send", v.vi.Index, err)
	}
	*q.slot(q.tail) = d
	q.tail++
	return nil
}

// SendDone takes the descriptor at the head of the send queue if it has
// completed, and ErrNotDone if it has not. With ErrDescriptor and a descriptor
// it completed with an error; with ErrDescriptor and none the queue is empty.
func (v *VI) SendDone(t *driver.Thread) (*Descriptor, error) {
	d, err := v.take("send done")
	if d == nil && err == nil {
		if err := v.settle(t); err != nil {
			return nil, err
		}
		d, err = v.take("send done")
	}
	if d == nil && err == nil {
		if err := t.Charge(v.nic.costs.PollPeriod()); err != nil {
			return nil, translate("send done", v.vi.Index, err)
		}
		return nil, v.fail("send done", StatusNotDone, nil)
	}
	if charge := t.Charge(v.nic.costs.Done()); charge != nil {
		return d, translate("send done", v.vi.Index, charge)
	}
	return d, err
}

// SendWait is SendDone that waits; ErrTimeout when the timeout comes first.
func (v *VI) SendWait(t *driver.Thread, timeout driver.Time) (*Descriptor, error) {
	const op = "send wait"
	d, err := v.take(op)
	if d == nil && err == nil {
		if err := v.settle(t); err != nil {
			return nil, err
		}
		if err := v.await(t, timeout); err != nil {
			return nil, err
		}
		if err := v.settle(t); err != nil {
			return nil, err
		}
		d, err = v.take(op)
	}
	if d == nil && err == nil {
		return nil, v.fail(op, StatusTimeout, fmt.Errorf("nothing completed within %v", timeout))
	}
	if charge := t.Charge(v.nic.costs.Done()); charge != nil {
		return d, translate(op, v.vi.Index, charge)
	}
	return d, err
}

// await waits until the head of the queue has completed, or the VI has left
// the connection, after which nothing may come any more.
func (v *VI) await(t *driver.Thread, timeout driver.Time) error {
	v.mu.Lock()
	if v.send.head == v.send.tail {
		v.mu.Unlock()
		return nil // another thread took it
	}
	head := *v.send.slot(v.send.head)
	v.mu.Unlock()
	var room [3]driver.Range
	room[0] = v.status
	ranges, err := v.nic.host.Memory().Physical(room[:1], head.Address+layout.DescriptorStatusOffset, 4)
	if err != nil {
		// The descriptor lies where the library cannot look: only a change of state can end this.
		ranges = room[:1]
	}
	_, changes := v.vi.State()
	_, err = t.Poll(driver.Poll{Ranges: ranges, Period: v.nic.costs.PollPeriod(), Timeout: timeout}, func() bool {
		_, now := v.vi.State()
		return head.Completion().Done() || now != changes
	})
	return translate("send wait", v.vi.Index, err)
}

var errEmpty = errors.New("the queue is empty")

// take removes and returns the head of the queue if it has completed; neither
// descriptor nor error if it has not.
func (v *VI) take(op string) (*Descriptor, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := &v.send
	if q.head == q.tail {
		return nil, v.fail(op, StatusDescriptorError, errEmpty)
	}
	d := *q.slot(q.head)
	s := d.Completion()
	if !s.Done() {
		return nil, nil
	}
	*q.slot(q.head) = nil
	number := int64(q.head)
	q.head++
	if s.Failed() {
		return d, &Error{Op: op, VI: v.vi.Index, Descriptor: number, Status: StatusDescriptorError, Bits: s,
			Detail: v.explain(d, s)}
	}
	return d, nil
}

// explain says why a descriptor failed, with the numbers at fault where they
// can be told.
func (v *VI) explain(d *Descriptor, s DescriptorStatus) error {
	length := layout.DataSegment(d.Descriptor[dataSegmentOffset:]).Length()
	if limit := v.attributes.MaxTransferSize; s&layout.DescriptorStatusLengthErrorMask != 0 && d.SegmentCount() == 2 && int64(length) > int64(limit) {
		return fmt.Errorf("length %d > max transfer size %d", length, limit)
	}
	return fmt.Errorf("%v (status %#x)", s, uint32(s))
}

// settle completes what the card never will: a descriptor that it could not
// reach hides all that were posted behind it. That breaks the VI, so there is
// nothing to do unless it is broken; and then the agent first makes sure that
// the card holds nothing of the VI any more.
func (v *VI) settle(t *driver.Thread) error {
	if s, _ := v.vi.State(); s != ErrorState {
		return nil
	}
	if err := v.vi.Drain(t); err != nil {
		return translate("drain VI", v.vi.Index, err)
	}
	v.flush()
	return nil
}

// flush completes in order what is outstanding and not done. The card must
// hold nothing of the VI.
func (v *VI) flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for n := v.send.head; n < v.send.tail; n++ {
		d := *v.send.slot(n)
		if d.Completion().Done() {
			continue
		}
		operation := uint32(d.Control()) & layout.DescriptorControlOperationMask >> layout.DescriptorControlOperationLsb
		echo := [4]layout.StatusOperation{layout.StatusOperationSend, layout.StatusOperationRdmaWrite, layout.StatusOperationRdmaRead, layout.StatusOperationSend}[operation]
		d.SetLength(0)
		driver.StoreUint32(d.Descriptor[layout.DescriptorStatusOffset:],
			layout.DescriptorStatusDoneMask|layout.DescriptorStatusFlushedMask|uint32(echo)<<layout.DescriptorStatusOperationLsb)
	}
}

// Disconnect ends the VI's connection, if it has one: every outstanding
// descriptor completes, those not yet processed as flushed, and the VI is idle
// again. The peer's VI goes to the error state and its NIC reports the loss.
// On an idle VI it does nothing but flush.
func (v *VI) Disconnect(t *driver.Thread) error {
	if err := v.vi.Disconnect(t); err != nil {
		return translate("disconnect", v.vi.Index, err)
	}
	v.flush()
	return nil
}

// ConnectRequest asks the program that waits at the remote address for a
// connection, and returns the attributes of its VI. Only the remote address
// is used to find it; the local discriminator is told to it. Errors:
// ErrNoMatch at once when nobody waits there, ErrReject, ErrTimeout. The VI is
// then idle and may be used for another attempt.
func (v *VI) ConnectRequest(t *driver.Thread, local, remote NetAddress, timeout driver.Time) (ViAttributes, error) {
	a, err := v.vi.Connect(t, remote.Host, remote.Discriminator, local.Discriminator, timeout)
	if err != nil {
		return ViAttributes{}, translate(fmt.Sprintf("connect request to %v", remote), v.vi.Index, err)
	}
	return attributesOf(a), nil
}

// ConnectionRequest is a request that ConnectWait has received: VIP_CONN_HANDLE.
type ConnectionRequest struct {
	RemoteAddress    NetAddress
	RemoteAttributes ViAttributes
	request          *driver.Request
}

// ConnectWait waits for a request that is aimed at the local address; timeout
// 0 only looks. It must end with Accept or Reject.
func (n *Nic) ConnectWait(t *driver.Thread, local NetAddress, timeout driver.Time) (*ConnectionRequest, error) {
	r, err := n.host.ConnectWait(t, n.info.ID, local.Discriminator, timeout)
	if err != nil {
		return nil, translate(fmt.Sprintf("connect wait at %v", local), -1, err)
	}
	return &ConnectionRequest{
		RemoteAddress:    NetAddress{Host: r.Remote.Address, Discriminator: r.Remote.Discriminator},
		RemoteAttributes: attributesOf(r.Remote.Attributes), request: r,
	}, nil
}

// Accept connects an idle VI with the requester's. Reliability level and
// largest transfer size must be equal; if they are not, nothing is sent, and
// the caller may change the VI's attributes and try again, or Reject.
func (c *ConnectionRequest) Accept(t *driver.Thread, v *VI) error {
	return translate(fmt.Sprintf("accept connection from %v", c.RemoteAddress), v.vi.Index, c.request.Accept(t, v.vi))
}

// Reject refuses the request: the requester gets ErrReject.
func (c *ConnectionRequest) Reject(t *driver.Thread) error {
	return translate(fmt.Sprintf("reject connection from %v", c.RemoteAddress), -1, c.request.Reject(t))
}
