// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/vipl"
)

const (
	pingName  = "ping"
	pongName  = "pong"
	crossName = "cross traffic"

	crossPort   = "cross-traffic"
	crossSize   = 3000 // bytes of a background message: three frames, unaligned
	crossPause  = 5 * host.Microsecond
	stopMessage = "stop"

	rankCross = 2
)

type measurement struct {
	rows       []report.PingPongResult
	wall       []report.WallRow
	stages     *report.Stages
	bursts     *report.Bursts // nil if the trace shows none
	waterfall  []report.WaterfallRow
	pipeline   *report.Pipeline
	accounts   []report.MessageAccount
	path       *report.MessagePath
	crossed    int // background messages, both directions
	crossFault string
	Digest     rig.RunDigest
}

// Measure runs the ping-pong at the sizes on one fabric. With an error it
// returns the sizes measured until then.
func Measure(ctx context.Context, c Config, x rig.Exchange, sizes []int) (m measurement, err error) {
	rec, err := rig.Record(c.PcapFile, c.WaveFile)
	if err != nil {
		return m, fmt.Errorf("reproduce: %w", err)
	}
	defer rec.Remove()
	p, err := newPingPong(c, x, sizes)
	if err != nil {
		return m, err
	}
	cfg := c.fabric(p.board)
	rec.Into(&cfg)
	failed := p.run(ctx, cfg, rec.Dir, &m)
	events, err := rec.Events()
	if failed == nil && err != nil {
		return m, err
	}
	if err := p.fold(events, &m); failed == nil && err != nil {
		return m, err
	}
	// With only short messages burstsOf fails; the measurement then has no
	// bursts.
	if b, err := burstsOf(events, c.Profile); err == nil {
		m.bursts = b
	}
	if err := rec.WritePcap(c.Profile, c.Seed); failed == nil && err != nil {
		return m, err
	}
	// The error of a failed run is more important than that of its incomplete
	// recording.
	return m, failed
}

func (c Config) fabric(b costs.Board) sim.Config {
	cfg := rig.Cards(b, c.Seed, 2)
	cfg.Program, cfg.Checks, cfg.Faults = c.program, c.Checks, c.Faults
	if c.straps != 0 {
		cfg.Arguments = append(cfg.Arguments, "--strap", fmt.Sprint(c.straps))
	}
	return cfg
}

// pingPong is the experiment: its programs and their measurements.
type pingPong struct {
	config   Config
	exchange rig.Exchange
	sizes    []int
	board    costs.Board
	clockPs  int64 // period of the core clock
	pingVI   int
	pongVI   int
	elapsed  []host.Time    // of the counted rounds, per size
	windows  []interval     // those rounds, on ping's clock
	spent    []host.Account // in them by both hosts
	calls    []host.Time    // of ping's sends, all rounds of all sizes
	// when each receive returned, on ping and on pong: all rounds of all sizes
	arrivals [2][]host.Time
	ledger   ledger // where the protocol runs in the kernels
	wall     []report.WallRow

	// faults has an entry for each completely measured size: the first wrong
	// byte, or nothing.
	faults     []string
	crossed    int
	crossFault string
}

func newPingPong(c Config, x rig.Exchange, sizes []int) (*pingPong, error) {
	b, err := costs.New(c.Profile, c.Params)
	if err != nil {
		return nil, err
	}
	return &pingPong{config: c, exchange: x, sizes: sizes, board: b, clockPs: b.Value("SystemClockPeriod")}, nil
}

// programs returns the threads of the experiment, with Main for those of the
// nodes in `here`.
func (p *pingPong) programs(here func(node int) bool) []fabric.Program {
	list := []fabric.Program{{Node: 0, Name: pingName, Main: p.ping}, {Node: 1, Name: pongName, Main: p.pong}}
	if p.config.Background {
		list = append(list, fabric.Program{Node: 0, Name: crossName, Main: p.cross}, fabric.Program{Node: 1, Name: crossName, Main: p.cross})
	}
	for i := range list {
		if !here(list[i].Node) {
			list[i].Main = nil
		}
	}
	return list
}

