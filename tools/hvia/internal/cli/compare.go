// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hvia/bench/compare"
	"hvia/bench/report"
	"hvia/bench/rig"
)

var compareFormats = map[string]func(*compare.Report, io.Writer) error{
	"text": (*compare.Report).WriteText, "json": nil, "bench": (*compare.Report).WriteBench,
}

func (a *app) compare() *cobra.Command {
	all := compare.DefaultConfig(compare.PatternPingPong)
	var asked compare.Config
	var mix, format, out string
	var replaced []string
	cmd := &cobra.Command{
		Use:   "compare [flags] [PATTERN]",
		Short: "Run one pattern of traffic over the card, M-VIA and TCP/IP.",
		Long: `Patterns, and what is measured without further flags:
` + comparePatterns() + `
Each protocol runs on a separate fabric with the same wire. Every byte of every
message is checked at its receiver. Every time is simulated and repeats to the bit.`,
		Example: `  hvia compare                                        ping-pong with every protocol
  hvia compare stream -s 1400 --protocols rdma,tcp    two of them, messages one way
  hvia compare request-reply --mix 64:4096=80,1024:65536=20
  hvia compare n-to-1 --clients 8 --format json | jq .results.rows
  hvia compare n-to-1 --nodes 8 --protocols rdma,rdma-rd`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{cmd.CommandPath(), fmt.Errorf("unexpected argument %q: one pattern of %q is possible", args[1], compare.Patterns())}
			}
			return nil
		},
	}
	m, o, s := newGroup("Measurement"), newGroup("Output"), newGroup("Simulator")
	m.flags.StringSliceVar(&asked.Protocols, "protocols", all.Protocols, "which, `NAME,...`; on more than 2 nodes "+strings.Join(compare.DefaultProtocols(3), ","))
	m.flags.IntSliceVarP(&asked.Sizes, "sizes", "s", nil, "message lengths, `BYTES,...`")
	m.flags.StringVar(&mix, "mix", "", "kinds of requests, `REQUEST:REPLY=WEIGHT,...` in bytes")
	m.flags.IntVarP(&asked.Messages, "messages", "n", 0, "counted round trips, messages or requests; of each client; one way, 0: by size")
	m.flags.IntVarP(&asked.Warmup, "warmup", "x", 0, "warm-up before the counted ones; one way, 0: a quarter of their number")
	m.flags.IntVar(&asked.Window, "window", 0, "messages in flight, one way; 0: up to 16, at least 2, up to 128 KiB")
	m.flags.IntVar(&asked.Receives, "receives", 0, "receive descriptors that wait, one way; 0: as many as the window")
	m.flags.IntVar(&asked.Clients, "clients", 0, "threads that send to one (n-to-1)")
	m.flags.IntVar(&asked.Nodes, "nodes", 2, fmt.Sprintf("3 to %d: each sender on a separate node, behind a switch (n-to-1)", compare.MaxNodes))
	m.flags.Uint64Var(&asked.Seed, "seed", all.Seed, "of memory scatter, payload and mix")
	o.flags.StringVar(&format, "format", "text", "`FORM` of the result: text, json or bench (for benchstat)")
	o.flags.StringVarP(&out, "output", "o", "", "write it to `FILE` and not to stdout")
	o.flags.StringVar(&asked.Capture, "capture", "", "write the frames of each protocol to `FILE` (pcapng), its name before the extension")
	s.flags.StringVar(&asked.Profile, "profile", all.Profile, "the `CARD` and its surroundings")
	s.flags.StringArrayVar(&replaced, "param", nil, "replace a parameter of the models or the host, `NAME=VALUE`")
	wireFaults(s.flags, &asked.Faults)
	checks(s.flags, &asked.Checks)
	addGroups(cmd, m, o, s)

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, write, err := compareConfig(cmd, args, asked, mix, format, replaced)
		if err != nil {
			return &usageError{cmd.CommandPath(), err}
		}
		to, b := a.Stdout, bytes.Buffer{}
		if out != "" { // tried before the run
			f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE, 0o644)
			if err != nil {
				return fmt.Errorf("compare: file %s %w: %w", out, rig.ErrOutput, err)
			}
			_ = f.Close()
			to = &b
		}
		rep, err := run(a, cmd, format != "text", &cfg.Progress, compare.NewReport(cfg, report.Hashes{}), func(ctx context.Context) (*compare.Report, error) {
			return a.Compare(ctx, cfg)
		})
		err = a.print(cmd, rep, format == "json", func(w io.Writer) error { return write(rep, w) }, to, err)
		if b.Len() > 0 {
			err = errors.Join(err, os.WriteFile(out, b.Bytes(), 0o644))
		}
		return err
	}
	return cmd
}

