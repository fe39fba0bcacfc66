// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// wireLog is the record of the wire from node 0 to node 1.
type wireLog struct {
	starts, ends []host.Time // trace events WireStart and WireEnd
	frames       []wireFrame // the capture
}

type wireFrame struct {
	start host.Time
	bytes int
}

// onWire plays both threads on a fabric that records the wire, and returns the
// records.
func onWire(t *testing.T, program string, left, right func(x *transfer) error) (wireLog, bridge.Digest) {
	t.Helper()
	ctx := testContext(t, time.Minute)
	records := unit.NewRecords(t)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), Program: program, Arguments: records.Arguments()})
	x := newTransfer(t, ctx, f)
	errL, errR := both(func() error { return errors.Join(left(x), x.left.Detach()) }, func() error { return errors.Join(right(x), x.right.Detach()) })
	require.NoError(t, errors.Join(errL, errR))
	d, err := f.Digest(ctx)
	require.NoError(t, err)
	require.True(t, d.Reproducible)
	require.NoError(t, f.Close())
	return readWire(t, records), d
}

func readWire(t *testing.T, records unit.Records) (w wireLog) {
	t.Helper()
	for _, r := range records.Trace(t) {
		switch layout.TraceEvent(r.Event()) {
		case layout.TraceEventWireStart:
			require.Zero(t, r.Node())
			w.starts = append(w.starts, host.Time(r.Time()))
		case layout.TraceEventWireEnd:
			require.EqualValues(t, 1, r.Node())
			w.ends = append(w.ends, host.Time(r.Time()))
		}
	}
	for _, f := range records.Frames(t) {
		w.frames = append(w.frames, wireFrame{host.Time(f.Time()), int(f.Length())})
	}
	return w
}

// The wire of these tests, from its parameters.
const (
	byteTime = host.Time(8 * params.WireBitTime)
	flight   = host.Time(params.PhyTransmitDelay + params.CableDelay + params.PhyReceiveDelay)
)

func onTheWay(bytes int) host.Time {
	return host.Time(params.WirePreambleBytes+bytes+params.WireFcsBytes)*byteTime + flight
}

// arrivals returns the expected arrival times if all frames from the first held
// one on were released at a given time.
func arrivals(frames []wireFrame, kept int, release host.Time) (ends []host.Time) {
	free := host.Time(0)
	for i, f := range frames {
		start := max(f.start, free)
		if i >= kept {
			start = max(start, release)
		}
		ends = append(ends, start+onTheWay(f.bytes))
		free = start + onTheWay(f.bytes) - flight + params.WireGapBytes*byteTime
	}
	return ends
}

func sendAll(x *transfer) error {
	for i, size := range []int{64, 4096, 4, 1456, 64, 256} {
		if i == 5 {
			// Just after the release, during the burst of held frames.
			if err := x.left.Sleep(holdRelease + 10*host.Microsecond - x.left.Now()); err != nil {
				return err
			}
		}
		if err := errors.Join(x.send(size, uint32(i+1)), x.sender.finish(0)); err != nil {
			return err
		}
	}
	return x.left.Sleep(host.Millisecond)
}

const holdRelease = 300 * host.Microsecond

func holdAndRelease(x *transfer) error {
	return errors.Join(x.right.HoldWire(true), x.right.Sleep(holdRelease), x.right.HoldWire(false), x.right.Sleep(host.Millisecond))
}

