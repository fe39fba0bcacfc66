// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"hvia/driver/internal/agent"
	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// Host is a node's host side in this process: its kernel agent and its memory.
// Methods that take a Thread may be called on any thread of the node but the
// agent's, and concurrently.
type Host struct {
	// Agent serves processes too, if it is resident; nil in such a process.
	Agent *agent.Agent

	node     int
	client   call.Client
	device   Device
	memory   *mem.Memory
	costs    host.CostModel
	log      *slog.Logger
	request  [call.ReplySlots]atomic.Uint32 // by reply slot
	names    []string                       // of the fabric's nodes, if given
	switched bool
}

// StartHost starts the kernel agent of a node on its thread of rank 0. The
// agent owns the thread from now on and detaches it at its end.
func StartHost(t *host.Thread, c HostConfig) (*Host, error) {
	c.Device = cmp.Or(c.Device, DeviceHvia)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	a, err := agent.Start(t, c)
	if err != nil {
		return nil, err
	}
	return &Host{
		Agent: a, node: t.ID().Node, client: a.Client(), device: c.Device, memory: c.Memory, costs: c.Costs, log: c.Logger,
		names: c.Names, switched: c.Switch,
	}, nil
}

// Wait returns when the agent has ended, with the error that ended it early.
func (h *Host) Wait() error {
	<-h.client.End.Done
	return h.client.End.Err
}

// Node returns the node's number.
func (h *Host) Node() int { return h.node }

// FirstRank returns the rank of the first thread that may call the agent.
func (h *Host) FirstRank() int { return h.client.First }

// Device returns the device of the node's VIs.
func (h *Host) Device() Device { return h.device }

// Names returns the names of the fabric's nodes, by number.
func (h *Host) Names(t *host.Thread) []string {
	names := make([]string, t.Nodes())
	for i := range names {
		if i < len(h.names) && h.names[i] != "" {
			names[i] = h.names[i]
		} else {
			names[i] = fmt.Sprintf("node%d", i)
		}
	}
	return names
}

// Hops returns the largest number of cables between this node and another: 1
// between two nodes, 2 through a switch, 0 on a fabric of one node.
func (h *Host) Hops(t *host.Thread) int {
	switch n := t.Nodes(); {
	case n < 2:
		return 0
	case h.switched || n > 2:
		return 2
	}
	return 1
}

// Costs returns the cost model.
func (h *Host) Costs() host.CostModel { return h.costs }

// Logger returns the logger, never nil.
func (h *Host) Logger() *slog.Logger { return h.log }

// Memory returns the node's memory, for address translation and windows.
// Programs allocate with Allocate, which keeps runs reproducible.
func (h *Host) Memory() *mem.Memory { return h.memory }

func (h *Host) call(t *host.Thread, q *call.Request) (call.Reply, error) {
	return h.callFor(t, q, host.LayerAgent, h.costs.AgentCall)
}

// callFor is call with the cost of entering the agent.
func (h *Host) callFor(t *host.Thread, q *call.Request, l host.Layer, cost host.Time) (call.Reply, error) {
	rank := t.ID().Rank
	if t.ID().Node != h.node || !h.client.Has(rank) {
		return call.Reply{}, fmt.Errorf("driver: %v on thread %v: threads %d to %d of node %d may call its agent: %w",
			q.Op, t.ID(), max(h.client.First, AgentRank+1), h.client.First+h.client.Ranks-1, h.node, host.ErrInvalidParameter)
	}
	if err := t.Spend(l, cost); err != nil {
		return call.Reply{}, err
	}
	select {
	case <-h.client.End.Done:
		return call.Reply{}, h.client.End.Gone(q.Op)
	default:
	}
	q.ID = h.request[rank-h.client.First].Add(1)
	if err := t.SendUnchecked(host.ThreadID{Node: h.node, Rank: AgentRank}, call.Encode(q)); err != nil {
		return call.Reply{}, err
	}
	offset := h.client.Slot(rank)
	slot := h.client.Replies.Bytes()[offset : offset+call.ReplySlot]
	wait := host.Poll{Ranges: h.client.Replies.Physical(nil, offset, 4), Timeout: host.Never}
	if !t.Timed() {
		wait.Timeout = host.Second // then check that the agent still runs
	}
	for {
		ok, err := t.Poll(wait, func() bool { return mem.LoadUint32(slot) == q.ID })
		if err != nil {
			return call.Reply{}, err
		}
		if ok {
			return call.GetReply(slot)
		}
		select {
		case <-h.client.End.Done:
			if mem.LoadUint32(slot) == q.ID {
				return call.GetReply(slot)
			}
			return call.Reply{}, h.client.End.Gone(q.Op)
		default:
		}
	}
}

