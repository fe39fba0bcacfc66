// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
)

// Another thread's action serves or ends a wait at a completion queue.
func TestCQWaitsOfOtherThreads(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		for _, blocking := range []bool{false, true} {
			for _, end := range []string{"destroy", "close"} {
				t.Run(fmt.Sprintf("blocking %v, %s", blocking, end), func(t *testing.T) { cqWaitsOfOtherThreads(t, d, blocking, end) })
			}
		}
	})
}

func cqWaitsOfOtherThreads(t *testing.T, device driver.Device, blocking bool, end string) {
	var p *conformance.Peer
	var c *vipl.CQ
	var served, broken, posted, ended [2]host.Time // when it happened, and when the waiting thread resumed
	conformtest.RunFake(t, device, nil,
		conformance.Program(0, "acts", func(e *conformance.Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			c = must(e.NIC.CreateCQ(e.T, 4))
			c.Blocking.Store(blocking)
			p = must(e.Prepare(vipl.VIAttributes{RecvCQ: c}))
			must(p.Receive(0, 16))
			// The card cannot read the descriptor, so the library completes it.
			hide := func() error {
				d := p.Next()
				check(d.SetReceive())
				d.Handle ^= 0x20
				return p.VI.PostRecv(e.T, d)
			}
			check(hide())
			check(e.T.Send(host.ThreadID{Node: 0, Rank: 2}, nil))
			for _, n := range []int{100, 5, 8} {
				check(e.T.Sleep(host.Millisecond))
				e.Is("resize under a wait", c.Resize(e.T, n), nil)
			}
			check(e.T.Sleep(host.Millisecond))
			served[0] = e.T.Now()
			e.Is("disconnect", p.VI.Disconnect(e.T), nil)
			check(e.T.Sleep(host.Millisecond))
			// Now it breaks the VI, which wakes the waiter.
			broken[0] = e.T.Now()
			check(hide())
			check(e.T.Sleep(host.Millisecond))
			// A post on the broken VI wakes it, too.
			posted[0] = e.T.Now()
			must(p.Receive(0, 16))
			check(e.T.Sleep(host.Millisecond))
			e.Is("disconnect", p.VI.Disconnect(e.T), nil)
			if end == "destroy" {
				e.Is("destroy the VI", p.VI.Destroy(e.T), nil)
			}
			ended[0] = e.T.Now()
			if end == "destroy" {
				e.Is("destroy the completion queue", c.Destroy(e.T), nil)
			} else {
				e.Is("close", e.NIC.Close(e.T), nil)
			}
			return nil
		}),
		conformance.Program(0, "waits", func(e *conformance.Env) error {
			_, _, err := e.T.Receive(host.Second)
			check(err)
			e.NIC = p.NIC
			for range 2 {
				e.Entry("the other thread disconnected", c, p.VI, true)
				if served[1] == 0 {
					served[1] = e.T.Now()
				}
				d, err := p.VI.RecvDone(e.T)
				e.Flushed("the other thread disconnected", d, err)
			}
			e.Entry("the VI broke", c, p.VI, true)
			broken[1] = e.T.Now()
			d, err := p.VI.RecvDone(e.T)
			e.Flushed("the VI broke", d, err)
			e.Entry("posted on a broken VI", c, p.VI, true)
			posted[1] = e.T.Now()
			d, err = p.VI.RecvDone(e.T)
			e.Flushed("posted on a broken VI", d, err)
			e.Is("it is gone", errOf(c.Wait(e.T, host.Second)), vipl.ErrInvalidParameter)
			ended[1] = e.T.Now()
			e.Is("it stays so", errOf(c.Done(e.T)), vipl.ErrInvalidParameter)
			return nil
		}))
	for _, at := range [][2]host.Time{served, broken, posted, ended} {
		require.True(t, at[1] >= at[0] && at[1]-at[0] < conformance.Promptly, "done at %v, and the wait ended at %v", at[0], at[1])
	}
}

