// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// Messages have the most segments a descriptor can have, and lose frames in the
// middle. The retransmission must resume at the right byte of the right
// segment.
func TestTransportManySegments(t *testing.T) {
	const n = 40000
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		client := func(e *Env) error {
			p, to := must2(e.join(reliableRights(level)))
			d := must(p.Wide(vipl.MaxSegments))
			for i, kind := range transferKinds {
				segments, offsets := p.pieces(n, vipl.MaxSegments, i)
				rest, image := Pattern(n, i), make([]byte, bufferBytes)
				for k, s := range segments {
					rest = rest[copy(image[offsets[k]:][:s.Length], rest):]
				}
				clear(p.Mem.Bytes())
				switch kind.operation {
				case layout.StatusOperationRDMARead:
					check(d.SetRDMARead(to.Address+5, to.Handle, segments...))
				case layout.StatusOperationRDMAWrite:
					copy(p.Mem.Bytes(), image)
					check(d.SetRDMAWrite(to.Address+5, to.Handle, segments...))
				default:
					copy(p.Mem.Bytes(), image)
					check(d.SetSend(segments...))
				}
				if kind.immediate {
					d.AttachImmediate(n)
				}
				check(p.Meet(1))
				check(p.VI.PostSend(p.T, d))
				p.Sent(kind.name, d, kind.well(n))
				check(p.memory(kind.name, image))
				check(p.Meet(1))
			}
			p.ended("all")
			return p.Settled(1)
		}
		server := func(e *Env) error {
			p, _ := must2(e.join(reliableRights(level)))
			d := must(p.Wide(vipl.MaxSegments))
			for i, kind := range transferKinds {
				clear(p.Mem.Bytes())
				payload, image := Pattern(n, i), make([]byte, bufferBytes)
				if kind.operation == layout.StatusOperationSend {
					segments, offsets := p.pieces(n, vipl.MaxSegments, i+3)
					for k, s := range segments {
						payload = payload[copy(image[offsets[k]:][:s.Length], payload):]
					}
					check(d.SetReceive(segments...))
				} else {
					copy(image[5:], payload)
					check(d.SetReceive())
				}
				if kind.reads() {
					copy(p.Mem.Bytes(), image)
				}
				if kind.receives() {
					check(p.VI.PostRecv(p.T, d))
				}
				check(p.Meet(0))
				if kind.receives() {
					p.Take(kind.name, d, kind.arrived(n))
				}
				if !kind.reads() {
					check(p.Mem.Poll(p.T, n+4, 1, host.Second, func() bool {
						return kind.operation == layout.StatusOperationSend || p.Mem.Bytes()[n+4] == image[n+4]
					}))
				}
				check(p.Meet(0))
				check(p.memory(kind.name, image))
			}
			p.ended("all")
			return p.Settled(0)
		}
		r := cardRun{faults: "drop=type 0x88b5 every 7", transport: driver.Transport{RetryTimeout: cornerTimeout}}.must(t, client, server)
		require.NotZero(t, r.done(0, layout.WireFaultDrop))
		require.NotZero(t, r.done(1, layout.WireFaultDrop))
	})
}

// Both sides read at once, with exactly as many outstanding reads as allowed.
func TestTransportReadsToTheLimit(t *testing.T) {
	const n, reads = 8000, 9
	for _, limit := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
				var index [2]int
				side := func(e *Env) error {
					p, to := must2(e.join(reliableRights(level)))
					index[e.H.Node()] = p.VI.Index()
					source := Pattern(bufferBytes, 7)
					check(p.until(cornerBegin))
					// The peer reads one half of the buffer; own reads fill the
					// other.
					copy(p.Mem.Bytes()[:bufferBytes/2], source)
					check(p.Meet(p.other()))
					for range 2 {
						var posted []*vipl.Descriptor
						for i := range reads {
							posted = append(posted, must(p.transferOf(transferKinds[3], bufferBytes/2+i*(n/2), n/2, to, 1000*i)))
						}
						for i, d := range posted {
							what := fmt.Sprintf("read %d", i)
							p.Sent(what, d, didRead(n/2))
							e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[bufferBytes/2+i*(n/2):][:n/2], source[1000*i:][:n/2]))
						}
						clear(p.Mem.Bytes()[bufferBytes/2:])
					}
					p.ended("all")
					check(e.counted("no request was dropped", map[layout.Counter]uint32{layout.CounterReceiveReadLimit: 0, layout.CounterRetransmitFrame: 0}))
					return p.Settled(p.other())
				}
				r := cardRun{transport: driver.Transport{ReadLimit: limit}, recorded: true}.must(t, side, side)
				for node := range 2 {
					unanswered, most := 0, 0
					all := append(r.sentBy(node, index[node], layout.FrameOperationRDMAReadRequest), r.sentBy(1-node, index[1-node], layout.FrameOperationRDMAReadResponse)...)
					slices.SortStableFunc(all, func(a, b wireFrame) int { return int(a.at - b.at) })
					for _, f := range all {
						h, _ := f.via()
						switch {
						case f.from == node:
							unanswered++
						case h.Flags()&layout.ViaHeaderFlagsLastMask != 0:
							unanswered--
						}
						most = max(most, unanswered)
					}
					require.Equal(t, limit, most, "node %d: reads that were unanswered at a time", node)
					require.Zero(t, unanswered)
				}
			})
		})
	}
}

