// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"hvia/driver"
	"hvia/fabric"
	"hvia/params"
	"hvia/sim"
)

// Config selects the device and the cases of a run.
type Config struct {
	Device string // a profile of the card, "mvia", or either without RTL
	Run    string // a regular expression; "" = everything
	Seed   uint64
	Report func(Result) // called for each case; may be nil
}

// DefaultConfig runs everything on the paper's card.
func DefaultConfig() Config { return Config{Device: params.Base, Seed: 1} }

// target returns the device and the filter, or what is wrong with the config.
func (c Config) target() (Target, func(string) bool, error) {
	filter, err := regexp.Compile(c.Run)
	if err != nil {
		return Target{}, nil, fmt.Errorf("--run '%s': %w", c.Run, err)
	}
	switch c.Device {
	case "fake-hvia", "fake-mvia":
		return fakeTarget(driver.Device(strings.TrimPrefix(c.Device, "fake-"))), filter.MatchString, nil
	case "mvia":
		return Simulated(c.Device, fabric.RunConfig{Device: driver.DeviceMvia, Seed: c.Seed}), filter.MatchString, nil
	}
	if _, err := params.ForProfile(c.Device); err != nil {
		return Target{}, nil, fmt.Errorf("--device '%s': give a profile of the card (%s), mvia, fake-hvia or fake-mvia", c.Device, params.Base)
	}
	return Simulated(c.Device, fabric.RunConfig{Device: driver.DeviceHvia, Seed: c.Seed, Fabric: sim.Config{Profile: c.Device}}), filter.MatchString, nil
}

// Validate returns the fault of a config.
func (c Config) Validate() error {
	_, _, err := c.target()
	return err
}

// Report is the result of a run.
type Report struct {
	Device  string
	Seed    uint64
	Results []Result
	Error   string // why the run did not finish
}

// Conform runs the suite. If it fails, the report holds the results so far.
func Conform(ctx context.Context, c Config) (*Report, error) {
	r := &Report{Device: c.Device, Seed: c.Seed, Results: []Result{}}
	target, filter, err := c.target()
	if err == nil {
		err = Run(ctx, target, filter, func(result Result) {
			r.Results = append(r.Results, result)
			if c.Report != nil {
				c.Report(result)
			}
		})
	}
	if err == nil && len(r.Results) == 0 {
		err = fmt.Errorf("conform: --run '%s' matches no case", c.Run)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r, err
}

// Failed is the number of failures.
func (r *Report) Failed() int { return r.count(Fail, "") }

// count counts the results of a function with a verdict; an empty argument
// matches all.
func (r *Report) count(v Verdict, function string) (n int) {
	for _, x := range r.Results {
		if (v == "" || x.Verdict == v) && (function == "" || x.Function == function) {
			n++
		}
	}
	return n
}

// WriteText writes a line for each function, then the failures.
func (r *Report) WriteText(w io.Writer) error {
	var functions []string
	width := len(r.Device)
	for _, x := range r.Results {
		if !slices.Contains(functions, x.Function) {
			functions = append(functions, x.Function)
			width = max(width, len(x.Function))
		}
	}
	fmt.Fprintf(w, "%-*s  cases  pass  fail  not supported\n", width, r.Device)
	line := func(name, function string) {
		fmt.Fprintf(w, "%-*s  %5d  %4d  %4d  %13d\n", width, name, r.count("", function), r.count(Pass, function), r.count(Fail, function), r.count(NotSupported, function))
	}
	for _, f := range functions {
		line(f, f)
	}
	line("all", "")
	for _, x := range r.Results {
		switch x.Verdict {
		case Fail:
			fmt.Fprintf(w, "\nfail: %s\n  %s\n  again: hvia conform --device %s --seed %d --run '^%s$'\n",
				x.Name(), strings.ReplaceAll(x.Reason, "\n", "\n  "), r.Device, r.Seed, regexp.QuoteMeta(x.Name()))
		case NotSupported:
			fmt.Fprintf(w, "not supported: %s (%s)\n", x.Name(), x.Reason)
		}
	}
	if r.Error != "" {
		fmt.Fprintf(w, "not complete: %s\n", r.Error)
	}
	return nil
}
