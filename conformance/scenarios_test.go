// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
	"hvia/vipl/endpoint"
)

// The scenarios run on fake cards and on M-VIA over fake NICs. This covers the
// library and the agent without RTL.
func TestScenariosOnFakes(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) { scenariosOn(t, fakeTarget(d)) })
}

// The scenarios run on the RTL in virtual time, with -short just one of them.
func TestScenariosOnTheCard(t *testing.T) { scenariosOn(t, simulated(t, driver.DeviceHvia)) }

// The same on M-VIA over the simulated plain NIC.
func TestScenariosOnMvia(t *testing.T) { scenariosOn(t, simulated(t, driver.DeviceMvia)) }

func scenariosOn(t *testing.T, target Target) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*conformtest.Limit)
	defer cancel()
	q, err := target.Attributes(ctx)
	require.NoError(t, err)
	for _, s := range Scenarios {
		if testing.Short() && target.Simulated && s.Name != "remote errors" {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			s.skip(t, target.Device)
			verify(t, target, target.runScenario(ctx, q, s))
		})
	}
}

// skip skips a scenario that does not apply to a device.
func (s Scenario) skip(t *testing.T, d driver.Device) {
	t.Helper()
	if !s.on(d) {
		t.Skipf("about %s alone", s.only)
	}
}

// Connection frames are retransmitted until they arrive, even on a link that
// loses half of them.
func TestScenariosOverALossyLink(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range Scenarios {
			if s.Name == "connections" { // it measures times
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				s.skip(t, d)
				const seed = 5
				random := rand.New(rand.NewPCG(seed, seed))
				runFake(t, d, func(f *drivertest.Fabric) {
					f.Lose = func(_ int, frame []byte) bool {
						if layout.EthernetHeader(frame).EtherType() != layout.EtherTypeConnection {
							return false
						}
						return random.IntN(2) == 0
					}
				}, MainsOf(s)...)
			})
		}
	})
}

// Each connection of a VI has a new number on the wire and a new first sequence
// number, so frames of an earlier connection cannot enter a later one.
func TestEveryConnectionHasItsOwnNumber(t *testing.T) {
	conformtest.OnDevices(t, everyConnectionHasItsOwnNumber)
}

func everyConnectionHasItsOwnNumber(t *testing.T, d driver.Device) {
	numbers, sequences := map[[2]uint16]bool{}, map[uint32]bool{}
	runFake(t, d, func(f *drivertest.Fabric) {
		f.Lose = func(_ int, frame []byte) bool {
			if layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia {
				h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
				if key := [2]uint16{h.DestinationVI(), h.SourceVI()}; !numbers[key] {
					numbers[key] = true
					sequences[h.Sequence()] = true
				}
			}
			return false
		}
	}, leaveClient, leaveServer)
	if len(numbers) != 2 || len(sequences) != 2 {
		t.Errorf("two connections of one VI used the numbers %v and first sequence numbers %v", numbers, sequences)
	}
}

// Two runs take the same simulated time to the picosecond.
func TestRunsRepeat(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for i, s := range Scenarios {
			if testing.Short() && i%4 != 0 {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				s.skip(t, d)
				var end [2]host.Time
				for i := range end {
					end[i] = runFake(t, d, nil, MainsOf(s)...).Now()
				}
				if end[0] != end[1] {
					t.Errorf("the runs ended at %v and %v", end[0], end[1])
				}
			})
		}
	})
}

// Two hosts write to each other's endpoints and need only a name.
func TestEndpoints(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		runFake(t, d, nil, func(e *Env) error { return endpointProgram(e, 0) }, func(e *Env) error { return endpointProgram(e, 1) })
	})
}

// An endpoint rejects a peer that is not an endpoint.
func TestEndpointRejectsOthers(t *testing.T) {
	runFake(t, driver.DeviceHvia, nil, func(e *Env) error {
		v := must(e.NIC.CreateVI(e.T, vipl.VIAttributes{}))
		e.Is("a stranger", (&Peer{Env: e, VI: v}).Redial(1), vipl.ErrReject)
		return nil
	}, func(e *Env) error {
		p := must(endpoint.Open(e.T, e.H, endpoint.Config{Bytes: 100}))
		e.Is("accept", p.Accept(e.T, "test", host.Second), vipl.ErrInvalidParameter)
		return nil
	})
}
