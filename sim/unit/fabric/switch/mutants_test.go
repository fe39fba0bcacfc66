// SPDX-License-Identifier: Apache-2.0

package switch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hvia/host"
	"hvia/layout"
	"hvia/sim"
	"hvia/sim/bridge"
	"hvia/sim/unit/internal/unit"
)

// A switch with a bug differs from the model on random boards.
func TestMutantSwitchIsCaught(t *testing.T) {
	const file = "sim/fabric/switch.cc"
	bugs := []unit.Bug{
		{"forwards a wrong FCS", file, "    ++counts.wrong_fcs;\n    return;", "    ++counts.wrong_fcs;"},
		{"learns nothing", file, "    table_[address] = entries_.insert(entries_.end(), {address, port, t});", ""},
		{"keeps what has moved", file, "    entry.port = port;", ""},
		{"ages nothing", file, "  Age(t);\n", ""},
		{"ages a picosecond late", file, "heard + ageing_ <= t", "heard + ageing_ + (FAULT ? 1 : 0) <= t"},
		{"ages what is heard", file, "    entry.heard = t;\n", ""},
		{"loses the order of ageing", file, "    entries_.splice(entries_.end(), entries_, known->second);\n", ""},
		{"ages without a count", file, "    ++ports_[entries_.front().port].counts.aged;\n", ""},
		{"learns groups", file, "if ((address & kGroup) != 0) return;", ""},
		{"learns one too many", file, "table_.size() < table_entries_", "table_.size() <= table_entries_"},
		{"learns the destination", file, "Learn(port, t, Address(bytes, kEthernetHeaderSourceOffset))", "Learn(port, t, Address(bytes, kEthernetHeaderDestinationOffset))"},
		{"sends back", file, "|| (known != table_.end() &&", "|| (!FAULT && known != table_.end() &&"},
		{"forwards PAUSE", file, "(destination & kReservedMask) == kReserved", "false"},
		{"floods to the sender", file, "i != port", "true"},
		{"does not flood to the last", file, "i < ports_.size(); ++i)\n", "i + (FAULT ? 1 : 0) < ports_.size(); ++i)\n"},
		{"takes a byte too many", file, "+ kept > room_", "+ kept > room_ + (FAULT ? 1 : 0)"},
		{"takes a byte too few", file, "+ kept > room_", "+ kept + (FAULT ? 1 : 0) > room_"},
		{"forgets the FCS", file, "out->filling += Size(bytes.size());", "out->filling += bytes.size();"},
		{"frees room at the departure", file, "out.left = out.plug.Transmit(t, bytes.data(), bytes.size());", "out.left = t; out.plug.Transmit(t, bytes.data(), bytes.size());"},
		{"frees room a picosecond late", file, "if (out->left > t) return;", "if (out->left >= t) return;"},
		{"never frees room", file, "out->filling -= out->leaving;", ""},
		{"keeps no space for the starved", file, "if (mine == out->starved.end()) out->starved.push_back(from);", ""},
		{"keeps space for the served", file, "if (mine != out->starved.end()) out->starved.erase(mine);", ""},
		{"keeps room when it is empty", file, "if (out->filling == 0) out->starved.clear();", ""},
		{"has no latency", file, "out->queue.push_back({t + latency_, bytes});", "out->queue.push_back({t, bytes});"},
		{"is a picosecond late", file, "out->queue.push_back({t + latency_, bytes});", "out->queue.push_back({t + latency_ + 1, bytes});"},
		{"last in, first out", file, "out->queue.push_back({t + latency_, bytes});", "out->queue.push_front({t + latency_, bytes});"},
		{"other ports first", file, "for (size_t i = 0; i < ports_.size(); ++i) {\n    std::deque<Arrival>& arriving = ports_[i].arriving;", "for (size_t n = 0; n < ports_.size(); ++n) {\n    const size_t i = FAULT ? ports_.size() - 1 - n : n;\n    std::deque<Arrival>& arriving = ports_[i].arriving;"},
		{"cuts through", file, "next = std::min(next, p.arriving.front().frame.last_byte)", "next = std::min(next, p.arriving.front().frame.first_byte)"},
		{"does not count what it dropped", file, "++out->counts.no_room;", ""},
		{"counts the filling before", file, "std::max(out->counts.highest_filling, out->filling)", "std::max(out->counts.highest_filling, out->filling - Size(bytes.size()))"},
	}
	program, seed := player(t, unit.Switch(t, bugs)...), unit.Seed(t)
	for i, b := range bugs {
		t.Run(b[0], func(t *testing.T) {
			unit.Enable(t, i)
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
	cases := []struct {
		file, old, new string
		check          func(t *testing.T, program string) error
	}{
		{network, "return switch_ ? std::min(next, switch_->NextEvent()) : next;", "return next;", late},
		{scheduler, "return network_->NextEvent() == kNever;", "return true;", late},
		{network, "EndOf(node), on, t);", "FAULT ? 1 - EndOf(node) : EndOf(node), on, t);", held},
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
		{"sim/fabric/control_server.cc", "PutSwitchPort(r.ports[i]", "PutSwitchPort(r.ports[FAULT ? 0 : i]", all},
		{"sim/fabric/main.cc", "if (is_node(destination)) recorder.Event", "if (is_node(destination) || FAULT) recorder.Event", all},
		{"sim/fabric/link.cc", "o(start, parties_[end], parties_[1 - end], content.bytes, fate.faults)", "o(start, parties_[1 - end], parties_[end], content.bytes, fate.faults)", all},
		{"sim/fabric/echo_node.cc", "if (frame.bytes[kEthernetHeaderDestinationOffset + 5] != s_.index) return;", "if (frame.bytes[kEthernetHeaderDestinationOffset + 5] == 255) return;", echoes},
		{"sim/fabric/echo_node.cc", "static_cast<uint8_t>(request_[kEchoRequestNodeOffset / 4])", "static_cast<uint8_t>(1 - s_.index)", echoes},
		{"sim/fabric/wire_faults.cc", "r.node + (r.way == WireWay::kFromSwitch ? static_cast<int>(kBridgeMaxNodes) : 0)", "r.node", own},
	}
	var bugs []unit.Bug
	for i, c := range cases {
		bugs = append(bugs, unit.Bug{fmt.Sprint(i), c.file, c.old, c.new})
	}
	unit.MustNotice(t, bugs, func(i int, program string) error { return cases[i].check(t, program) })
}
