// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
)

type library struct {
	b        *bench
	number   uint32
	base     uint32
	log2     uint32
	consumed uint32
}

const ringPages = 3 // a header and 1,024 entries

// ring clears a ring and executes a command with it.
func (l *library) ring(op layout.CommandOpcode, base, log2 uint32) (detail uint32) {
	clear(l.b.memory[base:][:ringPages*layout.AttPageBytes])
	detail, status := l.b.engine.CompletionQueueCommand(op, l.number, base, log2)
	require.Equal(l.b.t, layout.CommandStatusDone, status)
	l.base, l.log2 = base, log2
	return detail
}

func (l *library) take() (id QueueID, sequence uint16, ok bool) {
	at := l.base + layout.CompletionQueueHeaderSize + l.consumed%(1<<l.log2)*layout.CompletionEntrySize
	e := layout.CompletionEntry(l.b.memory[at:])
	odd := l.consumed>>l.log2%2 == 0
	if (e.Word()&layout.CompletionEntryWordLapMask != 0) != odd {
		return id, 0, false
	}
	require.NotZero(l.b.t, e.Word()&layout.CompletionEntryWordValidMask)
	l.consumed++
	return QueueID{VI: int(e.Word() & layout.CompletionEntryWordVIMask), Of: Queue(e.Word() & layout.CompletionEntryWordReceiveMask >> layout.CompletionEntryWordReceiveLsb)},
		uint16(e.Sequence()), true
}

func (l *library) say() { layout.CompletionQueueHeader(l.b.memory[l.base:]).SetConsumed(l.consumed) }

func (b *bench) command(op layout.CommandOpcode, index int, context layout.VIContext) {
	_, status := b.engine.Command(0, op, uint32(index), context)
	require.Equal(b.t, layout.CommandStatusDone, status)
}

