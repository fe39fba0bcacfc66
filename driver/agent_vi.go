// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"fmt"
	"math/bits"

	"hvia/driver/internal/connect"
	"hvia/host"
	"hvia/layout"
)

// setState changes a VI's state and publishes it to the library. In the error
// state it wakes all waiters, because no completion follows.
func (a *agent) setState(index int, s layout.VIState) {
	v := &a.vis[index]
	v.state = s
	if s == layout.VIStateError {
		defer a.raiseAll(index, v)
	}
	a.show(v.process, 4*index, (v.process.shown(4*index)>>viEventShift+1)<<viEventShift|uint32(s))
}

func (a *agent) vi(n *nic, q *request) (*vi, error) {
	if q.Object >= uint32(len(a.vis)) {
		return nil, fmt.Errorf("VI %d, the card has %d: %w", q.Object, len(a.vis), host.ErrInvalidParameter)
	}
	v := &a.vis[q.Object]
	if v.state == layout.VIStateFree || v.created != q.Generation || v.nic != n.id {
		return nil, fmt.Errorf("VI %d is not this handle's (destroyed?): %w", q.Object, host.ErrInvalidParameter)
	}
	return v, nil
}

func (a *agent) wish(n *nic, q *request) (connect.Attributes, uint16, error) {
	w := connect.Attributes{Reliability: q.Reliability, Rights: q.Rights, MaxTransferSize: q.MaxTransferSize}
	if w.MaxTransferSize == 0 {
		w.MaxTransferSize = MaxTransferSize
	}
	if w.Reliability == 0 {
		w.Reliability = uint8(layout.ReliabilityUnreliable)
	}
	t := q.Tag
	if t == 0 {
		t = n.tag
	}
	switch {
	case bits.OnesCount8(w.Reliability) != 1 || w.Reliability&a.device.identity().Reliability == 0:
		return w, t, fmt.Errorf("reliability %#x, the card offers mask %#x: %w", w.Reliability, a.device.identity().Reliability, ErrReliability)
	case w.MaxTransferSize > MaxTransferSize:
		return w, t, fmt.Errorf("max transfer size %d, at most %d: %w", w.MaxTransferSize, MaxTransferSize, ErrTransferSize)
	}
	if err := a.rights(w.Rights); err != nil {
		return w, t, err
	}
	if w.Rights&layout.ConnectionFrameRightsRDMAReadMask != 0 && w.Reliability == uint8(layout.ReliabilityUnreliable) {
		return w, t, fmt.Errorf("RDMA read at the unreliable level, it needs a reliable one: %w", ErrUnsupported)
	}
	if _, err := a.tag(n, t); err != nil {
		return w, t, err
	}
	return w, t, nil
}

func (v *vi) context(payload layout.VIContext, state layout.VIState) {
	attributes := uint32(state)<<layout.VIContextAttributesStateLsb |
		uint32(v.attributes.Reliability)<<layout.VIContextAttributesReliabilityLsb |
		v.generation<<layout.VIContextAttributesGenerationLsb&layout.VIContextAttributesGenerationMask |
		uint32(v.tag)<<layout.VIContextAttributesTagLsb
	if v.attributes.Rights&layout.ConnectionFrameRightsRDMAWriteMask != 0 {
		attributes |= layout.VIContextAttributesEnableRDMAWriteMask
	}
	if v.attributes.Rights&layout.ConnectionFrameRightsRDMAReadMask != 0 {
		attributes |= layout.VIContextAttributesEnableRDMAReadMask
	}
	payload.SetSendCompletionQueue(v.queues[layout.NotifyKindSend])
	payload.SetReceiveCompletionQueue(v.queues[layout.NotifyKindReceive])
	payload.SetAttributes(attributes)
	payload.SetMaxTransferSize(v.attributes.MaxTransferSize)
}

