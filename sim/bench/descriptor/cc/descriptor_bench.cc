// SPDX-License-Identifier: Apache-2.0

// Drives the descriptor path and judges every port in every clock. Around the blocks stand models of
// their neighbours: host threads that build linked lists in memory and ring, a target port that also
// brings every kind of broken doorbell, VI contexts, translation, host bus, a transmit engine, and a
// manager that resets VIs and takes memory away. The judge follows the queues as plain lists: what
// was posted comes out once, in order per VI, round robin among VIs.
//
// Within one clock: Drive() sets the inputs from the models' state, the design settles, Judge() looks
// at all ports and moves the models on, then the clock edge. The size is the number of epochs; an
// epoch has its own mixture of speeds and ends with an idle card or with a reset in mid-traffic.

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "Vdescriptor_bench_top.h"
#include "sim/bench/descriptor/cc/host.h"
#include "sim/bench/internal/unit/bench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"
#include "verilated.h"

#define CHECK(condition, ...) \
  do {                        \
    if (!(condition)) unit::Fail(__VA_ARGS__); \
  } while (0)

namespace bench {
namespace {

constexpr int kVis = 256;
constexpr int kLane = HVIA_W / 8;
using Lane = std::conditional_t<HVIA_W == 64, uint64_t, uint32_t>;
constexpr uint64_t kPatience = 20000;  // clocks without progress

std::map<std::string, uint64_t> figures;

struct Knobs {
  // Chances out of 16 per clock.
  unsigned commit_gate, take_gate, link_gate, att_ready, read_ready, read_beat, desc_ready, cpl_rate, write_ready,
      write_beat, host_rate, dword_rate, reap_rate;
  // Chances out of 1024.
  unsigned att_error, read_error, write_error, hostile, manager, context_flip, evil_link, no_write;
  unsigned att_delay, done_delay, transmit_depth;
  bool data_with_request;  // the bus takes the first beat in the clock of the request
  unsigned max_posted;
};

struct Dword {
  uint32_t addr, data;
  uint8_t enables;
};
struct Burst {
  std::vector<Dword> dwords;
  bool enable = true;
  int vi = -1;  // a real doorbell of this VI
};

// One descriptor the queue has accepted and not handed to the fetch.
struct Entry {
  int slot = -1;  // -1: its VI was reset meanwhile
  uint64_t va = 0;
  uint32_t handle = 0;
  bool any = false;  // its address is not defined: a stale link may have come between
};

struct Slot {
  Image image{};
  int kind = 0;
  bool in_use = false;
  // What its predecessor's link says, when not the truth.
  bool evil = false;
  uint64_t link_va = 0;
  uint32_t link_handle = 0;
  uint64_t va = 0;
};

struct Post {
  bool active = false;
  int slot = -1;
  int predecessor = -1;
  int step = 0;
  int order[3] = {0, 1, 2};
};

struct Vi {
  bool used = false;
  bool paused = false;
  bool drain_first = false;  // after an overrun the thread waits until the queue is empty
  std::array<uint32_t, 4> context{};
  int region = -1;
  std::vector<Slot> slots;
  std::vector<int> free;
  std::deque<int> finished;  // complete as far as the card goes, the thread has not reaped them
  int tail = -1;
  Post post;
  int outstanding = 0;
  // The judge's view of the queue.
  std::deque<Entry> queue;
  uint16_t seq = 0;
  uint64_t active_clock = 0;

  uint32_t State() const { return context[0] & hvia::kViContextAttributesStateMask; }
  uint32_t Tag() const { return context[0] >> hvia::kViContextAttributesTagLsb; }
};

struct Listed {
  int vi;
  bool maybe;
};

enum class Phase { kNone, kBad, kContext, kTranslate, kWalk, kRequest, kRead, kParsed };

struct Current {
  Phase phase = Phase::kNone;
  uint64_t since = 0;
  int vi = 0;
  Entry entry;
  uint64_t va = 0;
  uint32_t handle = 0, pa = 0;
  bool more = false;
  uint16_t seq = 0;
  uint32_t state = 0, tag = 0;
  Image bytes{};
};

struct Transmit {
  int vi;
  int slot;
  uint16_t seq;
  uint32_t pa, handle, length, status;
  bool write;
};

class Bench {
 public:
  explicit Bench(uint64_t seed)
      : rng_(seed), depth_(1u << hvia::FindProfile("hvia-ge")->QueueDepthLog2), dut_(&context_) {
    context_.randReset(2);
    context_.randSeed(static_cast<int>(rng_.Next() >> 33));
  }

  void Run(uint64_t epochs) {
    for (uint64_t e = 0; e < epochs; e++) {
      // The special kinds come first, so that the shortest run has seen each once.
      enum { kRandom, kOverrun, kAllVis, kRace } kind = kRandom;
      switch (e % 12) {
        case 1: kind = kOverrun; break;
        case 2: kind = kAllVis; break;
        case 3: case 7: kind = kRace; break;
        default: break;
      }
      NewKnobs();
      StartEpoch(kind == kAllVis ? kVis : kind == kRace ? 2 : static_cast<int>(rng_.Range(1, 24)),
                 kind == kOverrun);
      if (kind == kRace) {
        knobs_.max_posted = 2;
        knobs_.host_rate = 16;
        knobs_.dword_rate = 16;
        knobs_.commit_gate = 16;
        knobs_.hostile = knobs_.manager = 0;
        knobs_.take_gate = rng_.Range(1, 16);
        knobs_.link_gate = rng_.Range(1, 16);
      }
      if (kind == kOverrun) {
        Overrun();
      } else if (kind == kAllVis) {
        AllVis();
      }
      for (uint64_t n = rng_.Range(2000, 6000); n > 0; n--) Clock();
      if (e % 3 == 0 && kind == kRandom) {
        Figure("resets_in_traffic");
        continue;  // StartEpoch resets
      }
      Finish();
    }
  }

 private:
  void Figure(const std::string& name, uint64_t n = 1) { figures[name] += n; }
  bool Gate(unsigned of16) { return rng_.Below(16) < of16; }
  bool Rare(unsigned of1024) { return rng_.Below(1024) < of1024; }

  void NewKnobs() {
    auto speed = [&] {
      static const unsigned speeds[] = {16, 16, 15, 12, 8, 4, 1};
      return speeds[rng_.Below(7)];
    };
    Knobs& k = knobs_;
    for (unsigned* p : {&k.commit_gate, &k.take_gate, &k.link_gate, &k.att_ready, &k.read_ready, &k.read_beat,
                        &k.desc_ready, &k.cpl_rate, &k.write_ready, &k.write_beat, &k.host_rate, &k.dword_rate,
                        &k.reap_rate}) {
      *p = speed();
    }
    const bool errors = rng_.Chance(2, 3);
    k.att_error = errors ? rng_.Below(100) : 0;
    k.read_error = errors ? rng_.Below(60) : 0;
    k.write_error = errors ? rng_.Below(100) : 0;
    k.no_write = errors ? rng_.Below(60) : 0;
    k.evil_link = errors ? rng_.Below(80) : 0;
    k.hostile = rng_.Chance(2, 3) ? rng_.Below(60) : 0;
    k.manager = rng_.Chance(2, 3) ? 30 : 0;
    k.context_flip = rng_.Chance(1, 2) ? rng_.Below(40) : 0;
    k.att_delay = rng_.Chance(1, 3) ? 0 : rng_.Range(1, 40);
    k.done_delay = rng_.Chance(1, 3) ? 0 : rng_.Range(1, 20);
    k.transmit_depth = rng_.Range(1, 4);
    k.data_with_request = rng_.Chance(1, 2);
    k.max_posted = rng_.Range(1, 40);
  }

  // --- The machine -------------------------------------------------------------------------------

