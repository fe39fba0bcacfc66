// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

const everything = "drop=5%,duplicate=5%,corrupt=5%,truncate=5%,delay=5% by 1us..300us; 0>1:pause=2ms..3ms,cut=4ms..4.2ms; 1>0:cut=1ms..1.5ms"

func with(log []logged, kind layout.WireFault) (out []int) {
	for i, l := range log {
		if l.has(kind) {
			out = append(out, i)
		}
	}
	return out
}

func TestEverythingTogether(t *testing.T) {
	const count = 400
	o := run(t, setup{faults: everything, count: count})
	require.NoError(t, o.check())
	for node := range 2 {
		for kind := range layout.WireFaultCut + 1 {
			if kind != layout.WireFaultReorder && (kind != layout.WireFaultPause || node == 0) {
				require.NotZero(t, o.digest.Wire[node].Faults[kind], "%v of node %d", kind, node)
			}
		}
	}
	again := run(t, setup{faults: everything, count: count})
	require.Equal(t, o, again)
	// A seed in the specification replaces the models' seed.
	named := run(t, setup{faults: everything + "; seed=77", count: count, seed: 1})
	require.Equal(t, run(t, setup{faults: everything + "; seed=77", count: count, seed: 2}).digest, named.digest)
	require.NotEqual(t, o.log, named.log)
	require.NotEqual(t, o.log, run(t, setup{faults: everything, count: count, seed: unit.Seed(t) + 1}).log)

	free := run(t, setup{faults: "drop=5%,duplicate=5%,corrupt=5%,truncate=5%", count: count, mode: sim.Free})
	require.NoError(t, free.check())
}

// The frames with one fault do not depend on the other faults, the other
// direction or other settings. A higher rate selects the same frames and more.
func TestChoicesAreIndependent(t *testing.T) {
	const count = 300
	chosen := func(faults string, node int, kind layout.WireFault) []int {
		o := run(t, setup{faults: faults, count: count})
		require.NoError(t, o.check())
		return with(o.log[node], kind)
	}
	alone := chosen("0>1:drop=10%", 0, layout.WireFaultDrop)
	require.NotEmpty(t, alone)
	require.Equal(t, alone, chosen("duplicate=50%,drop=10%; 1>0:truncate=30%", 0, layout.WireFaultDrop))
	require.NotEqual(t, alone, chosen("drop=10%", 1, layout.WireFaultDrop), "the other direction")
	require.NotEqual(t, alone, chosen("0>1:corrupt=10%", 0, layout.WireFaultCorrupt), "another kind")
	more := chosen("0>1:drop=20%", 0, layout.WireFaultDrop)
	require.Greater(t, len(more), len(alone))
	require.Subset(t, more, alone)
	second := chosen("0>1:drop=frame 1,drop=10%", 0, layout.WireFaultDrop)
	require.NotEqual(t, slices.Insert(slices.Clone(alone), 0, 0), second, "the second rule of a kind has its own choices")
	half := chosen("0>1:drop=every 2 20%", 0, layout.WireFaultDrop)
	require.Equal(t, slices.DeleteFunc(slices.Clone(more), func(i int) bool { return i%2 == 0 }), half)
}

// via returns the n-th frame. Four of five have VIA headers: VIs 1 and 2
// alternate, messages have three frames, and VI 2's are RDMA writes.
func via(node, i int) []byte {
	f := shape(node, i)
	if i%5 == 4 {
		return f
	}
	n := i - i/5 // among those with a header
	vi, k := 1+n%2, n/2
	binary.BigEndian.PutUint16(f[layout.EthernetHeaderEtherTypeOffset:], layout.EtherTypeVia)
	h := layout.ViaHeader(f[layout.EthernetHeaderSize : layout.EthernetHeaderSize+layout.ViaHeaderSize])
	clear(h)
	h.SetSourceVI(uint16(vi) | 0x300) // with a generation
	h.SetSequence(uint32(1000*vi + k))
	h.SetImmediate(uint32(i)) // read by number
	operation, flags := layout.FrameOperationSend, uint8(0)
	if vi == 2 {
		operation = layout.FrameOperationRDMAWrite
	}
	if k%3 == 0 {
		flags |= layout.ViaHeaderFlagsFirstMask
	}
	if k%3 == 2 {
		flags |= layout.ViaHeaderFlagsLastMask
	}
	h.SetOperationVersion(uint8(operation) | layout.ViaVersion<<layout.ViaHeaderOperationVersionVersionLsb)
	h.SetFlags(flags)
	return f
}

