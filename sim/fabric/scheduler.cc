// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace hvia::fabric {
namespace {

// In the place of a node: the network has something to do.
constexpr int kNetwork = -2;
// Messages of a process that is no guest that nobody has received.
constexpr uint32_t kMessageLimit = 65536;
// A node that asks for that many steps at one instant will never leave it.
constexpr uint64_t kSameTimeLimit = 10'000'000;
// How long the simulator sleeps when nothing but a kick can give it work: a
// backstop against a lost wake-up, not a poll.
constexpr int64_t kBackstopNs = 250'000'000;
// Flags of a wait that is for more than time.
constexpr uint32_t kEventFlags = kBridgeSlotWaitFlagsInterruptMask | kBridgeSlotWaitFlagsMessageMask | kBridgeSlotWaitFlagsReplyMask | kBridgeSlotWaitFlagsBarrierMask;

constexpr uint32_t kDoorbellPages = (1u << kPciBar1Log2) / kDoorbellPageBytes;
// What a guest's wait may be for.
constexpr uint32_t kGuestFlags = kBridgeSlotWaitFlagsMessageMask | kBridgeSlotWaitFlagsReplyMask | kBridgeSlotWaitFlagsBarrierMask | kBridgeSlotWaitFlagsChargeMask | kBridgeSlotWaitFlagsLooksMask;

int SlotCount(const SchedulerOptions& o) { return static_cast<int>(o.threads.size()) + o.spare_slots; }

Time Later(Time t, Time span) { return span > kNever - t ? kNever : t + span; }

std::string Hex(uint64_t v) {
  char b[24];
  std::snprintf(b, sizeof b, "%#" PRIx64, v);
  return b;
}

std::string At(Time t) { return "t=" + std::to_string(t) + " ps"; }

std::string TooManyActs(Time since) {
  return "posts and waits more than " + std::to_string(kBridgeMaxGuestCommands) + " times within " + std::to_string(kBridgeGuestSpan) + " ps from " + At(since) + " on, so that simulated time would not advance";
}

// First instant of the grid start + k * period strictly after t.
Time FirstAfter(Time start, Time period, Time t) {
  if (t < start) return start;
  const Time k = (t - start) / period + 1;
  if (k > (kNever - start) / period) return kNever;
  return start + k * period;
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, std::vector<std::string> node_names, uint64_t memory_bytes)
    : options_(std::move(options)),
      node_names_(std::move(node_names)),
      header_("hvia-header", kBridgeHeaderSize, SharedFile::Others::kReadOnly),
      bell_("hvia-bell", kBridgeBellSize) {
  // Slots in the order of (node, rank): it is the order of simultaneous
  // commands, and must not depend on who attached first.
  std::vector<ThreadName> threads = options_.threads;
  std::sort(threads.begin(), threads.end(), [](const ThreadName& a, const ThreadName& b) { return a.node != b.node ? a.node < b.node : a.rank < b.rank; });
  slots_.resize(static_cast<size_t>(SlotCount(options_)));
  for (size_t i = 0; i < threads.size(); ++i) {
    Slot& s = slots_[i];
    if (i > 0 && threads[i].node == threads[i - 1].node && threads[i].rank == threads[i - 1].rank) {
      throw std::runtime_error("thread node " + std::to_string(threads[i].node) + " rank " + std::to_string(threads[i].rank) + " is declared twice: give each thread of a node its own rank");
    }
    s.name = threads[i];
    s.declared = true;
  }
  interrupt_waits_.resize(node_names_.size());
  processors_.resize(node_names_.size());

  uint8_t* h = Header();
  Put32(h, kBridgeHeaderVersionOffset, kBridgeVersion);
  Put32(h, kBridgeHeaderModeOffset, options_.timed ? kBridgeModeTimed : kBridgeModeFree);
  Put64(h, kBridgeHeaderLayoutHashOffset, kLayoutHash);
  Put64(h, kBridgeHeaderParamsHashOffset, kParamsHash);
  Put32(h, kBridgeHeaderNodesOffset, static_cast<uint32_t>(node_names_.size()));
  Put32(h, kBridgeHeaderSlotsOffset, static_cast<uint32_t>(slots_.size()));
  Put64(h, kBridgeHeaderMemoryBytesOffset, memory_bytes);
  Put32(h, kBridgeHeaderSimulatorPidOffset, static_cast<uint32_t>(getpid()));
  Store32(h, kBridgeHeaderRunStateOffset, kBridgeRunStateRunning);
  Put64(h, kBridgeHeaderMagicOffset, kBridgeMagic);
}

void Scheduler::SetNodes(std::vector<Node*> nodes, std::vector<HostMemory*> memories, Network* network) {
  nodes_ = std::move(nodes);
  memories_ = std::move(memories);
  network_ = network;
  network_->AddObserver([this](Time start, int source, int destination, const std::vector<uint8_t>& bytes, uint32_t faults) {
    for (Digest* d : {&digest_, &frames_digest_}) {
      d->Add(static_cast<uint64_t>(start));
      d->Add(static_cast<uint64_t>(source));
      if (source == static_cast<int>(kWireSwitch)) d->Add(static_cast<uint64_t>(destination));
      d->AddBytes(bytes.data(), bytes.size());
      if (faults != 0) d->Add(faults);
    }
  });
  // Free mode sees a wait only after it was published, so it must remember
  // every write; timed mode knows all waits before it lets the cards write.
  if (!options_.timed)
    for (HostMemory* m : memories_) m->SetWatched(0, UINT64_MAX);
}

void Scheduler::Run() {
  begin_ns_ = MonotonicNs();
  Time span = 0;
  for (const Node* n : nodes_) span = std::max(span, n->BootSpan());
  now_ = -span;
  for (Node* n : nodes_) n->Boot(now_);
  if (!options_.timed) {
    // Nobody can attach to a card that is not there yet, in no mode.
    for (;;) {
      int slot, node;
      const Instant at = NextInternal(&slot, &node);
      if (at.time > 0) break;
      Execute(at, slot, node);
      if (stopped_) break;
    }
    now_ = std::max<Time>(now_, 0);
    started_ = true;
    for (size_t i = 0; i < nodes_.size() && !stopped_; ++i) {
      const std::string lacks = nodes_[i]->NotReady();
      if (!lacks.empty()) Stop(kBridgeStopDevice, "boot of node " + std::to_string(i) + " (" + node_names_[i] + ") is not complete at t=0: " + lacks);
    }
  }
  for (;;) {
    const uint32_t sequence = Sequence();
    {
      std::lock_guard<std::mutex> lock(jobs_mutex_);
      if (quit_) break;
    }
    Scan();
    RunJobs();
    bool progress = false;
    try {
      if (!stopped_) progress = options_.timed ? AdvanceTimed(sequence) : AdvanceFree(sequence);
    } catch (const std::exception& e) {
      Stop(kBridgeStopDevice, std::string(e.what()) + " at " + At(now_));
    }
    if (progress || (left_in_rings_ && !stopped_)) continue;
    AnswerDigests();
    Sleep(sequence);
  }
  const DigestReport report = Report();
  for (auto& hook : end_hooks_) hook(report);
  if (!stopped_) Stop(kBridgeStopClosed, (quit_why_.empty() ? "the fabric was closed" : quit_why_) + " at " + At(now_));
}

void Scheduler::Quit(std::string why) {
  {
    std::lock_guard<std::mutex> lock(jobs_mutex_);
    if (!quit_) quit_why_ = std::move(why);
    quit_ = true;
  }
  Ring();
  FutexWake(bell_.Base(), kBridgeBellSequenceOffset);
}

void Scheduler::Post(std::function<void()> job) {
  {
    std::lock_guard<std::mutex> lock(jobs_mutex_);
    jobs_.push_back(std::move(job));
  }
  Ring();
  FutexWake(bell_.Base(), kBridgeBellSequenceOffset);
}

void Scheduler::RunJobs() {
  std::vector<std::function<void()>> jobs;
  {
    std::lock_guard<std::mutex> lock(jobs_mutex_);
    jobs.swap(jobs_);
  }
  for (auto& job : jobs) job();
}

// ---- slots ----

std::string Scheduler::Describe(const Slot& s) const {
  std::string t = "thread '" + s.name.name + "' (node " + std::to_string(s.name.node) + " '" + node_names_[static_cast<size_t>(s.name.node)] + "', rank " + std::to_string(s.name.rank);
  if (s.claimed) t += ", process " + std::to_string(s.owner.pid);
  return t + ")";
}

std::string Scheduler::DescribeWait(const Slot& s) const {
  std::string t;
  auto add = [&t](const std::string& what) { t += (t.empty() ? "" : " or ") + what; };
  for (int i = 0; i < s.wait.watches; ++i) add("a write to [" + Hex(s.wait.watch[i].lo) + ", " + Hex(s.wait.watch[i].hi) + ")");
  if (s.wait.flags & kBridgeSlotWaitFlagsChargeMask) add("processor time");
  if (s.wait.flags & kBridgeSlotWaitFlagsInterruptMask) add("an interrupt");
  if (s.wait.flags & kBridgeSlotWaitFlagsMessageMask) add("a message");
  if (s.wait.flags & kBridgeSlotWaitFlagsReplyMask) add("the answer to a register read");
  if (s.wait.flags & kBridgeSlotWaitFlagsBarrierMask) {
    for (const auto& [key, b] : barriers_) {
      if (std::find(b.arrived.begin(), b.arrived.end(), static_cast<int>(&s - slots_.data())) != b.arrived.end()) {
        add("barrier " + std::to_string(key.id) + (key.group.empty() ? "" : " of group '" + key.group + "'") + " (" + std::to_string(b.arrived.size()) + " of " + std::to_string(b.parties) + " arrived)");
      }
    }
  }
  return t.empty() ? "nothing" : t;
}

void Scheduler::Scan() {
  // Pairs with the store of State and the later look at memory on the host's
  // side: either the host sees what was written, or this scan sees its wait.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  left_in_rings_ = false;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].claimed) ScanSlot(static_cast<int>(i));
  recent_.clear();
  recent_overflow_ = false;
}

void Scheduler::ScanSlot(int index) {
  Slot& s = slots_[static_cast<size_t>(index)];
  // State before the ring: commands posted before parking are then included.
  const uint32_t state = Load32(s.page, kBridgeSlotStateOffset);
  DrainRing(s, state == kBridgeStateDetached);
  if (stopped_ || !s.claimed) return;
  switch (state) {
    case kBridgeStateDetached: Release(index); return;
    case kBridgeStateRunning:
      if (s.wait.armed) Disarm(s);  // free mode: the host ended its wait itself
      return;
    case kBridgeStateWaiting: break;
    default: Offend(s, Describe(s) + " stored the state " + std::to_string(state) + ", which does not exist: its process overwrote the bridge's pages"); return;
  }
  const bool changed = s.wait.sequence != Load32(s.page, kBridgeSlotWaitSequenceOffset);
  if (s.wait.armed && changed && options_.timed && s.owner.guest != 0) {
    Offend(s, Describe(s) + " changed its wait while it waited: its process overwrote the bridge's pages");
    return;
  }
  if (!s.wait.armed || changed) Arm(index);
  if (stopped_ || !s.wait.armed) return;
  if (Load32(s.page, kBridgeSlotAbortOffset) == s.wait.sequence) {
    // Wall time decides when this happens: the run will not repeat.
    Taint();
    LeaveBarriers(index);
    Wake(index, std::max(now_, s.wait.start), kBridgeReasonAborted);
  }
}

void Scheduler::LeaveBarriers(int index) {
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    std::vector<int>& arrived = it->second.arrived;
    arrived.erase(std::remove(arrived.begin(), arrived.end(), index), arrived.end());
    it = arrived.empty() ? barriers_.erase(it) : std::next(it);
  }
}

