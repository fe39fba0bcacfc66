// SPDX-License-Identifier: Apache-2.0

package att_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os/exec"
	"sort"
	"testing"
	"time"

	"hvia/att"
	"hvia/layout"
)

// Records of the testbench's two streams; see cc/att_tb.cc.
type operation struct {
	Kind, Lane, VI, Access     uint8
	Delay, Tag                 uint16
	ID, Argument, Length, Zero uint32
	Va                         uint64
}

type event struct {
	Type, Error        uint8
	Flags              uint16
	ID, Address, Bytes uint32
	Clock, Time        uint64
}

const (
	opTranslate = iota
	opWrite
	opInvalidate
	opLimit
	opRun
	opReset
	opFinish
)

const (
	evIssue = iota
	evResponse
	evStart
	evDone
	evRan
	evAborted
	evStats
)

const updateLane = 3

type bench struct {
	cmd    *exec.Cmd
	in     *bufio.Writer
	inPipe io.Closer
	out    *bufio.Reader
	stderr bytes.Buffer
	digest hash.Hash
}

func startBench(t *testing.T, program string, seed uint64, corePeriod int64, noSkip bool, straps uint32, more ...string) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	args := append(more, fmt.Sprintf("--seed=%d", seed), fmt.Sprintf("--size=%d", corePeriod))
	if noSkip {
		args = append(args, "+noskip")
	}
	if straps != 0 {
		args = append(args, fmt.Sprintf("+strap=%d", straps))
	}
	b := &bench{cmd: exec.CommandContext(ctx, program, args...), digest: sha256.New()}
	b.cmd.Stderr = &b.stderr
	b.cmd.WaitDelay = 5 * time.Second
	stdin, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.in, b.inPipe, b.out = bufio.NewWriterSize(stdin, 1<<16), stdin, bufio.NewReaderSize(stdout, 1<<16)
	t.Cleanup(func() {
		stdin.Close()
		b.cmd.Process.Kill() //nolint:errcheck // it may have ended by itself
		b.cmd.Wait()         //nolint:errcheck // checked in fail
	})
	return b
}

func (b *bench) send(op operation, words []uint32) error {
	if err := binary.Write(b.in, binary.LittleEndian, op); err != nil {
		return b.fail(err)
	}
	if len(words) > 0 {
		if err := binary.Write(b.in, binary.LittleEndian, words); err != nil {
			return b.fail(err)
		}
	}
	return nil
}

func (b *bench) flush() error {
	if err := b.in.Flush(); err != nil {
		return b.fail(err)
	}
	return nil
}

func (b *bench) next() (event, error) {
	var raw [32]byte
	if _, err := io.ReadFull(b.out, raw[:]); err != nil {
		return event{}, b.fail(err)
	}
	b.digest.Write(raw[:])
	var e event
	if _, err := binary.Decode(raw[:], binary.LittleEndian, &e); err != nil {
		return event{}, b.fail(err)
	}
	return e, nil
}

// fail adds the simulation's message to a broken pipe.
func (b *bench) fail(err error) error {
	b.inPipe.Close()
	werr := b.cmd.Wait()
	if b.stderr.Len() > 0 || werr != nil {
		return fmt.Errorf("the simulation stopped (%v): %s", werr, bytes.TrimSpace(b.stderr.Bytes()))
	}
	return fmt.Errorf("the simulation stopped: %w", err)
}

type options struct {
	seed       uint64
	operations uint64
	corePeriod int64
	noSkip     bool
	pauses     bool // long pauses, which can be skipped
	straps     uint32
	fault      int // the injected bug, from 1
}

type result struct {
	err        error
	operations uint64
	updates    uint64
	refused    uint64
	resets     uint64
	raced      uint64 // translations in progress during an update
	raceBoth   uint64 // of these, with different answers before and after
	codes      map[layout.AttError]uint64
	level1     uint64
	level2     uint64
	invalid    uint64 // invalidations carried out
	jumps      uint64
	clocks     uint64
	digest     string
	wall       time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("%d operations in %.1f s and %d core clocks: %d updates (%d rejected), %d resets, answers %v, %d translations beside an update (%d with a choice of answers), %d level-1 reads, %d jumps",
		r.operations, r.wall.Seconds(), r.clocks, r.updates, r.refused, r.resets, r.codes, r.raced, r.raceBoth, r.level1, r.jumps)
}

