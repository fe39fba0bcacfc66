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
	offeredStep  = layout.AttPageBytes + 1 // from one region to the next: each begins elsewhere in its page
)

// carve registers n regions of p's buffer, every other one for RDMA writes.
func (p *Peer) carve(n int) (all []*vipl.Region, err error) {
	for i := range n {
		r, err := p.NIC.RegisterMem(p.T, p.buf.Address()+uint64(i*offeredStep), offeredBytes, vipl.MemAttributes{EnableRDMAWrite: i%2 == 0})
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// offers is what a peer should be told of carved regions.
func offers(regions []*vipl.Region) (all []vipl.RemoteRegion) {
	for i, r := range regions {
		all = append(all, vipl.RemoteRegion{Address: r.Address(), Length: offeredBytes, Handle: r.Handle(), EnableRDMAWrite: i%2 == 0})
	}
	return all
}

// compare tells the peer what it should have been offered, and hears the same.
func (p *Peer) compare(what string, own, theirs []vipl.RemoteRegion) error {
	if err := p.T.Send(host.ThreadID{Node: p.other(), Rank: 1}, fmt.Appendf(nil, "%+v", own)); err != nil {
		return err
	}
	m, ok, err := p.T.Receive(host.Second)
	if err != nil || !ok {
		return errors.Join(err, errors.New(what+": the peer did not say what it offers"))
	}
	p.That(fmt.Sprintf("%s: told of %+v, offered is %s", what, theirs, m.Data), fmt.Sprintf("%+v", theirs) == string(m.Data))
	return nil
}

// writeOffered writes the first bytes of an offered region before anything else was said.
func (p *Peer) writeOffered(r vipl.RemoteRegion, value byte) error {
	for i := range 64 {
		p.Mem.Bytes()[bufferBytes-64+i] = value
	}
	if _, err := p.Write(bufferBytes-64, 64, Remote{r.Address, r.Handle}, 0); err != nil {
		return err
	}
	_, err := p.VI.SendWait(p.T, host.Second)
	return err
}

func (p *Peer) written(what string, r *vipl.Region, value byte) error {
	if err := r.Poll(p.T, 63, 1, host.Second, func() bool { return r.Bytes()[63] == value }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for i, b := range r.Bytes()[:64] {
		p.That(fmt.Sprintf("%s: byte %d is %#x, want %#x", what, i, b, value), b == value)
	}
	return nil
}

func offerClient(e *Env) error {
	p, err := e.Prepare(Writable)
	if err != nil {
		return err
	}
	own, err := p.carve(vipl.MaxOfferedRegions + 1)
	if err != nil {
		return err
	}
	other, err := vipl.OpenNIC(e.T, e.H)
	if err != nil {
		return err
	}
	foreign, err := other.RegisterBuffer(e.T, p.buf, vipl.MemAttributes{})
	if err != nil {
		return err
	}
	e.That("offered before there was a connection", len(p.VI.RemoteRegions()) == 0)
	e.Is("offer as many as there may be", p.VI.Offer(e.T, own[:vipl.MaxOfferedRegions]...), nil)
	e.Is("offer one too many", p.VI.Offer(e.T, own...), vipl.ErrInvalidParameter)
	e.Is("offer nil", p.VI.Offer(e.T, own[0], nil), vipl.ErrInvalidParameter)
	e.Is("offer a region of another NIC handle", p.VI.Offer(e.T, foreign), vipl.ErrInvalidParameter)
	last := own[vipl.MaxOfferedRegions]
	if err := last.Deregister(e.T); err != nil {
		return err
	}
	e.Is("offer a region that was deregistered", p.VI.Offer(e.T, own[0], last), vipl.ErrInvalidParameter)
	if err := other.Close(e.T); err != nil {
		return err
	}
	own = own[:vipl.MaxOfferedRegions]

	// Refused offers changed nothing.
	if err := p.Redial(1); err != nil {
		return err
	}
	theirs := p.VI.RemoteRegions()
	if len(theirs) != 3 {
		return fmt.Errorf("offered %+v, want three regions", theirs)
	}
	if err := p.writeOffered(theirs[2], 0x5a); err != nil {
		return err
	}
	if err := p.written("the server's first write", own[4], 0xa5); err != nil {
		return err
	}
	if err := p.compare("first connection", offers(own), theirs); err != nil {
		return err
	}
	e.Is("offer while connected", p.VI.Offer(e.T, own[0]), vipl.ErrInvalidState)
	if err := p.VI.Disconnect(e.T); err != nil {
		return err
	}
	// It knows what the last connection's peer offered.
	e.That("forgotten with the connection", len(p.VI.RemoteRegions()) == 3)
	e.Is("offer nothing", p.VI.Offer(e.T), nil)

	// The server changed its VI and deregistered what it offers: neither changes its offer.
	if err := p.Redial(1); err != nil {
		return err
	}
	if err := p.compare("second connection", nil, p.VI.RemoteRegions()); err != nil {
		return err
	}
	if err := p.writeOffered(p.VI.RemoteRegions()[2], 0xc3); err != nil {
		return err
	}
	// The region is not there: nothing is written.
	if err := p.Quiet(); err != nil {
		return err
	}
	return p.Settled(1)
}

func offerServer(e *Env) error {
	p, err := e.Prepare(Writable)
	if err != nil {
		return err
	}
	own, err := p.carve(3)
	if err != nil {
		return err
	}
	if err := p.VI.Offer(e.T, own...); err != nil {
		return err
	}
	r, err := e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, host.Second)
	if err != nil {
		return err
	}
	theirs := r.RemoteRegions
	if len(theirs) != vipl.MaxOfferedRegions {
		return fmt.Errorf("the request offers %+v, want %d regions", theirs, vipl.MaxOfferedRegions)
	}
	if err := r.Accept(e.T, p.VI); err != nil {
		return err
	}
	if err := p.writeOffered(theirs[4], 0xa5); err != nil {
		return err
	}
	if err := p.written("the client's first write", own[2], 0x5a); err != nil {
		return err
	}
	if err := p.compare("first connection", offers(own), p.VI.RemoteRegions()); err != nil {
		return err
	}
	if err := p.lost(); err != nil {
		return err
	}
	if err := p.VI.Disconnect(e.T); err != nil {
		return err
	}
	told := offers(own)
	for _, r := range own {
		if err := r.Deregister(e.T); err != nil {
			return err
		}
	}
	clear(p.Mem.Bytes())
	e.Is("change the VI", p.VI.SetAttributes(e.T, Writable), nil)
	if err := p.Again(); err != nil {
		return err
	}
	if err := p.compare("second connection", told, p.VI.RemoteRegions()); err != nil {
		return err
	}
	if err := p.Settled(0); err != nil {
		return err
	}
	for i, b := range p.Mem.Bytes() {
		if b != 0 {
			return fmt.Errorf("byte %d is %#x: written through a region that was deregistered", i, b)
		}
	}
	return nil
}
