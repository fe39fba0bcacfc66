// SPDX-License-Identifier: Apache-2.0

// Drives the clock crossings of cdc_tb with random clock ratios and phases, pauses and
// back-pressure on both sides, and resets of either side during traffic. Every word must come out
// once and in order, but no word from before a reset may come out after it. The size is the number
// of words per lane.

#include <deque>
#include <memory>

#include "Vcdc_tb.h"
#include "sim/unit/internal/unit/testbench.h"

namespace {

constexpr int kLanes = 3;

class Testbench {
 public:
  Testbench(uint64_t seed, uint64_t words) : rng_(seed), wanted_(words) {
    context_.randSeed(static_cast<int>(rng_.Bits(31)));
    context_.randReset(2);
  }

  void Run() {
    Retune();
    Reset(true, true, true);
    while (moved_[0] < wanted_ || moved_[1] < wanted_ || moved_[2] < wanted_) {
      if (rng_.Chance(1, 2000)) Retune();
      if (rng_.Chance(1, 4000)) Reset(rng_.Chance(1, 2), rng_.Chance(1, 2), false);
      if (rng_.Chance(1, 3000)) Rest();
      Advance(true);
    }
    Rest();
    auto figure = [](const char* name, uint64_t v) { std::printf("%s %" PRIu64 "\n", name, v); };
    figure("handshake_words", moved_[0]);
    figure("fifo2_words", moved_[1]);
    figure("fifo16_words", moved_[2]);
    figure("fifo2_full", full_[1]);
    figure("fifo16_full", full_[2]);
    figure("fifo16_most", most_[2]);
    figure("resets", resets_);
    figure("rests", rests_);
    figure("passed", 1);
    dut_.final();
  }

