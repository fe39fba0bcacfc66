// SPDX-License-Identifier: Apache-2.0

package reproduce

import (
	"context"
	"fmt"

	"hvia/bench/report"
	"hvia/bench/rig"
	"hvia/costs"
	"hvia/driver"
	"hvia/fabric"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// streamConfig is messages one way, one after the other, from node 0 to node 1.
type streamConfig struct {
	Profile  string
	Seed     uint64
	Size     int              // bytes of a message
	Messages int              // each is posted when the one before has left the card
	Straps   uint32           // of both cards, bits as layout.Strap
	Params   map[string]int64 // numbers instead of the profile's
}

type streamed struct {
	// Span is the time from the first doorbell to the last byte in the peer's
	// memory.
	Span host.Time
	// The sender's buses while the MAC takes frames: busy time over time.
	SystemBusy, MACBusy float64
	ReceiverMACBusy     float64 // of node 1, while its MAC writes frames
}

// BytesPerSecond is the payload of the whole stream over its span.
func (s *streamed) BytesPerSecond(c streamConfig) int64 {
	return report.BytesPerSecond(c.Size*c.Messages, int64(s.Span))
}

// runStream sends the messages, checks every byte of the last one and reads the
// trace. The receiver's program only polls, so that its bus carries only the
// stream.
func runStream(ctx context.Context, c streamConfig) (_ *streamed, err error) {
	rec, err := rig.Record("", "")
	if err != nil {
		return nil, fmt.Errorf("stream: %w", err)
	}
	defer rec.Remove()
	b, err := costs.New(c.Profile, c.Params)
	if err != nil {
		return nil, err
	}
	cfg := rig.Cards(b, c.Seed, 2)
	cfg.Arguments = []string{"--strap", fmt.Sprint(c.Straps)}
	rec.Into(&cfg)
	var vis [2]int
	open := func(t *host.Thread, h *driver.Host) (*rig.Side, error) {
		if err := t.Begin(); err != nil {
			return nil, err
		}
		s, err := rig.OpenSide(t, h, rig.RDMAWrite, c.Size)
		if err == nil {
			vis[t.ID().Node] = s.Endpoint.VI.Index()
		}
		return s, err
	}
	const port = "stream"
	send := func(t *host.Thread, h *driver.Host) error {
		s, err := open(t, h)
		if err != nil {
			return err
		}
		if err := s.Endpoint.Dial(t, vipl.At(1, port), rig.WaitLimit); err != nil {
			return err
		}
		for n := range c.Messages {
			if err := s.Send(t, rig.Pattern{Seed: c.Seed, Sender: 0, Round: n}, c.Size); err != nil {
				return err
			}
			if err := s.Sent(t); err != nil {
				return err
			}
		}
		// The connection must stay until the peer says that it has checked the
		// data.
		if _, ok, err := t.Receive(rig.WaitLimit); err != nil {
			return err
		} else if !ok {
			return fmt.Errorf("the receiver said nothing within %v", rig.WaitLimit)
		}
		return s.Endpoint.Close(t)
	}
	receive := func(t *host.Thread, h *driver.Host) error {
		s, err := open(t, h)
		if err != nil {
			return err
		}
		if err := s.Endpoint.Accept(t, port, rig.WaitLimit); err != nil {
			return err
		}
		last := rig.Pattern{Seed: c.Seed, Sender: 0, Round: c.Messages - 1}
		if err := s.Receive(t, last, c.Size); err != nil {
			return err
		}
		if err := s.Arena.Check(last, c.Size); err != nil {
			return err
		}
		if err := t.Send(host.ThreadID{Node: 0, Rank: rig.RankPing}, []byte("there")); err != nil {
			return err
		}
		return s.Endpoint.Close(t)
	}
	if err := fabric.Run(ctx, fabric.RunConfig{Fabric: cfg, Costs: b.Costs(), Seed: c.Seed},
		fabric.Program{Node: 0, Name: "sender", Main: send}, fabric.Program{Node: 1, Name: "receiver", Main: receive}); err != nil {
		return nil, fmt.Errorf("stream: %w", err)
	}
	events, err := rec.Events()
	if err != nil {
		return nil, err
	}
	return foldStream(events, vis)
}

// foldStream reads the figures out of a trace.
func foldStream(events []rig.TraceEvent, vis [2]int) (*streamed, error) {
	// The first and the last time of an event of the stream's VI, -1 without
	// one.
	span := func(node int, e layout.TraceEvent) (first, last int64) {
		first, last = -1, -1
		for _, x := range events {
			if x.Node != node || x.VI != vis[node] || x.Event != e {
				continue
			}
			if first < 0 {
				first = x.TimePs
			}
			last = x.TimePs
		}
		return first, last
	}
	start, _ := span(0, layout.TraceEventDoorbellCommitted)
	_, end := span(1, layout.TraceEventReceiveWritten)
	from, _ := span(0, layout.TraceEventMacTransmitStart)
	_, to := span(0, layout.TraceEventMacTransmitEnd)
	if start < 0 || from < 0 || end <= start || to <= from {
		return nil, fmt.Errorf("%w: no stream between VI %d of node 0 and VI %d of node 1", rig.ErrTrace, vis[0], vis[1])
	}
	s := &streamed{Span: host.Time(end - start)}
	s.SystemBusy = rig.Busy(events, 0, layout.TraceEventHostBusStart, layout.TraceEventHostBusEnd, from, to)
	s.MACBusy = rig.Busy(events, 0, layout.TraceEventMacBusStart, layout.TraceEventMacBusEnd, from, to)
	// The same span, delayed by the wire.
	lag := end - to
	s.ReceiverMACBusy = rig.Busy(events, 1, layout.TraceEventMacBusStart, layout.TraceEventMacBusEnd, from+lag, to+lag)
	return s, nil
}