// comparePatterns is the help's list of patterns with their defaults.
func comparePatterns() string {
	var b strings.Builder
	for _, name := range compare.Patterns() {
		c := compare.DefaultConfig(name)
		fmt.Fprintf(&b, "  %-14s %s\n  %-14s ", name, map[string]string{
			compare.PatternPingPong:     "a message there and back; half a round trip",
			compare.PatternStream:       "messages one way, a window of them in flight; goodput",
			compare.PatternRequestReply: "requests and replies of several sizes, drawn by the seed",
			compare.PatternManyToOne:    "threads of one host, or of one host each, that send to one thread of another",
		}[name], "")
		if c.Clients > 0 {
			fmt.Fprintf(&b, "--clients %d ", c.Clients)
		}
		if len(c.Mix) > 0 {
			fmt.Fprintf(&b, "--mix %s", mixText(c.Mix))
		} else {
			fmt.Fprintf(&b, "-s %s", strings.Join(strings.Fields(strings.Trim(fmt.Sprint(c.Sizes), "[]")), ","))
		}
		if c.Messages > 0 {
			fmt.Fprintf(&b, " -n %d -x %d", c.Messages, c.Warmup)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// compareConfig joins the pattern's defaults with the flags.
func compareConfig(cmd *cobra.Command, args []string, asked compare.Config, mix, format string, replaced []string) (compare.Config, func(*compare.Report, io.Writer) error, error) {
	pattern := compare.PatternPingPong
	if len(args) > 0 {
		pattern = args[0]
	}
	c := compare.DefaultConfig(pattern)
	write, ok := compareFormats[format]
	if !ok {
		return c, nil, fmt.Errorf("invalid argument %q for \"--format\": text, json and bench are possible", format)
	}
	c.Protocols, c.Seed, c.Capture, c.Profile = asked.Protocols, asked.Seed, asked.Capture, asked.Profile
	c.Window, c.Receives, c.Faults, c.Checks = asked.Window, asked.Receives, asked.Faults, asked.Checks
	changed := cmd.Flags().Changed
	if changed("sizes") {
		c.Sizes = asked.Sizes
	}
	if changed("messages") {
		c.Messages = asked.Messages
	}
	if changed("warmup") {
		c.Warmup = asked.Warmup
	}
	if changed("nodes") {
		if c.Nodes = asked.Nodes; c.Nodes > 2 {
			c.Clients = c.Nodes - 1
		}
		if !changed("protocols") {
			c.Protocols = compare.DefaultProtocols(c.Nodes)
		}
	}
	if changed("clients") {
		c.Clients = asked.Clients
	}
	var err error
	if changed("mix") {
		if c.Mix, err = parseMix(mix); err != nil {
			return c, nil, err
		}
	}
	if c.Params, err = parameters(replaced); err != nil {
		return c, nil, err
	}
	return c, write, c.Validate()
}

// parseMix reads REQUEST:REPLY=WEIGHT,...; the default weight is 1.
func parseMix(text string) (mix []compare.MixEntry, err error) {
	for word := range strings.SplitSeq(text, ",") {
		sizes, weight, weighed := strings.Cut(word, "=")
		request, reply, found := strings.Cut(sizes, ":")
		if !weighed {
			weight = "1"
		}
		var n [3]int
		for i, w := range []string{request, reply, weight} {
			v, bad := strconv.Atoi(w)
			found = found && bad == nil
			n[i] = v
		}
		if !found {
			return nil, fmt.Errorf("invalid argument %q for \"--mix\": REQUEST:REPLY=WEIGHT,... with whole numbers is possible, as in 64:4096=80,1024:65536=20", text)
		}
		mix = append(mix, compare.MixEntry{Request: n[0], Reply: n[1], Weight: n[2]})
	}
	return mix, nil
}

func mixText(mix []compare.MixEntry) string {
	words := make([]string, len(mix))
	for i, m := range mix {
		words[i] = fmt.Sprintf("%d:%d=%d", m.Request, m.Reply, m.Weight)
	}
	return strings.Join(words, ",")
}
