// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// send posts a message of the given length.
func send(ctx context.Context, slot *bridge.Slot, node, rank, length int) error {
	left := length
	for {
		c := bridge.Command{Opcode: layout.BridgeOpcodeMessage, Address: uint64(node)<<32 | uint64(rank), Tag: uint64(length)}
		c.Count = uint32(min(left, len(c.Data)))
		if err := slot.Post(ctx, c); err != nil {
			return err
		}
		if left -= int(c.Count); left == 0 {
			return nil
		}
	}
}

// receive takes a message, if one comes in time.
func receive(ctx context.Context, slot *bridge.Slot) (bridge.Wake, error) {
	return slot.Park(ctx, bridge.Wait{Timeout: 100 * bridge.Millisecond, Message: true})
}

// visitor is a guest on node 0 that comes, acts and leaves.
func visitor(t *testing.T, ctx context.Context, f *sim.Fabric, visit int, do func(slot *bridge.Slot)) {
	t.Helper()
	g, err := f.Conn().NewGuest(ctx, bridge.GuestConfig{Name: fmt.Sprint("visitor-", visit), Pid: os.Getpid(), Node: 0, FirstRank: 100 + visit, Ranks: 1, FirstFrame: 32, Frames: 1})
	require.NoError(t, err)
	conn, err := bridge.Join(ctx, g.Socket, bridge.Options{})
	require.NoError(t, err)
	slot, err := conn.Attach(ctx, 0, g.FirstRank, "visitor")
	require.NoError(t, err)
	require.NoError(t, slot.Begin(ctx))
	do(slot)
	require.NoError(t, slot.Detach())
	require.NoError(t, conn.Close())
	require.Equal(t, layout.BridgeGuestEndLeft, nextEnd(t, f.Conn()).Reason)
	require.NoError(t, f.Conn().EndGuest(ctx, g.ID))
}

// residentBytes is the memory of the simulator's process.
func residentBytes(t *testing.T, f *sim.Fabric) int {
	t.Helper()
	pid := layout.BridgeHeader(bridge.HeaderOf(f.Conn())).SimulatorPid()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(t, err)
	fields := bytes.Fields(b)
	pages, err := strconv.Atoi(string(fields[1]))
	require.NoError(t, err)
	return pages * os.Getpagesize()
}

// Processes join, send the permitted number of messages to a process that never
// receives, and leave. The simulator does not grow, and no process ends because
// of the messages.
func TestMessagesOfProcessesThatLeft(t *testing.T) {
	visits := 40
	if os.Getenv("HVIA_LONG") == "1" {
		visits = 1000
	}
	ctx := limited(t, 30*time.Minute)
	f := guestFabric(t, ctx, sim.Config{Mode: sim.Free})
	victim := joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1)))
	box, err := victim.Attach(ctx, 1, 4, "victim")
	require.NoError(t, err)
	require.NoError(t, box.Begin(ctx))
	flood := func(visit int) {
		visitor(t, ctx, f, visit, func(slot *bridge.Slot) {
			for range layout.BridgeMaxGuestMessages {
				require.NoError(t, send(ctx, slot, 1, 4, 1000))
			}
		})
	}
	for i := range 3 {
		flood(i)
	}
	before := residentBytes(t, f)
	for i := range visits {
		flood(3 + i)
	}
	after := residentBytes(t, f)
	t.Logf("%d joins: simulator's memory %d bytes before, %d after", visits, before, after)
	require.Less(t, after-before, 2<<20, "after %d joins", visits)
	// A well-behaved process is served, and its message comes after those that
	// are kept.
	visitor(t, ctx, f, 5000, func(slot *bridge.Slot) {
		require.NoError(t, send(ctx, slot, 1, 4, 1001))
		_, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Millisecond, Barrier: true})
		require.NoError(t, err)
	})
	for i := range layout.BridgeMaxLeftMessages {
		wake, err := receive(ctx, box)
		require.NoError(t, err)
		require.Equal(t, layout.BridgeReasonMessage, wake.Reason, "message %d", i)
		if i == layout.BridgeMaxLeftMessages-1 {
			require.Len(t, wake.Message, 1001)
			require.Equal(t, 5100, wake.Rank)
		}
	}
	wake, err := receive(ctx, box)
	require.NoError(t, err)
	require.Equal(t, layout.BridgeReasonDeadline, wake.Reason, "more than are kept")
}

