// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
)

// crew is a group of threads of a node and their publications. In these tests
// stores are times of publication, and a poll sees earlier ones.
type crew struct {
	mu     sync.Mutex
	stores []host.Time
	noise  *rand.Rand // wall-clock delays, which must not change anything
}

const crewWord = 0x3000

func (c *crew) publish(th *host.Thread) error {
	c.mu.Lock()
	c.stores = append(c.stores, th.Now())
	c.mu.Unlock()
	return c.knock(th)
}

// knock triggers an empty poll.
func (c *crew) knock(th *host.Thread) error {
	return th.Publish(bridge.Range{Address: crewWord, Length: 4})
}

func (c *crew) seen(at host.Time) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.stores {
		if s < at {
			n++
		}
	}
	return n
}

func (c *crew) poll(th *host.Thread, period, timeout host.Time, cond func() bool) (bool, error) {
	return th.Poll(host.Poll{Ranges: []bridge.Range{{Address: crewWord, Length: 4}}, Period: period, Timeout: timeout}, cond)
}

func (c *crew) disturb() {
	if c.noise == nil {
		return
	}
	c.mu.Lock()
	n := c.noise.IntN(6)
	c.mu.Unlock()
	switch n {
	case 0:
		time.Sleep(time.Duration(20+10*n) * time.Microsecond)
	case 1, 2:
		runtime.Gosched()
	}
}

