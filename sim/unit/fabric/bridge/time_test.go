// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	benchbridge "hvia/sim/unit/fabric/bridge"

	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// oneTransfer makes left send 64 bytes to right and right poll for them from
// `from` on. It returns whether right saw them, and its clock.
func oneTransfer(t *testing.T, program string, from, period, timeout host.Time) (bool, host.Time) {
	t.Helper()
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: twoThreads(), Program: program})
	left, right := attach(t, ctx, f, 0, 0, "left"), attach(t, ctx, f, 1, 0, "right")
	l, err := f.Conn().Memory(0)
	require.NoError(t, err)
	r, err := f.Conn().Memory(1)
	require.NoError(t, err)
	require.NoError(t, errors.Join(useAreas(l), useAreas(r)))
	flag := areaOf(0).target(0) + 60
	var saw bool
	errL, errR := both(func() error {
		w := &worker{t: left, memory: l.Linear()}
		fill(l.Linear()[areaOf(0).source():][:64], 1, 1, 7)
		if err := w.start(0, areaOf(0).target(0), 64, false); err != nil {
			return err
		}
		return errors.Join(left.Sleep(host.Millisecond), left.Detach())
	}, func() error {
		if err := right.Sleep(from); err != nil {
			return err
		}
		var err error
		saw, err = right.Poll(host.Poll{Ranges: []bridge.Range{{Address: flag, Length: 4}}, Period: period, Timeout: timeout},
			func() bool { return atomic.LoadUint32(benchbridge.WordAt(r.Linear(), flag)) == 7 })
		return errors.Join(err, right.Detach())
	})
	require.NoError(t, errors.Join(errL, errR))
	return saw, right.Now()
}

func TestPollGridAndDeadline(t *testing.T) {
	saw, now := oneTransfer(t, "", 0, 1, host.Never)
	require.True(t, saw)
	written := now - 1 // a poll every picosecond sees it one picosecond later
	require.Greater(t, written, 3*host.Microsecond, "64 bytes take a wire of 1 Gb/s and some buses")

	for name, c := range map[string]struct {
		from, period, timeout host.Time
		saw                   bool
		now                   host.Time
	}{
		"first look after the write":      {0, 220000, host.Never, true, (written/220000 + 1) * 220000},
		"grid from the call on":           {777, 220000, host.Never, true, 777 + ((written-777)/220000+1)*220000},
		"look at the write's own instant": {0, written, host.Never, true, 2 * written},
		"deadline before the write":       {0, 1000, written - 1, false, written - 1},
		"write at the deadline's instant": {0, 1000, written, true, written},
		"deadline before the next look":   {0, 1 << 40, written + 5, true, written + 5},
		"already written":                 {written + 1, 1000, host.Never, true, written + 1},
		"single look, too early":          {written, 1000, 0, false, written},
		"single look, in time":            {written + 1, 1000, 0, true, written + 1},
	} {
		t.Run(name, func(t *testing.T) {
			saw, now := oneTransfer(t, "", c.from, c.period, c.timeout)
			require.Equal(t, c.saw, saw)
			require.Equal(t, c.now, now, "written at %d ps", written)
		})
	}
}

func TestMutantPollGridIsCaught(t *testing.T) {
	_, now := oneTransfer(t, "", 0, 1, host.Never)
	written := now - 1
	program := mutant(t, pollGridBug)
	// The bug makes a poll see a write of its instant.
	_, now = oneTransfer(t, program, 0, written, host.Never)
	require.NotEqual(t, 2*written, now)
}

