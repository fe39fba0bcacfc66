// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

func init() {
	Scenarios = append(Scenarios, Scenario{Name: "offers", client: offerClient, server: offerServer})
}

const (
	offeredBytes = 1000
	offeredStep  = layout.AttPageBytes + 1 // step between regions, so each starts at another offset in its page
)

// carve registers n regions of p's buffer, every other one for RDMA writes.
func (p *Peer) carve(n int) (all []*vipl.Region, err error) {
	for i := range n {
		all = append(all, must(p.NIC.RegisterMem(p.T, p.buf.Address()+uint64(i*offeredStep), offeredBytes, vipl.MemAttributes{EnableRDMAWrite: i%2 == 0})))
	}
	return all, nil
}

// offers converts regions to the form in which a peer receives them.
func offers(regions []*vipl.Region) (all []vipl.RemoteRegion) {
	for i, r := range regions {
		all = append(all, vipl.RemoteRegion{Address: r.Address(), Length: offeredBytes, Handle: r.Handle(), EnableRDMAWrite: i%2 == 0})
	}
	return all
}

// compare sends the own regions to the peer and checks the received ones
// against its.
func (p *Peer) compare(what string, own, theirs []vipl.RemoteRegion) error {
	check(p.T.Send(host.ThreadID{Node: p.other(), Rank: 1}, fmt.Appendf(nil, "%+v", own)))
	m, ok, err := p.T.Receive(host.Second)
	if err != nil || !ok {
		return errors.Join(err, errors.New(what+": the peer did not say what it offers"))
	}
	p.That(fmt.Sprintf("%s: received %+v, advertised %s", what, theirs, m.Data), fmt.Sprintf("%+v", theirs) == string(m.Data))
	return nil
}

// writeOffered writes to an advertised region before any other message.
func (p *Peer) writeOffered(r vipl.RemoteRegion, value byte) error {
	for i := range 64 {
		p.Mem.Bytes()[bufferBytes-64+i] = value
	}
	must(p.Write(bufferBytes-64, 64, Remote{r.Address, r.Handle}, 0))
	return errOf(p.VI.SendWait(p.T, host.Second))
}

func (p *Peer) written(what string, r *vipl.Region, value byte) error {
	Step(r.Poll(p.T, 63, 1, host.Second, func() bool { return r.Bytes()[63] == value }), "%s", what)
	for i, b := range r.Bytes()[:64] {
		p.That(fmt.Sprintf("%s: byte %d is %#x, want %#x", what, i, b, value), b == value)
	}
	return nil
}

func offerClient(e *Env) error {
	p := must(e.Prepare(Writable))
	own := must(p.carve(vipl.MaxOfferedRegions + 1))
	other := must(vipl.OpenNIC(e.T, e.H))
	foreign := must(other.RegisterBuffer(e.T, p.buf, vipl.MemAttributes{}))
	e.That("offered before there was a connection", len(p.VI.RemoteRegions()) == 0)
	e.Is("advertise the maximum", p.VI.Offer(e.T, own[:vipl.MaxOfferedRegions]...), nil)
	e.Is("advertise one too many", p.VI.Offer(e.T, own...), vipl.ErrInvalidParameter)
	e.Is("advertise nil", p.VI.Offer(e.T, own[0], nil), vipl.ErrInvalidParameter)
	e.Is("advertise a region of another NIC handle", p.VI.Offer(e.T, foreign), vipl.ErrInvalidParameter)
	last := own[vipl.MaxOfferedRegions]
	check(last.Deregister(e.T))
	e.Is("advertise a deregistered region", p.VI.Offer(e.T, own[0], last), vipl.ErrInvalidParameter)
	check(other.Close(e.T))
	own = own[:vipl.MaxOfferedRegions]

	// A rejected Offer changes nothing.
	check(p.Redial(1))
	theirs := p.VI.RemoteRegions()
	if len(theirs) != 3 {
		return fmt.Errorf("received %+v instead of three regions", theirs)
	}
	check(p.writeOffered(theirs[2], 0x5a))
	check(p.written("the server's first write", own[4], 0xa5))
	check(p.compare("first connection", offers(own), theirs))
	e.Is("advertise while connected", p.VI.Offer(e.T, own[0]), vipl.ErrInvalidState)
	check(p.VI.Disconnect(e.T))
	// The VI remembers the regions of its last peer.
	e.That("forgotten with the connection", len(p.VI.RemoteRegions()) == 3)
	e.Is("advertise nothing", p.VI.Offer(e.T), nil)

	// The server has changed its VI and deregistered its regions. Neither
	// changes its offer.
	check(p.Redial(1))
	check(p.compare("second connection", nil, p.VI.RemoteRegions()))
	check(p.writeOffered(p.VI.RemoteRegions()[2], 0xc3))
	// The region no longer exists, so the write has no effect.
	check(p.Quiet())
	return p.Settled(1)
}

func offerServer(e *Env) error {
	p := must(e.Prepare(Writable))
	own := must(p.carve(3))
	check(p.VI.Offer(e.T, own...))
	r := must(e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, host.Second))
	theirs := r.RemoteRegions
	if len(theirs) != vipl.MaxOfferedRegions {
		return fmt.Errorf("the request offers %+v, want %d regions", theirs, vipl.MaxOfferedRegions)
	}
	check(r.Accept(e.T, p.VI))
	check(p.writeOffered(theirs[4], 0xa5))
	check(p.written("the client's first write", own[2], 0x5a))
	check(p.compare("first connection", offers(own), p.VI.RemoteRegions()))
	check(p.lost())
	check(p.VI.Disconnect(e.T))
	advertised := offers(own)
	for _, r := range own {
		check(r.Deregister(e.T))
	}
	clear(p.Mem.Bytes())
	e.Is("change the VI", p.VI.SetAttributes(e.T, Writable), nil)
	check(p.Again())
	check(p.compare("second connection", advertised, p.VI.RemoteRegions()))
	check(p.Settled(0))
	for i, b := range p.Mem.Bytes() {
		if b != 0 {
			return fmt.Errorf("byte %d is %#x: written through a region that was deregistered", i, b)
		}
	}
	return nil
}