// work plays each program on a separate thread with ranks from 0. The last
// `away` threads are on node 1, the others on node 0.
func work(t *testing.T, program string, noise uint64, away int, programs ...func(c *crew, th *host.Thread) error) bridge.Digest {
	t.Helper()
	ctx := testContext(t, time.Minute)
	var threads []sim.Thread
	for i := range programs {
		th := sim.Thread{Rank: i, Name: fmt.Sprint("rank ", i)}
		if i >= len(programs)-away {
			th.Node = 1
		}
		threads = append(threads, th)
	}
	f := startFabric(t, ctx, sim.Config{Threads: threads, Program: program})
	c := &crew{}
	if noise != 0 {
		c.noise = rand.New(rand.NewPCG(noise, 0))
	}
	var wg sync.WaitGroup
	errs := make([]error, len(programs))
	for i, p := range programs {
		th := attach(t, ctx, f, threads[i].Node, threads[i].Rank, threads[i].Name)
		wg.Go(func() {
			c.disturb()
			errs[i] = errors.Join(th.Begin(), p(c, th), th.Detach())
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	d, err := f.Digest(ctx)
	require.NoError(t, err)
	require.True(t, d.Reproducible)
	return d
}

// step is an action of a thread, and the expected clock after it.
type step struct {
	do   func(c *crew, th *host.Thread) error
	then host.Time
}

func charge(span host.Time) func(c *crew, th *host.Thread) error {
	return func(_ *crew, th *host.Thread) error { return th.Charge(span) }
}

func service(span host.Time) func(c *crew, th *host.Thread) error {
	return func(_ *crew, th *host.Thread) error { return th.ChargeInterrupt(span) }
}

func sleep(span host.Time) func(c *crew, th *host.Thread) error {
	return func(_ *crew, th *host.Thread) error { return th.Sleep(span) }
}

func publish(c *crew, th *host.Thread) error { return c.publish(th) }
func knock(c *crew, th *host.Thread) error   { return c.knock(th) }

// look polls until more than `before` publications are visible. want says
// whether that must happen within the timeout.
func look(period, timeout host.Time, before int, want bool) func(c *crew, th *host.Thread) error {
	return func(c *crew, th *host.Thread) error {
		ok, err := c.poll(th, period, timeout, func() bool { return c.seen(th.Now()) > before })
		if err == nil && ok != want {
			err = fmt.Errorf("the look at %v saw it: %v", th.Now(), ok)
		}
		return err
	}
}

func playSteps(steps ...step) func(c *crew, th *host.Thread) error {
	return func(c *crew, th *host.Thread) error {
		for i, s := range steps {
			if err := s.do(c, th); err != nil {
				return fmt.Errorf("step %d of %s: %w", i, th.Name(), err)
			}
			if th.Now() != s.then {
				return fmt.Errorf("step %d of %s ended at %v, want %v", i, th.Name(), th.Now(), s.then)
			}
			c.disturb()
		}
		return nil
	}
}

var processorCases = map[string]struct {
	away    int
	threads [][]step
}{
	"two at once": {0, [][]step{
		{{charge(100), 100}, {charge(10), 160}},
		{{charge(50), 150}},
	}},
	"one instant, by rank, whatever woke them": {0, [][]step{
		// a poll's deadline comes last in its instant
		{{look(7, 1000, 0, false), 1000}, {charge(5), 1005}},
		{{sleep(1000), 1000}, {charge(5), 1010}},
		{{sleep(1000), 1000}, {sleep(0), 1000}, {charge(5), 1015}},
	}},
	"in the order of the instants": {0, [][]step{
		{{charge(100), 100}},
		{{sleep(20), 20}, {charge(10), 140}},
		{{sleep(10), 10}, {charge(30), 130}},
	}},
	"sleep needs no processor, and 0 is no charge": {0, [][]step{
		{{charge(100), 100}},
		{{sleep(30), 30}, {charge(0), 30}, {sleep(30), 60}, {service(0), 60}},
	}},
	"a node has its own processor": {1, [][]step{
		{{charge(100), 100}},
		{{charge(70), 70}},
	}},
	"a look waits, and the grid goes on from there": {0, [][]step{
		{{look(40, 1000, 0, true), 250}, {look(40, 1000, 1, true), 290}},
		{{sleep(100), 100}, {charge(150), 250}},
		{{sleep(130), 130}, {publish, 130}, {sleep(130), 260}, {publish, 260}},
	}},
	"a look that is due sees what comes while it waits": {0, [][]step{
		{{look(40, 1000, 0, true), 259}},
		{{sleep(100), 100}, {charge(159), 259}},
		{{sleep(245), 245}, {publish, 245}},
	}},
	"a look that is not yet due does not wait": {0, [][]step{
		{{look(400, 1000, 0, true), 400}},
		{{sleep(100), 100}, {charge(159), 259}},
		{{sleep(245), 245}, {publish, 245}},
	}},
	"looks that see nothing wait as well": {0, [][]step{
		{{look(40, 1000, 0, true), 290}}, // due at 120, done at 250; 290
		{{sleep(100), 100}, {charge(150), 250}},
		{{sleep(251), 251}, {publish, 251}},
	}},
	"knocked at for nothing": {0, [][]step{
		{{look(40, 1000, 0, true), 330}}, // 250, 290, 330
		{{sleep(100), 100}, {charge(150), 250}},
		{{sleep(130), 130}, {knock, 130}, {sleep(135), 265}, {knock, 265}, {sleep(30), 295}, {publish, 295}},
	}},
	"a charge that begins with the look": {0, [][]step{
		// rank decides the order
		{{look(40, 1000, 0, true), 120}, {charge(5), 125}},
		{{sleep(120), 120}, {charge(130), 255}},
		{{sleep(119), 119}, {publish, 119}},
	}},
	"a charge that ends with the look": {0, [][]step{
		{{look(120, 1000, 0, true), 120}},
		{{charge(120), 120}},
		{{sleep(119), 119}, {publish, 119}},
	}},
	"between two charges": {0, [][]step{
		{{look(40, 1000, 0, true), 200}, {charge(1), 301}},
		{{sleep(100), 100}, {charge(100), 200}},
		{{sleep(150), 150}, {charge(100), 300}},
		{{sleep(130), 130}, {publish, 130}},
	}},
	"the last look waits, too": {0, [][]step{
		{{look(1000, 130, 0, false), 250}, {look(1000, 150, 0, true), 500}},
		{{sleep(100), 100}, {charge(150), 250}, {sleep(50), 300}, {charge(200), 500}},
		{{sleep(450), 450}, {publish, 450}},
	}},
	"the first look waits, too": {0, [][]step{
		{{sleep(150), 150}, {look(40, 1000, 0, true), 250}},
		{{sleep(100), 100}, {charge(150), 250}},
		{{sleep(110), 110}, {publish, 110}, {sleep(50), 160}, {look(40, 0, 3, false), 250}, {sleep(10), 260}, {look(7, 0, 0, true), 260}},
	}},
	"an interrupt service comes in between": {0, [][]step{
		{{charge(100), 160}},
		{{sleep(30), 30}, {service(50), 80}},
		{{sleep(10), 10}, {charge(20), 180}},
		{{sleep(40), 40}, {service(10), 90}, {charge(5), 185}},
		{{look(60, 1000, 0, true), 160}},
		{{sleep(20), 20}, {publish, 20}},
	}},
	"a service goes before a charge of its instant": {0, [][]step{
		{{charge(100), 107}},
		{{service(7), 7}},
		{{sleep(107), 107}, {service(3), 110}},
		{{sleep(107), 107}, {charge(10), 120}},
	}},
	"a look between two services": {0, [][]step{
		{{service(50), 50}},
		{{service(50), 100}},
		{{look(30, 1000, 0, true), 50}},
		{{sleep(10), 10}, {publish, 10}},
	}},
	"a look within a charge that was interrupted": {0, [][]step{
		{{charge(100), 150}},
		{{sleep(30), 30}, {service(50), 80}},
		{{look(40, 1000, 0, true), 150}},
		{{sleep(79), 79}, {publish, 79}},
	}},
}

func TestOneProcessorForANode(t *testing.T) {
	for name, c := range processorCases {
		t.Run(name, func(t *testing.T) {
			var programs []func(c *crew, th *host.Thread) error
			for _, steps := range c.threads {
				programs = append(programs, playSteps(steps...))
			}
			want := work(t, "", 0, c.away, programs...)
			runs := uint64(20)
			if testing.Short() {
				runs = 2
			}
			for i := range runs {
				func() {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1 + 3*int(i%2)))
					require.Equal(t, want, work(t, "", i+1, c.away, programs...))
				}()
			}
		})
	}
}

// ---- random programs, compared with a plain model ----

type opKind int

const (
	opSleep opKind = iota
	opCharge
	opService
	opPublish
	opKnock
	opPoll
	opKinds
)

type op struct {
	kind         opKind
	span, period host.Time
}

// result is the end of an operation, and whether a poll saw a publication.
type result struct {
	at  host.Time
	saw bool
}

func randomOps(r *rand.Rand, threads, n int) [][]op {
	all := make([][]op, threads)
	for i := range all {
		for range n {
			o := op{kind: opKind(r.IntN(int(opKinds))), span: host.Time(r.IntN(12)), period: host.Time(1 + r.IntN(6))}
			if o.kind == opPoll {
				o.span *= 4
			}
			all[i] = append(all[i], o)
		}
	}
	return all
}

type modelThread struct {
	ops     []op
	done    []result
	busy    bool // an operation is in progress
	until   host.Time
	left    host.Time // of a charge
	started bool
	look    host.Time // when the next poll is due
	first   int       // what the first poll saw, -1 before it
}

// model plays the programs picosecond by picosecond, with a processor that
// serves two queues, and threads.
func model(programs [][]op) [][]result {
	threads := make([]*modelThread, len(programs))
	for i, p := range programs {
		threads[i] = &modelThread{ops: p}
	}
	var queues [2][]*modelThread // charges, services
	var stores []host.Time
	seen := func(t host.Time) int { // the stores before t
		n, _ := slices.BinarySearch(stores, t)
		return n
	}
	for now := host.Time(0); ; now++ {
		held := false // a charge is in progress
		for q := range queues {
			if len(queues[q]) > 0 && queues[q][0].left == 0 {
				queues[q] = queues[q][1:]
			}
			held = held || len(queues[q]) > 0 && queues[q][0].started
		}
		var asked [2][]*modelThread
		running := false
		for _, th := range threads {
			for len(th.done) < len(th.ops) {
				o := th.ops[len(th.done)]
				if !th.busy {
					th.busy, th.until, th.left, th.started, th.look, th.first = true, now+o.span, o.span, false, now, -1
					if (o.kind == opCharge || o.kind == opService) && o.span > 0 {
						q := int(o.kind - opCharge)
						asked[q] = append(asked[q], th)
					}
				}
				ended, saw := o.kind == opPublish || o.kind == opKnock, false
				switch o.kind {
				case opSleep:
					ended = now >= th.until
				case opCharge, opService:
					ended = th.left == 0
				case opPublish:
					stores = append(stores, now)
				case opPoll:
					if now < th.look && now < th.until || held {
						break
					}
					if th.first < 0 {
						th.first = seen(now)
					}
					saw = seen(now) != th.first
					ended = saw || now >= th.until
					th.look = now + o.period
				}
				if !ended {
					break
				}
				th.done = append(th.done, result{now, saw})
				th.busy = false
			}
			running = running || len(th.done) < len(th.ops)
		}
		if !running {
			var all [][]result
			for _, th := range threads {
				all = append(all, th.done)
			}
			return all
		}
		for q := range queues {
			queues[q] = append(queues[q], asked[q]...) // by rank
		}
		for _, q := range []int{1, 0} {
			if len(queues[q]) > 0 {
				queues[q][0].started = true
				queues[q][0].left--
				break
			}
		}
	}
}

// onFabric plays the same programs on threads.
func onFabric(t *testing.T, program string, noise uint64, programs [][]op) ([][]result, bridge.Digest) {
	t.Helper()
	all := make([][]result, len(programs))
	var mains []func(c *crew, th *host.Thread) error
	for i, ops := range programs {
		mains = append(mains, func(c *crew, th *host.Thread) error {
			for _, o := range ops {
				var err error
				saw := false
				switch o.kind {
				case opSleep:
					err = th.Sleep(o.span)
				case opCharge:
					err = th.Charge(o.span)
				case opService:
					err = th.ChargeInterrupt(o.span)
				case opPublish:
					err = c.publish(th)
				case opKnock:
					err = c.knock(th)
				case opPoll:
					first := -1
					saw, err = c.poll(th, o.period, o.span, func() bool {
						n := c.seen(th.Now())
						if first < 0 {
							first = n
						}
						return n != first
					})
				}
				if err != nil {
					return err
				}
				all[i] = append(all[i], result{th.Now(), saw})
				c.disturb()
			}
			return nil
		})
	}
	d := work(t, program, noise, 0, mains...)
	return all, d
}

func TestRandomUseOfTheProcessor(t *testing.T) {
	s := seed(t)
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	saw, waited := 0, 0
	for i := range uint64(rounds) {
		programs := randomOps(rand.New(rand.NewPCG(s, i)), 2+int(i%4), 60)
		want := model(programs)
		for thread, results := range want {
			for k, r := range results {
				if r.saw {
					saw++
				}
				if o := programs[thread][k]; o.kind == opPoll && k > 0 && r.at > results[k-1].at+o.span {
					waited++
				}
			}
		}
		got, digest := onFabric(t, "", 0, programs)
		require.Equal(t, want, got, "round %d, seed %d", i, s)
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1 + 3*int(i%2)))
			again, same := onFabric(t, "", i+1, programs)
			require.Equal(t, want, again, "round %d, seed %d, disturbed", i, s)
			require.Equal(t, digest, same)
		}()
	}
	t.Logf("%d polls saw something, %d ended after their timeout", saw, waited)
	require.Greater(t, saw, rounds)
	require.Greater(t, waited, rounds)
}

