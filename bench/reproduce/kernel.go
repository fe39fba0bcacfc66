// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"fmt"
	"slices"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/driver"
	"hvia/fabric"
	"hvia/sim"
)

// measureKernel runs the ping-pong of a protocol in the kernels of two hosts
// with a plain NIC each. Both programs run in this process, whatever the
// configuration says of processes.
func measureKernel(ctx context.Context, c Config, x rig.Exchange) (m measurement, err error) {
	rec, err := rig.Record("", "")
	if err != nil {
		return m, fmt.Errorf("%v: %w", x, err)
	}
	defer rec.Remove()
	c.Background, c.Processes, c.Warmup, c.Iterations = false, 1, rig.KernelWarmup, rig.KernelRounds
	p, err := newPingPong(c, x, c.Sizes)
	if err != nil {
		return m, err
	}
	cfg := c.fabric(p.board)
	for n := range cfg.Nodes {
		cfg.Nodes[n].Kind = "nic"
	}
	rec.Into(&cfg)
	failed := fabric.Run(ctx, fabric.RunConfig{
		Fabric: cfg, Device: driver.DeviceMvia, Costs: p.board.KernelCosts(), Seed: c.Seed, Spending: p.ledger.enter,
		Finished: func(f *sim.Fabric) (err error) {
			m.Digest, err = rig.DigestOf(ctx, f)
			return err
		},
	}, p.programs(func(int) bool { return true })...)
	events, err := rec.Events()
	if failed == nil && err != nil {
		return m, err
	}
	if err := p.foldKernel(events, &m); failed == nil && err != nil {
		return m, err
	}
	return m, failed
}

// foldKernel turns elapsed times, ledger and trace of a run, complete or not,
// into the rows of the report.
func (p *pingPong) foldKernel(events []rig.TraceEvent, m *measurement) error {
	m.wall = p.wall
	seen := trafficOf(events, p.board)
	messages := int64(2 * p.config.Iterations)
	for k, n := range p.sizes[:len(p.faults)] {
		half, host := int64(p.elapsed[k])/messages, p.hostTime(p.windows[k])/messages
		m.rows = append(m.rows, report.PingPongResult{
			Size: n, HalfRTTPs: half, HardwarePs: half - host, HostPs: host, BytesPerSec: report.BytesPerSecond(n, half),
			Verified: p.faults[k] == "", Fault: p.faults[k],
		})
		if slices.Contains(accountSizes, n) {
			m.accounts = append(m.accounts, p.accountOf(k, seen))
		}
		if n == report.WaterfallSize {
			path, err := p.kernelPath(k, seen)
			if err != nil {
				return err
			}
			m.path = &path
		}
	}
	return nil
}
