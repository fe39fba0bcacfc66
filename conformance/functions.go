// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/vipl"
)

// functionRow is a call of one function of VIPL: with a parameter, or in a state, and
// the status that it must give. The table of the reference is made of these rows.
type functionRow struct {
	function string // of VIPL, without Vip
	when     string
	want     vipl.Status
	call     func(f *fixture) error
	device   driver.Device // the only one that has it; "" = all
	patient  bool          // too long for the simulated card
}

// fixture is what a row has: a NIC handle of its own, a partner on node 1, and another thread of node 0.
type fixture struct {
	*Env
	nic   *vipl.NIC
	buf   *mem.Buffer
	name  string // discriminator that no other row uses
	later chan func(t *host.Thread)
}

// setup is a panic of what a row needs before its call.
type setup struct{ err error }

func (f *fixture) must(err error) {
	if err != nil {
		panic(setup{err})
	}
}

func must[T any](f *fixture, v T, err error) T {
	f.must(err)
	return v
}

// partner has the program on node 1 do something.
func (f *fixture) partner(words ...string) {
	f.must(f.T.Send(host.ThreadID{Node: 1, Rank: 1}, []byte(strings.Join(words, " "))))
}

// soon has another thread of node 0 do something a little later.
func (f *fixture) soon(do func(t *host.Thread)) {
	f.later <- do
	f.must(f.T.Send(host.ThreadID{Node: 0, Rank: 2}, nil))
}

// here is this row's address, there the partner's.
func (f *fixture) here() vipl.NetAddress {
	return vipl.At(0, f.name)
}

func (f *fixture) there() vipl.NetAddress {
	return vipl.At(1, f.name)
}

func (f *fixture) create(a vipl.VIAttributes) *vipl.VI {
	v, err := f.nic.CreateVI(f.T, a)
	return must(f, v, err)
}

// request connects, for a partner that is about to wait.
func (f *fixture) request(v *vipl.VI) error {
	for range Attempts {
		_, err := v.ConnectRequest(f.T, f.here(), f.there(), 20*host.Millisecond)
		if !errors.Is(err, vipl.ErrNoMatch) {
			return err
		}
		f.must(f.T.Sleep(100 * host.Microsecond))
	}
	return errors.New("the partner does not wait")
}

// arrives waits for a state.
func (f *fixture) arrives(v *vipl.VI, s layout.VIState) {
	for range Attempts {
		if must(f, first(v.Query(f.T)), nil).State == s {
			return
		}
		f.must(f.T.Sleep(100 * host.Microsecond))
	}
	f.must(fmt.Errorf("the VI does not come to state %v", s))
}

func first(i vipl.VIInfo, err error) vipl.VIInfo {
	if err != nil {
		panic(setup{err})
	}
	return i
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
		f.must(v.Destroy(f.T))
	case statePending:
		f.must(v.ConnectPeerRequest(f.T, f.here(), f.there(), 50*host.Millisecond))
	case stateConnected, stateError:
		f.partner("accept", f.name)
		f.must(f.request(v))
		if state == stateError {
			f.partner("leave")
			f.arrives(v, vipl.ErrorState)
		}
	}
	return v
}

// region registers the row's memory.
func (f *fixture) region() *vipl.Region {
	r, err := f.nic.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{})
	return must(f, r, err)
}

// receive returns a receive descriptor of the row's memory.
func (f *fixture) receive() *vipl.Descriptor {
	r := f.region()
	d := must(f, errorOf(r.Descriptor(0, 1)), nil)
	f.must(d.SetReceive(r.Segment(4096, 64)))
	return d
}

// send returns a send descriptor of the row's memory.
func (f *fixture) send() *vipl.Descriptor {
	r := f.region()
	d := must(f, errorOf(r.Descriptor(1024, 1)), nil)
	f.must(d.SetSend(r.Segment(8192, 16)))
	return d
}

func errorOf[T any](v T, err error) T {
	if err != nil {
		panic(setup{err})
	}
	return v
}

// closedNIC returns a handle that was closed, otherNIC a second one of the same NIC.
func (f *fixture) closedNIC() *vipl.NIC {
	n := errorOf(vipl.OpenNIC(f.T, f.H))
	f.must(n.Close(f.T))
	return n
}

// foreign calls with another handle of the same NIC.
func (f *fixture) foreign(call func(n *vipl.NIC) error) error {
	n := errorOf(vipl.OpenNIC(f.T, f.H))
	err := call(n)
	f.must(n.Close(f.T))
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
		if err := e.partner(words); err != nil {
			return fmt.Errorf("%s: %w", m.Data, err)
		}
	}
}

