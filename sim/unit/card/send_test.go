// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"slices"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/unit/internal/unit"
)

// end is one side of a conversation: a VI and its memory, which no other VI may
// access.
type end struct {
	vi     *vi
	source *region // sent from
	inbox  *region // buffers of receives
	target *region // of the peer's RDMA writes
}

const (
	endQueueBytes = 4 * pageBytes // of each queue
	endBytes      = 9000          // of each region
	longestText   = 6000          // of a valid message
)

// lengths of messages and buffers at which frames, bursts and lanes start and
// end.
var lengths = []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 511, 512, 513, layout.MaxPayload - 1, layout.MaxPayload, layout.MaxPayload + 1,
	2*layout.MaxPayload - 1, 2 * layout.MaxPayload, 2*layout.MaxPayload + 1, 3 * layout.MaxPayload, 4096, longestText}

// segmentCounts are the numbers of segments at which chunks of a descriptor
// start and end.
var segmentCounts = []int{0, 1, 1, 1, 1, 2, 2, 3, 5, 6, 7, 9, 10, 11, 30}

// converse makes a pair of VIs with memory for all operations.
func (r *rig) converse(index [2]uint8, tag [2]uint16) [2]*end {
	var ends [2]*end
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		e := &end{vi: m.createVIWith(index[n], tag[n], true, endQueueBytes)}
		e.source = m.register(m.random.IntN(pageBytes), endBytes, tag[n], false)
		e.inbox = m.register(m.random.IntN(pageBytes), endBytes, tag[n], false)
		e.target = m.register(m.random.IntN(pageBytes), endBytes, tag[n], true)
		e.source.scramble()
		ends[n] = e
	})
	r.connect(ends[0].vi, ends[1].vi)
	return ends
}

func (m *machine) length() int {
	if m.random.IntN(2) == 0 {
		return lengths[m.random.IntN(len(lengths))]
	}
	return m.random.IntN(longestText + 1)
}

// pieces are n bytes in the given number of segments of a region, each anywhere
// in it, some of them empty.
func (m *machine) pieces(g *region, n, count int) []segment {
	if count == 0 {
		return nil
	}
	cuts := []int{0, n}
	for range count - 1 {
		cuts = append(cuts, m.random.IntN(n+1))
	}
	slices.Sort(cuts)
	var parts []segment
	for i := range count {
		k := cuts[i+1] - cuts[i]
		p := g.part(m.random.IntN(g.length-k+1), k)
		if k == 0 && m.random.IntN(2) == 0 {
			p = segment{address: m.random.Uint64(), handle: m.random.Uint32()} // never used
		}
		parts = append(parts, p)
	}
	return parts
}

