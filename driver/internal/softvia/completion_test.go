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
	id, sequence = entryOf(e)
	return id, sequence, true
}

func entryOf(e layout.CompletionEntry) (id QueueID, sequence uint16) {
	of := Queue(e.Word() & layout.CompletionEntryWordReceiveMask >> layout.CompletionEntryWordReceiveLsb)
	return QueueID{int(e.Word() & layout.CompletionEntryWordVIMask), of}, uint16(e.Sequence())
}

func (l *library) say() { layout.CompletionQueueHeader(l.b.memory[l.base:]).SetConsumed(l.consumed) }

func (b *bench) command(op layout.CommandOpcode, index int, context layout.VIContext) {
	_, status := b.engine.Command(0, op, uint32(index), context)
	require.Equal(b.t, layout.CommandStatusDone, status)
}

// queueRun is a random run of a few completion queues for the queues of more
// VIs, with a model of what must be in them.
type queueRun struct {
	*bench
	random       *rand.Rand
	rings        int // used so far
	libraries    [runQueues]library
	expected     [runQueues][]queueEntry // outstanding
	armed        map[notification]bool
	told         []notification
	posted, done [runVIs][2]int
	sequence     [runVIs]uint32

	overruns, resizes, wraps int
}

type queueEntry struct {
	id       QueueID
	sequence uint16
}

const (
	runVIs, runQueues = 4, 3
	runSlots          = 64      // descriptors of a queue, used in turn
	runDescriptors    = 1 << 19 // their start
	runRings          = 1 << 20 // to the end of memory
	runBytes          = 1 << 21
)

func runPlace(id QueueID, n int) uint64 {
	return uint64(runDescriptors + ((id.VI*2+int(id.Of))*runSlots+n%runSlots)*slot)
}

// tied returns the completion queue of a queue, or -1 if it has none.
func tied(id QueueID) int { return (id.VI+int(id.Of))%(runQueues+1) - 1 }

func (r *queueRun) context(vi int) layout.VIContext {
	c := make(layout.VIContext, layout.VIContextSize)
	c.SetMaxTransferSize(1 << 16)
	c.SetSendCompletionQueue(uint8(tied(QueueID{vi, SendQueue}) + 1))
	c.SetReceiveCompletionQueue(uint8(tied(QueueID{vi, ReceiveQueue}) + 1))
	c.SetPeerVI(uint16(vi))
	return c
}

// ring returns the memory of the next ring.
func (r *queueRun) ring() uint32 {
	const size = ringPages * layout.AttPageBytes
	r.rings++
	return runRings + uint32(r.rings)%((runBytes-runRings)/size)*size
}

// Completions of many queues in few completion queues: each has one entry, in
// order, behind its Status, unless the ring is full, which is reported and
// counted; also through resizes. The test compares with a model.
func TestCompletionQueues(t *testing.T) {
	const seed, steps = 3, 30_000
	r := &queueRun{bench: newBench(t), random: rand.New(rand.NewPCG(seed, seed)), armed: map[notification]bool{}}
	r.memory = make([]byte, runBytes)
	r.engine = New[int](r.bench, Config{QueueDepth: 1024, CompletionQueues: runQueues})
	for i := range r.libraries {
		r.libraries[i] = library{b: r.bench, number: uint32(i)}
		r.libraries[i].ring(layout.CommandOpcodeCreateCompletionQueue, r.ring(), 1+uint32(i)*2)
	}
	for vi := range runVIs {
		r.command(layout.CommandOpcodeCreateVI, vi, r.context(vi))
		r.command(layout.CommandOpcodeConnectVI, vi, r.context(vi))
	}
	r.stored = r.statusBeforeEntry
	for range steps {
		r.step()
		require.Equal(t, r.told, r.notified)
		require.Len(t, r.errors, r.overruns)
	}
	for _, code := range r.errors {
		require.Equal(t, layout.AsyncErrorCompletionQueueOverrun, code)
	}
	require.NotZero(t, r.overruns)
	require.Greater(t, r.resizes, 50)
	require.Greater(t, r.wraps, 100)
	require.Greater(t, len(r.told), 100)
	t.Logf("%d overruns, %d resizes, %d wraps, %d notifications", r.overruns, r.resizes, r.wraps, len(r.told))
}

// completed is the model of a completion.
func (r *queueRun) completed(id QueueID) {
	if q := tied(id); q >= 0 {
		if len(r.expected[q]) < 1<<r.libraries[q].log2 {
			r.expected[q] = append(r.expected[q], queueEntry{id, uint16(r.done[id.VI][id.Of])})
			r.notify(notification{layout.NotifyKindCompletionQueue, q})
		} else {
			r.overruns++
		}
	}
	r.notify(notification{[...]layout.NotifyKind{layout.NotifyKindSend, layout.NotifyKindReceive}[id.Of], id.VI})
	r.done[id.VI][id.Of]++
}

