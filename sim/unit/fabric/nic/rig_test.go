// SPDX-License-Identifier: Apache-2.0

// Package nic_test compares the plain NIC with the definitions of its registers
// and the costs in its parameters. Its separate driver knows only the layouts.
package nic_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

const (
	memoryBytes = 4 << 20
	pageBytes   = layout.AttPageBytes
	patience    = 100 * host.Millisecond
	clock       = host.Time(params.SystemClockPeriod)

	receiveCause  = layout.RegisterInterruptStatusRawReceiveMask
	transmitCause = layout.RegisterInterruptStatusRawTransmitMask
	busCause      = layout.RegisterInterruptStatusBusErrorMask

	done    = layout.RawEntryStatusDoneMask
	refused = layout.RawEntryStatusDoneMask | layout.RawEntryStatusErrorMask
	more    = layout.RawEntryLengthMoreMask
)

// config lists the differences between the fabrics of these tests.
type config struct {
	program   string
	params    map[string]int64
	arguments []string
	kind      string // of both nodes: nic
	digest    *bridge.Digest
}

// failure is the panic value of a NIC's methods.
type failure struct{ err error }

func fail(format string, values ...any) { panic(failure{fmt.Errorf(format, values...)}) }

func try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// play runs one body on each of two nodes with a wire between them, and returns
// why it failed. When one body fails, the other ends too.
func play(t *testing.T, c config, a, b func(n *nic)) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if c.program == "" {
		c.program = unit.Simulator(t)
	}
	if c.kind == "" {
		c.kind = "nic"
	}
	f, err := sim.Start(ctx, sim.Config{
		Program: c.program, MemoryBytes: memoryBytes, Params: c.params, Arguments: c.arguments,
		Nodes:   []sim.Node{{Kind: c.kind, Name: "a"}, {Kind: c.kind, Name: "b"}},
		Threads: []sim.Thread{{Node: 0, Name: "a"}, {Node: 1, Name: "b"}},
	})
	require.NoError(t, err)
	var nics [2]*nic
	for i, name := range []string{"a", "b"} {
		thread, err := host.Attach(ctx, f.Conn(), host.ThreadID{Node: i}, name)
		require.NoError(t, err)
		memory, err := f.Conn().Memory(i)
		require.NoError(t, err)
		nics[i] = newNIC(thread, memory)
	}
	var wg sync.WaitGroup
	var errs [2]error
	for i, body := range []func(n *nic){a, b} {
		wg.Go(func() {
			errs[i] = try(func() {
				nics[i].check(nics[i].t.Begin())
				body(nics[i])
			})
			if errs[i] != nil {
				cancel()
				return
			}
			errs[i] = nics[i].t.Detach()
		})
	}
	wg.Wait()
	// Report the first failure, because the other may be its consequence.
	err = errors.Join(errs[:]...)
	for _, e := range errs {
		if e != nil && !errors.Is(e, context.Canceled) && !errors.Is(e, bridge.ErrClosed) {
			err = e
		}
	}
	if c.digest != nil && err == nil {
		*c.digest, err = f.Digest(ctx)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func mustPlay(t *testing.T, c config, a, b func(n *nic)) {
	t.Helper()
	require.NoError(t, play(t, c, a, b))
}

// nic is a node: its thread, its memory, and its rings.
type nic struct {
	t      *host.Thread
	memory *bridge.Memory
	mem    []byte
	mac    [6]byte
	next   uint32 // free frame of memory
	tx, rx ring
}

type ring struct {
	base, log2 uint32
	tail       uint32 // entries filled, ever increasing
	next       uint32 // completed entries that the test has seen
}

func newNIC(t *host.Thread, m *bridge.Memory) *nic {
	return &nic{t: t, memory: m, mem: m.Linear(), mac: macOf(t.ID().Node), next: 1}
}

func macOf(node int) [6]byte { return [6]byte{2, 0x48, 0x56, 0x49, 0x50, byte(node)} }

func (n *nic) check(err error) {
	if err != nil {
		fail("node %d: %w", n.t.ID().Node, err)
	}
}

func (n *nic) fail(format string, values ...any) {
	fail("node %d at %v: "+format, append([]any{n.t.ID().Node, n.t.Now()}, values...)...)
}

func (n *nic) equal(want, got any, format string, values ...any) {
	if want != got {
		n.fail("%s: %v, want %v", fmt.Sprintf(format, values...), got, want)
	}
}

func (n *nic) read(offset uint32) uint32 {
	v, err := n.t.Read(layout.PciBar0Base + offset)
	n.check(err)
	return v
}

func (n *nic) write(offset uint32, values ...uint32) {
	n.check(n.t.Write(layout.PciBar0Base+offset, values...))
}

func (n *nic) counter(c layout.NICCounter) uint32 { return n.read(layout.CounterBase + 4*uint32(c)) }

// counts are the expected counters, 0 if not named. BusClocks is checked
// separately.
type counts map[layout.NICCounter]int

func (n *nic) counters(want counts) {
	for c := range layout.NICCounter(layout.CounterSlots) {
		if c != layout.NICCounterBusClocks {
			n.equal(uint32(want[c]), n.counter(c), "counter %v", c)
		}
	}
}

func (n *nic) sleep(span host.Time) { n.check(n.t.Sleep(span)) }

func (n *nic) barrier(id uint64) { n.check(n.t.Barrier(id, 2)) }

// page is a zeroed frame that the NIC may access.
func (n *nic) page() uint32 {
	n.next++
	n.check(n.memory.Acquire(int(n.next), bridge.UseRing))
	return n.next * pageBytes
}

// free frees all frames. From now on the NIC must not access any.
func (n *nic) free() {
	for ; n.next > 1; n.next-- {
		n.check(n.memory.Release(int(n.next), bridge.UseRing))
	}
}

// start sets up rings of the given sizes and enables the NIC.
func (n *nic) start(txLog2, rxLog2 uint32) {
	n.write(layout.RegisterMacLowOffset, binary.LittleEndian.Uint32(n.mac[:]), uint32(binary.LittleEndian.Uint16(n.mac[4:])))
	n.tx, n.rx = ring{base: n.page(), log2: txLog2}, ring{base: n.page(), log2: rxLog2}
	n.write(layout.RegisterRawTransmitBaseOffset, n.tx.base, n.tx.log2)
	n.write(layout.RegisterRawReceiveBaseOffset, n.rx.base, n.rx.log2)
	n.write(layout.RegisterInterruptEnableOffset, receiveCause|busCause)
	n.write(layout.RegisterControlOffset, layout.RegisterControlEnableMask)
}

func (r *ring) size() uint32  { return 1 << r.log2 }
func (r *ring) room() uint32  { return r.size() - 1 - (r.tail - r.next) }
func (r *ring) index() uint32 { return r.tail % r.size() }

func (n *nic) entry(r *ring, i uint32) []byte {
	at := r.base&^(pageBytes-1) | (r.base+i%r.size()*layout.RawEntrySize)&(pageBytes-1)
	return n.mem[at : at+layout.RawEntrySize]
}

// fill puts an entry into a ring; post publishes the tail.
func (n *nic) fill(r *ring, address, length uint32) {
	if r.room() == 0 {
		n.fail("the ring of %d entries is full", r.size())
	}
	e := n.entry(r, r.tail)
	binary.LittleEndian.PutUint32(e[layout.RawEntryAddressOffset:], address)
	binary.LittleEndian.PutUint32(e[layout.RawEntryLengthOffset:], length)
	mem.StoreUint32(e[layout.RawEntryStatusOffset:], 0)
	r.tail++
}

func (n *nic) post(r *ring) {
	offset := uint32(layout.RegisterRawTransmitTailOffset)
	if r == &n.rx {
		offset = layout.RegisterRawReceiveTailOffset
	}
	n.write(offset, r.index())
}

func (n *nic) status(r *ring, i uint32) uint32 {
	return mem.LoadUint32(n.entry(r, i)[layout.RawEntryStatusOffset:])
}

// await waits for the next entry of a ring and returns its status. Then the
// clock is at the instant of the status write.
func (n *nic) await(r *ring) uint32 {
	i := r.next
	at := r.base&^(pageBytes-1) | (r.base+i%r.size()*layout.RawEntrySize)&(pageBytes-1)
	ok, err := n.t.Poll(host.Poll{
		Ranges: []mem.Range{{Address: at + layout.RawEntryStatusOffset, Length: 4}}, Period: host.Picosecond, Timeout: patience,
	}, func() bool { return n.status(r, i) != 0 })
	n.check(err)
	if !ok {
		n.fail("entry %d does not come back", i)
	}
	r.next++
	return n.status(r, i)
}

func (n *nic) interrupt() host.Time {
	ok, err := n.t.WaitInterrupt(patience)
	n.check(err)
	if !ok {
		n.fail("no interrupt")
	}
	return n.t.Now()
}

func (n *nic) quiet(span host.Time) {
	ok, err := n.t.WaitInterrupt(span)
	n.check(err)
	if ok {
		n.fail("an interrupt that nothing has raised")
	}
}

// clear clears a cause and waits until the NIC has cleared it.
func (n *nic) clear(causes uint32) uint32 {
	before := n.read(layout.RegisterInterruptStatusOffset)
	n.write(layout.RegisterInterruptStatusOffset, causes)
	n.equal(before&^causes, n.read(layout.RegisterInterruptStatusOffset), "causes after the clear")
	return before
}

// frameOf returns frame `number` from node `from` to the other node.
func frameOf(from, number, size int) []byte {
	f := make([]byte, size)
	random := rand.New(rand.NewPCG(uint64(from), uint64(number)))
	for i := range f {
		f[i] = byte(random.Uint32())
	}
	to, self := macOf(1-from), macOf(from)
	copy(f, to[:])
	copy(f[6:], self[:])
	f[12], f[13] = 0x88, 0xb7
	return f
}

func (n *nic) send(frame []byte) {
	p := n.page()
	copy(n.mem[p:], frame)
	n.fill(&n.tx, p, uint32(len(frame)))
	n.post(&n.tx)
}

// buffers posts the given number of receive buffers, each in a separate page.
func (n *nic) buffers(count int) (addresses []uint32) {
	for range count {
		p := n.page()
		addresses = append(addresses, p)
		n.fill(&n.rx, p, 2048)
	}
	n.post(&n.rx)
	return addresses
}

// grant is the time of a NIC's transaction before its address phase.
const grant = params.BridgeArbitrationClocks + 2

// burst is the time of one burst, from the host bridge's parameters.
func burst(write bool, address, bytes uint32) host.Time {
	words := (address%4 + bytes + 3) / 4
	initial, every := uint32(params.BridgeReadInitialClocks), uint32(params.BridgeReadWaitEvery)
	if write {
		initial, every = params.BridgeWriteInitialClocks, params.BridgeWriteWaitEvery
	}
	return host.Time(grant+initial+words+(words-1)/every*params.BridgeWaitClocks) * clock
}

// bursts is the time for the bytes of a buffer.
func bursts(write bool, address, bytes uint32) (span host.Time) {
	for bytes > 0 {
		n := min(bytes, params.DmaBurstBytes)
		span += burst(write, address, n)
		address, bytes = address+n, bytes-n
	}
	return span
}

// edge is the first clock edge at or after t.
func edge(t host.Time) host.Time { return (t + clock - 1) / clock * clock }

// wire is the time of a frame from the start of its preamble to the arrival of
// its last byte.
func wire(size int) host.Time {
	bits := host.Time(8 * (params.WirePreambleBytes + size + params.WireFcsBytes))
	return bits*params.WireBitTime + params.PhyTransmitDelay + params.CableDelay + params.PhyReceiveDelay
}
