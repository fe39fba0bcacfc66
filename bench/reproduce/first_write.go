// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"errors"
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
	firstPort  = "first-write"
	knockName  = "knock"
	openName   = "open"
	readyWord  = "ready"
	leaveWord  = "leave"
	firstPause = 100 * host.Microsecond // after the server announced its wait
)

// firstWriteSizes are measured whatever the configured sizes: one word, and a
// page.
var firstWriteSizes = []int{4, 4096}

// firstWrites measures the time to the first byte in a peer's memory; see
// FirstWriteResult. Both programs run in this process, whatever the
// configuration says of processes.
func firstWrites(ctx context.Context, c Config) (_ []report.FirstWriteResult, d rig.RunDigest, err error) {
	b, err := costs.New(c.Profile, c.Params)
	if err != nil {
		return nil, d, err
	}
	x := &firstWriting{config: c, clockPs: b.Value("SystemClockPeriod")}
	if err := fabric.Run(ctx, fabric.RunConfig{
		Fabric: c.fabric(b), Costs: b.Costs(), Seed: c.Seed,
		Finished: func(f *sim.Fabric) (err error) { d, err = rig.DigestOf(ctx, f); return err },
	}, x.programs()...); err != nil {
		return nil, d, fmt.Errorf("first write: %w", err)
	}
	return x.fold(), d, nil
}

// firstWriting is the experiment: its programs and their notes, a round for
// each connection.
type firstWriting struct {
	config  Config
	clockPs int64
	rounds  []firstRound   // in order, by the client
	visible []host.Time    // likewise, by the server
	faults  map[int]string // by round, the first wrong byte
}

// firstRound is one connection and the first write over it.
type firstRound struct {
	size             int
	offered, counted bool
	asked, connected host.Time // the call of ConnectRequest and its return
}

func (x *firstWriting) programs() []fabric.Program {
	x.faults = map[int]string{}
	return []fabric.Program{{Node: 0, Name: knockName, Main: x.knock}, {Node: 1, Name: openName, Main: x.open}}
}

func (x *firstWriting) each(f func(number int, r firstRound) error) error {
	number := 0
	for _, n := range firstWriteSizes {
		for _, offered := range []bool{true, false} {
			for i := range x.config.Warmup + x.config.Iterations {
				if err := f(number, firstRound{size: n, offered: offered, counted: i >= x.config.Warmup}); err != nil {
					return fmt.Errorf("%d bytes, offered %v, connection %d: %w", n, offered, i, err)
				}
				number++
			}
		}
	}
	return nil
}

// where is the message with a target, which the server sends if it advertises
// nothing.
func where(g *vipl.Region) []byte {
	r := make(layout.OfferedRegion, layout.OfferedRegionSize)
	r.SetAddress(g.Address())
	r.SetLength(uint64(len(g.Bytes())))
	r.SetHandle(uint32(g.Handle()))
	return r
}

// firstSide is one side, with buffers to send or to receive a target.
type firstSide struct {
	*rig.Side
	word *vipl.Region
}

func openFirst(t *host.Thread, h *driver.Host) (*firstSide, error) {
	s, err := rig.OpenSide(t, h, rig.RDMAWrite, slices.Max(firstWriteSizes))
	if err != nil {
		return nil, err
	}
	b, err := s.Endpoint.NIC.Alloc(t, layout.AttPageBytes)
	if err != nil {
		return nil, err
	}
	word, err := s.Endpoint.NIC.RegisterBuffer(t, b, vipl.MemAttributes{})
	return &firstSide{s, word}, err
}

// knock connects, and writes as soon as it knows the target.
func (x *firstWriting) knock(t *host.Thread, h *driver.Host) error {
	s, err := openFirst(t, h)
	if err != nil {
		return err
	}
	vi, remote := s.Endpoint.VI, vipl.At(1, firstPort)
	opener := host.ThreadID{Node: 1, Rank: rig.RankPing}
	return x.each(func(number int, r firstRound) error {
		rig.Pattern{Seed: x.config.Seed, Sender: 0, Round: number}.Fill(s.Arena.Sending(r.size))
		told := s.word.Segment(0, layout.OfferedRegionSize)
		if !r.offered {
			if err := s.Receives[0].SetReceive(told); err != nil {
				return err
			}
			if err := vi.PostRecv(t, s.Receives[0]); err != nil {
				return err
			}
		}
		if err := expect(t, readyWord); err != nil {
			return err
		}
		if err := t.Sleep(firstPause); err != nil {
			return err
		}
		r.asked = t.Now()
		if _, err := vi.ConnectRequest(t, vipl.NetAddress{}, remote, rig.WaitLimit); err != nil {
			return err
		}
		r.connected = t.Now()
		var to vipl.RemoteRegion
		if r.offered {
			theirs := vi.RemoteRegions()
			if len(theirs) != 1 {
				return fmt.Errorf("the peer offers %+v, want one region", theirs)
			}
			to = theirs[0]
		} else {
			if _, err := vi.RecvWait(t, rig.WaitLimit); err != nil {
				return err
			}
			w := layout.OfferedRegion(s.word.Bytes()[:layout.OfferedRegionSize])
			to = vipl.RemoteRegion{Address: w.Address(), Length: w.Length(), Handle: vipl.MemHandle(w.Handle())}
		}
		if err := s.Descriptor.SetRDMAWrite(to.Address+uint64(s.Arena.ReceiveOffset()), to.Handle, s.Endpoint.Buffer.Segment(s.Arena.SendOffset(), r.size)); err != nil {
			return err
		}
		if err := vi.PostSend(t, s.Descriptor); err != nil {
			return err
		}
		if err := s.Sent(t); err != nil {
			return err
		}
		x.rounds = append(x.rounds, r)
		if err := expect(t, leaveWord); err != nil {
			return err
		}
		if err := vi.Disconnect(t); err != nil {
			return err
		}
		return t.Send(opener, []byte(leaveWord))
	})
}