func (a *agent) createVI(n *nic, q *request, r *reply) error {
	w, t, err := a.wish(n, q)
	if err != nil {
		return err
	}
	if err := n.process.uses.vis.check(n.process); err != nil {
		return err
	}
	queues := [2]uint8{q.SendQueue, q.ReceiveQueue}
	for _, k := range queues {
		if k > 0 && (int(k) > len(a.cqs) || a.cqs[k-1].nic != n.id) {
			return fmt.Errorf("completion queue %d is not this NIC handle's (destroyed?): %w", k-1, host.ErrInvalidParameter)
		}
	}
	index := -1
	for i := range a.vis {
		if a.vis[i].state == layout.VIStateFree {
			index = i
			break
		}
	}
	if index < 0 {
		return fmt.Errorf("all %d VIs of the card are in use: %w", len(a.vis), host.ErrResource)
	}
	v := &a.vis[index]
	v.generation++
	v.process, v.created, v.nic, v.tag, v.attributes = n.process, v.generation, n.id, t, w
	v.queues, v.armed, v.lost, v.offers, v.peer = queues, [2]bool{}, false, nil, nil
	if err := a.device.viCommand(layout.CommandOpcodeCreateVI, index, func(c layout.VIContext) { v.context(c, layout.VIStateIdle) }); err != nil {
		return err
	}
	if grant := n.process.grant; grant != nil {
		if err := grant(index, true); err != nil {
			a.note("destroy", a.device.viCommand(layout.CommandOpcodeDestroyVI, index, nil))
			return fmt.Errorf("doorbells of VI %d: %w: %w", index, err, host.ErrResource)
		}
	}
	a.tags[t].uses++
	n.process.uses.vis.count++
	a.tie(queues, 1)
	a.setState(index, layout.VIStateIdle)
	r.Object, r.Generation, r.Tag = uint32(index), v.created, t
	r.MaxTransferSize, r.Rights, r.Reliability = w.MaxTransferSize, w.Rights, w.Reliability
	return nil
}

func (a *agent) destroyVI(index int, v *vi) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("VI %d is %v, disconnect it first: %w", index, v.state, ErrState)
	}
	if grant := v.process.grant; grant != nil {
		// Revoked before the card forgets the VI: a later doorbell is a
		// violation by the process. A process that is gone has no doorbells.
		if err := grant(index, false); err != nil && !v.process.ended {
			return fmt.Errorf("doorbells of VI %d: %w: %w", index, err, host.ErrResource)
		}
	}
	if err := a.device.viCommand(layout.CommandOpcodeDestroyVI, index, nil); err != nil {
		return err
	}
	if k := a.tags[v.tag]; k != nil {
		k.uses--
	}
	v.process.uses.vis.count--
	a.tie(v.queues, -1)
	a.setState(index, layout.VIStateFree)
	a.forgetErrors(a.nics[v.nic], v, index)
	// Queued errors of this VI must not be attributed to the next VI with its
	// index.
	return a.asyncErrors()
}

func (a *agent) modifyVI(n *nic, index int, v *vi, q *request) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("VI %d is %v, attributes change only while it is idle: %w", index, v.state, ErrState)
	}
	w, t, err := a.wish(n, q)
	if err != nil {
		return err
	}
	old := *v
	v.attributes, v.tag = w, t
	if err := a.device.viCommand(layout.CommandOpcodeModifyVI, index, func(c layout.VIContext) { v.context(c, layout.VIStateIdle) }); err != nil {
		*v = old
		return err
	}
	if k := a.tags[old.tag]; k != nil {
		k.uses--
	}
	a.tags[t].uses++
	return nil
}

// disconnect makes a VI idle from any state.
func (a *agent) disconnect(index int, v *vi) error {
	if err := a.leave(index); err != nil {
		return err
	}
	// Errors of this connection are handled now: later they would break the
	// next one.
	if err := a.asyncErrors(); err != nil {
		return err
	}
	if v.state != layout.VIStateIdle {
		a.setState(index, layout.VIStateIdle)
	}
	v.peer = nil
	return nil
}

