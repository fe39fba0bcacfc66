// SPDX-License-Identifier: Apache-2.0

package tcpip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"hvia/driver"
	"hvia/host"
	"hvia/host/mem"
)

// Congestion controls that the stack has.
const (
	Reno  = "reno"
	Cubic = "cubic"
)

// Config configures a stack. The zero value of a field takes the default.
type Config struct {
	Seed uint64 // of initial sequence numbers, ports and secrets: 1
	// SendBuffer and ReceiveBuffer are the fixed sizes in bytes of a
	// connection's buffers: 256 KiB and 512 KiB. The advertised window is half
	// of the free receive buffer; the stack reserves the other half for itself.
	SendBuffer, ReceiveBuffer int
	// Delay enables Nagle's algorithm: a segment that is not full waits while
	// data is unacknowledged.
	Delay bool
	// Sack enables selective acknowledgement. The stack then reserves space for
	// it in every segment: a full one has 1,420 bytes of data instead of 1,448.
	Sack       bool
	Congestion string    // Reno
	Linger     host.Time // time that Close waits for acknowledgements of the peers: 1 s
}

const (
	defaultSendBuffer    = 256 << 10
	defaultReceiveBuffer = 512 << 10
	minBuffer            = 8 << 10
	backlog              = 128
	nic                  = tcpip.NICID(1)
	// segment is the data in a full frame: the MTU less the headers of IP and
	// TCP and the timestamp option, padded to a multiple of 4. With selective
	// acknowledgement the stack reserves all the space that options may take.
	segment     = mtu - header.IPv4MinimumSize - header.TCPMinimumSize - header.TCPOptionTSLength - 2
	sackSegment = mtu - header.IPv4MinimumSize - header.TCPHeaderMaximumSize
)

// The stack's own log would go to standard error.
func init() { log.SetTarget(silence{}) }

type silence struct{}

func (silence) Emit(int, log.Level, time.Time, string, ...any) {}

// Address returns the IP address of a node.
func Address(node int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(node + 1)}) }

const (
	prefixBits = 24
	maxNodes   = 254
)

// Stack is the TCP/IP of one host. Its methods may be called on any thread of
// the node but the agent's.
type Stack struct {
	node  int
	costs host.KernelCosts
	nic   driver.Link
	words *mem.Buffer // one word for each thread of the node, by rank
	clock clock
	net   *stack.Stack
	link  *endpoint

	linger  host.Time
	segment int // bytes of data in a full segment

	// mu is for the race detector, and for fabrics that run two threads of a
	// node concurrently. It is never held during a wait.
	mu      sync.Mutex
	ready   bool
	closed  bool // no more calls from programs
	gone    bool // the stack has stopped
	sending bool
	told    host.Time // the deadline last returned to the agent
	sockets []*socket // in order of creation
	prune   int
	waiting []*sleeper // in order of arrival
}

type socket struct {
	ep     tcpip.Endpoint
	closed bool
}

func (k *socket) state() tcp.EndpointState { return tcp.EndpointState(k.ep.State()) }

// is reports whether one of the given events is pending; the stack may report
// others too.
func (k *socket) is(e waiter.EventMask) bool { return k.ep.Readiness(e)&e != 0 }

type sleeper struct {
	rank  int
	of    *connection // nil if it waits for another event
	ready func() bool
	done  bool
	since host.Time // when its wait ended
}

// Open starts TCP/IP on a host with a plain NIC (driver.DeviceMvia), besides
// M-VIA, once for each host, in timed mode. The caller closes the stack.
// driver.ErrUnsupported if the host has no plain NIC, host.ErrInUse if it has a
// stack already, ErrFreeMode in free mode.
func Open(t *host.Thread, h *driver.Host, c Config) (*Stack, error) {
	if !t.Timed() {
		return nil, fmt.Errorf("tcpip: open the stack of node %d: %w", h.Node(), ErrFreeMode)
	}
	words, err := h.Allocate(t, mem.PageBytes, mem.Single)
	if err != nil {
		return nil, fmt.Errorf("tcpip: open the stack of node %d: %w", h.Node(), err)
	}
	return open(h.Node(), h.AttachProtocol, t, words, h.Costs().Kernel, c)
}

