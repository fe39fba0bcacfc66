// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/internal/benchtest"
	"hvia/costs"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/verilate"
	"hvia/vipl"
)

const matrixPage = "docs/reference/faults.md"

// Marks around the table on the page.
const (
	tableBegin = "<!-- printed by: go test ./bench/faults -run TestFaultMatrix -->\n"
	tableEnd   = "<!-- end -->\n"
)

// Every cell of the matrix is as the card promises, and the reference shows the
// outcomes. HVIA_UPDATE=1 rewrites the table.
func TestFaultMatrix(t *testing.T) {
	benchtest.TakesSeconds(t)
	m, err := Run(t.Context(), DefaultConfig())
	require.NoError(t, err)
	require.Len(t, m.Cells, len(matrixKinds)*len(matrixLevels)*len(matrixOperations))
	var text, table bytes.Buffer
	require.NoError(t, m.WriteText(&text))
	require.NoError(t, m.Failed(), "\n%s", &text)
	require.NoError(t, m.WriteTable(&table))

	root, err := verilate.Root()
	require.NoError(t, err)
	path := filepath.Join(root, matrixPage)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), tableBegin)
	require.True(t, ok, "%s has no %q", matrixPage, tableBegin)
	old, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no %q", matrixPage, tableEnd)
	if os.Getenv("HVIA_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(path, []byte(before+tableBegin+table.String()+tableEnd+after), 0o644))
		return
	}
	require.Equal(t, table.String(), old, "%s shows something else: 'HVIA_UPDATE=1 go test ./bench/faults -run TestFaultMatrix' writes it anew, if that was meant", matrixPage)
}

// The comparison can fail: another fault than the cell's gives an unexpected
// outcome, in every part of the outcome that faults change.
func TestFaultMatrixNotices(t *testing.T) {
	benchtest.TakesSeconds(t)
	b, err := costs.New(params.Base, nil)
	require.NoError(t, err)
	c := DefaultConfig()
	for _, at := range []struct {
		kind, planted    layout.WireFault
		level, operation int
	}{
		{layout.WireFaultDrop, layout.WireFaultDuplicate, 0, 0},
		{layout.WireFaultDelay, layout.WireFaultDrop, 0, 1},
		{layout.WireFaultDuplicate, layout.WireFaultCut, 1, 2},
		{layout.WireFaultCut, layout.WireFaultDrop, 2, 3},
	} {
		x := &matrixRun{level: matrixLevels[at.level].level, operation: at.operation, seed: c.Seed}
		require.NoError(t, x.run(t.Context(), c, b, matrixFaults(at.planted, matrixOperations[at.operation].frame)))
		require.False(t, expectedOutcome(at.kind, at.level, at.operation).same(x.seen), "%v for %v: %v", at.planted, at.kind, x.seen)
		require.True(t, expectedOutcome(at.planted, at.level, at.operation).same(x.seen), "%v: %v", at.planted, x.seen)
	}
}

func TestFaultMatrixConfig(t *testing.T) {
	for _, c := range []struct {
		spoil func(*Config)
		want  string
	}{
		{func(c *Config) { c.Kinds = []string{"melt"} }, `no kind of fault "melt"`},
		{func(c *Config) { c.Levels = nil }, "no reliability level: give at least one of"},
		{func(c *Config) { c.Operations = []string{"send", "send"} }, "operation send is listed twice"},
		{func(c *Config) { c.Profile = "none" }, "none"},
	} {
		cfg := DefaultConfig()
		c.spoil(&cfg)
		require.ErrorContains(t, cfg.Validate(), c.want)
	}
	for _, k := range matrixKinds {
		_, err := sim.ParseWireFaults(matrixFaults(k, layout.FrameOperationSend))
		require.NoError(t, err)
	}
	require.Equal(t, vipl.Unreliable, matrixLevels[0].level)
}
