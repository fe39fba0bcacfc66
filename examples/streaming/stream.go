// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/vipl"
)

// connectLimit ends the attempt to connect, and a send that does not get done.
const connectLimit = 10 * host.Second

// How long a frame is waited for when none behind it comes either. TCP makes its
// retransmissions later and later, and may need several; a card has given its connection up
// long before. Where nothing is repeated there is a frame in each period, or none.
const (
	reliablePatience   = 5 * host.Second
	unreliablePatience = 10 * host.Millisecond // and two periods
)

// The film begins at a multiple of curtain, so that what it shows does not depend on how
// long connecting took.
const curtain = 15 * host.Millisecond

// protocol is a way to bring frames to clients.
type protocol struct {
	name   string
	device driver.Device
	write  bool // RDMA writes; else sends, with receives that wait for them
	tcp    bool // TCP/IP, not VIA
	level  vipl.ReliabilityLevel
}

var protocols = []protocol{
	{name: "rdma", device: driver.DeviceHvia, write: true},
	{name: "send", device: driver.DeviceHvia},
	{name: "mvia", device: driver.DeviceMvia},
	{name: "tcp", device: driver.DeviceMvia, tcp: true},
	{name: "rdma-rd", device: driver.DeviceHvia, write: true, level: vipl.ReliableDelivery},
	{name: "send-rd", device: driver.DeviceHvia, level: vipl.ReliableDelivery},
}

// reliable is true if each frame arrives, be it late.
func (p protocol) reliable() bool { return p.tcp || p.level == vipl.ReliableDelivery }

// config is what is streamed and how.
type config struct {
	protocols []protocol
	clients   int
	rate      int // frames a second, to each client
	bytes     int // of a frame
	frames    int // to each client
	ring      int // frames that a client has room for
	ahead     int // ticks from a frame's sending to its being played
	faults    sim.WireFaults
	seed      uint64
}

func (c config) period() host.Time { return host.Second / host.Time(c.rate) }

func (s *show) patience() host.Time {
	if s.reliable() {
		return reliablePatience
	}
	return unreliablePatience + 2*s.period()
}

// outlet is the server's end of a client's stream.
type outlet interface {
	// send hands over frame k, which lies in the server's slot of that number. The
	// slot must stay as it is until the frame is settled.
	send(t *host.Thread, k int) error
	// settle waits until frames up to k need their slots no more.
	settle(t *host.Thread, k int) error
}

// inlet is a client's end.
type inlet interface {
	// take returns frame k, or a later one if k did not come before it, and nil if there
	// is none after a time. 0 is one look. The frame is valid until done.
	take(t *host.Thread, k int, timeout host.Time) ([]byte, error)
	// done gives the room of the frame back that was taken last.
	done(t *host.Thread) error
}

// station is a host's part of a protocol, for server and clients.
type station interface {
	// serve waits for all clients. The slots are the memory that frames are sent from.
	serve(t *host.Thread) (outlets []outlet, slots [][]byte, err error)
	// tune connects a client with the server.
	tune(t *host.Thread) (inlet, error)
	close(t *host.Thread) error
}

// Barriers: programs of two hosts that agree on something, as they would over another
// connection.
const (
	barrierOpen  = iota + 1 // everybody may connect
	barrierStart            // the film begins: all clocks count from here
	barrierEnd              // everybody has seen it
	barrierClose
)

// show is one protocol's run.
type show struct {
	config
	protocol
	server  load
	viewers []viewer
}

// load is what a host's processor did, program and kernel, from the film's begin to its end.
type load struct {
	span  host.Time
	spent host.Account
}

// viewer is what a client has seen.
type viewer struct {
	load
	played int         // frames, those that were late included
	late   []host.Time // by how much, of each frame that was
	lost   int
}

// work and polling are shares of the time, in percent.
func (l load) work() float64    { return percent(l.spent.Total(), l.span) }
func (l load) polling() float64 { return percent(l.spent[host.LayerPoll], l.span) }

func percent(part, whole host.Time) float64 { return 100 * float64(part) / float64(whole) }

func (s *show) open(t *host.Thread, h *driver.Host) (station, error) {
	if s.tcp {
		return openTCP(t, h, s)
	}
	return openVia(t, h, s)
}

func (s *show) parties() int { return s.clients + 1 }

// measure lets all begin at one instant, as if they had agreed on it by their clocks, runs the film, waits for the others and says
// what this host's processor has done.
func (s *show) measure(t *host.Thread, h *driver.Host, film func(epoch host.Time) error) (l load, err error) {
	if err := t.Barrier(barrierStart, s.parties()); err != nil {
		return l, err
	}
	epoch := (t.Now()/curtain + 1) * curtain
	if err := sleepUntil(t, epoch); err != nil {
		return l, err
	}
	before := t.Spent().Plus(h.Spent())
	if err := film(epoch); err != nil {
		return l, err
	}
	if err := t.Barrier(barrierEnd, s.parties()); err != nil {
		return l, err
	}
	return load{t.Now() - epoch, t.Spent().Plus(h.Spent()).Less(before)}, nil
}

