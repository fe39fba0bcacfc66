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

// batches sends batches of frames, each after a barrier.
func batches(sizes ...int) func(n *nic) {
	return func(n *nic) {
		n.start(6, 4)
		number := 0
		for i, size := range sizes {
			n.barrier(uint64(100 + i))
			for range size {
				p := n.page()
				copy(n.mem[p:], frameOf(0, number, 60))
				number++
				n.fill(&n.tx, p, 60)
			}
			n.post(&n.tx)
			for range size {
				n.equal(uint32(done), n.await(&n.tx), "status")
			}
		}
		n.barrier(99)
	}
}

// receiveModeration: the cause rises at the exact instants that the registers
// define.
func receiveModeration(n *nic) {
	n.start(4, 7)
	n.equal(uint32(params.NICReceiveCoalesceTime/1000), n.read(layout.NICRegisterReceiveCoalesceTimeOffset), "time after a reset")
	n.equal(uint32(params.NICReceiveCoalesceFrames), n.read(layout.NICRegisterReceiveCoalesceFramesOffset), "frames after a reset")
	n.buffers(100)
	batch := uint64(100)
	stored := func(frames int) (first, last host.Time) {
		n.barrier(batch)
		batch++
		for i := range frames {
			n.await(&n.rx)
			if last = n.t.Now(); i == 0 {
				first = last
			}
		}
		return first, last
	}
	raised := func(at host.Time, what string) {
		n.equal(at, n.interrupt(), "%s", what)
		n.clear(receiveCause)
	}
	set := func(ns, frames uint32) {
		n.write(layout.NICRegisterReceiveCoalesceTimeOffset, ns)
		n.write(layout.NICRegisterReceiveCoalesceFramesOffset, frames)
		n.equal(ns, n.read(layout.NICRegisterReceiveCoalesceTimeOffset), "time")
		n.equal(frames, n.read(layout.NICRegisterReceiveCoalesceFramesOffset), "frames")
	}

	_, last := stored(1)
	n.equal(last, n.interrupt(), "a frame by itself")
	n.equal(uint32(receiveCause), n.clear(receiveCause), "causes")

	// By time alone: from the first frame, for any number of frames.
	set(50_000, 0)
	for range 2 {
		first, _ := stored(5)
		raised(first+50*host.Microsecond, "the first of five, and 50 us")
	}

	// By number, and the rest by time.
	set(50_000, 3)
	_, third := stored(3)
	raised(third, "the third")
	first, _ := stored(1)
	raised(first+50*host.Microsecond, "the fourth, and 50 us")

	// The cause stays until a clear, which covers the frames stored meanwhile.
	stored(3)
	n.equal(uint32(receiveCause), n.clear(receiveCause), "causes")
	n.quiet(200 * host.Microsecond)

	// A clear also covers the frames stored before it.
	stored(2)
	n.clear(receiveCause)
	n.quiet(200 * host.Microsecond)
	stored(2)
	_, third = stored(1)
	raised(third, "the third after a clear")

	// Registers apply to pending frames.
	set(80_000, 10)
	first, _ = stored(2)
	n.write(layout.NICRegisterReceiveCoalesceTimeOffset, 20_000)
	raised(first+20*host.Microsecond, "a shorter time")
	set(1_000_000, 10)
	_, second := stored(2)
	n.write(layout.NICRegisterReceiveCoalesceFramesOffset, 2)
	raised(edge(second+params.BridgePostedWriteClocks*clock)+writeClocks*clock+host.Picosecond, "a smaller number")

	// A masked cause rises as well.
	set(0, 0)
	n.write(layout.RegisterInterruptEnableOffset, 0)
	stored(1)
	n.quiet(10 * host.Microsecond)
	n.equal(uint32(receiveCause), n.read(layout.RegisterInterruptStatusOffset), "causes")
	n.write(layout.RegisterInterruptEnableOffset, receiveCause)
	n.interrupt()
	n.equal(uint32(10), n.counter(layout.NICCounterInterrupt), "interrupts")
	n.barrier(99)
}

func receiveBatches() func(n *nic) { return batches(1, 5, 5, 3, 1, 3, 2, 2, 1, 2, 2, 1) }

func TestReceiveModeration(t *testing.T) {
	mustPlay(t, config{}, receiveBatches(), receiveModeration)
}

// transmitModeration counts frames, not entries, with a number and a time.
func transmitModeration(n *nic) {
	n.start(8, 4)
	n.write(layout.RegisterInterruptEnableOffset, transmitCause)
	n.equal(uint32(params.NICTransmitCoalesceTime/1000), n.read(layout.NICRegisterTransmitCoalesceTimeOffset), "time after a reset")
	n.equal(uint32(params.NICTransmitCoalesceFrames), n.read(layout.NICRegisterTransmitCoalesceFramesOffset), "frames after a reset")
	p := n.page()
	copy(n.mem[p:], frameOf(0, 0, 60))
	send := func(frames int) {
		for range frames {
			n.fill(&n.tx, p, 42|more)
			n.fill(&n.tx, p+42, 18)
		}
		n.post(&n.tx)
	}
	back := func(frames int) (first, last host.Time) {
		for i := range frames {
			n.equal(uint32(done), n.await(&n.tx), "header")
			n.equal(uint32(done), n.await(&n.tx), "payload")
			last = n.t.Now()
			if i == 0 {
				first = last
			}
		}
		return first, last
	}
	send(3)
	first, _ := back(3)
	n.equal(first+params.NICTransmitCoalesceTime, n.interrupt(), "the first of three, and the time")
	n.clear(transmitCause)
	send(params.NICTransmitCoalesceFrames)
	_, last := back(params.NICTransmitCoalesceFrames)
	n.equal(last, n.interrupt(), "as many as the number says")
	n.clear(transmitCause)
	n.quiet(host.Millisecond)
	n.counters(counts{
		layout.NICCounterTransmit: 3 + params.NICTransmitCoalesceFrames, layout.NICCounterTransmitBytes: 60 * (3 + params.NICTransmitCoalesceFrames),
		layout.NICCounterInterrupt: 2,
	})
}

func TestTransmitModeration(t *testing.T) {
	mustPlay(t, config{}, transmitModeration, func(n *nic) {})
}

// A wait ends when a cause rises. When it has risen and nothing else is
// pending, a wait without a limit is a deadlock, which is reported at once.
func TestDeadlock(t *testing.T) {
	var rose, began host.Time
	err := play(t, config{}, func(n *nic) {
		n.start(4, 4)
		n.write(layout.RegisterInterruptEnableOffset, transmitCause)
		n.write(layout.NICRegisterTransmitCoalesceTimeOffset, 2_000_000_000, 0)
		n.fill(&n.tx, n.page(), 60)
		n.post(&n.tx)
		n.await(&n.tx)
		began = n.t.Now()
		ok, err := n.t.WaitInterrupt(host.Never)
		n.check(err)
		n.equal(true, ok, "the interrupt")
		rose = n.t.Now()
		n.clear(transmitCause)
		_, err = n.t.WaitInterrupt(host.Never)
		n.check(err)
	}, func(n *nic) {})
	require.ErrorIs(t, err, bridge.ErrDeadlock)
	require.Equal(t, began+2*host.Second, rose)
}
