// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
	"hvia/bench/reproduce"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/vipl"
)

// smallCompare is a pattern that takes a second or so with each protocol.
func smallCompare(t *testing.T, pattern string) Config {
	t.Helper()
	c := DefaultConfig(pattern)
	c.Seed = benchtest.Seed(t)
	c.Messages, c.Warmup = 6, 2
	switch pattern {
	case PatternRequestReply:
		c.Mix, c.Messages = []MixEntry{{64, 3000, 3}, {1500, 1, 1}}, 12
	case PatternManyToOne:
		c.Sizes, c.Clients, c.Messages = []int{4, 3000}, 3, 20
	default:
		c.Sizes = []int{4, 3000}
	}
	return c
}

func manyNodes(c Config, nodes int) Config {
	c.Nodes, c.Clients = nodes, nodes-1
	return c
}

func compare(t *testing.T, c Config) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := Run(ctx, c)
	require.NoError(t, err, "replay with HVIA_SEED=%d", c.Seed)
	return r
}

func compareJSON(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.WriteJSON(&b, r))
	return b.String()
}

func compareText(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b))
	return b.String()
}

func TestCompareRejects(t *testing.T) {
	faults := func(text string) sim.WireFaults {
		f, err := sim.ParseWireFaults(text)
		require.NoError(t, err)
		return f
	}
	for _, x := range []struct {
		pattern string
		spoil   func(c *Config)
		text    string
	}{
		{"broadcast", func(*Config) {}, `no pattern "broadcast": there is ["ping-pong" "stream" "request-reply" "n-to-1"]`},
		{PatternStream, func(c *Config) { c.Profile = "none" }, `no profile "none"`},
		{PatternStream, func(c *Config) { c.Protocols = nil }, "no protocols"},
		{PatternStream, func(c *Config) { c.Protocols = []string{"rdma", "udp"} }, `no protocol "udp": there is ["rdma" "send" "mvia" "tcp" "rdma-rd"`},
		{PatternStream, func(c *Config) { c.Protocols = []string{"tcp", "tcp"} }, "protocol tcp is listed twice"},
		{PatternStream, func(c *Config) { c.Sizes = nil }, "no sizes"},
		{PatternStream, func(c *Config) { c.Sizes = []int{65537} }, "size 65537: 1 to 65536 bytes are possible"},
		{PatternStream, func(c *Config) { c.Sizes = []int{4, 4} }, "size 4 is listed twice"},
		{PatternStream, func(c *Config) { c.Messages = 1 }, "1 messages: 2 to 100000 are possible"},
		{PatternStream, func(c *Config) { c.Warmup = -1 }, "-1 warm-up messages: 0 to 100000"},
		{PatternStream, func(c *Config) { c.Window = 257 }, "257 messages in the window: 0 to 256"},
		{PatternStream, func(c *Config) { c.Receives = -2 }, "-2 receives: 0 to 256"},
		{PatternStream, func(c *Config) { c.Clients = 2 }, "2 clients for stream: only n-to-1 has any"},
		{PatternStream, func(c *Config) { c.Mix = []MixEntry{{1, 1, 1}} }, "a mix for stream"},
		{PatternStream, func(c *Config) { c.Params = map[string]int64{"Nothing": 1} }, `no parameter "Nothing"`},
		{PatternPingPong, func(c *Config) { c.Window = 4 }, "only stream and n-to-1 have more than one message in flight"},
		{PatternManyToOne, func(c *Config) { c.Clients = 16 }, "16 clients: 1 to 15 are possible"},
		{PatternManyToOne, func(c *Config) { c.Clients, c.Nodes = 16, 17 }, "17 nodes: 2 to 16 are possible"},
		{PatternManyToOne, func(c *Config) { c.Nodes = 17 }, "17 nodes: 2 to 16 are possible"},
		{PatternManyToOne, func(c *Config) { c.Nodes = 1 }, "1 nodes: 2 to 16 are possible"},
		{PatternManyToOne, func(c *Config) { c.Clients, c.Nodes = 4, 4 }, "4 clients on 4 nodes: of more than 2 nodes one receives and each other has one client, so it is 3 clients"},
		{PatternStream, func(c *Config) { c.Nodes = 3 }, "3 nodes for stream: it is between 2, only n-to-1 can have more"},
		{PatternStream, func(c *Config) { c.Faults = faults("1>switch:drop=1%") }, "there is a cable between the two nodes and no switch: say 0>1 or 1>0"},
		{PatternManyToOne, func(c *Config) { c.Nodes, c.Clients, c.Faults = 3, 2, faults("0>1:drop=1%") }, "say whose cable and which of its directions, for example 0>switch or switch>1"},
		{PatternManyToOne, func(c *Config) { c.Nodes, c.Clients, c.Faults = 3, 2, faults("3>switch:drop=1%") }, "there are 3 nodes, counted from 0"},
		{PatternManyToOne, func(c *Config) { c.Clients, c.Window, c.Sizes = 8, 256, []int{65536} }, "8 clients with 256 messages of 65536 bytes in flight"},
		{PatternRequestReply, func(c *Config) { c.Sizes = []int{4} }, "sizes for request-reply"},
		{PatternRequestReply, func(c *Config) { c.Mix = nil }, "no mix"},
		{PatternRequestReply, func(c *Config) { c.Mix = []MixEntry{{4, 0, 1}} }, "size 0: 1 to 65536"},
		{PatternRequestReply, func(c *Config) { c.Mix = []MixEntry{{4, 4, 0}} }, "a weight of 0 for requests of 4 bytes"},
		{PatternRequestReply, func(c *Config) { c.Mix = []MixEntry{{4, 4, 1}, {4, 4, 2}} }, "requests of 4 bytes with replies of 4 are listed twice"},
	} {
		c := DefaultConfig(x.pattern)
		x.spoil(&c)
		require.ErrorIs(t, c.Validate(), costs.ErrConfig, "%s", x.text)
		require.ErrorContains(t, c.Validate(), x.text)
		_, err := Run(t.Context(), c)
		require.ErrorIs(t, err, costs.ErrConfig)
	}
	for _, pattern := range Patterns() {
		require.NoError(t, DefaultConfig(pattern).Validate(), "%s", pattern)
	}
	many := manyNodes(DefaultConfig(PatternManyToOne), MaxNodes)
	many.Faults = faults("15>switch:drop=1%; switch>1:delay=1% by 1us; corrupt=1%")
	require.NoError(t, many.Validate())
	c := DefaultConfig(PatternPingPong)
	c.Capture = filepath.Join(t.TempDir(), "none", "x.pcapng")
	r, err := Run(t.Context(), c)
	require.ErrorIs(t, err, rig.ErrOutput)
	require.Empty(t, r.Rows)
}