func (e *Env) partner(words []string) error {
	if words[0] == "leave" || words[0] == "ready" {
		if err := e.NIC.Close(e.T); err != nil {
			return err
		}
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
	v, err := e.NIC.CreateVI(e.T, a)
	if err != nil {
		return err
	}
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
		// What was sent before the peer has a receive is lost: one is there.
		b, err := e.NIC.Alloc(e.T, 4096)
		if err != nil {
			return err
		}
		m, err := e.NIC.RegisterBuffer(e.T, b, vipl.MemAttributes{})
		if err != nil {
			return err
		}
		for i := range 4 {
			d, err := m.Descriptor(i*vipl.DescriptorBytes, 1)
			if err != nil {
				return err
			}
			if err := errors.Join(d.SetReceive(m.Segment(2048, 64)), v.PostRecv(e.T, d)); err != nil {
				return err
			}
		}
		if err := r.Accept(e.T, v); err != nil {
			return err
		}
		d, err := m.Descriptor(1024, 1)
		if err != nil {
			return err
		}
		if err := errors.Join(d.SetSend(m.Segment(2048, 8)), e.T.Sleep(100*host.Microsecond)); err != nil {
			return err
		}
		return v.PostSend(e.T, d)
	case "request", "request-mtu", "request-level", "hasty":
		timeout := 50 * host.Millisecond
		if words[0] == "hasty" {
			timeout = host.Millisecond
		}
		for range Attempts {
			if _, err := v.ConnectRequest(e.T, here, there, timeout); !errors.Is(err, vipl.ErrNoMatch) {
				return nil // what becomes of it is the row's business
			}
			if err := e.T.Sleep(100 * host.Microsecond); err != nil {
				return err
			}
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

// functionRows are all rows.
func functionRows() (rows []functionRow) {
	add := func(function, when string, want vipl.Status, call func(f *fixture) error) *functionRow {
		rows = append(rows, functionRow{function: function, when: when, want: want, call: call})
		return &rows[len(rows)-1]
	}
	const (
		ok      = vipl.Success
		invalid = vipl.ErrInvalidParameter
		none    = vipl.ErrResource
		state   = vipl.ErrInvalidState
	)
	// onNIC adds the rows of every function of a NIC handle.
	onNIC := func(function string, call func(f *fixture, n *vipl.NIC) error) {
		add(function, "no NIC handle", invalid, func(f *fixture) error { return call(f, nil) })
		add(function, "NIC handle was closed", invalid, func(f *fixture) error { return call(f, f.closedNIC()) })
	}
	// onVI adds the rows of a function of a VI: in each state.
	onVI := func(function string, wants map[string]vipl.Status, call func(f *fixture, v *vipl.VI) error) {
		for _, s := range []string{stateNil, stateDestroyed, stateIdle, statePending, stateConnected, stateError} {
			want, listed := wants[s]
			switch {
			case s == stateNil || s == stateDestroyed:
				want = invalid
			case !listed:
				continue
			}
			add(function, "VI: "+s, want, func(f *fixture) error { return call(f, f.in(s, vipl.VIAttributes{})) })
		}
		add(function, "VI's NIC handle was closed", invalid, func(f *fixture) error {
			n := errorOf(vipl.OpenNIC(f.T, f.H))
			v := errorOf(n.CreateVI(f.T, vipl.VIAttributes{}))
			f.must(n.Close(f.T))
			return call(f, v)
		})
	}
	anyState := func(s vipl.Status) map[string]vipl.Status {
		return map[string]vipl.Status{stateIdle: s, statePending: s, stateConnected: s, stateError: s}
	}
	onlyIdle := map[string]vipl.Status{stateIdle: ok, statePending: state, stateConnected: state, stateError: state}

	// NIC
	add("OpenNic", "a host", ok, func(f *fixture) error { return f.foreign(func(*vipl.NIC) error { return nil }) })
	add("OpenNic", "no host", invalid, func(f *fixture) error { _, err := vipl.OpenNIC(f.T, nil); return err })
	add("CloseNic", "with VIs, regions and tags", ok, func(f *fixture) error {
		n := errorOf(vipl.OpenNIC(f.T, f.H))
		errorOf(n.CreateVI(f.T, vipl.VIAttributes{}))
		errorOf(n.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{}))
		errorOf(n.CreatePtag(f.T))
		return n.Close(f.T)
	})
	onNIC("CloseNic", func(f *fixture, n *vipl.NIC) error { return n.Close(f.T) })
	add("QueryNic", "", ok, func(f *fixture) error {
		if q := f.nic.Query(); q.LocalAddress != vipl.At(0, "").Host || q.MaxVI == 0 {
			return fmt.Errorf("attributes are %+v", q)
		}
		return nil
	})

	// VI
	attributeRows := func(function string, set func(f *fixture, a vipl.VIAttributes) error) {
		for _, c := range []struct {
			when string
			want vipl.Status
			a    func(f *fixture) vipl.VIAttributes
		}{
			{"ReliabilityLevel: two levels", vipl.ErrInvalidReliabilityLevel, func(*fixture) vipl.VIAttributes {
				return vipl.VIAttributes{ReliabilityLevel: vipl.Unreliable | vipl.ReliableDelivery}
			}},
			{"ReliabilityLevel: unknown", vipl.ErrInvalidReliabilityLevel, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{ReliabilityLevel: 0x10} }},
			{"MaxTransferSize: 65,537", vipl.ErrInvalidMTU, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{MaxTransferSize: 65537} }},
			{"MaxTransferSize: -1", vipl.ErrInvalidMTU, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{MaxTransferSize: -1} }},
			{"MaxTransferSize: 1", ok, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{MaxTransferSize: 1} }},
			{"Ptag: never created", vipl.ErrInvalidPtag, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: 0xfff0} }},
			{"Ptag: destroyed", vipl.ErrInvalidPtag, func(f *fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: f.deadTag()} }},
			{"Ptag: of another NIC handle", vipl.ErrInvalidPtag, func(f *fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: errorOf(f.Env.NIC.CreatePtag(f.T))} }},
			{"Ptag: a tag", ok, func(f *fixture) vipl.VIAttributes { return vipl.VIAttributes{Ptag: errorOf(f.nic.CreatePtag(f.T))} }},
			{"EnableRDMARead: at the unreliable level", vipl.ErrInvalidRDMARead, func(*fixture) vipl.VIAttributes { return vipl.VIAttributes{EnableRDMARead: true} }},
			{"completion queue: destroyed", invalid, func(f *fixture) vipl.VIAttributes {
				c := errorOf(f.nic.CreateCQ(f.T, 4))
				f.must(c.Destroy(f.T))
				return vipl.VIAttributes{RecvCQ: c}
			}},
			{"completion queue: of another NIC handle", invalid, func(f *fixture) vipl.VIAttributes {
				n := errorOf(vipl.OpenNIC(f.T, f.H))
				c := errorOf(n.CreateCQ(f.T, 4))
				f.must(n.Close(f.T))
				return vipl.VIAttributes{SendCQ: c}
			}},
		} {
			add(function, c.when, c.want, func(f *fixture) error { return set(f, c.a(f)) })
		}
	}
	onNIC("CreateVi", func(f *fixture, n *vipl.NIC) error { _, err := n.CreateVI(f.T, vipl.VIAttributes{}); return err })
	add("CreateVi", "default attributes", ok, func(f *fixture) error { _, err := f.nic.CreateVI(f.T, vipl.VIAttributes{}); return err })
	add("CreateVi", "MaxVI exist", none, func(f *fixture) error {
		for range f.nic.Query().MaxVI {
			f.create(vipl.VIAttributes{})
		}
		_, err := f.nic.CreateVI(f.T, vipl.VIAttributes{})
		return err
	})
	attributeRows("CreateVi", func(f *fixture, a vipl.VIAttributes) error { _, err := f.nic.CreateVI(f.T, a); return err })
	onVI("DestroyVi", onlyIdle, func(f *fixture, v *vipl.VI) error { return v.Destroy(f.T) })
	add("DestroyVi", "a receive is posted", none, func(f *fixture) error {
		v := f.create(vipl.VIAttributes{})
		f.must(v.PostRecv(f.T, f.receive()))
		return v.Destroy(f.T)
	})
	add("DestroyVi", "a flushed send was not taken", none, func(f *fixture) error {
		v := f.create(vipl.VIAttributes{})
		f.must(v.PostSend(f.T, f.send()))
		return v.Destroy(f.T)
	})
	for _, s := range []struct {
		name string
		is   layout.VIState
	}{{stateIdle, vipl.Idle}, {statePending, vipl.ConnectPending}, {stateConnected, vipl.Connected}, {stateError, vipl.ErrorState}} {
		add("QueryVi", "VI: "+s.name, ok, func(f *fixture) error {
			i, err := f.in(s.name, vipl.VIAttributes{}).Query(f.T)
			if err == nil && i.State != s.is {
				err = fmt.Errorf("the VI is %v", i.State)
			}
			return err
		})
	}
	onVI("QueryVi", nil, func(f *fixture, v *vipl.VI) error { _, err := v.Query(f.T); return err })
	onVI("SetViAttributes", onlyIdle, func(f *fixture, v *vipl.VI) error {
		return v.SetAttributes(f.T, vipl.VIAttributes{MaxTransferSize: 4096})
	})
	attributeRows("SetViAttributes", func(f *fixture, a vipl.VIAttributes) error {
		return f.create(vipl.VIAttributes{}).SetAttributes(f.T, a)
	})

	// Connection, client and server
	long := vipl.At(1, strings.Repeat("x", driver.MaxDiscriminator+1))
	onNIC("ConnectWait", func(f *fixture, n *vipl.NIC) error { _, err := n.ConnectWait(f.T, f.here(), 0); return err })
	add("ConnectWait", "a request comes", ok, func(f *fixture) error {
		f.partner("request", f.name)
		c, err := f.nic.ConnectWait(f.T, f.here(), 20*host.Millisecond)
		if err == nil && c.RemoteAddress != f.there() {
			err = fmt.Errorf("the requester is %v", c.RemoteAddress)
		}
		return err
	})
	add("ConnectWait", "timeout 0, no request", vipl.ErrTimeout, func(f *fixture) error { _, err := f.nic.ConnectWait(f.T, f.here(), 0); return err })
	add("ConnectWait", "no request in time", vipl.ErrTimeout, func(f *fixture) error {
		_, err := f.nic.ConnectWait(f.T, f.here(), host.Millisecond)
		return err
	})
	add("ConnectWait", "discriminator of 33 bytes", invalid, func(f *fixture) error { _, err := f.nic.ConnectWait(f.T, long, 0); return err })
	add("ConnectWait", "another thread closes the NIC handle", none, func(f *fixture) error {
		n := errorOf(vipl.OpenNIC(f.T, f.H))
		f.soon(func(t *host.Thread) { _ = n.Close(t) })
		_, err := n.ConnectWait(f.T, f.here(), vipl.Infinite)
		return err
	})
	// asked returns a request of the partner.
	asked := func(f *fixture, how string) *vipl.ConnectionRequest {
		f.partner(how, f.name)
		return errorOf(f.nic.ConnectWait(f.T, f.here(), 20*host.Millisecond))
	}
	add("ConnectAccept", "VI: Idle", ok, func(f *fixture) error { return asked(f, "request").Accept(f.T, f.create(vipl.VIAttributes{})) })
	for _, s := range []string{statePending, stateConnected, stateError} {
		add("ConnectAccept", "VI: "+s, state, func(f *fixture) error {
			v := f.in(s, vipl.VIAttributes{})
			f.name += "'"
			return asked(f, "request").Accept(f.T, v)
		})
	}
	add("ConnectAccept", "no request", invalid, func(f *fixture) error {
		return (*vipl.ConnectionRequest)(nil).Accept(f.T, f.create(vipl.VIAttributes{}))
	})
	add("ConnectAccept", "no VI", invalid, func(f *fixture) error { return asked(f, "request").Accept(f.T, nil) })
	add("ConnectAccept", "VI: destroyed", invalid, func(f *fixture) error {
		return asked(f, "request").Accept(f.T, f.in(stateDestroyed, vipl.VIAttributes{}))
	})
	add("ConnectAccept", "VI of another NIC handle", invalid, func(f *fixture) error {
		c := asked(f, "request")
		return f.foreign(func(n *vipl.NIC) error { return c.Accept(f.T, errorOf(n.CreateVI(f.T, vipl.VIAttributes{}))) })
	})
	add("ConnectAccept", "the request was rejected before", invalid, func(f *fixture) error {
		c := asked(f, "request")
		f.must(c.Reject(f.T))
		return c.Accept(f.T, f.create(vipl.VIAttributes{}))
	})
	add("ConnectAccept", "ReliabilityLevel differs", vipl.ErrInvalidReliabilityLevel, func(f *fixture) error {
		return asked(f, "request-level").Accept(f.T, f.create(vipl.VIAttributes{}))
	}).device = driver.DeviceHvia
	add("ConnectAccept", "MaxTransferSize differs", vipl.ErrInvalidMTU, func(f *fixture) error {
		return asked(f, "request-mtu").Accept(f.T, f.create(vipl.VIAttributes{}))
	})
	add("ConnectAccept", "the attributes differed, and were changed", ok, func(f *fixture) error {
		c, v := asked(f, "request-mtu"), f.create(vipl.VIAttributes{})
		if err := c.Accept(f.T, v); !errors.Is(err, vipl.ErrInvalidMTU) {
			return fmt.Errorf("first: %w", err)
		}
		f.must(v.SetAttributes(f.T, vipl.VIAttributes{MaxTransferSize: 4096}))
		return c.Accept(f.T, v)
	})
	add("ConnectAccept", "the requester has given up", vipl.ErrTimeout, func(f *fixture) error {
		c := asked(f, "hasty")
		f.must(f.T.Sleep(5 * host.Millisecond))
		return c.Accept(f.T, f.create(vipl.VIAttributes{}))
	})
	add("ConnectReject", "a request", ok, func(f *fixture) error { return asked(f, "request").Reject(f.T) })
	add("ConnectReject", "no request", invalid, func(f *fixture) error { return (*vipl.ConnectionRequest)(nil).Reject(f.T) })
	add("ConnectReject", "it was rejected before", invalid, func(f *fixture) error {
		c := asked(f, "request")
		f.must(c.Reject(f.T))
		return c.Reject(f.T)
	})
	add("ConnectReject", "it was accepted before", invalid, func(f *fixture) error {
		c := asked(f, "request")
		f.must(c.Accept(f.T, f.create(vipl.VIAttributes{})))
		return c.Reject(f.T)
	})
	onVI("ConnectRequest", onlyIdle, func(f *fixture, v *vipl.VI) error {
		if v == nil {
			_, err := v.ConnectRequest(f.T, f.here(), f.there(), host.Millisecond)
			return err
		}
		f.name += "'"
		f.partner("accept", f.name)
		err := f.request(v)
		if err != nil { // the partner waits for one that comes
			f.must(f.request(f.create(vipl.VIAttributes{})))
		}
		return err
	})
	requests := func(when string, want vipl.Status, call func(f *fixture, v *vipl.VI) error) {
		add("ConnectRequest", when, want, func(f *fixture) error { return call(f, f.create(vipl.VIAttributes{})) })
	}
	requests("nobody waits", vipl.ErrNoMatch, func(f *fixture, v *vipl.VI) error {
		_, err := v.ConnectRequest(f.T, f.here(), f.there(), vipl.Infinite)
		return err
	})
	requests("the server rejects", vipl.ErrReject, func(f *fixture, v *vipl.VI) error {
		f.partner("reject", f.name)
		return f.request(v)
	})
	requests("the server does not decide in time", vipl.ErrTimeout, func(f *fixture, v *vipl.VI) error {
		f.partner("ignore", f.name)
		return f.request(v)
	})
	requests("no node has the address", vipl.ErrTimeout, func(f *fixture, v *vipl.VI) error {
		_, err := v.ConnectRequest(f.T, f.here(), vipl.At(500, ""), host.Millisecond)
		return err
	})
	requests("the remote host is the own one", vipl.ErrNotReachable, func(f *fixture, v *vipl.VI) error {
		began := f.T.Now()
		_, err := v.ConnectRequest(f.T, f.here(), f.here(), 5*host.Second)
		if took := f.T.Now() - began; took > host.Millisecond {
			return fmt.Errorf("after %v: %w", took, err)
		}
		f.partner("accept", f.name)
		f.must(f.request(v)) // it is idle
		return err
	})
	requests("timeout 0", invalid, func(f *fixture, v *vipl.VI) error {
		_, err := v.ConnectRequest(f.T, f.here(), f.there(), 0)
		return err
	})
	requests("remote discriminator of 33 bytes", invalid, func(f *fixture, v *vipl.VI) error {
		_, err := v.ConnectRequest(f.T, f.here(), long, host.Millisecond)
		return err
	})
	requests("local discriminator of 33 bytes", invalid, func(f *fixture, v *vipl.VI) error {
		_, err := v.ConnectRequest(f.T, long, f.there(), host.Millisecond)
		return err
	})
	requests("another thread disconnects the VI", none, func(f *fixture, v *vipl.VI) error {
		f.soon(func(t *host.Thread) { _ = v.Disconnect(t) })
		_, err := v.ConnectRequest(f.T, f.here(), vipl.At(500, ""), 50*host.Millisecond)
		return err
	})
	onVI("Disconnect", anyState(ok), func(f *fixture, v *vipl.VI) error { return errors.Join(v.Disconnect(f.T), v.Disconnect(f.T)) })

	// Connection, peer to peer
	onVI("ConnectPeerRequest", onlyIdle, func(f *fixture, v *vipl.VI) error {
		return v.ConnectPeerRequest(f.T, f.here(), f.there(), host.Millisecond)
	})
	for _, c := range []struct {
		when          string
		local, remote vipl.NetAddress
		timeout       host.Time
	}{
		{"timeout 0", vipl.NetAddress{}, vipl.NetAddress{}, 0},
		{"remote discriminator of 33 bytes", vipl.NetAddress{}, long, host.Second},
		{"local discriminator of 33 bytes", long, vipl.NetAddress{}, host.Second},
	} {
		add("ConnectPeerRequest", c.when, invalid, func(f *fixture) error {
			return f.create(vipl.VIAttributes{}).ConnectPeerRequest(f.T, c.local, c.remote, c.timeout)
		})
	}
	for _, way := range []struct {
		function string
		call     func(f *fixture, v *vipl.VI) (vipl.VIAttributes, error)
	}{
		{"ConnectPeerDone", func(f *fixture, v *vipl.VI) (a vipl.VIAttributes, err error) {
			for range Attempts {
				if a, err = v.ConnectPeerDone(f.T); !errors.Is(err, vipl.ErrNotDone) {
					break
				}
				f.must(f.T.Sleep(100 * host.Microsecond))
			}
			return a, err
		}},
		{"ConnectPeerWait", func(f *fixture, v *vipl.VI) (vipl.VIAttributes, error) { return v.ConnectPeerWait(f.T) }},
	} {
		add(way.function, "the remote host is the own one", vipl.ErrNotReachable, func(f *fixture) error {
			v, began := f.create(vipl.VIAttributes{}), f.T.Now()
			f.must(v.ConnectPeerRequest(f.T, f.here(), f.here(), 5*host.Second))
			_, err := way.call(f, v)
			if i, took := first(v.Query(f.T)), f.T.Now()-began; i.State != vipl.Idle || took > host.Millisecond {
				return fmt.Errorf("the VI is %v after %v: %w", i.State, took, err)
			}
			return err
		})
		onVI(way.function, map[string]vipl.Status{stateIdle: state, stateConnected: state, stateError: state}, func(f *fixture, v *vipl.VI) error {
			_, err := way.call(f, v)
			return err
		})
		for _, c := range []struct {
			when, partner string
			want          vipl.Status
			left          layout.VIState
		}{
			{"the peer asks, too", "peer", ok, vipl.Connected},
			{"the peer does not ask in time", "", vipl.ErrTimeout, vipl.Idle},
			{"the peer gives up at once", "peer-leave", vipl.ErrReject, vipl.Idle},
			{"MaxTransferSize differs", "peer-mtu", vipl.ErrInvalidMTU, vipl.Idle},
			{"ReliabilityLevel differs", "peer-level", vipl.ErrInvalidReliabilityLevel, vipl.Idle},
			{"a server waits there, no peer", "ignore", vipl.ErrTimeout, vipl.Idle},
		} {
			r := add(way.function, c.when, c.want, func(f *fixture) error {
				v := f.create(vipl.VIAttributes{})
				f.must(v.ConnectPeerRequest(f.T, f.here(), f.there(), 5*host.Millisecond))
				if c.partner != "" {
					f.partner(c.partner, f.name)
				}
				a, err := way.call(f, v)
				if i := first(v.Query(f.T)); i.State != c.left {
					return fmt.Errorf("the VI is %v afterwards", i.State)
				}
				if err == nil && a.MaxTransferSize != 65536 {
					return fmt.Errorf("the peer's attributes are %+v", a)
				}
				if c.partner == "ignore" { // it waits on
					_, none := v.ConnectRequest(f.T, f.here(), f.there(), host.Millisecond)
					f.Is("the server", none, vipl.ErrTimeout)
				}
				_, again := way.call(f, v)
				f.That(fmt.Sprintf("%s: the result once more: %s", c.when, Text(again)), has(again, c.want))
				return err
			})
			if c.partner == "peer-level" {
				r.device = driver.DeviceHvia
			}
		}
		add(way.function, "after Disconnect", state, func(f *fixture) error {
			v := f.in(statePending, vipl.VIAttributes{})
			f.must(v.Disconnect(f.T))
			_, err := way.call(f, v)
			return err
		})
	}
	add("ConnectPeerDone", "the peer has not asked", vipl.ErrNotDone, func(f *fixture) error {
		_, err := f.in(statePending, vipl.VIAttributes{}).ConnectPeerDone(f.T)
		return err
	})
	add("ConnectPeerWait", "another thread disconnects the VI", none, func(f *fixture) error {
		v := f.in(statePending, vipl.VIAttributes{})
		f.soon(func(t *host.Thread) { _ = v.Disconnect(t) })
		_, err := v.ConnectPeerWait(f.T)
		return err
	})

	// Protection tags
	onNIC("CreatePtag", func(f *fixture, n *vipl.NIC) error { _, err := n.CreatePtag(f.T); return err })
	add("CreatePtag", "a NIC handle", ok, func(f *fixture) error { _, err := f.nic.CreatePtag(f.T); return err })
	allTags := func(f *fixture) (err error) {
		for err == nil {
			_, err = f.nic.CreatePtag(f.T)
		}
		return err
	}
	add("CreatePtag", "MaxPtags exist", none, func(f *fixture) error { return allTags(f) }).patient = true
	add("OpenNic", "MaxPtags exist, and each handle needs one", none, func(f *fixture) error {
		if err := allTags(f); !errors.Is(err, vipl.ErrResource) {
			f.must(err)
		}
		_, err := vipl.OpenNIC(f.T, f.H)
		return err
	}).patient = true
	onNIC("DestroyPtag", func(f *fixture, n *vipl.NIC) error { return n.DestroyPtag(f.T, 1) })
	add("DestroyPtag", "a tag", ok, func(f *fixture) error { return f.nic.DestroyPtag(f.T, errorOf(f.nic.CreatePtag(f.T))) })
	add("DestroyPtag", "the NIC handle's own", invalid, func(f *fixture) error {
		r := f.region()
		return f.nic.DestroyPtag(f.T, errorOf(f.nic.QueryMem(f.T, r.Address(), r.Handle())).Ptag)
	})
	add("DestroyPtag", "destroyed before", vipl.ErrInvalidPtag, func(f *fixture) error { return f.nic.DestroyPtag(f.T, f.deadTag()) })
	add("DestroyPtag", "0", vipl.ErrInvalidPtag, func(f *fixture) error { return f.nic.DestroyPtag(f.T, 0) })
	add("DestroyPtag", "of another NIC handle", vipl.ErrInvalidPtag, func(f *fixture) error {
		tag := errorOf(f.nic.CreatePtag(f.T))
		return f.foreign(func(n *vipl.NIC) error { return n.DestroyPtag(f.T, tag) })
	})
	add("DestroyPtag", "a VI has it", none, func(f *fixture) error {
		tag := errorOf(f.nic.CreatePtag(f.T))
		f.create(vipl.VIAttributes{Ptag: tag})
		return f.nic.DestroyPtag(f.T, tag)
	})
	add("DestroyPtag", "a region has it", none, func(f *fixture) error {
		tag := errorOf(f.nic.CreatePtag(f.T))
		errorOf(f.nic.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{Ptag: tag}))
		return f.nic.DestroyPtag(f.T, tag)
	})

	// Memory
	onNIC("RegisterMem", func(f *fixture, n *vipl.NIC) error {
		_, err := n.RegisterMem(f.T, f.buf.Address(), 16, vipl.MemAttributes{})
		return err
	})
	register := func(when string, want vipl.Status, address func(f *fixture) uint64, length uint64, a func(f *fixture) vipl.MemAttributes) *functionRow {
		return add("RegisterMem", when, want, func(f *fixture) error {
			r, err := f.nic.RegisterMem(f.T, address(f), length, a(f))
			if err == nil && r.Handle() == 0 {
				err = errors.New("the handle is 0")
			}
			return err
		})
	}
	at := func(offset uint64) func(f *fixture) uint64 {
		return func(f *fixture) uint64 { return f.buf.Address() + offset }
	}
	plain := func(*fixture) vipl.MemAttributes { return vipl.MemAttributes{} }
	register("MemAttribs nil", ok, at(0), 4096, plain)
	register("any byte address and length", ok, at(4095), 2, plain)
	add("RegisterMem", "the same range twice", ok, func(f *fixture) error {
		one := f.region()
		two, err := f.nic.RegisterBuffer(f.T, f.buf, vipl.MemAttributes{})
		if err == nil && one.Handle() == two.Handle() {
			err = errors.New("both have the same handle")
		}
		return err
	})
	register("length 0", invalid, at(0), 0, plain)
	register("address 0", invalid, func(*fixture) uint64 { return 0 }, 4096, plain)
	register("beyond the allocated memory", invalid, at(0), bufferBytes+1, plain)
	register("beyond the address space", invalid, func(*fixture) uint64 { return ^uint64(0) - 5 }, 100, plain)
	register("length 2^64-1", invalid, at(0), ^uint64(0), plain)
	add("RegisterMem", "MaxRegisterRegions exist", none, func(f *fixture) error {
		for range f.nic.Query().MaxRegisterRegions {
			errorOf(f.nic.RegisterMem(f.T, f.buf.Address(), 1, vipl.MemAttributes{}))
		}
		_, err := f.nic.RegisterMem(f.T, f.buf.Address(), 1, vipl.MemAttributes{})
		return err
	})
	memAttributes := []struct {
		when   string
		want   vipl.Status
		device driver.Device
		a      func(f *fixture) vipl.MemAttributes
	}{
		{"Ptag: never created", vipl.ErrInvalidPtag, "", func(*fixture) vipl.MemAttributes { return vipl.MemAttributes{Ptag: 0xfff0} }},
		{"Ptag: destroyed", vipl.ErrInvalidPtag, "", func(f *fixture) vipl.MemAttributes { return vipl.MemAttributes{Ptag: f.deadTag()} }},
		{"Ptag: of another NIC handle", vipl.ErrInvalidPtag, "", func(f *fixture) vipl.MemAttributes {
			return vipl.MemAttributes{Ptag: errorOf(f.Env.NIC.CreatePtag(f.T))}
		}},
		{"EnableRDMARead: the NIC has none", vipl.ErrInvalidRDMARead, driver.DeviceMvia, func(*fixture) vipl.MemAttributes {
			return vipl.MemAttributes{EnableRDMARead: true}
		}},
	}
	for _, c := range memAttributes {
		register(c.when, c.want, at(0), 64, c.a).device = c.device
	}
	for _, way := range []struct {
		function string
		call     func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error
	}{
		{"DeregisterMem", func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error {
			return n.DeregisterMem(f.T, address, h)
		}},
		{"QueryMem", func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error {
			_, err := n.QueryMem(f.T, address, h)
			return err
		}},
		{"SetMemAttributes", func(f *fixture, n *vipl.NIC, address uint64, h vipl.MemHandle) error {
			return n.SetMemAttributes(f.T, address, h, vipl.MemAttributes{EnableRDMAWrite: true})
		}},
	} {
		onNIC(way.function, func(f *fixture, n *vipl.NIC) error { return way.call(f, n, f.buf.Address(), f.region().Handle()) })
		add(way.function, "a region", ok, func(f *fixture) error { return way.call(f, f.nic, f.buf.Address(), f.region().Handle()) })
		add(way.function, "handle 0", invalid, func(f *fixture) error { f.region(); return way.call(f, f.nic, f.buf.Address(), 0) })
		add(way.function, "handle out of range", invalid, func(f *fixture) error { return way.call(f, f.nic, f.buf.Address(), 0xffffffff) })
		add(way.function, "another address", invalid, func(f *fixture) error { return way.call(f, f.nic, f.buf.Address()+1, f.region().Handle()) })
		add(way.function, "deregistered before", invalid, func(f *fixture) error {
			r := f.region()
			f.must(r.Deregister(f.T))
			return way.call(f, f.nic, r.Address(), r.Handle())
		})
		add(way.function, "a region of another NIC handle", invalid, func(f *fixture) error {
			r := f.region()
			return f.foreign(func(n *vipl.NIC) error { return way.call(f, n, r.Address(), r.Handle()) })
		})
	}
	for _, c := range memAttributes {
		add("SetMemAttributes", c.when, c.want, func(f *fixture) error {
			r := f.region()
			return r.SetAttributes(f.T, c.a(f))
		}).device = c.device
	}
	add("SetMemAttributes", "a tag that nothing else has, and back", ok, func(f *fixture) error {
		r, tag := f.region(), errorOf(f.nic.CreatePtag(f.T))
		old := errorOf(f.nic.QueryMem(f.T, r.Address(), r.Handle()))
		f.must(r.SetAttributes(f.T, vipl.MemAttributes{Ptag: tag, EnableRDMAWrite: true}))
		got := errorOf(f.nic.QueryMem(f.T, r.Address(), r.Handle()))
		f.That(fmt.Sprintf("attributes are %+v", got), got == vipl.MemAttributes{Ptag: tag, EnableRDMAWrite: true})
		f.Is("destroy the tag", f.nic.DestroyPtag(f.T, tag), vipl.ErrResource)
		f.must(r.SetAttributes(f.T, vipl.MemAttributes{}))
		got = errorOf(f.nic.QueryMem(f.T, r.Address(), r.Handle()))
		f.That(fmt.Sprintf("attributes are %+v", got), got == old)
		return f.nic.DestroyPtag(f.T, tag)
	})

	// Work queues
	for _, q := range []struct {
		post, done, wait, notify string
		tied                     func(c *vipl.CQ) vipl.VIAttributes
		descriptor               func(f *fixture) *vipl.Descriptor
		doPost                   func(f *fixture, v *vipl.VI, d *vipl.Descriptor) error
		doDone                   func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error)
		doWait                   func(f *fixture, v *vipl.VI, timeout host.Time) (*vipl.Descriptor, error)
		doNotify                 func(f *fixture, v *vipl.VI, h func(*host.Thread, *vipl.VI, *vipl.Descriptor)) error
	}{
		{
			"PostSend", "SendDone", "SendWait", "SendNotify",
			func(c *vipl.CQ) vipl.VIAttributes { return vipl.VIAttributes{SendCQ: c} }, (*fixture).send,
			func(f *fixture, v *vipl.VI, d *vipl.Descriptor) error { return v.PostSend(f.T, d) },
			func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error) { return v.SendDone(f.T) },
			func(f *fixture, v *vipl.VI, timeout host.Time) (*vipl.Descriptor, error) {
				return v.SendWait(f.T, timeout)
			},
			func(f *fixture, v *vipl.VI, h func(*host.Thread, *vipl.VI, *vipl.Descriptor)) error {
				return v.SendNotify(f.T, h)
			},
		},
		{
			"PostRecv", "RecvDone", "RecvWait", "RecvNotify",
			func(c *vipl.CQ) vipl.VIAttributes { return vipl.VIAttributes{RecvCQ: c} }, (*fixture).receive,
			func(f *fixture, v *vipl.VI, d *vipl.Descriptor) error { return v.PostRecv(f.T, d) },
			func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error) { return v.RecvDone(f.T) },
			func(f *fixture, v *vipl.VI, timeout host.Time) (*vipl.Descriptor, error) {
				return v.RecvWait(f.T, timeout)
			},
			func(f *fixture, v *vipl.VI, h func(*host.Thread, *vipl.VI, *vipl.Descriptor)) error {
				return v.RecvNotify(f.T, h)
			},
		},
	} {
		onVI(q.post, anyState(ok), func(f *fixture, v *vipl.VI) error { return q.doPost(f, v, q.descriptor(f)) })
		posts := func(when string, want vipl.Status, call func(f *fixture, v *vipl.VI) error) {
			add(q.post, when, want, func(f *fixture) error { return call(f, f.create(vipl.VIAttributes{})) })
		}
		posts("no descriptor", invalid, func(f *fixture, v *vipl.VI) error { return q.doPost(f, v, nil) })
		posts("descriptor without memory", invalid, func(f *fixture, v *vipl.VI) error { return q.doPost(f, v, &vipl.Descriptor{}) })
		posts("descriptor not aligned to 64 bytes", invalid, func(f *fixture, v *vipl.VI) error {
			d := q.descriptor(f)
			d.Address += 32
			return q.doPost(f, v, d)
		})
		posts("handle that names no region (it is told later)", ok, func(f *fixture, v *vipl.VI) error {
			d := q.descriptor(f)
			d.Handle ^= 0x8000
			return q.doPost(f, v, d)
		})
		posts("MaxDescriptorsPerQueue are outstanding", none, func(f *fixture, v *vipl.VI) error {
			d := q.descriptor(f)
			for i := range vipl.MaxDescriptorsPerQueue {
				at := i * vipl.DescriptorBytes
				e := vipl.NewDescriptor(f.buf.Bytes()[at:at+vipl.DescriptorBytes], f.buf.Address()+uint64(at), d.Handle)
				f.must(e.SetReceive())
				f.must(q.doPost(f, v, e))
			}
			return q.doPost(f, v, d)
		})

		done := func(function string, take func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error)) {
			onVI(function, anyState(vipl.ErrDescriptor), func(f *fixture, v *vipl.VI) error { // of an empty queue
				d, err := take(f, v)
				if d != nil {
					return errors.New("there is a descriptor")
				}
				return err
			})
			add(function, "a descriptor was flushed", vipl.ErrDescriptor, func(f *fixture) error {
				v, d := f.create(vipl.VIAttributes{}), q.descriptor(f)
				f.must(q.doPost(f, v, d))
				f.must(v.Disconnect(f.T))
				got, err := take(f, v)
				f.That("it is that descriptor", got == d && d.Status()&vipl.Flushed != 0)
				return err
			})
			add(function, "a descriptor is complete", ok, func(f *fixture) error {
				v, d := f.create(vipl.VIAttributes{}), q.descriptor(f)
				if q.post == "PostRecv" {
					f.must(q.doPost(f, v, d))
				}
				f.partner("accept", f.name)
				f.must(f.request(v))
				if q.post == "PostSend" {
					f.must(q.doPost(f, v, d))
				}
				f.must(f.T.Sleep(5 * host.Millisecond))
				got, err := take(f, v)
				f.That("it is that descriptor", got == d)
				return err
			})
		}
		done(q.done, q.doDone)
		done(q.wait, func(f *fixture, v *vipl.VI) (*vipl.Descriptor, error) { return q.doWait(f, v, host.Millisecond) })
		if q.post == "PostRecv" {
			add(q.done, "nothing has come", vipl.ErrNotDone, func(f *fixture) error {
				v := f.create(vipl.VIAttributes{})
				f.must(q.doPost(f, v, q.descriptor(f)))
				_, err := q.doDone(f, v)
				return err
			})
			for _, timeout := range []host.Time{0, host.Millisecond} {
				add(q.wait, fmt.Sprintf("nothing comes, timeout %v", timeout), vipl.ErrTimeout, func(f *fixture) error {
					v := f.create(vipl.VIAttributes{})
					f.must(q.doPost(f, v, q.descriptor(f)))
					_, err := q.doWait(f, v, timeout)
					return err
				})
			}
		} else {
			add(q.done, "right behind the post", vipl.ErrNotDone, func(f *fixture) error {
				v := f.in(stateConnected, vipl.VIAttributes{})
				f.must(q.doPost(f, v, q.descriptor(f)))
				_, err := q.doDone(f, v)
				return err
			}).device = driver.DeviceHvia // the kernel of M-VIA has seen to it by then
			add(q.wait, "right behind the post, timeout 0", vipl.ErrTimeout, func(f *fixture) error {
				v := f.in(stateConnected, vipl.VIAttributes{})
				f.must(q.doPost(f, v, q.descriptor(f)))
				_, err := q.doWait(f, v, 0)
				return err
			}).device = driver.DeviceHvia
		}
		ties := func(f *fixture) *vipl.VI { return f.create(q.tied(errorOf(f.nic.CreateCQ(f.T, 4)))) }
		add(q.done, "tied to a completion queue", vipl.ErrDescriptor, func(f *fixture) error { _, err := q.doDone(f, ties(f)); return err })
		add(q.wait, "tied to a completion queue", none, func(f *fixture) error { _, err := q.doWait(f, ties(f), 0); return err })
		ignore := func(*host.Thread, *vipl.VI, *vipl.Descriptor) {}
		onVI(q.notify, anyState(ok), func(f *fixture, v *vipl.VI) error { return q.doNotify(f, v, ignore) })
		add(q.notify, "tied to a completion queue", none, func(f *fixture) error { return q.doNotify(f, ties(f), ignore) })
		add(q.notify, "no handler", invalid, func(f *fixture) error { return q.doNotify(f, f.create(vipl.VIAttributes{}), nil) })
	}

	// Completion queues
	onNIC("CreateCQ", func(f *fixture, n *vipl.NIC) error { _, err := n.CreateCQ(f.T, 4); return err })
	for _, c := range []struct {
		entries int
		want    vipl.Status
	}{{1, ok}, {driver.MaxCQEntries, ok}, {0, invalid}, {-1, invalid}, {driver.MaxCQEntries + 1, none}} {
		add("CreateCQ", fmt.Sprintf("EntryCount: %d", c.entries), c.want, func(f *fixture) error {
			q, err := f.nic.CreateCQ(f.T, c.entries)
			if err == nil && q.Entries() < c.entries {
				err = fmt.Errorf("it has room for %d entries", q.Entries())
			}
			return err
		})
		add("ResizeCQ", fmt.Sprintf("EntryCount: %d", c.entries), c.want, func(f *fixture) error {
			return errorOf(f.nic.CreateCQ(f.T, 4)).Resize(f.T, c.entries)
		})
	}
	add("CreateCQ", "MaxCQ exist", none, func(f *fixture) error {
		for range f.nic.Query().MaxCQ {
			errorOf(f.nic.CreateCQ(f.T, 1))
		}
		_, err := f.nic.CreateCQ(f.T, 1)
		return err
	})
	entry := func(*host.Thread, vipl.Completion) {}
	for _, way := range []struct {
		function string
		empty    vipl.Status
		call     func(f *fixture, c *vipl.CQ) error
	}{
		{"DestroyCQ", ok, func(f *fixture, c *vipl.CQ) error { return c.Destroy(f.T) }},
		{"ResizeCQ", ok, func(f *fixture, c *vipl.CQ) error { return c.Resize(f.T, 8) }},
		{"CQDone", vipl.ErrNotDone, func(f *fixture, c *vipl.CQ) error { _, err := c.Done(f.T); return err }},
		{"CQWait", vipl.ErrTimeout, func(f *fixture, c *vipl.CQ) error { _, err := c.Wait(f.T, host.Millisecond); return err }},
		{"CQNotify", ok, func(f *fixture, c *vipl.CQ) error { return c.Notify(f.T, entry) }},
	} {
		add(way.function, "no completion queue", invalid, func(f *fixture) error { return way.call(f, nil) })
		add(way.function, "destroyed", invalid, func(f *fixture) error {
			c := errorOf(f.nic.CreateCQ(f.T, 4))
			f.must(c.Destroy(f.T))
			return way.call(f, c)
		})
		add(way.function, "its NIC handle was closed", invalid, func(f *fixture) error {
			n := errorOf(vipl.OpenNIC(f.T, f.H))
			c := errorOf(n.CreateCQ(f.T, 4))
			f.must(n.Close(f.T))
			return way.call(f, c)
		})
		add(way.function, "no entry, no VI", way.empty, func(f *fixture) error { return way.call(f, errorOf(f.nic.CreateCQ(f.T, 4))) })
		tied := ok
		if way.function == "DestroyCQ" {
			tied = none
		}
		add(way.function, "an entry waits", tied, func(f *fixture) error {
			c := errorOf(f.nic.CreateCQ(f.T, 4))
			v := f.create(vipl.VIAttributes{RecvCQ: c})
			f.must(v.PostRecv(f.T, f.receive()))
			f.must(v.Disconnect(f.T))
			return way.call(f, c)
		})
	}
	add("CQNotify", "no handler", invalid, func(f *fixture) error { return errorOf(f.nic.CreateCQ(f.T, 4)).Notify(f.T, nil) })

	// Errors, management, names
	handler := func(*host.Thread, vipl.ErrorDescriptor) {}
	onNIC("ErrorCallback", func(_ *fixture, n *vipl.NIC) error { return n.ErrorCallback(handler) })
	add("ErrorCallback", "a handler", ok, func(f *fixture) error { return f.nic.ErrorCallback(handler) })
	add("ErrorCallback", "nil, for the default", ok, func(f *fixture) error { return f.nic.ErrorCallback(nil) })
	onNIC("QuerySystemManagementInfo", func(f *fixture, n *vipl.NIC) error {
		_, err := n.QuerySystemManagementInfo(f.T, vipl.Autodiscovery)
		return err
	})
	add("QuerySystemManagementInfo", "InfoType: 1, autodiscovery", ok, func(f *fixture) error {
		l, err := f.nic.QuerySystemManagementInfo(f.T, vipl.Autodiscovery)
		f.That(fmt.Sprintf("%+v", l), l.NumberOfHops == 1 && slices.Equal(l.Addresses, []vipl.NetAddress{vipl.At(0, ""), vipl.At(1, "")}))
		return err
	})
	for _, kind := range []int{0, 2, -1} {
		add("QuerySystemManagementInfo", fmt.Sprintf("InfoType: %d", kind), invalid, func(f *fixture) error {
			_, err := f.nic.QuerySystemManagementInfo(f.T, kind)
			return err
		})
	}
	names := []struct {
		function string
		call     func(f *fixture, n *vipl.NIC) error
	}{
		{"NSGetHostByName", func(f *fixture, n *vipl.NIC) error { _, err := n.NSGetHostByName(f.T, "node1", 0); return err }},
		{"NSGetHostByAddr", func(f *fixture, n *vipl.NIC) error { _, err := n.NSGetHostByAddr(f.T, f.there()); return err }},
		{"NSShutdown", func(f *fixture, n *vipl.NIC) error { return n.NSShutdown(f.T) }},
	}
	onNIC("NSInit", func(f *fixture, n *vipl.NIC) error { return n.NSInit(f.T) })
	add("NSInit", "twice", ok, func(f *fixture) error { return errors.Join(f.nic.NSInit(f.T), f.nic.NSInit(f.T)) })
	for _, way := range names {
		onNIC(way.function, way.call)
		add(way.function, "before NSInit", vipl.ErrNameService, func(f *fixture) error { return way.call(f, f.nic) })
		add(way.function, "after NSInit", ok, func(f *fixture) error { f.must(f.nic.NSInit(f.T)); return way.call(f, f.nic) })
		add(way.function, "after NSShutdown", vipl.ErrNameService, func(f *fixture) error {
			f.must(f.nic.NSInit(f.T))
			f.must(f.nic.NSShutdown(f.T))
			return way.call(f, f.nic)
		})
	}
	for _, c := range []struct {
		when, name string
		index      int
		want       vipl.Status
	}{
		{"no such node", "node2", 0, vipl.ErrNameService}, {"NameIndex: 1", "node1", 1, vipl.ErrNameService},
		{"NameIndex: -1", "node1", -1, invalid}, {"Name: empty", "", 0, invalid}, {"its own name", "node0", 0, ok},
	} {
		add("NSGetHostByName", c.when, c.want, func(f *fixture) error {
			f.must(f.nic.NSInit(f.T))
			a, err := f.nic.NSGetHostByName(f.T, c.name, c.index)
			if err == nil && a != (vipl.At(0, "")) {
				err = fmt.Errorf("its address is %v", a)
			}
			return err
		})
	}
	add("NSGetHostByAddr", "no such node", vipl.ErrNameService, func(f *fixture) error {
		f.must(f.nic.NSInit(f.T))
		_, err := f.nic.NSGetHostByAddr(f.T, vipl.At(2, ""))
		return err
	})
	add("NSGetHostByAddr", "with any discriminator", ok, func(f *fixture) error {
		f.must(f.nic.NSInit(f.T))
		name, err := f.nic.NSGetHostByAddr(f.T, f.here())
		f.That(name, name == "node0")
		return err
	})
	return rows
}

