// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver/card"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
)

// pairWithMemory is a pair to check that the card still works.
type pairWithMemory struct {
	vi     [2]*vi
	memory [2]*region // sent from, and written to
}

func (r *rig) workingPair(index [2]uint8) *pairWithMemory {
	x := &pairWithMemory{}
	x.vi[0], x.vi[1] = r.pair(index, [2]uint16{11, 12}, [2]bool{true, true})
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		x.memory[n] = m.register(m.random.IntN(pageBytes), 12_000, uint16(11+n), true)
		x.memory[n].scramble()
	})
	return x
}

// send posts one message from node 0; carry accounts for it later.
func (x *pairWithMemory) send(r *rig) {
	n := 1 + r.random.IntN(6000)
	x.vi[0].post(rdmaWrite(x.memory[0], r.random.IntN(6000), n, x.memory[1], r.random.IntN(6000)))
}

// Malformed doorbells: none has an effect, and each is recorded. The VI of
// their page still works.
func TestBadDoorbells(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, func(r *rig) {
		x := r.workingPair([2]uint8{33, 34})
		v, m := x.vi[0], r.node[0]
		const page, free = layout.DoorbellPageBytes, 99
		at := uint32(v.send.region.address)
		high, handle := uint32(v.send.region.address>>32), v.send.region.handle
		bad := []struct {
			name    string
			offset  uint32 // in the doorbell window
			values  [][]uint32
			reports bool // as an asynchronous error
		}{
			{"one dword", 33*page + layout.DoorbellSend, [][]uint32{{at}}, false},
			{"two dwords", 33*page + layout.DoorbellSend, [][]uint32{{at, high}}, false},
			{"third dword before the second", 33*page + layout.DoorbellSend, [][]uint32{{at}, nil, {handle}}, false},
			{"no first dword", 33*page + layout.DoorbellSend, [][]uint32{nil, {high}, {handle}}, false},
			{"behind its place", 33*page + layout.DoorbellSend + 4, [][]uint32{{at, high, handle}}, false},
			{"at the page's end", 34*page - 12, [][]uint32{{at, high, handle}}, false},
			{"free VI", free*page + layout.DoorbellSend, [][]uint32{{at, high, handle}}, false},
			{"misaligned descriptor", 33*page + layout.DoorbellSend, [][]uint32{{at + 32, high, handle}}, true},
			{"across two pages", 34*page - 4, [][]uint32{{at, high, handle}}, false},
		}
		for range (unit.Sizes{Short: 1, Normal: 5, Long: 500}).Pick() {
			for _, k := range r.random.Perm(len(bad)) {
				b := bad[k]
				if r.random.IntN(2) == 0 {
					x.send(r) // the card is busy when the doorbell arrives
				}
				before := m.counter(layout.CounterDoorbellMalformed)
				for i, values := range b.values {
					offset := b.offset
					for _, earlier := range b.values[:i] {
						offset += uint32(4 * max(1, len(earlier))) // nothing replaces an omitted dword
					}
					if values == nil {
						continue
					}
					m.check(m.thread.Write(layout.PciBar1Base+offset, values...))
				}
				if b.reports {
					m.errors = append(m.errors, asyncError{layout.AsyncErrorPostDescriptor, v.index})
				}
				x.send(r)
				v.finish()
				r.settle()
				after := m.counter(layout.CounterDoorbellMalformed)
				if after == before || after > before+8 {
					fail("%s: counted %d times", b.name, after-before)
				}
				m.counts[layout.CounterDoorbellMalformed] = after
				r.carry()
				r.verify()
			}
		}
	})
}

