// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// A stream sends separate messages on one VI: each is posted long after the
// last one completes.
const (
	streamBytes  = 2000
	streamPeriod = 300 * host.Microsecond
)

// streamAt is when message i is posted.
func streamAt(i int) host.Time { return cornerBegin + host.Time(i)*streamPeriod }

// Troubles hit the other VI between the same hosts, at these messages of the
// stream.
const (
	troubleEvery = 10
	troubleStep  = 6 * host.Microsecond // each starts this much later than the last
	// The timeout is long enough to separate a retransmission from the loss.
	isolationTimeout = busClock << 12
	isolationRetries = 2
)

var (
	troubles       = conformtest.Long(7, 14)
	streamMessages = (troubles + 1) * troubleEvery
)

// troubleAt is the start of trouble k, which lies `before` ahead of message
// k*troubleEvery+1 of the stream.
func troubleAt(k int, before host.Time) host.Time {
	return streamAt(k*troubleEvery+1) - before + host.Time(k)*troubleStep
}

// The sender retransmits this long after its first frame: the timeout counts
// from the last frame, and building frames takes time.
const retransmittedAfter = isolationTimeout + 60*host.Microsecond

// disturbance is an event on the other VI.
type disturbance struct {
	name           string
	client, server func(p *Peer, to Remote) error
	// The frames lost there, of one direction and kind, within a span of time.
	lost string
	from host.Time // the argument `before` of troubleAt
	span host.Time
}

// recovers sends a message in each trouble. The message arrives after a
// retransmission.
func recovers(kind transferKind) (client, server func(p *Peer, to Remote) error) {
	const n = 3000
	client = func(p *Peer, to Remote) error {
		for k := range troubles {
			check(p.until(troubleAt(k, retransmittedAfter)))
			d := must(p.transferOf(kind, 50000, n, to, 50000))
			p.Sent(fmt.Sprintf("%s %d", kind.name, k), d, kind.well(n))
		}
		return nil
	}
	server = func(p *Peer, _ Remote) error {
		if !kind.receives() {
			return nil
		}
		for range troubles {
			must(p.Receive(50000, n))
		}
		for k := range troubles {
			_, err := p.VI.RecvWait(p.T, host.Second)
			p.Is(fmt.Sprintf("%s %d", kind.name, k), err, nil)
		}
		return nil
	}
	return client, server
}

// breaks breaks the connection in each trouble, and connects again.
func breaks(before host.Time, sent outcome, reported []layout.AsyncError) (client, server func(p *Peer, to Remote) error) {
	again := func(k int) host.Time { return streamAt(k*troubleEvery + 6) }
	client = func(p *Peer, _ Remote) error {
		for k := range troubles {
			what := fmt.Sprintf("break %d", k)
			check(p.until(troubleAt(k, before)))
			d := must(p.Send(50000, 3000))
			p.broken(what, nil)
			p.Sent(what, d, sent)
			p.Is(what+": disconnect", p.VI.Disconnect(p.T), nil)
			check(p.until(again(k)))
			Step(p.Redial(1), "%s", what)
		}
		return nil
	}
	server = func(p *Peer, _ Remote) error {
		for k := range troubles {
			what := fmt.Sprintf("break %d", k)
			p.broken(what, reported)
			p.Is(what+": disconnect", p.VI.Disconnect(p.T), nil)
			Step(p.Again(), "%s", what)
		}
		return nil
	}
	return client, server
}

func disturbances() []disturbance {
	quiet := func(*Peer, Remote) error { return nil }
	// The other VI has number 1 on both hosts.
	all := []disturbance{
		{name: "none", client: quiet, server: quiet},
		{name: "frames lost", lost: "0>1:drop=vi 1 operation send", from: retransmittedAfter, span: 100 * host.Microsecond},
		{name: "acknowledgements lost", lost: "1>0:drop=vi 1 operation acknowledge", from: retransmittedAfter, span: 100 * host.Microsecond},
		{name: "read responses lost", lost: "1>0:drop=vi 1 operation rdmareadresponse", from: retransmittedAfter, span: 100 * host.Microsecond},
		{name: "no receive posted"},
		{name: "retry limit", lost: "0>1:drop=vi 1", from: retransmittedAfter, span: streamPeriod * 4},
	}
	for i := range all[1:4] {
		kind := transferKinds[0]
		if all[i+1].name == "read responses lost" {
			kind = transferKinds[3]
		}
		all[i+1].client, all[i+1].server = recovers(kind)
	}
	all[4].client, all[4].server = breaks(40*host.Microsecond, DidSend(0).failed(descriptorError), []layout.AsyncError{layout.AsyncErrorReceiveQueueEmpty})
	all[5].client, all[5].server = breaks(retransmittedAfter, DidSend(0).failed(transportError), nil)
	return all
}