// Every pattern with every protocol: nothing is wrong or lost, the measurements
// are plausible, a second run gives the same bit for bit, and the pages fit a
// terminal.
func TestComparePatterns(t *testing.T) {
	benchtest.TakesSeconds(t)
	for _, pattern := range Patterns() {
		t.Run(pattern, func(t *testing.T) {
			c := smallCompare(t, pattern)
			r := compare(t, c)
			require.Equal(t, compareJSON(t, r), compareJSON(t, compare(t, c)), "two runs")
			require.Empty(t, r.Faults())
			require.Len(t, r.Digests, len(c.Protocols))
			for line := range strings.Lines(compareText(t, r)) {
				require.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 100, "%s", line)
			}
			mean := map[string]map[string]int64{}
			for _, row := range r.Rows {
				at := row.Protocol + ", " + row.What()
				require.Zero(t, row.Lost, "%s", at)
				require.Positive(t, row.Messages, "%s", at)
				l := row.Latency
				require.True(t, 0 < l.P50Ps && l.P50Ps <= l.P90Ps && l.P90Ps <= l.P99Ps && l.P99Ps <= l.MaxPs && l.MeanPs <= l.MaxPs, "%s: %+v", at, l)
				if mean[row.What()] == nil {
					mean[row.What()] = map[string]int64{}
				}
				mean[row.What()][row.Protocol] = l.MeanPs
				if row.Kind == nil {
					checkUse(t, c, row)
				}
			}
			for what, of := range mean {
				require.Len(t, of, len(c.Protocols), "%s", what)
				if !c.oneWay() {
					require.Less(t, of["rdma"], of["send"], "%s", what)
					require.Less(t, of["send"], of["mvia"], "%s", what)
					require.Less(t, of["mvia"], of["tcp"], "%s", what)
				}
			}
		})
	}
}

