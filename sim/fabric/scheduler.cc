// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "sim/fabric/text.h"

namespace hvia::fabric {
namespace {

// In place of a node index: the event is the network's.
constexpr int kNetwork = -2;
// Limit of unreceived messages of a process that is not a guest.
constexpr uint32_t kMessageLimit = 65536;
// Limit of steps at one instant. A node that exceeds it will never leave the instant.
constexpr uint64_t kSameTimeLimit = 10'000'000;
// The nodes may leave out housekeeping if no event happens for kPause, and only housekeeping for
// kLongPause.
constexpr Time kPause = 1'000'000, kLongPause = 200'000'000;
// How long the simulator sleeps when only a kick can give it work. A backstop against a lost
// wake-up, not a poll.
constexpr int64_t kBackstopNs = 250'000'000;
// Writes stored for waits that the scheduler has not seen.
constexpr size_t kMaxRecent = 64;
// Flags of events, for which a wait may end before its deadline.
constexpr uint32_t kEventFlags = kBridgeSlotWaitFlagsInterruptMask | kBridgeSlotWaitFlagsMessageMask | kBridgeSlotWaitFlagsReplyMask | kBridgeSlotWaitFlagsBarrierMask;

constexpr char kOverwrote[] = ": its process overwrote the bridge's pages";

void AddTo(std::string* list, const char* separator, const std::string& text) { *list += (list->empty() ? "" : separator) + text; }

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, std::vector<std::string> node_names, uint64_t memory_bytes)
    : options_(std::move(options)),
      node_names_(std::move(node_names)),
      slots_(options_.threads, options_.spare_slots, node_names_, options_.ignore_running),
      guests_(node_names_, options_.timed, options_.stall_ns),
      mailboxes_([this](NodeRank to) { return !slots_.Waiting([to](const Slot& s) { return s.wait.reason == kBridgeReasonMessage && s.name.Key() == to; }).empty(); }),
      header_("hvia-header", kBridgeHeaderSize, SharedFile::Others::kReadOnly),
      bell_("hvia-bell", kBridgeBellSize),
      processors_(node_names_.size()),
      interrupt_waits_(node_names_.size()) {
  uint8_t* h = Header();
  Put32(h, kBridgeHeaderVersionOffset, kBridgeVersion);
  Put32(h, kBridgeHeaderModeOffset, options_.timed ? kBridgeModeTimed : kBridgeModeFree);
  Put64(h, kBridgeHeaderLayoutHashOffset, kLayoutHash);
  Put64(h, kBridgeHeaderParamsHashOffset, kParamsHash);
  Put32(h, kBridgeHeaderNodesOffset, static_cast<uint32_t>(node_names_.size()));
  Put32(h, kBridgeHeaderSlotsOffset, static_cast<uint32_t>(slots_.Size()));
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
  // Free mode sees a wait only after the host published it, so it must record every write. Timed
  // mode knows all waits before the cards write.
  if (!options_.timed)
    for (HostMemory* m : memories_) m->SetWatched(0, UINT64_MAX);
}

// ---- the event loop ----

void Scheduler::Run() {
  begin_ns_ = MonotonicNs();
  Boot();
  for (;;) {
    const uint32_t sequence = Sequence();
    {
      std::lock_guard<std::mutex> lock(jobs_mutex_);
      if (quit_) break;
    }
    Scan();
    RunJobs();
    if (Advance(sequence) || (left_in_rings_ && !stopped_)) continue;
    AnswerDigests();
    Sleep(sequence);
  }
  if (!stopped_) Stop(kBridgeStopClosed, (quit_why_.empty() ? "the fabric was closed" : quit_why_) + " at " + At(now_));
}

void Scheduler::Quit(std::string why) {
  {
    std::lock_guard<std::mutex> lock(jobs_mutex_);
    if (!quit_) quit_why_ = std::move(why);
    quit_ = true;
  }
  Ring();
}

void Scheduler::Post(std::function<void()> job) {
  {
    std::lock_guard<std::mutex> lock(jobs_mutex_);
    jobs_.push_back(std::move(job));
  }
  Ring();
}

void Scheduler::Ring() {
  Increment32(bell_.Base(), kBridgeBellSequenceOffset);
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

void Scheduler::Boot() {
  Time span = 0;
  for (const Node* n : nodes_) span = std::max(span, n->BootSpan());
  now_ = -span;
  for (Node* n : nodes_) n->Boot(now_);
  if (options_.timed) return;
  // In both modes, attaching waits until the cards have booted.
  while (!stopped_) {
    const Event e = Next();
    if (e.at.time > 0) break;
    Execute(e);
  }
  now_ = std::max<Time>(now_, 0);
  started_ = true;
  if (!stopped_) BootComplete();
}

bool Scheduler::BootComplete() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const std::string lacks = nodes_[i]->NotReady();
    if (lacks.empty()) continue;
    Stop(kBridgeStopDevice, Text("boot of ", NodeText(static_cast<int>(i)), " is not complete at t=0: ", lacks));
    return false;
  }
  return true;
}

bool Scheduler::Advance(uint32_t sequence) {
  try {
    return !stopped_ && (options_.timed ? AdvanceTimed(sequence) : AdvanceFree(sequence));
  } catch (const std::exception& e) {
    Stop(kBridgeStopDevice, std::string(e.what()) + " at " + At(now_));
    return false;
  }
}

