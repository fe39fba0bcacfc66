// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"hvia/bench/demo"
	"hvia/bench/report"
	"hvia/bench/rig"
)

func (a *app) demo() *cobra.Command {
	cfg := demo.DefaultConfig()
	var json bool
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Follow one RDMA write step by step, with simulated times.",
		Example: `  hvia demo                      64 bytes
  hvia demo -s 4096              a message of several frames
  hvia demo --pcap demo.pcapng   and keep the frames for Wireshark`,
		Args: noArgs,
	}
	m, o, s := newGroup("Message"), newGroup("Output"), newGroup("Simulator")
	m.flags.IntVarP(&cfg.Size, "size", "s", cfg.Size, "message length in `BYTES`")
	m.flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of memory scatter and payload")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the steps")
	o.flags.StringVar(&cfg.PcapFile, "pcap", "", "write the frames on the wire to `FILE` (pcapng)")
	o.flags.StringVar(&cfg.WaveFile, "wave", "", "write the signals of the cards to `FILE` (FST)")
	s.flags.StringVar(&cfg.Profile, "profile", cfg.Profile, "the `CARD` and its surroundings")
	wireFaults(s.flags, &cfg.Faults)
	checks(s.flags, &cfg.Checks)
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cfg.Validate(); err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		var silent func(rig.Progress)
		rep, err := run(a, cmd, json, &silent, demo.NewReport(cfg, report.Hashes{}), func(ctx context.Context) (*demo.Report, error) {
			return a.Demo(ctx, cfg)
		})
		return a.print(cmd, rep, json, rep.WriteText, a.Stdout, err)
	}
	return cmd
}
