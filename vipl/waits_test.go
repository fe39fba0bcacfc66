// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
)

// What a thread does ends or serves the wait of another one at a completion queue.
func TestCQWaitsOfOtherThreads(t *testing.T) {
	onDevices(t, func(t *testing.T, d driver.Device) {
		for _, blocking := range []bool{false, true} {
			for _, end := range []string{"destroy", "close"} {
				t.Run(fmt.Sprintf("blocking %v, %s", blocking, end), func(t *testing.T) { cqWaitsOfOtherThreads(t, d, blocking, end) })
			}
		}
	})
}

func cqWaitsOfOtherThreads(t *testing.T, device driver.Device, blocking bool, end string) {
	var p *peer
	var c *vipl.CQ
	var served, broken, posted, ended [2]host.Time // when it was done, and when the waiting thread went on
	runThreads(t, device,
		driver.Program{Node: 0, Name: "acts", Main: func(th *host.Thread, h *driver.Host) error {
			nic, err := vipl.OpenNIC(th, h)
			if err != nil {
				return err
			}
			e := &env{t: th, h: h, nic: nic}
			if c, err = nic.CreateCQ(th, 4); err != nil {
				return err
			}
			c.SetBlocking(blocking)
			if p, err = e.prepare(vipl.VIAttributes{RecvCQ: c}); err != nil {
				return err
			}
			if _, err := p.receive(0, 16); err != nil {
				return err
			}
			// A descriptor that the card cannot read: only the library can complete it.
			hide := func() error {
				d := p.next()
				if err := d.SetReceive(); err != nil {
					return err
				}
				d.Handle ^= 0x20
				return p.vi.PostRecv(th, d)
			}
			if err := hide(); err != nil {
				return err
			}
			if err := th.Send(host.ThreadID{Node: 0, Rank: 2}, nil); err != nil {
				return err
			}
			for _, n := range []int{100, 5, 8} {
				if err := th.Sleep(host.Millisecond); err != nil {
					return err
				}
				e.is("resize under a wait", c.Resize(th, n), nil)
			}
			if err := th.Sleep(host.Millisecond); err != nil {
				return err
			}
			served[0] = th.Now()
			e.is("disconnect", p.vi.Disconnect(th), nil)
			if err := th.Sleep(host.Millisecond); err != nil {
				return err
			}
			// Now it breaks the VI, which wakes who waits.
			broken[0] = th.Now()
			if err := hide(); err != nil {
				return err
			}
			if err := th.Sleep(host.Millisecond); err != nil {
				return err
			}
			// And so does what is posted on it then.
			posted[0] = th.Now()
			if _, err := p.receive(0, 16); err != nil {
				return err
			}
			if err := th.Sleep(host.Millisecond); err != nil {
				return err
			}
			e.is("disconnect", p.vi.Disconnect(th), nil)
			if end == "destroy" {
				e.is("destroy the VI", p.vi.Destroy(th), nil)
			}
			ended[0] = th.Now()
			if end == "destroy" {
				e.is("destroy the completion queue", c.Destroy(th), nil)
			} else {
				e.is("close", nic.Close(th), nil)
			}
			return errors.Join(e.fail...)
		}},
		driver.Program{Node: 0, Name: "waits", Main: func(th *host.Thread, _ *driver.Host) error {
			if _, _, err := th.Receive(host.Second); err != nil {
				return err
			}
			e := &env{t: th, nic: p.nic}
			for range 2 {
				e.entry("the other thread disconnected", c, p.vi, true)
				if served[1] == 0 {
					served[1] = th.Now()
				}
				d, err := p.vi.RecvDone(th)
				e.flushed("the other thread disconnected", d, err)
			}
			e.entry("the VI broke", c, p.vi, true)
			broken[1] = th.Now()
			d, err := p.vi.RecvDone(th)
			e.flushed("the VI broke", d, err)
			e.entry("posted on a broken VI", c, p.vi, true)
			posted[1] = th.Now()
			d, err = p.vi.RecvDone(th)
			e.flushed("posted on a broken VI", d, err)
			_, err = c.Wait(th, host.Second)
			e.is("it is gone", err, vipl.ErrInvalidParameter)
			ended[1] = th.Now()
			_, err = c.Done(th)
			e.is("it stays so", err, vipl.ErrInvalidParameter)
			return errors.Join(e.fail...)
		}})
	for _, at := range [][2]host.Time{served, broken, posted, ended} {
		require.True(t, at[1] >= at[0] && at[1]-at[0] < promptly, "done at %v, and the wait ended at %v", at[0], at[1])
	}
}

