// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

// Main is the program of a node.
type Main func(e *Env) error

// Env is the environment of a test program: an open NIC and shorthands.
type Env struct {
	T    *host.Thread
	H    *driver.Host
	NIC  *vipl.NIC
	Fail []error
}

// Is records a call that did not return the wanted error.
func (e *Env) Is(what string, got, want error) {
	if !errors.Is(got, want) {
		e.Fail = append(e.Fail, errors.New(what+": got "+Text(got)+", wanted "+Text(want)))
	}
}

func (e *Env) That(what string, ok bool) {
	if !ok {
		e.Fail = append(e.Fail, errors.New(what))
	}
}

func Text(err error) string {
	if err == nil {
		return "no error"
	}
	return "'" + err.Error() + "'"
}

// onMvia reports whether the host's kernel implements the VIs.
func (e *Env) onMvia() bool { return e.H.Device() == driver.DeviceMvia }

// Peer is one end of a connection, with a registered buffer and memory for
// descriptors.
type Peer struct {
	*Env
	VI          *vipl.VI
	buf         *mem.Buffer
	Mem         *vipl.Region
	descriptors *vipl.Region
	posted      int
}

const (
	bufferBytes = 80 * 1024
	Attempts    = 1000
)

func (e *Env) Prepare(a vipl.VIAttributes) (*Peer, error) {
	p := &Peer{Env: e}
	var err error
	p.VI = must(e.NIC.CreateVI(e.T, a))
	p.buf = must(e.NIC.Alloc(e.T, bufferBytes))
	p.Mem = must(e.NIC.RegisterBuffer(e.T, p.buf, vipl.MemAttributes{EnableRDMAWrite: true}))
	d := must(e.NIC.Alloc(e.T, 32*1024*4))
	p.descriptors, err = e.NIC.RegisterBuffer(e.T, d, vipl.MemAttributes{})
	return p, err
}

// Serve waits for a connection and accepts it.
func (e *Env) Serve(a vipl.VIAttributes) (*Peer, error) {
	p := must(e.Prepare(a))
	r := must(e.NIC.ConnectWait(e.T, vipl.NetAddress{Host: e.NIC.Query().LocalAddress, Discriminator: "test"}, vipl.Infinite))
	return p, r.Accept(e.T, p.VI)
}

// Dial connects to a node. It retries, because the node's program may not wait
// yet.
func (e *Env) Dial(node int, a vipl.VIAttributes) (*Peer, error) {
	p := must(e.Prepare(a))
	return p, p.Redial(node)
}

var Writable = vipl.VIAttributes{EnableRDMAWrite: true}

// Raw returns a descriptor's memory, to write values that its setters reject.
func Raw(d *vipl.Descriptor) layout.Descriptor { return d.Bytes() }

// Next returns a fresh descriptor.
func (p *Peer) Next() *vipl.Descriptor {
	d, err := p.descriptors.Descriptor(p.posted%2048*vipl.DescriptorBytes, 1)
	if err != nil {
		panic(err)
	}
	p.posted++
	return d
}

// Remote is an address that a program sends to its peer through the mailbox, as
// programs use another channel before they post a receive.
type Remote struct {
	Address uint64
	Handle  vipl.MemHandle
}

func (p *Peer) Tell(node int) error {
	b := make([]byte, layout.AddressSegmentSize)
	layout.AddressSegment(b).SetAddress(p.Mem.Address())
	layout.AddressSegment(b).SetHandle(uint32(p.Mem.Handle()))
	return p.T.Send(host.ThreadID{Node: node, Rank: 1}, b)
}

func (p *Peer) Hear() (Remote, error) {
	m, ok := must2(p.T.Receive(host.Second))
	if !ok || len(m.Data) != layout.AddressSegmentSize {
		return Remote{}, errors.New("the peer's address did not come")
	}
	s := layout.AddressSegment(m.Data)
	return Remote{s.Address(), vipl.MemHandle(s.Handle())}, nil
}

// Write posts one RDMA write.
func (p *Peer) Write(offset, n int, to Remote, at int) (*vipl.Descriptor, error) {
	d := p.Next()
	d.SetRDMAWrite(to.Address+uint64(at), to.Handle, p.Mem.Segment(offset, n))
	return d, p.VI.PostSend(p.T, d)
}

// Settled waits for the other side's last message before the program ends.
func (p *Peer) Settled(node int) error {
	check(p.T.Send(host.ThreadID{Node: node, Rank: 1}, []byte("end")))
	m, ok, err := p.T.Receive(host.Second)
	if err == nil && (!ok || string(m.Data) != "end") {
		return errors.New("the peer did not end")
	}
	return err
}

// openMemory registers the peer's buffer once more, with all rights for the
// other side.
func (p *Peer) openMemory() (*vipl.Region, error) {
	return p.NIC.RegisterBuffer(p.T, p.buf, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true})
}

// tellRegion is Tell for another region of the buffer.
func (p *Peer) tellRegion(node int, r *vipl.Region) error {
	return (&Peer{Env: p.Env, Mem: r}).Tell(node)
}

// other is the other node.
func (p *Peer) other() int { return 1 - p.H.Node() }
