// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// The tests start their traffic at cornerBegin, where the fault windows open.
const (
	cornerBegin = 20 * host.Millisecond
	// The retry timeout is 2^13 clocks. cornerRetries timeouts may pass without
	// progress.
	cornerTimeout = busClock << 13
	cornerRetries = 3
)

var cornerTransport = driver.Transport{RetryTimeout: cornerTimeout, RetryLimit: cornerRetries}

// until waits until an instant.
func (p *Peer) until(at host.Time) error {
	if p.T.Now() > at {
		return fmt.Errorf("it is %v already, the start is at %v", p.T.Now(), at)
	}
	return p.T.Sleep(at - p.T.Now())
}

// join connects the programs of the two nodes, with all rights, and exchanges
// the addresses of their memory.
func (e *Env) join(a vipl.VIAttributes) (*Peer, Remote, error) {
	connect := e.Serve
	if e.H.Node() == 0 {
		connect = func(a vipl.VIAttributes) (*Peer, error) { return e.Dial(1, a) }
	}
	p := must(connect(a))
	open := must(p.openMemory())
	check(p.tellRegion(p.other(), open))
	to, err := p.Hear()
	return p, to, err
}

// transferOf posts one message of a kind between the own buffer at `own` and
// the peer's at `remote`.
func (p *Peer) transferOf(k transferKind, own, n int, to Remote, remote int) (*vipl.Descriptor, error) {
	d, data := p.Next(), p.Mem.Segment(own, n)
	switch k.operation {
	case layout.StatusOperationRDMARead:
		d.SetRDMARead(to.Address+uint64(remote), to.Handle, data)
	case layout.StatusOperationRDMAWrite:
		d.SetRDMAWrite(to.Address+uint64(remote), to.Handle, data)
	default:
		check(d.SetSend(data))
	}
	if k.immediate {
		d.AttachImmediate(uint32(n))
	}
	return d, p.VI.PostSend(p.T, d)
}

func (k transferKind) well(n int) outcome { return outcome{operation: k.operation, length: n} }

// arrived is the status of a message's receive descriptor.
func (k transferKind) arrived(n int) outcome {
	if k.immediate {
		return outcome{operation: layout.StatusOperationRemoteRDMAWrite, length: n}.with(uint32(n))
	}
	return Received(n)
}

// carrier is the operation of the frames that the initiator sends.
func (k transferKind) carrier() layout.FrameOperation {
	switch k.operation {
	case layout.StatusOperationRDMARead:
		return layout.FrameOperationRDMAReadRequest
	case layout.StatusOperationRDMAWrite:
		return layout.FrameOperationRDMAWrite
	}
	return layout.FrameOperationSend
}

// flushedAll checks that the given descriptors are flushed, in order, and that
// none is left.
func (p *Peer) flushedAll(what string, take func(*host.Thread) (*vipl.Descriptor, error), operation layout.StatusOperation, list []*vipl.Descriptor) {
	for i, want := range list {
		d, err := take(p.T)
		p.Completed(fmt.Sprintf("%s, %d", what, i), d, want, err, outcome{operation: operation, bits: FlushedError})
	}
	d, err := take(p.T)
	p.Is(what+", at the end", err, vipl.ErrDescriptor)
	p.That(what+", at the end: nothing", d == nil)
}

// The link is cut permanently. The sender retransmits after each of RetryLimit
// timeouts; after one more, the oldest message fails.
func TestTransportRetryLimit(t *testing.T) {
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		for _, kind := range transferKinds {
			for _, limit := range []int{cornerRetries, driver.NoRetries} {
				if limit == driver.NoRetries && kind.operation != layout.StatusOperationSend {
					continue
				}
				t.Run(fmt.Sprintf("%s, RetryLimit %d", kind.name, limit), func(t *testing.T) { transportRetryLimit(t, level, kind, limit) })
			}
		}
	})
}