// Doorbells of several queues, in any bursts and interleaved: each counts once.
func TestSplitDoorbells(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, func(r *rig) {
		x, y := r.workingPair([2]uint8{33, 34}), r.workingPair([2]uint8{35, 36})
		m, v := r.node[0], x.vi[0]
		split := 0
		for range (unit.Sizes{Short: 2, Normal: 20, Long: 5000}).Pick() {
			type bell struct {
				at     uint32
				dwords []uint32
			}
			var bells []bell
			ring := func(q *workQueue, d descriptor) {
				_, dwords := q.prepare(d)
				bells = append(bells, bell{q.doorbell(), dwords})
			}
			m.counts[layout.CounterDoorbellReceive]++
			ring(&v.receive, buffers(x.memory[0].part(9000, 900)))
			for _, p := range []*pairWithMemory{x, y} {
				m.counts[layout.CounterDoorbellSend]++
				ring(&p.vi[0].send, rdmaWrite(p.memory[0], r.random.IntN(6000), 1+r.random.IntN(3000), p.memory[1], r.random.IntN(6000)))
			}
			for len(bells) > 0 {
				k := r.random.IntN(len(bells))
				b := &bells[k]
				n := 1 + r.random.IntN(len(b.dwords))
				m.check(m.thread.Write(b.at, b.dwords[:n]...))
				if b.at, b.dwords = b.at+uint32(4*n), b.dwords[n:]; len(b.dwords) == 0 {
					bells = slices.Delete(bells, k, k+1)
				} else {
					split++
				}
			}
			v.fetch()
			m.finish()
			r.settle()
			r.carry()
			// A message uses the receive descriptor.
			r.b(func(*machine) {
				x.vi[1].post(buffers(x.memory[1].part(r.random.IntN(6000), r.random.IntN(900))))
				x.vi[1].finish()
			})
			r.settle()
			r.carry()
			r.verify()
		}
		require.NotZero(t, split)
	})
}

// Dwords of a doorbell are dropped with the VI. Writes to the next VI of that
// page do not complete them.
func TestDoorbellOfAnEarlierVI(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, func(r *rig) {
		x := r.workingPair([2]uint8{33, 34})
		m := r.node[0]
		const page = 77 * layout.DoorbellPageBytes
		at, high, handle := uint32(x.vi[0].send.region.address), uint32(x.vi[0].send.region.address>>32), x.vi[0].send.region.handle
		v := &vi{m: m, index: 77, tag: 11}
		for _, offset := range []uint32{layout.DoorbellSend, layout.DoorbellReceive} {
			for have := 1; have <= 2; have++ {
				m.viCommand(layout.CommandOpcodeCreateVI, v, layout.CommandStatusDone, layout.VIStateIdle)
				bell := []uint32{at, high, handle}
				m.check(m.thread.Write(layout.PciBar1Base+page+offset, bell[:have]...))
				m.viCommand(layout.CommandOpcodeDestroyVI, v, layout.CommandStatusDone, layout.VIStateIdle)
				// Dwords for a VI that does not exist are dropped when it is
				// created.
				if have == 1 {
					m.check(m.thread.Write(layout.PciBar1Base+page+offset, bell[:2]...))
				}
				m.viCommand(layout.CommandOpcodeCreateVI, v, layout.CommandStatusDone, layout.VIStateIdle)
				before := m.counter(layout.CounterDoorbellMalformed)
				m.check(m.thread.Write(layout.PciBar1Base+page+offset+uint32(4*have), bell[have:]...))
				if have == 1 {
					m.check(m.thread.Write(layout.PciBar1Base+page+offset+8, handle))
				}
				x.send(r)
				x.vi[0].finish()
				r.settle()
				r.carry()
				after := m.counter(layout.CounterDoorbellMalformed)
				if want := uint32(3-have) + uint32(2-have); after-before != want {
					fail("offset %#x, %d dwords: counted %d times, want %d", offset, have, after-before, want)
				}
				m.counts[layout.CounterDoorbellMalformed] = after
				m.viCommand(layout.CommandOpcodeDestroyVI, v, layout.CommandStatusDone, layout.VIStateIdle)
				r.verify()
			}
		}
	})
}

