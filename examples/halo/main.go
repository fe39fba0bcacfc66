// SPDX-License-Identifier: Apache-2.0

// Command halo computes the spread of heat over a square plate, a quarter of it
// on each of four simulated hosts. Before each step, each host writes its
// border line of points into the memory of its two neighbours, with RDMA writes
// whose immediate data is the step. The connections advertised that memory. The
// result is compared with a serial computation, bit by bit.
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
	nodes    = 4
	patience = host.Second
)

type options struct {
	device driver.Device
	points int // on a side of the square
	steps  int
	spoil  func(rank, step int, halo []byte) // for a test: changes a halo before it is sent
}

type job struct {
	options
	nodes []*node
}

func newJob(o options) (*job, []fabric.Program) {
	j := &job{options: o}
	var programs []fabric.Program
	for rank := range nodes {
		n := newNode(j, rank)
		j.nodes = append(j.nodes, n)
		programs = append(programs, fabric.Program{Node: rank, Name: fmt.Sprintf("quarter %d", rank), Main: n.main})
	}
	return j, programs
}

func (j *job) check() error {
	whole := serial(j.points, j.steps)
	for _, n := range j.nodes {
		if err := whole.compare(n.block, n.row, n.column); err != nil {
			return fmt.Errorf("node %d: %w", n.rank, err)
		}
	}
	return nil
}

func (j *job) report(out io.Writer) {
	first, last := j.nodes[0].began, j.nodes[0].ended
	for _, n := range j.nodes {
		first, last = min(first, n.began), max(last, n.ended)
	}
	upper := j.nodes[0].block
	fmt.Fprintf(out, "Heat on %d x %d points, %d nodes, %d steps over %s:\n", j.points, j.points, nodes, j.steps, j.device)
	fmt.Fprintf(out, "%d halos of %d bytes, %.2f us of simulated time a step\n", 2*nodes*j.steps, j.bytes(), float64(last-first)/float64(j.steps)/float64(host.Microsecond))
	fmt.Fprintf(out, "temperature in the middle %.9f, equal to the serial computation bit by bit\n", upper.now[upper.at(upper.n, upper.n)])
}

func run(ctx context.Context, out io.Writer, o options) error {
	costs, err := costs.HostCosts("")
	if err != nil {
		return err
	}
	j, programs := newJob(o)
	if err := fabric.Run(ctx, fabric.RunConfig{Device: o.device, Costs: costs}, programs...); err != nil {
		return err
	}
	if err := j.check(); err != nil {
		return err
	}
	j.report(out)
	return nil
}

// parse reads the command line and prints errors to stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("halo", flag.ContinueOnError)
	f.SetOutput(stderr)
	device := f.String("device", string(driver.DeviceHvia), "what the hosts have: hvia, the card; or mvia, a plain NIC with VIA in the kernel")
	f.IntVar(&o.points, "points", 64, "points on a side of the square, an even number")
	f.IntVar(&o.steps, "steps", 100, "steps of time")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.device = driver.Device(*device)
	usage := func(format string, a ...any) (options, error) {
		err := fmt.Errorf("halo: "+format+"; 'halo -h' lists the flags", a...)
		fmt.Fprintln(stderr, err)
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return usage("argument %q: there are only flags", f.Arg(0))
	case o.device != driver.DeviceHvia && o.device != driver.DeviceMvia:
		return usage("-device %s: want %s or %s", o.device, driver.DeviceHvia, driver.DeviceMvia)
	case o.points < 2 || o.points%2 != 0 || o.bytes() > driver.MaxTransferSize:
		return usage("-points %d: give an even number from 2 to %d", o.points, driver.MaxTransferSize/4)
	case o.steps < 1:
		return usage("-steps %d: want at least 1", o.steps)
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
