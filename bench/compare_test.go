// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
)

// smallCompare is a pattern that takes a second or so with each protocol.
func smallCompare(t *testing.T, pattern string) CompareConfig {
	t.Helper()
	c := DefaultCompareConfig(pattern)
	c.Seed = seed(t)
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

func compare(t *testing.T, c CompareConfig) *CompareReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := Compare(ctx, c)
	require.NoError(t, err, "replay with HVIA_SEED=%d", c.Seed)
	return r
}

func compareJSON(t *testing.T, r *CompareReport) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	return b.String()
}

func compareText(t *testing.T, r *CompareReport) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b))
	return b.String()
}

func TestCompareRefuses(t *testing.T) {
	for _, x := range []struct {
		pattern string
		spoil   func(c *CompareConfig)
		text    string
	}{
		{"broadcast", func(*CompareConfig) {}, `no pattern "broadcast": there is ["ping-pong" "stream" "request-reply" "n-to-1"]`},
		{PatternStream, func(c *CompareConfig) { c.Profile = "none" }, `no profile "none"`},
		{PatternStream, func(c *CompareConfig) { c.Protocols = nil }, "no protocols"},
		{PatternStream, func(c *CompareConfig) { c.Protocols = []string{"rdma", "udp"} }, `no protocol "udp": there is ["rdma" "send" "mvia" "tcp"]`},
		{PatternStream, func(c *CompareConfig) { c.Protocols = []string{"tcp", "tcp"} }, "protocol tcp is listed twice"},
		{PatternStream, func(c *CompareConfig) { c.Sizes = nil }, "no sizes"},
		{PatternStream, func(c *CompareConfig) { c.Sizes = []int{65537} }, "size 65537: 1 to 65536 bytes are possible"},
		{PatternStream, func(c *CompareConfig) { c.Sizes = []int{4, 4} }, "size 4 is listed twice"},
		{PatternStream, func(c *CompareConfig) { c.Messages = 1 }, "1 messages: 2 to 100000 are possible"},
		{PatternStream, func(c *CompareConfig) { c.Warmup = -1 }, "-1 warm-up messages: 0 to 100000"},
		{PatternStream, func(c *CompareConfig) { c.Window = 257 }, "257 messages in the window: 0 to 256"},
		{PatternStream, func(c *CompareConfig) { c.Receives = -2 }, "-2 receives: 0 to 256"},
		{PatternStream, func(c *CompareConfig) { c.Clients = 2 }, "2 clients for stream: only n-to-1 has any"},
		{PatternStream, func(c *CompareConfig) { c.Mix = []MixEntry{{1, 1, 1}} }, "a mix for stream"},
		{PatternStream, func(c *CompareConfig) { c.Params = map[string]int64{"Nothing": 1} }, `no parameter "Nothing"`},
		{PatternPingPong, func(c *CompareConfig) { c.Window = 4 }, "only stream and n-to-1 have more than one message under way"},
		{PatternManyToOne, func(c *CompareConfig) { c.Clients = 9 }, "9 clients: 1 to 8 are possible"},
		{PatternManyToOne, func(c *CompareConfig) { c.Clients, c.Window, c.Sizes = 8, 256, []int{65536} }, "8 clients with 256 messages of 65536 bytes under way"},
		{PatternRequestReply, func(c *CompareConfig) { c.Sizes = []int{4} }, "sizes for request-reply"},
		{PatternRequestReply, func(c *CompareConfig) { c.Mix = nil }, "no mix"},
		{PatternRequestReply, func(c *CompareConfig) { c.Mix = []MixEntry{{4, 0, 1}} }, "size 0: 1 to 65536"},
		{PatternRequestReply, func(c *CompareConfig) { c.Mix = []MixEntry{{4, 4, 0}} }, "a weight of 0 for requests of 4 bytes"},
		{PatternRequestReply, func(c *CompareConfig) { c.Mix = []MixEntry{{4, 4, 1}, {4, 4, 2}} }, "requests of 4 bytes with replies of 4 are listed twice"},
	} {
		c := DefaultCompareConfig(x.pattern)
		x.spoil(&c)
		require.ErrorIs(t, c.Validate(), ErrConfig, "%s", x.text)
		require.ErrorContains(t, c.Validate(), x.text)
		_, err := Compare(t.Context(), c)
		require.ErrorIs(t, err, ErrConfig)
	}
	for _, pattern := range ComparePatterns() {
		require.NoError(t, DefaultCompareConfig(pattern).Validate(), "%s", pattern)
	}
	c := DefaultCompareConfig(PatternPingPong)
	c.Capture = filepath.Join(t.TempDir(), "none", "x.pcapng")
	r, err := Compare(t.Context(), c)
	require.ErrorIs(t, err, ErrOutput)
	require.Empty(t, r.Rows)
}