// faults is the fault specification of the disturbance.
func (d disturbance) faults() string {
	if d.lost == "" {
		return ""
	}
	var list []string
	direction, fault, _ := strings.Cut(d.lost, ":")
	for k := range troubles {
		at := troubleAt(k, d.from)
		list = append(list, fmt.Sprintf("%s %dns..%dns", fault, at/host.Nanosecond, (at+d.span)/host.Nanosecond))
	}
	return direction + ":" + strings.Join(list, ",")
}

// isolated runs the stream next to a disturbance.
func isolated(t *testing.T, stream, other vipl.ReliabilityLevel, d disturbance) *cardRecord {
	t.Helper()
	text := func(i int) []byte { return Pattern(streamBytes, i) }
	source := func(i int) int { return i % 8 * 2500 }
	var peers [2]struct {
		other *Peer
		to    Remote
	}
	// side sets up both VIs of a host and passes the second to the other
	// thread.
	side := func(run func(p *Peer) error) Main {
		return func(e *Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			a := reliableRights(stream)
			a.EnableRDMARead = stream != vipl.Unreliable
			p, to := must2(e.join(a))
			q := must(p.Another(reliableRights(other), 1024))
			e.That(fmt.Sprintf("the VIs are 0 and 1, not %d and %d", p.VI.Index(), q.VI.Index()), p.VI.Index() == 0 && q.VI.Index() == 1)
			peers[e.H.Node()].other, peers[e.H.Node()].to = q, to
			check(e.T.Send(host.ThreadID{Node: e.H.Node(), Rank: 2}, nil))
			return run(p)
		}
	}
	beside := func(run func(p *Peer, to Remote) error) Main {
		return func(e *Env) error {
			_, ok := must2(e.T.Receive(host.Second))
			e.That("the other VI is there", ok)
			q := peers[e.H.Node()].other
			e.NIC = q.NIC
			return run(&Peer{Env: e, VI: q.VI, buf: q.buf, Mem: q.Mem, descriptors: q.descriptors, posted: q.posted}, peers[e.H.Node()].to)
		}
	}
	client := func(p *Peer) error {
		for i := range streamMessages {
			check(p.until(streamAt(i)))
			copy(p.Mem.Bytes()[source(i):], text(i))
			d := must(p.Send(source(i), streamBytes))
			d2, err := p.VI.SendWait(p.T, streamPeriod)
			p.Completed(fmt.Sprintf("message %d of the stream", i), d2, d, err, DidSend(streamBytes))
		}
		p.InState("the stream's VI", vipl.Connected)
		return p.Settled(1)
	}
	server := func(p *Peer) error {
		var posted []*vipl.Descriptor
		for i := range streamMessages + 1 { // one more descriptor follows the last message
			posted = append(posted, must(p.Receive(source(i), streamBytes)))
		}
		for i, d := range posted[:streamMessages] {
			what := fmt.Sprintf("message %d of the stream", i)
			p.Take(what, d, Received(streamBytes))
			p.That(what+": its bytes", bytes.Equal(p.Mem.Bytes()[source(i):][:streamBytes], text(i)))
		}
		p.InState("the stream's VI", vipl.Connected)
		return p.Settled(0)
	}
	r, err := cardRun{faults: d.faults(), transport: driver.Transport{RetryTimeout: isolationTimeout, RetryLimit: isolationRetries}, recorded: true}.try(t,
		Program(0, "stream", side(client)), Program(1, "stream", side(server)),
		Program(0, "beside", beside(d.client)), Program(1, "beside", beside(d.server)))
	require.NoError(t, err, d.name)
	if d.lost != "" {
		require.GreaterOrEqual(t, r.done(0, layout.WireFaultDrop)+r.done(1, layout.WireFaultDrop), uint64(troubles))
	}
	return r
}

// streamTimes are the times at which sender and receiver complete each message,
// and at which both cards are done with it: the receiver has fetched the next
// descriptor.
type streamTimes struct{ sent, received, done []host.Time }