// Completions of many queues in few completion queues: each has one entry, in
// order, behind its Status, unless the ring is full, which is reported and
// counted; also through resizes. The test compares with a model.
func TestCompletionQueues(t *testing.T) {
	const seed, vis, queues, steps = 3, 4, 3, 30_000
	random := rand.New(rand.NewPCG(seed, seed))
	b := newBench(t)
	b.memory = make([]byte, 1<<21)
	b.engine = New[int](b, Config{QueueDepth: 1024, CompletionQueues: queues})
	const slots, first = 64, 1 << 19 // descriptors of a queue, used in turn; their start
	place := func(id QueueID, n int) uint64 { return uint64(first + ((id.VI*2+int(id.Of))*slots+n%slots)*slot) }
	rings := []uint32{}
	for at := uint32(1 << 20); at < 1<<21; at += ringPages * layout.AttPageBytes {
		if at+ringPages*layout.AttPageBytes <= 1<<21 {
			rings = append(rings, at)
		}
	}
	nextRing := 0
	ring := func() uint32 { nextRing++; return rings[nextRing%len(rings)] }

	type entry struct {
		id       QueueID
		sequence uint16
	}
	libraries := make([]library, queues)
	expected := make([][]entry, queues) // outstanding entries
	overruns := 0
	armed := map[notification]bool{}
	var told []notification
	for i := range libraries {
		libraries[i] = library{b: b, number: uint32(i)}
		libraries[i].ring(layout.CommandOpcodeCreateCompletionQueue, ring(), 1+uint32(i)*2)
	}
	tied := func(id QueueID) int { return (id.VI+int(id.Of))%(queues+1) - 1 } // -1 = none
	context := func(vi int) layout.VIContext {
		c := make(layout.VIContext, layout.VIContextSize)
		c.SetMaxTransferSize(1 << 16)
		c.SetSendCompletionQueue(uint8(tied(QueueID{vi, SendQueue}) + 1))
		c.SetReceiveCompletionQueue(uint8(tied(QueueID{vi, ReceiveQueue}) + 1))
		c.SetPeerVI(uint16(vi))
		return c
	}
	for vi := range vis {
		b.command(layout.CommandOpcodeCreateVI, vi, context(vi))
		b.command(layout.CommandOpcodeConnectVI, vi, context(vi))
	}
	var posted, done [vis][2]int
	completed := func(id QueueID) {
		n := notification{[...]layout.NotifyKind{layout.NotifyKindSend, layout.NotifyKindReceive}[id.Of], id.VI}
		if q := tied(id); q >= 0 {
			if l := &libraries[q]; len(expected[q]) < 1<<l.log2 {
				expected[q] = append(expected[q], entry{id, uint16(done[id.VI][id.Of])})
				if k := (notification{layout.NotifyKindCompletionQueue, q}); armed[k] {
					delete(armed, k)
					told = append(told, k)
				}
			} else {
				overruns++
			}
		}
		if armed[n] {
			delete(armed, n)
			told = append(told, n)
		}
		done[id.VI][id.Of]++
	}
	// Status is stored before the entry.
	b.stored = func(address uint32) {
		for q := range libraries {
			l := libraries[q]
			if address < l.base || address >= l.base+ringPages*layout.AttPageBytes {
				continue
			}
			e := layout.CompletionEntry(b.memory[address-layout.CompletionEntryWordOffset:])
			id := QueueID{int(e.Word() & layout.CompletionEntryWordVIMask), Queue(e.Word() & layout.CompletionEntryWordReceiveMask >> layout.CompletionEntryWordReceiveLsb)}
			d := layout.Descriptor(b.memory[place(id, int(e.Sequence())):])
			require.NotZero(t, d.Status()&layout.DescriptorStatusDoneMask, "entry before Status")
		}
	}
	post := func(id QueueID) {
		n := posted[id.VI][id.Of]
		d := layout.Descriptor(b.memory[place(id, n):][:slot])
		clear(d)
		if n > 0 {
			previous := layout.Descriptor(b.memory[place(id, n-1):])
			previous.SetNext(place(id, n))
			previous.SetNextHandle(handle)
		}
		posted[id.VI][id.Of]++
		b.engine.Ring(0, id, place(id, n), handle)
	}
	sequence := [vis]uint32{}
	resizes, wraps := 0, 0
	for range steps {
		id := QueueID{random.IntN(vis), Queue(random.IntN(2))}
		switch k := random.IntN(20); {
		case k < 5:
			id.Of = SendQueue
			post(id)
			completed(id)
			require.NoError(t, b.engine.Send(0, id.VI))
			b.unread[len(b.unread)-1](0)
		case k < 10 && posted[id.VI][ReceiveQueue]-done[id.VI][ReceiveQueue] < slots/2:
			post(QueueID{id.VI, ReceiveQueue})
		case k < 13 && posted[id.VI][ReceiveQueue] > done[id.VI][ReceiveQueue]:
			completed(QueueID{id.VI, ReceiveQueue})
			frame := make([]byte, layout.HeaderBytes)
			h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
			h.SetOperationVersion(layout.ViaVersion << layout.ViaHeaderOperationVersionVersionLsb)
			h.SetFlags(layout.ViaHeaderFlagsFirstMask | layout.ViaHeaderFlagsLastMask)
			h.SetDestinationVI(uint16(id.VI))
			h.SetSourceVI(uint16(id.VI))
			h.SetSequence(sequence[id.VI])
			sequence[id.VI]++
			b.engine.Arrive(0, frame)
		case k < 14: // all waiting receives are flushed
			for posted[id.VI][ReceiveQueue] > done[id.VI][ReceiveQueue] {
				completed(QueueID{id.VI, ReceiveQueue})
			}
			b.command(layout.CommandOpcodeDisconnectVI, id.VI, nil)
			b.command(layout.CommandOpcodeConnectVI, id.VI, context(id.VI))
			sequence[id.VI] = 0
		case k < 18:
			q := random.IntN(queues)
			for range random.IntN(6) {
				id, sequence, ok := libraries[q].take()
				require.Equal(t, len(expected[q]) > 0, ok)
				if !ok {
					break
				}
				require.Equal(t, expected[q][0], entry{id, sequence})
				expected[q] = expected[q][1:]
				if libraries[q].consumed%(1<<libraries[q].log2) == 0 {
					wraps++
				}
			}
			libraries[q].say()
		case k == 18:
			n := notification{layout.NotifyKind(random.IntN(3)), id.VI}
			if n.kind == layout.NotifyKindCompletionQueue {
				n.index = random.IntN(queues)
			}
			b.engine.Arm(n.kind, n.index)
			armed[n] = true
		case random.IntN(10) == 0:
			// The old ring is reaped first.
			q := random.IntN(queues)
			l := &libraries[q]
			old := *l
			written := l.ring(layout.CommandOpcodeResizeCompletionQueue, ring(), 1+random.Uint32N(5))
			require.Equal(t, uint32(len(expected[q])), written-old.consumed&0xffff)
			for old.consumed&0xffff != written {
				id, sequence, ok := old.take()
				require.True(t, ok)
				require.Equal(t, expected[q][0], entry{id, sequence})
				expected[q] = expected[q][1:]
			}
			l.consumed = 0
			resizes++
		}
		require.Equal(t, told, b.notified)
		require.Len(t, b.errors, overruns)
	}
	for _, code := range b.errors {
		require.Equal(t, layout.AsyncErrorCompletionQueueOverrun, code)
	}
	require.NotZero(t, overruns)
	require.Greater(t, resizes, 50)
	require.Greater(t, wraps, 100)
	require.Greater(t, len(told), 100)
	t.Logf("%d overruns, %d resizes, %d wraps, %d notifications", overruns, resizes, wraps, len(told))
}