// Acknowledgements of read responses are lost, so the responder has no slot for
// one more request. It drops and counts the request, which the reader
// retransmits.
func TestTransportOneReadTooMany(t *testing.T) {
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		const reads = 12
		client := func(e *Env) error {
			p, to := must2(e.join(reliableRights(level)))
			check(p.until(cornerBegin))
			var posted []*vipl.Descriptor
			for i := range reads {
				posted = append(posted, must(p.transferOf(transferKinds[3], 200*i, 200, to, 10*i)))
			}
			for i, d := range posted {
				what := fmt.Sprintf("read %d", i)
				p.Sent(what, d, didRead(200))
				e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[200*i:][:200], Pattern(bufferBytes, 7)[10*i:][:200]))
			}
			check(p.responsesAcknowledged())
			p.ended("all")
			return p.Settled(1)
		}
		server := func(e *Env) error {
			p, _ := must2(e.join(reliableRights(level)))
			copy(p.Mem.Bytes(), Pattern(bufferBytes, 7))
			check(p.responsesAcknowledged())
			dropped, err := e.NIC.Counter(e.T, layout.CounterReceiveReadLimit)
			e.Is("counter", err, nil)
			e.That("a request was dropped", dropped > 0)
			p.ended("all")
			check(e.counted("responder", map[layout.Counter]uint32{layout.CounterReadResponse: reads}))
			return p.Settled(0)
		}
		r := cardRun{faults: "0>1:drop=operation acknowledge 20ms..20.2ms", transport: cornerTransport}.must(t, client, server)
		require.NotZero(t, r.done(0, layout.WireFaultDrop))
	})
}

// A completion queue is full during retransmissions. The card drops entries and
// reports them, the connection goes on, and reaping frees slots for later
// entries.
func TestTransportCompletionQueueFull(t *testing.T) {
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		const messages = 24
		side := func(e *Env) error {
			c := must(e.NIC.CreateCQ(e.T, 4))
			a := reliableRights(level)
			if e.H.Node() == 0 {
				a.SendCQ = c
			} else {
				a.RecvCQ = c
			}
			p, _ := must2(e.join(a))
			for round := range 2 {
				var posted []*vipl.Descriptor
				check(p.Meet(p.other()))
				if e.H.Node() == 1 {
					for range messages {
						posted = append(posted, must(p.Receive(0, 2000)))
					}
				}
				check(p.Meet(p.other()))
				if e.H.Node() == 0 {
					for range messages {
						posted = append(posted, must(p.Send(0, 2000)))
					}
				}
				check(p.T.Sleep(10 * host.Millisecond))
				receive, what := e.H.Node() == 1, fmt.Sprintf("node %d, round %d", e.H.Node(), round)
				for range c.Entries() {
					e.Entry(what, c, p.VI, receive)
				}
				e.nothing(what+": the rest was lost", c)
				for _, d := range posted {
					if receive {
						p.taken(what, true, d, Received(2000))
					} else {
						p.taken(what, false, d, DidSend(2000))
					}
				}
				for range messages - c.Entries() {
					p.Asynchronous(what+": an entry was lost", layout.AsyncErrorCompletionQueueOverrun, p.VI)
				}
			}
			p.InState("in the end", vipl.Connected)
			e.Is("nothing asynchronous", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
			return p.Settled(p.other())
		}
		r := cardRun{faults: "drop=type 0x88b5 every 6", transport: driver.Transport{RetryTimeout: cornerTimeout}}.must(t, side, side)
		require.NotZero(t, r.done(0, layout.WireFaultDrop))
		require.NotZero(t, r.done(1, layout.WireFaultDrop))
	})
}

