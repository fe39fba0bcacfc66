// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// noticeLimit bounds the time until every waiter learns that the run is over.
const noticeLimit = 2 * time.Second

func twoThreads() []sim.Thread {
	return []sim.Thread{{Node: 0, Rank: 0, Name: "left"}, {Node: 1, Rank: 0, Name: "right"}}
}

func attach(t *testing.T, ctx context.Context, f *sim.Fabric, node, rank int, name string) *host.Thread {
	t.Helper()
	th, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: node, Rank: rank}, name)
	require.NoError(t, err)
	return th
}

// both runs the programs of two threads at once and returns their errors.
func both(left, right func() error) (error, error) {
	done := make(chan error, 1)
	go func() { done <- right() }()
	l := left()
	return l, <-done
}

func TestDeadlockIsReported(t *testing.T) {
	ctx := testContext(t, time.Minute)
	var times []string
	for range 2 {
		f := startFabric(t, ctx, sim.Config{Threads: twoThreads()})
		left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
		errL, errR := both(
			func() error {
				if err := left.Sleep(1500 * host.Nanosecond); err != nil {
					return err
				}
				_, _, err := left.Receive(host.Never)
				return err
			},
			func() error {
				_, err := right.Poll(host.Poll{Ranges: []bridge.Range{{Address: 0x2000, Length: 4}}, Period: pollPeriod, Timeout: host.Never}, func() bool { return false })
				return err
			})
		for _, err := range []error{errL, errR} {
			require.ErrorIs(t, err, bridge.ErrDeadlock)
			var stop *bridge.StopError
			require.ErrorAs(t, err, &stop)
			require.Equal(t, 1500*host.Nanosecond, stop.Time)
			for _, part := range []string{"'left'", "a message", "'right'", "a write to [0x2000, 0x2004)"} {
				require.Contains(t, stop.Text, part)
			}
			times = append(times, stop.Time.String())
		}
		// Later calls get the error too.
		require.ErrorIs(t, left.Sleep(1), bridge.ErrDeadlock)
		require.ErrorIs(t, f.Conn().Err(), bridge.ErrDeadlock)
		_, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: 0, Rank: 7}, "late")
		require.ErrorIs(t, err, bridge.ErrDeadlock)
	}
	require.Equal(t, times[:2], times[2:])
}

// pause is the wall time that a test waits before it acts, a quarter of it with
// -short. It is not for limits, which a loaded machine would miss.
func pause(d time.Duration) time.Duration {
	if testing.Short() {
		return d / 4
	}
	return d
}

func TestStuckThreadIsNamed(t *testing.T) {
	ctx := testContext(t, time.Minute)
	posts := 4
	if testing.Short() {
		posts = 1
	}
	stopped := make(chan struct{})
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), StuckLimit: 200 * time.Millisecond})
	left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
	errL, errR := both(
		func() error {
			if err := left.Sleep(host.Microsecond); err != nil {
				return err
			}
			// An occasional post counts as activity.
			for range posts {
				time.Sleep(100 * time.Millisecond)
				if err := left.Publish(bridge.Range{Address: 0x1000, Length: 4}); err != nil {
					return err
				}
			}
			<-stopped
			return left.Sleep(host.Microsecond)
		},
		func() error {
			defer close(stopped)
			return right.Sleep(host.Millisecond)
		})
	for _, err := range []error{errL, errR} {
		require.ErrorIs(t, err, bridge.ErrStuck)
		require.Contains(t, err.Error(), "'left' (node 0 'a', rank 0, process "+strconv.Itoa(os.Getpid()))
	}
}

func TestStartTimeoutNamesTheMissing(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), StartLimit: 200 * time.Millisecond})
	left := attach(t, ctx, f, 0, 0, "left")
	err := left.Begin()
	require.ErrorIs(t, err, bridge.ErrStartTimeout)
	require.Contains(t, err.Error(), "'right' (node 1 'b', rank 0)")
	require.NotContains(t, strings.SplitN(err.Error(), "missing:", 2)[1], "'left'")
}

// playVictim is a process that will be killed. It does not exit by itself.
func playVictim(ctx context.Context, f *sim.Fabric) error {
	t, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: 1}, "right")
	if err != nil {
		return err
	}
	fmt.Println("attached")
	for {
		if err := t.Sleep(host.Nanosecond); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func TestKilledClientIsNamed(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := testContext(t, time.Minute)
			f := startFabric(t, ctx, sim.Config{Mode: mode, Threads: twoThreads(), MapNodes: []int{0}})
			left := attach(t, ctx, f, 0, 0, "left")
			victim := spawnVictim(t, f)
			require.NoError(t, left.Begin())
			killed := make(chan time.Time, 1)
			go func() {
				time.Sleep(pause(100 * time.Millisecond))
				killed <- time.Now()
				_ = victim.Process.Kill()
			}()
			_, _, err := left.Receive(host.Never)
			require.ErrorIs(t, err, bridge.ErrPeerDied)
			require.Less(t, time.Since(<-killed), noticeLimit)
			require.Contains(t, err.Error(), fmt.Sprintf("process %d ('victim') died", victim.Process.Pid))
			require.Contains(t, err.Error(), "'right' (node 1 'b', rank 0")
		})
	}
}