// The engine reads Consumed only when the ring looks full to it.
func TestConsumedIsReadWhenFull(t *testing.T) {
	b := newBench(t)
	b.engine = New[int](b, Config{QueueDepth: 1024, CompletionQueues: 1})
	const base = 1 << 18
	l := library{b: b}
	l.ring(layout.CommandOpcodeCreateCompletionQueue, base, 1)
	reads := 0
	b.looked = func(address uint32) {
		if address == base {
			reads++
		}
	}
	context := make(layout.VIContext, layout.VIContextSize)
	context.SetSendCompletionQueue(1)
	b.command(layout.CommandOpcodeCreateVI, 0, context)
	b.command(layout.CommandOpcodeConnectVI, 0, context)
	for i, want := range []int{0, 0, 1, 1, 2} {
		if i == 2 {
			for range 2 {
				_, _, ok := l.take()
				require.True(t, ok)
			}
			l.say()
		}
		b.post(i, 0)
		require.NoError(t, b.engine.Send(0, 0))
		b.unread[i](0)
		require.Equal(t, want, reads, "after %d entries", i+1)
	}
	require.Equal(t, []layout.AsyncError{layout.AsyncErrorCompletionQueueOverrun}, b.errors)
	written, status := b.engine.CompletionQueueCommand(layout.CommandOpcodeDestroyCompletionQueue, 0, 0, 0)
	require.Equal(t, layout.CommandStatusDone, status)
	require.Equal(t, uint32(4), written)
}

// The completion queue commands that fail.
func TestCompletionQueueCommands(t *testing.T) {
	b := newBench(t)
	b.engine = New[int](b, Config{QueueDepth: 1024, CompletionQueues: 2})
	const create, resize, destroy = layout.CommandOpcodeCreateCompletionQueue, layout.CommandOpcodeResizeCompletionQueue, layout.CommandOpcodeDestroyCompletionQueue
	for i, s := range []struct {
		op                   layout.CommandOpcode
		index, address, log2 uint32
		want                 layout.CommandStatus
	}{
		{create, 2, 0x1000, 4, layout.CommandStatusBadArgument},
		{create, 1, 0x1040, 4, layout.CommandStatusBadArgument},
		{create, 1, 0x1000, layout.CompletionQueueMinLog2 - 1, layout.CommandStatusBadArgument},
		{create, 1, 0x1000, layout.CompletionQueueMaxLog2 + 1, layout.CommandStatusBadArgument},
		{resize, 1, 0x1000, 4, layout.CommandStatusBadState},
		{destroy, 1, 0, 0, layout.CommandStatusBadState},
		{create, 1, 0x1000, layout.CompletionQueueMinLog2, layout.CommandStatusDone},
		{create, 1, 0x1000, 4, layout.CommandStatusBadState},
		{resize, 1, 0x2000, layout.CompletionQueueMaxLog2, layout.CommandStatusDone},
		{resize, 1, 0x2800, 4, layout.CommandStatusBadArgument},
		{destroy, 1, 0x2800, 77, layout.CommandStatusDone},
		{destroy, 1, 0, 0, layout.CommandStatusBadState},
		{layout.CommandOpcodeCreateVI, 1, 0, 0, layout.CommandStatusBadOpcode},
	} {
		_, status := b.engine.CompletionQueueCommand(s.op, s.index, s.address, s.log2)
		require.Equal(t, s.want, status, "command %d", i)
	}
	// Invalid numbers have no effect.
	for _, n := range []notification{{layout.NotifyKindSend, VICount}, {layout.NotifyKindCompletionQueue, 2}, {3, 0}} {
		b.engine.Arm(n.kind, n.index)
		require.Empty(t, b.engine.armed)
	}
	context := make(layout.VIContext, layout.VIContextSize)
	context.SetSendCompletionQueue(3)
	b.command(layout.CommandOpcodeCreateVI, 0, context)
	b.command(layout.CommandOpcodeConnectVI, 0, context)
	b.post(0, 0)
	require.NoError(t, b.engine.Send(0, 0))
	b.unread[0](0)
	require.NotZero(t, b.status(0)&layout.DescriptorStatusDoneMask)
	require.Empty(t, b.errors)
}
