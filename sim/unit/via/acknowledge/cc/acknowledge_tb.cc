// SPDX-License-Identifier: Apache-2.0

// Testbench of acknowledge between models of the receive engine, the ledger and the transmit
// engine. Events of few and of many VIs come at every distance, while the port accepts at once or
// late. VIs are connected and reset at random moments, also in the clock of an event. A plain model
// of the contract processes each event when it is accepted. It predicts for each VI whether an
// acknowledgement is due and its contents, and checks that the port serves in order of the events.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "Vhvia_acknowledge.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"

using unit::Fail;
using unit::kVIs;

namespace {

constexpr unsigned kEvery = hvia::kProfiles[0].AcknowledgeEvery;

// The due acknowledgement of a VI.
struct Vi {
  bool due = false, told = false, refused = false;
  unsigned count = 0;
  uint32_t number = 0;
  uint8_t code = hvia::kAcknowledgeCodeOk;
};

struct Event {
  bool valid = false;
  uint8_t op = 0, vi = 0, code = 0;
  uint32_t number = 0;
};

class Testbench {
 public:
  explicit Testbench(uint64_t seed) : rng(seed), top(new Vhvia_acknowledge) {
    top->rst_ni = 0;
    top->clk_i = 0;
    for (int i = 0; i < 5; i++) Step();
    top->rst_ni = 1;
    // A VI is connected before its first event.
    for (unsigned v = 0; v < kVIs; v++) {
      connect_ = v;
      Step();
    }
    connect_ = -1;
  }

  // About `clocks` clocks of one mix of traffic, then rest.
  void Round(unsigned clocks) {
    vis_ = rng.Chance(1, 3) ? kVIs : rng.Range(1, 6);
    pace_ = rng.Chance(1, 2) ? 1 : rng.Range(2, 30);
    ready_ = rng.Chance(1, 3) ? 1 : rng.Range(2, 60);
    hard_ = rng.Range(2, 40);
    renew_ = rng.Chance(1, 2) ? 0 : rng.Range(6, 200);
    running_ = true;
    for (unsigned i = 0; i < clocks; i++) Step();
    running_ = false;
    for (unsigned i = 0; !(top->quiet_o && order.empty()); i++) {
      Step();
      if (i > 40000) Fail("does not become idle: acknowledgements of %zu VIs are due", order.size());
    }
    for (unsigned v = 0; v < kVIs; v++) {
      if (vi[v].due) Fail("an acknowledgement of VI %u is due, and all is quiescent", v);
    }
    if (refusals != refusals_seen) Fail("%" PRIu64 " NAKs are counted, want %" PRIu64, refusals_seen, refusals);
    // Without offers the module is quiescent at once. The lookup's result stays.
    loose_.fill(false);
    const bool refused = top->nak_sent_o;
    for (int i = 0; i < 3; i++) {
      Step();
      if (!top->quiet_o || top->nak_sent_o != refused || top->ack_valid_o) Fail("not quiet at rest");
    }
  }

  // Every VI has an event at once: the list is full.
  void Full() {
    ready_ = 0;
    // The first VI is at the port when its second event comes.
    for (unsigned n = 0; n <= kVIs; n++) {
      const uint8_t v = n % kVIs;
      rxa = {true, vi[v].refused ? hvia::kAcknowledgeOperationAgain : hvia::kAcknowledgeOperationAcceptLast, v, 0, rng.Bits(32)};
      while (rxa.valid || (n == 0 && !offered_)) Step();
    }
    for (int i = 0; i < 10; i++) Step();
    if (order.size() != kVIs) Fail("%zu VIs are listed, not all", order.size());
    ready_ = 1;
    while (!order.empty() || offered_) Step();
    full++;
  }

  unit::Rng rng;
  std::unique_ptr<Vhvia_acknowledge> top;
  std::array<Vi, kVIs> vi;
  std::deque<unsigned> order;  // VIs with a due acknowledgement, by the time of its event
  Event rxa, ref;
  uint64_t refusals = 0, refusals_seen = 0, sent[5] = {}, merged = 0, withdrawn = 0, forgotten = 0, gaps_once = 0, kept = 0, counted = 0,
           full = 0, waited[6] = {};

 private:
  void Step() {
    Drive();
    top->eval();
    if (top->rst_ni) Sample();
    unit::Clock(*top);
  }

