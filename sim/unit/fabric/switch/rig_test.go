// SPDX-License-Identifier: Apache-2.0

package switch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/fabric/internal/nics"
)

const (
	pace     = 30 * host.Microsecond // from frame to frame of a node
	testType = 0x88b7                // EtherType of these nodes' frames
)

// setup is one run of plain NICs: each node sends frames at a pace.
type setup struct {
	config  sim.Config // its other fields
	nodes   int
	count   int                        // frames of each node
	to      func(node, i int) int      // destination of the i-th frame; the other nodes in turn if nil
	bytes   int                        // of a frame; 0: the minimum
	after   host.Time                  // how long nodes receive after the last frame; 0: 5 ms
	during  func(t *host.Thread) error // on a further thread of the last node
	forEver bool                       // nodes receive one frame, without a limit
}

type result struct {
	sent, received [][]message // by node
	hops           []hop       // in the order of the frame file
	ends           [][]host.Time
	strays         int // arrivals in the trace at no node
	digest         bridge.Digest
}

type message struct{ from, to, number int }

type hop struct {
	start       host.Time
	source      int // layout.WireSwitch: the switch
	destination int
	faults      uint16
	message
}

func (r result) between(source, destination int) (hops []hop) {
	for _, h := range r.hops {
		if h.source == source && h.destination == destination {
			hops = append(hops, h)
		}
	}
	return hops
}

func write(m message, bytes int) []byte {
	f := make([]byte, bytes)
	to, from := driver.NodeMAC(m.to), driver.NodeMAC(m.from)
	copy(f[layout.EthernetHeaderDestinationOffset:], to[:])
	copy(f[layout.EthernetHeaderSourceOffset:], from[:])
	binary.BigEndian.PutUint16(f[layout.EthernetHeaderEtherTypeOffset:], testType)
	f[layout.EthernetHeaderSize], f[layout.EthernetHeaderSize+1] = byte(m.from), byte(m.to)
	binary.BigEndian.PutUint32(f[layout.EthernetHeaderSize+2:], uint32(m.number))
	return f
}

func read(f []byte) message {
	f = f[layout.EthernetHeaderSize:]
	return message{int(f[0]), int(f[1]), int(binary.BigEndian.Uint32(f[2:]))}
}

func run(t *testing.T, s setup) result {
	t.Helper()
	r, err := s.run(t)
	require.NoError(t, err)
	return r
}

// running is a setup with its running fabric.
type running struct {
	setup
	result
	*nics.LAN
}

func (s setup) run(t *testing.T) (result, error) {
	t.Helper()
	if s.to == nil {
		s.to = func(node, i int) int { return (node + 1 + i%(s.nodes-1)) % s.nodes }
	}
	s.bytes, s.after, s.config.MemoryBytes = max(s.bytes, layout.MinFrame), max(s.after, 5*host.Millisecond), 4<<20
	x := &running{setup: s, LAN: nics.Start(t, s.config, s.nodes, s.during != nil)}
	x.sent, x.received, x.ends = make([][]message, s.nodes), make([][]message, s.nodes), make([][]host.Time, s.nodes)
	var err error
	x.digest, err = x.Run(t, x.serve, x.send, func(t *host.Thread) error { return errors.Join(x.Begin(t), s.during(t)) })
	if err == nil {
		x.readRecords(t)
	}
	return x.result, err
}

// end waits for all threads that serve or send.
func (x *running) end(t *host.Thread) error { return t.Barrier(2, 2*x.nodes) }

// receives is the number of frames for a node.
func (s setup) receives(node int) (all int) {
	for n := range s.nodes {
		for i := range s.count {
			if n != node && s.to(n, i) == node {
				all++
			}
		}
	}
	return all
}

func (x *running) serve(t *host.Thread) error {
	node := t.ID().Node
	e, err := x.Open(t)
	if err != nil {
		return err
	}
	until := t.Now() + host.Time(x.count)*pace + x.after
	going := func() bool { return t.Now() < until }
	if x.config.Mode == sim.Free { // where time may stop
		all := x.receives(node)
		going = func() bool { return len(x.received[node]) < all }
	}
	for going() {
		span := until - t.Now()
		if x.forEver {
			span = host.Never
		}
		if _, err := t.WaitInterrupt(span); err != nil {
			return err
		}
		if err := e.Service(t, func(frame []byte) error {
			x.received[node] = append(x.received[node], read(frame))
			return nil
		}); err != nil {
			return err
		}
		if x.forEver && len(x.received[node]) > 0 {
			break
		}
	}
	// Its sender may still be busy.
	return errors.Join(x.end(t), e.Stop(t))
}

