// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/verilate"
)

// AblateConfig configures the ablations.
type AblateConfig struct {
	Profile    string
	Iterations int // counted round trips per size
	Warmup     int // round trips before them
	Seed       uint64
	Jobs       int // simulations that run at the same time

	// Progress, if not nil, receives the progress of the run. It must not
	// block.
	Progress func(rig.Progress) `json:"-"`
}

// DefaultAblateConfig is the paper's card with few rounds: there are many
// variants.
func DefaultAblateConfig() AblateConfig {
	return AblateConfig{Profile: params.Base, Iterations: 2, Warmup: 1, Seed: 1, Jobs: runtime.NumCPU()}
}

func (c AblateConfig) reproduce() Config {
	return Config{
		Profile: c.Profile, Sizes: slices.Clone(ablationSizes), Iterations: c.Iterations, Warmup: c.Warmup, Seed: c.Seed,
		Processes: 1, Jobs: c.Jobs, Progress: c.Progress,
	}
}

// Validate rejects what cannot be measured.
func (c AblateConfig) Validate() error { return c.reproduce().Validate() }

// Sizes of the ablations; send and receive use the shorter two only.
var (
	ablationSizes = []int{4, 1400, 32768, 65536}
	gapSizes      = ablationSizes[:2]
)

const (
	figureShort     = "RDMA write, 4 bytes"
	figureFrame     = "RDMA write, 1,400 bytes"
	figureBandwidth = "bandwidth, 65,536 bytes"
	figureSlope     = "slope, 32,768 to 65,536 bytes"
	figureShortGap  = "gap of send and receive, 4 bytes"
	figureFrameGap  = "gap of send and receive, 1,400 bytes"
)

var figureUnits = []struct{ name, unit string }{
	{figureShort, "us"}, {figureFrame, "us"}, {figureBandwidth, "MB/s"}, {figureSlope, "MB/s"}, {figureShortGap, "us"}, {figureFrameGap, "us"},
}

// variant is a card with parts of its design switched off. foreseen has the
// figures of the model in docs/explanation/reproduction.md (The model,
// Variants). That model has a dead time of 14 clocks in the MAC, so compare
// differences only.
type variant struct {
	name     string
	straps   []layout.Strap
	params   map[string]int64
	foreseen map[string]float64
}

func studied(short, frame, bandwidth, slope float64) map[string]float64 {
	return map[string]float64{figureShort: short, figureFrame: frame, figureBandwidth: bandwidth, figureSlope: slope}
}

func withGaps(m map[string]float64, short, frame float64) map[string]float64 {
	m[figureShortGap], m[figureFrameGap] = short, frame
	return m
}

var variants = []variant{
	{name: "the card as it is", foreseen: withGaps(studied(12.65, 62.3, 95.5, 103.1), 2.9, 2.9)},
	{name: "one packet buffer each way", straps: []layout.Strap{layout.StrapSingleTransmitSlot, layout.StrapSingleReceiveSlot}, foreseen: studied(12.65, 62.3, 53.8, 55.5)},
	{name: "cut-through, transmit", straps: []layout.Strap{layout.StrapCutThroughTransmit}, foreseen: studied(12.65, 54.8, 96.7, 103.1)},
	{name: "cut-through, receive", straps: []layout.Strap{layout.StrapCutThroughReceive}, foreseen: studied(12.35, 58.0, 96.2, 103.1)},
	{name: "cut-through both ways", straps: []layout.Strap{layout.StrapCutThroughTransmit, layout.StrapCutThroughReceive}},
	{
		name: "no ATT overlap, SDRAM at 33 MHz", straps: []layout.Strap{layout.StrapNoAttOverlap, layout.StrapSlowSdram},
		params: map[string]int64{"SdramClockPeriod": 30_000}, foreseen: studied(13.49, 63.2, 95.3, 103.1),
	},
	{name: "no ATT overlap", straps: []layout.Strap{layout.StrapNoAttOverlap}},
	{name: "64-byte bursts", straps: []layout.Strap{layout.StrapShortBursts}},
	{name: "ATT in host memory", straps: []layout.Strap{layout.StrapAttInHostMemory}},
	{name: "receive descriptor on arrival", straps: []layout.Strap{layout.StrapReceiveFetchOnArrival}, foreseen: withGaps(studied(12.65, 62.3, 95.5, 103.1), 3.79, 3.79)},
}

