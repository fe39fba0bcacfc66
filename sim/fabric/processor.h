// SPDX-License-Identifier: Apache-2.0
// The processor of a node in timed mode. Threads request time in charges. A charge is exclusive and
// waits for those before it. Only an interrupt service starts at once; it delays the end of every
// other charge by its span. The polls of a waiting thread take no time, but a poll that falls into
// another thread's charge happens at the end of the charge.
#pragma once
#include <vector>

#include "sim/fabric/time.h"

namespace hvia::fabric {

class Processor {
 public:
  // Hold is the time assigned to the charge of a slot.
  struct Hold {
    int slot;
    Time begin, end;
    bool service;
  };

  // Assigns time to a charge that is due now. The ends of other holds may change.
  void Charge(int slot, Time now, Time span, bool service);
  void Release(int slot);
  const std::vector<Hold>& Holds() const { return holds_; }
  // The latest end of the holds that contain t, except those of one slot; t if there is none.
  Time BusyUntil(Time t, int except) const;

 private:
  std::vector<Hold> holds_;  // the charge in service and those queued behind it
};

}  // namespace hvia::fabric
