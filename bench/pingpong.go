// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hvia/driver"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/verilate"
	"hvia/vipl"
)

// waitLimit bounds every wait of the experiments, in simulated time: far more
// than any of them takes, so that a lost message is an error and no hang.
const waitLimit = driver.Second

const (
	pingName       = "ping"
	pongName       = "pong"
	crossName      = "cross traffic"
	pingPort       = "ping-pong"
	crossPort      = "cross-traffic"
	crossSize      = 3000 // bytes of a background message: three frames, unaligned
	crossPause     = 5 * driver.Microsecond
	stopMessage    = "stop"
	verdictGood    = "good"
	rankPing       = 1
	rankCross      = 2
	nodeNameFormat = "node%d"
)

// Reproduce runs the experiments of a configuration and returns the report.
// With an error it returns what was measured until then.
func Reproduce(ctx context.Context, c ReproduceConfig) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	root, err := verilate.Root()
	if err != nil {
		return nil, err
	}
	hashes, err := CollectHashes(root)
	if err != nil {
		return nil, err
	}
	r := NewReport(c.Profile, c.Seed, hashes)
	r.Notes = append(r.Notes,
		"the MAC side is a plain frame stream in this version: these times are not compared with the paper yet",
		"host = post and polling, from the parameters; what the host does besides is free in this version",
	)
	begin := time.Now()
	if _, err := sim.Simulator(ctx); err != nil {
		return r, err
	}
	r.Wall.BuildSeconds = time.Since(begin).Seconds()
	begin = time.Now()
	defer func() { r.Wall.Seconds = time.Since(begin).Seconds() }()

	quiet := c
	quiet.Background = false
	m, err := measure(ctx, quiet, c.Sizes)
	r.Results.RDMAWrite, r.Wall.RDMAWrite = append(r.Results.RDMAWrite, m.rows...), m.wall
	r.Results.Stages, r.Results.Digest = m.stages, m.digest
	if err != nil || !c.Background {
		return r, err
	}
	c.PcapFile, c.WaveFile = "", "" // they show the quiet run
	m, err = measure(ctx, c, spread(c.Sizes))
	r.Results.CrossTraffic = &CrossTraffic{RDMAWrite: m.rows, Messages: m.crossed, Digest: m.digest}
	return r, err
}

// spread picks the first, the middle and the last of the sizes.
func spread(sizes []int) []int {
	if len(sizes) <= 3 {
		return sizes
	}
	return []int{sizes[0], sizes[len(sizes)/2], sizes[len(sizes)-1]}
}

// measurement is what one fabric gave.
type measurement struct {
	rows    []RDMAWriteResult
	wall    []WallRow
	stages  *Stages
	crossed int // background messages, both directions
	digest  string
}

