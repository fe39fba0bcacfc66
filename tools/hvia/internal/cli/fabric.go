// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"hvia/fabric/service"
	"hvia/params"
	"hvia/sim"
)

// readyFD is the file descriptor on which a background fabric reports to its
// starter that it is ready, or an error.
const readyFD = 3

// upLimit bounds the wait for a background fabric with a built simulator.
const upLimit = 60 * time.Second

// Fabrics are the functions of the verbs up, ps and down.
type Fabrics struct {
	Start  func(context.Context, service.Config) (RunningFabric, error)
	Status func(ctx context.Context, fabric string) (service.Status, error)
	Down   func(ctx context.Context, fabric string) error
}

// RunningFabric is a *service.Service.
type RunningFabric interface {
	Status() service.Status
	Wait() error
	Close() error
}

func nameFlag(g group, name *string) {
	g.flags.StringVar(name, "name", "default", "the fabric's `NAME`")
}

func (a *app) up() *cobra.Command {
	c := service.Config{Nodes: service.DefaultNodes, Seed: 1, Fabric: sim.Config{Profile: params.Base}, Quota: service.DefaultQuota}
	var timed, foreground bool
	var participants []string
	var ready int
	memory := int64(service.DefaultMemory >> 20)
	cmd := &cobra.Command{
		Use:   "up [flags]",
		Short: "Start a fabric that programs of many processes join.",
		Long: `Programs join it with fabric.Join. It goes on in the background until "hvia down",
or with --foreground until Ctrl-C. With --timed it keeps virtual time, which begins
when every declared participant is there; without it runs as fast as it can.`,
		Example: `  hvia up                        two nodes, in the background
  hvia up --nodes 4 --name lab
  hvia up --timed --participant 0:client --participant 1:server`,
		Args: noArgs,
	}
	f, each, s := newGroup("Fabric"), newGroup("Each process has at most"), newGroup("Simulator")
	nameFlag(f, &c.Name)
	f.flags.IntVar(&c.Nodes, "nodes", c.Nodes, "`NUMBER` of nodes, each with a card")
	f.flags.BoolVar(&timed, "timed", false, "keep virtual time")
	f.flags.StringArrayVar(&participants, "participant", nil, "a process that must join before virtual time starts, `NODE:NAME`; repeatable")
	f.flags.Int64Var(&memory, "memory", memory, "host memory of each node in `MiB`, allocated as it is used")
	f.flags.DurationVar(&c.Fabric.StallLimit, "stall-limit", 30*time.Second, "wall `TIME` in which a process may let virtual time advance by less than 1 us; then the fabric removes it")
	f.flags.BoolVar(&foreground, "foreground", false, "stay in the foreground and log to stderr")
	each.flags.IntVar(&c.Quota.VIs, "max-vis", c.Quota.VIs, "`NUMBER` of VIs, of the 256 of its node")
	each.flags.IntVar(&c.Quota.CQs, "max-cqs", c.Quota.CQs, "`NUMBER` of completion queues, of 64")
	each.flags.IntVar(&c.Quota.Tags, "max-tags", c.Quota.Tags, "`NUMBER` of protection tags, of 65535; a NIC handle has one")
	each.flags.IntVar(&c.Quota.Regions, "max-regions", c.Quota.Regions, "`NUMBER` of memory regions, of 1024")
	s.flags.StringVar(&c.Fabric.Profile, "profile", c.Fabric.Profile, "the `CARD` and its surroundings")
	s.flags.Uint64Var(&c.Seed, "seed", c.Seed, "of memory scatter and of the models")
	wireFaults(s.flags, &c.Fabric.Faults)
	checks(s.flags, &c.Fabric.Checks)
	addGroups(cmd, f, each, s)
	cmd.Flags().IntVar(&ready, "ready-fd", 0, "")
	_ = cmd.Flags().MarkHidden("ready-fd")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		usage := func(err error) error { return &usageError{cmd.CommandPath(), err} }
		if timed {
			c.Fabric.Mode = sim.Timed
		}
		c.Fabric.MemoryBytes = memory << 20
		for _, p := range participants {
			node, name, ok := strings.Cut(p, ":")
			n, err := strconv.Atoi(node)
			if !ok || err != nil || name == "" {
				return usage(fmt.Errorf("participant %q: want NODE:NAME, as in 0:client", p))
			}
			c.Participants = append(c.Participants, service.Participant{Node: n, Name: name})
		}
		if c.Nodes < 1 {
			return usage(fmt.Errorf("%d nodes: want 1 or more", c.Nodes))
		}
		if memory < 1 || memory > 1<<20 {
			return usage(fmt.Errorf("memory of %d MiB: want 64 to 1024", memory))
		}
		for _, q := range []int{c.Quota.VIs, c.Quota.CQs, c.Quota.Tags, c.Quota.Regions} {
			if q < 1 {
				return usage(fmt.Errorf("quota of %d for each process: want 1 or more", q))
			}
		}
		if err := c.Check(); err != nil {
			return usage(err)
		}
		if _, err := params.ForProfile(c.Fabric.Profile); err != nil {
			return usage(err)
		}
		if err := needCheckout(); err != nil {
			return err
		}
		if foreground {
			return a.serveFabric(cmd.Context(), c, ready)
		}
		return a.background(cmd.Context(), c)
	}
	return cmd
}

