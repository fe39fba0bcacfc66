// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"hvia/layout"
)

// mtu is Ethernet's: the bytes of a frame behind its header.
const mtu = layout.MaxFrame - layout.EthernetHeaderSize

// endpoint is the plain NIC as the stack sees it: frames to send are queued
// until a thread sends them.
type endpoint struct {
	mu     sync.Mutex
	mac    tcpip.LinkAddress
	upward stack.NetworkDispatcher
	frames [][]byte
	closed bool
}

var _ stack.LinkEndpoint = (*endpoint)(nil)

func newEndpoint(mac layout.MAC) *endpoint { return &endpoint{mac: tcpip.LinkAddress(mac[:])} }

// inject passes a copy of a received frame to the stack.
func (e *endpoint) inject(frame []byte) {
	e.mu.Lock()
	up := e.upward
	e.mu.Unlock()
	if up == nil || len(frame) < header.EthernetMinimumSize {
		return
	}
	p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
	defer p.DecRef()
	e.ParseHeader(p)
	eth := header.Ethernet(p.LinkHeader().Slice())
	switch to := eth.DestinationAddress(); {
	case to == header.EthernetBroadcastAddress:
		p.PktType = tcpip.PacketBroadcast
	case header.IsMulticastEthernetAddress(to):
		p.PktType = tcpip.PacketMulticast
	case to == e.mac:
		p.PktType = tcpip.PacketHost
	default:
		p.PktType = tcpip.PacketOtherHost
	}
	up.DeliverNetworkPacket(eth.Type(), p)
}

func (e *endpoint) take() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.frames) == 0 {
		return nil
	}
	f := e.frames[0]
	e.frames[0] = nil
	if e.frames = e.frames[1:]; len(e.frames) == 0 {
		e.frames = nil
	}
	return f
}

func (e *endpoint) waiting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.frames) > 0
}

func (e *endpoint) WritePackets(packets stack.PacketBufferList) (int, tcpip.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, &tcpip.ErrClosedForSend{}
	}
	for _, p := range packets.AsSlice() {
		v := p.ToView()
		e.frames = append(e.frames, v.ToSlice())
		v.Release()
	}
	return packets.Len(), nil
}

func (e *endpoint) AddHeader(p *stack.PacketBuffer) {
	header.Ethernet(p.LinkHeader().Push(header.EthernetMinimumSize)).Encode(&header.EthernetFields{
		SrcAddr: p.EgressRoute.LocalLinkAddress, DstAddr: p.EgressRoute.RemoteLinkAddress, Type: p.NetworkProtocolNumber,
	})
}

func (*endpoint) ParseHeader(p *stack.PacketBuffer) bool {
	_, ok := p.LinkHeader().Consume(header.EthernetMinimumSize)
	return ok
}

func (e *endpoint) Attach(d stack.NetworkDispatcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.upward = d
}

func (e *endpoint) IsAttached() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.upward != nil
}

func (e *endpoint) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.frames = true, nil
}

// Capabilities has no offload: the stack computes and checks all checksums.
func (*endpoint) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityResolutionRequired
}

func (e *endpoint) LinkAddress() tcpip.LinkAddress        { return e.mac }
func (*endpoint) SetLinkAddress(tcpip.LinkAddress)        {}
func (*endpoint) MTU() uint32                             { return mtu }
func (*endpoint) SetMTU(uint32)                           {}
func (*endpoint) MaxHeaderLength() uint16                 { return header.EthernetMinimumSize }
func (*endpoint) Wait()                                   {}
func (*endpoint) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (*endpoint) SetOnCloseAction(func())                 {}