// Every pattern with every protocol: nothing is wrong or lost, what is measured is
// possible, a second run gives the same to the bit, and the pages fit a terminal.
func TestComparePatterns(t *testing.T) {
	takesSeconds(t)
	for _, pattern := range ComparePatterns() {
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
				at := row.Protocol + ", " + row.what()
				require.Zero(t, row.Lost, "%s", at)
				require.Positive(t, row.Messages, "%s", at)
				l := row.Latency
				require.True(t, 0 < l.P50Ps && l.P50Ps <= l.P90Ps && l.P90Ps <= l.P99Ps && l.P99Ps <= l.MaxPs && l.MeanPs <= l.MaxPs, "%s: %+v", at, l)
				if mean[row.what()] == nil {
					mean[row.what()] = map[string]int64{}
				}
				mean[row.what()][row.Protocol] = l.MeanPs
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

// checkUse holds what a row says of hosts and wire to what cannot be otherwise.
func checkUse(t *testing.T, c CompareConfig, row CompareRow) {
	t.Helper()
	at := row.Protocol + ", " + row.what()
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
		for _, l := range []driver.Layer{driver.LayerTrap, driver.LayerInterrupt, driver.LayerProtocol, driver.LayerCopy} {
			require.Equal(t, p.inKernel(), h.Layers[l.String()] > 0, "%s: node %d: %v: the card's messages need no kernel: %v", at, node, l, h.Layers)
		}
	}
	// A message is on the wire whole, in frames of no more than the payload.
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
	// A post is one, for a message and, with receives, for its receive.
	if posts := row.workPs() / params.HostPostTime; !c.oneWay() && c.Pattern == PatternPingPong {
		want := int64(1)
		if !p.write {
			want = 2
		}
		require.GreaterOrEqual(t, posts, want, "%s", at)
	}
}

// The ping-pong is the one of the paper: what it takes is what the reproduction
// measures, but for where the looks of a loop and the interrupts of what was sent fall.
func TestComparePingPongIsReproduce(t *testing.T) {
	takesSeconds(t)
	c := smallCompare(t, PatternPingPong)
	c.Sizes, c.Messages, c.Warmup = []int{4, 1400, 16384}, kernelRounds, kernelWarmup
	r := compare(t, c)
	w := smallConfig(t)
	w.Sizes, w.Background = c.Sizes, false
	u := run(t, w).Results
	for i, want := range slices.Concat(u.RDMAWrite, u.SendReceive, u.Mvia, u.Tcp) {
		row := r.Rows[i]
		require.Equal(t, want.Size, row.Size)
		require.InDelta(t, want.HalfRTTPs, row.Latency.MeanPs, params.HostPollPeriod, "%s, %d bytes", row.Protocol, row.Size)
	}
}

// compareOnFakes runs the programs of a pattern on fake cards, where frames can
// be lost.
func compareOnFakes(t *testing.T, c CompareConfig, lose func(from int, frame []byte) bool) (*comparison, error) {
	t.Helper()
	require.NoError(t, c.Validate())
	p, err := protocolOf(c.Protocols[0])
	require.NoError(t, err)
	b, err := newBoard(c.Profile, nil)
	require.NoError(t, err)
	x := newComparison(c, p, b)
	x.meet = meetByMessages
	f, err := drivertest.New(2, 1+x.parties)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Lose = lose
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return x, driver.RunOn(ctx, f, driver.RunConfig{Costs: b.costs(), Seed: c.Seed}, x.programs()...)
}

// meetByMessages is a barrier for the fakes, which have none: the receiver's thread hears of
// all the others, and tells them.
func meetByMessages(t *driver.Thread, _ uint64, parties int) error {
	middle := driver.ThreadID{Node: 1, Rank: 1}
	if t.ID() != middle {
		if err := t.Send(middle, nil); err != nil {
			return err
		}
		_, _, err := t.Receive(driver.Never)
		return err
	}
	var others []driver.ThreadID
	for range parties - 1 {
		m, _, err := t.Receive(driver.Never)
		if err != nil {
			return err
		}
		others = append(others, m.From)
	}
	for _, id := range others {
		if err := t.Send(id, nil); err != nil {
			return err
		}
	}
	return nil
}

// A message that is lost is counted, nothing waits for it for ever, and what comes
// after it is right. So it is with one that loses a frame, and with one in the
// other direction. Of an RDMA write nobody can say more than that it did not come.
func TestCompareLosses(t *testing.T) {
	for _, pattern := range ComparePatterns() {
		for _, protocol := range []string{"rdma", "send"} {
			for _, node := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s %s from node %d", pattern, protocol, node), func(t *testing.T) {
					c := smallCompare(t, pattern)
					c.Protocols, c.Warmup, c.Messages = []string{protocol}, 0, 40
					if len(c.Sizes) > 0 {
						c.Sizes = []int{3000, 16}
					}
					frames, lost := 0, 0
					x, err := compareOnFakes(t, c, func(from int, frame []byte) bool {
						if from != node || layout.EthernetHeader(frame).EtherType() != layout.EtherTypeVia {
							return false
						}
						frames++
						if frames == 6 || frames == 9 {
							lost++
							return true
						}
						return false
					})
					if protocol == "rdma" {
						require.ErrorContains(t, err, "did not come within")
						return
					}
					require.NoError(t, err)
					require.Equal(t, 2, lost, "%d frames", frames)
					counted := 0
					for _, s := range x.stages {
						for _, n := range s.notes {
							require.True(t, n.complete)
							require.Empty(t, n.refused)
							counted += n.lost
						}
					}
					if c.oneWay() && node == 1 {
						require.Zero(t, counted, "a grant is no message")
						return
					}
					// A message that lost its end is noticed when the next one comes, which
					// may then find no receive.
					require.True(t, 1 <= counted && counted <= 2*lost, "%d messages, %d frames", counted, lost)
				})
			}
		}
	}
}

