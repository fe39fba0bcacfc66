// SPDX-License-Identifier: Apache-2.0

// Package agent is the kernel agent of a node. It drives the card, or
// implements VIA over a plain NIC, and serves the requests of package call.
package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hvia/att"
	"hvia/driver/card"
	"hvia/driver/internal/call"
	"hvia/driver/internal/connect"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim/bridge"
)

// Agent is the kernel agent of one node: it owns the card, its table of regions
// and its VIs, and serves requests one after another. It runs on the node's
// thread of rank 0, in one goroutine.
type Agent struct {
	thread  *host.Thread
	memory  *mem.Memory
	device  device
	costs   host.CostModel
	log     *slog.Logger
	mac     layout.MAC
	engine  *connect.Engine
	started time.Time // free mode's clock

	table    *att.Table
	nics     map[uint32]*nic
	nextNIC  uint32
	tags     map[uint16]*tag
	nextTag  uint16
	vis      []vi
	cqs      []cq
	settings transport
	quota    Quota                                     // of each process
	random   host.SplitMix                             // initial sequence numbers
	frames   int                                       // of the node
	programs int                                       // programs that have not left
	resident bool                                      // runs on without programs
	offers   [call.ReplySlots]atomic.Pointer[Protocol] // of the threads that call AttachProtocol
	config   Config
	client   call.Client // the programs of this process, unless the agent is resident
	fatal    error

	mu        sync.Mutex // guards the fields below, which the owner of a resident agent uses too
	processes []*process
	reclaimed map[int]chan struct{} // by process, closed when it is reclaimed
	snapshot  atomic.Pointer[Status]
}

type nic struct {
	process *process
	id      uint32
	tag     uint16
	regions map[uint32]*region
	errors  []queuedError
}

type vi struct {
	process    *process
	state      layout.VIState
	lost       bool     // the loss of this connection, or the last one, was reported to the program
	queues     [2]uint8 // completion queues of send and receive queue: number plus one, 0 = none
	armed      [2]bool  // a thread may wait for a notification of the send or receive queue
	generation uint32   // counts creations and connections; frames carry its low 8 bits
	created    uint32   // generation at creation, part of the library's handle
	nic        uint32
	tag        uint16
	attributes connect.Attributes
	offers     []connect.Region // for the peer of the next connection
	peer       *peerAttempt     // the last request for a peer-to-peer connection
}

// peerAttempt is a request for a peer-to-peer connection and its result.
type peerAttempt struct {
	done    bool
	theirs  connect.Attributes
	err     error
	waiting []waitingThread
}

type waitingThread struct {
	from host.ThreadID
	q    call.Request
}

func (a *Agent) now() int64 {
	if a.thread.Timed() {
		return int64(a.thread.Now())
	}
	return time.Since(a.started).Nanoseconds() * int64(host.Nanosecond)
}

func (a *Agent) start(regions int) error {
	if err := a.device.open(); err != nil {
		return err
	}
	var err error
	if a.table, err = att.NewSmallTable(uint32(regions), a.device.level2Entries()); err != nil {
		return fmt.Errorf("driver: %w: %w", err, host.ErrInvalidParameter)
	}
	if err := a.device.start(); err != nil {
		return err
	}
	a.vis = make([]vi, a.device.identity().VICount)
	for i := range a.vis {
		a.vis[i].state = layout.VIStateFree
	}
	if len(a.vis) > call.StatusVIs {
		return fmt.Errorf("driver: a card with %d VIs, the status page has %d: %w", len(a.vis), call.StatusVIs, host.ErrResource)
	}
	a.cqs = make([]cq, a.device.identity().CompletionQueues)
	if len(a.cqs) > call.StatusCQs {
		return fmt.Errorf("driver: a card with %d completion queues, the status page has %d: %w", len(a.cqs), call.StatusCQs, host.ErrResource)
	}
	cookie := a.random
	cookie ^= host.SplitMix(a.now())
	timing := connect.DefaultTiming
	if !a.thread.Timed() {
		// The simulated fabric is far slower than a real one in wall time.
		timing.First, timing.Limit = int64(50*host.Millisecond), int64(host.Second)
	}
	a.engine = connect.New(a.mac, cookie.Next(), timing, a)
	return nil
}

