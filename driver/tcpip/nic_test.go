// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
)

// nicCosts are a host's costs with the kernel costs of this package's tests.
var nicCosts = host.CostModel{Kernel: testCosts(), Interrupt: 2 * host.Microsecond}

// playOnNICs is play on the simulator's plain NICs, with the driver's kernel
// agents and fault injection; it returns the run's digest.
func playOnNICs(t *testing.T, faults string, programs ...program) bridge.Digest {
	t.Helper()
	simulator, err := sim.EchoSimulator(t.Context())
	require.NoError(t, err)
	wire, err := sim.ParseWireFaults(faults)
	require.NoError(t, err)
	var digest bridge.Digest
	c := fabric.RunConfig{
		Device: driver.DeviceMvia, Costs: nicCosts,
		Fabric: sim.Config{Program: simulator, MemoryBytes: 16 << 20, Faults: wire},
		Finished: func(f *sim.Fabric) (err error) {
			digest, err = f.Digest(t.Context())
			return err
		},
	}
	var stacks [2]*Stack
	var left [2]int
	var all []fabric.Program
	for _, p := range programs {
		left[p.node]++
		first := left[p.node] == 1
		all = append(all, fabric.Program{Node: p.node, Main: func(th *host.Thread, h *driver.Host) (err error) {
			if first {
				if stacks[p.node], err = Open(th, h, Config{}); err != nil {
					return err
				}
			}
			if err := th.Barrier(1, len(programs)); err != nil {
				return err
			}
			s := stacks[p.node]
			err = p.main(th, s)
			// Threads of a node take turns: the last one closes.
			if left[p.node]--; left[p.node] == 0 {
				err = errors.Join(err, s.Close(th))
			}
			return err
		}})
	}
	require.NoError(t, fabric.Run(t.Context(), c, all...))
	return digest
}

// Only a host with a plain NIC has TCP/IP, and only one stack.
func TestOpenOnHosts(t *testing.T) {
	simulator, err := sim.EchoSimulator(t.Context())
	require.NoError(t, err)
	main := func(th *host.Thread, h *driver.Host) error {
		s, err := Open(th, h, Config{})
		if err != nil {
			return err
		}
		_, err = Open(th, h, Config{})
		assert.ErrorIs(t, err, host.ErrInUse)
		return s.Close(th)
	}
	c := fabric.RunConfig{Device: driver.DeviceMvia, Fabric: sim.Config{Program: simulator, MemoryBytes: 16 << 20}}
	require.NoError(t, fabric.Run(t.Context(), c, fabric.Program{Main: main}))

	f, err := drivertest.New(1, 2)
	require.NoError(t, err)
	defer f.Close()
	assert.ErrorIs(t, fabric.RunOn(t.Context(), f, fabric.RunConfig{}, fabric.Program{Main: main}), driver.ErrUnsupported)
}

// All data arrive over the simulator's NICs and wire as well, without
// retransmission, and two runs are equal.
func TestOverPlainNICs(t *testing.T) {
	digests := map[uint64]bool{}
	for _, n := range []int{4, 64 << 10, 1 << 20} {
		var counted [2]Counters
		var end host.Time
		work := transfer(t, pattern(1, n), pattern(2, n/2))
		for i := range work {
			main := work[i].main
			work[i].main = func(th *host.Thread, s *Stack) error {
				err := main(th, s)
				counted[work[i].node], end = s.Counters(), th.Now()
				return err
			}
		}
		first := playOnNICs(t, "", work...)
		for _, c := range counted {
			assert.Zero(t, c.Retransmitted)
			assert.Zero(t, c.ChecksumErrors)
		}
		t.Logf("%d bytes: %v, %+v", n, end, counted)
		assert.Equal(t, first, playOnNICs(t, "", work...))
		digests[first.Hash] = true
	}
	assert.Len(t, digests, 3, "a digest that is always the same says nothing")
}

