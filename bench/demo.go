// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/vipl"
)

// Demo makes one RDMA write from node 0 to node 1 and tells what happened when.
// With an error it returns the steps until then.
func Demo(ctx context.Context, c DemoConfig) (_ *DemoReport, err error) {
	defer func() { err = stopped(ctx, "demo", err) }()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	hashes, err := checkoutHashes(c.Profile)
	if err != nil {
		return nil, err
	}
	r := &DemoReport{Schema: DemoSchema, Profile: c.Profile, Seed: c.Seed, Hashes: hashes, Size: c.Size, Steps: []DemoStep{}}
	rec, err := newRecording(c.PcapFile, c.WaveFile)
	if err != nil {
		return r, fmt.Errorf("demo: %w", err)
	}
	defer rec.remove()

	b, err := newBoard(c.Profile, nil)
	if err != nil {
		return r, err
	}
	cfg := twoCards(b, c.Seed)
	cfg.Program, cfg.Arguments, cfg.Faults = c.program, rec.arguments(), c.Faults
	d := &demonstration{config: c}
	failed := fabric.Run(ctx, fabric.RunConfig{
		Fabric: cfg, Costs: b.costs(), Seed: c.Seed,
		Finished: func(f *sim.Fabric) error {
			d, err := digestOf(ctx, f)
			r.Digest, r.Parts = d.all, d.Parts
			return err
		},
	}, fabric.Program{Node: 0, Name: "writer", Main: d.write}, fabric.Program{Node: 1, Name: "reader", Main: d.read})
	// As in measure: why a run failed matters more than where its records end.
	events, err := rec.events()
	if failed == nil && err != nil {
		return r, err
	}
	card, err := cardSteps(events, d.vi[0], d.vi[1], framesOf(c.Size))
	if failed == nil && err != nil {
		return r, fmt.Errorf("demo: %w", err)
	}
	r.Steps = slices.Concat(d.steps[0], d.steps[1], card)
	slices.SortStableFunc(r.Steps, func(a, b DemoStep) int { return cmp.Compare(a.TimePs, b.TimePs) })
	if err := rec.writePcap(c.Profile, c.Seed); failed == nil && err != nil {
		return r, err
	}
	r.Verified, r.Fault = failed == nil && d.fault == "", d.fault
	return r, failed
}

const (
	demoPort  = "demo"
	demoRound = 1
)

// demonstration is the two programs of the demo and what they note, each in a
// list of its own.
type demonstration struct {
	config DemoConfig
	steps  [2][]DemoStep
	vi     [2]int
	fault  string
}

func (d *demonstration) note(t *host.Thread, format string, args ...any) {
	node := t.ID().Node
	d.steps[node] = append(d.steps[node], DemoStep{TimePs: int64(t.Now()), Node: node, Where: t.Name(), What: fmt.Sprintf(format, args...)})
}

// open makes a program's side and notes what that was.
func (d *demonstration) open(t *host.Thread, h *driver.Host) (*side, error) {
	if err := t.Begin(); err != nil {
		return nil, err
	}
	d.note(t, "begins")
	s, err := openSide(t, h, rdmaWrite, d.config.Size)
	if err != nil {
		return nil, err
	}
	node := t.ID().Node
	d.vi[node] = s.endpoint.VI.Index()
	b := s.endpoint.Buffer
	ranges, err := h.Memory().Physical(nil, b.Address(), uint64(len(b.Bytes())))
	if err != nil {
		return nil, err
	}
	d.note(t, "has opened its NIC, made VI %d and registered %d bytes at %#x", d.vi[node], len(b.Bytes()), b.Address())
	d.note(t, "the region has handle %#x, its first byte lies at physical address %#x; pages: %d", uint32(b.Handle()), ranges[0].Address, len(ranges))
	return s, nil
}

// write is the program on node 0.
func (d *demonstration) write(t *host.Thread, h *driver.Host) error {
	s, err := d.open(t, h)
	if err != nil {
		return err
	}
	if err := s.endpoint.Dial(t, vipl.At(1, demoPort), waitLimit); err != nil {
		return err
	}
	n := d.config.Size
	d.note(t, "is connected, and knows the peer's buffer: %#x, handle %#x", s.endpoint.Peer.Address, uint32(s.endpoint.Peer.Handle))
	d.note(t, "fills %d bytes, fills in a descriptor and calls PostSend", n)
	if err := s.send(t, pattern{d.config.Seed, 0, demoRound}, n); err != nil {
		return err
	}
	if err := s.sent(t); err != nil {
		return err
	}
	d.note(t, "sees Status and has its buffer back")
	// The peer's word that it has looked: before it, the connection must stay.
	m, ok, err := t.Receive(waitLimit)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("the reader did not answer within %v", waitLimit)
	}
	d.fault = string(m.Data)
	if err := s.arena.guards(0); err != nil && d.fault == "" {
		d.fault = fmt.Sprintf("node 0: %v", err)
	}
	return s.endpoint.Close(t)
}

