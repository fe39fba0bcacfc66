// SPDX-License-Identifier: Apache-2.0

// Package wire_test injects faults into the wire, between plain NICs and
// between cards. It compares the received frames with the sent ones and with
// the simulator's report for each frame.
package wire_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/fabric/internal/nics"
)

const (
	pace     = 20 * host.Microsecond // from frame to frame, above the time of each
	afterAll = 30 * host.Millisecond // for delayed frames
	testType = 0x88b7                // EtherType of frames without a VIA header
)

// setup is one run: each node sends frames at a pace to the other.
type setup struct {
	faults  string
	seed    uint64 // of the models
	program string // a simulator with an injected bug
	mode    sim.Mode
	count   int                                          // frames of each node
	frame   func(node, i int) []byte                     // shape if nil
	oneWay  bool                                         // node 1 does not send
	resetAt host.Time                                    // when node 1's NIC gets RST#, if not 0
	during  func(t *host.Thread, count func() int) error // on a further thread of node 1, with its count of frames
}

type outcome struct {
	faults   sim.WireFaults
	sent     [2][][]byte    // by sender
	log      [2][]logged    // by sender
	received [2][][]byte    // by receiver, in the order of arrival
	ends     [2][]host.Time // by receiver: when last bytes arrived
	digest   bridge.Digest
}

type logged struct {
	start  host.Time
	faults uint16
	bytes  []byte
}

func (l logged) has(kinds ...layout.WireFault) bool {
	for _, k := range kinds {
		if l.faults>>k&1 != 0 {
			return true
		}
	}
	return false
}

// shape is a frame with its sender and its number, of one of several sizes.
func shape(node, i int) []byte {
	sizes := []int{layout.MinFrame, 61, 64, 100, 333, 1000, layout.MaxFrame}
	f := make([]byte, sizes[i%len(sizes)])
	to, from := driver.NodeMAC(1-node), driver.NodeMAC(node)
	copy(f[layout.EthernetHeaderDestinationOffset:], to[:])
	copy(f[layout.EthernetHeaderSourceOffset:], from[:])
	binary.BigEndian.PutUint16(f[layout.EthernetHeaderEtherTypeOffset:], testType)
	for k := layout.EthernetHeaderSize; k < len(f); k++ {
		f[k] = byte(k*7 + i)
	}
	f[layout.EthernetHeaderSize] = byte(node)
	binary.BigEndian.PutUint32(f[layout.EthernetHeaderSize+1:], uint32(i))
	return f
}

// number is a frame's index among those of its sender.
func number(f []byte) int { return int(binary.BigEndian.Uint32(f[layout.EthernetHeaderSize+1:])) }

func numbers(frames [][]byte) (out []int) {
	for _, f := range frames {
		out = append(out, number(f))
	}
	return out
}

func run(t *testing.T, s setup) outcome {
	t.Helper()
	o, err := play(t, s)
	require.NoError(t, err)
	return o
}

// running is a setup with its running fabric.
type running struct {
	setup
	outcome
	*nics.LAN
	sending atomic.Int32 // nodes that may still send
	mu      sync.Mutex   // free mode only: received is read by another thread
}

func play(t *testing.T, s setup) (outcome, error) {
	t.Helper()
	if s.frame == nil {
		s.frame = shape
	}
	faults, err := sim.ParseWireFaults(s.faults)
	require.NoError(t, err)
	x := &running{setup: s, LAN: nics.Start(t, sim.Config{Program: s.program, Mode: s.mode, MemoryBytes: 16 << 20, Seed: s.seed, Faults: faults}, 2, s.during != nil)}
	x.outcome.faults = faults
	x.sending.Store(2)
	x.digest, err = x.Run(t, x.serve, x.send, func(t *host.Thread) error {
		if err := x.Begin(t); err != nil {
			return err
		}
		return s.during(t, func() int {
			x.mu.Lock()
			defer x.mu.Unlock()
			return len(x.received[1])
		})
	})
	if err == nil {
		x.readRecords(t)
	}
	return x.outcome, err
}

func (x *running) serve(t *host.Thread) error {
	node := t.ID().Node
	e, err := x.Open(t)
	if err != nil {
		return err
	}
	until := t.Now() + host.Time(x.count)*pace + afterAll
	going := func() bool { return t.Now() < until }
	wait := func() host.Time { return until - t.Now() }
	quiet := false // no frame came for a while after both had sent
	if x.mode == sim.Free {
		going = func() bool { return !quiet }
		wait = func() host.Time { return host.Second }
	}
	for going() {
		span := wait()
		reset := node == 1 && x.resetAt > t.Now()
		if reset {
			span = min(span, x.resetAt-t.Now())
		}
		sent := x.sending.Load() == 0
		came, err := t.WaitInterrupt(span)
		if err != nil {
			return err
		}
		quiet = sent && !came
		if reset && t.Now() == x.resetAt {
			if err := errors.Join(t.ResetBus(host.Microsecond), t.Sleep(100*host.Microsecond), e.Release(t), e.Start(t, driver.NodeMAC(node))); err != nil {
				return err
			}
		}
		if err := e.Service(t, func(frame []byte) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.received[node] = append(x.received[node], append([]byte(nil), frame...))
			return nil
		}); err != nil {
			return err
		}
	}
	for _, c := range []layout.NICCounter{layout.NICCounterReceiveOverrun, layout.NICCounterReceiveDropped, layout.NICCounterReceiveError, layout.NICCounterTransmitError} {
		if v, err := e.Counter(t, c); err != nil || v != 0 {
			return errors.Join(err, fmt.Errorf("%v is %d", c, v))
		}
	}
	return e.Stop(t)
}

