// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

func init() {
	Scenarios = append(Scenarios,
		Scenario{Name: "peers", client: peerProgram(0), server: peerProgram(1)},
		Scenario{Name: "attributes of memory change", client: changeClient, server: changeServer},
		Scenario{Name: "attributes of memory change under writes", client: changeUnderWritesClient, server: changeUnderWritesServer},
	)
}

// peerProgram connects to the other node's program several times, and in each
// round one of them is late. Each writes to the other's advertised memory at
// once, then sends.
func peerProgram(node int) Main {
	return func(e *Env) error {
		p := must(e.Prepare(Writable))
		e.Is("offer", p.VI.Offer(e.T, p.Mem), nil)
		addresses := [2]vipl.NetAddress{vipl.At(0, "a"), vipl.At(1, "b")}
		for round := range 6 {
			// Receives posted on an idle VI serve the next connection.
			d := must(p.Receive(0, 64))
			if late := (round + node) % 3; late > 0 {
				check(e.T.Sleep(host.Time(late*round) * 300 * host.Microsecond))
			}
			check(p.VI.ConnectPeerRequest(e.T, addresses[node], addresses[1-node], host.Second))
			theirs, err := p.VI.ConnectPeerWait(e.T)
			Step(err, "round %d", round)
			p.InState("after the wait", vipl.Connected)
			again, err := p.VI.ConnectPeerDone(e.T)
			e.Is("done after the wait", err, nil)
			e.That(fmt.Sprintf("attributes %+v, then %+v", theirs, again), theirs == again && theirs.EnableRDMAWrite)
			regions := p.VI.RemoteRegions()
			if len(regions) != 1 {
				return fmt.Errorf("round %d: the peer offers %+v", round, regions)
			}
			copy(p.Mem.Bytes()[1000:], Pattern(100, round+10*node))
			must(p.Write(1000, 100, Remote{regions[0].Address, regions[0].Handle}, 2000))
			s := must(p.Send(1000, 50))
			// The peer may not know of the connection yet. At this level the
			// card drops frames that arrive before.
			p.Take("of the peer", d, Received(50))
			e.That(fmt.Sprintf("round %d: what the peer sent", round), bytes.Equal(p.Mem.Bytes()[:50], Pattern(100, round+10*(1-node))[:50]))
			e.That(fmt.Sprintf("round %d: what the peer wrote", round), bytes.Equal(p.Mem.Bytes()[2000:2100], Pattern(100, round+10*(1-node))))
			for range 2 {
				must(p.VI.SendWait(e.T, host.Second))
			}
			e.That("the send is complete", s.Status()&vipl.DescriptorDone != 0)
			check(p.Settled(1 - node))
			// One side leaves, and the other notices.
			if node != round%2 {
				for range Attempts {
					if i, err := p.VI.Query(e.T); err != nil || i.State == vipl.ErrorState {
						break
					}
					check(e.T.Sleep(100 * host.Microsecond))
				}
				p.InState("the peer left", vipl.ErrorState)
			}
			e.Is("disconnect", p.VI.Disconnect(e.T), nil)
			check(p.Settled(1 - node))
		}
		return nil
	}
}

// step sends a word to the other side; the attribute scenarios use it to
// alternate.
func (p *Peer) step(node int, what string) error {
	return p.T.Send(host.ThreadID{Node: node, Rank: 1}, []byte(what))
}

func (p *Peer) awaits(what string) error {
	m, ok, err := p.T.Receive(5 * host.Second)
	if err == nil && (!ok || string(m.Data) != what) {
		err = fmt.Errorf("got message '%s', want '%s'", m.Data, what)
	}
	return err
}

// changes are attributes of a write's target, and the outcome of the write.
var changes = []struct {
	name    string
	write   bool
	foreign bool
	lands   bool
}{
	{"as registered", true, false, true},
	{"without the right", false, false, false},
	{"with it again", true, false, true},
	{"with another tag", true, true, false},
	{"with its own tag", true, false, true},
}

func changeClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	for i := range changes {
		check(p.awaits("changed"))
		copy(p.Mem.Bytes(), Pattern(9000, i))
		must(p.Write(0, 9000, to, 4090))
		must(p.VI.SendWait(e.T, host.Second))
		check(errors.Join(e.T.Sleep(host.Millisecond), p.step(1, "written")))
	}
	return p.Settled(1)
}

func changeServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	tag := must(e.NIC.CreatePtag(e.T))
	for i, c := range changes {
		a := vipl.MemAttributes{EnableRDMAWrite: c.write}
		if c.foreign {
			a.Ptag = tag
		}
		check(e.NIC.SetMemAttributes(e.T, p.Mem.Address(), p.Mem.Handle(), a))
		clear(p.Mem.Bytes())
		check(errors.Join(p.step(0, "changed"), p.awaits("written")))
		want := make([]byte, 9000)
		if c.lands {
			want = Pattern(9000, i)
		}
		e.That(c.name, bytes.Equal(p.Mem.Bytes()[4090:13090], want))
		got, err := e.NIC.ErrorWait(e.T, 0)
		if c.lands {
			e.Is(c.name, err, vipl.ErrTimeout)
		} else {
			e.Is(c.name, err, nil)
			e.That(fmt.Sprintf("%s: error %v", c.name, got.Code), got.Code == layout.AsyncErrorRDMAWriteProtection)
		}
	}
	check(p.Settled(0))
	// Attributes of the region that holds a posted descriptor can change: the
	// card has already fetched the descriptor, and the kernel of M-VIA reads it
	// only when a message arrives. Disconnect then completes it as flushed.
	d := must(p.Receive(0, 64))
	check(e.T.Sleep(host.Millisecond))
	e.Is("of a descriptor", e.NIC.SetMemAttributes(e.T, p.descriptors.Address(), p.descriptors.Handle(), vipl.MemAttributes{EnableRDMAWrite: true}), nil)
	e.Is("disconnect", p.VI.Disconnect(e.T), nil)
	got, err := p.VI.RecvDone(e.T)
	e.That("the descriptor comes back", got == d)
	e.Flushed("the descriptor", got, err)
	return nil
}

// The client writes while the server switches the attributes of the target.
// Each write lands completely or not at all.
const (
	changesUnderWrites = 40
	writesUnderChanges = 400
)

func changeUnderWritesClient(e *Env) error {
	p := must(e.Dial(1, Writable))
	to := must(p.Hear())
	for i := range writesUnderChanges {
		copy(p.Mem.Bytes(), bytes.Repeat([]byte{byte(i%250 + 1)}, 16))
		must(p.Write(0, 16, to, 16*(i%100)))
		must(p.VI.SendWait(e.T, host.Second))
	}
	check(errors.Join(p.step(1, "written"), p.awaits("changed")))
	// The last write uses the initial attributes.
	copy(p.Mem.Bytes(), Pattern(16, 1))
	must(p.Write(0, 16, to, 16*100))
	_, err := p.VI.SendWait(e.T, host.Second)
	return errors.Join(err, p.Settled(1))
}

func changeUnderWritesServer(e *Env) error {
	p := must(e.Serve(Writable))
	check(p.Tell(0))
	for i := range changesUnderWrites {
		Step(e.NIC.SetMemAttributes(e.T, p.Mem.Address(), p.Mem.Handle(), vipl.MemAttributes{EnableRDMAWrite: i%2 == 1}), "change %d", i)
		check(e.T.Sleep(host.Time(7+i) * host.Microsecond))
	}
	check(errors.Join(p.awaits("written"), p.step(0, "changed")))
	b := p.Mem.Bytes()
	check(p.Mem.Poll(e.T, 16*100+15, 1, host.Second, func() bool { return b[16*100+15] == Pattern(16, 1)[15] }))
	e.That("the last write", bytes.Equal(b[16*100:16*101], Pattern(16, 1)))
	landed := 0
	for i := range 100 {
		word := b[16*i : 16*(i+1)]
		e.That(fmt.Sprintf("word %d is complete: %x", i, word), bytes.Equal(word, bytes.Repeat(word[:1], 16)))
		if word[0] != 0 {
			landed++
		}
	}
	rejected := 0
	for {
		got, err := e.NIC.ErrorWait(e.T, 0)
		if errors.Is(err, vipl.ErrTimeout) {
			break
		}
		if err != nil {
			return err
		}
		rejected++
		e.That(fmt.Sprintf("error %v", got.Code), got.Code == layout.AsyncErrorRDMAWriteProtection || got.Code == layout.AsyncErrorOverflow)
	}
	e.That(fmt.Sprintf("%d words landed, %d writes were rejected", landed, rejected), landed > 0 && rejected > 0)
	e.That("nothing is behind them", bytes.Equal(b[16*101:], make([]byte, len(b)-16*101)))
	p.InState("after all", vipl.Connected)
	return p.Settled(0)
}