  void StartEpoch(int vis, bool long_queue) {
    memory_ = std::make_unique<Memory>(&rng_);
    regions_.clear();
    by_handle_.clear();
    for (auto& v : vis_) v = Vi{};
    bursts_.clear();
    burst_pos_ = 0;
    dword_stands_ = read_stands_ = false;
    phase_dwords_.clear();
    commit_.reset();
    ready_.clear();
    offered_.reset();
    cur_ = Current{};
    link_.reset();
    bad_due_ = false;
    transmit_.clear();
    cpl_.reset();
    write_.reset();
    read_open_ = false;
    att_open_ = false;
    manager_ = Manager{};
    used_.clear();

    std::vector<int> order(kVis);
    for (int i = 0; i < kVis; i++) order[i] = i;
    for (int i = kVis - 1; i > 0; i--) std::swap(order[i], order[rng_.Below(i + 1)]);
    used_.assign(order.begin(), order.begin() + vis);
    if (vis >= 2 && vis < kVis) {  // the ends of the range are always among them
      for (int want : {0, 255}) {
        auto it = std::find(used_.begin(), used_.end(), want);
        if (it == used_.end()) used_[want ? 1 : 0] = want;
      }
    }
    for (auto& v : vis_) {
      v.context = {hvia::kViStateFree, 0, 0, 0};
    }
    for (size_t i = 0; i < used_.size(); i++) {
      vis_[used_[i]].used = true;
      Rebuild(used_[i], (long_queue && i == 0) ? depth_ + 64 : 48);
    }

    dut_.rst_ni = 0;
    held_ = false;
    for (int i = 0; i < 4; i++) Clock();
    dut_.rst_ni = 1;
    progress_ = unit::clocks();
  }

  // A fresh region with fresh slots, and a connected VI.
  void Rebuild(int vi, int slots) {
    Vi& v = vis_[vi];
    Region r;
    do {
      r.handle = rng_.Bits(32);
    } while (r.handle == 0 || by_handle_.count(r.handle));
    r.va = rng_.Next() & ~static_cast<uint64_t>(kPage - 1) & 0x00ffffffffffffffull;
    r.tag = rng_.Bits(16);
    r.valid = true;
    const int per_page = kPage / kBytes;
    for (int i = 0; i < (slots + per_page - 1) / per_page; i++) r.pages.push_back(memory_->Allocate());
    by_handle_[r.handle] = static_cast<int>(regions_.size());
    v.region = static_cast<int>(regions_.size());
    v.slots.assign(slots, Slot{});
    v.free.clear();
    // Slots of small queues lie anywhere in the region, the last before the page's end among them.
    const int room = static_cast<int>(r.pages.size()) * per_page;
    std::vector<int> place(room);
    for (int i = 0; i < room; i++) place[i] = room - 1 - i;
    for (int i = room - 1; i > 1; i--) std::swap(place[i], place[rng_.Range(1, i)]);
    for (int i = 0; i < slots; i++) {
      v.slots[i].va = r.va + static_cast<uint64_t>(place[i]) * kBytes;
      v.free.push_back(i);
    }
    regions_.push_back(r);
    v.finished.clear();
    v.tail = -1;
    v.post = Post{};
    v.outstanding = 0;
    v.paused = false;
    v.drain_first = false;
    v.context = {hvia::kViStateConnected | (rng_.Bits(13) << 3) | static_cast<uint32_t>(r.tag) << 16,
                 rng_.Bits(32), rng_.Bits(32), rng_.Bits(32)};
  }

  void Clock() {
    unit::clocks()++;
    Drive();
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.rst_ni) {
      Judge();
    } else {
      CHECK(!dut_.commit_valid_o && !dut_.take_valid_o && !dut_.link_valid_o && !dut_.att_req_valid_o &&
                !dut_.rd_req_valid_o && !dut_.desc_valid_o && !dut_.wr_req_valid_o && !dut_.wvalid_o,
            "a block offers something while in reset");
    }
    const uint8_t asked = dut_.rd_vi_o;
    dut_.clk_i = 1;
    dut_.eval();
    for (int i = 0; i < 4; i++) dut_.rd_ctx_i[i] = vis_[asked].context[i];
    CHECK(unit::clocks() - progress_ < kPatience, "nothing moved for %" PRIu64 " clocks: %s", kPatience,
          Describe().c_str());
  }

  std::string Describe() {
    std::string s;
    for (int vi : used_) {
      if (!vis_[vi].queue.empty()) s += " VI " + std::to_string(vi) + " holds " + std::to_string(vis_[vi].queue.size());
    }
    s += " offered " + std::to_string(offered_.has_value()) + " fetch phase " +
         std::to_string(static_cast<int>(cur_.phase)) + " link " + std::to_string(link_.has_value()) + " transmit " +
         std::to_string(transmit_.size()) + " write " + std::to_string(write_.has_value()) + " manager " +
         std::to_string(manager_.step) + " bursts " + std::to_string(bursts_.size());
    return s;
  }

  bool Outstanding() const {
    for (int vi : used_) {
      const Vi& v = vis_[vi];
      if (!v.queue.empty() || v.post.active) return true;
    }
    return offered_ || cur_.phase != Phase::kNone || link_ || !transmit_.empty() || cpl_ || write_ ||
           !bursts_.empty() || commit_ || manager_.step != 0;
  }

  // Posts no more, lets everything come to rest, and holds the end against the rules.
  void Finish() {
    held_ = true;
    Knobs slow = knobs_;
    for (unsigned* p : {&knobs_.commit_gate, &knobs_.take_gate, &knobs_.link_gate, &knobs_.att_ready,
                        &knobs_.read_ready, &knobs_.read_beat, &knobs_.desc_ready, &knobs_.cpl_rate,
                        &knobs_.write_ready, &knobs_.write_beat, &knobs_.host_rate, &knobs_.dword_rate}) {
      *p = std::max(*p, 8u);
    }
    knobs_.hostile = knobs_.manager = knobs_.context_flip = 0;
    while (Outstanding()) Clock();
    for (int i = 0; i < 8; i++) Clock();
    for (int i = 0; i < 20; i++) {
      Clock();
      CHECK(dut_.quiet_o == 0xf, "nothing is left to do and quiet is %x", dut_.quiet_o);
    }
    for (int vi : used_) {
      CHECK(vis_[vi].outstanding == static_cast<int>(vis_[vi].finished.size()),
            "VI %d: %d descriptors posted, %zu finished", vi, vis_[vi].outstanding, vis_[vi].finished.size());
    }
    Figure("idle_ends");
    knobs_ = slow;
    held_ = false;
  }

  // --- Special epochs ----------------------------------------------------------------------------

  void Overrun() {
    const int vi = used_[0];
    knobs_.host_rate = knobs_.dword_rate = 16;
    knobs_.commit_gate = 16;
    knobs_.max_posted = depth_ + 60;
    knobs_.manager = knobs_.context_flip = knobs_.att_error = knobs_.read_error = knobs_.evil_link = 0;
    hot_ = vi;
    const unsigned gate = knobs_.take_gate;
    const uint64_t before = figures["overruns"];
    const uint64_t want = before + rng_.Range(1, 20);
    knobs_.take_gate = 0;
    stopped_ = true;
    for (uint64_t n = 0; figures["overruns"] < want; n++) {
      CHECK(n < 100000, "no overrun of VI %d after %" PRIu64 " clocks, %zu queued", vi, n, vis_[vi].queue.size());
      progress_ = unit::clocks();
      Clock();
    }
    Figure("cover_overrun", figures["overruns"] - before);
    // The thread stops before the queue moves again: what it linked behind a dropped descriptor
    // has no meaning.
    stopped_ = false;
    auto rings = [&] {
      bool any = vis_[vi].post.active || (commit_ && commit_->vi == vi);
      for (const auto& b : bursts_) any |= b.vi == vi;
      return any;
    };
    while (rings()) Clock();
    knobs_.take_gate = std::max(gate, 8u);
    knobs_.desc_ready = std::max(knobs_.desc_ready, 8u);
    knobs_.max_posted = 3;
    hot_ = -1;
  }

  void AllVis() {
    const unsigned gate = knobs_.take_gate;
    knobs_.take_gate = 0;
    knobs_.host_rate = knobs_.dword_rate = 16;
    knobs_.max_posted = 2;
    knobs_.manager = knobs_.context_flip = 0;
    for (int n = 0; n < 40000 && ready_.size() < kVis - 1; n++) {
      progress_ = unit::clocks();
      Clock();
    }
    CHECK(ready_.size() == kVis - 1, "%zu of %d VIs became ready", ready_.size(), kVis - 1);
    Figure("cover_full_ready_list");
    knobs_.take_gate = std::max(gate, 8u);
  }

  // --- Host threads ------------------------------------------------------------------------------

  uint8_t* Descriptor(const Vi& v, int slot, uint32_t offset, uint32_t len) {
    const Region& r = regions_[v.region];
    return memory_->At(r.Physical(v.slots[slot].va) + offset, len, "the host");
  }