func (e *end) text(peer *end) descriptor {
	m := e.vi.m
	n, count := m.length(), segmentCounts[m.random.IntN(len(segmentCounts))]
	if m.random.IntN(40) == 0 {
		count = layout.MaxDataSegments
	}
	if count == 0 {
		n = 0
	}
	d := buffers(m.pieces(e.source, n, count)...)
	if m.random.IntN(3) == 0 {
		d = d.to(peer.target, m.random.IntN(peer.target.length-n+1))
	}
	if m.random.IntN(3) == 0 {
		d = d.with(m.random.Uint32())
	}
	if m.random.IntN(8) == 0 {
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	return d
}

func (e *end) buffer() descriptor {
	m := e.vi.m
	n, count := m.length(), segmentCounts[m.random.IntN(len(segmentCounts))]
	switch m.random.IntN(4) {
	case 0, 1:
		n = longestText
	}
	if m.random.IntN(40) == 0 {
		count = layout.MaxDataSegments
	}
	if count == 0 {
		n = 0
	}
	d := buffers(m.pieces(e.inbox, n, count)...)
	switch m.random.IntN(10) {
	case 0: // Length is a separate limit
		d.length = m.random.Uint32N(d.length + 1)
	case 1:
		d.length += m.random.Uint32N(100)
	case 2: // without meaning here
		d = d.with(m.random.Uint32())
		d.control |= layout.DescriptorControlQueueFenceMask
	}
	return d
}

func (m *machine) spoil(d *descriptor, receive bool) {
	bad := func() *segment {
		if len(d.data) == 0 {
			d.data, d.segments = append(d.data, segment{length: 5}), d.segments+1
			d.length += 5
		}
		return &d.data[m.random.IntN(len(d.data))]
	}
	if d.addressed && m.random.IntN(3) == 0 {
		switch m.random.IntN(4) {
		case 0:
			d.remote.address ^= 1 << m.random.IntN(64)
		case 1:
			d.remote.handle ^= 1 << m.random.IntN(32)
		case 2:
			d.remote.length = 1 << m.random.IntN(32) // reserved
		case 3:
			d.remote.address -= 1 + m.random.Uint64N(5000)
		}
		return
	}
	switch m.random.IntN(13) {
	case 12:
		d.overhangs = true // a chunk of it cannot be read, if it has more than one
	case 0:
		d.control ^= 1 << (layout.DescriptorControlReservedLsb + m.random.IntN(16-layout.DescriptorControlReservedLsb))
	case 1:
		d.control |= uint16(2+m.random.IntN(2)) << layout.DescriptorControlOperationLsb
	case 2:
		d.reserved = 1 << m.random.IntN(32)
	case 3:
		d.segments = layout.MaxDataSegments + 2 + uint16(m.random.IntN(1<<14))
	case 4, 5:
		s := bad()
		s.handle ^= 1 << m.random.IntN(32)
	case 6, 7:
		s := bad()
		s.address ^= 1 << m.random.IntN(64)
	case 8:
		s := bad() // a segment that the sum omits, at least in part
		s.length += 1 + m.random.Uint32N(3000)
	case 9:
		if !receive && d.length > 0 { // the message stays without its end, or is too long for its buffers
			d.length += 1 + m.random.Uint32N(3000)
		}
	case 10:
		s := bad()
		more := 1<<16 + 1 - d.length // beyond the VI's limit
		s.length += more
		d.length += more
	case 11:
		d.segments = uint16(m.random.IntN(int(d.segments) + 4))
	}
}

const conversationPairs = 2

// conversed is the state of a conversation.
type conversed struct {
	*rig
	ends [conversationPairs][2]*end
	// Send descriptors flushed, those of them after some frames, and receive
	// descriptors on the card that lost their memory.
	flushed, partial, stale int
}

// post posts some receives, some of them with errors.
func (x *conversed) post(m *machine) {
	for k := range x.ends {
		e := x.ends[k][m.thread.ID().Node]
		for range m.random.IntN(6) {
			d := e.buffer()
			if m.random.IntN(6) == 0 {
				m.spoil(&d, true)
			}
			if _, _, ok := e.vi.receive.room(d); ok && len(e.vi.receive.posted) < 8 {
				e.vi.postReceive(d)
			}
		}
	}
}

// say posts some sends, some of them with errors, and waits.
func (x *conversed) say(m *machine) {
	n := m.thread.ID().Node
	for range 2 * conversationPairs { // each can be two asynchronous errors at the peer
		ends := x.ends[m.random.IntN(conversationPairs)]
		e := ends[n]
		d := e.text(ends[1-n])
		if m.random.IntN(5) == 0 {
			m.spoil(&d, false)
		}
		if _, _, ok := e.vi.send.room(d); ok {
			e.vi.post(d)
		}
	}
	m.finish()
}

func (x *conversed) exchange() {
	x.both(x.say)
	x.settle()
	x.carry()
}

// loseMemory withdraws the memory of receives while they name it: their buffers
// or their descriptors.
func (x *conversed) loseMemory(ends [2]*end, mayBeInbox bool) {
	n := x.random.IntN(2)
	e := ends[n]
	inbox := mayBeInbox && x.random.IntN(2) == 0
	x.on(n, func(m *machine) {
		if inbox {
			m.withdraw(e.inbox)
			m.release(e.inbox)
			e.inbox = m.register(m.random.IntN(pageBytes), endBytes, e.vi.tag, false)
			return
		}
		if e.vi.head != nil {
			x.stale++
		}
		m.withdraw(e.vi.receive.region)
		m.suspend(e.vi.receive.region)
	})
	x.exchange()
	if inbox {
		return
	}
	old := e.vi.receive.region
	x.reconnect(ends, func(m *machine) {
		if m == e.vi.m {
			m.resume(old)
			m.release(old)
			e.vi.receive.region, e.vi.receive.at = m.register(0, endQueueBytes, e.vi.tag, false), 0
		}
	}, nil)
}

// leave disconnects one side in the middle of its work.
func (x *conversed) leave(ends [2]*end) {
	n := x.random.IntN(2)
	e, peer := ends[n], ends[1-n]
	// An open message: its segments end too soon.
	x.on(1-n, func(m *machine) {
		d := buffers(m.pieces(peer.source, longestText, 3)...)
		if m.random.IntN(2) == 0 {
			d = d.to(e.target, 0)
		}
		if m.random.IntN(2) == 0 {
			d = d.with(5)
		}
		d.length += layout.MaxPayload
		peer.vi.post(d)
		peer.vi.finish()
	})
	x.settle()
	x.carry()
	x.both((*machine).verifyErrors)
	x.on(n, func(m *machine) {
		for range 2 + m.random.IntN(8) {
			d := e.text(peer)
			if _, _, ok := e.vi.send.room(d); ok {
				e.vi.post(d)
			}
		}
		m.sleep(host.Time(m.random.Int64N(int64(150 * host.Microsecond))))
		e.vi.disconnect()
	})
	x.settle()
	f, p := e.vi.cut()
	x.flushed, x.partial = x.flushed+f, x.partial+p
	e.vi.flushed()
	x.reconnect(ends, nil, e.vi)
}

// covered requires of a long conversation that it met everything.
func (x *conversed) covered(rounds uint64) {
	x.t.Logf("%d send descriptors flushed, %d of them after some frames; %d receive descriptors on the card lost their memory", x.flushed, x.partial, x.stale)
	for _, c := range []layout.Counter{
		layout.CounterReceiveFrame, layout.CounterReceiveProtection, layout.CounterReceiveAborted, layout.CounterReceiveQueueEmpty, layout.CounterReceiveDropped,
		layout.CounterReceiveLength, layout.CounterReceiveDescriptorError, layout.CounterReceiveMessage, layout.CounterDescriptorFlushed, layout.CounterDescriptorError,
		layout.CounterTransmitAborted, layout.CounterCompletionError, layout.CounterDescriptorBad,
	} {
		n := x.node[0].counts[c] + x.node[1].counts[c]
		x.t.Logf("%v: %d", c, n)
		if rounds >= 100 && n == 0 {
			fail("the conversation did not cover %v: it came %d times", c, n)
		}
	}
	if rounds >= 100 && (x.flushed == 0 || x.partial == 0 || x.stale == 0) {
		fail("%d send descriptors were flushed, %d of them after some frames, %d receive descriptors were stale: one of these is missing", x.flushed, x.partial, x.stale)
	}
}

// conversation sends messages both ways on some pairs of VIs, with all possible
// errors of a send or a receive. Whenever all is settled it compares
// everything.
func conversation(rounds uint64) func(r *rig) {
	return func(r *rig) {
		x := &conversed{rig: r}
		for i := range x.ends {
			x.ends[i] = r.converse([2]uint8{uint8(30 + i), uint8(200 + i)}, [2]uint16{uint16(21 + i), uint16(31 + i)})
		}
		for i := range rounds {
			r.both(x.post)
			ends := x.ends[r.random.IntN(conversationPairs)]
			kind := r.random.IntN(9)
			switch {
			case i%16 == 0 || kind == 0:
				x.loseMemory(ends, i%16 != 0)
			case kind <= 2:
				x.leave(ends)
			default:
				x.exchange()
			}
			r.both((*machine).verifyMemory)
			r.both((*machine).verifyErrors)
			if i%8 == 7 {
				r.both((*machine).verifyCounters)
			}
		}
		x.covered(rounds)
	}
}

func (r *rig) on(n int, job func(m *machine)) {
	if n == 0 {
		job(r.node[0])
		return
	}
	r.b(job)
}

// reconnect disconnects those ends that are still connected, which flushes
// their posted receives. Both machines run `meanwhile`. Then it connects the
// ends again.
func (r *rig) reconnect(ends [2]*end, meanwhile func(m *machine), left *vi) {
	r.both(func(m *machine) {
		v := ends[m.thread.ID().Node].vi
		if v != left {
			v.disconnect()
			v.flushed()
		}
	})
	if meanwhile != nil {
		r.both(meanwhile)
	}
	// Receives may be posted before there is a connection. A send is flushed.
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		v := ends[n].vi
		for range m.random.IntN(3) {
			v.postReceive(ends[n].buffer())
		}
		if m.random.IntN(3) == 0 {
			v.post(ends[n].text(ends[1-n]))
		}
		m.finish()
	})
	r.settle()
	r.carry()
	r.connect(ends[0].vi, ends[1].vi)
}

func TestConversation(t *testing.T) {
	mustPlay(t, config{}, conversation(unit.Sizes{Short: 2, Normal: 40, Long: 10_000}.Pick()))
}

// The same behind a host bridge that splits bursts of stores.
func TestConversationInSplitBursts(t *testing.T) {
	takesSeconds(t)
	c := config{params: map[string]int64{"BridgeSplitWrites": 400}}
	mustPlay(t, c, conversation(unit.Sizes{Short: 2, Normal: 12, Long: 5000}.Pick()))
}