func TestScripts(t *testing.T) {
	const count = 120
	plain := run(t, setup{count: count, frame: via})
	require.NoError(t, plain.check())
	all := func(take func(i int, l logged, h layout.ViaHeader) bool) (out []int) {
		for i, l := range plain.log[0] {
			var h layout.ViaHeader
			if binary.BigEndian.Uint16(l.bytes[layout.EthernetHeaderEtherTypeOffset:]) == layout.EtherTypeVia {
				h = layout.ViaHeader(l.bytes[layout.EthernetHeaderSize : layout.EthernetHeaderSize+layout.ViaHeaderSize])
			}
			if take(i, l, h) {
				out = append(out, i)
			}
		}
		return out
	}
	vi := func(h layout.ViaHeader, n int) bool { return h != nil && int(h.SourceVI()&0xff) == n }
	middle := plain.log[0][50].start
	for text, want := range map[string][]int{
		"frame 1":               {0},
		"frame 17":              {16},
		"frame 121":             nil,
		"every 50":              {49, 99},
		"every 50 frame 100":    {99},
		"every 50 frame 99":     nil,
		"type 0x88b7":           all(func(_ int, _ logged, h layout.ViaHeader) bool { return h == nil }),
		"type 0x88b7 frame 3":   {14},
		"type 0x88b7 every 10":  {49, 99},
		"vi 1":                  all(func(_ int, _ logged, h layout.ViaHeader) bool { return vi(h, 1) }),
		"vi 2 frame 5":          all(func(_ int, _ logged, h layout.ViaHeader) bool { return vi(h, 2) })[4:5],
		"vi 3":                  nil,
		"operation rdmawrite":   all(func(_ int, _ logged, h layout.ViaHeader) bool { return vi(h, 2) }),
		"operation send":        all(func(_ int, _ logged, h layout.ViaHeader) bool { return vi(h, 1) }),
		"operation acknowledge": nil,
		"sequence 2007":         all(func(_ int, _ logged, h layout.ViaHeader) bool { return h != nil && h.Sequence() == 2007 }),
		"first vi 1": all(func(_ int, _ logged, h layout.ViaHeader) bool {
			return vi(h, 1) && h.Flags()&layout.ViaHeaderFlagsFirstMask != 0
		}),
		"last": all(func(_ int, _ logged, h layout.ViaHeader) bool {
			return h != nil && h.Flags()&layout.ViaHeaderFlagsLastMask != 0
		}),
		"first last":                     nil,
		"message 7 frame 3 vi 2":         all(func(_ int, _ logged, h layout.ViaHeader) bool { return h != nil && h.Sequence() == 2000+3*6+2 }),
		"message 2":                      all(func(_ int, _ logged, h layout.ViaHeader) bool { return h != nil && h.Sequence()%1000/3 == 1 }),
		"message 2 every 2 vi 1":         all(func(_ int, _ logged, h layout.ViaHeader) bool { return h != nil && h.Sequence() == 1000+4 }),
		"message 2 frame 4":              nil,
		"0s.." + text(middle):            all(func(_ int, l logged, _ layout.ViaHeader) bool { return l.start < middle }),
		text(middle) + "..":              all(func(_ int, l logged, _ layout.ViaHeader) bool { return l.start >= middle }),
		"frame 2 " + text(middle) + "..": {51},
	} {
		o := run(t, setup{faults: "0>1:drop=" + text, count: count, frame: via})
		require.NoError(t, o.check(), text)
		require.Equal(t, want, with(o.log[0], layout.WireFaultDrop), text)
		require.Zero(t, o.digest.Wire[1].Faults, text)
	}
}

