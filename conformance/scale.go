// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"hvia/host"
	"hvia/vipl"
)

const (
	scaleFrames  = 1 << 15 // 128 MiB for each node
	scaleRegions = 4096
	largeRegion  = 64 << 20
)

// scales go to a limit, and one beyond it.
var scales = []Scenario{
	{Name: "256 VIs connected at once", client: manyClient, server: manyServer},
	{Name: "1,024 receives on one VI", client: deepClient, server: deepServer},
	{Name: "4,096 regions", client: regionsClient, server: sinkServer},
	{Name: "a region of 64 MiB", client: largeClient, server: largeServer},
}

// all creates every VI of the card.
func (p *Peer) all() ([]*vipl.VI, error) {
	list := []*vipl.VI{p.VI}
	for range p.NIC.Query().MaxVI - 1 {
		list = append(list, must(p.NIC.CreateVI(p.T, vipl.VIAttributes{})))
	}
	p.Is("one VI more", errOf(p.NIC.CreateVI(p.T, vipl.VIAttributes{})), vipl.ErrResource)
	p.That(fmt.Sprintf("%d VIs", len(list)), len(list) == 256)
	return list, nil
}

func manyClient(e *Env) error {
	p := must(e.Prepare(vipl.VIAttributes{}))
	list := must(p.all())
	var receives []*vipl.Descriptor
	for i, v := range list {
		q := &Peer{Env: e, VI: v, Mem: p.Mem, descriptors: p.descriptors, posted: p.posted}
		d := must(q.Receive(64*i, 64))
		p.posted = q.posted
		receives = append(receives, d)
		Step(q.Redial(1), "connection %d", i)
	}
	check(p.step(1, "connected"))
	// All VIs are connected. The last one replies first.
	for i := len(list) - 1; i >= 0; i-- {
		q := &Peer{Env: e, VI: list[i], Mem: p.Mem, descriptors: p.descriptors, posted: p.posted}
		copy(p.Mem.Bytes()[64*256:], Pattern(60, i))
		d := must(q.Send(64*256, 60))
		p.posted = q.posted
		q.Sent(fmt.Sprintf("VI %d", i), d, SentBytes(60))
		q.Take(fmt.Sprintf("answer to VI %d", i), receives[i], Received(60))
		e.That(fmt.Sprintf("bytes of the answer to VI %d", i), bytes.Equal(p.Mem.Bytes()[64*i:64*i+60], Pattern(60, i)))
		q.InState("all the time", vipl.Connected)
	}
	return p.Settled(1)
}

// manyServer echoes each message.
func manyServer(e *Env) error {
	p := must(e.Prepare(vipl.VIAttributes{}))
	list := must(p.all())
	var receives []*vipl.Descriptor
	for i, v := range list {
		q := &Peer{Env: e, VI: v, Mem: p.Mem, descriptors: p.descriptors, posted: p.posted}
		d := must(q.Receive(64*i, 64))
		p.posted = q.posted
		receives = append(receives, d)
		r, err := e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, 5*host.Second)
		Step(err, "connection %d", i)
		Step(r.Accept(e.T, v), "connection %d", i)
	}
	check(p.awaits("connected"))
	for i := len(list) - 1; i >= 0; i-- {
		q := &Peer{Env: e, VI: list[i], Mem: p.Mem, descriptors: p.descriptors, posted: p.posted}
		q.Take(fmt.Sprintf("question of VI %d", i), receives[i], Received(60))
		d := must(q.Send(64*i, 60))
		p.posted = q.posted
		q.Sent(fmt.Sprintf("VI %d", i), d, SentBytes(60))
	}
	return p.Settled(0)
}

func SentBytes(n int) outcome { return outcome{length: n} }

func deepServer(e *Env) error {
	p := must(e.Prepare(vipl.VIAttributes{}))
	var list []*vipl.Descriptor
	for i := range vipl.MaxDescriptorsPerQueue {
		d, err := p.Receive(16*i, 16)
		Step(err, "receive %d", i)
		list = append(list, d)
	}
	_, err := p.Receive(0, 16)
	e.Is("one receive more", err, vipl.ErrResource)
	e.Is("one receive more", err, vipl.ErrOverrun)
	r := must(e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, host.Second))
	check(r.Accept(e.T, p.VI))
	check(p.awaits("sent"))
	for i, d := range list {
		p.Take(fmt.Sprintf("message %d", i), d, Received(8+i%8))
		if !bytes.Equal(p.Mem.Bytes()[16*i:16*i+8+i%8], Pattern(8+i%8, i)) {
			return fmt.Errorf("message %d has other bytes", i)
		}
	}
	return p.Settled(0)
}

