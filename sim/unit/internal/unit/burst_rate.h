// SPDX-License-Identifier: Apache-2.0

// The average time from one burst's start to the next one's on a PCI bus, for bursts of one length.
// Both buses of the card use this measure, so their figures are comparable.
#pragma once
#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "sim/gen/hvia_layout.h"
#include "sim/model/pci_bus.h"

namespace unit {

class BurstRate {
 public:
  // Bursts of `bytes`: reads or writes of host memory from the master's view.
  BurstRate(uint32_t bytes, bool read) : bytes_(bytes), read_(read) {}

  // Call it once per clock. `measured`: in the clock of an address phase, whether the transaction
  // belongs to the measured master. A transaction of another master counts as delay.
  void Sample(const hvia::PciPins& p, uint64_t clock, bool measured) {
    const bool begins = was_frame_n_ && !p.frame_n();
    was_frame_n_ = p.frame_n();
    if (begins && measured) {
      if (chained_ && moved_ == bytes_ && was_read_ == read_) {
        gaps_++;
        clocks_ += clock - start_;
      }
      chained_ = ours_ = true;
      start_ = clock;
      moved_ = 0;
      const uint8_t command = p.cbe_n & 15;
      was_read_ = command == hvia::kPciCommandMemoryRead || command == hvia::kPciCommandMemoryReadLine ||
                  command == hvia::kPciCommandMemoryReadMultiple;
      return;
    }
    if (begins) ours_ = false;
    if (ours_ && !p.irdy_n() && !p.trdy_n()) moved_ += p.ack64_n() ? 4 : 8;
  }

  // The master was idle: the time to the next burst does not count.
  void Break() { chained_ = false; }

  uint64_t gaps() const { return gaps_; }
  // Thousandths of a clock from a burst's start to the next one's.
  uint64_t MilliClocks() const { return gaps_ == 0 ? 0 : clocks_ * 1000 / gaps_; }
  // 1000 byte/s, for a clock period in picoseconds.
  uint64_t KilobytesPerSecond(int64_t period) const {
    return clocks_ == 0 ? 0 : gaps_ * bytes_ * 1000000000 / (clocks_ * static_cast<uint64_t>(period));
  }
  void Print(const char* name, int64_t period) const {
    std::printf("%s_gaps %" PRIu64 "\n%s_milliclocks %" PRIu64 "\n%s_kb_per_s %" PRIu64 "\n", name, gaps_, name, MilliClocks(), name,
                KilobytesPerSecond(period));
  }

 private:
  uint32_t bytes_;
  bool read_;
  bool was_frame_n_ = true, ours_ = false, chained_ = false, was_read_ = false;
  uint64_t start_ = 0, moved_ = 0, gaps_ = 0, clocks_ = 0;
};

}  // namespace unit
