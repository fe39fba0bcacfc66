// SPDX-License-Identifier: Apache-2.0
// Simulated time: signed picoseconds. The cards boot before time 0.
#pragma once
#include <cstdint>

namespace hvia::fabric {

using Time = int64_t;
constexpr Time kNever = INT64_MAX;

inline Time Later(Time t, Time span) { return span > kNever - t ? kNever : t + span; }

// The order within one instant. A thread whose event happened wakes first: its commands of that
// instant must reach the cards before the cards' events. A timeout comes after those, because a
// write at the deadline's instant wins. Processor time is assigned last.
enum class Phase : int { kWake = 0, kCommand = 1, kDevice = 2, kTimeout = 3, kCharge = 4 };

struct Instant {
  Time time = kNever;
  Phase phase = Phase::kTimeout;
  bool operator<(const Instant& o) const { return time != o.time ? time < o.time : phase < o.phase; }
  bool operator==(const Instant& o) const { return time == o.time && phase == o.phase; }
};

}  // namespace hvia::fabric
