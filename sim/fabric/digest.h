// SPDX-License-Identifier: Apache-2.0
// A 64-bit hash over the events of a run, in their order. A run has three: of the frames, of the
// wakes, and of both with the configuration (see DigestReport).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/model/splitmix.h"

namespace hvia::fabric {

class Digest {
 public:
  void Add(uint64_t v) { state_ = SplitMix(state_ ^ v).Next(); }
  void AddBytes(const uint8_t* p, size_t n) {
    Add(n);
    for (; n >= 8; p += 8, n -= 8) {
      uint64_t v;
      std::memcpy(&v, p, 8);
      Add(v);
    }
    if (n > 0) {
      uint64_t v = 0;
      std::memcpy(&v, p, n);
      Add(v);
    }
  }
  uint64_t Value() const { return state_; }

 private:
  uint64_t state_ = 0x48564941ull;
};

}  // namespace hvia::fabric
