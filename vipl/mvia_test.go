// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
)

// Prices of a kernel's work, each of which can be told from every sum of the others.
type mviaPrices struct{ priced }

const (
	trapPrice    = 11 * host.Microsecond
	switchPrice  = 13 * host.Microsecond
	sendPrice    = 17 * host.Microsecond
	receivePrice = 19 * host.Microsecond
	wakePrice    = 23 * host.Microsecond
	copyPrice    = 3 * host.Nanosecond
)

func (mviaPrices) Interrupt() host.Time { return 7 * host.Microsecond }
func (mviaPrices) Kernel() host.KernelCosts {
	return host.KernelCosts{
		Trap: trapPrice, Switch: switchPrice, SendPacket: sendPrice, CopyByte: copyPrice,
		Mvia: host.ProtocolCosts{ReceivePacket: receivePrice, Wake: wakePrice},
	}
}

// ledger is what was spent in a run.
type ledger struct {
	mu  sync.Mutex
	all []host.Spending
}

func (l *ledger) add(s host.Spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

// last is the last entry of a thread and layer.
func (l *ledger) last(id host.ThreadID, layer host.Layer) (last host.Spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		if s.Thread == id && s.Layer == layer && s.End >= last.End {
			last = s
		}
	}
	return last
}

// runMvia runs programs on M-VIA over fake NICs, with prices.
func runMvia(t *testing.T, l *ledger, list ...driver.Program) {
	t.Helper()
	nodes := map[int]bool{}
	for _, p := range list {
		nodes[p.Node] = true
	}
	f, err := drivertest.NewOf(driver.DeviceMvia, len(nodes), len(nodes)+len(list))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Device: driver.DeviceMvia, Seed: 1, Costs: mviaPrices{}, Spending: l.add}, list...))
	for i := range nodes {
		require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
	}
}

