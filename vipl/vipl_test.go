// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"math/rand/v2"
	"testing"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/layout"
)

// The scenarios on fake cards: what the library and the agent do, without RTL.
func TestScenariosOnFakeCards(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			runFake(t, nil, mainsOf(s)...)
		})
	}
}

func mainsOf(s scenario) []main {
	server := s.server
	if server == nil {
		server = func(*env) error { return nil }
	}
	return []main{s.client, server}
}

// The connection protocol carries a program through a wire that loses half of
// its frames.
func TestScenariosOverALossyWire(t *testing.T) {
	for _, s := range scenarios {
		if s.name == "connections" { // it measures times
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			const seed = 5
			random := rand.New(rand.NewPCG(seed, seed))
			runFake(t, func(f *drivertest.Fabric) {
				f.Lose = func(_ int, frame []byte) bool {
					if layout.EthernetHeader(frame).EtherType() != layout.EtherTypeConnection {
						return false
					}
					return random.IntN(2) == 0
				}
			}, mainsOf(s)...)
		})
	}
}

// Two runs take the same simulated time to the picosecond.
func TestRunsRepeat(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			var end [2]driver.Time
			for i := range end {
				end[i] = runFake(t, nil, mainsOf(s)...).Now()
			}
			if end[0] != end[1] {
				t.Errorf("the runs ended at %v and %v", end[0], end[1])
			}
		})
	}
}
