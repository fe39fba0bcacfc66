// SPDX-License-Identifier: Apache-2.0

package vipl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
)

// Target is remote memory that may be written: what a peer must know.
type Target struct {
	Address uint64
	Handle  MemHandle
	Length  uint32
}

const targetBytes = 16

func (g Target) encode() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, targetBytes), g.Address)
	b = binary.LittleEndian.AppendUint32(b, g.Length)
	return binary.LittleEndian.AppendUint32(b, uint32(g.Handle)) // last: it is never 0
}

func decodeTarget(b []byte) (Target, error) {
	if len(b) != targetBytes {
		return Target{}, fmt.Errorf("%d bytes, want %d", len(b), targetBytes)
	}
	g := Target{
		Address: binary.LittleEndian.Uint64(b), Length: binary.LittleEndian.Uint32(b[8:]), Handle: MemHandle(binary.LittleEndian.Uint32(b[12:])),
	}
	if g.Handle == 0 {
		return Target{}, errors.New("handle 0")
	}
	return g, nil
}

// Layout of an endpoint's control page.
const (
	inboxOffset        = 0
	outboxOffset       = layout.DescriptorAlignment
	descriptorsOffset  = 2 * layout.DescriptorAlignment
	controlBytes       = layout.AttPageBytes
	controlDescriptors = (controlBytes - descriptorsOffset) / DescriptorBytes
	dialPause          = 100 * host.Microsecond
)

// Endpoint is what most programs begin with: an open NIC, one registered
// buffer that the peer may write, and one VI. When it is connected, each side
// knows the other's buffer. The parts may be used directly as well.
type Endpoint struct {
	NIC    *NIC
	VI     *VI
	Buffer *Region
	Peer   Target // the peer's buffer, once connected

	control     *Region
	descriptors [controlDescriptors]*Descriptor
	next        int
}

// OpenEndpoint opens the NIC of the thread's host and makes an endpoint with a
// buffer of so many bytes.
func OpenEndpoint(t *host.Thread, h *driver.Host, bytes int) (*Endpoint, error) {
	return OpenReliableEndpoint(t, h, bytes, Unreliable)
}

// OpenReliableEndpoint is OpenEndpoint with a reliability level, which must be
// the same at both ends.
func OpenReliableEndpoint(t *host.Thread, h *driver.Host, bytes int, level ReliabilityLevel) (*Endpoint, error) {
	return OpenEndpointWith(t, h, bytes, func(*NIC) (VIAttributes, error) { return VIAttributes{ReliabilityLevel: level}, nil })
}

// OpenEndpointWith is OpenEndpoint with a VI of other attributes, which may need the
// NIC, for completion queues. RDMA writes by the peer are enabled in any case. After an
// error nothing is left: the NIC handle is closed.
func OpenEndpointWith(t *host.Thread, h *driver.Host, bytes int, attributes func(*NIC) (VIAttributes, error)) (_ *Endpoint, err error) {
	nic, err := OpenNIC(t, h)
	if err != nil {
		return nil, err
	}
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
	registered := func(bytes int) (*Region, error) {
		b, err := nic.Alloc(t, bytes)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, b)
		return nic.RegisterBuffer(t, b, MemAttributes{EnableRDMAWrite: true})
	}
	e := &Endpoint{NIC: nic}
	if e.Buffer, err = registered(bytes); err != nil {
		return nil, err
	}
	if e.control, err = registered(controlBytes); err != nil {
		return nil, err
	}
	for i := range e.descriptors {
		if e.descriptors[i], err = e.control.Descriptor(descriptorsOffset+i*DescriptorBytes, 1); err != nil {
			return nil, err
		}
	}
	a, err := attributes(nic)
	if err != nil {
		return nil, err
	}
	a.EnableRDMAWrite = true
	if e.VI, err = nic.CreateVI(t, a); err != nil {
		return nil, err
	}
	return e, nil
}

// Bytes returns the endpoint's buffer.
func (e *Endpoint) Bytes() []byte { return e.Buffer.Bytes() }

