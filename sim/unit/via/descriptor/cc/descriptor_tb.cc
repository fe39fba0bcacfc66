// SPDX-License-Identifier: Apache-2.0

// Drives the descriptor path and checks every port in every clock, between models of its
// neighbours: host threads that build linked lists in memory and ring; a target port that also
// brings broken doorbells of every kind; VI contexts, translation, host bus; a ledger that holds
// send queues; a transmit and a receive engine that also request further chunks; and a manager that
// resets and disconnects VIs and withdraws memory. The model represents the queues as plain lists.
// Each posted descriptor comes out once, in order per queue, round robin among VIs. Of a receive
// queue one descriptor is on the chip at a time.
//
// In each clock Drive() sets the inputs, the design settles, and Check() checks all ports and
// advances the models. Then comes the edge. The size is the number of epochs. An epoch has a random
// mix of speeds and ends with an idle card or with a reset during traffic.

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "Vdescriptor_tb.h"
#include "sim/unit/via/descriptor/cc/host.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

namespace testbench {
namespace {

constexpr int kVis = unit::kVIs;
constexpr int kSend = 0, kReceive = 1;
const char* const kQueueNames[] = {"send", "receive"};
constexpr int kLane = TB_W / 8;
using Lane = std::conditional_t<TB_W == 64, uint64_t, uint32_t>;
constexpr uint64_t kPatience = 20000;  // clocks without progress

std::map<std::string, uint64_t> figures;

struct Knobs {
  // Chances out of 16 per clock.
  unsigned commit_gate, take_gate, link_gate, release_gate, flushed_gate, att_ready, read_ready, read_beat, desc_ready,
      cpl_rate, rx_rate, write_ready, write_beat, host_rate, dword_rate, reap_rate;
  // Chances out of 1024.
  unsigned att_error, read_error, write_error, hostile, manager, context_flip, evil_link, no_write, chunk, lull, hold;
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
  bool longer = false;  // continues after its doorbell
  std::vector<std::pair<int, int>> bells = {};  // real doorbells: VI, queue
  bool Rings(int vi) const {
    return std::any_of(bells.begin(), bells.end(), [vi](const auto& b) { return b.first == vi; });
  }
};

// The dwords of a doorbell that a queue has received.
struct Partial {
  uint32_t count = 0, low = 0, high = 0;
};

// A descriptor that the queue has accepted and the fetch has not taken.
struct Entry {
  int slot = -1;  // -1: its VI was reset meanwhile
  uint64_t va = 0;
  uint32_t handle = 0;
  bool any = false;  // its address is undefined: a stale link may have come between
};

struct Slot {
  Image image{};
  int kind = 0;
  bool in_use = false;
  // The link of its predecessor, when that link is wrong.
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

// One work queue: its thread on the host, and the model's view.
struct Queue {
  bool drain_first = false;  // after an overrun the thread waits until the queue is empty
  int region = -1;
  std::vector<Slot> slots;
  std::vector<int> free;
  std::deque<int> finished;  // complete in the card, not reaped by the thread
  int tail = -1;
  Post post;
  int outstanding = 0;

  std::deque<Entry> queue;
  // Sequence numbers of incomplete descriptors that the fetch took. Not tracked after a reset.
  std::deque<uint16_t> taken;
  bool follow = true;
  uint16_t seq = 0;
};

// The VI's slot in the receive store.
struct Place {
  bool valid = false;
  bool stale = false;
  int slot = -1;
  uint64_t va = 0;
  uint32_t pa = 0, handle = 0;
  uint16_t seq = 0;
  Image head{}, chunk{};
  uint32_t status = 0;
};

struct Vi {
  bool used = false;
  bool paused = false;
  std::array<uint32_t, 4> context{};
  Queue queues[2];
  bool held = false;  // a receive descriptor was taken and not released
  // The ledger holds the send queue now; it did in the clock before; the queue is parked.
  bool hold = false, was_hold = false, parked = false;
  bool owed = false;  // the link of a receive descriptor has not come
  Place place;
  uint64_t active_clock = 0;

  uint32_t State() const { return context[0] & hvia::kVIContextAttributesStateMask; }
  bool Reliable() const {
    return (context[0] & hvia::kVIContextAttributesReliabilityMask) !=
           hvia::kReliabilityUnreliable << hvia::kVIContextAttributesReliabilityLsb;
  }
  uint32_t Tag() const { return context[0] >> hvia::kVIContextAttributesTagLsb; }
};

struct Listed {
  int vi;
  bool maybe;
};

enum class Phase { kNone, kBad, kContext, kTranslate, kWalk, kRequest, kRead, kParsed, kFlush };
// Heads have the numbers of their queues; a chunk has its requester's number plus two.
enum Work { kSendHead, kReceiveHead, kReceiveChunk, kTransmitChunk };

struct Current {
  Phase phase = Phase::kNone;
  Work work = kSendHead;
  bool store = true;  // of a chunk
  uint64_t since = 0;
  int vi = 0;
  Entry entry;
  uint64_t va = 0;
  uint32_t handle = 0, pa = 0;
  bool more = false;
  uint16_t seq = 0;
  uint32_t state = 0, tag = 0;
  bool reliable = false;
  Image bytes{};
  bool unreachable = false;
  bool Head() const { return work <= kReceiveHead; }
};

struct Completion {
  int vi;
  int kind;
  int slot;
  uint16_t seq;
  uint32_t pa, handle, length, status, immediate;
  bool has_immediate, write;
};

struct Transmit {
  Completion cpl;
  uint64_t va;
  int chunks;  // number that the engine requests before it completes
  bool unreachable;  // no completion
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng_(seed), depth_(1u << hvia::FindProfile("hvia-ge")->QueueDepthLog2) {
    Verilated::randSeed(static_cast<int>(rng_.Next() >> 33));
  }

