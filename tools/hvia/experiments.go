// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"hvia/bench"
	"hvia/fabric/service"
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
		Digests:        bench.Digests,
		ReadDigests:    bench.ReadDigests,
		ServePeer:      bench.ServePeer,
		Demo:           bench.Demo,
		BuildSimulator: func(ctx context.Context) (string, error) { return sim.Simulator(ctx) },
		SimulatorBuilt: sim.SimulatorBuilt,
		BuildProfile:   func(ctx context.Context, profile string) (string, error) { return sim.ProfileSimulator(ctx, profile) },
		Fabrics: cli.Fabrics{
			Start: func(ctx context.Context, c service.Config) (cli.RunningFabric, error) {
				s, err := service.Start(ctx, c)
				if err != nil {
					return nil, err
				}
				return s, nil
			},
			Status: service.StatusOf, Down: service.Down,
		},
	}
}