func transportRetryLimit(t *testing.T, level vipl.ReliabilityLevel, kind transferKind, limit int) {
	const messages, n = 3, 1000
	retries := max(limit, 0)
	var index int
	var brokenAt host.Time
	client := func(e *Env) error {
		p, to := must2(e.join(reliableRights(level)))
		index = p.VI.Index()
		waiting := must(p.Receive(40000, 8))
		check(p.until(cornerBegin))
		var posted []*vipl.Descriptor
		for i := range messages {
			posted = append(posted, must(p.transferOf(kind, 2000*i, n, to, 2000*i)))
		}
		p.broken("the link is cut", nil)
		brokenAt = p.T.Now()
		p.Sent("the oldest", posted[0], kind.well(0).failed(transportError))
		p.flushedAll("behind it", p.VI.SendDone, kind.operation, posted[1:])
		p.Take("on the other queue", waiting, Received(0).failed(FlushedError))
		check(e.counted("node 0", map[layout.Counter]uint32{
			layout.CounterRetryTimeout: uint32(retries + 1), layout.CounterRetryExhausted: 1, layout.CounterRetransmitFrame: uint32(messages * retries), layout.CounterRewind: 0,
		}))
		return p.retire("the link is cut", 1)
	}
	server := func(e *Env) error {
		p, _ := must2(e.join(reliableRights(level)))
		waiting := must(p.Receive(0, n))
		check(p.Meet(0))
		// The cut link hides the failure from this side.
		p.InState("the link is cut", vipl.Connected)
		e.Is("disconnect", p.VI.Disconnect(p.T), nil)
		p.flushedAll("disconnected", p.VI.RecvDone, layout.StatusOperationReceive, []*vipl.Descriptor{waiting})
		p.ended("disconnected")
		return nil
	}
	transport := cornerTransport
	transport.RetryLimit = limit
	r := cardRun{faults: "cut=20ms..", transport: transport, recorded: true}.must(t, client, server)

	// Each round of transmissions ends with a timeout that counts from its last
	// frame. The ledger learns of a frame within 64 clocks. It checks one VI
	// each clock, and finishes a walk before it starts another.
	const slack, walk = 64 * busClock, 256 * busClock
	var rounds [][]host.Time
	for _, e := range r.traced(0, index, layout.TraceEventFrameBuilt) {
		at := host.Time(e.TimePs)
		if at < cornerBegin {
			continue
		}
		if k := len(rounds); k == 0 || at-rounds[k-1][len(rounds[k-1])-1] > cornerTimeout/2 {
			rounds = append(rounds, nil)
		}
		rounds[len(rounds)-1] = append(rounds[len(rounds)-1], at)
	}
	require.Len(t, rounds, retries+1, "how often everything was sent")
	var ends []host.Time
	for _, e := range r.traced(0, index, layout.TraceEventRewound) {
		ends = append(ends, host.Time(e.TimePs))
	}
	require.Len(t, ends, retries, "timeouts behind which everything was retransmitted")
	written := host.Time(slack) // of the status write
	if kind.reads() {
		// The flush completes a read, because a read response may still be in
		// flight to its memory.
		written = 50 * host.Microsecond
		ends = append(ends, brokenAt)
	} else {
		ends = append(ends, host.Time(r.traced(0, index, layout.TraceEventCompletionWritten)[0].TimePs))
	}
	for i, end := range ends {
		require.Len(t, rounds[i], messages, "frames sent, round %d", i)
		late := end - rounds[i][messages-1] - cornerTimeout
		limit := host.Time(slack + 2*walk)
		if i == len(ends)-1 {
			limit += written
		}
		require.True(t, -slack <= late && late <= limit, "timeout %d ends %v behind the last frame sent, want %v and up to %v more", i, late+cornerTimeout, cornerTimeout, limit)
	}
	t.Logf("%d frames each at %v; TransportError %v behind the first", messages, rounds, ends[len(ends)-1]-rounds[0][0])
}

