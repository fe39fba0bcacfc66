// SPDX-License-Identifier: Apache-2.0

package vipl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/conformance"
	"hvia/conformance/conformtest"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/sim"
	"hvia/vipl"
)

// Sixteen threads of a host use one NIC handle in free mode, without turns.
// Each asks on its own VI, and takes entries of any VI from the two shared
// completion queues. Nothing is lost, duplicated or out of order.
const (
	crowd       = 16
	crowdWindow = 8
)

func TestManyThreadsOfOneNIC(t *testing.T) {
	conformtest.NeedsSimulator(t)
	questions := 40 // of each thread; a question is four posts and four reaped descriptors
	if os.Getenv("HVIA_LONG") == "1" {
		questions = 100_000/8/crowd + 1
	}
	sides := [2]*crowdSide{{node: 0, questions: questions, ready: make(chan struct{})}, {node: 1, questions: questions, ready: make(chan struct{})}}
	var list []fabric.Program
	for node, s := range sides {
		for i := range crowd {
			list = append(list, conformance.Program(node, "", func(e *conformance.Env) error { return s.run(e.T, e.H, i) }))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	start := time.Now()
	require.NoError(t, fabric.Run(ctx, fabric.RunConfig{Seed: conformtest.Seed(t), Fabric: sim.Config{Mode: sim.Free}}, list...))
	t.Logf("%d operations in %v", 8*questions*crowd, time.Since(start).Round(time.Millisecond))
}

type crowdSide struct {
	node, questions int
	ready           chan struct{} // closed when nic and queues exist, or failed is set
	nic             *vipl.NIC
	send, receive   *vipl.CQ
	failed          error
	members         sync.Map // *vipl.VI to *member
	over            atomic.Int32
}

// member is a VI with its counts.
type member struct {
	mu             sync.Mutex
	v              *vipl.VI
	mem            *vipl.Region
	sent, answered int // questions or answers
	taken          int // reaped send descriptors
	free           []*vipl.Descriptor
}

func (s *crowdSide) open(t *host.Thread, h *driver.Host) (err error) {
	if s.nic, err = vipl.OpenNIC(t, h); err != nil {
		return err
	}
	if s.send, err = s.nic.CreateCQ(t, 4*crowd*crowdWindow); err != nil {
		return err
	}
	s.receive, err = s.nic.CreateCQ(t, 4*crowd*crowdWindow)
	return err
}

const crowdSlot = 256 // of a message: descriptors of its receive and send, then their bytes

func (s *crowdSide) run(t *host.Thread, h *driver.Host, i int) error {
	if i == 0 {
		s.failed = s.open(t, h)
		close(s.ready)
	}
	<-s.ready
	if s.failed != nil {
		return s.failed
	}
	v := must(s.nic.CreateVI(t, vipl.VIAttributes{ReliabilityLevel: vipl.ReliableReception, SendCQ: s.send, RecvCQ: s.receive}))
	b := must(s.nic.Alloc(t, 4*crowdWindow*crowdSlot))
	m := &member{v: v}
	m.mem = must(s.nic.RegisterBuffer(t, b, vipl.MemAttributes{}))
	s.members.Store(v, m)
	for k := range 2 * crowdWindow {
		check(m.prepare(t, k))
		d := must(m.mem.Descriptor((2*crowdWindow+k)*crowdSlot, 1))
		m.free = append(m.free, d)
	}
	name := fmt.Sprintf("pair %d", i)
	// Both sides ask: neither has to be there first.
	there := vipl.At(1-s.node, name)
	check(v.ConnectPeerRequest(t, vipl.NetAddress{Discriminator: name}, there, 30*host.Second))
	must(v.ConnectPeerWait(t))
	counted := false
	for int(s.over.Load()) < crowd {
		if s.node == 0 {
			check(m.ask(t, s.questions))
		}
		check(s.serve(t))
		m.mu.Lock()
		if !counted && m.answered == s.questions && m.sent == s.questions && m.taken == s.questions {
			counted = true
			s.over.Add(1)
		}
		m.mu.Unlock()
	}
	_, err := v.SendDone(t)
	if !errors.Is(err, vipl.ErrDescriptor) {
		return fmt.Errorf("%s: something is left on the send queue: %w", name, err)
	}
	return nil
}

func (m *member) prepare(t *host.Thread, k int) error {
	d := must(m.mem.Descriptor(k*crowdSlot, 1))
	return errors.Join(d.SetReceive(m.mem.Segment(k*crowdSlot+128, 64)), m.v.PostRecv(t, d))
}

// ask posts a question if the window is open.
func (m *member) ask(t *host.Thread, limit int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sent == limit || m.sent-m.answered == crowdWindow {
		return nil
	}
	return m.say(t)
}

// say posts message number m.sent. The mutex is held.
func (m *member) say(t *host.Thread) error {
	if len(m.free) == 0 {
		return errors.New("more sends are in flight than the window allows")
	}
	d := m.free[0]
	m.free = m.free[1:]
	at := int(d.Address-m.mem.Address()) + 128
	copy(m.mem.Bytes()[at:], conformance.Pattern(64, m.sent))
	m.sent++
	return errors.Join(d.SetSend(m.mem.Segment(at, 64)), m.v.PostSend(t, d))
}

// serve waits for a receive and reaps it, and reaps a completed send. It waits
// and does not poll: the simulator needs the processor, too.
func (s *crowdSide) serve(t *host.Thread) error {
	for _, c := range []*vipl.CQ{s.receive, s.send} {
		var got vipl.Completion
		var err error
		if c == s.receive {
			got, err = c.Wait(t, host.Millisecond)
		} else {
			got, err = c.Done(t)
		}
		if errors.Is(err, vipl.ErrNotDone) || errors.Is(err, vipl.ErrTimeout) {
			continue
		}
		if err != nil {
			return err
		}
		x, _ := s.members.Load(got.VI)
		m, ok := x.(*member)
		if !ok || got.Receive != (c == s.receive) {
			return fmt.Errorf("an entry of VI %d, of the receive queue: %v", got.VI.Index(), got.Receive)
		}
		conformance.Step(s.take(t, m, got.Receive), "VI %d", got.VI.Index())
	}
	return nil
}

func (s *crowdSide) take(t *host.Thread, m *member, receive bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !receive {
		d := must(m.v.SendDone(t))
		m.taken++
		m.free = append(m.free, d)
		return nil
	}
	d, err := m.v.RecvDone(t)
	if m.answered == s.questions && d != nil && d.Status()&vipl.Flushed != 0 {
		return nil // the peer has all its answers, and has gone
	}
	if err != nil {
		return err
	}
	at := int(d.Address - m.mem.Address())
	if got := m.mem.Bytes()[at+128 : at+192]; d.Length() != 64 || !bytes.Equal(got, conformance.Pattern(64, m.answered)) {
		return fmt.Errorf("message %d is %x", m.answered, got)
	}
	m.answered++
	check(m.prepare(t, at/crowdSlot))
	if s.node == 1 {
		return m.say(t)
	}
	return nil
}
