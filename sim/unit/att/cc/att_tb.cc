// SPDX-License-Identifier: Apache-2.0

// Executes operations from stdin, which the Go side streams, on the Verilated translation
// (att_manager, sdram_controller, chip model). Reports the events on stdout in order of simulated
// time. It checks only the SDRAM's rules, waiting times and the statistics. The Go side checks the
// answers.
//
// Arguments: --seed=N, --size=core clock period in ps, +noskip to run every clock, +strap=N for the
// card's straps. +failreads=N and +failwrites=N make the host bus fail all transfers of that kind
// after the first N.
//
// Records are 32 bytes, little-endian. Operations: kind, lane, vi, access (1 byte each), delay, tag
// (2), id, argument, length (4), virtual address (8), 4 reserved; a write is followed by its
// dwords. Events: type, error (1), flags (2), id, address, bytes (4), core clock, time (8).

#include <unistd.h>

#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "Vatt_tb.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/gen/hvia_layout.h"
#include "sim/gen/hvia_params.h"
#include "sim/model/sdram_chip.h"
#include "sim/model/splitmix.h"

namespace {

using hvia::SdramChip;
using hvia::SdramPins;

constexpr int kClients = 3;
constexpr int kUpdateLane = 3;

enum OperationKind : uint8_t { kTranslate = 0, kWrite = 1, kInvalidate = 2, kLimit = 3, kRun = 4, kReset = 5, kFinish = 6 };
enum EventType : uint8_t { eIssue = 0, eResponse = 1, eStart = 2, eDone = 3, eRan = 4, eAborted = 5, eStats = 6 };

struct Operation {
  uint8_t kind, lane, vi, access;
  uint16_t delay, tag;
  uint32_t id, argument, length, reserved;
  uint64_t va;
};
static_assert(sizeof(Operation) == 32);

struct Event {
  uint8_t type, error;
  uint16_t flags;
  uint32_t id, address, bytes;
  uint64_t clock, time;
};
static_assert(sizeof(Event) == 32);

struct Job {
  Operation op;
  std::vector<uint32_t> words;
};

constexpr uint32_t kBusBytes = TB_W / 8;

// Host memory at the host bus: one transfer at a time, at a random pace.
class HostBus {
 public:
  // The separate generator draws in every clock, also in skipped ones, so skipping does not change
  // the run.
  explicit HostBus(uint64_t seed) : rng_(hvia::SplitMix::Mix(seed)), seed_(seed) {
    level1 = rng_.Bits(6) << 26 | rng_.Bits(8) << 12;
    level2 = (level1 ^ 0x80000000u) + (rng_.Bits(8) << 12);
  }

  // Inputs of the card for the next clock.
  template <typename Top>
  void Drive(Top* top) {
    top->bus_req_ready_i = !busy_ && rng_.Chance(1, 2);
    const bool move = busy_ && wait_ == 0;
    top->bus_wready_i = move && write_ && beat_ < beats_ && rng_.Chance(3, 4);
    top->bus_wdone_i = move && write_ && beat_ == beats_;
    top->bus_werr_i = top->bus_wdone_i && fails_;
    // A shown beat stays until taken.
    shown_ = move && !write_ && (shown_ || rng_.Chance(3, 4));
    top->bus_rvalid_i = shown_;
    top->bus_rlast_i = beat_ + 1 == beats_ || fails_;
    top->bus_rerr_i = shown_ && fails_;
    uint64_t data = 0;
    for (uint32_t i = 0; i < kBusBytes; i += 4) data |= static_cast<uint64_t>(Word(At() + i)) << (8 * i);
    top->bus_rdata_i = data;
  }

