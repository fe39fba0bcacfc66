// SPDX-License-Identifier: Apache-2.0

// Package bridge is the host side of the pages and the socket that join Go
// programs with the fabric simulator: command rings, waits in virtual time,
// host memory with its frame-use table. Programs use it through package driver,
// which makes threads of its slots.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hvia/layout"
	"hvia/params"
)

// replyLimit bounds the wait for a reply on the control socket. The simulator
// replies between two steps of its cards. Time in which its process does not
// run counts only a stoppedShare: the process may be stopped, or the machine
// busy.
const (
	replyLimit   = 30 * time.Second
	replyPoll    = time.Second
	stoppedShare = 20
)

// backstop bounds every sleep. Without it a kick between the last check and the
// sleep would be lost.
const backstop = 250 * time.Millisecond

// handOver orders the actions of one process's goroutines before and after a
// wait. The real order comes from shared memory, which the race detector does
// not see.
var handOver atomic.Uint64

// Options says how a process joins a fabric.
type Options struct {
	Name    string // of the process, for messages; its program name if empty
	Nodes   []int  // nodes whose host memory is mapped; nil means all
	Profile string // parameters of the simulator's build; hvia-ge if empty

	// Explain, if set, explains the death of the simulator in error messages.
	Explain func() string

	layoutHash, paramsHash uint64 // claimed by tests instead of the real ones
}

// Conn is one process's connection to a fabric.
type Conn struct {
	path    string
	mark    processMark // of the process that joined
	sock    *net.UnixConn
	explain func() string
	header  layout.BridgeHeader // read only
	bell    []byte
	guest   *Guest // this process as a guest; nil if it is none
	timed   bool
	nodes   int
	memory  map[int]*Memory

	// Calls that access the pages hold the gate for reading. Close holds it for
	// writing while it unmaps them.
	gate   sync.RWMutex
	closed atomic.Bool
	gone   bool // pages are unmapped; guarded by gate
	dead   atomic.Bool
	ended  atomic.Pointer[StopError] // why this guest's connection ended

	requests sync.Mutex // one request at a time
	sequence uint32     // of the last request, guarded by requests
	replies  chan answer
	readDone chan struct{}
	ends     chan GuestEnd

	mu     sync.Mutex
	slots  map[*Slot]struct{}
	guests map[GuestID]*Guest
}

// answer is a reply with its descriptors. A descriptor that is kept is replaced
// by -1; close closes the others.
type answer struct {
	layout.BridgeReply
	fds []int
}

func (a answer) close() {
	for _, fd := range a.fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// descriptorRoom has space for the descriptors of one reply.
var descriptorRoom = unix.CmsgSpace(4 * (2 + 2*layout.BridgeMaxNodes))

// Dial joins the fabric that serves the path.
func Dial(ctx context.Context, path string, o Options) (*Conn, error) {
	if o.Name == "" {
		o.Name = os.Args[0]
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "unixpacket", path)
	if err != nil {
		if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("bridge: connect to %s: %w (%w): start one, or check the path", path, ErrNoSimulator, err)
		}
		return nil, fmt.Errorf("bridge: connect to %s: %w", path, err)
	}
	return join(ctx, raw.(*net.UnixConn), path, o)
}

// join greets the simulator on a connection, which it owns from now on.
func join(ctx context.Context, sock *net.UnixConn, path string, o Options) (*Conn, error) {
	mark, err := markProcess()
	if err != nil {
		_ = sock.Close()
		return nil, fmt.Errorf("bridge: connect to %s: %w", path, err)
	}
	c := &Conn{
		mark: mark, path: path, sock: sock, explain: o.Explain, memory: map[int]*Memory{},
		replies: make(chan answer, 1), readDone: make(chan struct{}), ends: make(chan GuestEnd, layout.BridgeMaxGuests),
		slots: map[*Slot]struct{}{}, guests: map[GuestID]*Guest{},
	}
	if err := c.hello(ctx, o); err != nil {
		c.sock.Close()
		c.release()
		return nil, fmt.Errorf("bridge: connect to %s: %w", path, err)
	}
	go c.read()
	return c, nil
}

func newRequest(op layout.BridgeControl) layout.BridgeRequest {
	r := layout.BridgeRequest(make([]byte, layout.BridgeRequestSize))
	r.SetMagic(layout.BridgeMagic)
	r.SetVersion(layout.BridgeVersion)
	r.SetOpcode(uint32(op))
	return r
}