func (p *pingPong) run(ctx context.Context, cfg sim.Config, dir string, m *measurement) (err error) {
	all := p.programs(func(int) bool { return true })
	cfg.Threads = fabric.Participants(all)
	run := fabric.RunConfig{Fabric: p.board.Fabric(), Costs: p.board.Costs(), Seed: p.config.Seed}
	here := all
	if p.config.Processes == 2 {
		cfg.SocketPath = filepath.Join(dir, "fabric.sock")
		cfg.MapNodes = []int{0}
		here = p.programs(func(node int) bool { return node == 0 })
	}
	running, err := sim.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Close()) }()
	var peer *peerProcess
	if p.config.Processes == 2 {
		if peer, err = startPeer(ctx, peerJob{Config: p.config, Exchange: p.exchange, Sizes: p.sizes, Path: running.Path()}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, peer.wait()) }()
	}
	if err := fabric.RunOn(ctx, fabric.Machines(running.Conn()), run, here...); err != nil {
		return err
	}
	if peer != nil {
		if err := peer.wait(); err != nil {
			return err
		}
	}
	m.Digest, err = rig.DigestOf(ctx, running)
	return err
}

func (p *pingPong) largest() int { return largest(p.sizes) }

func largest(sizes []int) (n int) {
	for _, s := range sizes {
		n = max(n, s)
	}
	return n
}

func (p *pingPong) rounds() int { return p.config.Warmup + p.config.Iterations }

// ping starts every round and measures the time.
func (p *pingPong) ping(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenEnd(t, h, p.exchange, p.config.Seed, p.largest())
	if err != nil {
		return err
	}
	p.pingVI = s.Index()
	if err := s.Connect(t); err != nil {
		return err
	}
	round := 0
	for k, n := range p.sizes {
		begin, start := time.Now(), t.Now()
		var counted host.Time
		var before host.Account
		fault := ""
		for i := range p.rounds() {
			round++
			if i == p.config.Warmup {
				counted, before = t.Now(), spentOn(t, h)
			}
			p.calls = append(p.calls, t.Now())
			if err := s.Send(t, rig.Pattern{Seed: p.config.Seed, Sender: 0, Round: round}, n); err != nil {
				return err
			}
			// ping reaps the send while the message and its reply are in
			// flight, as pong does, so that no message waits for it.
			if err := s.Sent(t); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
			back := rig.Pattern{Seed: p.config.Seed, Sender: 1, Round: round}
			if err := s.Receive(t, back, n); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
			p.arrivals[0] = append(p.arrivals[0], t.Now())
			if err := s.Memory().Check(back, n); err != nil && fault == "" {
				fault = err.Error()
			}
		}
		p.elapsed = append(p.elapsed, t.Now()-counted)
		p.windows = append(p.windows, interval{int64(counted), int64(t.Now())})
		spent := spentOn(t, h).Less(before)
		s.Memory().Restore(n)
		other, err := awaitVerdict(t, fmt.Sprintf("%d bytes", n))
		if err != nil {
			return err
		}
		p.pongVI = other.vi
		p.spent = append(p.spent, spent.Plus(other.spent))
		p.faults = append(p.faults, cmp.Or(other.fault, fault))
		p.note(n, k, time.Since(begin), t.Now()-start, t.Now())
	}
	if p.config.Background {
		for node := range 2 {
			if err := t.Send(host.ThreadID{Node: node, Rank: rankCross}, []byte(stopMessage)); err != nil {
				return err
			}
		}
		for range 2 {
			other, err := awaitVerdict(t, crossName)
			if err != nil {
				return err
			}
			p.crossed += other.messages
			p.crossFault = cmp.Or(p.crossFault, other.fault)
		}
	}
	return s.Close(t)
}

