// SPDX-License-Identifier: Apache-2.0

// SplitMix64, a small seedable generator. A seed repeats a run on any machine.
#pragma once
#include <cstdint>

namespace hvia {

class SplitMix {
 public:
  // Each number advances the generator's state by this.
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;

  explicit SplitMix(uint64_t seed) : state_(seed) {}

  uint64_t Next() { return Mix(state_ += kStep); }

  // Uniform in [0, n); n must not be 0.
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }

  // True once in n on average.
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  // The generator's output function, usable as a hash: every input bit affects every output bit.
  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace hvia