// Handlers run on the thread in NotifyWait.
func TestNotifyThread(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, device driver.Device) {
		var p *conformance.Peer
		var reported []*vipl.Descriptor
		var posted []*vipl.Descriptor
		const n = 3
		conformtest.RunFake(t, device, nil,
			conformance.Program(0, "acts", func(e *conformance.Env) error {
				e.NIC = must(vipl.OpenNIC(e.T, e.H))
				p = must(e.Prepare(conformance.Writable))
				for range n {
					posted = append(posted, must(p.Receive(0, 16)))
				}
				check(e.T.Send(host.ThreadID{Node: 0, Rank: 2}, nil))
				check(e.T.Sleep(host.Millisecond))
				// This is no call of the library, so the handlers must not run
				// here.
				must(e.H.Allocate(e.T, 1, mem.Single))
				e.Is("disconnect", p.VI.Disconnect(e.T), nil)
				return nil
			}),
			conformance.Program(0, "handles", func(e *conformance.Env) error {
				_, _, err := e.T.Receive(host.Second)
				check(err)
				e.NIC = p.NIC
				for range n {
					e.Is("register", p.VI.RecvNotify(e.T, func(_ *host.Thread, v *vipl.VI, d *vipl.Descriptor) {
						e.That("its VI", v == p.VI)
						reported = append(reported, d)
					}), nil)
				}
				e.That("nothing has come", len(reported) == 0)
				for len(reported) < n {
					if err := p.NIC.NotifyWait(e.T, 100*host.Millisecond); err != nil && !errors.Is(err, vipl.ErrTimeout) || e.T.Now() > host.Second {
						return fmt.Errorf("%d of %d reported at %v: %w", len(reported), n, e.T.Now(), err)
					}
				}
				e.That("before any timeout", e.T.Now() < 50*host.Millisecond)
				return nil
			}))
		require.Equal(t, posted, reported)
	})
}

// A wait that sleeps costs a system call, the interrupt's service and a switch;
// a wait that polls costs none of them. Taking an entry of a completion queue
// costs one poll.
func TestAccountOfWaits(t *testing.T) {
	c := mviaPrices
	const messages = 4
	client := func(e *conformance.Env) error {
		p := must(e.Dial(1, conformance.Writable))
		tied := must(p.Another(conformance.Writable, 1024))
		for i := range messages {
			check(p.Meet(1))
			check(e.T.Sleep(200 * host.Microsecond))
			q := []*conformance.Peer{p, tied}[i/2]
			d := must(q.Send(0, 4))
			q.Sent("a message", d, conformance.DidSend(4))
		}
		return p.Settled(1)
	}
	server := func(e *conformance.Env) error {
		q := must(e.NIC.CreateCQ(e.T, 16))
		p := must(e.Serve(vipl.VIAttributes{Blocking: true}))
		tied := must(p.Another(vipl.VIAttributes{RecvCQ: q}, 1024))
		for range 3 {
			for _, p := range []*conformance.Peer{p, tied} {
				must(p.Receive(0, 4))
			}
		}
		sleeps := host.Account{host.LayerTrap: trapPrice, host.LayerSwitch: switchPrice}
		with := func(a host.Account, library host.Time) host.Account {
			a[host.LayerLibrary] = library
			return a
		}
		interrupts := func(what string, n int, want host.Account, call func() error) {
			thread, served := e.T.Spent(), e.H.Spent()[host.LayerInterrupt]
			e.Is(what, call(), nil)
			spent := e.T.Spent().Less(thread)
			want[host.LayerPoll] = spent[host.LayerPoll]
			e.That(fmt.Sprintf("%s: spent %v instead of %v", what, spent, want), spent == want)
			got := e.H.Spent()[host.LayerInterrupt] - served
			e.That(fmt.Sprintf("%s: %v of interrupts, want %d of %v", what, got, n, c.Interrupt), got == host.Time(n)*c.Interrupt)
		}
		timesOut := func(err error) error {
			if errors.Is(err, vipl.ErrTimeout) || errors.Is(err, vipl.ErrNotDone) {
				return nil
			}
			return fmt.Errorf("it must time out: %w", err)
		}
		recv := func() error { return errOf(p.VI.RecvWait(e.T, host.Second)) }
		entry := func() error { return errOf(q.Wait(e.T, host.Second)) }

		// The agent may not be done with the connection yet.
		check(e.T.Sleep(host.Millisecond))
		check(p.Meet(0))
		interrupts("a wait that sleeps", 1, with(sleeps, c.ReceiveDone), recv)
		check(p.Meet(0))
		check(e.T.Sleep(host.Millisecond))
		interrupts("a wait that finds it there", 0, with(host.Account{}, c.ReceiveDone), recv)
		interrupts("a wait that has no time", 0, host.Account{}, func() error { return timesOut(errOf(p.VI.RecvWait(e.T, 0))) })
		interrupts("a wait that sleeps and times out", 0, sleeps, func() error { return timesOut(errOf(p.VI.RecvWait(e.T, 100*host.Microsecond))) })

		check(p.Meet(0))
		interrupts("a wait for an entry that polls", 0, with(host.Account{}, c.PollPeriod()), entry)
		q.Blocking.Store(true)
		check(p.Meet(0))
		interrupts("a wait for an entry that sleeps", 1, with(sleeps, c.PollPeriod()), entry)
		interrupts("a poll of an empty completion queue", 0, host.Account{}, func() error { return timesOut(errOf(q.Done(e.T))) })
		for range 2 {
			interrupts("a descriptor whose entry was taken", 0, with(host.Account{}, c.ReceiveDone), func() error { return errOf(tied.VI.RecvDone(e.T)) })
		}
		return p.Settled(0)
	}
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Seed: 1, Costs: mviaPrices}, conformance.Programs(client, server)...))
}