func open(node int, attach func(*host.Thread, driver.Protocol) (driver.Link, error), t *host.Thread,
	words *mem.Buffer, costs host.KernelCosts, c Config,
) (*Stack, error) {
	refuse := func(err error) (*Stack, error) {
		return nil, fmt.Errorf("tcpip: open the stack of node %d: %w", node, err)
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.SendBuffer == 0 {
		c.SendBuffer = defaultSendBuffer
	}
	if c.ReceiveBuffer == 0 {
		c.ReceiveBuffer = defaultReceiveBuffer
	}
	if c.Congestion == "" {
		c.Congestion = Reno
	}
	if c.Linger == 0 {
		c.Linger = host.Second
	}
	if node < 0 || node >= maxNodes {
		return refuse(fmt.Errorf("%w: the network has addresses for %d nodes", host.ErrInvalidParameter, maxNodes))
	}
	if c.SendBuffer < minBuffer || c.ReceiveBuffer < minBuffer {
		return refuse(fmt.Errorf("buffers of %d and %d bytes: %w: want %d or more", c.SendBuffer, c.ReceiveBuffer, host.ErrInvalidParameter, minBuffer))
	}
	s := &Stack{node: node, costs: costs, words: words, linger: c.Linger, segment: segment, told: host.Never}
	if c.Sack {
		s.segment = sackSegment
	}
	s.clock.advance(t.Now())
	var err error
	if s.nic, err = attach(t, protocol{s}); err != nil {
		return refuse(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.advance(t.Now())
	s.link = newEndpoint(s.nic.Address())
	s.net = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
		Clock:              &s.clock,
		RandSource:         newRandom(c.Seed, node, 1),
		SecureRNG:          newRandom(c.Seed, node, 2),
	})
	if err := s.configure(c); err != nil {
		s.shut()
		return refuse(err)
	}
	s.settle()
	s.ready = true
	return s, nil
}

func (s *Stack) configure(c Config) error {
	sack, recovery, delay, moderate := tcpip.TCPSACKEnabled(c.Sack), tcpip.TCPRecovery(0), tcpip.TCPDelayEnabled(c.Delay), tcpip.TCPModerateReceiveBufferOption(false)
	congestion := tcpip.CongestionControlOption(c.Congestion)
	for _, o := range []tcpip.SettableTransportProtocolOption{
		&sack,
		// With round trips of microseconds RACK treats segments in flight as
		// lost. It works with selective acknowledgement only.
		&recovery,
		&delay, &moderate, &congestion,
		&tcpip.TCPSendBufferSizeRangeOption{Min: minBuffer, Default: c.SendBuffer, Max: c.SendBuffer},
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: minBuffer, Default: c.ReceiveBuffer, Max: c.ReceiveBuffer},
	} {
		if err := s.net.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T of TCP (%+v): %s: %w", o, c, err, host.ErrInvalidParameter)
		}
	}
	if err := s.net.CreateNIC(nic, s.link); err != nil {
		return fmt.Errorf("make the network interface: %s", err)
	}
	own := tcpip.AddrFrom4(Address(s.node).As4()).WithPrefix()
	own.PrefixLen = prefixBits
	if err := s.net.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: own}, stack.AddressProperties{}); err != nil {
		return fmt.Errorf("give the interface the address %v: %s", Address(s.node), err)
	}
	s.net.SetRouteTable([]tcpip.Route{{Destination: own.Subnet(), NIC: nic}})
	return nil
}

// Address returns the host's IP address.
func (s *Stack) Address() netip.Addr { return Address(s.node) }

// Counters are TCP's counters.
type Counters struct {
	Sent, Received, Retransmitted uint64 // segments
	ChecksumErrors                uint64
}

// Counters returns TCP's counts up to now.
func (s *Stack) Counters() Counters {
	c := s.net.Stats().TCP
	return Counters{
		Sent: c.SegmentsSent.Value(), Received: c.ValidSegmentsReceived.Value(),
		Retransmitted: c.Retransmits.Value(), ChecksumErrors: c.ChecksumErrors.Value(),
	}
}

// settle waits, in wall time, until all goroutines of the stack are idle, which
// they are only when their queues are empty.
func (s *Stack) settle() {
	s.net.Pause()
	s.net.Resume()
}

