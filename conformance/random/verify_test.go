// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hvia/conformance/model"
	"hvia/layout"
	"hvia/vipl"
)

// mismatch is a difference between run and model.
type mismatch struct {
	side, pair int
	op         int // -1 = not known
	text       string
}

func (m *mismatch) Error() string { return m.text }

func (r *randomRun) differs(side, pair, op int, format string, a ...any) error {
	text := fmt.Sprintf("side %d, pair %d: ", side, pair) + fmt.Sprintf(format, a...)
	if op >= 0 {
		text += fmt.Sprintf("\n  of operation %d: %v", op, r.ops[op])
	}
	return &mismatch{side, pair, op, text}
}

// verify compares the observations with the model.
func (r *randomRun) verify(upto int) error {
	errors := r.takeErrors(r.w)
	for _, i := range r.races(upto) {
		w, more, err := r.decide(i, errors)
		if err != nil {
			return err
		}
		r.w, errors = w, more
	}
	raced := map[int]bool{}
	for _, i := range r.races(upto) {
		raced[r.ops[i].pair] = true
	}
	for pair := range randomPairs {
		if raced[pair] {
			continue // decide compared it
		}
		for side := range sides {
			if err := r.compare(r.w, errors, side, pair); err != nil {
				return err
			}
		}
	}
	for _, n := range r.nodes {
		for _, e := range n.errors {
			if !slices.ContainsFunc(n.vis[:], func(v *vipl.VI) bool { return v != nil && v.Index() == e.VI }) {
				return r.differs(-1, -1, -1, "node %d: asynchronous error %v of an unknown VI", n.node, e)
			}
		}
		if err := r.compareEntries(n); err != nil {
			return err
		}
	}
	return nil
}

// compareEntries compares the entries of a node's completion queues.
func (r *randomRun) compareEntries(n *randomNode) error {
	if len(n.early) > 0 {
		return r.differs(-1, -1, -1, "node %d: the %v has an entry without a completion", n.node, n.early[0])
	}
	// An overrun names the VI but not the work queue.
	reported := map[int]int{}
	for _, e := range n.errors {
		if e.Code == layout.AsyncErrorCompletionQueueOverrun {
			reported[e.VI]++
		}
	}
	h := r.w.fabric.Hosts[n.node]
	for q := range n.queues {
		c := h.CompletionQueue(q)
		missing := map[int]int{}
		for _, vi := range c.Missing(n.entries[q]) {
			if reported[vi] > 0 {
				reported[vi]--
				missing[vi]++
			}
		}
		r.tally["entries"] += len(n.entries[q])
		if err := c.Settle(n.entries[q], missing); err != nil {
			return r.differs(-1, -1, -1, "node %d, completion queue %d: %v", n.node, q, err)
		}
	}
	for vi, left := range reported {
		if left > 0 {
			return r.differs(-1, -1, -1, "node %d: %d overruns of VI %d were reported, and no entry is missing", n.node, left, vi)
		}
	}
	return nil
}

// pendingErrors are the asynchronous errors that the model predicts.
type pendingErrors [maxNodes][]model.AsyncError

func (r *randomRun) takeErrors(w *world) (all pendingErrors) {
	for node, h := range w.fabric.Hosts {
		all[node] = h.TakeErrors()
	}
	return all
}

// decide tries every possible progress of a race, and returns the outcome that
// matches the observations.
func (r *randomRun) decide(i int, before pendingErrors) (*world, pendingErrors, error) {
	o := r.ops[i]
	reliable := r.w.vi(o.side, o.pair).Attributes().Reliability != layout.ReliabilityUnreliable
	frames, responses := 0, 0 // frames of the sends and of read responses
	for part := range o.sends {
		d := layout.Descriptor(r.effects[i].raw[part])
		n := int(d.Length()%(1<<17))/layout.MaxPayload + 1
		if reliable && o.sends[part].operation() == layout.DescriptorOperationRDMARead {
			n, responses = 1, responses+n+1 // the completion is a separate step
		}
		frames += n
	}
	sent := frames
	if reliable {
		sent = len(o.sends) // a step is an acknowledged message
	}
	try := func(stop stops) (*world, pendingErrors, error) {
		w := *r.w
		w.fabric = r.w.fabric.Clone()
		all := before
		if err := w.apply(o, r.effects[i], stop); err != nil {
			return nil, all, err
		}
		for node, more := range r.takeErrors(&w) {
			all[node] = append(slices.Clone(all[node]), more...)
		}
		return &w, all, nil
	}
	var reasons []error
	no := func(stop stops, err error) {
		reasons = append(reasons, fmt.Errorf("not %d steps sent, %d frames arrived, %d of read responses: %w", stop.sent, stop.arrived, stop.returned, err))
	}
	for stop := (stops{}); stop.sent <= sent; stop.sent++ {
		if !reliable {
			// The sender's completions do not depend on the arrivals.
			w, all, err := try(stops{sent: stop.sent})
			if err != nil {
				return nil, all, err
			}
			if err := r.compare(w, all, o.side, o.pair); err != nil {
				no(stops{sent: stop.sent}, err)
				continue
			}
		}
		for stop.arrived = 0; stop.arrived <= frames && (reliable || stop.arrived <= stop.sent); stop.arrived++ {
			for stop.returned = 0; stop.returned <= responses; stop.returned++ {
				w, all, err := try(stop)
				if err != nil {
					return nil, all, err
				}
				for side := range sides {
					if err == nil {
						err = r.compare(w, all, side, o.pair)
					}
				}
				if err != nil {
					no(stop, err)
					continue
				}
				return w, all, nil
			}
		}
	}
	return nil, before, fmt.Errorf("no allowed outcome of operation %d (%v) fits:\n%w", i, o, errors.Join(reasons...))
}