// Both sides write back the bytes of their reads at once, over a lossy link.
// The fence makes each write wait for its read.
func TestTransportFencesOnBothSides(t *testing.T) {
	const n = 12000
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		side := func(e *Env) error {
			p, to := must2(e.join(reliableRights(level)))
			for round := range 4 {
				own := Pattern(n, 10*round+e.H.Node())
				clear(p.Mem.Bytes())
				copy(p.Mem.Bytes(), own)
				d := must(p.Receive(75000, 8))
				check(p.Meet(p.other()))
				read, write, plain := p.Next(), p.Next(), p.Next()
				read.SetRDMARead(to.Address, to.Handle, p.Mem.Segment(n, n))
				write.SetRDMAWrite(to.Address+2*n, to.Handle, p.Mem.Segment(n, n))
				write.SetFence()
				check(plain.SetSend(p.Mem.Segment(2*n-8, 8)))
				for _, d := range []*vipl.Descriptor{read, write, plain} {
					check(p.VI.PostSend(p.T, d))
				}
				what := fmt.Sprintf("node %d, round %d", e.H.Node(), round)
				p.Sent(what+": read", read, didRead(n))
				p.Sent(what+": write", write, didWrite(n))
				p.Sent(what+": send", plain, DidSend(8))
				p.Take(what, d, Received(8))
				e.That(what+": what was read", bytes.Equal(p.Mem.Bytes()[n:][:n], Pattern(n, 10*round+p.other())))
				e.That(what+": what the peer read was written back", bytes.Equal(p.Mem.Bytes()[2*n:][:n], own))
				e.That(what+": and its end sent", bytes.Equal(p.Mem.Bytes()[75000:][:8], own[n-8:]))
				check(p.Meet(p.other()))
			}
			p.ended("all")
			return p.Settled(p.other())
		}
		r := cardRun{faults: "drop=5% type 0x88b5,reorder=3% type 0x88b5", transport: driver.Transport{RetryTimeout: cornerTimeout}}.must(t, side, side)
		require.NotZero(t, r.done(0, layout.WireFaultDrop))
		require.NotZero(t, r.done(1, layout.WireFaultDrop))
	})
}

// The program disconnects during retransmissions, at several instants. All
// descriptors are flushed in order, and no frame enters the next connection.
func TestTransportDisconnectWhileRetransmitting(t *testing.T) {
	const n, messages, every = 3000, 5, 10 * host.Millisecond
	instants := []host.Time{
		host.Microsecond, 30 * host.Microsecond, cornerTimeout / 2, cornerTimeout, cornerTimeout + 60*host.Microsecond,
		cornerTimeout + 100*host.Microsecond, 2*cornerTimeout + 90*host.Microsecond,
	}
	faults := ""
	for i := range instants {
		at := cornerBegin + host.Time(i)*every
		faults += fmt.Sprintf(",drop=type 0x88b5 %dus..%dus", at/host.Microsecond, (at+every/2)/host.Microsecond)
	}
	faults = "0>1:" + faults[1:]
	for _, kind := range transferKinds {
		t.Run(kind.name, func(t *testing.T) {
			atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
				client := func(e *Env) error {
					p, to := must2(e.join(reliableRights(level)))
					for i, after := range instants {
						at, what := cornerBegin+host.Time(i)*every, fmt.Sprintf("disconnect after %v", after)
						check(p.until(at + 10*host.Microsecond))
						copy(p.Mem.Bytes(), Pattern(bufferBytes, 5))
						waiting := must(p.Receive(70000, 8))
						var posted []*vipl.Descriptor
						for k := range messages {
							posted = append(posted, must(p.transferOf(kind, 100*k, n, to, 0)))
						}
						check(p.T.Sleep(after))
						e.Is(what, p.VI.Disconnect(p.T), nil)
						p.InState(what, vipl.Idle)
						p.flushedAll(what, p.VI.SendDone, kind.operation, posted)
						p.flushedAll(what, p.VI.RecvDone, layout.StatusOperationReceive, []*vipl.Descriptor{waiting})
						p.ended(what)
						check(p.memory(what, Pattern(bufferBytes, 5)))
						check(p.until(at + every/2 + 10*host.Microsecond))
						Step(p.Redial(1), "%s", what)
						copy(p.Mem.Bytes(), Pattern(n, i))
						d := must(p.Send(0, n))
						p.Sent(what+": of the next connection", d, DidSend(n))
						check(p.Meet(1))
					}
					return p.Settled(1)
				}
				server := func(e *Env) error {
					p, _ := must2(e.join(reliableRights(level)))
					for i, after := range instants {
						what := fmt.Sprintf("disconnect after %v", after)
						clear(p.Mem.Bytes())
						var posted []*vipl.Descriptor
						for range messages {
							posted = append(posted, must(p.Receive(0, n)))
						}
						p.broken(what, nil)
						p.flushedAll(what, p.VI.RecvDone, layout.StatusOperationReceive, posted)
						e.Is(what+": the server's", p.VI.Disconnect(p.T), nil)
						p.ended(what)
						check(p.memory(what+": nothing came", make([]byte, bufferBytes)))
						d := must(p.Receive(0, n))
						Step(p.Again(), "%s", what)
						p.Take(what+": of the next connection", d, Received(n))
						e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[:n], Pattern(n, i)))
						check(p.Meet(0))
					}
					return p.Settled(0)
				}
				r := cardRun{faults: faults, transport: cornerTransport}.must(t, client, server)
				require.Greater(t, r.done(0, layout.WireFaultDrop), uint64(len(instants)))
			})
		})
	}
}