// What calls of the library and the kernel's work take is in the accounts.
func TestAccountOfMvia(t *testing.T) {
	var c mviaPrices
	l := &ledger{}
	spent := func(e *env, what string, want host.Account, call func() error) error {
		before := e.t.Spent()
		err := call()
		got := e.t.Spent().Less(before)
		e.that(fmt.Sprintf("%s: spent %v, want %v", what, got, want), got == want)
		return err
	}
	const n = 3000 // three frames
	client := func(e *env) error {
		p, err := e.dial(1, writable)
		if err != nil {
			return err
		}
		if err := p.meet(1); err != nil {
			return err
		}
		var d *vipl.Descriptor
		if err := spent(e, "post of three frames", host.Account{host.LayerLibrary: c.Post(), host.LayerTrap: trapPrice, host.LayerProtocol: 3 * sendPrice}, func() (err error) {
			d, err = p.send(0, n)
			return err
		}); err != nil {
			return err
		}
		// The NIC has read all but the last; a look into the ring shows it, if it is there by now.
		if err := e.t.Sleep(host.Millisecond); err != nil {
			return err
		}
		_ = spent(e, "a wait that finds it done", host.Account{host.LayerLibrary: c.SendDone()}, func() error {
			got, err := p.vi.SendWait(e.t, host.Second)
			e.is("done", err, nil)
			e.that("in order", got == d)
			return nil
		})
		if d, err = p.send(0, 4); err != nil {
			return err
		}
		_ = spent(e, "a look that finds nothing has the kernel look into the ring", host.Account{host.LayerTrap: trapPrice, host.LayerLibrary: c.SendDone()}, func() error {
			got, err := p.vi.SendDone(e.t)
			e.is("done", err, nil)
			e.that("in order", got == d)
			return nil
		})

		// Pieces of memory that are too many for the NIC are copied.
		wide, err := p.wide(100)
		if err != nil {
			return err
		}
		var pieces []vipl.Segment
		for i := range 100 {
			pieces = append(pieces, p.mem.Segment(3*i, 2))
		}
		if err := wide.SetSend(pieces...); err != nil {
			return err
		}
		if err := spent(e, "post of many pieces", host.Account{
			host.LayerLibrary: c.Post(), host.LayerTrap: trapPrice, host.LayerProtocol: sendPrice, host.LayerCopy: 200 * copyPrice,
		}, func() error { return p.vi.PostSend(e.t, wide) }); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
			return err
		}
		return p.settled(1)
	}
	var stored, woken, interrupted host.Time
	server := func(e *env) error {
		p, err := e.serve(writable)
		if err != nil {
			return err
		}
		var d *vipl.Descriptor
		if err := spent(e, "post of a receive", host.Account{host.LayerLibrary: c.Post(), host.LayerTrap: trapPrice}, func() (err error) {
			d, err = p.receive(0, n)
			return err
		}); err != nil {
			return err
		}
		var others []*vipl.Descriptor
		for range 2 {
			d, err := p.receive(0, n)
			if err != nil {
				return err
			}
			others = append(others, d)
		}
		if err := p.meet(0); err != nil {
			return err
		}
		before := e.h.Spent()
		_ = spent(e, "a wait that blocks", host.Account{host.LayerTrap: trapPrice, host.LayerSwitch: switchPrice, host.LayerLibrary: c.ReceiveDone()}, func() error {
			got, err := p.vi.RecvWait(e.t, host.Second)
			p.completed("the message", got, d, err, received(n))
			return nil
		})
		kernel := e.h.Spent().Less(before)
		interrupted = kernel[host.LayerInterrupt]
		e.that(fmt.Sprintf("the kernel's work for three packets: %v", kernel),
			kernel[host.LayerProtocol] == 3*receivePrice && kernel[host.LayerCopy] == n*copyPrice)
		agent := host.ThreadID{Node: 1, Rank: driver.AgentRank}
		stored, woken = l.last(agent, host.LayerCopy).End, l.last(e.t.ID(), host.LayerSwitch).Asked
		p.take("the second", others[0], received(4))
		p.take("the third", others[1], received(200))

		// A wait that ends in vain was blocked too.
		if _, err := p.receive(0, n); err != nil {
			return err
		}
		_ = spent(e, "a wait in vain", host.Account{host.LayerTrap: trapPrice, host.LayerSwitch: switchPrice}, func() error {
			began := e.t.Now()
			_, err := p.vi.RecvWait(e.t, host.Millisecond)
			e.is("nothing comes", err, vipl.ErrTimeout)
			took := e.t.Now() - began
			e.that(fmt.Sprintf("it took %v", took), took == host.Millisecond+wakePrice+switchPrice)
			return nil
		})
		_ = spent(e, "a look", host.Account{host.LayerPoll: c.PollPeriod()}, func() error {
			_, err := p.vi.RecvDone(e.t)
			e.is("nothing came", err, vipl.ErrNotDone)
			return nil
		})
		return p.settled(0)
	}
	runMvia(t, l, programs(client, server)...)
	// Who waits for a write goes on just after it.
	require.InDelta(t, int64(wakePrice), int64(woken-stored), 1, "from the status to the switch")
	require.Positive(t, interrupted)
	require.Zero(t, interrupted%c.Interrupt())
}

// on is a peer for another thread of its node.
func (p *peer) on(t *host.Thread, h *driver.Host) *peer {
	q := *p
	q.env = &env{t: t, h: h, nic: p.nic}
	return &q
}

// begin lets another thread of node 0 begin.
func begin(e *env, rank int) error { return e.t.Send(host.ThreadID{Node: 0, Rank: rank}, nil) }

func heard(th *host.Thread) error {
	_, ok, err := th.Receive(host.Second)
	if err == nil && !ok {
		err = errors.New("nobody said that it begins")
	}
	return err
}

