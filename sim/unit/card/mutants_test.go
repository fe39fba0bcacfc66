// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/layout"
	"hvia/sim/bridge"
	"hvia/sim/faulty"
	"hvia/sim/unit/internal/unit"
)

// Bugs injected into the card (package faulty), each with the test that must
// notice it.
var plantedFaults = []struct {
	name string
	// kind is the expected reason for the end of the run. Nil if the test
	// itself must notice the bug.
	kind  error
	catch func(r *rig)
}{
	{"writes go one page further", bridge.ErrMemoryFault, fourPages},
	{"reads go one page further", bridge.ErrMemoryFault, fourPages},
	{"the walk takes the page behind", nil, fourPages},
	{"one offset in a page", nil, shortMessages},
	{"generation not compared", nil, hostility(2500)},
	{"source address not compared", nil, hostility(2500)},
	{"old sequence accepted", nil, hostility(2500)},
	{"any number ahead is believed", nil, forgedNumbersPlay(100)},
	{"no run of frames sets the number", nil, forgedNumbersPlay(100)},
	{"bounds not compared", nil, hostility(2500)},
	{"enable bit of the VI ignored", nil, manyVIs(24)},
	{"tag not compared", nil, manyVIs(24)},
	{"the receive engine does not hold up a withdrawal", bridge.ErrMemoryFault, withdrawals(90)},
	{"the transmit engine does not hold up a withdrawal", bridge.ErrMemoryFault, withdrawals(400)},
	{"cached entries outlive a withdrawal", bridge.ErrMemoryFault, withdrawals(90)},
	{"overruns not counted", nil, func(r *rig) { flood(r, layout.MaxPayload) }},
	{"the offset of a send is not compared", nil, hostility(2500)},
	{"buffers are filled beyond Length", nil, conversation(100)},
	{"a segment is checked only as far as it is used", nil, conversation(100)},
	{"a descriptor is written whose memory is gone", bridge.ErrMemoryFault, conversation(100)},
	{"the rest of a message is forgotten at a disconnect", nil, conversation(100)},
	{"a message that was given up claims all of its bytes", nil, conversation(100)},
	{"a receive may be longer than the VI allows", nil, conversation(100)},
	{"a stray acknowledgement is believed", nil, reliableHostility(2500)},
	{"a frame that is ahead is taken", nil, reliableHostility(2500)},
	{"a NAK does not stand", nil, reliableHostility(2500)},
	{"an answer of another length is taken", nil, reliableHostility(4000)},
	{"what may be read is not compared", nil, reliableHostility(2500)},
	{"the rest of a small window waits for a timeout", nil, reliableHostility(2500)},
	{"a full completion queue is written over", nil, queueFull(1, 20)},
	{"a resized completion queue begins where the old one was", nil, queueResize(4)},
	{"a reset does not wait for the bus", nil, softResetRounds(24)},
}

func TestPlantedFaults(t *testing.T) {
	unit.FaultySimulator(t)
	program := faulty.Simulator(t)
	// Without a bug it passes.
	t.Run("none", func(t *testing.T) {
		mustPlay(t, config{program: program}, fourPages)
		mustPlay(t, config{program: program, rawLog2: 8}, reliableHostility(4000))
	})
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			faulty.Enable(t, f.name)
			err := mustCatch(t, config{program: program, rawLog2: 8}, f.catch)
			if f.kind != nil {
				require.ErrorIs(t, err, f.kind)
			}
		})
	}
	t.Run("quiet too soon", func(t *testing.T) {
		var digests [2]bridge.Digest
		faulty.Enable(t, "quiet too soon")
		c := config{program: program}
		errs := make([]error, 2)
		for i := range digests {
			c.noSkip, c.digest = i == 1, &digests[i]
			errs[i] = play(t, c, unit.Seed(t), fourPages)
		}
		require.NoError(t, errs[1], "with nothing skipped the hole has no effect")
		if errs[0] == nil {
			require.NotEqual(t, digests[0], digests[1], "the injected bug was not noticed")
		}
		t.Logf("noticed: %v", errors.Join(errs...))
	})
}