  void Drive() {
    if (running_ && !rxa.valid && rng.Chance(1, pace_)) {
      const uint8_t ops[] = {0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 5};
      rxa = {true, ops[rng.Below(12)], Pick(), 0, rng.Bits(32)};
      if (rng.Chance(1, hard_ * 8)) rxa.op = hvia::kAcknowledgeOperationNAK;
      rxa.code = rxa.op == hvia::kAcknowledgeOperationNAK ? rng.Range(2, 4) : rng.Bits(3);
    }
    if (running_ && !ref.valid && rng.Chance(1, hard_ * 20)) {
      ref = {true, hvia::kAcknowledgeOperationNAK, Pick(), static_cast<uint8_t>(rng.Range(2, 4)), rng.Bits(32)};
    }
    auto put = [&](const Event& e, auto& valid, auto& v, auto& number, auto& code) {
      valid = e.valid;
      v = e.valid ? e.vi : rng.Bits(8);
      number = e.valid ? e.number : rng.Bits(32);
      code = e.valid ? e.code : rng.Bits(3);
    };
    put(rxa, top->rxa_valid_i, top->rxa_vi_i, top->rxa_number_i, top->rxa_code_i);
    top->rxa_op_i = rxa.valid ? rxa.op : rng.Bits(3);
    put(ref, top->nak_valid_i, top->nak_vi_i, top->nak_number_i, top->nak_code_i);
    top->ack_ready_i = ready_ != 0 && rng.Chance(1, ready_);
    top->init_valid_i = connect_ >= 0;
    top->init_vi_i = connect_ >= 0 ? connect_ : rng.Bits(8);
    top->clear_valid_i = 0;
    top->clear_vi_i = rng.Bits(8);
    if (running_ && renew_ != 0 && rng.Chance(1, renew_)) {
      // Often a VI with a recent event.
      const uint8_t v = rng.Bits(1) ? Pick() : rng.Bits(1) && offered_ ? offer_.vi : last_;
      const bool reset = rng.Bits(1);
      (reset ? top->clear_valid_i : top->init_valid_i) = 1;
      (reset ? top->clear_vi_i : top->init_vi_i) = v;
    }
    if (running_) lookup_ = rng.Bits(1) ? Pick() : last_;
    top->nak_sent_vi_i = lookup_;
  }

  uint8_t Pick() { return (vis_ == kVIs ? rng.Bits(8) : rng.Below(vis_) * 37 + 200) % kVIs; }

  void Sample() {
    const bool renew = top->init_valid_i || top->clear_valid_i;
    const unsigned renewed = top->clear_valid_i ? top->clear_vi_i : top->init_vi_i;
    // The output belongs to the clock before. An accepted event shows within two clocks.
    if (looked_ >= 0 && top->nak_sent_o != vi[looked_].refused && unit::clocks() - changed_[looked_] > 3) {
      Fail("VI %d: NAKed %d, want %d", looked_, top->nak_sent_o, vi[looked_].refused);
    }
    looked_ = top->nak_sent_vi_i;

    if (top->rxa_valid_i && !top->rxa_ready_o && ++age_ > 4) Fail("the receive engine waits for %u clocks", age_);
    if (top->rxa_ready_o) {
      waited[std::min(age_, 5u)]++;
      age_ = 0;
    }
    refusals_seen += top->stat_nak_sent_o;

    // The port.
    if (taken_ || gone_) offered_ = false;
    if (offered_ && !top->ack_valid_o) Fail("the acknowledgement of VI %u is withdrawn", offer_.vi);
    if (top->ack_valid_o) {
      const Event e{true, 0, static_cast<uint8_t>(top->ack_vi_o), static_cast<uint8_t>(top->ack_code_o), top->ack_number_o};
      if (offered_) {
        if (e.vi != offer_.vi || e.code != offer_.code || e.number != offer_.number) Fail("the acknowledgement of VI %u changes", offer_.vi);
      } else {
        offered_ = true;
        offer_ = e;
        Leave(e);
      }
    }
    taken_ = top->ack_ready_i && top->ack_valid_o;
    gone_ = renew && offered_ && renewed == offer_.vi;
    if (taken_) sent[offer_.code]++;
    else withdrawn += gone_;

    // Events. One accepted in the clock of its VI's renewal precedes the renewal.
    for (auto* e : {&rxa, &ref}) {
      const bool ready = e == &rxa ? top->rxa_ready_o : top->nak_ready_o;
      if (!ready) continue;
      if (!e->valid) Fail("takes what is not offered");
      if (!(renew && renewed == e->vi)) pending_.push_back({*e, unit::clocks()});
      last_ = e->vi;
      e->valid = false;
    }
    // An event takes effect in the clock after it was accepted. A renewal delays it, or removes it.
    if (!pending_.empty() && pending_.front().second < unit::clocks() && (!renew || renewed == pending_.front().first.vi)) {
      if (!renew) Happen(pending_.front().first);
      pending_.pop_front();
    }
    if (renew) {
      forgotten += vi[renewed].due;
      loose_[renewed] = loose_[renewed] || vi[renewed].due;
      vi[renewed] = {};
      Strike(renewed);
      changed_[renewed] = unit::clocks();
    }
  }

