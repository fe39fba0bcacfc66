// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/vipl"
)

const (
	scaleFrames  = 1 << 15 // 128 MiB for each node
	scaleRegions = 4096
	largeRegion  = 64 << 20
)

// scales are programs that go to a limit, and one beyond it.
var scales = []scenario{
	{"256 VIs connected at once", manyClient, manyServer},
	{"1,024 receives on one VI", deepClient, deepServer},
	{"4,096 regions", regionsClient, sinkServer},
	{"a region of 64 MiB", largeClient, largeServer},
}

func TestScaleOnFakes(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, s := range scales {
			t.Run(s.name, func(t *testing.T) {
				list := programs(mainsOf(s)...)
				f, err := drivertest.NewSized(d, 2, len(driver.Participants(list)), scaleFrames)
				require.NoError(t, err)
				t.Cleanup(f.Close)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Device: d, Seed: 1, Regions: scaleRegions}, list...))
				for i := range 2 {
					require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
				}
			})
		}
	})
}

func TestScaleOnTheCard(t *testing.T) {
	needsCards(t)
	for _, s := range scales {
		t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			start := time.Now()
			require.NoError(t, driver.Run(ctx, driver.RunConfig{Seed: seed(t), Regions: scaleRegions}, programs(mainsOf(s)...)...), "replay with HVIA_SEED=%d", seed(t))
			t.Logf("wall %v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// all makes every VI that the card has.
func (p *peer) all() ([]*vipl.VI, error) {
	list := []*vipl.VI{p.vi}
	for range p.nic.Query().MaxVI - 1 {
		v, err := p.nic.CreateVI(p.t, vipl.VIAttributes{})
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := p.nic.CreateVI(p.t, vipl.VIAttributes{})
	p.is("one VI more", err, vipl.ErrResource)
	p.that(fmt.Sprintf("%d VIs", len(list)), len(list) == 256)
	return list, nil
}

func manyClient(e *env) error {
	p, err := e.prepare(vipl.VIAttributes{})
	if err != nil {
		return err
	}
	list, err := p.all()
	if err != nil {
		return err
	}
	var receives []*vipl.Descriptor
	for i, v := range list {
		q := &peer{env: e, vi: v, mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		d, err := q.receive(64*i, 64)
		if err != nil {
			return err
		}
		p.posted = q.posted
		receives = append(receives, d)
		if err := q.redial(1); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	if err := p.step(1, "connected"); err != nil {
		return err
	}
	// All are connected now. The last answers first.
	for i := len(list) - 1; i >= 0; i-- {
		q := &peer{env: e, vi: list[i], mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		copy(p.mem.Bytes()[64*256:], pattern(60, i))
		d, err := q.send(64*256, 60)
		if err != nil {
			return err
		}
		p.posted = q.posted
		q.sent(fmt.Sprintf("VI %d", i), d, sentBytes(60))
		q.take(fmt.Sprintf("answer to VI %d", i), receives[i], received(60))
		e.that(fmt.Sprintf("bytes of the answer to VI %d", i), bytes.Equal(p.mem.Bytes()[64*i:64*i+60], pattern(60, i)))
		q.inState("all the time", vipl.Connected)
	}
	return p.settled(1)
}

// manyServer sends back what comes.
func manyServer(e *env) error {
	p, err := e.prepare(vipl.VIAttributes{})
	if err != nil {
		return err
	}
	list, err := p.all()
	if err != nil {
		return err
	}
	var receives []*vipl.Descriptor
	for i, v := range list {
		q := &peer{env: e, vi: v, mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		d, err := q.receive(64*i, 64)
		if err != nil {
			return err
		}
		p.posted = q.posted
		receives = append(receives, d)
		r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, 5*host.Second)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		if err := r.Accept(e.t, v); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	if err := p.awaits("connected"); err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0; i-- {
		q := &peer{env: e, vi: list[i], mem: p.mem, descriptors: p.descriptors, posted: p.posted}
		q.take(fmt.Sprintf("question of VI %d", i), receives[i], received(60))
		d, err := q.send(64*i, 60)
		if err != nil {
			return err
		}
		p.posted = q.posted
		q.sent(fmt.Sprintf("VI %d", i), d, sentBytes(60))
	}
	return p.settled(0)
}

func sentBytes(n int) outcome { return outcome{length: n} }

func deepServer(e *env) error {
	p, err := e.prepare(vipl.VIAttributes{})
	if err != nil {
		return err
	}
	var list []*vipl.Descriptor
	for i := range vipl.MaxDescriptorsPerQueue {
		d, err := p.receive(16*i, 16)
		if err != nil {
			return fmt.Errorf("receive %d: %w", i, err)
		}
		list = append(list, d)
	}
	_, err = p.receive(0, 16)
	e.is("one receive more", err, vipl.ErrResource)
	e.is("one receive more", err, vipl.ErrOverrun)
	r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Discriminator: "test"}, host.Second)
	if err != nil {
		return err
	}
	if err := r.Accept(e.t, p.vi); err != nil {
		return err
	}
	if err := p.awaits("sent"); err != nil {
		return err
	}
	for i, d := range list {
		p.take(fmt.Sprintf("message %d", i), d, received(8+i%8))
		if !bytes.Equal(p.mem.Bytes()[16*i:16*i+8+i%8], pattern(8+i%8, i)) {
			return fmt.Errorf("message %d has other bytes", i)
		}
	}
	return p.settled(0)
}

func deepClient(e *env) error {
	p, err := e.prepare(vipl.VIAttributes{})
	if err != nil {
		return err
	}
	if err := p.redial(1); err != nil {
		return err
	}
	for i := range vipl.MaxDescriptorsPerQueue {
		copy(p.mem.Bytes()[16*i:], pattern(8+i%8, i))
		if _, err := p.send(16*i, 8+i%8); err != nil {
			return err
		}
	}
	for i := range vipl.MaxDescriptorsPerQueue {
		if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
	}
	return errors.Join(p.step(1, "sent"), p.settled(1))
}

// regionsClient registers pages until the table is full, and writes from the first, one in the middle and the last.
func regionsClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	e.that("the limit", e.nic.Query().MaxRegisterRegions == scaleRegions)
	var list []*vipl.Region
	for i := range scaleRegions - 2 { // the peer has two
		r, err := e.nic.RegisterMem(e.t, p.buf.Address()+uint64(i%19)*4096+uint64(i%7), 4090, vipl.MemAttributes{})
		if err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
		list = append(list, r)
	}
	_, err = e.nic.RegisterMem(e.t, p.buf.Address(), 1, vipl.MemAttributes{})
	e.is("one region more", err, vipl.ErrResource)
	for _, i := range []int{0, scaleRegions / 2, len(list) - 1} {
		d := p.next()
		d.SetRDMAWrite(list[i].Segment(0, 4090), to.address, to.handle)
		if err := p.vi.PostSend(e.t, d); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
			return fmt.Errorf("write from region %d: %w", i, err)
		}
	}
	for i, r := range list {
		if err := r.Deregister(e.t); err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
	}
	_, err = e.nic.RegisterMem(e.t, p.buf.Address(), 1, vipl.MemAttributes{})
	e.is("now there is room", err, nil)
	return p.settled(1)
}

// offsets of the large region that are written: its edges, and where pages and commands end.
var largeOffsets = []int{0, 65536 + 4090, 4096*1024 - 3, largeRegion / 2, largeRegion - 65536}

func largeServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	b, err := e.nic.Alloc(e.t, largeRegion)
	if err != nil {
		return err
	}
	r, err := e.nic.RegisterBuffer(e.t, b, vipl.MemAttributes{EnableRDMAWrite: true})
	if err != nil {
		return err
	}
	_, err = e.nic.RegisterMem(e.t, b.Address(), largeRegion+1, vipl.MemAttributes{})
	e.is("one byte more than there is", err, vipl.ErrInvalidParameter)
	_, err = e.nic.Alloc(e.t, 1<<30)
	e.is("more than the node has", err, vipl.ErrResource)
	if err := errors.Join(p.tellRegion(0, r), p.awaits("written")); err != nil {
		return err
	}
	for i, at := range largeOffsets {
		if n := min(65536, largeRegion-at); !bytes.Equal(r.Bytes()[at:at+n], pattern(n, i)) {
			return fmt.Errorf("%d bytes at %d are others", n, at)
		}
	}
	e.that("nothing is behind the second", bytes.Equal(r.Bytes()[2*65536+4090:2*65536+4090+4096], make([]byte, 4096)))
	got, err := e.nic.NextError(e.t)
	e.is("the write beyond the end is refused", err, nil)
	e.that(fmt.Sprintf("error %v", got.Code), got.VI == p.vi.Index())
	e.is("deregister", r.Deregister(e.t), nil)
	return errors.Join(p.settled(0), e.nic.Free(e.t, b))
}

func largeClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	for i, at := range largeOffsets {
		n := min(65536, largeRegion-at)
		copy(p.mem.Bytes(), pattern(n, i))
		if _, err := p.write(0, n, to, at); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
			return err
		}
	}
	if _, err := p.write(0, 8, to, largeRegion-7); err != nil {
		return err
	}
	if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
		return err
	}
	return errors.Join(e.t.Sleep(5*host.Millisecond), p.step(1, "written"), p.settled(1))
}
