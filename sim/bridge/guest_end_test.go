// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

func TestNewGuestRejections(t *testing.T) {
	ctx := limited(t, time.Minute)
	f := guestFabric(t, ctx, sim.Config{Mode: sim.Free})
	owner := f.Conn()
	g := newGuest(t, ctx, f, bankOf(0))
	defer g.Socket.Close()
	m, err := owner.Memory(1)
	require.NoError(t, err)
	require.NoError(t, m.Acquire(99, bridge.UseRing))
	slot, err := owner.Attach(ctx, 1, 2, "agent")
	require.NoError(t, err)
	whose := fmt.Sprintf("process %d ('guest-0', guest %d on node 0 'a')", os.Getpid(), g.ID)
	for name, c := range map[string]struct {
		config bridge.GuestConfig
		want   string
	}{
		"no name":         {bridge.GuestConfig{Ranks: 1, Frames: 1}, "without a name"},
		"long name":       {bridge.GuestConfig{Name: strings.Repeat("n", 192), Ranks: 1, Frames: 1}, "at most 191 bytes"},
		"node":            {bridge.GuestConfig{Name: "x", Node: 2, Ranks: 1, Frames: 1}, "node 2 does not exist"},
		"negative":        {bridge.GuestConfig{Name: "x", FirstFrame: -1, Ranks: 1, Frames: 1}, "first frame -1"},
		"no frames":       {bridge.GuestConfig{Name: "x", Ranks: 1}, "a bank of 0 frames"},
		"too many frames": {bridge.GuestConfig{Name: "x", Ranks: 1, FirstFrame: 255, Frames: 2}, "node 0 has 256 frames"},
		"past the end":    {bridge.GuestConfig{Name: "x", Ranks: 1, FirstFrame: 256, Frames: 1}, "node 0 has 256 frames"},
		"no ranks":        {bridge.GuestConfig{Name: "x", Frames: 1}, "0 ranks"},
		"rank limit":      {bridge.GuestConfig{Name: "x", FirstRank: math.MaxInt32, Ranks: 1, Frames: 1}, "none above 2147483647"},
		"bank":            {bridge.GuestConfig{Name: "x", Ranks: 1, FirstFrame: 47, Frames: 2}, "frames 47 to 48: those of " + whose + " are 32 to 47"},
		"ranks":           {bridge.GuestConfig{Name: "x", FirstRank: 6, Ranks: 2, Frames: 1}, "ranks 6 to 7: those of " + whose + " are 4 to 6"},
		"rank taken":      {bridge.GuestConfig{Name: "x", Node: 1, FirstRank: 1, Ranks: 3, Frames: 1}, "ranks 1 to 3: thread 'agent'"},
		"in use":          {bridge.GuestConfig{Name: "x", Node: 1, Ranks: 1, FirstFrame: 90, Frames: 20}, "1 of them are in use by the card, frame 99 is the first"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := owner.NewGuest(ctx, c.config)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "make guest '"+c.config.Name+"'")
		})
	}
	require.ErrorContains(t, owner.Grant(ctx, g.ID, 256, true), "page 256 of the doorbells: there are 256")
	require.ErrorContains(t, owner.Grant(ctx, g.ID, -1, true), "count from 0")
	require.ErrorIs(t, owner.Grant(ctx, 77, 0, true), bridge.ErrRejected)
	require.ErrorContains(t, owner.Grant(ctx, 77, 0, true), "guest 77 does not exist")
	require.ErrorContains(t, owner.EndGuest(ctx, 77), "guest 77 does not exist")
	second := bankOf(0)
	second.FirstFrame, second.FirstRank = 100, 10
	other, err := owner.NewGuest(ctx, second)
	require.NoError(t, err)
	defer other.Socket.Close()
	require.ErrorContains(t, owner.Grant(ctx, other.ID, 0, true), "page 0 of the doorbells is granted to "+whose)
	require.NoError(t, owner.Grant(ctx, g.ID, 0, false))
	require.NoError(t, owner.Grant(ctx, other.ID, 0, true))

	// A guest may request none of this.
	guest := joinGuest(t, ctx, other)
	for _, err := range []error{
		func() error { _, err := guest.NewGuest(ctx, bankOf(1)); return err }(),
		guest.Grant(ctx, other.ID, 1, true), guest.EndGuest(ctx, g.ID),
		func() error { _, err := guest.Digest(ctx); return err }(),
	} {
		require.ErrorIs(t, err, bridge.ErrRejected)
		require.ErrorContains(t, err, "a guest may only request Attach")
	}
	bank, err := guest.Memory(0)
	require.NoError(t, err)
	require.ErrorIs(t, bank.Acquire(100, bridge.UseRegion), bridge.ErrNoUseTable)
	require.Zero(t, bank.Use(100))
	_, err = guest.Memory(1)
	require.ErrorIs(t, err, bridge.ErrNodeNotMapped)

	// Another process cannot connect.
	_, err = bridge.Dial(ctx, f.Path(), bridge.Options{})
	require.ErrorIs(t, err, bridge.ErrNoSimulator)
	require.NoError(t, slot.Detach())
	require.NoError(t, owner.Err())
}

