// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/processor.h"

#include <algorithm>

namespace hvia::fabric {

void Processor::Charge(int slot, Time now, Time span, bool service) {
  Hold mine{slot, now, 0, service};
  for (const Hold& h : holds_)
    if (h.service || !mine.service) mine.begin = std::max(mine.begin, h.end);
  mine.end = Later(mine.begin, span);
  // A service interrupts a charge of the same instant, whatever their ranks: that charge has not
  // started.
  for (Hold& h : holds_) {
    if (!mine.service || h.service || h.end <= mine.begin) continue;
    if (h.begin >= mine.begin) h.begin = Later(h.begin, span);
    h.end = Later(h.end, span);
  }
  holds_.push_back(mine);
}

void Processor::Release(int slot) {
  holds_.erase(std::remove_if(holds_.begin(), holds_.end(), [slot](const Hold& h) { return h.slot == slot; }), holds_.end());
}

Time Processor::BusyUntil(Time t, int except) const {
  Time until = t;
  for (const Hold& h : holds_)
    if (h.slot != except && h.begin < t && t < h.end) until = std::max(until, h.end);
  return until;
}

}  // namespace hvia::fabric
