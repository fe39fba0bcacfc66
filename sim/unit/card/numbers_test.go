// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// mostLost is the maximum number of the peer's frames that an unreliable VI
// drops after the last forged one.
const mostLost = layout.SequenceAgreement - 1

// numbered is an unreliable pair with forged frames: node 0's raw port sends
// frames of node 0's VI with any number.
type numbered struct {
	*rig
	from, to       *vi
	source, target *region
	hit            *region // that forged frames write to
	posted         int     // genuine messages so far
}

const (
	ownBytes  = 32
	ownPlaces = 96
)

func (r *rig) numbered() *numbered {
	x := &numbered{rig: r}
	x.from, x.to = r.pair([2]uint8{5, 6}, [2]uint16{41, 42}, [2]bool{true, true})
	x.source = r.node[0].register(100, ownPlaces*ownBytes, x.from.tag, false)
	r.b(func(m *machine) {
		x.target, x.hit = m.register(7, ownPlaces*ownBytes, x.to.tag, true), m.register(9, 64, x.to.tag, true)
	})
	return x
}

// forge sends frames that are right in all but their numbers, back to back.
func (x *numbered) forge(numbers func(i int) uint32, count int) {
	for i := 0; i < count; {
		var batch [][]byte
		for room := len(x.node[0].transmit.buffers) - 3; room > 0 && i < count; room, i = room-1, i+1 {
			h := viaFrame{
				destination: x.to.m.mac, source: x.to.peerMac, etherType: layout.EtherTypeVia, operation: layout.FrameOperationRDMAWrite, version: layout.ViaVersion,
				flags: layout.ViaHeaderFlagsFirstMask | layout.ViaHeaderFlagsLastMask, length: 4, to: x.to.number(), from: x.to.peerVI,
				sequence: numbers(i), handle: x.hit.handle, address: x.hit.address + 4*uint64(i%16), payload: binary.LittleEndian.AppendUint32(nil, x.random.Uint32()),
			}
			batch = append(batch, h.encode())
			x.node[1].hear(h.encode())
			if len(batch) == params.MacReceiveFifoBytes/(layout.MinFrame+params.WireFcsBytes)/2 {
				i++
				break
			}
		}
		x.node[0].inject(batch...)
		x.settle()
	}
}

// own makes the peer send messages of one frame each. All are on the wire
// before the model checks the first. It returns how many of them did not
// arrive, which must be the first ones.
func (x *numbered) own(count int) (lost int) {
	x.source.scramble()
	at := make([]int, count)
	for k := range at {
		at[k] = x.posted % ownPlaces * ownBytes
		x.posted++
		x.from.post(rdmaWrite(x.source, at[k], ownBytes, x.target, at[k]))
	}
	x.from.finish()
	x.settle()
	for k := range at {
		if string(x.target.bytes(at[k], ownBytes)) == string(x.source.bytes(at[k], ownBytes)) {
			continue
		}
		if lost++; lost != k+1 {
			fail("message %d of the peer is lost, and one before it is not", k)
		}
	}
	x.carry()
	x.both((*machine).verifyMemory)
	x.both((*machine).verifyCounters)
	return lost
}

// forgedNumbers are attacks on the number that a VI expects.
var forgedNumbers = []struct {
	name    string
	numbers func(x *numbered) func(i int) uint32
}{
	{"random", func(x *numbered) func(int) uint32 { return func(int) uint32 { return x.random.Uint32() } }},
	{"one number far ahead", func(x *numbered) func(int) uint32 {
		n := x.to.expected + 1<<30
		return func(int) uint32 { return n }
	}},
	{"one number in the window", func(x *numbered) func(int) uint32 {
		n := x.to.expected + layout.SequenceWindow - 1
		return func(int) uint32 { return n }
	}},
	{"any number in the window", func(x *numbered) func(int) uint32 {
		return func(int) uint32 { return x.to.expected + x.random.Uint32N(layout.SequenceWindow) }
	}},
	{"the last number in the window", func(x *numbered) func(int) uint32 {
		return func(int) uint32 { return x.to.expected + layout.SequenceWindow - 1 }
	}},
	{"one after another", func(x *numbered) func(int) uint32 {
		return func(int) uint32 { return x.to.expected }
	}},
	{"one after another, far ahead", func(x *numbered) func(int) uint32 {
		n := x.to.expected + 1<<31 - 1000
		return func(i int) uint32 { return n + uint32(i) }
	}},
	{"one after another, far behind", func(x *numbered) func(int) uint32 {
		n := x.to.expected - 1<<30
		return func(i int) uint32 { return n + uint32(i) }
	}},
	{"a run that is one frame too short", func(x *numbered) func(int) uint32 {
		n := x.random.Uint32()
		return func(i int) uint32 {
			if i%mostLost == 0 {
				n = x.random.Uint32()
			}
			n++
			return n
		}
	}},
}

