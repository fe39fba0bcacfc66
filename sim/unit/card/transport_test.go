// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"fmt"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/params"
	"hvia/sim"
	"hvia/sim/unit/internal/unit"
)

// badWire drops, duplicates and reorders frames both ways.
var badWire = sim.WireFaults{Faults: []sim.WireFault{
	{Kind: layout.WireFaultDrop, Frames: sim.FrameSelection{Share: sim.Percent(4)}},
	{Kind: layout.WireFaultDuplicate, Frames: sim.FrameSelection{Share: sim.Percent(3)}},
	{Kind: layout.WireFaultReorder, Frames: sim.FrameSelection{Share: sim.Percent(3)}},
	{Kind: layout.WireFaultCorrupt, Frames: sim.FrameSelection{Share: sim.Percent(1)}},
}}

// exchange makes both ends of a pair send the given rounds, waits, and updates
// the model.
func (r *rig) exchange(x [2]*talk, rounds int) {
	r.both(func(m *machine) { x[1-m.thread.ID().Node].ready(rounds) })
	r.both(func(m *machine) {
		out := x[m.thread.ID().Node]
		out.sayAll(rounds)
		out.await()
	})
	r.settle()
	x[0].heard()
	x[1].heard()
}

// The numbers of a connection wrap with messages of all kinds in flight both
// ways, on a lossy link that drops some of their frames and acknowledgements.
func TestSequenceWraps(t *testing.T) {
	takesSeconds(t)
	for _, level := range reliableLevels {
		t.Run(level.String(), func(t *testing.T) {
			mustPlay(t, config{faults: badWire}, func(r *rig) {
				r.both((*machine).lossy)
				x := r.talkers([2]uint8{9, 10}, 55, level, limits{16, 255, 14}, [2]uint8{})
				for i := range (unit.Sizes{Normal: 4, Long: 500}).Pick() {
					if i > 0 {
						r.both(func(m *machine) {
							v := x[m.thread.ID().Node].from
							v.disconnect()
							v.flushed()
						})
					}
					r.connectAt(x[0].from, x[1].from, [2]uint32{1<<32 - 3, 1<<32 - 3 - r.random.Uint32N(9)*uint32(i%2)})
					r.exchange(x, 3)
					r.verify()
					for k := range x {
						if v := x[k].from; v.next > 1<<20 {
							fail("the numbers of VI %d did not wrap: the next one is %#x", v.index, v.next)
						}
					}
				}
				n := uint32(0)
				r.both(func(m *machine) {
					if m.thread.ID().Node == 0 {
						n = m.counter(layout.CounterRetransmitFrame)
					}
				})
				if n == 0 {
					fail("the wire lost nothing")
				}
				r.t.Logf("node 0 sent %d frames again", n)
			})
		})
	}
}

// A card is reset during a reliable stream, by software or by RST#. Its peer
// retries up to its limit, completes the oldest incomplete descriptor with
// TransportError, and flushes the rest at the disconnect. The reset card works
// again after a start and a new connection.
func TestResetUnderReliableStream(t *testing.T) {
	takesSeconds(t)
	for node := range 2 {
		for _, how := range []string{"soft reset", "RST#"} {
			t.Run(fmt.Sprintf("%s of node %d", how, node), func(t *testing.T) {
				mustPlay(t, config{}, func(r *rig) {
					for range (unit.Sizes{Normal: 2, Long: 100}).Pick() {
						for _, level := range reliableLevels {
							r.cutOff(level, node, how == "RST#")
						}
					}
				})
			})
		}
	}
}

