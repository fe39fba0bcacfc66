// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"hvia/bench"
	"hvia/sim"
	"hvia/tools/hvia/internal/cli"
)

// experiments joins the verbs to what they run.
func experiments() cli.Experiments {
	return cli.Experiments{
		Reproduce:      bench.Reproduce,
		Compare:        bench.Compare,
		Ablate:         bench.Ablate,
		FaultMatrix:    bench.RunFaultMatrix,
		ServePeer:      bench.ServePeer,
		Demo:           bench.Demo,
		BuildSimulator: func(ctx context.Context) (string, error) { return sim.Simulator(ctx) },
		SimulatorBuilt: sim.SimulatorBuilt,
	}
}
