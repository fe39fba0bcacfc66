// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strings"

	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

// fixture is the environment of a case: a NIC handle, a partner on node 1, and
// another thread of node 0.
type fixture struct {
	*Env
	nic   *vipl.NIC
	buf   *mem.Buffer
	name  string // discriminator that no other case uses
	later chan func(t *host.Thread)
}

// partner sends a command to the program on node 1.
func (f *fixture) partner(words ...string) {
	check(f.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte(strings.Join(words, " "))))
}

// soon makes another thread of node 0 act a little later.
func (f *fixture) soon(do func(t *host.Thread)) {
	f.later <- do
	check(f.T.Send(host.ThreadID{Node: 0, Rank: 2}, nil))
}

// here is the address of this case, there that of the partner.
func (f *fixture) here() vipl.NetAddress {
	return vipl.At(0, f.name)
}

func (f *fixture) there() vipl.NetAddress {
	return vipl.At(1, f.name)
}

func (f *fixture) create(a vipl.VIAttributes) *vipl.VI {
	return must(f.nic.CreateVI(f.T, a))
}

// request connects. It retries, because the partner may not wait yet.
func (f *fixture) request(v *vipl.VI) error {
	for range Attempts {
		_, err := v.ConnectRequest(f.T, f.here(), f.there(), 20*host.Millisecond)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		check(f.T.Sleep(100 * host.Microsecond))
	}
	return errors.New("the partner does not wait")
}

// arrives waits for a state.
func (f *fixture) arrives(v *vipl.VI, s layout.VIState) {
	for range Attempts {
		if must(v.Query(f.T)).State == s {
			return
		}
		check(f.T.Sleep(100 * host.Microsecond))
	}
	check(fmt.Errorf("the VI does not come to state %v", s))
}

const (
	stateNil       = "no VI"
	stateDestroyed = "destroyed"
	stateIdle      = "Idle"
	statePending   = "Pending Connect"
	stateConnected = "Connected"
	stateError     = "Error"
)

// in returns a VI in a state.
func (f *fixture) in(state string, a vipl.VIAttributes) *vipl.VI {
	if state == stateNil {
		return nil
	}
	v := f.create(a)
	switch state {
	case stateDestroyed:
		check(v.Destroy(f.T))
	case statePending:
		check(v.ConnectPeerRequest(f.T, f.here(), f.there(), 50*host.Millisecond))
	case stateConnected, stateError:
		f.partner("accept", f.name)
		check(f.request(v))
		if state == stateError {
			f.partner("leave")
			f.arrives(v, vipl.ErrorState)
		}
	}
	return v
}

// region registers the memory of the case.
func (f *fixture) region() *vipl.Region {
	return must(f.nic.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{}))
}

// receive returns a receive descriptor in the memory of the case.
func (f *fixture) receive() *vipl.Descriptor {
	r := f.region()
	d := must(r.Descriptor(0, 1))
	check(d.SetReceive(r.Segment(4096, 64)))
	return d
}

// send returns a send descriptor in the memory of the case.
func (f *fixture) send() *vipl.Descriptor {
	r := f.region()
	d := must(r.Descriptor(1024, 1))
	check(d.SetSend(r.Segment(8192, 16)))
	return d
}

// closedNIC returns a closed handle, otherNIC a second open one of the same
// NIC.
func (f *fixture) closedNIC() *vipl.NIC {
	n := must(vipl.OpenNIC(f.T, f.H))
	check(n.Close(f.T))
	return n
}

// foreign calls with another handle of the same NIC.
func (f *fixture) foreign(call func(n *vipl.NIC) error) error {
	n := must(vipl.OpenNIC(f.T, f.H))
	err := call(n)
	check(n.Close(f.T))
	return err
}

// functionPartner is the program of node 1.
func functionPartner(e *Env) error {
	for {
		m, ok, err := e.T.Receive(host.Never)
		if err != nil || !ok {
			return err
		}
		words := strings.Fields(string(m.Data))
		if words[0] == "end" {
			return nil
		}
		Step(e.partner(words), "%s", m.Data)
	}
}

func (e *Env) partner(words []string) error {
	if words[0] == "leave" || words[0] == "ready" {
		check(e.NIC.Close(e.T))
		var err error
		if e.NIC, err = vipl.OpenNIC(e.T, e.H); err != nil || words[0] == "leave" {
			return err
		}
		return e.T.Send(host.ThreadID{Node: 0, Rank: 1}, []byte("ready"))
	}
	a := vipl.VIAttributes{}
	switch words[0] {
	case "peer-mtu":
		a.MaxTransferSize = 4096
	case "peer-level", "request-level":
		a.ReliabilityLevel = vipl.ReliableDelivery
	case "request-mtu":
		a.MaxTransferSize = 4096
	}
	v := must(e.NIC.CreateVI(e.T, a))
	here := vipl.At(1, words[1])
	there := vipl.At(0, words[1])
	switch words[0] {
	case "accept", "reject", "ignore":
		r, err := e.NIC.ConnectWait(e.T, here, host.Second)
		switch {
		case err != nil || words[0] == "ignore":
			return err
		case words[0] == "reject":
			return r.Reject(e.T)
		}
		// The card drops a message that finds no receive, so post one first.
		b := must(e.NIC.Alloc(e.T, 4096))
		m := must(e.NIC.RegisterBuffer(e.T, b, vipl.MemAttributes{}))
		for i := range 4 {
			d := must(m.Descriptor(i*vipl.DescriptorBytes, 1))
			check(errors.Join(d.SetReceive(m.Segment(2048, 64)), v.PostRecv(e.T, d)))
		}
		check(r.Accept(e.T, v))
		d := must(m.Descriptor(1024, 1))
		check(errors.Join(d.SetSend(m.Segment(2048, 8)), e.T.Sleep(100*host.Microsecond)))
		return v.PostSend(e.T, d)
	case "request", "request-mtu", "request-level", "hasty":
		timeout := 50 * host.Millisecond
		if words[0] == "hasty" {
			timeout = host.Millisecond
		}
		for range Attempts {
			if _, err := v.ConnectRequest(e.T, here, there, timeout); !errors.Is(err, vipl.ErrNoMatch) {
				return nil // the case checks how it ends
			}
			check(e.T.Sleep(100 * host.Microsecond))
		}
		return errors.New("node 0 does not wait")
	case "peer", "peer-mtu", "peer-level", "peer-leave":
		if err := v.ConnectPeerRequest(e.T, here, there, host.Second); err != nil || words[0] != "peer-leave" {
			return err
		}
		return v.Disconnect(e.T)
	}
	return errors.New("what is that?")
}

// deadTag returns a destroyed tag.
func (f *fixture) deadTag() vipl.Ptag {
	tag := must(f.nic.CreatePtag(f.T))
	check(f.nic.DestroyPtag(f.T, tag))
	return tag
}