func TestNoGuestsWithoutTheOption(t *testing.T) {
	program := echoProgram(t)
	ctx := limited(t, time.Minute)
	f, err := sim.Start(ctx, sim.Config{Program: program, Mode: sim.Free, Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, MemoryBytes: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	_, err = f.Conn().NewGuest(ctx, bankOf(0))
	require.ErrorIs(t, err, bridge.ErrRejected)
	require.ErrorContains(t, err, "--guests yes")
}

// The number of guests is limited. EndGuest makes space for another.
func TestGuestLimit(t *testing.T) {
	ctx := limited(t, time.Minute)
	f := guestFabric(t, ctx, sim.Config{Mode: sim.Free})
	config := func(i int) bridge.GuestConfig {
		return bridge.GuestConfig{Name: "many", FirstRank: i, Ranks: 1, FirstFrame: i, Frames: 1}
	}
	var guests []*bridge.Guest
	for i := range layout.BridgeMaxGuests {
		g, err := f.Conn().NewGuest(ctx, config(i))
		require.NoError(t, err)
		guests = append(guests, g)
	}
	_, err := f.Conn().NewGuest(ctx, config(layout.BridgeMaxGuests))
	require.ErrorContains(t, err, "64 guests, which is the limit")
	// All leave at once. Every end is reported.
	ends := map[bridge.GuestID]bool{}
	for _, g := range guests {
		require.NoError(t, g.Socket.Close())
	}
	for range guests {
		end := nextEnd(t, f.Conn())
		require.Equal(t, layout.BridgeGuestEndLeft, end.Reason)
		require.Contains(t, end.Text, "left at")
		ends[end.ID] = true
	}
	require.Len(t, ends, len(guests))
	for i, g := range guests {
		require.NoError(t, f.Conn().EndGuest(ctx, g.ID))
		again, err := f.Conn().NewGuest(ctx, config(i))
		require.NoError(t, err)
		require.Greater(t, again.ID, guests[len(guests)-1].ID, "no number is used twice")
		require.NoError(t, again.Socket.Close())
	}
}

// playVictim is a guest's process that will be killed. It never ends by itself.
func playVictim() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	conn, err := bridge.Join(ctx, os.NewFile(3, "socket"), bridge.Options{Name: "victim"})
	if err != nil {
		return err
	}
	g := conn.Guest()
	slot, err := conn.Attach(ctx, g.Node, g.FirstRank, "left")
	if err != nil {
		return err
	}
	m, err := conn.Memory(g.Node)
	if err != nil {
		return err
	}
	for i := range m.Linear() {
		m.Linear()[i] = 0xa5
	}
	if err := slot.Begin(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Never, Message: true})
	return err
}