// measure runs the ping-pong at the sizes on one fabric.
func measure(ctx context.Context, c ReproduceConfig, sizes []int) (m measurement, err error) {
	dir, err := os.MkdirTemp("", "hvia-reproduce-")
	if err != nil {
		return m, fmt.Errorf("reproduce: %w", err)
	}
	defer os.RemoveAll(dir)
	trace, frames := filepath.Join(dir, "trace"), filepath.Join(dir, "frames")

	cfg := c.fabric()
	cfg.Arguments = append(cfg.Arguments, "--trace", trace)
	if c.PcapFile != "" {
		cfg.Arguments = append(cfg.Arguments, "--frames", frames)
	}
	if c.WaveFile != "" {
		cfg.Arguments = append(cfg.Arguments, "--wave", waveStem(c.WaveFile))
	}
	p := &pingPong{config: c, sizes: sizes}
	if err := p.run(ctx, cfg, dir, &m); err != nil {
		return m, err
	}
	events, err := ReadTrace(trace)
	if err != nil {
		return m, err
	}
	if err := p.fold(events, &m); err != nil {
		return m, err
	}
	if c.PcapFile != "" {
		if err := writePcap(c.PcapFile, frames, c); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (c ReproduceConfig) fabric() sim.Config {
	cfg := sim.Config{Profile: c.Profile, Seed: c.Seed, Process: "hvia"}
	for n := range 2 {
		cfg.Nodes = append(cfg.Nodes, sim.Node{Kind: "card", Name: fmt.Sprintf(nodeNameFormat, n)})
	}
	if !c.QuietSkip {
		cfg.Arguments = append(cfg.Arguments, "--no-skip", "1")
	}
	return cfg
}

// pingPong is the experiment: its programs, and what they measured.
type pingPong struct {
	config   ReproduceConfig
	sizes    []int
	elapsed  []driver.Time // of the counted rounds, per size
	verified []bool
	wall     []WallRow
	crossed  int
	pingVI   int
	pongVI   int
}

// programs returns the threads of the experiment, with Main for those of the
// nodes that `here` has.
func (p *pingPong) programs(here func(node int) bool) []driver.Program {
	list := []driver.Program{{Node: 0, Name: pingName, Main: p.ping}, {Node: 1, Name: pongName, Main: p.pong}}
	if p.config.Background {
		list = append(list, driver.Program{Node: 0, Name: crossName, Main: p.cross}, driver.Program{Node: 1, Name: crossName, Main: p.cross})
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
	cfg.Threads = driver.Participants(all)
	run := driver.RunConfig{Costs: hostCosts{}, Seed: p.config.Seed}
	here := all
	if p.config.Processes == 2 {
		cfg.SocketPath = filepath.Join(dir, "fabric.sock")
		cfg.MapNodes = []int{0}
		here = p.programs(func(node int) bool { return node == 0 })
	}
	fabric, err := sim.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fabric.Close()) }()
	var peer *peerProcess
	if p.config.Processes == 2 {
		if peer, err = startPeer(ctx, peerJob{Config: p.config, Sizes: p.sizes, Path: fabric.Path()}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, peer.wait()) }()
	}
	if err := driver.RunOn(ctx, driver.Machines(fabric.Conn()), run, here...); err != nil {
		return err
	}
	if peer != nil {
		if err := peer.wait(); err != nil {
			return err
		}
	}
	digest, err := fabric.Digest(ctx)
	if err != nil {
		return err
	}
	m.digest = fmt.Sprintf("%016x", digest.Hash)
	if !digest.Reproducible {
		return errors.New("reproduce: something outside virtual time took part: the run is not reproducible")
	}
	return nil
}

// side is one end of a ping-pong.
type side struct {
	endpoint   *vipl.Endpoint
	arena      *arena
	descriptor *vipl.Descriptor
}

func (p *pingPong) open(t *driver.Thread, h *driver.Host, size int) (*side, error) {
	e, err := vipl.OpenEndpoint(t, h, arenaBytes(size))
	if err != nil {
		return nil, err
	}
	b, err := e.Nic.Alloc(t, layout.AttPageBytes)
	if err != nil {
		return nil, err
	}
	control, err := e.Nic.RegisterBuffer(t, b, nil)
	if err != nil {
		return nil, err
	}
	d, err := control.Descriptor(0)
	if err != nil {
		return nil, err
	}
	return &side{endpoint: e, arena: newArena(e.Buffer, size), descriptor: d}, nil
}

// send posts the round's message of n bytes.
func (s *side) send(t *driver.Thread, w pattern, n int) error {
	w.fill(s.arena.sending(n))
	s.descriptor.SetRdmaWrite(s.endpoint.Buffer.Segment(s.arena.sendOffset(), n),
		s.endpoint.Peer.Address+uint64(s.arena.receiveOffset()), s.endpoint.Peer.Handle)
	return s.endpoint.VI.PostSend(t, s.descriptor)
}

// receive polls for the round's message.
func (s *side) receive(t *driver.Thread, w pattern, n int) error {
	return s.endpoint.Poll(t, s.arena.receiveOffset()+n-1, w.last(), waitLimit)
}

