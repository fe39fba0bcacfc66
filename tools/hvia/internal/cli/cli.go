// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of hvia: verbs, flags, output to stdout and
// stderr, and exit codes. Other packages do the work of the verbs.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"hvia/bench/compare"
	"hvia/bench/demo"
	"hvia/bench/digests"
	"hvia/bench/faults"
	"hvia/bench/report"
	"hvia/bench/reproduce"
	"hvia/bench/rig"
	"hvia/bench/simspeed"
	"hvia/conformance"
	"hvia/sim"
	"hvia/sim/verilate"
)

// Exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1   // it ran, but failed
	ExitUsage       = 2   // the command line was wrong
	ExitEnvironment = 3   // this machine lacks something
	ExitInterrupted = 130 // Ctrl-C, after partial results were printed
)

// ErrEnvironment marks errors caused by the machine.
var ErrEnvironment = errors.New("environment")

// Experiments are the functions of the verbs.
type Experiments struct {
	Reproduce func(context.Context, reproduce.Config) (*report.Report, error)
	Ablate    func(context.Context, reproduce.AblateConfig) (*report.Report, error)
	Compare   func(context.Context, compare.Config) (*compare.Report, error)
	Demo      func(context.Context, demo.Config) (*demo.Report, error)
	// FaultMatrix returns the cells that it tried, also with an error.
	FaultMatrix func(context.Context, faults.Config) (*faults.Matrix, error)

	// Conform returns what it tried, also with an error.
	Conform func(context.Context, conformance.Config) (*conformance.Report, error)

	// Digests repeats the runs that ReadDigests reads from the record.
	Digests     func(context.Context, digests.Config) (*digests.Table, error)
	ReadDigests func() (*digests.Table, error)

	// BenchSim returns what it measured, also with an error.
	BenchSim func(context.Context, simspeed.Config) (*simspeed.Report, error)

	// ServePeer runs the second host of an experiment with two processes; the
	// first sends the job on standard input.
	ServePeer func(ctx context.Context, job []byte) error

	// Fabrics run for programs of many processes.
	Fabrics Fabrics
	// BuildFabric compiles a fabric's simulator and returns its path.
	BuildFabric func(ctx context.Context, c sim.Config) (string, error)

	// BuildSimulator compiles the simulator and returns its path.
	BuildSimulator func(context.Context) (string, error)
	// SimulatorBuilt reports whether the simulator is built from the present
	// sources. If it is nil, doctor does not check.
	SimulatorBuilt func() (path string, built bool, err error)
}

// Terminal is the output of a command.
type Terminal struct {
	Stdout, Stderr       io.Writer
	StdoutTTY, StderrTTY bool
	Getenv               func(string) string
}

// Process is the terminal of this process.
func Process() Terminal {
	return Terminal{
		Stdout: os.Stdout, Stderr: os.Stderr,
		StdoutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		StderrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:    os.Getenv,
	}
}

// usageError is a wrong command line; verb is the verb whose help applies.
type usageError struct {
	verb string
	err  error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

type app struct {
	Terminal
	Experiments
	args  []string
	color string // auto, always, never
	quiet bool
}

// Main runs one command line and returns the exit code.
func Main(args []string, t Terminal, e Experiments) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process at once, even if a verb ignores the
	// first.
	context.AfterFunc(ctx, stop)

	a := &app{Terminal: t, Experiments: e, args: args}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(t.Stdout)
	root.SetErr(t.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(t.Stderr, "%s: %s: try '%s --help'\n", usage.verb, oneLine(err), usage.verb)
		return ExitUsage
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(t.Stderr, "hvia: interrupted")
		return ExitInterrupted
	}
	fmt.Fprintf(t.Stderr, "hvia: %v\n", err)
	switch {
	case errors.Is(err, sim.ErrRejected): // values that contradict each other
		return ExitUsage
	case environmental(err):
		return ExitEnvironment
	}
	return ExitFailed
}

