// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace bench {

// Totals of what the episodes met.
struct Totals {
  uint64_t sent = 0, underrun = 0, received = 0, received_bad = 0, rejected = 0, overrun = 0, cut = 0, filtered = 0;
  uint64_t retries = 0, disconnects = 0, parity = 0, parts = 0, wide = 0, narrow = 0, skipped = 0;
};

// RunEpisode carries that many frames each way under settings of the seed and
// returns a digest of all that was seen, with its times. `skip` leaves out the
// clocks in which nothing happens, which must not change the digest.
uint64_t RunEpisode(uint64_t seed, bool skip, uint64_t frames, Totals* totals);

}  // namespace bench
