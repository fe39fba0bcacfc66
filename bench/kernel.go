// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"slices"

	"hvia/bench/report"
	"hvia/driver"
	"hvia/fabric"
	"hvia/sim"
)

// The rounds of a protocol in the kernel. They repeat to the bit, but not one round like the
// other: a transmit interrupt comes every 400 us or 40 frames, whatever is under way then.
// Before them TCP's window must have grown to the longest message.
const (
	kernelWarmup = 8
	kernelRounds = 16
)

// measureKernel runs the ping-pong of a protocol in the kernels of two hosts with a plain NIC
// each. Both programs run in this process, whatever the configuration says of processes.
func measureKernel(ctx context.Context, c ReproduceConfig, x exchange) (m measurement, err error) {
	rec, err := newRecording("", "")
	if err != nil {
		return m, fmt.Errorf("%v: %w", x, err)
	}
	defer rec.remove()
	c.Background, c.Processes, c.Warmup, c.Iterations = false, 1, kernelWarmup, kernelRounds
	p, err := newPingPong(c, x, c.Sizes)
	if err != nil {
		return m, err
	}
	cfg := c.fabric(p.board)
	for n := range cfg.Nodes {
		cfg.Nodes[n].Kind = "nic"
	}
	cfg.Arguments = append(cfg.Arguments, rec.arguments()...)
	failed := fabric.Run(ctx, fabric.RunConfig{
		Fabric: cfg, Device: driver.DeviceMvia, Costs: p.board.kernelCosts(), Seed: c.Seed, Spending: p.ledger.enter,
		Finished: func(f *sim.Fabric) (err error) {
			m.digest, err = digestOf(ctx, f)
			return err
		},
	}, p.programs(func(int) bool { return true })...)
	events, err := rec.events()
	if failed == nil && err != nil {
		return m, err
	}
	if err := p.foldKernel(events, &m); failed == nil && err != nil {
		return m, err
	}
	return m, failed
}

// foldKernel turns elapsed times, ledger and trace into the rows of the report, as far as the
// run has come.
func (p *pingPong) foldKernel(events []TraceEvent, m *measurement) error {
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
