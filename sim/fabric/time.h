// SPDX-License-Identifier: Apache-2.0
// Simulated time: signed picoseconds. The cards boot before time 0.
#pragma once
#include <cstdint>

namespace hvia::fabric {

using Time = int64_t;
constexpr Time kNever = INT64_MAX;

// The order of what happens at one instant. Waking a thread that saw what it
// waited for comes first, because its commands of that instant must reach the
// cards before their own events; a wait that ends for want of anything else
// comes after those, because a write at the deadline's instant wins. When an
// instant is over, the threads that asked for processor time in it are given theirs.
enum class Phase : int { kWake = 0, kCommand = 1, kDevice = 2, kTimeout = 3, kCharge = 4 };

struct Instant {
  Time time = kNever;
  Phase phase = Phase::kTimeout;
  bool operator<(const Instant& o) const { return time != o.time ? time < o.time : phase < o.phase; }
  bool operator==(const Instant& o) const { return time == o.time && phase == o.phase; }
};

}  // namespace hvia::fabric