// More messages under way than receives: the card drops what finds none, and the report says
// how many.
func TestCompareOverrun(t *testing.T) {
	takesSeconds(t)
	c := smallCompare(t, PatternStream)
	c.Protocols, c.Sizes, c.Messages, c.Window, c.Receives = []string{"send", "mvia"}, []int{64}, 30, 16, 1
	r := compare(t, c)
	for _, row := range r.Rows {
		require.Positive(t, row.Lost, "%s", row.Protocol)
		require.Less(t, row.Lost, 32, "%s: some came", row.Protocol)
		require.True(t, row.Verified, "%s", row.Protocol)
		require.Contains(t, compareText(t, r), fmt.Sprintf("lost: %s, 64 bytes: %d messages did not come, or not whole\n", row.Protocol, row.Lost))
	}
}

// Over a wire that loses frames, what is unreliable loses messages and says so, and TCP
// takes its time. No message that came is wrong.
func TestCompareFailingWire(t *testing.T) {
	takesSeconds(t)
	for _, pattern := range ComparePatterns() {
		c := smallCompare(t, pattern)
		c.Protocols = []string{"send", "mvia", "tcp"}
		c.Messages = 40
		var err error
		c.Faults, err = sim.ParseWireFaults("0>1:drop=operation send every 17,drop=type 0x0800 every 29")
		require.NoError(t, err)
		r := compare(t, c)
		require.Empty(t, r.Faults(), "%s", pattern)
		require.Contains(t, compareText(t, r), "the wire fails in this run: "+c.Faults.String()+"\n")
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
		if !c.oneWay() {
			require.Greater(t, slow["tcp"], int64(driver.Millisecond), "%s: the time of a retransmission", pattern)
		}
	}
}

