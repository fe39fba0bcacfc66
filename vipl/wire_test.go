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
	"hvia/layout"
	"hvia/vipl"
)

// A message of three frames of which one is lost, then one that is whole. What
// the receive says depends on which frame it was; the sender never sees it.
func TestLostFrames(t *testing.T) { onDevices(t, lostFrames) }

func lostFrames(t *testing.T, device driver.Device) {
	const n = 2*layout.MaxPayload + 100
	for _, c := range []struct {
		name      string
		lost      int // frame of the first message
		completes bool
		length    int
	}{
		{"the first: the message never began", 0, false, 0},
		{"the middle one", 1, true, layout.MaxPayload},
		{"the last: the next message tells", 2, true, 2 * layout.MaxPayload},
	} {
		for _, rdma := range []bool{false, true} {
			for _, immediate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, RDMA %v, immediate data %v", c.name, rdma, immediate), func(t *testing.T) {
					frames := 0
					runFake(t, device, func(f *drivertest.Fabric) {
						f.Lose = func(_ int, frame []byte) bool {
							if layout.EthernetHeader(frame).EtherType() != layout.EtherTypeVia {
								return false
							}
							frames++
							return frames == c.lost+1
						}
					}, func(e *env) error {
						p, err := e.dial(1, writable)
						if err != nil {
							return err
						}
						to, err := p.hear()
						if err != nil {
							return err
						}
						if err := p.meet(1); err != nil {
							return err
						}
						for range 2 {
							d := p.next()
							d.SetRDMAWrite(p.mem.Segment(0, n), to.address, to.handle)
							if !rdma {
								if err := d.SetSend(p.mem.Segment(0, n)); err != nil {
									return err
								}
							}
							if immediate {
								d.AttachImmediate(7)
							}
							if err := p.vi.PostSend(p.t, d); err != nil {
								return err
							}
							_, err := p.vi.SendWait(p.t, host.Second)
							e.is("the sender does not see it", err, nil)
						}
						return p.settled(1)
					}, func(e *env) error {
						p, err := e.serve(writable)
						if err != nil {
							return err
						}
						if err := p.tell(0); err != nil {
							return err
						}
						var receives []*vipl.Descriptor
						for range 2 {
							d, err := p.receive(0, n)
							if err != nil {
								return err
							}
							receives = append(receives, d)
						}
						if err := p.meet(0); err != nil {
							return err
						}
						want := received(n)
						if rdma {
							want.operation = layout.StatusOperationRemoteRDMAWrite
						}
						whole := want
						if immediate {
							whole = want.with(7)
						}
						if rdma && !immediate {
							if c.completes {
								p.asynchronous("the message was cut off", layout.AsyncErrorRDMAWriteAbort, p.vi)
							}
							if err := p.quiet(); err != nil {
								return err
							}
							_, err := p.vi.RecvDone(p.t)
							e.is("an RDMA write uses up nothing", err, vipl.ErrNotDone)
						} else {
							if c.completes {
								o := want.failed(partialError)
								o.length = c.length
								p.take("the one that was cut", receives[0], o)
								receives = receives[1:]
							}
							p.take("the whole one", receives[0], whole)
						}
						p.inState("in the end", vipl.Connected)
						_, err = p.nic.NextError(p.t)
						e.is("nothing asynchronous", err, vipl.ErrNotDone)
						return p.settled(0)
					})
				})
			}
		}
	}
}

// Frames that are no frames of the connection, or none of this version of VIA, are
// dropped and counted, and nothing else comes of them.
func TestFramesOfOthers(t *testing.T) { onDevices(t, framesOfOthers) }

