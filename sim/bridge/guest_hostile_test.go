// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// The pages hold values that the library would not write.
func TestGarbageInTheSlotPage(t *testing.T) {
	wait := func(change func(p layout.BridgeSlot)) func(b []byte) {
		return func(b []byte) {
			p := layout.BridgeSlot(b[:layout.BridgeSlotSize])
			clock := p.WakeTime()
			p.SetWaitStart(clock)
			p.SetWaitDeadline(clock + 1000)
			p.SetWaitPeriod(1)
			p.SetWaitFlags(0)
			p.SetWaitWatches(0)
			change(p)
			bridge.StoreWord(b, layout.BridgeSlotWaitSequenceOffset, p.WaitSequence()+1)
			bridge.StoreWord(b, layout.BridgeSlotStateOffset, uint32(layout.BridgeStateWaiting))
		}
	}
	for name, c := range map[string]struct {
		scribble func(b []byte)
		timed    bool // only in timed mode
		want     string
	}{
		"state": {func(b []byte) { bridge.StoreWord(b, layout.BridgeSlotStateOffset, 77) }, false, "stored the state 77"},
		"tail": {func(b []byte) {
			bridge.StoreWord(b, layout.BridgeSlotCommandTailOffset, bridge.LoadWord(b, layout.BridgeSlotCommandHeadOffset)+257)
		}, false, "published 257 commands in a ring of 256"},
		"tail behind": {func(b []byte) {
			bridge.StoreWord(b, layout.BridgeSlotCommandTailOffset, bridge.LoadWord(b, layout.BridgeSlotCommandHeadOffset)-1)
		}, false, "published 4294967295 commands"},
		"watches":      {wait(func(p layout.BridgeSlot) { p.SetWaitWatches(9) }), false, "asked for 9 watched ranges"},
		"watch around": {wait(func(p layout.BridgeSlot) { p.SetWaitWatches(1); copy(p.Watches(), bytes.Repeat([]byte{0xff}, 16)) }), false, "outside of its bank"},
		"flags":        {wait(func(p layout.BridgeSlot) { p.SetWaitFlags(1 << 31) }), false, "flags 0x80000000, which do not exist"},
		"start before": {wait(func(p layout.BridgeSlot) { p.SetWaitStart(1 << 63) }), true, "when its clock is"},
		"start later":  {wait(func(p layout.BridgeSlot) { p.SetWaitStart(p.WakeTime() + 1) }), true, "when its clock is"},
		"end before":   {wait(func(p layout.BridgeSlot) { p.SetWaitDeadline(1 << 63) }), true, "when its clock is"},
		"charge to end": {wait(func(p layout.BridgeSlot) {
			p.SetWaitDeadline(math.MaxInt64)
			p.SetWaitFlags(layout.BridgeSlotWaitFlagsChargeMask)
		}), true, "of processor time at once"},
	} {
		for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
			if c.timed && mode != sim.Timed {
				continue
			}
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				ctx := limited(t, time.Minute)
				f, g, conn, slot := guestThread(t, ctx, mode)
				c.scribble(bridge.SlotPages(slot))
				bridge.RingBell(conn)
				end := nextEnd(t, f.Conn())
				require.Equal(t, g.ID, end.ID)
				require.True(t, end.Violation)
				require.Contains(t, end.Text, c.want)
				require.Eventually(t, func() bool { return errors.Is(conn.Err(), bridge.ErrViolation) }, 20*time.Second, time.Millisecond)
				require.NoError(t, f.Conn().Err())
			})
		}
	}
}

// A waiting thread may neither post nor change its wait. Otherwise wall time
// would decide when the change takes effect.
func TestGarbageWhileWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		scribble func(b []byte)
		want     string
	}{
		"command while it waits": {func(b []byte) {
			bridge.StoreWord(b, layout.BridgeSlotCommandTailOffset, bridge.LoadWord(b, layout.BridgeSlotCommandTailOffset)+1)
		}, "posted a command while it waited"},
		"wait while it waits": {func(b []byte) {
			bridge.StoreWord(b, layout.BridgeSlotWaitSequenceOffset, bridge.LoadWord(b, layout.BridgeSlotWaitSequenceOffset)+1)
		}, "changed its wait while it waited"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t, time.Minute)
			f, _, conn, slot := guestThread(t, ctx, sim.Timed)
			waiting := make(chan error, 1)
			go func() {
				_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Never, Message: true})
				waiting <- err
			}()
			pages := bridge.SlotPages(slot)
			require.Eventually(t, func() bool {
				return bridge.LoadWord(pages, layout.BridgeSlotStateOffset) == uint32(layout.BridgeStateWaiting)
			}, 20*time.Second, time.Millisecond)
			_, err := f.Digest(ctx) // the simulator has seen the wait
			require.NoError(t, err)
			c.scribble(pages)
			bridge.RingBell(conn)
			err = <-waiting
			require.ErrorIs(t, err, bridge.ErrViolation)
			require.ErrorContains(t, err, c.want)
			require.NoError(t, f.Conn().Err())
		})
	}
}

