// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hvia/bench/digests"
)

func (a *app) digests() *cobra.Command {
	cfg := digests.DefaultConfig()
	all := len(cfg.Profiles)
	var json, update, times bool
	cmd := &cobra.Command{
		Use:   "digests [flags]",
		Short: "Compare simulated times with those recorded in the checkout.",
		Long: `Runs reproduce, compare and the fault matrix in each profile and prints two
digests of each run: of every frame with its time, and of every wake of a host
with the message or reply that it brought. These and all printed times must be
those of ` + digests.File + `. A value that differs is shown, and the
exit code is 1. CONTRIBUTING.md says which commits may change which values.`,
		Example: `  hvia digests             everything, some minutes
  hvia digests --short     the runs that take seconds
  hvia digests --update    record the new values
  hvia digests --times     latency and bandwidth of each profile, from the record`,
		Args: noArgs,
	}
	m, o, s := newGroup("Measurement"), newGroup("Output"), newGroup("Simulator")
	m.flags.StringSliceVar(&cfg.Profiles, "profiles", cfg.Profiles, "cards and their surroundings, `NAME,...`")
	m.flags.BoolVar(&cfg.Short, "short", false, "only the runs that take seconds")
	m.flags.IntVarP(&cfg.Jobs, "jobs", "j", cfg.Jobs, "simulations at the same time")
	o.flags.BoolVar(&update, "update", false, "write "+digests.File+" instead of comparing with it")
	o.flags.BoolVar(&times, "times", false, "run nothing: the recorded latencies and bandwidths as tables in Markdown")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the list")
	checks(s.flags, &cfg.Checks)
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := cfg.Validate()
		if err == nil && update && times {
			err = errors.New("--times shows the record, --update makes it: give one of them")
		}
		if complete := !cfg.Short && len(cfg.Profiles) == all; err == nil && update && !complete {
			err = errors.New("--update needs all runs: leave --short and --profiles out")
		}
		if err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		if err := needCheckout(); err != nil {
			return err
		}
		was := &digests.Table{}
		if !update {
			if was, err = a.ReadDigests(); err != nil {
				return err
			}
		}
		if times {
			return was.WriteTimes(a.Stdout)
		}
		p := a.newProgress(json)
		cfg.Progress = p.hook()
		is, err := a.Digests(cmd.Context(), cfg)
		p.done()
		if err != nil {
			return err
		}
		write := is.WriteText
		if json {
			write = is.WriteJSON
		}
		if err := write(a.Stdout); err != nil {
			return fmt.Errorf("digests: print the digests: %w", err)
		}
		if update {
			path, err := is.Save()
			if err == nil && !json {
				fmt.Fprintf(a.Stdout, "\nwritten: %s\n", path)
			}
			return err
		}
		return a.judgeDigests(is, is.Differences(was, !cfg.Short && len(cfg.Profiles) == all), json)
	}
	return cmd
}

// judgeDigests turns a comparison into success or failure.
func (a *app) judgeDigests(is *digests.Table, list []digests.Difference, json bool) error {
	if len(list) == 0 {
		if !json {
			fmt.Fprintf(a.Stdout, "\n%d runs: frames, wakes and printed times equal those of %s\n", len(is.Runs), digests.File)
		}
		return nil
	}
	to := a.Stdout
	if json {
		to = a.Stderr
	} else {
		fmt.Fprintf(to, "\nNot as in %s:\n", digests.File)
	}
	if err := digests.WriteDifferences(to, list); err != nil {
		return fmt.Errorf("digests: print the differences: %w", err)
	}
	what := "frames or printed times moved: no commit may do that unless it says by how much and why"
	if digests.OnlyWakes(list) {
		what = "wakes changed: that is for commits that change the agent's messages and say so"
	}
	return fmt.Errorf("digests: %d values are not those of %s: %s; 'make digests ARGS=--update' records the new values", len(list), digests.File, what)
}