  void HostStep() {
    const int vi = hot_ >= 0 && rng_.Chance(15, 16) ? hot_ : used_[rng_.Below(used_.size())];
    Vi& v = vis_[vi];
    if (!v.post.active) {
      Reap(&v);
      if (v.drain_first && v.queue.empty() && v.outstanding == 0) v.drain_first = false;
      const bool limited = v.outstanding >= static_cast<int>(hot_ >= 0 && vi != hot_ ? 3 : knobs_.max_posted);
      if (held_ || v.paused || (v.drain_first && !stopped_) || v.State() == hvia::kViStateFree || v.free.empty() || limited) return;
      if (bursts_.size() > 3) return;
      v.post.active = true;
      const size_t pick = rng_.Below(v.free.size());
      v.post.slot = v.free[pick];
      v.free[pick] = v.free.back();
      v.free.pop_back();
      v.post.predecessor = v.tail;
      v.post.step = 0;
      for (int i = 2; i > 0; i--) std::swap(v.post.order[i], v.post.order[rng_.Below(i + 1)]);
      v.outstanding++;
      Slot& s = v.slots[v.post.slot];
      s.in_use = true;
      s.kind = rng_.Chance(3, 5) ? rng_.Below(kFence + 1) : rng_.Below(kKinds);
      s.image = MakeDescriptor(&rng_, s.kind);
      // Every byte of a link that was not written yet is a trap.
      std::memcpy(Descriptor(v, v.post.slot, 0, kBytes), s.image.data(), kBytes);
      s.evil = Rare(knobs_.evil_link);
      s.link_va = s.va;
      s.link_handle = regions_[v.region].handle;
      if (s.evil) {
        const Region& r = regions_[v.region];
        switch (rng_.Below(4)) {
          case 0: s.link_va = s.va + rng_.Range(1, 63); break;
          case 1: s.link_va = r.va + r.pages.size() * kPage - rng_.Range(1, 63); break;
          case 2: s.link_va = r.va + r.pages.size() * kPage; break;
          default: s.link_handle ^= 1u << rng_.Below(32); break;
        }
      }
      return;
    }
    if (v.post.step < 3) {
      if (v.post.predecessor >= 0) {
        const Slot& s = v.slots[v.post.slot];
        const int part = v.post.order[v.post.step];
        const uint64_t words[3] = {s.link_va & 0xffffffffu, s.link_va >> 32, s.link_handle};
        static const uint32_t offsets[3] = {hvia::kDescriptorNextOffset, hvia::kDescriptorNextOffset + 4,
                                            hvia::kDescriptorNextHandleOffset};
        Store(Descriptor(v, v.post.predecessor, offsets[part], 4), words[part], 4);
        if (cur_.vi == vi && cur_.entry.slot == v.post.predecessor && cur_.phase == Phase::kRead) {
          Figure("cover_link_written_during_read");
        }
        v.post.step++;
        return;
      }
      v.post.step = 3;
    }
    const Slot& s = v.slots[v.post.slot];
    Burst b;
    b.vi = vi;
    b.dwords = Doorbell(vi, s.va, regions_[v.region].handle);
    if (Rare(knobs_.hostile)) {  // a burst that goes on behind the doorbell
      for (uint64_t n = rng_.Range(1, 3); n > 0; n--) {
        b.dwords.push_back({b.dwords.back().addr + 4, rng_.Bits(32), 15});
      }
    }
    bursts_.push_back(b);
    v.tail = v.post.slot;
    v.post.active = false;
  }

  void Reap(Vi* v) {
    while (!v->finished.empty() && Gate(knobs_.reap_rate)) {
      const int slot = v->finished.front();
      v->finished.pop_front();
      v->slots[slot].in_use = false;
      // The memory is the program's again at once: what the card still does with it must not matter.
      if (regions_[v->region].valid) {
        uint8_t* p = Descriptor(*v, slot, 0, kBytes);
        for (uint32_t i = 0; i < kBytes; i++) p[i] = rng_.Bits(8);
      }
      if (v->tail == slot) v->tail = -1;
      v->free.push_back(slot);
      v->outstanding--;
    }
  }

  static std::vector<Dword> Doorbell(int vi, uint64_t va, uint32_t handle) {
    const uint32_t at = vi * hvia::kDoorbellPageBytes + hvia::kDoorbellSend;
    return {{at, static_cast<uint32_t>(va), 15},
            {at + 4, static_cast<uint32_t>(va >> 32), 15},
            {at + 8, handle, 15}};
  }

  int AnyVi(bool used) {
    if (used) return used_[rng_.Below(used_.size())];
    for (int i = 0; i < 1000; i++) {
      const int vi = rng_.Below(kVis);
      if (!vis_[vi].used) return vi;
    }
    return -1;
  }

  // One broken doorbell. None of them may start a fetch or disturb the next good one.
  void Hostile() {
    Burst b;
    int vi = AnyVi(true);
    const uint64_t va = rng_.Next() & ~63ull;
    b.dwords = Doorbell(vi, va, rng_.Bits(32));
    const int kind = rng_.Below(11);
    switch (kind) {
      case 0: b.dwords.resize(1); break;
      case 1: b.dwords.resize(2); break;
      case 2: b.dwords.erase(b.dwords.begin()); break;  // starts at the second dword
      case 3: b.dwords.erase(b.dwords.begin(), b.dwords.begin() + 2); break;
      case 4: std::swap(b.dwords[rng_.Below(2)], b.dwords[2]); break;
      case 5: b.dwords[rng_.Below(3)].enables = rng_.Below(15); break;
      case 6: b.dwords[0].data |= rng_.Range(1, 63); break;  // misaligned
      case 7: b.enable = false; break;
      case 8:  // a VI that is not in use
        vi = AnyVi(false);
        if (vi < 0) return;
        b.dwords = Doorbell(vi, va, rng_.Bits(32));
        break;
      case 9:  // the receive doorbell, or anywhere else in the page
        for (auto& d : b.dwords) d.addr += rng_.Chance(1, 2) ? hvia::kDoorbellReceive : 4u << rng_.Below(9);
        break;
      case 10:  // the page of another VI in the middle
        b.dwords[rng_.Range(1, 2)].addr ^= hvia::kDoorbellPageBytes << rng_.Below(8);
        break;
    }
    static const char* const names[] = {"one_dword", "two_dwords", "from_second", "from_third", "swapped", "enables",
                                        "misaligned", "disabled", "free_vi", "offset", "foreign_page"};
    Figure(std::string("cover_hostile_") + names[kind]);
    bursts_.push_back(b);
  }

  // --- Manager: reset of a VI, loss of a region ----------------------------------------------------

  // The furthest that a VI's work has come in the card.
  enum Held { kIdle, kListed, kOffered, kTranslate, kRead, kParsed, kLinkOwed, kHelds };

  struct Manager {
    int step = 0;
    bool reset = false;
    int vi = 0;
    uint32_t handle = 0;
    Held target = kIdle;
    int wait = 0;
    int silent = 0;
    uint64_t since = 0;
  };

  Held WhatHolds(int vi) const {
    if (link_ && link_->vi == vi) return kLinkOwed;
    if (cur_.vi == vi && cur_.phase == Phase::kParsed) return kParsed;
    if (cur_.vi == vi && cur_.phase >= Phase::kRequest) return kRead;
    if (cur_.vi == vi && cur_.phase != Phase::kNone) return kTranslate;
    if (offered_ && offered_->vi == vi) return kOffered;
    return vis_[vi].queue.empty() ? kIdle : kListed;
  }

  bool Quiescent(int vi) const {
    const Vi& v = vis_[vi];
    if (!v.queue.empty() || v.post.active || (offered_ && offered_->vi == vi) ||
        (cur_.phase != Phase::kNone && cur_.vi == vi) || (link_ && link_->vi == vi) || (commit_ && commit_->vi == vi) ||
        (write_ && write_->job.vi == vi)) {
      return false;
    }
    for (const auto& t : transmit_) {
      if (t.vi == vi) return false;
    }
    for (const auto& b : bursts_) {
      if (b.vi == vi) return false;
    }
    return true;
  }

  void GiveBack(int region) {
    for (uint32_t pa : regions_[region].pages) memory_->GiveBack(pa);
  }