// A guest cannot stop the time of others, or fill the simulator's memory.
func TestGuestWithoutMeasure(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(ctx context.Context, slot *bridge.Slot) error
		want string
	}{
		"commands": {func(ctx context.Context, slot *bridge.Slot) error {
			return slot.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodePublish, Address: uint64(bankOf(0).FirstFrame * bridge.FrameBytes), Tag: 4})
		}, "more than 65536 times within 1000000 ps"},
		"waits": {func(ctx context.Context, slot *bridge.Slot) error {
			_, err := slot.Park(ctx, bridge.Wait{})
			return err
		}, "more than 65536 times within 1000000 ps"},
		"messages": {func(ctx context.Context, slot *bridge.Slot) error {
			if err := slot.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodeMessage, Address: 6}); err != nil {
				return err
			}
			_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Nanosecond})
			return err
		}, "when 1000 messages of its process are not received"},
		"barriers": {func(ctx context.Context, slot *bridge.Slot) error {
			for id := range uint64(2) {
				if err := slot.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodeBarrier, Count: 2, Address: id}); err != nil {
					return err
				}
			}
			_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Nanosecond})
			return err
		}, "tried to enter barrier 1 when it is in barrier 0"},
		"short sleeps": {func(ctx context.Context, slot *bridge.Slot) error {
			_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Picosecond})
			return err
		}, "more than 65536 times within 1000000 ps"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t, time.Minute)
			f, _, _, slot := guestThread(t, ctx, sim.Timed)
			var err error
			for i := 0; err == nil && i < 80000; i++ {
				err = c.act(ctx, slot)
			}
			require.ErrorIs(t, err, bridge.ErrViolation)
			require.ErrorContains(t, err, c.want)
			require.NoError(t, f.Conn().Err())
		})
	}
}

// Garbage in slot, ring, bell and socket ends only the guest that wrote it.
func TestHostileGuest(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			rounds := 1000
			if testing.Short() {
				rounds = 100
			}
			ctx := limited(t, 3*time.Minute)
			cfg := sim.Config{Mode: mode}
			if mode == sim.Timed {
				cfg.Threads = guestThreads
			}
			f := guestFabric(t, ctx, cfg)
			owner := f.Conn()
			left := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(0))), bankOf(1), "left")
			right := attachPlayer(t, ctx, joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1))), bankOf(0), "right")
			random := rand.New(rand.NewPCG(20041104, 8))
			bad := bridge.GuestConfig{Name: "hostile", Pid: os.Getpid(), FirstRank: 100, Ranks: 2, FirstFrame: 200, Frames: 4}
			var done atomic.Bool
			var played atomic.Int64
			players := make(chan error, 2)
			for i, p := range []*player{left, right} {
				go func() { players <- p.playUntil(ctx, i == 0, &done, &played) }()
			}
			violations := map[bridge.GuestID]bool{}
			drain := func() {
				for {
					select {
					case end := <-owner.Ended():
						if end.Violation {
							violations[end.ID] = true
						}
						continue
					default:
					}
					return
				}
			}
			for range rounds {
				bad.Node = random.IntN(2)
				hostileGuest(t, ctx, owner, random, bad)
				drain()
			}
			done.Store(true)
			require.NoError(t, errors.Join(<-players, <-players))
			drain()
			t.Logf("%d of %d guests violated the protocol while the others played %d rounds", len(violations), rounds, played.Load())
			require.Greater(t, len(violations), rounds/2)
			require.Greater(t, played.Load(), int64(20))
			require.NoError(t, owner.Err())
		})
	}
}

// hostileGuest is a guest that writes garbage until its connection ends.
func hostileGuest(t *testing.T, ctx context.Context, owner *bridge.Conn, random *rand.Rand, bad bridge.GuestConfig) {
	g, err := owner.NewGuest(ctx, bad)
	require.NoError(t, err)
	require.NoError(t, owner.Grant(ctx, g.ID, 9, true))
	conn, err := bridge.Join(ctx, g.Socket, bridge.Options{Name: "hostile"})
	require.NoError(t, err)
	slot, err := conn.Attach(ctx, bad.Node, 100, "hostile")
	require.NoError(t, err)
	for range 3 {
		scribble(random, bridge.SlotPages(slot), bad)
		if random.IntN(4) == 0 {
			bridge.SetBell(conn, random.Uint32())
		}
		bridge.RingBell(conn)
	}
	if random.IntN(4) == 0 {
		b := make([]byte, []int{0, 1, layout.BridgeRequestSize, 1000}[random.IntN(4)])
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if len(b) == layout.BridgeRequestSize && random.IntN(2) == 0 {
			r := layout.BridgeRequest(b)
			r.SetMagic(layout.BridgeMagic)
			r.SetOpcode(random.Uint32N(8))
		}
		_ = bridge.SendRaw(conn, b)
	}
	// The reply comes after a scan of all slots.
	require.NoError(t, owner.Grant(ctx, g.ID, 10, true))
	if random.IntN(2) == 0 {
		require.NoError(t, owner.EndGuest(ctx, g.ID))
		require.NoError(t, conn.Close())
	} else {
		require.NoError(t, conn.Close())
		require.NoError(t, owner.EndGuest(ctx, g.ID))
	}
}