// event runs one function of the stack at the thread's present instant, and
// wakes waiters whose condition then holds.
func (s *Stack) event(t *host.Thread, f func()) error {
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		return net.ErrClosed
	}
	now := t.Now()
	s.clock.advance(now)
	f()
	s.settle()
	ranks := s.look(now)
	s.mu.Unlock()
	return s.publish(t, ranks)
}

// look signals the waiters whose condition holds and returns their ranks. The
// caller holds the lock.
func (s *Stack) look(now host.Time) (ranks []int) {
	left := s.waiting[:0]
	for _, w := range s.waiting {
		if !w.ready() {
			left = append(left, w)
			continue
		}
		w.done, w.since = true, now
		ranks = append(ranks, w.rank)
		s.signal(w.rank)
	}
	clear(s.waiting[len(left):])
	s.waiting = left
	return ranks
}

func (s *Stack) signal(rank int) {
	word := s.words.Bytes()[4*rank:]
	mem.StoreUint32(word, mem.LoadUint32(word)+1)
}

func (s *Stack) publish(t *host.Thread, ranks []int) error {
	for _, r := range ranks {
		if err := t.Publish(s.words.Physical(nil, 4*r, 4)...); err != nil {
			return err
		}
	}
	return nil
}

// turn is the number of frames that a thread sends before it leaves the rest to
// others, as the kernel's dev_weight. Without it a thread could send the frames
// of other threads endlessly.
const turn = 64

// flush sends the waiting frames. If another thread of the node is already
// sending, that thread sends these too, in order. The agent or the next calling
// thread sends what remains after a turn.
func (s *Stack) flush(t *host.Thread) error {
	s.mu.Lock()
	if s.sending {
		s.mu.Unlock()
		return nil
	}
	s.sending = true
	for n := 0; ; n++ {
		if n >= turn && s.link.waiting() {
			s.sending = false
			s.mu.Unlock()
			if t.ID().Rank == driver.AgentRank {
				return nil // the agent asks for the deadline next
			}
			return s.nic.Reschedule(t)
		}
		frame := s.link.take()
		if frame == nil {
			break
		}
		s.mu.Unlock()
		err := s.nic.Transmit(t, frame, nil, nil)
		s.mu.Lock()
		if err != nil {
			s.sending = false
			s.mu.Unlock()
			return err
		}
	}
	s.sending = false
	s.mu.Unlock()
	return nil
}

// call is an event of a program: it sends the resulting frames, and notifies
// the agent of earlier timers.
func (s *Stack) call(t *host.Thread, f func()) error {
	if err := s.event(t, f); err != nil {
		return err
	}
	return s.follow(t)
}

// follow is the work after an event of a program.
func (s *Stack) follow(t *host.Thread) error {
	if err := s.flush(t); err != nil {
		return err
	}
	s.mu.Lock()
	nearer := !s.gone && s.clock.next() < s.told
	s.mu.Unlock()
	if nearer {
		return s.nic.Reschedule(t)
	}
	return nil
}

// block waits until ready returns true, which it checks under the lock after
// each event, or until an instant, which may change meanwhile; it reports
// whether ready did. The thread then gets the processor as a blocked thread
// does.
func (s *Stack) block(t *host.Thread, of *connection, until func() host.Time, ready func() bool) (bool, error) {
	rank := t.ID().Rank
	offset := 4 * rank
	word := s.words.Bytes()[offset:]
	w := &sleeper{rank: rank, of: of, ready: ready}
	s.mu.Lock()
	if ready() {
		s.mu.Unlock()
		return true, nil
	}
	s.waiting = append(s.waiting, w)
	seen, end := mem.LoadUint32(word), until()
	s.mu.Unlock()
	for {
		poll := host.Poll{Ranges: s.words.Physical(nil, offset, 4), Blocked: true, Timeout: host.Never}
		if end != host.Never {
			poll.Timeout = max(end-t.Now(), 0)
		}
		woken, err := t.Poll(poll, func() bool { return mem.LoadUint32(word) != seen })
		s.mu.Lock()
		seen, end = mem.LoadUint32(word), until()
		over := w.done || err != nil || (!woken && t.Now() >= end)
		if over && !w.done {
			s.forget(w)
			w.since = t.Now()
		}
		s.mu.Unlock()
		if err != nil {
			return false, err
		}
		if over {
			break
		}
		// The end has changed.
	}
	if err := t.Sleep(max(w.since+s.costs.Tcp.Wake-t.Now(), 0)); err != nil {
		return false, err
	}
	return w.done, t.Spend(host.LayerSwitch, s.costs.Switch)
}

