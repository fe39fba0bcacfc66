// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
)

const (
	feedName = "feed"
	takeName = "take"
	takePort = "receive-side"

	// drainTime exceeds the time to send the frames in the sending card and its
	// MAC when the send completes: two packet buffers and 8 KB.
	drainTime = 200 * host.Microsecond

	goMessage   = "go"
	sentMessage = "sent"
)

// receiveSide measures the cost of a receive at the receiver alone: Figures 11
// and 12 of the paper; see PostReceiveResult and ReceiveWaitResult. Both
// programs run in this process, whatever the configuration says of processes.
func receiveSide(ctx context.Context, c Config) (_ []report.PostReceiveResult, _ []report.ReceiveWaitResult, d rig.RunDigest, err error) {
	rec, err := rig.Record("", "")
	if err != nil {
		return nil, nil, d, fmt.Errorf("receive side: %w", err)
	}
	defer rec.Remove()
	b, err := costs.New(c.Profile, c.Params)
	if err != nil {
		return nil, nil, d, err
	}
	x := &receiving{config: c, clockPs: b.Value("SystemClockPeriod"), faults: map[int]string{}}
	cfg := c.fabric(b)
	rec.Into(&cfg)
	failed := fabric.Run(ctx, fabric.RunConfig{
		Fabric: cfg, Costs: b.Costs(), Seed: c.Seed,
		Finished: func(f *sim.Fabric) (err error) { d, err = rig.DigestOf(ctx, f); return err },
	}, x.programs()...)
	events, err := rec.Events()
	if failed != nil {
		err = failed
	}
	if err != nil {
		return nil, nil, d, fmt.Errorf("receive side: %w", err)
	}
	posts, waits, err := x.fold(events)
	return posts, waits, d, err
}

// receiving is the experiment: its programs, and what the receiver noted.
type receiving struct {
	config  Config
	clockPs int64
	rounds  []receiveRound // counted ones, those of a size one after the other
	faults  map[int]string // by size, the first wrong byte
}

type receiveRound struct {
	size               int
	post               host.Time // of VipPostRecv, between two readings of the clock
	released, returned host.Time // the wire, and RecvWait
}

func (x *receiving) programs() []fabric.Program {
	return []fabric.Program{{Node: 0, Name: feedName, Main: x.feed}, {Node: 1, Name: takeName, Main: x.take}}
}

func (x *receiving) largest() int { return slices.Max(x.config.Sizes) }

// expect waits for a message from the other program.
func expect(t *host.Thread, want string) error {
	m, ok, err := t.Receive(rig.WaitLimit)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("no message %q within %v", want, rig.WaitLimit)
	case string(m.Data) != want:
		return fmt.Errorf("message %q from %v, want %q", m.Data, m.From, want)
	}
	return nil
}

// each calls f for every message of the experiment, with a number for its
// pattern.
func (x *receiving) each(f func(n, number int, counted bool) error) error {
	number := 0
	for _, n := range x.config.Sizes {
		for i := range x.config.Warmup + x.config.Iterations {
			number++
			if err := f(n, number, i >= x.config.Warmup); err != nil {
				return fmt.Errorf("%d bytes, round %d: %w", n, i, err)
			}
		}
	}
	return nil
}

// feed sends each message when the wire is held, and reports when its last
// frame has left.
func (x *receiving) feed(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenSide(t, h, rig.RDMAWrite, x.largest())
	if err != nil {
		return err
	}
	if err := s.Endpoint.Dial(t, vipl.At(1, takePort), rig.WaitLimit); err != nil {
		return err
	}
	taker := host.ThreadID{Node: 1, Rank: rig.RankPing}
	if err := x.each(func(n, number int, _ bool) error {
		if err := expect(t, goMessage); err != nil {
			return err
		}
		rig.Pattern{Seed: x.config.Seed, Sender: 0, Round: number}.Fill(s.Arena.Sending(n))
		if err := s.Descriptor.SetSend(s.Endpoint.Buffer.Segment(s.Arena.SendOffset(), n)); err != nil {
			return err
		}
		if err := s.Endpoint.VI.PostSend(t, s.Descriptor); err != nil {
			return err
		}
		if err := s.Sent(t); err != nil {
			return err
		}
		if err := t.Sleep(drainTime); err != nil {
			return err
		}
		return t.Send(taker, []byte(sentMessage))
	}); err != nil {
		return err
	}
	if err := expect(t, goMessage); err != nil {
		return err
	}
	return s.Endpoint.Close(t)
}