// scribble writes nearly valid or random values.
func scribble(random *rand.Rand, pages []byte, g bridge.GuestConfig) {
	number := func() uint64 {
		lo := uint64(g.FirstFrame * bridge.FrameBytes)
		edges := []uint64{
			0, 1, 2, 3, 4, 7, 8, 9, 255, 256, 257, 1 << 31, 1<<32 - 1, 1 << 63, 1<<63 - 1, math.MaxUint64, lo, lo - 1, lo + 4*4096, layout.PciBar1Base, layout.PciBar1Base + 9*4096,
			bridge.LoadTime(pages),
		}
		if random.IntN(6) == 0 {
			return random.Uint64()
		}
		return edges[random.IntN(len(edges))]
	}
	p := layout.BridgeSlot(pages[:layout.BridgeSlotSize])
	tail := bridge.LoadWord(pages, layout.BridgeSlotCommandTailOffset)
	switch random.IntN(3) {
	case 0: // one or more commands
		for i := range uint32(1 + random.IntN(4)) {
			at := layout.BridgeSlotSize + int((tail+i)%layout.BridgeRingEntries)*layout.BridgeCommandSize
			c := layout.BridgeCommand(pages[at : at+layout.BridgeCommandSize])
			c.SetTime(number())
			c.SetOpcode(random.Uint32N(9))
			c.SetCount(uint32(number()))
			c.SetAddress(number())
			c.SetTag(number())
		}
		bridge.StoreWord(pages, layout.BridgeSlotCommandTailOffset, tail+uint32(1+random.IntN(4)))
	case 1: // a wait
		p.SetWaitStart(number())
		p.SetWaitDeadline(number())
		p.SetWaitPeriod(number())
		p.SetWaitFlags(uint32(number()))
		p.SetWaitWatches(uint32(number()))
		for i := range layout.BridgeMaxWatches {
			w := layout.BridgeWatch(p.Watches()[i*layout.BridgeWatchSize:][:layout.BridgeWatchSize])
			w.SetAddress(number())
			w.SetLength(number())
		}
		bridge.StoreWord(pages, layout.BridgeSlotWaitSequenceOffset, random.Uint32())
		bridge.StoreWord(pages, layout.BridgeSlotAbortOffset, uint32(random.IntN(2)))
		bridge.StoreWord(pages, layout.BridgeSlotStateOffset, uint32(layout.BridgeStateWaiting))
	case 2: // random values anywhere
		for range 1 + random.IntN(2000) {
			bridge.StoreWord(pages, 4*random.IntN(len(pages)/4), uint32(number()))
		}
	}
}

// playUntil plays rounds of a ping-pong until the first player is done.
func (p *player) playUntil(ctx context.Context, first bool, done *atomic.Bool, played *atomic.Int64) (err error) {
	defer func() { err = errors.Join(err, p.slot.Detach()) }()
	if err := p.slot.Begin(ctx); err != nil {
		return err
	}
	const last = 1 << 30
	receive := func() (uint32, error) {
		view := p.memory.Linear()
		there := func() bool { return bridge.LoadWord(view, targetAt) != 0 }
		for !there() {
			if _, err := p.slot.Park(ctx, bridge.Wait{Timeout: bridge.Second, Period: pollPeriod, Watches: []bridge.Range{{Address: p.address(targetAt), Length: 4}}, Poll: there}); err != nil {
				return 0, err
			}
		}
		v := bridge.LoadWord(view, targetAt)
		bridge.StoreWord(view, targetAt, 0)
		return v, nil
	}
	for number := uint32(1); ; number++ {
		if first {
			v := number
			if done.Load() {
				v = last
			}
			if err := p.send(ctx, v, 4); err != nil {
				return err
			}
		}
		got, err := receive()
		if err != nil {
			return err
		}
		if got != number && got != last {
			return fmt.Errorf("round %d: %d came", number, got)
		}
		if !first {
			if err := p.send(ctx, got, 4); err != nil {
				return err
			}
		}
		played.Add(1)
		if got == last {
			return nil
		}
	}
}