bool Scheduler::AdvanceTimed(uint32_t sequence) {
  Instant bound;
  for (;;) {
    bound = Bound();
    // Without a bound, housekeeping alone would run forever.
    if (bound.time == kNever && slots_.PendingCommands() == 0 && AllQuiescent()) {
      ReportDeadlock();
      return false;
    }
    const Event e = Next();
    if (!(e.at < bound)) break;
    if (PassOver(e.at.time, bound.time)) continue;
    Execute(e);
    if (stopped_) return false;
    if (Sequence() != sequence) return true;
  }
  if (!started_ && bound == Instant{0, Phase::kWake}) {
    if (now_ < 0) {
      now_ = 0;
      if (!BootComplete()) return false;
    }
    if (!EverythingAttached()) return false;
    started_ = true;
  }
  if (bound.time == kNever) return false;
  if (bound.phase == Phase::kCharge) {
    AssignCharges();
    return true;
  }
  return WakeDue(bound);
}

bool Scheduler::AdvanceFree(uint32_t sequence) {
  while (slots_.PendingCommands() > 0 || deadline_ != kNever || !AllQuiescent()) {
    const Event e = Next();
    if (e.at.time > deadline_) {
      now_ = std::max(now_, deadline_);
      for (int i = 0; i < slots_.Size(); ++i)
        if (slots_[i].wait.armed && slots_[i].wait.deadline <= now_) Wake(i, now_, kBridgeReasonDeadline);
      continue;
    }
    if (e.at.time == kNever) return false;
    Execute(e);
    PublishNow();
    if (stopped_) return false;
    if (Sequence() != sequence) return true;
  }
  return false;
}

Instant Scheduler::Bound() { return started_ ? slots_.Bound() : std::min(slots_.Bound(), Instant{0, Phase::kWake}); }

Scheduler::Event Scheduler::Next() const {
  Event next;
  if (slots_.PendingCommands() > 0) {
    for (int i = 0; i < slots_.Size(); ++i) {
      if (slots_[i].commands.empty()) continue;
      // In free mode a command gets its time when it is taken.
      const Instant at{options_.timed ? std::max(now_, slots_[i].commands.front().time) : now_, Phase::kCommand};
      if (at < next.at) next = {at, i, -1};
    }
  }
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Time t = nodes_[n]->NextEvent();
    if (t == kNever) continue;
    const Instant at{t, Phase::kDevice};
    if (at < next.at) next = {at, -1, static_cast<int>(n)};
  }
  const Instant network{network_->NextEvent(), Phase::kDevice};
  if (network < next.at) next = {network, -1, kNetwork};
  return next;
}

void Scheduler::Execute(const Event& e) {
  // Only the cards' events count in free mode: hosts may issue any number of commands at one time.
  if (options_.timed || e.command_slot < 0) same_time_steps_ = e.at.time == now_ ? same_time_steps_ + 1 : 0;
  if (same_time_steps_ > kSameTimeLimit) {
    Stop(kBridgeStopDevice, Text("time does not advance beyond ", At(now_), " after ", same_time_steps_, " events at that instant"));
    return;
  }
  if (e.at.time < now_) {
    Stop(kBridgeStopDevice, Text(e.node == kNetwork ? "the network" : NodeText(e.node), " asks for ", At(e.at.time), " when the fabric is at ", At(now_)));
    return;
  }
  now_ = e.at.time;
  if (e.command_slot >= 0) {
    ExecuteCommand(e.command_slot);
  } else if (e.node == kNetwork) {
    network_->Step(now_);
  } else {
    nodes_[e.node]->Step(now_);
    AfterNode(e.node);
  }
}

void Scheduler::AfterNode(int node) {
  if (interrupt_waits_[node] == 0 || !nodes_[node]->InterruptLevel()) return;
  for (int i = 0; i < slots_.Size(); ++i)
    if (slots_[i].name.node == node && slots_[i].wait.For(kBridgeSlotWaitFlagsInterruptMask)) Fire(i, slots_[i].wait.Seen(now_), kBridgeReasonInterrupt);
}

void Scheduler::ExecuteCommand(int index) {
  Slot& s = slots_[index];
  const Command c = slots_.Pop(s);
  const bool dword = c.address % 4 == 0 && c.address <= UINT32_MAX;
  Node* node = nodes_[s.name.node];
  switch (c.opcode) {
    case kBridgeOpcodeWrite:
      if (c.count == 0 || c.count > kBridgeMaxWriteDwords || !dword) break;
      node->HostWrite(now_, index, static_cast<uint32_t>(c.address), c.data, static_cast<int>(c.count));
      AfterNode(s.name.node);
      return;
    case kBridgeOpcodeRead:
      if (!dword) break;
      s.reads.push_back(c.tag);
      s.last_read = c.tag;
      s.reply_ready = false;
      node->HostRead(now_, index, static_cast<uint32_t>(c.address));
      AfterNode(s.name.node);
      return;
    case kBridgeOpcodePublish: FireWatches(s.name.node, {c.address, c.address + c.tag}); return;
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
        Stop(kBridgeStopProtocol, slots_.Describe(s) + " posted HoldWire: a fabric of 1 node has no wire");
        return;
      }
      network_->Hold(s.name.node, c.tag == 1, now_);
      AfterNode(s.name.node);
      return;
    default: break;
  }
  Violated(s, Text("posted the command ", c.opcode, " (", BridgeOpcodeName(c.opcode), ") with address ", Hex(c.address), ", count ", c.count, " and tag ", c.tag, ", which the bridge does not take"));
}

