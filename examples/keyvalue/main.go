// SPDX-License-Identifier: Apache-2.0

// Command keyvalue is a key-value store on a simulated fabric. The server, node
// 0, advertises its table of buckets with each connection. Clients on other
// nodes find a key by RDMA reads, without the server's processor, and put a
// value by a message. A checksum in each bucket lets readers detect a store in
// progress. Where the NIC has no RDMA read (M-VIA), gets are messages as well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
)

const (
	patience   = host.Second
	port       = "key-value"
	serverNode = 0
)

type options struct {
	device   driver.Device
	clients  int
	buckets  int
	keys     int       // per client
	rounds   int       // how often the first client replaces the value that the others read
	pause    host.Time // in the middle of a store
	trusting bool      // clients ignore checksums, for a test
}

// store is one run of the programs.
type store struct {
	options
	server  server
	readers []*client
}

func newStore(o options) (*store, []fabric.Program) {
	s := &store{options: o}
	s.server.store = s
	programs := []fabric.Program{{Node: serverNode, Name: "server", Main: s.server.main}}
	for i := range o.clients {
		c := &client{store: s, number: i + 1, newest: map[string]uint64{}}
		s.readers = append(s.readers, c)
		programs = append(programs, fabric.Program{Node: c.number, Name: fmt.Sprintf("client %d", c.number), Main: c.main})
	}
	return s, programs
}

func run(ctx context.Context, out io.Writer, o options) error {
	costs, err := costs.HostCosts("")
	if err != nil {
		return err
	}
	s, programs := newStore(o)
	if err := fabric.Run(ctx, fabric.RunConfig{Device: o.device, Costs: costs}, programs...); err != nil {
		return err
	}
	s.report(out)
	return nil
}

// report prints counts and times.
func (s *store) report(out io.Writer) {
	mean := func(all host.Time, n int) float64 {
		return float64(all) / float64(max(n, 1)) / float64(host.Microsecond)
	}
	fmt.Fprintf(out, "Key-value store over %s, simulated time, %d buckets, %d clients:\n", s.device, s.buckets, s.clients)
	for _, c := range s.readers {
		fmt.Fprintf(out, "client %d: %d puts of %.1f us; %d gets of %.1f us", c.number, c.puts, mean(c.putTime, c.puts), c.gets, mean(c.getTime, c.gets))
		if c.read != nil {
			fmt.Fprintf(out, " by %d reads, %d of them during a store", c.reads, c.repeated)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "server: %d puts stored, %d gets answered\n", s.server.puts, s.server.gets)
}

// parse reads the command line and prints errors to stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	o := options{}
	f := flag.NewFlagSet("keyvalue", flag.ContinueOnError)
	f.SetOutput(stderr)
	device := f.String("device", string(driver.DeviceHvia), "what the hosts have: hvia, the card; or mvia, a plain NIC with VIA in the kernel")
	f.IntVar(&o.clients, "clients", 2, "clients, each on a separate node")
	f.IntVar(&o.buckets, "buckets", 64, "buckets of the table, of one key each")
	f.IntVar(&o.keys, "keys", 8, "keys that each client puts")
	f.IntVar(&o.rounds, "rounds", 20, "how often the first client replaces a value that all others look at")
	pause := f.Int("pause", 20, "microseconds that a store takes in its middle")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.device, o.pause = driver.Device(*device), host.Time(*pause)*host.Microsecond
	usage := func(format string, a ...any) (options, error) {
		err := fmt.Errorf("keyvalue: "+format+"; 'keyvalue -h' lists the flags", a...)
		fmt.Fprintln(stderr, err)
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return usage("argument %q: there are only flags", f.Arg(0))
	case o.device != driver.DeviceHvia && o.device != driver.DeviceMvia:
		return usage("-device %s: want %s or %s", o.device, driver.DeviceHvia, driver.DeviceMvia)
	case o.clients < 2 || o.clients > 15:
		return usage("-clients %d: want 2 to 15, a fabric has 16 nodes", o.clients)
	case o.keys < 1 || o.rounds < 1 || *pause < 0:
		return usage("-keys %d -rounds %d -pause %d: want at least 1 key and 1 round, and no time below 0", o.keys, o.rounds, *pause)
	case o.buckets <= o.clients*o.keys+1 || o.buckets > 4096:
		return usage("-buckets %d: want more than the %d keys, so that a search ends, and at most 4096", o.buckets, o.clients*o.keys+1)
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
