// SPDX-License-Identifier: Apache-2.0

// Package switch_test compares the switch with a model of it. A player sends
// scripts of frames through the simulator's network without any node, and every
// departure, arrival and count must be the model's. Further tests use the
// switch between plain NICs and between cards.
package switch_test

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/verilate"
)

var bench = sim.Program{
	Folder: "switch-bench", Name: "switch_player",
	Sources: []string{"sim/unit/fabric/switch/cc/*.cc", "sim/fabric/network.cc", "sim/fabric/switch.cc", "sim/fabric/link.cc", "sim/fabric/wire_faults.cc", "sim/fabric/model_params.cc"},
	Headers: []string{"sim/fabric/*.h", "sim/gen/*.h", "sim/model/*.h"},
}

func player(t *testing.T, mutants ...verilate.Mutant) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	program, err := bench.Build(ctx, mutants...)
	require.NoError(t, err)
	return program
}

// The cables of these tests, from their parameters.
const (
	byteTime = host.Time(8 * params.WireBitTime)
	flight   = host.Time(params.PhyTransmitDelay + params.CableDelay + params.PhyReceiveDelay)
	gap      = params.WireGapBytes * byteTime
	fcs      = params.WireFcsBytes
)

// onWire is the time of a frame, from the start of its preamble to the end of
// its FCS.
func onWire(bytes int) host.Time { return host.Time(params.WirePreambleBytes+bytes+fcs) * byteTime }

const (
	broadcast = 0xffffffffffff
	pause     = 0x0180c2000001
	multicast = 0x01005e000001
)

func station(i int) uint64 { return 0x020000000100 + uint64(i) }

// action is a frame that a node sends, no sooner than its cable is free.
type action struct {
	time                host.Time
	node                int
	destination, source uint64
	bytes               int
	damaged             bool // before the switch
}

// board is a switch and its input.
type board struct {
	nodes                  int
	latency, room, entries int // the profile's if 0; entries: -1 for none
	ageing                 host.Time
	actions                []action
}

func (b board) get() (latency, ageing host.Time, room, entries int) {
	latency, ageing, room, entries = params.SwitchLatency, params.SwitchAgeingTime, params.SwitchQueueBytes, params.SwitchTableEntries
	if b.ageing != 0 {
		ageing = b.ageing
	}
	if b.latency != 0 {
		latency = host.Time(b.latency)
	}
	if b.room != 0 {
		room = b.room
	}
	if b.entries != 0 {
		entries = max(b.entries, 0)
	}
	return latency, ageing, room, entries
}

// event is a departure from the switch, or an arrival at a node.
type event struct {
	time   host.Time
	node   int
	number int // of the action
}

// outcome is the output of the player or of the model.
type outcome struct {
	departures, arrivals []event // of each node in their order
	ports                []bridge.SwitchPort
	wires                [][6]uint64 // sent, arrived, damaged from the node and to it
}