  // Runs before the clock; the busy outputs it looks at are those of the clock before, in which the
  // drained number stood at the inputs already.
  void ManagerStep() {
    Manager& m = manager_;
    switch (m.step) {
      case 0:
        if (held_ || !Rare(knobs_.manager)) return;
        m = Manager{};
        m.vi = used_[rng_.Below(used_.size())];
        if (vis_[m.vi].paused) return;
        m.reset = rng_.Chance(1, 2);
        m.step = 1;
        m.since = unit::clocks();
        m.wait = rng_.Below(1500);
        m.target = static_cast<Held>(rng_.Below(kHelds));
        if (!m.reset) vis_[m.vi].paused = true;
        return;
      case 1: {
        Vi& v = vis_[m.vi];
        if (m.reset) {
          // Aim at one phase of the VI's work, or take what comes.
          if (m.wait-- > 0 && WhatHolds(m.vi) != m.target) return;
          v.context[0] |= hvia::kViStateFree;
          v.paused = true;
          v.post.active = false;
          m.wait = rng_.Chance(1, 2) ? 0 : rng_.Below(6);
          m.step = 2;
        } else {
          if (v.post.active) return;
          m.handle = regions_[v.region].handle;
          regions_[v.region].valid = false;
          m.silent = -1;
          m.step = 4;
        }
        return;
      }
      case 2:
        if (m.wait-- > 0) return;
        m.step = 3;  // Drive offers the clear, Judge moves on
        return;
      case 4: {
        // The first clock in step 4 only brings the number to the inputs.
        const bool busy = m.reset ? vi_busy_ : handle_busy_;
        m.silent = m.silent < 0 ? 0 : busy ? 0 : m.silent + 1;
        CHECK(unit::clocks() - m.since < kPatience, "draining %s of VI %d does not end", m.reset ? "all" : "a handle",
              m.vi);
        if (m.silent < 2) return;
        Vi& v = vis_[m.vi];
        if (m.reset) {
          CHECK(v.queue.empty() && !(offered_ && offered_->vi == m.vi) &&
                    !(cur_.phase != Phase::kNone && cur_.vi == m.vi) && !(link_ && link_->vi == m.vi) &&
                    !(write_ && write_->job.vi == m.vi),
                "VI %d counts as drained with work in the card", m.vi);
          Figure("cover_vi_reset");
        } else {
          CHECK(!(cur_.phase > Phase::kWalk && cur_.handle == m.handle) && !(write_ && write_->job.handle == m.handle),
                "handle %08x counts as drained with an access in the card", m.handle);
          Figure("cover_handle_drained");
        }
        GiveBack(v.region);  // from here on Memory stops whoever touches it
        regions_[v.region].valid = false;
        m.step = 5;
        return;
      }
      case 5:
        if (!Quiescent(m.vi)) return;
        Rebuild(m.vi, 48);
        m.step = 0;
        return;
    }
  }

  // --- Inputs ------------------------------------------------------------------------------------

  void Drive() {
    if (dut_.rst_ni) {
      if (Gate(knobs_.host_rate)) HostStep();
      if (!held_ && bursts_.size() < 4 && Rare(knobs_.hostile)) Hostile();
      ManagerStep();
      if (Rare(knobs_.context_flip)) {
        Vi& v = vis_[used_[rng_.Below(used_.size())]];
        if (v.State() != hvia::kViStateFree) {
          static const uint32_t states[] = {hvia::kViStateConnected, hvia::kViStateConnected, hvia::kViStateIdle,
                                            hvia::kViStateConnectPending, hvia::kViStateError};
          v.context[0] = (v.context[0] & ~7u) | states[rng_.Below(5)];
          const uint32_t tag = regions_[v.region].tag ^ (rng_.Chance(1, 8) ? 1u << rng_.Below(16) : 0);
          v.context[0] = (v.context[0] & 0xffffu) | tag << hvia::kViContextAttributesTagLsb;
        }
      }
    }
    for (int i = 0; i < 8; i++) dut_.live_i[i] = 0;
    for (int vi : used_) {
      if (vis_[vi].State() != hvia::kViStateFree) dut_.live_i[vi / 32] |= 1u << vi % 32;
    }
    dut_.commit_gate_i = Gate(knobs_.commit_gate);
    dut_.take_gate_i = Gate(knobs_.take_gate);
    dut_.link_gate_i = Gate(knobs_.link_gate);

    // Target port: a dword that stands stays; the end of the burst has a clock of its own.
    dut_.db_wend_i = 0;
    dut_.enable_i = bursts_.empty() || bursts_.front().enable;
    if (!dword_stands_) {
      dut_.db_wvalid_i = 0;
      dut_.db_waddr_i = rng_.Bits(20);
      dut_.db_wdata_i = rng_.Bits(32);
      dut_.db_wbe_i = 15;
      if (dut_.rst_ni && !bursts_.empty() && Gate(knobs_.dword_rate)) {
        const Burst& b = bursts_.front();
        if (burst_pos_ == b.dwords.size()) {
          dut_.db_wend_i = 1;
        } else {
          const Dword& d = b.dwords[burst_pos_];
          dut_.db_wvalid_i = 1;
          dut_.db_waddr_i = d.addr;
          dut_.db_wdata_i = d.data;
          dut_.db_wbe_i = d.enables;
        }
      }
    }

    dut_.clear_valid_i = dut_.rst_ni && manager_.step == 3;
    dut_.clear_vi_i = manager_.vi;

    dut_.att_req_ready_i = Gate(knobs_.att_ready);
    dut_.att_rsp_valid_i = 0;
    dut_.att_rsp_err_i = rng_.Bits(3);
    dut_.att_rsp_pa_i = rng_.Bits(32);
    if (att_open_ && att_wait_-- == 0) {
      dut_.att_rsp_valid_i = 1;
      Translate();
    }

    dut_.rd_req_ready_i = Gate(knobs_.read_ready);
    if (!read_stands_) {
      dut_.rvalid_i = 0;
      dut_.rlast_i = rng_.Bits(1);
      dut_.rerr_i = 0;
      dut_.rdata_i = static_cast<Lane>(rng_.Next());
      if (read_open_ && Gate(knobs_.read_beat)) {
        dut_.rvalid_i = 1;
        dut_.rlast_i = read_at_ + kLane == kBytes;
        if (Rare(knobs_.read_error)) {
          dut_.rlast_i = dut_.rerr_i = 1;
          dut_.rdata_i = static_cast<Lane>(rng_.Next());
        } else {
          dut_.rdata_i = static_cast<Lane>(
              Load(memory_->At(read_pa_ + read_at_, kLane, "the fetch"), kLane));
        }
      }
    }

    dut_.desc_ready_i = transmit_.size() < knobs_.transmit_depth && Gate(knobs_.desc_ready);

    if (!cpl_) {
      dut_.cpl_valid_i = 0;
      dut_.cpl_vi_i = rng_.Bits(8);
      dut_.cpl_status_i = rng_.Bits(32);
      dut_.cpl_write_i = rng_.Bits(1);
      if (!transmit_.empty() && Gate(knobs_.cpl_rate)) {
        cpl_ = transmit_.front();
        dut_.cpl_valid_i = 1;
        dut_.cpl_vi_i = cpl_->vi;
        dut_.cpl_seq_i = cpl_->seq;
        dut_.cpl_pa_i = cpl_->pa;
        dut_.cpl_handle_i = cpl_->handle;
        dut_.cpl_length_i = cpl_->length;
        dut_.cpl_status_i = cpl_->status;
        dut_.cpl_write_i = cpl_->write;
      }
    }

    dut_.wr_req_ready_i = Gate(knobs_.write_ready);
    const bool data_now = write_ && (write_->granted || (knobs_.data_with_request && dut_.wr_req_ready_i));
    dut_.wready_i = data_now && Gate(knobs_.write_beat);
    dut_.wdone_i = 0;
    dut_.werr_i = rng_.Bits(1);
    if (write_ && write_->granted && write_->sent == 8 && write_->wait-- == 0) {
      dut_.wdone_i = 1;
      dut_.werr_i = write_->failed;
    }

    // Draining: the manager's number stays, otherwise any.
    if (manager_.step == 4) {
      dut_.drain_vi_i = manager_.reset ? manager_.vi : rng_.Bits(8);
      dut_.drain_handle_i = manager_.reset ? rng_.Bits(32) : manager_.handle;
    } else {
      dut_.drain_vi_i = rng_.Chance(1, 4) ? rng_.Bits(8) : AnyVi(true);
      const Region& r = regions_[vis_[AnyVi(true)].region];
      dut_.drain_handle_i = r.handle;
      if (cur_.phase == Phase::kParsed && rng_.Chance(1, 2)) {
        dut_.drain_handle_i = Load(&cur_.bytes[DataHandle()], 4);
      }
    }
  }

  static constexpr size_t DataHandle() {
    return hvia::kDescriptorSize + hvia::kAddressSegmentSize + hvia::kDataSegmentHandleOffset;
  }