void Scheduler::DrainRing(Slot& s, bool all) {
  const uint32_t tail = Load32(s.page, kBridgeSlotCommandTailOffset);
  if (tail == s.head) return;
  if (tail - s.head > kBridgeRingEntries) {
    Offend(s, Describe(s) + " published " + std::to_string(tail - s.head) + " commands in a ring of " + std::to_string(kBridgeRingEntries) + ": its process overwrote the bridge's pages");
    return;
  }
  Guest* const guest = s.owner.guest == 0 ? nullptr : FindGuest(s.owner.guest);
  for (; s.head != tail; ++s.head) {
    if (guest != nullptr && !options_.timed && !all && s.commands.size() >= kBridgeRingEntries) {
      left_in_rings_ = true;
      break;
    }
    const uint8_t* e = s.ring + (s.head % kBridgeRingEntries) * kBridgeCommandSize;
    Command c;
    c.time = static_cast<Time>(Get64(e, kBridgeCommandTimeOffset));
    c.opcode = Get32(e, kBridgeCommandOpcodeOffset);
    c.count = Get32(e, kBridgeCommandCountOffset);
    c.address = Get64(e, kBridgeCommandAddressOffset);
    c.tag = Get64(e, kBridgeCommandTagOffset);
    std::memcpy(c.data, e + kBridgeCommandDataOffset, sizeof c.data);
    if (guest != nullptr) {
      // Here and not when its time comes: what is withdrawn after it was posted
      // was still granted then.
      c.time = s.clock;
      std::string offence = Offence(*guest, s, c);
      if (offence.empty() && !Act(s)) offence = TooManyActs(s.instant);
      if (!offence.empty()) {
        Offend(s, Describe(s) + " " + offence);
        return;
      }
    }
    s.commands.push_back(c);
    ++pending_commands_;
  }
  Store32(s.page, kBridgeSlotCommandHeadOffset, s.head);
  if (Load32(s.page, kBridgeSlotRingSleepingOffset) != 0) FutexWake(s.page, kBridgeSlotCommandHeadOffset);
}

void Scheduler::Arm(int index) {
  Slot& s = slots_[static_cast<size_t>(index)];
  if (s.wait.armed) Disarm(s);
  Wait& w = s.wait;
  w.sequence = Load32(s.page, kBridgeSlotWaitSequenceOffset);
  w.start = static_cast<Time>(Get64(s.page, kBridgeSlotWaitStartOffset));
  w.deadline = static_cast<Time>(Get64(s.page, kBridgeSlotWaitDeadlineOffset));
  w.period = std::max<Time>(1, static_cast<Time>(Get64(s.page, kBridgeSlotWaitPeriodOffset)));
  w.flags = Get32(s.page, kBridgeSlotWaitFlagsOffset);
  const uint32_t watches = Get32(s.page, kBridgeSlotWaitWatchesOffset);
  if (watches > kBridgeMaxWatches) {
    Offend(s, Describe(s) + " asked for " + std::to_string(watches) + " watched ranges: at most " + std::to_string(kBridgeMaxWatches) + " fit");
    return;
  }
  w.watches = static_cast<int>(watches);
  for (int i = 0; i < w.watches; ++i) {
    const uint8_t* p = s.page + kBridgeSlotWatchesOffset + static_cast<size_t>(i) * kBridgeWatchSize;
    const uint64_t lo = Get64(p, kBridgeWatchAddressOffset);
    w.watch[i] = {lo, lo + Get64(p, kBridgeWatchLengthOffset)};
  }
  if (const Guest* g = s.owner.guest == 0 ? nullptr : FindGuest(s.owner.guest); g != nullptr) {
    if (!options_.timed) w.start = 0, w.period = 1, w.deadline = kNever;  // its host ends its waits
    std::string offence = Offence(*g, s, w);
    if (offence.empty() && !Act(s)) offence = TooManyActs(s.instant);
    if (!offence.empty()) {
      Offend(s, Describe(s) + " " + offence);
      return;
    }
  }
  if (options_.timed && s.owner.guest != 0 && !CountHeld(s, MonotonicNs(), true)) return;
  const bool charge = w.flags & kBridgeSlotWaitFlagsChargeMask;
  if (charge && (w.watches != 0 || (w.flags & kEventFlags) != 0 || w.deadline < w.start)) {
    Offend(s, Describe(s) + " asked for processor time from " + At(w.start) + " to " + At(w.deadline) + " with flags " + Hex(w.flags) + " and " + std::to_string(w.watches) +
                                  " watched ranges: time does not go back, and processor time waits for nothing else");
    return;
  }
  w.armed = true;
  w.reason = kBridgeReasonDeadline;
  if (!options_.timed) {
    if (w.deadline != kNever) w.deadline = Later(now_, std::max<Time>(w.deadline, 0));  // it is a span
    deadline_ = std::min(deadline_, w.deadline);
  }
  // A sleep ends before the instant's own events, so that the thread's
  // commands of that instant precede them; a wait for something ends after.
  const bool sleep = w.watches == 0 && (w.flags & kEventFlags) == 0;
  w.end = {w.deadline, sleep ? Phase::kWake : Phase::kTimeout};
  if (charge) w.end = {std::max(w.start, now_), Phase::kCharge};
  bound_dirty_ = true;
  const int node = s.name.node;
  if (w.flags & kBridgeSlotWaitFlagsInterruptMask) {
    ++interrupt_waits_[static_cast<size_t>(node)];
    if (nodes_[static_cast<size_t>(node)]->InterruptLevel()) Fire(index, {w.start, Phase::kWake}, kBridgeReasonInterrupt);
  }
  if (w.armed && w.watches > 0) {
    if (options_.timed) {
      UpdateWatched(node);
    } else {
      for (const Written& r : recent_)
        for (int i = 0; i < w.watches && w.armed; ++i)
          if (r.node == node && r.range.lo < w.watch[i].hi && r.range.hi > w.watch[i].lo) Fire(index, {now_, Phase::kWake}, kBridgeReasonWritten);
      if (w.armed && recent_overflow_) Fire(index, {now_, Phase::kWake}, kBridgeReasonWritten);
    }
  }
  if (w.armed && (w.flags & kBridgeSlotWaitFlagsMessageMask)) {
    auto box = mailboxes_.find({static_cast<uint32_t>(node), static_cast<uint32_t>(s.name.rank)});
    if (box != mailboxes_.end()) Fire(index, {std::max(w.start, box->second.front().time + 1), Phase::kWake}, kBridgeReasonMessage);
  }
  if (w.armed && (w.flags & kBridgeSlotWaitFlagsMessageMask) && s.refusal_ready) Fire(index, {std::max(w.start, s.refusal_time), Phase::kWake}, kBridgeReasonRefused);
  if (w.armed && (w.flags & kBridgeSlotWaitFlagsReplyMask) && s.reply_ready) Fire(index, {std::max(w.start, s.reply_time), Phase::kWake}, kBridgeReasonReply);
  if (w.armed && (w.flags & kBridgeSlotWaitFlagsBarrierMask) && s.barrier_ready) {
    Fire(index, {std::max(w.start, s.barrier_time), Phase::kWake}, s.barrier_refused ? kBridgeReasonRefused : kBridgeReasonBarrier);
  }
}