// Bugs in the rules of the processor.
var processorBugs = [][3]string{
	{processorFile, "std::max(mine.begin, h.end)", "mine.begin"},                      // charges at once
	{processorFile, "h.service || !mine.service", "true"},                             // services wait
	{processorFile, "h.end = Later(h.end, span);", ""},                                // an interruption costs nothing
	{processorFile, "if (h.begin >= mine.begin) h.begin = Later(h.begin, span);", ""}, // starts before it runs
	{slotsFile, "x.node != y.node ? x.node < y.node : x.rank < y.rank", "x.rank > y.rank"},
	{processorFile, "h.begin < t && t < h.end", "h.begin <= t && t < h.end"},
	{slotsFile, "w.start = end;", ""},                                                                            // the grid does not move
	{schedulerFile, "for (const Processor::Hold& h : held) slots_.DelayPolls(s.name.node, h.begin, h.end);", ""}, // due polls are forgotten
	{schedulerFile, "processor.BusyUntil(at, index) > at ? 1 : 0", "0"},                                          // first polls do not wait
	{schedulerFile, "if (until == now_) return false;", "return false;"},
	{schedulerFile, "std::max(w.start, now_), Phase::kCharge", "std::max(w.start, now_), FAULT ? Phase::kCommand : Phase::kCharge"}, // before the instant is over
}

