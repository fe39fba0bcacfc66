// SPDX-License-Identifier: Apache-2.0

// Package fabric starts programs on simulated hosts. Run starts a simulator and
// runs each program on its own thread:
//
//	err := fabric.Run(ctx, fabric.RunConfig{},
//		fabric.Program{Node: 0, Name: "client", Main: client},
//		fabric.Program{Node: 1, Name: "server", Main: server})
//
// Join makes this process part of a fabric that a service runs; package service
// or the command "hvia up" starts one.
package fabric