// Memory is deregistered while a message from it is unacknowledged. Deregister
// does not wait, the card no longer accesses the memory, and the message fails
// because it cannot be retransmitted.
func TestTransportDeregisterUnacknowledged(t *testing.T) {
	const n = 3000
	for _, c := range []struct {
		name, faults string
		descriptor   bool // deregisters its memory instead of the buffer's
		received     bool // the peer has the message
		sent         outcome
		reported     []layout.AsyncError
	}{
		{"buffer", "0>1:drop=operation send 20ms..20.2ms", false, false, DidSend(0).failed(ProtectionError), nil},
		{"buffer, of a message that was received", "1>0:drop=operation acknowledge 20ms..20.2ms", false, true, DidSend(0).failed(ProtectionError), nil},
		{"descriptor", "0>1:drop=operation send 20ms..20.2ms", true, false, DidSend(0).failed(FlushedError), []layout.AsyncError{layout.AsyncErrorCompletionProtection}},
		{"descriptor, of a message that was received", "1>0:drop=operation acknowledge 20ms..20.2ms", true, true, DidSend(0).failed(FlushedError), []layout.AsyncError{layout.AsyncErrorCompletionProtection}},
	} {
		t.Run(c.name, func(t *testing.T) {
			atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
				client := func(e *Env) error {
					p, _ := must2(e.join(reliableRights(level)))
					copy(p.Mem.Bytes(), Pattern(bufferBytes, 5))
					old := must(p.NIC.RegisterBuffer(p.T, p.buf, vipl.MemAttributes{}))
					d, data := p.Next(), old.Segment(0, n)
					if c.descriptor {
						old = must(p.NIC.RegisterMem(p.T, p.descriptors.Address(), 4096, vipl.MemAttributes{}))
						d = must(old.Descriptor(2048, 1))
						data = p.Mem.Segment(0, n)
					}
					check(d.SetSend(data))
					check(p.until(cornerBegin + 10*host.Microsecond))
					check(p.VI.PostSend(p.T, d))
					behind := must(p.Send(0, n))
					check(p.T.Sleep(150 * host.Microsecond))
					begin := p.T.Now()
					e.Is("deregister", old.Deregister(p.T), nil)
					e.That(fmt.Sprintf("the deregistration took %v", p.T.Now()-begin), p.T.Now()-begin < 30*host.Microsecond)
					p.broken(c.name, c.reported)
					p.Sent(c.name, d, c.sent)
					p.Sent("behind it", behind, DidSend(0).failed(FlushedError))
					return p.retire(c.name, 1)
				}
				server := func(e *Env) error {
					p, _ := must2(e.join(reliableRights(level)))
					var posted []*vipl.Descriptor
					for range 3 {
						posted = append(posted, must(p.Receive(0, n)))
					}
					came := 0
					if c.received {
						came = 2
					}
					for _, d := range posted[:came] {
						p.Take(c.name, d, Received(n))
					}
					p.broken(c.name, nil)
					p.flushedAll(c.name, p.VI.RecvDone, layout.StatusOperationReceive, posted[came:])
					e.That("its bytes", bytes.Equal(p.Mem.Bytes()[:n], Pattern(n, 5)) == c.received)
					return p.retire(c.name, 0)
				}
				r := cardRun{faults: c.faults, transport: cornerTransport}.must(t, client, server)
				require.NotZero(t, r.done(0, layout.WireFaultDrop)+r.done(1, layout.WireFaultDrop))
			})
		})
	}
}
