// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/driver/drivertest"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// A message of three frames loses one; the next message is complete. The
// receive status depends on the lost frame; the sender's does not.
func TestLostFrames(t *testing.T) { conformtest.OnDevices(t, lostFrames) }

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
					}, func(e *Env) error {
						p := must(e.Dial(1, Writable))
						to := must(p.Hear())
						check(p.Meet(1))
						for range 2 {
							d := p.Next()
							d.SetRDMAWrite(to.Address, to.Handle, p.Mem.Segment(0, n))
							if !rdma {
								check(d.SetSend(p.Mem.Segment(0, n)))
							}
							if immediate {
								d.AttachImmediate(7)
							}
							check(p.VI.PostSend(p.T, d))
							e.Is("the sender does not see it", errOf(p.VI.SendWait(p.T, host.Second)), nil)
						}
						return p.Settled(1)
					}, func(e *Env) error {
						p := must(e.Serve(Writable))
						check(p.Tell(0))
						receives := []*vipl.Descriptor{must(p.Receive(0, n)), must(p.Receive(0, n))}
						check(p.Meet(0))
						want := Received(n)
						if rdma {
							want.operation = layout.StatusOperationRemoteRDMAWrite
						}
						complete := want
						if immediate {
							complete = want.with(7)
						}
						if rdma && !immediate {
							if c.completes {
								p.Asynchronous("the message was cut off", layout.AsyncErrorRDMAWriteAbort, p.VI)
							}
							check(p.Quiet())
							e.Is("an RDMA write uses up nothing", errOf(p.VI.RecvDone(p.T)), vipl.ErrNotDone)
						} else {
							if c.completes {
								o := want.failed(partialError)
								o.length = c.length
								p.Take("the one that was cut", receives[0], o)
								receives = receives[1:]
							}
							p.Take("the complete one", receives[0], complete)
						}
						p.InState("in the end", vipl.Connected)
						e.Is("nothing asynchronous", errOf(p.NIC.ErrorWait(p.T, 0)), vipl.ErrTimeout)
						return p.Settled(0)
					})
				})
			}
		}
	}
}

// The card drops and counts frames of no connection and of another version of
// VIA, without other effects.
func TestFramesOfOthers(t *testing.T) { conformtest.OnDevices(t, framesOfOthers) }

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
			if conformtest.IsVIA(frame) {
				if frames < len(changes) {
					changes[frames].change(layout.EthernetHeader(frame), layout.ViaHeader(frame[layout.EthernetHeaderSize:]))
				}
				frames++
			}
			return false
		}
	}, func(e *Env) error {
		p := must(e.Dial(1, Writable))
		to := must(p.Hear())
		copy(p.Mem.Bytes(), "word")
		for range changes {
			must(p.Write(0, 4, to, 0))
			must(p.VI.SendWait(p.T, host.Second))
		}
		// Write a good message.
		must(p.Write(0, 4, to, 64))
		return p.Settled(1)
	}, func(e *Env) error {
		p := must(e.Serve(Writable))
		check(p.Tell(0))
		check(p.Mem.Poll(p.T, 67, 1, host.Second, func() bool { return p.Mem.Bytes()[67] != 0 }))
		want := make([]byte, bufferBytes)
		copy(want[64:], "word")
		check(p.memory("the good one", want))
		counts := map[layout.Counter]uint32{}
		for _, c := range changes {
			counts[c.counter]++
		}
		for c, n := range counts {
			got, err := e.NIC.Counter(e.T, c)
			e.Is("counter", err, nil)
			e.That(fmt.Sprintf("counter %v is %d, want %d", c, got, n), got == n)
		}
		e.Is("nothing asynchronous", errOf(e.NIC.ErrorWait(e.T, 0)), vipl.ErrTimeout)
		p.InState("in the end", vipl.Connected)
		return p.Settled(0)
	})
	if frames != len(changes)+1 {
		t.Errorf("%d frames, want %d", frames, len(changes)+1)
	}
}

// During a connection request, receives stay queued and sends are flushed. A
// wait of another thread lasts until its message arrives.
func TestPendingConnection(t *testing.T) { conformtest.OnDevices(t, pendingConnection) }