// text returns a time in the syntax of specifications.
func text(t host.Time) string {
	f := sim.WireFault{Kind: layout.WireFaultCut, Frames: sim.FrameSelection{From: t, To: bridge.Never}}
	s := f.String()
	return s[len("cut=") : len(s)-len("..")]
}

// arrivals returns the expected times of the frames' last bytes, if each may
// continue at a given time and all keep their order.
func arrivals(log []logged, from func(i int, l logged) host.Time) (ends []host.Time) {
	free := -host.Never
	for i, l := range log {
		start := max(from(i, l), free)
		ends = append(ends, start+onTheWay(len(l.bytes)))
		free = start + onTheWay(len(l.bytes)) - flight + gapTime
	}
	return ends
}

func TestDelay(t *testing.T) {
	const count = 200
	asSent := func(_ int, l logged) host.Time { return l.start }
	o := run(t, setup{faults: "0>1:delay=100% by 77us", count: count})
	require.NoError(t, o.check())
	require.Equal(t, arrivals(o.log[0], func(_ int, l logged) host.Time { return l.start + 77*host.Microsecond }), o.ends[1])
	require.Equal(t, arrivals(o.log[1], asSent), o.ends[0], "the other direction")
	// Frames behind a delayed one wait for it, and no longer.
	o = run(t, setup{faults: "0>1:delay=frame 5 by 300us,delay=every 60 by 50us", count: count})
	require.NoError(t, o.check())
	require.Equal(t, arrivals(o.log[0], func(i int, l logged) host.Time {
		switch i {
		case 4:
			return l.start + 300*host.Microsecond
		case 59, 119, 179:
			return l.start + 50*host.Microsecond
		}
		return l.start
	}), o.ends[1])
	// Delays are drawn evenly between bounds. The pace exceeds their
	// difference, so no frame waits for another.
	o = run(t, setup{faults: "0>1:delay=100% by 1us..5us", count: count})
	require.NoError(t, o.check())
	var least, most, sum host.Time = host.Never, 0, 0
	for i, l := range o.log[0] {
		d := o.ends[1][i] - l.start - onTheWay(len(l.bytes))
		least, most, sum = min(least, d), max(most, d), sum+d
	}
	require.GreaterOrEqual(t, least, host.Microsecond)
	require.LessOrEqual(t, most, 5*host.Microsecond)
	require.Less(t, least, 1100*host.Nanosecond)
	require.Greater(t, most, 4900*host.Nanosecond)
	require.InDelta(t, float64(3*host.Microsecond), float64(sum/count), float64(300*host.Nanosecond))
}

func TestPause(t *testing.T) {
	const count = 100
	from, to := host.Millisecond, 1500*host.Microsecond
	o := run(t, setup{faults: "0>1:pause=1ms..1.5ms", count: count})
	require.NoError(t, o.check())
	require.InDelta(t, 500/20, len(with(o.log[0], layout.WireFaultPause)), 1)
	require.Equal(t, arrivals(o.log[0], func(_ int, l logged) host.Time {
		if l.start >= from && l.start < to {
			return to
		}
		return l.start
	}), o.ends[1])
	o = run(t, setup{faults: "0>1:pause=frame 17 for 100us", count: count})
	require.NoError(t, o.check())
	require.Equal(t, arrivals(o.log[0], func(i int, l logged) host.Time {
		if i == 16 {
			return l.start + 100*host.Microsecond
		}
		return l.start
	}), o.ends[1])
}