// After any number of frames with forged numbers an unreliable VI drops at most
// a few of its peer's frames.
func TestForgedNumbers(t *testing.T) {
	count := int(unit.Sizes{Short: 100, Normal: 500, Long: 10_000}.Pick())
	mustPlay(t, config{rawLog2: 8}, forgedNumbersPlay(count))
}

func forgedNumbersPlay(count int) func(r *rig) {
	return func(r *rig) {
		x := r.numbered()
		if lost := x.own(20); lost != 0 {
			fail("%d messages are lost without any attack", lost)
		}
		for _, f := range forgedNumbers {
			x.forge(f.numbers(x), count)
			lost := x.own(3 * layout.SequenceAgreement)
			r.t.Logf("%d forged frames, %s: %d of the peer's own are lost behind them", count, f.name, lost)
			if lost > mostLost {
				fail("%s: %d of the peer's true frames are lost behind the last forged one, at most %d may be", f.name, lost, mostLost)
			}
		}
		// One frame, one bit of its number wrong.
		for bit := range 32 {
			x.forge(func(int) uint32 { return x.to.expected ^ 1<<bit }, 1)
			if lost, most := x.own(3*layout.SequenceAgreement), min(1<<bit+1, mostLost); lost > most {
				fail("bit %d of one number is wrong: %d of the peer's true frames are lost behind it, at most %d may be", bit, lost, most)
			}
		}
	}
}

// unheard updates the model for send descriptors whose frames the wire lost.
func (v *vi) unheard() {
	for _, p := range v.send.posted {
		frames, status, moved := v.transmit(p)
		v.sent(p, nil, status, moved)
		n := uint32(len(frames))
		v.next += n
		v.m.counts[layout.CounterTransmitFrame] += n
		v.m.counts[layout.CounterMacTransmitFrame] += n
	}
	v.send.posted = nil
}

// A cable is unplugged while a peer sends. If fewer frames than the window were
// lost, the VI accepts the next one. If more were lost, it accepts its peer's
// frames again a few frames later.
func TestOutageLongerThanWindow(t *testing.T) {
	const begin, span, outages = 5 * host.Millisecond, 2 * host.Millisecond, 5
	missing := [outages]int{1, layout.SequenceWindow - 1, layout.SequenceWindow, 3 * layout.SequenceWindow, layout.SequenceWindow - 1}
	want := [outages]int{0, 0, mostLost, mostLost, 0}
	var c config
	for i := range host.Time(outages) {
		at := begin + 2*i*span
		c.faults.Faults = append(c.faults.Faults, sim.WireFault{Kind: layout.WireFaultCut, Direction: sim.FromNode0, Frames: sim.FrameSelection{From: at, To: at + span}})
	}
	mustPlay(t, c, func(r *rig) {
		x := r.numbered()
		x.own(20)
		for i := range host.Time(outages) {
			at, now := begin+2*i*span, r.node[0].thread.Now()
			if now > at {
				fail("outage %d begins at %v, and it is %v", i, at, now)
			}
			r.sleep(at - now)
			for sent := 0; sent < missing[i]; {
				n := min(missing[i]-sent, queueSlots-1)
				for range n {
					x.from.post(rdmaWrite(x.source, 0, 1, x.target, 0))
				}
				x.from.finish()
				r.sleep(50 * host.Microsecond)
				x.from.unheard()
				sent += n
			}
			now = r.node[0].thread.Now()
			if now > at+span {
				fail("outage %d ends at %v, and it is %v", i, at+span, now)
			}
			r.sleep(at + span - now)
			if lost := x.own(3 * layout.SequenceAgreement); lost != want[i] {
				fail("%d frames were lost in a row: %d more are lost behind them, want %d", missing[i], lost, want[i])
			}
		}
	})
}

// once is a stream of numbered messages and how often each of them came.
type once struct {
	times  []int
	behind int // messages that came behind a newer one
}

const onceHeld = host.Millisecond // longer than a frame is delayed