// serve runs until all programs have left and no connection work remains.
// Before it returns, also with an error, it replies to the requests in the
// mailbox.
func (a *Agent) serve() error {
	err := a.loop()
	if err == nil {
		err = a.close()
	}
	if err != nil {
		a.refuse(err)
	}
	return err
}

func (a *Agent) loop() error {
	a.snap()
	for a.programs > 0 {
		if err := a.step(); err != nil {
			return err
		}
		a.snap()
	}
	return nil
}

func (a *Agent) step() error {
	timeout := host.Never
	if next := min(a.engine.Next(), int64(a.device.deadline())); next != connect.Never {
		timeout = host.Time(max(next-a.now(), 0))
	}
	wake, err := a.thread.WaitEvent(timeout)
	if err != nil {
		return err
	}
	switch wake.Reason {
	case layout.BridgeReasonMessage:
		a.message(host.ThreadID{Node: wake.Node, Rank: wake.Rank}, wake.Message)
	case layout.BridgeReasonInterrupt:
		if err := a.interrupt(); err != nil {
			return err
		}
	}
	if a.fatal == nil {
		a.engine.Tick(a.now())
	}
	if a.fatal == nil {
		a.broken(a.device.tick())
	}
	return a.fatal
}

// broken records an error after which the agent cannot continue: the run is
// over, or the card is dead.
func (a *Agent) broken(err error) {
	if err != nil && a.fatal == nil {
		a.fatal = err
	}
}

// close destroys everything that programs left behind.
func (a *Agent) close() error {
	for _, id := range slices.Sorted(maps.Keys(a.nics)) {
		a.closeNIC(a.nics[id])
	}
	for a.fatal == nil && !a.engine.Quiet() {
		if err := a.step(); err != nil {
			return err
		}
	}
	if a.fatal != nil {
		return a.fatal
	}
	return a.device.stop()
}

// Replies to the requests in the mailbox.
func (a *Agent) refuse(why error) {
	for {
		m, ok, err := a.thread.Receive(0)
		if err != nil || !ok {
			return
		}
		if q, err := call.Decode(m.Data); err == nil && q.Op != call.OpBye && q.Op != call.OpAttend {
			a.reply(m.From, q.ID, &call.Reply{}, fmt.Errorf("driver: %v: the agent of node %d has ended: %w: %w", q.Op, a.thread.ID().Node, why, host.ErrClosed))
		}
	}
}

func (a *Agent) reply(to host.ThreadID, id uint32, r *call.Reply, err error) {
	p := a.processOf(to)
	if p == nil || p.ended {
		return // no thread waits for it any more
	}
	offset := p.Slot(to.Rank)
	call.PutReply(p.Replies.Bytes()[offset:offset+call.ReplySlot], id, r, err)
	if err != nil {
		a.log.Debug("rejected", "thread", to, "error", err)
	}
	a.broken(a.thread.Publish(p.Replies.Physical(nil, offset, call.ReplySlot)...))
}

