// SPDX-License-Identifier: Apache-2.0

package card_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"hvia/driver"
	"hvia/driver/card"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
)

// lan is two hosts with plain NICs and a wire.
type lan struct {
	fabric *sim.Fabric
	ctx    context.Context
	cancel context.CancelFunc
	memory [2]*mem.Memory
	nic    [2]*card.Ethernet
}

// startLan starts two nodes with the given number of threads each. Rank 0 is
// the agent: it opens the NIC and serves its interrupts.
func startLan(t *testing.T, mode sim.Mode, ranks int, values map[string]int64) *lan {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	program, err := sim.EchoSimulator(ctx)
	require.NoError(t, err)
	cfg := sim.Config{
		Program: program, Mode: mode, MemoryBytes: 16 << 20, Params: values,
		Nodes: []sim.Node{{Kind: "nic", Name: "a"}, {Kind: "nic", Name: "b"}},
	}
	for node := range 2 {
		for rank := range ranks {
			cfg.Threads = append(cfg.Threads, sim.Thread{Node: node, Rank: rank, Name: fmt.Sprintf("t%d%d", node, rank)})
		}
	}
	f, err := sim.Start(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	l := &lan{fabric: f, ctx: ctx, cancel: cancel}
	for i := range l.memory {
		m, err := f.Conn().Memory(i)
		require.NoError(t, err)
		l.memory[i], err = mem.New(mem.Config{Fd: m.FD, Frames: m.Frames, Use: m, Seed: 1})
		require.NoError(t, err)
		t.Cleanup(l.memory[i].Close)
	}
	return l
}

func (l *lan) run(t *testing.T, bodies map[host.ThreadID]func(t *host.Thread) error) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for id, body := range bodies {
		thread, err := host.Attach(l.ctx, l.fabric.Conn(), id, fmt.Sprintf("t%d%d", id.Node, id.Rank))
		require.NoError(t, err)
		wg.Go(func() {
			err := body(thread)
			if err == nil {
				err = thread.Detach()
			}
			mu.Lock()
			defer mu.Unlock()
			if failed = append(failed, err); err != nil {
				l.cancel() // the others may wait for this one
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(failed...))
}

func header(from, to int) []byte {
	a, b := driver.NodeMAC(to), driver.NodeMAC(from)
	return append(append(append([]byte(nil), a[:]...), b[:]...), 0x88, 0xb5)
}

// slow has the cost of a kernel's packet.
var slow = host.CostModel{Kernel: host.KernelCosts{SendPacket: 3 * host.Microsecond}}

func (l *lan) open(t *host.Thread, costs host.CostModel) (*card.Ethernet, error) {
	node := t.ID().Node
	e, err := card.OpenEthernet(t, l.memory[node], costs)
	if err != nil {
		return nil, err
	}
	l.nic[node] = e
	return e, e.Start(t, driver.NodeMAC(node))
}

// patience is simulated time, or wall time on a busy machine.
const patience = 20 * host.Second

// collect serves interrupts until the given number of frames have come.
func collect(t *host.Thread, e *card.Ethernet, frames int, take func(frame []byte) error) error {
	for got := 0; got < frames; {
		ok, err := t.WaitInterrupt(patience)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%d of %d frames came", got, frames)
		}
		if err := e.Service(t, func(frame []byte) error {
			got++
			return take(frame)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Frames of all shapes, from two threads of one node to the other: contents,
// order of each thread's frames, done for each, and time for each.
func TestEthernetFrames(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Timed, sim.Free} {
		t.Run(string(mode), func(t *testing.T) { ethernetFrames(t, mode) })
	}
}

const (
	frameSenders = 2 // threads of node 0
	senderFrames = 400
)

// frameTraffic is the state of ethernetFrames.
type frameTraffic struct {
	*lan
	mode sim.Mode
	mu   sync.Mutex
	done int          // frames read by the NIC
	next map[byte]int // frames received, by sender
}

func ethernetFrames(t *testing.T, mode sim.Mode) {
	x := &frameTraffic{lan: startLan(t, mode, 1+frameSenders, nil), mode: mode, next: map[byte]int{}}
	idle := func(t *host.Thread) error { return errors.Join(x.begin(t), x.end(t)) }
	x.run(t, map[host.ThreadID]func(t *host.Thread) error{
		{Node: 0, Rank: 0}: x.reap, {Node: 0, Rank: 1}: x.send, {Node: 0, Rank: 2}: x.send,
		{Node: 1, Rank: 0}: x.receive, {Node: 1, Rank: 1}: idle, {Node: 1, Rank: 2}: idle,
	})
	require.Equal(t, map[byte]int{1: senderFrames, 2: senderFrames}, x.next)
}

func (x *frameTraffic) begin(t *host.Thread) error { return t.Barrier(1, 2+2*frameSenders) }
func (x *frameTraffic) end(t *host.Thread) error   { return t.Barrier(2, 2+2*frameSenders) }

// senderBytes is the contents of a sender's buffer, and its later choices.
func senderBytes(sender byte) ([]byte, *rand.Rand) {
	random := rand.New(rand.NewPCG(uint64(sender), 7))
	b := make([]byte, 8*mem.PageBytes)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b, random
}

func (x *frameTraffic) send(t *host.Thread) error {
	if err := x.begin(t); err != nil {
		return err
	}
	e, m, sender := x.nic[0], x.memory[0], byte(t.ID().Rank)
	content, random := senderBytes(sender)
	b, err := m.Allocate(len(content), mem.Single)
	if err != nil {
		return err
	}
	if _, err := m.Pin(bridge.UseRegion, b.Address(), uint64(b.Len())); err != nil {
		return err
	}
	copy(b.Bytes(), content)
	for i := range senderFrames {
		// Sender, number, length of the payload, its offset in the buffer.
		length, at := random.IntN(1514-14-8+1), random.IntN(6*mem.PageBytes)
		// In free mode the NICs are as fast as the simulator, but the receiver
		// is not: its ring holds 255 frames.
		for behind := true; x.mode == sim.Free && behind; {
			x.mu.Lock()
			behind = i-x.next[sender] > 100
			x.mu.Unlock()
			if err := t.Sleep(0); err != nil {
				return err
			}
		}
		head := append(header(0, 1), sender, byte(i>>8), byte(i), byte(length>>8), byte(length), byte(at>>16), byte(at>>8), byte(at))
		cut := random.IntN(length + 1)
		body := b.Physical(nil, at, length)
		if i%3 == 0 { // part of it in the head
			head, body = append(head, content[at:at+cut]...), b.Physical(nil, at+cut, length-cut)
		}
		if err := e.Transmit(t, head, body, func(*host.Thread) { x.mu.Lock(); x.done++; x.mu.Unlock() }); err != nil {
			return err
		}
	}
	if x.mode == sim.Timed {
		if got := t.Spent()[host.LayerProtocol]; got != senderFrames*3*host.Microsecond {
			return fmt.Errorf("%v spent on %d frames", got, senderFrames)
		}
	}
	return x.end(t)
}

// reap waits until the NIC has read all frames.
func (x *frameTraffic) reap(t *host.Thread) error {
	const all = frameSenders * senderFrames
	e, err := x.open(t, slow)
	if err != nil {
		return err
	}
	if err := errors.Join(x.begin(t), x.end(t)); err != nil {
		return err
	}
	left := t.Countdown(patience)
	for {
		if err := e.Reap(t); err != nil {
			return err
		}
		x.mu.Lock()
		done := x.done
		x.mu.Unlock()
		if done == all {
			break
		}
		if left() <= 0 {
			return fmt.Errorf("%d of %d frames were read", done, all)
		}
		if err := t.Sleep(10 * host.Microsecond); err != nil {
			return err
		}
	}
	n, err := e.Counter(t, layout.NICCounterTransmit)
	if err != nil || n != all {
		return fmt.Errorf("the NIC has sent %d frames (%w)", n, err)
	}
	return e.Stop(t)
}

func (x *frameTraffic) receive(t *host.Thread) error {
	e, err := x.open(t, host.CostModel{})
	if err != nil {
		return err
	}
	if err := x.begin(t); err != nil {
		return err
	}
	var buffers [1 + frameSenders][]byte
	for sender := range buffers {
		buffers[sender], _ = senderBytes(byte(sender))
	}
	if err := collect(t, e, frameSenders*senderFrames, func(frame []byte) error {
		sender, i, length := frame[14], int(frame[15])<<8|int(frame[16]), int(frame[17])<<8|int(frame[18])
		at := int(frame[19])<<16 | int(frame[20])<<8 | int(frame[21])
		want := max(22+length, layout.MinFrame)
		if i != x.next[sender] || len(frame) != want || !bytes.Equal(frame[22:22+length], buffers[sender][at:at+length]) {
			return fmt.Errorf("frame %d of sender %d with %d bytes (want frame %d, %d bytes): other content", i, sender, len(frame), x.next[sender], want)
		}
		x.mu.Lock()
		x.next[sender]++
		x.mu.Unlock()
		return nil
	}); err != nil {
		return err
	}
	if n := e.ReceiveErrors(); n != 0 {
		return fmt.Errorf("%d receive errors", n)
	}
	return errors.Join(x.end(t), e.Stop(t))
}

// An invalid frame is rejected, and nothing of it enters the ring.
func TestEthernetRefuses(t *testing.T) {
	l := startLan(t, sim.Timed, 1, nil)
	l.run(t, map[host.ThreadID]func(t *host.Thread) error{
		{Node: 1}: (*host.Thread).Begin,
		{Node: 0}: func(t *host.Thread) error {
			e, err := card.OpenEthernet(t, l.memory[0], slow)
			if err != nil {
				return err
			}
			if err := e.Transmit(t, header(0, 1), nil, nil); !errors.Is(err, card.ErrState) {
				return fmt.Errorf("before Start: %w", err)
			}
			if err := e.Start(t, driver.NodeMAC(0)); err != nil {
				return err
			}
			if err := e.Start(t, driver.NodeMAC(0)); !errors.Is(err, card.ErrState) {
				return fmt.Errorf("second Start: %w", err)
			}
			spent := t.Spent()
			many := make([]mem.Range, 256)
			for i := range many {
				many[i] = mem.Range{Address: uint32(i), Length: 1}
			}
			for _, c := range []struct {
				head []byte
				body []mem.Range
			}{
				{make([]byte, 13), nil}, {make([]byte, 1515), nil}, {make([]byte, 14), []mem.Range{{Address: 4096, Length: 1501}}},
				{make([]byte, 14), []mem.Range{{Address: 4096, Length: 0xffffffff}, {Address: 4096, Length: 0xffffffff}}}, {make([]byte, 14), many},
			} {
				if err := e.Transmit(t, c.head, c.body, nil); !errors.Is(err, host.ErrInvalidParameter) {
					return fmt.Errorf("head of %d bytes, %d ranges: %w", len(c.head), len(c.body), err)
				}
			}
			if t.Spent() != spent {
				return fmt.Errorf("spent %v for nothing", t.Spent().Less(spent))
			}
			// No target answers there: the frame completes with an error.
			if err := e.Transmit(t, header(0, 1), []mem.Range{{Address: layout.PciMemorySize, Length: 100}}, nil); err != nil {
				return err
			}
			if err := t.Sleep(host.Millisecond); err != nil {
				return err
			}
			if err := e.Reap(t); !errors.Is(err, card.ErrCommand) {
				return fmt.Errorf("a frame that is not in memory: %w", err)
			}
			if err := e.Service(t, nil); !errors.Is(err, card.ErrCommand) {
				return fmt.Errorf("the bus error: %w", err)
			}
			return e.Stop(t)
		},
	})
}

// A NIC that reads nothing is detected, and Stop completes the frames in the
// ring.
func TestEthernetDeadNIC(t *testing.T) {
	l := startLan(t, sim.Timed, 1, nil)
	l.run(t, map[host.ThreadID]func(t *host.Thread) error{
		{Node: 1}: (*host.Thread).Begin,
		{Node: 0}: func(t *host.Thread) error {
			e, err := l.open(t, host.CostModel{})
			if err != nil {
				return err
			}
			if err := t.Write(layout.PciBar0Base+layout.RegisterControlOffset, 0); err != nil {
				return err
			}
			done := 0
			for range 255 {
				if err := e.Transmit(t, header(0, 1), nil, func(*host.Thread) { done++ }); err != nil {
					return err
				}
			}
			before := t.Now()
			if err := e.Transmit(t, header(0, 1), nil, nil); !errors.Is(err, card.ErrDeadline) || t.Now()-before < 100*host.Millisecond {
				return fmt.Errorf("the ring is full: %w after %v", err, t.Now()-before)
			}
			if done != 0 {
				return fmt.Errorf("%d frames done", done)
			}
			if err := e.Stop(t); err != nil {
				return err
			}
			if done != 255 {
				return fmt.Errorf("%d of 255 done after Stop", done)
			}
			return nil
		},
	})
}

// A range may cross consecutive pages in memory: the NIC gets separate pieces.
func TestEthernetPages(t *testing.T) {
	l := startLan(t, sim.Timed, 1, nil)
	content := make([]byte, 1500)
	for i := range content {
		content[i] = byte(i * 7)
	}
	l.run(t, map[host.ThreadID]func(t *host.Thread) error{
		{Node: 0}: func(t *host.Thread) error {
			e, err := l.open(t, host.CostModel{})
			if err != nil {
				return err
			}
			b, err := l.memory[0].Allocate(4*mem.PageBytes, mem.Runs)
			if err != nil {
				return err
			}
			if _, err := l.memory[0].Pin(bridge.UseRegion, b.Address(), uint64(b.Len())); err != nil {
				return err
			}
			at := 2*mem.PageBytes - 1
			copy(b.Bytes()[at:], content)
			whole := mem.Range{Address: b.Physical(nil, at, 1)[0].Address, Length: uint32(len(content))}
			if err := errors.Join(t.Barrier(1, 2), e.Transmit(t, header(0, 1), []mem.Range{whole}, nil)); err != nil {
				return err
			}
			return errors.Join(t.Barrier(2, 2), e.Reap(t), e.Stop(t))
		},
		{Node: 1}: func(t *host.Thread) error {
			e, err := l.open(t, host.CostModel{})
			if err != nil {
				return err
			}
			if err := t.Barrier(1, 2); err != nil {
				return err
			}
			err = collect(t, e, 1, func(frame []byte) error {
				if !bytes.Equal(content, frame[14:]) {
					return fmt.Errorf("%d bytes: other content", len(frame))
				}
				return nil
			})
			return errors.Join(err, t.Barrier(2, 2), e.Stop(t))
		},
	})
}

// A receiver that does not poll loses only what exceeds its ring: neither
// earlier frames nor those that arrive after its next poll.
func TestEthernetFullRing(t *testing.T) {
	const buffers = 255
	groups := []int{20, 300, 255, 40} // frames that arrive before the receiver polls
	l := startLan(t, sim.Timed, 1, nil)
	l.run(t, map[host.ThreadID]func(t *host.Thread) error{
		{Node: 0}: func(t *host.Thread) error {
			e, err := l.open(t, host.CostModel{})
			if err != nil {
				return err
			}
			number := 0
			for i, frames := range groups {
				if err := t.Barrier(uint64(10+i), 2); err != nil {
					return err
				}
				for range frames {
					if err := e.Transmit(t, append(header(0, 1), byte(number>>8), byte(number)), nil, nil); err != nil {
						return err
					}
					number++
				}
				if err := errors.Join(t.Sleep(10*host.Millisecond), t.Barrier(uint64(20+i), 2)); err != nil {
					return err
				}
			}
			return e.Stop(t)
		},
		{Node: 1}: func(t *host.Thread) error {
			e, err := l.open(t, host.CostModel{})
			if err != nil {
				return err
			}
			first, dropped := 0, 0
			for i, frames := range groups {
				if err := errors.Join(t.Barrier(uint64(10+i), 2), t.Barrier(uint64(20+i), 2)); err != nil {
					return err
				}
				number := first
				if err := collect(t, e, min(frames, buffers), func(frame []byte) error {
					if got := int(frame[14])<<8 | int(frame[15]); got != number {
						return fmt.Errorf("frame %d, want %d", got, number)
					}
					number++
					return nil
				}); err != nil {
					return err
				}
				first, dropped = first+frames, dropped+max(0, frames-buffers)
				n, err := e.Counter(t, layout.NICCounterReceiveDropped)
				if err != nil || int(n) != dropped {
					return fmt.Errorf("after group %d %d frames were dropped, want %d (%w)", i, n, dropped, err)
				}
			}
			return e.Stop(t)
		},
	})
}

// A reply sent from the interrupt service does not wait for the interrupted
// program, and its work counts as the service's.
func TestEthernetAnswersInService(t *testing.T) {
	l := startLan(t, sim.Timed, 2, nil)
	l.run(t, map[host.ThreadID]func(t *host.Thread) error{
		{Node: 0, Rank: 0}: func(t *host.Thread) error {
			e, err := l.open(t, slow)
			if err != nil {
				return err
			}
			if err := errors.Join(t.Barrier(1, 3), e.Transmit(t, header(0, 1), nil, nil)); err != nil {
				return err
			}
			began := t.Now()
			err = collect(t, e, 1, func([]byte) error { return nil })
			if took := t.Now() - began; took > 100*host.Microsecond {
				return fmt.Errorf("the answer came after %v: it waited for the program", took)
			}
			return errors.Join(err, e.Stop(t))
		},
		{Node: 0, Rank: 1}: (*host.Thread).Begin,
		{Node: 1, Rank: 0}: func(t *host.Thread) error {
			e, err := l.open(t, slow)
			if err != nil {
				return err
			}
			if err := t.Barrier(1, 3); err != nil {
				return err
			}
			return collect(t, e, 1, func([]byte) error { return e.Transmit(t, header(1, 0), nil, nil) })
		},
		{Node: 1, Rank: 1}: func(t *host.Thread) error {
			return errors.Join(t.Barrier(1, 3), t.Charge(host.Millisecond))
		},
	})
}
