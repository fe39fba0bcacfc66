// SPDX-License-Identifier: Apache-2.0

// Drives the collector of asynchronous errors with reports at every density, up to all sources in
// one clock. A model checks every output in every clock: it has a slot for each source, and the
// lowest goes first. A source does not report again before its turn. The size is thousands of
// clocks.

#include <array>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>

#include "Vhvia_async_errors.h"
#include "sim/unit/internal/unit/testbench.h"

namespace {

constexpr int kSources = TB_Sources;

struct Place {
  bool waits = false;
  uint8_t code = 0, vi = 0;
  uint64_t since = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unit::Start(argc, argv);
  unit::Rng rng(unit::options().seed);
  Vhvia_async_errors dut;
  std::array<Place, kSources> places;
  std::map<std::string, uint64_t> figures;
  unsigned rate = 0;
  bool burst = false;

  dut.rst_ni = 0;
  unit::Edge(&dut, {&dut.clk_i});
  for (uint64_t n = 0; n < unit::options().size * 1000; n++) {
    unit::clocks()++;
    // New rates every few hundred clocks, and sometimes a reset.
    if (n % 256 == 0) {
      rate = rng.Below(65);
      burst = rng.Chance(1, 4);
    }
    const bool reset = n < 2 || rng.Chance(1, 500);
    dut.rst_ni = !reset;
    int first = -1, waiting = 0;
    for (int s = kSources - 1; s >= 0; s--) {
      if (places[s].waits) first = s;
      waiting += places[s].waits;
    }

    // Fields without a valid report are random.
    const bool all = burst && rng.Chance(1, 16);
    std::array<Place, kSources> offered;
    unsigned valid = 0;
    uint64_t code = 0, vi = 0;
    for (int s = 0; s < kSources; s++) {
      Place& o = offered[s];
      o.code = rng.Bits(8);
      o.vi = rng.Bits(8);
      code |= static_cast<uint64_t>(o.code) << 8 * s;
      vi |= static_cast<uint64_t>(o.vi) << 8 * s;
      // A source may report in the clock in which its last report leaves.
      const bool may = !reset && (!places[s].waits || first == s);
      o.waits = may && (all || (!burst && rng.Below(256) < rate));
      o.since = unit::clocks();
      if (o.waits) valid |= 1u << s;
      if (o.waits && places[s].waits) figures["cover_reports_again"]++;
    }
    if (valid == (1u << kSources) - 1) figures["cover_all_at_once"]++;
    dut.valid_i = valid;
    dut.code_i = code;
    dut.vi_i = vi;
    dut.clk_i = 0;
    dut.eval();

    CHECK(dut.async_valid_o == (first >= 0), "valid is %d with %d waiting", dut.async_valid_o, waiting);
    if (first >= 0) {
      const Place& p = places[first];
      CHECK(dut.async_code_o == p.code && dut.async_vi_o == p.vi, "code %u of VI %u, want %u, %u of source %d",
            dut.async_code_o, dut.async_vi_o, p.code, p.vi, first);
      figures["reports"]++;
      figures["cover_source_" + std::to_string(first)]++;
      const uint64_t wait = unit::clocks() - p.since;
      if (wait > figures["longest_wait"]) figures["longest_wait"] = wait;
    }
    for (int s = 0; s < kSources; s++) {
      CHECK((dut.ready_o >> s & 1) == (!places[s].waits || first == s), "ready of source %d is %d", s, dut.ready_o >> s & 1);
    }
    CHECK(dut.quiet_o == (waiting == 0 && valid == 0), "quiet is %d with %d waiting, %x reported", dut.quiet_o, waiting,
          valid);
    if (waiting == kSources) figures["cover_all_wait"]++;

    if (first >= 0) places[first].waits = false;
    for (int s = 0; s < kSources; s++) {
      if (offered[s].waits) places[s] = offered[s];
      if (reset) places[s].waits = false;
    }
    dut.clk_i = 1;
    dut.eval();
  }
  figures["clocks"] = unit::clocks();
  return unit::Pass(figures);
}