// leave ends a VI's connection, if it has one, and has the card flush what was
// posted on it, connected or not.
func (a *agent) leave(index int) error {
	if a.engine.Disconnect(a.now(), index) && a.vis[index].state == layout.VIStateConnected {
		return a.fatal // the engine had the card disconnect it
	}
	if a.fatal != nil {
		return a.fatal
	}
	return a.device.viCommand(layout.CommandOpcodeDisconnectVI, index, nil)
}

// drain waits until the card holds no work of a VI that is not connected.
func (a *agent) drain(index int) error {
	if s := a.vis[index].state; s != layout.VIStateIdle && s != layout.VIStateError {
		return fmt.Errorf("VI %d is %v: %w", index, s, ErrState)
	}
	return a.device.viCommand(layout.CommandOpcodeDisconnectVI, index, nil)
}

// fail breaks a VI: it is disconnected, and unusable until the program calls
// Disconnect. A reliable connection is lost with it.
func (a *agent) fail(index int) {
	v := &a.vis[index]
	if v.state == layout.VIStateFree || v.state == layout.VIStateError {
		return
	}
	linger := int64(a.settings.linger)
	if !a.thread.Timed() {
		linger *= freeLinger
	}
	if v.reliable() && a.engine.Break(a.now(), index, linger) {
		// The card stops work on it, and has not flushed what was posted.
		a.Disconnect(index)
		a.setState(index, layout.VIStateError)
		a.lose(index)
		return
	}
	a.note("disconnect", a.leave(index))
	a.setState(index, layout.VIStateError)
}

// lose reports to the program that a VI has lost its connection, once for each.
func (a *agent) lose(index int) {
	v := &a.vis[index]
	if v.lost {
		return
	}
	v.lost = true
	a.report(a.nics[v.nic], AsyncError{Code: layout.AsyncErrorConnectionLost, VI: index, Generation: v.created})
}

func (v *vi) reliable() bool { return v.attributes.Reliability != uint8(layout.ReliabilityUnreliable) }

// endpoint prepares a VI for a connection. The VI gets a new number, so that
// frames of its last connection cannot pass for frames of the next.
func (a *agent) endpoint(index int) connect.Endpoint {
	v := &a.vis[index]
	v.generation++
	v.lost = false
	attributes := v.attributes
	attributes.Regions = v.offers
	return connect.Endpoint{
		Offer: a.settings.offer,
		Index: index, Number: uint16(v.generation<<8 | uint32(index)), Sequence: uint32(a.random.Next()), Attributes: attributes,
	}
}

// offerRegions records the regions that a VI advertises to its next peers,
// instead of earlier ones. Only their present registration is checked; the
// peer's accesses are checked when they arrive.
func (a *agent) offerRegions(n *nic, index int, v *vi, q *request) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("VI %d is %v, regions are offered while it is idle: %w", index, v.state, ErrState)
	}
	var offers []connect.Region
	for _, h := range q.Handles[:q.Offers] {
		g := n.regions[h]
		if g == nil {
			return fmt.Errorf("no region with handle %#x (deregistered, or another NIC handle's): %w", h, host.ErrInvalidParameter)
		}
		offers = append(offers, connect.Region{Address: g.address, Length: g.length, Handle: h, Rights: g.rights})
	}
	v.offers = offers
	return nil
}

// theirs fills in the attributes that the other end of a connection reports.
func (r *reply) theirs(t connect.Attributes) {
	r.MaxTransferSize, r.Rights, r.Reliability = t.MaxTransferSize, t.Rights, t.Reliability
	r.Offers = uint8(len(t.Regions))
	for i, g := range t.Regions {
		r.Regions[i] = offered{Address: g.Address, Length: g.Length, Handle: g.Handle, Rights: g.Rights}
	}
}

