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

// What happens in these tests happens from cornerBegin on: windows of faults begin then.
const (
	cornerBegin = 20 * host.Millisecond
	// A retry timeout of 2^13 clocks, and how often it may come without progress.
	cornerTimeout = busClock << 13
	cornerRetries = 3
)

var cornerTransport = driver.Transport{RetryTimeout: cornerTimeout, RetryLimit: cornerRetries}

// until lets time pass up to an instant.
func (p *Peer) until(at host.Time) error {
	if p.T.Now() > at {
		return fmt.Errorf("it is %v already, want to begin at %v", p.T.Now(), at)
	}
	return p.T.Sleep(at - p.T.Now())
}

// join connects the two nodes' programs, with all rights, and tells each where the
// other's memory is.
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

// transferOf posts one message of a kind, from or to the own buffer at `own`, to or
// from the peer's at `remote`.
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

// arrived is what the receive descriptor of a message says.
func (k transferKind) arrived(n int) outcome {
	if k.immediate {
		return outcome{operation: layout.StatusOperationRemoteRDMAWrite, length: n}.with(uint32(n))
	}
	return Received(n)
}

// carriers are the frames that the initiator of an operation sends.
func (k transferKind) carrier() layout.FrameOperation {
	switch k.operation {
	case layout.StatusOperationRDMARead:
		return layout.FrameOperationRDMAReadRequest
	case layout.StatusOperationRDMAWrite:
		return layout.FrameOperationRDMAWrite
	}
	return layout.FrameOperationSend
}

// flushedAll checks that descriptors come back flushed, in order, with nothing behind
// them.
func (p *Peer) flushedAll(what string, take func(*host.Thread) (*vipl.Descriptor, error), operation layout.StatusOperation, list []*vipl.Descriptor) {
	for i, want := range list {
		d, err := take(p.T)
		p.Completed(fmt.Sprintf("%s, %d", what, i), d, want, err, outcome{operation: operation, bits: FlushedError})
	}
	d, err := take(p.T)
	p.Is(what+", at the end", err, vipl.ErrDescriptor)
	p.That(what+", at the end: nothing", d == nil)
}