// Threads that post on one VI: messages do not mix, though the kernel is left in
// the midst of each of them.
func TestThreadsPostOnOneVI(t *testing.T) {
	const each, threads, size = 20, 3, 4000
	var shared *peer
	content := func(id byte) []byte { return bytes.Repeat([]byte{id}, size) }
	post := func(p *peer, thread int) error {
		for i := range each {
			id := byte(1 + thread*each + i)
			at := int(id-1) * 1024
			copy(p.mem.Bytes()[at:], content(id)[:1024])
			var pieces []vipl.Segment
			for left := size; left > 0; left -= 1024 {
				pieces = append(pieces, p.mem.Segment(at, min(left, 1024)))
			}
			d, err := p.wide(len(pieces))
			if err != nil {
				return err
			}
			if err := d.SetSend(pieces...); err != nil {
				return err
			}
			d.AttachImmediate(uint32(id))
			if err := p.vi.PostSend(p.t, d); err != nil {
				return err
			}
			if err := p.t.Spend(host.LayerLibrary, host.Time(1+thread*5)*host.Microsecond); err != nil {
				return err
			}
		}
		return nil
	}
	other := func(thread int) driver.Program {
		return driver.Program{Node: 0, Main: func(th *host.Thread, h *driver.Host) error {
			if err := heard(th); err != nil {
				return err
			}
			p := shared.on(th, h)
			if err := post(p, thread); err != nil {
				return err
			}
			return begin(p.env, 1)
		}}
	}
	list := programs(
		func(e *env) error {
			var err error
			if shared, err = e.dial(1, writable); err != nil {
				return err
			}
			if err := shared.meet(1); err != nil {
				return err
			}
			for i := 1; i < threads; i++ {
				if err := begin(e, i+1); err != nil {
					return err
				}
			}
			if err := post(shared, 0); err != nil {
				return err
			}
			for i := 1; i < threads; i++ {
				if err := heard(e.t); err != nil {
					return err
				}
			}
			for range each * threads {
				if _, err := shared.vi.SendWait(e.t, host.Second); err != nil {
					return err
				}
			}
			return shared.settled(1)
		}, func(e *env) error {
			p, err := e.serve(writable)
			if err != nil {
				return err
			}
			const room = 16
			var posted []*vipl.Descriptor
			for i := range each * threads {
				d, err := p.receive(i%room*size, size)
				if err != nil {
					return err
				}
				posted = append(posted, d)
			}
			if err := p.meet(0); err != nil {
				return err
			}
			seen := map[uint32]bool{}
			for i, want := range posted {
				d, err := p.vi.RecvWait(e.t, host.Second)
				e.is("receive", err, nil)
				e.that("in order", d == want)
				id, _ := d.Immediate()
				e.that(fmt.Sprintf("message %d comes once", id), !seen[id])
				seen[id] = true
				if b := p.mem.Bytes()[i%room*size:][:size]; !bytes.Equal(b, content(byte(id))) {
					return fmt.Errorf("message %d: begins with %d and ends with %d", id, b[0], b[size-1])
				}
			}
			e.that(fmt.Sprintf("%d messages", len(seen)), len(seen) == each*threads)
			return p.settled(0)
		})
	runMvia(t, &ledger{}, append(list, other(1), other(2))...)
}

// interruption is what another thread does while a message of the largest size is
// on its way.
type interruption struct {
	name      string
	interrupt func(p *peer, data, descriptors *vipl.Region) error
	bits      uint32
	state     vipl.VIState
}

