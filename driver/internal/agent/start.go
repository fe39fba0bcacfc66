// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"hvia/driver/internal/call"
	"hvia/host"
	"hvia/host/mem"
	"hvia/layout"
	"hvia/params"
	"hvia/sim/bridge"
)

// Limits that the agent grants.
const (
	// MaxTransferSize is the largest message of a VI.
	MaxTransferSize = 65536
	// MaxTags is the number of protection tags; tag 0 is never assigned.
	MaxTags = 1<<16 - 1

	defaultRegions = 1024
	maxErrors      = 64 // with this many queued asynchronous errors, a NIC handle drops repeated ones
)

// NodeMAC returns the address of a node's card. It replaces a name service that
// maps host names to addresses.
func NodeMAC(node int) layout.MAC {
	return layout.MAC{0x02, 0x48, 0x56, 0x49, byte(node >> 8), byte(node)}
}

// Config configures a node's host side. The zero value of a field takes the
// default.
type Config struct {
	Memory    *mem.Memory
	Device    Device // DeviceHvia
	Costs     host.CostModel
	Logger    *slog.Logger // nil = silent
	Seed      uint64       // of sequence numbers and identifiers
	Transport Transport    // of the reliable levels
	Regions   int          // largest number of registered regions: 1,024
	Programs  int          // threads that call Leave before the agent ends: 1
	Quota     Quota        // of each process
	Names     []string     // of the fabric's nodes, for the name service: node0, node1 and so on
	Switch    bool         // a switch connects two nodes; more than two always have one
	Profile   string       // the card's profile in package params: params.Base
	// Params replaces parameters of the profile, as sim.Config.Params does.
	Params map[string]int64

	// A resident agent serves processes that Enter, and ends with its fabric.
	Resident bool
	Frames   int // of the node, if Memory is only the agent's part; default: those of Memory
}

// startAgent starts the kernel agent of a node on its thread of rank 0.
func Start(t *host.Thread, c Config) (*Agent, error) {
	node := t.ID().Node
	if c.Memory == nil || t.ID().Rank != call.AgentRank {
		return nil, fmt.Errorf("driver: start the agent of node %d on rank %d, memory given: %v: rank %d and the node's memory are needed: %w",
			node, t.ID().Rank, c.Memory != nil, call.AgentRank, host.ErrInvalidParameter)
	}
	c.Regions = cmp.Or(c.Regions, defaultRegions)
	if err := c.Device.Check(); err != nil {
		return nil, fmt.Errorf("driver: start the agent of node %d: %w", node, err)
	}
	set, err := params.ForProfile(c.Profile)
	if err != nil {
		return nil, fmt.Errorf("driver: start the agent of node %d: %w: %w", node, err, host.ErrInvalidParameter)
	}
	settings, err := c.Transport.settle(func(name string) (int64, error) {
		if v, ok := c.Params[name]; ok {
			return v, nil
		}
		return set.Lookup(name)
	})
	if err != nil {
		return nil, fmt.Errorf("start the agent of node %d: %w", node, err)
	}
	a := &Agent{
		config: c, thread: t, memory: c.Memory, costs: c.Costs, log: c.Logger.With("node", node), mac: NodeMAC(node), started: time.Now(),
		nics: map[uint32]*nic{}, tags: map[uint16]*tag{}, programs: cmp.Or(c.Programs, 1), resident: c.Resident, settings: settings, quota: c.Quota,
		frames: max(c.Frames, c.Memory.Frames()), reclaimed: map[int]chan struct{}{},
		random: host.SplitMix(c.Seed) ^ host.SplitMix(uint64(node)<<32), client: call.Client{End: call.NewEnd(node)},
	}
	a.device = &cardDevice{agent: a}
	if c.Device == DeviceMvia {
		a.device = newMvia(a)
	}
	if !c.Resident {
		only := &process{name: "this process", Client: call.Client{Ranks: call.ReplySlots, End: a.client.End}, memory: c.Memory, uses: c.Quota.uses()}
		if err := only.prepare(); err != nil {
			return nil, err
		}
		a.processes, a.client = []*process{only}, only.Client
	}
	go a.run()
	return a, nil
}

// run serves until the agent's end, and reports it.
func (a *Agent) run() {
	err := a.start(a.config.Regions)
	if err == nil {
		err = a.serve()
	} else {
		a.refuse(err)
	}
	switch {
	case err != nil && a.resident && (a.thread.Context().Err() != nil || errors.Is(err, bridge.ErrClosed)):
		a.log.Debug("the kernel agent ended with its fabric", "error", err)
	case err != nil:
		a.log.Error("the kernel agent ended", "error", err)
	}
	// Every other call reports the run's end too.
	if detach := a.thread.Detach(); err == nil && detach != nil {
		err = detach
	}
	a.client.End.Err = err
	close(a.client.End.Done)
}

// Client returns the client of the programs in the agent's process.
func (a *Agent) Client() call.Client { return a.client }

// Spent returns the agent's account.
func (a *Agent) Spent() host.Account { return a.thread.Spent() }

// MVIA returns the agent's device if that is M-VIA, else nil.
func (a *Agent) MVIA() *MVIA {
	m, _ := a.device.(*MVIA)
	return m
}
