// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"

	"hvia/layout"
)

// GuestID is the number of a guest. A fabric never reuses it.
type GuestID uint32

// GuestConfig identifies a guest and lists its resources.
type GuestConfig struct {
	Name       string // of the process, for messages
	Pid        int    // for messages; from the kernel, not from the process
	Node       int
	FirstRank  int // the first of Ranks ranks, which only its threads may have
	Ranks      int
	FirstFrame int // of its bank
	Frames     int
}

// Guest is the simulator's record of a process that may use only its grants. In
// the owner of the fabric, NewGuest makes it. In the guest, it describes the
// process itself.
type Guest struct {
	ID GuestID
	GuestConfig

	// Socket is the guest's end of its connection, for Join. The owner passes
	// it to the guest's process and then closes it. When no process has the
	// socket open, the simulator ends the guest. Nil in the guest.
	Socket *os.File
}

// GuestEnd reports the end of a guest's connection.
type GuestEnd struct {
	ID        GuestID
	Reason    layout.BridgeGuestEnd
	Violation bool   // it tried a forbidden action
	Time      Time   // simulated
	Text      string // one sentence: the process, its node, and the reason
}

// NewGuest makes a guest. For the card and in the owner's Linear view, zeroed
// memory replaces the frames of its bank; they must not be in use. Only the
// owner of a fabric with guests (sim.Config.Guests) may call it. Once sent, the
// request is carried out even if the context ends.
func (c *Conn) NewGuest(ctx context.Context, g GuestConfig) (*Guest, error) {
	fail := func(err error) (*Guest, error) {
		return nil, fmt.Errorf("bridge: make guest '%s' (process %d) on node %d with frames %d to %d: %w", g.Name, g.Pid, g.Node, g.FirstFrame, g.FirstFrame+g.Frames-1, err)
	}
	r := newRequest(layout.BridgeControlNewGuest)
	for _, v := range []struct {
		what  string
		value int
		set   func(uint32)
	}{
		{"process", g.Pid, r.SetGuestPid}, {"node", g.Node, r.SetNode}, {"first rank", g.FirstRank, r.SetRank}, {"ranks", g.Ranks, r.SetRanks},
		{"first frame", g.FirstFrame, r.SetBankFirst}, {"frames", g.Frames, r.SetBankFrames},
	} {
		if v.value < 0 || v.value > math.MaxInt32 {
			return fail(fmt.Errorf("%s %d: want 0 to %d", v.what, v.value, math.MaxInt32))
		}
		v.set(uint32(v.value))
	}
	if len(g.Name) >= len(r.Name()) {
		return fail(fmt.Errorf("a name has at most %d bytes", len(r.Name())-1))
	}
	copy(r.Name(), g.Name)
	if err := ctx.Err(); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrAborted, context.Cause(ctx)))
	}
	reply, err := c.request(context.WithoutCancel(ctx), r)
	if err != nil {
		return fail(err)
	}
	defer reply.close()
	made := &Guest{ID: GuestID(reply.Guest()), GuestConfig: g}
	// From here on the simulator has the guest, so every failure must end it.
	undo := func(err error) (*Guest, error) {
		reply.close()
		reply.fds = nil
		return fail(errors.Join(err, c.EndGuest(context.WithoutCancel(ctx), made.ID)))
	}
	c.mu.Lock()
	c.guests[made.ID] = made
	c.mu.Unlock()
	if len(reply.fds) != 2 {
		return undo(fmt.Errorf("%d descriptors came, want 2: the process has too many open files", len(reply.fds)))
	}
	if err := c.overlay(made, reply.fds[1], 0); err != nil {
		return undo(err)
	}
	made.Socket = os.NewFile(uintptr(reply.fds[0]), "guest "+g.Name)
	reply.fds[0] = -1 // kept
	return made, nil
}

// overlay maps a part of a file over a guest's bank, in this process's view of
// the node.
func (c *Conn) overlay(g *Guest, fd int, offset int64) error {
	c.gate.RLock()
	defer c.gate.RUnlock()
	m, mapped := c.memory[g.Node]
	if c.gone || !mapped {
		return nil
	}
	if err := mapOver(m.view[g.FirstFrame*FrameBytes:(g.FirstFrame+g.Frames)*FrameBytes], fd, offset); err != nil {
		return fmt.Errorf("map frames %d to %d of node %d: %w", g.FirstFrame, g.FirstFrame+g.Frames-1, g.Node, err)
	}
	return nil
}

