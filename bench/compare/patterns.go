// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"errors"
	"fmt"
	"sync/atomic"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
)

// How long programs of Compare wait for a message of an unreliable protocol
// before they count it as lost. The responder waits longer than the requester,
// so that it still serves the next message. The other limits leave time for
// TCP's retransmissions with growing timeouts, and for a card to break its
// connection.
const (
	patience      = 10 * host.Millisecond
	longPatience  = 4 * patience
	lastPatience  = 2 * longPatience
	cardLimit     = 200 * host.Millisecond
	reliableLimit = 20 * host.Second
	lostHorizon   = 100 // messages searched on either side of the expected one
	grantBytes    = 4
	grantSeed     = 0x6772616e74
	mixSeed       = 0x6d6978
	stageSeed     = 0x9e3779b97f4a7c15
)

// comparison is a pattern over one protocol: its programs and their notes.
type comparison struct {
	config   Config
	protocol protocol
	board    costs.Board
	stages   []stage
	parties  int // threads
	stacks   []*tcpStack
	counters []map[string]uint64 // of each node's card

	retransmitted [layout.BridgeMaxNodes]atomic.Uint64 // frames or segments, by node; a node's threads store concurrently

	// meet is the Barrier of all threads.
	meet func(t *host.Thread, id uint64, parties int) error
}

// stage is one measurement: one size, or the mix.
type stage struct {
	size   int // 0: the mix
	window int
	warmup int
	total  int   // messages of each client, warm-up included
	kinds  []int // of each request of the mix
	notes  []note
}

// note is the result of one thread in a stage. Only this thread writes it.
type note struct {
	begin, end host.Time // of the counted part
	spent      host.Account
	complete   bool

	sent   []host.Time   // when each message was sent
	came   [][]host.Time // when each message of each channel was received, -1 if lost
	rounds []host.Time   // from a request to its reply, -1 if lost
	lost   int
	fault  string // the first wrong byte
}

func newComparison(c Config, p protocol, b costs.Board) *comparison {
	x := &comparison{
		config: c, protocol: p, board: b, parties: 1 + max(1, c.Clients), stacks: make([]*tcpStack, c.nodes()), counters: make([]map[string]uint64, c.nodes()),
		meet: (*host.Thread).Barrier,
	}
	for _, n := range c.Sizes {
		counted, warmup := c.countOf(p, n)
		x.stages = append(x.stages, stage{size: n, window: c.windowOf(n), warmup: warmup, total: warmup + counted})
	}
	if c.Pattern == PatternRequestReply {
		counted, warmup := c.countOf(p, 0)
		x.stages = []stage{{warmup: warmup, total: warmup + counted, kinds: drawMix(c.Mix, c.Seed, warmup+counted)}}
	}
	for i := range x.stages {
		x.stages[i].notes = make([]note, x.parties)
	}
	return x
}

// drawMix is the kind of each request, by the weights.
func drawMix(mix []MixEntry, seed uint64, n int) []int {
	sum := 0
	for _, m := range mix {
		sum += m.Weight
	}
	kinds := make([]int, n)
	noise := make([]byte, 8*n)
	rig.Pattern{Seed: seed ^ mixSeed}.Fill(noise)
	for i := range kinds {
		var z uint64
		for _, b := range noise[8*i : 8*i+7] { // the last byte of a pattern is no noise
			z = z<<8 | uint64(b)
		}
		at := int(z % uint64(sum))
		for at >= mix[kinds[i]].Weight {
			at -= mix[kinds[i]].Weight
			kinds[i]++
		}
	}
	return kinds
}

// serverNode is the node of the thread that replies or receives.
const serverNode = 1

// nodeOf returns the node of a thread by the index of its note. The initiating
// threads are on node 0, or each on a separate node.
func (x *comparison) nodeOf(party int) int {
	switch {
	case party == x.parties-1:
		return serverNode
	case !x.config.switched() || party == 0:
		return 0
	}
	return party + 1
}

func (x *comparison) programs() []fabric.Program {
	if x.protocol.read {
		return []fabric.Program{{Node: 0, Name: "client", Main: x.readClient}, {Node: serverNode, Name: "server", Main: x.readServer}}
	}
	if !x.config.oneWay() {
		return []fabric.Program{{Node: 0, Name: "client", Main: x.client}, {Node: serverNode, Name: "server", Main: x.server}}
	}
	var list []fabric.Program
	for i := range x.parties - 1 {
		list = append(list, fabric.Program{Node: x.nodeOf(i), Name: fmt.Sprintf("sender %d", i), Main: func(t *host.Thread, h *driver.Host) error { return x.sender(t, h, i) }})
	}
	return append(list, fabric.Program{Node: serverNode, Name: "receiver", Main: x.receiver})
}