func TestHeldWire(t *testing.T) {
	run := func(hold bool) (wireLog, bridge.Digest) {
		return onWire(t, "", sendAll, func(x *transfer) error {
			if hold {
				// A second hold changes nothing.
				if err := errors.Join(x.right.HoldWire(true), x.right.Sleep(host.Microsecond), x.right.HoldWire(true)); err != nil {
					return err
				}
			}
			if err := x.right.Sleep(holdRelease - x.right.Now()); err != nil {
				return err
			}
			if x.arrived(1) == hold || x.arrived(5) == hold {
				return errors.New("what should not have arrived has, or the reverse")
			}
			received, err := x.right.Read(layout.EchoRegisterReceived)
			if err != nil {
				return err
			}
			if (received == 0) != hold {
				return errors.New("the device has received what is held, or not what is not")
			}
			return x.right.Sleep(host.Millisecond)
		})
	}
	plain, plainDigest := run(false)
	require.Len(t, plain.frames, 8)
	require.Equal(t, arrivals(plain.frames, 0, 0), plain.ends)

	held, heldDigest := onWire(t, "", sendAll, holdAndRelease)
	require.Equal(t, plain.starts, held.starts, "the sender does not notice")
	require.Equal(t, plain.frames, held.frames)
	require.Equal(t, arrivals(held.frames, 0, holdRelease), held.ends)
	require.Greater(t, held.ends[7], plain.ends[7], "the last one is behind the burst")
	require.Equal(t, plainDigest.Frames, heldDigest.Frames)
	again, againDigest := onWire(t, "", sendAll, holdAndRelease)
	require.Equal(t, held, again)
	require.Equal(t, heldDigest, againDigest)

	// Never released: nothing arrives.
	lost, _ := run(true)
	require.Equal(t, plain.starts, lost.starts)
	require.Empty(t, lost.ends)
}

var heldWireBugs = [][3]string{
	{linkFile, "start = std::max(start, d.free_at);", ""},                                                     // all at once
	{linkFile, "d.kept.push_back({start, std::move(copy)});", "d.kept.push_front({start, std::move(copy)});"}, // out of order
	{linkFile, "d.free_at = start + length + gap_;", "d.free_at = start + length - gap_;"},                    // too close
}

func TestMutantHeldWireIsCaught(t *testing.T) {
	for i, c := range heldWireBugs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			got, _ := onWire(t, mutant(t, c), sendAll, holdAndRelease)
			require.NotEqual(t, arrivals(got.frames, 0, holdRelease), got.ends, c[2])
		})
	}
}

// A hold does not stop frames that the sender's MAC has already sent, nor
// frames released before a second hold.
func TestHeldWireBegins(t *testing.T) {
	two := func(x *transfer) error {
		return errors.Join(x.send(64, 1), x.sender.finish(0), x.send(64, 2), x.sender.finish(0), x.left.Sleep(host.Millisecond))
	}
	plain, _ := onWire(t, "", two, func(x *transfer) error { return x.right.Sleep(host.Millisecond) })
	require.Len(t, plain.frames, 2)
	const again = 50 * host.Microsecond
	for _, c := range []struct {
		from host.Time
		kept int
	}{{plain.starts[0], 0}, {plain.starts[0] + 1, 1}, {plain.starts[1], 1}, {plain.starts[1] + 1, 2}} {
		got, _ := onWire(t, "", two, func(x *transfer) error {
			return errors.Join(x.right.Sleep(c.from), x.right.HoldWire(true), x.right.Sleep(again-c.from), x.right.HoldWire(false),
				x.right.HoldWire(true), x.right.Sleep(host.Millisecond))
		})
		require.Equal(t, arrivals(plain.frames, c.kept, again), got.ends, "held from %v on", c.from)
	}
}