  void Translate() {
    uint32_t err = hvia::kAttErrorNone, pa = rng_.Bits(32);
    const auto it = by_handle_.find(att_handle_);
    if (Rare(knobs_.att_error)) {
      err = rng_.Range(1, hvia::kAttErrorBackend);
    } else if (it == by_handle_.end() || !regions_[it->second].valid) {
      err = hvia::kAttErrorHandle;
    } else {
      const Region& r = regions_[it->second];
      const uint64_t size = r.pages.size() * kPage;
      if (att_va_ < r.va || att_va_ - r.va > size || size - (att_va_ - r.va) < kBytes) {
        err = hvia::kAttErrorBounds;
      } else if (r.tag != att_tag_) {
        err = hvia::kAttErrorTag;
      } else {
        pa = r.Physical(att_va_);
      }
    }
    if (err) Figure("cover_att_error_" + std::to_string(err));
    dut_.att_rsp_err_i = err;
    dut_.att_rsp_pa_i = pa;
  }

  // --- The judge ---------------------------------------------------------------------------------

  void Touch(int vi) {
    vis_[vi].active_clock = unit::clocks();
    progress_ = unit::clocks();
  }

  // A finished descriptor goes back to its thread.
  void Finished(int vi, int slot) {
    if (slot < 0) return;
    vis_[vi].finished.push_back(slot);
  }

  void Forget(int vi) {
    Vi& v = vis_[vi];
    for (const Entry& e : v.queue) Finished(vi, e.slot);
    v.queue.clear();
  }

  void Ready(int vi) {
    bool stands = false;
    for (auto& l : ready_) {
      if (l.vi == vi) l.maybe = stands = true;
    }
    ready_.push_back({vi, stands});
  }

  void JudgeDoorbell() {
    bool good = false, malformed = false, async = false;
    const bool taken = dut_.db_wvalid_i && dut_.db_wready_o;
    struct {
      int vi;
      uint64_t va;
      uint32_t handle;
    } bell{};
    if (taken) {
      const uint32_t page = dut_.db_waddr_i >> 12, offset = dut_.db_waddr_i & 0xfff;
      const size_t n = phase_dwords_.size();
      const bool fits = dut_.db_wbe_i == 15 && offset == hvia::kDoorbellSend + 4 * n &&
                        (n == 0 || page == phase_dwords_[0].addr >> 12);
      if (!fits) {
        malformed = true;
        phase_dwords_.clear();
      } else {
        phase_dwords_.push_back({dut_.db_waddr_i, dut_.db_wdata_i, dut_.db_wbe_i});
      }
      if (phase_dwords_.size() == hvia::kDoorbellDwords) {
        bell.vi = page;
        bell.va = phase_dwords_[0].data | static_cast<uint64_t>(phase_dwords_[1].data) << 32;
        bell.handle = phase_dwords_[2].data;
        const bool allowed = dut_.enable_i && vis_[bell.vi].State() != hvia::kViStateFree;
        const bool aligned = bell.va % hvia::kDescriptorAlignment == 0;
        good = allowed && aligned;
        malformed = !good;
        async = allowed && !aligned;
        phase_dwords_.clear();
      }
      if (malformed) Figure("malformed");
      burst_pos_++;
      dword_stands_ = false;
      progress_ = unit::clocks();
    } else {
      dword_stands_ = dut_.db_wvalid_i;
    }
    if (dut_.db_wend_i) {
      malformed = !phase_dwords_.empty();
      phase_dwords_.clear();
      burst_pos_ = 0;
      if (bursts_.front().dwords.size() > 3) Figure("cover_long_burst");
      bursts_.pop_front();
      progress_ = unit::clocks();
    }
    CHECK(dut_.stat_doorbell_send_o == good, "stat_doorbell_send is %d, page %u", dut_.stat_doorbell_send_o,
          dut_.db_waddr_i >> 12);
    CHECK(dut_.stat_doorbell_malformed_o == malformed, "stat_doorbell_malformed is %d, dword at %05x",
          dut_.stat_doorbell_malformed_o, dut_.db_waddr_i);
    CHECK(dut_.doorbell_async_valid_o == async, "doorbell asynchronous error is %d", dut_.doorbell_async_valid_o);
    if (async) {
      CHECK(dut_.doorbell_async_code_o == hvia::kAsyncErrorPostDescriptor && dut_.doorbell_async_vi_o == bell.vi,
            "doorbell asynchronous error %u of VI %u, want VI %d", dut_.doorbell_async_code_o,
            dut_.doorbell_async_vi_o, bell.vi);
      Figure("cover_misaligned_doorbell");
    }
    JudgeTrace(0, good, hvia::kTraceEventDoorbellCommitted, bell.vi, 0);

    // The commit register.
    CHECK(dut_.commit_valid_o == commit_.has_value(), "commit valid is %d", dut_.commit_valid_o);
    if (commit_) {
      CHECK(dut_.commit_vi_o == commit_->vi && dut_.commit_va_o == commit_->va && dut_.commit_handle_o == commit_->handle,
            "commit of VI %u, %016" PRIx64 ", %08x, want VI %d, %016" PRIx64 ", %08x", dut_.commit_vi_o,
            static_cast<uint64_t>(dut_.commit_va_o), dut_.commit_handle_o, commit_->vi, commit_->va, commit_->handle);
    }
    if (!commit_ || dut_.commit_fire_o) {
      CHECK(!dut_.db_wvalid_i || dut_.db_wready_o, "the target port waits for nothing");
    }
    if (dut_.commit_fire_o) {
      JudgeCommit(*commit_);
      commit_.reset();
    } else {
      CHECK(!dut_.stat_doorbell_overrun_o && !dut_.overrun_valid_o, "an overrun without a commit");
    }
    if (good) {
      Figure("doorbells");
      commit_ = Commit{bell.vi, bell.va, bell.handle};
    }
  }

  struct Commit {
    int vi;
    uint64_t va;
    uint32_t handle;
  };

  int SlotAt(const Vi& v, uint64_t va) {
    for (size_t i = 0; i < v.slots.size(); i++) {
      if (v.slots[i].in_use && v.slots[i].va == va) return static_cast<int>(i);
    }
    return -1;
  }

  void JudgeCommit(const Commit& c) {
    Vi& v = vis_[c.vi];
    Touch(c.vi);
    commit_clock_[c.vi] = unit::clocks();
    const bool overrun = v.queue.size() == depth_;
    CHECK(dut_.stat_doorbell_overrun_o == overrun && dut_.overrun_valid_o == overrun,
          "overrun is %d with %zu descriptors in the queue of VI %d", dut_.overrun_valid_o, v.queue.size(), c.vi);
    const bool resetting = v.State() == hvia::kViStateFree;
    const int slot = resetting ? -1 : SlotAt(v, c.va);
    CHECK(resetting || slot >= 0, "commit of %016" PRIx64 " on VI %d, which nobody posted", c.va, c.vi);
    if (overrun) {
      CHECK(dut_.overrun_vi_o == c.vi, "overrun of VI %u, want %d", dut_.overrun_vi_o, c.vi);
      Figure("overruns");
      v.drain_first = true;
      Finished(c.vi, slot);
      return;
    }
    Entry e;
    e.slot = slot;
    e.any = resetting;
    const bool linked = !v.queue.empty();
    if (linked && slot >= 0) {
      e.va = v.slots[slot].link_va;
      e.handle = v.slots[slot].link_handle;
    } else {
      e.va = c.va;
      e.handle = c.handle;
    }
    v.queue.push_back(e);
    if (!linked) Ready(c.vi);
    // How close to the take of the descriptor before it?
    const uint64_t since = unit::clocks() - take_clock_[c.vi];
    if (!linked && since <= 8) Figure("cover_commit_after_take_" + std::to_string(since));
    Figure("commits");
  }

