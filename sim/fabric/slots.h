// SPDX-License-Identifier: Apache-2.0
// The slots of a fabric. A slot holds the page and the command ring that a thread shares with the
// simulator, the commands taken from the ring, and the thread's wait. The table keeps the order of
// threads and finds the next wait to end. The scheduler implements commands and wakes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/fabric/mailboxes.h"
#include "sim/fabric/shared_pages.h"
#include "sim/fabric/time.h"
#include "sim/gen/hvia_layout.h"

namespace hvia::fabric {

// ThreadName declares one participant of a timed run.
struct ThreadName {
  int node = 0;
  int rank = 0;
  std::string name;
  NodeRank Key() const { return {static_cast<uint32_t>(node), static_cast<uint32_t>(rank)}; }
};

// Owner is the process of a claimed slot.
struct Owner {
  uint64_t connection = 0;
  uint32_t pid = 0;
  uint32_t node_mask = 0;
  std::string name;
  uint32_t guest = 0;  // its number, 0 if it is no guest
  // Identifies the process as a sender of messages.
  uint64_t Sender() const { return guest != 0 ? guest : 1ull << 63 | connection; }
};

struct Range {
  uint64_t lo, hi;
  bool Overlaps(const Range& o) const { return lo < o.hi && o.lo < hi; }
};

struct Command {
  Time time;
  uint32_t opcode, count;
  uint64_t address, tag;
  uint32_t data[kBridgeMaxWriteDwords];
};

// Wait is a copy of a parked thread's descriptor, and the end that the scheduler expects.
struct Wait {
  bool armed = false;
  uint32_t sequence = 0;
  Time start = 0, deadline = kNever, period = 1;
  uint32_t flags = 0;
  uint32_t watches = 0;
  Range watch[kBridgeMaxWatches];
  Instant end;
  uint32_t reason = kBridgeReasonDeadline;

  bool For(uint32_t mask) const { return armed && (flags & mask) != 0; }
  // The time of the poll at which the thread sees an event of now. Its last poll is at the
  // deadline, which may have passed while another thread held the processor.
  Instant Seen(Time now) const;
};

struct Slot {
  ThreadName name;
  bool declared = false;
  bool claimed = false;
  Owner owner;
  // A new file for each thread: the slot's last thread still maps the old one.
  std::unique_ptr<SharedFile> file;
  uint8_t* page = nullptr;
  uint8_t* ring = nullptr;
  uint32_t head = 0;
  Time clock = 0;  // of the running thread
  std::deque<Command> commands;
  Wait wait;
  // Results that may come before the scheduler sees the wait for them (free mode).
  std::deque<uint64_t> reads;  // tags of register reads in flight
  uint64_t last_read = 0;
  bool reply_ready = false;
  uint32_t reply = 0;
  Time reply_time = 0;
  bool barrier_ready = false;
  bool barrier_rejected = false;
  Time barrier_time = 0;
  std::vector<uint8_t> partial;  // message under assembly
  // A message of this thread was not delivered, and no wait has reported that.
  bool undelivered_ready = false;
  Time undelivered_time = 0;
  // Timed mode, guests: number of commands and waits since `instant`.
  Time instant = -1;
  uint32_t acts = 0;
  // Watchdogs.
  int64_t acted_ns = 0;
  uint32_t acted_tail = 0;
  int64_t woken_ns = 0;

  bool Running() const { return claimed && !wait.armed; }
  // Copies the thread's wait from its page. Returns false if it has more watches than fit, and
  // stores their number in *watches.
  bool ReadWait(uint32_t* watches);
  Command ReadCommand() const;  // at the ring's head
  void WriteMessage(const Message& m) const;
  // Ends the thread's wait. run: also sets its state to running.
  void WriteWake(Time at, uint32_t reason, bool run);
};

class Slots {
 public:
  // Throws if two threads have the same node and rank.
  Slots(std::vector<ThreadName> declared, int spare, const std::vector<std::string>& node_names, bool ignore_running);

  int Size() const { return static_cast<int>(slots_.size()); }
  Slot& operator[](int i) { return slots_[static_cast<size_t>(i)]; }
  const Slot& operator[](int i) const { return slots_[static_cast<size_t>(i)]; }
  auto begin() { return slots_.begin(); }
  auto end() { return slots_.end(); }
  auto begin() const { return slots_.begin(); }
  auto end() const { return slots_.end(); }
  int IndexOf(const Slot& s) const { return static_cast<int>(&s - slots_.data()); }
  std::string Describe(const Slot& s) const;

  // The slot that is declared for the rank or claimed by its thread.
  Slot* Find(int node, int rank);
  // An undeclared free slot.
  Slot* Spare();
  // Claims a slot for a new thread, which starts parked until `begin`. Throws if its pages cannot
  // be created.
  void Claim(Slot& s, const Owner& owner, const ThreadName& name, Time begin);

  int PendingCommands() const { return pending_; }
  void Push(Slot& s, const Command& c);
  Command Pop(Slot& s);
  void DropCommands(Slot& s);

  // Indexes of the armed waits that the condition selects, by node and rank.
  template <typename Condition>
  std::vector<int> Waiting(Condition condition) const;
  // The end of the next wait, or an earlier clock of a running thread.
  Instant Bound();
  // The earliest deadline of a wait.
  Time Deadline() const;
  // The smallest range that contains all watched bytes of a node.
  Range Watched(int node) const;
  void SetEnd(Slot& s, Instant end);
  // Call it when a wait is armed or disarmed, and when a thread comes or leaves.
  void Changed() { bound_.reset(); }
  // The processor was held in [begin, end): polls in that span are delayed to its end.
  void DelayPolls(int node, Time begin, Time end);

 private:
  const std::vector<std::string> node_names_;
  const bool ignore_running_;
  std::vector<Slot> slots_;  // declared ones by node and rank
  int pending_ = 0;
  std::optional<Instant> bound_;
};

bool Before(const ThreadName& x, const ThreadName& y);

template <typename Condition>
std::vector<int> Slots::Waiting(Condition condition) const {
  std::vector<int> found;
  for (int i = 0; i < Size(); ++i)
    if ((*this)[i].wait.armed && condition((*this)[i])) found.push_back(i);
  std::sort(found.begin(), found.end(), [this](int a, int b) { return Before((*this)[a].name, (*this)[b].name); });
  return found;
}

}  // namespace hvia::fabric
