// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

// main is a program; require ends it by panic-free Goexit, so it hands errors back instead.
type main func(e *env) error

// env is what a test program has at hand: an open NIC and shorthands.
type env struct {
	t    *host.Thread
	h    *driver.Host
	nic  *vipl.NIC
	fail []error
}

// is notes a call whose error is not the one wanted.
func (e *env) is(what string, got, want error) {
	if !errors.Is(got, want) {
		e.fail = append(e.fail, errors.New(what+": got "+text(got)+", want "+text(want)))
	}
}

func (e *env) that(what string, ok bool) {
	if !ok {
		e.fail = append(e.fail, errors.New(what))
	}
}

func text(err error) string {
	if err == nil {
		return "no error"
	}
	return "'" + err.Error() + "'"
}

// programs makes a driver program of each main, one node each.
func programs(mains ...main) []driver.Program {
	var out []driver.Program
	for i, m := range mains {
		out = append(out, driver.Program{Node: i, Main: func(t *host.Thread, h *driver.Host) error {
			nic, err := vipl.OpenNIC(t, h)
			if err != nil {
				return err
			}
			e := &env{t: t, h: h, nic: nic}
			err = m(e)
			return errors.Join(append(e.fail, err)...)
		}})
	}
	return out
}

// onMvia says that the host's VIs are in its kernel.
func (e *env) onMvia() bool { return e.h.Device() == driver.DeviceMvia }

// devices are what a program must not have to care about.
var devices = []driver.Device{driver.DeviceHvia, driver.DeviceMvia}

// onDevices runs a test for each device.
func onDevices(t *testing.T, test func(t *testing.T, d driver.Device)) {
	for _, d := range devices {
		t.Run(string(d), func(t *testing.T) { test(t, d) })
	}
}

// runFake runs one program per node on fake cards, or on M-VIA over fake NICs;
// everything they leave behind must be taken back.
func runFake(t *testing.T, d driver.Device, prepare func(f *drivertest.Fabric), mains ...main) *drivertest.Fabric {
	t.Helper()
	f, err := drivertest.NewOf(d, len(mains), 2*len(mains))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	if prepare != nil {
		prepare(f)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Device: d, Seed: 1}, programs(mains...)...))
	for i := range mains {
		require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
	}
	return f
}

// peer is one end of a connection, with a registered buffer and room for descriptors.
type peer struct {
	*env
	vi          *vipl.VI
	buf         *mem.Buffer
	mem         *vipl.Region
	descriptors *vipl.Region
	posted      int
}

const (
	bufferBytes = 80 * 1024
	attempts    = 1000
)

func (e *env) prepare(a vipl.VIAttributes) (*peer, error) {
	p := &peer{env: e}
	var err error
	if p.vi, err = e.nic.CreateVI(e.t, a); err != nil {
		return nil, err
	}
	if p.buf, err = e.nic.Alloc(e.t, bufferBytes); err != nil {
		return nil, err
	}
	if p.mem, err = e.nic.RegisterBuffer(e.t, p.buf, vipl.MemAttributes{EnableRDMAWrite: true}); err != nil {
		return nil, err
	}
	d, err := e.nic.Alloc(e.t, 32*1024*4)
	if err != nil {
		return nil, err
	}
	p.descriptors, err = e.nic.RegisterBuffer(e.t, d, vipl.MemAttributes{})
	return p, err
}

// serve waits for a connection and accepts it.
func (e *env) serve(a vipl.VIAttributes) (*peer, error) {
	p, err := e.prepare(a)
	if err != nil {
		return nil, err
	}
	r, err := e.nic.ConnectWait(e.t, vipl.NetAddress{Host: e.nic.Query().LocalAddress, Discriminator: "test"}, vipl.Infinite)
	if err != nil {
		return nil, err
	}
	return p, r.Accept(e.t, p.vi)
}

// dial connects to node, whose program may not have got to its wait yet.
func (e *env) dial(node int, a vipl.VIAttributes) (*peer, error) {
	p, err := e.prepare(a)
	if err != nil {
		return nil, err
	}
	for range attempts {
		_, err = p.vi.ConnectRequest(e.t, vipl.NetAddress{Discriminator: "client"}, vipl.NetAddress{Host: vipl.HostAddress(node), Discriminator: "test"}, host.Second)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return p, err
		}
		if err := e.t.Sleep(200 * host.Microsecond); err != nil {
			return nil, err
		}
	}
	return nil, err
}

var writable = vipl.VIAttributes{EnableRDMAWrite: true}

// raw is a descriptor's memory, for what its setters do not make.
func raw(d *vipl.Descriptor) layout.Descriptor { return d.Bytes() }

// next returns a fresh descriptor.
func (p *peer) next() *vipl.Descriptor {
	d, err := p.descriptors.Descriptor(p.posted%2048*vipl.DescriptorBytes, 1)
	if err != nil {
		panic(err)
	}
	p.posted++
	return d
}

// address tells the peer where to write: through the mailbox, as programs tell
// each other in other ways before there is any receive.
type target struct {
	address uint64
	handle  vipl.MemHandle
}

func (p *peer) tell(node int) error {
	b := make([]byte, layout.AddressSegmentSize)
	layout.AddressSegment(b).SetAddress(p.mem.Address())
	layout.AddressSegment(b).SetHandle(uint32(p.mem.Handle()))
	return p.t.Send(host.ThreadID{Node: node, Rank: 1}, b)
}

func (p *peer) hear() (target, error) {
	m, ok, err := p.t.Receive(host.Second)
	if err != nil {
		return target{}, err
	}
	if !ok || len(m.Data) != layout.AddressSegmentSize {
		return target{}, errors.New("the peer's address did not come")
	}
	s := layout.AddressSegment(m.Data)
	return target{s.Address(), vipl.MemHandle(s.Handle())}, nil
}

// write posts one RDMA write.
func (p *peer) write(offset, n int, to target, at int) (*vipl.Descriptor, error) {
	d := p.next()
	d.SetRDMAWrite(p.mem.Segment(offset, n), to.address+uint64(at), to.handle)
	return d, p.vi.PostSend(p.t, d)
}

// settled waits for the other side's last message before a program ends.
func (p *peer) settled(node int) error {
	if err := p.t.Send(host.ThreadID{Node: node, Rank: 1}, []byte("end")); err != nil {
		return err
	}
	m, ok, err := p.t.Receive(host.Second)
	if err == nil && (!ok || string(m.Data) != "end") {
		return errors.New("the peer did not end")
	}
	return err
}
