// SPDX-License-Identifier: Apache-2.0

package benchtest

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim/faulty"
	"hvia/tools/mutants"
)

// WrongByteSimulator builds the simulator with a bug in the card: one wrong bit
// in long bursts. It takes minutes, so only 'make mutants' and 'make test-long'
// do it.
func WrongByteSimulator(t *testing.T) string {
	t.Helper()
	if !mutants.All() {
		t.Skip("builds a simulator with an injected bug: make mutants")
	}
	faulty.Enable(t, "a wrong bit in long bursts")
	return faulty.Simulator(t)
}

func Long() bool { return os.Getenv("HVIA_LONG") == "1" }

// Seed is the seed of tests that run the cards.
func Seed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("HVIA_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 0, 64)
		require.NoError(t, err, "HVIA_SEED")
		return n
	}
	return 1
}

// TakesSeconds skips a test with -short, which keeps one reproduction and one
// demo.
func TakesSeconds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}