// Dial connects to the endpoint that accepts at a remote address, and keeps
// trying while nobody does.
func (e *Endpoint) Dial(t *host.Thread, remote NetAddress, timeout host.Time) error {
	inbox := e.control.Bytes()[inboxOffset : inboxOffset+targetBytes]
	clear(inbox)
	// The own discriminator tells the server both this buffer and where to write its own.
	own := NetAddress{Discriminator: string(append(e.target().encode(), e.inbox().encode()...))}
	for left := timeout; ; {
		_, err := e.VI.ConnectRequest(t, own, remote, left)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrNoMatch) || left <= dialPause {
			return err
		}
		if left != Infinite {
			left -= dialPause
		}
		if err := t.Sleep(dialPause); err != nil {
			return translate("dial", e.VI, err)
		}
	}
	// The server's handle is the last word that it writes.
	word := inbox[targetBytes-4:]
	if err := e.control.Poll(t, inboxOffset+targetBytes-4, 4, timeout, func() bool { return mem.LoadUint32(word) != 0 }); err != nil {
		return err
	}
	peer, err := decodeTarget(inbox)
	if err != nil {
		return e.VI.fail("dial", ErrReject, fmt.Errorf("what %v wrote is not an endpoint's buffer: %w", remote, err))
	}
	e.Peer = peer
	return nil
}

func (e *Endpoint) target() Target {
	return Target{e.Buffer.Address(), e.Buffer.Handle(), uint32(len(e.Buffer.Bytes()))}
}

func (e *Endpoint) inbox() Target {
	return Target{e.control.Address() + inboxOffset, e.control.Handle(), targetBytes}
}

// Accept waits for an endpoint that dials the discriminator and connects with it.
func (e *Endpoint) Accept(t *host.Thread, discriminator string, timeout host.Time) error {
	r, err := e.NIC.ConnectWait(t, NetAddress{Host: e.NIC.info.Address, Discriminator: discriminator}, timeout)
	if err != nil {
		return err
	}
	peer, inbox, err := decodeTargets(r.RemoteAddress.Discriminator)
	if err != nil {
		refusal := e.VI.fail("accept", ErrInvalidParameter, fmt.Errorf("%v is not an endpoint: %w", r.RemoteAddress, err))
		return errors.Join(refusal, r.Reject(t))
	}
	if err := r.Accept(t, e.VI); err != nil {
		return err
	}
	e.Peer = peer
	copy(e.control.Bytes()[outboxOffset:], e.target().encode())
	return e.write(t, e.control.Segment(outboxOffset, targetBytes), inbox, timeout)
}

func decodeTargets(discriminator string) (buffer, inbox Target, err error) {
	if len(discriminator) != 2*targetBytes {
		return buffer, inbox, fmt.Errorf("a discriminator of %d bytes, want %d", len(discriminator), 2*targetBytes)
	}
	buffer, err = decodeTarget([]byte(discriminator[:targetBytes]))
	if err != nil {
		return buffer, inbox, err
	}
	inbox, err = decodeTarget([]byte(discriminator[targetBytes:]))
	return buffer, inbox, err
}

// Write sends n bytes from offset from of the own buffer to offset to of the
// peer's, and waits until the own NIC is done with them.
func (e *Endpoint) Write(t *host.Thread, from, n, to int, timeout host.Time) error {
	if from < 0 || n < 0 || to < 0 || from > len(e.Buffer.Bytes())-n || int64(to)+int64(n) > int64(e.Peer.Length) {
		return e.VI.fail("write", ErrInvalidParameter, fmt.Errorf("%d bytes from %d of %d to %d of %d", n, from, len(e.Buffer.Bytes()), to, e.Peer.Length))
	}
	return e.write(t, e.Buffer.Segment(from, n), Target{e.Peer.Address + uint64(to), e.Peer.Handle, uint32(n)}, timeout)
}

func (e *Endpoint) write(t *host.Thread, s Segment, to Target, timeout host.Time) error {
	d := e.descriptors[e.next]
	e.next = (e.next + 1) % controlDescriptors
	d.SetRDMAWrite(s, to.Address, to.Handle)
	if err := e.VI.PostSend(t, d); err != nil {
		return err
	}
	_, err := e.VI.SendWait(t, timeout)
	return err
}

// Poll waits until a byte of the own buffer has a value; ErrTimeout when the
// timeout comes first. Frames are stored in order, so a message's last byte is
// the one to wait for.
func (e *Endpoint) Poll(t *host.Thread, offset int, value byte, timeout host.Time) error {
	if offset < 0 || offset >= len(e.Bytes()) {
		return e.VI.fail("poll", ErrInvalidParameter, fmt.Errorf("byte %d of %d", offset, len(e.Bytes())))
	}
	return e.Buffer.Poll(t, offset, 1, timeout, func() bool { return e.Bytes()[offset] == value })
}

// Close disconnects and closes the NIC handle with everything in it.
func (e *Endpoint) Close(t *host.Thread) error {
	return errors.Join(e.VI.Disconnect(t), e.NIC.Close(t))
}
