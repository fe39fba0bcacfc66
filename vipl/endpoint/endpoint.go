// SPDX-License-Identifier: Apache-2.0

// Package endpoint connects two programs with one call each. An Endpoint is an
// open NIC, one VI and one registered buffer, which it advertises to the peer.
// Each end can write the other's buffer, read it at a reliability level with
// RDMA reads, and send messages.
package endpoint

import (
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

const (
	// MaxMessage is the length of the longest message of Send.
	MaxMessage = layout.AttPageBytes

	defaultBytes    = 64 * 1024
	defaultReceives = 8
	dialPause       = 100 * host.Microsecond
)

// Config configures Open. The zero value of a field takes the default.
type Config struct {
	Bytes            int                   // of the buffer: 65,536
	ReliabilityLevel vipl.ReliabilityLevel // the same at both ends: unreliable
	Blocking         bool                  // waits sleep instead of polling

	// Receives is the number of messages that may wait for Recv: 8. A message
	// beyond them is lost or, at a reliable level, breaks the connection. -1 is
	// for a program that posts its receives itself.
	Receives int
}

// Endpoint is an open NIC with one VI and one buffer. Its parts may be used
// directly.
type Endpoint struct {
	NIC    *vipl.NIC
	VI     *vipl.VI
	Buffer *vipl.Region
	Peer   vipl.RemoteRegion // the peer's buffer, once connected

	control  *vipl.Region // send descriptor, outgoing message, incoming ones, their receives
	send     *vipl.Descriptor
	receives []*vipl.Descriptor
	received int  // messages so far
	held     bool // the program holds the last of them
}

// Open opens the NIC of the thread's host and makes an endpoint. An error
// leaves nothing behind.
func Open(t *host.Thread, h *driver.Host, c Config) (_ *Endpoint, err error) {
	if c.Bytes == 0 {
		c.Bytes = defaultBytes
	}
	if c.Receives == 0 {
		c.Receives = defaultReceives
	}
	nic, err := vipl.OpenNIC(t, h)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{NIC: nic, receives: make([]*vipl.Descriptor, max(c.Receives, 0))}
	var buffers []*mem.Buffer
	defer func() {
		if err == nil {
			return
		}
		err = errors.Join(err, nic.Close(t))
		for _, b := range buffers {
			err = errors.Join(err, nic.Free(t, b))
		}
	}()
	registered := func(bytes int, a vipl.MemAttributes) (*vipl.Region, error) {
		b, err := nic.Alloc(t, bytes)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, b)
		return nic.RegisterBuffer(t, b, a)
	}
	reads := nic.Query().RDMAReadSupport&c.ReliabilityLevel != 0
	e.Buffer, err = registered(c.Bytes, vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: reads})
	if err != nil {
		return nil, err
	}
	if e.control, err = registered((2+len(e.receives))*MaxMessage+len(e.receives)*vipl.DescriptorBytes, vipl.MemAttributes{}); err != nil {
		return nil, err
	}
	e.VI, err = nic.CreateVI(t, vipl.VIAttributes{
		ReliabilityLevel: c.ReliabilityLevel, EnableRDMAWrite: true, EnableRDMARead: reads, Blocking: c.Blocking,
	})
	if err != nil {
		return nil, err
	}
	if err := e.VI.Offer(t, e.Buffer); err != nil {
		return nil, err
	}
	if e.send, err = e.control.Descriptor(0, 1); err != nil {
		return nil, err
	}
	for i := range e.receives {
		if e.receives[i], err = e.control.Descriptor((2+len(e.receives))*MaxMessage+i*vipl.DescriptorBytes, 1); err != nil {
			return nil, err
		}
		if err := e.post(t, i); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (e *Endpoint) post(t *host.Thread, i int) error {
	d := e.receives[i]
	if err := d.SetReceive(e.control.Segment((2+i)*MaxMessage, MaxMessage)); err != nil {
		return err
	}
	return e.VI.PostRecv(t, d)
}

func (e *Endpoint) fail(op string, s vipl.Status, format string, a ...any) error {
	return &vipl.Error{Op: op, VI: e.VI, Status: s, Detail: fmt.Errorf(format, a...)}
}

// Bytes returns the endpoint's buffer.
func (e *Endpoint) Bytes() []byte { return e.Buffer.Bytes() }

// Dial connects to the endpoint that accepts at a remote address. It retries
// until one does.
func (e *Endpoint) Dial(t *host.Thread, remote vipl.NetAddress, timeout host.Time) error {
	left := t.Countdown(timeout)
	for {
		_, err := e.VI.ConnectRequest(t, vipl.NetAddress{}, remote, left())
		if err == nil {
			break
		}
		if !errors.Is(err, vipl.ErrNoMatch) || left() <= dialPause {
			return err
		}
		if err := t.Sleep(dialPause); err != nil {
			return err
		}
	}
	if !e.meet() {
		refusal := e.fail("dial", vipl.ErrReject, "what accepts at %v is not an endpoint: it advertises no buffer to write", remote)
		return errors.Join(refusal, e.VI.Disconnect(t))
	}
	return nil
}

// Accept waits for an endpoint that dials the discriminator, and connects.
func (e *Endpoint) Accept(t *host.Thread, discriminator string, timeout host.Time) error {
	r, err := e.NIC.ConnectWait(t, vipl.NetAddress{Discriminator: discriminator}, timeout)
	if err != nil {
		return err
	}
	if !isEndpoint(r.RemoteRegions) {
		refusal := e.fail("accept", vipl.ErrInvalidParameter, "%v is not an endpoint: it advertises no buffer to write", r.RemoteAddress)
		return errors.Join(refusal, r.Reject(t))
	}
	if err := r.Accept(t, e.VI); err != nil {
		return err
	}
	e.meet()
	return nil
}

func isEndpoint(advertised []vipl.RemoteRegion) bool {
	return len(advertised) == 1 && advertised[0].EnableRDMAWrite
}

// meet notes the peer's buffer, and says whether it advertises one.
func (e *Endpoint) meet() bool {
	advertised := e.VI.RemoteRegions()
	if !isEndpoint(advertised) {
		return false
	}
	e.Peer = advertised[0]
	return true
}

// Write copies n bytes of the own buffer from offset from to offset to of the
// peer's, and waits for the completion of the send descriptor.
func (e *Endpoint) Write(t *host.Thread, from, n, to int, timeout host.Time) error {
	if err := e.check("write", from, n, to); err != nil {
		return err
	}
	if err := e.send.SetRDMAWrite(e.Peer.Address+uint64(to), e.Peer.Handle, e.Buffer.Segment(from, n)); err != nil {
		return err
	}
	return e.posted(t, timeout)
}

// Read copies n bytes of the peer's buffer from offset from to offset to of the
// own one. It needs a reliability level with RDMA reads.
func (e *Endpoint) Read(t *host.Thread, from, n, to int, timeout host.Time) error {
	if err := e.check("read", to, n, from); err != nil {
		return err
	}
	if err := e.send.SetRDMARead(e.Peer.Address+uint64(from), e.Peer.Handle, e.Buffer.Segment(to, n)); err != nil {
		return err
	}
	return e.posted(t, timeout)
}

// check compares n bytes at an offset of the own buffer, and at one of the
// peer's, with the sizes of both.
func (e *Endpoint) check(op string, own, n, peers int) error {
	if own < 0 || n < 0 || peers < 0 || own > len(e.Bytes())-n || uint64(peers)+uint64(n) > e.Peer.Length {
		return e.fail(op, vipl.ErrInvalidParameter, "%d bytes at %d of %d, at the peer %d of %d", n, own, len(e.Bytes()), peers, e.Peer.Length)
	}
	return nil
}

func (e *Endpoint) posted(t *host.Thread, timeout host.Time) error {
	if err := e.VI.PostSend(t, e.send); err != nil {
		return err
	}
	_, err := e.VI.SendWait(t, timeout)
	return err
}

// Poll waits until a byte of the own buffer has a value; ErrTimeout when the
// timeout comes first. Frames are stored in order, so wait for the last byte of
// a message.
func (e *Endpoint) Poll(t *host.Thread, offset int, value byte, timeout host.Time) error {
	if offset < 0 || offset >= len(e.Bytes()) {
		return e.fail("poll", vipl.ErrInvalidParameter, "byte %d of %d", offset, len(e.Bytes()))
	}
	return e.Buffer.Poll(t, offset, 1, timeout, func() bool { return e.Bytes()[offset] == value })
}

// Send sends a message of at most MaxMessage bytes to the peer's Recv, and
// waits for the completion of the send descriptor.
func (e *Endpoint) Send(t *host.Thread, message []byte, timeout host.Time) error {
	if len(message) > MaxMessage {
		return e.fail("send", vipl.ErrInvalidParameter, "a message of %d bytes, at most %d can be sent", len(message), MaxMessage)
	}
	copy(e.control.Bytes()[MaxMessage:], message)
	if err := e.send.SetSend(e.control.Segment(MaxMessage, len(message))); err != nil {
		return err
	}
	return e.posted(t, timeout)
}

// Recv waits for the peer's next message. Its bytes are valid until the next
// Recv.
func (e *Endpoint) Recv(t *host.Thread, timeout host.Time) ([]byte, error) {
	if e.held {
		if err := e.post(t, (e.received-1)%len(e.receives)); err != nil {
			return nil, err
		}
		e.held = false
	}
	if len(e.receives) == 0 {
		return nil, e.fail("receive", vipl.ErrInvalidParameter, "the endpoint was opened without receives")
	}
	d, err := e.VI.RecvWait(t, timeout)
	if err != nil {
		return nil, err
	}
	i := e.received % len(e.receives)
	e.received++
	e.held = true
	return e.control.Bytes()[(2+i)*MaxMessage:][:d.Length()], nil
}

// Close disconnects and closes the NIC handle with everything in it.
func (e *Endpoint) Close(t *host.Thread) error {
	return errors.Join(e.VI.Disconnect(t), e.NIC.Close(t))
}