void Scheduler::Disarm(Slot& s) {
  s.wait.armed = false;
  bound_dirty_ = true;
  if (s.wait.flags & kBridgeSlotWaitFlagsInterruptMask) --interrupt_waits_[static_cast<size_t>(s.name.node)];
  if (s.wait.watches > 0 && options_.timed) UpdateWatched(s.name.node);
  if (!options_.timed && s.wait.deadline == deadline_) FindDeadline();
  if (s.wait.flags & kBridgeSlotWaitFlagsChargeMask) {
    std::vector<Hold>& holds = processors_[static_cast<size_t>(s.name.node)];
    holds.erase(std::remove_if(holds.begin(), holds.end(), [&](const Hold& h) { return h.slot == static_cast<int>(&s - slots_.data()); }), holds.end());
  }
}

void Scheduler::UpdateWatched(int node) {
  uint64_t lo = UINT64_MAX, hi = 0;
  for (const Slot& s : slots_) {
    if (!s.wait.armed || s.name.node != node) continue;
    for (int i = 0; i < s.wait.watches; ++i) {
      lo = std::min(lo, s.wait.watch[i].lo);
      hi = std::max(hi, s.wait.watch[i].hi);
    }
  }
  memories_[static_cast<size_t>(node)]->SetWatched(lo, hi);
}

std::string Scheduler::Attach(const Owner& owner, int node, int rank, const std::string& name, int* slot, bool* offence) {
  *offence = false;
  if (stopped_) return "the run is over: " + std::string(reinterpret_cast<const char*>(Header() + kBridgeHeaderStopTextOffset));
  if (node < 0 || node >= static_cast<int>(node_names_.size())) {
    return "node " + std::to_string(node) + " does not exist: the fabric has " + std::to_string(node_names_.size()) + " nodes, counted from 0";
  }
  if (const Guest* g = FindGuest(owner.guest); owner.guest != 0) {
    if (g == nullptr || g->ended) return "this process's connection has been ended";
    if (!g->OwnsRank(node, static_cast<uint32_t>(rank))) {
      *offence = true;
      return Describe(*g) + " tried to attach '" + name + "' as node " + std::to_string(node) + " rank " + std::to_string(rank) + ": its threads are of node " + std::to_string(g->config.node) + " and have the ranks " +
             std::to_string(g->config.first_rank) + " to " + std::to_string(g->config.first_rank + g->config.ranks - 1);
    }
  } else if (const Guest* of = GuestOfRank(node, static_cast<uint32_t>(rank)); of != nullptr) {
    return "node " + std::to_string(node) + " rank " + std::to_string(rank) + " belongs to " + Describe(*of);
  }
  Slot* found = nullptr;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].claimed) ScanSlot(static_cast<int>(i));  // its thread may have detached a moment ago
    Slot& s = slots_[i];
    if ((s.declared || s.claimed) && s.name.node == node && s.name.rank == rank) found = &s;
  }
  if (found != nullptr && found->claimed) return Describe(*found) + " is attached already: give each thread of a node its own rank";
  if (found != nullptr && found->name.name != name) {
    return "node " + std::to_string(node) + " rank " + std::to_string(rank) + " is declared as '" + found->name.name + "', not as '" + name + "': use the name given at the start of the simulator";
  }
  if (found == nullptr) {
    for (Slot& s : slots_) {
      // What the slot's last thread posted is still of that thread's node and rank.
      if (s.declared || s.claimed || !s.commands.empty()) continue;
      found = &s;
      break;
    }
    if (found == nullptr) return "all " + std::to_string(slots_.size()) + " slots are taken: start the simulator with more spare slots";
    // Not promised at the start, so its place in time is that of wall time.
    if (options_.timed) Taint();
  }
  if (started_ && options_.timed) Taint();
  Slot& s = *found;
  Slot fresh;
  fresh.declared = s.declared;
  try {
    fresh.file = std::make_unique<SharedFile>("hvia-slot", kBridgeSlotStride);
  } catch (const std::exception& e) {
    return e.what();
  }
  uint8_t* const page = fresh.page = fresh.file->Base();
  fresh.ring = page + kBridgeSlotSize;
  // What the slot's last thread posted still goes to the card, but answers to
  // its reads reach nobody.
  fresh.commands = std::move(s.commands);
  fresh.reads.assign(s.reads.size(), 0);
  s = std::move(fresh);
  s.name = {node, rank, name};
  s.owner = owner;
  s.claimed = true;
  // The thread begins parked: until time 0 or, if it comes later, until now.
  const Time begin = s.clock = std::max<Time>(now_, 0);
  Put64(page, kBridgeSlotWaitStartOffset, static_cast<uint64_t>(begin));
  Put64(page, kBridgeSlotWaitDeadlineOffset, static_cast<uint64_t>(begin));
  Put64(page, kBridgeSlotWaitPeriodOffset, 1);
  Put32(page, kBridgeSlotWaitSequenceOffset, 1);  // Abort is 0, which names no wait
  s.acted_ns = MonotonicNs();
  *slot = static_cast<int>(found - slots_.data());
  Store32(page, kBridgeSlotStateOffset, kBridgeStateWaiting);
  Arm(*slot);
  if (!options_.timed) Wake(*slot, begin, kBridgeReasonDeadline);
  // The loop looks again: this may have been the last participant.
  Ring();
  return "";
}

void Scheduler::Release(int index) {
  Slot& s = slots_[static_cast<size_t>(index)];
  if (s.wait.armed) Disarm(s);
  LeaveBarriers(index);
  s.claimed = false;
  bound_dirty_ = true;
  // A rank that was neither declared nor given to a guest is nobody's now.
  const std::pair<uint32_t, uint32_t> at{static_cast<uint32_t>(s.name.node), static_cast<uint32_t>(s.name.rank)};
  const auto box = mailboxes_.find(at);
  if (box == mailboxes_.end() || HasRank(at.first, at.second)) return;
  for (const Message& m : box->second) Uncount(m);
  mailboxes_.erase(box);
}

void Scheduler::ConnectionClosed(const Owner& owner) {
  if (owner.guest != 0) {
    if (Guest* g = FindGuest(owner.guest); g != nullptr) GuestClosed(*g);
    return;
  }
  std::string lost;
  uint32_t nodes_lost = owner.node_mask;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& s = slots_[i];
    if (!s.claimed) continue;
    if (s.owner.connection != owner.connection) {
      nodes_lost &= ~(1u << s.name.node);
      continue;
    }
    ScanSlot(static_cast<int>(i));
    if (stopped_) return;
    if (!s.claimed) continue;  // detached before the connection ended
    lost += (lost.empty() ? "" : ", ") + Describe(s);
    s.commands.clear();
    Release(static_cast<int>(i));
    Store32(s.page, kBridgeSlotStateOffset, kBridgeStateDetached);
  }
  SenderGone(SenderOf(owner), lost.empty());
  if (lost.empty()) return;
  pending_commands_ = 0;
  for (const Slot& s : slots_) pending_commands_ += static_cast<int>(s.commands.size());
  Taint();
  if (!options_.continue_on_death) {
    Stop(kBridgeStopPeerDied, "process " + std::to_string(owner.pid) + " ('" + owner.name + "') died at " + At(now_) + " with these threads attached: " + lost);
    return;
  }
  std::fprintf(stderr, "process %u ('%s') died at %s with these threads attached: %s; its memory is a sink from now on\n", owner.pid, owner.name.c_str(), At(now_).c_str(), lost.c_str());
  for (size_t n = 0; n < memories_.size(); ++n)
    if (nodes_lost >> n & 1) memories_[n]->SetSink();
}

// ---- guests ----

bool Scheduler::Guest::InBank(uint64_t address, uint64_t bytes) const {
  const uint64_t lo = config.first_frame * kBridgeFrameBytes, hi = lo + config.frames * kBridgeFrameBytes;
  return address >= lo && address <= hi && bytes <= hi - address;
}

Scheduler::Guest* Scheduler::FindGuest(uint32_t id) {
  auto it = guests_.find(id);
  return it == guests_.end() ? nullptr : &it->second;
}

