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

// connectLimit bounds the attempt to connect, and a send.
const connectLimit = 10 * host.Second

// The longest wait for a frame if no later one arrives. TCP backs off its
// retransmissions and may need several; a card gives up its connection much
// earlier. Unreliable protocols deliver a frame in each period, or none.
const (
	reliablePatience   = 5 * host.Second
	unreliablePatience = 10 * host.Millisecond // and two periods
)

// The film starts at a multiple of curtain, so the results do not depend on the
// time of connecting.
const curtain = 15 * host.Millisecond

// protocol is a way to send frames to clients.
type protocol struct {
	name   string
	device driver.Device
	write  bool // RDMA writes; otherwise sends into posted receives
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

// reliable reports whether each frame arrives, perhaps late.
func (p protocol) reliable() bool { return p.tcp || p.level == vipl.ReliableDelivery }

type config struct {
	protocols []protocol
	clients   int
	rate      int // frames a second, to each client
	bytes     int // of a frame
	frames    int // to each client
	ring      int // capacity of a client, in frames
	ahead     int // ticks from sending to playing a frame
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
	// send sends frame k from the server's slot of that number. The slot must
	// not change until the frame is settled.
	send(t *host.Thread, k int) error
	// settle waits until frames up to k no longer need their slots.
	settle(t *host.Thread, k int) error
}

// inlet is a client's end.
type inlet interface {
	// take returns frame k, or a later one if k did not arrive before it; nil
	// if there is none within the timeout, 0 for one poll. The frame is valid
	// until done.
	take(t *host.Thread, k int, timeout host.Time) ([]byte, error)
	// done frees the slot of the frame taken last.
	done(t *host.Thread) error
}

// station is a host's part of a protocol, for server and clients.
type station interface {
	// serve waits for all clients. The server fills the slots with the frames
	// to send.
	serve(t *host.Thread) (outlets []outlet, slots [][]byte, err error)
	tune(t *host.Thread) (inlet, error)
	close(t *host.Thread) error
}

// Barriers synchronize the hosts, as another connection would.
const (
	barrierOpen  = iota + 1 // all hosts may connect
	barrierStart            // the film starts: all clocks count from here
	barrierEnd              // all hosts have seen it
	barrierClose
)

// show is one protocol's run.
type show struct {
	config
	protocol
	server  load
	viewers []viewer
}

// load is the work of a host's processor, program and kernel, during the film.
type load struct {
	span  host.Time
	spent host.Account
}

type viewer struct {
	load
	played int         // includes late frames
	late   []host.Time // lateness of each late frame
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

// measure starts all hosts at one instant, as synchronized clocks would, and
// runs the film. It waits for the others and returns the work of this host's
// processor.
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

// broadcast sends each frame to every client at its tick, or as soon as it can:
// it refills a slot when every client's frame has left it. Filling costs no
// processor time, as if a disk stored frames into memory.
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

// watch plays one frame at each tick. It polls at the tick, waits for a missing
// frame and plays it late. A frame is lost if a later one arrives first.
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

// await returns frame k and its time: that of the first poll if the frame has
// arrived, otherwise the end of a wait. It returns nil if no more frames
// arrive.
func (s *show) await(t *host.Thread, in inlet, k int, tick func(int) host.Time) (frame []byte, there host.Time, err error) {
	if err := sleepUntil(t, tick(k)); err != nil {
		return nil, 0, err
	}
	polledAt := t.Now()
	if frame, err = in.take(t, k, 0); err != nil || frame != nil {
		return frame, polledAt, err
	}
	// After each tick, poll for a later frame.
	for next := k; frame == nil && err == nil && t.Now() < polledAt+s.patience(); {
		for tick(next) <= t.Now() {
			next++
		}
		frame, err = in.take(t, k, tick(next)-t.Now())
	}
	return frame, t.Now(), err
}

// run streams with each protocol on a separate fabric.
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

// total adds the results of all clients; lateness is sorted.
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

// percentile is the nearest rank of sorted times.
func percentile(times []host.Time, p int) host.Time {
	return times[(len(times)*p+99)/100-1]
}