  void JudgeQueue() {
    // A new offer: the take itself was in the clock before.
    if (dut_.take_valid_o && (!offered_ || offered_->fired)) {
      const int vi = dut_.take_vi_o;
      Vi& v = vis_[vi];
      Touch(vi);
      CHECK(!v.queue.empty(), "VI %d is offered with an empty queue", vi);
      Entry e = v.queue.front();
      v.queue.pop_front();
      CHECK(e.any || (dut_.take_va_o == e.va && dut_.take_handle_o == e.handle),
            "VI %d: offered %016" PRIx64 " %08x, want %016" PRIx64 " %08x", vi, static_cast<uint64_t>(dut_.take_va_o),
            dut_.take_handle_o, e.va, e.handle);
      CHECK(dut_.take_more_o == !v.queue.empty(), "VI %d: more is %d with %zu behind it", vi, dut_.take_more_o,
            v.queue.size());
      CHECK(dut_.take_seq_o == v.seq, "VI %d: sequence %u, want %u", vi, dut_.take_seq_o, v.seq);
      v.seq++;
      offered_ = Offer{vi, e, false};
      // Round robin: whoever stands in front has nothing, or was reset meanwhile.
      for (;;) {
        CHECK(!ready_.empty(), "VI %d is offered and was not ready", vi);
        const Listed l = ready_.front();
        ready_.pop_front();
        if (l.vi == vi) break;
        CHECK(l.maybe || vis_[l.vi].queue.empty(), "VI %d is offered before VI %d, which was ready first", vi, l.vi);
      }
      ready_.erase(std::remove_if(ready_.begin(), ready_.end(), [&](const Listed& l) { return l.vi == vi; }),
                   ready_.end());
      take_clock_[vi] = unit::clocks() - 1;
      const uint64_t since = take_clock_[vi] - commit_clock_[vi];
      if (dut_.take_more_o && since <= 8) Figure("cover_commit_before_take_" + std::to_string(since));
    }
    CHECK(dut_.take_valid_o == offered_.has_value() || (offered_ && offered_->fired), "an offer vanished");
    if (offered_ && offered_->fired) offered_.reset();

    if (dut_.clear_valid_i && dut_.clear_ready_o) {
      const int vi = dut_.clear_vi_i;
      static const char* const names[] = {"idle", "listed", "offered", "translate", "read", "parsed", "link_owed"};
      Figure(std::string("cover_clear_") + names[WhatHolds(vi)]);
      vis_[vi].queue.clear();
      Touch(vi);
      manager_.step = 4;
      manager_.silent = -1;
    }

    // Links.
    CHECK(dut_.link_valid_o == link_.has_value(), "link valid is %d", dut_.link_valid_o);
    if (link_) {
      CHECK(dut_.link_vi_o == link_->vi && dut_.link_bad_o == link_->bad, "link of VI %u, bad %d, want %d, %d",
            dut_.link_vi_o, dut_.link_bad_o, link_->vi, link_->bad);
      CHECK(link_->bad || (dut_.link_va_o == link_->va && dut_.link_handle_o == link_->handle),
            "VI %d: link %016" PRIx64 " is not what memory held", link_->vi, static_cast<uint64_t>(dut_.link_va_o));
    }
    if (dut_.link_fire_o) {
      Vi& v = vis_[link_->vi];
      Touch(link_->vi);
      if (!v.queue.empty()) {
        if (link_->bad) {
          Figure("cover_queue_forgotten");
          Forget(link_->vi);
        } else {
          if (v.State() == hvia::kViStateFree) {
            v.queue.front().any = true;
          } else {
            const Entry& e = v.queue.front();
            CHECK(e.va == link_->va && e.handle == link_->handle,
                  "VI %d: the card read the link %016" PRIx64 " %08x before it was written", link_->vi, link_->va,
                  link_->handle);
          }
          Ready(link_->vi);
        }
      }
      link_.reset();
    }
  }

  // Ends the fetch of a descriptor that cannot be reached.
  void Unreachable() {
    bad_due_ = true;
    bad_vi_ = cur_.vi;
    bad_free_ = cur_.state == hvia::kViStateFree;
    bad_clock_ = unit::clocks();
    cur_.phase = Phase::kBad;
    Finished(cur_.vi, cur_.entry.slot);
  }

  void JudgeFetch() {
    bool fetched = false;
    int event = -1;
    const uint64_t now = unit::clocks();

    // The bad strobe comes one clock after what caused it; the link, if one is owed, after that.
    const bool bad_now = bad_due_ && now == bad_clock_ + 1;
    CHECK(dut_.stat_descriptor_bad_o == bad_now, "stat_descriptor_bad is %d", dut_.stat_descriptor_bad_o);
    const bool async = bad_now && !bad_free_;
    CHECK(dut_.fetch_async_valid_o == async, "fetch asynchronous error is %d", dut_.fetch_async_valid_o);
    if (async) {
      CHECK(dut_.fetch_async_code_o == hvia::kAsyncErrorPostDescriptor && dut_.fetch_async_vi_o == bad_vi_,
            "fetch asynchronous error %u of VI %u, want VI %d", dut_.fetch_async_code_o, dut_.fetch_async_vi_o, bad_vi_);
    }
    std::optional<Link> link_next;
    bool over = false;
    if (bad_now) {
      Figure(bad_free_ ? "cover_bad_free" : "cover_bad");
      bad_due_ = false;
      if (cur_.more) link_next = Link{cur_.vi, true, 0, 0};
      over = true;
      progress_ = now;
    }

    // Translation.
    const bool asks = cur_.phase == Phase::kTranslate;
    CHECK(dut_.att_req_valid_o == asks, "translation request is %d in phase %d", dut_.att_req_valid_o,
          static_cast<int>(cur_.phase));
    if (asks) {
      CHECK(dut_.att_req_handle_o == cur_.handle && dut_.att_req_va_o == cur_.va && dut_.att_req_len_o == kBytes &&
                dut_.att_req_tag_o == cur_.tag && dut_.att_req_access_o == hvia::kAttAccessLocal &&
                dut_.att_req_vi_o == cur_.vi,
            "translation request %08x %016" PRIx64 " %u tag %04x access %u VI %u, want %08x %016" PRIx64
            " tag %04x VI %d",
            dut_.att_req_handle_o, static_cast<uint64_t>(dut_.att_req_va_o), dut_.att_req_len_o, dut_.att_req_tag_o,
            dut_.att_req_access_o, dut_.att_req_vi_o, cur_.handle, cur_.va, cur_.tag, cur_.vi);
    }
    const bool requests = cur_.phase == Phase::kRequest;
    CHECK(dut_.rd_req_valid_o == requests, "read request is %d", dut_.rd_req_valid_o);
    if (requests) {
      CHECK(dut_.rd_req_addr_o == cur_.pa && dut_.rd_req_len_o == kBytes, "read of %u bytes at %08x, want %08x",
            dut_.rd_req_len_o, dut_.rd_req_addr_o, cur_.pa);
    }
    CHECK(!read_open_ || dut_.rready_o, "the fetch does not take its data");

    // The descriptor stands at the port as soon as its link was taken.
    const bool shows = cur_.phase == Phase::kParsed && !link_at_start_;
    CHECK(dut_.desc_valid_o == shows, "descriptor valid is %d", dut_.desc_valid_o);
    if (shows) JudgeDescriptor();

    switch (cur_.phase) {
      case Phase::kNone:
      case Phase::kBad:
        break;
      case Phase::kContext:
        if (cur_.state == hvia::kViStateFree || cur_.va % hvia::kDescriptorAlignment != 0) {
          if (cur_.state != hvia::kViStateFree) Figure("cover_misaligned_link");
          // The block looks at the context in the next clock.
          if (now == cur_.since + 2) Unreachable();
        } else if (now == cur_.since + 1) {
          cur_.phase = Phase::kTranslate;
        }
        break;
      case Phase::kTranslate:
        if (dut_.att_req_ready_i) {
          cur_.phase = Phase::kWalk;
          att_open_ = true;
          att_wait_ = rng_.Below(knobs_.att_delay + 1);
          att_handle_ = cur_.handle;
          att_va_ = cur_.va;
          att_tag_ = cur_.tag;
          progress_ = now;
        }
        break;
      case Phase::kWalk:
        if (dut_.att_rsp_valid_i) {
          att_open_ = false;
          event = hvia::kTraceEventDescriptorTranslated;
          if (dut_.att_rsp_err_i) {
            Unreachable();
          } else {
            cur_.pa = dut_.att_rsp_pa_i;
            cur_.phase = Phase::kRequest;
          }
          progress_ = now;
        }
        break;
      case Phase::kRequest:
        if (dut_.rd_req_ready_i) {
          cur_.phase = Phase::kRead;
          read_open_ = true;
          read_stands_ = false;
          read_at_ = 0;
          read_pa_ = dut_.rd_req_addr_o;
          progress_ = now;
        }
        break;
      case Phase::kRead:
        read_stands_ = dut_.rvalid_i && !dut_.rready_o;
        if (!dut_.rvalid_i || !dut_.rready_o) break;
        progress_ = now;
        if (!dut_.rerr_i) Store(&cur_.bytes[read_at_], dut_.rdata_i, kLane);
        read_at_ += kLane;
        if (!dut_.rlast_i) break;
        read_open_ = false;
        event = hvia::kTraceEventDescriptorFetched;
        if (dut_.rerr_i) {
          Figure("cover_read_error");
          Unreachable();
        } else {
          fetched = true;
          cur_.phase = Phase::kParsed;
          if (cur_.more) {
            link_next = Link{cur_.vi, false, Load(&cur_.bytes[hvia::kDescriptorNextOffset], 8),
                             static_cast<uint32_t>(Load(&cur_.bytes[hvia::kDescriptorNextHandleOffset], 4))};
          }
          const Vi& v = vis_[cur_.vi];
          if (cur_.entry.slot >= 0) {
            const Image& want = v.slots[cur_.entry.slot].image;
            CHECK(std::equal(want.begin() + hvia::kDescriptorSegmentCountOffset, want.end(),
                             cur_.bytes.begin() + hvia::kDescriptorSegmentCountOffset),
                  "VI %d: the fetch read another descriptor than the one at %016" PRIx64, cur_.vi, cur_.va);
          }
          Figure("descriptors");
        }
        break;
      case Phase::kParsed:
        if (dut_.desc_valid_o && dut_.desc_ready_i) {
          event = hvia::kTraceEventDescriptorParsed;
          Transmit t;
          t.vi = cur_.vi;
          t.slot = cur_.entry.slot;
          t.seq = cur_.seq;
          t.pa = cur_.pa;
          t.handle = cur_.handle;
          t.length = rng_.Bits(32);
          t.status = hvia::kDescriptorStatusDoneMask | dut_.desc_status_o |
                     hvia::kStatusOperationRdmaWrite << hvia::kDescriptorStatusOperationLsb;
          if (rng_.Chance(1, 8)) t.status |= 1u << rng_.Range(1, 8);
          t.write = !Rare(knobs_.no_write);
          transmit_.push_back(t);
          over = true;
          progress_ = now;
        }
        break;
    }
    CHECK(dut_.stat_descriptor_fetched_o == fetched, "stat_descriptor_fetched is %d", dut_.stat_descriptor_fetched_o);

    // Take.
    const bool take = dut_.take_fire_o;
    if (take) {
      CHECK(cur_.phase == Phase::kNone && !link_at_start_, "a descriptor is taken while the one before it is here");
      CHECK(offered_ && !offered_->fired, "a descriptor is taken that was not offered");
      event = hvia::kTraceEventDescriptorStart;
      cur_ = Current{};
      cur_.phase = Phase::kContext;
      cur_.since = now;
      cur_.vi = offered_->vi;
      cur_.entry = offered_->entry;
      cur_.va = dut_.take_va_o;
      cur_.handle = dut_.take_handle_o;
      cur_.more = dut_.take_more_o;
      cur_.seq = dut_.take_seq_o;
      CHECK(dut_.rd_vi_o == cur_.vi, "the context of VI %u is read, want %d", dut_.rd_vi_o, cur_.vi);
      cur_.state = vis_[cur_.vi].State();
      cur_.tag = vis_[cur_.vi].Tag();
      offered_->fired = true;
      Touch(cur_.vi);
    } else {
      CHECK(!(dut_.take_shown_o && cur_.phase == Phase::kNone && !link_at_start_), "the fetch idles beside an offer");
    }
    JudgeTrace(1, event >= 0, event, cur_.vi, cur_.seq);
    if (over) cur_ = Current{};
    if (link_next) {
      CHECK(!link_, "two links at a time");
      link_ = link_next;
    }
  }

