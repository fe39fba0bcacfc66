// SPDX-License-Identifier: Apache-2.0
// The processor of a node in timed mode. Threads ask it for time in charges. A
// charge is exclusive and is served after those before it; only an interrupt
// service interrupts it, starts at once and ends everything else that holds or
// awaits the processor later by its span. The polls of a waiting thread take no
// time, but a poll that falls into another thread's charge happens at its end.
#pragma once
#include <vector>

#include "sim/fabric/time.h"

namespace hvia::fabric {

class Processor {
 public:
  // Hold is the time given to the charge of a slot.
  struct Hold {
    int slot;
    Time begin, end;
    bool service;
  };

  // Gives time to a charge that is due now. The ends of other holds may change.
  void Charge(int slot, Time now, Time span, bool service);
  void Release(int slot);
  const std::vector<Hold>& Holds() const { return holds_; }
  // The latest end of the holds that contain t, without those of one slot; t if there is none.
  Time BusyUntil(Time t, int except) const;

 private:
  std::vector<Hold> holds_;  // the charge in service and those queued behind it
};

}  // namespace hvia::fabric