  void Run(uint64_t epochs) {
    for (int kind : {kSend, kReceive}) Latency(kind);
    for (uint64_t e = 0; e < epochs; e++) {
      // The special kinds come first, so that the shortest run includes each of them.
      enum { kRandom, kOverrun, kAllVis, kRace } kind = kRandom;
      switch (e % 12) {
        case 1: case 5: kind = kOverrun; break;
        case 2: kind = kAllVis; break;
        case 3: case 7: kind = kRace; break;
        default: break;
      }
      NewKnobs();
      // A test that fills queues requires that no descriptor waits for a message.
      on_arrival_next_ = kind == kRace || kind == kRandom ? rng_.Chance(1, 2) : false;
      StartEpoch(kind == kAllVis ? kVis : kind == kRace ? 2 : std::min(kVis, static_cast<int>(rng_.Range(1, 24))),
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
      if (kind == kRandom && e % 4 == 0) {  // completions of all sources pile up
        knobs_.write_ready = knobs_.write_beat = 1;
        knobs_.flushed_gate = knobs_.cpl_rate = knobs_.rx_rate = 16;
        knobs_.context_flip = 40;
      }
      if (kind == kRandom && e % 4 == 2) {  // send descriptors wait for the transmit engine, also in a reset
        knobs_.desc_ready = 1;
        knobs_.transmit_depth = 1;
        knobs_.manager = 200;
      }
      if (kind == kOverrun) {
        Overrun(e % 12 == 1 ? kReceive : kSend);
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
    for (unsigned* p : {&k.commit_gate, &k.take_gate, &k.link_gate, &k.release_gate, &k.flushed_gate, &k.att_ready,
                        &k.read_ready, &k.read_beat, &k.desc_ready, &k.cpl_rate, &k.rx_rate, &k.write_ready,
                        &k.write_beat, &k.host_rate, &k.dword_rate, &k.reap_rate}) {
      *p = speed();
    }
    const bool errors = rng_.Chance(2, 3);
    k.att_error = errors ? rng_.Below(100) : 0;
    k.read_error = errors ? rng_.Below(60) : 0;
    k.write_error = errors ? rng_.Below(100) : 0;
    k.no_write = errors ? rng_.Below(60) : 0;
    k.chunk = rng_.Chance(2, 3) ? rng_.Below(600) : 0;
    k.evil_link = errors ? rng_.Below(80) : 0;
    k.hostile = rng_.Chance(2, 3) ? rng_.Below(60) : 0;
    k.manager = rng_.Chance(2, 3) ? 60 : 0;
    k.lull = rng_.Chance(1, 2) ? 2 : 0;
    k.context_flip = rng_.Chance(1, 2) ? rng_.Below(40) : 0;
    k.hold = rng_.Chance(1, 2) ? rng_.Range(1, 200) : 0;
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
    left_.clear();
    for (int kind : {kSend, kReceive}) {
      for (int vi = 0; vi < kVis; vi++) {
        if (partial_[kind][vi].count != 0) left_.push_back({vi, kind, partial_[kind][vi].count});
        partial_[kind][vi] = Partial{};
      }
    }
    last_vi_ = 0;
    last_kind_ = kSend;
    loading_ = started_over_ = false;
    uncounted_ = 0;
    forget_ = -1;
    walk_ = kVis;
    commit_.reset();
    for (int kind : {kSend, kReceive}) {
      ready_[kind].clear();
      offers_[kind].reset();
      offer_fired_[kind] = false;
    }
    take_stands_ = false;
    take_kind_ = kSend;
    cur_ = Current{};
    flush_shown_ = false;
    wait_.reset();
    head_turn_ = false;
    link_.reset();
    release_.reset();
    bad_due_ = false;
    for (auto& c : chunks_) c = Chunk{};
    transmit_.clear();
    tx_cpl_ = false;
    job_ = Job{};
    rx_hold_ = false;
    lull_ = 0;
    on_arrival_ = on_arrival_next_;
    wanted_vi_ = -1;
    woken_by_ = {};
    seen_.reset();
    watched_.reset();
    search_start_ = 0;
    searching_ = false;
    last_source_ = 2;
    refused_.reset();
    write_.reset();
    read_open_ = false;
    att_open_ = false;
    manager_ = Manager{};
    unhold_.clear();
    unhold_stands_ = false;
    used_.clear();

    std::vector<int> order(kVis);
    for (int i = 0; i < kVis; i++) order[i] = i;
    for (int i = kVis - 1; i > 0; i--) std::swap(order[i], order[rng_.Below(i + 1)]);
    used_.assign(order.begin(), order.begin() + vis);
    if (vis >= 2 && vis < kVis) {  // includes the ends of the range
      for (int want : {0, kVis - 1}) {
        auto it = std::find(used_.begin(), used_.end(), want);
        if (it == used_.end()) used_[want ? 1 : 0] = want;
      }
    }
    for (auto& v : vis_) {
      v.context = {hvia::kVIStateFree, 0, 0, 0};
    }
    for (size_t i = 0; i < used_.size(); i++) {
      vis_[used_[i]].used = true;
      Rebuild(used_[i], (long_queue && i == 0) ? depth_ + 64 : 48);
    }

    dut_.rst_ni = 0;
    unit::Edge(&dut_, {&dut_.clk_i});
    held_ = false;
    for (int i = 0; i < 4; i++) Clock();
    dut_.rst_ni = 1;
    progress_ = unit::clocks();
  }

  // Gives a connected VI new regions with free slots.
  void Rebuild(int vi, int slots) {
    Vi& v = vis_[vi];
    const uint16_t tag = rng_.Bits(16);
    for (Queue& q : v.queues) {
      Region r;
      do {
        r.handle = rng_.Bits(32);
      } while (r.handle == 0 || by_handle_.count(r.handle));
      r.va = rng_.Next() & ~static_cast<uint64_t>(kPage - 1) & 0x00ffffffffffffffull;
      r.tag = tag;
      r.valid = true;
      const int per_page = kPage / kBytes;
      for (int i = 0; i < (slots + per_page - 1) / per_page; i++) r.pages.push_back(memory_->Allocate());
      by_handle_[r.handle] = static_cast<int>(regions_.size());
      q.region = static_cast<int>(regions_.size());
      q.slots.assign(slots, Slot{});
      q.free.clear();
      // Slots of small queues lie anywhere in the region, including the last slot before the page's
      // end.
      const int room = static_cast<int>(r.pages.size()) * per_page;
      std::vector<int> place(room);
      for (int i = 0; i < room; i++) place[i] = room - 1 - i;
      for (int i = room - 1; i > 1; i--) std::swap(place[i], place[rng_.Range(1, i)]);
      for (int i = 0; i < slots; i++) {
        q.slots[i].va = r.va + static_cast<uint64_t>(place[i]) * kBytes;
        q.free.push_back(i);
      }
      regions_.push_back(r);
      q.finished.clear();
      q.taken.clear();
      q.follow = true;
      q.tail = -1;
      q.post = Post{};
      q.outstanding = 0;
      q.drain_first = false;
    }
    v.paused = false;
    const uint32_t noise = rng_.Bits(13) << 3 & ~hvia::kVIContextAttributesReliabilityMask;
    const uint32_t level = hvia::kReliabilityUnreliable << rng_.Below(3);
    v.context = {hvia::kVIStateConnected | level << hvia::kVIContextAttributesReliabilityLsb | noise |
                     static_cast<uint32_t>(tag) << hvia::kVIContextAttributesTagLsb,
                 rng_.Bits(32), rng_.Bits(32), rng_.Bits(32)};
  }

  void Clock() {
    unit::clocks()++;
    Drive();
    dut_.clk_i = 0;
    dut_.eval();
    if (dut_.rst_ni) {
      Check();
    } else {
      CHECK(!dut_.commit_valid_o && !dut_.take_valid_o && !dut_.link_valid_o && !dut_.att_req_valid_o &&
                !dut_.rd_req_valid_o && !dut_.desc_valid_o && !dut_.wr_req_valid_o && !dut_.wvalid_o &&
                !dut_.release_valid_o && !dut_.flushed_valid_o && !dut_.wr_valid_o && !dut_.rs_valid_o &&
                !dut_.rxc_done_o && !dut_.txc_done_o,
            "a block has an offer while in reset");
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
      for (int kind : {kSend, kReceive}) {
        const Queue& q = vis_[vi].queues[kind];
        if (!q.queue.empty()) {
          s += " VI " + std::to_string(vi) + " " + kQueueNames[kind] + " holds " + std::to_string(q.queue.size());
        }
      }
      if (vis_[vi].place.valid) s += " VI " + std::to_string(vi) + " is in the store";
    }
    s += " offered " + std::to_string(offers_[0].has_value()) + std::to_string(offers_[1].has_value()) +
         " fetch phase " + std::to_string(static_cast<int>(cur_.phase)) + " waits " +
         std::to_string(wait_.has_value()) + " link " + std::to_string(link_.has_value()) + " release " +
         std::to_string(release_.has_value()) + " transmit " + std::to_string(transmit_.size()) + " job " +
         std::to_string(job_.step) + " write " + std::to_string(write_.has_value()) + " manager " +
         std::to_string(manager_.step) + " bursts " + std::to_string(bursts_.size());
    return s;
  }

  // Work that continues without a message. A descriptor that waits for a message does not count.
  bool Moving() const {
    for (int vi : used_) {
      for (const Queue& q : vis_[vi].queues) {
        if (q.post.active) return true;
      }
      if (!vis_[vi].queues[kSend].queue.empty()) return true;
      const bool by_itself = !on_arrival_ || vis_[vi].State() == hvia::kVIStateFree || vi == wanted_vi_;
      if (!vis_[vi].queues[kReceive].queue.empty() && !vis_[vi].held && by_itself) return true;
    }
    for (const Chunk& c : chunks_) {
      if (c.want || c.open) return true;
    }
    return !unhold_.empty() || offers_[0] || offers_[1] || cur_.phase != Phase::kNone || wait_ || link_ || release_ || !transmit_.empty() ||
           job_.step != kRxNone || wanted_vi_ >= 0 || write_ || refused_ || !bursts_.empty() || commit_ ||
           (manager_.step != 0 && manager_.step != kRebuild);
  }

  bool Outstanding() const {
    for (int vi : used_) {
      if (!vis_[vi].queues[kReceive].queue.empty() || vis_[vi].place.valid || vis_[vi].held) return true;
    }
    return Moving() || manager_.step != 0;
  }

  void ExpectQuiet(const char* when) {
    frozen_ = true;
    for (int i = 0; i < 8; i++) Clock();
    for (int i = 0; i < 20; i++) {
      progress_ = unit::clocks();
      Clock();
      CHECK(dut_.quiet_o == 0x1f, "%s and quiet is %x", when, dut_.quiet_o);
    }
    frozen_ = false;
  }

  // Stops posting, waits until all work is done, and checks the final state. Receive descriptors
  // may wait for messages until the first idle state.
  void Finish() {
    held_ = true;
    rx_hold_ = true;
    const Knobs slow = knobs_;
    for (unsigned* p : {&knobs_.commit_gate, &knobs_.take_gate, &knobs_.link_gate, &knobs_.release_gate,
                        &knobs_.flushed_gate, &knobs_.att_ready, &knobs_.read_ready, &knobs_.read_beat,
                        &knobs_.desc_ready, &knobs_.cpl_rate, &knobs_.rx_rate, &knobs_.write_ready, &knobs_.write_beat,
                        &knobs_.host_rate, &knobs_.dword_rate}) {
      *p = std::max(*p, 8u);
    }
    knobs_.hostile = knobs_.manager = knobs_.context_flip = knobs_.hold = 0;
    while (Moving()) Clock();
    size_t waiting = 0, behind = 0;
    for (int vi : used_) {
      waiting += vis_[vi].place.valid;
      behind += vis_[vi].queues[kReceive].queue.size();
    }
    if (waiting) Figure("cover_quiet_with_receives");
    if (behind) Figure("cover_quiet_with_receives_behind");
    // Not while a drain runs, which leaves more work.
    if (manager_.step == 0) ExpectQuiet("receive descriptors wait for messages");
    rx_hold_ = false;
    while (Outstanding()) Clock();
    ExpectQuiet("all work is done");
    for (int vi : used_) {
      for (int kind : {kSend, kReceive}) {
        const Queue& q = vis_[vi].queues[kind];
        CHECK(q.outstanding == static_cast<int>(q.finished.size()), "VI %d: %d descriptors posted to the %s queue, %zu finished",
              vi, q.outstanding, kQueueNames[kind], q.finished.size());
      }
    }
    Figure("idle_ends");
    knobs_ = slow;
    held_ = false;
  }

  // --- Special epochs ----------------------------------------------------------------------------

  // The latency of one descriptor without other traffic, from the third dword of the doorbell to
  // the transmit engine or the store.
  void Latency(int kind) {
    NewKnobs();
    Knobs& k = knobs_;
    for (unsigned* p : {&k.commit_gate, &k.take_gate, &k.link_gate, &k.release_gate, &k.att_ready, &k.read_ready,
                        &k.read_beat, &k.desc_ready, &k.cpl_rate, &k.rx_rate, &k.write_ready, &k.write_beat,
                        &k.host_rate, &k.dword_rate, &k.reap_rate}) {
      *p = 16;
    }
    k.att_error = k.read_error = k.write_error = k.no_write = k.evil_link = k.hostile = k.manager = 0;
    k.context_flip = k.hold = k.chunk = k.lull = k.att_delay = k.done_delay = 0;
    k.transmit_depth = 4;
    k.max_posted = 1;
    StartEpoch(1, false);
    hot_ = used_[0];
    hot_kind_ = kind;
    only_hot_ = true;
    // Clocks: commit 2, take 2, offer 1, context 1, translation 2, request 1, check 1: together 10.
    // Plus one per beat.
    const uint64_t want = 10 + kBytes / kLane;
    for (int n = 0; n < 6; n++) {
      for (arrived_clock_ = 0; arrived_clock_ == 0;) Clock();
      CHECK(arrived_clock_ - bell_clock_ == want, "a descriptor of the %s queue takes %" PRIu64 " clocks, want %" PRIu64,
            kQueueNames[kind], arrived_clock_ - bell_clock_, want);
      figures[std::string("latency_") + kQueueNames[kind]] = want;
    }
    hot_ = -1;
    only_hot_ = false;
  }

  // Fills one queue. Its first descriptor cannot leave: either the fetch takes nothing, or the
  // descriptor waits on the chip for a message (receive queue).
  void Overrun(int kind) {
    const int vi = used_[0];
    knobs_.host_rate = knobs_.dword_rate = 16;
    knobs_.commit_gate = 16;
    knobs_.max_posted = depth_ + 60;
    knobs_.hold = knobs_.manager = knobs_.context_flip = knobs_.att_error = knobs_.read_error = knobs_.evil_link = 0;
    hot_ = vi;
    hot_kind_ = kind;
    const unsigned gate = knobs_.take_gate;
    const bool on_chip = kind == kReceive && rng_.Chance(1, 2);
    const uint64_t before = figures["overruns"];
    const uint64_t want = before + rng_.Range(1, 20);
    if (on_chip) {
      rx_hold_ = true;
      knobs_.take_gate = std::max(gate, 8u);
    } else {
      knobs_.take_gate = 0;
    }
    stopped_ = true;
    const Queue& q = vis_[vi].queues[kind];
    for (uint64_t n = 0; figures["overruns"] < want; n++) {
      CHECK(n < 200000, "no overrun of VI %d after %" PRIu64 " clocks, %zu queued", vi, n, q.queue.size());
      progress_ = unit::clocks();
      Clock();
    }
    Figure(std::string("cover_overrun_") + kQueueNames[kind], figures["overruns"] - before);
    if (on_chip) Figure("cover_overrun_on_chip");
    // Stop posting before the queue moves again: descriptors linked after a dropped one are
    // undefined.
    stopped_ = false;
    auto rings = [&] {
      bool any = q.post.active || (commit_ && commit_->vi == vi && commit_->kind == kind);
      for (const auto& b : bursts_) any |= std::count(b.bells.begin(), b.bells.end(), std::pair(vi, kind)) != 0;
      return any;
    };
    while (rings()) Clock();
    rx_hold_ = false;
    for (unsigned* p : {&knobs_.desc_ready, &knobs_.rx_rate, &knobs_.cpl_rate}) *p = std::max(*p, 8u);
    knobs_.take_gate = std::max(gate, 8u);
    knobs_.max_posted = 3;
    hot_ = -1;
  }

  void AllVis() {
    const unsigned gate = knobs_.take_gate;
    knobs_.take_gate = 0;
    knobs_.host_rate = knobs_.dword_rate = 16;
    knobs_.max_posted = 2;
    knobs_.hold = knobs_.manager = knobs_.context_flip = 0;
    const size_t full = kVis - 1;
    for (int n = 0; n < 80000 && (ready_[0].size() < full || ready_[1].size() < full); n++) {
      progress_ = unit::clocks();
      Clock();
    }
    // The next send descriptor of a VI may be in the list while one is offered.
    CHECK(ready_[0].size() >= full && ready_[1].size() >= full, "%zu and %zu of %zu VIs became ready", ready_[0].size(),
          ready_[1].size(), full);
    Figure("cover_full_ready_list");
    knobs_.take_gate = std::max(gate, 8u);
  }

  // --- Host threads ------------------------------------------------------------------------------

  uint8_t* Descriptor(const Queue& q, int slot, uint32_t offset, uint32_t len) {
    const Region& r = regions_[q.region];
    return memory_->At(r.Physical(q.slots[slot].va) + offset, len, "the host");
  }

  void HostStep() {
    const bool hot = hot_ >= 0 && (only_hot_ || rng_.Chance(15, 16));
    const int vi = hot ? hot_ : used_[rng_.Below(used_.size())];
    const int kind = hot ? hot_kind_ : static_cast<int>(rng_.Below(2));
    Vi& v = vis_[vi];
    Queue& q = v.queues[kind];
    if (!q.post.active) {
      Reap(&q);
      if (q.drain_first && q.queue.empty() && q.outstanding == 0) q.drain_first = false;
      const bool limited =
          q.outstanding >= static_cast<int>(hot_ >= 0 && (vi != hot_ || kind != hot_kind_) ? 3 : knobs_.max_posted);
      if (held_ || v.paused || (q.drain_first && !stopped_) || v.State() == hvia::kVIStateFree || q.free.empty() || limited) return;
      if (bursts_.size() > 3) return;
      q.post.active = true;
      const size_t pick = rng_.Below(q.free.size());
      q.post.slot = q.free[pick];
      q.free[pick] = q.free.back();
      q.free.pop_back();
      q.post.predecessor = q.tail;
      q.post.step = 0;
      for (int i = 2; i > 0; i--) std::swap(q.post.order[i], q.post.order[rng_.Below(i + 1)]);
      q.outstanding++;
      Slot& s = q.slots[q.post.slot];
      s.in_use = true;
      s.kind = rng_.Chance(3, 5) ? rng_.Below(kGoodKinds) : rng_.Below(kKinds);
      s.image = MakeDescriptor(&rng_, s.kind, kind == kReceive);
      // A link is invalid until all its bytes are written.
      std::memcpy(Descriptor(q, q.post.slot, 0, kBytes), s.image.data(), kBytes);
      s.evil = Rare(knobs_.evil_link);
      s.link_va = s.va;
      s.link_handle = regions_[q.region].handle;
      if (s.evil) {
        const Region& r = regions_[q.region];
        switch (rng_.Below(4)) {
          case 0: s.link_va = s.va + rng_.Range(1, 63); break;
          case 1: s.link_va = r.va + r.pages.size() * kPage - rng_.Range(1, 63); break;
          case 2: s.link_va = r.va + r.pages.size() * kPage; break;
          default: s.link_handle ^= 1u << rng_.Below(32); break;
        }
      }
      return;
    }
    if (q.post.step < 3) {
      if (q.post.predecessor >= 0) {
        const Slot& s = q.slots[q.post.slot];
        const int part = q.post.order[q.post.step];
        const uint64_t words[3] = {s.link_va & 0xffffffffu, s.link_va >> 32, s.link_handle};
        static const uint32_t offsets[3] = {hvia::kDescriptorNextOffset, hvia::kDescriptorNextOffset + 4,
                                            hvia::kDescriptorNextHandleOffset};
        Store(Descriptor(q, q.post.predecessor, offsets[part], 4), words[part], 4);
        if (cur_.Head() && cur_.work == kind && cur_.vi == vi && cur_.entry.slot == q.post.predecessor &&
            cur_.phase == Phase::kRead) {
          Figure("cover_link_written_during_read");
        }
        q.post.step++;
        return;
      }
      q.post.step = 3;
    }
    const Slot& s = q.slots[q.post.slot];
    Burst b;
    b.bells = {{vi, kind}};
    b.dwords = Doorbell(vi, kind, s.va, regions_[q.region].handle);
    if (Rare(knobs_.hostile)) {  // a burst that continues after the doorbell
      for (uint64_t n = rng_.Range(1, 3); n > 0; n--) {
        b.dwords.push_back({b.dwords.back().addr + 4, rng_.Bits(32), 15});
      }
      b.longer = true;
    }
    // A bridge may reorder dwords of different queues, but not those of one queue.
    Burst* last = bursts_.size() > 1 || (bursts_.size() == 1 && burst_pos_ == 0 && !dword_stands_) ? &bursts_.back() : nullptr;
    if (last && !last->bells.empty() && !std::count(last->bells.begin(), last->bells.end(), b.bells[0]) && rng_.Chance(1, 2)) {
      std::vector<Dword> all;
      for (size_t i = 0, j = 0; i < last->dwords.size() || j < b.dwords.size();) {
        const bool first = j == b.dwords.size() || (i < last->dwords.size() && rng_.Chance(1, 2));
        all.push_back(first ? last->dwords[i++] : b.dwords[j++]);
      }
      last->dwords = all;
      last->longer |= b.longer;
      last->bells.push_back(b.bells[0]);
      Figure("cover_interleaved");
    } else {
      bursts_.push_back(b);
    }
    q.tail = q.post.slot;
    q.post.active = false;
  }

  void Reap(Queue* q) {
    while (!q->finished.empty() && Gate(knobs_.reap_rate)) {
      const int slot = q->finished.front();
      q->finished.pop_front();
      q->slots[slot].in_use = false;
      // The program owns the memory again, so it overwrites it: the card must not use it any more.
      if (regions_[q->region].valid) {
        uint8_t* p = Descriptor(*q, slot, 0, kBytes);
        for (uint32_t i = 0; i < kBytes; i++) p[i] = rng_.Bits(8);
      }
      if (q->tail == slot) q->tail = -1;
      q->free.push_back(slot);
      q->outstanding--;
    }
  }

  static std::vector<Dword> Doorbell(int vi, int kind, uint64_t va, uint32_t handle) {
    const uint32_t at =
        vi * hvia::kDoorbellPageBytes + (kind == kReceive ? hvia::kDoorbellReceive : hvia::kDoorbellSend);
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

  // One broken doorbell. It must not start a fetch or disturb the next good one.
  void Hostile() {
    Burst b;
    int vi = AnyVi(true);
    const uint64_t va = rng_.Next() & ~63ull;
    int queue = rng_.Below(2);
    int kind = rng_.Below(12);
    if (!left_.empty() && rng_.Chance(1, 2)) {  // completes a doorbell that a reset cut off
      vi = left_.back().vi;
      queue = left_.back().kind;
      kind = left_.back().count == 1 ? 2 : 3;
      left_.pop_back();
    }
    b.dwords = Doorbell(vi, queue, va, rng_.Bits(32));
    switch (kind) {
      case 0: b.dwords.resize(1); break;
      case 1: b.dwords.resize(2); break;
      case 2: b.dwords.erase(b.dwords.begin()); break;  // starts at the second dword
      case 3: b.dwords.erase(b.dwords.begin(), b.dwords.begin() + 2); break;
      case 4: std::swap(b.dwords[rng_.Below(2)], b.dwords[2]); break;
      case 5: b.dwords[rng_.Below(3)].enables = rng_.Below(15); break;
      case 6: b.dwords[0].data |= rng_.Range(1, 63); break;  // misaligned
      case 7: b.enable = false; break;
      case 8:  // an unused VI
        vi = AnyVi(false);
        if (vi < 0) return;
        b.dwords = Doorbell(vi, queue, va, rng_.Bits(32));
        break;
      case 9: {  // elsewhere in the page; going from one doorbell to the other would be valid
        uint32_t by = 4u << rng_.Below(9);
        if (by == hvia::kDoorbellReceive - hvia::kDoorbellSend) by = 4;
        for (auto& d : b.dwords) d.addr += by;
        break;
      }
      case 10:  // the page of another VI in the middle
        b.dwords[rng_.Range(1, 2)].addr ^= hvia::kDoorbellPageBytes << rng_.Below(VI_COUNT_LOG2);
        break;
      case 11:  // started for one queue and finished for the other
        for (size_t i = rng_.Range(1, 2); i < b.dwords.size(); i++) {
          b.dwords[i].addr ^= hvia::kDoorbellReceive ^ hvia::kDoorbellSend;
        }
        break;
    }
    static const char* const names[] = {"one_dword", "two_dwords", "from_second", "from_third", "swapped", "enables",
                                        "misaligned", "disabled", "free_vi", "offset", "foreign_page", "mixed"};
    // With the dwords that the queues already have, it may form a good doorbell. Nobody posted that
    // one, so drop it.
    auto planned = partial_;
    auto commits = [&](const Dword& d) {
      Commit bell{};
      return Take(&planned, d, &bell) == kThird && bell.va % hvia::kDescriptorAlignment == 0 && vis_[bell.vi].used;
    };
    for (size_t n = 0; n < bursts_.size(); n++) {
      for (size_t i = n == 0 ? burst_pos_ : 0; i < bursts_[n].dwords.size(); i++) commits(bursts_[n].dwords[i]);
    }
    for (const auto& d : b.dwords) {
      if (commits(d) && b.enable) return;
    }
    Figure(std::string("cover_hostile_") + names[kind]);
    bursts_.push_back(b);
  }

  enum Taken { kNone, kBegun, kStartedOver, kSecond, kThird, kMalformed };

  // The effect of a dword on the queues.
  template <class Partials, class Bell>
  static Taken Take(Partials* partials, const Dword& d, Bell* bell) {
    const uint32_t page = d.addr >> 12, offset = d.addr & 0xfff;
    const int kind = offset >= hvia::kDoorbellReceive ? kReceive : kSend;
    const uint32_t by = offset - (kind == kReceive ? hvia::kDoorbellReceive : hvia::kDoorbellSend);
    if (by >= 4 * hvia::kDoorbellDwords) return kMalformed;
    Partial& p = (*partials)[kind][page];
    const uint32_t had = p.count;
    p.count = 0;
    if (d.enables != 15 || (by != 0 && by != 4 * had)) return kMalformed;
    bell->vi = page;
    bell->kind = kind;
    if (by == 8) {
      bell->va = p.low | static_cast<uint64_t>(p.high) << 32;
      bell->handle = d.data;
      return kThird;
    }
    (by == 0 ? p.low : p.high) = d.data;
    p.count = by / 4 + 1;
    return by == 4 ? kSecond : had != 0 ? kStartedOver : kBegun;
  }

  // A VI is taken into use or released.
  void Forget(int vi) {
    forget_ = vi;
    for (int kind : {kSend, kReceive}) {
      if (partial_[kind][vi].count != 0) Figure("cover_partial_forgotten");
    }
  }

  // --- Manager: reset and disconnection of a VI, loss of a region --------------------------------

  // The last stage that a VI's work has reached in the card.
  enum Held { kIdle, kListed, kOffered, kTranslate, kRead, kWaits, kLinkOwed, kStored, kInJob, kHelds };

  enum What { kReset, kHandle, kDisconnect };
  enum Step { kNothing, kBegin, kBeforeClear, kClear, kDrain, kSearch, kSearching, kRebuild };

  struct Manager {
    int step = kNothing;
    What what = kReset;
    int vi = 0;
    int kind = 0;  // of the queue whose memory is withdrawn
    uint32_t handle = 0;
    bool searched = false;
    bool late = false;   // one of its doorbells must be in flight
    bool spare = false;  // no message comes for a descriptor on the chip meanwhile
    Held target = kIdle;
    int wait = 0;
    int silent = 0;
    uint64_t since = 0;
  };

  Held WhatHolds(int vi) const {
    if (link_ && link_->vi == vi) return kLinkOwed;
    if (job_.step != kRxNone && job_.vi == vi) return kInJob;
    if (wait_ && wait_->vi == vi) return kWaits;
    if (cur_.vi == vi && cur_.phase >= Phase::kRequest) return kRead;
    if (cur_.vi == vi && cur_.phase != Phase::kNone) return kTranslate;
    for (const auto& o : offers_) {
      if (o && o->vi == vi) return kOffered;
    }
    if (vis_[vi].place.valid) return kStored;
    return vis_[vi].queues[kSend].queue.empty() && vis_[vi].queues[kReceive].queue.empty() ? kIdle : kListed;
  }

  // The card holds nothing of the VI.
  bool Empty(int vi) const {
    const Vi& v = vis_[vi];
    for (int kind : {kSend, kReceive}) {
      if (!v.queues[kind].queue.empty() || (offers_[kind] && offers_[kind]->vi == vi)) return false;
    }
    return !v.place.valid && !(cur_.phase != Phase::kNone && cur_.vi == vi) && !(link_ && link_->vi == vi) &&
           !(release_ && *release_ == vi) && !(wait_ && wait_->vi == vi) && !(write_ && write_->job.vi == vi) &&
           !(job_.step != kRxNone && job_.vi == vi);
  }

  bool Quiescent(int vi) const {
    if (!Empty(vi) || (commit_ && commit_->vi == vi) || vis_[vi].held) return false;
    for (const Queue& q : vis_[vi].queues) {
      if (q.post.active) return false;
    }
    for (const auto& t : transmit_) {
      if (t.cpl.vi == vi) return false;
    }
    for (const auto& b : bursts_) {
      if (b.Rings(vi)) return false;
    }
    return true;
  }

  void GiveBack(int region) {
    if (!regions_[region].given_back) {
      for (uint32_t pa : regions_[region].pages) memory_->GiveBack(pa);
    }
    regions_[region].given_back = true;
    regions_[region].valid = false;
  }

  bool Flushing() const { return manager_.step == kDrain && manager_.what == kDisconnect; }

  // Runs before the clock. The busy outputs are those of the clock before, in which the inputs
  // already had the drained number.
  void ManagerStep() {
    Manager& m = manager_;
    switch (m.step) {
      case kNothing:
        if (held_ || !Rare(knobs_.manager)) return;
        m = Manager{};
        m.what = static_cast<What>(rng_.Below(3));
        m.vi = used_[rng_.Below(used_.size())];
        for (int i = 0; i < 16 && m.what == kHandle && !vis_[m.vi].place.valid; i++) {
          m.vi = used_[rng_.Below(used_.size())];
        }
        if (vis_[m.vi].paused) return;
        // Prefer the memory of a descriptor that waits for a message.
        m.kind = vis_[m.vi].place.valid && rng_.Chance(3, 4) ? kReceive : rng_.Below(2);
        m.spare = rng_.Chance(1, 2);
        m.late = m.what == kReset && rng_.Chance(1, 2);
        m.step = kBegin;
        m.since = unit::clocks();
        m.target = static_cast<Held>(rng_.Below(kHelds));
        m.wait = rng_.Below(m.target == kWaits || m.target == kLinkOwed || m.target == kInJob ? 2000 : 400);
        if (m.what == kHandle) vis_[m.vi].paused = true;
        return;
      case kBegin: {
        if (m.what == kHandle) {
          Vi& v = vis_[m.vi];
          if (v.queues[m.kind].post.active) return;
          m.handle = regions_[v.queues[m.kind].region].handle;
          regions_[v.queues[m.kind].region].valid = false;
          m.silent = -1;
          m.step = kDrain;
          return;
        }
        // Aims at a VI whose doorbell is in flight, or in one phase of its work. After a while it
        // takes any VI.
        if (m.late && m.wait-- > 0) {
          if (!commit_ || vis_[commit_->vi].paused) return;
          m.vi = commit_->vi;
        } else if (m.wait-- > 0) {
          bool found = false;
          for (size_t i = 0; i < used_.size() && i < 24 && !found; i++) {
            found = !vis_[used_[i]].paused && WhatHolds(used_[i]) == m.target;
            if (found) m.vi = used_[i];
          }
          if (!found) return;
        }
        static const char* const names[] = {"idle", "listed", "offered", "translate", "read", "waits", "link_owed",
                                            "stored", "in_job"};
        Vi& v = vis_[m.vi];
        v.paused = true;
        if (m.what == kReset) {
          v.context[0] |= hvia::kVIStateFree;
          Forget(m.vi);
          for (Queue& q : v.queues) q.post.active = false;
          m.wait = rng_.Chance(1, 2) ? 0 : rng_.Below(6);
          m.step = kBeforeClear;
        } else {
          v.context[0] = (v.context[0] & ~hvia::kVIContextAttributesStateMask) | hvia::kVIStateError;
          Figure(std::string("cover_disconnect_") + names[WhatHolds(m.vi)]);
          m.silent = -1;
          m.step = kDrain;
        }
        return;
      }
      case kBeforeClear:
        if (m.wait-- > 0) return;
        m.step = kClear;  // Drive offers the clear, Check advances
        return;
      case kDrain: {
        // The first clock of the drain only applies the number to the inputs.
        const bool busy = m.what == kHandle ? handle_busy_ : vi_busy_;
        m.silent = m.silent < 0 ? 0 : busy ? 0 : m.silent + 1;
        CHECK(unit::clocks() - m.since < kPatience, "draining %s of VI %d does not end: %s",
              m.what == kHandle ? "a handle" : "all", m.vi, Describe().c_str());
        if (m.silent < 2) return;
        Vi& v = vis_[m.vi];
        switch (m.what) {
          case kReset:
            CHECK(Empty(m.vi), "VI %d counts as drained with work in the card", m.vi);
            Figure("cover_vi_reset");
            // After this, Memory reports an access to the region.
            for (Queue& q : v.queues) GiveBack(q.region);
            m.step = kRebuild;
            break;
          case kDisconnect:
            CHECK(Empty(m.vi), "VI %d counts as flushed with work in the card", m.vi);
            Figure("cover_disconnected");
            v.context[0] = (v.context[0] & ~hvia::kVIContextAttributesStateMask) |
                           (rng_.Chance(1, 4) ? hvia::kVIStateIdle : hvia::kVIStateConnected);
            v.paused = false;
            m.step = kNothing;
            break;
          case kHandle:
            CHECK(!(cur_.phase > Phase::kWalk && cur_.handle == m.handle) &&
                      !(write_ && write_->job.handle == m.handle) &&
                      !(wait_ && !wait_->unreachable && wait_->handle == m.handle),
                  "handle %08x counts as drained with an access in the card", m.handle);
            if (!m.searched) {
              m.searched = true;
              m.step = kSearch;
              break;
            }
            for (int vi : used_) {
              const Place& p = vis_[vi].place;
              CHECK(!p.valid || p.handle != m.handle || p.stale, "VI %d waits with the dead handle %08x", vi, m.handle);
            }
            Figure("cover_handle_drained");
            GiveBack(v.queues[m.kind].region);
            m.step = kRebuild;
            break;
        }
        return;
      }
      case kSearch:
        m.step = kSearching;  // the pulse was in the clock before
        return;
      case kSearching:
        if (dut_.stale_busy_o) return;
        m.silent = -1;
        m.step = kDrain;
        return;
      case kRebuild:
        if (!Quiescent(m.vi)) return;
        for (Queue& q : vis_[m.vi].queues) GiveBack(q.region);
        Rebuild(m.vi, 48);
        Forget(m.vi);
        m.step = kNothing;
        return;
    }
  }

  // --- Engines -----------------------------------------------------------------------------------

  // A request of the receive or transmit engine for 64 bytes of a descriptor.
  struct Chunk {
    bool want = false, open = false;
    bool store = true;  // of the receive descriptor on the chip, not of a read's descriptor
    int vi = 0;
    uint64_t va = 0;
    uint32_t handle = 0;
  };

  Chunk MakeChunk(int vi, uint64_t va, uint32_t handle) {
    Chunk c;
    c.want = true;
    c.vi = vi;
    c.va = va + rng_.Range(1, 3) * kBytes;
    c.handle = handle;
    if (rng_.Chance(1, 16)) c.handle ^= 1u << rng_.Below(32);
    return c;
  }

  // The receive engine works on one stored descriptor at a time: further chunks, completion, drop,
  // release.
  enum RxStep { kRxNone, kRxBegin, kRxChunk, kRxComplete, kRxDrop, kRxRelease };
  struct Job {
    RxStep step = kRxNone;
    int vi = 0;
    int chunks = 0;
    bool flush = false;
    bool forget = false;  // its VI was reset: nothing is written
    Completion cpl{};
  };

  // A receive descriptor of the VI is in the card, or in flight to it.
  bool Receives(int vi) const {
    const Vi& v = vis_[vi];
    return v.place.valid || !v.queues[kReceive].queue.empty() || (offers_[kReceive] && offers_[kReceive]->vi == vi) ||
           (commit_ && commit_->kind == kReceive && commit_->vi == vi) ||
           (cur_.phase != Phase::kNone && cur_.work == kReceiveHead && cur_.vi == vi);
  }

  void RxStepDrive() {
    Job& j = job_;
    if (j.step == kRxNone) {
      const bool flush = Flushing() && vis_[manager_.vi].place.valid && wanted_vi_ < 0;
      if (wanted_vi_ >= 0) {
        // The message waits for the descriptor until none can come any more.
        if (vis_[wanted_vi_].place.valid && vis_[wanted_vi_].State() != hvia::kVIStateFree) {
          Figure("cover_wanted");
        } else if (!Receives(wanted_vi_) || vis_[wanted_vi_].State() == hvia::kVIStateFree) {
          Figure(vis_[wanted_vi_].State() == hvia::kVIStateFree ? "cover_wanted_by_a_reset_vi" : "cover_wanted_in_vain");
          wanted_vi_ = -1;
          return;
        } else {
          return;
        }
      }
      if (lull_ > 0) lull_--;
      else if (Rare(knobs_.lull)) lull_ = rng_.Below(1000);
      if (!flush && wanted_vi_ < 0 && (rx_hold_ || (lull_ > 0 && !held_) || !Gate(knobs_.rx_rate))) return;
      const int vi = wanted_vi_ >= 0 ? wanted_vi_ : flush ? manager_.vi : used_[rng_.Below(used_.size())];
      const Place& p = vis_[vi].place;
      if (!p.valid) {
        if (on_arrival_ && vis_[vi].State() != hvia::kVIStateFree && (Receives(vi) || rng_.Chance(1, 64))) wanted_vi_ = vi;
        return;
      }
      if (wanted_vi_ >= 0) wanted_vi_ = -1;
      else if (!flush && manager_.spare && manager_.vi == vi && manager_.step != kNothing && manager_.step != kRebuild) return;
      j = Job{};
      j.step = kRxBegin;
      j.vi = vi;
      j.flush = flush;
      j.chunks = !flush && Rare(knobs_.chunk) ? rng_.Range(1, 3) : 0;
      Completion& c = j.cpl;
      c.vi = vi;
      c.kind = kReceive;
      c.slot = p.slot;
      c.seq = p.seq;
      c.pa = p.pa;
      c.handle = p.handle;
      c.length = rng_.Bits(32);
      c.status = hvia::kDescriptorStatusDoneMask | p.status |
                 hvia::kStatusOperationReceive << hvia::kDescriptorStatusOperationLsb;
      if (flush) c.status |= hvia::kDescriptorStatusFlushedMask;
      else if (rng_.Chance(1, 8)) c.status |= 1u << rng_.Range(1, 8);
      c.immediate = rng_.Bits(32);
      c.has_immediate = rng_.Chance(1, 2);
      c.write = !p.stale;
      if (p.stale) Figure("cover_stale_completion");
      return;
    }
    if (j.step == kRxBegin) {
      if (j.forget) {
        j.step = rng_.Chance(1, 2) ? kRxDrop : kRxRelease;
      } else if (j.chunks > 0) {
        if (!Gate(knobs_.rx_rate)) return;
        chunks_[0] = MakeChunk(j.vi, vis_[j.vi].place.va, j.cpl.handle);
        chunks_[0].store = rng_.Chance(3, 4);
        j.chunks--;
        j.step = kRxChunk;
      } else if (Gate(knobs_.cpl_rate)) {
        j.step = kRxComplete;
      }
    }
  }

  void TxStepDrive() {
    if (transmit_.empty() || tx_cpl_ || chunks_[1].want || chunks_[1].open || !Gate(knobs_.cpl_rate)) return;
    Transmit& t = transmit_.front();
    if (t.unreachable) {
      // The engine reports the descriptor. All earlier ones must be complete.
      const Queue& q = vis_[t.cpl.vi].queues[kSend];
      CHECK(!q.follow || (!q.taken.empty() && q.taken.front() == t.cpl.seq),
            "VI %d: the descriptor %u that could not be reached comes before %d", t.cpl.vi, t.cpl.seq,
            q.taken.empty() ? -1 : q.taken.front());
      Lost(t.cpl.vi, kSend, t.cpl.seq);
      transmit_.pop_front();
      progress_ = unit::clocks();
    } else if (t.chunks > 0) {
      t.chunks--;
      chunks_[1] = MakeChunk(t.cpl.vi, t.va, t.cpl.handle);
    } else {
      tx_cpl_ = true;
    }
  }

  // The ledger holds a send queue for a time, and reports the release after the bit has fallen. It
  // releases the queue of a VI that the manager takes down, and all queues when holds are off.
  void LedgerStep() {
    if (knobs_.hold != 0 && Rare(knobs_.hold)) {
      const int vi = used_[rng_.Below(used_.size())];
      if (vis_[vi].State() != hvia::kVIStateFree && !(manager_.step != kNothing && manager_.vi == vi)) vis_[vi].hold = true;
    }
    for (int vi : used_) {
      Vi& v = vis_[vi];
      const bool leaves = v.State() == hvia::kVIStateFree || (manager_.step != kNothing && manager_.vi == vi) || knobs_.hold == 0;
      if (!v.hold || !rng_.Chance(1, leaves ? 16 : 128)) continue;
      v.hold = false;
      unhold_.push_back(vi);
    }
  }

  // --- Inputs ------------------------------------------------------------------------------------

  void Drive() {
    if (dut_.rst_ni) {
      if (Gate(knobs_.host_rate) && walk_ == 0) HostStep();
      if (!held_ && bursts_.size() < 4 && Rare(knobs_.hostile)) Hostile();
      ManagerStep();
      RxStepDrive();
      TxStepDrive();
      LedgerStep();
      if (Rare(knobs_.context_flip)) {
        const int vi = used_[rng_.Below(used_.size())];
        Vi& v = vis_[vi];
        if (v.State() != hvia::kVIStateFree && !(Flushing() && vi == manager_.vi)) {
          static const uint32_t states[] = {hvia::kVIStateConnected, hvia::kVIStateConnected, hvia::kVIStateIdle,
                                            hvia::kVIStateConnectPending, hvia::kVIStateError};
          v.context[0] = (v.context[0] & ~7u) | states[rng_.Below(5)];
          const uint32_t tag = regions_[v.queues[0].region].tag ^ (rng_.Chance(1, 8) ? 1u << rng_.Below(16) : 0);
          v.context[0] = (v.context[0] & 0xffffu) | tag << hvia::kVIContextAttributesTagLsb;
        }
      }
    }
    // The port's C++ type depends on the number of VIs.
    uint8_t live[kVis / 8] = {}, held[kVis / 8] = {};
    for (int vi : used_) {
      if (vis_[vi].hold) held[vi / 8] |= 1u << vi % 8;
      if (vis_[vi].State() != hvia::kVIStateFree) live[vi / 8] |= 1u << vi % 8;
    }
    std::memcpy(&dut_.send_hold_i, held, sizeof held);
    std::memcpy(&dut_.live_i, live, sizeof live);
    dut_.commit_gate_i = Gate(knobs_.commit_gate);
    dut_.take_gate_i = Gate(knobs_.take_gate);
    dut_.link_gate_i = Gate(knobs_.link_gate);
    dut_.release_gate_i = Gate(knobs_.release_gate);
    dut_.flushed_gate_i = Gate(knobs_.flushed_gate);

    dut_.forget_valid_i = forget_ >= 0;
    dut_.forget_vi_i = forget_ >= 0 ? forget_ : static_cast<int>(rng_.Bits(VI_COUNT_LOG2));
    // Target port: a dword stays until it is taken.
    dut_.enable_i = bursts_.empty() || bursts_.front().enable;
    if (!dword_stands_) {
      dut_.db_wvalid_i = 0;
      dut_.db_waddr_i = rng_.Bits(20);
      dut_.db_wdata_i = rng_.Bits(32);
      dut_.db_wbe_i = 15;
      if (dut_.rst_ni && !bursts_.empty() && Gate(knobs_.dword_rate)) {
        const Dword& d = bursts_.front().dwords[burst_pos_];
        dut_.db_wvalid_i = 1;
        dut_.db_waddr_i = d.addr;
        dut_.db_wdata_i = d.data;
        dut_.db_wbe_i = d.enables;
      }
    }

    unhold_stands_ = dut_.rst_ni && !unhold_.empty() && (unhold_stands_ || Gate(8));
    dut_.unhold_valid_i = unhold_stands_;
    dut_.unhold_vi_i = unhold_stands_ ? unhold_.front() : rng_.Bits(VI_COUNT_LOG2);
    dut_.clear_valid_i = dut_.rst_ni && manager_.step == kClear;
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
    // Often in the clock in which a receive descriptor is ready for the store.
    if (wait_ && cur_.phase >= Phase::kRequest && cur_.work == kReceiveHead && rng_.Chance(3, 4)) {
      dut_.desc_ready_i = cur_.phase == Phase::kParsed && transmit_.size() < knobs_.transmit_depth;
    }

    // Chunks of the engines. Unused fields are random.
    Chunk r = chunks_[0], t = chunks_[1];
    for (Chunk* c : {&r, &t}) {
      if (c->want) continue;
      c->vi = rng_.Bits(VI_COUNT_LOG2);
      c->va = rng_.Next();
      c->handle = rng_.Bits(32);
      c->store = rng_.Bits(1);
    }
    dut_.rxc_valid_i = r.want;
    dut_.rxc_store_i = r.store;
    dut_.rxc_vi_i = r.vi;
    dut_.rxc_va_i = r.va;
    dut_.rxc_handle_i = r.handle;
    dut_.txc_valid_i = t.want;
    dut_.txc_vi_i = t.vi;
    dut_.txc_va_i = t.va;
    dut_.txc_handle_i = t.handle;

    // Completions: 0 receive engine, 1 transmit engine.
    const Completion* offered[2] = {job_.step == kRxComplete ? &job_.cpl : nullptr,
                                    tx_cpl_ ? &transmit_.front().cpl : nullptr};
    dut_.cpl_valid_i = dut_.cpl_vi_i = dut_.cpl_seq_i = 0;
    dut_.cpl_pa_i = dut_.cpl_handle_i = dut_.cpl_length_i = dut_.cpl_status_i = dut_.cpl_immediate_i = 0;
    dut_.cpl_has_immediate_i = dut_.cpl_receive_i = dut_.cpl_write_i = 0;
    for (int n = 0; n < 2; n++) {
      const Completion any{static_cast<int>(rng_.Bits(VI_COUNT_LOG2)), static_cast<int>(rng_.Bits(1)), -1,
                           static_cast<uint16_t>(rng_.Bits(16)), rng_.Bits(32), rng_.Bits(32), rng_.Bits(32),
                           rng_.Bits(32), rng_.Bits(32), rng_.Bits(1) != 0, rng_.Bits(1) != 0};
      const Completion& c = offered[n] ? *offered[n] : any;
      if (offered[n]) dut_.cpl_valid_i |= 1u << n;
      dut_.cpl_vi_i |= c.vi << VI_COUNT_LOG2 * n;
      dut_.cpl_seq_i |= static_cast<uint32_t>(c.seq) << 16 * n;
      dut_.cpl_pa_i |= static_cast<uint64_t>(c.pa) << 32 * n;
      dut_.cpl_handle_i |= static_cast<uint64_t>(c.handle) << 32 * n;
      dut_.cpl_length_i |= static_cast<uint64_t>(c.length) << 32 * n;
      dut_.cpl_status_i |= static_cast<uint64_t>(c.status) << 32 * n;
      dut_.cpl_immediate_i |= static_cast<uint64_t>(c.immediate) << 32 * n;
      dut_.cpl_has_immediate_i |= static_cast<unsigned>(c.has_immediate) << n;
      dut_.cpl_receive_i |= static_cast<unsigned>(c.kind == kReceive) << n;
      dut_.cpl_write_i |= static_cast<unsigned>(c.write) << n;
    }

    // The receive engine's other ports.
    dut_.drop_valid_i = job_.step == kRxDrop;
    dut_.drop_vi_i = job_.step == kRxDrop ? job_.vi : rng_.Bits(VI_COUNT_LOG2);
    dut_.rx_release_valid_i = job_.step == kRxRelease;
    dut_.rx_release_vi_i = job_.step == kRxRelease ? job_.vi : rng_.Bits(VI_COUNT_LOG2);
    dut_.stale_start_i = manager_.step == kSearch;
    if (!frozen_) {
      // Often reads the VI that the engine works on or waits for.
      if (rng_.Chance(1, 2)) dut_.rs_vi_i = rng_.Chance(1, 8) ? rng_.Bits(VI_COUNT_LOG2) : AnyVi(true);
      if (rng_.Chance(1, 8) && cur_.phase != Phase::kNone) dut_.rs_vi_i = cur_.vi;
      dut_.coming_vi_i = rng_.Chance(1, 8) ? rng_.Bits(VI_COUNT_LOG2) : dut_.rs_vi_i;
      if (wanted_vi_ >= 0) dut_.rs_vi_i = dut_.coming_vi_i = wanted_vi_;
    }
    dut_.on_arrival_i = on_arrival_;
    // Otherwise `wanted_i` only sets the bus priority. A hash of the clock, because a random draw
    // would change all later ones.
    dut_.wanted_i = on_arrival_ ? wanted_vi_ >= 0 : unit::clocks() * 0x9e3779b97f4a7c15ull >> 61 == 0;

    dut_.wr_req_ready_i = Gate(knobs_.write_ready);
    const bool data_now = write_ && (write_->granted || (knobs_.data_with_request && dut_.wr_req_ready_i));
    dut_.wready_i = data_now && Gate(knobs_.write_beat);
    dut_.wdone_i = 0;
    dut_.werr_i = rng_.Bits(1);
    if (write_ && write_->granted && write_->sent == write_->Bytes() && write_->wait-- == 0) {
      dut_.wdone_i = 1;
      dut_.werr_i = write_->failed;
    }

    // Draining: the manager's number stays, otherwise any.
    const bool drains = manager_.step == kDrain || manager_.step == kSearch || manager_.step == kSearching;
    // A queue that is fetched on arrival is also fetched by a flush.
    dut_.drain_receive_i = drains ? Flushing() : !on_arrival_ && rng_.Bits(1);
    dut_.drain_vi_i = drains && manager_.what != kHandle ? manager_.vi : rng_.Chance(1, 4) ? rng_.Bits(VI_COUNT_LOG2) : AnyVi(true);
    if (drains && manager_.what == kHandle) {
      dut_.drain_handle_i = manager_.handle;
    } else {
      dut_.drain_handle_i = regions_[vis_[AnyVi(true)].queues[rng_.Below(2)].region].handle;
      if (cur_.phase != Phase::kNone && rng_.Chance(1, 2)) dut_.drain_handle_i = cur_.handle;
      if (wait_ && rng_.Chance(1, 4)) dut_.drain_handle_i = wait_->handle;
    }
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

  // --- The model ---------------------------------------------------------------------------------

  void Touch(int vi) {
    vis_[vi].active_clock = unit::clocks();
    progress_ = unit::clocks();
  }

  // A finished descriptor returns to its thread.
  void Finished(int vi, int kind, int slot) {
    if (slot < 0) return;
    vis_[vi].queues[kind].finished.push_back(slot);
  }

  void Forget(int vi, int kind) {
    Queue& q = vis_[vi].queues[kind];
    for (const Entry& e : q.queue) Finished(vi, kind, e.slot);
    q.queue.clear();
  }

  // A descriptor that was taken and cannot be reached ends without a completion.
  void Lost(int vi, int kind, uint16_t seq) {
    auto& taken = vis_[vi].queues[kind].taken;
    taken.erase(std::remove(taken.begin(), taken.end(), seq), taken.end());
  }

  // All other taken descriptors end in order.
  void Ended(int vi, int kind, uint16_t seq) {
    Queue& q = vis_[vi].queues[kind];
    if (!q.follow) return;
    CHECK(!q.taken.empty() && q.taken.front() == seq, "VI %d: descriptor %u of the %s queue ends before %d", vi, seq,
          kQueueNames[kind], q.taken.empty() ? -1 : q.taken.front());
    q.taken.pop_front();
  }

  void Ready(int vi, int kind) {
    bool stands = false;
    for (auto& l : ready_[kind]) {
      if (l.vi == vi) l.maybe = stands = true;
    }
    ready_[kind].push_back({vi, stands});
  }

  void CheckDoorbell() {
    bool good = false, malformed = false, async = false;
    const bool taken = dut_.db_wvalid_i && dut_.db_wready_o, forgets = forget_ >= 0;
    const Dword now{dut_.db_waddr_i, dut_.db_wdata_i, dut_.db_wbe_i};
    Commit bell{};
    // The second or third dword of another queue than the last one waits two clocks for the RAM.
    bool waits = false;
    if (dut_.db_wvalid_i && walk_ == 0) {
      auto copy = std::make_unique<Partials>(partial_);
      const Taken what = Take(copy.get(), {now.addr & ~12u, 0, 15}, &bell);
      const bool other = bell.vi != last_vi_ || bell.kind != last_kind_;
      if (what != kMalformed && now.enables == 15 && (now.addr & 12) != 0 && (now.addr & 12) != 12 && other) {
        waits = true;
        if (!forgets && std::exchange(loading_, !loading_)) {
          last_vi_ = bell.vi;
          last_kind_ = bell.kind;
          Figure("cover_loaded");
        }
      }
    }
    if (forgets) {
      waits = true;
      loading_ = false;
      for (auto& p : partial_) p[forget_].count = 0;
      forget_ = -1;
    }
    CHECK(!(waits && dut_.db_wvalid_i && dut_.db_wready_o), "a dword at %05x is taken before the RAM was read", now.addr);
    bool over = false;
    if (taken) {
      const Taken what = walk_ != 0 ? kMalformed : Take(&partial_, now, &bell);
      malformed = what == kMalformed;
      over = what == kStartedOver;
      if (what != kMalformed) {
        last_vi_ = bell.vi;
        last_kind_ = bell.kind;
      }
      if (what == kThird) {
        const bool allowed = dut_.enable_i && vis_[bell.vi].State() != hvia::kVIStateFree;
        const bool aligned = bell.va % hvia::kDescriptorAlignment == 0;
        good = allowed && aligned;
        malformed = !good;
        async = allowed && !aligned;
      }
      if (malformed) Figure("malformed");
      if (over) Figure("cover_started_over");
      if (++burst_pos_ == bursts_.front().dwords.size()) {
        burst_pos_ = 0;
        if (bursts_.front().longer) Figure("cover_long_burst");
        bursts_.pop_front();
      }
      dword_stands_ = false;
      progress_ = unit::clocks();
    } else {
      dword_stands_ = dut_.db_wvalid_i;
    }
    // A restarted doorbell is counted in the next clock without another malformed one.
    uncounted_ += malformed + started_over_;
    started_over_ = over;
    const bool counted = uncounted_ != 0;
    uncounted_ -= counted;
    if (walk_ != 0) walk_--;
    CHECK(dut_.stat_doorbell_send_o == (good && bell.kind == kSend), "stat_doorbell_send is %d, page %u",
          dut_.stat_doorbell_send_o, dut_.db_waddr_i >> 12);
    CHECK(dut_.stat_doorbell_receive_o == (good && bell.kind == kReceive), "stat_doorbell_receive is %d, page %u",
          dut_.stat_doorbell_receive_o, dut_.db_waddr_i >> 12);
    CHECK(dut_.stat_doorbell_malformed_o == counted, "stat_doorbell_malformed is %d, dword at %05x",
          dut_.stat_doorbell_malformed_o, dut_.db_waddr_i);
    CHECK(dut_.doorbell_async_valid_o == async, "doorbell asynchronous error is %d", dut_.doorbell_async_valid_o);
    if (async) {
      CHECK(dut_.doorbell_async_code_o == hvia::kAsyncErrorPostDescriptor && dut_.doorbell_async_vi_o == bell.vi,
            "doorbell asynchronous error %u of VI %u, want VI %d", dut_.doorbell_async_code_o,
            dut_.doorbell_async_vi_o, bell.vi);
      Figure(std::string("cover_misaligned_doorbell_") + kQueueNames[bell.kind]);
    }
    CheckTrace(0, good && bell.kind == kSend, hvia::kTraceEventDoorbellCommitted, bell.vi, 0);

    // The commit register.
    CHECK(dut_.commit_valid_o == commit_.has_value(), "commit valid is %d", dut_.commit_valid_o);
    if (commit_) {
      CHECK(dut_.commit_vi_o == commit_->vi && dut_.commit_receive_o == (commit_->kind == kReceive) &&
                dut_.commit_va_o == commit_->va && dut_.commit_handle_o == commit_->handle,
            "commit of VI %u, queue %u, %016" PRIx64 ", %08x, want VI %d, queue %d, %016" PRIx64 ", %08x",
            dut_.commit_vi_o, dut_.commit_receive_o, static_cast<uint64_t>(dut_.commit_va_o), dut_.commit_handle_o,
            commit_->vi, commit_->kind, commit_->va, commit_->handle);
    }
    if ((!commit_ || dut_.commit_fire_o) && !waits) {
      CHECK(!dut_.db_wvalid_i || dut_.db_wready_o, "the target port stalls without a reason");
    }
    if (dut_.commit_fire_o) {
      CheckCommit(*commit_);
      commit_.reset();
    } else {
      CHECK(!dut_.stat_doorbell_overrun_o && !dut_.overrun_valid_o, "an overrun without a commit");
    }
    if (good) {
      Figure("doorbells");
      bell_clock_ = unit::clocks();
      commit_ = bell;
    }
  }

  struct Commit {
    int vi = 0;
    int kind = kSend;
    uint64_t va = 0;
    uint32_t handle = 0;
  };

  int SlotAt(const Queue& q, uint64_t va) {
    for (size_t i = 0; i < q.slots.size(); i++) {
      if (q.slots[i].in_use && q.slots[i].va == va) return static_cast<int>(i);
    }
    return -1;
  }

  void CheckCommit(const Commit& c) {
    Vi& v = vis_[c.vi];
    Queue& q = v.queues[c.kind];
    Touch(c.vi);
    commit_clock_[c.kind][c.vi] = unit::clocks();
    // A receive descriptor on the chip still counts in its queue.
    const size_t count = q.queue.size() + (c.kind == kReceive && v.held);
    const bool overrun = count == depth_;
    CHECK(dut_.stat_doorbell_overrun_o == overrun && dut_.overrun_valid_o == overrun,
          "overrun is %d with %zu descriptors in the %s queue of VI %d", dut_.overrun_valid_o, count,
          kQueueNames[c.kind], c.vi);
    const bool resetting = v.State() == hvia::kVIStateFree;
    const int slot = resetting ? -1 : SlotAt(q, c.va);
    CHECK(resetting || slot >= 0, "commit of %016" PRIx64 " on VI %d, which was not posted", c.va, c.vi);
    if (overrun) {
      CHECK(dut_.overrun_vi_o == c.vi, "overrun of VI %u, want %d", dut_.overrun_vi_o, c.vi);
      Figure("overruns");
      q.drain_first = true;
      Finished(c.vi, c.kind, slot);
      return;
    }
    Entry e;
    e.slot = slot;
    e.any = resetting;
    const bool linked = !q.queue.empty();
    if (linked && slot >= 0) {
      e.va = q.slots[slot].link_va;
      e.handle = q.slots[slot].link_handle;
    } else {
      e.va = c.va;
      e.handle = c.handle;
    }
    q.queue.push_back(e);
    if (c.kind == kReceive && v.held) {
      if (!linked) Figure("cover_posted_behind_the_last");
    } else if (!linked && ByItself(c.vi, c.kind) && !(c.kind == kSend && v.parked)) {
      Ready(c.vi, c.kind);
      if (resetting && on_arrival_ && c.kind == kReceive) Figure("cover_reset_enters_by_itself");
    }
    // Clocks since the descriptor before it was taken.
    const uint64_t since = unit::clocks() - take_clock_[c.kind][c.vi];
    if (!linked && since <= 8) Figure("cover_commit_after_take_" + std::to_string(since));
    Figure("commits");
  }

  // Whether the queue is fetched without a waiting message.
  bool ByItself(int vi, int kind) const {
    return kind == kSend || !on_arrival_ || vis_[vi].State() == hvia::kVIStateFree;
  }

  // A receive queue that is fetched on arrival enters its ready list when it was wanted or flushed
  // in the clock before.
  void CheckWake() {
    if (dut_.wake_o) {
      const int vi = dut_.wake_vi_o;
      Vi& v = vis_[vi];
      CHECK(on_arrival_ && (woken_by_.wanted == vi || woken_by_.flushed == vi),
            "VI %d becomes ready without a wait for its receive descriptor", vi);
      CHECK(!v.queues[kReceive].queue.empty() && !v.held && !v.owed, "VI %d becomes ready without a receive descriptor to fetch", vi);
      Figure(woken_by_.wanted == vi ? "cover_woken_by_a_message" : "cover_woken_by_a_flush");
      Ready(vi, kReceive);
      Touch(vi);
    }
    woken_by_ = {dut_.wanted_i ? static_cast<int>(dut_.coming_vi_i) : -1, dut_.drain_receive_i ? static_cast<int>(dut_.drain_vi_i) : -1};
  }

  // A queue before this one in the ready list is empty, or was reset meanwhile.
  void Turn(int vi, int kind) {
    auto& ready = ready_[kind];
    for (;;) {
      CHECK(!ready.empty(), "VI %d has its turn and its %s queue was not ready", vi, kQueueNames[kind]);
      const Listed l = ready.front();
      ready.pop_front();
      if (l.vi == vi) break;
      CHECK(l.maybe || vis_[l.vi].queues[kind].queue.empty(), "VI %d has its turn before VI %d, which was ready first", vi, l.vi);
    }
    ready.erase(std::remove_if(ready.begin(), ready.end(), [&](const Listed& l) { return l.vi == vi; }), ready.end());
  }

  // A send queue is parked only in its turn while it is held. It enters the list again when the
  // hold ends.
  void CheckHold() {
    if (dut_.park_o) {
      const int vi = dut_.park_vi_o;
      Vi& v = vis_[vi];
      CHECK(v.hold && !v.parked && !v.queues[kSend].queue.empty(), "VI %d is parked: held %d, parked %d, %zu descriptors", vi, v.hold,
            v.parked, v.queues[kSend].queue.size());
      Turn(vi, kSend);
      v.parked = true;
      Figure("cover_parked");
      if (v.State() == hvia::kVIStateError) Figure("cover_parked_in_a_flush");
      Touch(vi);
    }
    CHECK(!(dut_.unhold_ready_o && !dut_.unhold_valid_i), "the end of a hold is taken that is not offered");
    if (dut_.unhold_ready_o) {
      const int vi = dut_.unhold_vi_i;
      Vi& v = vis_[vi];
      if (v.parked && !v.queues[kSend].queue.empty()) {
        Ready(vi, kSend);
        Figure(v.hold ? "cover_held_again" : "cover_unheld");
      }
      if (!v.parked) Figure("cover_unheld_for_nothing");
      v.parked = false;
      unhold_.pop_front();
      unhold_stands_ = false;
      Touch(vi);
    }
    for (int vi : used_) {
      Vi& v = vis_[vi];
      if (v.parked && commit_ && dut_.commit_fire_o && commit_->vi == vi && commit_->kind == kSend) Figure("cover_posted_while_parked");
    }
  }

  void CheckQueue() {
    CheckWake();
    // A new offer: its take was in the clock before.
    for (int kind : {kSend, kReceive}) {
      if (offer_fired_[kind]) offers_[kind].reset();
      offer_fired_[kind] = false;
      const bool valid = dut_.offer_valid_o >> kind & 1;
      CHECK(valid || !offers_[kind], "an offer of a %s queue vanished", kQueueNames[kind]);
      if (!valid || offers_[kind]) continue;
      const int vi = dut_.offer_vi_o >> VI_COUNT_LOG2 * kind & (kVis - 1);
      Vi& v = vis_[vi];
      Queue& q = v.queues[kind];
      Touch(vi);
      CHECK(!q.queue.empty(), "VI %d is offered with an empty %s queue", vi, kQueueNames[kind]);
      Offer o{vi, q.queue.front(), false, q.seq};
      q.queue.pop_front();
      o.more = !q.queue.empty();
      CHECK((dut_.offer_more_o >> kind & 1) == o.more, "VI %d: more is %d with %zu after it in the %s queue", vi,
            dut_.offer_more_o >> kind & 1, q.queue.size(), kQueueNames[kind]);
      if (kind == kReceive) {
        CHECK(!v.held || v.State() == hvia::kVIStateFree, "VI %d: a second receive descriptor is offered", vi);
        v.held = true;
        v.owed = o.more;
      }
      if (q.follow) q.taken.push_back(q.seq);
      q.seq++;
      Turn(vi, kind);
      CHECK(kind == kReceive || !v.was_hold, "VI %d is offered and its send queue was held", vi);
      take_clock_[kind][vi] = unit::clocks() - 1;
      const uint64_t since = take_clock_[kind][vi] - commit_clock_[kind][vi];
      if (o.more && since <= 8) Figure("cover_commit_before_take_" + std::to_string(since));
      offers_[kind] = o;
    }

    CheckHold();
    for (int vi : used_) vis_[vi].was_hold = vis_[vi].hold;

    // The take port: a send descriptor requires space. The two kinds alternate. An offer stays
    // until it is taken.
    const bool send_shows = offers_[kSend] && dut_.send_space_o;
    const bool any = send_shows || offers_[kReceive];
    CHECK(dut_.take_valid_o == any, "take valid is %d with offers %d and %d", dut_.take_valid_o, send_shows,
          offers_[kReceive].has_value());
    if (any) {
      int kind = send_shows ? kSend : kReceive;
      if (take_stands_) kind = take_kind_;
      else if (send_shows && offers_[kReceive]) kind = take_kind_ == kReceive ? kSend : kReceive;
      if (send_shows && offers_[kReceive]) Figure("cover_both_offered");
      const Offer& o = *offers_[kind];
      CHECK(dut_.take_receive_o == (kind == kReceive) && dut_.take_vi_o == o.vi && dut_.take_seq_o == o.seq &&
                dut_.take_more_o == o.more,
            "offered: VI %u, queue %u, sequence %u, want VI %d, queue %d, sequence %u", dut_.take_vi_o,
            dut_.take_receive_o, dut_.take_seq_o, o.vi, kind, o.seq);
      CHECK(o.entry.any || (dut_.take_va_o == o.entry.va && dut_.take_handle_o == o.entry.handle),
            "VI %d: offered %016" PRIx64 " %08x of the %s queue, want %016" PRIx64 " %08x", o.vi,
            static_cast<uint64_t>(dut_.take_va_o), dut_.take_handle_o, kQueueNames[kind], o.entry.va, o.entry.handle);
      take_kind_ = kind;
      take_stands_ = !dut_.take_fire_o;
    }
    if (offers_[kSend] && !dut_.send_space_o && offers_[kReceive] && dut_.take_fire_o) Figure("cover_receive_passes_send");

    // A posted descriptor is announced without interruption until it is in the store.
    {
      const int vi = dut_.coming_vi_i;
      const bool posted = !vis_[vi].queues[kReceive].queue.empty() || (offers_[kReceive] && offers_[kReceive]->vi == vi) ||
                          (commit_ && dut_.commit_shown_o && commit_->kind == kReceive && commit_->vi == vi);
      CHECK(dut_.queue_coming_o == posted, "work_queue: coming of VI %d is %d", vi, dut_.queue_coming_o);
      const bool fetching = cur_.phase != Phase::kNone && cur_.work == kReceiveHead && cur_.vi == vi;
      CHECK(dut_.fetch_coming_o == fetching, "descriptor_fetch: coming of VI %d is %d", vi, dut_.fetch_coming_o);
      // If the receive engine sees no descriptor coming, the store must not show one in the next
      // clock.
      if (watched_ && !watched_->coming && !dut_.rs_valid_o) {
        CHECK(!watched_->there, "VI %d: a receive descriptor was neither coming nor there", watched_->vi);
      }
      watched_.reset();
      if (dut_.rs_vi_i == vi) {
        watched_ = Watched{vi, dut_.queue_coming_o || dut_.fetch_coming_o, posted || fetching || vis_[vi].place.valid};
      }
    }

    if (dut_.clear_valid_i && dut_.clear_ready_o) {
      const int vi = dut_.clear_vi_i;
      static const char* const names[] = {"idle", "listed", "offered", "translate", "read", "waits", "link_owed",
                                          "stored", "in_job"};
      Figure(std::string("cover_clear_") + names[WhatHolds(vi)]);
      Vi& v = vis_[vi];
      for (Queue& q : v.queues) {
        q.queue.clear();
        q.taken.clear();
        q.follow = false;
      }
      // After a clear it is unknown whether the VI is still listed: mark its list entries `maybe`.
      for (auto& list : ready_) {
        for (auto& l : list) l.maybe |= l.vi == vi;
      }
      if (v.parked) Figure("cover_clear_parked");
      v.held = v.owed = v.parked = false;
      v.place.valid = false;
      if (job_.step != kRxNone && job_.vi == vi) job_.forget = true;
      Touch(vi);
      manager_.step = kDrain;
      manager_.silent = -1;
    }

    // Links.
    CHECK(dut_.link_valid_o == link_.has_value(), "link valid is %d", dut_.link_valid_o);
    if (link_) {
      CHECK(dut_.link_vi_o == link_->vi && dut_.link_bad_o == link_->bad &&
                dut_.link_receive_o == (link_->kind == kReceive),
            "link of VI %u, queue %u, bad %d, want %d, %d, %d", dut_.link_vi_o, dut_.link_receive_o, dut_.link_bad_o,
            link_->vi, link_->kind, link_->bad);
      CHECK(link_->bad || (dut_.link_va_o == link_->va && dut_.link_handle_o == link_->handle),
            "VI %d: link %016" PRIx64 " is not what memory held", link_->vi, static_cast<uint64_t>(dut_.link_va_o));
    }
    if (dut_.link_fire_o) {
      Vi& v = vis_[link_->vi];
      Queue& q = v.queues[link_->kind];
      Touch(link_->vi);
      if (link_->kind == kReceive) v.owed = false;
      if (!q.queue.empty()) {
        if (link_->bad) {
          Figure(std::string("cover_queue_forgotten_") + kQueueNames[link_->kind]);
          Forget(link_->vi, link_->kind);
        } else {
          if (v.State() == hvia::kVIStateFree) {
            q.queue.front().any = true;
          } else {
            const Entry& e = q.queue.front();
            CHECK(e.va == link_->va && e.handle == link_->handle,
                  "VI %d: the card read the link %016" PRIx64 " %08x before it was written", link_->vi, link_->va,
                  link_->handle);
          }
          if ((link_->kind == kSend || !v.held) && ByItself(link_->vi, link_->kind) && !(link_->kind == kSend && v.parked)) Ready(link_->vi, link_->kind);
        }
      }
      link_.reset();
    }

    // Releases: 0 receive engine, 1 fetch.
    CHECK(dut_.release_valid_o == release_.has_value(), "release valid is %d", dut_.release_valid_o);
    CHECK(!release_ || dut_.release_vi_o == *release_, "release of VI %u", dut_.release_vi_o);
    const bool rx_fire = dut_.rx_release_valid_i && dut_.rx_release_ready_o;
    CHECK(!(rx_fire && dut_.release_fire_o), "two releases in a clock");
    if (rx_fire) {
      Released(job_.vi);
      job_.step = kRxNone;
    }
    if (dut_.release_fire_o) {
      Released(*release_);
      release_.reset();
    }
  }

  void Released(int vi) {
    Vi& v = vis_[vi];
    Touch(vi);
    v.held = false;
    if (v.queues[kReceive].queue.empty()) return;
    if (v.owed) Figure("cover_released_before_link");
    else if (ByItself(vi, kReceive)) Ready(vi, kReceive);
  }

  // Ends the fetch of a descriptor that cannot be reached.
  void Unreachable() {
    bad_due_ = true;
    bad_free_ = cur_.state == hvia::kVIStateFree;
    bad_clock_ = unit::clocks();
    cur_.phase = Phase::kBad;
    if (cur_.Head()) Finished(cur_.vi, cur_.work, cur_.entry.slot);
  }

  // Compares with the design's bytes.
  template <typename Wide>
  static bool Same(const Wide& wide, const Image& image) {
    for (uint32_t i = 0; i < kBytes / 4; i++) {
      if (wide[i] != Load(&image[4 * i], 4)) return false;
    }
    return true;
  }

  void CheckChunk(int n, bool done, bool err) {
    const bool shows = n == 0 ? dut_.rxc_done_o : dut_.txc_done_o;
    const bool fails = n == 0 ? dut_.rxc_err_o : dut_.txc_err_o;
    CHECK(shows == done, "end of a chunk for engine %d is %d", n, shows);
    if (!done) return;
    CHECK(fails == err, "chunk of VI %d for engine %d: error is %d", cur_.vi, n, fails);
    CHECK(err || Same(dut_.chunk_data_o, cur_.bytes), "chunk of VI %d for engine %d differs from memory", cur_.vi, n);
    Figure(std::string(n == 0 ? "cover_receive_chunk" : "cover_transmit_chunk") + (err ? "_error" : ""));
    chunks_[n].open = false;
    if (n == 0) job_.step = kRxBegin;
  }

  void CheckFetch() {
    bool fetched = false, segments = false, store = false, chunk_stored = false, chunk_done = false, chunk_err = false;
    int event = -1, event_vi = cur_.vi;
    uint16_t event_seq = cur_.seq;
    const uint64_t now = unit::clocks();
    const bool idle = cur_.phase == Phase::kNone;
    const bool head_can = dut_.take_shown_o && !back_at_start_;

    // The bad strobe comes one clock after its cause, and an owed link after the strobe.
    const bool bad_now = bad_due_ && now == bad_clock_ + 1;
    CHECK(dut_.stat_descriptor_bad_o == (bad_now && cur_.Head()), "stat_descriptor_bad is %d", dut_.stat_descriptor_bad_o);
    // The engine reports a send descriptor in its turn.
    const bool missed = bad_now && cur_.work == kSendHead && !bad_free_;
    const bool async = bad_now && cur_.work == kReceiveHead && !bad_free_;
    CHECK(dut_.fetch_async_valid_o == async, "fetch asynchronous error is %d", dut_.fetch_async_valid_o);
    if (async) {
      CHECK(dut_.fetch_async_code_o == hvia::kAsyncErrorPostDescriptor && dut_.fetch_async_vi_o == cur_.vi,
            "fetch asynchronous error %u of VI %u, want VI %d", dut_.fetch_async_code_o, dut_.fetch_async_vi_o, cur_.vi);
    }
    std::optional<Link> link_next;
    std::optional<int> release_next;
    bool over = false;
    if (bad_now) {
      bad_due_ = false;
      over = true;
      progress_ = now;
      if (cur_.Head()) {
        Figure(std::string(bad_free_ ? "cover_bad_free_" : "cover_bad_") + kQueueNames[cur_.work]);
        if (cur_.more) link_next = Link{cur_.vi, cur_.work, true, 0, 0};
        if (cur_.work == kReceiveHead) release_next = cur_.vi;
        if (missed) cur_.unreachable = true;
        else Lost(cur_.vi, cur_.work, cur_.seq);
      } else {
        chunk_done = chunk_err = true;
      }
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
      // No engine waits for it or behind it.
      const bool patient = cur_.work == kReceiveHead && !dut_.wanted_i && !dut_.rxc_valid_i && !dut_.txc_valid_i && !dut_.take_shown_o;
      CHECK(dut_.rd_req_patient_o == patient, "read for VI %d: low priority is %d", cur_.vi, dut_.rd_req_patient_o);
      if (cur_.work == kReceiveHead) Figure(patient ? "cover_patient" : "cover_impatient");
    }
    CHECK(!read_open_ || dut_.rready_o, "the fetch does not take its data");
    if (!idle) CHECK(dut_.rd_vi_o == cur_.vi, "the context of VI %u is read, want %d", dut_.rd_vi_o, cur_.vi);

    // A send descriptor is at the port in the clock of its check, later in the register.
    const bool room = !wait_ && !(cur_.phase != Phase::kNone && cur_.work == kSendHead);
    CHECK(dut_.send_space_o == room, "space for a send descriptor is %d", dut_.send_space_o);
    const bool checked = (cur_.phase == Phase::kParsed && cur_.work == kSendHead) || missed;
    const bool waited = wait_.has_value();
    CHECK(dut_.desc_valid_o == (waited || checked), "descriptor valid is %d", dut_.desc_valid_o);
    bool handed = false;
    if (waited || checked) {
      const Current shown = waited ? *wait_ : cur_;
      CheckDescriptor(shown);
      handed = dut_.desc_ready_i;
      if (handed) {
        if (!shown.unreachable) {
          event = hvia::kTraceEventDescriptorParsed;
          event_vi = shown.vi;
          event_seq = shown.seq;
        }
        Hand(shown);
        wait_.reset();
        if (waited) Figure("cover_out_of_the_register");
        if (waited && shown.unreachable) Figure("cover_unreachable_waits");
      } else if (checked) {
        wait_ = cur_;
      }
      if (checked) over = true;
    }

    switch (cur_.phase) {
      case Phase::kNone:
      case Phase::kBad:
        break;
      case Phase::kContext:
        if (cur_.state == hvia::kVIStateFree || cur_.va % hvia::kDescriptorAlignment != 0) {
          if (cur_.state != hvia::kVIStateFree) Figure("cover_misaligned_link");
          // The block checks the context in the next clock.
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
          if (cur_.work == kSendHead) event = hvia::kTraceEventDescriptorTranslated;
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
        if (cur_.work == kSendHead) event = hvia::kTraceEventDescriptorFetched;
        if (dut_.rerr_i) {
          Figure("cover_read_error");
          Unreachable();
        } else if (!cur_.Head()) {
          segments = true;
          cur_.phase = Phase::kParsed;
        } else {
          fetched = true;
          cur_.phase = Phase::kParsed;
          if (cur_.more) {
            link_next = Link{cur_.vi, cur_.work, false, Load(&cur_.bytes[hvia::kDescriptorNextOffset], 8),
                             static_cast<uint32_t>(Load(&cur_.bytes[hvia::kDescriptorNextHandleOffset], 4))};
          }
          if (cur_.entry.slot >= 0) {
            const Image& want = vis_[cur_.vi].queues[cur_.work].slots[cur_.entry.slot].image;
            CHECK(std::equal(want.begin() + hvia::kDescriptorSegmentCountOffset, want.end(),
                             cur_.bytes.begin() + hvia::kDescriptorSegmentCountOffset),
                  "VI %d: the fetch read another descriptor than the one at %016" PRIx64, cur_.vi, cur_.va);
          }
          Figure("descriptors");
        }
        break;
      case Phase::kParsed: {
        if (cur_.work == kSendHead) break;
        progress_ = now;
        if (!cur_.Head()) {
          chunk_done = over = true;
          chunk_stored = cur_.work == kReceiveChunk && cur_.store;
          if (cur_.work == kReceiveChunk && !cur_.store) Figure("cover_receive_chunk_not_stored");
          break;
        }
        // The VI's state in this clock decides.
        const uint32_t state = dut_.rd_ctx_i[0] & hvia::kVIContextAttributesStateMask;
        if (state == hvia::kVIStateFree) {
          Figure("cover_reset_while_fetched");
          over = true;
          release_next = cur_.vi;
          Lost(cur_.vi, kReceive, cur_.seq);
        } else if (state == hvia::kVIStateError) {
          cur_.phase = Phase::kFlush;
        } else if (handed) {
          Figure("cover_store_waits_for_trace");
        } else {
          store = over = true;
          event = hvia::kTraceEventReceiveDescriptorStored;
        }
        break;
      }
      case Phase::kFlush:
        break;  // ends with its completion
    }
    CHECK(dut_.stat_descriptor_fetched_o == fetched, "stat_descriptor_fetched is %d", dut_.stat_descriptor_fetched_o);
    CHECK(dut_.stat_descriptor_segments_o == segments, "stat_descriptor_segments is %d",
          dut_.stat_descriptor_segments_o);
    CheckChunk(0, chunk_done && cur_.work == kReceiveChunk, chunk_err);
    CheckChunk(1, chunk_done && cur_.work == kTransmitChunk, chunk_err);

    // The store.
    CHECK(dut_.wr_valid_o == (store || chunk_stored), "write into the store is %d", dut_.wr_valid_o);
    if (store || chunk_stored) {
      CHECK(dut_.wr_head_o == store && dut_.wr_vi_o == cur_.vi, "write into the store for VI %u, whole %d, want VI %d, %d",
            dut_.wr_vi_o, dut_.wr_head_o, cur_.vi, store);
      Place& p = vis_[cur_.vi].place;
      if (chunk_stored) p.chunk = cur_.bytes;
      if (store) Stored(&p);
    }

    // A flushed receive descriptor.
    const bool flushes = cur_.phase == Phase::kFlush && cur_.since != now;
    const bool was_flush = dut_.flushed_valid_o;
    if (flush_shown_) {
      CHECK(was_flush && dut_.flushed_vi_o == cur_.vi && dut_.flushed_seq_o == cur_.seq && dut_.flushed_pa_o == cur_.pa &&
                dut_.flushed_handle_o == cur_.handle &&
                dut_.flushed_status_o == (hvia::kDescriptorStatusDoneMask | hvia::kDescriptorStatusFlushedMask |
                                          hvia::kStatusOperationReceive << hvia::kDescriptorStatusOperationLsb),
            "flushed descriptor of VI %u, sequence %u at %08x, status %08x, want VI %d, %u, %08x", dut_.flushed_vi_o,
            dut_.flushed_seq_o, dut_.flushed_pa_o, dut_.flushed_status_o, cur_.vi, cur_.seq, cur_.pa);
      if (dut_.flushed_fire_o) {
        over = true;
        release_next = cur_.vi;
        progress_ = now;
        Figure("cover_receive_flushed");
      }
    } else {
      CHECK(!was_flush, "a flushed descriptor out of nowhere");
    }
    flush_shown_ = flushes && !over;

    // Priority: receive chunk, transmit chunk, head; a head follows each transmit chunk.
    const bool rxc = idle && chunks_[0].want;
    const bool txc = idle && !chunks_[0].want && chunks_[1].want && !(head_turn_ && head_can);
    const bool take = idle && head_can && !rxc && !txc;
    if (idle && chunks_[1].want && !rxc && take) Figure("cover_head_between_chunks");
    if (rxc && chunks_[1].want) Figure("cover_receive_chunk_first");
    if (rxc && head_can) Figure("cover_chunk_before_head");
    CHECK(dut_.rxc_ready_o == rxc && dut_.txc_ready_o == txc && dut_.take_fire_o == take,
          "the fetch takes %d %d %d, want %d %d %d", dut_.rxc_ready_o, dut_.txc_ready_o, dut_.take_fire_o, rxc, txc, take);
    if (rxc || txc || take) {
      CHECK(!over, "new work in the clock in which the last one ends");
      cur_ = Current{};
      cur_.phase = Phase::kContext;
      cur_.since = now;
      if (take) {
        const int kind = take_kind_;
        Offer& o = *offers_[kind];
        cur_.work = static_cast<Work>(kind);
        cur_.vi = o.vi;
        cur_.entry = o.entry;
        cur_.va = dut_.take_va_o;
        cur_.handle = dut_.take_handle_o;
        cur_.more = o.more;
        cur_.seq = o.seq;
        offer_fired_[kind] = true;
        if (kind == kSend) {
          event = hvia::kTraceEventDescriptorStart;
          event_vi = cur_.vi;
          event_seq = cur_.seq;
        }
      } else {
        Chunk& c = chunks_[rxc ? 0 : 1];
        cur_.work = rxc ? kReceiveChunk : kTransmitChunk;
        cur_.store = c.store;
        cur_.vi = c.vi;
        cur_.va = c.va;
        cur_.handle = c.handle;
        c.want = false;
        c.open = true;
      }
      if (take || txc) head_turn_ = txc;
      CHECK(dut_.rd_vi_o == cur_.vi, "the context of VI %u is read, want %d", dut_.rd_vi_o, cur_.vi);
      cur_.state = vis_[cur_.vi].State();
      cur_.reliable = vis_[cur_.vi].Reliable();
      cur_.tag = vis_[cur_.vi].Tag();
      Touch(cur_.vi);
    }
    CheckTrace(1, event >= 0, event, event_vi, event_seq);
    if (over) cur_ = Current{};
    if (link_next) {
      CHECK(!link_, "two links at a time");
      link_ = link_next;
    }
    if (release_next) {
      CHECK(!release_, "two releases at a time");
      release_ = release_next;
    }
  }

  void Stored(Place* p) {
    CHECK(!p->valid, "VI %d: a second descriptor in the store", cur_.vi);
    p->valid = true;
    p->stale = false;
    p->slot = cur_.entry.slot;
    p->va = cur_.va;
    p->pa = cur_.pa;
    p->handle = cur_.handle;
    p->seq = cur_.seq;
    p->head = p->chunk = cur_.bytes;
    p->status = testbench::Check(cur_.bytes, true, cur_.state, cur_.reliable);
    Figure("stored");
    arrived_clock_ = unit::clocks();
    if (cur_.entry.slot < 0) return;
    const int kind = vis_[cur_.vi].queues[kReceive].slots[cur_.entry.slot].kind;
    CHECK(p->status == KindStatus(kind, true, cur_.reliable), "%s: the testbench's two opinions differ", KindName(kind));
    Figure(std::string("cover_receive_kind_") + KindName(kind));
    Figure(std::string("cover_stored_") + hvia::VIStateName(dut_.rd_ctx_i[0] & hvia::kVIContextAttributesStateMask));
  }

  void Hand(const Current& c) {
    Transmit t;
    t.cpl.vi = c.vi;
    t.cpl.kind = kSend;
    t.cpl.slot = c.entry.slot;
    t.cpl.seq = c.seq;
    t.cpl.pa = c.pa;
    t.cpl.handle = c.handle;
    t.cpl.length = rng_.Bits(32);
    t.cpl.status = hvia::kDescriptorStatusDoneMask | dut_.desc_status_o |
                   hvia::kStatusOperationRDMAWrite << hvia::kDescriptorStatusOperationLsb;
    if (rng_.Chance(1, 8)) t.cpl.status |= 1u << rng_.Range(1, 8);
    t.cpl.immediate = rng_.Bits(32);
    t.cpl.has_immediate = rng_.Chance(1, 8);
    t.cpl.write = !Rare(knobs_.no_write);
    t.va = c.va;
    t.chunks = Rare(knobs_.chunk) ? rng_.Range(1, 3) : 0;
    t.unreachable = c.unreachable;
    if (t.unreachable && !transmit_.empty() && transmit_.back().cpl.vi == c.vi) Figure("cover_unreachable_behind");
    transmit_.push_back(t);
    arrived_clock_ = unit::clocks();
    progress_ = unit::clocks();
    if (c.entry.slot < 0 || c.unreachable) return;
    const int kind = vis_[c.vi].queues[kSend].slots[c.entry.slot].kind;
    if (c.state == hvia::kVIStateConnected) {
      CHECK(testbench::Check(c.bytes, false, c.state, c.reliable) == KindStatus(kind, false, c.reliable), "%s: the testbench's two opinions differ",
            KindName(kind));
      Figure(std::string("cover_kind_") + KindName(kind));
      if (c.reliable && IsRead(kind)) Figure(std::string("cover_reliable_") + KindName(kind));
    } else {
      Figure(std::string("cover_flushed_") + hvia::VIStateName(c.state));
    }
  }

  void CheckDescriptor(const Current& c) {
    CHECK(dut_.desc_unreachable_o == c.unreachable, "descriptor %u of VI %d: unreachable is %d", c.seq, c.vi,
          dut_.desc_unreachable_o);
    if (c.unreachable) {
      CHECK(dut_.desc_vi_o == c.vi && dut_.desc_seq_o == c.seq && dut_.desc_handle_o == c.handle && dut_.desc_status_o == 0,
            "unreachable descriptor of VI %u, sequence %u, status %08x, want VI %d, %u", dut_.desc_vi_o, dut_.desc_seq_o,
            dut_.desc_status_o, c.vi, c.seq);
      return;
    }
    CHECK(dut_.desc_vi_o == c.vi && dut_.desc_seq_o == c.seq && dut_.desc_va_o == c.va && dut_.desc_pa_o == c.pa &&
              dut_.desc_handle_o == c.handle,
          "descriptor of VI %u, sequence %u at %08x, want VI %d, %u, %08x", dut_.desc_vi_o, dut_.desc_seq_o,
          dut_.desc_pa_o, c.vi, c.seq, c.pa);
    CHECK(Same(dut_.desc_chunk_o, c.bytes), "VI %d: the descriptor differs from memory", c.vi);
    const uint32_t want = testbench::Check(c.bytes, false, c.state, c.reliable);
    CHECK(dut_.desc_status_o == want, "VI %d: status %08x, want %08x (%s)", c.vi, dut_.desc_status_o, want,
          c.entry.slot >= 0 ? KindName(vis_[c.vi].queues[kSend].slots[c.entry.slot].kind) : "reset meanwhile");
  }

  // The read port shows the slot's contents of the clock before. The search marks one slot per
  // clock.
  void CheckStore() {
    if (seen_) {
      const Place& p = seen_->place;
      CHECK(dut_.rs_valid_o == p.valid, "store: place %d is valid %d", seen_->vi, dut_.rs_valid_o);
      if (p.valid) {
        CHECK(dut_.rs_stale_o == p.stale, "store: place %d is stale %d", seen_->vi, dut_.rs_stale_o);
        CHECK(Same(dut_.rs_chunk_o, p.chunk), "store: chunk of place %d", seen_->vi);
        CHECK(dut_.rs_va_o == p.va && dut_.rs_pa_o == p.pa && dut_.rs_handle_o == p.handle && dut_.rs_seq_o == p.seq,
              "store: place %d holds the descriptor at %016" PRIx64 ", want %016" PRIx64, seen_->vi,
              static_cast<uint64_t>(dut_.rs_va_o), p.va);
        CHECK(dut_.rs_control_o == Load(&p.head[hvia::kDescriptorControlOffset], 2) &&
                  dut_.rs_segments_o == Load(&p.head[hvia::kDescriptorSegmentCountOffset], 2) &&
                  dut_.rs_length_o == Load(&p.head[hvia::kDescriptorLengthOffset], 4),
              "store: control segment of place %d", seen_->vi);
        CHECK(dut_.rs_status_o == p.status, "store: status of place %d is %08x, want %08x", seen_->vi, dut_.rs_status_o,
              p.status);
        if (p.stale) Figure("cover_stale_read");
      }
    }
    const int vi = dut_.rs_vi_i;
    seen_ = Seen{vi, vis_[vi].place};

    // The search starts in clock n, reads slot i in n + 1 + i, and checks it in the clock after.
    const uint64_t now = unit::clocks();
    const uint64_t age = now - search_start_;
    searching_ = searching_ && age <= kVis + 1;
    CHECK(dut_.stale_busy_o == searching_, "store: the search is %d after %" PRIu64 " clocks", dut_.stale_busy_o, age);
    if (searching_ && age >= 2) {
      Place& p = vis_[age - 2].place;
      if (p.valid && p.handle == dut_.drain_handle_i) {
        p.stale = true;
        Figure("cover_marked_stale");
      }
    }
    if (dut_.stale_start_i) {
      searching_ = true;
      search_start_ = now;
    }
    CHECK(dut_.store_vi_busy_o == (dut_.drain_receive_i && vis_[dut_.drain_vi_i].place.valid),
          "store: busy of VI %u is %d", dut_.drain_vi_i, dut_.store_vi_busy_o);
  }

  // The receive engine empties its slot.
  void CheckDrop() {
    if (!dut_.drop_valid_i) return;
    vis_[job_.vi].place.valid = false;
    job_.step = kRxRelease;
  }

  void CheckCompletion() {
    bool flushed = false, error = false;
    const uint64_t now = unit::clocks();

    // Round robin: 0 receive engine, 1 fetch, 2 transmit engine.
    const bool busy = write_ || refused_;
    const Completion* offered[3] = {
        job_.step == kRxComplete ? &job_.cpl : nullptr, nullptr, tx_cpl_ ? &transmit_.front().cpl : nullptr};
    Completion flush{};
    if (dut_.flushed_shown_o) {
      flush = Completion{static_cast<int>(dut_.flushed_vi_o), kReceive, flushing_slot_, static_cast<uint16_t>(dut_.flushed_seq_o),
                         dut_.flushed_pa_o, dut_.flushed_handle_o, 0, dut_.flushed_status_o, 0, false, true};
      offered[1] = &flush;
    }
    int source = -1;
    for (int i = 1; i <= 3 && source < 0; i++) {
      if (offered[(last_source_ + i) % 3]) source = (last_source_ + i) % 3;
    }
    if (busy) source = -1;
    if (offered[0] && offered[1] && offered[2]) Figure("cover_three_completions");
    CHECK(dut_.cpl_ready_o == (source == 0 ? 1 : source == 2 ? 2 : 0) && dut_.flushed_fire_o == (source == 1),
          "completion takes %x, fetch %d, want source %d", dut_.cpl_ready_o, dut_.flushed_fire_o, source);

    const bool requests = write_ && !write_->granted;
    CHECK(dut_.wr_req_valid_o == requests, "write request is %d", dut_.wr_req_valid_o);
    const bool offers = write_ && write_->sent < write_->Bytes();
    CHECK(dut_.wvalid_o == offers, "write data valid is %d after %u bytes", dut_.wvalid_o, write_ ? write_->sent : 0);
    if (requests) {
      CHECK(dut_.wr_req_addr_o == write_->Address() && dut_.wr_req_len_o == write_->Bytes(),
            "write of %u bytes at %08x for the descriptor at %08x", dut_.wr_req_len_o, dut_.wr_req_addr_o,
            write_->job.pa);
      if (dut_.wr_req_ready_i) {
        write_->granted = true;
        progress_ = now;
      }
    }
    if (offers && dut_.wready_i) {
      // Bytes reach memory in the order of the beats: immediate data, Length, then Status.
      const uint32_t words[3] = {write_->job.immediate, write_->job.length, write_->job.status};
      const unsigned skip = write_->job.has_immediate ? 0 : 4;
      const uint32_t at = write_->Address() + write_->sent;
      const unsigned first = at % kLane;
      CHECK(dut_.wstrb_o == (((1u << kLane) - 1) & ~((1u << first) - 1)), "byte lanes %x at %08x", dut_.wstrb_o, at);
      for (unsigned lane = first; lane < kLane; lane++) {
        const unsigned n = skip + write_->sent;
        const uint8_t byte = static_cast<uint64_t>(dut_.wdata_o) >> 8 * lane;
        CHECK(byte == static_cast<uint8_t>(words[n / 4] >> 8 * (n % 4)), "byte %u of the completion is %02x", n, byte);
        if (!write_->failed) *memory_->At(write_->Address() + write_->sent, 1, "the completion") = byte;
        write_->sent++;
      }
      progress_ = now;
    }
    const bool done = dut_.wdone_i;
    const bool receive = write_ && write_->job.kind == kReceive;
    CHECK(dut_.stat_completion_written_o == (done && !dut_.werr_i), "stat_completion_written is %d",
          dut_.stat_completion_written_o);
    CHECK(dut_.stat_completion_receive_o == (done && !dut_.werr_i && receive), "stat_completion_receive is %d",
          dut_.stat_completion_receive_o);
    const bool report = (done && dut_.werr_i) || refused_;
    const int report_vi = refused_ ? refused_->vi : write_ ? write_->job.vi : 0;
    CHECK(dut_.stat_completion_error_o == report, "stat_completion_error is %d", dut_.stat_completion_error_o);
    CHECK(dut_.completion_async_valid_o == report, "completion asynchronous error is %d", dut_.completion_async_valid_o);
    if (report) {
      CHECK(dut_.completion_async_code_o == hvia::kAsyncErrorCompletionProtection &&
                dut_.completion_async_vi_o == report_vi,
            "completion asynchronous error %u of VI %u, want VI %d", dut_.completion_async_code_o,
            dut_.completion_async_vi_o, report_vi);
    }
    CheckTrace(2, done, receive ? hvia::kTraceEventReceiveCompletionWritten : hvia::kTraceEventCompletionWritten,
               write_ ? write_->job.vi : 0, write_ ? write_->job.seq : 0);
    if (done) {
      Figure(write_->failed ? "cover_completion_error" : "completions");
      if (write_->job.has_immediate) Figure("cover_immediate_written");
      // A reset VI has already released its slots.
      if (vis_[write_->job.vi].State() != hvia::kVIStateFree) {
        Finished(write_->job.vi, write_->job.kind, write_->job.slot);
      }
      progress_ = now;
      write_.reset();
    }
    refused_.reset();
    if (source >= 0) {
      const Completion c = *offered[source];
      flushed = c.status & hvia::kDescriptorStatusFlushedMask;
      error = !flushed && (c.status & hvia::kDescriptorErrorMask);
      if (c.write) {
        Write w;
        w.job = c;
        w.wait = rng_.Below(knobs_.done_delay + 1);
        w.failed = Rare(knobs_.write_error);
        write_ = w;
      } else {
        Figure(std::string("cover_completion_without_write_") + kQueueNames[c.kind]);
        refused_ = c;
        if (vis_[c.vi].State() != hvia::kVIStateFree) Finished(c.vi, c.kind, c.slot);
      }
      if (flushed) Figure("cover_completion_flushed");
      if (error) Figure("cover_completion_with_error");
      Ended(c.vi, c.kind, c.seq);
      if (source == 0) {
        if (job_.flush) Figure("cover_flushed_on_chip");
        job_.step = kRxDrop;
      } else if (source == 2) {
        transmit_.pop_front();
        tx_cpl_ = false;
      }
      last_source_ = source;
      progress_ = now;
    }
    CHECK(dut_.stat_descriptor_flushed_o == flushed, "stat_descriptor_flushed is %d", dut_.stat_descriptor_flushed_o);
    CHECK(dut_.stat_descriptor_error_o == error, "stat_descriptor_error is %d", dut_.stat_descriptor_error_o);
  }

  void CheckTrace(int lane, bool valid, uint32_t event, uint32_t vi, uint32_t seq) {
    CHECK((dut_.trace_valid_o >> lane & 1) == valid, "trace of lane %d is %d", lane, dut_.trace_valid_o >> lane & 1);
    if (!valid) return;
    const uint32_t e = dut_.trace_event_o >> (8 * lane) & 0xff;
    const uint32_t v = dut_.trace_vi_o >> (8 * lane) & 0xff;
    const uint32_t s = dut_.trace_seq_o >> (16 * lane) & 0xffff;
    CHECK(e == event && v == vi && s == seq, "trace of lane %d: event %u VI %u sequence %u, want %u %u %u", lane, e, v,
          s, event, vi, seq);
  }

  // Checks the drain outputs before the models advance: busy while there is work, and not long
  // after.
  void CheckDrain() {
    const uint64_t now = unit::clocks();
    const int vi = dut_.drain_vi_i;
    const uint32_t handle = dut_.drain_handle_i;
    const Vi& v = vis_[vi];

    const bool offered = ((dut_.offer_valid_o & 1) && (dut_.offer_vi_o & (kVis - 1)) == vi) ||
                         ((dut_.offer_valid_o & 2) && dut_.offer_vi_o >> VI_COUNT_LOG2 == vi);
    const bool receives = !v.queues[kReceive].queue.empty();
    bool listed = false, surely = false;
    for (int kind : {kSend, kReceive}) {
      for (const auto& l : ready_[kind]) {
        listed |= l.vi == vi;
        surely |= l.vi == vi && !l.maybe && !v.queues[kind].queue.empty();
      }
    }
    const bool queue_work =
        !v.queues[kSend].queue.empty() || offered || surely || (receives && dut_.drain_receive_i);
    CHECK(!queue_work || dut_.queue_vi_busy_o, "work_queue: VI %d is not busy with %zu and %zu descriptors", vi,
          v.queues[kSend].queue.size(), v.queues[kReceive].queue.size());
    const bool committing = dut_.commit_valid_o && dut_.commit_vi_o == vi;
    const bool queue_idle = !queue_work && !committing && !listed && now > v.active_clock + 2 &&
                            !(link_ && link_->vi == vi) && !(release_ && *release_ == vi) &&
                            !(job_.step == kRxRelease && job_.vi == vi) && !dut_.clear_valid_i &&
                            !(dut_.wake_o && dut_.wake_vi_o == vi) && !(dut_.unhold_valid_i && dut_.unhold_vi_i == vi);
    CHECK(!queue_idle || !dut_.queue_vi_busy_o, "work_queue: VI %d is busy without work", vi);
    if (queue_idle && receives) Figure("cover_receives_are_no_work");

    const bool fetch_work = (cur_.phase != Phase::kNone && cur_.vi == vi) || (link_ && link_->vi == vi) ||
                            (release_ && *release_ == vi) || (wait_ && wait_->vi == vi);
    CHECK(dut_.fetch_vi_busy_o == fetch_work, "descriptor_fetch: busy of VI %d is %d", vi, dut_.fetch_vi_busy_o);
    // A descriptor without translation does not count: its translation will be rejected.
    const bool uses = (cur_.phase >= Phase::kWalk && cur_.handle == handle) ||
                      (wait_ && !wait_->unreachable && wait_->handle == handle);
    if (wait_ && wait_->unreachable && wait_->handle == handle && !uses) Figure("cover_unreachable_needs_no_memory");
    CHECK(dut_.fetch_handle_busy_o == uses, "descriptor_fetch: busy of handle %08x is %d", handle,
          dut_.fetch_handle_busy_o);

    const bool completing = (write_ && write_->job.vi == vi) || (refused_ && refused_->vi == vi);
    CHECK(dut_.completion_vi_busy_o == completing, "completion: busy of VI %d is %d", vi, dut_.completion_vi_busy_o);
    CHECK(dut_.completion_handle_busy_o == (write_ && write_->job.handle == handle),
          "completion: busy of handle %08x is %d", handle, dut_.completion_handle_busy_o);

    // What the manager sees: the blocks, the engines' models, and the doorbell's register behind
    // its valve.
    vi_busy_ = dut_.queue_vi_busy_o || dut_.fetch_vi_busy_o || dut_.store_vi_busy_o || dut_.completion_vi_busy_o ||
               committing;
    handle_busy_ = dut_.fetch_handle_busy_o || dut_.completion_handle_busy_o;
    for (const auto& t : transmit_) {
      vi_busy_ |= t.cpl.vi == vi;
      handle_busy_ |= !t.unreachable && t.cpl.handle == handle;
    }
    if (job_.step != kRxNone) {
      vi_busy_ |= job_.vi == vi;
      handle_busy_ |= job_.cpl.handle == handle;
    }
  }

  void CheckQuiet() {
    // While any block has work the path is not idle.
    const bool fetch_busy = cur_.phase != Phase::kNone || link_ || release_ || wait_ || dut_.take_shown_o ||
                            chunks_[0].want || chunks_[1].want;
    CHECK(fetch_busy == !(dut_.quiet_o & 4), "descriptor_fetch: quiet is %d in phase %d", dut_.quiet_o >> 2 & 1,
          static_cast<int>(cur_.phase));
    const bool completing = write_ || refused_ || dut_.cpl_valid_i || dut_.flushed_shown_o;
    CHECK(completing == !(dut_.quiet_o & 8), "completion: quiet is %d", dut_.quiet_o >> 3 & 1);
    CHECK(!((commit_ || dut_.db_wvalid_i) && (dut_.quiet_o & 1)), "doorbell is quiescent with a doorbell");
    CHECK(!((dut_.take_valid_o || dut_.commit_shown_o || dut_.rx_release_valid_i || dut_.unhold_valid_i) && (dut_.quiet_o & 2)),
          "work_queue is quiescent with an offer");
    CHECK(!((dut_.wr_valid_o || dut_.drop_valid_i || dut_.stale_busy_o || dut_.stale_start_i) && (dut_.quiet_o & 16)),
          "receive_store is quiescent while it changes");
  }

  void Check() {
    if (cur_.phase == Phase::kFlush) flushing_slot_ = cur_.entry.slot;
    back_at_start_ = link_ || release_;
    CheckQuiet();
    CheckDrain();
    CheckStore();
    CheckQueue();
    CheckDoorbell();
    CheckCompletion();
    CheckFetch();
    CheckDrop();
  }

  struct Offer {
    int vi;
    Entry entry;
    bool more;
    uint16_t seq;
  };
  struct Link {
    int vi;
    int kind;
    bool bad;
    uint64_t va;
    uint32_t handle;
  };
  struct Write {
    Completion job{};
    bool granted = false;
    bool failed = false;
    unsigned sent = 0;
    unsigned wait = 0;
    unsigned Bytes() const { return job.has_immediate ? 12 : 8; }
    uint32_t Address() const {
      return job.pa + (job.has_immediate ? hvia::kDescriptorImmediateDataOffset : hvia::kDescriptorLengthOffset);
    }
  };
  struct Seen {
    int vi;
    Place place;
  };
  struct Watched {
    int vi;
    bool coming, there;
  };

  unit::Rng rng_;
  const size_t depth_;
  Vdescriptor_tb dut_;
  Knobs knobs_{};

  std::unique_ptr<Memory> memory_;
  std::vector<Region> regions_;
  std::map<uint32_t, int> by_handle_;
  std::array<Vi, kVis> vis_;
  std::vector<int> used_;
  bool held_ = false;
  bool stopped_ = false;
  bool frozen_ = false;  // the receive engine's read port stalls
  bool rx_hold_ = false;  // no message comes for a receive descriptor
  uint64_t lull_ = 0;     // nor for this number of clocks
  int hot_ = -1, hot_kind_ = kSend;
  bool only_hot_ = false;
  uint64_t bell_clock_ = 0, arrived_clock_ = 0;
  Manager manager_;
  bool vi_busy_ = false, handle_busy_ = false;

  std::deque<Burst> bursts_;
  size_t burst_pos_ = 0;
  bool dword_stands_ = false;
  using Partials = std::array<std::array<Partial, kVis>, 2>;
  Partials partial_{};
  struct Left {
    int vi, kind;
    uint32_t count;
  };
  std::vector<Left> left_;  // dwords in the queues at the last reset
  int last_vi_ = 0, last_kind_ = 0;  // the queue that the registers hold
  bool loading_ = false, started_over_ = false;
  int uncounted_ = 0, forget_ = -1;
  int walk_ = 0;  // remaining clocks of the walk after a reset
  std::optional<Commit> commit_;
  std::deque<Listed> ready_[2];
  std::optional<Offer> offers_[2];
  bool offer_fired_[2] = {};
  bool take_stands_ = false;
  int take_kind_ = kSend;
  std::array<uint64_t, kVis> take_clock_[2]{}, commit_clock_[2]{};

  Current cur_;
  std::optional<Current> wait_;
  bool head_turn_ = false;
  bool flush_shown_ = false;
  int flushing_slot_ = -1;
  std::optional<Link> link_;
  std::optional<int> release_;
  bool back_at_start_ = false;
  bool bad_due_ = false, bad_free_ = false;
  uint64_t bad_clock_ = 0;
  Chunk chunks_[2];
  Job job_;
  std::optional<Seen> seen_;
  std::optional<Watched> watched_;
  bool searching_ = false;
  uint64_t search_start_ = 0;
  // Fetch on arrival: the VI of a message that waits for a receive descriptor, and the VI woken in
  // the last clock.
  bool on_arrival_ = false, on_arrival_next_ = false;
  int wanted_vi_ = -1;
  // Send queues whose hold has ended; the first is offered.
  std::deque<int> unhold_;
  bool unhold_stands_ = false;
  struct {
    int wanted = -1, flushed = -1;
  } woken_by_;

  bool att_open_ = false;
  unsigned att_wait_ = 0;
  uint32_t att_handle_ = 0, att_tag_ = 0;
  uint64_t att_va_ = 0;
  bool read_open_ = false, read_stands_ = false;
  uint32_t read_pa_ = 0, read_at_ = 0;

  std::deque<Transmit> transmit_;
  bool tx_cpl_ = false;
  int last_source_ = 2;
  std::optional<Completion> refused_;
  std::optional<Write> write_;
  uint64_t progress_ = 0;
};

}  // namespace
}  // namespace testbench

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  testbench::Testbench(unit::options().seed).Run(unit::options().size);
  return unit::Pass(testbench::figures);
}
