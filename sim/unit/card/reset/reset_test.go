// SPDX-License-Identifier: Apache-2.0

package reset_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

type strikeKind int

const (
	strikeBus  strikeKind = iota // RST#
	strikeSoft                   // soft reset
	strikeOff                    // soft reset with BusMaster off, as after a crash
	strikeVI                     // ResetVI
	strikeKinds
)

type moment int

const (
	anyTime       moment = iota
	afterDoorbell        // a few clocks
	afterCommand         // while the card executes one, or at least a few clocks after it was posted
	whileBooting         // after or during another reset of the card
	whileEnabling        // while the card configures its MAC
	moments
)

type blow struct {
	kind strikeKind
	node int // whose card
	vi   int
	when moment
	at   host.Time // from the start of the round
}

// strikes is the total number of resets: some moments require a reset to create
// them.
func (b blow) strikes() int {
	if b.kind != strikeVI && (b.when == whileBooting || b.when == whileEnabling) {
		return 2
	}
	return 1
}

func (b blow) affects(k int) bool { return b.kind != strikeVI || b.vi == k }

// Limits of the time to each moment.
const (
	trafficSpan = 400 * host.Microsecond
	bootSpan    = 350 * host.Microsecond // the SDRAM's power-up wait and more
	enableSpan  = 40 * host.Microsecond  // a few dozen transactions of the MAC's bus
	nearSpan    = 4 * host.Microsecond
	holdSpan    = 5 * host.Microsecond // of RST#
	// card.md gives 330 clocks for a soft reset with BusMaster off. The rest is
	// for the accesses that observe it.
	offLimit = 12 * host.Microsecond
)

func TestResets(t *testing.T) {
	mustPlay(t, config{}, blows(t, int(unit.Sizes{Short: 6, Normal: 24, Long: 200}.Pick())))
}

// The same with the straps that change how frames pass between the card and its
// MAC: at the reset the MAC may contain half a frame.
func TestResetsWithStraps(t *testing.T) {
	for _, c := range []struct {
		name   string
		straps uint32
	}{
		{"cut-through of what is sent", 1 << layout.StrapCutThroughTransmit},
		{"cut-through of what is received", 1 << layout.StrapCutThroughReceive},
		{"cut-through both ways", 1<<layout.StrapCutThroughTransmit | 1<<layout.StrapCutThroughReceive},
		{"single slots", 1<<layout.StrapSingleTransmitSlot | 1<<layout.StrapSingleReceiveSlot},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustPlay(t, config{straps: c.straps}, blows(t, int(unit.Sizes{Short: 1, Normal: 4, Long: 60}.Pick())))
		})
	}
}

// blows is a script of the given number of strikes, or one more.
func blows(t *testing.T, strikes int) func(n *node) {
	seed := unit.Seed(t)
	return func(n *node) {
		// both nodes draw the same numbers
		random := rand.New(rand.NewPCG(seed, 0))
		n.connect(func(int) bool { return true })
		n.verify()
		for i, done := 0, 0; done < strikes; i++ {
			b := blow{kind: strikeKind(i) % strikeKinds, node: random.IntN(2), vi: random.IntN(viCount), when: moment(random.IntN(int(moments)))}
			b.at = host.Time(random.Int64N(int64(trafficSpan)))
			if err := try(func() { n.round(b) }); err != nil {
				fail("round %d, %+v: %w", i, b, err)
			}
			done += b.strikes()
		}
		n.log("node %d: %d times RST#, %d soft resets, %d with BusMaster off, %d times ResetVI; %d messages verified", n.index,
			n.tally.strikes[strikeBus], n.tally.strikes[strikeSoft], n.tally.strikes[strikeOff], n.tally.strikes[strikeVI], n.tally.messages)
	}
}

func (n *node) meet() { n.check(n.thread.Barrier(1, 2)) }

