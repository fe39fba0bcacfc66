// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim/bridge"
)

// hostileEntries: any invalid transmit entry completes with Error and sends
// nothing. The frames before and after it are sent.
func hostileEntries(n *nic) {
	n.start(8, 4)
	n.write(layout.NICRegisterTransmitCoalesceTimeOffset, 0)
	p := n.page()
	number := 0
	good := func() {
		copy(n.mem[p:], frameOf(0, number, 200))
		n.fill(&n.tx, p, 200)
		n.post(&n.tx)
		n.equal(uint32(done), n.await(&n.tx), "status of a good frame")
		number++
	}
	errors, aborts := 0, 0
	entries := func(what string, entries ...[2]uint32) {
		for _, e := range entries {
			n.fill(&n.tx, e[0], e[1])
		}
		n.post(&n.tx)
		for range entries {
			n.equal(uint32(refused), n.await(&n.tx), "status of %s", what)
			errors++
		}
		good()
	}
	n.barrier(1)
	good()
	entries("length 0", [2]uint32{p, 0})
	entries("length 13", [2]uint32{p, 13})
	entries("length 1515", [2]uint32{p, 1515})
	entries("length 4096", [2]uint32{p, 4096})
	entries("bit 16 of the length", [2]uint32{p, 1<<16 | 60})
	entries("bit 30 of the length", [2]uint32{p, 1<<30 | 60})
	entries("a page's end inside", [2]uint32{p + pageBytes - 59, 60})
	entries("13 bytes in two pieces", [2]uint32{p, 6 | more}, [2]uint32{p, 7})
	entries("an empty piece first", [2]uint32{p, more}, [2]uint32{p, 100})
	entries("an empty piece last", [2]uint32{p, 100 | more}, [2]uint32{p, 0})
	entries("1515 bytes in two pieces", [2]uint32{p, 1514 | more}, [2]uint32{p, 1})
	entries("a bad piece in the middle", [2]uint32{p, 100 | more}, [2]uint32{p + 4000, 100 | more}, [2]uint32{p, 100})
	// A frame without an end completes as soon as it is too long, and so do the
	// entries that continue it.
	var endless [][2]uint32
	for range 40 {
		endless = append(endless, [2]uint32{p, 300 | more})
	}
	entries("a frame that does not end", append(endless, [2]uint32{p, 300})...)
	// The last address of the memory behind the bridge, and the first address
	// after it.
	n.equal(uint32(transmitCause), n.clear(transmitCause), "causes")
	entries("nobody's address", [2]uint32{layout.PciMemorySize, 60})
	entries("nobody's address behind a good piece", [2]uint32{p, 60 | more}, [2]uint32{0xfffff000, 60 | more}, [2]uint32{p, 60})
	aborts += 2
	n.equal(uint32(transmitCause|busCause), n.clear(transmitCause|busCause), "causes")

	// 255 pieces of a byte each that end with the ring: the NIC waits for the
	// rest.
	for range 200 {
		n.fill(&n.tx, p, 1|more)
	}
	n.post(&n.tx)
	n.sleep(host.Millisecond)
	n.equal(uint32(0), n.status(&n.tx, n.tx.next), "status of a frame that is not whole")
	n.equal(n.tx.log2|layout.RegisterRawTransmitSizeBusyMask, n.read(layout.RegisterRawTransmitSizeOffset), "RawTransmitSize")
	n.fill(&n.tx, p, 1)
	copy(n.mem[p:], frameOf(0, number, 200)) // its first byte 201 times
	n.post(&n.tx)
	for range 201 {
		n.equal(uint32(done), n.await(&n.tx), "status of a piece of a byte")
	}
	n.counters(counts{
		layout.NICCounterTransmit: number + 1, layout.NICCounterTransmitBytes: 200*number + 201,
		layout.NICCounterTransmitError: errors, layout.NICCounterMasterAbort: aborts,
		layout.NICCounterInterrupt: 1, // the bus error's
	})
	n.barrier(2)
}

// witness receives the frames of hostileEntries.
func witness(n *nic) {
	n.start(4, 6)
	at := n.buffers(40)
	n.barrier(1)
	n.barrier(2)
	n.sleep(host.Millisecond)
	good := int(n.counter(layout.NICCounterReceive))
	if good < 10 {
		n.fail("%d frames came", good)
	}
	for i := range good {
		n.content(at[i], i, 200)
	}
	// The frame of single bytes has an unknown destination.
	n.counters(counts{layout.NICCounterReceive: good, layout.NICCounterReceiveBytes: 200 * good, layout.NICCounterReceiveNotForUs: 1, layout.NICCounterInterrupt: 1})
}

