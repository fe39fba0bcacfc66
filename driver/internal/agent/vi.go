// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"math/bits"

	"hvia/driver/card"
	"hvia/driver/internal/call"
	"hvia/driver/internal/connect"
	"hvia/host"
	"hvia/layout"
)

// setState changes a VI's state and publishes it to the library. In the error
// state it wakes all waiters, because no completion follows.
func (a *Agent) setState(index int, s layout.VIState) {
	v := &a.vis[index]
	v.state = s
	if s == layout.VIStateError {
		defer a.raiseAll(index, v)
	}
	a.show(v.process, 4*index, (v.process.shown(4*index)>>call.VIEventShift+1)<<call.VIEventShift|uint32(s))
}

func (a *Agent) vi(n *nic, q *call.Request) (*vi, error) {
	if q.Object >= uint32(len(a.vis)) {
		return nil, fmt.Errorf("VI %d, the card has %d: %w", q.Object, len(a.vis), host.ErrInvalidParameter)
	}
	v := &a.vis[q.Object]
	if v.state == layout.VIStateFree || v.created != q.Generation || v.nic != n.id {
		return nil, fmt.Errorf("VI %d is not this handle's (destroyed?): %w", q.Object, host.ErrInvalidParameter)
	}
	return v, nil
}

func (a *Agent) wish(n *nic, q *call.Request) (connect.Attributes, uint16, error) {
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
		return w, t, fmt.Errorf("reliability %#x, the card offers mask %#x: %w", w.Reliability, a.device.identity().Reliability, connect.ErrReliability)
	case w.MaxTransferSize > MaxTransferSize:
		return w, t, fmt.Errorf("max transfer size %d, at most %d: %w", w.MaxTransferSize, MaxTransferSize, connect.ErrTransferSize)
	}
	if err := a.rights(w.Rights); err != nil {
		return w, t, err
	}
	if allowsRead(w.Rights) && w.Reliability == uint8(layout.ReliabilityUnreliable) {
		return w, t, fmt.Errorf("RDMA read at the unreliable level, it needs a reliable one: %w", call.ErrUnsupported)
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
	if allowsWrite(v.attributes.Rights) {
		attributes |= layout.VIContextAttributesEnableRDMAWriteMask
	}
	if allowsRead(v.attributes.Rights) {
		attributes |= layout.VIContextAttributesEnableRDMAReadMask
	}
	payload.SetSendCompletionQueue(v.queues[layout.NotifyKindSend])
	payload.SetReceiveCompletionQueue(v.queues[layout.NotifyKindReceive])
	payload.SetAttributes(attributes)
	payload.SetMaxTransferSize(v.attributes.MaxTransferSize)
}