// Not with guests: while a thread waits for a simulated time, others need wall time to join.
bool Scheduler::PassOver(Time next, Time until) {
  if (next - now_ < kPause || until == kNever || until - next < kLongPause || options_.guests || slots_.PendingCommands() > 0) return false;
  until = std::min(until, network_->NextEvent());
  for (const Node* n : nodes_) until = std::min(until, n->NextVisible());
  if (until - next < kLongPause) return false;
  bool passed = false;
  for (Node* n : nodes_) passed |= n->PassOver(until);
  return passed;
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

void Scheduler::ReportDeadlock() {
  // With guests, a process that attaches later may wake the others.
  if (options_.guests) return;
  std::string waits;
  for (const Slot& s : slots_) {
    if (!s.claimed) continue;
    if (s.Running()) return;  // possible only when running threads are ignored
    AddTo(&waits, "; ", slots_.Describe(s) + " waits since " + At(s.wait.start) + " for " + DescribeWait(s));
  }
  if (waits.empty()) return;  // all threads have left: the run is over
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node)
    if (network_->Held(node) != 0) AddTo(&waits, "; ", Text(network_->Held(node), " frames are held on the wire to node ", node));
  Stop(kBridgeStopDeadlock, "deadlock at " + At(now_) + ": no wait has a deadline and the cards are idle: " + waits);
}

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
          if (s.declared && !s.claimed) AddTo(&missing, ", ", slots_.Describe(s));
        Stop(kBridgeStopStartTimeout, Text("not all declared threads attached within ", options_.start_ns / 1000000, " ms; missing: ", missing));
        return;
      }
      timeout = std::min(timeout, left);
    }
    for (const Slot& s : slots_)
      if (s.Running()) timeout = std::min(timeout, std::max<int64_t>(1'000'000, s.acted_ns + options_.stuck_ns - now_ns));
  }
  PublishNow();
  Store32(Header(), kBridgeHeaderSleepingOffset, 1);
  if (Sequence() == sequence) FutexWait(bell_.Base(), kBridgeBellSequenceOffset, sequence, timeout);
  Store32(Header(), kBridgeHeaderSleepingOffset, 0);
}

bool Scheduler::CheckStuck(int64_t now_ns) {
  for (Slot& s : slots_) {
    if (!s.Running()) continue;
    const uint32_t tail = Load32(s.page, kBridgeSlotCommandTailOffset);
    if (tail != s.acted_tail) {
      s.acted_tail = tail;
      s.acted_ns = now_ns;
    }
    if (!CountHeld(s, now_ns, false)) return false;
    if (now_ns - s.acted_ns < options_.stuck_ns || Load32(s.page, kBridgeSlotStateOffset) != kBridgeStateRunning) continue;
    const std::string text = Text(slots_.Describe(s), " has been running at ", At(now_), " for more than ", options_.stuck_ns / 1000000,
                                  " ms of wall time without a call that posts or waits: it computes too long, blocks on something outside the library, or ended without detaching");
    if (Guest* const g = GuestOf(s); g != nullptr) {
      FinishGuest(*g, kBridgeGuestEndStuck, guests_.Describe(*g) + ": " + text);
      return false;
    }
    Stop(kBridgeStopStuck, text);
    return true;
  }
  return true;
}

void Scheduler::Stop(uint32_t reason, const std::string& text) {
  if (stopped_) return;  // the first cause counts
  stopped_ = true;
  uint8_t* h = Header();
  const size_t n = std::min<size_t>(text.size(), kBridgeHeaderSize - kBridgeHeaderStopTextOffset - 1);
  std::memcpy(h + kBridgeHeaderStopTextOffset, text.data(), n);
  h[kBridgeHeaderStopTextOffset + n] = 0;
  Put32(h, kBridgeHeaderStopReasonOffset, reason);
  Put64(h, kBridgeHeaderStopTimeOffset, static_cast<uint64_t>(now_));
  PublishNow();
  Store32(h, kBridgeHeaderRunStateOffset, kBridgeRunStateStopped);
  if (reason != kBridgeStopClosed) std::fprintf(stderr, "stopped (%s): %s\n", BridgeStopName(reason), text.c_str());
  for (Slot& s : slots_) {
    if (s.page == nullptr) continue;  // never had a thread
    Increment32(s.page, kBridgeSlotWakeSequenceOffset);
    FutexWake(s.page, kBridgeSlotWakeSequenceOffset);
    FutexWake(s.page, kBridgeSlotCommandHeadOffset);
  }
}

// ---- threads and their waits ----

std::string Scheduler::DescribeWait(const Slot& s) const {
  const Wait& w = s.wait;
  std::string t;
  const auto add = [&t](const std::string& what) { AddTo(&t, " or ", what); };
  for (uint32_t i = 0; i < w.watches; ++i) add("a write to [" + Hex(w.watch[i].lo) + ", " + Hex(w.watch[i].hi) + ")");
  if (w.flags & kBridgeSlotWaitFlagsChargeMask) add("processor time");
  if (w.flags & kBridgeSlotWaitFlagsInterruptMask) add("an interrupt");
  if (w.flags & kBridgeSlotWaitFlagsMessageMask) add("a message");
  if (w.flags & kBridgeSlotWaitFlagsReplyMask) add("the reply to a register read");
  if (w.flags & kBridgeSlotWaitFlagsBarrierMask)
    for (const Barriers::Key& key : barriers_.Of(slots_.IndexOf(s))) add(barriers_.Describe(key));
  return t.empty() ? "nothing" : t;
}

