// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/faulty"
	"hvia/sim/unit/internal/unit"
)

// The clock of an idle block changes no signal in it, so the simulator may
// leave it out.
func TestQuietBlocksDoNotChange(t *testing.T) {
	program := faulty.EarlyIdle(t)
	rounds := func(short, normal, long uint64) uint64 {
		return unit.Sizes{Short: short, Normal: normal, Long: long}.Pick()
	}
	for _, tt := range []struct {
		name   string
		config config
		body   func(r *rig)
	}{
		{"conversation", config{}, conversation(rounds(2, 20, 1_000))},
		{"conversation, every clock", config{noSkip: true}, conversation(rounds(1, 2, 20))},
		{"four pages", config{}, fourPages},
		{"unaligned", config{}, longMessages(rounds(1, 4, 200))},
		{"arbitration", config{}, busy(rounds(1, 2, 200))},
		{"hostile frames", config{rawLog2: 8}, hostility(rounds(40, 1_000, 20_000))},
		{"hostile frames, reliable", config{rawLog2: 8}, reliableHostility(rounds(40, 1_000, 20_000))},
		{"resizes", config{}, queueResize(rounds(2, 3, 100))},
		{"soft resets", config{}, softResetRounds(rounds(1, 3, 100))},
		{"many VIs", config{}, manyVIs(int(rounds(8, 24, 250)))},
		{"bad descriptors", config{}, badDescriptors(rounds(10, 40, 2_000))},
		{"withdrawals", config{}, withdrawals(rounds(2, 8, 500))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.config.program = program
			mustPlay(t, tt.config, tt.body)
		})
	}
}

// A block that says too early that it is idle is found.
func TestQuietMutants(t *testing.T) {
	unit.Enable(t, 0)
	err := play(t, config{program: faulty.EarlyIdle(t)}, unit.Seed(t), conversation(2))
	require.ErrorContains(t, err, "the clock of a quiet block changed board.card_socket.hvia_board.rx_rdata")
}