  // Samples at the clock's edge.
  template <typename Top>
  void Sample(Top* top) {
    if (busy_ && wait_ > 0) wait_--;
    if (top->bus_wready_i && top->bus_wvalid_o) {
      for (uint32_t i = 0; i < kBusBytes; i += 4) {
        const uint32_t lanes = top->bus_wstrb_o >> i & 15, at = At() + i;
        const bool mine = at >= addr_ && at < addr_ + len_;
        if (lanes != (mine ? 15 : 0)) unit::Fail("lanes %x of a write of %u bytes at %08x", lanes, len_, addr_);
        if (mine && !fails_) words_[at] = static_cast<uint32_t>(static_cast<uint64_t>(top->bus_wdata_o) >> (8 * i));
      }
      beat_++;
    } else if (top->bus_wready_i) {
      unit::Fail("a write without its words holds the bus");
    }
    if (top->bus_rvalid_i && top->bus_rready_o) {
      shown_ = false;
      if (++beat_ == beats_ || fails_) busy_ = false;
    }
    if (top->bus_wdone_i) busy_ = false;
    if (top->bus_req_valid_o && top->bus_req_ready_i) {
      busy_ = true;
      transfers_++;
      write_ = top->bus_req_write_o;
      addr_ = top->bus_req_addr_o;
      len_ = top->bus_req_len_o;
      if (!Inside(addr_, len_)) unit::Fail("%u bytes at %08x are none of the table's", len_, addr_);
      uint64_t& left = write_ ? good_writes : good_reads;
      fails_ = left == 0;
      if (left != 0) left--;
      beat_ = 0;
      beats_ = (addr_ % kBusBytes + len_ + kBusBytes - 1) / kBusBytes;
      wait_ = static_cast<unsigned>(rng_.Range(2, 14));
    }
  }

  template <typename Top>
  void Reset(Top* top) {
    busy_ = shown_ = false;
    Drive(top);
    top->bus_req_ready_i = 0;
  }

  bool busy() const { return busy_; }
  uint64_t transfers() const { return transfers_; }
  bool sound() const { return std::min(good_reads, good_writes) > UINT64_MAX / 2; }
  uint32_t level1, level2;
  uint64_t good_reads = UINT64_MAX, good_writes = UINT64_MAX;  // transfers until the bus fails

 private:
  uint32_t At() const { return addr_ / kBusBytes * kBusBytes + beat_ * kBusBytes; }
  bool Inside(uint32_t at, uint32_t len) const {
    const uint32_t half = hvia::kAttLevel2Base;
    return (at - level1 < half && at - level1 + len <= half) || (at - level2 < half && at - level2 + len <= half);
  }
  uint32_t Word(uint32_t at) const {
    const auto it = words_.find(at);
    return it != words_.end() ? it->second : static_cast<uint32_t>(hvia::SplitMix::Mix(seed_ ^ at));
  }

  unit::Rng rng_;
  uint64_t seed_, transfers_ = 0;
  std::unordered_map<uint32_t, uint32_t> words_;
  bool busy_ = false, write_ = false, shown_ = false, fails_ = false;
  uint32_t addr_ = 0, len_ = 0, beat_ = 0, beats_ = 0;
  unsigned wait_ = 0;
};

struct Outstanding {
  uint32_t id;
  uint64_t issued;
};

class Testbench {
 public:
  Testbench(uint64_t seed, int64_t core_period, bool skip, uint32_t straps)
      : rng_(seed),
        params_(*hvia::FindProfile("hvia-ge")),
        core_period_(core_period),
        sd_period_(Slow(straps) ? params_.SdramSlowClockPeriod : params_.SdramClockPeriod),
        jump_unit_(std::lcm(core_period, sd_period_)),
        skip_(skip),
        bus_(seed),
        chip_(Timing(params_, sd_period_), seed, 0,
              [](int64_t t, const std::string& what) { unit::Fail("%" PRId64 " ps: %s", t, what.c_str()); }) {
    // Assertions print to standard output, which carries the events.
    out_ = fdopen(dup(STDOUT_FILENO), "wb");
    if (out_ == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) unit::Fail("cannot move standard output");
    context_.randReset(2);
    context_.randSeed(static_cast<int>(rng_.Bits(31)));
    host_ = straps >> hvia::kStrapAttInHostMemory & 1;
    dut_.host_i = host_;
    dut_.level1_i = bus_.level1;
    dut_.level2_i = bus_.level2;
    dut_.slow_i = Slow(straps);
    dut_.no_overlap_i = straps >> hvia::kStrapNoAttOverlap & 1;
    next_core_ = core_period_;
    next_sd_ = params_.SdramClockPhase;
    Reset(true);
  }

  HostBus& bus() { return bus_; }

