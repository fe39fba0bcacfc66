// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// lossyLink injects every kind of fault, in both directions.
const lossyLink = "drop=1%,duplicate=1%,reorder=1%,corrupt=0.1%"

// transferKind is an operation that moves bytes between hosts.
type transferKind struct {
	name      string
	operation layout.StatusOperation // of the initiator's descriptors
	immediate bool
}

var transferKinds = []transferKind{
	{"send", layout.StatusOperationSend, false},
	{"RDMA write", layout.StatusOperationRDMAWrite, false},
	{"RDMA write with immediate data", layout.StatusOperationRDMAWrite, true},
	{"RDMA read", layout.StatusOperationRDMARead, false},
}

// receives reports whether messages consume receive descriptors.
func (k transferKind) receives() bool {
	return k.operation == layout.StatusOperationSend || k.immediate
}

func (k transferKind) reads() bool { return k.operation == layout.StatusOperationRDMARead }

// A transfer is many messages in rounds. Each round uses one half of both
// hosts' memory; the other half must stay clear.
const (
	transferHalf    = 256 * 1024
	transferLongest = 64 * 1024
)

type transferMessage struct{ number, at, n int }

type transferRound struct {
	base     int // start of its half
	messages []transferMessage
}

// transferRounds draws messages of mixed sizes, `total` bytes together. The
// last message of a round overwrites the first.
func transferRounds(seed uint64, total int) (rounds []transferRound) {
	random := rand.New(rand.NewPCG(seed, 1))
	number := 0
	for total > 0 {
		r := transferRound{base: len(rounds) % 2 * transferHalf}
		add := func(at, n int) {
			r.messages = append(r.messages, transferMessage{number, at, n})
			number++
			total -= n
		}
		at := r.base + random.IntN(64)
		for total > 0 {
			n := min(total, 1+random.IntN([]int{64, layout.MaxPayload + 1, 9000, transferLongest}[random.IntN(4)]))
			if at+n+64 > r.base+transferHalf {
				break
			}
			add(at, n)
			at += n + random.IntN(13)
		}
		if first := r.messages[0]; total > first.n {
			add(first.at, first.n)
		}
		rounds = append(rounds, r)
	}
	return rounds
}

// source is the offset from which a message is sent. Messages with the same
// target have different sources.
func (r transferRound) source(m transferMessage) int {
	if first := r.messages[0]; m != first && m.at == first.at {
		return m.at
	}
	return m.at - r.base + transferHalf - r.base
}

// holds checks the bytes that a round must leave in its half, and clears them.
func (r transferRound) holds(memory []byte) error {
	want := make([]byte, transferHalf)
	for _, m := range r.messages {
		copy(want[m.at-r.base:], Pattern(m.n, m.number))
	}
	half := memory[r.base:][:transferHalf]
	for i := range want {
		if half[i] != want[i] {
			return fmt.Errorf("messages %d to %d: byte %d is %#x, want %#x", r.messages[0].number, r.messages[len(r.messages)-1].number, r.base+i, half[i], want[i])
		}
	}
	clear(half)
	return nil
}

// untouched checks that nothing arrives in a half after its round.
func (r transferRound) untouched(memory []byte) error {
	if half := memory[r.base:][:transferHalf]; !bytes.Equal(half, make([]byte, transferHalf)) {
		return fmt.Errorf("before message %d: something came into the half after its round", r.messages[0].number)
	}
	return nil
}

// transfer is both programs of a transfer.
type transfer struct {
	kind   transferKind
	level  vipl.ReliabilityLevel
	rounds []transferRound

	busy     host.Time // with messages in flight
	counters [2]map[layout.Counter]uint32
}

var transferCounters = []layout.Counter{layout.CounterRewind, layout.CounterRetryTimeout, layout.CounterRetransmitFrame, layout.CounterRetryExhausted}

// halves registers memory for two halves.
func (p *Peer) halves() (*vipl.Region, error) {
	b := must(p.NIC.Alloc(p.T, 2*transferHalf))
	return p.NIC.RegisterBuffer(p.T, b, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true})
}

func (x *transfer) initiate(e *Env) error {
	p := must(e.Dial(1, reliableRights(x.level)))
	memory := must(p.halves())
	to := must(p.Hear())
	for _, r := range x.rounds {
		if x.kind.reads() {
			check(r.untouched(memory.Bytes()))
		}
		check(p.Meet(1))
		begin := p.T.Now()
		check(x.post(p, r, memory, to))
		x.busy += p.T.Now() - begin
		if x.kind.reads() {
			check(r.holds(memory.Bytes()))
		}
		check(p.Meet(1))
	}
	p.ended("all messages")
	p.InState("all messages", vipl.Connected)
	x.counters[0] = must(e.counters(transferCounters...))
	return p.Settled(1)
}