// Leave reports to the agent that a program of this node has ended. The agent
// ends with the last one.
func (h *Host) Leave(t *host.Thread) error {
	return t.SendUnchecked(host.ThreadID{Node: h.node, Rank: AgentRank}, call.Encode(&call.Request{Op: call.OpBye}))
}

// Allocate returns a zeroed buffer of the node's memory.
func (h *Host) Allocate(t *host.Thread, bytes int, how mem.Scatter) (*mem.Buffer, error) {
	if bytes < 0 {
		bytes = 0 // the agent rejects it with its other checks
	}
	r, err := h.call(t, &call.Request{Op: call.OpAllocate, Length: uint64(bytes), Scatter: uint16(how)})
	if err != nil {
		return nil, err
	}
	return h.buffer(t, r.Address, bytes)
}

func (h *Host) buffer(t *host.Thread, address uint64, bytes int) (*mem.Buffer, error) {
	if h.Agent != nil {
		return h.memory.Buffer(address)
	}
	b, err := h.memory.Adopt(address, bytes)
	if err != nil {
		_, free := h.call(t, &call.Request{Op: call.OpFree, Address: address})
		return nil, errors.Join(err, free)
	}
	return b, nil
}

// Free returns a buffer to the agent.
func (h *Host) Free(t *host.Thread, b *mem.Buffer) error {
	_, err := h.call(t, &call.Request{Op: call.OpFree, Address: b.Address()})
	h.swept()
	return err
}

// swept unmaps memory freed by the agent.
func (h *Host) swept() {
	if h.Agent == nil {
		h.memory.Sweep()
	}
}

// NIC is an open NIC handle with the card's attributes.
type NIC struct {
	ID              uint32
	DefaultTag      uint16
	Address         layout.MAC
	HardwareVersion uint32
	Reliability     uint8 // mask
	RDMARead        bool
	MaxRegions      int
	MaxVIs          int
	MaxTransferSize int
	MaxCQs          int // 0 = the card has none
}

// OpenNIC opens another handle of the node's card.
func (h *Host) OpenNIC(t *host.Thread) (NIC, error) {
	r, err := h.call(t, &call.Request{Op: call.OpOpenNIC})
	if err != nil {
		return NIC{}, err
	}
	return NIC{
		ID: r.Object, DefaultTag: r.Tag, Address: r.Peer, HardwareVersion: r.Generation, Reliability: r.Reliability,
		RDMARead:   r.Rights&layout.ConnectionFrameRightsRDMAReadMask != 0,
		MaxRegions: int(r.Length), MaxVIs: int(r.Address), MaxTransferSize: int(r.MaxTransferSize),
		MaxCQs: int(r.Queues),
	}, nil
}

// CloseNIC closes a handle and destroys what was created through it.
func (h *Host) CloseNIC(t *host.Thread, nic uint32) error {
	_, err := h.call(t, &call.Request{Op: call.OpCloseNIC, NIC: nic})
	h.swept()
	return err
}

// CreateTag creates a protection tag.
func (h *Host) CreateTag(t *host.Thread, nic uint32) (uint16, error) {
	r, err := h.call(t, &call.Request{Op: call.OpCreateTag, NIC: nic})
	return r.Tag, err
}

// DestroyTag removes a protection tag that nothing uses.
func (h *Host) DestroyTag(t *host.Thread, nic uint32, tag uint16) error {
	_, err := h.call(t, &call.Request{Op: call.OpDestroyTag, NIC: nic, Tag: tag})
	return err
}

// Rights are the remote accesses that a region or a VI allows.
type Rights struct {
	RDMAWrite bool
	RDMARead  bool
}

func (r Rights) bits() (b uint8) {
	if r.RDMAWrite {
		b |= layout.ConnectionFrameRightsRDMAWriteMask
	}
	if r.RDMARead {
		b |= layout.ConnectionFrameRightsRDMAReadMask
	}
	return b
}

func rightsOf(b uint8) Rights {
	return Rights{RDMAWrite: b&layout.ConnectionFrameRightsRDMAWriteMask != 0, RDMARead: b&layout.ConnectionFrameRightsRDMAReadMask != 0}
}

