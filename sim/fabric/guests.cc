// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/guests.h"

#include "sim/fabric/text.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

namespace hvia::fabric {
namespace {

constexpr uint32_t kDoorbellPages = (1u << kPciBar1Log2) / kDoorbellPageBytes;
constexpr uint32_t kFlags = kBridgeSlotWaitFlagsMessageMask | kBridgeSlotWaitFlagsReplyMask | kBridgeSlotWaitFlagsBarrierMask | kBridgeSlotWaitFlagsChargeMask | kBridgeSlotWaitFlagsPollsMask;

std::string Span(uint64_t first, uint64_t count) { return Text(first, " to ", first + count - 1); }

bool Overlap(uint64_t first, uint64_t count, uint64_t other, uint64_t others) { return first < other + others && other < first + count; }

}  // namespace

bool Guest::InBank(uint64_t address, uint64_t bytes) const {
  const uint64_t lo = config.first_frame * kBridgeFrameBytes, hi = lo + config.frames * kBridgeFrameBytes;
  return address >= lo && address <= hi && bytes <= hi - address;
}

Guest* Guests::Find(uint32_t id) {
  const auto it = guests_.find(id);
  return it == guests_.end() ? nullptr : &it->second;
}

Guest* Guests::OfRank(NodeRank rank) {
  for (auto& [id, g] : guests_)
    if (g.config.OwnsRank(rank)) return &g;
  return nullptr;
}

std::string Guests::Describe(const Guest& g) const {
  return Text("process ", g.config.pid, " ('", g.config.name, "', guest ", g.id, " on node ", g.config.node, " '", node_names_[g.config.node], "')");
}

std::string Guests::Check(const GuestConfig& config, const HostMemory& memory) const {
  if (config.name.empty()) return "a guest without a name";
  if (guests_.size() >= kBridgeMaxGuests) return Text("there are ", guests_.size(), " guests, which is the limit: end one");
  if (config.frames == 0 || config.first_frame >= memory.Frames() || config.frames > memory.Frames() - config.first_frame) {
    return Text("a bank of ", config.frames, " frames from frame ", config.first_frame, " on: node ", config.node, " has ", memory.Frames(), " frames, and a bank at least one of them");
  }
  if (config.ranks == 0 || config.first_rank > INT32_MAX || config.ranks > INT32_MAX - config.first_rank) {
    return Text(config.ranks, " ranks from rank ", config.first_rank, " on: want at least one, and none above ", INT32_MAX);
  }
  const std::string bank = Text("a bank of frames ", Span(config.first_frame, config.frames), ": ");
  for (const auto& [id, g] : guests_) {
    const GuestConfig& o = g.config;
    if (o.node != config.node) continue;
    if (Overlap(config.first_frame, config.frames, o.first_frame, o.frames)) return Text(bank, "those of ", Describe(g), " are ", Span(o.first_frame, o.frames));
    if (Overlap(config.first_rank, config.ranks, o.first_rank, o.ranks)) return Text("ranks ", Span(config.first_rank, config.ranks), ": those of ", Describe(g), " are ", Span(o.first_rank, o.ranks));
  }
  uint64_t used = 0;
  if (const uint64_t count = memory.FramesInUse(config.first_frame, config.frames, &used); count != 0) return Text(bank, count, " of them are in use by the card, frame ", used, " is the first");
  return "";
}

std::string Guests::Add(const GuestConfig& config, HostMemory* memory, std::function<void(const GuestEnd&)> on_end, Guest** added) {
  Guest g;
  try {
    g.bank = std::make_shared<SealedFile>("hvia-bank", config.frames * kBridgeFrameBytes);
  } catch (const std::exception& e) {
    return e.what();
  }
  const std::string why = memory->InsertBank(config.first_frame, config.frames, *g.bank);
  if (!why.empty()) return why;
  g.id = ++last_guest_;
  g.config = config;
  g.pages.assign(kDoorbellPages, false);
  g.on_end = std::move(on_end);
  *added = &guests_.emplace(g.id, std::move(g)).first->second;
  return "";
}

std::string Guests::CheckGrant(uint32_t id, uint32_t page, bool on) {
  const Guest* const g = Find(id);
  if (g == nullptr) return Text("guest ", id, " does not exist");
  if (page >= kDoorbellPages) return Text("page ", page, " of the doorbells: there are ", kDoorbellPages, ", counted from 0");
  for (const auto& [other, o] : guests_)
    if (on && other != id && o.config.node == g->config.node && o.pages[page]) return Text("page ", page, " of the doorbells is granted to ", Describe(o));
  return "";
}

void Guests::Grant(uint32_t id, uint32_t page, bool on) {
  if (Guest* const g = Find(id); g != nullptr) g->pages[page] = on;
}

std::string Guests::Act(const Guest& g, Slot* s, const Command& c) const {
  const std::string text = Violation(g, *s, c);
  return text.empty() ? Count(s) : text;
}

std::string Guests::Act(const Guest& g, Slot* s, const Wait& w) const {
  const std::string text = Violation(g, *s, w);
  return text.empty() ? Count(s) : text;
}

std::string Guests::Count(Slot* s) const {
  if (!timed_) return "";
  if (s->instant < 0 || s->clock - s->instant >= static_cast<Time>(kBridgeGuestSpan)) s->instant = s->clock, s->acts = 0;
  if (++s->acts <= kBridgeMaxGuestCommands) return "";
  return Text("posts and waits more than ", kBridgeMaxGuestCommands, " times within ", kBridgeGuestSpan, " ps from ", At(s->instant), " on, so that simulated time would not advance");
}

std::string Guests::CountHeld(Guest* g, const Slot& s, int64_t now_ns, bool parks, Time now) const {
  if (s.woken_ns == 0) return "";
  if (s.clock - g->held_since >= static_cast<Time>(kBridgeGuestSpan)) g->held_since = s.clock, g->held_ns = 0;
  const int64_t held = g->held_ns + (now_ns - s.woken_ns);
  if (parks) g->held_ns = held;
  if (held < stall_ns_) return "";
  return Text(Describe(*g), " held up simulated time for more than ", stall_ns_ / 1000000, " ms of wall time between ", At(g->held_since), " and ", At(now),
              ", in which all others had to wait: compute less between two calls, sleep for longer spans, or raise the limit (--stall-limit)");
}

std::string Guests::Violation(const Guest& g, const Slot& s, const Command& c) const {
  if (timed_ && s.wait.armed) return "posted a command while it waited: its process overwrote the bridge's pages";
  const uint32_t bar = kPciBar1Base;
  switch (c.opcode) {
    case kBridgeOpcodeWrite: {
      const std::string what = Text("tried to write ", c.count, " dwords to the card at ", Hex(c.address));
      if (c.count == 0 || c.count > kDoorbellDwords || c.address % 4 != 0) return Text(what, ": a guest writes 1 to ", kDoorbellDwords, ", at a multiple of 4");
      if (c.address < bar || c.address - bar >= 1u << kPciBar1Log2) return what + ", which is no doorbell";
      const uint64_t page = (c.address - bar) / kDoorbellPageBytes;
      if ((c.address - bar) % kDoorbellPageBytes + 4 * static_cast<uint64_t>(c.count) > kDoorbellPageBytes) return Text(what, ", which goes beyond the end of page ", page, " of the doorbells");
      if (!g.pages[page]) return Text(what, ", in page ", page, " of the doorbells, which was not granted to it");
      return "";
    }
    case kBridgeOpcodePublish:
      if (!g.InBank(c.address, c.tag)) return Text("tried to publish ", c.tag, " bytes at ", Hex(c.address), ", outside of its bank");
      return "";
    case kBridgeOpcodeMessage:
      if (c.count > sizeof c.data || c.tag > kBridgeMaxMessage) return Text("tried to send a piece of ", c.count, " bytes of a message of ", c.tag, " bytes: the limits are ", sizeof c.data, " and ", kBridgeMaxMessage);
      if (c.address >> 32 >= node_names_.size() || (c.address & UINT32_MAX) > INT32_MAX) return Text("tried to send a message to node ", c.address >> 32, " rank ", c.address & UINT32_MAX, ", which does not exist");
      return "";
    case kBridgeOpcodeBarrier:
      if (c.count == 0) return Text("tried to enter barrier ", c.address, " of 0 parties");
      if (c.tag > kBridgeMaxGroup) return Text("tried to enter barrier ", c.address, " of a group with a name of ", c.tag, " bytes: at most ", kBridgeMaxGroup, " fit");
      return "";
    case kBridgeOpcodeRead: return Text("tried to read a register of the card at ", Hex(c.address), ", which a guest may not");
    case kBridgeOpcodeBusReset: return "tried to reset the system bus of its node, which a guest may not";
    case kBridgeOpcodeHoldWire: return "tried to hold the wire to its node, which a guest may not";
    default: return Text("posted the command ", c.opcode, ", which does not exist: its process overwrote the bridge's pages");
  }
}

std::string Guests::Violation(const Guest& g, const Slot& s, const Wait& w) const {
  if ((w.flags & kBridgeSlotWaitFlagsInterruptMask) != 0) return "tried to wait for the card's interrupt, which a guest may not";
  if ((w.flags & kBridgeSlotWaitFlagsServiceMask) != 0) return "tried to take the processor for an interrupt service, which a guest may not";
  if ((w.flags & ~kFlags) != 0) return Text("waits with the flags ", Hex(w.flags), ", which do not exist: its process overwrote the bridge's pages");
  for (uint32_t i = 0; i < w.watches; ++i) {
    const Range& r = w.watch[i];
    // hi < lo: the length wrapped around.
    if (r.hi < r.lo || !g.InBank(r.lo, r.hi - r.lo)) return Text("tried to watch ", r.hi - r.lo, " bytes at ", Hex(r.lo), ", outside of its bank");
  }
  if (!timed_) return "";
  if (w.start != s.clock || w.deadline < w.start) return Text("waits from ", At(w.start), " to ", At(w.deadline), " when its clock is ", At(s.clock), ": its process overwrote the bridge's pages");
  if ((w.flags & kBridgeSlotWaitFlagsChargeMask) != 0 && w.deadline - w.start > static_cast<Time>(kBridgeMaxGuestCharge)) {
    return Text("asked for ", w.deadline - w.start, " ps of processor time at once: a guest may have ", kBridgeMaxGuestCharge);
  }
  return "";
}

}  // namespace hvia::fabric
