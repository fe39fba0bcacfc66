// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"hvia/bench/compare"
	"hvia/bench/demo"
	"hvia/bench/digests"
	"hvia/bench/report"
	"hvia/bench/reproduce"
	"hvia/bench/rig"
	"hvia/bench/simspeed"
	"hvia/conformance"
	"hvia/sim"
	"hvia/sim/verilate"
	"hvia/tools/hvia/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hvia": main,
		// hvia-fake has the real command line with fake experiments; the
		// variable FAKE selects their outcome.
		"hvia-fake": func() { os.Exit(cli.Main(os.Args[1:], cli.Process(), fake(os.Getenv("FAKE")))) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// exits CODE COMMAND...: runs a command and compares its exit code,
			// which exec does not.
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: exits CODE COMMAND...")
				}
				err := ts.Exec(args[1], args[2:]...)
				code := 0
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					code = exit.ExitCode()
				} else if err != nil {
					ts.Fatalf("%s: %v", args[1], err)
				}
				if fmt.Sprint(code) != args[0] {
					ts.Fatalf("%v: exit code %d, want %s", args[1:], code, args[0])
				}
			},
			// only-hvia: PATH holds only the commands under test.
			"only-hvia": func(ts *testscript.TestScript, neg bool, args []string) {
				path, err := exec.LookPath("hvia")
				ts.Check(err)
				ts.Setenv("PATH", filepath.Dir(path))
			},
			// lines STREAM N: the stream of the last command has N lines.
			"lines": func(ts *testscript.TestScript, neg bool, args []string) {
				text := ts.ReadFile(args[0])
				if n := strings.Count(text, "\n"); neg || fmt.Sprint(n) != args[1] {
					ts.Fatalf("%s has %d lines, want %s:\n%s", args[0], n, args[1], text)
				}
			},
		},
	})
}

func fake(behaviour string) cli.Experiments {
	b := behaves(behaviour)
	return cli.Experiments{
		Fabrics: fakeFabrics(behaviour), Reproduce: b.reproduce, Ablate: b.ablate, Compare: b.compare, Demo: b.demo, Conform: b.conform,
		BenchSim:    b.benchSim,
		ReadDigests: func() (*digests.Table, error) { return digestTable("f1", "w1"), nil },
		Digests: func(context.Context, digests.Config) (*digests.Table, error) {
			switch behaviour {
			case "frames":
				return digestTable("f2", "w1"), nil
			case "wakes":
				return digestTable("f1", "w2"), nil
			}
			return digestTable("f1", "w1"), nil
		},
		BuildSimulator: func(context.Context) (string, error) {
			switch behaviour {
			case "verilator":
				return "", verilate.ErrNoVerilator
			case "compiler":
				return "", sim.ErrNoCompiler
			}
			return "build/cache/fabric", nil
		},
		SimulatorBuilt: func() (string, bool, error) { return "build/cache/fabric", behaviour != "cold", nil },
	}
}

// behaves makes experiments with the outcome that FAKE selects.
type behaves string

var fakeHashes = report.Hashes{Layout: "1", Params: "2", RTL: "3"}

// part runs one part of an experiment. The second part fails or is interrupted
// if FAKE says so.
func (b behaves) part(ctx context.Context, i int, fails string, show func(rig.Progress), p rig.Progress) error {
	verb, _, _ := strings.Cut(fails, ":")
	switch {
	case b == "verilator":
		return fmt.Errorf("%s: %w", verb, verilate.ErrNoVerilator)
	case b == "fail" && i == 1:
		return errors.New(fails)
	case b == "interrupt" && i == 1:
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", verb, ctx.Err())
		case <-time.After(10 * time.Second):
			return errors.New("no signal came")
		}
	}
	if show != nil {
		p.Done = i
		show(p)
	}
	return nil
}

