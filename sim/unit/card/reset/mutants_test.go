// SPDX-License-Identifier: Apache-2.0

package reset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/faulty"
	"hvia/sim/unit/internal/unit"
)

// Bugs injected into the reset logic (package faulty).
var plantedFaults = []string{
	"bus mastering survives RST#",
	"the enabled interrupts survive",
	"live VIs survive",
	"the receive descriptors on the chip survive",
	"the MAC is not reset",
	"ResetVI leaves the work queues as they are",
	"ResetVI does not wait for the engines",
}

func TestPlantedFaults(t *testing.T) {
	unit.FaultySimulator(t)
	program := faulty.Simulator(t)
	const strikes = 60
	// Without a bug it passes.
	t.Run("none", func(t *testing.T) { mustPlay(t, config{program: program}, blows(t, strikes)) })
	for _, name := range plantedFaults {
		t.Run(name, func(t *testing.T) {
			faulty.Enable(t, name)
			err := play(t, config{program: program}, unit.Seed(t), blows(t, strikes))
			require.Error(t, err, "the injected bug was not noticed")
			t.Logf("noticed: %v", err)
		})
	}
}
