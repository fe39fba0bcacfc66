// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"slices"
)

// Clone returns an independent copy, to try one of several allowed outcomes.
func (f *Fabric) Clone() *Fabric {
	out := New(len(f.Hosts), f.depth)
	out.FetchOnArrival, out.Lose, out.Faulty = f.FetchOnArrival, f.Lose, f.Faulty
	vis := map[*VI]*VI{}
	for i, h := range f.Hosts {
		to := out.Hosts[i]
		to.regions, to.errors = maps.Clone(h.regions), slices.Clone(h.errors)
		for i := range h.buffers {
			h.buffers[i].shared = true
		}
		to.buffers = slices.Clone(h.buffers)
		for number, q := range h.queues {
			to.queues[number] = q.clone()
		}
		for index, v := range h.vis {
			to.vis[index] = v.clone(to)
			vis[v] = to.vis[index]
		}
	}
	for from, to := range vis {
		to.peer = vis[from.peer]
	}
	return out
}

// clone copies all but the peer.
func (v *VI) clone(h *Host) *VI {
	out := *v
	out.host = h
	out.send, _ = v.send.clone(nil)
	if v.head == nil {
		out.receive, _ = v.receive.clone(nil)
	} else {
		head := *v.head
		out.head = &head
		head.host = h
		out.receive, head.posted = v.receive.clone(head.posted)
	}
	if v.message != nil {
		m := *v.message
		out.message = &m
		if m.descriptor != nil { // it is the head
			m.descriptor = out.head
			m.segments.descriptor = &out.head.descriptor
		}
	}
	return &out
}

// clone copies the queue and returns the copy of one descriptor.
func (q *queue) clone(one *posted) (out queue, copied *posted) {
	out.posted = slices.Clone(q.posted)
	for i, p := range q.posted {
		c := *p
		out.posted[i] = &c
		if p == one {
			copied = &c
		}
	}
	return out, copied
}
