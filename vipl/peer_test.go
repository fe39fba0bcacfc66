// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"errors"
	"fmt"

	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

func init() {
	scenarios = append(scenarios,
		scenario{"peers", peerProgram(0), peerProgram(1)},
		scenario{"attributes of memory change", changeClient, changeServer},
		scenario{"attributes of memory change under writes", changeUnderWritesClient, changeUnderWritesServer},
	)
}

// peerProgram connects with the program of the other node again and again, each
// time one of them later than the other; each writes to the other's memory at once, by what
// it was offered, and sends.
func peerProgram(node int) main {
	return func(e *env) error {
		p, err := e.prepare(writable)
		if err != nil {
			return err
		}
		e.is("offer", p.vi.Offer(e.t, p.mem), nil)
		addresses := [2]vipl.NetAddress{{Host: vipl.HostAddress(0), Discriminator: "a"}, {Host: vipl.HostAddress(1), Discriminator: "b"}}
		for round := range 6 {
			// What is posted while the VI is idle serves the connection to come.
			d, err := p.receive(0, 64)
			if err != nil {
				return err
			}
			if late := (round + node) % 3; late > 0 {
				if err := e.t.Sleep(host.Time(late*round) * 300 * host.Microsecond); err != nil {
					return err
				}
			}
			if err := p.vi.ConnectPeerRequest(e.t, addresses[node], addresses[1-node], host.Second); err != nil {
				return err
			}
			theirs, err := p.vi.ConnectPeerWait(e.t)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			p.inState("after the wait", vipl.Connected)
			again, err := p.vi.ConnectPeerDone(e.t)
			e.is("done after the wait", err, nil)
			e.that(fmt.Sprintf("attributes %+v, then %+v", theirs, again), theirs == again && theirs.EnableRDMAWrite)
			regions := p.vi.RemoteRegions()
			if len(regions) != 1 {
				return fmt.Errorf("round %d: the peer offers %+v", round, regions)
			}
			copy(p.mem.Bytes()[1000:], pattern(100, round+10*node))
			if _, err := p.write(1000, 100, target{regions[0].Address, regions[0].Handle}, 2000); err != nil {
				return err
			}
			s, err := p.send(1000, 50)
			if err != nil {
				return err
			}
			// The peer may be about to learn of the connection: what comes before is lost at this level.
			p.take("of the peer", d, received(50))
			e.that(fmt.Sprintf("round %d: what the peer sent", round), bytes.Equal(p.mem.Bytes()[:50], pattern(100, round+10*(1-node))[:50]))
			e.that(fmt.Sprintf("round %d: what the peer wrote", round), bytes.Equal(p.mem.Bytes()[2000:2100], pattern(100, round+10*(1-node))))
			for range 2 {
				if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
					return err
				}
			}
			e.that("the send is complete", s.Status().Done())
			if err := p.settled(1 - node); err != nil {
				return err
			}
			// One side leaves and the other finds out.
			if node != round%2 {
				for range attempts {
					if i, err := p.vi.Query(e.t); err != nil || i.State == vipl.ErrorState {
						break
					}
					if err := e.t.Sleep(100 * host.Microsecond); err != nil {
						return err
					}
				}
				p.inState("the peer left", vipl.ErrorState)
			}
			e.is("disconnect", p.vi.Disconnect(e.t), nil)
			if err := p.settled(1 - node); err != nil {
				return err
			}
		}
		return nil
	}
}

// step is what client and server of the scenarios about attributes say to each other, in turns.
func (p *peer) step(node int, what string) error {
	return p.t.Send(host.ThreadID{Node: node, Rank: 1}, []byte(what))
}

func (p *peer) awaits(what string) error {
	m, ok, err := p.t.Receive(5 * host.Second)
	if err == nil && (!ok || string(m.Data) != what) {
		err = fmt.Errorf("got message '%s', want '%s'", m.Data, what)
	}
	return err
}

// changes are attributes of the target of a write, and what becomes of the write.
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

func changeClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	for i := range changes {
		if err := p.awaits("changed"); err != nil {
			return err
		}
		copy(p.mem.Bytes(), pattern(9000, i))
		if _, err := p.write(0, 9000, to, 4090); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
			return err
		}
		if err := errors.Join(e.t.Sleep(host.Millisecond), p.step(1, "written")); err != nil {
			return err
		}
	}
	return p.settled(1)
}

func changeServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	if err := p.tell(0); err != nil {
		return err
	}
	tag, err := e.nic.CreatePtag(e.t)
	if err != nil {
		return err
	}
	for i, c := range changes {
		a := vipl.MemAttributes{EnableRDMAWrite: c.write}
		if c.foreign {
			a.Ptag = tag
		}
		if err := p.mem.SetAttributes(e.t, a); err != nil {
			return err
		}
		clear(p.mem.Bytes())
		if err := errors.Join(p.step(0, "changed"), p.awaits("written")); err != nil {
			return err
		}
		want := make([]byte, 9000)
		if c.lands {
			want = pattern(9000, i)
		}
		e.that(c.name, bytes.Equal(p.mem.Bytes()[4090:13090], want))
		got, err := e.nic.NextError(e.t)
		if c.lands {
			e.is(c.name, err, vipl.ErrNotDone)
		} else {
			e.is(c.name, err, nil)
			e.that(fmt.Sprintf("%s: error %v", c.name, got.Code), got.Code == layout.AsyncErrorRDMAWriteProtection)
		}
	}
	if err := p.settled(0); err != nil {
		return err
	}
	// The memory of a descriptor that waits: the card has fetched it by the old entry,
	// and the kernel of M-VIA looks at it when a message comes.
	d, err := p.receive(0, 64)
	if err != nil {
		return err
	}
	if err := e.t.Sleep(host.Millisecond); err != nil {
		return err
	}
	e.is("of a descriptor", p.descriptors.SetAttributes(e.t, vipl.MemAttributes{EnableRDMAWrite: true}), nil)
	e.is("disconnect", p.vi.Disconnect(e.t), nil)
	got, err := p.vi.RecvDone(e.t)
	e.that("the descriptor comes back", got == d)
	e.flushed("the descriptor", got, err)
	return nil
}

// Writes go on while the attributes of their target change to and fro: each lands whole
// or not at all, and nothing else does.
const (
	changesUnderWrites = 40
	writesUnderChanges = 400
)

func changeUnderWritesClient(e *env) error {
	p, err := e.dial(1, writable)
	if err != nil {
		return err
	}
	to, err := p.hear()
	if err != nil {
		return err
	}
	for i := range writesUnderChanges {
		copy(p.mem.Bytes(), bytes.Repeat([]byte{byte(i%250 + 1)}, 16))
		if _, err := p.write(0, 16, to, 16*(i%100)); err != nil {
			return err
		}
		if _, err := p.vi.SendWait(e.t, host.Second); err != nil {
			return err
		}
	}
	if err := errors.Join(p.step(1, "written"), p.awaits("changed")); err != nil {
		return err
	}
	// The last one, with the attributes of the beginning.
	copy(p.mem.Bytes(), pattern(16, 1))
	if _, err := p.write(0, 16, to, 16*100); err != nil {
		return err
	}
	_, err = p.vi.SendWait(e.t, host.Second)
	return errors.Join(err, p.settled(1))
}

func changeUnderWritesServer(e *env) error {
	p, err := e.serve(writable)
	if err != nil {
		return err
	}
	if err := p.tell(0); err != nil {
		return err
	}
	for i := range changesUnderWrites {
		if err := p.mem.SetAttributes(e.t, vipl.MemAttributes{EnableRDMAWrite: i%2 == 1}); err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
		if err := e.t.Sleep(host.Time(7+i) * host.Microsecond); err != nil {
			return err
		}
	}
	if err := errors.Join(p.awaits("written"), p.step(0, "changed")); err != nil {
		return err
	}
	b := p.mem.Bytes()
	if err := p.mem.Poll(e.t, 16*100+15, 1, host.Second, func() bool { return b[16*100+15] == pattern(16, 1)[15] }); err != nil {
		return err
	}
	e.that("the last write", bytes.Equal(b[16*100:16*101], pattern(16, 1)))
	landed := 0
	for i := range 100 {
		word := b[16*i : 16*(i+1)]
		e.that(fmt.Sprintf("word %d is whole: %x", i, word), bytes.Equal(word, bytes.Repeat(word[:1], 16)))
		if word[0] != 0 {
			landed++
		}
	}
	refused := 0
	for {
		got, err := e.nic.NextError(e.t)
		if errors.Is(err, vipl.ErrNotDone) {
			break
		}
		if err != nil {
			return err
		}
		refused++
		e.that(fmt.Sprintf("error %v", got.Code), got.Code == layout.AsyncErrorRDMAWriteProtection || got.Code == layout.AsyncErrorOverflow)
	}
	e.that(fmt.Sprintf("%d words landed, %d writes were refused", landed, refused), landed > 0 && refused > 0)
	e.that("nothing is behind them", bytes.Equal(b[16*101:], make([]byte, len(b)-16*101)))
	p.inState("after all", vipl.Connected)
	return p.settled(0)
}