// awaitVerdict waits for the verdict of another program of the experiment.
func awaitVerdict(t *host.Thread, of string) (verdict, error) {
	m, ok, err := t.Receive(rig.WaitLimit)
	if err != nil {
		return verdict{}, err
	}
	if !ok {
		return verdict{}, fmt.Errorf("%s: the other side gave no verdict within %v", of, rig.WaitLimit)
	}
	return decodeVerdict(m.Data)
}

func (p *pingPong) note(n, k int, wall time.Duration, span, now host.Time) {
	cycles := int64(span) / p.clockPs
	p.wall = append(p.wall, report.WallRow{Size: n, Seconds: wall.Seconds(), Cycles: cycles, CyclesPerSecond: float64(cycles) / max(wall.Seconds(), 1e-9)})
	if p.config.Progress != nil {
		p.config.Progress(rig.Progress{What: fmt.Sprintf("%s%s, %d bytes", p.config.task, p.exchange, n), Done: k + 1, Total: len(p.sizes), TimePs: int64(now), Cycles: int64(now) / p.clockPs})
	}
}

// pong replies in every round.
func (p *pingPong) pong(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenEnd(t, h, p.exchange, p.config.Seed, p.largest())
	if err != nil {
		return err
	}
	if err := s.Connect(t); err != nil {
		return err
	}
	round := 0
	for _, n := range p.sizes {
		found := verdict{vi: s.Index(), messages: p.rounds()}
		for i := range p.rounds() {
			round++
			if i == p.config.Warmup {
				found.spent = spentOn(t, h)
			}
			there := rig.Pattern{Seed: p.config.Seed, Sender: 0, Round: round}
			if err := s.Receive(t, there, n); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
			p.arrivals[1] = append(p.arrivals[1], t.Now())
			if err := s.Memory().Check(there, n); err != nil && found.fault == "" {
				found.fault = err.Error()
			}
			if i == p.rounds()-1 {
				s.Memory().Restore(n)
			}
			if err := s.Send(t, rig.Pattern{Seed: p.config.Seed, Sender: 1, Round: round}, n); err != nil {
				return err
			}
			if err := s.Sent(t); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
		}
		found.spent = spentOn(t, h).Less(found.spent)
		if err := t.Send(host.ThreadID{Node: 0, Rank: rig.RankPing}, found.encode()); err != nil {
			return err
		}
	}
	return s.Close(t)
}

// cross writes to the other node on a separate VI until it receives a stop.
// Every message overwrites the previous one, so only the last is compared.
func (p *pingPong) cross(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenSide(t, h, rig.RDMAWrite, crossSize)
	if err != nil {
		return err
	}
	other := 1 - t.ID().Node
	if t.ID().Node == 0 {
		err = s.Endpoint.Dial(t, vipl.At(other, crossPort), rig.WaitLimit)
	} else {
		err = s.Endpoint.Accept(t, crossPort, rig.WaitLimit)
	}
	if err != nil {
		return err
	}
	found := verdict{vi: s.Endpoint.VI.Index()}
	for {
		m, stop, err := t.Receive(crossPause)
		if err != nil {
			return err
		}
		if stop {
			if string(m.Data) != stopMessage {
				return fmt.Errorf("cross traffic: message %q from %v, want %q", m.Data, m.From, stopMessage)
			}
			break
		}
		found.messages++
		if err := s.Send(t, p.crossPattern(t.ID().Node, found.messages), crossSize); err != nil {
			return err
		}
		if err := s.Sent(t); err != nil {
			return err
		}
	}
	if err := t.Send(host.ThreadID{Node: other, Rank: rankCross}, found.encode()); err != nil {
		return err
	}
	theirs, err := awaitVerdict(t, crossName)
	if err != nil {
		return err
	}
	if last := p.crossPattern(other, theirs.messages); theirs.messages > 0 {
		if err := s.Receive(t, last, crossSize); err != nil {
			return fmt.Errorf("message %d from node %d: %w", theirs.messages, other, err)
		}
		if err := s.Arena.Check(last, crossSize); err != nil {
			found.fault = err.Error()
		}
	}
	if err := s.Endpoint.Close(t); err != nil {
		return err
	}
	return t.Send(host.ThreadID{Node: 0, Rank: rig.RankPing}, found.encode())
}

