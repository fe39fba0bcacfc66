// SPDX-License-Identifier: Apache-2.0

package random_test

import (
	"errors"
	"fmt"
	"slices"

	"hvia/conformance"
	"hvia/conformance/model"
	"hvia/host"
	"hvia/layout"
	"hvia/vipl"
)

// reap reaps the expected completions, and then any others.
func (n *randomNode) reap() error {
	poll := func() error {
		for q := range n.queues {
			if err := n.poll(q); err != nil {
				return err
			}
		}
		return nil
	}
	steps := []func() error{
		n.collect, n.awaitCompletions, n.awaitStates, func() error { return n.T.Sleep(drainPause) },
		poll, n.reapRest, poll, n.takeErrors,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if n.run.bugs.observed != nil {
		n.run.bugs.observed(n)
	}
	return nil
}

// awaitCompletions reaps the expected completions of work queues without a
// completion queue.
func (n *randomNode) awaitCompletions() error {
	for pair, v := range n.vis {
		for queue := range 2 {
			if v == nil || n.tied[pair][queue] > 0 {
				continue
			}
			for range n.want[pair][queue] {
				wait := v.SendWait
				if queue == 1 {
					wait = v.RecvWait
				}
				d, err := wait(n.T, completionTimeout)
				if d == nil {
					if errors.Is(err, vipl.ErrTimeout) || errors.Is(err, vipl.ErrDescriptor) {
						break // compare reports the missing completion
					}
					return err
				}
				n.note(pair, queue, d)
			}
		}
	}
	return nil
}

// awaitStates waits for the expected state of each VI.
func (n *randomNode) awaitStates() error {
	for pair, v := range n.vis {
		n.states[pair] = layout.VIStateFree
		for waited := host.Time(0); v != nil && waited <= completionTimeout; waited += statePause {
			info, err := v.Query(n.T)
			if err != nil {
				return err
			}
			if n.states[pair] = info.State; info.State == n.expect[pair] {
				break
			}
			if err := n.T.Sleep(statePause); err != nil {
				return err
			}
		}
	}
	return nil
}

// reapRest reaps all other completions of the work queues.
func (n *randomNode) reapRest() error {
	for pair, v := range n.vis {
		if v == nil {
			continue
		}
		for queue, done := range []func(*host.Thread) (*vipl.Descriptor, error){v.SendDone, v.RecvDone} {
			for {
				d, err := done(n.T)
				if d == nil {
					if empty := len(n.posted[pair][queue]) == 0; empty && !errors.Is(err, vipl.ErrDescriptor) || !empty && !errors.Is(err, vipl.ErrNotDone) {
						return fmt.Errorf("node %d, pair %d, queue %d with %d descriptors: %w", n.node, pair, queue, len(n.posted[pair][queue]), err)
					}
					break
				}
				n.note(pair, queue, d)
				if n.tied[pair][queue] > 0 {
					n.late[model.Source{VI: v.Index(), Receive: queue == 1}]++
				}
			}
		}
	}
	return nil
}

// takeErrors records the asynchronous errors.
func (n *randomNode) takeErrors() error {
	for {
		e, err := n.NIC.ErrorWait(n.T, 0)
		if errors.Is(err, vipl.ErrTimeout) {
			return nil
		}
		if err != nil {
			return err
		}
		n.errors = append(n.errors, model.AsyncError{Code: e.Code, VI: e.VI})
	}
}

// rest waits until the descriptors of work queues with completion queues are
// done, or no more of them become done. Polling earlier would free slots for
// entries that should be lost.
func (n *randomNode) rest() error {
	open := func() (sum int) {
		for pair, v := range n.vis {
			for queue := range 2 {
				if v == nil || n.tied[pair][queue] == 0 {
					continue
				}
				for _, p := range n.posted[pair][queue][:min(n.want[pair][queue], len(n.posted[pair][queue]))] {
					if p.d.Status()&vipl.DescriptorDone == 0 {
						sum++
					}
				}
			}
		}
		return sum
	}
	for left, still := open(), 0; left > 0 && still < idlePauses; still++ {
		if err := n.T.Sleep(statePause); err != nil {
			return err
		}
		if now := open(); now != left {
			left, still = now, 0
		}
	}
	if len(n.queues) == 0 {
		return nil
	}
	return n.T.Sleep(statePause) // time for the entry of the last completion
}

// collect polls the completion queues for the expected completions. Entries may
// be lost, so a completion may be done without an entry.
func (n *randomNode) collect() error {
	if err := n.rest(); err != nil {
		return err
	}
	missing := func() bool {
		for pair, v := range n.vis {
			for queue := range 2 {
				if v != nil && n.tied[pair][queue] > 0 && n.want[pair][queue] > 0 {
					return true
				}
			}
		}
		return false
	}
	for waited := host.Time(0); len(n.queues) > 0 && missing() && waited <= completionTimeout; waited += statePause {
		for q := range n.queues {
			if err := n.poll(q); err != nil {
				return err
			}
		}
		if err := n.T.Sleep(statePause); err != nil {
			return err
		}
	}
	return nil
}

// poll takes all entries of a completion queue, and reaps the completion of
// each entry, which must be done.
func (n *randomNode) poll(number int) error {
	for {
		got, err := n.queues[number].Done(n.T)
		v, receive := got.VI, got.Receive
		if errors.Is(err, vipl.ErrNotDone) {
			return nil
		}
		if err != nil {
			return err
		}
		source := model.Source{VI: v.Index(), Receive: receive}
		n.entries[number] = append(n.entries[number], source)
		queue := 0
		if receive {
			queue = 1
		}
		d, err := got.Done(n.T)
		if d == nil {
			if !errors.Is(err, vipl.ErrNotDone) && !errors.Is(err, vipl.ErrDescriptor) {
				return err
			}
			if n.late[source]--; n.late[source] < 0 && n.reaches(v, queue) {
				n.early = append(n.early, source)
			}
			continue
		}
		pair := slices.Index(n.vis[:], v)
		n.note(pair, queue, d)
		n.want[pair][queue]--
	}
}

// reaches reports whether the card can complete the head of a work queue. If
// not, descriptors behind it are done before the library has completed the
// head.
func (n *randomNode) reaches(v *vipl.VI, queue int) bool {
	r, pair := n.run, slices.Index(n.vis[:], v)
	if len(n.posted[pair][queue]) == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	regions := r.live.sides[n.side(pair)].regions[pair][queueArea(queue == 1)]
	handle := uint32(n.posted[pair][queue][0].d.Handle)
	return handle == regions[regionFull].handle || handle == regions[regionPart].handle
}

// note records a completion. It must be that of the oldest descriptor.
func (n *randomNode) note(pair, queue int, d *vipl.Descriptor) {
	q := &n.posted[pair][queue]
	c := completion{posting: posting{op: -1, d: d}, status: uint32(d.Status()), length: conformance.Raw(d).Length(), immediate: conformance.Raw(d).ImmediateData()}
	if len(*q) > 0 && (*q)[0].d == d {
		c.posting = (*q)[0]
		*q = (*q)[1:]
	}
	n.seen[pair][queue] = append(n.seen[pair][queue], c)
}