  void Serve() {
    for (;;) {
      Job job;
      Read(&job.op, sizeof job.op);
      switch (job.op.kind) {
        case kTranslate:
        case kInvalidate:
        case kLimit:
          lanes_[job.op.lane].push_back(job);
          break;
        case kWrite:
          job.words.resize(job.op.length);
          Read(job.words.data(), job.words.size() * 4);
          lanes_[job.op.lane].push_back(job);
          break;
        case kRun:
          RunAll(UINT64_MAX);
          Emit(eRan, 0, 0);
          Flush();
          break;
        case kReset:
          // A reset comes this many clocks into the queued operations.
          RunAll(job.op.length);
          Abort();
          Reset(false);
          Emit(eRan, 0, 0);
          Flush();
          break;
        case kFinish:
          Finish();
          return;
        default:
          unit::Fail("unknown operation %u", job.op.kind);
      }
    }
  }

 private:
  static bool Slow(uint32_t straps) { return straps >> hvia::kStrapSlowSdram & 1; }
  static hvia::SdramTiming Timing(const hvia::Params& params, int64_t period) {
    hvia::SdramTiming t = hvia::SdramTiming::From(params);
    t.clock = period;
    return t;
  }

  static void Read(void* to, size_t n) {
    if (n != 0 && std::fread(to, 1, n, stdin) != n) unit::Fail("the stream of operations ended early");
  }

  void Emit(EventType type, uint32_t id, uint8_t error, uint32_t address = 0, uint32_t bytes = 0, uint16_t flags = 0) {
    events_.push_back(Event{type, error, flags, id, address, bytes, unit::clocks(), static_cast<uint64_t>(time_)});
  }

  void Flush() {
    if (std::fwrite(events_.data(), sizeof(Event), events_.size(), out_) != events_.size() || std::fflush(out_) != 0) {
      unit::Fail("cannot write the events");
    }
    events_.clear();
  }

  // Resets both domains together and releases them in any order. The neighbours hold their requests
  // until the core is in reset.
  void Reset(bool power_on) {
    frozen_ = true;
    dut_.rst_ni = 1;
    dut_.sd_rst_ni = 1;
    dut_.eval();  // the reset synchronisers act on the falling edge
    const bool core_first = rng_.Chance(1, 2);
    (core_first ? dut_.rst_ni : dut_.sd_rst_ni) = 0;
    dut_.eval();
    const uint64_t skew = power_on ? 0 : rng_.Below(3);
    for (uint64_t i = 0; i < skew; i++) Advance();
    dut_.rst_ni = 0;
    dut_.sd_rst_ni = 0;
    ClearInputs();
    unit::Edge(&dut_, {&dut_.clk_i, &dut_.sd_clk_i});
    chip_.ControllerReset(time_);
    for (uint64_t i = rng_.Range(4, 20); i > 0; i--) Advance();
    (rng_.Chance(1, 2) ? dut_.rst_ni : dut_.sd_rst_ni) = 1;
    dut_.eval();
    for (uint64_t i = rng_.Below(6); i > 0; i--) Advance();
    dut_.rst_ni = 1;
    dut_.sd_rst_ni = 1;
    dut_.eval();
    frozen_ = false;
  }

  void ClearInputs() {
    for (bool& o : offered_) o = false;
    taken_ = 0;
    update_taken_ = false;
    words_.clear();
    word_ = 0;
    word_offered_ = false;
    dut_.req_valid_i = 0;
    dut_.upd_valid_i = 0;
    dut_.upd_wvalid_i = 0;
    bus_.Reset(&dut_);
  }

  void Abort() {
    for (int i = 0; i < kClients + 1; i++) {
      for (const Outstanding& o : outstanding_[i]) Emit(eAborted, o.id, 0);
      outstanding_[i].clear();
      for (const Job& j : lanes_[i]) Emit(eAborted, j.op.id, 0);
      lanes_[i].clear();
      wait_[i] = -1;
    }
  }

  bool Busy() const {
    for (int i = 0; i < kClients + 1; i++) {
      if (!lanes_[i].empty() || !outstanding_[i].empty()) return true;
    }
    return false;
  }

