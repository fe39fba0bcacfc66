// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/params"
)

// smallConfig is a reproduction that takes seconds, or a moment with -short.
func smallConfig(t *testing.T) Config {
	t.Helper()
	c := DefaultConfig()
	c.Seed = benchtest.Seed(t)
	switch {
	case benchtest.Long():
	case testing.Short():
		c.Sizes, c.Iterations, c.Warmup = []int{4, 1400}, 1, 1
	default:
		c.Sizes, c.Iterations, c.Warmup = []int{4, 1400, 4096}, 2, 1
	}
	return c
}

// fewRounds is the default with fewer rounds, which take the same time each.
func fewRounds() Config {
	c := DefaultConfig()
	if !benchtest.Long() {
		c.Iterations, c.Warmup = 2, 1
	}
	return c
}

func run(t *testing.T, c Config) *report.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r, err := Run(ctx, c)
	require.NoError(t, err, "replay with HVIA_SEED=%d", c.Seed)
	return r
}

// inOrder is the run of smallConfig with one experiment after the other, and
// its progress.
var inOrder struct {
	once     sync.Once
	report   *report.Report
	progress []rig.Progress
}

func runInOrder(t *testing.T) (*report.Report, []rig.Progress) {
	t.Helper()
	o := &inOrder
	o.once.Do(func() {
		c := smallConfig(t)
		c.Jobs = 1
		c.Progress = func(p rig.Progress) { o.progress = append(o.progress, p) }
		o.report = run(t, c)
	})
	require.NotNil(t, o.report)
	return o.report, o.progress
}

func repeatable(t *testing.T, r *report.Report) string {
	t.Helper()
	b, err := r.Repeatable()
	require.NoError(t, err)
	return string(b)
}

// Results repeat bit for bit under any load of the machine, with the hosts in
// one process or two, and with idle spans skipped or simulated clock by clock.
func TestReproduceRepeats(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := smallConfig(t)
	type variant struct {
		name     string
		spinners int
		change   func(*Config)
	}
	plain := func(*Config) {}
	variants := []variant{
		{"plain", 0, plain},
		{"beside busy loops", 2, plain},
		{"two processes", 0, func(c *Config) { c.Processes = 2 }},
		{"two processes beside busy loops", 2, func(c *Config) { c.Processes = 2 }},
		{"no skipping", 0, func(c *Config) { c.NoSkip = true }},
	}
	if benchtest.Long() {
		// Ten runs like these, five of them beside busy loops, and one that
		// skips nothing.
		none := variants[4]
		variants = slices.Concat(variants[:4], variants[:4], variants[:2], []variant{none})
	}
	first, _ := runInOrder(t)
	require.NoError(t, first.Failed(), "%v", first.Faults())
	want := repeatable(t, first)
	for i, v := range variants {
		t.Run(fmt.Sprintf("%d %s", i, v.name), func(t *testing.T) {
			stop := benchtest.StartSpinners(t, v.spinners)
			changed := c
			v.change(&changed)
			r := run(t, changed)
			stop()
			require.Equal(t, first.Environment, r.Environment, "a source was edited while the test ran: run it again")
			require.Equal(t, want, repeatable(t, r), "replay with HVIA_SEED=%d", c.Seed)
			t.Logf("wall %.2f s", r.Wall.Seconds)
		})
	}
	t.Run("another seed is another run", func(t *testing.T) {
		changed := c
		changed.Seed++
		changed.Sizes = c.Sizes[:1]
		again := changed
		again.Seed--
		require.NotEqual(t, run(t, again).Results.Digest, run(t, changed).Results.Digest)
	})
}

