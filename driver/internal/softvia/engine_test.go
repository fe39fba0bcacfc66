// SPDX-License-Identifier: Apache-2.0

package softvia

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"hvia/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an environment: memory with identical virtual and physical
// addresses, and a NIC that reads frames on the test's request.
type bench struct {
	t              *testing.T
	engine         *Engine[int]
	memory         []byte
	unread         []func(int) // for the NIC to read
	emitted        []layout.ViaHeader
	errors         []layout.AsyncError
	notified       []notification
	during         func()               // once, while a frame is emitted
	looked, stored func(address uint32) // called when memory is requested, or a dword is stored
}

const handle = 7

func (b *bench) Translate(h uint32, va uint64, n uint32, _ uint16, _ layout.AttAccess) (out []Range, ok bool) {
	if h != handle || va+uint64(n) > uint64(len(b.memory)) {
		return nil, false
	}
	for n > 0 {
		l := min(n, layout.AttPageBytes-uint32(va)%layout.AttPageBytes)
		out = append(out, Range{Address: uint32(va), Length: l})
		va, n = va+uint64(l), n-l
	}
	return out, true
}

func (b *bench) Memory(address, n uint32) []byte {
	if b.looked != nil {
		b.looked(address)
	}
	return b.memory[address:][:n]
}

func (b *bench) Store(_ int, address uint32, data []byte) { copy(b.memory[address:], data) }

func (b *bench) StoreWord(_ int, address, v uint32) {
	binary.LittleEndian.PutUint32(b.memory[address:], v)
	if b.stored != nil {
		b.stored(address)
	}
}

func (b *bench) Emit(_ int, head []byte, _ []Range, sent func(int)) error {
	b.emitted = append(b.emitted, layout.ViaHeader(head[layout.EthernetHeaderSize:]))
	b.unread = append(b.unread, sent)
	if f := b.during; f != nil {
		b.during = nil
		f()
	}
	return nil
}

func (b *bench) Posted(int, QueueID) {}

func (b *bench) Async(_ int, code layout.AsyncError, _ int) { b.errors = append(b.errors, code) }

func (b *bench) Notify(_ int, kind layout.NotifyKind, index int) {
	b.notified = append(b.notified, notification{kind, index})
}

func (b *bench) Count(layout.Counter) {}

const slot = 128 // bytes of a descriptor

func newBench(t *testing.T) *bench {
	b := &bench{t: t, memory: make([]byte, 1<<20)}
	b.engine = New[int](b, Config{QueueDepth: 1024})
	context := make(layout.VIContext, layout.VIContextSize)
	context.SetMaxTransferSize(1 << 16)
	for _, op := range []layout.CommandOpcode{layout.CommandOpcodeCreateVI, layout.CommandOpcodeConnectVI} {
		_, status := b.engine.Command(0, op, 0, context)
		require.Equal(t, layout.CommandStatusDone, status)
	}
	return b
}

// post writes a send of n bytes into a slot, links it behind the previous one,
// and rings.
func (b *bench) post(i, n int) {
	at := uint64(i * slot)
	d := layout.Descriptor(b.memory[at:][:slot])
	d.SetSegmentCount(1)
	d.SetLength(uint32(n))
	s := layout.DataSegment(d[layout.DescriptorSize:])
	s.SetAddress(1 << 19)
	s.SetHandle(handle)
	s.SetLength(uint32(n))
	if i > 0 {
		previous := layout.Descriptor(b.memory[(i-1)*slot:])
		previous.SetNext(at)
		previous.SetNextHandle(handle)
	}
	b.engine.Ring(0, QueueID{0, SendQueue}, at, handle)
}

func (b *bench) status(i int) uint32 { return layout.Descriptor(b.memory[i*slot:]).Status() }
func (b *bench) length(i int) uint32 { return layout.Descriptor(b.memory[i*slot:]).Length() }

