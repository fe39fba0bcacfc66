// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/verilate"
)

// The banks of the tests: one guest on each of two nodes, at different
// addresses.
const (
	bankFrames = 16
	pollPeriod = 220 * bridge.Nanosecond
)

func bankOf(node int) bridge.GuestConfig {
	return bridge.GuestConfig{Name: fmt.Sprintf("guest-%d", node), Pid: os.Getpid(), Node: node, FirstRank: 4, Ranks: 3, FirstFrame: 32 + 64*node, Frames: bankFrames}
}

func limited(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	if os.Getenv(verilate.FaultVariable) != "" { // the awaited event may never come
		limit = min(limit, 15*time.Second)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func guestFabric(t testing.TB, ctx context.Context, cfg sim.Config) *sim.Fabric {
	t.Helper()
	cfg.Program = echoProgram(t)
	if cfg.Nodes == nil {
		cfg.Nodes = []sim.Node{{Kind: "echo", Name: "a"}, {Kind: "echo", Name: "b"}}
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = 1 << 20
	}
	cfg.Guests = true
	f, err := sim.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// newGuest makes a guest, lets the card use its bank and gives it the echo
// device's doorbell.
func newGuest(t testing.TB, ctx context.Context, f *sim.Fabric, g bridge.GuestConfig) *bridge.Guest {
	t.Helper()
	made, err := f.Conn().NewGuest(ctx, g)
	require.NoError(t, err)
	m, err := f.Conn().Memory(g.Node)
	require.NoError(t, err)
	for i := range g.Frames {
		require.NoError(t, m.Acquire(g.FirstFrame+i, bridge.UseRegion))
	}
	require.NoError(t, f.Conn().Grant(ctx, made.ID, 0, true))
	return made
}

func release(t testing.TB, f *sim.Fabric, g *bridge.Guest) {
	t.Helper()
	m, err := f.Conn().Memory(g.Node)
	require.NoError(t, err)
	for i := range g.Frames {
		require.NoError(t, m.Release(g.FirstFrame+i, bridge.UseRegion))
	}
}

func joinGuest(t testing.TB, ctx context.Context, g *bridge.Guest) *bridge.Conn {
	t.Helper()
	conn, err := bridge.Join(ctx, g.Socket, bridge.Options{Name: g.Name})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

func nextEnd(t testing.TB, conn *bridge.Conn) bridge.GuestEnd {
	t.Helper()
	select {
	case end, open := <-conn.Ended():
		require.True(t, open, "the connection ended: %v", conn.Err())
		return end
	case <-time.After(20 * time.Second):
		require.Fail(t, "no guest ended within 20 s")
		return bridge.GuestEnd{}
	}
}

// player is one side of a ping-pong between two guests through the cards.
type player struct {
	slot   *bridge.Slot
	memory *bridge.Memory
	peer   bridge.GuestConfig
	seen   []bridge.Time
}

const (
	requestAt, sourceAt, targetAt = 0, 0x1000, 0x2000
)

func (p *player) address(offset int) uint32 {
	return uint32(p.memory.First*bridge.FrameBytes + offset)
}

func (p *player) send(ctx context.Context, number uint32, length int) error {
	view := p.memory.Linear()
	for i := 0; i < length; i += 4 {
		bridge.StoreWord(view, sourceAt+i, number*uint32(i+1))
	}
	bridge.StoreWord(view, sourceAt+length-4, number)
	r := layout.EchoRequest(view[requestAt : requestAt+layout.EchoRequestSize])
	r.SetNode(uint32(p.peer.Node))
	r.SetTargetAddress(uint32(p.peer.FirstFrame*bridge.FrameBytes + targetAt))
	r.SetSourceAddress(p.address(sourceAt))
	r.SetLength(uint32(length))
	r.SetInterrupt(0)
	r.SetStatus(0)
	c := bridge.Command{Opcode: layout.BridgeOpcodeWrite, Count: layout.DoorbellDwords, Address: layout.EchoDoorbell}
	bridge.StoreWord(c.Data[:], 0, p.address(requestAt))
	if err := p.slot.Post(ctx, c); err != nil {
		return err
	}
	return p.await(ctx, requestAt+layout.EchoRequestStatusOffset, 1)
}

// await polls a word of the bank.
func (p *player) await(ctx context.Context, offset int, value uint32) error {
	there := func() bool { return bridge.LoadWord(p.memory.Linear(), offset) == value }
	for !there() {
		if _, err := p.slot.Park(ctx, bridge.Wait{
			Timeout: bridge.Second, Period: pollPeriod, Watches: []bridge.Range{{Address: p.address(offset), Length: 4}}, Poll: there,
		}); err != nil {
			return err
		}
	}
	p.seen = append(p.seen, p.slot.Clock())
	return nil
}

// play sends first or second, and checks the received data.
func (p *player) play(ctx context.Context, rounds int, first bool) (err error) {
	// A thread that is done must not hold up time.
	defer func() { err = errors.Join(err, p.slot.Detach()) }()
	if err := p.slot.Begin(ctx); err != nil {
		return err
	}
	for i := range rounds {
		number, length := uint32(i+1), 4*(1+i*37%700)
		receive := func() error {
			if err := p.await(ctx, targetAt+length-4, number); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
			for k := 0; k < length-4; k += 4 {
				if got := bridge.LoadWord(p.memory.Linear(), targetAt+k); got != number*uint32(k+1) {
					return fmt.Errorf("round %d: dword %d is %#x", i, k/4, got)
				}
			}
			// The end mark of another length must not be there already.
			clear(p.memory.Linear()[targetAt : targetAt+0x1000])
			return nil
		}
		if first {
			if err := p.send(ctx, number, length); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		if err := receive(); err != nil {
			return err
		}
		if !first {
			if err := p.send(ctx, number, length); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
	}
	return nil
}

func attachPlayer(t testing.TB, ctx context.Context, conn *bridge.Conn, peer bridge.GuestConfig, name string) *player {
	t.Helper()
	g := conn.Guest()
	slot, err := conn.Attach(ctx, g.Node, g.FirstRank, name)
	require.NoError(t, err)
	m, err := conn.Memory(g.Node)
	require.NoError(t, err)
	require.Equal(t, g.FirstFrame, m.First)
	require.Len(t, m.Linear(), g.Frames*bridge.FrameBytes)
	return &player{slot: slot, memory: m, peer: peer}
}

func pingPong(t testing.TB, ctx context.Context, left, right *player, rounds int) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- right.play(ctx, rounds, false) }()
	err := left.play(ctx, rounds, true)
	require.NoError(t, errors.Join(err, <-done))
}

var guestThreads = []sim.Thread{{Node: 0, Rank: 4, Name: "left"}, {Node: 1, Rank: 4, Name: "right"}}

// Two guests on two nodes, in timed mode: every run is the same.
func TestGuestsRepeat(t *testing.T) {
	ctx := limited(t, 2*time.Minute)
	var first bridge.Digest
	var seen [2][]bridge.Time
	for run := range 3 {
		f := guestFabric(t, ctx, sim.Config{Threads: guestThreads})
		left := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(0))), bankOf(1), "left")
		right := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1))), bankOf(0), "right")
		pingPong(t, ctx, left, right, 50)
		d, err := f.Digest(ctx)
		require.NoError(t, err)
		require.True(t, d.Reproducible)
		if run == 0 {
			first, seen = d, [2][]bridge.Time{left.seen, right.seen}
			require.Greater(t, d.Frames, uint64(100))
			continue
		}
		require.Equal(t, first, d)
		require.Equal(t, seen, [2][]bridge.Time{left.seen, right.seen})
	}
}

