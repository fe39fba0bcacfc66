// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/params"
	"hvia/sim"
)

// nicCosts are the costs of a kernel with those of this package's tests.
type nicCosts struct{ driver.NoCosts }

func (nicCosts) Kernel() driver.KernelCosts { return testCosts() }
func (nicCosts) Interrupt() driver.Time     { return 2 * driver.Microsecond }

// host is one with a plain NIC in the simulator, and with a kernel that has one protocol.
type host struct {
	nic      *driver.Ethernet
	words    *driver.Buffer
	protocol driver.Protocol
	stack    *Stack
	left     int // programs that have not ended
}

func (h *host) Address() driver.MAC { return h.nic.Address() }

func (h *host) Transmit(t *driver.Thread, head []byte, body []driver.Range, done func(*driver.Thread)) error {
	return h.nic.Transmit(t, head, body, done)
}

// Reschedule makes the agent look at the deadline again.
func (h *host) Reschedule(t *driver.Thread) error {
	w := h.words.Bytes() // that of rank 0, the agent's
	driver.StoreUint32(w, driver.LoadUint32(w)+1)
	return t.Publish(h.words.Physical(nil, 0, 4)...)
}

// serve is the agent of a host.
func (h *host) serve(t *driver.Thread) error {
	seen := uint32(0)
	for h.left > 0 {
		timeout := driver.Never
		if d := h.protocol.Deadline(); d != driver.Never {
			timeout = max(d-t.Now(), 0)
		}
		looks := 0
		if _, err := t.Poll(driver.Poll{Ranges: h.words.Physical(nil, 0, 4), Interrupt: true, Blocked: true, Timeout: timeout}, func() bool {
			looks++
			return looks > 1 || driver.LoadUint32(h.words.Bytes()) != seen
		}); err != nil {
			return err
		}
		seen = driver.LoadUint32(h.words.Bytes())
		if on, err := t.WaitInterrupt(0); err != nil {
			return err
		} else if on {
			if err := t.SpendInService(driver.LayerInterrupt, nicCosts{}.Interrupt()); err != nil {
				return err
			}
			if err := h.nic.Service(t, func(f []byte) error { return h.protocol.Frame(t, f) }); err != nil {
				return err
			}
		}
		if h.protocol.Deadline() <= t.Now() {
			if err := h.protocol.Timer(t); err != nil {
				return err
			}
		}
	}
	return h.nic.Stop(t)
}

