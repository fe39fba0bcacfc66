// SPDX-License-Identifier: Apache-2.0
// Guests are processes that the owner of the fabric does not trust. A guest may use only its
// grants: the ranks of its threads, a bank of its node's memory and pages of doorbells. Timed mode
// also limits its commands, processor time and wall time for each span of simulated time. This
// table holds the grants and checks the guests.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/fabric/host_memory.h"
#include "sim/fabric/shared_pages.h"
#include "sim/fabric/slots.h"
#include "sim/fabric/time.h"

namespace hvia::fabric {

// GuestConfig is what the owner of the fabric grants to a new guest.
struct GuestConfig {
  std::string name;
  uint32_t pid = 0;
  uint32_t node = 0;
  uint32_t first_rank = 0, ranks = 0;    // of its threads
  uint64_t first_frame = 0, frames = 0;  // of its bank

  bool OwnsRank(NodeRank r) const { return r.first == node && r.second >= first_rank && r.second - first_rank < ranks; }
};

struct GuestEnd {
  uint32_t guest = 0;
  uint32_t reason = 0;  // BridgeGuestEnd
  Time time = 0;
  std::string text;
};

struct Guest {
  uint32_t id = 0;
  GuestConfig config;
  std::shared_ptr<SealedFile> bank;
  std::vector<bool> pages;  // granted doorbell pages
  bool ended = false;
  // Timed mode: how long its threads have run on the wall clock since held_since.
  Time held_since = 0;
  int64_t held_ns = 0;
  std::function<void(const GuestEnd&)> on_end;

  bool InBank(uint64_t address, uint64_t bytes) const;
};

// These functions return an error text, or an empty one.
class Guests {
 public:
  Guests(const std::vector<std::string>& node_names, bool timed, int64_t stall_ns) : node_names_(node_names), timed_(timed), stall_ns_(stall_ns) {}

  Guest* Find(uint32_t id);  // nullptr if there is none, as for 0
  Guest* OfRank(NodeRank rank);
  std::string Describe(const Guest& g) const;

  // Checks a new guest against the limits and the other guests.
  std::string Check(const GuestConfig& config, const HostMemory& memory) const;
  // Adds the guest and inserts its bank in the memory.
  std::string Add(const GuestConfig& config, HostMemory* memory, std::function<void(const GuestEnd&)> on_end, Guest** added);
  void Remove(uint32_t id) { guests_.erase(id); }
  std::string CheckGrant(uint32_t id, uint32_t page, bool on);
  void Grant(uint32_t id, uint32_t page, bool on);

  // Checks and counts a command or a wait of a guest's thread.
  std::string Act(const Guest& g, Slot* s, const Command& c) const;
  std::string Act(const Guest& g, Slot* s, const Wait& w) const;
  // Counts the wall time for which a guest's thread has run.
  std::string CountHeld(Guest* g, const Slot& s, int64_t now_ns, bool parks, Time now) const;

 private:
  std::string Violation(const Guest& g, const Slot& s, const Command& c) const;
  std::string Violation(const Guest& g, const Slot& s, const Wait& w) const;
  std::string Count(Slot* s) const;

  const std::vector<std::string> node_names_;
  const bool timed_;
  const int64_t stall_ns_;
  std::map<uint32_t, Guest> guests_;
  uint32_t last_guest_ = 0;
};

}  // namespace hvia::fabric
