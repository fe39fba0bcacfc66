// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	benchbridge "hvia/sim/unit/fabric/bridge"
)

// The workload: a ping-pong between rank 0 of both nodes, with computing time
// that depends on the payload, beside a stream in each direction from rank 1 of
// each node. A ping-pong alone repeats even with a broken protocol.

const (
	memoryBytes = 8 << 20
	maxTransfer = 4096
	pollPeriod  = 220 * host.Nanosecond
	streamSlots = 8
)

var workloadThreads = []sim.Thread{{Node: 0, Rank: 0, Name: "ping"}, {Node: 0, Rank: 1, Name: "stream-a"}, {Node: 1, Rank: 0, Name: "pong"}, {Node: 1, Rank: 1, Name: "stream-b"}}

// area gives each rank separate frames: request block, source, and targets.
type area struct{ base uint32 }

func areaOf(rank int) area { return area{base: uint32(1<<20 + rank<<19)} }

func (a area) request() uint32         { return a.base }
func (a area) source() uint32          { return a.base + 0x1000 }
func (a area) target(slot int) uint32  { return a.base + 0x10000 + uint32(slot)*0x2000 }
func (a area) frames() (lo, count int) { return int(a.base / bridge.FrameBytes), 0x20 * 2 }

func useAreas(m *bridge.Memory) error {
	for rank := range 2 {
		lo, n := areaOf(rank).frames()
		for i := range n {
			if err := m.Acquire(lo+i, bridge.UseRegion); err != nil {
				return err
			}
		}
	}
	return nil
}

// disturbance injects wall-clock noise, which must not change any result.
type disturbance struct {
	seed   uint64
	sleeps bool
	hogs   int
}

// worker is one thread of the workload with a record of its observations.
type worker struct {
	t      *host.Thread
	memory []byte
	random *rand.Rand // selects the actions
	noise  *rand.Rand // selects only wall-clock delays
	delays bool
	record hash.Hash
}

func newWorker(ctx context.Context, f *sim.Fabric, id host.ThreadID, name string, seed uint64, d disturbance) (*worker, error) {
	t, err := host.Attach(ctx, f.Conn(), id, name)
	if err != nil {
		return nil, err
	}
	m, err := f.Conn().Memory(id.Node)
	if err != nil {
		return nil, err
	}
	n := uint64(id.Node)<<8 | uint64(id.Rank)
	return &worker{
		t: t, memory: m.Linear(), random: rand.New(rand.NewPCG(seed, n)), noise: rand.New(rand.NewPCG(d.seed, n)),
		delays: d.sleeps, record: sha256.New(),
	}, nil
}

func (w *worker) note(values ...uint64) {
	for _, v := range values {
		_ = binary.Write(w.record, binary.LittleEndian, v)
	}
}

// disturb takes wall time, and no simulated time.
func (w *worker) disturb() {
	if !w.delays {
		return
	}
	switch w.noise.IntN(4) {
	case 0:
		time.Sleep(time.Duration(w.noise.IntN(200)) * time.Microsecond)
	case 1:
		for end := time.Now().Add(time.Duration(w.noise.IntN(100)) * time.Microsecond); time.Now().Before(end); {
		}
	}
}

func (w *worker) word(address uint32) *uint32 { return benchbridge.WordAt(w.memory, address) }

// start rings the doorbell for one transfer from the rank's source area.
func (w *worker) start(rank int, target uint32, length int, interrupt bool) error {
	a := areaOf(rank)
	r := layout.EchoRequest(w.memory[a.request() : a.request()+layout.EchoRequestSize])
	r.SetNode(uint32(1 - w.t.ID().Node))
	r.SetTargetAddress(target)
	r.SetSourceAddress(a.source())
	r.SetLength(uint32(length))
	r.SetInterrupt(0)
	if interrupt {
		r.SetInterrupt(1)
	}
	r.SetStatus(0)
	return w.t.Write(layout.EchoDoorbell, a.request(), 0, 0)
}

// finish waits until the transfer was sent.
func (w *worker) finish(rank int) error {
	status := areaOf(rank).request() + layout.EchoRequestStatusOffset
	limit := host.Millisecond
	if !w.t.Timed() {
		limit = 10 * host.Second // wall time, on a machine that may be busy
	}
	ok, err := w.poll(status, 1, limit)
	if err == nil && !ok {
		err = fmt.Errorf("transfer was not sent within %v", limit)
	}
	return err
}

func (w *worker) poll(address, value uint32, timeout host.Time) (bool, error) {
	return w.t.Poll(host.Poll{Ranges: []bridge.Range{{Address: address, Length: 4}}, Period: pollPeriod, Timeout: timeout},
		func() bool { return atomic.LoadUint32(w.word(address)) == value })
}

// fill writes the payload of one transfer: its last dword is the mark.
func fill(b []byte, seed, number uint64, mark uint32) {
	r := rand.New(rand.NewPCG(seed, number))
	for i := 0; i+4 < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], r.Uint32())
	}
	binary.LittleEndian.PutUint32(b[len(b)-4:], mark)
}

func check(b []byte, seed, number uint64, mark uint32) error {
	want := make([]byte, len(b))
	fill(want, seed, number, mark)
	for i := range b {
		if b[i] != want[i] {
			return fmt.Errorf("transfer %d: byte %d of %d is %#x, want %#x", number, i, len(b), b[i], want[i])
		}
	}
	return nil
}

func sizes(seed uint64, n int) []int {
	r := rand.New(rand.NewPCG(seed, 77))
	s := make([]int, n)
	for i := range s {
		s[i] = 4 * (1 + r.IntN(maxTransfer/4))
		if i%3 == 0 {
			s[i] = 4 * (1 + r.IntN(16))
		}
	}
	return s
}