// Unreceived messages of a process that died are dropped.
func TestMessagesOfOneThatDied(t *testing.T) {
	ctx := limited(t, time.Minute)
	f, _, conn, slot := guestThread(t, ctx, sim.Free)
	victim := joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1)))
	box, err := victim.Attach(ctx, 1, 4, "victim")
	require.NoError(t, err)
	require.NoError(t, box.Begin(ctx))
	require.NoError(t, send(ctx, slot, 1, 4, 1))
	require.NoError(t, send(ctx, slot, 1, 4, 2))
	_, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Nanosecond}) // both are in the mailbox
	require.NoError(t, err)
	wake, err := receive(ctx, box)
	require.NoError(t, err)
	require.Len(t, wake.Message, 1)
	require.NoError(t, bridge.SendRaw(conn, []byte("not a request")))
	require.NotEqual(t, layout.BridgeGuestEndLeft, nextEnd(t, f.Conn()).Reason)
	wake, err = receive(ctx, box)
	require.NoError(t, err)
	require.Equal(t, layout.BridgeReasonDeadline, wake.Reason)
}

// A message for a rank without a thread is dropped. Its sender is notified and
// continues.
func TestMessageToNobody(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := limited(t, time.Minute)
			f, _, _, slot := guestThread(t, ctx, mode)
			gone := func() {
				t.Helper()
				wake, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Never, Message: true})
				require.NoError(t, err)
				require.Equal(t, layout.BridgeReasonRejected, wake.Reason)
				node, rank, refused := slot.Undelivered()
				require.True(t, refused)
				require.Equal(t, [2]int{1, 99}, [2]int{node, rank})
				_, _, refused = slot.Undelivered()
				require.False(t, refused)
			}
			before := residentBytes(t, f)
			for range 5000 {
				require.NoError(t, send(ctx, slot, 1, 99, 100))
				gone()
			}
			require.Less(t, residentBytes(t, f)-before, 1<<20)
			// A message to itself is delivered.
			require.NoError(t, send(ctx, slot, 0, 4, 7))
			wake, err := receive(ctx, slot)
			require.NoError(t, err)
			require.Len(t, wake.Message, 7)
			wake, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Microsecond, Message: true})
			require.NoError(t, err)
			require.Equal(t, layout.BridgeReasonDeadline, wake.Reason)
		})
	}
}

// enterBarrier arrives at barrier 0 of 2 parties.
func enterBarrier(ctx context.Context, slot *bridge.Slot, group string) error {
	c := bridge.Command{Opcode: layout.BridgeOpcodeBarrier, Count: 2, Tag: uint64(len(group))}
	copy(c.Data[:], group)
	return slot.Post(ctx, c)
}

// A barrier belongs to its group: a thread that enters one of the same number
// in another group releases nothing.
func TestBarrierGroups(t *testing.T) {
	ctx := limited(t, time.Minute)
	for _, groups := range [][3]string{{"", "", ""}, {"", "", "ours"}, {"ours", "ours", ""}, {"ours", "ours", "theirs"}} {
		t.Run(fmt.Sprintf("%q", groups), func(t *testing.T) {
			f, _, conn, first := guestThread(t, ctx, sim.Free)
			second, err := conn.Attach(ctx, 0, 5, "second")
			require.NoError(t, err)
			require.NoError(t, second.Begin(ctx))
			other := joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1)))
			stranger, err := other.Attach(ctx, 1, 4, "stranger")
			require.NoError(t, err)
			require.NoError(t, stranger.Begin(ctx))
			wait := func(slot *bridge.Slot, timeout bridge.Time) layout.BridgeReason {
				wake, err := slot.Park(ctx, bridge.Wait{Timeout: timeout, Barrier: true})
				require.NoError(t, err)
				return wake.Reason
			}
			require.NoError(t, enterBarrier(ctx, first, groups[0]))
			require.NoError(t, enterBarrier(ctx, stranger, groups[2]))
			require.Equal(t, layout.BridgeReasonDeadline, wait(stranger, 20*bridge.Millisecond))
			require.NoError(t, enterBarrier(ctx, second, groups[1]))
			require.Equal(t, layout.BridgeReasonBarrier, wait(first, bridge.Never))
			require.Equal(t, layout.BridgeReasonBarrier, wait(second, bridge.Never))
		})
	}
	// Processes that name the same group meet.
	f, _, _, first := guestThread(t, ctx, sim.Free)
	other := joinGuest(t, ctx, newGuest(t, ctx, f, bankOf(1)))
	second, err := other.Attach(ctx, 1, 4, "second")
	require.NoError(t, err)
	require.NoError(t, second.Begin(ctx))
	name := string(bytes.Repeat([]byte("x"), layout.BridgeMaxGroup))
	for _, slot := range []*bridge.Slot{first, second} {
		require.NoError(t, enterBarrier(ctx, slot, name))
	}
	for _, slot := range []*bridge.Slot{first, second} {
		wake, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Never, Barrier: true})
		require.NoError(t, err)
		require.Equal(t, layout.BridgeReasonBarrier, wake.Reason)
	}
}