func TestGuestsInFreeMode(t *testing.T) {
	ctx := limited(t, time.Minute)
	f := guestFabric(t, ctx, sim.Config{Mode: sim.Free})
	left := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(0))), bankOf(1), "left")
	right := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1))), bankOf(0), "right")
	pingPong(t, ctx, left, right, 50)
	require.NoError(t, f.Conn().Err())
}

// guestThread is a started thread of a guest on node 0. The fabric has another
// guest on node 1.
func guestThread(t *testing.T, ctx context.Context, mode sim.Mode) (f *sim.Fabric, g *bridge.Guest, conn *bridge.Conn, slot *bridge.Slot) {
	t.Helper()
	cfg := sim.Config{Mode: mode}
	if mode == sim.Timed {
		cfg.Threads = []sim.Thread{{Node: 0, Rank: 4, Name: "left"}}
	}
	f = guestFabric(t, ctx, cfg)
	g = newGuest(t, ctx, f, bankOf(0))
	conn = joinGuest(t, ctx, g)
	slot, err := conn.Attach(ctx, 0, 4, "left")
	require.NoError(t, err)
	require.NoError(t, slot.Begin(ctx))
	return f, g, conn, slot
}

// A violation ends the guest, which learns the reason.
func TestGuestViolations(t *testing.T) {
	for _, c := range violations() {
		for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
			if c.mode == "" || c.mode == mode {
				t.Run(c.name+"/"+string(mode), func(t *testing.T) { c.run(t, mode) })
			}
		}
	}
}