// Handlers run on the thread that is there for them.
func TestNotifyThread(t *testing.T) {
	onDevices(t, func(t *testing.T, device driver.Device) {
		var p *peer
		var told []*vipl.Descriptor
		var posted []*vipl.Descriptor
		const n = 3
		runThreads(t, device,
			driver.Program{Node: 0, Name: "acts", Main: func(th *host.Thread, h *driver.Host) error {
				nic, err := vipl.OpenNIC(th, h)
				if err != nil {
					return err
				}
				e := &env{t: th, h: h, nic: nic}
				if p, err = e.prepare(writable); err != nil {
					return err
				}
				for range n {
					d, err := p.receive(0, 16)
					if err != nil {
						return err
					}
					posted = append(posted, d)
				}
				if err := th.Send(host.ThreadID{Node: 0, Rank: 2}, nil); err != nil {
					return err
				}
				if err := th.Sleep(host.Millisecond); err != nil {
					return err
				}
				// Not by the library: the handlers must not run here.
				if _, err := h.Allocate(th, 1, mem.Single); err != nil {
					return err
				}
				e.is("disconnect", p.vi.Disconnect(th), nil)
				return errors.Join(e.fail...)
			}},
			driver.Program{Node: 0, Name: "handles", Main: func(th *host.Thread, _ *driver.Host) error {
				if _, _, err := th.Receive(host.Second); err != nil {
					return err
				}
				e := &env{t: th, nic: p.nic}
				for range n {
					e.is("register", p.vi.RecvNotify(th, func(_ *host.Thread, v *vipl.VI, d *vipl.Descriptor) {
						e.that("its VI", v == p.vi)
						told = append(told, d)
					}), nil)
				}
				e.that("nothing has come", len(told) == 0)
				for len(told) < n {
					if err := p.nic.NotifyWait(th, 100*host.Millisecond); err != nil && !errors.Is(err, vipl.ErrTimeout) || th.Now() > host.Second {
						return fmt.Errorf("%d of %d told at %v: %w", len(told), n, th.Now(), err)
					}
				}
				e.that("before any timeout", th.Now() < 50*host.Millisecond)
				return errors.Join(e.fail...)
			}})
		require.Equal(t, posted, told)
	})
}