func (x *running) send(t *host.Thread) error {
	defer x.sending.Add(-1)
	node := t.ID().Node
	if node == 1 && x.oneWay {
		return x.Begin(t)
	}
	return x.Send(t, x.count, pace, func(i int) []byte {
		f := x.frame(node, i)
		x.sent[node] = append(x.sent[node], f)
		return f
	})
}

func (x *running) readRecords(t *testing.T) {
	t.Helper()
	for _, r := range x.Trace(t) {
		if layout.TraceEvent(r.Event()) == layout.TraceEventWireEnd {
			x.ends[r.Node()] = append(x.ends[r.Node()], host.Time(r.Time()))
		}
	}
	for _, f := range x.Frames(t) {
		x.log[f.Source()] = append(x.log[f.Source()], logged{host.Time(f.Time()), f.Faults(), f.Bytes})
	}
}

// The wire of these tests, from its parameters.
const (
	byteTime = host.Time(8 * params.WireBitTime)
	flight   = host.Time(params.PhyTransmitDelay + params.CableDelay + params.PhyReceiveDelay)
	gapTime  = params.WireGapBytes * byteTime
)

func onTheWay(bytes int) host.Time {
	return host.Time(params.WirePreambleBytes+bytes+params.WireFcsBytes)*byteTime + flight
}

// check checks the consistency of an outcome without reordering: the received
// frames are the sent ones with the changes in the log, and the counts agree.
// It returns the first error.
func (o *outcome) check() error {
	for node := range 2 {
		var want [][]byte
		counts := bridge.WireCounts{Sent: uint64(len(o.log[node]))}
		if len(o.log[node]) != len(o.sent[node]) {
			return fmt.Errorf("node %d sent %d frames, %d are in the log", node, len(o.sent[node]), len(o.log[node]))
		}
		for i, l := range o.log[node] {
			if string(l.bytes) != string(o.sent[node][i]) {
				return fmt.Errorf("frame %d of node %d is not in the log as it was sent", i, node)
			}
			if l.has(layout.WireFaultDrop, layout.WireFaultCut, layout.WireFaultLink) && !l.has(layout.WireFaultTruncate) && l.faults&(l.faults-1) != 0 {
				return fmt.Errorf("frame %d of node %d is lost and has faults %#x", i, node, l.faults)
			}
			copies := uint64(1)
			for k := range counts.Faults {
				counts.Faults[k] += uint64(l.faults >> k & 1)
			}
			if l.has(layout.WireFaultDuplicate) {
				copies = 2
			}
			switch {
			case l.has(layout.WireFaultCorrupt, layout.WireFaultTruncate):
				counts.Damaged += copies
			case l.has(layout.WireFaultDrop, layout.WireFaultCut, layout.WireFaultLink):
			default:
				counts.Arrived += copies
				for range copies {
					want = append(want, l.bytes)
				}
			}
		}
		got := o.received[1-node]
		for i := range min(len(got), len(want)) {
			if string(got[i]) != string(want[i]) {
				return fmt.Errorf("arrival %d at node %d is not frame %d as it was sent", i, 1-node, number(want[i]))
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("%d frames arrived at node %d, want %d", len(got), 1-node, len(want))
		}
		if c := o.digest.Wire[node]; c != counts {
			return fmt.Errorf("counts of node %d: %+v, want %+v", node, c, counts)
		}
		if uint64(len(o.ends[1-node])) != counts.Arrived+counts.Damaged {
			return fmt.Errorf("%d arrivals in the trace of node %d, want %d and %d damaged", len(o.ends[1-node]), 1-node, counts.Arrived, counts.Damaged)
		}
	}
	return nil
}

func TestWithoutFaults(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		o := run(t, setup{count: 100, mode: mode})
		require.NoError(t, o.check())
		require.Equal(t, bridge.WireCounts{Sent: 100, Arrived: 100}, o.digest.Wire[0])
	}
}

// Each kind alone at several rates, from no frames to all, in one direction.
func TestRates(t *testing.T) {
	const count = 400
	for _, kind := range []layout.WireFault{layout.WireFaultDrop, layout.WireFaultDuplicate, layout.WireFaultCorrupt, layout.WireFaultTruncate} {
		t.Run(kind.String(), func(t *testing.T) {
			var least uint64
			for _, percent := range []float64{0, 5, 30, 100} {
				f := sim.WireFaults{Faults: []sim.WireFault{{Kind: kind, Direction: sim.FromNode0, Frames: sim.FrameSelection{Share: sim.Percent(percent)}}}}
				o := run(t, setup{faults: f.String(), count: count})
				require.NoError(t, o.check())
				require.Equal(t, bridge.WireCounts{Sent: count, Arrived: count}, o.digest.Wire[1], "the other direction")
				n := o.digest.Wire[0].Faults[kind]
				want := percent / 100 * count
				switch percent {
				case 0, 100:
					require.EqualValues(t, want, n)
				default:
					require.InDelta(t, want, n, 0.6*want)
					require.Greater(t, n, least)
				}
				least = n
			}
		})
	}
}
