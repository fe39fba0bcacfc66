// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace testbench {

// Totals of the episodes.
struct Totals {
  uint64_t sent = 0, underrun = 0, received = 0, received_bad = 0, rejected = 0, overrun = 0, cut = 0, filtered = 0;
  uint64_t retries = 0, disconnects = 0, parity = 0, parts = 0, wide = 0, narrow = 0, skipped = 0;
};

// RunEpisode sends `frames` frames each way under settings of the seed. It returns a digest of all
// observations and their times. `skip` skips idle clocks, which must not change the digest.
uint64_t RunEpisode(uint64_t seed, bool skip, uint64_t frames, Totals* totals);

}  // namespace testbench
