// SPDX-License-Identifier: Apache-2.0

package benchtest

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/sim"
	"hvia/sim/verilate"
	"hvia/tools/mutants"
)

// wrongByte is a bug in the card: one wrong bit in long bursts.
var wrongByte = verilate.Mutant{
	File: "rtl/host/hvia_dma_write.sv", Old: ".in_data_i(beat_data_i)", New: ".in_data_i(beat_data_i ^ {{(W-1){1'b0}}, head_left_q[9:2] == 8'd75})",
}

// WrongByteSimulator builds the simulator with the bug wrongByte. It takes
// minutes, so only 'make mutants' and 'make test-long' do it.
func WrongByteSimulator(t *testing.T) string {
	t.Helper()
	if !mutants.All() {
		t.Skip("builds a simulator with an injected bug: make mutants")
	}
	program, err := sim.Build{Mutants: []verilate.Mutant{wrongByte}}.Program(t.Context())
	require.NoError(t, err)
	return program
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