Scheduler::Guest* Scheduler::GuestOfRank(int node, uint32_t rank) {
  for (auto& [id, g] : guests_)
    if (g.OwnsRank(node, rank)) return &g;
  return nullptr;
}

std::string Scheduler::Describe(const Guest& g) const {
  return "process " + std::to_string(g.config.pid) + " ('" + g.config.name + "', guest " + std::to_string(g.id) + " on node " + std::to_string(g.config.node) + " '" + node_names_[g.config.node] + "')";
}

std::string Scheduler::NewGuest(const GuestConfig& config, std::function<void(const GuestEnd&)> ended, uint32_t* id, std::shared_ptr<SealedFile>* bank) {
  const auto range = [](uint64_t first, uint64_t count) { return std::to_string(first) + " to " + std::to_string(first + count - 1); };
  if (stopped_) return "the run is over: " + std::string(reinterpret_cast<const char*>(Header() + kBridgeHeaderStopTextOffset));
  if (config.name.empty()) return "a guest without a name";
  if (config.node >= node_names_.size()) return "node " + std::to_string(config.node) + " does not exist: the fabric has " + std::to_string(node_names_.size()) + " nodes, counted from 0";
  if (guests_.size() >= kBridgeMaxGuests) return "there are " + std::to_string(guests_.size()) + " guests, which is the limit: end one";
  HostMemory& memory = *memories_[config.node];
  if (config.frames == 0 || config.first_frame >= memory.Frames() || config.frames > memory.Frames() - config.first_frame) {
    return "a bank of " + std::to_string(config.frames) + " frames from frame " + std::to_string(config.first_frame) + " on: node " + std::to_string(config.node) + " has " + std::to_string(memory.Frames()) +
           " frames, and a bank at least one of them";
  }
  if (config.ranks == 0 || config.first_rank > INT32_MAX || config.ranks > INT32_MAX - config.first_rank) {
    return std::to_string(config.ranks) + " ranks from rank " + std::to_string(config.first_rank) + " on: want at least one, and none above " + std::to_string(INT32_MAX);
  }
  for (const auto& [other, g] : guests_) {
    if (g.config.node != config.node) continue;
    const GuestConfig& o = g.config;
    if (config.first_frame < o.first_frame + o.frames && o.first_frame < config.first_frame + config.frames) {
      return "a bank of frames " + range(config.first_frame, config.frames) + ": those of " + Describe(g) + " are " + range(o.first_frame, o.frames);
    }
    if (config.first_rank < o.first_rank + o.ranks && o.first_rank < config.first_rank + config.ranks) {
      return "ranks " + range(config.first_rank, config.ranks) + ": those of " + Describe(g) + " are " + range(o.first_rank, o.ranks);
    }
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].claimed) ScanSlot(static_cast<int>(i));
    const Slot& s = slots_[i];
    if (!s.claimed || s.name.node != static_cast<int>(config.node)) continue;
    const auto rank = static_cast<uint32_t>(s.name.rank);
    if (rank >= config.first_rank && rank - config.first_rank < config.ranks) return "ranks " + range(config.first_rank, config.ranks) + ": " + Describe(s) + " is attached";
  }
  uint64_t used = 0;
  if (const uint64_t count = memory.FramesInUse(config.first_frame, config.frames, &used); count != 0) {
    return "a bank of frames " + range(config.first_frame, config.frames) + ": " + std::to_string(count) + " of them are in use by the card, frame " + std::to_string(used) + " is the first";
  }
  Guest g;
  try {
    g.bank = std::make_shared<SealedFile>("hvia-bank", config.frames * kBridgeFrameBytes);
  } catch (const std::exception& e) {
    return e.what();
  }
  const std::string why = memory.InsertBank(config.first_frame, config.frames, *g.bank);
  if (!why.empty()) return why;
  g.id = *id = ++last_guest_;
  g.config = config;
  g.pages.assign(kDoorbellPages, false);
  g.on_end = std::move(ended);
  *bank = g.bank;
  guests_.emplace(g.id, std::move(g));
  return "";
}

std::string Scheduler::Grant(uint32_t guest, uint32_t page, bool on) {
  Guest* const g = FindGuest(guest);
  if (g == nullptr) return "guest " + std::to_string(guest) + " does not exist";
  if (page >= kDoorbellPages) return "page " + std::to_string(page) + " of the doorbells: there are " + std::to_string(kDoorbellPages) + ", counted from 0";
  for (const auto& [other, o] : guests_)
    if (on && other != guest && o.config.node == g->config.node && o.pages[page]) return "page " + std::to_string(page) + " of the doorbells is granted to " + Describe(o);
  if (!on) {
    // What was posted up to now was posted with the page.
    for (Slot& s : slots_)
      if (s.claimed && s.owner.guest == guest) DrainRing(s, true);
  }
  g->pages[page] = on;
  return "";
}

std::string Scheduler::EndGuest(uint32_t guest) {
  Guest* const g = FindGuest(guest);
  if (g == nullptr) return "guest " + std::to_string(guest) + " does not exist";
  FinishGuest(*g, kBridgeGuestEndOwner, "the owner of the fabric ended " + Describe(*g) + " at " + At(now_));
  HostMemory& memory = *memories_[g->config.node];
  uint64_t used = 0;
  if (const uint64_t count = memory.FramesInUse(g->config.first_frame, g->config.frames, &used); count != 0) {
    return "the connection of " + Describe(*g) + " is ended, but " + std::to_string(count) + " frames of its bank are in use by the card, frame " + std::to_string(used) + " is the first: release them and ask again";
  }
  const std::string why = memory.RemoveBank(g->config.first_frame, g->config.frames);
  if (!why.empty()) return why;
  // Since it ended, others may have sent to it; and what it left behind may not have reached the card.
  DropMessages(*g);
  for (Slot& s : slots_)
    if (s.owner.guest == guest) DropCommands(s);
  guests_.erase(guest);
  return "";
}

std::string Scheduler::Offence(const Guest& g, const Slot& s, const Command& c) const {
  if (options_.timed && s.wait.armed) return "posted a command while it waited: its process overwrote the bridge's pages";
  const uint32_t bar = kPciBar1Base;
  switch (c.opcode) {
    case kBridgeOpcodeWrite: {
      const std::string what = "tried to write " + std::to_string(c.count) + " dwords to the card at " + Hex(c.address);
      if (c.count == 0 || c.count > kDoorbellDwords || c.address % 4 != 0) return what + ": a guest writes 1 to " + std::to_string(kDoorbellDwords) + ", at a multiple of 4";
      if (c.address < bar || c.address - bar >= 1u << kPciBar1Log2) return what + ", which is no doorbell";
      const uint64_t page = (c.address - bar) / kDoorbellPageBytes;
      if ((c.address - bar) % kDoorbellPageBytes + 4 * static_cast<uint64_t>(c.count) > kDoorbellPageBytes) return what + ", which goes beyond the end of page " + std::to_string(page) + " of the doorbells";
      if (!g.pages[page]) return what + ", in page " + std::to_string(page) + " of the doorbells, which was not granted to it";
      return "";
    }
    case kBridgeOpcodePublish:
      if (!g.InBank(c.address, c.tag)) return "tried to publish " + std::to_string(c.tag) + " bytes at " + Hex(c.address) + ", outside of its bank";
      return "";
    case kBridgeOpcodeMessage:
      if (c.count > sizeof c.data || c.tag > kBridgeMaxMessage) return "tried to send a piece of " + std::to_string(c.count) + " bytes of a message of " + std::to_string(c.tag) + " bytes: the limits are " + std::to_string(sizeof c.data) + " and " + std::to_string(kBridgeMaxMessage);
      if (c.address >> 32 >= node_names_.size() || (c.address & UINT32_MAX) > INT32_MAX) return "tried to send a message to node " + std::to_string(c.address >> 32) + " rank " + std::to_string(c.address & UINT32_MAX) + ", which does not exist";
      return "";
    case kBridgeOpcodeBarrier:
      if (c.count == 0) return "tried to enter barrier " + std::to_string(c.address) + " of 0 parties";
      if (c.tag > kBridgeMaxGroup) return "tried to enter barrier " + std::to_string(c.address) + " of a group with a name of " + std::to_string(c.tag) + " bytes: at most " + std::to_string(kBridgeMaxGroup) + " fit";
      return "";
    case kBridgeOpcodeRead: return "tried to read a register of the card at " + Hex(c.address) + ", which a guest may not";
    case kBridgeOpcodeBusReset: return "tried to reset the system bus of its node, which a guest may not";
    case kBridgeOpcodeHoldWire: return "tried to hold the wire to its node, which a guest may not";
    default: return "posted the command " + std::to_string(c.opcode) + ", which does not exist: its process overwrote the bridge's pages";
  }
}