// spawnVictim returns when the victim has attached its thread.
func spawnVictim(t *testing.T, f *sim.Fabric) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=victim", "HVIA_PATH="+f.Path())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { end(cmd) })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "attached\n", line)
	return cmd
}

func TestOthersGoOnAfterADeath(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Mode: sim.Free, Threads: twoThreads(), MapNodes: []int{0}, ContinueOnDeath: true})
	left := attach(t, ctx, f, 0, 0, "left")
	victim := spawnVictim(t, f)
	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait()
	// The victim's frames were never in use; useAreas makes its memory accept
	// the transfer.
	m, err := f.Conn().Memory(0)
	require.NoError(t, err)
	require.NoError(t, useAreas(m))
	w := &worker{t: left, memory: m.Linear()}
	// The simulator learns of the death some time after the process is gone.
	// From then on the slot of its thread is free.
	probe, err := sim.Attach(ctx, f.Path(), bridge.Options{Nodes: []int{1}})
	require.NoError(t, err)
	defer probe.Close()
	require.Eventually(t, func() bool {
		th, err := host.Attach(ctx, probe.Conn(), host.ThreadID{Node: 1}, "right")
		return err == nil && th.Detach() == nil
	}, noticeLimit, 10*time.Millisecond)
	require.NoError(t, w.start(0, areaOf(0).target(0), 64, false))
	require.NoError(t, w.finish(0))
	require.NoError(t, left.Sleep(10*host.Millisecond))
	require.NoError(t, f.Conn().Err())
}

func TestKilledSimulator(t *testing.T) {
	ctx := testContext(t, time.Minute)
	path := filepath.Join(t.TempDir(), "fabric.sock")
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), SocketPath: path})
	left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
	killed := make(chan time.Time, 1)
	errL, errR := both(
		func() error {
			if err := left.Sleep(host.Microsecond); err != nil {
				return err
			}
			killed <- time.Now()
			if err := syscall.Kill(f.Pid(), syscall.SIGKILL); err != nil {
				return err
			}
			return left.Sleep(host.Second)
		},
		func() error { return right.Sleep(host.Second) })
	require.Less(t, time.Since(<-killed), noticeLimit)
	for _, err := range []error{errL, errR} {
		require.ErrorIs(t, err, bridge.ErrSimulatorDied)
		require.Contains(t, err.Error(), fmt.Sprintf("process %d", f.Pid()))
		require.Contains(t, err.Error(), "signal: killed")
	}
	require.NoError(t, f.Close())
	require.NoFileExists(t, path)
}

func TestSecondSimulatorOnOnePath(t *testing.T) {
	ctx := testContext(t, time.Minute)
	path := filepath.Join(t.TempDir(), "fabric.sock")
	cfg := sim.Config{Threads: twoThreads(), SocketPath: path}
	f := startFabric(t, ctx, cfg)
	cfg.Program = unit.Simulator(t)
	cfg.Nodes, cfg.MemoryBytes = []sim.Node{{Kind: "echo", Name: "a"}, {Kind: "echo", Name: "b"}}, memoryBytes
	_, err := sim.Start(ctx, cfg)
	require.ErrorIs(t, err, sim.ErrStart)
	require.Contains(t, err.Error(), "another simulator serves it")
	// The first fabric is unaffected.
	require.NoError(t, f.Conn().Err())
	left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
	errL, errR := both(func() error { return left.Sleep(5) }, func() error { return right.Sleep(5) })
	require.NoError(t, errors.Join(errL, errR))
	require.NoError(t, f.Close())
	require.NoFileExists(t, path)

	// An abandoned socket is replaced.
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	require.FileExists(t, path)
	g := startFabric(t, ctx, cfg)
	require.NoError(t, g.Close())

	_, err = sim.Attach(ctx, path, bridge.Options{})
	require.ErrorIs(t, err, bridge.ErrNoSimulator)
	require.Contains(t, err.Error(), path)
}

