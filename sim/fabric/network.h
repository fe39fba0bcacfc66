// SPDX-License-Identifier: Apache-2.0
// What joins the nodes of a fabric: nothing for one node, a cable for two, and a
// switch with a cable to each for more, or for two on request.
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
  // What the wires do to frames; set before the first one, if at all. Throws
  // WireFaultError when a rule is for a wire that is not there.
  void SetFaults(const std::vector<WireFaultRule>& rules, uint64_t seed);
  // The node's end of its cable, unconnected if there is none.
  LinkEnd Plug(int node);
  // One for each node.
  void Connect(const std::vector<FrameSink*>& sinks);
  void AddObserver(const FrameObserver& observer);
  void AddArrivalObserver(const ArrivalObserver& observer);

  // Earliest time at which a wire or the switch has something to do, kNever if
  // there is none.
  Time NextEvent() const;
  // Does the work at exactly that time.
  void Step(Time t);

  // Link::Hold towards a node.
  void Hold(int node, bool on, Time t);
  size_t Held(int node) const;

  int Nodes() const { return nodes_; }
  bool HasSwitch() const { return switch_.has_value(); }
  // Frames that nodes sent.
  uint64_t Frames() const;
  // Of the frames that a node sent, on its cable.
  WireCounts FromNode(int node) const;
  // Of the frames that the switch sent to a node, and of its port.
  WireCounts FromSwitch(int node) const;
  SwitchPortCounts Port(int node) const;

 private:
  // Ends of a cable to a switch.
  static constexpr int kNodeEnd = 0, kSwitchEnd = 1;
  Link& LinkOf(int node) const { return *links_[HasSwitch() ? static_cast<size_t>(node) : 0]; }
  // The node's end of that.
  int EndOf(int node) const { return HasSwitch() ? kNodeEnd : node; }

  const int nodes_;
  std::vector<std::unique_ptr<Link>> links_;
  std::optional<Switch> switch_;
};

}  // namespace hvia::fabric