std::string Scheduler::Offence(const Guest& g, const Slot& s, const Wait& w) const {
  if ((w.flags & kBridgeSlotWaitFlagsInterruptMask) != 0) return "tried to wait for the card's interrupt, which a guest may not";
  if ((w.flags & kBridgeSlotWaitFlagsServiceMask) != 0) return "tried to take the processor for an interrupt service, which a guest may not";
  if ((w.flags & ~kGuestFlags) != 0) return "waits with the flags " + Hex(w.flags) + ", which do not exist: its process overwrote the bridge's pages";
  for (int i = 0; i < w.watches; ++i) {
    const Range& r = w.watch[i];
    // An end below the begin is a length that went past the end of the numbers.
    if (r.hi < r.lo || !g.InBank(r.lo, r.hi - r.lo)) return "tried to watch " + std::to_string(r.hi - r.lo) + " bytes at " + Hex(r.lo) + ", outside of its bank";
  }
  if (!options_.timed) return "";
  if (w.start != s.clock || w.deadline < w.start) return "waits from " + At(w.start) + " to " + At(w.deadline) + " when its clock is " + At(s.clock) + ": its process overwrote the bridge's pages";
  if ((w.flags & kBridgeSlotWaitFlagsChargeMask) != 0 && w.deadline - w.start > static_cast<Time>(kBridgeMaxGuestCharge)) {
    return "asked for " + std::to_string(w.deadline - w.start) + " ps of processor time at once: a guest may have " + std::to_string(kBridgeMaxGuestCharge);
  }
  return "";
}

bool Scheduler::Act(Slot& s) {
  if (!options_.timed) return true;
  if (s.instant < 0 || s.clock - s.instant >= static_cast<Time>(kBridgeGuestSpan)) s.instant = s.clock, s.acts = 0;
  return ++s.acts <= kBridgeMaxGuestCommands;
}

void Scheduler::Offend(Slot& s, const std::string& text) { Offend(s.owner, text); }

void Scheduler::Offend(const Owner& owner, const std::string& text) {
  if (owner.guest == 0) {
    Stop(kBridgeStopProtocol, text);
  } else if (Guest* g = FindGuest(owner.guest); g != nullptr) {
    const std::string who = Describe(*g);
    FinishGuest(*g, kBridgeGuestEndViolation, text.compare(0, who.size(), who) == 0 ? text : who + ": " + text);
  }
}

void Scheduler::FinishGuest(Guest& g, uint32_t reason, const std::string& text) {
  if (g.ended) return;
  g.ended = true;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& s = slots_[i];
    if (s.owner.guest != g.id) continue;
    if (s.claimed) {
      // Its sleepers are woken by their process, which learns from the control
      // socket why: raising their wake count would look like the end of a wait.
      Release(static_cast<int>(i));
      Store32(s.page, kBridgeSlotStateOffset, kBridgeStateDetached);
      Taint();
    }
    // What one that left has posted still goes to the card.
    if (reason != kBridgeGuestEndLeft) DropCommands(s);
  }
  DropMessages(g);
  SenderGone(g.id, reason == kBridgeGuestEndLeft);
  bound_dirty_ = true;
  if (reason != kBridgeGuestEndLeft && reason != kBridgeGuestEndOwner) std::fprintf(stderr, "guest ended (%s): %s\n", BridgeGuestEndName(reason), text.c_str());
  g.on_end({g.id, reason, now_, text});
}

void Scheduler::GuestClosed(Guest& g) {
  std::string lost;
  for (size_t i = 0; i < slots_.size() && !g.ended; ++i) {
    Slot& s = slots_[i];
    if (!s.claimed || s.owner.guest != g.id) continue;
    ScanSlot(static_cast<int>(i));
    if (s.claimed) lost += (lost.empty() ? "" : ", ") + Describe(s);
  }
  if (lost.empty()) {
    FinishGuest(g, kBridgeGuestEndLeft, Describe(g) + " left at " + At(now_));
  } else {
    FinishGuest(g, kBridgeGuestEndDied, Describe(g) + " died at " + At(now_) + " with these threads attached: " + lost);
  }
}

void Scheduler::DropCommands(Slot& s) {
  pending_commands_ -= static_cast<int>(s.commands.size());
  s.commands.clear();
}

void Scheduler::DropMessages(const Guest& g) {
  for (auto it = mailboxes_.begin(); it != mailboxes_.end();) {
    if (!g.OwnsRank(static_cast<int>(it->first.first), it->first.second)) {
      ++it;
      continue;
    }
    for (const Message& m : it->second) Uncount(m);
    it = mailboxes_.erase(it);
  }
}

void Scheduler::Uncount(const Message& m) {
  if (m.sender != 0 && --unreceived_[m.sender] == 0) unreceived_.erase(m.sender);
}

void Scheduler::SenderGone(uint64_t sender, bool keep) {
  if (unreceived_.count(sender) == 0) return;
  // What a process that left has said is still received: when it is gone depends on wall time,
  // when it said it does not.
  if (!keep) RemoveMessages([sender](const Message& m) { return m.sender == sender; });
  std::vector<uint64_t> left;
  for (auto& [to, box] : mailboxes_) {
    for (Message& m : box) {
      if (m.sender == sender) m.sender = 0;
      if (m.sender == 0) left.push_back(m.order);
    }
  }
  unreceived_.erase(sender);
  if (left.size() <= kBridgeMaxLeftMessages) return;
  const auto oldest = left.end() - kBridgeMaxLeftMessages;
  std::nth_element(left.begin(), oldest, left.end());
  RemoveMessages([first = *oldest](const Message& m) { return m.sender == 0 && m.order < first; });
}

void Scheduler::RemoveMessages(const std::function<bool(const Message&)>& which) {
  for (auto it = mailboxes_.begin(); it != mailboxes_.end();) {
    std::deque<Message>& box = it->second;
    bool taken = false;
    for (const Slot& s : slots_)
      taken = taken || (s.wait.armed && s.wait.reason == kBridgeReasonMessage && static_cast<uint32_t>(s.name.node) == it->first.first && static_cast<uint32_t>(s.name.rank) == it->first.second);
    box.erase(std::remove_if(box.begin() + (taken ? 1 : 0), box.end(),
                             [&](const Message& m) {
                               if (!which(m)) return false;
                               Uncount(m);
                               return true;
                             }),
              box.end());
    it = box.empty() ? mailboxes_.erase(it) : std::next(it);
  }
}

bool Scheduler::HasRank(uint32_t node, uint32_t rank) {
  if (const Guest* g = GuestOfRank(static_cast<int>(node), rank); g != nullptr) return !g->ended;
  for (const Slot& s : slots_) {
    if (static_cast<uint32_t>(s.name.node) != node || static_cast<uint32_t>(s.name.rank) != rank) continue;
    // A guest that was declared comes once.
    if (s.claimed || (s.declared && (!options_.guests || s.file == nullptr))) return true;
  }
  return false;
}

// ---- the run ----

Instant Scheduler::Bound() {
  if (!bound_dirty_) return bound_;
  Instant b;
  for (const Slot& s : slots_) {
    if (!s.claimed) continue;
    if (s.wait.armed) {
      b = std::min(b, s.wait.end);
    } else if (!options_.ignore_running) {
      b = std::min(b, Instant{s.clock, Phase::kWake});
    }
  }
  if (!started_) b = std::min(b, Instant{0, Phase::kWake});
  bound_ = b;
  bound_dirty_ = false;
  return b;
}

Instant Scheduler::NextInternal(int* command_slot, int* node) {
  *command_slot = *node = -1;
  Instant next;
  if (pending_commands_ > 0) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].commands.empty()) continue;
      // In free mode a command's time is the instant at which it is taken.
      const Instant at{options_.timed ? std::max(now_, slots_[i].commands.front().time) : now_, Phase::kCommand};
      if (at < next) next = at, *command_slot = static_cast<int>(i);
    }
  }
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Time t = nodes_[n]->NextEvent();
    if (t == kNever) continue;
    const Instant at{t, Phase::kDevice};
    if (at < next) next = at, *node = static_cast<int>(n), *command_slot = -1;
  }
  const Instant network{network_->NextEvent(), Phase::kDevice};
  if (network < next) next = network, *node = kNetwork, *command_slot = -1;
  return next;
}

void Scheduler::Execute(const Instant& at, int command_slot, int node) {
  // In free mode commands come whenever a host wants, and time is the cards'.
  if (options_.timed || command_slot < 0) same_time_steps_ = at.time == now_ ? same_time_steps_ + 1 : 0;
  if (same_time_steps_ > kSameTimeLimit) {
    Stop(kBridgeStopDevice, "time does not advance beyond " + At(now_) + " after " + std::to_string(same_time_steps_) + " events at that instant");
    return;
  }
  if (at.time < now_) {
    Stop(kBridgeStopDevice, (node == kNetwork ? "the network" : "node " + std::to_string(node) + " (" + node_names_[static_cast<size_t>(node)] + ")") + " asks for " + At(at.time) + " when the fabric is at " + At(now_));
    return;
  }
  now_ = at.time;
  if (command_slot >= 0) {
    ExecuteCommand(command_slot);
  } else if (node == kNetwork) {
    network_->Step(now_);
  } else {
    nodes_[static_cast<size_t>(node)]->Step(now_);
    AfterNode(node);
  }
}

