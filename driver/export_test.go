// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
)

// Requests of a process with a modified library: they name objects of other
// processes.

// Of returns a VI as another process names it.
func (v VI) Of(h *Host, nic uint32) VI { v.host, v.nic = h, nic; return v }

// Of returns a completion queue as another process names it.
func (c *CQ) Of(h *Host, nic uint32) *CQ {
	return &CQ{Number: c.Number, nic: nic, generation: c.generation, host: h}
}

// Of returns a connection request as another process names it.
func (r *Request) Of(h *Host, nic uint32) *Request {
	return &Request{id: r.id, nic: nic, host: h}
}

// FreeReplies asks the agent to free its memory for replies.
func (h *Host) FreeReplies(t *host.Thread) error { return h.Free(t, h.client.Replies) }

// FreeStatuses asks it to free the status page.
func (h *Host) FreeStatuses(t *host.Thread) error { return h.Free(t, h.client.Statuses) }

// Ask sends a request to the agent of the thread's node and does not wait for
// the reply.
func Ask(t *host.Thread, id uint32) error {
	return t.Send(host.ThreadID{Node: t.ID().Node, Rank: AgentRank}, call.Encode(&call.Request{Op: call.OpOpenNIC, ID: id}))
}

// Answered returns the ID of the last answered request of a thread.
func (h *Host) Answered(rank int) uint32 {
	return mem.LoadUint32(h.client.Replies.Bytes()[h.client.Slot(rank):])
}