// What a wait that sleeps takes: a system call, the interrupt's service, a switch.
// One that polls takes none of them, and taking an entry of a completion queue takes a look.
func TestAccountOfWaits(t *testing.T) {
	var c mviaPrices
	spent := func(e *env, what string, want host.Account, call func() error) error {
		before := e.t.Spent()
		err := call()
		got := e.t.Spent().Less(before)
		want[host.LayerPoll] = got[host.LayerPoll]
		e.that(fmt.Sprintf("%s: spent %v, want %v", what, got, want), got == want)
		return err
	}
	const messages = 4
	client := func(e *env) error {
		p, err := e.dial(1, writable)
		if err != nil {
			return err
		}
		tied, err := p.another(writable, 1024)
		if err != nil {
			return err
		}
		for i := range messages {
			if err := p.meet(1); err != nil {
				return err
			}
			if err := e.t.Sleep(200 * host.Microsecond); err != nil {
				return err
			}
			q := []*peer{p, tied}[i/2]
			d, err := q.send(0, 4)
			if err != nil {
				return err
			}
			q.sent("a message", d, didSend(4))
		}
		return p.settled(1)
	}
	server := func(e *env) error {
		q, err := e.nic.CreateCQ(e.t, 16)
		if err != nil {
			return err
		}
		p, err := e.serve(vipl.VIAttributes{Blocking: true})
		if err != nil {
			return err
		}
		tied, err := p.another(vipl.VIAttributes{RecvCQ: q}, 1024)
		if err != nil {
			return err
		}
		for range 3 {
			for _, p := range []*peer{p, tied} {
				if _, err := p.receive(0, 4); err != nil {
					return err
				}
			}
		}
		sleeps := host.Account{host.LayerTrap: trapPrice, host.LayerSwitch: switchPrice}
		with := func(a host.Account, library host.Time) host.Account {
			a[host.LayerLibrary] = library
			return a
		}
		interrupts := func(what string, n int, want host.Account, call func() error) {
			before := e.h.Spent()[host.LayerInterrupt]
			e.is(what, spent(e, what, want, call), nil)
			got := e.h.Spent()[host.LayerInterrupt] - before
			e.that(fmt.Sprintf("%s: %v of interrupts, want %d of %v", what, got, n, c.Interrupt()), got == host.Time(n)*c.Interrupt())
		}
		vain := func(err error) error {
			if errors.Is(err, vipl.ErrTimeout) || errors.Is(err, vipl.ErrNotDone) {
				return nil
			}
			return fmt.Errorf("it must end in vain: %w", err)
		}
		recv := func() error { return second(p.vi.RecvWait(e.t, host.Second)) }
		entry := func() error {
			_, err := q.Wait(e.t, host.Second)
			return err
		}

		// The agent may not be done with the connection yet.
		if err := e.t.Sleep(host.Millisecond); err != nil {
			return err
		}
		if err := p.meet(0); err != nil {
			return err
		}
		interrupts("a wait that sleeps", 1, with(sleeps, c.ReceiveDone()), recv)
		if err := p.meet(0); err != nil {
			return err
		}
		if err := e.t.Sleep(host.Millisecond); err != nil {
			return err
		}
		interrupts("a wait that finds it there", 0, with(host.Account{}, c.ReceiveDone()), recv)
		interrupts("a wait that has no time", 0, host.Account{}, func() error { return vain(second(p.vi.RecvWait(e.t, 0))) })
		interrupts("a wait that sleeps in vain", 0, sleeps, func() error { return vain(second(p.vi.RecvWait(e.t, 100*host.Microsecond))) })

		if err := p.meet(0); err != nil {
			return err
		}
		interrupts("a wait for an entry that polls", 0, with(host.Account{}, c.PollPeriod()), entry)
		q.SetBlocking(true)
		if err := p.meet(0); err != nil {
			return err
		}
		interrupts("a wait for an entry that sleeps", 1, with(sleeps, c.PollPeriod()), entry)
		interrupts("a look at an empty completion queue", 0, host.Account{}, func() error {
			_, err := q.Done(e.t)
			return vain(err)
		})
		for range 2 {
			interrupts("a descriptor whose entry was taken", 0, with(host.Account{}, c.ReceiveDone()), func() error { return second(tied.vi.RecvDone(e.t)) })
		}
		return p.settled(0)
	}
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Seed: 1, Costs: mviaPrices{}}, programs(client, server)...))
}

// A completion that comes while a thread goes to sleep wakes it, at whatever
// instant between its look and its sleep that is.
func TestSleepMissesNothing(t *testing.T) {
	const step, steps = 500 * host.Nanosecond, 100
	client := func(e *env) error {
		p, err := e.dial(1, vipl.VIAttributes{})
		if err != nil {
			return err
		}
		tied, err := p.another(vipl.VIAttributes{}, 1024)
		if err != nil {
			return err
		}
		for i := range 2 * steps {
			if err := p.meet(1); err != nil {
				return err
			}
			if err := e.t.Sleep(host.Time(i/2)*step + host.Microsecond); err != nil {
				return err
			}
			if _, err := []*peer{p, tied}[i%2].send(0, 4); err != nil {
				return err
			}
			if err := p.meet(1); err != nil {
				return err
			}
		}
		return p.settled(1)
	}
	server := func(e *env) error {
		c, err := e.nic.CreateCQ(e.t, 1024)
		if err != nil {
			return err
		}
		c.SetBlocking(true)
		p, err := e.serve(vipl.VIAttributes{Blocking: true})
		if err != nil {
			return err
		}
		tied, err := p.another(vipl.VIAttributes{RecvCQ: c}, 1024)
		if err != nil {
			return err
		}
		for i := range 2 * steps {
			q := []*peer{p, tied}[i%2]
			if _, err := q.receive(0, 4); err != nil {
				return err
			}
			if err := p.meet(0); err != nil {
				return err
			}
			before := e.t.Now()
			if i%2 == 0 {
				_, err = p.vi.RecvWait(e.t, host.Second)
			} else if _, err = c.Wait(e.t, host.Second); err == nil {
				_, err = tied.vi.RecvDone(e.t)
			}
			what := fmt.Sprintf("message after %v", host.Time(i/2)*step)
			e.is(what, err, nil)
			e.that(fmt.Sprintf("%s: it took %v", what, e.t.Now()-before), e.t.Now()-before < promptly)
			if err := p.meet(0); err != nil {
				return err
			}
		}
		return p.settled(0)
	}
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Seed: 1, Costs: mviaPrices{}}, programs(client, server)...))
}