  void JudgeDescriptor() {
    const Image& d = cur_.bytes;
    const Verdict want = bench::Judge(d, cur_.state);
    const uint8_t* address = &d[hvia::kDescriptorSize];
    const uint8_t* data = address + hvia::kAddressSegmentSize;
    CHECK(dut_.desc_vi_o == cur_.vi && dut_.desc_seq_o == cur_.seq && dut_.desc_pa_o == cur_.pa &&
              dut_.desc_handle_o == cur_.handle,
          "descriptor of VI %u, sequence %u at %08x, want VI %d, %u, %08x", dut_.desc_vi_o, dut_.desc_seq_o,
          dut_.desc_pa_o, cur_.vi, cur_.seq, cur_.pa);
    CHECK(dut_.desc_control_o == Load(&d[hvia::kDescriptorControlOffset], 2) &&
              dut_.desc_seg_count_o == Load(&d[hvia::kDescriptorSegmentCountOffset], 2) &&
              dut_.desc_immediate_o == Load(&d[hvia::kDescriptorImmediateDataOffset], 4) &&
              dut_.desc_length_o == Load(&d[hvia::kDescriptorLengthOffset], 4),
          "VI %d: control segment differs from memory", cur_.vi);
    CHECK(dut_.desc_remote_va_o == Load(address + hvia::kAddressSegmentAddressOffset, 8) &&
              dut_.desc_remote_handle_o == Load(address + hvia::kAddressSegmentHandleOffset, 4),
          "VI %d: address segment differs from memory", cur_.vi);
    CHECK(dut_.desc_data_va_o == Load(data + hvia::kDataSegmentAddressOffset, 8) &&
              dut_.desc_data_handle_o == Load(data + hvia::kDataSegmentHandleOffset, 4),
          "VI %d: data segment differs from memory", cur_.vi);
    CHECK(dut_.desc_data_len_o == want.data_len, "VI %d: data length %u, want %u", cur_.vi, dut_.desc_data_len_o,
          want.data_len);
    CHECK(dut_.desc_status_o == want.status, "VI %d: status %08x, want %08x (%s)", cur_.vi, dut_.desc_status_o,
          want.status,
          cur_.entry.slot >= 0 ? KindName(vis_[cur_.vi].slots[cur_.entry.slot].kind) : "reset meanwhile");
    if (!dut_.desc_ready_i || cur_.entry.slot < 0) return;
    const int kind = vis_[cur_.vi].slots[cur_.entry.slot].kind;
    if (cur_.state == hvia::kViStateConnected) {
      CHECK(want.status == KindStatus(kind), "%s: the bench's two opinions differ", KindName(kind));
      Figure(std::string("cover_kind_") + KindName(kind));
    } else {
      Figure(std::string("cover_flushed_") + hvia::ViStateName(cur_.state));
    }
  }

  void JudgeCompletion() {
    bool flushed = false, error = false;
    const uint64_t now = unit::clocks();
    std::optional<Write> next;
    CHECK(dut_.cpl_ready_o == !write_, "completion ready is %d", dut_.cpl_ready_o);
    const bool requests = write_ && !write_->granted;
    CHECK(dut_.wr_req_valid_o == requests, "write request is %d", dut_.wr_req_valid_o);
    const bool offers = write_ && write_->sent < 8;
    CHECK(dut_.wvalid_o == offers, "write data valid is %d after %u bytes", dut_.wvalid_o, write_ ? write_->sent : 0);
    if (requests) {
      CHECK(dut_.wr_req_addr_o == write_->job.pa + hvia::kDescriptorLengthOffset && dut_.wr_req_len_o == 8,
            "write of %u bytes at %08x for the descriptor at %08x", dut_.wr_req_len_o, dut_.wr_req_addr_o,
            write_->job.pa);
      if (dut_.wr_req_ready_i) {
        write_->granted = true;
        progress_ = now;
      }
    }
    if (offers && dut_.wready_i) {
      CHECK(dut_.wstrb_o == (1u << kLane) - 1, "byte lanes %x", dut_.wstrb_o);
      // Bytes reach memory in the order of the beats: Length, then Status.
      uint64_t data = dut_.wdata_o;
      const uint64_t both = write_->job.length | static_cast<uint64_t>(write_->job.status) << 32;
      uint64_t want = both >> (8 * write_->sent);
      if (kLane == 4) want &= 0xffffffffu;
      CHECK(data == want, "byte %u of the completion: %" PRIx64 ", want %" PRIx64, write_->sent, data, want);
      if (!write_->failed) {
        Store(memory_->At(write_->job.pa + hvia::kDescriptorLengthOffset + write_->sent, kLane, "the completion"), data,
              kLane);
      }
      write_->sent += kLane;
      progress_ = now;
    }
    const bool done = dut_.wdone_i;
    CHECK(dut_.stat_completion_written_o == (done && !dut_.werr_i), "stat_completion_written is %d",
          dut_.stat_completion_written_o);
    CHECK(dut_.stat_completion_error_o == (done && dut_.werr_i), "stat_completion_error is %d",
          dut_.stat_completion_error_o);
    const bool refused = done && dut_.werr_i;
    CHECK(dut_.completion_async_valid_o == refused, "completion asynchronous error is %d", dut_.completion_async_valid_o);
    if (refused) {
      CHECK(dut_.completion_async_code_o == hvia::kAsyncErrorCompletionProtection &&
                dut_.completion_async_vi_o == write_->job.vi,
            "completion asynchronous error %u of VI %u, want VI %d", dut_.completion_async_code_o,
            dut_.completion_async_vi_o, write_->job.vi);
    }
    JudgeTrace(2, done, hvia::kTraceEventCompletionWritten, write_ ? write_->job.vi : 0, write_ ? write_->job.seq : 0);
    const bool accepted = dut_.cpl_valid_i && dut_.cpl_ready_o;
    if (done) {
      Figure(write_->failed ? "cover_completion_error" : "completions");
      // Reset VIs have given their slots away.
      if (vis_[write_->job.vi].State() != hvia::kViStateFree) Finished(write_->job.vi, write_->job.slot);
      progress_ = now;
      write_.reset();
    }
    if (accepted) {
      flushed = cpl_->status & hvia::kDescriptorStatusFlushedMask;
      error = !flushed && (cpl_->status & 0x1fe);
      if (cpl_->write) {
        Write w;
        w.job = *cpl_;
        w.wait = rng_.Below(knobs_.done_delay + 1);
        w.failed = Rare(knobs_.write_error);
        write_ = w;
      } else {
        Figure("cover_completion_without_write");
        if (vis_[cpl_->vi].State() != hvia::kViStateFree) Finished(cpl_->vi, cpl_->slot);
      }
      if (flushed) Figure("cover_completion_flushed");
      if (error) Figure("cover_completion_with_error");
      transmit_.pop_front();
      cpl_.reset();
      progress_ = now;
    }
    CHECK(dut_.stat_descriptor_flushed_o == flushed, "stat_descriptor_flushed is %d", dut_.stat_descriptor_flushed_o);
    CHECK(dut_.stat_descriptor_error_o == error, "stat_descriptor_error is %d", dut_.stat_descriptor_error_o);
  }