// Invalid commands are rejected, with the reason, and change nothing.
func TestBadCommands(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, func(r *rig) {
		x, m := r.workingPair([2]uint8{1, 2}), r.node[0]
		m.createVI(5, 11, true)
		queue := m.createQueue(3, 4)
		ring := func(number, address, log2 uint32) func(layout.Command) { // for rings that must not be written
			return func(c layout.Command) { c.SetIndex(number); c.SetListAddress(address); c.SetListCount(log2) }
		}
		but := func(wrong func(layout.Command)) func(layout.Command) { // a possible level-1 entry with one error
			return func(c layout.Command) {
				ring(regionLimit-1, m.list, 1)(c)
				c.SetHandle(1<<layout.AttHandleValueGenerationLsb | (regionLimit - 1))
				c.SetLevel2Address(layout.AttLevel2Base + 1<<20)
				wrong(c)
			}
		}
		index := func(i uint32) func(layout.Command) { return func(c layout.Command) { c.SetIndex(i) } }
		handle := func(i, h uint32) func(layout.Command) {
			return func(c layout.Command) { c.SetIndex(i); c.SetHandle(h) }
		}
		const argument, state, opcode = layout.CommandStatusBadArgument, layout.CommandStatusBadState, layout.CommandStatusBadOpcode
		for _, c := range []struct {
			name string
			op   layout.CommandOpcode
			end  layout.CommandStatus
			fill func(layout.Command)
		}{
			{"opcode 15", 15, opcode, nil},
			{"opcode 255", 255, opcode, nil},
			{"opcode beyond a byte", 0, opcode, func(c layout.Command) { c.SetOpcode(0x100) }},
			{"limit", layout.CommandOpcodeInitialiseAtt, argument, index(layout.AttLevel1Count + 1)},
			{"list behind a page", layout.CommandOpcodeWriteLevel2, argument, but(func(c layout.Command) { c.SetListAddress(m.list + pageBytes - 4); c.SetListCount(2) })},
			{"list misaligned", layout.CommandOpcodeWriteLevel2, argument, but(func(c layout.Command) { c.SetListAddress(m.list + 2) })},
			{"list too long", layout.CommandOpcodeWriteLevel2, argument, but(func(c layout.Command) { c.SetListCount(1025) })},
			{"list to level 1", layout.CommandOpcodeWriteLevel2, argument, but(func(c layout.Command) { c.SetLevel2Address(0) })},
			{"list beyond the SDRAM", layout.CommandOpcodeWriteLevel2, argument, but(func(c layout.Command) { c.SetLevel2Address(layout.AttSdramBytes - 4); c.SetListCount(2) })},
			{"list to no dword", layout.CommandOpcodeWriteLevel2, argument, but(func(c layout.Command) { c.SetLevel2Address(layout.AttLevel2Base + 2) })},
			{"unknown handle", layout.CommandOpcodeDeregisterMemory, argument, handle(7, 0xfff<<layout.AttHandleValueGenerationLsb|7)},
			{"other generation", layout.CommandOpcodeDeregisterMemory, argument, handle(x.memory[0].index, x.memory[0].handle^1<<layout.AttHandleValueGenerationLsb)},
			{"VI 256", layout.CommandOpcodeCreateVI, argument, index(256)},
			{"VI 2^32-1", layout.CommandOpcodeQueryVI, argument, index(1<<32 - 1)},
			{"VI in use", layout.CommandOpcodeCreateVI, state, index(5)},
			{"destroy a connected VI", layout.CommandOpcodeDestroyVI, state, index(1)},
			{"destroy a free VI", layout.CommandOpcodeDestroyVI, state, index(77)},
			{"connect a connected VI", layout.CommandOpcodeConnectVI, state, index(1)},
			{"connect a free VI", layout.CommandOpcodeConnectVI, state, index(77)},
			{"disconnect a free VI", layout.CommandOpcodeDisconnectVI, state, index(77)},
			{"modify a connected VI", layout.CommandOpcodeModifyVI, state, index(1)},
			{"completion queue that is there", layout.CommandOpcodeCreateCompletionQueue, state, ring(3, m.list, 4)},
			{"completion queue 64", layout.CommandOpcodeCreateCompletionQueue, argument, ring(1<<params.CompletionQueuesLog2, m.list, 4)},
			{"completion queue 2^32-1", layout.CommandOpcodeCreateCompletionQueue, argument, ring(1<<32-1, m.list, 4)},
			{"ring not at a page", layout.CommandOpcodeCreateCompletionQueue, argument, ring(7, m.list+64, 4)},
			{"ring too small", layout.CommandOpcodeCreateCompletionQueue, argument, ring(7, m.list, layout.CompletionQueueMinLog2-1)},
			{"ring too large", layout.CommandOpcodeCreateCompletionQueue, argument, ring(7, m.list, layout.CompletionQueueMaxLog2+1)},
			{"ring of 2^(256 + 4) entries", layout.CommandOpcodeCreateCompletionQueue, argument, ring(7, m.list, 256+4)},
			{"resize to no page", layout.CommandOpcodeResizeCompletionQueue, argument, ring(3, m.list+pageBytes/2, 4)},
			{"resize to nothing", layout.CommandOpcodeResizeCompletionQueue, argument, ring(3, m.list, 0)},
			{"resize of none", layout.CommandOpcodeResizeCompletionQueue, state, ring(7, m.list, 4)},
			{"resize of queue 2^31", layout.CommandOpcodeResizeCompletionQueue, argument, ring(1<<31, m.list, 4)},
			{"destroy no completion queue", layout.CommandOpcodeDestroyCompletionQueue, state, index(7)},
			{"destroy completion queue 64", layout.CommandOpcodeDestroyCompletionQueue, argument, index(1 << params.CompletionQueuesLog2)},
		} {
			if err := try(func() { m.do(c.op, c.end, c.fill) }); err != nil {
				fail("%s: %w", c.name, err)
			}
			x.send(r)
			x.vi[0].finish()
		}
		if n := queue.destroy(); n != 0 {
			fail("%d entries were written to a completion queue of nobody", n)
		}
		m.straggle()
		for v, want := range map[uint32]layout.VIState{1: layout.VIStateConnected, 5: layout.VIStateIdle, 77: layout.VIStateFree} {
			if got := layout.VIState(m.do(layout.CommandOpcodeQueryVI, layout.CommandStatusDone, index(v)) & layout.VIContextAttributesStateMask); got != want {
				fail("VI %d is %v, want %v", v, got, want)
			}
		}
	})
}

