// SPDX-License-Identifier: Apache-2.0

// Drives sdram_controller with random requests against the chip model and a shadow memory: first at
// the card's SDRAM clock, then with the slow clock and its clock counts. The size is the number of
// requests of the first run.

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "Vhvia_sdram_controller.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_params.h"
#include "sim/model/sdram_chip.h"
#include "sim/model/splitmix.h"

namespace {

using hvia::SdramChip;
using hvia::SdramPins;
using hvia::SplitMix;

struct Request {
  bool write;
  uint32_t addr;
  int len;
  std::vector<uint32_t> data;  // to write, or expected
  uint64_t asked = 0;          // clock of the first offer
};

class Testbench {
 public:
  Testbench(uint64_t seed, uint64_t requests, bool slow)
      : rng_(seed),
        params_(*hvia::FindProfile("hvia-ge")),
        slow_(slow),
        period_(slow ? params_.SdramSlowClockPeriod : params_.SdramClockPeriod),
        rcd_(slow ? params_.SdramSlowRcdClocks : params_.SdramRcdClocks),
        rp_(slow ? params_.SdramSlowRpClocks : params_.SdramRpClocks),
        chip_(Timing(params_, period_), seed, 0,
              [this](int64_t t, const std::string& what) { Fail(t, what); }),
        wanted_(requests) {
    dut_.timebase_i = rng_.Below(1u << 30);
    dut_.slow_i = slow;
  }

  void Run() {
    context_.randSeed(static_cast<int>(rng_.Next() >> 33));
    context_.randReset(2);
    Reset();
    bool reset_done = false;
    while (done_ < wanted_) {
      Clock();
      if (!reset_done && done_ == wanted_ / 2) {
        // A reset during traffic loses everything in flight; written data stays.
        reset_done = true;
        Reset();
      }
    }
    // An idle stretch: refresh continues, by jumps from deadline to deadline.
    dut_.req_valid_i = 0;
    dut_.hint_valid_i = 0;
    dut_.eval();
    const int64_t idle_from = time_;
    const uint64_t before = chip_.refreshes();
    const uint64_t clocks_before = unit::clocks();
    while (time_ - idle_from < 2000 * params_.SdramRefreshTime) Clock();
    chip_.CheckRefresh(time_);
    const uint64_t idle_refreshes = chip_.refreshes() - before;
    if (idle_refreshes < 1995 || idle_refreshes > 2005) {
      Fail(time_, "idle stretch of 2000 refresh times had " + std::to_string(idle_refreshes) + " refreshes");
    }
    if ((unit::clocks() - clocks_before) > 2000 * 40) {
      Fail(time_, "idle stretch took " + std::to_string(unit::clocks() - clocks_before) + " clocks: quiet comes too late");
    }
    if (stat_refresh_ != chip_.refreshes()) Fail(time_, "stat_refresh_o counted " + std::to_string(stat_refresh_));
    if (stat_activate_ != chip_.activates()) Fail(time_, "stat_activate_o counted " + std::to_string(stat_activate_));
    const auto figure = [this](const char* name, uint64_t v) { std::printf("%s%s %" PRIu64 "\n", slow_ ? "slow_" : "", name, v); };
    figure("requests", done_);
    figure("reads", chip_.reads());
    figure("writes", chip_.writes());
    figure("activates", chip_.activates());
    figure("refreshes", chip_.refreshes());
    figure("clocks", unit::clocks() - started_);
    figure("jumps", jumps_);
    figure("reads_of_open_row", fastest_[0]);
    figure("reads_of_closed_bank", fastest_[1]);
    figure("reads_behind_other_row", fastest_[2]);
    figure("fastest_read_of_8", static_cast<uint64_t>(stream_));
    dut_.final();
  }

 private:
  static hvia::SdramTiming Timing(const hvia::Params& params, int64_t period) {
    hvia::SdramTiming t = hvia::SdramTiming::From(params);
    t.clock = period;
    return t;
  }

  [[noreturn]] void Fail(int64_t t, const std::string& what) {
    unit::Fail("%" PRId64 " ps: %s", t, what.c_str());
  }