func (r *queueRun) notify(n notification) {
	if r.armed[n] {
		delete(r.armed, n)
		r.told = append(r.told, n)
	}
}

func (r *queueRun) statusBeforeEntry(address uint32) {
	for _, l := range r.libraries {
		if address < l.base || address >= l.base+ringPages*layout.AttPageBytes {
			continue
		}
		id, sequence := entryOf(layout.CompletionEntry(r.memory[address-layout.CompletionEntryWordOffset:]))
		d := layout.Descriptor(r.memory[runPlace(id, int(sequence)):])
		require.NotZero(r.t, d.Status()&layout.DescriptorStatusDoneMask, "entry before Status")
	}
}

func (r *queueRun) post(id QueueID) {
	n := r.posted[id.VI][id.Of]
	clear(r.memory[runPlace(id, n):][:slot])
	if n > 0 {
		previous := layout.Descriptor(r.memory[runPlace(id, n-1):])
		previous.SetNext(runPlace(id, n))
		previous.SetNextHandle(handle)
	}
	r.posted[id.VI][id.Of]++
	r.engine.Ring(0, id, runPlace(id, n), handle)
}

// step executes a random operation on the engine and on the model.
func (r *queueRun) step() {
	id := QueueID{r.random.IntN(runVIs), Queue(r.random.IntN(2))}
	receive := QueueID{id.VI, ReceiveQueue}
	waiting := r.posted[id.VI][ReceiveQueue] - r.done[id.VI][ReceiveQueue]
	switch k := r.random.IntN(20); {
	case k < 5:
		id.Of = SendQueue
		r.post(id)
		r.completed(id)
		require.NoError(r.t, r.engine.Send(0, id.VI))
		r.unread[len(r.unread)-1](0)
	case k < 10 && waiting < runSlots/2:
		r.post(receive)
	case k < 13 && waiting > 0:
		r.completed(receive)
		r.arrive(id.VI)
	case k < 14: // all waiting receives are flushed
		for range waiting {
			r.completed(receive)
		}
		r.command(layout.CommandOpcodeDisconnectVI, id.VI, nil)
		r.command(layout.CommandOpcodeConnectVI, id.VI, r.context(id.VI))
		r.sequence[id.VI] = 0
	case k < 18:
		r.take(r.random.IntN(runQueues))
	case k == 18:
		n := notification{layout.NotifyKind(r.random.IntN(3)), id.VI}
		if n.kind == layout.NotifyKindCompletionQueue {
			n.index = r.random.IntN(runQueues)
		}
		r.engine.Arm(n.kind, n.index)
		r.armed[n] = true
	case r.random.IntN(10) == 0:
		r.resize(r.random.IntN(runQueues))
	}
}

// arrive delivers an empty message.
func (r *queueRun) arrive(vi int) {
	frame := make([]byte, layout.HeaderBytes)
	h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
	h.SetOperationVersion(layout.ViaVersion << layout.ViaHeaderOperationVersionVersionLsb)
	h.SetFlags(layout.ViaHeaderFlagsFirstMask | layout.ViaHeaderFlagsLastMask)
	h.SetDestinationVI(uint16(vi))
	h.SetSourceVI(uint16(vi))
	h.SetSequence(r.sequence[vi])
	r.sequence[vi]++
	r.engine.Arrive(0, frame)
}

func (r *queueRun) take(q int) {
	l := &r.libraries[q]
	for range r.random.IntN(6) {
		id, sequence, ok := l.take()
		require.Equal(r.t, len(r.expected[q]) > 0, ok)
		if !ok {
			break
		}
		r.took(q, id, sequence)
		if l.consumed%(1<<l.log2) == 0 {
			r.wraps++
		}
	}
	l.say()
}

func (r *queueRun) took(q int, id QueueID, sequence uint16) {
	require.Equal(r.t, r.expected[q][0], queueEntry{id, sequence})
	r.expected[q] = r.expected[q][1:]
}

// resize resizes a completion queue. The old ring is reaped first.
func (r *queueRun) resize(q int) {
	l := &r.libraries[q]
	old := *l
	written := l.ring(layout.CommandOpcodeResizeCompletionQueue, r.ring(), 1+r.random.Uint32N(5))
	require.Equal(r.t, uint32(len(r.expected[q])), written-old.consumed&0xffff)
	for old.consumed&0xffff != written {
		id, sequence, ok := old.take()
		require.True(r.t, ok)
		r.took(q, id, sequence)
	}
	l.consumed = 0
	r.resizes++
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
