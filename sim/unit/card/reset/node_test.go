// SPDX-License-Identifier: Apache-2.0

// Package reset_test strikes busy cards with all kinds of reset: RST# of the
// bus, soft reset and ResetVI, at many moments. After each it requires a clean
// start, new connections and verified transfers.
package reset_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/att"
	"hvia/driver"
	"hvia/driver/card"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

const (
	memoryBytes = 32 << 20
	regionLimit = 64
	viCount     = 3
	lookEvery   = 100 * host.Nanosecond
	patience    = 50 * host.Millisecond // for waits of a few ms at most
)

// viIndex are the indices of the VIs on the card. They stay the same after
// every reset, so that the new VIs would reveal old state.
var viIndex = [viCount]uint32{0, 77, 255}

// failure is the panic value of a node's methods: checks are everywhere.
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

// shared is data that the two nodes exchange, each in its half. Barriers
// separate writing and reading.
type shared struct {
	mu    sync.Mutex
	ends  [2][viCount]end
	count [2][viCount]struct{ sent, wrote int }
	raw   [2]uint32 // number of the last raw frame
}

type end struct {
	number   uint16
	sequence uint32
	window   uint64
	handle   uint32
}

// node is one host: its thread, its memory, and its card since the last reset.
type node struct {
	index  int
	thread *host.Thread
	memory *mem.Memory
	random *rand.Rand
	shared *shared
	log    func(format string, values ...any)

	card       *card.Card
	table      *att.Table
	list       *mem.Buffer // page lists of commands
	block      *mem.Buffer // command block of a command without a wait
	vis        [viCount]*vi
	generation uint8
	frames     uint32 // raw frames sent so far: each has a number
	lost       uint32 // the MAC's dropped frames at the last check
	tally      tally
}

// tally counts the resets of a card and the verified messages.
type tally struct {
	strikes  [strikeKinds]int
	messages int // verified
}

func (n *node) check(err error) {
	if err != nil {
		fail("node %d: %w", n.index, err)
	}
}

func (n *node) fail(format string, values ...any) {
	fail("node %d at %v: "+format, append([]any{n.index, n.thread.Now()}, values...)...)
}

func (n *node) sleep(span host.Time) { n.check(n.thread.Sleep(span)) }

// below is a random time under a limit, in picoseconds, not a multiple of a
// clock.
func (n *node) below(limit host.Time) host.Time {
	return host.Time(n.random.Int64N(int64(limit)))
}

func (n *node) read(offset uint32) uint32 {
	v, err := n.thread.Read(layout.PciBar0Base + offset)
	n.check(err)
	return v
}

func (n *node) await(what string, where mem.Range, word []byte, cond func(v uint32) bool) {
	ok, err := n.thread.Poll(host.Poll{Ranges: []mem.Range{where}, Period: lookEvery, Timeout: patience},
		func() bool { return cond(mem.LoadUint32(word)) })
	n.check(err)
	if !ok {
		n.fail("%s: the word at %#x is %#x after %v", what, where.Address, mem.LoadUint32(word), patience)
	}
}

// allocate makes a buffer that the card may use.
func (n *node) allocate(bytes int, kind bridge.UseKind) (*mem.Buffer, []uint32) {
	b, err := n.memory.Allocate(bytes, mem.Runs)
	n.check(err)
	pages, err := n.memory.Pin(kind, b.Address(), uint64(b.Len()))
	n.check(err)
	return b, pages
}

// give frees a buffer: any later access of the card ends the run.
func (n *node) give(b *mem.Buffer, kind bridge.UseKind) {
	n.check(n.memory.Unpin(kind, b.Address(), uint64(b.Len())))
	n.check(b.Free())
}

// enable brings up the ring and the MAC of a card after a reset.
func (n *node) enable() {
	var err error
	n.card, err = card.Open(n.thread, n.memory, host.CostModel{}, n.memory.Frames())
	n.check(err)
	n.check(n.card.Start(driver.NodeMAC(n.index), regionLimit))
}

// start starts a card after a reset, with all its former memory.
func (n *node) start() {
	n.enable()
	var err error
	n.table, err = att.NewTable(regionLimit)
	n.check(err)
	n.list, _ = n.allocate(mem.PageBytes, bridge.UseRing)
	n.block, _ = n.allocate(mem.PageBytes, bridge.UseRing)
	n.lost = n.losses()
	for k := range n.vis {
		n.vis[k] = n.newVI(k)
		n.vis[k].create()
	}
}

// forget takes all memory from a card after a reset.
func (n *node) forget() {
	if n.card != nil {
		n.check(n.card.Release())
		n.card = nil
	}
	if n.list != nil {
		n.give(n.list, bridge.UseRing)
		n.give(n.block, bridge.UseRing)
		n.list, n.block = nil, nil
	}
	for k, v := range n.vis {
		if v != nil {
			n.give(v.buffer, bridge.UseRegion)
			n.vis[k] = nil
		}
	}
}

