// SPDX-License-Identifier: Apache-2.0

package switch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
	"hvia/sim/verilate"
)

// A switch with a bug differs from the model on random boards.
func TestMutantSwitchIsCaught(t *testing.T) {
	const file = "sim/fabric/switch.cc"
	for name, m := range map[string]verilate.Mutant{
		"forwards a wrong FCS":           {Old: "    ++counts.wrong_fcs;\n    return;", New: "    ++counts.wrong_fcs;"},
		"learns nothing":                 {Old: "    table_[address] = entries_.insert(entries_.end(), {address, port, t});", New: ""},
		"keeps what has moved":           {Old: "    entry.port = port;", New: ""},
		"ages nothing":                   {Old: "  Age(t);\n", New: ""},
		"ages a picosecond late":         {Old: "heard + ageing_ <= t", New: "heard + ageing_ < t"},
		"ages what is heard":             {Old: "    entry.heard = t;\n", New: ""},
		"loses the order of ageing":      {Old: "    entries_.splice(entries_.end(), entries_, known->second);\n", New: ""},
		"ages without a count":           {Old: "    ++ports_[entries_.front().port].counts.aged;\n", New: ""},
		"learns groups":                  {Old: "if ((address & kGroup) != 0) return;", New: ""},
		"learns one too many":            {Old: "table_.size() < table_entries_", New: "table_.size() <= table_entries_"},
		"learns the destination":         {Old: "Learn(port, t, Address(bytes, kEthernetHeaderSourceOffset))", New: "Learn(port, t, Address(bytes, kEthernetHeaderDestinationOffset))"},
		"sends back":                     {Old: "|| (known != table_.end() && known->second->port == port)", New: ""},
		"forwards PAUSE":                 {Old: "(destination & kReservedMask) == kReserved ||", New: ""},
		"floods to the sender":           {Old: "if (i != port) Enqueue", New: "Enqueue"},
		"does not flood to the last":     {Old: "i < ports_.size(); ++i)\n    if (i != port)", New: "i + 1 < ports_.size(); ++i)\n    if (i != port)"},
		"takes a byte too many":          {Old: "+ kept > room_", New: "+ kept > room_ + 1"},
		"takes a byte too few":           {Old: "+ kept > room_", New: "+ kept >= room_"},
		"forgets the FCS":                {Old: "out->filling += Size(bytes.size());", New: "out->filling += bytes.size();"},
		"frees room at the departure":    {Old: "out.left = out.plug.Transmit(", New: "out.left = t; out.plug.Transmit("},
		"frees room a picosecond late":   {Old: "if (out->left > t) return;", New: "if (out->left >= t) return;"},
		"never frees room":               {Old: "out->filling -= out->leaving;", New: ""},
		"keeps no space for the starved": {Old: "if (mine == out->starved.end()) out->starved.push_back(from);", New: ""},
		"keeps space for the served":     {Old: "if (mine != out->starved.end()) out->starved.erase(mine);", New: ""},
		"keeps room when it is empty":    {Old: "if (out->filling == 0) out->starved.clear();", New: ""},
		"has no latency":                 {Old: "out->queue.push_back({t + latency_, bytes});", New: "out->queue.push_back({t, bytes});"},
		"is a picosecond late":           {Old: "out->queue.push_back({t + latency_, bytes});", New: "out->queue.push_back({t + latency_ + 1, bytes});"},
		"last in, first out":             {Old: "out->queue.push_back(", New: "out->queue.push_front("},
		"other ports first":              {Old: "for (size_t i = 0; i < ports_.size(); ++i) {\n    std::deque<Arrival>& arriving = ports_[i].arriving;", New: "for (size_t i = ports_.size(); i-- > 0;) {\n    std::deque<Arrival>& arriving = ports_[i].arriving;"},
		"cuts through":                   {Old: "next = std::min(next, p.arriving.front().frame.last_byte)", New: "next = std::min(next, p.arriving.front().frame.first_byte)"},
		"does not count what it dropped": {Old: "++out->counts.no_room;", New: ""},
		"counts the filling before":      {Old: "  out->filling += Size(bytes.size());\n  out->counts.highest_filling = std::max(out->counts.highest_filling, out->filling);", New: "  out->counts.highest_filling = std::max(out->counts.highest_filling, out->filling);\n  out->filling += Size(bytes.size());"},
	} {
		t.Run(name, func(t *testing.T) {
			unit.Fault(t)
			m.File = file
			program, seed := player(t, m), unit.Seed(t)
			for i := range uint64(1000) {
				b := random(rand.New(rand.NewPCG(seed, i)))
				got, err := play(program, b)
				if err == nil {
					err = differ(got, model(b))
				}
				if err != nil {
					t.Logf("caught on board %d: %.200v", i, err)
					return
				}
			}
			t.Fatal("1000 random boards do not show it")
		})
	}
}

