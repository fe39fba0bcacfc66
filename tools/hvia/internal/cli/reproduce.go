// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hvia/bench/report"
	"hvia/bench/reproduce"
)

func (a *app) reproduce() *cobra.Command {
	cfg := reproduce.DefaultConfig()
	var json, full, strict, noBackground bool
	var out string
	var replaced []string
	cmd := &cobra.Command{
		Use:   "reproduce [flags]",
		Short: "Make the paper's measurements between two simulated hosts.",
		Long: `A ping-pong at every size, by RDMA writes and by sends and receives; what a
receive costs its host; where the time of a short message goes; and the paper's
figures beside all that. Every time is simulated and repeats to the bit; wall
time stands in separate columns. Every byte of every message is checked. What
is printed is a summary. All of the report is written to the directory that
--output names: report.json, report.txt, the page report.html and its figures.`,
		Example: `  hvia reproduce                          all sizes, summary on stdout
  hvia reproduce -s 4,1024 -n 10          two sizes, ten counted rounds each
  hvia reproduce --json | jq .results     the same as one JSON object`,
		Args: noArgs,
	}
	m, o, s := newGroup("Measurement"), newGroup("Output"), newGroup("Simulator")
	m.flags.IntSliceVarP(&cfg.Sizes, "sizes", "s", cfg.Sizes, "message lengths, `BYTES,...`")
	m.flags.IntVarP(&cfg.Iterations, "iterations", "n", cfg.Iterations, "counted round trips per size")
	m.flags.IntVarP(&cfg.Warmup, "warmup", "x", cfg.Warmup, "round trips before them")
	m.flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of memory scatter, payload and background traffic")
	m.flags.BoolVar(&noBackground, "no-background", false, "no cross traffic on a second VI")
	m.flags.BoolVar(&cfg.Ablate, "ablate", false, "also measure the card with parts of its design switched off (see hvia ablate)")
	m.flags.BoolVar(&strict, "strict", false, "exit 1 if a target is missed")
	o.flags.BoolVar(&full, "full", false, "every table on stdout instead of the summary")
	o.flags.BoolVar(&json, "json", false, "one JSON object on stdout instead of the summary")
	o.flags.StringVarP(&out, "output", "o", filepath.Join("out", "reproduce"), "write report.json, .txt, .html and figures into `DIR`; empty for nowhere")
	o.flags.StringVar(&cfg.PcapFile, "pcap", "", "write the frames on the wire to `FILE` (pcapng)")
	o.flags.StringVar(&cfg.WaveFile, "wave", "", "write the signals of the cards to `FILE` (FST); slow")
	s.flags.StringVar(&cfg.Profile, "profile", cfg.Profile, "the `CARD` and its surroundings")
	wireFaults(s.flags, &cfg.Faults)
	checks(s.flags, &cfg.Checks)
	s.flags.StringArrayVar(&replaced, "param", nil, "replace a parameter of the models or the host, `NAME=VALUE`")
	s.flags.IntVar(&cfg.Processes, "processes", cfg.Processes, "1: both hosts in one process; 2: one process each")
	s.flags.IntVarP(&cfg.Jobs, "jobs", "j", cfg.Jobs, "simulations at the same time (same results)")
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg.Background = !noBackground
		var err error
		if cfg.Params, err = parameters(replaced); err == nil {
			err = cfg.Validate()
		}
		if err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		rep, err := run(a, cmd, json, &cfg.Progress, report.New(cfg.Profile, cfg.Seed, report.Hashes{}), func(ctx context.Context) (*report.Report, error) {
			return a.Reproduce(ctx, cfg)
		})
		if err == nil && strict && len(rep.Misses) > 0 {
			err = fmt.Errorf("reproduce: %d targets missed, the first: %s", len(rep.Misses), rep.Misses[0])
			rep.Complete(rep.Version, rep.Argv, err)
		}
		write := rep.WriteSummary
		if full {
			write = rep.WriteText
		}
		err = a.publish(cmd, rep, json, write, out, err)
		if out != "" && rep.Measured() {
			err = errors.Join(err, a.draw(cmd, rep, out, json))
		}
		return err
	}
	return cmd
}

// parameters reads NAME=VALUE words; none give nil.
func parameters(words []string) (map[string]int64, error) {
	var m map[string]int64
	for _, w := range words {
		name, text, found := strings.Cut(w, "=")
		value, err := strconv.ParseInt(text, 10, 64)
		switch _, twice := m[name]; {
		case !found || err != nil:
			return nil, fmt.Errorf("invalid argument %q for \"--param\": NAME=VALUE with a whole number is possible", w)
		case twice:
			return nil, fmt.Errorf("invalid argument %q for \"--param\": %s is replaced twice", w, name)
		}
		if m == nil {
			m = map[string]int64{}
		}
		m[name] = value
	}
	return m, nil
}