// straggle issues an unaligned command, for which the card fetches and writes
// nothing, and one while another is in progress.
func (m *machine) straggle() {
	m.write(layout.RegisterCommandAddressOffset, m.command+32)
	m.counts[layout.CounterCommandError]++
	m.sleep(20 * host.Microsecond)
	m.put(m.command, make([]byte, layout.CommandSize))
	m.write(layout.RegisterCommandAddressOffset, m.command)
	m.write(layout.RegisterCommandAddressOffset, m.command)
	m.counts[layout.CounterCommand]++
	m.counts[layout.CounterCommandIgnored]++
	m.await("command", m.command+layout.CommandStatusOffset, func(v uint32) bool { return v != 0 })
	m.expectWord(m.command+layout.CommandStatusOffset, uint32(layout.CommandStatusDone))
}

// Writes to read-only registers and to unused addresses, and reads of the whole
// window: the card answers all of them and continues.
func TestStrayRegisterAccesses(t *testing.T) {
	mustPlay(t, config{}, func(r *rig) {
		x := r.workingPair([2]uint8{7, 8})
		m := r.node[0]
		writable := []uint32{
			layout.RegisterControlOffset, layout.RegisterInterruptStatusOffset, layout.RegisterInterruptEnableOffset, layout.RegisterCommandAddressOffset,
			layout.RegisterMacLowOffset, layout.RegisterMacHighOffset,
			layout.RegisterRawTransmitBaseOffset, layout.RegisterRawTransmitSizeOffset, layout.RegisterRawTransmitTailOffset,
			layout.RegisterRawReceiveBaseOffset, layout.RegisterRawReceiveSizeOffset, layout.RegisterRawReceiveTailOffset,
			layout.RegisterAttHostLevel1Offset, layout.RegisterAttHostLevel2Offset,
		}
		fixed := []uint32{
			layout.RegisterIDOffset, layout.RegisterVersionOffset, layout.RegisterLayoutHashLowOffset, layout.RegisterLayoutHashHighOffset,
			layout.RegisterCapabilityOffset, layout.RegisterStrapOffset, layout.RegisterMacLowOffset, layout.RegisterMacHighOffset, layout.RegisterInterruptEnableOffset,
			layout.RegisterRawTransmitBaseOffset, layout.RegisterRawReceiveBaseOffset,
		}
		var before []uint32
		for _, o := range fixed {
			before = append(before, m.read(o))
		}
		for range (unit.Sizes{Short: 100, Normal: 1_000, Long: 100_000}).Pick() {
			o := r.random.Uint32N(layout.RegisterSize/4) * 4
			if r.random.IntN(2) == 0 {
				o = r.random.Uint32N(0x800/4) * 4
			}
			switch {
			case r.random.IntN(2) == 0:
				// The last registers of a burst may be others.
				n := 1 + r.random.IntN(4)
				ok := true
				for k := range uint32(n) {
					ok = ok && !slices.Contains(writable, o+4*k) && o+4*k < layout.RegisterSize
				}
				if ok {
					values := make([]uint32, n)
					for k := range values {
						values[k] = r.random.Uint32()
					}
					m.write(o, values...)
				}
			case o != layout.RegisterAsyncErrorInfoOffset:
				m.read(o)
			}
			if r.random.IntN(50) == 0 {
				x.send(r)
				x.vi[0].finish()
			}
		}
		for i, o := range fixed {
			if got := m.read(o); got != before[i] {
				fail("register %#x reads %#x, it was %#x", o, got, before[i])
			}
		}
	})
}