func TestKilledGuest(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := limited(t, time.Minute)
			cfg := sim.Config{Mode: mode}
			if mode == sim.Timed {
				cfg.Threads = guestThreads
			}
			f := guestFabric(t, ctx, cfg)
			owner := f.Conn()
			g := newGuest(t, ctx, f, bankOf(0))
			other := joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1)))
			right := attachPlayer(t, ctx, other, bankOf(0), "right")

			victim := exec.Command(os.Args[0])
			victim.Env = append(os.Environ(), roleVariable+"=victim")
			victim.ExtraFiles = []*os.File{g.Socket}
			victim.Stderr = os.Stderr
			out, err := victim.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, victim.Start())
			defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
			require.NoError(t, g.Socket.Close())
			word, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "ready\n", word)
			lo, hi := g.FirstFrame*bridge.FrameBytes, (g.FirstFrame+g.Frames)*bridge.FrameBytes
			m, err := owner.Memory(0)
			require.NoError(t, err)
			require.Equal(t, bytes.Repeat([]byte{0xa5}, hi-lo), m.Linear()[lo:hi], "the owner sees the bank")
			require.Zero(t, m.Linear()[lo-1])
			require.Zero(t, m.Linear()[hi])

			require.NoError(t, victim.Process.Kill())
			end := nextEnd(t, owner)
			require.Equal(t, g.ID, end.ID)
			require.Equal(t, layout.BridgeGuestEndDied, end.Reason)
			require.False(t, end.Violation)
			require.Contains(t, end.Text, "('guest-0', guest")
			require.Contains(t, end.Text, "died at")
			require.Contains(t, end.Text, "thread 'left' (node 0 'a', rank 4")
			require.False(t, owner.Reproducible())

			// The card may still use the bank, so it stays.
			err = owner.EndGuest(ctx, g.ID)
			require.ErrorIs(t, err, bridge.ErrRejected)
			require.ErrorContains(t, err, "16 frames of its bank are in use by the card, frame 32 is the first")
			require.EqualValues(t, 0xa5, m.Linear()[lo])
			release(t, f, g)
			require.NoError(t, owner.EndGuest(ctx, g.ID))
			require.Equal(t, make([]byte, hi-lo), m.Linear()[lo:hi], "old contents are gone")

			// Its ranks and frames are free, and the next guest and the card
			// see new memory there.
			again := newGuest(t, ctx, f, bankOf(0))
			left := attachPlayer(t, ctx, joinGuest(t, ctx, again), bankOf(1), "left")
			require.Equal(t, make([]byte, hi-lo), left.memory.Linear())
			pingPong(t, ctx, left, right, 10)
			require.NoError(t, owner.Err())
		})
	}
}

func TestEndGuest(t *testing.T) {
	ctx := limited(t, time.Minute)
	f, g, conn, slot := guestThread(t, ctx, sim.Timed)
	waiting := make(chan error, 1)
	go func() {
		_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Never, Message: true})
		waiting <- err
	}()
	release(t, f, g)
	require.NoError(t, f.Conn().EndGuest(ctx, g.ID))
	err := <-waiting
	require.ErrorIs(t, err, bridge.ErrGuestEnded)
	require.ErrorContains(t, err, fmt.Sprintf("the owner of the fabric ended process %d ('guest-0', guest %d on node 0 'a')", os.Getpid(), g.ID))
	require.ErrorIs(t, conn.Err(), bridge.ErrGuestEnded)
	select {
	case end := <-f.Conn().Ended():
		require.Fail(t, "notified of what it did itself", "%v", end)
	case <-time.After(50 * time.Millisecond):
	}
	// A guest that has not joined yet learns it when it joins.
	late := newGuest(t, ctx, f, bankOf(0))
	release(t, f, late)
	require.NoError(t, f.Conn().EndGuest(ctx, late.ID))
	_, err = bridge.Join(ctx, late.Socket, bridge.Options{})
	require.ErrorIs(t, err, bridge.ErrGuestEnded)
}

// The owner's end ends the fabric, and guests learn the cause.
func TestOwnerEnds(t *testing.T) {
	ctx := limited(t, time.Minute)
	f, _, conn, slot := guestThread(t, ctx, sim.Free)
	waiting := make(chan error, 1)
	go func() {
		_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Never, Message: true})
		waiting <- err
	}()
	require.NoError(t, f.Conn().Close())
	err := <-waiting
	require.ErrorIs(t, err, bridge.ErrClosed)
	require.ErrorContains(t, err, fmt.Sprintf("process %d (", os.Getpid()))
	require.ErrorContains(t, err, "which owned the fabric")
	require.ErrorIs(t, conn.Err(), bridge.ErrClosed)
	_, open := <-f.Conn().Ended()
	require.False(t, open)
}

