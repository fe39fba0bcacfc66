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

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
)

// Prices of a kernel's work, none of which is a sum of others.
const (
	trapPrice    = 11 * host.Microsecond
	switchPrice  = 13 * host.Microsecond
	sendPrice    = 17 * host.Microsecond
	receivePrice = 19 * host.Microsecond
	wakePrice    = 23 * host.Microsecond
	copyPrice    = 3 * host.Nanosecond
)

var mviaPrices = func() host.CostModel {
	c := priced
	c.Interrupt = 7 * host.Microsecond
	c.Kernel = host.KernelCosts{
		Trap: trapPrice, Switch: switchPrice, SendPacket: sendPrice, CopyByte: copyPrice,
		Mvia: host.ProtocolCosts{ReceivePacket: receivePrice, Wake: wakePrice},
	}
	return c
}()

// ledger holds the spendings of a run.
type ledger struct {
	mu  sync.Mutex
	all []host.Spending
}

func (l *ledger) add(s host.Spending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

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

func runMvia(t *testing.T, l *ledger, list ...fabric.Program) {
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
	require.NoError(t, fabric.RunOn(ctx, f, fabric.RunConfig{Device: driver.DeviceMvia, Seed: 1, Costs: mviaPrices, Spending: l.add}, list...))
	for i := range nodes {
		require.Zero(t, f.Node(i).InUse(), "node %d: frames are still in use", i)
	}
}

const accountBytes = 3000 // three frames

// spent checks the time that a call charges to the thread.
func spent(e *conformance.Env, what string, want host.Account, call func() error) error {
	before := e.T.Spent()
	err := call()
	got := e.T.Spent().Less(before)
	e.That(fmt.Sprintf("%s: spent %v, want %v", what, got, want), got == want)
	return err
}

func accountClient(e *conformance.Env) error {
	c := mviaPrices
	p := must(e.Dial(1, conformance.Writable))
	check(p.Meet(1))
	var d *vipl.Descriptor
	check(spent(e, "post of three frames", host.Account{host.LayerLibrary: c.Post, host.LayerTrap: trapPrice, host.LayerProtocol: 3 * sendPrice}, func() (err error) {
		d, err = p.Send(0, accountBytes)
		return err
	}))
	// The NIC has read all but the last frame. A poll of the ring shows
	// that it has read this one, too, by now.
	check(e.T.Sleep(host.Millisecond))
	_ = spent(e, "a wait that finds it done", host.Account{host.LayerLibrary: c.SendDone}, func() error {
		got, err := p.VI.SendWait(e.T, host.Second)
		e.Is("done", err, nil)
		e.That("in order", got == d)
		return nil
	})
	d = must(p.Send(0, 4))
	_ = spent(e, "an empty poll has the kernel check the ring", host.Account{host.LayerTrap: trapPrice, host.LayerLibrary: c.SendDone}, func() error {
		got, err := p.VI.SendDone(e.T)
		e.Is("done", err, nil)
		e.That("in order", got == d)
		return nil
	})

	// More pieces of memory than the NIC takes are copied.
	wide := must(p.Wide(100))
	var pieces []vipl.Segment
	for i := range 100 {
		pieces = append(pieces, p.Mem.Segment(3*i, 2))
	}
	check(wide.SetSend(pieces...))
	check(spent(e, "post of many pieces", host.Account{
		host.LayerLibrary: c.Post, host.LayerTrap: trapPrice, host.LayerProtocol: sendPrice, host.LayerCopy: 200 * copyPrice,
	}, func() error { return p.VI.PostSend(e.T, wide) }))
	must(p.VI.SendWait(e.T, host.Second))
	return p.Settled(1)
}

// Calls of the library and the kernel's work are in the accounts.
func TestAccountOfMvia(t *testing.T) {
	c := mviaPrices
	l := &ledger{}
	var stored, woken, interrupted host.Time
	server := func(e *conformance.Env) error {
		p := must(e.Serve(conformance.Writable))
		var d *vipl.Descriptor
		check(spent(e, "post of a receive", host.Account{host.LayerLibrary: c.Post, host.LayerTrap: trapPrice}, func() (err error) {
			d, err = p.Receive(0, accountBytes)
			return err
		}))
		second, third := must(p.Receive(0, accountBytes)), must(p.Receive(0, accountBytes))
		check(p.Meet(0))
		before := e.H.Spent()
		_ = spent(e, "a wait that blocks", host.Account{host.LayerTrap: trapPrice, host.LayerSwitch: switchPrice, host.LayerLibrary: c.ReceiveDone}, func() error {
			got, err := p.VI.RecvWait(e.T, host.Second)
			p.Completed("the message", got, d, err, conformance.Received(accountBytes))
			return nil
		})
		kernel := e.H.Spent().Less(before)
		interrupted = kernel[host.LayerInterrupt]
		e.That(fmt.Sprintf("the kernel's work for three packets: %v", kernel),
			kernel[host.LayerProtocol] == 3*receivePrice && kernel[host.LayerCopy] == accountBytes*copyPrice)
		agent := host.ThreadID{Node: 1, Rank: driver.AgentRank}
		stored, woken = l.last(agent, host.LayerCopy).End, l.last(e.T.ID(), host.LayerSwitch).Asked
		p.Take("the second", second, conformance.Received(4))
		p.Take("the third", third, conformance.Received(200))

		// A wait that times out slept, too.
		must(p.Receive(0, accountBytes))
		_ = spent(e, "a wait that times out", host.Account{host.LayerTrap: trapPrice, host.LayerSwitch: switchPrice}, func() error {
			began := e.T.Now()
			e.Is("nothing comes", errOf(p.VI.RecvWait(e.T, host.Millisecond)), vipl.ErrTimeout)
			took := e.T.Now() - began
			e.That(fmt.Sprintf("it took %v", took), took == host.Millisecond+wakePrice+switchPrice)
			return nil
		})
		_ = spent(e, "an empty poll", host.Account{host.LayerPoll: c.PollPeriod()}, func() error {
			e.Is("nothing came", errOf(p.VI.RecvDone(e.T)), vipl.ErrNotDone)
			return nil
		})
		return p.Settled(0)
	}
	runMvia(t, l, conformance.Programs(accountClient, server)...)
	// The waiter goes on just after the write that it waits for.
	require.InDelta(t, int64(wakePrice), int64(woken-stored), 1, "from the status to the switch")
	require.Positive(t, interrupted)
	require.Zero(t, interrupted%c.Interrupt)
}

func peerOn(p *conformance.Peer, t *host.Thread, h *driver.Host) *conformance.Peer {
	q := *p
	q.Env = &conformance.Env{T: t, H: h, NIC: p.NIC}
	return &q
}

// begin starts another thread of node 0.
func begin(e *conformance.Env, rank int) error {
	return e.T.Send(host.ThreadID{Node: 0, Rank: rank}, nil)
}

func heard(th *host.Thread) error {
	_, ok, err := th.Receive(host.Second)
	if err == nil && !ok {
		err = errors.New("nobody said that it begins")
	}
	return err
}

// Messages of threads that post on one VI do not mix, though each leaves the
// kernel within its message.
func TestThreadsPostOnOneVI(t *testing.T) {
	const each, threads, size = 20, 3, 4000
	var shared *conformance.Peer
	content := func(id byte) []byte { return bytes.Repeat([]byte{id}, size) }
	post := func(p *conformance.Peer, thread int) error {
		for i := range each {
			id := byte(1 + thread*each + i)
			at := int(id-1) * 1024
			copy(p.Mem.Bytes()[at:], content(id)[:1024])
			var pieces []vipl.Segment
			for left := size; left > 0; left -= 1024 {
				pieces = append(pieces, p.Mem.Segment(at, min(left, 1024)))
			}
			d := must(p.Wide(len(pieces)))
			check(d.SetSend(pieces...))
			d.AttachImmediate(uint32(id))
			check(p.VI.PostSend(p.T, d))
			check(p.T.Spend(host.LayerLibrary, host.Time(1+thread*5)*host.Microsecond))
		}
		return nil
	}
	other := func(thread int) fabric.Program {
		return conformance.Program(0, "", func(e *conformance.Env) error {
			check(heard(e.T))
			check(post(peerOn(shared, e.T, e.H), thread))
			return begin(e, 1)
		})
	}
	list := conformance.Programs(
		func(e *conformance.Env) error {
			shared = must(e.Dial(1, conformance.Writable))
			check(shared.Meet(1))
			for i := 1; i < threads; i++ {
				check(begin(e, i+1))
			}
			check(post(shared, 0))
			for i := 1; i < threads; i++ {
				check(heard(e.T))
			}
			for range each * threads {
				must(shared.VI.SendWait(e.T, host.Second))
			}
			return shared.Settled(1)
		}, func(e *conformance.Env) error {
			p := must(e.Serve(conformance.Writable))
			const room = 16
			var posted []*vipl.Descriptor
			for i := range each * threads {
				posted = append(posted, must(p.Receive(i%room*size, size)))
			}
			check(p.Meet(0))
			seen := map[uint32]bool{}
			for i, want := range posted {
				d, err := p.VI.RecvWait(e.T, host.Second)
				e.Is("receive", err, nil)
				e.That("in order", d == want)
				id, _ := d.Immediate()
				e.That(fmt.Sprintf("message %d comes once", id), !seen[id])
				seen[id] = true
				if b := p.Mem.Bytes()[i%room*size:][:size]; !bytes.Equal(b, content(byte(id))) {
					return fmt.Errorf("message %d: begins with %d and ends with %d", id, b[0], b[size-1])
				}
			}
			e.That(fmt.Sprintf("%d messages", len(seen)), len(seen) == each*threads)
			return p.Settled(0)
		})
	runMvia(t, &ledger{}, append(list, other(1), other(2))...)
}

// interruption is an action of another thread while a message of the largest
// size is in flight.
type interruption struct {
	name      string
	interrupt func(p *conformance.Peer, data, descriptors *vipl.Region) error
	bits      uint32
	state     layout.VIState
}

// A thread leaves the kernel for each frame that it sends. Other threads'
// actions meanwhile end its message after a frame, and it touches nothing that
// is gone.
func TestMessagesAreInterrupted(t *testing.T) {
	for _, c := range []interruption{
		{"disconnected", func(p *conformance.Peer, _, _ *vipl.Region) error { return p.VI.Disconnect(p.T) }, conformance.FlushedError, vipl.Idle},
		{"data deregistered", func(p *conformance.Peer, data, _ *vipl.Region) error { return data.Deregister(p.T) }, conformance.ProtectionError, vipl.Connected},
		{"descriptor deregistered", func(p *conformance.Peer, _, descriptors *vipl.Region) error { return descriptors.Deregister(p.T) }, 0, vipl.Connected},
		{"another post on the VI, then disconnected", func(p *conformance.Peer, _, _ *vipl.Region) error {
			must(p.Write(0, 4, conformance.Remote{Address: p.Mem.Address(), Handle: p.Mem.Handle()}, 0))
			return p.VI.Disconnect(p.T)
		}, conformance.FlushedError, vipl.Idle},
		{"the NIC handle closed", func(p *conformance.Peer, _, _ *vipl.Region) error { return p.NIC.Close(p.T) }, conformance.FlushedError, layout.VIStateFree},
	} {
		t.Run(c.name, func(t *testing.T) { interrupted(t, c) })
	}
}

func interrupted(t *testing.T, c interruption) {
	const size, frames = driver.MaxTransferSize, (driver.MaxTransferSize + layout.MaxPayload - 1) / layout.MaxPayload
	var shared *conformance.Peer
	var data, descriptors *vipl.Region
	var to conformance.Remote
	list := conformance.Programs(
		func(e *conformance.Env) error {
			shared = must(e.Dial(1, conformance.Writable))
			to = must(shared.Hear())
			data = must(shared.Source())
			b := must(e.NIC.Alloc(e.T, 4096))
			descriptors = must(e.NIC.RegisterBuffer(e.T, b, vipl.MemAttributes{}))
			d := must(descriptors.Descriptor(0, 1))
			d.SetRDMAWrite(to.Address, to.Handle, data.Segment(0, size))
			check(begin(e, 2))
			check(shared.VI.PostSend(e.T, d))
			check(heard(e.T))
			e.That(fmt.Sprintf("complete: %v", d.Status()), d.Status()&vipl.DescriptorDone != 0)
			e.That(fmt.Sprintf("%v, want bits %#x", d.Status(), c.bits), d.Status()&vipl.DescriptorErrorMask == vipl.DescriptorStatus(c.bits))
			n := d.Length()
			if c.bits == 0 {
				e.That(fmt.Sprintf("%d bytes", n), n == size)
			} else {
				e.That(fmt.Sprintf("%d bytes: some whole frames, and not all", n), n > 0 && n < size && n%layout.MaxPayload == 0)
			}
			if c.state == layout.VIStateFree {
				return nil
			}
			shared.InState("afterwards", c.state)
			for i := 0; ; i++ {
				got, err := shared.VI.SendDone(e.T)
				if got == nil {
					e.Is("drained", err, vipl.ErrDescriptor)
					break
				}
				if i == 0 {
					e.That("in order", got == d)
				} else {
					e.Flushed("behind it", got, err)
				}
			}
			// The VI works, in this connection or the next.
			if c.state == vipl.Idle {
				check(shared.Redial(1))
			}
			return errors.Join(shared.GoodWrite(to), shared.Settled(1))
		},
		func(e *conformance.Env) error {
			p := must(e.Serve(conformance.Writable))
			check(p.Tell(0))
			if c.state == vipl.Idle {
				p.Asynchronous("the peer left", layout.AsyncErrorConnectionLost, p.VI)
				p.Asynchronous("cut off", layout.AsyncErrorRDMAWriteAbort, p.VI)
				check(p.VI.Disconnect(e.T))
				check(p.Again())
			}
			// The client's threads exchange messages first.
			if err := e.T.Sleep(10 * host.Millisecond); err != nil || c.state == layout.VIStateFree {
				return err
			}
			return p.Settled(0)
		})
	list = append(list, conformance.Program(0, "", func(e *conformance.Env) error {
		check(heard(e.T))
		check(e.T.Sleep(frames / 2 * sendPrice))
		check(c.interrupt(peerOn(shared, e.T, e.H), data, descriptors))
		// When a region is gone, its page frames are free for others.
		check(e.T.Sleep(3 * frames * sendPrice))
		return begin(e, 1)
	}))
	runMvia(t, &ledger{}, list...)
}

// A host's device is M-VIA or the card, and M-VIA requires a plain NIC.
func TestDevicesThatAreNotThere(t *testing.T) {
	open := fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
		return errOf(vipl.OpenNIC(t, h))
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
			err = fabric.RunOn(t.Context(), f, fabric.RunConfig{Device: c.host}, open)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// M-VIA's kernel relies on threads that take turns.
func TestMviaInFreeModeIsRejected(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the simulator, whose build takes minutes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := fabric.Run(ctx, fabric.RunConfig{Device: driver.DeviceMvia, Fabric: sim.Config{Mode: sim.Free}}, fabric.Program{Main: func(t *host.Thread, h *driver.Host) error {
		return errOf(vipl.OpenNIC(t, h))
	}})
	require.ErrorIs(t, err, host.ErrInvalidParameter)
	require.ErrorContains(t, err, "timed mode")
}

// The NIC handle names the device of the host's VIs.
func TestNamesOfDevices(t *testing.T) {
	conformtest.OnDevices(t, func(t *testing.T, d driver.Device) {
		runFake(t, d, nil, func(e *conformance.Env) error {
			e.That("name "+e.NIC.Query().Name, e.NIC.Query().Name == string(d)+"0")
			return nil
		})
	})
}

// When a NIC reads no more frames, no wait is endless, and every later call
// says why.
func TestNICThatDies(t *testing.T) {
	f, err := drivertest.NewOf(driver.DeviceMvia, 2, 4)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = fabric.RunOn(ctx, f, fabric.RunConfig{Device: driver.DeviceMvia}, conformance.Programs(func(e *conformance.Env) error {
		p := must(e.Dial(1, conformance.Writable))
		check(p.Quiet())          // the connection is established
		f.Node(0).NIC.Dead = true // nothing else of this node runs
		must(p.Send(0, 3000))
		e.Is("the send is not over", errOf(p.VI.SendWait(e.T, host.Millisecond)), vipl.ErrTimeout)
		began := e.T.Now()
		err = p.VI.Disconnect(e.T)
		e.Is("disconnect", err, driver.ErrDeadline)
		e.That("it says what it waited for: "+conformance.Text(err), err != nil && strings.Contains(err.Error(), "sends of VI 0"))
		took := e.T.Now() - began
		e.That(fmt.Sprintf("it took %v", took), took >= host.Second && took < 2*host.Second)
		e.Is("a later call", errOf(e.NIC.CreateVI(e.T, conformance.Writable)), host.ErrClosed)
		return errors.Join(e.Fail...)
	}, func(e *conformance.Env) error {
		_, err := e.Serve(conformance.Writable)
		return errors.Join(err, e.T.Sleep(3*host.Second))
	})...)
	require.ErrorIs(t, err, driver.ErrDeadline)
}
