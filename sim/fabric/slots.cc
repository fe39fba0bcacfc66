// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/slots.h"

#include <cstring>
#include <stdexcept>

#include "sim/fabric/text.h"

namespace hvia::fabric {
namespace {

// First instant of the grid start + k * period strictly after t.
Time FirstAfter(Time start, Time period, Time t) {
  if (t < start) return start;
  const Time k = (t - start) / period + 1;
  if (k > (kNever - start) / period) return kNever;
  return start + k * period;
}

}  // namespace

bool Before(const ThreadName& x, const ThreadName& y) { return x.node != y.node ? x.node < y.node : x.rank < y.rank; }

Instant Wait::Seen(Time now) const {
  const Time poll = FirstAfter(start, period, now);
  return poll <= deadline ? Instant{poll, Phase::kWake} : Instant{std::max(deadline, now), Phase::kTimeout};
}

bool Slot::ReadWait(uint32_t* watches) {
  Wait& w = wait;
  w.sequence = Load32(page, kBridgeSlotWaitSequenceOffset);
  w.start = static_cast<Time>(Get64(page, kBridgeSlotWaitStartOffset));
  w.deadline = static_cast<Time>(Get64(page, kBridgeSlotWaitDeadlineOffset));
  w.period = std::max<Time>(1, static_cast<Time>(Get64(page, kBridgeSlotWaitPeriodOffset)));
  w.flags = Get32(page, kBridgeSlotWaitFlagsOffset);
  w.reason = kBridgeReasonDeadline;
  *watches = Get32(page, kBridgeSlotWaitWatchesOffset);
  if (*watches > kBridgeMaxWatches) return false;
  w.watches = *watches;
  for (uint32_t i = 0; i < w.watches; ++i) {
    const uint8_t* p = page + kBridgeSlotWatchesOffset + i * kBridgeWatchSize;
    const uint64_t lo = Get64(p, kBridgeWatchAddressOffset);
    w.watch[i] = {lo, lo + Get64(p, kBridgeWatchLengthOffset)};
  }
  return true;
}

Command Slot::ReadCommand() const {
  const uint8_t* e = ring + (head % kBridgeRingEntries) * kBridgeCommandSize;
  Command c;
  c.time = static_cast<Time>(Get64(e, kBridgeCommandTimeOffset));
  c.opcode = Get32(e, kBridgeCommandOpcodeOffset);
  c.count = Get32(e, kBridgeCommandCountOffset);
  c.address = Get64(e, kBridgeCommandAddressOffset);
  c.tag = Get64(e, kBridgeCommandTagOffset);
  std::memcpy(c.data, e + kBridgeCommandDataOffset, sizeof c.data);
  return c;
}

void Slot::WriteMessage(const Message& m) const {
  Put64(page, kBridgeSlotMessageTimeOffset, static_cast<uint64_t>(m.time));
  Put32(page, kBridgeSlotMessageNodeOffset, m.from.first);
  Put32(page, kBridgeSlotMessageRankOffset, m.from.second);
  Put32(page, kBridgeSlotMessageBytesOffset, static_cast<uint32_t>(m.bytes.size()));
  if (!m.bytes.empty()) std::memcpy(page + kBridgeSlotInboxOffset, m.bytes.data(), m.bytes.size());
}

void Slot::WriteWake(Time at, uint32_t reason, bool run) {
  acted_ns = woken_ns = MonotonicNs();
  acted_tail = head;
  clock = at;
  Put64(page, kBridgeSlotWakeTimeOffset, static_cast<uint64_t>(at));
  Put32(page, kBridgeSlotWakeReasonOffset, reason);
  if (run) Store32(page, kBridgeSlotStateOffset, kBridgeStateRunning);
  Increment32(page, kBridgeSlotWakeSequenceOffset);
  if (Load32(page, kBridgeSlotHostSleepingOffset) != 0) FutexWake(page, kBridgeSlotWakeSequenceOffset);
}

Slots::Slots(std::vector<ThreadName> declared, int spare, const std::vector<std::string>& node_names, bool ignore_running)
    : node_names_(node_names), ignore_running_(ignore_running), slots_(declared.size() + static_cast<size_t>(spare)) {
  // By node and rank: this orders simultaneous commands, and must not depend on the order of
  // attaching.
  std::sort(declared.begin(), declared.end(), Before);
  for (size_t i = 0; i < declared.size(); ++i) {
    const ThreadName& t = declared[i];
    if (i > 0 && declared[i - 1].Key() == t.Key()) throw std::runtime_error(Text("thread node ", t.node, " rank ", t.rank, " is declared twice: give each thread of a node its own rank"));
    slots_[i].name = t;
    slots_[i].declared = true;
  }
}

std::string Slots::Describe(const Slot& s) const {
  return Text("thread '", s.name.name, "' (node ", s.name.node, " '", node_names_[static_cast<size_t>(s.name.node)], "', rank ", s.name.rank, s.claimed ? Text(", process ", s.owner.pid) : "", ")");
}

Slot* Slots::Find(int node, int rank) {
  for (Slot& s : slots_)
    if ((s.declared || s.claimed) && s.name.node == node && s.name.rank == rank) return &s;
  return nullptr;
}

Slot* Slots::Spare() {
  // Commands of the slot's last thread still belong to that thread's node and rank.
  for (Slot& s : slots_)
    if (!s.declared && !s.claimed && s.commands.empty()) return &s;
  return nullptr;
}

void Slots::Claim(Slot& s, const Owner& owner, const ThreadName& name, Time begin) {
  Slot fresh;
  fresh.declared = s.declared;
  fresh.file = std::make_unique<SharedFile>("hvia-slot", kBridgeSlotStride);
  fresh.page = fresh.file->Base();
  fresh.ring = fresh.page + kBridgeSlotSize;
  // Commands of the slot's last thread still reach the card, but its reads get no reply.
  fresh.commands = std::move(s.commands);
  fresh.reads.assign(s.reads.size(), 0);
  s = std::move(fresh);
  s.name = name;
  s.owner = owner;
  s.claimed = true;
  s.clock = begin;
  s.acted_ns = MonotonicNs();
  Put64(s.page, kBridgeSlotWaitStartOffset, static_cast<uint64_t>(begin));
  Put64(s.page, kBridgeSlotWaitDeadlineOffset, static_cast<uint64_t>(begin));
  Put64(s.page, kBridgeSlotWaitPeriodOffset, 1);
  Put32(s.page, kBridgeSlotWaitSequenceOffset, 1);  // not 0: 0 in Abort names no wait
  Store32(s.page, kBridgeSlotStateOffset, kBridgeStateWaiting);
}

void Slots::Push(Slot& s, const Command& c) {
  s.commands.push_back(c);
  ++pending_;
}

Command Slots::Pop(Slot& s) {
  const Command c = s.commands.front();
  s.commands.pop_front();
  --pending_;
  return c;
}

void Slots::DropCommands(Slot& s) {
  pending_ -= static_cast<int>(s.commands.size());
  s.commands.clear();
}

Instant Slots::Bound() {
  if (bound_) return *bound_;
  Instant b;
  for (const Slot& s : slots_) {
    if (!s.claimed) continue;
    if (s.wait.armed) {
      b = std::min(b, s.wait.end);
    } else if (!ignore_running_) {
      b = std::min(b, Instant{s.clock, Phase::kWake});
    }
  }
  bound_ = b;
  return b;
}

Time Slots::Deadline() const {
  Time deadline = kNever;
  for (const Slot& s : slots_)
    if (s.wait.armed) deadline = std::min(deadline, s.wait.deadline);
  return deadline;
}

Range Slots::Watched(int node) const {
  Range all{UINT64_MAX, 0};
  for (const Slot& s : slots_) {
    if (!s.wait.armed || s.name.node != node) continue;
    for (uint32_t i = 0; i < s.wait.watches; ++i) {
      all.lo = std::min(all.lo, s.wait.watch[i].lo);
      all.hi = std::max(all.hi, s.wait.watch[i].hi);
    }
  }
  return all;
}

void Slots::SetEnd(Slot& s, Instant end) {
  s.wait.end = end;
  Changed();
}

void Slots::DelayPolls(int node, Time begin, Time end) {
  for (Slot& s : slots_) {
    Wait& w = s.wait;
    if (s.name.node != node || !w.For(kBridgeSlotWaitFlagsPollsMask) || FirstAfter(w.start, w.period, begin) >= end) continue;
    w.start = end;
    // The poll that was due did not happen. The thread sees its event at the end of the charge.
    if (w.reason != kBridgeReasonDeadline) SetEnd(s, {end, Phase::kWake});
  }
}

}  // namespace hvia::fabric
