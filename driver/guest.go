// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"log/slog"

	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
)

// GuestConfig describes the host side of a process that another process's agent
// serves.
type GuestConfig struct {
	Node      int
	Device    Device
	Memory    mem.Config // its bank; the agent sets Use and Seed
	FirstRank int
	Ranks     int
	Entry     Entry          // what the agent prepared
	Costs     host.CostModel // of work in the process
	Logger    *slog.Logger   // nil = silent
}

// NewGuest creates the host side of a process of a resident agent. fabric.Join
// calls it; programs on another fabric call it directly.
func NewGuest(c GuestConfig) (*Host, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	fail := func(err error) (*Host, error) {
		return nil, fmt.Errorf("driver: set up a process of node %d: %w", c.Node, err)
	}
	if c.Ranks < 1 || c.Ranks > MaxThreads || c.FirstRank <= AgentRank {
		return fail(fmt.Errorf("%d threads from rank %d on: %w", c.Ranks, c.FirstRank, host.ErrInvalidParameter))
	}
	m, err := mem.OpenBank(c.Memory)
	if err != nil {
		return fail(err)
	}
	h := &Host{
		node: c.Node, device: c.Device, memory: m, costs: c.Costs, log: c.Logger, client: call.Client{First: c.FirstRank, Ranks: c.Ranks, End: call.NewEnd(c.Node)},
	}
	if h.client.Replies, err = m.Adopt(c.Entry.Replies, c.Ranks*call.ReplySlot); err == nil {
		h.client.Statuses, err = m.Adopt(c.Entry.Statuses, mem.PageBytes)
	}
	if err != nil {
		m.Close()
		return fail(err)
	}
	return h, nil
}

// EndGuest ends the host side because the agent is not reachable any more, with
// the reason. Waiting calls return within a second.
func (h *Host) EndGuest(why error) {
	h.client.End.Err = why
	close(h.client.End.Done)
}

// LeaveFabric releases everything that the process has on the card, in the
// order of simulated time. If it fails, the end of the process releases
// everything, outside of that order.
func (h *Host) LeaveFabric(t *host.Thread) error {
	if h.Agent != nil {
		return fmt.Errorf("driver: leave the fabric from node %d: this process has its agent to itself: %w", h.node, errors.ErrUnsupported)
	}
	_, err := h.call(t, &call.Request{Op: call.OpLeave})
	return err
}
