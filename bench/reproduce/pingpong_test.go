// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/bench/rig"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
)

// pingPongOnFakes runs the programs of the ping-pong on fake cards, whose times
// only keep causes before effects.
func pingPongOnFakes(t *testing.T, x rig.Exchange, sizes []int, lose func(from int, frame []byte) bool) (*pingPong, error) {
	t.Helper()
	c := DefaultConfig()
	c.Sizes, c.Iterations, c.Warmup, c.Background = sizes, 3, 1, false
	p, err := newPingPong(c, x, sizes)
	require.NoError(t, err)
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Lose = lose
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return p, fabric.RunOn(ctx, f, fabric.RunConfig{Costs: p.board.Costs(), Seed: 1}, p.programs(func(int) bool { return true })...)
}

// Both directions carry every byte of every round, and posting the next receive
// delays no message.
func TestPingPongPrograms(t *testing.T) {
	sizes := []int{4, 1, 1472, 1473, 65536, 16}
	var elapsed [2][]host.Time
	for i, x := range []rig.Exchange{rig.RDMAWrite, rig.SendReceive} {
		operations := map[layout.FrameOperation]int{}
		p, err := pingPongOnFakes(t, x, sizes, func(_ int, frame []byte) bool {
			if layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia {
				operations[layout.FrameOperation(frame[layout.EthernetHeaderSize]&layout.ViaHeaderOperationVersionOperationMask)]++
			}
			return false
		})
		require.NoError(t, err, "%s", x)
		require.Equal(t, make([]string, len(sizes)), p.faults, "%s", x)
		elapsed[i] = p.elapsed
		frames := 0
		for _, n := range sizes {
			frames += 2 * p.rounds() * rig.FramesOf(n)
		}
		if x == rig.SendReceive {
			require.Equal(t, frames, operations[layout.FrameOperationSend])
			require.Equal(t, 1, operations[layout.FrameOperationRDMAWrite], "the accepting side writes where its buffer is")
		} else {
			require.Equal(t, frames+1, operations[layout.FrameOperationRDMAWrite])
		}
	}
	for k, n := range sizes {
		gap := (elapsed[1][k] - elapsed[0][k]) / 6 // per message
		require.Less(t, gap, host.Time(params.HostPostTime), "%d bytes: the post of the next receive lies beside the message", n)
		require.Greater(t, gap, -host.Time(params.HostPostTime), "%d bytes", n)
	}
}

// A lost message is an error and no hang, and a duplicated one is detected.
func TestPingPongMissesAMessage(t *testing.T) {
	for _, x := range []rig.Exchange{rig.RDMAWrite, rig.SendReceive} {
		via := 0
		_, err := pingPongOnFakes(t, x, []int{4}, func(_ int, frame []byte) bool {
			if layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia {
				via++
			}
			return via == 4
		})
		require.ErrorContains(t, err, "timeout", "%s", x)
	}
	_, err := pingPongOnFakes(t, rig.SendReceive, []int{3000}, func(_ int, frame []byte) bool {
		h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
		return layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia && uint32(h.Address()) == layout.MaxPayload && h.Handle() == 0
	})
	require.ErrorContains(t, err, "message cut off")
}