  void JudgeTrace(int lane, bool valid, uint32_t event, uint32_t vi, uint32_t seq) {
    CHECK((dut_.trace_valid_o >> lane & 1) == valid, "trace of lane %d is %d", lane, dut_.trace_valid_o >> lane & 1);
    if (!valid) return;
    const uint32_t e = dut_.trace_event_o >> (8 * lane) & 0xff;
    const uint32_t v = dut_.trace_vi_o >> (8 * lane) & 0xff;
    const uint32_t s = dut_.trace_seq_o >> (16 * lane) & 0xffff;
    CHECK(e == event && v == vi && s == seq, "trace of lane %d: event %u VI %u sequence %u, want %u %u %u", lane, e, v,
          s, event, vi, seq);
  }

  // The drain outputs, before the models move: busy while there is work, and not long after.
  void JudgeDrain() {
    const uint64_t now = unit::clocks();
    const int vi = dut_.drain_vi_i;
    const uint32_t handle = dut_.drain_handle_i;
    const Vi& v = vis_[vi];

    const bool offered = dut_.take_valid_o && dut_.take_vi_o == vi;
    const bool queue_work = !v.queue.empty() || offered;
    CHECK(!queue_work || dut_.queue_vi_busy_o, "send_queue: VI %d is not busy with %zu descriptors", vi,
          v.queue.size());
    const bool committing = dut_.commit_valid_o && dut_.commit_vi_o == vi;
    bool listed = false;
    for (const auto& l : ready_) listed |= l.vi == vi;
    const bool queue_idle = !queue_work && !committing && !listed && now > v.active_clock + 2 &&
                            !(link_ && link_->vi == vi) && !dut_.clear_valid_i;
    CHECK(!queue_idle || !dut_.queue_vi_busy_o, "send_queue: VI %d is busy with nothing", vi);

    const bool fetch_work = (cur_.phase != Phase::kNone && cur_.vi == vi) || (link_ && link_->vi == vi);
    CHECK(dut_.fetch_vi_busy_o == fetch_work, "descriptor_fetch: busy of VI %d is %d", vi, dut_.fetch_vi_busy_o);
    // What was not translated when a handle is withdrawn will be refused, and does not count.
    const bool uses = cur_.phase >= Phase::kWalk && cur_.handle == handle;
    CHECK(dut_.fetch_handle_busy_o == uses, "descriptor_fetch: busy of handle %08x is %d", handle,
          dut_.fetch_handle_busy_o);

    CHECK(dut_.completion_vi_busy_o == (write_ && write_->job.vi == vi), "completion: busy of VI %d is %d", vi,
          dut_.completion_vi_busy_o);
    CHECK(dut_.completion_handle_busy_o == (write_ && write_->job.handle == handle),
          "completion: busy of handle %08x is %d", handle, dut_.completion_handle_busy_o);

    // What the manager sees: the three blocks, the model of the transmit engine, and the doorbell's
    // register behind its valve.
    vi_busy_ = dut_.queue_vi_busy_o || dut_.fetch_vi_busy_o || dut_.completion_vi_busy_o || committing;
    handle_busy_ = dut_.fetch_handle_busy_o || dut_.completion_handle_busy_o;
    for (const auto& t : transmit_) {
      vi_busy_ |= t.vi == vi;
      handle_busy_ |= t.handle == handle;
    }
  }

  void JudgeQuiet() {
    // Work that a block can go on with by itself, or that others go on with: never quiet.
    const bool fetch_busy = cur_.phase != Phase::kNone || link_ || dut_.take_shown_o;
    CHECK(!(fetch_busy && (dut_.quiet_o & 4)), "descriptor_fetch is quiet in phase %d", static_cast<int>(cur_.phase));
    CHECK(!((write_ || dut_.cpl_valid_i) && (dut_.quiet_o & 8)), "completion is quiet with a completion");
    CHECK(!((commit_ || dut_.db_wvalid_i) && (dut_.quiet_o & 1)), "doorbell is quiet with a doorbell");
    CHECK(!(dut_.take_valid_o && (dut_.quiet_o & 2)), "send_queue is quiet with an offer");
  }

  void Judge() {
    link_at_start_ = link_.has_value();
    JudgeQuiet();
    JudgeDrain();
    JudgeQueue();
    JudgeDoorbell();
    JudgeFetch();
    JudgeCompletion();
  }

  struct Offer {
    int vi;
    Entry entry;
    bool fired;
  };
  struct Link {
    int vi;
    bool bad;
    uint64_t va;
    uint32_t handle;
  };
  struct Write {
    Transmit job{};
    bool granted = false;
    bool failed = false;
    unsigned sent = 0;
    unsigned wait = 0;
  };

  unit::Rng rng_;
  const size_t depth_;
  VerilatedContext context_;
  Vdescriptor_bench_top dut_;
  Knobs knobs_{};

  std::unique_ptr<Memory> memory_;
  std::vector<Region> regions_;
  std::map<uint32_t, int> by_handle_;
  std::array<Vi, kVis> vis_;
  std::vector<int> used_;
  bool held_ = false;
  bool stopped_ = false;
  int hot_ = -1;
  Manager manager_;
  bool vi_busy_ = false, handle_busy_ = false;

  std::deque<Burst> bursts_;
  size_t burst_pos_ = 0;
  bool dword_stands_ = false;
  std::vector<Dword> phase_dwords_;
  std::optional<Commit> commit_;
  std::deque<Listed> ready_;
  std::optional<Offer> offered_;
  std::array<uint64_t, kVis> take_clock_{}, commit_clock_{};

  Current cur_;
  std::optional<Link> link_;
  bool link_at_start_ = false;
  bool bad_due_ = false, bad_free_ = false;
  int bad_vi_ = 0;
  uint64_t bad_clock_ = 0;

  bool att_open_ = false;
  unsigned att_wait_ = 0;
  uint32_t att_handle_ = 0, att_tag_ = 0;
  uint64_t att_va_ = 0;
  bool read_open_ = false, read_stands_ = false;
  uint32_t read_pa_ = 0, read_at_ = 0;

  std::deque<Transmit> transmit_;
  std::optional<Transmit> cpl_;
  std::optional<Write> write_;
  uint64_t progress_ = 0;
};

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  unit::ParseOptions(argc, argv);
  bench::Bench b(unit::options().seed);
  b.Run(unit::options().size);
  bench::figures["clocks"] = unit::clocks();
  for (const auto& [name, value] : bench::figures) std::printf("%s %" PRIu64 "\n", name.c_str(), value);
  std::printf("passed 1\n");
  return 0;
}