// sent takes the completed descriptor back.
func (s *side) sent(t *driver.Thread) error {
	_, err := s.endpoint.VI.SendWait(t, waitLimit)
	return err
}

func (p *pingPong) largest() int {
	n := 0
	for _, s := range p.sizes {
		n = max(n, s)
	}
	return n
}

func (p *pingPong) rounds() int { return p.config.Warmup + p.config.Iterations }

// ping begins every round and keeps the time.
func (p *pingPong) ping(t *driver.Thread, h *driver.Host) error {
	s, err := p.open(t, h, p.largest())
	if err != nil {
		return err
	}
	p.pingVI = s.endpoint.VI.Index()
	if err := s.endpoint.Dial(t, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: pingPort}, waitLimit); err != nil {
		return err
	}
	round := 0
	for k, n := range p.sizes {
		begin, start := time.Now(), t.Now()
		var counted driver.Time
		verified := true
		for i := range p.rounds() {
			round++
			if i == p.config.Warmup {
				counted = t.Now()
			}
			if err := s.send(t, pattern{p.config.Seed, 0, round}, n); err != nil {
				return err
			}
			back := pattern{p.config.Seed, 1, round}
			if err := s.receive(t, back, n); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
			if err := s.sent(t); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
			if err := s.arena.check(back, n); err != nil {
				verified = false
				h.Logger().Error("a message arrived wrong", "size", n, "error", err)
			}
		}
		p.elapsed = append(p.elapsed, t.Now()-counted)
		s.arena.restore(n)
		good, err := p.verdict(t)
		if err != nil {
			return err
		}
		p.verified = append(p.verified, verified && good)
		p.note(n, k, time.Since(begin), t.Now()-start, t.Now())
	}
	if p.config.Background {
		for node := range 2 {
			if err := t.Send(driver.ThreadID{Node: node, Rank: rankCross}, []byte(stopMessage)); err != nil {
				return err
			}
		}
		for range 2 {
			m, ok, err := t.Receive(waitLimit)
			if err != nil {
				return err
			}
			if !ok || len(m.Data) != 8 {
				return errors.New("the cross traffic did not end")
			}
			p.crossed += int(binary.LittleEndian.Uint64(m.Data))
		}
	}
	return s.endpoint.Close(t)
}

// verdict is what the other side found in the messages of one size.
func (p *pingPong) verdict(t *driver.Thread) (bool, error) {
	m, ok, err := t.Receive(waitLimit)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, errors.New("the other side gave no verdict")
	}
	return string(m.Data) == verdictGood, nil
}

func (p *pingPong) note(n, k int, wall time.Duration, span, now driver.Time) {
	cycles := int64(span) / params.SystemClockPeriod
	p.wall = append(p.wall, WallRow{Size: n, Seconds: wall.Seconds(), Cycles: cycles, CyclesPerSecond: float64(cycles) / max(wall.Seconds(), 1e-9)})
	if p.config.Progress != nil {
		p.config.Progress(Progress{What: fmt.Sprintf("%d bytes", n), Done: k + 1, Total: len(p.sizes), TimePs: int64(now), Cycles: int64(now) / params.SystemClockPeriod})
	}
}

// pong answers every round.
func (p *pingPong) pong(t *driver.Thread, h *driver.Host) error {
	s, err := p.open(t, h, p.largest())
	if err != nil {
		return err
	}
	p.pongVI = s.endpoint.VI.Index()
	if err := s.endpoint.Accept(t, pingPort, waitLimit); err != nil {
		return err
	}
	round := 0
	for _, n := range p.sizes {
		verdict := verdictGood
		for i := range p.rounds() {
			round++
			there := pattern{p.config.Seed, 0, round}
			if err := s.receive(t, there, n); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
			if err := s.arena.check(there, n); err != nil {
				verdict = err.Error()
				h.Logger().Error("a message arrived wrong", "size", n, "error", err)
			}
			if i == p.rounds()-1 {
				s.arena.restore(n)
			}
			if err := s.send(t, pattern{p.config.Seed, 1, round}, n); err != nil {
				return err
			}
			if err := s.sent(t); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
		}
		if err := t.Send(driver.ThreadID{Node: 0, Rank: rankPing}, []byte(verdict)); err != nil {
			return err
		}
	}
	return s.endpoint.Close(t)
}