// A completion between a thread's last poll and its sleep wakes it, at every
// instant.
func TestSleepMissesNothing(t *testing.T) {
	const step, steps = 500 * host.Nanosecond, 100
	client := func(e *conformance.Env) error {
		p := must(e.Dial(1, vipl.VIAttributes{}))
		tied := must(p.Another(vipl.VIAttributes{}, 1024))
		for i := range 2 * steps {
			check(p.Meet(1))
			check(e.T.Sleep(host.Time(i/2)*step + host.Microsecond))
			must([]*conformance.Peer{p, tied}[i%2].Send(0, 4))
			check(p.Meet(1))
		}
		return p.Settled(1)
	}
	server := func(e *conformance.Env) error {
		c := must(e.NIC.CreateCQ(e.T, 1024))
		c.Blocking.Store(true)
		p := must(e.Serve(vipl.VIAttributes{Blocking: true}))
		tied := must(p.Another(vipl.VIAttributes{RecvCQ: c}, 1024))
		for i := range 2 * steps {
			q := []*conformance.Peer{p, tied}[i%2]
			must(q.Receive(0, 4))
			check(p.Meet(0))
			before := e.T.Now()
			var err error
			if i%2 == 0 {
				_, err = p.VI.RecvWait(e.T, host.Second)
			} else if _, err = c.Wait(e.T, host.Second); err == nil {
				_, err = tied.VI.RecvDone(e.T)
			}
			what := fmt.Sprintf("message after %v", host.Time(i/2)*step)
			e.Is(what, err, nil)
			e.That(fmt.Sprintf("%s: it took %v", what, e.T.Now()-before), e.T.Now()-before < conformance.Promptly)
			check(p.Meet(0))
		}
		return p.Settled(0)
	}
	f, err := drivertest.New(2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Seed: 1, Costs: mviaPrices}, conformance.Programs(client, server)...))
}

// The connection frames of both agents hold what they agree on.
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
	connect := func(e *conformance.Env) error {
		for _, level := range []vipl.ReliabilityLevel{vipl.Unreliable, vipl.ReliableReception} {
			p := must(e.Prepare(vipl.VIAttributes{ReliabilityLevel: level}))
			run := p.Again
			if e.H.Node() == 0 {
				run = func() error { return p.Redial(1) }
			}
			check(run())
		}
		return (&conformance.Peer{Env: e}).Meet(1 - e.H.Node())
	}
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Seed: 1, Transport: driver.Transport{Window: 9, ReadLimit: 3}}, conformance.Programs(connect, connect)...))
	for _, kind := range []layout.ConnectionType{layout.ConnectionTypeRequest, layout.ConnectionTypeAccept} {
		last := offers[kind][len(offers[kind])-1]
		require.Equal(t, offer{uint8(vipl.ReliableReception), 9, 3}, last, "%v", kind)
		require.Equal(t, offer{uint8(vipl.Unreliable), 0, 0}, offers[kind][0], "%v: an unreliable level has nothing to offer", kind)
	}
	err = fabric.RunOn(ctx, f, fabric.RunConfig{Seed: 1, Transport: driver.Transport{Window: 1000}}, conformance.Programs(connect, connect)...)
	require.ErrorContains(t, err, "Window is 1000")
}

// The card counts a retry timeout in clocks of its profile. The fake card
// always has the clock of the base profile, so its timeout is twice as long if
// the profile halves the clock period.
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
		require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{
			Seed: 1, Fabric: c, Transport: driver.Transport{RetryLimit: 1, RetryTimeout: host.Millisecond},
		}, conformance.Programs(func(e *conformance.Env) error {
			p := must(e.Dial(1, reliable))
			check(p.Meet(1))
			cut = true
			began := e.T.Now()
			must(p.Send(0, 4))
			e.Is("nothing comes through", errOf(p.VI.SendWait(e.T, host.Second)), vipl.ErrDescriptor)
			after = e.T.Now() - began
			return nil
		}, func(e *conformance.Env) error {
			p := must(e.Serve(reliable))
			return p.Meet(0)
		})...))
		return after
	}
	base := breaks(sim.Config{})
	for _, c := range []sim.Config{{Profile: "hvia-ge-66"}, {Params: map[string]int64{"SystemClockPeriod": 15000}}} {
		require.InDelta(t, 2, float64(breaks(c))/float64(base), 0.05, "%+v", c)
	}
}

func errOf[T any](_ T, err error) error { return err }
