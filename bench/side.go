// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/driver"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// An exchange is a way in which the sides of an experiment send messages.
type exchange string

const (
	rdmaWrite   exchange = "RDMA write"
	sendReceive exchange = "send/receive"
	mviaSend    exchange = "M-VIA"  // send/receive over a plain NIC
	tcpStream   exchange = "TCP/IP" // a connection of it

	// Of a VI of reliable delivery.
	reliableWrite exchange = "RDMA write, reliable delivery"
	rdmaRead      exchange = "RDMA read"
)

// cardExchanges are those over the card, whose hosts may be two processes.
var cardExchanges = []exchange{rdmaWrite, sendReceive, reliableWrite, rdmaRead}

// key names the exchange in reports.
func (x exchange) key() string {
	return map[exchange]string{
		rdmaWrite: report.ProtocolRDMAWrite, sendReceive: report.ProtocolSendReceive, mviaSend: report.ProtocolMvia, tcpStream: report.ProtocolTCP,
		reliableWrite: report.ProtocolReliableWrite, rdmaRead: report.ProtocolRDMARead,
	}[x]
}

// inKernel says that the protocol runs in the hosts' kernels, over plain NICs.
func (x exchange) inKernel() bool { return x == mviaSend || x == tcpStream }

// oneSided says that the receiving program posts no receives.
func (x exchange) oneSided() bool { return x == rdmaWrite || x == reliableWrite || x == rdmaRead }

// level is that of the exchange's VIs.
func (x exchange) level() vipl.ReliabilityLevel {
	if x == reliableWrite || x == rdmaRead {
		return vipl.ReliableDelivery
	}
	return vipl.Unreliable
}

// An end is one end of a ping-pong.
type end interface {
	connect(t *host.Thread) error // node 0 calls, the other waits
	index() int                   // of the VI, if there is one
	memory() *arena
	send(t *host.Thread, w pattern, n int) error
	sent(t *host.Thread) error // takes the sent message back
	receive(t *host.Thread, w pattern, n int) error
	close(t *host.Thread) error
}

func openEnd(t *host.Thread, h *driver.Host, x exchange, seed uint64, size int) (end, error) {
	if x == tcpStream {
		return openTCP(t, h, seed, size)
	}
	return openSide(t, h, x, size)
}

func (x exchange) stages() []stageEnd {
	if x == sendReceive {
		return sendReceiveStages
	}
	return rdmaWriteStages
}

// side is one end of an experiment: a connection, a buffer with room for a message each way,
// and descriptors.
type side struct {
	exchange   exchange
	endpoint   *rig.Endpoint
	arena      *arena
	descriptor *vipl.Descriptor

	// Of send and receive: one waits for a message while the next one is posted.
	receives [2]*vipl.Descriptor
	posted   int // receives so far
	taken    int // of them

	// Over a plain NIC a program that waits for a send is woken when it is read, or with the
	// message that it is to answer; it has one of the two wakes only if it takes the send
	// back after that message.
	under bool // a send is under way
}

var _ end = (*side)(nil)

func (s *side) memory() *arena { return s.arena }
func (s *side) index() int     { return s.endpoint.VI.Index() }

func (s *side) connect(t *host.Thread) error {
	if t.ID().Node == 0 {
		return s.endpoint.Dial(t, vipl.At(1, pingPort), waitLimit)
	}
	return s.endpoint.Accept(t, pingPort, waitLimit)
}

func (s *side) close(t *host.Thread) error {
	if err := s.settle(t); err != nil {
		return err
	}
	return s.endpoint.Close(t)
}

// openSide opens a NIC and makes a side. With send and receive, the receive of
// the first message is posted before there is a connection.
func openSide(t *host.Thread, h *driver.Host, x exchange, size int) (*side, error) {
	e, err := rig.OpenEndpoint(t, h, arenaBytes(size), func(*vipl.NIC) (vipl.VIAttributes, error) {
		return vipl.VIAttributes{ReliabilityLevel: x.level(), EnableRDMARead: x == rdmaRead}, nil
	})
	if err != nil {
		return nil, err
	}
	if x == rdmaRead {
		if err := e.Buffer.SetAttributes(t, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}); err != nil {
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
	s := &side{exchange: x, endpoint: e, arena: newArena(e.Bytes(), size)}
	for i, d := range []**vipl.Descriptor{&s.descriptor, &s.receives[0], &s.receives[1]} {
		if *d, err = control.Descriptor(i*vipl.DescriptorBytes, 1); err != nil {
			return nil, err
		}
	}
	return s, s.postReceive(t)
}

// postReceive posts the receive of the message after the last one for which
// there is a receive; an RDMA write needs none. Room for the longest is there
// at every size.
func (s *side) postReceive(t *host.Thread) error {
	if s.exchange.oneSided() {
		return nil
	}
	d := s.receives[s.posted%len(s.receives)]
	s.posted++
	if err := d.SetReceive(s.endpoint.Buffer.Segment(s.arena.receiveOffset(), s.arena.size)); err != nil {
		return err
	}
	return s.endpoint.VI.PostRecv(t, d)
}

// send posts the round's message of n bytes and, while it is under way, the
// receive of the one after the next to come.
func (s *side) send(t *host.Thread, w pattern, n int) error {
	w.fill(s.arena.sending(n))
	local := s.endpoint.Buffer.Segment(s.arena.sendOffset(), n)
	if s.exchange.oneSided() {
		if err := s.descriptor.SetRDMAWrite(s.endpoint.Peer.Address+uint64(s.arena.receiveOffset()), s.endpoint.Peer.Handle, local); err != nil {
			return err
		}
	} else if err := s.descriptor.SetSend(local); err != nil {
		return err
	}
	if err := s.endpoint.VI.PostSend(t, s.descriptor); err != nil {
		return err
	}
	return s.postReceive(t)
}

// receive waits for the round's message: it polls its last byte, or takes its
// receive descriptor.
func (s *side) receive(t *host.Thread, w pattern, n int) error {
	if s.exchange.oneSided() {
		return s.endpoint.Poll(t, s.arena.receiveOffset()+n-1, w.last(), waitLimit)
	}
	d, err := s.endpoint.VI.RecvWait(t, waitLimit)
	if err != nil {
		return err
	}
	want := s.receives[s.taken%len(s.receives)]
	s.taken++
	if d != want || d.Length() != n {
		return fmt.Errorf("receive %d: descriptor %#x with %d bytes, want %#x with %d", s.taken, d.Address, d.Length(), want.Address, n)
	}
	return s.settle(t)
}

// sent takes the completed descriptor back, or sees to it that it is.
func (s *side) sent(t *host.Thread) error {
	s.under = true
	if s.exchange.inKernel() {
		return nil
	}
	return s.settle(t)
}

// settle takes the descriptor of a send back, if there is one under way.
func (s *side) settle(t *host.Thread) error {
	if !s.under {
		return nil
	}
	s.under = false
	_, err := s.endpoint.VI.SendWait(t, waitLimit)
	return err
}

// read reads n bytes of what the peer has to send, and waits for the
// descriptor's completion, before which VIA promises nothing of the data.
func (s *side) read(t *host.Thread, n int) error {
	if err := s.descriptor.SetRDMARead(s.endpoint.Peer.Address+uint64(s.arena.sendOffset()), s.endpoint.Peer.Handle, s.endpoint.Buffer.Segment(s.arena.receiveOffset(), n)); err != nil {
		return err
	}
	if err := s.endpoint.VI.PostSend(t, s.descriptor); err != nil {
		return err
	}
	_, err := s.endpoint.VI.SendWait(t, waitLimit)
	return err
}