// post posts all messages of a round, then reaps them.
func (x *transfer) post(p *Peer, r transferRound, memory *vipl.Region, to Remote) error {
	var posted []*vipl.Descriptor
	for _, m := range r.messages {
		d, own := p.Next(), memory.Segment(r.source(m), m.n)
		if !x.kind.reads() {
			copy(memory.Bytes()[r.source(m):], Pattern(m.n, m.number))
		}
		switch x.kind.operation {
		case layout.StatusOperationRDMARead:
			d.SetRDMARead(to.Address+uint64(r.source(m)), to.Handle, memory.Segment(m.at, m.n))
		case layout.StatusOperationRDMAWrite:
			d.SetRDMAWrite(to.Address+uint64(m.at), to.Handle, own)
		default:
			check(d.SetSend(own))
		}
		if x.kind.immediate {
			d.AttachImmediate(uint32(m.number))
		}
		check(p.VI.PostSend(p.T, d))
		posted = append(posted, d)
	}
	for i, m := range r.messages {
		p.Sent(fmt.Sprintf("message %d", m.number), posted[i], outcome{operation: x.kind.operation, length: m.n})
	}
	return nil
}

func (x *transfer) answer(e *Env) error {
	p := must(e.Serve(reliableRights(x.level)))
	memory := must(p.halves())
	check(p.tellRegion(0, memory))
	for _, r := range x.rounds {
		check(x.await(p, r, memory))
	}
	p.ended("all messages")
	p.InState("all messages", vipl.Connected)
	x.counters[1] = must(e.counters(transferCounters...))
	return p.Settled(0)
}

// await is the target's half of a round.
func (x *transfer) await(p *Peer, r transferRound, memory *vipl.Region) error {
	if x.kind.reads() {
		for _, m := range r.messages {
			copy(memory.Bytes()[r.source(m):], Pattern(m.n, m.number))
		}
		check(p.Meet(0)) // the reads may start
		return p.Meet(0)
	}
	check(r.untouched(memory.Bytes()))
	var posted []*vipl.Descriptor
	for _, m := range r.messages {
		if !x.kind.receives() {
			break
		}
		d := p.Next()
		var segments []vipl.Segment
		if x.kind.operation == layout.StatusOperationSend {
			segments = append(segments, memory.Segment(m.at, m.n))
		}
		check(d.SetReceive(segments...))
		check(p.VI.PostRecv(p.T, d))
		posted = append(posted, d)
	}
	check(p.Meet(0))
	for i, d := range posted {
		m := r.messages[i]
		want := Received(m.n)
		if x.kind.immediate {
			want = outcome{operation: layout.StatusOperationRemoteRDMAWrite, length: m.n}.with(uint32(m.number))
		}
		p.Take(fmt.Sprintf("message %d", m.number), d, want)
	}
	if !x.kind.receives() {
		// With reliable delivery the send may complete before the bytes are in
		// memory.
		m := r.messages[len(r.messages)-1]
		last := Pattern(m.n, m.number)[m.n-1]
		Step(memory.Poll(p.T, m.at+m.n-1, 1, host.Second, func() bool { return memory.Bytes()[m.at+m.n-1] == last }), "the end of message %d", m.number)
	}
	check(r.holds(memory.Bytes()))
	return p.Meet(0)
}

// Messages of mixed sizes cross a link that loses, duplicates, corrupts and
// reorders frames. With every operation each byte is right and in order, and
// arrives once.
func TestTransportLoss(t *testing.T) {
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		total, faults := conformtest.Long(500_000, 100_000_000), map[layout.WireFault]uint64{}
		for _, kind := range transferKinds {
			t.Run(kind.name, func(t *testing.T) {
				x := &transfer{kind: kind, level: level, rounds: transferRounds(conformtest.Seed(t), total)}
				start := time.Now()
				r := cardRun{faults: lossyLink, limit: time.Hour}.must(t, x.initiate, x.answer)
				bytes, messages := 0, 0
				for _, round := range x.rounds {
					for _, m := range round.messages {
						bytes, messages = bytes+m.n, messages+1
					}
				}
				require.Equal(t, total, bytes)
				text := ""
				for node, list := range x.counters {
					require.Zero(t, list[layout.CounterRetryExhausted])
					text += fmt.Sprintf("; node %d: Rewind %d, RetryTimeout %d, RetransmitFrame %d", node,
						list[layout.CounterRewind], list[layout.CounterRetryTimeout], list[layout.CounterRetransmitFrame])
				}
				for _, k := range []layout.WireFault{layout.WireFaultDrop, layout.WireFaultDuplicate, layout.WireFaultReorder, layout.WireFaultCorrupt} {
					n := r.done(0, k) + r.done(1, k)
					faults[k] += n
					text += fmt.Sprintf("; %v %d", k, n)
				}
				sender := 0
				if kind.reads() {
					sender = 1
				}
				require.NotZero(t, x.counters[sender][layout.CounterRewind])
				require.NotZero(t, x.counters[sender][layout.CounterRetransmitFrame])
				t.Logf("%d bytes in %d messages: %.2f MB/s in %v%s; wall %v", bytes, messages,
					float64(bytes)/1e6/(float64(x.busy)/float64(host.Second)), x.busy, text, time.Since(start).Round(time.Millisecond))
			})
		}
		for _, k := range []layout.WireFault{layout.WireFaultDrop, layout.WireFaultDuplicate, layout.WireFaultReorder, layout.WireFaultCorrupt} {
			require.NotZero(t, faults[k], "no frame met a %v: the run proves nothing about it", k)
		}
	})
}
