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

// States of a VI: VIP_VI_STATE.
const (
	Idle           = layout.VIStateIdle
	Connected      = layout.VIStateConnected
	ConnectPending = layout.VIStateConnectPending
	ErrorState     = layout.VIStateError
)

// VIAttributes is VIP_VI_ATTRIBUTES. In a request, a zero value takes the
// default: unreliable delivery, the NIC's largest transfer size, the NIC
// handle's tag.
type VIAttributes struct {
	ReliabilityLevel ReliabilityLevel
	MaxTransferSize  int
	Ptag             Ptag
	EnableRDMAWrite  bool // the peer may write through this VI
	EnableRDMARead   bool // the peer may read through this VI; needs a reliable level
	// Completion queues that the work queues are tied to, nil = none. They are
	// fixed when the VI is created. One may serve both queues, and those of
	// many VIs.
	SendCQ, RecvCQ *CQ
	// Blocking lets SendWait and RecvWait sleep until the card interrupts,
	// instead of polling. On M-VIA they always sleep.
	Blocking bool
}

func (a VIAttributes) driver() driver.VIAttributes {
	return driver.VIAttributes{
		SendQueue: a.SendCQ.driver(), ReceiveQueue: a.RecvCQ.driver(),
		Reliability: uint8(a.ReliabilityLevel), MaxTransferSize: a.MaxTransferSize, Tag: uint16(a.Ptag),
		Rights: driver.Rights{RDMAWrite: a.EnableRDMAWrite, RDMARead: a.EnableRDMARead},
	}
}

func attributesOf(a driver.VIAttributes) VIAttributes {
	return VIAttributes{
		ReliabilityLevel: ReliabilityLevel(a.Reliability), MaxTransferSize: a.MaxTransferSize, Ptag: Ptag(a.Tag),
		EnableRDMAWrite: a.Rights.RDMAWrite, EnableRDMARead: a.Rights.RDMARead,
	}
}

// VI is a virtual interface.
type VI struct {
	nic    *NIC
	vi     driver.VI
	status mem.Range   // of its state, to be watched
	blocks atomic.Bool // attribute Blocking
	gone   atomic.Bool // destroyed

	mu            sync.Mutex
	attributes    VIAttributes
	theirs        []RemoteRegion // advertised by the peer of the last connection
	send, receive queue
}

// CreateVI makes a VI in state Idle.
func (n *NIC) CreateVI(t *host.Thread, a VIAttributes) (*VI, error) {
	if n == nil {
		return nil, missing("create VI", "NIC handle")
	}
	for _, c := range []*CQ{a.SendCQ, a.RecvCQ} {
		if c != nil && c.nic != n {
			return nil, fail("create VI", ErrInvalidParameter, fmt.Errorf("completion queue %d belongs to another NIC handle: create one through this handle", c.cq.Number))
		}
	}
	v, got, err := n.host.CreateVI(t, n.info.ID, a.driver())
	if err != nil {
		return nil, translate("create VI", nil, err)
	}
	made := &VI{nic: n, vi: v, status: v.StateRange(), attributes: attributesOf(got)}
	made.attributes.SendCQ, made.attributes.RecvCQ, made.attributes.Blocking = a.SendCQ, a.RecvCQ, a.Blocking
	made.blocks.Store(a.Blocking)
	made.send = queue{vi: made, cq: a.SendCQ, work: v.WorkQueue(false), names: &sendNames}
	made.receive = queue{vi: made, cq: a.RecvCQ, receive: true, work: v.WorkQueue(true), names: &receiveNames}
	for _, q := range []*queue{&made.send, &made.receive} {
		q.arm, q.put = v.Notifier(q.receive), q.enqueue
		q.notifier = newNotifier(n, q.arm)
		q.notDone = made.fail(q.names.done, ErrNotDone, nil)
	}
	made.tie()
	n.mu.Lock()
	n.vis[v.Index] = made
	n.mu.Unlock()
	return made, nil
}

// Index returns the VI's index in the card, for messages.
func (v *VI) Index() int { return v.vi.Index }

func (v *VI) fail(op string, s Status, detail error) error {
	return &Error{Op: op, VI: v, Status: s, Detail: detail}
}

// Destroy removes the VI, which must be idle and have empty queues.
func (v *VI) Destroy(t *host.Thread) error {
	if v == nil {
		return missing("destroy VI", "VI")
	}
	v.mu.Lock()
	left := [...]uint64{v.send.outstanding(), v.receive.outstanding()}
	v.mu.Unlock()
	for i, q := range []*queue{&v.send, &v.receive} {
		if left[i] > 0 {
			return v.fail("destroy VI", ErrResource, fmt.Errorf("%d descriptors are on its %s: disconnect, then take them with %s", left[i], q.names.queue, q.names.take))
		}
	}
	if err := v.vi.Destroy(t); err != nil {
		return translate("destroy VI", v, err)
	}
	v.gone.Store(true)
	v.untie()
	v.send.notifier.cancel()
	v.receive.notifier.cancel()
	err := v.nic.deliver(t)
	v.nic.mu.Lock()
	defer v.nic.mu.Unlock()
	if v.nic.vis[v.vi.Index] == v {
		delete(v.nic.vis, v.vi.Index)
	}
	return err
}

