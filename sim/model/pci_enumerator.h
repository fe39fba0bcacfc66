// SPDX-License-Identifier: Apache-2.0
// What a host's firmware and driver do before a card can be used: identify it,
// size its base address registers, place them, and switch the card on.
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
    uint8_t latency_timer = 255;  // a 512-byte burst is never cut by it
    uint8_t interrupt_line = 11;
    bool parity_response = true;
  };
  // The addresses of the layout.
  static Plan DefaultPlan();

  PciEnumerator(HostBridge* bridge, const Plan& plan);
  // Call after each Tick of the bridge until done; it takes the bridge's results meanwhile.
  void Step();
  bool done() const { return state_ == kSteps || !error_.empty(); }
  // Empty unless the card was not what it should be.
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
