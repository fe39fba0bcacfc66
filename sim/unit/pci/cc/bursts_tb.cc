// SPDX-License-Identifier: Apache-2.0

// Measures the card's DMA path on the system bus of a profile: 512-byte bursts, reads, writes and
// both at once, and the times of short transactions on an idle bus. Checks all data.
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vbursts_tb.h"
#include "sim/unit/internal/unit/testbench.h"
#include "sim/unit/internal/unit/burst_rate.h"
#include "sim/gen/hvia_params.h"
#include "sim/model/host_bridge.h"
#include "sim/model/pci_bus.h"
#include "sim/model/pci_enumerator.h"

using unit::Fail;

namespace {

constexpr uint32_t kBytes = TB_W / 8;
constexpr uint32_t kPage = 4096;
constexpr uint32_t kMemory = 64 * kPage;
constexpr uint32_t kReadPage = 8 * kPage, kWritePage = 16 * kPage, kShortPage = 24 * kPage;

class Memory : public hvia::HostMemoryPort {
 public:
  explicit Memory(unit::Rng* rng) : bytes(kMemory) {
    for (auto& b : bytes) b = static_cast<uint8_t>(rng->Next());
  }
  uint32_t ReadDword(uint32_t a) override {
    if (a + 4 > kMemory) Fail("read of %08x outside memory", a);
    uint32_t v;
    std::memcpy(&v, &bytes[a], 4);
    return v;
  }
  void WriteDword(uint32_t a, uint32_t data, uint8_t be) override {
    if (a + 4 > kMemory) Fail("write of %08x outside memory", a);
    for (int i = 0; i < 4; i++)
      if (be >> i & 1) bytes[a + static_cast<uint32_t>(i)] = static_cast<uint8_t>(data >> (8 * i));
  }
  void BurstEnd() override {}
  std::vector<uint8_t> bytes;
};

class Testbench {
 public:
  explicit Testbench(const hvia::Params& params)
      : rng(unit::options().seed), memory(&rng), bridge(&memory, hvia::HostBridgeTimingOf(params), static_cast<int>(params.SystemBusBits)),
        bus(static_cast<int>(params.SystemBusBits)), top(new Vbursts_tb), reads(static_cast<uint32_t>(params.DmaBurstBytes), true),
        writes(static_cast<uint32_t>(params.DmaBurstBytes), false) {
    top->rst_ni = 0;
    // Undriven inputs are noise.
    top->s_req_valid_i = top->s_wvalid_i = top->r_job_valid_i = top->w_job_valid_i = top->w_beat_valid_i = 0;
    for (int i = 0; i < 4; i++) {
      top->clk_i = 1;
      top->eval();
      top->clk_i = 0;
      top->eval();
    }
    top->rst_ni = 1;
    hvia::PciEnumerator boot(&bridge, hvia::PciEnumerator::DefaultPlan());
    for (int i = 0; i < 10000 && !boot.done(); i++) {
      Step();
      boot.Step();
    }
    if (!boot.done() || !boot.error().empty()) Fail("enumeration: %s", boot.error().c_str());
  }

  void Step() {
    Resolve();
    Edge();
  }

  // Computes the levels of this clock.
  void Resolve() {
    pins = bus.Clock(hvia::PciCardDrive(*top), bridge.drive(), bridge.gnt_n(), bridge.idsel());
    hvia::PciCardSample(pins, top.get());
    top->eval();
  }

  void Edge() {
    const bool card = hvia::PciCardDrive(*top).oe & hvia::kPciFrame;
    if (measuring) {
      reads.Sample(pins, unit::clocks(), card);
      writes.Sample(pins, unit::clocks(), card);
    }
    busy += !pins.idle();
    Engines();
    top->clk_i = 1;
    top->eval();
    top->clk_i = 0;
    top->eval();
    bridge.Tick(pins);
    unit::clocks()++;
    if (bus.violation_count() != 0) Fail("PCI violation: %s", bus.violations()[0].c_str());
  }

  // Both engines get the next job as soon as they can take it.
  void Engines() {
    top->r_job_valid_i = read_jobs != 0;
    top->r_job_pa_i = kReadPage;
    top->r_job_len_i = hvia::kMaxFrame;
    top->w_job_valid_i = write_jobs != 0;
    top->w_job_pa_i = kWritePage;
    top->w_job_len_i = hvia::kMaxFrame;
    top->w_beat_valid_i = writing;
    uint64_t data = 0;
    for (uint32_t i = 0; i < kBytes; i++) data |= uint64_t{Pattern(job, beat * kBytes + i)} << (8 * i);
    top->w_beat_data_i = static_cast<std::remove_reference_t<decltype(top->w_beat_data_i)>>(data);
    top->eval();
    if (top->r_beat_valid_o) {
      for (uint32_t i = 0; i < top->r_beat_bytes_o; i++, got++) {
        const uint8_t b = static_cast<uint8_t>(uint64_t{top->r_beat_data_o} >> (8 * i));
        if (b != memory.bytes[kReadPage + got]) Fail("read byte %u is %02x, want %02x", got, b, memory.bytes[kReadPage + got]);
      }
    }
    if (top->r_job_done_o) {
      if (top->r_job_err_o != 0 || got != hvia::kMaxFrame) Fail("read job ends with error %d after %u bytes", top->r_job_err_o, got);
      got = 0;
      read_done++;
      reads.Break();
    }
    if (top->r_job_valid_i && top->r_job_ready_o) read_jobs--;
    if (top->w_beat_valid_i && top->w_beat_ready_o) beat++;
    if (top->w_job_done_o) {
      if (top->w_job_err_o != 0) Fail("write job ends with error %d", top->w_job_err_o);
      for (uint32_t i = 0; i < hvia::kMaxFrame; i++)
        if (memory.bytes[kWritePage + i] != Pattern(job, i)) Fail("written byte %u is %02x, want %02x", i, memory.bytes[kWritePage + i], Pattern(job, i));
      writing = false;
      write_done++;
      writes.Break();
    }
    if (top->w_job_valid_i && top->w_job_ready_o) {
      write_jobs--;
      job++;
      beat = 0;
      writing = true;
    }
  }
  static uint8_t Pattern(uint32_t job, uint32_t i) { return static_cast<uint8_t>((job * 131 + i) * 2654435761u >> 13); }

