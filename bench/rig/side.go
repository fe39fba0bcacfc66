// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"

	"hvia/bench/report"
	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// An Exchange is the operation with which the sides of an experiment send
// messages.
type Exchange string

const (
	RDMAWrite   Exchange = "RDMA write"
	SendReceive Exchange = "send/receive"
	MviaSend    Exchange = "M-VIA" // send/receive over a plain NIC
	TCPStream   Exchange = "TCP/IP"

	// On VIs of reliable delivery.
	ReliableWrite Exchange = "RDMA write, reliable delivery"
	RDMARead      Exchange = "RDMA read"
)

// CardExchanges are those over the card, whose hosts may be two processes.
var CardExchanges = []Exchange{RDMAWrite, SendReceive, ReliableWrite, RDMARead}

// Key names the exchange in reports.
func (x Exchange) Key() string {
	return map[Exchange]string{
		RDMAWrite: report.ProtocolRDMAWrite, SendReceive: report.ProtocolSendReceive, MviaSend: report.ProtocolMvia, TCPStream: report.ProtocolTCP,
		ReliableWrite: report.ProtocolReliableWrite, RDMARead: report.ProtocolRDMARead,
	}[x]
}

// inKernel says that the protocol runs in the hosts' kernels, over plain NICs.
func (x Exchange) inKernel() bool { return x == MviaSend || x == TCPStream }

// OneSided says that the receiving program posts no receives.
func (x Exchange) OneSided() bool { return x == RDMAWrite || x == ReliableWrite || x == RDMARead }

func (x Exchange) level() vipl.ReliabilityLevel {
	if x == ReliableWrite || x == RDMARead {
		return vipl.ReliableDelivery
	}
	return vipl.Unreliable
}

type end interface {
	Connect(t *host.Thread) error // nodes of even number call the next one
	Index() int                   // of the VI, if there is one
	Memory() *arena
	Send(t *host.Thread, w Pattern, n int) error
	Sent(t *host.Thread) error // reaps the descriptor of the sent message
	Receive(t *host.Thread, w Pattern, n int) error
	Close(t *host.Thread) error
}

func OpenEnd(t *host.Thread, h *driver.Host, x Exchange, seed uint64, size int) (end, error) {
	if x == TCPStream {
		return openTCP(t, h, seed, size)
	}
	return OpenSide(t, h, x, size)
}

func (x Exchange) Stages() []stageEnd {
	if x == SendReceive {
		return SendReceiveStages
	}
	return RDMAWriteStages
}

// Side is one end of an experiment: a connection, a buffer for a message each
// way, and descriptors.
type Side struct {
	exchange   Exchange
	Endpoint   *Endpoint
	Arena      *arena
	Descriptor *vipl.Descriptor

	// Descriptors for send and receive: one waits for a message while the next
	// one is posted.
	Receives [2]*vipl.Descriptor
	posted   int // receives so far
	taken    int // receives reaped

	// Over a plain NIC a program that waits for its send is woken for it. If it
	// reaps the send after the reply, it has one wake instead of two.
	under bool // a send is in flight
}

var _ end = (*Side)(nil)

func (s *Side) Memory() *arena { return s.Arena }
func (s *Side) Index() int     { return s.Endpoint.VI.Index() }

func (s *Side) Connect(t *host.Thread) error {
	if n := t.ID().Node; n%2 == 0 {
		return s.Endpoint.Dial(t, vipl.At(n+1, pingPort), WaitLimit)
	}
	return s.Endpoint.Accept(t, pingPort, WaitLimit)
}

func (s *Side) Close(t *host.Thread) error {
	if err := s.settle(t); err != nil {
		return err
	}
	return s.Endpoint.Close(t)
}