// checkUse checks the use of hosts and wire in a row against bounds.
func checkUse(t *testing.T, c Config, row Row) {
	t.Helper()
	at := row.Protocol + ", " + row.What()
	require.Positive(t, row.BytesPerSec, "%s", at)
	p, err := protocolOf(row.Protocol)
	require.NoError(t, err)
	require.Less(t, row.BytesPerSec, int64(125_000_000), "%s: the wire carries no more", at)
	for node, h := range row.Hosts {
		var sum int64
		for _, ps := range h.Layers {
			sum += ps
		}
		require.InDelta(t, h.WorkPs, sum, float64(len(h.Layers)), "%s: the layers are the work", at)
		require.Positive(t, h.BusPpm, "%s: node %d", at, node)
		require.Less(t, h.BusPpm, int64(1_000_000), "%s: node %d", at, node)
		require.LessOrEqual(t, row.Wire[node].Ppm, int64(1_000_000), "%s: node %d", at, node)
		for _, l := range []host.Layer{host.LayerTrap, host.LayerInterrupt, host.LayerProtocol, host.LayerCopy} {
			require.Equal(t, p.inKernel(), h.Layers[l.String()] > 0, "%s: node %d: %v: the card's messages need no kernel: %v", at, node, l, h.Layers)
		}
	}
	// A message is on the wire completely, in frames of at most the payload.
	if c.Pattern == PatternPingPong {
		require.GreaterOrEqual(t, row.wireBytes(), int64(row.Size), "%s", at)
	}
	if c.Pattern == PatternManyToOne {
		require.Len(t, row.Clients, c.Clients)
		require.Greater(t, row.FairnessPpm, int64(800_000), "%s: %v", at, row.Clients)
	}
	if p.tcp {
		return
	}
	// One post for a message and, with receives, one for its receive.
	if posts := row.workPs() / params.HostPostTime; !c.oneWay() && c.Pattern == PatternPingPong {
		want := int64(1)
		if !p.write {
			want = 2
		}
		require.GreaterOrEqual(t, posts, want, "%s", at)
	}
}

// The ping-pong is that of the paper: its times are those of the reproduction,
// except for the phase of polls and of transmit interrupts.
func TestComparePingPongIsReproduce(t *testing.T) {
	benchtest.TakesSeconds(t)
	longest := 4096
	if benchtest.Long() {
		longest = 16384
	}
	c := smallCompare(t, PatternPingPong)
	c.Sizes, c.Messages, c.Warmup = []int{4, 1400, longest}, rig.KernelRounds, rig.KernelWarmup
	r := compare(t, c)
	w := reproduce.DefaultConfig()
	w.Seed, w.Sizes, w.Iterations, w.Warmup, w.Background = benchtest.Seed(t), c.Sizes, 2, 1, false
	measured, err := reproduce.Run(t.Context(), w)
	require.NoError(t, err)
	u := measured.Results
	for i, want := range slices.Concat(u.RDMAWrite, u.SendReceive, u.Mvia, u.Tcp) {
		row := r.Rows[i]
		require.Equal(t, want.Size, row.Size)
		require.InDelta(t, want.HalfRTTPs, row.Latency.MeanPs, params.HostPollPeriod, "%s, %d bytes", row.Protocol, row.Size)
	}
}

// With more messages in flight than receives the card drops those without one,
// and the report counts them.
func TestCompareOverrun(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := smallCompare(t, PatternStream)
	c.Protocols, c.Sizes, c.Messages, c.Window, c.Receives = []string{"send", "mvia"}, []int{64}, 30, 16, 1
	r := compare(t, c)
	for _, row := range r.Rows {
		require.Positive(t, row.Lost, "%s", row.Protocol)
		require.Less(t, row.Lost, 32, "%s: some came", row.Protocol)
		require.True(t, row.Verified, "%s", row.Protocol)
		require.Contains(t, compareText(t, r), fmt.Sprintf("lost: %s, 64 bytes: %d messages did not arrive, or not complete\n", row.Protocol, row.Lost))
	}
}