void Scheduler::AfterNode(int node) {
  if (interrupt_waits_[static_cast<size_t>(node)] == 0 || !nodes_[static_cast<size_t>(node)]->InterruptLevel()) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Wait& w = slots_[i].wait;
    if (!w.armed || slots_[i].name.node != node || !(w.flags & kBridgeSlotWaitFlagsInterruptMask)) continue;
    const Time look = FirstAfter(w.start, w.period, now_);
    Fire(static_cast<int>(i), look <= w.deadline ? Instant{look, Phase::kWake} : Instant{std::max(w.deadline, now_), Phase::kTimeout}, kBridgeReasonInterrupt);
  }
}

void Scheduler::ExecuteCommand(int index) {
  Slot& s = slots_[static_cast<size_t>(index)];
  const Command c = s.commands.front();
  s.commands.pop_front();
  --pending_commands_;
  Node* node = nodes_[static_cast<size_t>(s.name.node)];
  switch (c.opcode) {
    case kBridgeOpcodeWrite:
      if (c.count == 0 || c.count > kBridgeMaxWriteDwords || c.address % 4 != 0 || c.address > UINT32_MAX) break;
      node->HostWrite(now_, index, static_cast<uint32_t>(c.address), c.data, static_cast<int>(c.count));
      AfterNode(s.name.node);
      return;
    case kBridgeOpcodeRead:
      if (c.address % 4 != 0 || c.address > UINT32_MAX) break;
      s.reads.push_back(c.tag);
      s.last_read = c.tag;
      s.reply_ready = false;
      node->HostRead(now_, index, static_cast<uint32_t>(c.address));
      AfterNode(s.name.node);
      return;
    case kBridgeOpcodePublish: FireWatches(s.name.node, c.address, c.address + c.tag); return;
    case kBridgeOpcodeMessage:
      if (c.count > sizeof c.data || c.tag > kBridgeMaxMessage || s.partial.size() + c.count > c.tag) break;
      Deliver(index, c);
      return;
    case kBridgeOpcodeBarrier:
      if (c.count == 0 || c.tag > kBridgeMaxGroup) break;
      ArriveAtBarrier(index, c);
      return;
    case kBridgeOpcodeBusReset:
      if (c.tag == 0 || c.tag > kBridgeMaxBusReset) break;
      if (!node->BusReset(now_, static_cast<Time>(c.tag))) break;
      AfterNode(s.name.node);
      return;
    case kBridgeOpcodeHoldWire:
      if (c.tag > 1) break;
      if (nodes_.size() < 2) {
        Stop(kBridgeStopProtocol, Describe(s) + " wants to hold the wire to its node: a fabric of 1 node has no wire");
        return;
      }
      network_->Hold(s.name.node, c.tag == 1, now_);
      AfterNode(s.name.node);
      return;
    default: break;
  }
  Offend(s, Describe(s) + " posted the command " + std::to_string(c.opcode) + " (" + BridgeOpcodeName(c.opcode) + ")" + " with address " + Hex(c.address) + ", count " + std::to_string(c.count) + " and tag " + std::to_string(c.tag) + ", which the bridge does not take");
}

void Scheduler::Deliver(int index, const Command& c) {
  Slot& s = slots_[static_cast<size_t>(index)];
  const uint8_t* data = reinterpret_cast<const uint8_t*>(c.data);
  s.partial.insert(s.partial.end(), data, data + c.count);
  if (s.partial.size() < c.tag) return;
  const std::pair<uint32_t, uint32_t> to{static_cast<uint32_t>(c.address >> 32), static_cast<uint32_t>(c.address)};
  if (!HasRank(to.first, to.second)) {
    s.partial.clear();
    if (!s.claimed) return;  // nobody is there to be told
    Put32(s.page, kBridgeSlotRefusedNodeOffset, to.first);
    Put32(s.page, kBridgeSlotRefusedRankOffset, to.second);
    Increment32(s.page, kBridgeSlotRefusalsOffset);
    s.refusal_ready = true;
    s.refusal_time = now_ + 1;
    if (s.wait.armed && (s.wait.flags & kBridgeSlotWaitFlagsMessageMask)) Fire(index, {std::max(s.wait.start, now_ + 1), Phase::kWake}, kBridgeReasonRefused);
    return;
  }
  // A guest that has ended may still have commands here, but is not counted any more.
  const Guest* const guest = s.owner.guest == 0 ? nullptr : FindGuest(s.owner.guest);
  const bool left = s.owner.guest != 0 && (guest == nullptr || guest->ended);
  const uint64_t sender = SenderOf(s.owner);
  const uint32_t limit = guest == nullptr ? kMessageLimit : kBridgeMaxGuestMessages;
  if (unreceived_[sender] >= limit) {
    Offend(s, Describe(s) + " tried to send a message to node " + std::to_string(to.first) + " rank " + std::to_string(to.second) + " when " + std::to_string(limit) + " messages of its process are not received");
    return;
  }
  ++unreceived_[sender];
  mailboxes_[to].push_back({now_, static_cast<uint32_t>(s.name.node), static_cast<uint32_t>(s.name.rank), std::move(s.partial), sender, ++last_message_});
  s.partial.clear();
  if (left) SenderGone(sender, true);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& r = slots_[i];
    if (!r.claimed || static_cast<uint32_t>(r.name.node) != to.first || static_cast<uint32_t>(r.name.rank) != to.second) continue;
    if (r.wait.armed && (r.wait.flags & kBridgeSlotWaitFlagsMessageMask)) {
      const Time look = std::max(r.wait.start, now_ + 1);
      if (look <= r.wait.deadline) Fire(static_cast<int>(i), {look, Phase::kWake}, kBridgeReasonMessage);
    }
  }
}

void Scheduler::ArriveAtBarrier(int index, const Command& c) {
  Slot& s = slots_[static_cast<size_t>(index)];
  if (s.owner.guest != 0) {
    for (const auto& [key, other] : barriers_) {
      if (std::find(other.arrived.begin(), other.arrived.end(), index) == other.arrived.end()) continue;
      Offend(s, Describe(s) + " tried to enter barrier " + std::to_string(c.address) + " when it is in barrier " + std::to_string(key.id));
      return;
    }
  }
  const BarrierKey key{c.tag == 0 ? s.owner.guest : 0, std::string(reinterpret_cast<const char*>(c.data), c.tag), c.address};
  BarrierState& b = barriers_[key];
  s.barrier_ready = false;
  if (b.arrived.empty()) b.parties = c.count;
  auto release = [this](int i, bool refused) {
    Slot& r = slots_[static_cast<size_t>(i)];
    r.barrier_ready = true;
    r.barrier_refused = refused;
    r.barrier_time = now_ + 1;
    if (r.wait.armed && (r.wait.flags & kBridgeSlotWaitFlagsBarrierMask)) Fire(i, {now_ + 1, Phase::kWake}, refused ? kBridgeReasonRefused : kBridgeReasonBarrier);
  };
  if (b.parties != c.count) {
    release(index, true);
    return;
  }
  b.arrived.push_back(index);
  if (b.arrived.size() < b.parties) return;
  std::vector<int> all;
  all.swap(b.arrived);
  barriers_.erase(key);
  for (int i : all) release(i, false);
}

bool Scheduler::AllQuiescent() const {
  for (const Node* n : nodes_)
    if (!n->Quiescent()) return false;
  return network_->NextEvent() == kNever;
}

bool Scheduler::EverythingAttached() const {
  for (const Slot& s : slots_)
    if (s.declared && !s.claimed) return false;
  return true;
}

bool Scheduler::AdvanceTimed(uint32_t sequence) {
  for (;;) {
    const Instant bound = Bound();
    // With no bound, housekeeping alone would run for ever.
    if (bound.time == kNever && pending_commands_ == 0 && AllQuiescent()) {
      ReportDeadlock();
      return false;
    }
    int command_slot, node;
    const Instant at = NextInternal(&command_slot, &node);
    if (!(at < bound)) break;
    Execute(at, command_slot, node);
    if (stopped_) return false;
    if (Sequence() != sequence) return true;
  }
  const Instant bound = bound_;
  if (!started_ && bound == Instant{0, Phase::kWake}) {
    if (now_ < 0) {
      now_ = 0;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        const std::string lacks = nodes_[i]->NotReady();
        if (lacks.empty()) continue;
        Stop(kBridgeStopDevice, "boot of node " + std::to_string(i) + " (" + node_names_[i] + ") is not complete at t=0: " + lacks);
        return false;
      }
    }
    if (!EverythingAttached()) return false;
    started_ = true;
    bound_dirty_ = true;
  }
  if (bound.time == kNever) return false;
  if (bound.phase == Phase::kCharge) {
    AssignCharges();
    return true;
  }
  return WakeDue(bound);
}