func framesOfOthers(t *testing.T, device driver.Device) {
	changes := []struct {
		name    string
		counter layout.Counter
		change  func(e layout.EthernetHeader, h layout.ViaHeader)
	}{
		{"of the former connection", layout.CounterReceiveBadVI, func(_ layout.EthernetHeader, h layout.ViaHeader) { h.SetDestinationVI(h.DestinationVI() ^ 0x100) }},
		{"of another VI of the peer", layout.CounterReceiveBadVI, func(_ layout.EthernetHeader, h layout.ViaHeader) { h.SetSourceVI(h.SourceVI() ^ 1) }},
		{"of another host", layout.CounterReceiveBadVI, func(e layout.EthernetHeader, _ layout.ViaHeader) { e.Source()[5] ^= 2 }},
		{"for a VI that is free", layout.CounterReceiveBadVI, func(_ layout.EthernetHeader, h layout.ViaHeader) { h.SetDestinationVI(h.DestinationVI() ^ 0x80) }},
		{"that came before", layout.CounterReceiveOldSequence, func(_ layout.EthernetHeader, h layout.ViaHeader) { h.SetSequence(h.Sequence() - 100) }},
		{"of another version", layout.CounterReceiveMalformed, func(_ layout.EthernetHeader, h layout.ViaHeader) {
			h.SetOperationVersion(h.OperationVersion() ^ 1<<layout.ViaHeaderOperationVersionVersionLsb)
		}},
		{"with reserved flags", layout.CounterReceiveMalformed, func(_ layout.EthernetHeader, h layout.ViaHeader) {
			h.SetFlags(h.Flags() | 1<<layout.ViaHeaderFlagsReservedLsb)
		}},
		{"longer than it is", layout.CounterReceiveMalformed, func(_ layout.EthernetHeader, h layout.ViaHeader) { h.SetPayloadLength(layout.MaxPayload) }},
		{"longer than any", layout.CounterReceiveMalformed, func(_ layout.EthernetHeader, h layout.ViaHeader) { h.SetPayloadLength(layout.MaxPayload + 1) }},
		{"an acknowledgement", layout.CounterReceiveUnsupported, func(_ layout.EthernetHeader, h layout.ViaHeader) {
			h.SetOperationVersion(h.OperationVersion()&^layout.ViaHeaderOperationVersionOperationMask | uint8(layout.FrameOperationAcknowledge)<<layout.ViaHeaderOperationVersionOperationLsb)
		}},
	}
	frames := 0
	runFake(t, device, func(f *drivertest.Fabric) {
		f.Lose = func(_ int, frame []byte) bool {
			if isVia(frame) {
				if frames < len(changes) {
					changes[frames].change(layout.EthernetHeader(frame), layout.ViaHeader(frame[layout.EthernetHeaderSize:]))
				}
				frames++
			}
			return false
		}
	}, func(e *env) error {
		p, err := e.dial(1, writable)
		if err != nil {
			return err
		}
		to, err := p.hear()
		if err != nil {
			return err
		}
		copy(p.mem.Bytes(), "word")
		for range changes {
			if _, err := p.write(0, 4, to, 0); err != nil {
				return err
			}
			if _, err := p.vi.SendWait(p.t, host.Second); err != nil {
				return err
			}
		}
		// A good one.
		if _, err := p.write(0, 4, to, 64); err != nil {
			return err
		}
		return p.settled(1)
	}, func(e *env) error {
		p, err := e.serve(writable)
		if err != nil {
			return err
		}
		if err := p.tell(0); err != nil {
			return err
		}
		if err := p.mem.Poll(p.t, 67, 1, host.Second, func() bool { return p.mem.Bytes()[67] != 0 }); err != nil {
			return err
		}
		want := make([]byte, bufferBytes)
		copy(want[64:], "word")
		if err := p.memory("the good one", want); err != nil {
			return err
		}
		counts := map[layout.Counter]uint32{}
		for _, c := range changes {
			counts[c.counter]++
		}
		for c, n := range counts {
			got, err := e.nic.Counter(e.t, c)
			e.is("counter", err, nil)
			e.that(fmt.Sprintf("counter %v is %d, want %d", c, got, n), got == n)
		}
		_, err = e.nic.NextError(e.t)
		e.is("nothing asynchronous", err, vipl.ErrNotDone)
		p.inState("in the end", vipl.Connected)
		return p.settled(0)
	})
	if frames != len(changes)+1 {
		t.Errorf("%d frames, want %d", frames, len(changes)+1)
	}
}

// runThreads runs programs, several of which may share a node, on fakes.
func runThreads(t *testing.T, device driver.Device, list ...driver.Program) {
	t.Helper()
	nodes := map[int]bool{}
	for _, p := range list {
		nodes[p.Node] = true
	}
	f, err := drivertest.NewOf(device, len(nodes), len(nodes)+len(list))
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, driver.RunOn(ctx, f, driver.RunConfig{Device: device, Seed: 1}, list...))
}

// While a VI is about to be connected, receives stay queued and sends are
// flushed; a wait of another thread lasts until its message comes.
func TestPendingConnection(t *testing.T) { onDevices(t, pendingConnection) }

func pendingConnection(t *testing.T, device driver.Device) {
	var shared *peer
	ready := host.ThreadID{Node: 0, Rank: 2}
	runThreads(t, device,
		driver.Program{Node: 0, Name: "connects", Main: func(th *host.Thread, h *driver.Host) error {
			nic, err := vipl.OpenNIC(th, h)
			if err != nil {
				return err
			}
			e := &env{t: th, h: h, nic: nic}
			if shared, err = e.prepare(writable); err != nil {
				return err
			}
			if err := th.Send(ready, nil); err != nil {
				return err
			}
			return shared.redial(1)
		}},
		driver.Program{Node: 0, Name: "waits", Main: func(th *host.Thread, _ *driver.Host) error {
			if _, _, err := th.Receive(host.Second); err != nil {
				return err
			}
			e := &env{t: th, nic: shared.nic}
			p := &peer{env: e, vi: shared.vi, mem: shared.mem, descriptors: shared.descriptors}
			if err := th.Sleep(5 * host.Millisecond); err != nil {
				return err
			}
			p.inState("the server lets it wait", vipl.ConnectPending)
			d, err := p.receive(0, 16)
			if err != nil {
				return err
			}
			s, err := p.send(0, 4)
			if err != nil {
				return err
			}
			p.sent("posted while pending", s, outcome{bits: flushedError, operation: layout.StatusOperationSend})
			_, err = p.vi.RecvDone(p.t)
			e.is("posted while pending", err, vipl.ErrNotDone)
			p.take("of the connection", d, received(4))
			if err := th.Send(host.ThreadID{Node: 1, Rank: 1}, nil); err != nil {
				return err
			}
			return errors.Join(e.fail...)
		}},
		driver.Program{Node: 1, Name: "accepts", Main: func(th *host.Thread, h *driver.Host) error {
			nic, err := vipl.OpenNIC(th, h)
			if err != nil {
				return err
			}
			p, err := (&env{t: th, h: h, nic: nic}).prepare(writable)
			if err != nil {
				return err
			}
			r, err := nic.ConnectWait(th, vipl.NetAddress{Discriminator: "test"}, host.Second)
			if err != nil {
				return err
			}
			if err := th.Sleep(10 * host.Millisecond); err != nil {
				return err
			}
			if err := r.Accept(th, p.vi); err != nil {
				return err
			}
			if _, err := p.send(0, 4); err != nil {
				return err
			}
			_, _, err = th.Receive(host.Second)
			return err
		}})
}