// Grant grants a page of doorbells to a guest, or withdraws it. Commands that
// the guest posted before the withdrawal are still executed. Only the owner may
// call it.
func (c *Conn) Grant(ctx context.Context, guest GuestID, page int, on bool) error {
	what, value := "take page %d of the doorbells from guest %d: %w", uint32(0)
	if on {
		what, value = "give page %d of the doorbells to guest %d: %w", 1
	}
	if page < 0 || page > math.MaxInt32 {
		return fmt.Errorf("bridge: "+what, page, guest, errors.New("pages count from 0"))
	}
	r := newRequest(layout.BridgeControlGrant)
	r.SetGuest(uint32(guest))
	r.SetPage(uint32(page))
	r.SetOn(value)
	reply, err := c.request(context.WithoutCancel(ctx), r)
	if err != nil {
		return fmt.Errorf("bridge: "+what, page, guest, err)
	}
	reply.close()
	return nil
}

// EndGuest ends a guest's connection, if it is open, and replaces its bank by
// zeroed memory, so that another guest can get its frames and ranks. While the
// card may use frames of the bank, EndGuest only ends the connection and fails
// with ErrRejected: release the frames, then call it again. Only the owner may
// call it.
func (c *Conn) EndGuest(ctx context.Context, guest GuestID) error {
	r := newRequest(layout.BridgeControlEndGuest)
	r.SetGuest(uint32(guest))
	reply, err := c.request(context.WithoutCancel(ctx), r)
	if err != nil {
		return fmt.Errorf("bridge: end guest %d: %w", guest, err)
	}
	reply.close()
	c.mu.Lock()
	g := c.guests[guest]
	delete(c.guests, guest)
	c.mu.Unlock()
	if g == nil {
		return nil
	}
	m, mapped := c.memory[g.Node]
	if !mapped {
		return nil
	}
	if err := c.overlay(g, m.FD, int64(g.FirstFrame)*FrameBytes); err != nil {
		return fmt.Errorf("bridge: end guest %d: %w", guest, err)
	}
	return nil
}

// Ended reports to the owner the ends of guests that the owner did not end
// itself. The channel is closed when this connection ends. When it is full, it
// drops the ends of guests for which EndGuest was called.
func (c *Conn) Ended() <-chan GuestEnd { return c.ends }

// Guest describes this process as a guest; nil if it is none.
func (c *Conn) Guest() *Guest { return c.guest }

// end records the end of a guest, which may be this process.
func (c *Conn) end(e layout.BridgeEnd) {
	if c.guest != nil {
		c.ended.Store(stopOf(e))
		c.kick()
		return
	}
	reason := layout.BridgeGuestEnd(e.Reason())
	next := GuestEnd{ID: GuestID(e.Guest()), Reason: reason, Violation: reason == layout.BridgeGuestEndViolation, Time: Time(e.Time()), Text: text(e.Text())}
	select {
	case c.ends <- next:
		return
	default:
	}
	// The channel holds more ends than there are guests, so drop those of
	// former guests.
	kept := []GuestEnd{}
	for full := true; full; {
		select {
		case old := <-c.ends:
			kept = append(kept, old)
		default:
			full = false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range append(kept, next) {
		if _, there := c.guests[g.ID]; !there && g.ID != next.ID {
			continue
		}
		select {
		case c.ends <- g:
		default:
		}
	}
}

func stopOf(e layout.BridgeEnd) *StopError {
	kind, ok := endErrors[layout.BridgeGuestEnd(e.Reason())]
	if !ok {
		kind = ErrClosed
	}
	return &StopError{Kind: kind, Time: Time(e.Time()), Text: text(e.Text())}
}

// Join joins a fabric as the guest with this socket. The connection owns the
// socket from now on, even if Join fails. Options.Nodes is ignored: the only
// memory is the bank, Memory of the guest's node.
func Join(ctx context.Context, socket *os.File, o Options) (*Conn, error) {
	if o.Name == "" {
		o.Name = os.Args[0]
	}
	o.Nodes = nil
	path := socket.Name()
	raw, err := net.FileConn(socket) // duplicates the descriptor
	_ = socket.Close()
	if err != nil {
		return nil, fmt.Errorf("bridge: join by %s: %w", path, err)
	}
	sock, ok := raw.(*net.UnixConn)
	if !ok {
		_ = raw.Close()
		return nil, fmt.Errorf("bridge: join by %s: it is no guest's socket but a %T: %w", path, raw, ErrVersion)
	}
	return join(ctx, sock, path, o)
}

func (c *Conn) mapBank(name string, reply layout.BridgeReply, bank int) error {
	g := &Guest{ID: GuestID(reply.Guest()), GuestConfig: GuestConfig{
		Name: name, Pid: os.Getpid(), Node: int(reply.GuestNode()), FirstRank: int(reply.FirstRank()), Ranks: int(reply.Ranks()), FirstFrame: int(reply.BankFirst()), Frames: int(reply.BankFrames()),
	}}
	view, err := mapShared(bank, g.Frames*FrameBytes)
	if err != nil {
		return fmt.Errorf("map %d frames of bank: %w", g.Frames, err)
	}
	c.guest = g
	c.memory[g.Node] = &Memory{Node: g.Node, FD: bank, First: g.FirstFrame, Frames: g.Frames, view: view}
	return nil
}