// The rows hold what the report says of them.
func TestReproduceReport(t *testing.T) {
	c := smallConfig(t)
	r, progress := runInOrder(t)
	checkRows(t, c, r)
	require.Len(t, r.Results.SendReceiveStages.Rows, len(rig.SendReceiveStages))
	require.NotNil(t, r.Results.Stages)
	require.Equal(t, 4, r.Results.Stages.Size)
	var sum int64
	for _, s := range r.Results.Stages.Rows {
		require.Positive(t, s.MeanPs, "%s", s.Name)
		sum += s.MeanPs
	}
	require.InDelta(t, r.Results.RDMAWrite[0].HardwarePs, sum, float64(len(rig.RDMAWriteStages)), "up to rounding, the stages are the hardware time")
	require.LessOrEqual(t, r.Results.RDMAWrite[0].HardwarePs, int64(10_000_000), "4 bytes within 10 us from the doorbell's store to the data")
	checkReceiveSide(t, c, r)
	checkWaterfall(t, r)
	require.NotNil(t, r.Results.CrossTraffic)
	require.True(t, r.Results.CrossTraffic.Verified)
	require.Positive(t, r.Results.CrossTraffic.Messages)
	require.Greater(t, r.Results.CrossTraffic.RDMAWrite[0].HalfRTTPs, r.Results.RDMAWrite[0].HalfRTTPs, "the traffic is in the way")
	for i, p := range progress {
		require.Equal(t, i+1, p.Done, p.What)
		require.Equal(t, len(progress), p.Total, p.What)
	}
	for i, what := range []string{"send/receive", "receive side", "RDMA read", "RDMA write, reliable delivery", "M-VIA", "TCP/IP", "before the fit: RDMA write"} {
		require.Equal(t, what+", 4 bytes", progress[(i+1)*len(c.Sizes)].What)
	}
	checkReads(t, c, r)
	checkBaselines(t, c, r)
	checkPaths(t, r)
	checkAccounts(t, r)
	checkPrediction(t, c, r)
	require.Equal(t, "T1", r.Results.Targets[0].ID)
	require.Len(t, r.Results.ModelCurve, 4*len(c.Sizes))
	require.Len(t, r.Numbers, len(params.Table()))

	if testing.Short() {
		return
	}
	c.Background, c.Jobs = false, 3
	alone := run(t, c)
	require.Nil(t, alone.Results.CrossTraffic)
	require.Equal(t, r.Results.RDMAWrite, alone.Results.RDMAWrite, "the quiet run does not know of the other")
	require.Equal(t, r.Results.SendReceive, alone.Results.SendReceive)
	c.Baselines = false
	card := run(t, c)
	require.Empty(t, card.Results.Mvia)
	require.Empty(t, card.Results.Tcp)
	require.Equal(t, alone.Results.Digest, card.Results.Digest, "the card does not know of what it is compared with")
	require.Equal(t, alone.Results.Accounts[:2], card.Results.Accounts)
}

// A send takes longer than an RDMA write: there is a status to write and to
// find.
func checkRows(t *testing.T, c Config, r *report.Report) {
	t.Helper()
	require.Len(t, r.Results.RDMAWrite, len(c.Sizes))
	for i, row := range r.Results.RDMAWrite {
		require.Equal(t, c.Sizes[i], row.Size)
		require.Equal(t, row.HalfRTTPs, row.HardwarePs+row.HostPs)
		require.Equal(t, report.BytesPerSecond(row.Size, row.HalfRTTPs), row.BytesPerSec)
		require.True(t, row.Verified)
		require.Empty(t, row.Fault)
		// A byte needs 8 ns on a wire of 1 Gb/s.
		require.Greater(t, row.HardwarePs, int64(8000*row.Size))
		require.Equal(t, c.Sizes[i], r.Wall.RDMAWrite[i].Size)
		if i > 0 {
			require.Greater(t, row.HardwarePs, r.Results.RDMAWrite[i-1].HardwarePs)
		}
	}
	require.Len(t, r.Results.SendReceive, len(c.Sizes))
	for i, row := range r.Results.SendReceive {
		write := r.Results.RDMAWrite[i]
		require.Equal(t, c.Sizes[i], row.Size)
		require.Equal(t, row.HalfRTTPs, row.HardwarePs+row.HostPs)
		require.Equal(t, report.BytesPerSecond(row.Size, row.HalfRTTPs), row.BytesPerSec)
		require.True(t, row.Verified)
		require.Greater(t, row.HardwarePs, write.HardwarePs, "%d bytes", row.Size)
		require.Less(t, row.HardwarePs, write.HardwarePs+1_000_000, "%d bytes: the receive descriptor is on the card before the message", row.Size)
		require.InDelta(t, write.HostPs+params.HostReceiveWaitTime, row.HostPs, 250_000, "%d bytes: RecvWait's work and a look; the next receive is posted while the message is in flight", row.Size)
	}
}