// Both sides fail at the same moment on each other's operation. Each reports
// its error, and ConnectionLost once.
func TestTransportBothSidesFail(t *testing.T) {
	type failure struct {
		name     string
		post     func(p *Peer, to Remote) (*vipl.Descriptor, error)
		sent     []outcome // the possible outcomes
		reported []layout.AsyncError
	}
	for _, c := range []failure{
		{"no receive posted", func(p *Peer, _ Remote) (*vipl.Descriptor, error) { return p.Send(0, 3000) },
			[]outcome{DidSend(0).failed(descriptorError), DidSend(0).failed(FlushedError)}, []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty}},
		{"write beyond the region", func(p *Peer, to Remote) (*vipl.Descriptor, error) { return p.Write(0, 3000, to, bufferBytes-2999) },
			[]outcome{didWrite(0).failed(rdmaError), didWrite(0).failed(FlushedError)}, []layout.AsyncError{layout.AsyncErrorRDMAWriteProtection}},
		{"read beyond the region", func(p *Peer, to Remote) (*vipl.Descriptor, error) {
			return p.transferOf(transferKinds[3], 0, 3000, to, bufferBytes-2999)
		}, []outcome{didRead(0).failed(rdmaError), didRead(0).failed(FlushedError)}, []layout.AsyncError{layout.AsyncErrorRDMAReadProtection}},
		{"own error", func(p *Peer, _ Remote) (*vipl.Descriptor, error) {
			d := p.Next()
			check(d.SetSend(p.Mem.Segment(0, 3000)))
			Raw(d).SetLength(3001)
			return d, p.VI.PostSend(p.T, d)
		}, []outcome{DidSend(0).failed(lengthError)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
				side := func(e *Env) error {
					p, to := must2(e.join(reliableRights(level)))
					check(p.until(cornerBegin))
					d := must(c.post(p, to))
					behind := must(p.Send(0, 4))
					p.broken(c.name, c.reported)
					got, err := p.VI.SendWait(p.T, host.Second)
					want := c.sent[0]
					for _, o := range c.sent { // the peer's NAK and the own card's flush race
						if uint32(d.Status())&o.bits != 0 {
							want = o
						}
					}
					p.Completed(c.name, got, d, err, want)
					p.flushedAll("behind it", p.VI.SendDone, layout.StatusOperationSend, []*vipl.Descriptor{behind})
					return p.retire(c.name, p.other())
				}
				cardRun{transport: cornerTransport}.must(t, side, side)
			})
		})
	}
}

// The acknowledgements of a message are lost. The sender retransmits it and
// completes it; the receiver delivers it once.
func TestTransportLostAcknowledgement(t *testing.T) {
	for _, kind := range transferKinds[:3] {
		for _, n := range []int{0, 100, 6000} {
			t.Run(fmt.Sprintf("%s, %d bytes", kind.name, n), func(t *testing.T) {
				atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) { lostAcknowledgement(t, level, kind, n) })
			})
		}
	}
}

func lostAcknowledgement(t *testing.T, level vipl.ReliabilityLevel, kind transferKind, n int) {
	frames := max(1, (n+layout.MaxPayload-1)/layout.MaxPayload)
	var index [2]int
	client := func(e *Env) error {
		p, to := must2(e.join(reliableRights(level)))
		index[0] = p.VI.Index()
		for round := range 2 {
			copy(p.Mem.Bytes(), Pattern(n, round))
			check(p.Meet(1))
			if round == 0 {
				check(p.until(cornerBegin))
			}
			begin := p.T.Now()
			d := must(p.transferOf(kind, 0, n, to, 0))
			p.Sent(fmt.Sprintf("message %d", round), d, kind.well(n))
			took := p.T.Now() - begin
			e.That(fmt.Sprintf("message %d took %v", round, took), took > cornerTimeout == (round == 0))
			check(p.Meet(1))
		}
		check(e.counted("sender", map[layout.Counter]uint32{
			layout.CounterRetryTimeout: 1, layout.CounterRetransmitFrame: uint32(min(frames, 8)), layout.CounterRewind: 0,
		}))
		p.ended("in the end")
		return p.Settled(1)
	}
	server := func(e *Env) error {
		p, _ := must2(e.join(reliableRights(level)))
		index[1] = p.VI.Index()
		var posted [2]*vipl.Descriptor
		if kind.receives() {
			for i := range posted {
				d := p.Next()
				var segments []vipl.Segment
				if !kind.immediate {
					segments = append(segments, p.Mem.Segment(0, n))
				}
				check(d.SetReceive(segments...))
				check(p.VI.PostRecv(p.T, d))
				posted[i] = d
			}
		}
		for round := range 2 {
			what := fmt.Sprintf("message %d", round)
			check(p.Meet(0))
			want := make([]byte, bufferBytes)
			copy(want, Pattern(n, round))
			if kind.receives() {
				p.Take(what, posted[round], kind.arrived(n))
			}
			if n > 0 {
				check(p.Mem.Poll(p.T, n-1, 1, host.Second, func() bool { return p.Mem.Bytes()[n-1] == want[n-1] }))
			}
			check(p.memory(what, want))
			// A retransmission must not be delivered twice.
			clear(p.Mem.Bytes())
			check(p.Meet(0))
			check(p.memory(what+", when it was retransmitted", make([]byte, bufferBytes)))
			if kind.receives() && round == 0 {
				e.Is(what+": once", errOf(p.VI.RecvDone(p.T)), vipl.ErrNotDone)
			}
		}
		check(e.counted("receiver", map[layout.Counter]uint32{layout.CounterReceiveOldSequence: uint32(min(frames, 8)), layout.CounterReceiveOutOfOrder: 0}))
		p.ended("in the end")
		return p.Settled(0)
	}
	r := cardRun{faults: "1>0:drop=operation acknowledge 20ms..20.2ms", transport: cornerTransport, recorded: true}.must(t, client, server)
	lost := 0
	for _, f := range r.sentBy(1, index[1], layout.FrameOperationAcknowledge) {
		if f.lost() {
			lost++
		}
	}
	require.NotZero(t, lost)
	require.Len(t, r.sentBy(0, index[0], kind.carrier()), 2*frames+min(frames, 8))
}