func run(t *testing.T, program string, o options) result {
	t.Helper()
	started := time.Now()
	b := startBench(t, program, o.seed, o.corePeriod, o.noSkip, o.straps, fmt.Sprintf("+fault=%d", o.fault))
	res := result{codes: map[layout.AttError]uint64{
		layout.AttErrorNone: 0, layout.AttErrorHandle: 0, layout.AttErrorBounds: 0, layout.AttErrorTag: 0, layout.AttErrorAccess: 0, layout.AttErrorBackend: 0,
	}}
	g := &generator{
		rng: rand.New(rand.NewPCG(o.seed, 0)), o: o, res: &res, nextID: 1,
		pending: map[uint32]*translation{}, updates: map[uint32]update{},
	}
	err := g.play(b)
	if err == nil {
		err = g.finish(b)
	}
	if err != nil {
		res.err = fmt.Errorf("seed %d, operation %d of %d: %w", o.seed, res.operations, o.operations, err)
	}
	res.digest = fmt.Sprintf("%x", b.digest.Sum(nil))
	res.wall = time.Since(started)
	return res
}

type clocks []int

func (c clocks) quantile(q float64) int {
	if len(c) == 0 {
		return 0
	}
	s := append(clocks(nil), c...)
	sort.Ints(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func (c clocks) median() int { return c.quantile(0.5) }

func (c clocks) String() string {
	return fmt.Sprintf("%d..%d, median %d, 98 %% within %d (%d samples)", c.quantile(0), c.quantile(1), c.median(), c.quantile(0.98), len(c))
}

type latencies struct{ cold, warm clocks }

// latency measures translations that only refresh disturbs: many regions in
// many rows, cold and then warm.
func latency(t *testing.T, program string, seed uint64, straps uint32) latencies {
	t.Helper()
	b := startBench(t, program, seed, 30_000, false, straps)
	g := &generator{
		o: options{straps: straps}, rng: rand.New(rand.NewPCG(seed, 0)), res: &result{codes: map[layout.AttError]uint64{}}, nextID: 1,
		pending: map[uint32]*translation{}, updates: map[uint32]update{},
	}
	var l latencies
	check := func(err error) {
		if err != nil {
			t.Fatal(errors.Join(errors.New("latency run"), err))
		}
	}
	const entries = 4096 // 32 rows of level-1 entries
	table, err := att.NewTable(entries)
	check(err)
	sendUpdate := func(u update) {
		u.op.Delay = 0
		g.updates[u.op.ID] = u
		check(b.send(u.op, u.words))
	}
	sendUpdate(g.update(opLimit, entries, 0, nil, false))
	g.table, g.limit = table, entries
	for range 1000 {
		// Every fourth entry spreads the entries over level-1 rows, and their
		// size over level-2 rows.
		for range 3 {
			_, err := table.Register(att.Region{Start: 0, Length: 1, Pages: []uint32{0}})
			check(err)
		}
		r := att.Region{Start: g.rng.Uint64() >> 1 &^ 4095, Length: 8 * 4096, Tag: 7}
		for range 8 {
			r.Pages = append(r.Pages, g.rng.Uint32()&^4095)
		}
		reg, err := table.Register(r)
		check(err)
		g.live = append(g.live, &region{handle: reg.Handle, start: r.Start, length: r.Length, tag: r.Tag})
		entry := reg.Entry.Dwords()
		sendUpdate(g.update(opWrite, reg.Entry.Level2Address, 8, reg.Level2, false))
		sendUpdate(g.update(opWrite, att.Level1Address(reg.Handle.Index()), uint32(len(entry)), entry, false))
	}
	check(g.batch(b, nil, opRun))
	one := func(r *region, page int) {
		op := operation{
			Kind: opTranslate, Lane: uint8(layout.AttClientTransmit), ID: g.id(), Argument: uint32(r.handle), Tag: r.tag, Length: 64,
			Va: r.start + uint64(page)*4096, Delay: uint16(g.rng.IntN(400)),
		}
		g.pending[op.ID] = &translation{op: op}
		check(b.send(op, nil))
		check(b.send(operation{Kind: opRun}, nil))
		check(b.flush())
		for {
			e, err := b.next()
			check(err)
			if e.Type == evRan {
				return
			}
			check(g.verify(e))
			if e.Type == evResponse {
				if e.Flags&1 != 0 {
					l.cold = append(l.cold, int(e.Flags>>2))
				} else {
					l.warm = append(l.warm, int(e.Flags>>2))
				}
			}
		}
	}
	for range 1500 {
		r := g.live[g.rng.IntN(len(g.live))]
		one(r, g.rng.IntN(8))
		one(r, g.rng.IntN(8))
	}
	check(g.finish(b))
	return l
}
