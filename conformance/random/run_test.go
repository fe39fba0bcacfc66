// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"errors"
	"fmt"
	"sync"

	"hvia/conformance"
	"hvia/conformance/model"
	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

// Times of random runs, simulated.
const (
	// After a barrier, the cards process the doorbells rung before it.
	syncPause = 100 * host.Microsecond
	// In this time data in flight reaches the peer's memory, and the agents
	// exchange their messages.
	drainPause = host.Millisecond
	// Timeout of an expected completion.
	completionTimeout = 20 * host.Millisecond
	statePause        = 100 * host.Microsecond
	// The run stops waiting after this number of pauses without a completion.
	idlePauses = 5
	dialRetry  = 50 * host.Microsecond
)

// bugs are injected bugs of a card: differences between what the run does and
// what the model applies.
type bugs struct {
	bound    bool // regions of odd bounds are one byte longer
	right    bool // every region may be written by peers
	tag      bool // every region has the VI's tag
	keep     bool // nothing is deregistered
	rdma     bool // every VI may be written through
	max      bool // every VI has the largest transfer size
	observed func(n *randomNode)
}

// randomRun is one run of a list of operations.
type randomRun struct {
	ops   []operation
	bugs  bugs
	under conditions
	// Of connected pairs:
	cut, reliable [randomPairs]bool // cut: the link is down
	faults        int               // of the wire
	on            topology
	nodes         []*randomNode

	mu       sync.Mutex
	effects  []effect
	live     world // current addresses and handles
	w        *world
	verified int // number of operations verified
	posts    int
	tally    map[string]int // observations by kind
	err      error
}

// randomNode is a node of a run.
type randomNode struct {
	*conformance.Env
	run      *randomRun
	node     int
	tags     [2]vipl.Ptag
	queues   []*vipl.CQ
	tied     [randomPairs][2]int // completion queue of each work queue plus one; 0 = none
	buffers  [randomPairs][randomAreas]*mem.Buffer
	regions  [randomPairs][randomAreas][regionKinds]*vipl.Region
	vis      [randomPairs]*vipl.VI
	posted   [randomPairs][2][]posting
	barriers int

	// Predictions and observations:
	want   [randomPairs][2]int          // completions
	expect [randomPairs]layout.VIState  // states
	seen   [randomPairs][2][]completion // reaped
	states [randomPairs]layout.VIState
	errors []model.AsyncError
	// Entries of completion queues. late counts completions reaped before their
	// entry came, early lists entries that came before their completion.
	entries [randomQueues][]model.Source
	late    map[model.Source]int
	early   []model.Source
}

// posting is a descriptor posted and not reaped.
type posting struct {
	op, part int // part of a race
	d        *vipl.Descriptor
}

// completion is the result of a Done call.
type completion struct {
	posting
	status, length, immediate uint32
}

// errUnsupported ends a run on NICs without a required feature.
var errUnsupported = errors.New("the NIC does not support all levels, RDMA read at the reliable ones, and completion queues")

func newRandomRun(ops []operation, l bugs, c conditions) *randomRun {
	on := c.topology()
	return &randomRun{ops: ops, bugs: l, under: c, on: on, nodes: make([]*randomNode, on.nodes()), effects: make([]effect, len(ops)), tally: map[string]int{}}
}

// mains returns the programs of the nodes.
func (r *randomRun) mains() []conformance.Main {
	var out []conformance.Main
	for node := range r.nodes {
		out = append(out, func(e *conformance.Env) error {
			n := &randomNode{Env: e, run: r, node: node}
			if err := n.setUp(); err != nil {
				return err
			}
			return n.play()
		})
	}
	return out
}

// side returns the side of a pair on this node, -1 if none.
func (n *randomNode) side(pair int) int { return n.run.on.side(n.node, pair) }

// at returns the node of a side.
func (r *randomRun) at(side, pair int) *randomNode { return r.nodes[r.on[pair][side]] }

// barrier waits for all nodes: each notifies node 0, and node 0 notifies all.
func (n *randomNode) barrier() error {
	n.barriers++
	text := fmt.Sprint("barrier ", n.barriers)
	notify := func(node int) error { return n.T.Send(host.ThreadID{Node: node, Rank: 1}, []byte(text)) }
	others := len(n.run.nodes) - 1
	if n.node > 0 {
		others = 1
		if err := notify(0); err != nil {
			return err
		}
	}
	for range others {
		m, ok, err := n.T.Receive(host.Second)
		if err != nil {
			return err
		}
		if !ok || string(m.Data) != text {
			return fmt.Errorf("node %d: '%s', got '%s' (%v)", n.node, text, m.Data, ok)
		}
	}
	if n.node > 0 {
		return nil
	}
	for node := 1; node < len(n.run.nodes); node++ {
		if err := notify(node); err != nil {
			return err
		}
	}
	return nil
}