func (b behaves) reproduce(ctx context.Context, c reproduce.Config) (*report.Report, error) {
	r := report.New(c.Profile, c.Seed, fakeHashes)
	shown := c
	shown.Progress = nil
	config, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	r.Notes = []string{string(config)}
	for i, s := range c.Sizes {
		if err := b.part(ctx, i, "reproduce: size 16: node 1 went away", c.Progress, rig.Progress{What: fmt.Sprintf("%d bytes", s), Total: len(c.Sizes)}); err != nil {
			return r, err
		}
		row := report.PingPongResult{Size: s, HalfRTTPs: 1000, Verified: true}
		if b == "wrong" && s == 16 {
			row.Verified, row.Fault = false, "byte 3 of 16"
		}
		r.RDMAWrite = append(r.RDMAWrite, row)
	}
	r.SendReceive = append(r.SendReceive, r.RDMAWrite...)
	switch b {
	case "wrong receive":
		r.SendReceive[0].Verified, r.SendReceive[0].Fault = false, "byte 2 of 4"
	case "cross":
		r.CrossTraffic = &report.CrossTraffic{RDMAWrite: r.RDMAWrite, Fault: "a guard"}
	case "output":
		return nil, fmt.Errorf("reproduce: file x.pcapng %w", rig.ErrOutput)
	case "miss":
		r.Misses = []string{"4 bytes: too slow"}
	}
	return r, nil
}

func (b behaves) ablate(ctx context.Context, c reproduce.AblateConfig) (*report.Report, error) {
	r := report.New(c.Profile, c.Seed, fakeHashes)
	r.Ablations = &report.Ablations{}
	complete := float64(c.Iterations)
	fault := map[behaves]string{"wrong": "byte 3"}[b]
	for i, v := range []report.Variant{
		{Name: "whole", Verified: true, Figures: []report.AblationFigure{{Name: "a", Unit: "us", Value: complete, Base: complete}}},
		{Name: "half", Verified: fault == "", Fault: fault, Straps: []string{"Half"}, Figures: []report.AblationFigure{{Name: "a", Unit: "us", Value: 1, Base: complete}}},
	} {
		if err := b.part(ctx, i, "ablate: half: node 1 went away", nil, rig.Progress{}); err != nil {
			return r, err
		}
		r.Ablations.Variants = append(r.Ablations.Variants, v)
	}
	return r, nil
}