// Over a lossy link, unreliable protocols lose messages and report them, and
// TCP takes longer. No received message is wrong.
func TestCompareFailingWire(t *testing.T) {
	benchtest.TakesSeconds(t)
	for _, pattern := range Patterns() {
		c := smallCompare(t, pattern)
		c.Protocols = []string{"send", "mvia", "tcp", "send-rd"}
		c.Messages = 40
		var err error
		c.Faults, err = sim.ParseWireFaults("0>1:drop=operation send every 17,drop=type 0x0800 every 29")
		require.NoError(t, err)
		r := compare(t, c)
		require.Empty(t, r.Faults(), "%s", pattern)
		require.Contains(t, compareText(t, r), "wire faults of this run: "+c.Faults.String()+"\n")
		lost := map[string]int{}
		slow := map[string]int64{}
		for _, row := range r.Rows {
			if row.Kind == nil {
				lost[row.Protocol] += row.Lost
				slow[row.Protocol] = max(slow[row.Protocol], row.Latency.MaxPs)
			}
		}
		require.Positive(t, lost["send"], "%s", pattern)
		require.Positive(t, lost["mvia"], "%s", pattern)
		require.Zero(t, lost["tcp"], "%s", pattern)
		require.Zero(t, lost["send-rd"], "%s", pattern)
		for _, d := range r.Digests {
			require.Positive(t, d.Wire.Faults["drop"], "%s, %s", pattern, d.Protocol)
			require.Greater(t, d.Wire.Frames, d.Wire.Faults["drop"])
			again := ""
			if d.Protocol == "tcp" || d.Protocol == "send-rd" {
				require.Positive(t, *d.Wire.Retransmitted, "%s, %s", pattern, d.Protocol)
				again = fmt.Sprintf("; retransmitted %d", *d.Wire.Retransmitted)
			} else {
				require.Nil(t, d.Wire.Retransmitted, "%s, %s", pattern, d.Protocol)
			}
			require.Contains(t, compareText(t, r), fmt.Sprintf("%-7s dropped %d of %s frames%s\n", d.Protocol, d.Wire.Faults["drop"], grouped(d.Wire.Frames), again))
		}
		if !c.oneWay() {
			require.Greater(t, slow["tcp"], int64(host.Millisecond), "%s: the time of a retransmission", pattern)
		}
	}
}

// The line for each kind of fault, and for none.
func TestWireEffect(t *testing.T) {
	require.Equal(t, "dropped 12, corrupted 1,234 of 1,002,940 frames; retransmitted 0",
		WireEffect{1002940, map[string]uint64{"corrupt": 1234, "drop": 12}, new(uint64)}.String())
	require.Equal(t, "no fault on any of 297 frames", WireEffect{Frames: 297}.String())
	for kind := range layout.WireFaultCut + 1 {
		s := WireEffect{10, map[string]uint64{strings.ToLower(kind.String()): 7}, nil}.String()
		require.Contains(t, s, " 7 of 10 frames", "%s", kind)
	}
}

// The rate of a stream is that of a span in which the sender is busy and
// messages arrive; without such a span it is that of the whole, which can be
// too small but not too large.
func TestFoldOneWay(t *testing.T) {
	c := DefaultConfig(PatternStream)
	c.Sizes, c.Messages, c.Warmup = []int{1000}, 8, 2
	fold := func(sent, came []host.Time) (Row, host.Time, host.Time) {
		x := newComparison(c, protocols[0], costs.Board{})
		s := &x.stages[0]
		s.notes[0].begin, s.notes[0].sent, s.notes[1].came = 5, sent, [][]host.Time{came}
		var row Row
		from, to := x.foldOneWay(s, &row)
		return row, from, to
	}
	us := func(n ...host.Time) []host.Time {
		for i := range n {
			n[i] *= host.Microsecond
		}
		return n
	}
	row, from, to := fold(us(1, 2, 3, 4, 34, 44, 54, 64, 74, 84), us(10, 20, 30, 40, 50, 60, 70, 80, 90, 100))
	require.True(t, row.Steady)
	require.Equal(t, us(30, 84), []host.Time{from, to})
	require.Equal(t, 5, row.Messages)
	require.EqualValues(t, 5*1000*1_000_000/54, row.BytesPerSec)
	require.EqualValues(t, 36_000_000, row.Latency.MaxPs)

	// All are sent before the first is received, so there is no steady span.
	row, from, to = fold(us(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), us(91, 92, 93, 94, 95, 96, 97, 98, 99, 100))
	require.False(t, row.Steady)
	require.Equal(t, []host.Time{5, us(100)[0]}, []host.Time{from, to})
	require.Equal(t, 10, row.Messages)

	none := []host.Time{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1}
	row, _, _ = fold(us(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), none)
	require.Zero(t, row.Messages)
	require.Zero(t, row.BytesPerSec)
	require.Nil(t, row.Latency)
}