func pendingConnection(t *testing.T, device driver.Device) {
	var shared *Peer
	ready := host.ThreadID{Node: 0, Rank: 2}
	conformtest.RunFake(t, device, nil,
		Program(0, "connects", func(e *Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			shared = must(e.Prepare(Writable))
			check(e.T.Send(ready, nil))
			return shared.Redial(1)
		}),
		Program(0, "waits", func(e *Env) error {
			must2(e.T.Receive(host.Second))
			e.NIC = shared.NIC
			p := &Peer{Env: e, VI: shared.VI, Mem: shared.Mem, descriptors: shared.descriptors}
			check(e.T.Sleep(5 * host.Millisecond))
			p.InState("the server lets it wait", vipl.ConnectPending)
			d := must(p.Receive(0, 16))
			s := must(p.Send(0, 4))
			p.Sent("posted while pending", s, outcome{bits: FlushedError, operation: layout.StatusOperationSend})
			e.Is("posted while pending", errOf(p.VI.RecvDone(p.T)), vipl.ErrNotDone)
			p.Take("of the connection", d, Received(4))
			check(e.T.Send(host.ThreadID{Node: 1, Rank: 1}, nil))
			return nil
		}),
		Program(1, "accepts", func(e *Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			p := must(e.Prepare(Writable))
			r := must(e.NIC.ConnectWait(e.T, vipl.NetAddress{Discriminator: "test"}, host.Second))
			check(e.T.Sleep(10 * host.Millisecond))
			check(r.Accept(e.T, p.VI))
			must(p.Send(0, 4))
			must2(e.T.Receive(host.Second))
			return nil
		}))
}

// A disconnect ends the wait of another thread. A Done of one thread does not
// block behind a wait of another.
func TestWaitsOfOtherThreads(t *testing.T) { conformtest.OnDevices(t, waitsOfOtherThreads) }

func waitsOfOtherThreads(t *testing.T, device driver.Device) {
	var shared *Peer
	begin := func(e *Env, rank int) error { return e.T.Send(host.ThreadID{Node: 0, Rank: rank}, nil) }
	var waited, disconnected host.Time
	conformtest.RunFake(t, device, nil,
		Program(0, "", func(e *Env) error {
			e.NIC = must(vipl.OpenNIC(e.T, e.H))
			shared = must(e.Prepare(Writable))
			must(shared.Receive(0, 16))
			// The card cannot read this descriptor, so the library completes
			// it.
			d2 := shared.Next()
			check(d2.SetReceive())
			d2.Handle ^= 0x20
			check(shared.VI.PostRecv(e.T, d2))
			check(begin(e, 2))
			check(e.T.Sleep(host.Millisecond))
			before := e.T.Now()
			e.Is("done beside a wait", errOf(shared.VI.RecvDone(e.T)), vipl.ErrNotDone)
			e.That("it does not block", e.T.Now()-before < 10*host.Microsecond)
			disconnected = e.T.Now()
			e.Is("disconnect", shared.VI.Disconnect(e.T), nil)
			return nil
		}),
		Program(0, "", func(e *Env) error {
			must2(e.T.Receive(host.Second))
			e.NIC = shared.NIC
			for range 2 {
				d, err := shared.VI.RecvWait(e.T, host.Second)
				e.Flushed("the other thread disconnected", d, err)
			}
			waited = e.T.Now()
			e.Is("nothing is left", errOf(shared.VI.RecvWait(e.T, host.Second)), vipl.ErrDescriptor)
			return nil
		}))
	require.Less(t, waited-disconnected, Promptly)
}

// A separate thread can wait for a handler's errors.
func TestErrorThread(t *testing.T) { conformtest.OnDevices(t, errorThread) }

func errorThread(t *testing.T, device driver.Device) {
	var reported []vipl.ErrorDescriptor
	var nic *vipl.NIC
	conformtest.RunFake(t, device, nil,
		Program(0, "", func(e *Env) error {
			nic = must(vipl.OpenNIC(e.T, e.H))
			e.NIC = nic
			p := must(e.Prepare(Writable))
			check(e.T.Send(host.ThreadID{Node: 0, Rank: 2}, nil))
			for range 3 {
				check(e.T.Sleep(host.Millisecond))
				must(p.lose())
				check(e.T.Sleep(host.Millisecond))
				check(p.VI.Disconnect(e.T))
			}
			return e.T.Sleep(5 * host.Millisecond)
		}),
		Program(0, "", func(e *Env) error {
			must2(e.T.Receive(host.Second))
			check(nic.ErrorCallback(func(at *host.Thread, d vipl.ErrorDescriptor) {
				if at == e.T {
					reported = append(reported, d)
				}
			}))
			if _, err := nic.ErrorWait(e.T, 8*host.Millisecond); !errors.Is(err, vipl.ErrTimeout) {
				return err
			}
			return nil
		}))
	require.Len(t, reported, 3, "each on the thread that waits for them")
}