func TestHeldWireIsBounded(t *testing.T) {
	const framePayload = layout.EchoMaxPayload - layout.EchoHeaderSize
	for _, frames := range []int{layout.BridgeMaxHeldFrames, layout.BridgeMaxHeldFrames + 1} {
		ctx := testContext(t, 2*time.Minute)
		f := startFabric(t, ctx, sim.Config{Threads: twoThreads()})
		left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
		var memory [2]*bridge.Memory
		for node := range 2 {
			m, err := f.Conn().Memory(node)
			require.NoError(t, err)
			for i := range memoryBytes / bridge.FrameBytes {
				require.NoError(t, m.Acquire(i, bridge.UseRegion))
			}
			memory[node] = m
		}
		const block, data = 7 << 20, 4096
		source := memory[0].Linear()[data : data+frames*framePayload]
		for i := range source {
			source[i] = byte(i>>4) ^ byte(i)
		}
		request := layout.EchoRequest(memory[0].Linear()[block : block+layout.EchoRequestSize])
		request.SetNode(1)
		request.SetTargetAddress(data)
		request.SetSourceAddress(data)
		request.SetLength(uint32(frames * framePayload))
		errL, errR := both(func() error {
			return errors.Join(left.Write(layout.EchoDoorbell, block, 0, 0), left.Sleep(host.Second))
		}, func() error {
			return errors.Join(right.HoldWire(true), right.Sleep(500*host.Millisecond), right.HoldWire(false), right.Sleep(500*host.Millisecond))
		})
		if frames > layout.BridgeMaxHeldFrames {
			for _, err := range []error{errL, errR} {
				require.ErrorIs(t, err, bridge.ErrDevice)
				require.ErrorContains(t, err, "the wire to node 1 is held and keeps 4096 frames")
			}
			continue
		}
		require.NoError(t, errors.Join(errL, errR))
		require.True(t, bytes.Equal(source, memory[1].Linear()[data:data+frames*framePayload]))
		require.NoError(t, errors.Join(left.Detach(), right.Detach()))
	}
}

func TestHeldWireRefused(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Threads: []sim.Thread{{Name: "only"}, {Rank: 1, Name: "raw"}}})
	only := attach(t, ctx, f, 0, 0, "only")
	raw, err := f.Conn().Attach(ctx, 0, 1, "raw")
	require.NoError(t, err)
	require.NoError(t, only.Begin())
	require.ErrorIs(t, only.HoldWire(true), host.ErrInvalidParameter)
	// The threads of a node take turns, so the second starts when the first
	// waits.
	err, other := both(func() error { return only.Sleep(host.Microsecond) }, func() error {
		return errors.Join(raw.Begin(ctx), raw.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodeHoldWire, Tag: 1}), raw.Detach())
	})
	require.NoError(t, other)
	require.ErrorIs(t, err, bridge.ErrProtocol)
	require.ErrorContains(t, err, "a fabric of 1 node has no wire")
}

// A thread that waits forever for a held frame gets an error that names it.
func TestDeadlockNamesHeldFrames(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads()})
	x := newTransfer(t, ctx, f)
	errL, errR := both(func() error { return errors.Join(x.send(64, 1), x.sender.finish(0), x.left.Detach()) }, func() error {
		if err := x.right.HoldWire(true); err != nil {
			return err
		}
		_, err := x.right.Poll(host.Poll{Ranges: []bridge.Range{{Address: x.flag(1), Length: 4}}, Period: 1, Timeout: host.Never}, func() bool { return x.arrived(1) })
		return err
	})
	require.NoError(t, errL)
	require.ErrorIs(t, errR, bridge.ErrDeadlock)
	require.ErrorContains(t, errR, "1 frames are held on the wire to node 1")
}

func TestHeldWireInFreeMode(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Mode: sim.Free, Threads: twoThreads()})
	x := newTransfer(t, ctx, f)
	require.NoError(t, x.right.HoldWire(true))
	received := func() uint32 {
		v, err := x.right.Read(layout.EchoRegisterReceived) // after this thread's writes
		require.NoError(t, err)
		return v
	}
	require.Zero(t, received())
	require.NoError(t, errors.Join(x.send(64, 1), x.sender.finish(0)))
	require.Zero(t, received())
	require.NoError(t, x.right.HoldWire(false))
	ok, err := x.right.Poll(host.Poll{Ranges: []bridge.Range{{Address: x.flag(1), Length: 4}}, Timeout: 10 * host.Second}, func() bool { return x.arrived(1) })
	require.NoError(t, err)
	require.True(t, ok)
}