 private:
  // New clocks and new rates on both sides.
  void Retune() {
    src_period_ = static_cast<int64_t>(rng_.Range(2, 41));
    dst_period_ = rng_.Chance(1, 8) ? src_period_ : static_cast<int64_t>(rng_.Range(2, 41));
    src_next_ = time_ + 1 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(src_period_)));
    dst_next_ = rng_.Chance(1, 8) ? src_next_ : time_ + 1 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(dst_period_)));
    for (int i = 0; i < kLanes; i++) {
      offer_[i] = Habit();
      accept_[i] = Habit();
    }
  }

  // Always, mostly, one in four, rarely.
  unsigned Habit() {
    const unsigned choice[] = {16, 12, 4, 1};
    return choice[rng_.Below(4)];
  }

  void Reset(bool src, bool dst, bool power_on) {
    if (!src && !dst) src = true;
    dut_.src_rst_ni = 1;
    dut_.dst_rst_ni = 1;
    dut_.eval();  // the reset synchronisers act on the falling edge
    if (src) dut_.src_rst_ni = 0;
    if (dst) dut_.dst_rst_ni = 0;
    dut_.src_valid_i = src ? 0 : dut_.src_valid_i;
    dut_.eval();
    for (auto& f : flight_) f.clear();
    if (!power_on) resets_++;
    for (int i = 0; i < kLanes; i++) {
      if (((dut_.src_ready_o | dut_.dst_valid_o) >> i) & 1) unit::Fail("lane %d offers or takes words in reset", i);
    }
    // A side that is not in reset keeps requesting. Meanwhile nothing may move.
    const uint64_t src_from = unit::clocks(), dst_from = dst_edges_;
    for (uint64_t i = rng_.Range(1, 20); i > 0 || unit::clocks() == src_from || dst_edges_ == dst_from; i -= i > 0) Advance(false);
    if (src && dst) {
      (rng_.Chance(1, 2) ? dut_.src_rst_ni : dut_.dst_rst_ni) = 1;
      dut_.eval();
      for (uint64_t i = rng_.Below(10); i > 0; i--) Advance(false);
    }
    dut_.src_rst_ni = 1;
    dut_.dst_rst_ni = 1;
    dut_.eval();
  }

  // Without new words and with a ready sink all words must come out within a bound. Then nothing
  // may move.
  void Rest() {
    rests_++;
    for (int i = 0; i < kLanes; i++) accept_[i] = 16;
    resting_ = true;
    const bool stall = rng_.Chance(1, 3);
    if (stall) {
      // Words that a stalled sink leaves inside also count as rest.
      for (int i = 0; i < kLanes; i++) accept_[i] = 0;
    }
    const uint64_t from = dst_edges_;
    while (dst_edges_ == from) Advance(true);  // until the new readiness is on the pins
    int edges = 0;
    while (!Quiet(stall)) {
      Advance(true);
      if (++edges > 3000) unit::Fail("not quiet after %d edges without new words (quiet %x %x)", edges, dut_.src_quiet_o, dut_.dst_quiet_o);
    }
    const uint32_t valid = dut_.dst_valid_o, ready = dut_.src_ready_o;
    for (int i = 0; i < 20; i++) {
      Advance(true);
      if (!Quiet(stall) || dut_.dst_valid_o != valid || dut_.src_ready_o != ready) unit::Fail("a signal moved while quiet");
    }
    for (int i = 0; i < kLanes; i++) {
      if (!stall && !flight_[i].empty()) unit::Fail("lane %d is quiescent with %zu words inside", i, flight_[i].size());
      if (stall && !flight_[i].empty() && !((dut_.dst_valid_o >> i) & 1)) unit::Fail("lane %d: quiet, and a word never arrives", i);
    }
    resting_ = false;
    Retune();
  }

  bool Quiet(bool stall) const {
    return (stall || dut_.src_valid_i == 0) && dut_.src_quiet_o == 7 && dut_.dst_quiet_o == 7;
  }

  uint32_t Source(int lane) const { return lane == 0 ? dut_.src_data0_i : lane == 1 ? dut_.src_data1_i : dut_.src_data2_i; }
  uint32_t Sink(int lane) const { return lane == 0 ? dut_.dst_data0_o : lane == 1 ? dut_.dst_data1_o : dut_.dst_data2_o; }

  // One instant at which at least one clock rises.
  void Advance(bool live) {
    time_ = std::min(src_next_, dst_next_);
    const bool src = src_next_ == time_, dst = dst_next_ == time_;
    uint32_t pushed = 0, popped = 0;
    // The sink first: a word may come out only if it went in at an earlier instant.
    if (dst) popped = dut_.dst_valid_o & dut_.dst_ready_i;
    for (int i = 0; i < kLanes; i++) {
      if (((popped >> i) & 1) == 0) continue;
      if (!live) unit::Fail("lane %d: a word came out during reset", i);
      if (flight_[i].empty()) unit::Fail("lane %d: word %06x came out but was not sent", i, Sink(i));
      if (flight_[i].front() != Sink(i)) unit::Fail("lane %d: word %06x came out, want %06x", i, Sink(i), flight_[i].front());
      flight_[i].pop_front();
      moved_[i]++;
    }
    if (src) pushed = dut_.src_valid_i & dut_.src_ready_o;
    for (int i = 0; i < kLanes; i++) {
      if ((pushed >> i) & 1) {
        if (!live) unit::Fail("lane %d: a word was taken during reset", i);
        flight_[i].push_back(Source(i));
        most_[i] = std::max<uint64_t>(most_[i], flight_[i].size());
      } else if (src && ((dut_.src_valid_i >> i) & 1)) {
        full_[i]++;
      }
    }
    dut_.src_clk_i = src;
    dut_.dst_clk_i = dst;
    dut_.eval();
    dut_.src_clk_i = 0;
    dut_.dst_clk_i = 0;
    if (src) {
      unit::clocks()++;
      src_next_ += src_period_;
      uint8_t valid = static_cast<uint8_t>(dut_.src_valid_i & ~pushed);
      for (int i = 0; i < kLanes; i++) {
        if (((valid >> i) & 1) || resting_ || !dut_.src_rst_ni || !rng_.Chance(offer_[i], 16)) continue;
        valid |= static_cast<uint8_t>(1 << i);
        const uint32_t word = rng_.Bits(24);
        (i == 0 ? dut_.src_data0_i : i == 1 ? dut_.src_data1_i : dut_.src_data2_i) = word;
      }
      dut_.src_valid_i = valid;
    }
    if (dst) {
      dst_edges_++;
      dst_next_ += dst_period_;
      uint8_t ready = 0;
      for (int i = 0; i < kLanes; i++) {
        if (rng_.Chance(accept_[i], 16)) ready |= static_cast<uint8_t>(1 << i);
      }
      dut_.dst_ready_i = ready;
    }
    dut_.eval();
  }

  unit::Rng rng_;
  const uint64_t wanted_;
  unit::Context context_;
  Vcdc_tb dut_{&context_};
  std::deque<uint32_t> flight_[kLanes];
  uint64_t moved_[kLanes] = {}, full_[kLanes] = {}, most_[kLanes] = {}, resets_ = 0, rests_ = 0, dst_edges_ = 0;
  unsigned offer_[kLanes] = {}, accept_[kLanes] = {};
  int64_t time_ = 0, src_period_ = 0, dst_period_ = 0, src_next_ = 0, dst_next_ = 0;
  bool resting_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  unit::ParseOptions(argc, argv);
  std::make_unique<Testbench>(unit::options().seed, unit::options().size)->Run();
  return 0;
}
