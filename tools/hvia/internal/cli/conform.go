// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/conformance"
	"hvia/params"
)

func (a *app) conform() *cobra.Command {
	cfg := conformance.DefaultConfig()
	var json bool
	cmd := &cobra.Command{
		Use:   "conform [flags]",
		Short: "Check a device and its library against VIPL.",
		Long: `Calls the 41 functions of VIPL with every kind of argument and in every state,
and plays scenarios between two hosts. Prints a line for each function, and the
failures. A case is "not supported" only if an attribute of the NIC says so, and
if the NIC rejects it. Exit code 1 if a case fails.`,
		Example: `  hvia conform                           the card
  hvia conform --device mvia             M-VIA over a plain NIC
  hvia conform --run '^CreateVI/'        the cases of one function
  hvia conform --json | jq '.results[] | select(.verdict == "fail")'`,
		Args: noArgs,
	}
	m, o := newGroup("Measurement"), newGroup("Output")
	m.flags.StringVar(&cfg.Device, "device", cfg.Device, "`NAME`: a profile of the card, mvia, or without RTL fake-hvia, fake-mvia")
	m.flags.StringVar(&cfg.Run, "run", cfg.Run, "only the cases that a `REGEXP` matches, as FUNCTION/CASE or scenarios/NAME")
	m.flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of memory scatter")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the table")
	addGroups(cmd, m, o)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cfg.Validate(); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		// The suite counts its cases only when it ends.
		hook, done := new(func(rig.Progress)), 0
		cfg.Report = func(r conformance.Result) {
			if done++; *hook != nil {
				(*hook)(rig.Progress{What: r.Name(), Done: done})
			}
		}
		rep, err := run(a, cmd, json, hook, newConformance(cfg, &conformance.Report{Results: []conformance.Result{}}), func(ctx context.Context) (*conformReport, error) {
			r, err := a.Conform(ctx, cfg)
			return newConformance(cfg, r), err
		})
		return a.print(cmd, rep, json, rep.WriteText, a.Stdout, err)
	}
	return cmd
}

// conformReport is the report of the suite in an envelope.
type conformReport struct {
	report.Envelope
	Parameters struct {
		Device string `json:"device"`
		Seed   uint64 `json:"seed"`
		Run    string `json:"run,omitempty"`
	} `json:"parameters"`
	Cases               []conformance.Result `json:"results"`
	*conformance.Report `json:"-"`
}

func newConformance(c conformance.Config, r *conformance.Report) *conformReport {
	p := &conformReport{Cases: r.Results, Report: r}
	p.Schema = "hvia-conform/2"
	p.Parameters.Device, p.Parameters.Seed, p.Parameters.Run = c.Device, c.Seed, c.Run
	p.Environment, _ = rig.CheckoutHashes(params.Base)
	return p
}

func (r *conformReport) Measured() bool { return len(r.Cases) > 0 }

func (r *conformReport) Failed() error {
	if n := r.Report.Failed(); n > 0 {
		return fmt.Errorf("%d of %d cases fail on %s", n, len(r.Cases), r.Device)
	}
	return nil
}