void Scheduler::Scan() {
  // Pairs with the host's store of State and its later poll of memory: either the host sees the
  // write, or this scan sees the host's wait.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  left_in_rings_ = false;
  for (int i = 0; i < slots_.Size(); ++i)
    if (slots_[i].claimed) ScanSlot(i);
  recent_.clear();
  recent_overflow_ = false;
}

void Scheduler::ScanSlot(int index) {
  Slot& s = slots_[index];
  // Read State before the ring: then the commands posted before parking are included.
  const uint32_t state = Load32(s.page, kBridgeSlotStateOffset);
  DrainRing(s, state == kBridgeStateDetached);
  if (stopped_ || !s.claimed) return;
  switch (state) {
    case kBridgeStateDetached: Release(s); return;
    case kBridgeStateRunning:
      if (s.wait.armed) Disarm(s);  // free mode: the host ended its wait itself
      return;
    case kBridgeStateWaiting: break;
    default: Violated(s, Text("stored the state ", state, ", which does not exist", kOverwrote)); return;
  }
  const bool changed = s.wait.sequence != Load32(s.page, kBridgeSlotWaitSequenceOffset);
  if (s.wait.armed && changed && options_.timed && s.owner.guest != 0) {
    Violated(s, Text("changed its wait while it waited", kOverwrote));
    return;
  }
  if (!s.wait.armed || changed) Arm(index);
  if (stopped_ || !s.wait.armed) return;
  if (Load32(s.page, kBridgeSlotAbortOffset) == s.wait.sequence) {
    // The time of an abort depends on wall time, so the run is not repeatable.
    Taint();
    barriers_.Leave(index);
    Wake(index, std::max(now_, s.wait.start), kBridgeReasonAborted);
  }
}

void Scheduler::DrainRing(Slot& s, bool all) {
  const uint32_t tail = Load32(s.page, kBridgeSlotCommandTailOffset);
  if (tail == s.head) return;
  if (tail - s.head > kBridgeRingEntries) {
    Violated(s, Text("published ", tail - s.head, " commands in a ring of ", kBridgeRingEntries, kOverwrote));
    return;
  }
  const Guest* const guest = GuestOf(s);
  for (; s.head != tail; ++s.head) {
    if (guest != nullptr && !options_.timed && !all && s.commands.size() >= kBridgeRingEntries) {
      left_in_rings_ = true;
      break;
    }
    Command c = s.ReadCommand();
    if (guest != nullptr) {
      // Checked when posted, not when executed: rights withdrawn in between still held at the post.
      c.time = s.clock;
      const std::string violation = guests_.Act(*guest, &s, c);
      if (!violation.empty()) {
        Violated(s, violation);
        return;
      }
    }
    slots_.Push(s, c);
  }
  Store32(s.page, kBridgeSlotCommandHeadOffset, s.head);
  if (Load32(s.page, kBridgeSlotRingSleepingOffset) != 0) FutexWake(s.page, kBridgeSlotCommandHeadOffset);
}

void Scheduler::Arm(int index) {
  Slot& s = slots_[index];
  if (s.wait.armed) Disarm(s);
  Wait& w = s.wait;
  uint32_t watches;
  if (!s.ReadWait(&watches)) {
    Violated(s, Text("asked for ", watches, " watched ranges: at most ", kBridgeMaxWatches, " fit"));
    return;
  }
  if (const Guest* g = GuestOf(s); g != nullptr) {
    if (!options_.timed) w.start = 0, w.period = 1, w.deadline = kNever;  // the host ends its waits
    const std::string violation = guests_.Act(*g, &s, w);
    if (!violation.empty()) {
      Violated(s, violation);
      return;
    }
  }
  if (options_.timed && !CountHeld(s, MonotonicNs(), true)) return;
  const bool events = w.watches != 0 || (w.flags & kEventFlags) != 0;
  const bool charge = w.flags & kBridgeSlotWaitFlagsChargeMask;
  if (charge && (events || w.deadline < w.start)) {
    Violated(s, Text("asked for processor time from ", At(w.start), " to ", At(w.deadline), " with flags ", Hex(w.flags), " and ", w.watches, " watched ranges: time does not go back, and processor time waits for nothing else"));
    return;
  }
  w.armed = true;
  if (!options_.timed) {
    if (w.deadline != kNever) w.deadline = Later(now_, std::max<Time>(w.deadline, 0));  // a deadline of free mode is a span
    deadline_ = std::min(deadline_, w.deadline);
  }
  // A sleep ends before the instant's other events, so that the thread's commands of that instant
  // precede them. A wait for an event ends after them.
  slots_.SetEnd(s, charge ? Instant{std::max(w.start, now_), Phase::kCharge} : Instant{w.deadline, events ? Phase::kTimeout : Phase::kWake});
  if (w.flags & kBridgeSlotWaitFlagsInterruptMask) ++interrupt_waits_[s.name.node];
  if (w.watches > 0 && options_.timed) UpdateWatched(s.name.node);
  FireReady(index);
}

