// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// forkerVariable makes this test program the process that forks.
const forkerVariable = "HVIA_BRIDGE_TEST_FORKER"

// playForker joins, forks, and continues with its thread. The child tries every
// call that talks to the simulator. Its exit status shows which did not fail.
func playForker() error {
	// A forked child has one thread of the Go runtime: nothing may require
	// another.
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	conn, err := bridge.Join(context.Background(), os.NewFile(3, "guest"), bridge.Options{})
	if err != nil {
		return err
	}
	g := conn.Guest()
	slot, err := conn.Attach(context.Background(), g.Node, g.FirstRank, "forker")
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := slot.Begin(ctx); err != nil {
		return err
	}
	calls := []func() error{
		func() error { return slot.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodeBarrier, Count: 1}) },
		func() error { _, err := slot.Park(ctx, bridge.Wait{Message: true, Timeout: bridge.Never}); return err },
		func() error { return slot.Begin(ctx) },
		func() error { _, err := conn.Attach(ctx, g.Node, g.FirstRank+1, "child"); return err },
		func() error { _, err := conn.Digest(ctx); return err },
		conn.Err,
		slot.Detach,
		conn.Close,
	}
	pid, _, failed := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if failed != 0 {
		return failed
	}
	if pid == 0 {
		for i, call := range calls {
			if !errors.Is(call(), bridge.ErrForked) {
				syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(i+1), 0, 0)
			}
		}
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	// Meanwhile the parent works. All replies are its own.
	for i := range 200 {
		if _, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Microsecond}); err != nil {
			return err
		}
		if i%20 == 0 {
			more, err := conn.Attach(ctx, g.Node, g.FirstRank+1, "more")
			if err != nil {
				return err
			}
			if err := more.Detach(); err != nil {
				return err
			}
		}
	}
	var status syscall.WaitStatus
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		done, err := syscall.Wait4(int(pid), &status, syscall.WNOHANG, nil)
		if done == int(pid) {
			break
		}
		if err != nil || time.Now().After(end) {
			_ = syscall.Kill(int(pid), syscall.SIGKILL)
			return errors.Join(err, errors.New("the child does not end"))
		}
	}
	if status != 0 {
		return errors.New("the child's call " + string(rune('0'+status.ExitStatus())) + " did not fail as it should")
	}
	if _, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Microsecond}); err != nil {
		return err
	}
	return errors.Join(slot.Detach(), conn.Close())
}

// A forked child that uses the library gets an error. Its parent is not
// affected.
func TestForkedChild(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := limited(t, 2*time.Minute)
			cfg := sim.Config{Mode: mode}
			if mode == sim.Timed {
				cfg.Threads = []sim.Thread{{Node: 0, Rank: 4, Name: "forker"}}
			}
			f := guestFabric(t, ctx, cfg)
			g := newGuest(t, ctx, f, bankOf(0))
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^$")
			cmd.Env = append(os.Environ(), forkerVariable+"=1", "GODEBUG=asyncpreemptoff=1")
			cmd.ExtraFiles = []*os.File{g.Socket}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.NoError(t, g.Socket.Close())
			require.Equal(t, layout.BridgeGuestEndLeft, nextEnd(t, f.Conn()).Reason)
			require.NoError(t, f.Conn().Err())
		})
	}
}