// Connections of several threads share their host evenly, also when each has
// more to send than its socket takes: no thread sends the frames of the others
// for long.
func TestCompareFairConnections(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := DefaultConfig(PatternManyToOne)
	c.Protocols, c.Sizes, c.Messages = []string{"tcp"}, []int{1024}, 600
	row := compare(t, c).Rows[0]
	require.Greater(t, row.FairnessPpm, int64(950_000), "%v", row.Clients)
}

// A thread that waits for more words than it can watch also watches what lies
// between the nearest ones, and no more than necessary.
func TestAtMost(t *testing.T) {
	ranges := func(n ...uint32) (list []mem.Range) {
		for i := 0; i < len(n); i += 2 {
			list = append(list, mem.Range{Address: n[i], Length: n[i+1]})
		}
		return list
	}
	few := ranges(900, 1, 100, 1)
	require.Equal(t, few, atMost(few, 2), "as they were")
	require.Equal(t, ranges(100, 1, 300, 11, 900, 1), atMost(ranges(310, 1, 900, 1, 300, 4, 100, 1), 3))
	require.Equal(t, ranges(100, 211, 900, 1), atMost(ranges(310, 1, 900, 1, 300, 4, 100, 1), 2))
	require.Equal(t, ranges(100, 30, 4_000_000_000, 1), atMost(ranges(4_000_000_000, 1, 105, 1, 100, 30), 2), "one inside another")
	require.Equal(t, ranges(0, 4_294_967_295), atMost(ranges(4_294_967_294, 1, 0, 1), 1))
}

// The receiver serves every client of the largest fabric, although it waits for
// more words than it can watch; each client is on a separate node.
func TestCompareManyNodes(t *testing.T) {
	for _, protocol := range []string{"rdma", "send"} {
		c := manyNodes(smallCompare(t, PatternManyToOne), MaxNodes)
		c.Protocols, c.Warmup, c.Messages = []string{protocol}, 0, 40
		x, err := compareOnFakes(t, c, nil)
		require.NoError(t, err)
		nodes := map[int]bool{}
		for _, p := range x.programs() {
			nodes[p.Node] = true
		}
		require.Len(t, nodes, c.Nodes)
		for i, s := range x.stages {
			require.Len(t, s.notes, c.Nodes)
			for _, n := range s.notes {
				require.True(t, n.complete)
				require.Empty(t, n.fault)
				require.Zero(t, n.lost)
			}
			var row Row
			x.foldOneWay(&x.stages[i], &row)
			require.Len(t, row.Clients, c.Clients)
			require.Greater(t, row.FairnessPpm, int64(900_000), "%v", row.Clients)
		}
	}
}

