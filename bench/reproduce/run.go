// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/verilate"
)

// Run runs the experiments of a configuration and returns the report. With an
// error it returns what was measured until then.
func Run(ctx context.Context, c Config) (_ *report.Report, err error) {
	defer func() { err = rig.Stopped(ctx, "reproduce", err) }()
	hashes, err := rig.Environment(c, c.Profile)
	if err != nil {
		return nil, err
	}
	r := report.New(c.Profile, c.Seed, hashes)
	at, err := costs.New(c.Profile, c.Params)
	if err != nil {
		return nil, err
	}
	r.Numbers = report.ParametersOf(at.Table)
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		r.Notes = append(r.Notes, fmt.Sprintf("%s is %d in this run", name, c.Params[name]))
	}
	if len(c.Faults.Faults) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the wire fails in this run: %v", c.Faults))
	}
	program := c.program
	if program == "" {
		if program, err = (sim.Build{Profile: c.Profile, Full: c.Checkers}).Program(ctx); err != nil {
			return r, err
		}
	}
	r.Wall.BuildSeconds = verilate.BuildSeconds(program)
	begin := time.Now()
	defer func() { r.Wall.Seconds = time.Since(begin).Seconds() }()
	err = measureAll(ctx, r, c, at)
	// Targets are evaluated for an incomplete run, too.
	_, fitted := at.Priors()["MacReactClocks"]
	r.AddTargets(fitted)
	return r, err
}

// experiment is one of the independent measurements. It reports progress in
// a number of steps. It returns a function that adds its results to a report,
// also those of a failed run.
type experiment struct {
	steps   int
	measure func(ctx context.Context, c Config) (add func(*report.Report), err error)
}

// measureAll runs the experiments side by side. It adds their results in the
// order of the list, up to the first that failed.
func measureAll(ctx context.Context, r *report.Report, c Config, at costs.Board) error {
	list := experiments(c, at)
	type result struct {
		add func(*report.Report)
		err error
	}
	results, tasks := make([]result, len(list)), make([]func(context.Context) error, len(list))
	tally := rig.Tally{Show: c.Progress}
	for i, x := range list {
		tally.Total += x.steps
		c := c
		c.Background, c.Progress = false, tally.Count
		if i > 0 {
			c.PcapFile, c.WaveFile = "", "" // they show the first run
		}
		tasks[i] = func(ctx context.Context) error {
			add, err := x.measure(ctx, c)
			results[i] = result{add, err}
			return err
		}
	}
	err := rig.Together(ctx, c.Jobs, tasks)
	for _, done := range results {
		if done.add != nil {
			done.add(r)
		}
		if done.add == nil || done.err != nil {
			return err
		}
	}
	if err == nil && c.Ablate {
		a := DefaultAblateConfig()
		a.Profile, a.Seed, a.Jobs, a.Progress = c.Profile, c.Seed, c.Jobs, c.Progress
		r.Results.Ablations, err = ablate(ctx, a)
	}
	return err
}

// experiments returns the measurements of a configuration, in the order of the
// report.
func experiments(c Config, at costs.Board) []experiment {
	n := len(c.Sizes)
	list := []experiment{
		{n, func(ctx context.Context, c Config) (func(*report.Report), error) {
			m, err := Measure(ctx, c, rig.RDMAWrite, c.Sizes)
			return func(r *report.Report) {
				r.Results.RDMAWrite, r.Wall.RDMAWrite = m.rows, m.wall
				r.Results.Stages, r.Results.Digest, r.Results.Bursts = m.stages, m.Digest.All, m.bursts
				r.Results.Waterfall, r.Results.Pipeline = m.waterfall, m.pipeline
				addDigest(r, "rdma_write", m.Digest)
				addAccounts(r, m)
			}, err
		}},
		{n, func(ctx context.Context, c Config) (func(*report.Report), error) {
			m, err := Measure(ctx, c, rig.SendReceive, c.Sizes)
			return func(r *report.Report) {
				r.Results.SendReceive, r.Wall.SendReceive = m.rows, m.wall
				r.Results.SendReceiveStages, r.Results.SendReceiveDigest = m.stages, m.Digest.All
				addDigest(r, "send_receive", m.Digest)
				addAccounts(r, m)
			}, err
		}},
		{n, func(ctx context.Context, c Config) (func(*report.Report), error) {
			posts, waits, d, err := receiveSide(ctx, c)
			return func(r *report.Report) {
				r.Results.PostReceive, r.Results.ReceiveWait = posts, waits
				addDigest(r, "receive_side", d)
			}, err
		}},
	}
	if c.measuresTenth() {
		list = append(list, experiment{len(gainExchanges), measureTenth})
	}
	list = append(list, experiment{n, measureRDMARead}, experiment{n, measureReliableWrite})
	if c.Baselines {
		list = append(list, experiment{n, measureMvia}, experiment{n, measureTCP})
	}
	if priors := at.Priors(); len(priors) > 0 && c.Profile == params.Base && !c.NoPrediction {
		list = append(list, predictions(c, priors)...)
	}
	if c.Background {
		list = append(list, experiment{len(spread(c.Sizes)), measureCrossTraffic})
	}
	return append(list, experiment{2 * len(firstWriteSizes), func(ctx context.Context, c Config) (func(*report.Report), error) {
		rows, d, err := firstWrites(ctx, c)
		return func(r *report.Report) {
			r.Results.FirstWrite = rows
			addDigest(r, "first_write", d)
		}, err
	}})
}