// The rate of a stream is that of a span in which the sender is at it and messages come;
// without such a span it is that of all, which can be too small but not too large.
func TestFoldOneWay(t *testing.T) {
	c := DefaultCompareConfig(PatternStream)
	c.Sizes, c.Messages, c.Warmup = []int{1000}, 8, 2
	fold := func(sent, came []driver.Time) (CompareRow, driver.Time, driver.Time) {
		x := newComparison(c, protocols[0], board{})
		s := &x.stages[0]
		s.notes[0].begin, s.notes[0].sent, s.notes[1].came = 5, sent, [][]driver.Time{came}
		var row CompareRow
		from, to := x.foldOneWay(s, &row)
		return row, from, to
	}
	us := func(n ...driver.Time) []driver.Time {
		for i := range n {
			n[i] *= driver.Microsecond
		}
		return n
	}
	row, from, to := fold(us(1, 2, 3, 4, 34, 44, 54, 64, 74, 84), us(10, 20, 30, 40, 50, 60, 70, 80, 90, 100))
	require.True(t, row.Steady)
	require.Equal(t, us(30, 84), []driver.Time{from, to})
	require.Equal(t, 5, row.Messages)
	require.EqualValues(t, 5*1000*1_000_000/54, row.BytesPerSec)
	require.EqualValues(t, 36_000_000, row.Latency.MaxPs)

	// All sent at once, and taken at once after a while.
	row, from, to = fold(us(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), us(91, 92, 93, 94, 95, 96, 97, 98, 99, 100))
	require.False(t, row.Steady)
	require.Equal(t, []driver.Time{5, us(100)[0]}, []driver.Time{from, to})
	require.Equal(t, 10, row.Messages)

	// Nothing came.
	none := []driver.Time{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1}
	row, _, _ = fold(us(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), none)
	require.Zero(t, row.Messages)
	require.Zero(t, row.BytesPerSec)
	require.Nil(t, row.Latency)
}

// Connections of several threads share their host evenly, also when each has more to
// send than its socket takes: nobody sends the frames of the others for long.
func TestCompareFairConnections(t *testing.T) {
	takesSeconds(t)
	c := DefaultCompareConfig(PatternManyToOne)
	c.Protocols, c.Sizes, c.Messages = []string{"tcp"}, []int{1024}, 600
	row := compare(t, c).Rows[0]
	require.Greater(t, row.FairnessPpm, int64(950_000), "%v", row.Clients)
}

// RDMA writes of many lengths lie over each other in the same room; what an earlier and
// longer one left there is never taken for the end of a later one.
func TestCompareRoomIsCleared(t *testing.T) {
	c := DefaultCompareConfig(PatternRequestReply)
	c.Protocols, c.Messages, c.Mix = []string{"rdma"}, 1000, nil
	for n := 1; n < 200; n += 11 {
		c.Mix = append(c.Mix, MixEntry{n, 201 - n, 1})
	}
	x, err := compareOnFakes(t, c, nil)
	require.NoError(t, err)
	for _, n := range x.stages[0].notes {
		require.Empty(t, n.refused)
	}
}

// script is a channel that brings what it was told to, nil for a wait in vain.
type script struct {
	channel
	bring    [][]byte
	returned int
}

func (s *script) receive(*driver.Thread, pattern, int, driver.Time) ([]byte, error) {
	if len(s.bring) == 0 {
		return nil, errors.New("asked for more")
	}
	b := s.bring[0]
	s.bring = s.bring[1:]
	return b, nil
}

func (s *script) replenish(*driver.Thread) error { s.returned++; return nil }

func TestReader(t *testing.T) {
	message := func(k int) (pattern, int) { return pattern{7, 0, k}, 5 + k%2 }
	bytesOf := func(k int) []byte {
		p, n := message(k)
		b := make([]byte, n)
		p.fill(b)
		return b
	}
	wrong := bytesOf(1)
	wrong[2] ^= 1
	for name, c := range map[string]struct {
		bring    [][]byte
		want     []int
		lost     int
		fault    string
		reliable bool
		err      string
	}{
		"all":          {bring: [][]byte{bytesOf(0), bytesOf(1), bytesOf(2)}, want: []int{0, 1, 2}},
		"one missing":  {bring: [][]byte{bytesOf(0), bytesOf(2)}, want: []int{0, 2}, lost: 1},
		"one given up": {bring: [][]byte{nil, bytesOf(1), bytesOf(2)}, want: []int{-1, 1, 2}, lost: 1},
		"one late":     {bring: [][]byte{nil, bytesOf(0), bytesOf(1), bytesOf(2)}, want: []int{-1, 1, 2}, lost: 1},
		"the last":     {bring: [][]byte{bytesOf(0), bytesOf(1), nil}, want: []int{0, 1, -1}, lost: 1},
		"a wrong byte": {bring: [][]byte{bytesOf(0), wrong, bytesOf(2)}, want: []int{0, 1, 2}, fault: "message 1: byte 2 of 6 is 0x"},
		"too short":    {bring: [][]byte{bytesOf(0)[:3], bytesOf(1), bytesOf(2)}, want: []int{0, 1, 2}, fault: "message 0: 3 bytes, want 5"},
		"reliable":     {bring: [][]byte{bytesOf(0), nil}, want: []int{0}, reliable: true, err: "message 1, of 6 bytes, did not come within 20 s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{bring: c.bring}
			x := &comparison{protocol: protocol{loses: !c.reliable}}
			r := x.reader(s, patience, 3, message)
			var got []int
			for r.next < r.total {
				k, err := r.take(nil)
				if c.err != "" && err != nil {
					require.ErrorContains(t, err, c.err)
					break
				}
				require.NoError(t, err)
				got = append(got, k)
			}
			require.Equal(t, c.want, got)
			require.Equal(t, c.lost, r.lost)
			require.Contains(t, r.fault, c.fault)
			require.Equal(t, c.fault == "", r.fault == "")
			require.Empty(t, s.bring)
		})
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
	require.Nil(t, latencyOf([]driver.Time{-1, -1}))
	var times []driver.Time
	for i := 200; i > 0; i-- {
		times = append(times, driver.Time(i), -1)
	}
	require.Equal(t, &Latency{MeanPs: 100, P50Ps: 100, P90Ps: 180, P99Ps: 198, MaxPs: 200}, latencyOf(times))
	require.Equal(t, &Latency{7, 7, 7, 7, 7}, latencyOf([]driver.Time{7}))
}