func (p *pingPong) crossPattern(sender, message int) rig.Pattern {
	return rig.Pattern{Seed: p.config.Seed ^ crossSize, Sender: sender, Round: message}
}

// fold turns elapsed times and the trace into rows of the report, for the sizes
// measured so far.
func (p *pingPong) fold(events []rig.TraceEvent, m *measurement) error {
	m.wall, m.crossed, m.crossFault = p.wall, p.crossed, p.crossFault
	stages := p.exchange.Stages()
	next := 0
	seen := trafficOf(events, p.board)
	for k, n := range p.sizes[:len(p.faults)] {
		frames := rig.FramesOf(n)
		messages := int64(2 * p.config.Iterations)
		var hardware, posts int64
		sums := make([]int64, len(stages))
		for i := range 2 * p.rounds() {
			node, vi, peerVI := 0, p.pingVI, p.pongVI
			if i%2 == 1 {
				node, vi, peerVI = 1, p.pongVI, p.pingVI
			}
			start, ends, after, err := rig.MessageTimes(events, stages, next, node, vi, peerVI, frames)
			if err != nil {
				return fmt.Errorf("%d bytes, message %d: %w", n, i, err)
			}
			from := next
			next = after
			if i < 2*p.config.Warmup {
				continue
			}
			if node == 0 {
				posts += start - int64(p.calls[k*p.rounds()+i/2])
			}
			if n == pipelineSize && i == 2*p.config.Warmup && p.exchange == rig.RDMAWrite && !p.config.Background {
				if m.pipeline, err = p.pipelineOf(events[from:], n, start, ends[len(ends)-1]); err != nil {
					return fmt.Errorf("%d bytes, message %d: %w", n, i, err)
				}
			}
			hardware += ends[len(ends)-1] - start
			for j, end := range ends {
				sums[j] += end - start
				start = end
			}
		}
		half := int64(p.elapsed[k]) / messages
		hardware /= messages
		m.rows = append(m.rows, report.PingPongResult{
			Size: n, HalfRTTPs: half, HardwarePs: hardware, HostPs: half - hardware, BytesPerSec: report.BytesPerSecond(n, half),
			Verified: p.faults[k] == "", Fault: p.faults[k],
		})
		if frames == 1 && m.stages == nil && !p.config.Background {
			m.stages = &report.Stages{Size: n}
			for j, s := range stages {
				m.stages.Rows = append(m.stages.Rows, report.Stage{Name: s.Name, MeanPs: sums[j] / messages})
			}
		}
		if p.config.Background {
			continue
		}
		if slices.Contains(accountSizes, n) {
			m.accounts = append(m.accounts, p.accountOf(k, seen))
		}
		if n == report.WaterfallSize {
			m.path = new(report.MessagePath)
			*m.path = p.cardPath(k, posts/int64(p.config.Iterations), sums)
			if p.exchange == rig.RDMAWrite {
				m.waterfall = p.waterfall(half, posts/int64(p.config.Iterations), sums, messages)
			}
		}
	}
	return nil
}

// ServePeer runs the programs of node 1 in a separate process; the job comes
// from startPeer.
func ServePeer(ctx context.Context, job []byte) error {
	j, err := decodePeerJob(job)
	if err != nil {
		return err
	}
	running, err := sim.Attach(ctx, j.Path, bridge.Options{Name: "hvia peer", Profile: j.Config.Profile, Nodes: []int{1}})
	if err != nil {
		return err
	}
	p, err := newPingPong(j.Config, j.Exchange, j.Sizes)
	if err != nil {
		return errors.Join(err, running.Close())
	}
	err = fabric.RunOn(ctx, fabric.Machines(running.Conn()), fabric.RunConfig{Fabric: p.board.Fabric(), Costs: p.board.Costs(), Seed: j.Config.Seed},
		p.programs(func(node int) bool { return node == 1 })...)
	return errors.Join(err, running.Close())
}