// A guest's thread that never waits holds up the others until the simulator
// ends the guest.
func TestStuckGuest(t *testing.T) {
	ctx := limited(t, time.Minute)
	f := guestFabric(t, ctx, sim.Config{Threads: guestThreads, StuckLimit: 300 * time.Millisecond})
	bad, good := newGuest(t, ctx, f, bankOf(0)), newGuest(t, ctx, f, bankOf(1))
	left := attachPlayer(t, ctx, joinGuest(t, ctx, bad), bankOf(1), "left")
	right := attachPlayer(t, ctx, joinGuest(t, ctx, good), bankOf(0), "right")
	require.NoError(t, left.slot.Begin(ctx))
	require.NoError(t, right.slot.Begin(ctx))
	_, err := right.slot.Park(ctx, bridge.Wait{Timeout: bridge.Millisecond})
	require.NoError(t, err, "it goes on")
	end := nextEnd(t, f.Conn())
	require.Equal(t, layout.BridgeGuestEndStuck, end.Reason)
	require.Equal(t, bad.ID, end.ID)
	require.Eventually(t, func() bool { return errors.Is(left.slot.Post(ctx), bridge.ErrStuck) }, 20*time.Second, time.Millisecond)
	require.NoError(t, f.Conn().Err())
}

// A guest's thread that computes for long between short sleeps holds up the
// others until the simulator ends the guest. Commands of the thread do not
// change that.
func TestStallingGuest(t *testing.T) {
	for name, act := range map[string]func(ctx context.Context, slot *bridge.Slot) error{
		"sleeps": func(ctx context.Context, slot *bridge.Slot) error {
			_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Nanosecond})
			return err
		},
		"posts": func(ctx context.Context, slot *bridge.Slot) error {
			return slot.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodePublish, Address: uint64(bankOf(0).FirstFrame * bridge.FrameBytes), Tag: 4})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t, 2*time.Minute)
			f := guestFabric(t, ctx, sim.Config{Threads: guestThreads, StuckLimit: 20 * time.Second, StallLimit: 500 * time.Millisecond})
			bad, good := newGuest(t, ctx, f, bankOf(0)), newGuest(t, ctx, f, bankOf(1))
			left := attachPlayer(t, ctx, joinGuest(t, ctx, bad), bankOf(1), "left")
			right := attachPlayer(t, ctx, joinGuest(t, ctx, good), bankOf(0), "right")
			require.NoError(t, left.slot.Begin(ctx))
			require.NoError(t, right.slot.Begin(ctx))
			done := make(chan error, 1)
			go func() {
				_, err := right.slot.Park(ctx, bridge.Wait{Timeout: bridge.Millisecond})
				done <- err
			}()
			// A guest may compute for the same time if simulated time advances.
			for range 12 {
				_, err := left.slot.Park(ctx, bridge.Wait{Timeout: bridge.Microsecond})
				require.NoError(t, err)
				time.Sleep(100 * time.Millisecond)
			}
			var err error
			for range 600 {
				if err = act(ctx, left.slot); err != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			require.ErrorIs(t, err, bridge.ErrStuck)
			require.ErrorContains(t, err, "held up simulated time for more than 500 ms")
			require.ErrorContains(t, err, "'guest-0'")
			require.NoError(t, <-done, "it goes on")
			end := nextEnd(t, f.Conn())
			require.Equal(t, layout.BridgeGuestEndStuck, end.Reason)
			require.Equal(t, bad.ID, end.ID)
			require.NoError(t, f.Conn().Err())
		})
	}
}

// A doorbell that was rung before its page was withdrawn is served.
func TestDoorbellTakenBack(t *testing.T) {
	for range 20 {
		ctx := limited(t, time.Minute)
		f, g, conn, slot := guestThread(t, ctx, sim.Free)
		other := joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1)))
		m, err := conn.Memory(0)
		require.NoError(t, err)
		p := &player{slot: slot, memory: m, peer: bankOf(1)}
		bridge.StoreWord(m.Linear(), sourceAt, 4711)
		r := layout.EchoRequest(m.Linear()[requestAt : requestAt+layout.EchoRequestSize])
		r.SetNode(1)
		r.SetTargetAddress(uint32(bankOf(1).FirstFrame*bridge.FrameBytes + targetAt))
		r.SetSourceAddress(p.address(sourceAt))
		r.SetLength(4)
		ring := bridge.Command{Opcode: layout.BridgeOpcodeWrite, Count: layout.DoorbellDwords, Address: layout.EchoDoorbell}
		bridge.StoreWord(ring.Data[:], 0, p.address(requestAt))
		require.NoError(t, slot.Post(ctx, ring))
		require.NoError(t, f.Conn().Grant(ctx, g.ID, 0, false))
		require.NoError(t, p.await(ctx, requestAt+layout.EchoRequestStatusOffset, 1))
		there, err := other.Memory(1)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return bridge.LoadWord(there.Linear(), targetAt) == 4711 }, 20*time.Second, time.Millisecond)
		// A doorbell after the withdrawal is a violation.
		require.NoError(t, slot.Post(ctx, ring))
		_, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Never})
		require.ErrorIs(t, err, bridge.ErrViolation)
		require.ErrorContains(t, err, "page 0 of the doorbells, which was not granted")
		require.NoError(t, f.Close())
	}
}