// environmental reports whether the machine causes the error.
func environmental(err error) bool {
	for _, target := range []error{ErrEnvironment, verilate.ErrNoVerilator, sim.ErrNoCompiler, rig.ErrOutput, exec.ErrNotFound, fs.ErrPermission,
		verilate.ErrPath, sim.ErrOutput, syscall.ENOSPC, syscall.EADDRINUSE, syscall.ENAMETOOLONG} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// environmentError marks err and keeps its text.
type environmentError struct{ error }

func (e environmentError) Unwrap() []error { return []error{e.error, ErrEnvironment} }

// needCheckout fails outside of a checkout: only a checkout has the RTL.
func needCheckout() error {
	if _, err := verilate.Root(); err != nil {
		return environmentError{err}
	}
	return nil
}

func (a *app) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "hvia",
		Short: "An RDMA network card in open RTL, run in virtual time.",
		Example: `  hvia reproduce              measure RDMA writes at every size
  hvia demo                   follow one RDMA write step by step
  hvia doctor                 see what this machine has and lacks`,
		// With arbitrary arguments, RunE rejects a wrong verb with a message of
		// this tool.
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if version {
			return a.printVersion(false)
		}
		if len(args) == 0 {
			return &usageError{"hvia", errors.New("no command given")}
		}
		err := fmt.Errorf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w, did you mean %q?", err, near[0])
		}
		return &usageError{"hvia", err}
	}
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{cmd.CommandPath(), err}
	})
	root.SetHelpFunc(a.help)
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help-command"})
	root.PersistentFlags().StringVar(&a.color, "color", "auto", "colour: `WHEN` is auto, always or never")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress on stderr")
	root.Flags().BoolVarP(&version, "version", "V", false, "print the version and exit")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if sim.Stages = a.Stderr; a.quiet {
			sim.Stages = io.Discard
		}
		switch a.color {
		case "auto", "always", "never":
			return nil
		}
		return &usageError{cmd.CommandPath(), fmt.Errorf("invalid argument %q for \"--color\": auto, always and never are possible", a.color)}
	}
	root.AddCommand(a.reproduce(), a.compare(), a.ablate(), a.faults(), a.digests(), a.benchSim(), a.conform(), a.report(), a.demo(), a.up(), a.ps(), a.down(), a.doctor(), a.version(), a.build(), a.peer())
	return root
}

// noArgs rejects arguments of a verb that takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{cmd.CommandPath(), fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}

type group struct {
	title string
	flags *pflag.FlagSet
}

func newGroup(title string) group {
	return group{title, pflag.NewFlagSet(title, pflag.ContinueOnError)}
}

const groupsKey = "flag groups"

// addGroups adds flags to a verb and notes their order for the help.
func addGroups(cmd *cobra.Command, groups ...group) {
	var titles []string
	for _, g := range groups {
		g.flags.SortFlags = false
		g.flags.VisitAll(func(f *pflag.Flag) {
			if f.Annotations == nil {
				f.Annotations = map[string][]string{}
			}
			f.Annotations[groupsKey] = []string{g.title}
		})
		cmd.Flags().AddFlagSet(g.flags)
		titles = append(titles, g.title)
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[groupsKey] = strings.Join(titles, "\n")
}

// help prints one sentence, examples, verbs, and flags by group.
func (a *app) help(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", cmd.Short)
	if cmd.Long != "" {
		fmt.Fprintf(&b, "%s\n\n", cmd.Long)
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "Examples:\n%s\n\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "Usage:\n  %s COMMAND [flags]\n\nCommands:\n", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-12s %s\n", c.Name(), c.Short)
			}
		}
		b.WriteString("\n")
	} else {
		fmt.Fprintf(&b, "Usage:\n  %s\n\n", cmd.UseLine())
	}
	all := cmd.Flags()
	shown := map[string]bool{}
	if titles := cmd.Annotations[groupsKey]; titles != "" {
		for title := range strings.SplitSeq(titles, "\n") {
			set := pflag.NewFlagSet(title, pflag.ContinueOnError)
			set.SortFlags = false
			all.VisitAll(func(f *pflag.Flag) {
				if g := f.Annotations[groupsKey]; len(g) == 1 && g[0] == title {
					set.AddFlag(f)
					shown[f.Name] = true
				}
			})
			fmt.Fprintf(&b, "%s:\n%s\n", title, set.FlagUsages())
		}
	}
	common := pflag.NewFlagSet("common", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if !shown[f.Name] && !f.Hidden {
			common.AddFlag(f)
		}
	})
	fmt.Fprintf(&b, "Common:\n%s\n", common.FlagUsages())
	b.WriteString("Exit codes: 0 ok, 1 ran but failed, 2 usage, 3 this machine lacks something, 130 interrupted.\n")
	fmt.Fprint(a.Stdout, b.String())
}

func (a *app) colored() bool {
	switch a.color {
	case "always":
		return true
	case "never":
		return false
	}
	return a.StdoutTTY && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

// oneLine keeps a usage error on one line, whatever the argument.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