func deepClient(e *Env) error {
	p := must(e.Prepare(vipl.VIAttributes{}))
	check(p.Redial(1))
	for i := range vipl.MaxDescriptorsPerQueue {
		copy(p.Mem.Bytes()[16*i:], Pattern(8+i%8, i))
		must(p.Send(16*i, 8+i%8))
	}
	for i := range vipl.MaxDescriptorsPerQueue {
		Step(errOf(p.VI.SendWait(e.T, host.Second)), "send %d", i)
	}
	return errors.Join(p.step(1, "sent"), p.Settled(1))
}

// regionsClient registers pages until the table is full, and writes from the
// first, the middle and the last one.
func regionsClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	e.That("the limit", e.NIC.Query().MaxRegisterRegions == scaleRegions)
	var list []*vipl.Region
	for i := range scaleRegions - 2 { // the peer has two regions
		r, err := e.NIC.RegisterMem(e.T, p.buf.Address()+uint64(i%19)*4096+uint64(i%7), 4090, vipl.MemAttributes{})
		Step(err, "region %d", i)
		list = append(list, r)
	}
	e.Is("one region more", errOf(e.NIC.RegisterMem(e.T, p.buf.Address(), 1, vipl.MemAttributes{})), vipl.ErrResource)
	for _, i := range []int{0, scaleRegions / 2, len(list) - 1} {
		d := p.Next()
		d.SetRDMAWrite(to.Address, to.Handle, list[i].Segment(0, 4090))
		check(p.VI.PostSend(e.T, d))
		Step(errOf(p.VI.SendWait(e.T, host.Second)), "write from region %d", i)
	}
	for i, r := range list {
		Step(r.Deregister(e.T), "region %d", i)
	}
	e.Is("after a slot is free", errOf(e.NIC.RegisterMem(e.T, p.buf.Address(), 1, vipl.MemAttributes{})), nil)
	return p.Settled(1)
}

// largeOffsets are the written offsets of the large region: its edges, and the
// boundaries of pages and commands.
var largeOffsets = []int{0, 65536 + 4090, 4096*1024 - 3, largeRegion / 2, largeRegion - 65536}

func largeServer(e *Env) error {
	p := must(e.Serve(Writable))
	b := must(e.NIC.Alloc(e.T, largeRegion))
	r := must(e.NIC.RegisterBuffer(e.T, b, vipl.MemAttributes{EnableRDMAWrite: true}))
	e.Is("one byte more than there is", errOf(e.NIC.RegisterMem(e.T, b.Address(), largeRegion+1, vipl.MemAttributes{})), vipl.ErrInvalidParameter)
	e.Is("more than the node has", errOf(e.NIC.Alloc(e.T, 1<<30)), vipl.ErrResource)
	check(errors.Join(p.tellRegion(0, r), p.awaits("written")))
	for i, at := range largeOffsets {
		if n := min(65536, largeRegion-at); !bytes.Equal(r.Bytes()[at:at+n], Pattern(n, i)) {
			return fmt.Errorf("%d bytes at %d are others", n, at)
		}
	}
	e.That("nothing is behind the second", bytes.Equal(r.Bytes()[2*65536+4090:2*65536+4090+4096], make([]byte, 4096)))
	got, err := e.NIC.ErrorWait(e.T, 0)
	e.Is("the write beyond the end is rejected", err, nil)
	e.That(fmt.Sprintf("error %v", got.Code), got.VI == p.VI.Index())
	e.Is("deregister", r.Deregister(e.T), nil)
	return errors.Join(p.Settled(0), e.NIC.Free(e.T, b))
}

func largeClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	for i, at := range largeOffsets {
		n := min(65536, largeRegion-at)
		copy(p.Mem.Bytes(), Pattern(n, i))
		must(p.Write(0, n, to, at))
		must(p.VI.SendWait(e.T, host.Second))
	}
	must(p.Write(0, 8, to, largeRegion-7))
	must(p.VI.SendWait(e.T, host.Second))
	return errors.Join(e.T.Sleep(5*host.Millisecond), p.step(1, "written"), p.Settled(1))
}
