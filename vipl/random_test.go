// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/layout"
	"hvia/sim"
)

// fakes runs a list of operations on fake cards, or on M-VIA over fake NICs.
func fakes(ctx context.Context, d driver.Device, seed uint64, r *randomRun, lose func(int, []byte) bool) error {
	f, err := drivertest.NewOf(d, randomNodes, 2*randomNodes)
	if err != nil {
		return err
	}
	defer f.Close()
	f.Lose = lose
	return driver.RunOn(ctx, f, driver.RunConfig{Device: d, Seed: seed}, programs(r.mains()...)...)
}

// runner carries a run out.
type runner func(r *randomRun) error

// searchTime bounds the search for the shortest list, in wall time: a list of
// the whole run takes minutes on the simulated card.
const searchTime = 10 * time.Minute

// shortest looks for the shortest list that fails, knowing that the run of all
// of them failed. What it has when its time is over still fails, but may not be
// the shortest.
func shortest(ops []operation, judged int, run runner) (n int, err error) {
	end := time.Now().Add(searchTime)
	low, high := judged, judged // the first so many are right, the first so many are not
	for high < len(ops) && (high == judged || ops[high-1].kind != opSettle) {
		high++
	}
	for {
		r := newRandomRun(ops[:high], lies{})
		if err = run(r); err != nil {
			break
		}
		if high == len(ops) {
			return high, errors.New("the failure did not come again")
		}
		high = len(ops) // it needs what comes later
	}
	for high-low > 1 && time.Now().Before(end) {
		middle := (low + high) / 2
		if e := run(newRandomRun(ops[:middle], lies{})); e != nil {
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
	ops, err := generate(seed, n)
	require.NoError(t, err, "the generator, seed %d", seed)
	return runOperations(t, seed, ops, run)
}

func runOperations(t *testing.T, seed uint64, ops []operation, run runner) *randomRun {
	t.Helper()
	n := len(ops)
	start := time.Now()
	r := newRandomRun(ops, lies{})
	if err := run(r); err != nil {
		judged := r.judged
		require.NotNil(t, r.w, "the run did not begin: %v", err)
		t.Logf("%v\nlooking for the shortest list that fails; %d operations were right", err, judged)
		at, short := shortest(ops, judged, run)
		text := ""
		for i := max(0, at-8); i < at; i++ {
			text += fmt.Sprintf("\n  %d: %v", i, ops[i])
		}
		t.Fatalf("replay with HVIA_SEED=%d: the first %d operations of %d fail: %v\nthe last ones:%s", seed, at, n, short, text)
	}
	t.Logf("%d operations with %d posts, wall %v", n, r.posts, time.Since(start).Round(time.Millisecond))
	return r
}

// everything is what a run of some length must have met: the rows of VIA's
// tables.
var everything = []string{
	"send: Done Send", "send: Done RdmaWrite",
	"send: Done FormatError Send", "send: Done FormatError RdmaWrite", "send: Done FormatError RdmaRead",
	"send: Done ProtectionError Send", "send: Done ProtectionError Send, some was sent",
	"send: Done ProtectionError RdmaWrite", "send: Done ProtectionError RdmaWrite, some was sent",
	"send: Done LengthError Send", "send: Done LengthError Send, some was sent",
	"send: Done LengthError RdmaWrite",
	"send: Done LengthError RdmaWrite, some was sent",
	"send: Done Flushed Send", "send: Done Flushed RdmaWrite",
	"receive: Done Receive", "receive: Done Immediate Receive", "receive: Done Immediate RemoteRdmaWrite",
	"receive: Done FormatError Receive", "receive: Done FormatError Immediate RemoteRdmaWrite",
	"receive: Done ProtectionError Receive", "receive: Done LengthError Receive",
	"receive: Done RdmaProtectionError Immediate RemoteRdmaWrite",
	"receive: Done PartialError Receive", "receive: Done PartialError RemoteRdmaWrite",
	"receive: Done LengthError PartialError Receive", "receive: Done PartialError Flushed Receive", "receive: Done Flushed Receive",
	"asynchronous: PostDescriptor", "asynchronous: ConnectionLost", "asynchronous: ReceiveQueueEmpty",
	"asynchronous: RdmaWriteProtection", "asynchronous: RdmaWriteAbort", "asynchronous: CompletionProtection",
	"state: Idle", "state: Connected", "state: Error", "state: Free",
}

func (r *randomRun) met(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(r.tally)) {
		t.Logf("%7d %s", r.tally[kind], kind)
	}
	for _, kind := range kinds {
		require.NotZero(t, r.tally[kind], "no '%s'", kind)
	}
}

// long chooses between the size of a normal run and that of a long one.
func long(normal, long int) int {
	if os.Getenv("HVIA_LONG") != "" {
		return long
	}
	return normal
}

// Random operations on fakes: that the library, the agents, and the fake cards or
// M-VIA do what VIA says.
func TestRandomOperationsOnFakes(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		n := long(20_000, 200_000)
		if testing.Short() {
			n = 1000
		}
		s := seed(t)
		r := randomOperations(t, s, n, func(r *randomRun) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			return fakes(ctx, d, s, r, nil)
		})
		if n >= 20_000 {
			r.met(t, everything...)
		}
	})
}