// A thread leaves the kernel for each frame that it sends. What others do
// meanwhile ends its message behind a frame, and touches nothing that is not there any more.
func TestMessagesAreInterrupted(t *testing.T) {
	for _, c := range []interruption{
		{"disconnected", func(p *peer, _, _ *vipl.Region) error { return p.vi.Disconnect(p.t) }, flushedError, vipl.Idle},
		{"data deregistered", func(p *peer, data, _ *vipl.Region) error { return data.Deregister(p.t) }, protectionError, vipl.Connected},
		{"descriptor deregistered", func(p *peer, _, descriptors *vipl.Region) error { return descriptors.Deregister(p.t) }, 0, vipl.Connected},
		{"another post on the VI, then disconnected", func(p *peer, _, _ *vipl.Region) error {
			if _, err := p.write(0, 4, target{p.mem.Address(), p.mem.Handle()}, 0); err != nil {
				return err
			}
			return p.vi.Disconnect(p.t)
		}, flushedError, vipl.Idle},
		{"the NIC handle closed", func(p *peer, _, _ *vipl.Region) error { return p.nic.Close(p.t) }, flushedError, layout.VIStateFree},
	} {
		t.Run(c.name, func(t *testing.T) { interrupted(t, c) })
	}
}

func interrupted(t *testing.T, c interruption) {
	const size, frames = driver.MaxTransferSize, (driver.MaxTransferSize + layout.MaxPayload - 1) / layout.MaxPayload
	var shared *peer
	var data, descriptors *vipl.Region
	var to target
	list := programs(
		func(e *env) error {
			var err error
			if shared, err = e.dial(1, writable); err != nil {
				return err
			}
			if to, err = shared.hear(); err != nil {
				return err
			}
			if data, err = shared.source(); err != nil {
				return err
			}
			b, err := e.nic.Alloc(e.t, 4096)
			if err != nil {
				return err
			}
			if descriptors, err = e.nic.RegisterBuffer(e.t, b, vipl.MemAttributes{}); err != nil {
				return err
			}
			d, err := descriptors.Descriptor(0, 1)
			if err != nil {
				return err
			}
			d.SetRDMAWrite(data.Segment(0, size), to.address, to.handle)
			if err := begin(e, 2); err != nil {
				return err
			}
			if err := shared.vi.PostSend(e.t, d); err != nil {
				return err
			}
			if err := heard(e.t); err != nil {
				return err
			}
			e.that(fmt.Sprintf("complete: %v", d.Status()), d.Status().Done())
			e.that(fmt.Sprintf("%v, want bits %#x", d.Status(), c.bits), d.Status()&vipl.DescriptorErrorMask == vipl.DescriptorStatus(c.bits))
			n := d.Length()
			if c.bits == 0 {
				e.that(fmt.Sprintf("%d bytes", n), n == size)
			} else {
				e.that(fmt.Sprintf("%d bytes: some whole frames, and not all", n), n > 0 && n < size && n%layout.MaxPayload == 0)
			}
			if c.state == layout.VIStateFree {
				return nil
			}
			shared.inState("afterwards", c.state)
			for i := 0; ; i++ {
				got, err := shared.vi.SendDone(e.t)
				if got == nil {
					e.is("drained", err, vipl.ErrDescriptor)
					break
				}
				if i == 0 {
					e.that("in order", got == d)
				} else {
					e.flushed("behind it", got, err)
				}
			}
			// The VI works, as it is or after another connection.
			if c.state == vipl.Idle {
				if err := shared.redial(1); err != nil {
					return err
				}
			}
			return errors.Join(shared.goodWrite(to), shared.settled(1))
		},
		func(e *env) error {
			p, err := e.serve(writable)
			if err != nil {
				return err
			}
			if err := p.tell(0); err != nil {
				return err
			}
			if c.state == vipl.Idle {
				p.asynchronous("the peer left", layout.AsyncErrorConnectionLost, p.vi)
				p.asynchronous("cut off", layout.AsyncErrorRDMAWriteAbort, p.vi)
				if err := p.vi.Disconnect(e.t); err != nil {
					return err
				}
				if err := p.again(); err != nil {
					return err
				}
			}
			// The client's threads have more to say to each other before.
			if err := e.t.Sleep(10 * host.Millisecond); err != nil || c.state == layout.VIStateFree {
				return err
			}
			return p.settled(0)
		})
	list = append(list, driver.Program{Node: 0, Main: func(th *host.Thread, h *driver.Host) error {
		if err := heard(th); err != nil {
			return err
		}
		// In the midst of the message.
		if err := th.Sleep(frames / 2 * sendPrice); err != nil {
			return err
		}
		p := shared.on(th, h)
		if err := c.interrupt(p, data, descriptors); err != nil {
			return err
		}
		// When a region is gone its frames are free for others.
		if err := th.Sleep(3 * frames * sendPrice); err != nil {
			return err
		}
		return begin(p.env, 1)
	}})
	runMvia(t, &ledger{}, list...)
}