// RegionInfo describes a registered region.
type RegionInfo struct {
	Handle  uint32
	Address uint64
	Length  uint64
	Tag     uint16
	Rights  Rights
}

// Register pins a range and enters it into the card's table. Tag 0 is the NIC
// handle's tag.
func (h *Host) Register(t *host.Thread, nic uint32, address, length uint64, tag uint16, rights Rights) (RegionInfo, error) {
	r, err := h.call(t, &call.Request{Op: call.OpRegister, NIC: nic, Address: address, Length: length, Tag: tag, Rights: rights.bits()})
	return regionOf(&r), err
}

func regionOf(r *call.Reply) RegionInfo {
	return RegionInfo{Handle: r.Object, Address: r.Address, Length: r.Length, Tag: r.Tag, Rights: rightsOf(r.Rights)}
}

// Deregister removes a region; when it returns, the card no longer accesses it.
func (h *Host) Deregister(t *host.Thread, nic uint32, address uint64, handle uint32) error {
	_, err := h.call(t, &call.Request{Op: call.OpDeregister, NIC: nic, Address: address, Object: handle})
	return err
}

// QueryRegion returns the attributes of a region.
func (h *Host) QueryRegion(t *host.Thread, nic uint32, address uint64, handle uint32) (RegionInfo, error) {
	r, err := h.call(t, &call.Request{Op: call.OpQueryRegion, NIC: nic, Address: address, Object: handle})
	return regionOf(&r), err
}

// ModifyRegion changes a region's tag, 0 for the NIC handle's, and its rights.
// When it returns, every access is checked against the new ones. An access
// during the change may fail as if the region were not registered.
func (h *Host) ModifyRegion(t *host.Thread, nic uint32, address uint64, handle uint32, tag uint16, rights Rights) error {
	_, err := h.call(t, &call.Request{Op: call.OpModifyRegion, NIC: nic, Address: address, Object: handle, Tag: tag, Rights: rights.bits()})
	return err
}

// VIAttributes are the attributes of a VI. Zero values take the default:
// unreliable delivery, the largest transfer size, the NIC handle's tag.
type VIAttributes struct {
	Reliability     uint8
	MaxTransferSize int
	Tag             uint16
	Rights          Rights
	SendQueue       *CQ // completion queue of the send queue, nil = none; for CreateVI only
	ReceiveQueue    *CQ // likewise
}

func (v VIAttributes) fill(q *call.Request) error {
	if v.MaxTransferSize < 0 || int64(v.MaxTransferSize) > 1<<32-1 {
		return fmt.Errorf("driver: %v: max transfer size %d: %w", q.Op, v.MaxTransferSize, ErrTransferSize)
	}
	q.Reliability, q.MaxTransferSize, q.Tag, q.Rights = v.Reliability, uint32(v.MaxTransferSize), v.Tag, v.Rights.bits()
	q.SendQueue, q.ReceiveQueue = v.SendQueue.tied(), v.ReceiveQueue.tied()
	return nil
}

func attributesOf(r *call.Reply) VIAttributes {
	return VIAttributes{Reliability: r.Reliability, MaxTransferSize: int(r.MaxTransferSize), Tag: r.Tag, Rights: rightsOf(r.Rights)}
}

// VI names a VI of the card.
type VI struct {
	Index      int
	nic        uint32
	generation uint32
	host       *Host
}

// Reported reports whether an asynchronous error belongs to this VI, and not to
// an earlier VI with its index.
func (v VI) Reported(e AsyncError) bool { return e.VI == v.Index && e.Generation == v.generation }

// State returns the VI's state and the number of its changes, without a call of
// the agent.
func (v VI) State() (state layout.VIState, changes uint32) {
	w := mem.LoadUint32(v.host.client.Statuses.Bytes()[4*v.Index:])
	return layout.VIState(w & call.VIStateMask), w >> call.VIEventShift
}

// StateRange returns the physical range to watch for a change of State.
func (v VI) StateRange() mem.Range { return v.host.client.Statuses.Physical(nil, 4*v.Index, 4)[0] }

func (v VI) request(op call.Operation) *call.Request {
	return &call.Request{Op: op, NIC: v.nic, Object: uint32(v.Index), Generation: v.generation}
}

