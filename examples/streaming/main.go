// SPDX-License-Identifier: Apache-2.0

// Command streaming runs a video server and its clients on separate simulated
// hosts, with a switch between them. The server sends a frame to every client
// at a fixed rate. A client plays a frame at each tick of its clock, and misses
// its deadline if the frame has not arrived. The program sends the same film by
// RDMA writes into the clients' ring buffers, by send and receive, by M-VIA and
// by TCP/IP, and compares the load of the clients' processors. It charges
// processor time as the experiments do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"hvia/driver"
	"hvia/host"
)

// Largest values of flags.
const (
	maxClients = 15 // with the server, the nodes of a fabric
	maxRate    = 100_000
	maxFrames  = 1_000_000
	maxRing    = 256
	wireRate   = 125e6 // bytes a second
)

// parse reads the command line and prints errors to stderr.
func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("streaming", flag.ContinueOnError)
	f.SetOutput(stderr)
	var names []string
	for _, p := range protocols {
		names = append(names, p.name)
	}
	chosen := f.String("protocols", "rdma,send,mvia,tcp", "protocols, with commas between, of "+strings.Join(names, ", "))
	seconds := f.Float64("seconds", 0.2, "length of the film")
	f.IntVar(&c.clients, "clients", 2, fmt.Sprintf("clients, 1 to %d", maxClients))
	f.IntVar(&c.rate, "rate", 30, "frames a second, to each client")
	f.IntVar(&c.bytes, "bytes", 32768, fmt.Sprintf("length of a frame, a multiple of 4, 8 to %d", driver.MaxTransferSize))
	f.IntVar(&c.ring, "ring", 8, fmt.Sprintf("capacity of a client's ring buffer in frames, 2 to %d", maxRing))
	f.IntVar(&c.ahead, "ahead", 1, "ticks from a frame's sending to its being played, less than the ring's frames")
	f.Var(&c.faults, "faults", "what the wire does to frames, for example drop=1%: see docs/how-to/make-the-wire-fail.md")
	f.Uint64Var(&c.seed, "seed", 1, "of memory's scatter and of faults")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	for name := range strings.SplitSeq(*chosen, ",") {
		k := slices.Index(names, name)
		if k < 0 {
			return usage(stderr, "-protocols %s: no protocol %q: there is %s", *chosen, name, strings.Join(names, ", "))
		}
		c.protocols = append(c.protocols, protocols[k])
	}
	frames := math.Round(*seconds * float64(c.rate))
	switch {
	case f.NArg() > 0:
		return usage(stderr, "argument %q: there are only flags", f.Arg(0))
	case c.clients < 1 || c.clients > maxClients:
		return usage(stderr, "-clients %d: 1 to %d are possible", c.clients, maxClients)
	case c.rate < 1 || c.rate > maxRate:
		return usage(stderr, "-rate %d: 1 to %d frames a second are possible", c.rate, maxRate)
	case c.bytes < 2*numberBytes || c.bytes > driver.MaxTransferSize || c.bytes%numberBytes != 0:
		return usage(stderr, "-bytes %d: give a multiple of %d, %d to %d", c.bytes, numberBytes, 2*numberBytes, driver.MaxTransferSize)
	case c.ring < 2 || c.ring > maxRing:
		return usage(stderr, "-ring %d: 2 to %d frames are possible", c.ring, maxRing)
	case c.ahead < 1 || c.ahead >= c.ring:
		return usage(stderr, "-ahead %d: a frame is played 1 to %d ticks after it was sent, as the ring has %d frames", c.ahead, c.ring-1, c.ring)
	case !(frames >= 1 && frames <= maxFrames):
		return usage(stderr, "-seconds %g at %d frames a second: want 1 to %d frames", *seconds, c.rate, maxFrames)
	case c.seed == 0:
		return usage(stderr, "-seed 0: want 1 or more")
	}
	if err := c.faults.Check(1+c.clients, true); err != nil {
		return usage(stderr, "-faults: %w", err)
	}
	c.frames = int(frames)
	return c, nil
}

func usage(stderr io.Writer, format string, a ...any) (config, error) {
	err := fmt.Errorf("streaming: "+format+"; 'streaming -h' lists the flags", a...)
	fmt.Fprintln(stderr, err)
	return config{}, err
}

// write prints a line for each protocol.
func write(out io.Writer, c config, shows []*show) error {
	load := float64(c.clients*c.rate*c.bytes) / 1e6
	fmt.Fprintf(out, "%d frames of %d bytes to each of %d clients, %d a second: %.2f MB/s, %.1f %% of the server's wire\n", c.frames, c.bytes, c.clients, c.rate, load, 100*load*1e6/wireRate)
	if text := c.faults.String(); text != "" {
		fmt.Fprintf(out, "faults of the wire: %s\n", text)
	}
	fmt.Fprint(out, "Processors in % of the film's time, clients' in the mean; polling is empty polls.\n\n")
	fmt.Fprintf(out, "%26s%28s%20s%20s\n", "missed", "late by, us", "client, %", "server, %")
	fmt.Fprintf(out, "%-8s%6s%6s%6s%6s%10s%10s%10s%10s%10s%10s%10s\n", "", "sent", "all", "late", "lost", "p50", "p90", "max", "work", "polling", "work", "polling")
	for _, s := range shows {
		v := s.total()
		late := [3]string{"-", "-", "-"}
		for i, p := range []int{50, 90, 100} {
			if len(v.late) > 0 {
				late[i] = fmt.Sprintf("%.1f", float64(percentile(v.late, p))/float64(host.Microsecond))
			}
		}
		if _, err := fmt.Fprintf(out, "%-8s%6d%6d%6d%6d%10s%10s%10s%10.3f%10.3f%10.3f%10.3f\n", s.name, c.frames*c.clients, len(v.late)+v.lost, len(v.late), v.lost,
			late[0], late[1], late[2], v.work(), v.polling(), s.server.work(), s.server.polling()); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	c, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	shows, err := run(context.Background(), c)
	if failed := write(os.Stdout, c, shows); err == nil {
		err = failed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