// A queue with more doorbells than it can count drops, counts and reports the
// excess, and executes the rest. The other VIs and the queue itself continue.
// Its only descriptor is linked to itself.
func TestDoorbellOverrun(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, func(r *rig) {
		x := r.workingPair([2]uint8{1, 2})
		y := r.workingPair([2]uint8{200, 201})
		m, v := r.node[0], x.vi[0]
		p := v.post(rdmaWrite(x.memory[0], 0, 8, x.memory[1], 0))
		v.finish()
		r.settle()
		r.carry()
		link := layout.Descriptor(make([]byte, layout.DescriptorSize))
		at := v.send.region.address + uint64(p.at)
		link.SetNext(at)
		link.SetNextHandle(v.send.region.handle)
		v.send.region.fill(p.at, link[:layout.DescriptorSegmentCountOffset])
		const rings = 1500
		for i := range rings {
			m.check(m.thread.Write(v.send.doorbell(), uint32(at), uint32(at>>32), v.send.region.handle))
			if i%100 == 0 {
				y.send(r)
			}
		}
		// A doorbell counts when it arrives, even if the queue cannot count it.
		m.counts[layout.CounterDoorbellSend] += rings
		y.vi[0].finish()
		for begin, last := m.thread.Now(), uint32(1<<32-1); ; {
			n := m.counter(layout.CounterTransmitMessage)
			if n == last {
				break
			}
			if last = n; m.thread.Now() > begin+patience {
				m.fail("the queue does not run empty")
			}
			r.sleep(100 * host.Microsecond)
		}
		r.settle()
		dropped := m.counter(layout.CounterDoorbellOverrun)
		if dropped == 0 || dropped > rings/2 {
			fail("%d of %d doorbells were dropped", dropped, rings)
		}
		m.counts[layout.CounterDoorbellOverrun] = dropped
		for range rings - dropped {
			frames, status, moved := v.transmit(p)
			v.sent(p, frames, status, moved)
		}
		y.vi[0].carry()
		// More errors than slots: the first are stored. Of the others only the
		// VIs are reported.
		for i := range uint32(layout.AsyncErrorSlots) {
			e := m.read(layout.RegisterAsyncErrorInfoOffset)
			if e&layout.RegisterAsyncErrorInfoValidMask == 0 || layout.AsyncError(e&layout.RegisterAsyncErrorInfoCodeMask) != layout.AsyncErrorVIOverrun ||
				uint8(e>>layout.RegisterAsyncErrorInfoVILsb) != v.index || e>>layout.RegisterAsyncErrorInfoCountLsb != dropped {
				fail("AsyncErrorInfo reads %#x as error %d of %d", e, i, dropped)
			}
		}
		var marks [layout.AsyncErrorDroppedWords]uint32
		for i := range marks {
			marks[i] = m.read(layout.AsyncErrorDroppedBase + 4*uint32(i))
		}
		if marks[0] != 1<<v.index || marks[1] != 0 || marks[6] != 0 {
			fail("the marks of dropped errors are %#x", marks)
		}
		m.noted = dropped
		// Both VIs still work.
		x.send(r)
		v.finish()
		t.Logf("%d of %d doorbells were dropped", dropped, rings)
	})
}