// And over a wire that loses one frame in nine: what unreliable delivery makes of it.
func TestRandomOperationsOverALossyWire(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		n := 20_000
		if testing.Short() {
			n = 1000
		}
		s := seed(t)
		c := conditions{lose: func(node, frame int) bool {
			return rand.New(rand.NewPCG(s, uint64(node)<<32|uint64(frame))).IntN(9) == 0
		}}
		ops, err := generateFor(s, n, c)
		require.NoError(t, err, "the generator, seed %d", s)
		lost := 0
		r := runOperations(t, s, ops, func(r *randomRun) error {
			r.under = c
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			// The first frame of a connection has a number of its own, and the first sequence number.
			type vi struct{ node, index int }
			type connection struct {
				number uint16
				first  uint32
			}
			last := map[vi]connection{}
			lost = 0
			return fakes(ctx, d, s, r, func(node int, frame []byte) bool {
				if !isVia(frame) {
					return false
				}
				h := layout.ViaHeader(frame[layout.EthernetHeaderSize:])
				key := vi{node, int(h.SourceVi() & 0xff)}
				if of, known := last[key]; !known || of.number != h.SourceVi() {
					last[key] = connection{h.SourceVi(), h.Sequence()}
				}
				lose := c.lose(node, int(h.Sequence()-last[key].first))
				if lose {
					lost++
				}
				return lose
			})
		})
		t.Logf("%d frames lost", lost)
		if n >= 20_000 {
			r.met(t, everything...)
			require.Greater(t, lost, 500)
		}
	})
}

// The same on the simulated card.
func TestRandomOperationsOnTheCard(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator with the card, whose build takes minutes")
	}
	s := seed(t)
	r := randomOperations(t, s, long(20_000, 200_000), func(r *randomRun) error { return simulatedCards(t, s, r, 0) })
	r.met(t, everything...)
}

// And on M-VIA over the simulated plain NIC, whose interrupts come late and which
// reads frames long after the post.
func TestRandomOperationsOnMvia(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator, whose build takes minutes")
	}
	for _, c := range []struct {
		name  string
		costs driver.CostModel
	}{
		{"work takes no time", nil},
		// So a thread is interrupted in the midst of what it sends.
		{"work takes time", kernelWork{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := seed(t)
			r := randomOperations(t, s, long(20_000, 200_000), func(r *randomRun) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				return driver.Run(ctx, driver.RunConfig{Device: driver.DeviceMvia, Seed: s, Costs: c.costs}, programs(r.mains()...)...)
			})
			r.met(t, everything...)
		})
	}
}

// kernelWork has prices for a kernel's work that let a receiver keep pace with the wire.
type kernelWork struct{ driver.NoCosts }

func (kernelWork) Post() driver.Time      { return 500 * driver.Nanosecond }
func (kernelWork) Interrupt() driver.Time { return driver.Microsecond }
func (kernelWork) Kernel() driver.KernelCosts {
	return driver.KernelCosts{
		Trap: 400 * driver.Nanosecond, Switch: driver.Microsecond, SendPacket: 3 * driver.Microsecond, CopyByte: driver.Nanosecond,
		Mvia: driver.ProtocolCosts{ReceivePacket: driver.Microsecond, Wake: 5 * driver.Microsecond},
	}
}

// simulatedCards runs a list of operations on simulated cards with these straps.
func simulatedCards(t *testing.T, seed uint64, r *randomRun, straps uint32) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	c := driver.RunConfig{Seed: seed, Finished: func(f *sim.Fabric) error {
		d, err := f.Digest(ctx)
		t.Logf("simulated %v", d.Time)
		return err
	}}
	if straps != 0 {
		c.Fabric.Arguments = []string{"--strap", fmt.Sprint(straps)}
	}
	return driver.Run(ctx, c, programs(r.mains()...)...)
}

// And with straps that are to change nothing but times, and when a receive
// descriptor that cannot be reached is met.
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
		// Not cut-through of what is sent: a frame that is given up takes others in the MAC with it.
		{"both, and cut-through of what is received", 1<<layout.StrapReceiveFetchOnArrival | 1<<layout.StrapShortBursts | 1<<layout.StrapCutThroughReceive},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := seed(t)
			onArrival := c.straps&(1<<layout.StrapReceiveFetchOnArrival) != 0
			ops, err := generateFor(s, long(6_000, 60_000), conditions{onArrival: onArrival})
			require.NoError(t, err, "the generator, seed %d", s)
			r := runOperations(t, s, ops, func(r *randomRun) error {
				r.under.onArrival = onArrival
				return simulatedCards(t, s, r, c.straps)
			})
			r.met(t, "send: Done Send", "send: Done RdmaWrite", "send: Done Flushed Send", "receive: Done Receive",
				"receive: Done Immediate RemoteRdmaWrite", "receive: Done ProtectionError Receive", "receive: Done Flushed Receive",
				"asynchronous: PostDescriptor", "asynchronous: ConnectionLost", "asynchronous: ReceiveQueueEmpty", "state: Error")
		})
	}
}

// isVia says whether a frame belongs to a connection.
func isVia(frame []byte) bool {
	return layout.EthernetHeader(frame).EtherType() == layout.EtherTypeVia
}