func (a *app) serveFabric(ctx context.Context, c service.Config, ready int) error {
	tell := func(string) {}
	if ready == readyFD {
		pipe := os.NewFile(readyFD, "ready")
		tell = func(word string) {
			// The reader may have exited.
			_, _ = io.WriteString(pipe, word)
			_ = pipe.Close()
		}
	}
	level := slog.LevelInfo
	if a.quiet {
		level = slog.LevelWarn
	}
	log := a.Stderr
	if ready == readyFD {
		path, err := service.LogPath(c.Name)
		if err != nil {
			return environmentError{err}
		}
		file, err := openLog(path, logLimit)
		if err != nil {
			return environmentError{err}
		}
		defer file.close()
		log = file
	}
	c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
	s, err := a.Fabrics.Start(ctx, c)
	if err != nil {
		tell("error " + err.Error())
		return err
	}
	if ready == 0 {
		if err := a.printUp(s.Status()); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	tell("ready")
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	return s.Wait()
}

// background starts this command in another process, detached from the
// terminal, and waits until the service is ready.
func (a *app) background(ctx context.Context, c service.Config) error {
	// The build can take minutes, and its progress must show here.
	if _, err := a.BuildFabric(ctx, c.Fabric); err != nil {
		return err
	}
	path, err := service.LogPath(c.Name)
	if err != nil {
		return environmentError{err}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return environmentError{err}
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return environmentError{err}
	}
	defer r.Close()
	child := exec.Command("/proc/self/exe", append(slices.Clone(os.Args[1:]), "--foreground", "--ready-fd="+strconv.Itoa(readyFD))...)
	child.Stdout, child.Stderr, child.ExtraFiles = log, log, []*os.File{w}
	child.Args[0] = os.Args[0]
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	w.Close()
	if err != nil {
		return environmentError{fmt.Errorf("start the fabric in the background: %w", err)}
	}
	_ = r.SetReadDeadline(time.Now().Add(upLimit))
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	word, err := io.ReadAll(bufio.NewReader(r))
	fail := func(err error) error {
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	switch text, failed := strings.CutPrefix(string(word), "error "); {
	case failed:
		return fail(errors.New(text))
	case string(word) != "ready" && ctx.Err() != nil:
		return fail(ctx.Err())
	case string(word) != "ready":
		return fail(fmt.Errorf("the fabric in the background ended, or was not ready within %v (%v): see its log, %s", upLimit, err, path))
	}
	st, err := a.Fabrics.Status(ctx, c.Name)
	if err != nil {
		return err
	}
	if err := a.printUp(st); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "log      %s\n", path)
	return errors.Join(err, child.Process.Release())
}

func ofName(st service.Status) string {
	if st.Fabric == "default" {
		return ""
	}
	return " --name " + st.Fabric
}

func (a *app) printUp(st service.Status) error {
	_, err := fmt.Fprintf(a.Stdout, "fabric   %s: %d nodes, %s mode, process %d, simulator %d\njoin     fabric.Join(ctx, fabric.JoinConfig{Fabric: %q, Node: 0})\nlook     hvia ps%s\nend      hvia down%s\n",
		st.Fabric, len(st.Nodes), st.Mode, st.Pid, st.SimulatorPid, st.Fabric, ofName(st), ofName(st))
	return err
}

func (a *app) ps() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "Show the processes of a fabric and what they use.",
		Long:  `Nodes, processes, VIs, and the card's counters that are not 0 (not in timed mode: to read them takes simulated time).`,
		Example: `  hvia ps
  hvia ps --name lab --json | jq '.nodes[].vis'`,
		Args: noArgs,
	}
	f, o := newGroup("Fabric"), newGroup("Output")
	nameFlag(f, &name)
	o.flags.BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	addGroups(cmd, f, o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := a.Fabrics.Status(cmd.Context(), name)
		if err != nil {
			return err
		}
		if asJSON {
			e := json.NewEncoder(a.Stdout)
			e.SetIndent("", "  ")
			err = e.Encode(st)
		} else {
			err = a.printStatus(st)
		}
		if err != nil {
			return fmt.Errorf("ps: print it: %w", err)
		}
		return nil
	}
	return cmd
}

// printable escapes characters that a terminal would not show.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

func (a *app) printStatus(st service.Status) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "fabric %s, %s mode, process %d, simulator %d, since %s\n", st.Fabric, st.Mode, st.Pid, st.SimulatorPid, st.Since.Format(time.DateTime))
	for _, n := range st.Nodes {
		fmt.Fprintf(&b, "\nnode %d, %s\n", n.Node, n.Address)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for i, p := range n.Processes {
			if i == 0 {
				fmt.Fprintln(w, "  PID\tPROCESS\tSINCE\tMEMORY\tNICS\tREGIONS\tREGION BYTES\tCQS")
			}
			fmt.Fprintf(w, "  %d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", p.Pid, printable(p.Name), p.Since.Format(time.TimeOnly), p.MemoryBytes, p.NICs, p.Regions, p.RegionBytes, p.CQs)
		}
		_ = w.Flush() // into memory
		for i, v := range n.VIs {
			if i == 0 {
				fmt.Fprintln(w, "  VI\tPID\tSTATE\tLEVEL\tPEER")
			}
			fmt.Fprintf(w, "  %d\t%d\t%s\t%s\t%s\n", v.Index, v.Pid, v.State, v.Reliability, v.Peer)
		}
		_ = w.Flush()
		for _, c := range slices.Sorted(maps.Keys(n.Counters)) {
			fmt.Fprintf(w, "  %s\t%d\n", c, n.Counters[c])
		}
		_ = w.Flush()
	}
	_, err := a.Stdout.Write(b.Bytes())
	return err
}

func (a *app) down() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "down [flags]",
		Short:   "End a fabric that \"hvia up\" started.",
		Long:    `Processes that are there get an error that says so.`,
		Example: "  hvia down\n  hvia down --name lab",
		Args:    noArgs,
	}
	f := newGroup("Fabric")
	nameFlag(f, &name)
	addGroups(cmd, f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.Fabrics.Down(cmd.Context(), name) }
	return cmd
}