// Ablate measures every variant on a separate fabric. With an error it returns
// the variants measured until then.
func Ablate(ctx context.Context, c AblateConfig) (_ *report.Report, err error) {
	defer func() { err = rig.Stopped(ctx, "ablate", err) }()
	hashes, err := rig.Environment(c, c.Profile)
	if err != nil {
		return nil, err
	}
	r := report.New(c.Profile, c.Seed, hashes)
	program, err := sim.Build{Profile: c.Profile}.Program(ctx)
	if err != nil {
		return r, err
	}
	r.Wall.BuildSeconds = verilate.BuildSeconds(program)
	begin := time.Now()
	r.Ablations, err = ablate(ctx, c)
	r.Wall.Seconds = time.Since(begin).Seconds()
	return r, err
}

// ablate returns with an error the variants before the first that failed.
func ablate(ctx context.Context, c AblateConfig) (*report.Ablations, error) {
	a := &report.Ablations{Sizes: ablationSizes}
	type pair struct{ write, send []report.PingPongResult }
	measured, tasks := make([]pair, len(variants)), make([]func(context.Context) error, len(variants))
	tally := rig.Tally{Show: c.Progress, Total: len(variants) * (len(ablationSizes) + len(gapSizes))}
	for i, v := range variants {
		run := c.reproduce()
		run.Params, run.task, run.straps, run.Progress = v.params, v.name+": ", v.bits(), tally.Count
		tasks[i] = func(ctx context.Context) error {
			write, err := Measure(ctx, run, rig.RDMAWrite, ablationSizes)
			if err != nil {
				return fmt.Errorf("ablate: %s: %w", v.name, err)
			}
			send, err := Measure(ctx, run, rig.SendReceive, gapSizes)
			if err != nil {
				return fmt.Errorf("ablate: %s: %w", v.name, err)
			}
			measured[i] = pair{write.rows, send.rows}
			return nil
		}
	}
	err := rig.Together(ctx, c.Jobs, tasks)
	var base map[string]float64
	for i, v := range variants {
		m := measured[i]
		if m.send == nil {
			break
		}
		figures := figuresOf(m.write, m.send)
		if base == nil {
			base = figures
		}
		row := report.Variant{Name: v.name, Parameters: v.params, Verified: true}
		for _, s := range v.straps {
			row.Straps = append(row.Straps, s.String())
		}
		for _, f := range figureUnits {
			figure := report.AblationFigure{Name: f.name, Unit: f.unit, Value: figures[f.name], Base: base[f.name]}
			if w, ok := v.foreseen[f.name]; ok && c.Profile == params.Base {
				figure.Foreseen = &w
			}
			row.Figures = append(row.Figures, figure)
		}
		for _, p := range slices.Concat(m.write, m.send) {
			row.Verified = row.Verified && p.Verified
			row.Fault = cmp.Or(row.Fault, p.Fault)
		}
		a.Variants = append(a.Variants, row)
	}
	return a, err
}

func (v variant) bits() (straps uint32) {
	for _, s := range v.straps {
		straps |= 1 << s
	}
	return straps
}

// figuresOf computes a variant's figures from its ping-pongs, which hold all
// sizes.
func figuresOf(write, send []report.PingPongResult) map[string]float64 {
	at := func(rows []report.PingPongResult, size int) int64 {
		v, _ := report.HalfRTT(rows, size)
		return v
	}
	short, frame, long, longest := at(write, 4), at(write, 1400), at(write, 32768), at(write, 65536)
	return map[string]float64{
		figureShort: report.Rounded(report.Microseconds(short)), figureFrame: report.Rounded(report.Microseconds(frame)),
		figureBandwidth: report.Rounded(65536 / report.Microseconds(max(longest, 1))),
		figureSlope:     report.Rounded((65536 - 32768) / report.Microseconds(max(longest-long, 1))),
		figureShortGap:  report.Rounded(report.Microseconds(at(send, 4) - short)), figureFrameGap: report.Rounded(report.Microseconds(at(send, 1400) - frame)),
	}
}