func checkPrediction(t *testing.T, c Config, r *report.Report) {
	t.Helper()
	require.NotNil(t, r.Results.Prediction)
	require.Equal(t, map[string]int64{"MacReactClocks": 4, "MviaPacketTime": 8_100_000, "MviaWakeTime": 8_500_000, "TcpPacketTime": 7_600_000, "TcpWakeTime": 77_000_000}, r.Results.Prediction.Parameters)
	require.Len(t, r.Results.Prediction.Mvia, len(c.Sizes))
	require.Len(t, r.Results.Prediction.Tcp, len(c.Sizes))
	require.Len(t, r.Results.Prediction.SendReceive, len(c.Sizes))
	for i, row := range r.Results.Prediction.RDMAWrite {
		// The dead time of one frame less, and of each further one at most.
		const less, clocks = (params.MacReactClocks - 4) * params.MacClockPeriod, 4 * params.MacClockPeriod
		sooner := r.Results.RDMAWrite[i].HardwarePs - row.HardwarePs
		require.GreaterOrEqual(t, sooner, int64(less-clocks), "%d bytes", row.Size)
		require.LessOrEqual(t, sooner, int64(less*rig.FramesOf(row.Size)+clocks), "%d bytes", row.Size)
	}
}

// The baselines take longer than the card at every length, and their rows hold
// what the report says of them.
func checkBaselines(t *testing.T, c Config, r *report.Report) {
	t.Helper()
	require.NotEmpty(t, r.Results.MviaDigest)
	require.NotEmpty(t, r.Results.TcpDigest)
	for name, rows := range map[string][]report.PingPongResult{"M-VIA": r.Results.Mvia, "TCP/IP": r.Results.Tcp} {
		require.Len(t, rows, len(c.Sizes), name)
		for i, row := range rows {
			require.Equal(t, c.Sizes[i], row.Size, name)
			require.True(t, row.Verified, "%s, %d bytes: %s", name, row.Size, row.Fault)
			require.Equal(t, row.HalfRTTPs, row.HardwarePs+row.HostPs, name)
			require.Equal(t, report.BytesPerSecond(row.Size, row.HalfRTTPs), row.BytesPerSec, name)
			require.Greater(t, row.HalfRTTPs, r.Results.SendReceive[i].HalfRTTPs, "%s, %d bytes", name, row.Size)
			require.Greater(t, row.HalfRTTPs, int64(8000*row.Size), "%s: a byte needs 8 ns on the wire", name)
			require.Positive(t, row.HostPs, name)
		}
	}
}

// A path's parts add up to its half round trip, and at most 1 % of it is
// unaccounted.
func checkPaths(t *testing.T, r *report.Report) {
	t.Helper()
	require.Len(t, r.Results.Paths, 4)
	for i, p := range r.Results.Paths {
		rows := [][]report.PingPongResult{r.Results.RDMAWrite, r.Results.SendReceive, r.Results.Mvia, r.Results.Tcp}[i]
		require.Equal(t, []string{"rdma_write", "send_receive", "mvia", "tcp"}[i], p.Protocol)
		require.Equal(t, report.WaterfallSize, p.Size)
		half, ok := report.HalfRTT(rows, p.Size)
		require.True(t, ok)
		require.Equal(t, half, p.HalfRTTPs)
		at := map[string]int64{}
		var sum int64
		for _, s := range p.Rows {
			at[s.Name] = s.Ps
			sum += s.Ps
			require.GreaterOrEqual(t, s.Ps, int64(0), "%s: %s", p.Protocol, s.Name)
		}
		require.InDelta(t, p.HalfRTTPs, sum, 2, "%s: up to rounding, the rows are the half round trip", p.Protocol)
		rest := p.Rows[len(p.Rows)-1]
		require.Equal(t, report.StepRest, rest.Name)
		require.Less(t, 100*rest.Ps, p.HalfRTTPs, "%s: not accounted", p.Protocol)
		require.Greater(t, at[report.StepWire], int64(params.PhyTransmitDelay+params.PhyReceiveDelay+params.CableDelay), p.Protocol)
		require.Positive(t, at[report.StepBus], p.Protocol)
		if i < 2 {
			require.Zero(t, at["trap"], p.Protocol)
			require.Zero(t, at["interrupt"], "%s: no interrupt lies on the card's path", p.Protocol)
			continue
		}
		// Known parts of a frame's path appear once, beside the fitted ones.
		wake, packet := int64(params.MviaWakeTime), int64(params.MviaPacketTime)
		library, copies := int64(params.HostPostTime+params.HostReceiveWaitTime), int64(1)
		if p.Protocol == "tcp" {
			wake, packet, library, copies = params.TcpWakeTime, params.TcpPacketTime, 0, 2
		}
		require.Equal(t, wake, at[report.StepWake], p.Protocol)
		require.Equal(t, library, at["library"], p.Protocol)
		require.Equal(t, params.HostPacketSendTime+packet, at["protocol"], p.Protocol)
		require.Equal(t, copies*report.WaterfallSize*params.HostCopyTime, at["copy"], p.Protocol)
		require.EqualValues(t, params.HostTrapTime, at["trap"], p.Protocol)
		require.EqualValues(t, params.HostInterruptTime, at["interrupt"], p.Protocol)
		require.EqualValues(t, params.HostSwitchTime, at["switch"], p.Protocol)
		require.EqualValues(t, params.NICTransmitTime+params.NICReceiveTime, at[report.StepNIC], p.Protocol)
	}
}

