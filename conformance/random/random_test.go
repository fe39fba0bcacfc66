// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
)

// fakes runs a list of operations on fake cards, or on M-VIA over fake NICs.
func fakes(ctx context.Context, d driver.Device, seed uint64, r *randomRun, lose func(int, []byte) bool) error {
	return fakesWith(ctx, d, seed, r, func(f *drivertest.Fabric) { f.Lose = lose })
}

// fakesWith is fakes with a prepared wire.
func fakesWith(ctx context.Context, d driver.Device, seed uint64, r *randomRun, prepare func(f *drivertest.Fabric)) error {
	f, err := drivertest.NewOf(d, len(r.nodes), 2*len(r.nodes))
	if err != nil {
		return err
	}
	defer f.Close()
	prepare(f)
	return fabric.RunOn(ctx, f, fabric.RunConfig{Device: d, Seed: seed, Transport: driver.Transport{RetryTimeout: fakeRetry}}, conformance.Programs(r.mains()...)...)
}

// fakeRetry is the retry timeout of fake cards. It exceeds every round trip on
// their wire, with delays.
const fakeRetry = 100 * host.Microsecond

// wire sets the faults of the fakes' wire. It drops all frames of a pair whose
// link is down, and those frames of unreliable VIs that the model loses. If the
// run has faults, frames of reliable VIs are lost, duplicated or delayed by
// seed; retransmission hides this from programs.
func (r *randomRun) wire(seed uint64) func(f *drivertest.Fabric) {
	return func(f *drivertest.Fabric) {
		faults := drivertest.Faults{Seed: seed, Lose: 40, Duplicate: 30, Delay: 60}.Copies()
		// The first frame of a connection has the connection's number and its
		// first sequence number.
		type vi struct{ node, index int }
		type connection struct {
			number uint16
			first  uint32
		}
		last := map[vi]connection{}
		f.Copies = func(node int, frame []byte) []host.Time {
			once := []host.Time{0}
			if !conformtest.IsVIA(frame) {
				return once
			}
			h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
			cut, reliable := r.path(node, int(h.SourceVI()&0xff))
			switch {
			case cut:
				return nil
			case reliable && r.under.faulty:
				copies := faults(node, frame)
				if len(copies) != 1 || copies[0] != 0 {
					r.faults++
				}
				return copies
			case reliable || r.under.lose == nil:
				return once
			}
			key := vi{node, int(h.SourceVI() & 0xff)}
			if of, known := last[key]; !known || of.number != h.SourceVI() {
				last[key] = connection{h.SourceVI(), h.Sequence()}
			}
			if r.under.lose(node, int(h.Sequence()-last[key].first)) {
				r.faults++
				return nil
			}
			return once
		}
	}
}

// path reports whether the link of a node's VI is down, and whether the VI is
// reliable.
func (r *randomRun) path(node, index int) (cut, reliable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pair := range randomPairs {
		if side := r.on.side(node, pair); side >= 0 && r.live.sides[side].index[pair] == index {
			return r.cut[pair], r.reliable[pair]
		}
	}
	return false, false
}

// runner executes a run.
type runner func(r *randomRun) error

// searchTime bounds the search for the shortest list in wall time: a list of
// the whole run takes minutes on the simulated card.
const searchTime = 10 * time.Minute

// shortest searches the shortest failing list, after the run of all operations
// failed. If its time is over, the list still fails but may not be the
// shortest.
func shortest(ops []operation, verified int, c conditions, run runner) (n int, err error) {
	end := time.Now().Add(searchTime)
	low, high := verified, verified // the first low operations succeed, the first high ones fail
	for high < len(ops) && (high == verified || ops[high-1].kind != opSettle) {
		high++
	}
	for {
		r := newRandomRun(ops[:high], bugs{}, c)
		if err = run(r); err != nil {
			break
		}
		if high == len(ops) {
			return high, errors.New("the failure was not reproducible")
		}
		high = len(ops) // the failure needs later operations
	}
	for high-low > 1 && time.Now().Before(end) {
		middle := (low + high) / 2
		if e := run(newRandomRun(ops[:middle], bugs{}, c)); e != nil {
			high, err = middle, e
		} else {
			low = middle
		}
	}
	return high, err
}

// randomOperations runs operations of a seed and reports the shortest prefix
// that fails.
func randomOperations(t *testing.T, seed uint64, n int, run runner) *randomRun {
	t.Helper()
	return runUnder(t, seed, n, conditions{}, run)
}