// Ends a wait whose event happened before the wait was armed.
void Scheduler::FireReady(int index) {
  Slot& s = slots_[index];
  const Wait& w = s.wait;
  const auto fire = [&](Time at, uint32_t reason) { Fire(index, {std::max(w.start, at), Phase::kWake}, reason); };
  if (w.For(kBridgeSlotWaitFlagsInterruptMask) && nodes_[s.name.node]->InterruptLevel()) fire(w.start, kBridgeReasonInterrupt);
  if (!options_.timed && w.watches > 0) {
    const auto hit = [&](const Written& r) {
      return r.node == s.name.node && std::any_of(w.watch, w.watch + w.watches, [&r](const Range& watch) { return r.range.Overlaps(watch); });
    };
    if (w.armed && (recent_overflow_ || std::any_of(recent_.begin(), recent_.end(), hit))) fire(now_, kBridgeReasonWritten);
  }
  const Message* const m = mailboxes_.First(s.name.Key());
  if (w.For(kBridgeSlotWaitFlagsMessageMask) && m != nullptr) fire(m->time + 1, kBridgeReasonMessage);
  if (w.For(kBridgeSlotWaitFlagsMessageMask) && s.undelivered_ready) fire(s.undelivered_time, kBridgeReasonRejected);
  if (w.For(kBridgeSlotWaitFlagsReplyMask) && s.reply_ready) fire(s.reply_time, kBridgeReasonReply);
  if (w.For(kBridgeSlotWaitFlagsBarrierMask) && s.barrier_ready) fire(s.barrier_time, s.barrier_rejected ? kBridgeReasonRejected : kBridgeReasonBarrier);
}

void Scheduler::Disarm(Slot& s) {
  s.wait.armed = false;
  slots_.Changed();
  if (s.wait.flags & kBridgeSlotWaitFlagsInterruptMask) --interrupt_waits_[s.name.node];
  if (s.wait.watches > 0 && options_.timed) UpdateWatched(s.name.node);
  if (!options_.timed && s.wait.deadline == deadline_) deadline_ = slots_.Deadline();
  processors_[s.name.node].Release(slots_.IndexOf(s));
}

void Scheduler::UpdateWatched(int node) {
  const Range all = slots_.Watched(node);
  memories_[node]->SetWatched(all.lo, all.hi);
}

void Scheduler::Release(Slot& s) {
  if (s.wait.armed) Disarm(s);
  barriers_.Leave(slots_.IndexOf(s));
  s.claimed = false;
  slots_.Changed();
  // Nobody receives for this rank any more unless it was declared or belongs to a guest.
  if (!HasRank(s.name.Key())) mailboxes_.Close([rank = s.name.Key()](NodeRank to) { return to == rank; });
}

void Scheduler::Fire(int index, Instant at, uint32_t reason) {
  Slot& s = slots_[index];
  if (!options_.timed) {
    Wake(index, std::max(now_, s.wait.start), reason);
    return;
  }
  // At the same instant an event precedes the deadline.
  if (at < s.wait.end || (at == s.wait.end && s.wait.reason == kBridgeReasonDeadline)) {
    slots_.SetEnd(s, at);
    s.wait.reason = reason;
  }
}

void Scheduler::FireWatches(int node, const Range& written) {
  for (int i = 0; i < slots_.Size(); ++i) {
    const Wait& w = slots_[i].wait;
    if (!w.armed || slots_[i].name.node != node) continue;
    if (std::any_of(w.watch, w.watch + w.watches, [&](const Range& r) { return r.Overlaps(written); })) Fire(i, w.Seen(now_), kBridgeReasonWritten);
  }
  if (options_.timed) return;
  if (!recent_.empty() && recent_.back().node == node && recent_.back().range.hi == written.lo) {
    recent_.back().range.hi = written.hi;
  } else if (recent_.size() < kMaxRecent) {
    recent_.push_back({node, written});
  } else {
    recent_overflow_ = true;
  }
}

bool Scheduler::WakeDue(Instant bound) {
  // Threads of one node share their process's memory. So only one of them runs at an instant: the
  // next starts when the one before it waits again.
  std::vector<bool> taken(nodes_.size(), false);
  for (const Slot& s : slots_)
    if (s.Running()) taken[s.name.node] = true;
  bool progress = false;
  for (int i : slots_.Waiting([&](const Slot& s) { return !(bound < s.wait.end); })) {
    const Slot& s = slots_[i];
    if (taken[s.name.node] && !options_.ignore_running) continue;
    now_ = std::max(now_, bound.time);
    progress = true;
    if (Postpone(i)) continue;
    Wake(i, now_, s.wait.reason);
    taken[s.name.node] = true;
  }
  return progress;
}

void Scheduler::AssignCharges() {
  for (int i : slots_.Waiting([](const Slot& s) { return s.wait.end.phase == Phase::kCharge; })) {
    const Wait& w = slots_[i].wait;
    Processor& processor = processors_[slots_[i].name.node];
    processor.Charge(i, now_, w.deadline == kNever ? kNever : w.deadline - w.start, (w.flags & kBridgeSlotWaitFlagsServiceMask) != 0);
    for (const Processor::Hold& h : processor.Holds()) slots_.SetEnd(slots_[h.slot], {h.end, Phase::kWake});
  }
}

bool Scheduler::Postpone(int index) {
  Slot& s = slots_[index];
  if (!s.wait.For(kBridgeSlotWaitFlagsPollsMask)) return false;
  const Time until = processors_[s.name.node].BusyUntil(now_, index);
  if (until == now_) return false;
  slots_.SetEnd(s, {until, Phase::kWake});
  return true;
}