// Many threads of both hosts, on the simulator, where hosts run in parallel:
// the digest of all frames, interrupts and instants is the same for any number
// of processors.
func TestRunsRepeatOverPlainNICs(t *testing.T) {
	runs := 4
	if os.Getenv("HVIA_LONG") == "1" {
		runs = 20
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var first bridge.Digest
	for i := range runs {
		runtime.GOMAXPROCS(1 + i%4)
		stop := busy(i % 3)
		_, all := crowd(t, 1)
		digest := playOnNICs(t, "", all...)
		stop()
		if i == 0 {
			first = digest
		}
		require.Equal(t, first, digest, "run %d of %d", i, runs)
	}
}

// With fault injection every byte arrives in order, and a repeated run is
// equal.
func TestFailingWire(t *testing.T) {
	const n = 256 << 10
	for seed := range 5 {
		faults := fmt.Sprintf("drop=1%%,duplicate=1%%,reorder=1%%,corrupt=0.5%%,truncate=0.5%%; seed=%d", seed+1)
		var again uint64
		work := transfer(t, pattern(1, n), pattern(2, n))
		for i := range work {
			main := work[i].main
			work[i].main = func(th *host.Thread, s *Stack) error {
				err := main(th, s)
				if work[i].node == 0 {
					again = s.Counters().Retransmitted
				}
				return err
			}
		}
		d := playOnNICs(t, faults, work...)
		done := d.Wire[0].Faults
		assert.NotZero(t, done[layout.WireFaultDrop])
		assert.NotZero(t, again)
		t.Logf("seed %d: %v, %d of node 0 retransmitted, %v", seed+1, d.Time, again, d.Wire)
		if seed == 0 {
			assert.Equal(t, d, playOnNICs(t, faults, work...))
		}
	}
}

// pingpong is a client that sends n bytes 2*rounds times and gets them back. It
// sets took to half the mean round trip of the last half of them.
func pingpong(n, rounds int, took *host.Time) []program {
	turn := func(c *Conn, b []byte, first bool) error {
		if first {
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if !first {
			_, err := c.Write(b)
			return err
		}
		return nil
	}
	return []program{
		{0, func(th *host.Thread, s *Stack) error {
			c, err := s.Dial(th, there(1), host.Never)
			if err != nil {
				return err
			}
			b := make([]byte, n)
			began := host.Time(0)
			for i := range 2 * rounds {
				if i == rounds {
					began = th.Now()
				}
				if err := turn(c, b, true); err != nil {
					return err
				}
			}
			*took = (th.Now() - began) / host.Time(2*rounds)
			return c.Close()
		}},
		{1, func(th *host.Thread, s *Stack) error {
			c, err := accept(th, s)
			if err != nil {
				return err
			}
			b := make([]byte, n)
			for range 2 * rounds {
				if err := turn(c, b, false); err != nil {
					return err
				}
			}
			_, err = c.Read(b[:1])
			if err != io.EOF {
				return fmt.Errorf("after the last round: %w", err)
			}
			return c.Close()
		}},
	}
}

// Half a round trip of 4 bytes is the sum of the costs on its path, and a few
// us of buses and wire; 64 KiB go as fast as a host can receive segments.
func TestPingPongOverPlainNICs(t *testing.T) {
	c := testCosts()
	half := map[int]host.Time{}
	for _, n := range []int{4, 64, 1024, 4096, 16 << 10, 64 << 10} {
		var took host.Time
		playOnNICs(t, "", pingpong(n, 10, &took)...)
		t.Logf("%d bytes: %v, %.1f MB/s", n, took, float64(n)/float64(took)*1e6)
		half[n] = took
	}
	way := c.Trap + c.Copy(4) + c.SendPacket + params.NICTransmitTime*host.Picosecond + params.NICReceiveTime*host.Picosecond +
		nicCosts.Interrupt + c.Tcp.ReceivePacket + c.Tcp.Wake + c.Switch + c.Copy(4)
	assert.Greater(t, half[4], way)
	assert.Less(t, half[4], way+5*host.Microsecond)
	// The receiver's work for a segment: interrupt, packet, acknowledgement,
	// copy.
	work := nicCosts.Interrupt + c.Tcp.ReceivePacket + c.SendPacket + c.Copy(segment)
	assert.InEpsilon(t, float64(work), float64(half[64<<10]-half[16<<10])/float64((48<<10)/segment), 0.15)
}

type freePort struct{ host.Port }

func (freePort) Timed() bool { return false }

func TestFreeModeIsRefused(t *testing.T) {
	th := host.NewThread(t.Context(), freePort{}, host.ThreadID{Rank: 1}, "free")
	_, err := Open(th, &driver.Host{}, Config{})
	assert.ErrorIs(t, err, ErrFreeMode)
}