// The random programs reveal each.
func TestMutantProcessorIsCaught(t *testing.T) {
	for i, c := range processorBugs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			program := mutant(t, c)
			for i := range uint64(60) {
				programs := randomOps(rand.New(rand.NewPCG(20041104, i)), 2+int(i%4), 60)
				if got, _ := onFabric(t, program, 0, programs); !reflect.DeepEqual(model(programs), got) {
					return
				}
			}
			t.Fatalf("not caught: %s -> %s", c[1], c[2])
		})
	}
}

// A charge that its context ends releases the processor.
func TestAbortedChargeGivesTheProcessorBack(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: []sim.Thread{{Rank: 0, Name: "long"}, {Rank: 1, Name: "next"}}})
	long, next := attach(t, ctx, f, 0, 0, "long"), attach(t, ctx, f, 0, 1, "next")
	short, cancel := context.WithCancel(ctx)
	long.SetContext(short)
	done := make(chan error, 1)
	go func() { done <- long.Charge(host.Second) }()
	require.NoError(t, next.Sleep(10)) // the charge has started, and time stops while this thread runs
	cancel()
	require.ErrorIs(t, <-done, bridge.ErrAborted)
	require.Equal(t, host.Time(10), long.Now())
	require.NoError(t, long.Detach())
	require.NoError(t, next.Charge(5))
	require.Equal(t, host.Time(15), next.Now())
	require.NoError(t, next.Detach())
}