// Commands that a guest posted together with a violation do not reach the card.
func TestViolatorIsNotServed(t *testing.T) {
	ctx := limited(t, time.Minute)
	f, _, conn, slot := guestThread(t, ctx, sim.Timed)
	newer := newGuest(t, ctx, f, bankOf(1))
	defer newer.Socket.Close()
	m, err := conn.Memory(0)
	require.NoError(t, err)
	r := layout.EchoRequest(m.Linear()[requestAt : requestAt+layout.EchoRequestSize])
	r.SetNode(1)
	r.SetTargetAddress(uint32(bankOf(1).FirstFrame * bridge.FrameBytes))
	r.SetSourceAddress(uint32(m.First*bridge.FrameBytes + sourceAt))
	r.SetLength(4)
	ring := bridge.Command{Opcode: layout.BridgeOpcodeWrite, Count: layout.DoorbellDwords, Address: layout.EchoDoorbell}
	bridge.StoreWord(ring.Data[:], 0, uint32(m.First*bridge.FrameBytes+requestAt))
	require.NoError(t, slot.Post(ctx, ring, bridge.Command{Opcode: layout.BridgeOpcodeHoldWire, Tag: 1}))
	_, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Millisecond})
	require.ErrorIs(t, err, bridge.ErrViolation)
	d, err := f.Digest(ctx)
	require.NoError(t, err)
	require.Zero(t, d.Frames)
	require.Zero(t, r.Status())
}

// A guest cannot write the header in any of these ways.
func TestHeaderIsReadOnly(t *testing.T) {
	ctx := limited(t, time.Minute)
	f := guestFabric(t, ctx, sim.Config{Mode: sim.Free})
	g := newGuest(t, ctx, f, bankOf(0))
	fds, err := bridge.HelloDescriptors(g.Socket)
	require.NoError(t, err)
	require.Len(t, fds, 3, "header, bell, bank")
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fds[0]), unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err, "the kernel opens it; what counts is what can be done with it")
	defer unix.Close(again)
	for _, fd := range []int{fds[0], again} {
		_, err := unix.Mmap(fd, 0, layout.BridgeHeaderSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.ErrorIs(t, err, unix.EPERM)
		_, err = unix.Pwrite(fd, []byte{1}, layout.BridgeHeaderRunStateOffset)
		require.ErrorIs(t, err, unix.EPERM)
		require.ErrorIs(t, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, layout.BridgeHeaderSize), unix.EPERM)
		require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		require.ErrorIs(t, err, unix.EPERM)
		view, err := unix.Mmap(fd, 0, layout.BridgeHeaderSize, unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(t, err)
		require.Equal(t, uint64(layout.BridgeMagic), layout.BridgeHeader(view).Magic())
		require.ErrorIs(t, unix.Mprotect(view, unix.PROT_READ|unix.PROT_WRITE), unix.EACCES)
		require.NoError(t, unix.Munmap(view))
	}
	// A guest may write bell and bank, but it cannot shrink them.
	for _, fd := range fds[1:] {
		require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
	}
	require.NoError(t, f.Conn().Err())
}

// A node with 1 GiB, of which only touched pages exist.
func TestLargeMemory(t *testing.T) {
	ctx := limited(t, time.Minute)
	const frames = 1 << 18
	f := guestFabric(t, ctx, sim.Config{Mode: sim.Free, MemoryBytes: frames * bridge.FrameBytes})
	last, first := bankOf(0), bankOf(1)
	last.FirstFrame = frames - last.Frames
	left := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, last)), first, "left")
	right := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, first)), last, "right")
	pingPong(t, ctx, left, right, 5)
	m, err := f.Conn().Memory(0)
	require.NoError(t, err)
	require.Equal(t, frames, m.Frames)
	require.Len(t, m.Linear(), 1<<30)
	require.NotZero(t, bridge.LoadWord(m.Linear(), last.FirstFrame*bridge.FrameBytes+sourceAt))
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(m.FD, &stat))
	require.EqualValues(t, 1<<30, stat.Size)
	require.Less(t, stat.Blocks*512, int64(1<<20), "bytes that the file takes")
}