// A frame in flight when the wire is cut, or the link goes down, arrives in
// part. One that starts later does not arrive.
func TestCut(t *testing.T) {
	const count = 60
	plain := run(t, setup{count: count})
	const frame = 27 // a long one
	require.Len(t, plain.sent[0][frame], layout.MaxFrame)
	start := plain.log[0][frame].start
	data := start + params.WirePreambleBytes*byteTime
	for name, c := range map[string]struct {
		from, to host.Time
		lost     int // frames that left nothing
		bytes    int // of a truncated frame
	}{
		"in a gap, and before the next frame": {start - 1, start, 0, 0},
		"in a preamble":                       {start + 1, start + 2, 1, 0},
		"before the end of the first byte":    {data + byteTime - 1, data + byteTime, 1, 0},
		"after the first byte":                {data + byteTime, data + byteTime + 1, 0, 1},
		"after 700 bytes":                     {data + 700*byteTime, data + 4*pace, 4, 700},
		"after half a byte more":              {data + 700*byteTime + byteTime/2, data + 4*pace, 4, 700},
		"in the FCS":                          {data + (layout.MaxFrame+3)*byteTime, data + 4*pace, 4, layout.MaxFrame + 3},
		"behind the FCS":                      {data + (layout.MaxFrame+4)*byteTime, data + 4*pace, 4, 0},
		"for ever":                            {start, bridge.Never, count - frame, 0},
	} {
		for kind, direction := range map[layout.WireFault]sim.WireDirection{layout.WireFaultCut: sim.FromNode0, layout.WireFaultLink: sim.BothDirections} {
			f := sim.WireFaults{Faults: []sim.WireFault{{Kind: kind, Direction: direction, Frames: sim.FrameSelection{From: c.from, To: c.to}}}}
			o, err := play(t, setup{faults: f.String(), count: count})
			require.NoError(t, err, name)
			wire := o.digest.Wire[0]
			damaged := 0
			if c.bytes != 0 {
				damaged = 1
			}
			require.Equal(t, uint64(c.lost+damaged), wire.Faults[kind], name)
			require.Equal(t, uint64(damaged), wire.Damaged, name)
			require.Equal(t, uint64(damaged), wire.Faults[layout.WireFaultTruncate], name)
			require.NoError(t, o.check(), name)
			require.Equal(t, uint64(count-c.lost-damaged), wire.Arrived, name)
			if damaged != 0 {
				// The first incomplete frame ends when its last byte has come.
				require.Equal(t, start+onTheWay(c.bytes)-4*byteTime, o.ends[1][frame], name)
			}
		}
	}
}

// The model of reordering: a frame continues after the given number have passed
// it, or at its time limit.
func TestReorder(t *testing.T) {
	const count = 150
	order := func(faults string) ([]int, outcome) {
		o := run(t, setup{faults: faults, count: count})
		require.Len(t, o.received[1], count)
		require.Equal(t, bridge.WireCounts{Sent: count, Arrived: count}, o.digest.Wire[1])
		return numbers(o.received[1]), o
	}
	straight := func() (n []int) {
		for i := range count {
			n = append(n, i)
		}
		return n
	}
	got, o := order("0>1:reorder=frame 11")
	want := straight()
	want[10], want[11] = 11, 10
	require.Equal(t, want, got)
	require.Equal(t, []int{10}, with(o.log[0], layout.WireFaultReorder))
	got, _ = order("0>1:reorder=frame 11 behind 5")
	require.Equal(t, slices.Concat(straight()[:10], []int{11, 12, 13, 14, 15, 10}, straight()[16:]), got)
	// Two frames delayed together keep their order.
	got, _ = order("0>1:reorder=frame 11 behind 2,reorder=frame 12")
	require.Equal(t, slices.Concat(straight()[:10], []int{12, 11, 13, 10}, straight()[14:]), got)

	// If nothing passes a frame in time, it continues at its time limit, also
	// at the end of the run.
	got, o = order("0>1:reorder=frame 11 behind 100 within 90us")
	require.Equal(t, slices.Concat(straight()[:10], []int{11, 12, 13, 14, 10}, straight()[15:]), got)
	begin := max(o.log[0][10].start+90*host.Microsecond, o.ends[1][13]-flight+gapTime)
	require.Equal(t, begin+onTheWay(len(o.sent[0][10])), o.ends[1][14])
	got, o = order("0>1:reorder=frame 150 within 20ms")
	require.Equal(t, straight(), got)
	require.Equal(t, o.log[0][149].start+20*host.Millisecond+onTheWay(len(o.sent[0][149])), o.ends[1][149])
	got, o = order("0>1:reorder=100% within 3ms")
	require.Equal(t, straight(), got, "all wait as long")
	require.Equal(t, o.log[0][0].start+3*host.Millisecond+onTheWay(len(o.sent[0][0])), o.ends[1][0])

	got, o = order("0>1:reorder=20% behind 3")
	require.NotEqual(t, straight(), got)
	require.ElementsMatch(t, straight(), got)
	require.Equal(t, model(o.log[0], 3), got)
	again, _ := order("0>1:reorder=20% behind 3")
	require.Equal(t, got, again)

	// With copies, losses and damage: arriving frames pass, copies count once.
	o = run(t, setup{faults: "0>1:reorder=30% behind 2,duplicate=30%,drop=10%,corrupt=10%", count: count})
	require.Equal(t, model(o.log[0], 2), numbers(o.received[1]))
}