func holds(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// primitives is what the threads of TestVirtualPrimitives share.
type primitives struct {
	word *uint32
	big  []byte
}

// receive receives from the others, whose messages meet at one instant.
func (x primitives) receive(th *host.Thread) error {
	if err := th.Charge(10 * host.Nanosecond); err != nil {
		return err
	}
	want := []struct {
		from host.ThreadID
		sent host.Time
		data string
	}{
		{host.ThreadID{Node: 1, Rank: 0}, 4000, "early"},
		{host.ThreadID{Node: 0, Rank: 1}, 20000, "one"}, {host.ThreadID{Node: 0, Rank: 1}, 20000, "two"},
		{host.ThreadID{Node: 0, Rank: 2}, 20000, ""}, {host.ThreadID{Node: 1, Rank: 0}, 20000, string(x.big)},
	}
	for i, w := range want {
		m, ok, err := th.Receive(host.Microsecond)
		if err != nil {
			return err
		}
		at := host.Time(20001)
		if i == 0 {
			at = 10000 // sent before the call
		}
		if err := holds(ok && m.From == w.from && m.Sent == w.sent && string(m.Data) == w.data && th.Now() == at, "message %d: %v %v %d bytes at %d", i, m.From, m.Sent, len(m.Data), th.Now()); err != nil {
			return err
		}
	}
	_, ok, err := th.Receive(500)
	if err != nil {
		return err
	}
	if err := holds(!ok && th.Now() == 20501, "empty mailbox: %v at %d", ok, th.Now()); err != nil {
		return err
	}
	if err := th.Barrier(5, 4); err != nil {
		return err
	}
	return holds(th.Now() == 440002, "barrier left at %d", th.Now())
}

// publish publishes for poll on the same node.
func (x primitives) publish(th *host.Thread) error {
	if err := errors.Join(th.Sleep(20000), th.Send(host.ThreadID{}, []byte("one")), th.Send(host.ThreadID{}, []byte("two")), th.Sleep(5000)); err != nil {
		return err
	}
	atomic.StoreUint32(x.word, 1)
	if err := errors.Join(th.Publish(bridge.Range{Address: 0x3000, Length: 4}), th.Sleep(65000)); err != nil {
		return err
	}
	// The parties disagree: only this thread gets the error.
	err := th.Barrier(5, 3)
	if !errors.Is(err, host.ErrBarrierDisagree) {
		return fmt.Errorf("barrier with 3 of 4: %w", err)
	}
	if err := holds(th.Now() == 90001, "disagreement at %d", th.Now()); err != nil {
		return err
	}
	// The fourth party, with the right number, at the same instant plus one.
	return th.Barrier(5, 4)
}

func (x primitives) poll(th *host.Thread) error {
	if err := errors.Join(th.Sleep(20000), th.Send(host.ThreadID{}, nil)); err != nil {
		return err
	}
	ok, err := th.Poll(host.Poll{Ranges: []bridge.Range{{Address: 0x100, Length: 4}, {Address: 0x3003, Length: 1}}, Period: 2500, Timeout: host.Never},
		func() bool { return atomic.LoadUint32(x.word) == 1 })
	if err != nil {
		return err
	}
	if err := holds(ok && th.Now() == 27500, "published at 25000, seen %v at %d", ok, th.Now()); err != nil {
		return err
	}
	return th.Barrier(5, 4)
}

// send sends from the other node.
func (x primitives) send(th *host.Thread) error {
	if err := errors.Join(th.Sleep(4000), th.Send(host.ThreadID{}, []byte("early")), th.Sleep(16000), th.Send(host.ThreadID{}, x.big)); err != nil {
		return err
	}
	id, err := th.Read(layout.EchoRegisterID)
	if err != nil {
		return err
	}
	if err := holds(id == layout.EchoID && th.Now() == 440001, "register %#x at %d", id, th.Now()); err != nil {
		return err
	}
	if err := th.Send(host.ThreadID{Node: 9}, nil); !errors.Is(err, host.ErrInvalidParameter) {
		return fmt.Errorf("send to node 9: %w", err)
	}
	return th.Barrier(5, 4)
}

func TestVirtualPrimitives(t *testing.T) {
	ctx := testContext(t, time.Minute)
	threads := []sim.Thread{{Node: 0, Rank: 0, Name: "a0"}, {Node: 0, Rank: 1, Name: "a1"}, {Node: 0, Rank: 2, Name: "a2"}, {Node: 1, Rank: 0, Name: "b0"}}
	f := startFabric(t, ctx, sim.Config{Threads: threads})
	memory, err := f.Conn().Memory(0)
	require.NoError(t, err)
	x := primitives{benchbridge.WordAt(memory.Linear(), 0x3000), bytes.Repeat([]byte("0123456789abcdef"), layout.BridgeMaxMessage/16)}
	var all []*host.Thread
	for _, th := range threads {
		all = append(all, attach(t, ctx, f, th.Node, th.Rank, th.Name))
	}
	errs := make(chan error, len(threads))
	for i, main := range []func(*host.Thread) error{x.receive, x.publish, x.poll, x.send} {
		go func() { errs <- errors.Join(main(all[i]), all[i].Detach()) }()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// A ring of 256 entries must take any number of posts without a wait.
func TestRingOverflow(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) {
			ctx := testContext(t, time.Minute)
			f := startFabric(t, ctx, sim.Config{Mode: mode, Nodes: []sim.Node{{Kind: "echo", Name: "a"}}, Threads: []sim.Thread{{Name: "only"}}})
			th := attach(t, ctx, f, 0, 0, "only")
			const n = 5000
			for i := range n {
				require.NoError(t, th.Send(host.ThreadID{}, []byte{byte(i), byte(i >> 8)}))
			}
			for i := range n {
				m, ok, err := th.Receive(host.Second)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, []byte{byte(i), byte(i >> 8)}, m.Data)
			}
			if mode == sim.Timed {
				require.Equal(t, host.Time(1), th.Now())
			}
		})
	}
}

