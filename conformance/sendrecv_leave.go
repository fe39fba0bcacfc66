// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// leavingClient disconnects with messages in flight, and connects again.
func leavingClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	posts := make([]*vipl.Descriptor, 0, 20)
	for i := range 20 {
		posts = append(posts, must(p.Receive(16*i, 16)))
	}
	check(p.Meet(1))
	for i := range 3 {
		p.Take("before the disconnect", posts[i], Received(4))
	}
	check(p.VI.Disconnect(p.T))
	p.InState("after the disconnect", vipl.Idle)
	for _, want := range posts[3:] {
		d, err := p.VI.RecvDone(p.T)
		p.Completed("after the disconnect", d, want, err, Received(0).failed(FlushedError))
	}
	p.ended("after the disconnect")

	// Post receives for the next connection on the same VI.
	first := must(p.Receive(0, 100))
	last := must(p.Receive(200, 100))
	check(p.Meet(1))
	e.Is("a connection that does not come about", errOf(p.VI.ConnectRequest(p.T, vipl.NetAddress{}, vipl.At(1, "nobody"), host.Second)), vipl.ErrNoMatch)
	e.Is("receives stay", errOf(p.VI.RecvDone(p.T)), vipl.ErrNotDone)
	check(p.Redial(1))
	p.Take("of the second connection", first, Received(7))
	// The peer leaves.
	d, err := p.VI.RecvWait(p.T, host.Second)
	p.Completed("the peer left", d, last, err, Received(0).failed(FlushedError))
	p.Asynchronous("the peer left", layout.AsyncErrorConnectionLost, p.VI)
	p.InState("the peer left", vipl.ErrorState)
	var broken []*vipl.Descriptor
	for range 3 {
		broken = append(broken, must(p.Receive(0, 100)))
	}
	for _, want := range broken {
		d, err := p.VI.RecvDone(p.T)
		p.Completed("posted in the error state", d, want, err, Received(0).failed(FlushedError))
	}
	d = must(p.Send(0, 4))
	p.Sent("posted in the error state", d, outcome{bits: FlushedError, operation: layout.StatusOperationSend})
	e.Is("destroy in the error state", p.VI.Destroy(p.T), vipl.ErrInvalidState)
	p.InState("still", vipl.ErrorState)
	last = must(p.Receive(0, 100))
	check(p.VI.Disconnect(p.T))
	d, err = p.VI.RecvDone(p.T)
	p.Completed("posted before the disconnect", d, last, err, Received(0).failed(FlushedError))
	p.ended("in the end")
	last = must(p.Receive(0, 100))
	e.Is("destroy with a receive posted", p.VI.Destroy(p.T), vipl.ErrResource)
	e.Is("disconnect an idle VI", p.VI.Disconnect(p.T), nil)
	d, err = p.VI.RecvDone(p.T)
	p.Completed("posted while idle", d, last, err, Received(0).failed(FlushedError))
	e.Is("destroy", p.VI.Destroy(p.T), nil)
	return p.Settled(1)
}

func leftServer(e *Env) error {
	p := must(e.Serve(Writable))
	var posts []*vipl.Descriptor
	for range 5 {
		posts = append(posts, must(p.Receive(0, 16)))
	}
	check(p.Meet(0))
	for range 3 {
		must(p.Send(0, 4))
		must(p.VI.SendWait(p.T, host.Second))
	}
	for _, want := range posts {
		d, err := p.VI.RecvWait(p.T, host.Second)
		p.Completed("the peer left", d, want, err, Received(0).failed(FlushedError))
	}
	p.Asynchronous("the peer left", layout.AsyncErrorConnectionLost, p.VI)
	e.Is("disconnect", p.VI.Disconnect(p.T), nil)
	check(p.Meet(0))
	check(p.Again())
	must(p.Send(0, 7))
	must(p.VI.SendWait(p.T, host.Second))
	check(p.Quiet())
	e.Is("leave", p.VI.Disconnect(p.T), nil)
	return p.Settled(0)
}