// model computes the order of arrival from the log, for frames without a time
// limit.
func model(log []logged, behind int) (got []int) {
	type waiting struct{ frame, left int }
	var back []waiting
	pass := func(i int) {
		if log[i].has(layout.WireFaultCorrupt) {
			return
		}
		got = append(got, i)
		if log[i].has(layout.WireFaultDuplicate) {
			got = append(got, i)
		}
	}
	for i, l := range log {
		switch {
		case l.has(layout.WireFaultDrop):
			continue
		case l.has(layout.WireFaultReorder):
			back = append(back, waiting{i, behind})
			continue
		}
		pass(i)
		for k := range back {
			back[k].left--
		}
		for k := 0; k < len(back); {
			if back[k].left > 0 {
				k++
				continue
			}
			pass(back[k].frame)
			back = slices.Delete(back, k, k+1)
		}
	}
	for _, w := range back {
		pass(w.frame)
	}
	return got
}

// A hold applies after the faults: it keeps the order of the frames that pass
// them.
func TestHeldWireWithFaults(t *testing.T) {
	const count = 100
	const faults = "0>1:drop=10%,duplicate=10%,corrupt=10%,reorder=10%"
	free := run(t, setup{faults: faults, count: count})
	o := run(t, setup{faults: faults, count: count, during: func(t *host.Thread, _ func() int) error {
		return errors.Join(t.HoldWire(true), t.Sleep(3*host.Millisecond), t.HoldWire(false))
	}})
	require.Equal(t, numbers(free.received[1]), numbers(o.received[1]))
	require.Equal(t, free.digest.Wire, o.digest.Wire)
	require.Greater(t, o.ends[1][0], 3*host.Millisecond)
}

// A delayed frame reaches the NIC after its reset.
func TestResetWhileFramesAreHeldBack(t *testing.T) {
	const count = 20
	o := run(t, setup{faults: "0>1:reorder=100% within 5ms", count: count, oneWay: true, resetAt: 2 * host.Millisecond})
	require.NoError(t, o.check())
	require.Greater(t, o.ends[1][0], 5*host.Millisecond)
	// Frames before the reset were received, and those during it are lost.
	o = run(t, setup{faults: "0>1:reorder=frame 1 within 5ms behind 100", count: count, oneWay: true, resetAt: 200 * host.Microsecond})
	got := numbers(o.received[1])
	require.Equal(t, 0, got[len(got)-1])
	require.Less(t, len(got), count)
}

// A thread that waits forever for a lost frame gets an error; a delayed frame
// arrives.
func TestWaitsEnd(t *testing.T) {
	for faults, want := range map[string]error{"0>1:drop=100%": bridge.ErrDeadlock, "0>1:corrupt=100%": bridge.ErrDeadlock, "0>1:cut=0s..": bridge.ErrDeadlock, "0>1:reorder=100% within 5ms": nil} {
		_, err := play(t, setup{faults: faults, count: 1, oneWay: true, during: func(t *host.Thread, _ func() int) error {
			came, err := t.WaitInterrupt(host.Never)
			if err == nil && (!came || t.Now() < 5*host.Millisecond) {
				err = fmt.Errorf("it came at %v", t.Now())
			}
			return err
		}})
		if want == nil {
			require.NoError(t, err, faults)
		} else {
			require.ErrorIs(t, err, want, faults)
		}
	}
}
