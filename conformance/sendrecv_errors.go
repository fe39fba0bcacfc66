// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// caseBytes is the length of the message that meets a faulty receive
// descriptor: three frames. The sender's descriptor completes without an error.
const caseBytes = 3000

type receiveCase struct {
	name    string
	segment []func(p *Peer, c *caseMemory) vipl.Segment
	change  func(d *vipl.Descriptor)
	bits    uint32
	length  int // bytes that are written
}

// caseMemory is memory that a receive must not reach.
type caseMemory struct{ stale, foreign *vipl.Region }

func good(offset, n int) func(*Peer, *caseMemory) vipl.Segment {
	return func(p *Peer, _ *caseMemory) vipl.Segment { return p.Mem.Segment(offset, n) }
}

func spoiled(offset, n int, change func(s *vipl.Segment, p *Peer, c *caseMemory)) func(*Peer, *caseMemory) vipl.Segment {
	return func(p *Peer, c *caseMemory) vipl.Segment {
		s := p.Mem.Segment(offset, n)
		change(&s, p, c)
		return s
	}
}

type segments = []func(*Peer, *caseMemory) vipl.Segment

var receiveCases = []receiveCase{
	{name: "operation RDMA write", segment: segments{good(0, caseBytes)}, bits: formatError,
		change: func(d *vipl.Descriptor) { Raw(d).SetControl(uint16(layout.DescriptorOperationRDMAWrite)) }},
	{name: "operation RDMA read", segment: segments{good(0, caseBytes)}, bits: formatError,
		change: func(d *vipl.Descriptor) { Raw(d).SetControl(uint16(layout.DescriptorOperationRDMARead)) }},
	{name: "reserved operation", segment: segments{good(0, caseBytes)}, bits: formatError,
		change: func(d *vipl.Descriptor) { Raw(d).SetControl(uint16(layout.DescriptorOperationReserved)) }},
	{name: "reserved control bits", segment: segments{good(0, caseBytes)}, bits: formatError,
		change: func(d *vipl.Descriptor) { Raw(d).SetControl(0x4000) }},
	{name: "reserved word", segment: segments{good(0, caseBytes)}, bits: formatError,
		change: func(d *vipl.Descriptor) { d.Bytes()[layout.DescriptorReservedOffset+3] = 1 }},
	{name: "too many segments", segment: segments{good(0, caseBytes)}, bits: formatError,
		change: func(d *vipl.Descriptor) { Raw(d).SetSegmentCount(vipl.MaxSegments + 1) }},
	{name: "longer than the max transfer size", segment: segments{good(0, caseBytes)}, bits: lengthError,
		change: func(d *vipl.Descriptor) { Raw(d).SetLength(65537) }},
	{name: "a byte too short", segment: segments{good(5, caseBytes-1)}, bits: lengthError, length: caseBytes - 1},
	{name: "a byte too short in all", segment: segments{good(5, 1000), good(5000, 1999)}, bits: lengthError, length: caseBytes - 1},
	{name: "one byte", segment: segments{good(5, 1)}, bits: lengthError, length: 1},
	{name: "no buffers", bits: lengthError},
	{name: "a buffer of no bytes", segment: segments{good(5, 0)}, bits: lengthError},
	{name: "length less than the buffers", segment: segments{good(5, 5000)}, bits: lengthError, length: 100,
		change: func(d *vipl.Descriptor) { Raw(d).SetLength(100) }},
	{name: "length more than the buffers", segment: segments{good(5, 1500)}, bits: lengthError, length: 1500,
		change: func(d *vipl.Descriptor) { Raw(d).SetLength(4000) }},
	{name: "address outside", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, p *Peer, _ *caseMemory) { s.Address += bufferBytes })}},
	{name: "address 0", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Address = 0 })}},
	{name: "address at the end of all", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Address = ^uint64(0) - 99 })}},
	{name: "one byte before the region", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Address-- })}},
	// The card rejects the complete segment, whichever part the message would
	// use.
	{name: "one byte behind the region", bits: ProtectionError, segment: segments{spoiled(bufferBytes-caseBytes-9, caseBytes+9, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Address++ })}},
	{name: "handle 0", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Handle = 0 })}},
	{name: "handle of nothing", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Handle ^= 0x80 })}},
	{name: "handle of another generation", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, _ *caseMemory) {
		s.Handle += 1 << layout.AttHandleValueGenerationLsb
	})}},
	{name: "stale handle", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, c *caseMemory) { s.Handle = c.stale.Handle() })}},
	{name: "tag of another VI", bits: ProtectionError, segment: segments{spoiled(0, caseBytes, func(s *vipl.Segment, _ *Peer, c *caseMemory) { s.Handle = c.foreign.Handle() })}},
	{name: "the second buffer rejected", bits: ProtectionError, length: 1000,
		segment: segments{good(5, 1000), spoiled(5000, 2000, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Handle = 0 })}},
	{name: "the third buffer rejected, in the second frame", bits: ProtectionError, length: 1500,
		segment: segments{good(5, 1000), good(2000, 500), spoiled(5000, 2000, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Handle = 0 })}},
	// The card does not check segments it does not need.
	{name: "a wrong buffer behind the message", length: caseBytes,
		segment: segments{good(5, 1000), good(2000, 2000), spoiled(0, 1000, func(s *vipl.Segment, _ *Peer, _ *caseMemory) { s.Handle = 0 })}},
	{name: "larger than the message", segment: segments{good(5, 9000)}, length: caseBytes},
	{name: "immediate and fence bits mean nothing", segment: segments{good(5, caseBytes)}, length: caseBytes,
		change: func(d *vipl.Descriptor) {
			Raw(d).SetControl(layout.DescriptorControlImmediateMask | layout.DescriptorControlQueueFenceMask)
		}},
}

func receiveErrorClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	copy(p.Mem.Bytes(), Pattern(caseBytes, 3))
	for _, c := range receiveCases {
		check(p.Meet(1))
		for _, n := range []int{caseBytes, 8} {
			d := must(p.Send(0, n))
			p.Sent(c.name+": the sender does not see it", d, outcome{operation: layout.StatusOperationSend, length: n})
		}
	}
	return p.Settled(1)
}

func receiveErrorServer(e *Env) error {
	p := must(e.Serve(Writable))
	var m caseMemory
	m.stale = must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 2*caseBytes, vipl.MemAttributes{}))
	check(m.stale.Deregister(p.T))
	tag := must(p.NIC.CreatePtag(p.T))
	m.foreign = must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 2*caseBytes, vipl.MemAttributes{Ptag: tag}))
	payload := Pattern(caseBytes, 3)
	for _, c := range receiveCases {
		d := must(p.Wide(4))
		var list []vipl.Segment
		for _, s := range c.segment {
			list = append(list, s(p, &m))
		}
		check(d.SetReceive(list...))
		if c.change != nil {
			c.change(d)
		}
		Step(p.VI.PostRecv(p.T, d), "%s", c.name)
		// Post a good descriptor right behind the bad one.
		behind := must(p.Receive(bufferBytes-8, 8))
		check(p.Meet(0))
		p.Take(c.name, d, Received(c.length).failed(c.bits))
		p.Take(c.name+", then a good one", behind, Received(8))
		want := make([]byte, bufferBytes)
		left := payload[:c.length]
		for _, s := range list {
			if len(left) > 0 {
				left = left[copy(want[s.Address-p.Mem.Address():][:s.Length], left):]
			}
		}
		copy(want[bufferBytes-8:], payload)
		check(p.memory(c.name, want))
		clear(p.Mem.Bytes())
	}
	p.InState("after all errors", vipl.Connected)
	p.ended("after all errors")
	return p.Settled(0)
}

// gatherCases are faulty send descriptors. arrived is the length in the peer's
// receive, -1 if nothing is sent: the bytes of the complete frames. The message
// lacks its last frame, so the next message ends it.
var gatherCases = []struct {
	name    string
	lengths []int
	wrong   int // segment with handle 0, -1 = none
	length  int // Length, -1 = the sum
	rdma    bool
	bits    uint32
	arrived int
}{
	{"the only segment rejected", []int{4000}, 0, -1, false, ProtectionError, -1},
	{"the second segment rejected in the first frame", []int{100, 100}, 1, -1, false, ProtectionError, -1},
	{"the second segment rejected in the second frame", []int{1472, 100}, 1, -1, false, ProtectionError, 1472},
	{"the fifth segment rejected in the third frame", []int{1000, 1000, 1000, 1, 3000}, 4, -1, false, ProtectionError, 2944},
	{"an RDMA write's third segment rejected in the second frame", []int{1000, 472, 3000}, 2, -1, true, ProtectionError, 1472},
	{"length more than two segments", []int{10, 10}, -1, 21, false, lengthError, -1},
	{"length less than two segments", []int{10, 10}, -1, 19, false, lengthError, -1},
	{"length without segments", nil, -1, 1, false, lengthError, -1},
	{"length more than five segments", []int{10, 10, 10, 10, 10}, -1, 51, false, lengthError, -1},
	{"length less than five segments", []int{10, 10, 10, 10, 10}, -1, 49, false, lengthError, -1},
	{"length more than five segments in several frames", []int{1000, 1000, 1000, 1000, 1000}, -1, 5001, false, lengthError, 4416},
	{"length less than five segments in several frames", []int{1000, 1000, 1000, 1000, 1000}, -1, 4999, false, lengthError, 4416},
	{"length far less than five segments", []int{1000, 1000, 1000, 1000, 1000}, -1, 1472, false, lengthError, -1},
	{"longer than the max transfer size in several segments", []int{60000, 5536, 1}, -1, -1, false, lengthError, -1},
	// The card does not check a segment of no bytes.
	{"a wrong segment of no bytes", []int{1000, 0, 1000}, 1, -1, false, 0, 2000},
}

func gatherErrorClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	copy(p.Mem.Bytes(), Pattern(bufferBytes, 5))
	for _, c := range gatherCases {
		d := must(p.Wide(8))
		var list []vipl.Segment
		at, sum := 0, 0
		for i, n := range c.lengths {
			s := p.Mem.Segment(at, n)
			if i == c.wrong {
				s.Handle = 0
			}
			list = append(list, s)
			at, sum = at+n, sum+n
		}
		operation, arrived := layout.StatusOperationSend, max(c.arrived, 0)
		if c.rdma {
			operation = layout.StatusOperationRDMAWrite
			check(d.SetRDMAWrite(to.Address, to.Handle, list...))
		} else {
			check(d.SetSend(list...))
		}
		if c.length >= 0 {
			Raw(d).SetLength(uint32(c.length))
		}
		check(p.Meet(1))
		Step(p.VI.PostSend(p.T, d), "%s", c.name)
		behind := p.Next()
		check(behind.SetSend(p.Mem.Segment(0, 8)))
		behind.AttachImmediate(77)
		check(p.VI.PostSend(p.T, behind))
		p.Sent(c.name, d, outcome{bits: c.bits, operation: operation, length: arrived})
		p.Sent(c.name+", then a good one", behind, outcome{operation: layout.StatusOperationSend, length: 8})
	}
	p.InState("after all errors", vipl.Connected)
	p.ended("after all errors")
	return p.Settled(1)
}

func gatherErrorServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	source := Pattern(bufferBytes, 5)
	for _, c := range gatherCases {
		uses := c.arrived >= 0 && !c.rdma
		var d *vipl.Descriptor
		if uses {
			d = p.Next()
			check(d.SetReceive(p.Mem.Segment(0, bufferBytes-16)))
			// A receive may take at most 65,536 bytes.
			Raw(d).SetLength(65536)
			check(p.VI.PostRecv(p.T, d))
		}
		behind := must(p.Receive(bufferBytes-8, 8))
		check(p.Meet(0))
		if uses && c.bits != 0 {
			p.Take(c.name, d, Received(c.arrived).failed(partialError))
		} else if uses {
			p.Take(c.name, d, Received(c.arrived))
		}
		p.Take(c.name+", then a good one", behind, Received(8).with(77))
		want := make([]byte, bufferBytes)
		copy(want, source[:max(c.arrived, 0)])
		copy(want[bufferBytes-8:], source)
		check(p.memory(c.name, want))
		clear(p.Mem.Bytes())
		if c.rdma {
			p.Asynchronous(c.name, layout.AsyncErrorRDMAWriteAbort, p.VI)
		}
	}
	p.InState("after all errors", vipl.Connected)
	p.ended("after all errors")
	return p.Settled(0)
}

// emptyQueueClient sends messages to an empty receive queue.
func emptyQueueClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	copy(p.Mem.Bytes(), Pattern(5000, 1))
	for i, n := range []int{0, 4, 5000, 5000} {
		d := p.Next()
		if i == 3 {
			d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, n))
			d.AttachImmediate(1)
		} else if err := d.SetSend(p.Mem.Segment(0, n)); err != nil {
			return err
		}
		check(p.VI.PostSend(p.T, d))
		e.Is("the sender does not see it", errOf(p.VI.SendWait(p.T, host.Second)), nil)
		check(p.Meet(1)) // the server has its error
		check(p.Meet(1)) // the server has a receive
		must(p.Send(0, 4))
		e.Is("then a good one", errOf(p.VI.SendWait(p.T, host.Second)), nil)
	}
	return p.Settled(1)
}

func emptyQueueServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	for i := range 4 {
		name := fmt.Sprintf("message %d", i)
		p.Asynchronous(name, layout.AsyncErrorReceiveQueueEmpty, p.VI)
		check(p.Meet(0))
		check(p.Quiet()) // all its frames have arrived
		check(p.memory(name, make([]byte, bufferBytes)))
		e.Is(name+": one error for a message", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
		p.InState(name, vipl.Connected)
		d := must(p.Receive(100, 4))
		check(p.Meet(0))
		p.Take(name+", then a good one", d, Received(4))
		clear(p.Mem.Bytes())
	}
	dropped, err := p.NIC.Counter(p.T, layout.CounterReceiveQueueEmpty)
	e.Is("counter", err, nil)
	e.That(fmt.Sprintf("%d messages found no receive", dropped), dropped == 4)
	p.ended("in the end")
	return p.Settled(0)
}