func (n *randomNode) setUp() error {
	r := n.run
	var err error
	if n.tags[1], err = n.NIC.CreatePtag(n.T); err != nil {
		return err
	}
	if q := n.NIC.Query(); r.under.reliable && (q.RDMAReadSupport&vipl.ReliableDelivery == 0 || q.RDMAReadSupport&vipl.ReliableReception == 0 || q.MaxCQ == 0) {
		return errUnsupported
	}
	if r.under.queues {
		for range randomQueues {
			q, err := n.NIC.CreateCQ(n.T, queueEntries)
			if err != nil {
				return err
			}
			if q.Entries() != queueEntries {
				return fmt.Errorf("node %d: a completion queue of %d entries has %d", n.node, queueEntries, q.Entries())
			}
			n.queues = append(n.queues, q)
		}
	}
	n.late = map[model.Source]int{}
	var table sideTable
	for pair := range randomPairs {
		side := n.side(pair)
		if side < 0 {
			continue
		}
		a := firstAttributes(pair, side, r.under)
		table.tag[pair] = a.tag
		for area := range randomAreas {
			if n.buffers[pair][area], err = n.NIC.Alloc(n.T, areaBytes(area)); err != nil {
				return err
			}
			table.address[pair][area] = n.buffers[pair][area].Address()
			for kind := range regionKinds {
				if err := n.register(&table, pair, area, kind); err != nil {
					return err
				}
				table.regions[pair][area][kind] = regionState{handle: uint32(n.regions[pair][area][kind].Handle()), live: true}
			}
		}
		if err := n.create(pair, a); err != nil {
			return err
		}
		table.index[pair] = n.vis[pair].Index()
		copy(n.buffers[pair][areaSource].Bytes(), randomBytes(sourceSeed(side, pair), dataBytes))
	}
	r.mu.Lock()
	for pair := range randomPairs {
		if side := n.side(pair); side >= 0 {
			to := &r.live.sides[side]
			to.address[pair], to.regions[pair], to.index[pair], to.tag[pair] = table.address[pair], table.regions[pair], table.index[pair], table.tag[pair]
		}
	}
	r.nodes[n.node] = n
	r.mu.Unlock()
	if err := n.barrier(); err != nil {
		return err
	}
	if n.node == 0 {
		r.mu.Lock()
		r.w, err = randomWorld(&r.live.sides, r.under)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return n.barrier()
}

func (n *randomNode) register(table *sideTable, pair, area, kind int) error {
	l := n.run.bugs
	offset, length := span(area, kind)
	if l.bound && kind == regionPart {
		length++
	}
	tag := regionTag(table.tag[pair], kind)
	if l.tag {
		tag = table.tag[pair]
	}
	g, err := n.NIC.RegisterMem(n.T, table.address[pair][area]+uint64(offset), uint64(length),
		vipl.MemAttributes{Ptag: n.tags[tag], EnableRDMAWrite: regionOpen(kind) || l.right, EnableRDMARead: n.run.under.reliable && (regionOpen(kind) || l.right)})
	n.regions[pair][area][kind] = g
	return err
}

func (n *randomNode) attributes(a randomAttributes) vipl.VIAttributes {
	a.rdmaWrite = a.rdmaWrite || n.run.bugs.rdma
	a.rdmaRead = a.rdmaRead || n.run.bugs.rdma && a.level != layout.ReliabilityUnreliable
	if n.run.bugs.max {
		a.max = driver.MaxTransferSize
	}
	return a.vipl(n.tags, n.queues)
}

func (n *randomNode) create(pair int, a randomAttributes) (err error) {
	n.tied[pair] = a.queues
	n.vis[pair], err = n.NIC.CreateVI(n.T, n.attributes(a))
	return err
}

func (n *randomNode) play() error {
	r := n.run
	for i, o := range r.ops {
		var err error
		switch o.kind {
		case opSync:
			if err = n.barrier(); err == nil {
				err = n.T.Sleep(syncPause)
			}
		case opSettle:
			err = n.settle(i + 1)
		case opConnect:
			if n.side(o.pair) >= 0 {
				err = n.connect(i, o)
			}
		case opRace:
			err = n.race(i, o)
		default:
			if o.side == n.side(o.pair) {
				err = n.act(i, o)
			}
		}
		if err != nil {
			return fmt.Errorf("operation %d (%v): %w", i, o, err)
		}
		if r.err != nil {
			return nil // node 0 reports it
		}
	}
	if len(r.ops) > 0 && r.ops[len(r.ops)-1].kind != opSettle {
		if err := n.settle(len(r.ops)); err != nil || r.err != nil {
			return err
		}
	}
	return n.lossless()
}

// lossless checks that the wire and the card's buffers lost nothing, and that
// all doorbells were well-formed.
func (n *randomNode) lossless() error {
	if n.run.under.lose != nil || n.run.under.faulty {
		return nil
	}
	zero := []layout.Counter{
		layout.CounterMacReceiveBad, layout.CounterMacReceiveLong, layout.CounterMacReceiveOverrun, layout.CounterMacBusError,
		layout.CounterReceiveMalformed, layout.CounterReceiveUnsupported,
		layout.CounterReceiveBusError, layout.CounterPciParityError, layout.CounterPciMasterAbort,
		layout.CounterDoorbellMalformed, layout.CounterDoorbellOverrun, layout.CounterRawReceiveDropped,
	}
	if !n.run.under.reliable { // reliable VIs may retransmit after a timeout
		zero = append(zero, layout.CounterReceiveOldSequence, layout.CounterReceiveGap)
	}
	for _, c := range zero {
		count, err := n.NIC.Counter(n.T, c)
		if err != nil {
			return err
		}
		if count != 0 {
			return fmt.Errorf("node %d: counter %v is %d, want 0", n.node, c, count)
		}
	}
	return nil
}

// act executes an operation of one node.
func (n *randomNode) act(i int, o operation) error {
	r := n.run
	v := n.vis[o.pair]
	side := o.side
	source, target := n.buffers[o.pair][areaSource].Bytes(), n.buffers[o.pair][areaTarget].Bytes()
	region := &n.regions[o.pair][o.area][o.region]
	switch o.kind {
	case opStore:
		copy(source[o.offset:], randomBytes(o.seed, o.bytes))
	case opCopy:
		copy(source[o.offset:], target[o.from:o.from+o.bytes])
	case opPost:
		return n.post(i, 0, o, o.receive, o.d)
	case opDisconnect:
		return v.Disconnect(n.T)
	case opDestroy:
		n.vis[o.pair] = nil
		return v.Destroy(n.T)
	case opCreate:
		if err := n.create(o.pair, o.attributes); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.effects[i].index = n.vis[o.pair].Index()
		r.live.sides[side].index[o.pair], r.live.sides[side].tag[o.pair] = n.vis[o.pair].Index(), o.attributes.tag
	case opPoll:
		return n.poll(o.queue)
	case opResize:
		return n.queues[o.queue].Resize(n.T, o.entries)
	case opCut:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cut[o.pair] = true
	case opSetAttributes:
		return v.SetAttributes(n.T, n.attributes(o.attributes))
	case opDeregister:
		if r.bugs.keep {
			return nil
		}
		return (*region).Deregister(n.T)
	case opRegister:
		r.mu.Lock()
		table := r.live.sides[side]
		r.mu.Unlock()
		if err := n.register(&table, o.pair, o.area, o.region); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		handle := uint32((*region).Handle())
		r.effects[i].handle = handle
		s := &r.live.sides[side].regions[o.pair][o.area][o.region]
		*s = regionState{handle: handle, before: s.handle, live: true}
	}
	return nil
}

// post writes a descriptor into its slot and posts it.
func (n *randomNode) post(i, part int, o operation, receive bool, d randomDescriptor) error {
	r := n.run
	r.mu.Lock()
	raw, handle := r.live.encode(n.side(o.pair), d), r.live.handle(n.side(o.pair), d.handle)
	r.effects[i].raw, r.effects[i].handles = append(r.effects[i].raw, raw), append(r.effects[i].handles, handle)
	r.posts++
	r.mu.Unlock()
	memory := n.buffers[o.pair][queueArea(receive)]
	at := d.slot * slotBytes
	view := vipl.NewDescriptor(memory.Bytes()[at:at+slotBytes], memory.Address()+uint64(at), vipl.MemHandle(handle))
	copy(view.Bytes(), raw)
	post, queue := n.vis[o.pair].PostSend, &n.posted[o.pair][0]
	if receive {
		post, queue = n.vis[o.pair].PostRecv, &n.posted[o.pair][1]
	}
	*queue = append(*queue, posting{i, part, view})
	return post(n.T, view)
}

func (n *randomNode) connect(i int, o operation) error {
	v, name := n.vis[o.pair], fmt.Sprint("operation ", i)
	info, err := v.Query(n.T)
	if err != nil {
		return err
	}
	n.run.mu.Lock()
	n.run.cut[o.pair], n.run.reliable[o.pair] = false, info.Attributes.ReliabilityLevel != vipl.Unreliable
	n.run.mu.Unlock()
	other := n.run.on[o.pair][1-n.side(o.pair)]
	if n.side(o.pair) != o.side {
		q, err := n.NIC.ConnectWait(n.T, vipl.At(n.node, name), host.Second)
		if err != nil {
			return err
		}
		return q.Accept(n.T, v)
	}
	for range conformance.Attempts {
		_, err := v.ConnectRequest(n.T, vipl.NetAddress{Discriminator: name}, vipl.At(other, name), host.Second)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		if err := n.T.Sleep(dialRetry); err != nil {
			return err
		}
	}
	return fmt.Errorf("node %d: no ConnectWait is pending", other)
}

func (n *randomNode) race(i int, o operation) error {
	if err := n.barrier(); err != nil {
		return err
	}
	if n.side(o.pair) == o.side {
		for part, d := range o.sends {
			if err := n.post(i, part, o, false, d); err != nil {
				return err
			}
		}
	}
	if n.side(o.pair) != o.leaver {
		return nil
	}
	if err := n.T.Sleep(host.Time(o.delayed) * host.Microsecond); err != nil {
		return err
	}
	return n.vis[o.pair].Disconnect(n.T)
}

// settle ends all work in flight. Node 0 then verifies it.
func (n *randomNode) settle(upto int) error {
	r := n.run
	if err := n.barrier(); err != nil {
		return err
	}
	if n.node == 0 {
		r.mu.Lock()
		err := r.predict(upto)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if err := n.barrier(); err != nil {
		return err
	}
	if err := n.reap(); err != nil {
		return err
	}
	if err := n.barrier(); err != nil {
		return err
	}
	if n.node == 0 {
		r.mu.Lock()
		if r.err = r.verify(upto); r.err == nil {
			r.verified = upto
			r.count()
		}
		r.mu.Unlock()
	}
	if err := n.barrier(); err != nil {
		return err
	}
	if n.node == 0 {
		return r.err
	}
	return nil
}

// predict applies the operations to the model, except races, and sets the
// completions and states that each node waits for.
func (r *randomRun) predict(upto int) error {
	for i := r.verified; i < upto; i++ {
		if o := r.ops[i]; o.kind != opRace {
			if err := r.w.apply(o, r.effects[i], stops{}); err != nil {
				return fmt.Errorf("operation %d (%v) in the model: %w", i, o, err)
			}
		}
	}
	if upto == 0 || r.ops[upto-1].kind != opSettle {
		if err := r.w.apply(operation{kind: opSettle}, effect{}, stops{}); err != nil { // the list has none at the end
			return err
		}
	}
	for pair := range randomPairs {
		for side := range sides {
			n, v := r.at(side, pair), r.w.vi(side, pair)
			if v == nil {
				n.want[pair], n.expect[pair] = [2]int{}, layout.VIStateFree
				continue
			}
			left := v.Pending()
			n.want[pair] = [2]int{len(n.posted[pair][0]) - left[0], len(n.posted[pair][1]) - left[1]}
			n.expect[pair] = v.State()
		}
	}
	for _, i := range r.races(upto) {
		o := r.ops[i]
		for side := range sides {
			n := r.at(side, o.pair)
			// All descriptors complete.
			n.want[o.pair] = [2]int{len(n.posted[o.pair][0]), len(n.posted[o.pair][1])}
			n.expect[o.pair] = layout.VIStateError
			if side == o.leaver {
				n.expect[o.pair] = layout.VIStateIdle
			}
		}
	}
	return nil
}

// races returns the races that are not verified yet.
func (r *randomRun) races(upto int) (all []int) {
	for i := r.verified; i < upto; i++ {
		if r.ops[i].kind == opRace {
			all = append(all, i)
		}
	}
	return all
}