func measureMvia(ctx context.Context, c Config) (func(*report.Report), error) {
	m, err := measureKernel(ctx, c, rig.MviaSend)
	return func(r *report.Report) {
		r.Results.Mvia, r.Wall.Mvia, r.Results.MviaDigest = m.rows, m.wall, m.Digest.All
		addDigest(r, "mvia", m.Digest)
		addAccounts(r, m)
	}, err
}

func measureTCP(ctx context.Context, c Config) (func(*report.Report), error) {
	m, err := measureKernel(ctx, c, rig.TCPStream)
	return func(r *report.Report) {
		r.Results.Tcp, r.Wall.Tcp, r.Results.TcpDigest = m.rows, m.wall, m.Digest.All
		addDigest(r, "tcp", m.Digest)
		addAccounts(r, m)
	}, err
}

// measureReliableWrite measures RDMA writes over a VI of the reliability level
// that RDMA reads require, to compare with those.
func measureReliableWrite(ctx context.Context, c Config) (func(*report.Report), error) {
	m, err := Measure(ctx, c, rig.ReliableWrite, c.Sizes)
	return func(r *report.Report) {
		r.Results.ReliableWrite = m.rows
		addDigest(r, rig.ReliableWrite.Key(), m.Digest)
	}, err
}

func measureCrossTraffic(ctx context.Context, c Config) (func(*report.Report), error) {
	c.Background = true
	m, err := Measure(ctx, c, rig.RDMAWrite, spread(c.Sizes))
	return func(r *report.Report) {
		r.Results.CrossTraffic = &report.CrossTraffic{RDMAWrite: m.rows, Messages: m.crossed, Verified: m.crossFault == "", Fault: m.crossFault, Digest: m.Digest.All}
		addDigest(r, "cross_traffic", m.Digest)
	}, err
}

// predictions measure again with fitted parameters at their values from before
// the fit.
func predictions(c Config, priors map[string]int64) []experiment {
	p := &report.Prediction{Parameters: priors}
	before := func(measure func(ctx context.Context, c Config) error) experiment {
		return experiment{len(c.Sizes), func(ctx context.Context, c Config) (func(*report.Report), error) {
			c.Params = maps.Clone(c.Params)
			if c.Params == nil {
				c.Params = map[string]int64{}
			}
			maps.Copy(c.Params, priors)
			c.task = "before the fit: "
			err := measure(ctx, c)
			return func(r *report.Report) { r.Results.Prediction = p }, err
		}}
	}
	rows := func(to *[]report.PingPongResult, measure func(ctx context.Context, c Config) (measurement, error)) experiment {
		return before(func(ctx context.Context, c Config) error {
			m, err := measure(ctx, c)
			*to = m.rows
			return err
		})
	}
	list := []experiment{
		rows(&p.RDMAWrite, func(ctx context.Context, c Config) (measurement, error) {
			return Measure(ctx, c, rig.RDMAWrite, c.Sizes)
		}),
		rows(&p.SendReceive, func(ctx context.Context, c Config) (measurement, error) {
			return Measure(ctx, c, rig.SendReceive, c.Sizes)
		}),
		before(func(ctx context.Context, c Config) (err error) {
			_, p.ReceiveWait, _, err = receiveSide(ctx, c)
			return err
		}),
	}
	if c.Baselines {
		list = append(list,
			rows(&p.Mvia, func(ctx context.Context, c Config) (measurement, error) { return measureKernel(ctx, c, rig.MviaSend) }),
			rows(&p.Tcp, func(ctx context.Context, c Config) (measurement, error) { return measureKernel(ctx, c, rig.TCPStream) }))
	}
	return list
}

var gainExchanges = []rig.Exchange{rig.RDMAWrite, rig.SendReceive}

// measuresTenth says whether this run has all that target T7 needs.
func (c Config) measuresTenth() bool {
	return c.Profile == params.Base && !c.NoPrediction && !slices.ContainsFunc(report.PaperSizes, func(n int) bool { return !slices.Contains(c.Sizes, n) })
}

// measureTenth measures the gain at TenthSize.
func measureTenth(ctx context.Context, c Config) (func(*report.Report), error) {
	c.task = "where the gain is 0.1 MB/s: "
	var halves []int64
	for _, x := range gainExchanges {
		m, err := Measure(ctx, c, x, []int{report.TenthSize})
		if err != nil {
			return nil, err
		}
		if p := m.rows[0]; !p.Verified {
			return nil, fmt.Errorf("%d bytes by %s: %s", report.TenthSize, x, p.Fault)
		}
		halves = append(halves, m.rows[0].HalfRTTPs)
	}
	gain := report.Rounded(report.GainAt(report.TenthSize, halves[0], halves[1]))
	return func(r *report.Report) {
		r.Results.Gains = []report.GainPoint{{Size: report.TenthSize, Gain: gain}}
	}, nil
}

func addAccounts(r *report.Report, m measurement) {
	r.Results.Accounts = append(r.Results.Accounts, m.accounts...)
	if m.path != nil {
		r.Results.Paths = append(r.Results.Paths, *m.path)
	}
}

// spread picks the first, the middle and the last of the sizes.
func spread(sizes []int) []int {
	if len(sizes) <= 3 {
		return sizes
	}
	return []int{sizes[0], sizes[len(sizes)/2], sizes[len(sizes)-1]}
}

// addDigest adds the digest of a run, unless the run failed.
func addDigest(r *report.Report, run string, d rig.RunDigest) {
	if d.All != "" {
		r.Results.Digests = append(r.Results.Digests, report.RunDigest{Run: run, Parts: d.Parts})
	}
}
