// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"hvia/driver"
	"hvia/host"
	"hvia/vipl"
)

const (
	channel   = "film" // the server's discriminator
	pageBytes = 4096
)

// viaStation is a host with VIA, in the card or in the kernel: a ring of slots
// in registered memory, from which the server sends and into which clients
// receive.
type viaStation struct {
	*show
	host *driver.Host
	nic  *vipl.NIC
	ring *vipl.Region
	vis  []*vipl.VI
}

func openVia(t *host.Thread, h *driver.Host, s *show) (*viaStation, error) {
	n, err := vipl.OpenNIC(t, h)
	if err != nil {
		return nil, err
	}
	v := &viaStation{show: s, host: h, nic: n}
	v.ring, err = v.memory(t, s.ring*v.stride(), s.write)
	return v, err
}

func (v *viaStation) memory(t *host.Thread, bytes int, writable bool) (*vipl.Region, error) {
	b, err := v.nic.Alloc(t, bytes)
	if err != nil {
		return nil, err
	}
	return v.nic.RegisterBuffer(t, b, vipl.MemAttributes{EnableRDMAWrite: writable})
}

// stride is the distance of the slots, which are page aligned.
func (v *viaStation) stride() int      { return (v.bytes + pageBytes - 1) / pageBytes * pageBytes }
func (v *viaStation) offset(k int) int { return k % v.config.ring * v.stride() }
func (v *viaStation) slot(k int) []byte {
	return v.ring.Bytes()[v.offset(k):][:v.bytes:v.bytes]
}

// newVI makes a VI whose waits sleep, and a descriptor for each slot.
func (v *viaStation) newVI(t *host.Thread) (*vipl.VI, []*vipl.Descriptor, error) {
	vi, err := v.nic.CreateVI(t, vipl.VIAttributes{ReliabilityLevel: v.level, EnableRDMAWrite: v.write, Blocking: true})
	if err != nil {
		return nil, nil, err
	}
	v.vis = append(v.vis, vi)
	page, err := v.memory(t, v.config.ring*vipl.DescriptorBytes, false)
	if err != nil {
		return nil, nil, err
	}
	list := make([]*vipl.Descriptor, v.config.ring)
	for i := range list {
		if list[i], err = page.Descriptor(i*vipl.DescriptorBytes, 1); err != nil {
			return nil, nil, err
		}
	}
	return vi, list, nil
}

func (v *viaStation) serve(t *host.Thread) (outlets []outlet, slots [][]byte, err error) {
	for k := range v.config.ring {
		slots = append(slots, v.slot(k))
	}
	for range v.clients {
		r, err := v.nic.ConnectWait(t, vipl.NetAddress{Discriminator: channel}, connectLimit)
		if err != nil {
			return nil, nil, err
		}
		o := &viaOutlet{viaStation: v}
		if v.write {
			if len(r.RemoteRegions) != 1 || r.RemoteRegions[0].Length < uint64(v.config.ring*v.stride()) {
				return nil, nil, errors.Join(fmt.Errorf("client at %v offers %v, want one ring of %d bytes", r.RemoteAddress, r.RemoteRegions, v.config.ring*v.stride()), r.Reject(t))
			}
			o.ringThere = r.RemoteRegions[0]
		}
		if o.vi, o.descriptors, err = v.newVI(t); err != nil {
			return nil, nil, err
		}
		if err := r.Accept(t, o.vi); err != nil {
			return nil, nil, err
		}
		outlets = append(outlets, o)
	}
	return outlets, slots, nil
}

func (v *viaStation) tune(t *host.Thread) (inlet, error) {
	vi, descriptors, err := v.newVI(t)
	if err != nil {
		return nil, err
	}
	in := &viaInlet{viaStation: v, vi: vi, descriptors: descriptors}
	if !v.write {
		for range v.config.ring {
			if err := in.post(t); err != nil {
				return nil, err
			}
		}
	}
	if v.write {
		if err := vi.Offer(t, v.ring); err != nil {
			return nil, err
		}
	}
	remote := vipl.At(0, channel)
	// The server accepts one client at a time, and may not wait yet.
	for left := t.Countdown(connectLimit); ; {
		_, err := vi.ConnectRequest(t, vipl.NetAddress{}, remote, max(left(), 0))
		if err == nil {
			return in, nil
		}
		if !errors.Is(err, vipl.ErrNoMatch) || left() <= 0 {
			return nil, err
		}
		if err := t.Sleep(100 * host.Microsecond); err != nil {
			return nil, err
		}
	}
}