// OpenSide opens a NIC and makes a side. With send and receive, it posts the
// receive of the first message before there is a connection.
func OpenSide(t *host.Thread, h *driver.Host, x Exchange, size int) (*Side, error) {
	e, err := OpenEndpoint(t, h, arenaBytes(size), func(*vipl.NIC) (vipl.VIAttributes, error) {
		return vipl.VIAttributes{ReliabilityLevel: x.level(), EnableRDMARead: x == RDMARead}, nil
	})
	if err != nil {
		return nil, err
	}
	if x == RDMARead {
		if err := e.NIC.SetMemAttributes(t, e.Buffer.Address(), e.Buffer.Handle(), vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}); err != nil {
			return nil, err
		}
	}
	b, err := e.NIC.Alloc(t, layout.AttPageBytes)
	if err != nil {
		return nil, err
	}
	control, err := e.NIC.RegisterBuffer(t, b, vipl.MemAttributes{})
	if err != nil {
		return nil, err
	}
	s := &Side{exchange: x, Endpoint: e, Arena: newArena(e.Bytes(), size)}
	for i, d := range []**vipl.Descriptor{&s.Descriptor, &s.Receives[0], &s.Receives[1]} {
		if *d, err = control.Descriptor(i*vipl.DescriptorBytes, 1); err != nil {
			return nil, err
		}
	}
	return s, s.postReceive(t)
}

// postReceive posts the next receive; an RDMA write needs none. The descriptor
// has capacity for the longest message at every size.
func (s *Side) postReceive(t *host.Thread) error {
	if s.exchange.OneSided() {
		return nil
	}
	d := s.Receives[s.posted%len(s.Receives)]
	s.posted++
	if err := d.SetReceive(s.Endpoint.Buffer.Segment(s.Arena.ReceiveOffset(), s.Arena.size)); err != nil {
		return err
	}
	return s.Endpoint.VI.PostRecv(t, d)
}

// Send posts the round's message of n bytes and, while it is in flight, the
// receive for the message after the next incoming one.
func (s *Side) Send(t *host.Thread, w Pattern, n int) error {
	w.Fill(s.Arena.Sending(n))
	local := s.Endpoint.Buffer.Segment(s.Arena.SendOffset(), n)
	if s.exchange.OneSided() {
		if err := s.Descriptor.SetRDMAWrite(s.Endpoint.Peer.Address+uint64(s.Arena.ReceiveOffset()), s.Endpoint.Peer.Handle, local); err != nil {
			return err
		}
	} else if err := s.Descriptor.SetSend(local); err != nil {
		return err
	}
	if err := s.Endpoint.VI.PostSend(t, s.Descriptor); err != nil {
		return err
	}
	return s.postReceive(t)
}

// Receive waits for the round's message: it polls its last byte, or reaps its
// receive descriptor.
func (s *Side) Receive(t *host.Thread, w Pattern, n int) error {
	if s.exchange.OneSided() {
		return s.Endpoint.Poll(t, s.Arena.ReceiveOffset()+n-1, w.Last(), WaitLimit)
	}
	d, err := s.Endpoint.VI.RecvWait(t, WaitLimit)
	if err != nil {
		return err
	}
	want := s.Receives[s.taken%len(s.Receives)]
	s.taken++
	if d != want || d.Length() != n {
		return fmt.Errorf("receive %d: descriptor %#x with %d bytes, want %#x with %d", s.taken, d.Address, d.Length(), want.Address, n)
	}
	return s.settle(t)
}

// Sent reaps the completed descriptor, now or in a later call.
func (s *Side) Sent(t *host.Thread) error {
	s.under = true
	if s.exchange.inKernel() {
		return nil
	}
	return s.settle(t)
}

// settle reaps the descriptor of a send in flight, if there is one.
func (s *Side) settle(t *host.Thread) error {
	if !s.under {
		return nil
	}
	s.under = false
	_, err := s.Endpoint.VI.SendWait(t, WaitLimit)
	return err
}

// Read reads n bytes of the peer's send buffer and waits for the descriptor's
// completion, before which the data is undefined.
func (s *Side) Read(t *host.Thread, n int) error {
	if err := s.Descriptor.SetRDMARead(s.Endpoint.Peer.Address+uint64(s.Arena.SendOffset()), s.Endpoint.Peer.Handle, s.Endpoint.Buffer.Segment(s.Arena.ReceiveOffset(), n)); err != nil {
		return err
	}
	if err := s.Endpoint.VI.PostSend(t, s.Descriptor); err != nil {
		return err
	}
	_, err := s.Endpoint.VI.SendWait(t, WaitLimit)
	return err
}