// The request of a read arrives twice: at once, and again long after the read
// completes. The responder executes it once.
func TestTransportReadRequestTwice(t *testing.T) {
	for _, c := range []struct {
		name, faults string
		again        bool // the reader retransmits it
	}{
		{"at once", "0>1:duplicate=operation rdmareadrequest frame 1", false},
		{"later", "0>1:reorder=operation rdmareadrequest frame 1 behind 4000 within 2ms", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
				const n = 5000
				client := func(e *Env) error {
					p, to := must2(e.join(reliableRights(level)))
					check(p.until(cornerBegin))
					for round := range 2 {
						check(p.Meet(1))
						d := must(p.transferOf(transferKinds[3], 100, n, to, 300))
						what := fmt.Sprintf("read %d", round)
						p.Sent(what, d, didRead(n))
						want := make([]byte, bufferBytes)
						copy(want[100:], Pattern(bufferBytes, round)[300:][:n])
						check(p.memory(what, want))
						clear(p.Mem.Bytes())
						check(p.Meet(1))
						// The copy arrives by now.
						check(p.T.Sleep(3 * host.Millisecond))
						check(p.memory(what+", later", make([]byte, bufferBytes)))
					}
					p.ended("in the end")
					p.InState("in the end", vipl.Connected)
					return p.Settled(1)
				}
				server := func(e *Env) error {
					p, _ := must2(e.join(reliableRights(level)))
					for round := range 2 {
						copy(p.Mem.Bytes(), Pattern(bufferBytes, round))
						check(p.Meet(0))
						check(p.Meet(0))
						copy(p.Mem.Bytes(), Pattern(bufferBytes, 99))
						check(p.T.Sleep(3 * host.Millisecond))
					}
					check(e.counted("responder", map[layout.Counter]uint32{
						layout.CounterReceiveOldSequence: 1, layout.CounterReadResponse: 2, layout.CounterRetransmitFrame: 0,
					}))
					p.ended("in the end")
					return p.Settled(0)
				}
				r := cardRun{faults: c.faults, transport: cornerTransport}.must(t, client, server)
				require.EqualValues(t, 1, r.done(0, layout.WireFaultDuplicate)+r.done(0, layout.WireFaultReorder))
			})
		})
	}
}