// open accepts, sends the target if it has not advertised it, and waits for the
// last byte.
func (x *firstWriting) open(t *host.Thread, h *driver.Host) error {
	s, err := openFirst(t, h)
	if err != nil {
		return err
	}
	vi, buffer := s.Endpoint.VI, s.Endpoint.Buffer
	knocker := host.ThreadID{Node: 0, Rank: rig.RankPing}
	copy(s.word.Bytes(), where(buffer))
	return x.each(func(number int, r firstRound) error {
		var offered []*vipl.Region
		if r.offered {
			offered = append(offered, buffer)
		}
		s.Arena.Expect(r.size)
		if err := vi.Offer(t, offered...); err != nil {
			return err
		}
		if err := t.Send(knocker, []byte(readyWord)); err != nil {
			return err
		}
		q, err := s.Endpoint.NIC.ConnectWait(t, vipl.NetAddress{Discriminator: firstPort}, rig.WaitLimit)
		if err != nil {
			return err
		}
		if err := q.Accept(t, vi); err != nil {
			return err
		}
		if !r.offered {
			if err := s.Descriptor.SetSend(s.word.Segment(0, layout.OfferedRegionSize)); err != nil {
				return err
			}
			if err := vi.PostSend(t, s.Descriptor); err != nil {
				return err
			}
		}
		w := rig.Pattern{Seed: x.config.Seed, Sender: 0, Round: number}
		if err := s.Endpoint.Poll(t, s.Arena.ReceiveOffset()+r.size-1, w.Last(), rig.WaitLimit); err != nil {
			return err
		}
		x.visible = append(x.visible, t.Now())
		if !r.offered {
			if err := s.Sent(t); err != nil {
				return err
			}
		}
		if err := s.Arena.Check(w, r.size); err != nil {
			x.faults[number] = err.Error()
		}
		s.Arena.Restore(r.size)
		if x.config.Progress != nil && number%(x.config.Warmup+x.config.Iterations) == 0 {
			per := 2 * (x.config.Warmup + x.config.Iterations)
			x.config.Progress(rig.Progress{
				What: fmt.Sprintf("%sfirst write, %d bytes", x.config.task, r.size), Done: number / per, Total: len(firstWriteSizes),
				TimePs: int64(t.Now()), Cycles: int64(t.Now()) / x.clockPs,
			})
		}
		if err := t.Send(knocker, []byte(leaveWord)); err != nil {
			return err
		}
		if err := expect(t, leaveWord); err != nil {
			return err
		}
		return s.left(t)
	})
}

// left prepares a VI for reuse after its peer has disconnected.
func (s *firstSide) left(t *host.Thread) error {
	if err := s.Endpoint.VI.Disconnect(t); err != nil {
		return err
	}
	for {
		_, err := s.Endpoint.NIC.ErrorWait(t, 0)
		if errors.Is(err, vipl.ErrTimeout) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (x *firstWriting) fold() (rows []report.FirstWriteResult) {
	for _, n := range firstWriteSizes {
		row := report.FirstWriteResult{Size: n}
		for i, r := range x.rounds {
			if r.size != n {
				continue
			}
			if row.Fault == "" {
				row.Fault = x.faults[i]
			}
			if !r.counted {
				continue
			}
			if r.offered {
				row.ConnectPs += int64(r.connected - r.asked)
				row.OffersPs += int64(x.visible[i] - r.asked)
			} else {
				row.MessagePs += int64(x.visible[i] - r.asked)
			}
		}
		n := int64(x.config.Iterations)
		row.ConnectPs, row.OffersPs, row.MessagePs = row.ConnectPs/n, row.OffersPs/n, row.MessagePs/n
		rows = append(rows, row)
	}
	return rows
}