  // Runs the queued operations, for at most the given number of core clocks.
  void RunAll(uint64_t clocks) {
    Drive();
    const uint64_t longest = 4000000;
    stop_ = unit::clocks() + std::min(clocks, longest);
    while (Busy() && unit::clocks() < stop_) Advance();
    if (Busy() && clocks > longest) unit::Fail("operations did not finish within %" PRIu64 " clocks", longest);
    stop_ = UINT64_MAX;
  }

  // Inputs for the next core clock.
  void Drive() {
    bus_.Drive(&dut_);
    for (int i = 0; i < kClients; i++) {
      if (!offered_[i] && !lanes_[i].empty() && outstanding_[i].size() < 2) {
        if (wait_[i] < 0) wait_[i] = lanes_[i].front().op.delay;
        if (wait_[i] == 0) {
          Offer(i, lanes_[i].front().op);
        } else {
          wait_[i]--;
        }
      }
    }
    if (!offered_[kUpdateLane] && !lanes_[kUpdateLane].empty() && outstanding_[kUpdateLane].empty()) {
      const Job& job = lanes_[kUpdateLane].front();
      if (wait_[kUpdateLane] < 0) wait_[kUpdateLane] = job.op.delay;
      if (wait_[kUpdateLane] == 0) {
        offered_[kUpdateLane] = true;
        dut_.upd_valid_i = 1;
        dut_.upd_op_i = job.op.kind == kWrite        ? hvia::kAttUpdateWrite
                        : job.op.kind == kInvalidate ? hvia::kAttUpdateInvalidate
                                                     : hvia::kAttUpdateLimit;
        dut_.upd_arg_i = job.op.argument;
        dut_.upd_count_i = static_cast<uint16_t>(job.op.length);
        word_ = 0;
        slow_words_ = rng_.Chance(1, 3);
        Emit(eStart, job.op.id, 0);
      } else {
        wait_[kUpdateLane]--;
      }
    }
    // Words are offered after their operation. A rejected operation takes none.
    if (!word_offered_ && !outstanding_[kUpdateLane].empty() && word_ < words_.size()) {
      word_offered_ = !slow_words_ || rng_.Chance(1, 4);
    }
    dut_.upd_wvalid_i = word_offered_;
    if (word_offered_) dut_.upd_wdata_i = words_[word_];
    dut_.eval();
  }

  void Offer(int client, const Operation& op) {
    offered_[client] = true;
    issued_[client] = unit::clocks();
    dut_.req_valid_i |= 1u << client;
    SetPart(&dut_.req_handle_i[0], client, op.argument);
    SetPart(&dut_.req_va_i[0], 2 * client, static_cast<uint32_t>(op.va));
    SetPart(&dut_.req_va_i[0], 2 * client + 1, static_cast<uint32_t>(op.va >> 32));
    SetPart(&dut_.req_len_i[0], client, op.length);
    dut_.req_tag_i = (dut_.req_tag_i & ~(0xffffull << (16 * client))) | (static_cast<uint64_t>(op.tag) << (16 * client));
    dut_.req_access_i = (dut_.req_access_i & ~(3u << (2 * client))) | (static_cast<uint32_t>(op.access) << (2 * client));
    dut_.req_vi_i = (dut_.req_vi_i & ~((unit::kVIs - 1) << (VI_COUNT_LOG2 * client))) | ((op.vi & (unit::kVIs - 1)) << (VI_COUNT_LOG2 * client));
    Emit(eIssue, op.id, 0);
  }

  static void SetPart(uint32_t* words, int index, uint32_t value) { words[index] = value; }