// violation is an action of a guest, and the reason for which the guest ends.
type violation struct {
	name    string
	command bridge.Command
	wait    *bridge.Wait
	mode    sim.Mode // both if empty
	want    string   // empty: the action is allowed
}

func violations() []violation {
	bank := bankOf(0)
	lo, hi := uint64(bank.FirstFrame)*bridge.FrameBytes, uint64(bank.FirstFrame+bank.Frames)*bridge.FrameBytes
	door := func(page, offset, count int) bridge.Command {
		return bridge.Command{Opcode: layout.BridgeOpcodeWrite, Count: uint32(count), Address: uint64(layout.PciBar1Base + page*layout.DoorbellPageBytes + offset)}
	}
	command := func(op layout.BridgeOpcode, count uint32, address, tag uint64) bridge.Command {
		return bridge.Command{Opcode: op, Count: count, Address: address, Tag: tag}
	}
	watch := func(address, length uint32) *bridge.Wait {
		return &bridge.Wait{Timeout: bridge.Microsecond, Watches: []bridge.Range{{Address: address, Length: length}}}
	}
	to := func(node, rank uint64) uint64 { return node<<32 | rank }
	return []violation{
		{name: "doorbell", command: door(0, 0, 3)},
		{name: "end of the page", command: door(0, 0xff4, 3)},
		{name: "beyond the page", command: door(0, 0xff8, 3), want: "goes beyond the end of page 0"},
		{name: "page of nobody", command: door(1, 0, 3), want: "page 1 of the doorbells, which was not granted"},
		{name: "last page", command: door(255, 0, 1), want: "page 255 of the doorbells, which was not granted"},
		{name: "behind the pages", command: door(256, 0, 1), want: "which is no doorbell"},
		{name: "register", command: command(layout.BridgeOpcodeWrite, 1, layout.EchoRegisterInterrupt, 0), want: "1 dwords to the card at 0xe0000008, which is no doorbell"},
		{name: "host memory", command: command(layout.BridgeOpcodeWrite, 1, lo, 0), want: "which is no doorbell"},
		{name: "four dwords", command: door(0, 0, 4), want: "tried to write 4 dwords"},
		{name: "no dwords", command: door(0, 0, 0), want: "tried to write 0 dwords"},
		{name: "crooked", command: door(0, 2, 1), want: "at a multiple of 4"},
		{name: "far", command: command(layout.BridgeOpcodeWrite, 1, 1<<32|layout.PciBar1Base, 0), want: "which is no doorbell"},
		{name: "publish the bank", command: command(layout.BridgeOpcodePublish, 0, lo, hi-lo)},
		{name: "publish before it", command: command(layout.BridgeOpcodePublish, 0, lo-4, 4), want: "publish 4 bytes at 0x1fffc, outside of its bank"},
		{name: "publish behind it", command: command(layout.BridgeOpcodePublish, 0, hi-4, 8), want: "outside of its bank"},
		{name: "publish around", command: command(layout.BridgeOpcodePublish, 0, lo, math.MaxUint64), want: "outside of its bank"},
		{name: "message", command: command(layout.BridgeOpcodeMessage, 0, to(1, 9), 0)},
		{name: "message to nowhere", command: command(layout.BridgeOpcodeMessage, 0, to(2, 0), 0), want: "node 2 rank 0, which does not exist"},
		{name: "piece too long", command: command(layout.BridgeOpcodeMessage, 33, to(1, 9), 64), want: "piece of 33 bytes"},
		{name: "message too long", command: command(layout.BridgeOpcodeMessage, 32, to(1, 9), layout.BridgeMaxMessage+1), want: "message of 3585 bytes"},
		{name: "more than the message", command: command(layout.BridgeOpcodeMessage, 32, to(1, 9), 8), want: "posted the command 4 (Message)"},
		{name: "barrier of none", command: command(layout.BridgeOpcodeBarrier, 0, 1, 0), want: "barrier 1 of 0 parties"},
		{name: "read", command: command(layout.BridgeOpcodeRead, 1, layout.EchoRegisterID, 1), want: "tried to read a register of the card at 0xe0000000"},
		{name: "reset", command: command(layout.BridgeOpcodeBusReset, 0, 0, 1000), want: "reset the system bus"},
		{name: "hold", command: command(layout.BridgeOpcodeHoldWire, 0, 0, 1), want: "hold the wire"},
		{name: "no command", command: command(99, 0, 0, 0), want: "posted the command 99, which does not exist"},
		{name: "watch", wait: watch(uint32(lo), uint32(hi-lo)), mode: sim.Timed},
		{name: "watch before", wait: watch(uint32(lo)-1, 4), want: "watch 4 bytes at 0x1ffff, outside of its bank"},
		{name: "watch behind", wait: watch(uint32(hi)-4, 5), want: "outside of its bank"},
		{name: "interrupt", wait: &bridge.Wait{Timeout: bridge.Microsecond, Interrupt: true}, want: "wait for the card's interrupt"},
		{name: "service", wait: &bridge.Wait{Timeout: bridge.Microsecond, Processor: bridge.ProcessorService}, want: "interrupt service"},
		{name: "charge", wait: &bridge.Wait{Timeout: bridge.Microsecond, Processor: bridge.ProcessorCharge}, mode: sim.Timed},
		{name: "long charge", wait: &bridge.Wait{Timeout: 11 * bridge.Second, Processor: bridge.ProcessorCharge}, mode: sim.Timed, want: "of processor time at once"},
	}
}

