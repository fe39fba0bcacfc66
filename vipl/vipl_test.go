// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// The scenarios on fake cards and on M-VIA over fake NICs: what the library and
// the agent do, without RTL.
func TestScenariosOnFakes(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				s.skip(t, d)
				runFake(t, d, nil, mainsOf(s)...)
			})
		}
	})
}

// skip skips what a device has not.
func (s scenario) skip(t *testing.T, d driver.Device) {
	if why := cardOnly[s.name]; why != "" && d != driver.DeviceHvia {
		t.Skip(why)
	}
}

// mainsOf are a scenario's programs. A NIC that has not what it is about fails it.
func mainsOf(s scenario) []main {
	server := s.server
	if server == nil {
		server = func(*env) error { return nil }
	}
	return s.guarded([]main{s.client, server}, func(q vipl.NICAttributes) error {
		return fmt.Errorf("the NIC has not what this is about: %+v", q)
	})
}

// mainsIfOffered are programs that end at once on such a NIC.
func mainsIfOffered(t *testing.T, s scenario) []main {
	return s.guarded(mainsOf(scenario{client: s.client, server: s.server}), func(vipl.NICAttributes) error {
		t.Log("nothing done: the NIC has not what this is about")
		return nil
	})
}

func (s scenario) guarded(mains []main, without func(vipl.NICAttributes) error) []main {
	has := features[s.name]
	if has == nil {
		return mains
	}
	for i, m := range mains {
		mains[i] = func(e *env) error {
			if q := e.nic.Query(); !has(q) {
				return without(q)
			}
			return m(e)
		}
	}
	return mains
}

// The connection protocol carries a program through a wire that loses half of
// its frames.
func TestScenariosOverALossyWire(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range scenarios {
			if s.name == "connections" { // it measures times
				continue
			}
			t.Run(s.name, func(t *testing.T) {
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
				}, mainsOf(s)...)
			})
		}
	})
}

// A VI has another number on the wire for each connection, and another first
// sequence number: frames of the last one must not be taken for the next one's.
func TestEveryConnectionHasItsOwnNumber(t *testing.T) {
	onDevices(t, everyConnectionHasItsOwnNumber)
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
	onDevices(t, func(t *testing.T, d driver.Device) {
		for i, s := range scenarios {
			if testing.Short() && i%4 != 0 {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				s.skip(t, d)
				var end [2]host.Time
				for i := range end {
					end[i] = runFake(t, d, nil, mainsOf(s)...).Now()
				}
				if end[0] != end[1] {
					t.Errorf("the runs ended at %v and %v", end[0], end[1])
				}
			})
		}
	})
}

// Endpoints: two hosts write to each other without knowing more than a name.
func TestEndpoints(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		runFake(t, d, nil, func(e *env) error { return endpointProgram(e, 0) }, func(e *env) error { return endpointProgram(e, 1) })
	})
}

// endpointProgram writes many messages to and fro, one after another.
func endpointProgram(e *env, node int) error {
	p, err := vipl.OpenEndpoint(e.t, e.h, 10000)
	if err != nil {
		return err
	}
	if node == 0 {
		if err := p.Dial(e.t, vipl.NetAddress{Host: vipl.HostAddress(1), Discriminator: "here"}, host.Second); err != nil {
			return err
		}
	} else {
		if err := p.Accept(e.t, "here", host.Second); err != nil {
			return err
		}
	}
	for i := range 100 { // more than there are descriptors
		write := func() error {
			copy(p.Bytes(), pattern(3000, i+node))
			p.Bytes()[2999] = byte(i + 1)
			return p.Write(e.t, 0, 3000, 5000, host.Second)
		}
		if node == 0 {
			if err := write(); err != nil {
				return err
			}
		}
		if err := p.Poll(e.t, 7999, byte(i+1), host.Second); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		want := pattern(3000, i+1-node)
		want[2999] = byte(i + 1)
		e.that(fmt.Sprintf("message %d", i), bytes.Equal(p.Bytes()[5000:8000], want))
		if node == 1 {
			if err := write(); err != nil {
				return err
			}
		}
	}
	e.is("beyond the peer's buffer", p.Write(e.t, 0, 3000, 7001, host.Second), vipl.ErrInvalidParameter)
	e.is("beyond the own buffer", p.Write(e.t, 7001, 3000, 0, host.Second), vipl.ErrInvalidParameter)
	e.is("poll outside", p.Poll(e.t, 10000, 0, 0), vipl.ErrInvalidParameter)
	e.is("poll for what does not come", p.Poll(e.t, 9999, 1, host.Millisecond), vipl.ErrTimeout)
	if err := (&peer{env: e}).settled(1 - node); err != nil {
		return err
	}
	return p.Close(e.t)
}

// What is not an endpoint is refused by one.
func TestEndpointRefusesStrangers(t *testing.T) {
	runFake(t, driver.DeviceHvia, nil, func(e *env) error {
		v, err := e.nic.CreateVI(e.t, vipl.VIAttributes{})
		if err != nil {
			return err
		}
		e.is("a stranger", (&peer{env: e, vi: v}).redial(1), vipl.ErrReject)
		return nil
	}, func(e *env) error {
		p, err := vipl.OpenEndpoint(e.t, e.h, 100)
		if err != nil {
			return err
		}
		e.is("accept", p.Accept(e.t, "test", host.Second), vipl.ErrInvalidParameter)
		return nil
	})
}