func (r *cardRecord) streamTimes(t *testing.T) (s streamTimes) {
	t.Helper()
	for _, side := range []struct {
		node, count int
		event       layout.TraceEvent
		to          *[]host.Time
	}{
		{0, streamMessages, layout.TraceEventCompletionWritten, &s.sent},
		{1, streamMessages + 1, layout.TraceEventReceiveCompletionWritten, &s.received}, // the last one is flushed
		{1, streamMessages + 1, layout.TraceEventReceiveDescriptorStored, &s.done},
	} {
		for _, e := range r.traced(side.node, 0, side.event) {
			require.EqualValues(t, len(*side.to), e.Sequence, "%v", side.event)
			*side.to = append(*side.to, host.Time(e.TimePs))
		}
		require.Len(t, *side.to, side.count, "%v", side.event)
	}
	s.received, s.done = s.received[:streamMessages], s.done[1:]
	for i := range s.done {
		s.done[i] = max(s.done[i], s.sent[i], s.received[i])
	}
	return s
}

// buses are the spans in which the buses of both hosts are busy: the system bus
// (with any master) and the MAC bus.
type buses [4][][2]host.Time

func (r *cardRecord) buses() (all buses) {
	begin := [4]host.Time{-1, -1, -1, -1}
	for _, e := range r.events {
		bus, at := e.Node, host.Time(e.TimePs)
		switch e.Event {
		case layout.TraceEventMacBusStart, layout.TraceEventMacBusEnd:
			bus += 2
		case layout.TraceEventHostBusStart, layout.TraceEventHostBusEnd:
		default:
			continue
		}
		if e.Event == layout.TraceEventMacBusStart || e.Event == layout.TraceEventHostBusStart {
			begin[bus] = at
		} else if begin[bus] >= 0 {
			all[bus] = append(all[bus], [2]host.Time{begin[bus], at})
			begin[bus] = -1
		}
	}
	return all
}

// busy adds up the busy time within a span.
func (b *buses) busy(from, to host.Time) (sum host.Time) {
	for _, spans := range b {
		i, _ := slices.BinarySearchFunc(spans, from, func(s [2]host.Time, at host.Time) int { return int(min(max(s[1]-at, -1), 1)) })
		for ; i < len(spans) && spans[i][0] < to; i++ {
			sum += min(spans[i][1], to) - max(spans[i][0], from)
		}
	}
	return sum
}

// An error on one VI and its recovery change no status on another VI between
// the same hosts. They delay its messages by no more than their time on the
// buses.
func TestTransportIsolation(t *testing.T) {
	conformtest.NeedsSimulator(t)
	for _, c := range []struct {
		name          string
		stream, other vipl.ReliabilityLevel
	}{
		{"unreliable stream", vipl.Unreliable, vipl.ReliableReception},
		{"reliable delivery", vipl.ReliableDelivery, vipl.ReliableDelivery},
		{"reliable reception", vipl.ReliableReception, vipl.ReliableReception},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := disturbances()
			calm := isolated(t, c.stream, c.other, all[0])
			without, unused := calm.streamTimes(t), calm.buses()
			for _, d := range all[1:] {
				t.Run(d.name, func(t *testing.T) {
					start := time.Now()
					r := isolated(t, c.stream, c.other, d)
					with, spent := r.streamTimes(t), r.buses()
					delayed, worst, most, least := 0, host.Time(0), host.Time(0), host.Never
					for _, side := range []struct {
						name          string
						with, without []host.Time
					}{{"sender", with.sent, without.sent}, {"receiver", with.received, without.received}} {
						for i := range streamMessages {
							// The message's own bus time is the same in both
							// runs.
							used := spent.busy(streamAt(i), with.done[i]) - unused.busy(streamAt(i), without.done[i])
							delay := side.with[i] - side.without[i]
							if delay > used {
								t.Errorf("message %d is %v later at its %s; the buses were busy %v with something else meanwhile", i, delay, side.name, used)
							}
							if delay > 0 {
								delayed++
								least = min(least, used-delay)
							}
							if delay > worst {
								worst, most = delay, used
							}
						}
					}
					require.GreaterOrEqual(t, delayed, troubles/2, "so few messages met the trouble that this proves nothing")
					t.Logf("%d statuses later, by %v at most, where the buses were busy %v with something else; that was at least %v more than the delay; wall %v", delayed, worst, most, least, time.Since(start).Round(time.Millisecond))
				})
			}
		})
	}
}