// count adds the observations to the tally and clears them.
func (r *randomRun) count() {
	for _, n := range r.nodes {
		for pair := range randomPairs {
			if n.side(pair) < 0 {
				continue
			}
			for queue, all := range n.seen[pair] {
				for _, c := range all {
					text := [...]string{"send: ", "receive: "}[queue] + model.StatusText(c.status)
					if queue == 0 && vipl.DescriptorStatus(c.status)&vipl.DescriptorErrorMask != 0 && c.length > 0 {
						text += ", some was sent"
					}
					r.tally[text]++
				}
			}
			r.tally["state: "+n.states[pair].String()]++
		}
		for _, e := range n.errors {
			r.tally["asynchronous: "+e.Code.String()]++
		}
		n.seen, n.errors, n.entries, n.early = [randomPairs][2][]completion{}, nil, [randomQueues][]model.Source{}, nil
		n.late = map[model.Source]int{}
	}
}

// compare compares one VI and its memory with the model.
func (r *randomRun) compare(w *world, all pendingErrors, side, pair int) error {
	n, v := r.at(side, pair), w.vi(side, pair)
	if v == nil {
		return r.compareMemory(w, side, pair)
	}
	for queue, take := range []func() (model.Completion, model.Taken){v.SendDone, v.ReceiveDone} {
		name := [...]string{"send queue", "receive queue"}[queue]
		seen := n.seen[pair][queue]
		for i := 0; ; i++ {
			want, taken := take()
			switch {
			case taken != model.Done && i == len(seen):
			case taken != model.Done:
				return r.differs(side, pair, seen[i].op, "%s: got %v, want none", name, seen[i])
			case i == len(seen):
				op := -1
				if p := n.posted[pair][queue]; len(p) > 0 {
					op = p[0].op
				}
				return r.differs(side, pair, op, "%s: no completion, want %v", name, want)
			case seen[i].op < 0 || seen[i].d.Address != want.Address:
				return r.differs(side, pair, seen[i].op, "%s: got %v, want %v: wrong order", name, seen[i], want)
			case want.Allows(seen[i].status, seen[i].length, seen[i].immediate):
			default:
				return r.differs(side, pair, seen[i].op, "%s: got %v, want %v", name, seen[i], want)
			}
			if taken != model.Done {
				break
			}
			// The model's memory takes over the completion that came.
			d := layout.Descriptor(w.host(side, pair).Memory(want.Address, layout.DescriptorSize))
			d.SetStatus(seen[i].status)
			d.SetLength(seen[i].length)
		}
	}
	if n.states[pair] != v.State() {
		return r.differs(side, pair, -1, "state %v, want %v", n.states[pair], v.State())
	}
	of := func(errors []model.AsyncError) (codes []string) {
		for _, e := range errors {
			if e.VI == v.Index() && e.Code != layout.AsyncErrorCompletionQueueOverrun {
				codes = append(codes, e.Code.String())
			}
		}
		slices.Sort(codes)
		return codes
	}
	if got, want := of(n.errors), of(all[r.on[pair][side]]); !slices.Equal(got, want) {
		return r.differs(side, pair, -1, "asynchronous errors %v, want %v", got, want)
	}
	return r.compareMemory(w, side, pair)
}

func (c completion) String() string {
	s := fmt.Sprintf("descriptor at %#x: status %#x (%s), length %d", c.d.Address, c.status, model.StatusText(c.status), c.length)
	if c.status&layout.DescriptorStatusImmediateMask != 0 {
		s += fmt.Sprintf(", immediate %#x", c.immediate)
	}
	return s
}

// compareMemory compares every byte of a VI's memory, except the links of
// descriptors, which belong to the provider.
func (r *randomRun) compareMemory(w *world, side, pair int) error {
	n, h := r.at(side, pair), w.host(side, pair)
	for area, b := range n.buffers[pair] {
		got, want := b.Bytes(), h.Memory(b.Address(), uint64(b.Len()))
		if areaBytes(area) == queueBytes {
			for slot := range slots {
				copy(want[slot*slotBytes:][:layout.DescriptorSegmentCountOffset], got[slot*slotBytes:])
			}
		}
		if bytes.Equal(got, want) {
			continue
		}
		first, last, count := -1, 0, 0
		for i := range got {
			if got[i] != want[i] {
				if first < 0 {
					first = i
				}
				last = i
				count++
			}
		}
		var around strings.Builder
		for i := first; i < min(first+16, len(got)); i++ {
			fmt.Fprintf(&around, " %02x/%02x", got[i], want[i])
		}
		return r.differs(side, pair, -1, "%s: %d bytes differ, from %d to %d; the first ones got/want%s",
			[...]string{"source", "target", "send queue's memory", "receive queue's memory", "read"}[area], count, first, last, &around)
	}
	return nil
}