  // Samples for the next core edge.
  void Sample() {
    bus_.Sample(&dut_);
    const uint32_t ready = dut_.req_ready_o;
    for (int i = 0; i < kClients; i++) {
      if (offered_[i] && ((ready >> i) & 1)) {
        outstanding_[i].push_back(Outstanding{lanes_[i].front().op.id, issued_[i]});
        lanes_[i].pop_front();
        offered_[i] = false;
        wait_[i] = -1;
        taken_ |= static_cast<uint8_t>(1u << i);
      }
    }
    const uint32_t answered = dut_.rsp_valid_o;
    for (int i = 0; i < kClients; i++) {
      if (((answered >> i) & 1) == 0) continue;
      if (outstanding_[i].empty()) unit::Fail("client %d got an answer that it did not ask for", i);
      const Outstanding o = outstanding_[i].front();
      outstanding_[i].pop_front();
      const uint16_t flags = static_cast<uint16_t>(dut_.stat_level1_read_o | dut_.stat_level2_read_o << 1 |
                                                   std::min<uint64_t>(unit::clocks() - o.issued, 8191) << 2);
      Emit(eResponse, o.id, dut_.rsp_err_o, dut_.rsp_pa_o, dut_.rsp_bytes_o, flags);
    }
    if (dut_.upd_wready_o && word_offered_) {
      word_++;
      word_offered_ = false;
    }
    if (dut_.upd_done_o) {
      if (outstanding_[kUpdateLane].empty()) unit::Fail("an answer without an update");
      if (!dut_.upd_error_o && word_ != words_.size()) unit::Fail("a write ended after %zu of %zu words", word_, words_.size());
      if (dut_.upd_error_o && word_ != 0 && bus_.sound()) unit::Fail("a rejected write took %zu words", word_);
      Emit(eDone, outstanding_[kUpdateLane].front().id, dut_.upd_error_o);
      outstanding_[kUpdateLane].clear();
      words_.clear();
      word_ = 0;
      word_offered_ = false;
    }
    if (offered_[kUpdateLane] && dut_.upd_ready_o) {
      Job& job = lanes_[kUpdateLane].front();
      outstanding_[kUpdateLane].push_back(Outstanding{job.op.id, unit::clocks()});
      words_ = std::move(job.words);
      word_ = 0;
      lanes_[kUpdateLane].pop_front();
      offered_[kUpdateLane] = false;
      wait_[kUpdateLane] = -1;
      update_taken_ = true;
    }
    stats_[0] += dut_.stat_translate_o;
    stats_[1] += dut_.stat_level1_read_o;
    stats_[2] += dut_.stat_level2_read_o;
    stats_[3] += dut_.stat_error_o;
    stats_[4] += dut_.stat_invalidate_o;
    stats_[5] += dut_.stat_refresh_o;
  }

  // One instant at which at least one clock rises.
  void Advance() {
    Skip();
    time_ = std::min(next_core_, next_sd_);
    const bool core = next_core_ == time_, sd = next_sd_ == time_;
    const bool core_live = dut_.rst_ni && !frozen_;
    if (core && core_live) Sample();
    uint32_t dq = 0;
    if (sd) {
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
      dq = chip_.Tick(pins, time_);
    }
    dut_.clk_i = core;
    dut_.sd_clk_i = sd;
    dut_.eval();
    dut_.clk_i = 0;
    dut_.sd_clk_i = 0;
    if (sd) {
      dut_.sd_dq_i = dq;
      dut_.sd_timebase_i = dut_.sd_timebase_i + 1;
      next_sd_ += sd_period_;
    }
    if (core) {
      next_core_ += core_period_;
      unit::clocks()++;
      if (core_live) {
        // Requests accepted at this edge are withdrawn after it.
        dut_.req_valid_i &= static_cast<uint8_t>(~taken_);
        if (update_taken_) dut_.upd_valid_i = 0;
        taken_ = 0;
        update_taken_ = false;
        Drive();
      } else {
        dut_.eval();
      }
    } else {
      dut_.eval();
    }
  }

