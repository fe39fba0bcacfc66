// SPDX-License-Identifier: Apache-2.0
// Connects the nodes of a fabric: one node has no cable, two share one. More nodes, or two on
// request, get a switch with a cable to each.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/fabric/link.h"
#include "sim/fabric/switch.h"
#include "sim/fabric/time.h"
#include "sim/fabric/wire_faults.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {

class Network {
 public:
  Network(const Params& params, int nodes, bool with_switch);
  // Injects faults. Call it before the first frame. Throws WireFaultError when a rule names a wire
  // that does not exist.
  void SetFaults(const std::vector<WireFaultRule>& rules, uint64_t seed);
  // The node's end of its cable, unconnected if there is none.
  LinkEnd Plug(int node);
  // One sink for each node.
  void Connect(const std::vector<FrameSink*>& sinks);
  void AddObserver(const FrameObserver& observer);
  void AddArrivalObserver(const ArrivalObserver& observer);

  // Earliest time at which a wire or the switch has work, or kNever.
  Time NextEvent() const;
  // Does the work that is due at t.
  void Step(Time t);

  // Link::Hold towards a node.
  void Hold(int node, bool on, Time t);
  size_t Held(int node) const;

  int Nodes() const { return nodes_; }
  bool HasSwitch() const { return switch_.has_value(); }
  // Number of frames that nodes sent.
  uint64_t Frames() const;
  // Counts of the frames that a node sent on its cable.
  WireCounts FromNode(int node) const;
  // Counts of the frames that the switch sent to a node, and of the switch's port.
  WireCounts FromSwitch(int node) const;
  SwitchPortCounts Port(int node) const;

 private:
  // Ends of a cable to a switch.
  static constexpr int kNodeEnd = 0, kSwitchEnd = 1;
  Link& LinkOf(int node) const { return *links_[HasSwitch() ? static_cast<size_t>(node) : 0]; }
  // The node's end of LinkOf(node).
  int EndOf(int node) const { return HasSwitch() ? kNodeEnd : node; }

  const int nodes_;
  std::vector<std::unique_ptr<Link>> links_;
  std::optional<Switch> switch_;
};

}  // namespace hvia::fabric
