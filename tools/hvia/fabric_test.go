// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/fabric"
	"hvia/fabric/service"
	"hvia/host/mem"
	"hvia/tools/hvia/internal/cli"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// fakeFabric is a fabric with fixed contents, which ends as the variable FAKE
// says.
type fakeFabric struct{ behaviour string }

func fakeFabrics(behaviour string) cli.Fabrics {
	return cli.Fabrics{
		Start: func(context.Context, service.Config) (cli.RunningFabric, error) { return fakeFabric{behaviour}, nil },
		Status: func(context.Context, string) (service.Status, error) {
			return fakeFabric{}.Status(), nil
		},
		Down: func(_ context.Context, name string) error {
			if name != "lab" {
				return errors.New("another fabric is meant")
			}
			return nil
		},
	}
}

func (fakeFabric) Status() service.Status {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	return service.Status{Schema: service.StatusSchema, Fabric: "lab", Mode: "free", Pid: 7, SimulatorPid: 8, Since: at, Nodes: []service.NodeStatus{
		{
			Node: 0, Address: driver.NodeMAC(0).String(), Counters: map[string]uint32{"DoorbellSend": 5},
			Processes: []service.ProcessStatus{{Name: "client", Pid: 42, Since: at.Add(time.Second), MemoryBytes: 32 << 20, NICs: 1, Regions: 2, RegionBytes: 8192, CQs: 1}},
			VIs:       []service.VIStatus{{Index: 3, Pid: 42, State: "Connected", Reliability: "reliable delivery", Peer: driver.NodeMAC(1).String()}},
		},
		{Node: 1, Address: driver.NodeMAC(1).String(), Processes: []service.ProcessStatus{{Name: "\x1b[31mRED\x1b[2Jx\n  9999  fake", Pid: 43, Since: at}, {Name: "two words", Pid: 44, Since: at}}},
	}}
}

func (f fakeFabric) Wait() error {
	if f.behaviour == "simulator" {
		return errors.New("the simulator went away")
	}
	return nil
}

func (fakeFabric) Close() error { return nil }

// A fabric outlives the command that started it. Programs join it, ps shows
// them, and down leaves nothing behind.
func TestFabricInTheBackground(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	dir, err := os.MkdirTemp("", "hvia-up-") // short enough for a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	hvia := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "hvia", args...)
		cmd.Dir = checkout(t)
		cmd.WaitDelay = 10 * time.Second
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		require.Equal(t, code, cmd.ProcessState.ExitCode(), "hvia %v: %s", args, &errs)
		return out.String(), errs.String()
	}
	t.Cleanup(func() { _ = service.Down(context.Background(), "lab") })
	out, _ := hvia(0, "up", "--name", "lab", "--memory", "128")
	require.Contains(t, out, "fabric   lab: 2 nodes, free mode")
	require.Contains(t, out, "hvia down --name lab")
	_, errs := hvia(1, "up", "--name", "lab")
	require.Contains(t, errs, "a fabric of that name runs already")

	ctx := t.Context()
	p, err := fabric.Join(ctx, fabric.JoinConfig{Fabric: "lab", Node: 1, Name: "visitor"})
	require.NoError(t, err)
	th, err := p.Thread(ctx, "main")
	require.NoError(t, err)
	e, err := endpoint.Open(th, p.Host(), endpoint.Config{Bytes: 5 * mem.PageBytes, ReliabilityLevel: vipl.ReliableDelivery, Receives: -1})
	require.NoError(t, err)
	out, _ = hvia(0, "ps", "--name", "lab")
	require.Contains(t, out, "visitor")
	require.Contains(t, out, "reliable delivery")
	out, _ = hvia(0, "ps", "--name", "lab", "--json")
	var st service.Status
	require.NoError(t, json.Unmarshal([]byte(out), &st))
	require.Equal(t, service.StatusSchema, st.Schema)
	require.Len(t, st.Nodes, 2)
	require.Len(t, st.Nodes[1].Processes, 1)
	visitor := st.Nodes[1].Processes[0]
	require.Equal(t, os.Getpid(), visitor.Pid)
	require.Equal(t, int64(fabric.DefaultBankBytes), visitor.MemoryBytes)
	require.Equal(t, 1, visitor.NICs)
	require.Equal(t, 2, visitor.Regions)
	require.Equal(t, uint64(7*mem.PageBytes), visitor.RegionBytes)
	require.Len(t, st.Nodes[1].VIs, 1)
	require.Equal(t, "Idle", st.Nodes[1].VIs[0].State)
	require.Empty(t, st.Nodes[0].Processes)
	require.NoError(t, e.Close(th))
	require.NoError(t, p.Close())

	hvia(0, "down", "--name", "lab")
	for what, pid := range map[string]int{"service": st.Pid, "simulator": st.SimulatorPid} {
		require.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) }, 5*time.Second, 20*time.Millisecond, what)
	}
	left, err := filepath.Glob(filepath.Join(dir, "hvia", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "hvia", "lab.log")}, left)
	_, errs = hvia(1, "ps", "--name", "lab")
	require.Contains(t, errs, "nobody serves")
}

// zombie reports whether a process has ended but is not reaped, which happens
// if process 1 is no init.
func zombie(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// A temporary directory whose path is too long for a socket gives an error of
// one sentence.
func TestLongTemporaryDirectory(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(long, 0o755))
	for _, args := range [][]string{{"demo", "-s", "4"}, {"up", "--name", "lab"}} {
		cmd := exec.CommandContext(t.Context(), "hvia", args...)
		cmd.Dir = checkout(t)
		cmd.Env = append(os.Environ(), "TMPDIR="+long, "XDG_RUNTIME_DIR="+long)
		out, _ := cmd.CombinedOutput()
		require.Equal(t, cli.ExitEnvironment, cmd.ProcessState.ExitCode(), "%v: %s", args, out)
		require.Regexp(t, `^hvia: .*at most 107.*\n$`, string(out), "%v", args)
	}
}