// cross writes to the other node, on a VI of its own, until it is told to stop.
func (p *pingPong) cross(t *driver.Thread, h *driver.Host) error {
	s, err := p.open(t, h, crossSize)
	if err != nil {
		return err
	}
	other := 1 - t.ID().Node
	if t.ID().Node == 0 {
		err = s.endpoint.Dial(t, vipl.NetAddress{Host: vipl.HostAddress(other), Discriminator: crossPort}, waitLimit)
	} else {
		err = s.endpoint.Accept(t, crossPort, waitLimit)
	}
	if err != nil {
		return err
	}
	sent := uint64(0)
	for round := 1; ; round++ {
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
		if err := s.send(t, pattern{p.config.Seed ^ crossSize, t.ID().Node, round}, crossSize); err != nil {
			return err
		}
		if err := s.sent(t); err != nil {
			return err
		}
		sent++
	}
	if err := s.endpoint.Close(t); err != nil {
		return err
	}
	return t.Send(driver.ThreadID{Node: 0, Rank: rankPing}, binary.LittleEndian.AppendUint64(nil, sent))
}

// fold turns elapsed times and the trace into the rows of the report.
func (p *pingPong) fold(events []TraceEvent, m *measurement) error {
	m.wall, m.crossed = p.wall, p.crossed
	next := 0
	for k, n := range p.sizes {
		frames := max(1, (n+layout.MaxPayload-1)/layout.MaxPayload)
		messages := int64(2 * p.config.Iterations)
		var hardware int64
		sums := make([]int64, len(stageEnds))
		for i := range 2 * p.rounds() {
			node, vi, peerVI := 0, p.pingVI, p.pongVI
			if i%2 == 1 {
				node, vi, peerVI = 1, p.pongVI, p.pingVI
			}
			start, ends, after, err := messageTimes(events, next, node, vi, peerVI, frames)
			if err != nil {
				return fmt.Errorf("%d bytes, message %d: %w", n, i, err)
			}
			next = after
			if i < 2*p.config.Warmup {
				continue
			}
			hardware += ends[len(ends)-1] - start
			for j, end := range ends {
				sums[j] += end - start
				start = end
			}
		}
		half := int64(p.elapsed[k]) / messages
		hardware /= messages
		m.rows = append(m.rows, RDMAWriteResult{
			Size: n, HalfRTTPs: half, HardwarePs: hardware, HostPs: half - hardware, BytesPerSec: BytesPerSecond(n, half), Verified: p.verified[k],
		})
		if frames == 1 && m.stages == nil && !p.config.Background {
			m.stages = &Stages{Size: n}
			for j, s := range stageEnds {
				m.stages.Rows = append(m.stages.Rows, Stage{Name: s.name, MeanPs: sums[j] / messages})
			}
		}
	}
	return nil
}

// ServePeer runs the programs of node 1 in a process of its own; the job comes
// from startPeer.
func ServePeer(ctx context.Context, job []byte) error {
	j, err := decodePeerJob(job)
	if err != nil {
		return err
	}
	fabric, err := sim.Attach(ctx, j.Path, bridge.Options{Name: "hvia peer", Nodes: []int{1}})
	if err != nil {
		return err
	}
	p := &pingPong{config: j.Config, sizes: j.Sizes}
	err = driver.RunOn(ctx, driver.Machines(fabric.Conn()), driver.RunConfig{Costs: hostCosts{}, Seed: j.Config.Seed},
		p.programs(func(node int) bool { return node == 1 })...)
	return errors.Join(err, fabric.Close())
}