func (x *running) send(t *host.Thread) error {
	node := t.ID().Node
	if err := x.Send(t, x.count, pace, func(i int) []byte {
		m := message{node, x.to(node, i), i}
		if m.to == node {
			return nil
		}
		x.sent[node] = append(x.sent[node], m)
		return write(m, x.bytes)
	}); err != nil {
		return err
	}
	return x.end(t)
}

func (x *running) readRecords(t *testing.T) {
	t.Helper()
	for _, e := range x.Trace(t) {
		switch {
		case layout.TraceEvent(e.Event()) != layout.TraceEventWireEnd:
		case int(e.Node()) >= len(x.ends):
			x.strays++
		default:
			x.ends[e.Node()] = append(x.ends[e.Node()], host.Time(e.Time()))
		}
	}
	for _, f := range x.Frames(t) {
		x.hops = append(x.hops, hop{host.Time(f.Time()), int(f.Source()), int(f.Destination()), f.Faults(), read(f.Bytes)})
	}
}

// lost reports whether a frame does not arrive intact.
func (h hop) lost() bool {
	return h.faults>>layout.WireFaultDrop&1 != 0 || h.faults>>layout.WireFaultCut&1 != 0 || h.faults>>layout.WireFaultLink&1 != 0 || h.damaged()
}

func (h hop) damaged() bool {
	return h.faults>>layout.WireFaultCorrupt&1 != 0 || h.faults>>layout.WireFaultTruncate&1 != 0
}

// counted returns the expected counts of a direction. The wire must not
// duplicate frames.
func counted(hops []hop) (c bridge.WireCounts) {
	for _, h := range hops {
		c.Sent++
		for k := range c.Faults {
			c.Faults[k] += uint64(h.faults >> k & 1)
		}
		switch {
		case h.damaged():
			c.Damaged++
		case !h.lost():
			c.Arrived++
		}
	}
	return c
}

// check checks the consistency of a run without overload and without duplicates
// on the wires: each hop follows from the one before, nodes received the frames
// of the last hop, and the counts agree.
func (r result) check() error {
	known := map[int]bool{} // nodes whose address the switch has learned
	want := make([][]message, len(r.sent))
	flooded, wrong := make([]uint64, len(r.sent)), make([]uint64, len(r.sent))
	if r.strays != 0 {
		return fmt.Errorf("%d arrivals in the trace at no node", r.strays)
	}
	for n, sent := range r.sent {
		up := r.between(n, layout.WireSwitch)
		if len(up) != len(sent) {
			return fmt.Errorf("node %d sent %d frames, %d are in the file", n, len(sent), len(up))
		}
		for i, h := range up {
			if h.message != sent[i] {
				return fmt.Errorf("frame %d of node %d is %v in the file, not %v", i, n, h.message, sent[i])
			}
		}
		if c := counted(up); r.digest.Wire[n] != c {
			return fmt.Errorf("counts of what node %d sent: %+v, want %+v", n, r.digest.Wire[n], c)
		}
	}
	// Frames of a run have one length, so this is the order in which they are
	// complete at the switch.
	for _, h := range r.hops {
		if h.source == layout.WireSwitch {
			continue
		}
		if h.damaged() {
			wrong[h.from]++
		}
		if h.lost() {
			continue
		}
		known[h.from] = true
		if known[h.to] {
			want[h.to] = append(want[h.to], h.message)
			continue
		}
		flooded[h.from]++
		for n := range want {
			if n != h.from {
				want[n] = append(want[n], h.message)
			}
		}
	}
	for n := range want {
		down := r.between(layout.WireSwitch, n)
		var got []message
		var arrives []message
		for _, h := range down {
			got = append(got, h.message)
			if !h.lost() && h.to == n {
				arrives = append(arrives, h.message)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want[n]) {
			return fmt.Errorf("the switch sent node %d %v, want %v", n, got, want[n])
		}
		if fmt.Sprint(r.received[n]) != fmt.Sprint(arrives) {
			return fmt.Errorf("node %d got %v, want %v", n, r.received[n], arrives)
		}
		c := counted(down)
		if r.digest.Switch.Wire[n] != c {
			return fmt.Errorf("counts of what node %d is sent: %+v, want %+v", n, r.digest.Switch.Wire[n], c)
		}
		if uint64(len(r.ends[n])) != c.Arrived+c.Damaged {
			return fmt.Errorf("%d arrivals in the trace of node %d, want %d", len(r.ends[n]), n, c.Arrived+c.Damaged)
		}
		p := r.digest.Switch.Ports[n]
		p.HighestFilling = 0
		if all := (bridge.SwitchPort{Received: r.digest.Wire[n].Arrived, WrongFcs: wrong[n], Flooded: flooded[n], Forwarded: uint64(len(got))}); p != all {
			return fmt.Errorf("port %d: %+v, want %+v", n, p, all)
		}
	}
	return nil
}