// Tests with nodes detect a fabric with a bug in its use of the switch.
func TestMutantFabricIsCaught(t *testing.T) {
	const (
		network   = "sim/fabric/network.cc"
		scheduler = "sim/fabric/scheduler.cc"
		faulty    = "1>switch:drop=30%;switch>1:drop=30%;switch>2:corrupt=20%;2>switch:corrupt=20%"
	)
	with := func(t *testing.T, program string, s setup) (result, error) {
		s.config.Program = program
		return s.run(t)
	}
	all := func(t *testing.T, program string) error {
		r, err := with(t, program, setup{nodes: 4, count: 60, config: sim.Config{Faults: faults(t, faulty)}})
		if err != nil {
			return err
		}
		return r.check()
	}
	late := func(t *testing.T, program string) error {
		_, err := with(t, program, setup{nodes: 3, count: 1, forEver: true, config: sim.Config{Params: map[string]int64{"SwitchLatency": 1_000_000_000}}})
		return err
	}
	held := func(t *testing.T, program string) error {
		s := setup{nodes: 3, count: 1, forEver: true, to: func(int, int) int { return 2 }, during: func(t *host.Thread) error { return t.HoldWire(true) }}
		_, err := with(t, program, s)
		if !errors.Is(err, bridge.ErrDeadlock) || !strings.Contains(err.Error(), "2 frames are held on the wire to node 2") {
			return fmt.Errorf("no deadlock with the held frames, but: %v", err)
		}
		return nil
	}
	own := func(t *testing.T, program string) error {
		var choices [2]string
		for i, text := range []string{"switch>1:drop=30%", "drop=30%"} {
			r, err := with(t, program, setup{nodes: 3, count: 60, config: sim.Config{Faults: faults(t, text)}})
			if err != nil {
				return err
			}
			ends := [3]int{layout.WireSwitch, 1, layout.WireSwitch}
			for _, h := range r.between(ends[i], ends[i+1]) {
				choices[i] += fmt.Sprint(h.lost(), " ")
			}
		}
		if n := min(len(choices[0]), len(choices[1]), 200); choices[0][:n] == choices[1][:n] {
			return errors.New("both directions of a cable lose the same frames")
		}
		return nil
	}
	for i, c := range []struct {
		file, old, new string
		check          func(t *testing.T, program string) error
	}{
		{network, "return switch_ ? std::min(next, switch_->NextEvent()) : next;", "return next;", late},
		{scheduler, "return network_->NextEvent() == kNever;", "return true;", late},
		{network, "EndOf(node), on, t);", "1 - EndOf(node), on, t);", held},
		{network, "LinkOf(node).Held(EndOf(node))", "LinkOf(node).Held(1 - EndOf(node))", held},
		{network, "r.way == WireWay::kFromSwitch ? kSwitchEnd : kNodeEnd", "r.way == WireWay::kFromSwitch ? kNodeEnd : kSwitchEnd", func(t *testing.T, program string) error {
			r, err := with(t, program, setup{nodes: 3, count: 30, config: sim.Config{Faults: faults(t, "1>switch:drop=50%")}})
			if err == nil && r.digest.Wire[1].Faults[layout.WireFaultDrop] == 0 {
				err = errors.New("nothing is lost that node 1 sends")
			}
			return err
		}},
		{network, "LinkOf(node).Counts(kSwitchEnd)", "LinkOf(node).Counts(kNodeEnd)", all},
		{"sim/fabric/link.cc", "d.sink->DeliverDamaged(std::move(frame));", "", all},
		{"sim/fabric/control_server.cc", "PutSwitchPort(r.ports[i]", "PutSwitchPort(r.ports[0]", all},
		{"sim/fabric/main.cc", "if (is_node(destination)) recorder.Event", "recorder.Event", all},
		{"sim/fabric/link.cc", "o(start, parties_[end], parties_[1 - end], content.bytes, fate.faults)", "o(start, parties_[1 - end], parties_[end], content.bytes, fate.faults)", all},
		{"sim/fabric/echo_node.cc", "!= s_.index) return;", "== 255) return;", echoes},
		{"sim/fabric/echo_node.cc", "static_cast<uint8_t>(request_[kEchoRequestNodeOffset / 4]);", "static_cast<uint8_t>(1 - s_.index);", echoes},
		{"sim/fabric/wire_faults.cc", "r.node + (r.way == WireWay::kFromSwitch ? static_cast<int>(kBridgeMaxNodes) : 0)", "r.node", own},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			unit.Fault(t)
			require.NoError(t, c.check(t, unit.Simulator(t)), "without the fault %q", c.new)
			err := c.check(t, unit.Simulator(t, verilate.Mutant{File: c.file, Old: c.old, New: c.new}))
			require.Error(t, err, "%q instead of %q in %s", c.new, c.old, c.file)
			t.Logf("caught: %.200v", err)
		})
	}
}