  // Runs jobs of one frame's length. Returns the clocks from the first request to the last answer.
  uint64_t Jobs(uint64_t read, uint64_t write) {
    reads.Break();
    writes.Break();
    measuring = true;
    const uint64_t begin = unit::clocks(), limit = begin + (read + write) * 4000 + 1000;
    read_jobs = read;
    write_jobs = write;
    read_done = write_done = 0;
    while (read_done != read || write_done != write) {
      if (unit::clocks() > limit) Fail("jobs do not end: %" PRIu64 " of %" PRIu64 " reads, %" PRIu64 " of %" PRIu64 " writes", read_done, read, write_done, write);
      Step();
    }
    const uint64_t took = unit::clocks() - begin;
    measuring = false;
    Rest();
    return took;
  }

  void Rest() {
    for (int i = 0; !(top->quiet_o && bridge.quiet()); i++) {
      if (i == 1000) Fail("not quiet 1000 clocks after the last work");
      Step();
    }
    for (uint64_t i = rng.Below(20); i > 0; i--) Step();
  }

  // One request on an idle bus: clocks from the request to its answer, and the busy clocks of the
  // bus among them.
  struct Time {
    uint64_t answer, bus;
  };
  Time Short(bool write, uint32_t bytes) {
    const uint64_t begin = unit::clocks();
    busy = 0;
    bool asked = false, done = false;
    uint32_t beats = (bytes + kBytes - 1) / kBytes;
    while (!done) {
      if (unit::clocks() - begin > 1000) Fail("short %s of %u bytes does not end", write ? "write" : "read", bytes);
      top->s_req_valid_i = !asked;
      top->s_req_write_i = write;
      top->s_req_addr_i = kShortPage;
      top->s_req_len_i = bytes;
      top->s_wvalid_i = write && beats != 0;
      top->s_wdata_i = 0;
      top->s_wstrb_i = bytes >= kBytes ? (1u << kBytes) - 1 : (1u << bytes) - 1;
      Resolve();
      // Outputs of this clock, before its edge.
      const bool taken = top->s_req_valid_i && top->s_req_ready_o, moved = top->s_wvalid_i && top->s_wready_o;
      done = write ? top->s_wdone_o : top->s_rvalid_o && top->rlast_o;
      if ((write && done && top->s_werr_o) || (!write && done && top->rerr_o)) Fail("short transaction failed");
      Edge();
      asked |= taken;
      beats -= moved;
    }
    top->s_req_valid_i = top->s_wvalid_i = 0;
    const uint64_t answer = unit::clocks() - begin;
    Rest();
    return {answer, busy};
  }

  unit::Rng rng;
  Memory memory;
  hvia::HostBridge bridge;
  hvia::PciBus bus;
  std::unique_ptr<Vbursts_tb> top;
  hvia::PciPins pins;
  unit::BurstRate reads, writes;
  bool measuring = false, writing = false;
  uint64_t read_jobs = 0, write_jobs = 0, read_done = 0, write_done = 0, busy = 0;
  uint32_t got = 0, beat = 0, job = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  const hvia::Params& params = hvia::kProfiles[0];
  const int64_t period = params.SystemClockPeriod;
  const uint64_t jobs = unit::options().size;
  auto rate = [&](uint64_t frames, uint64_t clocks) { return frames * hvia::kMaxFrame * 1000000000 / (clocks * static_cast<uint64_t>(period)); };
  {
    Testbench b(params);
    const uint64_t clocks = b.Jobs(jobs, 0);
    b.reads.Print("read", period);
    std::printf("read_frames_kb_per_s %" PRIu64 "\n", rate(jobs, clocks));
    if (b.writes.gaps() != 0) Fail("a write among reads");
  }
  {
    Testbench b(params);
    const uint64_t clocks = b.Jobs(0, jobs);
    b.writes.Print("write", period);
    std::printf("write_frames_kb_per_s %" PRIu64 "\n", rate(jobs, clocks));
  }
  {
    Testbench b(params);
    const uint64_t clocks = b.Jobs(jobs, jobs);
    std::printf("both_frames_kb_per_s %" PRIu64 "\n", rate(2 * jobs, clocks));
  }
  Testbench b(params);
  for (int write = 0; write < 2; write++) {
    for (uint32_t bytes : {4u, 8u, 16u, 64u, 512u}) {
      const Testbench::Time first = b.Short(write, bytes);
      for (int i = 0; i < 10; i++) {
        const Testbench::Time t = b.Short(write, bytes);
        if (t.answer != first.answer || t.bus != first.bus) Fail("%u bytes take %" PRIu64 " clocks, then %" PRIu64, bytes, first.answer, t.answer);
      }
      std::printf("%s_%u_clocks %" PRIu64 "\n%s_%u_bus_clocks %" PRIu64 "\n", write ? "write" : "read", bytes, first.answer,
                  write ? "write" : "read", bytes, first.bus);
    }
  }
  return unit::Pass();
}
