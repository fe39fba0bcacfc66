// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/binary"
	"errors"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

const targetBytes = 16

func target(r *vipl.Region, bytes int) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, targetBytes), r.Address())
	b = binary.LittleEndian.AppendUint32(b, uint32(bytes))
	return binary.LittleEndian.AppendUint32(b, uint32(r.Handle())) // last: it is never 0
}

func decodeTarget(b []byte) (vipl.RemoteRegion, error) {
	if len(b) < targetBytes || binary.LittleEndian.Uint32(b[12:]) == 0 {
		return vipl.RemoteRegion{}, errors.New("the peer is not an endpoint of an experiment")
	}
	return vipl.RemoteRegion{
		Address: binary.LittleEndian.Uint64(b), Length: uint64(binary.LittleEndian.Uint32(b[8:])), Handle: vipl.MemHandle(binary.LittleEndian.Uint32(b[12:])),
	}, nil
}

// Layout of an endpoint's control page.
const (
	inboxOffset      = 0
	outboxOffset     = layout.DescriptorAlignment
	descriptorOffset = 2 * layout.DescriptorAlignment
	dialPause        = 100 * host.Microsecond
)

// Endpoint is an open NIC, one registered buffer that the peer may write, and
// one VI. When it is connected, each side knows the other's buffer: the dialing
// side's discriminator carries its target, and the accepting side writes its
// target with the first RDMA write. In vipl/endpoint the connection advertises
// them; the times of the experiments include this exchange.
type Endpoint struct {
	NIC    *vipl.NIC
	VI     *vipl.VI
	Buffer *vipl.Region
	Peer   vipl.RemoteRegion // the peer's buffer, once connected

	control    *vipl.Region
	descriptor *vipl.Descriptor
}

// OpenEndpoint opens the NIC of the thread's host and makes an endpoint with a
// buffer of the given size. The callback returns the attributes of its VI,
// which may need the NIC for completion queues. RDMA writes by the peer are
// always enabled.
func OpenEndpoint(t *host.Thread, h *driver.Host, bytes int, attributes func(*vipl.NIC) (vipl.VIAttributes, error)) (_ *Endpoint, err error) {
	nic, err := vipl.OpenNIC(t, h)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, nic.Close(t))
		}
	}()
	registered := func(bytes int) (*vipl.Region, error) {
		b, err := nic.Alloc(t, bytes)
		if err != nil {
			return nil, err
		}
		return nic.RegisterBuffer(t, b, vipl.MemAttributes{EnableRDMAWrite: true})
	}
	e := &Endpoint{NIC: nic}
	if e.Buffer, err = registered(bytes); err != nil {
		return nil, err
	}
	if e.control, err = registered(layout.AttPageBytes); err != nil {
		return nil, err
	}
	if e.descriptor, err = e.control.Descriptor(descriptorOffset, 1); err != nil {
		return nil, err
	}
	a, err := attributes(nic)
	if err != nil {
		return nil, err
	}
	a.EnableRDMAWrite = true
	e.VI, err = nic.CreateVI(t, a)
	return e, err
}

func (e *Endpoint) Bytes() []byte { return e.Buffer.Bytes() }

// Dial connects to the endpoint that accepts at a remote address. It retries
// until one does or the timeout expires.
func (e *Endpoint) Dial(t *host.Thread, remote vipl.NetAddress, timeout host.Time) error {
	inbox := e.control.Bytes()[inboxOffset : inboxOffset+targetBytes]
	clear(inbox)
	both := append(target(e.Buffer, len(e.Bytes())), target(e.control, targetBytes)...)
	own := vipl.NetAddress{Discriminator: string(both)}
	for left := timeout; ; left -= dialPause {
		_, err := e.VI.ConnectRequest(t, own, remote, left)
		if err == nil {
			break
		}
		if !errors.Is(err, vipl.ErrNoMatch) || left <= dialPause {
			return err
		}
		if err := t.Sleep(dialPause); err != nil {
			return err
		}
	}
	// The server's handle is the last word that it writes.
	word := inbox[targetBytes-4:]
	err := e.control.Poll(t, inboxOffset+targetBytes-4, 4, timeout, func() bool { return mem.LoadUint32(word) != 0 })
	if err != nil {
		return err
	}
	e.Peer, err = decodeTarget(inbox)
	return err
}

// Accept waits for an endpoint that dials the discriminator and connects.
func (e *Endpoint) Accept(t *host.Thread, discriminator string, timeout host.Time) error {
	r, err := e.NIC.ConnectWait(t, vipl.NetAddress{Discriminator: discriminator}, timeout)
	if err != nil {
		return err
	}
	theirs := []byte(r.RemoteAddress.Discriminator)
	if e.Peer, err = decodeTarget(theirs); err != nil {
		return err
	}
	inbox, err := decodeTarget(theirs[targetBytes:])
	if err != nil {
		return err
	}
	if err := r.Accept(t, e.VI); err != nil {
		return err
	}
	copy(e.control.Bytes()[outboxOffset:], target(e.Buffer, len(e.Bytes())))
	if err := e.descriptor.SetRDMAWrite(inbox.Address+inboxOffset, inbox.Handle, e.control.Segment(outboxOffset, targetBytes)); err != nil {
		return err
	}
	if err := e.VI.PostSend(t, e.descriptor); err != nil {
		return err
	}
	_, err = e.VI.SendWait(t, timeout)
	return err
}

// Poll waits until a byte of the local buffer has a value.
func (e *Endpoint) Poll(t *host.Thread, offset int, value byte, timeout host.Time) error {
	return e.Buffer.Poll(t, offset, 1, timeout, func() bool { return e.Bytes()[offset] == value })
}

// Close disconnects and closes the NIC handle with everything in it.
func (e *Endpoint) Close(t *host.Thread) error {
	return errors.Join(e.VI.Disconnect(t), e.NIC.Close(t))
}