// deadTag returns a tag that was destroyed.
func (f *fixture) deadTag() vipl.Ptag {
	tag := errorOf(f.nic.CreatePtag(f.T))
	f.must(f.nic.DestroyPtag(f.T, tag))
	return tag
}

// try makes the call of a row, on a handle of its own.
func (f *fixture) try(r functionRow) (err error) {
	f.nic = errorOf(vipl.OpenNIC(f.T, f.H))
	defer func() {
		if p := recover(); p != nil {
			s, ok := p.(setup)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("before the call: %w", s.err)
		}
	}()
	got := r.call(f)
	if !has(got, r.want) {
		return fmt.Errorf("%s, want %v", Text(got), r.want)
	}
	return nil
}

// has says whether a call ended with a status.
func has(got error, s vipl.Status) bool {
	if got == nil {
		return s == vipl.Success
	}
	return errors.Is(got, s)
}

// functionPrograms plays rows, one after another.
func functionPrograms(d driver.Device, simulated bool, rows []functionRow) []fabric.Program {
	later := make(chan func(t *host.Thread), 1)
	return []fabric.Program{
		{Node: 0, Name: "calls", Main: func(t *host.Thread, h *driver.Host) error {
			nic, err := vipl.OpenNIC(t, h)
			if err != nil {
				return err
			}
			f := &fixture{Env: &Env{T: t, H: h, NIC: nic}, later: later}
			if f.buf, err = nic.Alloc(t, bufferBytes); err != nil {
				return err
			}
			for i, r := range rows {
				if r.device != "" && r.device != d || r.patient && simulated {
					continue
				}
				f.name = fmt.Sprintf("row %d", i)
				f.name = strings.ReplaceAll(f.name, " ", "-")
				clear(f.buf.Bytes())
				was := len(f.Fail)
				err := f.try(r)
				for j := range f.Fail[was:] {
					f.Fail[was+j] = fmt.Errorf("%s, %s: %w", r.function, r.when, f.Fail[was+j])
				}
				if err != nil {
					f.Fail = append(f.Fail, fmt.Errorf("%s, %s: %w", r.function, r.when, err))
				}
				// Whatever the row has left goes with its handle, and the partner is ready again.
				if err := f.nic.Close(t); err != nil {
					return fmt.Errorf("after %s, %s: %w", r.function, r.when, err)
				}
				f.partner("ready")
				if m, ok, err := t.Receive(10 * host.Second); err != nil || !ok || string(m.Data) != "ready" {
					return errors.Join(append(f.Fail, err, fmt.Errorf("after %s, %s: the partner is not ready", r.function, r.when))...)
				}
			}
			close(later)
			if err := errors.Join(t.Send(host.ThreadID{Node: 1, Rank: 1}, []byte("end")), t.Send(host.ThreadID{Node: 0, Rank: 2}, nil)); err != nil {
				return err
			}
			return errors.Join(f.Fail...)
		}},
		{Node: 0, Name: "does something meanwhile", Main: func(t *host.Thread, _ *driver.Host) error {
			for {
				if _, _, err := t.Receive(host.Never); err != nil {
					return err
				}
				do, open := <-later
				if !open {
					return nil
				}
				if err := t.Sleep(500 * host.Microsecond); err != nil {
					return err
				}
				do(t)
			}
		}},
		{Node: 1, Name: "partner", Main: func(t *host.Thread, h *driver.Host) error {
			nic, err := vipl.OpenNIC(t, h)
			if err != nil {
				return err
			}
			return functionPartner(&Env{T: t, H: h, NIC: nic})
		}},
	}
}