// An account's layers are the costs of the messages' frames and bytes.
func checkAccounts(t *testing.T, r *report.Report) {
	t.Helper()
	require.NotEmpty(t, r.Results.Accounts)
	for _, a := range r.Results.Accounts {
		name := fmt.Sprintf("%s, %d bytes", a.Protocol, a.Size)
		at := map[string]int64{}
		var sum int64
		for _, s := range a.Processor {
			at[s.Name] = s.Ps
			sum += s.Ps
		}
		require.InDelta(t, a.ProcessorPs, sum, float64(len(a.Processor)), name)
		// At least the data frames' bits; a bus carries each byte on both
		// sides, 4 in a clock.
		require.GreaterOrEqual(t, a.WirePs, int64(8*params.WireBitTime*a.Size), name)
		require.Greater(t, a.BusPs, int64(2*a.Size/4)*params.SystemClockPeriod, name)
		require.GreaterOrEqual(t, a.Frames, 1.0, name)
		switch a.Protocol {
		case "rdma_write":
			require.EqualValues(t, params.HostPostTime, sum, name)
			require.Positive(t, a.PollPs, name)
		case "send_receive":
			require.EqualValues(t, 2*params.HostPostTime+params.HostReceiveWaitTime, sum, name)
			require.Positive(t, a.PollPs, name)
		case "mvia":
			require.Zero(t, a.PollPs, "%s: who is blocked does not poll", name)
			require.EqualValues(t, 2*params.HostPostTime+params.HostReceiveWaitTime, at["library"], name)
			require.EqualValues(t, a.Size*params.HostCopyTime, at["copy"], name)
			// It includes frames of the agents for the connection.
			require.InDelta(t, float64(rig.FramesOf(a.Size)), a.Frames, 0.2, name)
			require.InDelta(t, a.Frames*float64(params.HostPacketSendTime+params.MviaPacketTime), at["protocol"], 0.001*float64(at["protocol"]), name)
		case "tcp":
			require.Zero(t, a.PollPs, "%s: who is blocked does not poll", name)
			require.Zero(t, at["library"], name)
			require.EqualValues(t, 2*a.Size*params.HostCopyTime, at["copy"], name)
			require.InDelta(t, a.Frames*float64(params.HostPacketSendTime+params.TcpPacketTime), at["protocol"], 0.02*float64(at["protocol"]), name)
		}
	}
}

// The waterfall's rows are the stages between the host's two, and the sum is
// half a round trip.
func checkWaterfall(t *testing.T, r *report.Report) {
	t.Helper()
	rows := r.Results.Waterfall
	require.Len(t, rows, len(rig.RDMAWriteStages)+2)
	var sum, budget int64
	for i, row := range rows {
		sum += row.MeanPs
		budget += row.BudgetPs
		require.Positive(t, row.BudgetPs, "%s", row.Name)
		if i > 0 && i <= len(rig.RDMAWriteStages) {
			require.Equal(t, r.Results.Stages.Rows[i-1], report.Stage{Name: row.Name, MeanPs: row.MeanPs})
		}
	}
	require.Equal(t, r.Results.RDMAWrite[0].HalfRTTPs, sum)
	require.EqualValues(t, params.HostPostTime, rows[0].MeanPs, "the doorbell is rung when the post's time is over")
	require.GreaterOrEqual(t, rows[len(rows)-1].MeanPs, int64(0))
	require.Less(t, rows[len(rows)-1].MeanPs, int64(2*params.HostPollPeriod), "a look comes each period")
	require.EqualValues(t, 12_650_000, budget, "the sum of the budgets")
}