// The same on simulated cards and NICs: each sender is a node with its own bus,
// cable and capture interface, and the report has the counters of cards and
// switch. Two runs, one with a capture, give the same report.
func TestCompareSwitch(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := manyNodes(smallCompare(t, PatternManyToOne), 4)
	c.Protocols, c.Window = []string{"mvia", "tcp", "rdma-rd", "send-cq"}, 4 // a window that overruns no receiver
	r := compare(t, c)
	c.Capture = filepath.Join(t.TempDir(), "run.pcapng")
	require.Equal(t, compareJSON(t, r), compareJSON(t, compare(t, c)), "two runs, one with a capture")
	require.Empty(t, r.Faults())
	require.Equal(t, 4, r.Nodes)
	for _, row := range r.Rows {
		at := row.Protocol + ", " + row.What()
		require.Zero(t, row.Lost, "%s", at)
		require.Len(t, row.Hosts, 4, "%s", at)
		require.Len(t, row.Wire, 4, "%s", at)
		checkUse(t, c, row)
		// Per message, the wire to the server carries at least the payload,
		// and nothing twice.
		require.Positive(t, row.ToServer.Ppm, "%s", at)
		require.GreaterOrEqual(t, row.ToServer.Bytes, int64(row.Size), "%s", at)
		require.Less(t, row.ToServer.Bytes, int64(2*row.Size+200), "%s", at)
	}
	require.Len(t, r.Digests, len(c.Protocols))
	for _, d := range r.Digests {
		require.Len(t, d.Nodes, 4, "%s", d.Protocol)
		p, err := protocolOf(d.Protocol)
		require.NoError(t, err)
		for n, counts := range d.Nodes {
			require.Positive(t, counts.Forwarded, "%s, node %d", d.Protocol, n)
			require.Positive(t, counts.HighestFilling, "%s, node %d", d.Protocol, n)
			require.Equal(t, p.inKernel(), counts.Card == nil, "%s, node %d", d.Protocol, n)
			require.Equal(t, p.level == vipl.ReliableDelivery, counts.Card["TransmitAcknowledge"] > 0, "%s, node %d: %v", d.Protocol, n, counts.Card)
		}
		frames, ng := benchtest.ReadCapture(t, strings.TrimSuffix(c.Capture, ".pcapng")+"."+d.Protocol+".pcapng")
		require.Equal(t, 4, ng.NInterfaces(), "%s", d.Protocol)
		senders := map[string]bool{}
		for _, f := range frames {
			senders[fmt.Sprint(f.Node, f.Bytes[6:12])] = true
		}
		require.Len(t, senders, 4, "%s: one address on each interface", d.Protocol)
	}
}

// Seven senders exceed a receiver's rate: without reliability messages are
// lost; with it all arrive, the receiver's bus mostly carries new data, and no
// connection starves. The reference rate is that of one sender at the
// unreliable level.
func TestCompareIncast(t *testing.T) {
	if os.Getenv("HVIA_LONG") != "1" {
		t.Skip("with HVIA_LONG=1: eight cards for minutes")
	}
	const size = 4096
	one := DefaultConfig(PatternStream)
	one.Seed, one.Protocols, one.Sizes, one.Messages = benchtest.Seed(t), []string{"rdma", "send"}, []int{size}, 64
	limit := map[string]int64{}
	for _, row := range compare(t, one).Rows {
		require.True(t, row.Steady, "%s", row.Protocol)
		limit[row.Protocol] = row.BytesPerSec
	}
	c := manyNodes(DefaultConfig(PatternManyToOne), 8)
	c.Seed, c.Protocols, c.Sizes, c.Messages, c.Warmup = one.Seed, []string{"rdma-rd", "send-rd"}, []int{size}, 100, 8
	r := compare(t, c)
	require.Empty(t, r.Faults())
	for i, row := range r.Rows {
		unreliable := strings.TrimSuffix(row.Protocol, "-rd")
		counts := r.Digests[i].Nodes
		lost := counts[serverNode].NoRoom + counts[serverNode].Card["MacReceiveOverrun"]
		require.Positive(t, lost, "%s: it was not too much", row.Protocol)
		require.Zero(t, row.Lost, "%s", row.Protocol)
		require.True(t, row.Steady, "%s", row.Protocol)
		slowest := slices.Min(row.Clients)
		even := row.BytesPerSec / int64(c.Clients)
		var again, timeouts uint64
		for _, n := range counts {
			again += n.Card["RetransmitFrame"]
			timeouts += n.Card["RetryTimeout"]
		}
		t.Logf("%s: %s MB/s of %s, slowest %s, fairness %d ppm; %d frames lost, %d retransmitted, %d timeouts",
			row.Protocol, report.Megabytes(row.BytesPerSec), report.Megabytes(limit[unreliable]), report.Megabytes(slowest), row.FairnessPpm, lost, again, timeouts)
		require.GreaterOrEqual(t, 10*row.BytesPerSec, 7*limit[unreliable], "%s", row.Protocol)
		require.GreaterOrEqual(t, 4*slowest, even, "%s: %v", row.Protocol, row.Clients)
		require.Greater(t, row.FairnessPpm, int64(800_000), "%s: %v", row.Protocol, row.Clients)
	}
	c.Protocols, c.Messages = []string{"send"}, 16
	require.Positive(t, compare(t, c).Rows[0].Lost, "without reliability")
}