func (a *agent) deadline(timeout int64) int64 {
	now := a.now()
	if timeout < 0 || timeout > connect.Never-now-1 {
		return connect.Never
	}
	return now + timeout
}

func (a *agent) connectWait(p *process, from host.ThreadID, q *request) error {
	if _, err := a.nic(p, q.NIC); err != nil {
		return err
	}
	a.engine.Wait(q.NIC, q.asked(), a.deadline(q.Timeout), func(in connect.Incoming, err error) {
		r := reply{Object: in.ID, Peer: in.Peer, OwnLength: uint8(len(in.Discriminator))}
		r.theirs(in.Attributes)
		copy(r.Own[:], in.Discriminator)
		a.answer(from, q, &r, err)
	})
	return nil
}

// idle returns the index of a VI that may be connected.
func (a *agent) idle(p *process, q *request) (int, error) {
	n, err := a.nic(p, q.NIC)
	if err != nil {
		return 0, err
	}
	v, err := a.vi(n, q)
	if err != nil {
		return 0, err
	}
	if v.state != layout.VIStateIdle {
		return 0, fmt.Errorf("VI %d is %v, not idle: %w", q.Object, v.state, ErrState)
	}
	return int(q.Object), nil
}

// requestOf rejects a connection request that another process received.
func (a *agent) requestOf(p *process, id uint32) error {
	if owner, ok := a.engine.Waiter(id); ok {
		if n := a.nics[owner]; n != nil && n.process != p {
			return fmt.Errorf("request %d: %w", id, ErrNoRequest)
		}
	}
	return nil
}

func (a *agent) accept(p *process, from host.ThreadID, q *request) error {
	index, err := a.idle(p, q)
	if err != nil {
		return err
	}
	if err := a.requestOf(p, uint32(q.Length)); err != nil {
		return err
	}
	a.setState(index, layout.VIStateConnectPending)
	a.engine.Accept(a.now(), uint32(q.Length), a.endpoint(index), func(err error) { a.connected(from, q, index, connect.Attributes{}, err) })
	return nil
}

func (a *agent) connectRequest(p *process, from host.ThreadID, q *request) error {
	if q.Timeout == 0 {
		return fmt.Errorf("timeout 0: %w", host.ErrInvalidParameter)
	}
	index, err := a.idle(p, q)
	if err != nil {
		return err
	}
	if err := a.elsewhere(q); err != nil {
		return fmt.Errorf("VI %d: %w", index, err)
	}
	a.setState(index, layout.VIStateConnectPending)
	a.engine.Request(a.now(), a.endpoint(index), layout.MAC(q.Peer), q.asked(), q.own(), a.deadline(q.Timeout),
		func(theirs connect.Attributes, err error) { a.connected(from, q, index, theirs, err) })
	return nil
}

// elsewhere rejects the node's own address: a card sends no frames to itself.
func (a *agent) elsewhere(q *request) error {
	if layout.MAC(q.Peer) == a.mac {
		return fmt.Errorf("%v is this node's own card, VIs of one node cannot be connected with each other: %w", a.mac, ErrNotReachable)
	}
	return nil
}

func (a *agent) peerRequest(p *process, q *request) error {
	if q.Timeout == 0 {
		return fmt.Errorf("timeout 0: %w", host.ErrInvalidParameter)
	}
	index, err := a.idle(p, q)
	if err != nil {
		return err
	}
	attempt := &peerAttempt{}
	a.vis[index].peer = attempt
	if err := a.elsewhere(q); err != nil {
		a.peerEnded(index, attempt, connect.Attributes{}, err)
		return nil
	}
	a.setState(index, layout.VIStateConnectPending)
	a.engine.RequestPeer(a.now(), a.endpoint(index), layout.MAC(q.Peer), q.asked(), q.own(), a.deadline(q.Timeout),
		func(theirs connect.Attributes, err error) { a.peerEnded(index, attempt, theirs, err) })
	return nil
}

