// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"hvia/params"
)

// AddTargets derives targets, the model's curve and misses from the measured
// values. Profiles other than the paper's card have neither. fitted says that
// the run had the parameters as they are after the fit.
func (r *Report) AddTargets(fitted bool) {
	if r.Profile != params.Base {
		return
	}
	r.Results.Targets = targetsOf(&r.Results, fitted)
	r.Results.ModelCurve = modelCurveOf(&r.Results)
	r.Results.addGains()
	for _, t := range r.Results.Targets {
		if !t.OK {
			r.Misses = append(r.Misses, t.miss())
		}
	}
}

func (t Target) miss() string {
	s := fmt.Sprintf("%s: %s: %s %s, accepted are %s to %s", t.ID, t.Quantity, Number(&t.Calibrated), t.Unit, Number(&t.Low), Number(&t.High))
	if t.Paper != nil {
		s += fmt.Sprintf(", the paper has %s", Number(t.Paper))
	}
	if t.Low <= t.Calibrated && t.Calibrated <= t.High {
		s += "; in the band, but the shape is not as it must be"
	}
	return s
}

// Number writes a value of a target; "-" where there is none.
func Number(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// Rounded rounds to three decimals, so that a number is written in one way.
func Rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

func Microseconds(ps int64) float64 { return float64(ps) / 1e6 }

// curves are the results of one set of parameters that targets compare.
type curves struct {
	write, send []PingPongResult
	wait        []ReceiveWaitResult
	mvia, tcp   []PingPongResult
}

// HalfRTT returns the half round trip of a size in ps.
func HalfRTT(rows []PingPongResult, size int) (int64, bool) {
	for _, r := range rows {
		if r.Size == size {
			return r.HalfRTTPs, true
		}
	}
	return 0, false
}

// gaps are how much longer a send and receive takes than an RDMA write, in us,
// and how much more bandwidth the RDMA write gives, in MB/s, at each of the
// paper's sizes; nil if one of them was not measured.
func (c curves) gaps() (gap, gain []float64) {
	for _, n := range PaperSizes {
		w, ok := HalfRTT(c.write, n)
		s, also := HalfRTT(c.send, n)
		if !ok || !also || w <= 0 || s <= 0 {
			return nil, nil
		}
		gap = append(gap, Microseconds(s-w))
		gain = append(gain, float64(n)/Microseconds(w)-float64(n)/Microseconds(s))
	}
	return gap, gain
}

func mean(list []float64) float64 {
	var sum float64
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

// farthest is the largest distance of a value from the mean of all.
func farthest(list []float64) float64 {
	m, d := mean(list), 0.0
	for _, v := range list {
		d = max(d, math.Abs(v-m))
	}
	return d
}

// waitFrom is the length from which RecvWait's time must be a straight line.
const waitFrom = 2048

// waitSlope fits a line to the RecvWait times from waitFrom on: nanoseconds a
// byte and the coefficient of determination. It needs all of the paper's sizes
// from there.
func (c curves) waitSlope() (slope, r2 float64, ok bool) {
	var x, y []float64
	for _, n := range PaperSizes {
		if n < waitFrom {
			continue
		}
		k := slices.IndexFunc(c.wait, func(w ReceiveWaitResult) bool { return w.Size == n })
		if k < 0 {
			return 0, 0, false
		}
		x, y = append(x, float64(n)), append(y, float64(c.wait[k].MeanPs)/1e3)
	}
	slope, r2 = line(x, y)
	return slope, r2, true
}

// line is the slope of the least squares line through points, and its R^2.
func line(x, y []float64) (slope, r2 float64) {
	mx, my := mean(x), mean(y)
	var xx, xy, yy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
		yy += (y[i] - my) * (y[i] - my)
	}
	if xx == 0 || yy == 0 {
		return 0, 0
	}
	return xy / xx, xy * xy / (xx * yy)
}

// waitRises reports whether RecvWait's time grows with the paper's sizes.
func (c curves) waitRises() bool {
	last := int64(-1)
	for _, n := range PaperSizes {
		for _, w := range c.wait {
			if w.Size != n {
				continue
			}
			if w.MeanPs <= last {
				return false
			}
			last = w.MeanPs
		}
	}
	return true
}

// targetList holds targets, with the results after and before the fit.
type targetList struct {
	now, before curves
	all         []Target
}

// add checks one value, which f takes from the fitted results and, if the
// target was predicted, from those before the fit.
func (l *targetList) add(t Target, predicted bool, f func(curves) (float64, bool)) *Target {
	v, ok := f(l.now)
	if !ok {
		return &Target{}
	}
	t.Calibrated = Rounded(v)
	if p, ok := f(l.before); ok && predicted {
		p = Rounded(p)
		t.Predicted = &p
	}
	t.OK = t.Low <= t.Calibrated && t.Calibrated <= t.High
	l.all = append(l.all, t)
	return &l.all[len(l.all)-1]
}

func printed(v float64) *float64 { return &v }

// near accepts values within a tolerance of the paper's.
func near(tolerance, paper float64, t Target) Target {
	t.Paper, t.Low, t.High = &paper, Rounded((1-tolerance)*paper), Rounded((1+tolerance)*paper)
	return t
}

// rateOf returns the bandwidth at a size in MB/s.
func rateOf(rows []PingPongResult, size int) (float64, bool) {
	v, ok := HalfRTT(rows, size)
	return float64(size) / Microseconds(max(v, 1)), ok && v > 0
}

// baselines are those of the paper, and its numbers for them.
var baselines = []struct {
	name                                    string
	latency, bandwidth, slower, lessPrinted float64
	of                                      func(curves) []PingPongResult
}{
	{"M-VIA", 57.6, 63.5, 4.6, 1.5, func(c curves) []PingPongResult { return c.mvia }},
	{"TCP/IP", 117.9, 60.0, 9.4, 1.6, func(c curves) []PingPongResult { return c.tcp }},
}

// targetsOf compares results with the figures that the paper prints. It leaves
// out a target if one of its sizes was not measured. fitted says that a
// parameter was fitted to the bandwidth.
func targetsOf(r *Results, fitted bool) []Target {
	l := targetList{now: curves{r.RDMAWrite, r.SendReceive, r.ReceiveWait, r.Mvia, r.Tcp}}
	if p := r.Prediction; p != nil {
		l.before = curves{p.RDMAWrite, p.SendReceive, p.ReceiveWait, p.Mvia, p.Tcp}
	} else if !fitted {
		l.before = l.now
	}
	of := func(pick func(gap, gain []float64) float64) func(curves) (float64, bool) {
		return func(c curves) (float64, bool) {
			gap, gain := c.gaps()
			if gap == nil {
				return 0, false
			}
			return pick(gap, gain), true
		}
	}
	l.add(Target{ID: "T1", Quantity: "half round trip of an RDMA write of 4 bytes", Unit: "us", Paper: printed(12.5), Low: 11.9, High: 13.1, Kind: KindPrediction}, true,
		func(c curves) (float64, bool) { v, ok := HalfRTT(c.write, 4); return Microseconds(v), ok })
	for _, p := range baselines {
		l.add(near(0.01, p.latency, Target{ID: "T2", Quantity: "half round trip of " + p.name + ", 4 bytes", Unit: "us", Kind: KindCalibration}), true,
			func(c curves) (float64, bool) { v, ok := HalfRTT(p.of(c), 4); return Microseconds(v), ok })
	}
	bandwidth := Target{ID: "T3", Quantity: "bandwidth of RDMA writes of 65,536 bytes", Unit: "MB/s", Paper: printed(95.5), Low: 92.6, High: 98.4, Kind: KindPrediction}
	if fitted {
		bandwidth.Kind = KindCalibration
	}
	l.add(bandwidth, true, func(c curves) (float64, bool) { return rateOf(c.write, 65536) })
	for _, p := range baselines {
		l.add(near(0.01, p.bandwidth, Target{ID: "T4", Quantity: "bandwidth of " + p.name + ", 65,536 bytes", Unit: "MB/s", Kind: KindCalibration}), true,
			func(c curves) (float64, bool) { return rateOf(p.of(c), 65536) })
	}
	l.add(Target{ID: "T5", Quantity: "send and receive over RDMA write, mean over sizes", Unit: "us", Paper: printed(2.9), Low: 2.6, High: 3.2, Kind: KindCalibration}, false,
		of(func(gap, _ []float64) float64 { return mean(gap) }))
	l.add(Target{ID: "T5", Quantity: "the same, largest distance of a size from the mean", Unit: "us", Low: 0, High: 0.6, Kind: KindPrediction}, true,
		of(func(gap, _ []float64) float64 { return farthest(gap) }))
	l.add(Target{ID: "T6", Quantity: "largest gain of bandwidth by RDMA write", Unit: "MB/s", Paper: printed(1.4), Low: 1.1, High: 1.7, Kind: KindPrediction}, true,
		of(func(_, gain []float64) float64 { return slices.Max(gain) }))
	l.add(Target{ID: "T7", Quantity: "smallest gain of bandwidth by RDMA write", Unit: "MB/s", Paper: printed(tenthGain), Low: tenthLow, High: tenthHigh, Kind: KindPrediction}, true,
		of(func(_, gain []float64) float64 { return slices.Min(gain) }))
	l.all = append(l.all, postTargets(r.PostReceive)...)
	slope := l.add(Target{ID: "T9", Quantity: "VipRecvWait, slope from 2,048 bytes on", Unit: "ns/B", Low: 8.37, High: 10.23, Kind: KindPrediction}, true,
		func(c curves) (float64, bool) { v, _, ok := c.waitSlope(); return v, ok })
	if _, r2, _ := l.now.waitSlope(); r2 <= 0.99 || !l.now.waitRises() {
		slope.OK = false
	}
	if u := r.Bursts; u != nil {
		for _, bus := range []struct {
			name  string
			paper float64
			got   int64
		}{{"system", 120, u.SystemBytesPerSec}, {"MAC", 117, u.MACBytesPerSec}} {
			l.add(near(0.01, bus.paper, Target{ID: "T10", Quantity: "512-byte bursts on the " + bus.name + " bus", Unit: "MB/s", Kind: KindCalibration}), false,
				func(curves) (float64, bool) { return float64(bus.got) / 1e6, true })
		}
	}
	l.ratios()
	return l.all
}

// ratios adds the targets that compare RDMA write with the baselines.
func (l *targetList) ratios() {
	for _, p := range baselines {
		l.add(near(0.05, p.slower, Target{ID: "T11", Quantity: "latency of " + p.name + " over that of RDMA write", Unit: "times", Kind: KindDerived}), true,
			func(c curves) (float64, bool) {
				slow, ok := HalfRTT(p.of(c), 4)
				fast, also := HalfRTT(c.write, 4)
				return float64(slow) / float64(max(fast, 1)), ok && also && fast > 0
			})
	}
	for _, p := range baselines {
		l.add(near(0.05, p.lessPrinted, Target{ID: "T11", Quantity: "bandwidth of RDMA write over that of " + p.name, Unit: "times", Kind: KindDerived}), true,
			func(c curves) (float64, bool) {
				fast, ok := rateOf(c.write, 65536)
				slow, also := rateOf(p.of(c), 65536)
				return fast / max(slow, 1e-9), ok && also
			})
	}
	for _, p := range baselines {
		l.add(Target{ID: "T12", Quantity: "where RDMA write is not ahead of " + p.name, Unit: "of 12 lengths", Low: 0, High: 0, Kind: KindPrediction}, true,
			func(c curves) (float64, bool) { return behind(c.write, p.of(c)) })
	}
}

// behind is the number of the paper's sizes at which the first takes at least
// as long as the second; false if a size was not measured.
func behind(first, second []PingPongResult) (n float64, ok bool) {
	for _, size := range PaperSizes {
		a, have := HalfRTT(first, size)
		b, also := HalfRTT(second, size)
		if !have || !also {
			return 0, false
		}
		if a >= b {
			n++
		}
	}
	return n, true
}

// postTargets are those of VipPostRecv, which need all of the paper's sizes.
func postTargets(rows []PostReceiveResult) []Target {
	var means []float64
	var low, high int64
	for _, n := range PaperSizes {
		k := slices.IndexFunc(rows, func(p PostReceiveResult) bool { return p.Size == n })
		if k < 0 {
			return nil
		}
		p := rows[k]
		if len(means) == 0 {
			low, high = p.MinPs, p.MaxPs
		}
		means = append(means, Microseconds(p.MeanPs))
		low, high = min(low, p.MinPs), max(high, p.MaxPs)
	}
	six := 6.0
	level := Target{ID: "T8", Quantity: "processor time of VipPostRecv, mean over sizes", Unit: "us", Paper: &six, Low: 5.7, High: 6.3, Kind: KindCalibration, Calibrated: Rounded(mean(means))}
	flat := Target{ID: "T8", Quantity: "the same, longest less shortest", Unit: "% of the mean", Low: 0, High: 5, Kind: KindCalibration, Calibrated: Rounded(100 * Microseconds(high-low) / mean(means))}
	for _, t := range []*Target{&level, &flat} {
		t.OK = t.Low <= t.Calibrated && t.Calibrated <= t.High
	}
	return []Target{level, flat}
}

// modelPoint is a row of the model in docs/explanation/reproduction.md, half
// round trips in tenths of a microsecond.
type modelPoint struct {
	size                   int
	write, send, mvia, tcp int64
}

// modelTable has the curves of docs/explanation/reproduction.md, The model: the
// model with the fitted set and page-aligned buffers. The paper prints none of
// these.
var modelTable = []modelPoint{
	{4, 127, 156, 576, 1179}, {16, 128, 157, 577, 1184}, {64, 147, 176, 592, 1204},
	{256, 223, 252, 653, 1282}, {1024, 499, 528, 898, 1596}, {1400, 623, 652, 1019, 1749},
	{2048, 697, 726, 1174, 1899}, {4096, 885, 914, 1438, 2158}, {8192, 1287, 1316, 2046, 2752},
	{16384, 2092, 2121, 3263, 3941}, {32768, 3680, 3709, 5615, 6243}, {65536, 6859, 6888, 10321, 10923},
}

// modelBand is the accepted deviation from the model: smallest where bus rates
// dominate, larger where clocks of single steps do, largest for software, of
// which only the curve's ends are known.
func modelBand(protocol string, size int) float64 {
	switch {
	case protocol == ProtocolMvia || protocol == ProtocolTCP:
		return 0.15
	case size <= 256:
		return 0.10
	}
	return 0.05
}

func modelCurveOf(r *Results) []ModelPoint {
	var list []ModelPoint
	for _, p := range []struct {
		of    string
		rows  []PingPongResult
		model func(modelPoint) int64
	}{
		{ProtocolRDMAWrite, r.RDMAWrite, func(m modelPoint) int64 { return m.write }},
		{ProtocolSendReceive, r.SendReceive, func(m modelPoint) int64 { return m.send }},
		{ProtocolMvia, r.Mvia, func(m modelPoint) int64 { return m.mvia }},
		{ProtocolTCP, r.Tcp, func(m modelPoint) int64 { return m.tcp }},
	} {
		for _, m := range modelTable {
			got, ok := HalfRTT(p.rows, m.size)
			if !ok {
				continue
			}
			model := p.model(m) * 100_000
			band := modelBand(p.of, m.size)
			list = append(list, ModelPoint{Size: m.size, Protocol: p.of, ModelPs: model, MeasuredPs: got, Band: band,
				OK: math.Abs(float64(got-model)) <= band*float64(model)})
		}
	}
	return list
}