func (b behaves) compare(ctx context.Context, c compare.Config) (*compare.Report, error) {
	r := compare.NewReport(c, fakeHashes)
	for i, name := range c.Protocols {
		if err := b.part(ctx, i, "compare: send: node 1 went away", c.Progress, rig.Progress{What: name, Total: len(c.Protocols)}); err != nil {
			return r, err
		}
		row := compare.Row{
			Protocol: name, Messages: c.Messages, Latency: &compare.Latency{MeanPs: int64(c.Seed) * 1_000_000}, Verified: true,
			Hosts: make([]compare.HostUse, max(2, c.Nodes)), Wire: make([]compare.WireUse, max(2, c.Nodes)), Clients: make([]int64, c.Clients),
		}
		if len(c.Sizes) > 0 {
			row.Size = c.Sizes[0]
		}
		switch b {
		case "wrong":
			row.Verified, row.Fault = i == 0, "message 1: byte 3 of 4"
		case "lossy":
			row.Lost = 7
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

func (b behaves) demo(ctx context.Context, c demo.Config) (*demo.Report, error) {
	if err := b.part(ctx, 0, "demo: fails", nil, rig.Progress{}); err != nil {
		return nil, err
	}
	r := demo.NewReport(c, fakeHashes)
	r.Fault = map[behaves]string{"wrong": "byte 3 of 64"}[b]
	r.Verified, r.Steps = r.Fault == "", []demo.Step{{Where: "program", What: "pcap=" + c.PcapFile + " wave=" + c.WaveFile}}
	return r, nil
}

func (b behaves) conform(_ context.Context, c conformance.Config) (*conformance.Report, error) {
	r := &conformance.Report{Device: c.Device, Seed: c.Seed, Results: []conformance.Result{
		{Function: "OpenNic", Case: "a host", Verdict: conformance.Pass},
		{Function: conformance.ScenarioGroup, Case: "reads", Verdict: conformance.NotSupported, Reason: "RDMAReadSupport"},
	}}
	switch b {
	case "wrong":
		r.Results[0].Verdict, r.Results[0].Reason = conformance.Fail, "no error, want VIP_ERROR_RESOURCE"
	case "fail":
		err := errors.New("conform: node 1 went away")
		r.Error = err.Error()
		return r, err
	}
	return r, nil
}

func (b behaves) benchSim(ctx context.Context, c simspeed.Config) (*simspeed.Report, error) {
	r := simspeed.NewReport(c, fakeHashes)
	for i, title := range []string{"4 B round trip", "idle second"} {
		if err := b.part(ctx, i, "bench-sim: idle second: node 1 went away", c.Progress, rig.Progress{What: title, Total: 2}); err != nil {
			return r, err
		}
		r.Rows = append(r.Rows, &simspeed.Row{Title: title, Simulator: "default", Wall: simspeed.Times{Least: 0.001, Median: 0.002, Ratio: 1}, CPU: simspeed.Times{Least: 0.001, Median: 0.001, Ratio: 1}})
	}
	return r, nil
}

func digestTable(frames, wakes string) *digests.Table {
	return &digests.Table{Schema: digests.Schema, Runs: []digests.Record{{
		Profile: "hvia-ge", Workload: "reproduce", Run: "rdma_write", Parts: report.Parts{Frames: frames, Wakes: wakes}, Values: map[string]int64{"4 half_rtt_ps": 12},
	}}}
}

// A terminal shows progress on stderr and clears it at the end.
func TestProgressOnTerminal(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		env   []string
		shown bool
	}{
		{"terminal", nil, nil, true},
		{"quiet", []string{"--quiet"}, nil, false},
		{"dumb terminal", nil, []string{"TERM=dumb"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, terminal := runOnTerminal(t, tt.env, append([]string{"reproduce", "-s", "4,16", "-o", ""}, tt.args...), false)
			require.Contains(t, stdout, "Half round trip and bandwidth")
			require.NotContains(t, stdout, "\x1b")
			if tt.shown {
				require.Contains(t, terminal, "[##########..........] 1/2, 0 s, about 0 s left: 16 bytes")
				require.True(t, strings.HasSuffix(terminal, "\r\x1b[K"), "the line is cleared: %q", terminal)
			} else {
				require.Empty(t, terminal)
			}
		})
	}
}

// Colour is for terminals, can be forced and forbidden, and obeys NO_COLOR.
func TestColour(t *testing.T) {
	for _, tt := range []struct {
		name    string
		args    []string
		env     []string
		colored bool
	}{
		{"terminal", nil, nil, true},
		{"NO_COLOR", nil, []string{"NO_COLOR=1"}, false},
		{"empty NO_COLOR", nil, []string{"NO_COLOR="}, true},
		{"dumb terminal", nil, []string{"TERM=dumb"}, false},
		{"never", []string{"--color=never"}, nil, false},
		{"always beats NO_COLOR", []string{"--color=always"}, []string{"NO_COLOR=1"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, terminal := runOnTerminal(t, tt.env, append([]string{"doctor"}, tt.args...), true)
			require.Contains(t, terminal, "processors")
			require.Equal(t, tt.colored, strings.Contains(terminal, "\x1b["), "%q", terminal)
		})
	}
}

// runOnTerminal runs hvia-fake with stderr, or stdout too, on a pseudo
// terminal, and returns the output to the pipe and to the terminal.
func runOnTerminal(t *testing.T, env, args []string, stdoutToo bool) (string, string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		t.Skipf("no pseudo terminals on this machine, devpts is not mounted: %v", err)
	}
	require.NoError(t, err)
	defer master.Close()
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)

	path, err := exec.LookPath("hvia-fake")
	require.NoError(t, err, "testscript.Main puts it on PATH")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	cmd.Env = append(cmd.Env, env...)
	var stdout strings.Builder
	cmd.Stdout, cmd.Stderr = io.Writer(&stdout), slave
	if stdoutToo {
		cmd.Stdout = slave
	}
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	// The read ends with EIO once the last process has closed the terminal.
	terminal, err := io.ReadAll(master)
	require.ErrorIs(t, err, syscall.EIO)
	_ = cmd.Wait() // this machine may lack something
	return stdout.String(), string(terminal)
}

// The Makefile and the tool's help name the same directory for the report.
func TestDefaultOutputIsIgnoredByGit(t *testing.T) {
	root, err := verilate.Root()
	require.NoError(t, err)
	body, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	require.NoError(t, err)
	require.Contains(t, strings.Split(string(body), "\n"), "/out/")
}