func TestHostileTransmit(t *testing.T) { mustPlay(t, config{}, hostileEntries, witness) }

// hostileBuffers: invalid receive entries complete with Error and drop no
// frame. Entries that are too small drop the frame.
func hostileBuffers(n *nic) {
	n.start(4, 5)
	p := n.page()
	bad := [][2]uint32{{p, 0}, {p, 1<<16 | 2048}, {p + 3000, 2048}, {p, 2048 | more}, {p, 1 << 20}}
	for _, e := range bad {
		n.fill(&n.rx, e[0], e[1])
	}
	n.post(&n.rx)
	for range bad {
		n.equal(uint32(refused), n.await(&n.rx), "status of a bad buffer")
	}
	n.equal(uint32(receiveCause), n.clear(receiveCause), "causes")
	n.fill(&n.rx, p, 299)                    // frame 0 does not fit
	n.fill(&n.rx, p+pageBytes-300, 300)      // frame 1 does
	n.fill(&n.rx, layout.PciMemorySize, 300) // frame 2: no answer on the bus
	n.fill(&n.rx, p+300, 300)
	for i := range pageBytes {
		n.mem[p+uint32(i)] = 0xee
	}
	n.post(&n.rx)
	n.barrier(1)
	n.barrier(2)
	n.sleep(host.Millisecond)
	n.equal(uint32(refused), n.await(&n.rx), "status of a buffer that is too small")
	for i := range 299 {
		n.equal(byte(0xee), n.mem[p+uint32(i)], "byte %d of a buffer that is too small", i)
	}
	n.content(p+pageBytes-300, 1, 300)
	n.equal(uint32(refused), n.await(&n.rx), "status of a buffer that is not in memory")
	n.content(p+300, 3, 300)
	n.counters(counts{
		layout.NICCounterReceive: 2, layout.NICCounterReceiveBytes: 600, layout.NICCounterReceiveError: 2 + len(bad), layout.NICCounterMasterAbort: 1,
		layout.NICCounterInterrupt: 2,
	})
}

func TestHostileReceive(t *testing.T) { mustPlay(t, config{}, burstOf(4, 300), hostileBuffers) }

// A ring at an address without memory does no harm: its entries cannot be read,
// nor their status written.
func hostileRing(n *nic) { hostileRingRead(n, 8) }

// hostileRingRead expects that the NIC reads the entries with the given number
// of bursts.
func hostileRingRead(n *nic, bursts int) {
	n.start(4, 4)
	n.write(layout.NICRegisterTransmitCoalesceTimeOffset, 0)
	n.write(layout.RegisterRawTransmitBaseOffset, 0xffffff00, 8)
	n.write(layout.RegisterRawTransmitTailOffset, 30)
	n.sleep(host.Millisecond)
	n.equal(uint32(busCause), n.clear(busCause), "causes")
	n.equal(uint32(30), n.read(layout.RegisterRawTransmitHeadOffset), "head")
	n.counters(counts{layout.NICCounterTransmitError: 30, layout.NICCounterMasterAbort: 30 + bursts, layout.NICCounterInterrupt: 1})
	// The NIC works again with a valid ring. Entries wrap inside the page.
	n.write(layout.RegisterRawTransmitBaseOffset, n.tx.base+pageBytes-32, 3)
	n.tx = ring{base: n.tx.base + pageBytes - 32, log2: 3}
	p := n.page()
	for range 20 {
		copy(n.mem[p:], frameOf(0, 0, 100))
		n.fill(&n.tx, p, 100)
		n.post(&n.tx)
		n.equal(uint32(done), n.await(&n.tx), "status")
	}
	n.equal(uint32(transmitCause), n.clear(transmitCause), "causes")
	// Entries that the firmware has not seen belong to the old ring, and so
	// does the part of a frame already read.
	for _, wait := range []host.Time{0, params.NICTransmitTime / 2, params.NICTransmitTime, params.NICTransmitTime + 2*host.Microsecond} {
		for range 3 {
			n.fill(&n.tx, p, 500|more)
		}
		n.post(&n.tx)
		n.sleep(wait)
		n.write(layout.RegisterRawTransmitSizeOffset, 3)
		n.sleep(host.Millisecond)
		n.equal(uint32(3), n.read(layout.RegisterRawTransmitSizeOffset), "RawTransmitSize")
		n.equal(uint32(0), n.read(layout.RegisterRawTransmitHeadOffset), "RawTransmitHead")
		for i := range uint32(3) {
			n.equal(uint32(0), n.status(&n.tx, n.tx.next+i), "status of an entry of the ring that was")
		}
		n.tx = ring{base: n.tx.base, log2: 3}
		n.fill(&n.tx, p, 100)
		n.post(&n.tx)
		n.equal(uint32(done), n.await(&n.tx), "status")
	}
	n.equal(uint32(24), n.counter(layout.NICCounterTransmit), "frames sent")
}