func sleepUntil(t *host.Thread, at host.Time) error {
	if now := t.Now(); now < at {
		return t.Sleep(at - now)
	}
	return nil
}

// broadcast sends each frame to every client at its tick, or as soon as it can: a slot is
// filled again when every client's frame has left it. Filling takes no processor: it stands
// for a disk that stores frames into memory.
func (s *show) broadcast(t *host.Thread, h *driver.Host) error {
	st, err := s.open(t, h)
	if err != nil {
		return err
	}
	outlets, slots, err := st.serve(t)
	if err != nil {
		return err
	}
	s.server, err = s.measure(t, h, func(epoch host.Time) error {
		for k := range s.frames {
			if err := sleepUntil(t, epoch+host.Time(k)*s.period()); err != nil {
				return err
			}
			for _, o := range outlets {
				if err := o.settle(t, k-len(slots)); err != nil {
					return fmt.Errorf("frame %d: %w", k-len(slots), err)
				}
			}
			fillFrame(slots[k%len(slots)], k)
			for i, o := range outlets {
				if err := o.send(t, k); err != nil {
					return fmt.Errorf("frame %d to client %d: %w", k, i, err)
				}
			}
		}
		for _, o := range outlets {
			if err := o.settle(t, s.frames-1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return st.close(t)
}

// watch plays one frame at each tick. It looks when the tick has come; a frame that is not
// there then is waited for and played late. One that has not come when a later one has is lost.
func (s *show) watch(t *host.Thread, h *driver.Host, v *viewer) error {
	st, err := s.open(t, h)
	if err != nil {
		return err
	}
	in, err := st.tune(t)
	if err != nil {
		return err
	}
	l, err := s.measure(t, h, func(epoch host.Time) error {
		tick := func(k int) host.Time { return epoch + host.Time(k+s.ahead)*s.period() }
		for k := 0; k < s.frames; {
			frame, there, err := s.await(t, in, k, tick)
			if err != nil {
				return fmt.Errorf("frame %d: %w", k, err)
			}
			if frame == nil {
				v.lost++
				k++
				continue
			}
			came := numberOf(frame)
			if came < k || came >= s.frames {
				return fmt.Errorf("frame %d came, frame %d or a later one of %d was to come", came, k, s.frames)
			}
			v.lost += came - k
			k = came
			if err := sleepUntil(t, tick(k)); err != nil {
				return err
			}
			if there > tick(k) {
				v.late = append(v.late, there-tick(k))
			}
			if err := checkFrame(frame, k); err != nil {
				return err
			}
			v.played++
			k++
			if err := in.done(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	v.load = l
	return st.close(t)
}

// await takes frame k at its tick, or later, and says when it was there: at the first look, or
// when the program had it after a wait. It returns nil when nothing comes any more.
func (s *show) await(t *host.Thread, in inlet, k int, tick func(int) host.Time) (frame []byte, there host.Time, err error) {
	if err := sleepUntil(t, tick(k)); err != nil {
		return nil, 0, err
	}
	looked := t.Now()
	if frame, err = in.take(t, k, 0); err != nil || frame != nil {
		return frame, looked, err
	}
	// Behind each tick it is seen whether a later frame is there.
	for next := k; frame == nil && err == nil && t.Now() < looked+s.patience(); {
		for tick(next) <= t.Now() {
			next++
		}
		frame, err = in.take(t, k, tick(next)-t.Now())
	}
	return frame, t.Now(), err
}

// run streams with each protocol, each on a fabric of its own.
func run(ctx context.Context, c config) ([]*show, error) {
	costs, err := costs.HostCosts("")
	if err != nil {
		return nil, err
	}
	var shows []*show
	for _, p := range c.protocols {
		s := &show{config: c, protocol: p, viewers: make([]viewer, c.clients)}
		programs := []fabric.Program{{Node: 0, Name: "server", Main: s.broadcast}}
		for i := range c.clients {
			programs = append(programs, fabric.Program{Node: 1 + i, Name: fmt.Sprintf("client %d", i), Main: func(t *host.Thread, h *driver.Host) error {
				return s.watch(t, h, &s.viewers[i])
			}})
		}
		r := fabric.RunConfig{Device: p.device, Costs: costs, Seed: c.seed}
		r.Fabric.Switch, r.Fabric.Faults = true, c.faults
		if err := fabric.Run(ctx, r, programs...); err != nil {
			return shows, fmt.Errorf("%s: %w", p.name, err)
		}
		shows = append(shows, s)
	}
	return shows, nil
}

// total adds what all clients have seen; lateness is in order.
func (s *show) total() (v viewer) {
	for _, o := range s.viewers {
		v.played += o.played
		v.lost += o.lost
		v.late = append(v.late, o.late...)
		v.span += o.span
		v.spent = v.spent.Plus(o.spent)
	}
	slices.Sort(v.late)
	return v
}

// percentile is the nearest rank of times that are in order.
func percentile(times []host.Time, p int) host.Time {
	return times[(len(times)*p+99)/100-1]
}