func (n *node) round(b blow) {
	n.load()
	switch {
	case n.index != b.node:
		n.survive(b)
	case b.kind == strikeVI:
		n.resetVI(b)
	default:
		n.resetCard(b)
	}
	n.meet()
	n.connect(b.affects)
	n.verify()
}

// load starts traffic on all VIs and on the raw port, in random order.
func (n *node) load() {
	var jobs []func()
	for _, v := range n.vis {
		for range 1 + n.random.IntN(2) {
			jobs = append(jobs, v.sendNext)
		}
		for range 1 + n.random.IntN(2) {
			jobs = append(jobs, v.writeNext)
		}
	}
	jobs = append(jobs, func() { n.raw(1 + n.random.IntN(3)) })
	n.random.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	for _, j := range jobs {
		j()
	}
}

// survive continues while the peer is reset, and closes the lost connections.
func (n *node) survive(b blow) {
	n.sleep(b.at / 2)
	n.load()
	n.sleep(b.at/2 + n.below(trafficSpan/2))
	for k, v := range n.vis {
		if b.affects(k) {
			v.disconnect()
		} else {
			v.sentAll()
		}
	}
}

func (n *node) approach(b blow) {
	n.sleep(b.at)
	v := n.vis[b.vi]
	switch b.when {
	case afterDoorbell:
		for _, ring := range n.random.Perm(3)[:1+n.random.IntN(3)] {
			[]func(){v.sendNext, v.writeNext, v.listen}[ring]()
		}
		n.sleep(n.below(nearSpan))
	case afterCommand:
		if b.kind == strikeVI { // one command at a time
			v.disconnect()
			return
		}
		n.someCommand(v)
		n.sleep(n.below(nearSpan))
	}
}

// someCommand starts a command that reads and writes much, or waits long.
func (n *node) someCommand(v *vi) {
	switch n.random.IntN(4) {
	case 0:
		n.begin(layout.CommandOpcodeInitialiseAtt, func(c layout.Command) { c.SetIndex(regionLimit) })
	case 1:
		pages, err := n.memory.Physical(nil, v.buffer.Address(), uint64(v.buffer.Len()))
		n.check(err)
		n.begin(layout.CommandOpcodeWriteLevel2, func(c layout.Command) {
			list := make([]uint32, len(pages))
			for i, p := range pages {
				list[i] = p.Address
			}
			n.listed(c, list, layout.AttLevel2Base+layout.AttLevel2Size*10_000)
		})
	case 2:
		n.begin(layout.CommandOpcodeDeregisterMemory, func(c layout.Command) {
			c.SetIndex(uint32(v.handle & layout.AttHandleValueIndexMask))
			c.SetHandle(v.handle)
		})
	case 3:
		n.begin(layout.CommandOpcodeDisconnectVI, func(c layout.Command) { c.SetIndex(v.index) })
	}
}

// resetCard resets this node's card and starts it again.
func (n *node) resetCard(b blow) {
	n.approach(b)
	switch b.when {
	case whileBooting:
		if n.random.IntN(2) == 0 {
			n.askSoft()
			n.tally.strikes[strikeSoft]++
			n.sleep(n.below(bootSpan))
		} else {
			n.resetBus()
			if b.kind != strikeBus {
				n.found() // until then the registers do not respond
			}
			n.sleep(n.below(bootSpan))
		}
	case whileEnabling:
		n.strike(strikeKind(n.random.IntN(2)))
		n.enable()
		n.sleep(n.below(enableSpan))
	}
	n.strike(b.kind)
	n.clean()
	n.start()
}