  void Happen(const Event& e) {
    Vi& x = vi[e.vi];
    const bool owed = x.due;
    switch (e.op) {
      case hvia::kAcknowledgeOperationAccept:
      case hvia::kAcknowledgeOperationAcceptLast:
        if (x.refused) return;
        x.number = e.number;
        x.code = hvia::kAcknowledgeCodeOk;
        x.told = false;
        if (!x.due && ++x.count == kEvery) {
          counted++;
          x.due = true;
        }
        x.due |= e.op == hvia::kAcknowledgeOperationAcceptLast;
        break;
      case hvia::kAcknowledgeOperationOld:
        if (x.refused) return;
        x.number = e.number;
        if (!x.due) x.code = hvia::kAcknowledgeCodeOk;
        x.due = true;
        break;
      case hvia::kAcknowledgeOperationGap:
        if (x.refused) return;
        if (x.told) {
          gaps_once++;
          return;
        }
        x.number = e.number;
        x.code = hvia::kAcknowledgeCodeGap;
        x.due = x.told = true;
        break;
      case hvia::kAcknowledgeOperationNAK:
        if (!x.refused) {
          x.refused = true;
          x.number = e.number;
          x.code = e.code;
          refusals++;
          changed_[e.vi] = unit::clocks();
        } else {
          kept++;
        }
        x.due = true;
        break;
      default:
        x.due |= x.refused;
    }
    merged += owed;
    if (x.due && !owed) order.push_back(e.vi);
  }

  // The next VI is offered, with its state when it left the list.
  void Leave(const Event& e) {
    Vi& x = vi[e.vi];
    if (!x.due) Fail("an acknowledgement for VI %u that is not due", e.vi);
    if (!loose_[e.vi]) {
      for (unsigned v : order) {
        if (v == e.vi) break;
        if (!loose_[v]) Fail("VI %u is acknowledged before VI %u", e.vi, v);
      }
    }
    if (e.number != x.number || e.code != x.code) {
      Fail("VI %u is acknowledged with %08x code %u, want %08x code %u", e.vi, e.number, e.code, x.number, x.code);
    }
    x.due = loose_[e.vi] = false;
    x.count = 0;
    Strike(e.vi);
  }

  // A VI that is renewed while listed keeps its entry until its turn, and uses it for its next
  // event. The outputs do not show when the entry is removed.
  void Strike(unsigned v) {
    auto it = std::find(order.begin(), order.end(), v);
    if (it != order.end()) order.erase(it);
  }

  int connect_ = -1, looked_ = -1;
  bool running_ = false, offered_ = false, taken_ = false, gone_ = false;
  Event offer_;
  std::deque<std::pair<Event, uint64_t>> pending_;
  std::array<bool, kVIs> loose_{};
  std::array<uint64_t, kVIs> changed_{};
  unsigned vis_ = 1, pace_ = 1, ready_ = 1, hard_ = 2, renew_ = 0, age_ = 0;
  uint8_t last_ = 0, lookup_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  Testbench b(unit::options().seed);
  const uint64_t size = unit::options().size;
  for (uint64_t i = 0; i < size; i++) {
    for (int n = 0; n < 10; n++) b.Round(2000);
    b.Full();
  }
  const std::pair<const char*, uint64_t> figures[] = {
      {"sent_ok", b.sent[0]}, {"sent_gap", b.sent[1]}, {"sent_remote_descriptor", b.sent[2]}, {"sent_rdma_protection", b.sent[3]},
      {"sent_transport", b.sent[4]}, {"naks", b.refusals}, {"merged", b.merged}, {"withdrawn", b.withdrawn}, {"forgotten", b.forgotten},
      {"gaps_told_before", b.gaps_once}, {"refusals_after_the_first", b.kept}, {"due_by_count", b.counted}, {"full_lists", b.full},
      {"waited_three_clocks", b.waited[3]}};
  unit::PrintAll(figures, 10);
  return unit::Pass();
}