bool Scheduler::Wake(int index, Time at, uint32_t reason) {
  Slot& s = slots_[index];
  // In free mode the host may already have ended the wait.
  if (!options_.timed && !CompareAndSwap32(s.page, kBridgeSlotStateOffset, kBridgeStateWaiting, kBridgeStateRunning)) {
    Disarm(s);
    return false;
  }
  const Processor& processor = processors_[s.name.node];
  std::vector<Processor::Hold> held;
  for (const Processor::Hold& h : processor.Holds())
    if (h.slot == index && reason == kBridgeReasonDeadline) held.push_back(h);
  Disarm(s);
  for (const Processor::Hold& h : held) slots_.DelayPolls(s.name.node, h.begin, h.end);
  Put32(s.page, kBridgeSlotWakeBusyOffset, processor.BusyUntil(at, index) > at ? 1 : 0);
  // One digest for each thread: the order in which two threads wake at one instant depends on wall
  // time, and neither thread can notice it.
  Digest& digest = wake_digests_[s.name.Key()];
  digest.Add(static_cast<uint64_t>(at));
  digest.Add(reason);
  ++wakes_;
  if (reason == kBridgeReasonMessage) {
    const Message& m = *mailboxes_.First(s.name.Key());
    s.WriteMessage(m);
    digest.AddBytes(m.bytes.data(), m.bytes.size());
    mailboxes_.RemoveFirst(s.name.Key());
  } else if (reason == kBridgeReasonReply) {
    Put32(s.page, kBridgeSlotReplyValueOffset, s.reply);
    // Drivers read the layout hash from a card. It identifies the build, so it must not affect a
    // digest.
    const bool build = s.reply == static_cast<uint32_t>(kLayoutHash) || s.reply == static_cast<uint32_t>(kLayoutHash >> 32);
    digest.Add(build ? 0 : s.reply);
    s.reply_ready = false;
  } else if (reason == kBridgeReasonRejected && s.undelivered_ready && (s.wait.flags & kBridgeSlotWaitFlagsMessageMask)) {
    s.undelivered_ready = false;
  } else if (reason == kBridgeReasonBarrier || reason == kBridgeReasonRejected) {
    s.barrier_ready = false;
  }
  PublishNow();
  s.WriteWake(at, reason, options_.timed);
  return true;
}

void Scheduler::ReadComplete(int slot, uint32_t value, Time when) {
  Slot& s = slots_[slot];
  if (s.reads.empty()) return;  // the thread is gone, or a new one owns the slot
  const uint64_t tag = s.reads.front();
  s.reads.pop_front();
  if (tag != s.last_read) return;  // reply to an aborted read
  s.reply_ready = true;
  s.reply = value;
  s.reply_time = std::max(when, now_ + 1);
  if (s.wait.For(kBridgeSlotWaitFlagsReplyMask)) Fire(slot, {s.reply_time, Phase::kWake}, kBridgeReasonReply);
}

void Scheduler::OnMemoryWrite(int node, uint64_t lo, uint64_t hi) { FireWatches(node, {lo, hi}); }

void Scheduler::OnMemoryFault(int node, bool write, uint64_t address) {
  const char* const access = write ? "write" : "read";
  Stop(kBridgeStopMemoryFault, Text("the card of ", NodeText(node), " tried to ", access, " host memory at physical address ", Hex(address), " at ", At(now_),
                                    ", in a frame that is not in use: the card or its driver has a bug; nothing was ", write ? "written" : access));
}

void Scheduler::Fault(int node, const std::string& text) { Stop(kBridgeStopDevice, NodeText(node) + " at " + At(now_) + ": " + text); }

// ---- processes ----

std::string Scheduler::RunIsOver() const { return stopped_ ? std::string("the run is over: ") + reinterpret_cast<const char*>(Header() + kBridgeHeaderStopTextOffset) : ""; }

std::string Scheduler::NodeText(int node) const { return Text("node ", node, " (", node_names_[node], ")"); }

std::string Scheduler::Attach(const Owner& owner, int node, int rank, const std::string& name, int* slot, bool* violation) {
  *violation = false;
  if (stopped_) return RunIsOver();
  const ThreadName thread{node, rank, name};
  const std::string where = Text("node ", node, " rank ", rank);
  if (node < 0 || node >= static_cast<int>(node_names_.size())) return Text("node ", node, " does not exist: the fabric has ", node_names_.size(), " nodes, counted from 0");
  if (const Guest* g = guests_.Find(owner.guest); owner.guest != 0) {
    if (g == nullptr || g->ended) return "this process's connection has ended";
    if (!g->config.OwnsRank(thread.Key())) {
      *violation = true;
      return Text(guests_.Describe(*g), " tried to attach '", name, "' as ", where, ": its threads are of node ", g->config.node, " and have the ranks ", g->config.first_rank, " to ", g->config.first_rank + g->config.ranks - 1);
    }
  } else if (const Guest* of = guests_.OfRank(thread.Key()); of != nullptr) {
    return Text(where, " belongs to ", guests_.Describe(*of));
  }
  for (int i = 0; i < slots_.Size(); ++i)
    if (slots_[i].claimed) ScanSlot(i);  // the thread may have just detached
  Slot* found = slots_.Find(node, rank);
  if (found != nullptr && found->claimed) return slots_.Describe(*found) + " is attached already: give each thread of a node its own rank";
  if (found != nullptr && found->name.name != name) return Text(where, " is declared as '", found->name.name, "', not as '", name, "': use the name given at the start of the simulator");
  if (found == nullptr) {
    found = slots_.Spare();
    if (found == nullptr) return Text("all ", slots_.Size(), " slots are taken: start the simulator with more spare slots");
    // The arrival of an undeclared thread depends on wall time.
    if (options_.timed) Taint();
  }
  if (started_ && options_.timed) Taint();
  // The thread starts parked until time 0, or until now if now is later.
  const Time begin = std::max<Time>(now_, 0);
  try {
    slots_.Claim(*found, owner, thread, begin);
  } catch (const std::exception& e) {
    return e.what();
  }
  *slot = slots_.IndexOf(*found);
  Arm(*slot);
  if (!options_.timed) Wake(*slot, begin, kBridgeReasonDeadline);
  Ring();  // this may have been the last participant
  return "";
}