bool Scheduler::WakeDue(Instant bound) {
  std::vector<int> due;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].wait.armed && !(bound < slots_[i].wait.end)) due.push_back(static_cast<int>(i));
  std::sort(due.begin(), due.end(), [this](int a, int b) { return Before(a, b); });
  // Threads of one node share memory and structures of their process. So of those
  // that are due at one instant the next begins when the one before it waits again.
  std::vector<bool> taken(nodes_.size(), false);
  for (const Slot& s : slots_)
    if (s.claimed && !s.wait.armed) taken[static_cast<size_t>(s.name.node)] = true;
  bool progress = false;
  for (int i : due) {
    const auto node = static_cast<size_t>(slots_[static_cast<size_t>(i)].name.node);
    if (taken[node] && !options_.ignore_running) continue;
    now_ = std::max(now_, bound.time);
    progress = true;
    if (Postpone(i)) continue;
    Wake(i, now_, slots_[static_cast<size_t>(i)].wait.reason);
    taken[node] = true;
  }
  return progress;
}

bool Scheduler::Before(int a, int b) const {
  const ThreadName &x = slots_[static_cast<size_t>(a)].name, &y = slots_[static_cast<size_t>(b)].name;
  return x.node != y.node ? x.node < y.node : x.rank < y.rank;
}

bool Scheduler::AdvanceFree(uint32_t sequence) {
  while (pending_commands_ > 0 || deadline_ != kNever || !AllQuiescent()) {
    int command_slot, node;
    const Instant at = NextInternal(&command_slot, &node);
    if (at.time > deadline_) {
      now_ = std::max(now_, deadline_);
      for (size_t i = 0; i < slots_.size(); ++i)
        if (slots_[i].wait.armed && slots_[i].wait.deadline <= now_) Wake(static_cast<int>(i), now_, kBridgeReasonDeadline);
      continue;
    }
    if (at.time == kNever) return false;
    Execute(at, command_slot, node);
    Put64(Header(), kBridgeHeaderNowOffset, static_cast<uint64_t>(now_));
    if (stopped_) return false;
    if (Sequence() != sequence) return true;
  }
  return false;
}

void Scheduler::FindDeadline() {
  deadline_ = kNever;
  for (const Slot& s : slots_)
    if (s.wait.armed) deadline_ = std::min(deadline_, s.wait.deadline);
}

void Scheduler::ReportDeadlock() {
  // Where processes come and go one may still come that wakes the others.
  if (options_.guests) return;
  std::string waits;
  for (const Slot& s : slots_) {
    if (!s.claimed) continue;
    if (Running(s)) return;  // possible only when running threads are ignored
    waits += (waits.empty() ? "" : "; ") + Describe(s) + " waits since " + At(s.wait.start) + " for " + DescribeWait(s);
  }
  if (waits.empty()) return;  // everyone has left: the run is simply over
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node)
    if (network_->Held(node) != 0) waits += "; " + std::to_string(network_->Held(node)) + " frames are held on the wire to node " + std::to_string(node);
  Stop(kBridgeStopDeadlock, "deadlock at " + At(now_) + ": no wait has a deadline and the cards are quiet: " + waits);
}

// ---- waits ----

void Scheduler::Fire(int index, Instant at, uint32_t reason) {
  Slot& s = slots_[static_cast<size_t>(index)];
  if (!options_.timed) {
    Wake(index, std::max(now_, s.wait.start), reason);
    return;
  }
  // At the same instant an event beats the deadline.
  if (at < s.wait.end || (at == s.wait.end && s.wait.reason == kBridgeReasonDeadline)) {
    s.wait.end = at;
    s.wait.reason = reason;
    bound_dirty_ = true;
  }
}

void Scheduler::FireWatches(int node, uint64_t lo, uint64_t hi) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Wait& w = slots_[i].wait;
    if (!w.armed || slots_[i].name.node != node) continue;
    for (int k = 0; k < w.watches; ++k) {
      if (lo >= w.watch[k].hi || hi <= w.watch[k].lo) continue;
      const Time look = FirstAfter(w.start, w.period, now_);
      // The thread looks a last time when its deadline comes. That may have passed
      // while another thread holds the processor.
      Fire(static_cast<int>(i), look <= w.deadline ? Instant{look, Phase::kWake} : Instant{std::max(w.deadline, now_), Phase::kTimeout}, kBridgeReasonWritten);
      break;
    }
  }
  if (options_.timed) return;
  if (!recent_.empty() && recent_.back().node == node && recent_.back().range.hi == lo) {
    recent_.back().range.hi = hi;
  } else if (recent_.size() < 64) {
    recent_.push_back({node, {lo, hi}});
  } else {
    recent_overflow_ = true;
  }
}

// ---- the nodes' processors ----

void Scheduler::AssignCharges() {
  std::vector<int> due;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].wait.armed && slots_[i].wait.end.phase == Phase::kCharge) due.push_back(static_cast<int>(i));
  std::sort(due.begin(), due.end(), [this](int a, int b) { return Before(a, b); });
  for (int i : due) {
    Slot& s = slots_[static_cast<size_t>(i)];
    const Time span = s.wait.deadline == kNever ? kNever : s.wait.deadline - s.wait.start;
    std::vector<Hold>& holds = processors_[static_cast<size_t>(s.name.node)];
    Hold mine{i, now_, 0, (s.wait.flags & kBridgeSlotWaitFlagsServiceMask) != 0};
    for (const Hold& h : holds)
      if (h.service || !mine.service) mine.begin = std::max(mine.begin, h.end);
    mine.end = Later(mine.begin, span);
    // A charge of the same instant has not begun, so a service goes before it whatever their ranks.
    for (Hold& h : holds) {
      if (!mine.service || h.service || h.end <= mine.begin) continue;
      if (h.begin >= mine.begin) h.begin = Later(h.begin, span);
      h.end = Later(h.end, span);
      slots_[static_cast<size_t>(h.slot)].wait.end = {h.end, Phase::kWake};
    }
    holds.push_back(mine);
    s.wait.end = {mine.end, Phase::kWake};
  }
  bound_dirty_ = true;
}

Time Scheduler::BusyUntil(int node, Time t, int but) const {
  Time until = t;
  for (const Hold& h : processors_[static_cast<size_t>(node)])
    if (h.slot != but && h.begin < t && t < h.end) until = std::max(until, h.end);
  return until;
}

void Scheduler::LooksAfter(const Hold& held) {
  const int node = slots_[static_cast<size_t>(held.slot)].name.node;
  for (Slot& s : slots_) {
    Wait& w = s.wait;
    if (!w.armed || s.name.node != node || !(w.flags & kBridgeSlotWaitFlagsLooksMask) || FirstAfter(w.start, w.period, held.begin) >= held.end) continue;
    w.start = held.end;
    if (w.reason == kBridgeReasonDeadline) continue;
    // What it looks for has happened, after the look that was due or before.
    w.end = {held.end, Phase::kWake};
    bound_dirty_ = true;
  }
}

bool Scheduler::Postpone(int index) {
  const Slot& s = slots_[static_cast<size_t>(index)];
  if (!(s.wait.flags & kBridgeSlotWaitFlagsLooksMask)) return false;
  const Time until = BusyUntil(s.name.node, now_, index);
  if (until == now_) return false;
  slots_[static_cast<size_t>(index)].wait.end = {until, Phase::kWake};
  bound_dirty_ = true;
  return true;
}

bool Scheduler::Wake(int index, Time at, uint32_t reason) {
  Slot& s = slots_[static_cast<size_t>(index)];
  // In free mode the host may have ended the wait itself.
  if (!options_.timed && !CompareAndSwap32(s.page, kBridgeSlotStateOffset, kBridgeStateWaiting, kBridgeStateRunning)) {
    Disarm(s);
    return false;
  }
  std::optional<Hold> held;
  for (const Hold& h : processors_[static_cast<size_t>(s.name.node)])
    if (h.slot == index && reason == kBridgeReasonDeadline) held = h;
  Disarm(s);
  if (held) LooksAfter(*held);
  Put32(s.page, kBridgeSlotWakeBusyOffset, BusyUntil(s.name.node, at, index) > at ? 1 : 0);
  // One digest a thread: which of two threads is woken first at one instant depends on which of
  // their waits was seen first, and neither can tell.
  Digest& digest = wake_digests_[{s.name.node, s.name.rank}];
  digest.Add(static_cast<uint64_t>(at));
  digest.Add(reason);
  ++wakes_;
  if (reason == kBridgeReasonMessage) {
    const auto box = mailboxes_.find({static_cast<uint32_t>(s.name.node), static_cast<uint32_t>(s.name.rank)});
    const Message& m = box->second.front();
    Put64(s.page, kBridgeSlotMessageTimeOffset, static_cast<uint64_t>(m.time));
    Put32(s.page, kBridgeSlotMessageNodeOffset, m.node);
    Put32(s.page, kBridgeSlotMessageRankOffset, m.rank);
    Put32(s.page, kBridgeSlotMessageBytesOffset, static_cast<uint32_t>(m.bytes.size()));
    if (!m.bytes.empty()) std::memcpy(s.page + kBridgeSlotInboxOffset, m.bytes.data(), m.bytes.size());
    digest.AddBytes(m.bytes.data(), m.bytes.size());
    Uncount(m);
    box->second.pop_front();
    if (box->second.empty()) mailboxes_.erase(box);
  } else if (reason == kBridgeReasonReply) {
    Put32(s.page, kBridgeSlotReplyValueOffset, s.reply);
    // The layout hash that drivers read from a card says which build this is and not what happened:
    // no digest may depend on it.
    const bool build = s.reply == static_cast<uint32_t>(kLayoutHash) || s.reply == static_cast<uint32_t>(kLayoutHash >> 32);
    digest.Add(build ? 0 : s.reply);
    s.reply_ready = false;
  } else if (reason == kBridgeReasonRefused && s.refusal_ready && (s.wait.flags & kBridgeSlotWaitFlagsMessageMask)) {
    s.refusal_ready = false;
  } else if (reason == kBridgeReasonBarrier || reason == kBridgeReasonRefused) {
    s.barrier_ready = false;
  }
  s.acted_ns = s.woken_ns = MonotonicNs();
  s.acted_tail = s.head;
  Put64(Header(), kBridgeHeaderNowOffset, static_cast<uint64_t>(now_));
  s.clock = at;
  Put64(s.page, kBridgeSlotWakeTimeOffset, static_cast<uint64_t>(at));
  Put32(s.page, kBridgeSlotWakeReasonOffset, reason);
  if (options_.timed) Store32(s.page, kBridgeSlotStateOffset, kBridgeStateRunning);
  Increment32(s.page, kBridgeSlotWakeSequenceOffset);
  if (Load32(s.page, kBridgeSlotHostSleepingOffset) != 0) FutexWake(s.page, kBridgeSlotWakeSequenceOffset);
  return true;
}

