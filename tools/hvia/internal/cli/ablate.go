// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"hvia/bench/report"
	"hvia/bench/reproduce"
)

func (a *app) ablate() *cobra.Command {
	cfg := reproduce.DefaultAblateConfig()
	var json bool
	var out string
	cmd := &cobra.Command{
		Use:   "ablate [flags]",
		Short: "Measure the card with parts of its design taken away.",
		Long: `Latency, bandwidth and the gap between send and receive and RDMA write of
every variant, beside those of the card as it is and, where the model of the
paper's card foresaw something, beside that.`,
		Example: `  hvia ablate
  hvia ablate --json | jq .ablations`,
		Args: noArgs,
	}
	m, o, s := newGroup("Measurement"), newGroup("Output"), newGroup("Simulator")
	m.flags.IntVarP(&cfg.Iterations, "iterations", "n", cfg.Iterations, "counted round trips per size")
	m.flags.IntVarP(&cfg.Warmup, "warmup", "x", cfg.Warmup, "round trips before them")
	m.flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of memory scatter and payload")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the table")
	o.flags.StringVarP(&out, "output", "o", filepath.Join("out", "ablate"), "write ablate.json into `DIR`; empty for nowhere")
	s.flags.StringVar(&cfg.Profile, "profile", cfg.Profile, "the `CARD` and its surroundings")
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cfg.Validate(); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		p := a.newProgress(json)
		cfg.Progress = p.hook()
		var rep *report.AblationReport
		err := needCheckout()
		if err == nil {
			rep, err = a.Ablate(cmd.Context(), cfg)
		}
		p.done()
		if rep == nil {
			rep = &report.AblationReport{Schema: report.AblateSchema, Profile: cfg.Profile, Seed: cfg.Seed, Ablations: &report.Ablations{}}
		}
		if faults := rep.Ablations.Faults(); err == nil && len(faults) > 0 {
			err = fmt.Errorf("ablate: wrong bytes arrived (seed %d), the first with %s", rep.Seed, faults[0])
		}
		if err != nil {
			rep.Error = &report.Failure{Message: err.Error()}
		}
		return errors.Join(err, a.publishAblations(rep, json, out))
	}
	return cmd
}

// publishAblations writes the report to stdout and to the directory, also the
// partial results of a failed run; without a result there is no table.
func (a *app) publishAblations(rep *report.AblationReport, json bool, dir string) error {
	measured := len(rep.Ablations.Variants) > 0
	if !json && !measured {
		return nil
	}
	write := rep.WriteText
	if json {
		write = func(w io.Writer) error { return report.WriteJSON(w, rep) }
	}
	if err := write(a.Stdout); err != nil {
		return fmt.Errorf("ablate: print the report: %w", err)
	}
	if dir == "" || !measured {
		return nil
	}
	path, err := rep.Save(dir)
	if err != nil {
		return fmt.Errorf("ablate: %w", err)
	}
	if !json {
		fmt.Fprintf(a.Stdout, "report: %s\n", path)
	}
	return nil
}
