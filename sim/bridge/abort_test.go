// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// ownThread is a thread of the process that owns the fabric.
func ownThread(t testing.TB, ctx context.Context, mode sim.Mode, name string) (*sim.Fabric, *bridge.Slot) {
	t.Helper()
	cfg := sim.Config{Mode: mode}
	if mode == sim.Timed {
		cfg.Threads = []sim.Thread{{Node: 0, Rank: 0, Name: name}}
	}
	f := guestFabric(t, ctx, cfg)
	slot, err := f.Conn().Attach(ctx, 0, 0, name)
	require.NoError(t, err)
	require.NoError(t, slot.Begin(ctx))
	return f, slot
}

// The context of a call ends at about the same moment as its wait. The next
// call must not be affected.
func TestAbortNamesItsWait(t *testing.T) {
	rounds := 4000
	if os.Getenv("HVIA_LONG") == "1" {
		rounds = 100_000
	}
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := limited(t, 20*time.Minute)
			_, slot := ownThread(t, ctx, mode, "aborted")
			random := rand.New(rand.NewPCG(1, 2))
			short := bridge.Wait{Timeout: bridge.Microsecond, Message: true}
			aborted := 0
			for i := range rounds {
				once, cancel := context.WithCancel(ctx)
				start, spin := make(chan struct{}), random.IntN(20_000)
				go func() {
					<-start
					for range spin {
						runtime.KeepAlive(spin)
					}
					cancel()
				}()
				close(start)
				_, err := slot.Park(once, short)
				if err != nil {
					require.ErrorIs(t, err, bridge.ErrAborted)
					aborted++
				}
				wake, err := slot.Park(ctx, short)
				require.NoError(t, err, "round %d, after %d aborted calls", i, aborted)
				require.Equal(t, layout.BridgeReasonDeadline, wake.Reason)
				<-once.Done()
			}
			require.NotZero(t, aborted)
			require.Less(t, aborted, rounds)
		})
	}
}

// A request to end a wait that has already ended: the thread's process left it
// in the page too late.
func TestLateAbort(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := limited(t, time.Minute)
			_, slot := ownThread(t, ctx, mode, "late")
			short := bridge.Wait{Timeout: bridge.Microsecond, Message: true}
			for range 100 {
				_, err := slot.Park(ctx, short)
				require.NoError(t, err)
				bridge.RequestAbort(slot)
				_, err = slot.Park(ctx, short)
				require.NoError(t, err)
			}
			require.NoError(t, errors.Join(slot.Detach()))
		})
	}
}

// A wait of no time still returns a waiting message.
func TestWaitOfNoTime(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := limited(t, time.Minute)
			_, slot := ownThread(t, ctx, mode, "poller")
			look := bridge.Wait{Message: true}
			wake, err := slot.Park(ctx, look)
			require.NoError(t, err)
			require.Equal(t, layout.BridgeReasonDeadline, wake.Reason)
			for i := range 100 {
				c := bridge.Command{Opcode: layout.BridgeOpcodeMessage, Count: 1, Tag: 1}
				c.Data[0] = byte(i)
				require.NoError(t, slot.Post(ctx, c))
				// In timed mode the message comes an instant later.
				_, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Nanosecond})
				require.NoError(t, err)
				if mode == sim.Free {
					_, err = slot.Park(ctx, bridge.Wait{Timeout: 10 * bridge.Millisecond, Barrier: true})
					require.NoError(t, err)
				}
				wake, err = slot.Park(ctx, look)
				require.NoError(t, err)
				require.Equal(t, layout.BridgeReasonMessage, wake.Reason, "message %d", i)
				require.Equal(t, []byte{byte(i)}, wake.Message)
			}
		})
	}
}