func checkReceiveSide(t *testing.T, c Config, r *report.Report) {
	t.Helper()
	require.Len(t, r.Results.PostReceive, len(c.Sizes))
	require.Len(t, r.Results.ReceiveWait, len(c.Sizes))
	for i, p := range r.Results.PostReceive {
		const figure11 = params.HostPostTime + params.HostTimeOfDayTime
		require.Equal(t, report.PostReceiveResult{Size: c.Sizes[i], MeanPs: figure11, MinPs: figure11, MaxPs: figure11}, p)
		wait := r.Results.ReceiveWait[i]
		require.Equal(t, c.Sizes[i], wait.Size)
		// The bookkeeping, and each byte over a bus of 4 bytes a clock.
		require.Greater(t, wait.MeanPs, params.HostReceiveWaitTime+int64(c.Sizes[i])*params.MacClockPeriod/4, "%d bytes", wait.Size)
		// The hardware's part is less than that of a send, which includes the
		// sender.
		require.Less(t, wait.MeanPs-params.HostReceiveWaitTime, r.Results.SendReceive[i].HardwarePs, "%d bytes", wait.Size)
	}
}

// A card that puts one wrong byte into host memory is detected, and the report
// names the byte. Small messages escape this fault.
func TestReproduceFindsAWrongByte(t *testing.T) {
	program := benchtest.WrongByteSimulator(t)
	c := smallConfig(t)
	c.Sizes, c.Background, c.program = []int{4, 1400}, false, program
	r := run(t, c)
	require.Error(t, r.Failed())
	require.True(t, r.Results.RDMAWrite[0].Verified)
	require.False(t, r.Results.RDMAWrite[1].Verified)
	require.Regexp(t, `^1400 bytes: round \d from node 0: byte \d+ of 1400 is 0x..`, r.Faults()[0])
}

// An interrupted run returns what it measured until then, and why.
func TestReproduceStopped(t *testing.T) {
	benchtest.TakesSeconds(t)
	for processes := 1; processes <= 2; processes++ {
		t.Run(fmt.Sprintf("%d processes", processes), func(t *testing.T) {
			c := smallConfig(t)
			c.Sizes, c.Iterations, c.Processes = []int{4, 16, 64, 16384}, 3, processes
			c.Jobs = 1 // the first three steps are RDMA writes
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c.Progress = func(p rig.Progress) {
				if p.Done == 3 {
					cancel(errors.New("someone pressed a key"))
				}
			}
			r, err := Run(ctx, c)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "stopped before its end")
			// The third size may lack the trace's last events: it ended as the
			// run did.
			n := len(r.Results.RDMAWrite)
			require.True(t, n == 2 || n == 3, "%d sizes", n)
			require.NoError(t, r.Failed())
			full := c
			full.Progress, full.Background, full.Baselines, full.NoPrediction = nil, false, false, true
			require.Equal(t, run(t, full).Results.RDMAWrite[:n], r.Results.RDMAWrite)
		})
	}
}

func TestReproduceRefuses(t *testing.T) {
	c := DefaultConfig()
	c.Sizes = nil
	_, err := Run(t.Context(), c)
	require.ErrorIs(t, err, costs.ErrConfig)
	c = DefaultConfig()
	c.PcapFile = filepath.Join(t.TempDir(), "none", "x.pcapng")
	r, err := Run(t.Context(), c)
	require.ErrorIs(t, err, rig.ErrOutput)
	require.Empty(t, r.Results.RDMAWrite)
}

// The capture of a ping-pong holds every frame: one with VIA's EtherType for
// each frame of the messages, between the right addresses.
func TestReproduceCapture(t *testing.T) {
	benchtest.TakesSeconds(t)
	c := smallConfig(t)
	c.Background = false
	c.PcapFile = filepath.Join(t.TempDir(), "run.pcapng")
	want := [2]int{0, 1} // the accepting side writes its buffer's target
	for _, n := range c.Sizes {
		for node := range want {
			want[node] += rig.FramesOf(n) * (c.Warmup + c.Iterations)
		}
	}
	run(t, c)
	frames, _ := benchtest.ReadCapture(t, c.PcapFile)
	require.Equal(t, want, benchtest.CheckFrames(t, frames))
}