void Scheduler::ConnectionClosed(const Owner& owner) {
  if (owner.guest != 0) {
    if (Guest* g = guests_.Find(owner.guest); g != nullptr) GuestClosed(*g);
    return;
  }
  std::string lost;
  uint32_t nodes_lost = owner.node_mask;
  for (int i = 0; i < slots_.Size(); ++i) {
    Slot& s = slots_[i];
    if (!s.claimed) continue;
    if (s.owner.connection != owner.connection) {
      nodes_lost &= ~(1u << s.name.node);
      continue;
    }
    ScanSlot(i);
    if (stopped_) return;
    if (!s.claimed) continue;  // detached before the connection ended
    AddTo(&lost, ", ", slots_.Describe(s));
    slots_.DropCommands(s);
    Release(s);
    Store32(s.page, kBridgeSlotStateOffset, kBridgeStateDetached);
  }
  mailboxes_.SenderGone(owner.Sender(), lost.empty());
  if (lost.empty()) return;
  Taint();
  const std::string died = Text("process ", owner.pid, " ('", owner.name, "') died at ", At(now_), " with these threads attached: ", lost);
  if (!options_.continue_on_death) {
    Stop(kBridgeStopPeerDied, died);
    return;
  }
  std::fprintf(stderr, "%s; its memory is a sink from now on\n", died.c_str());
  for (size_t n = 0; n < memories_.size(); ++n)
    if (nodes_lost >> n & 1) memories_[n]->SetSink();
}

std::string Scheduler::NewGuest(const GuestConfig& config, std::function<void(const GuestEnd&)> on_end, uint32_t* id, std::shared_ptr<SealedFile>* bank) {
  if (stopped_) return RunIsOver();
  if (config.node >= node_names_.size()) return Text("node ", config.node, " does not exist: the fabric has ", node_names_.size(), " nodes, counted from 0");
  HostMemory* const memory = memories_[config.node];
  std::string why = guests_.Check(config, *memory);
  if (!why.empty()) return why;
  for (int i = 0; i < slots_.Size(); ++i) {
    if (slots_[i].claimed) ScanSlot(i);
    const Slot& s = slots_[i];
    if (s.claimed && config.OwnsRank(s.name.Key())) return Text("ranks ", config.first_rank, " to ", config.first_rank + config.ranks - 1, ": ", slots_.Describe(s), " is attached");
  }
  Guest* g;
  why = guests_.Add(config, memory, std::move(on_end), &g);
  if (!why.empty()) return why;
  *id = g->id;
  *bank = g->bank;
  return "";
}

std::string Scheduler::Grant(uint32_t guest, uint32_t page, bool on) {
  const std::string why = guests_.CheckGrant(guest, page, on);
  if (!why.empty()) return why;
  if (!on) {
    // Commands posted before the withdrawal still have the page.
    for (Slot& s : slots_)
      if (s.claimed && s.owner.guest == guest) DrainRing(s, true);
  }
  guests_.Grant(guest, page, on);
  return "";
}

std::string Scheduler::EndGuest(uint32_t guest) {
  Guest* const g = guests_.Find(guest);
  if (g == nullptr) return Text("guest ", guest, " does not exist");
  FinishGuest(*g, kBridgeGuestEndOwner, "the owner of the fabric ended " + guests_.Describe(*g) + " at " + At(now_));
  HostMemory& memory = *memories_[g->config.node];
  uint64_t used = 0;
  if (const uint64_t count = memory.FramesInUse(g->config.first_frame, g->config.frames, &used); count != 0) {
    return Text("the connection of ", guests_.Describe(*g), " has ended, but ", count, " frames of its bank are in use by the card, frame ", used, " is the first: release them and ask again");
  }
  const std::string why = memory.RemoveBank(g->config.first_frame, g->config.frames);
  if (!why.empty()) return why;
  // Since the guest ended, others may have sent messages to it, and some of its commands may not
  // have reached the card.
  mailboxes_.Close([g](NodeRank to) { return g->config.OwnsRank(to); });
  for (Slot& s : slots_)
    if (s.owner.guest == guest) slots_.DropCommands(s);
  guests_.Remove(guest);
  return "";
}

void Scheduler::Violated(const Owner& owner, const std::string& text) {
  if (owner.guest == 0) {
    Stop(kBridgeStopProtocol, text);
  } else if (Guest* g = guests_.Find(owner.guest); g != nullptr) {
    const std::string who = guests_.Describe(*g);
    FinishGuest(*g, kBridgeGuestEndViolation, text.compare(0, who.size(), who) == 0 ? text : who + ": " + text);
  }
}

void Scheduler::FinishGuest(Guest& g, uint32_t reason, const std::string& text) {
  if (g.ended) return;
  g.ended = true;
  const bool left = reason == kBridgeGuestEndLeft;
  for (Slot& s : slots_) {
    if (s.owner.guest != g.id) continue;
    if (s.claimed) {
      // The guest's process wakes its sleepers when it receives the end packet. Raising their wake
      // count here would look like the end of a wait.
      Release(s);
      Store32(s.page, kBridgeSlotStateOffset, kBridgeStateDetached);
      Taint();
    }
    // Commands of a guest that left still reach the card.
    if (!left) slots_.DropCommands(s);
  }
  mailboxes_.Close([&g](NodeRank to) { return g.config.OwnsRank(to); });
  mailboxes_.SenderGone(g.id, left);
  if (!left && reason != kBridgeGuestEndOwner) std::fprintf(stderr, "guest ended (%s): %s\n", BridgeGuestEndName(reason), text.c_str());
  g.on_end({g.id, reason, now_, text});
}