// unreachableReceiveClient posts a receive with a wrong handle. The card finds
// neither it nor the receives behind it.
func unreachableReceiveClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	// Connect the peer first, because it leaves when this VI breaks.
	good := must(p.Receive(0, 16))
	bad := p.Next()
	check(bad.SetReceive(p.Mem.Segment(0, 16)))
	bad.Handle ^= 0x20
	check(p.VI.PostRecv(p.T, bad))
	behind := must(p.Receive(32, 16))
	// The card holds the first one and does not fetch the next before a message
	// consumes it.
	check(p.Quiet())
	p.InState("the first is on the card", vipl.Connected)
	check(p.VI.Disconnect(p.T))
	for _, want := range []*vipl.Descriptor{good, bad, behind} {
		d, err := p.VI.RecvDone(p.T)
		p.Completed("after the disconnect", d, want, err, Received(0).failed(FlushedError))
	}
	p.Asynchronous("met in the disconnect", layout.AsyncErrorPostDescriptor, p.VI)
	p.InState("after the disconnect", vipl.Idle)
	p.ended("after the disconnect")

	check(p.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("again")))
	check(p.Redial(1))
	check(p.GoodWrite(to))
	// As the first in the queue it is fetched at once, and breaks the
	// connection.
	check(bad.SetReceive(p.Mem.Segment(0, 16)))
	check(p.VI.PostRecv(p.T, bad))
	d, err := p.VI.RecvWait(p.T, host.Second)
	p.Completed("the bad one", d, bad, err, Received(0).failed(FlushedError))
	p.Asynchronous("the bad one", layout.AsyncErrorPostDescriptor, p.VI)
	p.InState("broken", vipl.ErrorState)
	p.ended("broken")
	e.Is("disconnect", p.VI.Disconnect(p.T), nil)

	// A descriptor in memory of another tag counts as missing.
	tag := must(p.NIC.CreatePtag(p.T))
	foreign := must(p.NIC.RegisterMem(p.T, p.descriptors.Address(), 4096, vipl.MemAttributes{Ptag: tag}))
	d = must(foreign.Descriptor(0, 1))
	check(d.SetReceive())
	check(p.VI.PostRecv(p.T, d))
	got, err := p.VI.RecvWait(p.T, host.Second)
	p.Completed("of another tag", got, d, err, Received(0).failed(FlushedError))
	p.Asynchronous("of another tag", layout.AsyncErrorPostDescriptor, p.VI)
	e.Is("disconnect", p.VI.Disconnect(p.T), nil)
	return p.Settled(1)
}

// deregisterServer deregisters the memory of posted receives.
func deregisterServer(e *Env) error {
	p := must(e.Serve(Writable))
	buffer := must(p.NIC.RegisterMem(p.T, p.Mem.Address(), 4096, vipl.MemAttributes{}))
	d := p.Next()
	check(d.SetReceive(buffer.Segment(0, 100)))
	check(p.VI.PostRecv(p.T, d))
	behind := must(p.Receive(8192, 100))
	check(p.Quiet()) // the card holds the first
	e.Is("deregister the buffer", buffer.Deregister(p.T), nil)
	check(p.Meet(0))
	p.Take("the buffer is gone", d, Received(0).failed(ProtectionError))
	p.Take("the next", behind, Received(100))

	// Deregister the descriptor's own memory: the card cannot write its status.
	memory := must(p.NIC.RegisterMem(p.T, p.descriptors.Address(), 4096, vipl.MemAttributes{}))
	d = must(memory.Descriptor(1024, 1))
	check(d.SetReceive(p.Mem.Segment(0, 100)))
	check(p.VI.PostRecv(p.T, d))
	check(p.Quiet())
	e.Is("deregister the descriptor", memory.Deregister(p.T), nil)
	check(p.Meet(0))
	got, err := p.VI.RecvWait(p.T, host.Second)
	p.Completed("the descriptor is gone", got, d, err, Received(0).failed(FlushedError))
	p.Asynchronous("the descriptor is gone", layout.AsyncErrorCompletionProtection, p.VI)
	p.InState("the descriptor is gone", vipl.ErrorState)
	p.ended("in the end")
	return p.Settled(0)
}

func deregisterClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	for _, messages := range []int{2, 1} {
		check(p.Meet(1))
		for range messages {
			must(p.Send(0, 100))
			must(p.VI.SendWait(p.T, host.Second))
		}
	}
	p.Asynchronous("the peer's VI broke", layout.AsyncErrorConnectionLost, p.VI)
	return p.Settled(1)
}