// Cost of reliability and of a completion queue without loss: half a
// microsecond of a short message, a tenth of the bandwidth of long ones, and a
// microsecond for the entry.
func TestCompareCostOfTransport(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := DefaultConfig(PatternPingPong)
	c.Seed, c.Protocols, c.Sizes = benchtest.Seed(t), []string{"rdma", "rdma-rd", "rdma-rr", "send", "send-cq"}, []int{4}
	latency := map[string]int64{}
	for _, row := range compare(t, c).Rows {
		latency[row.Protocol] = row.Latency.MeanPs
		t.Logf("%s, 4 bytes: %s us", row.Protocol, report.Micros(row.Latency.MeanPs))
	}
	s := DefaultConfig(PatternStream)
	s.Seed, s.Protocols, s.Sizes, s.Messages = c.Seed, []string{"rdma", "rdma-rd", "rdma-rr"}, []int{65536}, 16
	rate := map[string]int64{}
	for _, row := range compare(t, s).Rows {
		require.True(t, row.Steady, "%s", row.Protocol)
		rate[row.Protocol] = row.BytesPerSec
		t.Logf("%s, 65536 bytes: %s MB/s", row.Protocol, report.Megabytes(row.BytesPerSec))
	}
	require.LessOrEqual(t, latency["rdma-rd"]-latency["rdma"], int64(500*host.Nanosecond))
	require.LessOrEqual(t, latency["send-cq"]-latency["send"], int64(host.Microsecond))
	for _, name := range []string{"rdma-rd", "rdma-rr"} {
		require.Less(t, latency["rdma"], latency[name], "%s: an acknowledgement is not free", name)
		require.GreaterOrEqual(t, 10*rate[name], 9*rate["rdma"], "%s", name)
		require.Less(t, rate[name], rate["rdma"], "%s: nor on the way", name)
	}
	require.Less(t, latency["send"], latency["send-cq"], "an entry of a completion queue is not free")
}

// RDMA writes of many lengths overwrite each other in one slot; what an earlier
// and longer one left there is never taken for the end of a later one.
func TestCompareSlotsAreCleared(t *testing.T) {
	c := DefaultConfig(PatternRequestReply)
	c.Protocols, c.Messages, c.Mix = []string{"rdma"}, 1000, nil
	for n := 1; n < 200; n += 11 {
		c.Mix = append(c.Mix, MixEntry{n, 201 - n, 1})
	}
	x, err := compareOnFakes(t, c, nil)
	require.NoError(t, err)
	for _, n := range x.stages[0].notes {
		require.Empty(t, n.fault)
	}
}

func TestDrawMix(t *testing.T) {
	mix := []MixEntry{{1, 1, 70}, {2, 2, 25}, {3, 3, 5}}
	kinds := drawMix(mix, 1, 10_000)
	var n [3]int
	for _, k := range kinds {
		n[k]++
	}
	for i, m := range mix {
		require.InDelta(t, 100*m.Weight, n[i], 150, "kind %d", i)
	}
	require.Equal(t, kinds[:100], drawMix(mix, 1, 100))
	require.NotEqual(t, kinds[:100], drawMix(mix, 2, 100))
}

func TestLatencyOf(t *testing.T) {
	require.Nil(t, latencyOf(nil))
	require.Nil(t, latencyOf([]host.Time{-1, -1}))
	var times []host.Time
	for i := 200; i > 0; i-- {
		times = append(times, host.Time(i), -1)
	}
	require.Equal(t, &Latency{MeanPs: 100, P50Ps: 100, P90Ps: 180, P99Ps: 198, MaxPs: 200}, latencyOf(times))
	require.Equal(t, &Latency{7, 7, 7, 7, 7}, latencyOf([]host.Time{7}))
}