func TestFairness(t *testing.T) {
	require.EqualValues(t, 1_000_000, fairness([]int64{5, 5, 5}))
	require.EqualValues(t, 500_000, fairness([]int64{5, 0}))
	require.EqualValues(t, 900_000, fairness([]int64{10, 5}))
	require.EqualValues(t, 0, fairness([]int64{0, 0}))
}

// The use of the wire is what its frames take, cut at the ends of the span.
func TestWireUse(t *testing.T) {
	b, err := newBoard(params.Base, nil)
	require.NoError(t, err)
	x := &comparison{board: b}
	frames := []frame{
		{0, 0, make([]byte, 76)},         // 100 bytes with all that is around them, 800 ns
		{1_000_000, 1, make([]byte, 76)}, // the other way
		{1_400_000, 0, make([]byte, 76)},
		{3_600_000, 0, make([]byte, 76)},
	}
	require.Equal(t, WireUse{Bytes: 100, Ppm: (400 + 800 + 400) * 1000 / 3600 * 1000 / 1000 * 1000 / 1000}, func() WireUse {
		u := x.wireUse(frames, 0, 400_000, 4_000_000, 2)
		u.Ppm = u.Ppm / 1000 * 1000 / 1000 // whole thousandths
		return u
	}())
	require.Equal(t, WireUse{Bytes: 100, Ppm: 200_000}, x.wireUse(frames, 1, 0, 4_000_000, 1))
}

// A run that is stopped returns what it measured until then, and why.
func TestCompareStopped(t *testing.T) {
	takesSeconds(t)
	c := smallCompare(t, PatternPingPong)
	c.Protocols, c.Sizes, c.Messages = []string{"rdma", "send"}, []int{4, 64, 1024, 4096}, 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Progress = func(p Progress) {
		if strings.HasPrefix(p.What, "send") && p.Done == 2 {
			cancel()
		}
	}
	r, err := Compare(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "compare: stopped before its end")
	// The whole first protocol; of the second the trace may lack its last words.
	n := len(r.Rows)
	require.True(t, n >= 5 && n < 8, "%d rows", n)
	c.Progress, c.Protocols = nil, []string{"rdma"}
	require.Equal(t, compare(t, c).Rows, r.Rows[:4])
}

// A card that puts one wrong byte into host memory is found out.
func TestCompareFindsAWrongByte(t *testing.T) {
	program := wrongByteSimulator(t)
	c := smallCompare(t, PatternStream)
	c.Sizes, c.Protocols, c.program = []int{1400}, []string{"rdma", "send"}, program
	r := compare(t, c)
	require.Len(t, r.Faults(), 2)
	require.Regexp(t, `^rdma, 1400 bytes: message \d+: byte \d+ of 1400 is 0x..`, r.Faults()[0])
}

