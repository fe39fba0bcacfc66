// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hvia/bench/rig"
	"hvia/conformance"
)

func (a *app) conform() *cobra.Command {
	cfg := conformance.DefaultConfig()
	var json bool
	cmd := &cobra.Command{
		Use:   "conform [flags]",
		Short: "Hold a device and its library to VIPL.",
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
		if err := needCheckout(); err != nil {
			return err
		}
		p, done := a.newProgress(json), 0
		if show := p.hook(); show != nil {
			cfg.Report = func(r conformance.Result) {
				done++
				show(rig.Progress{What: r.Name(), Done: done})
			}
		}
		rep, err := a.Conform(cmd.Context(), cfg)
		p.done()
		if n := rep.Failed(); err == nil && n > 0 {
			err = fmt.Errorf("conform: %d of %d cases fail on %s", n, len(rep.Results), rep.Device)
		}
		write := rep.WriteText
		if json {
			write = rep.WriteJSON
		} else if len(rep.Results) == 0 {
			return err
		}
		if e := write(a.Stdout); e != nil {
			return errors.Join(err, fmt.Errorf("conform: print the report: %w", e))
		}
		return err
	}
	return cmd
}
