// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/network.h"

#include <algorithm>
#include <array>

#include "sim/gen/hvia_layout.h"

namespace hvia::fabric {

Network::Network(const Params& params, int nodes, bool with_switch) : nodes_(nodes) {
  if (nodes > 2 || with_switch) {
    std::vector<LinkEnd> plugs;
    for (int i = 0; i < nodes; ++i) {
      links_.push_back(std::make_unique<Link>(params, i, kWireSwitch));
      plugs.push_back({links_.back().get(), kSwitchEnd});
    }
    switch_.emplace(params, plugs);
  } else if (nodes == 2) {
    links_.push_back(std::make_unique<Link>(params, 0, 1));
  }
}

void Network::SetFaults(const std::vector<WireFaultRule>& rules, uint64_t seed) {
  std::vector<std::array<std::vector<WireFaultRule>, 2>> by_end(links_.size());
  for (const WireFaultRule& r : rules) {
    const auto fail = [&r](const std::string& why) { return WireFaultError("--wire-fault " + r.text + ": " + why); };
    if (links_.empty()) throw fail("a fabric of one node has no wire");
    if (r.node >= nodes_) throw fail("there are " + std::to_string(nodes_) + " nodes, counted from 0");
    if (HasSwitch() && r.way == WireWay::kCable) throw fail("these nodes have a switch between them: say which direction of node " + std::to_string(r.node) + "'s cable, " + std::to_string(r.node) + ">switch or switch>" + std::to_string(r.node));
    if (!HasSwitch() && r.way != WireWay::kCable) throw fail("these two nodes have a cable between them and no switch: say which node sends, 0 or 1");
    if (HasSwitch()) {
      by_end[static_cast<size_t>(r.node)][r.way == WireWay::kFromSwitch ? kSwitchEnd : kNodeEnd].push_back(r);
    } else {
      by_end[0][static_cast<size_t>(r.node)].push_back(r);
    }
  }
  for (size_t i = 0; i < links_.size(); ++i)
    if (!by_end[i][0].empty() || !by_end[i][1].empty()) links_[i]->SetFaults(WireFaults(by_end[i][0], by_end[i][1], seed));
}

LinkEnd Network::Plug(int node) {
  if (links_.empty()) return {};
  return {&LinkOf(node), EndOf(node)};
}

void Network::Connect(const std::vector<FrameSink*>& sinks) {
  if (links_.empty()) return;
  if (!HasSwitch()) {
    links_[0]->Connect(sinks[0], sinks[1]);
    return;
  }
  for (size_t i = 0; i < links_.size(); ++i) links_[i]->Connect(sinks[i], switch_->Sink(i));
}

void Network::AddObserver(const FrameObserver& observer) {
  for (const auto& l : links_) l->AddObserver(observer);
}

void Network::AddArrivalObserver(const ArrivalObserver& observer) {
  for (const auto& l : links_) l->AddArrivalObserver(observer);
}

Time Network::NextEvent() const {
  Time next = kNever;
  for (const auto& l : links_) next = std::min(next, l->NextEvent());
  return switch_ ? std::min(next, switch_->NextEvent()) : next;
}

void Network::Step(Time t) {
  // Frames that a link releases now reach the switch later.
  for (const auto& l : links_) l->Step(t);
  if (switch_) switch_->Step(t);
}

void Network::Hold(int node, bool on, Time t) { LinkOf(node).Hold(EndOf(node), on, t); }

size_t Network::Held(int node) const { return links_.empty() ? 0 : LinkOf(node).Held(EndOf(node)); }

uint64_t Network::Frames() const {
  uint64_t n = 0;
  for (int i = 0; i < nodes_; ++i) n += FromNode(i).sent;
  return n;
}

WireCounts Network::FromNode(int node) const { return links_.empty() ? WireCounts{} : LinkOf(node).Counts(EndOf(node)); }

WireCounts Network::FromSwitch(int node) const { return HasSwitch() ? LinkOf(node).Counts(kSwitchEnd) : WireCounts{}; }

SwitchPortCounts Network::Port(int node) const { return HasSwitch() ? switch_->Counts(static_cast<size_t>(node)) : SwitchPortCounts{}; }

}  // namespace hvia::fabric
