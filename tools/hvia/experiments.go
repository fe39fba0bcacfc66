// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"hvia/bench/compare"
	"hvia/bench/demo"
	"hvia/bench/digests"
	"hvia/bench/faults"
	"hvia/bench/reproduce"
	"hvia/bench/simspeed"
	"hvia/conformance"
	"hvia/fabric/service"
	"hvia/sim"
	"hvia/tools/hvia/internal/cli"
)

func experiments() cli.Experiments {
	return cli.Experiments{
		Reproduce:      reproduce.Run,
		Compare:        compare.Run,
		Ablate:         reproduce.Ablate,
		FaultMatrix:    faults.Run,
		Digests:        digests.Run,
		ReadDigests:    digests.Read,
		BenchSim:       simspeed.Run,
		ServePeer:      reproduce.ServePeer,
		Demo:           demo.Run,
		Conform:        conformance.Conform,
		BuildSimulator: func(ctx context.Context) (string, error) { return sim.Build{}.Program(ctx) },
		SimulatorBuilt: sim.Build{}.Built,
		BuildFabric:    func(ctx context.Context, c sim.Config) (string, error) { return c.Build().Program(ctx) },
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
