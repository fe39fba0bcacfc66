// SPDX-License-Identifier: Apache-2.0
// The DP83820's model and a host with memory, on a bus that checks its rules in every clock. --size
// is the number of random episodes.
#include <cinttypes>
#include <cmath>

#include "sim/unit/mac/dp83820/cc/random.h"
#include "sim/unit/mac/dp83820/cc/rig.h"
#include "sim/unit/mac/dp83820/cc/speed.h"

namespace {

constexpr uint64_t kFrames = 60;  // in each direction of an episode

void Print(const char* name, uint64_t value) { std::printf("%s %" PRIu64 "\n", name, value); }

// Tenths of a clock, so that figures are integers.
uint64_t Tenths(double clocks) { return static_cast<uint64_t>(std::lround(10 * clocks)); }

void Speed() {
  for (int bits : {32, 64}) {
    constexpr int64_t kGigabit = 8'000, kFaster = 1'000;  // ps per byte
    constexpr uint64_t kLine = 50;                        // frames
    const testbench::Speeds out = testbench::Measure(bits, true, false, kLine, kGigabit), in = testbench::Measure(bits, false, true, kLine, kGigabit),
                        both = testbench::Measure(bits, true, true, kLine, kGigabit), read = testbench::Measure(bits, true, false, kLine, kFaster),
                        write = testbench::Measure(bits, false, true, kLine, kFaster);
    const std::string w = "_" + std::to_string(bits);
    Print(("read_burst_tenths" + w).c_str(), Tenths(read.read_burst));
    Print(("write_burst_tenths" + w).c_str(), Tenths(write.write_burst));
    Print(("transmit_frame_tenths" + w).c_str(), Tenths(out.transmit_frame));
    Print(("receive_frame_tenths" + w).c_str(), Tenths(in.receive_frame));
    Print(("both_transmit_frame_tenths" + w).c_str(), Tenths(both.transmit_frame));
    Print(("both_receive_frame_tenths" + w).c_str(), Tenths(both.receive_frame));
    Print(("descriptor_read_clocks" + w).c_str(), static_cast<uint64_t>(out.descriptor_read));
    Print(("status_write_clocks" + w).c_str(), static_cast<uint64_t>(out.status_write));
    // The engines alternate burst by burst, so each gets about half of the bus.
    const double share = static_cast<double>(both.read_bytes) / static_cast<double>(both.read_bytes + both.write_bytes);
    if (share < 0.4 || share > 0.6) unit::Fail("the transmitter has %.0f %% of the bus when both request it", 100 * share);
    if (out.retry + in.retry + both.retry != 0) unit::Fail("retries on a bus without any");
  }
}

}  // namespace

int main(int argc, char** argv) {
  unit::ParseOptions(argc, argv);
  unit::Rng rng(unit::options().seed);
  for (int bits : {32, 64}) testbench::Directed(&rng, bits);
  Speed();
  testbench::Totals totals, skipping;
  for (uint64_t i = 0; i < unit::options().size; ++i) {
    const uint64_t seed = rng.Next();
    const uint64_t digest = testbench::RunEpisode(seed, false, kFrames, &totals);
    // Repeats every fourth episode without its idle clocks.
    if (i % 4 == 0 && testbench::RunEpisode(seed, true, kFrames, &skipping) != digest)
      unit::Fail("skipping idle clocks changes episode %" PRIu64 " (its seed %" PRIu64 ")", i, seed);
  }
  Print("sent", totals.sent);
  Print("underruns", totals.underrun);
  Print("received", totals.received);
  Print("received_bad", totals.received_bad);
  Print("rejected", totals.rejected);
  Print("filtered", totals.filtered);
  Print("overruns", totals.overrun);
  Print("cut", totals.cut);
  Print("parts", totals.parts);
  Print("retries", totals.retries);
  Print("disconnects", totals.disconnects);
  Print("parity_errors", totals.parity);
  Print("wide", totals.wide);
  Print("narrow", totals.narrow);
  Print("skipped", skipping.skipped);
  Print("clocks", unit::clocks());
  Print("passed", 1);
  return 0;
}