// stale says whether the VI was destroyed, alone or with its NIC handle. Its
// index may belong to another VI by now.
func (v *VI) stale() bool { return v.gone.Load() || v.nic.closed.Load() }

// VIInfo is the result of Query. A queue is empty when all its posted
// descriptors have been reaped.
type VIInfo struct {
	State             layout.VIState
	Attributes        VIAttributes
	SendQueueEmpty    bool
	ReceiveQueueEmpty bool
}

// Query returns the present state of the VI.
func (v *VI) Query(t *host.Thread) (VIInfo, error) {
	if v == nil {
		return VIInfo{}, missing("query VI", "VI")
	}
	s, a, err := v.vi.Query(t)
	if err != nil {
		return VIInfo{}, translate("query VI", v, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return VIInfo{s, v.own(a), v.send.outstanding() == 0, v.receive.outstanding() == 0}, nil
}

// own adds the attributes that only the library knows. The mutex is held.
func (v *VI) own(a driver.VIAttributes) VIAttributes {
	all := attributesOf(a)
	all.SendCQ, all.RecvCQ, all.Blocking = v.send.cq, v.receive.cq, v.blocks.Load()
	return all
}

// SetAttributes changes the attributes of an idle VI. Completion queues cannot
// change: give nil or the present ones.
func (v *VI) SetAttributes(t *host.Thread, a VIAttributes) error {
	if v == nil {
		return missing("set VI attributes", "VI")
	}
	if a.SendCQ != nil && a.SendCQ != v.send.cq || a.RecvCQ != nil && a.RecvCQ != v.receive.cq {
		return v.fail("set VI attributes", ErrInvalidParameter, errors.New("completion queues are given when a VI is created: leave them nil"))
	}
	if err := v.vi.Modify(t, a.driver()); err != nil {
		return translate("set VI attributes", v, err)
	}
	_, got, err := v.vi.Query(t)
	if err != nil {
		return translate("set VI attributes", v, err)
	}
	v.mu.Lock()
	v.blocks.Store(a.Blocking)
	v.attributes = v.own(got)
	v.mu.Unlock()
	return nil
}

// PostSend appends a descriptor to the send queue and rings the doorbell. The
// descriptor and the memory it names belong to the NIC until SendDone or
// SendWait returns it. Its completion, not PostSend, reports errors in its
// contents. On a VI that is not connected it completes as flushed.
func (v *VI) PostSend(t *host.Thread, d *Descriptor) error {
	if v == nil {
		return missing(sendNames.post, "VI")
	}
	return v.send.post(t, d)
}

// SendDone reaps the descriptor at the head of the send queue, or returns
// ErrNotDone if it has not completed. ErrDescriptor with a descriptor means
// that it completed with an error; ErrDescriptor without one, that the queue is
// empty.
func (v *VI) SendDone(t *host.Thread) (*Descriptor, error) {
	if v == nil {
		return nil, missing(sendNames.done, "VI")
	}
	return v.send.done(t)
}

// SendWait is SendDone that waits; ErrTimeout when the timeout comes first.
// ErrResource on a queue that is tied to a completion queue: use CQ.Wait, then
// SendDone.
func (v *VI) SendWait(t *host.Thread, timeout host.Time) (*Descriptor, error) {
	if v == nil {
		return nil, missing(sendNames.wait, "VI")
	}
	return v.send.wait(t, timeout)
}

// PostRecv appends a descriptor to the receive queue, as PostSend does to the
// send queue. On an idle VI it stays queued for the next connection; in the
// error state it completes as flushed.
func (v *VI) PostRecv(t *host.Thread, d *Descriptor) error {
	if v == nil {
		return missing(receiveNames.post, "VI")
	}
	return v.receive.post(t, d)
}

// RecvDone is SendDone for the receive queue.
func (v *VI) RecvDone(t *host.Thread) (*Descriptor, error) {
	if v == nil {
		return nil, missing(receiveNames.done, "VI")
	}
	return v.receive.done(t)
}

// RecvWait is SendWait for the receive queue.
func (v *VI) RecvWait(t *host.Thread, timeout host.Time) (*Descriptor, error) {
	if v == nil {
		return nil, missing(receiveNames.wait, "VI")
	}
	return v.receive.wait(t, timeout)
}

// settle completes what the card never will: a descriptor that the card could
// not read hides all those posted behind it, and breaks the VI. The agent first
// makes sure that the card holds nothing of the VI.
func (v *VI) settle(t *host.Thread) error {
	if s, _ := v.vi.State(); s != ErrorState {
		return nil
	}
	if err := v.vi.Drain(t); err != nil {
		return translate("drain VI", v, err)
	}
	return v.flush(t)
}

// unsettled says whether a VI is broken and has descriptors for settle.
func (v *VI) unsettled() bool {
	if s, _ := v.vi.State(); s != ErrorState {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.send.incomplete() || v.receive.incomplete()
}

// flush completes the unfinished descriptors of both queues in order, and adds
// them to their completion queues. The card must hold nothing of the VI.
func (v *VI) flush(t *host.Thread) error {
	v.mu.Lock()
	var written []mem.Range
	for _, q := range []*queue{&v.receive, &v.send} {
		ranges, n := q.flush()
		written = append(written, ranges...)
		if q.cq != nil && n > 0 {
			written = append(written, q.cq.add(v, q.receive, n))
		}
	}
	v.mu.Unlock()
	// Other threads may wait for these descriptors.
	return translate("flush", v, t.Publish(written...))
}

// Disconnect ends the VI's connection, if it has one: all outstanding
// descriptors complete in order, those not yet processed as flushed, and the VI
// is idle again. The peer's VI goes to the error state and its NIC reports the
// loss. On an idle VI Disconnect only flushes.
func (v *VI) Disconnect(t *host.Thread) error {
	if v == nil {
		return missing("disconnect", "VI")
	}
	if err := v.vi.Disconnect(t); err != nil {
		return translate("disconnect", v, err)
	}
	if err := v.flush(t); err != nil {
		return err
	}
	return v.nic.deliver(t)
}

// ConnectRequest requests a connection from the program that waits at the
// remote address, and returns the attributes of its VI; RemoteRegions then has
// the regions that the peer advertises. Only the remote address selects the
// peer, which receives the local discriminator. Errors: ErrNoMatch at once when
// nobody waits there, ErrNotReachable at once for an address of the own host,
// ErrReject, ErrTimeout. The VI is then idle and ready for another attempt.
func (v *VI) ConnectRequest(t *host.Thread, local, remote NetAddress, timeout host.Time) (VIAttributes, error) {
	if v == nil {
		return VIAttributes{}, missing("connect request", "VI")
	}
	r, err := v.vi.Connect(t, remote.Host, remote.Discriminator, local.Discriminator, timeout)
	if err != nil {
		return VIAttributes{}, translate(fmt.Sprintf("connect request to %v", remote), v, err)
	}
	v.met(remoteRegions(r.Regions))
	return attributesOf(r.Attributes), nil
}

// ConnectionRequest is a request that ConnectWait received: VIP_CONN_HANDLE.
type ConnectionRequest struct {
	RemoteAddress    NetAddress
	RemoteAttributes VIAttributes
	RemoteRegions    []RemoteRegion // advertised by the requester
	nic              *NIC
	request          *driver.Request
}

// ConnectWait waits for a request to the local address; timeout 0 only polls.
// Finish the request with Accept or Reject.
func (n *NIC) ConnectWait(t *host.Thread, local NetAddress, timeout host.Time) (*ConnectionRequest, error) {
	if n == nil {
		return nil, missing("connect wait", "NIC handle")
	}
	r, err := n.host.ConnectWait(t, n.info.ID, local.Discriminator, timeout)
	if err != nil {
		return nil, translate(fmt.Sprintf("connect wait at %v", local), nil, err)
	}
	return &ConnectionRequest{
		RemoteAddress:    NetAddress{Host: r.Remote.Address, Discriminator: r.Remote.Discriminator},
		RemoteAttributes: attributesOf(r.Remote.Attributes), RemoteRegions: remoteRegions(r.Remote.Regions), nic: n, request: r,
	}, nil
}

// Accept connects an idle VI with the requester's. Reliability level and
// largest transfer size must be equal. If not, nothing is sent, and the caller
// may change the VI's attributes and try again, or Reject.
func (c *ConnectionRequest) Accept(t *host.Thread, v *VI) error {
	if c == nil || v == nil {
		return missing("accept connection", "connection request or VI")
	}
	op := fmt.Sprintf("accept connection from %v", c.RemoteAddress)
	if v.nic != c.nic {
		return v.fail(op, ErrInvalidParameter, errors.New("the VI belongs to another NIC handle than the request"))
	}
	if err := c.request.Accept(t, v.vi); err != nil {
		return translate(op, v, err)
	}
	v.met(remoteRegions(c.request.Remote.Regions))
	return nil
}

// Reject rejects the request: the requester gets ErrReject.
func (c *ConnectionRequest) Reject(t *host.Thread) error {
	if c == nil {
		return missing("reject connection", "connection request")
	}
	return translate(fmt.Sprintf("reject connection from %v", c.RemoteAddress), nil, c.request.Reject(t))
}