// runUnder is randomOperations under other conditions.
func runUnder(t *testing.T, seed uint64, n int, c conditions, run runner) *randomRun {
	t.Helper()
	ops := generate(t, seed, n, c)
	start := time.Now()
	r := newRandomRun(ops, bugs{}, c)
	if err := run(r); err != nil {
		verified := r.verified
		require.NotNil(t, r.w, "the run did not start: %v", err)
		t.Logf("%v\nsearching the shortest failing list; %d operations were verified", err, verified)
		at, short := shortest(ops, verified, c, run)
		text := ""
		for i := max(0, at-8); i < at; i++ {
			text += fmt.Sprintf("\n  %d: %v", i, ops[i])
		}
		t.Fatalf("replay with HVIA_SEED=%d: the first %d operations of %d fail: %v\nthe last ones:%s", seed, at, n, short, text)
	}
	t.Logf("%d operations with %d posts, wall %v", n, r.posts, time.Since(start).Round(time.Millisecond))
	return r
}

// everything lists the rows of VIA's tables that a long run must reach.
var everything = []string{
	"send: Done Send", "send: Done RDMAWrite",
	"send: Done FormatError Send", "send: Done FormatError RDMAWrite", "send: Done FormatError RDMARead",
	"send: Done ProtectionError Send", "send: Done ProtectionError Send, some was sent",
	"send: Done ProtectionError RDMAWrite", "send: Done ProtectionError RDMAWrite, some was sent",
	"send: Done LengthError Send", "send: Done LengthError Send, some was sent",
	"send: Done LengthError RDMAWrite",
	"send: Done LengthError RDMAWrite, some was sent",
	"send: Done Flushed Send", "send: Done Flushed RDMAWrite",
	"receive: Done Receive", "receive: Done Immediate Receive", "receive: Done Immediate RemoteRDMAWrite",
	"receive: Done FormatError Receive", "receive: Done FormatError Immediate RemoteRDMAWrite",
	"receive: Done ProtectionError Receive", "receive: Done LengthError Receive",
	"receive: Done RDMAProtectionError Immediate RemoteRDMAWrite",
	"receive: Done PartialError Receive", "receive: Done PartialError RemoteRDMAWrite",
	"receive: Done LengthError PartialError Receive", "receive: Done PartialError Flushed Receive", "receive: Done Flushed Receive",
	"asynchronous: PostDescriptor", "asynchronous: ConnectionLost", "asynchronous: ReceiveQueueEmpty",
	"asynchronous: RDMAWriteProtection", "asynchronous: RDMAWriteAbort", "asynchronous: CompletionProtection",
	"state: Idle", "state: Connected", "state: Error", "state: Free",
}

func (r *randomRun) requireTally(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(r.tally)) {
		t.Logf("%7d %s", r.tally[kind], kind)
	}
	for _, kind := range kinds {
		require.NotZero(t, r.tally[kind], "no '%s'", kind)
	}
}

// Random operations on fakes verify the library, the agents, and the fake cards
// or M-VIA against VIA.
func TestRandomOperationsOnFakes(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		n := conformtest.Long(20_000, 200_000)
		if testing.Short() {
			n = 1000
		}
		s := conformtest.Seed(t)
		r := randomOperations(t, s, n, func(r *randomRun) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			return fakes(ctx, d, s, r, nil)
		})
		if n >= 20_000 {
			r.requireTally(t, everything...)
		}
	})
}

// Four nodes use completion queues, poll them and change their capacity while
// work is in flight.
func TestRandomOperationsWithCompletionQueues(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		n := conformtest.Long(20_000, 200_000)
		if testing.Short() {
			n = 1000
		}
		s := conformtest.Seed(t)
		r := runUnder(t, s, n, conditions{on: fourNodes, queues: true}, func(r *randomRun) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			return fakes(ctx, d, s, r, nil)
		})
		if n >= 20_000 {
			r.requireTally(t, everything...)
			r.requireTally(t, "entries", "asynchronous: CompletionQueueOverrun")
		}
	})
}

// The wire loses one frame in nine of the unreliable VIs.
func TestRandomOperationsOverALossyWire(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		n := 20_000
		if testing.Short() {
			n = 1000
		}
		s := conformtest.Seed(t)
		c := conditions{lose: oneInNine(s)}
		r := runUnder(t, s, n, c, func(r *randomRun) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			return fakesWith(ctx, d, s, r, r.wire(s))
		})
		t.Logf("%d frames lost", r.faults)
		if n >= 20_000 {
			r.requireTally(t, everything...)
			require.Greater(t, r.faults, 500)
		}
	})
}

func oneInNine(seed uint64) func(node, frame int) bool {
	return func(node, frame int) bool {
		return rand.New(rand.NewPCG(seed, uint64(node)<<32|uint64(frame))).IntN(9) == 0
	}
}

