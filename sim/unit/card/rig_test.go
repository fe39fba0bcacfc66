// SPDX-License-Identifier: Apache-2.0

// Package card_test drives complete cards on the simulated wire as a hostile
// program would. Its separate driver knows the layouts, but not driver's agent,
// att and vipl, so that a misunderstanding shared by those and the RTL shows
// here.
//
// For each node a test tracks the required content of all host memory
// (machine.want) and the required values of the card's counters
// (machine.counts), with the plain model in model_test.go.
package card_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// config lists the differences between the fabrics of these tests. The zero
// value is the plain configuration.
type config struct {
	straps  uint32
	params  map[string]int64 // as sim.Config.Params
	program string           // a simulator with injected bugs
	rawLog2 uint32           // entries of the raw transmit rings; 0 = as the receive rings
	faults  sim.WireFaults
	keep    []uint32 // frames of each memory that the test itself allocates
	noSkip  bool     // idle spans are simulated clock by clock
	profile string   // as sim.Config.Profile
	wave    string   // as sim.Config.Wave
	digest  *bridge.Digest
}

// rig is two machines on a wire. Node 0's thread is the test's own goroutine.
type rig struct {
	t      *testing.T
	fabric *sim.Fabric
	node   [2]*machine
	random *rand.Rand
	forged [][]byte // for the isolation test's next round

	mu   sync.Mutex
	jobs []func() // for node 1, in order; each is announced by a message
}

// failure is the panic value of a machine's methods. Half of the checks run on
// a goroutine that must not end the test.
type failure struct{ err error }

func fail(format string, values ...any) { panic(failure{fmt.Errorf(format, values...)}) }

func try(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	f()
	return nil
}

// play runs a test on two machines with started cards, with the body on node
// 0's thread. It returns why the run failed.
func play(t *testing.T, c config, seed uint64, body func(r *rig)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cfg := sim.Config{
		Nodes:       []sim.Node{{Kind: "card", Name: "a"}, {Kind: "card", Name: "b"}},
		Threads:     []sim.Thread{{Node: 0, Rank: 0, Name: "a"}, {Node: 1, Rank: 0, Name: "b"}},
		MemoryBytes: memoryBytes, Seed: seed, Program: c.program, Params: c.params, Faults: c.faults,
		Profile: c.profile, Wave: c.wave,
	}
	if c.straps != 0 {
		cfg.Arguments = append(cfg.Arguments, "--strap", fmt.Sprint(c.straps))
	}
	if c.noSkip {
		cfg.Arguments = append(cfg.Arguments, "--no-skip", "1")
	}
	f, err := sim.Start(ctx, cfg)
	require.NoError(t, err)
	r := &rig{t: t, fabric: f, random: rand.New(rand.NewPCG(seed, 0))}
	for i, name := range []string{"a", "b"} {
		thread, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: i}, name)
		require.NoError(t, err)
		memory, err := f.Conn().Memory(i)
		require.NoError(t, err)
		r.node[i] = newMachine(thread, memory, rand.New(rand.NewPCG(seed, uint64(i+1))), max(c.rawLog2, ringLog2), c.keep...)
	}
	var wg sync.WaitGroup
	var other error
	wg.Go(func() { other = try(r.serve) })
	err = try(func() {
		r.both(func(m *machine) { m.start() })
		body(r)
	})
	ended := try(func() { r.send(nil) })
	detached := r.node[0].thread.Detach() // time continues for node 1 alone
	if err != nil || ended != nil {
		cancel() // it may wait forever
	}
	wg.Wait()
	if err == nil {
		err = errors.Join(ended, detached, other, r.node[1].thread.Detach())
	}
	if c.digest != nil && err == nil {
		*c.digest, err = f.Digest(ctx)
	}
	if c := f.Close(); err == nil {
		err = c
	}
	return err
}

func mustPlay(t *testing.T, c config, body func(r *rig)) {
	t.Helper()
	seed, start := unit.Seed(t), time.Now()
	err := play(t, c, seed, func(r *rig) {
		body(r)
		r.settle()
		r.carry()
		r.verify()
		t.Logf("seed %d: simulated %v, wall %v", seed, r.node[0].thread.Now(), time.Since(start).Round(10*time.Millisecond))
	})
	require.NoError(t, err, "replay with HVIA_SEED=%d", seed)
}

// mustCatch plays a test that must notice a bug of the card.
func mustCatch(t *testing.T, c config, body func(r *rig)) error {
	t.Helper()
	err := play(t, c, unit.Seed(t), func(r *rig) {
		body(r)
		r.settle()
		r.carry()
		r.verify()
	})
	require.Error(t, err, "the injected bug was not noticed")
	t.Logf("noticed: %v", err)
	return err
}

func (r *rig) send(job func()) {
	r.mu.Lock()
	r.jobs = append(r.jobs, job)
	r.mu.Unlock()
	if err := r.node[0].thread.Send(host.ThreadID{Node: 1}, []byte("job")); err != nil {
		fail("ask node 1: %w", err)
	}
}

// serve is node 1's goroutine. It ends with the first failure, after a notice
// to node 0, whose time then continues without node 1.
func (r *rig) serve() {
	thread := r.node[1].thread
	for i := 0; ; i++ {
		if _, _, err := thread.Receive(host.Never); err != nil {
			fail("node 1 waits for work: %w", err)
		}
		r.mu.Lock()
		job := r.jobs[i]
		r.mu.Unlock()
		if job == nil {
			return
		}
		failed, answer := try(job), ""
		if failed != nil {
			answer = failed.Error()
		}
		told := thread.Send(host.ThreadID{}, []byte(answer[:min(len(answer), 2000)]))
		if err := errors.Join(failed, told); err != nil {
			panic(failure{errors.Join(err, thread.Detach())})
		}
	}
}

// begin makes node 1 run a job; end waits until the job is done.
func (r *rig) begin(job func(m *machine)) { r.send(func() { job(r.node[1]) }) }

func (r *rig) end() {
	m, _, err := r.node[0].thread.Receive(host.Never)
	if err != nil {
		fail("node 0 waits for node 1: %w", err)
	}
	if len(m.Data) > 0 {
		fail("node 1: %s", m.Data)
	}
}

// b makes node 1 run a job, and waits.
func (r *rig) b(job func(m *machine)) {
	r.begin(job)
	r.end()
}

// both makes both machines run a job at the same time.
func (r *rig) both(job func(m *machine)) {
	r.begin(job)
	job(r.node[0])
	r.end()
}

func (r *rig) settle() {
	r.sleep(200 * host.Microsecond)
	r.both(func(m *machine) { m.awaitQuiet() })
}

func (r *rig) sleep(span host.Time) { r.node[0].sleep(span) }

// verify compares all memory and counters of both nodes with the model.
func (r *rig) verify() {
	r.both(func(m *machine) {
		m.verifyMemory()
		m.verifyErrors()
		m.verifyCounters()
	})
}

// takesSeconds skips a test with -short. The remaining tests use each part
// once.
func takesSeconds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}

// stopped returns the reason for which the simulator ended the run, or nil.
func stopped(err error) *bridge.StopError {
	var stop *bridge.StopError
	errors.As(err, &stop)
	return stop
}