func (c violation) run(t *testing.T, mode sim.Mode) {
	ctx := limited(t, time.Minute)
	f, g, conn, slot := guestThread(t, ctx, mode)
	other := joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1)))
	wait := bridge.Wait{Timeout: bridge.Microsecond}
	if c.wait != nil {
		wait = *c.wait
	} else {
		if c.name == "doorbell" {
			// The doorbell would make the echo device write to the other
			// guest's bank.
			r := layout.EchoRequest(make([]byte, layout.EchoRequestSize))
			r.SetNode(1)
			r.SetTargetAddress(uint32(bankOf(1).FirstFrame) * bridge.FrameBytes)
			r.SetSourceAddress(uint32(bankOf(0).FirstFrame) * bridge.FrameBytes)
			r.SetLength(4)
			m, err := conn.Memory(0)
			require.NoError(t, err)
			copy(m.Linear(), r)
			bridge.StoreWord(c.command.Data[:], 0, uint32(bankOf(0).FirstFrame)*bridge.FrameBytes)
		}
		require.NoError(t, slot.Post(ctx, c.command))
	}
	if c.want != "" && mode == sim.Free {
		wait.Timeout = bridge.Never // a short one may end before the simulator has polled
	}
	_, err := slot.Park(ctx, wait)
	if c.want == "" {
		require.NoError(t, err)
		require.NoError(t, conn.Err())
		return
	}
	require.ErrorIs(t, err, bridge.ErrViolation)
	var stop *bridge.StopError
	require.ErrorAs(t, err, &stop)
	for _, part := range []string{c.want, fmt.Sprintf("process %d ('guest-0', guest %d on node 0 'a')", os.Getpid(), g.ID), "thread 'left'"} {
		require.Contains(t, stop.Text, part)
	}
	// So does every later call. Only the owner is notified.
	require.ErrorIs(t, slot.Post(ctx), bridge.ErrViolation)
	_, err = conn.Attach(ctx, 0, 5, "more")
	require.ErrorIs(t, err, bridge.ErrViolation)
	end := nextEnd(t, f.Conn())
	require.Equal(t, bridge.GuestEnd{ID: g.ID, Reason: layout.BridgeGuestEndViolation, Violation: true, Time: stop.Time, Text: stop.Text}, end)
	require.NoError(t, other.Err())
	require.NoError(t, f.Conn().Err())
	require.False(t, f.Conn().Reproducible())
}

func TestGuestAttachesItsRanksOnly(t *testing.T) {
	for name, c := range map[string]struct {
		node, rank int
	}{"other node": {1, 4}, "below": {0, 3}, "above": {0, 7}} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t, time.Minute)
			f, g, conn, slot := guestThread(t, ctx, sim.Free)
			_, err := conn.Attach(ctx, 0, 6, "own")
			require.NoError(t, err)
			_, err = conn.Attach(ctx, c.node, c.rank, "foreign")
			require.ErrorContains(t, err, fmt.Sprintf("tried to attach 'foreign' as node %d rank %d: its threads are of node 0 and have the ranks 4 to 6", c.node, c.rank))
			_, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Never})
			require.ErrorIs(t, err, bridge.ErrViolation)
			require.Equal(t, g.ID, nextEnd(t, f.Conn()).ID)
		})
	}
	// Its ranks are not available to others either.
	ctx := limited(t, time.Minute)
	f, g, _, _ := guestThread(t, ctx, sim.Free)
	_, err := f.Conn().Attach(ctx, 0, 5, "owner")
	require.ErrorIs(t, err, bridge.ErrRejected)
	require.ErrorContains(t, err, fmt.Sprintf("rank 5 belongs to process %d ('guest-0', guest %d", os.Getpid(), g.ID))
	_, err = f.Conn().Attach(ctx, 0, 7, "owner")
	require.NoError(t, err)
}