func TestChargeThatWaitsForSomethingIsRefused(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: []sim.Thread{{Name: "raw"}}})
	raw, err := f.Conn().Attach(ctx, 0, 0, "raw")
	require.NoError(t, err)
	require.NoError(t, raw.Begin(ctx))
	_, err = raw.Park(ctx, bridge.Wait{Timeout: 5, Message: true, Processor: bridge.ProcessorCharge})
	require.ErrorIs(t, err, bridge.ErrProtocol)
	require.ErrorContains(t, err, "asked for processor time")
}

// Threads of a node that are due at one instant run one after another, in the
// order of their ranks, for any computing time.
func TestThreadsOfANodeTakeTurns(t *testing.T) {
	const ranks, rounds = 3, 100
	ctx := testContext(t, time.Minute)
	var threads []sim.Thread
	for rank := range ranks {
		threads = append(threads, sim.Thread{Rank: rank, Name: fmt.Sprint("turn ", rank)})
	}
	f := startFabric(t, ctx, sim.Config{Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Threads: threads})
	var inside atomic.Int32
	var order []int // only used by the running thread
	var turns sync.WaitGroup
	errs := make([]error, ranks)
	for rank := range ranks {
		th := attach(t, ctx, f, 0, rank, threads[rank].Name)
		turn := func() error {
			if err := th.Sleep(host.Microsecond); err != nil {
				return err
			}
			if n := inside.Add(1); n != 1 {
				return fmt.Errorf("%d threads of the node run at once", n)
			}
			order = append(order, rank)
			time.Sleep(time.Duration(ranks-rank) * 50 * time.Microsecond)
			inside.Add(-1)
			return nil
		}
		turns.Go(func() {
			for range rounds {
				if errs[rank] = turn(); errs[rank] != nil {
					break
				}
			}
			errs[rank] = errors.Join(errs[rank], th.Detach())
		})
	}
	turns.Wait()
	require.NoError(t, errors.Join(errs...))
	want := make([]int, 0, ranks*rounds)
	for range rounds {
		want = append(want, 0, 1, 2)
	}
	require.Equal(t, want, order)
}