func TestHostileRing(t *testing.T) { mustPlay(t, config{}, hostileRing, func(n *nic) {}) }

// An access to memory that is not in use ends the run, like one of the card.
func TestMemoryNotInUse(t *testing.T) {
	for name, body := range map[string]func(n *nic){
		"buffer to send": func(n *nic) {
			n.start(4, 4)
			n.fill(&n.tx, 500*pageBytes, 60)
			n.post(&n.tx)
			n.sleep(host.Millisecond)
		},
		"receive ring": func(n *nic) {
			n.start(4, 4)
			n.write(layout.RegisterRawReceiveBaseOffset, 500*pageBytes, 4, 3)
			n.sleep(host.Millisecond)
		},
		"beyond the memory": func(n *nic) {
			n.start(4, 4)
			n.fill(&n.tx, memoryBytes, 60)
			n.post(&n.tx)
			n.sleep(host.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, play(t, config{}, body, func(n *nic) {}), bridge.ErrMemoryFault)
		})
	}
}

// registers tests which registers exist, and their values after a reset.
func registers(n *nic) {
	n.equal(uint32(layout.NICID), n.read(layout.RegisterIDOffset), "ID")
	n.equal(uint32(layout.CardVersionMajor<<layout.RegisterVersionMajorLsb|layout.CardVersionMinor), n.read(layout.RegisterVersionOffset), "Version")
	n.equal(uint64(layout.Hash), uint64(n.read(layout.RegisterLayoutHashHighOffset))<<32|uint64(n.read(layout.RegisterLayoutHashLowOffset)), "layout hash")
	n.equal(uint32(4<<layout.RegisterCapabilityDataBytesLsb|1<<layout.RegisterCapabilityPortsLsb), n.read(layout.RegisterCapabilityOffset), "Capability")
	n.equal(uint32(layout.RegisterStateReadyMask|layout.RegisterStateQuietMask), n.read(layout.RegisterStateOffset), "State")
	reset := map[uint32]uint32{}
	// Writes reach existing registers, and keep the implemented bits.
	kept := map[uint32]uint32{
		layout.RegisterInterruptEnableOffset: receiveCause | transmitCause | busCause,
		layout.RegisterMacLowOffset:          0xffffffff, layout.RegisterMacHighOffset: 0xffff,
		layout.RegisterRawTransmitBaseOffset: 0xfffffff0, layout.RegisterRawReceiveBaseOffset: 0xfffffff0,
		layout.RegisterRawTransmitTailOffset: 0xff, layout.RegisterRawReceiveTailOffset: 0xff,
		layout.NICRegisterReceiveCoalesceTimeOffset: 0xffffffff, layout.NICRegisterReceiveCoalesceFramesOffset: 0xffffffff,
		layout.NICRegisterTransmitCoalesceTimeOffset: 0xffffffff, layout.NICRegisterTransmitCoalesceFramesOffset: 0xffffffff,
	}
	for offset := uint32(layout.RegisterInterruptEnableOffset); offset < layout.CounterBase; offset += 4 {
		reset[offset] = n.read(offset)
		n.write(offset, 0xffffffff)
		want, ok := kept[offset]
		if !ok {
			want = reset[offset]
		}
		if !ok && want != 0 {
			n.fail("register %#x reads %#x, where there is none", offset, want)
		}
		n.equal(want, n.read(offset), "register %#x after a write of all ones", offset)
	}
	for _, outside := range []uint32{layout.PciBar1Base, layout.PciBar0Base - 4, layout.PciBar0Base + layout.RegisterSize} {
		n.check(n.t.Write(outside, 1, 2, 3))
		v, err := n.t.Read(outside)
		n.check(err)
		n.equal(uint32(0xffffffff), v, "a read of %#x, where nobody is", outside)
	}
	n.write(layout.RegisterControlOffset, layout.RegisterControlSoftResetMask)
	n.equal(uint32(0), n.read(layout.RegisterControlOffset), "Control")
	for offset, want := range reset {
		n.equal(want, n.read(offset), "register %#x after a reset", offset)
	}
	n.counters(counts{})
	for v, want := range map[uint32]uint32{0: 0, 1: 1, 8: 8, 9: 0, 15: 0, 0x88: 0, 0x104: 4} {
		n.write(layout.RegisterRawTransmitSizeOffset, v)
		n.equal(want, n.read(layout.RegisterRawTransmitSizeOffset), "size after a write of %#x", v)
	}
}

func TestRegisters(t *testing.T) { mustPlay(t, config{}, registers, func(n *nic) {}) }
