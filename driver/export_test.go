// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"hvia/host"
	"hvia/host/mem"
)

// What a process could say that has another library than this one: names of things
// that are not its own.

// Of is a VI as another process names it.
func (v VI) Of(h *Host, nic uint32) VI { v.host, v.nic = h, nic; return v }

// Of is a completion queue as another process names it.
func (c *CQ) Of(h *Host, nic uint32) *CQ {
	return &CQ{Number: c.Number, nic: nic, generation: c.generation, host: h}
}

// Of is a connection request as another process names it.
func (r *Request) Of(h *Host, nic uint32) *Request {
	return &Request{id: r.id, nic: nic, host: h}
}

// FreeReplies asks the agent to free the memory in which it answers.
func (h *Host) FreeReplies(t *host.Thread) error { return h.Free(t, h.replies) }

// FreeStatuses is the same for the status page.
func (h *Host) FreeStatuses(t *host.Thread) error { return h.Free(t, h.statuses) }

// Ask sends the agent of the thread's node a request and does not wait for an answer.
func Ask(t *host.Thread, id uint32) error {
	return t.Send(host.ThreadID{Node: t.ID().Node, Rank: AgentRank}, encodeRequest(&request{Op: opOpenNIC, ID: id}))
}

// Answered is the number of the last request of a thread that was answered.
func (h *Host) Answered(rank int) uint32 {
	return mem.LoadUint32(h.replies.Bytes()[(rank-h.first)*replySlot:])
}