// Sends complete in order, and only after the NIC has read all of their frames,
// in whatever order it reports that.
func TestSendsCompleteInOrder(t *testing.T) {
	const seed, posts = 1, 60
	random := rand.New(rand.NewPCG(seed, seed))
	b := newBench(t)
	frames := make([]int, posts) // unread frames of each post
	var owner []int              // of the frames in unread
	next := 0
	for next < posts || len(b.unread) > 0 {
		if next < posts && random.IntN(3) == 0 {
			n := random.IntN(4 * layout.MaxPayload)
			before := len(b.unread)
			b.post(next, n)
			require.NoError(t, b.engine.Send(0, 0))
			frames[next] = len(b.unread) - before
			require.Equal(t, max(1, (n+layout.MaxPayload-1)/layout.MaxPayload), frames[next])
			for range frames[next] {
				owner = append(owner, next)
			}
			next++
		} else if len(b.unread) > 0 {
			k := random.IntN(len(b.unread))
			sent := b.unread[k]
			frames[owner[k]]--
			b.unread, owner = append(b.unread[:k:k], b.unread[k+1:]...), append(owner[:k:k], owner[k+1:]...)
			sent(0)
		}
		done := true
		for i := range next {
			done = done && frames[i] == 0
			require.Equal(t, done, b.status(i)&layout.DescriptorStatusDoneMask != 0, "post %d, seed %d", i, seed)
		}
		require.Equal(t, len(b.unread) > 0, b.engine.Busy(0))
		require.Equal(t, len(b.unread) == 0, b.engine.Finished(b.engine.Started()))
	}
	require.Empty(t, b.errors)
}

// While a frame is emitted, another post may add a message behind this one, or
// a disconnect may start and end it.
func TestWhatHappensWhileAFrameIsEmitted(t *testing.T) {
	b := newBench(t)
	b.during = func() {
		b.post(1, 10)
		require.NoError(t, b.engine.Send(0, 0), "somebody is at it already")
		require.Len(t, b.emitted, 1)
	}
	b.post(0, 3*layout.MaxPayload)
	require.NoError(t, b.engine.Send(0, 0))
	var first []bool
	for i, h := range b.emitted {
		require.Equal(t, uint32(i), h.Sequence())
		first = append(first, h.Flags()&layout.ViaHeaderFlagsFirstMask != 0)
	}
	require.Equal(t, []bool{true, false, false, true}, first)

	b = newBench(t)
	b.during = func() {
		b.post(1, 10)
		b.engine.Stop(0)
	}
	b.post(0, 3*layout.MaxPayload)
	require.NoError(t, b.engine.Send(0, 0))
	require.Len(t, b.emitted, 1)
	require.True(t, b.engine.Busy(0), "the NIC has not read it")
	require.Zero(t, b.status(0)|b.status(1))
	b.unread[0](0)
	require.False(t, b.engine.Busy(0))
	for i, length := range []uint32{layout.MaxPayload, 0} {
		require.Equal(t, uint32(layout.DescriptorStatusDoneMask|layout.DescriptorStatusFlushedMask), b.status(i), "post %d", i)
		require.Equal(t, length, b.length(i), "post %d", i)
	}
	_, status := b.engine.Command(0, layout.CommandOpcodeDisconnectVI, 0, nil)
	require.Equal(t, layout.CommandStatusDone, status)
}

// Malformed frames have no effect, whatever they contain.
func TestFramesOfNoSense(t *testing.T) {
	const seed = 2
	random := rand.New(rand.NewPCG(seed, seed))
	b := newBench(t)
	for range 20_000 {
		frame := make([]byte, random.IntN(layout.HeaderBytes+40))
		for i := range frame {
			frame[i] = byte(random.IntN(256))
		}
		if len(frame) >= layout.HeaderBytes && random.IntN(2) == 0 {
			clear(frame[:layout.EthernetHeaderSize])
			h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
			h.SetOperationVersion(layout.ViaVersion<<layout.ViaHeaderOperationVersionVersionLsb | uint8(random.IntN(4)))
			h.SetFlags(uint8(random.IntN(8)))
			h.SetPayloadLength(uint16(random.IntN(50)))
			h.SetDestinationVI(0)
			h.SetSourceVI(0)
			h.SetHandle(0) // of no region
			h.SetSequence(b.engine.vis[0].expected + random.Uint32N(3))
		}
		b.engine.Arrive(0, frame)
	}
	require.NotEmpty(t, b.errors, "the test shows nothing unless some are taken")
	require.Equal(t, make([]byte, len(b.memory)), b.memory)
}