// everythingReliable lists the rows of the transport's tables that a run of all
// levels must reach in addition.
var everythingReliable = []string{
	"send: Done RDMARead", "send: Done Flushed RDMARead", "send: Done FormatError RDMARead", "send: Done LengthError RDMARead",
	"send: Done ProtectionError RDMARead", "send: Done RDMAProtectionError RDMARead",
	"send: Done RDMAProtectionError RDMAWrite", "send: Done RemoteDescriptorError RDMAWrite", "send: Done RemoteDescriptorError Send",
	"asynchronous: RDMAReadProtection", "asynchronous: RDMAWriteProtection", "asynchronous: ReceiveQueueEmpty",
	"asynchronous: CompletionQueueOverrun", "asynchronous: CompletionProtection", "asynchronous: PostDescriptor", "asynchronous: ConnectionLost",
	"receive: Done RDMAProtectionError Immediate RemoteRDMAWrite", "receive: Done LengthError Receive", "receive: Done ProtectionError Receive",
	"receive: Done PartialError Flushed Receive", "entries",
}

// allLevels returns the conditions for VIs of all levels, on a wire with or
// without faults.
func allLevels(seed uint64, faulty bool) conditions {
	c := conditions{on: fourNodes, queues: true, reliable: true, cuts: true, faulty: faulty}
	if faulty {
		c.lose = oneInNine(seed)
	}
	return c
}

// The mutants of the transport run this test. It does not search the shortest
// failing list.
func TestSomeOperationsOfAllLevels(t *testing.T) {
	for _, faulty := range []bool{false, true} {
		t.Run(fmt.Sprint("faulty wire ", faulty), func(t *testing.T) {
			// One seed alone misses some of the injected bugs.
			for s := conformtest.Seed(t); s < conformtest.Seed(t)+4; s++ {
				c := allLevels(s, faulty)
				ops := generate(t, s, 8000, c)
				r := newRandomRun(ops, bugs{}, c)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, fakesWith(ctx, driver.DeviceHvia, s, r, r.wire(s)), "seed %d: %d operations were verified", s, r.verified)
			}
		})
	}
}

// VIs of all levels run on four and on two nodes, with RDMA reads and
// completion queues, on a wire with and without faults. The programs of
// reliable VIs must not notice the faults.
func TestRandomOperationsOfAllLevels(t *testing.T) {
	for _, c := range []struct {
		name  string
		under conditions
	}{
		{"four nodes", conditions{on: fourNodes, queues: true, reliable: true, cuts: true}},
		{"two nodes", conditions{on: twoNodes, queues: true, reliable: true, cuts: true}},
		{"wire faults", conditions{on: fourNodes, queues: true, reliable: true, cuts: true, faulty: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := conformtest.Long(20_000, 500_000)
			if testing.Short() {
				n = 1000
			}
			s := conformtest.Seed(t)
			if c.under.faulty {
				c.under = allLevels(s, true)
			}
			r := runUnder(t, s, n, c.under, func(r *randomRun) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				return fakesWith(ctx, driver.DeviceHvia, s, r, r.wire(s))
			})
			t.Logf("%d faults of the wire", r.faults)
			if n >= 20_000 {
				if c.under.faulty {
					r.requireTally(t, "send: Done RDMARead", "send: Done RDMAProtectionError RDMAWrite", "send: Done RemoteDescriptorError Send", "send: Done TransportError Send")
					require.Greater(t, r.faults, 500)
				} else {
					r.requireTally(t, everythingReliable...)
					r.requireTally(t, "send: Done TransportError Send")
				}
			}
		})
	}
}

// Random operations on the simulated card.
func TestRandomOperationsOnTheCard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	s := conformtest.Seed(t)
	r := randomOperations(t, s, conformtest.Long(10_000, 200_000), func(r *randomRun) error { return simulatedCards(t, s, r, 0) })
	r.requireTally(t, everything...)
}

// Random operations on M-VIA over the simulated plain NIC, whose interrupts are
// late and which reads frames long after the post.
func TestRandomOperationsOnMvia(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator, whose build takes minutes")
	}
	for _, c := range []struct {
		name  string
		costs host.CostModel
	}{
		{"work takes no time", host.CostModel{}},
		// Interrupts then occur in the middle of a send.
		{"work takes time", kernelWork},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := conformtest.Seed(t)
			r := randomOperations(t, s, conformtest.Long(10_000, 200_000), func(r *randomRun) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				return fabric.Run(ctx, fabric.RunConfig{Device: driver.DeviceMvia, Seed: s, Costs: c.costs}, conformance.Programs(r.mains()...)...)
			})
			r.requireTally(t, everything...)
		})
	}
}

