// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// newPlot is an empty plot in the style of this package. The panel has the
// titles of its axes.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.LineStyle = lineStyle(ink, 0.9, false)
		a.Tick.LineStyle = lineStyle(ink, 0.9, false)
		a.Tick.Length = vg.Points(6)
		a.Padding = 0
	}
	p.X.Tick.Label = textStyle(tickSize, false, ink, text.XCenter, text.YTop)
	p.Y.Tick.Label = textStyle(tickSize, false, ink, text.XRight, text.YCenter)
	return p
}

// sizeLabel writes a length that is a power of two as 64, 1K, 64K, 1M.
func sizeLabel(size float64) string {
	for _, unit := range []struct {
		bytes float64
		name  string
	}{{1 << 30, "G"}, {1 << 20, "M"}, {1 << 10, "K"}} {
		if size >= unit.bytes {
			return strconv.FormatFloat(size/unit.bytes, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(size, 'f', -1, 64)
}

// spread is the range of the finite values above zero; ok is false if there are
// none.
func spread(values []float64) (lo, hi float64, ok bool) {
	for _, v := range values {
		if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			continue
		}
		if !ok {
			lo, hi, ok = v, v, true
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi, ok
}

// sizeAxis makes an axis of message lengths, one tick for each power of two.
// Only every second one is labelled if there are many: 4, 16, 64, ...
func sizeAxis(a *plot.Axis, sizes []float64) {
	lo, hi, ok := spread(sizes)
	if !ok {
		lo, hi = 4, 65536
	}
	first, last := math.Floor(math.Log2(lo)), math.Ceil(math.Log2(hi))
	if first == last {
		first, last = first-1, last+1
	}
	step := 1.0
	for (last-first)/step > 8 {
		step *= 2
	}
	var ticks plot.ConstantTicks
	for e := first; e <= last; e++ {
		t := plot.Tick{Value: math.Exp2(e)}
		if math.Mod(e, step) == 0 {
			t.Label = sizeLabel(t.Value)
		}
		ticks = append(ticks, t)
	}
	// A third of an octave of space, so that no marker sits on an axis.
	a.Min, a.Max = math.Exp2(first-1.0/3), math.Exp2(last+1.0/3)
	a.Scale, a.Tick.Marker = plot.LogScale{}, ticks
}

// logAxis makes a logarithmic axis around values, with ticks at 1, 2 and 5 of
// each decade, or at whole decades if there are many.
func logAxis(a *plot.Axis, values []float64) {
	lo, hi, ok := spread(values)
	if !ok {
		lo, hi = 1, 10
	}
	if hi < lo*2 {
		lo, hi = lo/1.5, hi*1.5
	}
	a.Min, a.Max = lo/1.25, hi*1.25
	first, last := int(math.Floor(math.Log10(a.Min))), int(math.Ceil(math.Log10(a.Max)))
	decades := last - first
	every := 1 + decades/8
	var ticks plot.ConstantTicks
	for e := first; e <= last; e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow10(e)
			if v < a.Min || v > a.Max {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 && (e-first)%every == 0 || decades <= 4 && (m == 2 || m == 5) {
				t.Label = strconv.FormatFloat(v, 'g', 3, 64)
				if v < 1e6 && v >= 1e-3 {
					t.Label = strconv.FormatFloat(v, 'f', max(0, -e), 64)
				}
			} else if decades > 6 {
				continue
			}
			ticks = append(ticks, t)
		}
	}
	a.Scale, a.Tick.Marker = plot.LogScale{}, ticks
}

// linearAxis makes an axis from zero, or from a negative value, to a little
// above the largest value, with up to count ticks at round numbers.
func linearAxis(a *plot.Axis, count int, values ...float64) {
	lo, hi := 0.0, 0.0
	for _, v := range values {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if hi == lo {
		hi = lo + 1
	}
	span := (hi - lo) * 1.1
	if lo < 0 {
		lo -= (hi - lo) * 0.1
		span = (hi - lo) * 1.1
	}
	step := roundStep(span / float64(count))
	a.Min, a.Max = lo, lo+span
	a.Scale = plot.LinearScale{}
	a.Tick.Marker = linearTicks(a.Min, a.Max, step)
}

// roundStep is the least of 1, 2, 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

func linearTicks(lo, hi, step float64) plot.ConstantTicks {
	digits := max(0, int(-math.Floor(math.Log10(step))))
	var ticks plot.ConstantTicks
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi*(1+1e-9); k++ {
		ticks = append(ticks, plot.Tick{Value: k * step, Label: strconv.FormatFloat(k*step+0, 'f', digits, 64)})
	}
	return ticks
}

// linearSizeAxis is for quantities that are proportional to the length.
func linearSizeAxis(a *plot.Axis, sizes []float64) {
	_, hi, ok := spread(sizes)
	if !ok {
		hi = 65536
	}
	step := 1.0
	for hi/step > 8 {
		step *= 2
	}
	a.Min, a.Max, a.Scale = 0, hi*1.06, plot.LinearScale{}
	var ticks plot.ConstantTicks
	for v := 0.0; v <= a.Max; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: sizeLabel(v)})
	}
	a.Tick.Marker = ticks
}
