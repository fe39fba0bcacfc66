// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
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
		Short: "Measure the card with parts of its design switched off.",
		Long: `Latency, bandwidth and the gap between send and receive and RDMA write of
every variant, beside those of the card as it is and, where the model of the
paper's card foresaw something, beside that.`,
		Example: `  hvia ablate
  hvia ablate --json | jq .results.ablations`,
		Args: noArgs,
	}
	m, o, s := newGroup("Measurement"), newGroup("Output"), newGroup("Simulator")
	m.flags.IntVarP(&cfg.Iterations, "iterations", "n", cfg.Iterations, "counted round trips per size")
	m.flags.IntVarP(&cfg.Warmup, "warmup", "x", cfg.Warmup, "round trips before them")
	m.flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of memory scatter and payload")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the table")
	o.flags.StringVarP(&out, "output", "o", filepath.Join("out", "ablate"), "write report.json and .txt into `DIR`; empty for nowhere")
	s.flags.StringVar(&cfg.Profile, "profile", cfg.Profile, "the `CARD` and its surroundings")
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cfg.Validate(); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		rep, err := run(a, cmd, json, &cfg.Progress, report.New(cfg.Profile, cfg.Seed, report.Hashes{}), func(ctx context.Context) (*report.Report, error) {
			return a.Ablate(ctx, cfg)
		})
		return a.publish(cmd, rep, json, rep.WriteText, out, err)
	}
	return cmd
}