func play(program string, b board) (o outcome, err error) {
	latency, ageing, room, entries := b.get()
	args := []string{fmt.Sprint(b.nodes)}
	for name, v := range map[string]int{"SwitchLatency": int(latency), "SwitchQueueBytes": room, "SwitchTableEntries": entries, "SwitchAgeingTime": int(ageing)} {
		args = append(args, "--param", fmt.Sprintf("%s=%d", name, v))
	}
	var script strings.Builder
	counts := make([]int, b.nodes)
	for i, a := range b.actions {
		counts[a.node]++
		if a.damaged {
			args = append(args, "--wire-fault", fmt.Sprintf("Corrupt %d>switch frame=%d", a.node, counts[a.node]))
		}
		fmt.Fprintln(&script, int64(a.time), "send", a.node, a.destination, a.source, a.bytes, i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(script.String())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("%s: %w: %s", program, err, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		if err := o.take(line); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (o *outcome) take(line string) error {
	kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	var e event
	var err error
	switch kind {
	case "sent":
		var source, faults int
		if _, err = fmt.Sscan(rest, &e.time, &source, &e.node, &e.number, &faults); err == nil && source == layout.WireSwitch {
			o.departures = append(o.departures, e)
		}
	case "came":
		var state string
		_, err = fmt.Sscan(rest, &e.time, &e.node, &e.number, &state)
		o.arrivals = append(o.arrivals, e)
	case "port":
		var node int
		var p bridge.SwitchPort
		_, err = fmt.Sscan(rest, &node, &p.Received, &p.WrongFcs, &p.Filtered, &p.Flooded, &p.Moved, &p.Unlearned, &p.Forwarded, &p.NoRoom, &p.HighestFilling, &p.Aged)
		o.ports = append(o.ports, p)
	case "wire":
		var node int
		var w [6]uint64
		_, err = fmt.Sscan(rest, &node, &w[0], &w[1], &w[2], &w[3], &w[4], &w[5])
		o.wires = append(o.wires, w)
	default:
		err = fmt.Errorf("no such line")
	}
	if err != nil {
		return fmt.Errorf("the player's line %q: %w", line, err)
	}
	return nil
}

// to returns the numbers of the actions that a node receives.
func (o outcome) to(node int) (numbers []int) {
	for _, e := range o.arrivals {
		if e.node == node {
			numbers = append(numbers, e.number)
		}
	}
	return numbers
}

func (o outcome) leaving(node int) (events []event) {
	for _, e := range o.departures {
		if e.node == node {
			events = append(events, e)
		}
	}
	return events
}

// frame is an action with the time of its last byte at the switch.
type frame struct {
	action
	number int
	end    host.Time
}

type output struct {
	places []place
	free   host.Time
	first  []int // inputs with reserved space
}

// place is a frame in an output's queue. It leaves with its last byte.
type place struct {
	left  host.Time
	bytes int
}

func (o *outcome) enqueue(b board, p *output, f frame, to int) {
	latency, _, room, _ := b.get()
	port := &o.ports[to]
	p.places = slices.DeleteFunc(p.places, func(x place) bool { return x.left <= f.end })
	filling := 0
	for _, x := range p.places {
		filling += x.bytes
	}
	if filling == 0 {
		p.first = nil
	}
	ahead := slices.Index(p.first, f.node)
	if ahead < 0 {
		ahead = len(p.first)
		p.first = append(p.first, f.node)
	}
	if filling+f.bytes+fcs+ahead*(layout.MaxFrame+fcs) > room {
		port.NoRoom++
		return
	}
	p.first = slices.Delete(p.first, ahead, ahead+1)
	start := max(f.end+latency, p.free)
	p.free = start + onWire(f.bytes) + gap
	p.places = append(p.places, place{start + onWire(f.bytes), f.bytes + fcs})
	port.Forwarded++
	port.HighestFilling = max(port.HighestFilling, uint64(filling+f.bytes+fcs))
	o.departures = append(o.departures, event{start, to, f.number})
	o.arrivals = append(o.arrivals, event{start + onWire(f.bytes) + flight, to, f.number})
	o.wires[to][3]++
	o.wires[to][4]++
}

// model is the reference model of the switch. It handles one frame after the
// other, in order of arrival, and knows when each leaves as soon as it is
// accepted.
func model(b board) (o outcome) {
	_, ageing, _, entries := b.get()
	free := slices.Repeat([]host.Time{-host.Second}, b.nodes) // of the nodes' cables
	var frames []frame
	o.ports, o.wires = make([]bridge.SwitchPort, b.nodes), make([][6]uint64, b.nodes)
	for i, a := range b.actions {
		start := max(a.time, free[a.node])
		free[a.node] = start + onWire(a.bytes) + gap
		frames = append(frames, frame{a, i, start + onWire(a.bytes) + flight})
		o.wires[a.node][0]++
	}
	slices.SortStableFunc(frames, func(x, y frame) int {
		return cmp.Or(cmp.Compare(x.end, y.end), x.node-y.node)
	})
	outputs := slices.Repeat([]output{{free: -host.Second}}, b.nodes)
	type learned struct {
		port  int
		heard host.Time
	}
	table := map[uint64]learned{}
	for _, f := range frames {
		port := &o.ports[f.node]
		if f.damaged {
			port.WrongFcs++
			o.wires[f.node][2]++
			continue
		}
		port.Received++
		o.wires[f.node][1]++
		for address, e := range table {
			if e.heard+ageing <= f.end {
				o.ports[e.port].Aged++
				delete(table, address)
			}
		}
		if f.source>>40&1 == 0 {
			old, known := table[f.source]
			if known && old.port != f.node {
				port.Moved++
			}
			if known || len(table) < entries {
				table[f.source] = learned{f.node, f.end}
			} else {
				port.Unlearned++
			}
		}
		behind, known := table[f.destination]
		to := behind.port
		switch {
		case f.destination>>4 == 0x0180c2000000>>4 || (known && to == f.node):
			port.Filtered++
		case known:
			o.enqueue(b, &outputs[to], f, to)
		default:
			port.Flooded++
			for i := range b.nodes {
				if i != f.node {
					o.enqueue(b, &outputs[i], f, i)
				}
			}
		}
	}
	return o
}

// differ describes the difference between the actual and the expected outcome.
func differ(got, want outcome) error {
	nodes := len(want.ports)
	if len(got.ports) != nodes {
		return fmt.Errorf("%d ports, want %d", len(got.ports), nodes)
	}
	for _, x := range []struct {
		what      string
		got, want []event
	}{{"departure", got.departures, want.departures}, {"arrival", got.arrivals, want.arrivals}} {
		for node := range nodes {
			of := func(all []event) []event {
				return slices.DeleteFunc(slices.Clone(all), func(e event) bool { return e.node != node })
			}
			a, b := of(x.got), of(x.want)
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					return fmt.Errorf("%s %d at node %d: frame %d at %v, want frame %d at %v", x.what, i, node, a[i].number, a[i].time, b[i].number, b[i].time)
				}
			}
			if len(a) != len(b) {
				return fmt.Errorf("%d %ss at node %d, want %d", len(a), x.what, node, len(b))
			}
		}
	}
	for node := range nodes {
		if got.ports[node] != want.ports[node] {
			return fmt.Errorf("port %d: %+v, want %+v", node, got.ports[node], want.ports[node])
		}
		if got.wires[node] != want.wires[node] {
			return fmt.Errorf("cable %d: %v, want %v", node, got.wires[node], want.wires[node])
		}
	}
	return nil
}

// checked plays a board, compares its outcome with the model, and returns it.
func checked(t *testing.T, b board) outcome {
	t.Helper()
	o, err := play(player(t), b)
	require.NoError(t, err)
	require.NoError(t, differ(o, model(b)))
	return o
}

// apart exceeds the time of a frame through the switch.
const apart = 100 * host.Microsecond

func talk(frames ...action) []action {
	for i := range frames {
		frames[i].time, frames[i].bytes = host.Time(i)*apart, layout.MinFrame
	}
	return frames
}

func TestLearningAndFlooding(t *testing.T) {
	o := checked(t, board{nodes: 4, actions: talk(
		action{node: 0, destination: station(1), source: station(0)}, // 1 is unknown
		action{node: 1, destination: station(0), source: station(1)},
		action{node: 0, destination: station(1), source: station(0)},
		action{node: 2, destination: broadcast, source: station(2)},
		action{node: 3, destination: multicast, source: station(3)},
		action{node: 1, destination: station(3), source: station(1)},
		action{node: 1, destination: station(1), source: station(9)}, // at the same port
		action{node: 0, destination: pause, source: station(0)},      // ends at the switch
		action{node: 2, destination: station(0), source: multicast},  // a group is no valid source
		action{node: 0, destination: multicast, source: station(0)},
	)})
	require.Equal(t, []int{1, 3, 4, 8}, o.to(0))
	require.Equal(t, []int{0, 2, 3, 4, 9}, o.to(1))
	require.Equal(t, []int{0, 4, 9}, o.to(2))
	require.Equal(t, []int{0, 3, 5, 9}, o.to(3))
	require.EqualValues(t, 2, o.ports[0].Flooded)
	require.EqualValues(t, 1, o.ports[0].Filtered)
	require.EqualValues(t, 1, o.ports[1].Filtered)
}

func TestMovedAddress(t *testing.T) {
	o := checked(t, board{nodes: 3, actions: talk(
		action{node: 0, destination: broadcast, source: station(0)},
		action{node: 1, destination: station(0), source: station(1)},
		action{node: 2, destination: broadcast, source: station(0)}, // 0 is here now
		action{node: 1, destination: station(0), source: station(1)},
		action{node: 0, destination: station(1), source: station(0)}, // and back
		action{node: 1, destination: station(0), source: station(1)},
	)})
	require.Equal(t, []int{1, 2, 5}, o.to(0))
	require.Equal(t, []int{0, 3}, o.to(2))
	require.EqualValues(t, 1, o.ports[2].Moved)
	require.EqualValues(t, 1, o.ports[0].Moved)
	require.Zero(t, o.ports[1].Moved)
}

// An address beyond the table's capacity is flooded. Known addresses stay
// known.
func TestFullTable(t *testing.T) {
	o := checked(t, board{nodes: 3, entries: 2, actions: talk(
		action{node: 0, destination: broadcast, source: station(0)},
		action{node: 1, destination: broadcast, source: station(1)},
		action{node: 2, destination: broadcast, source: station(2)},
		action{node: 0, destination: station(2), source: station(0)},
		action{node: 2, destination: station(1), source: station(2)},
	)})
	require.EqualValues(t, 2, o.ports[2].Unlearned)
	require.Equal(t, []int{0, 2, 3, 4}, o.to(1))
	require.Equal(t, []int{0, 1, 3}, o.to(2))
}

// An address is forgotten exactly the ageing time after its last frame, and
// frees its entry.
func TestAgeing(t *testing.T) {
	const ageing = 10 * host.Millisecond
	whole := onWire(layout.MinFrame) + flight // to the switch
	for early, aged := range map[host.Time]uint64{0: 1, 1: 0} {
		o := checked(t, board{nodes: 3, entries: 2, ageing: ageing, actions: []action{
			{time: 0, node: 0, destination: broadcast, source: station(0), bytes: layout.MinFrame},
			{time: ageing / 2, node: 1, destination: broadcast, source: station(1), bytes: layout.MinFrame},
			{time: ageing - early, node: 2, destination: station(0), source: station(2), bytes: layout.MinFrame},
		}})
		require.Equal(t, aged, o.ports[0].Aged)
		require.Equal(t, aged, o.ports[2].Flooded)
		require.Equal(t, 1-aged, o.ports[2].Unlearned)
		require.Equal(t, ageing-early+whole+host.Time(params.SwitchLatency), o.leaving(0)[1].time)
	}
}

// One frame with another node's address misleads the switch until the address
// ages or the other node sends.
func TestForgedAddressAges(t *testing.T) {
	const ageing = 10 * host.Millisecond
	frame := func(at host.Time, node int, to, from uint64) action {
		return action{time: at, node: node, destination: to, source: from, bytes: layout.MinFrame}
	}
	o := checked(t, board{nodes: 3, ageing: ageing, actions: []action{
		frame(0, 2, broadcast, station(1)), // forged
		frame(ageing/2, 0, station(1), station(0)),
		frame(ageing+host.Microsecond, 0, station(1), station(0)),
		frame(2*ageing, 1, station(0), station(1)),
	}})
	require.Equal(t, []int{0, 2}, o.to(1), "the second is lost, the third is flooded")
	require.Equal(t, []int{1, 2}, o.to(2))
	require.Equal(t, []int{0, 3}, o.to(0))
	require.EqualValues(t, 1, o.ports[2].Aged)
}

// A switch with no table is a store-and-forward hub.
func TestNoTable(t *testing.T) {
	o := checked(t, board{nodes: 3, entries: -1, actions: talk(
		action{node: 0, destination: station(1), source: station(0)},
		action{node: 1, destination: station(0), source: station(1)},
	)})
	require.EqualValues(t, 1, o.ports[0].Flooded)
	require.EqualValues(t, 1, o.ports[1].Flooded)
}

func TestLatencyToThePicosecond(t *testing.T) {
	for _, latency := range []int{1, 30_000, params.SwitchLatency} {
		for _, bytes := range []int{layout.MinFrame, 61, 777, layout.MaxFrame} {
			o := checked(t, board{nodes: 2, latency: latency, actions: []action{{time: 12345, node: 0, destination: broadcast, source: station(0), bytes: bytes}}})
			whole := 12345 + host.Time(8+bytes+4)*8000 + flight
			require.Equal(t, []event{{whole + host.Time(latency), 1, 0}}, o.departures)
			require.Equal(t, []event{{whole + host.Time(latency) + host.Time(8+bytes+4)*8000 + flight, 1, 0}}, o.arrivals)
		}
	}
}

// Frames of one input keep their order and leave at the rate of the wire.
func TestLineRate(t *testing.T) {
	var actions []action
	sizes := []int{layout.MaxFrame, layout.MinFrame, 300, layout.MinFrame}
	for i := range 400 {
		actions = append(actions, action{node: i % 2 * 2, destination: station(1), source: station(i % 2 * 2), bytes: sizes[i%len(sizes)]})
	}
	actions = append([]action{{node: 1, destination: broadcast, source: station(1), bytes: layout.MinFrame, time: -host.Millisecond}}, actions...)
	o := checked(t, board{nodes: 3, room: 1 << 20, actions: actions})
	out := o.leaving(1)
	require.Len(t, out, 400)
	for i := 1; i < len(out); i++ {
		// Two inputs at full rate: the output is never idle.
		require.Equal(t, host.Time(8+actions[out[i-1].number].bytes+4+12)*8000, out[i].time-out[i-1].time, "behind departure %d", i-1)
	}
}

// Of frames that arrive at one instant, exactly those that fit are accepted.
func TestTailDropExactlyAtTheRoom(t *testing.T) {
	const each = layout.MaxFrame + 4
	for more, lost := range map[int]uint64{0: 0, -1: 1} {
		var actions []action
		for i := range 4 { // to node 4 from four others at once
			actions = append(actions, action{node: i, destination: broadcast, source: station(i), bytes: layout.MaxFrame})
		}
		o := checked(t, board{nodes: 5, room: 4*each + more, actions: actions})
		require.Equal(t, lost, o.ports[4].NoRoom)
		require.EqualValues(t, 4-lost, o.ports[4].Forwarded)
		require.EqualValues(t, (4-lost)*each, o.ports[4].HighestFilling)
		require.Equal(t, []int{0, 1, 2, 3}[:4-lost], o.to(4))
	}
}

// The space of a frame becomes free at the instant at which its last byte has
// left, and not a picosecond before.
func TestRoomIsFreeWhenTheLastByteHasLeft(t *testing.T) {
	const latency = 1_000_000
	left := onWire(layout.MaxFrame) + flight + latency + onWire(layout.MaxFrame) // of the first
	for early, lost := range map[host.Time]uint64{0: 0, 1: 1} {
		o := checked(t, board{nodes: 3, latency: latency, room: layout.MaxFrame + 4, actions: []action{
			{time: 0, node: 0, destination: broadcast, source: station(0), bytes: layout.MaxFrame},
			{time: left - flight - onWire(layout.MinFrame) - early, node: 1, destination: broadcast, source: station(1), bytes: layout.MinFrame},
		}})
		require.Equal(t, lost, o.ports[2].NoRoom, "%d ps before", early)
	}
}

// Senders that never pause share a port evenly, for any gaps between their
// frames.
func TestSendersShareAPort(t *testing.T) {
	const frames = 600
	for _, senders := range []int{2, 3, 7} {
		for _, offset := range []host.Time{0, 1, 3 * host.Microsecond} {
			actions := []action{{time: -host.Millisecond, node: senders, destination: broadcast, source: station(senders), bytes: layout.MinFrame}}
			for range frames {
				for s := range senders {
					actions = append(actions, action{time: host.Time(s) * offset, node: s, destination: station(senders), source: station(s), bytes: layout.MaxFrame})
				}
			}
			slices.SortStableFunc(actions, func(a, b action) int { return int(max(min(a.time-b.time, 1), -1)) })
			o := checked(t, board{nodes: senders + 1, actions: actions})
			got := make([]int, senders)
			for _, n := range o.to(senders) {
				got[actions[n].node]++
			}
			queued := int(o.ports[senders].HighestFilling) / (layout.MaxFrame + 4)
			require.InDelta(t, (senders-1)*frames-queued, o.ports[senders].NoRoom, float64(senders), "what does not fit is lost, and no more")
			require.LessOrEqual(t, slices.Max(got)-slices.Min(got), 2, "%d senders %v apart: %v", senders, offset, got)
		}
	}
}

func TestWrongFcsIsDropped(t *testing.T) {
	actions := talk(
		action{node: 0, destination: broadcast, source: station(0), damaged: true},
		action{node: 1, destination: station(0), source: station(1)}, // not learned from the damaged one
		action{node: 0, destination: station(1), source: station(0)},
	)
	o := checked(t, board{nodes: 3, actions: actions})
	require.EqualValues(t, 1, o.ports[0].WrongFcs)
	require.Equal(t, []int{1}, o.to(2))
}