// read is the program on node 1.
func (d *demonstration) read(t *host.Thread, h *driver.Host) error {
	s, err := d.open(t, h)
	if err != nil {
		return err
	}
	if err := s.endpoint.Accept(t, demoPort, waitLimit); err != nil {
		return err
	}
	d.note(t, "is connected, and polls the last byte of the message to come")
	message := pattern{d.config.Seed, 0, demoRound}
	if err := s.receive(t, message, d.config.Size); err != nil {
		return err
	}
	d.note(t, "sees the last byte change: the message is there")
	fault := ""
	if err := s.arena.check(message, d.config.Size); err != nil {
		fault = fmt.Sprintf("node 1: %v", err)
	} else {
		d.note(t, "compares the message and the bytes around it: all as they must be")
	}
	if err := t.Send(host.ThreadID{Node: 0, Rank: rankPing}, []byte(fault)); err != nil {
		return err
	}
	return s.endpoint.Close(t)
}

// A deed is what an event of the trace means.
type deed struct {
	event    layout.TraceEvent
	receiver bool // it happens at the receiver
	frame    bool // it happens once for each frame, not once for the message
	where    string
	what     string
}

// deeds are the events of a message in the order of its way. An engine knows
// of the end of its write some clocks after the bus has had the last byte, so
// that a program may see the data first.
var deeds = []deed{
	{layout.TraceEventHostDoorbell, false, false, "processor", "stores the descriptor's address and handle to the doorbell: one burst of three dwords"},
	{layout.TraceEventDoorbellCommitted, false, false, "doorbell", "takes the third dword: one more descriptor on the VI's send queue"},
	{layout.TraceEventDescriptorStart, false, false, "descriptor_fetch", "takes the VI from the ready list"},
	{layout.TraceEventDescriptorTranslated, false, false, "att_manager", "knows the physical address of the descriptor"},
	{layout.TraceEventDescriptorFetched, false, false, "descriptor_fetch", "has read the descriptor over PCI"},
	{layout.TraceEventDescriptorParsed, false, false, "descriptor_fetch", "has checked its format and hands it to tx_engine"},
	{layout.TraceEventSendTranslated, false, true, "att_manager", "has checked the send buffer and knows its physical address"},
	{layout.TraceEventPayloadRead, false, true, "dma_read", "has read the last payload byte over PCI"},
	{layout.TraceEventFrameBuilt, false, true, "tx_engine", "has the frame complete in a packet buffer"},
	{layout.TraceEventMacTransmitStart, false, true, "gec", "gives the first word to the MAC"},
	{layout.TraceEventMacTransmitEnd, false, true, "gec", "gives the last word to the MAC"},
	{layout.TraceEventWireStart, false, true, "wire", "carries the first bit"},
	{layout.TraceEventCompletionWritten, false, false, "completion", "knows that Status is in the descriptor"},
	{layout.TraceEventWireEnd, true, true, "wire", "has brought the last bit to the other MAC"},
	{layout.TraceEventMacReceiveStart, true, true, "gec", "takes the first word from the MAC"},
	{layout.TraceEventMacReceiveEnd, true, true, "gec", "has the frame complete in a packet buffer"},
	{layout.TraceEventReceiveParsed, true, true, "rx_engine", "has parsed the header; VI, sender and sequence number are right"},
	{layout.TraceEventReceiveTranslated, true, true, "att_manager", "has checked handle, bounds, tag and rights and knows the physical address"},
	{layout.TraceEventReceiveWritten, true, true, "dma_write", "knows that the last payload byte is in host memory"},
}

// cardSteps tells the way of the first message of node 0, VI vi, from the
// trace of the cards and the wire. If the trace does not show each event as
// often as it must have happened, the error says so, and the steps are what it
// shows.
func cardSteps(events []TraceEvent, vi, peerVI, frames int) ([]DemoStep, error) {
	from, err := findDoorbell(events, 0, 0, vi)
	if err != nil {
		return nil, err
	}
	want := make([]int, len(deeds))
	missing := 0
	for k, d := range deeds {
		want[k] = 1
		if d.frame {
			want[k] = frames
		}
		missing += want[k]
	}
	var steps []DemoStep
	seen := make([]int, len(deeds))
	for _, e := range events[from:] {
		if missing == 0 {
			return steps, nil
		}
		if e.Event == layout.TraceEventRawTransmitted && e.Node == 0 {
			// The wire and the MACs do not say whose a frame is.
			return steps, fmt.Errorf("%w: at %d ps another frame of node 0 lies between its own", ErrTrace, e.TimePs)
		}
		k := slices.IndexFunc(deeds, func(d deed) bool { return d.event == e.Event && d.receiver == (e.Node != 0) })
		if k < 0 || seen[k] == want[k] || hasVI(e.Event) && e.VI != map[bool]int{false: vi, true: peerVI}[deeds[k].receiver] {
			continue
		}
		seen[k]++
		missing--
		s := DemoStep{TimePs: e.TimePs, Node: e.Node, Where: deeds[k].where, What: deeds[k].what}
		if deeds[k].frame && frames > 1 {
			s.Frame = seen[k]
		}
		steps = append(steps, s)
	}
	if missing > 0 {
		k := 0
		for seen[k] == want[k] {
			k++
		}
		return steps, fmt.Errorf("%w: %s %s: %d times, want %d", ErrTrace, deeds[k].where, deeds[k].what, seen[k], want[k])
	}
	return steps, nil
}