// What the two agents agree on is in the connection frames of both.
func TestWindowOnTheWire(t *testing.T) {
	type offer struct{ reliability, window, reads uint8 }
	offers := map[layout.ConnectionType][]offer{}
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	f.Lose = func(_ int, frame []byte) bool {
		if layout.EthernetHeader(frame).EtherType() == layout.EtherTypeConnection {
			c := layout.ConnectionFrame(frame[layout.EthernetHeaderSize:])
			kind := layout.ConnectionType(c.Type())
			offers[kind] = append(offers[kind], offer{c.Reliability(), c.Window(), c.ReadLimit()})
		}
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(e *env) error {
		for _, level := range []vipl.ReliabilityLevel{vipl.Unreliable, vipl.ReliableReception} {
			p, err := e.prepare(vipl.VIAttributes{ReliabilityLevel: level})
			if err != nil {
				return err
			}
			run := p.again
			if e.h.Node() == 0 {
				run = func() error { return p.redial(1) }
			}
			if err := run(); err != nil {
				return err
			}
		}
		return (&peer{env: e}).meet(1 - e.h.Node())
	}
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Seed: 1, Transport: driver.Transport{Window: 9, ReadLimit: 3}}, programs(connect, connect)...))
	for _, kind := range []layout.ConnectionType{layout.ConnectionTypeRequest, layout.ConnectionTypeAccept} {
		last := offers[kind][len(offers[kind])-1]
		require.Equal(t, offer{uint8(vipl.ReliableReception), 9, 3}, last, "%v", kind)
		require.Equal(t, offer{uint8(vipl.Unreliable), 0, 0}, offers[kind][0], "%v: an unreliable level has nothing to offer", kind)
	}
	err = driver.RunOn(ctx, f, driver.RunConfig{Seed: 1, Transport: driver.Transport{Window: 1000}}, programs(connect, connect)...)
	require.ErrorContains(t, err, "Window is 1000")
}

// The card counts a retry timeout in clocks of its profile. The fake card has the
// clock of the base profile, so there it lasts twice as long with a clock of half.
func TestRetryTimeoutIsOfTheProfile(t *testing.T) {
	breaks := func(c sim.Config) (after host.Time) {
		cut := false
		f, err := drivertest.New(2, 4)
		require.NoError(t, err)
		t.Cleanup(f.Close)
		f.Lose = func(int, []byte) bool { return cut }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		reliable := vipl.VIAttributes{ReliabilityLevel: vipl.ReliableDelivery}
		require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{
			Seed: 1, Fabric: c, Transport: driver.Transport{RetryLimit: 1, RetryTimeout: host.Millisecond},
		}, programs(func(e *env) error {
			p, err := e.dial(1, reliable)
			if err != nil {
				return err
			}
			if err := p.meet(1); err != nil {
				return err
			}
			cut = true
			began := e.t.Now()
			if _, err := p.send(0, 4); err != nil {
				return err
			}
			_, err = p.vi.SendWait(e.t, host.Second)
			e.is("nothing comes through", err, vipl.ErrDescriptor)
			after = e.t.Now() - began
			return nil
		}, func(e *env) error {
			p, err := e.serve(reliable)
			if err != nil {
				return err
			}
			return p.meet(0)
		})...))
		return after
	}
	base := breaks(sim.Config{})
	for _, c := range []sim.Config{{Profile: "hvia-ge-66"}, {Params: map[string]int64{"SystemClockPeriod": 15000}}} {
		require.InDelta(t, 2, float64(breaks(c))/float64(base), 0.05, "%+v", c)
	}
}