func (a *Agent) message(from host.ThreadID, data []byte) {
	p, owner := a.processOf(from), from == host.ThreadID{Node: a.thread.ID().Node, Rank: ServiceRank}
	if !owner && (p == nil || p.ended) {
		a.log.Warn("dropped a request of a thread that is not this agent's, or not any more", "thread", from)
		return
	}
	q, err := call.Decode(data)
	if err != nil {
		// Its ID, if any, cannot be trusted.
		a.log.Warn("dropped a malformed request", "thread", from, "error", err)
		return
	}
	a.log.Debug("request", "thread", from, "operation", q.Op.String())
	if owner {
		a.order(&q)
		return
	}
	var r call.Reply
	switch q.Op {
	case call.OpBye:
		if !a.resident {
			a.programs--
		}
		return
	case call.OpLeave:
		if !a.resident { // the agent serves only this process
			a.answer(from, &q, &r, fmt.Errorf("the agent is its own: %w", call.ErrUnsupported))
			return
		}
		a.takeBack(p)
		a.snap() // visible before the reply is
		a.answer(from, &q, &r, nil)
		a.mu.Lock()
		p.left = true
		a.mu.Unlock()
		p.ended = true
		return
	case call.OpAttend: // the work follows at the end of each step
		return
	case call.OpAttach:
		err = a.attach(from)
		a.answer(from, &q, &r, err)
		return
	case call.OpConnectWait:
		err = a.connectWait(p, from, &q)
	case call.OpAccept:
		err = a.accept(p, from, &q)
	case call.OpConnectRequest:
		err = a.connectRequest(p, from, &q)
	case call.OpPeerWait:
		err = a.peerWait(p, from, &q)
	default:
		err = a.request(p, &q, &r)
		a.answer(from, &q, &r, err)
		return
	}
	if err != nil { // else the reply comes later
		a.answer(from, &q, &r, err)
	}
}

func (a *Agent) answer(from host.ThreadID, q *call.Request, r *call.Reply, err error) {
	var refused *card.CommandError
	if err != nil && !errors.As(err, &refused) && failed(err) {
		a.broken(err)
	}
	if err != nil {
		err = fmt.Errorf("driver: %v: %w", q.Op, err)
	}
	a.reply(from, q.ID, r, err)
}

func failed(err error) bool {
	var stop *bridge.StopError
	return errors.As(err, &stop) || errors.Is(err, card.ErrDeadline) || errors.Is(err, bridge.ErrAborted) || errors.Is(err, host.ErrThreadDetached)
}

func (a *Agent) request(p *process, q *call.Request, r *call.Reply) error {
	switch q.Op {
	case call.OpAllocate:
		return p.allocate(q, r)
	case call.OpFree:
		return p.free(q)
	case call.OpOpenNIC:
		return a.openNIC(p, r)
	}
	n, err := a.nic(p, q.NIC)
	if err != nil {
		return err
	}
	switch q.Op {
	case call.OpCloseNIC:
		a.closeNIC(n)
		return nil
	case call.OpCreateTag:
		return a.createTag(n, r)
	case call.OpDestroyTag:
		return a.destroyTag(n, q.Tag)
	case call.OpRegister:
		return a.register(n, q, r)
	case call.OpDeregister:
		return a.deregister(n, q.Object, q.Address)
	case call.OpQueryRegion:
		return a.queryRegion(n, q, r)
	case call.OpModifyRegion:
		return a.modifyRegion(n, q)
	case call.OpCreateVI:
		return a.createVI(n, q, r)
	case call.OpNextError:
		return a.nextError(n, r)
	case call.OpCounters:
		return a.counters(q, r)
	case call.OpReject:
		return a.reject(p, q.Object)
	case call.OpCreateCQ:
		return a.createCQ(n, q, r)
	case call.OpDestroyCQ, call.OpResizeCQ:
		index, err := a.cq(n, q)
		if err != nil {
			return err
		}
		if q.Op == call.OpDestroyCQ {
			return a.destroyCQ(index)
		}
		return a.resizeCQ(index, q, r)
	case call.OpArm:
		return a.arm(n, q)
	}
	v, err := a.vi(n, q)
	if err != nil {
		return err
	}
	index := int(q.Object)
	switch q.Op {
	case call.OpDestroyVI:
		return a.destroyVI(index, v)
	case call.OpModifyVI:
		return a.modifyVI(n, index, v, q)
	case call.OpQueryVI:
		r.State, r.Tag = uint8(v.state), v.tag
		r.MaxTransferSize, r.Rights, r.Reliability = v.attributes.MaxTransferSize, v.attributes.Rights, v.attributes.Reliability
		return nil
	case call.OpOffer:
		return a.offerRegions(n, index, v, q)
	case call.OpPeerRequest:
		return a.peerRequest(p, q)
	case call.OpPeerDone:
		return v.peerResult(index, r)
	case call.OpDisconnect:
		return a.disconnect(index, v)
	case call.OpDrain:
		return a.drain(index)
	}
	return fmt.Errorf("%v: %w", q.Op, host.ErrInvalidParameter)
}