// stateless are the registers that read 0 after every reset.
var stateless = []struct {
	name   string
	offset uint32
}{
	{"Control", layout.RegisterControlOffset},
	{"InterruptStatus", layout.RegisterInterruptStatusOffset}, {"InterruptEnable", layout.RegisterInterruptEnableOffset},
	{"MacLow", layout.RegisterMacLowOffset}, {"MacHigh", layout.RegisterMacHighOffset},
	{"RawTransmitBase", layout.RegisterRawTransmitBaseOffset}, {"RawTransmitSize", layout.RegisterRawTransmitSizeOffset},
	{"RawTransmitTail", layout.RegisterRawTransmitTailOffset}, {"RawTransmitHead", layout.RegisterRawTransmitHeadOffset},
	{"RawReceiveBase", layout.RegisterRawReceiveBaseOffset}, {"RawReceiveSize", layout.RegisterRawReceiveSizeOffset},
	{"RawReceiveTail", layout.RegisterRawReceiveTailOffset}, {"RawReceiveHead", layout.RegisterRawReceiveHeadOffset},
	{"AsyncErrorInfo", layout.RegisterAsyncErrorInfoOffset},
}

// clean checks that a card has no old state after a reset.
func (n *node) clean() {
	for begin := n.thread.Now(); n.read(layout.RegisterStateOffset)&layout.RegisterStateReadyMask == 0; n.sleep(host.Microsecond) {
		if n.thread.Now() > begin+patience {
			n.fail("the card is not ready %v after a reset", patience)
		}
	}
	for _, r := range stateless {
		if v := n.read(r.offset); v != 0 {
			n.fail("register %s reads %#x after a reset", r.name, v)
		}
	}
	for i := range uint32(layout.AsyncErrorDroppedWords) {
		if v := n.read(layout.AsyncErrorDroppedBase + 4*i); v != 0 {
			n.fail("dropped asynchronous errors %d read %#x after a reset", i, v)
		}
	}
	for c := range uint32(layout.CounterSlots) {
		switch layout.Counter(c) {
		case layout.CounterSdramRefresh, layout.CounterPciTargetWrite, layout.CounterPciTargetRead:
			continue // they have started to count again
		}
		if v := n.read(layout.CounterBase + 4*c); v != 0 {
			n.fail("counter %v is %d after a reset", layout.Counter(c), v)
		}
	}
}

// losses is the number of frames that the full MAC dropped.
func (n *node) losses() uint32 {
	v, err := n.card.Counter(layout.CounterMacReceiveOverrun)
	n.check(err)
	return v
}

func (n *node) listed(c layout.Command, pages []uint32, level2 uint32) {
	for i, p := range pages {
		layout.AttLevel2(n.list.Bytes()[layout.AttLevel2Size*i:]).SetPage(p)
	}
	c.SetListAddress(n.list.Physical(nil, 0, 1)[0].Address)
	c.SetListCount(uint32(len(pages)))
	c.SetLevel2Address(level2)
}

func (n *node) register(b *mem.Buffer, pages []uint32, tag uint16) uint32 {
	g, err := n.table.Register(att.Region{Start: b.Address(), Length: uint64(b.Len()), Pages: pages, Tag: tag, RDMAWrite: true})
	n.check(err)
	_, err = n.card.Command(layout.CommandOpcodeRegisterMemory, func(c layout.Command) {
		n.listed(c, g.Level2, g.Entry.Level2Address)
		c.SetIndex(g.Handle.Index())
		c.SetHandle(uint32(g.Handle))
		copy(c.Payload(), g.Entry.Encode())
	})
	n.check(err)
	return uint32(g.Handle)
}

func (n *node) begin(op layout.CommandOpcode, fill func(c layout.Command)) {
	c := layout.Command(n.block.Bytes()[:layout.CommandSize])
	clear(c)
	c.SetOpcode(uint32(op))
	fill(c)
	n.check(n.card.Write(layout.RegisterCommandAddressOffset, n.block.Physical(nil, 0, layout.CommandSize)[0].Address))
}

// found waits until the host has configured the card on the bus again.
func (n *node) found() {
	for begin := n.thread.Now(); ; n.sleep(host.Microsecond / 3) {
		switch v := n.read(layout.RegisterIDOffset); v {
		case layout.CardID:
			return
		case nobody:
		default:
			n.fail("the card reads %#x while its bus is reset", v)
		}
		if n.thread.Now() > begin+patience {
			n.fail("the card is not back on the bus after %v", patience)
		}
	}
}

// nobody is the value of a read that no card answers.
const nobody = 0xffffffff