// cutOff resets a node's card under a stream between two nodes, and ends with
// both cards as they were at the start.
func (r *rig) cutOff(level layout.Reliability, node int, bus bool) {
	const (
		timeoutLog2 = 12
		retryLimit  = 3
		window      = 16
		rounds      = 12
	)
	timeout := host.Time(params.SystemClockPeriod) << timeoutLog2
	x := r.talkers([2]uint8{9, 10}, 55, level, limits{window, retryLimit, timeoutLog2}, [2]uint8{})
	r.connect(x[0].from, x[1].from)
	r.both(func(m *machine) { x[1-m.thread.ID().Node].ready(rounds) })
	left := 1 - node
	out := x[left]
	var struck host.Time
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		x[n].sayAll(rounds)
		if n != node {
			return
		}
		m.sleep(host.Time(m.random.Int64N(int64(900 * host.Microsecond))))
		struck = m.thread.Now()
		if bus {
			m.resetBus(1+host.Time(m.random.Int64N(int64(3*host.Microsecond))), m.adoptCard)
		} else {
			m.resetWith(m.adoptCard)
		}
		m.start()
	})
	r.on(left, func(m *machine) {
		m.errors = append(m.errors, asyncError{layout.AsyncErrorConnectionLost, out.from.index})
		m.takeErrors(patience)
		// A timeout starts with the last frame sent, so retransmissions add to
		// its time: first a window, then half of the last number each time.
		took := m.thread.Now() - struck
		if took < (retryLimit+1)*timeout-100*host.Microsecond || took > (retryLimit+1)*timeout+2*window*16*host.Microsecond {
			m.fail("the connection was given up %v after the reset, with %d timeouts of %v", took, retryLimit+1, timeout)
		}
		if n := m.counter(layout.CounterRetryExhausted); n != 1 {
			m.fail("RetryExhausted is %d", n)
		}
		m.sleep(host.Millisecond)
		out.brokenOff()
		m.awaitQuiet()
		// Only the card knows what it did with the peer's messages before its
		// reset.
		m.reset()
		m.start()
	})
	// The peer's retransmissions met no VI.
	r.on(node, func(m *machine) { m.counts[layout.CounterReceiveBadVI] = m.counter(layout.CounterReceiveBadVI) })
	// Both cards work again, with new connections.
	y := r.talkers([2]uint8{10, 9}, 56, level, limits{window, retryLimit, timeoutLog2}, [2]uint8{})
	r.connect(y[0].from, y[1].from)
	r.both(func(m *machine) { m.lossy() })
	r.exchange(y, 3)
	r.verify()
	r.both(func(m *machine) { m.reset(); m.start() })
}

// brokenOff disconnects the sender of a stream that was given up and checks how
// its messages ended.
func (x *talk) brokenOff() {
	m, own, well := x.from.m, x.from.reliable.own, 0
	for well < len(own) && own[well].p.statusWord() == own[well].p.ended(0) {
		well++
	}
	if well == len(own) {
		m.fail("the stream of %d messages was over when its peer was reset", well)
	}
	// The oldest incomplete message has completed, unless it is a read: that
	// owns its buffers until the disconnect.
	failed := own[well]
	if !failed.p.done() && !failed.read {
		m.fail("message %d has not ended, and the connection is given up", well)
	}
	for i, o := range own[well+1:] {
		if o.p.done() {
			m.fail("message %d behind one that failed ended with %#x before the disconnect", well+1+i, o.p.statusWord())
		}
	}
	x.from.disconnect()
	if want := failed.p.ended(layout.DescriptorStatusTransportErrorMask); failed.p.statusWord() != want || failed.p.lengthWord() != 0 {
		m.fail("message %d ended with %#x and length %d, want %#x and none", well, failed.p.statusWord(), failed.p.lengthWord(), want)
	}
	// Only behind reads may a request be acknowledged.
	acknowledged := failed.read
	for i, o := range own[well+1:] {
		switch status := o.p.statusWord(); {
		case status == o.p.ended(layout.DescriptorStatusFlushedMask):
			acknowledged = acknowledged && o.read
		case status != o.p.ended(0) || !acknowledged || o.read:
			m.fail("message %d ended with %#x at the disconnect, behind message %d that failed", well+1+i, status, well)
		}
	}
}

// A full completion queue loses entries, counts and reports each of them, and
// continues in order when there is capacity. The descriptors are complete.
func TestCompletionQueueFull(t *testing.T) {
	takesSeconds(t)
	for _, log2 := range []uint32{1, 3} {
		t.Run(fmt.Sprintf("%d entries", 1<<log2), func(t *testing.T) {
			mustPlay(t, config{}, queueFull(log2, (unit.Sizes{Normal: 20, Long: 2000}).Pick()))
		})
	}
}

func queueFull(log2 uint32, rounds uint64) func(r *rig) {
	return func(r *rig) {
		var queue [2]*completionQueue
		r.both(func(m *machine) { queue[m.thread.ID().Node] = m.createQueue(uint32(3+m.thread.ID().Node), log2) })
		r.both((*machine).lossy)
		x := r.talkers([2]uint8{9, 10}, 55, layout.ReliabilityReception, limits{16, 7, 20}, [2]uint8{4, 5})
		r.connect(x[0].from, x[1].from)
		size, waiting := 1<<log2, [2]int{}
		lost := 0
		for range rounds {
			n := r.random.IntN(6)
			r.b(func(*machine) { x[0].ready(n) })
			for range n {
				x[0].say(sends)
			}
			x[0].await()
			r.settle()
			x[0].heard()
			r.both(func(m *machine) {
				k := m.thread.ID().Node
				over := max(waiting[k]+n-size, 0)
				waiting[k] += n - over
				if k == 0 {
					lost += over
				}
				m.counts[layout.CounterCompletionQueueOverrun] += uint32(over)
				for range over {
					m.errors = append(m.errors, asyncError{layout.AsyncErrorCompletionQueueOverrun, x[k].from.index})
				}
				m.verifyErrors()
				for range m.random.IntN(waiting[k] + 1) {
					e, ok := m.takeEntry(&queue[k].ring)
					if want := (completionEntry{x[k].from.index, k == 1}); !ok || e != want {
						m.fail("the next entry of the completion queue is %v (%v), want %v", e, ok, want)
					}
					waiting[k]--
				}
			})
		}
		if lost == 0 {
			fail("no entry was lost")
		}
		r.both(func(m *machine) {
			k := m.thread.ID().Node
			if n := len(queue[k].take()); n != waiting[k] {
				m.fail("%d entries are left in the completion queue, want %d", n, waiting[k])
			}
		})
		r.t.Logf("%d entries lost at node 0", lost)
	}
}

