// SPDX-License-Identifier: Apache-2.0

// Big-endian numbers of up to eight bytes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hvia {

inline uint64_t GetBig(const uint8_t* p, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; ++i) v = v << 8 | p[i];
  return v;
}

inline void PutBig(uint8_t* p, uint64_t v, size_t bytes) {
  for (size_t i = bytes; i-- > 0; v >>= 8) p[i] = static_cast<uint8_t>(v);
}

}  // namespace hvia
