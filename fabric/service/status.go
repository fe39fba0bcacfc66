// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"hvia/driver"
	"hvia/fabric/internal/hub"
	"hvia/host"
	"hvia/layout"
)

// StatusSchema names the schema of a Status.
const StatusSchema = "hvia-ps/1"

// Status is the state of a fabric at one moment.
type Status struct {
	Schema       string       `json:"schema"`
	Fabric       string       `json:"fabric"`
	Mode         string       `json:"mode"`
	Pid          int          `json:"pid"`           // of the service
	SimulatorPid int          `json:"simulator_pid"` // of its simulator
	Since        time.Time    `json:"since"`
	Nodes        []NodeStatus `json:"nodes"`
}

// NodeStatus is the state of a node.
type NodeStatus struct {
	Node      int             `json:"node"`
	Address   string          `json:"address"` // of its card
	Processes []ProcessStatus `json:"processes"`
	VIs       []VIStatus      `json:"vis"`
	// Counters are the card's counters that are not 0. Timed mode omits them:
	// reading them takes simulated time.
	Counters map[string]uint32 `json:"counters,omitempty"`
}

// ProcessStatus is the state of a process.
type ProcessStatus struct {
	Name        string    `json:"name"`
	Pid         int       `json:"pid"`
	Since       time.Time `json:"since"`
	MemoryBytes int64     `json:"memory_bytes"` // its bank
	NICs        int       `json:"nics"`         // open handles
	Regions     int       `json:"regions"`
	RegionBytes uint64    `json:"region_bytes"`
	CQs         int       `json:"cqs"`
}

// VIStatus is the state of one VI.
type VIStatus struct {
	Index       int    `json:"index"`
	Pid         int    `json:"pid"` // of its process
	State       string `json:"state"`
	Reliability string `json:"reliability"`
	Peer        string `json:"peer,omitempty"` // address of the card at the other end of its connection
}

var levels = map[layout.Reliability]string{
	layout.ReliabilityUnreliable: "unreliable delivery", layout.ReliabilityDelivery: "reliable delivery", layout.ReliabilityReception: "reliable reception",
}

// Status returns the state of the fabric.
func (s *Service) Status() Status {
	st := Status{Schema: StatusSchema, Fabric: s.config.Name, Mode: string(s.config.Fabric.Mode), Pid: os.Getpid(), SimulatorPid: s.fabric.Pid(), Since: s.started}
	for _, n := range s.nodes {
		h := n.host.Agent.Status()
		ns := NodeStatus{Node: n.number, Address: driver.NodeMAC(n.number).String(), Processes: []ProcessStatus{}, VIs: []VIStatus{}}
		pids := map[int]int{}
		for _, p := range h.Processes {
			pids[p.ID] = p.Pid
			ns.Processes = append(ns.Processes, ProcessStatus{
				Name: p.Name, Pid: p.Pid, Since: p.Since, MemoryBytes: p.MemoryBytes, NICs: p.NICs, Regions: p.Regions, RegionBytes: p.RegionBytes, CQs: p.CQs,
			})
		}
		for _, v := range h.VIs {
			vs := VIStatus{Index: v.Index, Pid: pids[v.Process], State: v.State.String(), Reliability: levels[layout.Reliability(v.Reliability)]}
			if v.Connected {
				vs.Peer = v.Peer.String()
			}
			ns.VIs = append(ns.VIs, vs)
		}
		if !s.timed() {
			if counters, err := s.counters(n); err != nil {
				s.log.Debug("counters", "node", n.number, "error", err)
			} else {
				ns.Counters = counters
			}
		}
		st.Nodes = append(st.Nodes, ns)
	}
	return st
}

func (s *Service) counters(n *node) (map[string]uint32, error) {
	all := map[string]uint32{}
	err := s.order(n, func(t *host.Thread) error {
		for c := range layout.Counter(layout.CounterSlots) {
			name := c.String()
			if strings.Contains(name, "(") {
				continue // no counter has that number
			}
			v, err := t.Read(layout.PciBar0Base + layout.CounterBase + 4*uint32(c))
			if err != nil {
				return err
			}
			if v != 0 {
				all[name] = v
			}
		}
		return nil
	})
	return all, err
}

func (s *Service) answerStatus(c *net.UnixConn) {
	b, err := json.Marshal(s.Status())
	if err != nil {
		_ = hub.Send(c, hub.Reply{Error: err.Error()})
		return
	}
	// JSON inside JSON: escaping doubles each quote and backslash.
	const piece = hub.MaxPacket / 4
	for len(b) > piece {
		n := cut(b, piece)
		if hub.Send(c, hub.Reply{More: true, Text: string(b[:n])}) != nil {
			return
		}
		b = b[n:]
	}
	_ = hub.Send(c, hub.Reply{Text: string(b)})
}

// cut returns the end of the last complete UTF-8 character in the first n
// bytes: JSON would replace the halves of a divided one.
func cut(b []byte, n int) int {
	for !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}

// ask sends a request to the service of a fabric and calls take with each reply
// until take returns true.
func ask(ctx context.Context, fabric, op string, take func(hub.Reply) (done bool)) error {
	c, err := hub.Dial(ctx, fabric)
	if err != nil {
		return err
	}
	defer c.Close()
	defer hub.Deadline(ctx, c, hub.AnswerLimit)()
	if err := hub.Send(c, hub.Request{Op: op}); err != nil {
		return fmt.Errorf("ask the service: %w", err)
	}
	for {
		var r hub.Reply
		files, err := hub.Receive(c, &r)
		for _, f := range files {
			_ = f.Close()
		}
		if err != nil {
			return fmt.Errorf("the service's answer: %w", errors.Join(err, context.Cause(ctx)))
		}
		if r.Error != "" {
			return errors.New(r.Error)
		}
		if take(r) {
			return nil
		}
	}
}

// StatusOf requests the status of a fabric from its service; "" is the default
// fabric. fabric.ErrNoFabric if it does not run.
func StatusOf(ctx context.Context, fabric string) (Status, error) {
	var text strings.Builder
	var st Status
	err := ask(ctx, fabric, hub.OpStatus, func(r hub.Reply) bool {
		text.WriteString(r.Text)
		return !r.More
	})
	if err == nil {
		err = json.Unmarshal([]byte(text.String()), &st)
	}
	if err != nil {
		return Status{}, fmt.Errorf("service: status of fabric '%s': %w", named(fabric), err)
	}
	return st, nil
}

// Down ends the service of a fabric, and returns when its name is free.
// fabric.ErrNoFabric if it does not run.
func Down(ctx context.Context, fabric string) error {
	err := ask(ctx, fabric, hub.OpDown, func(hub.Reply) bool { return true })
	if err == nil {
		err = awaitFree(ctx, fabric)
	}
	if err != nil {
		return fmt.Errorf("service: end fabric '%s': %w", named(fabric), err)
	}
	return nil
}

func named(fabric string) string {
	if fabric == "" {
		return hub.Default
	}
	return fabric
}