func TestBadStart(t *testing.T) {
	ctx := testContext(t, time.Minute)
	for name, c := range map[string]struct {
		cfg  sim.Config
		want string
	}{
		"unknown kind":     {sim.Config{Nodes: []sim.Node{{Kind: "abacus", Name: "a"}}, Mode: sim.Free}, "unknown kind"},
		"no nodes":         {sim.Config{Mode: sim.Free}, "0 nodes"},
		"three nodes":      {sim.Config{Mode: sim.Free, Nodes: make([]sim.Node, 3)}, "want KIND:NAME"},
		"timed, nobody":    {sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}}, "timed mode without --thread"},
		"thread twice":     {sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Threads: []sim.Thread{{Name: "x"}, {Name: "y"}}}, "declared twice"},
		"thread of node 9": {sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Threads: []sim.Thread{{Node: 9, Name: "x"}}}, "counted from 0"},
		"odd memory":       {sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Mode: sim.Free, MemoryBytes: 5000}, "multiple of 4096"},
		"unknown profile":  {sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Mode: sim.Free, Profile: "x"}, "no such profile"},
		"long path":        {sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Mode: sim.Free, SocketPath: "/tmp/" + strings.Repeat("x", 200)}, "a directory with a shorter path"},
		"no program":       {sim.Config{Program: "/nonexistent/hvia-sim"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cfg.Program == "" {
				c.cfg.Program = unit.Simulator(t)
			}
			_, err := sim.Start(ctx, c.cfg)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAttachRefusals(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), MapNodes: []int{0}})
	left := attach(t, ctx, f, 0, 0, "left")
	for _, c := range []struct {
		id   host.ThreadID
		name string
		want string
	}{
		{host.ThreadID{Node: 0}, "left", "is attached already"},
		{host.ThreadID{Node: 1}, "right", "did not ask for the memory of node 1"},
		{host.ThreadID{Node: 5}, "x", "did not ask for the memory of node 5"},
		{host.ThreadID{Node: -1}, "x", "count from 0"},
		{host.ThreadID{}, strings.Repeat("n", 300), "at most 191 bytes"},
	} {
		_, err := host.Attach(ctx, f.Conn(), c.id, c.name)
		require.ErrorContains(t, err, c.want)
	}
	require.NoError(t, left.Detach())
	_, err := host.Attach(ctx, f.Conn(), host.ThreadID{}, "middle")
	require.ErrorIs(t, err, bridge.ErrRejected)
	require.ErrorContains(t, err, "declared as 'left', not as 'middle'")
	require.ErrorIs(t, left.Sleep(1), host.ErrThreadDetached)
	_, err = f.Conn().Memory(1)
	require.ErrorIs(t, err, bridge.ErrNodeNotMapped)
	_, err = sim.Attach(ctx, f.Path(), bridge.Options{Nodes: []int{3}})
	require.ErrorIs(t, err, bridge.ErrRejected)
}

func TestTwoGoroutinesOnOneThread(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads()})
	left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
	done := make(chan error, 1)
	go func() { done <- left.Sleep(host.Millisecond) }() // lasts until right waits
	time.Sleep(100 * time.Millisecond)
	require.ErrorIs(t, left.Charge(1), host.ErrThreadBusy)
	require.ErrorIs(t, left.Detach(), host.ErrThreadBusy)
	_, err := left.Read(layout.EchoRegisterID)
	require.ErrorIs(t, err, host.ErrThreadBusy)
	require.ErrorContains(t, err, "thread 0/0 'left'")
	go func() { done <- errors.Join(right.Sleep(2*host.Millisecond), right.Detach()) }()
	require.NoError(t, <-done)
	require.NoError(t, left.Detach())
	require.NoError(t, <-done)
	require.Equal(t, host.Millisecond, left.Now(), "the rejected calls changed nothing")
}

func TestDmaOutsideFramesInUseStopsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		source bool
		want   string
	}{
		"write": {false, "the card of node 1 (b) tried to write host memory at physical address 0x7000"},
		"read":  {true, "the card of node 0 (a) tried to read host memory at physical address 0x181000"},
	} {
		t.Run(name, func(t *testing.T) {
			victim, errL, errR := strayTransfer(t, "", c.source)
			for _, err := range []error{errL, errR} {
				require.ErrorIs(t, err, bridge.ErrMemoryFault)
				require.ErrorContains(t, err, c.want)
				require.ErrorContains(t, err, "at t=")
			}
			require.Zero(t, victim, "the access was carried out")
		})
	}
}

func TestMutantUncheckedWriteIsCaught(t *testing.T) {
	program := mutant(t, uncheckedWriteBug)
	victim, errL, errR := strayTransfer(t, program, false)
	require.NoError(t, errors.Join(errL, errR))
	require.NotZero(t, victim)
}

