// SPDX-License-Identifier: Apache-2.0
// The work of a host's firmware and driver before a card can be used: identify the card, size and
// place its base address registers, and enable it.
#pragma once
#include <cstdint>
#include <string>

#include "sim/model/host_bridge.h"

namespace hvia {

class PciEnumerator {
 public:
  struct Plan {
    uint32_t bar0;
    uint32_t bar1;
    uint8_t latency_timer = 255;  // never cuts a 512-byte burst
    uint8_t interrupt_line = 11;
    bool parity_response = true;
  };
  // The addresses of the layout.
  static Plan DefaultPlan();

  PciEnumerator(HostBridge* bridge, const Plan& plan);
  // Call it after each Tick of the bridge until done. Meanwhile it takes the bridge's results.
  void Step();
  bool done() const { return state_ == kSteps || !error_.empty(); }
  // Why the card was rejected, or empty.
  const std::string& error() const { return error_; }

 private:
  static constexpr int kSteps = 14;
  void Issue();
  void Check(const HostResult& result);

  HostBridge* bridge_;
  Plan plan_;
  int state_ = 0;
  bool waiting_ = false;
  std::string error_;
};

}  // namespace hvia