// take posts a receive, releases the message when all of it is on the wire, and
// waits for it.
func (x *receiving) take(t *host.Thread, h *driver.Host) error {
	s, err := rig.OpenSide(t, h, rig.RDMAWrite, x.largest())
	if err != nil {
		return err
	}
	if err := s.Endpoint.Accept(t, takePort, rig.WaitLimit); err != nil {
		return err
	}
	feeder := host.ThreadID{Node: 0, Rank: rig.RankPing}
	sizes := 0
	if err := x.each(func(n, number int, counted bool) error {
		round := receiveRound{size: n}
		begin, err := h.TimeOfDay(t)
		if err != nil {
			return err
		}
		d := s.Receives[0]
		if err := d.SetReceive(s.Endpoint.Buffer.Segment(s.Arena.ReceiveOffset(), n)); err != nil {
			return err
		}
		if err := s.Endpoint.VI.PostRecv(t, d); err != nil {
			return err
		}
		end, err := h.TimeOfDay(t)
		if err != nil {
			return err
		}
		round.post = end - begin
		if err := t.HoldWire(true); err != nil {
			return err
		}
		if err := t.Send(feeder, []byte(goMessage)); err != nil {
			return err
		}
		if err := expect(t, sentMessage); err != nil {
			return err
		}
		round.released = t.Now()
		if err := t.HoldWire(false); err != nil {
			return err
		}
		got, err := s.Endpoint.VI.RecvWait(t, rig.WaitLimit)
		if err != nil {
			return err
		}
		round.returned = t.Now()
		if got != d || got.Length() != n {
			return fmt.Errorf("descriptor %#x with %d bytes, want %#x with %d", got.Address, got.Length(), d.Address, n)
		}
		if err := s.Arena.Check(rig.Pattern{Seed: x.config.Seed, Sender: 0, Round: number}, n); err != nil && x.faults[n] == "" {
			x.faults[n] = err.Error()
		}
		s.Arena.Restore(n)
		if !counted {
			return nil
		}
		x.rounds = append(x.rounds, round)
		if len(x.rounds)%x.config.Iterations == 0 && x.config.Progress != nil {
			sizes++
			x.config.Progress(rig.Progress{What: fmt.Sprintf("%sreceive side, %d bytes", x.config.task, n), Done: sizes, Total: len(x.config.Sizes), TimePs: int64(t.Now()), Cycles: int64(t.Now()) / x.clockPs})
		}
		return nil
	}); err != nil {
		return err
	}
	if err := t.Send(feeder, []byte(goMessage)); err != nil {
		return err
	}
	return s.Endpoint.Close(t)
}

// fold finds in the trace when each message began to arrive.
func (x *receiving) fold(events []rig.TraceEvent) ([]report.PostReceiveResult, []report.ReceiveWaitResult, error) {
	var posts []report.PostReceiveResult
	var waits []report.ReceiveWaitResult
	next := 0
	for round := range slices.Chunk(x.rounds, x.config.Iterations) {
		n := round[0].size
		post := report.PostReceiveResult{Size: n, MinPs: int64(round[0].post)}
		wait := report.ReceiveWaitResult{Size: n, Fault: x.faults[n]}
		for _, r := range round {
			post.MeanPs += int64(r.post)
			post.MinPs, post.MaxPs = min(post.MinPs, int64(r.post)), max(post.MaxPs, int64(r.post))
			first, err := firstWrite(events, &next, rig.FramesOf(n), r)
			if err != nil {
				return nil, nil, fmt.Errorf("receive side: %d bytes: %w", n, err)
			}
			wait.MeanPs += int64(r.returned) - first
		}
		post.MeanPs /= int64(len(round))
		wait.MeanPs /= int64(len(round))
		posts, waits = append(posts, post), append(waits, wait)
	}
	return posts, waits, nil
}

// firstWrite is when the MAC of node 1 began to write a round's first frame.
// All frames of the message must have left node 0 before the wire was released,
// else the receiving side may have waited for the sender.
func firstWrite(events []rig.TraceEvent, next *int, frames int, r receiveRound) (int64, error) {
	k, _ := slices.BinarySearchFunc(events[*next:], int64(r.released), func(e rig.TraceEvent, t int64) int { return cmp.Compare(e.TimePs, t) })
	held := events[*next : *next+k]
	*next += k
	left := 0
	for i := len(held) - 1; i >= 0 && left < frames; i-- {
		if held[i].Node == 1 && held[i].Event == layout.TraceEventMacReceiveStart {
			return 0, fmt.Errorf("%w: a frame came at %d ps although the wire was held until %v", rig.ErrTrace, held[i].TimePs, r.released)
		}
		if held[i].Node == 0 && held[i].Event == layout.TraceEventWireStart {
			left++
		}
	}
	if left < frames {
		return 0, fmt.Errorf("%w: %d of %d frames were on the wire when it was released at %v", rig.ErrTrace, left, frames, r.released)
	}
	for _, e := range events[*next:] {
		if e.TimePs > int64(r.returned) {
			break
		}
		if e.Node == 0 && e.Event == layout.TraceEventWireStart {
			return 0, fmt.Errorf("%w: the sender still sends at %d ps, after the release at %v", rig.ErrTrace, e.TimePs, r.released)
		}
		if e.Node == 1 && e.Event == layout.TraceEventMacReceiveStart {
			return e.TimePs, nil
		}
	}
	return 0, fmt.Errorf("%w: no frame between the release of the wire at %v and the return of RecvWait at %v", rig.ErrTrace, r.released, r.returned)
}