void Scheduler::ReadComplete(int slot, uint32_t value, Time when) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (s.reads.empty()) return;  // the thread is gone, or a new one has the slot
  const uint64_t tag = s.reads.front();
  s.reads.pop_front();
  if (tag != s.last_read) return;  // answer to a read that was aborted
  s.reply_ready = true;
  s.reply = value;
  s.reply_time = std::max(when, now_ + 1);
  if (s.wait.armed && (s.wait.flags & kBridgeSlotWaitFlagsReplyMask)) Fire(slot, {s.reply_time, Phase::kWake}, kBridgeReasonReply);
}

void Scheduler::OnMemoryWrite(int node, uint64_t lo, uint64_t hi) { FireWatches(node, lo, hi); }

void Scheduler::OnMemoryFault(int node, bool write, uint64_t address) {
  Stop(kBridgeStopMemoryFault, "the card of node " + std::to_string(node) + " (" + node_names_[static_cast<size_t>(node)] + ") tried to " + (write ? "write" : "read") + " host memory at physical address " +
                                   Hex(address) + " at " + At(now_) + ", in a frame that is not in use: the card or its driver has a bug; nothing was " + (write ? "written" : "read"));
}

void Scheduler::Fault(int node, const std::string& text) { Stop(kBridgeStopDevice, "node " + std::to_string(node) + " (" + node_names_[static_cast<size_t>(node)] + ") at " + At(now_) + ": " + text); }

void Scheduler::Stop(uint32_t reason, const std::string& text) {
  if (stopped_) return;  // the first cause counts
  stopped_ = true;
  uint8_t* h = Header();
  const size_t n = std::min<size_t>(text.size(), kBridgeHeaderSize - kBridgeHeaderStopTextOffset - 1);
  std::memcpy(h + kBridgeHeaderStopTextOffset, text.data(), n);
  h[kBridgeHeaderStopTextOffset + n] = 0;
  Put32(h, kBridgeHeaderStopReasonOffset, reason);
  Put64(h, kBridgeHeaderStopTimeOffset, static_cast<uint64_t>(now_));
  Put64(h, kBridgeHeaderNowOffset, static_cast<uint64_t>(now_));
  Store32(h, kBridgeHeaderRunStateOffset, kBridgeRunStateStopped);
  if (reason != kBridgeStopClosed) std::fprintf(stderr, "stopped (%s): %s\n", BridgeStopName(reason), text.c_str());
  for (Slot& s : slots_) {
    if (s.page == nullptr) continue;  // never had a thread
    Increment32(s.page, kBridgeSlotWakeSequenceOffset);
    FutexWake(s.page, kBridgeSlotWakeSequenceOffset);
    FutexWake(s.page, kBridgeSlotCommandHeadOffset);
  }
}

void Scheduler::Taint() {
  tainted_ = true;
  Put32(Header(), kBridgeHeaderTaintedOffset, 1);
}

DigestReport Scheduler::Report() const {
  Digest all = digest_, wakes;
  for (const auto& [thread, digest] : wake_digests_)
    for (Digest* d : {&all, &wakes}) {
      d->Add(static_cast<uint64_t>(thread.first) << 32 | static_cast<uint32_t>(thread.second));
      d->Add(digest.Value());
    }
  DigestReport report{all.Value(), frames_digest_.Value(), wakes.Value(), now_, network_->Frames(), wakes_, tainted_, {}, {}, {}};
  for (int node = 0; node < network_->Nodes(); ++node) {
    report.from_node.push_back(network_->FromNode(node));
    report.from_switch.push_back(network_->FromSwitch(node));
    report.ports.push_back(network_->Port(node));
  }
  return report;
}

void Scheduler::AnswerDigests() {
  if (digest_requests_.empty()) return;
  const DigestReport report = Report();
  auto requests = std::move(digest_requests_);
  digest_requests_.clear();
  for (auto& answer : requests) answer(report);
}

// ---- sleep and watchdogs ----

void Scheduler::Sleep(uint32_t sequence) {
  int64_t timeout = kBackstopNs;
  if (!stopped_ && options_.timed) {
    const int64_t now_ns = MonotonicNs();
    if (!CheckStuck(now_ns) || stopped_) return;
    if (!started_) {
      const int64_t left = begin_ns_ + options_.start_ns - now_ns;
      if (left <= 0) {
        std::string missing;
        for (const Slot& s : slots_)
          if (s.declared && !s.claimed) missing += (missing.empty() ? "" : ", ") + Describe(s);
        Stop(kBridgeStopStartTimeout, "not all declared threads attached within " + std::to_string(options_.start_ns / 1000000) + " ms; missing: " + missing);
        return;
      }
      timeout = std::min(timeout, left);
    }
    for (const Slot& s : slots_)
      if (Running(s)) timeout = std::min(timeout, std::max<int64_t>(1'000'000, s.acted_ns + options_.stuck_ns - now_ns));
  }
  Put64(Header(), kBridgeHeaderNowOffset, static_cast<uint64_t>(now_));
  Store32(Header(), kBridgeHeaderSleepingOffset, 1);
  if (Sequence() == sequence) FutexWait(bell_.Base(), kBridgeBellSequenceOffset, sequence, timeout);
  Store32(Header(), kBridgeHeaderSleepingOffset, 0);
}

bool Scheduler::CheckStuck(int64_t now_ns) {
  for (Slot& s : slots_) {
    if (!Running(s)) continue;
    const uint32_t tail = Load32(s.page, kBridgeSlotCommandTailOffset);
    if (tail != s.acted_tail) {
      s.acted_tail = tail;
      s.acted_ns = now_ns;
    }
    if (!CountHeld(s, now_ns, false)) return false;
    if (now_ns - s.acted_ns < options_.stuck_ns || Load32(s.page, kBridgeSlotStateOffset) != kBridgeStateRunning) continue;
    const std::string text = Describe(s) + " has been running at " + At(now_) + " for more than " + std::to_string(options_.stuck_ns / 1000000) +
                               " ms of wall time without a call that posts or waits: it computes too long, blocks on something outside the library, or ended without detaching";
    Guest* const g = s.owner.guest == 0 ? nullptr : FindGuest(s.owner.guest);
    if (g != nullptr) {
      FinishGuest(*g, kBridgeGuestEndStuck, Describe(*g) + ": " + text);
      return false;
    }
    Stop(kBridgeStopStuck, text);
    return true;
  }
  return true;
}

bool Scheduler::CountHeld(const Slot& s, int64_t now_ns, bool parks) {
  Guest* const g = s.owner.guest == 0 || s.woken_ns == 0 ? nullptr : FindGuest(s.owner.guest);
  if (g == nullptr) return true;
  if (s.clock - g->held_since >= static_cast<Time>(kBridgeGuestSpan)) g->held_since = s.clock, g->held_ns = 0;
  const int64_t held = g->held_ns + (now_ns - s.woken_ns);
  if (parks) g->held_ns = held;
  if (held < options_.stall_ns) return true;
  FinishGuest(*g, kBridgeGuestEndStuck, Describe(*g) + " held up simulated time for more than " + std::to_string(options_.stall_ns / 1000000) + " ms of wall time between " + At(g->held_since) + " and " +
                                            At(now_) + ", in which all others had to wait: compute less between two calls, sleep for longer spans, or raise the limit (--stall-limit)");
  return false;
}

}  // namespace hvia::fabric