func TestLateThreadTaintsTheRun(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Threads: []sim.Thread{{Name: "only"}}})
	th := attach(t, ctx, f, 0, 0, "only")
	require.NoError(t, th.Sleep(host.Microsecond))
	require.True(t, f.Conn().Reproducible())
	late := attach(t, ctx, f, 1, 3, "late")
	require.NoError(t, late.Begin())
	require.Equal(t, host.Microsecond, late.Now())
	require.False(t, f.Conn().Reproducible())
	require.NoError(t, th.Detach())
	require.NoError(t, late.Sleep(host.Microsecond))
	// A declared slot is free again after Detach.
	again := attach(t, ctx, f, 0, 0, "only")
	require.NoError(t, late.Detach())
	require.NoError(t, again.Sleep(5))
	require.Equal(t, 2*host.Microsecond+5, again.Now())
}

// freeSide is one node of TestFreeMode.
type freeSide struct {
	*worker
	node int
}

func (x freeSide) send(i, size int, interrupt bool) error {
	a := areaOf(0)
	fill(x.memory[a.source():][:size], uint64(x.node), uint64(i), uint32(i+1))
	if err := x.start(0, a.target(0), size, interrupt); err != nil {
		return err
	}
	ok, err := x.poll(a.request()+layout.EchoRequestStatusOffset, 1, 10*host.Second)
	if err == nil && !ok {
		err = fmt.Errorf("round %d: not sent", i)
	}
	return err
}

func (x freeSide) receive(i, size int, interrupt bool) error {
	if interrupt {
		ok, err := x.t.WaitInterrupt(10 * host.Second)
		if err != nil || !ok {
			return fmt.Errorf("round %d: interrupt %v: %w", i, ok, err)
		}
		if err := x.t.Write(layout.EchoRegisterInterrupt, 1); err != nil {
			return err
		}
		if v, err := x.t.Read(layout.EchoRegisterInterrupt); err != nil || v != 0 {
			return fmt.Errorf("round %d: interrupt status %d: %w", i, v, err)
		}
	}
	at, mark := areaOf(0).target(0), uint32(i+1)
	ok, err := x.poll(at+uint32(size)-4, mark, 10*host.Second)
	if err != nil || !ok {
		return fmt.Errorf("round %d: nothing came: %w", i, err)
	}
	return check(x.memory[at:][:size], uint64(1-x.node), uint64(i), mark)
}

// rounds sends and receives transfers, node 0 first.
func (x freeSide) rounds(list []int) error {
	if err := x.t.Barrier(1, 2); err != nil {
		return err
	}
	for i, size := range list {
		first, second := x.send, x.receive
		if x.node == 1 {
			first, second = x.receive, x.send
		}
		interrupt := i%4 == 1
		if err := errors.Join(first(i, size, interrupt), second(i, size, interrupt)); err != nil {
			return err
		}
	}
	if x.node == 0 {
		return x.t.Send(host.ThreadID{Node: 1}, []byte("done"))
	}
	msg, ok, err := x.t.Receive(10 * host.Second)
	if err != nil || !ok || string(msg.Data) != "done" {
		return fmt.Errorf("last message: %v %q: %w", ok, msg.Data, err)
	}
	return nil
}

func TestFreeMode(t *testing.T) {
	ctx := testContext(t, time.Minute)
	f := startFabric(t, ctx, sim.Config{Mode: sim.Free})
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	var sides [2]freeSide
	for node := range sides {
		m, err := f.Conn().Memory(node)
		require.NoError(t, err)
		require.NoError(t, useAreas(m))
		sides[node] = freeSide{&worker{t: attach(t, ctx, f, node, 0, fmt.Sprint("free ", node)), memory: m.Linear()}, node}
	}
	list := sizes(3, rounds)
	begin := time.Now()
	errL, errR := both(func() error { return sides[0].rounds(list) }, func() error { return sides[1].rounds(list) })
	require.NoError(t, errors.Join(errL, errR))
	// Only a timeout of 10 s would repair a lost wake-up.
	require.Less(t, time.Since(begin), 8*time.Second)

	// Idle: simulated time stops, while wall timeouts still expire.
	th := attach(t, ctx, f, 0, 9, "idle")
	before := th.Now()
	start := time.Now()
	ok, err := th.Poll(host.Poll{Ranges: []bridge.Range{{Address: 0x2000, Length: 4}}, Timeout: 30 * host.Millisecond}, func() bool { return false })
	require.NoError(t, err)
	require.False(t, ok)
	require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	_, ok, err = th.Receive(5 * host.Millisecond)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, th.Charge(host.Second))
	require.Equal(t, before, th.Now())
	require.Less(t, time.Since(start), 5*time.Second)
}