// A wait ends when another thread disconnects the VI, and a Done of one thread
// does not stand behind a wait of another.
func TestWaitsOfOtherThreads(t *testing.T) { onDevices(t, waitsOfOtherThreads) }

func waitsOfOtherThreads(t *testing.T, device driver.Device) {
	var shared *peer
	begin := func(e *env, rank int) error { return e.t.Send(host.ThreadID{Node: 0, Rank: rank}, nil) }
	var waited, disconnected host.Time
	runThreads(t, device,
		driver.Program{Node: 0, Main: func(th *host.Thread, h *driver.Host) error {
			nic, err := vipl.OpenNIC(th, h)
			if err != nil {
				return err
			}
			e := &env{t: th, h: h, nic: nic}
			if shared, err = e.prepare(writable); err != nil {
				return err
			}
			if _, err := shared.receive(0, 16); err != nil {
				return err
			}
			// A descriptor that the card cannot read: only the library can complete it.
			d2 := shared.next()
			if err := d2.SetReceive(); err != nil {
				return err
			}
			d2.Handle ^= 0x20
			if err := shared.vi.PostRecv(th, d2); err != nil {
				return err
			}
			if err := begin(e, 2); err != nil {
				return err
			}
			if err := th.Sleep(host.Millisecond); err != nil {
				return err
			}
			before := th.Now()
			_, err = shared.vi.RecvDone(th)
			e.is("done beside a wait", err, vipl.ErrNotDone)
			e.that("it does not block", th.Now()-before < 10*host.Microsecond)
			disconnected = th.Now()
			e.is("disconnect", shared.vi.Disconnect(th), nil)
			return errors.Join(e.fail...)
		}},
		driver.Program{Node: 0, Main: func(th *host.Thread, _ *driver.Host) error {
			if _, _, err := th.Receive(host.Second); err != nil {
				return err
			}
			e := &env{t: th, nic: shared.nic}
			for range 2 {
				d, err := shared.vi.RecvWait(th, host.Second)
				e.flushed("the other thread disconnected", d, err)
			}
			waited = th.Now()
			_, err := shared.vi.RecvWait(th, host.Second)
			e.is("nothing is left", err, vipl.ErrDescriptor)
			return errors.Join(e.fail...)
		}})
	require.Less(t, waited-disconnected, promptly)
}

// A handler's errors can be waited for on a thread of their own.
func TestErrorThread(t *testing.T) { onDevices(t, errorThread) }

func errorThread(t *testing.T, device driver.Device) {
	var told []vipl.ErrorDescriptor
	var nic *vipl.NIC
	runThreads(t, device,
		driver.Program{Node: 0, Main: func(th *host.Thread, h *driver.Host) error {
			var err error
			if nic, err = vipl.OpenNIC(th, h); err != nil {
				return err
			}
			e := &env{t: th, h: h, nic: nic}
			p, err := e.prepare(writable)
			if err != nil {
				return err
			}
			if err := th.Send(host.ThreadID{Node: 0, Rank: 2}, nil); err != nil {
				return err
			}
			for range 3 {
				if err := th.Sleep(host.Millisecond); err != nil {
					return err
				}
				if _, err := p.lose(); err != nil {
					return err
				}
				if err := th.Sleep(host.Millisecond); err != nil {
					return err
				}
				if err := p.vi.Disconnect(th); err != nil {
					return err
				}
			}
			return th.Sleep(5 * host.Millisecond)
		}},
		driver.Program{Node: 0, Main: func(th *host.Thread, _ *driver.Host) error {
			if _, _, err := th.Receive(host.Second); err != nil {
				return err
			}
			if err := nic.ErrorCallback(func(at *host.Thread, d vipl.ErrorDescriptor) {
				if at == th {
					told = append(told, d)
				}
			}); err != nil {
				return err
			}
			if _, err := nic.ErrorWait(th, 8*host.Millisecond); !errors.Is(err, vipl.ErrTimeout) {
				return err
			}
			return nil
		}})
	require.Len(t, told, 3, "each on the thread that waits for them")
}