  void Reset() {
    dut_.rst_ni = 0;
    dut_.req_valid_i = 0;
    dut_.hint_valid_i = 0;
    dut_.wvalid_i = 0;
    current_.reset();
    expected_.clear();
    beats_ = 0;
    unit::Edge(&dut_, {&dut_.clk_i});
    chip_.ControllerReset(time_);
    // The newest word may have been in flight to the pins at the reset.
    shadow_.erase(last_word_);
    for (int i = 0; i < 3; i++) Edge();
    dut_.rst_ni = 1;
    dut_.eval();
    bool before = true;
    while (!dut_.init_done_o) {
      Edge();
      if (before && dut_.quiet_o) {
        before = false;  // one jump through the power-up wait
        Jump();
      }
    }
    if (before) Fail(time_, "the power-up wait is not quiet");
  }

  void Jump() {
    if (!chip_.Idle()) Fail(time_, "quiet while the device delivers data");
    const uint64_t now = dut_.timebase_i;
    if (dut_.next_deadline_o > now + 1) {
      const uint64_t room = dut_.next_deadline_o - now;
      const uint64_t skip = rng_.OneIn(4) ? rng_.Below(room) : room - 1;
      time_ += static_cast<int64_t>(skip) * period_;
      jumps_ += skip != 0;
      dut_.timebase_i = now + skip;
      dut_.eval();
    }
  }

  // One rising edge: the chip and the controller both see the levels before it.
  void Edge() {
    time_ += period_;
    unit::clocks()++;
    SdramPins pins;
    pins.cke = dut_.sd_cke_o;
    pins.cs_n = dut_.sd_cs_n_o;
    pins.ras_n = dut_.sd_ras_n_o;
    pins.cas_n = dut_.sd_cas_n_o;
    pins.we_n = dut_.sd_we_n_o;
    pins.ba = dut_.sd_ba_o;
    pins.a = dut_.sd_a_o;
    pins.dqm = dut_.sd_dqm_o;
    pins.dq = dut_.sd_dq_o;
    pins.dq_oe = dut_.sd_dq_oe_o;
    const uint32_t dq = chip_.Tick(pins, time_);
    stat_refresh_ += dut_.stat_refresh_o;
    stat_activate_ += dut_.stat_activate_o;
    dut_.clk_i = 1;
    dut_.eval();
    dut_.clk_i = 0;
    dut_.sd_dq_i = dq;
    dut_.timebase_i = dut_.timebase_i + 1;
    dut_.eval();
  }

  uint32_t Expected(uint32_t addr) {
    auto it = shadow_.find(addr);
    if (it != shadow_.end()) return it->second;
    const int bank = static_cast<int>(((addr >> 23) & 1) << 1 | ((addr >> 10) & 1));
    return chip_.Peek(bank, static_cast<int>((addr >> 11) & 0xfff), static_cast<int>(addr & 0x3ff));
  }

  Request NewRequest() {
    Request r;
    r.write = rng_.OneIn(2);
    r.len = 1 + static_cast<int>(rng_.Below(8));
    // Mostly few addresses, so that rows hit and miss, and words are accessed again.
    const uint32_t wide = static_cast<uint32_t>(rng_.Below(1u << 24));
    const uint32_t near = (static_cast<uint32_t>(rng_.Below(16)) << 20) | (wide & 0xfff);
    r.addr = rng_.OneIn(8) ? wide : near;
    if ((r.addr & 0x3ff) + r.len > 0x400) r.addr -= 8;
    return r;
  }

