// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
)

func TestNumbers(t *testing.T) {
	require.Equal(t, "65,536", thousands(65536))
	require.Equal(t, "-1,234,567", thousands(-1234567))
	require.Equal(t, "999", thousands(999))
	require.Equal(t, "0.00", fixed(-0.001, 2))
	require.Equal(t, "+0.01", signed(0.01, 2))
	require.Equal(t, "0.00", signed(0.001, 2))
	require.Equal(t, "−1.50", signed(-1.5, 2))
	require.Equal(t, "89.9 %", percent(899_000))
	require.InDelta(t, 95.5, megabytes(65536, 686_240_000), 0.01)
	require.Equal(t, "64K", sizeLabel(65536))
	require.Equal(t, "2M", sizeLabel(2<<20))
	require.Equal(t, "aaa bbb\nccc", wrap("aaa bbb ccc", 8))
}

func TestFit(t *testing.T) {
	l, ok := fit([]point{{x: 2048, y: 34.0464}, {x: 4096, y: 53.0928}, {x: 65536, y: 624.4848}})
	require.True(t, ok)
	require.InDelta(t, 15, l.intercept, 1e-9)
	require.InDelta(t, 0.0093, l.slope, 1e-12)
	require.InDelta(t, 1, l.r2, 1e-12)
	_, ok = fit([]point{{x: 1, y: 1}, {x: 2, y: 2}})
	require.False(t, ok, "two points always lie on a line")
	l, ok = fit([]point{{x: 1, y: 1}, {x: 2, y: 3}, {x: 3, y: 1}})
	require.True(t, ok)
	require.InDelta(t, 0, l.r2, 1e-12)
}

func labels(a plot.Axis) []string {
	var list []string
	for _, tick := range a.Tick.Marker.Ticks(a.Min, a.Max) {
		if tick.Label != "" {
			list = append(list, tick.Label)
		}
	}
	return list
}

// A value stands at its tick.
func TestAxes(t *testing.T) {
	var a plot.Axis
	sizeAxis(&a, []float64{4, 65536})
	require.Equal(t, []string{"4", "16", "64", "256", "1K", "4K", "16K", "64K"}, labels(a))
	require.InDelta(t, (a.Norm(4)+a.Norm(65536))/2, a.Norm(512), 1e-12, "halfway on the axis")
	sizeAxis(&a, []float64{64})
	require.Equal(t, []string{"32", "64", "128"}, labels(a))
	logAxis(&a, []float64{12.5, 690})
	require.Equal(t, []string{"10", "20", "50", "100", "200", "500"}, labels(a))
	require.InDelta(t, a.Norm(100)-a.Norm(10), a.Norm(500)-a.Norm(50), 1e-12)
	linearAxis(&a, 5, 0.06, 1.5)
	require.Equal(t, []string{"0.0", "0.5", "1.0", "1.5"}, labels(a))
	linearAxis(&a, 6, -0.6, 1.5)
	require.Equal(t, []string{"-0.5", "0.0", "0.5", "1.0", "1.5"}, labels(a))
	linearSizeAxis(&a, []float64{65536})
	require.Equal(t, []string{"0", "8K", "16K", "24K", "32K", "40K", "48K", "56K", "64K"}, labels(a))
}