  // When everything is idle, time jumps to the earliest of the next deadline and the end of a
  // lane's pause, in full periods of both clocks.
  void Skip() {
    if (!skip_ || frozen_ || !dut_.rst_ni || !dut_.sd_rst_ni || !dut_.quiet_o || !dut_.sd_quiet_o) return;
    if (!chip_.Idle()) unit::Fail("quiet while the device delivers data");
    if (bus_.busy() || dut_.bus_req_valid_o) return;  // the card is idle, but the bus is not
    int64_t pause = static_cast<int64_t>(std::min<uint64_t>(stop_ - unit::clocks(), 1 << 20));
    for (int i = 0; i < kClients + 1; i++) {
      if (offered_[i] || word_offered_ || (i == kUpdateLane && !outstanding_[i].empty() && word_ < words_.size())) return;
      if (!lanes_[i].empty() && outstanding_[i].size() < (i == kUpdateLane ? 1u : 2u)) {
        if (wait_[i] < 0) return;
        pause = std::min(pause, wait_[i]);
      }
    }
    const uint64_t deadline = dut_.next_deadline_o, now = dut_.sd_timebase_i;
    if (deadline <= now) return;
    int64_t room = static_cast<int64_t>(std::min<uint64_t>(deadline - now, 1 << 20)) * sd_period_;
    room = std::min(room, pause * core_period_);
    const int64_t units = room / jump_unit_ - 1;
    if (units <= 0) return;
    const int64_t jump = units * jump_unit_;
    next_core_ += jump;
    next_sd_ += jump;
    unit::clocks() += static_cast<uint64_t>(jump / core_period_);
    dut_.sd_timebase_i = now + static_cast<uint64_t>(jump / sd_period_);
    for (int i = 0; i < kClients + 1; i++) {
      if (wait_[i] > 0) wait_[i] -= jump / core_period_;
    }
    dut_.eval();
    jumps_++;
  }

  void Finish() {
    // Waits until refresh and its strobe end. Then everything must be idle.
    skip_ = false;
    int quiet = 0;
    for (int i = 0; i < 4000 && quiet < 8; i++) {
      Advance();
      quiet = dut_.quiet_o && dut_.sd_quiet_o ? quiet + 1 : 0;
    }
    if (quiet < 8) unit::Fail("idle, but not quiet within 4000 edges");
    chip_.CheckRefresh(time_);
    if ((bus_.transfers() != 0) != host_) unit::Fail("%" PRIu64 " transfers on the host bus", bus_.transfers());
    Emit(eStats, 0, 0);
    Flush();
    const uint64_t figures[] = {stats_[0], stats_[1],        stats_[2],        stats_[3],
                                stats_[4], stats_[5],        chip_.refreshes(), chip_.violations(),
                                jumps_,    unit::clocks(),   static_cast<uint64_t>(time_), 0};
    if (std::fwrite(figures, sizeof figures[0], 12, out_) != 12 || std::fflush(out_) != 0) unit::Fail("cannot write the figures");
    dut_.final();
  }

  unit::Rng rng_;
  const hvia::Params& params_;
  const int64_t core_period_, sd_period_, jump_unit_;
  bool skip_, host_ = false;
  HostBus bus_;
  SdramChip chip_;
  unit::Context context_;
  Vatt_tb dut_{&context_};

  int64_t time_ = 0, next_core_ = 0, next_sd_ = 0;
  std::deque<Job> lanes_[kClients + 1];
  std::deque<Outstanding> outstanding_[kClients + 1];
  bool offered_[kClients + 1] = {};
  int64_t wait_[kClients + 1] = {-1, -1, -1, -1};
  uint64_t issued_[kClients] = {};
  std::vector<uint32_t> words_;
  size_t word_ = 0;
  uint64_t stop_ = UINT64_MAX;  // limit of core clocks for the run
  bool word_offered_ = false, slow_words_ = false;
  uint8_t taken_ = 0;
  bool update_taken_ = false;
  bool frozen_ = false;  // during a reset nothing is driven or sampled
  std::vector<Event> events_;
  std::FILE* out_;
  uint64_t stats_[6] = {}, jumps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  bool skip = true;
  uint32_t straps = 0;
  uint64_t good_reads = UINT64_MAX, good_writes = UINT64_MAX;
  const auto number = [](const std::string& argument, const char* name, uint64_t value) {
    return argument.rfind(name, 0) == 0 ? std::strtoull(argument.c_str() + std::strlen(name), nullptr, 0) : value;
  };
  for (int i = 1; i < argc; i++) {
    skip = skip && std::string(argv[i]) != "+noskip";
    straps = static_cast<uint32_t>(number(argv[i], "+strap=", straps));
    good_reads = number(argv[i], "+failreads=", good_reads);
    good_writes = number(argv[i], "+failwrites=", good_writes);
  }
  unit::ParseOptions(argc, argv);
  auto testbench = std::make_unique<Testbench>(unit::options().seed, static_cast<int64_t>(unit::options().size), skip, straps);
  testbench->bus().good_reads = good_reads;
  testbench->bus().good_writes = good_writes;
  testbench->Serve();
  return 0;
}
