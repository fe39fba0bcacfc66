// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"slices"

	"hvia/layout"
)

// talk is the traffic of one end of a pair at a reliable level: valid sends,
// RDMA writes and reads, each with separate memory.
type talk struct {
	from, to               *vi
	source, sink           *region // of from
	target, inbox, library *region // of to: written to, received into, read from
	received               int     // receive descriptors that were posted
}

type operation int

const (
	sends operation = iota
	writes
	reads
)

var everyOperation = []operation{sends, writes, reads}

const (
	talkBytes  = 20_000
	talkInbox  = 8 // receives posted at a time
	talkLength = 9000
	talkSend   = 5000
)

type limits struct {
	window, retryLimit, timeoutLog2 uint8
}

// talkers makes two VIs that send to each other, not connected yet. Their
// completion queues are those of the two nodes, number plus one.
func (r *rig) talkers(index [2]uint8, tag uint16, level layout.Reliability, c limits, queues [2]uint8) [2]*talk {
	x := [2]*talk{{}, {}}
	r.both(func(m *machine) {
		n := m.thread.ID().Node
		v := &vi{m: m, index: index[n], tag: tag, writable: true, reliable: patient(level), queues: [2]uint8{queues[n], queues[n]}}
		v.reliable.window, v.reliable.retryLimit, v.reliable.timeoutLog2 = c.window, c.retryLimit, c.timeoutLog2
		v.create(pageBytes)
		out, in := x[n], x[1-n]
		out.from, in.to = v, v
		out.source, out.sink = m.register(77, talkBytes, tag, false), m.register(5, talkBytes, tag, false)
		out.source.scramble()
		in.target, in.inbox = m.register(1234, talkBytes, tag, true), m.register(3321, talkInbox*talkSend, tag, false)
		in.library = m.layOut(99, talkBytes, tag, false)
		in.library.readable = true
		m.enter(in.library)
		in.library.scramble()
	})
	return x
}

// ready posts receive descriptors, on the receiver's thread.
func (x *talk) ready(n int) {
	for range n {
		x.to.postReceive(buffers(x.inbox.part(x.received%talkInbox*talkSend, talkSend)))
		x.received++
	}
}

// say posts messages, on the sender's thread.
func (x *talk) say(operations ...operation) {
	random := x.from.m.random
	for _, k := range operations {
		n := random.IntN(talkLength)
		switch k {
		case sends:
			n = random.IntN(talkSend + 1)
			x.from.submit(buffers(x.source.part(random.IntN(talkBytes-n+1), n)).with(random.Uint32()))
		case writes:
			x.from.submit(rdmaWrite(x.source, random.IntN(talkBytes-n+1), n, x.target, random.IntN(talkBytes-n+1)))
		case reads:
			d := buffers(x.sink.part(random.IntN(talkBytes-n+1), n)).to(x.library, random.IntN(talkBytes-n+1))
			d.control = uint16(layout.DescriptorOperationRDMARead) << layout.DescriptorControlOperationLsb
			x.from.submit(d)
		}
	}
}

// sayAll posts rounds of all operations, each in any order.
func (x *talk) sayAll(rounds int) {
	for range rounds {
		for _, k := range x.from.m.random.Perm(len(everyOperation)) {
			x.say(everyOperation[k])
		}
	}
}

// await waits until all messages are complete, on the sender's thread.
func (x *talk) await() {
	for _, o := range x.from.reliable.own {
		o.p.await()
	}
}

// heard updates the model: all messages are complete, each once and in order.
func (x *talk) heard() {
	v := x.from
	for _, o := range v.reliable.own {
		x.hear(o)
	}
	v.reliable.own = nil
}

func (x *talk) hear(o *ownMessage) {
	v, peer := x.from, x.to
	if !o.read {
		frames, status, moved := v.transmit(o.p)
		v.m.written(o.p, status, moved)
		v.next += uint32(len(frames))
		for _, b := range frames {
			peer.m.hear(b)
		}
		return
	}
	v.m.written(o.p, o.p.ended(0), int(o.p.length))
	v.next++
	peer.expected++
	peer.m.counts[layout.CounterReceiveFrame]++
	frames := max((o.p.length+layout.MaxPayload-1)/layout.MaxPayload, 1)
	peer.next += frames
	v.expected += frames
	v.m.counts[layout.CounterReceiveFrame] += frames
	to := o.p.data[0]
	x.sink.expect(int(to.address-x.sink.address), x.library.bytes(int(o.p.remote.address-x.library.address), int(to.length)))
}

// ofTransport are those exact counters that depend on a reliable VI's
// retransmissions and their times, and on the merging of acknowledgements.
var ofTransport = []layout.Counter{
	layout.CounterTransmitMessage, layout.CounterTransmitFrame, layout.CounterTransmitAborted, layout.CounterMacTransmitFrame, layout.CounterMacReceiveFrame,
}

// lossy also excludes the counters of a node that depend on lost frames. The
// counts of accepted, completed and reported messages stay exact.
func (m *machine) lossy() {
	m.inexact = append(slices.Clone(ofTransport), layout.CounterMacReceiveBad, layout.CounterReceiveOldSequence, layout.CounterReceiveOutOfOrder,
		layout.CounterReceiveReadLimit)
}