func (s *Stack) forget(w *sleeper) {
	for i, o := range s.waiting {
		if o == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return
		}
	}
}

func (s *Stack) enter(t *host.Thread) error {
	if id := t.ID(); id.Node != s.node || id.Rank <= driver.AgentRank || 4*(id.Rank+1) > s.words.Len() {
		return fmt.Errorf("tcpip: thread %v called the stack of node %d: %w: a thread of a program on that node is needed", id, s.node, host.ErrInvalidParameter)
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	return t.Spend(host.LayerTrap, s.costs.Trap)
}

// keep adds a socket to the list that Close uses. The caller holds the lock.
func (s *Stack) keep(k *socket) {
	if len(s.sockets) >= s.prune {
		left := s.sockets[:0]
		for _, o := range s.sockets {
			if st := o.state(); !o.closed || (st != tcp.StateClose && st != tcp.StateError) {
				left = append(left, o)
			}
		}
		clear(s.sockets[len(left):])
		s.sockets = left
		s.prune = max(2*len(left), 64)
	}
	s.sockets = append(s.sockets, k)
}

// Close ends the stack. It resets open connections; for closed ones it waits
// until the peers have acknowledged everything, at most for Config.Linger.
// Threads blocked in a call get net.ErrClosed. When it returns, also with an
// error, the goroutines of the stack have ended; later frames are dropped.
func (s *Stack) Close(t *host.Thread) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	err := s.call(t, func() {
		for _, k := range s.sockets {
			if !k.closed {
				k.closed = true
				k.ep.Abort()
			}
		}
	})
	if err == nil {
		end := host.Never
		if now := t.Now(); s.linger < host.Never-now {
			end = now + s.linger
		}
		_, err = s.block(t, nil, func() host.Time { return end }, s.quiet)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut()
	if err != nil {
		return fmt.Errorf("tcpip: close the stack of node %d: %w", s.node, err)
	}
	return nil
}

// quiet reports whether all closed sockets have finished with their peers.
func (s *Stack) quiet() bool {
	for _, k := range s.sockets {
		switch k.state() {
		case tcp.StateFinWait1, tcp.StateClosing, tcp.StateLastAck, tcp.StateCloseWait, tcp.StateEstablished:
			return false
		}
	}
	return true
}

// shut ends the goroutines of the stack. The caller holds the lock.
func (s *Stack) shut() {
	s.gone, s.closed = true, true
	s.link.Close()
	s.net.Close()
	if p := s.net.TransportProtocolInstance(tcp.ProtocolNumber); p != nil {
		p.Wait()
	}
	s.clock.stop()
}

// protocol implements driver.Protocol for the agent.
type protocol struct{ s *Stack }

var _ driver.Protocol = protocol{}

func (protocol) EtherTypes() []uint16 {
	return []uint16{uint16(ipv4.ProtocolNumber), uint16(arp.ProtocolNumber)}
}

// Frame processes a received frame, and sends the stack's immediate answers.
func (p protocol) Frame(t *host.Thread, frame []byte) error {
	s := p.s
	if !s.running() {
		return nil
	}
	if err := t.SpendInService(host.LayerProtocol, s.costs.Tcp.ReceivePacket); err != nil {
		return err
	}
	return s.serve(t, func() { s.link.inject(frame) })
}

// Deadline returns the time of the stack's next timer.
func (p protocol) Deadline() host.Time {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || s.gone {
		return host.Never
	}
	s.told = s.clock.next()
	if !s.sending && s.link.waiting() {
		s.told = 0 // left by a thread at the end of its turn
	}
	return s.told
}

// Timer runs the due timers, one after another.
func (p protocol) Timer(t *host.Thread) error {
	s := p.s
	for more := true; more && s.running(); {
		if err := s.serve(t, func() { more = s.clock.fire() }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready && !s.gone
}

// serve is an event of the agent, not of a program.
func (s *Stack) serve(t *host.Thread, f func()) error {
	if err := s.event(t, f); err != nil {
		if errors.Is(err, net.ErrClosed) {
			return nil // it was closed during this frame
		}
		return err
	}
	return s.flush(t)
}