// strayTransfer makes the card of node 0 read from an unused frame, or that of
// node 1 write to one. It returns the byte that a stray write changes, and the
// errors of the threads of both nodes.
func strayTransfer(t *testing.T, program string, source bool) (victim byte, errL, errR error) {
	t.Helper()
	const stray = 0x7000
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), Program: program})
	left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
	m, err := f.Conn().Memory(0)
	require.NoError(t, err)
	require.NoError(t, useAreas(m))
	w := &worker{t: left, memory: m.Linear()}
	rank := 0
	if source {
		rank = 1
		require.NoError(t, m.Release(int(areaOf(rank).source()/bridge.FrameBytes), bridge.UseRegion))
	}
	w.memory[areaOf(rank).source()] = 0xa5
	errL, errR = both(func() error {
		if err := w.start(rank, stray, 64, false); err != nil {
			return err
		}
		return errors.Join(left.Sleep(host.Millisecond), left.Detach())
	}, func() error { return errors.Join(right.Sleep(host.Millisecond), right.Detach()) })
	peer, err := f.Conn().Memory(1)
	require.NoError(t, err)
	return peer.Linear()[stray], errL, errR
}

func TestContextEndsACall(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := testContext(t, time.Minute)
			f := startFabric(t, ctx, sim.Config{Mode: mode, Threads: twoThreads()})
			left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
			// Right parks while left runs, so left decides when time moves.
			done := make(chan error, 1)
			go func() {
				_, ok, err := right.Receive(host.Never)
				if err == nil && !ok {
					err = errors.New("no message")
				}
				done <- errors.Join(err, right.Detach())
			}()
			require.NoError(t, left.Begin())
			if mode == sim.Timed {
				require.True(t, f.Conn().Reproducible())
			}
			// Reads that wait forever would be a deadlock. So wait in a barrier
			// without right, or with a timeout far in the future.
			short, cancel := context.WithTimeoutCause(ctx, pause(100*time.Millisecond), errors.New("enough"))
			defer cancel()
			left.SetContext(short)
			var err error
			if mode == sim.Timed {
				// A running thread of the other node stops time, so left's
				// sleep lasts.
				idle := attach(t, ctx, f, 1, 5, "idle")
				require.NoError(t, idle.Begin())
				err = left.Sleep(host.Second)
				require.NoError(t, idle.Detach())
			} else {
				err = left.Barrier(9, 2)
			}
			require.ErrorIs(t, err, bridge.ErrAborted)
			require.ErrorIs(t, err, context.Cause(short))
			require.False(t, f.Conn().Reproducible())
			// The thread remains usable.
			left.SetContext(ctx)
			require.NoError(t, left.Send(host.ThreadID{Node: 1}, []byte("go on")))
			require.NoError(t, left.Sleep(host.Microsecond))
			require.NoError(t, <-done)
		})
	}
}

func TestCloseEndsWaits(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads()})
	left := attach(t, ctx, f, 0, 0, "left")
	done := make(chan error, 1)
	go func() { done <- left.Sleep(host.Second) }()
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, f.Close())
	select {
	case err := <-done:
		require.ErrorIs(t, err, bridge.ErrClosed)
	case <-time.After(noticeLimit):
		t.Fatal("the wait goes on after Close")
	}
	require.ErrorIs(t, left.Write(layout.EchoDoorbell, 1), bridge.ErrClosed)
	_, err := f.Digest(ctx)
	require.ErrorIs(t, err, bridge.ErrClosed)
	require.NoError(t, left.Detach())
}

// playOwner starts a fabric, reports it and waits to be killed.
func playOwner(ctx context.Context) error {
	program, err := sim.EchoSimulator(ctx)
	if err != nil {
		return err
	}
	f, err := sim.Start(ctx, sim.Config{Program: program, Mode: sim.Free, Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, MemoryBytes: memoryBytes})
	if err != nil {
		return err
	}
	fmt.Printf("%d %s\n", f.Pid(), f.Path())
	<-ctx.Done()
	return f.Close()
}

// processGone reports whether a process has exited, reaped or not: its new
// parent may take time.
func processGone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.HasPrefix(string(b[strings.LastIndexByte(string(b), ')')+1:]), " Z")
}

func TestSimulatorEndsWithItsOwner(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=owner")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var pid int
	var path string
	_, err = fmt.Sscan(line, &pid, &path)
	require.NoError(t, err)
	require.FileExists(t, path)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Dir(path))
		return errors.Is(err, os.ErrNotExist) && processGone(pid)
	}, 5*time.Second, 10*time.Millisecond, "simulator %d or %s is left", pid, filepath.Dir(path))
}