// Frames of a read response are lost. The responder resumes at the missing
// frame, and the read completes once.
func TestTransportLostReadResponse(t *testing.T) {
	const n = 2*layout.MaxPayload + 100
	for _, c := range []struct{ name, faults string }{
		{"its first frame", "1>0:drop=operation rdmareadresponse frame 1"},
		{"the middle one", "1>0:drop=operation rdmareadresponse frame 2"},
		{"the last", "1>0:drop=operation rdmareadresponse frame 3"},
		{"the whole answer, and the acknowledgement of its request", "1>0:drop=type 0x88b5 20ms..20.2ms"},
		{"the whole answer, and the whole second one", "1>0:drop=type 0x88b5 20ms..20.4ms"},
		{"the reader's acknowledgements", "0>1:drop=operation acknowledge 20ms..20.2ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
				client := func(e *Env) error {
					p, to := must2(e.join(reliableRights(level)))
					check(p.until(cornerBegin))
					source := Pattern(bufferBytes, 3)
					for round := range 2 {
						d := must(p.transferOf(transferKinds[3], 100, n, to, 300+round))
						what := fmt.Sprintf("read %d", round)
						p.Sent(what, d, didRead(n))
						want := make([]byte, bufferBytes)
						copy(want[100:], source[300+round:][:n])
						check(p.memory(what, want))
						clear(p.Mem.Bytes())
						check(p.T.Sleep(2 * host.Millisecond))
						check(p.memory(what+", later", make([]byte, bufferBytes)))
					}
					check(p.responsesAcknowledged())
					p.ended("in the end")
					p.InState("in the end", vipl.Connected)
					return p.Settled(1)
				}
				server := func(e *Env) error {
					p, _ := must2(e.join(reliableRights(level)))
					copy(p.Mem.Bytes(), Pattern(bufferBytes, 3))
					check(p.responsesAcknowledged())
					again, err := e.NIC.Counter(e.T, layout.CounterRetransmitFrame)
					e.Is("counter", err, nil)
					e.That("the response was retransmitted", again > 0)
					p.ended("in the end")
					check(e.counted("responder", map[layout.Counter]uint32{layout.CounterReadResponse: 2, layout.CounterRetryExhausted: 0}))
					return p.Settled(0)
				}
				r := cardRun{faults: c.faults, transport: cornerTransport}.must(t, client, server)
				require.NotZero(t, r.done(0, layout.WireFaultDrop)+r.done(1, layout.WireFaultDrop))
			})
		})
	}
}

// responsesAcknowledged waits, on both sides, until a retransmission replaces a
// lost acknowledgement of read responses.
func (p *Peer) responsesAcknowledged() error {
	check(p.Meet(p.other()))
	return p.T.Sleep(4 * cornerTimeout)
}

// A message of no bytes has its frame, its number and its completion, whatever
// frames the link loses.
func TestTransportNothing(t *testing.T) {
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		const rounds = 12
		nowhere := vipl.Segment{Address: 0xdead0000dead0000, Handle: 0x12345}
		client := func(e *Env) error {
			p, to := must2(e.join(reliableRights(level)))
			check(p.Meet(1))
			var posted []*vipl.Descriptor
			var want []outcome
			add := func(d *vipl.Descriptor, o outcome) error {
				posted, want = append(posted, d), append(want, o)
				return p.VI.PostSend(p.T, d)
			}
			for i := range rounds {
				none, empty, write, immediate, read := p.Next(), p.Next(), p.Next(), p.Next(), p.Next()
				check(none.SetSend())
				check(empty.SetSend(nowhere))
				empty.AttachImmediate(uint32(i))
				write.SetRDMAWrite(to.Address, to.Handle, nowhere)
				immediate.SetRDMAWrite(to.Address, to.Handle, nowhere)
				immediate.AttachImmediate(uint32(i))
				read.SetRDMARead(12345, 0, nowhere)
				for _, m := range []struct {
					d *vipl.Descriptor
					o outcome
				}{{none, DidSend(0)}, {empty, DidSend(0)}, {write, didWrite(0)}, {immediate, didWrite(0)}, {read, didRead(0)}} {
					check(add(m.d, m.o))
				}
			}
			for i, d := range posted {
				p.Sent(fmt.Sprintf("message %d", i), d, want[i])
			}
			check(p.responsesAcknowledged())
			p.ended("all")
			return p.Settled(1)
		}
		server := func(e *Env) error {
			p, _ := must2(e.join(reliableRights(level)))
			var posted []*vipl.Descriptor
			for range 3 * rounds {
				d := p.Next()
				check(d.SetReceive())
				check(p.VI.PostRecv(p.T, d))
				posted = append(posted, d)
			}
			check(p.Meet(0))
			for i, d := range posted {
				o := Received(0)
				switch i % 3 {
				case 1:
					o = o.with(uint32(i / 3))
				case 2:
					o = outcome{operation: layout.StatusOperationRemoteRDMAWrite}.with(uint32(i / 3))
				}
				p.Take(fmt.Sprintf("receive %d", i), d, o)
			}
			check(p.responsesAcknowledged())
			p.ended("all")
			check(e.counted("responder", map[layout.Counter]uint32{layout.CounterReadResponse: rounds}))
			return p.Settled(0)
		}
		r := cardRun{faults: "drop=type 0x88b5 every 5", transport: driver.Transport{RetryTimeout: cornerTimeout}}.must(t, client, server)
		require.NotZero(t, r.done(0, layout.WireFaultDrop))
		require.NotZero(t, r.done(1, layout.WireFaultDrop))
	})
}
