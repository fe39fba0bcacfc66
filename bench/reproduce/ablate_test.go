// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/layout"
	"hvia/params"
)

// Every strap switches off what its name says: the expected figures move by
// about the expected amount, and the others stay.
func TestAblate(t *testing.T) {
	if testing.Short() {
		t.Skip("measures every variant")
	}
	c := DefaultAblateConfig()
	c.Iterations, c.Warmup = 1, 1
	shown := map[string]bool{}
	c.Progress = func(p rig.Progress) {
		shown[p.What] = true
		require.Equal(t, len(shown), p.Done)
		require.Equal(t, len(variants)*(len(ablationSizes)+len(gapSizes)), p.Total)
	}
	r, err := Ablate(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, r.Failed())
	require.Len(t, r.Ablations.Variants, len(variants))
	require.Contains(t, shown, "the card as it is: RDMA write, 4 bytes")
	require.Len(t, shown, len(variants)*(len(ablationSizes)+len(gapSizes)))
	// With one round, the polls may differ by one.
	const look = 0.25
	type change struct{ from, to float64 }
	same := change{-look, look}
	must := map[string]map[string]change{
		"the card as it is":          {figureShort: {0, 0}, figureFrame: {0, 0}, figureBandwidth: {0, 0}, figureSlope: {0, 0}, figureShortGap: {0, 0}, figureFrameGap: {0, 0}},
		"one packet buffer each way": {figureShort: same, figureFrame: same, figureBandwidth: {-46, -36}, figureSlope: {-52, -45}, figureShortGap: same, figureFrameGap: same},
		// The frame leaves a packet buffer while it comes in: about a frame's
		// time on the slower bus.
		"cut-through, transmit":           {figureShort: same, figureFrame: {-13, -7}, figureBandwidth: {0.8, 2.5}, figureSlope: {-0.5, 0.5}, figureShortGap: same},
		"cut-through, receive":            {figureShort: {-0.6, look}, figureFrame: {-6, -3}, figureBandwidth: {0.4, 1.2}, figureSlope: {-0.5, 0.5}, figureShortGap: same},
		"cut-through both ways":           {figureShort: {-0.6, look}, figureFrame: {-18, -12}, figureBandwidth: {1.5, 3.5}, figureSlope: {-0.5, 0.5}, figureShortGap: same},
		"no ATT overlap, SDRAM at 33 MHz": {figureShort: {0.6, 1.6}, figureFrame: {0.6, 1.6}, figureBandwidth: {-0.6, 0.05}, figureSlope: {-0.5, 0.5}},
		// The rate of either bus falls by some 30 %.
		"64-byte bursts": {figureShort: same, figureFrame: {5, 40}, figureBandwidth: {-40, -15}, figureSlope: {-45, -15}, figureShortGap: same},
		// Each of three translations reads host memory at least once.
		"ATT in host memory":            {figureShort: {0.9, 4}, figureFrame: {0.9, 4}, figureBandwidth: {-5, 0}},
		"receive descriptor on arrival": {figureShort: same, figureFrame: same, figureBandwidth: {-0.3, 0.3}, figureSlope: {-0.5, 0.5}, figureShortGap: {0.7, 2}, figureFrameGap: {0.7, 2}},
		"no ATT overlap":                {figureShort: {0, 0.6}, figureFrame: {0, 0.6}, figureBandwidth: {-0.3, 0.05}, figureSlope: {-0.5, 0.5}},
	}
	for _, v := range r.Ablations.Variants {
		require.Contains(t, must, v.Name)
		require.Len(t, v.Figures, len(figureUnits))
		for _, f := range v.Figures {
			t.Logf("%s, %s: %.3f, %+.3f", v.Name, f.Name, f.Value, f.Value-f.Base)
			require.Positive(t, f.Value)
			if m, ok := must[v.Name][f.Name]; ok {
				require.GreaterOrEqual(t, report.Rounded(f.Value-f.Base), m.from, "%s: %s", v.Name, f.Name)
				require.LessOrEqual(t, report.Rounded(f.Value-f.Base), m.to, "%s: %s", v.Name, f.Name)
			}
		}
	}
}

func TestVariants(t *testing.T) {
	require.Empty(t, variants[0].straps)
	require.Empty(t, variants[0].params, "the first is what the others are compared with")
	names := map[string]bool{}
	for i, v := range variants {
		require.False(t, names[v.name], "%s", v.name)
		names[v.name] = true
		require.True(t, i == 0 || len(v.straps) > 0, "%s: nothing is taken away", v.name)
		_, err := costs.New(params.Base, v.params)
		require.NoError(t, err)
		for f := range v.foreseen {
			require.True(t, slices.ContainsFunc(figureUnits, func(u struct{ name, unit string }) bool { return u.name == f }), "%s", f)
		}
		for _, s := range v.straps {
			require.NotContains(t, s.String(), "(", "a strap without a name")
		}
	}
	// Some variant shows the cost of every strap.
	straps := 0
	for s := layout.Strap(0); s < 32; s++ {
		if strings.Contains(s.String(), "(") {
			continue
		}
		straps++
		require.True(t, slices.ContainsFunc(variants, func(v variant) bool { return slices.Contains(v.straps, s) }), "no variant has the strap %s", s)
	}
	require.GreaterOrEqual(t, straps, 9)
}

func TestFiguresOf(t *testing.T) {
	write := []report.PingPongResult{{Size: 4, HalfRTTPs: 12_000_000}, {Size: 1400, HalfRTTPs: 60_000_000}, {Size: 32768, HalfRTTPs: 350_000_000}, {Size: 65536, HalfRTTPs: 670_000_000}}
	send := []report.PingPongResult{{Size: 4, HalfRTTPs: 14_900_000}, {Size: 1400, HalfRTTPs: 63_100_000}}
	require.Equal(t, map[string]float64{
		figureShort: 12, figureFrame: 60, figureBandwidth: 97.815, figureSlope: 102.4, figureShortGap: 2.9, figureFrameGap: 3.1,
	}, figuresOf(write, send))
}

func TestAblateRefuses(t *testing.T) {
	c := DefaultAblateConfig()
	c.Iterations = 0
	_, err := Ablate(t.Context(), c)
	require.ErrorIs(t, err, costs.ErrConfig)
}
