// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/vipl"
)

// Run makes one RDMA write from node 0 to node 1 and reports each step and its
// time. On an error it also returns the steps so far.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	defer func() { err = rig.Stopped(ctx, "demo", err) }()
	hashes, err := rig.Environment(c, c.Profile)
	if err != nil {
		return nil, err
	}
	r := NewReport(c, hashes)
	rec, err := rig.Record(c.PcapFile, c.WaveFile)
	if err != nil {
		return r, fmt.Errorf("demo: %w", err)
	}
	defer rec.Remove()

	b, err := costs.New(c.Profile, nil)
	if err != nil {
		return r, err
	}
	cfg := rig.Cards(b, c.Seed, 2)
	cfg.Program, cfg.Checks, cfg.Faults = c.program, c.Checks, c.Faults
	rec.Into(&cfg)
	d := &demonstration{config: c}
	failed := fabric.Run(ctx, fabric.RunConfig{
		Fabric: cfg, Costs: b.Costs(), Seed: c.Seed,
		Finished: func(f *sim.Fabric) error {
			d, err := rig.DigestOf(ctx, f)
			r.Digest, r.Parts = d.All, d.Parts
			return err
		},
	}, fabric.Program{Node: 0, Name: "writer", Main: d.write}, fabric.Program{Node: 1, Name: "reader", Main: d.read})
	// The error of a failed run is more important than that of its incomplete
	// records.
	events, err := rec.Events()
	if failed == nil && err != nil {
		return r, err
	}
	card, err := cardSteps(events, d.vi[0], d.vi[1], rig.FramesOf(c.Size))
	if failed == nil && err != nil {
		return r, fmt.Errorf("demo: %w", err)
	}
	r.Steps = slices.Concat(d.steps[0], d.steps[1], card)
	slices.SortStableFunc(r.Steps, func(a, b Step) int { return cmp.Compare(a.TimePs, b.TimePs) })
	if err := rec.WritePcap(c.Profile, c.Seed); failed == nil && err != nil {
		return r, err
	}
	r.Verified, r.Fault = failed == nil && d.fault == "", d.fault
	return r, failed
}

const (
	demoPort  = "demo"
	demoRound = 1
)

// demonstration has the two programs of the demo and a list of notes for each.
type demonstration struct {
	config Config
	steps  [2][]Step
	vi     [2]int
	fault  string
}

func (d *demonstration) note(t *host.Thread, format string, args ...any) {
	node := t.ID().Node
	d.steps[node] = append(d.steps[node], Step{TimePs: int64(t.Now()), Node: node, Where: t.Name(), What: fmt.Sprintf(format, args...)})
}

// open makes a program's side and notes its steps.
func (d *demonstration) open(t *host.Thread, h *driver.Host) (*rig.Side, error) {
	if err := t.Begin(); err != nil {
		return nil, err
	}
	d.note(t, "begins")
	s, err := rig.OpenSide(t, h, rig.RDMAWrite, d.config.Size)
	if err != nil {
		return nil, err
	}
	node := t.ID().Node
	d.vi[node] = s.Endpoint.VI.Index()
	b := s.Endpoint.Buffer
	ranges, err := h.Memory().Physical(nil, b.Address(), uint64(len(b.Bytes())))
	if err != nil {
		return nil, err
	}
	d.note(t, "has opened its NIC, made VI %d and registered %d bytes at %#x", d.vi[node], len(b.Bytes()), b.Address())
	d.note(t, "the region has handle %#x, its first byte lies at physical address %#x; pages: %d", uint32(b.Handle()), ranges[0].Address, len(ranges))
	return s, nil
}

// write is the program on node 0.
func (d *demonstration) write(t *host.Thread, h *driver.Host) error {
	s, err := d.open(t, h)
	if err != nil {
		return err
	}
	if err := s.Endpoint.Dial(t, vipl.At(1, demoPort), rig.WaitLimit); err != nil {
		return err
	}
	n := d.config.Size
	d.note(t, "is connected, and knows the peer's buffer: %#x, handle %#x", s.Endpoint.Peer.Address, uint32(s.Endpoint.Peer.Handle))
	d.note(t, "fills %d bytes, fills in a descriptor and calls PostSend", n)
	if err := s.Send(t, rig.Pattern{Seed: d.config.Seed, Sender: 0, Round: demoRound}, n); err != nil {
		return err
	}
	if err := s.Sent(t); err != nil {
		return err
	}
	d.note(t, "sees Status and has its buffer back")
	// The connection must stay open until the peer has checked the data.
	m, ok, err := t.Receive(rig.WaitLimit)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("the reader did not answer within %v", rig.WaitLimit)
	}
	d.fault = string(m.Data)
	if err := s.Arena.Guards(0); err != nil && d.fault == "" {
		d.fault = fmt.Sprintf("node 0: %v", err)
	}
	return s.Endpoint.Close(t)
}

