// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// In free mode a limit in simulated time expires at once when the cards are
// idle, and never while the simulator does not run.
func TestSimulatedLimit(t *testing.T) {
	ctx := limited(t, time.Minute)
	f, slot := ownThread(t, ctx, sim.Free, "limited")
	for _, limit := range []bridge.Time{0, 1, bridge.Microsecond, bridge.Second, 1000 * bridge.Second} {
		before := slot.Clock()
		wake, err := slot.Park(ctx, bridge.Wait{Timeout: limit, Simulated: true, Message: true})
		require.NoError(t, err)
		require.Equal(t, layout.BridgeReasonDeadline, wake.Reason)
		require.GreaterOrEqual(t, wake.Time, before+limit)
	}
	require.NoError(t, slot.Post(ctx, bridge.Command{Opcode: layout.BridgeOpcodeMessage}))
	wake, err := slot.Park(ctx, bridge.Wait{Timeout: bridge.Never, Simulated: true, Message: true})
	require.NoError(t, err)
	require.Equal(t, layout.BridgeReasonMessage, wake.Reason)

	const stopped = 300 * time.Millisecond
	require.NoError(t, syscall.Kill(f.Pid(), syscall.SIGSTOP))
	began := time.Now()
	time.AfterFunc(stopped, func() { _ = syscall.Kill(f.Pid(), syscall.SIGCONT) })
	wake, err = slot.Park(ctx, bridge.Wait{Timeout: bridge.Microsecond, Simulated: true})
	require.NoError(t, err)
	require.Equal(t, layout.BridgeReasonDeadline, wake.Reason)
	require.GreaterOrEqual(t, time.Since(began), stopped)
}