func (n *node) strike(kind strikeKind) {
	if kind == strikeBus {
		n.resetBus()
		n.found()
		return
	}
	limit := host.Time(patience)
	if kind == strikeOff {
		limit = offLimit
		n.check(n.thread.Write(command, n.command()&^layout.PciConfigCommandMasterEnableMask))
		n.sleep(n.below(nearSpan))
	}
	n.askSoft()
	n.tally.strikes[kind]++
	for begin := n.thread.Now(); n.read(layout.RegisterControlOffset)&layout.RegisterControlSoftResetMask != 0; n.sleep(host.Microsecond / 4) {
		if n.thread.Now() > begin+limit {
			n.fail("the card is still in reset after %v", limit)
		}
	}
	n.forget()
	if kind == strikeOff {
		// Transfers from before the reset would now access foreign memory.
		n.check(n.thread.Write(command, n.command()|layout.PciConfigCommandMasterEnableMask))
		n.sleep(n.below(nearSpan))
	}
}

// command is the address of the command register in configuration space.
const command = layout.PciConfigBase + layout.PciConfigCommandOffset

// command reads that register without the status bits, which writing 1 clears.
func (n *node) command() uint32 {
	v, err := n.thread.Read(command)
	n.check(err)
	return v & 0xffff
}

// resetBus asserts RST#, which also cuts off the access on the bus.
func (n *node) resetBus() {
	n.check(n.thread.ResetBus(1 + n.below(holdSpan)))
	n.forget()
	n.tally.strikes[strikeBus]++
	if n.random.IntN(2) == 0 {
		if v := n.read(layout.RegisterIDOffset); v != nobody {
			n.fail("the card reads %#x in the moment of RST#", v)
		}
	}
}

func (n *node) askSoft() {
	n.check(n.thread.Write(layout.PciBar0Base+layout.RegisterControlOffset, layout.RegisterControlSoftResetMask))
}

// resetVI resets one VI. After the command its memory must not be accessed,
// although it is still registered. The other VIs continue.
func (n *node) resetVI(b blow) {
	n.approach(b)
	v := n.vis[b.vi]
	v.command(layout.CommandOpcodeResetVI, layout.VIStateFree, end{})
	n.tally.strikes[strikeVI]++
	before := slices.Clone(v.buffer.Bytes())
	n.sleep(n.below(trafficSpan))
	for k, w := range n.vis {
		if !b.affects(k) {
			w.sentAll()
		}
	}
	if !bytes.Equal(before, v.buffer.Bytes()) {
		n.fail("VI %d has been reset, and its memory changed later", v.index)
	}
	v.create()
}

// connect connects the unconnected VIs, with both nodes in step.
func (n *node) connect(which func(k int) bool) {
	var own [viCount]end
	for k, v := range n.vis {
		if which(k) {
			own[k] = v.offer()
		}
	}
	n.meet()
	for k, v := range n.vis {
		if which(k) {
			v.connect(own[k])
		}
	}
	n.meet()
}

// verify sends on all VIs and on the raw port, both ways, and compares
// everything that arrived since the last call.
func (n *node) verify() {
	for _, v := range n.vis {
		v.writeNext()
		v.sendNext()
		v.tell()
	}
	n.raw(1)
	n.shared.mu.Lock()
	n.shared.raw[n.index] = n.frames
	n.shared.mu.Unlock()
	n.meet()
	n.shared.mu.Lock()
	frame := n.shared.raw[1-n.index]
	n.shared.mu.Unlock()
	n.hear(frame)
	for _, v := range n.vis {
		v.verify()
		v.sentAll()
		v.refill()
	}
	if lost := n.losses(); lost != n.lost {
		n.fail("%d frames found no space in the MAC: there is too much traffic for what is wanted of it", lost-n.lost)
	}
	n.meet()
}

// Skipping idle clocks must make no difference, during resets too.
func TestRepeatable(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates every clock")
	}
	var digests [3]bridge.Digest
	for i := range digests {
		require.NoError(t, play(t, config{noSkip: i == 2, digest: &digests[i]}, unit.Seed(t), blows(t, 6)))
	}
	require.True(t, digests[0].Reproducible)
	require.Equal(t, digests[0], digests[1], "the same run twice")
	require.Equal(t, digests[0], digests[2], "with every clock evaluated")
}