// Barriers of a run; those of the stages follow.
const (
	barrierOpen  = 1
	barrierStage = 2
)

// open makes a thread's channels. The first thread of a node opens its TCP/IP
// stack first, if the protocol uses it.
func (x *comparison) open(t *host.Thread, h *driver.Host, s channelConfig, channels int) ([]channel, error) {
	node := t.ID().Node
	if x.protocol.tcp {
		if first(t) {
			listen := 0
			if node == serverNode {
				listen = channels
			}
			var err error
			if x.stacks[node], err = openTCPNode(t, h, x.config.Seed, listen); err != nil {
				return nil, err
			}
		}
		if err := x.meet(t, barrierOpen, x.parties); err != nil {
			return nil, err
		}
	}
	list := make([]channel, channels)
	for i := range list {
		if x.protocol.tcp {
			list[i] = newTCPChannel(x.stacks[node], s)
			continue
		}
		var err error
		if list[i], err = openVia(t, h, s, x.protocol); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// close closes a thread's channels. When all threads have done so, the first
// thread of a node closes its TCP/IP stack.
func (x *comparison) close(t *host.Thread, channels ...channel) (err error) {
	if len(channels) == 0 {
		return nil
	}
	if err := errors.Join(x.count(t, channels[0]), x.countRetransmitted(t, channels[0])); err != nil {
		return err
	}
	for _, c := range channels {
		err = errors.Join(err, c.close(t))
	}
	if err != nil || !x.protocol.tcp {
		return err
	}
	if err := x.barrier(t, len(x.stages), false); err != nil || !first(t) {
		return err
	}
	return x.stacks[t.ID().Node].close(t)
}

// Counters of a node's card about overruns and retransmissions.
var reportedCounters = []layout.Counter{
	layout.CounterTransmitFrame, layout.CounterTransmitAcknowledge, layout.CounterRetransmitFrame, layout.CounterRetryTimeout, layout.CounterRewind,
	layout.CounterReceiveFrame, layout.CounterReceiveAcknowledge, layout.CounterReceiveOutOfOrder, layout.CounterReceiveOldSequence, layout.CounterReceiveGap,
	layout.CounterReceiveDropped, layout.CounterReceiveQueueEmpty, layout.CounterMacReceiveBad, layout.CounterMacReceiveOverrun,
}

// count reads the counters of the node's card if there is a switch. Without one
// it makes no query, which would change the recorded runs.
func (x *comparison) count(t *host.Thread, c channel) error {
	via, ok := c.(*viaChannel)
	if !x.config.switched() || x.protocol.inKernel() || !ok {
		return nil
	}
	counts := map[string]uint64{}
	for _, n := range reportedCounters {
		v, err := via.endpoint.NIC.Counter(t, n)
		if err != nil {
			return err
		}
		if v != 0 {
			counts[n.String()] = uint64(v)
		}
	}
	x.counters[t.ID().Node] = counts
	return nil
}

// counts are the counters of cards and switch, by node, in a finished run; nil
// without a switch.
func (x *comparison) counts(d bridge.Digest) []NodeCounts {
	if !x.config.switched() {
		return nil
	}
	list := make([]NodeCounts, x.config.nodes())
	for n := range list {
		p := d.Switch.Ports[n]
		list[n] = NodeCounts{Card: x.counters[n], Forwarded: p.Forwarded, NoRoom: p.NoRoom, HighestFilling: p.HighestFilling}
	}
	return list
}

// first reports whether the thread is the first of its node.
func first(t *host.Thread) bool { return t.ID().Rank == driver.AgentRank+1 }

// barrier makes all threads start or finish a stage at one instant.
func (x *comparison) barrier(t *host.Thread, s int, end bool) error {
	id := barrierStage + 2*uint64(s)
	if end {
		id++
	}
	return x.meet(t, id, x.parties)
}

// meter reads the time spent by the thread and, for the first of its node's
// threads, by the agent.
func meter(t *host.Thread, h *driver.Host) host.Account {
	a := t.Spent()
	if first(t) {
		a = a.Plus(h.Spent())
	}
	return a
}

func (n *note) start(t *host.Thread, h *driver.Host) { n.begin, n.spent = t.Now(), meter(t, h) }

func (n *note) stop(t *host.Thread, h *driver.Host) {
	n.end, n.spent, n.complete = t.Now(), meter(t, h).Less(n.spent), true
}

// exchanged returns the lengths of the k-th request and reply of a stage.
func (x *comparison) exchanged(s *stage, k int) (request, reply int) {
	if s.size > 0 {
		return s.size, s.size
	}
	m := x.config.Mix[s.kinds[k]]
	return m.Request, m.Reply
}

// content is the k-th message of a sender in a stage.
func (x *comparison) content(stage, sender, k int) rig.Pattern {
	return rig.Pattern{Seed: x.config.Seed ^ stageSeed*uint64(stage+1), Sender: sender, Round: k}
}

// exchangeSlots has one slot for the message in flight and one for the next.
// One of them is ready at the start (see rig.Side).
const exchangeSlots = 2

// hand sends a message of an exchange and adds a slot for the next one. On the
// card it reaps the send while the message is in flight. In a kernel it reaps
// the send after the reply, which saves a wake (see rig.Side).
func (x *comparison) hand(t *host.Thread, c channel, p rig.Pattern, n int) error {
	if err := c.send(t, p, n); err != nil {
		return err
	}
	if err := c.replenish(t); err != nil {
		return err
	}
	if x.protocol.inKernel() {
		return nil
	}
	return c.settle(t, 0)
}

// eachStage runs a thread's part of every stage between two barriers, and
// closes its channels. A late thread's measurement ends after the second
// barrier.
func (x *comparison) eachStage(t *host.Thread, h *driver.Host, party int, late bool, channels []channel, part func(i int, s *stage, n *note) error) error {
	for i := range x.stages {
		s := &x.stages[i]
		n := &s.notes[party]
		for _, c := range channels {
			if err := c.begin(t); err != nil {
				return err
			}
		}
		if err := x.barrier(t, i, false); err != nil {
			return err
		}
		if err := part(i, s, n); err != nil {
			return err
		}
		if !late {
			n.stop(t, h)
		}
		if err := x.barrier(t, i, true); err != nil {
			return err
		}
		if late {
			n.stop(t, h)
		}
		if party == 0 {
			x.report(t, i)
		}
	}
	return x.close(t, channels...)
}

// client sends requests, each after the reply to the one before.
func (x *comparison) client(t *host.Thread, h *driver.Host) error {
	channels, err := x.open(t, h, channelConfig{size: x.config.largest(), slots: exchangeSlots, receives: 1}, 1)
	if err != nil {
		return err
	}
	c := channels[0]
	if err := c.dial(t, 0); err != nil {
		return err
	}
	return x.eachStage(t, h, 0, false, channels, func(i int, s *stage, n *note) error {
		replies := x.reader(c, patience, s.total, func(k int) (rig.Pattern, int) {
			_, reply := x.exchanged(s, k)
			return x.content(i, 1, k), reply
		})
		for k := range s.total {
			if k == s.warmup {
				n.start(t, h)
				replies.lost = 0
			}
			request, _ := x.exchanged(s, k)
			began := t.Now()
			if err := x.hand(t, c, x.content(i, 0, k), request); err != nil {
				return fmt.Errorf("request %d: %w", k, err)
			}
			got, err := replies.take(t)
			if err != nil {
				return err
			}
			if err := c.settle(t, 0); err != nil {
				return fmt.Errorf("request %d: %w", k, err)
			}
			took := host.Time(-1)
			if got == k {
				took = t.Now() - began
			}
			n.rounds = append(n.rounds, took)
		}
		n.lost, n.fault = replies.lost, replies.fault
		return nil
	})
}

func (x *comparison) server(t *host.Thread, h *driver.Host) error {
	channels, err := x.open(t, h, channelConfig{size: x.config.largest(), slots: exchangeSlots, receives: 1}, 1)
	if err != nil {
		return err
	}
	c := channels[0]
	if err := c.accept(t, 0); err != nil {
		return err
	}
	return x.eachStage(t, h, 1, false, channels, func(i int, s *stage, n *note) error {
		requests := x.reader(c, longPatience, s.total, func(k int) (rig.Pattern, int) {
			request, _ := x.exchanged(s, k)
			return x.content(i, 0, k), request
		})
		for counted := false; requests.next < s.total; {
			if !counted && requests.next >= s.warmup {
				counted = true
				n.start(t, h)
			}
			k, err := requests.take(t)
			if err != nil {
				return err
			}
			if err := c.settle(t, 0); err != nil {
				return fmt.Errorf("reply before %d: %w", requests.next, err)
			}
			if k < 0 {
				continue
			}
			_, reply := x.exchanged(s, k)
			if err := x.hand(t, c, x.content(i, 1, k), reply); err != nil {
				return fmt.Errorf("reply %d: %w", k, err)
			}
		}
		if err := c.settle(t, 0); err != nil {
			return err
		}
		n.fault = requests.fault
		return nil
	})
}

// slots is capacity for the largest window of any stage.
func (x *comparison) slots() int {
	n := exchangeSlots
	for _, s := range x.stages {
		n = max(n, s.window)
	}
	return n
}

// grantEvery is the number of messages of one grant: half a window, so that the
// sender has the next grant before it has used the last.
func (s *stage) grantEvery() int { return max(1, s.window/2) }

// grants are the messages by which a receiver reports free capacity.
func (x *comparison) grants(stage int) func(k int) (rig.Pattern, int) {
	return func(k int) (rig.Pattern, int) {
		return rig.Pattern{Seed: x.config.Seed ^ grantSeed ^ stageSeed*uint64(stage+1), Sender: 1, Round: k}, grantBytes
	}
}

// sender sends its messages, with at most a window in flight, unless the
// protocol has flow control.
func (x *comparison) sender(t *host.Thread, h *driver.Host, number int) error {
	channels, err := x.open(t, h, channelConfig{size: x.config.largest(), slots: x.slots(), receives: x.slots()}, 1)
	if err != nil {
		return err
	}
	c := channels[0]
	if err := c.dial(t, number); err != nil {
		return err
	}
	return x.eachStage(t, h, number, true, channels, func(i int, s *stage, n *note) error {
		n.start(t, h)
		total := s.total / s.grantEvery()
		if x.protocol.paces {
			total = 0
		}
		grants := x.reader(c, patience, total, x.grants(i))
		granted := 0
		// await takes the next grant and says whether it came.
		await := func() (bool, error) {
			g, err := grants.take(t)
			if err != nil || g < 0 {
				return false, err
			}
			granted = (g + 1) * s.grantEvery()
			return true, c.replenish(t)
		}
		for k := range s.total {
			for !x.protocol.paces && k-granted >= s.window {
				came, err := await()
				if err != nil {
					return err
				}
				if !came {
					granted = k // nothing is in flight any more
				}
			}
			n.sent = append(n.sent, t.Now())
			if err := c.send(t, x.content(i, number, k), s.size); err != nil {
				return fmt.Errorf("message %d: %w", k, err)
			}
		}
		if err := c.settle(t, 0); err != nil {
			return err
		}
		// The receiver also grants lost messages, so that no grant is left for
		// the next stage.
		grants.patience = max(grants.patience, lastPatience)
		for came := true; came && grants.next < total; {
			if came, err = await(); err != nil {
				return err
			}
		}
		n.fault = grants.fault
		return nil
	})
}

func (x *comparison) receiver(t *host.Thread, h *driver.Host) error {
	waiting := x.slots()
	if x.config.Receives > 0 {
		waiting = min(waiting, x.config.Receives)
	}
	channels, err := x.open(t, h, channelConfig{size: x.config.largest(), slots: x.slots(), receives: waiting}, x.parties-1)
	if err != nil {
		return err
	}
	for i, c := range channels {
		if err := c.accept(t, i); err != nil {
			return err
		}
	}
	return x.eachStage(t, h, len(channels), true, channels, func(i int, s *stage, n *note) error {
		n.came = make([][]host.Time, len(channels))
		readers := make([]*reader, len(channels))
		for j, c := range channels {
			readers[j] = x.reader(c, longPatience, s.total, func(k int) (rig.Pattern, int) { return x.content(i, j, k), s.size })
			n.came[j] = make([]host.Time, s.total)
			for k := range n.came[j] {
				n.came[j][k] = -1
			}
		}
		n.start(t, h)
		granted := make([]int, len(channels))
		for last := 0; ; {
			j, err := x.nextReader(t, h, readers, last)
			if err != nil {
				return err
			}
			if j < 0 {
				break
			}
			last = j
			k, err := readers[j].take(t)
			if err != nil {
				return err
			}
			if k < 0 {
				// The sender would have continued by now: nothing more will
				// come.
				readers[j].giveUp()
			} else {
				n.came[j][k] = t.Now()
				if err := channels[j].replenish(t); err != nil {
					return err
				}
			}
			for ; !x.protocol.paces && granted[j] < readers[j].next/s.grantEvery(); granted[j]++ {
				p, bytes := x.grants(i)(granted[j])
				if err := channels[j].send(t, p, bytes); err != nil {
					return fmt.Errorf("grant %d: %w", granted[j], err)
				}
			}
		}
		for j, c := range channels {
			if err := c.settle(t, 0); err != nil {
				return err
			}
			n.lost += readers[j].lost
			if n.fault == "" {
				n.fault = readers[j].fault
			}
		}
		return nil
	})
}

func (x *comparison) report(t *host.Thread, i int) {
	if x.config.Progress == nil {
		return
	}
	what := fmt.Sprintf("%s, %d bytes", x.protocol.name, x.stages[i].size)
	if x.stages[i].size == 0 {
		what = x.protocol.name + ", the mix"
	}
	x.config.Progress(rig.Progress{
		What: what, Done: i + 1, Total: len(x.stages), TimePs: int64(t.Now()), Cycles: int64(t.Now()) / x.board.Value("SystemClockPeriod"),
	})
}