func TestFairness(t *testing.T) {
	require.EqualValues(t, 1_000_000, fairness([]int64{5, 5, 5}))
	require.EqualValues(t, 500_000, fairness([]int64{5, 0}))
	require.EqualValues(t, 900_000, fairness([]int64{10, 5}))
	require.EqualValues(t, 0, fairness([]int64{0, 0}))
}

// The use of the wire is the time of its frames, cut at the ends of the span.
func TestWireUse(t *testing.T) {
	b, err := costs.New(params.Base, nil)
	require.NoError(t, err)
	x := &comparison{board: b}
	frames := []rig.Frame{
		{TimePs: 0, Source: 0, Destination: 1, Bytes: make([]byte, 76)},         // 100 bytes with preamble, FCS and gap, 800 ns
		{TimePs: 1_000_000, Source: 1, Destination: 0, Bytes: make([]byte, 76)}, // the other way
		{TimePs: 1_400_000, Source: 0, Destination: 1, Bytes: make([]byte, 76)},
		{TimePs: 1_400_000, Source: layout.WireSwitch, Destination: 1, Bytes: make([]byte, 76)}, // another cable
		{TimePs: 1_400_000, Source: layout.WireSwitch, Destination: 0, Bytes: make([]byte, 76)},
		{TimePs: 1_500_000, Source: layout.WireSwitch, Destination: 1, Bytes: make([]byte, 176)},
		{TimePs: 3_600_000, Source: 0, Destination: 1, Bytes: make([]byte, 76)},
	}
	require.Equal(t, WireUse{Bytes: 100, Ppm: (400 + 800 + 400) * 1000 / 3600 * 1000 / 1000 * 1000 / 1000}, func() WireUse {
		u := x.wireUse(sentBy(frames, 0), 400_000, 4_000_000, 2)
		u.Ppm = u.Ppm / 1000 * 1000 / 1000 // whole thousandths
		return u
	}())
	require.Equal(t, WireUse{Bytes: 100, Ppm: 200_000}, x.wireUse(sentBy(frames, 1), 0, 4_000_000, 1))
	require.Equal(t, WireUse{Bytes: 300, Ppm: 600_000}, x.wireUse(sentTo(frames, 1), 0, 4_000_000, 1))
}

// An interrupted run returns what it measured until then, and why.
func TestCompareStopped(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := smallCompare(t, PatternPingPong)
	c.Protocols, c.Sizes, c.Messages = []string{"rdma", "send"}, []int{4, 64, 1024, 4096}, 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Progress = func(p rig.Progress) {
		if strings.HasPrefix(p.What, "send") && p.Done == 2 {
			cancel()
		}
	}
	r, err := Run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "compare: stopped before its end")
	// All of the first protocol; of the second the trace may lack its last
	// events.
	n := len(r.Rows)
	require.True(t, n >= 5 && n < 8, "%d rows", n)
	c.Progress, c.Protocols = nil, []string{"rdma"}
	require.Equal(t, compare(t, c).Rows, r.Rows[:4])
}

// A card that puts one wrong byte into host memory is detected.
func TestCompareFindsAWrongByte(t *testing.T) {
	program := benchtest.WrongByteSimulator(t)
	c := smallCompare(t, PatternStream)
	c.Sizes, c.Protocols, c.program = []int{1400}, []string{"rdma", "send"}, program
	r := compare(t, c)
	require.Len(t, r.Faults(), 2)
	require.Regexp(t, `^rdma, 1400 bytes: message \d+: byte \d+ of 1400 is 0x..`, r.Faults()[0])
}

// The capture of each protocol is a separate file with the frames of all its
// messages, and capturing changes nothing.
func TestCompareCapture(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := smallCompare(t, PatternPingPong)
	want := compareJSON(t, compare(t, c))
	c.Capture = filepath.Join(t.TempDir(), "run.pcapng")
	require.Equal(t, want, compareJSON(t, compare(t, c)))
	for _, name := range c.Protocols {
		frames, _ := benchtest.ReadCapture(t, strings.TrimSuffix(c.Capture, ".pcapng")+"."+name+".pcapng")
		bytes := 0
		for _, f := range frames {
			bytes += len(f.Bytes)
		}
		require.Greater(t, bytes, 2*(c.Messages+c.Warmup)*(4+3000), "%s", name)
	}
}
