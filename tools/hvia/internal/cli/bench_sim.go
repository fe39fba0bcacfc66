// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"hvia/bench/report"
	"hvia/bench/simspeed"
)

func (a *app) benchSim() *cobra.Command {
	cfg := simspeed.DefaultConfig()
	var json bool
	cmd := &cobra.Command{
		Use:   "bench-sim [flags]",
		Short: "Measure how fast the simulator runs on this machine.",
		Long: `Wall time and the simulator's processor time of a 64 KiB RDMA write in a
stream, of a round trip of 4 bytes and of a simulated second in which all is
idle, each without the boot of the cards, and on request of a cold build. The
simulators take turns, so that the machine's load at a time meets all of them.`,
		Example: `  hvia bench-sim
  hvia bench-sim --checkers           the simulator with the assertions of the RTL too
  hvia bench-sim --build --runs 2     cold builds too: half a minute each
  hvia bench-sim --program $(cd ../old && bin/hvia build)
                                      the simulator of another checkout too`,
		Args: noArgs,
	}
	m, o, s := newGroup("Measurement"), newGroup("Output"), newGroup("Simulator")
	m.flags.IntVarP(&cfg.Runs, "runs", "n", cfg.Runs, "runs of each workload with each simulator")
	m.flags.IntVar(&cfg.Cards, "cards", cfg.Cards, "cards of a fabric; they work in pairs, more than two behind a switch")
	m.flags.BoolVar(&cfg.Build, "build", false, "measure cold builds too, in an empty cache")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the table")
	s.flags.StringVar(&cfg.Profile, "profile", cfg.Profile, "the `CARD` and its surroundings")
	s.flags.BoolVar(&cfg.Checkers, "checkers", false, "also the simulator with the assertions of the RTL")
	s.flags.StringArrayVar(&cfg.Programs, "program", nil, "also the simulator `FILE`, which has the same layouts and parameters")
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cfg.Validate(); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		rep, err := run(a, cmd, json, &cfg.Progress, simspeed.NewReport(cfg, report.Hashes{}), func(ctx context.Context) (*simspeed.Report, error) {
			return a.BenchSim(ctx, cfg)
		})
		return a.print(cmd, rep, json, rep.WriteText, a.Stdout, err)
	}
	return cmd
}