// read is the program on node 1.
func (d *demonstration) read(t *host.Thread, h *driver.Host) error {
	s, err := d.open(t, h)
	if err != nil {
		return err
	}
	if err := s.Endpoint.Accept(t, demoPort, rig.WaitLimit); err != nil {
		return err
	}
	d.note(t, "is connected, and polls the last byte of the message to come")
	message := rig.Pattern{Seed: d.config.Seed, Sender: 0, Round: demoRound}
	if err := s.Receive(t, message, d.config.Size); err != nil {
		return err
	}
	d.note(t, "sees the last byte change: the message is there")
	fault := ""
	if err := s.Arena.Check(message, d.config.Size); err != nil {
		fault = fmt.Sprintf("node 1: %v", err)
	} else {
		d.note(t, "compares the message and the bytes around it: all as they must be")
	}
	if err := t.Send(host.ThreadID{Node: 0, Rank: rig.RankPing}, []byte(fault)); err != nil {
		return err
	}
	return s.Endpoint.Close(t)
}

// cardSteps lists the steps of the first message of node 0, VI vi, from the
// trace of the cards and the wire. If an event is missing or repeated, it
// returns an error and the steps that the trace shows.
func cardSteps(events []rig.TraceEvent, vi, peerVI, frames int) ([]Step, error) {
	from, err := rig.FindDoorbell(events, 0, 0, vi)
	if err != nil {
		return nil, err
	}
	want := make([]int, len(rig.Deeds))
	missing := 0
	for k, d := range rig.Deeds {
		want[k] = 1
		if d.Frame {
			want[k] = frames
		}
		missing += want[k]
	}
	var steps []Step
	seen := make([]int, len(rig.Deeds))
	for _, e := range events[from:] {
		if missing == 0 {
			return steps, nil
		}
		if e.Event == layout.TraceEventRawTransmitted && e.Node == 0 {
			// Events of the wire and the MACs do not name the VI of a frame.
			return steps, fmt.Errorf("%w: at %d ps another frame of node 0 lies between its own", rig.ErrTrace, e.TimePs)
		}
		k := slices.IndexFunc(rig.Deeds, func(d rig.Deed) bool { return d.Event == e.Event && d.Receiver == (e.Node != 0) })
		if k < 0 || seen[k] == want[k] || rig.HasVI(e.Event) && e.VI != map[bool]int{false: vi, true: peerVI}[rig.Deeds[k].Receiver] {
			continue
		}
		seen[k]++
		missing--
		s := Step{TimePs: e.TimePs, Node: e.Node, Where: rig.Deeds[k].Where, What: rig.Deeds[k].What}
		if rig.Deeds[k].Frame && frames > 1 {
			s.Frame = seen[k]
		}
		steps = append(steps, s)
	}
	if missing > 0 {
		k := 0
		for seen[k] == want[k] {
			k++
		}
		return steps, fmt.Errorf("%w: %s %s: %d times, want %d", rig.ErrTrace, rig.Deeds[k].Where, rig.Deeds[k].What, seen[k], want[k])
	}
	return steps, nil
}

// Config says which RDMA write the demonstration makes.
type Config struct {
	Profile  string
	Size     int
	Seed     uint64
	PcapFile string
	WaveFile string
	Faults   sim.WireFaults // of the wire
	sim.Checks

	program string
}

// DefaultConfig is 64 bytes on the paper's card.
func DefaultConfig() Config {
	return Config{Profile: params.Profiles[0].Name, Size: 64, Seed: 1}
}

// Validate rejects what the demonstration cannot do.
func (c Config) Validate() error {
	if err := rig.CheckProfile(c.Profile); err != nil {
		return err
	}
	return rig.CheckSize(c.Size)
}