// hello exchanges the greeting with the simulator and maps the shared pages.
func (c *Conn) hello(ctx context.Context, o Options) error {
	if o.layoutHash == 0 {
		o.layoutHash = layout.Hash
	}
	if o.paramsHash == 0 {
		set, err := params.ForProfile(o.Profile)
		if err != nil {
			return err
		}
		o.paramsHash = set.Hash
	}
	mask, err := nodeMask(o.Nodes)
	if err != nil {
		return err
	}
	r := newRequest(layout.BridgeControlHello)
	r.SetLayoutHash(o.layoutHash)
	r.SetParamsHash(o.paramsHash)
	r.SetPid(uint32(os.Getpid()))
	r.SetNodeMask(mask)
	copy(r.Name()[:len(r.Name())-1], o.Name)
	limit := time.Now().Add(replyLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(limit) {
		limit = d
	}
	_ = c.sock.SetDeadline(limit)
	stop := context.AfterFunc(ctx, func() { _ = c.sock.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	reply, fds, err := c.exchange(r)
	// This closes them on every path below.
	defer answer{fds: fds}.close()
	if err != nil {
		return err
	}
	if reply.LayoutHash() != o.layoutHash || reply.ParamsHash() != o.paramsHash {
		return fmt.Errorf("layout hash %016x of this program, %016x of the simulator; params hash %016x and %016x: %w: rebuild both from one checkout, for one profile",
			o.layoutHash, reply.LayoutHash(), o.paramsHash, reply.ParamsHash(), ErrVersion)
	}
	if reply.Rejected() != 0 {
		return fmt.Errorf("%w: %s", ErrRejected, text(reply.Text()))
	}
	if err := c.mapPages(o.Name, mask, reply, fds); err != nil {
		return err
	}
	_ = c.sock.SetDeadline(time.Time{})
	return nil
}

// nodeMask has a bit for each node; nil means all.
func nodeMask(nodes []int) (uint32, error) {
	if nodes == nil {
		return ^uint32(0), nil
	}
	mask := uint32(0)
	for _, n := range nodes {
		if n < 0 || n >= layout.BridgeMaxNodes {
			return 0, fmt.Errorf("node %d: a fabric has at most %d nodes, counted from 0", n, layout.BridgeMaxNodes)
		}
		mask |= 1 << n
	}
	return mask, nil
}

// exchange sends the first request and returns the reply to it.
func (c *Conn) exchange(r layout.BridgeRequest) (layout.BridgeReply, []int, error) {
	// A guest whose connection ended before it joined can still read why.
	_, sent := c.sock.Write(r)
	reply := layout.BridgeReply(make([]byte, layout.BridgeReplySize))
	oob := make([]byte, descriptorRoom)
	n, oobn, _, _, err := c.sock.ReadMsgUnix(reply, oob)
	if sent != nil && n != layout.BridgeEndSize {
		return nil, nil, sent
	}
	if err != nil {
		return nil, nil, err
	}
	fds, err := descriptors(oob[:oobn])
	if err != nil {
		return nil, fds, err
	}
	if end := layout.BridgeEnd(reply[:layout.BridgeEndSize]); n == layout.BridgeEndSize && end.Magic() == layout.BridgeMagic {
		return nil, fds, stopOf(end)
	}
	if n != layout.BridgeReplySize || reply.Magic() != layout.BridgeMagic {
		return nil, fds, fmt.Errorf("a reply of %d bytes that is not of this protocol: %w", n, ErrVersion)
	}
	return reply, fds, nil
}

// mapPages maps the reply's descriptors and marks those that it keeps.
func (c *Conn) mapPages(name string, mask uint32, reply layout.BridgeReply, fds []int) error {
	c.nodes = int(reply.Nodes())
	var nodes []int
	for i := range c.nodes {
		if mask>>i&1 != 0 && reply.Guest() == 0 {
			nodes = append(nodes, i)
		}
	}
	want := 2 + 2*len(nodes)
	if reply.Guest() != 0 {
		want = 3
	}
	if len(fds) != want {
		return fmt.Errorf("%d descriptors came, want %d: the process has too many open files", len(fds), want)
	}
	var err error
	if c.header, err = mapReadOnly(fds[0], int(reply.ControlBytes())); err != nil {
		return fmt.Errorf("map %d bytes of header: %w", reply.ControlBytes(), err)
	}
	if c.bell, err = mapShared(fds[1], layout.BridgeBellSize); err != nil {
		return fmt.Errorf("map %d bytes of bell: %w", layout.BridgeBellSize, err)
	}
	c.timed = layout.BridgeMode(c.header.Mode()) == layout.BridgeModeTimed
	if reply.Guest() != 0 {
		if err := c.mapBank(name, reply, fds[2]); err != nil {
			return err
		}
		fds[2] = -1 // kept
	}
	for i, node := range nodes {
		if err := c.mapNode(node, fds[2+2*i], fds[3+2*i], int(reply.MemoryBytes())); err != nil {
			return err
		}
		fds[2+2*i] = -1 // kept
	}
	return nil
}

func (c *Conn) mapNode(node, memory, use, bytes int) error {
	m := &Memory{Node: node, FD: memory, Frames: bytes / FrameBytes}
	var err error
	if m.view, err = mapShared(memory, bytes); err != nil {
		return fmt.Errorf("map %d bytes of node %d's memory: %w", bytes, node, err)
	}
	if m.use, err = mapShared(use, m.Frames*layout.BridgeFrameUseSize); err != nil {
		retire(m.view)
		return fmt.Errorf("map node %d's frame-use table: %w", node, err)
	}
	c.memory[node] = m
	return nil
}

func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range messages {
		rights, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, rights...)
	}
	return fds, nil
}

func text(b []byte) string {
	for i, ch := range b {
		if ch == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// read receives replies until the socket ends. Unless the fabric was closed,
// that means that the simulator died.
func (c *Conn) read() {
	defer close(c.readDone)
	defer close(c.ends)
	oob := make([]byte, descriptorRoom)
	for {
		b := make([]byte, layout.BridgeReplySize)
		n, oobn, _, _, err := c.sock.ReadMsgUnix(b, oob)
		if err != nil || n == 0 {
			break
		}
		// The caller detects missing descriptors.
		fds, _ := descriptors(oob[:oobn])
		switch n {
		case layout.BridgeReplySize:
			a := answer{BridgeReply: b, fds: fds}
			select {
			case c.replies <- a:
			default: // the reply to an abandoned request
				a.close()
			}
		case layout.BridgeEndSize:
			c.end(layout.BridgeEnd(b[:n]))
		}
	}
	c.dead.Store(true)
	c.kick()
	select {
	case a := <-c.replies: // no request will take it
		a.close()
	default:
	}
}

// kick wakes every thread of this process to check whether it may continue.
func (c *Conn) kick() {
	c.gate.RLock()
	defer c.gate.RUnlock()
	if c.gone {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.slots {
		futexWake(s.wakeSequence)
		futexWake(s.ring.head)
	}
}

// check returns nil while the fabric is usable. The gate is held.
func (c *Conn) check() error {
	if c.closed.Load() || c.gone {
		return &StopError{Kind: ErrClosed, Text: "this process closed its connection to " + c.path}
	}
	if e := c.ended.Load(); e != nil {
		return e
	}
	if layout.BridgeRunState(word(c.header, layout.BridgeHeaderRunStateOffset).Load()) == layout.BridgeRunStateStopped {
		kind, ok := stopErrors[layout.BridgeStop(c.header.StopReason())]
		if !ok {
			kind = ErrProtocol
		}
		return &StopError{Kind: kind, Time: Time(c.header.StopTime()), Text: text(c.header.StopText())}
	}
	if c.dead.Load() {
		e := &StopError{Kind: ErrSimulatorDied, Time: Time(c.header.Now()), Text: fmt.Sprintf("process %d that served %s is gone", c.header.SimulatorPid(), c.path)}
		if c.explain != nil {
			if why := c.explain(); why != "" {
				e.Text += ": " + why
			}
		}
		return e
	}
	return nil
}

// Forked returns ErrForked in a process that was forked from the one that
// joined. The connection, its memory, threads and replies belong to the other
// process. Callers check this before they take a lock, because a fork does not
// copy the lock's holder.
func (c *Conn) Forked() error {
	if !c.mark.forked() {
		return nil
	}
	return &StopError{Kind: ErrForked, Text: fmt.Sprintf("process %d joined %s and not this one: join anew", c.mark.value, c.path)}
}

// Err is nil while the fabric is usable, else the reason.
func (c *Conn) Err() error {
	if err := c.Forked(); err != nil {
		return err
	}
	c.gate.RLock()
	defer c.gate.RUnlock()
	return c.check()
}

// Timed reports whether the fabric runs in timed mode.
func (c *Conn) Timed() bool { return c.timed }

// Nodes is the number of nodes of the fabric.
func (c *Conn) Nodes() int { return c.nodes }

// Memory is the host memory of a node.
func (c *Conn) Memory(node int) (*Memory, error) {
	m, ok := c.memory[node]
	if !ok {
		return nil, fmt.Errorf("bridge: node %d of %s: %w: name it when joining", node, c.path, ErrNodeNotMapped)
	}
	return m, nil
}

// Reproducible is false once an event outside virtual time affected a timed
// run: a call was aborted, a thread came late, a process died.
func (c *Conn) Reproducible() bool {
	if c.mark.forked() {
		return false
	}
	c.gate.RLock()
	defer c.gate.RUnlock()
	return !c.gone && c.timed && c.header.Tainted() == 0
}

// request sends a request to the simulator. The caller owns the descriptors of
// the answer.
func (c *Conn) request(ctx context.Context, r layout.BridgeRequest) (answer, error) {
	if err := c.Forked(); err != nil {
		return answer{}, err
	}
	c.requests.Lock()
	defer c.requests.Unlock()
	op := layout.BridgeControl(r.Opcode())
	if err := c.Err(); err != nil && op != layout.BridgeControlDigest {
		return answer{}, err
	}
	c.sequence++
	r.SetSequence(c.sequence)
	select {
	case old := <-c.replies: // left by an abandoned request
		old.close()
	default:
	}
	if _, err := c.sock.Write(r); err != nil {
		if e := c.Err(); e != nil {
			return answer{}, e
		}
		return answer{}, fmt.Errorf("bridge: %s request to %s: %w", op, c.path, err)
	}
	ticker := time.NewTicker(replyPoll)
	defer ticker.Stop()
	left, used := replyLimit, c.processorTime()
	take := func(reply answer) (answer, error, bool) {
		if reply.Sequence() != c.sequence || layout.BridgeControl(reply.Opcode()) != op {
			reply.close()
			return answer{}, nil, false
		}
		if reply.Rejected() != 0 {
			reply.close()
			return answer{}, fmt.Errorf("bridge: %s request to %s: %w: %s", op, c.path, ErrRejected, text(reply.Text())), true
		}
		return reply, nil, true
	}
	for {
		select {
		case reply := <-c.replies:
			if a, err, done := take(reply); done {
				return a, err
			}
		case <-c.readDone:
			if err := c.Err(); err != nil {
				return answer{}, err
			}
			return answer{}, fmt.Errorf("bridge: %s request to %s: %w", op, c.path, ErrSimulatorDied)
		case <-ctx.Done():
			return answer{}, fmt.Errorf("bridge: %s request to %s: %w: %w", op, c.path, ErrAborted, context.Cause(ctx))
		case <-ticker.C:
			spent := replyPoll
			if now := c.processorTime(); now == used && now != 0 {
				spent /= stoppedShare
			} else {
				used = now
			}
			if left -= spent; left <= 0 {
				return answer{}, fmt.Errorf("bridge: %s request to %s: no answer in %v of the simulator's time: %w", op, c.path, replyLimit, ErrUnresponsive)
			}
		}
	}
}

// processorTime is the CPU time of the simulator's process, 0 if unknown.
func (c *Conn) processorTime() int64 {
	c.gate.RLock()
	defer c.gate.RUnlock()
	if c.gone {
		return 0
	}
	// The CPU-time clock of another process, as clock_getcpuclockid(3) computes
	// it.
	var t unix.Timespec
	if unix.ClockGettime(int32(^c.header.SimulatorPid()<<3|2), &t) != nil {
		return 0
	}
	return t.Nano()
}

// Digest summarizes a run in numbers that are equal when the run is repeated.
type Digest struct {
	Hash         uint64 // over FramesHash's and WakesHash's input, and deviations from the default configuration
	FramesHash   uint64 // over every frame on a wire and its time
	WakesHash    uint64 // over every wake of a thread, its time, and its message or reply
	Time         Time   // simulated time reached
	Frames       uint64 // frames that nodes sent
	Wakes        uint64 // waits ended
	Reproducible bool
	Wire         [layout.BridgeMaxNodes]WireCounts // counts of each node's frames on its cable
	Switch       SwitchCounts
}

// SwitchCounts counts the frames at the switch. All are zero without a switch.
type SwitchCounts struct {
	Wire  [layout.BridgeMaxNodes]WireCounts // of the switch's frames to each node
	Ports [layout.BridgeMaxNodes]SwitchPort // by node
}

// SwitchPort holds the counts of the switch's port for one node.
type SwitchPort struct {
	// Frames from the node: Received are good, WrongFcs were dropped for their
	// FCS. Of the good ones, Filtered went to no port, and Flooded to all other
	// ports. Unlearned had a source address for which the table had no space.
	Received, WrongFcs, Filtered, Flooded, Unlearned uint64
	Moved                                            uint64 // addresses that were at another port before
	Aged                                             uint64 // addresses forgotten after a long silence
	// Frames for the node: queued, and dropped because the queue was full.
	Forwarded, NoRoom uint64
	HighestFilling    uint64 // maximum of bytes in that queue, including each frame's FCS
}

// WireCounts are the frames of one direction of the wire.
type WireCounts struct {
	Sent    uint64 // by their sender
	Arrived uint64 // unchanged at the receiver, copies included
	Damaged uint64 // at the receiver with a wrong FCS, copies included
	// Frames with each kind of fault. A lost frame has no other fault.
	Faults [layout.WireFaultLink + 1]uint64
}

func wireCounts(c layout.WireCounts) WireCounts {
	return WireCounts{c.Sent(), c.Arrived(), c.Damaged(), [...]uint64{
		layout.WireFaultDrop: c.Drop(), layout.WireFaultDuplicate: c.Duplicate(), layout.WireFaultReorder: c.Reorder(), layout.WireFaultCorrupt: c.Corrupt(),
		layout.WireFaultTruncate: c.Truncate(), layout.WireFaultDelay: c.Delay(), layout.WireFaultPause: c.Pause(), layout.WireFaultCut: c.Cut(), layout.WireFaultLink: c.Link(),
	}}
}

func switchPort(c layout.SwitchPort) SwitchPort {
	return SwitchPort{
		Received: c.Received(), WrongFcs: c.WrongFcs(), Filtered: c.Filtered(), Flooded: c.Flooded(), Unlearned: c.Unlearned(), Moved: c.Moved(), Aged: c.Aged(),
		Forwarded: c.Forwarded(), NoRoom: c.NoRoom(), HighestFilling: c.HighestFilling(),
	}
}

// Digest requests the digest of the run so far. The reply comes when the fabric
// is idle.
func (c *Conn) Digest(ctx context.Context) (Digest, error) {
	reply, err := c.request(ctx, newRequest(layout.BridgeControlDigest))
	if err != nil {
		return Digest{}, err
	}
	d := Digest{
		Hash: reply.Digest(), FramesHash: reply.FramesDigest(), WakesHash: reply.WakesDigest(), Time: Time(reply.Time()), Frames: reply.Frames(), Wakes: reply.Wakes(),
		Reproducible: c.timed && reply.Tainted() == 0,
	}
	for n := range layout.BridgeMaxNodes {
		d.Wire[n] = wireCounts(reply.Wire()[n*layout.WireCountsSize:])
		d.Switch.Wire[n] = wireCounts(reply.FromSwitch()[n*layout.WireCountsSize:])
		d.Switch.Ports[n] = switchPort(reply.Ports()[n*layout.SwitchPortSize:])
	}
	return d, nil
}

// Close detaches this process's threads and leaves the fabric. Waiting calls
// return ErrClosed. Slices of host memory are invalid afterwards.
func (c *Conn) Close() error {
	if err := c.Forked(); err != nil {
		return err
	}
	if c.closed.Swap(true) {
		return nil
	}
	c.kick()
	c.gate.Lock()
	c.mu.Lock()
	for s := range c.slots {
		s.state.Store(uint32(layout.BridgeStateDetached))
	}
	c.mu.Unlock()
	c.wakeSimulator()
	err := c.sock.Close()
	c.release()
	c.gate.Unlock()
	<-c.readDone
	if err != nil {
		return fmt.Errorf("bridge: leave %s: %w", c.path, err)
	}
	return nil
}

// release unmaps the pages.
func (c *Conn) release() {
	c.gone = true
	retire(c.header)
	retire(c.bell)
	for s := range c.slots {
		s.retire()
	}
	for _, m := range c.memory {
		retire(m.view)
		retire(m.use)
		_ = unix.Close(m.FD)
	}
}

// wakeSimulator notifies the simulator of published data. The gate is held.
func (c *Conn) wakeSimulator() {
	sequence := word(c.bell, layout.BridgeBellSequenceOffset)
	sequence.Add(1)
	if word(c.header, layout.BridgeHeaderSleepingOffset).Load() != 0 {
		futexWake(sequence)
	}
}