// Raw frames at full rate, sometimes without a free buffer. Each is stored
// completely in the next buffer, or dropped and counted.
func TestRawFlood(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, func(r *rig) {
		a, b := r.node[0], r.node[1]
		stored, dropped, early := 0, 0, 0
		for range (unit.Sizes{Short: 5, Normal: 30, Long: 5000}).Pick() {
			r.b(func(m *machine) {
				for range r.random.IntN(8) {
					if len(m.receive.filled) < ringEntries/2 {
						m.offer(layout.MaxFrame)
					}
				}
			})
			var frames [][]byte
			for range 1 + r.random.IntN(ringEntries-1) {
				f := make([]byte, layout.MinFrame)
				if r.random.IntN(4) == 0 {
					f = make([]byte, layout.MinFrame+r.random.IntN(layout.MaxFrame-layout.MinFrame+1))
				}
				for i := range f {
					f[i] = byte(r.random.Uint32())
				}
				copy(f, b.mac[:])
				layout.EthernetHeader(f).SetEtherType(layout.EtherTypeConnection)
				frames = append(frames, f)
			}
			a.inject(frames...)
			r.settle()
			room := len(b.receive.filled)
			got := 0
			for _, f := range frames {
				if b.seeRaw(f) {
					got++
					continue
				}
				dropped++
				if len(b.receive.filled) > 0 {
					early++ // the card had not read the next entry yet
				}
			}
			if got == 0 && room > 0 {
				fail("none of %d frames was stored, with %d buffers", len(frames), room)
			}
			stored += got
			r.verify()
		}
		if stored == 0 || dropped == 0 {
			fail("%d frames were stored and %d dropped: the test reaches one case only", stored, dropped)
		}
		t.Logf("%d frames stored, %d dropped, %d of them before the card had read the entry of a free buffer", stored, dropped, early)
	})
}

// The kernel agent can start and stop a card repeatedly, also a card that
// another driver left busy.
func TestAgentRestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := sim.Start(ctx, sim.Config{
		Nodes: []sim.Node{{Kind: "card", Name: "a"}, {Kind: "card", Name: "b"}}, Threads: []sim.Thread{{Node: 0, Rank: 0, Name: "agent"}}, Seed: unit.Seed(t),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	thread, err := host.Attach(ctx, f.Conn(), host.ThreadID{}, "agent")
	require.NoError(t, err)
	defer func() { require.NoError(t, thread.Detach()) }()
	raw, err := f.Conn().Memory(0)
	require.NoError(t, err)
	memory, err := mem.New(mem.Config{Fd: raw.FD, Frames: raw.Frames, Use: raw, Seed: 1})
	require.NoError(t, err)
	defer memory.Close()
	for i := range 4 {
		card, err := card.Open(thread, memory, host.CostModel{}, memory.Frames())
		require.NoError(t, err)
		require.NoError(t, card.Start([6]byte{2, 0, 0, 0, 0, 1}, 64), "start %d", i)
		_, err = card.Command(layout.CommandOpcodeNop, nil)
		require.NoError(t, err)
		for range 5 {
			// Frames to an unknown address are in flight when the card is
			// stopped.
			require.NoError(t, card.Send(make([]byte, layout.MaxFrame)))
		}
		require.NoError(t, thread.Sleep(host.Time(i)*7*host.Microsecond))
		require.NoError(t, card.Stop(), "stop %d", i)
	}
}