// CreateVI creates a VI and returns its actual attributes.
func (h *Host) CreateVI(t *host.Thread, nic uint32, a VIAttributes) (VI, VIAttributes, error) {
	q := &call.Request{Op: call.OpCreateVI, NIC: nic}
	if err := a.fill(q); err != nil {
		return VI{}, VIAttributes{}, err
	}
	r, err := h.call(t, q)
	if err != nil {
		return VI{}, VIAttributes{}, err
	}
	return VI{Index: int(r.Object), nic: nic, generation: r.Generation, host: h}, attributesOf(&r), nil
}

// DestroyVI removes an idle VI.
func (v VI) Destroy(t *host.Thread) error {
	_, err := v.host.call(t, v.request(call.OpDestroyVI))
	return err
}

// Modify changes the attributes of an idle VI.
func (v VI) Modify(t *host.Thread, a VIAttributes) error {
	q := v.request(call.OpModifyVI)
	if err := a.fill(q); err != nil {
		return err
	}
	_, err := v.host.call(t, q)
	return err
}

// Query returns state and attributes from the agent.
func (v VI) Query(t *host.Thread) (layout.VIState, VIAttributes, error) {
	r, err := v.host.call(t, v.request(call.OpQueryVI))
	return layout.VIState(r.State), attributesOf(&r), err
}

// Disconnect makes a VI idle. When it returns, the card has flushed everything
// posted on it and has no more work of it.
func (v VI) Disconnect(t *host.Thread) error {
	_, err := v.host.call(t, v.request(call.OpDisconnect))
	return err
}

// Drain waits until the card holds no work of a VI that is not connected.
func (v VI) Drain(t *host.Thread) error {
	_, err := v.host.call(t, v.request(call.OpDrain))
	return err
}

// Remote is the other end of a connection, or of a connection request.
type Remote struct {
	Address       layout.MAC
	Discriminator string
	Attributes    VIAttributes
	Regions       []RegionInfo // regions that it advertises, without their tags
}

func remoteOf(r *call.Reply) Remote {
	remote := Remote{Address: r.Peer, Discriminator: string(r.Own[:r.OwnLength]), Attributes: attributesOf(r)}
	for _, g := range r.Regions[:r.Offers] {
		remote.Regions = append(remote.Regions, RegionInfo{Handle: g.Handle, Address: g.Address, Length: g.Length, Rights: rightsOf(g.Rights)})
	}
	return remote
}

// MaxOfferedRegions is the number of regions that a VI can advertise.
const MaxOfferedRegions = layout.MaxOfferedRegions

// Offer advertises registered regions, by their handles, to the peers of the
// VI's next connections. It replaces an earlier Offer. The VI must be idle.
func (v VI) Offer(t *host.Thread, handles ...uint32) error {
	if len(handles) > layout.MaxOfferedRegions {
		return fmt.Errorf("driver: VI %d: offer %d regions, at most %d: %w", v.Index, len(handles), layout.MaxOfferedRegions, host.ErrInvalidParameter)
	}
	q := v.request(call.OpOffer)
	q.Offers = uint8(copy(q.Handles[:], handles))
	_, err := v.host.call(t, q)
	return err
}

// Request is a connection request that waits for a decision.
type Request struct {
	Remote Remote
	id     uint32
	nic    uint32
	host   *Host
}

func timeoutOf(t host.Time) int64 {
	if t == host.Never {
		return -1
	}
	return int64(max(t, 0))
}

// ConnectWait waits for a connection request to a discriminator.
func (h *Host) ConnectWait(t *host.Thread, nic uint32, discriminator string, timeout host.Time) (*Request, error) {
	q := &call.Request{Op: call.OpConnectWait, NIC: nic, Timeout: timeoutOf(timeout)}
	var err error
	if q.AskedLength, err = call.PutDiscriminator(&q.Asked, discriminator); err != nil {
		return nil, err
	}
	r, err := h.call(t, q)
	if err != nil {
		return nil, err
	}
	return &Request{Remote: remoteOf(&r), id: r.Object, nic: nic, host: h}, nil
}

// Accept connects a VI with the requester.
func (r *Request) Accept(t *host.Thread, v VI) error {
	q := v.request(call.OpAccept)
	q.Length = uint64(r.id)
	_, err := r.host.call(t, q)
	return err
}

// Reject rejects the request.
func (r *Request) Reject(t *host.Thread) error {
	_, err := r.host.call(t, &call.Request{Op: call.OpReject, NIC: r.nic, Object: r.id})
	return err
}