func (v *viaStation) close(t *host.Thread) error {
	for _, vi := range v.vis {
		if err := vi.Disconnect(t); err != nil {
			return err
		}
	}
	return v.nic.Close(t)
}

type viaOutlet struct {
	*viaStation
	vi          *vipl.VI
	descriptors []*vipl.Descriptor
	ringThere   vipl.RemoteRegion // the client's ring, for RDMA writes
	settled     int               // frames
}

func (o *viaOutlet) send(t *host.Thread, k int) error {
	d, from := o.descriptors[k%len(o.descriptors)], o.ring.Segment(o.offset(k), o.bytes)
	if o.write {
		if err := d.SetRDMAWrite(o.ringThere.Address+uint64(o.offset(k)), o.ringThere.Handle, from); err != nil {
			return err
		}
	} else if err := d.SetSend(from); err != nil {
		return err
	}
	return o.vi.PostSend(t, d)
}

func (o *viaOutlet) settle(t *host.Thread, k int) error {
	for ; o.settled <= k; o.settled++ {
		if _, err := o.vi.SendWait(t, connectLimit); err != nil {
			return err
		}
	}
	return nil
}

type viaInlet struct {
	*viaStation
	vi           *vipl.VI
	descriptors  []*vipl.Descriptor
	posted, came int // receives
}

func (i *viaInlet) post(t *host.Thread) error {
	d := i.descriptors[i.posted%len(i.descriptors)]
	if err := d.SetReceive(i.ring.Segment(i.offset(i.posted), i.bytes)); err != nil {
		return err
	}
	i.posted++
	return i.vi.PostRecv(t, d)
}

func (i *viaInlet) take(t *host.Thread, k int, timeout host.Time) ([]byte, error) {
	if i.write {
		return i.find(t, k, timeout)
	}
	for left := t.Countdown(timeout); ; {
		var d *vipl.Descriptor
		var err error
		if timeout == 0 {
			d, err = i.vi.RecvDone(t)
		} else {
			d, err = i.vi.RecvWait(t, max(left(), 0))
		}
		switch {
		case errors.Is(err, vipl.ErrNotDone), errors.Is(err, vipl.ErrTimeout):
			return nil, nil
		case err != nil && d != nil && d.Status()&vipl.PartialError != 0 && d.Status()&vipl.Flushed == 0:
			// The link lost parts of a frame. The next frame reveals which.
			i.came++
			if err := i.post(t); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		if d.Length() != i.bytes {
			return nil, fmt.Errorf("a frame of %d bytes came, want %d", d.Length(), i.bytes)
		}
		i.came++
		return i.slot(i.came - 1), nil
	}
}

// find polls the slots of RDMA writes, which raise no notification.
func (i *viaInlet) find(t *host.Thread, k int, timeout host.Time) ([]byte, error) {
	if timeout == 0 {
		// One poll of a word that the card may have written.
		if err := t.Spend(host.LayerLibrary, i.host.Costs().PollPeriod()); err != nil {
			return nil, err
		}
	} else {
		there := func() bool { return numberOf(i.slot(k)) == k }
		if err := i.ring.Poll(t, i.offset(k)+i.bytes-numberBytes, numberBytes, timeout, there); err != nil && !errors.Is(err, vipl.ErrTimeout) {
			return nil, err
		}
	}
	for later := k; later < k+i.config.ring; later++ {
		if numberOf(i.slot(later)) == later {
			return i.slot(later), nil
		}
	}
	return nil, nil
}

func (i *viaInlet) done(t *host.Thread) error {
	if i.write {
		return nil
	}
	return i.post(t)
}