func (n *node) raw(count int) {
	for range count {
		f := make([]byte, layout.MinFrame+n.random.IntN(layout.MaxFrame-layout.MinFrame+1))
		peer, own := driver.NodeMAC(1-n.index), driver.NodeMAC(n.index)
		copy(f, peer[:])
		copy(f[6:], own[:])
		layout.EthernetHeader(f).SetEtherType(layout.EtherTypeConnection)
		n.frames++
		fillRaw(f, n.index, n.frames)
		n.check(n.card.Send(f))
	}
}

func fillRaw(f []byte, node int, number uint32) {
	body := f[layout.EthernetHeaderSize:]
	layout.AttLevel2(body).SetPage(number)
	pattern(body[4:], uint64(node)<<32|uint64(number))
}

// hear waits for the raw frame of that number. Earlier ones may have been lost.
func (n *node) hear(number uint32) {
	left := n.thread.Countdown(patience)
	for found := false; !found; n.sleep(host.Microsecond) {
		n.check(n.card.Receive(func(f []byte) {
			got := layout.AttLevel2(f[layout.EthernetHeaderSize:]).Page()
			want := make([]byte, len(f))
			copy(want, f[:layout.EthernetHeaderSize])
			fillRaw(want, 1-n.index, got)
			if string(want) != string(f) {
				n.fail("raw frame %d of %d bytes is not as it was sent", got, len(f))
			}
			found = found || got == number
		}))
		if left() <= 0 {
			n.fail("raw frame %d has not come after %v", number, patience)
		}
	}
}

// pattern fills b with bytes that belong to a key.
func pattern(b []byte, key uint64) {
	r := rand.New(rand.NewPCG(key, 0x5be0cd19137e2179))
	for i := 0; i < len(b); i += 8 {
		var w [8]byte
		v := r.Uint64()
		for k := range w {
			w[k] = byte(v >> (8 * k))
		}
		copy(b[i:], w[:])
	}
}

// config lists the differences between runs. The zero value is the plain run.
type config struct {
	straps  uint32
	program string // a simulator with injected bugs
	noSkip  bool   // idle spans are simulated clock by clock
	digest  *bridge.Digest
}

// play runs the same script on two nodes and returns the first failure.
func play(t *testing.T, c config, seed uint64, script func(n *node)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cfg := sim.Config{
		Nodes:       []sim.Node{{Kind: "card", Name: "a"}, {Kind: "card", Name: "b"}},
		Threads:     []sim.Thread{{Node: 0, Name: "a"}, {Node: 1, Name: "b"}},
		MemoryBytes: memoryBytes, Seed: seed, Program: c.program,
	}
	if c.straps != 0 {
		cfg.Arguments = append(cfg.Arguments, "--strap", fmt.Sprint(c.straps))
	}
	if c.noSkip {
		cfg.Arguments = append(cfg.Arguments, "--no-skip", "1")
	}
	f, err := sim.Start(ctx, cfg)
	require.NoError(t, err)
	machines := fabric.Machines(f.Conn())
	var nodes [2]*node
	told := &shared{}
	for i, thread := range cfg.Threads {
		n := &node{index: i, shared: told, random: rand.New(rand.NewPCG(seed, uint64(i+1))), log: t.Logf}
		n.thread, err = machines.Attach(ctx, host.ThreadID{Node: i}, thread.Name)
		require.NoError(t, err)
		n.memory, err = machines.Memory(i, seed+uint64(i))
		require.NoError(t, err)
		nodes[i] = n
	}
	var wg sync.WaitGroup
	var errs [2]error
	var first error
	var once sync.Once
	for i, n := range nodes {
		wg.Go(func() {
			errs[i] = try(func() { n.start(); script(n) })
			if errs[i] != nil {
				// Errors of the other node follow from this one.
				once.Do(func() { first = errs[i]; cancel() })
			}
			errs[i] = errors.Join(errs[i], n.thread.Detach())
		})
	}
	wg.Wait()
	for _, n := range nodes {
		n.memory.Close()
	}
	if first == nil {
		first = errors.Join(errs[0], errs[1])
	}
	if c.digest != nil && first == nil {
		*c.digest, first = f.Digest(ctx)
	}
	if err := f.Close(); first == nil {
		first = err
	}
	return first
}

func mustPlay(t *testing.T, c config, script func(n *node)) {
	t.Helper()
	seed, start := unit.Seed(t), time.Now()
	err := play(t, c, seed, func(n *node) {
		script(n)
		if n.index == 0 {
			t.Logf("seed %d: simulated %v, wall %v", seed, n.thread.Now(), time.Since(start).Round(10*time.Millisecond))
		}
	})
	require.NoError(t, err, "replay with HVIA_SEED=%d", seed)
}