// playOnNics is play on the simulator's plain NICs; it returns the run's digest.
func playOnNics(t *testing.T, params map[string]int64, programs ...program) string {
	t.Helper()
	simulator, err := sim.EchoSimulator(t.Context())
	require.NoError(t, err)
	cfg := sim.Config{
		Program: simulator, MemoryBytes: 16 << 20, Params: params,
		Nodes: []sim.Node{{Kind: "nic", Name: "a"}, {Kind: "nic", Name: "b"}},
	}
	hosts, ranks := [2]*host{{}, {}}, [2]int{}
	for node := range hosts {
		cfg.Threads = append(cfg.Threads, sim.Thread{Node: node, Rank: 0, Name: "agent"})
	}
	for i, p := range programs {
		ranks[p.node]++
		cfg.Threads = append(cfg.Threads, sim.Thread{Node: p.node, Rank: ranks[p.node], Name: fmt.Sprint(i)})
		hosts[p.node].left++
	}
	f, err := sim.Start(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	run := func(id driver.ThreadID, name string, body func(*driver.Thread) error) {
		th, err := driver.Attach(t.Context(), f.Conn(), id, name)
		require.NoError(t, err)
		all.Go(func() {
			err := errors.Join(body(th), th.Detach())
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	parties := 2 + len(programs)
	for node, h := range hosts {
		raw, err := f.Conn().Memory(node)
		require.NoError(t, err)
		m, err := driver.NewMemory(driver.MemoryConfig{Fd: raw.FD, Frames: raw.Frames, Use: raw, Seed: 1})
		require.NoError(t, err)
		defer m.Close()
		h.words, err = m.Allocate(driver.PageBytes, driver.Single)
		require.NoError(t, err)
		run(driver.ThreadID{Node: node}, "agent", func(th *driver.Thread) (err error) {
			if h.nic, err = driver.OpenEthernet(th, m, nicCosts{}); err != nil {
				return err
			}
			if err := h.nic.Start(th, driver.NodeMAC(node)); err != nil {
				return err
			}
			if h.stack, err = open(node, func(_ *driver.Thread, p driver.Protocol) (driver.Link, error) {
				h.protocol = p
				return h, nil
			}, th, h.words, testCosts(), Config{}); err != nil {
				return err
			}
			if err := th.Barrier(1, parties); err != nil {
				return err
			}
			return h.serve(th)
		})
	}
	clear(ranks[:])
	for i, p := range programs {
		h := hosts[p.node]
		ranks[p.node]++
		run(driver.ThreadID{Node: p.node, Rank: ranks[p.node]}, fmt.Sprint(i), func(th *driver.Thread) error {
			if err := th.Barrier(1, parties); err != nil {
				return err
			}
			err := p.main(th, h.stack)
			if h.left == 1 {
				err = errors.Join(err, h.stack.Close(th))
			}
			h.left--
			return errors.Join(err, h.Reschedule(th))
		})
	}
	all.Wait()
	require.NoError(t, failed)
	digest, err := f.Digest(t.Context())
	require.NoError(t, err)
	return fmt.Sprint(digest)
}

// Everything comes over the simulator's NICs and wire as well, with nothing
// sent again, and twice the same.
func TestOverPlainNics(t *testing.T) {
	for _, n := range []int{4, 64 << 10, 1 << 20} {
		var counted [2]Counters
		var end driver.Time
		work := transfer(t, pattern(1, n), pattern(2, n/2))
		for i := range work {
			main := work[i].main
			work[i].main = func(th *driver.Thread, s *Stack) error {
				err := main(th, s)
				counted[work[i].node], end = s.Counters(), th.Now()
				return err
			}
		}
		first := playOnNics(t, nil, work...)
		for _, c := range counted {
			assert.Zero(t, c.Retransmitted)
			assert.Zero(t, c.ChecksumErrors)
		}
		t.Logf("%d bytes: %v, %+v", n, end, counted)
		assert.Equal(t, first, playOnNics(t, nil, work...))
	}
}

// pingpong is a client that sends n bytes rounds times and gets them back; each sets the client's
// time for the last half of them.
func pingpong(n, rounds int, took *driver.Time) []program {
	turn := func(c *Conn, b []byte, first bool) error {
		if first {
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if !first {
			_, err := c.Write(b)
			return err
		}
		return nil
	}
	return []program{
		{0, func(th *driver.Thread, s *Stack) error {
			c, err := s.Dial(th, there(1), driver.Never)
			if err != nil {
				return err
			}
			b := make([]byte, n)
			began := driver.Time(0)
			for i := range 2 * rounds {
				if i == rounds {
					began = th.Now()
				}
				if err := turn(c, b, true); err != nil {
					return err
				}
			}
			*took = (th.Now() - began) / driver.Time(2*rounds)
			return c.Close()
		}},
		{1, func(th *driver.Thread, s *Stack) error {
			c, err := accept(th, s)
			if err != nil {
				return err
			}
			b := make([]byte, n)
			for range 2 * rounds {
				if err := turn(c, b, false); err != nil {
					return err
				}
			}
			_, err = c.Read(b[:1])
			if err != io.EOF {
				return fmt.Errorf("after the last round: %w", err)
			}
			return c.Close()
		}},
	}
}

// Half a round trip of 4 bytes is the sum of what lies on its way, and a few us of buses and wire;
// 64 KiB go as fast as a host can receive segments.
func TestPingPongOverPlainNics(t *testing.T) {
	c := testCosts()
	half := map[int]driver.Time{}
	for _, n := range []int{4, 64, 1024, 4096, 16 << 10, 64 << 10} {
		var took driver.Time
		playOnNics(t, nil, pingpong(n, 10, &took)...)
		t.Logf("%d bytes: %v, %.1f MB/s", n, took, float64(n)/float64(took)*1e6)
		half[n] = took
	}
	way := c.Trap + c.Copy(4) + c.SendPacket + params.NicTransmitTime*driver.Picosecond + params.NicReceiveTime*driver.Picosecond +
		nicCosts{}.Interrupt() + c.Tcp.ReceivePacket + c.Tcp.Wake + c.Switch + c.Copy(4)
	assert.Greater(t, half[4], way)
	assert.Less(t, half[4], way+5*driver.Microsecond)
	// The receiver's work for a segment: interrupt, packet, acknowledgement, copy.
	work := nicCosts{}.Interrupt() + c.Tcp.ReceivePacket + c.SendPacket + c.Copy(segment)
	assert.InEpsilon(t, float64(work), float64(half[64<<10]-half[16<<10])/float64((48<<10)/segment), 0.15)
}