func (a *Agent) createVI(n *nic, q *call.Request, r *call.Reply) error {
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

func (a *Agent) destroyVI(index int, v *vi) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("VI %d is %v, disconnect it first: %w", index, v.state, card.ErrState)
	}
	if grant := v.process.grant; grant != nil {
		// The page is revoked before the card destroys the VI, so that a later
		// doorbell is a violation. A process that has ended has no doorbells.
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

func (a *Agent) modifyVI(n *nic, index int, v *vi, q *call.Request) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("VI %d is %v, attributes change only while it is idle: %w", index, v.state, card.ErrState)
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
func (a *Agent) disconnect(index int, v *vi) error {
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
func (a *Agent) leave(index int) error {
	if a.engine.Disconnect(a.now(), index) && a.vis[index].state == layout.VIStateConnected {
		return a.fatal // the engine had the card disconnect it
	}
	if a.fatal != nil {
		return a.fatal
	}
	return a.device.viCommand(layout.CommandOpcodeDisconnectVI, index, nil)
}

// drain waits until the card holds no work of a VI that is not connected.
func (a *Agent) drain(index int) error {
	if s := a.vis[index].state; s != layout.VIStateIdle && s != layout.VIStateError {
		return fmt.Errorf("VI %d is %v: %w", index, s, card.ErrState)
	}
	return a.device.viCommand(layout.CommandOpcodeDisconnectVI, index, nil)
}

// fail breaks a VI: it is disconnected, and unusable until the program calls
// Disconnect. A reliable connection is lost with it.
func (a *Agent) fail(index int) {
	v := &a.vis[index]
	if v.state == layout.VIStateFree || v.state == layout.VIStateError {
		return
	}
	linger := int64(a.settings.linger)
	if !a.thread.Timed() {
		linger *= freeLinger
	}
	if v.reliable() && a.engine.Break(a.now(), index, linger) {
		// The card has stopped the VI but not flushed its posts.
		a.Disconnect(index)
		a.setState(index, layout.VIStateError)
		a.lose(index)
		return
	}
	a.note("disconnect", a.leave(index))
	a.setState(index, layout.VIStateError)
}

// lose reports to the program that a VI has lost its connection, once for each.
func (a *Agent) lose(index int) {
	v := &a.vis[index]
	if v.lost {
		return
	}
	v.lost = true
	a.report(a.nics[v.nic], call.AsyncError{Code: layout.AsyncErrorConnectionLost, VI: index, Generation: v.created})
}

func (v *vi) reliable() bool { return v.attributes.Reliability != uint8(layout.ReliabilityUnreliable) }

// endpoint prepares a VI for a connection. The VI gets a new number, so that
// frames of its last connection cannot pass for frames of the next.
func (a *Agent) endpoint(index int) connect.Endpoint {
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
func (a *Agent) offerRegions(n *nic, index int, v *vi, q *call.Request) error {
	if v.state != layout.VIStateIdle {
		return fmt.Errorf("VI %d is %v, regions are offered while it is idle: %w", index, v.state, card.ErrState)
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

func (a *Agent) deadline(timeout int64) int64 {
	now := a.now()
	if timeout < 0 || timeout > connect.Never-now-1 {
		return connect.Never
	}
	return now + timeout
}

func (a *Agent) connectWait(p *process, from host.ThreadID, q *call.Request) error {
	if _, err := a.nic(p, q.NIC); err != nil {
		return err
	}
	a.engine.Wait(q.NIC, q.AskedText(), a.deadline(q.Timeout), func(in connect.Incoming, err error) {
		r := call.Reply{Object: in.ID, Peer: in.Peer, OwnLength: uint8(len(in.Discriminator))}
		r.SetTheirs(in.Attributes)
		copy(r.Own[:], in.Discriminator)
		a.answer(from, q, &r, err)
	})
	return nil
}

// idle returns the index of a VI that may be connected.
func (a *Agent) idle(p *process, q *call.Request) (int, error) {
	n, err := a.nic(p, q.NIC)
	if err != nil {
		return 0, err
	}
	v, err := a.vi(n, q)
	if err != nil {
		return 0, err
	}
	if v.state != layout.VIStateIdle {
		return 0, fmt.Errorf("VI %d is %v, not idle: %w", q.Object, v.state, card.ErrState)
	}
	return int(q.Object), nil
}

// requestOf rejects a connection request that another process received.
func (a *Agent) requestOf(p *process, id uint32) error {
	if owner, ok := a.engine.Waiter(id); ok {
		if n := a.nics[owner]; n != nil && n.process != p {
			return fmt.Errorf("request %d: %w", id, connect.ErrUnknown)
		}
	}
	return nil
}

func (a *Agent) reject(p *process, id uint32) error {
	if err := a.requestOf(p, id); err != nil {
		return err
	}
	return a.engine.Reject(id)
}

func (a *Agent) accept(p *process, from host.ThreadID, q *call.Request) error {
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

func (a *Agent) connectRequest(p *process, from host.ThreadID, q *call.Request) error {
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
	a.engine.Request(a.now(), a.endpoint(index), false, layout.MAC(q.Peer), q.AskedText(), q.OwnText(), a.deadline(q.Timeout),
		func(theirs connect.Attributes, err error) { a.connected(from, q, index, theirs, err) })
	return nil
}

// elsewhere rejects this node's address: a card sends no frames to itself.
func (a *Agent) elsewhere(q *call.Request) error {
	if layout.MAC(q.Peer) == a.mac {
		return fmt.Errorf("%v is this node's own card, VIs of one node cannot be connected with each other: %w", a.mac, call.ErrNotReachable)
	}
	return nil
}

func (a *Agent) peerRequest(p *process, q *call.Request) error {
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
	a.engine.Request(a.now(), a.endpoint(index), true, layout.MAC(q.Peer), q.AskedText(), q.OwnText(), a.deadline(q.Timeout),
		func(theirs connect.Attributes, err error) { a.peerEnded(index, attempt, theirs, err) })
	return nil
}

func (a *Agent) peerEnded(index int, p *peerAttempt, theirs connect.Attributes, err error) {
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
		var r call.Reply
		a.answer(w.from, &w.q, &r, p.result(index, &r))
	}
}

func (p *peerAttempt) result(index int, r *call.Reply) error {
	r.Object = uint32(index)
	r.SetTheirs(p.theirs)
	if p.err != nil {
		return fmt.Errorf("VI %d: %w", index, p.err)
	}
	return nil
}

// peerResult returns the result of a VI's last request for a peer-to-peer
// connection.
func (v *vi) peerResult(index int, r *call.Reply) error {
	switch {
	case v.peer == nil:
		return fmt.Errorf("VI %d is %v and has asked for no peer-to-peer connection: %w", index, v.state, card.ErrState)
	case !v.peer.done:
		return fmt.Errorf("VI %d: the peer has not answered: %w", index, call.ErrNotDone)
	}
	return v.peer.result(index, r)
}

// peerWait replies with peerResult when there is a result.
func (a *Agent) peerWait(p *process, from host.ThreadID, q *call.Request) error {
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
	var r call.Reply
	a.answer(from, q, &r, v.peerResult(int(q.Object), &r))
	return nil
}

func (a *Agent) connected(from host.ThreadID, q *call.Request, index int, theirs connect.Attributes, err error) {
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
	r := call.Reply{Object: uint32(index)}
	r.SetTheirs(theirs)
	a.answer(from, q, &r, err)
}

// The methods below implement connect.Owner.

var _ connect.Owner = (*Agent)(nil)

func (a *Agent) Send(frame []byte) {
	if a.fatal == nil {
		a.broken(a.device.send(frame))
	}
}

func (a *Agent) Connect(e connect.Endpoint, l connect.Link) error {
	v := &a.vis[e.Index]
	if v.state != layout.VIStateConnectPending {
		return fmt.Errorf("VI %d is %v: %w", e.Index, v.state, card.ErrState)
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

func (a *Agent) Disconnect(index int) {
	if a.fatal == nil {
		a.note("disconnect", a.device.viCommand(layout.CommandOpcodeDisconnectVI, index, nil))
	}
}

func (a *Agent) Lost(index int) {
	a.setState(index, layout.VIStateError)
	a.lose(index)
}