// Connect requests a connection from the program that waits at a remote
// address, and returns the attributes of its VI.
func (v VI) Connect(t *host.Thread, address layout.MAC, discriminator, own string, timeout host.Time) (Remote, error) {
	r, err := v.connect(t, call.OpConnectRequest, address, discriminator, own, timeout)
	if err != nil {
		return Remote{}, err
	}
	remote := remoteOf(&r)
	remote.Address, remote.Discriminator = address, discriminator
	return remote, nil
}

// PeerRequest starts a peer-to-peer connection request. It matches a request of
// the host at the remote address that names this host and has the two
// discriminators exchanged. It does not wait for the connection.
func (v VI) PeerRequest(t *host.Thread, address layout.MAC, discriminator, own string, timeout host.Time) error {
	_, err := v.connect(t, call.OpPeerRequest, address, discriminator, own, timeout)
	return err
}

func (v VI) connect(t *host.Thread, op call.Operation, address layout.MAC, discriminator, own string, timeout host.Time) (_ call.Reply, err error) {
	q := v.request(op)
	q.Peer, q.Timeout = address, timeoutOf(timeout)
	if q.AskedLength, err = call.PutDiscriminator(&q.Asked, discriminator); err != nil {
		return call.Reply{}, err
	}
	if q.OwnLength, err = call.PutDiscriminator(&q.Own, own); err != nil {
		return call.Reply{}, err
	}
	return v.host.call(t, q)
}

// PeerDone returns the attributes and regions of the peer's VI when the last
// PeerRequest has led to a connection, else the reason of its failure, or
// ErrNotDone.
func (v VI) PeerDone(t *host.Thread) (Remote, error) {
	r, err := v.host.call(t, v.request(call.OpPeerDone))
	return remoteOf(&r), err
}

// PeerWait is PeerDone, but waits, at most for the timeout of the PeerRequest.
func (v VI) PeerWait(t *host.Thread) (Remote, error) {
	r, err := v.host.call(t, v.request(call.OpPeerWait))
	return remoteOf(&r), err
}

// NextError removes and returns the oldest asynchronous error of a NIC handle;
// it returns false if there is none.
func (h *Host) NextError(t *host.Thread, nic uint32) (AsyncError, bool, error) {
	r, err := h.call(t, &call.Request{Op: call.OpNextError, NIC: nic})
	// Without an error all fields are 0: an error of a VI has a generation, any
	// other has VI -1.
	if err != nil || r.Generation == 0 && r.Object == 0 {
		return AsyncError{}, false, err
	}
	return AsyncError{Code: layout.AsyncError(r.State), VI: int(int32(r.Object)), Generation: r.Generation, Lost: int(r.Length)}, true, nil
}

// ErrorWaits reports whether NextError has an error to return, without a call
// of the agent. In timed mode an error counts from the instant after it arose.
func (h *Host) ErrorWaits(t *host.Thread, nic uint32) bool {
	since := host.Time(mem.LoadUint64(h.client.Statuses.Bytes()[call.ErrorsWord(nic):]))
	return since != host.Never && (!t.Timed() || since < t.Now())
}

// ErrorRange returns the physical range to watch for a change of ErrorWaits.
func (h *Host) ErrorRange(nic uint32) mem.Range {
	return h.client.Statuses.Physical(nil, call.ErrorsWord(nic), 8)[0]
}

// Counter reads one of the card's statistics counters.
func (h *Host) Counter(t *host.Thread, nic uint32, n layout.Counter) (uint32, error) {
	r, err := h.call(t, &call.Request{Op: call.OpCounters, NIC: nic, Object: uint32(n)})
	return r.Object, err
}

// Spent returns the account of the kernel agent: interrupt services and
// privileged work. In timed mode it covers the time up to the calling thread's
// present instant. In a process that joined it is zero.
func (h *Host) Spent() host.Account {
	if h.Agent == nil {
		return host.Account{}
	}
	return h.Agent.Spent()
}

// TimeOfDay returns the thread's clock as a program reads it: with a call that
// takes time and reads the clock in its middle. The difference of two readings
// includes the cost of one call.
func (h *Host) TimeOfDay(t *host.Thread) (host.Time, error) {
	cost := h.costs.TimeOfDay
	if err := t.Spend(host.LayerLibrary, cost/2); err != nil {
		return 0, err
	}
	now := t.Now()
	return now, t.Spend(host.LayerLibrary, cost-cost/2)
}
