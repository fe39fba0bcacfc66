// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

// link is the connection to one neighbour. Its memory holds, in this order: two
// slots for incoming halos, which the neighbour writes in turn; one for the
// outgoing halo; descriptors.
//
// Two slots suffice. A neighbour writes the halo of step k+2 after it receives
// that of step k+1 from here, which this node sends after it has used that of
// step k.
type link struct {
	peer     int // node
	line     func(g *grid, i int) int
	ghost    func(g *grid, i int) int
	vi       *vipl.VI
	memory   *vipl.Region
	halos    *vipl.Region // incoming
	theirs   vipl.RemoteRegion
	send     *vipl.Descriptor
	receives [places]*vipl.Descriptor
}

const places = 2

// node is one of the four, with a quarter of the square.
type node struct {
	*job
	rank         int
	row, column  int // of the first point of its block
	block        *grid
	links        []*link
	began, ended host.Time
}

func (o options) side() int  { return o.points / 2 }
func (o options) bytes() int { return 8 * o.side() }

// newNode: nodes 0 and 1 have the upper half, 0 and 2 the left one.
func newNode(j *job, rank int) *node {
	s := j.side()
	n := &node{job: j, rank: rank, row: rank / 2 * s, column: rank % 2 * s}
	n.block = newGrid(s, n.row, n.column)
	// The line of points for the neighbour, and the line for its halo.
	near, far := s, s+1
	if rank%2 == 1 {
		near, far = 1, 0
	}
	n.links = append(n.links, &link{
		peer: rank ^ 1, line: func(g *grid, i int) int { return g.at(i, near) }, ghost: func(g *grid, i int) int { return g.at(i, far) },
	})
	low, beyond := s, s+1
	if rank/2 == 1 {
		low, beyond = 1, 0
	}
	n.links = append(n.links, &link{
		peer: rank ^ 2, line: func(g *grid, i int) int { return g.at(low, i) }, ghost: func(g *grid, i int) int { return g.at(beyond, i) },
	})
	return n
}

func (n *node) main(t *host.Thread, h *driver.Host) error {
	nic, err := vipl.OpenNIC(t, h)
	if err != nil {
		return err
	}
	for _, l := range n.links {
		if err := n.open(t, nic, l); err != nil {
			return err
		}
	}
	for _, l := range n.links {
		if err := n.connect(t, nic, l); err != nil {
			return fmt.Errorf("neighbour %d: %w", l.peer, err)
		}
	}
	n.began = t.Now()
	for step := range n.steps {
		if err := n.exchange(t, step); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		n.block.step()
	}
	n.ended = t.Now()
	return nil
}

// open makes a link with posted receives; a write with immediate data consumes
// one.
func (n *node) open(t *host.Thread, nic *vipl.NIC, l *link) error {
	descriptors := (places + 1) * n.bytes()
	descriptors = (descriptors + vipl.DescriptorBytes - 1) / vipl.DescriptorBytes * vipl.DescriptorBytes
	b, err := nic.Alloc(t, descriptors+(places+1)*vipl.DescriptorBytes)
	if err != nil {
		return err
	}
	if l.memory, err = nic.RegisterBuffer(t, b, vipl.MemAttributes{}); err != nil {
		return err
	}
	// The neighbour may write incoming halos only.
	if l.halos, err = nic.RegisterMem(t, b.Address(), uint64(places*n.bytes()), vipl.MemAttributes{EnableRDMAWrite: true}); err != nil {
		return err
	}
	for i, d := range []**vipl.Descriptor{&l.send, &l.receives[0], &l.receives[1]} {
		if *d, err = l.memory.Descriptor(descriptors+i*vipl.DescriptorBytes, 1); err != nil {
			return err
		}
	}
	level := vipl.Unreliable
	if nic.Query().ReliabilityLevelSupport&vipl.ReliableDelivery != 0 {
		level = vipl.ReliableDelivery
	}
	if l.vi, err = nic.CreateVI(t, vipl.VIAttributes{ReliabilityLevel: level, EnableRDMAWrite: true}); err != nil {
		return err
	}
	for _, d := range l.receives {
		if err := l.expect(t, d); err != nil {
			return err
		}
	}
	return l.vi.Offer(t, l.halos)
}

func (l *link) expect(t *host.Thread, d *vipl.Descriptor) error {
	// The data go to the writer's address; the descriptor needs no buffer.
	if err := d.SetReceive(); err != nil {
		return err
	}
	return l.vi.PostRecv(t, d)
}

// connect: the neighbour with the smaller number waits. Afterwards both have
// the peer's region.
func (n *node) connect(t *host.Thread, nic *vipl.NIC, l *link) error {
	name := fmt.Sprintf("halo %d %d", min(n.rank, l.peer), max(n.rank, l.peer))
	if n.rank < l.peer {
		r, err := nic.ConnectWait(t, vipl.NetAddress{Discriminator: name}, patience)
		if err != nil {
			return err
		}
		if err := r.Accept(t, l.vi); err != nil {
			return err
		}
	} else {
		for {
			_, err := l.vi.ConnectRequest(t, vipl.NetAddress{}, vipl.At(l.peer, name), patience)
			if err == nil {
				break
			}
			if !errors.Is(err, vipl.ErrNoMatch) || t.Now() > patience {
				return err
			}
			if err := t.Sleep(100 * host.Microsecond); err != nil {
				return err
			}
		}
	}
	theirs := l.vi.RemoteRegions()
	if len(theirs) != 1 || theirs[0].Length != uint64(places*n.bytes()) {
		return fmt.Errorf("the peer advertises %+v, not %d halos of %d bytes", theirs, places, n.bytes())
	}
	l.theirs = theirs[0]
	return nil
}

// exchange writes both lines to the neighbours and waits for theirs.
func (n *node) exchange(t *host.Thread, step int) error {
	place := step % places * n.bytes()
	for _, l := range n.links {
		out := l.memory.Bytes()[places*n.bytes():][:n.bytes()]
		for i := range n.side() {
			binary.LittleEndian.PutUint64(out[8*i:], math.Float64bits(n.block.now[l.line(n.block, i+1)]))
		}
		if n.spoil != nil {
			n.spoil(n.rank, step, out)
		}
		if err := l.send.SetRDMAWrite(l.theirs.Address+uint64(place), l.theirs.Handle, l.memory.Segment(places*n.bytes(), n.bytes())); err != nil {
			return err
		}
		l.send.AttachImmediate(uint32(step))
		if err := l.vi.PostSend(t, l.send); err != nil {
			return err
		}
	}
	for _, l := range n.links {
		d, err := l.vi.RecvWait(t, patience)
		if err != nil {
			return fmt.Errorf("halo of node %d: %w", l.peer, err)
		}
		if came, ok := d.Immediate(); !ok || came != uint32(step) || d.Length() != n.bytes() {
			return fmt.Errorf("halo of node %d: step %d (reported: %v) with %d bytes, want %d bytes", l.peer, came, ok, d.Length(), n.bytes())
		}
		if err := l.expect(t, d); err != nil {
			return err
		}
		in := l.halos.Bytes()[place:][:n.bytes()]
		for i := range n.side() {
			n.block.now[l.ghost(n.block, i+1)] = math.Float64frombits(binary.LittleEndian.Uint64(in[8*i:]))
		}
	}
	for _, l := range n.links {
		if _, err := l.vi.SendWait(t, patience); err != nil {
			return err
		}
	}
	return nil
}
