// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
)

func TestTsharkReadsTheCardsFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the card")
	}
	c := DefaultConfig()
	c.Sizes, c.Warmup, c.Iterations = []int{4, 4096}, 1, 1
	c.PcapFile = filepath.Join(t.TempDir(), "card.pcapng")
	_, err := Run(t.Context(), c)
	require.NoError(t, err)
	benchtest.WellFormed(t, c.PcapFile)
	require.NotEmpty(t, benchtest.Tshark(t, c.PcapFile, "eth.type == 0x88b5 && frame.len == 1514"))
	require.NotEmpty(t, benchtest.Tshark(t, c.PcapFile, "eth.type == 0x88b6"), "the connection")
	require.Equal(t, []string{"via0", "via1"}, benchtest.Unique(benchtest.Tshark(t, c.PcapFile, "eth", "frame.interface_name")))
}