// Programs allocate through the agent, so addresses depend on simulated time
// and not on goroutine scheduling.
func (p *process) allocate(q *call.Request, r *call.Reply) error {
	if q.Length == 0 || q.Length > mem.MaxAddress || q.Scatter > uint16(mem.Runs) {
		return fmt.Errorf("%d bytes, placement %d: %w", q.Length, q.Scatter, host.ErrInvalidParameter)
	}
	b, err := p.memory.Allocate(int(q.Length), mem.Scatter(q.Scatter))
	if err != nil {
		return err
	}
	r.Address = b.Address()
	return nil
}

func (p *process) free(q *call.Request) error {
	b, err := p.memory.Buffer(q.Address)
	if err != nil {
		return err
	}
	return b.Free()
}

func (a *Agent) openNIC(p *process, r *call.Reply) error {
	a.nextNIC++
	n := &nic{process: p, id: a.nextNIC, regions: map[uint32]*region{}}
	var t call.Reply
	if err := a.createTag(n, &t); err != nil {
		return err
	}
	n.tag = t.Tag
	a.nics[n.id] = n
	a.showErrors(n)
	i := a.device.identity()
	r.Object, r.Tag, r.Peer = n.id, n.tag, a.mac
	r.Reliability, r.Length, r.MaxTransferSize = i.Reliability, uint64(a.table.Limit()), MaxTransferSize
	r.Generation, r.State = i.Version, 0
	if i.RDMARead {
		r.Rights = layout.ConnectionFrameRightsRDMAReadMask
	}
	r.Address, r.Queues = uint64(i.VICount), uint8(i.CompletionQueues)
	return nil
}

func (a *Agent) closeNIC(n *nic) {
	a.engine.Cancel(n.id)
	for i := range a.vis {
		v := &a.vis[i]
		if v.state == layout.VIStateFree || v.nic != n.id {
			continue
		}
		a.note("disconnect", a.disconnect(i, v))
		a.note("destroy", a.destroyVI(i, v))
	}
	for i := range a.cqs {
		if a.cqs[i].nic == n.id {
			a.note("destroy completion queue", a.destroyCQ(i))
		}
	}
	for _, h := range slices.Sorted(maps.Keys(n.regions)) {
		a.note("deregister", a.deregister(n, h, n.regions[h].address))
	}
	maps.DeleteFunc(a.tags, func(_ uint16, k *tag) bool {
		if k.nic == n.id {
			n.process.uses.tags.count--
		}
		return k.nic == n.id
	})
	delete(a.nics, n.id)
	a.showErrors(n)
}

// note handles an error of work that no program requested.
func (a *Agent) note(what string, err error) {
	if err == nil {
		return
	}
	if failed(err) {
		a.broken(err)
		return
	}
	a.log.Warn(what, "error", err)
}

func (a *Agent) counters(q *call.Request, r *call.Reply) error {
	if q.Object >= layout.CounterSlots {
		return fmt.Errorf("counter %d, the card has %d: %w", q.Object, layout.CounterSlots, host.ErrInvalidParameter)
	}
	v, err := a.device.counter(layout.Counter(q.Object))
	r.Object = v
	return err
}

func (a *Agent) interrupt() error {
	errors, err := a.device.interrupt(func(frame []byte) {
		if a.fatal == nil {
			a.engine.Frame(a.now(), frame)
		}
	}, a.raise)
	if err != nil {
		return err
	}
	if errors {
		if err := a.asyncErrors(); err != nil {
			return err
		}
	}
	return a.fatal
}