void Scheduler::GuestClosed(Guest& g) {
  std::string lost;
  for (int i = 0; i < slots_.Size() && !g.ended; ++i) {
    const Slot& s = slots_[i];
    if (!s.claimed || s.owner.guest != g.id) continue;
    ScanSlot(i);
    if (s.claimed) AddTo(&lost, ", ", slots_.Describe(s));
  }
  const std::string who = guests_.Describe(g);
  if (lost.empty()) {
    FinishGuest(g, kBridgeGuestEndLeft, who + " left at " + At(now_));
  } else {
    FinishGuest(g, kBridgeGuestEndDied, who + " died at " + At(now_) + " with these threads attached: " + lost);
  }
}

bool Scheduler::CountHeld(const Slot& s, int64_t now_ns, bool parks) {
  Guest* const g = GuestOf(s);
  const std::string text = g == nullptr ? "" : guests_.CountHeld(g, s, now_ns, parks, now_);
  if (text.empty()) return true;
  FinishGuest(*g, kBridgeGuestEndStuck, text);
  return false;
}

bool Scheduler::HasRank(NodeRank rank) {
  if (const Guest* g = guests_.OfRank(rank); g != nullptr) return !g->ended;
  // A declared thread attaches only once in a fabric with guests.
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.name.Key() == rank && (s.claimed || (s.declared && (!options_.guests || s.file == nullptr))); });
}

void Scheduler::Deliver(int index, const Command& c) {
  Slot& s = slots_[index];
  const uint8_t* data = reinterpret_cast<const uint8_t*>(c.data);
  s.partial.insert(s.partial.end(), data, data + c.count);
  if (s.partial.size() < c.tag) return;
  const NodeRank to{static_cast<uint32_t>(c.address >> 32), static_cast<uint32_t>(c.address)};
  std::vector<uint8_t> bytes = std::move(s.partial);
  s.partial.clear();
  if (!HasRank(to)) {
    if (!s.claimed) return;  // its thread has left
    Put32(s.page, kBridgeSlotRejectedNodeOffset, to.first);
    Put32(s.page, kBridgeSlotRejectedRankOffset, to.second);
    Increment32(s.page, kBridgeSlotRejectionsOffset);
    s.undelivered_ready = true;
    s.undelivered_time = now_ + 1;
    if (s.wait.For(kBridgeSlotWaitFlagsMessageMask)) Fire(index, {std::max(s.wait.start, now_ + 1), Phase::kWake}, kBridgeReasonRejected);
    return;
  }
  // Commands of a guest that has ended may remain here, but the guest is no longer counted.
  const Guest* const guest = GuestOf(s);
  const bool left = s.owner.guest != 0 && (guest == nullptr || guest->ended);
  const uint64_t sender = s.owner.Sender();
  const uint32_t limit = guest == nullptr ? kMessageLimit : kBridgeMaxGuestMessages;
  if (mailboxes_.Unreceived(sender) >= limit) {
    Violated(s, Text("tried to send a message to node ", to.first, " rank ", to.second, " when ", limit, " messages of its process are not received"));
    return;
  }
  mailboxes_.Add(to, {now_, s.name.Key(), std::move(bytes), sender});
  if (left) mailboxes_.SenderGone(sender, true);
  for (int i = 0; i < slots_.Size(); ++i) {
    const Slot& r = slots_[i];
    if (!r.claimed || r.name.Key() != to || !r.wait.For(kBridgeSlotWaitFlagsMessageMask)) continue;
    const Time poll = std::max(r.wait.start, now_ + 1);
    if (poll <= r.wait.deadline) Fire(i, {poll, Phase::kWake}, kBridgeReasonMessage);
  }
}

void Scheduler::ArriveAtBarrier(int index, const Command& c) {
  Slot& s = slots_[index];
  if (s.owner.guest != 0) {
    if (const auto in = barriers_.Of(index); !in.empty()) {
      Violated(s, Text("tried to enter barrier ", c.address, " when it is in barrier ", in[0].id));
      return;
    }
  }
  const Barriers::Key key{c.tag == 0 ? s.owner.guest : 0, std::string(reinterpret_cast<const char*>(c.data), c.tag), c.address};
  s.barrier_ready = false;
  std::vector<int> released;
  const bool rejected = !barriers_.Arrive(key, index, c.count, &released);
  if (rejected) released = {index};
  for (int i : released) {
    Slot& r = slots_[i];
    r.barrier_ready = true;
    r.barrier_rejected = rejected;
    r.barrier_time = now_ + 1;
    if (r.wait.For(kBridgeSlotWaitFlagsBarrierMask)) Fire(i, {now_ + 1, Phase::kWake}, rejected ? kBridgeReasonRejected : kBridgeReasonBarrier);
  }
}

// ---- digests ----

void Scheduler::Taint() {
  tainted_ = true;
  Put32(Header(), kBridgeHeaderTaintedOffset, 1);
}

DigestReport Scheduler::Report() const {
  Digest all = digest_, wakes;
  for (const auto& [thread, digest] : wake_digests_)
    for (Digest* d : {&all, &wakes}) {
      d->Add(static_cast<uint64_t>(thread.first) << 32 | thread.second);
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

}  // namespace hvia::fabric