// The capture of each protocol is a file of its own with the frames of all its
// messages, and capturing changes nothing.
func TestCompareCapture(t *testing.T) {
	takesSeconds(t)
	c := smallCompare(t, PatternPingPong)
	want := compareJSON(t, compare(t, c))
	c.Capture = filepath.Join(t.TempDir(), "run.pcapng")
	require.Equal(t, want, compareJSON(t, compare(t, c)))
	for _, name := range c.Protocols {
		frames, _ := readCapture(t, strings.TrimSuffix(c.Capture, ".pcapng")+"."+name+".pcapng")
		bytes := 0
		for _, f := range frames {
			bytes += len(f.bytes)
		}
		require.Greater(t, bytes, 2*(c.Messages+c.Warmup)*(4+3000), "%s", name)
	}
}

// shownCompare is a report with everything in it that a page can show.
func shownCompare(pattern string) *CompareReport {
	c := DefaultCompareConfig(pattern)
	c.Params = map[string]int64{"HostPollPeriod": 100_000}
	c.Faults = sim.WireFaults{Faults: []sim.WireFault{{Kind: layout.WireFaultDrop, Frames: sim.FrameSelection{Share: sim.Percent(1)}}}}
	r := NewCompareReport(c, Hashes{"0123456789abcdef", "1123456789abcdef", "2123456789abcdef"})
	use := func(k int64) ([]HostUse, []WireUse) {
		return []HostUse{
				{WorkPs: 5_250_000 * k, PollPs: 1_000, Layers: map[string]int64{"library": 5_000_000 * k, "copy": 250_000 * k}, BusPpm: 123_449},
				{WorkPs: 2_000_000 * k, PollPs: 20_000_000, Layers: map[string]int64{"interrupt": 2_000_000 * k}, BusPpm: 0},
			},
			[]WireUse{{84 * k, 999_950}, {0, 0}}
	}
	for i, name := range []string{"rdma", "tcp"} {
		k := int64(10*i + 1)
		for _, size := range []int{4, 65536} {
			row := CompareRow{Protocol: name, Size: size, Messages: 32, Latency: &Latency{12_500_499 * k, 12_500_500 * k, 13_000_000 * k, 14_000_000 * k, 15_000_000 * k}, BytesPerSec: 95_500_000 / k, Verified: true}
			row.Hosts, row.Wire = use(k)
			if pattern == PatternRequestReply {
				row.Size = 0
				if size != 4 {
					continue
				}
			}
			if pattern == PatternManyToOne {
				row.Clients, row.FairnessPpm = []int64{30_000_000, 20_000_000, 25_500_000, 20_000_000}, 970_123
			}
			row.Steady = c.oneWay() && size == 4
			if size == 65536 && i == 1 {
				row.Lost, row.Latency = 3, nil
				row.Verified, row.Fault = false, "message 3: byte 4 of 65536 is 0x00, want 0x01"
			}
			r.Rows = append(r.Rows, row)
		}
		if pattern == PatternRequestReply {
			for j := range r.Mix {
				r.Rows = append(r.Rows, CompareRow{Protocol: name, Kind: &r.Mix[j], Messages: 50 * (j + 1), Latency: &Latency{1, 2, 3, 4, 5}, Verified: true})
			}
		}
		r.Digests = append(r.Digests, CompareDigest{name, fmt.Sprintf("%016x", i)})
	}
	r.Error = &ReportError{"compare: tcp: node 1 went away"}
	return r
}

// The forms are what testdata has. HVIA_UPDATE=1 writes it anew: look at the
// difference before you commit it.
func TestCompareForms(t *testing.T) {
	for _, pattern := range ComparePatterns() {
		r := shownCompare(pattern)
		var text, json, bench bytes.Buffer
		require.NoError(t, r.WriteText(&text))
		require.NoError(t, r.WriteJSON(&json))
		require.NoError(t, r.WriteBench(&bench))
		for form, got := range map[string]string{"txt": text.String(), "json": json.String(), "bench": bench.String()} {
			path := filepath.Join("testdata", "compare-"+pattern+"."+form)
			if os.Getenv("HVIA_UPDATE") == "1" {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got, "%s", path)
		}
		// What benchstat takes for a result: a name, a number, and pairs of value and unit.
		for line := range strings.Lines(bench.String()) {
			if strings.HasPrefix(line, "Benchmark") {
				require.Regexp(t, `^Benchmark[A-Za-z]+(/[a-z]+=[a-z0-9]+|/mix)+ \d+( [0-9.]+ [A-Za-z0-9/-]+)+\n$`, line)
			} else {
				require.Regexp(t, `^[a-z-]+: \S+\n$`, line)
			}
		}
	}
}
