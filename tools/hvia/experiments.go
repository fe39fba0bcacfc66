// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"hvia/bench/compare"
	"hvia/bench/demo"
	"hvia/bench/digests"
	"hvia/bench/faults"
	"hvia/bench/reproduce"
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
		ServePeer:      reproduce.ServePeer,
		Demo:           demo.Run,
		Conform:        conformance.Conform,
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
