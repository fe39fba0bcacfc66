// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

func init() { scenarios = append(scenarios, scenario{"offers", offerClient, offerServer}) }

const (
	offeredBytes = 1000
	offeredStep  = layout.AttPageBytes + 1 // from one region to the next: each begins elsewhere in its page
)

// carve registers n regions of p's buffer, every other one for RDMA writes.
func (p *peer) carve(n int) (all []*vipl.Region, err error) {
	for i := range n {
		r, err := p.nic.RegisterMem(p.t, p.buf.Address()+uint64(i*offeredStep), offeredBytes, vipl.MemAttributes{EnableRDMAWrite: i%2 == 0})
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
func (p *peer) compare(what string, own, theirs []vipl.RemoteRegion) error {
	if err := p.t.Send(host.ThreadID{Node: p.other(), Rank: 1}, fmt.Appendf(nil, "%+v", own)); err != nil {
		return err
	}
	m, ok, err := p.t.Receive(host.Second)
	if err != nil || !ok {
		return errors.Join(err, errors.New(what+": the peer did not say what it offers"))
	}
	p.that(fmt.Sprintf("%s: told of %+v, offered is %s", what, theirs, m.Data), fmt.Sprintf("%+v", theirs) == string(m.Data))
	return nil
}

// writeOffered writes the first bytes of an offered region before anything else was said.
func (p *peer) writeOffered(r vipl.RemoteRegion, value byte) error {
	for i := range 64 {
		p.mem.Bytes()[bufferBytes-64+i] = value
	}
	if _, err := p.write(bufferBytes-64, 64, target{r.Address, r.Handle}, 0); err != nil {
		return err
	}
	_, err := p.vi.SendWait(p.t, host.Second)
	return err
}

func (p *peer) written(what string, r *vipl.Region, value byte) error {
	if err := r.Poll(p.t, 63, 1, host.Second, func() bool { return r.Bytes()[63] == value }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for i, b := range r.Bytes()[:64] {
		p.that(fmt.Sprintf("%s: byte %d is %#x, want %#x", what, i, b, value), b == value)
	}
	return nil
}

func offerClient(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	own, err := p.carve(vipl.MaxOfferedRegions + 1)
	if err != nil {
		return err
	}
	other, err := vipl.OpenNIC(e.t, e.h)
	if err != nil {
		return err
	}
	foreign, err := other.RegisterBuffer(e.t, p.buf, vipl.MemAttributes{})
	if err != nil {
		return err
	}
	e.that("offered before there was a connection", len(p.vi.RemoteRegions()) == 0)
	e.is("offer as many as there may be", p.vi.Offer(e.t, own[:vipl.MaxOfferedRegions]...), nil)
	e.is("offer one too many", p.vi.Offer(e.t, own...), vipl.ErrInvalidParameter)
	e.is("offer nil", p.vi.Offer(e.t, own[0], nil), vipl.ErrInvalidParameter)
	e.is("offer a region of another NIC handle", p.vi.Offer(e.t, foreign), vipl.ErrInvalidParameter)
	last := own[vipl.MaxOfferedRegions]
	if err := last.Deregister(e.t); err != nil {
		return err
	}
	e.is("offer a region that was deregistered", p.vi.Offer(e.t, own[0], last), vipl.ErrInvalidParameter)
	if err := other.Close(e.t); err != nil {
		return err
	}
	own = own[:vipl.MaxOfferedRegions]

	// Refused offers changed nothing.
	if err := p.redial(1); err != nil {
		return err
	}
	theirs := p.vi.RemoteRegions()
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
	e.is("offer while connected", p.vi.Offer(e.t, own[0]), vipl.ErrInvalidState)
	if err := p.vi.Disconnect(e.t); err != nil {
		return err
	}
	// It knows what the last connection's peer offered.
	e.that("forgotten with the connection", len(p.vi.RemoteRegions()) == 3)
	e.is("offer nothing", p.vi.Offer(e.t), nil)

	// The server changed its VI and deregistered what it offers: neither changes its offer.
	if err := p.redial(1); err != nil {
		return err
	}
	if err := p.compare("second connection", nil, p.vi.RemoteRegions()); err != nil {
		return err
	}
	if err := p.writeOffered(p.vi.RemoteRegions()[2], 0xc3); err != nil {
		return err
	}
	// The region is not there: nothing is written.
	if err := p.quiet(); err != nil {
		return err
	}
	return p.settled(1)
}

func offerServer(e *env) error {
	p, err := e.prepare(writable)
	if err != nil {
		return err
	}
	own, err := p.carve(3)
	if err != nil {
		return err
	}
	if err := p.vi.Offer(e.t, own...); err != nil {
		return err
	}
	r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, host.Second)
	if err != nil {
		return err
	}
	theirs := r.RemoteRegions
	if len(theirs) != vipl.MaxOfferedRegions {
		return fmt.Errorf("the request offers %+v, want %d regions", theirs, vipl.MaxOfferedRegions)
	}
	if err := r.Accept(e.t, p.vi); err != nil {
		return err
	}
	if err := p.writeOffered(theirs[4], 0xa5); err != nil {
		return err
	}
	if err := p.written("the client's first write", own[2], 0x5a); err != nil {
		return err
	}
	if err := p.compare("first connection", offers(own), p.vi.RemoteRegions()); err != nil {
		return err
	}
	if err := p.lost(); err != nil {
		return err
	}
	if err := p.vi.Disconnect(e.t); err != nil {
		return err
	}
	told := offers(own)
	for _, r := range own {
		if err := r.Deregister(e.t); err != nil {
			return err
		}
	}
	clear(p.mem.Bytes())
	e.is("change the VI", p.vi.SetAttributes(e.t, writable), nil)
	if err := p.again(); err != nil {
		return err
	}
	if err := p.compare("second connection", told, p.vi.RemoteRegions()); err != nil {
		return err
	}
	if err := p.settled(0); err != nil {
		return err
	}
	for i, b := range p.mem.Bytes() {
		if b != 0 {
			return fmt.Errorf("byte %d is %#x: written through a region that was deregistered", i, b)
		}
	}
	return nil
}

// A connection frame says what it did before there were offers, unless something is offered.
func TestOffersOnTheWire(t *testing.T) {
	const head = layout.EthernetHeaderSize + layout.ConnectionFrameSize
	onDevices(t, func(t *testing.T, d driver.Device) {
		type of struct {
			kind    layout.ConnectionType
			regions int
		}
		lengths := map[of]map[int]bool{}
		note := func(f *drivertest.Fabric) {
			f.Lose = func(_ int, frame []byte) bool {
				if layout.EthernetHeader(frame).EtherType() == layout.EtherTypeConnection {
					c := layout.ConnectionFrame(frame[layout.EthernetHeaderSize:])
					k := of{layout.ConnectionType(c.Type()), int(c.Regions())}
					if lengths[k] == nil {
						lengths[k] = map[int]bool{}
					}
					lengths[k][len(frame)] = true
				}
				return false
			}
		}
		runFake(t, d, note, leaveClient, leaveServer)
		for k, l := range lengths {
			require.Zero(t, k.regions, "%v", k.kind)
			require.Equal(t, map[int]bool{head: true}, l, "%v", k.kind)
		}
		clear(lengths)
		runFake(t, d, note, offerClient, offerServer)
		for k, l := range lengths {
			require.Equal(t, map[int]bool{head + k.regions*layout.OfferedRegionSize: true}, l, "%v with %d regions", k.kind, k.regions)
		}
		require.Contains(t, lengths, of{layout.ConnectionTypeRequest, vipl.MaxOfferedRegions})
		require.Contains(t, lengths, of{layout.ConnectionTypeRequest, 0})
		require.Contains(t, lengths, of{layout.ConnectionTypeAccept, 3})
	})
}