func (a *agent) peerEnded(index int, p *peerAttempt, theirs connect.Attributes, err error) {
	v := &a.vis[index]
	if v.peer == p && v.state == layout.VIStateConnectPending {
		if err == nil {
			a.setState(index, layout.VIStateConnected)
		} else {
			a.setState(index, layout.VIStateIdle)
		}
	}
	p.done, p.theirs, p.err = true, theirs, err
	waiting := p.waiting
	p.waiting = nil
	for _, w := range waiting {
		var r reply
		a.answer(w.from, &w.q, &r, p.result(index, &r))
	}
}

func (p *peerAttempt) result(index int, r *reply) error {
	r.Object = uint32(index)
	r.theirs(p.theirs)
	if p.err != nil {
		return fmt.Errorf("VI %d: %w", index, p.err)
	}
	return nil
}

// peerResult returns the result of a VI's last request for a peer-to-peer
// connection.
func (v *vi) peerResult(index int, r *reply) error {
	switch {
	case v.peer == nil:
		return fmt.Errorf("VI %d is %v and has asked for no peer-to-peer connection: %w", index, v.state, ErrState)
	case !v.peer.done:
		return fmt.Errorf("VI %d: the peer has not answered: %w", index, ErrNotDone)
	}
	return v.peer.result(index, r)
}

// peerWait replies with peerResult when there is a result.
func (a *agent) peerWait(p *process, from host.ThreadID, q *request) error {
	n, err := a.nic(p, q.NIC)
	if err != nil {
		return err
	}
	v, err := a.vi(n, q)
	if err != nil {
		return err
	}
	if v.peer != nil && !v.peer.done {
		v.peer.waiting = append(v.peer.waiting, waitingThread{from, *q})
		return nil
	}
	var r reply
	a.answer(from, q, &r, v.peerResult(int(q.Object), &r))
	return nil
}

func (a *agent) connected(from host.ThreadID, q *request, index int, theirs connect.Attributes, err error) {
	if a.vis[index].state == layout.VIStateConnectPending {
		if err == nil {
			a.setState(index, layout.VIStateConnected)
		} else {
			a.setState(index, layout.VIStateIdle)
		}
	}
	if err != nil {
		err = fmt.Errorf("VI %d: %w", index, err)
	}
	r := reply{Object: uint32(index)}
	r.theirs(theirs)
	a.answer(from, q, &r, err)
}

// The methods below implement connect.Owner.

var _ connect.Owner = (*agent)(nil)

func (a *agent) Send(frame []byte) {
	if a.fatal == nil {
		a.broken(a.device.send(frame))
	}
}

func (a *agent) Connect(e connect.Endpoint, l connect.Link) error {
	v := &a.vis[e.Index]
	if v.state != layout.VIStateConnectPending {
		return fmt.Errorf("VI %d is %v: %w", e.Index, v.state, ErrState)
	}
	return a.device.viCommand(layout.CommandOpcodeConnectVI, e.Index, func(c layout.VIContext) {
		v.context(c, layout.VIStateConnected)
		copy(c.PeerMac(), l.Peer[:])
		c.SetPeerVI(l.PeerNumber)
		c.SetSendSequence(l.SendSequence)
		c.SetReceiveSequence(l.ReceiveSequence)
		if v.reliable() {
			c.SetWindow(l.Agreed.Window)
			c.SetReadLimit(l.Agreed.ReadLimit)
			c.SetRetryLimit(a.settings.retryLimit)
			c.SetRetryTimeoutLog2(a.settings.timeoutLog2)
		}
	})
}

func (a *agent) Disconnect(index int) {
	if a.fatal == nil {
		a.note("disconnect", a.device.viCommand(layout.CommandOpcodeDisconnectVI, index, nil))
	}
}

func (a *agent) Lost(index int) {
	a.setState(index, layout.VIStateError)
	a.lose(index)
}