  void Clock() {
    // Phases of the traffic: no pause, some, many.
    if (rng_.OneIn(500)) pause_ = static_cast<int>(rng_.Below(3));
    if (!current_ && (pause_ == 0 || rng_.OneIn(pause_ == 1 ? 3 : 12)) && done_ < wanted_) {
      current_ = std::make_unique<Request>(NewRequest());
      if (current_->write) {
        for (int i = 0; i < current_->len; i++) current_->data.push_back(static_cast<uint32_t>(rng_.Next()));
      } else {
        // The shadow already has the data of earlier writes still in flight.
        for (int i = 0; i < current_->len; i++) current_->data.push_back(Expected(current_->addr + i));
      }
      current_->asked = asked_ = unit::clocks();
      beat_ = 0;
      offered_ = false;
    }
    dut_.req_valid_i = current_ != nullptr;
    if (current_) {
      dut_.req_write_i = current_->write;
      dut_.req_addr_i = current_->addr;
      dut_.req_len_i = current_->len;
      if (!offered_) offered_ = current_->write && (pause_ == 0 || rng_.OneIn(3));
      dut_.wvalid_i = offered_;
      dut_.wdata_i = offered_ ? current_->data[beat_] : static_cast<uint32_t>(rng_.Next());
    } else {
      dut_.wvalid_i = 0;
    }
    dut_.hint_valid_i = rng_.OneIn(10);
    if (dut_.hint_valid_i) dut_.hint_addr_i = NewRequest().addr;
    dut_.eval();

    const bool taken = dut_.req_ready_o;
    const bool word = dut_.wready_o;
    if (dut_.rvalid_o) {
      if (expected_.empty() && !(current_ && !current_->write)) Fail(time_, "read data without a request");
      const Request& r = expected_.empty() ? *current_ : expected_.front();
      if (dut_.rdata_o != r.data[beats_]) {
        char text[128];
        std::snprintf(text, sizeof text, "read of dword %#x beat %zu: got %#x, want %#x", r.addr, beats_,
                      dut_.rdata_o, r.data[beats_]);
        Fail(time_, text);
      }
      beats_++;
      const bool last = beats_ == static_cast<size_t>(r.len);
      if (last != static_cast<bool>(dut_.rlast_o)) Fail(time_, "rlast_o on the wrong beat");
      if (last) {
        if (r.len == 1) NoteLatency(unit::clocks() - r.asked);
        if (expected_.empty()) Fail(time_, "the last beat came before the request was taken");
        expected_.erase(expected_.begin());
        beats_ = 0;
      }
    }
    if (word) {
      if (!offered_) Fail(time_, "a word was taken that was not offered");
      last_word_ = current_->addr + static_cast<uint32_t>(beat_);
      shadow_[last_word_] = current_->data[beat_];
      beat_++;
      offered_ = false;
    }
    if (taken) {
      if (current_->write && beat_ != current_->len) Fail(time_, "a write ended before its last word");
      if (!current_->write) {
        if (current_->len == 8) {
          const int n = static_cast<int>(unit::clocks() - asked_) + 1;
          if (stream_ == 0 || n < stream_) stream_ = n;
        }
        expected_.push_back(*current_);
      }
      current_.reset();
      done_++;
    }
    Edge();
    if (dut_.quiet_o && !current_) Jump();
    if (current_ && unit::clocks() - asked_ > 400) Fail(time_, "a request waits for more than 400 clocks");
  }

  // Minimum latency of single reads by the row's state. The classes differ by the clocks of ACTIVE
  // and PRECHARGE.
  void NoteLatency(uint64_t clocks) {
    fastest_[0] += clocks == 4;
    fastest_[1] += clocks == static_cast<uint64_t>(4 + rcd_);
    fastest_[2] += clocks == static_cast<uint64_t>(4 + rcd_ + rp_);
    if (clocks < 4) Fail(time_, "read data before the device can have it");
  }

  SplitMix rng_;
  const hvia::Params& params_;
  const bool slow_;
  const int64_t period_, rcd_, rp_;
  const uint64_t started_ = unit::clocks();
  SdramChip chip_;
  unit::Context context_;
  Vhvia_sdram_controller dut_{&context_};
  std::unordered_map<uint32_t, uint32_t> shadow_;
  std::unique_ptr<Request> current_;
  std::vector<Request> expected_;
  uint64_t wanted_, done_ = 0, asked_ = 0, jumps_ = 0;
  uint64_t stat_refresh_ = 0, stat_activate_ = 0;
  size_t beats_ = 0;
  uint32_t last_word_ = 0;
  int beat_ = 0, pause_ = 0, stream_ = 0;
  int fastest_[3] = {0, 0, 0};
  bool offered_ = false;
  int64_t time_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unit::ParseOptions(argc, argv);
  std::make_unique<Testbench>(unit::options().seed, unit::options().size, false)->Run();
  std::make_unique<Testbench>(unit::options().seed, unit::options().size / 2, true)->Run();
  return unit::Pass();
}
