// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/mailboxes.h"

#include <algorithm>

#include "sim/fabric/text.h"
#include "sim/gen/hvia_layout.h"

namespace hvia::fabric {

void Mailboxes::Add(NodeRank to, Message m) {
  ++unreceived_[m.sender];
  m.order = ++last_order_;
  boxes_[to].push_back(std::move(m));
}

const Message* Mailboxes::First(NodeRank to) const {
  const auto box = boxes_.find(to);
  return box == boxes_.end() ? nullptr : &box->second.front();
}

void Mailboxes::RemoveFirst(NodeRank to) {
  const auto box = boxes_.find(to);
  Uncount(box->second.front());
  box->second.pop_front();
  if (box->second.empty()) boxes_.erase(box);
}

uint32_t Mailboxes::Unreceived(uint64_t sender) const {
  const auto count = unreceived_.find(sender);
  return count == unreceived_.end() ? 0 : count->second;
}

void Mailboxes::Uncount(const Message& m) {
  if (m.sender != 0 && --unreceived_[m.sender] == 0) unreceived_.erase(m.sender);
}

void Mailboxes::SenderGone(uint64_t sender, bool keep) {
  if (unreceived_.count(sender) == 0) return;
  // Messages survive a process that left in order: the time at which the simulator sees it leave
  // depends on wall time.
  if (!keep) Remove([sender](const Message& m) { return m.sender == sender; });
  std::vector<uint64_t> left;
  for (auto& [to, box] : boxes_) {
    for (Message& m : box) {
      if (m.sender == sender) m.sender = 0;
      if (m.sender == 0) left.push_back(m.order);
    }
  }
  unreceived_.erase(sender);
  if (left.size() <= kBridgeMaxLeftMessages) return;
  const auto oldest = left.end() - kBridgeMaxLeftMessages;
  std::nth_element(left.begin(), oldest, left.end());
  Remove([first = *oldest](const Message& m) { return m.sender == 0 && m.order < first; });
}

void Mailboxes::Remove(const std::function<bool(const Message&)>& which) {
  for (auto it = boxes_.begin(); it != boxes_.end();) {
    Box& box = it->second;
    const auto gone = std::remove_if(box.begin() + (taken_(it->first) ? 1 : 0), box.end(), [&](const Message& m) {
      if (!which(m)) return false;
      Uncount(m);
      return true;
    });
    box.erase(gone, box.end());
    it = box.empty() ? boxes_.erase(it) : std::next(it);
  }
}

void Mailboxes::Close(const std::function<bool(NodeRank)>& which) {
  for (auto it = boxes_.begin(); it != boxes_.end();) {
    if (!which(it->first)) {
      ++it;
      continue;
    }
    for (const Message& m : it->second) Uncount(m);
    it = boxes_.erase(it);
  }
}

bool Barriers::Arrive(const Key& key, int slot, uint32_t parties, std::vector<int>* released) {
  State& b = barriers_[key];
  if (b.arrived.empty()) b.parties = parties;
  if (b.parties != parties) return false;
  b.arrived.push_back(slot);
  if (b.arrived.size() < b.parties) return true;
  released->swap(b.arrived);
  barriers_.erase(key);
  return true;
}

void Barriers::Leave(int slot) {
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    std::vector<int>& arrived = it->second.arrived;
    arrived.erase(std::remove(arrived.begin(), arrived.end(), slot), arrived.end());
    it = arrived.empty() ? barriers_.erase(it) : std::next(it);
  }
}

std::vector<Barriers::Key> Barriers::Of(int slot) const {
  std::vector<Key> in;
  for (const auto& [key, b] : barriers_)
    if (std::find(b.arrived.begin(), b.arrived.end(), slot) != b.arrived.end()) in.push_back(key);
  return in;
}

std::string Barriers::Describe(const Key& key) const {
  const State& b = barriers_.at(key);
  return Text("barrier ", key.id, key.group.empty() ? "" : " of group '" + key.group + "'", " (", b.arrived.size(), " of ", b.parties, " arrived)");
}

}  // namespace hvia::fabric