// A completion queue of both work queues of several VIs is resized during their
// traffic. No entry is lost, duplicated or out of order in its queue, and
// nothing is written to an old ring.
func TestCompletionQueueResize(t *testing.T) {
	takesSeconds(t)
	mustPlay(t, config{}, queueResize((unit.Sizes{Normal: 5, Long: 500}).Pick()))
}

const (
	resizePairs  = 3
	resizeRounds = 2
)

// resizing is pairs of VIs whose completion queues are resized.
type resizing struct {
	*rig
	queue   [2]*completionQueue
	all     [resizePairs][2]*talk
	resized [2]int
}

// complete requires that the descriptor of the n-th of all entries of a work
// queue is complete: an entry follows the Status, in the order of its queue.
func (x *resizing) complete(m *machine, e completionEntry, n, all int) {
	for i := range x.all {
		v := x.all[i][m.thread.ID().Node].from
		if v.index != e.vi {
			continue
		}
		posted := v.receive.posted
		if !e.receive {
			posted = v.send.posted
		}
		if p := posted[len(posted)-all+n-1]; !p.done() {
			m.fail("entry %d of %v is there, and its descriptor is not complete", n, e)
		}
	}
}

// say posts messages on all VIs of a node and takes their entries, from a queue
// that is resized meanwhile.
func (x *resizing) say(m *machine) {
	n := m.thread.ID().Node
	came, want := map[completionEntry]int{}, map[completionEntry]int{}
	for i := range x.all {
		out := x.all[i][n]
		out.sayAll(resizeRounds)
		want[completionEntry{out.from.index, false}] = resizeRounds * len(everyOperation)
		want[completionEntry{out.from.index, true}] = resizeRounds
	}
	total := resizePairs * resizeRounds * (len(everyOperation) + 1)
	for begin := m.thread.Now(); total > 0; m.sleep(host.Time(m.random.Int64N(int64(60 * host.Microsecond)))) {
		var entries []completionEntry
		if m.random.IntN(3) == 0 {
			// All possible entries fit into the smallest ring.
			entries = x.queue[n].resize(uint32(5 + m.random.IntN(6)))
			x.resized[n]++
		}
		for _, e := range append(entries, x.queue[n].take()...) {
			came[e]++
			total--
			if came[e] > want[e] {
				m.fail("%d entries of %v, want %d", came[e], e, want[e])
			}
			x.complete(m, e, came[e], want[e])
		}
		if m.thread.Now() > begin+patience {
			m.fail("%d entries have not come after %v: %v of %v", total, patience, came, want)
		}
	}
}

func queueResize(most uint64) func(r *rig) {
	return func(r *rig) {
		x := &resizing{rig: r}
		r.both(func(m *machine) { x.queue[m.thread.ID().Node] = m.createQueue(uint32(m.thread.ID().Node*63), 6) })
		r.both((*machine).lossy)
		for i := range x.all {
			x.all[i] = r.talkers([2]uint8{uint8(9 + i), uint8(19 + i)}, uint16(55+i), reliableLevels[i%2], limits{16, 7, 20}, [2]uint8{1, 64})
			r.connect(x.all[i][0].from, x.all[i][1].from)
		}
		for range most {
			r.both(func(m *machine) {
				for i := range x.all {
					x.all[i][1-m.thread.ID().Node].ready(resizeRounds)
				}
			})
			r.both(x.say)
			r.settle()
			for i := range x.all {
				x.all[i][0].heard()
				x.all[i][1].heard()
			}
			r.verify()
		}
		r.t.Logf("resized %v times", x.resized)
		if x.resized[0] == 0 || x.resized[1] == 0 {
			fail("the completion queues were resized %v times", x.resized)
		}
		// A destroyed queue reports the number of entries in its last ring. Its
		// VIs have no queue.
		r.both(func(m *machine) {
			q := x.queue[m.thread.ID().Node]
			if n := q.destroy(); n != q.ring.consumed {
				m.fail("%d entries were written to the last ring, and %d taken from it", n, q.ring.consumed)
			}
		})
	}
}