func (x *once) send(t *host.Thread, h *driver.Host) error {
	const burst = 150
	e, d, err := endpointWith(t, h, 1)
	if err != nil {
		return err
	}
	if err := errors.Join(e.Dial(t, vipl.At(1, "twice"), host.Second), t.Barrier(1, 2)); err != nil {
		return err
	}
	for i := range x.times {
		if err := d[0].SetSend(e.Buffer.Segment(0, 4)); err != nil {
			return err
		}
		d[0].AttachImmediate(uint32(i))
		if err := e.VI.PostSend(t, d[0]); err != nil {
			return err
		}
		if _, err := e.VI.SendWait(t, host.Second); err != nil {
			return err
		}
		if i%burst == burst-1 { // delayed frames continue
			if err := t.Sleep(onceHeld); err != nil {
				return err
			}
		}
	}
	return errors.Join(t.Barrier(2, 2), e.Close(t))
}

func (x *once) receive(t *host.Thread, h *driver.Host) error {
	e, ds, err := endpointWith(t, h, 64)
	if err != nil {
		return err
	}
	post := func(d *vipl.Descriptor) error {
		return errors.Join(d.SetReceive(e.Buffer.Segment(0, 4)), e.VI.PostRecv(t, d))
	}
	for _, d := range ds {
		if err := post(d); err != nil {
			return err
		}
	}
	if err := errors.Join(e.Accept(t, "twice", host.Second), t.Barrier(1, 2)); err != nil {
		return err
	}
	for last := -1; ; {
		d, err := e.VI.RecvWait(t, 3*onceHeld)
		if errors.Is(err, vipl.ErrTimeout) {
			return errors.Join(t.Barrier(2, 2), e.Close(t))
		}
		if err != nil {
			return err
		}
		i, ok := d.Immediate()
		if !ok || int(i) >= len(x.times) {
			return fmt.Errorf("a message with immediate data %d, %v", i, ok)
		}
		x.times[i]++
		if int(i) < last {
			x.behind++
		}
		last = int(i)
		if err := post(d); err != nil {
			return err
		}
	}
}

// A lossy link that drops, duplicates and reorders delivers no message twice at
// the unreliable level, even if it delays a run of frames long enough to reset
// the number.
func TestNeverTwice(t *testing.T) {
	takesSeconds(t)
	count := int(unit.Sizes{Normal: 300, Long: 20_000}.Pick())
	for _, faults := range []string{"duplicate=20%", "duplicate=100%", "duplicate=20%,drop=30%", "duplicate=20%,drop=10%,reorder=50% behind 100 within 300us"} {
		t.Run(faults, func(t *testing.T) {
			f, err := sim.ParseWireFaults(fmt.Sprintf("%s; seed=%d", faults, unit.Seed(t)))
			require.NoError(t, err)
			for i := range f.Faults {
				f.Faults[i].Direction, f.Faults[i].Frames.Type = sim.FromNode0, layout.EtherTypeVia
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			x := once{times: make([]int, count)}
			err = fabric.Run(ctx, fabric.RunConfig{Fabric: sim.Config{Faults: f}},
				fabric.Program{Node: 0, Name: "sender", Main: x.send}, fabric.Program{Node: 1, Name: "receiver", Main: x.receive})
			require.NoError(t, err)
			came := 0
			for i, n := range x.times {
				require.LessOrEqual(t, n, 1, "message %d came %d times", i, n)
				came += n
			}
			t.Logf("%d of %d messages came, %d of them behind a newer one", came, count, x.behind)
			if faults == "duplicate=20%" || faults == "duplicate=100%" {
				require.Equal(t, count, came)
			}
		})
	}
}

// endpointWith opens an endpoint and some descriptors beside it.
func endpointWith(t *host.Thread, h *driver.Host, n int) (*endpoint.Endpoint, []*vipl.Descriptor, error) {
	e, err := endpoint.Open(t, h, endpoint.Config{Bytes: pageBytes, Receives: -1})
	if err != nil {
		return nil, nil, err
	}
	b, err := e.NIC.Alloc(t, n*vipl.DescriptorBytes)
	if err != nil {
		return nil, nil, err
	}
	g, err := e.NIC.RegisterBuffer(t, b, vipl.MemAttributes{})
	if err != nil {
		return nil, nil, err
	}
	ds := make([]*vipl.Descriptor, n)
	for i := range ds {
		if ds[i], err = g.Descriptor(i*vipl.DescriptorBytes, 1); err != nil {
			return nil, nil, err
		}
	}
	return e, ds, nil
}