func (w *worker) pingPong(seed uint64, rounds int) error {
	a, node := areaOf(0), w.t.ID().Node
	for i, size := range sizes(seed, rounds) {
		number, mark := uint64(i), uint32(i+1)
		interrupt := i%8 == 5
		serve := func() error {
			w.disturb()
			fill(w.memory[a.source():][:size], seed+uint64(node), number, mark)
			if err := w.start(0, a.target(0), size, interrupt); err != nil {
				return err
			}
			return w.finish(0)
		}
		await := func() error {
			if interrupt {
				if ok, err := w.t.WaitInterrupt(host.Millisecond); err != nil || !ok {
					return fmt.Errorf("round %d: interrupt: %v, %w", i, ok, err)
				}
				if err := w.t.Write(layout.EchoRegisterInterrupt, 1); err != nil {
					return err
				}
				if v, err := w.t.Read(layout.EchoRegisterInterrupt); err != nil || v != 0 {
					return fmt.Errorf("round %d: interrupt status %d after acknowledging: %w", i, v, err)
				}
			}
			ok, err := w.poll(a.target(0)+uint32(size)-4, mark, 2*host.Millisecond)
			if err == nil && !ok {
				err = fmt.Errorf("round %d: nothing came within 2 ms at %v", i, w.t.Now())
			}
			if err != nil {
				return err
			}
			w.note(uint64(w.t.Now()))
			if err := check(w.memory[a.target(0):][:size], seed+uint64(1-node), number, mark); err != nil {
				return err
			}
			w.record.Write(w.memory[a.target(0):][:size])
			w.disturb()
			// Computing time depends on the received bytes.
			return w.t.Charge(host.Time(w.memory[a.target(0)]) * 10 * host.Nanosecond)
		}
		first, second := serve, await
		if node == 1 {
			first, second = await, serve
		}
		if err := first(); err != nil {
			return err
		}
		if err := second(); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) stream(seed uint64, transfers int) error {
	a, node := areaOf(1), w.t.ID().Node
	for i, size := range sizes(seed+1000+uint64(node), transfers) {
		w.disturb()
		fill(w.memory[a.source():][:size], seed+10+uint64(node), uint64(i), uint32(i))
		if err := w.start(1, a.target(i%streamSlots), size, false); err != nil {
			return err
		}
		if err := w.finish(1); err != nil {
			return err
		}
		w.note(uint64(w.t.Now()))
		if err := w.t.Sleep(host.Time(w.random.IntN(20000)) * host.Nanosecond); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) verifyStream(seed uint64, transfers int) error {
	a, peer := areaOf(1), 1-w.t.ID().Node
	list := sizes(seed+1000+uint64(peer), transfers)
	for i := max(0, transfers-streamSlots); i < transfers; i++ {
		// A later, longer transfer to the same slot would have overwritten it.
		if err := check(w.memory[a.target(i%streamSlots):][:list[i]], seed+10+uint64(peer), uint64(i), uint32(i)); err != nil {
			return fmt.Errorf("stream from node %d: %w", peer, err)
		}
	}
	return nil
}

// run plays one thread of the workload. Node 0, rank 0 gathers all threads'
// records and returns them. The others return "".
func (w *worker) run(seed uint64, rounds int) (string, error) {
	id := w.t.ID()
	var err error
	if id.Rank == 0 {
		err = w.pingPong(seed, rounds)
	} else {
		err = w.stream(seed, rounds)
	}
	if err != nil {
		return "", fmt.Errorf("thread %v: %w", id, err)
	}
	if err := w.t.Barrier(1, len(workloadThreads)); err != nil {
		return "", err
	}
	// The peer's last stream messages are still in flight.
	if err := w.t.Sleep(host.Millisecond); err != nil {
		return "", err
	}
	if id.Rank == 1 {
		if err := w.verifyStream(seed, rounds); err != nil {
			return "", err
		}
	}
	w.note(uint64(w.t.Now()))
	sum := hex.EncodeToString(w.record.Sum(nil)[:8])
	if id != (host.ThreadID{}) {
		if err := w.t.Send(host.ThreadID{}, []byte(sum)); err != nil {
			return "", err
		}
		return "", w.t.Detach()
	}
	all := id.String() + ":" + sum
	for range len(workloadThreads) - 1 {
		m, ok, err := w.t.Receive(host.Millisecond)
		if err != nil || !ok {
			return "", fmt.Errorf("gather the records: %v, %w", ok, err)
		}
		all += fmt.Sprintf(" %v:%s@%d", m.From, m.Data, m.Sent)
	}
	all += fmt.Sprintf(" end %d", w.t.Now())
	return all, w.t.Detach()
}

// runNodes plays the threads of some nodes in this process.
func runNodes(ctx context.Context, f *sim.Fabric, nodes []int, seed uint64, rounds int, d disturbance) (string, error) {
	var stop atomic.Bool
	defer stop.Store(true)
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	for range d.hogs {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	var workers []*worker
	for _, node := range nodes {
		m, err := f.Conn().Memory(node)
		if err != nil {
			return "", err
		}
		if err := useAreas(m); err != nil {
			return "", err
		}
		for _, th := range workloadThreads {
			if th.Node != node {
				continue
			}
			w, err := newWorker(ctx, f, host.ThreadID{Node: th.Node, Rank: th.Rank}, th.Name, seed, d)
			if err != nil {
				return "", err
			}
			workers = append(workers, w)
		}
	}
	results := make([]string, len(workers))
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			if results[i], errs[i] = w.run(seed, rounds); errs[i] != nil {
				giveUp(errs[i])
			}
		})
	}
	wg.Wait()
	out := ""
	for _, r := range results {
		out += r
	}
	return out, errors.Join(errs...)
}
