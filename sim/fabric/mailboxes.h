// SPDX-License-Identifier: Apache-2.0
// Messages and barriers, by which the threads of a fabric communicate besides the wire. A message
// waits in the mailbox of a rank until it is received. Messages are counted by sender, so that no
// process can fill the simulator's memory.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/fabric/time.h"

namespace hvia::fabric {

// NodeRank names a thread by its node and its rank there.
using NodeRank = std::pair<uint32_t, uint32_t>;

struct Message {
  Time time;
  NodeRank from;
  std::vector<uint8_t> bytes;
  uint64_t sender;     // identifies its process; 0 when the process has left
  uint64_t order = 0;  // of arrival
};

class Mailboxes {
 public:
  // taken: a wait will end with the first message of that mailbox. That message must stay.
  explicit Mailboxes(std::function<bool(NodeRank)> taken) : taken_(std::move(taken)) {}

  void Add(NodeRank to, Message m);
  // The oldest message, or nullptr.
  const Message* First(NodeRank to) const;
  void RemoveFirst(NodeRank to);
  uint32_t Unreceived(uint64_t sender) const;
  // The sender has left. keep: its messages stay to be received.
  void SenderGone(uint64_t sender, bool keep);
  // Drops messages that nobody will receive.
  void Close(const std::function<bool(NodeRank)>& which);

 private:
  using Box = std::deque<Message>;
  void Uncount(const Message& m);
  void Remove(const std::function<bool(const Message&)>& which);

  const std::function<bool(NodeRank)> taken_;
  std::map<NodeRank, Box> boxes_;  // none is empty
  std::map<uint64_t, uint32_t> unreceived_;
  uint64_t last_order_ = 0;
};

class Barriers {
 public:
  // A barrier without a group name belongs to one guest, or to all threads outside guests (0).
  struct Key {
    uint32_t guest;
    std::string group;
    uint64_t id;
    bool operator<(const Key& o) const { return std::tie(guest, group, id) < std::tie(o.guest, o.group, o.id); }
  };

  // Returns false if the first arrival named another number of parties. Fills `released` when the
  // barrier is complete.
  bool Arrive(const Key& key, int slot, uint32_t parties, std::vector<int>* released);
  void Leave(int slot);
  // The barriers in which the slot waits.
  std::vector<Key> Of(int slot) const;
  std::string Describe(const Key& key) const;

 private:
  struct State {
    uint32_t parties = 0;
    std::vector<int> arrived;
  };
  std::map<Key, State> barriers_;
};

}  // namespace hvia::fabric
