// SPDX-License-Identifier: Apache-2.0

// Command pingpong measures latency and bandwidth between two simulated hosts:
// one sends a message, the other returns one of the same length, and latency is
// half the round trip. It uses RDMA writes, whose receiver polls the last byte,
// and send and receive. Processor time is charged as in the experiments, so the
// times are those of the simulated machines, whatever machine simulates them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

const patience = host.Second

// Operations that carry a message.
const (
	opWrite = "write"
	opSend  = "send"
)

type options struct {
	device     driver.Device
	operations []string
	sizes      []int // bytes
	count      int   // measured round trips
	warmup     int   // round trips before them
}

// game is one run of the two programs.
type game struct {
	options
	operation string
	out       io.Writer
}

// side is one end: an endpoint, whose buffer has a half to send from and a half
// to receive into, and descriptors.
type side struct {
	game
	*endpoint.Endpoint
	room     int // of a message
	send     *vipl.Descriptor
	sent     bool // and not reaped
	receives [2]*vipl.Descriptor
	heard    int
}

func (g game) open(t *host.Thread, h *driver.Host) (*side, error) {
	room := slices.Max(g.sizes)
	e, err := endpoint.Open(t, h, endpoint.Config{Bytes: 2 * room, Receives: -1})
	if err != nil {
		return nil, err
	}
	s := &side{game: g, Endpoint: e, room: room}
	b, err := e.NIC.Alloc(t, 3*vipl.DescriptorBytes)
	if err != nil {
		return nil, err
	}
	page, err := e.NIC.RegisterBuffer(t, b, vipl.MemAttributes{})
	if err != nil {
		return nil, err
	}
	for i, d := range []**vipl.Descriptor{&s.send, &s.receives[0], &s.receives[1]} {
		if *d, err = page.Descriptor(i*vipl.DescriptorBytes, 1); err != nil {
			return nil, err
		}
	}
	// A receive must be posted before its message arrives. With two, the used
	// one need not be posted before the reply.
	for _, d := range s.receives {
		if err := s.expect(t, d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *side) expect(t *host.Thread, d *vipl.Descriptor) error {
	if s.operation == opWrite {
		return nil
	}
	if err := d.SetReceive(s.Buffer.Segment(s.room, s.room)); err != nil {
		return err
	}
	return s.VI.PostRecv(t, d)
}

// content is byte i of n of a round's message; the last is never 0.
func content(round, i, n int) byte {
	if i == n-1 {
		return byte(round%255 + 1)
	}
	return byte(31*i + 7*round)
}

func (s *side) say(t *host.Thread, round, n int) error {
	for i := range n {
		s.Bytes()[i] = content(round, i, n)
	}
	if s.operation == opWrite {
		if err := s.send.SetRDMAWrite(s.Peer.Address+uint64(s.room), s.Peer.Handle, s.Buffer.Segment(0, n)); err != nil {
			return err
		}
	} else if err := s.send.SetSend(s.Buffer.Segment(0, n)); err != nil {
		return err
	}
	s.sent = true
	return s.VI.PostSend(t, s.send)
}

func (s *side) settle(t *host.Thread) error {
	if !s.sent {
		return nil
	}
	s.sent = false
	_, err := s.VI.SendWait(t, patience)
	return err
}

// hear waits for the round's message and checks every byte. The own send is
// then complete as well: the peer has answered it.
func (s *side) hear(t *host.Thread, round, n int) error {
	message := s.Bytes()[s.room:][:n]
	if s.operation == opWrite {
		if err := s.Poll(t, s.room+n-1, content(round, n-1, n), patience); err != nil {
			return err
		}
	} else {
		d, err := s.VI.RecvWait(t, patience)
		if err != nil {
			return err
		}
		if d.Length() != n {
			return fmt.Errorf("round %d: %d bytes came, want %d", round, d.Length(), n)
		}
	}
	for i, b := range message {
		if want := content(round, i, n); b != want {
			return fmt.Errorf("round %d: byte %d of %d is %#02x, want %#02x", round, i, n, b, want)
		}
	}
	clear(message) // a stale last byte must not look like the next message
	s.heard++
	return s.settle(t)
}

// replenish posts the receive of the last message another time.
func (s *side) replenish(t *host.Thread) error {
	if s.heard == 0 {
		return nil
	}
	return s.expect(t, s.receives[(s.heard-1)%len(s.receives)])
}

func (g game) ping(t *host.Thread, h *driver.Host) error {
	s, err := g.open(t, h)
	if err != nil {
		return err
	}
	if err := s.Dial(t, vipl.At(1, "ping-pong"), patience); err != nil {
		return err
	}
	for _, n := range g.sizes {
		var began host.Time
		for round := range g.warmup + g.count {
			if round == g.warmup {
				began = t.Now()
			}
			if err := s.say(t, round, n); err != nil {
				return err
			}
			if err := s.replenish(t); err != nil {
				return err
			}
			if err := s.hear(t, round, n); err != nil {
				return err
			}
		}
		latency := float64(t.Now()-began) / float64(2*g.count) / float64(host.Microsecond)
		fmt.Fprintf(g.out, "%-9s %7d %11.3f %9.2f\n", g.operation, n, latency, float64(n)/latency)
	}
	return nil
}

func (g game) pong(t *host.Thread, h *driver.Host) error {
	s, err := g.open(t, h)
	if err != nil {
		return err
	}
	if err := s.Accept(t, "ping-pong", patience); err != nil {
		return err
	}
	for _, n := range g.sizes {
		for round := range g.warmup + g.count {
			if err := s.hear(t, round, n); err != nil {
				return err
			}
			if err := s.say(t, round, n); err != nil {
				return err
			}
			if err := s.replenish(t); err != nil {
				return err
			}
		}
	}
	return s.settle(t)
}

// run plays each operation on a separate fabric.
func run(ctx context.Context, out io.Writer, o options) error {
	costs, err := costs.HostCosts("")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Ping-pong over %s, simulated time, %d round trips after %d:\n", o.device, o.count, o.warmup)
	fmt.Fprintf(out, "%-9s %7s %11s %9s\n", "operation", "bytes", "latency us", "MB/s")
	for _, operation := range o.operations {
		g := game{options: o, operation: operation, out: out}
		if err := fabric.Run(ctx, fabric.RunConfig{Device: o.device, Costs: costs}, fabric.Program{Node: 0, Name: "ping", Main: g.ping}, fabric.Program{Node: 1, Name: "pong", Main: g.pong}); err != nil {
			return fmt.Errorf("%s: %w", operation, err)
		}
	}
	return nil
}

// parse reads the command line and prints errors to stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("pingpong", flag.ContinueOnError)
	f.SetOutput(stderr)
	device := f.String("device", string(driver.DeviceHvia), "what the hosts have: hvia, the card; or mvia, a plain NIC with VIA in the kernel")
	operations := f.String("op", opWrite+","+opSend, "operations, of write and send, with commas between")
	sizes := f.String("s", "4,64,1024,4096,65536", "message lengths in bytes, with commas between")
	f.IntVar(&o.count, "n", 4, "round trips that are measured, for each length")
	f.IntVar(&o.warmup, "warmup", 2, "round trips before them")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.device = driver.Device(*device)
	usage := func(format string, a ...any) (options, error) {
		err := fmt.Errorf("pingpong: "+format+"; 'pingpong -h' lists the flags", a...)
		fmt.Fprintln(stderr, err)
		return o, err
	}
	if f.NArg() > 0 {
		return usage("argument %q: there are only flags", f.Arg(0))
	}
	if o.device != driver.DeviceHvia && o.device != driver.DeviceMvia {
		return usage("-device %s: want %s or %s", o.device, driver.DeviceHvia, driver.DeviceMvia)
	}
	for name := range strings.SplitSeq(*operations, ",") {
		if name != opWrite && name != opSend {
			return usage("-op %s: %q is neither %s nor %s", *operations, name, opWrite, opSend)
		}
		o.operations = append(o.operations, name)
	}
	for word := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > driver.MaxTransferSize {
			return usage("-s %s: %q: want lengths of 1 to %d bytes", *sizes, word, driver.MaxTransferSize)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.count < 1 || o.warmup < 0 {
		return usage("-n %d -warmup %d: want at least 1 round trip, and 0 or more before it", o.count, o.warmup)
	}
	return o, nil
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