// A wire that is cut for good: the sender sends again after each retry timeout, as
// often as RetryLimit says, and after one more the oldest message fails.
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
	var told host.Time
	client := func(e *Env) error {
		p, to := must2(e.join(reliableRights(level)))
		index = p.VI.Index()
		waiting := must(p.Receive(40000, 8))
		check(p.until(cornerBegin))
		var posted []*vipl.Descriptor
		for i := range messages {
			d := must(p.transferOf(kind, 2000*i, n, to, 2000*i))
			posted = append(posted, d)
		}
		p.told("the wire is cut", nil)
		told = p.T.Now()
		p.Sent("the oldest", posted[0], kind.well(0).failed(transportError))
		p.flushedAll("behind it", p.VI.SendDone, kind.operation, posted[1:])
		p.Take("on the other queue", waiting, Received(0).failed(FlushedError))
		check(e.counted("node 0", map[layout.Counter]uint32{
			layout.CounterRetryTimeout: uint32(retries + 1), layout.CounterRetryExhausted: 1, layout.CounterRetransmitFrame: uint32(messages * retries), layout.CounterRewind: 0,
		}))
		return p.retire("the wire is cut", 1)
	}
	server := func(e *Env) error {
		p, _ := must2(e.join(reliableRights(level)))
		waiting := must(p.Receive(0, n))
		check(p.Meet(0))
		// Nobody could tell this side.
		p.InState("the wire is cut", vipl.Connected)
		e.Is("disconnect", p.VI.Disconnect(p.T), nil)
		p.flushedAll("disconnected", p.VI.RecvDone, layout.StatusOperationReceive, []*vipl.Descriptor{waiting})
		p.ended("disconnected")
		return nil
	}
	transport := cornerTransport
	transport.RetryLimit = limit
	r := cardRun{faults: "cut=20ms..", transport: transport, recorded: true}.must(t, client, server)

	// Each time of sending is followed by a timeout that counts from its last frame.
	// The ledger hears of a frame when it is built, and answers within 64 clocks. It looks
	// for what is due at one VI each clock, and finishes a walk before it begins another.
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
	require.Len(t, ends, retries, "timeouts behind which everything was sent again")
	written := host.Time(slack) // of its status
	if kind.reads() {
		// It is the flush that completes a read, because an answer might still be on its way into its memory.
		written = 50 * host.Microsecond
		ends = append(ends, told)
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

// Both sides fail in the same moment, each at what the other one does: each is told
// why, and once that the connection is lost.
func TestTransportBothSidesFail(t *testing.T) {
	type failure struct {
		name string
		post func(p *Peer, to Remote) (*vipl.Descriptor, error)
		sent []outcome // of which one comes
		told []layout.AsyncError
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
					p.told(c.name, c.told)
					got, err := p.VI.SendWait(p.T, host.Second)
					want := c.sent[0]
					for _, o := range c.sent { // the peer's refusal and the own card's flush are under way together
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

// The acknowledgements of a message are lost: it is sent again, completes then, and
// its receiver has it once.
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
			// What comes again must not be delivered again.
			clear(p.Mem.Bytes())
			check(p.Meet(0))
			check(p.memory(what+", when it was sent again", make([]byte, bufferBytes)))
			if kind.receives() && round == 0 {
				_, err := p.VI.RecvDone(p.T)
				e.Is(what+": once", err, vipl.ErrNotDone)
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

// The request of a read comes twice: at once, and again when the read has long been
// complete. It is executed once.
func TestTransportReadRequestTwice(t *testing.T) {
	for _, c := range []struct {
		name, faults string
		again        bool // the reader sends it again
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
						// The copy comes now, if it has not come yet.
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

// Frames of an answer are lost: it comes again, from the frame that is missing, and
// the read completes once.
func TestTransportLostAnswer(t *testing.T) {
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
					check(p.answersAcknowledged())
					p.ended("in the end")
					p.InState("in the end", vipl.Connected)
					return p.Settled(1)
				}
				server := func(e *Env) error {
					p, _ := must2(e.join(reliableRights(level)))
					copy(p.Mem.Bytes(), Pattern(bufferBytes, 3))
					check(p.answersAcknowledged())
					again, err := e.NIC.Counter(e.T, layout.CounterRetransmitFrame)
					e.Is("counter", err, nil)
					e.That("the answer was sent again", again > 0)
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

// answersAcknowledged lets pass, on both sides, the time in which the responder hears
// that the reader has all answers, although that was lost at first.
func (p *Peer) answersAcknowledged() error {
	check(p.Meet(p.other()))
	return p.T.Sleep(4 * cornerTimeout)
}

// Messages of no bytes are messages: each has its frame, its number and its
// completion, whatever the wire loses.
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
			check(p.answersAcknowledged())
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
			check(p.answersAcknowledged())
			p.ended("all")
			check(e.counted("responder", map[layout.Counter]uint32{layout.CounterReadResponse: rounds}))
			return p.Settled(0)
		}
		r := cardRun{faults: "drop=type 0x88b5 every 5", transport: driver.Transport{RetryTimeout: cornerTimeout}}.must(t, client, server)
		require.NotZero(t, r.done(0, layout.WireFaultDrop))
		require.NotZero(t, r.done(1, layout.WireFaultDrop))
	})
}

// Messages of as many segments as a descriptor can have, of which frames are lost in
// the middle: who sends again finds the right byte of the right segment.
func TestTransportManySegments(t *testing.T) {
	const n = 40000
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		client := func(e *Env) error {
			p, to := must2(e.join(reliableRights(level)))
			d := must(p.Wide(vipl.MaxSegments))
			for i, kind := range transferKinds {
				segments, offsets := p.pieces(n, vipl.MaxSegments, i)
				payload := Pattern(n, i)
				image := make([]byte, bufferBytes)
				rest := payload
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
				switch {
				case kind.operation == layout.StatusOperationSend:
					segments, offsets := p.pieces(n, vipl.MaxSegments, i+3)
					for k, s := range segments {
						payload = payload[copy(image[offsets[k]:][:s.Length], payload):]
					}
					check(d.SetReceive(segments...))
				default:
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
					last := n + 4
					check(p.Mem.Poll(p.T, last, 1, host.Second, func() bool {
						return kind.operation == layout.StatusOperationSend || p.Mem.Bytes()[last] == image[last]
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

// Reads of both sides at once: as many are unanswered as may be, and not one more.
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
					// Half of the buffer is read by the peer, half of it is read into.
					copy(p.Mem.Bytes()[:bufferBytes/2], source)
					check(p.Meet(p.other()))
					for range 2 {
						var posted []*vipl.Descriptor
						for i := range reads {
							d := must(p.transferOf(transferKinds[3], bufferBytes/2+i*(n/2), n/2, to, 1000*i))
							posted = append(posted, d)
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

// The acknowledgements of answers are lost, so the responder has no room for one more
// request: it is dropped, counted, and comes again.
func TestTransportOneReadTooMany(t *testing.T) {
	atReliableLevels(t, func(t *testing.T, level vipl.ReliabilityLevel) {
		const reads = 12
		client := func(e *Env) error {
			p, to := must2(e.join(reliableRights(level)))
			check(p.until(cornerBegin))
			var posted []*vipl.Descriptor
			for i := range reads {
				d := must(p.transferOf(transferKinds[3], 200*i, 200, to, 10*i))
				posted = append(posted, d)
			}
			for i, d := range posted {
				what := fmt.Sprintf("read %d", i)
				p.Sent(what, d, didRead(200))
				e.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[200*i:][:200], Pattern(bufferBytes, 7)[10*i:][:200]))
			}
			check(p.answersAcknowledged())
			p.ended("all")
			return p.Settled(1)
		}
		server := func(e *Env) error {
			p, _ := must2(e.join(reliableRights(level)))
			copy(p.Mem.Bytes(), Pattern(bufferBytes, 7))
			check(p.answersAcknowledged())
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

// A completion queue is full while messages are sent again: entries are lost and told,
// the connection goes on, and what was taken makes room for what comes.
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
						d := must(p.Receive(0, 2000))
						posted = append(posted, d)
					}
				}
				check(p.Meet(p.other()))
				if e.H.Node() == 0 {
					for range messages {
						d := must(p.Send(0, 2000))
						posted = append(posted, d)
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
			_, err := p.NIC.NextError(p.T)
			e.Is("nothing asynchronous", err, vipl.ErrNotDone)
			return p.Settled(p.other())
		}
		r := cardRun{faults: "drop=type 0x88b5 every 6", transport: driver.Transport{RetryTimeout: cornerTimeout}}.must(t, side, side)
		require.NotZero(t, r.done(0, layout.WireFaultDrop))
		require.NotZero(t, r.done(1, layout.WireFaultDrop))
	})
}

// Both sides write to the other what they have read from it, at once, over a wire that
// loses frames: the write must wait for the read.
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

// A disconnect in the midst of sending again, at several instants: everything comes
// back flushed, in order, and nothing of it comes into the next connection.
func TestTransportDisconnectWhileSendingAgain(t *testing.T) {
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
							d := must(p.transferOf(kind, 100*k, n, to, 0))
							posted = append(posted, d)
						}
						check(p.T.Sleep(after))
						e.Is(what, p.VI.Disconnect(p.T), nil)
						p.InState(what, vipl.Idle)
						p.flushedAll(what, p.VI.SendDone, kind.operation, posted)
						p.flushedAll(what, p.VI.RecvDone, layout.StatusOperationReceive, []*vipl.Descriptor{waiting})
						p.ended(what)
						check(p.memory(what, Pattern(bufferBytes, 5)))
						check(p.until(at + every/2 + 10*host.Microsecond))
						step(p.Redial(1), "%s", what)
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
							d := must(p.Receive(0, n))
							posted = append(posted, d)
						}
						p.told(what, nil)
						p.flushedAll(what, p.VI.RecvDone, layout.StatusOperationReceive, posted)
						e.Is(what+": the server's", p.VI.Disconnect(p.T), nil)
						p.ended(what)
						check(p.memory(what+": nothing came", make([]byte, bufferBytes)))
						d := must(p.Receive(0, n))
						step(p.Again(), "%s", what)
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

// Memory is deregistered while a message of it is unacknowledged: the deregistration
// does not wait, nothing of the memory is read or written behind it, and the message
// that would have to be sent again fails.
func TestTransportDeregisterUnacknowledged(t *testing.T) {
	const n = 3000
	for _, c := range []struct {
		name, faults string
		descriptor   bool // its memory, not the buffer's
		received     bool // the peer has the message
		sent         outcome
		told         []layout.AsyncError
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
					p.told(c.name, c.told)
					p.Sent(c.name, d, c.sent)
					p.Sent("behind it", behind, DidSend(0).failed(FlushedError))
					return p.retire(c.name, 1)
				}
				server := func(e *Env) error {
					p, _ := must2(e.join(reliableRights(level)))
					var posted []*vipl.Descriptor
					for range 3 {
						d := must(p.Receive(0, n))
						posted = append(posted, d)
					}
					came := 0
					if c.received {
						came = 2
					}
					for _, d := range posted[:came] {
						p.Take(c.name, d, Received(n))
					}
					p.told(c.name, nil)
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