// A host's device is M-VIA or the card, and nothing else; M-VIA needs a plain NIC.
func TestDevicesThatAreNotThere(t *testing.T) {
	open := driver.Program{Main: func(t *host.Thread, h *driver.Host) error {
		_, err := vipl.OpenNIC(t, h)
		return err
	}}
	for _, c := range []struct {
		name         string
		fabric, host driver.Device
		want         error
		text         string
	}{
		{"no such device", driver.DeviceHvia, "via", host.ErrInvalidParameter, "device 'via': want 'hvia' or 'mvia'"},
		{"M-VIA on a card", driver.DeviceHvia, driver.DeviceMvia, driver.ErrIdentity, "plain NIC"},
		{"a card's driver on a plain NIC", driver.DeviceMvia, driver.DeviceHvia, driver.ErrIdentity, "open the card"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := drivertest.NewOf(c.fabric, 1, 2)
			require.NoError(t, err)
			t.Cleanup(f.Close)
			err = driver.RunOn(t.Context(), f, driver.RunConfig{Device: c.host}, open)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// M-VIA's kernel counts on threads that take turns.
func TestMviaInFreeModeIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator, whose build takes minutes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := driver.Run(ctx, driver.RunConfig{Device: driver.DeviceMvia, Fabric: sim.Config{Mode: sim.Free}}, driver.Program{Main: func(t *host.Thread, h *driver.Host) error {
		_, err := vipl.OpenNIC(t, h)
		return err
	}})
	require.ErrorIs(t, err, host.ErrInvalidParameter)
	require.ErrorContains(t, err, "timed mode")
}

// The NIC handle says what the host's VIs are on.
func TestNamesOfDevices(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		runFake(t, d, nil, func(e *env) error {
			e.that("name "+e.nic.Query().Name, e.nic.Query().Name == string(d)+"0")
			return nil
		})
	})
}

// A NIC that reads no more frames: nobody waits for ever, and every later call says why.
func TestNICThatDies(t *testing.T) {
	f, err := drivertest.NewOf(driver.DeviceMvia, 2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = driver.RunOn(ctx, f, driver.RunConfig{Device: driver.DeviceMvia}, programs(func(e *env) error {
		p, err := e.dial(1, writable)
		if err != nil {
			return err
		}
		if err := p.quiet(); err != nil { // what connects has been said
			return err
		}
		f.Node(0).NIC.Dead = true // nothing else of this node runs
		if _, err := p.send(0, 3000); err != nil {
			return err
		}
		_, err = p.vi.SendWait(e.t, host.Millisecond)
		e.is("the send is not over", err, vipl.ErrTimeout)
		began := e.t.Now()
		err = p.vi.Disconnect(e.t)
		e.is("disconnect", err, driver.ErrDeadline)
		e.that("it says what it waited for: "+text(err), err != nil && strings.Contains(err.Error(), "sends of VI 0"))
		took := e.t.Now() - began
		e.that(fmt.Sprintf("it took %v", took), took >= host.Second && took < 2*host.Second)
		_, err = e.nic.CreateVI(e.t, writable)
		e.is("a later call", err, host.ErrClosed)
		return errors.Join(e.fail...)
	}, func(e *env) error {
		_, err := e.serve(writable)
		return errors.Join(err, e.t.Sleep(3*host.Second))
	})...)
	require.ErrorIs(t, err, driver.ErrDeadline)
}
