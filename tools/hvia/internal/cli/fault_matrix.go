// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"hvia/bench/faults"
	"hvia/bench/report"
)

func (a *app) faults() *cobra.Command {
	cfg := faults.DefaultConfig()
	var json, matrix bool
	cmd := &cobra.Command{
		Use:   "faults --matrix [flags]",
		Short: "See what each fault of the wire does to each operation.",
		Long: `Three messages of three frames each, the second of which meets a fault of the
wire: every kind of fault at every reliability level with every operation, each
cell on a separate fabric. It prints what both programs saw, and whether it is
what the card promises (docs/explanation/transport.md). For a run with
chosen faults, see 'hvia compare --faults SPEC' (docs/how-to/make-the-wire-fail.md).`,
		Example: `  hvia faults --matrix
  hvia faults --matrix --json | jq '.results[] | select(.ok | not)'
  hvia faults --matrix --kinds drop,cut --levels reliable-delivery`,
		Args: noArgs,
	}
	m, o, s := newGroup("Matrix"), newGroup("Output"), newGroup("Simulator")
	m.flags.BoolVar(&matrix, "matrix", false, "try the cells of the matrix")
	m.flags.StringSliceVar(&cfg.Kinds, "kinds", cfg.Kinds, "`FAULTS` to try")
	m.flags.StringSliceVar(&cfg.Levels, "levels", cfg.Levels, "reliability `LEVELS` to try")
	m.flags.StringSliceVar(&cfg.Operations, "operations", cfg.Operations, "`OPERATIONS` to try")
	m.flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of memory scatter, payload and faults")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the table")
	s.flags.StringVar(&cfg.Profile, "profile", cfg.Profile, "the `CARD` and its surroundings")
	checks(s.flags, &cfg.Checks)
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !matrix {
			return &usageError{cmd.CommandPath(), errors.New("say what to do: --matrix")}
		}
		if err := cfg.Validate(); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		tried, err := run(a, cmd, json, &cfg.Progress, faults.NewMatrix(cfg, report.Hashes{}), func(ctx context.Context) (*faults.Matrix, error) {
			return a.FaultMatrix(ctx, cfg)
		})
		return a.print(cmd, tried, json, tried.WriteText, a.Stdout, err)
	}
	return cmd
}