// kernelWork has kernel costs that let a receiver keep pace with the wire.
var kernelWork = host.CostModel{
	Post: 500 * host.Nanosecond, Interrupt: host.Microsecond,
	Kernel: host.KernelCosts{
		Trap: 400 * host.Nanosecond, Switch: host.Microsecond, SendPacket: 3 * host.Microsecond, CopyByte: host.Nanosecond,
		Mvia: host.ProtocolCosts{ReceivePacket: host.Microsecond, Wake: 5 * host.Microsecond},
	},
}

// simulatedCards runs a list of operations on simulated cards with the given
// straps.
func simulatedCards(t *testing.T, seed uint64, r *randomRun, straps uint32) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	c := fabric.RunConfig{Seed: seed, Finished: func(f *sim.Fabric) error {
		d, err := f.Digest(ctx)
		t.Logf("simulated %v", d.Time)
		return err
	}}
	if straps != 0 {
		c.Fabric.Arguments = []string{"--strap", fmt.Sprint(straps)}
	}
	return fabric.Run(ctx, c, conformance.Programs(r.mains()...)...)
}

// VIs of all levels run on simulated cards, with straps, and with wire faults
// that reliable VIs must hide. With wire faults all VIs are reliable, because
// the model does not know which frames the wire loses.
func TestRandomOperationsOfAllLevelsOnTheCard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	const lossyLink = "drop=2% type 0x88b5,duplicate=1% type 0x88b5,corrupt=1% type 0x88b5 bits 2,truncate=0.5% type 0x88b5,reorder=1% type 0x88b5"
	for _, c := range []struct {
		name   string
		n      int
		under  conditions
		straps uint32
		faults string
		params map[string]int64
	}{
		{"two nodes", 4_000, conditions{on: twoNodes, queues: true, reliable: true}, 0, "", nil},
		{"split bursts", 3_000, conditions{on: twoNodes, queues: true, reliable: true}, 0, "", map[string]int64{"BridgeSplitWrites": 400}},
		{"four nodes", 20_000, conditions{on: fourNodes, queues: true, reliable: true}, 0, "", nil},
		{"straps", 3_000, conditions{on: twoNodes, queues: true, reliable: true, onArrival: true},
			1<<layout.StrapReceiveFetchOnArrival | 1<<layout.StrapShortBursts | 1<<layout.StrapCutThroughReceive, "", nil},
		{"a lossy link", 20_000, conditions{on: fourNodes, queues: true, reliable: true, faulty: true, noneLost: true}, 0, lossyLink, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := conformtest.Seed(t)
			faults, err := sim.ParseWireFaults(c.faults)
			require.NoError(t, err)
			run := func(r *randomRun) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				f := fabric.RunConfig{Seed: s}
				f.Fabric.Faults, f.Fabric.Params = faults, c.params
				if c.straps != 0 {
					f.Fabric.Arguments = []string{"--strap", fmt.Sprint(c.straps)}
				}
				return fabric.Run(ctx, f, conformance.Programs(r.mains()...)...)
			}
			if err := run(newRandomRun(nil, bugs{}, c.under)); errors.Is(err, errUnsupported) {
				t.Skip(err)
			}
			r := runUnder(t, s, conformtest.Long(c.n*2/5, 10*c.n), c.under, run)
			r.requireTally(t, "send: Done Send", "send: Done RDMAWrite", "send: Done RDMARead", "send: Done RemoteDescriptorError Send",
				"send: Done RDMAProtectionError RDMAWrite", "asynchronous: ConnectionLost", "entries")
		})
	}
}

// These straps may change only times, and when the provider reads an
// unreachable receive descriptor.
func TestRandomOperationsWithStraps(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	for _, c := range []struct {
		name   string
		straps uint32
	}{
		{"receive descriptors fetched on arrival", 1 << layout.StrapReceiveFetchOnArrival},
		{"short bursts", 1 << layout.StrapShortBursts},
		// No cut-through on transmit: an aborted frame takes others in the MAC
		// with it.
		{"both, and cut-through receive", 1<<layout.StrapReceiveFetchOnArrival | 1<<layout.StrapShortBursts | 1<<layout.StrapCutThroughReceive},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := conformtest.Seed(t)
			onArrival := c.straps&(1<<layout.StrapReceiveFetchOnArrival) != 0
			r := runUnder(t, s, conformtest.Long(3_000, 60_000), conditions{onArrival: onArrival}, func(r *randomRun) error {
				return simulatedCards(t, s, r, c.straps)
			})
			r.requireTally(t, "send: Done Send", "send: Done RDMAWrite", "send: Done Flushed Send", "receive: Done Receive",
				"receive: Done Immediate RemoteRDMAWrite", "receive: Done ProtectionError Receive", "receive: Done Flushed Receive",
				"asynchronous: PostDescriptor", "asynchronous: ConnectionLost", "asynchronous: ReceiveQueueEmpty", "state: Error")
		})
	}
}
